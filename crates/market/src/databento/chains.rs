//! The futures of a root in the order of their expirations, for continuous symbols.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tidewire_dbn::{Record, RecordRef, UNDEFINED_TIME};

use crate::board::Board;
use crate::topic::Topic;

/// The chains of futures that a client follows.
#[derive(Debug, Default)]
pub(super) struct Chains {
    by_root: HashMap<Box<str>, Chain, RandomState>,
    /// The chains' futures by topic number.
    futures: HashMap<u32, Box<str>, RandomState>,
    /// Number of the current search of the board, or of the next one.
    search: u32,
    is_seeking: bool,
    /// The roots of which the search has found a future.
    found: Vec<Box<str>>,
}

/// The futures of one root.
#[derive(Debug, Default)]
struct Chain {
    /// Expiration (ns since the UNIX epoch) and topic number, in this order once the search is
    /// over.
    futures: Vec<(u64, u32)>,
    /// The highest number of futures so far.
    count_max: usize,
    /// The newest time of a definition or value of the chain, ns since the UNIX epoch.
    now_ns: u64,
    /// The search that finds its futures.
    search: u32,
    /// Sequence of the first message of the chain's replay. Futures that were defined later come
    /// with it.
    replay_from: Option<u64>,
    /// The futures on the board, with those that come with the replay.
    count_found: usize,
}

impl Chains {
    /// Follows these roots; the futures of new ones are sought.
    pub(super) fn follow<'a>(&mut self, roots: impl Iterator<Item = &'a str>) {
        for root in roots {
            if !self.by_root.contains_key(root) {
                let chain = Chain {
                    search: self.search,
                    ..Chain::default()
                };
                self.by_root.insert(root.into(), chain);
                self.is_seeking = true;
            }
        }
    }

    /// Seeks the futures of all chains again, because messages were skipped.
    pub(super) fn catch_up(&mut self) {
        self.is_seeking = !self.is_empty();
        for chain in self.by_root.values_mut() {
            (chain.search, chain.replay_from) = (self.search, None);
            (chain.futures, chain.count_found) = (Vec::new(), 0);
        }
        self.futures.clear();
        self.found.clear();
    }

    /// Goes back to `start_ns` with a chain whose futures are sought, for a replay whose first
    /// message is `first_sequence`.
    pub(super) fn go_back(&mut self, root: &str, start_ns: u64, first_sequence: u64) {
        if let Some(chain) = self.by_root.get_mut(root) {
            debug_assert_eq!(chain.search, self.search, "nothing has been found yet");
            (chain.now_ns, chain.replay_from) = (start_ns, Some(first_sequence));
        }
    }

    /// Returns whether futures are sought on the board.
    pub(super) fn is_seeking(&self) -> bool {
        self.is_seeking
    }

    /// Takes a topic of the board if it is a future that is sought, and its time.
    pub(super) fn seek(&mut self, board: &Board, topic: &Topic) {
        let kept = topic.records.definition();
        let Some((kept, future)) = kept
            .as_ref()
            .and_then(|kept| Some((kept, Future::of(&kept.bytes)?)))
        else {
            return;
        };
        let chain = self.by_root.get_mut(future.root);
        let search = self.search;
        let Some(chain) = chain.filter(|chain| chain.search == search) else {
            return;
        };
        if chain.count_found == 0 {
            self.found.push(future.root.into());
        }
        chain.count_found += 1;
        match chain.replay_from {
            Some(first) if kept.first_sequence >= first => return,
            Some(_) => {}
            None => {
                let value = board.value(topic.number);
                let value_ns = value.map_or(0, |value| value.source_time_ns);
                chain.now_ns = chain.now_ns.max(value_ns).max(future.received_ns);
            }
        }
        chain.futures.push((future.expiration_ns, topic.number));
        self.futures.insert(topic.number, future.root.into());
    }

    /// Ends the search.
    pub(super) fn end_seeking(&mut self) {
        self.search += 1;
        self.is_seeking = false;
    }

    /// Takes a root of which the search has found futures.
    pub(super) fn take_found(&mut self) -> Option<Box<str>> {
        debug_assert!(!self.is_seeking, "the search is over");
        let root = self.found.pop()?;
        if let Some(chain) = self.by_root.get_mut(&root) {
            chain.futures.sort_unstable();
            chain.count_max = chain.count_max.max(chain.futures.len());
        }
        Some(root)
    }

    /// Returns the topics of a root's futures.
    pub(super) fn numbers(&self, root: &str) -> impl Iterator<Item = u32> {
        let futures = self.by_root.get(root).into_iter();
        let futures = futures.flat_map(|chain| &chain.futures);
        futures.map(|(_, number)| *number)
    }

    /// Returns the highest number of futures that a root has had.
    pub(super) fn count_max(&self, root: &str) -> usize {
        self.by_root.get(root).map_or(0, |chain| chain.count_max)
    }

    /// Returns whether a root will have a future of this rank when its replay is over.
    pub(super) fn comes(&self, root: &str, rank: usize) -> bool {
        let chain = self.by_root.get(root);
        chain.is_some_and(|chain| chain.replay_from.is_some() && rank < chain.count_found)
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
        if !self.by_root.contains_key(future.root) {
            return false;
        }
        if let Some(before) = self.futures.insert(number, future.root.into())
            && let Some(chain) = self.by_root.get_mut(&before)
        {
            chain.futures.retain(|&(_, other)| other != number);
        }
        if let Some(chain) = self.by_root.get_mut(future.root) {
            let new = (future.expiration_ns, number);
            let place = chain.futures.partition_point(|other| *other < new);
            chain.futures.insert(place, new);
            chain.count_max = chain.count_max.max(chain.futures.len());
        }
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
