//! Loading keys from a file, and removing all previous keys.

use std::sync::atomic::Ordering;

use super::Keyspace;
use crate::access;
use crate::hash;
use crate::key::{DATABASES, Key, SHARDS, shard_of};

use crate::locks::{Locked, ShardSet};
use crate::observer::{NullObserver, Observer};
use crate::reclaim::{Cause, Garbage};
use crate::serial::{self, KeyRecord, SerialError};
use crate::shard::Dictionary;
use crate::view::View;

/// Options for loading keys from a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Drops expired keys. Must be off if a log of commands follows the file: the log may contain
    /// commands on such a key.
    pub drops_expired: bool,
    /// Replaces existing keys.
    pub replaces: bool,
    /// The current time, ms since the UNIX epoch.
    pub now_ms: i64,
}

/// The outcome for a key from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// The key was stored.
    Kept,
    /// The key has expired and was left out.
    Expired,
    /// The key had an empty value, which old versions could write by mistake, and was left out.
    Empty,
    /// The key's name belongs to a live source, so it was left out.
    Mounted,
}

/// Why a key from a file cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Its value is inconsistent.
    #[error("its value is corrupt")]
    Corrupt,
    /// The key already exists.
    #[error("it is there twice")]
    Duplicate,
}

impl Keyspace {
    /// Returns the limits of small values.
    pub(crate) fn value_limits(&self) -> serial::ValueLimits {
        serial::ValueLimits {
            hash: self.hash_limits(),
            set: self.set_limits(),
            list: self.list_limits(),
            sorted_set: self.sorted_set_limits(),
            block: self.stream_limits(),
            producers: self.producer_limits(),
        }
    }

    /// Closes the keyspace while keys and commands are loaded, and reopens it.
    ///
    /// While it is closed, only propagated commands ([`Locked::keep_due`]) write keys. Nothing
    /// expires, even if its TTL has passed, because the next loaded command may need it. The state
    /// changes under the locks of all shards. So a write, a transaction or a script runs entirely
    /// before the change, or sees it from its first command on. Each load that begins must end.
    pub fn set_loading(&self, on: bool) {
        let _all = self.lock(ShardSet::all());
        let loads = match on {
            true => self.loads.fetch_add(1, Ordering::AcqRel) + 1,
            false => {
                let before = self.loads.fetch_sub(1, Ordering::AcqRel);
                debug_assert!(before > 0, "a load ends only after it began");
                before - 1
            }
        };
        match loads {
            0 => self.notifications.fetch_and(!LOADING, Ordering::AcqRel),
            _ => self.notifications.fetch_or(LOADING, Ordering::AcqRel),
        };
    }

    /// Returns whether the keyspace is closed because keys are loaded.
    #[inline]
    pub fn is_loading(&self) -> bool {
        self.notifications.load(Ordering::Relaxed) & LOADING != 0
    }

    /// Returns how often FLUSHALL has removed all keys.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// Adds a key from a file without notifying observers. The keyspace must be closed
    /// ([`set_loading`](Self::set_loading)), so that nothing else writes a key meanwhile.
    pub fn load(&self, record: &KeyRecord<'_>, options: LoadOptions) -> Result<Loaded, LoadError> {
        debug_assert!(
            self.is_loading(),
            "keys are loaded only into a closed keyspace"
        );
        let (bytes, database) = (&*record.key, record.database);
        if self
            .mount_of(database, bytes)
            .is_some_and(|mount| !mount.is_shared())
        {
            self.note_left_out(1);
            return Ok(Loaded::Mounted);
        }
        let now_ms = options.now_ms;
        let is_due = record
            .deadline_ms
            .is_some_and(|deadline_ms| deadline_ms < now_ms);
        if options.drops_expired && is_due {
            return Ok(Loaded::Expired);
        }
        let limits = self.value_limits();
        let hash = hash::of(bytes);
        let key = Key { bytes, hash };
        let entry = match serial::restore_form(record.form, record.value, key, limits) {
            Ok(entry) => entry,
            Err(SerialError::Empty) => return Ok(Loaded::Empty),
            Err(_) => return Err(LoadError::Corrupt),
        };
        let mut locked = Locked::one(self, shard_of(hash));
        // The server that wrote the file propagates when the key expires.
        locked.keep_due();
        let mut observer = NullObserver;
        let mut view = View::new(self, &mut locked, database, now_ms, &mut observer);
        let is_there = view.find(key).is_some();
        if is_there && !options.replaces {
            return Err(LoadError::Duplicate);
        }
        let place = view.replace(key, entry);
        if record.deadline_ms.is_some() {
            view.set_deadline(key, place, record.deadline_ms);
        }
        if record.is_live && database == 0 {
            view.make_live(key, place);
        }
        let access = self.access();
        let used = match access.counts() {
            true => record
                .frequency
                .map(|count| access.with_frequency(count, now_ms)),
            false => record
                .idle_seconds
                .map(|idle_s| access::used_before(idle_s, now_ms)),
        };
        if let Some(used) = used {
            view.entry_mut(key, place).set_access(used);
        }
        Ok(Loaded::Kept)
    }

    /// Removes all keys of all databases before others are loaded. Tells the observer which live
    /// topics are affected. Clients that wait for a key are not woken; clients that watch a key
    /// find it changed.
    pub fn clear(&self, observer: &mut dyn Observer) {
        self.forget_own_deadlines();
        let mut emptied = Vec::new();
        let mut locked = self.lock(ShardSet::all());
        for number in 0..SHARDS {
            let shard = locked.shard(number);
            observer.renewed(std::mem::take(&mut shard.live));
            for database in 0..DATABASES {
                let dictionary = &mut shard.databases[database];
                if dictionary.table.len() == 0 {
                    continue;
                }
                let old = std::mem::replace(dictionary, Dictionary::new());
                let old = match &mut shard.mark {
                    Some(mark) => mark.keep_emptied(database, old),
                    None => Some(old),
                };
                emptied.extend(old);
                if let Some(interests) = &mut shard.interests[database] {
                    for name in interests.names() {
                        interests.touch(&name);
                    }
                }
            }
        }
        drop(locked);
        if self.reclaimer.is_lazy(Cause::FullSync) {
            for dictionary in emptied {
                self.reclaimer.free(Garbage::Dictionary(dictionary));
            }
        }
    }
}

/// A bit of the notifications word: keys are being loaded.
pub(crate) const LOADING: u32 = 1 << 31;
