//! A process without memory for what peers send. Alone in its file, for the limit is the whole
//! process's.

mod support;

use std::fs;
use std::io::{Read, Write};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{pair_at, raw_socket, receive, send};
use tidewire_zmq::{Context, SendFlags, SocketType};

/// The allocation failed, and with it the whole process.
#[test]
fn a_peer_whose_frame_fits_into_no_memory_ended_the_process() {
    let context = Context::new();
    let [pull, push] = pair_at(
        &context,
        "tcp://127.0.0.1:*",
        SocketType::Pull,
        SocketType::Push,
    );
    send(&push, &[b"before"]);
    assert_eq!(receive(&pull), [b"before"]);

    let place = "ws://127.0.0.1:*";
    let [far, near] = pair_at(&context, place, SocketType::Pull, SocketType::Push);
    send(&near, &[b"before"]);
    assert_eq!(receive(&far), [b"before"]);
    let large = vec![0; 180 << 20];

    let whole = getrlimit(Resource::As);
    let status = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    let low = Rlimit {
        current: Some(pages * 4_096 + (300 << 20)),
        maximum: whole.maximum,
    };
    setrlimit(Resource::As, low).unwrap();
    for length in [1_u64 << 30, 1 << 62] {
        let mut hostile = raw_socket(&support::last_endpoint(&pull));
        let mut said = vec![0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, 1];
        said.extend_from_slice(b"NULL");
        said.resize(64, 0);
        said.extend_from_slice(b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PUSH");
        said.push(2);
        said.extend_from_slice(&length.to_be_bytes());
        hostile.write_all(&said).unwrap();
        let chunk = [b'x'; 64 << 10];
        let mut sent = 0_u64;
        while hostile.write_all(&chunk).is_ok() {
            sent += chunk.len() as u64;
            assert!(sent < 1 << 30, "more than there is memory for");
        }
        // The end of the connection, and not one byte more.
        let mut rest = Vec::new();
        let _ = hostile.read_to_end(&mut rest);
        send(&push, &[b"meanwhile"]);
        assert_eq!(receive(&pull), [b"meanwhile"]);
    }
    // There is memory for the message, and not for its second copy as a frame of WebSocket.
    let _ = near.send_bytes(&large, SendFlags::default());
    send(&push, &[b"afterwards"]);
    assert_eq!(receive(&pull), [b"afterwards"]);
    setrlimit(Resource::As, whole).unwrap();
}
