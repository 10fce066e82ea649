//! Price levels of one side.

mod far;
mod window;

use crate::BookError;
use crate::UNDEFINED_PRICE;
use crate::cache_line::prefetch;
use far::{FarLevel, FarLevels};
use window::{Sum, Window};

/// The levels of one side: those near the best price in a [`Window`] of ticks, the others in a
/// sorted array.
///
/// Nearly all changes are close to the best price. There a level is found by arithmetic, its
/// changes have no unpredictable branch, and nothing moves when a level appears or disappears.
///
/// * The tick is not configured: it is the greatest common divisor of the distances between the
///   levels near the best. A price between two ticks makes it smaller.
/// * The window follows the best price in steps, so that moving it is rare.
/// * A side has no window before its ninth level: a venue has many instruments with few orders.
///   Nor has one whose best price is extreme, nor, until [`clear`](Self::clear), one whose totals
///   exceeded what a window can express.
///
/// Asks are stored with negated prices, so both sides ascend towards the best.
///
/// Invariants: each key of `far` is below `base` while there is a window; the window is empty
/// only if `far` is empty too.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Levels {
    // The first cache line: all that a change near the best price needs, except its level.
    /// The key of the window's lowest tick.
    base: i64,
    /// Distance between the window's levels, 1 unit = 1e-9; 0 before the first window.
    tick: u64,
    /// Inverse of the tick's odd part, modulo 2^64: see [`Self::index_of`].
    inverse: u64,
    /// Which of the window's levels exist: bit `i` is the one at `base + i * tick`.
    occupied: u64,
    window: Option<Box<Window>>,
    /// The best level at the end of the last event.
    published: BestLevel,
    /// Levels that may still be added.
    room: u32,
    /// Trailing zeros of the tick.
    shift: u8,
    /// Levels of the window: [`WINDOW`], or 0 if there is none.
    width: u8,
    /// 1 for bids, −1 for asks.
    sign: i8,
    /// No window until the side is cleared.
    is_sorted_only: bool,
    // The second cache line.
    /// All levels below the window.
    far: FarLevels,
    /// Changes below or beside the window; only grows.
    far_changes: u64,
    levels_max: u32,
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

/// What a change of an order did to its price level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelChange {
    /// The level is new.
    Added,
    /// The level has another size or number of orders.
    Changed,
    /// The level is gone.
    Removed,
    /// There is no such level: a top of book has replaced it.
    Unknown,
}

/// The best level as it is published: size and count of at most `u32::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BestLevel {
    pub(crate) price: i64,
    pub(crate) size: u32,
    pub(crate) orders: u32,
}

impl Levels {
    /// Creates the bid side with at most `levels_max` levels.
    pub fn bids(levels_max: usize) -> Self {
        Self::new(levels_max, 1)
    }

    /// Creates the ask side with at most `levels_max` levels.
    pub fn asks(levels_max: usize) -> Self {
        Self::new(levels_max, -1)
    }

    fn new(levels_max: usize, sign: i8) -> Self {
        let levels_max = u32::try_from(levels_max).unwrap_or(u32::MAX);
        Self {
            base: 0,
            tick: 0,
            inverse: 0,
            occupied: 0,
            window: None,
            published: BestLevel::NONE,
            room: levels_max,
            shift: 0,
            width: 0,
            sign,
            is_sorted_only: false,
            far: FarLevels::default(),
            far_changes: 0,
            levels_max,
        }
    }

    /// Returns the best level; an empty level for an empty side.
    #[inline]
    pub fn best(&self) -> Level {
        match (&self.window, self.occupied) {
            (Some(window), 1..) => {
                let index = u64::from(self.occupied.ilog2());
                self.level(self.key_at(index), window.sum(index))
            }
            _ => match self.far.best() {
                Some(level) => self.level(level.key, level.sum),
                None => Level::NONE,
            },
        }
    }

