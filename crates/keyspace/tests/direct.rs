//! Compares the direct path of commands with the ordinary path: replies, counters, notifications
//! and final state must be the same with any listener.

mod common;

use std::sync::Arc;

use common::{NOW_MS, Random, Server};
use tidewire_keyspace::{
    Audience, Changer, Event, EventClasses, Mount, Observer, RecordedUse, ValueRef, debug_command,
    resolve,
};
use tidewire_resp::{ArgumentList, Writer};

/// All notifications of an observer, as text.
#[derive(Default)]
struct Notifications(Vec<String>);

impl Observer for Notifications {
    fn changed(&mut self, database: usize, key: &[u8], event: Event, value: Option<ValueRef<'_>>) {
        let there = value.is_some();
        let text = format!("{database} {} {event:?} {there}", key.escape_ascii());
        self.0.push(text);
    }

    fn notified(&mut self, database: usize, key: &[u8], event: Event) {
        let text = format!("{database} {} {event:?}", key.escape_ascii());
        self.0.push(text);
    }

    fn modified(&mut self, key: &[u8], _: Changer) {
        self.0.push(format!("modified {}", key.escape_ascii()));
    }
}

#[derive(Debug)]
struct One;

impl Mount for One {
    fn prefix(&self) -> &[u8] {
        b"md:"
    }

    fn contains(&self, key: &[u8]) -> bool {
        key == b"md:one"
    }

    fn read(&self, key: &[u8], fields: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        fields(b"last", b"1");
        self.contains(key)
    }

    fn len(&self) -> usize {
        1
    }

    fn name(&self, position: usize, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(b"md:one");
        position == 0
    }

    fn write_error(&self, _: &[u8]) -> std::borrow::Cow<'static, str> {
        "READONLY it is mounted".into()
    }
}

/// Who is notified.
#[derive(Clone, Copy, Debug)]
enum Listener {
    None,
    Notified,
    Tracking,
    Propagating,
    Counting,
    Watching,
}

struct Pair {
    servers: [Server; 2],
    heard: [Notifications; 2],
}

impl Pair {
    fn new(listener: Listener) -> Self {
        let server = |is_direct| {
            let mut server = Server::new();
            server.is_direct = is_direct;
            server.keyspace.mount(Arc::new(One));
            let keyspace = &server.keyspace;
            match listener {
                Listener::None => {}
                Listener::Notified => {
                    let classes = EventClasses::parse(b"KEAmn").expect("letters");
                    keyspace.set_notifications(classes);
                }
                Listener::Tracking => keyspace.set_tracking(true, true),
                Listener::Propagating => keyspace.propagation().open(Audience::Replicas),
                Listener::Counting => keyspace.set_access(RecordedUse::Frequency, 10, 1),
                Listener::Watching => {
                    for key in KEYS {
                        keyspace.watch(0, key.as_bytes(), NOW_MS, &mut Notifications::default());
                    }
                }
            }
            server
        };
        Pair {
            servers: [server(true), server(false)],
            heard: Default::default(),
        }
    }

    fn run(&mut self, words: &[&str]) {
        let [direct, other] = [0, 1].map(|at| {
            let reply = self.servers[at].run_observed(words, &mut self.heard[at]);
            String::from_utf8_lossy(&reply).into_owned()
        });
        assert_eq!(direct, other, "{words:?}");
    }

    fn advance(&mut self, ms: i64) {
        self.servers
            .iter_mut()
            .for_each(|server| server.now_ms += ms);
    }

    /// Compares everything observable beside the replies.
    fn check(&mut self) {
        assert_eq!(self.heard[0].0, self.heard[1].0);
        let [direct, other] = self.servers.each_ref().map(|server| {
            let mut told = Vec::new();
            let log = server.keyspace.propagation().log(Audience::Replicas);
            log.read(log.oldest(), usize::MAX, &mut told).expect("kept");
            let uses = KEYS.map(|key| server.line(&format!("OBJECT IDLETIME {key}")));
            (server.keyspace.totals(), digest(server), told, uses)
        });
        assert_eq!(direct, other);
    }
}

/// Returns a digest of all keys.
fn digest(server: &Server) -> Vec<u8> {
    let request = ArgumentList::from_slices(&[b"DEBUG", b"DIGEST"]);
    let command = debug_command("digest", 2).expect("a command");
    let mut reply = Vec::new();
    let mut writer = Writer::new(&mut reply, server.protocol);
    let (arguments, observer) = (request.as_arguments(), &mut Notifications::default());
    let keyspace = &server.keyspace;
    let _ = keyspace.execute(command, arguments, 0, server.now_ms, &mut writer, observer);
    reply
}

