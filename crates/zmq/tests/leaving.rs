//! Endpoints that are undone while messages wait for their peers. libzmq 4.3.6 does the same, but
//! for what a test says.

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use support::{LAST, LINGER, MORE, SUBSCRIBE, last_endpoint, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

const SNDBUF: i32 = 11;
const RCVBUF: i32 = 12;
const RECONNECT_IVL: i32 = 18;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const ROUTER_MANDATORY: i32 = 33;
const IMMEDIATE: i32 = 39;
const CONNECT_ROUTING_ID: i32 = 61;

/// Senders that connect, and who receives from them.
const KINDS: [[SocketType; 2]; 6] = [
    [SocketType::Push, SocketType::Pull],
    [SocketType::Dealer, SocketType::Router],
    [SocketType::Pair, SocketType::Pair],
    [SocketType::Req, SocketType::Rep],
    [SocketType::Client, SocketType::Server],
    [SocketType::Scatter, SocketType::Gather],
];

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Endpoints where no socket listens.
fn free_endpoints() -> [String; 4] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("@tidewire-leaving-{}-{number}", std::process::id());
    [
        free_port(),
        format!("ipc://{name}"),
        format!("shm://{name}"),
        format!("{}/", free_port().replace("tcp", "ws")),
    ]
}

/// A port of an address that no other process uses, so that the port stays free.
fn free_port() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % 250 + 1;
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{low}.{number}", high | 128);
    let listener = std::net::TcpListener::bind((address.as_str(), 0)).unwrap();
    format!("tcp://{}", listener.local_addr().unwrap())
}

/// A socket that has connected to an endpoint where no socket listens.
fn early(context: &Context, kind: SocketType, endpoint: &str, linger_ms: i32) -> Socket {
    let early = socket(context, kind);
    set_int(&early, LINGER, linger_ms);
    set_int(&early, RECONNECT_IVL, 5);
    early.connect(endpoint).unwrap();
    early
}

fn bound(context: &Context, kind: SocketType, endpoint: &str) -> Socket {
    let bound = socket(context, kind);
    bound.bind(endpoint).unwrap();
    bound
}

fn try_to_send(socket: &Socket, body: &[u8]) -> Result<(), Error> {
    let flags = SendFlags {
        dont_wait: true,
        ..LAST
    };
    socket.send(&mut Message::from_slice(body), flags)
}

/// The last frame of a message.
fn received(socket: &Socket) -> Vec<u8> {
    receive(socket).pop().unwrap()
}

#[test]
fn what_waited_for_a_peer_that_was_not_connected_was_dropped_by_disconnect() {
    for kinds in KINDS {
        for endpoint in free_endpoints() {
            let context = Context::new();
            let what = format!("{kinds:?} {endpoint}");
            let sender = early(&context, kinds[0], &endpoint, -1);
            let count = if kinds[0] == SocketType::Req { 1 } else { 3 };
            let bodies: Vec<_> = (0..count).map(|number| format!("{number}")).collect();
            bodies
                .iter()
                .for_each(|body| send(&sender, &[body.as_bytes()]));
            sender.disconnect(&endpoint).unwrap();
            assert_eq!(sender.disconnect(&endpoint), Err(Error::NoSuchEndpoint));
            if kinds[0] != SocketType::Req {
                assert_eq!(try_to_send(&sender, b"late"), Err(Error::Again), "{what}");
            }
            let receiver = bound(&context, kinds[1], &endpoint);
            for body in &bodies {
                assert_eq!(received(&receiver), body.as_bytes(), "{what}");
            }
            wait_until(&what, || sender.peers().unwrap().is_empty());
            drop((sender, receiver));
            context.terminate().unwrap();
        }
    }
}

#[test]
fn a_socket_that_is_closed_later_delivers_what_waited_at_its_disconnect() {
    for kinds in KINDS {
        for endpoint in free_endpoints() {
            let context = Context::new();
            let sender = early(&context, kinds[0], &endpoint, -1);
            send(&sender, &[b"kept"]);
            sender.disconnect(&endpoint).unwrap();
            sender.close().unwrap();
            let receiver = bound(&context, kinds[1], &endpoint);
            assert_eq!(received(&receiver), b"kept", "{kinds:?} {endpoint}");
            drop(receiver);
            context.terminate().unwrap();
        }
    }
}

