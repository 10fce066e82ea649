mod mirror;

use super::*;
use crate::board::staleness;
use crate::market::MarketConfig;
use tidewire_fanout::Kind;
use tidewire_fanout::{Topic as _, TopicSource};
use tidewire_feed::wire::{
    Certainty, Figures, Level, Name, Quote as QuoteMessage, ReferenceKind, SessionStart,
    Trade as TradeMessage, TradingState, TradingStatus, Venue,
};
use tidewire_lastvalue::{FLAG_HALTED, FLAG_STALE, PRICE_UNDEFINED};

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

/// A new session that only defines a symbol showed the old session's prices as current.
#[test]
fn a_new_session_leaves_its_topics_stale_until_their_first_value() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = Ingest::new(market.clone(), 1, "test");
    let mut batch = ingest.begin(1);
    for (symbol, name) in [(0, "A"), (1, "B")] {
        batch.definition(1, &definition(symbol, name));
        batch.message(2, &quote(symbol, 0, 10, 20));
        batch.message(3, &trade(symbol, 0, 15, 1));
    }
    batch.session_changed(7, 8);
    batch.definition(1, &definition(1, "A"));
    batch.definition(1, &definition(2, "B"));
    batch.finish();
    let value = |number| market.board.value(number).unwrap();
    let stale = |number| value(number).flags & FLAG_STALE != 0;
    assert_eq!((stale(0), stale(1)), (true, true), "only defined");
    assert_eq!((value(0).bid, value(0).ask), (10, 20), "the last known");
    let mut batch = ingest.begin(2);
    batch.message(2, &status(1, 0, TradingState::OPEN));
    batch.finish();
    assert!(stale(0), "a state is no price");
    let mut batch = ingest.begin(3);
    batch.message(3, &trade(1, 0, 16, 1));
    batch.finish();
    assert_eq!((stale(0), stale(1)), (false, true));
    assert_eq!(
        (value(0).bid, value(0).last, value(0).status.state),
        (PRICE_UNDEFINED, 16, TradingState::OPEN.0),
        "the quote of the session before is void"
    );
    assert_eq!(ingest.symbols.get(1).unwrap().name().number, 0);
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

#[test]
fn a_session_rolls_and_says_what_the_change_is_measured_from() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let value = || market.board.value(0).unwrap();
    let mut batch = ingest.begin(2);
    batch.message(2, &trade(0, 0, 100, 7));
    batch.message(3, &start(0, 90, ReferenceKind::NONE, 0));
    batch.message(3, &trade(0, 0, 110, 3));
    batch.finish();
    assert_eq!((value().volume, value().change_base()), (10, 100));
    let mut batch = ingest.begin(3);
    batch.message(4, &start(0, 105, ReferenceKind::PREVIOUS_SETTLEMENT, 1));
    batch.message(5, &trade(0, 0, 210, 1));
    batch.finish();
    assert_eq!((value().volume, value().trades), (1, 1));
    assert_eq!((value().session_open, value().high), (210, 210));
    assert_eq!(value().change_ppm(), Some(1_000_000));
    let mut batch = ingest.begin(4);
    batch.message(6, &start(0, 200, ReferenceKind::OPEN, 0));
    batch.finish();
    assert_eq!((value().session_open, value().volume), (200, 1));
}

/// Two publishers of one symbol overwrote each other, and their volumes were added in one topic.
#[test]
fn two_venues_of_one_source_have_a_topic_each_and_a_consolidated_one() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let mut batch = ingest.begin(2);
    for (number, name) in [(1, "XNAS"), (2, "XNYS")] {
        batch.venue(&venue(number, name));
    }
    batch.message(2, &quote(0, 1, 10, 20));
    batch.message(3, &trade(0, 1, 15, 5));
    batch.finish();
    let find = |name: &str| market.board.find(name.as_bytes()).unwrap();
    let value = |name: &str| market.board.value(find(name).number).unwrap();
    assert_eq!(find("A@XNAS").number, find("A").number, "one venue");
    let mut batch = ingest.begin(3);
    batch.message(4, &quote(0, 2, 11, 21));
    batch.message(5, &trade(0, 2, 12, 3));
    batch.message(6, &quote(0, 1, 10, 19));
    batch.finish();
    let (first, second, all) = (value("A@XNAS"), value("A@XNYS"), value("A"));
    assert_eq!(
        (first.bid, first.ask, first.last, first.volume),
        (10, 19, 15, 5)
    );
    assert_eq!(
        (second.bid, second.ask, second.last, second.volume),
        (11, 21, 12, 3)
    );
    assert_eq!((all.bid, all.ask, all.last, all.volume), (11, 19, 12, 8));
    assert_eq!((all.venues.bid, all.venues.ask, all.venues.last), (2, 1, 2));
    assert_eq!((all.high, all.low, all.session_open), (15, 12, 15));
    assert_eq!(&*find("A").facts().venue_name, "XNAS,XNYS");
}

