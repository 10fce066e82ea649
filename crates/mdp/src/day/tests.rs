use super::*;

const TODAY: u16 = 20_000;

fn trade(price: i64, size: u32) -> Event {
    Event::Trade {
        price,
        size,
        condition: 1,
    }
}

fn status(date: u16, is_reset: bool, is_complete: bool) -> Event {
    Event::Status(Status {
        date: Some(date),
        is_reset,
        is_complete,
        is_start: true,
    })
}

fn settlement(price: i64, date: Option<u16>) -> Event {
    Event::Settlement(Some(Settlement { price, date }))
}

fn defined(price: i64, date: Option<u16>) -> Event {
    Event::Definition(Settlement { price, date }, true)
}

fn day(events: &[Event]) -> Day {
    let mut day = Day::default();
    for event in events {
        day.apply(event);
    }
    day
}

/// Returns what waits of a day: events after it, with the sequences of their packets.
fn waiting(before: Day, events: &[(u64, Event)]) -> Waiting {
    let mut waiting = Waiting::new(before);
    for &(sequence, event) in events {
        waiting.push(sequence, event);
    }
    waiting
}

fn snapshot(trade_date: u16, volume: u64, range: Option<[i64; 3]>) -> SnapshotFigures {
    SnapshotFigures {
        trade_date: Some(trade_date),
        volume,
        open: range.map(|range| range[0]),
        high: range.map(|range| range[1]),
        low: range.map(|range| range[2]),
        ..SnapshotFigures::default()
    }
}

fn range(day: &Day) -> [Option<i64>; 3] {
    [day.session.open, day.session.high, day.session.low]
}

fn settlements(day: &Day) -> (Option<i64>, Option<i64>) {
    (day.statistics.reference, day.statistics.settlement)
}

/// Open, high and low of the snapshot were left out if a trade had come behind it.
#[test]
fn a_trade_behind_a_snapshot_is_added_to_its_open_high_and_low() {
    let figures = snapshot(TODAY, 9, Some([81, 81, 81]));
    let rising = waiting(
        Day::default(),
        &[(11, trade(82, 4)), (11, Event::High(Some(82)))],
    );
    let restored = rising.restored(&figures, 10, 5, false).unwrap();
    assert_eq!(range(&restored), [Some(81), Some(82), Some(81)]);
    assert_eq!(restored.statistics.volume, 13);
    let falling = waiting(Day::default(), &[(11, trade(80, 1))]);
    let restored = falling.restored(&figures, 10, 5, false).unwrap();
    assert_eq!(range(&restored), [Some(81), Some(81), Some(80)]);
}

/// Only the last of these trades was in open, high and low.
#[test]
fn a_new_session_keeps_what_the_exchange_has_said_behind_its_snapshot() {
    let events = [
        (11, trade(95, 2)),
        (11, Event::Open(Some(95))),
        (12, trade(60, 2)),
        (12, Event::Low(Some(60))),
    ];
    let before = day(&[status(TODAY - 1, false, true), trade(80, 4)]);
    let waiting = waiting(before, &events);
    let restored = waiting
        .restored(&snapshot(TODAY, 0, None), 10, 5, false)
        .unwrap();
    assert_eq!(range(&restored), [Some(95), Some(95), Some(60)]);
    let (session, statistics) = (restored.session, restored.statistics);
    assert_eq!((session.trades, statistics.volume), (2, 4));
    assert_eq!(restored.trade_date, Some(TODAY));
}

/// Trades between two losses may be of either session.
#[test]
fn trades_before_the_last_loss_are_not_counted_in_a_session_that_began_in_one() {
    let before = day(&[status(TODAY - 1, false, true), trade(80, 4)]);
    let waiting = waiting(before, &[(3, trade(81, 1)), (11, trade(82, 2))]);
    let figures = snapshot(TODAY, 5, Some([81, 82, 81]));
    let restored = waiting.restored(&figures, 20, 10, false).unwrap();
    assert_eq!((restored.session.trades, restored.session.volume), (1, 2));
}

