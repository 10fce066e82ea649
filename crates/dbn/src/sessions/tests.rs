//! One test per rule of a session's beginning and of its reference price.

use tidewire_calendar::days_of_number;

use super::*;
use crate::RecordHeader;

const HOUR_NS: u64 = 3_600_000_000_000;
/// GLBX.MDP3 and XNAS.ITCH.
const GLOBEX: u16 = 1;
const NASDAQ: u16 = 2;

/// Returns an hour in UTC of a date, in ns since the UNIX epoch.
fn utc_ns(date: u32, hour: u64) -> u64 {
    days_of_number(date) as u64 * DAY_NS + hour * HOUR_NS
}

fn statistic(statistic: u16, ts_reference: u64, price: i64) -> StatisticsRecord {
    StatisticsRecord {
        header: RecordHeader {
            publisher_id: GLOBEX,
            ..Default::default()
        },
        statistic,
        ts_reference,
        price,
        update_action: 1,
        ..Default::default()
    }
}

/// Says a statistic to the sessions as the translator does. Returns all that is told.
fn say(sessions: &mut Sessions, record: &StatisticsRecord, time_ns: u64) -> Vec<SessionStart> {
    let source = record.header.publisher_id;
    sessions.note_statistic(7, record, time_ns);
    let mut told = Vec::from_iter(sessions.enter(source, 7, time_ns, false));
    told.extend(sessions.changed(source, 7, time_ns));
    told
}

/// What is told: trading day, whether it rolls, kind and price.
fn parts(start: SessionStart) -> (u32, u8, ReferenceKind, i64) {
    (start.trading_day, start.rolls, start.kind, start.reference)
}

const DAY: u8 = SessionStart::BEGINS_DAY;
const AGAIN: u8 = SessionStart::BEGINS_DAY_OR_AGAIN;
const NONE: (ReferenceKind, i64) = NO_REFERENCE;

#[test]
fn a_session_begins_with_the_first_record_of_a_trading_day() {
    let mut sessions = Sessions::new();
    let mut day = |time_ns| sessions.enter(GLOBEX, 7, time_ns, true).map(parts);
    // Winter in Chicago: five o'clock is 23:00 UTC.
    let first = Some((20240307, AGAIN, NONE.0, NONE.1));
    assert_eq!(day(utc_ns(20240307, 10)), first);
    assert_eq!(day(utc_ns(20240307, 23) - 1), None);
    let next = day(utc_ns(20240307, 23)).unwrap();
    assert_eq!(next, (20240308, AGAIN, NONE.0, NONE.1));
    assert_eq!(day(utc_ns(20240307, 22)), None, "a late record");
    assert_eq!(day(utc_ns(20240308, 22)), None);
    // Over the weekend clocks change: five o'clock is 22:00 UTC.
    assert_eq!(day(utc_ns(20240310, 22)).unwrap().0, 20240311);
    assert_eq!(day(utc_ns(20240311, 21)), None);
    assert_eq!(day(utc_ns(20240311, 22)).unwrap().0, 20240312);
}

#[test]
fn each_publisher_and_symbol_has_a_session_of_its_own() {
    let mut sessions = Sessions::new();
    let time_ns = utc_ns(20240307, 23) + 1;
    let mut day = |source, symbol| {
        let start = sessions.enter(source, symbol, time_ns, true)?;
        assert_eq!((start.source, start.symbol), (source, symbol));
        assert_eq!(start.source_time_ns, time_ns);
        Some(start.trading_day)
    };
    assert_eq!(day(GLOBEX, 1), Some(20240308));
    assert_eq!(day(GLOBEX, 2), Some(20240308));
    assert_eq!(day(NASDAQ, 1), Some(20240307));
    assert_eq!(
        (day(GLOBEX, 1), day(GLOBEX, 2), day(NASDAQ, 1)),
        (None, None, None)
    );
}

#[test]
fn a_settlement_is_the_reference_of_the_next_day() {
    let mut sessions = Sessions::new();
    sessions.enter(GLOBEX, 7, utc_ns(20240307, 10), true);
    let settlement = statistic(SETTLEMENT_PRICE, utc_ns(20240307, 0), 500);
    assert_eq!(say(&mut sessions, &settlement, utc_ns(20240307, 21)), []);
    let start = sessions
        .enter(GLOBEX, 7, utc_ns(20240308, 10), true)
        .unwrap();
    let expected = (20240308, AGAIN, ReferenceKind::PREVIOUS_SETTLEMENT, 500);
    assert_eq!(parts(start), expected);
}

