//! Connections over Unix sockets that a socket ends while its peer does not read.
//!
//! libzmq's reader stops its input while its program does not read. At the hang-up of such a
//! connection it drops what it has not read: of 50 messages of 5 kB, 47.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use support::{LINGER, SUBSCRIBE, last_endpoint, pair_at, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Socket, SocketType};

const RCVHWM: i32 = 24;
const MESSAGES: usize = 30;
const MESSAGE_BYTES: usize = 5_000;
/// Messages of this length have a header of nine bytes.
const ALL_BYTES: usize = MESSAGES * (MESSAGE_BYTES + 9);

/// Senders, and the type of the peer as it names itself.
const KINDS: [(SocketType, &str); 6] = [
    (SocketType::Push, "PULL"),
    (SocketType::Dealer, "ROUTER"),
    (SocketType::Pair, "PAIR"),
    (SocketType::Xpub, "SUB"),
    (SocketType::Client, "SERVER"),
    (SocketType::Scatter, "GATHER"),
];

/// Shakes hands as a peer of this type, and subscribes to everything if it can.
fn shake_hands(stream: &mut UnixStream, kind: &str) {
    let mut hello = vec![0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, 1];
    hello.extend_from_slice(b"NULL");
    hello.resize(64, 0);
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend_from_slice(&(kind.len() as u32).to_be_bytes());
    body.extend_from_slice(kind.as_bytes());
    hello.extend_from_slice(&[4, body.len() as u8]);
    hello.extend_from_slice(&body);
    if kind == "SUB" {
        hello.extend_from_slice(b"\x00\x01\x01");
    }
    stream.write_all(&hello).unwrap();
    let mut theirs = [0; 66];
    stream.read_exact(&mut theirs).unwrap();
    let mut ready = vec![0; usize::from(theirs[65])];
    stream.read_exact(&mut ready).unwrap();
}

/// A socket that a bare connection has joined, and that has sent all messages.
fn sender(context: &Context, kind: SocketType, peer: &str, linger_ms: i32) -> (Socket, UnixStream) {
    let sender = socket(context, kind);
    set_int(&sender, LINGER, linger_ms);
    sender.bind("ipc://*").unwrap();
    let place = last_endpoint(&sender);
    let mut stream = UnixStream::connect(place.trim_start_matches("ipc://")).unwrap();
    shake_hands(&mut stream, peer);
    if kind == SocketType::Xpub {
        assert_eq!(receive(&sender), [b"\x01"]);
    }
    send_all(&sender);
    (sender, stream)
}

fn send_all(sender: &Socket) {
    let message = [7; MESSAGE_BYTES];
    (0..MESSAGES).for_each(|_| send(sender, &[&message]));
}

fn ends(stream: &UnixStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).unwrap();
    let revents = polled[0].revents();
    revents.intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Reads as a program that asks for the hang-up before each read. Returns the number of bytes of
/// messages.
fn read_until_it_ends(stream: &mut UnixStream) -> usize {
    let mut room = [0; 8_192];
    let mut count = 0;
    while !ends(stream) {
        count += stream.read(&mut room).unwrap();
    }
    assert_eq!(stream.read(&mut room).unwrap(), 0, "nothing is behind it");
    // The beginning of a frame carried the end of the connection.
    count - 1
}

fn file_of(endpoint: &str) -> PathBuf {
    PathBuf::from(endpoint.trim_start_matches("ipc://"))
}

/// The context ends at once, though nothing is read until then.
#[test]
fn a_slow_reader_lost_what_a_closed_socket_had_sent() {
    for (kind, peer) in KINDS {
        let context = Context::new();
        let (sender, mut stream) = sender(&context, kind, peer, -1);
        let file = file_of(&last_endpoint(&sender));
        sender.close().unwrap();
        context.terminate().unwrap();
        assert!(!file.exists());
        assert_eq!(read_until_it_ends(&mut stream), ALL_BYTES, "{kind:?}");
    }
}

#[test]
fn a_slow_reader_lost_what_an_unbound_endpoint_had_sent() {
    for (kind, peer) in KINDS {
        let context = Context::new();
        let (sender, mut stream) = sender(&context, kind, peer, -1);
        sender.unbind(&last_endpoint(&sender)).unwrap();
        assert_eq!(read_until_it_ends(&mut stream), ALL_BYTES, "{kind:?}");
    }
}

