//! The open orders of one instrument as the records that made them, for a snapshot in `mbo`.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;

use crate::{MboRecord, UNDEFINED_PRICE, action, flag, side};

/// The open orders of one instrument at its publishers, each with its newest record, in their
/// priority.
#[derive(Debug)]
pub struct OpenOrders {
    orders: HashMap<Key, OpenOrder, RandomState>,
    /// Publishers of which a record has come.
    publishers: BTreeSet<u16>,
    /// Increases with each order that goes behind all others of its price.
    priority: u64,
    /// Whether no order had to be left out.
    is_whole: bool,
    /// Time of receipt of the last record, ns since the UNIX epoch.
    ts_recv: u64,
}

/// An order by publisher and number, or a publisher's top of book by its side.
type Key = (u16, u64, u8);

#[derive(Clone, Debug)]
struct OpenOrder {
    /// Its newest record.
    record: [u8; RECORD_LENGTH],
    price: i64,
    size: u32,
    is_bid: bool,
    priority: u64,
}

/// A record that removes all orders of a publisher.
#[derive(Debug)]
pub struct ClearRecord {
    /// Number of the publisher.
    pub publisher_id: u16,
    /// The record, without its publisher and instrument.
    pub bytes: [u8; RECORD_LENGTH],
}

impl ClearRecord {
    /// Creates the record that removes all orders of a publisher at this time, ns since the UNIX
    /// epoch.
    pub fn at(publisher_id: u16, time_ns: u64) -> Self {
        let none = OpenOrders {
            ts_recv: time_ns,
            ..OpenOrders::new()
        };
        Self {
            publisher_id,
            bytes: none.clear_record(flag::LAST),
        }
    }
}

impl OpenOrders {
    /// Creates an empty set of orders.
    pub fn new() -> Self {
        Self {
            orders: HashMap::default(),
            publishers: BTreeSet::new(),
            priority: 0,
            is_whole: true,
            ts_recv: 0,
        }
    }

    /// Creates an empty set of orders of the publisher of `order`, at its time.
    pub fn of(order: &MboRecord) -> Self {
        Self {
            publishers: BTreeSet::from([order.header.publisher_id]),
            ts_recv: order.ts_recv,
            ..Self::new()
        }
    }

    /// Returns the number of orders.
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// Returns whether there are no orders.
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// Removes all orders. Returns the records that say so.
    pub fn clear(&mut self) -> Vec<ClearRecord> {
        self.orders = HashMap::default();
        self.is_whole = true;
        let clears = self.clears();
        self.publishers.clear();
        clears
    }

    /// Returns records that remove all orders.
    pub fn clears(&self) -> Vec<ClearRecord> {
        let clears = self.publishers.iter().map(|&publisher_id| ClearRecord {
            publisher_id,
            bytes: self.clear_record(flag::LAST),
        });
        clears.collect()
    }

    /// Applies `order`, whose record has these bytes. A new order is left out unless there
    /// `is_room`; snapshots then say that they may be wrong.
    pub fn apply(&mut self, publisher_id: u16, order: &MboRecord, bytes: &[u8], is_room: bool) {
        self.ts_recv = order.ts_recv;
        self.publishers.insert(publisher_id);
        match order.action {
            action::ADD | action::MODIFY => self.set(publisher_id, order, bytes, is_room),
            action::CANCEL => self.reduce((publisher_id, order.order_id, 0), order.size),
            action::CLEAR => {
                self.orders.retain(|key, _| key.0 != publisher_id);
                self.is_whole = true;
            }
            // A trade or a fill does not change the book.
            _ => {}
        }
    }

    fn set(&mut self, publisher_id: u16, order: &MboRecord, bytes: &[u8], is_room: bool) {
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
        if known.is_none() && !is_room {
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
        let new = OpenOrder {
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

    /// Gives `each` the orders as records with the mark of a snapshot, and their publisher: for
    /// each publisher a clear, then its orders, bids first, by price and priority.
    pub fn snapshot(&self, mut each: impl FnMut(u16, &[u8])) {
        let mut flags = flag::SNAPSHOT;
        if !self.is_whole {
            flags |= flag::MAYBE_BAD_BOOK;
        }
        for &publisher_id in &self.publishers {
            let own = self.orders.iter().filter(|(key, _)| key.0 == publisher_id);
            let mut orders: Vec<&OpenOrder> = own.map(|(_, order)| order).collect();
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

impl Default for OpenOrders {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes of an order's record, and offsets in it.
const RECORD_LENGTH: usize = 56;
const SIZE: usize = 32;
const FLAGS: usize = 36;
const ACTION: usize = 38;
const SIDE: usize = 39;
