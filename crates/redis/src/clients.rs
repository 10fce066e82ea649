//! Redis clients of all lanes, as CLIENT LIST shows them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_lane::ConnectionId;

use crate::access::User;
use crate::counted_bytes::CountedBytes;
use crate::other_clients::{OtherClient, OtherClients, PageClient};
use crate::tracked_clients::{self, ClientTracking};

/// All connected Redis clients, by id.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
    /// Numbers that web pages have.
    others: AtomicU64,
    /// Bytes that all clients hold together.
    memory_bytes: AtomicI64,
    evicted: AtomicU64,
    /// Until when no more of them are cut off, because the last time was not enough, monotonic ns.
    evicts_from_ns: AtomicU64,
}

/// One connected Redis client. Its lane writes; any thread reads.
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
    /// The values of CLIENT SETNAME and SETINFO.
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
    /// CLIENT CAPA REDIRECT: it understands the error REDIRECT.
    pub redirects: AtomicBool,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// Bytes received and not executed yet.
    pub query_bytes: AtomicU64,
    /// Announced bytes of the request that has begun; 0 if they are few.
    pub(crate) announced_bytes: AtomicU64,
    /// Bytes that the kernel did not take yet.
    pub output_bytes: AtomicU64,
    /// Bytes of commands queued since MULTI.
    pub queued_bytes: AtomicU64,
    /// Bytes of all that it holds, as counted in the sum of all clients.
    pub(crate) memory_bytes: CountedBytes,
    /// Name of the last command.
    pub last_command: Mutex<&'static str>,
    /// Commands queued since MULTI; -1 outside a transaction.
    pub multi: AtomicI64,
    /// Keys watched.
    pub watched: AtomicU32,
    /// Whether its command has not ended.
    pub blocked: AtomicBool,
    /// The most that its replies have taken lately, bytes.
    pub reply_peak_bytes: AtomicU64,
    /// When that was, ns since the UNIX epoch.
    pub reply_peak_unix_ns: AtomicU64,
    /// CLIENT TRACKING.
    pub tracking: ClientTracking,
    /// Whether it is shown all commands.
    pub monitors: AtomicBool,
    /// Whether it is a replica.
    pub is_replica: AtomicBool,
}

/// A client that may be cut off.
#[derive(Debug)]
enum Holder {
    Client(Arc<Client>),
    Page(Arc<OtherClient>),
}

/// What became of an eviction of clients.
#[derive(Debug)]
pub(crate) struct Eviction {
    /// Lanes and connections of those that are to be cut off.
    pub(crate) connections: Vec<(usize, ConnectionId)>,
    /// Whether the rest hold no more than they may.
    pub(crate) is_enough: bool,
}

