//! ZMTP over WebSocket: from end to end, byte for byte, and with invalid input.

mod common;

use std::sync::Arc;

use common::{Seen, Side};
use proptest::prelude::*;
use tidewire_web::websocket::Origins;
use tidewire_zmtp::curve::{Keypair, SecretKey, public_from_secret};
use tidewire_zmtp::websocket::{self, WebSocket};
use tidewire_zmtp::{Config, Error, Heartbeat, Security, SocketType, Version};

/// A connection behind a WebSocket, with its driver.
struct Peer {
    websocket: WebSocket,
    side: Side,
    input: Vec<u8>,
    error: Option<Error>,
}

impl Peer {
    fn client(config: Config) -> Peer {
        let config = behind(config);
        let websocket = WebSocket::client("localhost:80", "/zmq", &config).unwrap();
        Peer::new(websocket, config)
    }

    fn server(config: Config) -> Peer {
        let config = behind(config);
        Peer::new(WebSocket::server(&config), config)
    }

    fn new(websocket: WebSocket, config: Config) -> Peer {
        Peer {
            websocket,
            side: Side::new(config),
            input: Vec::new(),
            error: None,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut zmtp = Vec::new();
        while self.error.is_none() {
            match self.websocket.receive(&self.input, &mut zmtp) {
                Ok(0) => break,
                Ok(consumed) => drop(self.input.drain(..consumed)),
                Err(error) => self.error = Some(error),
            }
        }
        self.side.feed(&zmtp, 0);
    }

    fn sent(&mut self) -> Vec<u8> {
        let zmtp = self.side.sent();
        self.websocket.send(&zmtp).unwrap();
        std::mem::take(self.websocket.outgoing())
    }

    fn message(&mut self, body: &[u8], more: bool) {
        let mut out = Vec::new();
        let connection = &mut self.side.connection;
        connection.encode_message_frame(&mut out, body, more);
        self.websocket.send(&out).unwrap();
    }
}

fn behind(config: Config) -> Config {
    Config {
        websocket: true,
        ..config
    }
}

fn wire(left: &mut Peer, right: &mut Peer, mut piece: impl FnMut() -> usize) {
    let (mut to_left, mut to_right) = (Vec::new(), Vec::new());
    loop {
        to_right.extend(left.sent());
        to_left.extend(right.sent());
        if to_right.is_empty() && to_left.is_empty() {
            return;
        }
        let count = piece().clamp(1, to_right.len().max(1)).min(to_right.len());
        right.feed(&to_right.drain(..count).collect::<Vec<_>>());
        let count = piece().clamp(1, to_left.len().max(1)).min(to_left.len());
        left.feed(&to_left.drain(..count).collect::<Vec<_>>());
    }
}

/// Returns both directions of a mechanism.
fn mechanisms() -> Vec<(Security, Security)> {
    let secret = |seed| SecretKey::new([seed; 32]);
    let client = Security::PlainClient {
        username: b"user".into(),
        password: b"word".into(),
    };
    let curve = Security::CurveClient {
        keys: Keypair {
            public: public_from_secret(&secret(1)),
            secret: secret(1),
        },
        server_key: public_from_secret(&secret(2)),
    };
    let secret_key = secret(2);
    vec![
        (Security::Null, Security::Null),
        (client, Security::PlainServer),
        (curve, Security::CurveServer { secret_key }),
    ]
}

fn pair(left: Config, right: Config, piece: impl FnMut() -> usize) -> (Peer, Peer) {
    let (mut left, mut right) = (Peer::client(left), Peer::server(right));
    wire(&mut left, &mut right, piece);
    assert!(left.side.connection.is_ready(), "{:?}", left.error);
    assert!(right.side.connection.is_ready(), "{:?}", right.error);
    left.side.seen.clear();
    right.side.seen.clear();
    (left, right)
}

/// Returns a connected subscriber and publisher for each mechanism.
fn subscribers_and_publishers() -> impl Iterator<Item = [Peer; 2]> {
    mechanisms().into_iter().map(|(ours, theirs)| {
        let client = Config {
            security: ours,
            ..Config::new(SocketType::Sub)
        };
        let server = Config {
            security: theirs,
            ..Config::new(SocketType::Pub)
        };
        pair(client, server, || 100).into()
    })
}

#[test]
fn every_mechanism_goes_through() {
    for (ours, theirs) in mechanisms() {
        let client = Config {
            security: ours,
            routing_id: b"me".into(),
            ..Config::new(SocketType::Dealer)
        };
        let server = Config {
            security: theirs,
            ..Config::new(SocketType::Router)
        };
        let (mut left, mut right) = pair(client, server, || 5);
        assert_eq!(right.side.connection.peer().unwrap().routing_id, b"me");
        left.message(b"one", true);
        left.message(&[9; 70_000], false);
        right.message(b"", false);
        right.message(&[8; 300], false);
        wire(&mut left, &mut right, || 1000);
        let seen = [
            Seen::Frame(b"one".into(), true),
            Seen::Frame(vec![9; 70_000], false),
        ];
        assert_eq!(right.side.seen, seen);
        let seen = [
            Seen::Frame(b"".into(), false),
            Seen::Frame(vec![8; 300], false),
        ];
        assert_eq!(left.side.seen, seen);
    }
}

#[test]
fn subscriptions_are_messages_under_every_mechanism() {
    for [mut left, mut right] in subscribers_and_publishers() {
        assert_eq!(left.side.connection.peer().unwrap().version, Version::V3_0);
        let mut out = Vec::new();
        left.side.connection.encode_subscribe(&mut out, b"A");
        left.side.connection.encode_cancel(&mut out, b"A");
        left.websocket.send(&out).unwrap();
        wire(&mut left, &mut right, || 100);
        let seen = [Seen::Subscribe(b"A".into()), Seen::Cancel(b"A".into())];
        assert_eq!(right.side.seen, seen);
    }
}

#[test]
fn heartbeats_are_websockets_own() {
    for (ours, theirs) in mechanisms() {
        let client = Config {
            security: ours,
            heartbeat: Some(Heartbeat::every(1_000_000)),
            ..Config::new(SocketType::Push)
        };
        let server = Config {
            security: theirs,
            ..Config::new(SocketType::Pull)
        };
        let (mut left, mut right) = pair(client, server, || 100);
        left.side.connection.timeout(1_000_000).unwrap();
        let ping = left.sent();
        assert_eq!((ping.len(), &ping[..2]), (6, &b"\x89\x80"[..]));
        right.feed(&ping);
        let pong = right.sent();
        assert_eq!(pong, b"\x8a\x00");
        left.feed(&pong);
        assert_eq!(left.error, None);
        assert_eq!(left.side.error, None);
        assert_eq!(left.side.connection.timeout(1_500_000), Ok(()));
    }
}

#[test]
fn the_request_and_the_answer_are_those_of_libzmq() {
    let mut client = Peer::client(Config::new(SocketType::Dealer));
    let request = String::from_utf8(client.sent()).unwrap();
    let lines: Vec<_> = request.split("\r\n").collect();
    assert_eq!(
        lines[..4],
        [
            "GET /zmq HTTP/1.1",
            "Host: localhost:80",
            "Upgrade: websocket",
            "Connection: Upgrade",
        ]
    );
    assert!(lines.contains(&"Sec-WebSocket-Protocol: ZWS2.0/NULL"));
    assert!(lines.contains(&"Sec-WebSocket-Version: 13"));

    let mut server = Peer::server(Config::new(SocketType::Router));
    server.feed(
        b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
          Sec-WebSocket-Protocol: ZWS2.0/PLAIN\r\nsec-websocket-protocol: x, ZWS2.0/NULL\r\n\r\n",
    );
    let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                  Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
                  Sec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n";
    let sent = server.sent();
    assert_eq!(&sent[..answer.len()], answer.as_bytes());
    let ready = b"\x82\x2a\x02\x05READY\x0bSocket-Type\0\0\0\x06ROUTER\x08Identity\0\0\0\0";
    assert_eq!(&sent[answer.len()..], ready);
    // READY of a SUB, masked with 1 2 3 4; then a message.
    let mut masked = b"\x02\x05READY\x0bSocket-Type\0\0\0\x06DEALER".to_vec();
    for (at, octet) in masked.iter_mut().enumerate() {
        *octet ^= at as u8 % 4 + 1;
    }
    let header = [0x82, 0x80 | masked.len() as u8, 1, 2, 3, 4];
    server.feed(&[&header[..], &masked].concat());
    server.feed(b"\x82\x83\0\0\0\0\x00hi");
    let seen = [Seen::Ready, Seen::Frame(b"hi".into(), false)];
    assert_eq!(server.side.seen, seen);
    assert_eq!(server.error, None);
}

#[test]
fn what_is_no_upgrade_is_refused_early() {
    let requests: [&[u8]; 9] = [
        b"\xff\0\0\0\0\0\0\0\x01\x7f",
        b"POST / HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a\r\n\
          Sec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n",
        b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a\r\n\
          Sec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a\r\n\
          Sec-WebSocket-Protocol: ZWS2.0/CURVE\r\n\r\n",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a\r\n\
          Sec-WebSocket-Version: 8\r\nSec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n",
        b"GET / HTTP/1.1\r\n\xff: \r\n\r\n",
    ];
    for request in requests {
        let mut server = Peer::server(Config::new(SocketType::Rep));
        server.feed(request);
        assert_eq!(server.error, Some(Error::UpgradeFailed), "{request:?}");
        assert!(server.sent().starts_with(b"HTTP/1.1 400 Bad Request\r\n"));
    }
    let mut server = Peer::server(Config::new(SocketType::Rep));
    server.feed(b"GET /");
    server.feed(&vec![b'x'; 9000]);
    assert_eq!(server.error, Some(Error::UpgradeFailed), "endless");
    for (host, path) in [("a b", "/"), ("a", "x"), ("a\r\nX: y", "/"), ("a", "/ ")] {
        let refused = WebSocket::client(host, path, &Config::new(SocketType::Req));
        assert_eq!(refused.err(), Some(Error::UpgradeFailed));
    }
}

#[test]
fn a_client_checks_the_answer() {
    for (from, to) in [
        ("101 Switching", "200 OK"),
        ("Sec-WebSocket-Accept: ", "Sec-WebSocket-Accept: x"),
        ("ZWS2.0/NULL", "ZWS2.0/PLAIN"),
        ("Upgrade: websocket", "Upgrade: h2c"),
        ("", ""),
    ] {
        let mut client = Peer::client(Config::new(SocketType::Req));
        let mut server = Peer::server(Config::new(SocketType::Rep));
        server.feed(&client.sent());
        let answer = std::mem::take(server.websocket.outgoing());
        let answer = String::from_utf8(answer).unwrap().replacen(from, to, 1);
        client.feed(answer.as_bytes());
        let error = (!from.is_empty()).then_some(Error::UpgradeFailed);
        assert_eq!(client.error, error, "{from}");
    }
}

#[test]
fn frames_that_zws_does_not_have_are_refused() {
    for bytes in [
        &b"\x02\x81\0\0\0\0\0"[..],
        b"\x80\x81\0\0\0\0\0",
        b"\x81\x81\0\0\0\0\0",
        b"\x83\x81\0\0\0\0\0",
        b"\xc2\x81\0\0\0\0\0",
        b"\x82\x01\0",
        b"\x82\x80\0\0\0\0",
        b"\x89\xfe\0\x7e\0\0\0\0",
        b"\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        let null = || Config::new(SocketType::Pull);
        let (_, mut server) = pair(Config::new(SocketType::Push), null(), || 100);
        server.feed(bytes);
        assert_eq!(
            server.error,
            Some(Error::MalformedWebSocketFrame),
            "{bytes:?}"
        );
    }
}

#[test]
fn goodbye_is_answered() {
    let null = || Config::new(SocketType::Pull);
    let (mut client, mut server) = pair(Config::new(SocketType::Push), null(), || 100);
    client.websocket.close();
    server.feed(&client.sent());
    assert_eq!(server.error, Some(Error::Closed));
    assert_eq!(server.sent(), b"\x88\x00");
}

/// The limits of the connection are checked at the header.
#[test]
fn a_claimed_length_reserves_nothing() {
    let null = || Config::new(SocketType::Pull);
    let (_, mut server) = pair(Config::new(SocketType::Push), null(), || 100);
    server.feed(b"\x82\xff\x00\xff\0\0\0\0\0\0\0\0\0\0\0");
    assert!(matches!(
        server.side.error,
        Some(Error::FrameTooLong { .. })
    ));
}

/// What browsers can ask for: no script may write a slash there.
#[test]
fn without_a_mechanism_a_routing_id_replaces_the_handshake() {
    let request = std::str::from_utf8(UPGRADE).unwrap().replace("/NULL", "");
    let mut server = Peer::server(Config::new(SocketType::Router));
    server.feed(request.as_bytes());
    let sent = server.sent();
    let answer = sent
        .strip_suffix(b"\r\n\r\n\x82\x01\x00")
        .expect("an empty routing id");
    assert!(answer.ends_with(b"Sec-WebSocket-Protocol: ZWS2.0"));
    assert!(!server.side.connection.is_ready());
    server.feed(b"\x82\x83\0\0\0\0\x00me");
    assert!(server.side.connection.is_ready());
    assert_eq!(server.side.connection.peer().unwrap().routing_id, b"me");
    server.feed(b"\x82\x83\0\0\0\0\x01hi\x82\x81\0\0\0\0\x00");
    let seen = [
        Seen::Ready,
        Seen::Frame(b"hi".into(), true),
        Seen::Frame(b"".into(), false),
    ];
    assert_eq!(server.side.seen, seen);
    server.message(b"you", false);
    assert_eq!(server.sent(), b"\x82\x04\x00you");
    server.feed(b"\x89\x80\0\0\0\0");
    assert_eq!(server.sent(), b"\x8a\x00");
}

/// A script had no way to say a name and a password.
#[test]
fn without_a_mechanism_the_one_of_a_server_with_passwords_is_meant() {
    let request = std::str::from_utf8(UPGRADE).unwrap().replace("/NULL", "");
    let server = || {
        let mut server = Peer::server(Config {
            security: Security::PlainServer,
            ..Config::new(SocketType::Pull)
        });
        server.feed(request.as_bytes());
        let answer = server.sent();
        assert!(answer.ends_with(b"Sec-WebSocket-Protocol: ZWS2.0\r\n\r\n"));
        server
    };
    let mut script = server();
    script.feed(&masked(b"\x02\x05HELLO\x03ann\x02pw"));
    let told = Seen::AuthenticatePlain(b"ann".into(), b"pw".into());
    assert_eq!(script.side.seen, [told]);
    assert_eq!(script.sent(), b"\x82\x09\x02\x07WELCOME");
    assert!(!script.side.connection.is_ready());
    script.feed(&masked(b"\x02\x08INITIATE\x0bSocket-Type\0\0\0\x04PUSH"));
    assert!(script.side.connection.is_ready());
    for first in [
        &b"\x00"[..],
        b"\x00me",
        b"\x02\x05READY",
        b"\x02\x08INITIATE",
    ] {
        let mut stranger = server();
        stranger.feed(&masked(first));
        assert!(stranger.error.or(stranger.side.error).is_some());
        assert!(!stranger.side.connection.is_ready());
    }
}

/// libzmq without a mechanism offers both. It took the second name for success, and sent messages
/// that were lost.
#[test]
fn a_program_without_a_mechanism_is_refused_by_a_server_with_passwords() {
    let request = std::str::from_utf8(UPGRADE).unwrap();
    let request = request.replace("ZWS2.0/NULL", "ZWS2.0/NULL, ZWS2.0");
    for (security, expected) in [
        (Security::PlainServer, &b"HTTP/1.1 400 "[..]),
        (Security::Null, b"HTTP/1.1 101 "),
    ] {
        let mut server = Peer::server(Config {
            security,
            ..Config::new(SocketType::Pull)
        });
        server.feed(request.as_bytes());
        assert!(server.sent().starts_with(expected));
    }
}

/// Returns a frame of a client, masked with zeros.
fn masked(payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0x82, 0x80 | length, 0, 0, 0, 0], payload].concat()
}

