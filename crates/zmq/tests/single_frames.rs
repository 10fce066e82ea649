//! The draft types whose messages are of one frame: CLIENT and SERVER, SCATTER and GATHER, PEER,
//! CHANNEL.

mod support;

use std::io::Write;

use support::{
    LAST, MORE, last_endpoint, pair_at, raw_socket, receive, send, set, set_int, socket,
};
use tidewire_zmq::{Context, Error, Message, SocketType};

const IMMEDIATE: i32 = 39;
const ENDPOINTS: [&str; 5] = [
    "tcp://127.0.0.1:*",
    "ipc://*",
    "shm://*",
    "inproc://single",
    "ws://127.0.0.1:*",
];

#[test]
fn a_server_answers_each_client_by_its_number() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let server = socket(&context, SocketType::Server);
        server.bind(endpoint).unwrap();
        let clients = [0, 1, 2].map(|number| {
            let client = socket(&context, SocketType::Client);
            // The number is the server's to give: what a client calls itself is nothing.
            set(&client, 5, b"same");
            client.connect(&last_endpoint(&server)).unwrap();
            send(&client, &[&[number; 100]]);
            client
        });
        let mut numbers = Vec::new();
        for _ in &clients {
            let mut message = server.receive(false).unwrap();
            assert!(message.routing_id() != 0 && !message.more());
            numbers.push(message.routing_id());
            server.send(&mut message, LAST).unwrap();
        }
        for (number, client) in clients.iter().enumerate() {
            let answer = client.receive(false).unwrap();
            assert_eq!(answer.as_slice(), [number as u8; 100], "{endpoint}");
            assert_eq!(answer.routing_id(), 0, "it is of no use to a client");
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 3);
    }
}

#[test]
fn a_server_says_who_is_not_there() {
    let context = Context::new();
    let server = socket(&context, SocketType::Server);
    let mut message = Message::from("to nobody");
    let result = server.send(&mut message, LAST);
    assert_eq!(result, Err(Error::HostUnreachable));
    message.set_routing_id(77);
    let result = server.send(&mut message, LAST);
    assert_eq!(result, Err(Error::HostUnreachable));
    assert_eq!(message.as_slice(), b"to nobody", "it is left as it was");
}

/// A message to the peer of this number.
fn addressed(number: u32, bytes: &[u8]) -> Message {
    let mut message = Message::from_slice(bytes);
    message.set_routing_id(number);
    message
}

#[test]
fn peers_know_each_other_by_numbers() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let bound = [(); 2].map(|()| {
            let peer = socket(&context, SocketType::Peer);
            // Within the process a name is taken once.
            let one_more = endpoint.replace("single", "another");
            let endpoints = [endpoint, &one_more];
            assert!(endpoints.iter().any(|place| peer.bind(place).is_ok()));
            peer
        });
        let middle = socket(&context, SocketType::Peer);
        let numbers = [0, 1].map(|at| middle.connect_peer(&last_endpoint(&bound[at])).unwrap());
        assert!(numbers[0] != numbers[1] && !numbers.contains(&0));
        for (peer, number) in bound.iter().zip(numbers) {
            for size in [1, 5_000, 300_000] {
                let sent = vec![number as u8; size];
                middle.send(&mut addressed(number, &sent), LAST).unwrap();
                let mut message = peer.receive(false).unwrap();
                assert_eq!(message.as_slice(), sent, "{endpoint}");
                peer.send(&mut message, LAST).unwrap();
                let answer = middle.receive(false).unwrap();
                assert_eq!(answer.as_slice(), sent, "{endpoint}");
                assert_eq!(answer.routing_id(), number);
            }
        }
    }
}

#[test]
fn a_peer_that_is_gone_cannot_be_reached() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [bound, connected] = [(); 2].map(|()| socket(&context, SocketType::Peer));
        bound.bind(endpoint).unwrap();
        let place = last_endpoint(&bound);
        let ask = |asker: &tidewire_zmq::Socket, number| {
            asker
                .send(&mut addressed(number, b"question"), LAST)
                .unwrap();
            bound.receive(false).unwrap().routing_id()
        };

        // The one that came is sent away; the one that asked gives up.
        let there = connected.connect_peer(&place).unwrap();
        let here = ask(&connected, there);
        bound.disconnect_peer(here).unwrap();
        let result = bound.send(&mut addressed(here, b"answer"), LAST);
        assert_eq!(result, Err(Error::HostUnreachable), "{endpoint}");
        assert_eq!(bound.disconnect_peer(here), Err(Error::HostUnreachable));
        let there = connected.connect_peer(&place).unwrap();
        connected.disconnect_peer(there).unwrap();
        let result = connected.send(&mut addressed(there, b"question"), LAST);
        assert_eq!(result, Err(Error::HostUnreachable), "{endpoint}");

        // One goes by itself.
        let leaving = socket(&context, SocketType::Peer);
        let number = leaving.connect_peer(&place).unwrap();
        let here = ask(&leaving, number);
        drop(leaving);
        while bound.send(&mut addressed(here, b"answer"), LAST).is_ok() {
            assert_eq!(bound.receive(true).unwrap_err(), Error::Again);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let result = bound.send(&mut addressed(here, b"answer"), LAST);
        assert_eq!(result, Err(Error::HostUnreachable), "{endpoint}");
    }
}

