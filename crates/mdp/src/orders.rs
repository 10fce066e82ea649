//! Books by order: the orders of each instrument, from which the levels of any depth follow.

use tidewire_book::{BookError, Order, Orders, Sides};
use tidewire_feed::client::Sink;
use tidewire_sbe::{DecodeError, Message};

use crate::channel::{Channel, size_of_wire};
use crate::schema::{MDEntryTypeBook, MDIncrementalRefreshOrderBook47, OrderUpdateAction};

/// The book of one instrument, by order.
#[derive(Debug)]
pub struct OrderBook {
    orders: Orders,
    sides: Sides,
    /// Whether it has all orders. Otherwise changes wait for a snapshot.
    is_live: bool,
    /// Changes of packets up to this sequence are in the snapshot that it was made of.
    as_of: u64,
    /// Changes that wait for a snapshot, with the sequence of their packet.
    queue: Vec<(u64, OrderChange)>,
    /// A snapshot of which some chunks have arrived.
    chunks: Option<Chunks>,
    pub(crate) seen_in_loop: u64,
}

/// A change of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderChange {
    /// A new order, or new values of a known one.
    Set { order_id: u64, order: Order },
    /// The order is gone.
    Delete { order_id: u64 },
    /// All orders of the instrument are gone.
    Reset,
}

/// A snapshot that comes in several messages.
#[derive(Debug)]
struct Chunks {
    as_of: u64,
    next: u32,
    orders: Vec<(u64, Order)>,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Applied,
    Queued,
    /// The snapshot had it already.
    Old,
    UnknownOrder,
    /// The book or the queue has no room.
    Refused,
}

impl OrderBook {
    pub(crate) fn new(limits: &OrderLimits, is_live: bool) -> Self {
        Self {
            orders: Orders::new(limits.orders_max),
            sides: Sides::new(limits.levels_max),
            is_live,
            as_of: 0,
            queue: Vec::new(),
            chunks: None,
            seen_in_loop: 0,
        }
    }

    /// Returns whether the book has all orders; otherwise it waits for a snapshot.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the totals by price.
    pub fn sides(&self) -> &Sides {
        &self.sides
    }

    /// Returns the number of orders.
    pub fn order_count(&self) -> usize {
        self.orders.len()
    }

    /// Applies a change of the packet with this sequence, or keeps it for later.
    #[inline]
    pub(crate) fn change(&mut self, sequence: u64, change: OrderChange) -> Outcome {
        if !self.is_live {
            if self.queue.len() >= QUEUE_MAX {
                // The next snapshot must be newer than what was left out.
                self.queue.clear();
                self.as_of = sequence;
                return Outcome::Refused;
            }
            self.queue.push((sequence, change));
            return Outcome::Queued;
        }
        if sequence <= self.as_of {
            return Outcome::Old;
        }
        self.apply(change)
    }

    #[inline]
    fn apply(&mut self, change: OrderChange) -> Outcome {
        match change {
            OrderChange::Set { order_id, order } => match self.set(order_id, order) {
                Ok(()) => Outcome::Applied,
                Err(_) => Outcome::Refused,
            },
            OrderChange::Delete { order_id } => match self.orders.reduce(order_id, u32::MAX) {
                Some((taken, gone)) => {
                    debug_assert!(gone, "the whole order was taken");
                    self.sides.remove(taken, true);
                    Outcome::Applied
                }
                None => Outcome::UnknownOrder,
            },
            OrderChange::Reset => {
                self.orders.clear();
                self.sides.clear();
                Outcome::Applied
            }
        }
    }

    #[inline]
    fn set(&mut self, order_id: u64, order: Order) -> Result<(), BookError> {
        if let Some((old, _)) = self.orders.reduce(order_id, u32::MAX) {
            self.sides.remove(old, true);
        }
        if order.size == 0 {
            return Ok(());
        }
        if self.orders.is_full() {
            return Err(BookError::OrdersFull);
        }
        self.sides.add(order)?;
        let replaced = self.orders.insert(order_id, order);
        debug_assert!(replaced.is_none(), "an older order was removed");
        Ok(())
    }

    /// Notes that changes before `sequence` may be missing.
    pub(crate) fn lose(&mut self, sequence: u64) {
        if self.is_live {
            self.is_live = false;
        }
        self.queue.clear();
        self.as_of = sequence.saturating_sub(1);
        self.chunks = None;
    }

