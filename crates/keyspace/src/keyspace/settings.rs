//! Settings that can change while the keyspace is in use.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Keyspace, LOADING, LazyFreeing};
use crate::access::{Access, RecordedUse};
use crate::observer::EventClasses;
use crate::reclaim::{Cause, Garbage};
use crate::stream::ProducerLimits;
use crate::tracked::CHANGES_TIMED;

impl Keyspace {
    /// Sets the limits of packed hashes: the settings `hash-max-listpack-entries` and
    /// `hash-max-listpack-value`.
    pub fn set_hash_limits(&self, entries_max: usize, value_bytes_max: usize) {
        // A packed hash stays far below the 4 GiB that an entry can store.
        let entries_max = entries_max.min(crate::packed::FIELDS_MAX);
        let value_bytes_max = value_bytes_max.min(PACKED_VALUE_BYTES_MAX);
        self.hash_entries_max.store(entries_max, Ordering::Relaxed);
        self.hash_value_bytes_max
            .store(value_bytes_max, Ordering::Relaxed);
    }

    /// Sets the limits of small sets: the settings `set-max-intset-entries`,
    /// `set-max-listpack-entries` and `set-max-listpack-value`.
    pub fn set_set_limits(&self, integers_max: usize, entries_max: usize, value_bytes_max: usize) {
        let integers_max = integers_max.min(crate::integers::COUNT_MAX);
        let entries_max = entries_max.min(crate::elements::COUNT_MAX);
        let value_bytes_max = value_bytes_max.min(PACKED_VALUE_BYTES_MAX);
        self.set_integers_max.store(integers_max, Ordering::Relaxed);
        self.set_packed_max.store(entries_max, Ordering::Relaxed);
        self.set_packed_bytes_max
            .store(value_bytes_max, Ordering::Relaxed);
    }