/// In libzmq, what has left with a longer `LINGER` keeps its time: the context does not end.
#[test]
fn a_close_without_linger_drops_what_waited_at_a_disconnect_with_it() {
    for endpoint in free_endpoints() {
        let context = Context::new();
        let sender = early(&context, SocketType::Push, &endpoint, -1);
        send(&sender, &[b"dropped"]);
        sender.disconnect(&endpoint).unwrap();
        set_int(&sender, LINGER, 0);
        sender.close().unwrap();
        context.terminate().unwrap();
    }
}

#[test]
fn without_linger_a_disconnect_drops_what_waits_and_with_some_it_does_later() {
    for linger_ms in [0, 20] {
        for endpoint in free_endpoints() {
            let context = Context::new();
            let sender = early(&context, SocketType::Push, &endpoint, linger_ms);
            send(&sender, &[b"old"]);
            sender.disconnect(&endpoint).unwrap();
            if linger_ms == 0 {
                assert_eq!(sender.peers().unwrap(), []);
            }
            wait_until(&endpoint, || sender.peers().unwrap().is_empty());
            sender.connect(&endpoint).unwrap();
            send(&sender, &[b"new"]);
            let receiver = bound(&context, SocketType::Pull, &endpoint);
            assert_eq!(receive(&receiver), [b"new"], "{linger_ms} {endpoint}");
        }
    }
}

#[test]
fn an_endpoint_that_is_connected_once_more_while_it_leaves_is_another_one() {
    for endpoint in free_endpoints() {
        let context = Context::new();
        let sender = early(&context, SocketType::Push, &endpoint, -1);
        let mut sent = Vec::new();
        for round in 0..3 {
            let body = format!("round {round}").into_bytes();
            send(&sender, &[&body]);
            sent.push(body);
            sender.disconnect(&endpoint).unwrap();
            sender.connect(&endpoint).unwrap();
        }
        sender.disconnect(&endpoint).unwrap();
        assert_eq!(sender.disconnect(&endpoint), Err(Error::NoSuchEndpoint));
        let receiver = bound(&context, SocketType::Pull, &endpoint);
        let mut came: Vec<_> = (0..3).map(|_| received(&receiver)).collect();
        came.sort();
        assert_eq!(came, sent, "{endpoint}");
        drop((sender, receiver));
        context.terminate().unwrap();
    }
}

#[test]
fn what_waits_only_for_complete_connections_does_not_outlast_its_endpoint() {
    let context = Context::new();
    let endpoint = free_port();
    let sender = socket(&context, SocketType::Push);
    set_int(&sender, LINGER, -1);
    set_int(&sender, IMMEDIATE, 1);
    sender.connect(&endpoint).unwrap();
    assert_eq!(try_to_send(&sender, b"no peer"), Err(Error::Again));
    sender.disconnect(&endpoint).unwrap();
    drop(sender);
    context.terminate().unwrap();
}

/// libzmq's context never ends then.
#[test]
fn without_another_attempt_what_waits_is_dropped_with_the_first_one() {
    for endpoint in free_endpoints() {
        let context = Context::new();
        let sender = socket(&context, SocketType::Push);
        set_int(&sender, LINGER, -1);
        set_int(&sender, RECONNECT_IVL, -1);
        sender.connect(&endpoint).unwrap();
        let _ = try_to_send(&sender, b"dropped");
        let _ = sender.disconnect(&endpoint);
        drop(sender);
        context.terminate().unwrap();
    }
}

