//! The orders of all books: 16 bytes each.

use crate::Price;
use tidewire_book::{CacheLine, Order, Orders, Record, WideRecord};

/// Orders of all books by number. Those that do not fit into 16 bytes, which no exchange sends,
/// are in a second table.
#[derive(Debug)]
pub(super) struct DayOrders {
    compact: Orders<CompactRecord>,
    wide: Orders<WideRecord>,
    orders_max: usize,
}

impl DayOrders {
    pub(super) fn new(orders_max: usize) -> Self {
        Self {
            compact: Orders::new(orders_max),
            wide: Orders::new(orders_max),
            orders_max,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.compact.len() + self.wide.len()
    }

    /// Returns the number of orders that one cache miss finds.
    pub(super) fn len_at_home(&self) -> usize {
        self.compact.len_at_home()
    }

    /// Returns the size of the tables in bytes.
    pub(super) fn table_bytes(&self) -> usize {
        self.compact.table_bytes() + self.wide.table_bytes()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.orders_max
    }

    pub(super) fn clear(&mut self) {
        self.compact.clear();
        self.wide.clear();
    }

    #[inline]
    pub(super) fn touch(&self, reference: u64) {
        self.compact.touch(reference);
    }

    /// Returns an order, unless it is one of the few in the second table.
    #[inline]
    pub(super) fn get(&self, reference: u64) -> Option<Order> {
        self.compact.get(reference)
    }

    /// Inserts an order and returns the order that had its number.
    #[inline]
    pub(super) fn insert(&mut self, reference: u64, order: Order) -> Option<Order> {
        if self.wide.is_empty() && CompactRecord::fits(reference, &order) {
            return self.compact.insert(reference, order);
        }
        self.insert_beside_wide(reference, order)
    }

    #[cold]
    fn insert_beside_wide(&mut self, reference: u64, order: Order) -> Option<Order> {
        if CompactRecord::fits(reference, &order) {
            let replaced = self.wide.remove(reference);
            self.compact.insert(reference, order).or(replaced)
        } else {
            let replaced = self.compact.remove(reference);
            self.wide.insert(reference, order).or(replaced)
        }
    }

    /// Takes up to `shares` from an order of this security. Returns what was taken, and whether
    /// the order was removed.
    #[inline]
    pub(super) fn reduce(
        &mut self,
        locate: u16,
        reference: u64,
        shares: u32,
    ) -> Option<(Order, bool)> {
        let taken = self.compact.reduce_of(locate, reference, shares);
        if taken.is_none() && !self.wide.is_empty() {
            return self.wide.reduce_of(locate, reference, shares);
        }
        taken
    }
}

/// An order in 16 bytes; a table of them is 1/4 to 1/2 full, and 8 of 10 orders are in the cache
/// line where their search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
struct CompactRecord {
    /// From the lowest bit: 48 bits of the order's number, 16 of the locate code.
    identity: u64,
    /// From the lowest bit: 32 bits of the price, 1 unit = 1e-4; 31 of the shares; whether it is
    /// a buy order.
    terms: u64,
}

impl Record for CompactRecord {
    type Align = CacheLine;

    const FREE: Self = Self {
        identity: 0,
        terms: 0,
    };
    const FULL_EIGHTHS: usize = 4;

    #[inline(always)]
    fn new(order_id: u64, order: Order) -> Self {
        let price = (order.price / UNIT_NANOS) as u64;
        Self {
            identity: u64::from(order.book) << ID_BITS | order_id,
            terms: u64::from(order.is_bid) << 63 | u64::from(order.size) << 32 | price,
        }
    }

    /// An order whose record would be all 0 is refused too, as that is a free slot.
    #[inline(always)]
    fn fits(order_id: u64, order: &Order) -> bool {
        order_id <= ID_MAX && order.size <= SHARES_MAX && order_id != 0
    }

    #[inline(always)]
    fn is_free(&self) -> bool {
        self.identity == 0
    }

    #[inline(always)]
    fn order_id(&self) -> u64 {
        self.identity & ID_MAX
    }

    #[inline(always)]
    fn order(&self) -> Order {
        Order {
            price: Price(self.terms as u32).nanos(),
            size: (self.terms >> 32) as u32 & SHARES_MAX,
            book: (self.identity >> ID_BITS) as u16,
            is_bid: self.terms >> 63 != 0,
        }
    }
}

const ID_BITS: u32 = 48;
const ID_MAX: u64 = (1 << ID_BITS) - 1;
const SHARES_MAX: u32 = (1 << 31) - 1;
/// The unit of prices, 1 unit = 1e-9.
const UNIT_NANOS: i64 = Price(1).nanos();

const _: () = assert!(size_of::<CompactRecord>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    fn order(size: u32, book: u16) -> Order {
        Order {
            price: Price(u32::MAX).nanos(),
            size,
            book,
            is_bid: true,
        }
    }

    #[test]
    fn orders_of_any_number_size_and_security_are_kept() {
        let mut orders = DayOrders::new(100);
        let ids = [0, 1, ID_MAX, ID_MAX + 1, u64::MAX];
        let sizes = [0, 1, SHARES_MAX, SHARES_MAX + 1, u32::MAX];
        for id in ids {
            let mut replaced = None;
            for size in sizes.into_iter().chain(sizes) {
                let new = order(size, u16::MAX);
                assert_eq!(orders.insert(id, new), replaced, "{id} {size}");
                replaced = Some(new);
            }
        }
        assert_eq!(orders.len(), ids.len());
        for id in ids {
            assert_eq!(orders.reduce(0, id, 1), None, "another security's");
            let all = (order(u32::MAX, u16::MAX), true);
            assert_eq!(orders.reduce(u16::MAX, id, u32::MAX), Some(all));
        }
        assert_eq!(orders.len(), 0);
    }
}
