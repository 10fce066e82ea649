//! TTLs that clients of a replica have set. The master does not know them, so the replica must
//! expire these keys itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;

use super::Keyspace;
use crate::hash;
use crate::key::{Key, shard_of};
use crate::locks::Locked;
use crate::observer::Observer;
use crate::view::View;

/// The TTLs that clients of this replica have set.
#[derive(Debug)]
pub(crate) struct OwnDeadlines {
    /// Whether they are recorded: this server is a replica.
    is_on: AtomicBool,
    /// The earliest deadline, ms since the UNIX epoch; `i64::MAX` if there is none.
    earliest_ms: AtomicI64,
    keys: Mutex<Keys>,
}

#[derive(Debug, Default)]
struct Keys {
    deadlines: HashMap<Name, i64>,
    order: BTreeSet<(i64, Name)>,
}

/// A database and a key in it.
type Name = (usize, Box<[u8]>);

impl Default for OwnDeadlines {
    fn default() -> Self {
        OwnDeadlines {
            is_on: AtomicBool::new(false),
            earliest_ms: AtomicI64::new(i64::MAX),
            keys: Mutex::default(),
        }
    }
}

impl OwnDeadlines {
    /// Returns the earliest deadline. One relaxed load.
    #[inline]
    pub(super) fn earliest_ms(&self) -> i64 {
        self.earliest_ms.load(Ordering::Relaxed)
    }

    /// Returns whether deadlines are recorded. One relaxed load.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Records a key's deadline, replacing the previous one.
    #[cold]
    pub(crate) fn note(&self, database: usize, key: &[u8], deadline_ms: i64) {
        let mut keys = self.keys.lock();
        let name: Name = (database, key.into());
        if let Some(old_ms) = keys.deadlines.insert(name.clone(), deadline_ms) {
            let old = (old_ms, name);
            let was_there = keys.order.remove(&old);
            debug_assert!(was_there, "each deadline is in the order");
            keys.order.insert((deadline_ms, old.1));
        } else {
            keys.order.insert((deadline_ms, name));
        }
        self.publish(&keys);
    }

    fn forget_all(&self) {
        let mut keys = self.keys.lock();
        let old = std::mem::take(&mut *keys);
        self.publish(&keys);
        drop(keys);
        drop(old);
    }

    fn pop_due(&self, now_ms: i64) -> Option<Name> {
        let mut keys = self.keys.lock();
        let (deadline_ms, _) = keys.order.first()?;
        if *deadline_ms > now_ms {
            return None;
        }
        let (_, name) = keys.order.pop_first()?;
        let noted_ms = keys.deadlines.remove(&name);
        debug_assert!(noted_ms.is_some(), "each deadline in the order is recorded");
        self.publish(&keys);
        Some(name)
    }

    fn publish(&self, keys: &Keys) {
        debug_assert_eq!(keys.order.len(), keys.deadlines.len());
        let earliest_ms = keys.order.first().map_or(i64::MAX, |(ms, _)| *ms);
        self.earliest_ms.store(earliest_ms, Ordering::Relaxed);
    }
}

impl Keyspace {
    /// Sets whether TTLs from clients are recorded, because this server is a replica. It expires
    /// those keys itself, even while [`pause_expiry`](Self::pause_expiry) keeps all others. Earlier
    /// records are dropped.
    pub fn note_own_deadlines(&self, on: bool) {
        self.own_deadlines.is_on.store(on, Ordering::Relaxed);
        self.own_deadlines.forget_all();
    }

    /// Returns the number of keys whose TTL was set by clients of this replica.
    pub fn own_deadlines(&self) -> usize {
        self.own_deadlines.keys.lock().deadlines.len()
    }

    /// Drops all records, because all keys are removed.
    pub(super) fn forget_own_deadlines(&self) {
        self.own_deadlines.forget_all();
    }

    /// Removes up to `budget` keys whose own TTL has expired. Returns how many. A key that has
    /// another deadline by now, or none, stays.
    #[cold]
    pub(super) fn expire_own(
        &self,
        now_ms: i64,
        budget: usize,
        observer: &mut dyn Observer,
    ) -> usize {
        let mut count = 0;
        for _ in 0..budget {
            let Some((database, name)) = self.own_deadlines.pop_due(now_ms) else {
                break;
            };
            let hash = hash::of(&name);
            let key = Key { bytes: &name, hash };
            let mut locked = Locked::one(self, shard_of(hash));
            let mut view = View::new(self, &mut locked, database, now_ms, observer);
            if view.is_stale(key) {
                // `find` removes an expired key.
                view.find(key);
                count += 1;
            }
            self.release(locked, now_ms, observer);
        }
        count
    }
}
