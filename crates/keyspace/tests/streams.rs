//! Streams through the public interface.

mod common;

use std::sync::Arc;

use common::Server;
use tidewire_keyspace::{ClientTag, Event, Observer, Outcome, ValueRef, Waiter, resolve};
use tidewire_resp::{ArgumentList, Protocol, Writer};

/// Executes a command; returns its reply with blanks in place of line ends.
fn run(server: &Server, line: &str) -> String {
    server.line(line).replace("\r\n", " ").trim_end().to_owned()
}

#[test]
fn entries_are_added_and_read_in_order() {
    let server = Server::new();
    assert_eq!(run(&server, "XADD s 5-* a 1"), "$3 5-0");
    assert_eq!(run(&server, "XADD s 5-* a 2 b x"), "$3 5-1");
    assert_eq!(run(&server, "XADD s * a 3"), "$15 1750000000000-0");
    assert_eq!(run(&server, "XADD s * a 4"), "$15 1750000000000-1");
    assert_eq!(run(&server, "XLEN s"), ":4");
    assert_eq!(run(&server, "TYPE s"), "+stream");
    assert_eq!(run(&server, "OBJECT ENCODING s"), "$6 stream");
    assert_eq!(
        run(&server, "XRANGE s - (1750000000000-0"),
        "*2 *2 $3 5-0 *2 $1 a $1 1 *2 $3 5-1 *4 $1 a $1 2 $1 b $1 x"
    );
    assert_eq!(
        run(&server, "XREVRANGE s + 5-1 COUNT 2"),
        "*2 *2 $15 1750000000000-1 *2 $1 a $1 4 *2 $15 1750000000000-0 *2 $1 a $1 3"
    );
    assert_eq!(run(&server, "XRANGE s - + COUNT 0"), "*-1");
    assert_eq!(run(&server, "XRANGE none - + COUNT 0"), "*0");
    assert_eq!(run(&server, "XADD none NOMKSTREAM * a b"), "$-1");
    assert_eq!(run(&server, "EXISTS none"), ":0");
    assert_eq!(
        run(&server, "XADD s 5-1 a b"),
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item"
    );
    assert_eq!(
        run(&server, "XADD s 0-0 a b"),
        "-ERR The ID specified in XADD must be greater than 0-0"
    );
}

