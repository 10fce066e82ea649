//! Where this hub's files are, and whose directory it is.

use std::io;

use crate::durability::log_files::LogFolder;
use tidewire_files::remove_stale;
use tidewire_keyspace::SnapshotOptions;

use super::directory;
use super::state::Durability;
use crate::REDIS_VERSION;
use crate::parameters::{APPENDDIRNAME, APPENDFILENAME, RDBCHECKSUM, RDBCOMPRESSION};
use crate::server::Server;
use tidewire_lane::unix_ms;

impl Durability {
    /// Takes the directory `dir` for this process, unless it has it: no other server is to write
    /// there. Removes what processes that have ended left half done.
    pub(super) fn own_directory(&self, server: &Server) -> io::Result<()> {
        let path = directory(server);
        let path = self.disk.canonical(path);
        let mut lock = self.lock.lock();
        if lock.as_ref().is_some_and(|lock| lock.directory() == path) {
            return Ok(());
        }
        *lock = Some(self.disk.lock_folder(&path)?);
        drop(lock);
        let disk = &self.disk;
        let folder = log_folder(server);
        let stale = remove_stale(disk, &path, None) + remove_stale(disk, folder.path(), None);
        if stale > 0 {
            tracing::info!(stale, "removed unfinished files of servers that have ended");
        }
        Ok(())
    }

    /// Whether this process has taken a directory.
    pub(super) fn owns_directory(&self) -> bool {
        self.lock.lock().is_some()
    }
}

/// The folder with the append-only file.
pub(super) fn log_folder(server: &Server) -> LogFolder {
    let folder = directory(server).join(server.parameters.read(APPENDDIRNAME));
    LogFolder::new(
        server.durability.disk.clone(),
        folder,
        server.parameters.read(APPENDFILENAME),
    )
}

/// How a snapshot of this hub is written.
pub(super) fn snapshot_options(server: &Server, is_base: bool) -> SnapshotOptions {
    let aux = [
        ("redis-ver", REDIS_VERSION.to_owned()),
        ("redis-bits", usize::BITS.to_string()),
        ("ctime", (unix_ms() / 1_000).to_string()),
        ("used-mem", crate::memory::resident_bytes().to_string()),
        ("aof-base", u8::from(is_base).to_string()),
    ];
    SnapshotOptions {
        version: match is_base {
            // A rewrite must not fail for a value that the chosen version cannot hold.
            true => server.parameters.file_version().fitting(),
            false => server.parameters.file_version(),
        },
        compresses: server.parameters.read(RDBCOMPRESSION),
        checks: server.parameters.read(RDBCHECKSUM),
        aux: aux.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        // They are those of the snapshot's moment.
        libraries: Vec::new(),
        usage: server.parameters.told_usage(),
        now_ms: unix_ms(),
    }
}