#[test]
fn a_peer_without_a_mechanism_cannot_avoid_one_and_begins_with_a_routing_id() {
    let request = std::str::from_utf8(UPGRADE).unwrap().replace("/NULL", "");
    let secret_key = SecretKey::new([2; 32]);
    let mut curve = Peer::server(Config {
        security: Security::CurveServer { secret_key },
        ..Config::new(SocketType::Pull)
    });
    curve.feed(request.as_bytes());
    assert_eq!(curve.error, Some(Error::UpgradeFailed));
    let long = [b"\x82\xfe\x01\x01\0\0\0\0\0".as_slice(), &[b'x'; 256]].concat();
    for first in [
        &b"\x82\x82\0\0\0\0\x01a"[..],
        b"\x82\x87\0\0\0\0\x02\x05READY",
        b"\x82\x82\0\0\0\0\x00\x00",
        b"\x82\xff\0\0\0\x01\0\0\0\0\0\0\0\0\0",
        &long,
    ] {
        let mut server = Peer::server(Config::new(SocketType::Pull));
        server.feed(request.as_bytes());
        server.feed(first);
        let error = server.error.or(server.side.error);
        let expected = [Error::IllegalRoutingId, Error::MalformedMetadata];
        let is_refused = error.is_some_and(|error| expected.contains(&error))
            || matches!(error, Some(Error::FrameTooLong { .. }));
        assert!(is_refused, "{} {error:?}", first.escape_ascii());
        assert!(!server.side.connection.is_ready());
    }
}

