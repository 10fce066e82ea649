//! Files in, messages out: what must precede what.

use tidewire_feed::wire::{ReferenceKind, SessionStart, TradingState};

use super::*;
use crate::UNDEFINED_TIME;

mod days;
mod names;
mod unknown;

const DAY_NS: u64 = 86_400_000_000_000;
/// 2024-03-07, 15:00 UTC.
const NOON_NS: u64 = 1_709_823_600_000_000_000;

/// Bytes of a record: header, and fields at their offsets.
fn record(rtype: u8, length: usize, publisher: u16, id: u32, ts_event: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    (bytes[0], bytes[1]) = ((length / 4) as u8, rtype);
    put(&mut bytes, 2, &publisher.to_le_bytes());
    put(&mut bytes, 4, &id.to_le_bytes());
    put(&mut bytes, 8, &ts_event.to_le_bytes());
    bytes
}

fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    bytes[offset..offset + field.len()].copy_from_slice(field);
}

fn trade(publisher: u16, id: u32, ts_event: u64, price: i64) -> Vec<u8> {
    let mut bytes = record(0x00, 48, publisher, id, ts_event);
    put(&mut bytes, 16, &price.to_le_bytes());
    put(&mut bytes, 24, &1u32.to_le_bytes());
    put(&mut bytes, 28, b"TA");
    put(&mut bytes, 32, &ts_event.to_le_bytes());
    bytes
}

/// A record of `mbp-1`, or of `cmbp-1`.
fn level(rtype: u8, publisher: u16, id: u32, ts_event: u64, bid: i64) -> Vec<u8> {
    let mut bytes = trade(publisher, id, ts_event, 0);
    bytes.resize(80, 0);
    (bytes[0], bytes[1], bytes[28]) = (20, rtype, b'A');
    put(&mut bytes, 48, &bid.to_le_bytes());
    put(&mut bytes, 56, &(bid + 1).to_le_bytes());
    bytes
}

fn status(publisher: u16, id: u32, ts_event: u64, action: u16, reason: u16) -> Vec<u8> {
    let mut bytes = record(0x12, 40, publisher, id, ts_event);
    put(&mut bytes, 16, &ts_event.to_le_bytes());
    put(&mut bytes, 24, &action.to_le_bytes());
    put(&mut bytes, 26, &reason.to_le_bytes());
    put(&mut bytes, 30, b"~~~");
    bytes
}

fn settlement(id: u32, ts_event: u64, ts_reference: u64, price: i64) -> Vec<u8> {
    statistic(3, id, ts_event, ts_reference, price)
}

fn statistic(number: u16, id: u32, ts_event: u64, ts_reference: u64, price: i64) -> Vec<u8> {
    let mut bytes = record(0x18, 80, 1, id, ts_event);
    put(&mut bytes, 16, &ts_event.to_le_bytes());
    put(&mut bytes, 24, &ts_reference.to_le_bytes());
    put(&mut bytes, 32, &price.to_le_bytes());
    put(&mut bytes, 56, &number.to_le_bytes());
    put(&mut bytes, 60, &[1]);
    bytes
}

/// A daily bar of publisher 1.
fn bar(id: u32, ts_event: u64, close: i64) -> Vec<u8> {
    let mut bytes = record(0x23, 56, 1, id, ts_event);
    put(&mut bytes, 40, &close.to_le_bytes());
    bytes
}

fn definition(id: u32, ts_recv: u64, symbol: &str, tick: i64, lot_size: i32) -> Vec<u8> {
    let mut bytes = record(0x13, 520, 1, id, ts_recv);
    put(&mut bytes, 16, &ts_recv.to_le_bytes());
    put(&mut bytes, 24, &tick.to_le_bytes());
    put(&mut bytes, 160, &lot_size.to_le_bytes());
    put(&mut bytes, 172, &5u32.to_le_bytes());
    put(&mut bytes, 224, b"USD");
    put(&mut bytes, 238, symbol.as_bytes());
    bytes
}

