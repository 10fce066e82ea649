//! Compares replies to random commands with those of a real Redis, byte for byte.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Random, Server, sorted_sets};
use tidewire_keyspace::Options;
use tidewire_resp::{Protocol, Value, decode, write_request};

/// Few names, so that commands use each other's values.
const KEYS: &[&str] = &[
    "a",
    "b",
    "c",
    "{d}",
    "long-key-with-more-than-sixteen-bytes",
    "",
];
const FIELDS: &[&str] = &[
    "f",
    "g",
    "h",
    "i",
    "j",
    "k",
    "l",
    "m",
    "n",
    "o",
    "field-with-more-bytes",
];
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "10",
    "007",
    "-0",
    "+5",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "3.14",
    "1e3",
    "-2.5e-3",
    "0.1",
    "12345.1",
    "abc",
    "",
    " 1",
    "nan",
    "inf",
    "exactly-forty-four-bytes-of-text-for-embstr!",
    "exactly-forty-five-bytes-of-text-for-embstr!!",
    "a value of seventeen",
    "hello world",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "5",
    "-5",
    "100",
    "9223372036854775807",
    "-9223372036854775808",
    "x",
    "1.5",
];
/// Deadlines, absolute: just past, far in the future, and invalid.
const TIMES: &[&str] = &[
    "1000",
    "4102444800",
    "4102444801",
    "0",
    "-1",
    "x",
    "9223372036854775807",
];

#[test]
fn random_commands_get_the_replies_of_redis() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    for (seed, protocol) in [
        (1u64, Protocol::Resp2),
        (2, Protocol::Resp3),
        (3, Protocol::Resp2),
    ] {
        redis.hello(protocol);
        redis.call(&["FLUSHALL"]);
        let mut server = Server::with(Options {
            hash_listpack_entries_max: 8,
            hash_listpack_value_bytes_max: 18,
            set_intset_entries_max: 5,
            // The installed Redis does not encode sets as listpacks.
            set_listpack_entries_max: 0,
            list_listpack_size: [3, -2, 1][seed as usize % 3],
            ..Options::default()
        });
        server.protocol = protocol;
        let mut random = Random(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(seed));
        let mut history = Vec::new();
        for _ in 0..15_000 {
            let words = command(&mut random);
            history.push(words.join(" "));
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("after 1970");
            server.now_ms = now.as_millis() as i64;
            if words[0] == "DBSIZE" {
                // It is undefined when exactly an expired key stops counting.
                let touch: Vec<&str> = ["TOUCH"].iter().chain(KEYS).copied().collect();
                redis.call(&touch);
                server.run(&touch);
            }
            let expected = redis.call(&words);
            let actual = server.run(&words);
            if !same(&words, &expected, &actual) {
                let from = history.len().saturating_sub(25);
                panic!(
                    "seed {seed}, {protocol:?}\n{}\nRedis: {}\nours:  {}",
                    history[from..].join("\n"),
                    expected.escape_ascii(),
                    actual.escape_ascii(),
                );
            }
        }
    }
}

