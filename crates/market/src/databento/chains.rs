//! The futures of a root in the order of their expirations, for continuous symbols.

use std::collections::{HashMap, HashSet};

use tidewire_dbn::{Record, RecordRef, UNDEFINED_TIME};

use crate::board::Board;

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
    /// Follows these roots; finds the futures of new ones on the board.
    pub(super) fn follow<'a>(&mut self, board: &Board, roots: impl Iterator<Item = &'a str>) {
        let new: HashSet<&str> = roots
            .filter(|root| !self.by_root.contains_key(*root))
            .collect();
        for root in &new {
            self.by_root.insert((*root).into(), Chain::default());
        }
        self.find_on(board, |root| new.contains(root));
    }

    /// Takes what the board has of all chains, because messages were skipped.
    pub(super) fn catch_up(&mut self, board: &Board) {
        self.find_on(board, |_| true);
    }

    /// Takes the futures of those roots from the board that are `wanted`, and its time.
    fn find_on(&mut self, board: &Board, wanted: impl Fn(&str) -> bool) {
        if self.by_root.is_empty() {
            return;
        }
        for topic in board.topics() {
            let kept = topic.records.definition();
            let future = kept.as_ref().and_then(|kept| Future::of(&kept.bytes));
            let Some(future) = future.filter(|future| wanted(future.root)) else {
                continue;
            };
            if self.note(topic.number, &future) {
                let value = board.value(topic.number);
                let value_ns = value.map_or(0, |value| value.source_time_ns);
                self.pass(topic.number, value_ns.max(future.received_ns));
            }
        }
    }

    /// Goes back to `start_ns` with the chains of these roots, for a replay whose first message is
    /// `first_sequence`. Futures that were defined later come with the replay.
    pub(super) fn go_back(
        &mut self,
        board: &Board,
        roots: &HashSet<&str>,
        start_ns: u64,
        first_sequence: u64,
    ) {
        for root in roots {
            if let Some(chain) = self.by_root.get_mut(*root) {
                for (_, number) in std::mem::take(&mut chain.futures) {
                    self.futures.remove(&number);
                }
                chain.now_ns = start_ns;
            }
        }
        for topic in board.topics() {
            let kept = topic.records.definition();
            let kept = kept.filter(|kept| kept.first_sequence < first_sequence);
            if let Some(future) = kept.as_ref().and_then(|kept| Future::of(&kept.bytes))
                && roots.contains(future.root)
            {
                self.note(topic.number, &future);
            }
        }
    }

    /// Returns whether a root is followed.
    pub(super) fn is_empty(&self) -> bool {
        self.by_root.is_empty()
    }

    /// Takes a topic's definition. Returns whether it is a future of a chain.
    pub(super) fn note_definition(&mut self, number: u32, record: &[u8]) -> bool {
        Future::of(record).is_some_and(|future| self.note(number, &future))
    }

    fn note(&mut self, number: u32, future: &Future<'_>) -> bool {
        let Some(chain) = self.by_root.get_mut(future.root) else {
            return false;
        };
        chain.futures.retain(|&(_, other)| other != number);
        chain.futures.push((future.expiration_ns, number));
        chain.futures.sort_unstable();
        self.futures.insert(number, future.root.into());
        true
    }

    /// Returns the root of a topic that is a future of a chain.
    pub(super) fn root_of(&self, number: u32) -> Option<&str> {
        self.futures.get(&number).map(|root| &**root)
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

/// What a definition says of a future.
struct Future<'a> {
    root: &'a str,
    expiration_ns: u64,
    /// Time of the definition's receipt; 0 if unknown.
    received_ns: u64,
}

impl<'a> Future<'a> {
    /// Returns the future that a record defines; `None` for other records and instruments.
    fn of(record: &'a [u8]) -> Option<Self> {
        let Record::Definition(definition) = RecordRef::new(record)?.decode() else {
            return None;
        };
        if definition.instrument_class != FUTURE || definition.expiration == UNDEFINED_TIME {
            return None;
        }
        Some(Self {
            root: definition.asset,
            expiration_ns: definition.expiration,
            received_ns: match definition.ts_recv {
                UNDEFINED_TIME => 0,
                ts_recv => ts_recv,
            },
        })
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
