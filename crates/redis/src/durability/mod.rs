//! What outlives the process: snapshots (RDB files) and the append-only file.
//!
//! Nothing is saved unless it is asked for: by `save`, `appendonly`, or a command. The formats are
//! Redis's own. No process is forked: a thread walks the keys while the lanes go on
//! (`tidewire_keyspace::Snapshot`), another writes what changes to the append-only file.

mod append_only;
mod apply;
mod files;
mod loading;
mod rewriting;
mod saving;
mod tick;
mod writing;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use append_only::AppendOnly;
pub(crate) use append_only::Hold;
pub(crate) use files::remove_stale_of;
use loading::LoadProgress;
pub(crate) use loading::load_slowly;
use parking_lot::Mutex;
use saving::Saving;
pub(crate) use saving::{Job, Requested, dawdle};
use tidewire_durability::SavePoints;
use tidewire_files::DirectoryLock;

use crate::attention::{Attention, Obstacles};
use crate::server::Server;

/// Snapshots, the append-only file, and what stands in the way of commands because of them.
#[derive(Debug, Default)]
pub struct Durability {
    server: OnceLock<Weak<Server>>,
    /// Says why commands may be refused: what is loaded, and what cannot be written.
    attention: Arc<Attention>,
    /// What SHUTDOWN has said of saving, one of the constants below.
    exit: AtomicU8,
    /// The last FLUSHALL after which a file was written.
    flushes_seen: AtomicU64,
    /// The process is about to end: no job begins any more.
    is_ending: AtomicBool,
    /// The directory is this process's.
    lock: Mutex<Option<DirectoryLock>>,
    pub(crate) loading: LoadProgress,
    pub(crate) saving: Saving,
    pub(crate) log: AppendOnly,
}

impl Durability {
    pub(crate) fn new(attention: Arc<Attention>) -> Self {
        Durability {
            attention,
            ..Durability::default()
        }
    }

    /// To be called once, when the hub is made.
    pub(crate) fn attach(&self, server: &Arc<Server>) {
        let _ = self.server.set(Arc::downgrade(server));
    }

    /// The hub, for a thread that does something in the background.
    fn server(&self) -> Option<Arc<Server>> {
        self.server.get()?.upgrade()
    }

    /// Whether the process is about to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Whether the keys are being loaded.
    pub fn is_loading(&self) -> bool {
        self.attention.has(Obstacles::LOADING)
    }

    /// Which file could not be written, if that refuses writes.
    pub(crate) fn disk_failure(&self) -> Option<Disk> {
        match self.attention.of_server() {
            now if now.has(Obstacles::SNAPSHOT_FAILED) => Some(Disk::Snapshot),
            now if now.has(Obstacles::LOG_FAILED) => Some(Disk::Log),
            _ => None,
        }
    }
}

/// A file that could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Snapshot,
    Log,
}

impl Disk {
    /// The error of a write that is refused because of it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Disk::Snapshot => MISCONFIGURED,
            Disk::Log => LOG_ERROR,
        }
    }
}

/// Where files are: the parameter `dir`.
fn directory(server: &Server) -> PathBuf {
    PathBuf::from(server.parameters.text("dir"))
}

pub(crate) fn snapshot_path(server: &Server) -> PathBuf {
    directory(server).join(server.parameters.text("dbfilename"))
}

/// When snapshots are taken by themselves.
fn save_points(server: &Server) -> SavePoints {
    SavePoints::parse(&server.parameters.text("save"))
}

fn is_yes(server: &Server, name: &str) -> bool {
    server.parameters.text(name) == "yes"
}

const BY_SIGNAL: u8 = 0;
const WITHOUT_SAVING: u8 = 1;
const SAVED: u8 = 2;

pub(crate) const LOADING_TEXT: &str = "LOADING Redis is loading the dataset in memory";
const MISCONFIGURED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
                             unable to persist to disk. Commands that may modify the data set are \
                             disabled, because this instance is configured to report errors \
                             during writes if RDB snapshotting fails (stop-writes-on-bgsave-error \
                             option). Please check the Redis logs for details about the RDB error.";
const LOG_ERROR: &str = "MISCONF Errors writing to the AOF file: see the log";