/// A second source of a symbol was left out whole.
#[test]
fn two_sources_of_one_symbol_are_both_heard() {
    let market = Market::of_one_lane(MarketConfig::default());
    let (mut one, mut other) = (
        source(&market, "one", 0, "A"),
        source(&market, "other", 5, "A"),
    );
    let mut batch = one.begin(2);
    batch.message(2, &quote(0, 0, 10, 20));
    batch.finish();
    let mut batch = other.begin(3);
    batch.message(2, &quote(5, 0, 11, 21));
    batch.finish();
    let mut batch = one.begin(4);
    batch.message(3, &quote(0, 0, 12, 20));
    batch.finish();
    let find = |name: &str| market.board.find(name.as_bytes()).unwrap();
    let value = |name: &str| market.board.value(find(name).number).unwrap();
    assert_eq!(
        (value("A@one").bid, value("A@other").bid, value("A").bid),
        (12, 11, 12)
    );
    one.lose(5);
    assert_eq!(value("A@one").flags, FLAG_STALE);
    assert_eq!(
        (value("A").bid, value("A").flags),
        (11, 0),
        "the other is left"
    );
    other.lose(6);
    assert_eq!(value("A").flags, FLAG_STALE);
}

#[test]
fn who_loses_the_symbol_to_a_second_venue_marks_its_own_topic_stale() {
    let market = Market::of_one_lane(MarketConfig::default());
    let (mut one, mut other) = (
        source(&market, "one", 0, "A"),
        source(&market, "other", 5, "A"),
    );
    for (ingest, symbol) in [(&mut one, 0), (&mut other, 5)] {
        let mut batch = ingest.begin(2);
        batch.message(2, &quote(symbol, 0, 10, 20));
        batch.finish();
    }
    one.lose(5);
    let topic = market.board.find(b"A@one").unwrap();
    assert_eq!(market.board.value(topic.number).unwrap().flags, FLAG_STALE);
}

#[test]
fn a_symbol_without_a_value_is_stale_with_its_source_and_belongs_to_who_gives_the_first() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = source(&market, "one", 0, "A");
    let mut other = source(&market, "other", 0, "A");
    let value = || market.board.value(0).unwrap();
    let mut batch = other.begin(2);
    batch.message(2, &quote(0, 0, 10, 20));
    batch.finish();
    one.lose(3);
    assert_eq!((value().bid, value().flags), (10, 0), "it is the other's");
    other.lose(4);
    assert_eq!(value().flags, FLAG_STALE);
    let mut alone = source(&market, "alone", 0, "B");
    alone.lose(5);
    assert_eq!(market.board.value(1).unwrap().flags, FLAG_STALE);
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

/// A hub behind a hub added a symbol's consolidated value to that of its first venue.
#[test]
fn a_value_that_is_consolidated_upstream_goes_on_with_that_of_its_first_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = source(&market, "hub", 0, "A");
    send(&mut hub, &[trade(0, 2, 10, 5), quote(0, 2, 9, 11)]);
    send(&mut hub, &[trade(0, CONSOLIDATED, 12, 7)]);
    let value = value_of(&market, "A");
    assert_eq!((value.volume, value.trades, value.last), (12, 2, 12));
    assert_eq!(market.board.count(), 1);
    let facts = market.board.find(b"A").unwrap().facts();
    assert_eq!(&*facts.venue_name, "consolidated");
}

/// A symbol that was named like a venue's topic became that topic: its source wrote another's
/// prices.
#[test]
fn a_symbol_with_the_name_of_a_venues_topic_stays_its_sources_own() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut forger = source(&market, "forger", 0, "A@7");
    send(&mut forger, &[quote(0, 9, 98, 101)]);
    let mut honest = source(&market, "honest", 0, "A");
    send(&mut honest, &[quote(0, 7, 10, 20)]);
    let mut other = source(&market, "other", 0, "A");
    send(&mut other, &[quote(0, 8, 5, 30)]);
    send(
        &mut forger,
        &[quote(0, 9, 97, 102), trade(0, 9, 100, 1_000)],
    );
    send(&mut honest, &[quote(0, 7, 11, 19)]);
    assert_eq!(value_of(&market, "A@7").bid, 97);
    assert_eq!(value_of(&market, "A@7#2").bid, 11);
    let value = value_of(&market, "A");
    assert_eq!((value.bid, value.ask, value.volume), (11, 19, 0));
}

