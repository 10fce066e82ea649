//! What libzmq has not: limits by bytes and of handshakes, last values, and drops that are told.

mod support;

use std::io::Read;
use std::time::Duration;

use support::{
    LAST, SUBSCRIBE, last_endpoint, pair_at, raw_socket, receive, send, set, set_int, socket,
};
use tidewire_zmq::own_options::{
    EVENT_DROPS_BEGIN, HANDSHAKES_MAX, LAST_VALUES, RCVHWM_BYTES, SNDHWM_BYTES,
};
use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

const TCP: &str = "tcp://127.0.0.1:*";
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const RCVBUF: i32 = 12;
const SNDBUF: i32 = 11;
const ROUTER_MANDATORY: i32 = 33;
const XPUB_MANUAL: i32 = 71;
const NOW: SendFlags = SendFlags {
    dont_wait: true,
    ..LAST
};

/// Sends until the socket takes no more; how many messages it took.
fn fill(socket: &Socket, bytes: usize) -> usize {
    let body = vec![7; bytes];
    let mut sent = 0;
    while socket.send(&mut Message::from_slice(&body), NOW).is_ok() {
        sent += 1;
        assert!(sent < 1_000_000, "it has no end");
    }
    sent
}

fn queued_bytes(socket: &Socket) -> u64 {
    let peers = socket.peers().unwrap();
    peers.iter().map(|peer| peer.queued_bytes).sum()
}

#[test]
fn bytes_that_wait_for_a_peer_have_a_limit_of_their_own() {
    const LIMIT: i32 = 1 << 20;
    let context = Context::new();
    for endpoint in [TCP, "ipc://*", "shm://*", "ws://127.0.0.1:*"] {
        let [push, pull] = [SocketType::Push, SocketType::Pull].map(|kind| socket(&context, kind));
        for (option, value) in [(SNDHWM, 0), (SNDHWM_BYTES, LIMIT), (SNDBUF, 10_000)] {
            set_int(&push, option, value);
        }
        set_int(&pull, RCVHWM_BYTES, LIMIT);
        set_int(&pull, RCVBUF, 10_000);
        push.bind(endpoint).unwrap();
        pull.connect(&last_endpoint(&push)).unwrap();
        send(&push, &[b"first"]);
        assert_eq!(receive(&pull), [b"first"]);
        let sent = fill(&push, 100_000);
        let queued = queued_bytes(&push);
        let most = LIMIT as u64 + 100_100;
        assert!(
            (LIMIT as u64..most).contains(&queued),
            "{endpoint}: {queued}"
        );
        for _ in 0..sent {
            assert_eq!(receive(&pull)[0].len(), 100_000);
        }
        send(&push, &[b"there is room again"]);
    }
}

#[test]
fn a_peer_that_is_not_there_yet_is_queued_for_within_the_limit() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    pull.bind(TCP).unwrap();
    let endpoint = last_endpoint(&pull);
    pull.unbind(&endpoint).unwrap();
    let push = socket(&context, SocketType::Push);
    set_int(&push, SNDHWM_BYTES, 10_000);
    push.connect(&endpoint).unwrap();
    assert_eq!(fill(&push, 1_000), 10);
    assert_eq!(
        push.send(&mut Message::from_slice(b""), NOW),
        Err(Error::Again)
    );
    assert_eq!(queued_bytes(&push), 10_000);
}

#[test]
fn one_message_of_any_length_is_taken() {
    let context = Context::new();
    let [push, pull] = [SocketType::Push, SocketType::Pull].map(|kind| socket(&context, kind));
    set_int(&push, SNDHWM_BYTES, 100);
    push.bind(TCP).unwrap();
    pull.connect(&last_endpoint(&push)).unwrap();
    for _ in 0..3 {
        send(&push, &[&[1; 50_000], &[2; 2_000_000]]);
        assert_eq!(receive(&pull)[1].len(), 2_000_000);
    }
}

#[test]
fn a_crowd_that_says_nothing_cannot_keep_others_out() {
    let context = Context::new();
    let rep = socket(&context, SocketType::Rep);
    set_int(&rep, HANDSHAKES_MAX, 5);
    rep.bind(TCP).unwrap();
    let endpoint = last_endpoint(&rep);
    let mut silent: Vec<_> = (0..20).map(|_| raw_socket(&endpoint)).collect();
    let req = socket(&context, SocketType::Req);
    req.connect(&endpoint).unwrap();
    send(&req, &[b"let me in"]);
    assert_eq!(receive(&rep), [b"let me in"]);
    // Of the silent ones the first were let go, one after another.
    for one in &mut silent[..15] {
        let mut greeting = Vec::new();
        let _ = one.read_to_end(&mut greeting);
        assert!(greeting.len() <= 64);
    }
    assert!(rep.peers().unwrap().len() <= 6);
    send(&rep, &[b"welcome"]);
    assert_eq!(receive(&req), [b"welcome"], "who is in, stays in");
}

