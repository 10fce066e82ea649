//! Sessions that begin while messages are missing.

use super::*;

/// Trades a session, loses the status that ends it, and goes on until the book is proven.
fn lose_a_reset(date: u16) -> Pair {
    let mut pair = Pair::new(exchange(2, 1), false);
    pair.define();
    send_status(&mut pair, NO_EVENT, 20_000, BOTH);
    next_until_a_trade(&mut pair);
    next_until_a_trade(&mut pair);
    assert!(figures(&pair).0 > 0);
    send_status(&mut pair, RESET, date, &[]);
    pair.exchange.heartbeat(&mut pair.packet);
    pair.send(BOTH);
    pair.give_up();
    assert!(pair.values.in_doubt);
    pair
}

#[test]
fn after_a_lost_reset_of_statistics_the_snapshot_begins_the_session_once() {
    for date in [20_001, 20_000] {
        let mut pair = lose_a_reset(date);
        recover_with_date(&mut pair, date);
        let (volume, trades, open, day) = figures(&pair);
        assert_eq!((volume, trades, open), (0, 0, UNDEFINED_PRICE), "{date}");
        let expected = if date == 20_001 {
            20_241_005
        } else {
            20_241_004
        };
        assert_eq!((day, pair.values.in_doubt), (expected, false));
        next_until_a_trade(&mut pair);
        let before = figures(&pair);
        assert!(before.0 > 0 && before.1 > 0);
        send_status(&mut pair, NO_EVENT, date, BOTH);
        assert_eq!(figures(&pair), before);
        assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    }
}

#[test]
fn a_proven_book_takes_the_session_s_figures_from_the_snapshot() {
    let mut pair = lose_a_reset(20_001);
    // The next entry proves the book; its session is unknown.
    pair.next(BOTH);
    assert!(pair.values.in_doubt);
    assert_eq!(pair.receiver.channel().counters().instrument_gaps, 0);
    recover_with_date(&mut pair, 20_001);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    assert_eq!(figures(&pair).3, 20_241_005);
}

#[test]
fn a_status_of_the_next_day_does_not_wipe_trades_that_came_before_it() {
    let mut pair = lose_a_reset(20_001);
    let before = pair.values.trades;
    while pair.values.trades == before {
        pair.next(BOTH);
    }
    send_status(&mut pair, NO_EVENT, 20_001, BOTH);
    assert!(pair.values.in_doubt, "the volume is of either session");
    recover_with_date(&mut pair, 20_001);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    assert!(figures(&pair).0 > 0);
}

#[test]
fn trades_on_both_sides_of_a_reset_before_the_definition_need_a_snapshot() {
    let mut pair = Pair::new(exchange(2, 1), false);
    send_status(&mut pair, NO_EVENT, 20_000, BOTH);
    (0..200).for_each(|_| pair.next(BOTH));
    send_status(&mut pair, RESET, 20_001, BOTH);
    (0..200).for_each(|_| pair.next(BOTH));
    pair.define();
    assert!(pair.values.in_doubt);
    recover_with_date(&mut pair, 20_001);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    assert_eq!(pair.values.by_symbol[&0].state, TradingState::OPEN);
}

#[test]
fn the_turnover_of_trades_before_the_definition_is_in_traders_prices() {
    let mut pair = Pair::new(exchange(2, 1), false);
    (0..300).for_each(|_| pair.next(BOTH));
    pair.define();
    // A book of unknown depth may need a snapshot.
    pair.recover(0);
    let value = pair.values.by_symbol[&0];
    let figures = value.figures.unwrap();
    assert!(value.volume > 0 && figures.trades > 0);
    let average = (figures.turnover / i128::from(value.volume)) as i64;
    assert!((figures.low..=figures.high).contains(&average), "{average}");
}

#[test]
fn figures_of_before_a_lost_channel_reset_do_not_outlive_the_snapshot() {
    let mut pair = Pair::new(exchange(2, 1), false);
    pair.define();
    send_status(&mut pair, NO_EVENT, 20_000, BOTH);
    (0..100).for_each(|_| pair.next(BOTH));
    assert!(pair.values.trades > 0);
    // The reset is lost, and the end of the session.
    pair.exchange.reset(&mut pair.packet);
    send_status(&mut pair, RESET, 20_001, &[]);
    (0..3).for_each(|_| pair.next(&[]));
    pair.exchange.heartbeat(&mut pair.packet);
    pair.send(BOTH);
    pair.give_up();
    recover_with_date(&mut pair, 20_001);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    let (open, high, low) = pair.exchange.instruments()[0].open_high_low();
    let scale = Scale::new(pair.exchange.instruments()[0].factor());
    let value = pair.values.by_symbol[&0];
    let figures = value.figures.unwrap();
    let expected = [open, high, low].map(|price| price.map_or(UNDEFINED_PRICE, |p| scale.nanos(p)));
    assert_eq!([value.open, figures.high, figures.low], expected);
}

