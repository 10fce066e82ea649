//! The right to write: for one slot, or for a set of them.

use crate::slot::MarketSlot;
use crate::table::SlotTable;
use crate::value::{MarketValue, Quote, Stamp, Trade};
use std::sync::Arc;

/// Why a slot could not be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The table has no slot of this index.
    #[error("no slot {index}")]
    NoSlot {
        /// The index asked for.
        index: u32,
    },
    /// Another writer holds the slot.
    #[error("slot is written by owner {owner}")]
    Owned {
        /// The name that it claimed the slot under.
        owner: u32,
    },
}

/// The one writer of a slot. Each method is one update: readers see all of it or nothing.
///
/// From [`MarketSlot::claim`] it gives the slot up when dropped; from [`Writer::slot`] the claim
/// stays with the [`Writer`].
#[derive(Debug)]
pub struct SlotWriter<'a> {
    slot: &'a MarketSlot,
    releases: bool,
}

impl<'a> SlotWriter<'a> {
    pub(crate) fn releasing(slot: &'a MarketSlot) -> Self {
        Self {
            slot,
            releases: true,
        }
    }

    #[inline]
    fn borrowing(slot: &'a MarketSlot) -> Self {
        Self {
            slot,
            releases: false,
        }
    }

    /// A new best bid and offer.
    #[inline]
    pub fn update_quote(&mut self, quote: Quote, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_quote(quote);
            slot.store_stamp(stamp);
        });
    }

    /// A trade: last, volume, number of trades, high, low, and the open if it is the first.
    #[inline]
    pub fn update_trade(&mut self, trade: Trade, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_trade(trade);
            slot.store_stamp(stamp);
        });
    }

    /// A trade and the quote after it, as one update.
    #[inline]
    pub fn update_both(&mut self, quote: Quote, trade: Trade, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_quote(quote);
            slot.store_trade(trade);
            slot.store_stamp(stamp);
        });
    }

    /// A new trading status, as the source encodes it.
    pub fn update_status(&mut self, status: u64, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_status(status);
            slot.store_stamp(stamp);
        });
    }

    /// Sets and clears flags ([`crate::FLAG_STALE`], …); the stamp stays that of the last data.
    pub fn update_flags(&mut self, set: u32, clear: u32) {
        self.slot.update(|slot| slot.store_flags(set, clear));
    }

    /// Begins a session: volume, trades, high, low and status are cleared. `session_open` is what
    /// the change is measured from; [`crate::PRICE_UNDEFINED`] leaves it to the first trade.
    pub fn start_session(&mut self, session_open: i64, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_session(&MarketValue {
                session_open,
                ..MarketValue::EMPTY
            });
            slot.store_stamp(stamp);
        });
    }

    /// Replaces the whole value, as a snapshot from upstream does. The number of updates is the
    /// slot's own and grows by one, whatever `value.updates` says.
    pub fn replace(&mut self, value: &MarketValue) {
        let quote = Quote {
            bid: value.bid,
            ask: value.ask,
            bid_size: value.bid_size,
            ask_size: value.ask_size,
        };
        let stamp = Stamp {
            source_time_ns: value.source_time_ns,
            receive_time_ns: value.receive_time_ns,
            sequence: value.sequence,
        };
        self.slot.update(|slot| {
            slot.store_quote(quote);
            slot.store_last(value.last, value.last_size, value.flags);
            slot.store_session(value);
            slot.store_stamp(stamp);
        });
    }

    /// Gives the writer's hold of the slot up; the same as dropping it.
    pub fn release(self) {}
}

impl Drop for SlotWriter<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.releases {
            self.slot.release();
        }
    }
}

/// The one writer of a set of slots of one table: what a feed's event loop holds.
///
/// Slots are claimed once, then written by index: a look at the slot's owner word is all that an
/// update pays for the proof that there is one writer. All claims end when it is dropped.
#[derive(Debug)]
pub struct Writer {
    table: Arc<SlotTable>,
    /// Never the owner word of another writer: the high half is a serial number.
    owner: u64,
    claimed: Vec<u32>,
}

impl Writer {
    pub(crate) fn new(table: Arc<SlotTable>, serial: u32, owner: u32) -> Self {
        Self {
            table,
            owner: u64::from(serial) << 32 | u64::from(owner),
            claimed: Vec::new(),
        }
    }

