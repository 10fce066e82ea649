//! Opens: what definitions declare, and the consolidated one.

use super::*;

/// Returns a source of the venues 1 (`V1`) and 2 (`V2`) that defines A with an open.
fn publisher(market: &Arc<Market>, open: i64) -> Ingest {
    let number = market.next_source_number() as u32;
    let mut ingest = Ingest::new(market.clone(), number, "feed");
    let mut batch = ingest.begin(1);
    batch.venue(&venue(1, "V1"));
    batch.venue(&venue(2, "V2"));
    batch.finish();
    define(&mut ingest, open);
    ingest
}

fn define(ingest: &mut Ingest, open: i64) {
    let mut batch = ingest.begin(DAY_NS);
    batch.definition(
        1,
        &Definition {
            open,
            ..definition(0, "A")
        },
    );
    batch.finish();
}

/// Applies messages at a time of which 1970-01-02 is a plausible trading day.
fn apply(ingest: &mut Ingest, messages: &[Message]) {
    let mut batch = ingest.begin(DAY_NS);
    messages
        .iter()
        .for_each(|message| batch.message(1, message));
    batch.finish();
}

fn begins(source: u16, trading_day: u32) -> Message {
    Message::SessionStart(SessionStart {
        source,
        trading_day,
        rolls: SessionStart::BEGINS,
        ..SessionStart::default()
    })
}

fn opens(source: u16, price: i64, rolls: u8) -> Message {
    Message::SessionStart(SessionStart {
        source,
        trading_day: FRIDAY,
        reference: price,
        kind: ReferenceKind::OPEN,
        rolls,
        ..SessionStart::default()
    })
}

/// Returns open, high, low and volume, and checks that a reader of the hub's own feed has them.
fn session(market: &Market, name: &str) -> (i64, i64, i64, u64) {
    let number = market.board.find(name.as_bytes()).unwrap().number;
    let value = market.board.value(number).unwrap();
    let mut reader = LastValue {
        figures: Some(Figures::default()),
        ..LastValue::new(number)
    };
    let journal = market.journal.lock();
    for sequence in 1..journal.next_sequence() {
        match journal.message(sequence).expect("kept") {
            Message::LastValue(record) if record.symbol == number => {
                reader = LastValue { sequence, ..record };
            }
            message => _ = reader.apply(sequence, &message),
        }
    }
    let read = (reader.open, reader.volume);
    assert_eq!(read, (value.session_open, value.volume), "of a reader");
    (value.session_open, value.high, value.low, value.volume)
}

const FRIDAY: u32 = 19_700_102;
const NONE: i64 = PRICE_UNDEFINED;

/// On the fourth day the consolidated open was still the first trade of the first day.
#[test]
fn the_consolidated_open_ends_with_its_session_also_without_a_named_day() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = publisher(&market, NONE);
    apply(&mut feed, &[begins(1, 0), begins(2, 0)]);
    apply(&mut feed, &[trade(0, 1, 500, 5), trade(0, 2, 100, 5)]);
    assert_eq!(session(&market, "A"), (500, 500, 100, 10));
    apply(&mut feed, &[begins(1, 0)]);
    assert_eq!(session(&market, "A"), (100, 100, 100, 5), "V2's trade");
    apply(&mut feed, &[begins(2, 0)]);
    assert_eq!(session(&market, "A"), (NONE, NONE, NONE, 0));
    apply(&mut feed, &[trade(0, 2, 103, 5), trade(0, 1, 102, 5)]);
    assert_eq!(session(&market, "A"), (103, 103, 102, 10));
    apply(&mut feed, &[begins(1, 0), trade(0, 1, 90, 5)]);
    assert_eq!(session(&market, "A"), (103, 103, 90, 10));
    apply(&mut feed, &[begins(2, 0), trade(0, 2, 91, 5)]);
    assert_eq!(session(&market, "A"), (90, 91, 90, 10), "V1's came first");
}

#[test]
fn the_consolidated_open_leaves_with_a_venue_that_begins_its_day_again() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = publisher(&market, NONE);
    apply(&mut feed, &[begins(1, FRIDAY), begins(2, FRIDAY)]);
    apply(&mut feed, &[trade(0, 1, 500, 5), trade(0, 2, 100, 5)]);
    apply(&mut feed, &[begins(1, FRIDAY), trade(0, 2, 101, 5)]);
    assert_eq!(session(&market, "A"), (100, 101, 100, 10));
    apply(&mut feed, &[trade(0, 1, 102, 5)]);
    assert_eq!(session(&market, "A"), (100, 102, 100, 15));
    // What a venue says later of its session does not change which came first.
    apply(&mut feed, &[opens(2, 99, 0), opens(1, 105, 0)]);
    assert_eq!(session(&market, "A").0, 99);
    apply(&mut feed, &[opens(2, 98, 1)]);
    assert_eq!(
        session(&market, "A").0,
        105,
        "V2's session is the newer one"
    );
}

