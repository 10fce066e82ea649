//! The orders of a topic, for the snapshots of `mbo`.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use tidewire_dbn::{MboRecord, UNDEFINED_PRICE, action, flag, side};

/// The open orders of one topic.
#[derive(Debug)]
pub(super) struct Orders {
    /// The source of the hub that sends them.
    writer: u32,
    /// Sequence of the last record in the hub's feed.
    sequence: u64,
    /// Time of receipt of the last record, ns since the UNIX epoch.
    ts_recv: u64,
    orders: HashMap<Key, Order, RandomState>,
    /// Publishers of which a record has come.
    publishers: BTreeSet<u16>,
    /// Increases with each order that goes behind all others of its price.
    priority: u64,
    /// Whether no order had to be left out.
    is_whole: bool,
}

/// An order by publisher and number, or a publisher's top of book by its side.
type Key = (u16, u64, u8);

#[derive(Clone, Debug)]
struct Order {
    /// Its newest record.
    record: [u8; RECORD_LENGTH],
    price: i64,
    size: u32,
    is_bid: bool,
    priority: u64,
}

/// A record that removes all orders of a publisher.
#[derive(Debug)]
pub(crate) struct Clear {
    pub(crate) publisher_id: u16,
    pub(crate) bytes: [u8; RECORD_LENGTH],
}

impl Orders {
    pub(super) fn new(writer: u32) -> Self {
        Self {
            writer,
            sequence: 0,
            ts_recv: 0,
            orders: HashMap::default(),
            publishers: BTreeSet::new(),
            priority: 0,
            is_whole: true,
        }
    }

    /// Makes `writer` the source of the orders. Those of another source go; returns the records
    /// that say so.
    pub(super) fn take_over(&mut self, writer: u32, total: &AtomicU64) -> Vec<Clear> {
        if std::mem::replace(&mut self.writer, writer) == writer {
            return Vec::new();
        }
        total.fetch_sub(self.orders.len() as u64, Ordering::Relaxed);
        self.orders = HashMap::default();
        self.is_whole = true;
        let cleared = self.clears();
        self.publishers.clear();
        cleared
    }

    /// Returns the number of orders.
    pub(super) fn count(&self) -> u64 {
        self.orders.len() as u64
    }

    /// Returns records that remove all orders.
    pub(super) fn clears(&self) -> Vec<Clear> {
        let cleared = self.publishers.iter().map(|&publisher_id| Clear {
            publisher_id,
            bytes: self.clear_record(flag::LAST),
        });
        cleared.collect()
    }

    pub(super) fn adopt(&mut self, writer: u32) {
        self.writer = writer;
    }

