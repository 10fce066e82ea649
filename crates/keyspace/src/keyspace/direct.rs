//! Commands that read or change one entry and nothing else, run on it directly while nobody
//! listens: no view is made of the keyspace, and nobody has to be told. They are what most requests
//! of most programs are.
//!
//! Whatever is out of the ordinary (a key that is missing or whose time has come, a mount, a live
//! topic, a snapshot under way, somebody who watches, tracks or is told of changes) takes the way
//! of all commands, which is the one that says what they mean: the two agree, by a test.

use std::sync::atomic::Ordering;

use tidewire_resp::{Arguments, Writer};

use super::{KeyHash, Keyspace, MOUNTED, shard_of};
use crate::entry::Entry;
use crate::value::ValueRef;

/// How a command runs on its key's entry alone. False if it does not, for this entry or these
/// arguments: then it has neither changed nor written anything.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direct {
    /// It only reads.
    Read(DirectRead),
    /// It changes the value, which counts as a change. The key has no deadline.
    Write(DirectWrite),
}

pub(crate) type DirectRead = fn(ValueRef<'_>, &mut Writer<'_>) -> bool;
pub(crate) type DirectWrite = fn(&mut Entry, Arguments<'_>, &mut Writer<'_>) -> bool;

impl Keyspace {
    /// Runs a command on its only key, argument 1; false if it must go the way of all commands.
    #[inline]
    pub(super) fn run_directly(
        &self,
        direct: Direct,
        hash: KeyHash,
        arguments: Arguments<'_>,
        database: usize,
        now_ms: i64,
        reply: &mut Writer<'_>,
    ) -> bool {
        let Some(key) = arguments.get(1) else {
            return false;
        };
        let mut shard = self.shards[shard_of(hash.0)].lock();
        let shard = &mut *shard;
        let access = self.access();
        // Looked at under the lock: who begins to listen takes it after saying so.
        if self.is_listened_to() || access.counts() || self.may_be_mounted(key) {
            return false;
        }
        let Some(dictionary) = shard.databases.get_mut(database) else {
            return false;
        };
        let table = &mut dictionary.table;
        let Some((place, entry)) = table.locate(hash.0, key) else {
            return false;
        };
        let used = access.initial(now_ms);
        match direct {
            Direct::Read(read) => {
                let deadline_ms = entry.deadline_ms();
                if deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms)
                    || !read(ValueRef::at(entry, now_ms), reply)
                {
                    return false;
                }
                shard.hits += 1;
                if entry.access() != used {
                    table.entry_mut(place).set_access(used);
                }
            }
            Direct::Write(write) => {
                if shard.is_observed
                    || shard.mark.is_some()
                    || entry.is_live()
                    || entry.deadline_ms().is_some()
                {
                    return false;
                }
                let entry = table.entry_mut(place);
                if !write(entry, arguments, reply) {
                    return false;
                }
                shard.changes += 1;
                entry.set_access(used);
            }
        }
        true
    }

    /// Whether anybody is told of reads, changes or events of ordinary keys.
    #[inline]
    fn is_listened_to(&self) -> bool {
        self.propagation.is_wanted()
            || self.tracking.load(Ordering::Relaxed) != 0
            || self.notifications.load(Ordering::Relaxed) != 0
    }

    /// Whether a mount's prefix begins as the key does.
    #[inline]
    fn may_be_mounted(&self, key: &[u8]) -> bool {
        key.first()
            .is_none_or(|&first| self.first_bytes[usize::from(first)] & MOUNTED != 0)
    }
}
