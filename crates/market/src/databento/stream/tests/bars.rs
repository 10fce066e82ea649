//! Bars that lack trades of before the client's first record are not sent.

use super::starts::Hub;
use super::*;
use tidewire_feed::wire::Figures;

const LARGE: usize = 1 << 18;

/// Returns instrument, start, open and volume of each bar.
fn bars(told: &[Vec<u8>]) -> Vec<(u32, u64, u64, u64)> {
    let bar = |record: &Vec<u8>| {
        let [start_ns, open, volume] = [8, 16, 48].map(|at| number(record, at));
        (id_of(record), start_ns, open, volume)
    };
    told.iter().map(bar).collect()
}

/// Defines a symbol of the source.
fn define(feed: &mut Feed, symbol: u32, name: &str) {
    let mut batch = feed.ingest.begin(RECEIVED);
    let definition = Definition::new(symbol, Name::new(name).unwrap());
    batch.definition(
        1,
        &Definition {
            source: 2,
            ..definition
        },
    );
    batch.finish();
}

/// It came without its first trade, as the last one by arrival was of the bar before.
#[test]
fn an_open_bar_is_not_sent_to_who_joins_behind_a_late_trade_of_an_earlier_bar() {
    let tenth = SECOND / 10;
    for (symbols, late_ns, source) in [
        ("ALL_SYMBOLS", T + 99 * tenth, 2),
        ("ALL_SYMBOLS", 0, 2),
        ("A", T + 99 * tenth, 9),
        ("A@XNAS", T + 99 * tenth, 9),
    ] {
        let mut feed = Feed::new(&["A"]);
        if source == 9 {
            feed.trade(0, 2, T, 90);
        }
        feed.trade(0, source, T, 90);
        feed.trade(0, 2, T + 105 * tenth, 97);
        feed.trade(0, source, late_ns, 96);
        let mut live = feed.session(&[&format!("schema=ohlcv-1s|symbols={symbols}")]);
        for at in [108, 120, 130] {
            feed.trade(0, 2, T + at * tenth, 95);
        }
        let told = bars(&live.records(&feed.market));
        let starts: Vec<u64> = told.iter().map(|bar| bar.1).collect();
        assert_eq!(starts, [T + 12 * SECOND], "{symbols} {late_ns}");
    }
}

/// A hub that began behind a late trade of the hub before it knew only the time of that one, and
/// sent the bar of the newest one without it.
#[test]
fn an_open_bar_is_not_sent_at_a_hub_that_begins_behind_a_late_trade() {
    let tenth = SECOND / 10;
    for symbols in ["ALL_SYMBOLS", "A"] {
        let mut feed = Feed::new(&["A"]);
        feed.send(Message::LastValue(LastValue {
            source: 2,
            source_time_ns: T + 99 * tenth,
            last: 96,
            last_size: 2,
            volume: 3,
            figures: Some(Figures {
                trades: 2,
                traded_until_ns: T + 105 * tenth,
                ..Figures::default()
            }),
            ..LastValue::new(0)
        }));
        let mut live = feed.session(&[&format!("schema=ohlcv-1s|symbols={symbols}")]);
        for at in [108, 120, 130] {
            feed.trade(0, 2, T + at * tenth, 95);
        }
        let told = bars(&live.records(&feed.market));
        let starts: Vec<u64> = told.iter().map(|bar| bar.1).collect();
        assert_eq!(starts, [T + 12 * SECOND], "{symbols}");
    }
}

/// A hub behind another one sent the bar of the first venue without the trades that the symbol had
/// had under its own name.
#[test]
fn a_venue_that_a_hub_before_this_one_finds_lacks_the_trades_of_before_for_who_joins() {
    for symbols in ["ALL_SYMBOLS", "A@XNAS"] {
        let mut feed = Feed::new(&["A"]);
        feed.trade(0, 2, T + 10 * SECOND, 97);
        let mut live = feed.session(&[&format!("schema=ohlcv-1s|symbols={symbols}")]);
        define(&mut feed, 1, "A@XNAS");
        feed.send(Message::LastValue(LastValue {
            source: 2,
            source_time_ns: T + 9 * SECOND,
            last: 97,
            last_size: 1,
            volume: 1,
            ..LastValue::new(1)
        }));
        for at in [10, 12, 13] {
            feed.trade(1, 2, T + at * SECOND + 1, 95);
        }
        let own = feed.id("A@XNAS");
        let told = bars(&live.records(&feed.market));
        assert_eq!(told, [(own, T + 12 * SECOND, 95, 1)], "{symbols}");
    }
}

