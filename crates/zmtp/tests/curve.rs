//! CURVE from end to end, with unknown peers, stolen keys and tampered data.

mod common;

use common::{Seen, Side, libzmq_greeting, ready_pair, wire};
use proptest::prelude::*;
use tidewire_zmtp::curve::{Keypair, SecretKey};
use tidewire_zmtp::{
    CommandName, Config, Error, Heartbeat, Limits, NotAsked, Security, SocketType,
};

/// The key pairs of libzmq's own tests, from their secret keys.
fn keys(seed: u8) -> Keypair {
    let secret = SecretKey::new([seed; 32]);
    Keypair {
        public: tidewire_zmtp::curve::public_from_secret(&secret),
        secret,
    }
}

fn client(socket_type: SocketType) -> Config {
    let security = Security::CurveClient {
        keys: keys(1),
        server_key: keys(2).public,
    };
    Config {
        security,
        ..Config::new(socket_type)
    }
}

fn server(socket_type: SocketType) -> Config {
    let security = Security::CurveServer {
        secret_key: keys(2).secret,
    };
    Config {
        security,
        ..Config::new(socket_type)
    }
}

/// Returns a client and a server after this number of commands in both directions.
fn pair() -> (Side, Side) {
    ready_pair(client(SocketType::Dealer), server(SocketType::Router))
}

fn frame(side: &mut Side, body: &[u8], more: bool) -> Vec<u8> {
    let mut out = Vec::new();
    side.connection.encode_message_frame(&mut out, body, more);
    out
}

/// Carries one side's output to the other. Returns the output.
fn carry(from: &mut Side, to: &mut Side) -> Vec<u8> {
    let bytes = from.sent();
    to.feed(&bytes, 0);
    bytes
}

/// Returns both sides after their greetings, and the client's HELLO, not yet carried.
fn greeted(client: Config, server: Config) -> (Side, Side, Vec<u8>) {
    let (mut left, mut right) = (Side::new(client), Side::new(server));
    let mut hello = Vec::new();
    while hello.len() < 100 {
        carry(&mut right, &mut left);
        hello = left.sent();
        if hello.len() < 100 {
            right.feed(&hello, 0);
        }
    }
    (left, right, hello)
}

#[test]
fn a_client_is_let_in_by_its_key_and_talks_in_secret() {
    let (mut left, mut right) = (
        Side::new(client(SocketType::Dealer)),
        Side::new(server(SocketType::Router)),
    );
    wire(&mut left, &mut right, || 7);
    let asked = Seen::AuthenticateCurve(keys(1).public);
    assert_eq!(right.seen, [asked, Seen::Ready]);
    assert_eq!(left.seen, [Seen::Ready]);
    assert!(left.connection.encrypts() && right.connection.encrypts());
    let peer = right.connection.peer().unwrap();
    assert_eq!(peer.socket_type, Some(SocketType::Dealer));
    left.seen.clear();
    right.seen.clear();

    let mut wire = frame(&mut left, b"attack", true);
    wire.extend(frame(&mut left, b"at dawn", false));
    wire.extend(frame(&mut left, b"", false));
    assert!(!wire.windows(6).any(|part| part == b"attack"));
    right.feed(&wire, 0);
    let expected = [
        Seen::Frame(b"attack".into(), true),
        Seen::Frame(b"at dawn".into(), false),
        Seen::Frame(b"".into(), false),
    ];
    assert_eq!(right.seen, expected);
    let answer = frame(&mut right, &[7; 70_000], false);
    assert_eq!(answer.len(), 9 + 33 + 70_000);
    left.feed(&answer, 0);
    assert_eq!(left.seen, [Seen::Frame(vec![7; 70_000], false)]);
}

#[test]
fn the_driver_may_refuse_a_key() {
    let (mut left, mut right) = (
        Side::new(client(SocketType::Dealer)),
        Side::new(server(SocketType::Router)),
    );
    right.accepts = false;
    wire(&mut left, &mut right, || 100);
    assert_eq!(right.seen, [Seen::AuthenticateCurve(keys(1).public)]);
    assert!(!right.connection.is_ready());
    right.connection.refuse("400").unwrap();
    left.feed(&right.sent(), 0);
    assert_eq!(left.seen, [Seen::PeerError(b"400".into())]);
    assert_eq!(right.connection.accept(), Err(NotAsked));
}

