//! Bars that become partial between two trades: their subscribers are told.

use super::bars::{START, quote_at, trade_at};
use super::seconds::{sent, subscribe, under};
use super::*;

const SECOND: u64 = 1_000_000_000;
const BARS: &str = "bar:1m:A";

/// Returns a whole value of this volume, with a last trade one second behind the start.
fn value(volume: u64) -> LastValue {
    LastValue {
        last: 1_000_000_000,
        last_size: 1,
        volume,
        source_time_ns: START + SECOND,
        ..LastValue::new(0)
    }
}

/// Returns `partial`, `final` and the number of trades of each message about the bars.
fn told(news: &(Publication, u64), name: &str) -> Vec<[u64; 3]> {
    let number = |text: &str, field: &str| {
        let (_, rest) = text.split_once(&format!("\"{field}\":")).unwrap();
        let end = rest.find([',', '}']).unwrap();
        rest[..end].parse().unwrap()
    };
    let texts = under(news, name);
    let fields = texts.iter().map(|text| {
        let number = |field| number(text, field);
        [number("partial"), number("final"), number("trades")]
    });
    fields.collect()
}

/// Returns a source of the symbol `A`, to whose bars a client subscribes, with a trade in an open
/// bar.
fn traded(market: &Arc<Market>) -> Ingest {
    let mut ingest = source(market, "feed", 0, "A");
    subscribe(market, BARS.as_bytes());
    assert_eq!(
        told(&sent(&mut ingest, &[trade_at(0, 0, 1)]), BARS),
        [[0, 0, 1]]
    );
    ingest
}

/// They heard of it with the bar's next trade, or with its end.
#[test]
fn a_whole_value_that_makes_a_bar_partial_is_told_once() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = traded(&market);
    let news = sent(&mut ingest, &[Message::LastValue(value(5))]);
    assert_eq!(told(&news, BARS), [[1, 0, 1]]);
    let news = sent(&mut ingest, &[Message::LastValue(value(6))]);
    assert!(told(&news, BARS).is_empty(), "it is partial already");
    let news = sent(&mut ingest, &[trade_at(0, 0, 2)]);
    assert_eq!(told(&news, BARS), [[1, 0, 2]]);
    let news = sent(&mut ingest, &[quote_at(0, 0, 70)]);
    assert_eq!(told(&news, BARS), [[1, 1, 2]]);
    // A bar that is closed does not change.
    let news = sent(&mut ingest, &[Message::LastValue(value(9))]);
    assert!(told(&news, BARS).is_empty());
}

#[test]
fn a_snapshot_that_makes_a_bar_partial_is_told() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = traded(&market);
    let mut batch = ingest.begin(2);
    batch.snapshot_record(1, &value(5));
    assert_eq!(told(&batch.finish(), BARS), [[1, 0, 1]]);
}

#[test]
fn a_loss_that_makes_a_bar_partial_is_told() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = traded(&market);
    let mut batch = ingest.begin(2);
    batch.values_doubtful();
    batch.values_lost();
    assert!(told(&batch.finish(), BARS).is_empty());
    let news = sent(&mut ingest, &[quote_at(0, 0, 2)]);
    assert_eq!(told(&news, BARS), [[1, 0, 1]], "with the next quote");
    // What a hub before this one has lost.
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = traded(&market);
    let lost = Certainty {
        source_time_ns: START + 2 * SECOND,
        flags: Certainty::LOST,
        ..Certainty::default()
    };
    let news = sent(&mut ingest, &[Message::Certainty(lost)]);
    assert_eq!(told(&news, BARS), [[1, 0, 1]]);
}

/// The symbol's bars lack what those of its venue lack.
#[test]
fn a_bar_that_becomes_partial_is_told_under_each_of_its_names() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = named_source(&market, "one", "V1");
    subscribe(&market, BARS.as_bytes());
    sent(&mut ingest, &[trade_at(0, 1, 1)]);
    subscribe(&market, b"bar:1m:A@V1");
    let whole = |volume| {
        let record = value(volume);
        Message::LastValue(LastValue {
            source: 1,
            ..record
        })
    };
    let news = sent(&mut ingest, &[whole(5)]);
    for name in [BARS, "bar:1m:A@V1"] {
        assert_eq!(told(&news, name), [[1, 0, 1]], "{name}");
    }
    let mut other = source(&market, "two", 0, "A");
    other.begin(1).venue(&venue(2, "V2"));
    sent(&mut other, &[trade_at(0, 2, 61)]);
    sent(&mut ingest, &[trade_at(0, 1, 62)]);
    let news = sent(&mut ingest, &[whole(50)]);
    for (name, trades) in [(BARS, 2), ("bar:1m:A@V1", 1)] {
        assert_eq!(told(&news, name), [[1, 0, trades]], "{name}");
    }
}
