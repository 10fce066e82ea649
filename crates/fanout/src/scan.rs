//! The current values of all topics that a pattern or prefix matches, given in slices.
//!
//! A subscription to a million topics must not hold up the other clients of its lane. So it does
//! nothing per topic at first: a [`Scan`] walks over the topics turn by turn. For each slice it
//! sets the interest of the topics that match, and writes their values. The listeners have the
//! subscription from the beginning, so the news of a topic that already has the lane's interest
//! may arrive before the scan does.
//!
//! Topics that are defined later are not scanned: the lane has their interest from the start, so
//! their first news arrives like any other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidewire_keyspace::glob;
use tidewire_zmtp::prefixes::PrefixTable;

use crate::frames::How;
use crate::topic::{TopicId, Topics};

/// The scans of one subscriber.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    patterns: HashMap<Arc<[u8]>, Scan, RandomState>,
    /// Patterns in the order of their subscriptions; those whose scan is over are skipped.
    waiting: VecDeque<Arc<[u8]>>,
    /// One scan for many prefixes: a ZeroMQ peer may have a hundred thousand. Only the last one is
    /// unfinished.
    prefixes: VecDeque<Scan>,
    /// Prefixes for the next such scan.
    new_prefixes: Vec<Box<[u8]>>,
}

/// One walk over the topics.
#[derive(Debug)]
pub(crate) struct Scan {
    wanted: Wanted,
    /// Where the walk is: a source's place, and a topic's number in it.
    place: usize,
    next: u32,
    /// One past the last number to look at, per source.
    ends: [u32; TopicId::PLACES],
    /// Number of values written.
    written: usize,
    /// The values written lately. Older news of their topics may still arrive.
    trail: VecDeque<Slice>,
}

#[derive(Debug)]
enum Wanted {
    Every,
    Pattern {
        text: Arc<[u8]>,
        /// Whether topics that it matches are made.
        asks: bool,
    },
    Prefixes {
        all: PrefixTable<()>,
        /// Those for which topics are made.
        asking: PrefixTable<()>,
    },
}

/// Some topics whose current values were written together.
#[derive(Debug)]
struct Slice {
    place: usize,
    /// Number and written version of each, in ascending order of the numbers.
    written: Vec<(u32, u64)>,
    /// Monotonic time in nanoseconds.
    written_ns: u64,
}

/// Numbers of topics to look at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) place: usize,
    pub(crate) from: u32,
    pub(crate) until: u32,
}

/// What a scan says of a topic that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scanned {
    /// Nothing.
    Unknown,
    /// The scan has written this version lately.
    Written(u64),
    /// The scan has yet to reach it, and then writes its value.
    Ahead,
}

impl Scans {
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty() && self.prefixes.is_empty() && self.new_prefixes.is_empty()
    }

    /// Owes the current values of the topics that a new pattern matches.
    pub(crate) fn add_pattern(&mut self, text: &[u8], topics: &Topics) {
        let scan = Scan::of_pattern(text, topics);
        if !scan.is_done() {
            let text: Arc<[u8]> = text.into();
            self.waiting.push_back(text.clone());
            self.patterns.insert(text, scan);
        }
    }

    /// Owes the current values of the topics that a new prefix matches.
    pub(crate) fn add_prefix(&mut self, prefix: &[u8]) {
        self.new_prefixes.push(prefix.into());
    }

    pub(crate) fn remove_pattern(&mut self, text: &[u8]) {
        self.patterns.remove(text);
    }

    /// Ends the scan for a prefix. What it has written stays known, because another prefix may
    /// match the same topics.
    pub(crate) fn remove_prefix(&mut self, prefix: &[u8]) {
        self.new_prefixes.retain(|other| **other != *prefix);
        for scan in &mut self.prefixes {
            if let Wanted::Prefixes { all, asking } = &mut scan.wanted {
                asking.remove_pair(prefix, ());
                all.remove_pair(prefix, ());
                if all.is_empty() {
                    scan.place = TopicId::PLACES;
                }
            }
        }
    }

    /// Returns the scan to go on with.
    pub(crate) fn unfinished(&mut self, topics: &Topics) -> Option<&mut Scan> {
        self.prefixes.pop_back_if(|scan| scan.is_over());
        let has_scan = self.prefixes.back().is_some_and(|scan| !scan.is_done());
        if !has_scan && !self.new_prefixes.is_empty() {
            let scan = Scan::of_prefixes(&std::mem::take(&mut self.new_prefixes), topics);
            self.prefixes.push_back(scan);
        }
        if let Some(scan) = self.prefixes.back_mut().filter(|scan| !scan.is_done()) {
            return Some(scan);
        }
        while let Some(text) = self.waiting.front().cloned() {
            match self.patterns.get(&text) {
                Some(scan) if !scan.is_done() => return self.patterns.get_mut(&text),
                Some(scan) if scan.is_over() => drop(self.patterns.remove(&text)),
                _ => {}
            }
            self.waiting.pop_front();
        }
        None
    }

    /// Returns whether [`Scans::unfinished`] may find a scan.
    pub(crate) fn may_be_unfinished(&self) -> bool {
        let last = self.prefixes.back();
        !self.waiting.is_empty()
            || !self.new_prefixes.is_empty()
            || last.is_some_and(|scan| !scan.is_done())
    }

    /// Returns what the scans say of a topic that a subscriber gets in this way.
    pub(crate) fn look(&self, id: TopicId, how: &How) -> Scanned {
        match how {
            How::Pattern(text) => {
                let scan = self.patterns.get(text);
                scan.map_or(Scanned::Unknown, |scan| scan.look(id))
            }
            // Another prefix may match the topic too. Its news is not held back: if this one is
            // cancelled first, nothing would replace it.
            How::Prefix => {
                let looks = self.prefixes.iter().map(|scan| scan.look(id));
                let known = looks.filter(|look| *look != Scanned::Ahead).max();
                known.unwrap_or(Scanned::Unknown)
            }
            How::Channel | How::Shard => Scanned::Unknown,
        }
    }

    /// Forgets values written before `until_ns`, and scans that are over. Returns whether any are
    /// left.
    pub(crate) fn forget(&mut self, until_ns: u64) -> bool {
        self.prefixes.retain_mut(|scan| {
            scan.forget(until_ns);
            !scan.is_over()
        });
        self.patterns.retain(|_, scan| {
            scan.forget(until_ns);
            !scan.is_over()
        });
        !self.is_empty()
    }
}

