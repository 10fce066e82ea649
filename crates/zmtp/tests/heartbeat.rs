//! Heartbeats and deadlines, with a simulated clock.

mod common;

use common::{Side, libzmq_greeting, ready, ready_pair};
use tidewire_zmtp::{Config, Error, Heartbeat, SocketType};

const SECOND_NS: u64 = 1_000_000_000;

fn heartbeat() -> Option<Heartbeat> {
    Some(Heartbeat {
        interval_ns: SECOND_NS,
        ttl_deciseconds: 25,
        timeout_ns: 2 * SECOND_NS,
    })
}

fn beating() -> (Side, Side) {
    let left = Config {
        heartbeat: heartbeat(),
        ..Config::new(SocketType::Dealer)
    };
    ready_pair(left, Config::new(SocketType::Router))
}

#[test]
fn a_ping_asks_and_its_pong_is_enough() {
    let (mut left, mut right) = beating();
    assert_eq!(left.connection.deadline_ns(), Some(SECOND_NS));
    assert_eq!(right.connection.deadline_ns(), None);
    left.connection.timeout(SECOND_NS - 1).unwrap();
    assert!(left.sent().is_empty(), "too early does no harm");
    left.connection.timeout(SECOND_NS).unwrap();
    let ping = left.sent();
    assert_eq!(ping, b"\x04\x07\x04PING\x00\x19");
    right.feed(&ping, SECOND_NS);
    let pong = right.sent();
    assert_eq!(pong, b"\x04\x05\x04PONG");
    assert_eq!(
        right.connection.deadline_ns(),
        Some(SECOND_NS + SECOND_NS * 25 / 10)
    );
    left.feed(&pong, SECOND_NS + 1);
    assert_eq!(left.connection.deadline_ns(), Some(2 * SECOND_NS));
    assert!(
        left.seen.is_empty() && right.seen.is_empty(),
        "heartbeats are no events"
    );
}

#[test]
fn without_an_answer_the_peer_is_given_up() {
    let (mut left, _right) = beating();
    left.connection.timeout(SECOND_NS).unwrap();
    left.connection.timeout(2 * SECOND_NS).unwrap();
    assert_eq!(
        left.connection.deadline_ns(),
        Some(3 * SECOND_NS),
        "the first PING counts"
    );
    assert_eq!(
        left.connection.timeout(3 * SECOND_NS),
        Err(Error::HeartbeatTimeout)
    );
    assert!(!left.connection.is_ready());
    assert_eq!(left.connection.deadline_ns(), None);
}

#[test]
fn any_traffic_is_a_sign_of_life_even_part_of_a_frame() {
    let (mut left, mut right) = beating();
    left.connection.timeout(SECOND_NS).unwrap();
    right.feed(&left.sent(), SECOND_NS);
    left.feed(b"\x00", SECOND_NS + 1);
    left.connection.timeout(3 * SECOND_NS).unwrap();
    right.feed(b"\x02\x00", SECOND_NS + 1);
    assert_eq!(
        right.connection.deadline_ns(),
        None,
        "the time to live starts with a PING only"
    );
}

#[test]
fn bytes_seen_before_are_no_sign_of_life() {
    let (mut left, _right) = beating();
    left.feed(b"\x00\x05a", SECOND_NS / 2);
    left.connection.timeout(SECOND_NS).unwrap();
    left.feed(b"", 2 * SECOND_NS);
    assert_eq!(
        left.connection.timeout(3 * SECOND_NS),
        Err(Error::HeartbeatTimeout)
    );
}

#[test]
fn the_time_to_live_that_a_peer_promised_is_held_against_it() {
    let (mut left, mut right) = beating();
    left.connection.timeout(SECOND_NS).unwrap();
    right.feed(&left.sent(), 10 * SECOND_NS);
    right.connection.timeout(12 * SECOND_NS).unwrap();
    assert_eq!(
        right.connection.timeout(12_500_000_000),
        Err(Error::TimeToLiveExpired)
    );
}

#[test]
fn a_message_right_behind_a_ping_keeps_its_promise() {
    let (_left, mut right) = beating();
    right.feed(b"\x04\x07\x04PING\x00\x01\x00\x01m", 0);
    assert_eq!(right.connection.deadline_ns(), None);
    assert_eq!(right.seen.len(), 1);
}

#[test]
fn a_context_comes_back_up_to_sixteen_octets() {
    let (_left, mut right) = beating();
    right.feed(b"\x04\x0a\x04PING\x00\x00ctx", 0);
    assert_eq!(right.sent(), b"\x04\x08\x04PONGctx");
    right.feed(b"\x04\x1a\x04PING\x00\x000123456789abcdefXYZ", 0);
    assert_eq!(right.sent(), b"\x04\x15\x04PONG0123456789abcdef");
    right.feed(b"\x04\x06\x04PING\x00", 0);
    assert!(matches!(right.error, Some(Error::MalformedCommand(_))));
}

#[test]
fn a_peer_that_pings_without_reading_does_not_fill_our_memory() {
    let (_left, mut right) = beating();
    for _ in 0..10_000 {
        right.feed(b"\x04\x07\x04PING\x00\x00", 0);
    }
    assert!(right.sent().len() < 4200);
}

#[test]
fn a_3_0_peer_is_pinged_too_as_libzmq_does() {
    let config = Config {
        heartbeat: heartbeat(),
        ..Config::new(SocketType::Dealer)
    };
    let bytes = [libzmq_greeting("NULL", 0), ready("ROUTER")].concat();
    let mut side = Side::fed(config, &bytes);
    assert_eq!(side.connection.deadline_ns(), Some(SECOND_NS));
    side.sent();
    side.connection.timeout(SECOND_NS).unwrap();
    assert!(side.sent().starts_with(b"\x04\x07\x04PING"));
}

#[test]
fn a_handshake_that_hangs_ends() {
    let config = Config {
        handshake_timeout_ns: 5,
        ..Config::new(SocketType::Dealer)
    };
    let mut side = Side::fed(config.clone(), &libzmq_greeting("NULL", 1));
    assert_eq!(side.connection.deadline_ns(), Some(5));
    side.connection.timeout(4).unwrap();
    assert_eq!(side.connection.timeout(5), Err(Error::HandshakeTimeout));
    assert_eq!(side.connection.timeout(6), Err(Error::Closed));
    let endless = Side::new(Config {
        handshake_timeout_ns: 0,
        ..config
    });
    assert_eq!(endless.connection.deadline_ns(), None);
}
