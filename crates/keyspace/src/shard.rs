//! One shard: a part of the keys of each database, its timers and its live names.

use std::collections::HashSet;

use foldhash::quality::RandomState;

use crate::entry::{Entry, NewValue};
use crate::interest::Interests;
use crate::table::{Place, Table};
use crate::wheel::Wheel;

/// Number of databases, as SELECT counts them.
pub const DATABASES: usize = 16;

/// What one lock guards.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) databases: [Dictionary; DATABASES],
    /// Names of live topics in database 0, so that snapshots need not walk all keys.
    pub(crate) live: HashSet<Box<[u8]>, RandomState>,
    /// Whether any of `interests` is there.
    pub(crate) is_observed: bool,
    /// Keys of each database that somebody waits for or watches.
    pub(crate) interests: [Option<Box<Interests>>; DATABASES],
    /// Changes since the start.
    pub(crate) changes: u64,
    /// Reads of keys that were there, and of keys that were not.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl Shard {
    pub(crate) fn new() -> Self {
        Shard {
            databases: [const { Dictionary::new() }; DATABASES],
            live: HashSet::default(),
            is_observed: false,
            interests: [const { None }; DATABASES],
            changes: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// The keys of a database that somebody looks at, to add one.
    pub(crate) fn interests(&mut self, database: usize) -> &mut Interests {
        self.is_observed = true;
        self.interests[database].get_or_insert_default()
    }

    /// Drops what nobody is interested in any more.
    pub(crate) fn tidy_interests(&mut self, database: usize) {
        if self.interests[database]
            .as_ref()
            .is_some_and(|interests| interests.is_empty())
        {
            self.interests[database] = None;
            self.is_observed = self.interests.iter().any(Option::is_some);
        }
    }

    /// When the earliest timer of any database wants attention, `i64::MAX` if there is none.
    pub(crate) fn next_ms(&self) -> i64 {
        let next = |dictionary: &Dictionary| dictionary.wheel.as_ref().and_then(|w| w.next_ms());
        self.databases
            .iter()
            .filter_map(next)
            .min()
            .unwrap_or(i64::MAX)
    }
}

/// The shard's part of one database.
#[derive(Debug)]
pub(crate) struct Dictionary {
    pub(crate) table: Table,
    wheel: Option<Box<Wheel>>,
}

impl Dictionary {
    pub(crate) const fn new() -> Self {
        Dictionary {
            table: Table::new(),
            wheel: None,
        }
    }

    /// Keys with a deadline.
    pub(crate) fn expiring(&self) -> usize {
        self.wheel.as_ref().map_or(0, |wheel| wheel.len())
    }

    pub(crate) fn insert(
        &mut self,
        hash: u64,
        key: &[u8],
        value: NewValue<'_>,
        expires: bool,
    ) -> Place {
        self.table
            .insert(hash, Entry::new(hash, key, value, expires))
    }

    /// Takes an entry out, and its timer with it.
    pub(crate) fn remove(&mut self, place: Place) -> Entry {
        let entry = self.table.remove(place);
        self.cancel(entry.timer());
        entry
    }

    /// Sets or clears a deadline.
    pub(crate) fn set_deadline(
        &mut self,
        place: Place,
        hash: u64,
        deadline_ms: Option<i64>,
        now_ms: i64,
    ) {
        let timer = self.table.entry(place).timer();
        let deadline = deadline_ms.map(|deadline_ms| {
            let wheel = self
                .wheel
                .get_or_insert_with(|| Box::new(Wheel::new(now_ms.max(0))));
            (deadline_ms, wheel.insert(hash, deadline_ms))
        });
        // The old timer goes last, so that moving the only one does not drop the wheel.
        self.cancel(timer);
        if deadline.is_some() || timer.is_some() {
            self.table.entry_mut(place).set_deadline(deadline);
        }
    }

    /// Takes out one entry whose time has come.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<(u64, Entry)> {
        let wheel = self.wheel.as_mut()?;
        let Some((hash, timer)) = wheel.pop_due(now_ms) else {
            if wheel.len() == 0 {
                self.wheel = None;
            }
            return None;
        };
        let place = self
            .table
            .find_by(hash, |entry| entry.timer() == Some(timer))
            .expect("a timer's entry is in the table");
        Some((hash, self.table.remove(place)))
    }

    fn cancel(&mut self, timer: Option<u32>) {
        if let Some(timer) = timer
            && let Some(wheel) = &mut self.wheel
        {
            wheel.cancel(timer);
            if wheel.len() == 0 {
                self.wheel = None;
            }
        }
    }
}