/// A venue whose values are records, as another hub's are, kept its place among the opens.
#[test]
fn a_record_of_another_session_brings_a_new_open() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = publisher(&market, NONE);
    apply(&mut feed, &[trade(0, 1, 500, 5), trade(0, 2, 100, 5)]);
    let record = |open, volume| {
        Message::LastValue(LastValue {
            source: 1,
            open,
            volume,
            ..LastValue::new(0)
        })
    };
    apply(&mut feed, &[record(501, 6)]);
    assert_eq!(session(&market, "A").0, 501, "the same session");
    apply(&mut feed, &[record(90, 1)]);
    assert_eq!(session(&market, "A").0, 100);
}

/// The same definition again set the volume to 0, and the open to that of an earlier session.
#[test]
fn an_unchanged_definition_begins_no_session() {
    for (restarts, declared) in [(false, false), (false, true), (true, false), (true, true)] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut feed = publisher(&market, 50);
        apply(&mut feed, &[trade(0, 1, 51, 5), begins(1, FRIDAY)]);
        if declared {
            apply(&mut feed, &[opens(1, 55, 0)]);
        }
        apply(&mut feed, &[trade(0, 1, 52, 5)]);
        let open = if declared { 55 } else { 52 };
        for round in 1..3_u64 {
            if restarts {
                feed.lose(DAY_NS);
                drop(feed);
                feed = publisher(&market, 50);
            } else {
                define(&mut feed, 50);
            }
            assert_eq!(session(&market, "A"), (open, 52, 52, 5 * round));
            apply(&mut feed, &[trade(0, 1, 52, 5)]);
            assert_eq!(session(&market, "A"), (open, 52, 52, 5 * round + 5));
        }
        // Without an open it says nothing of the session, and forgets none.
        define(&mut feed, NONE);
        define(&mut feed, 50);
        assert_eq!(session(&market, "A").3, 15);
        define(&mut feed, 60);
        assert_eq!(session(&market, "A"), (60, NONE, NONE, 0), "another open");
        define(&mut feed, 60);
        apply(&mut feed, &[trade(0, 1, 61, 5)]);
        assert_eq!(session(&market, "A"), (60, 61, 61, 5));
    }
}

/// Two venues went back to the open of the session before, and lost their volume.
#[test]
fn a_restart_without_an_open_goes_on_with_the_session_of_each_venue() {
    for open in [NONE, 50] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut feed = publisher(&market, 50);
        apply(&mut feed, &[trade(0, 1, 51, 5), trade(0, 2, 52, 5)]);
        apply(&mut feed, &[begins(1, FRIDAY), begins(2, FRIDAY)]);
        apply(&mut feed, &[trade(0, 1, 61, 5), trade(0, 2, 62, 5)]);
        feed.lose(DAY_NS);
        drop(feed);
        let mut feed = publisher(&market, open);
        apply(&mut feed, &[trade(0, 2, 63, 5)]);
        assert_eq!(session(&market, "A"), (61, 63, 61, 15));
        apply(&mut feed, &[trade(0, 1, 64, 5)]);
        assert_eq!(session(&market, "A"), (61, 64, 61, 20));
        assert_eq!(session(&market, "A@V1"), (61, 64, 61, 10));
        assert_eq!(session(&market, "A@V2"), (62, 63, 62, 10));
    }
}

/// A definition's open is that of the session in which it came, also before the first value.
#[test]
fn a_session_that_begins_after_the_definition_has_an_open_of_its_own() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = publisher(&market, 50);
    apply(&mut feed, &[opens(1, 55, 1), trade(0, 1, 52, 5)]);
    assert_eq!(session(&market, "A"), (55, 52, 52, 5));
    apply(&mut feed, &[begins(2, FRIDAY), trade(0, 2, 53, 5)]);
    assert_eq!(session(&market, "A@V2"), (53, 53, 53, 5));
}

/// A second source's venue began with the open that the first source had declared.
#[test]
fn an_open_is_that_of_the_source_that_declares_it() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = publisher(&market, 50);
    apply(&mut one, &[trade(0, 1, 51, 5)]);
    let mut other = publisher(&market, 70);
    apply(&mut other, &[trade(0, 2, 71, 5)]);
    assert_eq!(session(&market, "A@V2"), (70, 71, 71, 5));
    let mut third = publisher(&market, NONE);
    third.begin(1).venue(&venue(3, "V3"));
    apply(&mut third, &[trade(0, 3, 90, 5)]);
    assert_eq!(session(&market, "A@V3"), (90, 90, 90, 5));
    define(&mut one, 50);
    assert_eq!(session(&market, "A@V1"), (50, 51, 51, 5), "the split topic");
    assert_eq!(session(&market, "A"), (50, 90, 51, 15));
}

