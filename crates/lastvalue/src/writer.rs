//! Exclusive write access to one slot or to a set of slots.

use crate::numbers::NumberSet;
use crate::slot::MarketSlot;
use crate::table::SlotTable;
use crate::value::{MarketValue, NewSession, Quote, Reference, Stamp, Status, Trade};
use std::sync::Arc;

/// The reason why a slot could not be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The table has no slot with this index.
    #[error("no slot {index}")]
    NoSlot {
        /// The requested index.
        index: u32,
    },
    /// Another writer holds the slot.
    #[error("slot is written by owner {owner}")]
    Owned {
        /// The name under which that writer claimed the slot.
        owner: u32,
    },
}

/// The only writer of a slot. Each method is one update: readers see all of it or nothing.
///
/// If it comes from [`MarketSlot::claim`], dropping it releases the slot. If it comes from
/// [`Writer::slot`], the claim stays with the [`Writer`].
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

    /// Stores a new best bid and offer.
    #[inline]
    pub fn update_quote(&mut self, quote: Quote, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_top(quote);
            slot.store_stamp(stamp);
            slot.store_orders(quote);
        });
    }

    /// Stores a trade: last, volume, number of trades, high, low, and the open if it is the first.
    /// Of a trade without price only the stamp is stored.
    #[inline]
    pub fn update_trade(&mut self, trade: Trade, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_trade(trade);
            slot.store_stamp(stamp);
        });
    }

    /// Stores a trade and the quote after it, as one update.
    #[inline]
    pub fn update_both(&mut self, quote: Quote, trade: Trade, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_quote(quote);
            slot.store_trade(trade);
            slot.store_stamp(stamp);
        });
    }

    /// Stores a new trading status.
    pub fn update_status(&mut self, status: Status, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_status(status);
            slot.store_stamp(stamp);
        });
    }

    /// Sets and clears flags ([`crate::FLAG_STALE`], …). The stamp of the last data stays.
    pub fn update_flags(&mut self, set: u32, clear: u32) {
        self.slot.update(|slot| slot.store_flags(set, clear));
    }

    /// Returns the flags.
    pub fn flags(&self) -> u32 {
        self.slot.flags()
    }

    /// Stores a quote and clears flags, as one update.
    pub fn update_fresh(&mut self, quote: Quote, stamp: Stamp, clear: u32) {
        self.slot.update(|slot| {
            slot.store_quote(quote);
            slot.store_stamp(stamp);
            slot.store_flags(0, clear);
        });
    }

    /// Stores the price from which the change is measured.
    pub fn update_reference(&mut self, reference: Reference, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_reference(reference);
            slot.store_stamp(stamp);
        });
    }

    /// Stores the session's open, as its source declares it.
    pub fn update_open(&mut self, price: i64, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_session_open(price);
            slot.store_stamp(stamp);
        });
    }

    /// Begins a session: clears volume, turnover, trades, high and low. Without a declared open
    /// the first trade is the open. Quote, last trade and status stay.
    pub fn start_session(&mut self, start: NewSession, stamp: Stamp) {
        self.slot.update(|slot| {
            slot.store_session(&MarketValue {
                session_open: start.open,
                trading_day: start.trading_day,
                ..MarketValue::EMPTY
            });
            slot.store_reference(start.reference);
            slot.store_stamp(stamp);
        });
    }

    /// Replaces the whole value, as a snapshot from upstream does. The slot's own number of updates
    /// grows by one; `value.updates` is ignored.
    pub fn replace(&mut self, value: &MarketValue) {
        let stamp = Stamp {
            source_time_ns: value.source_time_ns,
            receive_time_ns: value.receive_time_ns,
            sequence: value.sequence,
        };
        self.slot.update(|slot| {
            slot.store_quote(value.quote());
            slot.store_last(value);
            slot.store_session(value);
            slot.store_reference(value.reference);
            slot.store_status(value.status);
            slot.store_venues(value.venues);
            slot.store_stamp(stamp);
        });
    }

    /// Releases the slot; the same as dropping the writer.
    pub fn release(self) {}
}

impl Drop for SlotWriter<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.releases {
            self.slot.release_claim();
        }
    }
}

/// The only writer of a set of slots of one table, as the event loop of a feed holds it.
///
/// Slots are claimed once and then written by index. An update checks the slot's owner word, which
/// is the only cost of ensuring a single writer. Dropping the writer ends all claims.
#[derive(Debug)]
pub struct Writer {
    table: Arc<SlotTable>,
    /// Differs from the owner word of every other writer: the high half is a serial number.
    owner: u64,
    claimed: NumberSet,
}

impl Writer {
    pub(crate) fn new(table: Arc<SlotTable>, serial: u32, owner: u32) -> Self {
        Self {
            table,
            owner: u64::from(serial) << 32 | u64::from(owner),
            claimed: NumberSet::default(),
        }
    }

    /// Claims slot `index`. Claiming it again has no effect.
    ///
    /// # Errors
    /// [`ClaimError::NoSlot`], or [`ClaimError::Owned`] while another writer holds it.
    pub fn claim(&mut self, index: u32) -> Result<(), ClaimError> {
        let slot = self.table.slot(index).ok_or(ClaimError::NoSlot { index })?;
        // Another writer may have handed it over.
        if !slot.is_owned_by(self.owner) {
            slot.acquire(self.owner)?;
        }
        self.claimed.insert(index);
        Ok(())
    }

