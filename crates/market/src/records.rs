//! DBN records on the feed: joins their parts, appends them to the hub's feed, and keeps what a
//! later subscriber of the Databento gateway needs.
//!
//! ```text
//!  parts of a source ─▶ RecordIngest ─▶ journal (consecutive parts, the hub's symbol number)
//!                            └─▶ TopicRecords: newest definition, newest statistics, orders
//! ```

mod orders;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tidewire_dbn::book::ClearRecord;
use tidewire_dbn::{Kind, Record, RecordRef, carried_length};
use tidewire_feed::journal::Journal;
use tidewire_feed::wire::{Message, RECORD_PART_LENGTH_MAX, RecordJoin, RecordPart};

use crate::topic::Topic;
use orders::Orders;

/// The records of one source, in parts.
#[derive(Debug, Default)]
pub(crate) struct RecordIngest {
    join: RecordJoin,
}

/// Counters of records since the start.
#[derive(Debug, Default)]
pub struct RecordCounters {
    /// Records appended to the hub's feed.
    pub applied: AtomicU64,
    /// Records of an unknown type or with a wrong length.
    pub refused: AtomicU64,
    /// Orders kept now, for the snapshots of `mbo`.
    pub orders: AtomicU64,
}

/// A whole record of version 3, with its position in the hub's feed.
#[derive(Clone, Debug)]
pub(crate) struct KeptRecord {
    /// Sequence of its last part.
    pub(crate) sequence: u64,
    /// Of a definition: the sequence of the topic's first one.
    pub(crate) first_sequence: u64,
    /// The time of its message, nanoseconds since the UNIX epoch.
    pub(crate) source_time_ns: u64,
    /// Number of the venue or publisher that sent it.
    pub(crate) source: u16,
    pub(crate) bytes: Arc<[u8]>,
}

/// What is kept of a topic's records. Without records it costs one empty pointer.
#[derive(Debug, Default)]
pub(crate) struct TopicRecords {
    kept: OnceLock<Box<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    definition: Mutex<Option<KeptRecord>>,
    /// The newest statistic of each kind and the newest imbalance of each auction.
    newest: Mutex<Vec<KeptRecord>>,
    /// Created by the first order.
    orders: Mutex<Option<Orders>>,
}

impl RecordIngest {
    /// Takes the next part sent about `topic` in this session of a source. A complete
    /// record is appended to `journal` in one piece, and once more for the topic's namesake.
    pub(crate) fn take(
        &mut self,
        part: &RecordPart,
        topic: &Topic,
        session: u64,
        journal: &mut Journal,
        counters: &RecordCounters,
    ) {
        let Some(bytes) = self.join.push(part) else {
            return;
        };
        let record = RecordRef::new(bytes)
            .filter(|record| carried_length(record.kind()) == Some(bytes.len()));
        let Some(record) = record else {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        counters.applied.fetch_add(1, Ordering::Relaxed);
        let from = (part, session);
        keep(record, bytes, from, topic, (journal, counters));
        if let Some(namesake) = topic.namesake() {
            keep(record, bytes, from, &namesake, (journal, counters));
        }
    }
}

/// Appends a whole record about `topic`, and keeps it there. It ends with `part`, sent in
/// this session.
fn keep(
    record: RecordRef<'_>,
    bytes: &[u8],
    (part, session): (&RecordPart, u64),
    topic: &Topic,
    (journal, counters): (&mut Journal, &RecordCounters),
) {
    let mut append = |source_time_ns: u64, source: u16, bytes: &[u8]| {
        let parts = RecordPart::split(topic.number, source, source_time_ns, bytes);
        parts.fold(0, |_, part| journal.append(&Message::Record(part)))
    };
    let kept = topic.records.kept.get_or_init(Box::default);
    if let Record::Mbo(order) = record.decode() {
        let mut orders = kept.orders.lock();
        let orders = orders.get_or_insert_with(|| Orders::new(session));
        // Orders of a session that has ended are void, also for clients that follow.
        for clear in orders.take_over(session, &counters.orders) {
            append(part.source_time_ns, clear.publisher_id, &clear.bytes);
        }
        let sequence = append(part.source_time_ns, part.source, bytes);
        let place = (sequence, part.source_time_ns);
        return orders.apply(part.source, &order, bytes, place, &counters.orders);
    }
    let sequence = append(part.source_time_ns, part.source, bytes);
    let mut new = KeptRecord {
        sequence,
        first_sequence: sequence,
        source_time_ns: part.source_time_ns,
        source: part.source,
        bytes: bytes.into(),
    };
    debug_assert!(new.sequence > 0, "a record has at least one part");
    match record.kind() {
        Kind::Definition => {
            let mut definition = kept.definition.lock();
            if let Some(before) = &*definition {
                new.first_sequence = before.first_sequence;
            }
            *definition = Some(new);
        }
        _ => keep_newest(&mut kept.newest.lock(), new),
    }
}

impl KeptRecord {
    /// Returns the sequence of its first part.
    pub(crate) fn first_part(&self) -> u64 {
        let parts = self.bytes.len().div_ceil(RECORD_PART_LENGTH_MAX);
        (self.sequence + 1).saturating_sub(parts as u64)
    }
}

impl TopicRecords {
    /// Returns the newest definition.
    pub(crate) fn definition(&self) -> Option<KeptRecord> {
        self.kept.get()?.definition.lock().clone()
    }

