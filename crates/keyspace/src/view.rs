//! The handlers' view of the keyspace: one database at one time, on locked shards.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::access::Access;
use crate::entry::{Entry, NewValue};
use crate::error::{CommandError, Result};
use crate::fields::{self, Fields};
use crate::hash;
use crate::key::{Key, shard_of};
use crate::keyspace::Keyspace;
use crate::list::List;
use crate::locks::{Locked, ShardSet};
use crate::mount::Mount;
use crate::observer::{Event, EventClasses, Observer};
use crate::reclaim::Cause;
use crate::set::Members;
use crate::shard::{Dictionary, Shard};
use crate::sorted_set::Scored;
use crate::stream::{ProducerLimits, Stream};
use crate::table::Place;
use crate::text::Text;
use crate::tracked::CHANGES_TOLD;
use crate::value::ValueRef;
use crate::watch::Version;

mod lifetime;
mod notify;
mod topics;
pub(crate) mod touched;
mod tracking;

/// What a SET does to the TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Clear,
    Keep,
    /// Sets a deadline, ms since the UNIX epoch.
    At(i64),
}

/// One database at one time. Every lookup, read or write goes through here: this is where TTLs are
/// honoured, mounts are read, and observers are notified.
pub(crate) struct View<'c, 'k> {
    pub(crate) keyspace: &'c Keyspace,
    pub(crate) locked: &'c mut Locked<'k>,
    /// The current database. Handlers of two databases (COPY, MOVE) switch it temporarily.
    pub(crate) database: usize,
    /// Deadlines up to this time have expired: the current time, or 0 if nothing may expire.
    pub(crate) now_ms: i64,
    /// The current time, ms since the UNIX epoch.
    pub(crate) clock_ms: i64,
    pub(crate) observer: &'c mut dyn Observer,
    /// Classes of events that observers receive for ordinary keys.
    notifications: EventClasses,
    /// Which observers need reads or changes by key name.
    pub(crate) tracking: u32,
    /// Whether the command was already counted as a change.
    is_counted: bool,
    /// Whether something has changed that must be propagated. Expired keys are propagated
    /// separately.
    pub(crate) is_dirty: bool,
    /// Whether changes are propagated.
    pub(crate) propagates: bool,
    /// Whether reads are counted as hits and misses. On for commands that only read; some writing
    /// commands turn it on for what they read first, as in Redis.
    pub(crate) counts_reads: bool,
    /// Whether a read of a missing key is an event (`keymiss`).
    pub(crate) notifies_missing: bool,
    /// Whether the command only reads: while writes are paused, it removes no expired keys.
    pub(crate) only_reads: bool,
    /// Whether finding a key counts as a use.
    pub(crate) touches: bool,
    access: Access,
    /// The hash of the key whose use was counted last.
    counted: Option<u64>,
    /// The mounted topic that was read last.
    topic: Option<Entry>,
    scratch: Vec<u8>,
}

