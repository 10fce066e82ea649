//! What monitors of version 2 tell: both ends of a connection, and the lengths of queues.

mod support;

use support::{last_endpoint, pair_at, receive, send, set_int, socket};
use tidewire_zmq::{Context, Error, SendFlags, Socket, SocketType};

const CONNECTED: u64 = 0x1;
const ACCEPTED: u64 = 0x20;
const DISCONNECTED: u64 = 0x200;
const HANDSHAKE_SUCCEEDED: u64 = 0x1000;
const PIPES_STATS: u64 = 0x1_0000;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const SNDBUF: i32 = 11;
const RCVBUF: i32 = 12;

fn monitor(context: &Context, socket: &Socket, events: u64, version: u32) -> Socket {
    let name = format!("inproc://monitor-{:p}", std::ptr::from_ref(socket));
    let of_pair = SocketType::Pair;
    socket
        .monitor(Some(&name), events, version, of_pair)
        .unwrap();
    let monitor = support::socket(context, of_pair);
    monitor.connect(&name).unwrap();
    monitor
}

/// The event, its values, and the two ends.
fn event(monitor: &Socket) -> (u64, Vec<u64>, [String; 2]) {
    let mut frames = receive(monitor);
    let ends = frames.split_off(frames.len() - 2);
    let ends = ends.into_iter().map(|end| String::from_utf8(end).unwrap());
    let numbers = frames.iter().map(|frame| frame.as_slice());
    let mut numbers = numbers.map(|frame| u64::from_ne_bytes(frame.try_into().unwrap()));
    let event = numbers.next().unwrap();
    let count = numbers.next().unwrap();
    let values: Vec<u64> = numbers.collect();
    assert_eq!(values.len() as u64, count);
    (event, values, ends.collect::<Vec<_>>().try_into().unwrap())
}

/// What is there until the first event of this kind, and that.
fn ends_of(monitor: &Socket, wanted: u64) -> [String; 2] {
    loop {
        let (event, _, ends) = event(monitor);
        if event == wanted {
            return ends;
        }
    }
}

#[test]
fn events_name_both_ends_of_a_connection() {
    let context = Context::new();
    for (bound, path) in [
        ("tcp://127.0.0.1:*", ""),
        ("tcp://*:*", ""),
        ("ipc://*", ""),
        ("shm://*", ""),
        ("ws://127.0.0.1:*/a", "/a"),
    ] {
        let [server, client] = [(); 2].map(|()| socket(&context, SocketType::Pair));
        let [of_server, of_client] =
            [&server, &client].map(|socket| monitor(&context, socket, u64::from(u16::MAX), 2));
        server.bind(bound).unwrap();
        let place = last_endpoint(&server).replace("0.0.0.0", "127.0.0.1");
        client.connect(&place).unwrap();
        send(&client, &[b"x"]);
        receive(&server);

        let [ours, theirs] = ends_of(&of_client, CONNECTED);
        assert_eq!(theirs, place);
        assert_eq!(
            ends_of(&of_client, HANDSHAKE_SUCCEEDED),
            [&*ours, &*theirs],
            "{bound}"
        );
        let at_server = [place, format!("{ours}{path}")];
        assert_eq!(ends_of(&of_server, ACCEPTED), at_server, "{bound}");
        assert_eq!(ends_of(&of_server, HANDSHAKE_SUCCEEDED), at_server);
        // They are still known when the connection is gone.
        client.close().unwrap();
        assert_eq!(ends_of(&of_server, DISCONNECTED), at_server, "{bound}");
    }
}

/// Version 1 has room for one: where this socket is bound, or connects to.
#[test]
fn older_events_name_the_end_that_the_program_knows() {
    let context = Context::new();
    let [server, client] = [(); 2].map(|()| socket(&context, SocketType::Pair));
    let [of_server, of_client] =
        [&server, &client].map(|socket| monitor(&context, socket, HANDSHAKE_SUCCEEDED, 1));
    server.bind("tcp://127.0.0.1:*").unwrap();
    let place = last_endpoint(&server);
    client.connect(&place).unwrap();
    for monitor in [of_client, of_server] {
        let frames = receive(&monitor);
        assert_eq!(frames.len(), 2);
        assert_eq!(frames[1], place.as_bytes());
    }
}

