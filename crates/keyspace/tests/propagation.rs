//! The propagation of each command, as in Redis 8.

mod common;

use common::{NOW_MS, Server};
use tidewire_keyspace::{Audience, NullObserver, ShardSet, Unit};

/// A server with a log of all its changes.
struct LoggedServer {
    server: Server,
    read: u64,
}

impl LoggedServer {
    fn new() -> Self {
        let server = Server::new();
        server.keyspace.propagation().open(Audience::Replicas);
        LoggedServer { server, read: 0 }
    }

    /// Returns the commands propagated since the last call, separated by `
    /// `, without SELECT.
    fn news(&mut self) -> String {
        let log = self.server.keyspace.propagation().log(Audience::Replicas);
        let mut bytes = Vec::new();
        self.read = log.read(self.read, usize::MAX, &mut bytes).expect("kept");
        let text = String::from_utf8(bytes).expect("a test's command is text");
        let lines = text.split("\r\n").filter(|line| !line.starts_with('$'));
        let mut commands: Vec<String> = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            match (line.strip_prefix('*'), commands.last_mut()) {
                (None, Some(command)) if command.is_empty() => command.push_str(line),
                (None, Some(command)) => {
                    command.push(' ');
                    command.push_str(line);
                }
                _ => commands.push(String::new()),
            }
        }
        commands.retain(|command| !command.starts_with("SELECT"));
        commands.join("|")
    }

    /// Executes a command and returns what it propagates.
    fn of(&mut self, line: &str) -> String {
        self.server.line(line);
        self.news()
    }
}

#[test]
fn commands_that_change_something_are_propagated_unchanged_and_others_not_at_all() {
    let mut told = LoggedServer::new();
    for line in [
        "set k 1",
        "INCR k",
        "MSET a 1 b 2",
        "DEL a nothing",
        "RPUSH l a b c",
        "LPOP l",
        "LMOVE l m LEFT RIGHT",
        "SADD s a b c",
        "ZADD z 1 a",
        "HSET h f v",
        "XADD x 1-1 f v",
        "XGROUP CREATE x g 0",
        "FLUSHALL",
        "FLUSHDB ASYNC",
        "SWAPDB 1 2",
    ] {
        assert_eq!(told.of(line), line);
    }
    told.of("SADD s a");
    for line in [
        "GET k",
        "SADD s a",
        "DEL nothing",
        "EXPIRE nothing 5",
        "LPOP nothing",
        "SET k v XX",
        "INCR s",
        "HGETALL h",
    ] {
        assert_eq!(told.of(line), "", "{line}");
    }
}

#[test]
fn ttls_are_propagated_as_deadlines() {
    let mut told = LoggedServer::new();
    let (at_100_s, at_5_ms) = (NOW_MS + 100_000, NOW_MS + 5);
    for (line, expected) in [
        ("SET k v EX 100 GET", format!("SET k v PXAT {at_100_s}")),
        ("SETEX k 100 v", format!("SET k v PXAT {at_100_s}")),
        ("PSETEX k 5 v", format!("SET k v PXAT {at_5_ms}")),
        ("SET k v KEEPTTL GET NX GET", String::new()),
        ("SET k v GET KEEPTTL", "SET k v KEEPTTL".into()),
        ("GETEX k EX 100", format!("PEXPIREAT k {at_100_s}")),
        ("GETEX k", String::new()),
        ("GETEX k PERSIST", "PERSIST k".into()),
        ("EXPIRE k 100 NX", format!("PEXPIREAT k {at_100_s} NX")),
        ("EXPIRE k 100 NX", String::new()),
        ("GETEX k EXAT 1", "DEL k".into()),
        ("GETSET k w", "SET k w".into()),
        ("EXPIRE k -1", "DEL k".into()),
        ("INCRBYFLOAT k 1.5", "SET k 1.5 KEEPTTL".into()),
        ("GETDEL k", "DEL k".into()),
        (
            "HSETEX h EX 100 FIELDS 1 f v",
            format!("HSETEX h PXAT {at_100_s} FIELDS 1 f v"),
        ),
        (
            "HEXPIRE h 100 FIELDS 2 f x",
            format!("HPEXPIREAT h {at_100_s} FIELDS 1 f"),
        ),
        (
            "HGETEX h PX 5 FIELDS 1 f",
            format!("HPEXPIREAT h {at_5_ms} FIELDS 1 f"),
        ),
        (
            "HGETEX h PERSIST FIELDS 1 f",
            "HPERSIST h FIELDS 1 f".into(),
        ),
        (
            "HSETEX h FIELDS 1 f v EX 100",
            format!("HSETEX h FIELDS 1 f v PXAT {at_100_s}"),
        ),
        (
            "HEXPIRE h 100 XX FIELDS 2 f x XX",
            format!("HPEXPIREAT h {at_100_s} XX FIELDS 1 f XX"),
        ),
        (
            "HGETEX h FIELDS 1 f PX 5",
            format!("HPEXPIREAT h {at_5_ms} FIELDS 1 f"),
        ),
        ("HGETEX h EXAT 1 FIELDS 1 f", "HDEL h f".into()),
        ("HSETEX h PXAT 1 FIELDS 1 f v", "HDEL h f".into()),
        ("HINCRBYFLOAT h f 1.5", "HSET h f 1.5".into()),
        (
            "HEXPIRE h 100 FIELDS 1 f",
            format!("HPEXPIREAT h {at_100_s} FIELDS 1 f"),
        ),
        (
            "HINCRBYFLOAT h f 1.5",
            "HSETEX h KEEPTTL FIELDS 1 f 3".into(),
        ),
        ("HGETDEL h FIELDS 2 f x", "HDEL h f x".into()),
    ] {
        assert_eq!(told.of(line), expected, "{line}");
    }
}