#[test]
fn a_settlement_that_comes_late_is_told_within_the_day() {
    let mut sessions = Sessions::new();
    sessions.enter(GLOBEX, 7, utc_ns(20240307, 10), true);
    // It begins the day itself.
    let close = statistic(CLOSE_PRICE, utc_ns(20240307, 0), 498);
    let [start] = say(&mut sessions, &close, utc_ns(20240307, 23))[..] else {
        panic!("one message");
    };
    assert_eq!(
        parts(start),
        (20240308, DAY, ReferenceKind::PREVIOUS_CLOSE, 498)
    );
    let mut settlement = statistic(SETTLEMENT_PRICE, utc_ns(20240307, 0), 500);
    let [start] = say(&mut sessions, &settlement, utc_ns(20240308, 1))[..] else {
        panic!("one message");
    };
    let expected = (20240308, 0, ReferenceKind::PREVIOUS_SETTLEMENT, 500);
    assert_eq!(parts(start), expected);
    assert_eq!(say(&mut sessions, &settlement, utc_ns(20240308, 2)), []);
    // It is taken back.
    settlement.update_action = DELETED;
    let [start] = say(&mut sessions, &settlement, utc_ns(20240308, 3))[..] else {
        panic!("one message");
    };
    assert_eq!(
        parts(start),
        (20240308, 0, ReferenceKind::PREVIOUS_CLOSE, 498)
    );
}

#[test]
fn a_reference_older_than_the_session_before_is_not_used() {
    let mut sessions = Sessions::new();
    let settlement = statistic(SETTLEMENT_PRICE, utc_ns(20240305, 0), 500);
    say(&mut sessions, &settlement, utc_ns(20240305, 21));
    sessions.enter(GLOBEX, 7, utc_ns(20240306, 10), true);
    let start = sessions
        .enter(GLOBEX, 7, utc_ns(20240307, 10), true)
        .unwrap();
    assert_eq!(parts(start), (20240307, AGAIN, NONE.0, NONE.1));
    // A day without a session in between may settle.
    let settlement = statistic(SETTLEMENT_PRICE, utc_ns(20240308, 0), 510);
    sessions.note_statistic(7, &settlement, utc_ns(20240308, 10));
    let start = sessions
        .enter(GLOBEX, 7, utc_ns(20240311, 10), true)
        .unwrap();
    assert_eq!(start.reference, 510);
}

#[test]
fn an_opening_price_is_the_open_and_replaces_no_better_reference() {
    let mut sessions = Sessions::new();
    let open = statistic(OPENING_PRICE, UNDEFINED_TIME, 300);
    let [start, opened] = say(&mut sessions, &open, utc_ns(20240307, 10))[..] else {
        panic!("two messages");
    };
    assert_eq!(parts(start), (20240307, DAY, NONE.0, NONE.1));
    assert_eq!(parts(opened), (20240307, 0, ReferenceKind::OPEN, 300));
    let settlement = statistic(SETTLEMENT_PRICE, utc_ns(20240306, 0), 290);
    let [start] = say(&mut sessions, &settlement, utc_ns(20240307, 11))[..] else {
        panic!("one message");
    };
    assert_eq!(start.kind, ReferenceKind::PREVIOUS_SETTLEMENT);
    let open = statistic(OPENING_PRICE, UNDEFINED_TIME, 301);
    let [start] = say(&mut sessions, &open, utc_ns(20240307, 12))[..] else {
        panic!("one message");
    };
    assert_eq!(parts(start), (20240307, 0, ReferenceKind::OPEN, 301));
    let mut again = sessions.changed(GLOBEX, 7, utc_ns(20240307, 13));
    assert_eq!(again.next(), None, "the settlement still is the reference");
    // The receiver may forget the open when the trades of the day come again.
    let trade_ns = utc_ns(20240307, 14);
    assert!(sessions.enter(GLOBEX, 7, trade_ns, true).is_some());
    let open: Vec<_> = sessions.changed(GLOBEX, 7, trade_ns).map(parts).collect();
    assert_eq!(open, [(20240307, 0, ReferenceKind::OPEN, 301)]);
}

/// An opening price that was taken back stayed, and a settlement where an opening price was known.
#[test]
fn a_price_that_is_taken_back_is_told_beside_the_others() {
    let (open, settlement) = (ReferenceKind::OPEN, ReferenceKind::PREVIOUS_SETTLEMENT);
    let opened = statistic(OPENING_PRICE, UNDEFINED_TIME, 300);
    let settled = statistic(SETTLEMENT_PRICE, utc_ns(20240306, 0), 290);
    let deleted = |record: &StatisticsRecord| StatisticsRecord {
        update_action: DELETED,
        ..*record
    };
    for has_settlement in [false, true] {
        let mut sessions = Sessions::new();
        let mut tell = |record: &StatisticsRecord| {
            let told = say(&mut sessions, record, utc_ns(20240307, 10)).into_iter();
            let told = told.map(|start| (start.rolls, start.kind, start.reference));
            told.collect::<Vec<_>>()
        };
        if has_settlement {
            assert_eq!(tell(&settled), [(DAY, settlement, 290)]);
        }
        assert_eq!(tell(&opened).last(), Some(&(0, open, 300)));
        assert_eq!(tell(&deleted(&opened)), [(0, open, UNDEFINED_PRICE)]);
        assert_eq!(tell(&deleted(&opened)), []);
        assert_eq!(tell(&opened), [(0, open, 300)]);
        // The open stays without the settlement.
        let gone = Vec::from_iter(has_settlement.then_some((0, NONE.0, NONE.1)));
        assert_eq!(tell(&deleted(&settled)), gone);
        assert_eq!(tell(&opened), []);
    }
}

