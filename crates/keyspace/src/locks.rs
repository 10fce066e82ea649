//! The shards that a command holds.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use crate::gate;
use crate::key::SHARDS;
use crate::keyspace::Keyspace;
use crate::lock::{LockGuard, lock_when_free};
use crate::propagation::{PendingUnit, Unit};
use crate::reclaim::Garbage;
use crate::shard::Shard;
use crate::waiting::{Ready, Waiter};

/// A set of shards. It is always iterated in ascending order, which is the lock order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet {
    bits: [u64; SHARDS / 64],
}

impl ShardSet {
    /// Returns a set without shards.
    pub const fn empty() -> Self {
        ShardSet {
            bits: [0; SHARDS / 64],
        }
    }

    /// Returns a set of all shards.
    pub const fn all() -> Self {
        ShardSet {
            bits: [u64::MAX; SHARDS / 64],
        }
    }

    /// Returns a set of one shard, below [`SHARDS`].
    pub(crate) fn only(shard: usize) -> Self {
        let mut set = ShardSet::empty();
        set.insert(shard);
        set
    }

    /// Adds a shard, below [`SHARDS`].
    #[inline]
    pub fn insert(&mut self, shard: usize) {
        debug_assert!(shard < SHARDS);
        self.bits[shard / 64] |= 1 << (shard % 64);
    }

    /// Adds the shards of another set.
    pub fn union(&mut self, other: &ShardSet) {
        self.bits
            .iter_mut()
            .zip(other.bits)
            .for_each(|(bits, other)| *bits |= other);
    }

    /// Returns whether a shard is in the set.
    #[inline]
    pub fn contains(&self, shard: usize) -> bool {
        self.bits[shard / 64] >> (shard % 64) & 1 != 0
    }

    /// Returns the number of shards.
    #[inline]
    pub fn len(&self) -> usize {
        self.bits
            .iter()
            .map(|bits| bits.count_ones() as usize)
            .sum()
    }

    /// Returns the shards that are not in the other set.
    pub(crate) fn without(&self, other: &ShardSet) -> ShardSet {
        let mut set = *self;
        let bits = set.bits.iter_mut().zip(other.bits);
        bits.for_each(|(bits, other)| *bits &= !other);
        set
    }

    /// Returns whether there are no shards.
    pub fn is_empty(&self) -> bool {
        self.bits == [0; SHARDS / 64]
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.bits.iter().enumerate().flat_map(|(word, &bits)| {
            let mut bits = bits;
            std::iter::from_fn(move || {
                let shard = (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(shard)
            })
        })
    }

    /// Returns how many shards of the set come before this one.
    fn rank(&self, shard: usize) -> usize {
        debug_assert!(self.contains(shard), "a rank is among those of the set");
        let below = self.bits[shard / 64] & ((1 << (shard % 64)) - 1);
        let words = self.bits[..shard / 64]
            .iter()
            .map(|bits| bits.count_ones() as usize);
        words.sum::<usize>() + below.count_ones() as usize
    }
}

/// Shards that stay locked until this value is dropped.
pub struct Locked<'k> {
    keyspace: &'k Keyspace,
    /// What is propagated for the commands that run. It is declared before the locks, so that it is
    /// dropped first, under the locks.
    pub(crate) pending: PendingUnit<'k>,
    guards: Guards<'k>,
    /// Work left for the end, if any. It is done after unlocking.
    left: Option<Box<Left>>,
    /// Whether accesses under these locks count as use of the keys.
    pub(crate) touches: bool,
    pub(crate) frees_behind: bool,
    /// Whether expired keys stay until a propagated command removes them.
    pub(crate) keeps_due: bool,
}

/// Work left for after unlocking. Few commands leave any.
#[derive(Default)]
struct Left {
    /// Changed keys that clients wait for.
    ready: VecDeque<Ready>,
    /// The hashes of these keys: most are new, and the queue may be long.
    ready_hashes: HashSet<u64>,
    /// Values that take long to free.
    garbage: Vec<Garbage>,
}

/// The state of a command that has unlocked its shards for a while.
pub struct Suspended<'k> {
    ready: VecDeque<Ready>,
    /// Changes that are still to be propagated.
    pending: Option<PendingUnit<'k>>,
}