fn order(id: u32, ts_event: u64, action: u8, order_id: u64, price: i64, flags: u8) -> Vec<u8> {
    let mut bytes = record(0xA0, 56, 1, id, ts_event);
    put(&mut bytes, 16, &order_id.to_le_bytes());
    put(&mut bytes, 24, &price.to_le_bytes());
    put(&mut bytes, 32, &3u32.to_le_bytes());
    bytes[36] = flags;
    put(&mut bytes, 38, &[action, b'B']);
    put(&mut bytes, 40, &ts_event.to_le_bytes());
    bytes
}

fn apply(translator: &mut Translator, bytes: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    let record = RecordRef::new(bytes).expect("a whole record");
    translator.apply(&record, |message| messages.push(*message));
    messages
}

/// As `apply`, with the levels behind the messages.
fn apply_with_levels(translator: &mut Translator, depth: &mut Depth, bytes: &[u8]) -> Vec<Message> {
    let mut messages = apply(translator, bytes);
    let record = RecordRef::new(bytes).expect("a whole record");
    let levels = translator.levels(&record, depth).iter();
    messages.extend(levels.map(|&level| Message::Level(level)));
    messages
}

/// The messages by their types: V, D, S, Q, T, X for a status, L for a level.
fn kinds(messages: &[Message]) -> String {
    let kind = |message: &Message| match message {
        Message::Venue(_) => 'V',
        Message::Definition(_) => 'D',
        Message::SessionStart(_) => 'S',
        Message::Quote(_) => 'Q',
        Message::Trade(_) => 'T',
        Message::Status(_) => 'X',
        Message::Level(_) => 'L',
        other => panic!("{other:?}"),
    };
    messages.iter().map(kind).collect()
}

#[test]
fn venue_definition_and_session_precede_the_first_tick() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| kinds(&apply(&mut translator, &bytes));
    assert_eq!(said(trade(2, 42, NOON_NS, 100)), "VDST");
    assert_eq!(said(trade(2, 42, NOON_NS + 1, 100)), "T");
    assert_eq!(
        said(trade(2, 43, NOON_NS + 1, 100)),
        "DST",
        "another symbol"
    );
    assert_eq!(
        said(trade(3, 42, NOON_NS + 1, 100)),
        "VST",
        "another publisher"
    );
    assert_eq!(
        said(trade(2, 42, NOON_NS + DAY_NS, 100)),
        "ST",
        "another day"
    );
    assert_eq!(said(level(0x01, 2, 42, NOON_NS + DAY_NS, 90)), "Q");
    let counts = translator.counts();
    assert_eq!(
        (counts.venues, counts.definitions, counts.sessions),
        (2, 2, 4)
    );
}

#[test]
fn a_venue_has_the_name_of_its_publisher() {
    let mut translator = Translator::default();
    for (publisher, name) in [(2, "XNAS"), (81, "XNAS.BASIC.XNAS"), (999, "999")] {
        let messages = apply(&mut translator, &trade(publisher, 42, NOON_NS, 100));
        let Message::Venue(venue) = messages[0] else {
            panic!("the venue comes first");
        };
        assert_eq!((venue.source, venue.name.as_str()), (publisher, name));
    }
}

#[test]
fn two_publishers_of_one_instrument_do_not_hide_each_others_quotes() {
    let mut translator = Translator::default();
    let mut quotes = Vec::new();
    for (publisher, bid) in [
        (2, 90),
        (3, 80),
        (2, 90),
        (3, 81),
        (2, 90),
        (2, 91),
        (3, 81),
    ] {
        let bytes = level(0x01, publisher, 42, NOON_NS, bid);
        for message in apply(&mut translator, &bytes) {
            if let Message::Quote(quote) = message {
                quotes.push((quote.source, quote.bid));
            }
        }
    }
    assert_eq!(quotes, [(2, 90), (3, 80), (3, 81), (2, 91)]);
}

