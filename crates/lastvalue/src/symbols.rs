//! A map from a symbol's name to its slot.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foldhash::fast::RandomState;

use crate::slot::MarketSlot;
use crate::table::{SlotTable, TableFull};

/// Symbols by name. The table is built with the known symbols and can be extended while others
/// read. A symbol keeps its slot, and no symbol is ever removed.
///
/// A lookup takes no lock. The names are in open-addressing tables, each twice as large as the one
/// before. When one is half full, the next is built, filled, and published to readers as a whole.
pub struct SymbolTable {
    slots: Arc<SlotTable>,
    hasher: RandomState,
    /// Numbers of slots, from 1; 0 for an empty place. Level `n` has `FIRST << n` places.
    levels: [OnceLock<Box<[AtomicU32]>>; LEVELS],
    /// The level that readers use.
    level: AtomicUsize,
    /// Names by the number of the slot.
    names: [OnceLock<Names>; LEVELS],
    growth: Mutex<u32>,
}

/// Names of one level. Each is stored before its number is published.
type Names = Box<[OnceLock<Box<str>>]>;

impl SymbolTable {
    /// Creates a table of these symbols, in this order, over `slots`, which no other table may
    /// extend. The first slots of `slots` are used if it already has some.
    ///
    /// # Errors
    /// There are more names than `slots` can hold.
    pub fn new<'n>(
        slots: Arc<SlotTable>,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, TableFull> {
        let table = Self {
            slots,
            hasher: RandomState::default(),
            levels: [const { OnceLock::new() }; LEVELS],
            level: AtomicUsize::new(0),
            names: [const { OnceLock::new() }; LEVELS],
            growth: Mutex::new(0),
        };
        table.level_of(0);
        for name in names {
            table.define(name)?;
        }
        Ok(table)
    }

    /// Returns the slots.
    pub fn slots(&self) -> &Arc<SlotTable> {
        &self.slots
    }

    /// Returns the number of a symbol's slot.
    #[inline]
    pub fn find(&self, name: &str) -> Option<u32> {
        let places = self.levels[self.level.load(Ordering::Acquire)].get()?;
        self.find_in(places, name).ok()
    }

    /// Returns a symbol's slot.
    #[inline]
    pub fn slot(&self, name: &str) -> Option<&MarketSlot> {
        self.slots.slot(self.find(name)?)
    }

    /// Returns the name of the symbol whose slot has this number.
    pub fn name(&self, number: u32) -> Option<&str> {
        let (level, index) = name_place(number);
        self.names
            .get(level)?
            .get()?
            .get(index)?
            .get()
            .map(|name| &**name)
    }

    /// Returns the number of symbols.
    pub fn len(&self) -> usize {
        *self.lock() as usize
    }

    /// Returns whether there are no symbols.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of a symbol's slot. A new symbol gets the next slot.
    ///
    /// # Errors
    /// The limit of slots is reached.
    pub fn define(&self, name: &str) -> Result<u32, TableFull> {
        if let Some(number) = self.find(name) {
            return Ok(number);
        }
        let mut count = self.lock();
        let mut level = self.level.load(Ordering::Relaxed);
        let mut places = self.level_of(level);
        let mut place = match self.find_in(places, name) {
            Ok(number) => return Ok(number),
            Err(place) => place,
        };
        let number = *count;
        self.slots.extend_to(number as usize + 1)?;
        let (names_level, index) = name_place(number);
        let names = self.names[names_level]
            .get_or_init(|| (0..FIRST << names_level).map(|_| OnceLock::new()).collect());
        let _ = names[index].set(name.into());
        if 2 * (number as usize + 1) > places.len() && level + 1 < LEVELS {
            level += 1;
            places = self.level_of(level);
            for other in 0..number {
                if let Some(Err(free)) = self.name(other).map(|name| self.find_in(places, name)) {
                    places[free].store(other + 1, Ordering::Relaxed);
                }
            }
            place = self.find_in(places, name).err().unwrap_or(place);
        }
        // A thread that sees the number, or the level, also sees the name and the slot.
        places[place].store(number + 1, Ordering::Release);
        self.level.store(level, Ordering::Release);
        *count = number + 1;
        Ok(number)
    }

    /// Returns the symbol's number, or the place where it would be.
    #[inline]
    fn find_in(&self, places: &[AtomicU32], name: &str) -> Result<u32, usize> {
        let mask = places.len() - 1;
        let mut place = self.hasher.hash_one(name) as usize & mask;
        loop {
            let number = places[place].load(Ordering::Acquire);
            if number == 0 {
                return Err(place);
            }
            if self.name(number - 1) == Some(name) {
                return Ok(number - 1);
            }
            place = (place + 1) & mask;
        }
    }

    fn level_of(&self, level: usize) -> &[AtomicU32] {
        self.levels[level].get_or_init(|| {
            (0..(2 * FIRST) << level)
                .map(|_| AtomicU32::new(0))
                .collect()
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, u32> {
        self.growth.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SymbolTable")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Returns where a name is stored: level 0 has the first [`FIRST`] names; level `n` has as many as
/// all levels before it, plus [`FIRST`].
#[inline]
fn name_place(number: u32) -> (usize, usize) {
    let shifted = number as usize + FIRST;
    let level = (shifted / FIRST).ilog2() as usize;
    (level, shifted - (FIRST << level))
}

/// Number of symbols that fit without growing.
const FIRST: usize = 1_024;
/// Enough levels for more symbols than a [`SlotTable`] can have slots.
const LEVELS: usize = 16;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("SYM{number}")).collect()
    }

    #[test]
    fn symbols_keep_their_numbers_while_the_table_grows() {
        let names = names(20_000);
        let slots = Arc::new(SlotTable::new(20_000));
        let (known, later) = names.split_at(500);
        let table = SymbolTable::new(slots, known.iter().map(String::as_str)).unwrap();
        for (number, name) in later.iter().enumerate() {
            assert_eq!(table.find(name), None);
            assert_eq!(table.define(name), Ok(number as u32 + 500));
            assert_eq!(table.define(name), Ok(number as u32 + 500), "again");
        }
        for (number, name) in names.iter().enumerate() {
            assert_eq!(table.find(name), Some(number as u32));
            assert_eq!(table.name(number as u32), Some(name.as_str()));
            assert!(table.slot(name).is_some());
        }
        assert_eq!(
            table.define("more").unwrap_err(),
            TableFull { limit: 20_000 }
        );
        assert_eq!(
            (table.find("more"), table.find(""), table.len()),
            (None, None, 20_000)
        );
        assert_eq!(table.name(20_000), None);
    }

    #[test]
    fn who_looks_up_finds_what_was_there_before_however_it_grows() {
        let names = names(10_000);
        let table = SymbolTable::new(Arc::new(SlotTable::new(10_000)), []).unwrap();
        let defined = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for name in &names {
                    table.define(name).unwrap();
                    defined.fetch_add(1, Ordering::Release);
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while defined.load(Ordering::Acquire) < names.len() {
                        let count = defined.load(Ordering::Acquire);
                        for number in (0..count).step_by(97) {
                            assert_eq!(table.find(&names[number]), Some(number as u32));
                        }
                    }
                });
            }
        });
    }
}