#[test]
fn the_name_of_a_peer_that_leaves_is_free() {
    let context = Context::new();
    let endpoint = free_port();
    let router = socket(&context, SocketType::Router);
    set_int(&router, LINGER, -1);
    set_int(&router, RECONNECT_IVL, 5);
    set_int(&router, ROUTER_MANDATORY, 1);
    for body in [b"one", b"two"] {
        set(&router, CONNECT_ROUTING_ID, b"peer");
        router.connect(&endpoint).unwrap();
        send(&router, &[b"peer", body]);
        router.disconnect(&endpoint).unwrap();
        let refused = router.send(&mut Message::from_slice(b"peer"), MORE);
        assert_eq!(refused.unwrap_err(), Error::HostUnreachable);
    }
    let dealer = bound(&context, SocketType::Dealer, &endpoint);
    let mut came = [receive(&dealer), receive(&dealer)];
    came.sort();
    assert_eq!(came, [[b"one"], [b"two"]]);
}

/// It could be received, with a peer that was disconnected. Over TCP the connection was closed with
/// it unread, which dropped the messages on their way.
#[test]
fn what_a_leaving_peer_says_is_dropped() {
    for kinds in [
        [SocketType::Dealer, SocketType::Dealer],
        [SocketType::Pair, SocketType::Pair],
    ] {
        for endpoint in free_endpoints() {
            let context = Context::new();
            let what = format!("{kinds:?} {endpoint}");
            let sender = early(&context, kinds[0], &endpoint, -1);
            set_int(&sender, SNDHWM, 0);
            for _ in 0..2_000 {
                send(&sender, &[b"", &[7; 1_000]]);
            }
            sender.disconnect(&endpoint).unwrap();
            // It takes little at once: its word comes long before the last message has left.
            let receiver = narrow(&context, kinds[1]);
            receiver.bind(&endpoint).unwrap();
            for number in 0..2_000 {
                let came = receiver.receive(false);
                assert_eq!(came.map(|frame| frame.len()), Ok(0), "{what}: {number}");
                assert_eq!(received(&receiver), [7; 1_000], "{what}");
                if number == 0 {
                    try_to_send(&receiver, b"a word").unwrap();
                }
            }
            wait_until(&what, || sender.peers().unwrap().is_empty());
            assert_eq!(sender.receive(true).unwrap_err(), Error::Again, "{what}");
        }
    }
}

/// A connection that takes little at once.
fn narrow(context: &Context, kind: SocketType) -> Socket {
    let narrow = socket(context, kind);
    for (option, value) in [(SNDBUF, 4_000), (RCVBUF, 4_000), (SNDHWM, 0), (RCVHWM, 1)] {
        set_int(&narrow, option, value);
    }
    narrow
}

#[test]
fn peers_that_an_unbound_endpoint_accepted_get_what_they_are_owed() {
    for endpoint in [
        "tcp://127.0.0.1:*",
        "ipc://*",
        "shm://*",
        "ws://127.0.0.1:*",
    ] {
        let context = Context::new();
        let push = narrow(&context, SocketType::Push);
        set_int(&push, LINGER, -1);
        push.bind(endpoint).unwrap();
        let place = last_endpoint(&push);
        let pull = narrow(&context, SocketType::Pull);
        pull.connect(&place).unwrap();
        for number in 0..200_u32 {
            send(&push, &[&number.to_ne_bytes(), &[1; 20_000]]);
        }
        push.unbind(&place).unwrap();
        assert_eq!(try_to_send(&push, b"late"), Err(Error::Again), "{endpoint}");
        for number in 0..200_u32 {
            assert_eq!(receive(&pull)[0], number.to_ne_bytes(), "{endpoint}");
        }
        wait_until(endpoint, || push.peers().unwrap().is_empty());
    }
}

