//! Hashes through the public interface: encodings of Redis 8.

mod common;

use common::Server;

fn encoding(server: &Server, key: &str) -> String {
    let reply = server.line(&format!("OBJECT ENCODING {key}"));
    reply.split("\r\n").nth(1).unwrap_or_default().to_owned()
}

#[test]
fn encodings_match_redis_8() {
    let server = Server::new();
    server.keyspace.set_hash_limits(4, 8);
    server.line("HSET h a 1 b 2 c 3 d 4");
    assert_eq!(encoding(&server, "h"), "listpack");
    server.line("HSET h e 5");
    assert_eq!(encoding(&server, "h"), "hashtable");
    server.line("HDEL h a b c d");
    assert_eq!(encoding(&server, "h"), "hashtable");
    // More pairs than the limit, though all for one field.
    server.line("HSET same a 1 a 2 a 3 a 4 a 5");
    assert_eq!(encoding(&server, "same"), "hashtable");
    assert_eq!(server.line("HGETALL same"), "*2\r\n$1\r\na\r\n$1\r\n5\r\n");
    server.line("HSET long a 123456789");
    assert_eq!(encoding(&server, "long"), "hashtable");
    server.line("HSET name aaaaaaaaa 1");
    assert_eq!(encoding(&server, "name"), "hashtable");
    server.line("HSET sum a 99999999");
    assert_eq!(encoding(&server, "sum"), "listpack");
    server.line("HINCRBY sum a 1");
    assert_eq!(encoding(&server, "sum"), "hashtable");
}

#[test]
fn a_hash_keeps_its_room_for_ttls_when_its_encoding_changes() {
    let server = Server::new();
    server.keyspace.set_hash_limits(4, 64);
    server.line("HSET h a 1 b 2 c 3");
    // A TTL for a missing field still makes room for TTLs.
    server.line("HEXPIRE h 10 FIELDS 1 x");
    assert_eq!(encoding(&server, "h"), "listpackex");
    server.line("HEXPIRE h 10 FIELDS 2 c b");
    server.line("HPERSIST h FIELDS 1 b");
    // Fields with a TTL come first.
    let fields = "*3\r\n$1\r\nc\r\n$1\r\na\r\n$1\r\nb\r\n";
    assert_eq!(server.line("HKEYS h"), fields);
    server.line("HSET h d 4 e 5");
    assert_eq!(encoding(&server, "h"), "hashtable");
    assert_eq!(
        server.line("HTTL h FIELDS 3 c b e"),
        "*3\r\n:10\r\n:-1\r\n:-1\r\n"
    );
    assert_eq!(server.keyspace.timed_hashes(0), 1);
    server.line("HSET h c 1");
    assert_eq!(server.keyspace.timed_hashes(0), 0);
}
