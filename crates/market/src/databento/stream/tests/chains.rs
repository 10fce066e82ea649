//! Records of a hub that follows another one, or plays its recording.

use super::starts::seen_in;
use super::*;
use tidewire_feed::wire::LastValue;

/// Gives symbols 0 to 2: `A` of one venue, with a quote and a trade, which gets a second one.
fn split_upstream(feed: &mut Feed) {
    feed.ingest.name_venue(CONSOLIDATED, "consolidated");
    feed.quote_of(0, 9, T + 1, 50, 1);
    feed.trade(0, 9, T + 2, 5);
    define(feed, 1, "A@XNYS", 9);
    for (symbol, source) in [(1, 9), (0, CONSOLIDATED)] {
        feed.send(Message::LastValue(LastValue {
            source,
            source_time_ns: T + 2,
            bid: 50,
            ask: 100,
            bid_size: 1,
            ask_size: 1,
            bid_orders: 1,
            ask_orders: 1,
            last: 5,
            last_size: 1,
            volume: 1,
            ..LastValue::new(symbol)
        }));
    }
    define(feed, 2, "A@XNAS", 2);
    feed.quote_of(2, 2, T + 3, 60, 1);
    feed.quote_of(0, CONSOLIDATED, T + 3, 60, 1);
    feed.trade(1, 9, T + 4, 7);
    feed.trade(0, CONSOLIDATED, T + 4, 7);
    for second in 1..=2 {
        feed.quote_of(1, 9, T + second * SECOND, 51, 1);
    }
}

fn define(feed: &mut Feed, symbol: u32, name: &str, source: u16) {
    let mut batch = feed.ingest.begin(RECEIVED);
    let name = Name::new(name).unwrap();
    let definition = Definition {
        source,
        ..Definition::new(symbol, name)
    };
    batch.definition(1, &definition);
    batch.finish();
}

/// It came once more as one of `A`, with the prices of both venues.
#[test]
fn an_interval_in_which_a_hub_finds_a_second_venue_comes_once_behind_it() {
    let mut feed = Feed::new(&["A"]);
    split_upstream(&mut feed);
    let told = feed.records(&["schema=bbo-1s|symbols=ALL_SYMBOLS|start=0"]);
    let told = seen_in(&told, T + SECOND);
    let [first, second] = ["A@XNYS", "A@XNAS"].map(|name| feed.id(name));
    let expected = [
        (first, 9, T + 4, 7, 50),
        (second, 2, u64::MAX, i64::MAX, 60),
    ];
    assert_eq!(told, expected);
}

/// The trades of before the second venue were a bar of their own.
#[test]
fn a_bar_in_which_a_hub_finds_a_second_venue_comes_once_behind_it() {
    let mut feed = Feed::new(&["A"]);
    split_upstream(&mut feed);
    let told = feed.records(&["schema=ohlcv-1s|symbols=ALL_SYMBOLS|start=0"]);
    let told: Vec<_> = told
        .iter()
        .map(|record| (id_of(record), number(record, 8), number(record, 48)))
        .collect();
    assert_eq!(told, [(feed.id("A@XNYS"), T, 2)]);
}
