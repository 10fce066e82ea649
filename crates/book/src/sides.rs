//! Both sides of a book: the totals of its orders by price.

use crate::BidAsk;
use crate::BookError;
use crate::cache_line::prefetch;
use crate::levels::{BestLevel, LevelChange, Levels};
use crate::orders::Order;

/// Bids and asks by price, and the last published top.
#[derive(Debug, Clone)]
pub struct Sides {
    /// Asks, then bids: the index is whether it is the bid side.
    sides: [Levels; 2],
}

impl Sides {
    /// Creates empty sides with at most `levels_max` price levels each.
    pub fn new(levels_max: usize) -> Self {
        Self {
            sides: [Levels::asks(levels_max), Levels::bids(levels_max)],
        }
    }

    /// Prefetches the fields that a change near the best price needs.
    #[inline]
    pub fn touch(&self) {
        prefetch(&raw const self.sides[0]);
        prefetch(&raw const self.sides[1]);
    }

    /// Ends an event. Returns whether the top differs from that at the end of the previous event.
    #[inline]
    pub fn end_event(&mut self) -> bool {
        let [asks, bids] = &mut self.sides;
        asks.end_event() | bids.end_event()
    }

    /// Ends an event that changed only one side; cheaper than [`end_event`](Self::end_event).
    #[inline]
    pub fn end_event_of(&mut self, is_bid: bool) -> bool {
        let changed = self.sides[usize::from(is_bid)].end_event();
        debug_assert!(!self.end_event(), "only one side was changed");
        changed
    }

    /// Returns the current best bid and ask. Sizes and counts above `u32::MAX` are shown as
    /// `u32::MAX`.
    #[inline]
    pub fn top(&self) -> BidAsk {
        let [asks, bids] = &self.sides;
        top_of(bids.best_published(), asks.best_published())
    }

    /// Returns the top as of the end of the last event.
    #[inline]
    pub fn published(&self) -> BidAsk {
        let [asks, bids] = &self.sides;
        top_of(bids.published(), asks.published())
    }

    /// Returns the number of price levels: bids, then asks.
    pub fn level_counts(&self) -> (usize, usize) {
        let [asks, bids] = &self.sides;
        (bids.len(), asks.len())
    }

    /// Returns how many changes were not near the best price; it only grows.
    pub fn far_changes(&self) -> u64 {
        self.sides.iter().map(Levels::far_changes).sum()
    }

    /// Empties both sides.
    pub fn clear(&mut self) {
        self.sides.iter_mut().for_each(Levels::clear);
    }

    /// Adds an order.
    ///
    /// # Errors
    /// [`BookError::LevelsFull`]; the sides are unchanged.
    #[inline]
    pub fn add(&mut self, order: Order) -> Result<LevelChange, BookError> {
        self.levels(order.is_bid).add(order.price, order.size)
    }

    /// Removes the size of `taken` from an order, and the order itself if it is `gone`.
    #[inline]
    pub fn remove(&mut self, taken: Order, gone: bool) -> LevelChange {
        let levels = self.levels(taken.is_bid);
        levels.remove(taken.price, taken.size, gone)
    }

    /// Returns the levels of one side, to read them.
    #[inline]
    pub fn side(&self, is_bid: bool) -> &Levels {
        &self.sides[usize::from(is_bid)]
    }

    /// Returns the levels of one side, to change them.
    #[inline]
    pub fn levels(&mut self, is_bid: bool) -> &mut Levels {
        &mut self.sides[usize::from(is_bid)]
    }
}

#[inline]
fn top_of(bid: BestLevel, ask: BestLevel) -> BidAsk {
    BidAsk {
        bid: bid.price,
        ask: ask.price,
        bid_size: bid.size,
        ask_size: ask.size,
        bid_orders: bid.orders,
        ask_orders: ask.orders,
    }
}
