//! What the stream's offsets belong to, and this server's part: a master, or a replica.
//!
//! A history has an id, and a server may know it under two: the one it has now, and the one it had
//! until its role or its master changed. A replica that followed either one goes on where it is, as
//! far as both are the same. Redis does the same, so that servers of both kinds may be mixed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidewire_keyspace::Audience;
use tracing::info;

use super::log_of;
use super::state::{Master, Replication, StreamPosition, new_id};
use super::stream_lock::{KeptStream, StreamGuard};
use crate::attention::Obstacles;
use crate::parameters::REPLICAOF;
use crate::replication::state::History;
use crate::server::Server;
use tidewire_lane::unix_ms;

impl Server {
    /// Takes the part of a replica if the parameter `replicaof` says so; to be called before keys
    /// are loaded. The text says what is wrong with the name of the master.
    pub fn take_configured_part(&self) -> Result<(), String> {
        if self.quorum.is_on() {
            if let Some(text) = self.quorum_misfit() {
                return Err(text.to_owned());
            }
            self.attention.set(Obstacles::NOT_CURRENT, true);
            self.replication.begin_quorum(self);
            return Ok(());
        }
        self.replication.take_configured_part(self)
    }

    /// Follows that master, once the keys are loaded.
    pub fn follow_configured_master(&self) {
        self.follow_memory_score();
        self.replication.begin_configured(self);
    }
}

impl Replication {
    /// The name of this server's history: 40 hexadecimal digits.
    pub(crate) fn id(&self) -> String {
        self.history.lock().id.clone()
    }

    /// The name that it had before, and the offset up to which that holds.
    pub(crate) fn second(&self) -> Option<(String, u64)> {
        self.history.lock().second.clone()
    }

    /// Whether a history is this server's up to an offset.
    pub(crate) fn shares(&self, id: &[u8], offset: u64) -> bool {
        let history = self.history.lock();
        let is = |own: &str| id.eq_ignore_ascii_case(own.as_bytes());
        let second = history.second.as_ref();
        is(&history.id) || second.is_some_and(|(own, until)| is(own) && offset <= *until)
    }

    /// Begins another history: no replica can go on from the old one.
    pub(super) fn change_id(&self) {
        *self.history.lock() = History::default();
    }

    /// Gives the history that goes on another name.
    pub(super) fn rename_history(&self, server: &Server, id: String) {
        let mut history = self.history.lock();
        let old = std::mem::replace(&mut history.id, id);
        let end = log_of(server).end();
        info!(
            "Setting secondary replication ID to {old}, valid up to offset: {}. New replication \
             ID is {}",
            end + 1,
            history.id
        );
        history.second = Some((old, end));
        history.assert_invariants();
    }

    /// A master's history, taken over with all its keys.
    pub(super) fn adopt(&self, server: &Server, position: StreamPosition) {
        position.assert_invariants();
        *self.history.lock() = History {
            id: position.id,
            second: None,
        };
        self.restart_stream(server, position.offset, position.database);
    }

