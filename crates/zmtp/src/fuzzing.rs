//! Entries for fuzzers, called by the tests over the corpus as well. None may panic.

use crate::{Config, Connection, Event, PrefixTable, Security, SocketType, Version};

/// Everything a connection can be fed: the same bytes to several sockets, whole and in pieces.
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

/// The bytes are a program for a prefix table: each line's first octet inserts, removes, matches.
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

/// Feeds `data` in pieces of `piece` bytes and keeps the contract of a driver.
fn feed(config: Config, data: &[u8], piece: usize) {
    let mut connection = Connection::new(config, 0);
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
