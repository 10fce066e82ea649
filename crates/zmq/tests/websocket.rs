//! Every pattern over ws, as a program would use it.

mod support;

use support::{
    SUBSCRIBE, fill_to_the_mark, last_endpoint, pair_at, raw_socket, receive, send, set, set_int,
    socket,
};
use tidewire_zmq::{Context, Error, SocketType};

const CURVE_SERVER: i32 = 47;
const CURVE_PUBLICKEY: i32 = 48;
const CURVE_SECRETKEY: i32 = 49;
const CURVE_SERVERKEY: i32 = 50;
const PLAIN_SERVER: i32 = 44;
const PLAIN_USERNAME: i32 = 45;
const PLAIN_PASSWORD: i32 = 46;
const HEARTBEAT_IVL: i32 = 75;
const SNDHWM: i32 = 23;
const ANY: &str = "ws://127.0.0.1:*";

#[test]
fn endpoints_have_a_path_and_show_where_they_listen() {
    let context = Context::new();
    let rep = socket(&context, SocketType::Rep);
    rep.bind("ws://127.0.0.1:*/prices").unwrap();
    let endpoint = last_endpoint(&rep);
    assert!(endpoint.starts_with("ws://127.0.0.1:") && endpoint.ends_with("/prices"));
    let req = socket(&context, SocketType::Req);
    req.connect(&endpoint).unwrap();
    send(&req, &[b"ask"]);
    assert_eq!(receive(&rep), [b"ask"]);
    rep.unbind(&endpoint).unwrap();
    assert_eq!(rep.unbind(&endpoint), Err(Error::NoSuchEndpoint));
    let stream = socket(&context, SocketType::Stream);
    assert_eq!(stream.bind(ANY), Err(Error::IncompatibleTransport));
    assert_eq!(rep.bind("ws://nowhere"), Err(Error::InvalidArgument));
}

#[test]
fn requests_are_answered_in_frames_of_any_length() {
    let context = Context::new();
    let [rep, req] = pair_at(&context, ANY, SocketType::Rep, SocketType::Req);
    for length in [
        0, 1, 124, 125, 126, 255, 256, 65_534, 65_535, 65_536, 300_000, 3_000_000,
    ] {
        let body: Vec<u8> = (0..length).map(|at| at as u8).collect();
        send(&req, &[b"head", &body]);
        assert_eq!(receive(&rep), [&b"head"[..], &body], "{length} bytes");
        send(&rep, &[&body, b""]);
        assert_eq!(receive(&req), [&body[..], b""], "{length} bytes");
    }
}

#[test]
fn many_messages_keep_their_order_both_ways() {
    let context = Context::new();
    let [router, dealer] = pair_at(&context, ANY, SocketType::Router, SocketType::Dealer);
    for number in 0..3_000_u32 {
        send(&dealer, &[&number.to_be_bytes()]);
        if number % 100 == 99 {
            for expected in number - 99..=number {
                let frames = receive(&router);
                assert_eq!(frames[1], expected.to_be_bytes());
                send(&router, &[&frames[0], &frames[1]]);
            }
        }
    }
    for number in 0..3_000_u32 {
        assert_eq!(receive(&dealer), [number.to_be_bytes()]);
    }
}

#[test]
fn subscribers_get_what_they_ask_for_until_they_cancel() {
    let context = Context::new();
    let [xpub, sub] = pair_at(&context, ANY, SocketType::Xpub, SocketType::Sub);
    set(&sub, SUBSCRIBE, b"md:");
    assert_eq!(receive(&xpub), [b"\x01md:"]);
    send(&xpub, &[b"other", b"0"]);
    send(&xpub, &[b"md:A", b"1"]);
    assert_eq!(receive(&sub), [b"md:A", &b"1"[..]]);
    set(&sub, SUBSCRIBE + 1, b"md:");
    assert_eq!(receive(&xpub), [b"\x00md:"]);
}

