//! Replicas: who follows this server's stream, how far they are, and who waits for them.
//!
//! The stream is the log of [`Audience::Replicas`]. A replica first gets a file of all keys, made
//! by a thread of its own and handed to the replica's lane part by part; then the stream from the
//! moment of the file on, which its lane copies out of the log whenever there is more. Whoever
//! appends to the log wakes the lanes that have replicas, each once until it has looked.

mod applying;
mod file;
mod lane;
mod master;
mod replica;
mod waits;

use file::FileMaker;
pub(crate) use lane::LaneReplicas;
pub(crate) use master::{LinkState, Master, parse_port};
pub(crate) use replica::{Phase, Replica, WantedOfFile};
use waits::Wait;
pub(crate) use waits::{NO_FILE, Wanted};

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tidewire_keyspace::{Audience, Log};
use tidewire_lane::Mailboxes;

use crate::hub::{Hub, Mail};
use crate::parameters::{ClientClass, Guard, Parameters};

/// The replicas of this server.
#[derive(Debug)]
pub(crate) struct Replication {
    /// The name of the history that the stream's offsets belong to.
    id: Mutex<String>,
    /// The server that this one follows, if it does.
    master: Mutex<Option<Arc<Master>>>,
    /// Held by whoever changes keys as a master says.
    applying: Mutex<()>,
    replicas: Mutex<Vec<Arc<Replica>>>,
    /// Those that CLIENT KILL has ended, until their lanes have ended the connections.
    leaving: Mutex<Vec<Arc<Replica>>>,
    count: AtomicUsize,
    lanes: Arc<Lanes>,
    waits: Mutex<Vec<Wait>>,
    waiting: AtomicUsize,
    /// When the replicas were last sent a PING, ms since the UNIX epoch.
    pinged_ms: AtomicI64,
    /// Since when nobody follows, ms since the UNIX epoch.
    alone_since_ms: AtomicI64,
    pub(crate) full_syncs: AtomicU64,
    pub(crate) partial_syncs: AtomicU64,
    pub(crate) partial_syncs_refused: AtomicU64,
}

/// Which lanes are to be told that there is more.
#[derive(Debug)]
struct Lanes {
    /// Those that have replicas, one bit each.
    serving: AtomicU64,
    /// Those that are awake, or have been told.
    told: Vec<AtomicBool>,
}

/// What INFO and ROLE tell of a replica.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaStatus {
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) phase: Phase,
    pub(crate) acked: u64,
    /// Since it was last heard of, seconds.
    pub(crate) lag_s: i64,
}

impl Replication {
    pub(crate) fn new(lanes: usize) -> Self {
        Replication {
            id: Mutex::new(new_id()),
            master: Mutex::default(),
            applying: Mutex::default(),
            replicas: Mutex::default(),
            leaving: Mutex::default(),
            count: AtomicUsize::new(0),
            lanes: Arc::new(Lanes {
                serving: AtomicU64::new(0),
                told: (0..lanes).map(|_| AtomicBool::new(false)).collect(),
            }),
            waits: Mutex::default(),
            waiting: AtomicUsize::new(0),
            pinged_ms: AtomicI64::new(0),
            alone_since_ms: AtomicI64::new(0),
            full_syncs: AtomicU64::new(0),
            partial_syncs: AtomicU64::new(0),
            partial_syncs_refused: AtomicU64::new(0),
        }
    }

    /// Lets a log wake the lanes that have replicas.
    pub(crate) fn follow(&self, log: &Log, mailboxes: &Mailboxes<Mail>) {
        let (lanes, mailboxes) = (self.lanes.clone(), mailboxes.clone());
        log.set_waker(move || {
            let mut serving = lanes.serving.load(Ordering::Acquire);
            while serving != 0 {
                let lane = serving.trailing_zeros() as usize;
                serving &= serving - 1;
                lanes.tell(lane, &mailboxes);
            }
        });
    }