/// The trades of before a late join's first status were counted in the session of its date.
#[test]
fn a_first_trade_date_after_a_late_join_needs_a_snapshot_for_the_trades_before() {
    let mut pair = Pair::new(exchange(7, 1), false);
    (0..40).for_each(|_| pair.next(&[]));
    pair.define();
    next_until_a_trade(&mut pair);
    send_status(&mut pair, NO_EVENT, 20_001, BOTH);
    assert!(pair.values.in_doubt, "the trades are of either session");
    recover_with_date(&mut pair, 20_001);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
}

/// Returns open, high and low as they are shown, and the exchange's own.
fn ranges(pair: &Pair) -> [[i64; 3]; 2] {
    let (open, high, low) = pair.exchange.instruments()[0].open_high_low();
    let scale = Scale::new(pair.exchange.instruments()[0].factor());
    let value = pair.values.by_symbol[&0];
    let figures = value.figures.unwrap();
    let own = [open, high, low].map(|price| price.map_or(UNDEFINED_PRICE, |p| scale.nanos(p)));
    [[value.open, figures.high, figures.low], own]
}

/// Only the last of these trades was in open, high and low.
#[test]
fn all_trades_behind_a_late_snapshot_are_in_the_session_that_a_lost_status_began() {
    for has_status in [false, true] {
        let mut pair = lose_a_reset(20_001);
        let before = pair.values.trades;
        if has_status {
            next_until_a_trade(&mut pair);
            send_status(&mut pair, NO_EVENT, 20_001, BOTH);
        }
        let mut late = pair.exchange.clone_snapshots();
        (0..12).for_each(|_| next_until_a_trade(&mut pair));
        let trades = pair.values.trades - before;
        for packet in &mut late {
            set_trade_date(packet, 20_001);
            let taken = pair.receiver.receive_snapshot(packet, &mut pair.values);
            taken.unwrap();
        }
        let [shown, own] = ranges(&pair);
        assert!(own[1] > own[2], "trades of several prices");
        assert_eq!(shown, own);
        assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
        let figures = pair.values.by_symbol[&0].figures.unwrap();
        assert_eq!(u64::from(figures.trades), trades);
    }
}

/// Yesterday's figures became certain with a definition of after the loss, or with a status, and
/// stayed through all snapshots.
#[test]
fn neither_a_definition_nor_a_status_makes_figures_of_before_a_lost_session_certain() {
    for date in [20_001, 20_000] {
        for (has_definition, has_trade) in [(true, false), (true, true), (false, false)] {
            let mut pair = lose_a_reset(date);
            pair.next(BOTH);
            let mut trades = 0;
            if has_trade {
                let before = pair.values.trades;
                next_until_a_trade(&mut pair);
                trades = pair.values.trades - before;
            }
            if has_definition {
                define_after_the_loss(&mut pair);
            } else {
                send_status(&mut pair, NO_EVENT, 20_000, BOTH);
            }
            assert!(pair.values.in_doubt, "{date}");
            recover_with_date(&mut pair, date);
            assert_eq!((pair.compare(), pair.values.in_doubt), (1, false), "{date}");
            let [shown, own] = ranges(&pair);
            assert_eq!(shown, own);
            let (_, counted, _, day) = figures(&pair);
            assert_eq!(day, 20_241_004 + u32::from(date - 20_000));
            assert!(date == 20_000 || u64::from(counted) == trades);
        }
    }
}

/// The next session ends the doubt about the one before it without any snapshot.
#[test]
fn the_next_session_ends_the_doubt_about_a_lost_one() {
    let mut pair = lose_a_reset(20_000);
    pair.next(BOTH);
    assert!(pair.values.in_doubt);
    send_status(&mut pair, RESET, 20_001, BOTH);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    assert_eq!(figures(&pair), (0, 0, UNDEFINED_PRICE, 20_241_005));
}

/// The status of the new date came behind the snapshot, whose figures were taken for yesterday's.
#[test]
fn a_snapshot_of_before_a_later_status_of_its_own_session_has_its_figures() {
    let mut pair = lose_a_reset(20_001);
    let before = pair.exchange.instruments()[0].volume();
    while pair.exchange.instruments()[0].volume() == before {
        pair.next(&[]);
    }
    pair.exchange.heartbeat(&mut pair.packet);
    pair.send(BOTH);
    pair.give_up();
    let snapshots = pair.exchange.clone_snapshots();
    send_status(&mut pair, NO_EVENT, 20_001, BOTH);
    for mut packet in snapshots {
        set_trade_date(&mut packet, 20_001);
        let taken = pair.receiver.receive_snapshot(&packet, &mut pair.values);
        taken.unwrap();
    }
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    let [shown, own] = ranges(&pair);
    assert_eq!(shown, own);
}

/// Sends the definition feed's loop, with the time of after the loss.
fn define_after_the_loss(pair: &mut Pair) {
    let mut packets = Vec::new();
    pair.exchange
        .definitions(|packet| packets.push(packet.to_vec()));
    for packet in &mut packets {
        packet[4..12].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
        let Pair {
            receiver, values, ..
        } = &mut *pair;
        receiver.receive_definition(packet, values).unwrap();
    }
}
