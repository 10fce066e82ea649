//! Venue numbers that get another name.

use super::*;

/// Returns a publisher that has defined the symbol `A` as number 0, and named the venue 1 `V1`.
fn publisher(market: &Arc<Market>) -> Ingest {
    let mut ingest = named_source(market, "test", "V1").of_publisher("peer".to_owned());
    ingest.at_once = 1_000;
    ingest
}

/// Names the venue 1, in a batch of its own, and lets all symbols know.
fn rename(ingest: &mut Ingest, name: &str) {
    let mut batch = ingest.begin(2);
    batch.venue(&venue(1, name));
    batch.finish();
    while ingest.is_sweeping() {
        ingest.sweep(&mut Steps::new(1), 2);
    }
}

/// Returns best bid, volume and staleness of a topic, and its venues.
fn shown(market: &Market, name: &str) -> (i64, u64, u64, String) {
    let topic = market.board.find(name.as_bytes());
    let topic = topic.unwrap_or_else(|| panic!("{name} is unknown"));
    let value = market.board.value(topic.number).unwrap();
    let venue = topic.facts().venue_name.to_string();
    (value.bid, value.volume, staleness(&value), venue)
}

fn of(bid: i64, volume: u64, stale: u64, venue: &str) -> (i64, u64, u64, String) {
    (bid, volume, stale, venue.to_owned())
}

/// Symbols with values kept the old name of the venue: `A@V1` had the prices of V2.
#[test]
fn a_venue_number_with_another_name_is_another_venue() {
    for at_once in [1_000, 0] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = publisher(&market);
        ingest.at_once = at_once;
        send(&mut ingest, &[quote(0, 1, 10, 20), trade(0, 1, 15, 5)]);
        rename(&mut ingest, "V2");
        assert_eq!(shown(&market, "A"), of(10, 5, 1, "V1"), "no value of V2");
        send(&mut ingest, &[quote(0, 1, 11, 21), trade(0, 1, 16, 2)]);
        assert_eq!(shown(&market, "A@V1"), of(10, 5, 1, "V1"));
        assert_eq!(shown(&market, "A@V2"), of(11, 2, 0, "V2"));
        assert_eq!(shown(&market, "A"), of(11, 7, 0, "V1,V2"));
        let last = value_of(&market, "A").venues.last;
        let last = market.board.venues().name(last);
        assert_eq!(last.as_deref(), Some("V2"));
        // The first venue goes on where it was.
        rename(&mut ingest, "V1");
        assert_eq!(shown(&market, "A@V2").2, 1);
        send(&mut ingest, &[trade(0, 1, 17, 1)]);
        let (_, volume, stale, _) = shown(&market, "A@V1");
        assert_eq!((volume, stale), (6, 0));
    }
}

/// The topic stayed stale until its next value, and a trade emptied its quote.
#[test]
fn a_venue_that_gets_its_name_again_goes_on_with_its_values() {
    for (at_once, has_value) in [(1_000, false), (1_000, true), (0, false), (0, true)] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = publisher(&market);
        ingest.at_once = at_once;
        let open = status(0, 1, TradingState::OPEN);
        send(
            &mut ingest,
            &[open, quote(0, 1, 10, 20), trade(0, 1, 15, 5)],
        );
        for round in 0..3 {
            rename(&mut ingest, "V2");
            let name = if has_value { "A@V1" } else { "A" };
            if has_value {
                send(&mut ingest, &[quote(0, 1, 11, 21)]);
            }
            assert_eq!(shown(&market, name), of(10, 5 + round, 1, "V1"));
            rename(&mut ingest, "V1");
            assert_eq!(shown(&market, name), of(10, 5 + round, 0, "V1"));
            let state = value_of(&market, name).status.state;
            assert_eq!(state, TradingState::OPEN.0);
            assert_eq!(shown(&market, "A").0, 10, "the other venue is stale");
            if round > 0 {
                // Once without a value between two names.
                rename(&mut ingest, "V3");
                rename(&mut ingest, "V1");
            }
            send(&mut ingest, &[trade(0, 1, 16, 1)]);
            assert_eq!(shown(&market, name), of(10, 6 + round, 0, "V1"));
        }
        ingest.lose_at_once(3);
        assert_eq!(shown(&market, "A").2, 1, "it is the source's topic");
    }
}