#[test]
fn whoever_subscribes_gets_the_last_message_of_each_topic() {
    let context = Context::new();
    for endpoint in [TCP, "inproc://last", "ws://127.0.0.1:*"] {
        let publisher = socket(&context, SocketType::Pub);
        set_int(&publisher, LAST_VALUES, 3);
        publisher.bind(endpoint).unwrap();
        for (topic, value) in [("md:B", "1"), ("md:A", "2"), ("other", "3"), ("md:B", "4")] {
            send(&publisher, &[topic.as_bytes(), value.as_bytes()]);
        }
        // One more than is kept.
        send(&publisher, &[b"md:C", b"5"]);
        let sub = socket(&context, SocketType::Sub);
        set(&sub, SUBSCRIBE, b"md:");
        sub.connect(&last_endpoint(&publisher)).unwrap();
        assert_eq!(receive(&sub), [&b"md:A"[..], b"2"]);
        assert_eq!(receive(&sub), [&b"md:B"[..], b"4"]);
        send(&publisher, &[b"md:A", b"6"]);
        assert_eq!(
            receive(&sub),
            [&b"md:A"[..], b"6"],
            "then what is published"
        );
        set(&sub, SUBSCRIBE, b"other");
        assert_eq!(
            receive(&sub),
            [&b"other"[..], b"3"],
            "a later subscription likewise"
        );
    }
}

#[test]
fn in_manual_mode_the_programs_own_subscription_brings_last_values() {
    let context = Context::new();
    let xpub = socket(&context, SocketType::Xpub);
    set_int(&xpub, XPUB_MANUAL, 1);
    set_int(&xpub, LAST_VALUES, 10);
    xpub.bind(TCP).unwrap();
    send(&xpub, &[b"asked", b"1"]);
    send(&xpub, &[b"given", b"2"]);
    let sub = socket(&context, SocketType::Xsub);
    sub.connect(&last_endpoint(&xpub)).unwrap();
    send(&sub, &[b"\x01asked"]);
    assert_eq!(receive(&xpub), [b"\x01asked"]);
    set(&xpub, SUBSCRIBE, b"given");
    assert_eq!(receive(&sub), [&b"given"[..], b"2"]);
}

#[test]
fn the_options_belong_to_publishers_or_to_all() {
    let context = Context::new();
    let push = socket(&context, SocketType::Push);
    let refused = Err(Error::InvalidArgument);
    assert_eq!(push.set_option(LAST_VALUES, &1_i32.to_ne_bytes()), refused);
    assert_eq!(
        push.set_option(SNDHWM_BYTES, &(-1_i32).to_ne_bytes()),
        refused
    );
    set_int(&push, SNDHWM_BYTES, 77);
    let mut out = [0; 4];
    assert_eq!(push.option(SNDHWM_BYTES, &mut out), Ok(4));
    assert_eq!(i32::from_ne_bytes(out), 77);
}

/// With `BINDTODEVICE`, whatever the machine's own rules say of it.
#[test]
fn a_socket_can_be_bound_to_a_device_that_is_there() {
    const BINDTODEVICE: i32 = 92;
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    set(&pull, BINDTODEVICE, b"nothere0");
    let error = pull.bind(TCP).unwrap_err();
    assert!(matches!(error.errno(), 1 | 19), "{error}");
    set(&pull, BINDTODEVICE, b"lo");
    if let Err(error) = pull.bind(TCP) {
        assert_eq!(error.errno(), 1, "not permitted, but {error}");
        return;
    }
    let push = socket(&context, SocketType::Push);
    set(&push, BINDTODEVICE, b"lo");
    push.connect(&last_endpoint(&pull)).unwrap();
    send(&push, &[b"by the loopback"]);
    assert_eq!(receive(&pull), [b"by the loopback"]);
}

/// A publisher, a subscriber that reads nothing, and the monitor of the publisher.
fn deaf_subscriber(context: &Context, name: &str) -> [Socket; 3] {
    let [publisher, sub] = [SocketType::Xpub, SocketType::Sub].map(|kind| socket(context, kind));
    set_int(&publisher, SNDHWM, 3);
    set_int(&publisher, SNDBUF, 10_000);
    set_int(&sub, RCVHWM, 1);
    set_int(&sub, RCVBUF, 10_000);
    publisher
        .monitor(Some(name), EVENT_DROPS_BEGIN, 2, SocketType::Pair)
        .unwrap();
    let monitor = socket(context, SocketType::Pair);
    monitor.connect(name).unwrap();
    publisher.bind(TCP).unwrap();
    set(&sub, SUBSCRIBE, b"");
    sub.connect(&last_endpoint(&publisher)).unwrap();
    assert_eq!(receive(&publisher), [b"\x01"]);
    [publisher, sub, monitor]
}