/// A recording at its own speed gave the definition of the venue before the symbol was one of
/// several venues, and the bar came in two parts.
#[test]
fn a_bar_goes_on_at_a_venue_whose_definition_comes_before_the_consolidated_value() {
    let mut feed = Feed::new(&["A"]);
    feed.ingest.name_venue(CONSOLIDATED, "consolidated");
    let mut live = feed.session(&["schema=ohlcv-1s|symbols=ALL_SYMBOLS"]);
    let mut told = Vec::new();
    feed.trade(0, 2, T + 10 * SECOND, 97);
    told.extend(live.records(&feed.market));
    define(&mut feed, 1, "A@XNAS");
    told.extend(live.records(&feed.market));
    for (symbol, source) in [(1, 2), (0, CONSOLIDATED)] {
        feed.send(Message::LastValue(LastValue {
            source,
            source_time_ns: T + 10 * SECOND,
            last: 97,
            last_size: 1,
            volume: 1,
            ..LastValue::new(symbol)
        }));
        told.extend(live.records(&feed.market));
    }
    for at in [10, 12] {
        feed.trade(1, 2, T + at * SECOND + 1, 95);
        told.extend(live.records(&feed.market));
    }
    let own = feed.id("A@XNAS");
    assert_eq!(bars(&told), [(own, T + 10 * SECOND, 97, 2)]);
}

/// A client that came back before the source got nothing of the past, without a word.
#[test]
fn symbols_that_no_source_has_defined_since_a_restart_have_their_past() {
    for symbols in ["ALL_SYMBOLS", "A,B"] {
        let mut hub = Hub::new("undefined", LARGE, true);
        for place in 0..10 {
            hub.feed.trade(0, 2, T + place, 50);
            hub.feed.trade(1, 2, T + place, 60);
        }
        hub.restart_without_symbols(LARGE);
        let line = format!("schema=trades|symbols={symbols}|start=0");
        let (mut live, told) = hub.replayed(&[&line]);
        assert_eq!(told.len(), 20, "{symbols}");
        for (symbol, name) in ["A", "B"].into_iter().enumerate() {
            define(&mut hub.feed, symbol as u32, name);
            hub.feed.trade(symbol as u32, 2, T + SECOND, 70);
        }
        let told = live.records(&hub.feed.market);
        let expected = ["A", "B"].map(|name| (hub.feed.id(name), T + SECOND, 70, None));
        let told: Vec<_> = told.iter().map(|record| shape(record)).collect();
        assert_eq!(told, expected, "{symbols}");
        hub.settle();
    }
}

/// The part of before the restart and the one behind it were two bars.
#[test]
fn a_bar_over_a_restart_is_whole_for_who_comes_back_before_the_source() {
    let mut hub = Hub::new("over", LARGE, true);
    hub.feed.trade(0, 2, T + 1, 50);
    hub.feed.trade(0, 2, T + 2, 50);
    hub.restart_without_symbols(LARGE);
    let line = "schema=ohlcv-1h|symbols=ALL_SYMBOLS|start=";
    let (mut whole, told) = hub.replayed(&[&format!("{line}0")]);
    assert!(told.is_empty(), "it is open");
    let (mut part, _) = hub.replayed(&[&format!("{line}{}", T + 2)]);
    define(&mut hub.feed, 0, "A");
    for at in [1, 2, 7_200] {
        hub.feed.trade(0, 2, T + at * SECOND, 60);
    }
    let hour = T - T % (3_600 * SECOND);
    let told = bars(&whole.records(&hub.feed.market));
    assert_eq!(told, [(hub.feed.id("A"), hour, 50, 4)]);
    assert_eq!(bars(&part.records(&hub.feed.market)), []);
    hub.settle();
}

/// A client without a start got the trades of after the restart as a whole bar.
#[test]
fn the_bar_in_which_a_restart_is_comes_to_no_client_that_has_only_a_part_of_it() {
    let mut hub = Hub::new("part", LARGE, true);
    hub.feed.trade(0, 2, T + 1, 50);
    hub.restart(LARGE);
    let mut live = hub.feed.session(&["schema=ohlcv-1s|symbols=ALL_SYMBOLS"]);
    for at in [2, SECOND, 2 * SECOND] {
        hub.feed.trade(0, 2, T + at, 60);
    }
    let told = bars(&live.records(&hub.feed.market));
    assert_eq!(told, [(hub.feed.id("A"), T + SECOND, 60, 1)]);
    hub.settle();
}