#[test]
fn a_slow_reader_lost_what_a_disconnected_socket_had_sent() {
    let context = Context::new();
    let path = std::env::temp_dir().join(format!("zmq-parting-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let endpoint = format!("ipc://{}", path.display());
    for (kind, peer) in KINDS {
        let sender = socket(&context, kind);
        set_int(&sender, LINGER, -1);
        sender.connect(&endpoint).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        shake_hands(&mut stream, peer);
        if kind == SocketType::Xpub {
            assert_eq!(receive(&sender), [b"\x01"]);
        }
        send_all(&sender);
        sender.disconnect(&endpoint).unwrap();
        assert_eq!(read_until_it_ends(&mut stream), ALL_BYTES, "{kind:?}");
    }
    std::fs::remove_file(path).unwrap();
}

/// What it writes would be lost without a word, where it does not read.
#[test]
fn a_peer_that_does_not_read_finds_at_once_that_it_cannot_write() {
    let context = Context::new();
    let (sender, mut stream) = sender(&context, SocketType::Dealer, "DEALER", -1);
    sender.close().unwrap();
    context.terminate().unwrap();
    let error = stream.write_all(b"\x00\x05hello").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert_eq!(read_until_it_ends(&mut stream), ALL_BYTES);
}

#[test]
fn without_linger_the_peer_finds_the_hang_up_at_once() {
    let context = Context::new();
    let (sender, stream) = sender(&context, SocketType::Push, "PULL", 0);
    sender.close().unwrap();
    context.terminate().unwrap();
    assert!(ends(&stream));
}

/// What is in the queue of a peer goes with that, read or not.
#[test]
fn the_end_that_is_with_a_peer_goes_when_that_closes() {
    let context = Context::new();
    let (sender, stream) = sender(&context, SocketType::Push, "PULL", -1);
    let place = last_endpoint(&sender);
    sender.close().unwrap();
    context.terminate().unwrap();
    assert_eq!(kernel_sockets_of(&place), 1, "it outlasts the context");
    drop(stream);
    while kernel_sockets_of(&place) > 0 {
        std::thread::yield_now();
    }
}

/// Sockets of the machine that were bound to, or accepted from, an endpoint.
fn kernel_sockets_of(endpoint: &str) -> usize {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    let path = endpoint.trim_start_matches("ipc://");
    sockets.lines().filter(|line| line.ends_with(path)).count()
}

/// More than the kernel takes is sent before, and the end comes behind it.
#[test]
fn a_reader_of_ours_receives_everything_of_a_socket_that_closes() {
    for (sender_kind, reader_kind) in [
        (SocketType::Push, SocketType::Pull),
        (SocketType::Dealer, SocketType::Router),
        (SocketType::Pair, SocketType::Pair),
        (SocketType::Pub, SocketType::Sub),
    ] {
        for count in [1, 50, 300] {
            let context = Context::new();
            let [reader, sender] = pair_at(&context, "ipc://*", reader_kind, sender_kind);
            if reader_kind == SocketType::Sub {
                set(&reader, SUBSCRIBE, b"");
                wait_for_subscription(&reader, &sender);
            }
            set_int(&reader, RCVHWM, 1);
            set_int(&sender, LINGER, -1);
            for number in 0..count {
                send(&sender, &[&[number as u8; MESSAGE_BYTES], b"end"]);
            }
            sender.close().unwrap();
            for number in 0..count {
                let frames = receive(&reader);
                let [.., body, end] = &frames[..] else {
                    panic!("{frames:?}");
                };
                assert_eq!((body[0], &end[..]), (number as u8, &b"end"[..]));
            }
            reader.close().unwrap();
            context.terminate().unwrap();
        }
    }
}

fn wait_for_subscription(reader: &Socket, publisher: &Socket) {
    const RCVTIMEO: i32 = 27;
    set_int(reader, RCVTIMEO, 1);
    loop {
        send(publisher, &[b"first"]);
        if reader.receive(false).is_ok() {
            break;
        }
    }
    while reader.receive(false).is_ok() {}
    set_int(reader, RCVTIMEO, 5_000);
}

/// The connection counts as a peer of the reader's until all is read, and ends then.
#[test]
fn a_reader_of_ours_comes_back_after_the_end() {
    let context = Context::new();
    let path = std::env::temp_dir().join(format!("zmq-back-{}", std::process::id()));
    let endpoint = format!("ipc://{}", path.display());
    let reader = socket(&context, SocketType::Pull);
    set_int(&reader, RCVHWM, 1);
    reader.connect(&endpoint).unwrap();
    for _ in 0..2 {
        let sender = socket(&context, SocketType::Push);
        set_int(&sender, LINGER, -1);
        sender.bind(&endpoint).unwrap();
        send_all(&sender);
        sender.close().unwrap();
        for _ in 0..MESSAGES {
            assert_eq!(receive(&reader)[0].len(), MESSAGE_BYTES);
        }
    }
    let timeout = Some(Duration::from_millis(1));
    reader.set_receive_timeout(timeout).unwrap();
    assert!(reader.receive(false).is_err(), "no byte became a message");
}
