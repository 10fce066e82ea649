//! The keys that HOTKEYS tracks: which take the most processor time and the most bytes of requests
//! and replies, from HOTKEYS START to HOTKEYS STOP. Unlike TIDEWIRE.TOP, which always runs, it
//! looks at every command, or at one in so many as the client wants; all lanes share one sketch.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidewire_keyspace::Command;
use tidewire_resp::Arguments;

use crate::attention::{Attention, Obstacles};

/// The tracked keys, if tracking was started and its result was not reset.
#[derive(Debug, Default)]
pub(crate) struct HotKeys(Mutex<Option<Tracking>>);

/// What HOTKEYS START asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrackingOptions {
    pub(crate) by_time: bool,
    pub(crate) by_bytes: bool,
    /// Keys that HOTKEYS GET shows.
    pub(crate) count: usize,
    /// Tracking ends by itself after this time; 0 for never.
    pub(crate) duration_ms: i64,
    /// One command in this many is looked at.
    pub(crate) sample: u64,
}

/// One run of HOTKEYS, under way or ended.
#[derive(Clone, Debug)]
pub(crate) struct Tracking {
    pub(crate) options: TrackingOptions,
    pub(crate) is_active: bool,
    /// Ms since the UNIX epoch.
    pub(crate) started_ms: i64,
    /// How long it ran, if it has ended.
    ran_ms: i64,
    /// Of all commands with keys.
    pub(crate) time_ns: u64,
    pub(crate) bytes: u64,
    /// Processor time of the process at the start, in user and system mode, s.
    pub(crate) processor_s: [f64; 2],
    pub(crate) times: Sketch,
    pub(crate) traffic: Sketch,
    random: u64,
}

/// The keys with the greatest sums. A new key takes the place of the one with the least, and its
/// sum (space-saving).
#[derive(Clone, Debug, Default)]
pub(crate) struct Sketch {
    sums: HashMap<Box<[u8]>, u64, RandomState>,
    keys_max: usize,
    /// The sum over all keys.
    pub(crate) total: u64,
}

impl HotKeys {
    /// Starts tracking; returns false if it is under way.
    pub(crate) fn start(
        &self,
        attention: &Attention,
        options: TrackingOptions,
        now_ms: i64,
        processor_s: [f64; 2],
    ) -> bool {
        let mut tracking = self.0.lock();
        if tracking.as_mut().is_some_and(|one| one.goes_on(now_ms)) {
            return false;
        }
        *tracking = Some(Tracking {
            options,
            is_active: true,
            started_ms: now_ms,
            ran_ms: 0,
            time_ns: 0,
            bytes: 0,
            processor_s,
            times: Sketch::new(options.count * KEYS_FACTOR),
            traffic: Sketch::new(options.count * KEYS_FACTOR),
            random: now_ms as u64,
        });
        attention.set(Obstacles::HOT_KEYS, true);
        true
    }

    /// Stops tracking; returns false if it is not under way.
    pub(crate) fn stop(&self, attention: &Attention, now_ms: i64) -> bool {
        let mut tracking = self.0.lock();
        attention.set(Obstacles::HOT_KEYS, false);
        let Some(tracking) = tracking.as_mut() else {
            return false;
        };
        let was_active = tracking.goes_on(now_ms);
        if was_active {
            tracking.end(now_ms);
        }
        was_active
    }

    /// Forgets the result; returns false if tracking is under way.
    pub(crate) fn reset(&self, now_ms: i64) -> bool {
        let mut tracking = self.0.lock();
        if tracking.as_mut().is_some_and(|one| one.goes_on(now_ms)) {
            return false;
        }
        *tracking = None;
        true
    }

    /// Returns the run that is under way, or the last one.
    pub(crate) fn look(&self, now_ms: i64) -> Option<Tracking> {
        let mut tracking = self.0.lock();
        let tracking = tracking.as_mut()?;
        tracking.goes_on(now_ms);
        Some(tracking.clone())
    }

    /// Notes an executed command.
    #[cold]
    pub(crate) fn note(
        &self,
        attention: &Attention,
        command: &'static Command,
        arguments: Arguments<'_>,
        ns: u64,
        reply_bytes: usize,
        now_ms: i64,
    ) {
        let keys = command.key_positions(arguments).count() as u64;
        if keys == 0 {
            return;
        }
        let mut tracking = self.0.lock();
        let Some(tracking) = tracking.as_mut().filter(|one| one.is_active) else {
            return;
        };
        if !tracking.goes_on(now_ms) {
            attention.set(Obstacles::HOT_KEYS, false);
            return;
        }
        let bytes = request_bytes(arguments) + reply_bytes as u64;
        tracking.time_ns += ns;
        tracking.bytes += bytes;
        if !tracking.is_sampled() {
            return;
        }
        for at in command.key_positions(arguments) {
            let key = arguments.get(at).unwrap_or_default();
            if tracking.options.by_time {
                tracking.times.add(key, ns / keys);
            }
            if tracking.options.by_bytes {
                tracking.traffic.add(key, bytes / keys);
            }
        }
    }
}