    /// Claims slot `index`. Claiming one that this writer has already changes nothing.
    ///
    /// # Errors
    /// [`ClaimError::NoSlot`], or [`ClaimError::Owned`] while another writer holds it.
    pub fn claim(&mut self, index: u32) -> Result<(), ClaimError> {
        let slot = self.table.slot(index).ok_or(ClaimError::NoSlot { index })?;
        if slot.is_owned_by(self.owner) {
            return Ok(());
        }
        slot.acquire(self.owner)?;
        self.claimed.push(index);
        Ok(())
    }

    /// The claimed slot `index`, to be updated; `None` if this writer has not claimed it.
    #[inline]
    pub fn slot(&mut self, index: u32) -> Option<SlotWriter<'_>> {
        let slot = self.table.slot(index)?;
        slot.is_owned_by(self.owner)
            .then(|| SlotWriter::borrowing(slot))
    }

    /// Gives slot `index` up; false if this writer has not claimed it.
    pub fn release(&mut self, index: u32) -> bool {
        let Some(position) = self.claimed.iter().position(|claimed| *claimed == index) else {
            return false;
        };
        self.claimed.swap_remove(position);
        if let Some(slot) = self.table.slot(index) {
            slot.release();
        }
        true
    }

    /// The indexes claimed, in no particular order.
    pub fn claimed(&self) -> &[u32] {
        &self.claimed
    }

    /// The table that the slots belong to.
    pub fn table(&self) -> &Arc<SlotTable> {
        &self.table
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        for slot in self
            .claimed
            .iter()
            .filter_map(|index| self.table.slot(*index))
        {
            slot.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTE: Quote = Quote {
        bid: 1,
        ask: 2,
        bid_size: 3,
        ask_size: 4,
    };

    fn table() -> Arc<SlotTable> {
        let table = Arc::new(SlotTable::new(8));
        table.extend_to(4).unwrap();
        table
    }

    #[test]
    fn a_writer_reaches_only_what_it_claimed() {
        let table = table();
        let mut writer = table.writer(5);
        writer.claim(1).unwrap();
        writer.claim(1).unwrap();
        assert_eq!(writer.claimed(), [1]);
        writer
            .slot(1)
            .unwrap()
            .update_quote(QUOTE, Stamp::default());
        assert!(writer.slot(0).is_none());
        assert!(writer.slot(100).is_none());
        assert_eq!(table.slot(1).unwrap().updates(), 1);
        assert_eq!(
            table.slot(1).unwrap().owner(),
            Some(5),
            "a finished update keeps the claim"
        );
    }

    #[test]
    fn writers_of_one_name_are_not_taken_for_each_other() {
        let table = table();
        let (mut one, mut other) = (table.writer(5), table.writer(5));
        one.claim(0).unwrap();
        assert_eq!(other.claim(0), Err(ClaimError::Owned { owner: 5 }));
        assert!(other.slot(0).is_none());
        assert!(!other.release(0));
        let single = table.claim_writer(2, 5).unwrap();
        assert_eq!(one.claim(2), Err(ClaimError::Owned { owner: 5 }));
        drop(single);
        assert_eq!(one.claim(2), Ok(()));
    }

    #[test]
    fn claims_end_with_release_and_with_the_writer() {
        let table = table();
        let mut writer = table.writer(5);
        (0..3).for_each(|index| writer.claim(index).unwrap());
        assert!(writer.release(1));
        assert!(writer.slot(1).is_none());
        assert_eq!(table.claim_writer(1, 6).map(drop), Ok(()));
        assert_eq!(
            table.claim_writer(0, 6).unwrap_err(),
            ClaimError::Owned { owner: 5 }
        );
        drop(writer);
        assert!((0..3).all(|index| table.slot(index).unwrap().owner().is_none()));
    }

    #[test]
    fn there_is_no_claim_beyond_the_table() {
        let table = table();
        assert_eq!(
            table.writer(1).claim(4),
            Err(ClaimError::NoSlot { index: 4 })
        );
        assert_eq!(
            table.claim_writer(4, 1).unwrap_err(),
            ClaimError::NoSlot { index: 4 }
        );
    }
}
