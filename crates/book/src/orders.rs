//! The orders of a book by number.

use crate::UNDEFINED_PRICE;
use crate::cache_line::prefetch;

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

/// How a table stores an order.
pub trait Record: Copy {
    /// A type with the alignment of four records: [`CacheLine`] if they fill one.
    type Align: Copy + std::fmt::Debug;
    /// A free slot.
    const FREE: Self;
    /// A table with at least this many eighths of its slots in use grows.
    const FULL_EIGHTHS: usize;

    /// Returns the record of an order that [`fits`](Self::fits).
    fn new(order_id: u64, order: Order) -> Self;

    /// Returns whether an order can be stored.
    fn fits(order_id: u64, order: &Order) -> bool;

    /// Returns whether this is a free slot.
    fn is_free(&self) -> bool;

    /// Returns the order's number; any number for a free slot.
    fn order_id(&self) -> u64;

    /// Returns the order; any order for a free slot.
    fn order(&self) -> Order;
}

/// An open-addressed hash table of groups of four slots. An order is in its home group, or in one
/// behind it if all groups between are full; those have a mark. A removal from a marked group
/// fills the slot again, so a book that lives for days gathers no tombstones.
///
/// Four consecutive order numbers have the same home, because venues number their orders one
/// after the other, and most orders are deleted soon. With records of 16 bytes a group is a cache
/// line. The hash is one multiplication (Fibonacci hashing). It has no key: a malicious venue
/// could make its own book slow, but not wrong.
#[derive(Debug, Clone)]
pub struct Orders<R: Record = WideRecord> {
    /// Their number is a power of two, or 0.
    groups: Box<[Group<R>]>,
    /// A bit for each group: orders may be behind it whose search passes it. Then it is full.
    passed: Box<[u64]>,
    /// `64 - log2(groups.len())`: the top bits of the hash are the home group.
    shift: u32,
    len: usize,
    orders_max: usize,
}

/// Four slots in any order; one cache line of compact records.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Group<R: Record> {
    align: [R::Align; 0],
    slots: [R; GROUP],
}

impl<R: Record> Group<R> {
    const FREE: Self = Self {
        align: [],
        slots: [R::FREE; GROUP],
    };

    /// Returns the slots with this order number, as bits.
    #[inline(always)]
    fn matching(&self, order_id: u64) -> u32 {
        self.bits(|slot| slot.order_id() == order_id && !slot.is_free())
    }

    /// Returns the free slots, as bits.
    #[inline(always)]
    fn free(&self) -> u32 {
        self.bits(R::is_free)
    }

    #[inline(always)]
    fn bits(&self, is_set: impl Fn(&R) -> bool) -> u32 {
        let bit = |place: usize| u32::from(is_set(&self.slots[place])) << place;
        bit(0) | bit(1) | bit(2) | bit(3)
    }
}

/// Where an order is.
#[derive(Clone, Copy)]
struct Place {
    group: usize,
    slot: usize,
}

/// The alignment of a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct CacheLine;

