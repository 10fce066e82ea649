//! Redis clients as CLIENT LIST shows them, over all lanes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_lane::ConnectionId;

use crate::access::User;
use crate::tracking::{self, ClientTracking};

/// All connected Redis clients, by id.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
}

/// One connected Redis client. Its lane writes, anybody reads.
#[derive(Debug)]
pub struct Client {
    /// Number from 1, never reused.
    pub id: u64,
    /// The lane that owns the connection.
    pub lane: usize,
    /// The connection in that lane.
    pub connection: ConnectionId,
    /// `HOST:PORT` of the client.
    pub address: String,
    /// `HOST:PORT` that it connected to.
    pub local_address: String,
    /// When it connected, ns since the UNIX epoch.
    pub connected_unix_ns: u64,
    /// The user that it is.
    pub(crate) user: Mutex<Arc<User>>,
    /// What CLIENT SETNAME and SETINFO say.
    pub labels: Mutex<Labels>,
    /// When it last sent a command, ns since the UNIX epoch.
    pub active_unix_ns: AtomicU64,
    /// Selected database.
    pub database: AtomicU32,
    /// Protocol version, 2 or 3.
    pub protocol: AtomicU32,
    /// Channels subscribed to.
    pub channels: AtomicU32,
    /// Shard channels subscribed to.
    pub shard_channels: AtomicU32,
    /// Patterns subscribed to.
    pub patterns: AtomicU32,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// Commands executed.
    pub commands: AtomicU64,
    /// Bytes received and not executed yet.
    pub query_bytes: AtomicU64,
    /// Bytes waiting to be sent.
    pub output_bytes: AtomicU64,
    /// Name of the last command.
    pub last_command: Mutex<&'static str>,
    /// Commands queued since MULTI; -1 outside a transaction.
    pub multi: AtomicI64,
    /// Keys watched.
    pub watched: AtomicU32,
    /// Whether its command has not ended.
    pub blocked: AtomicBool,
    /// CLIENT TRACKING.
    pub tracking: ClientTracking,
    /// Whether it is shown all commands.
    pub monitors: AtomicBool,
    /// Whether it is a replica.
    pub is_replica: AtomicBool,
}

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub library: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
}

impl Clients {
    /// Registers a client.
    pub(crate) fn connect(
        &self,
        lane: usize,
        connection: ConnectionId,
        address: String,
        local_address: String,
        unix_ns: u64,
        user: Arc<User>,
    ) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            lane,
            connection,
            address,
            local_address,
            connected_unix_ns: unix_ns,
            user: Mutex::new(user),
            labels: Mutex::default(),
            active_unix_ns: AtomicU64::new(unix_ns),
            database: AtomicU32::new(0),
            protocol: AtomicU32::new(2),
            channels: AtomicU32::new(0),
            shard_channels: AtomicU32::new(0),
            patterns: AtomicU32::new(0),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            commands: AtomicU64::new(0),
            query_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            last_command: Mutex::new("NULL"),
            multi: AtomicI64::new(-1),
            watched: AtomicU32::new(0),
            blocked: AtomicBool::new(false),
            tracking: ClientTracking::default(),
            monitors: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
        });
        self.by_id.lock().insert(client.id, client.clone());
        client
    }

    /// Forgets a client.
    pub fn disconnect(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// A client by its number.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// Number of clients now.
    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Clients that have connected since the start.
    pub fn total(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// The clients, by id.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.by_id.lock().values().cloned().collect()
    }
}

impl Client {
    /// Whether it is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self.address.parse::<std::net::SocketAddr>() {
            Ok(address) => address.ip().to_canonical().is_loopback(),
            Err(_) => true,
        }
    }

    /// Whether it is in pub/sub mode.
    pub fn is_subscriber(&self) -> bool {
        [&self.channels, &self.patterns, &self.shard_channels]
            .iter()
            .any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Notes whether its command has not ended.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
    }

    /// The line that CLIENT LIST and CLIENT INFO show, without a line end.
    pub fn describe(&self, now_unix_ns: u64, is_blocked: bool) -> String {
        let seconds = |since_ns: u64| now_unix_ns.saturating_sub(since_ns) / 1_000_000_000;
        let labels = self.labels.lock().clone();
        let multi = self.multi.load(Ordering::Relaxed);
        let flags: String = [
            ('O', self.monitors.load(Ordering::Relaxed)),
            ('S', self.is_replica.load(Ordering::Relaxed)),
            ('P', self.is_subscriber()),
            ('x', multi >= 0),
            ('b', is_blocked),
            ('t', self.tracking.has(tracking::ON)),
            ('R', self.tracking.has(tracking::BROKEN)),
            ('B', self.tracking.has(tracking::BCAST)),
            ('U', self.address == "local"),
            ('e', self.no_evict.load(Ordering::Relaxed)),
            ('T', self.no_touch.load(Ordering::Relaxed)),
        ]
        .into_iter()
        .filter_map(|(letter, is_set)| is_set.then_some(letter))
        .collect();
        let query_bytes = self.query_bytes.load(Ordering::Relaxed);
        let output_bytes = self.output_bytes.load(Ordering::Relaxed);
        let mut line = String::new();
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} \
             ssub={} multi={multi} watch={} qbuf={query_bytes} qbuf-free=0 argv-mem=0 multi-mem=0 \
             rbs=0 rbp=0 obl=0 oll=0 omem={output_bytes} tot-mem={} events=r cmd={} user={} \
             redir={} resp={} lib-name={} lib-ver={} io-thread={} tot-cmds={}",
            self.id,
            self.address,
            self.local_address,
            self.connection.index(),
            labels.name,
            seconds(self.connected_unix_ns),
            seconds(self.active_unix_ns.load(Ordering::Relaxed)),
            if flags.is_empty() { "N" } else { &flags },
            self.database.load(Ordering::Relaxed),
            self.channels.load(Ordering::Relaxed),
            self.patterns.load(Ordering::Relaxed),
            self.shard_channels.load(Ordering::Relaxed),
            self.watched.load(Ordering::Relaxed),
            query_bytes + output_bytes,
            *self.last_command.lock(),
            self.user.lock().name(),
            self.tracking.redirect(),
            self.protocol.load(Ordering::Relaxed),
            labels.library,
            labels.library_version,
            self.lane,
            self.commands.load(Ordering::Relaxed),
        );
        line
    }
}
