//! When a topic only repeats another one.

use std::ops::Range;
use std::sync::OnceLock;

use parking_lot::Mutex;

/// The messages of a topic that only repeat those of another one, as sequences of the hub's own
/// feed. Almost no topic has any.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    ranges: OnceLock<Box<Mutex<Vec<Range<u64>>>>>,
}

impl Repeats {
    /// Notes that the messages from the sequence `next` on repeat those of another topic.
    pub(super) fn begin(&self, next: u64) {
        let mut ranges = self.ranges.get_or_init(Box::default).lock();
        match ranges.last_mut() {
            Some(last) if last.end >= next => last.end = NO_END,
            _ => ranges.push(next..NO_END),
        }
        if ranges.len() > RANGES_MAX {
            ranges.remove(0);
        }
    }

    /// Notes that the messages from the sequence `next` on are the topic's own.
    pub(super) fn end(&self, next: u64) {
        let Some(ranges) = self.ranges.get() else {
            return;
        };
        if let Some(last) = ranges.lock().last_mut()
            && last.end == NO_END
        {
            last.end = next;
        }
    }

    /// Returns whether the message with this sequence repeats another one.
    pub(super) fn contains(&self, sequence: u64) -> bool {
        let Some(ranges) = self.ranges.get() else {
            return false;
        };
        let ranges = ranges.lock();
        ranges.iter().any(|range| range.contains(&sequence))
    }
}

/// The end of a range that goes on.
const NO_END: u64 = u64::MAX;
/// Maximum ranges that are kept; the oldest goes first.
const RANGES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_repeats_another_from_each_begin_to_its_end() {
        let repeats = Repeats::default();
        repeats.end(3);
        assert!(!repeats.contains(3));
        repeats.begin(5);
        repeats.begin(7);
        repeats.end(9);
        repeats.end(11);
        assert_eq!(
            [4, 5, 8, 9].map(|at| repeats.contains(at)),
            [false, true, true, false]
        );
        // It ends and begins again at once, as where the other topic is found again.
        repeats.begin(9);
        assert!(repeats.contains(9) && repeats.contains(u64::MAX - 1));
        for next in 0..2 * RANGES_MAX as u64 {
            repeats.end(20 + 2 * next);
            repeats.begin(21 + 2 * next);
        }
        assert!(!repeats.contains(5), "only the newest are kept");
    }
}
