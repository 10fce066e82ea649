//! Mounts, live topics, TTLs and cursors through the public interface.

mod common;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{NOW_MS, Server};
use tidewire_keyspace::{
    CommandError, Event, Keyspace, LiveNames, Mount, NullObserver, Observer, ValueRef,
};
use tidewire_resp::{Protocol, Value, decode};

#[derive(Debug)]
struct Market;

const SYMBOLS: [&str; 3] = ["RELIANCE", "TCS", "INFY"];

impl Mount for Market {
    fn prefix(&self) -> &[u8] {
        b"md:"
    }

    fn contains(&self, key: &[u8]) -> bool {
        SYMBOLS
            .iter()
            .any(|symbol| key == format!("md:{symbol}").as_bytes())
    }

    fn read(&self, key: &[u8], fields: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let there = self.contains(key);
        if there {
            fields(b"bid", b"2450.5");
            fields(b"ask", b"2450.75");
            fields(b"symbol", &key[3..]);
        }
        there
    }

    fn len(&self) -> usize {
        SYMBOLS.len()
    }

    fn name(&self, position: usize, out: &mut Vec<u8>) -> bool {
        let Some(symbol) = SYMBOLS.get(position) else {
            return false;
        };
        out.extend_from_slice(format!("md:{symbol}").as_bytes());
        true
    }

    fn write_error(&self, _: &[u8]) -> std::borrow::Cow<'static, str> {
        "READONLY md: topics are live and read-only".into()
    }
}

fn market() -> Server {
    let mut server = Server::new();
    server.keyspace.mount(Arc::new(Market));
    server
}

#[test]
fn a_mounted_topic_reads_like_a_hash() {
    let mut server = market();
    for (line, reply) in [
        ("TYPE md:TCS", "+hash\r\n"),
        ("EXISTS md:TCS md:NONE md:INFY", ":2\r\n"),
        ("HLEN md:TCS", ":3\r\n"),
        ("HGET md:TCS ask", "$7\r\n2450.75\r\n"),
        ("HGET md:TCS none", "$-1\r\n"),
        (
            "HMGET md:TCS symbol bid",
            "*2\r\n$3\r\nTCS\r\n$6\r\n2450.5\r\n",
        ),
        (
            "HKEYS md:TCS",
            "*3\r\n$3\r\nbid\r\n$3\r\nask\r\n$6\r\nsymbol\r\n",
        ),
        (
            "HSCAN md:TCS 0 MATCH b*",
            "*2\r\n$1\r\n0\r\n*2\r\n$3\r\nbid\r\n$6\r\n2450.5\r\n",
        ),
        ("OBJECT ENCODING md:TCS", "$8\r\nlistpack\r\n"),
        ("TTL md:TCS", ":-1\r\n"),
        ("TTL md:NONE", ":-2\r\n"),
        ("TOUCH md:TCS", ":1\r\n"),
        ("HEXISTS md:TCS bid", ":1\r\n"),
        ("HSTRLEN md:TCS bid", ":6\r\n"),
        ("GET md:NONE", "$-1\r\n"),
        ("MGET md:TCS md:NONE", "*2\r\n$-1\r\n$-1\r\n"),
        ("DBSIZE", ":3\r\n"),
        ("COPY md:TCS copy", ":1\r\n"),
        ("HGET copy symbol", "$3\r\nTCS\r\n"),
        ("KEYS md:R*", "*1\r\n$11\r\nmd:RELIANCE\r\n"),
    ] {
        assert_eq!(server.line(line), reply, "{line}");
    }
    assert!(server.line("GET md:TCS").starts_with("-WRONGTYPE"));
    server.protocol = Protocol::Resp3;
    assert!(
        server
            .line("HGETALL md:TCS")
            .starts_with("%3\r\n$3\r\nbid\r\n")
    );
    server.database = 1;
    assert_eq!(
        server.line("EXISTS md:TCS"),
        ":0\r\n",
        "mounts are only in database 0"
    );
    assert_eq!(server.line("SET md:TCS x"), "+OK\r\n");
    assert_eq!(server.line("MOVE md:TCS 0"), REFUSED);
    assert_eq!(server.line("COPY md:TCS md:NEW DB 0"), REFUSED);
}

