//! Clients of the other protocols of all lanes, for CLIENT LIST and CLIENT KILL.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tidewire_lane::ConnectionId;

use crate::access::User;
use crate::clients::Clients;
use crate::counted_bytes::CountedBytes;

/// All connected clients of the native feed, the ZeroMQ ports, the gateway and the web port.
#[derive(Debug, Default)]
pub struct OtherClients {
    by_place: Mutex<BTreeMap<Place, Arc<OtherClient>>>,
    /// Bytes that all web pages hold together.
    pages_bytes: AtomicI64,
}

/// A lane, and a connection of it.
type Place = (usize, ConnectionId);

/// One of them. Its lane writes; any thread reads.
#[derive(Debug)]
pub struct OtherClient {
    pub(crate) lane: usize,
    pub(crate) connection: ConnectionId,
    /// `HOST:PORT` of the client.
    pub(crate) address: String,
    /// `HOST:PORT` that it connected to.
    pub(crate) local_address: String,
    /// When it connected, ns since the UNIX epoch.
    pub(crate) connected_unix_ns: u64,
    /// The user that it is, once it has logged in.
    pub(crate) user: Mutex<Option<Arc<User>>>,
    /// What CLIENT LIST shows of it, if it is a web page with a stream.
    page: OnceLock<PageClient>,
}

/// A web page as CLIENT LIST shows it.
#[derive(Debug)]
pub(crate) struct PageClient {
    /// A number of its own among all clients.
    pub(crate) id: u64,
    name: String,
    state: PageNumbers,
}

#[derive(Debug, Default)]
struct PageNumbers {
    active_unix_ns: AtomicU64,
    channels: AtomicU32,
    patterns: AtomicU32,
    pending_bytes: AtomicU64,
    memory_bytes: CountedBytes,
    behind: AtomicU64,
    conflated: AtomicU64,
}

/// The state of a web page, as its lane sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageState {
    /// When it last sent something, ns since the UNIX epoch.
    pub active_unix_ns: u64,
    /// Number of channels and topics that it names.
    pub channels: u32,
    /// Number of its patterns.
    pub patterns: u32,
    /// Bytes that it has not read.
    pub pending_bytes: u64,
    /// About what it holds.
    pub memory_bytes: u64,
    /// Topics with changes that it has not asked for.
    pub behind: u64,
    /// Updates of which it was told only a later one.
    pub conflated: u64,
}

impl OtherClients {
    /// Registers a client of a lane: where it is, and what it connected to.
    pub fn connect(
        &self,
        (lane, connection): (usize, ConnectionId),
        (address, local_address): (String, String),
        connected_unix_ns: u64,
    ) -> Arc<OtherClient> {
        let client = Arc::new(OtherClient {
            lane,
            connection,
            address,
            local_address,
            connected_unix_ns,
            user: Mutex::default(),
            page: OnceLock::new(),
        });
        let place = (lane, connection);
        let other = self.by_place.lock().insert(place, client.clone());
        debug_assert!(other.is_none(), "a connection is one client");
        client
    }

    /// Makes a client a web page with this name for itself. CLIENT LIST shows it from now on.
    pub fn show_page(&self, clients: &Clients, client: &OtherClient, name: &[u8]) {
        let printable = |byte: &u8| match byte.is_ascii_graphic() {
            true => char::from(*byte),
            false => '_',
        };
        let page = PageClient {
            id: clients.number_for_other(),
            name: name.iter().take(NAME_BYTES_MAX).map(printable).collect(),
            state: PageNumbers::default(),
        };
        let is_first = client.page.set(page).is_ok();
        debug_assert!(is_first, "a connection becomes a page once");
    }

    /// Notes the state of a web page. Its lane calls this a few times per second.
    pub fn note_page(&self, client: &OtherClient, now: PageState) {
        let Some(page) = client.page.get() else {
            return;
        };
        let state = &page.state;
        let relaxed = Ordering::Relaxed;
        state.active_unix_ns.store(now.active_unix_ns, relaxed);
        state.channels.store(now.channels, relaxed);
        state.patterns.store(now.patterns, relaxed);
        state.pending_bytes.store(now.pending_bytes, relaxed);
        state.behind.store(now.behind, relaxed);
        state.conflated.store(now.conflated, relaxed);
        state.memory_bytes.note(now.memory_bytes, &self.pages_bytes);
    }

