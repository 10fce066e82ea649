//! States, definitions and figures of a session.

use super::*;

/// Loses a halt of all instruments, and goes on with entries that follow in their own sequences.
fn lose_a_halt() -> Pair {
    let mut pair = Pair::new(exchange(4, 2), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    let (halt, none) = (
        SecurityTradingStatus::TRADING_HALT,
        SecurityTradingEvent::NO_EVENT,
    );
    pair.exchange.status(None, halt, none, &mut pair.packet);
    pair.next(BOTH);
    pair.give_up();
    (0..50).for_each(|_| pair.next(BOTH));
    assert_eq!(pair.receiver.channel().counters().instrument_gaps, 0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, true));
    pair
}

#[test]
fn after_a_lost_halt_the_next_status_gives_the_state_and_a_snapshot_the_session() {
    let mut pair = lose_a_halt();
    let one = pair.exchange.instruments()[0].security_id();
    let (pre_open, none) = (
        SecurityTradingStatus::PRE_OPEN,
        SecurityTradingEvent::NO_EVENT,
    );
    for id in [Some(one), None] {
        pair.exchange.status(id, pre_open, none, &mut pair.packet);
        pair.send(BOTH);
        // What was lost may have begun a session.
        assert!(pair.values.in_doubt);
    }
    for _ in 0..2 {
        let states = TradingState::PRE_OPEN;
        assert!(pair.values.by_symbol.values().all(|v| v.state == states));
        pair.recover(0);
        assert!(!pair.values.in_doubt);
    }
}

#[test]
fn after_a_lost_halt_definitions_sent_later_give_the_state_and_not_the_session() {
    let mut pair = lose_a_halt();
    let mut packets = Vec::new();
    pair.exchange
        .definitions(|packet| packets.push(packet.to_vec()));
    let states = |pair: &Pair| {
        let values = pair.values.by_symbol.values();
        values.map(|value| value.state).collect::<Vec<_>>()
    };
    let pre_open = SecurityTradingStatus::PRE_OPEN;
    for packet in &mut packets {
        // The status of a future's definition.
        packet[12 + 10 + 14] = pre_open.0;
    }
    for (early, state) in [(true, TradingState::OPEN), (false, TradingState::PRE_OPEN)] {
        for packet in &mut packets {
            let time_ns = if early { 1u64 } else { u64::MAX - 1 };
            packet[4..12].copy_from_slice(&time_ns.to_le_bytes());
            let Pair {
                receiver, values, ..
            } = &mut pair;
            receiver.receive_definition(packet, values).unwrap();
        }
        assert_eq!(
            (states(&pair), pair.values.in_doubt),
            (vec![state; 2], true)
        );
    }
    // A snapshot is not newer than what the definitions say.
    pair.recover(0);
    let open = vec![TradingState::PRE_OPEN; 2];
    assert_eq!((states(&pair), pair.values.in_doubt), (open, false));
}

#[test]
fn states_of_a_group_and_of_one_instrument_are_told() {
    let mut pair = Pair::new(exchange(1, 3), false);
    pair.define();
    pair.next(BOTH);
    let states = |pair: &Pair| {
        let values = pair.values.by_symbol.values();
        values.map(|value| value.state).collect::<Vec<_>>()
    };
    assert_eq!(states(&pair), [TradingState::OPEN; 3]);
    let (halt, none) = (
        SecurityTradingStatus::TRADING_HALT,
        SecurityTradingEvent::NO_EVENT,
    );
    pair.exchange.status(None, halt, none, &mut pair.packet);
    pair.send(BOTH);
    assert_eq!(states(&pair), [TradingState::HALTED; 3]);
    let one = pair.exchange.instruments()[1].security_id();
    let pre_open = SecurityTradingStatus::PRE_OPEN;
    pair.exchange
        .status(Some(one), pre_open, none, &mut pair.packet);
    pair.send(BOTH);
    let symbol = pair.receiver.channel().symbol_of(one).unwrap();
    assert_eq!(pair.values.by_symbol[&symbol].state, TradingState::PRE_OPEN);
    let halted = states(&pair)
        .iter()
        .filter(|&&state| state == TradingState::HALTED)
        .count();
    assert_eq!(halted, 2);
}

