//! Books that are given on demand, of symbols whose topics change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::depth::DEPTH_ALL;
use crate::market::MarketConfig;
use tidewire_feed::client::Sink;
use tidewire_feed::wire::{Definition, Level, Message, Name, Quote};
use tidewire_lastvalue::FLAG_STALE;

/// Books with one bid each.
#[derive(Default)]
struct OneBid {
    followed: BTreeSet<u32>,
}

impl LevelBooks for OneBid {
    fn definitions(&self) -> u64 {
        1
    }

    fn followed_count(&self) -> usize {
        self.followed.len()
    }

    fn follow(&mut self, symbol: u32, is_followed: bool, _time_ns: u64, batch: &mut Batch<'_>) {
        let is_changed = match is_followed {
            true => self.followed.insert(symbol),
            false => self.followed.remove(&symbol),
        };
        if !is_changed {
            return;
        }
        let level = Level {
            symbol,
            is_last: 1,
            ..Level::default()
        };
        let levels = match is_followed {
            true => vec![
                Level {
                    action: Level::CLEAR,
                    ..level
                },
                Level {
                    side: Level::BID,
                    price: BID,
                    size: 1,
                    ..level
                },
            ],
            false => vec![Level {
                action: Level::END,
                ..level
            }],
        };
        for level in levels {
            batch.message(1, &Message::Level(level));
        }
    }
}

/// An input of one exchange, which has defined the symbol `A` as number 0.
struct Exchange {
    market: Arc<Market>,
    ingest: Ingest,
    books: OneBid,
    following: Following,
    is_lost: bool,
}

impl Exchange {
    fn new(market: &Arc<Market>, venue: &str) -> Self {
        let source = market.next_source_number() as u32;
        let mut ingest = Ingest::new(market.clone(), source, venue);
        ingest.name_venue(0, venue);
        let mut exchange = Self {
            market: market.clone(),
            ingest,
            books: OneBid::default(),
            following: Following::default(),
            is_lost: false,
        };
        exchange.define("A");
        exchange
    }

    fn define(&mut self, name: &str) {
        let mut batch = self.ingest.begin(1);
        batch.definition(1, &Definition::new(0, Name::new(name).unwrap()));
        batch.finish();
    }

    fn quote(&mut self) {
        let mut batch = self.ingest.begin(1);
        let quote = Quote {
            symbol: 0,
            bid: BID,
            bid_size: 1,
            ..Quote::default()
        };
        batch.message(1, &Message::Quote(quote));
        batch.finish();
    }

    fn lose(&mut self) {
        self.is_lost = true;
        self.ingest.lose(1);
    }

    fn look(&mut self) {
        let books = (&mut self.books, self.is_lost);
        self.following.look(&self.market, &mut self.ingest, books);
    }
}

/// Returns the depth of a book and its bids.
fn read(market: &Market, name: &str) -> (u32, Vec<i64>) {
    let view = market.books.read(name.as_bytes(), 10, unix_ns()).unwrap();
    let bids = view.bids.iter().map(|level| level.price);
    (view.depth, bids.collect())
}

fn whole() -> (u32, Vec<i64>) {
    (DEPTH_ALL, vec![BID])
}

fn unknown() -> (u32, Vec<i64>) {
    (0, Vec::new())
}

fn is_stale(market: &Market, name: &str) -> bool {
    let topic = market.board.find(name.as_bytes()).unwrap();
    let value = market.board.value(topic.number).unwrap();
    value.flags & FLAG_STALE != 0
}

/// The book of `A@XNAS` stayed empty until the next change of `A` at XNAS, so for good after the
/// session's end.
#[test]
fn the_first_venues_book_is_given_when_it_is_read_behind_a_second_venue() {
    for is_lost in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut first = Exchange::new(&market, "XNAS");
        first.quote();
        if is_lost {
            first.lose();
        }
        let mut second = Exchange::new(&market, "XBOS");
        second.quote();
        assert_eq!(read(&market, "A@XNAS"), unknown());
        first.look();
        second.look();
        assert_eq!(read(&market, "A@XNAS"), whole(), "{is_lost}");
        assert_eq!(is_stale(&market, "A@XNAS"), is_lost);
        assert_eq!(read(&market, "A@XBOS"), unknown());
        second.look();
        assert_eq!(read(&market, "A@XBOS"), whole());
        assert_eq!(read(&market, "A"), unknown(), "a book is of one venue");
    }
}

