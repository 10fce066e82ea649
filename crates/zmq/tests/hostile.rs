//! What has brought libzmq down over the years, sent to sockets: whoever sends it goes, the memory
//! stays bounded, and other peers are served.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use support::{LAST, LINGER, SUBSCRIBE, last_endpoint, set, set_int, socket};
use tidewire_zmq::{Context, Socket, SocketType};

const CURVE_SERVER: i32 = 47;
const CURVE_SECRETKEY: i32 = 49;
const CURVE_PUBLICKEY: i32 = 48;
const CURVE_SERVERKEY: i32 = 50;
const SECRET: [u8; 32] = [7; 32];
/// More memory than this, in kilobytes, no input of a few bytes may cost.
const GROWTH_MAX_KB: u64 = 64 << 10;

fn bound(context: &Context, kind: SocketType) -> (Socket, String) {
    let socket = socket(context, kind);
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = last_endpoint(&socket);
    (socket, endpoint)
}

fn raw(endpoint: &str) -> TcpStream {
    let stream = TcpStream::connect(endpoint.trim_start_matches("tcp://")).unwrap();
    let five_seconds = Some(Duration::from_secs(5));
    stream.set_read_timeout(five_seconds).unwrap();
    stream.set_write_timeout(five_seconds).unwrap();
    stream
}

fn greeting(mechanism: &[u8]) -> Vec<u8> {
    let mut greeting = vec![0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, 1];
    greeting.extend_from_slice(mechanism);
    greeting.resize(64, 0);
    greeting
}

fn ready(kind: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend_from_slice(&(kind.len() as u32).to_be_bytes());
    body.extend_from_slice(kind.as_bytes());
    let mut command = vec![4, body.len() as u8];
    command.extend_from_slice(&body);
    command
}

/// Shakes hands as a peer of this type without security.
fn shaken(endpoint: &str, kind: &str) -> TcpStream {
    let mut stream = raw(endpoint);
    stream.write_all(&greeting(b"NULL")).unwrap();
    stream.write_all(&ready(kind)).unwrap();
    let mut their_greeting = [0; 66];
    stream.read_exact(&mut their_greeting).unwrap();
    let mut their_ready = vec![0; usize::from(their_greeting[65])];
    stream.read_exact(&mut their_ready).unwrap();
    stream
}

/// Waits until the other side ends the connection.
fn ended(mut stream: TcpStream) {
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                return;
            }
        }
    }
}

fn resident_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4
}

/// An honest PUSH still gets through to this PULL.
fn still_serves(context: &Context, pull: &Socket, endpoint: &str) {
    let push = socket(context, SocketType::Push);
    push.connect(endpoint).unwrap();
    push.send_bytes(b"honest", LAST).unwrap();
    assert_eq!(pull.receive(false).unwrap().as_slice(), b"honest");
}

#[test]
fn lengths_that_overflow_end_the_connection() {
    // CVE-2019-6250: a length near 2^64 overflowed a pointer.
    let context = Context::new();
    let (pull, endpoint) = bound(&context, SocketType::Pull);
    let before = resident_kb();
    for length in [u64::MAX, u64::MAX - 8, 1 << 63] {
        let mut stream = shaken(&endpoint, "PUSH");
        stream.write_all(&[2]).unwrap();
        stream.write_all(&length.to_be_bytes()).unwrap();
        let _ = stream.write_all(&[b'x'; 4096]);
        ended(stream);
    }
    still_serves(&context, &pull, &endpoint);
    assert!(resident_kb() < before + GROWTH_MAX_KB);
}

#[test]
fn a_length_that_is_only_claimed_costs_no_memory() {
    let context = Context::new();
    let (pull, endpoint) = bound(&context, SocketType::Pull);
    let before = resident_kb();
    let claims: Vec<TcpStream> = (0..32)
        .map(|_| {
            let mut stream = shaken(&endpoint, "PUSH");
            stream.write_all(&[2]).unwrap();
            stream.write_all(&(1_u64 << 40).to_be_bytes()).unwrap();
            stream.write_all(&[b'x'; 1000]).unwrap();
            stream
        })
        .collect();
    still_serves(&context, &pull, &endpoint);
    assert!(resident_kb() < before + GROWTH_MAX_KB);
    drop(claims);
}

