//! Shared memory: names, crashes, hostile peers, and what it has beside ipc.

mod support;

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType as Kind,
};
use rustix::time::{ClockId, clock_gettime};
use support::{LAST, LINGER, RCVTIMEO, last_endpoint, pair_at, receive, send, set_int, socket};
use tidewire_zmq::{Context, Error, PollItem, Socket, SocketType, poll};

const SNDBUF: i32 = 11;
const RCVBUF: i32 = 12;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const RECONNECT_IVL: i32 = 18;

/// A path that no other test has.
fn path(name: &str) -> PathBuf {
    let process = std::process::id();
    std::env::temp_dir().join(format!("shared-{process}-{name}"))
}

#[test]
fn names_are_those_of_ipc() {
    let context = Context::new();
    let path = path("named");
    let named = format!("shm://{}", path.display());
    let without_file = format!("shm://@shared-{}", std::process::id());
    for endpoint in [&*named, &*without_file, "shm://*"] {
        let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
        send(&push, &[b"a", b"message"]);
        assert_eq!(receive(&pull), [&b"a"[..], b"message"], "{endpoint}");
        let told = last_endpoint(&pull);
        assert!(endpoint == "shm://*" || told == endpoint, "{told}");
        let place = told.trim_start_matches("shm://").to_owned();
        assert_eq!(std::fs::exists(&place).unwrap(), !place.starts_with('@'));
        pull.unbind(&told).unwrap();
        assert!(!std::fs::exists(&place).unwrap());
        assert_eq!(pull.unbind(&told), Err(Error::NoSuchEndpoint));
    }
    let pair = socket(&context, SocketType::Pair);
    let long = format!("shm://{}", "a".repeat(108));
    assert_eq!(pair.bind(&long), Err(Error::NameTooLong));
    assert_eq!(pair.connect(&long), Err(Error::NameTooLong));
    assert_eq!(pair.bind("shm://@"), Err(Error::InvalidArgument));
    assert_eq!(pair.bind("shm://"), Err(Error::InvalidArgument));
    let stream = socket(&context, SocketType::Stream);
    assert_eq!(stream.bind("shm://*"), Err(Error::IncompatibleTransport));
}

/// Who binds a path that another process left behind takes it.
#[test]
fn a_path_that_is_left_behind_is_taken() {
    let context = Context::new();
    let path = path("left");
    std::fs::write(&path, b"").unwrap();
    let endpoint = format!("shm://{}", path.display());
    let [pull, push] = pair_at(&context, &endpoint, SocketType::Pull, SocketType::Push);
    send(&push, &[b"here"]);
    assert_eq!(receive(&pull), [b"here"]);
}

#[test]
fn ipc_and_shm_do_not_speak_with_each_other_and_both_go_on() {
    let context = Context::new();
    for (bound, other) in [("shm", "ipc"), ("ipc", "shm")] {
        let pull = socket(&context, SocketType::Pull);
        pull.bind(&format!("{bound}://*")).unwrap();
        let place = last_endpoint(&pull);
        let wrong = socket(&context, SocketType::Push);
        wrong.connect(&place.replace(bound, other)).unwrap();
        send(&wrong, &[b"lost"]);
        let right = socket(&context, SocketType::Push);
        right.connect(&place).unwrap();
        send(&right, &[b"found"]);
        assert_eq!(receive(&pull), [b"found"]);
        assert_eq!(pull.receive(true).unwrap_err(), Error::Again);
    }
}

/// Both directions at once, through rings much shorter than the messages. A receiver that found its
/// message in the socket silenced the bell that had been rung for the ring: what the other thread
/// had sent stayed where it was.
#[test]
fn long_messages_go_through_short_rings_in_both_directions() {
    (0..20).for_each(|_| exchange_long_messages());
}