/// Only over inproc it could be received: "unbind, work off what is there, close" lost it.
#[test]
fn what_waited_for_the_program_was_lost_when_its_endpoint_was_unbound() {
    for endpoint in [
        "tcp://127.0.0.1:*",
        "ipc://*",
        "shm://*",
        "ws://127.0.0.1:*",
    ] {
        for (kind, peer) in [
            (SocketType::Pull, SocketType::Push),
            (SocketType::Router, SocketType::Dealer),
            (SocketType::Dealer, SocketType::Dealer),
            (SocketType::Pair, SocketType::Pair),
            (SocketType::Sub, SocketType::Pub),
        ] {
            for (linger_ms, owes) in [(0, false), (-1, false), (-1, true)] {
                if owes && !matches!(kind, SocketType::Dealer | SocketType::Pair) {
                    continue;
                }
                let context = Context::new();
                let reader = socket(&context, kind);
                set_int(&reader, LINGER, linger_ms);
                if kind == SocketType::Sub {
                    set(&reader, SUBSCRIBE, b"");
                }
                reader.bind(endpoint).unwrap();
                let place = last_endpoint(&reader);
                let sender = socket(&context, peer);
                sender.connect(&place).unwrap();
                if kind == SocketType::Sub {
                    // It reads the subscription before it sends.
                    wait_until(endpoint, || {
                        send(&sender, &[b"first"]);
                        reader.receive(true).is_ok()
                    });
                    send(&sender, &[b"begin"]);
                    while receive(&reader) != [b"begin"] {}
                }
                for number in 0..50_u32 {
                    send(&sender, &[b"number", &number.to_ne_bytes()]);
                }
                let name = usize::from(kind == SocketType::Router);
                let expect = |number: u32| {
                    let message = receive(&reader);
                    assert_eq!(message[name + 1], number.to_ne_bytes(), "{kind:?} {place}");
                };
                (0..10).for_each(expect);
                if owes {
                    // More than the kernel takes of a peer that does not read.
                    for _ in 0..100 {
                        send(&reader, &[&[7; 100_000]]);
                    }
                }
                // All has come to this machine.
                wait_until(endpoint, || sender.peers().unwrap()[0].queued == 0);
                reader.unbind(&place).unwrap();
                (10..50).for_each(expect);
                set_int(&reader, LINGER, 0);
            }
        }
    }
}

#[test]
fn what_waited_for_a_program_with_immediate_was_lost_when_it_disconnected() {
    for endpoint in free_endpoints() {
        for (kind, peer) in [
            (SocketType::Pull, SocketType::Push),
            (SocketType::Router, SocketType::Dealer),
            (SocketType::Dealer, SocketType::Dealer),
            (SocketType::Pair, SocketType::Pair),
        ] {
            let context = Context::new();
            let sender = socket(&context, peer);
            sender.bind(&endpoint).unwrap();
            let reader = socket(&context, kind);
            set_int(&reader, IMMEDIATE, 1);
            reader.connect(&endpoint).unwrap();
            for number in 0..50_u32 {
                send(&sender, &[b"number", &number.to_ne_bytes()]);
            }
            let name = usize::from(kind == SocketType::Router);
            let expect = |number: u32| {
                let message = receive(&reader);
                assert_eq!(
                    message[name + 1],
                    number.to_ne_bytes(),
                    "{kind:?} {endpoint}"
                );
            };
            (0..10).for_each(expect);
            // All has come to this machine.
            wait_until(&endpoint, || sender.peers().unwrap()[0].queued == 0);
            reader.disconnect(&endpoint).unwrap();
            (10..50).for_each(expect);
        }
    }
}

/// The subscriptions stayed, and the messages between them did not.
#[test]
fn what_waited_for_an_xpub_was_lost_when_it_disconnected() {
    for endpoint in free_endpoints() {
        let context = Context::new();
        let xsub = socket(&context, SocketType::Xsub);
        xsub.bind(&endpoint).unwrap();
        let xpub = socket(&context, SocketType::Xpub);
        xpub.connect(&endpoint).unwrap();
        // What comes before the handshake is done goes to no peer.
        wait_until(&endpoint, || {
            send(&xsub, &[b"here"]);
            xpub.events().unwrap().readable
        });
        let sent: [&[&[u8]]; 4] = [&[b"\x01a"], &[b"one", b"more"], &[b"\x01b"], &[b"last"]];
        sent.iter().for_each(|frames| send(&xsub, frames));
        wait_until(&endpoint, || xsub.peers().unwrap()[0].queued == 0);
        xpub.disconnect(&endpoint).unwrap();
        let expect = |frames: &[&[u8]]| {
            let mut first = xpub.receive(false);
            while first
                .as_ref()
                .is_ok_and(|frame| frame.as_slice() == b"here")
            {
                first = xpub.receive(false);
            }
            assert!(first.is_ok(), "{endpoint}: nothing in place of {frames:?}");
            assert_eq!(first.unwrap().as_slice(), frames[0], "{endpoint}");
            for frame in &frames[1..] {
                assert_eq!(xpub.receive(false).unwrap().as_slice(), *frame);
            }
        };
        sent.iter().for_each(|frames| expect(frames));
        for topic in [b"\0a", b"\0b"] {
            expect(&[topic]);
        }
    }
}

