//! Sorted sets through the public interface: cases outside of the comparison with a real Redis.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::{Random, Server};
use tidewire_keyspace::{ClientTag, Event, Observer, Outcome, ValueRef, Waiter, resolve};
use tidewire_resp::{ArgumentList, Protocol, Value, Writer, decode};

/// Events of live keys, and waiting clients with the replies they received.
#[derive(Default)]
struct Notifications {
    events: Vec<(&'static str, String)>,
    served: Vec<(u64, String)>,
}

impl Observer for Notifications {
    fn changed(&mut self, _: usize, _: &[u8], event: Event, value: Option<ValueRef<'_>>) {
        let scores = value.and_then(|value| value.scored());
        let shown = scores.map_or(String::new(), |scores| format!("{scores:?}"));
        self.events.push((event.name(), shown));
    }

    fn served(&mut self, waiter: &Arc<Waiter>, reply: Vec<u8>, _: &Outcome) {
        let reply = String::from_utf8(reply).expect("the reply is text");
        self.served.push((waiter.client.client, reply));
    }
}

fn hear(server: &Server, line: &str) -> Notifications {
    let mut heard = Notifications::default();
    let words: Vec<&str> = line.split_whitespace().collect();
    server.run_observed(&words, &mut heard);
    heard
}

/// Runs a command that must wait.
fn wait(server: &Server, client: u64, line: &str) {
    let request: ArgumentList = line.split_whitespace().collect();
    let mut reply = Vec::new();
    let outcome = server.keyspace.execute_waiting(
        ClientTag { lane: 0, client },
        resolve(request.as_arguments()).expect("a command"),
        request.as_arguments(),
        0,
        server.now_ms,
        &mut Writer::new(&mut reply, Protocol::Resp2),
        &mut Notifications::default(),
    );
    assert!(matches!(outcome, Outcome::Waiting(_)), "{line}");
}

fn strings(reply: &[u8]) -> Vec<String> {
    let Ok(Some((Value::Array(parts), _))) = decode(reply) else {
        panic!("no array: {}", reply.escape_ascii())
    };
    let text = |part| match part {
        Value::Bulk(bytes) => String::from_utf8(bytes).expect("a test's member is text"),
        other => panic!("no text: {other:?}"),
    };
    parts.into_iter().map(text).collect()
}

fn encoding(server: &Server, key: &str) -> String {
    server.line(&format!("OBJECT ENCODING {key}"))
}

const LISTPACK: &str = "$8\r\nlistpack\r\n";
const SKIPLIST: &str = "$8\r\nskiplist\r\n";

#[test]
fn encodings_match_redis_8() {
    let server = Server::new();
    let add = |key: &str, count: usize| {
        for number in 0..count {
            server.line(&format!("ZADD {key} {number} m{number}"));
        }
    };
    add("z", 128);
    assert_eq!(encoding(&server, "z"), LISTPACK);
    server.line("ZADD z 5 m5");
    assert_eq!(encoding(&server, "z"), LISTPACK);
    server.line("ZADD z 5 one-more");
    assert_eq!(encoding(&server, "z"), SKIPLIST);
    server.line("ZREMRANGEBYRANK z 2 -1");
    assert_eq!(encoding(&server, "z"), SKIPLIST);
    server.line("ZUNIONSTORE union 1 z");
    server.line("ZRANGESTORE range z 0 -1");
    assert_eq!(encoding(&server, "union"), LISTPACK);
    assert_eq!(encoding(&server, "range"), LISTPACK);
    server.run(&["ZADD", "long", "1", &"x".repeat(64)]);
    assert_eq!(encoding(&server, "long"), LISTPACK);
    server.run(&["ZADD", "long", "1", &"x".repeat(65)]);
    assert_eq!(encoding(&server, "long"), SKIPLIST);
    server.line("COPY long copy");
    server.line("RENAME copy moved");
    assert_eq!(encoding(&server, "moved"), SKIPLIST);
    assert_eq!(server.line("ZCARD moved"), ":2\r\n");
    server.keyspace.set_sorted_set_limits(0, 64);
    server.line("ZADD never 1 a");
    assert_eq!(encoding(&server, "never"), SKIPLIST);
}

#[test]
fn resp3_has_doubles_and_pairs() {
    let mut server = Server::new();
    server.protocol = Protocol::Resp3;
    server.line("ZADD z 1.5 a 2 b 3 c");
    for (line, reply) in [
        ("ZSCORE z a", ",1.5\r\n"),
        ("ZADD z INCR 1 a", ",2.5\r\n"),
        ("ZADD z NX INCR 1 a", "_\r\n"),
        ("ZMSCORE z b x", "*2\r\n,2\r\n_\r\n"),
        ("ZRANK z a WITHSCORE", "*2\r\n:1\r\n,2.5\r\n"),
        ("ZRANK z x WITHSCORE", "_\r\n"),
        ("ZRANGE z 0 0 WITHSCORES", "*1\r\n*2\r\n$1\r\nb\r\n,2\r\n"),
        (
            "ZINTER 1 z WITHSCORES",
            "*3\r\n*2\r\n$1\r\nb\r\n,2\r\n*2\r\n$1\r\na\r\n,2.5\r\n*2\r\n$1\r\nc\r\n,3\r\n",
        ),
        ("BZPOPMIN z 0", "*3\r\n$1\r\nz\r\n$1\r\nb\r\n,2\r\n"),
        ("ZPOPMAX z", "*2\r\n$1\r\nc\r\n,3\r\n"),
        ("ZPOPMAX z 1", "*1\r\n*2\r\n$1\r\na\r\n,2.5\r\n"),
        ("ZPOPMAX z 1", "*0\r\n"),
        ("ZMPOP 1 z MIN", "_\r\n"),
    ] {
        assert_eq!(server.line(line), reply, "{line}");
    }
}

#[test]
fn every_change_has_the_event_of_redis() {
    let server = Server::new();
    let events = |line: &str| -> Vec<&'static str> {
        let heard = hear(&server, line).events;
        heard.into_iter().map(|(event, _)| event).collect()
    };
    let heard = hear(&server, "ZADD live:z 1 a 2 b 3 c 4 d").events;
    let last = heard.last().expect("a live key notifies");
    assert_eq!(last.0, "zadd");
    assert_eq!(last.1, "{\"a\": 1.0, \"b\": 2.0, \"c\": 3.0, \"d\": 4.0}");
    for (line, expected) in [
        ("ZADD live:z 1 a", &[][..]),
        ("ZADD live:z XX 1 x", &[]),
        ("ZADD live:z 1.5 a", &["zadd"]),
        ("ZINCRBY live:z 0 a", &[]),
        ("ZINCRBY live:z 1 a", &["zincr"]),
        ("ZREM live:z x", &[]),
        ("ZREM live:z a", &["zrem"]),
        ("ZREMRANGEBYSCORE live:z 2 2", &["zremrangebyscore"]),
        ("ZREMRANGEBYLEX live:z [x +", &[]),
        ("ZPOPMIN live:z", &["zpopmin"]),
        ("ZREMRANGEBYRANK live:z 0 -1", &["del"]),
        ("ZUNIONSTORE live:z 1 none", &[]),
    ] {
        assert_eq!(events(line), expected, "{line}");
    }
    server.line("ZADD z 1 a 2 b");
    assert_eq!(
        events("ZUNIONSTORE live:z 1 z").last(),
        Some(&"zunionstore")
    );
    assert_eq!(events("ZINTERSTORE live:z 1 z"), ["zinterstore"]);
    assert_eq!(events("ZRANGESTORE live:z z 0 -1"), ["zrangestore"]);
    assert_eq!(events("ZDIFFSTORE live:z 2 z z"), ["del"]);
    server.line("ZADD live:z 1 a");
    assert_eq!(events("ZMPOP 1 live:z MAX"), ["del"]);
}

