//! Sockets that several threads use at once.

mod support;

use support::{pair_at, receive, send, set_int, socket};
use tidewire_zmq::{Context, Multipart, SocketType};

const SENDERS: usize = 4;
const MESSAGES: usize = 2_000;
const CONFLATE: i32 = 54;

/// The frames of two messages came as one.
#[test]
fn messages_that_threads_sent_and_received_as_a_whole_mixed_their_frames() {
    for (endpoint, kind, peer) in [
        ("tcp://127.0.0.1:*", SocketType::Dealer, SocketType::Dealer),
        ("inproc://sharing", SocketType::Push, SocketType::Pull),
    ] {
        let context = Context::new();
        let [receiver, sender] = pair_at(&context, endpoint, peer, kind);
        std::thread::scope(|threads| {
            for thread in 0..SENDERS {
                let sender = &sender;
                threads.spawn(move || {
                    for number in 0..MESSAGES {
                        let frame = format!("{thread} {number}").into_bytes();
                        let frames = vec![frame; 4];
                        let mut message: Multipart = frames.into_iter().collect();
                        sender.send_parts(&mut message, false).unwrap();
                    }
                });
                let receiver = &receiver;
                threads.spawn(move || {
                    for _ in 0..MESSAGES {
                        let message = receiver.receive_parts(false).unwrap();
                        let frames: Vec<_> = message.iter().map(|frame| frame.as_slice()).collect();
                        assert_eq!(frames.len(), 4, "{endpoint}");
                        let first = String::from_utf8_lossy(frames[0]);
                        assert!(
                            frames.iter().all(|frame| *frame == frames[0]),
                            "{endpoint} {first}"
                        );
                    }
                });
            }
        });
    }
}

/// The connections that there were kept one message only from then on.
#[test]
fn conflate_counts_as_it_was_when_the_endpoint_was_bound_or_connected() {
    let context = Context::new();
    for is_bound in [true, false] {
        let [pull, push] = [SocketType::Pull, SocketType::Push].map(|kind| socket(&context, kind));
        let [bound, connected] = match is_bound {
            true => [&pull, &push],
            false => [&push, &pull],
        };
        bound.bind("tcp://127.0.0.1:*").unwrap();
        connected.connect(&support::last_endpoint(bound)).unwrap();
        set_int(&pull, CONFLATE, 1);
        for number in 0..5_u8 {
            send(&push, &[&[number]]);
        }
        for number in 0..5_u8 {
            assert_eq!(receive(&pull), [[number]], "bound: {is_bound}");
        }
    }
}