/// What has happened meanwhile counts: another source, another session, a loss.
#[test]
fn a_venue_with_its_name_again_is_as_certain_as_its_source() {
    let begin = || {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = publisher(&market);
        send(&mut ingest, &[quote(0, 1, 10, 20)]);
        rename(&mut ingest, "V2");
        (market, ingest)
    };
    let (market, mut ingest) = begin();
    let mut other = named_source(&market, "other", "V1");
    send(&mut other, &[quote(0, 1, 9, 19)]);
    rename(&mut ingest, "V1");
    assert_eq!(shown(&market, "A"), of(9, 0, 0, "V1"));
    other.lose(3);
    assert_eq!(shown(&market, "A").2, 1, "the other one's value");

    let (market, mut ingest) = begin();
    let mut batch = ingest.begin(2);
    batch.values_lost();
    batch.finish();
    rename(&mut ingest, "V1");
    assert_eq!(shown(&market, "A"), of(10, 0, 2, "V1"), "it is in doubt");
    send(&mut ingest, &[quote(0, 1, 11, 20)]);
    assert_eq!(shown(&market, "A"), of(11, 0, 0, "V1"));

    let (market, mut ingest) = begin();
    let mut batch = ingest.begin(2);
    batch.session_changed(1, 2);
    batch.definition(1, &definition(0, "A"));
    batch.finish();
    rename(&mut ingest, "V1");
    assert_eq!(shown(&market, "A"), of(10, 0, 1, "V1"), "no value yet");
}

/// A state alone, and the topic with the second name, which has the values of the first one.
#[test]
fn states_and_second_names_of_a_venue_with_its_name_again_go_on() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    send(&mut ingest, &[status(0, 1, TradingState::HALTED)]);
    rename(&mut ingest, "V2");
    rename(&mut ingest, "V1");
    assert_eq!(shown(&market, "A").2, 0);
    assert_eq!(value_of(&market, "A").status.state, TradingState::HALTED.0);

    let market = Market::of_one_lane(MarketConfig::default());
    let mut other = source(&market, "other", 0, "A@V1");
    send(&mut other, &[quote(0, 1, 7, 8)]);
    drop(other);
    let mut ingest = publisher(&market);
    send(&mut ingest, &[quote(0, 1, 10, 20)]);
    for (name, stale) in [("V2", 1), ("V1", 0)] {
        rename(&mut ingest, name);
        assert_eq!(shown(&market, "A").2, stale);
        assert_eq!(shown(&market, "A@V1").2, stale);
    }
    send(&mut ingest, &[trade(0, 1, 16, 1)]);
    assert_eq!(shown(&market, "A"), of(10, 1, 0, "V1"));
    assert_eq!(shown(&market, "A@V1"), of(10, 1, 0, "V1"));
}

/// A message of its own, in the same batch, comes before the slice of its symbol.
#[test]
fn a_value_behind_the_new_name_is_of_the_new_venue_before_all_symbols_know() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    ingest.at_once = 0;
    let mut batch = ingest.begin(2);
    batch.definition(1, &definition(1, "B"));
    batch.message(2, &quote(0, 1, 10, 20));
    batch.message(3, &quote(1, 1, 10, 20));
    batch.venue(&venue(1, "V2"));
    batch.message(5, &quote(1, 1, 11, 20));
    batch.venue(&venue(1, "V3"));
    batch.message(6, &quote(1, 1, 12, 20));
    batch.message(7, &quote(1, 1, 13, 20));
    batch.finish();
    assert!(ingest.is_sweeping());
    assert_eq!(shown(&market, "B@V1"), of(10, 0, 1, "V1"));
    assert_eq!(shown(&market, "B@V2"), of(11, 0, 1, "V2"));
    assert_eq!(shown(&market, "B@V3"), of(13, 0, 0, "V3"));
    assert_eq!(shown(&market, "A"), of(10, 0, 0, "V1"), "not its slice yet");
    while ingest.is_sweeping() {
        ingest.sweep(&mut Steps::new(1), 2);
    }
    assert_eq!(shown(&market, "A"), of(10, 0, 1, "V1"));
    assert_eq!(
        shown(&market, "B@V3"),
        of(13, 0, 0, "V3"),
        "it was looked at"
    );
}

