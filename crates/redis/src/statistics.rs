//! Statistics of commands: each lane counts its own, and a reader adds them up.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_keyspace::commands::table;
use tidewire_keyspace::{Command, Flags};

/// The counters of all lanes.
#[derive(Debug)]
pub(crate) struct Statistics {
    lanes: Vec<LaneStatistics>,
    errors: Mutex<Errors>,
}

/// Error replies by their first word.
#[derive(Debug, Default)]
struct Errors {
    counts: BTreeMap<String, u64>,
    /// How many distinct ones there were when they became too many. No more are counted until the
    /// next reset.
    forgotten: u64,
}

/// The counters of one lane, by the commands' numbers. Only the lane writes, so
/// that a counter is raised by a load and a store; a reader may be a moment late.
#[derive(Debug)]
pub(crate) struct LaneStatistics {
    slots: Box<[Slot]>,
}

/// One lane's counters of a command.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Which of its calls are timed: [`SAMPLED`], [`NEXT`] or [`EVERY`].
    timing: AtomicU8,
    calls: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    /// Calls that were timed, and how long they took.
    timed: AtomicU64,
    timed_ns: AtomicU64,
    /// Timed calls by the power of two of their ns, each split in four.
    histogram: OnceLock<Box<[AtomicU32; BUCKETS]>>,
}

/// The counters of a command, added up over all lanes.
#[derive(Clone, Debug)]
pub(crate) struct CommandCounts {
    pub(crate) calls: u64,
    pub(crate) rejected: u64,
    pub(crate) failed: u64,
    timed: u64,
    timed_ns: u64,
    histogram: [u64; BUCKETS],
}

impl Statistics {
    pub(crate) fn new(lanes: usize) -> Self {
        let lane = |_| LaneStatistics {
            slots: (0..=table::COUNT).map(Slot::new).collect(),
        };
        Self {
            // One more for what the link to the master executes.
            lanes: (0..=lanes).map(lane).collect(),
            errors: Mutex::default(),
        }
    }

    /// Counters of a command on the lane that calls this, and on no other.
    #[inline]
    pub(crate) fn of(&self, lane: usize, command: &'static Command) -> &Slot {
        self.lanes[lane].slot(command)
    }

    /// Counters of a command that the master has sent; for the thread that follows it.
    pub(crate) fn of_master(&self, command: &'static Command) -> &Slot {
        self.lanes[self.lanes.len() - 1].slot(command)
    }

    /// Counts an error reply by its first word. Too many distinct ones are no errors that anybody
    /// expects, but a script's or a client's own texts: then all are forgotten, and those to come
    /// are not counted until the next reset. Returns what was forgotten, to be told.
    #[cold]
    pub(crate) fn note_error(&self, text: &str) -> Option<Vec<String>> {
        let word = text.split(' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        if errors.forgotten > 0 {
            return None;
        }
        if let Some(count) = errors.counts.get_mut(word) {
            *count += 1;
            return None;
        }
        if errors.counts.len() < ERRORS_MAX {
            let word = word.chars().take(ERROR_CHARS_MAX).collect();
            errors.counts.insert(word, 1);
            debug_assert!(errors.counts.len() <= ERRORS_MAX, "words have their bound");
            return None;
        }
        let counts = std::mem::take(&mut errors.counts);
        errors.counts.insert(ERRORS_OFF.to_owned(), 1);
        debug_assert_eq!(
            counts.len(),
            ERRORS_MAX,
            "words are forgotten when the list is full"
        );
        errors.forgotten = counts.len() as u64;
        Some(counts.into_keys().collect())
    }