#[test]
fn consolidated_prices_are_those_of_one_source() {
    let mut translator = Translator::default();
    let mut quotes = Vec::new();
    // Events of two exchanges of OPRA change the best price of all: 30 stands for them.
    for (publisher, bid) in [(20, 90), (21, 91), (20, 90)] {
        for message in apply(&mut translator, &level(0xB1, publisher, 42, NOON_NS, bid)) {
            match message {
                Message::Quote(quote) => quotes.push((quote.source, quote.bid)),
                Message::Venue(venue) => assert_eq!(venue.name.as_str(), "OPRA"),
                _ => {}
            }
        }
    }
    assert_eq!(quotes, [(30, 90), (30, 91), (30, 90)]);
}

#[test]
fn a_status_is_a_trading_state_with_its_reason() {
    let mut translator = Translator::default();
    let messages = apply(&mut translator, &status(2, 42, NOON_NS, 8, 30));
    assert_eq!(kinds(&messages), "VDSX");
    let Message::Status(halted) = messages[3] else {
        panic!("no status");
    };
    assert_eq!(
        (halted.source, halted.state, halted.reason),
        (2, TradingState::HALTED, 30)
    );
    assert_eq!(halted.source_time_ns, NOON_NS);
    assert_eq!(apply(&mut translator, &status(2, 42, NOON_NS, 14, 0)), []);
    let accounting = translator.accounting();
    let unused: Vec<_> = accounting.unused().collect();
    assert_eq!(unused, [(Kind::Status, Unused::NoChange, 1)]);
    assert_eq!((accounting.read(), translator.counts().statuses), (2, 1));
}

#[test]
fn a_settlement_in_the_stream_is_the_next_days_reference() {
    let mut translator = Translator::default();
    apply(&mut translator, &trade(1, 42, NOON_NS, 100));
    let date_ns = NOON_NS / DAY_NS * DAY_NS;
    assert_eq!(
        apply(&mut translator, &settlement(42, NOON_NS + 1, date_ns, 105)),
        []
    );
    let messages = apply(&mut translator, &trade(1, 42, NOON_NS + DAY_NS, 110));
    let Message::SessionStart(start) = messages[0] else {
        panic!("no session");
    };
    assert_eq!(
        (start.trading_day, start.reference, start.rolls),
        (20240308, 105, SessionStart::BEGINS_DAY_OR_AGAIN)
    );
    assert_eq!(start.kind, ReferenceKind::PREVIOUS_SETTLEMENT);
    // A better one comes late.
    let messages = apply(
        &mut translator,
        &settlement(42, NOON_NS + DAY_NS, date_ns, 106),
    );
    let [Message::SessionStart(start)] = messages[..] else {
        panic!("one reference");
    };
    assert_eq!(
        (start.trading_day, start.reference, start.rolls),
        (20240308, 106, 0)
    );
    assert_eq!(translator.accounting().used(), 4);
}