    /// The name of this server's history: 40 hexadecimal digits.
    pub(crate) fn id(&self) -> String {
        self.id.lock().clone()
    }

    /// Begins another history: what was told before cannot be gone on with.
    pub(crate) fn change_id(&self) {
        *self.id.lock() = new_id();
    }

    /// The server that this one follows.
    pub(crate) fn master(&self) -> Option<Arc<Master>> {
        self.master.lock().clone()
    }

    /// REPLICAOF: from now on this server follows another one, or none. What is told to replicas
    /// ends here; they come again. Locks no shard.
    pub(crate) fn follow_master(&self, hub: &Hub, master: Option<Master>) {
        let master = master.map(Arc::new);
        let old = std::mem::replace(&mut *self.master.lock(), master.clone());
        if let Some(old) = &old {
            old.leave();
        }
        if master.is_none() && old.is_none() {
            return;
        }
        hub.parameters.set_guard(Guard::Replica, master.is_some());
        hub.keyspace.propagation().close(Audience::Replicas);
        self.disconnect(hub);
        self.change_id();
        match master {
            Some(master) => {
                self.refuse_waits(hub);
                // A key ends when the master says so.
                hub.keyspace.pause_expiry(i64::MAX);
                applying::start(hub, master);
            }
            None => hub.keyspace.pause_expiry(0),
        }
    }

    /// Ends the connections of all replicas.
    pub(crate) fn disconnect(&self, hub: &Hub) {
        for replica in self.replicas.lock().iter() {
            let client = &replica.client;
            hub.mailboxes()[client.lane].send(Mail::Kill(client.connection));
        }
    }

    pub(crate) fn add(&self, replica: Arc<Replica>, now_ms: i64) {
        let mut replicas = self.replicas.lock();
        if replicas.is_empty() {
            // The period begins with the first one: nothing but changes comes before its end.
            self.pinged_ms.store(now_ms, Ordering::Relaxed);
        }
        replicas.push(replica);
        self.count.store(replicas.len(), Ordering::Release);
    }

    /// The connection of a replica has ended.
    pub(crate) fn remove(&self, hub: &Hub, replica: &Arc<Replica>, now_ms: i64) {
        self.end_following(hub, replica, now_ms);
        self.leaving
            .lock()
            .retain(|other| !Arc::ptr_eq(other, replica));
    }

    fn end_following(&self, hub: &Hub, replica: &Arc<Replica>, now_ms: i64) {
        replica.leave();
        let mut replicas = self.replicas.lock();
        replicas.retain(|other| !Arc::ptr_eq(other, replica));
        self.count.store(replicas.len(), Ordering::Release);
        drop(replicas);
        self.alone_since_ms.store(now_ms, Ordering::Relaxed);
        self.trim(log_of(hub), hub.parameters.number("repl-backlog-size"));
    }

    /// CLIENT KILL: what is kept for a client that is a replica goes at once.
    pub(crate) fn forget(&self, hub: &Hub, client: u64, now_ms: i64) {
        let mut replicas = self.replicas.lock().clone().into_iter();
        if let Some(replica) = replicas.find(|replica| replica.client.id == client) {
            // Its lane still has what was to be sent: no key must give way to that.
            self.leaving.lock().push(replica.clone());
            self.end_following(hub, &replica, now_ms);
        }
    }

    /// How many there are, whatever their phase.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The replicas in the order in which they came, those that follow or are about to.
    pub(crate) fn statuses(&self, now_ms: i64) -> Vec<ReplicaStatus> {
        let replicas = self.replicas.lock();
        replicas
            .iter()
            .map(|replica| replica.status(now_ms))
            .collect()
    }

    /// Whether writes are refused because too few replicas keep up: the settings
    /// `min-replicas-to-write` and `min-replicas-max-lag`.
    #[cold]
    pub(crate) fn are_too_few(&self, parameters: &Parameters, now_ms: i64) -> bool {
        let lag_ms_max = parameters.number("min-replicas-max-lag") as i64 * 1_000;
        let wanted = parameters.number("min-replicas-to-write") as usize;
        if wanted == 0 || lag_ms_max == 0 {
            return false;
        }
        self.count_good(lag_ms_max, now_ms) < wanted
    }

