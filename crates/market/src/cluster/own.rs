//! Which topics are this hub's own.

use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_feed::journal::Filter;
use tidewire_feed::server::{self, Board};
use tidewire_feed::wire::{Definition, LastValue, Venue};

use crate::board::Board as MarketBoard;
use crate::venues::CONSOLIDATED_WRITER;

/// Bit of the numbers of sources that are other hubs of the cluster.
pub(crate) const REMOTE: u32 = 1 << 31;

/// One bit for each topic: whether another hub of the cluster has it, or had it last.
#[derive(Debug)]
pub(crate) struct RemoteTopics(Box<[AtomicU64]>);

impl RemoteTopics {
    /// Creates the bits of a hub in a cluster; without topics for another hub.
    pub(crate) fn new(topics_max: usize) -> Self {
        let words = topics_max.div_ceil(64);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Notes whose source has a topic. Returns whether it was another hub's, and is this hub's own
    /// now.
    pub(crate) fn note(&self, number: u32, source: u32) -> bool {
        let Some(word) = self.0.get(number as usize / 64) else {
            return false;
        };
        let bit = 1 << (number % 64);
        if source & REMOTE == 0 {
            word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
        } else {
            word.fetch_or(bit, Ordering::Relaxed);
            false
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
    pub(super) board: &'a MarketBoard,
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

impl OwnTopics<'_> {
    /// Returns the definition of the only own venue of a symbol that other hubs give, too: the
    /// other hubs get it under the symbol's name, and consolidate the symbol themselves.
    fn shared_symbol(&self, number: u32) -> Option<Definition> {
        let topic = self.board.topic(number)?;
        let name = topic.parent()?;
        let is_only = name.with_members(|members| {
            let numbers = members.iter().map(|member| member.topic.number);
            let own = numbers.filter(|&number| !self.remote.contains(number));
            members.len() > 1 && own.count() == 1
        });
        is_only.then(|| Definition {
            name: name.definition().name,
            ..topic.definition()
        })
    }
}

impl Board for OwnTopics<'_> {
    fn len(&self) -> usize {
        server::Board::len(self.board)
    }

    fn definition(&self, index: usize) -> Option<Definition> {
        let shared = self.shared_symbol(index as u32);
        shared.or_else(|| server::Board::definition(self.board, index))
    }

    fn last_value(&self, index: usize) -> Option<LastValue> {
        server::Board::last_value(self.board, index)
    }

    fn venues(&self) -> Vec<Venue> {
        server::Board::venues(self.board)
    }

    fn changed(&self, index: usize) -> u64 {
        server::Board::changed(self.board, index)
    }
}

impl Filter for OwnTopics<'_> {
    fn definition(&self, symbol: u32) -> Option<Definition> {
        self.shared_symbol(symbol)
    }

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
    fn a_topic_is_of_the_hub_that_had_it_last() {
        let remote = RemoteTopics::new(100);
        assert!(!remote.note(64, 3 | REMOTE));
        assert!(remote.contains(64) && !remote.contains(0) && !remote.contains(63));
        assert!(remote.note(64, 4), "it was another hub's");
        assert!(!remote.note(64, 4) && !remote.contains(64));
        // A hub without a cluster, and numbers that do not exist.
        assert!(!remote.note(1_000, REMOTE) && !remote.note(1_000, 4));
        assert!(!remote.contains(1_000));
    }
}
