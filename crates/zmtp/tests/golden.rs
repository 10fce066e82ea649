//! Compares the bytes with captured output of libzmq 4.3.5.

mod common;

use common::{Seen, Side, libzmq_greeting, ready};
use tidewire_zmtp::{Config, Security, SocketType, Version};

const SIGNATURE: &[u8] = b"\xff\0\0\0\0\0\0\0\x01\x7f";

#[test]
fn a_dealer_greets_and_is_ready_as_libzmq_does() {
    let config = Config {
        signature_first: false,
        ..Config::new(SocketType::Dealer)
    };
    let mut side = Side::new(config);
    assert_eq!(
        side.sent(),
        [SIGNATURE, b"\x03"].concat(),
        "signature and major version first"
    );
    let greeting = libzmq_greeting("NULL", 1);
    side.feed(&greeting[..10], 0);
    assert!(
        side.sent().is_empty(),
        "the rest waits for the peer's major version"
    );
    side.feed(&greeting[10..11], 0);
    assert_eq!(side.sent(), &greeting[11..], "then the whole rest, at once");
    side.feed(&greeting[11..], 0);
    let golden = b"\x04\x29\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0";
    assert_eq!(side.sent(), golden);
    side.feed(&ready("ROUTER"), 0);
    assert_eq!(side.seen, [Seen::Ready]);
    let peer = side.connection.peer().unwrap();
    assert_eq!(peer.version, Version::V3_1);
    assert_eq!(peer.socket_type, Some(SocketType::Router));
    assert_eq!(peer.metadata.property("socket-type"), Some(&b"ROUTER"[..]));
}

#[test]
fn without_2_0_the_whole_greeting_leaves_at_once() {
    let config = Config {
        version_min: Version::V3_0,
        signature_first: false,
        ..Config::new(SocketType::Pull)
    };
    let mut side = Side::new(config);
    assert_eq!(side.sent(), libzmq_greeting("NULL", 1));
}

/// libzmq's own test_stream reads exactly ten octets first.
#[test]
fn the_signature_goes_alone_as_libzmq_sends_it() {
    let config = Config::new(SocketType::Dealer);
    let greeting = libzmq_greeting("NULL", 1);
    let mut side = Side::new(config.clone());
    assert_eq!(side.sent(), SIGNATURE);
    side.feed(&greeting[..9], 0);
    assert_eq!(side.sent(), b"");
    side.feed(&greeting[9..10], 0);
    assert_eq!(side.sent(), b"\x03");
    side.feed(&greeting[10..11], 0);
    assert_eq!(side.sent(), greeting[11..]);
    let mut at_once = Side::fed(config, &greeting);
    assert_eq!(at_once.sent()[..64], greeting);
    assert!(!at_once.connection.is_ready());
}

#[test]
fn a_subscriber_has_no_identity_and_subscribes_by_command() {
    let mut side = Side::fed(Config::new(SocketType::Sub), &libzmq_greeting("NULL", 1));
    side.sent();
    side.feed(&ready("PUB"), 0);
    let mut out = Vec::new();
    side.connection.encode_subscribe(&mut out, b"A");
    side.connection.encode_cancel(&mut out, b"A");
    assert_eq!(out, b"\x04\x0b\x09SUBSCRIBEA\x04\x08\x06CANCELA");
    out.clear();
    side.connection.encode_subscribe(&mut out, &[b'x'; 246]);
    assert_eq!(
        out[..9],
        [6, 0, 0, 0, 0, 0, 0, 1, 0],
        "256 bytes with the name: a long frame"
    );
}

#[test]
fn to_a_3_0_peer_subscriptions_are_messages() {
    let mut side = Side::fed(Config::new(SocketType::Sub), &libzmq_greeting("NULL", 0));
    assert_eq!(side.sent()[64..], ready("SUB"));
    side.feed(&ready("XPUB"), 0);
    assert_eq!(side.connection.peer().unwrap().version, Version::V3_0);
    let mut out = Vec::new();
    side.connection.encode_subscribe(&mut out, b"A");
    side.connection.encode_cancel(&mut out, b"");
    assert_eq!(out, b"\x00\x02\x01A\x00\x01\x00");
}

#[test]
fn plain_says_hello_and_initiate_as_libzmq_does() {
    let security = Security::PlainClient {
        username: b"admin".into(),
        password: b"secret".into(),
    };
    let config = Config {
        security,
        routing_id: b"me".into(),
        signature_first: false,
        ..Config::new(SocketType::Req)
    };
    let mut side = Side::new(config);
    let mut greeting = libzmq_greeting("PLAIN", 1);
    greeting[8] = 3;
    assert_eq!(side.sent(), greeting);
    side.feed(&libzmq_greeting("PLAIN", 1), 0);
    assert_eq!(side.sent(), b"\x04\x13\x05HELLO\x05admin\x06secret");
    side.feed(b"\x04\x08\x07WELCOME", 0);
    let golden = b"\x04+\x08INITIATE\x0bSocket-Type\0\0\0\x03REQ\x08Identity\0\0\0\x02me";
    assert_eq!(side.sent(), golden);
    side.feed(&ready("REP"), 0);
    assert_eq!(side.seen, [Seen::Ready]);
}

#[test]
fn to_a_2_0_peer_the_greeting_goes_on_with_type_and_routing_id() {
    let config = Config {
        routing_id: b"me".into(),
        signature_first: false,
        ..Config::new(SocketType::Dealer)
    };
    let mut side = Side::new(config);
    side.sent();
    side.feed(SIGNATURE, 0);
    side.feed(b"\x01", 0);
    assert_eq!(
        side.sent(),
        b"\x05\x00\x02me",
        "DEALER is 5; the routing id is a frame"
    );
    side.feed(b"\x06\x00\x04them\x01\x01a\x00\x01b", 0);
    let frames = [
        Seen::Ready,
        Seen::Frame(b"a".into(), true),
        Seen::Frame(b"b".into(), false),
    ];
    assert_eq!(side.seen, frames);
    let peer = side.connection.peer().unwrap();
    assert_eq!(peer.version, Version::V2_0);
    assert_eq!(peer.socket_type, Some(SocketType::Router));
    assert_eq!(peer.routing_id, b"them");
    assert_eq!(peer.metadata.properties().count(), 0);
}

#[test]
fn a_peer_of_a_version_to_come_is_spoken_to_in_ours() {
    let mut greeting = libzmq_greeting("NULL", 0);
    greeting[10] = 4;
    let side = Side::fed(
        Config::new(SocketType::Pull),
        &[greeting, ready("PUSH")].concat(),
    );
    assert_eq!(side.connection.peer().unwrap().version, Version::V3_1);
}