    /// Empties the book; it is then complete, or waits for a snapshot.
    pub(crate) fn reset(&mut self, is_live: bool, sequence: u64) {
        let _ = self.apply(OrderChange::Reset);
        self.queue.clear();
        self.chunks = None;
        self.is_live = is_live;
        self.as_of = if is_live {
            0
        } else {
            sequence.saturating_sub(1)
        };
    }

    /// Handles one chunk of a snapshot. Returns whether the book is complete now.
    pub(crate) fn snapshot(
        &mut self,
        as_of: u64,
        chunk: (u32, u32),
        orders: impl Iterator<Item = (u64, Order)>,
    ) -> bool {
        let (number, total) = chunk;
        if self.is_live || as_of < self.as_of || number == 0 || number > total {
            return false;
        }
        if number == 1 {
            self.chunks = Some(Chunks {
                as_of,
                next: 1,
                orders: Vec::new(),
            });
        }
        let Some(chunks) = &mut self.chunks else {
            return false;
        };
        if chunks.next != number || chunks.as_of != as_of {
            self.chunks = None;
            return false;
        }
        chunks.next += 1;
        chunks.orders.extend(orders);
        if number < total {
            return false;
        }
        self.complete()
    }

    /// Makes the book of a whole snapshot and of the changes since.
    fn complete(&mut self) -> bool {
        let Some(chunks) = self.chunks.take() else {
            return false;
        };
        let _ = self.apply(OrderChange::Reset);
        for (order_id, order) in chunks.orders {
            // A book that is full leaves out the rest, as it does for changes.
            let _ = self.set(order_id, order);
        }
        self.is_live = true;
        self.as_of = chunks.as_of;
        for (sequence, change) in std::mem::take(&mut self.queue) {
            if sequence > self.as_of {
                let _ = self.apply(change);
            }
        }
        true
    }
}

impl Channel {
    /// Applies changes of orders beyond the levels of the book by price.
    pub(crate) fn refresh_orders<S: Sink>(
        &mut self,
        message: &Message<'_>,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        let refresh = MDIncrementalRefreshOrderBook47::decode(message)?;
        self.begin_event(refresh.transact_time(), sink);
        if self.config.order_books {
            for entry in refresh.md_entries.iter() {
                let change = match (entry.md_entry_type(), entry.order_id()) {
                    (MDEntryTypeBook::BOOK_RESET, _) => Some(OrderChange::Reset),
                    (kind, Some(order_id)) => order_change(
                        (order_id, entry.md_display_qty()),
                        OrderUpdateAction(entry.md_update_action().0),
                        entry.md_entry_px(),
                        kind,
                    ),
                    _ => None,
                };
                self.change_order(entry.security_id(), change);
            }
        }
        self.end_event(refresh.match_event_indicator(), sink);
        Ok(())
    }

    /// Applies an order's change inside a refresh of the book by price, which gives its price.
    #[inline]
    pub(crate) fn order_entry(
        &mut self,
        reference: Option<u8>,
        (order_id, size): (u64, Option<i32>),
        action: OrderUpdateAction,
        levels: impl Fn(usize) -> Option<(i32, Option<i64>, MDEntryTypeBook)>,
    ) {
        // References count from 1.
        let place = reference.and_then(|reference| usize::from(reference).checked_sub(1));
        let Some((security_id, price, kind)) = place.and_then(levels) else {
            self.counters.entries += 1;
            self.counters.unknown_orders += 1;
            return;
        };
        let change = order_change((order_id, size), action, price, kind);
        self.change_order(security_id, change);
    }

    #[inline]
    fn change_order(&mut self, security_id: i32, change: Option<OrderChange>) {
        self.counters.entries += 1;
        let Some(index) = self.find(security_id) else {
            return;
        };
        let Some(change) = change else {
            self.counters.unknown_orders += 1;
            return;
        };
        let sequence = self.sequence;
        match self.order_book_mut(index).change(sequence, change) {
            Outcome::Applied => {}
            Outcome::Queued => self.counters.queued += 1,
            Outcome::Old => self.counters.old += 1,
            Outcome::UnknownOrder => self.counters.unknown_orders += 1,
            Outcome::Refused => self.counters.refused += 1,
        }
    }

