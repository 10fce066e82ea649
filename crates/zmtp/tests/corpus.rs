//! Runs every file of the fuzz corpus, also cut at every length and with each octet changed.

mod common;

use std::fs;
use std::path::Path;

use common::Side;
use tidewire_zmtp::fuzzing::{
    fuzz_zmtp_connection, fuzz_zmtp_curve, fuzz_zmtp_datagram, fuzz_zmtp_prefixes,
    fuzz_zmtp_websocket,
};
use tidewire_zmtp::{Config, Security, SocketType};

fn files(corpus: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(corpus);
    let entries = fs::read_dir(folder).unwrap();
    let files: Vec<_> = entries
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(files.len() >= 8, "the corpus of {corpus} is there");
    files
}

fn run(corpus: &str, fuzz: fn(&[u8])) {
    for mut data in files(corpus) {
        for cut in 0..=data.len() {
            fuzz(&data[..cut]);
        }
        for at in 0..data.len() {
            for flip in [0x01, 0x02, 0x04, 0x80, 0xff] {
                data[at] ^= flip;
                fuzz(&data);
                data[at] ^= flip;
            }
        }
    }
}

/// The result does not depend on the cuts of the stream: events, answers, error.
#[test]
fn hostile_bytes_tell_the_same_story_in_any_pieces() {
    for data in files("zmtp_connection") {
        for socket_type in [SocketType::Pull, SocketType::Router, SocketType::Pub] {
            for security in [Security::Null, Security::PlainServer] {
                let config = Config {
                    security,
                    ..Config::new(socket_type)
                };
                let mut whole = Side::fed(config.clone(), &data);
                let mut dripped = Side::new(config);
                for octet in &data {
                    dripped.feed(&[*octet], 0);
                }
                assert_eq!(whole.seen, dripped.seen, "{data:?}");
                assert_eq!(whole.error, dripped.error, "{data:?}");
                assert_eq!(whole.sent(), dripped.sent(), "{data:?}");
            }
        }
    }
}

#[test]
fn no_connection_panics() {
    run("zmtp_connection", fuzz_zmtp_connection);
}

#[test]
fn no_datagram_panics() {
    run("zmtp_datagram", fuzz_zmtp_datagram);
}

#[test]
fn no_prefix_table_panics() {
    run("zmtp_prefixes", fuzz_zmtp_prefixes);
}

/// Each run does a handshake, which takes time: fewer changes.
#[test]
fn no_curve_peer_panics() {
    for mut data in files("zmtp_curve") {
        fuzz_zmtp_curve(&data);
        for at in (0..data.len()).step_by(data.len().div_ceil(24)) {
            fuzz_zmtp_curve(&data[..at]);
            data[at] ^= 0x85;
            fuzz_zmtp_curve(&data);
            data[at] ^= 0x85;
        }
    }
}

#[test]
fn no_websocket_panics() {
    run("zmtp_websocket", fuzz_zmtp_websocket);
}