    /// Keeps the master's stream where it is, so that the keys and the stream's end belong
    /// together. On a master the shards' locks do. Not to be called by a lane, but for the one that
    /// [bars](Self::bar_stream) it: it may wait.
    pub(crate) fn hold_stream(&self) -> StreamGuard<'_> {
        self.stream.hold()
    }

    /// Keeps the master's stream where it is while a lane saves, removes and loads all keys. `None`
    /// while a command of the master runs, or while its keys replace those that are here.
    pub(crate) fn keep_stream(&self) -> Option<KeptStream<'_>> {
        let kept = self.stream.keep(HOLD_TIME_MAX)?;
        let master = self.master();
        let is_replacing = master.is_some_and(|master| master.is_replacing());
        (!is_replacing).then_some(kept)
    }

    /// Lets no other thread [hold](Self::hold_stream) the stream: none begins a snapshot or
    /// executes what a master sends. For a lane that has the rights of all others and lets shards
    /// go in the middle of a transaction or a script. False if one holds it at the moment.
    pub(crate) fn bar_stream(&self) -> bool {
        self.stream.bar()
    }

    /// Ends [`bar_stream`](Self::bar_stream).
    pub(crate) fn unbar_stream(&self) {
        self.stream.unbar();
    }

    /// Whether this thread bars the stream.
    pub(crate) fn bars_stream(&self) -> bool {
        self.stream.is_barred_here()
    }

    /// Returns the position of the stream, if it is open. The caller has locked every shard and
    /// [holds](Self::hold_stream) the stream.
    pub(crate) fn position(&self, server: &Server) -> Option<StreamPosition> {
        debug_assert!(
            self.stream.is_held(),
            "the keys and the stream's end stand still"
        );
        let log = log_of(server);
        log.is_open().then(|| StreamPosition {
            id: self.id(),
            offset: log.end(),
            database: log.database().unwrap_or(0),
        })
    }

    /// At the start: goes on with the history that the file of all keys tells of. Its replicas, if
    /// this is a master, or its master otherwise, need not begin with all keys again.
    pub(crate) fn restore(&self, server: &Server, position: StreamPosition) {
        position.assert_invariants();
        let is_replica = self.master().is_some();
        info!(
            id = position.id,
            offset = position.offset,
            "the history goes on"
        );
        if is_replica {
            return self.adopt(server, position);
        }
        log_of(server).continue_at(position.offset);
        server.keyspace.propagation().open(Audience::Replicas);
        let mut history = self.history.lock();
        history.second = Some((position.id, position.offset));
        history.assert_invariants();
        drop(history);
        self.alone_since_ms.store(unix_ms(), Ordering::Relaxed);
    }

    /// The stream that is passed on begins here.
    pub(super) fn restart_stream(&self, server: &Server, offset: u64, database: usize) {
        debug_assert!(
            self.master().is_some(),
            "only a replica passes on another server's stream"
        );
        let log = log_of(server);
        log.continue_at(offset);
        server.keyspace.propagation().relay(Audience::Replicas);
        log.relay(b"", database);
    }

    /// Follows the master that a redis.conf names, once
    /// [`begin_configured`](Self::begin_configured) is called: until then it only has its part. The
    /// text says what is wrong with the name.
    fn take_configured_part(&self, server: &Server) -> Result<(), String> {
        let text = server.parameters.read(REPLICAOF);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (host, port) = match words[..] {
            [] => return Ok(()),
            [host, port] => (host, super::parse_port(port.as_bytes())),
            _ => (text.as_str(), None),
        };
        let port = port.ok_or_else(|| format!("replicaof '{text}': expected HOST PORT"))?;
        let master = Arc::new(Master::new(host.to_owned(), port, false));
        let other = self.master.lock().replace(master);
        debug_assert!(other.is_none(), "the configured master is the first");
        self.become_replica(server);
        Ok(())
    }

    /// To be called when the keys are being loaded, or none are.
    fn begin_configured(&self, server: &Server) {
        if let Some(master) = self.master()
            && !server.quorum.is_on()
        {
            super::applying::start(server, master);
        }
    }

    /// REPLICAOF: from now on this server follows another one.
    pub(crate) fn follow_master(&self, server: &Server, master: Master) {
        server.parameters.note_started(REPLICAOF, &master.name());
        let master = Arc::new(master);
        let old = self.master.lock().replace(master.clone());
        if let Some(old) = &old {
            master.note_down();
            old.leave();
        } else {
            self.become_replica(server);
            self.refuse_waits(server);
            self.unblock_clients(server);
            server.follow_memory_score();
        }
        super::applying::start(server, master);
    }

    pub(super) fn become_replica(&self, server: &Server) {
        server.attention.set(Obstacles::FOLLOWS, true);
        // A key ends when the master says so, or, if its TTL was set here, by itself.
        server.keyspace.pause_expiry(i64::MAX);
        server.keyspace.note_own_deadlines(true);
    }

    /// REPLICAOF NO ONE: this server is a master from now on. Its replicas are told by having to
    /// come again: they go on where they are. False if it cannot be just now, because a command of
    /// the master still runs.
    pub(crate) fn follow_nobody(&self, server: &Server) -> bool {
        if self.master().is_none() {
            return true;
        }
        // Between two of the master's commands: what it has told and what is here are the same.
        let Some(_stream) = self.stream.hold_soon(HOLD_TIME_MAX) else {
            return false;
        };
        let Some(old) = self.master() else {
            // Another thread was first: the history has its new name.
            return true;
        };
        if old.is_replacing() {
            // Some of its keys are here, and nothing else.
            return false;
        }
        old.leave();
        server.parameters.note_started(REPLICAOF, "");
        let log = log_of(server);
        match log.is_open() {
            true => {
                self.rename_history(server, new_id());
                self.alone_since_ms.store(unix_ms(), Ordering::Relaxed);
                server.keyspace.propagation().open(Audience::Replicas);
            }
            false => self.change_id(),
        }
        self.forget_master(server);
        info!("MASTER MODE enabled");
        true
    }

    /// The server has no master any more.
    pub(super) fn forget_master(&self, server: &Server) {
        *self.master.lock() = None;
        server.keyspace.note_own_deadlines(false);
        server.keyspace.pause_expiry(0);
        server.attention.set(Obstacles::FOLLOWS, false);
        server.note_shared_reopened();
        server.follow_memory_score();
        self.disconnect(server);
    }
}

/// How long a client waits until the master's last command has ended.
const HOLD_TIME_MAX: Duration = Duration::from_secs(1);
