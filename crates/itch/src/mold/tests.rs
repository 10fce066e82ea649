//! Streams over lines that lose, repeat and reorder packets, and the receiver's output.

use proptest::prelude::*;

use super::*;
use crate::sequenced::{SequencedSink, SessionName, Store};
use tidewire_feed::client::{Gap, LossReason, Side};

#[derive(Default)]
struct Seen {
    messages: Vec<(u64, Vec<u8>)>,
    gaps: Vec<Gap>,
    sessions: Vec<SessionName>,
    end: Option<u64>,
    /// Each change of the doubt, and the sequences at which the stream was joined late.
    doubts: Vec<bool>,
    late: Vec<u64>,
}

impl SequencedSink for Seen {
    fn message(&mut self, sequence: u64, message: &[u8]) {
        self.messages.push((sequence, message.to_vec()));
    }

    fn gap(&mut self, gap: Gap) {
        self.gaps.push(gap);
    }

    fn values_doubtful(&mut self) {
        self.doubts.push(true);
    }

    fn values_right(&mut self) {
        self.doubts.push(false);
    }

    fn joined_late(&mut self, next_sequence: u64) {
        self.late.push(next_sequence);
    }

    fn session(&mut self, session: SessionName) {
        self.sessions.push(session);
    }

    fn end_of_session(&mut self, next_sequence: u64) {
        self.end = Some(next_sequence);
    }
}

fn message(sequence: u64) -> Vec<u8> {
    vec![sequence as u8; 1 + sequence as usize * 7 % 45]
}

fn datagram(session: &str, sequence: u64, messages: &[&[u8]]) -> Vec<u8> {
    let header = Header {
        session: SessionName::new(session),
        sequence,
        count: messages.len() as u16,
    };
    let mut bytes = header.to_bytes().to_vec();
    for message in messages {
        bytes.extend((message.len() as u16).to_be_bytes());
        bytes.extend(*message);
    }
    bytes
}

fn special(session: &str, sequence: u64, count: u16) -> Vec<u8> {
    let session = SessionName::new(session);
    let header = Header {
        session,
        sequence,
        count,
    };
    header.to_bytes().to_vec()
}

#[test]
fn a_packet_has_the_bytes_that_nasdaq_gives_it() {
    let bytes = b"0000000001\0\0\0\0\0\0\0\x07\0\x02\0\x03abc\0\x01d";
    let packet = decode_packet(bytes).unwrap();
    assert_eq!(packet.header.session, SessionName::new("0000000001"));
    assert_eq!((packet.header.sequence, packet.header.count), (7, 2));
    let messages: Vec<_> = packet.messages().map(Result::unwrap).collect();
    assert_eq!(messages, [&b"abc"[..], b"d"]);
    assert_eq!(datagram("0000000001", 7, &[b"abc", b"d"]), bytes);
    assert_eq!(packet.header.to_bytes(), bytes[..20]);
    assert_eq!(decode_packet(&bytes[..19]), Err(PacketError::NoHeader(19)));
    let cut = decode_packet(&bytes[..27]).unwrap();
    let read: Vec<_> = cut.messages().collect();
    assert_eq!(read, [Ok(&b"abc"[..]), Err(PacketError::Truncated)]);
}

fn live_only() -> ReceiverConfig {
    ReceiverConfig {
        requests: false,
        ..ReceiverConfig::default()
    }
}

#[test]
fn two_lines_make_one_stream_and_each_is_counted() {
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    let packet = |sequence: u64| datagram("S", sequence, &[b"x"]);
    for (side, sequence) in [
        (Side::A, 1),
        (Side::B, 1),
        (Side::A, 2),
        (Side::A, 4),
        (Side::B, 2),
        (Side::B, 3),
        (Side::B, 4),
    ] {
        receiver
            .receive(side, &packet(sequence), 1, &mut seen)
            .unwrap();
    }
    let sequences: Vec<u64> = seen
        .messages
        .iter()
        .map(|(sequence, _)| *sequence)
        .collect();
    assert_eq!(sequences, [1, 2, 3, 4]);
    let opened = Gap::Opened { from: 3, count: 1 };
    assert_eq!(seen.gaps, [opened, Gap::Recovered { from: 3, count: 1 }]);
    assert_eq!(receiver.side_counters(Side::A).lost, 1);
    assert_eq!(receiver.side_counters(Side::B).lost, 0);
    assert_eq!(receiver.side_counters(Side::B).duplicate, 3);
    assert_eq!(receiver.deadline_ns(), u64::MAX);
}

