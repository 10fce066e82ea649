//! Keys that come from a file, and the end of all that were there before.

use std::sync::atomic::Ordering;

use super::Keyspace;
use crate::access;
use crate::hash;
use crate::keyspace::shard_of;
use crate::locks::{Locked, ShardSet};
use crate::observer::NullObserver;
use crate::serial::{self, KeyRecord, SerialError};
use crate::shard::{DATABASES, Dictionary};
use crate::view::View;

/// How keys are taken from a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Keys whose time has come are left out. Not from a file that a log of commands follows: they
    /// may be about such a key.
    pub drops_expired: bool,
    /// A key takes the place of one that is there already.
    pub replaces: bool,
    /// Now, ms since the UNIX epoch.
    pub now_ms: i64,
}

/// What became of a key from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// It is there.
    Kept,
    /// Its time has come, so that it was left out.
    Expired,
    /// It held nothing, as keys of old versions may by mistake, and was left out.
    Empty,
    /// A live source has keys of this name, so that it was left out.
    Mounted,
}

/// Why a key from a file cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Its value contradicts itself.
    #[error("its value is corrupt")]
    Corrupt,
    /// It is there already.
    #[error("it is there twice")]
    Duplicate,
}

impl Keyspace {
    /// While keys and commands are loaded nothing expires, whatever its deadline: what is loaded
    /// next may be about it.
    pub fn set_loading(&self, on: bool) {
        self.is_loading.store(on, Ordering::Release);
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Relaxed)
    }

    /// How often FLUSHALL has removed all keys.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// Puts a key of a file among the others. Nobody is told of it.
    pub fn load(&self, record: &KeyRecord<'_>, options: LoadOptions) -> Result<Loaded, LoadError> {
        let (bytes, database) = (&*record.key, record.database);
        if self.mount_of(database, bytes).is_some() {
            return Ok(Loaded::Mounted);
        }
        let now_ms = options.now_ms;
        let is_due = record
            .deadline_ms
            .is_some_and(|deadline_ms| deadline_ms < now_ms);
        if options.drops_expired && is_due {
            return Ok(Loaded::Expired);
        }
        let limits = serial::Limits::of(self);
        let hash = hash::of(bytes);
        let key = crate::view::Key { bytes, hash };
        let entry = match serial::restore_form(record.form, record.value, key, limits) {
            Ok(entry) => entry,
            Err(SerialError::Empty) => return Ok(Loaded::Empty),
            Err(_) => return Err(LoadError::Corrupt),
        };
        let mut locked = Locked::one(self, shard_of(hash));
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

    /// Removes all keys of all databases, before others are loaded. Live topics are gone without
    /// news, and nobody who waits for a key is told; whoever watches one finds it changed.
    pub fn clear(&self) {
        let mut emptied = Vec::new();
        let mut locked = self.lock(ShardSet::all());
        for number in 0..crate::locks::SHARDS {
            let shard = locked.shard(number);
            shard.live.clear();
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
    }
}
