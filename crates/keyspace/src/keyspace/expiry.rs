//! How what has a deadline comes to an end.

use std::sync::atomic::Ordering;

use super::Keyspace;
use crate::entry::Entry;
use crate::key::{DATABASES, SHARDS};
use crate::locks::Locked;
use crate::observer::Observer;

use crate::view::View;

/// What [`Keyspace::expire_due`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiredKeys {
    /// Keys removed.
    pub count: usize,
    /// The budget ended before the due keys did.
    pub more: bool,
}

impl Keyspace {
    /// When [`expire_due`](Self::expire_due) next has something to do, ms since the UNIX epoch;
    /// never later than the earliest deadline. `None` without deadlines. One atomic load.
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

    /// Removes expired keys and fields of hashes, at most `budget` of them. One atomic load if
    /// there are none.
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

    /// Whether [`expire_due`](Self::expire_due) removes anything: the setting of
    /// `DEBUG SET-ACTIVE-EXPIRE`, for tests. Without it what is due goes when it is asked for.
    pub fn set_active_expiry(&self, active: bool) {
        self.expires_actively.store(active, Ordering::Relaxed);
    }

    /// Whether RESTORE takes a payload's checksum as right: the setting of
    /// `DEBUG SET-SKIP-CHECKSUM-VALIDATION`, for tests of what a damaged payload does.
    pub fn set_payload_trust(&self, trusts: bool) {
        self.trusts_payloads.store(trusts, Ordering::Relaxed);
    }

    pub(crate) fn trusts_payloads(&self) -> bool {
        self.trusts_payloads.load(Ordering::Relaxed)
    }

    /// Lets nothing expire until a time, ms since the UNIX epoch. Until then, expired keys stay,
    /// but commands that only read do not see them.
    pub fn pause_expiry(&self, until_ms: i64) {
        self.expiry_paused_until_ms
            .store(until_ms, Ordering::Relaxed);
    }

    /// Whether [`pause_expiry`](Self::pause_expiry) holds now.
    pub(crate) fn is_expiry_paused(&self, now_ms: i64) -> bool {
        now_ms < self.expiry_paused_until_ms.load(Ordering::Relaxed) || self.is_loading()
    }

    /// Fields of hashes that were removed because of their deadlines, since the last
    /// [`reset_totals`](Self::reset_totals).
    pub fn expired_fields(&self) -> u64 {
        self.expired_fields.load(Ordering::Relaxed)
    }

    /// Hashes in one database whose fields have deadlines; walks the shards.
    pub fn timed_hashes(&self, database: usize) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().databases[database].timed_hashes())
            .sum()
    }

    /// Keys with a deadline in one database; walks the shards.
    pub fn expiring_keys(&self, database: usize) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().databases[database].expiring())
            .sum()
    }

    /// How long the keys of one database that have a deadline will still live, ms, on average over
    /// some of them; walks the shards.
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

    /// Says that a shard has a deadline; its lock is held.
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
        // A thread that adds a deadline stores the shard's time first and lowers this one second:
        // the walk below sees it, or this is lowered again after the walk began.
        self.earliest_ms.swap(i64::MAX, Ordering::AcqRel);
        let (mut due, mut count) = ([(0, 0); SHARDS], 0);
        for (index, next) in self.next_ms.iter().enumerate() {
            let next_ms = next.load(Ordering::SeqCst);
            if next_ms <= now_ms {
                due[count] = (next_ms, index);
                count += 1;
            }
        }
        // The shard that has waited longest goes first.
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

    /// Removes what is due in one shard, at most what is `left` of the budget.
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

/// Keys of a shard that are looked at for the mean lifetime.
const LIFETIMES_SAMPLED: usize = 64;
