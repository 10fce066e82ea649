//! Descriptors of closed sockets. Alone in its file, for the whole process's are counted.

mod support;

use std::time::{Duration, Instant};

use support::{SUBSCRIBE, last_endpoint, receive, send, set, socket};
use tidewire_zmq::{Context, Socket, SocketType};

const FD: i32 = 14;
const TYPES: std::ops::RangeInclusive<i32> = 0..=20;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn assert_few(before: usize, what: &str) {
    // What a background thread has at hand is given back without a call.
    let begin = Instant::now();
    while descriptors() > before {
        let now = descriptors();
        assert!(
            begin.elapsed() < Duration::from_secs(5),
            "{what}: {before} {now}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A handle that is closed kept the epoll of its socket, and others of its context.
#[test]
fn closed_sockets_kept_their_descriptors() {
    let context = Context::new();
    let first = socket(&context, SocketType::Pair);
    let mut closed: Vec<Socket> = Vec::new();
    let before = descriptors();
    for number in TYPES {
        let Some(kind) = SocketType::from_number(number) else {
            continue;
        };
        for round in 0..1_000 {
            let socket = socket(&context, kind);
            if round % 2 == 0 {
                let mut out = [0; 4];
                socket.option(FD, &mut out).unwrap();
            }
            socket.close().unwrap();
            closed.push(socket);
        }
        assert_few(before, &format!("{kind:?}"));
    }
    for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "shm://*", "inproc://here"] {
        for _ in 0..100 {
            let [publisher, sub] =
                [SocketType::Pub, SocketType::Sub].map(|kind| socket(&context, kind));
            publisher
                .monitor(Some("inproc://monitor"), 0xffff, 1, SocketType::Pair)
                .unwrap();
            publisher.bind(endpoint).unwrap();
            sub.connect(&last_endpoint(&publisher)).unwrap();
            set(&sub, SUBSCRIBE, b"");
            let [push, pull] =
                [SocketType::Push, SocketType::Pull].map(|kind| socket(&context, kind));
            push.bind(if endpoint == "inproc://here" {
                "inproc://other"
            } else {
                endpoint
            })
            .unwrap();
            pull.connect(&last_endpoint(&push)).unwrap();
            send(&push, &[b"hello"]);
            assert_eq!(receive(&pull), [b"hello"]);
            for socket in [publisher, sub, push, pull] {
                socket.close().unwrap();
                closed.push(socket);
            }
        }
        assert_few(before, endpoint);
    }
    first.close().unwrap();
    context.terminate().unwrap();
    let without = descriptors();
    for _ in 0..100 {
        let context = Context::new();
        let socket = socket(&context, SocketType::Pair);
        socket.close().unwrap();
        context.terminate().unwrap();
        closed.push(socket);
    }
    assert_few(without, "contexts");
    drop(closed);
}