#[test]
fn a_definition_is_given_again_when_it_changes() {
    let mut translator = Translator::default();
    let define = |translator: &mut Translator, time_ns, symbol, tick, lot_size| {
        let messages = apply(translator, &definition(42, time_ns, symbol, tick, lot_size));
        match messages[..] {
            [Message::Definition(definition)] => Some(definition),
            [] => None,
            _ => panic!("{messages:?}"),
        }
    };
    assert_eq!(define(&mut translator, NOON_NS, "ESH4", 25, 2), None);
    let messages = apply(&mut translator, &trade(1, 42, NOON_NS + 1, 100));
    let Message::Definition(first) = messages[1] else {
        panic!("no definition");
    };
    assert_eq!(
        (first.name.as_str(), first.price_tick, first.lot_size),
        ("ESH4", 25, 2)
    );
    assert_eq!((first.source, first.currency), (1, *b"USD\0"));
    assert_eq!(define(&mut translator, NOON_NS + 2, "ESH4", 25, 2), None);
    let changed = define(&mut translator, NOON_NS + 3, "ESH4", 50, i32::MAX).unwrap();
    assert_eq!(
        (changed.symbol, changed.price_tick, changed.lot_size),
        (first.symbol, 50, 5)
    );
    // Another name is another symbol, which is given at its first record.
    assert_eq!(define(&mut translator, NOON_NS + 4, "ESM4", 10, 1), None);
    let messages = apply(&mut translator, &trade(1, 42, NOON_NS + 5, 100));
    let Message::Definition(renamed) = messages[0] else {
        panic!("no definition");
    };
    assert_eq!((renamed.name.as_str(), renamed.price_tick), ("ESM4", 10));
    assert_ne!(renamed.symbol, first.symbol);
    // A late record of the old name keeps that name's tick.
    assert_eq!(
        kinds(&apply(&mut translator, &trade(1, 42, NOON_NS + 3, 100))),
        "T"
    );
    assert_eq!(translator.counts().definitions, 3);
}

#[test]
fn a_record_without_a_time_still_has_a_definition() {
    let mut translator = Translator::default();
    let messages = apply(&mut translator, &trade(2, 42, UNDEFINED_TIME, 100));
    assert_eq!(kinds(&messages), "VDST");
}

/// A symbol mapping without start and end.
fn mapping(id: u32, symbol: &str) -> Vec<u8> {
    let mut bytes = record(0x16, 176, 0, id, NOON_NS);
    for (offset, field) in [(17, symbol.as_bytes()), (89, symbol.as_bytes())] {
        put(&mut bytes, offset, field);
    }
    put(&mut bytes, 160, &[0xFF; 16]);
    bytes
}

#[test]
fn a_name_that_gets_another_instrument_id_keeps_its_session() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| apply(&mut translator, &bytes);
    said(mapping(7, "A"));
    let first = said(trade(1, 7, NOON_NS, 100));
    assert_eq!(kinds(&first), "VDST");
    said(mapping(8, "A"));
    let second = said(trade(1, 8, NOON_NS + 1, 101));
    assert_eq!(kinds(&second), "T", "the same trading day");
    assert_eq!(second[0].symbol(), first[3].symbol());
}

#[test]
fn a_reference_stays_when_the_name_gets_another_instrument_id() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| apply(&mut translator, &bytes);
    let date_ns = NOON_NS / DAY_NS * DAY_NS;
    said(mapping(7, "A"));
    said(trade(1, 7, NOON_NS, 100));
    said(settlement(7, NOON_NS + 1, date_ns, 105));
    said(mapping(8, "A"));
    let messages = said(trade(1, 8, NOON_NS + DAY_NS, 110));
    let Message::SessionStart(start) = messages[0] else {
        panic!("no session");
    };
    assert_eq!((start.trading_day, start.reference), (20240308, 105));
}

#[test]
fn an_id_without_a_definition_leaves_that_of_its_name() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| kinds(&apply(&mut translator, &bytes));
    said(mapping(7, "A"));
    said(definition(7, NOON_NS, "A", 25, 2));
    assert_eq!(said(trade(1, 7, NOON_NS, 100)), "VDST");
    said(mapping(8, "A"));
    assert_eq!(said(trade(1, 8, NOON_NS + DAY_NS, 100)), "ST");
}

#[test]
fn an_empty_quote_of_a_names_new_id_replaces_the_old_quote() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| apply(&mut translator, &bytes);
    let empty = |id| {
        let mut bytes = level(0x01, 1, id, NOON_NS, 90);
        put(&mut bytes, 48, &UNDEFINED_PRICE.to_le_bytes());
        put(&mut bytes, 56, &UNDEFINED_PRICE.to_le_bytes());
        bytes
    };
    said(mapping(7, "A"));
    said(level(0x01, 1, 7, NOON_NS, 90));
    said(mapping(8, "A"));
    let [Message::Quote(quote)] = said(empty(8))[..] else {
        panic!("one quote");
    };
    assert_eq!((quote.bid, quote.ask), (UNDEFINED_PRICE, UNDEFINED_PRICE));
    // The same where an id returns to a name that it had.
    said(level(0x01, 1, 8, NOON_NS, 91));
    said(mapping(8, "B"));
    assert_eq!(kinds(&said(empty(8))), "DSQ", "the first state of B");
    said(mapping(8, "A"));
    assert_eq!(kinds(&said(empty(8))), "Q");
}

