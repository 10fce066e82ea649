//! Replays over a restart of the hub: what happened before it is not what happened at time 0.

use super::starts::{Hub, seen};
use super::*;

const LARGE: usize = 1 << 18;

/// The hub's begin emptied the quotes of intervals that had ended long before it.
#[test]
fn an_interval_before_a_restart_keeps_its_quote() {
    let later = T + 3_600 * SECOND;
    for begins_with_a_trade in [false, true] {
        let mut hub = Hub::new("interval", LARGE, true);
        hub.feed.quote(0, T + SECOND, 50, 1);
        hub.feed.quote(1, T + SECOND, 60, 1);
        hub.feed.quote(0, T + 2 * SECOND, 51, 1);
        hub.restart(LARGE);
        match begins_with_a_trade {
            true => hub.feed.trade(0, 2, later, 7),
            false => hub.feed.quote(0, later, 52, 1),
        }
        hub.feed.quote(1, later, 62, 1);
        hub.feed.quote(0, later + 5 * SECOND, 53, 1);
        hub.settle();
        let (a, b) = (hub.feed.id("A"), hub.feed.id("B"));
        let none = i64::MAX;
        for start in [0, T + SECOND / 2, T + 2 * SECOND] {
            let line = format!("schema=bbo-1s|symbols=A,B|start={start}");
            let told = hub.replay(&[&line]);
            let told = told.iter().map(|record| seen(record));
            let mut told: Vec<_> = told.map(|one| (one.2, one.0, one.5)).collect();
            told.sort_unstable();
            let first = if begins_with_a_trade { none } else { 52 };
            let mut expected = vec![
                (T + 2 * SECOND, a, 50),
                (T + 2 * SECOND, b, 60),
                (T + 3 * SECOND, a, 51),
                (later + SECOND, a, first),
                (later + SECOND, b, 62),
                (later + 6 * SECOND, a, 53),
            ];
            if start == T + 2 * SECOND {
                expected.drain(..2);
            }
            assert_eq!(told, expected, "{start} {begins_with_a_trade}");
        }
    }
}

/// It came with the time 0, and to a client with a start it did not come.
#[test]
fn the_record_that_empties_a_quote_has_the_time_of_the_first_message_after_the_restart() {
    let later = T + 3_600 * SECOND;
    for journal_messages in [64, LARGE] {
        let mut hub = Hub::new("empties", journal_messages, true);
        hub.feed.quote(0, T + SECOND, 50, 1);
        hub.restart(journal_messages);
        hub.feed.quote(0, later, 52, 1);
        for _ in 0..100 {
            hub.feed.quote(1, later + SECOND, 60, 1);
        }
        hub.settle();
        for start in [0, T + SECOND, T + 60 * SECOND, later] {
            let line = format!("schema=mbp-1|symbols=A|start={start}");
            let told = hub.replay(&[&line]);
            let told: Vec<_> = told.iter().map(|record| shape(record)).collect();
            let told: Vec<_> = told.iter().map(|one| (one.1, one.3.unwrap())).collect();
            let none = i64::MAX as u64;
            let mut expected = vec![(T + SECOND, 50), (later, none), (later, 52)];
            if start > T + SECOND {
                expected.remove(0);
            }
            assert_eq!(told, expected, "{start} {journal_messages}");
        }
    }
}
