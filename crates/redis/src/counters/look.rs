//! What one look at the server has found. What several counters need is computed once, when the
//! first of them is read.

use std::cell::OnceCell;
use std::fmt::{Debug, Formatter};
use std::ops::Deref;
use std::sync::Arc;

use tidewire_keyspace::{Census, DATABASES, Totals};
use tidewire_lane::{unix_ms, unix_ns};

use crate::clients::Client;
use crate::memory::resident_bytes;
use crate::rates::Rate;
use crate::replication::{Master, ReplicaStatus};
use crate::server::Server;
use crate::session::StreamStatus;
use crate::statistics::CommandCounts;
use crate::threads::Share;

/// One look at a server.
pub struct ServerLook<'a> {
    server: &'a Server,
    pub(super) unix_ns: u64,
    /// The caller is no lane: it must not wait for shards.
    is_beside_lanes: bool,
    found: Found,
}

/// What was computed until now.
#[derive(Default)]
struct Found {
    used: OnceCell<u64>,
    resident: OnceCell<u64>,
    held: OnceCell<HeldMemory>,
    clients: OnceCell<Vec<Arc<Client>>>,
    census: OnceCell<Census>,
    totals: OnceCell<Totals>,
    rate: OnceCell<Rate>,
    stream: OnceCell<StreamStatus>,
    replicas: OnceCell<Vec<ReplicaStatus>>,
    master: OnceCell<Option<Arc<Master>>>,
    second_history: OnceCell<Option<(String, u64)>>,
    commands: OnceCell<Vec<(&'static str, CommandCounts)>>,
    threads: OnceCell<Vec<Share>>,
}

impl Deref for ServerLook<'_> {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.server
    }
}

impl Debug for ServerLook<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Look at {} ns", self.unix_ns)
    }
}

impl<'a> ServerLook<'a> {
    /// Of a lane, at the time of its turn.
    pub(crate) fn of_lane(server: &'a Server, unix_ns: u64) -> Self {
        Self::new(server, unix_ns, false)
    }

    /// Of a thread that is no lane.
    pub(crate) fn beside_lanes(server: &'a Server) -> Self {
        Self::new(server, unix_ns(), true)
    }

    fn new(server: &'a Server, unix_ns: u64, is_beside_lanes: bool) -> Self {
        Self {
            server,
            unix_ns,
            is_beside_lanes,
            found: Found::default(),
        }
    }

    pub(super) fn used(&self) -> u64 {
        *self.found.used.get_or_init(|| self.usage.look())
    }

    pub(super) fn resident(&self) -> u64 {
        *self.found.resident.get_or_init(resident_bytes)
    }

    /// Waits for shards.
    pub(super) fn held(&self) -> &HeldMemory {
        debug_assert!(!self.is_beside_lanes);
        let (used, resident) = (self.used(), self.resident());
        self.found
            .held
            .get_or_init(|| HeldMemory::of(self, used, resident))
    }

    /// All clients, replicas too.
    pub(super) fn all_clients(&self) -> &[Arc<Client>] {
        self.found
            .clients
            .get_or_init(|| self.server.clients.list())
    }

    /// For threads beside the lanes.
    pub(super) fn census(&self) -> &Census {
        debug_assert!(self.is_beside_lanes);
        self.found.census.get_or_init(|| self.keyspace.census())
    }

    pub(super) fn totals(&self) -> &Totals {
        self.found
            .totals
            .get_or_init(|| match self.is_beside_lanes {
                true => self.census().totals,
                false => self.keyspace.totals(),
            })
    }

    pub(super) fn rate(&self) -> &Rate {
        self.found.rate.get_or_init(|| {
            let now = self.moment();
            let rate = self.rates.rate(now);
            self.rates.note(now);
            rate
        })
    }

    pub(super) fn stream(&self) -> &StreamStatus {
        self.found.stream.get_or_init(|| StreamStatus::of(self))
    }

    /// Bytes of the stream that wait for replicas.
    pub(super) fn replica_bytes(&self) -> u64 {
        match self.replication.count() {
            0 => 0,
            _ => self.replication.stream_bytes(self),
        }
    }

    pub(super) fn replicas(&self) -> &[ReplicaStatus] {
        let statuses = || self.replication.statuses(unix_ms());
        self.found.replicas.get_or_init(statuses)
    }

    pub(super) fn master(&self) -> Option<&Master> {
        let master = self.found.master.get_or_init(|| self.replication.master());
        master.as_deref()
    }

    pub(super) fn second_history(&self) -> Option<&(String, u64)> {
        let second = || self.replication.second();
        self.found.second_history.get_or_init(second).as_ref()
    }

    pub(super) fn commands(&self) -> &[(&'static str, CommandCounts)] {
        self.found
            .commands
            .get_or_init(|| self.statistics.commands())
    }

    pub(super) fn threads(&self) -> &[Share] {
        self.found
            .threads
            .get_or_init(|| self.server.threads.shares())
    }
}

/// What the process holds, and for what.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    pub(crate) used: u64,
    pub(crate) peak: u64,
    pub(crate) startup: u64,
    pub(crate) resident: u64,
    /// Buffers and states of clients.
    pub(crate) clients: u64,
    pub(crate) scripts: u64,
    /// Tables of keys, without the keys.
    pub(crate) tables: u64,
}

impl HeldMemory {
    pub(crate) fn now(server: &Server) -> Self {
        // First: what answers the question is not part of the answer.
        let used = server.usage.look();
        Self::of(server, used, resident_bytes())
    }

    fn of(server: &Server, used: u64, resident: u64) -> Self {
        let (scripts, libraries) = (&server.scripting.scripts, &server.scripting.libraries);
        let tables = (0..DATABASES).map(|database| server.keyspace.table_bytes(database));
        let held = Self {
            used,
            peak: server.usage.peak(),
            startup: server.usage.startup().min(used),
            resident,
            clients: server.clients.memory_bytes(),
            scripts: (scripts.memory_bytes() + libraries.memory_bytes()) as u64,
            tables: tables.sum::<usize>() as u64,
        };
        debug_assert!(
            (0.0..=100.0).contains(&held.dataset_percent()) && held.overhead() <= held.used,
            "data and what is not data are parts of what is used"
        );
        held
    }

    /// What is not data.
    pub(crate) fn overhead(&self) -> u64 {
        (self.startup + self.clients + self.scripts + self.tables).min(self.used)
    }

    pub(crate) fn dataset(&self) -> u64 {
        self.used - self.overhead()
    }

    /// Of what came since the start, how much is data.
    pub(crate) fn dataset_percent(&self) -> f64 {
        let net = self.used.saturating_sub(self.startup).max(1);
        (self.dataset() as f64 / net as f64 * 100.0).min(100.0)
    }

    pub(crate) fn peak_percent(&self) -> f64 {
        self.used as f64 / self.peak.max(1) as f64 * 100.0
    }

    /// How many bytes the system gives for one that is in use.
    pub(crate) fn ratio(&self) -> f64 {
        self.resident as f64 / self.used.max(1) as f64
    }

    /// Resident bytes beyond those in use; negative where the system has taken some back.
    pub(crate) fn excess(&self) -> i64 {
        self.resident as i64 - self.used as i64
    }
}
