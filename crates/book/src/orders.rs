//! The orders of a book by number.

/// A stored order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Neither [`UNDEFINED_PRICE`] nor `i64::MIN`, which has no negative.
    pub price: i64,
    /// Remaining size.
    pub size: u32,
    /// The order's book, if several books share a table.
    pub book: u16,
    /// Whether it is a buy order.
    pub is_bid: bool,
}

/// An open-addressed hash table with linear probing. Removal shifts entries back, so a book that
/// lives for days gathers no tombstones. At most three quarters full.
///
/// The hash is one multiplication (Fibonacci hashing), best for the consecutive numbers of
/// venues. It has no key: a malicious venue could make its own book slow, but not wrong.
#[derive(Debug, Clone)]
pub struct Orders {
    /// The length is a power of two, or 0. A free slot ends every probe sequence.
    slots: Box<[Slot]>,
    /// `64 - log2(slots.len())`: the top bits of the hash are the home slot.
    shift: u32,
    len: usize,
    orders_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    order_id: u64,
    order: Option<Order>,
}

impl Orders {
    /// Creates an empty table of at most `orders_max` orders.
    pub fn new(orders_max: usize) -> Self {
        Self {
            slots: Box::default(),
            shift: u64::BITS - 1,
            len: 0,
            orders_max,
        }
    }

    /// Returns whether there is no order.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of orders.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no order can be added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len >= self.orders_max
    }

    /// Removes all orders in time proportional to their number: a mostly empty table is freed
    /// rather than swept.
    pub fn clear(&mut self) {
        if self.len < self.slots.len() / 16 {
            *self = Self::new(self.orders_max);
        } else {
            self.slots.fill(FREE);
            self.len = 0;
        }
    }

    /// Returns the order with this number.
    #[inline]
    pub fn find(&mut self, order_id: u64) -> Option<&mut Order> {
        let place = self.place(order_id)?;
        self.slots[place].order.as_mut()
    }

    /// Reads the home slot of this order, so that a later search finds it in the cache.
    #[inline]
    pub fn touch(&self, order_id: u64) {
        if let Some(slot) = self.slots.get(self.home(order_id)) {
            std::hint::black_box(slot.order_id);
        }
    }

    /// Inserts an order and returns the order that had its number.
    #[inline]
    pub fn insert(&mut self, order_id: u64, order: Order) -> Option<Order> {
        if self.len >= self.slots.len() / 4 * 3 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut place = self.home(order_id);
        loop {
            let slot = &mut self.slots[place & mask];
            if slot.order.is_none() {
                *slot = Slot {
                    order_id,
                    order: Some(order),
                };
                self.len += 1;
                return None;
            }
            if slot.order_id == order_id {
                return slot.order.replace(order);
            }
            place += 1;
        }
    }

    /// Takes up to `size` from an order. Returns what was taken, and whether the order was
    /// removed.
    #[inline]
    pub fn reduce(&mut self, order_id: u64, size: u32) -> Option<(Order, bool)> {
        let place = self.place(order_id)?;
        let order = self.slots[place].order.as_mut()?;
        let taken = Order {
            size: order.size.min(size),
            ..*order
        };
        order.size -= taken.size;
        let gone = order.size == 0;
        if gone {
            self.vacate(place);
        }
        Some((taken, gone))
    }

    /// Removes all orders of a side.
    pub fn remove_side(&mut self, is_bid: bool) {
        if self.len == 0 {
            return;
        }
        let kept: Vec<Slot> = self
            .slots
            .iter()
            .filter(|slot| slot.order.is_some_and(|order| order.is_bid != is_bid))
            .copied()
            .collect();
        if kept.len() == self.len {
            return;
        }
        self.clear();
        for Slot { order_id, order } in kept {
            if let Some(order) = order {
                self.insert(order_id, order);
            }
        }
    }

    #[inline]
    fn place(&self, order_id: u64) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut place = self.home(order_id);
        loop {
            let slot = &self.slots[place & mask];
            slot.order?;
            if slot.order_id == order_id {
                return Some(place & mask);
            }
            place += 1;
        }
    }

    /// Frees a slot and shifts back the entries that probing could no longer reach.
    #[inline]
    fn vacate(&mut self, mut gap: usize) {
        let mask = self.slots.len() - 1;
        let mut place = gap;
        loop {
            place = (place + 1) & mask;
            let slot = self.slots[place];
            if slot.order.is_none() {
                break;
            }
            let from_home = place.wrapping_sub(self.home(slot.order_id)) & mask;
            let from_gap = place.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                self.slots[gap] = slot;
                gap = place;
            }
        }
        self.slots[gap] = FREE;
        self.len -= 1;
    }

    #[inline]
    fn home(&self, order_id: u64) -> usize {
        (order_id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(SLOTS_FIRST);
        let slots = std::mem::replace(&mut self.slots, vec![FREE; count].into());
        self.shift = u64::BITS - count.ilog2();
        self.len = 0;
        for Slot { order_id, order } in slots {
            if let Some(order) = order {
                self.insert(order_id, order);
            }
        }
    }
}

const FREE: Slot = Slot {
    order_id: 0,
    order: None,
};

/// Slots of the first table, 384 bytes: a venue has many instruments with few orders.
const SLOTS_FIRST: usize = 16;

const _: () = assert!(size_of::<Slot>() == 24);

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn agrees_with_a_map_under_churn_of_colliding_numbers() {
        let mut orders = Orders::new(1_000_000);
        let mut map = HashMap::new();
        let mut state = 1u64;
        for step in 0..200_000u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Few distinct numbers, half of them with the same home slot.
            let order_id = match state >> 33 & 511 {
                id if id % 2 == 0 => id,
                id => id << 56,
            };
            let order = Order {
                price: i64::from(step),
                size: 1 + step % 3,
                book: 0,
                is_bid: step % 2 == 0,
            };
            if state >> 62 == 0 {
                assert_eq!(orders.insert(order_id, order), map.insert(order_id, order));
            } else {
                let expected = map.get(&order_id).copied();
                let gone = expected.is_some_and(|order| order.size == 1);
                let taken = orders.reduce(order_id, 1);
                assert_eq!(
                    taken,
                    expected.map(|order| (Order { size: 1, ..order }, gone))
                );
                match map.get_mut(&order_id) {
                    Some(order) if order.size > 1 => order.size -= 1,
                    _ => drop(map.remove(&order_id)),
                }
            }
            assert_eq!(orders.len(), map.len());
        }
        orders.remove_side(true);
        map.retain(|_, order| !order.is_bid);
        assert_eq!(orders.len(), map.len());
        assert!(
            map.iter()
                .all(|(&id, order)| orders.find(id) == Some(&mut order.clone()))
        );
    }
}
