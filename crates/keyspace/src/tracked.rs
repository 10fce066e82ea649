//! Keys that clients have cached, and the clients to notify when they change.
//!
//! Each shard has its own part, by name regardless of the database, as in Redis. A shard without
//! tracked keys has no extra cost: the write path checks one flag anyway.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;

/// The tracked keys of one shard.
#[derive(Debug, Default)]
pub(crate) struct TrackedKeys {
    keys: HashMap<Box<[u8]>, Trackers, RandomState>,
}

/// The clients that have read a key, by number, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trackers(Vec<u64>);

/// Totals over all shards.
#[derive(Debug, Default)]
pub(crate) struct TrackingTotals {
    pub(crate) keys: AtomicU64,
    pub(crate) items: AtomicU64,
}

impl Trackers {
    /// Returns a single client.
    pub(crate) fn one(client: u64) -> Self {
        Trackers(vec![client])
    }

    /// Returns the clients' numbers.
    pub fn clients(&self) -> &[u64] {
        &self.0
    }
}

impl TrackedKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Records that a client has read a key.
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
            debug_assert!(at == 0 || trackers.0[at - 1] < client, "clients ascend");
            totals.items.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes and returns the trackers of a changed key: each is notified once until it reads the
    /// key again.
    pub(crate) fn take(&mut self, key: &[u8], totals: &TrackingTotals) -> Option<Trackers> {
        let trackers = self.keys.remove(key)?;
        debug_assert!(
            !trackers.0.is_empty(),
            "a key without a tracker is not kept"
        );
        totals.forget(1, trackers.0.len());
        Some(trackers)
    }

    /// Removes and returns any key with its clients.
    pub(crate) fn take_any(&mut self, totals: &TrackingTotals) -> Option<(Box<[u8]>, Trackers)> {
        // A random one: the map's hash has its own random seed.
        let name = self.keys.keys().next()?.clone();
        let trackers = self.take(&name, totals)?;
        if self.keys.capacity() > 4 * self.keys.len().max(16) {
            self.keys.shrink_to_fit();
        }
        Some((name, trackers))
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self, totals: &TrackingTotals) {
        let items = self.keys.values().map(|trackers| trackers.0.len()).sum();
        totals.forget(self.keys.len(), items);
        self.keys = HashMap::default();
    }

    /// Removes disconnected clients.
    pub(crate) fn retain(&mut self, is_there: &dyn Fn(u64) -> bool, totals: &TrackingTotals) {
        self.keys.retain(|_, trackers| {
            let before = trackers.0.len();
            trackers.0.retain(|&client| is_there(client));
            debug_assert!(before > 0, "a key without a tracker is not kept");
            let gone = trackers.0.is_empty();
            totals.forget(usize::from(gone), before - trackers.0.len());
            !gone
        });
    }
}

impl TrackingTotals {
    pub(crate) fn forget(&self, keys: usize, items: usize) {
        let keys_before = self.keys.fetch_sub(keys as u64, Ordering::Relaxed);
        let items_before = self.items.fetch_sub(items as u64, Ordering::Relaxed);
        debug_assert!(keys_before >= keys as u64, "removed keys were counted");
        debug_assert!(items_before >= items as u64);
    }
}

/// A bit: a client tracks reads.
pub(crate) const READS_TRACKED: u32 = 1;
/// A bit: a client wants to be notified of every change.
pub(crate) const CHANGES_TOLD: u32 = 2;
/// A bit: the time of a key's last change is recorded.
pub(crate) const CHANGES_TIMED: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_match_the_tracked_keys() {
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