const REFUSED: &str = "-READONLY md: topics are live and read-only\r\n";

#[test]
fn no_command_writes_to_a_mount() {
    let server = market();
    server.line("SET plain 1");
    for line in [
        "SET md:TCS 1",
        "SET md:NEW 1",
        "DEL md:TCS",
        "DEL plain md:TCS",
        "UNLINK md:TCS",
        "APPEND md:TCS x",
        "SADD md:TCS x",
        "RPUSH md:TCS x",
        "LMOVE plain md:NEW LEFT LEFT",
        "LMPOP 2 plain md:TCS LEFT",
        "SMOVE md:TCS plain x",
        "SMOVE plain md:NEW x",
        "SUNIONSTORE md:NEW plain",
        "INCR md:NEW",
        "HSET md:TCS bid 1",
        "HDEL md:TCS bid",
        "EXPIRE md:TCS 1",
        "PERSIST md:TCS",
        "RENAME md:TCS other",
        "RENAME plain md:TCS",
        "RENAMENX plain md:NEW",
        "COPY plain md:NEW",
        "COPY md:TCS md:NEW",
        "MSET plain 2 md:TCS 1",
        "MSETNX new 1 md:NEW 1",
        "GETDEL md:TCS",
        "GETEX md:TCS",
        "GETSET md:TCS 1",
        "SETRANGE md:TCS 0 x",
        "MOVE md:TCS 1",
        "HINCRBY md:TCS bid 1",
        "SETEX md:TCS 10 x",
    ] {
        assert_eq!(server.line(line), REFUSED, "{line}");
    }
    assert_eq!(server.line("GET plain"), "$1\r\n1\r\n");
    assert_eq!(server.line("EXISTS new"), ":0\r\n");
    server.line("FLUSHALL");
    assert_eq!(server.line("DBSIZE"), ":3\r\n");
    let refused = server
        .keyspace
        .publish_value(0, b"md:TCS", b"1", NOW_MS, &mut NullObserver);
    assert!(matches!(refused, Err(CommandError::Mounted(_))));
}

#[test]
fn mounted_topics_are_scanned_and_drawn_like_keys() {
    let server = market();
    server.line("MSET a 1 b 2");
    for count in [1, 2, 1000] {
        let names = scan_all(&server, &format!("COUNT {count}"));
        let expected = ["a", "b", "md:INFY", "md:RELIANCE", "md:TCS"].map(str::to_owned);
        assert_eq!(names, BTreeSet::from(expected));
    }
    assert_eq!(scan_all(&server, "TYPE hash").len(), 3);
    assert_eq!(scan_all(&server, "TYPE string MATCH b").len(), 1);
    assert_eq!(server.line("SCAN 0 TYPE bogus"), "*2\r\n$1\r\n0\r\n*0\r\n");
    let drawn: HashSet<String> = (0..500).map(|_| server.line("RANDOMKEY")).collect();
    assert_eq!(drawn.len(), 5);
}

fn scan_all(server: &Server, options: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = server.line(&format!("SCAN {cursor} {options}"));
        let Ok(Some((Value::Array(parts), _))) = decode(reply.as_bytes()) else {
            panic!("{reply}")
        };
        let [Value::Bulk(next), Value::Array(found)] = &parts[..] else {
            panic!("{reply}")
        };
        for name in found {
            let Value::Bulk(name) = name else {
                panic!("{reply}")
            };
            names.insert(String::from_utf8(name.clone()).expect("text"));
        }
        cursor = String::from_utf8(next.clone()).expect("text");
        if cursor == "0" {
            return names;
        }
    }
}

