//! Entries for fuzzers, which the tests over the corpus also call. None may panic.

use crate::command::encode_command;
use crate::curve::{Keypair, SecretKey, public_from_secret};
use crate::datagram::Datagram;
use crate::error::Error;
use crate::websocket::WebSocket;
use crate::{Config, Connection, Event, PrefixTable, Security, SocketType, Version};

/// Feeds the same bytes to several sockets, whole and in pieces.
pub fn fuzz_zmtp_connection(data: &[u8]) {
    for socket_type in [
        SocketType::Pull,
        SocketType::Router,
        SocketType::Pub,
        SocketType::Xpub,
    ] {
        for version in [Version::V2_0, Version::V3_0, Version::V3_1] {
            let config = Config {
                version,
                ..Config::new(socket_type)
            };
            feed(config.clone(), data, data.len());
            feed(
                Config {
                    stream_above_bytes: Some(3),
                    ..config
                },
                data,
                1,
            );
        }
        let server = Config {
            security: Security::PlainServer,
            ..Config::new(socket_type)
        };
        feed(server, data, 7);
        let security = Security::PlainClient {
            username: b"u".into(),
            password: b"p".into(),
        };
        feed(
            Config {
                security,
                ..Config::new(socket_type)
            },
            data,
            13,
        );
    }
}

/// The first octet decides the meaning of the rest: bytes for a CURVE server or client at some
/// point of the handshake, the data of its next command, bytes after the handshake, or the text
/// of boxes.
pub fn fuzz_zmtp_curve(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    let types = match kind >> 4 & 3 {
        0 => [SocketType::Push, SocketType::Pull],
        1 => [SocketType::Sub, SocketType::Pub],
        2 => [SocketType::Xsub, SocketType::Xpub],
        _ => [SocketType::Dish, SocketType::Radio],
    };
    let [mut client, mut server] = curve_pair(types);
    if kind & 8 == 0 {
        for _ in 0..kind & 3 {
            say(&mut client, &mut server);
            say(&mut server, &mut client);
        }
        let mut command = Vec::new();
        for name in [&b"HELLO"[..], b"WELCOME", b"INITIATE", b"READY"] {
            encode_command(&mut command, name, &[data]);
        }
        let bytes = if kind & 4 == 0 { data } else { &command };
        drive(&mut client, bytes, 50);
        drive(&mut server, bytes, 50);
        return;
    }
    for _ in 0..4 {
        say(&mut client, &mut server);
        say(&mut server, &mut client);
    }
    assert!(client.is_ready() && server.is_ready());
    if kind & 4 == 0 {
        drive(&mut server, data, 7);
        return;
    }
    let mut frames = Vec::new();
    for text in data.split(|&octet| octet == b'\n') {
        let (flags, body) = text.split_first().unwrap_or((&0, &[]));
        if let Some(cipher) = client.cipher_mut() {
            cipher.seal(&mut frames, *flags, &[body]);
        }
    }
    drive(&mut server, &frames, 100);
}

/// The first octet selects the side. The rest arrives in pieces, before or after the upgrade.
pub fn fuzz_zmtp_websocket(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    let config = Config {
        websocket: true,
        ..Config::new(SocketType::Xpub)
    };
    let mut websocket = WebSocket::server(&config);
    if kind & 1 != 0 {
        match WebSocket::client("host", "/", &config) {
            Ok(client) => websocket = client,
            Err(_) => return,
        }
    }
    let mut connection = Connection::new(config, 0);
    let request = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Key: a\r\nSec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n";
    let start: &[u8] = if kind & 3 == 2 { request } else { b"" };
    let mut zmtp = Vec::new();
    for bytes in [start, data] {
        let mut input = Vec::new();
        for piece in bytes.chunks(usize::from(kind >> 2).max(1)) {
            input.extend_from_slice(piece);
            match websocket.receive(&input, &mut zmtp) {
                Ok(consumed) => drop(input.drain(..consumed)),
                Err(_) => return,
            }
        }
    }
    drive(&mut connection, &zmtp, 64);
    let _ = websocket.send(connection.outgoing());
    let _ = websocket.send(data);
    assert!(websocket.outgoing().len() < 10_000 + 16 * data.len());
    for request in [request, BARE_REQUEST] {
        let octets = [request, data].concat();
        let whole = received_by(&octets, WebSocket::receive);
        assert_eq!(whole, received_by(&octets, WebSocket::receive_frame));
        let config = Config::new(SocketType::Pull);
        drive(&mut Connection::new(config, 0), &whole.0, 64);
    }
}

