//! State of the server's smaller parts. The functions that use it are in the file with the part's
//! name.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_keyspace::Evictor;
use tidewire_lane::{ConnectionId, ListenerHandle, monotonic_ns, unix_ns};

use crate::attention::{Attention, Obstacles};
use crate::waiting::WaitId;

/// Whether memory is left below `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is some.
    Enough,
    /// There is none yet: keys are still being evicted.
    Clearing,
    /// There is none, and no key may be evicted.
    Full,
}

/// The state of evictions on all lanes.
#[derive(Debug)]
pub(crate) struct Evictions {
    pub(crate) lanes: Vec<Mutex<Evictor>>,
    /// Since when memory has been full, ns since the UNIX epoch; 0 while it is not.
    pub(crate) full_since_ns: AtomicU64,
    /// For how long it was, all times before that together.
    pub(crate) full_ns: AtomicU64,
    /// When a lane last began to wait for what is freed in the background, monotonic ns.
    pub(crate) waits_since_ns: AtomicU64,
}

impl Evictions {
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            full_since_ns: AtomicU64::new(0),
            full_ns: AtomicU64::new(0),
            waits_since_ns: AtomicU64::new(0),
        }
    }

    /// No key can be evicted, but memory is being freed in the background. Returns whether that
    /// wait has lasted for less than `time_max_ns`. After a second a new wait begins.
    pub(crate) fn waits_no_longer_than(&self, time_max_ns: u64) -> bool {
        self.waits_at(monotonic_ns(), time_max_ns)
    }

    fn waits_at(&self, now_ns: u64, time_max_ns: u64) -> bool {
        let waited_ns = now_ns.saturating_sub(self.waits_since_ns.load(Ordering::Relaxed));
        if waited_ns >= PATIENCE_NS.max(time_max_ns) {
            self.waits_since_ns.store(now_ns, Ordering::Relaxed);
            return true;
        }
        waited_ns < time_max_ns
    }

    /// For how long memory has been full, all in all and just now, ns.
    pub(crate) fn full_ns(&self) -> [u64; 2] {
        let since_ns = self.full_since_ns.load(Ordering::Relaxed);
        let now_ns = match since_ns {
            0 => 0,
            since_ns => unix_ns().saturating_sub(since_ns),
        };
        [self.full_ns.load(Ordering::Relaxed) + now_ns, now_ns]
    }

    /// Counts from zero on.
    pub(crate) fn reset(&self) {
        self.full_ns.store(0, Ordering::Relaxed);
    }

    pub(crate) fn note(&self, room: Room) {
        let is_full = room != Room::Enough;
        if is_full == (self.full_since_ns.load(Ordering::Relaxed) != 0) {
            return;
        }
        let now_ns = unix_ns();
        let since_ns = self
            .full_since_ns
            .swap(if is_full { now_ns } else { 0 }, Ordering::Relaxed);
        if since_ns != 0 && !is_full {
            let past_ns = now_ns.saturating_sub(since_ns);
            self.full_ns.fetch_add(past_ns, Ordering::Relaxed);
        }
    }
}

/// The score before it was adjusted, while it is.
#[derive(Debug, Default)]
pub(crate) struct MemoryScore {
    pub(crate) base: Mutex<Option<i32>>,
}

/// The clients that listen.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    /// Lane and connection, by client number.
    pub(crate) clients: Mutex<Vec<(u64, usize, ConnectionId)>>,
}

impl Monitors {
    /// Begins to show commands to a client.
    pub(crate) fn add(
        &self,
        attention: &Attention,
        client: u64,
        lane: usize,
        connection: ConnectionId,
    ) {
        debug_assert!(lane < u64::BITS as usize, "each lane has a bit of its own");
        let mut clients = self.clients.lock();
        if clients.iter().all(|(id, _, _)| *id != client) {
            clients.push((client, lane, connection));
        }
        attention.set(Obstacles::MONITORED, true);
        debug_assert_eq!(
            clients.iter().filter(|(id, _, _)| *id == client).count(),
            1,
            "a client listens once"
        );
    }

    /// Whether a client listens.
    pub(crate) fn has(&self, client: u64) -> bool {
        let clients = self.clients.lock();
        clients.iter().any(|(id, _, _)| *id == client)
    }

    /// Shows no more to a client.
    pub(crate) fn remove(&self, attention: &Attention, client: u64) {
        let mut clients = self.clients.lock();
        debug_assert!(
            clients.is_empty() || attention.has(Obstacles::MONITORED),
            "commands are shown while a client listens"
        );
        clients.retain(|(id, _, _)| *id != client);
        attention.set(Obstacles::MONITORED, !clients.is_empty());
    }

    /// The connections of a lane that listen.
    pub(crate) fn on(&self, lane: usize) -> Vec<ConnectionId> {
        let clients = self.clients.lock();
        clients
            .iter()
            .filter(|(_, own, _)| *own == lane)
            .map(|(_, _, connection)| *connection)
            .collect()
    }

    pub(crate) fn lanes(&self) -> u64 {
        let clients = self.clients.lock();
        clients
            .iter()
            .fold(0, |lanes, (_, lane, _)| lanes | 1 << lane)
    }
}

/// Until when the server sleeps.
#[derive(Debug, Default)]
pub(crate) struct Sleeping {
    /// Monotonic ns; 0 if DEBUG SLEEP never ran.
    pub(crate) until_ns: AtomicU64,
}

/// The end that has been asked for.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    pub(crate) pending: Mutex<Option<Pending>>,
    pub(crate) is_pending: AtomicBool,
    /// A signal has been answered.
    pub(crate) has_signal: AtomicBool,
    /// The shutdown that the signal asked for has failed or was aborted.
    pub(crate) is_signal_over: AtomicBool,
    /// Until when the end waits for a script, ms since the UNIX epoch; 0: it does not.
    pub(crate) script_deadline_ms: AtomicI64,
    /// The same for the first base of the append-only file.
    pub(crate) base_deadline_ms: AtomicI64,
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) order: StopOrder,
    /// When replicas are waited for no longer, ms since the UNIX epoch.
    pub(crate) deadline_ms: i64,
    /// Clients that get an error if the shutdown fails or is aborted.
    pub(crate) clients: Vec<WaitId>,
}

/// How to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StopOrder {
    /// SAVE or NOSAVE; `None`: as the parameter `save` says.
    pub(crate) saves: Option<bool>,
    /// FORCE: an error does not keep it from ending.
    pub(crate) is_forced: bool,
    /// NOW: replicas are not waited for.
    pub(crate) is_immediate: bool,
}

/// Whether a client may want changes of topics.
#[derive(Debug, Default)]
pub(crate) struct TopicWatch(pub(crate) AtomicBool);

/// The sockets that Redis clients connect to over TCP.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub(crate) handles: Mutex<Vec<ListenerHandle>>,
}

/// From one wait for what is freed in the background to the next.
const PATIENCE_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_pass_for_a_moment_a_second_while_room_is_made_in_the_background() {
        let (evictions, start, moment) = (Evictions::new(1), 5_000_000_000, 500_000);
        let passes = |after_ns| evictions.waits_at(start + after_ns, moment);
        assert!(passes(0) && passes(moment - 1));
        assert!(!passes(moment) && !passes(PATIENCE_NS - 1));
        assert!(passes(PATIENCE_NS) && passes(PATIENCE_NS + moment - 1));
        assert!(!passes(PATIENCE_NS + moment));
    }
}