#[derive(Default)]
struct Notes(Vec<String>);

impl Observer for Notes {
    fn changed(&mut self, database: usize, key: &[u8], event: Event, value: Option<ValueRef<'_>>) {
        let value = value.map_or("-".to_owned(), |value| format!("{value:?}"));
        self.0
            .push(format!("{database} {} {event} {value}", key.escape_ascii()));
    }

    fn renewed(&mut self, names: LiveNames) {
        let names = names.iter();
        self.0
            .extend(names.map(|name| format!("renewed {}", name.escape_ascii())));
    }
}

fn notes(server: &Server, line: &str) -> Vec<String> {
    let mut notes = Notes::default();
    let words: Vec<&str> = line.split(' ').collect();
    server.run_observed(&words, &mut notes);
    notes.0
}

#[test]
fn every_change_of_a_live_topic_is_reported_with_its_value() {
    let mut server = Server::new();
    for (line, told) in [
        ("SET plain 1", &[][..]),
        ("SET live:a 1", &["0 live:a set \"1\""]),
        ("INCRBY live:a 4", &["0 live:a incrby \"5\""]),
        ("APPEND live:a x", &["0 live:a append \"5x\""]),
        ("INCR live:a", &[]),
        (
            "HSET live:h f 1 g 2",
            &["0 live:h hset {\"f\": \"1\", \"g\": \"2\"}"],
        ),
        ("HDEL live:h f", &["0 live:h hdel {\"g\": \"2\"}"]),
        ("HDEL live:h none", &[]),
        ("HDEL live:h g", &["0 live:h del -"]),
        ("SADD live:s 2 1 2", &["0 live:s sadd [\"1\", \"2\"]"]),
        ("SADD live:s 2", &[]),
        (
            "SMOVE live:s live:t 2",
            &["0 live:s srem [\"1\"]", "0 live:t sadd [\"2\"]"],
        ),
        (
            "SUNIONSTORE live:u live:s live:t",
            &["0 live:u sunionstore [\"1\", \"2\"]"],
        ),
        (
            "SDIFFSTORE live:u live:s live:t",
            &["0 live:u sdiffstore [\"1\"]"],
        ),
        ("SINTERSTORE live:u live:s live:t", &["0 live:u del -"]),
        ("SREM live:s x", &[]),
        ("SREM live:s 1", &["0 live:s del -"]),
        ("SPOP live:t", &["0 live:t del -"]),
        (
            "RPUSH live:l a b c",
            &["0 live:l rpush [\"a\", \"b\", \"c\"]"],
        ),
        ("LPUSHX live:m a", &[]),
        ("LPOP live:l", &["0 live:l lpop [\"b\", \"c\"]"]),
        ("LSET live:l 0 7", &["0 live:l lset [\"7\", \"c\"]"]),
        (
            "LINSERT live:l AFTER 7 d",
            &["0 live:l linsert [\"7\", \"d\", \"c\"]"],
        ),
        ("LREM live:l 0 7", &["0 live:l lrem [\"d\", \"c\"]"]),
        (
            "LMOVE live:l live:m RIGHT LEFT",
            &["0 live:m lpush [\"c\"]", "0 live:l rpop [\"d\"]"],
        ),
        ("LMPOP 2 plain2 live:m RIGHT", &["0 live:m del -"]),
        ("LTRIM live:l 1 0", &["0 live:l del -"]),
        ("RPUSH live:l x y", &["0 live:l rpush [\"x\", \"y\"]"]),
        (
            "LMOVE live:l live:l LEFT RIGHT",
            &["0 live:l rpush [\"y\", \"x\"]"],
        ),
        (
            "HSETEX live:x EX 10 FIELDS 1 f v",
            &["0 live:x hset {\"f\": \"v\"}"],
        ),
        ("HGETEX live:x PERSIST FIELDS 1 f", &[]),
        ("HEXPIRE live:x 10 FIELDS 1 f", &[]),
        ("HPERSIST live:x FIELDS 1 f", &[]),
        ("HGETDEL live:x FIELDS 1 f", &["0 live:x del -"]),
        (
            "XADD live:r 1-1 f v",
            &["0 live:r xadd 1-1 [(\"f\", \"v\")]"],
        ),
        (
            "XADD live:r MAXLEN 1 2-1 g w",
            &["0 live:r xadd 2-1 [(\"g\", \"w\")]"],
        ),
        (
            "XADD live:r 3-1 h x",
            &["0 live:r xadd 3-1 [(\"h\", \"x\")]"],
        ),
        ("XDEL live:r 2-1", &[]),
        ("XSETID live:r 9-9", &[]),
        ("XGROUP CREATE live:r readers 0", &[]),
        ("XGROUP DESTROY live:r readers", &[]),
        ("XTRIM live:r MAXLEN 0", &["0 live:r xtrim ?"]),
        ("ZADD live:z 1 a", &["0 live:z zadd {\"a\": 1.0}"]),
        ("ZPOPMIN live:z", &["0 live:z del -"]),
        ("MSET plain 1 live:b 2", &["0 live:b set \"2\""]),
        (
            "RENAME live:b live:c",
            &["0 live:b rename_from -", "0 live:c rename_to \"2\""],
        ),
        ("RENAME live:c plain", &["0 live:c rename_from -"]),
        ("COPY live:a live:d", &["0 live:d copy_to \"5x\""]),
        ("EXPIRE live:d 100", &[]),
        ("PERSIST live:d", &[]),
        ("GETEX live:d EX 100", &[]),
        ("GETEX live:d PERSIST", &[]),
        ("EXPIRE live:d -1", &["0 live:d del -"]),
        ("GETDEL live:a", &["0 live:a del -"]),
        ("DEL plain", &[]),
        ("SETEX live:e 10 v", &["0 live:e set \"v\""]),
    ] {
        assert_eq!(notes(&server, line), told, "{line}");
    }
    server.now_ms += 10_000;
    assert_eq!(notes(&server, "GET live:e"), ["0 live:e expired -"]);
    server.line("SET live:f 1");
    let all = ["renewed live:f", "renewed live:l", "renewed live:r"];
    for line in ["SWAPDB 0 1", "SWAPDB 1 0", "FLUSHALL"] {
        let mut renewed = notes(&server, line);
        renewed.sort();
        assert_eq!(renewed, all, "{line}");
    }
    assert_eq!(notes(&server, "FLUSHALL"), [""; 0]);
    server.database = 2;
    assert_eq!(
        notes(&server, "SET live:a 1"),
        [""; 0],
        "topics are only in database 0"
    );
}

