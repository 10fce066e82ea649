//! Messages from ZeroMQ PUSH peers: counters of their outcome, and peers that wait for the write
//! gate.

use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_lane::ConnectionId;
use tidewire_retry::Seldom;

use crate::hub::Hub;
use tidewire_redis::Refusal;

/// Counters of messages from ZeroMQ pushers; they only grow.
#[derive(Debug)]
pub(crate) struct Pushes {
    /// Messages stored.
    pub(crate) taken: AtomicU64,
    /// Messages discarded.
    pub(crate) left_out: AtomicU64,
    /// The reasons for that.
    counts: [AtomicU64; Refusal::ALL.len()],
    logged: [Seldom; Refusal::ALL.len()],
    /// Connections whose input waits for the gate.
    parked: AtomicU64,
}

impl Default for Pushes {
    fn default() -> Self {
        Self {
            taken: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            counts: Default::default(),
            logged: [const { Seldom::new(1, LOG_INTERVAL_S) }; Refusal::ALL.len()],
            parked: AtomicU64::new(0),
        }
    }
}

impl Pushes {
    /// Counts a discarded message, and logs the first ones for each reason.
    #[cold]
    pub(crate) fn note_refused(&self, refusal: Refusal, peer: &str, topic: &[u8]) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
        let at = refusal as usize;
        debug_assert_eq!(
            Refusal::ALL[at],
            refusal,
            "reasons are counted in their order"
        );
        let left_out = self.counts[at].fetch_add(1, Ordering::Relaxed) + 1;
        if self.logged[at].note_now().is_some() {
            tracing::warn!(
                peer,
                topic = %topic[..topic.len().min(TOPIC_BYTES_LOGGED)].escape_ascii(),
                left_out,
                "a pushed ZeroMQ message was discarded: {}",
                refusal.text()
            );
        }
    }

    /// Returns how many messages were discarded for a reason.
    pub(crate) fn refused(&self, refusal: Refusal) -> u64 {
        self.counts[refusal as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of connections whose input waits for the gate.
    pub(crate) fn parked(&self) -> u64 {
        self.parked.load(Ordering::Relaxed)
    }
}

/// One lane's connections whose input waits for the gate. While there are any, the lane checks the
/// gate every few milliseconds, so that no change is missed.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    connections: Vec<ConnectionId>,
}

impl Parked {
    pub(crate) fn push(&mut self, hub: &Hub, id: ConnectionId) {
        debug_assert!(!self.connections.contains(&id), "it is parked already");
        self.connections.push(id);
        hub.pushes.parked.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a connection that has ended.
    pub(crate) fn forget(&mut self, hub: &Hub, id: ConnectionId) {
        let before = self.connections.len();
        self.connections.retain(|other| *other != id);
        let gone = (before - self.connections.len()) as u64;
        debug_assert!(gone <= 1, "a connection is parked once");
        let parked = hub.pushes.parked.fetch_sub(gone, Ordering::Relaxed);
        debug_assert!(parked >= gone, "each parked connection was counted");
    }

    /// Takes all connections if the gate is open for writes.
    pub(crate) fn take_if_open(&mut self, hub: &Hub, now_ms: i64) -> Vec<ConnectionId> {
        if self.connections.is_empty() || hub.server.write_wait(now_ms).is_some() {
            return Vec::new();
        }
        let taken = std::mem::take(&mut self.connections);
        let count = taken.len() as u64;
        let parked = hub.pushes.parked.fetch_sub(count, Ordering::Relaxed);
        debug_assert!(parked >= count, "each parked connection was counted");
        taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns the time until the gate must be checked again. Most scripts end within microseconds.
    pub(crate) fn look_again_ns(hub: &Hub) -> u64 {
        match hub.server.is_in_short_script() {
            true => LOOK_SOON_NS,
            false => LOOK_AGAIN_NS,
        }
    }
}

const LOOK_SOON_NS: u64 = 100_000;
const LOOK_AGAIN_NS: u64 = 5_000_000;
const LOG_INTERVAL_S: u64 = 10;
const TOPIC_BYTES_LOGGED: usize = 64;