    /// Error replies by their first word.
    pub(crate) fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.errors.lock();
        let counts = errors.counts.iter();
        counts.map(|(word, count)| (word.clone(), *count)).collect()
    }

    /// Distinct errors that have been forgotten because there were too many.
    pub(crate) fn forgotten_errors(&self) -> u64 {
        self.errors.lock().forgotten
    }

    /// Commands that have been called or refused, by their full names.
    pub(crate) fn commands(&self) -> Vec<(&'static str, CommandCounts)> {
        let counts = |command: &Command| {
            let mut counts = CommandCounts::none();
            let slots = self.lanes.iter().map(|lane| lane.slot(command));
            slots.for_each(|slot| counts.add(slot));
            counts
        };
        let all = table::with_parts().iter();
        let mut named: Vec<_> = all
            .map(|command| (command.full_name, counts(command)))
            .filter(|(_, counts)| counts.calls + counts.rejected > 0)
            .collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        named
    }

    /// Time that commands took, of all lanes, as far as it is known.
    pub(crate) fn microseconds(&self) -> u64 {
        let commands = self.commands();
        let us = |counts: &CommandCounts| (counts.mean_us() * counts.calls as f64) as u64;
        commands.iter().map(|(_, counts)| us(counts)).sum()
    }

    /// Times have not been kept until now, and are from now on: of every command the next call is
    /// timed, so that there is something to show.
    pub(crate) fn time_next(&self) {
        for slot in self.lanes.iter().flat_map(|lane| &lane.slots) {
            let _ =
                slot.timing
                    .compare_exchange(SAMPLED, NEXT, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Sets everything to zero. What a lane counts at this moment may survive.
    pub(crate) fn reset(&self) {
        self.lanes
            .iter()
            .flat_map(|lane| &lane.slots)
            .for_each(Slot::reset);
        *self.errors.lock() = Errors::default();
    }
}

impl LaneStatistics {
    #[inline]
    fn slot(&self, command: &Command) -> &Slot {
        &self.slots[usize::from(command.number).min(table::COUNT)]
    }
}

impl Slot {
    /// Creates the slot of a command by its number. The last slot is of commands outside the table.
    fn new(number: usize) -> Self {
        let command = table::with_parts().get(number);
        let is_brief = command
            .is_some_and(|command| command.has(Flags::FAST) || BRIEF.contains(&command.full_name));
        Slot {
            timing: AtomicU8::new(if is_brief { SAMPLED } else { EVERY }),
            ..Slot::default()
        }
    }

    /// Whether the next call is one of those that are timed.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        calls.is_multiple_of(TIMED_EVERY) || self.timing.load(Ordering::Relaxed) != SAMPLED
    }

    /// Counts a call.
    #[inline]
    pub(crate) fn called(&self) {
        raise(&self.calls, 1);
    }

    /// Counts a call that ended with an error.
    pub(crate) fn failed(&self) {
        raise(&self.failed, 1);
    }

    /// Counts a call that was refused before it began.
    pub(crate) fn rejected(&self) {
        raise(&self.rejected, 1);
    }

    /// A call that was counted was refused before it had an effect.
    pub(crate) fn taken_back(&self) {
        let calls = self.calls.load(Ordering::Relaxed).saturating_sub(1);
        self.calls.store(calls, Ordering::Relaxed);
        self.rejected();
    }

    /// Counts how long a call took; `tracks` says whether by how many took how long as well.
    pub(crate) fn took(&self, ns: u64, tracks: bool) {
        raise(&self.timed, 1);
        raise(&self.timed_ns, ns);
        if !tracks {
            return;
        }
        if self.timing.load(Ordering::Relaxed) == NEXT {
            self.timing.store(SAMPLED, Ordering::Relaxed);
        }
        let histogram = self
            .histogram
            .get_or_init(|| Box::new([const { AtomicU32::new(0) }; BUCKETS]));
        let bucket = &histogram[bucket_of(ns)];
        let count = bucket.load(Ordering::Relaxed).saturating_add(1);
        bucket.store(count, Ordering::Relaxed);
    }

    fn reset(&self) {
        for counter in [
            &self.calls,
            &self.rejected,
            &self.failed,
            &self.timed,
            &self.timed_ns,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        if let Some(histogram) = self.histogram.get() {
            histogram
                .iter()
                .for_each(|bucket| bucket.store(0, Ordering::Relaxed));
        }
    }
}

impl CommandCounts {
    fn none() -> Self {
        Self {
            calls: 0,
            rejected: 0,
            failed: 0,
            timed: 0,
            timed_ns: 0,
            histogram: [0; BUCKETS],
        }
    }

    fn add(&mut self, slot: &Slot) {
        self.calls += slot.calls.load(Ordering::Relaxed);
        self.rejected += slot.rejected.load(Ordering::Relaxed);
        self.failed += slot.failed.load(Ordering::Relaxed);
        self.timed += slot.timed.load(Ordering::Relaxed);
        self.timed_ns += slot.timed_ns.load(Ordering::Relaxed);
        if let Some(histogram) = slot.histogram.get() {
            for (own, bucket) in self.histogram.iter_mut().zip(&histogram[..]) {
                *own += u64::from(bucket.load(Ordering::Relaxed));
            }
        }
    }

    /// Microseconds of one call, on average over those that were timed.
    pub(crate) fn mean_us(&self) -> f64 {
        match self.timed {
            0 => 0.0,
            timed => self.timed_ns as f64 / timed as f64 / 1_000.0,
        }
    }

    /// Whether it is known how many calls took how long.
    pub(crate) fn has_percentiles(&self) -> bool {
        self.histogram.iter().any(|count| *count > 0)
    }

    /// Microseconds that a part of the calls stays below.
    pub(crate) fn percentile_us(&self, percentile: f64) -> f64 {
        let total: u64 = self.histogram.iter().sum();
        let wanted = (percentile / 100.0 * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.histogram.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return bucket_end_ns(bucket) as f64 / 1_000.0;
            }
        }
        0.0
    }

    /// How many calls took at most a number of microseconds, in powers of two; scaled from the
    /// timed calls to all calls.
    pub(crate) fn cumulated(&self) -> Vec<(u64, u64)> {
        let total: u64 = self.histogram.iter().sum();
        let mut rows = Vec::new();
        let (mut seen, mut last) = (0, 0);
        let mut limit_us = 1;
        for (bucket, count) in self.histogram.iter().enumerate() {
            // Buckets end at powers of two: a microsecond counts as 1,024 ns.
            while bucket_end_ns(bucket) > limit_us * 1_024 {
                if seen > last {
                    rows.push((limit_us, seen));
                    last = seen;
                }
                limit_us *= 2;
            }
            seen += count;
            if seen == total {
                break;
            }
        }
        if total > 0 && seen > last {
            rows.push((limit_us, seen));
        }
        for (_, count) in &mut rows {
            *count = (u128::from(*count) * u128::from(self.calls) / u128::from(total)) as u64;
        }
        debug_assert!(
            rows.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1),
            "a longer time has as many calls at least"
        );
        rows
    }
}