/// Between the split of a symbol and the next message of its first source, another source could
/// take the topic of the first one's venue.
#[test]
fn the_topic_of_the_first_venue_waits_for_its_source() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut first = source(&market, "first", 0, "A");
    send(&mut first, &[quote(0, 7, 10, 20)]);
    let mut second = source(&market, "second", 0, "A");
    send(&mut second, &[quote(0, 8, 5, 30)]);
    let mut thief = source(&market, "thief", 0, "A");
    send(&mut thief, &[quote(0, 7, 1, 99)]);
    send(&mut first, &[quote(0, 7, 11, 20)]);
    assert_eq!(value_of(&market, "A@7").bid, 11);
    assert_eq!(value_of(&market, "A@7#2").bid, 1);
    drop(first);
    let mut again = source(&market, "again", 0, "A");
    send(&mut again, &[quote(0, 7, 12, 20)]);
    assert_eq!(value_of(&market, "A@7").bid, 12, "it is free again");
}

#[test]
fn levels_and_their_book_belong_to_a_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut first = source(&market, "first", 0, "A");
    send(
        &mut first,
        &[quote(0, 7, 10, 20), clear(0, 7), set_level(0, 7, 10)],
    );
    let mut second = source(&market, "second", 0, "A");
    send(&mut second, &[clear(0, 8), set_level(0, 8, 5)]);
    send(&mut first, &[set_level(0, 7, 11)]);
    assert_eq!(best_bids(&market, "A@7"), [11, 10]);
    assert_eq!(best_bids(&market, "A@8"), [5]);
    assert!(best_bids(&market, "A").is_empty(), "the symbol has no book");
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

/// A replay of several venues ended with the prices of the venue that was marked last, and a
/// subscriber saw those in between as current.
#[test]
fn venues_that_leave_together_leave_their_last_consolidated_value() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = source(&market, "feed", 0, "A");
    send(&mut feed, &[quote(0, 7, 99, 101), quote(0, 8, 98, 102)]);
    send(
        &mut feed,
        &[
            status(0, 7, TradingState::OPEN),
            status(0, 8, TradingState::PAUSED),
        ],
    );
    let before = value_of(&market, "A");
    let topic = market.board.find(b"A").unwrap();
    let updates = before.updates;
    feed.lose(2);
    let after = value_of(&market, "A");
    assert_eq!((after.bid, after.ask), (99, 101));
    assert_eq!(after.status, before.status);
    assert_eq!(after.flags & FLAG_STALE, FLAG_STALE);
    assert_eq!(after.updates, updates + 1, "no step in between");
    assert!(topic.is_consolidated());
}

/// A hub behind another one showed values of a source that had died as current.
#[test]
fn what_the_source_says_of_a_value_and_what_the_hub_knows_of_the_source_are_both_shown() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = source(&market, "hub", 0, "A");
    send(&mut hub, &[quote(0, 7, 10, 20)]);
    let told = |flags| {
        Message::Certainty(Certainty {
            symbol: 0,
            source: 7,
            flags,
            ..Certainty::default()
        })
    };
    let stale = || staleness(&value_of(&market, "A"));
    send(&mut hub, &[told(Figures::IN_DOUBT)]);
    assert_eq!(stale(), 2);
    let mut early = source(&market, "early", 0, "B");
    send(&mut early, &[told(Figures::IN_DOUBT), quote(0, 7, 10, 20)]);
    assert_eq!(
        staleness(&value_of(&market, "B")),
        2,
        "said before the first value"
    );
    send(&mut hub, &[told(Figures::STALE)]);
    assert_eq!(stale(), 1);
    hub.lose(2);
    let mut batch = hub.begin(3);
    batch.revive();
    batch.finish();
    assert_eq!(
        stale(),
        1,
        "the connection is back, the source behind it is not"
    );
    send(&mut hub, &[told(0)]);
    assert_eq!(stale(), 0);
    let journal = market.journal.lock();
    let all = (1..journal.next_sequence()).filter_map(|at| journal.message(at));
    let told = all.filter_map(|message| match message {
        Message::Certainty(certainty) => Some(certainty.flags),
        _ => None,
    });
    let (stale, doubt) = (Figures::STALE, Figures::IN_DOUBT);
    assert_eq!(
        told.collect::<Vec<_>>(),
        [doubt, doubt, stale, stale, stale, 0]
    );
}

/// A hub behind another one had none of a venue's trades from before the second venue came.
#[test]
fn the_feed_has_the_value_with_which_a_venues_topic_begins() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = source(&market, "feed", 0, "A");
    send(&mut feed, &[trade(0, 7, 10, 100), quote(0, 8, 9, 11)]);
    let topic = market.board.find(b"A@7").unwrap();
    let journal = market.journal.lock();
    let all = (1..journal.next_sequence()).filter_map(|at| journal.message(at));
    let told = all.filter_map(|message| match message {
        Message::LastValue(value) if value.symbol == topic.number => Some(value.volume),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [100]);
}

