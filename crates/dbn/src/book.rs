//! An order book built order by order, of which only the best prices are published.
//!
//! [`Book`] is the book of one instrument. It applies the events of its orders in one pass.
//! [`Books`] keeps one book per instrument of a DBN stream and turns any record into [`Tick`]s.
//! [`Accounting`] counts what happened to each record.
//!
//! The rules are Databento's:
//!
//! * Add, cancel (full or partial), modify and clear change the book. Trade and fill do not; the
//!   cancel that follows them does. A modify of an unknown order adds it.
//! * The state between two records flagged `LAST` is not published: within one event of the venue
//!   the book may be crossed or empty. The top is compared, and published, at the event's end.
//! * A record flagged `TOP_OF_BOOK` is not an order. It replaces its whole side. An undefined
//!   price empties the side.

mod accounting;
mod books;
mod changes;
mod depth;
mod open_orders;
mod repeats;
mod symbols;

#[cfg(test)]
mod tests;

pub use accounting::{Accounting, Unused};
pub use books::{Books, BooksConfig};
pub use depth::Depth;
pub use open_orders::{ClearRecord, OpenOrders};

use changes::Changes;

use crate::{MboRecord, UNDEFINED_PRICE, action, flag, side};

use tidewire_book::{BidAsk, Level, Order, Orders};
pub use tidewire_book::{BookError, BookLimits, Sides};

/// What a record did that must be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// The record is a trade.
    pub trade: bool,
    /// The record ends an event, and the top differs from that at the end of the previous event.
    pub quote: bool,
}

/// The orders of one instrument by order number, and their totals by price.
#[derive(Debug, Clone)]
pub struct Book {
    orders: Orders,
    sides: Sides,
    suspect: bool,
    /// Kept from the first time that they are taken.
    changes: Option<Box<Changes>>,
}

impl Book {
    /// Creates an empty book.
    pub fn new(limits: BookLimits) -> Self {
        Self {
            orders: Orders::new(limits.orders_max),
            sides: Sides::new(limits.levels_max),
            suspect: false,
            changes: None,
        }
    }

    /// Applies one event of one order.
    ///
    /// # Errors
    /// Returns [`BookError`] for a record that contradicts the book or exceeds a limit. It
    /// changes nothing, except that the end of an event still counts (see [`Book::end_event`]).
    #[inline]
    pub fn apply(&mut self, record: &MboRecord) -> Result<Change, BookError> {
        self.suspect |= record.flags & flag::MAYBE_BAD_BOOK != 0;
        let mut trade = false;
        match record.action {
            action::ADD => self.add(record)?,
            action::CANCEL => self.cancel(record)?,
            action::MODIFY => self.modify(record)?,
            action::TRADE => trade = true,
            action::FILL | action::NONE => {}
            action::CLEAR => self.clear(),
            _ => return Err(BookError::UnknownAction),
        }
        let quote = record.flags & flag::LAST != 0 && self.end_event();
        Ok(Change { trade, quote })
    }

    /// Ends an event. Returns whether the top differs from that at the end of the previous event.
    /// [`apply`](Self::apply) calls this for records flagged `LAST`, unless it fails.
    #[inline]
    pub fn end_event(&mut self) -> bool {
        self.sides.end_event()
    }

    /// Returns the current best bid and ask. Sizes and counts above `u32::MAX` are shown as
    /// `u32::MAX`.
    #[inline]
    pub fn top(&self) -> BidAsk {
        self.sides.top()
    }

