//! What options do, where nothing else shows it: `docs/zeromq-options.md` says what shows the
//! others.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use support::{
    LAST, LINGER, SUBSCRIBE, last_endpoint, pair_at, raw_socket, receive, send, set, set_int,
    socket,
};
use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

const TCP: &str = "tcp://127.0.0.1:*";
const TYPE: i32 = 16;
const RECONNECT_IVL: i32 = 18;
const RECONNECT_IVL_MAX: i32 = 21;
const MAXMSGSIZE: i32 = 22;
const IPV4ONLY: i32 = 31;
const ROUTER_RAW: i32 = 41;
const IPV6: i32 = 42;
const MECHANISM: i32 = 43;
const PLAIN_SERVER: i32 = 44;
const CURVE_SERVER: i32 = 47;
const HANDSHAKE_IVL: i32 = 66;
const STREAM_NOTIFY: i32 = 73;
const HEARTBEAT_IVL: i32 = 75;
const HEARTBEAT_TIMEOUT: i32 = 77;
const CONNECT_TIMEOUT: i32 = 79;
const THREAD_SAFE: i32 = 81;
const METADATA: i32 = 95;

const CONNECTED: u64 = 0x1;
const CONNECT_DELAYED: u64 = 0x2;
const CONNECT_RETRIED: u64 = 0x4;
const CLOSED: u64 = 0x80;
const DISCONNECTED: u64 = 0x200;
const HANDSHAKE_SUCCEEDED: u64 = 0x1000;

fn number(socket: &Socket, option: i32) -> i32 {
    let mut out = [0; 4];
    assert_eq!(socket.option(option, &mut out), Ok(4), "option {option}");
    i32::from_ne_bytes(out)
}

/// Tells these events of a socket.
fn monitor(context: &Context, socket: &Socket, events: u64) -> Socket {
    let name = format!("inproc://monitor-{:p}", std::ptr::from_ref(socket));
    let of_pair = SocketType::Pair;
    socket.monitor(Some(&name), events, 2, of_pair).unwrap();
    let monitor = support::socket(context, of_pair);
    monitor.connect(&name).unwrap();
    monitor
}

/// The next event and its value.
fn event(monitor: &Socket) -> (u64, u64) {
    let frames = receive(monitor);
    let number = |frame: &[u8]| u64::from_ne_bytes(frame.try_into().unwrap());
    (number(&frames[0]), number(&frames[2]))
}

/// A place where nobody listens.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("tcp://{}", listener.local_addr().unwrap())
}

/// Whether the context ends within 5 s.
fn ends(context: &Context) -> bool {
    let (done, is_done) = mpsc::channel();
    let context = context.clone();
    std::thread::spawn(move || {
        context.terminate().unwrap();
        let _ = done.send(());
    });
    is_done.recv_timeout(Duration::from_secs(5)).is_ok()
}

#[test]
fn a_closed_socket_delivers_what_lingers() {
    let context = Context::new();
    let endpoint = nowhere();
    let push = socket(&context, SocketType::Push);
    set_int(&push, LINGER, -1);
    push.connect(&endpoint).unwrap();
    send(&push, &[b"a last word"]);
    push.close().unwrap();
    let pull = socket(&context, SocketType::Pull);
    pull.bind(&endpoint).unwrap();
    assert_eq!(receive(&pull), [b"a last word"]);
    drop(pull);
    assert!(ends(&context));
}

/// The option was refused, and the context waited for a peer that never came.
#[test]
fn a_socket_that_has_not_heard_of_the_end_of_its_context_lingers_as_the_program_says() {
    let context = Context::new();
    let push = socket(&context, SocketType::Push);
    set_int(&push, LINGER, -1);
    push.connect(&nowhere()).unwrap();
    send(&push, &[b"for nobody"]);
    context.shutdown();
    set_int(&push, LINGER, 0);
    assert_eq!(number(&push, TYPE), 8);
    push.monitor(None, 0, 1, SocketType::Pair).unwrap();
    assert!(push.descriptor().is_ok());
    // A call that says so ends that.
    assert_eq!(push.events().err(), Some(Error::Terminated));
    let linger = push.set_option(LINGER, &0_i32.to_ne_bytes());
    assert_eq!(linger, Err(Error::Terminated));
    push.close().unwrap();
    assert!(ends(&context));
}