#[test]
fn both_paths_do_the_same_with_any_listener() {
    for (seed, listener) in [
        Listener::None,
        Listener::Notified,
        Listener::Tracking,
        Listener::Propagating,
        Listener::Counting,
        Listener::Watching,
    ]
    .into_iter()
    .enumerate()
    {
        let long = "long".repeat(1_200);
        let (mut pair, mut random) = (Pair::new(listener), Random(seed as u64 + 1));
        for step in 0..6_000 {
            let (key, value) = (random.pick(&KEYS), random.pick(&VALUES));
            match random.below(20) {
                0..4 => pair.run(&["GET", key]),
                4..7 => pair.run(&["SET", key, value]),
                7 => pair.run(&["INCR", key]),
                8 => pair.run(&["DECR", key]),
                9 => pair.run(&["INCRBY", key, value]),
                10 => pair.run(&["SET", key, value, "PX", "700"]),
                11 => pair.run(&["PEXPIRE", key, "300"]),
                12 => pair.run(&["DEL", key]),
                13 => pair.run(&["RPUSH", key, value]),
                14 => pair.run(&["APPEND", key, value]),
                // Two of the long elements make a long list.
                15 => pair.run(&["RPUSH", key, &long]),
                16 => pair.run(&["LPUSH", key, value, &long, value]),
                17 => pair.run(&["LPUSH", key, value]),
                18 => pair.run(&["LRANGE", key, "0", "-1"]),
                _ => pair.run(&["OBJECT", "ENCODING", key]),
            }
            pair.advance(random.below(400) as i64);
            if step % 100 == 0 {
                pair.check();
            }
        }
        pair.check();
    }
}

#[test]
fn keys_of_other_databases_and_missing_keys_are_not_found() {
    let mut server = Server::new();
    server.line("SET k here");
    server.database = 1;
    assert_eq!(server.line("GET k"), "$-1\r\n");
    server.line("SET k 41");
    server.line("INCR k");
    assert_eq!(server.line("GET k"), "$2\r\n42\r\n");
    server.database = 0;
    assert_eq!(server.line("GET k"), "$4\r\nhere\r\n");
    assert_eq!(server.run(&["GET", ""]), b"$-1\r\n");
    server.database = 99;
    assert!(server.line("GET k").starts_with("-ERR"));
}

#[test]
fn only_long_lists_grow_on_the_direct_path() {
    let server = Server::new();
    let long = "long".repeat(1_200);
    let pushes_directly = |words: &[&str]| {
        let (mut reply, request) = (Vec::new(), words.iter().collect::<ArgumentList>());
        let arguments = request.as_arguments();
        let command = resolve(arguments).expect("a command");
        let mut writer = Writer::new(&mut reply, server.protocol);
        let keyspace = &server.keyspace;
        let done = keyspace.execute_directly(command, None, arguments, 0, NOW_MS, &mut writer);
        (done, String::from_utf8_lossy(&reply).into_owned())
    };
    server.run(&["RPUSH", "list", &long]);
    let refused = (false, String::new());
    assert_eq!(pushes_directly(&["LPUSH", "list", "first"]), refused);
    assert_eq!(pushes_directly(&["LPUSH", "missing", "first"]), refused);
    server.run(&["RPUSH", "list", &long]);
    let done = |count: u64| (true, format!(":{count}\r\n"));
    assert_eq!(
        pushes_directly(&["LPUSH", "list", "first", "before"]),
        done(4)
    );
    assert_eq!(pushes_directly(&["RPUSH", "list", "last"]), done(5));
    assert_eq!(
        server.line("LRANGE list 0 1"),
        "*2\r\n$6\r\nbefore\r\n$5\r\nfirst\r\n"
    );
    assert_eq!(server.line("LINDEX list -1"), "$4\r\nlast\r\n");
    server.line("PEXPIRE list 1000");
    assert_eq!(pushes_directly(&["RPUSH", "list", "x"]), refused);
}

const KEYS: [&str; 8] = ["a", "b", "key:3", "live:x", "md:one", "md:two", "mine", "z"];

const VALUES: [&str; 8] = [
    "1",
    "-17",
    "9223372036854775807",
    "text",
    "",
    "a text that is longer than what stands in an entry of forty-four bytes",
    "007",
    "x",
];
