//! What a loop of snapshots proves, and what it does not.

use super::*;

#[test]
fn an_instrument_without_an_entry_has_no_snapshot_and_is_right_after_a_whole_loop() {
    let mut pair = Pair::new(exchange(7, 50), true);
    (0..5).for_each(|_| pair.next(&[]));
    pair.define();
    (0..5).for_each(|_| pair.next(BOTH));
    pair.give_up();
    assert!(pair.values.in_doubt);
    pair.recover(2);
    assert!(pair.values.in_doubt, "half of the loop");
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (50, false));
    (0..300).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (50, false));
    // Books by order of instruments that were not in that loop wait for the next one.
    pair.recover(0);
    let channel = pair.receiver.channel();
    for instrument in pair.exchange.instruments() {
        let book = channel.order_book(instrument.security_id());
        assert!(
            book.is_none_or(OrderBook::is_live),
            "{}",
            instrument.symbol()
        );
    }
    assert_eq!(pair.compare(), 50);
}

#[test]
fn snapshots_of_right_after_the_loss_are_enough_however_late_they_come() {
    let mut pair = Pair::new(exchange(4, 3), true);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    (0..20).for_each(|_| pair.next(&[]));
    pair.exchange.heartbeat(&mut pair.packet);
    pair.send(BOTH);
    pair.give_up();
    let snapshots = pair.exchange.clone_snapshots();
    (0..50).for_each(|_| pair.next(BOTH));
    assert!(pair.values.in_doubt && pair.receiver.channel().counters().instrument_gaps == 3);
    for packet in &snapshots {
        pair.receiver
            .receive_snapshot(packet, &mut pair.values)
            .unwrap();
    }
    assert_eq!((pair.compare(), pair.values.in_doubt), (3, false));
}

#[test]
fn a_loss_that_did_not_touch_an_instrument_leaves_it_right() {
    let mut pair = Pair::new(exchange(4, 2), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    // A heartbeat is lost: no instrument's own sequence has a hole.
    pair.exchange.heartbeat(&mut pair.packet);
    pair.next(BOTH);
    pair.give_up();
    assert_eq!(pair.values.lost, 1);
    (0..50).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, true));
    assert_eq!(pair.receiver.channel().counters().instrument_gaps, 0);
    let states = TradingState::OPEN;
    assert!(pair.values.by_symbol.values().all(|v| v.state == states));
    // What was lost may have been a trading state, which has no number.
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