/// A new session whose levels came before its first quote stayed stale.
#[test]
fn a_session_that_begins_with_levels_is_current() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = source(&market, "feed", 0, "A");
    send(&mut old, &[quote(0, 7, 1, 2)]);
    old.lose(2);
    drop(old);
    let mut new = source(&market, "feed", 0, "A");
    send(&mut new, &[clear(0, 7), set_level(0, 7, 8)]);
    let value = value_of(&market, "A");
    assert_eq!((value.bid, staleness(&value)), (PRICE_UNDEFINED, 0));
    send(&mut new, &[quote(0, 7, 8, 9)]);
    let value = value_of(&market, "A");
    assert_eq!((value.bid, staleness(&value)), (8, 0));
    assert_eq!(best_bids(&market, "A"), [8]);
}

/// One venue's forged trading day emptied the volume of all others, also after it had left.
#[test]
fn a_trading_day_that_is_no_date_or_of_who_has_left_ends_no_session() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut honest = source(&market, "honest", 0, "A");
    send(&mut honest, &[quote(0, 7, 10, 20), trade(0, 7, 10, 5)]);
    let mut forger = source(&market, "forger", 0, "A");
    send(&mut forger, &[quote(0, 8, 9, 21)]);
    let day = |trading_day| {
        Message::SessionStart(SessionStart {
            symbol: 0,
            source: 8,
            trading_day,
            rolls: 1,
            ..SessionStart::default()
        })
    };
    send(
        &mut forger,
        &[day(u32::MAX), day(99_999_999), day(20_240_102)],
    );
    assert_eq!(value_of(&market, "A").volume, 5, "nothing near 1970");
    send(&mut forger, &[day(19_700_105)]);
    assert_eq!(value_of(&market, "A").volume, 0, "a plausible day counts");
    forger.lose(2);
    assert_eq!(value_of(&market, "A").volume, 5);
}

#[test]
fn who_subscribes_to_the_only_venue_gets_its_updates_under_that_name() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let mut batch = ingest.begin(2);
    batch.message(2, &quote(0, 7, 10, 20));
    batch.finish();
    let sources: &dyn TopicSource = &*market.board;
    assert!(
        sources.find(b"md:A@7").is_none(),
        "messages would have another name"
    );
    sources.prepare(b"md:A@8", true);
    sources.prepare(b"md:A@7", true);
    for bid in [11, 12] {
        let mut batch = ingest.begin(3);
        batch.message(3, &quote(0, 7, bid, 20));
        let news = names(&batch.finish());
        assert!(news.contains(&b"md:A@7".to_vec()) && news.contains(&b"md:A".to_vec()));
        let value = |name: &str| market.board.find(name.as_bytes()).unwrap().number;
        for name in ["A", "A@7"] {
            assert_eq!(market.board.value(value(name)).unwrap().bid, bid);
        }
    }
    assert_eq!(market.board.count(), 2);
}

/// Each update of a venue looks at all venues of its symbol.
#[test]
fn a_symbol_has_a_bounded_number_of_venues() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let mut batch = ingest.begin(2);
    for venue in 0..300 {
        batch.message(2, &quote(0, venue, 10, 20));
    }
    batch.finish();
    assert_eq!(market.board.count(), 1 + 128);
    let refused = market.ingest.refused.load(Ordering::Relaxed);
    assert_eq!(refused, 300 - 128);
    drop(ingest);
    let mut new = source(&market, "new", 0, "A");
    send(&mut new, &[quote(0, 400, 11, 19)]);
    assert_eq!(value_of(&market, "A").bid, 11, "those that left make room");
}

#[test]
fn two_sources_at_one_venue_do_not_overwrite_each_other() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut sources = [
        source(&market, "one", 0, "A"),
        source(&market, "other", 0, "A"),
    ];
    for (ingest, bid) in sources.iter_mut().zip([10, 11]) {
        let mut batch = ingest.begin(2);
        batch.venue(&venue(7, "XNAS"));
        batch.message(2, &quote(0, 7, bid, 20));
        batch.finish();
    }
    let bid = |name: &str| {
        let topic = market.board.find(name.as_bytes()).unwrap();
        market.board.value(topic.number).unwrap().bid
    };
    assert_eq!((bid("A@XNAS"), bid("A@XNAS#2"), bid("A")), (10, 11, 11));
}

#[test]
fn a_source_that_follows_another_under_another_name_continues_its_topic() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = source(&market, "one", 0, "A");
    let mut batch = one.begin(2);
    batch.message(2, &quote(0, 0, 10, 20));
    batch.finish();
    drop(one);
    let mut other = source(&market, "other", 0, "A");
    let mut batch = other.begin(3);
    batch.message(2, &quote(0, 0, 11, 20));
    batch.finish();
    let topic = market.board.find(b"A").unwrap();
    assert_eq!(market.board.value(topic.number).unwrap().bid, 11);
    assert!(!topic.is_consolidated());
    assert_eq!(&*topic.facts().source_name, "other");
}

