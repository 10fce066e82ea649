//! Replays over a restart of the hub: what happened before it is not what happened at time 0.

use super::starts::{Hub, seen, seen_in};
use super::*;

const LARGE: usize = 1 << 18;

/// Returns the start, the open, the close and the volume of each bar, with its instrument.
fn bars(hub: &Hub, schema: &str, symbols: &str) -> Vec<(u32, u64, u64, u64, u64)> {
    let told = hub.replay(&[&format!("schema={schema}|symbols={symbols}|start=0")]);
    let bar = |record: &Vec<u8>| {
        let [start_ns, open, close, volume] = [8, 16, 40, 48].map(|at| number(record, at));
        (id_of(record), start_ns, open, close, volume)
    };
    told.iter().map(bar).collect()
}

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

/// The bar of the venue that traded first after the restart never came.
#[test]
fn a_bar_over_a_restart_comes_once_for_each_of_several_venues() {
    let mut hub = Hub::new("bars", LARGE, true);
    for (source, price) in [(2, 50), (9, 60), (2, 51), (9, 61)] {
        hub.feed.trade(0, source, T + price as u64, price);
    }
    hub.restart(LARGE);
    for (source, price) in [(2, 52), (2, 53), (9, 62), (2, 54)] {
        hub.feed
            .trade(0, source, T + 600 * SECOND + price as u64, price);
    }
    for source in [2, 9] {
        hub.feed.trade(0, source, T + 7_200 * SECOND, 70);
    }
    hub.settle();
    let [symbol, first, second] = ["A", "A@XNAS", "A@XNYS"].map(|name| hub.feed.id(name));
    let hour = T - T % (3_600 * SECOND);
    let expected = [(first, hour, 50, 54, 5), (second, hour, 60, 62, 3)];
    let all = [(symbol, hour, 50, 54, 8)];
    for symbols in ["ALL_SYMBOLS", "A@XNAS,A@XNYS", "A,A@XNAS,A@XNYS"] {
        let mut told = bars(&hub, "ohlcv-1h", symbols);
        told.sort_unstable();
        let mut expected = expected.to_vec();
        if symbols.starts_with("A,") {
            expected.splice(..0, all);
        }
        assert_eq!(told, expected, "{symbols}");
    }
    assert_eq!(bars(&hub, "ohlcv-1h", "A"), all);
}

/// The part of before the restart was a bar of its own, and the other venue's trades in the one of
/// the symbol were those of the first.
#[test]
fn a_bar_that_ends_before_the_second_venue_is_back_comes_once() {
    let mut hub = Hub::new("ends", LARGE, true);
    for (source, price) in [(2, 50), (9, 60), (9, 61)] {
        hub.feed.trade(0, source, T + price as u64, price);
    }
    hub.restart(LARGE);
    for price in [52, 53] {
        hub.feed.trade(0, 2, T + 600 * SECOND + price as u64, price);
    }
    hub.feed.trade(0, 2, T + 7_200 * SECOND, 70);
    hub.feed.trade(0, 9, T + 7_300 * SECOND, 80);
    hub.feed.trade(0, 2, T + 14_400 * SECOND, 71);
    hub.feed.trade(0, 9, T + 14_400 * SECOND, 81);
    hub.settle();
    let [first, second] = ["A@XNAS", "A@XNYS"].map(|name| hub.feed.id(name));
    let hour = T - T % (3_600 * SECOND);
    for symbols in ["ALL_SYMBOLS", "A@XNAS,A@XNYS"] {
        let mut told = bars(&hub, "ohlcv-1h", symbols);
        told.sort_unstable();
        let expected = [
            (first, hour, 50, 53, 3),
            (first, hour + 7_200 * SECOND, 70, 70, 1),
            (second, hour, 60, 61, 2),
            (second, hour + 7_200 * SECOND, 80, 80, 1),
        ];
        assert_eq!(told, expected, "{symbols}");
    }
}

