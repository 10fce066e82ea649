use super::*;
use crate::value::NewSession;
use crate::value::{FLAG_HALTED, FLAG_STALE};
use proptest::prelude::*;
use std::mem::offset_of;
use std::sync::atomic::AtomicBool;

fn stamp(sequence: u64) -> Stamp {
    Stamp {
        source_time_ns: 1_000 + sequence,
        receive_time_ns: 2_000 + sequence,
        sequence,
    }
}

fn trade(price: i64, size: u32) -> Trade {
    Trade {
        price,
        size,
        condition: 0,
    }
}

#[test]
fn layout_is_three_cache_lines() {
    assert_eq!(size_of::<MarketSlot>(), 192);
    assert_eq!(align_of::<MarketSlot>(), 64);
    let line_one = [
        offset_of!(MarketSlot, version),
        offset_of!(MarketSlot, bid),
        offset_of!(MarketSlot, ask),
        offset_of!(MarketSlot, sizes),
        offset_of!(MarketSlot, last),
        offset_of!(MarketSlot, last_size),
        offset_of!(MarketSlot, flags),
        offset_of!(MarketSlot, source_time_ns),
        offset_of!(MarketSlot, sequence),
    ];
    assert_eq!(
        line_one,
        [0, 8, 16, 24, 32, 40, 44, 48, 56],
        "a quote is read from one cache line"
    );
    let line_two = [
        offset_of!(MarketSlot, receive_time_ns),
        offset_of!(MarketSlot, orders),
        offset_of!(MarketSlot, volume),
        offset_of!(MarketSlot, turnover_low),
        offset_of!(MarketSlot, trades),
        offset_of!(MarketSlot, condition),
        offset_of!(MarketSlot, high),
        offset_of!(MarketSlot, low),
        offset_of!(MarketSlot, owner),
    ];
    assert_eq!(
        line_two,
        [64, 72, 80, 88, 96, 100, 104, 112, 120],
        "a trade changes two cache lines"
    );
}

#[test]
fn an_unwritten_slot_is_empty() {
    assert_eq!(MarketSlot::new().snapshot(), MarketValue::EMPTY);
    assert_eq!(MarketSlot::new().quote().updates, 0);
}

#[test]
fn a_quote_leaves_the_trade_as_it_was() {
    let slot = MarketSlot::new();
    let mut writer = slot.claim(1).unwrap();
    writer.update_trade(trade(-5, 7), stamp(1));
    writer.update_quote(
        Quote {
            bid: -10,
            ask: 10,
            bid_size: u32::MAX,
            ask_size: 1,
            bid_orders: 3,
            ask_orders: 4,
        },
        stamp(2),
    );
    let expected = MarketValue {
        updates: 2,
        bid: -10,
        ask: 10,
        bid_size: u32::MAX,
        ask_size: 1,
        last: -5,
        last_size: 7,
        source_time_ns: 1_002,
        sequence: 2,
        bid_orders: 3,
        ask_orders: 4,
        volume: 7,
        turnover: -35,
        session_open: -5,
        first_trade: -5,
        receive_time_ns: 2_002,
        high: -5,
        low: -5,
        trades: 1,
        ..MarketValue::EMPTY
    };
    assert_eq!(slot.snapshot(), expected);
    assert_eq!(
        (slot.bid(), slot.ask(), slot.last(), slot.sequence()),
        (-10, 10, -5, 2)
    );
}

#[test]
fn a_quote_and_its_trade_are_one_update() {
    let slot = MarketSlot::new();
    let quote = Quote {
        bid: 1,
        ask: 3,
        bid_size: 4,
        ask_size: 5,
        ..Quote::EMPTY
    };
    slot.claim(1)
        .unwrap()
        .update_both(quote, trade(2, 6), stamp(9));
    let top = slot.quote();
    assert_eq!(
        (top.updates, top.bid, top.ask, top.last, top.last_size),
        (1, 1, 3, 2, 6)
    );
}

#[test]
fn a_trade_without_price_changes_nothing() {
    let slot = MarketSlot::new();
    let mut writer = slot.claim(1).unwrap();
    writer.update_trade(trade(PRICE_UNDEFINED, 3), stamp(1));
    writer.update_trade(trade(50, 2), stamp(2));
    writer.update_trade(trade(PRICE_UNDEFINED, 5), stamp(3));
    let value = slot.snapshot();
    assert_eq!((value.volume, value.trades, value.turnover), (2, 1, 100));
    assert_eq!((value.last, value.last_size), (50, 2));
    assert_eq!((value.session_open, value.high, value.low), (50, 50, 50));
}

#[test]
fn flags_survive_trades_and_are_cleared_singly() {
    let slot = MarketSlot::new();
    let mut writer = slot.claim(1).unwrap();
    writer.update_flags(FLAG_STALE | FLAG_HALTED, 0);
    writer.update_trade(trade(1, 9), stamp(1));
    assert_eq!(slot.quote().flags, FLAG_STALE | FLAG_HALTED);
    writer.update_flags(0, FLAG_STALE);
    assert_eq!(slot.quote().flags, FLAG_HALTED);
    assert_eq!(slot.quote().last_size, 9);
}

