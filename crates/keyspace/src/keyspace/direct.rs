//! The direct path: a command that reads or changes one entry runs on it without a view of the
//! keyspace, as long as no client and no log must be notified. Most requests of most programs are
//! of this kind.
//!
//! Every special case (an expired key, a mount, a live topic, a running snapshot, a client that
//! watches or tracks, a log) uses the ordinary path, which defines what commands do. A test
//! compares both paths.

use std::sync::atomic::Ordering;

use tidewire_resp::{Arguments, Writer};

use super::{KeyHash, Keyspace};
use crate::command::Command;
use crate::entry::Entry;
use crate::hash;
use crate::key::shard_of;
use crate::value::ValueRef;

/// How a command runs on its key's entry alone. The function returns false if it cannot handle this
/// entry or these arguments; it has then changed and written nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direct {
    /// A command that only reads. `None` stands for a missing key.
    Read(DirectRead),
    /// A command that changes the value, within the keyspace's limits. This counts as a change. The
    /// key has no TTL.
    Write(DirectWrite),
}

pub(crate) type DirectRead = fn(Option<ValueRef<'_>>, &mut Writer<'_>) -> bool;
pub(crate) type DirectWrite = fn(&Keyspace, &mut Entry, Arguments<'_>, &mut Writer<'_>) -> bool;

impl Command {
    /// Returns whether [`Keyspace::execute_directly`] may run it.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }
}

impl Keyspace {
    /// Runs a command that needs only its key's entry and writes the reply, with the same effect as
    /// [`execute`](Self::execute). Returns false if `execute` must run it; nothing has been done
    /// then.
    ///
    /// `hash` is the hash of the key, argument 1, if it is known from [`prefetch`](Self::prefetch).
    #[inline]
    pub fn execute_directly(
        &self,
        command: &'static Command,
        hash: Option<KeyHash>,
        arguments: Arguments<'_>,
        database: usize,
        now_ms: i64,
        reply: &mut Writer<'_>,
    ) -> bool {
        let (Some(direct), Some(key)) = (command.direct, arguments.get(1)) else {
            return false;
        };
        let hash = hash.map_or_else(|| hash::of(key), |hash| hash.0);
        debug_assert_eq!(hash, hash::of(key), "the hash belongs to another key");
        let mut shard = self.shards[shard_of(hash)].lock();
        let shard = &mut *shard;
        let access = self.access();
        // Checked under the lock: a new listener first sets its flag and then takes the lock.
        let is_read = matches!(direct, Direct::Read(_));
        if self.is_heard(is_read) || access.counts() || self.mount_of(database, key).is_some() {
            return false;
        }
        let Some(dictionary) = shard.databases.get_mut(database) else {
            return false;
        };
        let table = &mut dictionary.table;
        let found = table.locate(hash, key);
        let used = access.initial(now_ms);
        match (direct, found) {
            (Direct::Read(read), Some((place, entry))) => {
                let deadline_ms = entry.deadline_ms();
                if deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms)
                    || !read(Some(ValueRef::at(entry, now_ms)), reply)
                {
                    return false;
                }
                shard.hits += 1;
                if entry.access() != used {
                    table.entry_mut(place).set_access(used);
                }
                true
            }
            (Direct::Read(read), None) => {
                let is_told = read(None, reply);
                shard.misses += u64::from(is_told);
                is_told
            }
            (Direct::Write(write), Some((place, entry))) => {
                if entry.is_live()
                    || entry.deadline_ms().is_some()
                    || shard.is_observed
                    || shard.mark.is_some()
                {
                    return false;
                }
                let entry = table.entry_mut(place);
                if !write(self, entry, arguments, reply) {
                    return false;
                }
                debug_assert!(
                    !ValueRef::at(entry, now_ms).is_emptied(),
                    "the last element is removed on the ordinary path"
                );
                entry.set_access(used);
                shard.changes += 1;
                true
            }
            (Direct::Write(_), None) => false,
        }
    }

    /// Returns whether reads and misses, or a write's changes, are reported to a client or a log.
    #[inline]
    fn is_heard(&self, is_read: bool) -> bool {
        self.tracking.load(Ordering::Relaxed) != 0
            || self.notifications.load(Ordering::Relaxed) != 0
            || (!is_read && self.propagation.is_wanted())
    }
}