    /// Iterates over the levels, the best first. [`Iterator::take`] gives the best `N`.
    pub fn iter(&self) -> impl Iterator<Item = Level> + '_ {
        self.iter_from(0)
    }

    /// Iterates over the levels behind the best `better` ones, the best first. The far ones among
    /// these are stepped over at once.
    pub fn iter_from(&self, better: usize) -> impl Iterator<Item = Level> + '_ {
        let mut occupied = self.occupied;
        let near_count = occupied.count_ones() as usize;
        for _ in 0..better.min(near_count) {
            occupied ^= 1 << occupied.ilog2();
        }
        let near = std::iter::from_fn(move || {
            let index = u64::from(occupied.checked_ilog2()?);
            occupied ^= 1 << index;
            let window = self.window.as_ref()?;
            Some(self.level(self.key_at(index), window.sum(index)))
        });
        let far = self.far.iter().rev();
        let far = far.skip(better.saturating_sub(near_count));
        near.chain(far.map(|level| self.level(level.key, level.sum)))
    }

    /// Returns the level of a price, if there is one.
    pub fn get(&self, price: i64) -> Option<Level> {
        let key = self.key(price);
        let index = self.index_of(key);
        let sum = match &self.window {
            Some(window) if index < u64::from(self.width) => {
                (self.occupied >> index & 1 != 0).then(|| window.sum(index))
            }
            _ => self.far.get(key),
        };
        sum.map(|sum| self.level(key, sum))
    }

    /// Returns the number of levels that are better than a price: the place, from 0, of its level
    /// behind the best one.
    pub fn better_than(&self, price: i64) -> usize {
        let key = self.key(price);
        let near = self.occupied.count_ones() as usize;
        if self.width == 0 || key < self.base {
            return near + self.far.above(key);
        }
        // Rounded down, as a price may lie between two ticks.
        match key.abs_diff(self.base) / self.tick {
            index if index < WINDOW - 1 => (self.occupied >> (index + 1)).count_ones() as usize,
            _ => 0,
        }
    }

    /// Prefetches the level of a price and the best level.
    #[inline]
    pub fn touch(&self, price: i64) {
        let index = self.index_of(self.key(price));
        match (&self.window, self.occupied) {
            (Some(window), 1..) => {
                prefetch(window.place(u64::from(self.occupied.ilog2())));
                prefetch(window.place(index & (WINDOW - 1)));
            }
            _ => self.far.touch(),
        }
    }

    /// Returns whether the side has no level.
    pub fn is_empty(&self) -> bool {
        self.occupied == 0 && self.far.is_empty()
    }

    /// Returns the number of levels.
    pub fn len(&self) -> usize {
        self.occupied.count_ones() as usize + self.far.len()
    }

    /// Returns how many changes were not near the best price; it only grows.
    pub fn far_changes(&self) -> u64 {
        self.far_changes
    }

    /// Removes all levels.
    pub fn clear(&mut self) {
        if let Some(window) = &mut self.window {
            window.clear();
        }
        (self.occupied, self.width, self.tick) = (0, 0, 0);
        self.is_sorted_only = false;
        self.far.clear();
        self.room = self.levels_max;
    }

    /// Adds an order to its level.
    ///
    /// # Errors
    /// [`BookError::LevelsFull`]; the side is unchanged.
    #[inline]
    pub fn add(&mut self, price: i64, size: u32) -> Result<LevelChange, BookError> {
        let key = self.key(price);
        let index = self.index_of(key);
        if index < u64::from(self.width)
            && let Some(window) = &mut self.window
        {
            let is_new = self.occupied >> index & 1 == 0;
            if is_new && self.room == 0 {
                return Err(BookError::LevelsFull);
            }
            if window.add(index, size) {
                self.room -= u32::from(is_new);
                self.occupied |= 1 << index;
                return Ok(LevelChange::added(is_new));
            }
            self.leave_window();
        }
        self.add_far(key, size)
    }

    /// Removes `size` of an order from its level, and the order itself if it is `gone`.
    #[inline]
    pub fn remove(&mut self, price: i64, size: u32, gone: bool) -> LevelChange {
        let key = self.key(price);
        let index = self.index_of(key);
        if index < u64::from(self.width)
            && let Some(window) = &mut self.window
        {
            if self.occupied >> index & 1 == 0 {
                return LevelChange::Unknown;
            }
            let is_empty = window.remove(index, size, gone);
            self.room += u32::from(is_empty);
            self.occupied ^= u64::from(is_empty) << index;
            if self.occupied == 0 {
                self.move_window();
            }
            return LevelChange::removed(is_empty);
        }
        self.remove_far(key, size, gone)
    }

    /// Changes the size of an order in its level.
    #[inline]
    pub fn resize(&mut self, price: i64, old: u32, new: u32) -> LevelChange {
        let key = self.key(price);
        let index = self.index_of(key);
        if index < u64::from(self.width)
            && let Some(window) = &mut self.window
        {
            if self.occupied >> index & 1 == 0 {
                return LevelChange::Unknown;
            }
            if window.resize(index, old, new) {
                return LevelChange::Changed;
            }
            self.leave_window();
        }
        self.far_changes += 1;
        let Ok(place) = self.far.find(key) else {
            return LevelChange::Unknown;
        };
        let sum = self.far.sum_mut(place);
        sum.size = (sum.size + u64::from(new)).saturating_sub(u64::from(old));
        LevelChange::Changed
    }

    /// Replaces the side with one level whose orders are unknown.
    ///
    /// # Errors
    /// [`BookError::LevelsFull`]; the side is empty.
    pub fn set_only(&mut self, price: i64, size: u32) -> Result<(), BookError> {
        self.clear();
        let size = u64::from(size);
        self.insert_far(0, self.key(price), Sum { size, orders: 0 })
    }

    /// Ends an event. Returns whether the best level differs from that at the end of the previous
    /// event.
    #[inline]
    pub(crate) fn end_event(&mut self) -> bool {
        let best = self.best_published();
        let changed = best != self.published;
        self.published = best;
        changed
    }

    /// Returns the best level as of the end of the last event.
    #[inline]
    pub(crate) fn published(&self) -> BestLevel {
        self.published
    }

    /// Returns the best level as it would be published.
    #[inline]
    pub(crate) fn best_published(&self) -> BestLevel {
        let best = self.best();
        BestLevel {
            price: best.price,
            size: u32::try_from(best.size).unwrap_or(u32::MAX),
            orders: best.orders,
        }
    }

    #[inline(never)]
    fn add_far(&mut self, key: i64, size: u32) -> Result<LevelChange, BookError> {
        self.far_changes += 1;
        let size = u64::from(size);
        let is_beside = self.width > 0 && key > self.base;
        if is_beside {
            // A new best price above the window, or a price between two ticks.
            if self.room == 0 {
                return Err(BookError::LevelsFull);
            }
            self.gather();
        }
        match self.far.find(key) {
            Ok(place) => {
                let sum = self.far.sum_mut(place);
                sum.size += size;
                sum.orders += 1;
                self.follow_best();
                Ok(LevelChange::Changed)
            }
            Err(place) => {
                self.insert_far(place, key, Sum { size, orders: 1 })?;
                if is_beside {
                    self.move_window();
                } else {
                    self.follow_best();
                }
                Ok(LevelChange::Added)
            }
        }
    }

    #[inline(never)]
    fn remove_far(&mut self, key: i64, size: u32, gone: bool) -> LevelChange {
        self.far_changes += 1;
        let Ok(place) = self.far.find(key) else {
            return LevelChange::Unknown;
        };
        let sum = self.far.sum_mut(place);
        sum.size = sum.size.saturating_sub(u64::from(size));
        sum.orders = sum.orders.saturating_sub(u32::from(gone));
        let is_empty = sum.orders == 0;
        if is_empty {
            self.far.remove(place);
            self.room += 1;
        }
        self.follow_best();
        LevelChange::removed(is_empty)
    }

    fn insert_far(&mut self, place: usize, key: i64, sum: Sum) -> Result<(), BookError> {
        self.room = self.room.checked_sub(1).ok_or(BookError::LevelsFull)?;
        self.far.insert(place, FarLevel { key, sum });
        Ok(())
    }

    /// Creates the window when there are enough levels, and moves it when the best price has sunk
    /// in it: then changes near the best price end below the window.
    fn follow_best(&mut self) {
        let has_sunk = match self.width {
            0 => self.far.len() >= LEVELS_WITH_WINDOW && !self.is_sorted_only,
            _ => self.occupied < 1 << SUNK,
        };
        if has_sunk {
            self.move_window();
        }
    }

    /// Moves all levels out of the window.
    fn gather(&mut self) {
        let Some(window) = &mut self.window else {
            return;
        };
        while self.occupied != 0 {
            let index = u64::from(self.occupied.trailing_zeros());
            self.occupied ^= 1 << index;
            let key = self.base + (index * self.tick) as i64;
            let sum = window.take(index);
            self.far.push(FarLevel { key, sum });
        }
    }

    /// Gives up the window: it cannot express a total.
    #[cold]
    fn leave_window(&mut self) {
        self.gather();
        (self.width, self.is_sorted_only) = (0, true);
    }

    /// Puts the window where the best price is, and moves the levels there into it.
    #[cold]
    #[inline(never)]
    fn move_window(&mut self) {
        self.gather();
        let Some(best) = self.far.best().map(|level| level.key) else {
            return; // an empty side keeps its window
        };
        let Some((base, tick)) = self.place_for_window(best) else {
            self.width = 0;
            return;
        };
        debug_assert!(tick > 0 && base <= best);
        let window = self.window.get_or_insert_default();
        (self.base, self.tick, self.width) = (base, tick, WINDOW as u8);
        self.shift = tick.trailing_zeros() as u8;
        self.inverse = inverse_of_odd(tick >> self.shift);
        while let Some(level) = self.far.best() {
            if level.key < base {
                break;
            }
            let index = level.key.abs_diff(base) / tick;
            if !window.put(index, level.sum) {
                return self.leave_window();
            }
            self.occupied |= 1 << index;
            self.far.pop();
        }
        debug_assert!(self.occupied != 0);
    }

    /// Returns the lowest key of a window with the key `best` at index [`HOME`], and its tick.
    fn place_for_window(&self, best: i64) -> Option<(i64, u64)> {
        if self.is_sorted_only {
            return None;
        }
        let mut tick = match self.tick {
            0 => best.abs_diff(self.far.iter().rev().nth(1)?.key),
            tick => tick,
        };
        if tick > TICK_MAX {
            tick = TICK_USUAL;
        }
        // Each turn at least halves the tick.
        'shrinking: loop {
            let base = best.checked_sub((HOME * tick) as i64)?;
            if base.unsigned_abs() > KEY_MAX {
                return None;
            }
            for level in self.far.iter().rev().take_while(|level| level.key >= base) {
                let distance = best.abs_diff(level.key);
                if !distance.is_multiple_of(tick) {
                    tick = greatest_common_divisor(tick, distance);
                    continue 'shrinking;
                }
            }
            return Some((base, tick));
        }
    }

    /// Returns the index of a key in the window; at least [`WINDOW`] if it is not on one of the
    /// window's ticks.
    ///
    /// A product with the inverse of an odd number is the quotient if the division is exact, and
    /// more than any quotient if it is not. The same holds for even numbers after a rotation.
    #[inline(always)]
    fn index_of(&self, key: i64) -> u64 {
        let distance = key.wrapping_sub(self.base) as u64;
        let product = distance.wrapping_mul(self.inverse);
        product.rotate_right(u32::from(self.shift))
    }

    #[inline(always)]
    fn key_at(&self, index: u64) -> i64 {
        self.base
            .wrapping_add((index.wrapping_mul(self.tick)) as i64)
    }

    #[inline(always)]
    fn key(&self, price: i64) -> i64 {
        price.wrapping_mul(i64::from(self.sign))
    }

    #[inline(always)]
    fn level(&self, key: i64, sum: Sum) -> Level {
        Level {
            price: self.key(key),
            size: sum.size,
            orders: sum.orders,
        }
    }
}

