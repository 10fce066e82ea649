//! Which topics are stale or in doubt.

use super::*;

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

/// A hub behind another one showed values of a source that had died as current.
#[test]
fn what_the_source_says_of_a_value_and_what_the_hub_knows_of_the_source_are_both_shown() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = source(&market, "hub", 0, "A");
    send(&mut hub, &[quote(0, 7, 10, 20)]);
    let told = |flags| certainty_of(0, 7, flags);
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
    assert_eq!(ingest.take_state().certainties.doubt, Doubt::Messages);
}

fn certainty_of(symbol: u32, venue: u16, flags: u8) -> Message {
    Message::Certainty(Certainty {
        symbol,
        source: venue,
        flags,
        ..Certainty::default()
    })
}

/// A trade that had waited behind a gap made the quote of the session before current, and a loss
/// for good left the new session's topics stale until another session.
#[test]
fn a_first_value_while_messages_are_missing_ends_staleness_and_voids_the_old_quote() {
    for is_final in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = source(&market, "test", 0, "A");
        send(&mut ingest, &[quote(0, 0, 10, 20)]);
        let mut batch = ingest.begin(2);
        batch.session_changed(7, 8);
        batch.definition(1, &definition(0, "A"));
        match is_final {
            true => batch.values_lost(),
            false => batch.values_doubtful(),
        }
        batch.finish();
        assert_eq!(staleness(&value_of(&market, "A")), 1, "no value has come");
        send(&mut ingest, &[trade(0, 0, 15, 1)]);
        let value = value_of(&market, "A");
        assert_eq!((value.bid, value.last), (PRICE_UNDEFINED, 15));
        assert_eq!(staleness(&value), if is_final { 0 } else { 2 });
        let mut batch = ingest.begin(3);
        batch.values_right();
        batch.finish();
        assert_eq!(staleness(&value_of(&market, "A")), 0);
    }
}

/// The other source's values stayed in doubt until the hub ended.
#[test]
fn the_doubt_of_a_source_that_only_defined_a_symbol_is_not_that_of_its_values() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = source(&market, "one", 0, "A");
    let mut other = source(&market, "other", 0, "A");
    let mut batch = one.begin(2);
    batch.values_lost();
    batch.finish();
    assert_eq!(staleness(&value_of(&market, "A")), 2);
    send(&mut other, &[quote(0, 0, 10, 20)]);
    assert_eq!(staleness(&value_of(&market, "A")), 0);
}

/// What was told of one venue held for another, and what was told of a venue without a value was
/// forgotten.
#[test]
fn what_is_told_of_a_venue_before_its_first_value_holds_for_it_alone() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = named_source(&market, "feed", "V1");
    ingest.begin(1).venue(&venue(2, "V2"));
    send(&mut ingest, &[certainty_of(0, 1, Figures::STALE)]);
    assert_eq!(staleness(&value_of(&market, "A")), 1);
    send(&mut ingest, &[quote(0, 2, 10, 20)]);
    assert_eq!(
        staleness(&value_of(&market, "A")),
        0,
        "of V2 nothing was told"
    );
    send(&mut ingest, &[quote(0, 1, 11, 19)]);
    let stale = |name| staleness(&value_of(&market, name));
    assert_eq!((stale("A@V1"), stale("A@V2")), (1, 0));
    send(&mut ingest, &[certainty_of(0, 1, 0)]);
    assert_eq!(stale("A@V1"), 0);
}

/// A lost quote was current again with the next session start.
#[test]
fn a_session_start_does_not_end_the_doubt_about_a_quote() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    send(&mut ingest, &[quote(0, 0, 10, 20)]);
    let mut batch = ingest.begin(2);
    batch.values_lost();
    batch.message(
        3,
        &start(
            0,
            9,
            ReferenceKind::PREVIOUS_SETTLEMENT,
            SessionStart::KEEPS,
        ),
    );
    batch.finish();
    assert_eq!(staleness(&value_of(&market, "A")), 2);
    send(&mut ingest, &[trade(0, 0, 15, 1)]);
    assert_eq!(staleness(&value_of(&market, "A")), 0);
}

