//! Keys that clients have in caches of their own: who must hear when one of them changes.
//!
//! A shard keeps its own part, by name and not by database, as Redis does. A shard without any
//! pays with the look at the flag that it looks at anyway.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use tidewire_resp::Arguments;

use crate::command::Command;
use crate::key::{SHARDS, shard_of};
use crate::keyspace::Keyspace;

use crate::observer::{Changer, Observer};
use crate::shard::Shard;
use crate::view::View;

/// The tracked keys of one shard.
#[derive(Debug, Default)]
pub(crate) struct TrackedKeys {
    keys: HashMap<Box<[u8]>, Trackers, RandomState>,
}

/// Clients that have read a key, by number, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trackers(Vec<u64>);

/// What all shards track.
#[derive(Debug, Default)]
pub(crate) struct TrackingTotals {
    keys: AtomicU64,
    items: AtomicU64,
}

impl Trackers {
    /// One client alone.
    pub(crate) fn one(client: u64) -> Self {
        Trackers(vec![client])
    }

    /// The clients' numbers.
    pub fn clients(&self) -> &[u64] {
        &self.0
    }
}

impl TrackedKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// A client has read a key.
    pub(crate) fn add(&mut self, key: &[u8], client: u64, totals: &TrackingTotals) {
        let trackers = match self.keys.get_mut(key) {
            Some(trackers) => trackers,
            None => {
                totals.keys.fetch_add(1, Ordering::Relaxed);
                self.keys
                    .entry(key.into())
                    .or_insert_with(|| Trackers(Vec::with_capacity(1)))
            }
        };
        if let Err(at) = trackers.0.binary_search(&client) {
            trackers.0.insert(at, client);
            totals.items.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A key has changed: who has read it is told once, and no more until he reads it again.
    pub(crate) fn take(&mut self, key: &[u8], totals: &TrackingTotals) -> Option<Trackers> {
        let trackers = self.keys.remove(key)?;
        totals.forget(1, trackers.0.len());
        Some(trackers)
    }

    /// Any key with its clients.
    fn take_any(&mut self, totals: &TrackingTotals) -> Option<(Box<[u8]>, Trackers)> {
        // A random one, for the table's hash has a seed of its own.
        let name = self.keys.keys().next()?.clone();
        let trackers = self.take(&name, totals)?;
        if self.keys.capacity() > 4 * self.keys.len().max(16) {
            self.keys.shrink_to_fit();
        }
        Some((name, trackers))
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, totals: &TrackingTotals) {
        let items = self.keys.values().map(|trackers| trackers.0.len()).sum();
        totals.forget(self.keys.len(), items);
        self.keys = HashMap::default();
    }

    /// Forgets clients that have left.
    fn retain(&mut self, is_there: &dyn Fn(u64) -> bool, totals: &TrackingTotals) {
        self.keys.retain(|_, trackers| {
            let before = trackers.0.len();
            trackers.0.retain(|&client| is_there(client));
            let gone = trackers.0.is_empty();
            totals.forget(usize::from(gone), before - trackers.0.len());
            !gone
        });
    }
}

impl TrackingTotals {
    fn forget(&self, keys: usize, items: usize) {
        self.keys.fetch_sub(keys as u64, Ordering::Relaxed);
        self.items.fetch_sub(items as u64, Ordering::Relaxed);
    }
}

impl Keyspace {
    /// Lets [`Observer::modified`] hear of every change of a key, and asks [`Observer::reader`]
    /// who reads, or neither.
    pub fn set_tracking(&self, reads: bool, changes: bool) {
        let bits = (u32::from(reads) * READS_TRACKED) | (u32::from(changes) * CHANGES_TOLD);
        self.tracking.store(bits, Ordering::Release);
    }

    /// Keys that clients track now.
    #[inline]
    pub fn tracked_keys(&self) -> u64 {
        self.tracking_totals.keys.load(Ordering::Relaxed)
    }

    /// Pairs of a tracked key and a client that tracks it.
    pub fn tracked_items(&self) -> u64 {
        self.tracking_totals.items.load(Ordering::Relaxed)
    }

    /// Forgets tracked keys until there are at most `keys_max`; their clients are told as if they
    /// had changed.
    pub fn limit_tracking(&self, keys_max: u64, observer: &mut dyn Observer) {
        let first = self.random() as usize % self.shards.len();
        // From each shard in turn, so that it is not always the same that lose theirs.
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

    /// Forgets clients that have left in one shard, which is any number.
    pub fn sweep_tracking(&self, shard: usize, is_there: &dyn Fn(u64) -> bool) {
        let mut shard = self.shards[shard % self.shards.len()].lock();
        if let Some(tracked) = &mut shard.tracked {
            tracked.retain(is_there, &self.tracking_totals);
            shard.tidy_tracked();
        }
    }
}

impl Shard {
    /// The tracked keys, to add one.
    pub(crate) fn tracked(&mut self) -> &mut TrackedKeys {
        self.is_observed = true;
        self.tracked.get_or_insert_default()
    }

    /// Takes out who tracks a key that has changed.
    pub(crate) fn take_trackers(
        &mut self,
        key: &[u8],
        totals: &TrackingTotals,
    ) -> Option<Trackers> {
        let trackers = self.tracked.as_mut()?.take(key, totals);
        self.tidy_tracked();
        trackers
    }

    /// Drops the table of tracked keys if it is empty.
    pub(crate) fn tidy_tracked(&mut self) {
        if self
            .tracked
            .as_ref()
            .is_some_and(|tracked| tracked.is_empty())
        {
            self.tracked = None;
            self.settle_observed();
        }
    }
}

impl View<'_, '_> {
    /// Whether somebody wants to know who reads what.
    #[inline]
    pub(crate) fn tells_reads(&self) -> bool {
        self.tracking & READS_TRACKED != 0
    }

    /// Remembers who has read the keys of a command that only reads.
    #[cold]
    pub(crate) fn remember_reads(&mut self, command: &'static Command, arguments: Arguments<'_>) {
        if !command.has_flag("readonly") || command.has_flag("pubsub") {
            return;
        }
        let Some(reader) = self.observer.reader() else {
            return;
        };
        for at in command.key_positions(arguments) {
            let key = self.key(&arguments[at]);
            if self.keyspace.mount_of(self.database, key.bytes).is_some() {
                // It changes all the time: who has read it must not keep it.
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

    /// Nobody may use what he has read of any key.
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

/// Somebody wants to know who reads what.
pub(crate) const READS_TRACKED: u32 = 1;
/// Somebody wants to hear of every change.
pub(crate) const CHANGES_TOLD: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_follow_what_is_tracked() {
        let totals = TrackingTotals::default();
        let mut tracked = TrackedKeys::default();
        for (key, client) in [(b"a", 3), (b"a", 1), (b"a", 3), (b"b", 2)] {
            tracked.add(key, client, &totals);
        }
        let counts = |totals: &TrackingTotals| {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            (read(&totals.keys), read(&totals.items))
        };
        assert_eq!(counts(&totals), (2, 3));
        tracked.retain(&|client| client != 2, &totals);
        assert_eq!(counts(&totals), (1, 2));
        assert_eq!(tracked.take(b"a", &totals), Some(Trackers(vec![1, 3])));
        assert_eq!(tracked.take(b"a", &totals), None);
        assert_eq!(counts(&totals), (0, 0));
        tracked.add(b"c", 1, &totals);
        tracked.clear(&totals);
        assert_eq!(counts(&totals), (0, 0));
        assert!(tracked.is_empty());
    }
}
