//! DUMP and RESTORE: values that move to a real Redis and back, and refused payloads.

mod common;
#[path = "common/redis.rs"]
mod redis;

use common::{NOW_MS, Server};
use redis::Redis;
use tidewire_resp::{Value, decode};

/// Returns commands for values of every type and encoding, each under the key `k`.
fn values() -> Vec<Vec<Vec<String>>> {
    let line = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let many = |command: &str, count: usize, each: &dyn Fn(usize) -> Vec<String>| {
        let mut words = line(command);
        words.extend((0..count).flat_map(each));
        vec![words]
    };
    let text = |length: usize, at: usize| {
        let letter = |place: usize| char::from(b'a' + ((place * place * 7 + at) % 26) as u8);
        (0..length).map(letter).collect::<String>()
    };
    let mut values = vec![
        vec![vec!["SET".into(), "k".into(), String::new()]],
        vec![line("SET k 0")],
        vec![line("SET k -129")],
        vec![line("SET k 40000")],
        vec![line("SET k 2147483648")],
        vec![line("SET k -9223372036854775808")],
        vec![line("SET k 007")],
        vec![line("SET k 3.14")],
        vec![vec!["SET".into(), "k".into(), "tide".repeat(10_000)]],
        vec![vec!["SET".into(), "k".into(), text(70_000, 3)]],
        vec![line(
            "RPUSH k a 1 -1 127 128 4095 4096 -4097 70000 9223372036854775807 b",
        )],
        vec![line("SADD k 1 2 -3")],
        vec![line("SADD k 1 2 70000")],
        vec![line("SADD k 1 2 9223372036854775807")],
        vec![line("SADD k a 1 b 2")],
        vec![line("HSET k f v g 1 h -70000")],
        vec![line(
            "ZADD k 1 a 2.5 b -3 c inf d -inf e 1e300 f 0.1 g 1e20 h -0.0 i",
        )],
        vec![line("XADD k 1-1 a 1 b 2")],
    ];
    for length in [
        63, 64, 300, 4095, 4096, 8190, 16_377, 16_378, 16_379, 50_000,
    ] {
        let long = text(length, length);
        values.push(vec![
            vec!["RPUSH".into(), "k".into(), "first".into(), long.clone()],
            line("LPUSH k zero"),
        ]);
        values.push(vec![vec!["HSET".into(), "k".into(), "f".into(), long]]);
    }
    for count in [100, 127, 130, 600, 3000] {
        values.push(many("RPUSH k", count, &|at| vec![text(at % 40, at)]));
        values.push(many("SADD k", count, &|at| vec![(at * 77).to_string()]));
        values.push(many("SADD k", count, &|at| vec![format!("m{at}")]));
        values.push(many("HSET k", count, &|at| {
            vec![format!("f{at}"), text(at % 60, at)]
        }));
        values.push(many("ZADD k", count, &|at| {
            vec![format!("{}.5", at * 37 % 100), format!("m{at}")]
        }));
    }
    values.push(stream());
    values
}

/// Returns commands for a stream with several nodes, varying fields, a deleted entry, and groups.
fn stream() -> Vec<Vec<String>> {
    let line = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let mut lines: Vec<_> = (1..400)
        .map(|at| match at % 7 {
            0 => line(&format!("XADD k {at}-{} other {at} name {at}x", at % 3)),
            _ => line(&format!("XADD k {at}-5 price {at} size {}", at * 100_000)),
        })
        .collect();
    lines.extend(
        [
            "XDEL k 17-5 399-0",
            "XGROUP CREATE k g 0 ENTRIESREAD 3",
            "XGROUP CREATE k empty $",
            "XGROUP CREATECONSUMER k g idle",
            "XREADGROUP GROUP g one COUNT 10 STREAMS k >",
            "XREADGROUP GROUP g two COUNT 5 STREAMS k >",
            "XACK k g 3-5",
        ]
        .map(line),
    );
    lines
}