#[test]
fn what_may_not_linger_keeps_nobody_waiting() {
    for linger_ms in [0, 20] {
        let context = Context::new();
        let push = socket(&context, SocketType::Push);
        set_int(&push, LINGER, linger_ms);
        push.connect(&nowhere()).unwrap();
        send(&push, &[b"to nobody"]);
        push.close().unwrap();
        assert!(ends(&context), "{linger_ms}");
    }
}

#[test]
fn attempts_to_connect_come_further_and_further_apart_up_to_the_maximum() {
    let context = Context::new();
    let push = socket(&context, SocketType::Push);
    set_int(&push, RECONNECT_IVL, 4);
    set_int(&push, RECONNECT_IVL_MAX, 40);
    let monitor = monitor(&context, &push, CONNECT_RETRIED);
    push.connect(&nowhere()).unwrap();
    let delays: Vec<u64> = (0..9).map(|_| event(&monitor).1).collect();
    assert!((4..=6).contains(&delays[0]), "{delays:?}");
    assert!(delays.iter().all(|&delay| delay <= 40), "{delays:?}");
    assert!(delays[4..].iter().all(|&delay| delay >= 26), "{delays:?}");
}

#[test]
fn without_a_maximum_attempts_to_connect_keep_their_distance() {
    for maximum in [0, 3] {
        let context = Context::new();
        let push = socket(&context, SocketType::Push);
        set_int(&push, RECONNECT_IVL, 4);
        // Less than the interval is no maximum.
        set_int(&push, RECONNECT_IVL_MAX, maximum);
        let monitor = monitor(&context, &push, CONNECT_RETRIED);
        push.connect(&nowhere()).unwrap();
        for _ in 0..9 {
            assert!((4..=6).contains(&event(&monitor).1));
        }
    }
}

#[test]
fn who_does_not_come_back_by_itself_tries_once() {
    let context = Context::new();
    let push = socket(&context, SocketType::Push);
    set_int(&push, RECONNECT_IVL, -1);
    let events = CLOSED | CONNECT_RETRIED;
    let monitor = monitor(&context, &push, events);
    push.connect(&nowhere()).unwrap();
    assert_eq!(event(&monitor).0, CLOSED);
    set_int(&monitor, support::RCVTIMEO, 300);
    assert_eq!(monitor.receive(false).unwrap_err(), Error::Again);
}

/// Who listens there has as many waiting as it lets wait: further attempts get no answer.
fn unanswered() -> (String, impl Sized) {
    use rustix::net::{AddressFamily, SocketType as Kind, bind, getsockname, listen, socket};
    let listener = socket(AddressFamily::INET, Kind::STREAM, None).unwrap();
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&listener, 0).unwrap();
    let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    let waiting = TcpStream::connect(address).unwrap();
    (format!("tcp://{address}"), (listener, waiting))
}

#[test]
fn an_attempt_to_connect_that_gets_no_answer_ends_in_time() {
    let context = Context::new();
    let (endpoint, _listener) = unanswered();
    let push = socket(&context, SocketType::Push);
    set_int(&push, CONNECT_TIMEOUT, 20);
    set_int(&push, RECONNECT_IVL, 1);
    let events = CONNECTED | CONNECT_DELAYED | CONNECT_RETRIED | CLOSED;
    let monitor = monitor(&context, &push, events);
    push.connect(&endpoint).unwrap();
    for _ in 0..2 {
        assert_eq!(event(&monitor).0, CONNECT_DELAYED);
        assert_eq!(event(&monitor).0, CLOSED);
        assert_eq!(event(&monitor).0, CONNECT_RETRIED);
    }
}

#[test]
fn who_says_nothing_to_begin_with_is_let_go() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    set_int(&pull, HANDSHAKE_IVL, 30);
    pull.bind(TCP).unwrap();
    let mut silent = raw_socket(&last_endpoint(&pull));
    let mut greeting = Vec::new();
    silent.read_to_end(&mut greeting).unwrap();
    assert!(greeting.len() <= 64);
}