#[test]
fn values_are_in_doubt_while_a_server_does_not_answer_and_right_when_it_does() {
    let (mut receiver, mut seen) = (Receiver::new(ReceiverConfig::default()), Seen::default());
    for sequence in [1, 3] {
        let packet = datagram("S", sequence, &[b"x"]);
        receiver.receive(Side::A, &packet, 0, &mut seen).unwrap();
    }
    // The first request is due after 1 ms.
    while receiver.deadline_ns() < 51_000_000 {
        receiver.handle_timeout(receiver.deadline_ns(), &mut seen);
        while receiver.take_request().is_some() {}
    }
    assert_eq!(seen.doubts, []);
    assert_eq!(receiver.deadline_ns(), 51_000_000);
    receiver.handle_timeout(51_000_000, &mut seen);
    assert_eq!(seen.doubts, [true]);
    assert!(receiver.deadline_ns() > 51_000_000, "it is said once");
    let answer = datagram("S", 2, &[b"x"]);
    receiver
        .receive_answer(&answer, 52_000_000, &mut seen)
        .unwrap();
    assert_eq!((seen.messages.len(), seen.doubts), (3, vec![true, false]));
    assert_eq!(receiver.deadline_ns(), u64::MAX);
}

#[test]
fn a_stream_that_is_joined_late_without_a_server_is_incomplete() {
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    let packet = datagram("S", 100_000, &[b"x"]);
    receiver.receive(Side::A, &packet, 0, &mut seen).unwrap();
    assert_eq!(seen.late, [100_000]);
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    let packet = datagram("S", 1, &[b"x"]);
    receiver.receive(Side::A, &packet, 0, &mut seen).unwrap();
    assert_eq!(seen.late, []);
}

#[test]
fn who_cannot_ask_waits_and_says_what_is_lost() {
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    receiver
        .receive(Side::A, &datagram("S", 1, &[b"a"]), 0, &mut seen)
        .unwrap();
    receiver
        .receive(Side::A, &datagram("S", 4, &[b"d"]), 0, &mut seen)
        .unwrap();
    assert_eq!(receiver.take_request(), None);
    receiver.handle_timeout(99_999_999, &mut seen);
    assert_eq!(seen.messages.len(), 1);
    assert_eq!(receiver.deadline_ns(), 100_000_000);
    receiver.handle_timeout(100_000_000, &mut seen);
    assert_eq!(seen.messages.len(), 2);
    let (from, count, reason) = (2, 2, LossReason::NoAnswer);
    assert_eq!(
        seen.gaps[1],
        Gap::Lost {
            from,
            count,
            reason
        }
    );
    assert_eq!((receiver.counters().lost, receiver.next_sequence()), (2, 5));
}

#[test]
fn a_session_ends_when_everything_has_come() {
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    receiver
        .receive(Side::A, &datagram("S", 1, &[b"a"]), 0, &mut seen)
        .unwrap();
    receiver
        .receive(Side::A, &special("S", 3, 0xFFFF), 0, &mut seen)
        .unwrap();
    assert_eq!(seen.end, None, "2 is missing");
    receiver
        .receive(Side::B, &datagram("S", 2, &[b"b"]), 0, &mut seen)
        .unwrap();
    assert_eq!((seen.end, receiver.is_ended()), (Some(3), true));
    // The next day.
    receiver
        .receive(Side::A, &datagram("T", 1, &[b"c"]), 0, &mut seen)
        .unwrap();
    assert_eq!(
        seen.sessions,
        [SessionName::new("S"), SessionName::new("T")]
    );
    assert_eq!(seen.messages.last(), Some(&(1, b"c".to_vec())));
}