/// Returns everything visible of a value of a type, sorted where the order is undefined.
fn views(type_name: &str, mut run: impl FnMut(&[&str]) -> Vec<u8>) -> Vec<Value> {
    let lines: &[&str] = match type_name {
        "string" => &["TYPE k", "GET k", "STRLEN k"],
        "list" => &["TYPE k", "LRANGE k 0 -1", "LLEN k", "LINDEX k -1"],
        "set" => &["TYPE k", "SMEMBERS k", "SCARD k"],
        "hash" => &["TYPE k", "HGETALL k", "HLEN k"],
        "zset" => &["TYPE k", "ZRANGE k 0 -1 WITHSCORES", "ZCARD k"],
        _ => &[
            "TYPE k",
            "XRANGE k - +",
            "XINFO STREAM k",
            "XINFO GROUPS k",
            "XINFO CONSUMERS k g",
            "XPENDING k g - + 100",
        ],
    };
    let view = |line: &&str| {
        let words: Vec<_> = line.split(' ').collect();
        let mut value = read(&run(&words));
        let Value::Array(parts) = &mut value else {
            return value;
        };
        match words[..2] {
            ["SMEMBERS", _] => parts.sort_by_key(|part| format!("{part:?}")),
            ["HGETALL", _] => {
                let mut pairs: Vec<_> = parts.chunks(2).map(<[_]>::to_vec).collect();
                pairs.sort_by_key(|pair| format!("{pair:?}"));
                *parts = pairs.concat();
            }
            // The installed Redis formats scores with all their digits.
            ["ZRANGE", _] => {
                for part in parts.iter_mut().skip(1).step_by(2) {
                    if let Value::Bulk(text) = part {
                        let text = std::str::from_utf8(text).expect("a score");
                        let score: f64 = text.parse().expect("a score");
                        *part = Value::Bulk(score.to_string().into_bytes());
                    }
                }
            }
            // The shape of Redis's radix tree.
            ["XINFO", "STREAM"] => drop(parts.drain(2..6)),
            // Times that depend on the clock.
            ["XINFO", "CONSUMERS"] => parts.iter_mut().for_each(|part| truncate(part, 4)),
            ["XPENDING", _] => parts.iter_mut().for_each(|part| truncate(part, 2)),
            _ => {}
        }
        value
    };
    lines.iter().map(view).collect()
}

fn truncate(value: &mut Value, length: usize) {
    if let Value::Array(parts) = value {
        parts.truncate(length);
    }
}

fn read(reply: &[u8]) -> Value {
    decode(reply).expect("a reply").expect("a whole one").0
}

fn payload(reply: &[u8]) -> Vec<u8> {
    match read(reply) {
        Value::Bulk(payload) => payload,
        other => panic!("no payload: {other:?}"),
    }
}

#[test]
fn values_move_to_a_real_redis_and_back() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    for lines in values() {
        let server = Server::new();
        redis.run(&["FLUSHALL"]);
        for words in &lines {
            let (ours, theirs) = (server.run(words), redis.run(words));
            assert!(!ours.starts_with(b"-"), "{}", ours.escape_ascii());
            assert!(!theirs.starts_with(b"-"), "{}", theirs.escape_ascii());
        }
        let what = lines[0]
            .iter()
            .take(5)
            .cloned()
            .collect::<Vec<_>>()
            .join(" ");
        let Value::Simple(type_name) = read(&redis.run(&["TYPE", "k"])) else {
            panic!("no type")
        };
        let type_name = String::from_utf8(type_name).expect("text");
        let expected = views(&type_name, |words| redis.run(words));
        let shown = views(&type_name, |words| server.run(words));
        assert!(shown == expected, "ours: {what}: {shown:?} {expected:?}");

        let from_redis = payload(&redis.run(&["DUMP", "k"]));
        let restore = |payload: &[u8]| -> [Vec<u8>; 5] {
            [b"RESTORE", &b"k"[..], b"0", payload, b"REPLACE"].map(<[u8]>::to_vec)
        };
        let ours = Server::new();
        let reply = ours.run(&restore(&from_redis));
        assert_eq!(reply, b"+OK\r\n", "{what}: {}", reply.escape_ascii());
        let shown = views(&type_name, |words| ours.run(words));
        assert!(shown == expected, "from Redis: {what}");
        assert_eq!(
            ours.line("OBJECT ENCODING k"),
            server.line("OBJECT ENCODING k"),
            "{what}"
        );

        let from_ours = payload(&ours.run(&["DUMP", "k"]));
        assert!(from_ours.len() <= from_redis.len() * 5 / 4 + 20, "{what}");
        let reply = redis.run(&restore(&from_ours));
        assert_eq!(reply, b"+OK\r\n", "{what}: {}", reply.escape_ascii());
        let shown = views(&type_name, |words| redis.run(words));
        assert!(shown == expected, "from ours: {what}");
    }
}

