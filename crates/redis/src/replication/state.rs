//! The state of replication: its data, and functions that need nothing else. Operations on it are
//! in the files beside this one.

use crate::waiting::WaitId;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidewire_files::WholeFile;
use tidewire_keyspace::{DATABASES, OFFSET_MAX};
use tidewire_resp::number::parse_integer;

use super::replica::Replica;
use super::socket::MasterSocket;
use super::stream_lock::StreamLock;

/// The replicas of this server.
#[derive(Debug)]
pub(crate) struct Replication {
    /// What the stream's offsets belong to.
    pub(crate) history: Mutex<History>,
    /// The server that this one follows, if it does.
    pub(crate) master: Mutex<Option<Arc<Master>>>,
    /// Held by the thread that changes keys as a master says.
    pub(crate) applying: Mutex<()>,
    /// Held while a command of the master is executed and passed on, and by each thread that needs
    /// both to be the same.
    pub(crate) stream: StreamLock,
    pub(crate) failover: Failover,
    pub(crate) migration: MigrationSockets,
    pub(crate) replicas: Mutex<Vec<Arc<Replica>>>,
    /// Those that CLIENT KILL has ended, until their lanes have ended the connections.
    pub(crate) leaving: Mutex<Vec<Arc<Replica>>>,
    pub(crate) count: AtomicUsize,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) waits: Mutex<Vec<ReplicaWait>>,
    pub(crate) waiting: AtomicUsize,
    /// When the replicas were last sent a PING, ms since the UNIX epoch.
    pub(crate) pinged_ms: AtomicI64,
    /// How often `repl-diskless-sync-max-replicas` waited for a file.
    pub(crate) enough_came: AtomicU64,
    /// When the last replica left, ms since the UNIX epoch.
    pub(crate) alone_since_ms: AtomicI64,
    pub(crate) full_syncs: AtomicU64,
    pub(crate) partial_syncs: AtomicU64,
    pub(crate) partial_syncs_refused: AtomicU64,
}

/// Which lanes are to be told that there is more.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Those that have replicas, one bit each.
    pub(crate) serving: AtomicU64,
    /// Those that are awake, or have been told.
    pub(crate) told: Vec<AtomicBool>,
}

/// The names of the stream's history.
#[derive(Debug)]
pub(crate) struct History {
    /// 40 hexadecimal digits.
    pub(crate) id: String,
    /// An older name, and the offset up to which it is the same history.
    pub(crate) second: Option<(String, u64)>,
}

impl Default for History {
    fn default() -> Self {
        History {
            id: new_id(),
            second: None,
        }
    }
}

/// Where the stream was when a file of all keys was begun; what the file tells of it.
#[derive(Clone, Debug)]
pub(crate) struct StreamPosition {
    pub(crate) id: String,
    pub(crate) offset: u64,
    /// What a stream that is gone on with has selected.
    pub(crate) database: usize,
}

impl History {
    pub(crate) fn assert_invariants(&self) {
        debug_assert!(
            is_history_id(self.id.as_bytes()),
            "a history's name has 40 letters and digits"
        );
        let second = self.second.as_ref();
        debug_assert!(
            second.is_none_or(|(id, _)| is_history_id(id.as_bytes()) && *id != self.id),
            "the older name is another one, of the same form"
        );
    }
}

impl StreamPosition {
    /// What is told by another server or a file has been checked before.
    pub(crate) fn assert_invariants(&self) {
        debug_assert!(
            is_history_id(self.id.as_bytes()),
            "a position belongs to a history"
        );
        debug_assert!(
            self.offset <= OFFSET_MAX,
            "an offset leaves room for the stream behind it"
        );
        debug_assert!(
            self.database < DATABASES,
            "a stream selects only databases that are there"
        );
    }

    /// As fields of a file, by the names that Redis gives them.
    pub(crate) fn fields(&self) -> [(&'static str, String); 3] {
        [
            ("repl-stream-db", self.database.to_string()),
            ("repl-id", self.id.clone()),
            ("repl-offset", self.offset.to_string()),
        ]
    }
}

/// Whether a word is a history's name.
pub(crate) fn is_history_id(text: &[u8]) -> bool {
    text.len() == ID_LENGTH && text.iter().all(u8::is_ascii_alphanumeric)
}

/// An offset as another server or a file names it, if the stream can be gone on with there.
pub(crate) fn parse_offset(text: &[u8]) -> Option<u64> {
    let offset = u64::try_from(parse_integer(text)?).ok()?;
    (offset <= OFFSET_MAX).then_some(offset)
}

pub(crate) fn new_id() -> String {
    let word = tidewire_lane::unguessable_word;
    let id = format!("{:016x}{:016x}{:08x}", word(), word(), word() as u32);
    debug_assert!(is_history_id(id.as_bytes()), "other servers take the name");
    id
}

/// Whether this master is giving its part to a replica.
#[derive(Debug, Default)]
pub(crate) struct Failover {
    pub(crate) state: AtomicU8,
    pub(crate) current: Mutex<Option<Arc<Attempt>>>,
}

impl Failover {
    /// One load.
    pub(crate) fn is_on(&self) -> bool {
        self.state.load(Ordering::Acquire) != NONE
    }