/// After one loss for good, every later gap left all topics in doubt until their next messages,
/// also when it was filled.
#[test]
fn a_filled_gap_leaves_topics_as_certain_as_they_were() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = Ingest::new(market.clone(), 1, "test");
    let mut batch = ingest.begin(1);
    for (symbol, name) in [(0, "A"), (1, "B")] {
        batch.definition(1, &definition(symbol, name));
        batch.message(2, &quote(symbol, 0, 10, 20));
    }
    batch.values_lost();
    batch.message(3, &quote(1, 0, 11, 20));
    batch.finish();
    let stale = || [0, 1].map(|number| staleness(&market.board.value(number).unwrap()));
    for _ in 0..2 {
        let mut batch = ingest.begin(2);
        batch.values_doubtful();
        batch.finish();
        assert_eq!(stale(), [2, 2]);
        let mut batch = ingest.begin(3);
        batch.values_as_before();
        assert_eq!(names(&batch.finish()), [b"md:B".to_vec()]);
        assert_eq!(stale(), [2, 0], "what was lost stays lost");
    }
    let mut batch = ingest.begin(4);
    batch.values_doubtful();
    batch.values_lost();
    batch.values_as_before();
    batch.finish();
    assert_eq!(stale(), [2, 2], "the gap was not filled");
}

/// A venue that had sent a status only stayed current, and its state and trading day
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
    let certain = |batch: &Batch<'_>| {
        let certain = batch.work.certainties.certain.as_ref();
        certain.map(|numbers| numbers.iter().collect::<Vec<_>>())
    };
    assert_eq!(certain(&batch), Some(vec![1]));
    batch.values_lost();
    assert_eq!(certain(&batch), Some(vec![]));
    batch.message(4, &quote(2, 0, 11, 20));
    batch.message(5, &quote(2, 0, 12, 20));
    assert_eq!(certain(&batch), Some(vec![2]));
    batch.finish();
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

/// Subscribers of a book were told that its topic is in doubt, and not that the doubt had ended;
/// of a book that was lost they were told neither.
#[test]
fn followers_of_a_book_learn_of_each_change_of_its_certainty() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let topic = market.board.find(b"A").unwrap();
    market.books.book_of(&topic).add_interest(0);
    send(
        &mut ingest,
        &[quote(0, 0, 10, 20), clear(0, 0), set_level(0, 0, 10)],
    );
    let told = |news: (Publication, u64)| -> Vec<String> {
        let all = news.0.news().filter(|news| news.name.starts_with(b"book:"));
        let texts = all.map(|news| String::from_utf8(news.payload.to_vec()).unwrap());
        texts.collect()
    };
    let is_last = |texts: &[String], stale: u64| {
        let wanted = format!("\"stale\":{stale},");
        texts.last().is_some_and(|text| text.contains(&wanted))
    };
    let mut batch = ingest.begin(2);
    batch.values_doubtful();
    assert!(is_last(&told(batch.finish()), 2));
    let mut batch = ingest.begin(3);
    batch.values_right();
    assert!(is_last(&told(batch.finish()), 0));
    // Lost messages: nothing is known of the book, and the topic is in doubt until its next value.
    let mut batch = ingest.begin(4);
    batch.values_lost();
    let reason = tidewire_feed::client::LossReason::TooOld;
    let (from, count) = (1, 1);
    batch.gap(Gap::Lost {
        from,
        count,
        reason,
    });
    assert!(is_last(&told(batch.finish()), 2));
    let mut batch = ingest.begin(5);
    batch.message(2, &quote(0, 0, 11, 20));
    assert!(is_last(&told(batch.finish()), 0));
    // A value that its source tells to be in doubt.
    let doubt = Message::Certainty(Certainty {
        flags: Figures::IN_DOUBT,
        ..Certainty::default()
    });
    let mut batch = ingest.begin(6);
    batch.message(3, &doubt);
    batch.message(4, &doubt);
    let texts = told(batch.finish());
    assert!(is_last(&texts, 2));
    assert_eq!(texts.len(), 1, "what they know is not repeated");
    assert!(is_last(&told(ingest.lose(7)), 1));
}

/// Returns an event that loses a message for good.
fn lost() -> Gap {
    Gap::Lost {
        from: 1,
        count: 1,
        reason: tidewire_feed::client::LossReason::TooOld,
    }
}

/// The book stayed as it was, and became certain with the next quote: the source had not noticed
/// yet that its symbol had become one venue of several.
#[test]
fn a_loss_empties_the_book_of_a_symbol_that_another_source_has_given_a_second_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    send(
        &mut one,
        &[quote(0, 1, 10, 20), clear(0, 1), set_level(0, 1, 10)],
    );
    let mut other = named_source(&market, "other", "V2");
    send(&mut other, &[quote(0, 1, 11, 21)]);
    let mut batch = one.begin(3);
    batch.values_lost();
    batch.gap(lost());
    batch.finish();
    send(&mut one, &[quote(0, 1, 12, 20)]);
    let view = market.books.read(b"A@V1", 10, 1).unwrap();
    assert_eq!((view.depth, view.stale), (0, 0));
    send(&mut one, &[set_level(0, 1, 12)]);
    assert!(best_bids(&market, "A@V1").is_empty(), "no clear yet");
}

