//! Commands on keys of any type: behaviour of Redis 8 that the installed Redis lacks, and the
//! events of a key that replaces another one.

mod common;

use common::{NOW_MS, Server};
use tidewire_keyspace::{Event, EventClasses, Observer, ValueRef, resolve};
use tidewire_resp::ArgumentList;

/// The notified events in order.
#[derive(Default)]
struct Notes(Vec<String>);

impl Observer for Notes {
    fn changed(&mut self, _: usize, _: &[u8], _: Event, _: Option<ValueRef<'_>>) {}

    fn notified(&mut self, database: usize, key: &[u8], event: Event) {
        let key = String::from_utf8_lossy(key);
        self.0.push(format!("{event} {key} {database}"));
    }
}

fn events(server: &Server, line: &str) -> Vec<String> {
    let words: Vec<_> = line.split(' ').collect();
    let mut notes = Notes::default();
    server.run_observed(&words, &mut notes);
    notes.0
}

#[test]
fn replacing_a_key_notifies_only_about_the_new_one() {
    let server = Server::new();
    let classes = EventClasses::parse(b"KEAn").expect("letters");
    server.keyspace.set_notifications(classes);
    server.line("SET a 1");
    server.line("SET b 2 EX 100");
    assert_eq!(
        events(&server, "RENAME a b"),
        ["rename_from a 0", "new b 0", "rename_to b 0"]
    );
    assert_eq!(server.line("TTL b"), ":-1\r\n");
    server.line("SET c 3 EX 100");
    assert_eq!(
        events(&server, "COPY b c REPLACE"),
        ["new c 0", "copy_to c 0"]
    );
    assert_eq!(server.line("TTL c"), ":-1\r\n");
    assert_eq!(
        events(&server, "MOVE c 5"),
        ["move_from c 0", "new c 5", "move_to c 5"]
    );
    assert_eq!(events(&server, "COPY b b DB 5"), ["new b 5", "copy_to b 5"]);
    assert_eq!(events(&server, "COPY b c DB 5"), Vec::<String>::new());
    assert_eq!(events(&server, "RENAME b b"), Vec::<String>::new());
    assert_eq!(
        events(&server, "EXPIRE b -1"),
        ["del b 0"],
        "a TTL in the past"
    );
}

#[test]
fn values_of_every_type_are_copied_and_moved_with_their_ttls() {
    let server = Server::new();
    for (line, view) in [
        ("SET from text", "GET"),
        ("SET from 12", "GET"),
        ("RPUSH from a b", "LRANGE from 0 -1"),
        ("SADD from 1 2", "SMEMBERS"),
        ("SADD from a", "SMEMBERS"),
        ("HSET from f v", "HGETALL"),
        ("ZADD from 1 a 2 b", "ZRANGE from 0 -1 WITHSCORES"),
        ("XADD from 1-1 f v", "XRANGE from - +"),
    ] {
        let show = |key: &str| {
            let line = match view.contains(' ') {
                true => view.replace("from", key),
                false => format!("{view} {key}"),
            };
            server.line(&line)
        };
        server.line("FLUSHALL");
        server.line(line);
        let deadline = (NOW_MS + 1000).to_string();
        server.line(&format!("PEXPIREAT from {deadline}"));
        let (before, encoding) = (show("from"), server.line("OBJECT ENCODING from"));
        assert_eq!(server.line("COPY from copy"), ":1\r\n");
        assert_eq!(server.line("RENAME from to"), "+OK\r\n");
        for key in ["copy", "to"] {
            assert_eq!(show(key), before, "{line}");
            assert_eq!(server.line(&format!("OBJECT ENCODING {key}")), encoding);
            let shown = server.line(&format!("PEXPIRETIME {key}"));
            assert_eq!(shown, format!(":{deadline}\r\n"));
        }
        // The copy is independent.
        server.line("DEL to");
        assert_eq!(show("copy"), before);
    }
}

#[test]
fn a_scan_for_an_unknown_type_finds_nothing() {
    let server = Server::new();
    server.line("SET a 1");
    assert_eq!(
        server.line("SCAN 0 COUNT 1000 TYPE nothing"),
        "*2\r\n$1\r\n0\r\n*0\r\n"
    );
}

#[test]
fn a_scan_removes_the_expired_keys_it_finds() {
    let mut server = Server::new();
    for key in 0..100 {
        server.line(&format!("SET {key} v PX {}", 1 + key % 2 * 1000));
    }
    server.now_ms += 10;
    assert_eq!(server.line("DBSIZE"), ":100\r\n");
    server.line("SCAN 0 COUNT 100000");
    assert_eq!(server.line("DBSIZE"), ":50\r\n");
}

#[test]
fn database_numbers_are_parsed_before_their_range_is_checked() {
    let server = Server::new();
    for (line, error) in [
        ("SWAPDB 44 55", "DB index is out of range"),
        ("SWAPDB 44 a", "invalid second DB index"),
        ("SWAPDB a 55", "invalid first DB index"),
        ("SWAPDB 0 99999999999", "invalid second DB index"),
        ("COPY a b DB 16", "DB index is out of range"),
        ("MOVE a x", "value is not an integer or out of range"),
    ] {
        assert_eq!(server.line(line), format!("-ERR {error}\r\n"), "{line}");
    }
    assert_eq!(server.line("SWAPDB 0 0"), "+OK\r\n");
}

#[test]
fn a_pattern_of_more_than_a_thousand_stars_matches_nothing() {
    let server = Server::new();
    server.run(&["SET", &"a".repeat(50_000), "1"]);
    let keys = |stars: usize| server.run(&["KEYS", &"*?".repeat(stars)]);
    assert_eq!(keys(50_000), b"*0\r\n");
    assert_eq!(&keys(1_000)[..4], b"*1\r\n");
}

#[test]
fn key_flags_may_depend_on_the_arguments() {
    let server = Server::new();
    for (line, flags) in [
        ("SET k get", "OW update"),
        ("SET k v EX 5 GET", "RW access update"),
        ("BITFIELD k GET u8 0", "RO access"),
        ("BITFIELD k GET u8 0 SET u8 0 1", "RW access update"),
    ] {
        let words: String = flags
            .split(' ')
            .map(|word| format!("+{word}\r\n"))
            .collect();
        let count = flags.split(' ').count();
        assert_eq!(
            server.line(&format!("COMMAND GETKEYSANDFLAGS {line}")),
            format!("*1\r\n*2\r\n$1\r\nk\r\n*{count}\r\n{words}"),
            "{line}"
        );
    }
}

#[test]
fn an_impossible_number_of_keys_is_an_error_unless_a_command_may_have_none() {
    let server = Server::new();
    for line in [
        "EVAL 1 5 k",
        "EVAL 1 -1 k",
        "FCALL f x k",
        "EVAL 1 2147483647 k",
    ] {
        for form in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let line = format!("COMMAND {form} {line}");
            assert_eq!(server.line(&line), "*0\r\n", "{line}");
        }
    }
    for line in ["SINTERCARD 3 k l", "MSETEX 5 k v"] {
        let line = format!("COMMAND GETKEYS {line}");
        let error = "-ERR Invalid arguments specified for command\r\n";
        assert_eq!(server.line(&line), error, "{line}");
    }
}

#[test]
fn a_command_that_changes_one_key_and_waits_for_nothing_can_run_elsewhere() {
    let key_of = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let words = ArgumentList::from_slices(&words);
        let command = resolve(words.as_arguments()).expect(line);
        command.key_elsewhere(words.as_arguments())
    };
    for (line, key) in [
        ("set k v", 1),
        ("SET k v EX 5 GET", 1),
        ("del k", 1),
        ("mset k v", 1),
        ("hset k f v", 1),
        ("expire k 5", 1),
        ("xgroup create k g 0", 2),
        ("lmpop 1 k left", 2),
    ] {
        assert_eq!(key_of(line), Some(key), "{line}");
    }
    for line in [
        "del k l",
        "mset k v l w",
        "rename k l",
        "copy k l",
        "lmove k l left left",
        "sinterstore k l",
        "get k",
        "blpop k 1",
        "blmpop 1 1 k left",
        "move k 1",
        "restore k 0 x",
        "sort k store l",
        "eval x 1 k",
        "migrate h 1 k 0 1",
        "flushall",
        "config set maxmemory 1",
    ] {
        assert_eq!(key_of(line), None, "{line}");
    }
}
