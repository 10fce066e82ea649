//! Order book by order, kept to its top.
//!
//! [`Book`] is one instrument's book, built from the events of its orders in one pass; [`Books`]
//! keeps one for each instrument of a DBN stream and turns any record into [`Tick`]s, while
//! [`Accounting`] says what became of every record.
//!
//! The rules are Databento's:
//!
//! * Add, cancel (also of a part), modify and clear change the book; trade and fill do not, the
//!   cancel that follows them does. A modify of an unknown order adds it.
//! * What stands between two records flagged `LAST` is not shown: a venue's event may pass
//!   through a crossed or empty book. The top is compared, and published, at the event's end.
//! * A record flagged `TOP_OF_BOOK` is not an order: it replaces its side, and an undefined price
//!   empties it.

mod accounting;
mod books;

#[cfg(test)]
mod tests;

pub use accounting::{Accounting, Unused};
pub use books::{Books, BooksConfig};

use crate::{MboRecord, UNDEFINED_PRICE, action, flag, side};

use tidewire_book::{BidAsk, Order, Orders};
pub use tidewire_book::{BookError, BookLimits, Sides};

/// What a record did to the book, as far as it is to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// The record is a trade.
    pub trade: bool,
    /// The record ends an event, and the top is not what it was at the end of the event before.
    pub quote: bool,
}

/// The orders of one instrument, by their numbers, and what they add up to by price.
#[derive(Debug, Clone)]
pub struct Book {
    orders: Orders,
    sides: Sides,
    suspect: bool,
}

impl Book {
    /// An empty book.
    pub fn new(limits: BookLimits) -> Self {
        Self {
            orders: Orders::new(limits.orders_max),
            sides: Sides::new(limits.levels_max),
            suspect: false,
        }
    }

    /// Applies one event of one order.
    ///
    /// # Errors
    /// [`BookError`] for a record that contradicts the book or is over a limit; it changes
    /// nothing, except that the end of an event still shows in [`Book::end_event`].
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

    /// Ends an event: whether the top is another than at the end of the event before.
    /// [`apply`](Self::apply) does this by itself at records flagged `LAST`, unless it fails.
    #[inline]
    pub fn end_event(&mut self) -> bool {
        self.sides.end_event()
    }

    /// The best bid and ask as the book stands. Sizes and counts above 32 bits are held at their
    /// maximum.
    #[inline]
    pub fn top(&self) -> BidAsk {
        self.sides.top()
    }

    /// Orders in the book.
    pub fn order_count(&self) -> usize {
        self.orders.len()
    }

    /// Price levels, bids and asks.
    pub fn level_counts(&self) -> (usize, usize) {
        self.sides.level_counts()
    }

    /// Whether the publisher said, since the last clear, that it lost something.
    pub fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.orders.clear();
        self.sides.clear();
        self.suspect = false;
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
    /// [`BookError::OrdersFull`] and [`BookError::LevelsFull`]; nothing is changed.
    #[inline]
    fn insert(&mut self, order_id: u64, order: Order) -> Result<(), BookError> {
        if self.orders.is_full() {
            return Err(BookError::OrdersFull);
        }
        // The level before the order: only a level can be refused once the table has room.
        self.sides
            .levels(order.is_bid)
            .add(order.price, order.size)?;
        if let Some(replaced) = self.orders.insert(order_id, order) {
            // The same number twice: the newer word stands.
            let levels = self.sides.levels(replaced.is_bid);
            levels.remove(replaced.price, replaced.size, true);
        }
        Ok(())
    }

    #[inline]
    fn cancel(&mut self, record: &MboRecord) -> Result<(), BookError> {
        self.reduce(record.order_id, record.size).map(|_| ())
    }

    /// Takes up to `size` from an order; what was taken, with the order's price and side.
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
            return Ok(());
        }
        self.sides.levels(new.is_bid).add(new.price, new.size)?;
        if let Some(order) = self.orders.find(record.order_id) {
            *order = new;
        }
        let levels = self.sides.levels(old.is_bid);
        levels.remove(old.price, old.size, true);
        Ok(())
    }

    /// A full table still takes an order whose number is in it.
    #[cold]
    fn add_to_full(&mut self, record: &MboRecord) -> Result<(), BookError> {
        match self.orders.find(record.order_id) {
            Some(_) => self.modify(record),
            None => Err(BookError::OrdersFull),
        }
    }

    /// A venue's top of book in place of a side's orders.
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
    // The least number has no negative, and the greatest means "none".
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
