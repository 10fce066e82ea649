//! Strays, jumps and new sequences.

use super::*;
use crate::packet::{PacketHeader, begin_packet};

/// What a sink sees: each sequence, and 0 at a restart.
#[derive(Default)]
struct Seen {
    packets: Vec<u64>,
    /// Where the stream was joined or began again.
    begins: Vec<u64>,
    lost: u64,
}

impl PacketSink for Seen {
    fn joined(&mut self, first: u64) {
        self.begins.push(first);
    }

    fn restarted(&mut self, first: u64, _begin_time_ns: u64) {
        self.packets.push(0);
        self.begins.push(first);
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        self.packets.push(packet.header.sequence.into());
    }

    fn gap(&mut self, gap: Gap) {
        if let Gap::Lost { count, .. } = gap {
            self.lost += count;
        }
    }
}

/// An arbiter that has delivered packets 1 to 3.
struct Pair {
    arbiter: Arbiter,
    seen: Seen,
    now_ns: u64,
}

impl Pair {
    /// Creates an arbiter that has received nothing.
    fn empty() -> Self {
        Self {
            arbiter: Arbiter::new(ArbiterConfig::default()),
            seen: Seen::default(),
            now_ns: 1,
        }
    }

    fn new() -> Self {
        let mut pair = Self::empty();
        (1..=3).for_each(|sequence| pair.receive(sequence, sequence));
        assert_eq!(std::mem::take(&mut pair.seen.packets), [1, 2, 3]);
        pair
    }

    /// Receives a packet on line A, which was sent `time_s` seconds after the epoch, and waits.
    fn receive(&mut self, sequence: u64, time_s: u64) {
        self.receive_on(Side::A, sequence, time_s);
        self.wait(100_000_000);
    }

    fn wait(&mut self, time_ns: u64) {
        self.now_ns += time_ns;
        self.arbiter.handle_timeout(self.now_ns, &mut self.seen);
    }

    /// Receives a packet on a line at the present time.
    fn receive_on(&mut self, side: Side, sequence: u64, time_s: u64) {
        let mut datagram = Vec::new();
        let header = PacketHeader {
            sequence: sequence as u32,
            sending_time_ns: time_s * 1_000_000_000,
        };
        begin_packet(&mut datagram, header);
        let Self {
            arbiter,
            seen,
            now_ns,
        } = self;
        arbiter.receive(side, &datagram, *now_ns, seen).unwrap();
    }
}

const YEAR_S: u64 = 365 * 86_400;

#[test]
fn one_stray_packet_far_ahead_does_not_stop_the_channel() {
    let mut pair = Pair::new();
    pair.receive(1_000_000, YEAR_S);
    (4..=6).for_each(|sequence| pair.receive(sequence, sequence));
    assert_eq!((pair.seen.packets, pair.seen.lost), (vec![4, 5, 6], 0));
    assert_eq!(pair.arbiter.side_counters(Side::A).lost, 0);
}

#[test]
fn one_stray_packet_of_a_lower_sequence_does_not_begin_a_new_one() {
    let mut pair = Pair::new();
    pair.receive(1, YEAR_S);
    (4..=6).for_each(|sequence| pair.receive(sequence, sequence));
    assert_eq!((pair.seen.packets, pair.seen.lost), (vec![4, 5, 6], 0));
    assert_eq!(pair.arbiter.counters().restarts, 0);
}

#[test]
fn the_time_of_a_stray_packet_near_the_sequence_does_not_shut_out_the_others() {
    let mut pair = Pair::new();
    pair.receive(5, YEAR_S);
    assert_eq!(pair.seen.packets, [5], "packet 4 is lost");
    (7..=8).for_each(|sequence| pair.receive(sequence, sequence));
    assert_eq!((pair.seen.packets, pair.seen.lost), (vec![5, 7, 8], 2));
}

#[test]
fn a_jump_is_believed_with_its_second_packet_and_nothing_after_it_is_lost() {
    let mut pair = Pair::new();
    pair.receive(5_000, 10);
    pair.receive(5_000, 10);
    assert_eq!(pair.seen.packets, [], "a copy confirms nothing");
    pair.receive(5_001, 11);
    assert_eq!(pair.seen.packets, [5_000, 5_001]);
    assert_eq!(pair.seen.lost, 4_996);
}