    /// Sets the classes of events that [`Observer::notified`] receives.
    pub fn set_notifications(&self, classes: EventClasses) {
        let keep = |bits| Some(bits & LOADING | classes.bits());
        let set = |word: &AtomicU32| word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, keep);
        let _ = set(&self.notifications);
    }

    /// Sets what is recorded about the use of keys; for frequency with `lfu-log-factor` and
    /// `lfu-decay-time`. Earlier records are reinterpreted.
    pub fn set_access(&self, recorded: RecordedUse, log_factor: u32, decay_minutes: u32) {
        let access = Access::new(recorded, log_factor, decay_minutes);
        self.access.store(access.0, Ordering::Relaxed);
        // Changes then reach `View::touch`, and no command takes the direct path.
        match recorded {
            RecordedUse::ChangeTime => self.tracking.fetch_or(CHANGES_TIMED, Ordering::AcqRel),
            _ => self.tracking.fetch_and(!CHANGES_TIMED, Ordering::AcqRel),
        };
    }

    /// Sets whether OBJECT REFCOUNT treats small integers as shared. Redis shares them, unless a
    /// memory limit makes it record the use of each key.
    pub fn set_shares_integers(&self, shares: bool) {
        self.shares_integers.store(shares, Ordering::Relaxed);
    }

    /// Sets whether commands follow Valkey where it differs from Redis: the setting
    /// `compatibility`.
    pub fn set_follows_valkey(&self, follows: bool) {
        self.follows_valkey.store(follows, Ordering::Relaxed);
    }

    /// Returns whether commands follow Valkey where it differs from Redis.
    #[inline]
    pub fn follows_valkey(&self) -> bool {
        self.follows_valkey.load(Ordering::Relaxed)
    }

    /// Sets which large values are freed in the background.
    pub fn set_lazy_freeing(&self, lazy: LazyFreeing) {
        let causes = [
            (lazy.eviction, Cause::Eviction),
            (lazy.expiry, Cause::Expiry),
            (lazy.replacement, Cause::Replacement),
            (lazy.deletion, Cause::Deletion),
            (lazy.flush, Cause::Flush),
            (lazy.full_sync, Cause::FullSync),
        ];
        let bit = |(is_lazy, cause): (bool, Cause)| if is_lazy { cause as u8 } else { 0 };
        self.reclaimer.set_lazy(causes.into_iter().map(bit).sum());
    }

    /// Returns how many keys' values wait to be freed in the background, and how many were freed
    /// since the last [`reset_totals`](Self::reset_totals).
    pub fn lazily_freed(&self) -> (u64, u64) {
        (self.reclaimer.pending(), self.reclaimer.freed())
    }

    /// Frees on the calling thread what else the background thread would free: for a server whose
    /// steps must not depend on another thread. Must be called before anything is freed.
    pub fn free_at_once(&self) {
        self.reclaimer.free_at_once();
    }

    /// Frees another object on the background thread; it counts as `count` values.
    pub fn free_in_background(&self, other: Box<dyn Send>, count: u64) {
        self.reclaimer.free(Garbage::Other(other, count));
    }

    /// Calls `done` on the background thread when everything queued so far has been freed.
    pub fn when_freed(&self, done: Box<dyn FnOnce() + Send>) {
        self.reclaimer.free(Garbage::Mark(done));
    }

    /// Returns the setting of [`set_shares_integers`](Self::set_shares_integers).
    pub(crate) fn shares_integers(&self) -> bool {
        self.shares_integers.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn access(&self) -> Access {
        Access(self.access.load(Ordering::Relaxed))
    }

    /// Returns the classes of events that [`Observer::notified`] receives.
    #[inline]
    pub fn notifications(&self) -> EventClasses {
        EventClasses::from_bits(self.notifications.load(Ordering::Relaxed) & !LOADING)
    }

    /// Returns the same word with the [`LOADING`] bit.
    #[inline]
    pub(crate) fn notifications_and_loading(&self) -> EventClasses {
        EventClasses::from_bits(self.notifications.load(Ordering::Relaxed))
    }

    /// Sets the limits of small sorted sets: the settings `zset-max-listpack-entries` and
    /// `zset-max-listpack-value`.
    pub fn set_sorted_set_limits(&self, entries_max: usize, value_bytes_max: usize) {
        let entries_max = entries_max.min(crate::sorted_set::COUNT_MAX);
        let value_bytes_max = value_bytes_max.min(PACKED_VALUE_BYTES_MAX);
        self.sorted_set_entries_max
            .store(entries_max, Ordering::Relaxed);
        self.sorted_set_value_bytes_max
            .store(value_bytes_max, Ordering::Relaxed);
    }

    /// Sets the limit of a list's chunk: the setting `list-max-listpack-size`, in elements, or a
    /// size class if it is negative.
    pub fn set_list_limit(&self, listpack_size: i32) {
        let (bytes_max, count_max) = match usize::try_from(listpack_size) {
            Ok(count) => (LIST_BYTES_MAX, count.max(1)),
            Err(_) => {
                let class = listpack_size.unsigned_abs().min(5);
                (2048 << class, usize::MAX)
            }
        };
        self.list_bytes_max.store(bytes_max, Ordering::Relaxed);
        self.list_count_max.store(count_max, Ordering::Relaxed);
    }

    /// Sets whether DEBUG OBJECT reports lists as compressed, as `list-compress-depth` requests.
    /// They are never compressed: their chunks are small.
    pub fn set_claims_compression(&self, claims: bool) {
        self.claims_compression.store(claims, Ordering::Relaxed);
    }

    pub(crate) fn claims_compression(&self) -> bool {
        self.claims_compression.load(Ordering::Relaxed)
    }

    /// Sets the maximum size of a sparse HyperLogLog: the setting `hll-sparse-max-bytes`.
    pub fn set_hyperloglog_limit(&self, sparse_bytes_max: usize) {
        self.hyperloglog_sparse_bytes_max
            .store(sparse_bytes_max, Ordering::Relaxed);
    }

    pub(crate) fn hyperloglog_sparse_bytes_max(&self) -> usize {
        self.hyperloglog_sparse_bytes_max.load(Ordering::Relaxed)
    }

    /// Sets for how long, and for how many entries, new streams remember what a producer has sent:
    /// the settings `stream-idmp-duration` (seconds) and `stream-idmp-maxsize`.
    pub fn set_producer_limits(&self, duration_s: u32, entries_max: u32) {
        let limits = u64::from(duration_s) << 32 | u64::from(entries_max);
        self.producer_limits.store(limits, Ordering::Relaxed);
    }

    /// Notes that a stream has what only the newest form of streams stores.
    pub(crate) fn note_producers(&self) {
        if !self.has_producers.load(Ordering::Relaxed) {
            self.has_producers.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the setting of [`set_producer_limits`](Self::set_producer_limits).
    pub(crate) fn producer_limits(&self) -> ProducerLimits {
        let limits = self.producer_limits.load(Ordering::Relaxed);
        ProducerLimits {
            duration_s: (limits >> 32) as u32,
            entries_max: limits as u32,
        }
    }

    /// Sets the limits of a stream's block: the settings `stream-node-max-bytes` and
    /// `stream-node-max-entries`.
    pub fn set_stream_limits(&self, bytes_max: usize, entries_max: usize) {
        self.stream_node_bytes_max
            .store(bytes_max, Ordering::Relaxed);
        self.stream_node_entries_max
            .store(entries_max, Ordering::Relaxed);
    }
}

/// Maximum length of a packed field or value, under any setting.
const PACKED_VALUE_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes of a list's chunk if the setting counts elements.
const LIST_BYTES_MAX: usize = 8 << 10;
