//! RADIO and DISH: messages by groups.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use support::{LAST, MORE, last_endpoint, pair_at, raw_socket, set_int, socket};
use tidewire_zmq::{Context, Error, Message, Socket, SocketType};

const XPUB_VERBOSE: i32 = 40;
const XPUB_NODROP: i32 = 69;
const ENDPOINTS: [&str; 5] = [
    "tcp://127.0.0.1:*",
    "ipc://*",
    "shm://*",
    "inproc://radio",
    "ws://127.0.0.1:*",
];

fn send_to(radio: &Socket, group: &[u8], body: &[u8]) {
    let mut message = Message::from_slice(body);
    message.set_group(group).unwrap();
    radio.send(&mut message, LAST).unwrap();
}

/// Sends to a group until the dish has it, which it has joined a moment ago; reads the rest away.
fn settle(radio: &Socket, dish: &Socket, group: &[u8]) {
    loop {
        send_to(radio, group, b"settle");
        if dish.receive(true).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    send_to(radio, group, b"settled");
    while dish.receive(false).unwrap().as_slice() != b"settled" {}
}

fn assert_next(dish: &Socket, group: &[u8], body: &[u8]) {
    let message = dish.receive(false).unwrap();
    assert_eq!(message.group(), group);
    assert_eq!(message.as_slice(), body);
    assert!(!message.more());
}

#[test]
fn a_dish_gets_what_is_sent_to_the_groups_it_is_in() {
    let longest = [b'g'; 255];
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [radio, dish] = pair_at(&context, endpoint, SocketType::Radio, SocketType::Dish);
        let other = socket(&context, SocketType::Dish);
        other.join("films").unwrap();
        other.connect(&last_endpoint(&radio)).unwrap();
        settle(&radio, &other, b"films");
        for group in [&b"films"[..], b"", &longest] {
            dish.join(group).unwrap();
            settle(&radio, &dish, group);
        }
        // A group is not what another begins with.
        send_to(&radio, b"film", b"no");
        send_to(&radio, b"films of yesterday", b"no");
        for size in [0, 1, 38, 39, 5_000, 300_000] {
            for group in [&b"films"[..], b"", &longest] {
                send_to(&radio, group, &vec![7; size]);
                assert_next(&dish, group, &vec![7; size]);
            }
        }
        radio.send_bytes(b"without a name", LAST).unwrap();
        assert_next(&dish, b"", b"without a name");

        dish.leave("films").unwrap();
        send_to(&radio, b"films", b"left");
        send_to(&radio, b"", b"stayed");
        assert_next(&dish, b"", b"stayed");
        while other.receive(false).unwrap().as_slice() != b"left" {}
    }
}

#[test]
fn a_radio_sends_nothing_to_who_is_not_in_the_group() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [radio, dish] = pair_at(&context, endpoint, SocketType::Radio, SocketType::Dish);
        dish.join("one").unwrap();
        settle(&radio, &dish, b"one");
        let sent = || radio.peers().unwrap()[0].sent;
        let before = sent();
        send_to(&radio, b"two", b"for nobody");
        assert_eq!(sent(), before, "{endpoint}");
        send_to(&radio, b"one", b"for the dish");
        assert_eq!(sent(), before + 1, "{endpoint}");
    }
}

#[test]
fn groups_are_joined_once_and_left_once() {
    let context = Context::new();
    let dish = socket(&context, SocketType::Dish);
    assert_eq!(dish.leave("films"), Err(Error::InvalidArgument));
    dish.join("films").unwrap();
    assert_eq!(dish.join("films"), Err(Error::InvalidArgument));
    assert_eq!(dish.leave("film"), Err(Error::InvalidArgument));
    dish.leave("films").unwrap();
    assert_eq!(dish.leave("films"), Err(Error::InvalidArgument));
    assert_eq!(dish.join([b'A'; 256]), Err(Error::InvalidArgument));
    assert_eq!(dish.join("a\0b"), Err(Error::InvalidArgument));
    let radio = socket(&context, SocketType::Radio);
    assert_eq!(radio.join("films"), Err(Error::NotSupported));
    assert_eq!(radio.leave("films"), Err(Error::NotSupported));
    let mut message = Message::from("body");
    let result = message.set_group([b'A'; 256]);
    assert_eq!(result, Err(Error::InvalidArgument));
    assert_eq!(message.group(), b"");
}