#[test]
fn a_definition_precedes_the_levels_of_a_book_that_begins_empty() {
    let last = crate::flag::LAST;
    let empty_first = [
        order(7, NOON_NS, b'C', 9, 100, last),
        order(7, NOON_NS, b'R', 0, UNDEFINED_PRICE, last),
        {
            let mut bytes = record(0x0A, 368, 1, 7, NOON_NS);
            put(&mut bytes, 28, b"A");
            for offset in (48..368).step_by(32) {
                put(&mut bytes, offset, &UNDEFINED_PRICE.to_le_bytes());
                put(&mut bytes, offset + 8, &UNDEFINED_PRICE.to_le_bytes());
            }
            bytes
        },
    ];
    // The cancel is of an unknown order: the book is empty as far as the file says.
    for bytes in empty_first {
        let (mut translator, mut depth) = (Translator::default(), Depth::new(5));
        let messages = apply_with_levels(&mut translator, &mut depth, &bytes);
        assert_eq!(kinds(&messages), "VDSQL");
        let add = order(7, NOON_NS + 1, b'A', 1, 100, last);
        let messages = apply_with_levels(&mut translator, &mut depth, &add);
        assert_eq!(kinds(&messages), "QL");
    }
}

/// A file played twice counted its trades twice: its first order was in front of the day's start.
#[test]
fn the_session_precedes_an_order_that_is_passed_on_and_ends_no_event() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| {
        let mut messages = apply(&mut translator, &bytes);
        let record = RecordRef::new(&bytes).expect("a whole record");
        let carried = translator.carry(&record, |message| messages.push(*message));
        assert_eq!(carried, Some(0));
        let starts = messages.iter().filter_map(|message| match message {
            Message::SessionStart(start) => Some((start.rolls, start.source_time_ns)),
            _ => None,
        });
        (kinds(&messages), starts.collect::<Vec<_>>())
    };
    let day = (SessionStart::BEGINS_DAY, NOON_NS);
    let again = (SessionStart::BEGINS_DAY_OR_AGAIN, NOON_NS + 2);
    let first = said(order(7, NOON_NS, b'A', 1, 100, 0));
    assert_eq!(first, ("VDS".to_owned(), vec![day]));
    let second = said(order(7, NOON_NS + 1, b'A', 2, 100, 0));
    assert_eq!(second, (String::new(), vec![]));
    let traded = said(order(7, NOON_NS + 2, b'T', 0, 100, 0));
    assert_eq!(traded, ("ST".to_owned(), vec![again]));
    // A snapshot's order belongs to the day of the capture, and to no day before it.
    let mut old = order(7, NOON_NS - 90 * 3_600 * 1_000_000_000, b'A', 3, 100, 0);
    put(&mut old, 40, &(NOON_NS + 3).to_le_bytes());
    assert_eq!(said(old).1, vec![]);
}

/// The session began at the capture, days after its trades: a file that was replayed again was
/// taken for the next trades of the day, and they counted twice.
#[test]
fn a_session_begins_by_the_time_of_the_trade_that_begins_it() {
    for distance_ns in [0, 36, 48, 9 * 24, 400 * 24].map(|hours| hours * 3_600 * 1_000_000_000) {
        let mut translator = Translator::default();
        let mut bytes = order(7, NOON_NS - distance_ns, b'T', 0, 100, 0);
        put(&mut bytes, 40, &NOON_NS.to_le_bytes());
        let times = apply(&mut translator, &bytes);
        let times = times.iter().filter_map(|message| match message {
            Message::SessionStart(start) => Some(start.source_time_ns),
            Message::Trade(trade) => Some(trade.source_time_ns),
            _ => None,
        });
        assert_eq!(times.collect::<Vec<_>>(), [NOON_NS; 2], "{distance_ns}");
    }
}