#[test]
fn lengths_of_queues_are_told_for_each_peer() {
    let context = Context::new();
    let push = socket(&context, SocketType::Push);
    assert_eq!(push.report_queues(), Err(Error::InvalidArgument));
    let of_others = monitor(&context, &push, CONNECTED, 2);
    assert_eq!(push.report_queues(), Err(Error::InvalidArgument));
    drop(of_others);
    let of_push = monitor(&context, &push, PIPES_STATS, 2);
    assert_eq!(push.report_queues(), Err(Error::Again));

    push.connect("ipc:///nobody/is/here").unwrap();
    for _ in 0..3 {
        send(&push, &[b"more than", b"a frame"]);
    }
    push.report_queues().unwrap();
    let ends = [String::new(), "ipc:///nobody/is/here".to_owned()];
    assert_eq!(event(&of_push), (PIPES_STATS, vec![3, 0], ends));

    let pull = socket(&context, SocketType::Pull);
    let of_pull = monitor(&context, &pull, PIPES_STATS, 2);
    pull.bind("inproc://queues").unwrap();
    let push = socket(&context, SocketType::Push);
    push.connect("inproc://queues").unwrap();
    pull.report_queues().unwrap();
    let ends = ["inproc://queues".to_owned(), String::new()];
    assert_eq!(event(&of_pull), (PIPES_STATS, vec![0, 0], ends));
}

#[test]
fn a_router_knows_which_peer_takes_a_message() {
    let context = Context::new();
    let router = socket(&context, SocketType::Router);
    set_int(&router, SNDHWM, 2);
    router.bind("inproc://peers").unwrap();
    let dealers = ["A", "B"].map(|name| {
        let dealer = socket(&context, SocketType::Dealer);
        dealer.set_option(5, name.as_bytes()).unwrap();
        set_int(&dealer, RCVHWM, 2);
        dealer.connect("inproc://peers").unwrap();
        send(&dealer, &[b"here"]);
        dealer
    });
    receive(&router);
    receive(&router);
    let mut sent = 0;
    while router.can_send_to(b"A").unwrap() {
        send(&router, &[b"A", b"x"]);
        sent += 1;
    }
    assert_eq!(sent, 4, "both marks");
    assert_eq!(router.can_send_to(b"B"), Ok(true));
    for _ in 0..sent {
        receive(&dealers[0]);
    }
    assert_eq!(router.can_send_to(b"A"), Ok(true));
    assert_eq!(dealers[0].can_send_to(b"A"), Err(Error::NotSupported));
    assert_eq!(router.can_send_to(b""), Err(Error::HostUnreachable));
}

/// Messages that the kernel had taken counted against the sender's mark until the last byte was
/// written, which did not come while the peer did not read: 981 of 1,000 were taken.
#[test]
fn as_many_fit_as_both_marks_allow_though_nobody_reads() {
    const MARK: usize = 100;
    let context = Context::new();
    for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "shm://*"] {
        let options = [
            (SNDHWM, MARK),
            (RCVHWM, MARK),
            (SNDBUF, 4_096),
            (RCVBUF, 4_096),
        ];
        let [pull, push] = [SocketType::Pull, SocketType::Push].map(|kind| {
            let socket = socket(&context, kind);
            for (option, value) in options {
                set_int(&socket, option, value as i32);
            }
            socket
        });
        pull.bind(endpoint).unwrap();
        push.connect(&last_endpoint(&pull)).unwrap();
        let body = vec![7; 8_192];
        for _ in 0..2 * MARK {
            push.send_bytes(&body, SendFlags::default()).unwrap();
        }
        for _ in 0..2 * MARK {
            assert_eq!(pull.receive(false).unwrap().len(), body.len());
        }
    }
}

/// What is asked of every peer must not be asked of one that is gone.
#[test]
fn peers_that_are_gone_have_no_queues() {
    let context = Context::new();
    let [server, client] = pair_at(
        &context,
        "tcp://127.0.0.1:*",
        SocketType::Pair,
        SocketType::Pair,
    );
    let of_server = monitor(&context, &server, PIPES_STATS | DISCONNECTED, 2);
    send(&client, &[b"x"]);
    receive(&server);
    client.close().unwrap();
    assert_eq!(event(&of_server).0, DISCONNECTED);
    assert_eq!(server.report_queues(), Err(Error::Again));
}

const CLOSED: u16 = 0x80;
const CONNECT_RETRIED: u16 = 0x4;
const HANDSHAKE_FAILED_AUTH: u16 = 0x4000;
const MONITOR_STOPPED: u16 = 0x400;

/// The events of a socket up to the end of its monitor, with their values.
fn events_until_the_end(monitor: &Socket) -> Vec<(u16, u32)> {
    let mut events = Vec::new();
    while events
        .last()
        .is_none_or(|&(event, _)| event != MONITOR_STOPPED)
    {
        let head = receive(monitor).remove(0);
        let event = u16::from_ne_bytes([head[0], head[1]]);
        events.push((event, u32::from_ne_bytes(head[2..6].try_into().unwrap())));
    }
    events
}