#[test]
fn refused_commands_change_nothing() {
    let server = Server::new();
    server.line("XADD s 1-1 a b");
    server.line("XGROUP CREATE s g 0");
    server.line("SET text x");
    let before = run(&server, "XINFO STREAM s FULL");
    for (line, error) in [
        (
            "XADD s MAXLEN 5 MINID 3 * a b",
            "ERR syntax error, MAXLEN and MINID",
        ),
        (
            "XADD s MAXLEN -1 * a b",
            "ERR The MAXLEN argument must be >= 0.",
        ),
        (
            "XADD s MAXLEN 5 LIMIT 1 * a b",
            "ERR syntax error, LIMIT cannot be used without the",
        ),
        (
            "XADD s LIMIT 1 * a b",
            "ERR syntax error, LIMIT cannot be used without specifying",
        ),
        (
            "XADD s LIMIT 0 * a b",
            "ERR syntax error, LIMIT cannot be used without the special",
        ),
        (
            "XADD s MAXLEN ~ 5 LIMIT -1 * a b",
            "ERR The LIMIT argument must be >= 0.",
        ),
        ("XADD s KEEPREF ACKED * a b", "ERR Invalid stream ID"),
        (
            "XADD s * a",
            "ERR wrong number of arguments for 'xadd' command",
        ),
        (
            "XADD s * a b c",
            "ERR wrong number of arguments for 'xadd' command",
        ),
        (
            "XADD s x a b",
            "ERR Invalid stream ID specified as stream command argument",
        ),
        (
            "XTRIM s MAXLEN x",
            "ERR value is not an integer or out of range",
        ),
        (
            "XTRIM s LIMIT 5 KEEPREF",
            "ERR syntax error, LIMIT cannot be used without specifying",
        ),
        (
            "XTRIM s KEEPREF LIMIT 0",
            "ERR syntax error, XTRIM must be called with a trimming",
        ),
        ("XRANGE s (+ -", "ERR Invalid stream ID"),
        (
            "XRANGE s (18446744073709551615-18446744073709551615 +",
            "ERR invalid start ID",
        ),
        ("XRANGE s - (0-0", "ERR invalid end ID for the interval"),
        ("XRANGE s - + COUNT", "ERR syntax error"),
        (
            "XREAD STREAMS s",
            "ERR wrong number of arguments for 'xread' command",
        ),
        (
            "XREAD STREAMS s 1 t",
            "ERR Unbalanced 'xread' list of streams: for each stream key an",
        ),
        ("XREAD COUNT 1 STREAMS", "ERR syntax error"),
        (
            "XREAD STREAMS s >",
            "ERR The > ID can be specified only when calling XREADGROUP",
        ),
        (
            "XREAD GROUP g c STREAMS s >",
            "ERR The GROUP option is only supported by XREADGROUP.",
        ),
        (
            "XREAD NOACK STREAMS s 1",
            "ERR The NOACK option is only supported by XREADGROUP.",
        ),
        ("XREAD BLOCK -1 STREAMS s 1", "ERR timeout is negative"),
        (
            "XREADGROUP COUNT 1 NOACK STREAMS s >",
            "ERR Missing GROUP option for XREADGROUP",
        ),
        (
            "XREADGROUP GROUP g c STREAMS s $",
            "ERR The $ ID is meaningless in the context of",
        ),
        (
            "XREADGROUP GROUP no c STREAMS s >",
            "NOGROUP No such key 's' or consumer group 'no' in",
        ),
        ("XREADGROUP GROUP g c STREAMS text >", "WRONGTYPE Operation"),
        (
            "XGROUP CREATE s g 0",
            "BUSYGROUP Consumer Group name already exists",
        ),
        (
            "XGROUP CREATE none g 0",
            "ERR The XGROUP subcommand requires the key to exist.",
        ),
        (
            "XGROUP CREATE s h 0 ENTRIESREAD -2",
            "ERR value for ENTRIESREAD must be positive or -1",
        ),
        (
            "XGROUP CREATE s h 0 BAD",
            "ERR unknown subcommand or wrong number of arguments for 'CREATE'",
        ),
        (
            "XGROUP SETID s no 0",
            "NOGROUP No such consumer group 'no' for key name 's'",
        ),
        ("XACK s g x", "ERR Invalid stream ID"),
        (
            "XPENDING s no",
            "NOGROUP No such key 's' or consumer group 'no'",
        ),
        ("XPENDING s g - +", "ERR syntax error"),
        (
            "XCLAIM s g c x 1-1",
            "ERR Invalid min-idle-time argument for XCLAIM",
        ),
        (
            "XCLAIM s g c 0 1-1 WHAT",
            "ERR Unrecognized XCLAIM option 'WHAT'",
        ),
        ("XCLAIM s g c 0 1-1 LASTID x", "ERR Invalid stream ID"),
        ("XAUTOCLAIM s g c 0 - COUNT 0", "ERR COUNT must be > 0"),
        (
            "XDELEX s IDS 0 1-1",
            "ERR Number of IDs must be a positive integer",
        ),
        (
            "XDELEX s IDS 2 1-1",
            "ERR The `numids` parameter must match the number of arguments",
        ),
        ("XDELEX s KEEPREF ACKED IDS 1 1-1", "ERR syntax error"),
        ("XDELEX s KEEPREF IDS 1", "ERR The `numids` parameter"),
        ("XACKDEL s g DELREF IDS 1 x", "ERR Invalid stream ID"),
        (
            "XSETID s 0-1",
            "ERR The ID specified in XSETID is smaller than the target stream top",
        ),
        (
            "XSETID s 1-1 ENTRIESADDED 0",
            "ERR The entries_added specified in XSETID is smaller than",
        ),
        (
            "XSETID s 1-1 MAXDELETEDID 2-0",
            "ERR The ID specified in XSETID is smaller than the prov",
        ),
        ("XSETID none 1-1", "ERR no such key"),
        ("XINFO STREAM none", "ERR no such key"),
        (
            "XINFO STREAM s FULL COUNT",
            "ERR unknown subcommand or wrong number of arguments for",
        ),
        (
            "XINFO CONSUMERS s no",
            "NOGROUP No such consumer group 'no' for key name 's'",
        ),
    ] {
        let reply = run(&server, line);
        assert!(reply.starts_with(&format!("-{error}")), "{line}: {reply}");
        assert_eq!(run(&server, "XINFO STREAM s FULL"), before, "{line}");
    }
}