impl<R: Record> Orders<R> {
    /// Creates an empty table of at most `orders_max` orders.
    pub fn new(orders_max: usize) -> Self {
        Self {
            groups: Box::default(),
            passed: Box::default(),
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

    /// Returns the number of orders that are in their home group: those that are found with one
    /// cache miss if a group is a cache line.
    pub fn len_at_home(&self) -> usize {
        let at_home = self.groups.iter().enumerate().flat_map(|(place, group)| {
            let orders = group.slots.iter().filter(|slot| !slot.is_free());
            orders.filter(move |slot| self.home(slot.order_id()) == place)
        });
        at_home.count()
    }

    /// Returns the size of the table in bytes.
    pub fn table_bytes(&self) -> usize {
        size_of_val(&*self.groups)
    }

    /// Returns whether no order can be added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len >= self.orders_max
    }

    /// Removes all orders in time proportional to their number: a mostly empty table is freed
    /// rather than swept.
    pub fn clear(&mut self) {
        if self.len < self.slot_count() / 16 {
            *self = Self::new(self.orders_max);
        } else {
            self.groups.fill(Group::FREE);
            self.passed.fill(0);
            self.len = 0;
        }
    }

    /// Returns the order with this number.
    #[inline]
    pub fn get(&self, order_id: u64) -> Option<Order> {
        let place = self.place(order_id)?;
        Some(self.slot(place).order())
    }

    /// Prefetches the home of this order, so that a later search finds it in the cache.
    #[inline]
    pub fn touch(&self, order_id: u64) {
        if let Some(group) = self.groups.get(self.home(order_id)) {
            prefetch(group);
        }
    }

    /// Inserts an order that [fits](Record::fits) and returns the order that had its number.
    #[inline]
    pub fn insert(&mut self, order_id: u64, order: Order) -> Option<Order> {
        debug_assert!(R::fits(order_id, &order));
        if self.len >= self.slot_count() / 8 * R::FULL_EIGHTHS {
            self.grow();
        }
        let mask = self.groups.len() - 1;
        let mut place = self.home(order_id);
        loop {
            let group = &mut self.groups[place & mask];
            if let Some(slot) = first(group.matching(order_id)) {
                let slot = &mut group.slots[slot];
                return Some(std::mem::replace(slot, R::new(order_id, order)).order());
            }
            if let Some(slot) = first(group.free()) {
                group.slots[slot] = R::new(order_id, order);
                self.len += 1;
                return None;
            }
            self.set_passed(place & mask, true);
            place += 1;
        }
    }

    /// Takes up to `size` from an order. Returns what was taken, and whether the order was
    /// removed.
    #[inline]
    pub fn reduce(&mut self, order_id: u64, size: u32) -> Option<(Order, bool)> {
        let place = self.place(order_id)?;
        Some(self.reduce_at(place, order_id, size))
    }

    /// Takes up to `size` from an order of this book; otherwise as [`reduce`](Self::reduce).
    #[inline]
    pub fn reduce_of(&mut self, book: u16, order_id: u64, size: u32) -> Option<(Order, bool)> {
        let place = self.place(order_id)?;
        let is_of_book = self.slot(place).order().book == book;
        is_of_book.then(|| self.reduce_at(place, order_id, size))
    }

    /// Removes an order and returns it.
    pub fn remove(&mut self, order_id: u64) -> Option<Order> {
        let (order, _) = self.reduce(order_id, u32::MAX)?;
        Some(order)
    }

    /// Removes all orders of a side.
    pub fn remove_side(&mut self, is_bid: bool) {
        if self.len == 0 {
            return;
        }
        let slots = self.groups.iter().flat_map(|group| &group.slots);
        let kept: Vec<R> = slots
            .filter(|slot| !slot.is_free() && slot.order().is_bid != is_bid)
            .copied()
            .collect();
        if kept.len() == self.len {
            return;
        }
        self.clear();
        for record in kept {
            self.insert(record.order_id(), record.order());
        }
    }

    #[inline(always)]
    fn reduce_at(&mut self, place: Place, order_id: u64, size: u32) -> (Order, bool) {
        let slot = self.slot_mut(place);
        let order = slot.order();
        let taken = Order {
            size: order.size.min(size),
            ..order
        };
        let gone = taken.size == order.size;
        if gone {
            self.vacate(place);
        } else {
            let rest = Order {
                size: order.size - taken.size,
                ..order
            };
            *slot = R::new(order_id, rest);
        }
        (taken, gone)
    }

    #[inline(always)]
    fn place(&self, order_id: u64) -> Option<Place> {
        let mask = self.groups.len().checked_sub(1)?;
        let mut place = self.home(order_id);
        loop {
            let group = &self.groups[place & mask];
            if let Some(slot) = first(group.matching(order_id)) {
                let group = place & mask;
                return Some(Place { group, slot });
            }
            if !self.is_passed(place & mask) {
                return None;
            }
            place += 1;
        }
    }

    /// Frees a slot.
    #[inline(always)]
    fn vacate(&mut self, place: Place) {
        *self.slot_mut(place) = R::FREE;
        self.len -= 1;
        if self.is_passed(place.group) {
            self.refill(place);
        }
    }

    /// Fills a slot of a marked group with an order behind it whose search passes the group, and
    /// so on with the slot of that order. Removes the mark if there is none.
    #[inline(never)]
    fn refill(&mut self, mut gap: Place) {
        let mask = self.groups.len() - 1;
        let mut next = gap.group;
        loop {
            // A group without a mark comes, as one that is not full has none.
            next = (next + 1) & mask;
            let from_gap = next.wrapping_sub(gap.group) & mask;
            let passes_gap = |slot: &R| {
                let from_home = next.wrapping_sub(self.home(slot.order_id())) & mask;
                !slot.is_free() && from_home >= from_gap
            };
            let moved = first(self.groups[next].bits(passes_gap));
            if let Some(slot) = moved {
                let moved = Place { group: next, slot };
                *self.slot_mut(gap) = *self.slot(moved);
                *self.slot_mut(moved) = R::FREE;
                gap = moved;
            }
            if !self.is_passed(next) {
                if moved.is_none() {
                    self.set_passed(gap.group, false);
                }
                return;
            }
        }
    }

    #[inline(always)]
    fn is_passed(&self, group: usize) -> bool {
        self.passed[group / 64] >> (group % 64) & 1 != 0
    }

    fn set_passed(&mut self, group: usize, is_passed: bool) {
        let (word, bit) = (&mut self.passed[group / 64], 1 << (group % 64));
        *word = *word & !bit | if is_passed { bit } else { 0 };
    }

    /// Returns the group where the search for an order begins.
    #[inline(always)]
    fn home(&self, order_id: u64) -> usize {
        let number = order_id / GROUP as u64;
        (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline(always)]
    fn slot(&self, place: Place) -> &R {
        &self.groups[place.group].slots[place.slot]
    }

    #[inline(always)]
    fn slot_mut(&mut self, place: Place) -> &mut R {
        &mut self.groups[place.group].slots[place.slot]
    }

    #[inline(always)]
    fn slot_count(&self) -> usize {
        self.groups.len() * GROUP
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.groups.len() * 2).max(GROUPS_FIRST);
        let free = vec![Group::FREE; count];
        let groups = std::mem::replace(&mut self.groups, free.into());
        self.passed = vec![0; count.div_ceil(64)].into();
        self.shift = u64::BITS - count.ilog2();
        self.len = 0;
        for record in groups.iter().flat_map(|group| &group.slots) {
            if !record.is_free() {
                self.insert(record.order_id(), record.order());
            }
        }
    }
}

impl Orders<WideRecord> {
    /// Returns the order with this number, to change it.
    #[inline]
    pub fn find(&mut self, order_id: u64) -> Option<&mut Order> {
        let place = self.place(order_id)?;
        self.slot_mut(place).order.as_mut()
    }
}

/// Any order in 24 bytes; a table of them is 3/8 to 3/4 full.
#[derive(Debug, Clone, Copy)]
pub struct WideRecord {
    order_id: u64,
    order: Option<Order>,
}

impl Record for WideRecord {
    type Align = u64;
    const FREE: Self = Self {
        order_id: 0,
        order: None,
    };
    const FULL_EIGHTHS: usize = 6;

    #[inline(always)]
    fn new(order_id: u64, order: Order) -> Self {
        Self {
            order_id,
            order: Some(order),
        }
    }

    #[inline(always)]
    fn fits(_: u64, _: &Order) -> bool {
        true
    }

    #[inline(always)]
    fn is_free(&self) -> bool {
        self.order.is_none()
    }

    #[inline(always)]
    fn order_id(&self) -> u64 {
        self.order_id
    }

    #[inline(always)]
    fn order(&self) -> Order {
        self.order.unwrap_or(Order::NONE)
    }
}

impl Order {
    const NONE: Self = Self {
        price: UNDEFINED_PRICE,
        size: 0,
        book: 0,
        is_bid: false,
    };
}

#[inline(always)]
fn first(bits: u32) -> Option<usize> {
    (bits != 0).then(|| (bits.trailing_zeros() as usize) % GROUP)
}

/// Slots of a group.
const GROUP: usize = 4;
/// Groups of the first table, 16 slots: a venue has many instruments with few orders.
const GROUPS_FIRST: usize = 4;

const _: () = assert!(size_of::<WideRecord>() == 24);

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
