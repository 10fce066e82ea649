//! The state of durability: its data, and functions that need nothing else. Operations on it are in
//! the files beside this one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use crate::durability::log_files::{LogFolder, LogWriter, Manifest};
use parking_lot::{Condvar, Mutex};
use tidewire_files::{AppendFile, DirectoryLock, Disk};
use tidewire_lane::unix_ms;

use crate::attention::{Attention, Obstacles};
use crate::background::{Background, RunningTask};

/// Snapshots, the append-only file, and what stands in the way of commands because of them.
#[derive(Debug, Default)]
pub struct Durability {
    /// Says why commands may be refused: what is loaded, and what cannot be written.
    pub(crate) attention: Arc<Attention>,
    /// What SHUTDOWN has said of saving, one of the constants below.
    pub(crate) exit: AtomicU8,
    /// The last FLUSHALL after which a file was written.
    pub(crate) flushes_seen: AtomicU64,
    /// Where its files are.
    pub(crate) disk: Disk,
    /// What its jobs run on.
    pub(crate) background: Background,
    /// The process is about to end: no job begins any more.
    pub(crate) is_ending: AtomicBool,
    /// The directory is this process's.
    pub(crate) lock: Mutex<Option<DirectoryLock>>,
    pub(crate) loading: LoadProgress,
    pub(crate) saving: Saving,
    pub(crate) log: AppendOnly,
}

impl Durability {
    pub(crate) fn new(attention: Arc<Attention>, disk: Disk, background: Background) -> Self {
        Durability {
            attention,
            disk,
            background,
            ..Durability::default()
        }
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
    pub(crate) fn disk_failure(&self) -> Option<FailedFile> {
        match self.attention.of_server() {
            now if now.has(Obstacles::SNAPSHOT_FAILED) => Some(FailedFile::Snapshot),
            now if now.has(Obstacles::LOG_FAILED) => Some(FailedFile::Log),
            _ => None,
        }
    }
}

/// A file that could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedFile {
    Snapshot,
    Log,
}

impl FailedFile {
    /// The error of a write that is refused because of it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            FailedFile::Snapshot => MISCONFIGURED,
            FailedFile::Log => LOG_ERROR,
        }
    }
}

/// The append-only file, on or off.
#[derive(Debug, Default)]
pub(crate) struct AppendOnly {
    pub(crate) is_on: AtomicBool,
    /// Held while it is turned on or off: a lane and the master's thread may do so together.
    pub(crate) turning: Mutex<()>,
    /// `appendfsync`, one of the constants below.
    pub(crate) policy: AtomicU8,
    /// `aof-timestamp-enabled`: the time is noted between commands.
    pub(crate) stamps: AtomicBool,
    /// The time that was noted last, seconds since the UNIX epoch.
    pub(crate) stamped_s: AtomicI64,
    /// There is a file to write to.
    pub(crate) is_writing: AtomicBool,
    /// Ended for as long as a master's file of all keys is loaded.
    pub(crate) is_suspended: AtomicBool,
    /// Switched on, and the first base is still to be written: nothing is kept yet.
    pub(crate) is_beginning: AtomicBool,
    /// Held for one write, and never while the disk is waited for. No shard is locked under it.
    pub(crate) writer: Mutex<Option<LogWriter>>,
    /// Offsets in the log: what is written to the file, and what is on the disk.
    pub(crate) written: AtomicU64,
    pub(crate) synced: AtomicU64,
    /// An fsync up to this offset is due now, under every policy.
    pub(crate) wanted: AtomicU64,
    /// There is a switch among the orders.
    pub(crate) switch_ordered: AtomicBool,
    /// The disk is slow: lanes leave writing to the thread.
    pub(crate) is_slow: AtomicBool,
    /// The disk is waited for, and a write of a lane has waited with it.
    pub(crate) is_syncing: AtomicBool,
    pub(crate) yields_to_sync: AtomicBool,
    /// Lanes that hold replies back, a bit each.
    pub(crate) holding: AtomicU64,
    /// The thread sleeps, and for long: a change that is told wakes it.
    pub(crate) is_asleep: AtomicBool,
    pub(crate) is_idle: AtomicBool,
    pub(crate) orders: Mutex<Orders>,
    /// To the thread: there is something to do.
    pub(crate) news: Condvar,
    /// From the thread: something was done.
    pub(crate) done: Condvar,
    pub(crate) files: Mutex<Files>,
    /// Held while the manifest is changed on the disk and in `files`.
    pub(crate) naming: Mutex<()>,
    pub(crate) thread: Mutex<Option<RunningTask>>,
    pub(crate) has_failed: AtomicBool,
    /// New bases that were put in place.
    pub(crate) bases: AtomicU64,
    /// An fsync has failed for what is kept nowhere else: a new base is due.
    pub(crate) in_doubt: AtomicBool,
    /// Bytes of the base and of all increments; and when the base was written.
    pub(crate) bytes: AtomicU64,
    pub(crate) base_bytes: AtomicU64,
    pub(crate) rewrites: Rewrites,
}

