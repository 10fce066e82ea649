//! The numbers of topics by their names.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use parking_lot::{RwLock, RwLockWriteGuard};

/// The table of names, in parts. A table that grows moves all that it holds, and those who look a
/// name up wait: with a million names for 50 ms. A part moves its own names only.
#[derive(Debug)]
pub(crate) struct Names {
    parts: Box<[Part]>,
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
        let number = (self.hasher.hash_one(name) >> PART_SHIFT) as usize % PARTS;
        &self.parts[number]
    }
}

/// Parts of the table. Each holds 4,000 of a million names, and grows in 0.2 ms.
const PARTS: usize = 256;
/// Bits of a hash that a part's table looks at first: the lowest for the place, the highest seven
/// for a tag.
const PART_SHIFT: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spread_evenly_so_that_no_part_grows_for_long() {
        let names = Names::default();
        for number in 0..100_000 {
            let name = format!("S{number:07}");
            names.writing(&name).insert(name.as_str().into(), number);
        }
        let counts = names.parts.iter().map(|part| part.read().len());
        assert!(counts.max().is_some_and(|most| most < 2 * 100_000 / PARTS));
        assert_eq!(names.number("S0000099"), Some(99));
        assert_eq!(names.number("S0100000"), None);
    }
}