#[test]
fn another_session_takes_over_only_from_one_that_is_silent() {
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    let other = datagram("T", 1, &[b"t"]);
    receiver
        .receive(Side::A, &datagram("S", 1, &[b"a"]), 0, &mut seen)
        .unwrap();
    receiver
        .receive(Side::B, &datagram("S", 2, &[b"a"]), 0, &mut seen)
        .unwrap();
    receiver
        .receive(Side::A, &other, 2_999_999_999, &mut seen)
        .unwrap();
    assert_eq!((seen.messages.len(), receiver.counters().foreign), (2, 1));
    for (sequence, sessions) in [(1, 1), (2, 2)] {
        let other = datagram("T", sequence, &[b"t"]);
        receiver
            .receive(Side::A, &other, 3_000_000_000, &mut seen)
            .unwrap();
        assert_eq!(seen.sessions.len(), sessions, "one may be a stray");
    }
    assert_eq!(seen.messages.len(), 4);
}

#[test]
fn a_packet_that_is_cut_gives_what_is_whole() {
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    let mut packet = datagram("S", 1, &[b"abc", b"def"]);
    packet.pop();
    let result = receiver.receive(Side::A, &packet, 0, &mut seen);
    assert_eq!(result, Err(PacketError::Truncated));
    assert_eq!((seen.messages.len(), receiver.next_sequence()), (1, 2));
    let early = &datagram("S", 9, &[b"abc", b"def"])[..27];
    assert!(receiver.receive(Side::A, early, 0, &mut seen).is_err());
    assert_eq!(
        receiver.highest_sequence(),
        2,
        "what cannot be used shows nothing"
    );
    assert!(receiver.receive(Side::A, b"short", 0, &mut seen).is_err());
    assert_eq!(receiver.side_counters(Side::A).corrupt, 3);
}

/// A receiver and the packets of a line, one each millisecond.
struct OneLine {
    receiver: Receiver,
    seen: Seen,
    now_ns: u64,
}

impl OneLine {
    fn new(config: ReceiverConfig) -> Self {
        Self {
            receiver: Receiver::new(config),
            seen: Seen::default(),
            now_ns: 0,
        }
    }

    fn take(&mut self, datagram: &[u8]) -> &mut Self {
        self.now_ns += 1_000_000;
        let Self {
            receiver,
            seen,
            now_ns,
        } = self;
        receiver.receive(Side::A, datagram, *now_ns, seen).unwrap();
        receiver.handle_timeout(*now_ns, seen);
        while receiver.take_request().is_some() {}
        self
    }

    fn data(&mut self, sequence: u64) -> &mut Self {
        self.take(&datagram("S", sequence, &[b"x"]))
    }

    fn wait_ms(&mut self, ms: u64) -> &mut Self {
        self.now_ns += ms * 1_000_000;
        self.receiver.handle_timeout(self.now_ns, &mut self.seen);
        while self.receiver.take_request().is_some() {}
        self
    }
}

#[test]
fn one_stray_packet_or_heartbeat_far_ahead_does_not_end_the_input() {
    for requests in [false, true] {
        for far in [1_000_000, 1 << 63, u64::MAX] {
            for count in [Header::HEARTBEAT, Header::END_OF_SESSION, 1] {
                let mut line = OneLine::new(ReceiverConfig {
                    requests,
                    ..ReceiverConfig::default()
                });
                (1..=10).for_each(|sequence| {
                    line.data(sequence);
                });
                match count {
                    1 => line.data(far),
                    count => line.take(&special("S", far, count)),
                };
                // A quiet line, with heartbeats of the right number.
                for _ in 0..4 {
                    line.wait_ms(1_000).take(&special("S", 11, 0));
                }
                (11..=20).for_each(|sequence| {
                    line.data(sequence);
                });
                assert_eq!(
                    (line.receiver.next_sequence(), line.seen.messages.len()),
                    (21, 20)
                );
                let counters = line.receiver.counters();
                assert_eq!((counters.lost, counters.foreign), (0, 1), "{far} {count}");
                assert_eq!(
                    (&line.seen.gaps[..], &line.seen.doubts[..]),
                    (&[][..], &[][..])
                );
            }
        }
    }
}

#[test]
fn a_jump_is_believed_at_the_second_packet_or_a_repeated_heartbeat() {
    let mut line = OneLine::new(live_only());
    line.data(1).data(2).data(5_001);
    assert_eq!(line.receiver.highest_sequence(), 3);
    line.data(5_001).data(5_002).wait_ms(100);
    assert_eq!(
        (line.receiver.next_sequence(), line.receiver.counters().lost),
        (5_003, 4_998)
    );
    let heartbeat = special("S", 9_000, 0);
    line.take(&heartbeat).take(&heartbeat);
    assert_eq!(
        line.receiver.highest_sequence(),
        5_003,
        "the other line's copy"
    );
    line.wait_ms(1_000).take(&heartbeat);
    assert_eq!(line.receiver.highest_sequence(), 9_000);
}