impl Scan {
    /// Begins a scan of all topics that exist now.
    pub(crate) fn of_all(topics: &Topics) -> Self {
        Self::new(Wanted::Every, b"", topics)
    }

    fn of_pattern(text: &[u8], topics: &Topics) -> Self {
        let wanted = Wanted::Pattern {
            text: text.into(),
            asks: topics.makes(literal(text)),
        };
        Self::new(wanted, literal(text), topics)
    }

    fn of_prefixes(prefixes: &[Box<[u8]>], topics: &Topics) -> Self {
        let (mut all, mut asking) = (PrefixTable::new(), PrefixTable::new());
        for prefix in prefixes {
            all.insert(prefix, ());
            if topics.makes(prefix) {
                asking.insert(prefix, ());
            }
        }
        let head = match prefixes {
            [only] => only,
            _ => &b""[..],
        };
        Self::new(Wanted::Prefixes { all, asking }, head, topics)
    }

    /// Begins a scan of the topics whose names may begin with `head`.
    fn new(wanted: Wanted, head: &[u8], topics: &Topics) -> Self {
        let is_every = matches!(wanted, Wanted::Every);
        let count = |place| {
            // A subscription is owed the second name that it asks for.
            if place == TopicId::SECONDS && !is_every {
                return None;
            }
            let source = topics.at(place)?;
            let prefix = source.prefix();
            let may_match = head.starts_with(prefix) || prefix.starts_with(head);
            may_match.then(|| source.count())
        };
        let mut scan = Self {
            wanted,
            place: 0,
            next: 0,
            ends: std::array::from_fn(|place| count(place).unwrap_or(0)),
            written: 0,
            trail: VecDeque::new(),
        };
        scan.settle();
        scan
    }

    /// Returns whether every topic was looked at.
    pub(crate) fn is_done(&self) -> bool {
        self.place == TopicId::PLACES
    }

    fn is_over(&self) -> bool {
        self.is_done() && self.trail.is_empty()
    }

    /// Returns up to `most` topics to look at; `None` at the end.
    pub(crate) fn stretch(&self, most: u32) -> Option<Stretch> {
        let end = *self.ends.get(self.place)?;
        debug_assert!(self.next < end, "a finished source is left");
        debug_assert!(most > 0, "a stretch goes on");
        Some(Stretch {
            place: self.place,
            from: self.next,
            until: end.min(self.next.saturating_add(most)),
        })
    }

    /// Returns whether the scan is for topics of this name.
    pub(crate) fn wants(&self, channel: &[u8]) -> bool {
        match &self.wanted {
            Wanted::Every => true,
            Wanted::Pattern { text, .. } => glob::matches(text, channel),
            Wanted::Prefixes { all, .. } => all.covers(channel),
        }
    }

    /// Returns whether the scan makes the topic of this name, if that exists only on demand.
    pub(crate) fn asks(&self, channel: &[u8]) -> bool {
        match &self.wanted {
            Wanted::Every => false,
            Wanted::Pattern { text, asks } => *asks && glob::matches(text, channel),
            Wanted::Prefixes { asking, .. } => asking.covers(channel),
        }
    }

    /// Returns how its subscriber gets the values.
    pub(crate) fn how(&self) -> How {
        match &self.wanted {
            Wanted::Pattern { text, .. } => How::Pattern(text.clone()),
            Wanted::Prefixes { .. } | Wanted::Every => How::Prefix,
        }
    }