/// The open of a definition began a session at the venue that had come last, or nowhere.
#[test]
fn an_open_of_a_definition_is_of_the_venue_that_it_names_or_of_all_of_its_source() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = publisher(&market, PRICE_UNDEFINED);
    let declare = |ingest: &mut Ingest, source: u16, open: i64| {
        let mut batch = ingest.begin(DAY_NS);
        let definition = Definition {
            open,
            source,
            ..definition(0, "A")
        };
        batch.definition(1, &definition);
        batch.finish();
    };
    let shown = |name: &str| {
        let value = value_of(&market, name);
        (value.session_open, value.volume)
    };
    declare(&mut one, 1, 50);
    declare(&mut one, 2, 60);
    apply(&mut one, &[trade(0, 1, 51, 5), trade(0, 2, 61, 6)]);
    assert_eq!((shown("A@V1"), shown("A@V2")), ((50, 5), (60, 6)));
    declare(&mut one, 1, 55);
    assert_eq!((shown("A@V1"), shown("A@V2")), ((55, 0), (60, 6)));
    // Without a number that has a name it is of all venues of the source.
    apply(&mut one, &[trade(0, 1, 51, 5)]);
    declare(&mut one, 0, 70);
    assert_eq!((shown("A@V1"), shown("A@V2")), ((70, 0), (70, 0)));
    // The symbol of a source that has become one venue of several.
    let market = Market::of_one_lane(MarketConfig::default());
    let (mut one, mut other) = (
        named_source(&market, "one", "V1"),
        named_source(&market, "other", "V2"),
    );
    apply(&mut one, &[trade(0, 1, 51, 5)]);
    apply(&mut other, &[trade(0, 1, 61, 6)]);
    let topic = market.board.find(b"A@V1").unwrap();
    topic.add_interest(0);
    let mut batch = one.begin(DAY_NS);
    let definition = Definition {
        open: 55,
        source: 1,
        ..definition(0, "A")
    };
    batch.definition(1, &definition);
    let news = batch.finish();
    assert!(
        names(&news).contains(&b"md:A@V1".to_vec()),
        "it is published"
    );
    let value = value_of(&market, "A@V1");
    assert_eq!((value.session_open, value.volume), (55, 0));
    assert_eq!(value_of(&market, "A@V2").volume, 6);
}

/// A reference before the first value showed the open that the definition declares.
#[test]
fn a_declared_open_is_shown_with_the_first_value_and_not_with_a_reference() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = Ingest::new(market.clone(), 1, "feed");
    let declared = Definition {
        open: 98,
        ..definition(0, "A")
    };
    feed.begin(1).definition(1, &declared);
    let reference = |kind, price| start(0, price, kind, SessionStart::KEEPS);
    send(
        &mut feed,
        &[reference(ReferenceKind::PREVIOUS_SETTLEMENT, 90)],
    );
    let value = value_of(&market, "A");
    assert_eq!(
        (value.session_open, value.reference.price),
        (PRICE_UNDEFINED, 90)
    );
    send(&mut feed, &[quote(0, 0, 10, 20)]);
    let value = value_of(&market, "A");
    assert_eq!((value.session_open, value.reference.price), (98, 90));
    // An open that comes after the definition's is newer.
    let declared = Definition {
        open: 98,
        ..definition(1, "B")
    };
    feed.begin(2).definition(2, &declared);
    let Message::SessionStart(open) = reference(ReferenceKind::OPEN, 97) else {
        unreachable!("it is a session start");
    };
    let open = Message::SessionStart(SessionStart { symbol: 1, ..open });
    send(&mut feed, &[open, quote(1, 0, 10, 20)]);
    assert_eq!(value_of(&market, "B").session_open, 97);
}

/// The value had the time of the definition that declared the open, and the state before was newer.
#[test]
fn the_time_of_a_value_does_not_go_back_with_a_declared_open() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = Ingest::new(market.clone(), 1, "feed");
    let declared = Definition {
        source_time_ns: 10,
        open: 98,
        ..definition(0, "A")
    };
    feed.begin(1).definition(1, &declared);
    let halted = Message::Status(TradingStatus {
        source_time_ns: 20,
        state: TradingState::HALTED,
        ..TradingStatus::default()
    });
    send(&mut feed, &[halted, set_level(0, 0, 90)]);
    let value = value_of(&market, "A");
    assert_eq!((value.session_open, value.source_time_ns), (98, 20));
}
