//! Bit commands through the public interface: the operations of BITOP since Redis 8.2, and failed
//! writes.

mod common;

use common::Server;

#[test]
fn bitop_has_the_operations_of_redis_8_2() {
    let server = Server::new();
    for (key, value) in [
        ("x", &[0xF0u8, 0xFF][..]),
        ("y", &[0xCC]),
        ("z", &[0xAA, 0x0F, 1]),
    ] {
        server.run(&[&b"SET"[..], key.as_bytes(), value]);
    }
    for (line, result) in [
        ("BITOP DIFF to x y z", &[0x10u8, 0xF0, 0][..]),
        ("BITOP DIFF1 to x y z", &[0x0E, 0, 1]),
        ("BITOP ANDOR to x y z", &[0xE0, 0x0F, 0]),
        ("BITOP ONE to x y z", &[0x16, 0xF0, 1]),
        ("BITOP ONE to x", &[0xF0, 0xFF]),
        ("BITOP diff to none x", &[0, 0]),
    ] {
        assert_eq!(
            server.line(line),
            format!(":{}\r\n", result.len()),
            "{line}"
        );
        let reply = [format!("${}\r\n", result.len()).as_bytes(), result, b"\r\n"].concat();
        assert_eq!(server.run(&["GET", "to"]), reply, "{line}");
    }
    for name in ["DIFF", "DIFF1", "ANDOR"] {
        assert_eq!(
            server.line(&format!("BITOP {} to x", name.to_lowercase())),
            format!("-ERR BITOP {name} must be called with at least two source keys.\r\n"),
        );
    }
}

#[test]
fn bitop_reads_its_destination_before_it_replaces_it() {
    let server = Server::new();
    server.line("SET x abc EX 100");
    server.line("SET number 12");
    assert_eq!(server.line("BITOP OR x x number"), ":3\r\n");
    assert_eq!(server.line("GET x"), "$3\r\nqrc\r\n");
    assert_eq!(server.line("TTL x"), ":-1\r\n");
    assert_eq!(server.line("OBJECT ENCODING x"), "$3\r\nraw\r\n");
    server.line("RPUSH list a");
    assert!(
        server
            .line("BITOP AND x number list")
            .starts_with("-WRONGTYPE")
    );
    assert_eq!(server.line("BITOP AND list number"), ":2\r\n");
    assert_eq!(server.line("TYPE list"), "+string\r\n");
    assert_eq!(server.line("BITOP AND x none"), ":0\r\n");
    assert_eq!(server.line("EXISTS x"), ":0\r\n");
}

#[test]
fn bits_of_an_integer_are_those_of_its_text() {
    let server = Server::new();
    server.line("SET number 123");
    assert_eq!(server.line("BITCOUNT number"), ":10\r\n");
    assert_eq!(server.line("BITPOS number 1"), ":2\r\n");
    assert_eq!(server.line("GETBIT number 7"), ":1\r\n");
    assert_eq!(server.line("BITFIELD_RO number GET u8 #1"), "*1\r\n:50\r\n");
    assert_eq!(
        server.line("BITFIELD number INCRBY u8 #2 1"),
        "*1\r\n:52\r\n"
    );
    assert_eq!(server.line("SETBIT number 21 0"), ":1\r\n");
    assert_eq!(server.line("GET number"), "$3\r\n120\r\n");
}

#[test]
fn refused_commands_change_nothing() {
    let server = Server::new();
    for line in [
        "SETBIT k 4294967296 1",
        "SETBIT k -1 1",
        "SETBIT k 0 2",
        "BITFIELD k SET u8 0 1 SET u64 0 1",
        "BITFIELD k SET u8 0 1 GET i8 #4611686018427387904",
        "BITFIELD k SET u8 0 1 OVERFLOW sometimes",
        "BITFIELD k SET u8 0 one",
        "BITFIELD_RO k GET u8 0 SET u8 0 1",
    ] {
        assert!(server.line(line).starts_with("-ERR "), "{line}");
        assert_eq!(server.line("EXISTS k"), ":0\r\n", "{line}");
    }
    // The limit is 512 MiB; reading the last bit is allowed.
    assert_eq!(server.line("GETBIT k 4294967295"), ":0\r\n");
    assert_eq!(
        server.line("BITFIELD k OVERFLOW FAIL SET u8 0 256 OVERFLOW SAT INCRBY i8 8 1000"),
        "*2\r\n$-1\r\n:127\r\n",
    );
    assert_eq!(server.run(&["GET", "k"]), b"$2\r\n\0\x7F\r\n");
}
