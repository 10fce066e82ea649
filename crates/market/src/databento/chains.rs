//! The futures of a root in the order of their expirations, for continuous symbols.

use std::collections::HashMap;

use tidewire_dbn::{Record, RecordRef, UNDEFINED_TIME};

use crate::board::Board;
use crate::topic::Topic;

/// The chains of futures that a client follows.
#[derive(Debug, Default)]
pub(super) struct Chains {
    by_root: HashMap<Box<str>, Chain>,
    /// The chains' futures by topic number.
    futures: HashMap<u32, Box<str>>,
}

/// The futures of one root.
#[derive(Debug, Default)]
struct Chain {
    /// Expiration (ns since the UNIX epoch) and topic number, in this order.
    futures: Vec<(u64, u32)>,
    /// The newest time of a definition or value of the chain, ns since the UNIX epoch.
    now_ns: u64,
}

impl Chains {
    /// Follows these roots; finds their futures on the board.
    pub(super) fn follow<'a>(&mut self, board: &Board, roots: impl Iterator<Item = &'a str>) {
        let known = self.by_root.len();
        for root in roots {
            self.by_root.entry(root.into()).or_default();
        }
        if self.by_root.len() > known {
            for topic in board.topics() {
                if let Some(received_ns) = self.note_definition(&topic) {
                    let value = board.value(topic.number);
                    let value_ns = value.map_or(0, |value| value.source_time_ns);
                    self.pass(topic.number, value_ns.max(received_ns));
                }
            }
        }
    }

    /// Returns whether a root is followed.
    pub(super) fn is_empty(&self) -> bool {
        self.by_root.is_empty()
    }

    /// Takes a topic's newest definition. Returns when it was received (ns since the UNIX epoch) if
    /// it is a future of a chain.
    pub(super) fn note_definition(&mut self, topic: &Topic) -> Option<u64> {
        let kept = topic.records.definition()?;
        let Record::Definition(definition) = RecordRef::new(&kept.bytes)?.decode() else {
            return None;
        };
        if definition.instrument_class != FUTURE || definition.expiration == UNDEFINED_TIME {
            return None;
        }
        let chain = self.by_root.get_mut(definition.asset)?;
        chain.futures.retain(|&(_, number)| number != topic.number);
        chain.futures.push((definition.expiration, topic.number));
        chain.futures.sort_unstable();
        self.futures.insert(topic.number, definition.asset.into());
        Some(match definition.ts_recv {
            UNDEFINED_TIME => 0,
            ts_recv => ts_recv,
        })
    }

    /// Notes the time of a message about a topic. Returns whether a future of its chain has expired
    /// by then.
    pub(super) fn pass(&mut self, number: u32, time_ns: u64) -> bool {
        let Some(root) = self.futures.get(&number) else {
            return false;
        };
        let Some(chain) = self.by_root.get_mut(root) else {
            return false;
        };
        let expired = chain.expired(chain.now_ns);
        chain.now_ns = chain.now_ns.max(time_ns);
        chain.expired(chain.now_ns) > expired
    }

    /// Returns the topic of the future with this rank among those that have not expired.
    pub(super) fn find(&self, root: &str, rank: usize) -> Option<u32> {
        let chain = self.by_root.get(root)?;
        let place = chain.expired(chain.now_ns).checked_add(rank)?;
        Some(chain.futures.get(place)?.1)
    }
}

impl Chain {
    /// Returns the number of futures that have expired by `now_ns`.
    fn expired(&self, now_ns: u64) -> usize {
        self.futures
            .partition_point(|&(expiration_ns, _)| expiration_ns <= now_ns)
    }
}

/// Letter of the class in a definition.
const FUTURE: u8 = b'F';
