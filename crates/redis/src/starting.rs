//! What the program needs at its start: what was loaded, and whether the hub is ready.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidewire_keyspace::{Command, Flags};
use tidewire_resp::{Arguments, Writer};

use crate::live::LiveObserver;
use crate::parameters::{APPENDDIRNAME, APPENDONLY, DBFILENAME, DIR};
use crate::replication::LinkState;
use crate::server::Server;

/// The data loaded at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The snapshot, or the folder of the append-only file; `None` if nothing was looked for, or
    /// nothing was there.
    pub from: Option<PathBuf>,
    /// Keys that there are.
    pub keys: u64,
    /// Keys of snapshots that were left out because their TTL had passed.
    pub expired: u64,
    /// Bytes read.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

impl Server {
    /// Returns what was loaded at the start, once that is done.
    pub fn loaded(&self) -> Loaded {
        let loading = &self.durability.loading;
        let bytes = loading.loaded_bytes.load(Ordering::Relaxed);
        let directory = PathBuf::from(self.parameters.read(DIR));
        let name = match self.parameters.read(APPENDONLY) {
            true => self.parameters.read(APPENDDIRNAME),
            false => self.parameters.read(DBFILENAME),
        };
        Loaded {
            from: (bytes > 0).then(|| directory.join(name)),
            keys: loading.keys.load(Ordering::Relaxed),
            expired: loading.keys_expired.load(Ordering::Relaxed),
            bytes,
            took: Duration::from_micros(loading.took_us.load(Ordering::Relaxed)),
        }
    }

    /// Why the server is not ready, one line each: keys that are being loaded, and a master that is
    /// not connected.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.durability.is_loading() {
            missing.push("loading the keys".to_owned());
        }
        if let Some(master) = self.replication.master()
            && master.state() != LinkState::Connected
        {
            let (host, port, state) = (&master.host, master.port, master.state().name());
            missing.push(format!("master {host}:{port}: {state}"));
        }
        missing.extend(self.quorum.missing());
        missing
    }

    /// Executes a command that only reads, in database 0, for a peer of another protocol.
    pub fn read(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        now_ms: i64,
        reply: &mut Writer<'_>,
    ) {
        debug_assert!(!command.has(Flags::WRITE), "a write goes through the gate");
        let mut observer = LiveObserver(self);
        let keyspace = &self.keyspace;
        let _ = keyspace.execute(command, arguments, 0, now_ms, reply, &mut observer);
    }

    /// Whether this server follows another one.
    pub fn is_replica(&self) -> bool {
        self.replication.master().is_some()
    }

    /// Bounds `maxclients` by what the system's limit on open files allows, from now on.
    pub fn limit_clients(&self, most: u64) {
        self.parameters.limit_clients(most);
    }

    /// Calls `follow` with each new value of the parameter `loglevel`.
    pub fn follow_log_level(&self, follow: fn(&str)) {
        self.parameters.follow_log_level(follow);
    }
}