impl<'k> Suspended<'k> {
    pub(crate) fn resume(self, locked: &mut Locked<'k>) {
        if let Some(pending) = self.pending {
            locked.pending = pending;
        }
        let ready = self.ready.into_iter();
        ready.for_each(|ready| locked.add_ready(ready));
    }
}

impl fmt::Debug for Suspended<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Suspended")
            .field(&self.ready)
            .finish()
    }
}

enum Guards<'k> {
    None,
    One(usize, LockGuard<'k, Shard>),
    Many(ShardSet, Vec<LockGuard<'k, Shard>>),
}

/// Creates it for several shards. Kept out of line, because most commands hold only one shard.
#[inline(never)]
fn of_many<'g>(
    set: &ShardSet,
    guards: &'g mut [LockGuard<'_, Shard>],
    shard: usize,
) -> &'g mut Shard {
    if !set.contains(shard) {
        not_locked(shard);
    }
    debug_assert_eq!(
        guards.len(),
        set.len(),
        "one guard for each shard of the set"
    );
    &mut guards[set.rank(shard)]
}

#[cold]
fn not_locked(shard: usize) -> ! {
    panic!("shard {shard} is not locked")
}

impl<'k> Locked<'k> {
    #[inline]
    pub(crate) fn one(keyspace: &'k Keyspace, shard: usize) -> Self {
        Locked {
            keyspace,
            pending: PendingUnit::new(keyspace),
            guards: Guards::One(shard, keyspace.shards[shard].lock()),
            left: None,
            touches: true,
            frees_behind: false,
            keeps_due: false,
        }
    }

    /// Returns the lock of a shard, if no other thread holds it.
    pub(crate) fn try_one(keyspace: &'k Keyspace, shard: usize) -> Option<Self> {
        let guard = keyspace.shards[shard].try_lock()?;
        Some(Locked {
            keyspace,
            pending: PendingUnit::new(keyspace),
            guards: Guards::One(shard, guard),
            left: None,
            touches: true,
            frees_behind: false,
            keeps_due: false,
        })
    }

    pub(crate) fn set(keyspace: &'k Keyspace, set: ShardSet) -> Self {
        let guards = match set.len() {
            0 => Guards::None,
            1 => return Locked::one(keyspace, set.iter().next().unwrap_or_default()),
            _ => {
                let _gate = keyspace.gate.enter();
                let lock = |shard: usize| keyspace.shards[shard].lock();
                Guards::Many(set, set.iter().map(lock).collect())
            }
        };
        Locked {
            keyspace,
            pending: PendingUnit::new(keyspace),
            guards,
            left: None,
            touches: true,
            frees_behind: false,
            keeps_due: false,
        }
    }

    /// Returns a locked shard. Panics if it is not locked: the command's declaration and its
    /// handler disagree about the keys.
    #[inline(always)]
    pub(crate) fn shard(&mut self, shard: usize) -> &mut Shard {
        match &mut self.guards {
            Guards::One(held, guard) => {
                if *held != shard {
                    not_locked(shard);
                }
                guard
            }
            Guards::Many(set, guards) => of_many(set, guards, shard),
            Guards::None => not_locked(shard),
        }
    }

    /// Returns whether all shards are locked here.
    #[inline]
    pub(crate) fn holds_all(&self) -> bool {
        matches!(&self.guards, Guards::Many(_, guards) if guards.len() == SHARDS)
    }

    /// Returns whether a shard is locked here.
    pub(crate) fn holds(&self, shard: usize) -> bool {
        match &self.guards {
            Guards::None => false,
            Guards::One(held, _) => *held == shard,
            Guards::Many(set, _) => set.contains(shard),
        }
    }

    /// Returns the shards that are locked here.
    fn held(&self) -> ShardSet {
        match &self.guards {
            Guards::None => ShardSet::empty(),
            Guards::One(shard, _) => ShardSet::only(*shard),
            Guards::Many(set, _) => *set,
        }
    }