#[test]
fn a_lost_reset_of_the_same_date_shows_in_the_figures_of_the_snapshot() {
    let before = day(&[status(TODAY, false, true), trade(80, 4)]);
    let after = waiting(before, &[(11, trade(90, 4))]);
    for (figures, trades) in [
        (snapshot(TODAY, 4, Some([90, 90, 90])), 1),
        (snapshot(TODAY, 8, Some([80, 90, 80])), 2),
    ] {
        let restored = after.restored(&figures, 20, 10, true).unwrap();
        assert_eq!(restored.session.trades, trades);
        let session = restored.session;
        assert_eq!(session.volume, restored.statistics.volume);
    }
}

/// What a status has begun between the snapshot and now was not begun again.
#[test]
fn a_status_behind_a_snapshot_begins_its_session_once() {
    let before = day(&[status(TODAY - 1, false, true), trade(80, 4)]);
    let events = [
        (11, trade(90, 1)),
        (12, status(TODAY, false, false)),
        (13, trade(91, 1)),
    ];
    let waiting = waiting(before, &events);
    // The session began before the snapshot, in what was lost, or with the status.
    for (date, figures, expected) in [
        (TODAY, None, [90, 91, 90]),
        (TODAY - 1, Some([80, 80, 80]), [91, 91, 91]),
    ] {
        let volume = figures.map_or(0, |_| 4);
        let figures = snapshot(date, volume, figures);
        let restored = waiting.restored(&figures, 10, 5, false).unwrap();
        assert_eq!(range(&restored), expected.map(Some));
        assert_eq!(restored.trade_date, Some(TODAY));
    }
}

#[test]
fn a_new_session_keeps_the_side_of_the_last_trade() {
    let today = day(&[trade(80, 1), status(TODAY, true, true)]);
    assert_eq!((today.session.condition, today.session.open), (1, None));
    assert_eq!(today.statistics.last, Some((80, 1)));
}

/// A lost trade was shown with the side of the one before it.
#[test]
fn the_last_trade_of_a_snapshot_has_no_side_unless_it_is_the_known_one() {
    let before = day(&[trade(80, 1)]);
    let waiting = Waiting::new(before);
    for (last, volume, expected) in [
        (Some((80, 1)), 1, (Some((80, 1)), 1)),
        (None, 1, (Some((80, 1)), 1)),
        (Some((81, 2)), 3, (Some((81, 2)), 0)),
        (None, 3, (None, 0)),
    ] {
        let figures = SnapshotFigures {
            last,
            ..snapshot(TODAY, volume, None)
        };
        let restored = waiting.restored(&figures, 10, 5, false).unwrap();
        let shown = (restored.statistics.last, restored.session.condition);
        assert_eq!(shown, expected);
    }
}

/// A snapshot that says nothing of the last trade erased it.
#[test]
fn a_last_trade_since_the_loss_stays_with_a_snapshot_without_a_trade() {
    for (at, expected) in [(7, Some((81, 1))), (3, None)] {
        let waiting = waiting(day(&[trade(80, 1)]), &[(at, trade(81, 1))]);
        let figures = snapshot(TODAY, 5, None);
        let restored = waiting.restored(&figures, 10, 5, false).unwrap();
        assert_eq!(restored.statistics.last, expected, "{at}");
    }
}

#[test]
fn a_settlement_is_the_reference_of_the_next_session() {
    let mut today = day(&[
        defined(79, Some(TODAY - 1)),
        status(TODAY, false, true),
        settlement(81, None),
    ]);
    assert_eq!(settlements(&today), (Some(79), Some(81)));
    // Repeated by each loop of the definition feed.
    today.apply(&Event::Definition(
        Settlement {
            price: 79,
            date: Some(TODAY - 1),
        },
        false,
    ));
    today.apply(&status(TODAY + 1, false, true));
    assert_eq!(settlements(&today), (Some(81), None));
    // A correction of the day before.
    today.apply(&settlement(82, Some(TODAY)));
    assert_eq!(settlements(&today), (Some(82), None));
    today.apply(&settlement(70, Some(TODAY - 1)));
    assert_eq!(settlements(&today), (Some(82), None));
}