#[test]
fn groups_deliver_each_entry_once_and_record_it_as_pending() {
    let server = Server::new();
    for id in 1..=4 {
        run(&server, &format!("XADD s {id}-0 n {id}"));
    }
    assert_eq!(run(&server, "XGROUP CREATE s g 1-0"), "+OK");
    assert_eq!(
        run(&server, "XREADGROUP GROUP g alice COUNT 2 STREAMS s >"),
        "*1 *2 $1 s *2 *2 $3 2-0 *2 $1 n $1 2 *2 $3 3-0 *2 $1 n $1 3"
    );
    assert_eq!(
        run(&server, "XREADGROUP GROUP g bob STREAMS s >"),
        "*1 *2 $1 s *1 *2 $3 4-0 *2 $1 n $1 4"
    );
    assert_eq!(run(&server, "XREADGROUP GROUP g bob STREAMS s >"), "*-1");
    assert_eq!(
        run(&server, "XPENDING s g"),
        "*4 :3 $3 2-0 $3 4-0 *2 *2 $5 alice $1 2 *2 $3 bob $1 1"
    );
    assert_eq!(run(&server, "XDEL s 2-0"), ":1");
    assert_eq!(
        run(&server, "XREADGROUP GROUP g alice STREAMS s 0"),
        "*1 *2 $1 s *2 *2 $3 2-0 *-1 *2 $3 3-0 *2 $1 n $1 3"
    );
    assert_eq!(
        run(&server, "XPENDING s g - + 9 alice"),
        "*2 *4 $3 2-0 $5 alice :0 :1 *4 $3 3-0 $5 alice :0 :2"
    );
    assert_eq!(
        run(&server, "XCLAIM s g bob 0 2-0 3-0"),
        "*1 *2 $3 3-0 *2 $1 n $1 3"
    );
    assert_eq!(
        run(&server, "XAUTOCLAIM s g alice 0 - COUNT 1 JUSTID"),
        "*3 $3 4-0 *1 $3 3-0 *0"
    );
    assert_eq!(run(&server, "XACK s g 3-0 3-0 4-0"), ":2");
    assert_eq!(run(&server, "XPENDING s g"), "*4 :0 $-1 $-1 *-1");
    assert_eq!(run(&server, "XGROUP DELCONSUMER s g bob"), ":0");
    assert_eq!(run(&server, "XGROUP DESTROY s g"), ":1");
    assert_eq!(run(&server, "XGROUP DESTROY s g"), ":0");
}