#[test]
fn an_end_of_the_past_and_an_end_before_further_messages_are_wrong() {
    let mut line = OneLine::new(live_only());
    line.data(1).data(2).take(&special("S", 2, 0xFFFF));
    assert_eq!((line.receiver.is_ended(), line.seen.end), (false, None));
    line.take(&special("S", 3, 0xFFFF));
    assert!(line.receiver.is_ended());
    line.data(2);
    assert!(line.receiver.is_ended(), "a late copy is no news");
    line.data(3);
    assert!(!line.receiver.is_ended());
    line.take(&special("S", 4, 0xFFFF));
    assert_eq!((line.receiver.is_ended(), line.seen.end), (true, Some(4)));
}

#[test]
fn a_sender_that_restarts_with_the_same_session_begins_it_again() {
    for (requests, first, late) in [(false, 1, None), (false, 4, Some(4)), (true, 4, None)] {
        let mut line = OneLine::new(ReceiverConfig {
            requests,
            ..ReceiverConfig::default()
        });
        (1..=50).for_each(|sequence| {
            line.data(sequence);
        });
        line.data(first);
        assert_eq!(line.receiver.counters().restarts, 0, "a late copy");
        line.wait_ms(3_000);
        let old = datagram("S", first, &[b"new"]);
        assert!(!line.receiver.is_current(&old, line.now_ns));
        line.take(&old);
        assert_eq!(
            (line.seen.sessions.len(), line.receiver.next_sequence()),
            (1, 51)
        );
        line.take(&datagram("S", first + 1, &[b"new"]));
        assert_eq!(line.seen.sessions.len(), 2);
        line.wait_ms(100);
        assert_eq!(line.seen.late.last().copied(), late);
        let expected = if requests { 1 } else { first + 2 };
        assert_eq!(line.receiver.next_sequence(), expected);
        assert_eq!(line.receiver.highest_sequence(), first + 2);
        assert!(!line.receiver.is_current(&old, line.now_ns) || requests);
        let next = datagram("S", first + 2, &[b"new"]);
        assert!(line.receiver.is_current(&next, line.now_ns));
    }
}

/// A line that repeated its last packet, or an old heartbeat, kept all topics current.
#[test]
fn a_line_that_repeats_its_last_packet_is_silent() {
    let silence_ns = live_only().silence_ns_max;
    for (packet, is_alive) in [
        (datagram("S", 50, &[b"50"]), false),
        (datagram("S", 7, &[b"7"]), false),
        (special("S", 3, 0), false),
        (special("S", 50, 0), false),
        (special("T", 51, 0), false),
        (special("S", 51, 0), true),
        (datagram("S", 51, &[b"51"]), true),
    ] {
        let mut line = OneLine::new(live_only());
        (1..=50).for_each(|sequence| {
            line.data(sequence);
        });
        line.wait_ms(2_000);
        assert!(!line.receiver.is_silent(line.now_ns));
        assert_eq!(line.receiver.is_current(&packet, line.now_ns), is_alive);
        line.take(&packet);
        let packets = line.receiver.side_counters(Side::A).packets;
        assert_eq!(packets, 51, "the line's own counter");
        line.wait_ms(2_000);
        assert_eq!(line.receiver.is_silent(line.now_ns), !is_alive);
        assert!(line.receiver.is_silent(line.now_ns + silence_ns));
    }
}

#[test]
fn an_old_packet_after_a_silence_is_a_stray_if_the_stream_goes_on() {
    let mut line = OneLine::new(live_only());
    (1..=50).for_each(|sequence| {
        line.data(sequence);
    });
    line.wait_ms(5_000).data(7).data(51).data(8);
    assert_eq!(
        (line.seen.sessions.len(), line.receiver.next_sequence()),
        (1, 52)
    );
}