/// Greeting and READY of a PUSH.
fn push_hello() -> Vec<u8> {
    let mut hello = vec![0; 64];
    (hello[0], hello[9], hello[10], hello[11]) = (0xFF, 0x7F, 3, 1);
    hello[12..16].copy_from_slice(b"NULL");
    hello.extend_from_slice(b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH");
    hello
}

/// The thread that waited in a receive read the PING, and its PONG stayed where it was: peers with
/// heartbeats dropped the connection again and again.
#[test]
fn a_ping_is_answered_while_the_program_waits_for_a_message() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    pull.bind(TCP).unwrap();
    let mut peer = raw_socket(&last_endpoint(&pull));
    peer.write_all(&push_hello()).unwrap();
    let program = std::thread::spawn(move || [receive(&pull), receive(&pull)]);
    // The program reads the connection itself from now on.
    peer.write_all(b"\x00\x03one").unwrap();
    let mut heard = Vec::new();
    for round in b'0'..b'5' {
        peer.write_all(&[b"\x04\x08\x04PING\x00\x00", &[round][..]].concat())
            .unwrap();
        let pong = [b"\x04PONG", &[round][..]].concat();
        while !heard.windows(6).any(|bytes| bytes == pong) {
            let mut some = [0; 256];
            let count = peer.read(&mut some).expect("it is answered");
            assert!(count > 0, "the connection stays");
            heard.extend_from_slice(&some[..count]);
        }
    }
    peer.write_all(b"\x00\x03two").unwrap();
    assert_eq!(program.join().unwrap(), [[b"one"], [b"two"]]);
}

#[test]
fn who_answers_no_ping_is_let_go() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    set_int(&pull, HEARTBEAT_IVL, 20);
    set_int(&pull, HEARTBEAT_TIMEOUT, 60);
    pull.bind(TCP).unwrap();
    let mut deaf = raw_socket(&last_endpoint(&pull));
    deaf.write_all(&push_hello()).unwrap();
    let mut heard = Vec::new();
    deaf.read_to_end(&mut heard).unwrap();
    assert!(heard.windows(5).any(|bytes| bytes == b"\x04PING"));
}

#[test]
fn a_message_that_is_too_long_ends_its_connection_and_no_other() {
    for endpoint in [TCP, "ipc://*", "shm://*", "ws://127.0.0.1:*"] {
        let context = Context::new();
        let pull = socket(&context, SocketType::Pull);
        set(&pull, MAXMSGSIZE, &10_i64.to_ne_bytes());
        pull.bind(endpoint).unwrap();
        let pushes = [0, 1].map(|_| {
            let push = socket(&context, SocketType::Push);
            push.connect(&last_endpoint(&pull)).unwrap();
            send(&push, &[b"ten octets", b"a frame"]);
            assert_eq!(receive(&pull), [&b"ten octets"[..], b"a frame"]);
            push
        });
        let monitor = monitor(&context, &pushes[0], DISCONNECTED);
        send(&pushes[0], &[b"one more"]);
        send(&pushes[0], &[b"and eleven."]);
        assert_eq!(event(&monitor).0, DISCONNECTED, "{endpoint}");
        assert_eq!(receive(&pull), [b"one more"]);
        for push in &pushes {
            send(push, &[b"it goes on"]);
            assert_eq!(receive(&pull), [b"it goes on"], "{endpoint}");
        }
    }
}

#[test]
fn within_the_process_messages_are_as_long_as_they_are() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    set(&pull, MAXMSGSIZE, &10_i64.to_ne_bytes());
    pull.bind("inproc://long").unwrap();
    let push = socket(&context, SocketType::Push);
    push.connect("inproc://long").unwrap();
    send(&push, &[&[7; 1000]]);
    assert_eq!(receive(&pull)[0].len(), 1000);
}

