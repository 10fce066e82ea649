//! Both sides of a book: the totals of its orders by price.

use crate::BidAsk;
use crate::BookError;
use crate::levels::Levels;
use crate::orders::Order;

/// Bids and asks by price, and the last published top.
#[derive(Debug, Clone)]
pub struct Sides {
    bids: Levels,
    asks: Levels,
    /// The top at the end of the last event.
    published: BidAsk,
}

impl Sides {
    /// Creates empty sides with at most `levels_max` price levels each.
    pub fn new(levels_max: usize) -> Self {
        Self {
            bids: Levels::bids(levels_max),
            asks: Levels::asks(levels_max),
            published: BidAsk::EMPTY,
        }
    }

    /// Reads what a change of the best prices needs, to bring it into the cache.
    #[inline]
    pub fn touch(&self) {
        self.bids.touch();
        self.asks.touch();
        std::hint::black_box(self.published.bid_orders);
    }

    /// Ends an event. Returns whether the top differs from that at the end of the previous event.
    #[inline]
    pub fn end_event(&mut self) -> bool {
        let top = self.top();
        let changed = top != self.published;
        self.published = top;
        changed
    }

    /// Returns the current best bid and ask. Sizes and counts above `u32::MAX` are shown as
    /// `u32::MAX`.
    #[inline]
    pub fn top(&self) -> BidAsk {
        let (bid, ask) = (self.bids.best(), self.asks.best());
        BidAsk {
            bid: bid.price,
            ask: ask.price,
            bid_size: u32::try_from(bid.size).unwrap_or(u32::MAX),
            ask_size: u32::try_from(ask.size).unwrap_or(u32::MAX),
            bid_orders: bid.orders,
            ask_orders: ask.orders,
        }
    }

    /// Returns the number of price levels: bids, then asks.
    pub fn level_counts(&self) -> (usize, usize) {
        (self.bids.len(), self.asks.len())
    }

    /// Empties both sides.
    pub fn clear(&mut self) {
        self.bids.clear();
        self.asks.clear();
    }

    /// Adds an order.
    ///
    /// # Errors
    /// [`BookError::LevelsFull`]; the sides are unchanged.
    #[inline]
    pub fn add(&mut self, order: Order) -> Result<(), BookError> {
        self.levels(order.is_bid).add(order.price, order.size)
    }

    /// Removes the size of `taken` from an order, and the order itself if it is `gone`.
    #[inline]
    pub fn remove(&mut self, taken: Order, gone: bool) {
        let levels = self.levels(taken.is_bid);
        levels.remove(taken.price, taken.size, gone);
    }

    /// Returns the levels of one side, to read them.
    pub fn side(&self, is_bid: bool) -> &Levels {
        match is_bid {
            true => &self.bids,
            false => &self.asks,
        }
    }

    /// Returns the levels of one side.
    #[inline]
    pub fn levels(&mut self, is_bid: bool) -> &mut Levels {
        if is_bid {
            &mut self.bids
        } else {
            &mut self.asks
        }
    }
}