/// Without a mechanism.
const BARE_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: a\r\nSec-WebSocket-Protocol: ZWS2.0\r\n\r\n";

type Receive = fn(&mut WebSocket, &[u8], &mut Vec<u8>) -> Result<usize, Error>;

/// Returns the ZMTP that a server gets out of these octets, and how it ends.
fn received_by(octets: &[u8], receive: Receive) -> (Vec<u8>, Option<Error>) {
    let config = Config {
        websocket: true,
        ..Config::new(SocketType::Pull)
    };
    let mut server = WebSocket::server(&config);
    let (mut zmtp, mut rest) = (Vec::new(), octets);
    loop {
        match receive(&mut server, rest, &mut zmtp) {
            Ok(0) => return (zmtp, None),
            Ok(count) => rest = &rest[count..],
            Err(error) => return (zmtp, Some(error)),
        }
    }
}

/// One datagram; what it is taken for is encoded to the same bytes.
pub fn fuzz_zmtp_datagram(data: &[u8]) {
    let Some(datagram) = Datagram::parse(data) else {
        let length = data.first().map_or(0, |&length| usize::from(length));
        assert!(data.len() <= length);
        return;
    };
    match datagram.header() {
        Some(header) => assert_eq!([&[header], datagram.group, datagram.body].concat(), data),
        None => assert!(data.len() > Datagram::BYTES_MAX),
    }
}

/// The bytes are a program for a prefix table: the first octet of each line inserts, removes or
/// matches.
pub fn fuzz_zmtp_prefixes(data: &[u8]) {
    let mut table = PrefixTable::new();
    for line in data.split(|&octet| octet == b'\n') {
        let Some((&verb, prefix)) = line.split_first() else {
            continue;
        };
        let subscriber = verb >> 3;
        match verb & 7 {
            0..=2 => drop(table.insert(prefix, subscriber)),
            3 => drop(table.remove(prefix, subscriber)),
            4 => drop(table.remove_pair(prefix, subscriber)),
            5 => table.remove_subscriber(subscriber, &mut |_: &[u8]| {}),
            _ => {
                let mut count = 0;
                table.matches(prefix, &mut |_| count += 1);
                assert_eq!(table.covers(prefix), count > 0);
            }
        }
    }
    for subscriber in 0..32 {
        table.remove_subscriber(subscriber, &mut |_: &[u8]| {});
    }
    assert!(table.is_empty());
}

/// Returns a CURVE client and its server, with fixed keys and random numbers.
fn curve_pair(types: [SocketType; 2]) -> [Connection; 2] {
    let secret = |seed| SecretKey::new([seed; 32]);
    let keys = Keypair {
        public: public_from_secret(&secret(1)),
        secret: secret(1),
    };
    let server_key = public_from_secret(&secret(2));
    let secret_key = secret(2);
    let securities = [
        Security::CurveClient { keys, server_key },
        Security::CurveServer { secret_key },
    ];
    let [ours, theirs] = securities;
    let connection = |socket_type, security| {
        let config = Config {
            security,
            ..Config::new(socket_type)
        };
        Connection::with_randomness(config, 0, foreseen)
    };
    [connection(types[0], ours), connection(types[1], theirs)]
}

fn foreseen(bytes: &mut [u8]) -> Result<(), Error> {
    for (at, octet) in bytes.iter_mut().enumerate() {
        *octet = (at * 7) as u8;
    }
    Ok(())
}

/// Carries all output of one side to the other.
fn say(from: &mut Connection, to: &mut Connection) {
    let bytes = std::mem::take(from.outgoing());
    drive(to, &bytes, bytes.len());
}

/// Feeds `data` in pieces of `piece` bytes, as a driver must.
fn feed(config: Config, data: &[u8], piece: usize) {
    drive(&mut Connection::new(config, 0), data, piece);
}

fn drive(connection: &mut Connection, data: &[u8], piece: usize) {
    let mut start = 0;
    let mut end = 0;
    loop {
        match connection.receive(&data[start..end], end as u64) {
            Err(_) => return,
            Ok(step) => {
                let authenticate = matches!(step.event, Some(Event::Authenticate(_)));
                let idle = step.consumed == 0 && step.event.is_none();
                assert!(step.consumed <= end - start);
                start += step.consumed;
                if authenticate {
                    assert_eq!(connection.accept(), Ok(()));
                }
                if idle && end == data.len() {
                    return;
                }
                if idle {
                    end = (end + piece.max(1)).min(data.len());
                }
            }
        }
    }
}
