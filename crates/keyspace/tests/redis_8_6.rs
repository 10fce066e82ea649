//! What Redis 8.4 and 8.6 added to strings and streams, through the public interface. The replies
//! are those of Redis 8.6.3.

mod common;

use common::{NOW_MS, Server};
use tidewire_keyspace::{
    ClientTag, FileVersion, NullObserver, Outcome, RecordedUse, SnapshotOptions, resolve,
};
use tidewire_resp::{ArgumentList, Writer};

/// Executes a command; returns its reply with blanks in place of line ends.
fn run(server: &Server, line: &str) -> String {
    server.line(line).replace("\r\n", " ").trim_end().to_owned()
}

/// Executes a command as a master or a log tells it.
fn told(server: &Server, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let request: ArgumentList = words.iter().collect();
    let command = resolve(request.as_arguments()).expect("the command is known");
    let mut reply = Vec::new();
    let mut writer = Writer::new(&mut reply, server.protocol);
    let _ = server.keyspace.execute_told(
        command,
        request.as_arguments(),
        0,
        server.now_ms,
        &mut writer,
        &mut NullObserver,
    );
    String::from_utf8(reply)
        .expect("the reply is text")
        .replace("\r\n", " ")
        .trim_end()
        .to_owned()
}

#[test]
fn a_value_is_compared_before_it_is_replaced_or_removed() {
    let server = Server::new();
    for (line, reply) in [
        ("SET k one", "+OK"),
        ("SET k two IFEQ no", "$-1"),
        ("SET k two IFEQ one", "+OK"),
        ("SET k three IFNE two", "$-1"),
        ("SET k three IFEQ two GET", "$3 two"),
        ("SET k four IFEQ two GET", "$5 three"),
        ("SET none x IFEQ x", "$-1"),
        ("SET none x IFNE x", "+OK"),
        ("SET k x NX IFEQ three", "-ERR syntax error"),
        ("SET k x IFEQ three NX", "$-1"),
        (
            "SET k x IFDEQ abc",
            "-ERR must be exactly 16 hexadecimal characters",
        ),
        ("DELEX k IFEQ x", ":0"),
        ("DELEX k IFDEQ 0000000000000000", ":0"),
        ("DELEX k IFDNE 0000000000000000", ":1"),
        ("DIGEST k", "$-1"),
        ("RPUSH l x", ":1"),
        (
            "DELEX l IFEQ x",
            "-ERR Key should be of string type if conditions are specified",
        ),
        ("DELEX l", ":1"),
        ("MSETEX 2 a 1 b 2 NX EX 100", ":1"),
        ("MSETEX 2 b 1 c 2 NX", ":0"),
        ("TTL b", ":100"),
        ("MSETEX 1 b 3 KEEPTTL", ":1"),
        ("TTL b", ":100"),
        ("MSETEX 1 b 3", ":1"),
        ("TTL b", ":-1"),
    ] {
        assert_eq!(run(&server, line), reply, "{line}");
    }
}

#[test]
fn the_digest_is_that_of_redis() {
    let server = Server::new();
    server.run(&["SET", "k", "Hello world"]);
    assert_eq!(run(&server, "DIGEST k"), "$16 b6acb9d84a38ff74");
}

#[test]
fn an_entry_that_a_producer_sends_twice_is_added_once() {
    let mut server = Server::new();
    let first = run(&server, "XADD s IDMP p i * a 1");
    assert_eq!(run(&server, "XADD s IDMP p i * a 2"), first);
    assert_ne!(run(&server, "XADD s IDMP q i * a 2"), first);
    let digest = run(&server, "XADD s IDMPAUTO p * a 1 b 2");
    assert_eq!(run(&server, "XADD s IDMPAUTO p * b 2 a 1"), digest);
    assert_eq!(run(&server, "XLEN s"), ":3");
    let info = run(&server, "XINFO STREAM s");
    assert!(
        info.contains("pids-tracked :2 $12 iids-tracked :3"),
        "{info}"
    );
    assert!(
        info.contains("iids-added :3 $15 iids-duplicates :2"),
        "{info}"
    );
    server.now_ms += 100_001;
    assert_ne!(run(&server, "XADD s IDMP p i * a 1"), first, "forgotten");
}

#[test]
fn a_replica_forgets_nothing_that_its_master_still_knows() {
    let mut server = Server::new();
    let id = format!("{NOW_MS}-0");
    let line = format!("XADD s IDMP p i {id} a 1");
    assert_eq!(told(&server, &line), format!("${} {id}", id.len()));
    // The replica is behind by more than the duration.
    server.now_ms += 200_000;
    assert_eq!(told(&server, &line), format!("${} {id}", id.len()));
    assert_eq!(run(&server, "XLEN s"), ":1");
}