#[test]
fn waiting_clients_are_served_in_order_of_arrival() {
    let server = Server::new();
    wait(&server, 1, "BZPOPMIN x z 0");
    wait(&server, 2, "BZPOPMAX z 0");
    wait(&server, 3, "BZMPOP 0 1 z MIN COUNT 5");
    wait(&server, 4, "BZPOPMIN z 0");
    assert_eq!(hear(&server, "SADD z a").served, []);
    server.line("DEL z");
    assert_eq!(
        hear(&server, "ZADD z 1 a 2 b 3 c 4 d").served,
        [
            (1, "*3\r\n$1\r\nz\r\n$1\r\na\r\n$1\r\n1\r\n".to_owned()),
            (2, "*3\r\n$1\r\nz\r\n$1\r\nd\r\n$1\r\n4\r\n".to_owned()),
            (
                3,
                "*2\r\n$1\r\nz\r\n*2\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n"
                    .to_owned()
            ),
        ]
    );
    assert_eq!(server.line("EXISTS z"), ":0\r\n");
    server.line("ZADD other 7 m");
    let served = hear(&server, "RENAME other z").served;
    assert_eq!(served.len(), 1);
    assert_eq!(served[0].0, 4);
}

#[test]
fn a_large_set_behaves_like_a_simple_model() {
    let server = Server::new();
    let mut random = Random(7);
    let mut model: BTreeMap<String, i64> = BTreeMap::new();
    for step in 0..6_000 {
        let member = format!("m{}", random.below(3_000));
        let score = random.below(500) as i64;
        if random.below(4) == 0 && step > 2_000 {
            server.line(&format!("ZREM z {member}"));
            model.remove(&member);
        } else {
            server.line(&format!("ZADD z {score} {member}"));
            model.insert(member, score);
        }
    }
    let mut ordered: Vec<_> = model.iter().map(|(m, s)| (*s, m.clone())).collect();
    ordered.sort();
    let names = |part: &[(i64, String)]| -> Vec<String> {
        part.iter().map(|(_, member)| member.clone()).collect()
    };
    let ask = |line: &str| strings(&server.run(&line.split(' ').collect::<Vec<_>>()));
    assert_eq!(ask("ZRANGE z 0 -1"), names(&ordered));
    let mut reversed = ordered.clone();
    reversed.reverse();
    assert_eq!(ask("ZREVRANGE z 0 -1"), names(&reversed));
    for _ in 0..200 {
        let (low, count) = (random.below(500) as i64, random.below(60));
        let high = low + random.below(20) as i64;
        let inside: Vec<_> = ordered
            .iter()
            .filter(|(score, _)| (low..=high).contains(score))
            .cloned()
            .collect();
        assert_eq!(
            server.line(&format!("ZCOUNT z {low} {high}")),
            format!(":{}\r\n", inside.len())
        );
        let shown = ask(&format!("ZRANGEBYSCORE z {low} {high} LIMIT 3 {count}"));
        let end = inside.len().min(3 + count);
        assert_eq!(shown, names(&inside[inside.len().min(3)..end]));
        let rank = random.below(ordered.len());
        let (score, member) = &ordered[rank];
        assert_eq!(
            server.line(&format!("ZRANK z {member}")),
            format!(":{rank}\r\n")
        );
        let text = score.to_string();
        assert_eq!(
            server.line(&format!("ZSCORE z {member}")),
            format!("${}\r\n{text}\r\n", text.len())
        );
    }
    assert_eq!(ask("ZPOPMIN z 500").len(), 1_000);
    assert_eq!(ask("ZRANGE z 0 -1"), names(&ordered[500..]));
}

