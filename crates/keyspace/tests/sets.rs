//! Sets through the public interface: behaviour of Redis 8 that the installed Redis lacks, and
//! random members.

mod common;

use std::collections::BTreeSet;

use common::Server;
use tidewire_resp::{Protocol, Value, decode};

fn members(reply: &[u8]) -> Vec<String> {
    let Ok(Some((Value::Array(parts) | Value::Set(parts), _))) = decode(reply) else {
        panic!("no members: {}", reply.escape_ascii())
    };
    let text = |part| match part {
        Value::Bulk(bytes) => String::from_utf8(bytes).expect("a test's member is text"),
        other => panic!("no member: {other:?}"),
    };
    parts.into_iter().map(text).collect()
}

fn encoding(server: &Server, key: &str) -> String {
    server.line(&format!("OBJECT ENCODING {key}"))
}

const INTSET: &str = "$6\r\nintset\r\n";
const LISTPACK: &str = "$8\r\nlistpack\r\n";
const HASHTABLE: &str = "$9\r\nhashtable\r\n";

#[test]
fn encodings_match_redis_8() {
    let server = Server::new();
    server.line("SADD s 1 2 3");
    assert_eq!(encoding(&server, "s"), INTSET);
    server.line("SADD s x");
    assert_eq!(encoding(&server, "s"), LISTPACK);
    server.run(&["SADD", "s", &"y".repeat(65)]);
    assert_eq!(encoding(&server, "s"), HASHTABLE);
    assert_eq!(members(&server.run(&["SMEMBERS", "s"])).len(), 5);
    server.line("SADD mixed x 1");
    assert_eq!(encoding(&server, "mixed"), LISTPACK);
    server.line("SADD numbers 1 2 3");
    server.line("SADD other 3 4 x");
    server.line("SINTERSTORE both other numbers");
    assert_eq!(encoding(&server, "both"), INTSET);
    server.line("SUNIONSTORE all other numbers");
    assert_eq!(encoding(&server, "all"), LISTPACK);
    server.line("COPY all copy");
    server.line("RENAME copy moved");
    assert_eq!(encoding(&server, "moved"), LISTPACK);
    server.line("MOVE s 3");
    assert_eq!(
        (server.line("TYPE moved"), server.line("TYPE s")),
        ("+set\r\n".into(), "+none\r\n".into())
    );
    server.keyspace.set_set_limits(2, 2, 64);
    server.line("SADD few 1 2 3");
    assert_eq!(encoding(&server, "few"), HASHTABLE);
}

#[test]
fn random_members_are_members() {
    let server = Server::new();
    for (key, names) in [("small", 20), ("large", 300), ("integers", 300)] {
        let all: Vec<String> = match key {
            "integers" => (0..names).map(|number| number.to_string()).collect(),
            _ => (0..names).map(|number| format!("m{number}")).collect(),
        };
        let mut words = vec!["SADD".to_owned(), key.to_owned()];
        words.extend(all.iter().cloned());
        server.run(&words);
        let all: BTreeSet<String> = all.into_iter().collect();
        for count in [1, 7, 19, names, 1_000] {
            let drawn = members(&server.run(&["SRANDMEMBER", key, &count.to_string()]));
            let different: BTreeSet<_> = drawn.iter().cloned().collect();
            assert_eq!(drawn.len(), count.min(names));
            assert_eq!(different.len(), drawn.len());
            assert!(different.is_subset(&all));
        }
        let drawn = members(&server.run(&["SRANDMEMBER", key, "-1000"]));
        assert_eq!(drawn.len(), 1_000);
        let different: BTreeSet<_> = drawn.into_iter().collect();
        assert!(different.is_subset(&all) && different.len() > 15);
        let mut popped = BTreeSet::new();
        for count in ["3", "11", "1"] {
            popped.extend(members(&server.run(&["SPOP", key, count])));
        }
        let Ok(Some((Value::Bulk(one), _))) = decode(&server.run(&["SPOP", key])) else {
            panic!("no member")
        };
        popped.insert(String::from_utf8(one).expect("text"));
        assert_eq!(popped.len(), 16);
        let left: BTreeSet<_> = members(&server.run(&["SMEMBERS", key]))
            .into_iter()
            .collect();
        assert!(left.is_disjoint(&popped));
        assert_eq!(left.len() + popped.len(), names);
        let rest: BTreeSet<_> = members(&server.run(&["SPOP", key, "1000"]))
            .into_iter()
            .collect();
        assert_eq!(rest, left);
        assert_eq!(server.line(&format!("EXISTS {key}")), ":0\r\n");
    }
    assert_eq!(server.line("SPOP none"), "$-1\r\n");
    assert_eq!(server.line("SRANDMEMBER none"), "$-1\r\n");
}

#[test]
fn resp3_has_sets() {
    let mut server = Server::new();
    server.protocol = Protocol::Resp3;
    server.line("SADD s 1");
    assert_eq!(server.line("SMEMBERS s"), "~1\r\n$1\r\n1\r\n");
    assert_eq!(server.line("SRANDMEMBER s 1"), "*1\r\n$1\r\n1\r\n");
    assert_eq!(server.line("SRANDMEMBER none 1"), "*0\r\n");
    assert_eq!(server.line("SPOP s 1"), "~1\r\n$1\r\n1\r\n");
    assert_eq!(server.line("SPOP s"), "_\r\n");
}

#[test]
fn a_scan_sees_every_permanent_member() {
    let server = Server::new();
    for number in 0..5_000 {
        server.line(&format!("SADD s stays:{number} goes:{number}"));
    }
    let (mut seen, mut cursor, mut step) = (BTreeSet::new(), "0".to_owned(), 0);
    loop {
        let reply = server.run(&["SSCAN", "s", &cursor, "COUNT", "50"]);
        let Ok(Some((Value::Array(parts), _))) = decode(&reply) else {
            panic!("no scan")
        };
        let [Value::Bulk(next), Value::Array(found)] = &parts[..] else {
            panic!("no scan")
        };
        seen.extend(found.iter().map(|member| format!("{member:?}")));
        for number in step * 50..(step + 1) * 50 {
            server.line(&format!("SREM s goes:{number}"));
        }
        step += 1;
        cursor = String::from_utf8(next.clone()).expect("a number");
        if cursor == "0" {
            break;
        }
    }
    for number in 0..5_000 {
        let member = Value::Bulk(format!("stays:{number}").into_bytes());
        assert!(seen.contains(&format!("{member:?}")), "{number}");
    }
}
