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

/// One side: sorted arrays of up to [`CHUNK_LEVELS`] levels, with the best level last, as nearly
/// all changes are close to it. A change moves the levels of one chunk only, so its cost does not
/// grow with the book. A book of up to [`CHUNK_LEVELS`] levels is one array.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ladder {
    /// By [`key`], ascending. Only the sole chunk of a side may be empty. Two neighbours have more
    /// than [`MERGED_LEVELS_MAX`] levels together, so there are few chunks.
    chunks: Vec<Vec<BookLevel>>,
    /// Levels of all chunks.
    length: usize,
    /// Greatest [`key`] of a level that was left out since the last clear. Levels from there on are
    /// not known, so all kept levels are better.
    left_out: Option<i64>,
}

/// A place in a [`Ladder`].
#[derive(Clone, Copy, Debug)]
struct Place {
    chunk: usize,
    index: usize,
}

/// Both sides of a book.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ladders {
    bids: Ladder,
    asks: Ladder,
}

/// What a level did to its book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing: a level was removed that is not there, or one was left out.
    Nothing,
    /// A new level.
    Added,
    /// A new level in the place of the worst one of a full side, whose price this is.
    Displaced(i64),
    /// A level that was there is changed or removed.
    Changed,
    /// A side, or both, is empty.
    Cleared,
}

impl Ladders {
    /// Applies a level.
    pub(crate) fn apply(&mut self, level: &Level) -> Outcome {
        match (level.action, level.side) {
            (Level::SET, Level::BID) => self.bids.set(level, true),
            (Level::SET, Level::ASK) => self.asks.set(level, false),
            (Level::CLEAR | Level::END, side) => {
                if side != Level::ASK || level.action == Level::END {
                    self.bids.clear();
                }
                if side != Level::BID || level.action == Level::END {
                    self.asks.clear();
                }
                Outcome::Cleared
            }
            _ => Outcome::Nothing,
        }
    }

    /// Returns the best levels of a side, the best first.
    pub(crate) fn best(&self, is_bid: bool) -> impl Iterator<Item = &BookLevel> {
        let chunks = self.side(is_bid).chunks.iter().rev();
        chunks.flat_map(|chunk| chunk.iter().rev())
    }

    /// Returns the level at a price; one of size 0 if there is none.
    pub(crate) fn at(&self, is_bid: bool, price: i64) -> BookLevel {
        let side = self.side(is_bid);
        match side.find(key(price, is_bid), is_bid) {
            Ok(place) => side.chunks[place.chunk][place.index],
            Err(_) => BookLevel::none(price),
        }
    }

    /// Returns the number of levels that are better than a price, or `most` if there are more.
    pub(crate) fn better_than(&self, is_bid: bool, price: i64, most: usize) -> usize {
        let wanted = key(price, is_bid);
        let better = self.best(is_bid).take(most);
        better
            .take_while(|level| key(level.price, is_bid) > wanted)
            .count()
    }

    /// Returns the number of levels of both sides.
    pub(crate) fn len(&self) -> usize {
        self.bids.length + self.asks.length
    }

    /// Returns the number of best levels that are known of each side, if levels were left out since
    /// the last clear.
    pub(crate) fn certain(&self) -> Option<usize> {
        let sides = [&self.bids, &self.asks].into_iter();
        let incomplete = sides.filter(|side| side.left_out.is_some());
        incomplete.map(|side| side.length).min()
    }

    fn side(&self, is_bid: bool) -> &Ladder {
        match is_bid {
            true => &self.bids,
            false => &self.asks,
        }
    }
}

impl Ladder {
    fn set(&mut self, level: &Level, is_bid: bool) -> Outcome {
        let wanted = key(level.price, is_bid);
        let new = BookLevel {
            price: level.price,
            size: level.size,
            orders: level.orders,
        };
        match (self.find(wanted, is_bid), level.size) {
            (Ok(place), 0) => {
                self.remove(place);
                Outcome::Changed
            }
            (Ok(place), _) => {
                self.chunks[place.chunk][place.index] = new;
                Outcome::Changed
            }
            (Err(_), 0) => Outcome::Nothing,
            (Err(_), _) if self.left_out.is_some_and(|left_out| wanted <= left_out) => {
                Outcome::Nothing
            }
            (Err(place), _) if self.length >= LEVELS_MAX => self.displace(place, new, is_bid),
            (Err(place), _) => {
                self.insert(place, new);
                Outcome::Added
            }
        }
    }

    /// Adds a level to a full side: the best levels are kept.
    #[cold]
    fn displace(&mut self, place: Place, new: BookLevel, is_bid: bool) -> Outcome {
        let (first, worst) = (Place { chunk: 0, index: 0 }, self.chunks[0][0]);
        if (place.chunk, place.index) == (0, 0) {
            self.left_out = Some(key(new.price, is_bid));
            return Outcome::Nothing;
        }
        self.left_out = Some(key(worst.price, is_bid));
        self.insert(place, new);
        self.remove(first);
        debug_assert_eq!(self.length, LEVELS_MAX, "a side has its limit");
        Outcome::Displaced(worst.price)
    }