impl Tracking {
    /// Returns whether it is under way; ends it if its time is over.
    fn goes_on(&mut self, now_ms: i64) -> bool {
        let age_ms = now_ms.saturating_sub(self.started_ms);
        if self.is_active && (1..=age_ms).contains(&self.options.duration_ms) {
            self.end(now_ms);
        }
        self.is_active
    }

    fn end(&mut self, now_ms: i64) {
        self.is_active = false;
        self.ran_ms = now_ms.saturating_sub(self.started_ms);
    }

    /// Returns for how long it has run.
    pub(crate) fn ran_ms(&self, now_ms: i64) -> i64 {
        match self.is_active {
            true => now_ms.saturating_sub(self.started_ms),
            false => self.ran_ms,
        }
    }

    fn is_sampled(&mut self) -> bool {
        // SplitMix64: a sample of every tenth command would miss keys in a program's fixed order.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.random;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ word >> 31).is_multiple_of(self.options.sample)
    }
}

impl Sketch {
    fn new(keys_max: usize) -> Self {
        Sketch {
            keys_max,
            ..Sketch::default()
        }
    }

    fn add(&mut self, key: &[u8], amount: u64) {
        self.total += amount;
        if let Some(sum) = self.sums.get_mut(key) {
            *sum += amount;
            return;
        }
        let mut sum = amount;
        if self.sums.len() >= self.keys_max {
            let least = self.sums.iter().min_by_key(|(_, sum)| **sum);
            if let Some((key, least)) = least.map(|(key, sum)| (key.clone(), *sum)) {
                self.sums.remove(&key);
                sum += least;
            }
        }
        self.sums.insert(key.into(), sum);
        debug_assert!(self.sums.len() <= self.keys_max);
    }

    /// Returns the keys with the greatest sums, at most `count`, each sum in units of `unit`.
    pub(crate) fn top(&self, count: usize, unit: u64) -> Vec<(&[u8], u64)> {
        let sums = self.sums.iter().map(|(key, sum)| (&**key, sum / unit));
        let mut top: Vec<_> = sums.filter(|&(_, sum)| sum > 0).collect();
        top.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        top.truncate(count);
        top
    }
}

/// Returns the bytes of a request on the wire.
fn request_bytes(arguments: Arguments<'_>) -> u64 {
    let digits = |length: usize| u64::from(length.checked_ilog10().unwrap_or(0)) + 1;
    let word = |word: &[u8]| digits(word.len()) + word.len() as u64 + 5;
    3 + digits(arguments.len()) + arguments.iter().map(word).sum::<u64>()
}

/// Keys that are tracked for each one that is shown: more of them make the sums more exact.
const KEYS_FACTOR: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_keeps_the_keys_with_the_greatest_sums() {
        let mut sketch = Sketch::new(10);
        for round in 0..100u32 {
            sketch.add(b"hot", 50);
            sketch.add(b"warm", 20);
            sketch.add(&round.to_be_bytes(), 1);
        }
        let top = sketch.top(2, 1);
        assert_eq!((top[0].0, top[1].0), (&b"hot"[..], &b"warm"[..]));
        assert_eq!((top[0].1, sketch.total), (5_000, 7_100));
        assert_eq!(sketch.top(10, 1_000), [(&b"hot"[..], 5), (b"warm", 2)]);
    }

    #[test]
    fn tracking_ends_by_itself_after_its_duration() {
        let (keys, attention) = (HotKeys::default(), Attention::default());
        let options = TrackingOptions {
            by_time: true,
            by_bytes: false,
            count: 10,
            duration_ms: 1_000,
            sample: 1,
        };
        assert!(keys.start(&attention, options, 5_000, [0.0; 2]));
        assert!(!keys.start(&attention, options, 5_999, [0.0; 2]));
        assert!(!keys.reset(5_999));
        let ended = keys.look(6_000).expect("it was started");
        assert_eq!((ended.is_active, ended.ran_ms(9_000)), (false, 1_000));
        assert!(!keys.stop(&attention, 6_000) && keys.reset(6_000));
        assert!(keys.look(6_000).is_none());
    }
}