/// The names that a client gives itself.
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
            redirects: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            query_bytes: AtomicU64::new(0),
            announced_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            queued_bytes: AtomicU64::new(0),
            memory_bytes: CountedBytes::default(),
            last_command: Mutex::new("NULL"),
            multi: AtomicI64::new(-1),
            watched: AtomicU32::new(0),
            blocked: AtomicBool::new(false),
            reply_peak_bytes: AtomicU64::new(0),
            reply_peak_unix_ns: AtomicU64::new(0),
            tracking: ClientTracking::default(),
            monitors: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
        });
        self.account(&client);
        let other = self.by_id.lock().insert(client.id, client.clone());
        debug_assert!(other.is_none(), "a client's number is given out once");
        client
    }

    /// A number for a client of another protocol, among those of Redis clients.
    pub(crate) fn number_for_other(&self) -> u64 {
        self.others.fetch_add(1, Ordering::Relaxed);
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Forgets a client. Returns whether it was there.
    pub fn disconnect(&self, id: u64) -> bool {
        let Some(client) = self.by_id.lock().remove(&id) else {
            return false;
        };
        debug_assert_eq!(client.id, id, "a client is found by its number");
        let is_first = client.memory_bytes.end(&self.memory_bytes);
        debug_assert!(is_first, "a client is taken out of the list once");
        is_first
    }

    /// Counts what a client holds now. Its lane calls this after a change.
    pub(crate) fn account(&self, client: &Client) {
        let now = client.held_bytes();
        debug_assert!(
            now >= CLIENT_BYTES,
            "a client holds its own memory at least"
        );
        client.memory_bytes.note(now, &self.memory_bytes);
    }

    /// Bytes that all clients hold together.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// Clients that were cut off for what they held, since the start or the last reset.
    pub(crate) fn evicted(&self) -> &AtomicU64 {
        &self.evicted
    }

    /// Returns whether cutting off clients may be of use at this time.
    pub(crate) fn tries_to_evict(&self, now_ns: u64) -> bool {
        now_ns >= self.evicts_from_ns.load(Ordering::Relaxed)
    }

    /// Cuts off no client before this time, monotonic ns.
    pub(crate) fn put_off_eviction(&self, until_ns: u64) {
        self.evicts_from_ns.store(until_ns, Ordering::Relaxed);
    }

    /// Removes the clients and web pages that hold most, until the rest hold at most `bytes_max`,
    /// and returns those that are to be cut off. Clients with CLIENT NO-EVICT stay. If they alone
    /// leave no room for another client, those that hold little stay too: otherwise every new
    /// client would be cut off, and no administrator could change the limit.
    #[cold]
    pub(crate) fn evict(&self, others: &OtherClients, bytes_max: u64) -> Eviction {
        let (mut holders, mut total, mut lasting) = (Vec::new(), 0, 0);
        for client in self.list() {
            let bytes = client.memory_bytes.get();
            total += bytes;
            match client.no_evict.load(Ordering::Relaxed) {
                true => lasting += bytes,
                false => holders.push((bytes, Holder::Client(client))),
            }
        }
        for page in others.pages() {
            let bytes = page.page().map_or(0, PageClient::memory_bytes);
            total += bytes;
            holders.push((bytes, Holder::Page(page)));
        }
        holders.sort_unstable_by_key(|(bytes, _)| *bytes);
        let spared_bytes = match lasting + LITTLE_BYTES > bytes_max {
            true => LITTLE_BYTES,
            false => 0,
        };
        let mut connections = Vec::new();
        while total > bytes_max
            && let Some((bytes, holder)) = holders.pop()
            && bytes > spared_bytes
        {
            total -= bytes;
            // Otherwise another lane does the same, or it has ended.
            if let Some(place) = self.evict_one(others, &holder) {
                self.evicted.fetch_add(1, Ordering::Relaxed);
                connections.push(place);
            }
        }
        Eviction {
            connections,
            is_enough: total <= bytes_max,
        }
    }

    /// Removes a client or a page. Returns where it is, if it was there.
    fn evict_one(&self, others: &OtherClients, holder: &Holder) -> Option<(usize, ConnectionId)> {
        match holder {
            Holder::Client(client) => self.disconnect(client.id).then(|| {
                tracing::info!(client = client.id, address = client.address, "evicted");
                (client.lane, client.connection)
            }),
            Holder::Page(page) => others.evict(page).then(|| {
                tracing::info!(address = page.address, "evicted");
                (page.lane, page.connection)
            }),
        }
    }

    /// A client by its number.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// Number of clients now.
    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }

    /// Whether no client is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Clients that have connected since the start.
    pub fn total(&self) -> u64 {
        let others = self.others.load(Ordering::Relaxed);
        self.last_id.load(Ordering::Relaxed).saturating_sub(others)
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

    /// About how many bytes it holds: buffers, queued commands, watched keys, subscriptions.
    fn held_bytes(&self) -> u64 {
        let of = |count: &AtomicU32, bytes| u64::from(count.load(Ordering::Relaxed)) * bytes;
        let subscriptions: u64 = [&self.channels, &self.shard_channels, &self.patterns]
            .into_iter()
            .map(|count| of(count, SUBSCRIPTION_BYTES))
            .sum();
        let load = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        // A client that announces a long argument counts with it before it arrives.
        let query = load(&self.query_bytes).max(load(&self.announced_bytes));
        let output = match self.is_replica.load(Ordering::Relaxed) {
            // The replication stream counts it.
            true => 0,
            false => load(&self.output_bytes),
        };
        let buffers = query + output + load(&self.queued_bytes);
        let prefixes = self.tracking.prefix_bytes();
        let watched = of(&self.watched, WATCHED_BYTES);
        CLIENT_BYTES + watched + prefixes + subscriptions + buffers
    }

    /// Notes whether its command has not ended.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
    }

    /// Notes how much its replies take; an old peak is forgotten.
    #[inline]
    pub(crate) fn note_replies(&self, bytes: u64, now_unix_ns: u64, forget_after_ns: u64) {
        if bytes >= self.reply_bytes(now_unix_ns, forget_after_ns) {
            self.reply_peak_bytes.store(bytes, Ordering::Relaxed);
            self.reply_peak_unix_ns
                .store(now_unix_ns, Ordering::Relaxed);
        }
    }

    /// The most that its replies have taken lately.
    #[inline]
    fn reply_bytes(&self, now_unix_ns: u64, forget_after_ns: u64) -> u64 {
        let peak_ns = self.reply_peak_unix_ns.load(Ordering::Relaxed);
        match now_unix_ns.saturating_sub(peak_ns) > forget_after_ns {
            true => 0,
            false => self.reply_peak_bytes.load(Ordering::Relaxed),
        }
    }

    /// The letters of what it is; `N` if there is none.
    pub(crate) fn flags(&self, is_blocked: bool) -> String {
        let multi = self.multi.load(Ordering::Relaxed);
        let flags: String = [
            ('O', self.monitors.load(Ordering::Relaxed)),
            ('S', self.is_replica.load(Ordering::Relaxed)),
            ('P', self.is_subscriber()),
            ('x', multi >= 0),
            ('b', is_blocked),
            ('t', self.tracking.has(tracked_clients::ON)),
            ('R', self.tracking.has(tracked_clients::BROKEN)),
            ('B', self.tracking.has(tracked_clients::BCAST)),
            ('U', self.address == "local"),
            ('e', self.no_evict.load(Ordering::Relaxed)),
            ('T', self.no_touch.load(Ordering::Relaxed)),
        ]
        .into_iter()
        .filter_map(|(letter, is_set)| is_set.then_some(letter))
        .collect();
        if flags.is_empty() {
            return "N".to_owned();
        }
        flags
    }

    /// The line that CLIENT LIST and CLIENT INFO show, without a line end.
    pub fn describe(
        &self,
        now_unix_ns: u64,
        is_blocked: bool,
        forget_after_ns: u64,
        shows_capabilities: bool,
    ) -> String {
        let peak_bytes = self.reply_bytes(now_unix_ns, forget_after_ns);
        // Redis sizes its first reply buffer like this.
        let buffer_bytes = peak_bytes.next_power_of_two().clamp(1 << 10, 16 << 10);
        let seconds = |since_ns: u64| now_unix_ns.saturating_sub(since_ns) / 1_000_000_000;
        let labels = self.labels.lock().clone();
        let multi = self.multi.load(Ordering::Relaxed);
        let flags = self.flags(is_blocked);
        let capabilities = match (shows_capabilities, self.redirects.load(Ordering::Relaxed)) {
            (true, true) => " capa=r",
            (true, false) => " capa=",
            (false, _) => "",
        };
        let query_bytes = self.query_bytes.load(Ordering::Relaxed);
        let output_bytes = self.output_bytes.load(Ordering::Relaxed);
        let mut line = String::new();
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={}{capabilities} db={} sub={} \
             psub={} ssub={} multi={multi} watch={} qbuf={query_bytes} qbuf-free=0 argv-mem=0 \
             multi-mem={} rbs={buffer_bytes} rbp={peak_bytes} obl=0 oll=0 omem={output_bytes} \
             tot-mem={} events=r cmd={} user={} \
             redir={} resp={} lib-name={} lib-ver={} io-thread={}",
            self.id,
            self.address,
            self.local_address,
            self.connection.index(),
            labels.name,
            seconds(self.connected_unix_ns),
            seconds(self.active_unix_ns.load(Ordering::Relaxed)),
            flags,
            self.database.load(Ordering::Relaxed),
            self.channels.load(Ordering::Relaxed),
            self.patterns.load(Ordering::Relaxed),
            self.shard_channels.load(Ordering::Relaxed),
            self.watched.load(Ordering::Relaxed),
            self.queued_bytes.load(Ordering::Relaxed),
            self.memory_bytes.get(),
            *self.last_command.lock(),
            self.user.lock().name(),
            self.tracking.redirect(),
            self.protocol.load(Ordering::Relaxed),
            labels.library,
            labels.library_version,
            self.lane,
        );
        line
    }
}

