//! Topics of venues, and the value consolidated from them.

use super::*;

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

/// A hub behind a hub added a symbol's consolidated value to that of its first venue.
#[test]
fn a_value_that_is_consolidated_upstream_goes_on_with_that_of_its_first_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = source(&market, "hub", 0, "A");
    hub.name_venue(CONSOLIDATED, crate::venues::CONSOLIDATED_NAME);
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

#[test]
fn who_subscribes_to_the_only_venue_gets_its_updates_under_that_name() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let mut batch = ingest.begin(2);
    batch.message(2, &quote(0, 7, 10, 20));
    batch.finish();
    let topics: &dyn TopicSource = &*market.board;
    assert!(
        topics.find(b"md:A@7").is_none(),
        "messages would have another name"
    );
    let sources: &dyn TopicSource = &*market.seconds;
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
    assert_eq!(market.board.count(), 1);
}

/// Who asked for the only venue by its name before the symbol had it got nothing.
#[test]
fn who_asks_for_a_venue_before_its_symbol_has_it_gets_its_first_value() {
    for ask in 0..5 {
        let market = Market::of_one_lane(MarketConfig::default());
        let sources: &dyn TopicSource = &*market.seconds;
        let feed: &dyn tidewire_feed::server::Board = &*market.board;
        let subscribe = |kind, name: &[u8]| {
            sources.prepare(name, kind == Kind::Channel);
            market.post.subscriptions.add(0, kind, name);
            assert!(kind == Kind::Channel || sources.second(name).is_none());
        };
        let ask_now = |time: usize| match ask {
            0 | 1 if ask == time => subscribe(Kind::Channel, b"md:A@V1"),
            2 if time == 0 => subscribe(Kind::Prefix, b"md:A@V1"),
            3 if time == 1 => assert_eq!(feed.find("A@V1"), None),
            4 if time == 0 => subscribe(Kind::Pattern, b"md:A@*"),
            _ => {}
        };
        ask_now(0);
        let mut ingest = named_source(&market, "test", "V1");
        ask_now(1);
        let mut batch = ingest.begin(2);
        batch.message(2, &quote(0, 1, 10, 20));
        let news = names(&batch.finish());
        assert!(news.contains(&b"md:A@V1".to_vec()), "{ask}");
        // The native feed has numbers in place of names.
        assert_eq!(market.board.count(), if ask == 3 { 2 } else { 1 });
        assert_eq!(value_of(&market, "A@V1").bid, 10);
        assert_eq!(value_of(&market, "A").bid, 10);
    }
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

/// The venue's state, day and open went over to the publisher's own venue.
#[test]
fn a_state_of_a_named_venue_stays_there_when_another_number_has_the_first_value() {
    for number in [0, 7] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = named_source(&market, "own", "V1");
        let halted = status(0, 1, TradingState::HALTED);
        send(&mut ingest, &[halted, trade(0, number, 51, 5)]);
        let other = if number == 0 { "A@own" } else { "A@7" };
        let state = |name: &str| value_of(&market, name).status.state;
        assert_eq!((state("A@V1"), state(other)), (TradingState::HALTED.0, 0));
        assert_eq!(value_of(&market, other).volume, 5);
    }
}