/// Who had only defined the symbol emptied the book of the source that gives it.
#[test]
fn a_loss_of_another_source_leaves_a_book_as_it_is() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    let mut other = named_source(&market, "other", "V2");
    send(
        &mut other,
        &[quote(0, 1, 10, 20), clear(0, 1), set_level(0, 1, 10)],
    );
    let mut batch = one.begin(3);
    batch.values_lost();
    batch.gap(lost());
    batch.finish();
    assert_eq!(best_bids(&market, "A"), [10]);
}

/// A hub behind a hub showed the values as current.
#[test]
fn a_topic_that_begins_with_nothing_is_told_as_certain_as_it_is() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    let doubt = Message::Certainty(Certainty {
        flags: Figures::IN_DOUBT,
        ..Certainty::default()
    });
    send(&mut ingest, &[doubt]);
    let from = market.journal.lock().next_sequence();
    send(&mut ingest, &[trade(0, 0, 15, 1)]);
    let journal = market.journal.lock();
    let first = [from, from + 1].map(|at| journal.message(at));
    let [Some(Message::Venue(_)), Some(Message::LastValue(record))] = first else {
        panic!("{first:?}");
    };
    assert_eq!(record.figures.unwrap().flags, Figures::IN_DOUBT);
    assert_eq!(record.source_time_ns, 0, "nothing has no time");
}

/// A symbol that one publisher had defined in two sessions, without a value, was stale for the
/// next one that gave it a state. It was in doubt if that of the first one was.
#[test]
fn the_first_state_of_a_symbol_ends_what_another_source_has_left() {
    for is_lost in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut one = source(&market, "one", 0, "A");
        let mut batch = one.begin(2);
        if is_lost {
            batch.values_lost();
        }
        batch.session_changed(1, 2);
        batch.definition(1, &definition(0, "A"));
        batch.finish();
        assert_eq!(staleness(&value_of(&market, "A")), 1);
        drop(one);
        let mut other = source(&market, "other", 0, "A");
        send(&mut other, &[status(0, 0, TradingState::OPEN)]);
        assert_eq!(staleness(&value_of(&market, "A")), 0);
    }
    // Its own doubt stays.
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = source(&market, "one", 0, "A");
    one.begin(2).values_lost();
    send(&mut one, &[status(0, 0, TradingState::OPEN)]);
    assert_eq!(staleness(&value_of(&market, "A")), 2);
}

/// The quote was empty with the time and the sequence of the one before it.
#[test]
fn a_quote_that_a_new_session_voids_has_the_time_of_its_first_value() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "test", 0, "A");
    send(&mut ingest, &[quote(0, 0, 10, 20)]);
    let before = value_of(&market, "A").sequence;
    let mut batch = ingest.begin(2);
    batch.session_changed(1, 2);
    batch.definition(1, &definition(0, "A"));
    batch.message(
        2,
        &Message::Level(Level {
            action: Level::CLEAR,
            source_time_ns: 7,
            is_last: 1,
            ..Level::default()
        }),
    );
    batch.finish();
    let value = value_of(&market, "A");
    assert_eq!((value.bid, value.source_time_ns), (PRICE_UNDEFINED, 7));
    assert!(
        value.sequence > before,
        "that of the message which empties it"
    );
}

/// Ends a publisher's connection, and begins its next one.
fn reconnect(market: &Arc<Market>, mut publisher: Ingest, meanwhile: impl FnOnce()) -> Ingest {
    publisher.lose(2);
    let state = publisher.take_state();
    drop(publisher);
    meanwhile();
    let number = market.next_source_number() as u32;
    let mut again = Ingest::new(market.clone(), number, "again");
    let mut batch = again.begin(4);
    batch.resume(state);
    batch.values_right();
    batch.finish();
    again
}