/// A settlement of the day itself became the reference if the definition came later.
#[test]
fn a_settlement_of_the_day_is_no_reference_of_that_day() {
    for (date, expected) in [
        (Some(TODAY), (None, Some(81))),
        (Some(TODAY - 1), (Some(81), None)),
        // It is of either day.
        (None, (None, Some(81))),
    ] {
        let figures = SnapshotFigures {
            settlement: Some(Settlement { price: 81, date }),
            ..snapshot(TODAY, 0, None)
        };
        let waiting = Waiting::new(Day::default());
        let mut restored = waiting.restored(&figures, 10, 5, false).unwrap();
        assert_eq!(settlements(&restored), expected);
        // The first definition is no newer than what has come of its date.
        let old = Settlement {
            price: 79,
            date: Some(TODAY - 1),
        };
        restored.apply(&Event::Definition(old, date != Some(TODAY - 1)));
        let reference = expected.0.or(Some(79));
        assert_eq!(restored.statistics.reference, reference);
        restored.apply(&status(TODAY + 1, true, true));
        let last = expected.1.or(reference);
        assert_eq!(restored.statistics.reference, last);
    }
}

/// A settlement of the new day became its reference, although that of the day before was known.
#[test]
fn after_a_lost_beginning_the_known_settlement_of_the_day_before_is_the_reference() {
    let yesterday = day(&[
        defined(79, Some(TODAY - 2)),
        status(TODAY - 1, false, true),
        settlement(81, Some(TODAY - 1)),
    ]);
    for date in [Some(TODAY), None] {
        let figures = SnapshotFigures {
            settlement: Some(Settlement { price: 82, date }),
            ..snapshot(TODAY, 0, None)
        };
        let waiting = Waiting::new(yesterday);
        let mut restored = waiting.restored(&figures, 10, 5, false).unwrap();
        assert_eq!(settlements(&restored), (Some(81), Some(82)));
        restored.apply(&defined(81, date.map(|date| date - 1)));
        assert_eq!(settlements(&restored), (Some(81), Some(82)));
        restored.apply(&status(TODAY + 1, false, true));
        assert_eq!(restored.statistics.reference, Some(82));
    }
}

/// The settlement of the day before was lost with the beginning of the session: that of the day
/// before it was shown.
#[test]
fn a_lost_settlement_leaves_no_reference_until_another_definition() {
    let yesterday = day(&[defined(79, Some(TODAY - 2)), status(TODAY - 1, false, true)]);
    let figures = SnapshotFigures {
        settlement: Some(Settlement {
            price: 82,
            date: Some(TODAY),
        }),
        ..snapshot(TODAY, 0, None)
    };
    let waiting = Waiting::new(yesterday);
    let mut restored = waiting.restored(&figures, 10, 5, false).unwrap();
    assert_eq!(settlements(&restored), (None, Some(82)));
    let old = Settlement {
        price: 79,
        date: Some(TODAY - 2),
    };
    restored.apply(&Event::Definition(old, false));
    assert_eq!(restored.statistics.reference, None);
    restored.apply(&defined(81, Some(TODAY - 1)));
    assert_eq!(settlements(&restored), (Some(81), Some(82)));
    // Nothing was lost but the beginning: there was no settlement.
    let complete = waiting.restored(&figures, 10, 5, true).unwrap();
    assert_eq!(settlements(&complete), (Some(79), Some(82)));
}

#[test]
fn a_settlement_since_the_loss_is_of_the_session_that_began_in_it() {
    let yesterday = day(&[
        defined(79, Some(TODAY - 2)),
        status(TODAY - 1, false, true),
        settlement(81, None),
    ]);
    let waiting = waiting(yesterday, &[(6, settlement(82, None))]);
    let restored = waiting
        .restored(&snapshot(TODAY, 0, None), 10, 5, true)
        .unwrap();
    assert_eq!(settlements(&restored), (Some(81), Some(82)));
}

#[test]
fn a_snapshot_of_before_the_oldest_event_that_is_kept_is_too_old() {
    let mut waiting = Waiting::new(Day::default());
    for sequence in 0..EVENTS_MAX as u64 + 1 {
        waiting.push(sequence, trade(80, 1));
    }
    let figures = snapshot(TODAY, 1, None);
    let half = EVENTS_MAX as u64 / 2;
    assert!(waiting.restored(&figures, half - 2, 0, false).is_none());
    let restored = waiting.restored(&figures, half, 0, false).unwrap();
    assert_eq!(restored.statistics.volume, half + 1);
}

