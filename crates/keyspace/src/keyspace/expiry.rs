//! Removal of expired keys and fields.

use std::sync::atomic::Ordering;

use super::Keyspace;
use crate::entry::Entry;
use crate::key::{DATABASES, SHARDS};
use crate::locks::Locked;
use crate::observer::Observer;

use crate::view::View;

/// The result of [`Keyspace::expire_due`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiredKeys {
    /// Number of removed keys.
    pub count: usize,
    /// Whether the budget was used up and more keys have expired.
    pub more: bool,
}

impl Keyspace {
    /// Returns when [`expire_due`](Self::expire_due) next has work, ms since the UNIX epoch; never
    /// later than the earliest deadline. Returns `None` if there are no deadlines. One atomic load.
    #[inline]
    pub fn next_deadline_ms(&self) -> Option<i64> {
        let earliest = self.earliest_ms.load(Ordering::Acquire);
        let due = earliest != i64::MAX && self.expires_actively.load(Ordering::Relaxed);
        due.then(|| {
            let paused_until_ms = self.expiry_paused_until_ms.load(Ordering::Relaxed);
            earliest
                .max(paused_until_ms)
                .min(self.own_deadlines.earliest_ms())
        })
    }

    /// Removes up to `budget` expired keys and hash fields. One atomic load if there are none.
    #[inline]
    pub fn expire_due(
        &self,
        now_ms: i64,
        budget: usize,
        observer: &mut dyn Observer,
    ) -> ExpiredKeys {
        if self.earliest_ms.load(Ordering::Acquire) > now_ms {
            return ExpiredKeys::default();
        }
        if self.own_deadlines.earliest_ms() <= now_ms && !self.is_loading() {
            let count = self.expire_own(now_ms, budget, observer);
            let more = count == budget;
            return ExpiredKeys { count, more };
        }
        if self.is_expiry_paused(now_ms) {
            return ExpiredKeys::default();
        }
        self.expire_shards(now_ms, budget, observer)
    }

    /// Sets whether [`expire_due`](Self::expire_due) removes anything: the setting of `DEBUG
    /// SET-ACTIVE-EXPIRE`, for tests. If not, an expired key is removed when it is accessed.
    pub fn set_active_expiry(&self, active: bool) {
        self.expires_actively.store(active, Ordering::Relaxed);
    }

    /// Sets whether RESTORE skips the check of a payload's checksum: the setting of `DEBUG
    /// SET-SKIP-CHECKSUM-VALIDATION`, for tests with damaged payloads.
    pub fn set_payload_trust(&self, trusts: bool) {
        self.trusts_payloads.store(trusts, Ordering::Relaxed);
    }

    pub(crate) fn trusts_payloads(&self) -> bool {
        self.trusts_payloads.load(Ordering::Relaxed)
    }

    /// Stops expiry until a time, ms since the UNIX epoch. Until then, expired keys stay, but
    /// commands that only read do not see them.
    pub fn pause_expiry(&self, until_ms: i64) {
        self.expiry_paused_until_ms
            .store(until_ms, Ordering::Relaxed);
    }

    /// Returns whether [`pause_expiry`](Self::pause_expiry) is in effect.
    pub(crate) fn is_expiry_paused(&self, now_ms: i64) -> bool {
        now_ms < self.expiry_paused_until_ms.load(Ordering::Relaxed) || self.is_loading()
    }

    /// Returns the number of hash fields that have expired since the last
    /// [`reset_totals`](Self::reset_totals).
    pub fn expired_fields(&self) -> u64 {
        self.expired_fields.load(Ordering::Relaxed)
    }

