//! Price levels of one side.

use super::BookError;
use crate::dbn::UNDEFINED_PRICE;

/// The levels of one side in a sorted array, the best at its end.
///
/// Nearly all changes are at the best prices, so a change looks from the end, moves few levels
/// or none, and the best is one load away. Asks are kept with their prices negated: both sides
/// then ascend towards the best.
#[derive(Debug, Clone)]
pub(super) struct Levels {
    /// Ascending by `key`, no key twice.
    levels: Vec<Entry>,
    /// 1 for bids, −1 for asks: `key = price * sign`.
    sign: i64,
    levels_max: usize,
}

/// What stands at one price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) price: i64,
    pub(super) size: u64,
    pub(super) orders: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: i64,
    size: u64,
    orders: u32,
}

impl Levels {
    pub(super) fn bids(levels_max: usize) -> Self {
        Self {
            levels: Vec::new(),
            sign: 1,
            levels_max,
        }
    }

    pub(super) fn asks(levels_max: usize) -> Self {
        Self {
            levels: Vec::new(),
            sign: -1,
            levels_max,
        }
    }

    #[inline]
    pub(super) fn best(&self) -> Level {
        match self.levels.last() {
            Some(entry) => Level {
                price: entry.key * self.sign,
                size: entry.size,
                orders: entry.orders,
            },
            None => Level {
                price: UNDEFINED_PRICE,
                size: 0,
                orders: 0,
            },
        }
    }

    pub(super) fn len(&self) -> usize {
        self.levels.len()
    }

    pub(super) fn clear(&mut self) {
        self.levels.clear();
    }

    /// Adds an order to its level.
    #[inline]
    pub(super) fn add(&mut self, price: i64, size: u32) -> Result<(), BookError> {
        let size = u64::from(size);
        match self.find(price) {
            Ok(place) => {
                let entry = &mut self.levels[place];
                entry.size += size;
                entry.orders += 1;
                Ok(())
            }
            Err(place) => self.insert(place, price, size, 1),
        }
    }

    /// Takes `size` of an order from its level, and the order itself if it is `gone`.
    #[inline]
    pub(super) fn remove(&mut self, price: i64, size: u32, gone: bool) {
        let Ok(place) = self.find(price) else {
            return; // the level was replaced by a top of book
        };
        let entry = &mut self.levels[place];
        entry.size = entry.size.saturating_sub(u64::from(size));
        entry.orders = entry.orders.saturating_sub(u32::from(gone));
        if entry.orders == 0 {
            self.levels.remove(place);
        }
    }

    /// Changes the size of an order in its level.
    #[inline]
    pub(super) fn resize(&mut self, price: i64, old: u32, new: u32) {
        if let Ok(place) = self.find(price) {
            let entry = &mut self.levels[place];
            entry.size = (entry.size + u64::from(new)).saturating_sub(u64::from(old));
        }
    }

    /// Puts one level of no known orders into an empty side.
    pub(super) fn set_only(&mut self, price: i64, size: u32) -> Result<(), BookError> {
        self.levels.clear();
        self.insert(0, price, u64::from(size), 0)
    }

    fn insert(&mut self, at: usize, price: i64, size: u64, orders: u32) -> Result<(), BookError> {
        if self.levels.len() >= self.levels_max {
            return Err(BookError::LevelsFull);
        }
        let key = price * self.sign;
        self.levels.insert(at, Entry { key, size, orders });
        Ok(())
    }

    /// The place of a price, or where it belongs: the best few are looked through, the rest
    /// halved.
    #[inline]
    fn find(&self, price: i64) -> Result<usize, usize> {
        let key = price * self.sign;
        let length = self.levels.len();
        let near = length.saturating_sub(NEAR);
        for place in (near..length).rev() {
            let at = self.levels[place].key;
            if at <= key {
                return if at == key { Ok(place) } else { Err(place + 1) };
            }
        }
        self.levels[..near].binary_search_by_key(&key, |entry| entry.key)
    }
}

/// Levels looked through one by one before halving the rest: two cache lines.
const NEAR: usize = 6;