/// The input looked at the symbol's book, which no client wants any more, and ended its levels.
#[test]
fn a_book_that_was_wanted_before_a_second_venue_came_goes_on() {
    for (is_given, is_lost) in [(true, false), (true, true), (false, false), (false, true)] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut first = Exchange::new(&market, "XNAS");
        first.quote();
        // A client of the only venue's book, which it is of the venue's topic later.
        let name = market.board.find(b"A").unwrap();
        let client = market.books.hold(&name);
        if is_given {
            first.look();
        }
        if is_lost {
            first.lose();
        }
        Exchange::new(&market, "XBOS").quote();
        drop(client);
        clear_interest(&name);
        let venue = market.board.find(b"A@XNAS").unwrap();
        let _client = market.books.hold(&venue);
        first.look();
        assert_eq!(read(&market, "A@XNAS"), whole(), "{is_given} {is_lost}");
    }
}

/// A client that reads the book of the only venue under its name reads the venue's topic next.
#[test]
fn a_book_that_was_read_just_before_a_second_venue_came_is_given() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut first = Exchange::new(&market, "XNAS");
    first.quote();
    assert_eq!(read(&market, "A@XNAS"), unknown());
    Exchange::new(&market, "XBOS").quote();
    clear_interest(&market.board.find(b"A@XNAS").unwrap());
    first.look();
    assert_eq!(read(&market, "A@XNAS"), whole());
}

/// A source that has left had defined a symbol with the name of the venue's topic.
#[test]
fn a_book_is_given_when_it_is_read_under_the_second_name_that_has_a_topic() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut left = Exchange::new(&market, "XNAS");
    left.define("A@XNAS");
    left.quote();
    drop(left);
    let mut exchange = Exchange::new(&market, "XNAS");
    exchange.quote();
    assert_eq!(read(&market, "A@XNAS"), unknown());
    clear_interest(&market.board.find(b"A").unwrap());
    exchange.look();
    assert_eq!(read(&market, "A@XNAS"), whole());
}

/// Its empty book made the exchange a venue of the symbol, and ended the book that was read.
#[test]
fn an_exchange_without_a_value_of_a_symbol_is_no_venue_because_a_client_reads_a_book() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut first = Exchange::new(&market, "XNAS");
    first.quote();
    let mut second = Exchange::new(&market, "XBOS");
    read(&market, "A");
    first.look();
    second.look();
    assert_eq!(read(&market, "A"), whole());
    assert!(!market.board.find(b"A").unwrap().is_consolidated());
    // Its first value makes it look again.
    second.quote();
    read(&market, "A@XBOS");
    second.look();
    assert_eq!(read(&market, "A@XBOS"), whole());
}

/// The levels were the first message of the symbol, and said that the feed was back.
#[test]
fn a_book_that_is_read_after_the_feeds_end_does_not_make_its_symbol_current() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut exchange = Exchange::new(&market, "XNAS");
    exchange.quote();
    let mut batch = exchange.ingest.begin(1);
    batch.session_changed(0, 0);
    batch.finish();
    exchange.define("A");
    exchange.lose();
    read(&market, "A");
    exchange.look();
    assert!(is_stale(&market, "A"));
}

/// A client subscribes to the book of a symbol whose session begins: the input looked again when
/// another client asked.
#[test]
fn a_book_that_is_wanted_is_given_with_the_first_value_of_a_new_session() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut first = Exchange::new(&market, "XNAS");
    first.quote();
    Exchange::new(&market, "XBOS").quote();
    first.quote();
    read(&market, "A@XNAS");
    first.look();
    let before = market.books.asked();
    let mut batch = first.ingest.begin(1);
    batch.session_changed(0, 0);
    batch.finish();
    first.define("A");
    first.quote();
    assert!(market.books.asked() > before, "inputs look again");
}

/// Clears what a new topic has: it is not known yet which lanes wait for it.
fn clear_interest(topic: &crate::topic::Topic) {
    if let Some(book) = topic.derived.book() {
        tidewire_fanout::Topic::clear_interest(&**book, 0);
    }
}

const BID: i64 = 5_000_000_000;