#[test]
fn a_deletion_respects_groups_on_request() {
    let server = Server::new();
    for id in 1..=4 {
        run(&server, &format!("XADD s {id}-0 n {id}"));
    }
    run(&server, "XGROUP CREATE s g 0");
    run(&server, "XGROUP CREATE s h 0");
    run(&server, "XREADGROUP GROUP g c COUNT 3 STREAMS s >");
    run(&server, "XREADGROUP GROUP h c COUNT 2 STREAMS s >");
    assert_eq!(
        run(&server, "XDELEX s ACKED IDS 3 1-0 3-0 9-0"),
        "*3 :2 :2 :2"
    );
    assert_eq!(run(&server, "XACKDEL s g ACKED IDS 2 1-0 4-0"), "*2 :2 :-1");
    assert_eq!(run(&server, "XACKDEL s h ACKED IDS 1 1-0"), "*1 :1");
    assert_eq!(run(&server, "XDELEX s DELREF IDS 2 2-0 2-0"), "*2 :1 :-1");
    assert_eq!(
        run(&server, "XPENDING s g"),
        "*4 :1 $3 3-0 $3 3-0 *1 *2 $1 c $1 1"
    );
    assert_eq!(run(&server, "XTRIM s MAXLEN 0 ACKED"), ":0");
    assert_eq!(run(&server, "XTRIM s MAXLEN 0 DELREF"), ":2");
    assert_eq!(run(&server, "XPENDING s g"), "*4 :0 $-1 $-1 *-1");
    assert_eq!(run(&server, "EXISTS s"), ":1");
}

#[test]
fn fields_named_like_options_are_fields() {
    let server = Server::new();
    run(&server, "XADD s 1-0 a b");
    run(&server, "XGROUP CREATE s streams 0");
    assert_eq!(
        run(
            &server,
            "XREADGROUP COUNT 5 BLOCK 0 GROUP streams Streams STREAMS s >"
        ),
        "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 a $1 b"
    );
    run(&server, "XADD streams 1-0 a b");
    assert_eq!(
        run(&server, "XREAD STREAMS streams s 0 0-0"),
        "*2 *2 $7 streams *1 *2 $3 1-0 *2 $1 a $1 b *2 $1 s *1 *2 $3 1-0 *2 $1 a $1 b"
    );
}

#[test]
fn resp3_has_streams_in_a_map() {
    let mut server = Server::new();
    server.protocol = Protocol::Resp3;
    run(&server, "XADD s 1-0 a b");
    assert_eq!(
        run(&server, "XREAD STREAMS s 0"),
        "%1 $1 s *1 *2 $3 1-0 *2 $1 a $1 b"
    );
    assert_eq!(run(&server, "XREAD STREAMS s 1"), "_");
    let info = run(&server, "XINFO STREAM s");
    assert!(info.starts_with("%16 $6 length :1 "), "{info}");
    assert!(
        info.ends_with("$10 last-entry *2 $3 1-0 *2 $1 a $1 b"),
        "{info}"
    );
}

