//! Strings through the public interface: repeated options, the events of SET, and LCS.

mod common;

use common::Server;
use tidewire_keyspace::Options;

#[test]
fn the_last_of_several_ttls_in_the_same_form_counts() {
    let server = Server::new();
    assert_eq!(server.line("SET k v EX 10 EX 20"), "+OK\r\n");
    assert_eq!(server.line("TTL k"), ":20\r\n");
    assert_eq!(server.line("GETEX k PX 1000 PX 30000"), "$1\r\nv\r\n");
    assert_eq!(server.line("TTL k"), ":30\r\n");
    for line in [
        "SET k v EX 10 PX 20",
        "SET k v KEEPTTL EX 10",
        "SET k v EX 10 KEEPTTL",
        "SET k v NX XX",
        "SET k v EX",
        "GETEX k EX 10 PX 20",
        "GETEX k PERSIST EX 10",
        "GETEX k EX 10 PERSIST",
        "GETEX k KEEPTTL",
    ] {
        assert_eq!(server.line(line), "-ERR syntax error\r\n", "{line}");
    }
    assert_eq!(server.line("GETEX k PERSIST PERSIST"), "$1\r\nv\r\n");
    assert_eq!(server.line("TTL k"), ":-1\r\n");
}

#[test]
fn lcs_replies_in_each_form() {
    let server = Server::new();
    server.line("MSET a ohmytext b mynewtext");
    assert_eq!(server.line("LCS a b"), "$6\r\nmytext\r\n");
    assert_eq!(server.line("LCS a b LEN"), ":6\r\n");
    assert_eq!(server.line("LCS a none"), "$0\r\n\r\n");
    assert_eq!(server.line("LCS none a LEN"), ":0\r\n");
    assert_eq!(
        server.line("LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN"),
        "*4\r\n$7\r\nmatches\r\n*1\r\n*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n\
         $3\r\nlen\r\n:6\r\n"
    );
    server.line("RPUSH list x");
    // The types of the keys are checked before the options.
    assert_eq!(
        server.line("LCS a list NONSENSE"),
        "-ERR The specified keys must contain string values\r\n"
    );
    assert_eq!(server.line("LCS a b NONSENSE"), "-ERR syntax error\r\n");
}

#[test]
fn no_command_makes_a_string_beyond_the_limit() {
    let server = Server::with(Options {
        string_bytes_max: 100,
        ..Options::default()
    });
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    assert_eq!(server.line("SETRANGE k 99 x"), ":100\r\n");
    assert_eq!(server.line("SETRANGE k 100 x"), too_long);
    assert_eq!(server.line("APPEND k x"), too_long);
    assert_eq!(server.line("SETRANGE k 9223372036854775807 x"), too_long);
    assert_eq!(server.line("STRLEN k"), ":100\r\n");
    assert_eq!(server.line("SETBIT k 799 1"), ":0\r\n");
    assert!(server.line("SETBIT k 800 1").starts_with("-ERR bit offset"));
    server.line("MSET a 12345 b 12345");
    assert_eq!(
        server.line("LCS a b"),
        "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n"
    );
}
