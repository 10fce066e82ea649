//! Names of live topics, and names that belong to mounts.

use std::sync::atomic::Ordering;

use super::{Keyspace, LIVE, MOUNTED, fail};
use crate::command::Call;
use crate::error::CommandError;
use crate::hash;
use crate::key::{SHARDS, shard_of};
use crate::keyspace::Outcome;
use crate::locks::{Locked, ShardSet};

impl Keyspace {
    /// Returns whether the name makes a new key of database 0 a live topic.
    #[inline]
    pub fn has_live_name(&self, key: &[u8]) -> bool {
        key.first()
            .is_some_and(|&first| self.first_bytes[usize::from(first)] & LIVE != 0)
            && self
                .live_prefixes
                .iter()
                .any(|prefix| key.starts_with(prefix))
            && !is_reserved(key)
    }

    /// Returns whether a name is a live topic: by its prefix, or because the key was made one.
    /// Locks the key's shard unless the prefix is enough. `locked` is what the caller already
    /// holds; it must include the shard of the name ([`shard_of_name`](Self::shard_of_name)).
    pub fn is_topic(&self, name: &[u8], locked: Option<&Locked<'_>>) -> bool {
        if self.has_live_name(name) {
            return true;
        }
        if !self.has_named_topics.load(Ordering::Relaxed) {
            return false;
        }
        let shard = shard_of(hash::of(name));
        match locked {
            Some(locked) => locked.holds(shard) && locked.shard_ref(shard).live.contains(name),
            None => self.shards[shard].lock().live.contains(name),
        }
    }

    /// Records that a key was made a topic.
    pub(crate) fn note_topic(&self, name: &[u8]) {
        if !self.has_named_topics.load(Ordering::Relaxed) && !self.has_live_name(name) {
            self.has_named_topics.store(true, Ordering::Release);
        }
    }

    /// Returns the shard of a key name.
    pub fn shard_of_name(&self, name: &[u8]) -> ShardSet {
        ShardSet::only(shard_of(hash::of(name)))
    }

    /// Returns the number of keys that were left out of database 0 because a mount has their names.
    /// They came from a file, a full sync, a master or a log.
    pub fn mounted_left_out(&self) -> u64 {
        self.mounted_left_out.load(Ordering::Relaxed)
    }

    pub(crate) fn note_left_out(&self, count: u64) {
        self.mounted_left_out.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns up to `count_max` names of a database that belong to mounts of database 0. All
    /// shards are locked.
    pub(crate) fn mounted_names(
        &self,
        locked: &Locked<'_>,
        database: usize,
        count_max: usize,
    ) -> Vec<Box<[u8]>> {
        let mut names = Vec::new();
        let marks = |key: &[u8]| {
            key.first()
                .map_or(0, |&byte| self.first_bytes[usize::from(byte)])
        };
        for shard in 0..SHARDS {
            for entry in locked.shard_ref(shard).databases[database].table.iter() {
                let key = entry.key();
                if marks(key) & MOUNTED != 0 && self.mount_of(0, key).is_some() {
                    names.push(key.into());
                    if names.len() >= count_max {
                        return names;
                    }
                }
            }
        }
        names
    }

    /// Replies an error. Counts a propagated command on a mounted key, because nothing reads its
    /// reply.
    #[cold]
    pub(super) fn refuse(&self, call: &mut Call<'_, '_, '_>, error: CommandError) -> Outcome {
        if call.view.locked.keeps_due && matches!(error, CommandError::Mounted(_)) {
            self.note_left_out(1);
        }
        fail(call.reply, error)
    }
}

/// Returns whether the server itself publishes under this name: keyspace notifications and
/// invalidations. Such a name is never a topic, even with a live prefix.
pub fn is_reserved(name: &[u8]) -> bool {
    RESERVED.iter().any(|prefix| name.starts_with(prefix))
}

const RESERVED: [&[u8]; 3] = [b"__keyspace@", b"__keyevent@", b"__redis__:"];
