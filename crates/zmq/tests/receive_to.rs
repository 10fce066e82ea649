//! Receiving into a message that is there already: what it held before is gone, and nothing of it
//! shows in what came.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::{LAST, SUBSCRIBE, last_endpoint, pair_at, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

const SNDHWM: i32 = 23;

const ENDPOINTS: [&str; 4] = ["inproc://place", "tcp://127.0.0.1:*", "ipc://*", "shm://*"];

#[test]
fn one_message_takes_in_all_that_come_of_any_length() {
    let context = Context::new();
    for endpoint in ENDPOINTS {
        let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
        let lengths = [
            0, 1, 38, 39, 40, 255, 256, 64, 1_024, 1_025, 64, 5_000, 3, 70_000, 100,
        ];
        let mut place = Message::from_slice(b"what was here before");
        for (index, length) in lengths.into_iter().enumerate() {
            let body = vec![index as u8; length];
            send(&push, &[b"first", &body]);
            send(&push, &[&body]);
            pull.receive_to(&mut place, false).unwrap();
            assert!(place.more(), "{endpoint}");
            pull.receive_to(&mut place, false).unwrap();
            assert!(
                place.as_slice() == body && !place.more(),
                "{endpoint} {length}"
            );
            pull.receive_to(&mut place, false).unwrap();
            assert!(
                place.as_slice() == body && !place.more(),
                "{endpoint} {length}"
            );
        }
    }
}

#[test]
fn what_a_message_told_of_its_peer_does_not_stay() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    let [by_tcp, within] = ["tcp://127.0.0.1:*", "inproc://untold"].map(|endpoint| {
        pull.bind(endpoint).unwrap();
        let push = socket(&context, SocketType::Push);
        push.connect(&last_endpoint(&pull)).unwrap();
        push
    });
    let mut place = Message::new();
    place.set_routing_id(7);
    for _ in 0..3 {
        send(&by_tcp, &[b"by tcp"]);
        pull.receive_to(&mut place, false).unwrap();
        assert_eq!(place.property("Socket-Type"), Some("PUSH"));
        assert_eq!(place.routing_id(), 0);
        send(&within, &[b"within"]);
        pull.receive_to(&mut place, false).unwrap();
        assert_eq!(place.property("Socket-Type"), None);
    }
}

#[test]
fn a_message_stays_where_nothing_comes() {
    let context = Context::new();
    for endpoint in ENDPOINTS {
        let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
        send(&push, &[b"here"]);
        let mut place = Message::new();
        pull.receive_to(&mut place, false).unwrap();
        let mut shared = place.share();
        let result = pull.receive_to(&mut place, true);
        assert_eq!(result.err(), Some(Error::Again));
        assert_eq!(pull.receive_to(&mut shared, true).err(), Some(Error::Again));
        assert_eq!(
            (place.as_slice(), shared.as_slice()),
            (&b"here"[..], &b"here"[..])
        );
        assert_eq!(
            push.receive_to(&mut place, true).err(),
            Some(Error::NotSupported)
        );
    }
}

#[test]
fn what_was_not_subscribed_to_is_passed_over() {
    let context = Context::new();
    for endpoint in ENDPOINTS {
        let [publisher, subscriber] =
            pair_at(&context, endpoint, SocketType::Xpub, SocketType::Sub);
        set(&subscriber, SUBSCRIBE, b"a");
        assert_eq!(publisher.receive(false).unwrap().as_slice(), b"\x01a");
        let mut place = Message::new();
        for round in 0..100_u32 {
            let kept = [b"a".as_slice(), &round.to_ne_bytes()].concat();
            send(&publisher, &[b"b"]);
            send(&publisher, &[&kept]);
            subscriber.receive_to(&mut place, false).unwrap();
            assert_eq!(place.as_slice(), kept);
        }
    }
}

/// Bytes whose owner uses the socket when they are let go, as C's functions may.
struct Owner(Socket, Arc<AtomicBool>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"lent"
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.events().unwrap();
        self.1.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_owner_of_lent_bytes_may_use_the_socket_that_takes_their_place() {
    let context = Context::new();
    let [pull, push] = pair_at(
        &context,
        "inproc://lent",
        SocketType::Pull,
        SocketType::Push,
    );
    let is_used = Arc::new(AtomicBool::new(false));
    let mut place = Message::from_owner(Owner(pull.clone(), Arc::clone(&is_used)));
    send(&push, &[b"takes their place"]);
    pull.receive_to(&mut place, false).unwrap();
    assert_eq!(place.as_slice(), b"takes their place");
    assert!(is_used.load(Ordering::Relaxed));
}

/// A send within the process let them go with the socket locked, and never returned.
#[test]
fn the_owner_of_lent_bytes_may_use_the_socket_that_sends_them() {
    let context = Context::new();
    for endpoint in ENDPOINTS {
        let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
        send(&push, &[b"met"]);
        assert_eq!(receive(&pull), [b"met"]);
        let is_used = Arc::new(AtomicBool::new(false));
        let mut message = Message::from_owner(Owner(push.clone(), Arc::clone(&is_used)));
        push.send(&mut message, LAST).unwrap();
        assert!(message.is_empty() && is_used.load(Ordering::Relaxed));
        assert_eq!(receive(&pull), [b"lent"]);
    }
}

/// The short way to the one peer keeps to the marks as the long one does.
#[test]
fn a_sender_of_short_messages_waits_at_the_mark() {
    let context = Context::new();
    let [pull, push] = pair_at(
        &context,
        "tcp://127.0.0.1:*",
        SocketType::Pull,
        SocketType::Push,
    );
    set_int(&push, SNDHWM, 10);
    send(&push, &[b"met"]);
    assert_eq!(receive(&pull), [b"met"]);
    let flags = SendFlags {
        dont_wait: true,
        ..LAST
    };
    let mut sent = 0;
    while push.send_bytes(&[1; 200], flags).is_ok() {
        sent += 1;
        assert!(sent < 1_000_000, "the mark holds");
    }
    let mut place = Message::new();
    for _ in 0..sent {
        pull.receive_to(&mut place, false).unwrap();
        assert_eq!(place.as_slice(), [1; 200]);
    }
    assert_eq!(pull.receive_to(&mut place, true).err(), Some(Error::Again));
}
