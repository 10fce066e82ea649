//! One shard: part of the keys of each database, with their timers and live names.

use crate::entry::{Entry, NewValue};
use crate::fields;
use crate::interest::Interests;
use crate::key::DATABASES;
use crate::observer::LiveNames;
use crate::snapshot::Mark;
use crate::table::{Place, Table};
use crate::tracked::{TrackedKeys, Trackers, TrackingTotals};
use crate::wheel::Wheel;

/// The data under one lock. The order matters: the fields that every command reads and writes share
/// the two cache lines of the lock.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard {
    /// Whether any of `interests` or `tracked` is present.
    pub(crate) is_observed: bool,
    /// The progress of a running snapshot in this shard.
    pub(crate) mark: Option<Box<Mark>>,
    /// Number of commands that changed something, plus removed expired keys.
    pub(crate) changes: u64,
    /// Number of reads of existing keys; below, of missing keys.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) databases: [Dictionary; DATABASES],
    /// Names of live topics in database 0, so that listing them does not visit all keys.
    pub(crate) live: LiveNames,
    /// Keys that clients wait for or watch, by database.
    pub(crate) interests: [Option<Box<Interests>>; DATABASES],
    /// Keys of any database that clients have cached.
    pub(crate) tracked: Option<Box<TrackedKeys>>,
    /// Number of expired keys.
    pub(crate) expired_keys: u64,
    /// State of a random generator, so that counting uses shares nothing between shards.
    pub(crate) uses: u64,
}

impl Shard {
    pub(crate) fn new() -> Self {
        Shard {
            databases: [const { Dictionary::new() }; DATABASES],
            live: LiveNames::default(),
            is_observed: false,
            interests: [const { None }; DATABASES],
            mark: None,
            tracked: None,
            changes: 0,
            hits: 0,
            misses: 0,
            expired_keys: 0,
            uses: 0,
        }
    }

    /// Returns the keys of a database that clients wait for or watch, for adding one.
    pub(crate) fn interests(&mut self, database: usize) -> &mut Interests {
        self.is_observed = true;
        self.interests[database].get_or_insert_default()
    }

    /// Drops keys that no client waits for or watches any more.
    pub(crate) fn tidy_interests(&mut self, database: usize) {
        if self.interests[database]
            .as_ref()
            .is_some_and(|interests| interests.is_empty())
        {
            self.interests[database] = None;
            self.settle_observed();
        }
    }

    /// Updates whether any client waits for or watches a key.
    pub(crate) fn settle_observed(&mut self) {
        let interests = self.interests.iter().any(Option::is_some);
        self.is_observed = interests || self.tracked.is_some();
    }

    /// Returns when the earliest timer of any database needs attention; `i64::MAX` if there is
    /// none.
    pub(crate) fn next_ms(&self) -> i64 {
        self.databases
            .iter()
            .flat_map(|dictionary| [&dictionary.wheel, &dictionary.field_wheel])
            .filter_map(|wheel| wheel.as_ref()?.next_ms())
            .min()
            .unwrap_or(i64::MAX)
    }
}

/// The shard's part of one database.
#[derive(Debug)]
pub(crate) struct Dictionary {
    pub(crate) table: Table,
    wheel: Option<Box<Wheel>>,
    /// One timer per hash with TTLs of fields, for the earliest deadline of its fields.
    field_wheel: Option<Box<Wheel>>,
}

impl Dictionary {
    pub(crate) const fn new() -> Self {
        Dictionary {
            table: Table::new(),
            wheel: None,
            field_wheel: None,
        }
    }

    /// Returns the timers of keys with a TTL.
    pub(crate) fn wheel(&self) -> Option<&Wheel> {
        self.wheel.as_deref()
    }

    /// Returns the number of keys with a TTL.
    pub(crate) fn expiring(&self) -> usize {
        self.wheel.as_ref().map_or(0, |wheel| wheel.len())
    }