    /// Forgets the client of a connection, if there is one.
    pub fn disconnect(&self, lane: usize, connection: ConnectionId) {
        let removed = self.by_place.lock().remove(&(lane, connection));
        if let Some(page) = removed.as_ref().and_then(|client| client.page.get()) {
            page.state.memory_bytes.end(&self.pages_bytes);
        }
    }

    /// Forgets a web page that is to be cut off. Returns whether it was there. Its lane knows of it
    /// later, and what that notes until then counts nothing.
    pub(crate) fn evict(&self, client: &OtherClient) -> bool {
        let Some(page) = client.page() else {
            return false;
        };
        let is_first = page.state.memory_bytes.end(&self.pages_bytes);
        if is_first {
            let place = (client.lane, client.connection);
            self.by_place.lock().remove(&place);
        }
        is_first
    }

    /// Returns about how many bytes all web pages hold.
    pub fn pages_bytes(&self) -> u64 {
        self.pages_bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// Returns the number of web pages that have more than so many bytes to read.
    pub fn slow_pages(&self, bytes: u64) -> usize {
        let pages = self.pages();
        let pending = |page: &PageClient| page.state.pending_bytes.load(Ordering::Relaxed);
        let is_slow =
            |client: &&Arc<OtherClient>| client.page().is_some_and(|page| pending(page) > bytes);
        pages.iter().filter(is_slow).count()
    }

    /// Returns all of them.
    pub(crate) fn list(&self) -> Vec<Arc<OtherClient>> {
        self.by_place.lock().values().cloned().collect()
    }

    /// Returns the web pages.
    pub(crate) fn pages(&self) -> Vec<Arc<OtherClient>> {
        let mut pages = self.list();
        pages.retain(|client| client.page.get().is_some());
        pages
    }
}

impl OtherClient {
    /// Where it is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What CLIENT LIST shows of it, if it is a web page.
    pub(crate) fn page(&self) -> Option<&PageClient> {
        self.page.get()
    }

    /// The line that CLIENT LIST shows of a web page, without a line end. It has the fields of a
    /// Redis client, and two of its own behind them.
    pub(crate) fn describe_page(&self, page: &PageClient, now_unix_ns: u64) -> String {
        let seconds = |since_ns: u64| now_unix_ns.saturating_sub(since_ns) / 1_000_000_000;
        let state = &page.state;
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let active_ns = load(&state.active_unix_ns).max(self.connected_unix_ns);
        let user = self.user.lock();
        let mut line = String::new();
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub={} psub={} \
             ssub=0 multi=-1 watch=0 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 \
             oll=0 omem={} tot-mem={} events=r cmd=NULL user={} redir=-1 resp=3 lib-name=web \
             lib-ver= io-thread={} behind={} conflated={}",
            page.id,
            self.address,
            self.local_address,
            self.connection.index(),
            page.name,
            seconds(self.connected_unix_ns),
            seconds(active_ns),
            if page.is_subscriber() { "P" } else { "N" },
            state.channels.load(Ordering::Relaxed),
            state.patterns.load(Ordering::Relaxed),
            load(&state.pending_bytes),
            page.memory_bytes(),
            user.as_ref().map_or_else(String::new, |user| user.name()),
            self.lane,
            load(&state.behind),
            load(&state.conflated),
        );
        line
    }
}

impl PageClient {
    /// Whether it follows topics.
    pub(crate) fn is_subscriber(&self) -> bool {
        let state = &self.state;
        [&state.channels, &state.patterns]
            .iter()
            .any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// About how many bytes it holds.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.state.memory_bytes.get()
    }
}

/// Longest name of a web page.
const NAME_BYTES_MAX: usize = 64;