#[test]
fn a_server_of_another_key_cannot_read_hello() {
    let security = Security::CurveServer {
        secret_key: keys(3).secret,
    };
    let other = Config {
        security,
        ..Config::new(SocketType::Router)
    };
    let (_, mut right, hello) = greeted(client(SocketType::Dealer), other);
    right.feed(&hello, 0);
    assert_eq!(right.error, Some(Error::Cryptographic));
    assert_eq!(right.sent(), b"");
}

/// All peers have the same shared secret with the key of zeros.
#[test]
fn keys_of_small_order_are_refused() {
    let security = Security::CurveClient {
        keys: keys(1),
        server_key: [0; 32],
    };
    let config = Config {
        security,
        ..Config::new(SocketType::Dealer)
    };
    let side = Side::fed(config, &libzmq_greeting("CURVE", 1));
    assert_eq!(side.error, Some(Error::Cryptographic));
}

/// The peer knows a client's public key, but not the secret one.
#[test]
fn a_thief_of_a_public_key_is_caught_by_the_vouch() {
    let security = Security::CurveClient {
        keys: Keypair {
            public: keys(1).public,
            secret: keys(9).secret,
        },
        server_key: keys(2).public,
    };
    let thief = Config {
        security,
        ..Config::new(SocketType::Dealer)
    };
    let (mut left, mut right) = (Side::new(thief), Side::new(server(SocketType::Router)));
    wire(&mut left, &mut right, || 1000);
    assert_eq!(right.error, Some(Error::Cryptographic));
    assert_eq!(right.seen, []);
}

#[test]
fn every_octet_of_the_handshake_counts() {
    let (mut left, mut right, hello) = greeted(client(SocketType::Push), server(SocketType::Pull));
    right.feed(&hello, 0);
    let welcome = carry(&mut right, &mut left);
    let initiate = left.sent();
    let headers = [2, 2, 9];
    for (stage, bytes) in [&hello, &welcome, &initiate].into_iter().enumerate() {
        for at in headers[stage]..bytes.len() {
            // The padding of HELLO is ignored.
            if stage == 0 && (2 + 8..2 + 80).contains(&at) {
                continue;
            }
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            let (mut left, mut right, hello) =
                greeted(client(SocketType::Push), server(SocketType::Pull));
            if stage == 0 {
                right.feed(&changed, 0);
                assert!(right.error.is_some(), "HELLO, octet {at}");
                continue;
            }
            right.feed(&hello, 0);
            if stage == 1 {
                let mut welcome = right.sent();
                welcome[at] ^= 0x40;
                left.feed(&welcome, 0);
                assert!(left.error.is_some(), "WELCOME, octet {at}");
                continue;
            }
            carry(&mut right, &mut left);
            let mut initiate = left.sent();
            initiate[at] ^= 0x40;
            right.feed(&initiate, 0);
            assert!(right.error.is_some(), "INITIATE, octet {at}");
            assert_eq!(right.seen, []);
        }
    }
}