#[test]
fn a_raw_router_speaks_with_who_speaks_no_zeromq() {
    let context = Context::new();
    let router = socket(&context, SocketType::Router);
    set_int(&router, ROUTER_RAW, 1);
    router.bind(TCP).unwrap();
    let mut foreign = raw_socket(&last_endpoint(&router));
    foreign.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(receive(&router)[1], b"", "somebody has come");
    let frames = receive(&router);
    assert_eq!(frames[1], b"GET / HTTP/1.0\r\n\r\n");
    // What is said to follow is another message.
    let more = SendFlags { more: true, ..LAST };
    for body in [&b"HTTP/1.0 200 OK\r\n\r\n"[..], b"hello"] {
        for frame in [&frames[0][..], body] {
            let mut frame = Message::from_slice(frame);
            router.send(&mut frame, more).unwrap();
        }
    }
    send(&router, &[&frames[0], b""]);
    let mut answer = String::new();
    foreign.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "HTTP/1.0 200 OK\r\n\r\nhello");
    drop(raw_socket(&last_endpoint(&router)));
    for _ in ["it has come", "it has gone"] {
        assert_eq!(receive(&router)[1], b"");
    }
}

#[test]
fn a_stream_tells_of_connections_if_it_is_to() {
    for notifies in [1, 0] {
        let context = Context::new();
        let stream = socket(&context, SocketType::Stream);
        set_int(&stream, STREAM_NOTIFY, notifies);
        stream.bind(TCP).unwrap();
        let mut peer = raw_socket(&last_endpoint(&stream));
        peer.write_all(b"x").unwrap();
        if notifies == 1 {
            assert_eq!(receive(&stream)[1], b"", "it has come");
        }
        assert_eq!(receive(&stream)[1], b"x");
        drop(peer);
        if notifies == 1 {
            assert_eq!(receive(&stream)[1], b"", "it has gone");
        }
        let mut peer = raw_socket(&last_endpoint(&stream));
        peer.write_all(b"y").unwrap();
        assert_eq!(receive(&stream)[1].is_empty(), notifies == 1);
    }
}

#[test]
fn a_socket_says_what_it_is() {
    let context = Context::new();
    for kind in (0..12).filter_map(SocketType::from_number) {
        let socket = socket(&context, kind);
        assert_eq!(number(&socket, TYPE), kind.number());
        assert_eq!(number(&socket, THREAD_SAFE), 0);
    }
    let socket = socket(&context, SocketType::Pull);
    assert_eq!(number(&socket, MECHANISM), 0);
    set_int(&socket, PLAIN_SERVER, 1);
    assert_eq!(number(&socket, MECHANISM), 1);
    set_int(&socket, CURVE_SERVER, 1);
    assert_eq!(number(&socket, MECHANISM), 2);
    set_int(&socket, IPV4ONLY, 0);
    assert_eq!(number(&socket, IPV6), 1);
}

#[test]
fn a_client_credential_set_after_bind_does_not_change_the_listener() {
    const PLAIN_USERNAME: i32 = 45;
    const PLAIN_PASSWORD: i32 = 46;
    let context = Context::new();
    let server = socket(&context, SocketType::Pull);
    set_int(&server, PLAIN_SERVER, 1);
    server.bind(TCP).unwrap();
    let endpoint = last_endpoint(&server);
    // As zmq4's authentication test does: the same socket goes on as a client.
    set(&server, PLAIN_USERNAME, b"server");
    set(&server, PLAIN_PASSWORD, b"secret");
    assert_eq!(number(&server, PLAIN_SERVER), 0);

    let handler = socket(&context, SocketType::Rep);
    handler.bind("inproc://zeromq.zap.01").unwrap();
    let client = socket(&context, SocketType::Push);
    set(&client, PLAIN_USERNAME, b"client");
    set(&client, PLAIN_PASSWORD, b"word");
    client.connect(&endpoint).unwrap();
    let request = receive(&handler);
    assert_eq!(request[5..], [&b"PLAIN"[..], b"client", b"word"]);
}