fn exchange_long_messages() {
    let context = Context::new();
    let pair = [(); 2].map(|()| socket(&context, SocketType::Pair));
    for socket in &pair {
        set_int(socket, SNDBUF, 1);
        set_int(socket, RCVBUF, 5_000);
    }
    pair[0].bind("shm://*").unwrap();
    pair[1].connect(&last_endpoint(&pair[0])).unwrap();
    let sizes = [0, 1, 7, 8, 4_095, 4_096, 8_191, 100_003, 1_000_000, 3];
    let body = |size: usize, round: usize| -> Vec<u8> {
        (0..size).map(|at| (at * 31 + round) as u8).collect()
    };
    std::thread::scope(|scope| {
        for socket in &pair {
            scope.spawn(move || {
                for (round, size) in sizes.into_iter().enumerate() {
                    send(socket, &[b"head", &body(size, round)]);
                }
            });
            scope.spawn(move || {
                for (round, size) in sizes.into_iter().enumerate() {
                    let frames = receive(socket);
                    assert!(frames[1] == body(size, round), "{size}");
                }
            });
        }
    });
}

/// Marks of one message and short rings: every thread waits all the time, for bytes and for room.
#[test]
fn several_threads_on_each_side_of_a_full_ring_are_all_woken() {
    const MESSAGES: usize = 300;
    for mark in [1, 2, 7] {
        let context = Context::new();
        let [pull, push] = [SocketType::Dealer; 2].map(|kind| {
            let socket = socket(&context, kind);
            for (option, value) in [(SNDBUF, 1), (RCVBUF, 1), (SNDHWM, mark), (RCVHWM, mark)] {
                set_int(&socket, option, value);
            }
            set_int(&socket, SNDTIMEO, 5_000);
            socket
        });
        pull.bind("shm://*").unwrap();
        push.connect(&last_endpoint(&pull)).unwrap();
        std::thread::scope(|scope| {
            for (one, other) in [(&pull, &push), (&push, &pull)] {
                for thread in 0..2 {
                    scope.spawn(move || {
                        for number in 0..MESSAGES {
                            let body = vec![7; (number * 37 + thread * 1_000) % 3_000];
                            one.send_bytes(&body, LAST).unwrap();
                        }
                    });
                    scope.spawn(move || {
                        for number in 0..MESSAGES {
                            if thread == 1 && number % 3 == 0 {
                                let mut items = [PollItem::readable(other)];
                                assert_eq!(poll(&mut items, 5_000), Ok(1));
                            }
                            other.receive(false).unwrap();
                        }
                    });
                }
            }
        });
    }
}

/// What does not fit the ring lingers, and is written while the peer reads.
#[test]
fn a_closed_socket_delivers_what_did_not_fit_its_ring() {
    let context = Context::new();
    let [pull, push] = pair_at(&context, "shm://*", SocketType::Pull, SocketType::Push);
    set_int(&push, LINGER, -1);
    for round in 0..100_u8 {
        send(&push, &[&[round; 50_000]]);
    }
    push.close().unwrap();
    for round in 0..100_u8 {
        assert!(receive(&pull) == [[round; 50_000]], "{round}");
    }
}

/// A thread that spins looks at few of them.
#[test]
fn more_peers_than_are_spun_for_are_all_heard() {
    let context = Context::new();
    let router = socket(&context, SocketType::Router);
    router.bind("shm://*").unwrap();
    let dealers: Vec<Socket> = (0..40)
        .map(|_| {
            let dealer = socket(&context, SocketType::Dealer);
            dealer.connect(&last_endpoint(&router)).unwrap();
            dealer
        })
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..40 * 50 {
                let frames = receive(&router);
                send(&router, &[&frames[0], &frames[1]]);
            }
        });
        for round in 0..50_u32 {
            for (index, dealer) in dealers.iter().enumerate() {
                send(dealer, &[format!("{index} {round}").as_bytes()]);
            }
            for (index, dealer) in dealers.iter().enumerate() {
                assert_eq!(receive(dealer), [format!("{index} {round}").as_bytes()]);
            }
        }
    });
}

