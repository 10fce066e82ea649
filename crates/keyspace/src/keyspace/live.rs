//! Live topics among the keys: how other protocols store and read them.

use super::Keyspace;
use crate::error::CommandError;
use crate::hash;
use crate::key::{DATABASES, shard_of};
use crate::locks::Locked;
use crate::observer::{Event, Observer};

use crate::value::{ValueRef, string_value};
use crate::view::{Expiry, View};

/// The channel name that marks keys as live topics for replicas and the append-only file. A ZeroMQ
/// peer made these keys live. For a Redis replica, it is a message without subscribers.
pub const LIVE_CHANNEL: &[u8] = b"__tidewire__:live";

impl Keyspace {
    /// Stores a payload from another protocol. Works like SET; in database 0, the key becomes live.
    /// It replaces a value of another type and removes a TTL.
    pub fn publish_value(
        &self,
        database: usize,
        key: &[u8],
        payload: &[u8],
        now_ms: i64,
        observer: &mut dyn Observer,
    ) -> Result<(), CommandError> {
        if database >= DATABASES {
            return Err(CommandError::DatabaseOutOfRange);
        }
        if payload.len() > self.string_bytes_max || key.len() > self.string_bytes_max {
            return Err(CommandError::StringTooLong);
        }
        let hash = hash::of(key);
        let mut locked = Locked::one(self, shard_of(hash));
        let mut view = View::new(self, &mut locked, database, now_ms, observer);
        if view.is_closed() {
            return Err(CommandError::Loading);
        }
        view.check_writable(key)?;
        let key = view.key(key);
        let place = view.set(key, string_value(payload), Expiry::Clear);
        let is_marked = view.make_live(key, place) && !self.has_live_name(key.bytes);
        view.changed(key, place, Event::Set);
        view.propagate([&b"SET"[..], key.bytes, payload]);
        if is_marked {
            view.propagate_live(key.bytes);
        }
        self.release(locked, now_ms, observer);
        Ok(())
    }

    /// Makes a key of database 0 a live topic, as a master or a log says. The observer receives its
    /// value.
    pub fn mark_live(&self, key: &[u8], now_ms: i64, observer: &mut dyn Observer) {
        let hash = hash::of(key);
        let mut locked = Locked::one(self, shard_of(hash));
        locked.keep_due();
        let mut view = View::new(self, &mut locked, 0, now_ms, observer);
        let key = view.key(key);
        if let Some(place) = view.find(key)
            && view.make_live(key, place)
            && !self.has_live_name(key.bytes)
        {
            view.notify_live(key, place);
            view.propagate_live(key.bytes);
        }
        self.release(locked, now_ms, observer);
    }

    /// Passes the current value of a live topic of database 0, mounted or not, to `show`; `None` if
    /// there is no such topic. `show` runs under the shard's lock.
    pub fn live_state<R>(
        &self,
        key: &[u8],
        now_ms: i64,
        show: impl FnOnce(Option<ValueRef<'_>>) -> R,
    ) -> R {
        let mut locked = Locked::one(self, shard_of(hash::of(key)));
        let mut observer = crate::observer::NullObserver;
        let mut view = View::new(self, &mut locked, 0, now_ms, &mut observer);
        let key = view.key(key);
        let live = view.peek(key).filter(|(_, is_live)| *is_live);
        show(live.map(|(value, _)| value))
    }

    /// Changes the topic of a shared mount under the lock of its name: the mount may claim the name
    /// there, or give it up. `change` is told whether a key of database 0 is stored, expired or
    /// not, and returns whether the topic has changed. Clients that watch, track or have read the
    /// name are then told as of the change of a key. A client that waits for such a key is not
    /// served: a topic has no elements to take.
    pub fn change_shared(
        &self,
        key: &[u8],
        observer: &mut dyn Observer,
        change: impl FnOnce(bool) -> bool,
    ) {
        let hash = hash::of(key);
        let mut shard = self.shards[shard_of(hash)].lock();
        let is_stored = shard.databases[0].table.find(hash, key).is_some();
        if !change(is_stored) {
            return;
        }
        if let Some(interests) = &mut shard.interests[0] {
            interests.touch(key);
        }
        self.tell_caches(&mut shard, key, observer);
    }

    /// Has clients discard what they have cached of a shared mount's topic that has not changed:
    /// something about it has, such as whether it is stale.
    pub fn invalidate_shared(&self, key: &[u8], observer: &mut dyn Observer) {
        let mut shard = self.shards[shard_of(hash::of(key))].lock();
        self.tell_caches(&mut shard, key, observer);
    }

    /// Passes the value of a key of database 0, of any type, to `show`. Returns false if the key is
    /// missing. This is not an access and changes nothing. `show` runs under the shard's lock.
    pub fn value(&self, key: &[u8], now_ms: i64, show: &mut dyn FnMut(ValueRef<'_>)) -> bool {
        let mut locked = Locked::one(self, shard_of(hash::of(key)));
        let mut observer = crate::observer::NullObserver;
        let mut view = View::new(self, &mut locked, 0, now_ms, &mut observer);
        let key = view.key(key);
        let value = view.peek(key);
        if let Some((value, _)) = value {
            show(value);
        }
        value.is_some()
    }

    /// Passes the value of every live key of database 0 whose name `wanted` accepts to `show`.
    /// `show` runs under one shard's lock at a time. Mounted topics are not live keys.
    pub fn for_each_live(
        &self,
        now_ms: i64,
        wanted: &mut dyn FnMut(&[u8]) -> bool,
        show: &mut dyn FnMut(&[u8], ValueRef<'_>),
    ) {
        for shard in &self.shards {
            let shard = shard.lock();
            for name in shard.live.iter().filter(|name| wanted(name)) {
                let table = &shard.databases[0].table;
                if let Some(place) = table.find(hash::of(name), name) {
                    let entry = table.entry(place);
                    if entry.deadline_ms().is_none_or(|deadline| deadline > now_ms) {
                        show(name, ValueRef::at(entry, now_ms));
                    }
                }
            }
        }
    }
}