    /// How many replicas follow, and were heard of within so many ms.
    pub(crate) fn count_good(&self, lag_ms_max: i64, now_ms: i64) -> usize {
        let replicas = self.replicas.lock();
        let good = |replica: &&Arc<Replica>| replica.keeps_up(now_ms, lag_ms_max);
        replicas.iter().filter(good).count()
    }

    /// What is due from time to time: PINGs, and the end of what nobody needs any more.
    pub(crate) fn sweep(&self, hub: &Hub, now_ms: i64) {
        let log = log_of(hub);
        if self.count() == 0 {
            return self.close_when_alone(hub, now_ms);
        }
        let period_ms = hub.parameters.number("repl-ping-replica-period") as i64 * 1_000;
        if now_ms - self.pinged_ms.load(Ordering::Relaxed) >= period_ms {
            self.pinged_ms.store(now_ms, Ordering::Relaxed);
            log.append_aside(&[b"PING"]);
        }
        let backlog_bytes = hub.parameters.number("repl-backlog-size");
        let limit = hub.parameters.output_limit(ClientClass::Replica);
        log.set_limit(match limit.hard_bytes {
            0 => u64::MAX,
            hard_bytes => hard_bytes.max(backlog_bytes),
        });
        self.trim(log, backlog_bytes);
    }

    /// Drops what no replica needs, and what is more than is kept anyway.
    fn trim(&self, log: &Log, backlog_bytes: u64) {
        let replicas = self.replicas.lock();
        let needed = replicas.iter().filter_map(|replica| replica.needed_from());
        let needed = needed.min().unwrap_or(u64::MAX);
        log.trim(needed.min(log.end().saturating_sub(backlog_bytes)));
    }

    /// Bytes that wait for replicas, beyond what is kept of the stream anyway.
    pub(crate) fn stream_bytes(&self, hub: &Hub) -> u64 {
        let sum = |replicas: &Mutex<Vec<Arc<Replica>>>| -> u64 {
            let replicas = replicas.lock();
            replicas.iter().map(|replica| replica.out_bytes()).sum()
        };
        let out = sum(&self.replicas) + sum(&self.leaving);
        let bytes = log_of(hub).memory_bytes() + out;
        bytes.saturating_sub(hub.parameters.number("repl-backlog-size"))
    }

    /// Whether lane 0 has to [`sweep`](Self::sweep).
    #[inline]
    pub(crate) fn is_swept(&self, hub: &Hub) -> bool {
        self.count() > 0 || log_of(hub).is_open()
    }

    /// Nobody has followed for `repl-backlog-ttl`: changes are told no more.
    fn close_when_alone(&self, hub: &Hub, now_ms: i64) {
        let log = log_of(hub);
        if !log.is_open() {
            return;
        }
        let backlog_bytes = hub.parameters.number("repl-backlog-size");
        log.trim(log.end().saturating_sub(backlog_bytes));
        let kept_ms = hub.parameters.number("repl-backlog-ttl") as i64 * 1_000;
        let alone_ms = now_ms - self.alone_since_ms.load(Ordering::Relaxed);
        if kept_ms != 0 && alone_ms >= kept_ms {
            hub.keyspace.propagation().close(Audience::Replicas);
            self.change_id();
        }
    }
}

impl Lanes {
    fn tell(&self, lane: usize, mailboxes: &Mailboxes<Mail>) {
        if !self.told[lane].swap(true, Ordering::AcqRel) {
            mailboxes[lane].send(Mail::ReplicasAdvanced);
        }
    }
}

/// The stream that replicas follow.
pub(crate) fn log_of(hub: &Hub) -> &Log {
    hub.keyspace.propagation().log(Audience::Replicas)
}

fn new_id() -> String {
    let word = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}{:08x}", word(), word(), word() as u32)
}