#[test]
fn random_and_first_key_choices_are_propagated_as_results() {
    let mut told = LoggedServer::new();
    told.of("SADD s a");
    assert_eq!(told.of("SPOP s"), "SREM s a");
    told.of("SADD s a b");
    assert_eq!(told.of("SPOP s 5"), "DEL s");
    told.of("SADD s a b c");
    assert!(told.of("SPOP s 2").starts_with("SREM s "));
    told.of("RPUSH l a b c d");
    assert_eq!(told.of("BLPOP none l 0"), "LPOP l");
    assert_eq!(told.of("LMPOP 2 none l RIGHT COUNT 9"), "RPOP l 3");
    told.of("RPUSH l a b");
    assert_eq!(told.of("BRPOPLPUSH l m 0"), "RPOPLPUSH l m");
    assert_eq!(told.of("BLMOVE l m LEFT LEFT 0"), "LMOVE l m LEFT LEFT");
    told.of("ZADD z 1 a 2 b 3 c");
    assert_eq!(told.of("BZPOPMAX z 0"), "ZPOPMAX z");
    assert_eq!(told.of("ZMPOP 1 z MIN COUNT 5"), "ZPOPMIN z 2");
    let geo = told.of("GEOADD g NX 13.361389 38.115556 Palermo");
    assert_eq!(geo, "ZADD g NX 3479099956230698 Palermo");
}

#[test]
fn stream_ids_and_deliveries_are_propagated() {
    let mut told = LoggedServer::new();
    assert_eq!(told.of("XADD x * f v"), format!("XADD x {NOW_MS}-0 f v"));
    let second = format!("XADD x MAXLEN = 2 {NOW_MS}-1 f v");
    assert_eq!(told.of("XADD x MAXLEN ~ 1 LIMIT 5 * f v"), second);
    told.of("XGROUP CREATE x g 0");
    let claim = |sequence: u8| {
        format!(
            "XCLAIM x g c 0 {NOW_MS}-{sequence} TIME {NOW_MS} RETRYCOUNT 1 FORCE JUSTID LASTID \
             {NOW_MS}-{sequence}"
        )
    };
    let read = told.of("XREADGROUP GROUP g c COUNT 2 STREAMS x >");
    let read_on = format!("XGROUP SETID x g {NOW_MS}-1 ENTRIESREAD 2");
    assert_eq!(
        read,
        format!("MULTI|{}|{}|{read_on}|EXEC", claim(0), claim(1))
    );
    assert_eq!(told.of("XREADGROUP GROUP g c STREAMS x >"), "");
    let mut again = told.of(&format!("XCLAIM x g d 0 {NOW_MS}-0"));
    assert!(again.contains(" d 0 ") && again.contains("RETRYCOUNT 2"));
    told.of(&format!("XDEL x {NOW_MS}-0"));
    again = told.of("XAUTOCLAIM x g d 0 0 COUNT 1");
    assert!(again.starts_with(&format!("XCLAIM x g d 0 {NOW_MS}-0 ")));
}