#[test]
fn a_published_name_stays_live_until_it_is_deleted() {
    let server = Server::new();
    let mut told = Notes::default();
    let publish = |payload: &[u8], told: &mut Notes| {
        server
            .keyspace
            .publish_value(0, b"sensor", payload, NOW_MS, told)
            .expect("published");
    };
    server.line("HSET sensor f v");
    publish(b"1", &mut told);
    publish(b"two", &mut told);
    assert_eq!(told.0, ["0 sensor set \"1\"", "0 sensor set \"two\""]);
    assert_eq!(notes(&server, "SET sensor 3"), ["0 sensor set \"3\""]);
    let state = |key: &[u8]| {
        let show = |value: Option<ValueRef<'_>>| value.map(|value| format!("{value:?}"));
        server.keyspace.live_state(key, NOW_MS, show)
    };
    assert_eq!(state(b"sensor").as_deref(), Some("\"3\""));
    server.line("SET plain x");
    assert_eq!(state(b"plain"), None, "it is no live topic");
    assert_eq!(notes(&server, "DEL sensor"), ["0 sensor del -"]);
    assert_eq!(notes(&server, "SET sensor 4"), [""; 0]);
}

#[test]
fn current_values_of_live_keys_are_listed_for_snapshots_without_mounted_topics() {
    let server = market();
    for index in 0..500 {
        server.line(&format!("SET live:{index} {index}"));
        server.line(&format!("SET other:{index} {index}"));
    }
    server.line("DEL live:7 live:8");
    server.line("PEXPIREAT live:9 1750000000001");
    let mut seen = BTreeSet::new();
    server.keyspace.for_each_live(
        NOW_MS + 1,
        &mut |name| !name.ends_with(b"1"),
        &mut |name, value| {
            let text = value.text().map(|text| text.as_bytes().to_vec());
            let name = String::from_utf8_lossy(name).into_owned();
            if let Some(text) = text {
                assert_eq!(name.as_bytes(), [b"live:", &text[..]].concat());
            }
            seen.insert(name);
        },
    );
    assert_eq!(seen.len(), 500 - 50 - 3);
    assert!(!seen.contains("md:TCS") && !seen.contains("live:9"));
}