#[test]
fn a_peer_keeps_its_number_when_it_comes_back() {
    let context = Context::new();
    let first = socket(&context, SocketType::Peer);
    first.bind("tcp://127.0.0.1:*").unwrap();
    let place = last_endpoint(&first);
    let peer = socket(&context, SocketType::Peer);
    let number = peer.connect_peer(&place).unwrap();
    peer.send(&mut addressed(number, b"one"), LAST).unwrap();
    assert_eq!(receive(&first), [b"one"]);
    first.unbind(&place).unwrap();
    // Read to the end: what is sent now waits for the next connection.
    while peer.peers().unwrap().iter().any(|known| known.is_connected) {
        assert_eq!(peer.receive(true).unwrap_err(), Error::Again);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let second = socket(&context, SocketType::Peer);
    second.bind(&place).unwrap();
    peer.send(&mut addressed(number, b"two"), LAST).unwrap();
    assert_eq!(receive(&second), [b"two"]);
}

#[test]
fn only_peers_are_connected_to_by_number() {
    let context = Context::new();
    let server = socket(&context, SocketType::Server);
    let result = server.connect_peer("tcp://127.0.0.1:9");
    assert_eq!(result, Err(Error::NotSupported));
    assert_eq!(server.disconnect_peer(7), Err(Error::HostUnreachable));
    let dealer = socket(&context, SocketType::Dealer);
    assert_eq!(dealer.disconnect_peer(7), Err(Error::NotSupported));
    let peer = socket(&context, SocketType::Peer);
    set_int(&peer, IMMEDIATE, 1);
    let result = peer.connect_peer("tcp://127.0.0.1:9");
    assert_eq!(
        result,
        Err(Error::Fault),
        "no number is known before it is there"
    );
}

#[test]
fn single_frames_go_from_one_to_the_other() {
    for endpoint in ENDPOINTS {
        for (bound, connected) in [
            (SocketType::Gather, SocketType::Scatter),
            (SocketType::Channel, SocketType::Channel),
        ] {
            let context = Context::new();
            let [bound, connected] = pair_at(&context, endpoint, bound, connected);
            for size in [0, 1, 38, 39, 5_000, 300_000] {
                send(&connected, &[&vec![7; size]]);
                assert_eq!(receive(&bound), [vec![7; size]], "{endpoint}");
            }
        }
    }
}

#[test]
fn a_message_of_several_frames_is_not_sent() {
    let context = Context::new();
    for kind in [
        SocketType::Server,
        SocketType::Client,
        SocketType::Scatter,
        SocketType::Peer,
        SocketType::Channel,
    ] {
        let socket = socket(&context, kind);
        let result = socket.send_bytes(b"head", MORE);
        assert_eq!(result, Err(Error::InvalidArgument));
    }
    let gather = socket(&context, SocketType::Gather);
    for flags in [LAST, MORE] {
        assert_eq!(gather.send_bytes(b"x", flags), Err(Error::NotSupported));
    }
}

#[test]
fn a_message_of_several_frames_is_not_received() {
    let context = Context::new();
    let server = socket(&context, SocketType::Server);
    server.bind("tcp://127.0.0.1:*").unwrap();
    let mut client = raw_socket(&last_endpoint(&server));
    let mut bytes = vec![0; 64];
    (bytes[0], bytes[9], bytes[10], bytes[11]) = (0xFF, 0x7F, 3, 1);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes.extend_from_slice(b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06CLIENT");
    // Two frames of one message, then one of one frame.
    bytes.extend_from_slice(b"\x01\x03one\x00\x03two\x00\x05three");
    client.write_all(&bytes).unwrap();
    assert_eq!(receive(&server), [b"three"]);
    assert_eq!(server.receive(true).unwrap_err(), Error::Again);
}

#[test]
fn threads_may_share_a_socket() {
    const MESSAGES: usize = 2_000;
    let context = Context::new();
    let [server, client] = pair_at(
        &context,
        "tcp://127.0.0.1:*",
        SocketType::Server,
        SocketType::Client,
    );
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..MESSAGES / 2 {
                    client.send_bytes(b"question", LAST).unwrap();
                }
            });
            scope.spawn(|| {
                for _ in 0..MESSAGES / 2 {
                    let mut message = server.receive(false).unwrap();
                    server.send(&mut message, LAST).unwrap();
                }
            });
        }
        for _ in 0..MESSAGES {
            assert_eq!(receive(&client), [b"question"]);
        }
    });
}
