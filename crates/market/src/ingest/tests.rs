mod bars;
mod certainty;
mod chains;
mod clocks;
mod continued;
mod fans;
mod followers;
mod histories;
mod losses;
mod mirror;
mod missed;
mod numbers;
mod opens;
mod orders;
mod partial;
mod prices;
mod renames;
mod repeated;
mod repetitions;
mod seconds;
mod sessions;
mod sums;
mod sweeps;
mod trades;
mod unchanged;
mod venues;

use super::*;
use crate::board::staleness;
use crate::market::MarketConfig;
use tidewire_fanout::Kind;
use tidewire_fanout::{Topic as _, TopicSource};
use tidewire_feed::server::Steps;
use tidewire_feed::wire::Figures;
use tidewire_feed::wire::{
    Certainty, Name, Quote as QuoteMessage, Trade as TradeMessage, TradingState, TradingStatus,
};
use tidewire_lastvalue::{FLAG_DOUBT, FLAG_HALTED, FLAG_STALE, MarketValue, PRICE_UNDEFINED};

fn names(news: &(Publication, u64)) -> Vec<Vec<u8>> {
    news.0.news().map(|news| news.name.to_vec()).collect()
}

fn definition(symbol: u32, name: &str) -> Definition {
    Definition::new(symbol, Name::new(name).unwrap())
}

fn quote(symbol: u32, source: u16, bid: i64, ask: i64) -> Message {
    Message::Quote(QuoteMessage {
        symbol,
        source,
        bid,
        ask,
        bid_size: 1,
        ask_size: 1,
        ..QuoteMessage::default()
    })
}

fn trade(symbol: u32, source: u16, price: i64, size: u32) -> Message {
    Message::Trade(TradeMessage {
        symbol,
        source,
        price,
        size,
        ..TradeMessage::default()
    })
}

fn status(symbol: u32, source: u16, state: TradingState) -> Message {
    Message::Status(TradingStatus {
        symbol,
        source,
        state,
        ..TradingStatus::default()
    })
}

fn start(symbol: u32, reference: i64, kind: ReferenceKind, rolls: u8) -> Message {
    Message::SessionStart(SessionStart {
        symbol,
        reference,
        kind,
        rolls,
        ..SessionStart::default()
    })
}

fn venue(source: u16, name: &str) -> Venue {
    Venue {
        source,
        source_time_ns: 0,
        name: VenueName::new(name).unwrap(),
    }
}

/// Returns a source that has defined one symbol.
fn source(market: &Arc<Market>, feed: &str, symbol: u32, name: &str) -> Ingest {
    let number = market.next_source_number() as u32;
    let mut ingest = Ingest::new(market.clone(), number, feed);
    let mut batch = ingest.begin(1);
    batch.definition(1, &definition(symbol, name));
    batch.finish();
    ingest
}

#[test]
fn who_subscribes_while_a_batch_runs_gets_its_update_once() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = Ingest::new(market.clone(), 1, "test");
    let mut batch = ingest.begin(1);
    batch.definition(1, &definition(5, "A"));
    batch.finish();
    let topic = market.board.find(b"A").unwrap();
    topic.clear_interest(0);
    let trade = Message::Trade(TradeMessage {
        symbol: 5,
        price: 1_000_000_000,
        size: 1,
        ..TradeMessage::default()
    });
    let mut batch = ingest.begin(2);
    batch.message(2, &trade);
    batch.message(3, &trade);
    assert!(names(&batch.finish()).is_empty(), "there is no subscriber");
    let mut batch = ingest.begin(3);
    batch.message(4, &trade);
    batch.message(5, &trade);
    topic.add_interest(0);
    market.post.subscriptions.add(0, Kind::Channel, b"md:A");
    let news = batch.finish();
    assert_eq!((names(&news), news.1), (vec![b"md:A".to_vec()], 1));
    // A topic that the batch did not change has nothing to publish.
    market.post.subscriptions.add(0, Kind::Channel, b"other");
    assert!(names(&ingest.begin(4).finish()).is_empty());
}

#[test]
fn a_state_is_in_the_value_and_a_halt_is_flagged() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let mut batch = ingest.begin(2);
    batch.message(2, &status(0, 0, TradingState::HALTED));
    batch.finish();
    let value = market.board.value(0).unwrap();
    assert_eq!((value.status.state, value.flags), (4, FLAG_HALTED));
    let mut batch = ingest.begin(3);
    batch.message(3, &status(0, 0, TradingState::OPEN));
    batch.finish();
    assert_eq!(market.board.value(0).unwrap().flags, 0);
}