#[test]
fn a_million_keys_expire_exactly_on_time() {
    let server = Server::new();
    let count = 1_000_000i64;
    let mut counts = vec![0i64; 100_001];
    for index in 0..count {
        let key = format!("k{index}");
        let delay = 1 + (index * 7_919) % 100_000;
        counts[delay as usize] += 1;
        let deadline = (NOW_MS + delay).to_string();
        server.run(&["SET", &key, "v", "PXAT", &deadline]);
    }
    assert_eq!(server.keyspace.expiring_keys(0), count as usize);
    let mut now_ms = NOW_MS;
    let (mut expired, mut due, mut looked) = (0, 0, 0);
    while let Some(next_ms) = server.keyspace.next_deadline_ms() {
        assert!(next_ms >= now_ms, "time goes on");
        // Nothing expires before the announced time.
        assert_eq!(
            server
                .keyspace
                .expire_due(next_ms - 1, 1000, &mut NullObserver)
                .count,
            0
        );
        now_ms = next_ms;
        loop {
            let step = server.keyspace.expire_due(now_ms, 1000, &mut NullObserver);
            assert!(step.count <= 1000);
            expired += step.count as i64;
            if !step.more {
                break;
            }
        }
        let past = (now_ms - NOW_MS) as usize;
        due += counts[looked..=past].iter().sum::<i64>();
        looked = past + 1;
        assert_eq!(expired, due, "{past} ms later");
    }
    assert_eq!(expired, count);
    assert_eq!(server.keyspace.keys(0), 0);
}

#[test]
fn an_expired_key_is_reported_in_its_millisecond() {
    let server = Server::new();
    server.line("SET live:x v PX 1500");
    server.line("SET plain v PX 1500");
    let mut told = Notes::default();
    let before = server.keyspace.expire_due(NOW_MS + 1_499, 10, &mut told);
    assert_eq!((before.count, told.0.len()), (0, 0));
    let due = server.keyspace.expire_due(NOW_MS + 1_500, 10, &mut told);
    assert_eq!((due.count, due.more), (2, false));
    assert_eq!(told.0, ["0 live:x expired -"]);
}

#[test]
fn overdue_keys_expire_in_order_of_their_deadlines() {
    for pair in 0..20 {
        let server = Server::new();
        server.line(&format!("SET live:late{pair} v PX 20"));
        server.line(&format!("SET live:later{pair} v PX 10"));
        let mut told = Notes::default();
        let due = server.keyspace.expire_due(NOW_MS + 30, 10, &mut told);
        assert_eq!((due.count, due.more), (2, false));
        let first = format!("0 live:later{pair} expired -");
        assert_eq!(told.0, [first, format!("0 live:late{pair} expired -")]);
    }
}

