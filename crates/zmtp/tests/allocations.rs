//! A message in steady state needs no allocation.

use tidewire_memory::counting::{CountingAllocator, allocations_of};
use tidewire_zmtp::curve::{Keypair, SecretKey, public_from_secret};
use tidewire_zmtp::{
    Config, Connection, Event, Heartbeat, PrefixTable, Security, SocketType, encode_frame,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn connect(left: Config, right: Config) -> (Connection, Connection) {
    let (mut left, mut right) = (Connection::new(left, 0), Connection::new(right, 0));
    let (mut to_left, mut to_right) = (Vec::new(), Vec::new());
    while !(left.is_ready() && right.is_ready()) {
        to_right.append(left.outgoing());
        to_left.append(right.outgoing());
        let step = right.receive(&to_right, 0).unwrap();
        let asks = matches!(step.event, Some(Event::Authenticate(_)));
        to_right.drain(..step.consumed);
        if asks {
            right.accept().unwrap();
        }
        to_left.drain(..left.receive(&to_left, 0).unwrap().consumed);
    }
    (left, right)
}

/// Reads a whole stream. Returns the bytes of its bodies and topics.
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

#[test]
fn encrypted_messages_of_any_length_allocate_nothing() {
    let secret = |seed| SecretKey::new([seed; 32]);
    let keys = Keypair {
        public: public_from_secret(&secret(1)),
        secret: secret(1),
    };
    let client = Config {
        security: Security::CurveClient {
            keys,
            server_key: public_from_secret(&secret(2)),
        },
        heartbeat: Some(Heartbeat::every(1_000_000_000)),
        ..Config::new(SocketType::Xsub)
    };
    let server = Config {
        security: Security::CurveServer {
            secret_key: secret(2),
        },
        ..Config::new(SocketType::Xpub)
    };
    let (mut xsub, mut xpub) = connect(client, server);
    let mut out = Vec::with_capacity(2 << 20);
    let big = vec![b'x'; 1 << 20];
    let mut now_ns = 0;
    let mut exchange = || {
        out.clear();
        now_ns += 1_000_000_000;
        xsub.timeout(now_ns).unwrap();
        xsub.encode_subscribe(&mut out, b"md:AAPL");
        xsub.encode_message_frame(&mut out, b"topic", true);
        xsub.encode_message_frame(&mut out, &big, false);
        xsub.encode_cancel(&mut out, b"md:AAPL");
        assert_eq!(drain(&mut xpub, &out), 7 + 5 + (1 << 20) + 7);
        out.clear();
        out.append(xpub.outgoing());
        assert_eq!(drain(&mut xsub, &out), 0);
    };
    exchange();
    let counted = allocations_of(|| (0..20).for_each(|_| exchange()));
    assert_eq!(counted, 0);
}