#[test]
fn orders_that_end_no_event_define_their_symbol() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| kinds(&apply(&mut translator, &bytes));
    assert_eq!(said(order(7, NOON_NS, b'A', 1, 100, 0)), "VD");
    assert_eq!(said(order(7, NOON_NS, b'A', 2, 101, 0)), "");
}

#[test]
fn a_new_name_of_a_living_book_gets_its_levels_and_its_quote() {
    let last = crate::flag::LAST;
    let (mut translator, mut depth) = (Translator::default(), Depth::new(5));
    let mut said = |bytes: Vec<u8>| apply_with_levels(&mut translator, &mut depth, &bytes);
    let levels = |messages: &[Message]| {
        let levels = messages.iter().filter_map(|message| match message {
            Message::Level(level) => Some((level.symbol, level.action, level.price)),
            _ => None,
        });
        Vec::from_iter(levels)
    };
    let (set, clear) = (Level::SET, Level::CLEAR);
    said(mapping(7, "A"));
    let messages = said(order(7, NOON_NS, b'A', 1, 100, last));
    assert_eq!(levels(&messages), [(0, clear, 0), (0, set, 100)]);
    said(mapping(7, "B"));
    // Behind the best price, so the top is as before.
    let messages = said(order(7, NOON_NS, b'A', 2, 90, last));
    assert_eq!(kinds(&messages), "DSQLLL");
    let all = [(1, clear, 0), (1, set, 100), (1, set, 90)];
    assert_eq!(levels(&messages), all);
    let Message::Quote(quote) = messages[2] else {
        panic!("no quote");
    };
    assert_eq!((quote.symbol, quote.bid), (1, 100));
    // Back to the first name: what has changed since then.
    said(mapping(7, "A"));
    let messages = said(order(7, NOON_NS, b'C', 1, 0, last));
    assert_eq!(kinds(&messages), "QLL");
    assert_eq!(levels(&messages), [(0, set, 100), (0, set, 90)]);
}

#[test]
fn a_name_shows_the_book_of_the_id_that_has_it() {
    let last = crate::flag::LAST;
    let (mut translator, mut depth) = (Translator::default(), Depth::new(5));
    let mut said = |bytes: Vec<u8>| apply_with_levels(&mut translator, &mut depth, &bytes);
    said(mapping(7, "A"));
    said(order(7, NOON_NS, b'A', 1, 100, last));
    said(mapping(8, "A"));
    let messages = said(order(8, NOON_NS, b'R', 0, UNDEFINED_PRICE, last));
    assert_eq!(kinds(&messages), "QL", "both are empty");
    let Message::Level(level) = messages[1] else {
        panic!("no level");
    };
    assert_eq!((level.price, level.size), (100, 0));
}

#[test]
fn a_side_without_a_price_has_no_size_and_no_orders() {
    for rtype in [0x01, 0xC3, 0xB1] {
        let mut translator = Translator::default();
        let mut bytes = level(rtype, 1, 7, NOON_NS, 90);
        put(&mut bytes, 48, &UNDEFINED_PRICE.to_le_bytes());
        for offset in (64..80).step_by(4) {
            put(&mut bytes, offset, &7u32.to_le_bytes());
        }
        let quotes = apply(&mut translator, &bytes)
            .into_iter()
            .filter_map(|message| {
                let Message::Quote(quote) = message else {
                    return None;
                };
                let bid = (quote.bid, quote.bid_size, quote.bid_orders);
                Some((bid, quote.ask, quote.ask_size))
            });
        let bid = (UNDEFINED_PRICE, 0, 0);
        assert_eq!(Vec::from_iter(quotes), [(bid, 91, 7)], "{rtype:#x}");
    }
}