#[test]
fn a_session_starts_without_the_figures_of_the_one_before() {
    let slot = MarketSlot::new();
    let mut writer = slot.claim(1).unwrap();
    writer.update_trade(trade(100, 9), stamp(1));
    let status = Status {
        state: 4,
        reason: 7,
    };
    writer.update_status(status, stamp(2));
    let start = NewSession {
        open: 90,
        reference: Reference::NONE,
        trading_day: 20_260_102,
    };
    writer.start_session(start, stamp(3));
    let value = slot.snapshot();
    assert_eq!((value.volume, value.trades, value.turnover), (0, 0, 0));
    assert_eq!((value.status, value.trading_day), (status, 20_260_102));
    assert_eq!((value.high, value.low), (PRICE_UNDEFINED, PRICE_UNDEFINED));
    assert_eq!((value.session_open, value.last), (90, 100));
    writer.update_trade(trade(99, 1), stamp(4));
    assert_eq!(slot.snapshot().change_ppm(), Some(100_000));
    assert_eq!(slot.snapshot().first_trade, 99, "beside the declared open");
    writer.update_trade(trade(98, 1), stamp(5));
    assert_eq!(slot.snapshot().first_trade, 99);
}

#[test]
fn the_side_of_the_last_trade_stays_when_a_session_starts() {
    let slot = MarketSlot::new();
    let mut writer = slot.claim(1).unwrap();
    let last = Trade {
        condition: 1,
        ..trade(100, 9)
    };
    writer.update_trade(last, stamp(1));
    let start = NewSession {
        open: PRICE_UNDEFINED,
        reference: Reference::NONE,
        trading_day: 20_260_102,
    };
    writer.start_session(start, stamp(2));
    let value = slot.snapshot();
    assert_eq!((value.last, value.last_size, value.condition), (100, 9, 1));
}

#[test]
fn a_replaced_value_comes_back_whole() {
    let value = MarketValue {
        updates: 12_345,
        bid: 1,
        ask: 2,
        bid_size: 3,
        ask_size: 4,
        last: 5,
        last_size: 6,
        flags: FLAG_STALE,
        source_time_ns: 7,
        sequence: 8,
        volume: 9,
        session_open: 10,
        receive_time_ns: 11,
        high: 12,
        low: 13,
        trades: 14,
        condition: 15,
        turnover: -(1 << 100) - 16,
        bid_orders: 17,
        ask_orders: 18,
        reference: Reference { price: 19, kind: 3 },
        status: Status {
            state: 20,
            reason: 21,
        },
        venues: Venues {
            bid: 22,
            ask: 23,
            last: 24,
        },
        trading_day: 25,
        first_trade: 26,
    };
    let slot = MarketSlot::new();
    slot.claim(1).unwrap().replace(&value);
    assert_eq!(
        slot.snapshot(),
        MarketValue {
            updates: 1,
            ..value
        }
    );
}

#[test]
fn a_second_writer_is_refused_until_the_first_lets_go() {
    let slot = MarketSlot::new();
    let first = slot.claim(7).unwrap();
    assert_eq!(slot.owner(), Some(7));
    assert_eq!(slot.claim(7).unwrap_err(), ClaimError::Owned { owner: 7 });
    first.release();
    assert_eq!(slot.owner(), None);
    assert_eq!(slot.claim(0).map(drop), Ok(()), "0 is a name like another");
}

/// While one thread writes updates with equal words, other threads read continuously.
#[test]
fn readers_beside_a_writer_see_whole_updates() {
    const UPDATES: u32 = 200_000;
    let slot = MarketSlot::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut newest = 0;
                while !done.load(Ordering::Acquire) {
                    let value = slot.snapshot();
                    assert!(value.updates >= newest, "the value never goes back");
                    newest = value.updates;
                    let n = newest;
                    assert_eq!((value.sequence, value.volume), (n, n * 2));
                    assert_eq!(u64::from(value.trades), n);
                    assert_eq!(value.turnover, i128::from(n) * i128::from(n + 1));
                    assert_eq!((value.source_time_ns, value.receive_time_ns), (n, n));
                    if n > 0 {
                        assert_eq!(
                            [value.bid, value.ask, value.last, value.high],
                            [n as i64; 4]
                        );
                    }
                }
            });
        }
        let mut writer = slot.claim(1).unwrap();
        for n in 1..=UPDATES {
            let price = i64::from(n);
            let n64 = u64::from(n);
            writer.update_both(
                Quote {
                    bid: price,
                    ask: price,
                    bid_size: n,
                    ask_size: n,
                    ..Quote::EMPTY
                },
                trade(price, 2),
                Stamp {
                    source_time_ns: n64,
                    receive_time_ns: n64,
                    sequence: n64,
                },
            );
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(slot.updates(), u64::from(UPDATES));
}

proptest! {
    #[test]
    fn session_figures_are_those_of_the_trades(
        trades in prop::collection::vec((any::<i64>(), any::<u32>()), 1..50),
    ) {
        let slot = MarketSlot::new();
        let mut writer = slot.claim(1).unwrap();
        for (n, &(price, size)) in trades.iter().enumerate() {
            writer.update_trade(trade(price, size), stamp(n as u64));
        }
        let value = slot.snapshot();
        let priced = || trades.iter().filter(|t| t.0 != PRICE_UNDEFINED);
        let prices = || priced().map(|t| t.0);
        prop_assert_eq!(value.volume, priced().map(|t| u64::from(t.1)).sum::<u64>());
        prop_assert_eq!(value.trades as usize, priced().count());
        let products = priced().map(|t| i128::from(t.0) * i128::from(t.1));
        prop_assert_eq!(value.turnover, products.sum::<i128>());
        prop_assert_eq!(value.session_open, prices().next().unwrap_or(PRICE_UNDEFINED));
        prop_assert_eq!(value.high, prices().max().unwrap_or(PRICE_UNDEFINED));
        prop_assert_eq!(value.low, prices().min().unwrap_or(PRICE_UNDEFINED));
        prop_assert_eq!(value.last, prices().next_back().unwrap_or(PRICE_UNDEFINED));
    }

    #[test]
    fn packed_halves_come_back(low: u32, high: u32) {
        prop_assert_eq!(unpack(pack(low, high)), (low, high));
    }
}