#[test]
fn the_lag_of_a_group_is_reported_if_it_is_known() {
    let server = Server::new();
    let lag = |server: &Server| {
        let info = run(server, "XINFO GROUPS s");
        info.split("entries-read ")
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    for id in 1..=5 {
        run(&server, &format!("XADD s {id}-0 n {id}"));
    }
    run(&server, "XGROUP CREATE s g 0");
    assert_eq!(lag(&server), "$-1 $3 lag :5");
    run(&server, "XREADGROUP GROUP g c COUNT 2 STREAMS s >");
    assert_eq!(lag(&server), ":2 $3 lag :3");
    run(&server, "XGROUP SETID s g 3-0");
    assert_eq!(lag(&server), "$-1 $3 lag $-1");
    run(&server, "XREADGROUP GROUP g c COUNT 9 STREAMS s >");
    assert_eq!(lag(&server), ":5 $3 lag :0");
    run(&server, "XADD s 6-0 n 6");
    assert_eq!(lag(&server), ":5 $3 lag :1");
    run(&server, "XGROUP SETID s g 1-0 ENTRIESREAD 1");
    assert_eq!(lag(&server), ":1 $3 lag :5");
    run(&server, "XDEL s 3-0");
    assert_eq!(lag(&server), ":1 $3 lag $-1");
}

/// Waiting clients with the replies they received.
#[derive(Default)]
struct Served(Vec<(u64, String)>);

impl Observer for Served {
    fn changed(&mut self, _: usize, _: &[u8], _: Event, _: Option<ValueRef<'_>>) {}

    fn served(&mut self, waiter: &Arc<Waiter>, reply: Vec<u8>, _: &Outcome) {
        let reply = String::from_utf8(reply).expect("the reply is text");
        let reply = reply.replace("\r\n", " ").trim_end().to_owned();
        self.0.push((waiter.client.client, reply));
    }
}

/// Runs a command that must wait.
fn park(server: &Server, client: u64, line: &str) -> Arc<Waiter> {
    let request: ArgumentList = line.split_whitespace().collect();
    let mut reply = Vec::new();
    let outcome = server.keyspace.execute_waiting(
        ClientTag { lane: 0, client },
        resolve(request.as_arguments()).expect("a command"),
        request.as_arguments(),
        0,
        server.now_ms,
        &mut Writer::new(&mut reply, Protocol::Resp2),
        &mut Served::default(),
    );
    match outcome {
        Outcome::Waiting(waiter) => waiter,
        _ => panic!("{line}: {}", reply.escape_ascii()),
    }
}

/// Runs a command. Returns the clients that it served.
fn serve(server: &Server, line: &str) -> Vec<(u64, String)> {
    let mut served = Served::default();
    let words: Vec<&str> = line.split_whitespace().collect();
    server.run_observed(&words, &mut served);
    served.0
}

#[test]
fn readers_wait_for_new_entries() {
    let server = Server::new();
    run(&server, "XADD s 1-0 a b");
    let waiter = park(&server, 1, "XREAD BLOCK 250 STREAMS s none $ $");
    assert_eq!(waiter.deadline_ms, Some(server.now_ms + 250));
    park(&server, 2, "XREAD BLOCK 0 STREAMS s 5-0");
    assert_eq!(serve(&server, "DEL s"), []);
    assert_eq!(serve(&server, "SET s x"), []);
    run(&server, "DEL s");
    // A recreated stream may reuse ids.
    assert_eq!(serve(&server, "XADD s 1-0 a b"), []);
    let entry = |id: &str| format!("*1 *2 $1 s *1 *2 $3 {id} *2 $1 a $1 b");
    assert_eq!(serve(&server, "XADD s 2-0 a b"), [(1, entry("2-0"))]);
    assert_eq!(serve(&server, "XADD s 6-0 a b"), [(2, entry("6-0"))]);
    assert_eq!(serve(&server, "XADD s 7-0 a b"), []);
}

#[test]
fn one_consumer_gets_an_entry_and_all_are_woken_when_the_group_is_destroyed() {
    let server = Server::new();
    run(&server, "XGROUP CREATE s streams $ MKSTREAM");
    for (client, consumer) in [(1, "Streams"), (2, "b"), (3, "c")] {
        let line = format!("XREADGROUP BLOCK 0 GROUP streams {consumer} STREAMS s >");
        park(&server, client, &line);
    }
    assert_eq!(
        serve(&server, "XADD s 1-0 a b"),
        [(1, "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 a $1 b".to_owned())]
    );
    let gone = "-NOGROUP No such key 's' or consumer group 'streams' in XREADGROUP with GROUP \
                option";
    assert_eq!(
        serve(&server, "XGROUP DESTROY s streams"),
        [(2, gone.to_owned()), (3, gone.to_owned())]
    );
    for (line, error) in [
        ("DEL s", "-NOGROUP "),
        ("SET s x", "-WRONGTYPE "),
        ("FLUSHALL", "-NO"),
    ] {
        run(&server, "DEL s");
        run(&server, "XGROUP CREATE s g $ MKSTREAM");
        park(&server, 4, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >");
        let served = serve(&server, line);
        assert!(served[0].1.starts_with(error), "{line}: {served:?}");
    }
    run(&server, "XGROUP CREATE s g $ MKSTREAM");
    park(&server, 5, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >");
    run(&server, "XGROUP CREATE other g $ MKSTREAM");
    run(&server, "XADD other 9-0 a b");
    assert_eq!(serve(&server, "RENAME other s").len(), 1);
}
