//! Notifications of changes: to live topics, keyspace events, waiting and watching clients, and
//! logs.

use super::{View, touched};
use crate::hash;
use crate::key::Key;
use crate::key::shard_of;
use crate::keyspace::LIVE_CHANNEL;
use crate::observer::{Changer, Event};
use crate::shard::Shard;
use crate::table::Place;
use crate::tracked::{CHANGES_TIMED, CHANGES_TOLD};
use crate::value::ValueRef;
use crate::waiting::Ready;

impl View<'_, '_> {
    /// Notifies of a change. Must be called after every change to an entry's value or TTL. For an
    /// ordinary key, it only checks a flag.
    #[inline]
    pub(crate) fn changed(&mut self, key: Key<'_>, place: Place, event: Event) {
        self.changed_by(key, place, event, true);
    }

    /// Notifies once of several events of one command, in place of several
    /// [`changed`](Self::changed): a live topic has one new value, which is published once.
    pub(crate) fn changed_at_once(
        &mut self,
        key: Key<'_>,
        place: Place,
        events: impl IntoIterator<Item = Event>,
    ) {
        let mut is_published = false;
        for event in events {
            let publishes = !is_published && !event.keeps_value();
            is_published |= publishes;
            self.changed_by(key, place, event, publishes);
        }
    }

    /// Notifies like [`changed`](Self::changed), if the key is removed next although its value
    /// still has elements.
    pub(crate) fn about_to_go(&mut self, key: Key<'_>, place: Place, event: Event) {
        self.changed_by(key, place, event, false);
    }

    #[inline]
    fn changed_by(&mut self, key: Key<'_>, place: Place, event: Event, publishes: bool) {
        touched::note(key, event != Event::HashExpired);
        let database = self.database;
        let shard = self.locked.shard(shard_of(key.hash));
        shard.changes += u64::from(!std::mem::replace(&mut self.is_counted, true));
        self.is_dirty |= event != Event::HashExpired;
        let observed = shard.is_observed || self.tracking & (CHANGES_TOLD | CHANGES_TIMED) != 0;
        let entry = shard.databases[database].table.entry(place);
        if entry.is_live() && publishes && !event.keeps_value() {
            let value = ValueRef::at(entry, self.now_ms);
            // A collection without elements is removed next, and its removal is reported then. A
            // stream shows its newest entry, which is trimmed last.
            let is_same = event == Event::StreamTrim && value.has_newest_entry();
            if !value.is_emptied() && !is_same {
                self.observer
                    .changed(database, key.bytes, event, Some(value));
            }
        }
        self.notify(key, event);
        if observed {
            self.touch(key, event.changer());
        }
    }

    /// Notifies the observer of the value of a key that has become a live topic.
    pub(crate) fn notify_live(&mut self, key: Key<'_>, place: Place) {
        let (database, now_ms) = (self.database, self.now_ms);
        let shard = self.locked.shard(shard_of(key.hash));
        let entry = shard.databases[database].table.entry(place);
        let value = Some(ValueRef::at(entry, now_ms));
        self.observer
            .changed(database, key.bytes, Event::Set, value);
    }

    /// Propagates that a key is a live topic regardless of its name. Not between MULTI and EXEC: a
    /// replica marks the key when its shard is free.
    pub(crate) fn propagate_live(&mut self, key: &[u8]) {
        if self.propagates {
            let unit = self.locked.pending.unit();
            unit.push(self.database, [&b"PUBLISH"[..], LIVE_CHANNEL, key]);
            unit.loosen();
        }
    }

    /// Notifies observers of an event of an ordinary key, if its class is enabled.
    #[inline]
    pub(crate) fn notify(&mut self, key: Key<'_>, event: Event) {
        if self.notifications.intersects(event.class()) {
            self.observer.notified(self.database, key.bytes, event);
        }
    }

    /// Notifies instead of [`changed`](Self::changed) if clients that watch the key or wait for it
    /// see no difference: a group of a stream has read on.
    pub(crate) fn changed_aside(&mut self, key: Key<'_>, event: Option<Event>) {
        let is_new = !std::mem::replace(&mut self.is_counted, true);
        self.is_dirty = true;
        if self.tracking & CHANGES_TIMED != 0 {
            self.note_change_time(key);
        }
        self.locked.shard(shard_of(key.hash)).changes += u64::from(is_new);
        if let Some(event) = event {
            self.notify(key, event);
        }
    }

    /// Propagates that a field of a hash has expired.
    pub(crate) fn propagate_field_gone(&mut self, key: Key<'_>, field: &[u8]) {
        if self.keyspace.propagation().is_wanted() {
            let unit = self.locked.pending.unit();
            unit.push_expiry(self.database, [&b"HDEL"[..], key.bytes, field]);
        }
    }

    /// Propagates that a key has expired.
    pub(super) fn propagate_expired(&mut self, key: &[u8]) {
        // Not the flag of this view: a walk may have begun before a log was opened.
        let propagation = self.keyspace.propagation();
        if propagation.is_wanted() {
            let unit = self.locked.pending.unit();
            unit.push_expiry(self.database, [propagation.expiry_command(), key]);
        }
    }

    /// Propagates the removal of a key, with a command of this name.
    pub(super) fn propagate_gone(&mut self, key: &[u8], name: &'static [u8]) {
        // Not the flag of this view: a walk may have begun before a log was opened.
        if self.keyspace.propagation().is_wanted() {
            let unit = self.locked.pending.unit();
            unit.push(self.database, [name, key]);
        }
    }

    /// Notifies clients that watch the key, wait for it, or have it cached.
    #[cold]
    pub(super) fn touch(&mut self, key: Key<'_>, by: Changer) {
        if self.tracking & CHANGES_TIMED != 0 {
            self.note_change_time(key);
        }
        let database = self.database;
        let shard = self.locked.shard(shard_of(key.hash));
        let totals = &self.keyspace.tracking_totals;
        if let Some(trackers) = shard.take_trackers(key.bytes, totals) {
            self.observer.invalidated(key.bytes, &trackers, by);
        }
        if self.tracking & CHANGES_TOLD != 0 {
            self.observer.modified(key.bytes, by);
        }
        let interests = shard.interests[database].as_mut();
        if interests.is_some_and(|interests| interests.touch(key.bytes)) {
            self.locked
                .add_ready(Ready::new(database, key.hash, key.bytes));
        }
    }

    /// Notifies clients about keys of this database in a shard whose keys change all at once, for
    /// those keys that `there` accepts.
    pub(crate) fn touch_all(&mut self, shard: usize, there: impl Fn(&Shard, Key<'_>) -> bool) {
        let database = self.database;
        let names = self.locked.visit(shard, |shard| {
            let interests = shard.interests[database].as_ref();
            let names = interests.map_or(Vec::new(), |interests| interests.names());
            let key = |name: &[u8]| hash::of(name);
            let mut touched = Vec::new();
            for name in names {
                let hash = key(&name);
                if there(shard, Key { bytes: &name, hash })
                    && let Some(interests) = &mut shard.interests[database]
                    && interests.touch(&name)
                {
                    touched.push((hash, name));
                }
            }
            touched
        });
        for (hash, name) in names {
            self.locked.add_ready(Ready::new(database, hash, &name));
        }
    }
}