    /// Iterates over the price levels of a side, the best first.
    pub fn levels(&self, is_bid: bool) -> impl Iterator<Item = Level> + '_ {
        self.sides.side(is_bid).iter()
    }

    /// Returns the number of orders in the book.
    pub fn order_count(&self) -> usize {
        self.orders.len()
    }

    /// Returns the number of price levels: bids, then asks.
    pub fn level_counts(&self) -> (usize, usize) {
        self.sides.level_counts()
    }

    /// Returns whether the publisher has reported a loss since the last clear.
    pub fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Removes all orders and levels.
    pub fn clear(&mut self) {
        self.orders.clear();
        self.sides.clear();
        self.suspect = false;
        self.note_all();
    }

    /// Moves the sides and prices that have changed since the last call to `places`, each once.
    /// Returns whether any other level may have changed too. `symbol` is the one for which they
    /// are taken; another one begins with a whole book.
    fn take_changes(&mut self, symbol: u32, places: &mut Vec<(bool, i64)>) -> bool {
        let changes = self.changes.get_or_insert_with(|| Box::new(Changes::new()));
        changes.take(symbol, places)
    }

    #[inline]
    fn note(&mut self, is_bid: bool, price: i64) {
        if let Some(changes) = &mut self.changes {
            changes.note(is_bid, price);
        }
    }

    fn note_all(&mut self) {
        if let Some(changes) = &mut self.changes {
            changes.note_all();
        }
    }

    #[inline]
    fn add(&mut self, record: &MboRecord) -> Result<(), BookError> {
        if record.flags & flag::TOP_OF_BOOK != 0 {
            return self.replace_side(record);
        }
        let order = order_of(record)?;
        if self.orders.is_full() {
            return self.add_to_full(record);
        }
        self.insert(record.order_id, order)
    }

    /// Adds an order.
    ///
    /// # Errors
    /// [`BookError::OrdersFull`] and [`BookError::LevelsFull`]; the book is unchanged.
    #[inline]
    fn insert(&mut self, order_id: u64, order: Order) -> Result<(), BookError> {
        if self.orders.is_full() {
            return Err(BookError::OrdersFull);
        }
        // The level first: once the table has room, only the level can be refused.
        self.sides
            .levels(order.is_bid)
            .add(order.price, order.size)?;
        self.note(order.is_bid, order.price);
        if let Some(replaced) = self.orders.insert(order_id, order) {
            // An order number sent twice: the newer order replaces the older one.
            let levels = self.sides.levels(replaced.is_bid);
            levels.remove(replaced.price, replaced.size, true);
            self.note(replaced.is_bid, replaced.price);
        }
        Ok(())
    }

    #[inline]
    fn cancel(&mut self, record: &MboRecord) -> Result<(), BookError> {
        self.reduce(record.order_id, record.size).map(|_| ())
    }

    /// Takes up to `size` from an order. Returns the size taken, with the order's price and side.
    ///
    /// # Errors
    /// [`BookError::UnknownOrder`].
    #[inline]
    fn reduce(&mut self, order_id: u64, size: u32) -> Result<Order, BookError> {
        let (taken, gone) = self
            .orders
            .reduce(order_id, size)
            .ok_or(BookError::UnknownOrder)?;
        self.sides.remove(taken, gone);
        self.note(taken.is_bid, taken.price);
        Ok(taken)
    }

    #[inline]
    fn modify(&mut self, record: &MboRecord) -> Result<(), BookError> {
        if record.flags & flag::TOP_OF_BOOK != 0 {
            return self.replace_side(record);
        }
        let new = order_of(record)?;
        let Some(order) = self.orders.find(record.order_id) else {
            return self.add(record);
        };
        let old = *order;
        if (old.price, old.is_bid) == (new.price, new.is_bid) {
            *order = new;
            let levels = self.sides.levels(new.is_bid);
            levels.resize(new.price, old.size, new.size);
            self.note(new.is_bid, new.price);
            return Ok(());
        }
        self.sides.levels(new.is_bid).add(new.price, new.size)?;
        if let Some(order) = self.orders.find(record.order_id) {
            *order = new;
        }
        let levels = self.sides.levels(old.is_bid);
        levels.remove(old.price, old.size, true);
        self.note(new.is_bid, new.price);
        self.note(old.is_bid, old.price);
        Ok(())
    }

    /// Adds an order to a full table. Only an order whose number is already there fits.
    #[cold]
    fn add_to_full(&mut self, record: &MboRecord) -> Result<(), BookError> {
        match self.orders.find(record.order_id) {
            Some(_) => self.modify(record),
            None => Err(BookError::OrdersFull),
        }
    }

    /// Replaces the orders of a side with the venue's top of book.
    #[cold]
    fn replace_side(&mut self, record: &MboRecord) -> Result<(), BookError> {
        let is_bid = match record.side {
            side::BID => true,
            side::ASK => false,
            _ => return Err(BookError::NoSide),
        };
        if record.price == i64::MIN {
            return Err(BookError::NoPrice);
        }
        self.note_all();
        self.orders.remove_side(is_bid);
        let levels = self.sides.levels(is_bid);
        levels.clear();
        if record.price != UNDEFINED_PRICE {
            levels.set_only(record.price, record.size)?;
        }
        Ok(())
    }
}

impl Default for Book {
    fn default() -> Self {
        Self::new(BookLimits::default())
    }
}

#[inline]
fn order_of(record: &MboRecord) -> Result<Order, BookError> {
    let is_bid = match record.side {
        side::BID => true,
        side::ASK => false,
        _ => return Err(BookError::NoSide),
    };
    // `i64::MIN` has no negative; `i64::MAX` means "no price".
    if record.price == UNDEFINED_PRICE || record.price == i64::MIN {
        return Err(BookError::NoPrice);
    }
    Ok(Order {
        price: record.price,
        size: record.size,
        book: 0,
        is_bid,
    })
}
