//! Consumer groups of a stream: which consumer has which entries, and since when.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use super::id::StreamId;
use super::log::EntryLog;
use super::pages::{Identified, Pages, PagesIter};

/// Groups by name.
pub(crate) type ConsumerGroups = BTreeMap<Box<[u8]>, ConsumerGroup>;

/// A group of consumers that share a stream's entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConsumerGroup {
    /// The last entry that was delivered to any consumer.
    pub(crate) last_id: StreamId,
    /// Number of the stream's entries that were delivered or skipped, if it is known.
    pub(crate) entries_read: Option<u64>,
    pending: Pages<PendingEntry>,
    /// Pending entries by the time of their last delivery, once a client has asked for old ones.
    by_time: Option<Box<ByTime>>,
    /// Consumers by slot; a free slot is reused.
    consumers: Vec<Option<Consumer>>,
    /// The used slots, ordered by consumer name.
    by_name: Vec<u32>,
}

/// Pending entries in the order of their last delivery.
#[derive(Clone, Debug, Default)]
struct ByTime {
    /// By the time, ms since the UNIX epoch, and by their turns in the same millisecond.
    order: BTreeMap<(i64, u64), StreamId>,
    turns: HashMap<StreamId, u64, RandomState>,
    /// The turn of the next delivery.
    next: u64,
}

impl ByTime {
    fn insert(&mut self, pending: &PendingEntry) {
        self.order
            .insert((pending.delivered_ms, self.next), pending.id);
        self.turns.insert(pending.id, self.next);
        self.next += 1;
        debug_assert_eq!(self.order.len(), self.turns.len());
    }

    fn remove(&mut self, pending: &PendingEntry) {
        if let Some(turn) = self.turns.remove(&pending.id) {
            let gone = self.order.remove(&(pending.delivered_ms, turn));
            debug_assert_eq!(gone, Some(pending.id), "both have the same entries");
        }
    }
}

/// An entry that was delivered and not acknowledged. It exists once, in the group; its consumer
/// stores only its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingEntry {
    pub(crate) id: StreamId,
    /// When it was last delivered, ms since the UNIX epoch.
    pub(crate) delivered_ms: i64,
    /// How often it was delivered.
    pub(crate) deliveries: u64,
    pub(crate) consumer: ConsumerSlot,
}

/// The slot of a consumer in its group, valid as long as the consumer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerSlot(u32);

/// A consumer of a group.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    name: Box<[u8]>,
    /// When it last requested entries, ms since the UNIX epoch.
    pub(crate) seen_ms: i64,
    /// When it last received one, ms since the UNIX epoch.
    pub(crate) active_ms: Option<i64>,
    pending: Pages<StreamId>,
}

impl Identified for PendingEntry {
    fn id(&self) -> StreamId {
        self.id
    }
}

impl Consumer {
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns how many entries it has not acknowledged.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }
}

impl ConsumerGroup {
    pub(crate) fn new(last_id: StreamId, entries_read: Option<u64>) -> Self {
        ConsumerGroup {
            last_id,
            entries_read,
            ..ConsumerGroup::default()
        }
    }

    /// Iterates over consumers by name.
    pub(crate) fn consumers(&self) -> impl ExactSizeIterator<Item = (ConsumerSlot, &Consumer)> {
        let taken = self.by_name.iter();
        taken.map(|&slot| (ConsumerSlot(slot), self.consumer(ConsumerSlot(slot))))
    }

    pub(crate) fn find_consumer(&self, name: &[u8]) -> Option<ConsumerSlot> {
        let at = self.search(name).ok()?;
        Some(ConsumerSlot(self.by_name[at]))
    }

    /// Returns the consumer of a used slot.
    pub(crate) fn consumer(&self, slot: ConsumerSlot) -> &Consumer {
        let consumer = self.consumers[slot.0 as usize].as_ref();
        consumer.expect("a slot refers to an existing consumer")
    }

    pub(crate) fn consumer_mut(&mut self, slot: ConsumerSlot) -> &mut Consumer {
        let consumer = self.consumers[slot.0 as usize].as_mut();
        consumer.expect("a slot refers to an existing consumer")
    }

    /// Returns the consumer with this name, and whether it is new.
    pub(crate) fn add_consumer(&mut self, name: &[u8], now_ms: i64) -> (ConsumerSlot, bool) {
        let at = match self.search(name) {
            Ok(at) => return (ConsumerSlot(self.by_name[at]), false),
            Err(at) => at,
        };
        let consumer = Some(Consumer {
            name: name.into(),
            seen_ms: now_ms,
            active_ms: None,
            pending: Pages::default(),
        });
        let has_free_slot = self.by_name.len() < self.consumers.len();
        let free = has_free_slot.then(|| self.consumers.iter().position(Option::is_none));
        debug_assert_ne!(free, Some(None), "a slot without a name is empty");
        let slot = match free.flatten() {
            Some(slot) => {
                self.consumers[slot] = consumer;
                slot
            }
            None => {
                self.consumers.push(consumer);
                self.consumers.len() - 1
            }
        };
        self.by_name.insert(at, slot as u32);
        debug_assert!(self.by_name.len() <= self.consumers.len());
        (ConsumerSlot(slot as u32), true)
    }