    fn clear(&mut self) {
        // The memory of a usual book is kept.
        self.chunks.truncate(1);
        self.chunks.iter_mut().for_each(Vec::clear);
        (self.length, self.left_out) = (0, None);
    }

    /// Returns the place of a level, or where it would be.
    fn find(&self, wanted: i64, is_bid: bool) -> Result<Place, Place> {
        let of = |level: &BookLevel| key(level.price, is_bid);
        let mut chunk = self.chunks.len().saturating_sub(1);
        if chunk > 0 && of(&self.chunks[chunk][0]) > wanted {
            let before = self.chunks[..chunk].partition_point(|chunk| of(&chunk[0]) <= wanted);
            chunk = before.saturating_sub(1);
        }
        let Some(levels) = self.chunks.get(chunk) else {
            return Err(Place { chunk, index: 0 });
        };
        // The best levels change most.
        let found = match levels.last() {
            Some(best) if of(best) < wanted => Err(levels.len()),
            _ => levels.binary_search_by_key(&wanted, of),
        };
        found
            .map(|index| Place { chunk, index })
            .map_err(|index| Place { chunk, index })
    }

    fn insert(&mut self, place: Place, new: BookLevel) {
        self.length += 1;
        match self.chunks.get_mut(place.chunk) {
            Some(chunk) if chunk.len() < CHUNK_LEVELS => chunk.insert(place.index, new),
            Some(_) => self.split(place, new),
            None => self.chunks.push(vec![new]),
        }
    }

    /// Adds a level to a full chunk.
    #[cold]
    fn split(&mut self, Place { chunk, index }: Place, new: BookLevel) {
        let mut better = Vec::with_capacity(CHUNK_LEVELS);
        let (worse, half) = (&mut self.chunks[chunk], CHUNK_LEVELS / 2);
        better.extend_from_slice(&worse[half..]);
        worse.truncate(half);
        match index.checked_sub(half) {
            Some(index) if index > 0 => better.insert(index, new),
            _ => worse.insert(index, new),
        }
        self.chunks.insert(chunk + 1, better);
    }

    fn remove(&mut self, Place { chunk, index }: Place) {
        self.length -= 1;
        let levels = &mut self.chunks[chunk];
        levels.remove(index);
        if levels.len() < MERGED_LEVELS_MAX && self.chunks.len() > 1 {
            self.merge(chunk);
        }
    }

    /// Joins a chunk with a neighbour if they have few levels.
    fn merge(&mut self, chunk: usize) {
        let length = |chunk: usize| self.chunks.get(chunk).map(Vec::len);
        let is_small = |worse: &usize| {
            let both = length(*worse).zip(length(*worse + 1));
            both.is_some_and(|(worse, better)| worse + better <= MERGED_LEVELS_MAX)
        };
        let pairs = [chunk.checked_sub(1), Some(chunk)].into_iter().flatten();
        if let Some(worse) = pairs.into_iter().find(is_small) {
            let better = self.chunks.remove(worse + 1);
            self.chunks[worse].extend_from_slice(&better);
        } else if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        }
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
/// Maximum levels of a chunk, 4 KiB. The usual book is one chunk. Measured in a full side: a new
/// best price takes 25 ns, a random one 180 ns; with chunks of 512 levels 41 ns and 220 ns.
const CHUNK_LEVELS: usize = 256;
/// Levels up to which two neighbours become one chunk: less than full, so that a split does not
/// follow at once.
const MERGED_LEVELS_MAX: usize = CHUNK_LEVELS / 2;

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

    /// A pseudo-random sequence.
    fn next(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *state >> 16
    }

    fn check(ladder: &Ladder, is_bid: bool) {
        let levels: Vec<_> = ladder.chunks.iter().flatten().collect();
        assert_eq!(levels.len(), ladder.length);
        assert!(levels.is_sorted_by(|a, b| key(a.price, is_bid) < key(b.price, is_bid)));
        let sizes: Vec<_> = ladder.chunks.iter().map(Vec::len).collect();
        assert!(sizes.iter().all(|&size| size <= CHUNK_LEVELS));
        let pairs =
            |pair: &[usize]| pair[0] > 0 && pair[1] > 0 && pair[0] + pair[1] > MERGED_LEVELS_MAX;
        assert!(sizes.windows(2).all(pairs), "{sizes:?}");
    }

    #[test]
    fn agrees_with_a_map_and_has_the_best_level_first() {
        // Prices of one chunk, and of many.
        for (prices, steps) in [(50, 20_000), (5_000, 100_000)] {
            agrees_with_a_map(prices, steps);
        }
    }

