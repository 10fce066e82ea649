//! Lists through the public interface: behaviour of Redis 8 that the installed Redis lacks, and
//! long lists.

mod common;

use common::Server;
use tidewire_keyspace::Options;

const LISTPACK: &str = "$8\r\nlistpack\r\n";
const QUICKLIST: &str = "$9\r\nquicklist\r\n";

fn encoding(server: &Server, key: &str) -> String {
    server.line(&format!("OBJECT ENCODING {key}"))
}

fn push(server: &Server, key: &str, element: &str, count: usize) {
    for _ in 0..count {
        server.run(&["RPUSH", key, element]);
    }
}

#[test]
fn encodings_match_redis_8() {
    let server = Server::new();
    // A text of 97 bytes takes 100: two before it, one after it. The limit counts the last element
    // without its encoding, plus seven bytes of overhead. So 81 elements are 8,104 bytes, and 82
    // are 8,204.
    let element = "x".repeat(97);
    push(&server, "l", &element, 81);
    assert_eq!(encoding(&server, "l"), LISTPACK);
    push(&server, "l", &element, 1);
    assert_eq!(encoding(&server, "l"), QUICKLIST);
    server.line("RPOP l 30");
    assert_eq!(
        encoding(&server, "l"),
        QUICKLIST,
        "more than half of the limit is left"
    );
    server.line("LTRIM l 0 39");
    assert_eq!(encoding(&server, "l"), LISTPACK);
    assert_eq!(server.line("LLEN l"), ":40\r\n");
    server.run(&["LSET", "l", "0", &"y".repeat(8_192)]);
    assert_eq!(encoding(&server, "l"), QUICKLIST);
    server.line("LSET l 0 small");
    assert_eq!(encoding(&server, "l"), LISTPACK);
    server.run(&["LINSERT", "l", "BEFORE", "small", &"y".repeat(8_192)]);
    assert_eq!(encoding(&server, "l"), QUICKLIST);
    server.line("COPY l copy");
    server.line("RENAME copy moved");
    assert_eq!(encoding(&server, "moved"), QUICKLIST);
    assert_eq!(server.line("TYPE moved"), "+list\r\n");
    assert_eq!(
        server.run(&["LRANGE", "moved", "0", "-1"]),
        server.run(&["LRANGE", "l", "0", "-1"])
    );
    assert_eq!(
        server.line("SCAN 0 COUNT 10000 TYPE set"),
        "*2\r\n$1\r\n0\r\n*0\r\n"
    );
    server.line("MOVE moved 2");
    assert_eq!(server.line("UNLINK l moved"), ":1\r\n");
}

#[test]
fn a_limit_in_elements_counts_elements() {
    let server = Server::with(Options {
        list_listpack_size: 4,
        ..Options::default()
    });
    server.line("RPUSH l 1 2 3 4");
    assert_eq!(encoding(&server, "l"), LISTPACK);
    server.line("RPUSH l 5");
    assert_eq!(encoding(&server, "l"), QUICKLIST);
    server.line("LPOP l 2");
    assert_eq!(encoding(&server, "l"), QUICKLIST);
    server.line("LPOP l");
    assert_eq!(encoding(&server, "l"), QUICKLIST, "it is in two chunks");
    server.line("LPOP l");
    assert_eq!(encoding(&server, "l"), LISTPACK);
    server.line("RPUSH m a a a a d");
    server.line("LREM m 4 a");
    assert_eq!(encoding(&server, "m"), LISTPACK);
    server.line("RPUSH n a b c d e");
    server.line("LTRIM n 1 1");
    assert_eq!(encoding(&server, "n"), LISTPACK);
    server.keyspace.set_list_limit(-5);
    push(&server, "l", &"x".repeat(1_000), 60);
    assert_eq!(encoding(&server, "l"), LISTPACK);
    push(&server, "l", &"x".repeat(1_000), 10);
    assert_eq!(encoding(&server, "l"), QUICKLIST);
}

#[test]
fn a_queue_of_many_elements_keeps_their_order() {
    let server = Server::new();
    for number in 0..20_000 {
        server.line(&format!("RPUSH queue job:{number}"));
    }
    for index in [0, 1, 9_999, 10_000, 10_001, 19_999] {
        let text = format!("job:{index}");
        let reply = format!("${}\r\n{text}\r\n", text.len());
        assert_eq!(server.line(&format!("LINDEX queue {index}")), reply);
        assert_eq!(
            server.line(&format!("LINDEX queue {}", index - 20_000)),
            reply
        );
        assert_eq!(
            server.line(&format!("LPOS queue {text}")),
            format!(":{index}\r\n")
        );
        assert_eq!(
            server.line(&format!("LPOS queue {text} RANK -1")),
            format!(":{index}\r\n")
        );
    }
    for number in 0..10_000 {
        let text = format!("job:{number}");
        let reply = format!("${}\r\n{text}\r\n", text.len());
        assert_eq!(server.line("LMOVE queue done LEFT RIGHT"), reply);
    }
    assert_eq!(server.line("LLEN done"), ":10000\r\n");
    assert_eq!(server.line("LRANGE queue 0 0"), "*1\r\n$9\r\njob:10000\r\n");
    assert_eq!(server.line("LRANGE done -1 -1"), "*1\r\n$8\r\njob:9999\r\n");
    for line in [
        "LPOS queue x RANK -9223372036854775808",
        "LREM done -9223372036854775808 x",
    ] {
        let reply = server.line(line);
        assert!(reply.starts_with("-ERR value is out of range, value must between"));
    }
    assert_eq!(server.line("LREM done -9223372036854775807 x"), ":0\r\n");
    server.line("LTRIM queue 1 0");
    assert_eq!(server.line("EXISTS queue"), ":0\r\n");
}