/// The first datagram of all was a stray of another session: it was taken for the session, and the
/// real one was left out for three seconds.
#[test]
fn a_stray_that_comes_first_does_not_shut_out_the_session_that_goes_on() {
    for requests in [false, true] {
        for (sequence, count) in [
            (1, 1),
            (9_000_000, 1),
            (9_000_000, Header::HEARTBEAT),
            (9_000_000, Header::END_OF_SESSION),
        ] {
            let mut line = OneLine::new(ReceiverConfig {
                requests,
                ..ReceiverConfig::default()
            });
            match count {
                1 => line.take(&datagram("T", sequence, &[b"t"])),
                count => line.take(&special("T", sequence, count)),
            };
            (1..=4).for_each(|sequence| {
                line.data(sequence);
            });
            let sessions = ["T", "S"].map(SessionName::new);
            assert_eq!(line.seen.sessions, sessions, "{sequence} {count}");
            let own = line.seen.messages.iter().filter(|(_, bytes)| bytes == b"x");
            assert_eq!(own.count(), 4);
            assert_eq!(line.receiver.next_sequence(), 5);
            assert_eq!(line.receiver.counters().lost, 0);
            assert!(!line.receiver.is_silent(line.now_ns));
        }
    }
}

/// A stray of the right session with a number far ahead made packets of hours missing, or all
/// packets old ones.
#[test]
fn the_number_of_a_stray_that_comes_first_does_not_shut_out_its_session() {
    for requests in [false, true] {
        for stray in [40, 1 << 40, u64::MAX] {
            let mut line = OneLine::new(ReceiverConfig {
                requests,
                ..ReceiverConfig::default()
            });
            let first = if requests { 1 } else { 5_000 };
            line.data(stray).data(stray);
            (first..first + 4).for_each(|sequence| {
                line.data(sequence);
            });
            let is_near = requests && stray == 40;
            let next = line.receiver.next_sequence();
            assert_eq!((next, line.seen.doubts.len()), (first + 4, 0), "{stray}");
            assert_eq!(line.receiver.counters().lost, 0);
            let highest = if is_near { 41 } else { next };
            assert_eq!(line.receiver.highest_sequence(), highest);
        }
    }
}

/// The second copy of a stray, on the other line, is no second packet.
#[test]
fn a_session_is_confirmed_by_its_second_packet_and_then_stays() {
    let mut line = OneLine::new(live_only());
    let stray = datagram("T", 7, &[b"t"]);
    line.data(1).take(&stray).take(&stray).data(2);
    (8..=12).for_each(|sequence| {
        line.take(&datagram("T", sequence, &[b"t"]));
    });
    assert_eq!(line.seen.sessions, [SessionName::new("S")]);
    assert_eq!(line.receiver.next_sequence(), 3);
    // One packet ends no session that is silent, and counts no more when that goes on.
    line.wait_ms(3_000).take(&stray).data(3).wait_ms(3_000);
    line.take(&datagram("T", 8, &[b"t"]));
    assert_eq!(line.seen.sessions.len(), 1);
    line.take(&datagram("T", 9, &[b"t"]));
    assert_eq!(line.seen.sessions.len(), 2);
    line.wait_ms(100);
    let last = line.seen.messages.last().map(|(sequence, _)| *sequence);
    assert_eq!(last, Some(9));
}

/// One line is behind the other where the session is joined.
#[test]
fn late_packets_of_the_other_line_do_not_begin_a_session_again() {
    let mut line = OneLine::new(live_only());
    line.data(5_000).data(4_998).data(4_999).data(5_000);
    line.data(5_001);
    assert_eq!(line.receiver.counters().restarts, 0);
    assert_eq!(line.receiver.next_sequence(), 5_002);
}