#[test]
fn what_is_set_after_connect_holds_for_the_next_connection() {
    const ROUTING_ID: i32 = 5;
    let context = Context::new();
    let router = socket(&context, SocketType::Router);
    let endpoint = nowhere();
    let dealer = socket(&context, SocketType::Dealer);
    set_int(&dealer, RECONNECT_IVL, 20);
    set(&dealer, ROUTING_ID, b"first");
    // Nobody is there yet: the handshake comes after the options have changed.
    dealer.connect(&endpoint).unwrap();
    set(&dealer, ROUTING_ID, b"second");
    set_int(&dealer, RECONNECT_IVL, -1);
    router.bind(&endpoint).unwrap();
    send(&dealer, &[b"hello"]);
    assert_eq!(receive(&router), [&b"first"[..], b"hello"]);

    let other = socket(&context, SocketType::Router);
    other.bind(TCP).unwrap();
    dealer.connect(&last_endpoint(&other)).unwrap();
    send(&dealer, &[b"to one"]);
    send(&dealer, &[b"to the other"]);
    assert_eq!(receive(&other)[0], b"second");
}

#[test]
fn options_of_what_is_not_here_are_refused() {
    let context = Context::new();
    let socket = socket(&context, SocketType::Dealer);
    // GSSAPI and VMCI.
    for option in [62, 63, 64, 65, 85, 86, 87, 88, 90, 91] {
        for value in [&1_i32.to_ne_bytes()[..], &1_u64.to_ne_bytes(), b"name"] {
            let result = socket.set_option(option, value);
            assert_eq!(result, Err(Error::InvalidArgument), "option {option}");
        }
        let result = socket.option(option, &mut [0; 256]);
        assert_eq!(result, Err(Error::InvalidArgument), "option {option}");
    }
}

#[test]
fn a_subscription_is_counted_until_it_is_given_up_as_often() {
    const UNSUBSCRIBE: i32 = 7;
    let context = Context::new();
    let [xpub, sub] = pair_at(&context, TCP, SocketType::Xpub, SocketType::Sub);
    for _ in 0..2 {
        set(&sub, SUBSCRIBE, b"a");
    }
    assert_eq!(receive(&xpub), [b"\x01a"]);
    set(&sub, UNSUBSCRIBE, b"a");
    set(&sub, SUBSCRIBE, b"b");
    assert_eq!(receive(&xpub), [b"\x01b"], "one of a's two is left");
    send(&xpub, &[b"a still"]);
    assert_eq!(receive(&sub), [b"a still"]);
    set(&sub, UNSUBSCRIBE, b"a");
    assert_eq!(receive(&xpub), [b"\x00a"]);
}

#[test]
fn what_a_socket_says_of_itself_is_a_property_of_its_messages() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    pull.bind(TCP).unwrap();
    let push = socket(&context, SocketType::Push);
    set(&push, METADATA, b"X-plant:north");
    push.connect(&last_endpoint(&pull)).unwrap();
    send(&push, &[b"hello"]);
    let message = pull.receive(false).unwrap();
    assert_eq!(message.property("X-plant"), Some("north"));
    assert_eq!(message.property("Socket-Type"), Some("PUSH"));
}

#[test]
fn a_router_is_told_who_comes_and_goes() {
    const ROUTER_NOTIFY: i32 = 97;
    for (notifies, comes, goes) in [(0, false, false), (1, true, false), (2, false, true)] {
        let context = Context::new();
        let router = socket(&context, SocketType::Router);
        set_int(&router, ROUTER_NOTIFY, notifies);
        router.bind(TCP).unwrap();
        let dealer = socket(&context, SocketType::Dealer);
        set(&dealer, 5, b"somebody");
        dealer.connect(&last_endpoint(&router)).unwrap();
        send(&dealer, &[b"hello"]);
        let from = |body: &[u8]| [b"somebody".to_vec(), body.to_vec()];
        if comes {
            assert_eq!(receive(&router), from(b""));
        }
        assert_eq!(receive(&router), from(b"hello"));
        dealer.close().unwrap();
        if goes {
            assert_eq!(receive(&router), from(b""));
        }
        let next = socket(&context, SocketType::Dealer);
        next.connect(&last_endpoint(&router)).unwrap();
        send(&next, &[b"next"]);
        assert_eq!(receive(&router)[1].is_empty(), comes);
    }
}