#[test]
fn restore_sets_a_ttl_and_replaces_only_on_request() {
    let server = Server::new();
    server.line("SET from value");
    let payload = payload(&server.run(&["DUMP", "from"]));
    let restore = |key: &str, ttl: &str, options: &[&str]| {
        let mut words: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), &payload];
        words.extend(options.iter().map(|option| option.as_bytes()));
        String::from_utf8(server.run(&words)).expect("text")
    };
    assert_eq!(restore("to", "5000", &[]), "+OK\r\n");
    assert_eq!(server.line("PTTL to"), ":5000\r\n");
    assert_eq!(
        restore("to", "0", &[]),
        "-BUSYKEY Target key name already exists.\r\n"
    );
    assert_eq!(
        restore("to", "0", &["replace", "IDLETIME", "100"]),
        "+OK\r\n"
    );
    assert_eq!(server.line("PTTL to"), ":-1\r\n");
    let later = (NOW_MS + 9).to_string();
    assert_eq!(
        restore("to", &later, &["ABSTTL", "REPLACE", "FREQ", "255"]),
        "+OK\r\n"
    );
    assert_eq!(server.line("PEXPIRETIME to"), format!(":{later}\r\n"));
    // A key that has already expired is not created, and the replaced key is deleted.
    assert_eq!(restore("to", "1", &["ABSTTL", "REPLACE"]), "+OK\r\n");
    assert_eq!(server.line("EXISTS to"), ":0\r\n");
    for (ttl, options, error) in [
        ("x", &[][..], "value is not an integer or out of range"),
        ("-1", &[], "Invalid TTL value, must be >= 0"),
        (
            "9223372036854775807",
            &[],
            "Invalid TTL value, must be >= 0",
        ),
        (
            "0",
            &["IDLETIME", "-1"],
            "Invalid IDLETIME value, must be >= 0",
        ),
        (
            "0",
            &["FREQ", "256"],
            "Invalid FREQ value, must be >= 0 and <= 255",
        ),
        ("0", &["FREQ", "1", "IDLETIME", "1"], "syntax error"),
        ("0", &["IDLETIME"], "syntax error"),
        ("0", &["BOGUS"], "syntax error"),
    ] {
        assert_eq!(restore("to", ttl, options), format!("-ERR {error}\r\n"));
    }
    assert_eq!(server.line("EXISTS to"), ":0\r\n");
    assert_eq!(server.line("DUMP to"), "$-1\r\n");
}

#[test]
fn a_truncated_or_damaged_payload_creates_no_key() {
    let server = Server::new();
    server.line("RPUSH from a b c");
    let payload = payload(&server.run(&["DUMP", "from"]));
    let wrong = "-ERR DUMP payload version or checksum are wrong\r\n";
    let restore = |payload: &[u8]| {
        let reply = server.run(&[b"RESTORE", &b"to"[..], b"0", payload]);
        String::from_utf8(reply).expect("text")
    };
    for cut in 0..payload.len() {
        assert_eq!(restore(&payload[..cut]), wrong);
    }
    let mut damaged = payload.clone();
    for at in 0..payload.len() {
        damaged[at] ^= 4;
        assert_eq!(restore(&damaged), wrong);
        damaged[at] ^= 4;
    }
    assert_eq!(server.line("EXISTS to"), ":0\r\n");
    assert_eq!(restore(&payload), "+OK\r\n");
}

#[test]
fn a_payload_with_a_trusted_checksum_is_still_validated() {
    let server = Server::new();
    server.line("RPUSH from a b c");
    let payload = payload(&server.run(&["DUMP", "from"]));
    let restore = |payload: &[u8]| {
        let reply = server.run(&[b"RESTORE", &b"to"[..], b"0", payload, b"REPLACE"]);
        String::from_utf8(reply).expect("text")
    };
    server.keyspace.set_payload_trust(true);
    let end = payload.len();
    for at in 0..end {
        for bit in 0..8 {
            let mut damaged = payload.clone();
            damaged[at] ^= 1 << bit;
            let reply = restore(&damaged);
            let taken = ["+OK\r\n", "-ERR Bad data format\r\n"].contains(&reply.as_str());
            let newer = (end - 10..end - 8).contains(&at);
            assert!(taken || newer, "byte {at}, bit {bit}: {reply}");
            assert!(at < end - 8 || reply == "+OK\r\n", "the checksum: {reply}");
        }
    }
    server.keyspace.set_payload_trust(false);
    let mut damaged = payload;
    damaged[0] ^= 4;
    assert!(restore(&damaged).contains("checksum"));
}
