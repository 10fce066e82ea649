//! What programs do to sockets that they should not, and what a machine at its limits does to
//! them: errors, and nothing worse.

mod support;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use support::{receive, send, set_int, socket};
use tidewire_zmq::{Context, Error, Message, SendFlags, SocketType};

const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const SNDTIMEO: i32 = 28;

fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

#[test]
fn a_sender_that_waits_for_room_sleeps_though_there_is_something_to_read() {
    let context = Context::new();
    let [full, other] = [SocketType::Pair, SocketType::Pair].map(|kind| socket(&context, kind));
    for socket in [&full, &other] {
        set_int(socket, SNDHWM, 1);
        set_int(socket, RCVHWM, 1);
    }
    full.bind("inproc://full").unwrap();
    other.connect("inproc://full").unwrap();
    send(&other, &[b"unread"]);
    set_int(&full, SNDTIMEO, 400);
    let begin = processor_time();
    let mut sent = 0;
    let error = loop {
        match full.send(&mut Message::from_slice(b"one"), SendFlags::default()) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    let spent = processor_time() - begin;
    assert_eq!((error, sent), (Error::Again, 2));
    assert!(spent < Duration::from_millis(200), "{spent:?} of 400 ms");
    assert_eq!(receive(&full), [b"unread"]);
}

#[test]
fn threads_that_share_a_socket_take_turns() {
    const THREADS: usize = 4;
    const MESSAGES: usize = 2_000;
    let context = Context::new();
    for endpoint in ["inproc://shared", "tcp://127.0.0.1:*"] {
        let [push, pull] = support::pair_at(&context, endpoint, SocketType::Push, SocketType::Pull);
        let received = std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let push = push.clone();
                scope.spawn(move || {
                    for number in 0..MESSAGES {
                        let text = format!("{thread} {number}");
                        send(&push, &[text.as_bytes()]);
                    }
                });
            }
            let receivers: Vec<_> = (0..THREADS)
                .map(|_| {
                    let pull = pull.clone();
                    scope.spawn(move || -> Vec<Vec<u8>> {
                        let turns = 0..MESSAGES;
                        turns.map(|_| receive(&pull).swap_remove(0)).collect()
                    })
                })
                .collect();
            let all = receivers
                .into_iter()
                .map(|receiver| receiver.join().unwrap());
            all.collect::<Vec<_>>().concat()
        });
        let mut whole: Vec<_> = received;
        whole.sort_unstable();
        whole.dedup();
        assert_eq!(
            whole.len(),
            THREADS * MESSAGES,
            "each message once, unharmed"
        );
    }
}

#[test]
fn a_receiver_that_never_returns_connects_again() {
    let context = Context::new();
    let push = socket(&context, SocketType::Push);
    push.bind("tcp://127.0.0.1:*").unwrap();
    let place = support::last_endpoint(&push);
    let pull = socket(&context, SocketType::Pull);
    pull.connect(&place).unwrap();
    send(&push, &[b"first"]);
    assert_eq!(receive(&pull), [b"first"]);
    let waiting = std::thread::spawn(move || receive(&pull));
    std::thread::sleep(Duration::from_millis(50));
    push.close().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let push = socket(&context, SocketType::Push);
    push.bind(&place).unwrap();
    set_int(&push, SNDTIMEO, 3_000);
    send(&push, &[b"second"]);
    assert_eq!(waiting.join().unwrap(), [b"second"]);
}
