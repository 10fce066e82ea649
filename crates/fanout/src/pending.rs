//! Topics whose current value a subscriber is owed: first values, and updates that it was too
//! slow for.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::frames::How;
use crate::topic::TopicId;

/// A queue without duplicates: a topic's value is owed once, regardless of the number of changes.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    queue: VecDeque<(PendingTopic, How)>,
    members: HashSet<(PendingTopic, How), RandomState>,
    /// Number of second names among them.
    seconds: usize,
}

/// A topic by its shortest name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PendingTopic {
    /// A topic that a live source writes.
    Topic(TopicId),
    /// A live key by name.
    Live(Arc<[u8]>),
    /// A channel that had no topic when the client subscribed.
    Named(Arc<[u8]>),
}

impl PendingTopic {
    fn is_second(&self) -> bool {
        matches!(self, PendingTopic::Topic(id) if id.is_second())
    }
}

impl Pending {
    pub(crate) fn push(&mut self, owed: (PendingTopic, How)) {
        if self.members.insert(owed.clone()) {
            self.seconds += usize::from(owed.0.is_second());
            self.queue.push_back(owed);
        }
        debug_assert_eq!(self.queue.len(), self.members.len(), "each is owed once");
    }

    pub(crate) fn pop(&mut self) -> Option<(PendingTopic, How)> {
        let next = self.queue.pop_front()?;
        let was_member = self.members.remove(&next);
        self.seconds -= usize::from(next.0.is_second());
        debug_assert!(was_member, "the queue and the set have the same topics");
        Some(next)
    }

    /// Returns the next topic.
    pub(crate) fn front(&self) -> Option<&PendingTopic> {
        self.queue.front().map(|(topic, _)| topic)
    }

    pub(crate) fn contains(&self, owed: &(PendingTopic, How)) -> bool {
        self.members.contains(owed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether a second name is owed.
    #[inline]
    pub(crate) fn has_seconds(&self) -> bool {
        self.seconds > 0
    }

    /// Returns whether one subscriber should be owed no more. A push is still possible, so that
    /// the values of one subscription are complete.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= OWED_MAX
    }
}

/// Maximum values owed to one subscriber: a few times the possible number of topics.
const OWED_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_owed_once_and_in_the_order_it_was_first_missed() {
        let mut pending = Pending::default();
        let market = |number, how| (PendingTopic::Topic(TopicId::Market(number)), how);
        for number in [5, 3, 5, 5] {
            pending.push(market(number, How::Channel));
        }
        pending.push(market(5, How::Prefix));
        assert!(pending.contains(&market(3, How::Channel)));
        let order: Vec<_> = std::iter::from_fn(|| pending.pop()).collect();
        let expected = [
            market(5, How::Channel),
            market(3, How::Channel),
            market(5, How::Prefix),
        ];
        assert_eq!(order, expected);
        assert!(pending.is_empty());
    }
}