    /// Returns the number of hashes in one database that have fields with a TTL. Visits all shards.
    pub fn timed_hashes(&self, database: usize) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().databases[database].timed_hashes())
            .sum()
    }

    /// Returns the number of keys with a TTL in one database. Visits all shards.
    pub fn expiring_keys(&self, database: usize) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().databases[database].expiring())
            .sum()
    }

    /// Returns the mean remaining TTL in ms of some of the keys with a TTL in one database. Visits
    /// all shards.
    pub fn mean_lifetime_ms(&self, database: usize, now_ms: i64) -> i64 {
        let (mut count, mut sum_ms) = (0, 0i128);
        for shard in &self.shards {
            let shard = shard.lock();
            let dictionary = &shard.databases[database];
            if dictionary.expiring() > 0 {
                let some = dictionary.table.iter().take(LIFETIMES_SAMPLED);
                for deadline_ms in some.filter_map(Entry::deadline_ms) {
                    sum_ms += i128::from(deadline_ms.saturating_sub(now_ms).max(0));
                    count += 1;
                }
            }
        }
        (sum_ms / count.max(1)) as i64
    }

    /// Records that a shard has a deadline. The caller holds the shard's lock.
    pub(crate) fn note_deadline(&self, shard: usize, deadline_ms: i64) {
        if deadline_ms < self.next_ms[shard].load(Ordering::Relaxed) {
            self.next_ms[shard].store(deadline_ms, Ordering::Relaxed);
            self.earliest_ms.fetch_min(deadline_ms, Ordering::AcqRel);
        }
    }

    pub(crate) fn note_expired_fields(&self, count: usize) {
        self.expired_fields
            .fetch_add(count as u64, Ordering::Relaxed);
    }

    #[cold]
    fn expire_shards(
        &self,
        now_ms: i64,
        budget: usize,
        observer: &mut dyn Observer,
    ) -> ExpiredKeys {
        let mut expired = ExpiredKeys::default();
        if !self.expires_actively.load(Ordering::Relaxed) {
            return expired;
        }
        let mut left = budget;
        // A thread that adds a deadline first stores the shard's time and then lowers this one.
        // Either the loop below sees the shard's time, or this value is lowered again after the
        // loop began.
        self.earliest_ms.swap(i64::MAX, Ordering::AcqRel);
        let (mut due, mut count) = ([(0, 0); SHARDS], 0);
        for (index, next) in self.next_ms.iter().enumerate() {
            let next_ms = next.load(Ordering::SeqCst);
            if next_ms <= now_ms {
                due[count] = (next_ms, index);
                count += 1;
            }
        }
        // The shard with the earliest time goes first.
        due[..count].sort_unstable();
        for &(_, index) in &due[..count] {
            if left == 0 {
                break;
            }
            self.expire_shard(index, now_ms, &mut left, &mut expired, observer);
        }
        let mut earliest = i64::MAX;
        for next in &self.next_ms {
            let next = next.load(Ordering::SeqCst);
            expired.more |= next <= now_ms;
            earliest = earliest.min(next);
        }
        self.earliest_ms.fetch_min(earliest, Ordering::AcqRel);
        expired
    }

    /// Removes expired keys and fields of one shard, up to the remaining budget.
    fn expire_shard(
        &self,
        index: usize,
        now_ms: i64,
        left: &mut usize,
        expired: &mut ExpiredKeys,
        observer: &mut dyn Observer,
    ) {
        let mut locked = Locked::one(self, index);
        for database in 0..DATABASES {
            if !locked.shard(index).databases[database].has_deadlines() {
                continue;
            }
            let mut view = View::new(self, &mut locked, database, now_ms, observer);
            let keys = view.expire_keys(index, *left);
            debug_assert!(keys <= *left);
            expired.count += keys;
            *left -= keys;
            let fields = view.expire_fields(index, *left);
            debug_assert!(fields <= *left);
            *left -= fields;
        }
        self.next_ms[index].store(locked.shard(index).next_ms(), Ordering::SeqCst);
        if let Some(unit) = locked.pending.present() {
            unit.loosen();
        }
        self.release(locked, now_ms, observer);
    }
}

/// Maximum number of keys per shard to sample for the mean TTL.
const LIFETIMES_SAMPLED: usize = 64;
