//! Long messages that are read straight into their place, and messages cut by the end of their
//! connection.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use support::{LINGER, pair_at, receive, send, set_int, socket};
use tidewire_zmq::{Context, SendFlags, SocketType};

const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const SNDBUF: i32 = 11;
const RECONNECT_IVL: i32 = 18;
/// Twice what a claimed length is believed: the room of the body is then as long as the body.
const EXACT_BYTES: usize = 2 << 20;

/// A program that only asks for the events had the next body read to its end. The next read had no
/// room, its 0 was taken for the end, and the connection was closed with all that lay in it.
fn arrives_while_events_are_asked_for(endpoint: &str) {
    const COUNT: u8 = 4;
    let context = Context::new();
    let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                let body = vec![number; EXACT_BYTES];
                push.send_bytes(&body, SendFlags::default()).unwrap();
                push.send_bytes(&[number], SendFlags::default()).unwrap();
            }
        });
        for number in 0..COUNT {
            // The next body comes while this one waits to be received.
            for _ in 0..2_000 {
                pull.events().unwrap();
                std::thread::yield_now();
            }
            let long = receive(&pull);
            assert_eq!(long[0].len(), EXACT_BYTES, "{endpoint}");
            assert!(long[0].iter().all(|&byte| byte == number), "{endpoint}");
            assert_eq!(receive(&pull), [[number]], "{endpoint}");
        }
    });
}

#[test]
fn a_body_read_to_its_end_is_not_taken_for_the_end_of_the_connection() {
    for endpoint in [
        "tcp://127.0.0.1:*",
        "ipc://*",
        "shm://*",
        "ws://127.0.0.1:*",
    ] {
        arrives_while_events_are_asked_for(endpoint);
    }
}

/// Shakes hands as a PULL.
fn shake(stream: &mut TcpStream) {
    let mut greeting = vec![0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, 1];
    greeting.extend_from_slice(b"NULL");
    greeting.resize(64, 0);
    stream.write_all(&greeting).unwrap();
    let ready = b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PULL";
    stream.write_all(ready).unwrap();
    let mut their_greeting = [0; 66];
    stream.read_exact(&mut their_greeting).unwrap();
    let mut their_ready = vec![0; usize::from(their_greeting[65])];
    stream.read_exact(&mut their_ready).unwrap();
}

/// The rest of a message whose first frames had gone with the old connection came first over the
/// new one, as a message of its own.
#[test]
fn a_message_cut_by_a_lost_connection_does_not_go_on_over_the_next_one() {
    // Seven frames fill what a connection is given at once: not whole messages.
    const FRAME_BYTES: usize = 40_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let context = Context::new();
    let push = socket(&context, SocketType::Push);
    set_int(&push, SNDHWM, 0);
    set_int(&push, SNDBUF, 64 << 10);
    set_int(&push, RECONNECT_IVL, 1);
    let place = format!("tcp://{}", listener.local_addr().unwrap());
    push.connect(&place).unwrap();
    // Each part says which it is of its message. They wait while no connection is there.
    for _ in 0..300 {
        let parts = [0, 1, 2].map(|part| vec![part; FRAME_BYTES]);
        send(&push, &parts.each_ref().map(Vec::as_slice));
    }
    for round in 0..10 {
        let mut stream = listener.accept().unwrap().0;
        shake(&mut stream);
        let mut first = [0; 10];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(first[..2], [3, 0], "a long frame with more to follow");
        assert_eq!(first[9], 0, "the first part of a message");
        // What is read of this connection ends in the middle of a message.
        stream.read_exact(&mut vec![0; round * 40_000]).unwrap();
    }
}

/// A write to a peer that has gone showed its end, and what lay behind the high-water mark was
/// dropped with the connection.
#[test]
fn what_a_peer_sent_before_it_went_is_received_after_a_write_to_it_has_failed() {
    const COUNT: u32 = 300;
    for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "shm://*"] {
        let context = Context::new();
        let dealers = [SocketType::Dealer; 2];
        let [receiver, sender] = pair_at(&context, endpoint, dealers[0], dealers[1]);
        set_int(&sender, SNDHWM, 0);
        set_int(&sender, LINGER, -1);
        // The mark of a connection is the one of its begin: this one comes after it.
        set_int(&receiver, RCVHWM, 2);
        send(&receiver, &[b"hello"]);
        assert_eq!(receive(&sender), [b"hello"]);
        for number in 0..COUNT {
            send(&sender, &[&number.to_be_bytes()]);
        }
        drop(sender);
        let flags = SendFlags {
            dont_wait: true,
            ..SendFlags::default()
        };
        // Over shared memory a write fails only where the peer waits for it.
        for _ in 0..5_000 {
            let _ = receiver.send_bytes(b"are you there?", flags);
            if receiver.peers().unwrap().is_empty() {
                break;
            }
        }
        for number in 0..COUNT {
            assert_eq!(receive(&receiver), [number.to_be_bytes()], "{endpoint}");
        }
    }
}
