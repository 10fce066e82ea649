//! The numbers of topics by their names.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use parking_lot::{RwLock, RwLockWriteGuard};

/// The table of names, in parts. A table that grows moves all that it holds, and those who look a
/// name up wait: with a million names for 50 ms. A part moves its own names only. The parts are of
/// different sizes, the largest twice as large as the smallest, so that they grow one after the
/// other: with equal ones, a source that defines many symbols had all of them grow within 60,000
/// names, and the turns of its lane took twice as long.
#[derive(Debug)]
pub(crate) struct Names {
    parts: Box<[Part]>,
    /// The part of each value of the bits of a hash that say it.
    places: Box<[u8; PLACES]>,
    hasher: RandomState,
}

/// A part of the table.
pub(crate) type Numbers = HashMap<Box<str>, u32, RandomState>;

type Part = RwLock<Numbers>;

impl Default for Names {
    fn default() -> Self {
        let hasher = RandomState::default();
        let part = || RwLock::new(HashMap::with_hasher(hasher.clone()));
        Self {
            parts: std::iter::repeat_with(part).take(PARTS).collect(),
            places: Box::new(std::array::from_fn(part_of_place)),
            hasher,
        }
    }
}

impl Names {
    /// Returns the number of the topic with exactly this name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.part(name).read().get(name).copied()
    }

    /// Returns the part with this name, so that the name is added once.
    pub(crate) fn writing(&self, name: &str) -> RwLockWriteGuard<'_, Numbers> {
        self.part(name).write()
    }

    fn part(&self, name: &str) -> &Part {
        // A part's own table takes its place from the other bits.
        let place = (self.hasher.hash_one(name) >> PART_SHIFT) as usize % PLACES;
        &self.parts[usize::from(self.places[place])]
    }
}

/// Returns the part of a place: each part has a little more places than the one before.
fn part_of_place(place: usize) -> u8 {
    let fraction = place as f64 / PLACES as f64;
    let part = (1.0 + fraction).log2() * PARTS as f64;
    debug_assert!(part < PARTS as f64, "a place is in a part");
    part as u8
}

/// Parts of the table. Each holds 2,700 to 5,500 of a million names, and grows in 0.2 ms.
const PARTS: usize = 256;
/// Values of the bits of a hash that say the part: 11 to 23 of them are of one part.
const PLACES: usize = 4_096;
/// Bits of a hash that a part's table looks at first: the lowest for the place, the highest seven
/// for a tag.
const PART_SHIFT: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spread_so_that_no_part_grows_for_long() {
        let names = Names::default();
        for number in 0..100_000 {
            let name = format!("S{number:07}");
            names.writing(&name).insert(name.as_str().into(), number);
        }
        let counts = names.parts.iter().map(|part| part.read().len());
        assert!(counts.max().is_some_and(|most| most < 2 * 100_000 / PARTS));
        let counts = names.parts.iter().map(|part| part.read().len());
        assert!(
            counts
                .min()
                .is_some_and(|least| least > 100_000 / PARTS / 2)
        );
        assert_eq!(names.number("S0000099"), Some(99));
        assert_eq!(names.number("S0100000"), None);
    }

    /// All parts grew with the same thousands of names.
    #[test]
    fn parts_grow_one_after_the_other() {
        let names = Names::default();
        let capacities = || names.parts.iter().map(|part| part.read().capacity());
        let (mut before, mut grown) = (0, Vec::new());
        for number in 0..200_000 {
            let name = format!("S{number:07}");
            names.writing(&name).insert(name.as_str().into(), number);
            if number % 4_000 == 3_999 {
                let now = capacities().sum::<usize>();
                if number >= 100_000 {
                    grown.push(now - before);
                }
                before = now;
            }
        }
        // One doubling, in 25 steps of 4,000 names: equal parts have half of it in one of them.
        let (most, all) = (grown.iter().max(), grown.iter().sum::<usize>());
        assert!(most.is_some_and(|most| most * 6 < all), "{grown:?}");
    }
}