#[test]
fn drops_are_counted_for_each_peer_and_told_once_when_they_begin() {
    let context = Context::new();
    let [publisher, sub, monitor] = deaf_subscriber(&context, "inproc://drops");
    assert_eq!(monitor.receive(true).unwrap_err(), Error::Again);
    for _ in 0..200 {
        send(&publisher, &[&[1; 50_000]]);
    }
    let event = receive(&monitor);
    let number = |frame: &[u8]| u64::from_ne_bytes(frame.try_into().unwrap());
    assert_eq!(number(&event[0]), EVENT_DROPS_BEGIN);
    assert!(number(&event[2]) > 2, "the descriptor of the connection");
    assert_eq!(event[3], last_endpoint(&publisher).as_bytes());
    assert!(event[4].starts_with(b"tcp://127.0.0.1:"), "its other end");
    assert_eq!(monitor.receive(true).unwrap_err(), Error::Again, "once");
    let peers = publisher.peers().unwrap();
    let peer = &peers[0];
    assert_eq!((peers.len(), peer.sent + peer.dropped), (1, 200));
    assert!(peer.dropped > 100 && peer.queued <= 3, "{peer:?}");
    for _ in 0..peer.sent {
        assert_eq!(receive(&sub)[0].len(), 50_000);
    }
    assert_eq!(sub.peers().unwrap()[0].received, peer.sent);
}

#[test]
fn a_router_counts_what_it_drops() {
    let context = Context::new();
    let [router, dealer] = pair_at(&context, TCP, SocketType::Router, SocketType::Dealer);
    set_int(&router, SNDHWM, 2);
    send(&dealer, &[b"hello"]);
    let name = receive(&router)[0].clone();
    for _ in 0..200 {
        send(&router, &[&name, &[1; 1_000_000]]);
    }
    let peer = &router.peers().unwrap()[0];
    assert_eq!(peer.sent + peer.dropped, 200);
    assert!(peer.dropped > 0 && peer.received == 1, "{peer:?}");
    set_int(&router, ROUTER_MANDATORY, 1);
    let more = SendFlags { more: true, ..NOW };
    let mut message = Message::from_slice(&name);
    // A program that asks is told instead.
    if router.send(&mut message, more) == Err(Error::Again) {
        assert_eq!(router.peers().unwrap()[0].dropped, peer.dropped);
    }
}

#[test]
fn conflation_is_counted() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    set_int(&pull, 54, 1);
    pull.bind(TCP).unwrap();
    let push = socket(&context, SocketType::Push);
    push.connect(&last_endpoint(&pull)).unwrap();
    for number in 0..100_u8 {
        send(&push, &[&[number]]);
    }
    let mut last = receive(&pull);
    while last != [[99]] {
        std::thread::sleep(Duration::from_millis(1));
        last = receive(&pull);
    }
    let peer = &pull.peers().unwrap()[0];
    assert_eq!(peer.conflated + peer.received, 100, "{peer:?}");
}

/// Messages were lost: libzmq ignores `CONFLATE` of these types.
#[test]
fn a_type_without_conflation_kept_the_last_message_alone() {
    let context = Context::new();
    let pairs = [
        (SocketType::Pair, SocketType::Pair),
        (SocketType::Xsub, SocketType::Xpub),
        (SocketType::Gather, SocketType::Scatter),
        (SocketType::Channel, SocketType::Channel),
    ];
    for place in [TCP, "ipc://*", "inproc://without-conflation"] {
        for (near, far) in pairs {
            let [near, far] = [near, far].map(|kind| {
                let socket = socket(&context, kind);
                set_int(&socket, 54, 1);
                socket
            });
            far.bind(place).unwrap();
            near.connect(&last_endpoint(&far)).unwrap();
            if far.kind() == SocketType::Xpub {
                send(&near, &[&[1]]);
                assert_eq!(receive(&far), [[1]]);
            }
            for number in 0..5_u8 {
                send(&far, &[&[number]]);
            }
            for number in 0..5_u8 {
                assert_eq!(receive(&near), [[number]], "{place} {:?}", near.kind());
            }
            far.close().unwrap();
        }
    }
}