    /// Notes that the readers of the hub's feed have all orders up to this sequence.
    pub(super) fn told_until(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Applies the record `order`, whose last part has this sequence. `total` counts the orders of
    /// all topics.
    pub(super) fn apply(
        &mut self,
        publisher_id: u16,
        order: &MboRecord,
        bytes: &[u8],
        sequence: u64,
        total: &AtomicU64,
    ) {
        debug_assert!(sequence > self.sequence, "the feed only grows");
        (self.sequence, self.ts_recv) = (sequence, order.ts_recv);
        self.publishers.insert(publisher_id);
        let before = self.orders.len();
        match order.action {
            action::ADD | action::MODIFY => self.set(publisher_id, order, bytes, total),
            action::CANCEL => self.reduce((publisher_id, order.order_id, 0), order.size),
            action::CLEAR => {
                self.orders.retain(|key, _| key.0 != publisher_id);
                self.is_whole = true;
            }
            // A trade or a fill does not change the book.
            _ => {}
        }
        let after = self.orders.len();
        total.fetch_add(after.saturating_sub(before) as u64, Ordering::Relaxed);
        total.fetch_sub(before.saturating_sub(after) as u64, Ordering::Relaxed);
    }

    fn set(&mut self, publisher_id: u16, order: &MboRecord, bytes: &[u8], total: &AtomicU64) {
        let is_bid = match order.side {
            side::BID => true,
            side::ASK => false,
            _ => return,
        };
        let mut key = (publisher_id, order.order_id, 0);
        if order.flags & flag::TOP_OF_BOOK != 0 {
            self.orders
                .retain(|key, other| key.0 != publisher_id || other.is_bid != is_bid);
            if order.price == UNDEFINED_PRICE {
                return;
            }
            key = (publisher_id, 0, order.side);
        }
        let Some(&record) = bytes.first_chunk() else {
            return;
        };
        let known = self.orders.get(&key);
        if known.is_none() && total.load(Ordering::Relaxed) >= ORDERS_MAX {
            self.is_whole = false;
            return;
        }
        // An order keeps its place if it only shrinks.
        let kept = known.filter(|known| {
            order.action == action::MODIFY
                && (known.price, known.is_bid) == (order.price, is_bid)
                && order.size <= known.size
        });
        let priority = match kept {
            Some(known) => known.priority,
            None => {
                self.priority += 1;
                self.priority
            }
        };
        let new = Order {
            record,
            price: order.price,
            size: order.size,
            is_bid,
            priority,
        };
        self.orders.insert(key, new);
    }

    fn reduce(&mut self, key: Key, size: u32) {
        let Some(order) = self.orders.get_mut(&key) else {
            return;
        };
        order.size = order.size.saturating_sub(size);
        if order.size == 0 {
            self.orders.remove(&key);
        }
    }

    /// Gives `each` the records of a snapshot, with their publisher. Returns the sequence up to
    /// which it is whole.
    pub(super) fn snapshot(&self, mut each: impl FnMut(u16, &[u8])) -> u64 {
        let mut flags = flag::SNAPSHOT;
        if !self.is_whole {
            flags |= flag::MAYBE_BAD_BOOK;
        }
        for &publisher_id in &self.publishers {
            let own = self.orders.iter().filter(|(key, _)| key.0 == publisher_id);
            let mut orders: Vec<&Order> = own.map(|(_, order)| order).collect();
            orders.sort_unstable_by_key(|order| match order.is_bid {
                true => (false, Reverse(order.price), 0, order.priority),
                false => (true, Reverse(0), order.price, order.priority),
            });
            let last = if orders.is_empty() { flag::LAST } else { 0 };
            each(publisher_id, &self.clear_record(flags | last));
            let count = orders.len();
            for (number, order) in orders.into_iter().enumerate() {
                let mut record = order.record;
                record[SIZE..SIZE + 4].copy_from_slice(&order.size.to_le_bytes());
                let is_last = number + 1 == count;
                let kept = record[FLAGS] & flag::TOP_OF_BOOK;
                record[FLAGS] = flags | kept | if is_last { flag::LAST } else { 0 };
                record[ACTION] = action::ADD;
                each(publisher_id, &record);
            }
        }
        self.sequence
    }

    fn clear_record(&self, flags: u8) -> [u8; RECORD_LENGTH] {
        let mut record = [0; RECORD_LENGTH];
        (record[0], record[1]) = ((RECORD_LENGTH / 4) as u8, 0xA0);
        record[8..16].copy_from_slice(&self.ts_recv.to_le_bytes());
        record[24..32].copy_from_slice(&UNDEFINED_PRICE.to_le_bytes());
        record[FLAGS] = flags;
        (record[ACTION], record[SIDE]) = (action::CLEAR, side::NONE);
        record[40..48].copy_from_slice(&self.ts_recv.to_le_bytes());
        record
    }
}

/// Bytes of an order's record, and offsets in it.
const RECORD_LENGTH: usize = 56;
const SIZE: usize = 32;
const FLAGS: usize = 36;
const ACTION: usize = 38;
const SIDE: usize = 39;
/// Maximum orders of all topics. Further ones are left out, and the topic's snapshots say that they
/// may be wrong.
const ORDERS_MAX: u64 = 4_000_000;
