//! Both sides of a book: what its orders add up to by price.

use crate::BidAsk;
use crate::BookError;
use crate::levels::Levels;
use crate::orders::Order;

/// Bids and asks by price, and the top as it was last asked for.
#[derive(Debug, Clone)]
pub struct Sides {
    bids: Levels,
    asks: Levels,
    /// The top at the end of the last event.
    published: BidAsk,
}

impl Sides {
    /// Empty ones, of so many price levels each at most.
    pub fn new(levels_max: usize) -> Self {
        Self {
            bids: Levels::bids(levels_max),
            asks: Levels::asks(levels_max),
            published: BidAsk::EMPTY,
        }
    }

    /// Reads what a change of the best prices will look at: then it is in the cache.
    #[inline]
    pub fn touch(&self) {
        self.bids.touch();
        self.asks.touch();
        std::hint::black_box(self.published.bid_orders);
    }

    /// Ends an event: whether the top is another than at the end of the event before.
    #[inline]
    pub fn end_event(&mut self) -> bool {
        let top = self.top();
        let changed = top != self.published;
        self.published = top;
        changed
    }

    /// The best bid and ask as they stand. Sizes and counts above 32 bits are held at their
    /// maximum.
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

    /// Price levels, bids and asks.
    pub fn level_counts(&self) -> (usize, usize) {
        (self.bids.len(), self.asks.len())
    }

    /// Empties both.
    pub fn clear(&mut self) {
        self.bids.clear();
        self.asks.clear();
    }

    /// Adds an order.
    ///
    /// # Errors
    /// [`BookError::LevelsFull`]; nothing is changed.
    #[inline]
    pub fn add(&mut self, order: Order) -> Result<(), BookError> {
        self.levels(order.is_bid).add(order.price, order.size)
    }

    /// Takes this much of an order, and the order itself if it is `gone`.
    #[inline]
    pub fn remove(&mut self, taken: Order, gone: bool) {
        let levels = self.levels(taken.is_bid);
        levels.remove(taken.price, taken.size, gone);
    }

    /// The levels of one side.
    #[inline]
    pub fn levels(&mut self, is_bid: bool) -> &mut Levels {
        if is_bid {
            &mut self.bids
        } else {
            &mut self.asks
        }
    }
}
