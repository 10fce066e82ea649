//! The content of `bbo-1s`: topics that changed within a second, and their last trades.

use std::collections::HashMap;

use tidewire_dbn::databento::Event;

/// The one-second intervals of one client.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    /// End of the current second, ns since the UNIX epoch; 0 before the first.
    end_ns: u64,
    /// Topics that have changed in the current second.
    changed: Vec<u32>,
    /// By topic number: whether it is in `changed`.
    marked: Vec<bool>,
    /// The second that is being sent, if any.
    telling_ns: Option<u64>,
    trades: HashMap<u32, Event>,
}

impl Intervals {
    /// Notes that a topic has changed.
    pub(super) fn note(&mut self, number: u32) {
        let index = number as usize;
        if index >= self.marked.len() {
            self.marked.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.marked[index], true) {
            self.changed.push(number);
        }
    }

    /// Notes a topic's last trade.
    pub(super) fn trade(&mut self, number: u32, event: Event) {
        self.trades.insert(number, event);
    }

    /// Returns the end of the second that is being sent, ns since the UNIX epoch.
    pub(super) fn telling_ns(&self) -> Option<u64> {
        self.telling_ns
    }

    /// Returns whether a second with changes has ended by `now_ns`. It is sent next.
    pub(super) fn turn(&mut self, now_ns: u64) -> bool {
        if now_ns < self.end_ns {
            return false;
        }
        let ended_ns = std::mem::replace(&mut self.end_ns, (now_ns / SECOND_NS + 1) * SECOND_NS);
        if ended_ns == 0 || self.changed.is_empty() {
            return false;
        }
        debug_assert!(
            self.telling_ns.is_none(),
            "a second is sent before the next one ends"
        );
        debug_assert!(
            ended_ns <= now_ns && ended_ns.is_multiple_of(SECOND_NS),
            "a whole second"
        );
        self.telling_ns = Some(ended_ns);
        true
    }

    /// Returns the next topic of the second that is being sent, with its last trade; `None` at the
    /// end of the second.
    pub(super) fn take_next(&mut self) -> Option<(u32, Option<Event>)> {
        let Some(number) = self.changed.pop() else {
            self.telling_ns = None;
            return None;
        };
        let was_marked = std::mem::take(&mut self.marked[number as usize]);
        debug_assert!(was_marked, "the list and the marks have the same topics");
        Some((number, self.trades.get(&number).copied()))
    }
}

const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_tells_each_topic_that_has_changed_once() {
        let mut intervals = Intervals::default();
        assert!(!intervals.turn(SECOND_NS / 2), "nothing before the first");
        [3, 1, 3].iter().for_each(|&number| intervals.note(number));
        assert!(!intervals.turn(SECOND_NS - 1));
        assert!(intervals.turn(SECOND_NS));
        assert_eq!(intervals.telling_ns(), Some(SECOND_NS));
        let mut told: Vec<u32> = std::iter::from_fn(|| intervals.take_next())
            .map(|one| one.0)
            .collect();
        told.sort_unstable();
        assert_eq!((told, intervals.telling_ns()), (vec![1, 3], None));
        assert!(!intervals.turn(5 * SECOND_NS), "nothing has changed in it");
        intervals.note(1);
        assert!(intervals.turn(6 * SECOND_NS));
    }
}