    /// Returns a locked shard for reading, so that several can be borrowed.
    pub(crate) fn shard_ref(&self, shard: usize) -> &Shard {
        match &self.guards {
            Guards::One(held, guard) if *held == shard => guard,
            Guards::Many(set, guards) if set.contains(shard) => &guards[set.rank(shard)],
            _ => not_locked(shard),
        }
    }

    fn left(&mut self) -> &mut Left {
        self.left.get_or_insert_default()
    }

    /// Keeps a value until the locks are released.
    pub(crate) fn drop_later(&mut self, garbage: Garbage) {
        self.left().garbage.push(garbage);
    }

    /// Makes FLUSHALL and FLUSHDB free their contents in the background; [`Keyspace::when_freed`]
    /// reports the end.
    pub fn free_behind(&mut self) {
        self.frees_behind = true;
    }

    /// Makes the following accesses not count as use of the keys, as in CLIENT NO-TOUCH.
    pub fn leave_untouched(&mut self) {
        self.touches = false;
    }

    /// Keeps expired keys: the commands come from another server, which propagates itself when a
    /// key expires.
    pub fn keep_due(&mut self) {
        self.keeps_due = true;
    }

    /// Returns the unit of the commands that run under these locks, for adding to it. Needed only
    /// if changes [are propagated](crate::Propagation::is_wanted).
    pub fn unit(&mut self) -> &mut Unit {
        self.pending.unit()
    }

    /// Unlocks without serving clients that wait for changed keys; [`Keyspace::resume`] serves
    /// them. Propagates the changes so far as one unit.
    pub fn suspend(mut self) -> Suspended<'k> {
        Suspended {
            ready: self.take_ready(),
            pending: None,
        }
    }

    /// Unlocks likewise, but propagates the changes so far together with what follows. Until
    /// [`Keyspace::resume`], no other thread may change a key, or begin a snapshot or a stream.
    pub fn suspend_whole(mut self) -> Suspended<'k> {
        let pending = std::mem::replace(&mut self.pending, PendingUnit::new(self.keyspace));
        Suspended {
            ready: self.take_ready(),
            pending: Some(pending),
        }
    }

    fn take_ready(&mut self) -> VecDeque<Ready> {
        let left = self.left.as_mut();
        left.map_or(VecDeque::new(), |left| std::mem::take(&mut left.ready))
    }

    /// Records a changed key that a client waits for, once per key.
    pub(crate) fn add_ready(&mut self, ready: Ready) {
        let left = self.left();
        if left.ready_hashes.insert(ready.hash) || !left.ready.contains(&ready) {
            left.ready.push_back(ready);
        }
    }

    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        self.left
            .as_ref()
            .is_some_and(|left| !left.ready.is_empty())
    }

    pub(crate) fn next_ready(&mut self) -> Option<Ready> {
        let left = self.left.as_mut()?;
        let ready = left.ready.pop_front()?;
        left.ready_hashes.remove(&ready.hash);
        Some(ready)
    }

    pub(crate) fn waiters(
        &mut self,
        shard: usize,
        database: usize,
        key: &[u8],
    ) -> Vec<Arc<Waiter>> {
        let interests = &self.shard_ref(shard).interests[database];
        interests
            .as_ref()
            .map_or(Vec::new(), |interests| interests.waiters(key))
    }

    /// Adds a waiting client to the shards of its keys, which are locked.
    pub(crate) fn park(&mut self, waiter: &Arc<Waiter>) {
        debug_assert!(waiter.keys().all(|(shard, _)| self.holds(shard)));
        for (shard, key) in waiter.keys() {
            self.shard(shard)
                .interests(waiter.database)
                .park(key, waiter);
        }
    }

    /// Removes a waiting client from the shards of its keys, which are locked.
    pub(crate) fn unpark(&mut self, waiter: &Waiter) {
        for (shard, key) in waiter.keys() {
            let shard = self.shard(shard);
            if let Some(interests) = &mut shard.interests[waiter.database] {
                interests.unpark(key, waiter);
            }
            shard.tidy_interests(waiter.database);
        }
    }

    /// Locks more shards if that is possible without waiting; the order does not matter then.
    pub(crate) fn extend(&mut self, wanted: &ShardSet) -> bool {
        let mut held = self.held();
        let missing = wanted.without(&held);
        let mut more = Vec::new();
        for shard in missing.iter() {
            match self.keyspace.shards[shard].try_lock() {
                Some(guard) => more.push((shard, guard)),
                None => return false,
            }
        }
        if more.is_empty() {
            return true;
        }
        match std::mem::replace(&mut self.guards, Guards::None) {
            Guards::None => {}
            Guards::One(shard, guard) => more.push((shard, guard)),
            Guards::Many(set, guards) => more.extend(set.iter().zip(guards)),
        }
        more.sort_unstable_by_key(|(shard, _)| *shard);
        debug_assert!(
            more.is_sorted_by(|(one, _), (other, _)| one < other),
            "a shard is locked once"
        );
        held.union(&missing);
        debug_assert_eq!(held.len(), more.len());
        self.guards = Guards::Many(held, more.into_iter().map(|(_, guard)| guard).collect());
        true
    }

    /// Locks more shards, in any order. The thread has [`AnyOrder`], so that no other thread waits
    /// for a shard while it holds one: a shard that is not free is soon.
    pub(crate) fn cover(&mut self, wanted: &ShardSet) {
        let mut held = self.held();
        let missing = wanted.without(&held);
        if missing.is_empty() {
            return;
        }
        debug_assert!(
            gate::may_lock_in_any_order(),
            "shards are locked in any order with the right to only"
        );
        let lock = |shard: usize| lock_when_free(&self.keyspace.shards[shard]);
        if held.is_empty() && missing.len() == 1 {
            let shard = missing.iter().next().unwrap_or_default();
            self.guards = Guards::One(shard, lock(shard));
            return;
        }
        let mut guards = match std::mem::replace(&mut self.guards, Guards::None) {
            Guards::None => Vec::with_capacity(missing.len()),
            Guards::One(_, guard) => vec![guard],
            Guards::Many(_, guards) => guards,
        };
        for shard in missing.iter() {
            held.insert(shard);
            guards.insert(held.rank(shard), lock(shard));
        }
        debug_assert_eq!(guards.len(), held.len(), "a shard is locked once");
        self.guards = Guards::Many(held, guards);
    }

    /// Runs `visit` on a shard: on a locked one, or, if no shard is locked, on one locked just for
    /// this.
    pub(crate) fn visit<R>(&mut self, shard: usize, visit: impl FnOnce(&mut Shard) -> R) -> R {
        match &self.guards {
            Guards::None => visit(&mut self.keyspace.shards[shard].lock()),
            _ => visit(self.shard(shard)),
        }
    }
}