#[test]
fn a_halted_venue_gives_no_consolidated_price() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let mut batch = ingest.begin(2);
    batch.message(2, &quote(0, 1, 10, 20));
    batch.message(3, &quote(0, 2, 11, 19));
    batch.message(4, &status(0, 2, TradingState::HALTED));
    let news = batch.finish();
    let all = market
        .board
        .value(market.board.find(b"A").unwrap().number)
        .unwrap();
    assert_eq!((all.bid, all.ask, all.flags), (10, 20, 0));
    assert!(names(&news).contains(&b"md:A".to_vec()));
}

#[test]
fn after_a_loss_each_topic_is_in_doubt_until_its_own_record_and_only_the_rest_is_told() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = Ingest::new(market.clone(), 1, "test");
    let mut batch = ingest.begin(1);
    for (symbol, name) in [(0, "A"), (1, "B"), (2, "C")] {
        batch.definition(1, &definition(symbol, name));
        batch.message(1, &quote(symbol, 0, 10, 20));
    }
    batch.finish();
    let doubt = || [0, 1, 2].map(|number| market.board.value(number).unwrap().flags & FLAG_DOUBT);
    let mut batch = ingest.begin(2);
    batch.values_doubtful();
    batch.snapshot_record(5, &LastValue::new(0));
    let told = names(&batch.finish());
    assert_eq!(doubt(), [0, FLAG_DOUBT, FLAG_DOUBT]);
    assert_eq!(told, [b"md:A".to_vec(), b"md:B".to_vec(), b"md:C".to_vec()]);
    let mut batch = ingest.begin(3);
    batch.definition(0, &definition(1, "B"));
    batch.revive();
    assert_eq!(doubt(), [0, FLAG_DOUBT, FLAG_DOUBT], "no value has come");
    batch.snapshot_record(5, &LastValue::new(1));
    batch.values_right();
    assert_eq!(names(&batch.finish()), [b"md:B".to_vec(), b"md:C".to_vec()]);
    assert_eq!(doubt(), [0; 3]);

    let mut batch = ingest.begin(4);
    batch.values_doubtful();
    batch.snapshot_record(9, &LastValue::new(2));
    batch.values_right();
    assert_eq!(
        names(&batch.finish()),
        [b"md:C".to_vec()],
        "all of it came at once"
    );
    assert_eq!(doubt(), [0; 3]);
}

#[test]
fn what_nothing_replaces_leaves_each_topic_in_doubt_until_its_next_message() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = Ingest::new(market.clone(), 1, "test");
    let mut batch = ingest.begin(1);
    batch.definition(1, &definition(0, "A"));
    batch.definition(2, &definition(1, "B"));
    batch.message(3, &quote(0, 0, 10, 20));
    batch.message(4, &quote(1, 0, 10, 20));
    batch.values_lost();
    batch.message(9, &trade(1, 0, 15, 1));
    batch.finish();
    let flags = |number| market.board.value(number).unwrap().flags;
    assert_eq!((flags(0), flags(1)), (FLAG_DOUBT, 0));
    // A source that is gone says more than a doubt.
    ingest.lose(2);
    let stale = staleness(&market.board.value(0).unwrap());
    assert_eq!((stale, flags(0)), (1, FLAG_DOUBT | FLAG_STALE));
    assert_eq!(ingest.take_state().doubt, Doubt::Messages);
}

/// The trade of the first venue had no venue as soon as a second one came.
#[test]
fn the_last_trade_keeps_its_venue_when_a_second_one_comes() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    let mut batch = one.begin(1);
    batch.message(1, &trade(0, 1, 10, 5));
    batch.finish();
    let mut other = named_source(&market, "other", "V2");
    let mut batch = other.begin(2);
    batch.message(1, &quote(0, 1, 9, 11));
    batch.finish();
    let value = market.board.value(0).unwrap();
    let name = market.board.venues().name(value.venues.last);
    assert_eq!((value.last, name.as_deref()), (10, Some("V1")));
}