impl<'c, 'k> View<'c, 'k> {
    #[inline]
    pub(crate) fn new(
        keyspace: &'c Keyspace,
        locked: &'c mut Locked<'k>,
        database: usize,
        now_ms: i64,
        observer: &'c mut dyn Observer,
    ) -> Self {
        let touches = locked.touches;
        let clock_ms = now_ms;
        let now_ms = if locked.keeps_due { 0 } else { now_ms };
        View {
            keyspace,
            locked,
            database,
            now_ms,
            clock_ms,
            observer,
            notifications: keyspace.notifications_and_loading(),
            tracking: keyspace.tracking.load(Ordering::Relaxed),
            is_counted: false,
            is_dirty: false,
            propagates: keyspace.propagation().is_wanted(),
            counts_reads: false,
            notifies_missing: true,
            only_reads: false,
            touches,
            access: keyspace.access(),
            counted: None,
            topic: None,
            scratch: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key {
            bytes,
            hash: hash::of(bytes),
        }
    }

    /// Returns a value for reading; a mounted topic reads like a hash.
    #[inline]
    pub(crate) fn read(&mut self, key: Key<'_>) -> Option<ValueRef<'_>> {
        if self.keyspace.mount_of(self.database, key.bytes).is_some() {
            return self.read_topic(key.bytes);
        }
        self.read_own(key)
    }

    /// Returns the value of a key that belongs to no mount.
    #[inline]
    fn read_own(&mut self, key: Key<'_>) -> Option<ValueRef<'_>> {
        let place = self.find(key);
        if place.is_none() && self.counts_reads {
            self.count_read(key, false);
        }
        let (place, database, now_ms) = (place?, self.database, self.now_ms);
        let shard = self.locked.shard(shard_of(key.hash));
        shard.hits += u64::from(self.counts_reads);
        let entry = shard.databases[database].table.entry(place);
        Some(ValueRef::at(entry, now_ms))
    }

    /// Counts a lookup that Redis counts as a read, and notifies of a missing key.
    #[inline]
    pub(crate) fn count_read(&mut self, key: Key<'_>, hit: bool) {
        let shard = self.locked.shard(shard_of(key.hash));
        shard.hits += u64::from(hit);
        shard.misses += u64::from(!hit);
        if !hit && self.notifies_missing {
            self.notify(key, Event::Miss);
        }
    }

    /// Returns the value of a stored key; `None` for a mounted topic.
    #[inline]
    pub(crate) fn read_stored(&mut self, key: Key<'_>) -> Option<ValueRef<'_>> {
        match self.keyspace.mount_of(self.database, key.bytes) {
            None => self.read_own(key),
            Some(_) => None,
        }
    }

    /// Returns the value of a string; an error for another type.
    #[inline]
    pub(crate) fn read_text(&mut self, key: Key<'_>) -> Result<Option<Text<'_>>> {
        if self.keyspace.mount_of(self.database, key.bytes).is_some() {
            return self.read_topic_text(key);
        }
        of_type(self.read_own(key), ValueRef::text)
    }

    /// Returns the fields of a hash; an error for another type.
    pub(crate) fn read_fields(&mut self, key: Key<'_>) -> Result<Option<Fields<'_>>> {
        of_type(self.read(key), ValueRef::fields)
    }

    /// Returns the members of a set; an error for another type.
    pub(crate) fn read_members(&mut self, key: Key<'_>) -> Result<Option<Members<'_>>> {
        of_type(self.read(key), ValueRef::members)
    }

    /// Returns the elements of a list; an error for another type.
    pub(crate) fn read_list(&mut self, key: Key<'_>) -> Result<Option<List<'_>>> {
        of_type(self.read(key), ValueRef::list)
    }

    /// Returns a value that can be borrowed beside those of other keys: it removes no expired key.
    pub(crate) fn value(&self, key: Key<'_>) -> Option<ValueRef<'_>> {
        touched::note(key, false);
        let table = &self.locked.shard_ref(shard_of(key.hash)).databases[self.database].table;
        let entry = table.entry(table.find(key.hash, key.bytes)?);
        let deadline_ms = entry.deadline_ms();
        let there = deadline_ms.is_none_or(|deadline_ms| deadline_ms > self.now_ms);
        there.then(|| ValueRef::at(entry, self.now_ms))
    }

    /// Returns the members of a sorted set; an error for another type.
    pub(crate) fn read_sorted_set(&mut self, key: Key<'_>) -> Result<Option<Scored<'_>>> {
        of_type(self.read(key), ValueRef::sorted_set)
    }

    /// Returns a stream; an error for another type.
    pub(crate) fn read_stream(&mut self, key: Key<'_>) -> Result<Option<&Stream>> {
        of_type(self.read(key), ValueRef::stream)
    }

    /// Returns the members of a set that can be borrowed beside others.
    pub(crate) fn members(&self, key: Key<'_>) -> Option<Members<'_>> {
        self.value(key)?.members()
    }

    /// Returns whether the key exists. Cheaper than `read` for a mounted topic.
    pub(crate) fn exists(&mut self, key: Key<'_>) -> bool {
        match self.keyspace.mount_of(self.database, key.bytes) {
            Some(mount) => mount.contains(key.bytes),
            None => self.find_counted(key).is_some(),
        }
    }

    #[inline]
    fn find_counted(&mut self, key: Key<'_>) -> Option<Place> {
        let place = self.find(key);
        if self.counts_reads {
            self.count_read(key, place.is_some());
        }
        place
    }

    /// Removes an expired key that a walk without locks has seen, unless another thread holds its
    /// shard.
    pub(crate) fn remove_if_due(&mut self, key: Key<'_>) {
        if self.locked.extend(&ShardSet::only(shard_of(key.hash))) {
            self.find(key);
        }
    }

    /// Returns a copy of a value for another key, and its deadline.
    pub(crate) fn duplicate(&mut self, from: Key<'_>, to: Key<'_>) -> Option<(Entry, Option<i64>)> {
        let deadline_ms = self.deadline_of(from)?;
        let entry = self.read(from)?.duplicate(to.hash, to.bytes);
        Some((entry, deadline_ms))
    }

    /// Returns the deadline of an existing key; a mounted topic has none.
    pub(crate) fn deadline_of(&mut self, key: Key<'_>) -> Option<Option<i64>> {
        if self.keyspace.mount_of(self.database, key.bytes).is_some() {
            return self.exists(key).then_some(None);
        }
        let place = self.find_counted(key)?;
        Some(self.entry(key, place).deadline_ms())
    }

    /// Returns the value and whether it is live, without removing an expired key.
    pub(crate) fn peek(&mut self, key: Key<'_>) -> Option<(ValueRef<'_>, bool)> {
        if self.keyspace.mount_of(self.database, key.bytes).is_some() {
            return self.read_topic(key.bytes).map(|value| (value, true));
        }
        let now_ms = self.now_ms;
        let table = &self.dictionary(key).table;
        let entry = table.entry(table.find(key.hash, key.bytes)?);
        let there = entry.deadline_ms().is_none_or(|deadline| deadline > now_ms);
        there.then(|| (ValueRef::at(entry, now_ms), entry.is_live()))
    }

    /// Returns the key's own entry, even if it has expired and is not removed yet.
    pub(crate) fn peek_stored(&mut self, key: Key<'_>) -> Option<&Entry> {
        let table = &self.dictionary(key).table;
        Some(table.entry(table.find(key.hash, key.bytes)?))
    }

    /// Finds the key's own entry; removes it if it has expired.
    #[inline]
    pub(crate) fn find(&mut self, key: Key<'_>) -> Option<Place> {
        let now_ms = self.now_ms;
        let table = &self.dictionary(key).table;
        let (place, entry) = table.locate(key.hash, key.bytes)?;
        let used = entry.access();
        match entry.deadline_ms() {
            Some(deadline) if deadline <= now_ms && !self.keyspace.is_loading() => {
                if !(self.only_reads && self.keyspace.is_expiry_paused(now_ms)) {
                    self.locked.shard(shard_of(key.hash)).expired_keys += 1;
                    let entry = self.remove(key, place, Event::Expired);
                    self.dispose(entry, Cause::Expiry);
                }
                None
            }
            _ => {
                if self.touches {
                    self.note_use(key, place, used);
                }
                Some(place)
            }
        }
    }

    #[inline]
    pub(crate) fn entry(&mut self, key: Key<'_>, place: Place) -> &Entry {
        self.dictionary(key).table.entry(place)
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, key: Key<'_>, place: Place) -> &mut Entry {
        let database = self.database;
        let shard = self.locked.shard(shard_of(key.hash));
        let entry = shard.databases[database].table.entry_mut(place);
        if let Some(mark) = &mut shard.mark {
            mark.keep_old(database, key, entry);
        }
        entry
    }

    /// Gives the old value to a running snapshot. Must be called before an entry is changed or
    /// removed.
    #[inline]
    fn keep_old(&mut self, key: Key<'_>, place: Place) {
        let database = self.database;
        let shard = self.locked.shard(shard_of(key.hash));
        if let Some(mark) = &mut shard.mark {
            mark.keep_old(database, key, shard.databases[database].table.entry(place));
        }
    }

    /// Tells a running snapshot about a new key. Must be called when a key was added.
    #[inline]
    fn note_new(&mut self, key: Key<'_>) {
        let database = self.database;
        if let Some(mark) = &mut self.locked.shard(shard_of(key.hash)).mark {
            mark.note_new(database, key);
        }
    }

    /// Stores a value under a new or an existing key. The live flag stays.
    #[inline]
    pub(crate) fn set(&mut self, key: Key<'_>, value: NewValue<'_>, expiry: Expiry) -> Place {
        match self.find(key) {
            Some(place) => self.overwrite(key, place, value, expiry),
            None => self.insert(key, value, expiry),
        }
    }

    /// Replaces the value of an entry.
    #[inline]
    pub(crate) fn overwrite(
        &mut self,
        key: Key<'_>,
        place: Place,
        value: NewValue<'_>,
        expiry: Expiry,
    ) -> Place {
        debug_assert_eq!(self.entry(key, place).key(), key.bytes);
        let entry = self.entry_mut(key, place);
        let has_deadline = entry.deadline_ms().is_some();
        let old = if fields::is_timed(entry) {
            self.dictionary(key).forget_fields(place);
            self.entry_mut(key, place).set_value(value)
        } else {
            entry.set_value(value)
        };
        if let Some(object) = old {
            self.dispose_object(object);
        }
        match expiry {
            Expiry::At(deadline_ms) => self.set_deadline(key, place, Some(deadline_ms)),
            Expiry::Clear if has_deadline => self.set_deadline(key, place, None),
            Expiry::Clear | Expiry::Keep => {}
        }
        place
    }

    /// Adds a new key.
    pub(crate) fn insert(&mut self, key: Key<'_>, value: NewValue<'_>, expiry: Expiry) -> Place {
        debug_assert!(!self.is_closed(), "only the loader adds keys during a load");
        let expires = matches!(expiry, Expiry::At(_));
        let access = self.access.initial(self.clock_ms);
        let place = self
            .dictionary(key)
            .insert(key.hash, key.bytes, value, expires, access);
        self.note_new(key);
        if let Expiry::At(deadline_ms) = expiry {
            self.set_deadline(key, place, Some(deadline_ms));
        }
        self.after_insert(key, place);
        place
    }

    /// Adds an entry with a new key.
    pub(crate) fn insert_entry(&mut self, key: Key<'_>, mut entry: Entry) -> Place {
        debug_assert_eq!(entry.key(), key.bytes);
        debug_assert!(entry.timer().is_none(), "the entry has no timer yet");
        self.note_producers(&entry);
        entry.set_access(self.access.initial(self.clock_ms));
        let place = self.dictionary(key).table.insert(key.hash, entry);
        self.note_new(key);
        self.adopt_fields(key, place);
        self.after_insert(key, place);
        place
    }

    /// Replaces the value by that of an entry made for this key. Removes the TTL but keeps the live
    /// flag.
    pub(crate) fn replace(&mut self, key: Key<'_>, entry: Entry) -> Place {
        match self.find(key) {
            Some(place) => {
                self.note_producers(&entry);
                self.keep_old(key, place);
                self.dictionary(key).forget_fields(place);
                let access = self.access.initial(self.clock_ms);
                let old = self.entry_mut(key, place).take_value(entry);
                self.dispose(old, Cause::Replacement);
                self.entry_mut(key, place).set_access(access);
                self.adopt_fields(key, place);
                if self.entry(key, place).deadline_ms().is_some() {
                    self.set_deadline(key, place, None);
                }
                place
            }
            None => self.insert_entry(key, entry),
        }
    }

    /// Sets or clears the TTL without notifying the observer.
    pub(crate) fn set_deadline(&mut self, key: Key<'_>, place: Place, deadline_ms: Option<i64>) {
        debug_assert_eq!(self.entry(key, place).key(), key.bytes);
        self.keep_old(key, place);
        let now_ms = self.clock_ms;
        self.dictionary(key)
            .set_deadline(place, key.hash, deadline_ms, now_ms);
        if let Some(deadline_ms) = deadline_ms {
            self.note_deadline(key, deadline_ms);
        }
    }

    /// Updates the timer of a hash to its earliest deadline, without notifying the observer. Must
    /// be called after fields were removed or their deadlines changed.
    #[inline]
    pub(crate) fn settle_fields(&mut self, key: Key<'_>, place: Place) {
        if !fields::is_timed(self.entry(key, place)) {
            return;
        }
        let now_ms = self.clock_ms;
        let earliest_ms = self.dictionary(key).settle_fields(place, key.hash, now_ms);
        if let Some(earliest_ms) = earliest_ms {
            self.keyspace.note_deadline(shard_of(key.hash), earliest_ms);
        }
    }

    /// Removes an entry and notifies the observer.
    pub(crate) fn remove(&mut self, key: Key<'_>, place: Place, event: Event) -> Entry {
        debug_assert_eq!(self.entry(key, place).key(), key.bytes);
        touched::note(key, event != Event::Expired);
        self.keep_old(key, place);
        let database = self.database;
        let shard = self.locked.shard(shard_of(key.hash));
        let entry = shard.databases[database].remove(place);
        shard.changes += u64::from(!std::mem::replace(&mut self.is_counted, true));
        let observed = shard.is_observed || self.tracking & CHANGES_TOLD != 0;
        if entry.is_live() {
            shard.live.remove(key.bytes);
            self.observer.changed(database, key.bytes, event, None);
        }
        self.notify(key, event);
        if observed {
            self.touch(key, event.changer());
        }
        match event {
            Event::Expired => self.propagate_expired(key.bytes),
            Event::Evicted => {
                let is_lazy = self.keyspace.reclaimer.is_lazy(Cause::Eviction);
                self.propagate_gone(key.bytes, if is_lazy { b"UNLINK" } else { b"DEL" });
            }
            _ => self.is_dirty = true,
        }
        entry
    }

    /// Removes a key; returns false if it did not exist.
    pub(crate) fn delete(&mut self, key: Key<'_>, event: Event) -> bool {
        self.delete_for(key, event, Cause::Deletion)
    }

    /// Does the same; `cause` decides where its value is freed.
    pub(crate) fn delete_for(&mut self, key: Key<'_>, event: Event, cause: Cause) -> bool {
        match self.find(key) {
            Some(place) => {
                let entry = self.remove(key, place, event);
                self.dispose(entry, cause);
                true
            }
            None => false,
        }
    }

    /// Propagates a command of this database, if changes are propagated.
    #[inline]
    pub(crate) fn propagate<'a>(
        &mut self,
        words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    ) {
        if self.propagates {
            self.locked.pending.unit().push(self.database, words);
        }
    }

    /// Starts to watch a key; returns its version and whether it exists.
    pub(crate) fn watch(&mut self, key: Key<'_>) -> (Version, bool) {
        let there = match self.keyspace.mount_of(self.database, key.bytes) {
            Some(mount) => mount.contains(key.bytes),
            // An expired key is removed now, so that its removal does not count as a later change.
            None => self.find(key).is_some(),
        };
        let database = self.database;
        let shard = self.locked.shard(shard_of(key.hash));
        shard.interests(database).watch(key.bytes);
        (self.version(key), there)
    }

    /// Returns the version of a watched key.
    pub(crate) fn version(&mut self, key: Key<'_>) -> Version {
        let mount = self.keyspace.mount_of(self.database, key.bytes);
        let topic = mount.map(|mount| (mount.is_shared(), mount.version(key.bytes)));
        let database = self.database;
        let shard = self.locked.shard(shard_of(key.hash));
        let interests = shard.interests[database].as_ref();
        let stored = interests.map_or(0, |interests| interests.version(key.bytes));
        Version { stored, topic }
    }

    pub(crate) fn unwatch(&mut self, key: Key<'_>) {
        let database = self.database;
        let shard = self.locked.shard(shard_of(key.hash));
        if let Some(interests) = &mut shard.interests[database] {
            interests.unwatch(key.bytes);
        }
        shard.tidy_interests(database);
    }

    /// Makes a key of database 0 a live topic; returns whether it was not one before.
    pub(crate) fn make_live(&mut self, key: Key<'_>, place: Place) -> bool {
        let is_new = self.database == 0 && !self.entry(key, place).is_live();
        if is_new {
            self.keyspace.note_topic(key.bytes);
            self.entry_mut(key, place).set_live(true);
            self.locked
                .shard(shard_of(key.hash))
                .live
                .insert(key.bytes.into());
        }
        is_new
    }

    /// Returns the mount's error, if the key belongs to one, or is none and must not become one.
    #[inline]
    pub(crate) fn check_writable(&self, key: &[u8]) -> Result {
        let keyspace = self.keyspace;
        if let Some(mount) = keyspace.mount_of(self.database, key) {
            return Err(mounted(mount, key));
        }
        match keyspace.mount_that_reserves(self.database, key) {
            // What a master or a log says is done.
            Some(mount) if !self.locked.keeps_due && self.value(self.key(key)).is_none() => {
                Err(mounted(mount, key))
            }
            _ => Ok(()),
        }
    }

    /// Visits a shard's part of this database, for commands that visit all keys.
    pub(crate) fn visit<R>(&mut self, shard: usize, visit: impl FnOnce(&mut Dictionary) -> R) -> R {
        let database = self.database;
        self.locked
            .visit(shard, |shard| visit(&mut shard.databases[database]))
    }

    /// Visits a whole shard, and passes the observer too.
    pub(crate) fn visit_shard<R>(
        &mut self,
        shard: usize,
        visit: impl FnOnce(&mut Shard, &mut dyn Observer) -> R,
    ) -> R {
        let observer = &mut *self.observer;
        self.locked.visit(shard, |shard| visit(shard, observer))
    }

    #[inline]
    fn dictionary(&mut self, key: Key<'_>) -> &mut Dictionary {
        touched::note(key, false);
        &mut self.locked.shard(shard_of(key.hash)).databases[self.database]
    }

    /// Returns the limits of a new stream's producers.
    pub(crate) fn producer_limits(&self) -> ProducerLimits {
        let limits = self.keyspace.producer_limits();
        if limits != ProducerLimits::default() {
            self.keyspace.note_producers();
        }
        limits
    }

    /// Notes that a stream came from elsewhere with what is known of its producers.
    fn note_producers(&self, entry: &Entry) {
        if Stream::of(entry).is_some_and(|stream| !stream.producers.is_plain()) {
            self.keyspace.note_producers();
        }
    }

    /// Starts the timer of a hash that came from elsewhere: its old timer belonged to another
    /// wheel.
    fn adopt_fields(&mut self, key: Key<'_>, place: Place) {
        if fields::is_timed(self.entry(key, place)) {
            fields::set_timer(self.entry_mut(key, place), None);
            self.settle_fields(key, place);
        }
    }

    #[inline]
    fn after_insert(&mut self, key: Key<'_>, place: Place) {
        debug_assert!(
            self.check_writable(key.bytes).is_ok(),
            "the name does not belong to a mount"
        );
        self.notify(key, Event::New);
        if self.database == 0 && self.keyspace.has_live_name(key.bytes) {
            self.make_live(key, place);
        }
    }
}

/// Returns the error of a write to a mount's key.
#[cold]
fn mounted(mount: &dyn Mount, key: &[u8]) -> CommandError {
    CommandError::Mounted(mount.write_error(key).into())
}

/// Returns a part of a value; an error if the value exists and has another type.
#[inline]
fn of_type<'v, T>(
    value: Option<ValueRef<'v>>,
    part: impl FnOnce(ValueRef<'v>) -> Option<T>,
) -> Result<Option<T>> {
    match value {
        None => Ok(None),
        Some(value) => part(value).map(Some).ok_or(CommandError::WrongType),
    }
}

impl fmt::Debug for View<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("View")
            .field("locked", &self.locked)
            .field("database", &self.database)
            .field("now_ms", &self.now_ms)
            .finish_non_exhaustive()
    }
}