    fn agrees_with_a_map(prices: u64, steps: u64) {
        let mut ladders = Ladders::default();
        let mut maps = [BTreeMap::new(), BTreeMap::new()];
        let mut state = 7u64;
        for step in 0..steps {
            let price = (next(&mut state) % prices) as i64 - 25;
            // Grows, then shrinks.
            let size = match (next(&mut state) % 4, step * 2 < steps) {
                (0, true) | (1..=3, false) => 0,
                (size, _) => size as u32 + 1,
            };
            let is_bid = next(&mut state).is_multiple_of(2);
            let side = if is_bid { Level::BID } else { Level::ASK };
            let outcome = ladders.apply(&set(side, price, size));
            let map: &mut BTreeMap<i64, u32> = &mut maps[usize::from(!is_bid)];
            let before = match size {
                0 => map.remove(&price),
                size => map.insert(price, size),
            };
            let expected = match (before, size) {
                (Some(_), _) => Outcome::Changed,
                (None, 0) => Outcome::Nothing,
                (None, _) => Outcome::Added,
            };
            assert_eq!(outcome, expected);
            assert_eq!(
                ladders.at(is_bid, price).size,
                map.get(&price).copied().unwrap_or(0)
            );
            let better = match is_bid {
                true => map.range(price + 1..).take(10).count(),
                false => map.range(..price).take(10).count(),
            };
            assert_eq!(ladders.better_than(is_bid, price, 10), better);
            if step % 512 == 0 {
                check(&ladders.bids, true);
                check(&ladders.asks, false);
            }
        }
        let bids: Vec<i64> = ladders.best(true).map(|level| level.price).collect();
        assert!(bids.iter().eq(maps[0].keys().rev()));
        let asks: Vec<i64> = ladders.best(false).map(|level| level.price).collect();
        assert!(asks.iter().eq(maps[1].keys()));
        assert_eq!(ladders.len(), maps[0].len() + maps[1].len());
        assert_eq!(ladders.certain(), None, "nothing was left out");
        ladders.apply(&Level {
            action: Level::CLEAR,
            side: Level::BID,
            ..Level::default()
        });
        assert_eq!(ladders.len(), maps[1].len());
    }

    /// Each of these took 0.05 to 0.16 ms with one sorted array per side.
    #[test]
    fn levels_at_either_end_and_in_the_middle_of_a_full_side_move_one_chunk_each() {
        let (mut ladders, full) = (Ladders::default(), LEVELS_MAX as i64);
        for price in 0..full {
            assert_eq!(
                ladders.apply(&set(Level::BID, price * 2, 1)),
                Outcome::Added
            );
        }
        for price in 0..4 * full {
            let outcome = ladders.apply(&set(Level::BID, (full + price) * 2, 1));
            assert_eq!(outcome, Outcome::Displaced(price * 2));
        }
        check(&ladders.bids, true);
        let (worst, mut state, mut displaced) = (8 * full, 3, 0);
        for _ in 0..full {
            let odd = worst + (next(&mut state) as i64 % full) * 2 + 1;
            let outcome = ladders.apply(&set(Level::BID, odd, 2));
            displaced += u64::from(matches!(outcome, Outcome::Displaced(_)));
        }
        assert!(displaced > 1_000);
        check(&ladders.bids, true);
        let all: Vec<i64> = ladders.best(true).map(|level| level.price).collect();
        assert_eq!(all.len(), LEVELS_MAX);
        for price in all.iter().rev() {
            assert_eq!(ladders.apply(&set(Level::BID, *price, 0)), Outcome::Changed);
        }
        assert_eq!((ladders.len(), ladders.bids.chunks.len()), (0, 1));
    }

    #[test]
    fn a_side_that_left_levels_out_is_known_down_to_the_best_of_them() {
        let (mut ladders, full) = (Ladders::default(), LEVELS_MAX as i64);
        for price in 1..=full {
            ladders.apply(&set(Level::ASK, price, 1));
        }
        assert_eq!(ladders.certain(), None);
        assert_eq!(
            ladders.apply(&set(Level::ASK, full + 2, 1)),
            Outcome::Nothing
        );
        assert_eq!(ladders.certain(), Some(LEVELS_MAX));
        for price in 11..=full {
            ladders.apply(&set(Level::ASK, price, 0));
        }
        assert_eq!(ladders.certain(), Some(10));
        assert_eq!(
            ladders.apply(&set(Level::ASK, full + 3, 1)),
            Outcome::Nothing
        );
        assert_eq!(ladders.apply(&set(Level::ASK, full + 1, 1)), Outcome::Added);
        assert_eq!(ladders.certain(), Some(11));
        ladders.apply(&Level {
            action: Level::CLEAR,
            side: Level::ASK,
            ..Level::default()
        });
        assert_eq!(ladders.certain(), None);
    }

    #[test]
    fn extreme_prices_are_prices() {
        let mut ladders = Ladders::default();
        for price in [i64::MIN, i64::MAX, 0] {
            assert_eq!(ladders.apply(&set(Level::ASK, price, 1)), Outcome::Added);
        }
        let asks: Vec<i64> = ladders.best(false).map(|level| level.price).collect();
        assert_eq!(asks, [i64::MIN, 0, i64::MAX]);
    }
}
