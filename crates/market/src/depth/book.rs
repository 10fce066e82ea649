//! The price levels of one book, as its source gives them.

use tidewire_feed::wire::Level;

use crate::decimal::write_price;

/// One price level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookLevel {
    /// The price, 1 unit = 1e-9.
    pub price: i64,
    /// Total quantity at this price.
    pub size: u32,
    /// Number of orders; 0 if unknown.
    pub orders: u32,
}

/// One side in a sorted array, with the best level last: nearly all changes are close to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ladder {
    /// By [`key`], ascending.
    levels: Vec<BookLevel>,
}

/// Both sides of a book.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ladders {
    bids: Ladder,
    asks: Ladder,
}

impl Ladders {
    /// Applies a level. Returns false if the side is full and its worst level was left out.
    pub(crate) fn apply(&mut self, level: &Level) -> bool {
        match (level.action, level.side) {
            (Level::SET, Level::BID) => self.bids.set(level, true),
            (Level::SET, Level::ASK) => self.asks.set(level, false),
            (Level::CLEAR | Level::END, side) => {
                if side != Level::ASK {
                    self.bids.levels.clear();
                }
                if side != Level::BID {
                    self.asks.levels.clear();
                }
                true
            }
            _ => true,
        }
    }

    /// Returns the best levels of a side, the best first.
    pub(crate) fn best(&self, is_bid: bool) -> impl ExactSizeIterator<Item = &BookLevel> {
        self.side(is_bid).levels.iter().rev()
    }

    /// Returns the level at a price; one of size 0 if there is none.
    pub(crate) fn at(&self, is_bid: bool, price: i64) -> BookLevel {
        let side = self.side(is_bid);
        let found = side.find(key(price, is_bid), is_bid);
        found.map_or(BookLevel::none(price), |place| side.levels[place])
    }

    /// Returns the number of levels that are better than a price.
    pub(crate) fn better_than(&self, is_bid: bool, price: i64) -> usize {
        let side = self.side(is_bid);
        match side.find(key(price, is_bid), is_bid) {
            Ok(place) => side.levels.len() - place - 1,
            Err(place) => side.levels.len() - place,
        }
    }

    /// Returns the number of levels of both sides.
    pub(crate) fn len(&self) -> usize {
        self.bids.levels.len() + self.asks.levels.len()
    }

    fn side(&self, is_bid: bool) -> &Ladder {
        match is_bid {
            true => &self.bids,
            false => &self.asks,
        }
    }
}

impl Ladder {
    fn set(&mut self, level: &Level, is_bid: bool) -> bool {
        let found = self.find(key(level.price, is_bid), is_bid);
        let new = BookLevel {
            price: level.price,
            size: level.size,
            orders: level.orders,
        };
        match (found, level.size) {
            (Ok(place), 0) => drop(self.levels.remove(place)),
            (Ok(place), _) => self.levels[place] = new,
            (Err(_), 0) => {}
            (Err(place), _) if self.levels.len() >= LEVELS_MAX => {
                // The best levels are kept.
                if let Some(place) = place.checked_sub(1) {
                    self.levels.remove(0);
                    self.levels.insert(place, new);
                }
                return false;
            }
            (Err(place), _) => self.levels.insert(place, new),
        }
        debug_assert!(self.levels.len() <= LEVELS_MAX, "a side has its limit");
        true
    }

    fn find(&self, key_wanted: i64, is_bid: bool) -> Result<usize, usize> {
        let place = |level: &BookLevel| key(level.price, is_bid);
        // The best levels change most.
        if let Some(best) = self.levels.last()
            && place(best) < key_wanted
        {
            return Err(self.levels.len());
        }
        self.levels.binary_search_by_key(&key_wanted, place)
    }
}

impl BookLevel {
    /// Appends the price as a decimal number.
    pub fn write_price(&self, out: &mut Vec<u8>) {
        write_price(out, self.price);
    }

    /// A price without orders.
    fn none(price: i64) -> Self {
        Self {
            price,
            size: 0,
            orders: 0,
        }
    }
}

/// Returns a number that is greater for a better price.
#[inline]
fn key(price: i64, is_bid: bool) -> i64 {
    match is_bid {
        true => price,
        // Unlike a negation, this cannot overflow.
        false => !price,
    }
}

/// Maximum levels of a side, 16 bytes each: ten times the most that is known of one instrument.
pub(crate) const LEVELS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn set(side: u8, price: i64, size: u32) -> Level {
        Level {
            side,
            price,
            size,
            orders: size,
            ..Level::default()
        }
    }

    #[test]
    fn agrees_with_a_map_and_has_the_best_level_first() {
        let mut ladders = Ladders::default();
        let mut maps = [BTreeMap::new(), BTreeMap::new()];
        let mut state = 7u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (price, size) = ((state >> 33) as i64 % 50 - 25, (state >> 50) as u32 % 3);
            let is_bid = state >> 63 == 0;
            let side = if is_bid { Level::BID } else { Level::ASK };
            assert!(ladders.apply(&set(side, price, size)));
            let map: &mut BTreeMap<i64, u32> = &mut maps[usize::from(!is_bid)];
            match size {
                0 => drop(map.remove(&price)),
                size => drop(map.insert(price, size)),
            }
            assert_eq!(
                ladders.at(is_bid, price).size,
                map.get(&price).copied().unwrap_or(0)
            );
            let better = match is_bid {
                true => map.range(price + 1..).count(),
                false => map.range(..price).count(),
            };
            assert_eq!(ladders.better_than(is_bid, price), better);
        }
        let bids: Vec<i64> = ladders.best(true).map(|level| level.price).collect();
        assert!(bids.iter().eq(maps[0].keys().rev()));
        let asks: Vec<i64> = ladders.best(false).map(|level| level.price).collect();
        assert!(asks.iter().eq(maps[1].keys()));
        assert_eq!(ladders.len(), maps[0].len() + maps[1].len());
        ladders.apply(&Level {
            action: Level::CLEAR,
            side: Level::BID,
            ..Level::default()
        });
        assert_eq!(ladders.len(), maps[1].len());
    }

    #[test]
    fn extreme_prices_are_prices() {
        let mut ladders = Ladders::default();
        for price in [i64::MIN, i64::MAX, 0] {
            assert!(ladders.apply(&set(Level::ASK, price, 1)));
        }
        let asks: Vec<i64> = ladders.best(false).map(|level| level.price).collect();
        assert_eq!(asks, [i64::MIN, 0, i64::MAX]);
    }
}