#[test]
fn random_members_are_members() {
    let server = Server::new();
    for (key, count) in [("small", 20), ("large", 400)] {
        let all: BTreeSet<String> = (0..count).map(|number| format!("m{number}")).collect();
        for member in &all {
            server.line(&format!("ZADD {key} 1 {member}"));
        }
        for wanted in [1, 7, 19, 200, 1_000] {
            let drawn = strings(&server.run(&["ZRANDMEMBER", key, &wanted.to_string()]));
            let different: BTreeSet<_> = drawn.iter().cloned().collect();
            assert_eq!(drawn.len(), wanted.min(count));
            assert_eq!(different.len(), drawn.len());
            assert!(different.is_subset(&all));
        }
        let drawn = strings(&server.run(&["ZRANDMEMBER", key, "-900", "WITHSCORES"]));
        assert_eq!(drawn.len(), 1_800);
        let different: BTreeSet<_> = drawn.into_iter().step_by(2).collect();
        assert!(different.is_subset(&all) && different.len() > 15);
    }
    assert_eq!(server.line("ZRANDMEMBER none"), "$-1\r\n");
    assert_eq!(server.line("ZRANDMEMBER none 3"), "*0\r\n");
}

#[test]
fn a_scan_sees_every_permanent_member() {
    let server = Server::new();
    for number in 0..3_000 {
        server.line(&format!("ZADD z {number}.5 stays:{number} 1 goes:{number}"));
    }
    let (mut seen, mut cursor, mut step) = (BTreeMap::new(), "0".to_owned(), 0);
    loop {
        let reply = server.run(&["ZSCAN", "z", &cursor, "COUNT", "50"]);
        let Ok(Some((Value::Array(parts), _))) = decode(&reply) else {
            panic!("no scan")
        };
        let [Value::Bulk(next), Value::Array(found)] = &parts[..] else {
            panic!("no scan")
        };
        for pair in found.chunks(2) {
            let [Value::Bulk(member), Value::Bulk(score)] = pair else {
                panic!("no pair")
            };
            seen.insert(member.clone(), score.clone());
        }
        for number in step * 50..(step + 1) * 50 {
            server.line(&format!("ZREM z goes:{number}"));
        }
        step += 1;
        cursor = String::from_utf8(next.clone()).expect("a number");
        if cursor == "0" {
            break;
        }
    }
    for number in 0..3_000 {
        let score = seen.get(format!("stays:{number}").as_bytes());
        assert_eq!(score, Some(&format!("{number}.5").into_bytes()));
    }
}

