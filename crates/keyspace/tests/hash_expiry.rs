//! TTLs of hash fields through the public interface.

mod common;

use common::{NOW_MS, Random, Server};
use tidewire_keyspace::{Event, EventClasses, NullObserver, Observer, ValueRef};

/// The names of the notified events.
#[derive(Default)]
struct Events(Vec<&'static str>);

impl Observer for Events {
    fn changed(&mut self, _: usize, _: &[u8], _: Event, _: Option<ValueRef<'_>>) {}

    fn notified(&mut self, _: usize, _: &[u8], event: Event) {
        self.0.push(event.name());
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn server(tables: bool) -> Server {
    let server = Server::new();
    if tables {
        server.keyspace.set_hash_limits(0, 64);
    }
    server
}

/// Returns the events of a command.
fn events(server: &Server, line: &str) -> Vec<&'static str> {
    server.keyspace.set_notifications(EventClasses::ALL);
    let mut told = Events::default();
    server.run_observed(&words(line), &mut told);
    told.0
}

/// Parses a reply of integers.
fn integers(server: &Server, line: &str) -> Vec<i64> {
    let reply = server.line(line);
    let mut lines = reply.split("\r\n");
    assert!(
        lines.next().is_some_and(|head| head.starts_with('*')),
        "{reply}"
    );
    let numbers = lines.filter_map(|line| line.strip_prefix(':'));
    numbers
        .map(|number| number.parse().expect("a number"))
        .collect()
}

#[test]
fn ttls_are_set_returned_and_removed() {
    for tables in [false, true] {
        let server = server(tables);
        assert_eq!(integers(&server, "HEXPIRE h 10 FIELDS 2 a b"), [-2, -2]);
        server.line("HSET h a 1 b 2 c 3");
        assert_eq!(integers(&server, "HEXPIRE h 10 FIELDS 3 a b x"), [1, 1, -2]);
        assert_eq!(
            integers(&server, "HTTL h FIELDS 4 a b c x"),
            [10, 10, -1, -2]
        );
        assert_eq!(integers(&server, "HPTTL h FIELDS 1 a"), [10_000]);
        let at = [NOW_MS / 1000 + 10, NOW_MS + 10_000];
        assert_eq!(integers(&server, "HEXPIRETIME h FIELDS 1 a"), at[..1]);
        assert_eq!(integers(&server, "HPEXPIRETIME h FIELDS 1 a"), at[1..]);
        assert_eq!(integers(&server, "HPEXPIRE h 1500 NX FIELDS 2 a c"), [0, 1]);
        // Rounded up to seconds.
        assert_eq!(integers(&server, "HTTL h FIELDS 1 c"), [2]);
        assert_eq!(
            integers(&server, "HPEXPIRE h 1500 XX FIELDS 2 a x"),
            [1, -2]
        );
        assert_eq!(integers(&server, "HPEXPIRE h 1500 GT FIELDS 2 a b"), [0, 0]);
        assert_eq!(integers(&server, "HPEXPIRE h 1500 LT FIELDS 2 a b"), [0, 1]);
        assert_eq!(integers(&server, "HPERSIST h FIELDS 3 a x a"), [1, -2, -1]);
        assert_eq!(integers(&server, "HPEXPIRE h 5 GT FIELDS 1 a"), [0]);
        assert_eq!(integers(&server, "HPEXPIRE h 5 LT FIELDS 1 a"), [1]);
        let encoding = if tables { "hashtable" } else { "listpackex" };
        let shown = format!("${}\r\n{encoding}\r\n", encoding.len());
        assert_eq!(server.line("OBJECT ENCODING h"), shown);
        assert_eq!(integers(&server, "HEXPIREAT h 1 FIELDS 2 a a"), [2, -2]);
        assert_eq!(server.line("HLEN h"), ":2\r\n");
        assert_eq!(integers(&server, "HPEXPIREAT h 1 FIELDS 2 b c"), [2, 2]);
        assert_eq!(server.line("EXISTS h"), ":0\r\n");
        assert_eq!(server.keyspace.timed_hashes(0), 0);
        assert_eq!(server.keyspace.expired_fields(), 3);
    }
}

#[test]
fn expired_fields_are_invisible_and_removed_on_access() {
    for tables in [false, true] {
        let mut server = server(tables);
        server.keyspace.set_active_expiry(false);
        server.line("HSET h a 1 b 2 c 3 d 4 e 5 keep 6");
        server.line("HPEXPIRE h 10 FIELDS 5 a b c d e");
        server.now_ms += 10;
        assert_eq!(server.keyspace.next_deadline_ms(), None);
        let due = server
            .keyspace
            .expire_due(server.now_ms, 100, &mut NullObserver);
        assert_eq!((due.count, server.line("HLEN h")), (0, ":6\r\n".into()));
        assert_eq!(server.line("HGETALL h"), "*2\r\n$4\r\nkeep\r\n$1\r\n6\r\n");
        assert_eq!(server.line("HKEYS h"), "*1\r\n$4\r\nkeep\r\n");
        assert_eq!(
            server.line("HSCAN h 0"),
            "*2\r\n$1\r\n0\r\n*2\r\n$4\r\nkeep\r\n$1\r\n6\r\n"
        );
        assert_eq!(integers(&server, "HPTTL h FIELDS 2 a keep"), [-2, -1]);
        assert_eq!(integers(&server, "HEXPIRE h 10 FIELDS 1 a"), [-2]);
        assert_eq!(server.line("HLEN h"), ":6\r\n");
        assert_eq!(server.line("HGET h a"), "$-1\r\n");
        assert_eq!(server.line("HEXISTS h b"), ":0\r\n");
        assert_eq!(server.line("HLEN h"), ":4\r\n");
        assert_eq!(server.line("HMGET h c keep"), "*2\r\n$-1\r\n$1\r\n6\r\n");
        assert_eq!(server.line("HINCRBY h d 7"), ":7\r\n");
        assert_eq!(integers(&server, "HTTL h FIELDS 1 d"), [-1]);
        assert_eq!(server.line("HDEL h e"), ":1\r\n");
        assert_eq!(server.line("HLEN h"), ":2\r\n");
        assert_eq!(server.keyspace.expired_fields(), 4);
        server.line("HPEXPIRE h 5 FIELDS 2 d keep");
        server.now_ms += 5;
        assert_eq!(server.line("HRANDFIELD h 5"), "*0\r\n");
        assert_eq!(server.line("EXISTS h"), ":0\r\n");
    }
}

#[test]
fn writes_keep_or_clear_ttls_as_in_redis() {
    for tables in [false, true] {
        let server = server(tables);
        server.line("HSET h a 1 b 2 c 3");
        server.line("HEXPIRE h 10 FIELDS 3 a b c");
        server.line("HSET h a longer");
        server.line("HINCRBY h b 1");
        server.line("HINCRBYFLOAT h c 0.5");
        assert_eq!(integers(&server, "HTTL h FIELDS 3 a b c"), [-1, 10, 10]);
        assert_eq!(server.line("HSETEX h KEEPTTL FIELDS 2 a 1 b 2"), ":1\r\n");
        assert_eq!(integers(&server, "HTTL h FIELDS 3 a b c"), [-1, 10, 10]);
        assert_eq!(server.line("HSETEX h FIELDS 1 b 2"), ":1\r\n");
        assert_eq!(server.line("HSETEX h FNX EX 5 FIELDS 2 x 1 a 2"), ":0\r\n");
        assert_eq!(server.line("HSETEX h FXX EX 5 FIELDS 2 x 1 a 2"), ":0\r\n");
        assert_eq!(
            server.line("HSETEX h PX 5000 FXX FIELDS 2 c 1 a 2"),
            ":1\r\n"
        );
        assert_eq!(integers(&server, "HTTL h FIELDS 3 a b c"), [5, -1, 5]);
        assert_eq!(
            server.line("HGETEX h PERSIST FIELDS 2 a x"),
            "*2\r\n$1\r\n2\r\n$-1\r\n"
        );
        assert_eq!(server.line("HGETEX h EX 7 FIELDS 1 b"), "*1\r\n$1\r\n2\r\n");
        assert_eq!(server.line("HGETEX h FIELDS 1 c"), "*1\r\n$1\r\n1\r\n");
        assert_eq!(integers(&server, "HTTL h FIELDS 3 a b c"), [-1, 7, 5]);
        assert_eq!(
            server.line("HGETDEL h FIELDS 2 c x"),
            "*2\r\n$1\r\n1\r\n$-1\r\n"
        );
        assert_eq!(server.keyspace.timed_hashes(0), 1);
        assert_eq!(
            server.line("HGETEX h PXAT 1 FIELDS 1 b"),
            "*1\r\n$1\r\n2\r\n"
        );
        assert_eq!(server.line("HGETALL h"), "*2\r\n$1\r\na\r\n$1\r\n2\r\n");
        assert_eq!(server.keyspace.timed_hashes(0), 0);
        assert_eq!(server.line("HSETEX h EX 0 FIELDS 1 a 1"), ":1\r\n");
        assert_eq!(server.line("EXISTS h"), ":0\r\n");
        assert_eq!(server.line("HSETEX h FXX FIELDS 1 a 1"), ":0\r\n");
        assert_eq!(server.line("EXISTS h"), ":0\r\n");
    }
}

#[test]
fn ttls_of_fields_move_with_their_hash() {
    for tables in [false, true] {
        let mut server = server(tables);
        server.line("HSET h a 1 b 2");
        server.line("HPEXPIRE h 100 FIELDS 1 a");
        server.line("RENAME h other");
        server.line("COPY other copy");
        server.line("COPY other moved");
        server.line("MOVE moved 3");
        server.line("COPY other there DB 2");
        server.line("SWAPDB 2 4");
        let dump = server.run(&["DUMP", "other"]);
        let at = dump.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
        let payload = &dump[at..dump.len() - 2];
        server.run(&[b"RESTORE", &b"restored"[..], b"0", payload]);
        for (database, key) in [
            (0, "other"),
            (0, "copy"),
            (3, "moved"),
            (4, "there"),
            (0, "restored"),
        ] {
            server.database = database;
            let reply = integers(&server, &format!("HPTTL {key} FIELDS 2 a b"));
            assert_eq!(reply, [100, -1], "{key}");
        }
        server.database = 0;
        assert_eq!(server.keyspace.timed_hashes(0), 3);
        server.line("SET copy text");
        assert_eq!(server.keyspace.timed_hashes(0), 2);
        server.line("HSET plain x 1");
        server.line("COPY plain restored REPLACE");
        assert_eq!(server.keyspace.timed_hashes(0), 1);
        server.line("PEXPIRE other 50");
        server.now_ms += 50;
        let due = server
            .keyspace
            .expire_due(server.now_ms, 100, &mut NullObserver);
        assert_eq!((due.count, server.keyspace.timed_hashes(0)), (1, 0));
        server.now_ms += 50;
        assert_eq!(
            server
                .keyspace
                .next_deadline_ms()
                .map(|ms| ms <= server.now_ms),
            Some(true)
        );
        server
            .keyspace
            .expire_due(server.now_ms, 100, &mut NullObserver);
        for (database, key) in [(3, "moved"), (4, "there")] {
            server.database = database;
            assert_eq!(server.line(&format!("HLEN {key}")), ":1\r\n");
        }
        assert_eq!(server.keyspace.expired_fields(), 2);
        assert_eq!(server.keyspace.next_deadline_ms(), None);
        server.line("HPEXPIRE there 100 FIELDS 1 b");
        server.line("FLUSHALL");
        assert_eq!(server.keyspace.timed_hashes(4), 0);
    }
}

#[test]
fn events_and_their_order_match_redis() {
    for tables in [false, true] {
        let mut server = server(tables);
        server.keyspace.set_active_expiry(false);
        assert_eq!(
            events(&server, "HSETEX h EX 5 FIELDS 2 a 1 b 2"),
            ["hset", "hexpire"]
        );
        assert_eq!(events(&server, "HEXPIRE h 5 FIELDS 2 a x"), ["hexpire"]);
        assert_eq!(events(&server, "HEXPIRE h 5 NX FIELDS 1 a"), [""; 0]);
        assert_eq!(events(&server, "HPERSIST h FIELDS 1 a"), ["hpersist"]);
        assert_eq!(events(&server, "HPERSIST h FIELDS 1 a"), [""; 0]);
        assert_eq!(events(&server, "HGETEX h PERSIST FIELDS 1 b"), ["hpersist"]);
        assert_eq!(events(&server, "HGETEX h EX 1 FIELDS 2 a b"), ["hexpire"]);
        assert_eq!(events(&server, "HGETEX h PXAT 1 FIELDS 1 a"), ["hdel"]);
        assert_eq!(events(&server, "HEXPIREAT h 0 FIELDS 1 b"), ["hdel", "del"]);
        assert_eq!(
            events(&server, "HSETEX h PXAT 1 FIELDS 1 a 1"),
            ["hset", "hdel", "del"]
        );
        let refill = |server: &mut Server| {
            server.line("HSETEX h PX 5 FIELDS 3 a 1 b 2 c 3");
            server.now_ms += 5;
        };
        refill(&mut server);
        assert_eq!(events(&server, "HGET h a"), ["hexpired"]);
        assert_eq!(events(&server, "HGETDEL h FIELDS 1 b"), ["hexpired"]);
        assert_eq!(
            events(&server, "HGETEX h EX 5 FIELDS 1 c"),
            ["hexpired", "del"]
        );
        refill(&mut server);
        assert_eq!(
            events(&server, "HSETEX h FNX FIELDS 1 a 1"),
            ["hexpired", "hset"]
        );
        assert_eq!(events(&server, "HSETEX h FXX FIELDS 1 b 1"), ["hexpired"]);
        assert_eq!(
            events(&server, "HGETDEL h FIELDS 2 a c"),
            ["hexpired", "hdel", "del"]
        );
        refill(&mut server);
        assert_eq!(events(&server, "HRANDFIELD h"), ["hexpired", "del"]);
        refill(&mut server);
        server.line("HSET h keep 1");
        server.keyspace.set_active_expiry(true);
        let mut told = Events::default();
        server.keyspace.expire_due(server.now_ms, 2, &mut told);
        assert_eq!(told.0, ["hexpired"]);
        let more = server.keyspace.expire_due(server.now_ms, 2, &mut told).more;
        assert_eq!(
            (told.0.len(), more, server.line("HLEN h")),
            (2, false, ":1\r\n".into())
        );
        server.line("HPEXPIRE h 1 FIELDS 1 keep");
        server.keyspace.expire_due(server.now_ms + 1, 2, &mut told);
        assert_eq!(told.0[2..], ["hexpired", "del"]);
    }
}

#[test]
fn invalid_arguments_get_the_errors_of_redis() {
    let server = Server::new();
    server.line("HSET h a 1");
    server.line("SET s text");
    // Each command with the error of Redis 8.6.3 on the next line.
    let mut lines = include_str!("hash_expiry_errors.txt").lines();
    while let Some((line, text)) = lines.next().zip(lines.next()) {
        let expected = format!("-{}\r\n", text.trim_start());
        assert_eq!(server.line(line), expected, "{line}");
    }
    assert_eq!(server.line("OBJECT ENCODING h"), "$8\r\nlistpack\r\n");
}

#[test]
fn options_may_follow_the_fields() {
    let server = Server::new();
    server.line("HSET h a 1 b 2");
    assert_eq!(integers(&server, "HEXPIRE h 10 FIELDS 1 a NX"), [1]);
    assert_eq!(integers(&server, "HEXPIRE h 20 FIELDS 1 a NX NX"), [0]);
    assert_eq!(integers(&server, "HEXPIRE h 20 XX FIELDS 2 a b XX"), [1, 0]);
    assert_eq!(
        server.line("HGETEX h FIELDS 1 b PX 7000"),
        "*1\r\n$1\r\n2\r\n"
    );
    assert_eq!(integers(&server, "HTTL h FIELDS 2 a b"), [20, 7]);
    assert_eq!(
        server.line("HGETEX h FIELDS 1 b PERSIST"),
        "*1\r\n$1\r\n2\r\n"
    );
    assert_eq!(server.line("HSETEX h FIELDS 1 b 3 FNX EX 5"), ":0\r\n");
    assert_eq!(server.line("HSETEX h FXX FIELDS 1 b EX EX 5"), ":1\r\n");
    assert_eq!(integers(&server, "HTTL h FIELDS 2 a b"), [20, 5]);
    assert_eq!(server.line("HGET h b"), "$2\r\nEX\r\n");
}

#[test]
fn fields_of_many_hashes_expire_on_time() {
    for tables in [false, true] {
        let mut server = server(tables);
        let mut random = Random(7);
        let mut deadlines = Vec::new();
        for hash in 0..200 {
            for field in 0..20 {
                let deadline_ms = NOW_MS + 1 + random.below(1000) as i64;
                let line = format!("HSETEX h{hash} PXAT {deadline_ms} FIELDS 1 f{field} v");
                server.line(&line);
                deadlines.push(deadline_ms);
            }
        }
        while let Some(next_ms) = server.keyspace.next_deadline_ms() {
            assert!(next_ms > server.now_ms && next_ms <= *deadlines.iter().min().expect("one"));
            server.now_ms = next_ms;
            server
                .keyspace
                .expire_due(next_ms, usize::MAX, &mut NullObserver);
            deadlines.retain(|&deadline_ms| deadline_ms > next_ms);
            assert_eq!(
                server.keyspace.expired_fields(),
                4000 - deadlines.len() as u64
            );
        }
        assert_eq!((deadlines.len(), server.keyspace.keys(0)), (0, 0));
    }
}

#[test]
fn a_scan_removes_the_expired_keys_it_visits() {
    let mut server = Server::new();
    server.keyspace.set_active_expiry(false);
    for key in 0..50 {
        server.line(&format!("SET stays{key} v"));
        server.line(&format!("SET goes{key} v PX 5"));
    }
    server.now_ms += 5;
    assert_eq!(server.line("DBSIZE"), ":100\r\n");
    assert_eq!(events(&server, "SCAN 0 COUNT 1000 TYPE nonsense").len(), 50);
    assert_eq!(server.line("DBSIZE"), ":50\r\n");
}
