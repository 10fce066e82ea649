//! The right of one thread to lock shards in any order.
//!
//! Shards are locked in ascending order, so that two threads that need several never wait for each
//! other. A script does not know which shards it will need. While its lane runs it, no other lane
//! locks a shard; other threads may. So it takes this right for as long as it runs, and a thread
//! that is no lane passes the gate to lock several shards: meanwhile, a script holds none.
//! Threads that hold one shard wait for no other.
//!
//! A script keeps what it has locked until it ends. So what other threads do at the same time, with
//! one shard each or with several behind the gate, is as if it had been done before or after it.

use std::cell::Cell;

use parking_lot::{Mutex, MutexGuard};

use crate::lock::never_sleeps;

/// Who may lock several shards.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<()>);

/// The right to lock shards in any order, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct AnyOrder<'k> {
    _entered: MutexGuard<'k, ()>,
}

thread_local! {
    static MAY_LOCK: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread has the right.
pub(crate) fn may_lock_in_any_order() -> bool {
    MAY_LOCK.get()
}

impl Gate {
    /// Takes the right, unless another thread has it or locks several shards.
    pub(crate) fn try_take(&self) -> Option<AnyOrder<'_>> {
        debug_assert!(!MAY_LOCK.get(), "a thread takes the right once");
        let _entered = self.0.try_lock()?;
        MAY_LOCK.set(true);
        Some(AnyOrder { _entered })
    }

    /// Waits until no other thread has the right. A lane does not wait: it has been asked to lock
    /// nothing while a script runs.
    #[inline]
    pub(crate) fn enter(&self) -> Option<MutexGuard<'_, ()>> {
        match never_sleeps() || MAY_LOCK.get() {
            true => None,
            false => Some(self.0.lock()),
        }
    }
}

impl Drop for AnyOrder<'_> {
    fn drop(&mut self) {
        debug_assert!(MAY_LOCK.get(), "the right ends once, on its thread");
        MAY_LOCK.set(false);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use crate::key::SHARDS;
    use crate::locks::ShardSet;
    use crate::order::assert_no_shard;
    use crate::{Keyspace, Options};

    #[test]
    fn shards_are_added_in_any_order_and_stay() {
        let keyspace = Keyspace::new(Options::default());
        let right = keyspace.any_order().expect("no other thread is there");
        let mut locked = keyspace.lock(ShardSet::empty());
        for shard in [200, 3, 77, 3, 0] {
            locked.cover(&ShardSet::only(shard));
            assert!(locked.holds(shard));
            assert!(keyspace.shards[shard].try_lock().is_none());
        }
        for shard in [200, 3, 77, 0] {
            locked.shard(shard).hits += shard as u64;
        }
        assert!(keyspace.shards[4].try_lock().is_some());
        locked.cover(&ShardSet::all());
        assert!(locked.holds_all());
        let hits = |shard| locked.shard_ref(shard).hits;
        assert_eq!((0..SHARDS).map(hits).sum::<u64>(), 280);
        drop(locked);
        drop(right);
        assert_no_shard("the test ends");
    }

    /// It would hold early shards and wait for a later one, whose holder needs an early one.
    #[test]
    fn a_thread_that_needs_several_shards_waits_for_the_right_before_it_locks_one() {
        let keyspace = Arc::new(Keyspace::new(Options::default()));
        let right = keyspace.any_order().expect("no other thread is there");
        let mut locked = keyspace.lock(ShardSet::empty());
        locked.cover(&ShardSet::only(SHARDS - 1));
        let (begins, has_begun) = channel();
        let other = keyspace.clone();
        let thread = std::thread::spawn(move || {
            begins.send(()).expect("the test goes on");
            drop(other.lock(ShardSet::all()));
            drop(other.any_order().expect("the script has ended"));
        });
        has_begun.recv().expect("it begins");
        (0..SHARDS).for_each(|shard| locked.cover(&ShardSet::only(shard)));
        drop(locked);
        drop(right);
        thread.join().expect("it has waited, and gone on");
    }

    #[test]
    fn the_right_is_refused_while_another_thread_has_it() {
        let keyspace = Keyspace::new(Options::default());
        let right = keyspace.any_order();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| keyspace.any_order().is_none());
            assert!(other.join().expect("it does not wait"));
        });
        drop(right);
        assert!(keyspace.any_order().is_some());
    }
}
