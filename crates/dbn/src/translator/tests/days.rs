//! The trading day of a record whose event is far from its capture.

use super::*;

/// A time of the event in 2100 began that day, and no real day after it.
#[test]
fn a_record_far_from_its_capture_belongs_to_the_day_of_the_capture() {
    let mut translator = Translator::default();
    let mut days = |event_ns: u64, captured_ns: u64| {
        let mut bytes = trade(1, 7, event_ns, 100);
        put(&mut bytes, 32, &captured_ns.to_le_bytes());
        let messages = apply(&mut translator, &bytes);
        let days = messages.iter().filter_map(|message| match message {
            Message::SessionStart(start) => Some((start.trading_day, start.source_time_ns)),
            _ => None,
        });
        Vec::from_iter(days)
    };
    let far_ns = NOON_NS + 76 * 365 * DAY_NS;
    assert_eq!(days(far_ns, NOON_NS), [(20240307, NOON_NS)]);
    assert_eq!(days(far_ns, NOON_NS + 1), []);
    assert_eq!(
        days(NOON_NS + DAY_NS, NOON_NS),
        [(20240308, NOON_NS + DAY_NS)]
    );
}

/// Name of a kind, place of its time of capture, and what makes a record of it at a time.
type Maker<'a> = (&'static str, usize, &'a dyn Fn(u64) -> Vec<u8>);

/// A quote or trade whose event was more than a day before its capture stayed in the session of the
/// day before, and the next record began the day.
#[test]
fn the_first_record_of_a_day_begins_it_if_its_event_is_of_the_day_before() {
    const HOUR_NS: u64 = DAY_NS / 24;
    let order = |event_ns| {
        let add = crate::action::ADD;
        order(42, event_ns, add, event_ns, 100, crate::flag::LAST)
    };
    let quote = |event_ns: u64| level(0x01, 1, 42, event_ns, (event_ns / HOUR_NS) as i64);
    let trade = |event_ns| trade(1, 42, event_ns, 100);
    let status = |event_ns| status(1, 42, event_ns, 7, 0);
    let makers: [Maker<'_>; 4] = [
        ("order", 40, &order),
        ("quote", 32, &quote),
        ("trade", 32, &trade),
        ("status", 16, &status),
    ];
    for (name, place, make) in makers {
        for is_carried in [false, true] {
            let mut translator = Translator::default();
            let mut days = |event_ns: u64, captured_ns: u64| {
                let mut bytes = make(event_ns);
                put(&mut bytes, place, &captured_ns.to_le_bytes());
                let record = RecordRef::new(&bytes).expect("a whole record");
                let mut begun = Vec::new();
                let mut note = |message: &Message| {
                    if let Message::SessionStart(start) = message {
                        begun.push(start.trading_day);
                    }
                };
                if is_carried {
                    translator.carry(&record, &mut note);
                }
                translator.apply(&record, &mut note);
                begun
            };
            assert_eq!(days(NOON_NS, NOON_NS), [20240307], "{name}");
            let next_ns = NOON_NS + DAY_NS;
            assert_eq!(days(next_ns - 25 * HOUR_NS, next_ns), [20240308], "{name}");
            assert_eq!(days(next_ns + HOUR_NS, next_ns + HOUR_NS), [], "{name}");
        }
    }
}