#[test]
fn a_late_snapshot_of_the_old_week_is_not_taken_for_one_of_the_new_week() {
    let mut pair = Pair::new(exchange(4, 2), true);
    pair.define();
    (0..300).for_each(|_| pair.next(BOTH));
    let mut old = pair.exchange.clone_snapshots();
    pair.exchange.begin_week();
    pair.next(&[]);
    (0..5).for_each(|_| pair.next(BOTH));
    pair.give_up();
    assert!(pair.values.in_doubt);
    for is_sent_later in [false, true] {
        for packet in &mut old {
            if is_sent_later {
                let time_ns = pair.packet[4..12].to_vec();
                packet[4..12].copy_from_slice(&time_ns);
            }
            let taken = pair.receiver.receive_snapshot(packet, &mut pair.values);
            taken.unwrap();
        }
        assert!(pair.values.in_doubt, "300 is ahead of the stream");
        (0..5).for_each(|_| pair.next(BOTH));
        pair.compare();
    }
    pair.recover(0);
    (0..30).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

#[test]
fn a_snapshot_that_overtakes_the_stream_is_left_to_the_next_loop() {
    let mut pair = Pair::new(exchange(4, 2), false);
    (0..50).for_each(|_| pair.next(&[]));
    pair.define();
    (0..5).for_each(|_| pair.next(BOTH));
    let mut delayed = Vec::new();
    for _ in 0..10 {
        pair.next(&[]);
        delayed.push(pair.packet.clone());
    }
    pair.recover(0);
    assert!(pair.values.in_doubt);
    for packet in delayed {
        pair.packet = packet;
        pair.send(BOTH);
    }
    assert!(pair.values.in_doubt);
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

#[test]
fn an_instrument_whose_entries_go_on_below_its_snapshot_is_in_doubt() {
    let mut pair = Pair::new(exchange(4, 1), false);
    (0..50).for_each(|_| pair.next(&[]));
    pair.define();
    (0..5).for_each(|_| pair.next(BOTH));
    pair.give_up();
    // A forged one: the number of the instrument's sequence is too high.
    let number_at = 12 + 10 + 12;
    for mut packet in pair.exchange.clone_snapshots() {
        let rpt_seq = u32::from_le_bytes(packet[number_at..number_at + 4].try_into().unwrap());
        assert!((1..10_000).contains(&rpt_seq));
        packet[number_at..number_at + 4].copy_from_slice(&(rpt_seq + 9_000).to_le_bytes());
        let taken = pair.receiver.receive_snapshot(&packet, &mut pair.values);
        taken.unwrap();
    }
    assert!(!pair.values.in_doubt);
    pair.next(BOTH);
    assert!(
        pair.values.in_doubt,
        "its entries are older than the snapshot"
    );
    pair.recover(0);
    (0..30).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
}

#[test]
fn a_snapshot_that_no_book_can_have_is_not_taken() {
    let mut pair = Pair::new(exchange(4, 1), false);
    (0..300).for_each(|_| pair.next(&[]));
    pair.define();
    (0..5).for_each(|_| pair.next(BOTH));
    let snapshot = pair.exchange.clone_snapshots().swap_remove(0);
    // The entries of 22 bytes: price, size, orders, level at byte 16, and kind at byte 21.
    let entries = 12 + 10 + 59 + 3;
    let is_second = |entry: &[u8]| (entry[16], entry[21]) == (2, b'0');
    let at = snapshot[entries..].chunks(22).position(is_second).unwrap() * 22 + entries;
    let [mut gap, mut disorder] = [snapshot.clone(), snapshot.clone()];
    gap[at + 21] = b'w';
    disorder[at..at + 8].copy_from_slice(&(i64::MAX - 1).to_le_bytes());
    for (number, packet) in (1..).zip([gap, disorder]) {
        let taken = pair.receiver.receive_snapshot(&packet, &mut pair.values);
        taken.unwrap();
        assert!(pair.values.in_doubt);
        let counters = pair.receiver.channel().counters();
        assert_eq!(counters.contradictions, number);
    }
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
}

#[test]
fn a_book_is_certain_again_at_the_end_of_the_event_that_proves_it() {
    let mut pair = Pair::new(exchange(4, 1), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    let template_id = |packet: &[u8]| u16::from_le_bytes([packet[16], packet[17]]);
    pair.exchange.next_packet(&mut pair.packet);
    while template_id(&pair.packet) != 46 {
        pair.send(BOTH);
        pair.exchange.next_packet(&mut pair.packet);
    }
    // A heartbeat is lost before it.
    let sequence = u32::from_le_bytes(pair.packet[..4].try_into().unwrap()) + 1;
    pair.packet[..4].copy_from_slice(&sequence.to_le_bytes());
    let before = pair.values.by_symbol[&0];
    let size = usize::from(u16::from_le_bytes([pair.packet[12], pair.packet[13]]));
    // Only its first message, without the end of the event.
    pair.packet.truncate(12 + size);
    pair.packet[12 + 10 + 8] &= 0x7f;
    pair.send(BOTH);
    pair.give_up();
    assert!(pair.values.in_doubt);
    let after = pair.values.by_symbol[&0];
    assert_eq!((before.bid, before.ask), (after.bid, after.ask));
    assert_eq!(pair.receiver.channel().doubtful_count(), 1);
}

#[test]
fn an_instrument_that_is_defined_after_a_late_join_is_in_doubt_until_its_snapshot() {
    let mut pair = Pair::new(exchange(4, 2), false);
    (0..100).for_each(|_| pair.next(&[]));
    (0..5).for_each(|_| pair.next(BOTH));
    pair.values.in_doubt = false;
    pair.define();
    assert!(pair.values.in_doubt, "each definition says so");
    let records = || pair.values.by_symbol.values().map(|value| value.figures);
    assert_eq!(records().count(), 2);
    assert!(records().all(|figures| figures.unwrap().flags == Figures::IN_DOUBT));
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

/// The book was shown empty, and as certain: of a snapshot of the session before not even the
/// levels were read.
#[test]
fn a_session_that_begins_before_its_snapshot_is_used_empties_no_book() {
    for date in [20_000, 20_001] {
        let mut pair = Pair::new(exchange(4, 3), true);
        pair.define();
        (0..100).for_each(|_| pair.next(BOTH));
        send_status(&mut pair, NO_EVENT, 20_000, BOTH);
        (0..20).for_each(|_| pair.next(&[]));
        pair.exchange.heartbeat(&mut pair.packet);
        pair.send(BOTH);
        pair.give_up();
        let snapshots = pair.exchange.clone_snapshots();
        send_status(&mut pair, RESET, date, BOTH);
        for packet in &snapshots {
            pair.receiver
                .receive_snapshot(packet, &mut pair.values)
                .unwrap();
        }
        assert_eq!((pair.compare(), pair.values.in_doubt), (3, false));
    }
}

/// Sends the snapshots of now, as of `time_ms` later.
fn send_snapshots(pair: &mut Pair, time_ms: u64) {
    for mut packet in pair.exchange.clone_snapshots() {
        let sent = u64::from_le_bytes(packet[4..12].try_into().unwrap()) + time_ms * 1_000_000;
        packet[4..12].copy_from_slice(&sent.to_le_bytes());
        let taken = pair.receiver.receive_snapshot(&packet, &mut pair.values);
        taken.unwrap();
    }
}

/// Everything stayed current for 65 s, although the snapshots showed that packets were missing.
#[test]
fn a_loop_of_snapshots_ahead_of_lines_that_stand_still_is_a_doubt_until_they_go_on() {
    for is_lost in [true, false] {
        let mut pair = Pair::new(exchange(2, 3), false);
        pair.define();
        (0..200).for_each(|_| pair.next(BOTH));
        send_snapshots(&mut pair, 0);
        send_snapshots(&mut pair, 1_000);
        assert!(!pair.values.in_doubt, "they are of the last packet");
        pair.next(&[]);
        let late = pair.packet.clone();
        send_snapshots(&mut pair, 2_000);
        // The other line's copy of the loop, or an incremental feed that is as late.
        send_snapshots(&mut pair, 2_000);
        send_snapshots(&mut pair, 2_019);
        assert!(!pair.values.in_doubt);
        send_snapshots(&mut pair, 2_020);
        assert!(pair.values.in_doubt && pair.receiver.channel().is_behind());
        let channel = pair.receiver.channel();
        assert_eq!(
            (channel.counters().standstills, channel.doubtful_count()),
            (1, 3)
        );
        pair.define();
        send_snapshots(&mut pair, 3_000);
        assert!(pair.values.in_doubt && pair.receiver.channel().is_behind());
        if !is_lost {
            pair.packet = late;
            pair.send(BOTH);
            assert!(!pair.values.in_doubt, "nothing is missing");
        }
        pair.next(BOTH);
        pair.give_up();
        assert_eq!(
            (pair.values.in_doubt, pair.values.lost),
            (is_lost, u64::from(is_lost))
        );
        assert!(!pair.receiver.channel().is_behind());
        send_snapshots(&mut pair, 4_000);
        assert_eq!((pair.compare(), pair.values.in_doubt), (3, false));
        assert_eq!(pair.receiver.channel().counters().standstills, 1);
    }
}

/// A packet between two snapshots that are ahead shows that the feed goes on.
#[test]
fn snapshots_ahead_of_a_feed_that_goes_on_are_no_doubt() {
    let mut pair = Pair::new(exchange(2, 3), false);
    pair.define();
    (0..50).for_each(|_| pair.next(BOTH));
    for number in 1..20 {
        pair.next(&[]);
        let late = pair.packet.clone();
        send_snapshots(&mut pair, number * 1_000);
        pair.packet = late;
        pair.send(BOTH);
    }
    assert!(!pair.values.in_doubt);
    assert_eq!(pair.receiver.channel().counters().standstills, 0);
}

/// Line A had lost the first packet, and its second one was read before line B's first: all books
/// were in doubt until a loop of snapshots.
#[test]
fn a_channel_whose_first_packet_comes_on_the_line_that_is_behind_is_right_from_the_start() {
    for restarts in [false, true] {
        let mut pair = Pair::new(exchange(4, 3), true);
        pair.define();
        if restarts {
            (0..300).for_each(|_| pair.next(BOTH));
            pair.exchange.begin_week();
            pair.now_ns += 1_000_000_000;
        }
        let mut first = Vec::new();
        pair.exchange.next_packet(&mut first);
        pair.next(&[Side::A]);
        pair.next(&[Side::A]);
        pair.packet = first;
        pair.send(&[Side::B]);
        assert_eq!(
            (pair.compare(), pair.values.in_doubt),
            (3, false),
            "{restarts}"
        );
        (0..100).for_each(|_| pair.next(&[Side::B]));
        assert_eq!((pair.compare(), pair.values.lost), (3, 0), "{restarts}");
        assert_eq!(pair.receiver.counters().restarts, u64::from(restarts));
    }
}