#[test]
fn a_new_sequence_begins_with_its_second_packet_and_the_first_is_delivered() {
    let mut pair = Pair::new();
    pair.receive(1, YEAR_S);
    pair.receive(2, YEAR_S);
    assert_eq!(pair.seen.packets, [0, 1, 2]);
    assert_eq!(pair.arbiter.counters().restarts, 1);
    // The end of the old sequence, late on the other line.
    pair.receive(4, 4);
    pair.receive(3, YEAR_S);
    assert_eq!((pair.seen.packets, pair.seen.lost), (vec![0, 1, 2, 3], 0));
}

/// A line that repeated its last packet kept all topics current.
#[test]
fn a_packet_that_was_received_before_is_no_sign_of_life() {
    let silence_ns = ArbiterConfig::default().silence_ns_max;
    for (sequence, is_alive) in [(3, false), (1, false), (4, true), (5, true), (9_999, false)] {
        let mut pair = Pair::new();
        let begin_ns = pair.arbiter.moved_ns();
        pair.now_ns = begin_ns + silence_ns - 1;
        assert!(!pair.arbiter.is_silent(pair.now_ns));
        let packets = pair.arbiter.side_counters(Side::A).packets;
        pair.receive(sequence, 3);
        assert_eq!(pair.arbiter.side_counters(Side::A).packets, packets + 1);
        assert_eq!(
            pair.arbiter.is_silent(begin_ns + silence_ns),
            !is_alive,
            "{sequence}"
        );
        assert_eq!(pair.arbiter.moved_ns() > begin_ns, is_alive);
        assert!(
            pair.arbiter
                .is_silent(begin_ns + 2 * silence_ns + 1_000_000_000)
        );
    }
}

/// A stray packet was the first one: its number or its time shut out the channel, or the channel
/// was taken for a loss.
#[test]
fn a_stray_packet_that_comes_first_does_not_shut_out_the_channel() {
    for (stray, time_s) in [
        (1, 0),
        (1, YEAR_S),
        (1_000_000, 0),
        (u32::MAX.into(), YEAR_S),
    ] {
        let mut pair = Pair::empty();
        pair.receive(stray, time_s);
        pair.receive(stray, time_s);
        (5_000..=5_003).for_each(|sequence| pair.receive(sequence, 9));
        let expected = [stray, 0, 5_000, 5_001, 5_002, 5_003];
        assert_eq!(pair.seen.packets, expected, "{stray}");
        assert_eq!((pair.seen.lost, pair.arbiter.counters().restarts), (0, 1));
    }
}

#[test]
fn a_stray_packet_behind_the_first_one_does_not_end_the_channel() {
    for (stray, time_s) in [(1, YEAR_S), (1_000_000, YEAR_S)] {
        let mut pair = Pair::empty();
        pair.receive(5_000, 9);
        pair.receive(stray, time_s);
        (5_001..=5_003).for_each(|sequence| pair.receive(sequence, 9));
        assert_eq!(pair.seen.packets, [5_000, 5_001, 5_002, 5_003], "{stray}");
        assert_eq!((pair.seen.lost, pair.arbiter.counters().restarts), (0, 0));
    }
}

/// The other line is a little behind where the channel is joined.
#[test]
fn packets_just_before_the_first_one_begin_nothing() {
    let mut pair = Pair::empty();
    [5_000, 4_998, 4_999, 5_000, 5_001]
        .into_iter()
        .for_each(|sequence| pair.receive(sequence, 9));
    assert_eq!(pair.seen.packets, [5_000, 5_001]);
    assert_eq!(pair.arbiter.counters().restarts, 0);
}

