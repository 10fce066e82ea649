//! What a publisher that connects sends while its subscriber is away.

mod support;

use std::time::{Duration, Instant};

use support::{SUBSCRIBE, last_endpoint, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Message, SendFlags, Socket, SocketType};

const SNDHWM: i32 = 23;
const RECONNECT_IVL: i32 = 18;
const IMMEDIATE: i32 = 39;

const TCP: &str = "tcp://127.0.0.1:*";

const KINDS: [[SocketType; 2]; 3] = [
    [SocketType::Pub, SocketType::Sub],
    [SocketType::Xpub, SocketType::Sub],
    [SocketType::Radio, SocketType::Dish],
];

fn subscriber(context: &Context, kind: SocketType, endpoint: &str) -> Socket {
    let subscriber = socket(context, kind);
    match kind {
        SocketType::Dish => subscriber.join("g").unwrap(),
        _ => set(&subscriber, SUBSCRIBE, b"g"),
    }
    subscriber.bind(endpoint).unwrap();
    subscriber
}

fn publish(publisher: &Socket, body: &str) {
    let mut message = Message::from_slice(body.as_bytes());
    if publisher.kind() == SocketType::Radio {
        message.set_group("g").unwrap();
    }
    publisher.send(&mut message, SendFlags::default()).unwrap();
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it comes about");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_connected(socket: &Socket) -> bool {
    // A look at the network, as a program's calls have.
    let _ = socket.events();
    let peers = socket.peers().unwrap();
    peers.iter().any(|peer| peer.is_connected)
}

/// A publisher that has connected to a subscriber, which has gone since; and where that was.
fn left_alone(
    context: &Context,
    [kind, other]: [SocketType; 2],
    endpoint: &str,
    options: &[(i32, i32)],
) -> (Socket, String) {
    let publisher = socket(context, kind);
    set_int(&publisher, RECONNECT_IVL, 5);
    for &(option, value) in options {
        set_int(&publisher, option, value);
    }
    let subscriber = subscriber(context, other, endpoint);
    let place = last_endpoint(&subscriber);
    publisher.connect(&place).unwrap();
    wait_until(|| is_connected(&publisher));
    wait_until(|| {
        publish(&publisher, "g first");
        !matches!(subscriber.receive(true), Err(tidewire_zmq::Error::Again))
    });
    if kind == SocketType::Xpub {
        assert_eq!(receive(&publisher), [b"\x01g"]);
    }
    drop(subscriber);
    wait_until(|| !is_connected(&publisher));
    (publisher, place)
}

#[test]
fn what_a_publisher_sent_while_its_subscriber_was_away_was_lost() {
    let number = std::process::id();
    let ipc = format!("ipc://@tidewire-away-{number}");
    let shm = format!("shm://@tidewire-away-{number}");
    for endpoint in [TCP, &ipc, &shm, "ws://127.0.0.1:*"] {
        for kinds in KINDS {
            let context = Context::new();
            let (publisher, place) = left_alone(&context, kinds, endpoint, &[]);
            let sent: Vec<String> = (0..5).map(|number| format!("g {number}")).collect();
            sent.iter().for_each(|body| publish(&publisher, body));
            let back = subscriber(&context, kinds[1], &place);
            for body in &sent {
                assert_eq!(receive(&back), [body.as_bytes()], "{endpoint} {kinds:?}");
            }
            // What the subscriber wants reaches a publisher that has it already.
            publish(&publisher, "g last");
            assert_eq!(receive(&back), [b"g last"], "{endpoint} {kinds:?}");
            if kinds[0] == SocketType::Xpub {
                let told = publisher.receive(true);
                assert_eq!(told.err(), Some(tidewire_zmq::Error::Again), "{endpoint}");
            }
        }
    }
}

#[test]
fn no_more_waits_for_a_subscriber_that_is_away_than_the_mark_lets_wait() {
    for kinds in KINDS {
        let context = Context::new();
        let options = [(SNDHWM, 3)];
        let (publisher, place) = left_alone(&context, kinds, TCP, &options);
        (0..10).for_each(|number| publish(&publisher, &format!("g {number}")));
        let peer = &publisher.peers().unwrap()[0];
        assert_eq!((peer.queued, peer.dropped), (3, 7), "{kinds:?}");
        let back = subscriber(&context, kinds[1], &place);
        for number in 0..3 {
            assert_eq!(receive(&back), [format!("g {number}").as_bytes()]);
        }
    }
}

#[test]
fn a_subscriber_that_goes_is_forgotten_where_only_complete_connections_count() {
    let context = Context::new();
    let kinds = KINDS[1];
    let options = [(IMMEDIATE, 1)];
    let (publisher, place) = left_alone(&context, kinds, TCP, &options);
    assert_eq!(receive(&publisher), [b"\x00g"]);
    publish(&publisher, "g lost");
    let back = subscriber(&context, kinds[1], &place);
    assert_eq!(receive(&publisher), [b"\x01g"]);
    send(&publisher, &[b"g kept"]);
    assert_eq!(receive(&back), [b"g kept"]);
}

#[test]
fn a_subscriber_that_is_away_is_forgotten_with_its_endpoint() {
    let context = Context::new();
    let (publisher, place) = left_alone(&context, KINDS[1], TCP, &[]);
    publish(&publisher, "g waits");
    publisher.disconnect(&place).unwrap();
    assert_eq!(receive(&publisher), [b"\x00g"]);
    assert_eq!(publisher.peers().unwrap(), []);
}

/// It was dropped.
#[test]
fn a_subscriber_that_comes_back_gets_what_lingers_and_nothing_else() {
    for kinds in KINDS {
        let context = Context::new();
        let (publisher, place) = left_alone(&context, kinds, TCP, &[]);
        set_int(&publisher, support::LINGER, -1);
        publish(&publisher, "g waits");
        publisher.disconnect(&place).unwrap();
        if kinds[0] == SocketType::Xpub {
            assert_eq!(receive(&publisher), [b"\x00g"]);
        }
        publish(&publisher, "g late");
        let back = subscriber(&context, kinds[1], &place);
        assert_eq!(receive(&back), [b"g waits"], "{kinds:?}");
        wait_until(|| publisher.peers().unwrap().is_empty());
        publish(&publisher, "g later");
        assert_eq!(back.receive(true).unwrap_err(), tidewire_zmq::Error::Again);
        if kinds[0] == SocketType::Xpub {
            let told = publisher.receive(true);
            assert_eq!(told.err(), Some(tidewire_zmq::Error::Again));
        }
        drop((publisher, back));
        context.terminate().unwrap();
    }
}
