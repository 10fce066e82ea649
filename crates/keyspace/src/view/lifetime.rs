//! The lifetime of a key: its use, its expiry, and the freeing of its value.

use super::View;
use crate::access::Access;
use crate::entry::Entry;
use crate::fields;
use crate::hash;
use crate::key::Key;
use crate::key::shard_of;
use crate::keyspace::LOADING;
use crate::observer::{Changer, Event};
use crate::reclaim::{Cause, Garbage, PARTS_MIN};
use crate::shard::Dictionary;
use crate::table::Place;
use crate::tracked::CHANGES_TOLD;
use crate::value::Object;
use crate::waiting::Ready;

impl View<'_, '_> {
    /// Returns whether keys are being loaded, so that only propagated commands may write: they are
    /// part of the load.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.notifications.bits() & LOADING != 0 && !self.locked.keeps_due
    }

    /// Records a key's new deadline. On a replica, it is one of its own unless the master
    /// propagated it.
    #[inline]
    pub(super) fn note_deadline(&mut self, key: Key<'_>, deadline_ms: i64) {
        let keyspace = self.keyspace;
        keyspace.note_deadline(shard_of(key.hash), deadline_ms);
        if keyspace.own_deadlines.is_on() && !self.locked.keeps_due {
            let database = self.database;
            keyspace
                .own_deadlines
                .note(database, key.bytes, deadline_ms);
        }
    }

    /// Returns whether a key has expired and is not removed yet.
    pub(crate) fn is_stale(&mut self, key: Key<'_>) -> bool {
        let now_ms = self.now_ms;
        let table = &self.dictionary(key).table;
        let place = table.find(key.hash, key.bytes);
        let deadline_ms = place.and_then(|place| table.entry(place).deadline_ms());
        deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms)
    }

    /// Removes up to `budget` expired keys of this database from a shard. Returns how many.
    pub(crate) fn expire_keys(&mut self, shard: usize, budget: usize) -> usize {
        let (database, now_ms) = (self.database, self.now_ms);
        if self.keyspace.is_expiry_paused(now_ms) {
            return 0;
        }
        let notified = self.notifications.intersects(Event::Expired.class());
        let propagates = self.keyspace.propagation().is_wanted();
        let (mut ready, mut gone) = (Vec::new(), Vec::<Box<[u8]>>::new());
        let totals = &self.keyspace.tracking_totals;
        let tracks_changes = self.tracking & CHANGES_TOLD != 0;
        let mut large = Vec::new();
        let count = self.visit_shard(shard, |shard, observer| {
            let mut count = 0;
            while count < budget
                && let Some((hash, entry)) = shard.databases[database].pop_due(now_ms)
            {
                count += 1;
                shard.changes += 1;
                shard.expired_keys += 1;
                if entry.is_live() {
                    shard.live.remove(entry.key());
                    observer.changed(database, entry.key(), Event::Expired, None);
                }
                if notified {
                    observer.notified(database, entry.key(), Event::Expired);
                }
                if propagates {
                    gone.push(Box::from(entry.key()));
                }
                if let Some(trackers) = shard.take_trackers(entry.key(), totals) {
                    observer.invalidated(entry.key(), &trackers, Changer::Server);
                }
                if tracks_changes {
                    observer.modified(entry.key(), Changer::Server);
                }
                if let Some(interests) = &mut shard.interests[database]
                    && interests.touch(entry.key())
                {
                    ready.push(Ready::new(database, hash, entry.key()));
                }
                if entry.object().is_some() {
                    large.push(entry);
                }
            }
            count
        });
        ready
            .into_iter()
            .for_each(|ready| self.locked.add_ready(ready));
        gone.iter().for_each(|key| self.propagate_expired(key));
        large
            .into_iter()
            .for_each(|entry| self.dispose(entry, Cause::Expiry));
        count
    }

    /// Removes an expired field, and the hash if it was the last one. Does nothing while expiry is
    /// not allowed.
    pub(crate) fn expire_field(&mut self, key: Key<'_>, field: &[u8]) {
        if self.keyspace.is_expiry_paused(self.now_ms) {
            return;
        }
        let Some(place) = self.find(key) else {
            return;
        };
        fields::remove(self.entry_mut(key, place), field);
        self.propagate_field_gone(key, field);
        self.keyspace.note_expired_fields(1);
        self.changed(key, place, Event::HashExpired);
        if fields::len(self.entry(key, place)) == 0 {
            self.remove(key, place, Event::Delete);
        } else {
            self.settle_fields(key, place);
        }
    }

    /// Removes up to `budget` expired fields in a locked shard. Returns how many.
    pub(crate) fn expire_fields(&mut self, shard: usize, budget: usize) -> usize {
        let mut count = 0;
        let propagates = self.keyspace.propagation().is_wanted();
        while count < budget {
            let (database, now_ms) = (self.database, self.now_ms);
            let dictionary = &mut self.locked.shard(shard).databases[database];
            let mut gone = Vec::<Box<[u8]>>::new();
            let mut note = |field: &[u8]| {
                if propagates {
                    gone.push(Box::from(field));
                }
            };
            let due = dictionary.pop_due_fields(now_ms, budget - count, &mut note);
            let Some(due) = due else {
                break;
            };
            count += due.count;
            let name = dictionary.table.entry(due.place).key().to_vec();
            let key = self.key(&name);
            gone.iter()
                .for_each(|field| self.propagate_field_gone(key, field));
            self.changed(key, due.place, Event::HashExpired);
            if fields::len(self.entry(key, due.place)) == 0 {
                self.remove(key, due.place, Event::Delete);
            } else {
                self.settle_fields(key, due.place);
            }
        }
        self.keyspace.note_expired_fields(count);
        count
    }

    /// Frees a shard's part of a database, in the background or once the locks are released.
    pub(crate) fn dispose_dictionary(&mut self, dictionary: Dictionary, is_lazy: bool) {
        let garbage = Garbage::Dictionary(dictionary);
        if is_lazy || self.locked.frees_behind {
            self.keyspace.reclaimer.free(garbage);
        } else {
            self.locked.drop_later(garbage);
        }
    }

    /// Frees the replaced value of a key.
    #[cold]
    pub(super) fn dispose_object(&mut self, object: Box<Object>) {
        if object.parts() > PARTS_MIN {
            let garbage = Garbage::Object(object);
            match self.keyspace.reclaimer.is_lazy(Cause::Replacement) {
                true => self.keyspace.reclaimer.free(garbage),
                false => self.locked.drop_later(garbage),
            }
        }
    }

    /// Frees a removed entry: a large one in the background, if the settings say so for this cause,
    /// or else once the locks are released.
    pub(crate) fn dispose(&mut self, entry: Entry, cause: Cause) {
        if entry
            .object()
            .is_some_and(|object| object.parts() > PARTS_MIN)
        {
            let garbage = Garbage::Entry(entry);
            match self.keyspace.reclaimer.is_lazy(cause) {
                true => self.keyspace.reclaimer.free(garbage),
                false => self.locked.drop_later(garbage),
            }
        }
    }

    /// Records a use of the key in its entry. The header is in the cache: it was just compared.
    #[inline]
    pub(super) fn note_use(&mut self, key: Key<'_>, place: Place, before: u32) {
        if self.access.is_special() {
            return self.count_use(key, place);
        }
        let used = self.access.initial(self.clock_ms);
        if before != used {
            // The value does not change, so a running snapshot does not need it first.
            self.dictionary(key).table.entry_mut(place).set_access(used);
        }
    }

    /// Counts a use of the key. A command counts once, however often it accesses the key.
    #[cold]
    fn count_use(&mut self, key: Key<'_>, place: Place) {
        if !self.access.counts() {
            // Only changes count, in `note_change_time`.
            return;
        }
        if self.counted.replace(key.hash) == Some(key.hash) {
            return;
        }
        let (access, now_ms, database) = (self.access, self.clock_ms, self.database);
        let shard = self.locked.shard(shard_of(key.hash));
        shard.uses = shard.uses.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let random = hash::mixed(key.hash ^ shard.uses);
        let entry = shard.databases[database].table.entry_mut(place);
        entry.set_access(access.counted(entry.access(), now_ms, random));
    }

    /// Records the time of a change in the key's entry, if it is there.
    pub(super) fn note_change_time(&mut self, key: Key<'_>) {
        let changed = self.access.initial(self.clock_ms);
        let table = &mut self.dictionary(key).table;
        if let Some(place) = table.find(key.hash, key.bytes) {
            table.entry_mut(place).set_access(changed);
        }
    }

    /// Returns the access bits of a key.
    pub(crate) fn access_of(&mut self, key: Key<'_>) -> Option<u32> {
        let place = self.find(key)?;
        Some(self.entry(key, place).access())
    }

    /// Returns the settings of the access bits.
    pub(crate) fn access(&self) -> Access {
        self.access
    }
}
