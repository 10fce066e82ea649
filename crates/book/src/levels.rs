//! Price levels of one side.

use crate::BookError;
use crate::UNDEFINED_PRICE;

/// The levels of one side in sorted arrays, with the best level last.
///
/// Nearly all changes are close to the best prices. A change therefore searches from the end and
/// moves few levels or none, and the best level takes one load. Prices are stored apart from
/// their sizes: the best eight fill one cache line and are compared at once, without a branch.
/// Asks are stored with negated prices, so both sides ascend towards the best.
#[derive(Debug, Clone)]
pub struct Levels {
    /// `price * sign`, ascending, without duplicates.
    keys: Vec<i64>,
    /// Size and orders at the key of the same index.
    sums: Vec<Sum>,
    /// 1 for bids, −1 for asks.
    sign: i64,
    levels_max: usize,
}

/// One price level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The price; [`UNDEFINED_PRICE`](crate::UNDEFINED_PRICE) for an empty side.
    pub price: i64,
    /// Total size of the orders.
    pub size: u64,
    /// Number of orders; 0 if unknown.
    pub orders: u32,
}

#[derive(Debug, Clone, Copy)]
struct Sum {
    size: u64,
    orders: u32,
}

impl Levels {
    /// Creates the bid side with at most `levels_max` levels.
    pub fn bids(levels_max: usize) -> Self {
        Self {
            keys: Vec::new(),
            sums: Vec::new(),
            sign: 1,
            levels_max,
        }
    }

    /// Creates the ask side with at most `levels_max` levels.
    pub fn asks(levels_max: usize) -> Self {
        Self {
            keys: Vec::new(),
            sums: Vec::new(),
            sign: -1,
            levels_max,
        }
    }

    /// Returns the best level; an empty level for an empty side.
    #[inline]
    pub fn best(&self) -> Level {
        match (self.keys.last(), self.sums.last()) {
            (Some(key), Some(sum)) => Level {
                price: key * self.sign,
                size: sum.size,
                orders: sum.orders,
            },
            _ => Level {
                price: UNDEFINED_PRICE,
                size: 0,
                orders: 0,
            },
        }
    }

    /// Iterates over the levels, the best first. [`Iterator::take`] gives the best `N`.
    pub fn iter(&self) -> impl Iterator<Item = Level> + '_ {
        let levels = self.keys.iter().zip(&self.sums).rev();
        levels.map(|(key, sum)| Level {
            price: key * self.sign,
            size: sum.size,
            orders: sum.orders,
        })
    }

    /// Returns the level of a price, if there is one.
    pub fn get(&self, price: i64) -> Option<Level> {
        let sum = self.sums[self.find(price).ok()?];
        Some(Level {
            price,
            size: sum.size,
            orders: sum.orders,
        })
    }

    /// Reads the best level to bring it into the cache.
    #[inline]
    pub fn touch(&self) {
        std::hint::black_box(self.keys.last().copied());
        std::hint::black_box(self.sums.last().map(|sum| sum.orders));
    }

    /// Returns whether the side has no level.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the number of levels.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Removes all levels.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.sums.clear();
    }

    /// Adds an order to its level.
    #[inline]
    pub fn add(&mut self, price: i64, size: u32) -> Result<(), BookError> {
        let size = u64::from(size);
        match self.find(price) {
            Ok(place) => {
                let sum = &mut self.sums[place];
                sum.size += size;
                sum.orders += 1;
                Ok(())
            }
            Err(place) => self.insert(place, price, size, 1),
        }
    }

    /// Removes `size` of an order from its level, and the order itself if it is `gone`.
    #[inline]
    pub fn remove(&mut self, price: i64, size: u32, gone: bool) {
        let Ok(place) = self.find(price) else {
            return; // a top of book has replaced the level
        };
        let sum = &mut self.sums[place];
        sum.size = sum.size.saturating_sub(u64::from(size));
        sum.orders = sum.orders.saturating_sub(u32::from(gone));
        if sum.orders == 0 {
            self.keys.remove(place);
            self.sums.remove(place);
        }
    }

    /// Changes the size of an order in its level.
    #[inline]
    pub fn resize(&mut self, price: i64, old: u32, new: u32) {
        if let Ok(place) = self.find(price) {
            let sum = &mut self.sums[place];
            sum.size = (sum.size + u64::from(new)).saturating_sub(u64::from(old));
        }
    }

    /// Replaces the side with one level whose orders are unknown.
    pub fn set_only(&mut self, price: i64, size: u32) -> Result<(), BookError> {
        self.clear();
        self.insert(0, price, u64::from(size), 0)
    }

    fn insert(&mut self, at: usize, price: i64, size: u64, orders: u32) -> Result<(), BookError> {
        if self.keys.len() >= self.levels_max {
            return Err(BookError::LevelsFull);
        }
        self.keys.insert(at, price * self.sign);
        self.sums.insert(at, Sum { size, orders });
        Ok(())
    }

    /// Returns the index of a price, or the index where it belongs. Compares the best few at
    /// once, and the rest by binary search.
    #[inline]
    fn find(&self, price: i64) -> Result<usize, usize> {
        let key = price * self.sign;
        let Some((far, near)) = self.keys.split_last_chunk::<NEAR>() else {
            return self.keys.binary_search(&key);
        };
        let better: usize = near.iter().map(|&near| usize::from(near > key)).sum();
        if better == NEAR {
            return far.binary_search(&key);
        }
        let place = NEAR - 1 - better;
        if near[place] == key {
            Ok(far.len() + place)
        } else {
            Err(far.len() + place + 1)
        }
    }
}

/// Levels compared at once: one cache line of prices.
const NEAR: usize = 8;
