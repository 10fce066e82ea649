//! This server's part where a quorum of machines has its keys: a replica of the stream KEYS, or
//! the master that writes it (`crate::quorum`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_keyspace::{Audience, FileReader, FileRecord, LoadOptions, Snapshot, SnapshotOptions};
use tracing::info;

use super::applying::StreamApplier;
use super::fence::Fence;
use super::log_of;
use super::state::{LinkState, Master, Replication};
use crate::live::LiveObserver;
use crate::server::Server;
use tidewire_lane::unix_ms;

impl Replication {
    /// Takes the part of a replica without a master's address. Its keys are yet to come.
    pub(crate) fn begin_quorum(&self, server: &Server) {
        let other = self.master.lock().replace(quorum_master(b"", true));
        debug_assert!(other.is_none(), "a quorum chooses the master alone");
        self.become_replica(server);
        self.restart_stream(server, 0, 0);
    }

    /// Another hub is the primary, at this address.
    pub(crate) fn follow_primary(&self, server: &Server, id: String, address: &[u8]) {
        let mut master = self.master.lock();
        let is_replacing = master.as_ref().is_some_and(|one| one.is_replacing());
        *master = Some(quorum_master(address, is_replacing));
        drop(master);
        let _stream = self.hold_stream();
        self.rename_history(server, id);
        self.disconnect(server);
    }

    /// Executes whole units of the primary's log, and passes them on; returns the database that is
    /// selected behind them. Fails if they are no commands.
    pub(crate) fn apply_units(
        &self,
        server: &Server,
        bytes: &[u8],
        database: usize,
    ) -> Result<usize, String> {
        let Some(master) = self.master() else {
            return Err("this hub is the primary".to_owned());
        };
        master.heard_ms.store(unix_ms(), Ordering::Relaxed);
        let mut applier = StreamApplier::new(server, &master);
        applier.restart(database);
        let taken = applier.take(bytes).map_err(|error| error.to_string())?;
        match taken == bytes.len() {
            true => Ok(applier.database()),
            false => Err("a unit of the primary's log is not whole".to_owned()),
        }
    }

    /// Loads all keys from a file's parts, which `next_part` gives in their order. The stream goes
    /// on at this offset, with this database selected. If it fails, no key is left.
    pub(crate) fn load_parts(
        &self,
        server: &Server,
        (offset, database): (u64, usize),
        next_part: impl FnMut() -> Result<Option<Vec<u8>>, String>,
    ) -> Result<(), String> {
        let stream = self.hold_stream();
        server.keyspace.set_loading(true);
        let loaded = self.read_parts(server, next_part);
        if loaded.is_err() {
            server.keyspace.clear(&mut LiveObserver(server));
            server.scripting.libraries.flush();
        }
        server.keyspace.set_loading(false);
        if loaded.is_ok() {
            self.restart_stream(server, offset, database);
        }
        drop(stream);
        loaded
    }

