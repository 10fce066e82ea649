//! A message in steady state costs no allocation.

use tidewire_counting_allocator::{CountingAllocator, allocations_of};
use tidewire_zmtp::{Config, Connection, Event, PrefixTable, SocketType, encode_frame};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn connect(left: Config, right: Config) -> (Connection, Connection) {
    let (mut left, mut right) = (Connection::new(left, 0), Connection::new(right, 0));
    let (mut to_left, mut to_right) = (Vec::new(), Vec::new());
    while !(left.is_ready() && right.is_ready()) {
        to_right.append(left.outgoing());
        to_left.append(right.outgoing());
        to_right.drain(..right.receive(&to_right, 0).unwrap().consumed);
        to_left.drain(..left.receive(&to_left, 0).unwrap().consumed);
    }
    (left, right)
}

/// Reads all of a stream; the bytes of bodies and topics in it.
fn drain(connection: &mut Connection, stream: &[u8]) -> usize {
    let mut at = 0;
    let mut bytes = 0;
    loop {
        let step = connection.receive(&stream[at..], 0).unwrap();
        at += step.consumed;
        bytes += match step.event {
            Some(Event::Frame { body, .. }) => body.len(),
            Some(Event::FrameChunk { bytes, .. }) => bytes.len(),
            Some(Event::Subscribe(topic) | Event::Cancel(topic)) => topic.len(),
            Some(_) => 0,
            None if step.consumed == 0 => return bytes,
            None => 0,
        };
    }
}

#[test]
fn frames_subscriptions_and_heartbeats_allocate_nothing() {
    let streamed = Config {
        stream_above_bytes: Some(1000),
        ..Config::new(SocketType::Xpub)
    };
    let (mut xsub, mut xpub) = connect(Config::new(SocketType::Xsub), streamed);
    let mut out = Vec::with_capacity(1 << 20);
    let mut pongs = 0;
    let counted = allocations_of(|| {
        for _ in 0..100 {
            out.clear();
            xsub.encode_subscribe(&mut out, b"md:AAPL");
            encode_frame(&mut out, b"topic", true);
            encode_frame(&mut out, &[b'x'; 500], false);
            xsub.encode_cancel(&mut out, b"md:AAPL");
            out.extend_from_slice(b"\x04\x07\x04PING\x00\x00");
            encode_frame(&mut out, &[b'x'; 5000], false);
            let (first, second) = out.split_at(out.len() - 1000);
            assert_eq!(
                drain(&mut xpub, first) + drain(&mut xpub, second),
                7 + 505 + 7 + 5000
            );
            pongs += xpub.outgoing().len();
            xpub.outgoing().clear();
        }
    });
    assert_eq!((counted, pongs), (0, 700));
}

#[test]
fn a_match_allocates_nothing() {
    let mut table = PrefixTable::new();
    for subscriber in 0..100u64 {
        table.insert(b"md:", subscriber);
        table.insert(b"md:AAPL", subscriber);
        table.insert(format!("md:{subscriber}").as_bytes(), subscriber);
    }
    let mut found = 0;
    let counted = allocations_of(|| {
        for _ in 0..100 {
            table.matches(b"md:AAPL:bid", &mut |_| found += 1);
            assert!(table.covers(b"md:7"));
        }
    });
    assert_eq!((counted, found), (0, 10_000));
}