/// How rewriting went.
#[derive(Debug)]
pub(crate) struct Rewrites {
    pub(crate) count: AtomicU64,
    pub(crate) has_failed: AtomicBool,
    /// Failures since the last that went well.
    pub(crate) failures: AtomicU64,
    pub(crate) last_took_s: AtomicI64,
    pub(crate) last_try_s: AtomicI64,
}

impl Default for Rewrites {
    fn default() -> Self {
        Rewrites {
            count: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            last_took_s: AtomicI64::new(-1),
            last_try_s: AtomicI64::new(0),
        }
    }
}

/// What the thread is told.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// From this offset on another file is written to.
    pub(crate) switch: Option<(u64, AppendFile)>,
    pub(crate) closing: bool,
}

/// The files that there are.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Where they are, once they were begun.
    pub(crate) folder: Option<LogFolder>,
    pub(crate) manifest: Manifest,
    /// The manifest on the disk leads to all keys.
    pub(crate) is_complete: bool,
    /// How often the append-only file has been begun. A rewrite that began before is of no use.
    pub(crate) beginnings: u64,
}

/// Replies that a lane must not send yet, and until which offset of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Nothing,
    /// Those of clients that have changed something in this turn.
    Writers(u64),
    /// All of this turn: others may have read what is not written.
    Everything(u64),
}

/// What is done in the background, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaveJob {
    /// BGSAVE.
    Snapshot,
    /// BGREWRITEAOF.
    Rewrite,
}

/// What became of a request for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    /// It has begun.
    Started,
    /// It will begin when another has ended.
    Scheduled,
    /// This job is being done already.
    Running,
    /// Another one is.
    Other,
}

/// How snapshots went, and the job that is done.
#[derive(Debug)]
pub(crate) struct Saving {
    pub(crate) jobs: Mutex<Jobs>,
    /// The job is to be given up.
    pub(crate) is_cancelled: AtomicBool,
    pub(crate) last_save_s: AtomicI64,
    pub(crate) last_try_s: AtomicI64,
    /// How long the last one in the background took; -1: there was none.
    pub(crate) last_took_s: AtomicI64,
    pub(crate) has_failed: AtomicBool,
    pub(crate) saves: AtomicU64,
    /// Keys of the snapshot that is being made: written, and in all.
    pub(crate) progress: [AtomicU64; 2],
    /// What the keyspace had counted when the last snapshot began.
    pub(crate) changes_saved: AtomicU64,
}

impl Default for Saving {
    fn default() -> Self {
        Saving {
            jobs: Mutex::default(),
            is_cancelled: AtomicBool::new(false),
            last_save_s: AtomicI64::new(unix_ms() / 1_000),
            last_try_s: AtomicI64::new(0),
            last_took_s: AtomicI64::new(-1),
            has_failed: AtomicBool::new(false),
            saves: AtomicU64::new(0),
            progress: Default::default(),
            changes_saved: AtomicU64::new(0),
        }
    }
}

/// Jobs in the background.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) running: Option<(SaveJob, Instant)>,
    pub(crate) scheduled: Vec<SaveJob>,
}

impl Jobs {
    /// Lets a job begin when the one that runs has ended.
    pub(crate) fn schedule(&mut self, job: SaveJob) {
        debug_assert!(self.running.is_some(), "a job waits for another one");
        if !self.scheduled.contains(&job) {
            self.scheduled.push(job);
        }
        debug_assert!(self.scheduled.len() <= 2, "each job waits once");
    }
}

/// How far loading has come, and what the last one found.
#[derive(Debug, Default)]
pub(crate) struct LoadProgress {
    pub(crate) started_s: AtomicI64,
    pub(crate) total_bytes: AtomicU64,
    pub(crate) loaded_bytes: AtomicU64,
    pub(crate) keys_loaded: AtomicU64,
    pub(crate) keys_expired: AtomicU64,
    /// Keys when the load at the start had ended. Counted then: to count them takes locks that a
    /// script may hold later.
    pub(crate) keys: AtomicU64,
    /// How long the load at the start took, µs.
    pub(crate) took_us: AtomicU64,
    /// Why the load at the start failed.
    pub(crate) failure: Mutex<Option<String>>,
}

pub(crate) const BY_SIGNAL: u8 = 0;
pub(crate) const WITHOUT_SAVING: u8 = 1;
pub(crate) const SAVED: u8 = 2;
pub(crate) const LOADING_TEXT: &str = "LOADING Redis is loading the dataset in memory";
pub(crate) const MISCONFIGURED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
                             unable to persist to disk. Commands that may modify the data set are \
                             disabled, because this instance is configured to report errors \
                             during writes if RDB snapshotting fails (stop-writes-on-bgsave-error \
                             option). Please check the Redis logs for details about the RDB error.";
pub(crate) const LOG_ERROR: &str = "MISCONF Errors writing to the AOF file: see the log";

pub(crate) const EACH_SECOND: u8 = 0;
pub(crate) const NEVER: u8 = 1;
pub(crate) const ALWAYS: u8 = 2;