/// A publisher that had only defined the symbol, or had given it an earlier value at the same
/// venue, made the old value of another one current by its own reconnection.
#[test]
fn a_publisher_that_is_back_leaves_the_old_value_of_another_one_stale() {
    for has_value in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut one = named_source(&market, "one", "V1");
        if has_value {
            send(&mut one, &[quote(0, 1, 5, 6)]);
        }
        let mut one = reconnect(&market, one, || {
            let mut two = named_source(&market, "two", "V1");
            send(&mut two, &[quote(0, 1, 10, 20)]);
            assert_eq!(staleness(&value_of(&market, "A")), 0);
            two.lose(3);
        });
        let value = value_of(&market, "A");
        assert_eq!((value.bid, staleness(&value)), (10, 1));
        // The second one's new session.
        let mut two = named_source(&market, "two", "V1");
        assert_eq!(staleness(&value_of(&market, "A")), 1, "only defined");
        send(&mut two, &[trade(0, 1, 15, 1)]);
        let value = value_of(&market, "A");
        assert_eq!((value.bid, staleness(&value)), (PRICE_UNDEFINED, 0));
        two.lose(4);
        drop(two);
        send(&mut one, &[quote(0, 1, 7, 8)]);
        let value = value_of(&market, "A");
        assert_eq!((value.bid, staleness(&value)), (7, 0));
        // Its own value is current again with it.
        let _one = reconnect(&market, one, || {
            assert_eq!(staleness(&value_of(&market, "A")), 1);
        });
        assert_eq!(staleness(&value_of(&market, "A")), 0);
    }
}

/// Its topic had got a second venue meanwhile.
#[test]
fn a_publisher_that_is_back_finds_its_value_in_the_topic_of_its_venue() {
    for is_overwritten in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut one = named_source(&market, "one", "V1");
        send(&mut one, &[quote(0, 1, 10, 20)]);
        let mut other = named_source(&market, "other", "V2");
        let mut one = reconnect(&market, one, || {
            if is_overwritten {
                let mut two = named_source(&market, "two", "V1");
                send(&mut two, &[quote(0, 1, 12, 20)]);
                two.lose(3);
            }
            send(&mut other, &[quote(0, 1, 9, 21)]);
            assert_eq!(staleness(&value_of(&market, "A@V1")), 1);
        });
        let stale = u64::from(is_overwritten);
        assert_eq!(staleness(&value_of(&market, "A@V1")), stale);
        let best = if is_overwritten { 9 } else { 10 };
        assert_eq!(value_of(&market, "A").bid, best);
        send(&mut one, &[quote(0, 1, 11, 20)]);
        assert_eq!(staleness(&value_of(&market, "A@V1")), 0);
        assert_eq!(value_of(&market, "A").bid, 11);
        assert!(market.board.find(b"A@V1#2").is_none());
    }
}

/// A venue that had had a state or a session only stayed stale, and its symbol left it out: its
/// publisher was away when another one made it a topic of its own.
#[test]
fn a_publisher_that_is_back_finds_its_state_in_the_topic_that_its_venue_has_got() {
    let day = SessionStart {
        source: 1,
        trading_day: 19_700_102,
        rolls: 1,
        ..SessionStart::default()
    };
    for first in [status(0, 1, TradingState::OPEN), Message::SessionStart(day)] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut one = named_source(&market, "one", "V1");
        send(&mut one, &[first]);
        let before = value_of(&market, "A");
        let mut other = None;
        let _one = reconnect(&market, one, || {
            let other = other.insert(named_source(&market, "other", "V2"));
            send(other, &[trade(0, 1, 9, 7)]);
            assert_eq!(staleness(&value_of(&market, "A@V1")), 1);
        });
        assert_eq!(staleness(&value_of(&market, "A@V1")), 0);
        let both = value_of(&market, "A");
        assert_eq!(
            (both.status, both.trading_day),
            (before.status, before.trading_day)
        );
    }
}

/// The venue, which had got a topic of its own, was current with its first state.
#[test]
fn a_venue_with_levels_only_waits_for_a_value_of_the_new_session() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    one.begin(1).venue(&venue(2, "V2"));
    send(
        &mut one,
        &[clear(0, 1), set_level(0, 1, 10), quote(0, 2, 9, 21)],
    );
    one.lose(2);
    drop(one);
    let mut new = named_source(&market, "one", "V1");
    send(&mut new, &[status(0, 1, TradingState::OPEN)]);
    assert_eq!(staleness(&value_of(&market, "A@V1")), 1);
    send(&mut new, &[quote(0, 1, 10, 20)]);
    assert_eq!(staleness(&value_of(&market, "A@V1")), 0);
}

/// The hash said that the symbol was current, and subscribers had last been told that it was not.
#[test]
fn who_subscribes_is_told_that_a_symbol_without_a_value_is_current() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = source(&market, "feed", 0, "A");
    old.lose(2);
    drop(old);
    assert_eq!(staleness(&value_of(&market, "A")), 1);
    let mut new = source(&market, "feed", 0, "A");
    let mut batch = new.begin(2);
    batch.message(2, &start(0, PRICE_UNDEFINED, ReferenceKind::default(), 0));
    let news = batch.finish();
    assert_eq!(staleness(&value_of(&market, "A")), 0);
    assert_eq!(names(&news), vec![b"md:A".to_vec()]);
}
