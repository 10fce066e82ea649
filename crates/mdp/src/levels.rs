//! The book by price: levels counted from the best, as the exchange numbers them.

use tidewire_book::UNDEFINED_PRICE;

/// Levels of a real book at most.
pub const REAL_DEPTH_MAX: usize = 10;
/// Levels of an implied book at most.
pub const IMPLIED_DEPTH_MAX: usize = 2;

/// One level. The price is in units of 1e-9 in the exchange's display format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceLevel {
    /// Price; [`UNDEFINED_PRICE`] for no level.
    pub price: i64,
    /// Quantity.
    pub size: u32,
    /// Orders; 0 if unknown, as in an implied book.
    pub orders: u32,
}

impl PriceLevel {
    /// No level.
    pub const NONE: Self = Self {
        price: UNDEFINED_PRICE,
        size: 0,
        orders: 0,
    };
}

/// Error: an update of a level that the book cannot have, so that the book must be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction;

/// The levels of one side, the best first. At most `N`, and at most the instrument's depth.
#[derive(Clone, Debug)]
pub(crate) struct PriceLevels<const N: usize> {
    levels: [PriceLevel; N],
    /// `len <= depth <= N`.
    len: u8,
    depth: u8,
    /// Levels that the side had at most since it was empty.
    deepest: u8,
}