/// The replies are Redis's.
#[test]
fn a_range_by_text_of_unequal_scores_is_what_redis_finds_in_a_small_set() {
    let server = Server::new();
    server.line("ZADD z -1 m12 -1 m3 1 m2 2 15 2 m13 4.55 13");
    for (line, reply) in [
        ("ZREMRANGEBYLEX z [m1 [m3", ":0"),
        ("ZLEXCOUNT z [1 [m2", ":1"),
        ("ZLEXCOUNT z - [m2", ":1"),
        ("ZLEXCOUNT z [1 +", ":6"),
        ("ZLEXCOUNT z [13 (m3", ":1"),
        ("ZLEXCOUNT z (m3 [m2", ":0"),
    ] {
        assert_eq!(server.line(line).trim_end(), reply, "{line}");
    }
}

/// The replies are those of Redis 8.6.3 and Valkey 9.1.2.
#[test]
fn a_negative_offset_selects_nothing_in_redis_and_counts_back_in_valkey() {
    let server = Server::new();
    for number in 200..400 {
        server.line(&format!("ZADD z 0 m{number}"));
    }
    for (line, member) in [
        ("ZRANGEBYLEX z - + LIMIT -1 -1", "m399"),
        ("ZRANGEBYSCORE z 0 0 LIMIT -1 -1", "m399"),
        ("ZRANGE z + - BYLEX REV LIMIT -1 -1", "m200"),
    ] {
        server.keyspace.set_follows_valkey(false);
        assert_eq!(server.line(line), "*0\r\n", "{line}");
        server.keyspace.set_follows_valkey(true);
        let reply = format!("*1\r\n$4\r\n{member}\r\n");
        assert_eq!(server.line(line), reply, "{line}");
    }
}
