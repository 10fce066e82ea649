//! What becomes of a peer by the answers of a ZAP handler.

mod support;

use support::{last_endpoint, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Message, SendFlags, Socket, SocketType};

const ZAP_DOMAIN: i32 = 55;
const HANDSHAKE_IVL: i32 = 66;
const RECONNECT_IVL: i32 = 18;
const HANDSHAKE_FAILED_NO_DETAIL: u16 = 0x800;
const HANDSHAKE_SUCCEEDED: u16 = 0x1000;
const HANDSHAKE_FAILED_PROTOCOL: u16 = 0x2000;
const HANDSHAKE_FAILED_AUTH: u16 = 0x4000;
const ZAP_INVALID_METADATA: u32 = 0x2000_0005;
const EAGAIN: u32 = 11;

/// The status, the user and the metadata of an answer.
type Answer<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// A ROUTER that a DEALER connects to, which is judged by these answers, given at once; and what
/// the ROUTER's monitor tells first.
fn judged(context: &Context, answers: &[Answer<'_>]) -> ([Socket; 2], (u16, u32)) {
    let handler = socket(context, SocketType::Router);
    handler.bind("inproc://zeromq.zap.01").unwrap();
    let server = socket(context, SocketType::Router);
    set(&server, ZAP_DOMAIN, b"domain");
    set_int(&server, HANDSHAKE_IVL, 1_000);
    server.bind("tcp://127.0.0.1:*").unwrap();
    let events = HANDSHAKE_FAILED_NO_DETAIL
        | HANDSHAKE_SUCCEEDED
        | HANDSHAKE_FAILED_PROTOCOL
        | HANDSHAKE_FAILED_AUTH;
    let kind = SocketType::Pair;
    server
        .monitor(Some("inproc://told"), u64::from(events), 1, kind)
        .unwrap();
    let monitor = socket(context, kind);
    monitor.connect("inproc://told").unwrap();
    let client = socket(context, SocketType::Dealer);
    set_int(&client, RECONNECT_IVL, -1);
    client.connect(&last_endpoint(&server)).unwrap();
    let request = receive(&handler);
    for &(status, user, metadata) in answers {
        let envelope = [&request[0], &b""[..], b"1.0", &request[3]];
        send(
            &handler,
            &[&envelope[..], &[status, b"", user, metadata]].concat(),
        );
    }
    let told = receive(&monitor).remove(0);
    let event = u16::from_ne_bytes([told[0], told[1]]);
    let value = u32::from_ne_bytes(told[2..6].try_into().unwrap());
    ([server, client], (event, value))
}

#[test]
fn an_empty_name_of_a_user_was_none() {
    let context = Context::new();
    let ([server, client], told) = judged(&context, &[(b"200", b"", b"")]);
    assert_eq!(told, (HANDSHAKE_SUCCEEDED, 0));
    client
        .send(&mut Message::from_slice(b"hello"), SendFlags::default())
        .unwrap();
    let name = server.receive(false).unwrap();
    assert_eq!(name.property("User-Id"), Some(""));
    let body = server.receive(false).unwrap();
    assert_eq!(body.property_text("User-Id"), Some(c""));
}

#[test]
fn a_handler_named_a_type_of_socket_that_does_not_go_with_ours() {
    let metadata = |kind: &[u8]| {
        let length = (kind.len() as u32).to_be_bytes();
        [&b"\x0bSocket-Type"[..], &length, kind].concat()
    };
    for (kind, expected) in [
        (
            &b"PUSH"[..],
            (HANDSHAKE_FAILED_PROTOCOL, ZAP_INVALID_METADATA),
        ),
        (b"dealer", (HANDSHAKE_FAILED_PROTOCOL, ZAP_INVALID_METADATA)),
        (b"REQ", (HANDSHAKE_SUCCEEDED, 0)),
    ] {
        let context = Context::new();
        let (_sockets, told) = judged(&context, &[(b"200", b"user", &metadata(kind))]);
        assert_eq!(told, expected, "{}", String::from_utf8_lossy(kind));
    }
}

#[test]
fn a_refusal_that_another_answer_followed_was_told_as_a_broken_answer() {
    let context = Context::new();
    let answers = [(&b"300"[..], &b""[..], &b""[..]), (b"200", b"user", b"")];
    let (_sockets, told) = judged(&context, &answers);
    assert_eq!(told, (HANDSHAKE_FAILED_AUTH, 300));
}

#[test]
fn of_a_handler_that_does_not_answer_the_monitor_tells_what_libzmq_tells() {
    let context = Context::new();
    let (_sockets, told) = judged(&context, &[]);
    assert_eq!(told, (HANDSHAKE_FAILED_NO_DETAIL, EAGAIN));
}

/// libzmq reads one answer to a question.
#[test]
fn a_second_answer_kept_a_peer_out_and_counts_for_no_other() {
    for second in [&b"200"[..], b"400", b"300"] {
        let context = Context::new();
        let handler = socket(&context, SocketType::Router);
        handler.bind("inproc://zeromq.zap.01").unwrap();
        let server = socket(&context, SocketType::Dealer);
        set(&server, ZAP_DOMAIN, b"domain");
        server.bind("tcp://127.0.0.1:*").unwrap();
        let answer = |request: &[Vec<u8>], status: &[u8], user: &[u8]| {
            let envelope = [&request[0], &b""[..], b"1.0", &request[3]];
            let rest = [status, b"", user, b""];
            send(&handler, &[&envelope[..], &rest].concat());
        };
        let client = || {
            let client = socket(&context, SocketType::Dealer);
            client.connect(&last_endpoint(&server)).unwrap();
            send(&client, &[b"hello"]);
            client
        };
        let _first = client();
        let request = receive(&handler);
        answer(&request, b"200", b"first");
        answer(&request, second, b"second");
        let hello = server.receive(false).unwrap();
        assert_eq!(hello.property("User-Id"), Some("first"));
        let _other = client();
        let next = receive(&handler);
        answer(&request, second, b"third");
        answer(&next, b"200", b"other");
        let hello = server.receive(false).unwrap();
        assert_eq!(hello.property("User-Id"), Some("other"));
    }
}