#[test]
fn a_budget_leaves_the_remaining_keys_for_the_next_turn() {
    let server = Server::new();
    for index in 0..100 {
        server.line(&format!("SET k{index} v PX 10"));
    }
    let first = server
        .keyspace
        .expire_due(NOW_MS + 10, 30, &mut NullObserver);
    assert_eq!((first.count, first.more), (30, true));
    let rest = server
        .keyspace
        .expire_due(NOW_MS + 10, 100, &mut NullObserver);
    assert_eq!((rest.count, rest.more), (70, false));
}

#[test]
fn a_scan_sees_every_permanent_key_while_others_come_and_go() {
    let server = Arc::new(Server::new());
    for index in 0..20_000 {
        server.line(&format!("SET stay:{index} v"));
    }
    let done = Arc::new(AtomicBool::new(false));
    let churn = {
        let (server, done) = (Arc::clone(&server), Arc::clone(&done));
        std::thread::spawn(move || {
            let mut wave = 0;
            while !done.load(Ordering::Relaxed) {
                for index in 0..40_000 {
                    server.line(&format!("SET go:{index} {wave}"));
                }
                for index in 0..40_000 {
                    server.line(&format!("DEL go:{index}"));
                }
                wave += 1;
            }
        })
    };
    for _ in 0..5 {
        let names = scan_all(&server, "COUNT 100 MATCH stay:*");
        assert_eq!(names.len(), 20_000);
    }
    done.store(true, Ordering::Relaxed);
    churn.join().expect("no panic");
}

#[test]
fn commands_of_many_lanes_are_atomic_across_shards() {
    let server = Arc::new(Server::new());
    server.line("MSET a 0 b 0 c 0 d 0");
    let writers: Vec<_> = (0..3)
        .map(|lane| {
            let server = Arc::clone(&server);
            std::thread::spawn(move || {
                for turn in 0..3_000 {
                    let value = format!("{lane}-{turn}");
                    let keys = if turn % 2 == 0 {
                        ["a", "b", "c", "d"]
                    } else {
                        ["d", "c", "b", "a"]
                    };
                    let [a, b, c, d] = keys;
                    server.line(&format!(
                        "MSET {a} {value} {b} {value} {c} {value} {d} {value}"
                    ));
                }
            })
        })
        .collect();
    while writers.iter().any(|writer| !writer.is_finished()) {
        let reply = server.line("MGET a b c d");
        let values: HashSet<&str> = reply.split("\r\n").skip(2).step_by(2).collect();
        assert_eq!(values.len(), 1, "{reply}");
    }
    writers
        .into_iter()
        .for_each(|writer| writer.join().expect("no panic"));
}

#[test]
fn several_commands_run_under_one_lock() {
    use tidewire_keyspace::{Outcome, ShardSet, resolve};
    use tidewire_resp::{ArgumentList, Writer};

    let keyspace = Keyspace::new(Default::default());
    let queued = [
        &["SET", "a", "1"][..],
        &["INCR", "b"],
        &["DBSIZE"],
        &["MGET", "a", "b"],
    ]
    .map(|words| words.iter().collect::<ArgumentList>());
    let commands = queued
        .each_ref()
        .map(|list| resolve(list.as_arguments()).expect("known"));
    let mut set = ShardSet::empty();
    for (command, list) in commands.iter().zip(&queued) {
        set.union(&keyspace.shards_of_queued(command, list.as_arguments()));
    }
    let mut reply = Vec::new();
    let mut locked = keyspace.lock(set);
    for (command, list) in commands.iter().zip(&queued) {
        let mut writer = Writer::new(&mut reply, Protocol::Resp2);
        let arguments = list.as_arguments();
        let outcome = keyspace.run_locked(
            &mut locked,
            command,
            arguments,
            0,
            NOW_MS,
            &mut writer,
            &mut NullObserver,
        );
        assert!(matches!(outcome, Outcome::Done));
    }
    assert_eq!(reply, b"+OK\r\n:1\r\n:2\r\n*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
}