/// It came as one of `A` and as one of `A@XNAS`.
#[test]
fn an_interval_over_a_restart_comes_once_for_each_venue() {
    let mut hub = Hub::new("twice", LARGE, true);
    for (source, bid) in [(2, 50), (9, 60), (2, 51)] {
        hub.feed.quote_of(0, source, T + bid as u64, bid, 1);
        hub.feed.trade(0, source, T + bid as u64, bid + 5);
    }
    hub.restart(LARGE);
    hub.feed.quote_of(0, 2, T + SECOND / 2, 52, 1);
    hub.feed.trade(0, 2, T + SECOND / 2, 58);
    hub.feed.quote_of(0, 2, T + 10 * SECOND, 53, 1);
    hub.feed.quote_of(0, 9, T + 20 * SECOND, 63, 1);
    hub.feed.quote_of(0, 9, T + 30 * SECOND, 64, 1);
    hub.settle();
    let all = "schema=bbo-1s|symbols=ALL_SYMBOLS|start=0";
    let named = "schema=bbo-1s|symbols=A|start=0";
    for lines in [&[all][..], &[all, named]] {
        let told = hub.replay(lines);
        let told = seen_in(&told, T + SECOND);
        let [symbol, first, second] = ["A", "A@XNAS", "A@XNYS"].map(|name| hub.feed.id(name));
        let mut expected = vec![
            (symbol, 2, T + SECOND / 2, 58, 52),
            // To a client that names `A`, it had the price and the trade of before the restart.
            (first, 2, T + SECOND / 2, 58, 52),
            (second, 9, T + 60, 65, 60),
        ];
        if lines.len() == 1 {
            expected.remove(0);
        }
        assert_eq!(told, expected, "{lines:?}");
    }
}

/// Live clients had it 250 ms after its end, and later ones not before the next message.
#[test]
fn the_last_bar_of_a_live_source_that_is_silent_comes_to_a_later_client_too() {
    let now_ns = tidewire_lane::unix_ns();
    for (age_ns, expected) in [(5 * SECOND, 2), (DAY, 1)] {
        let mut feed = Feed::new(&["A"]);
        for place in [0, 2] {
            let source_time_ns = now_ns - age_ns + place * SECOND;
            let is_history = age_ns == DAY;
            let receive_time_ns = if is_history { now_ns } else { source_time_ns };
            let mut batch = feed.ingest.begin(receive_time_ns);
            batch.message(
                1,
                &Message::Trade(Trade {
                    source: 2,
                    source_time_ns,
                    price: 5,
                    size: 1,
                    ..Trade::default()
                }),
            );
            batch.finish();
        }
        let mut stream = feed.session(&["schema=ohlcv-1s|symbols=A|start=0"]);
        let told = stream.records_at(&feed.market, now_ns);
        assert_eq!(told.len(), expected, "{age_ns}");
    }
}

/// No record said so: the orders of before stayed in the client's book.
#[test]
fn orders_of_before_a_restart_are_cleared_where_the_symbol_begins() {
    let later = T + 3_600 * SECOND;
    for (journal_messages, with_orders) in [(64, true), (LARGE, true), (LARGE, false)] {
        let mut hub = Hub::new("orders", journal_messages, true);
        hub.feed.order(0, 2, T, 1, 50);
        hub.feed.order(0, 2, T + SECOND, 2, 51);
        hub.restart(journal_messages);
        match with_orders {
            true => hub.feed.order(0, 2, later, 3, 52),
            false => hub.feed.trade(0, 2, later, 7),
        }
        for _ in 0..100 {
            hub.feed.quote(1, later + SECOND, 60, 1);
        }
        hub.settle();
        let a = hub.feed.id("A");
        for start in [0, T + SECOND, T + 60 * SECOND] {
            let told = hub.replay(&[&format!("schema=mbo|symbols=A|start={start}")]);
            let mut expected = vec![('A', T, a, 1), ('A', T + SECOND, a, 2), ('R', later, a, 0)];
            let left_out = [0, 1, 3][usize::from(start > T) + usize::from(start > T + SECOND)];
            expected.drain(..left_out);
            expected.extend(with_orders.then_some(('A', later, a, 3)));
            assert_eq!(orders(&told), expected, "{start} {journal_messages}");
        }
    }
}

/// Trades of after the restart had the levels of before it.
#[test]
fn a_book_ends_where_the_symbol_begins_after_a_restart() {
    let later = T + 3_600 * SECOND;
    let mut hub = Hub::new("levels", LARGE, true);
    hub.feed.level(2, Level::CLEAR, 0, 0);
    hub.feed.level(2, Level::SET, 5, 1);
    hub.restart(LARGE);
    hub.feed.trade(0, 2, later, 7);
    hub.settle();
    let told = hub.replay(&["schema=mbp-10|symbols=A|start=0"]);
    let told = told.iter().map(|record| {
        let bid = number(record, 48) as i64;
        (char::from(record[28]), number(record, 8), bid)
    });
    let told: Vec<_> = told.collect();
    let none = i64::MAX;
    assert_eq!(told, [('R', T, none), ('A', T, 5), ('R', later, none)]);
}