/// It was the proof that nothing was settled on the day before, whose settlement was lost.
#[test]
fn a_snapshot_without_a_settlement_leaves_the_reference_open() {
    let today = day(&[defined(79, Some(TODAY - 1)), status(TODAY, false, true)]);
    let repeated = Settlement {
        price: 79,
        date: Some(TODAY - 1),
    };
    let begins = [(11, status(TODAY + 1, true, false))];
    let after = waiting(today, &begins)
        .restored(&snapshot(TODAY + 1, 1, None), 20, 10, false)
        .unwrap();
    // The next session begins behind the snapshot, or after the recovery.
    let before = snapshot(TODAY, 1, None);
    let behind = waiting(today, &[(21, status(TODAY + 1, false, false))])
        .restored(&before, 20, 10, false)
        .unwrap();
    let mut later = Waiting::new(today)
        .restored(&before, 20, 10, false)
        .unwrap();
    assert_eq!(settlements(&later), (Some(79), None));
    later.apply(&status(TODAY + 1, false, true));
    for mut day in [after, behind, later] {
        assert_eq!(settlements(&day), (None, None));
        day.prove();
        day.apply(&Event::Definition(repeated, false));
        assert_eq!(day.statistics.reference, None);
        day.apply(&defined(81, Some(TODAY)));
        assert_eq!(day.statistics.reference, Some(81));
    }
    // A snapshot with that of the day before it, or a settlement that was known.
    for (known, shown, expected) in [(None, Some(79), 79), (Some(80), None, 80)] {
        let mut day = today;
        known.map(|price| day.apply(&settlement(price, None)));
        let figures = SnapshotFigures {
            settlement: shown.map(|price| Settlement {
                price,
                date: Some(TODAY - 1),
            }),
            ..snapshot(TODAY, 1, None)
        };
        let restored = Waiting::new(day).restored(&figures, 20, 10, false);
        let mut day = restored.unwrap();
        day.apply(&status(TODAY + 1, false, true));
        assert_eq!(day.statistics.reference, Some(expected));
    }
}

/// That of two days before was the reference, although the one of the day before was lost.
#[test]
fn after_a_loss_only_the_settlement_of_the_weekday_before_is_the_reference() {
    for known in [None, Some(TODAY - 3), Some(TODAY - 1)] {
        for own in [None, Some(85)] {
            let mut today = day(&[status(TODAY, false, true)]);
            if known.is_some() {
                today.apply(&defined(79, known));
            }
            let events = [(11, settlement(70, Some(TODAY - 2)))];
            let figures = SnapshotFigures {
                settlement: own.map(|price| Settlement {
                    price,
                    date: Some(TODAY),
                }),
                ..snapshot(TODAY, 1, None)
            };
            for events in [&events[..], &[]] {
                let restored = waiting(today, events).restored(&figures, 20, 10, false);
                let mut day = restored.unwrap();
                let expected = known.filter(|date| *date == TODAY - 1).map(|_| 79);
                assert_eq!(settlements(&day), (expected, own), "{known:?}");
                if known == Some(TODAY - 1) {
                    continue;
                }
                day.apply(&settlement(71, Some(TODAY - 2)));
                assert_eq!(day.statistics.reference, None, "{known:?}");
                day.apply(&settlement(82, Some(TODAY - 1)));
                assert_eq!(day.statistics.reference, Some(82));
            }
        }
    }
}

/// It was left out, because one of the same date may be older.
#[test]
fn another_definition_of_the_same_date_corrects_the_reference() {
    let mut today = day(&[
        defined(79, Some(TODAY - 2)),
        status(TODAY - 1, false, true),
        settlement(81, None),
        status(TODAY, true, true),
    ]);
    assert_eq!(today.statistics.reference, Some(81));
    today.apply(&defined(70, Some(TODAY - 2)));
    assert_eq!(today.statistics.reference, Some(81));
    today.apply(&defined(88, Some(TODAY - 1)));
    assert_eq!(today.statistics.reference, Some(88));
}
