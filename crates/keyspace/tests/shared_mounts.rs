//! Clients that track, have read or watch the topics of a shared mount.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{NOW_MS, Server};
use tidewire_keyspace::{
    Bare, Changer, Event, Mount, NullObserver, Observer, ShardSet, Trackers, ValueRef, WatchedKey,
};

/// Topics of another hub: values, and the number of their last change.
#[derive(Debug, Default)]
struct Remote {
    topics: Mutex<BTreeMap<Vec<u8>, (&'static str, u64)>>,
    has_own: bool,
}

impl Remote {
    fn find(&self, key: &[u8]) -> Option<(&'static str, u64)> {
        self.topics.lock().unwrap().get(key).copied()
    }
}

impl Mount for Remote {
    fn prefix(&self) -> &[u8] {
        b"live:"
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn tells_changes(&self) -> bool {
        !self.has_own
    }

    fn claims(&self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.claims(key)
    }

    fn read(&self, _: &[u8], _: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        false
    }

    fn bare(&self, key: &[u8], out: &mut Vec<u8>) -> Bare {
        let Some((value, _)) = self.find(key) else {
            return Bare::Missing;
        };
        out.extend_from_slice(value.as_bytes());
        Bare::Text
    }

    fn version(&self, key: &[u8]) -> u64 {
        self.find(key).map_or(0, |(_, version)| version)
    }

    fn len(&self) -> usize {
        0
    }

    fn name(&self, _: usize, _: &mut Vec<u8>) -> bool {
        false
    }

    fn write_error(&self, _: &[u8]) -> std::borrow::Cow<'static, str> {
        "READONLY".into()
    }
}

/// What the observer of a client that tracks is told of.
#[derive(Default)]
struct Told(Vec<String>);

impl Observer for Told {
    fn changed(&mut self, _: usize, _: &[u8], _: Event, _: Option<ValueRef<'_>>) {}

    fn modified(&mut self, key: &[u8], by: Changer) {
        self.0.push(format!("{} by {by:?}", key.escape_ascii()));
    }

    fn invalidated(&mut self, key: &[u8], trackers: &Trackers, _: Changer) {
        let clients = trackers.clients();
        self.0.push(format!("{} {clients:?}", key.escape_ascii()));
    }

    fn reader(&mut self) -> Option<u64> {
        Some(7)
    }
}

fn server(has_own: bool) -> (Server, Arc<Remote>) {
    let mut server = Server::new();
    let remote = Arc::new(Remote {
        has_own,
        ..Remote::default()
    });
    server.keyspace.mount(remote.clone());
    (server, remote)
}

/// Gives the topic `live:a` a value, or takes it away. Returns what was told.
fn put(server: &Server, remote: &Remote, topic: Option<(&'static str, u64)>) -> Vec<String> {
    let mut told = Told::default();
    let key = b"live:a";
    server.keyspace.change_shared(key, &mut told, |is_stored| {
        assert!(!is_stored);
        let mut topics = remote.topics.lock().unwrap();
        let before = match topic {
            Some(topic) => topics.insert(key.to_vec(), topic),
            None => topics.remove(&key[..]),
        };
        before != topic
    });
    told.0
}

fn get(server: &Server) -> (String, Vec<String>) {
    let mut told = Told::default();
    let reply = server.run_observed(&["GET", "live:a"], &mut told);
    (String::from_utf8(reply).unwrap(), told.0)
}

/// A client that had read a name before its hub made it was never told, and kept "missing".
#[test]
fn a_name_that_was_read_before_its_topic_came_was_never_invalidated() {
    let (server, remote) = server(false);
    server.keyspace.set_tracking(true, false);
    let nothing = Vec::<String>::new();
    for (topic, reply) in [
        (Some(("1", 1)), "$1\r\n1\r\n"),
        (Some(("2", 2)), "$1\r\n2\r\n"),
        (None, "$-1\r\n"),
    ] {
        get(&server);
        assert_eq!(put(&server, &remote, topic), ["live:a [7]"]);
        assert_eq!(put(&server, &remote, topic), nothing, "it is the same");
        assert_eq!(get(&server), (reply.to_owned(), nothing.clone()));
        assert_eq!(server.keyspace.tracked_keys(), 1);
    }
    let mut told = Told::default();
    server.keyspace.invalidate_shared(b"live:a", &mut told);
    assert_eq!(told.0, ["live:a [7]"]);
    assert_eq!(server.keyspace.tracked_keys(), 0);
}

/// A mount that does not tell of each change says so, and nothing of it is cached.
#[test]
fn a_topic_whose_changes_are_not_all_told_is_invalidated_when_it_is_read() {
    let (server, remote) = server(true);
    server.keyspace.set_tracking(true, false);
    put(&server, &remote, Some(("1", 1)));
    assert_eq!(get(&server).1, ["live:a [7]"]);
    assert_eq!(server.keyspace.tracked_keys(), 0);
}

/// Clients of a prefix (BCAST) were told of no change of a shared mount's topic.
#[test]
fn clients_of_a_prefix_were_not_told_of_the_topics_of_a_shared_mount() {
    let (server, remote) = server(false);
    let nothing = Vec::<String>::new();
    assert_eq!(put(&server, &remote, Some(("1", 1))), nothing);
    server.keyspace.set_tracking(false, true);
    for topic in [Some(("2", 2)), None, Some(("3", 3))] {
        assert_eq!(put(&server, &remote, topic), ["live:a by Server"]);
    }
    server.keyspace.set_tracking(false, false);
    assert_eq!(put(&server, &remote, None), nothing);
}

fn watch(server: &Server) -> WatchedKey {
    server
        .keyspace
        .watch(0, b"live:a", NOW_MS, &mut NullObserver)
}

fn is_unchanged(server: &Server, watched: &WatchedKey) -> bool {
    let mut shards = ShardSet::empty();
    shards.insert_watched(watched);
    let mut locked = server.keyspace.lock(shards);
    let observer = &mut NullObserver;
    server
        .keyspace
        .is_unchanged(&mut locked, watched, NOW_MS, observer)
}

#[test]
fn a_transaction_ran_although_a_watched_topic_had_come_and_gone() {
    let (server, remote) = server(false);
    let watched = watch(&server);
    assert!(is_unchanged(&server, &watched));
    put(&server, &remote, Some(("1", 1)));
    assert!(!is_unchanged(&server, &watched));
    put(&server, &remote, None);
    assert!(!is_unchanged(&server, &watched));
    server.keyspace.unwatch(watched);
    put(&server, &remote, Some(("2", 2)));
    let watched = watch(&server);
    assert!(is_unchanged(&server, &watched));
    put(&server, &remote, None);
    assert!(!is_unchanged(&server, &watched));
    server.keyspace.unwatch(watched);
}

/// The number of changes of a key was compared with that of the topic that took its name.
#[test]
fn a_topic_with_the_number_of_the_watched_key_let_the_transaction_run() {
    let (server, remote) = server(false);
    let first = watch(&server);
    server.line("SET live:a 1");
    let second = watch(&server);
    server.line("DEL live:a");
    for version in 0..4 {
        put(&server, &remote, Some(("1", version)));
        assert!(!is_unchanged(&server, &second), "{version}");
    }
    server.keyspace.unwatch(first);
    server.keyspace.unwatch(second);
}

/// The end of a watch that had begun on a topic ended that of another client on the name.
#[test]
fn an_ended_watch_of_a_topic_took_along_the_watch_of_another_client() {
    let (server, remote) = server(false);
    put(&server, &remote, Some(("1", 1)));
    let of_topic = watch(&server);
    put(&server, &remote, None);
    let of_key = watch(&server);
    server.keyspace.unwatch(of_topic);
    server.line("SET live:a 1");
    assert!(!is_unchanged(&server, &of_key));
    server.keyspace.unwatch(of_key);
}
