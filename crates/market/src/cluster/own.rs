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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cluster::ClusterConfig;
    use crate::ingest::Ingest;
    use crate::market::{Market, MarketConfig};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use tidewire_feed::client::Sink;
    use tidewire_feed::journal::Cursor;
    use tidewire_feed::server::Relay;
    use tidewire_feed::wire::{Message, Name, Trade, VenueName, decode_packet};

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

    const OWN: u32 = 1;
    const OTHER: u32 = 2 | REMOTE;

    fn market() -> Arc<Market> {
        let cluster = ClusterConfig {
            name: "tests".parse().unwrap(),
            hub: "a".parse().unwrap(),
            link: tidewire_nats::Settings::default(),
            source: None,
            receive: Vec::new(),
            share: Vec::new(),
            receive_hubs: Vec::new(),
            relays: Vec::new(),
            replicas: 1,
            log_age: std::time::Duration::from_secs(60),
            log_bytes: 1 << 20,
            writes: crate::cluster::WriteConfig::default(),
        };
        Market::of_one_lane(MarketConfig {
            cluster: Some(cluster),
            ..MarketConfig::default()
        })
    }

    fn defined(market: &Arc<Market>, source: u32, venue: &str) -> Ingest {
        let mut ingest = Ingest::new(market.clone(), source, venue);
        let mut batch = ingest.begin(1);
        batch.venue(&Venue {
            source: 7,
            source_time_ns: 0,
            name: VenueName::new(venue).unwrap(),
        });
        batch.definition(1, &Definition::new(5, Name::new("A").unwrap()));
        batch.finish();
        ingest
    }

    fn trades(ingest: &mut Ingest) {
        let mut batch = ingest.begin(2);
        batch.message(
            2,
            &Message::Trade(Trade {
                symbol: 5,
                source: 7,
                price: 10,
                size: 1,
                ..Trade::default()
            }),
        );
        batch.finish();
    }

    /// The definitions and the last values with a volume that the other hubs get, by name.
    fn published(market: &Market) -> Vec<(String, u64)> {
        published_from(market, &mut Cursor::at(1))
    }

    fn published_from(market: &Market, cursor: &mut Cursor) -> Vec<(String, u64)> {
        let own = OwnTopics {
            board: &market.board,
            remote: &market.remote,
        };
        let journal = market.journal.lock();
        let relay = Relay::new(&journal, &own);
        let mut out = Vec::new();
        relay.read(cursor, u64::MAX, 1 << 20, &mut out);
        let (mut rest, mut found) = (out.as_slice(), BTreeMap::new());
        while let Some((packet, length)) = decode_packet(rest).unwrap() {
            for message in packet.messages().map(Result::unwrap) {
                match message {
                    Message::Definition(definition) => {
                        found.insert(definition.symbol, (definition.name.as_str().to_owned(), 0));
                    }
                    Message::LastValue(record) => {
                        found.get_mut(&record.symbol).unwrap().1 = record.volume;
                    }
                    Message::Trade(trade) => {
                        found.get_mut(&trade.symbol).unwrap().1 += u64::from(trade.size);
                    }
                    _ => {}
                }
            }
            rest = &rest[length..];
        }
        found
            .into_values()
            .filter(|(_, volume)| *volume > 0)
            .collect()
    }

    /// The topic of the own venue counted as the other hub's, whose message had made it: the hub
    /// published nothing of the symbol any more.
    #[test]
    fn an_own_venue_of_a_symbol_that_another_hub_gives_is_published_under_its_name() {
        for own_is_first in [true, false] {
            let market = market();
            let mut own = defined(&market, OWN, "XNAS");
            let mut other = defined(&market, OTHER, "XNYS");
            let (first, second) = match own_is_first {
                true => (&mut own, &mut other),
                false => (&mut other, &mut own),
            };
            trades(first);
            trades(second);
            trades(&mut own);
            let published = published(&market);
            assert!(
                published.iter().all(|(name, _)| name == "A") && !published.is_empty(),
                "{own_is_first}: {published:?}"
            );
            assert_eq!(
                published.last().unwrap().1,
                2,
                "{own_is_first}: {published:?}"
            );
            let topics = OwnTopics {
                board: &market.board,
                remote: &market.remote,
            };
            let find = |name: &str| market.board.find(name.as_bytes()).unwrap().number;
            let passes: Vec<bool> = ["A", "A@XNAS", "A@XNYS"]
                .map(|name| topics.passes(find(name)))
                .into();
            assert_eq!(passes, [false, true, false], "{own_is_first}");
        }
    }

    /// They went on with a name under which nothing came any more.
    #[test]
    fn the_other_hubs_are_told_when_a_venue_changes_the_names_of_others() {
        let market = market();
        let mut own = defined(&market, OWN, "XNAS");
        let mut second = defined(&market, OWN + 2, "XBOS");
        trades(&mut own);
        trades(&mut second);
        let mut cursor = Cursor::at(1);
        let before = published_from(&market, &mut cursor);
        let names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["A", "A@XNAS", "A@XBOS"],
            "it consolidates by itself"
        );
        let mut other = defined(&market, OTHER, "XNYS");
        trades(&mut other);
        let after = published_from(&market, &mut cursor);
        let expected = ["A@XNAS", "A@XBOS"].map(|name| (name.to_owned(), 1));
        assert_eq!(
            after, expected,
            "the consolidated value is no longer published"
        );
    }

    /// The other hubs did not know a symbol whose definition had been another hub's.
    #[test]
    fn a_topic_that_comes_to_be_own_is_defined_again() {
        let market = market();
        let _other = defined(&market, OTHER, "XNYS");
        let mut own = defined(&market, OWN, "XNAS");
        assert_eq!(published(&market), []);
        trades(&mut own);
        assert_eq!(published(&market), [("A".to_owned(), 1)]);
    }
}