/// The second packet of line A at the moment of the first one of line B was taken for a late start:
/// all values were in doubt until snapshots came.
#[test]
fn the_first_packet_may_come_on_the_line_that_is_behind() {
    for late in [1, 4, 60] {
        let mut pair = Pair::empty();
        (late + 1..late + 3).for_each(|sequence| pair.receive_on(Side::A, sequence, 9));
        assert_eq!(
            (pair.seen.begins.len(), pair.arbiter.next_sequence()),
            (0, 0)
        );
        (1..=late).for_each(|sequence| pair.receive_on(Side::B, sequence, 9));
        assert_eq!(pair.seen.packets, (1..late + 3).collect::<Vec<u64>>());
        assert_eq!((pair.seen.begins, pair.seen.lost), (vec![1], 0), "{late}");
        assert_eq!(pair.arbiter.deadline_ns(), u64::MAX);
    }
}

#[test]
fn a_late_start_near_the_beginning_is_one_when_nothing_came_before_it_in_time() {
    let mut pair = Pair::empty();
    pair.receive_on(Side::A, 7, 9);
    pair.receive_on(Side::A, 9, 9);
    pair.wait(19_999_999);
    // It does not lengthen the wait.
    pair.receive_on(Side::B, 6, 9);
    pair.receive_on(Side::B, 7, 9);
    assert!(pair.seen.packets.is_empty());
    pair.wait(1);
    assert_eq!(
        (pair.seen.packets, pair.seen.begins),
        (vec![6, 7, 9], vec![6])
    );
    assert_eq!((pair.seen.lost, pair.arbiter.counters().gaps), (1, 1));
}

#[test]
fn a_late_start_far_from_the_beginning_does_not_wait() {
    let mut pair = Pair::empty();
    pair.receive_on(Side::A, 101, 9);
    assert_eq!(
        (pair.seen.packets, pair.seen.begins),
        (vec![101], vec![101])
    );
}

/// A missing packet behind the first one is lost as any other.
#[test]
fn what_is_missing_behind_the_first_packet_is_waited_for_as_long_as_any() {
    let mut pair = Pair::empty();
    pair.receive_on(Side::A, 3, 9);
    pair.wait(10_000_000);
    pair.receive_on(Side::B, 1, 9);
    assert_eq!((pair.seen.packets.clone(), pair.seen.lost), (vec![1], 0));
    pair.receive_on(Side::B, 2, 9);
    assert_eq!((pair.seen.packets, pair.seen.lost), (vec![1, 2, 3], 0));
    assert_eq!(pair.arbiter.counters().recovered, 1);
}

/// The same where the sequence starts again, as each week.
#[test]
fn the_first_packet_of_a_new_sequence_may_come_on_the_line_that_is_behind() {
    for late in [1, 2] {
        let mut pair = Pair::new();
        (4..=10).for_each(|sequence| pair.receive(sequence, 3));
        pair.seen = Seen::default();
        for sequence in late + 1..=late + 2 {
            pair.receive_on(Side::A, sequence, YEAR_S);
        }
        // The end of the old sequence.
        pair.receive_on(Side::B, 11, 4);
        (1..=late).for_each(|sequence| pair.receive_on(Side::B, sequence, YEAR_S));
        let mut expected = vec![0];
        expected.extend(1..=late + 2);
        assert_eq!(pair.seen.packets, expected, "{late}");
        assert_eq!((pair.seen.begins, pair.seen.lost), (vec![1], 0));
        assert_eq!(pair.arbiter.counters().restarts, 1);
    }
}

/// Line A brings the second packet, then line B the first one, and loses the second.
#[test]
fn a_packet_that_shows_a_new_sequence_before_its_first_one_is_not_lost() {
    let mut pair = Pair::new();
    pair.receive_on(Side::A, 2, YEAR_S);
    pair.receive_on(Side::B, 1, YEAR_S);
    pair.receive_on(Side::B, 3, YEAR_S);
    assert_eq!((pair.seen.packets, pair.seen.lost), (vec![0, 1, 2, 3], 0));
}

#[test]
fn packets_that_wait_for_the_first_one_have_a_limit() {
    let mut pair = Pair::empty();
    pair.arbiter.config.early_bytes_max = 30;
    (2..=4).for_each(|sequence| pair.receive_on(Side::A, sequence, 9));
    assert_eq!(
        (pair.seen.packets, pair.seen.begins),
        (vec![2, 3, 4], vec![2])
    );
}