/// The next session names the number first: the old name's topic keeps its last values, as stale.
#[test]
fn another_session_that_gives_the_number_another_name_has_another_venue() {
    for is_same_session in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut old = publisher(&market);
        send(&mut old, &[quote(0, 1, 10, 20), trade(0, 1, 15, 5)]);
        old.lose(2);
        let state = old.take_state();
        drop(old);
        let number = market.next_source_number() as u32;
        let mut new = Ingest::new(market.clone(), number, "test").of_publisher("peer".to_owned());
        let mut batch = new.begin(3);
        if is_same_session {
            batch.resume(state);
        }
        batch.venue(&venue(1, "V2"));
        batch.definition(1, &definition(0, "A"));
        batch.finish();
        assert_eq!(shown(&market, "A"), of(10, 5, 1, "V1"));
        send(&mut new, &[trade(0, 1, 16, 2)]);
        assert_eq!(shown(&market, "A@V1"), of(10, 5, 1, "V1"));
        assert_eq!(shown(&market, "A@V2"), of(PRICE_UNDEFINED, 2, 0, "V2"));
        assert_eq!(shown(&market, "A").3, "V1,V2");
    }
}

/// Hubs that follow the publisher's one tell the venues apart as it does.
#[test]
fn hubs_behind_the_publishers_hub_have_the_values_under_the_same_names() {
    let hubs = [(); 3].map(|()| Market::of_one_lane(MarketConfig::default()));
    let mut ingest = publisher(&hubs[0]);
    let mut readers = [1, 2].map(|place: usize| Ingest::new(hubs[place].clone(), 1, "hub"));
    let mut next = [1, 1];
    let mut read = || {
        for place in 1..hubs.len() {
            let reader = &mut readers[place - 1];
            chains::read_on(&hubs[place - 1], reader, &mut next[place - 1]);
        }
    };
    let all = |names: &[&str]| {
        let first = names.iter().map(|name| shown(&hubs[0], name));
        let first: Vec<_> = first.collect();
        for hub in &hubs[1..] {
            let same = names.iter().map(|name| shown(hub, name));
            let same: Vec<_> = same.collect();
            for (own, other) in first.iter().zip(&same) {
                assert_eq!((own.0, own.1, own.2), (other.0, other.1, other.2));
            }
        }
        first
    };
    send(&mut ingest, &[quote(0, 1, 10, 20), trade(0, 1, 15, 5)]);
    read();
    rename(&mut ingest, "V2");
    read();
    assert_eq!(all(&["A", "A@V1"])[0], of(10, 5, 1, "V1"));
    send(&mut ingest, &[quote(0, 1, 11, 21), trade(0, 1, 16, 2)]);
    read();
    let first = all(&["A", "A@V1", "A@V2"]);
    assert_eq!(first[1], of(10, 5, 1, "V1"));
    assert_eq!(first[2], of(11, 2, 0, "V2"));
    for hub in &hubs[1..] {
        assert_eq!(shown(hub, "A@V1").3, "V1");
        assert_eq!(shown(hub, "A@V2").3, "V2");
    }
}

#[test]
fn two_numbers_that_exchange_their_names_exchange_their_topics() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    ingest.begin(1).venue(&venue(2, "V2"));
    send(&mut ingest, &[quote(0, 1, 10, 20), quote(0, 2, 11, 21)]);
    let mut batch = ingest.begin(2);
    batch.venue(&venue(1, "V2"));
    batch.venue(&venue(2, "V1"));
    batch.finish();
    assert_eq!((shown(&market, "A@V1").2, shown(&market, "A@V2").2), (1, 1));
    send(&mut ingest, &[quote(0, 1, 12, 22), quote(0, 2, 9, 19)]);
    assert_eq!(shown(&market, "A@V1"), of(9, 0, 0, "V1"));
    assert_eq!(shown(&market, "A@V2"), of(12, 0, 0, "V2"));
}