impl<const N: usize> PriceLevels<N> {
    pub(crate) fn new() -> Self {
        assert!(N <= u8::MAX as usize, "levels are counted in a byte");
        Self {
            levels: [PriceLevel::NONE; N],
            len: 0,
            depth: N as u8,
            deepest: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[PriceLevel] {
        &self.levels[..usize::from(self.len).min(N)]
    }

    #[inline(always)]
    pub(crate) fn best(&self) -> PriceLevel {
        // Levels beyond `len` are NONE.
        self.levels[0]
    }

    /// Returns the number of levels that the exchange sends.
    pub(crate) fn depth(&self) -> u8 {
        self.depth
    }

    pub(crate) fn clear(&mut self) {
        self.truncate(0);
        self.deepest = 0;
    }

    /// Sets the number of levels that the exchange sends; 0 and impossible numbers mean `N`.
    /// Returns whether the side had more levels: those that should have dropped out may have moved
    /// up since.
    pub(crate) fn set_depth(&mut self, depth: u8) -> bool {
        self.depth = match depth {
            0 => N as u8,
            depth => depth.min(N as u8),
        };
        self.truncate(self.len.min(self.depth));
        self.deepest > self.depth
    }

    /// Inserts a level. Worse levels move down, and the last one drops out of a full book.
    #[inline]
    pub(crate) fn insert(&mut self, number: u8, level: PriceLevel) -> Result<(), Contradiction> {
        let at = usize::from(number).wrapping_sub(1);
        let (len, depth) = (usize::from(self.len), usize::from(self.depth));
        if at > len || at >= depth {
            return Err(Contradiction);
        }
        let end = (len + 1).min(depth);
        self.levels.copy_within(at..end - 1, at + 1);
        self.levels[at] = level;
        self.len = end as u8;
        self.deepest = self.deepest.max(self.len);
        debug_assert!(self.len <= self.depth && usize::from(self.depth) <= N);
        Ok(())
    }

    /// Returns whether a price stands in order between the levels `before` and `after` of it.
    fn is_in_order(&self, price: i64, before: usize, after: usize, is_bid: bool) -> bool {
        let is_better = |one: i64, other: i64| match is_bid {
            true => one > other,
            false => one < other,
        };
        let levels = self.as_slice();
        let before = levels.get(before.wrapping_sub(1));
        let is_after = before.is_none_or(|level| is_better(level.price, price));
        let after = levels.get(after);
        is_after && after.is_none_or(|level| is_better(price, level.price))
    }

    /// Returns whether a new level may have this number and price.
    #[inline]
    pub(crate) fn takes_new(&self, number: u8, price: i64, is_bid: bool) -> bool {
        let at = usize::from(number).wrapping_sub(1);
        self.is_in_order(price, at, at, is_bid)
    }

    /// Returns whether a level may change to this price.
    #[inline]
    pub(crate) fn takes_change(&self, number: u8, price: i64, is_bid: bool) -> bool {
        let at = usize::from(number).wrapping_sub(1);
        self.is_in_order(price, at, usize::from(number), is_bid)
    }

    /// Returns whether a level has this price.
    #[inline]
    pub(crate) fn has(&self, number: u8, price: i64) -> bool {
        let level = self.as_slice().get(usize::from(number).wrapping_sub(1));
        level.is_some_and(|level| level.price == price)
    }

    /// Replaces a level.
    #[inline]
    pub(crate) fn change(&mut self, number: u8, level: PriceLevel) -> Result<(), Contradiction> {
        let at = self.place(number)?;
        self.levels[at] = level;
        Ok(())
    }

    /// Removes a level. Worse levels move up.
    #[inline]
    pub(crate) fn remove(&mut self, number: u8) -> Result<(), Contradiction> {
        let at = self.place(number)?;
        let len = usize::from(self.len).min(N);
        self.levels.copy_within(at + 1..len, at);
        self.truncate(self.len - 1);
        Ok(())
    }

    /// Removes the levels from the best to this one.
    pub(crate) fn remove_through(&mut self, number: u8) -> Result<(), Contradiction> {
        let at = self.place(number)?;
        let len = usize::from(self.len);
        self.levels[..len].rotate_left(at + 1);
        self.truncate(self.len - number);
        Ok(())
    }

    /// Removes this level and all worse ones.
    pub(crate) fn remove_from(&mut self, number: u8) -> Result<(), Contradiction> {
        let at = self.place(number)?;
        self.truncate(at as u8);
        Ok(())
    }

    /// Sets a level of a snapshot, which gives them in any order. Returns whether it was kept.
    pub(crate) fn set(&mut self, number: u8, level: PriceLevel) -> bool {
        let at = usize::from(number).wrapping_sub(1);
        if at >= usize::from(self.depth) {
            return false;
        }
        self.levels[at] = level;
        self.len = self.len.max(number);
        true
    }

    #[inline(always)]
    fn place(&self, number: u8) -> Result<usize, Contradiction> {
        if number == 0 || number > self.len {
            return Err(Contradiction);
        }
        Ok(usize::from(number) - 1)
    }

    fn truncate(&mut self, len: u8) {
        debug_assert!(len <= self.len);
        let end = usize::from(self.len).min(N);
        self.levels[usize::from(len).min(end)..end].fill(PriceLevel::NONE);
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(price: i64) -> PriceLevel {
        PriceLevel {
            price,
            size: 1,
            orders: 1,
        }
    }

    fn prices(levels: &PriceLevels<3>) -> Vec<i64> {
        levels.as_slice().iter().map(|level| level.price).collect()
    }

    #[test]
    fn levels_move_as_the_exchange_numbers_them() {
        let mut levels = PriceLevels::<3>::new();
        for (number, price) in [(1, 50), (2, 40), (1, 60), (2, 55)] {
            assert_eq!(levels.insert(number, level(price)), Ok(()));
        }
        assert_eq!(prices(&levels), [60, 55, 50], "40 dropped out");
        assert_eq!(levels.change(2, level(56)), Ok(()));
        assert_eq!(levels.remove(1), Ok(()));
        assert_eq!((prices(&levels), levels.best().price), (vec![56, 50], 56));
        assert_eq!(levels.remove_through(1), Ok(()));
        assert_eq!(prices(&levels), [50]);
        assert_eq!(levels.insert(2, level(45)), Ok(()));
        assert_eq!(levels.remove_from(2), Ok(()));
        assert_eq!(prices(&levels), [50]);
        assert_eq!(levels.remove(1), Ok(()));
        assert_eq!(levels.best(), PriceLevel::NONE);
    }

    #[test]
    fn an_update_of_a_level_that_is_not_there_is_a_contradiction() {
        let mut levels = PriceLevels::<3>::new();
        assert!(!levels.set_depth(2));
        assert_eq!(levels.insert(2, level(1)), Err(Contradiction));
        assert_eq!(levels.insert(0, level(1)), Err(Contradiction));
        assert_eq!(levels.insert(1, level(1)), Ok(()));
        assert_eq!(levels.insert(3, level(1)), Err(Contradiction));
        for number in [0, 2, 255] {
            assert_eq!(levels.change(number, level(2)), Err(Contradiction));
            assert_eq!(levels.remove(number), Err(Contradiction));
            assert_eq!(levels.remove_from(number), Err(Contradiction));
            assert_eq!(levels.remove_through(number), Err(Contradiction));
            assert!(!levels.set(number, level(2)) || number == 2);
        }
    }

    #[test]
    fn a_lower_depth_drops_the_worst_levels() {
        let mut levels = PriceLevels::<3>::new();
        for number in 1..=3 {
            assert_eq!(levels.insert(number, level(-i64::from(number))), Ok(()));
        }
        assert!(levels.set_depth(2), "the third level may have moved up");
        assert_eq!(prices(&levels), [-1, -2]);
        levels.clear();
        assert!(!levels.set_depth(200));
        for number in 1..=2 {
            assert_eq!(levels.insert(number, level(-i64::from(number))), Ok(()));
        }
        assert_eq!(levels.insert(3, level(-5)), Ok(()));
    }
}
