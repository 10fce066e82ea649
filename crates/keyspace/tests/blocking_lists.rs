//! Blocking list commands.

mod common;

use std::sync::Arc;

use common::{NOW_MS, Server};
use tidewire_keyspace::{ClientTag, Event, Observer, Outcome, ValueRef, Waiter, resolve};
use tidewire_resp::{ArgumentList, Protocol, Writer};

/// Waiting clients with the replies they received.
#[derive(Default)]
struct Served(Vec<(u64, String)>);

impl Observer for Served {
    fn changed(&mut self, _: usize, _: &[u8], _: Event, _: Option<ValueRef<'_>>) {}

    fn served(&mut self, waiter: &Arc<Waiter>, reply: Vec<u8>, _: &Outcome) {
        let reply = String::from_utf8(reply).expect("the reply is text");
        self.0.push((waiter.client.client, reply));
    }
}

/// Runs a command that may wait. Returns its reply, or the waiter.
fn begin(server: &Server, client: u64, line: &str) -> Result<String, Arc<Waiter>> {
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
        Outcome::Waiting(waiter) => Err(waiter),
        _ => Ok(String::from_utf8(reply).expect("the reply is text")),
    }
}

/// Runs a command. Returns the clients that it served.
fn serve(server: &Server, line: &str) -> Vec<(u64, String)> {
    let mut served = Served::default();
    let words: Vec<&str> = line.split_whitespace().collect();
    server.run_observed(&words, &mut served);
    served.0
}

fn pair(first: &str, second: &str) -> String {
    format!(
        "*2\r\n${}\r\n{first}\r\n${}\r\n{second}\r\n",
        first.len(),
        second.len()
    )
}

#[test]
fn existing_elements_are_popped_at_once() {
    let server = Server::new();
    server.line("RPUSH l a b c d e f g");
    assert_eq!(begin(&server, 1, "BLPOP x l 0").unwrap(), pair("l", "a"));
    assert_eq!(begin(&server, 1, "BRPOP l x 0").unwrap(), pair("l", "g"));
    let moved = begin(&server, 1, "BLMOVE l to LEFT RIGHT 0").unwrap();
    assert_eq!(moved, "$1\r\nb\r\n");
    assert_eq!(
        begin(&server, 1, "BRPOPLPUSH l to 0").unwrap(),
        "$1\r\nf\r\n"
    );
    let taken = begin(&server, 1, "BLMPOP 0 2 x l RIGHT COUNT 2").unwrap();
    assert_eq!(taken, "*2\r\n$1\r\nl\r\n*2\r\n$1\r\ne\r\n$1\r\nd\r\n");
    assert_eq!(
        begin(&server, 1, "BLMPOP 0 1 l LEFT").unwrap(),
        "*2\r\n$1\r\nl\r\n*1\r\n$1\r\nc\r\n"
    );
    assert_eq!(server.line("EXISTS l"), ":0\r\n");
    assert_eq!(server.line("LRANGE to 0 -1"), pair("f", "b"));
    server.line("SET s text");
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    assert_eq!(begin(&server, 1, "BLPOP x s 0").unwrap(), wrong);
    assert_eq!(begin(&server, 1, "BLMOVE s to LEFT LEFT 0").unwrap(), wrong);
}

#[test]
fn waiting_clients_are_served_in_order_of_arrival() {
    let server = Server::new();
    for (client, line) in [
        (1, "BLPOP a b 0"),
        (2, "BRPOP b 0"),
        (3, "BLMPOP 0 1 b LEFT COUNT 5"),
    ] {
        let waiter = begin(&server, client, line).unwrap_err();
        assert_eq!(waiter.deadline_ms, None);
    }
    // A value of another type does not serve them.
    assert_eq!(serve(&server, "SET b text"), []);
    serve(&server, "DEL b");
    let served = serve(&server, "RPUSH b 1 2 3 4");
    assert_eq!(
        served,
        [
            (1, pair("b", "1")),
            (2, pair("b", "4")),
            (
                3,
                "*2\r\n$1\r\nb\r\n*2\r\n$1\r\n2\r\n$1\r\n3\r\n".to_owned()
            ),
        ]
    );
    assert_eq!(server.line("EXISTS b"), ":0\r\n");
    assert_eq!(serve(&server, "RPUSH a 1"), []);
    assert_eq!(server.line("LLEN a"), ":1\r\n");
}

#[test]
fn serving_a_client_may_serve_another_one() {
    let server = Server::new();
    begin(&server, 1, "BLPOP last 0").unwrap_err();
    begin(&server, 2, "BLMOVE middle last RIGHT LEFT 0").unwrap_err();
    begin(&server, 3, "BRPOPLPUSH first middle 1.5").unwrap_err();
    let element = "$1\r\nx\r\n".to_owned();
    assert_eq!(
        serve(&server, "LPUSH first x"),
        [(3, element.clone()), (2, element), (1, pair("last", "x"))]
    );
    server.line("SET target text");
    begin(&server, 4, "BLMOVE source target LEFT LEFT 0").unwrap_err();
    let served = serve(&server, "RPUSH source y");
    assert!(served[0].1.starts_with("-WRONGTYPE"));
    assert_eq!(server.line("LLEN source"), ":1\r\n");
    let itself = begin(&server, 5, "BLMOVE ring ring LEFT RIGHT 0").unwrap_err();
    assert_eq!(serve(&server, "RPUSH ring 1 2").len(), 1);
    assert!(!server.keyspace.give_up(&itself));
    assert_eq!(server.line("LRANGE ring 0 -1"), pair("2", "1"));
}

#[test]
fn timeouts_are_parsed_as_in_redis() {
    let server = Server::new();
    let waiter = begin(&server, 1, "BLPOP l 0.0015").unwrap_err();
    assert_eq!(waiter.deadline_ms, Some(NOW_MS + 2));
    assert!(server.keyspace.give_up(&waiter));
    assert_eq!(serve(&server, "RPUSH l 1"), []);
    for (line, text) in [
        ("BLPOP x nan", "ERR timeout is not a float or out of range"),
        ("BRPOP x -1", "ERR timeout is negative"),
        ("BLPOP x 9223372036854775807", "ERR timeout is out of range"),
        ("BLMOVE x y LEFT UP 0", "ERR syntax error"),
        ("BLMPOP 0 0 x LEFT", "ERR numkeys should be greater than 0"),
        ("BLMPOP x 1 l DOWN", "ERR syntax error"),
        (
            "BLMPOP x 1 l LEFT COUNT 0",
            "ERR count should be greater than 0",
        ),
        (
            "BLMPOP x 1 l LEFT",
            "ERR timeout is not a float or out of range",
        ),
        ("BLMPOP 0 2 l LEFT", "ERR syntax error"),
    ] {
        assert_eq!(
            begin(&server, 1, line).unwrap(),
            format!("-{text}\r\n"),
            "{line}"
        );
    }
    // If the client cannot wait, the reply is that of a timeout.
    assert_eq!(server.line("BLPOP x 0"), "*-1\r\n");
    assert_eq!(server.line("BLMPOP 0 1 x LEFT"), "*-1\r\n");
    assert_eq!(server.line("BLMOVE x y LEFT LEFT 0"), "$-1\r\n");
}