/// A venue that had sent a status only stayed current for ever, and its state and trading day
/// counted.
#[test]
fn a_venue_with_a_state_only_is_stale_when_its_source_leaves() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    let mut batch = one.begin(1);
    batch.message(1, &quote(0, 1, 9, 11));
    batch.message(2, &trade(0, 1, 10, 5));
    batch.message(3, &status(0, 1, TradingState::CLOSED));
    batch.finish();
    let mut other = named_source(&market, "other", "V2");
    let mut batch = other.begin(DAY_NS);
    batch.message(1, &status(0, 1, TradingState::OPEN));
    let tomorrow = SessionStart {
        source: 1,
        trading_day: 19_700_102,
        rolls: 1,
        ..SessionStart::default()
    };
    batch.message(2, &Message::SessionStart(tomorrow));
    batch.finish();
    let value = |name: &[u8]| {
        let topic = market.board.find(name).unwrap();
        market.board.value(topic.number).unwrap()
    };
    let (volume, state) = (value(b"A").volume, value(b"A").status.state);
    assert_eq!((volume, state), (0, TradingState::OPEN.0));
    other.lose(3);
    assert_eq!(staleness(&value(b"A@V2")), 1);
    assert_eq!(
        (staleness(&value(b"A@V1")), staleness(&value(b"A"))),
        (0, 0)
    );
    assert_eq!(value(b"A").volume, 5);
    assert_eq!(value(b"A").status.state, TradingState::CLOSED.0);
    // The same connection's source is back.
    other.begin(4).revive();
    assert_eq!(staleness(&value(b"A@V2")), 0);
}

/// A venue that left before another one came had `#2` behind its name when it returned.
#[test]
fn a_venue_that_returns_after_another_came_continues_its_topic() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut two = named_source(&market, "two", "V2");
    let mut batch = two.begin(1);
    batch.message(1, &quote(0, 1, 9, 11));
    batch.finish();
    two.lose(2);
    let state = two.take_state();
    drop(two);
    let mut one = named_source(&market, "one", "V1");
    let mut batch = one.begin(3);
    batch.message(1, &quote(0, 1, 8, 12));
    batch.finish();
    for is_same_session in [true, false] {
        let mut two = named_source(&market, "two", "V2");
        let mut batch = two.begin(4);
        if is_same_session {
            batch.resume(SourceState {
                symbols: SymbolMap::default(),
                ..SourceState::default()
            });
            batch.definition(1, &definition(0, "A"));
            batch.venue(&venue(1, "V2"));
        }
        batch.message(5, &quote(0, 1, 10, 13));
        batch.finish();
        assert!(market.board.find(b"A@V2#2").is_none(), "{is_same_session}");
        let topic = market.board.find(b"A@V2").unwrap();
        assert_eq!(market.board.value(topic.number).unwrap().bid, 10);
        two.lose(5);
    }
    drop(state);
}

/// The session that had only defined a symbol made the quote of the one before current again by
/// its own reconnection.
#[test]
fn a_session_that_only_defines_leaves_the_old_quote_stale_when_it_reconnects() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = source(&market, "old", 0, "A");
    let mut batch = old.begin(1);
    batch.message(1, &quote(0, 0, 10, 11));
    batch.finish();
    old.lose(2);
    drop(old);
    let mut new = source(&market, "old", 0, "A");
    let stale = || staleness(&market.board.value(0).unwrap());
    new.lose(3);
    let state = new.take_state();
    drop(new);
    let number = market.next_source_number() as u32;
    let mut again = Ingest::new(market.clone(), number, "old");
    let mut batch = again.begin(4);
    batch.resume(state);
    batch.finish();
    assert_eq!(stale(), 1);
    // Another venue's topic does not hide it.
    let mut other = named_source(&market, "other", "V2");
    let mut batch = other.begin(5);
    batch.message(1, &quote(0, 1, 5, 6));
    batch.finish();
    assert_eq!(market.board.value(0).unwrap().bid, 5);
    let mut batch = again.begin(6);
    batch.message(2, &trade(0, 0, 10, 1));
    batch.finish();
    assert_eq!(stale(), 0);
}

/// Each of 300 losses looked at all of 200,000 topics: the hub stood still for 20 s.
#[test]
fn losses_in_a_row_look_only_at_topics_whose_doubt_has_ended() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = Ingest::new(market.clone(), 1, "test");
    let mut batch = ingest.begin(1);
    for (symbol, name) in [(0, "A"), (1, "B"), (2, "C")] {
        batch.definition(1, &definition(symbol, name));
        batch.message(2, &quote(symbol, 0, 10, 20));
    }
    batch.values_lost();
    batch.message(3, &quote(1, 0, 11, 20));
    assert_eq!(batch.work.certain.as_deref(), Some(&[1][..]));
    batch.values_lost();
    assert_eq!(batch.work.certain.as_deref(), Some(&[][..]));
    batch.message(4, &quote(2, 0, 11, 20));
    batch.message(5, &quote(2, 0, 12, 20));
    batch.finish();
    assert_eq!(ingest.certain.as_deref(), Some(&[2][..]));
    let stale = |number| staleness(&market.board.value(number).unwrap());
    assert_eq!((stale(0), stale(1), stale(2)), (2, 2, 0));
}

