//! HyperLogLogs through the public interface: values that move between servers, and broken ones.

mod common;

use common::Server;
use tidewire_keyspace::Options;

const NOT_ONE: &str = "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n";
const CORRUPT: &str = "-INVALIDOBJ Corrupted HLL object detected\r\n";

fn add(server: &Server, key: &str, elements: std::ops::Range<usize>) {
    let mut words = vec!["PFADD".to_owned(), key.to_owned()];
    words.extend(elements.map(|element| format!("element:{element}")));
    server.run(&words);
}

fn count(server: &Server, keys: &str) -> i64 {
    let reply = server.line(&format!("PFCOUNT {keys}"));
    reply[1..reply.len() - 2].parse().expect("a number")
}

#[test]
fn the_bytes_match_redis() {
    let server = Server::new();
    server.line("PFADD h a b c");
    assert_eq!(
        server.run(&["GET", "h"]),
        b"$27\r\nHYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\
          \x60\xF3\x80\x50\xB1\x84\x4B\xFB\x80\x42\x5A\r\n"
    );
    assert_eq!(
        server.line("PFDEBUG DECODE h"),
        "$44\r\nZ:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603\r\n"
    );
}

#[test]
fn an_estimate_is_cached_until_a_change() {
    let server = Server::new();
    assert_eq!(server.line("PFADD h"), ":1\r\n");
    assert_eq!(server.line("PFADD h"), ":0\r\n");
    assert_eq!(server.line("PFADD h a b"), ":1\r\n");
    assert_eq!(server.line("PFADD h a b"), ":0\r\n");
    assert_eq!(count(&server, "h"), 2);
    // The estimate is in the header: a client may overwrite it.
    assert_eq!(
        server.line("GETRANGE h 8 14"),
        "$7\r\n\u{2}\0\0\0\0\0\0\r\n"
    );
    server.line("SETRANGE h 8 *");
    assert_eq!(count(&server, "h"), 42);
    assert_eq!(count(&server, "h none"), 2);
    server.line("PFADD h c");
    assert_eq!(count(&server, "h"), 3);
    assert_eq!(count(&server, "none"), 0);
}

#[test]
fn merging_counts_each_element_once() {
    let server = Server::new();
    add(&server, "small", 0..100);
    add(&server, "other", 50..150);
    assert_eq!(server.line("PFMERGE to small other none"), "+OK\r\n");
    assert_eq!(server.line("PFDEBUG ENCODING to"), "+sparse\r\n");
    assert_eq!(count(&server, "to"), count(&server, "small other"));
    add(&server, "large", 0..20_000);
    assert_eq!(server.line("PFDEBUG ENCODING large"), "+dense\r\n");
    server.line("EXPIRE to 100");
    server.line("PFMERGE to large");
    assert_eq!(server.line("TTL to"), ":100\r\n");
    assert_eq!(server.line("PFDEBUG ENCODING to"), "+dense\r\n");
    assert_eq!(count(&server, "to"), count(&server, "large"));
    assert!(count(&server, "to").abs_diff(20_000) < 600);
    // The result is the same in both encodings.
    add(&server, "a", 0..1_000);
    server.line("COPY a b");
    assert_eq!(server.line("PFDEBUG TODENSE b"), ":1\r\n");
    assert_eq!(server.line("PFDEBUG TODENSE b"), ":0\r\n");
    assert_eq!(
        server.line("PFDEBUG GETREG a"),
        server.line("PFDEBUG GETREG b")
    );
    assert_eq!(count(&server, "a"), count(&server, "b"));
}

#[test]
fn a_value_beyond_the_limit_becomes_dense() {
    let server = Server::with(Options {
        hyperloglog_sparse_bytes_max: 100,
        ..Options::default()
    });
    for element in 0..100 {
        add(&server, "h", element..element + 1);
        let encoding = server.line("PFDEBUG ENCODING h");
        let length = server.line("STRLEN h");
        match &encoding[..] {
            "+sparse\r\n" => assert!(length.len() < 6 || &length[..] <= ":100\r\n", "{length}"),
            _ => assert_eq!(length, ":12304\r\n"),
        }
    }
    assert_eq!(server.line("PFDEBUG ENCODING h"), "+dense\r\n");
    server.keyspace.set_hyperloglog_limit(3_000);
    add(&server, "again", 0..100);
    assert_eq!(server.line("PFDEBUG ENCODING again"), "+sparse\r\n");
}

#[test]
fn other_strings_and_broken_ones_are_refused() {
    let server = Server::new();
    for value in [
        "text",
        "12345",
        "HYLL",
        "HXLL\0\0\0\0\0\0\0\0\0\0\0\0",
        "HYLL\u{2}\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        server.run(&["SET", "k", value]);
        for line in [
            "PFADD k a",
            "PFCOUNT k",
            "PFCOUNT none k",
            "PFMERGE to k",
            "PFMERGE k none",
        ] {
            assert_eq!(server.line(line), NOT_ONE, "{line} {value:?}");
        }
        assert_eq!(server.line("PFDEBUG ENCODING k"), NOT_ONE);
    }
    server.line("RPUSH list a");
    assert!(
        server
            .line("PFADD list a")
            .starts_with("-WRONGTYPE Operation")
    );
    assert!(
        server
            .line("PFCOUNT list")
            .starts_with("-WRONGTYPE Operation")
    );
    server.line("PFADD h a b c");
    server.line("APPEND h hello");
    let broken = server.run(&["GET", "h"]);
    for line in [
        "PFCOUNT h",
        "PFCOUNT h h",
        "PFADD h x y",
        "PFMERGE to h",
        "PFMERGE h none",
    ] {
        assert_eq!(server.line(line), CORRUPT, "{line}");
    }
    for line in ["PFDEBUG GETREG h", "PFDEBUG TODENSE h"] {
        assert_eq!(server.line(line), CORRUPT, "{line}");
    }
    assert_eq!(server.run(&["GET", "h"]), broken);
    assert_eq!(server.line("EXISTS to"), ":0\r\n");
}

#[test]
fn the_self_test_passes() {
    assert_eq!(Server::new().line("PFSELFTEST"), "+OK\r\n");
}
