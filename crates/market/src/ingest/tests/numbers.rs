//! The hub's numbers of venues, and what counts as applied.

use super::*;
use crate::venues::{PUBLISHER_VENUES_MAX, UNNUMBERED};

fn facts(market: &Market, name: &str) -> (String, Option<u16>, i64) {
    let topic = market.board.find(name.as_bytes()).unwrap();
    let facts = topic.facts();
    let value = market.board.value(topic.number).unwrap();
    (facts.venue_name.to_string(), facts.venue, value.bid)
}

/// After 32,768 names no publisher with a new one gave any value.
#[test]
fn a_venue_beyond_the_limit_has_values_and_shares_a_number() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut greedy = Ingest::new(market.clone(), 1, "greedy").of_publisher("peer".to_owned());
    let mut batch = greedy.begin(1);
    let last = PUBLISHER_VENUES_MAX + 1;
    for symbol in 0..=last {
        batch.definition(1, &definition(symbol, &format!("S{symbol}")));
        batch.message(2, &quote(symbol, 10 + symbol as u16, 7, 9));
    }
    batch.finish();
    let number = 10 + last as u16;
    let beyond = (number.to_string(), Some(UNNUMBERED), 7);
    assert_eq!(facts(&market, &format!("S{last}")), beyond);
    let told = (1..market.journal.lock().next_sequence())
        .filter_map(|sequence| market.journal.lock().message(sequence));
    let told: Vec<_> = told
        .filter_map(|message| match message {
            Message::Venue(venue) => Some((venue.source, venue.name.as_str().to_owned())),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(UNNUMBERED, "unnumbered".to_owned())]);
    assert_eq!(market.board.venues().shared(), 2);
    // Another publisher has numbers of its own.
    let mut good = source(&market, "good", 0, "GOOD");
    send(&mut good, &[quote(0, 0, 5, 6)]);
    assert_eq!(facts(&market, "GOOD"), ("good".to_owned(), Some(0), 5));
}

/// Both have the same number, and each has its own last trade.
#[test]
fn two_venues_of_a_symbol_that_share_a_number_stay_apart() {
    let market = Market::of_one_lane(MarketConfig::default());
    let [mut one, mut other] = ["one", "other"].map(|name| {
        let mut ingest = source(&market, name, 0, "A");
        ingest.venues_left = 0;
        ingest
    });
    send(&mut one, &[trade(0, 0, 10, 5), quote(0, 0, 9, 20)]);
    send(&mut other, &[quote(0, 0, 8, 19), trade(0, 0, 12, 3)]);
    let value = |name: &str| {
        let topic = market.board.find(name.as_bytes()).unwrap();
        market.board.value(topic.number).unwrap()
    };
    let all = value("A");
    assert_eq!((all.last, all.volume, all.bid, all.ask), (12, 8, 9, 19));
    assert_eq!((value("A@one").last, value("A@other").last), (10, 12));
    assert_eq!(all.venues.last, UNNUMBERED);
}

/// A publisher with its process id in its name, that restarts more often than there are numbers.
#[test]
fn a_publisher_that_restarts_under_a_new_name_each_time_uses_one_number_at_a_time() {
    let market = Market::of_one_lane(MarketConfig::default());
    for publisher in 0..70_000 {
        let mut ingest = source(&market, &format!("pid-{publisher}"), 0, "A");
        send(&mut ingest, &[quote(0, 0, publisher, publisher + 1)]);
    }
    let (name, number, bid) = facts(&market, "A");
    assert_eq!((name.as_str(), bid), ("pid-69999", 69_999));
    assert_eq!(market.board.venues().shared(), 0);
    let named = number.and_then(|number| market.board.venues().name(number));
    assert_eq!(named.as_deref(), Some("pid-69999"));
}

/// A hub before this one gives an idle number to another venue.
#[test]
fn a_number_that_means_another_venue_now_is_looked_up_again() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = source(&market, "hub", 0, "A");
    hub.begin(1).venue(&venue(CONSOLIDATED, "consolidated"));
    hub.begin(1).venue(&venue(7, "old"));
    send(&mut hub, &[quote(0, 7, 1, 2)]);
    assert_eq!(facts(&market, "A").0, "old");
    send(&mut hub, &[quote(0, 8, 1, 2)]);
    hub.begin(1).venue(&venue(7, "new"));
    send(&mut hub, &[quote(0, 7, 3, 4)]);
    assert_eq!(
        (facts(&market, "A").0.as_str(), facts(&market, "A").2),
        ("new", 3)
    );
}

/// A publisher could give a symbol a venue `consolidated`.
#[test]
fn only_a_hub_gives_consolidated_values() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut publisher = source(&market, "one", 0, "A");
    publisher.begin(1).venue(&venue(CONSOLIDATED, "XNAS"));
    let mut batch = publisher.begin(2);
    batch.message(1, &quote(0, 1, 1, 2));
    batch.message(2, &quote(0, CONSOLIDATED, 3, 4));
    batch.message(3, &set_level(0, CONSOLIDATED, 3));
    batch.message(4, &status(0, CONSOLIDATED, TradingState::HALTED));
    assert_eq!(batch.take_refused(), 3);
    batch.finish();
    assert_eq!(facts(&market, "A"), ("1".to_owned(), Some(1), 1));
    let mut hub = source(&market, "hub", 0, "B");
    hub.begin(1).venue(&venue(CONSOLIDATED, "consolidated"));
    send(&mut hub, &[quote(0, CONSOLIDATED, 3, 4)]);
    assert_eq!(facts(&market, "B").2, 3);
}

/// Definitions and names of venues were not counted, and a replay's report counted them.
#[test]
fn every_message_of_a_stream_counts_as_applied_or_as_refused() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "one", 0, "A");
    let mut batch = ingest.begin(2);
    batch.venue(&venue(3, "XNAS"));
    batch.message(3, &quote(0, 3, 1, 2));
    batch.message(4, &trade(0, 3, PRICE_UNDEFINED, 2));
    batch.message(5, &quote(9, 3, 1, 2));
    batch.message(6, &status(0, 3, TradingState::OPEN));
    assert_eq!((batch.take_refused(), batch.take_refused()), (2, 0));
    // What a login or a snapshot repeats is no message of the stream.
    batch.venue_of_login(&venue(4, "XNYS"));
    batch.definition(0, &definition(5, "B"));
    batch.snapshot_record(6, &LastValue::new(5));
    batch.snapshot_record(6, &LastValue::new(17));
    assert_eq!(batch.take_refused(), 0);
    batch.finish();
    let counters = &market.ingest;
    let counts = [&counters.applied, &counters.refused].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(
        counts,
        [4, 3],
        "with the definition, and a record of the snapshot"
    );
}