#[test]
fn a_bar_of_a_past_day_within_the_session_is_its_reference() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| apply(&mut translator, &bytes);
    let date_ns = NOON_NS / DAY_NS * DAY_NS;
    assert_eq!(said(bar(7, date_ns, 80)), [], "there is no session yet");
    said(trade(1, 7, NOON_NS, 100));
    said(trade(1, 7, NOON_NS + DAY_NS, 100));
    let [Message::SessionStart(start)] = said(bar(7, date_ns, 81))[..] else {
        panic!("one reference");
    };
    assert_eq!(
        (start.kind, start.reference),
        (ReferenceKind::PREVIOUS_CLOSE, 81)
    );
    assert_eq!((start.trading_day, start.rolls), (20240308, 0));
    assert_eq!(start.source_time_ns, NOON_NS + DAY_NS, "no step back");
    assert_eq!(said(bar(7, date_ns, 81)), [], "as before");
}

#[test]
fn an_open_that_is_known_before_its_day_is_given_with_the_day() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| apply(&mut translator, &bytes);
    let date_ns = NOON_NS / DAY_NS * DAY_NS;
    said(trade(1, 7, NOON_NS, 100));
    assert_eq!(said(statistic(11, 7, NOON_NS + 1, date_ns, 90)), []);
    assert_eq!(said(statistic(1, 7, NOON_NS + 2, date_ns + DAY_NS, 95)), []);
    let messages = said(trade(1, 7, NOON_NS + DAY_NS, 97));
    let starts = messages.iter().filter_map(|message| match message {
        Message::SessionStart(start) => Some((start.rolls, start.kind, start.reference)),
        _ => None,
    });
    let (close, open) = (ReferenceKind::PREVIOUS_CLOSE, ReferenceKind::OPEN);
    let again = SessionStart::BEGINS_DAY_OR_AGAIN;
    assert_eq!(Vec::from_iter(starts), [(again, close, 90), (0, open, 95)]);
    assert_eq!(kinds(&messages), "SST");
    // The same open again says nothing new; another one does.
    let again = |price| statistic(1, 7, NOON_NS + DAY_NS + 1, date_ns + DAY_NS, price);
    assert_eq!(said(again(95)), []);
    assert_eq!(kinds(&said(again(96))), "S");
}

#[test]
fn a_sampled_quote_has_the_time_of_the_sample_and_not_of_the_last_trade() {
    for rtype in [0xC0, 0xC1, 0xC3, 0xC4] {
        let mut translator = Translator::default();
        let mut bytes = level(rtype, 30, 7, NOON_NS - DAY_NS, 90);
        put(&mut bytes, 32, &NOON_NS.to_le_bytes());
        let messages = apply(&mut translator, &bytes);
        assert_eq!(kinds(&messages), "VDSQ");
        let (Message::SessionStart(start), Message::Quote(quote)) = (messages[2], messages[3])
        else {
            panic!("{messages:?}");
        };
        assert_eq!(start.trading_day, 20240307, "{rtype:#x}");
        assert_eq!(quote.source_time_ns, NOON_NS, "{rtype:#x}");
    }
}

#[test]
fn an_unknown_tick_is_0() {
    let mut translator = Translator::default();
    let mut ticks = Vec::new();
    for bytes in [
        trade(1, 7, NOON_NS, 100),
        definition(8, NOON_NS, "B", UNDEFINED_PRICE, 1),
        trade(1, 8, NOON_NS, 100),
    ] {
        let messages = apply(&mut translator, &bytes);
        ticks.extend(messages.iter().filter_map(|message| match message {
            Message::Definition(definition) => Some(definition.price_tick),
            _ => None,
        }));
    }
    assert_eq!(ticks, [0, 0]);
}