    /// Returns whether any key or field has a TTL.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.wheel.is_some() || self.field_wheel.is_some()
    }

    /// Returns the number of hashes with TTLs of fields.
    pub(crate) fn timed_hashes(&self) -> usize {
        self.field_wheel.as_ref().map_or(0, |wheel| wheel.len())
    }

    pub(crate) fn insert(
        &mut self,
        hash: u64,
        key: &[u8],
        value: NewValue<'_>,
        expires: bool,
        access: u32,
    ) -> Place {
        let mut entry = Entry::new(hash, key, value, expires);
        entry.set_access(access);
        self.table.insert(hash, entry)
    }

    /// Removes an entry and its timers, and returns it.
    pub(crate) fn remove(&mut self, place: Place) -> Entry {
        let entry = self.table.remove(place);
        cancel(&mut self.wheel, entry.timer());
        cancel(&mut self.field_wheel, fields::timer(&entry));
        debug_assert!(self.expiring() <= self.table.len());
        debug_assert!(self.timed_hashes() <= self.table.len());
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
        // The old timer is removed last, so that moving the only timer does not free the wheel.
        cancel(&mut self.wheel, timer);
        if deadline.is_some() || timer.is_some() {
            self.table.entry_mut(place).set_deadline(deadline);
        }
        debug_assert_eq!(
            self.table.entry(place).timer().is_some(),
            deadline_ms.is_some(),
            "a key with a TTL has a timer"
        );
    }

    /// Removes and returns one expired entry.
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
        let entry = self.table.remove(place);
        cancel(&mut self.field_wheel, fields::timer(&entry));
        debug_assert!(
            entry
                .deadline_ms()
                .is_some_and(|deadline| deadline <= now_ms),
            "the wheel returns only due timers"
        );
        Some((hash, entry))
    }

    /// Updates the timer of a hash after its fields or their deadlines changed. Returns the
    /// earliest deadline.
    pub(crate) fn settle_fields(&mut self, place: Place, hash: u64, now_ms: i64) -> Option<i64> {
        let entry = self.table.entry(place);
        let (timer, earliest_ms) = (fields::timer(entry), fields::earliest_ms(entry));
        let set_ms = timer
            .zip(self.field_wheel.as_ref())
            .map(|(timer, wheel)| wheel.deadline_ms(timer));
        if set_ms == earliest_ms {
            return earliest_ms;
        }
        let new = earliest_ms.map(|deadline_ms| {
            self.field_wheel
                .get_or_insert_with(|| Box::new(Wheel::new(now_ms.max(0))))
                .insert(hash, deadline_ms)
        });
        cancel(&mut self.field_wheel, timer);
        debug_assert!(self.timed_hashes() <= self.table.len());
        fields::set_timer(self.table.entry_mut(place), new);
        earliest_ms
    }

    /// Cancels the timer of a hash before its value is replaced.
    pub(crate) fn forget_fields(&mut self, place: Place) {
        let entry = self.table.entry_mut(place);
        if let Some(timer) = fields::timer(entry) {
            fields::set_timer(entry, None);
            cancel(&mut self.field_wheel, Some(timer));
        }
    }

    /// Removes up to `count_max` expired fields of one hash. The caller receives its place, and
    /// must remove the hash if it is empty, or update its timer.
    pub(crate) fn pop_due_fields(
        &mut self,
        now_ms: i64,
        count_max: usize,
        gone: &mut dyn FnMut(&[u8]),
    ) -> Option<DueFields> {
        let wheel = self.field_wheel.as_mut()?;
        let Some((hash, timer)) = wheel.pop_due(now_ms) else {
            if wheel.len() == 0 {
                self.field_wheel = None;
            }
            return None;
        };
        let place = self
            .table
            .find_by(hash, |entry| fields::timer(entry) == Some(timer))
            .expect("a timer's hash is in the table");
        let entry = self.table.entry_mut(place);
        fields::set_timer(entry, None);
        let count = fields::remove_due(entry, now_ms, count_max, gone);
        debug_assert!(count <= count_max);
        Some(DueFields { place, count })
    }
}

/// A hash from which [`Dictionary::pop_due_fields`] removed fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueFields {
    pub(crate) place: Place,
    pub(crate) count: usize,
}

fn cancel(wheel: &mut Option<Box<Wheel>>, timer: Option<u32>) {
    debug_assert!(wheel.is_some() || timer.is_none(), "a timer is in a wheel");
    if let Some(timer) = timer
        && let Some(present) = wheel
    {
        present.cancel(timer);
        if present.len() == 0 {
            *wheel = None;
        }
    }
}
impl Shard {
    /// Returns the tracked keys, for adding one.
    pub(crate) fn tracked(&mut self) -> &mut TrackedKeys {
        self.is_observed = true;
        self.tracked.get_or_insert_default()
    }

    /// Removes and returns the trackers of a changed key.
    pub(crate) fn take_trackers(
        &mut self,
        key: &[u8],
        totals: &TrackingTotals,
    ) -> Option<Trackers> {
        let trackers = self.tracked.as_mut()?.take(key, totals);
        self.tidy_tracked();
        trackers
    }

    /// Drops the table of tracked keys if it is empty.
    pub(crate) fn tidy_tracked(&mut self) {
        if self
            .tracked
            .as_ref()
            .is_some_and(|tracked| tracked.is_empty())
        {
            self.tracked = None;
            self.settle_observed();
        }
    }
}