/// A publisher whose first word of a symbol was a state of one venue, and whose values were of
/// another, left the first one current.
#[test]
fn both_venues_of_a_publisher_are_stale_when_it_leaves() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "W1");
    let mut batch = one.begin(1);
    batch.venue(&venue(9, "W9"));
    batch.message(1, &status(0, 9, TradingState::OPEN));
    batch.message(2, &trade(0, 1, 10, 5));
    batch.message(3, &quote(0, 1, 9, 11));
    batch.finish();
    one.lose(2);
    for name in ["A", "A@W1", "A@W9"] {
        assert_eq!(staleness(&value_of(&market, name)), 1, "{name}");
    }
    assert_eq!(
        (value_of(&market, "A").bid, value_of(&market, "A").volume),
        (9, 5)
    );
}

/// Subscribers kept the quote of the session before, because a level is no message of the topic.
#[test]
fn the_first_level_of_a_new_session_publishes_the_emptied_quote() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = named_source(&market, "one", "W1");
    send(&mut old, &[quote(0, 1, 10, 11)]);
    old.lose(2);
    drop(old);
    let mut new = named_source(&market, "one", "W1");
    let mut batch = new.begin(3);
    batch.message(
        1,
        &Message::Level(Level {
            source: 1,
            action: Level::CLEAR,
            is_last: 1,
            ..Level::default()
        }),
    );
    assert!(names(&batch.finish()).contains(&b"md:A".to_vec()));
    assert_eq!(staleness(&value_of(&market, "A")), 0);
}

/// A hub that had found a second venue counted twice behind it, beside a source of the hub itself.
#[test]
fn a_hubs_consolidated_value_is_one_venue_among_those_of_the_hub_behind_it() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut own = named_source(&market, "own", "W9");
    send(&mut own, &[trade(0, 1, 10, 100), quote(0, 1, 9, 12)]);
    let mut hub = named_source(&market, "hub", "W1");
    hub.begin(1).venue(&venue(CONSOLIDATED, "consolidated"));
    send(&mut hub, &[trade(0, 1, 11, 5), quote(0, 1, 8, 11)]);
    assert_eq!(value_of(&market, "A").volume, 105);
    // The hub finds a second venue: W1 gets a symbol of its own.
    let mut batch = hub.begin(2);
    batch.definition(1, &definition(1, "A@W1"));
    batch.finish();
    let record = LastValue {
        source: CONSOLIDATED,
        volume: 5,
        ..LastValue::new(0)
    };
    send(&mut hub, &[Message::LastValue(record)]);
    send(
        &mut hub,
        &[trade(1, 1, 11, 2), trade(0, CONSOLIDATED, 12, 7)],
    );
    send(
        &mut hub,
        &[quote(1, 1, 7, 13), quote(0, CONSOLIDATED, 8, 10)],
    );
    let value = value_of(&market, "A");
    assert_eq!((value.volume, value.bid, value.ask), (112, 9, 10));
    assert_eq!(
        (
            value_of(&market, "A@W1").volume,
            value_of(&market, "A@W1").bid
        ),
        (7, 7)
    );
    assert_eq!(value_of(&market, "A@consolidated").volume, 12);
}

/// Returns a source that has defined the symbol `A` as number 0, and the venue number 1.
fn named_source(market: &Arc<Market>, feed: &str, name: &str) -> Ingest {
    let mut ingest = source(market, feed, 0, "A");
    ingest.begin(1).venue(&venue(1, name));
    ingest
}

const DAY_NS: u64 = 86_400_000_000_000;

/// A trade of A at venue 7, at a source time in ns.
fn trade_at(time_ns: u64, price: i64, size: u32) -> Message {
    Message::Trade(TradeMessage {
        source: 7,
        source_time_ns: time_ns,
        price,
        size,
        ..TradeMessage::default()
    })
}

fn quote_at(time_ns: u64) -> Message {
    Message::Quote(QuoteMessage {
        source: 7,
        source_time_ns: time_ns,
        bid: 9,
        ask: 11,
        ..QuoteMessage::default()
    })
}

/// A start of a session of A at venue 7, with a previous close if it is not 0.
fn start_at(time_ns: u64, trading_day: u32, rolls: u8, close: i64) -> Message {
    let (reference, kind) = match close {
        0 => (PRICE_UNDEFINED, ReferenceKind::NONE),
        close => (close, ReferenceKind::PREVIOUS_CLOSE),
    };
    Message::SessionStart(SessionStart {
        source: 7,
        source_time_ns: time_ns,
        trading_day,
        rolls,
        reference,
        kind,
        ..SessionStart::default()
    })
}

const DAY: u8 = SessionStart::BEGINS_DAY;
const AGAIN: u8 = SessionStart::BEGINS_DAY_OR_AGAIN;
const FRIDAY: u32 = 19_700_102;
const MONDAY: u32 = 19_700_105;