#[test]
fn who_connects_is_greeted_and_a_loss_is_told() {
    const HELLO_MSG: i32 = 110;
    const DISCONNECT_MSG: i32 = 111;
    const HICCUP_MSG: i32 = 114;
    let context = Context::new();
    let router = socket(&context, SocketType::Router);
    set(&router, HELLO_MSG, b"welcome");
    set(&router, DISCONNECT_MSG, b"it is gone");
    router.bind(TCP).unwrap();
    let endpoint = last_endpoint(&router);
    let dealers = [b"one", b"two"].map(|name| {
        let dealer = socket(&context, SocketType::Dealer);
        set(&dealer, 5, name);
        set(&dealer, HICCUP_MSG, b"for a moment nobody was there");
        dealer.connect(&endpoint).unwrap();
        assert_eq!(receive(&dealer), [b"welcome"]);
        dealer
    });
    let [gone, left] = dealers;
    gone.close().unwrap();
    assert_eq!(receive(&router), [&b"one"[..], b"it is gone"]);
    router.unbind(&endpoint).unwrap();
    assert_eq!(receive(&left), [b"for a moment nobody was there"]);
    router.bind(&endpoint).unwrap();
    assert_eq!(receive(&left), [b"welcome"]);
}

#[test]
fn who_is_refused_or_not_understood_stays_away_if_it_is_so_said() {
    const RECONNECT_STOP: i32 = 109;
    const REFUSED: i32 = 1;
    const HANDSHAKE_FAILED: i32 = 2;
    let context = Context::new();
    // Who takes a connection, and ends it without a word.
    let rude = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", rude.local_addr().unwrap());
    std::thread::spawn(move || rude.incoming().for_each(drop));
    for (endpoint, stops, stays) in [
        (&nowhere(), HANDSHAKE_FAILED, true),
        (&nowhere(), REFUSED, false),
        (&endpoint, REFUSED, true),
        (&endpoint, HANDSHAKE_FAILED, false),
    ] {
        let push = socket(&context, SocketType::Push);
        set_int(&push, RECONNECT_STOP, stops);
        set_int(&push, RECONNECT_IVL, 1);
        let monitor = monitor(&context, &push, CONNECT_RETRIED);
        push.connect(endpoint).unwrap();
        if stays {
            assert_eq!(event(&monitor).0, CONNECT_RETRIED);
            assert_eq!(event(&monitor).0, CONNECT_RETRIED);
        } else {
            set_int(&monitor, support::RCVTIMEO, 200);
            assert_eq!(monitor.receive(false).unwrap_err(), Error::Again);
        }
    }
}

/// It was taken, and each publisher ended the connection at it: nothing came any more.
#[test]
fn a_subscription_that_no_publisher_takes_is_refused() {
    let context = Context::new();
    let [publisher, sub] = pair_at(&context, TCP, SocketType::Xpub, SocketType::Sub);
    let longest = vec![b'x'; 64 << 10];
    set(&sub, SUBSCRIBE, &longest);
    let longer = [&longest[..], b"y"].concat();
    let refused = sub.set_option(SUBSCRIBE, &longer);
    assert_eq!(refused, Err(Error::InvalidArgument));
    let xsub = socket(&context, SocketType::Xsub);
    let mut message = Message::from_vec([b"\x01", &longer[..]].concat());
    let refused = xsub.send(&mut message, SendFlags::default());
    assert_eq!(refused, Err(Error::InvalidArgument));
    set(&sub, SUBSCRIBE, b"a");
    for length in [longest.len() + 1, 2] {
        assert_eq!(receive(&publisher)[0].len(), length);
    }
    send(&publisher, &[b"a message"]);
    assert_eq!(receive(&sub), [b"a message"]);
}

#[test]
fn a_publisher_counts_the_topics_that_are_asked_for() {
    const TOPICS_COUNT: i32 = 116;
    let context = Context::new();
    let [xpub, sub] = pair_at(&context, TCP, SocketType::Xpub, SocketType::Sub);
    for topic in [b"a", b"b", b"a"] {
        set(&sub, SUBSCRIBE, topic);
    }
    for _ in 0..2 {
        receive(&xpub);
    }
    assert_eq!(number(&xpub, TOPICS_COUNT), 2);
    assert_eq!(number(&sub, TOPICS_COUNT), 2);
}