#[test]
fn unauthenticated_octets_do_not_keep_curve_clients_out() {
    // CVE-2019-13132: a long INITIATE overflowed the stack. CVE-2020-15166: raw connections kept
    // clients out.
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    set_int(&pull, CURVE_SERVER, 1);
    set(&pull, CURVE_SECRETKEY, &SECRET);
    pull.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = last_endpoint(&pull);
    let silent: Vec<TcpStream> = (0..50).map(|_| raw(&endpoint)).collect();
    for name in ["HELLO", "INITIATE", "MESSAGE", "READY"] {
        for length in [1_usize, 199, 257, 2048, 60_000] {
            let mut stream = raw(&endpoint);
            stream.write_all(&greeting(b"CURVE")).unwrap();
            let mut command = vec![6];
            command.extend_from_slice(&((1 + name.len() + length) as u64).to_be_bytes());
            command.push(name.len() as u8);
            command.extend_from_slice(name.as_bytes());
            command.resize(command.len() + length, 0x5A);
            // It may be sent away in the middle of it.
            let _ = stream.write_all(&command);
            ended(stream);
        }
    }
    let push = socket(&context, SocketType::Push);
    let secret = tidewire_zmtp::curve::SecretKey::new(SECRET);
    let public = tidewire_zmtp::curve::public_from_secret(&secret);
    set(&push, CURVE_SERVERKEY, &public);
    set(&push, CURVE_PUBLICKEY, &public);
    set(&push, CURVE_SECRETKEY, &SECRET);
    push.connect(&endpoint).unwrap();
    push.send_bytes(b"honest", LAST).unwrap();
    assert_eq!(pull.receive(false).unwrap().as_slice(), b"honest");
    drop(silent);
}

#[test]
fn a_long_topic_is_forgotten_without_recursion() {
    // GHSA-qq65-x72m-9wr8: a trie that recursed for each octet of a topic.
    let context = Context::new();
    let (publisher, endpoint) = bound(&context, SocketType::Xpub);
    let subscribed = |length: usize| {
        let mut stream = shaken(&endpoint, "SUB");
        stream.write_all(&[2]).unwrap();
        stream
            .write_all(&(length as u64 + 1).to_be_bytes())
            .unwrap();
        stream.write_all(&[1]).unwrap();
        let _ = stream.write_all(&vec![b't'; length]);
        stream
    };
    let stream = subscribed(60_000);
    assert_eq!(publisher.receive(false).unwrap().len(), 60_001);
    drop(stream);
    let end = publisher.receive(false).unwrap();
    assert_eq!((end.len(), end.as_slice()[0]), (60_001, 0));
    // Topics are names: one of this length is none.
    ended(subscribed(300_000));
}

#[test]
fn messages_to_a_publisher_are_not_kept() {
    // GHSA-4p5v-h92w-6wxw: a publisher kept what was sent to it.
    let context = Context::new();
    let (publisher, endpoint) = bound(&context, SocketType::Pub);
    let mut stream = shaken(&endpoint, "SUB");
    stream.write_all(&[0, 1, 1]).unwrap();
    let before = resident_kb();
    let mut message = vec![2];
    message.extend_from_slice(&(1_u64 << 20).to_be_bytes());
    message.resize(9 + (1 << 20), b'x');
    for _ in 0..200 {
        stream.write_all(&message).unwrap();
    }
    let subscriber = socket(&context, SocketType::Sub);
    set(&subscriber, SUBSCRIBE, b"");
    subscriber.connect(&endpoint).unwrap();
    set_int(&subscriber, 27, 20);
    while subscriber.receive(false).is_err() {
        publisher.send_bytes(b"still here", LAST).unwrap();
    }
    assert!(resident_kb() < before + GROWTH_MAX_KB);
}

#[test]
fn old_and_foreign_protocols_are_sent_away() {
    // GHSA-fc3w-qxf5-7hp6: malformed packets of version 1; libzmq#769: text to a server.
    let context = Context::new();
    let (pull, endpoint) = bound(&context, SocketType::Pull);
    let inputs: [&[u8]; 7] = [
        b"\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00",
        b"\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01\x08\x00\xff\xff",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"help\r\nquit\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ];
    for input in inputs {
        let mut stream = raw(&endpoint);
        stream.write_all(input).unwrap();
        // What is still a beginning of something waits for the rest; it goes with its sender.
        drop(stream);
    }
    still_serves(&context, &pull, &endpoint);
}

#[test]
fn a_server_that_breaks_the_protocol_does_not_grow_its_clients() {
    // GHSA-wfr2-29gj-5w87: a malicious server made clients leak.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for _ in 0..20 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut answer = greeting(b"NULL");
            answer.extend_from_slice(&ready("PUSH"));
            answer.extend_from_slice(&[0xFF; 65_536]);
            let _ = stream.write_all(&answer);
        }
    });
    let context = Context::new();
    let before = resident_kb();
    let pull = socket(&context, SocketType::Pull);
    set_int(&pull, LINGER, 0);
    // Comes back at once, each time to be told nonsense.
    set_int(&pull, 18, 1);
    pull.connect(&format!("tcp://{address}")).unwrap();
    server.join().unwrap();
    assert!(resident_kb() < before + GROWTH_MAX_KB);
}