    /// Removes a consumer and its pending entries. Returns how many there were, or `None` if there
    /// is no such consumer.
    pub(crate) fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let at = self.search(name).ok()?;
        let slot = self.by_name.remove(at) as usize;
        let consumer = self.consumers[slot].take()?;
        for &id in consumer.pending.iter() {
            let gone = self.pending.remove(id);
            debug_assert!(gone.is_some(), "each pending entry belongs to the group");
            if let (Some(by_time), Some(gone)) = (&mut self.by_time, gone) {
                by_time.remove(&gone);
            }
        }
        Some(consumer.pending.len())
    }

    /// Returns how many entries are not acknowledged by any consumer.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Returns the ids of the first and the last pending entry.
    pub(crate) fn pending_bounds(&self) -> Option<(StreamId, StreamId)> {
        Some((self.pending.first()?.id, self.pending.last()?.id))
    }

    /// Iterates over the pending entries between two ids, both included.
    pub(crate) fn pending(&self, from: StreamId, to: StreamId) -> PagesIter<'_, PendingEntry> {
        self.pending.range(from, to)
    }

    /// Does the same for one consumer.
    pub(crate) fn pending_of(
        &self,
        slot: ConsumerSlot,
        from: StreamId,
        to: StreamId,
    ) -> impl Iterator<Item = &PendingEntry> {
        let ids = self.consumer(slot).pending.range(from, to);
        ids.filter_map(|&id| self.pending.get(id))
    }

    pub(crate) fn find_pending(&self, id: StreamId) -> Option<&PendingEntry> {
        self.pending.get(id)
    }

    /// Makes an entry pending, or assigns it to another consumer.
    pub(crate) fn set_pending(&mut self, pending: PendingEntry) {
        let slot = pending.consumer;
        if let Some(by_time) = &mut self.by_time {
            if let Some(known) = self.pending.get(pending.id) {
                by_time.remove(known);
            }
            by_time.insert(&pending);
        }
        match self.pending.get_mut(pending.id) {
            Some(known) => {
                let before = known.consumer;
                *known = pending;
                if before == slot {
                    return;
                }
                let moved = self.consumer_mut(before).pending.remove(pending.id);
                debug_assert!(moved.is_some(), "each pending entry has one consumer");
            }
            None => {
                self.pending.insert(pending);
            }
        }
        let is_new = self.consumer_mut(slot).pending.insert(pending.id);
        debug_assert!(is_new, "each pending entry has one consumer");
    }

    /// Iterates over the pending entries from the one that was delivered first. The first call
    /// makes the order, which is kept from then on.
    pub(crate) fn oldest_pending(&mut self) -> impl Iterator<Item = &PendingEntry> {
        let pending = &self.pending;
        let by_time = self.by_time.get_or_insert_with(|| {
            let mut by_time = Box::new(ByTime::default());
            pending.iter().for_each(|entry| by_time.insert(entry));
            by_time
        });
        debug_assert_eq!(by_time.order.len(), pending.len());
        by_time.order.values().filter_map(|&id| pending.get(id))
    }

    /// Counts another delivery of a pending entry.
    pub(crate) fn deliver_again(&mut self, id: StreamId, now_ms: i64) {
        if let Some(pending) = self.pending.get_mut(id) {
            if let Some(by_time) = &mut self.by_time {
                by_time.remove(pending);
            }
            pending.delivered_ms = now_ms;
            pending.deliveries = pending.deliveries.saturating_add(1);
            if let Some(by_time) = &mut self.by_time {
                by_time.insert(pending);
            }
        }
    }

    /// Acknowledges an entry; returns false if it was not pending.
    pub(crate) fn acknowledge(&mut self, id: StreamId) -> bool {
        match self.pending.remove(id) {
            Some(pending) => {
                if let Some(by_time) = &mut self.by_time {
                    by_time.remove(&pending);
                }
                let gone = self.consumer_mut(pending.consumer).pending.remove(id);
                debug_assert!(gone.is_some(), "each pending entry belongs to a consumer");
                true
            }
            None => false,
        }
    }

    /// Counts an entry after the last delivered one as delivered.
    pub(crate) fn advance(&mut self, id: StreamId, log: &EntryLog) {
        debug_assert!(id > self.last_id, "an entry is new to a group once");
        self.entries_read = match self.entries_read {
            Some(read) if self.last_id >= log.first_id() && !log.has_deleted_from(self.last_id) => {
                Some(read.wrapping_add(1))
            }
            read if log.state().added == 0 => read,
            _ => log.added_until(id),
        };
        self.last_id = id;
    }

    /// Returns how many entries are still to be delivered, if that is known. It is negative if the
    /// counter was set too high.
    pub(crate) fn lag(&self, log: &EntryLog) -> Option<i64> {
        let state = log.state();
        if state.added == 0 || log.len() == 0 {
            return Some(0);
        }
        let first_id = log.first_id();
        if self.last_id < first_id && state.max_deleted_id < first_id {
            return Some(log.len() as i64);
        }
        let read = match self.entries_read {
            Some(read) if !log.has_deleted_from(self.last_id) => read,
            _ => log.added_until(self.last_id)?,
        };
        Some(state.added.wrapping_sub(read) as i64)
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let consumers = self.consumers.iter().flatten();
        let of_consumers: usize = consumers
            .map(|consumer| consumer.name.len() + consumer.pending.len() * size_of::<StreamId>())
            .sum();
        size_of::<ConsumerGroup>()
            + self.consumers.capacity() * size_of::<Option<Consumer>>()
            + self.pending.len() * size_of::<PendingEntry>()
            + self
                .by_time
                .as_ref()
                .map_or(0, |by_time| by_time.order.len() * TIME_BYTES)
            + of_consumers
    }

    fn search(&self, name: &[u8]) -> Result<usize, usize> {
        self.by_name
            .binary_search_by(|&slot| self.consumer(ConsumerSlot(slot)).name().cmp(name))
    }
}

/// Approximate bytes of a pending entry's place among the others, by time.
const TIME_BYTES: usize = 80;
