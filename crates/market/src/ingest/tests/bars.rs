//! Bars: whose clock closes them, and which of them may lack trades.

use super::*;
use crate::bars::Interval;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

fn trade_at(symbol: u32, source: u16, second: u64) -> Message {
    Message::Trade(TradeMessage {
        symbol,
        source,
        source_time_ns: START + second * SECOND,
        price: 1_000_000_000,
        size: 1,
        ..TradeMessage::default()
    })
}

fn quote_at(symbol: u32, source: u16, second: u64) -> Message {
    Message::Quote(QuoteMessage {
        symbol,
        source,
        source_time_ns: START + second * SECOND,
        bid: 1,
        ask: 2,
        ..QuoteMessage::default()
    })
}

fn publisher(market: &Arc<Market>, source: u32, names: &[&str]) -> Ingest {
    let mut ingest = Ingest::new(market.clone(), source, "test");
    define(&mut ingest, names);
    ingest
}

fn define(ingest: &mut Ingest, names: &[&str]) {
    let mut batch = ingest.begin(1);
    for (number, name) in names.iter().enumerate() {
        batch.definition(1, &definition(number as u32, name));
    }
    batch.finish();
}

/// Asks for the bars of a second.
fn ask(market: &Market, name: &str) {
    let topic = market.board.find(name.as_bytes()).unwrap();
    market.bars.bars_of(&topic, Interval::Second);
}

/// Returns the second at which the newest bar begins, its trades, and whether it is final and
/// partial.
fn bar(market: &Market, name: &str) -> (u64, u64, bool, bool) {
    let topic = market.board.find(name.as_bytes()).unwrap();
    let state = market.bars.bars_of(&topic, Interval::Second).state.lock();
    let shown = state.shown().unwrap();
    let second = (shown.bar.start_ns - START) / SECOND;
    (second, shown.bar.trades, shown.is_final, shown.is_partial)
}

/// The bars of the session before stayed open until the symbol's next trade.
#[test]
fn the_clock_of_a_publishers_next_session_closes_its_bars() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = publisher(&market, 1, &["A", "B"]);
    ask(&market, "A");
    send(&mut old, &[trade_at(0, 0, 1)]);
    old.lose(2);
    drop(old);
    let mut new = publisher(&market, 2, &["B", "A"]);
    send(&mut new, &[quote_at(0, 0, 1)]);
    assert_eq!(bar(&market, "A"), (1, 1, false, false));
    send(&mut new, &[trade_at(1, 0, 1)]);
    assert_eq!(bar(&market, "A"), (1, 2, false, false), "it goes on");
    send(&mut new, &[quote_at(0, 0, 9)]);
    assert_eq!(bar(&market, "A"), (1, 2, true, false));
}

/// A connection that goes on with a session did not know its open bars.
#[test]
fn a_connection_that_goes_on_with_a_session_closes_its_bars() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut old = publisher(&market, 1, &["A", "B"]);
    ask(&market, "A");
    send(&mut old, &[trade_at(0, 0, 1)]);
    old.lose(2);
    let state = old.take_state();
    drop(old);
    let mut new = Ingest::new(market.clone(), 2, "test");
    let mut batch = new.begin(3);
    batch.resume(state);
    batch.message(1, &quote_at(1, 0, 9));
    batch.finish();
    assert_eq!(bar(&market, "A"), (1, 1, true, false));
}

#[test]
fn a_publisher_closes_the_bars_of_the_venues_that_it_had() {
    let market = Market::of_one_lane(MarketConfig::default());
    let names = ["A", "B"];
    let mut old = publisher(&market, 1, &names);
    for (number, name) in [(2, "XNAS"), (9, "XNYS")] {
        old.name_venue(number, name);
    }
    send(&mut old, &[quote_at(0, 2, 0), quote_at(0, 9, 0)]);
    let all = ["A", "A@XNAS", "A@XNYS"];
    all.iter().for_each(|name| ask(&market, name));
    send(&mut old, &[trade_at(0, 2, 1), trade_at(0, 9, 1)]);
    old.lose(2);
    drop(old);
    let mut new = publisher(&market, 2, &names);
    send(&mut new, &[quote_at(1, 0, 9)]);
    for (name, trades) in all.iter().zip([2, 1, 1]) {
        assert_eq!(bar(&market, name), (1, trades, true, false), "{name}");
    }
}

/// A source that only defines a symbol closed the bars of the one that trades it.
#[test]
fn another_sources_clock_closes_no_bar() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = publisher(&market, 1, &["A"]);
    ask(&market, "A");
    send(&mut one, &[trade_at(0, 0, 1)]);
    let mut two = publisher(&market, 2, &["A", "B"]);
    for _ in 0..100 {
        define(&mut two, &["A", "B"]);
    }
    send(&mut two, &[quote_at(1, 0, 9)]);
    assert_eq!(bar(&market, "A"), (1, 1, false, false));
}

/// Quotes, and trades of earlier intervals, made the first bar partial.
#[test]
fn the_first_bar_is_partial_if_its_interval_had_a_trade_before() {
    let at = |before: &[Message], second| {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = publisher(&market, 1, &["A"]);
        send(&mut ingest, before);
        ask(&market, "A");
        send(&mut ingest, &[trade_at(0, 0, second)]);
        let first = bar(&market, "A").3;
        send(&mut ingest, &[trade_at(0, 0, second + 1)]);
        assert!(!bar(&market, "A").3, "the next one is whole");
        first
    };
    assert!(!at(&[], 1));
    assert!(!at(&[quote_at(0, 0, 1)], 1));
    assert!(at(&[trade_at(0, 0, 1)], 1));
    assert!(!at(&[trade_at(0, 0, 1), quote_at(0, 0, 2)], 2));
}

/// A bar without the trades that were lost looked like a whole one.
#[test]
fn a_bar_is_partial_after_messages_were_lost() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market, 1, &["A"]);
    ask(&market, "A");
    send(&mut ingest, &[trade_at(0, 0, 1)]);
    let mut batch = ingest.begin(2);
    batch.values_doubtful();
    batch.values_lost();
    batch.finish();
    assert!(
        !bar(&market, "A").3,
        "no message is known to be missing in it"
    );
    send(&mut ingest, &[quote_at(0, 0, 1)]);
    assert_eq!(bar(&market, "A"), (1, 1, false, true));
    send(&mut ingest, &[trade_at(0, 0, 2)]);
    assert_eq!(bar(&market, "A"), (2, 1, false, false));
}

/// A hub that began behind another one had whole bars, without the trades of before its start.
#[test]
fn a_bar_is_partial_if_a_snapshot_has_trades_of_its_interval() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market, 1, &["A"]);
    ask(&market, "A");
    let record = |volume, second| LastValue {
        last: 1_000_000_000,
        last_size: 1,
        volume,
        source_time_ns: START + second * SECOND,
        ..LastValue::new(0)
    };
    let mut batch = ingest.begin(2);
    batch.snapshot_record(1, &record(5, 1));
    batch.finish();
    send(&mut ingest, &[trade_at(0, 0, 1)]);
    assert_eq!(bar(&market, "A"), (1, 1, false, true));
    send(&mut ingest, &[trade_at(0, 0, 2)]);
    let mut batch = ingest.begin(3);
    batch.snapshot_record(1, &record(7, 2));
    batch.finish();
    assert_eq!(bar(&market, "A"), (2, 1, false, false), "it has all trades");
    let mut batch = ingest.begin(3);
    batch.snapshot_record(1, &record(9, 2));
    batch.finish();
    assert_eq!(bar(&market, "A"), (2, 1, false, true));
}