#[test]
fn a_last_value_goes_to_who_has_just_subscribed() {
    const XPUB_MANUAL_LAST_VALUE: i32 = 98;
    let context = Context::new();
    let xpub = socket(&context, SocketType::Xpub);
    set_int(&xpub, XPUB_MANUAL_LAST_VALUE, 1);
    xpub.bind(TCP).unwrap();
    let subs = [0, 1].map(|_| {
        let sub = socket(&context, SocketType::Sub);
        sub.connect(&last_endpoint(&xpub)).unwrap();
        set(&sub, SUBSCRIBE, b"a");
        assert_eq!(receive(&xpub), [b"\x01a"]);
        set(&xpub, SUBSCRIBE, b"a");
        send(&xpub, &[b"a's last value"]);
        assert_eq!(receive(&sub), [b"a's last value"]);
        sub
    });
    // Then everybody is published to again.
    send(&xpub, &[b"a next"]);
    for sub in subs {
        assert_eq!(receive(&sub), [b"a next"]);
    }
}

/// A program that asks whether more has come looked the next subscription up: what it granted then
/// went to the subscriber whose subscription it had not seen yet.
#[test]
fn in_manual_mode_a_look_at_what_comes_next_gave_the_wrong_peer_the_subscription() {
    const XPUB_MANUAL: i32 = 71;
    const EVENTS: i32 = 15;
    for endpoint in [TCP, "inproc://granted"] {
        let context = Context::new();
        let xpub = socket(&context, SocketType::Xpub);
        set_int(&xpub, XPUB_MANUAL, 1);
        xpub.bind(endpoint).unwrap();
        let subs = [0, 1].map(|_| {
            let sub = socket(&context, SocketType::Xsub);
            sub.connect(&last_endpoint(&xpub)).unwrap();
            send(&sub, &[b"here"]);
            assert_eq!(receive(&xpub), [b"here"]);
            sub
        });
        send(&subs[0], &[b"\x01a"]);
        // The publisher has it: the other subscription comes behind it.
        while number(&xpub, EVENTS) & 1 == 0 {}
        send(&subs[1], &[b"\x01b"]);
        for (sub, asked) in subs.iter().zip([b"\x01a", b"\x01b"]) {
            assert_eq!(receive(&xpub), [asked]);
            number(&xpub, EVENTS);
            set(&xpub, SUBSCRIBE, &asked[1..]);
            send(&xpub, &[&asked[1..]]);
            assert_eq!(receive(sub), [&asked[1..]], "{endpoint}");
            number(&xpub, EVENTS);
        }
    }
}

/// What the program granted it then blocked the topic for all, since its mark is never below the
/// limit.
#[test]
fn in_manual_mode_a_subscriber_that_was_gone_already_got_its_subscription() {
    const XPUB_MANUAL: i32 = 71;
    const XPUB_NODROP: i32 = 69;
    const SNDTIMEO: i32 = 28;
    for endpoint in [TCP, "inproc://gone"] {
        let context = Context::new();
        let xpub = socket(&context, SocketType::Xpub);
        for option in [XPUB_MANUAL, XPUB_NODROP] {
            set_int(&xpub, option, 1);
        }
        set_int(&xpub, SNDTIMEO, 0);
        xpub.bind(endpoint).unwrap();
        let monitor = monitor(&context, &xpub, DISCONNECTED);
        let [stays, goes] = [0, 1].map(|place| {
            let sub = socket(&context, SocketType::Sub);
            // What it asks for before its handshake is done goes with it.
            let name = format!("inproc://own-{place}");
            sub.monitor(Some(&name), HANDSHAKE_SUCCEEDED, 2, SocketType::Pair)
                .unwrap();
            let own = socket(&context, SocketType::Pair);
            own.connect(&name).unwrap();
            sub.connect(&last_endpoint(&xpub)).unwrap();
            if endpoint == TCP {
                assert_eq!(event(&own).0, HANDSHAKE_SUCCEEDED);
            }
            sub
        });
        set(&stays, SUBSCRIBE, b"a");
        assert_eq!(receive(&xpub), [b"\x01a"]);
        set(&xpub, SUBSCRIBE, b"a");
        for topic in [b"z", b"y"] {
            set(&goes, SUBSCRIBE, topic);
        }
        goes.close().unwrap();
        if endpoint == TCP {
            assert_eq!(event(&monitor).0, DISCONNECTED);
        }
        for asked in [b"\x01z", b"\x01y", b"\x00y", b"\x00z"] {
            let said = receive(&xpub);
            assert_eq!(said[0][0], asked[0], "{endpoint}");
            // It grants something else than was asked for, as a program may.
            if asked[0] == 1 {
                set(&xpub, SUBSCRIBE, b"a");
            }
        }
        send(&xpub, &[b"a1"]);
        assert_eq!(receive(&stays), [b"a1"], "{endpoint}");
    }
}