/// Compares two replies. Ignores an undefined order, and small differences between TTLs relative to
/// two clocks.
fn same(words: &[String], expected: &[u8], actual: &[u8]) -> bool {
    if words[0].ends_with("EXPIRETIME")
        && let (Ok(Some((Value::Integer(expected), _))), Ok(Some((Value::Integer(actual), _)))) =
            (decode(expected), decode(actual))
    {
        let apart = if words[0] == "EXPIRETIME" { 1 } else { 500 };
        return expected.abs_diff(actual) <= apart;
    }
    // The installed Redis does not encode lists as listpacks.
    if words[0] == "OBJECT" && expected == b"$9\r\nquicklist\r\n" {
        return actual == expected || actual == b"$8\r\nlistpack\r\n";
    }
    let lines = |reply: &[u8]| {
        let mut lines: Vec<_> = reply
            .split(|&byte| byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        lines.sort();
        lines
    };
    let unordered = [
        "KEYS",
        "HGETALL",
        "HKEYS",
        "HVALS",
        "SCAN",
        "HSCAN",
        "HRANDFIELD",
        "SMEMBERS",
        "SINTER",
        "SUNION",
        "SDIFF",
        "SSCAN",
        "SPOP",
        "SRANDMEMBER",
    ];
    expected == actual || unordered.contains(&words[0].as_str()) && lines(expected) == lines(actual)
}

fn command(random: &mut Random) -> Vec<String> {
    const FORMS: &[&str] = &[
        "GET K",
        "SET K V",
        "SET K V",
        "SET K V NX",
        "SET K V XX",
        "SET K V GET",
        "SET K V NX GET",
        "SET K V XX GET",
        "SET K V KEEPTTL",
        "SET K V EXAT L",
        "SET K V PXAT L XX",
        "SET K V EX L",
        "SET K V EX L KEEPTTL",
        "SET K V NX XX",
        "SET K V EX",
        "SET K V BOGUS",
        "SETNX K V",
        "SETEX K L V",
        "PSETEX K L V",
        "GETSET K V",
        "GETDEL K",
        "GETEX K",
        "GETEX K PERSIST",
        "GETEX K EXAT T",
        "GETEX K PXAT T PERSIST",
        "MGET K K K",
        "MSET K V K V",
        "MSET K V K",
        "MSETNX K V K V",
        "APPEND K V",
        "APPEND K V",
        "STRLEN K",
        "GETRANGE K N N",
        "SUBSTR K N N",
        "SETRANGE K S V",
        "SETRANGE K S V",
        "INCR K",
        "DECR K",
        "INCRBY K N",
        "DECRBY K N",
        "INCRBYFLOAT K V",
        "INCRBYFLOAT K N",
        "LCS K K",
        "LCS K K LEN",
        "LCS K K IDX",
        "LCS K K IDX WITHMATCHLEN MINMATCHLEN S",
        "LCS K K LEN IDX",
        "DEL K",
        "DEL K K",
        "UNLINK K",
        "EXISTS K K",
        "TYPE K",
        "TOUCH K K",
        "RENAME K K",
        "RENAMENX K K",
        "COPY K K",
        "COPY K K REPLACE",
        "COPY K K DB S",
        "COPY K K DB N",
        "OBJECT ENCODING K",
        "OBJECT FREQ K",
        "OBJECT BOGUS K",
        "OBJECT",
        "OBJECT ENCODING",
        "EXPIREAT K T",
        "PEXPIREAT K T",
        "EXPIREAT K T NX",
        "EXPIREAT K T XX",
        "EXPIREAT K T GT",
        "EXPIREAT K T LT",
        "EXPIREAT K T NX GT",
        "EXPIREAT K T GT LT",
        "EXPIREAT K T BOGUS",
        "EXPIRE K N",
        "EXPIRETIME K",
        "PEXPIRETIME K",
        "PERSIST K",
        "KEYS *",
        "KEYS *[a-c]*",
        "DBSIZE",
        "MOVE K S",
        "MOVE K N",
        "SWAPDB 0 N",
        "SWAPDB x 0",
        "FLUSHDB BOGUS",
        "NOSUCH K V",
        "HSET K F V",
        "HSET K F V F V",
        "HSET K F V F V",
        "HSET K F V F",
        "HMSET K F V F V",
        "HSETNX K F V",
        "HGET K F",
        "HMGET K F F F",
        "HGETALL K",
        "HDEL K F",
        "HDEL K F F F",
        "HLEN K",
        "HEXISTS K F",
        "HKEYS K",
        "HVALS K",
        "HSTRLEN K F",
        "HINCRBY K F N",
        "HINCRBYFLOAT K F V",
        "HRANDFIELD K N BOGUS",
        "HRANDFIELD K 100",
        "HRANDFIELD K 100 WITHVALUES",
        "HRANDFIELD K 0",
        "HRANDFIELD K -9223372036854775808 WITHVALUES",
        "HSCAN K 0 COUNT 1000",
        "HSCAN K 0 COUNT 1000 MATCH ?",
        "HSCAN K x",
        "LPUSH K M",
        "LPUSH K V M M",
        "RPUSH K M",
        "RPUSH K M M M M",
        "RPUSH K V V I",
        "LPUSHX K M",
        "RPUSHX K M V",
        "LPOP K",
        "RPOP K",
        "LPOP K S",
        "RPOP K S",
        "LPOP K x",
        "LPOP K 1 1",
        "LLEN K",
        "LRANGE K 0 -1",
        "LRANGE K S S",
        "LRANGE K N N",
        "LINDEX K S",
        "LINDEX K N",
        "LSET K S M",
        "LSET K N V",
        "LINSERT K BEFORE M M",
        "LINSERT K AFTER M V",
        "LINSERT K BOGUS M V",
        "LREM K S M",
        "LREM K 0 M",
        "LREM K -2 M",
        "LREM K x M",
        "LTRIM K 0 -1",
        "LTRIM K S -1",
        "LTRIM K 0 8",
        "LTRIM K N N",
        "LPOS K M",
        "LPOS K M RANK S",
        "LPOS K M RANK -2 COUNT S",
        "LPOS K M COUNT S MAXLEN S",
        "LPOS K M RANK -1 COUNT 0 MAXLEN S",
        "LPOS K M RANK x",
        "LPOS K M COUNT N",
        "LPOS K M MAXLEN N",
        "LPOS K M RANK",
        "LPOS K M BOGUS 1",
        "LMOVE K K LEFT LEFT",
        "LMOVE K K LEFT RIGHT",
        "LMOVE K K RIGHT LEFT",
        "LMOVE K K RIGHT RIGHT",
        "LMOVE K K BOGUS RIGHT",
        "RPOPLPUSH K K",
        "LMPOP 1 K LEFT",
        "LMPOP 2 K K RIGHT",
        "LMPOP 2 K K LEFT COUNT S",
        "LMPOP 3 K K LEFT",
        "LMPOP N K LEFT",
        "LMPOP 1 K LEFT COUNT N",
        "LMPOP 1 K LEFT COUNT 1 COUNT 1",
        "LMPOP 1 K LEFT BOGUS 1",
        "LMPOP 1 K BOGUS",
        "SCAN 0 COUNT 100000 TYPE list",
        "SADD K M",
        "SADD K M M",
        "SADD K M M M M",
        "SADD K I I I",
        "SADD K I I I I I",
        "SADD K V F",
        "SREM K M",
        "SREM K M M M",
        "SREM K I I",
        "SISMEMBER K M",
        "SMISMEMBER K M I F",
        "SMEMBERS K",
        "SCARD K",
        "SMOVE K K M",
        "SMOVE K K I",
        "SINTER K",
        "SINTER K K",
        "SINTER K K K",
        "SINTERSTORE K K K",
        "SINTERSTORE K K",
        "SINTERCARD 1 K",
        "SINTERCARD 2 K K",
        "SINTERCARD 2 K K LIMIT S",
        "SINTERCARD 3 K K",
        "SINTERCARD N K K",
        "SINTERCARD 1 K LIMIT",
        "SINTERCARD 1 K BOGUS 1",
        "SINTERCARD 2 K K LIMIT x",
        "SUNION K K",
        "SUNION K K K",
        "SUNIONSTORE K K K",
        "SUNIONSTORE K K",
        "SDIFF K K",
        "SDIFF K K K",
        "SDIFFSTORE K K K",
        "SDIFFSTORE K K",
        "SPOP K 100",
        "SPOP K 0",
        "SPOP K -1",
        "SPOP K x",
        "SPOP K 1 1",
        "SRANDMEMBER K 100",
        "SRANDMEMBER K 0",
        "SRANDMEMBER K x",
        "SRANDMEMBER K -9223372036854775808",
        "SRANDMEMBER K 1 1",
        "SSCAN K 0 COUNT 1000",
        "SSCAN K 0 COUNT 1000 MATCH ?",
        "SSCAN K 0 TYPE set",
        "SSCAN K x",
        "HSCAN K 0 BOGUS",
        "OBJECT ENCODING K",
        "SCAN 0 COUNT 100000",
        "SCAN 0 COUNT 100000 TYPE set",
        "SCAN 0 COUNT 100000 TYPE hash",
        "SCAN 0 COUNT 0",
        "SCAN x",
        "SCAN 0 COUNT 100000 MATCH ?",
        "GET",
        "GET K K",
    ];
    let form = random.pick(FORMS);
    form.split(' ')
        .map(|word| match word {
            "K" => random.pick(KEYS),
            "F" => random.pick(FIELDS),
            "V" => random.pick(VALUES),
            "M" => random.pick(&["a", "b", "1", "2", "3", "-7", "007", "", "x y", "70000"]),
            "I" => random.pick(&[
                "1",
                "2",
                "3",
                "4",
                "5",
                "-7",
                "70000",
                "9223372036854775807",
            ]),
            "N" => random.pick(NUMBERS),
            "T" => random.pick(TIMES),
            // DBSIZE may still count a key whose TTL has just expired.
            "L" => random.pick(&TIMES[1..]),
            "S" => random.pick(&["0", "1", "2", "3", "12", "-1"]),
            word => word,
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn random_commands_on_sorted_sets_get_the_replies_of_redis() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let modern = redis.call(&["INFO", "server"]);
    let modern = !String::from_utf8_lossy(&modern).contains("redis_version:7.0");
    for (seed, protocol) in [(4u64, Protocol::Resp2), (5, Protocol::Resp3)] {
        redis.hello(protocol);
        redis.call(&["FLUSHALL"]);
        let mut server = Server::with(Options {
            zset_listpack_entries_max: 8,
            zset_listpack_value_bytes_max: 18,
            // Redis 7.0 does not encode sets as listpacks.
            set_listpack_entries_max: if modern { 128 } else { 0 },
            ..Options::default()
        });
        server.protocol = protocol;
        let mut random = Random(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(seed));
        let mut history = Vec::new();
        for _ in 0..20_000 {
            let words = sorted_sets::command(&mut random, modern);
            history.push(words.join(" "));
            let (expected, actual) = (redis.call(&words), server.run(&words));
            let unordered = sorted_sets::UNORDERED.contains(&words[0].as_str());
            let alike = match unordered {
                true => sorted(&expected) == sorted(&actual),
                false => expected == actual || lines(&expected).eq(lines(&actual)),
            };
            if !alike {
                let from = history.len().saturating_sub(25);
                panic!(
                    "seed {seed}, {protocol:?}\n{}\nRedis: {}\nours:  {}",
                    history[from..].join("\n"),
                    expected.escape_ascii(),
                    actual.escape_ascii(),
                );
            }
        }
    }
}

/// Returns the sorted lines of a reply with undefined order.
fn sorted(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = lines(reply).collect();
    lines.sort_unstable();
    lines
}

/// Returns the lines of a reply without lengths. Redis does not always find the shortest text of a
/// double with many digits, so those are compared as numbers. Minus zero loses its sign in a
/// listpack, so the sign depends on the history of the set.
fn lines(reply: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let lines = reply.split(|&byte| byte == b'\n');
    lines.filter(|line| !line.starts_with(b"$")).map(|line| {
        let text = line.strip_prefix(b",").unwrap_or(line).trim_ascii();
        let number = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse::<f64>().ok());
        match number.filter(|number| number.abs() > 1e15 || text.len() > 16) {
            Some(number) => number.to_string().into_bytes(),
            None if text == b"-0" => b"0".to_vec(),
            None => text.to_vec(),
        }
    })
}

/// A real Redis on this machine, on the loopback interface, without files.
struct Redis {
    process: Child,
    stream: TcpStream,
}

impl Redis {
    /// Starts the program named by the environment, or the one in the path.
    fn start() -> Option<Redis> {
        let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free loopback port").port();
        let started = Command::new(program)
            .args([
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--port",
            ])
            .arg(port.to_string())
            .args([
                "--hash-max-listpack-entries",
                "8",
                "--hash-max-listpack-value",
                "18",
                "--set-max-intset-entries",
                "5",
                "--zset-max-listpack-entries",
                "8",
                "--zset-max-listpack-value",
                "18",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = started else {
            eprintln!("skipped: there is no redis-server on PATH");
            return None;
        };
        for _ in 0..200 {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                stream.set_nodelay(true).expect("a TCP socket");
                return Some(Redis { process, stream });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("redis-server does not listen");
    }

    fn hello(&mut self, protocol: Protocol) {
        self.call(&[
            "HELLO",
            if protocol == Protocol::Resp2 {
                "2"
            } else {
                "3"
            },
        ]);
    }

    fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Vec<u8> {
        let mut request = Vec::new();
        write_request(&mut request, words);
        self.stream.write_all(&request).expect("Redis reads");
        let mut reply = Vec::new();
        let mut chunk = [0; 65_536];
        loop {
            let count = self.stream.read(&mut chunk).expect("Redis replies");
            assert!(count > 0, "Redis hung up");
            reply.extend_from_slice(&chunk[..count]);
            if decode(&reply).expect("Redis speaks RESP").is_some() {
                return reply;
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn command_declarations_match_redis() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let server = Server::new();
    let describe = |reply: &[u8]| {
        let Ok(Some((Value::Array(described), _))) = decode(reply) else {
            panic!("no array")
        };
        let Some(Value::Array(mut parts)) = described.into_iter().next() else {
            return None;
        };
        // Tips are left out: they are advice for cluster clients.
        parts[7] = Value::Integer(0);
        parts[9] = Value::Integer(0);
        for part in &mut parts {
            unorder(part);
        }
        Some(parts)
    };
    let names = |server: &Server| {
        let Ok(Some((Value::Array(names), _))) =
            decode(&server.run(&["COMMAND", "LIST", "FILTERBY", "PATTERN", "*"]))
        else {
            panic!("no array")
        };
        names
    };
    // Differences of versions later than the installed one.
    let information = redis.call(&["INFO", "server"]);
    let is_old = String::from_utf8_lossy(&information).contains("redis_version:7.");
    let later: &[&str] = if is_old {
        LATER_THAN_7_0
    } else {
        LATER_THAN_8_0
    };
    let mut different = Vec::new();
    for name in names(&server) {
        let Value::Bulk(name) = name else {
            panic!("no name")
        };
        let name = String::from_utf8(name).expect("text");
        if later.contains(&name.as_str()) {
            continue;
        }
        let words = ["COMMAND", "INFO", &name];
        let (theirs, ours) = (describe(&redis.call(&words)), describe(&server.run(&words)));
        if ours != theirs {
            different.push(format!("{name}: {ours:?}, Redis: {theirs:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    for line in [
        "COMMAND GETKEYS MSET a 1 b 2",
        "COMMAND GETKEYS OBJECT ENCODING k",
        "COMMAND GETKEYS COPY a b",
        "COMMAND GETKEYS PING x",
        "COMMAND GETKEYS NOSUCH x",
        "COMMAND GETKEYS MSET a",
        "COMMAND GETKEYSANDFLAGS RENAME a b",
        "COMMAND GETKEYSANDFLAGS SINTERCARD 2 a b LIMIT 3",
        "COMMAND GETKEYSANDFLAGS SUNIONSTORE a b c",
        "COMMAND GETKEYSANDFLAGS LMPOP 2 a b LEFT",
        "COMMAND GETKEYSANDFLAGS LMOVE a b LEFT RIGHT",
        "COMMAND GETKEYS SINTERCARD 2 a b",
        "COMMAND GETKEYS SINTERCARD 0 a",
        "COMMAND GETKEYS SINTERCARD -1 a",
        "COMMAND GETKEYS SINTERCARD x a",
        "COMMAND GETKEYS SINTERCARD 3 a b",
        "COMMAND GETKEYS SINTERCARD 9223372036854775807 a b",
        "COMMAND INFO nosuch",
        "COMMAND DOCS nosuch",
        "COMMAND COUNT x",
        "COMMAND BOGUS",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let (theirs, ours) = (redis.call(&words), server.run(&words));
        assert_eq!(
            ours.escape_ascii().to_string(),
            theirs.escape_ascii().to_string(),
            "{line}"
        );
    }
}

/// Sorts the elements of sets, and drops the notes in Redis's key specifications.
fn unorder(value: &mut Value) {
    let Value::Array(parts) = value else { return };
    parts.iter_mut().for_each(unorder);
    if let Some(at) = parts
        .iter()
        .position(|part| *part == Value::Bulk(b"notes".to_vec()))
    {
        parts.drain(at..at + 2);
    }
    if parts.iter().all(|part| matches!(part, Value::Simple(_))) {
        parts.sort_by_key(|part| format!("{part:?}"));
    }
}

/// Commands that Redis 8.0 lacks.
const LATER_THAN_8_0: &[&str] = &[
    "tidewire.book",
    "tidewire.keys",
    "tidewire.top",
    "xackdel",
    "xdelex",
];

/// Commands that Redis 7.0 lacks or declares differently.
const LATER_THAN_7_0: &[&str] = &[
    "cluster|myshardid",
    "cluster|shards",
    "cluster|slots",
    "migrate",
    "tidewire.book",
    "tidewire.keys",
    "tidewire.top",
    "blmove",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzpopmax",
    "bzpopmin",
    "client|no-touch",
    "client|setinfo",
    "command|getkeys",
    "command|getkeysandflags",
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hgetdel",
    "hgetex",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "hsetex",
    "httl",
    "sinterstore",
    "wait",
    "waitaof",
    "xackdel",
    "xdelex",
    "zrank",
    "zrevrank",
];