#[test]
fn a_definition_gives_name_tick_currency_and_is_told_once() {
    let mut pair = Pair::new(exchange(3, 3), false);
    pair.define();
    pair.define();
    let counters = pair.receiver.channel().counters();
    assert_eq!(
        (counters.definitions, pair.values.definitions.len()),
        (3, 3)
    );
    let definition = pair.values.definitions[&0];
    assert_eq!(definition.name.as_str(), "TW0");
    assert_eq!(
        (definition.price_tick, definition.lot_size),
        (250_000_000, 1)
    );
    assert_eq!(&definition.currency, b"USD\0");
    assert_eq!(pair.receiver.channel().number(), Some(Exchange::CHANNEL));
}

#[test]
fn statuses_of_a_group_hold_for_an_instrument_that_is_defined_later() {
    let mut pair = Pair::new(exchange(2, 1), false);
    send_status(&mut pair, NO_EVENT, 20_000, BOTH);
    (0..200).for_each(|_| pair.next(BOTH));
    let (halt, id) = (
        SecurityTradingStatus::TRADING_HALT,
        pair.exchange.instruments()[0].security_id(),
    );
    let ready = SecurityTradingStatus::READY_TO_TRADE;
    pair.exchange
        .status(Some(id), ready, NO_EVENT, &mut pair.packet);
    pair.send(BOTH);
    assert!(pair.receiver.channel().statistics(id).unwrap().0.volume > 0);
    pair.exchange.status(None, halt, RESET, &mut pair.packet);
    set_trade_date(&mut pair.packet, 20_001);
    pair.send(BOTH);
    pair.define();
    let value = pair.values.by_symbol[&0];
    assert_eq!((value.volume, value.state), (0, TradingState::HALTED));
    assert_eq!(figures(&pair), (0, 0, UNDEFINED_PRICE, 20_241_005));
}

#[test]
fn trades_open_high_low_and_turnover_outlive_a_record() {
    let mut pair = Pair::new(exchange(2, 1), false);
    pair.define();
    while pair.values.trades < 20 {
        pair.next(BOTH);
    }
    // A snapshot after a loss that took no trade gives a record.
    // The first heartbeat is lost.
    pair.exchange.heartbeat(&mut pair.packet);
    pair.exchange.heartbeat(&mut pair.packet);
    pair.send(BOTH);
    pair.give_up();
    pair.recover(0);
    assert!(!pair.values.in_doubt);
    let figures = pair.values.by_symbol[&0].figures.unwrap();
    assert_eq!(u64::from(figures.trades), pair.values.trades);
    assert!(figures.turnover > 0, "the volume is that of the trades");
    let (open, high, low) = pair.exchange.instruments()[0].open_high_low();
    let scale = Scale::new(pair.exchange.instruments()[0].factor());
    assert_eq!(pair.values.by_symbol[&0].open, scale.nanos(open.unwrap()));
    let expected = (scale.nanos(high.unwrap()), scale.nanos(low.unwrap()));
    assert_eq!((figures.high, figures.low), expected);
}

#[test]
fn a_session_s_end_makes_the_settlement_the_reference_and_clears_the_volume() {
    let mut pair = Pair::new(exchange(2, 1), false);
    pair.define();
    (0..300).for_each(|_| pair.next(BOTH));
    assert!(pair.values.trades > 0 && pair.values.by_symbol[&0].volume > 0);
    let id = pair.exchange.instruments()[0].security_id();
    let (statistics, scale) = pair.receiver.channel().statistics(id).unwrap();
    let (open, high, low) = pair.exchange.instruments()[0].open_high_low();
    assert_eq!(
        (statistics.open, statistics.high, statistics.low),
        (open, high, low)
    );
    assert_eq!(statistics.reference, None);
    let settlement = 7_777 * 25_000_000_000;
    pair.exchange.settle(0, settlement, &mut pair.packet);
    pair.send(BOTH);
    let last = pair.values.by_symbol[&0].last;
    let (closed, roll) = (
        SecurityTradingStatus::CLOSE,
        SecurityTradingEvent::RESET_STATISTICS,
    );
    pair.exchange.status(None, closed, roll, &mut pair.packet);
    pair.send(BOTH);
    let value = pair.values.by_symbol[&0];
    assert_eq!(
        (value.volume, value.last, value.state),
        (0, last, TradingState::CLOSED)
    );
    let figures = value.figures.unwrap();
    assert_eq!(
        (figures.reference, figures.reference_kind),
        (scale.nanos(settlement), ReferenceKind::PREVIOUS_SETTLEMENT)
    );
    assert_eq!(
        (value.open, figures.high),
        (UNDEFINED_PRICE, UNDEFINED_PRICE)
    );
    (0..100).for_each(|_| pair.next(BOTH));
    assert_eq!(pair.compare(), 1);
}