#[test]
fn handshake_commands_have_their_lengths_and_their_order() {
    let hello = Error::MalformedCommand(CommandName::Hello);
    let initiate = Error::MalformedCommand(CommandName::Initiate);
    let (_, mut right, _) = greeted(client(SocketType::Push), server(SocketType::Pull));
    right.feed(b"\x04\x06\x05HELLO", 0);
    assert_eq!(right.error, Some(hello));

    let (_, mut right, mut bytes) = greeted(client(SocketType::Push), server(SocketType::Pull));
    bytes[8] = 2;
    right.feed(&bytes, 0);
    assert_eq!(right.error, Some(hello), "version 2.0");

    let (_, mut right, mut bytes) = greeted(client(SocketType::Push), server(SocketType::Pull));
    bytes[7] = b'X';
    right.feed(&bytes, 0);
    assert_eq!(right.error, Some(Error::UnexpectedCommand));

    let (_, mut right, bytes) = greeted(client(SocketType::Push), server(SocketType::Pull));
    right.feed(&bytes, 0);
    right.feed(b"\x04\x09\x08INITIATE", 0);
    assert_eq!(right.error, Some(initiate));

    let (_, mut right, bytes) = greeted(client(SocketType::Push), server(SocketType::Pull));
    right.feed(&[&bytes[..], &bytes].concat(), 0);
    assert_eq!(right.error, Some(Error::UnexpectedCommand), "HELLO twice");

    let (mut left, mut right, bytes) = greeted(client(SocketType::Push), server(SocketType::Pull));
    right.feed(&bytes, 0);
    let welcome = right.sent();
    left.feed(&welcome, 0);
    left.feed(&welcome, 0);
    assert_eq!(left.error, Some(Error::UnexpectedCommand), "WELCOME twice");
    left.feed(b"", 0);
    assert!(left.connection.receive(b"", 0).is_err());
}

/// The client's identity, and the right to continue, are all in its cookie.
#[test]
fn a_cookie_of_another_connection_is_worth_nothing() {
    let (mut left, mut right, hello) = greeted(client(SocketType::Push), server(SocketType::Pull));
    right.feed(&hello, 0);
    carry(&mut right, &mut left);
    let initiate = left.sent();
    let (_, mut other, hello) = greeted(client(SocketType::Push), server(SocketType::Pull));
    other.feed(&hello, 0);
    other.feed(&initiate, 0);
    assert_eq!(other.error, Some(Error::Cryptographic));
}

#[test]
fn messages_cannot_be_changed_replayed_or_sent_in_clear() {
    let (mut left, mut right) = pair();
    let first = frame(&mut left, b"first", false);
    let second = frame(&mut left, b"second", false);
    for at in 2..first.len() {
        let (mut left, mut right) = pair();
        let mut changed = frame(&mut left, b"first", false);
        changed[at] ^= 1;
        right.feed(&changed, 0);
        assert!(right.error.is_some(), "octet {at}");
        assert_eq!(right.seen, []);
    }
    right.feed(&first, 0);
    right.feed(&first, 0);
    assert_eq!(right.error, Some(Error::NonceNotIncreasing));

    let (mut left, mut right) = pair();
    let (first, later) = (
        frame(&mut left, b"first", false),
        frame(&mut left, b"later", false),
    );
    right.feed(&later, 0);
    right.feed(&first, 0);
    assert_eq!(right.error, Some(Error::NonceNotIncreasing));
    drop(second);

    for (bytes, error) in [
        (&b"\x00\x05clear"[..], CommandName::Unnamed),
        (b"\x00\x00", CommandName::Unnamed),
        (b"\x04\x01\x00", CommandName::Unnamed),
        (b"\x00\x08\x07MESSAGE", CommandName::Message),
        (
            b"\x00\x20\x07MESSAGE\0\0\0\0\0\0\0\x09................",
            CommandName::Message,
        ),
    ] {
        let (_, mut right) = pair();
        right.feed(bytes, 0);
        assert_eq!(right.error, Some(Error::MalformedCommand(error)));
    }
    let (_, mut right) = pair();
    right.feed(b"\x04\x0a\x05ERROR\x03bye", 0);
    assert_eq!(right.error, Some(Error::UnexpectedCommand));
    let (_, mut right) = pair();
    right.feed(b"\x01\x08\x07MESSAGE", 0);
    assert_eq!(right.error, Some(Error::CommandWithMore));
}

