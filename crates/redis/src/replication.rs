//! Replicas: servers that follow this one's stream, their offsets, and clients that wait for them.
//!
//! The stream is the log of [`Audience::Replicas`]. A replica first gets a file of all keys. A
//! thread makes the file and hands it to the replica's lane in parts. Then the replica gets the
//! stream from the moment of the file on: its lane copies it out of the log whenever there is more.
//! A thread that appends to the log wakes each lane with replicas once, until that lane has read.

mod applying;
mod failover;
mod fence;
mod file;
mod handover;
mod history;
mod lane;
mod master;
mod migrating;
mod quorum;
mod replica;
mod socket;
pub(crate) mod state;
mod stream_lock;
mod transfer;
mod waits;

pub(crate) use handover::is_sentinel;
pub(crate) use lane::LaneReplicas;
pub(crate) use migrating::Migration;
pub(crate) use replica::{Phase, Replica, ReplicaStatus, WantedOfFile};
pub(crate) use state::{
    FailoverOrder, LinkState, Master, Replication, Wanted, parse_offset, parse_port,
};
pub(crate) use waits::{LastChange, NO_FILE};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tidewire_fanout::bits;
use tidewire_keyspace::{Audience, Log};
use tidewire_lane::MailSender;

use crate::mail::RedisMail;
use crate::parameters::{
    ClientClass, MIN_REPLICAS_MAX_LAG, MIN_REPLICAS_TO_WRITE, Parameters, REPL_BACKLOG_SIZE,
    REPL_BACKLOG_TTL, REPL_PING_REPLICA_PERIOD,
};
use crate::server::Server;
use state::{Failover, Lanes, MigrationSockets};
use stream_lock::StreamLock;

impl Replication {
    pub(crate) fn new(lanes: usize) -> Self {
        assert!(
            lanes <= 64,
            "the lanes with replicas are the bits of a word"
        );
        Replication {
            history: Mutex::default(),
            master: Mutex::default(),
            applying: Mutex::default(),
            stream: StreamLock::default(),
            failover: Failover::default(),
            migration: MigrationSockets::default(),
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
            enough_came: AtomicU64::new(0),
            alone_since_ms: AtomicI64::new(0),
            full_syncs: AtomicU64::new(0),
            partial_syncs: AtomicU64::new(0),
            partial_syncs_refused: AtomicU64::new(0),
        }
    }

    /// Lets a log wake the lanes that have replicas.
    pub(crate) fn follow(&self, log: &Log, mail: &MailSender<RedisMail>) {
        let (lanes, mail) = (self.lanes.clone(), mail.clone());
        log.set_waker(move || {
            let serving = lanes.serving.load(Ordering::Acquire);
            bits(serving).for_each(|lane| lanes.tell(lane, &mail));
        });
    }

    /// The server that this one follows.
    pub(crate) fn master(&self) -> Option<Arc<Master>> {
        self.master.lock().clone()
    }

    /// Ends the connections of all replicas.
    pub(crate) fn disconnect(&self, server: &Server) {
        for replica in self.replicas.lock().iter() {
            let client = &replica.client;
            server
                .mail
                .send(client.lane, RedisMail::Kill(client.connection));
        }
    }

    /// The process ends: files of all keys that are on their way to replicas are given up.
    pub(crate) fn give_up_files(&self) {
        let replicas = self.replicas.lock();
        let loading = replicas.iter().filter(|one| one.phase() == Phase::Loading);
        loading.for_each(|one| one.leave());
    }

    pub(crate) fn add(&self, replica: Arc<Replica>, now_ms: i64) {
        let mut replicas = self.replicas.lock();
        if replicas.is_empty() {
            // The period begins with the first one: nothing but changes comes before its end.
            self.pinged_ms.store(now_ms, Ordering::Relaxed);
        }
        debug_assert!(
            replicas.iter().all(|other| !Arc::ptr_eq(other, &replica)),
            "a replica is added once"
        );
        replicas.push(replica);
        self.count.store(replicas.len(), Ordering::Release);
    }

    /// The connection of a replica has ended.
    pub(crate) fn remove(&self, server: &Server, replica: &Arc<Replica>, now_ms: i64) {
        self.end_following(server, replica, now_ms);
        self.leaving
            .lock()
            .retain(|other| !Arc::ptr_eq(other, replica));
    }

    fn end_following(&self, server: &Server, replica: &Arc<Replica>, now_ms: i64) {
        replica.leave();
        let mut replicas = self.replicas.lock();
        replicas.retain(|other| !Arc::ptr_eq(other, replica));
        self.count.store(replicas.len(), Ordering::Release);
        drop(replicas);
        self.alone_since_ms.store(now_ms, Ordering::Relaxed);
        self.trim(server, server.parameters.read(REPL_BACKLOG_SIZE));
    }

    /// CLIENT KILL: what is kept for a client that is a replica goes at once.
    pub(crate) fn forget(&self, server: &Server, client: u64, now_ms: i64) {
        let mut replicas = self.replicas.lock().clone().into_iter();
        if let Some(replica) = replicas.find(|replica| replica.client.id == client) {
            // Its lane still has what was to be sent: that must not evict a key.
            self.leaving.lock().push(replica.clone());
            self.end_following(server, &replica, now_ms);
        }
    }