#[test]
fn requests_are_answered_from_what_is_kept_and_was_sent() {
    let mut store = Store::new(SessionName::new("S"), 64);
    let (mut sender, mut out) = (Sender::new(SenderConfig::default()), Vec::new());
    (1..=100).for_each(|sequence| assert!(store.append(&message(sequence)).is_ok()));
    while sender.next_sequence() < 101 {
        assert!(sender.next_packet(&store, 0, &mut out));
    }
    store.append(b"not sent yet").unwrap();
    let mut answered = |session: &str, sequence, count| {
        let mut sequences = Vec::new();
        let request = special(session, sequence, count);
        sender.answer(&store, &request, &mut out, |packet| {
            assert!(packet.len() <= 1_472);
            let packet = decode_packet(packet).unwrap();
            for (at, message) in packet.messages().enumerate() {
                let sequence = packet.header.sequence + at as u64;
                assert_eq!(message.unwrap(), self::message(sequence));
                sequences.push(sequence);
            }
        });
        sequences
    };
    assert_eq!(answered("S", 50, 3), [50, 51, 52]);
    assert_eq!(answered("S", 99, 9), [99, 100]);
    assert_eq!(answered("S", 40, 60).len(), 60);
    assert!(answered("S", 1, 3).is_empty(), "not kept");
    assert!(answered("T", 50, 3).is_empty());
    assert!(answered("S", 101, 1).is_empty());
}

/// The seeded random choices of a bad line.
struct Random(u64);

impl Random {
    fn happens(&mut self, percent: u64) -> bool {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % 100 < percent
    }
}

/// Sends `count` messages over two bad lines and answers requests over a third.
fn run(seed: u64, count: u64, loss: u64, single: bool, join_at: u64) -> (Seen, Receiver) {
    let mut random = Random(seed);
    let mut store = Store::new(SessionName::new("S"), 1 << 16);
    let mut sender = Sender::new(SenderConfig::default());
    let mut receiver = Receiver::new(ReceiverConfig::default());
    let (mut seen, mut out, mut now_ns) = (Seen::default(), Vec::new(), 0);
    let mut held: Vec<(Side, Vec<u8>)> = Vec::new();
    for _ in 0..200_000 {
        now_ns += 100_000;
        if store.next_sequence() <= count {
            for _ in 0..random.0 % 9 {
                store.append(&message(store.next_sequence())).unwrap();
            }
        } else {
            store.end_session();
        }
        while sender.next_packet(&store, now_ns, &mut out) {
            if sender.next_sequence() <= join_at {
                continue;
            }
            for side in Side::ALL {
                if random.happens(loss) {
                    continue;
                }
                if random.happens(loss) {
                    held.push((side, out.clone()));
                    continue;
                }
                receiver.receive(side, &out, now_ns, &mut seen).unwrap();
                if random.happens(loss) {
                    receiver.receive(side, &out, now_ns, &mut seen).unwrap();
                }
            }
        }
        if random.happens(50) {
            for (side, packet) in held.drain(..) {
                receiver.receive(side, &packet, now_ns, &mut seen).unwrap();
            }
        }
        receiver.handle_timeout(now_ns, &mut seen);
        while let Some(request) = receiver.take_request() {
            if random.happens(loss) {
                continue;
            }
            let (mut answers, mut answer) = (Vec::new(), Vec::new());
            sender.answer(&store, &request, &mut answer, |packet| {
                answers.push(packet.to_vec())
            });
            answers.truncate(if single { 1 } else { usize::MAX });
            for answer in answers {
                if !random.happens(loss) {
                    receiver.receive_answer(&answer, now_ns, &mut seen).unwrap();
                }
            }
        }
        if receiver.is_ended() {
            break;
        }
    }
    (seen, receiver)
}

fn is_complete(seen: &Seen, receiver: &Receiver, count: u64) {
    let until = receiver.next_sequence();
    assert!(
        seen.end == Some(until) && until > count,
        "{:?}",
        receiver.counters()
    );
    assert_eq!(receiver.counters().lost, 0);
    assert_eq!(seen.messages.len() as u64, until - 1);
    for (index, (sequence, bytes)) in seen.messages.iter().enumerate() {
        assert_eq!((*sequence, bytes), (index as u64 + 1, &message(*sequence)));
    }
}

#[test]
fn nothing_is_lost_on_two_lines_that_each_lose_five_per_cent() {
    let (seen, receiver) = run(1, 50_000, 5, false, 0);
    is_complete(&seen, &receiver, 50_000);
    assert!(receiver.side_counters(Side::A).lost > 1_000);
    assert!(receiver.side_counters(Side::B).lost > 1_000);
}

