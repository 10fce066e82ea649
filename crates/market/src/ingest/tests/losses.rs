//! Lost messages of a session that has given the symbol no value.

use super::*;
use crate::bars::Interval;
use crate::venues::{CONSOLIDATED, CONSOLIDATED_NAME};

const SECOND: u64 = 1_000_000_000;

fn trade_at(source: u16, time_ns: u64) -> Message {
    Message::Trade(TradeMessage {
        source,
        source_time_ns: time_ns,
        price: 1,
        size: 1,
        ..TradeMessage::default()
    })
}

fn lose_messages(ingest: &mut Ingest) {
    let mut batch = ingest.begin(2);
    batch.values_doubtful();
    batch.values_lost();
    batch.finish();
}

/// Returns whether the newest bars of an hour and of a second lack trades.
fn are_partial(market: &Market, name: &str) -> [bool; 2] {
    let topic = market.board.find(name.as_bytes()).unwrap();
    [Interval::Hour, Interval::Second].map(|interval| {
        let bars = market.bars.bars_of(&topic, interval);
        bars.state.lock().is_partial()
    })
}

/// The session that lost messages had defined the symbol and given no value: the next session knew
/// nothing of the loss, and the bars were shown as whole.
#[test]
fn a_loss_of_a_session_without_a_value_makes_the_bars_of_the_next_one_partial() {
    for (loses, is_traded, ends) in [
        (false, true, true),
        (true, true, true),
        (true, false, true),
        (true, true, false),
    ] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut first = source(&market, "feed", 0, "A");
        are_partial(&market, "A");
        if is_traded {
            send(&mut first, &[trade_at(7, SECOND)]);
            assert_eq!(are_partial(&market, "A"), [false; 2]);
        }
        first.lose(2);
        drop(first);
        let mut second = source(&market, "feed", 0, "A");
        if loses {
            lose_messages(&mut second);
        }
        let mut last = second;
        if ends {
            last.lose(2);
            drop(last);
            // One more session without a value does not end it.
            let mut third = source(&market, "feed", 0, "A");
            third.lose(2);
            drop(third);
            last = source(&market, "feed", 0, "A");
        }
        send(&mut last, &[trade_at(7, 61 * SECOND)]);
        assert_eq!(are_partial(&market, "A"), [loses; 2]);
        send(&mut last, &[trade_at(7, 62 * SECOND)]);
        assert_eq!(are_partial(&market, "A"), [loses, false], "told once");
    }
}

/// The same with the venues of a symbol that has several.
#[test]
fn a_loss_of_a_session_without_a_value_reaches_the_bars_of_each_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut first = source(&market, "feed", 0, "A");
    are_partial(&market, "A");
    send(&mut first, &[trade_at(7, SECOND), trade_at(8, SECOND)]);
    are_partial(&market, "A@8");
    first.lose(2);
    drop(first);
    let mut second = source(&market, "feed", 0, "A");
    lose_messages(&mut second);
    second.lose(2);
    drop(second);
    let mut third = source(&market, "feed", 0, "A");
    send(&mut third, &[trade_at(7, 61 * SECOND)]);
    assert_eq!(are_partial(&market, "A"), [true; 2]);
    send(&mut third, &[trade_at(8, 62 * SECOND)]);
    assert_eq!(are_partial(&market, "A@8"), [true; 2]);
}

/// A session that has got what it missed has lost nothing.
#[test]
fn messages_that_have_come_are_no_loss_of_the_next_session() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut first = source(&market, "feed", 0, "A");
    are_partial(&market, "A");
    send(&mut first, &[trade_at(7, SECOND)]);
    first.lose(2);
    drop(first);
    let mut second = source(&market, "feed", 0, "A");
    let mut batch = second.begin(2);
    batch.values_doubtful();
    batch.values_right();
    batch.finish();
    second.lose(2);
    drop(second);
    let mut third = source(&market, "feed", 0, "A");
    send(&mut third, &[trade_at(7, 61 * SECOND)]);
    assert_eq!(are_partial(&market, "A"), [false; 2]);
}

/// The bar of a venue whose hub was away counted as whole, if another source gave the symbol a
/// second venue meanwhile.
#[test]
fn a_bar_that_closes_while_its_hub_is_away_is_partial_behind_a_second_venue_too() {
    let start_ns = 1_700_000_000 * SECOND;
    let market = Market::of_one_lane(MarketConfig::default());
    for prefix in ["bar:1s:", "bar:1h:"] {
        let pattern = format!("{prefix}*");
        let subscriptions = &market.post.subscriptions;
        subscriptions.add(0, Kind::Pattern, pattern.as_bytes());
        market.bars.prepare(prefix.as_bytes(), false);
    }
    let mut hub = named_source(&market, "hub", "XNAS");
    hub.name_venue(CONSOLIDATED, CONSOLIDATED_NAME);
    assert_eq!(are_partial(&market, "A"), [false; 2]);
    let mut batch = hub.begin(start_ns + SECOND);
    batch.message(1, &trade_at(1, start_ns));
    batch.finish();
    hub.lose(start_ns + SECOND);
    let mut other = named_source(&market, "other", "ARCX");
    send(&mut other, &[quote(0, 1, 1, 2)]);
    let mut clock = crate::bars::BarClock::default();
    clock.turn(&market.bars, 1, start_ns + 9 * SECOND);
    for name in ["A", "A@XNAS"] {
        assert_eq!(are_partial(&market, name), [false, true], "{name}");
    }
}