/// The ring's messages must not keep those of others away.
#[test]
fn a_ring_that_is_never_empty_does_not_starve_other_transports() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    pull.bind("shm://*").unwrap();
    let busy = socket(&context, SocketType::Push);
    busy.connect(&last_endpoint(&pull)).unwrap();
    pull.bind("tcp://127.0.0.1:*").unwrap();
    let other = socket(&context, SocketType::Push);
    other.connect(&last_endpoint(&pull)).unwrap();
    send(&busy, &[b"first"]);
    assert_eq!(receive(&pull), [b"first"]);
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set_int(&busy, SNDTIMEO, 100);
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = busy.send_bytes(&[0; 2_000], LAST);
            }
        });
        send(&other, &[b"rare"]);
        while receive(&pull)[0] != b"rare" {}
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// What is polled, with and without other sockets, wakes as it does with ipc.
#[test]
fn pollers_and_several_waiting_threads_are_woken() {
    let context = Context::new();
    let [pull, push] = pair_at(&context, "shm://*", SocketType::Pull, SocketType::Push);
    let [idle, _idle_push] = pair_at(&context, "shm://*", SocketType::Pull, SocketType::Push);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..200_u32 {
                if round % 20 == 0 {
                    std::thread::sleep(Duration::from_millis(12));
                }
                send(&push, &[&round.to_ne_bytes()]);
            }
        });
        let mut seen = 0_u32;
        while seen < 200 {
            let mut items = [PollItem::readable(&idle), PollItem::readable(&pull)];
            assert_eq!(poll(&mut items, 5_000), Ok(1), "{seen}");
            while let Ok(message) = pull.receive(true) {
                assert_eq!(message.as_slice(), seen.to_ne_bytes());
                seen += 1;
            }
        }
    });
    std::thread::scope(|scope| {
        let waiting = [(); 3].map(|()| scope.spawn(|| receive(&pull)));
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(3));
            send(&push, &[b"for one of them"]);
        }
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), [b"for one of them"]);
        }
    });
}

#[test]
fn idle_sockets_take_no_processor_time() {
    let context = Context::new();
    let [server, client] = pair_at(&context, "shm://*", SocketType::Rep, SocketType::Req);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..101 {
                let request = receive(&server);
                send(&server, &[&request[0]]);
            }
        });
        let ask = || {
            send(&client, &[b"question"]);
            assert_eq!(receive(&client), [b"question"]);
        };
        (0..100).for_each(|_| ask());
        // The server waits in its call, the client is elsewhere.
        let spent = || clock_gettime(ClockId::ProcessCPUTime);
        let begin = spent();
        std::thread::sleep(Duration::from_millis(400));
        let end = spent();
        let spent_ns = (end.tv_sec - begin.tv_sec) * 1_000_000_000 + end.tv_nsec - begin.tv_nsec;
        assert!(spent_ns < 150_000_000, "{spent_ns} ns of 400 ms");
        ask();
    });
}

// A peer that is no ZeroMQ socket.

/// A connection to where a socket listens, made by hand.
fn stranger(endpoint: &str) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, Kind::SEQPACKET, flags, None).unwrap();
    let address = SocketAddrUnix::new(endpoint.trim_start_matches("shm://")).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    socket
}

/// The memory that it is offered: written by `pwrite`, without a mapping.
fn memory_of(socket: &OwnedFd) -> OwnedFd {
    let mut message = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut message)];
    let flags = RecvFlags::empty();
    rustix::net::recvmsg(socket, &mut slices, &mut rights, flags).unwrap();
    let descriptors = rights.drain().find_map(|right| match right {
        RecvAncillaryMessage::ScmRights(mut list) => list.next(),
        _ => None,
    });
    descriptors.expect("the memory")
}