#[test]
fn expired_keys_and_fields_are_propagated_whichever_command_finds_them() {
    let mut told = LoggedServer::new();
    told.of("SET a 1 PX 5");
    told.of("SET b 1 PX 5");
    told.of("HSET h f v g w");
    told.of("HPEXPIRE h 5 FIELDS 1 f");
    told.server.now_ms += 5;
    assert_eq!(told.of("GET a"), "DEL a");
    assert_eq!(told.of("INCR b"), "MULTI|DEL b|INCR b|EXEC");
    assert_eq!(told.of("HGET h f"), "HDEL h f");
    told.of("SET a 1 PX 5");
    told.of("SET b 1 PX 5");
    told.of("HPEXPIRE h 5 FIELDS 1 g");
    told.server.now_ms += 5;
    told.server.keyspace.propagation().set_unlinks(true, false);
    let keyspace = &told.server.keyspace;
    keyspace.expire_due(told.server.now_ms, 100, &mut NullObserver);
    let mut gone: Vec<String> = told.news().split('|').map(String::from).collect();
    gone.sort();
    assert_eq!(gone, ["HDEL h g", "UNLINK a", "UNLINK b"]);
}

#[test]
fn commands_under_the_same_locks_are_propagated_as_a_transaction() {
    let mut told = LoggedServer::new();
    let keyspace = &told.server.keyspace;
    let mut locked = keyspace.lock(ShardSet::all());
    locked.unit().push(0, [&b"SET"[..], b"a", b"1"]);
    locked.unit().push(0, [&b"SET"[..], b"b", b"2"]);
    keyspace.release(locked, NOW_MS, &mut NullObserver);
    assert_eq!(told.news(), "MULTI|SET a 1|SET b 2|EXEC");
    let mut unit = Unit::default();
    unit.push_for_replicas(0, [&b"PUBLISH"[..], b"c", b"m"]);
    told.server.keyspace.propagation().append(&unit);
    assert_eq!(told.news(), "PUBLISH c m");
}

#[test]
fn nothing_is_logged_without_a_reader() {
    let server = Server::new();
    server.line("SET a 1");
    let log = server.keyspace.propagation().log(Audience::File);
    assert_eq!((log.oldest(), log.end()), (0, 0));
}

#[test]
fn a_removal_by_text_names_its_members_if_their_scores_differ() {
    let mut told = LoggedServer::new();
    assert_eq!(told.of("ZADD z 0 a 0 b 0 c"), "ZADD z 0 a 0 b 0 c");
    assert_eq!(told.of("ZREMRANGEBYLEX z [a [a"), "ZREMRANGEBYLEX z [a [a");
    told.of("ZADD z -1 d 5 e");
    assert_eq!(told.of("ZREMRANGEBYLEX z [b [d"), "ZREM z d b c");
    assert_eq!(told.of("ZREMRANGEBYLEX z [x +"), "");
}

#[test]
fn a_replica_neither_compares_nor_makes_an_id() {
    let mut told = LoggedServer::new();
    assert_eq!(told.of("SET k 1"), "SET k 1");
    assert_eq!(told.of("SET k 2 IFEQ 1"), "SET k 2");
    assert_eq!(told.of("SET k 3 IFEQ 1"), "");
    assert_eq!(told.of("SET k 3 IFEQ 2 KEEPTTL"), "SET k 3 KEEPTTL");
    let until = NOW_MS + 5_000;
    let set = format!("SET k 4 PXAT {until}");
    assert_eq!(told.of("SET k 4 IFEQ 3 EX 5"), set);
    assert_eq!(told.of("DELEX k IFEQ 4"), "DEL k");
    assert_eq!(told.of("DELEX k IFEQ 4"), "");
    let set = format!("MSETEX 2 a 1 b 2 PXAT {until} NX");
    assert_eq!(told.of("MSETEX 2 a 1 b 2 EX 5 NX"), set);
    let entry = format!("XADD s IDMP p i {NOW_MS}-0 a 1");
    assert_eq!(told.of("XADD s IDMP p i * a 1"), entry);
    assert_eq!(told.of("XADD s IDMP p i * a 1"), entry, "sent twice");
    assert_eq!(
        told.of("XCFGSET s IDMP-MAXSIZE 5"),
        "XCFGSET s IDMP-MAXSIZE 5"
    );
    assert_eq!(told.of("XCFGSET s IDMP-MAXSIZE 5"), "", "as it was");
}