    fn read_parts(
        &self,
        server: &Server,
        mut next_part: impl FnMut() -> Result<Option<Vec<u8>>, String>,
    ) -> Result<(), String> {
        let master = self.master().ok_or("this hub is the primary")?;
        let mut applier = StreamApplier::new(server, &master);
        let mut reader = FileReader::new(true);
        let options = LoadOptions {
            // What has expired goes when the primary says so.
            drops_expired: false,
            replaces: true,
            now_ms: unix_ms(),
        };
        loop {
            while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
                match record {
                    FileRecord::Key(record) => {
                        let loaded = server.keyspace.load(&record, options);
                        loaded.map_err(|error| error.to_string())?;
                    }
                    FileRecord::Library(code) => applier.load_library(&code, true),
                    FileRecord::End => return Ok(()),
                    _ => {}
                }
            }
            match next_part()? {
                Some(part) => reader.push(&part),
                None => reader.finish(),
            }
        }
    }

    /// Begins a snapshot of all keys. `None` while another one is made.
    pub(crate) fn begin_snapshot<'a>(
        &self,
        server: &'a Server,
    ) -> Option<(Snapshot<'a>, u64, usize)> {
        let options = SnapshotOptions {
            version: server.parameters.file_version().fitting(),
            compresses: true,
            checks: true,
            aux: Vec::new(),
            libraries: Vec::new(),
            usage: server.parameters.told_usage(),
            now_ms: unix_ms(),
        };
        let stream = self.hold_stream();
        let begun = server.keyspace.begin_snapshot(options, || {
            let libraries = server.scripting.libraries.current();
            (self.position(server), libraries)
        });
        drop(stream);
        let (mut snapshot, (position, libraries)) = begun?;
        let position = position?;
        snapshot.set_libraries(libraries.texts());
        Some((snapshot, position.offset, position.database))
    }

    /// All keys have come: clients may read them.
    pub(crate) fn has_all_keys(&self, server: &Server) {
        if let Some(master) = self.master()
            && master.is_replacing.swap(false, Ordering::AcqRel)
        {
            server.post.owe_all_values();
        }
    }

    /// This server is the primary from now on, and its log goes on at the end of the stream.
    pub(crate) fn become_primary(&self, server: &Server, id: String) {
        self.has_all_keys(server);
        let _stream = self.hold_stream();
        self.rename_history(server, id);
        self.alone_since_ms.store(unix_ms(), Ordering::Relaxed);
        server.keyspace.propagation().open(Audience::Replicas);
        self.forget_master(server);
    }

    /// This server keeps its keys and takes the part of a replica: they stand still, and the log
    /// goes on where it ends. Returns false if `is_over` says so before all lanes have ended what
    /// they had begun.
    pub(crate) fn rest_as_replica(&self, server: &Server, is_over: impl Fn() -> bool) -> bool {
        *self.master.lock() = Some(quorum_master(b"", false));
        self.become_replica(server);
        if !Fence::new(server).wait(server, is_over) {
            return false;
        }
        self.refuse_waits(server);
        self.unblock_clients(server);
        server.follow_memory_score();
        self.disconnect(server);
        let stream = self.hold_stream();
        let (end, database) = (log_of(server).end(), log_of(server).database().unwrap_or(0));
        self.change_id();
        self.restart_stream(server, end, database);
        drop(stream);
        true
    }

    /// This server is no primary any more: it removes all keys, to get those of the stream. Returns
    /// false if `is_over` says so before all lanes have ended what they had begun.
    pub(crate) fn leave_primary(&self, server: &Server, is_over: impl Fn() -> bool) -> bool {
        *self.master.lock() = Some(quorum_master(b"", true));
        self.become_replica(server);
        if !Fence::new(server).wait(server, is_over) {
            return false;
        }
        self.refuse_waits(server);
        self.unblock_clients(server);
        server.follow_memory_score();
        server.durability.suspend_log(server);
        self.disconnect(server);
        let stream = self.hold_stream();
        server.keyspace.propagation().close(Audience::Replicas);
        server.keyspace.set_loading(true);
        server.keyspace.clear(&mut LiveObserver(server));
        server.scripting.libraries.flush();
        server.keyspace.set_loading(false);
        self.change_id();
        self.restart_stream(server, 0, 0);
        drop(stream);
        server.durability.resume_log(server);
        info!("all keys are removed; those of the stream KEYS are loaded");
        true
    }

    /// Offset behind the last change; each change is a whole unit.
    pub(crate) fn log_end(&self, server: &Server) -> u64 {
        log_of(server).end()
    }

    /// Appends the bytes between two offsets of the log to `out`. `None` if it has them no more.
    pub(crate) fn read_log(
        &self,
        server: &Server,
        (from, end): (u64, u64),
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let mut at = from;
        while at < end {
            let next = log_of(server)
                .read(at, (end - at) as usize, out)
                .ok()
                .filter(|next| *next > at)?;
            at = next;
        }
        Some(())
    }
}

/// The primary as a master that is connected.
fn quorum_master(address: &[u8], is_replacing: bool) -> Arc<Master> {
    let text = String::from_utf8_lossy(address);
    let (host, port) = text.rsplit_once(':').unwrap_or((&text, "0"));
    let master = Master::new(host.to_owned(), port.parse().unwrap_or(0), false);
    master
        .state
        .store(LinkState::Connected as u8, Ordering::Release);
    master.is_replacing.store(is_replacing, Ordering::Release);
    Arc::new(master)
}