#[test]
fn plain_is_spoken_too() {
    let context = Context::new();
    let judge = socket(&context, SocketType::Rep);
    judge.bind("inproc://zeromq.zap.01").unwrap();
    let judged = std::thread::spawn(move || {
        let request = receive(&judge);
        assert_eq!(request[5..], [&b"PLAIN"[..], b"user", b"password"]);
        let reply = [&b"1.0"[..], &request[1], b"200", b"OK", b"", b""];
        send(&judge, &reply);
    });
    let [bound, connected] = [SocketType::Pull, SocketType::Push].map(|k| socket(&context, k));
    set_int(&bound, PLAIN_SERVER, 1);
    set(&connected, PLAIN_USERNAME, b"user");
    set(&connected, PLAIN_PASSWORD, b"password");
    bound.bind(ANY).unwrap();
    connected.connect(&last_endpoint(&bound)).unwrap();
    send(&connected, &[b"plain"]);
    assert_eq!(receive(&bound), [b"plain"]);
    judged.join().unwrap();
}

#[test]
fn curve_encrypts_over_websocket_as_well() {
    let context = Context::new();
    let [bound, connected] = [SocketType::Xpub, SocketType::Sub].map(|k| socket(&context, k));
    let [server, client] = [(); 2].map(|()| tidewire_zmtp::curve::Keypair::generate().unwrap());
    set_int(&bound, CURVE_SERVER, 1);
    set(&bound, CURVE_SECRETKEY, server.secret.as_bytes());
    set(&connected, CURVE_SERVERKEY, &server.public);
    set(&connected, CURVE_PUBLICKEY, &client.public);
    set(&connected, CURVE_SECRETKEY, client.secret.as_bytes());
    bound.bind(ANY).unwrap();
    connected.connect(&last_endpoint(&bound)).unwrap();
    set(&connected, SUBSCRIBE, b"");
    assert_eq!(receive(&bound), [b"\x01"]);
    let body = vec![7; 500_000];
    send(&bound, &[b"topic", &body]);
    assert_eq!(receive(&connected), [&b"topic"[..], &body]);
}

#[test]
fn heartbeats_keep_a_quiet_connection() {
    let context = Context::new();
    let [bound, connected] = [SocketType::Pair, SocketType::Pair].map(|k| socket(&context, k));
    for one in [&bound, &connected] {
        set_int(one, HEARTBEAT_IVL, 20);
    }
    bound.bind(ANY).unwrap();
    connected.connect(&last_endpoint(&bound)).unwrap();
    for _ in 0..3 {
        send(&connected, &[b"x"]);
        assert_eq!(receive(&bound), [b"x"]);
        // Longer than either would wait for the other's PONG.
        assert!(bound.receive(true).is_err());
        std::thread::sleep(std::time::Duration::from_millis(60));
    }
    let peers = connected.peers().unwrap();
    assert_eq!(
        (peers.len(), peers[0].sent),
        (1, 3),
        "it is the same connection"
    );
}

#[test]
fn a_peer_that_does_not_read_is_queued_for_within_the_mark() {
    let context = Context::new();
    let [bound, connected] = [SocketType::Push, SocketType::Pull].map(|k| socket(&context, k));
    set_int(&bound, SNDHWM, 10);
    set_int(&connected, 24, 1);
    bound.bind(ANY).unwrap();
    connected.connect(&last_endpoint(&bound)).unwrap();
    send(&bound, &[b"first"]);
    assert_eq!(receive(&connected), [b"first"]);
    fill_to_the_mark(&bound, &connected);
}

#[test]
fn whoever_speaks_something_else_gets_an_answer_and_harms_nobody() {
    use std::io::{Read, Write};
    let context = Context::new();
    let rep = socket(&context, SocketType::Rep);
    rep.bind(ANY).unwrap();
    let endpoint = last_endpoint(&rep);
    for request in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"nonsense\r\n\r\n",
        &[0xff; 64],
    ] {
        let mut stream = raw_socket(&endpoint);
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    }
    let req = socket(&context, SocketType::Req);
    req.connect(&endpoint).unwrap();
    send(&req, &[b"still"]);
    assert_eq!(receive(&rep), [b"still"]);
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    pull.bind(ANY).unwrap();
    let endpoint = last_endpoint(&pull);
    let push = socket(&context, SocketType::Push);
    push.connect(&endpoint).unwrap();
    send(&push, &[b"one"]);
    assert_eq!(receive(&pull), [b"one"]);
    pull.unbind(&endpoint).unwrap();
    // What is sent before the loss shows is lost with the connection.
    while push.peers().unwrap()[0].is_connected {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let again = socket(&context, SocketType::Pull);
    // The connections of the old one may still hold the port.
    while again.bind(&endpoint).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    send(&push, &[b"two"]);
    assert_eq!(receive(&again), [b"two"]);
}