    /// Whether the replica is being told, so that the handshake says it.
    pub(crate) fn is_under_way(&self) -> bool {
        self.state.load(Ordering::Acquire) == UNDER_WAY
    }

    /// As INFO has it.
    pub(crate) fn name(&self) -> &'static str {
        match self.state.load(Ordering::Acquire) {
            NONE => "no-failover",
            WAITING => "waiting-for-sync",
            _ => "failover-in-progress",
        }
    }
}

/// What FAILOVER asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailoverOrder {
    /// Where the replica can be reached; `None`: the first that has everything. The port may be any
    /// number: a wrong one is that of no replica.
    pub(crate) target: Option<(String, i64)>,
    /// Until when it is waited for, ms since the UNIX epoch.
    pub(crate) deadline_ms: Option<i64>,
    /// After that time the replica becomes the master, even if it lacks writes.
    pub(crate) is_forced: bool,
}

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) order: FailoverOrder,
}

/// Connections that may be used again.
#[derive(Debug, Default)]
pub(crate) struct MigrationSockets {
    pub(crate) kept: Mutex<HashMap<Address, (MasterSocket, Instant)>>,
}

/// Host, port, and the words of AUTH there.
pub(crate) type Address = (String, u16, Vec<Vec<u8>>);

impl MigrationSockets {
    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        let mut kept = self.kept.lock();
        kept.retain(|_, (_, since)| since.elapsed() < KEPT_FOR);
        kept.len()
    }

    pub(crate) fn take(&self, address: &Address) -> Option<MasterSocket> {
        let (socket, since) = self.kept.lock().remove(address)?;
        (since.elapsed() < KEPT_FOR).then_some(socket)
    }

    pub(crate) fn keep(&self, address: Address, socket: MasterSocket) {
        if self.count() < KEPT_MAX {
            self.kept.lock().insert(address, (socket, Instant::now()));
        }
    }
}

/// A client that waits.
#[derive(Debug)]
pub(crate) struct ReplicaWait {
    pub(crate) id: WaitId,
    pub(crate) wanted: Wanted,
}

/// What WAIT or WAITAOF waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Offset of the stream behind all that replicas are to have.
    pub(crate) offset: u64,
    /// How many of them.
    pub(crate) replicas: usize,
    /// Of WAITAOF: they are to have it on their disks.
    pub(crate) file: Option<WantedFile>,
}

/// What of this server's own append-only file is to be on the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedFile {
    pub(crate) offset: u64,
    pub(crate) is_needed: bool,
}

/// The server that this one follows, and how that goes.
#[derive(Debug)]
pub(crate) struct Master {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) state: AtomicU8,
    /// When it was last heard of, ms since the UNIX epoch.
    pub(crate) heard_ms: AtomicI64,
    /// When the link to it went down, ms since the UNIX epoch; 0: it was never up.
    pub(crate) down_since_ms: AtomicI64,
    /// It is a replica of ours that is to take over.
    pub(crate) is_successor: bool,
    pub(crate) is_over: AtomicBool,
    /// It is asked to hand over to this server.
    pub(crate) is_handing_over: AtomicBool,
    /// The redis.conf is to be rewritten once it has handed over.
    pub(crate) owes_conf: AtomicBool,
    /// The keys that were here are gone, and not all of its own have come.
    pub(crate) is_replacing: AtomicBool,
    /// Bytes of its stream that are here and not executed yet: CLIENT PAUSE holds them.
    pub(crate) unexecuted: AtomicU64,
    pub(crate) arriving: Arriving,
    /// To end a read that waits.
    pub(crate) socket: Mutex<Option<MasterSocket>>,
}

/// How far the link with the master is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Connecting = 0,
    /// The handshake is under way: the master has not answered PSYNC yet.
    Handshake = 1,
    /// The file of all keys is on its way.
    Loading = 2,
    Connected = 3,
}

impl LinkState {
    /// As ROLE has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LinkState::Connecting => "connect",
            LinkState::Handshake => "handshake",
            LinkState::Loading => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// The port that REPLICAOF names.
pub(crate) fn parse_port(text: &[u8]) -> Option<u16> {
    u16::try_from(parse_integer(text)?).ok()
}

/// How much of a master's file is here.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    /// It is removed when this is taken.
    pub(crate) file: Mutex<Option<WholeFile>>,
    /// -1: that is not known yet; 0: the master does not say.
    pub(crate) total: AtomicI64,
    pub(crate) read: AtomicI64,
}

impl Arriving {
    /// The master says that a file comes.
    pub(crate) fn announce(&self) {
        self.total.store(-1, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
    }

    /// Bytes in all, and those that are here; as Redis tells them.
    pub(crate) fn bytes(&self) -> [i64; 2] {
        [&self.total, &self.read].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Removes it from the disk: nothing more is written to it.
    pub(crate) fn give_up(&self) {
        let file = self.file.lock().take();
        drop(file);
    }
}

/// Digits of a history's name.
const ID_LENGTH: usize = 40;
pub(crate) const NONE: u8 = 0;
/// Until a replica has everything.
pub(crate) const WAITING: u8 = 1;
/// The replica has been told.
pub(crate) const UNDER_WAY: u8 = 2;
/// How long a connection is kept, and how many are.
const KEPT_FOR: Duration = Duration::from_secs(10);
const KEPT_MAX: usize = 64;
