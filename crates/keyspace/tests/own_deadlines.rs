//! TTLs set by a replica's clients expire on the replica; all others when the master says so.

mod common;

use common::{NOW_MS, Server};
use tidewire_keyspace::{Audience, NullObserver, resolve};
use tidewire_resp::{ArgumentList, Protocol, Writer};

/// Creates a writable replica.
fn replica() -> Server {
    let server = Server::new();
    server.keyspace.pause_expiry(i64::MAX);
    server.keyspace.note_own_deadlines(true);
    server
}

/// Executes a command from the master.
fn execute_propagated(server: &Server, words: &[&str]) {
    let request: ArgumentList = words.iter().collect();
    let command = resolve(request.as_arguments()).expect("a command");
    let mut reply = Vec::new();
    let _ = server.keyspace.execute_told(
        command,
        request.as_arguments(),
        0,
        server.now_ms,
        &mut Writer::new(&mut reply, Protocol::Resp2),
        &mut NullObserver,
    );
}

fn expire(server: &Server, now_ms: i64) -> usize {
    let expired = server.keyspace.expire_due(now_ms, 100, &mut NullObserver);
    assert!(!expired.more);
    expired.count
}

#[test]
fn only_keys_whose_ttl_a_client_has_set_expire_on_a_replica() {
    let server = replica();
    execute_propagated(&server, &["SET", "of the master", "v", "PX", "10"]);
    execute_propagated(&server, &["SET", "both", "v", "PX", "10"]);
    server.run(&["SET", "own", "v", "PX", "20"]);
    server.run(&["SET", "persists", "v", "PX", "20"]);
    server.run(&["PERSIST", "persists"]);
    server.run(&["SET", "longer", "v", "PX", "20"]);
    server.run(&["PEXPIRE", "longer", "40"]);
    server.run(&["SET", "moves", "v", "PX", "20"]);
    server.run(&["RENAME", "moves", "moved"]);
    server.run(&["PEXPIRE", "both", "20"]);
    let file = server.keyspace.propagation().log(Audience::File);
    server.keyspace.propagation().open(Audience::File);
    assert_eq!(server.keyspace.next_deadline_ms(), Some(NOW_MS + 20));
    assert_eq!(expire(&server, NOW_MS + 15), 0);
    // "persists" and "moves" were recorded, but have no TTL or do not exist any more.
    assert_eq!(expire(&server, NOW_MS + 25), 3);
    assert_eq!(server.run(&["DBSIZE"]), b":3\r\n");
    let mut told = Vec::new();
    file.read(0, 1 << 20, &mut told).expect("kept");
    let told = String::from_utf8_lossy(&told).into_owned();
    for key in ["own", "moved", "both"] {
        assert!(
            told.contains(&format!("$3\r\nDEL\r\n${}\r\n{key}\r\n", key.len())),
            "{told}"
        );
    }
    assert_eq!(expire(&server, NOW_MS + 45), 1);
    assert_eq!(server.keyspace.own_deadlines(), 0);
    // After that, keys from a master expire by themselves again.
    server.keyspace.note_own_deadlines(false);
    server.keyspace.pause_expiry(0);
    assert_eq!(expire(&server, NOW_MS + 45), 1);
    assert_eq!(server.run(&["KEYS", "*"]), b"*1\r\n$8\r\npersists\r\n");
}

#[test]
fn a_key_with_many_ttls_is_recorded_once_and_a_full_sync_drops_all() {
    let server = replica();
    for seconds in 1..1_000 {
        server.run(&["SET", "k", "v", "EX", &seconds.to_string()]);
    }
    assert_eq!(server.keyspace.own_deadlines(), 1);
    server.keyspace.clear(&mut NullObserver);
    assert_eq!(server.keyspace.own_deadlines(), 0);
    assert_eq!(expire(&server, i64::MAX), 0);
}