#[test]
fn each_does_its_part_alone() {
    let context = Context::new();
    let radio = socket(&context, SocketType::Radio);
    assert_eq!(radio.receive(true).unwrap_err(), Error::NotSupported);
    assert_eq!(radio.send_bytes(b"head", MORE), Err(Error::InvalidArgument));
    let dish = socket(&context, SocketType::Dish);
    for flags in [LAST, MORE] {
        assert_eq!(dish.send_bytes(b"x", flags), Err(Error::NotSupported));
    }
    // Of the options for publishers a RADIO has one.
    set_int(&radio, XPUB_NODROP, 1);
    let result = radio.set_option(XPUB_VERBOSE, &1_i32.to_ne_bytes());
    assert_eq!(result, Err(Error::InvalidArgument));
}

#[test]
fn a_dish_joins_again_when_it_comes_back() {
    let context = Context::new();
    let radio = socket(&context, SocketType::Radio);
    radio.bind("tcp://127.0.0.1:*").unwrap();
    let place = last_endpoint(&radio);
    let dish = socket(&context, SocketType::Dish);
    dish.connect(&place).unwrap();
    dish.join("films").unwrap();
    settle(&radio, &dish, b"films");
    radio.unbind(&place).unwrap();
    let radio = socket(&context, SocketType::Radio);
    radio.bind(&place).unwrap();
    settle(&radio, &dish, b"films");
}

/// Greeting and READY of a peer of this type.
fn introduction(kind: &str) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    (bytes[0], bytes[9], bytes[10], bytes[11]) = (0xFF, 0x7F, 3, 1);
    bytes[12..16].copy_from_slice(b"NULL");
    let length = 6 + 12 + 4 + kind.len();
    bytes.extend_from_slice(&[4, length as u8]);
    bytes.extend_from_slice(b"\x05READY\x0bSocket-Type\x00\x00\x00");
    bytes.push(kind.len() as u8);
    bytes.extend_from_slice(kind.as_bytes());
    bytes
}

/// Its connection is closed, with bytes unread or after them.
fn assert_let_go(peer: &mut TcpStream) {
    let mut rest = Vec::new();
    let end = peer.read_to_end(&mut rest).map_err(|error| error.kind());
    let reset = Err(std::io::ErrorKind::ConnectionReset);
    assert!(end.is_ok() || end == reset, "{end:?}");
}

#[test]
fn who_sends_a_dish_no_group_and_body_is_let_go_and_nobody_else() {
    let context = Context::new();
    let dish = socket(&context, SocketType::Dish);
    dish.join("g").unwrap();
    dish.bind("tcp://127.0.0.1:*").unwrap();
    let radio = socket(&context, SocketType::Radio);
    radio.connect(&last_endpoint(&dish)).unwrap();
    settle(&radio, &dish, b"g");
    let mut long_group = b"\x03\0\0\0\0\0\0\x01\0".to_vec();
    long_group.extend_from_slice(&[b'A'; 256]);
    long_group.extend_from_slice(b"\x00\x04body");
    for wrong in [
        &b"\x00\x01g"[..],
        b"\x01\x01g\x01\x04body\x00\x04more",
        &long_group,
    ] {
        let mut peer = raw_socket(&last_endpoint(&dish));
        let mut bytes = introduction("RADIO");
        bytes.extend_from_slice(b"\x01\x01g\x00\x05first");
        bytes.extend_from_slice(wrong);
        bytes.extend_from_slice(b"\x01\x01g\x00\x04last");
        peer.write_all(&bytes).unwrap();
        assert_next(&dish, b"g", b"first");
        assert_eq!(dish.receive(true).unwrap_err(), Error::Again);
        assert_let_go(&mut peer);
        send_to(&radio, b"g", b"still here");
        assert_next(&dish, b"g", b"still here");
    }
}

#[test]
fn who_joins_a_group_that_cannot_be_is_let_go_and_nobody_else() {
    let context = Context::new();
    let [radio, dish] = pair_at(
        &context,
        "tcp://127.0.0.1:*",
        SocketType::Radio,
        SocketType::Dish,
    );
    dish.join("g").unwrap();
    settle(&radio, &dish, b"g");
    let mut peer = raw_socket(&last_endpoint(&radio));
    let mut bytes = introduction("DISH");
    bytes.extend_from_slice(b"\x06\0\0\0\0\0\0\x01\x05\x04JOIN");
    bytes.extend_from_slice(&[b'A'; 256]);
    peer.write_all(&bytes).unwrap();
    assert_let_go(&mut peer);
    send_to(&radio, b"g", b"still here");
    assert_next(&dish, b"g", b"still here");
}