#[test]
fn a_stream_s_producers_survive_dump_and_file() {
    let server = Server::new();
    server.line("XADD plain 1-1 a 1");
    let payload = server.run(&["DUMP", "plain"]);
    assert!(payload.windows(2).any(|two| two == [10, 0]), "the old form");
    let first = run(&server, "XADD s IDMP p i * a 1");
    server.line("XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 100");
    let payload = server.run(&["DUMP", "s"]);
    let start = payload
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("bulk")
        + 1;
    let payload = &payload[start..payload.len() - 2];
    assert_eq!(
        server.run(&[b"RESTORE", b"t".as_slice(), b"0", payload]),
        b"+OK\r\n"
    );
    assert_eq!(run(&server, "XADD t IDMP p i * a 2"), first);
    let options = SnapshotOptions {
        version: FileVersion::Fitting,
        ..SnapshotOptions::default()
    };
    let (mut snapshot, ()) = server
        .keyspace
        .begin_snapshot(options, || ())
        .expect("no other snapshot");
    let mut file = Vec::new();
    while snapshot.step(&mut file) {}
    assert_eq!(&file[..9], b"REDIS0013");
}

#[test]
fn reading_claims_what_others_have_left() {
    let mut server = Server::new();
    for line in [
        "XADD s 1-1 a 1",
        "XADD s 1-2 a 2",
        "XADD s 1-3 a 3",
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
    ] {
        server.line(line);
    }
    server.now_ms += 500;
    assert_eq!(
        run(
            &server,
            "XREADGROUP GROUP g d CLAIM 501 COUNT 1 STREAMS s >"
        ),
        "*1 *2 $1 s *1 *4 $3 1-3 *2 $1 a $1 3 :0 :0"
    );
    assert_eq!(
        run(&server, "XREADGROUP GROUP g d CLAIM 501 STREAMS s >"),
        "*-1"
    );
    server.now_ms += 1;
    assert_eq!(
        run(&server, "XREADGROUP GROUP g d CLAIM 501 STREAMS s >"),
        "*1 *2 $1 s *2 *4 $3 1-1 *2 $1 a $1 1 :501 :1 *4 $3 1-2 *2 $1 a $1 2 :501 :1"
    );
    assert_eq!(
        run(&server, "XPENDING s g"),
        "*4 :3 $3 1-1 $3 1-3 *1 *2 $1 d $1 3"
    );
    server.line("XDEL s 1-1");
    server.line("XACK s g 1-3");
    assert_eq!(
        run(&server, "XREADGROUP GROUP g c CLAIM 0 STREAMS s >"),
        "*1 *2 $1 s *1 *4 $3 1-2 *2 $1 a $1 2 :0 :2"
    );
}

#[test]
fn a_client_that_waits_claims_an_entry_when_it_has_been_idle_for_long_enough() {
    let server = Server::new();
    for line in [
        "XADD s 1-1 a 1",
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g c STREAMS s >",
    ] {
        server.line(line);
    }
    let words = "XREADGROUP GROUP g d BLOCK 0 CLAIM 1000 STREAMS s >";
    let request: ArgumentList = words.split(' ').collect();
    let command = resolve(request.as_arguments()).expect("the command is known");
    let (mut reply, client) = (Vec::new(), ClientTag { lane: 0, client: 1 });
    let outcome = server.keyspace.execute_waiting(
        client,
        command,
        request.as_arguments(),
        0,
        NOW_MS,
        &mut Writer::new(&mut reply, server.protocol),
        &mut NullObserver,
    );
    let Outcome::Waiting(waiter) = outcome else {
        panic!("nothing can be claimed yet");
    };
    assert_eq!(waiter.retry_ms(), Some(NOW_MS + 1_000));
    // The other consumer reads its entry again meanwhile.
    let again: ArgumentList = "XREADGROUP GROUP g c STREAMS s 0".split(' ').collect();
    let command = resolve(again.as_arguments()).expect("the command is known");
    let _ = server.keyspace.execute(
        command,
        again.as_arguments(),
        0,
        NOW_MS + 400,
        &mut Writer::new(&mut Vec::new(), server.protocol),
        &mut NullObserver,
    );
    let keyspace = &server.keyspace;
    keyspace.retry(&waiter, NOW_MS + 1_000, &mut NullObserver);
    assert!(!waiter.is_over());
    assert_eq!(waiter.retry_ms(), Some(NOW_MS + 1_400));
    keyspace.retry(&waiter, NOW_MS + 1_400, &mut NullObserver);
    assert!(waiter.is_over(), "its reply is on its way");
}

#[test]
fn under_lrm_only_changes_count_as_use() {
    let mut server = Server::new();
    server.keyspace.set_access(RecordedUse::ChangeTime, 10, 1);
    server.line("SET k v");
    server.line("XADD s 1-1 a 1");
    server.line("XGROUP CREATE s g 0");
    server.now_ms += 10_000;
    server.line("GET k");
    assert_eq!(run(&server, "OBJECT IDLETIME k"), ":10");
    server.line("APPEND k v");
    assert_eq!(run(&server, "OBJECT IDLETIME k"), ":0");
    server.line("XREAD STREAMS s 0");
    assert_eq!(run(&server, "OBJECT IDLETIME s"), ":10");
    server.line("XREADGROUP GROUP g c STREAMS s >");
    assert_eq!(run(&server, "OBJECT IDLETIME s"), ":0");
    server.keyspace.set_access(RecordedUse::Time, 10, 1);
    server.now_ms += 10_000;
    server.line("GET k");
    assert_eq!(run(&server, "OBJECT IDLETIME k"), ":0");
}