#[test]
fn who_joins_late_gets_everything_from_the_first_message() {
    for single in [false, true] {
        let (seen, receiver) = run(2, 40_000, 1, single, 30_000);
        is_complete(&seen, &receiver, 40_000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn order_and_completeness_hold_for_any_seed(seed: u64, loss in 0..30_u64, single: bool) {
        let (seen, receiver) = run(seed, 500, loss, single, seed % 300);
        is_complete(&seen, &receiver, 500);
    }

    #[test]
    fn any_datagrams_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        crate::fuzzing::fuzz_mold(&bytes);
    }
}

fn receive(receiver: &mut Receiver, seen: &mut Seen, (side, packet): (Side, Vec<u8>), now_ns: u64) {
    receiver.receive(side, &packet, now_ns, seen).unwrap();
}

fn sequences(seen: &Seen) -> Vec<u64> {
    let sequences = seen.messages.iter().map(|(sequence, _)| *sequence);
    sequences.collect()
}

/// A packet of line A at the moment of the first one of line B was taken for a late start: all
/// topics were in doubt until the next session.
#[test]
fn the_first_packet_may_come_on_the_line_that_is_behind() {
    let packet = |sequence: u64| datagram("S", sequence, &[b"x"]);
    for first in [packet(3), special("S", 3, Header::HEARTBEAT)] {
        let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
        receive(&mut receiver, &mut seen, (Side::A, first), 5);
        receive(&mut receiver, &mut seen, (Side::A, packet(4)), 6);
        assert!(seen.messages.is_empty() && receiver.deadline_ns() == 100_000_005);
        for sequence in 1..=4 {
            receive(&mut receiver, &mut seen, (Side::B, packet(sequence)), 7);
        }
        assert_eq!(sequences(&seen), [1, 2, 3, 4]);
        assert_eq!((seen.late, receiver.counters().lost), (vec![], 0));
        assert_eq!(receiver.deadline_ns(), u64::MAX);
    }
}

#[test]
fn a_late_start_near_the_beginning_is_one_when_nothing_came_before_it_in_time() {
    let packet = |sequence: u64| datagram("S", sequence, &[b"x"]);
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    for (side, sequence) in [(Side::A, 9), (Side::A, 10), (Side::B, 7), (Side::B, 9)] {
        receive(&mut receiver, &mut seen, (side, packet(sequence)), 1);
    }
    receiver.handle_timeout(100_000_000, &mut seen);
    assert!(seen.messages.is_empty() && seen.late.is_empty());
    receiver.handle_timeout(100_000_001, &mut seen);
    assert_eq!((sequences(&seen), seen.late), (vec![7, 9, 10], vec![7]));
    assert_eq!(
        (receiver.counters().lost, receiver.next_sequence()),
        (1, 11)
    );
    // A heartbeat alone, and the end of a recording of lines.
    for finishes in [false, true] {
        let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
        let heartbeat = special("S", 1_000, Header::HEARTBEAT);
        receive(&mut receiver, &mut seen, (Side::A, heartbeat), 1);
        match finishes {
            true => receiver.finish(&mut seen),
            false => receiver.handle_timeout(100_000_001, &mut seen),
        }
        assert_eq!((seen.late, receiver.next_sequence()), (vec![1_000], 1_000));
    }
}

#[test]
fn what_is_missing_behind_the_first_message_is_lost_and_no_late_start() {
    let packet = |sequence: u64| datagram("S", sequence, &[b"x"]);
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    for sequence in [4, 1, 2] {
        receive(&mut receiver, &mut seen, (Side::A, packet(sequence)), 1);
    }
    assert_eq!(sequences(&seen), [1, 2]);
    receiver.handle_timeout(receiver.deadline_ns(), &mut seen);
    assert_eq!((sequences(&seen), seen.late), (vec![1, 2, 4], vec![]));
    assert_eq!((receiver.counters().lost, receiver.counters().gaps), (1, 1));
    assert_eq!(receiver.deadline_ns(), u64::MAX);
}

#[test]
fn a_session_that_is_replaced_while_its_beginning_is_awaited_is_joined_late() {
    let (mut receiver, mut seen) = (Receiver::new(live_only()), Seen::default());
    for (session, sequence) in [("S", 5), ("T", 3), ("T", 4), ("T", 1), ("T", 2)] {
        let packet = datagram(session, sequence, &[b"x"]);
        receive(&mut receiver, &mut seen, (Side::A, packet), 1);
    }
    assert_eq!(
        (sequences(&seen), seen.late),
        (vec![5, 1, 2, 3, 4], vec![5])
    );
}
