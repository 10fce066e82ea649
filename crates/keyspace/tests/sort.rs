//! SORT through the public interface: compared with a real Redis, and with STORE.

mod common;
#[path = "common/redis.rs"]
mod redis;

use common::{Random, Server};
use redis::Redis;

const SETUP: &[&str] = &[
    "RPUSH list 3 1 2 10 -4 2 0.5",
    "RPUSH words b a c B ab",
    "SADD set 5 3 9 1",
    "SADD names x y z",
    "SET w1 30",
    "SET w2 20",
    "SET w3 10",
    "SET w10 20",
    "SET wx nonsense",
    "SET wa zz",
    "SET wb aa",
    "SET tail:->",
    "HSET h1 weight 5 name one",
    "HSET h2 weight 4 name two",
    "HSET h3 weight inf",
    "HSET wy f v",
    "SET 1-> arrow",
    "SET text abc",
    "RPUSH plus .5 2. +1 -0",
    "RPUSH odd 1e2 . 5",
    "RPUSH special inf -inf 3 infinity",
    "RPUSH nan nan 1",
    "RPUSH pair a b c",
];

const KEYS: &[&str] = &[
    "list", "list", "words", "set", "names", "missing", "text", "h1", "plus", "odd", "special",
    "nan",
];

const OPTIONS: &[&str] = &[
    "ASC",
    "DESC",
    "ALPHA",
    "ALPHA",
    "LIMIT 1 2",
    "LIMIT 0 -1",
    "LIMIT -5 3",
    "LIMIT 2 100",
    "LIMIT 100 1",
    "LIMIT 9223372036854775807 9223372036854775807",
    "LIMIT 0 x",
    "LIMIT 1",
    "BY w*",
    "BY h*->weight",
    "BY *->",
    "BY missing-*",
    "GET #",
    "GET w*",
    "GET h*->name",
    "GET h*->missing",
    "GET *->",
    "GET text",
    "GET",
    "BOGUS",
    "STORE to",
    "STORE list2",
    "STORE STORE",
];

#[test]
fn random_sorts_get_the_replies_of_redis() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let server = Server::new();
    for line in SETUP {
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!(server.run(&words), redis.run(&words), "{line}");
    }
    let mut random = Random(7);
    for _ in 0..20_000 {
        let command = random.pick(&["SORT", "SORT", "SORT_RO"]);
        let mut words = vec![command, random.pick(KEYS)];
        let ordered = words[1] != "set" && words[1] != "names" && random.below(4) == 0;
        if ordered {
            // A set has no order of its own that could be compared.
            words.extend(["BY", "nosort"]);
        }
        for _ in 0..random.below(4) {
            words.extend(random.pick(OPTIONS).split(' '));
        }
        if words.contains(&"ALPHA") && words.contains(&"BY") && !ordered {
            // The order of elements with equal sort keys is undefined.
            words.truncate(2);
            words[1] = "pair";
            words.extend(["ALPHA", random.pick(&["ASC", "DESC"]), "BY", "w*"]);
        }
        let (expected, actual) = (redis.run(&words), server.run(&words));
        let text = |reply: &[u8]| reply.escape_ascii().to_string();
        assert_eq!(text(&actual), text(&expected), "{}", words.join(" "));
        let stored = ["LRANGE", random.pick(&["to", "list2", "STORE"]), "0", "-1"];
        assert_eq!(
            text(&server.run(&stored)),
            text(&redis.run(&stored)),
            "{}",
            words.join(" ")
        );
    }
}

#[test]
fn a_stored_result_replaces_any_value() {
    let server = Server::new();
    server.line("RPUSH list 2 1");
    server.line("SET to text EX 100");
    assert_eq!(server.line("SORT list STORE to"), ":2\r\n");
    assert_eq!(
        server.line("LRANGE to 0 -1"),
        "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
    );
    assert_eq!(server.line("TTL to"), ":-1\r\n");
    assert_eq!(server.line("SORT missing STORE to"), ":0\r\n");
    assert_eq!(server.line("EXISTS to"), ":0\r\n");
    // The destination is also the source.
    assert_eq!(server.line("SORT list GET # GET w* STORE list"), ":4\r\n");
    assert_eq!(server.line("LINDEX list 1"), "$0\r\n\r\n");
}

#[test]
fn getkeys_finds_the_keys_that_it_can() {
    let server = Server::new();
    for (line, keys) in [
        ("COMMAND GETKEYS SORT abc STORE def", &["abc", "def"][..]),
        (
            "COMMAND GETKEYS SORT abc STORE invalid STORE stillbad STORE def",
            &["abc", "def"],
        ),
        ("COMMAND GETKEYS SORT_RO abc BY w*", &["abc"]),
    ] {
        let mut reply = format!("*{}\r\n", keys.len());
        for key in keys {
            reply += &format!("${}\r\n{key}\r\n", key.len());
        }
        assert_eq!(server.line(line), reply);
    }
}