    /// Notes that the topics of the current source below `until` were looked at, and which values
    /// were written. Returns these if the scan is too small to keep them itself.
    pub(crate) fn advance(
        &mut self,
        until: u32,
        written: Vec<(u32, u64)>,
        now_ns: u64,
    ) -> Vec<(u32, u64)> {
        debug_assert!(until >= self.next, "a scan only goes on");
        debug_assert!(written.is_sorted(), "topics come in order");
        let is_here = |(number, _): &(u32, u64)| (self.next..until).contains(number);
        debug_assert!(written.iter().all(is_here), "only these were looked at");
        self.next = until;
        self.written += written.len();
        let place = self.place;
        self.settle();
        if written.is_empty() || self.written <= SMALL_VALUES {
            return written;
        }
        self.trail.push_back(Slice {
            place,
            written,
            written_ns: now_ns,
        });
        Vec::new()
    }

    fn look(&self, id: TopicId) -> Scanned {
        let (place, number) = id.place();
        if number >= self.ends[place] {
            return Scanned::Unknown;
        }
        if (place, number) >= (self.place, self.next) {
            return Scanned::Ahead;
        }
        let is_before = |slice: &Slice| {
            let last = slice.written.last().map_or(0, |(number, _)| *number);
            (slice.place, last) < (place, number)
        };
        let slice = self.trail.get(self.trail.partition_point(is_before));
        let Some(slice) = slice.filter(|slice| slice.place == place) else {
            return Scanned::Unknown;
        };
        let found = slice
            .written
            .binary_search_by_key(&number, |(number, _)| *number);
        found.map_or(Scanned::Unknown, |index| {
            Scanned::Written(slice.written[index].1)
        })
    }

    fn forget(&mut self, until_ns: u64) {
        while self
            .trail
            .pop_front_if(|slice| slice.written_ns <= until_ns)
            .is_some()
        {}
    }

    /// Goes on to the next source that has topics to look at.
    fn settle(&mut self) {
        while self
            .ends
            .get(self.place)
            .is_some_and(|end| self.next >= *end)
        {
            self.place += 1;
            self.next = 0;
        }
    }
}

/// Returns the part of a pattern before its first special character.
pub(crate) fn literal(pattern: &[u8]) -> &[u8] {
    let is_special = |byte: &u8| b"*?[\\".contains(byte);
    let end = pattern.iter().position(is_special);
    &pattern[..end.unwrap_or(pattern.len())]
}

/// Values up to which a scan leaves it to the subscriber's table to remember them. So only large
/// scans stay in the list when they are done.
const SMALL_VALUES: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(ends: [u32; 2]) -> Scan {
        let mut scan = Scan::of_pattern(b"md:*", &Topics::default());
        assert!(scan.is_over(), "there is no topic");
        (scan.place, scan.next, scan.ends) = (0, 0, [ends[0], ends[1], 0, 0, 0]);
        // So that it keeps what was written.
        scan.written = SMALL_VALUES;
        scan.settle();
        scan
    }

    #[test]
    fn every_topic_is_looked_at_once_and_in_order() {
        let mut scan = scan([5, 3]);
        let mut seen = Vec::new();
        while let Some(stretch) = scan.stretch(2) {
            seen.extend((stretch.from..stretch.until).map(|number| (stretch.place, number)));
            scan.advance(stretch.until, Vec::new(), 0);
        }
        let expected: Vec<_> = (0..5)
            .map(|n| (0, n))
            .chain((0..3).map(|n| (1, n)))
            .collect();
        assert_eq!(seen, expected);
        assert!(scan.is_over());
    }

    #[test]
    fn a_source_without_topics_is_passed_over() {
        let scan = scan([0, 1]);
        let expected = Stretch {
            place: 1,
            from: 0,
            until: 1,
        };
        assert_eq!(scan.stretch(9), Some(expected));
    }

    #[test]
    fn a_written_value_is_known_until_it_is_forgotten() {
        let mut scan = scan([6, 2]);
        scan.advance(3, vec![(0, 7), (2, 9)], 100);
        scan.advance(5, vec![(4, 1)], 200);
        let look = |scan: &Scan| {
            let ids = (0..7).map(TopicId::Market).chain([TopicId::Tag(1)]);
            ids.map(|id| scan.look(id)).collect::<Vec<_>>()
        };
        use Scanned::{Ahead, Unknown, Written};
        let expected = [
            Written(7),
            Unknown,
            Written(9),
            Unknown,
            Written(1),
            Ahead,
            Unknown,
            Ahead,
        ];
        assert_eq!(look(&scan), expected);
        scan.forget(100);
        assert_eq!(
            look(&scan)[..5],
            [Unknown, Unknown, Unknown, Unknown, Written(1)]
        );
        scan.advance(6, vec![(5, 3)], 300);
        scan.advance(2, vec![(0, 4)], 300);
        assert_eq!(scan.look(TopicId::Tag(0)), Written(4));
        assert_eq!(scan.look(TopicId::Market(0)), Unknown);
        assert!(scan.is_done() && !scan.is_over());
        scan.forget(300);
        assert!(scan.is_over());
    }

    #[test]
    fn a_pattern_that_can_match_no_topic_of_a_source_does_not_walk_over_it() {
        assert_eq!(literal(b"md:A*"), b"md:A");
        assert_eq!(literal(b"m?:A"), b"m");
        assert_eq!(literal(b"news"), b"news");
    }
}
