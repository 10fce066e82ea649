//! What the tests of sockets share.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::TcpStream;
use std::time::Duration;

use tidewire_zmq::{Context, Message, SendFlags, Socket, SocketType};

pub(crate) const MORE: SendFlags = SendFlags {
    dont_wait: false,
    more: true,
};
pub(crate) const LAST: SendFlags = SendFlags {
    dont_wait: false,
    more: false,
};
pub(crate) const RCVTIMEO: i32 = 27;
pub(crate) const LINGER: i32 = 17;
pub(crate) const SUBSCRIBE: i32 = 6;
pub(crate) const LAST_ENDPOINT: i32 = 32;

/// A socket that waits 5 s at most, and does not linger.
pub(crate) fn socket(context: &Context, kind: SocketType) -> Socket {
    let socket = context.socket(kind).unwrap();
    set_int(&socket, RCVTIMEO, 5_000);
    set_int(&socket, LINGER, 0);
    socket
}

pub(crate) fn set(socket: &Socket, option: i32, value: &[u8]) {
    socket.set_option(option, value).unwrap();
}

pub(crate) fn set_int(socket: &Socket, option: i32, value: i32) {
    set(socket, option, &value.to_ne_bytes());
}

/// Sends long messages until the mark holds them, and receives all that were sent.
pub(crate) fn fill_to_the_mark(bound: &Socket, connected: &Socket) {
    let flags = SendFlags {
        dont_wait: true,
        ..LAST
    };
    let mut sent = 0;
    while bound
        .send(&mut Message::from_slice(&[1; 100_000]), flags)
        .is_ok()
    {
        sent += 1;
        assert!(sent < 10_000, "the mark holds");
    }
    for _ in 0..sent {
        assert_eq!(receive(connected)[0].len(), 100_000);
    }
}

pub(crate) fn last_endpoint(socket: &Socket) -> String {
    let mut out = [0; 256];
    let length = socket.option(LAST_ENDPOINT, &mut out).unwrap();
    String::from_utf8(out[..length - 1].to_vec()).unwrap()
}

/// Two sockets, the first bound, the second connected.
pub(crate) fn pair_at(
    context: &Context,
    endpoint: &str,
    bound: SocketType,
    connected: SocketType,
) -> [Socket; 2] {
    let bound = socket(context, bound);
    let connected = socket(context, connected);
    bound.bind(endpoint).unwrap();
    connected.connect(&last_endpoint(&bound)).unwrap();
    [bound, connected]
}

pub(crate) fn send(socket: &Socket, frames: &[&[u8]]) {
    for (index, frame) in frames.iter().enumerate() {
        let flags = if index + 1 < frames.len() { MORE } else { LAST };
        socket.send(&mut Message::from_slice(frame), flags).unwrap();
    }
}

pub(crate) fn receive(socket: &Socket) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    loop {
        let frame = socket.receive(false).unwrap();
        frames.push(frame.to_vec());
        if !frame.more() {
            return frames;
        }
    }
}

/// A bare connection to where a socket listens.
pub(crate) fn raw_socket(endpoint: &str) -> TcpStream {
    let place = endpoint.split("://").nth(1).unwrap();
    let stream = TcpStream::connect(place.split('/').next().unwrap()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream
}