/// The halt of before stayed.
#[test]
fn a_state_ends_where_the_symbol_begins_after_a_restart() {
    let later = T + 3_600 * SECOND;
    let mut hub = Hub::new("states", LARGE, true);
    hub.feed.trade(0, 2, T, 7);
    hub.feed.status(2, T + SECOND, TradingState::HALTED);
    hub.restart(LARGE);
    hub.feed.trade(0, 2, later, 7);
    hub.settle();
    let a = hub.feed.id("A");
    for start in [0, T + 60 * SECOND] {
        let told = hub.replay(&[&format!("schema=status|symbols=A|start={start}")]);
        let mut expected = vec![(a, 8, T + SECOND), (a, 0, later)];
        expected.drain(..usize::from(start > T));
        assert_eq!(statuses(&told), expected, "{start}");
    }
}

/// It was that of the run before.
#[test]
fn the_last_trade_of_an_interval_is_none_of_before_a_restart() {
    let later = T + 3_600 * SECOND;
    let mut hub = Hub::new("trade", LARGE, true);
    hub.feed.trade(0, 2, T, 7);
    hub.restart(LARGE);
    hub.feed.quote(0, later, 52, 1);
    hub.feed.quote(0, later + 5 * SECOND, 53, 1);
    hub.settle();
    for start in [0, T + 60 * SECOND, later + 2 * SECOND] {
        let told = hub.replay(&[&format!("schema=bbo-1s|symbols=A|start={start}")]);
        let last = seen(told.last().unwrap());
        assert_eq!((last.2, last.4, last.5), (later + 6 * SECOND, i64::MAX, 53));
    }
}

/// A hub behind another one begins a symbol with all that the first one knows.
#[test]
fn a_symbol_that_begins_with_a_whole_value_has_nothing_else_of_before_a_restart() {
    let later = T + 3_600 * SECOND;
    for journal_messages in [64, LARGE] {
        let mut hub = Hub::new("whole", journal_messages, true);
        hub.feed.order(0, 2, T, 1, 50);
        hub.feed.trade(0, 2, T, 7);
        hub.feed.status(2, T, TradingState::HALTED);
        hub.restart(journal_messages);
        hub.feed.send(Message::LastValue(LastValue {
            source: 2,
            source_time_ns: later,
            bid: 52,
            state: TradingState::OPEN,
            ..LastValue::new(0)
        }));
        for _ in 0..100 {
            hub.feed.quote(1, later + SECOND, 60, 1);
        }
        hub.settle();
        let a = hub.feed.id("A");
        let told = hub.replay(&["schema=mbo|symbols=A|start=0"]);
        assert_eq!(orders(&told), [('A', T, a, 1), ('R', later, a, 0)]);
        let told = hub.replay(&["schema=status|symbols=A|start=0"]);
        assert_eq!(statuses(&told), [(a, 8, T), (a, 7, later)]);
        let told = hub.replay(&["schema=bbo-1s|symbols=A|start=0"]);
        let last = seen(told.last().unwrap());
        assert_eq!((last.2, last.4, last.5), (later + SECOND, i64::MAX, 52));
    }
}

/// A topic that had only repeated its symbol in an earlier run gave each trade of then twice.
#[test]
fn what_only_repeated_its_symbol_before_a_restart_comes_to_those_that_name_it() {
    for has_topic in [false, true] {
        let mut hub = Hub::new("repeated", LARGE, true);
        hub.feed.ingest.name_venue(CONSOLIDATED, "consolidated");
        hub.feed.trade(0, 9, T + 1, 50);
        let board: &dyn tidewire_feed::server::Board = &*hub.feed.market.board;
        assert_eq!(board.find("A@XNYS"), None, "a native client selects it");
        for place in 2..5 {
            hub.feed.trade(0, 9, T + place, 50);
        }
        assert!(hub.feed.market.board.named("A@XNYS").is_some());
        hub.restart(LARGE);
        hub.feed.ingest.name_venue(CONSOLIDATED, "consolidated");
        if has_topic {
            let definition = Definition::new(2, Name::new("A@XNYS").unwrap());
            let mut batch = hub.feed.ingest.begin(RECEIVED);
            batch.definition(1, &definition);
            batch.finish();
        }
        hub.feed.trade(2 * u32::from(has_topic), 9, T + 5, 50);
        hub.settle();
        let told = hub.replay(&["schema=trades|symbols=ALL_SYMBOLS|start=0"]);
        let times: Vec<_> = told.iter().map(|record| shape(record).1 - T).collect();
        assert_eq!(times, [1, 2, 3, 4, 5], "{has_topic}");
    }
}
