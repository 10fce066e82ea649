//! Records, by shard, which clients have read a key; see [`tracked`](crate::tracked).

use std::sync::atomic::Ordering;

use tidewire_resp::Arguments;

use super::View;
use crate::command::{Command, Flags};
use crate::key::{SHARDS, shard_of};
use crate::keyspace::Keyspace;
use crate::observer::{Changer, Observer};
use crate::shard::Shard;
use crate::tracked::{CHANGES_TIMED, CHANGES_TOLD, READS_TRACKED, Trackers};

impl Keyspace {
    /// Sets whether [`Observer::reader`] is asked for the reading client, and whether
    /// [`Observer::modified`] receives every change of a key.
    pub fn set_tracking(&self, reads: bool, changes: bool) {
        let bits = (u32::from(reads) * READS_TRACKED) | (u32::from(changes) * CHANGES_TOLD);
        let keep = |before| Some(before & CHANGES_TIMED | bits);
        let _ = self
            .tracking
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, keep);
    }

    /// Returns the number of tracked keys.
    #[inline]
    pub fn tracked_keys(&self) -> u64 {
        self.tracking_totals.keys.load(Ordering::Relaxed)
    }

    /// Returns the number of pairs of a tracked key and a client.
    pub fn tracked_items(&self) -> u64 {
        self.tracking_totals.items.load(Ordering::Relaxed)
    }

    /// Stops tracking keys until there are at most `keys_max`, and invalidates them at their
    /// clients.
    pub fn limit_tracking(&self, keys_max: u64, observer: &mut dyn Observer) {
        let first = self.random() as usize % self.shards.len();
        // Takes turns between shards, so that it does not always affect the same keys.
        while self.tracked_keys() > keys_max {
            let before = self.tracked_keys();
            for number in 0..self.shards.len() {
                if self.tracked_keys() <= keys_max {
                    return;
                }
                let mut shard = self.shards[(first + number) % self.shards.len()].lock();
                let taken = shard
                    .tracked
                    .as_mut()
                    .and_then(|tracked| tracked.take_any(&self.tracking_totals));
                if let Some((name, trackers)) = taken {
                    observer.invalidated(&name, &trackers, Changer::Server);
                    shard.tidy_tracked();
                }
            }
            if self.tracked_keys() >= before {
                return;
            }
        }
    }

    /// Tells clients that track or have read a topic of a shared mount that it has changed. Costs
    /// one relaxed load if there are none.
    pub(crate) fn tell_caches(&self, shard: &mut Shard, key: &[u8], observer: &mut dyn Observer) {
        let tracking = self.tracking.load(Ordering::Relaxed);
        if tracking & (READS_TRACKED | CHANGES_TOLD) == 0 {
            return;
        }
        if let Some(trackers) = shard.take_trackers(key, &self.tracking_totals) {
            observer.invalidated(key, &trackers, Changer::Server);
        }
        if tracking & CHANGES_TOLD != 0 {
            observer.modified(key, Changer::Server);
        }
    }

    /// Removes disconnected clients in one shard; `shard` may be any number.
    pub fn sweep_tracking(&self, shard: usize, is_there: &dyn Fn(u64) -> bool) {
        let mut shard = self.shards[shard % self.shards.len()].lock();
        if let Some(tracked) = &mut shard.tracked {
            tracked.retain(is_there, &self.tracking_totals);
            shard.tidy_tracked();
        }
    }
}

impl View<'_, '_> {
    /// Returns whether a client tracks reads.
    #[inline]
    pub(crate) fn tracks_reads(&self) -> bool {
        self.tracking & READS_TRACKED != 0
    }

    /// Records the client that has read the keys of a read-only command.
    #[cold]
    pub(crate) fn remember_reads(&mut self, command: &'static Command, arguments: Arguments<'_>) {
        if !command.has(Flags::READONLY) || command.has(Flags::PUBSUB) {
            return;
        }
        let Some(reader) = self.observer.reader() else {
            return;
        };
        for at in command.key_positions(arguments) {
            let key = self.key(&arguments[at]);
            let mount = self.keyspace.mount_of(self.database, key.bytes);
            if mount.is_some_and(|mount| !mount.tells_changes()) {
                // It changes all the time, so a client must not cache it.
                let trackers = Trackers::one(reader);
                self.observer
                    .invalidated(key.bytes, &trackers, Changer::Server);
            } else if self.locked.holds(shard_of(key.hash)) {
                let shard = self.locked.shard(shard_of(key.hash));
                let totals = &self.keyspace.tracking_totals;
                shard.tracked().add(key.bytes, reader, totals);
            }
        }
    }

    /// Invalidates all keys cached by clients.
    pub(crate) fn forget_reads(&mut self) {
        let totals = &self.keyspace.tracking_totals;
        if self.keyspace.tracked_keys() > 0 {
            for shard in 0..SHARDS {
                self.locked.visit(shard, |shard| {
                    if let Some(tracked) = &mut shard.tracked {
                        tracked.clear(totals);
                        shard.tidy_tracked();
                    }
                });
            }
        }
        self.observer.flushed();
    }
}