fn set_level(symbol: u32, source: u16, bid: i64) -> Message {
    Message::Level(Level {
        symbol,
        source,
        side: Level::BID,
        price: bid,
        size: 1,
        is_last: 1,
        ..Level::default()
    })
}

fn clear(symbol: u32, source: u16) -> Message {
    let action = Level::CLEAR;
    Message::Level(Level {
        symbol,
        source,
        action,
        is_last: 1,
        ..Level::default()
    })
}

fn send(ingest: &mut Ingest, messages: &[Message]) {
    let mut batch = ingest.begin(1);
    messages
        .iter()
        .for_each(|message| batch.message(1, message));
    batch.finish();
}

fn best_bids(market: &Market, name: &str) -> Vec<i64> {
    let view = market.books.read(name.as_bytes(), 10, 1).unwrap();
    view.bids.iter().map(|level| level.price).collect()
}

fn value_of(market: &Market, name: &str) -> MarketValue {
    let topic = market.board.find(name.as_bytes()).unwrap();
    market.board.value(topic.number).unwrap()
}

/// The book of a session that is over was shown beside the quotes of the next one, and mixed with
/// its levels.
#[test]
fn a_new_session_of_a_publisher_begins_without_the_old_ones_book() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = source(&market, "feed", 0, "A");
    send(
        &mut old,
        &[quote(0, 7, 1, 2), clear(0, 7), set_level(0, 7, 1)],
    );
    old.lose(2);
    assert_eq!(
        best_bids(&market, "A"),
        [1],
        "the last known, marked as stale"
    );
    drop(old);
    let mut new = source(&market, "feed", 0, "A");
    send(&mut new, &[quote(0, 7, 7, 8)]);
    assert!(best_bids(&market, "A").is_empty());
    send(&mut new, &[set_level(0, 7, 7)]);
    assert!(best_bids(&market, "A").is_empty(), "no clear yet");
}

fn is_stale(market: &Market, name: &str) -> bool {
    value_of(market, name).flags & FLAG_STALE != 0
}

/// A hub takes permissions from a user: it sends a snapshot of the rest.
#[test]
fn a_symbol_that_a_whole_snapshot_does_not_name_is_stale_until_its_next_value() {
    for at_once in [1_000, 0] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = Ingest::new(market.clone(), 1, "hub");
        ingest.at_once = at_once;
        let names = ["A", "B", "C", "D"];
        let mut batch = ingest.begin(1);
        for (symbol, name) in (0..).zip(names) {
            batch.definition(1, &definition(symbol, name));
            batch.message(1, &quote(symbol, 0, 5, 6));
        }
        batch.finish();
        let mut batch = ingest.begin(2);
        batch.whole_snapshot_begin();
        batch.definition(0, &definition(0, "A"));
        batch.definition(9, &definition(2, "C"));
        batch.whole_snapshot_complete();
        batch.values_right();
        // It says something of this one before its slice.
        batch.message(10, &quote(3, 0, 7, 8));
        batch.finish();
        while ingest.is_sweeping() {
            ingest.sweep(&mut Steps::new(1), 2);
        }
        let stale = names.map(|name| is_stale(&market, name));
        assert_eq!(stale, [false, true, false, false], "{at_once}");
        // What the source says of all its values says nothing of this one.
        let mut batch = ingest.begin(3);
        batch.values_doubtful();
        batch.values_right();
        batch.finish();
        while ingest.is_sweeping() {
            ingest.sweep(&mut Steps::new(1), 2);
        }
        assert!(is_stale(&market, "B"));
        send(&mut ingest, &[quote(1, 0, 9, 10)]);
        assert!(!is_stale(&market, "B"));
        assert_eq!(value_of(&market, "B").quote().bid, 9);
    }
}

/// Returns a source that has defined the symbol `A` as number 0, and the venue number 1.
fn named_source(market: &Arc<Market>, feed: &str, name: &str) -> Ingest {
    let mut ingest = source(market, feed, 0, "A");
    ingest.begin(1).venue(&venue(1, name));
    ingest
}

const DAY_NS: u64 = 86_400_000_000_000;
