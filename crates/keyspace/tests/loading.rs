//! Loading: nothing else writes meanwhile, and no key gets the name of a live source.

mod common;

use std::sync::Arc;

use common::{NOW_MS, Server};
use tidewire_keyspace::{CommandError, Mount, NullObserver, is_reserved, resolve};
use tidewire_resp::{ArgumentList, Protocol, Writer};

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";

/// Executes a propagated command; returns its reply.
fn execute_propagated(server: &Server, line: &str) -> String {
    let request: ArgumentList = line.split_whitespace().map(str::as_bytes).collect();
    let command = resolve(request.as_arguments()).expect("a command");
    let mut reply = Vec::new();
    let _ = server.keyspace.execute_told(
        command,
        request.as_arguments(),
        server.database,
        NOW_MS,
        &mut Writer::new(&mut reply, Protocol::Resp2),
        &mut NullObserver,
    );
    String::from_utf8(reply).expect("text")
}

#[test]
fn only_the_loader_writes_while_keys_are_loaded() {
    for is_direct in [true, false] {
        let mut server = Server::new();
        server.is_direct = is_direct;
        server.line("SET there 1");
        server.keyspace.set_loading(true);
        for line in [
            "SET there 2",
            "SET new 2",
            "INCR there",
            "APPEND there x",
            "DEL there",
            "RPUSH list a",
            "RENAME there other",
            "COPY there other",
            "MSET a 1 b 2",
            "EXPIRE there 10",
            "FLUSHALL",
            "SWAPDB 0 1",
        ] {
            assert_eq!(server.line(line), LOADING, "{line}");
        }
        let pushed = server
            .keyspace
            .publish_value(0, b"there", b"2", NOW_MS, &mut NullObserver);
        assert_eq!(pushed, Err(CommandError::Loading));
        assert_eq!(server.line("GET there"), "$1\r\n1\r\n");
        assert_eq!(execute_propagated(&server, "SET loaded 1"), "+OK\r\n");
        // Two loads overlap: the end of the last one reopens the keyspace.
        server.keyspace.set_loading(true);
        server.keyspace.set_loading(false);
        assert_eq!(server.line("SET there 2"), LOADING);
        server.keyspace.set_loading(false);
        assert_eq!(server.line("SET there 2"), "+OK\r\n");
        assert_eq!(server.line("DBSIZE"), ":2\r\n");
    }
}

#[test]
fn notifications_survive_a_load() {
    let server = Server::new();
    let classes = tidewire_keyspace::EventClasses::ALL;
    server.keyspace.set_loading(true);
    server.keyspace.set_notifications(classes);
    assert!(server.keyspace.is_loading());
    assert_eq!(server.keyspace.notifications(), classes);
    server.keyspace.set_loading(false);
    assert_eq!(server.keyspace.notifications(), classes);
}

#[derive(Debug)]
struct Market;

impl Mount for Market {
    fn prefix(&self) -> &[u8] {
        b"md:"
    }

    fn contains(&self, _: &[u8]) -> bool {
        false
    }

    fn read(&self, _: &[u8], _: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        false
    }

    fn len(&self) -> usize {
        0
    }

    fn name(&self, _: usize, _: &mut Vec<u8>) -> bool {
        false
    }

    fn write_error(&self, _: &[u8]) -> std::borrow::Cow<'static, str> {
        "READONLY md: topics are live and read-only".into()
    }
}

#[test]
fn swapdb_moves_no_mounted_name_into_database_0() {
    let mut server = Server::new();
    server.keyspace.mount(Arc::new(Market));
    server.database = 1;
    server.line("MSET md:A 1 md:B 2 plain 3");
    for line in ["SWAPDB 0 1", "SWAPDB 1 0"] {
        let reply = server.line(line);
        assert!(
            reply.starts_with("-READONLY database 1 holds 'md:"),
            "{reply}"
        );
    }
    assert_eq!(
        server.line("SWAPDB 1 2"),
        "+OK\r\n",
        "database 0 is not in it"
    );
    assert_eq!(server.keyspace.mounted_left_out(), 0);
    assert_eq!(execute_propagated(&server, "SWAPDB 2 0"), "+OK\r\n");
    assert_eq!(server.keyspace.mounted_left_out(), 2);
    server.database = 0;
    assert_eq!(server.line("KEYS *"), "*1\r\n$5\r\nplain\r\n");
    assert!(execute_propagated(&server, "SET md:C 1").starts_with("-READONLY"));
    assert_eq!(server.keyspace.mounted_left_out(), 3);
    assert!(server.line("SET md:C 1").starts_with("-READONLY"));
    assert_eq!(
        server.keyspace.mounted_left_out(),
        3,
        "a client's refused SET is not counted"
    );
}

#[test]
fn a_topic_is_recognized_by_its_prefix_or_because_it_was_pushed() {
    let server = Server::new();
    let keyspace = &server.keyspace;
    assert!(keyspace.is_topic(b"live:any", None) && !keyspace.is_topic(b"sensor", None));
    let pushed = keyspace.publish_value(0, b"sensor", b"1", NOW_MS, &mut NullObserver);
    assert_eq!(pushed, Ok(()));
    assert!(keyspace.is_topic(b"sensor", None) && !keyspace.is_topic(b"other", None));
    let locked = keyspace.lock(keyspace.shard_of_name(b"sensor"));
    assert!(keyspace.is_topic(b"sensor", Some(&locked)));
    drop(locked);
    server.line("DEL sensor");
    assert!(!keyspace.is_topic(b"sensor", None));
    let everything = tidewire_keyspace::Options {
        live_prefixes: vec![Vec::new()],
        ..Default::default()
    };
    let server = Server::with(everything);
    assert!(server.keyspace.is_topic(b"any", None));
    for name in [
        &b"__keyspace@0__:x"[..],
        b"__keyevent@0__:set",
        b"__redis__:invalidate",
    ] {
        assert!(is_reserved(name) && !server.keyspace.is_topic(name, None));
    }
}