impl fmt::Debug for Locked<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.guards {
            Guards::None => formatter.write_str("Locked(none)"),
            Guards::One(shard, _) => write!(formatter, "Locked({shard})"),
            Guards::Many(set, _) => write!(formatter, "Locked({} shards)", set.len()),
        }
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod order_tests {
    use super::*;
    use crate::keyspace::Options;
    use crate::order::{assert_no_shard, bar_shards};

    fn panics(act: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(act).is_err()
    }

    #[test]
    fn waiting_for_a_shard_that_the_thread_holds_is_detected() {
        assert!(panics(|| {
            let keyspace = Keyspace::new(Options::default());
            let _first = Locked::one(&keyspace, 3);
            let _second = Locked::one(&keyspace, 3);
        }));
    }

    #[test]
    fn waiting_for_a_shard_out_of_order_is_detected() {
        assert!(panics(|| {
            let keyspace = Keyspace::new(Options::default());
            let _first = Locked::one(&keyspace, 3);
            let _second = Locked::one(&keyspace, 2);
        }));
        let keyspace = Keyspace::new(Options::default());
        let first = Locked::one(&keyspace, 2);
        let second = Locked::one(&keyspace, 3);
        drop((first, second));
        assert_no_shard("the test ends");
    }

    #[test]
    fn a_barred_thread_that_locks_a_shard_is_detected() {
        let keyspace = Keyspace::new(Options::default());
        bar_shards(true);
        assert!(panics(std::panic::AssertUnwindSafe(|| {
            drop(keyspace.lock(ShardSet::all()));
        })));
        bar_shards(false);
        drop(keyspace.lock(ShardSet::all()));
    }
}
