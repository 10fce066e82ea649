//! The orders of a topic, for the snapshots of `mbo`.

use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_dbn::MboRecord;
use tidewire_dbn::book::{ClearRecord, OpenOrders};

/// The open orders of one topic.
#[derive(Debug)]
pub(super) struct Orders {
    /// The session of the source that sends them.
    session: u64,
    /// The newest time of one of its records, ns since the UNIX epoch.
    newest_ns: u64,
    /// Sequence of the last record in the hub's feed.
    sequence: u64,
    open: OpenOrders,
}

impl Orders {
    pub(super) fn new(session: u64) -> Self {
        Self {
            session,
            newest_ns: 0,
            sequence: 0,
            open: OpenOrders::new(),
        }
    }

    /// Makes `session` the one that sends the orders. Those of another source, or of its session
    /// before, go; returns the records that say so.
    pub(super) fn take_over(&mut self, session: u64, total: &AtomicU64) -> Vec<ClearRecord> {
        if std::mem::replace(&mut self.session, session) == session {
            return Vec::new();
        }
        total.fetch_sub(self.count(), Ordering::Relaxed);
        self.open.clear()
    }

    /// Returns the number of orders.
    pub(super) fn count(&self) -> u64 {
        self.open.len() as u64
    }

    /// Returns records that remove all orders.
    pub(super) fn clears(&self) -> Vec<ClearRecord> {
        self.open.clears()
    }

    /// Returns the newest time of a record, ns since the UNIX epoch.
    pub(super) fn newest_ns(&self) -> u64 {
        self.newest_ns
    }

    /// Notes that the readers of the hub's feed have all orders up to this sequence.
    pub(super) fn told_until(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Applies the record `order`, whose last part has this sequence and time. `total` counts the
    /// orders of all topics.
    pub(super) fn apply(
        &mut self,
        publisher_id: u16,
        order: &MboRecord,
        bytes: &[u8],
        (sequence, source_time_ns): (u64, u64),
        total: &AtomicU64,
    ) {
        debug_assert!(sequence > self.sequence, "the feed only grows");
        self.sequence = sequence;
        self.newest_ns = self.newest_ns.max(source_time_ns);
        let before = self.open.len();
        let is_room = total.load(Ordering::Relaxed) < ORDERS_MAX;
        self.open.apply(publisher_id, order, bytes, is_room);
        let after = self.open.len();
        total.fetch_add(after.saturating_sub(before) as u64, Ordering::Relaxed);
        total.fetch_sub(before.saturating_sub(after) as u64, Ordering::Relaxed);
    }

    /// Gives `each` the records of a snapshot, with their publisher. Returns the sequence up to
    /// which it is whole.
    pub(super) fn snapshot(&self, each: impl FnMut(u16, &[u8])) -> u64 {
        self.open.snapshot(each);
        self.sequence
    }
}

/// Maximum orders of all topics. Further ones are left out, and the topic's snapshots say that they
/// may be wrong.
const ORDERS_MAX: u64 = 4_000_000;