    /// Number of replicas in any phase.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// How many replicas are in a phase.
    pub(crate) fn count_in(&self, phase: Phase) -> usize {
        let replicas = self.replicas.lock();
        replicas.iter().filter(|one| one.phase() == phase).count()
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
        let lag_ms_max = parameters.read(MIN_REPLICAS_MAX_LAG) as i64 * 1_000;
        let wanted = parameters.read(MIN_REPLICAS_TO_WRITE) as usize;
        if wanted == 0 || lag_ms_max == 0 {
            return false;
        }
        self.count_good(lag_ms_max, now_ms) < wanted
    }

    /// Number of online replicas that have sent something in the last `lag_ms_max` ms.
    pub(crate) fn count_good(&self, lag_ms_max: i64, now_ms: i64) -> usize {
        let replicas = self.replicas.lock();
        let good = |replica: &&Arc<Replica>| replica.keeps_up(now_ms, lag_ms_max);
        replicas.iter().filter(good).count()
    }

    /// Sends PINGs that are due, and drops the part of the stream that no replica needs.
    pub(crate) fn sweep(&self, server: &Server, now_ms: i64) {
        let log = log_of(server);
        // A replica passes its master's stream on, PINGs and all, and keeps it for as long as it is
        // one.
        let is_master = self.master().is_none();
        if is_master && self.count() == 0 && !server.quorum.is_on() {
            return self.close_when_alone(server, now_ms);
        }
        let period_ms = server.parameters.read(REPL_PING_REPLICA_PERIOD) as i64 * 1_000;
        let is_due = now_ms - self.pinged_ms.load(Ordering::Relaxed) >= period_ms;
        // A replica that is to take over must come to the end.
        let is_ending = server.stop_asked.load(Ordering::Acquire);
        // The file that is saved last tells where the stream ends.
        let has_replicas = self.count() > 0 || !server.quorum.is_on();
        if is_due && has_replicas && is_master && !is_ending && !self.failover.is_on() {
            self.pinged_ms.store(now_ms, Ordering::Relaxed);
            log.append_aside(&[b"PING"]);
        }
        let backlog_bytes = server.parameters.read(REPL_BACKLOG_SIZE);
        let limit = server.parameters.output_limit(ClientClass::Replica);
        log.set_limit(match limit.hard_bytes {
            0 => u64::MAX,
            // Input is put off before it grows, and nothing of it may be dropped.
            _ if server.quorum.is_on() => u64::MAX,
            hard_bytes => hard_bytes.max(backlog_bytes),
        });
        self.trim(server, backlog_bytes);
    }

    /// Drops the part of the stream that no replica needs and that exceeds the backlog.
    fn trim(&self, server: &Server, backlog_bytes: u64) {
        let log = log_of(server);
        let replicas = self.replicas.lock();
        let needed = replicas.iter().filter_map(|replica| replica.needed_from());
        let needed = needed.min().unwrap_or(u64::MAX);
        let needed = needed.min(server.quorum.needed_from());
        debug_assert_eq!(
            self.count(),
            replicas.len(),
            "the count is kept with the list"
        );
        log.trim(needed.min(log.end().saturating_sub(backlog_bytes)));
    }

    /// Trims the stream to `repl-backlog-size`: a replica can go on from there.
    pub(crate) fn trim_backlog(&self, server: &Server) {
        self.trim(server, server.parameters.read(REPL_BACKLOG_SIZE));
    }

    /// Bytes that wait for replicas, beyond the backlog.
    pub(crate) fn stream_bytes(&self, server: &Server) -> u64 {
        let sum = |replicas: &Mutex<Vec<Arc<Replica>>>| -> u64 {
            let replicas = replicas.lock();
            replicas.iter().map(|replica| replica.out_bytes()).sum()
        };
        let out = sum(&self.replicas) + sum(&self.leaving);
        let bytes = log_of(server).memory_bytes() + out;
        bytes.saturating_sub(server.parameters.read(REPL_BACKLOG_SIZE))
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset_statistics(&self) {
        for counter in [
            &self.full_syncs,
            &self.partial_syncs,
            &self.partial_syncs_refused,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Whether lane 0 has to [`sweep`](Self::sweep).
    #[inline]
    pub(crate) fn is_swept(&self, server: &Server) -> bool {
        self.count() > 0 || log_of(server).is_open()
    }

    /// Closes the stream if there was no replica for `repl-backlog-ttl`.
    fn close_when_alone(&self, server: &Server, now_ms: i64) {
        let log = log_of(server);
        if !log.is_open() {
            return;
        }
        let backlog_bytes = server.parameters.read(REPL_BACKLOG_SIZE);
        log.trim(log.end().saturating_sub(backlog_bytes));
        let kept_s = server.parameters.read(REPL_BACKLOG_TTL) as i64;
        let alone_ms = now_ms - self.alone_since_ms.load(Ordering::Relaxed);
        if kept_s != 0 && alone_ms / 1_000 >= kept_s {
            server.keyspace.propagation().close(Audience::Replicas);
            self.change_id();
        }
    }
}

impl Lanes {
    fn tell(&self, lane: usize, mail: &MailSender<RedisMail>) {
        debug_assert!(lane < self.told.len(), "only lanes have replicas");
        if !self.told[lane].swap(true, Ordering::AcqRel) {
            mail.wake(lane);
        }
    }
}

/// The stream that replicas follow.
pub(crate) fn log_of(server: &Server) -> &Log {
    server.keyspace.propagation().log(Audience::Replicas)
}

/// The capability that a hub announces to its master: it reads the newest files of Redis.
pub(crate) const NEWEST_FILES: &str = "tidewire-newest-files";
