//! The lowest number as a price.

use super::*;
use crate::bars::Interval;

/// It was a price: bars and figures began with it, and it was the best offer of all venues.
#[test]
fn the_lowest_number_is_the_absent_price() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    let topic = market.board.find(b"A").unwrap();
    let bars = market.bars.bars_of(&topic, Interval::Second);
    send(&mut one, &[quote(0, 1, 10, 20), trade(0, 1, 15, 3)]);
    let before = value_of(&market, "A");
    let refused = || market.ingest.refused.load(Ordering::Relaxed);
    let refused_before = refused();
    send(&mut one, &[trade(0, 1, i64::MIN, 7)]);
    assert_eq!(value_of(&market, "A"), before);
    assert_eq!(refused(), refused_before + 1);
    assert_eq!(
        bars.state.lock().bars.late(),
        1,
        "those of this test have no time"
    );

    let sides = |bid: i64, ask: i64| {
        Message::Quote(QuoteMessage {
            source: 1,
            bid,
            ask,
            bid_size: 1,
            ask_size: 2,
            bid_orders: 3,
            ask_orders: 4,
            ..QuoteMessage::default()
        })
    };
    let none = PRICE_UNDEFINED;
    for (bid, ask) in [(i64::MIN, 20), (10, i64::MIN), (i64::MIN, i64::MIN)] {
        send(&mut one, &[sides(bid, ask)]);
        let value = value_of(&market, "A");
        let of = |price: i64, size, orders| match price {
            i64::MIN => (none, 0, 0),
            price => (price, size, orders),
        };
        let shown = (value.bid, value.bid_size, value.bid_orders);
        assert_eq!(shown, of(bid, 1, 3));
        let shown = (value.ask, value.ask_size, value.ask_orders);
        assert_eq!(shown, of(ask, 2, 4));
    }
    let mut two = source(&market, "two", 0, "A");
    two.begin(1).venue(&venue(2, "V2"));
    send(&mut one, &[quote(0, 1, 10, 20)]);
    send(&mut two, &[quote(0, 2, 9, i64::MIN)]);
    let value = value_of(&market, "A");
    assert_eq!((value.bid, value.ask), (10, 20));

    let figures = Figures {
        first_trade: i64::MIN,
        high: i64::MIN,
        low: i64::MIN,
        ..Figures::default()
    };
    let record = LastValue {
        source: 2,
        bid: i64::MIN,
        ask: i64::MIN,
        last: i64::MIN,
        open: i64::MIN,
        bid_size: 1,
        ask_orders: 1,
        last_size: 1,
        figures: Some(figures),
        ..LastValue::new(0)
    };
    send(&mut two, &[Message::LastValue(record)]);
    let value = value_of(&market, "A@V2");
    let prices = [value.bid, value.ask, value.last, value.session_open];
    assert_eq!(prices, [none; 4]);
    assert_eq!([value.first_trade, value.high, value.low], [none; 3]);
    let sizes = [value.bid_size, value.ask_orders, value.last_size];
    assert_eq!(sizes, [0; 3]);
}

/// It was a level, the best offer of its book.
#[test]
fn a_level_at_the_lowest_number_is_none() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    let lowest = set_level(0, 1, i64::MIN);
    send(&mut one, &[clear(0, 1), set_level(0, 1, 7), lowest]);
    assert_eq!(best_bids(&market, "A"), [7]);
}