#[inline]
fn raise(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// Four buckets for each power of two.
fn bucket_of(ns: u64) -> usize {
    let ns = ns.clamp(4, u64::from(u32::MAX) * 64);
    let power = ns.ilog2();
    let quarter = (ns >> (power - 2)) & 3;
    debug_assert!(
        power >= 2 && quarter < 4,
        "four buckets to each power of two, from 4 ns on"
    );
    ((power - 2) as usize * 4 + quarter as usize).min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn bucket_end_ns(bucket: usize) -> u64 {
    debug_assert!(bucket < BUCKETS, "a bucket that there is");
    let (power, quarter) = (bucket / 4 + 2, bucket as u64 % 4);
    ((quarter + 5) << (power - 2)) - 1
}

/// One call in a few is timed.
const SAMPLED: u8 = 0;
/// The next call is timed, and then one in a few.
const NEXT: u8 = 1;
/// Its time may grow with the data: every call is timed.
const EVERY: u8 = 2;
/// Looking at the clock twice costs a tenth of a fast command.
const TIMED_EVERY: u64 = 16;
/// Commands without the flag `fast` whose time does not grow with the data either.
const BRIEF: [&str; 6] = ["set", "setex", "psetex", "mset", "publish", "ping"];
/// Up to minutes.
const BUCKETS: usize = 144;
/// Distinct first words of errors, as Redis has it.
const ERRORS_MAX: usize = 128;
const ERROR_CHARS_MAX: usize = 64;
/// The name that replaces all errors once there are too many.
const ERRORS_OFF: &str = "ERRORSTATS_DISABLED";

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_keyspace::lookup;

    #[test]
    fn lanes_are_added_up() {
        let statistics = Statistics::new(2);
        let get = lookup(b"get").unwrap();
        for lane in [0, 1, 1] {
            statistics.of(lane, get).called();
        }
        statistics.of(0, get).failed();
        let list = lookup(b"config").unwrap().subcommands()[0..1]
            .first()
            .unwrap();
        statistics.of(1, list).rejected();
        let commands = statistics.commands();
        let names: Vec<_> = commands.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [list.full_name, "get"]);
        let counts = &commands[1].1;
        assert_eq!((counts.calls, counts.failed, counts.rejected), (3, 1, 0));
        statistics.reset();
        assert!(statistics.commands().is_empty());
    }

    #[test]
    fn every_command_has_a_place_of_its_own() {
        let statistics = Statistics::new(1);
        let mut count = 0;
        for command in table::with_parts() {
            statistics.of(0, command).called();
            count += 1;
        }
        assert_eq!(statistics.commands().len(), count);
    }

    #[test]
    fn times_fall_into_buckets_that_hold_them() {
        for ns in [4, 5, 7, 8, 100, 1_023, 1_024, 999_999, 1 << 37] {
            let bucket = bucket_of(ns);
            assert!(bucket_end_ns(bucket) >= ns);
            assert!(bucket == 0 || bucket_end_ns(bucket - 1) < ns, "{ns}");
        }
        let slot = Slot::default();
        for ns in [900, 1_500, 1_500, 9_000] {
            slot.called();
            slot.took(ns, true);
        }
        let mut counts = CommandCounts::none();
        counts.add(&slot);
        assert!((counts.mean_us() - 3.225).abs() < 1e-9);
        assert_eq!(counts.cumulated(), [(1, 1), (2, 3), (16, 4)]);
        assert!((counts.percentile_us(50.0) - 1.535).abs() < 1e-9);
        assert_eq!(counts.percentile_us(100.0), 10.239);
    }

    #[test]
    fn words_of_errors_are_bounded() {
        let statistics = Statistics::new(1);
        let note = |number: usize| statistics.note_error(&format!("E{number} text"));
        assert!(
            (0..ERRORS_MAX)
                .chain([7])
                .all(|number| note(number).is_none())
        );
        assert!(statistics.errors().contains(&("E7".to_owned(), 2)));
        let told: Vec<_> = (0..1_000).filter_map(note).collect();
        assert_eq!((told.len(), told[0].len()), (1, ERRORS_MAX));
        assert_eq!(statistics.errors(), [(ERRORS_OFF.to_owned(), 1)]);
        statistics.reset();
        assert!(note(7).is_none());
        assert_eq!(statistics.errors().len(), 1);
    }

    #[test]
    fn a_command_is_timed_at_its_next_call_once_times_are_kept() {
        let statistics = Statistics::new(1);
        let get = lookup(b"get").unwrap();
        let slot = statistics.of(0, get);
        slot.called();
        assert!(!slot.is_timed());
        statistics.time_next();
        assert!(slot.is_timed());
        slot.took(1_000, true);
        assert!(!slot.is_timed());
        assert!(statistics.commands()[0].1.has_percentiles());
        statistics.reset();
        slot.called();
        assert!(!statistics.commands()[0].1.has_percentiles());
    }
}