/// A venue that another number still gives stays current.
#[test]
fn a_venue_with_two_numbers_stays_when_one_of_them_gets_another_name() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    ingest.begin(1).venue(&venue(2, "V1"));
    send(&mut ingest, &[quote(0, 1, 10, 20), quote(0, 2, 11, 21)]);
    rename(&mut ingest, "V2");
    assert_eq!(shown(&market, "A"), of(11, 0, 0, "V1"));
    send(&mut ingest, &[quote(0, 1, 5, 25), quote(0, 2, 12, 22)]);
    assert_eq!(shown(&market, "A@V1"), of(12, 0, 0, "V1"));
    assert_eq!(shown(&market, "A@V2"), of(5, 0, 0, "V2"));
}

/// A venue of which the source has given a state only is bound to no symbol.
#[test]
fn a_state_of_the_old_venue_is_stale_and_not_that_of_the_new_one() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    send(&mut ingest, &[status(0, 1, TradingState::HALTED)]);
    rename(&mut ingest, "V2");
    assert_eq!(shown(&market, "A").2, 1);
    send(&mut ingest, &[quote(0, 1, 10, 20)]);
    let state = |name: &str| value_of(&market, name).status.state;
    assert_eq!((state("A@V1"), state("A@V2")), (TradingState::HALTED.0, 0));
    assert_eq!(shown(&market, "A@V1").2, 1);
    assert_eq!(shown(&market, "A").0, 10);
}

/// The open that a definition declares is of the venue that had the number then.
#[test]
fn an_open_that_was_declared_for_the_old_venue_is_not_that_of_the_new_one() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    let declare = |ingest: &mut Ingest, open: i64| {
        let definition = Definition {
            open,
            source: 1,
            ..definition(0, "A")
        };
        let mut batch = ingest.begin(1);
        batch.definition(1, &definition);
        batch.finish();
    };
    declare(&mut ingest, 7);
    send(&mut ingest, &[quote(0, 1, 10, 20)]);
    rename(&mut ingest, "V2");
    send(&mut ingest, &[quote(0, 1, 11, 21)]);
    let open = |name: &str| value_of(&market, name).session_open;
    assert_eq!((open("A@V1"), open("A@V2")), (7, PRICE_UNDEFINED));
    declare(&mut ingest, 8);
    assert_eq!((open("A@V1"), open("A@V2")), (7, 8));
}

/// A number without a name had the number as its name, also behind its name.
#[test]
fn a_number_that_gets_its_name_late_goes_on_under_it() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A").of_publisher("peer".to_owned());
    send(&mut ingest, &[quote(0, 7, 10, 20)]);
    assert_eq!(shown(&market, "A").3, "7");
    let mut batch = ingest.begin(2);
    batch.venue(&venue(7, "V1"));
    batch.message(2, &quote(0, 7, 11, 21));
    batch.finish();
    assert_eq!(shown(&market, "A"), of(11, 0, 0, "V1"));
    assert_eq!(market.board.count(), 1, "it is the same venue");
}

/// Another source may give the venue that this one has left.
#[test]
fn a_venue_that_its_source_has_renamed_is_free_for_another_source() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    send(&mut ingest, &[quote(0, 1, 10, 20)]);
    rename(&mut ingest, "V2");
    send(&mut ingest, &[quote(0, 1, 11, 21)]);
    let mut other = named_source(&market, "other", "V1");
    send(&mut other, &[quote(0, 1, 9, 19)]);
    assert_eq!(shown(&market, "A@V1"), of(9, 0, 0, "V1"));
    assert!(market.board.find(b"A@V1#2").is_none());
    assert_eq!(shown(&market, "A").0, 11);
    ingest.lose(3);
    assert_eq!((shown(&market, "A@V1").2, shown(&market, "A@V2").2), (0, 1));
}