/// A price that is taken back and was never given took the place of a day whose prices are kept.
#[test]
fn a_price_of_an_unknown_day_that_is_taken_back_changes_nothing() {
    let mut sessions = Sessions::new();
    for (date, price) in [(20240304, 1), (20240305, 2), (20240306, 3)] {
        let settlement = statistic(SETTLEMENT_PRICE, utc_ns(date, 0), price);
        sessions.note_statistic(7, &settlement, utc_ns(20240306, 10));
    }
    let mut unknown = statistic(SETTLEMENT_PRICE, utc_ns(20240307, 0), 4);
    unknown.update_action = DELETED;
    sessions.note_statistic(7, &unknown, utc_ns(20240307, 10));
    for date in [20240306, 20240305] {
        let mut settlement = statistic(SETTLEMENT_PRICE, utc_ns(date, 0), 0);
        settlement.update_action = DELETED;
        sessions.note_statistic(7, &settlement, utc_ns(20240307, 10));
    }
    let start = sessions.enter(GLOBEX, 7, utc_ns(20240307, 11), true);
    assert_eq!(start.unwrap().reference, 1);
}

#[test]
fn a_daily_bar_gives_a_close_and_a_close_is_better() {
    let mut sessions = Sessions::new();
    let bar = OhlcvRecord {
        header: RecordHeader {
            publisher_id: NASDAQ,
            ts_event: utc_ns(20240307, 0),
            ..Default::default()
        },
        close: 100,
        ..Default::default()
    };
    sessions.note_bar(7, &bar);
    let start = sessions
        .enter(NASDAQ, 7, utc_ns(20240308, 15), true)
        .unwrap();
    assert_eq!(
        parts(start),
        (20240308, AGAIN, ReferenceKind::PREVIOUS_CLOSE, 100)
    );
    let mut close = statistic(CLOSE_PRICE, utc_ns(20240307, 0), 101);
    close.header.publisher_id = NASDAQ;
    let told = say(&mut sessions, &close, utc_ns(20240308, 16));
    assert_eq!(told[0].reference, 101);
}

#[test]
fn a_statistic_without_a_day_belongs_to_that_of_its_time() {
    let mut sessions = Sessions::new();
    let settlement = statistic(SETTLEMENT_PRICE, UNDEFINED_TIME, 500);
    // Sunday evening in Chicago is Monday.
    say(&mut sessions, &settlement, utc_ns(20240310, 23));
    let start = sessions
        .enter(GLOBEX, 7, utc_ns(20240312, 10), true)
        .unwrap();
    assert_eq!((start.trading_day, start.reference), (20240312, 500));
}

#[test]
fn a_day_far_ahead_is_not_believed() {
    let far = statistic(SETTLEMENT_PRICE, utc_ns(20990101, 0), 1);
    let time_ns = utc_ns(20240307, 10);
    assert!(!Sessions::uses(&far, time_ns));
    let near = statistic(SETTLEMENT_PRICE, utc_ns(20240308, 0), 1);
    assert!(Sessions::uses(&near, time_ns));
    assert!(!Sessions::uses(
        &statistic(9, utc_ns(20240307, 0), 1),
        time_ns
    ));
    let undefined = statistic(SETTLEMENT_PRICE, utc_ns(20240307, 0), UNDEFINED_PRICE);
    assert!(!Sessions::uses(&undefined, time_ns));
}

#[test]
fn a_record_without_a_time_begins_a_session_of_no_day_once() {
    let mut sessions = Sessions::new();
    let mut day = |time_ns| Some(sessions.enter(GLOBEX, 7, time_ns, true)?.trading_day);
    assert_eq!(day(UNDEFINED_TIME), Some(0));
    assert_eq!((day(0), day(UNDEFINED_TIME)), (None, None));
    assert_eq!(day(utc_ns(20240307, 10)), Some(20240307));
    assert_eq!((day(0), day(UNDEFINED_TIME)), (None, None));
}

/// A second file of a day began the day again, and its volume was lost.
#[test]
fn a_day_begins_only_where_it_has_not_begun_and_its_first_trade_asks_again() {
    let mut sessions = Sessions::new();
    let mut rolls = |time_ns, is_trade| {
        let start = sessions.enter(GLOBEX, 7, time_ns, is_trade)?;
        assert_eq!(start.source_time_ns, time_ns);
        Some((start.trading_day, start.rolls))
    };
    let at = |hour| utc_ns(20240307, hour);
    assert_eq!(rolls(at(10), false), Some((20240307, DAY)));
    assert_eq!(rolls(at(11), false), None);
    assert_eq!(rolls(at(12), true), Some((20240307, AGAIN)));
    assert_eq!((rolls(at(13), true), rolls(at(13), false)), (None, None));
    // The next day begins with a trade.
    assert_eq!(rolls(at(23), true), Some((20240308, AGAIN)));
    assert_eq!((rolls(at(23), true), rolls(at(23), false)), (None, None));
}