/// The error stood in its place.
#[test]
fn of_an_attempt_that_failed_the_number_of_its_descriptor_is_told() {
    let context = Context::new();
    for endpoint in [
        "tcp://127.0.0.1:1",
        "ipc:///no/such/path",
        "shm:///no/such/path",
    ] {
        let push = socket(&context, SocketType::Push);
        let of_pair = SocketType::Pair;
        push.monitor(
            Some("inproc://closed"),
            u64::from(CLOSED | MONITOR_STOPPED),
            1,
            of_pair,
        )
        .unwrap();
        let monitor = socket(&context, of_pair);
        monitor.connect("inproc://closed").unwrap();
        push.connect(endpoint).unwrap();
        let head = receive(&monitor).remove(0);
        assert_eq!(head[..2], CLOSED.to_ne_bytes());
        let number = u32::from_ne_bytes(head[2..6].try_into().unwrap());
        // The lowest ones are those of the context: its thread's and the socket's.
        assert!(number > 2, "{endpoint}: {number}");
        assert!(
            ![111, 2].contains(&number),
            "{endpoint}: {number} is the error"
        );
    }
}

/// That the descriptor was closed was not told.
#[test]
fn a_bind_that_failed_did_not_tell_of_the_end_of_its_descriptor() {
    const BIND_FAILED: u64 = 0x10;
    let context = Context::new();
    let taken = socket(&context, SocketType::Pull);
    for (scheme, path) in [("tcp", ""), ("ws", "/path")] {
        taken
            .bind(&format!("{scheme}://127.0.0.1:*{path}"))
            .unwrap();
        let endpoint = last_endpoint(&taken);
        assert_bind_fails(
            &context,
            &endpoint,
            Error::AddressInUse,
            &[CLOSED.into(), BIND_FAILED],
        );
    }
    let nowhere = Error::System(2);
    for endpoint in ["ipc:///no/such/path", "shm:///no/such/path"] {
        assert_bind_fails(&context, endpoint, nowhere, &[CLOSED.into(), BIND_FAILED]);
    }
    // No descriptor was made for it.
    let endpoint = "tcp://127.0.0.1:port";
    assert_bind_fails(&context, endpoint, Error::InvalidArgument, &[BIND_FAILED]);
}

fn assert_bind_fails(context: &Context, endpoint: &str, error: Error, events: &[u64]) {
    let pull = socket(context, SocketType::Pull);
    let monitor = monitor(context, &pull, 0xFFFF, 2);
    assert_eq!(pull.bind(endpoint), Err(error));
    for &wanted in events {
        let (event, values, ends) = event(&monitor);
        assert_eq!((event, &*ends[0]), (wanted, endpoint));
        match u64::from(CLOSED) == wanted {
            true => assert!(values[0] > 2, "{values:?}"),
            false => assert_eq!(values, [error.errno() as u64]),
        }
    }
}

/// That another attempt would come was told first.
#[test]
fn who_is_refused_tells_of_no_other_attempt() {
    const PLAIN_SERVER: i32 = 44;
    const PLAIN_USERNAME: i32 = 45;
    const PLAIN_PASSWORD: i32 = 46;
    let context = Context::new();
    let handler = socket(&context, SocketType::Router);
    handler.bind("inproc://zeromq.zap.01").unwrap();
    let server = socket(&context, SocketType::Dealer);
    set_int(&server, PLAIN_SERVER, 1);
    server.bind("tcp://127.0.0.1:*").unwrap();
    let client = socket(&context, SocketType::Dealer);
    support::set(&client, PLAIN_USERNAME, b"user");
    support::set(&client, PLAIN_PASSWORD, b"wrong");
    client
        .monitor(Some("inproc://refused"), 0xffff, 1, SocketType::Pair)
        .unwrap();
    let monitor = socket(&context, SocketType::Pair);
    monitor.connect("inproc://refused").unwrap();
    client.connect(&last_endpoint(&server)).unwrap();
    let request = receive(&handler);
    let envelope = [&request[0], &b""[..], b"1.0", &request[3]];
    send(
        &handler,
        &[&envelope[..], &[b"400", b"", b"", b""]].concat(),
    );
    let mut seen = Vec::new();
    while !seen.contains(&HANDSHAKE_FAILED_AUTH) {
        let head = receive(&monitor).remove(0);
        seen.push(u16::from_ne_bytes([head[0], head[1]]));
    }
    client.close().unwrap();
    seen.extend(
        events_until_the_end(&monitor)
            .iter()
            .map(|&(event, _)| event),
    );
    assert!(!seen.contains(&CONNECT_RETRIED), "{seen:x?}");
}