/// A client's state without what it asks for: session, connection, names.
const CLIENT_BYTES: u64 = 2048;
/// As much as a client that only asks short questions holds.
const LITTLE_BYTES: u64 = 16 << 10;
const SUBSCRIPTION_BYTES: u64 = 112;
const WATCHED_BYTES: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::other_clients::PageState;

    fn connect(clients: &Clients) -> Arc<Client> {
        let user =
            Arc::clone(crate::access::AccessControl::new(1, Arc::default(), false).default_user());
        clients.connect(
            0,
            ConnectionId::NONE,
            "a:1".to_owned(),
            "b:2".to_owned(),
            0,
            user,
        )
    }

    #[test]
    fn the_largest_are_cut_off_first_and_no_more_than_needed() {
        let clients = Clients::default();
        let all: Vec<_> = [100_000, 5_000_000, 200_000, 3_000_000, 9_000_000]
            .into_iter()
            .map(|bytes| {
                let client = connect(&clients);
                client.query_bytes.store(bytes, Ordering::Relaxed);
                clients.account(&client);
                client
            })
            .collect();
        all[4].no_evict.store(true, Ordering::Relaxed);
        let others = OtherClients::default();
        assert_eq!(clients.evict(&others, 12_500_000).connections.len(), 1);
        assert!(clients.find(all[1].id).is_none());
        clients.account(&all[1]);
        let sum: u64 = [0, 2, 3, 4]
            .map(|at: usize| all[at].held_bytes())
            .iter()
            .sum();
        assert_eq!((clients.memory_bytes(), clients.len()), (sum, 4));
        for client in all {
            clients.disconnect(client.id);
        }
        assert_eq!(clients.memory_bytes(), 0);
    }

    #[test]
    fn a_web_page_that_holds_most_is_cut_off_first() {
        let (clients, others) = (Clients::default(), OtherClients::default());
        let small = connect(&clients);
        let place = (0, ConnectionId::NONE);
        let page = others.connect(place, ("c:3".to_owned(), "b:2".to_owned()), 0);
        others.show_page(&clients, &page, b"a wall");
        let state = PageState {
            memory_bytes: 1_000_000,
            patterns: 1,
            ..PageState::default()
        };
        others.note_page(&page, state);
        assert_eq!((others.pages_bytes(), clients.total()), (1_000_000, 1));
        let line = page.describe_page(page.page().expect("a page"), 5_000_000_000);
        assert!(line.starts_with("id=2 addr=c:3 laddr=b:2 "), "{line}");
        assert!(
            line.contains(" name=a_wall age=5 idle=5 flags=P "),
            "{line}"
        );
        assert_eq!(clients.evict(&others, 500_000).connections, [place]);
        assert_eq!((others.pages_bytes(), clients.len()), (0, 1));
        clients.disconnect(small.id);
    }

    /// Its bytes stayed, and every client was cut off until a restart.
    #[test]
    fn a_page_that_is_swept_between_its_eviction_and_its_end_counts_nothing() {
        let (clients, others) = (Clients::default(), OtherClients::default());
        let place = (0, ConnectionId::NONE);
        let addresses = || ("c:3".to_owned(), "b:2".to_owned());
        let state = PageState {
            memory_bytes: 6_000_000,
            ..PageState::default()
        };
        for _ in 0..2 {
            let page = others.connect(place, addresses(), 0);
            others.show_page(&clients, &page, b"");
            others.note_page(&page, state);
            let eviction = clients.evict(&others, 1_000_000);
            assert_eq!(
                (&eviction.connections[..], eviction.is_enough),
                (&[place][..], true)
            );
            others.note_page(&page, state);
            assert_eq!(others.pages_bytes(), 0);
            assert!(clients.evict(&others, 1_000_000).connections.is_empty());
            others.disconnect(place.0, place.1);
            others.note_page(&page, state);
            assert_eq!(others.pages_bytes(), 0);
        }
        let page = others.connect(place, addresses(), 0);
        others.show_page(&clients, &page, b"");
        others.note_page(&page, state);
        others.disconnect(place.0, place.1);
        others.note_page(&page, state);
        assert_eq!((others.pages_bytes(), others.list().len()), (0, 0));
    }

    #[test]
    fn a_limit_below_what_must_stay_cuts_off_no_small_client() {
        let (clients, others) = (Clients::default(), OtherClients::default());
        let [lasting, large, small] = [3_000_000, 100_000, 0].map(|bytes| {
            let client = connect(&clients);
            client.query_bytes.store(bytes, Ordering::Relaxed);
            clients.account(&client);
            client
        });
        lasting.no_evict.store(true, Ordering::Relaxed);
        for limit in [2_000_000, 1] {
            let eviction = clients.evict(&others, limit);
            assert!(!eviction.is_enough && clients.find(small.id).is_some());
            assert!(clients.find(large.id).is_none());
        }
        clients.disconnect(lasting.id);
        assert!(clients.evict(&others, 4_000).is_enough);
        assert!(!clients.evict(&others, 1).is_enough && clients.find(small.id).is_some());
    }
}
