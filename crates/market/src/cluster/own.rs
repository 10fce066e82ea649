//! Which topics are this hub's own.

use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_feed::journal::Filter;

use crate::board::Board;
use crate::venues::CONSOLIDATED_WRITER;

/// Bit of the numbers of sources that are other hubs of the cluster.
pub(crate) const REMOTE: u32 = 1 << 31;

/// One bit for each topic: whether another hub of the cluster has defined it last.
#[derive(Debug)]
pub(crate) struct RemoteTopics(Box<[AtomicU64]>);

impl RemoteTopics {
    /// Creates the bits of a hub in a cluster; without topics for another hub.
    pub(crate) fn new(topics_max: usize) -> Self {
        let words = topics_max.div_ceil(64);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Notes whether a topic is of another hub.
    pub(crate) fn note(&self, number: u32, source: u32) {
        let Some(word) = self.0.get(number as usize / 64) else {
            return;
        };
        let bit = 1 << (number % 64);
        if source & REMOTE == 0 {
            word.fetch_and(!bit, Ordering::Relaxed);
        } else {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns whether a topic is of another hub.
    #[inline]
    pub(crate) fn contains(&self, number: u32) -> bool {
        let word = self.0.get(number as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (number % 64)) != 0)
    }
}

/// The topics of this hub's own sources: the only ones that it publishes to the cluster.
#[derive(Debug)]
pub(super) struct OwnTopics<'a> {
    pub(super) board: &'a Board,
    pub(super) remote: &'a RemoteTopics,
}

impl OwnTopics<'_> {
    /// Returns whether one of the venues of a consolidated topic is of another hub. The other hubs
    /// consolidate such a symbol themselves.
    #[cold]
    fn has_remote_venue(&self, number: u32) -> bool {
        let topic = self.board.topic(number);
        topic.is_some_and(|topic| {
            topic.with_members(|members| {
                let mut numbers = members.iter().map(|member| member.topic.number);
                numbers.any(|number| self.remote.contains(number))
            })
        })
    }
}

impl Filter for OwnTopics<'_> {
    fn passes_all(&self) -> bool {
        false
    }

    #[inline]
    fn passes(&self, symbol: u32) -> bool {
        let slot = self.board.slots().slot(symbol);
        match slot.and_then(|slot| slot.owner()) {
            Some(CONSOLIDATED_WRITER) => !self.has_remote_venue(symbol),
            _ => !self.remote.contains(symbol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_definition_tells_whose_a_topic_is() {
        let remote = RemoteTopics::new(100);
        remote.note(64, 3 | REMOTE);
        assert!(remote.contains(64) && !remote.contains(0) && !remote.contains(63));
        remote.note(64, 4);
        assert!(!remote.contains(64));
        // A hub without a cluster, and numbers that do not exist.
        remote.note(1_000, REMOTE);
        assert!(!remote.contains(1_000));
    }
}
