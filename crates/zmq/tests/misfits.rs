//! Peers whose types of sockets do not go together.

mod support;

use support::{LINGER, last_endpoint, receive, send, set_int, socket};
use tidewire_zmq::{Context, Error, Message, SendFlags, SocketType};

const RECONNECT_IVL: i32 = 18;

/// Types that wait for a receiver, and a type that is none.
const KINDS: [(SocketType, SocketType); 7] = [
    (SocketType::Push, SocketType::Sub),
    (SocketType::Dealer, SocketType::Sub),
    (SocketType::Pair, SocketType::Rep),
    (SocketType::Req, SocketType::Sub),
    (SocketType::Client, SocketType::Rep),
    (SocketType::Scatter, SocketType::Sub),
    (SocketType::Channel, SocketType::Pair),
];

/// It was connected to again and again, counted as one that could be sent to, and what was sent
/// kept the context from its end.
#[test]
fn a_peer_that_does_not_fit_was_waited_for() {
    for scheme in ["tcp://127.0.0.1:*", "ipc://*", "shm://*"] {
        for (kind, other) in KINDS {
            let context = Context::new();
            let peer = socket(&context, other);
            peer.bind(scheme).unwrap();
            let sender = socket(&context, kind);
            set_int(&sender, LINGER, -1);
            set_int(&sender, RECONNECT_IVL, 1);
            let endpoint = last_endpoint(&peer);
            sender.connect(&endpoint).unwrap();
            let flags = SendFlags {
                dont_wait: true,
                more: false,
            };
            // Before the peer has said what it is. A REQ cannot be sent to after that either way.
            if kind != SocketType::Req {
                let _ = sender.send(&mut Message::from_slice(b"lost"), flags);
            }
            while sender.events().unwrap().writable {
                std::thread::yield_now();
            }
            sender.close().unwrap();
            peer.close().unwrap();
            context.terminate().unwrap();
        }
    }
}

#[test]
fn an_endpoint_that_was_given_up_can_be_undone_and_connected_again() {
    for undoes in [true, false] {
        let context = Context::new();
        let wrong = socket(&context, SocketType::Sub);
        wrong.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = last_endpoint(&wrong);
        // A type that connects once to a name.
        let sender = socket(&context, SocketType::Dealer);
        sender.connect(&endpoint).unwrap();
        while sender.events().unwrap().writable {
            std::thread::yield_now();
        }
        if undoes {
            sender.disconnect(&endpoint).unwrap();
            let again = sender.disconnect(&endpoint);
            assert_eq!(again, Err(Error::NoSuchEndpoint));
        }
        wrong.unbind(&endpoint).unwrap();
        let right = socket(&context, SocketType::Dealer);
        right.bind(&endpoint).unwrap();
        sender.connect(&endpoint).unwrap();
        send(&sender, &[b"hello"]);
        assert_eq!(receive(&right), [b"hello"]);
    }
}

/// Each of a listener's peers is judged alone.
#[test]
fn a_listener_goes_on_after_a_peer_that_does_not_fit() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    pull.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = last_endpoint(&pull);
    let misfit = socket(&context, SocketType::Dealer);
    misfit.connect(&endpoint).unwrap();
    while misfit.events().unwrap().writable {
        std::thread::yield_now();
    }
    let push = socket(&context, SocketType::Push);
    push.connect(&endpoint).unwrap();
    send(&push, &[b"hello"]);
    assert_eq!(receive(&pull), [b"hello"]);
}