/// A symbol has room for 128 venues: those that were left make room.
#[test]
fn a_publisher_that_renames_its_venue_again_and_again_is_heard() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    for round in 0..300 {
        rename(&mut ingest, &format!("V{round}"));
        send(&mut ingest, &[quote(0, 1, 10 + round, 1_000)]);
    }
    assert_eq!(shown(&market, "A@V299"), of(309, 0, 0, "V299"));
    assert_eq!(shown(&market, "A").0, 309);
    assert_eq!(market.ingest.refused.load(Ordering::Relaxed), 0);
}

/// Levels of the old venue stayed in the book under the new name.
#[test]
fn the_book_of_the_old_venue_is_not_that_of_the_new_one() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    let book = [quote(0, 1, 10, 20), clear(0, 1), set_level(0, 1, 10)];
    send(&mut ingest, &book);
    rename(&mut ingest, "V2");
    send(&mut ingest, &[set_level(0, 1, 11)]);
    assert!(best_bids(&market, "A@V2").is_empty(), "no clear yet");
    assert!(best_bids(&market, "A@V1").is_empty(), "levels are lost");
    send(&mut ingest, &[clear(0, 1), set_level(0, 1, 12)]);
    assert_eq!(best_bids(&market, "A@V2"), [12]);
}

/// A symbol of several numbers of one source, and of other sources, follows the number alone.
#[test]
fn other_venues_of_the_symbol_go_on_as_they_were() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    ingest.begin(1).venue(&venue(2, "V2"));
    let mut other = named_source(&market, "other", "W1");
    send(&mut ingest, &[quote(0, 1, 10, 20), quote(0, 2, 11, 21)]);
    send(&mut other, &[quote(0, 1, 12, 22)]);
    rename(&mut ingest, "V3");
    let stale = ["A@V1", "A@V2", "A@W1", "A"].map(|name| shown(&market, name).2);
    assert_eq!(stale, [1, 0, 0, 0]);
    send(&mut ingest, &[quote(0, 1, 13, 23)]);
    assert_eq!(shown(&market, "A@V3"), of(13, 0, 0, "V3"));
    assert_eq!(shown(&market, "A").0, 13);
}

/// What was first split by another source is handed over to this one with its next message.
#[test]
fn a_venue_that_another_source_has_made_a_topic_is_left_too() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    let mut other = named_source(&market, "other", "W1");
    send(&mut ingest, &[quote(0, 1, 10, 20)]);
    send(&mut other, &[quote(0, 1, 9, 22)]);
    rename(&mut ingest, "V2");
    assert_eq!(shown(&market, "A@V1"), of(10, 0, 1, "V1"));
    assert_eq!(shown(&market, "A").0, 9);
    send(&mut ingest, &[quote(0, 1, 11, 21)]);
    assert_eq!(shown(&market, "A@V2"), of(11, 0, 0, "V2"));
}

/// A publisher of many symbols that renames with each message took the lane for itself.
#[test]
fn a_publisher_that_renames_with_each_message_makes_no_walk_over_its_symbols() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    let mut batch = ingest.begin(1);
    for symbol in 1..5_000 {
        batch.definition(1, &definition(symbol, &format!("S{symbol}")));
        batch.message(1, &quote(symbol, 1, 10, 20));
    }
    batch.finish();
    let before = market.journal.lock().next_sequence();
    let mut batch = ingest.begin(2);
    for round in 0..1_000 {
        batch.venue(&venue(1, &format!("W{round}")));
    }
    batch.finish();
    let after = market.journal.lock().next_sequence();
    assert_eq!(before, after, "no symbol was looked at");
    ingest.sweep(&mut Steps::new(1), 2);
    assert_eq!(shown(&market, "S1").2, 0, "one slice is one symbol");
    while ingest.is_sweeping() {
        ingest.sweep(&mut Steps::new(1 << 17), 2);
    }
    let stale = (1..5_000).map(|symbol| shown(&market, &format!("S{symbol}")).2);
    assert_eq!(stale.min(), Some(1));
}