#[test]
fn limits_hold_inside_boxes() {
    let limits = Limits {
        frame_bytes_max: 100,
        command_bytes_max: 50,
        subscription_bytes_max: 4,
        ..Limits::default()
    };
    for (length, error) in [(100, false), (101, true)] {
        let config = Config {
            limits,
            ..server(SocketType::Pull)
        };
        let (mut left, mut right) = ready_pair(client(SocketType::Push), config);
        let bytes = frame(&mut left, &vec![1; length], false);
        right.feed(&bytes, 0);
        assert_eq!(right.error.is_some(), error, "{length}");
    }
    let config = Config {
        limits,
        ..server(SocketType::Xpub)
    };
    let (mut left, mut right) = ready_pair(client(SocketType::Xsub), config);
    let mut out = Vec::new();
    left.connection.encode_subscribe(&mut out, b"four");
    left.connection.encode_subscribe(&mut out, b"five!");
    right.feed(&out, 0);
    assert_eq!(right.seen, [Seen::Subscribe(b"four".into())]);
    let (length, limit) = (5, 4);
    assert_eq!(right.error, Some(Error::FrameTooLong { length, limit }));
}

#[test]
fn subscriptions_go_through_boxes_in_both_forms() {
    for minor in [0, 1] {
        let config = Config {
            version: match minor {
                0 => tidewire_zmtp::Version::V3_0,
                _ => tidewire_zmtp::Version::V3_1,
            },
            ..client(SocketType::Xsub)
        };
        let (mut left, mut right) = ready_pair(config, server(SocketType::Xpub));
        let mut out = Vec::new();
        left.connection.encode_subscribe(&mut out, b"A");
        left.connection.encode_cancel(&mut out, b"");
        left.connection
            .encode_message_frame(&mut out, b"\x01B", false);
        left.connection.encode_message_frame(&mut out, b"up", true);
        left.connection.encode_message_frame(&mut out, b"", false);
        right.feed(&out, 0);
        let expected = [
            Seen::Subscribe(b"A".into()),
            Seen::Cancel(b"".into()),
            Seen::Subscribe(b"B".into()),
            Seen::Frame(b"up".into(), true),
            Seen::Frame(b"".into(), false),
        ];
        assert_eq!(right.seen, expected);
    }
}

/// Numbers increase in the order of sending: the connection's own output is sent first.
#[test]
fn heartbeats_keep_the_order_of_numbers() {
    let config = Config {
        heartbeat: Some(Heartbeat::every(1_000_000_000)),
        ..client(SocketType::Dealer)
    };
    let (mut left, mut right) = ready_pair(config, server(SocketType::Router));
    left.connection.timeout(1_000_000_000).unwrap();
    let bytes = frame(&mut left, b"behind a PING", false);
    right.feed(&bytes, 1);
    assert_eq!(right.seen, [Seen::Frame(b"behind a PING".into(), false)]);
    let pong = right.sent();
    assert_eq!(pong.len(), 2 + 33 + 5);
    left.feed(&pong, 1_100_000_000);
    assert_eq!(left.error, None);
    assert_eq!(left.seen, []);
    left.connection.timeout(1_999_999_999).unwrap();
}

proptest! {
    #[test]
    fn random_messages_come_through_in_random_pieces(
        bodies in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..3000), any::<bool>()), 1..12),
        sizes in prop::collection::vec(1..2000usize, 1..20),
    ) {
        let (mut left, mut right) = pair();
        let mut stream = Vec::new();
        for (body, more) in &bodies {
            left.connection.encode_message_frame(&mut stream, body, *more);
        }
        let mut sizes = sizes.into_iter().cycle();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
            right.feed(piece, 0);
            rest = behind;
        }
        prop_assert_eq!(right.error, None);
        let seen: Vec<_> = bodies.into_iter().map(|(body, more)| Seen::Frame(body, more)).collect();
        prop_assert_eq!(right.seen, seen);
    }
}

#[test]
fn encrypted_frames_of_a_message_stay_together_where_the_driver_judges_them() {
    let config = Config {
        whole_messages: true,
        ..server(SocketType::Xpub)
    };
    let (mut left, mut right) = ready_pair(client(SocketType::Xsub), config);
    for (body, more) in [(&b"m"[..], true), (b"\x01a", false), (b"\x01b", false)] {
        let bytes = frame(&mut left, body, more);
        right.feed(&bytes, 0);
    }
    let seen = [
        Seen::Frame(b"m".into(), true),
        Seen::Frame(b"\x01a".into(), false),
        Seen::Subscribe(b"b".into()),
    ];
    assert_eq!(right.seen, seen);
}