#[test]
fn only_the_first_frame_subscribes_if_it_is_so_said() {
    const ONLY_FIRST_SUBSCRIBE: i32 = 108;
    for only_first in [0, 1] {
        let context = Context::new();
        let xpub = socket(&context, SocketType::Xpub);
        set_int(&xpub, ONLY_FIRST_SUBSCRIBE, only_first);
        xpub.bind(TCP).unwrap();
        let xsub = socket(&context, SocketType::Xsub);
        set_int(&xsub, ONLY_FIRST_SUBSCRIBE, only_first);
        xsub.connect(&last_endpoint(&xpub)).unwrap();
        send(&xsub, &[b"\x01a"]);
        assert_eq!(receive(&xpub), [b"\x01a"]);
        send(&xsub, &[b"a message", b"\x01b"]);
        send(&xsub, &[b"\x01c"]);
        assert_eq!(receive(&xpub), [&b"a message"[..], b"\x01b"]);
        assert_eq!(
            receive(&xpub),
            [b"\x01c"],
            "nothing is put before what comes next"
        );
        send(&xpub, &[b"b1"]);
        send(&xpub, &[b"c1"]);
        let first = if only_first == 1 { b"c1" } else { b"b1" };
        assert_eq!(receive(&xsub), [first]);
    }
}

#[test]
fn a_verbose_xsub_passes_every_cancellation_on() {
    const XSUB_VERBOSE_UNSUBSCRIBE: i32 = 115;
    const XPUB_VERBOSER: i32 = 78;
    for verbose in [0, 1] {
        let context = Context::new();
        let xpub = socket(&context, SocketType::Xpub);
        set_int(&xpub, XPUB_VERBOSER, 1);
        xpub.bind(TCP).unwrap();
        let xsub = socket(&context, SocketType::Xsub);
        set_int(&xsub, XSUB_VERBOSE_UNSUBSCRIBE, verbose);
        xsub.connect(&last_endpoint(&xpub)).unwrap();
        send(&xsub, &[b"\x01a"]);
        assert_eq!(receive(&xpub), [b"\x01a"]);
        for word in [b"\x01a", b"\x00a", b"\x00a"] {
            send(&xsub, &[word]);
        }
        send(&xsub, &[b"\x01end"]);
        let mut cancelled = 0;
        loop {
            match receive(&xpub).remove(0).as_slice() {
                b"\x00a" => cancelled += 1,
                b"\x01end" => break,
                _ => {}
            }
        }
        assert_eq!(cancelled, 1 + verbose);
    }
}

#[test]
fn a_publisher_that_sees_no_subscriptions_greets_as_well() {
    const XPUB_WELCOME_MSG: i32 = 72;
    let context = Context::new();
    let publisher = socket(&context, SocketType::Pub);
    set(&publisher, XPUB_WELCOME_MSG, b"welcome");
    publisher.bind(TCP).unwrap();
    let sub = socket(&context, SocketType::Sub);
    set(&sub, SUBSCRIBE, b"w");
    sub.connect(&last_endpoint(&publisher)).unwrap();
    assert_eq!(receive(&sub), [b"welcome"]);
}