/// Plays files of A one after the other, each from a source of its own. Returns the value, and that
/// of a reader of the hub's own feed.
fn after_files(files: &[&[Message]]) -> (MarketValue, LastValue) {
    let market = Market::of_one_lane(MarketConfig::default());
    for file in files {
        let mut ingest = source(&market, "replay", 0, "A");
        send(&mut ingest, file);
        ingest.lose(3);
    }
    let value = value_of(&market, "A");
    let mut reader = LastValue {
        figures: Some(Figures::default()),
        ..LastValue::new(0)
    };
    let journal = market.journal.lock();
    for sequence in 1..journal.next_sequence() {
        let message = journal.message(sequence).expect("kept");
        if let Message::SessionStart(start) = &message {
            assert!(start.rolls <= SessionStart::BEGINS, "the hub has decided");
        }
        reader.apply(sequence, &message);
    }
    drop(journal);
    let figures = reader.figures.unwrap();
    assert_eq!(
        (reader.volume, figures.trades),
        (value.volume, value.trades)
    );
    assert_eq!(
        (reader.open, figures.high),
        (value.session_open, value.high)
    );
    assert_eq!(figures.reference, value.reference.price);
    assert_eq!(figures.trading_day, value.trading_day);
    (value, reader)
}

/// Databento gives one schema a file: a second file of a day emptied the day's figures.
#[test]
fn a_second_file_of_a_day_goes_on_with_it() {
    let trades = [
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
        trade_at(20, 102, 5),
    ];
    let later = [start_at(30, FRIDAY, AGAIN, 0), trade_at(30, 103, 7)];
    let quotes = [start_at(5, FRIDAY, DAY, 0), quote_at(5), quote_at(15)];
    let close = [start_at(1, FRIDAY, DAY, 90)];
    let volume = |files: &[&[Message]]| after_files(files).0.volume;
    assert_eq!(volume(&[&trades, &later]), 17);
    assert_eq!(volume(&[&trades, &quotes]), 10);
    // The quotes have gone back in time; the trades before them still are before the later ones.
    assert_eq!(volume(&[&trades, &quotes, &later]), 17);
    assert_eq!(volume(&[&quotes, &trades, &later]), 17);
    for files in [
        &[&close[..], &trades, &later][..],
        &[&trades, &later, &close],
    ] {
        let (value, _) = after_files(files);
        assert_eq!(
            (value.volume, value.session_open, value.high),
            (17, 100, 103)
        );
        assert_eq!(value.reference.price, 90);
    }
}

#[test]
fn the_same_trades_again_count_once() {
    let trades = [
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
        trade_at(20, 102, 5),
    ];
    let both = [
        start_at(5, FRIDAY, DAY, 0),
        quote_at(5),
        start_at(10, FRIDAY, AGAIN, 0),
        trade_at(10, 100, 5),
        trade_at(20, 102, 5),
        quote_at(21),
    ];
    let status = [start_at(1, FRIDAY, DAY, 90), quote_at(1)];
    let volume = |files: &[&[Message]]| after_files(files).0.volume;
    assert_eq!(volume(&[&trades, &trades]), 10);
    assert_eq!(volume(&[&both, &both, &both]), 10);
    assert_eq!(volume(&[&trades, &both]), 10);
    assert_eq!(volume(&[&both, &trades]), 10);
    let (value, _) = after_files(&[&trades, &status, &both]);
    assert_eq!(
        (value.volume, value.reference.price),
        (10, 90),
        "the close stays"
    );
}

#[test]
fn files_of_two_days_begin_each_day_in_both_orders() {
    let day_ns = 3 * 86_400_000_000_000;
    let friday = [start_at(10, FRIDAY, AGAIN, 90), trade_at(10, 100, 5)];
    let monday = [start_at(day_ns, MONDAY, AGAIN, 0), trade_at(day_ns, 103, 7)];
    for (files, day, volume, close) in [
        ([&friday, &monday], MONDAY, 7, PRICE_UNDEFINED),
        ([&monday, &friday], FRIDAY, 5, 90),
    ] {
        let (value, _) = after_files(&files.map(|file| &file[..]));
        assert_eq!((value.trading_day, value.volume), (day, volume));
        assert_eq!(value.reference.price, close);
    }
}

/// A trade in 2100 began that day, and no real day after it.
#[test]
fn a_trading_day_of_the_far_future_is_none() {
    let far_ns = 76 * 365 * 86_400_000_000_000;
    let far_day = date_of(far_ns);
    let file = [
        start_at(far_ns, far_day, SessionStart::BEGINS, 0),
        trade_at(far_ns, 100, 5),
    ];
    assert_eq!(after_files(&[&file]).0.trading_day, 0);
    let next = [start_at(10, FRIDAY, AGAIN, 0), trade_at(10, 100, 1)];
    let (value, _) = after_files(&[&file, &next]);
    assert_eq!((value.trading_day, value.volume), (FRIDAY, 1));
}

fn date_of(time_ns: u64) -> u32 {
    tidewire_calendar::date_number((time_ns / 86_400_000_000_000) as i64)
}