    /// Returns the newest statistics and imbalances, in their order.
    pub(crate) fn newest(&self) -> Vec<KeptRecord> {
        self.kept
            .get()
            .map_or_else(Vec::new, |kept| kept.newest.lock().clone())
    }

    /// Gives `each` the orders of the topic as records with the mark of a snapshot: for each
    /// publisher a clear, then its orders, the best first. Returns the sequence up to which they
    /// are whole; `None` without orders.
    pub(crate) fn snapshot_orders(&self, each: impl FnMut(u16, &[u8])) -> Option<u64> {
        let orders = self.kept.get()?.orders.lock();
        Some(orders.as_ref()?.snapshot(each))
    }

    /// Moves the orders to `other`, whose topic continues this one. Returns records that clear them
    /// for those who follow this topic. `total` counts the orders of all topics.
    pub(crate) fn move_orders(&self, other: &Self, total: &AtomicU64) -> Vec<ClearRecord> {
        let Some(kept) = self.kept.get() else {
            return Vec::new();
        };
        let Some(orders) = kept.orders.lock().take() else {
            return Vec::new();
        };
        let clears = orders.clears();
        let kept = other.kept.get_or_init(Box::default);
        if let Some(before) = kept.orders.lock().replace(orders) {
            total.fetch_sub(before.count(), Ordering::Relaxed);
        }
        clears
    }

    /// Gives `append` the orders again, as a snapshot for those who follow the topic. It returns
    /// the sequence of each record.
    pub(crate) fn tell_orders(&self, mut append: impl FnMut(u16, &[u8]) -> u64) {
        let Some(kept) = self.kept.get() else { return };
        if let Some(orders) = kept.orders.lock().as_mut() {
            let mut last = 0;
            orders.snapshot(|publisher_id, bytes| last = append(publisher_id, bytes));
            orders.told_until(last);
        }
    }

    /// Makes `session` the one that sends the topic's orders. Those of another one go; returns
    /// the records that say so. `total` counts the orders of all topics.
    pub(crate) fn take_over(&self, session: u64, total: &AtomicU64) -> Vec<ClearRecord> {
        let Some(kept) = self.kept.get() else {
            return Vec::new();
        };
        let mut orders = kept.orders.lock();
        let orders = orders.as_mut();
        orders.map_or_else(Vec::new, |orders| orders.take_over(session, total))
    }

    /// Returns the newest time of an order's record, ns since the UNIX epoch; 0 without orders.
    pub(crate) fn newest_order_ns(&self) -> u64 {
        let orders = self.kept.get().map(|kept| kept.orders.lock());
        orders.map_or(0, |orders| orders.as_ref().map_or(0, Orders::newest_ns))
    }
}

/// Replaces the record of the same kind and publisher. A deleted statistic goes.
fn keep_newest(newest: &mut Vec<KeptRecord>, record: KeptRecord) {
    newest.retain(|other| key(other) != key(&record));
    let is_deleted = matches!(
        RecordRef::new(&record.bytes).map(|record| record.decode()),
        Some(Record::Statistics(statistic)) if statistic.update_action == DELETED
    );
    if is_deleted {
        return;
    }
    if newest.len() == NEWEST_MAX {
        newest.remove(0);
    }
    newest.push(record);
}

/// What distinguishes two statistics or imbalances of a topic: publisher, type byte, and the kind
/// of statistic or auction.
fn key(record: &KeptRecord) -> (u16, u8, u16) {
    let Some(fields) = RecordRef::new(&record.bytes) else {
        return (record.source, 0, 0);
    };
    let kind = match fields.decode() {
        Record::Statistics(statistic) => statistic.statistic,
        Record::Imbalance(imbalance) => imbalance.auction_type.into(),
        _ => 0,
    };
    (record.source, fields.rtype(), kind)
}

/// Value of a statistic's `update_action`.
const DELETED: u8 = 2;
/// Maximum statistics and imbalances kept of a topic; the oldest goes first. Databento has 20 kinds
/// of statistics.
const NEWEST_MAX: usize = 64;