/// Runs both servers over the same octets. The one that stops behind each frame must pass on no
/// more than a frame at a time, and in the end the same.
fn compare_frame_by_frame(octets: &[u8]) {
    let config = behind(Config::new(SocketType::Pull));
    let (mut whole, mut by_frame) = (Vec::new(), Vec::new());
    let mut server = WebSocket::server(&config);
    let mut rest = octets;
    while let Ok(count @ 1..) = server.receive(rest, &mut whole) {
        rest = &rest[count..];
    }
    let mut server = WebSocket::server(&config);
    let (mut rest, mut steps) = (octets, 0);
    while let Ok(count @ 1..) = server.receive_frame(rest, &mut by_frame) {
        (rest, steps) = (&rest[count..], steps + 1);
    }
    assert_eq!(whole, by_frame);
    // The upgrade, READY, three messages, a PING that goes with what follows it, and a PONG.
    assert_eq!(steps, 6);
}

#[test]
fn frames_are_taken_one_by_one() {
    let mut octets = UPGRADE.to_vec();
    for frame in [&b"\x02\x05READY"[..], b"\x01a", b"\x00", b"\x00bc"] {
        octets.extend_from_slice(&[0x82, 0x80 | frame.len() as u8, 0, 0, 0, 0]);
        octets.extend_from_slice(frame);
    }
    octets.extend_from_slice(b"\x89\x80\0\0\0\0\x8a\x80\0\0\0\0");
    compare_frame_by_frame(&octets);
}

