//! What a program written for libzmq relies on beyond the patterns themselves.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

const SUBSCRIBE: i32 = 6;
const LINGER: i32 = 17;
const RCVTIMEO: i32 = 27;
const LAST_ENDPOINT: i32 = 32;
const PLAIN_SERVER: i32 = 44;
const PLAIN_USERNAME: i32 = 45;
const PLAIN_PASSWORD: i32 = 46;

const LAST: SendFlags = SendFlags {
    dont_wait: false,
    more: false,
};

fn socket(context: &Context, kind: SocketType) -> Socket {
    let socket = context.socket(kind).unwrap();
    set(&socket, RCVTIMEO, 5000);
    set(&socket, LINGER, 0);
    socket
}

fn set(socket: &Socket, option: i32, value: i32) {
    socket.set_option(option, &value.to_ne_bytes()).unwrap();
}

fn bound(context: &Context, kind: SocketType) -> (Socket, String) {
    let socket = socket(context, kind);
    let name = bind(&socket);
    (socket, name)
}

/// Where the socket listens from now on.
fn bind(socket: &Socket) -> String {
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let mut name = [0; 256];
    let length = socket.option(LAST_ENDPOINT, &mut name).unwrap();
    String::from_utf8(name[..length - 1].to_vec()).unwrap()
}

/// Waits on the descriptor of a socket as an event loop does.
fn wait(socket: &Socket) {
    let descriptor = socket.descriptor().unwrap();
    let mut items = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let five_seconds = rustix::time::Timespec {
        tv_sec: 5,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut items, Some(&five_seconds)).unwrap(), 1);
}

#[test]
fn a_message_after_a_subscription_reaches_the_subscriber() {
    let context = Context::new();
    let (publisher, endpoint) = bound(&context, SocketType::Xpub);
    let subscriber = socket(&context, SocketType::Sub);
    subscriber.connect(&endpoint).unwrap();
    subscriber.set_option(SUBSCRIBE, b"first").unwrap();
    assert_eq!(publisher.receive(false).unwrap().as_slice(), b"\x01first");
    // The connection stands: from here on a subscription is heeded by the next message.
    for number in 0..100_u8 {
        subscriber.set_option(SUBSCRIBE, &[b'0', number]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        publisher.send_bytes(&[b'0', number, 7], LAST).unwrap();
        assert_eq!(
            subscriber.receive(false).unwrap().as_slice(),
            [b'0', number, 7]
        );
    }
}

#[test]
fn a_socket_whose_descriptor_nobody_polls_still_connects() {
    let context = Context::new();
    let (dealer, endpoint) = bound(&context, SocketType::Dealer);
    let router = socket(&context, SocketType::Router);
    router.connect(&endpoint).unwrap();
    // An event loop asks for both descriptors, and waits for the other one first.
    router.descriptor().unwrap();
    while !dealer.events().unwrap().writable {
        wait(&dealer);
    }
    dealer.send_bytes(b"hello", LAST).unwrap();
    while !router.events().unwrap().readable {
        wait(&router);
    }
    let name = router.receive(true).unwrap();
    assert!(name.more());
    assert_eq!(router.receive(true).unwrap().as_slice(), b"hello");
}

#[test]
fn who_is_refused_does_not_come_back() {
    let context = Context::new();
    let server = socket(&context, SocketType::Pull);
    set(&server, PLAIN_SERVER, 1);
    let endpoint = bind(&server);
    let handler = socket(&context, SocketType::Rep);
    handler.bind("inproc://zeromq.zap.01").unwrap();
    let client = socket(&context, SocketType::Push);
    client.set_option(PLAIN_USERNAME, b"someone").unwrap();
    client.set_option(PLAIN_PASSWORD, b"wrong").unwrap();
    client.connect(&endpoint).unwrap();
    let mut version = handler.receive(false).unwrap();
    assert_eq!(version.as_slice(), b"1.0");
    while version.more() {
        version = handler.receive(false).unwrap();
    }
    for (frame, more) in [("1.0", true), ("1", true), ("400", true), ("no", true)] {
        let mut frame = Message::from(frame);
        let flags = SendFlags {
            dont_wait: false,
            more,
        };
        handler.send(&mut frame, flags).unwrap();
    }
    for more in [true, false] {
        let flags = SendFlags {
            dont_wait: false,
            more,
        };
        handler.send_bytes(b"", flags).unwrap();
    }
    // Somebody who is not refused comes back after 100 to 150 ms.
    set(&handler, RCVTIMEO, 600);
    assert_eq!(handler.receive(false).unwrap_err(), Error::Again);
}

#[test]
fn what_was_not_taken_of_an_endpoint_goes_with_it() {
    let context = Context::new();
    let (push, endpoint) = bound(&context, SocketType::Push);
    let pull = socket(&context, SocketType::Pull);
    pull.connect(&endpoint).unwrap();
    push.send_bytes(b"taken", LAST).unwrap();
    push.send_bytes(b"left", LAST).unwrap();
    assert_eq!(pull.receive(false).unwrap().as_slice(), b"taken");
    // Whether or not the background thread decodes what is left by then.
    std::thread::sleep(Duration::from_millis(30));
    let (other, elsewhere) = bound(&context, SocketType::Push);
    pull.disconnect(&endpoint).unwrap();
    pull.connect(&elsewhere).unwrap();
    other.send_bytes(b"new", LAST).unwrap();
    assert_eq!(pull.receive(false).unwrap().as_slice(), b"new");
}
