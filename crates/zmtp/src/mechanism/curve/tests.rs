//! Compares the bytes with libsodium's for the same keys and random numbers.

use crate::curve::{Keypair, SecretKey, public_from_secret};
use crate::error::Error;
use crate::{Config, Connection, Event, Security, SocketType};

fn golden(name: &str) -> Vec<u8> {
    let line = include_str!("golden.txt")
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let digits = line.unwrap().as_bytes();
    let octet = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(octet).collect()
}

fn clients_randomness(bytes: &mut [u8]) -> Result<(), Error> {
    fill(bytes, 7, 0)
}

fn servers_randomness(bytes: &mut [u8]) -> Result<(), Error> {
    fill(bytes, 5, 3)
}

fn no_randomness(_: &mut [u8]) -> Result<(), Error> {
    Err(Error::NoRandomness)
}

fn fill(bytes: &mut [u8], step: usize, start: usize) -> Result<(), Error> {
    let length = bytes.len();
    for (at, octet) in bytes.iter_mut().enumerate() {
        *octet = (at * step + length + start) as u8;
    }
    Ok(())
}

fn client_config() -> Config {
    let secret = |seed| SecretKey::new([seed; 32]);
    let keys = Keypair {
        public: public_from_secret(&secret(1)),
        secret: secret(1),
    };
    let server_key = public_from_secret(&secret(2));
    Config {
        security: Security::CurveClient { keys, server_key },
        ..Config::new(SocketType::Dealer)
    }
}

fn server_config() -> Config {
    let secret_key = SecretKey::new([2; 32]);
    Config {
        security: Security::CurveServer { secret_key },
        ..Config::new(SocketType::Router)
    }
}

/// Feeds bytes and accepts every peer. Returns the output.
fn feed(connection: &mut Connection, mut bytes: &[u8]) -> Vec<u8> {
    loop {
        let step = connection.receive(bytes, 0).unwrap();
        let (consumed, is_event) = (step.consumed, step.event.is_some());
        let asks = matches!(step.event, Some(Event::Authenticate(_)));
        bytes = &bytes[consumed..];
        if asks {
            connection.accept().unwrap();
        }
        if consumed == 0 && !is_event {
            return std::mem::take(connection.outgoing());
        }
    }
}

#[test]
fn every_command_is_what_libsodium_makes() {
    let mut client = Connection::with_randomness(client_config(), 0, clients_randomness);
    let mut server = Connection::with_randomness(server_config(), 0, servers_randomness);
    let mut greeting = std::mem::take(server.outgoing());
    let said = std::mem::take(client.outgoing());
    greeting.extend(feed(&mut server, &said));
    let said = feed(&mut client, &greeting);
    let (rest, hello) = said.split_at(54);
    assert_eq!(hello, golden("hello"));
    feed(&mut server, rest);
    let welcome = feed(&mut server, hello);
    assert_eq!(welcome, golden("welcome"));
    let initiate = feed(&mut client, &welcome);
    assert_eq!(initiate, golden("initiate"));
    let ready = feed(&mut server, &initiate);
    assert_eq!(ready, golden("ready"));
    assert_eq!(feed(&mut client, &ready), b"");
    assert!(client.is_ready() && server.is_ready());

    let mut out = Vec::new();
    client.encode_message_frame(&mut out, b"hello", true);
    assert_eq!(out, golden("client_message"));
    out.clear();
    let big: Vec<u8> = (0..3000_usize).map(|at| (at * at) as u8).collect();
    server.encode_message_frame(&mut out, &big, false);
    assert_eq!(out, golden("server_message"));
    let step = client.receive(&out, 0).unwrap();
    let more = false;
    assert_eq!(step.event, Some(Event::Frame { body: &big, more }));
}

#[test]
fn without_random_numbers_nobody_is_spoken_to() {
    let mut client = Connection::with_randomness(client_config(), 0, no_randomness);
    let greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01CURVE";
    let mut greeting = greeting.to_vec();
    greeting.resize(64, 0);
    assert_eq!(client.receive(&greeting, 0), Err(Error::NoRandomness));
    assert_eq!(client.outgoing().len(), 64, "the greeting alone");
}