impl Level {
    /// The best level of an empty side.
    const NONE: Self = Self {
        price: UNDEFINED_PRICE,
        size: 0,
        orders: 0,
    };
}

impl BestLevel {
    /// The best level of an empty side.
    const NONE: Self = Self {
        price: UNDEFINED_PRICE,
        size: 0,
        orders: 0,
    };
}

impl LevelChange {
    #[inline]
    fn added(is_new: bool) -> Self {
        if is_new { Self::Added } else { Self::Changed }
    }

    #[inline]
    fn removed(is_empty: bool) -> Self {
        if is_empty {
            Self::Removed
        } else {
            Self::Changed
        }
    }
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Returns the inverse of an odd number modulo 2^64.
fn inverse_of_odd(odd: u64) -> u64 {
    // Right in three bits at first; each of Newton's steps doubles them.
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    debug_assert!(odd.wrapping_mul(inverse) == 1);
    inverse
}

/// Levels of a window.
const WINDOW: u64 = 64;
/// Where the best price is when the window has been moved: the seven levels next to it are in its
/// cache line, and it can improve by eleven ticks before the window moves again.
const HOME: u64 = 52;
/// The window follows when the best price is below this index and orders go below the window.
const SUNK: u64 = 32;
/// A side has a window from this number of levels on.
const LEVELS_WITH_WINDOW: usize = 9;
/// Largest tick, 1 unit = 1e-9: more than 1,000.
const TICK_MAX: u64 = 1 << 40;
/// The tick to begin with if the best two levels are far apart: 0.01.
const TICK_USUAL: u64 = 10_000_000;
/// Largest key of a window: with it, no other key is so far away that a distance wraps.
const KEY_MAX: u64 = 1 << 62;

const _: () = assert!(size_of::<Levels>() == 128);

#[cfg(test)]
mod tests;
