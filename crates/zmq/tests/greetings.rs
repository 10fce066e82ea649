//! What a socket tells a peer that comes, and its program of one that goes.

mod support;

use support::{last_endpoint, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Error, Socket, SocketType};

const PROBE_ROUTER: i32 = 51;
const XPUB_VERBOSE: i32 = 40;
const XPUB_MANUAL: i32 = 71;
const XPUB_WELCOME_MSG: i32 = 72;
const XPUB_VERBOSER: i32 = 78;
const HELLO_MSG: i32 = 110;
const DISCONNECT_MSG: i32 = 111;
const ROUTING_ID: i32 = 5;

#[test]
fn the_probe_and_what_waited_went_before_the_hello() {
    for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "shm://*", "inproc://hello"] {
        let context = Context::new();
        let router = socket(&context, SocketType::Router);
        let dealer = socket(&context, SocketType::Dealer);
        set(&dealer, HELLO_MSG, b"hello");
        set_int(&dealer, PROBE_ROUTER, 1);
        router.bind(endpoint).unwrap();
        dealer.connect(&last_endpoint(&router)).unwrap();
        // Before the handshake is done, where there is one.
        send(&dealer, &[b"message"]);
        for expected in [&b"hello"[..], b"", b"message"] {
            assert_eq!(receive(&router)[1], expected, "{endpoint}");
        }
    }
}

fn read_all(socket: &Socket) -> Vec<Vec<u8>> {
    let mut read = Vec::new();
    while let Ok(frame) = socket.receive(true) {
        read.push(frame.to_vec());
    }
    read
}

#[test]
fn who_connected_before_the_name_was_bound_said_everything_twice() {
    for option in [0, XPUB_VERBOSE, XPUB_MANUAL, XPUB_VERBOSER] {
        for kind in [SocketType::Sub, SocketType::Xsub] {
            let context = Context::new();
            let publisher = socket(&context, SocketType::Xpub);
            if option > 0 {
                set_int(&publisher, option, 1);
            }
            let subscriber = socket(&context, kind);
            for topic in [&b"a"[..], b"b", b"a"] {
                match kind {
                    SocketType::Sub => set(&subscriber, support::SUBSCRIBE, topic),
                    _ => send(&subscriber, &[&[&[1], topic].concat()]),
                }
            }
            subscriber.connect("inproc://early").unwrap();
            publisher.bind("inproc://early").unwrap();
            // The subscriber answers its bell.
            let _ = subscriber.events();
            let mut told = vec![receive(&publisher)[0].clone()];
            told.extend(read_all(&publisher));
            told.sort();
            assert_eq!(told, [b"\x01a", b"\x01b"], "{option} {kind:?}");
        }
    }
}

#[test]
fn a_welcome_a_probe_and_a_hello_to_a_name_that_is_bound_later_come_once() {
    let context = Context::new();
    let dealer = socket(&context, SocketType::Dealer);
    set(&dealer, HELLO_MSG, b"hello");
    set_int(&dealer, PROBE_ROUTER, 1);
    dealer.connect("inproc://later").unwrap();
    let router = socket(&context, SocketType::Router);
    router.bind("inproc://later").unwrap();
    let _ = dealer.events();
    send(&dealer, &[b"end"]);
    for expected in [&b"hello"[..], b"", b"end"] {
        assert_eq!(receive(&router)[1], expected);
    }

    let publisher = socket(&context, SocketType::Xpub);
    set(&publisher, XPUB_WELCOME_MSG, b"welcome");
    publisher.connect("inproc://welcome").unwrap();
    let subscriber = socket(&context, SocketType::Sub);
    set(&subscriber, support::SUBSCRIBE, b"");
    subscriber.bind("inproc://welcome").unwrap();
    assert_eq!(receive(&publisher), [b"\x01"]);
    send(&publisher, &[b"end"]);
    assert_eq!(receive(&subscriber), [b"welcome"]);
    assert_eq!(receive(&subscriber), [b"end"]);
}

#[test]
fn a_router_that_connects_before_the_name_is_bound_learns_its_peers_name() {
    let context = Context::new();
    let router = socket(&context, SocketType::Router);
    router.connect("inproc://named").unwrap();
    let dealer = socket(&context, SocketType::Dealer);
    set(&dealer, ROUTING_ID, b"me");
    dealer.bind("inproc://named").unwrap();
    send(&dealer, &[b"hello"]);
    assert_eq!(receive(&router), [&b"me"[..], b"hello"]);
    send(&router, &[b"me", b"answer"]);
    assert_eq!(receive(&dealer), [b"answer"]);
}

#[test]
fn a_peer_in_process_that_went_after_its_name_was_unbound_was_not_told_of() {
    let kinds = [
        [SocketType::Router, SocketType::Dealer],
        [SocketType::Server, SocketType::Client],
    ];
    for [kind, other] in kinds {
        for binds_again in [false, true] {
            let context = Context::new();
            let bound = socket(&context, kind);
            set(&bound, DISCONNECT_MSG, b"bye");
            bound.bind("inproc://bye").unwrap();
            let peer = socket(&context, other);
            peer.connect("inproc://bye").unwrap();
            send(&peer, &[b"hello"]);
            assert_eq!(receive(&bound).last().unwrap(), b"hello");
            bound.unbind("inproc://bye").unwrap();
            if binds_again {
                bound.bind("inproc://bye").unwrap();
            }
            peer.close().unwrap();
            assert_eq!(receive(&bound).last().unwrap(), b"bye", "{kind:?}");
            assert_eq!(bound.receive(true).err(), Some(Error::Again));
        }
    }
}