    #[inline]
    pub(crate) fn order_book_mut(&mut self, index: u32) -> &mut OrderBook {
        let at = index as usize;
        if self.order_books.len() <= at {
            self.order_books
                .resize_with(self.instruments.len(), || None);
        }
        let (limits, is_live) = (self.config.order_limits, self.from_start);
        let known_from = self.known_from;
        let wanted = &mut self.orders_wanted;
        self.order_books[at].get_or_insert_with(|| {
            *wanted |= !is_live;
            let mut book = OrderBook::new(&limits, is_live);
            if !is_live {
                book.lose(known_from);
            }
            Box::new(book)
        })
    }
}

/// Returns the change of an order that an entry describes; `None` if it makes no sense.
#[inline]
fn order_change(
    (order_id, size): (u64, Option<i32>),
    action: OrderUpdateAction,
    price: Option<i64>,
    kind: MDEntryTypeBook,
) -> Option<OrderChange> {
    if action == OrderUpdateAction::DELETE {
        return Some(OrderChange::Delete { order_id });
    }
    let is_bid = match kind {
        MDEntryTypeBook::BID => true,
        MDEntryTypeBook::OFFER => false,
        _ => return None,
    };
    let is_change = matches!(action, OrderUpdateAction::NEW | OrderUpdateAction::UPDATE);
    let price = price.filter(|&price| is_change && price != i64::MIN)?;
    let order = Order {
        price,
        size: size_of_wire(size),
        book: 0,
        is_bid,
    };
    Some(OrderChange::Set { order_id, order })
}

/// Limits of a book by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderLimits {
    /// Orders of an instrument at most, 24 bytes each.
    pub orders_max: usize,
    /// Price levels of a side at most, 24 bytes each.
    pub levels_max: usize,
}

/// Changes of an instrument that wait for a snapshot at most, 48 bytes each.
const QUEUE_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: OrderLimits = OrderLimits {
        orders_max: 100,
        levels_max: 100,
    };

    fn order(price: i64, size: u32) -> Order {
        Order {
            price,
            size,
            book: 0,
            is_bid: true,
        }
    }

    fn set(order_id: u64, price: i64, size: u32) -> OrderChange {
        OrderChange::Set {
            order_id,
            order: order(price, size),
        }
    }

    fn bids(book: &mut OrderBook) -> (i64, u64, u32) {
        let best = book.sides.levels(true).best();
        (best.price, best.size, best.orders)
    }

    #[test]
    fn an_order_moves_with_its_new_price_and_size() {
        let mut book = OrderBook::new(&LIMITS, true);
        for (order_id, price, size) in [(1, 10, 5), (2, 10, 3), (1, 11, 4)] {
            assert_eq!(book.change(1, set(order_id, price, size)), Outcome::Applied);
        }
        assert_eq!(bids(&mut book), (11, 4, 1));
        let delete = OrderChange::Delete { order_id: 1 };
        assert_eq!(book.change(1, delete), Outcome::Applied);
        assert_eq!(book.change(1, delete), Outcome::UnknownOrder);
        assert_eq!(bids(&mut book), (10, 3, 1));
    }

    #[test]
    fn a_snapshot_in_chunks_is_followed_by_the_changes_after_it() {
        let mut book = OrderBook::new(&LIMITS, true);
        assert_eq!(book.change(4, set(9, 1, 1)), Outcome::Applied);
        book.lose(7);
        assert_eq!(book.change(8, set(2, 10, 2)), Outcome::Queued);
        assert_eq!(
            book.change(9, OrderChange::Delete { order_id: 1 }),
            Outcome::Queued
        );
        let one = |id, price| std::iter::once((id, order(price, 1)));
        assert!(
            !book.snapshot(5, (1, 1), one(1, 10)),
            "before what was lost"
        );
        assert!(
            !book.snapshot(8, (2, 2), one(3, 10)),
            "without its first chunk"
        );
        assert!(!book.snapshot(8, (1, 2), one(1, 10)));
        assert!(book.snapshot(8, (2, 2), one(3, 12)));
        // Order 2's change came with packet 8, so the snapshot would have it.
        assert_eq!((bids(&mut book), book.order_count()), ((12, 1, 1), 1));
        assert_eq!(book.change(8, set(5, 20, 1)), Outcome::Old);
    }
}
