//! What a proxy's control socket is told and answered.

mod support;

use support::{LAST, receive, send, socket};
use tidewire_zmq::{Context, Message, Socket, SocketType, proxy};

/// A proxy from a PULL to a PUSH, with a REP as its control socket: the ends of all three.
fn with_proxy(check: impl FnOnce([Socket; 3])) {
    let context = Context::new();
    let places = ["inproc://front", "inproc://back", "inproc://control"];
    let kinds = [SocketType::Pull, SocketType::Push, SocketType::Rep];
    let inner = [0, 1, 2].map(|index| {
        let inner = context.socket(kinds[index]).unwrap();
        inner.bind(places[index]).unwrap();
        inner
    });
    let kinds = [SocketType::Push, SocketType::Pull, SocketType::Req];
    let ends = [0, 1, 2].map(|index| {
        let end = socket(&context, kinds[index]);
        end.connect(places[index]).unwrap();
        end
    });
    std::thread::scope(|scope| {
        let [front, back, control] = &inner;
        let running = scope.spawn(|| proxy(front, back, None, Some(control)));
        check(ends);
        running.join().unwrap().unwrap();
    });
}

#[test]
fn a_command_that_a_proxy_does_not_know_ended_it_and_a_rep_never_answered() {
    with_proxy(|[push, pull, request]| {
        for command in [&b"HELLO"[..], b"", b"PAUSED", b"terminate", b"RESUME"] {
            send(&request, &[command]);
            assert_eq!(receive(&request), [b""]);
            send(&push, &[b"a", b"b"]);
            assert_eq!(receive(&pull), [b"a", b"b"]);
        }
        send(&request, &[b"TERMINATE"]);
        assert_eq!(receive(&request), [b""]);
    });
}

#[test]
fn statistics_of_a_proxy_counted_messages_and_not_frames() {
    with_proxy(|[push, pull, request]| {
        send(&push, &[b"one"]);
        send(&push, &[b"two", b"2"]);
        assert_eq!(receive(&pull), [b"one"]);
        assert_eq!(receive(&pull), [&b"two"[..], b"2"]);
        // The command is read behind the turn in which the messages were passed on.
        send(&request, &[b"STATISTICS"]);
        let told = receive(&request);
        let numbers = told.iter().map(|frame| {
            let bytes = frame.as_slice().try_into().unwrap();
            u64::from_ne_bytes(bytes)
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [3, 7, 0, 0, 0, 0, 3, 7]);
        request
            .send(&mut Message::from_slice(b"TERMINATE"), LAST)
            .unwrap();
        assert_eq!(receive(&request), [b""]);
    });
}
