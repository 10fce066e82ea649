//! Checks of a thread's lock order, in debug builds only.
//!
//! A thread never waits for a shard that it holds itself. It waits for several shards in ascending
//! order only. A thread that is barred from shards locks none; a lane is barred while a script may
//! be running elsewhere.

#[cfg(debug_assertions)]
mod checked {
    use std::cell::{Cell, RefCell};

    thread_local! {
        /// Addresses of the shard locks that this thread holds.
        static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
        static IS_BARRED: Cell<bool> = const { Cell::new(false) };
    }

    /// Sets whether this thread must lock no shard from now on.
    pub fn bar_shards(is_barred: bool) {
        IS_BARRED.set(is_barred);
    }

    /// Asserts that this thread holds no shard.
    pub fn assert_no_shard(what: &str) {
        let held = HELD.with_borrow(Vec::len);
        assert!(held == 0, "{what} while this thread holds {held} shards");
    }

    /// Checks the lock order before this thread locks the shard at `lock` and may wait for it.
    pub(crate) fn before_wait(lock: usize) {
        assert_not_barred();
        HELD.with_borrow(|held| {
            assert!(
                !held.contains(&lock),
                "this thread waits for a shard that it holds"
            );
            assert!(
                held.iter().all(|&other| other < lock),
                "this thread waits for a shard while it holds a later one"
            );
        });
    }

    /// Records that the thread has locked it, with or without waiting.
    pub(crate) fn acquired(lock: usize) {
        HELD.with_borrow_mut(|held| held.push(lock));
    }

    pub(crate) fn released(lock: usize) {
        HELD.with_borrow_mut(|held| {
            if let Some(at) = held.iter().rposition(|&other| other == lock) {
                held.swap_remove(at);
            }
        });
    }

    fn assert_not_barred() {
        assert!(
            !IS_BARRED.get() || std::thread::panicking(),
            "a lane locks a shard without its right to: a script may hold it"
        );
    }
}

#[cfg(debug_assertions)]
pub(crate) use checked::{acquired, before_wait, released};
#[cfg(debug_assertions)]
pub use checked::{assert_no_shard, bar_shards};

/// Sets whether this thread must lock no shard from now on.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn bar_shards(_is_barred: bool) {}

/// Asserts that this thread holds no shard.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn assert_no_shard(_what: &str) {}

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn before_wait(_lock: usize) {}

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn acquired(_lock: usize) {}

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn released(_lock: usize) {}