/// Whether the other side ends the connection.
fn is_ended(socket: &OwnedFd) -> bool {
    let mut bytes = [0; 64];
    for _ in 0..1_000 {
        match rustix::net::recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => return true,
            Ok(_) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    false
}

fn ring(socket: &OwnedFd) {
    let _ = rustix::net::send(socket, b"!", SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// The ring that the stranger writes: its positions, and its data behind a page and the other ring.
const TAIL: u64 = 4 * 128;
const OTHER_HEAD: u64 = 128;
const DATA: u64 = 4096 + (256 << 10);

#[test]
fn a_peer_that_writes_nonsense_loses_its_connection_and_harms_no_other() {
    let context = Context::new();
    let [pull, push] = pair_at(&context, "shm://*", SocketType::Pull, SocketType::Push);
    let endpoint = last_endpoint(&pull);
    let writes: [&[(u64, &[u8])]; 6] = [
        // A position beyond the ring, and one before its beginning.
        &[(TAIL, &[0, 0, 0, 0, 1, 0, 0, 0])],
        &[(TAIL, &[0xFF; 8])],
        // More read than was written.
        &[(OTHER_HEAD, &[0xFF; 8]), (TAIL, &[8, 0, 0, 0, 0, 0, 0, 0])],
        // The bytes are no ZMTP.
        &[
            (DATA, b"GET / HTTP/1.1\r\n"),
            (TAIL, &[16, 0, 0, 0, 0, 0, 0, 0]),
        ],
        // Every word of the memory.
        &[(0, &[0x55; 4096 + (512 << 10)])],
        &[(0, &[0xFF; 4096 + (512 << 10)])],
    ];
    for (index, writes) in writes.into_iter().enumerate() {
        let socket = stranger(&endpoint);
        let memory = memory_of(&socket);
        for &(at, bytes) in writes {
            assert_eq!(rustix::io::pwrite(&memory, bytes, at), Ok(bytes.len()));
        }
        ring(&socket);
        assert!(is_ended(&socket), "{index}");
        send(&push, &[b"undisturbed"]);
        assert_eq!(receive(&pull), [b"undisturbed"]);
    }
}

#[test]
fn peers_that_take_nothing_flood_or_leave_at_once_harm_no_other() {
    let context = Context::new();
    let [pull, push] = pair_at(&context, "shm://*", SocketType::Pull, SocketType::Push);
    let endpoint = last_endpoint(&pull);
    let silent: Vec<OwnedFd> = (0..50).map(|_| stranger(&endpoint)).collect();
    for round in 0..50 {
        let socket = stranger(&endpoint);
        if round % 2 == 0 {
            drop(memory_of(&socket));
        }
        for _ in 0..1_000 {
            ring(&socket);
        }
        let _ = rustix::net::send(&socket, &[0; 1_000], SendFlags::DONTWAIT);
        send(&push, &[b"undisturbed"]);
        assert_eq!(receive(&pull), [b"undisturbed"]);
    }
    drop(silent);
    send(&push, &[b"still"]);
    assert_eq!(receive(&pull), [b"still"]);
}

/// A listener that is none: it offers something else, or nothing.
#[test]
fn a_socket_that_connects_to_nonsense_tries_again() {
    let context = Context::new();
    let path = path("nonsense");
    let flags = SocketFlags::CLOEXEC;
    let listener =
        rustix::net::socket_with(AddressFamily::UNIX, Kind::SEQPACKET, flags, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 5).unwrap();
    let push = socket(&context, SocketType::Push);
    set_int(&push, RECONNECT_IVL, 1);
    push.connect(&format!("shm://{}", path.display())).unwrap();
    send(&push, &[b"kept"]);
    for offer in [&b""[..], b"TWRINGS1\0\0\x04\0\0\0\x04\0", b"something else"] {
        let accepted = rustix::net::accept(&listener).unwrap();
        if !offer.is_empty() {
            rustix::net::send(&accepted, offer, SendFlags::NOSIGNAL).unwrap();
            assert!(is_ended(&accepted));
        }
    }
    drop(listener);
    let pull = socket(&context, SocketType::Pull);
    pull.bind(&format!("shm://{}", path.display())).unwrap();
    assert_eq!(receive(&pull), [b"kept"]);
}

// Two processes, one of which dies.

/// This test, in a process of its own, as its environment says.
fn child(role: &str, endpoint: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_of_another_test", "--nocapture"])
        .env("SHARED_ROLE", role)
        .env("SHARED_ENDPOINT", endpoint)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn child_of_another_test() {
    let Ok(role) = std::env::var("SHARED_ROLE") else {
        return;
    };
    let endpoint = std::env::var("SHARED_ENDPOINT").unwrap();
    let context = Context::new();
    match &*role {
        "push" => {
            let push = socket(&context, SocketType::Push);
            push.connect(&endpoint).unwrap();
            for number in 0_u64.. {
                send(&push, &[&number.to_le_bytes(), &vec![number as u8; 9_000]]);
            }
        }
        "pull" => {
            let pull = socket(&context, SocketType::Pull);
            set_int(&pull, RCVTIMEO, -1);
            pull.bind(&endpoint).unwrap();
            loop {
                receive(&pull);
            }
        }
        // It is stopped when its standard input ends.
        _ => {
            let reply = socket(&context, SocketType::Rep);
            set_int(&reply, RCVTIMEO, -1);
            reply.bind(&endpoint).unwrap();
            let echo = move || loop {
                let request = receive(&reply);
                send(&reply, &[&request[0]]);
            };
            std::thread::spawn(echo);
            let _ = std::io::stdin().read(&mut [0; 1]);
        }
    }
}

/// What came whole is received, in order; then a new one is heard.
#[test]
fn a_sender_that_is_killed_in_the_middle_of_a_message_is_forgotten() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    pull.bind(&format!("shm://{}", path("killed").display()))
        .unwrap();
    for _ in 0..5 {
        let mut pushing = child("push", &last_endpoint(&pull));
        for number in 0..200_u64 {
            let frames = receive(&pull);
            assert_eq!(frames[0], number.to_le_bytes());
            assert!(frames[1] == vec![number as u8; 9_000]);
        }
        pushing.kill().unwrap();
        pushing.wait().unwrap();
        let mut number = 200_u64;
        set_int(&pull, RCVTIMEO, 300);
        while let Ok(message) = pull.receive(false) {
            assert_eq!(message.as_slice(), number.to_le_bytes());
            assert!(pull.receive(false).unwrap().as_slice() == vec![number as u8; 9_000]);
            number += 1;
        }
        set_int(&pull, RCVTIMEO, 5_000);
        assert_eq!(pull.peers().unwrap(), []);
    }
}

#[test]
fn a_receiver_that_is_killed_and_comes_back_is_sent_to_again() {
    let context = Context::new();
    let endpoint = format!("shm://{}", path("receiver").display());
    let push = socket(&context, SocketType::Push);
    set_int(&push, RECONNECT_IVL, 1);
    set_int(&push, SNDTIMEO, 20_000);
    push.connect(&endpoint).unwrap();
    for _ in 0..4 {
        let mut pulling = child("pull", &endpoint);
        // More than the ring, the output and the queue hold.
        for _ in 0..3_000 {
            send(&push, &[&[1; 1_000]]);
        }
        pulling.kill().unwrap();
        pulling.wait().unwrap();
    }
}

#[test]
fn a_server_in_another_process_answers_and_ends() {
    let context = Context::new();
    let endpoint = format!("shm://{}", path("server").display());
    let request = socket(&context, SocketType::Req);
    request.connect(&endpoint).unwrap();
    let mut serving = child("rep", &endpoint);
    for round in 0..2_000_u32 {
        send(&request, &[&round.to_le_bytes()]);
        assert_eq!(receive(&request), [round.to_le_bytes()]);
    }
    serving.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(serving.wait().unwrap().success());
}

const SNDTIMEO: i32 = 28;

/// It never looked at the end of the ring while it only sent, and waited for room in it.
#[test]
fn a_socket_that_could_receive_and_only_sends_finds_the_next_reader() {
    let kinds = [
        (SocketType::Dealer, SocketType::Router),
        (SocketType::Pair, SocketType::Pair),
        (SocketType::Client, SocketType::Server),
    ];
    for (kind, reader) in kinds {
        let endpoint = format!("shm://{}", path(&format!("only-sends-{kind:?}")).display());
        let context = Context::new();
        let reader = || {
            let reader = socket(&context, reader);
            set_int(&reader, RCVHWM, 1);
            reader.bind(&endpoint).unwrap();
            reader
        };
        let first = reader();
        let sender = socket(&context, kind);
        set_int(&sender, SNDHWM, 2);
        set_int(&sender, RECONNECT_IVL, 1);
        sender.connect(&endpoint).unwrap();
        let sending = std::thread::spawn(move || {
            for _ in 0..200 {
                send(&sender, &[&[b'x'; 100_000]]);
            }
            sender
        });
        receive(&first);
        first.close().unwrap();
        let second = reader();
        // It goes on while the sender sends: what was on its way to the first one is lost.
        while !sending.is_finished() {
            let _ = second.receive(true);
        }
        let sender = sending.join().unwrap();
        assert_eq!(sender.kind(), kind);
    }
}
