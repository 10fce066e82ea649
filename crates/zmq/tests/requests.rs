//! Requests that are given up, and the replies to them that come later.

mod support;

use support::{LAST, MORE, last_endpoint, pair_at, receive, send, set_int, socket};
use tidewire_zmq::{Context, Message, Socket, SocketType};

const REQ_CORRELATE: i32 = 52;
const REQ_RELAXED: i32 = 53;

fn pair(context: &Context, endpoint: &str, bound: SocketType) -> [Socket; 2] {
    let [bound, request] = pair_at(context, endpoint, bound, SocketType::Req);
    set_int(&request, REQ_RELAXED, 1);
    [bound, request]
}

const ENDPOINTS: [&str; 4] = [
    "tcp://127.0.0.1:*",
    "ipc://*",
    "shm://*",
    "inproc://requests",
];

/// The reply to a request that had been given up was handed out as the one to the next request.
#[test]
fn a_reply_that_waits_when_a_request_begins_is_not_the_reply_to_it() {
    for endpoint in ENDPOINTS {
        for looks_first in [false, true] {
            let context = Context::new();
            let [reply, request] = pair(&context, endpoint, SocketType::Rep);
            for number in 0..3_u8 {
                send(&request, &[&[number]]);
            }
            for number in 0..3_u8 {
                assert_eq!(receive(&reply), [[number]], "{endpoint}");
                // Of several frames, so that one that is taken in part is dropped too.
                send(&reply, &[&[number, b'a'], &[number, b'b']]);
            }
            if looks_first {
                while !request.events().unwrap().readable {}
            }
            send(&request, &[b"news"]);
            assert_eq!(receive(&reply), [b"news"], "{endpoint}");
            send(&reply, &[b"answer"]);
            assert_eq!(receive(&request), [b"answer"], "{endpoint}, {looks_first}");
        }
    }
}

#[test]
fn a_second_reply_to_a_request_is_not_the_reply_to_the_next_one() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [router, request] = pair(&context, endpoint, SocketType::Router);
        send(&request, &[b"first"]);
        let name = receive(&router).swap_remove(0);
        for reply in [b"one", b"two"] {
            send(&router, &[&name, b"", reply]);
        }
        assert_eq!(receive(&request), [b"one"], "{endpoint}");
        send(&request, &[b"second"]);
        assert_eq!(receive(&router)[2], b"second");
        send(&router, &[&name, b"", b"three"]);
        assert_eq!(receive(&request), [b"three"], "{endpoint}");
    }
}

#[test]
fn where_replies_are_told_apart_the_one_that_comes_late_is_left_out() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [reply, request] = pair(&context, endpoint, SocketType::Rep);
        set_int(&request, REQ_CORRELATE, 1);
        send(&request, &[b"first"]);
        send(&request, &[b"second"]);
        assert_eq!(receive(&reply), [b"first"], "{endpoint}");
        send(&reply, &[b"late"]);
        assert_eq!(receive(&reply), [b"second"], "{endpoint}");
        send(&reply, &[b"answer"]);
        assert_eq!(receive(&request), [b"answer"], "{endpoint}");
    }
}

/// It was still with the kernel when the next request began.
#[test]
fn a_second_reply_that_nothing_has_read_is_not_the_reply_to_the_next_request() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [router, request] = pair_at(&context, endpoint, SocketType::Router, SocketType::Req);
        send(&request, &[b"first"]);
        let name = receive(&router).swap_remove(0);
        send(&router, &[&name, b"", b"one"]);
        assert_eq!(receive(&request), [b"one"], "{endpoint}");
        send(&router, &[&name, b"", b"two"]);
        // A REQ that has just been read from is not read from again.
        std::thread::sleep(std::time::Duration::from_millis(1));
        send(&request, &[b"second"]);
        assert_eq!(receive(&router)[2], b"second");
        send(&router, &[&name, b"", b"three"]);
        assert_eq!(receive(&request), [b"three"], "{endpoint}");
    }
}

/// The request was dropped, and the socket took no other: it waited for the reply.
#[test]
fn a_request_whose_peer_goes_between_its_frames_leaves_the_socket_ready_for_the_next() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [request, gone] = pair_at(&context, endpoint, SocketType::Req, SocketType::Rep);
        let mut frame = Message::from_slice(b"begun");
        request.send(&mut frame, MORE).unwrap();
        gone.close().unwrap();
        while request.events().unwrap().writable {
            std::thread::yield_now();
        }
        let mut frame = Message::from_slice(b"ended");
        request.send(&mut frame, LAST).unwrap();
        let reply = socket(&context, SocketType::Rep);
        reply.connect(&last_endpoint(&request)).unwrap();
        send(&request, &[b"next", b"one"]);
        assert_eq!(receive(&reply), [&b"next"[..], b"one"], "{endpoint}");
        send(&reply, &[b"answer"]);
        assert_eq!(receive(&request), [b"answer"], "{endpoint}");
    }
}