    /// Takes slot `index` from its owner, or claims it if it is free. The former owner finds that
    /// it no longer has the slot.
    ///
    /// The caller must exclude that the former owner is updating the slot now: writers that share
    /// slots this way update them under one lock.
    ///
    /// # Errors
    /// [`ClaimError::NoSlot`].
    pub fn take_over(&mut self, index: u32) -> Result<(), ClaimError> {
        let slot = self.table.slot(index).ok_or(ClaimError::NoSlot { index })?;
        if !slot.is_owned_by(self.owner) {
            slot.take_over(self.owner);
            self.claimed.insert(index);
        }
        Ok(())
    }

    /// Gives slot `index`, which this writer has, to the owner of the slot `of`, or releases it if
    /// that is free. The new owner must [`claim`](Self::claim) it before it ends.
    ///
    /// The caller must exclude that the new owner ends meanwhile, as for
    /// [`take_over`](Self::take_over).
    pub fn hand_over(&mut self, index: u32, of: u32) {
        let (slot, of) = (self.table.slot(index), self.table.slot(of));
        if let (Some(slot), Some(of)) = (slot, of)
            && self.claimed.remove(index)
            && slot.is_owned_by(self.owner)
        {
            slot.take_over(of.owner_word());
        }
    }

    /// Returns the claimed slot `index` for an update; `None` if this writer has not claimed it.
    #[inline]
    pub fn slot(&mut self, index: u32) -> Option<SlotWriter<'_>> {
        let slot = self.table.slot(index)?;
        slot.is_owned_by(self.owner)
            .then(|| SlotWriter::borrowing(slot))
    }

    /// Releases slot `index`. Returns false if this writer does not have it.
    pub fn release(&mut self, index: u32) -> bool {
        if !self.claimed.remove(index) {
            return false;
        }
        let slot = self.table.slot(index);
        slot.is_some_and(|slot| slot.release(self.owner))
    }

    /// Returns the claimed indexes. Some of them may have been taken over since.
    pub fn claimed(&self) -> &NumberSet {
        &self.claimed
    }

    /// Returns the table of the slots.
    pub fn table(&self) -> &Arc<SlotTable> {
        &self.table
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        for slot in self
            .claimed
            .iter()
            .filter_map(|index| self.table.slot(index))
        {
            slot.release(self.owner);
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
        bid_orders: 0,
        ask_orders: 0,
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
        assert!(writer.claimed().iter().eq([1]));
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
    fn who_lost_a_slot_neither_writes_nor_releases_it() {
        let table = table();
        let (mut one, mut other) = (table.writer(5), table.writer(6));
        one.claim(0).unwrap();
        other.take_over(0).unwrap();
        other.take_over(1).unwrap();
        assert!(one.slot(0).is_none());
        assert!(!one.release(0));
        drop(one);
        assert_eq!(table.slot(0).unwrap().owner(), Some(6));
        assert_eq!(table.slot(1).unwrap().owner(), Some(6));
        assert_eq!(other.take_over(4), Err(ClaimError::NoSlot { index: 4 }));
    }

    #[test]
    fn a_slot_is_handed_to_the_owner_of_another() {
        let table = table();
        let (mut one, mut other) = (table.writer(5), table.writer(6));
        one.claim(0).unwrap();
        other.claim(1).unwrap();
        other.hand_over(1, 0);
        assert!(other.slot(1).is_none());
        assert!(one.slot(1).is_some(), "without a claim");
        one.claim(1).unwrap();
        drop(one);
        assert_eq!(table.slot(1).unwrap().owner(), None);
        other.claim(1).unwrap();
        other.hand_over(1, 2);
        assert_eq!(table.slot(1).unwrap().owner(), None, "a free one has none");
        other.hand_over(1, 0);
    }

    #[test]
    fn every_way_to_store_a_quote_stores_its_orders() {
        let table = table();
        let mut writer = table.writer(5);
        writer.claim(0).unwrap();
        let (quote, stamp) = (
            Quote {
                bid_orders: 7,
                ask_orders: 8,
                ..QUOTE
            },
            Stamp::default(),
        );
        let ways: [fn(&mut SlotWriter<'_>, Quote, Stamp); 4] = [
            |slot, quote, stamp| slot.update_quote(quote, stamp),
            |slot, quote, stamp| {
                slot.update_both(
                    quote,
                    Trade {
                        price: 1,
                        size: 1,
                        condition: 0,
                    },
                    stamp,
                )
            },
            |slot, quote, stamp| slot.update_fresh(quote, stamp, 0),
            |slot, quote, _| {
                let (bid_orders, ask_orders) = (quote.bid_orders, quote.ask_orders);
                slot.replace(&MarketValue {
                    bid_orders,
                    ask_orders,
                    ..MarketValue::EMPTY
                });
            },
        ];
        for way in ways {
            writer.slot(0).unwrap().replace(&MarketValue::EMPTY);
            way(&mut writer.slot(0).unwrap(), quote, stamp);
            let found = table.slot(0).unwrap().snapshot();
            assert_eq!((found.bid_orders, found.ask_orders), (7, 8));
        }
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