#[test]
fn a_page_is_accepted_by_its_origin_alone() {
    let config = behind(Config::new(SocketType::Pub));
    let origins = Arc::new(Origins::new(&["https://a.example"]).unwrap());
    let page = |origin: &str| {
        let request = std::str::from_utf8(UPGRADE).unwrap();
        request.replacen("Upgrade:", &format!("Origin: {origin}\r\nUpgrade:"), 1)
    };
    for (request, refusal) in [
        (UPGRADE, None),
        (page("https://a.example").as_bytes(), None),
        (
            page("https://b.example").as_bytes(),
            Some(Error::ForbiddenOrigin),
        ),
        (page("null").as_bytes(), Some(Error::ForbiddenOrigin)),
    ] {
        let mut server = WebSocket::server_for(&config, origins.clone());
        let received = server.receive(request, &mut Vec::new());
        assert_eq!(received.err(), refusal);
        let status: &[u8] = if refusal.is_some() {
            b"HTTP/1.1 403 "
        } else {
            b"HTTP/1.1 101 "
        };
        assert!(server.outgoing().starts_with(status));
        let mut library = WebSocket::server(&config);
        assert!(library.receive(request, &mut Vec::new()).is_ok());
    }
}

/// A hub encodes a message once for all its clients, without their filters.
#[test]
fn a_frame_without_the_filter_is_the_same_as_through_it() {
    for [mut left, mut right] in subscribers_and_publishers() {
        for length in [
            0, 1, 90, 91, 92, 124, 125, 126, 255, 256, 65_534, 65_535, 65_536,
        ] {
            let body = vec![7; length];
            let mut direct = Vec::new();
            let connection = &mut right.side.connection;
            connection.encode_websocket_frame(&mut direct, &body, true);
            if !connection.encrypts() {
                let mut plain = Vec::new();
                websocket::encode_frame(&mut plain, &body, true);
                assert_eq!(direct, plain, "the same bytes for every client");
            }
            left.feed(&direct);
            right.message(&body, false);
            let through = right.sent();
            assert_eq!(through.len(), direct.len(), "{length}");
            left.feed(&through);
            let seen = [Seen::Frame(body.clone(), true), Seen::Frame(body, false)];
            assert_eq!(std::mem::take(&mut left.side.seen), seen, "{length}");
        }
    }
}

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: a\r\nSec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n";

proptest! {
    #[test]
    fn random_messages_come_through_in_random_pieces(
        bodies in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..1000), any::<bool>()), 1..10),
        sizes in prop::collection::vec(1..300usize, 1..20),
        cuts in prop::collection::vec(1..40usize, 1..20),
    ) {
        let mut sizes = sizes.into_iter().cycle();
        let mut next = move || sizes.next().unwrap_or(1);
        let null = || Config::new(SocketType::Pull);
        let (mut left, mut right) = pair(Config::new(SocketType::Push), null(), &mut next);
        let mut stream = Vec::new();
        for (body, more) in &bodies {
            left.side.connection.encode_message_frame(&mut stream, body, *more);
        }
        let mut cuts = cuts.into_iter().cycle();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
            left.websocket.send(piece).unwrap();
            rest = behind;
        }
        wire(&mut left, &mut right, next);
        prop_assert_eq!(right.error, None);
        let seen: Vec<_> = bodies.into_iter().map(|(body, more)| Seen::Frame(body, more)).collect();
        prop_assert_eq!(right.side.seen, seen);
    }
}