#[test]
fn a_connection_that_is_lost_while_its_peer_leaves_is_made_again() {
    for endpoint in free_endpoints() {
        let context = Context::new();
        let push = narrow(&context, SocketType::Push);
        set_int(&push, LINGER, -1);
        set_int(&push, RECONNECT_IVL, 5);
        push.connect(&endpoint).unwrap();
        let first = narrow(&context, SocketType::Pull);
        first.bind(&endpoint).unwrap();
        for number in 0..200_u32 {
            send(&push, &[&number.to_ne_bytes(), &[1; 20_000]]);
        }
        push.disconnect(&endpoint).unwrap();
        assert_eq!(receive(&first)[0], 0_u32.to_ne_bytes());
        drop(first);
        let mut second = None;
        wait_until(&endpoint, || {
            let socket = narrow(&context, SocketType::Pull);
            let is_bound = socket.bind(&endpoint).is_ok();
            second = is_bound.then_some(socket);
            is_bound
        });
        let second = second.unwrap();
        let numbers = || u32::from_ne_bytes(receive(&second)[0][..].try_into().unwrap());
        let mut before = numbers();
        assert!(before > 0);
        while before < 199 {
            let next = numbers();
            assert_eq!(next, before + 1, "{endpoint}");
            before = next;
        }
        wait_until(&endpoint, || push.peers().unwrap().is_empty());
    }
}

#[test]
fn what_was_sent_to_a_name_before_it_was_bound_was_dropped_with_its_sender() {
    for linger_ms in [0, 1, -1] {
        for disconnects in [false, true] {
            let context = Context::new();
            let what = format!("{linger_ms} {disconnects}");
            for kinds in KINDS {
                let sender = socket(&context, kinds[0]);
                set_int(&sender, LINGER, linger_ms);
                sender.connect("inproc://later").unwrap();
                send(&sender, &[b"kept"]);
                if disconnects {
                    sender.disconnect("inproc://later").unwrap();
                } else {
                    sender.close().unwrap();
                }
                let receiver = bound(&context, kinds[1], "inproc://later");
                assert_eq!(received(&receiver), b"kept", "{kinds:?} {what}");
                if kinds[1] != SocketType::Rep {
                    assert_eq!(receiver.receive(true).unwrap_err(), Error::Again, "{what}");
                    assert_eq!(receiver.peers().unwrap(), [], "{kinds:?} {what}");
                }
            }
            context.terminate().unwrap();
        }
    }
}

#[test]
fn names_that_are_never_bound_keep_no_context() {
    let context = Context::new();
    for linger_ms in [0, -1] {
        let sender = socket(&context, SocketType::Push);
        set_int(&sender, LINGER, linger_ms);
        sender.connect("inproc://never").unwrap();
        send(&sender, &[b"dropped"]);
        sender.close().unwrap();
    }
    context.terminate().unwrap();
}

/// Every second message was lost.
#[test]
fn a_socket_of_the_process_that_is_gone_is_sent_nothing_while_it_is_read_out() {
    for kind in [SocketType::Dealer, SocketType::Client] {
        let context = Context::new();
        let server = bound(&context, kind, "inproc://here");
        let gone = socket(&context, kind);
        gone.connect("inproc://here").unwrap();
        send(&gone, &[b"last words"]);
        gone.close().unwrap();
        let there = socket(&context, kind);
        there.connect("inproc://here").unwrap();
        for number in [b"1", b"2", b"3"] {
            send(&server, &[number]);
            assert_eq!(receive(&there), [number]);
        }
        assert_eq!(receive(&server), [b"last words"]);
    }
}
