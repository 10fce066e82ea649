//! Packets that are torn, damaged or forged.

use super::*;

#[test]
fn a_packet_that_cannot_be_decoded_is_a_lost_packet() {
    let mut pair = Pair::new(exchange(4, 2), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
    pair.next(&[]);
    let length = pair.packet.len();
    pair.packet.truncate(length - 8);
    pair.send(BOTH);
    assert!(pair.values.in_doubt);
    assert_eq!(pair.receiver.channel().counters().malformed, 1);
    (0..20).for_each(|_| pair.next(BOTH));
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

#[test]
fn a_torn_event_is_not_published_as_certain() {
    let mut pair = Pair::new(exchange(4, 1), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    let mut is_torn = false;
    for _ in 0..200 {
        pair.exchange.next_packet(&mut pair.packet);
        // Without the end flags, and of one time, the event is open at the end of the packet.
        let (before, mut at) = (pair.values.by_symbol[&0], 12);
        let time = pair.packet[at + 10..at + 18].to_vec();
        while at < pair.packet.len() {
            let message = &mut pair.packet[at..];
            let size = u16::from_le_bytes([message[0], message[1]]);
            message[10..18].copy_from_slice(&time);
            message[18] &= 0x7f;
            at += usize::from(size);
        }
        pair.send(BOTH);
        pair.next(&[]);
        pair.exchange.heartbeat(&mut pair.packet);
        pair.send(BOTH);
        pair.give_up();
        let after = pair.values.by_symbol[&0];
        assert_eq!((before.bid, before.ask), (after.bid, after.ask));
        assert!(pair.values.in_doubt);
        let channel = pair.receiver.channel();
        is_torn |= channel.doubtful_count() == 1;
        pair.recover(0);
        pair.next(BOTH);
        assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    }
    assert!(is_torn);
}

#[test]
fn two_forged_packets_of_the_past_do_not_end_the_channel() {
    let mut pair = Pair::new(exchange(4, 2), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    let genuine = pair.packet.clone();
    for sequence in [5u32, 6] {
        // A heartbeat of next century.
        let mut forged = sequence.to_le_bytes().to_vec();
        forged.extend(4_000_000_000_000_000_000u64.to_le_bytes());
        forged.extend([10, 0, 0, 0, 12, 0, 1, 0, 9, 0]);
        pair.packet = forged;
        pair.send(&[Side::A]);
    }
    pair.packet = genuine;
    pair.give_up();
    assert!(pair.values.in_doubt);
    for _ in 0..30 {
        pair.now_ns += 100_000_000;
        pair.next(BOTH);
        pair.recover(0);
        pair.compare();
    }
    assert!(pair.is_caught_up());
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}
