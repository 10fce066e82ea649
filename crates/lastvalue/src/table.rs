//! The slots of all symbols, by index.

use crate::slot::MarketSlot;
use crate::writer::{ClaimError, SlotWriter, Writer};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Default limit of slots: one for each of 2^20 symbols (192 MiB).
pub const SLOT_LIMIT_DEFAULT: usize = 1 << 20;
/// Largest possible limit: 2^24 slots are 3 GiB, more than any one venue's symbols.
pub const SLOT_LIMIT_MAX: usize = 1 << 24;

/// Error: the table already has as many slots as its limit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the table is full: its limit is {limit} slots")]
pub struct TableFull {
    /// The limit of the table.
    pub limit: usize,
}

/// Slots by index, from 0. The table grows chunk by chunk, slots never move, and reading takes no
/// lock.
#[derive(Debug)]
pub struct SlotTable {
    /// The directory has its full length from the start: 24 bytes per 1,024 slots.
    chunks: Box<[OnceLock<Box<[MarketSlot]>>]>,
    /// Slots in use. All chunks below it exist.
    len: AtomicUsize,
    limit: usize,
    growth: Mutex<()>,
    /// Serial number of the last [`Writer`], from 1.
    writers: AtomicU32,
}

impl SlotTable {
    /// Creates an empty table that grows to at most `limit` slots (never beyond
    /// [`SLOT_LIMIT_MAX`]).
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(SLOT_LIMIT_MAX);
        Self {
            chunks: (0..limit.div_ceil(CHUNK_LEN))
                .map(|_| OnceLock::new())
                .collect(),
            len: AtomicUsize::new(0),
            limit,
            growth: Mutex::new(()),
            writers: AtomicU32::new(0),
        }
    }

    /// Returns the slot with this index, or `None` beyond the table's end.
    #[inline]
    pub fn slot(&self, index: u32) -> Option<&MarketSlot> {
        let index = index as usize;
        if index >= self.len.load(Ordering::Acquire) {
            return None;
        }
        self.chunks[index / CHUNK_LEN].get()?.get(index % CHUNK_LEN)
    }

    /// Adds a slot and returns its index.
    ///
    /// # Errors
    /// [`TableFull`] at the limit.
    pub fn push(&self) -> Result<u32, TableFull> {
        let _growing = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let index = self.len();
        self.grow(index + 1)?;
        Ok(index as u32)
    }

    /// Grows to at least `count` slots. A table that is large enough stays unchanged.
    ///
    /// # Errors
    /// [`TableFull`] beyond the limit; then no slot is added.
    pub fn extend_to(&self, count: usize) -> Result<(), TableFull> {
        let _growing = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if count <= self.len() {
            Ok(())
        } else {
            self.grow(count)
        }
    }

    /// Returns the number of slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns whether there is no slot yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the limit of slots.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Claims slot `index` for one writer until the returned value is dropped.
    ///
    /// # Errors
    /// [`ClaimError::NoSlot`], or [`ClaimError::Owned`] while another writer holds it.
    pub fn claim_writer(&self, index: u32, owner: u32) -> Result<SlotWriter<'_>, ClaimError> {
        self.slot(index)
            .ok_or(ClaimError::NoSlot { index })?
            .claim(owner)
    }

    /// Returns a writer for many slots, with none claimed yet. `owner` names the source in the
    /// error of other claims.
    pub fn writer(self: &Arc<Self>, owner: u32) -> Writer {
        // 31 bits: the top bit marks slots that were claimed directly. A serial would repeat only
        // after 2^31 writers, while the first still exists.
        let serial = self.writers.fetch_add(1, Ordering::Relaxed) % (u32::MAX >> 1) + 1;
        Writer::new(Arc::clone(self), serial, owner)
    }

    /// Creates the chunks below `count` and then publishes them to readers. The caller holds the
    /// growth lock.
    fn grow(&self, count: usize) -> Result<(), TableFull> {
        if count > self.limit {
            return Err(TableFull { limit: self.limit });
        }
        for chunk in &self.chunks[self.len() / CHUNK_LEN..count.div_ceil(CHUNK_LEN)] {
            chunk.get_or_init(|| (0..CHUNK_LEN).map(|_| MarketSlot::new()).collect());
        }
        self.len.store(count, Ordering::Release);
        Ok(())
    }
}

impl Default for SlotTable {
    fn default() -> Self {
        Self::new(SLOT_LIMIT_DEFAULT)
    }
}

/// Number of slots in a chunk: 192 KiB, which takes microseconds to create.
const CHUNK_LEN: usize = if cfg!(loom) { 1 } else { 1024 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_where_they_are_while_the_table_grows() {
        let table = SlotTable::new(10 * CHUNK_LEN);
        let first = table.push().unwrap();
        let before: *const MarketSlot = table.slot(first).unwrap();
        table.extend_to(3 * CHUNK_LEN + 1).unwrap();
        assert!(std::ptr::eq(before, table.slot(first).unwrap()));
        assert_eq!(table.len(), 3 * CHUNK_LEN + 1);
        assert!(table.slot(3 * CHUNK_LEN as u32).is_some());
        assert!(
            table.slot(3 * CHUNK_LEN as u32 + 1).is_none(),
            "made with the chunk, not in use"
        );
    }

    #[test]
    fn a_full_table_refuses_and_stays_as_it_was() {
        let table = SlotTable::new(3);
        table.extend_to(2).unwrap();
        assert_eq!(table.extend_to(4), Err(TableFull { limit: 3 }));
        assert_eq!(table.len(), 2);
        assert_eq!(table.extend_to(1), Ok(()), "never shrinks");
        assert_eq!(table.push(), Ok(2));
        assert_eq!(table.push(), Err(TableFull { limit: 3 }));
        assert!(table.slot(u32::MAX).is_none());
    }

    #[test]
    fn no_limit_is_beyond_the_greatest() {
        assert_eq!(SlotTable::new(usize::MAX).limit(), SLOT_LIMIT_MAX);
        assert_eq!(SlotTable::new(0).push(), Err(TableFull { limit: 0 }));
    }

    #[test]
    fn indexes_pushed_by_many_threads_are_all_different() {
        let table = SlotTable::new(2 * CHUNK_LEN);
        let mut indexes: Vec<u32> = std::thread::scope(|scope| {
            let push = || (0..500).map(|_| table.push().unwrap()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(push)).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        indexes.sort_unstable();
        assert_eq!(indexes, (0..2_000).collect::<Vec<_>>());
    }
}