#[test]
fn a_quote_of_another_schema_under_a_new_name_is_not_that_of_an_empty_book() {
    let last = crate::flag::LAST;
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| kinds(&apply(&mut translator, &bytes));
    said(mapping(7, "A"));
    said(level(0x01, 1, 7, NOON_NS, 90));
    said(mapping(7, "B"));
    assert_eq!(said(level(0x01, 1, 7, NOON_NS, 91)), "DSQ");
    assert_eq!(said(order(7, NOON_NS, b'T', 0, 91, last)), "ST");
}

/// It was not said which quote is the one given out last where two schemas give them.
#[test]
fn an_event_that_leaves_the_top_of_its_book_gives_no_quote_behind_that_of_another_schema() {
    let mut translator = Translator::default();
    let mut said = |bytes: Vec<u8>| kinds(&apply(&mut translator, &bytes));
    let add = |time_ns, number, price| {
        let (add, last) = (crate::action::ADD, crate::flag::LAST);
        order(42, NOON_NS + time_ns, add, number, price, last)
    };
    assert_eq!(said(add(1, 1, 100)), "VDSQ");
    assert_eq!(said(level(0x01, 1, 42, NOON_NS + 2, 101)), "Q");
    assert_eq!(said(add(3, 2, 99)), "");
    assert_eq!(said(add(4, 3, 105)), "Q");
}

/// A later file that begins with an empty book left the quote of the file before.
#[test]
fn an_empty_first_book_of_a_file_is_told() {
    let last = crate::flag::LAST;
    let mut empty = level(0x01, 1, 7, NOON_NS, 90);
    put(&mut empty, 48, &UNDEFINED_PRICE.to_le_bytes());
    put(&mut empty, 56, &UNDEFINED_PRICE.to_le_bytes());
    let clear = |flags| order(7, NOON_NS, b'R', 0, UNDEFINED_PRICE, flags);
    let told = |records: &[Vec<u8>]| {
        let mut translator = Translator::default();
        let said = records
            .iter()
            .flat_map(|bytes| apply(&mut translator, bytes));
        kinds(&Vec::from_iter(said))
    };
    assert_eq!(told(&[clear(last), clear(last)]), "VDSQ");
    assert_eq!(told(&[empty.clone(), empty]), "VDSQ");
    // The event ends later, with a record that says nothing of the book itself.
    let fill = order(7, NOON_NS, b'F', 1, 100, last);
    assert_eq!(told(&[clear(0), fill]), "VDSQ");
    // No book: trades alone.
    assert_eq!(told(&[trade(1, 7, NOON_NS, 100)]), "VDST");
}

/// The first event of a file had no record that changed the book: the quote of the file before
/// stayed until a later event.
#[test]
fn the_first_event_of_orders_tells_an_empty_book_with_records_of_any_kind() {
    let last = crate::flag::LAST;
    let order = |action, flags| order(7, NOON_NS, action, 9, 100, flags);
    for (records, expected) in [
        (vec![order(b'T', last)], "VDSTQ"),
        (
            vec![order(b'T', 0), order(b'F', 0), order(b'C', last)],
            "VDSTQ",
        ),
        (vec![order(b'C', last), order(b'C', last)], "VDSQ"),
        (vec![order(b'F', last)], "VDSQ"),
        (vec![order(b'N', last)], "VDSQ"),
        // It has no known action.
        (vec![order(b'?', last)], "VDSQ"),
        (vec![order(b'T', 0), order(b'C', 0)], "VDST"),
    ] {
        let mut translator = Translator::default();
        let said = records
            .iter()
            .flat_map(|bytes| apply(&mut translator, bytes));
        let said = Vec::from_iter(said);
        assert_eq!(kinds(&said), expected);
        if let Some(Message::Quote(quote)) = said.last() {
            assert_eq!((quote.bid, quote.ask), (UNDEFINED_PRICE, UNDEFINED_PRICE));
        }
    }
}
