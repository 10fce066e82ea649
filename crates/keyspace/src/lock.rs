//! The lock of a shard: locked by one atomic exchange, unlocked by a plain store.
//!
//! A command holds it for a few hundred nanoseconds, and with 256 shards two lanes rarely want the
//! same one. So the cost without contention matters most. A lock that wakes sleeping threads needs
//! a second atomic exchange to unlock, which waits for all earlier reads. Here, a waiting thread
//! polls, with growing pauses, so that unlocking is an ordinary store.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(loom))]
use crate::order;
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use parking_lot::lock_api::{self, GuardSend, RawMutex};

/// A value protected by a [`RawLock`].
#[cfg(not(loom))]
pub(crate) type Lock<T> = lock_api::Mutex<RawLock, T>;
/// The guard of a [`Lock`].
#[cfg(not(loom))]
pub(crate) type LockGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

// Loom's atomics cannot be constants, so the model tests the functions below.
#[cfg(loom)]
pub(crate) use parking_lot::{Mutex as Lock, MutexGuard as LockGuard};

/// The lock's state: whether a thread holds it.
#[cfg(not(loom))]
pub(crate) struct RawLock(AtomicBool);

// SAFETY: `lock`, and `try_lock` if it returns true, return only after an exchange from "free" to
// "held". Only the holder sets it back to "free".
#[cfg(not(loom))]
unsafe impl RawMutex for RawLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "an initial value")]
    const INIT: RawLock = RawLock(AtomicBool::new(false));

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        order::before_wait(self.address());
        if !take(&self.0) {
            wait(&self.0);
        }
        order::acquired(self.address());
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let taken = take(&self.0);
        if taken {
            order::acquired(self.address());
        }
        taken
    }

    // SAFETY: the caller holds the lock, as the trait requires; the store itself is safe.
    #[inline]
    unsafe fn unlock(&self) {
        debug_assert!(self.0.load(Ordering::Relaxed), "only the holder unlocks");
        order::released(self.address());
        release(&self.0);
    }
}

#[cfg(not(loom))]
impl RawLock {
    /// Returns the lock's address. Shards are in one slice, so the order of the addresses is the
    /// order of the shards.
    #[inline(always)]
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

#[inline]
fn take(is_held: &AtomicBool) -> bool {
    is_held
        .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

#[inline]
fn release(is_held: &AtomicBool) {
    is_held.store(false, Ordering::Release);
}

/// Returns how often a thread of this process waited for a locked shard.
#[cfg(not(loom))]
pub fn lock_waits() -> u64 {
    WAITS.load(Ordering::Relaxed)
}

#[cfg(not(loom))]
static WAITS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[cold]
fn wait(is_held: &AtomicBool) {
    #[cfg(not(loom))]
    WAITS.fetch_add(1, Ordering::Relaxed);
    let mut attempt = 0;
    loop {
        pause(attempt);
        attempt += 1;
        // A load leaves the cache line with the holder; an exchange would take it.
        if !is_held.load(Ordering::Relaxed) && take(is_held) {
            return;
        }
    }
}

/// Locks a shard that its holder lets go without waiting for another one. The thread may hold
/// later shards.
pub(crate) fn lock_when_free<T>(lock: &Lock<T>) -> LockGuard<'_, T> {
    let mut attempt = 0;
    loop {
        if let Some(guard) = lock.try_lock() {
            return guard;
        }
        pause(attempt);
        attempt += 1;
    }
}

/// Pauses before another attempt. Early attempts assume that a command holds the lock. Later ones
/// assume that the holder was descheduled, or that a long command or script holds it.
///
/// Lanes never wait for a script here, because they lock shards only while they have the right to
/// (decision 0038). A lane may wait for a long command of another lane, and for a thread that
/// writes a snapshot. It then yields instead of sleeping, so that it continues as soon as the shard
/// is free. Other threads sleep.
#[cfg(not(loom))]
fn pause(attempt: u64) {
    match attempt {
        0..SPINS => (0..1 << attempt).for_each(|_| std::hint::spin_loop()),
        SPINS..YIELDS => std::thread::yield_now(),
        _ if IS_LANE.get() => std::thread::yield_now(),
        _ => std::thread::sleep(NAP),
    }
}

#[cfg(not(loom))]
thread_local! {
    static IS_LANE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Marks this thread as a lane: it never sleeps while it waits for a shard.
#[cfg(not(loom))]
pub fn never_sleep() {
    IS_LANE.set(true);
}

/// Does nothing: threads do not sleep under loom.
#[cfg(loom)]
pub fn never_sleep() {}

/// Returns whether this thread [never sleeps](never_sleep).
#[cfg(not(loom))]
pub(crate) fn never_sleeps() -> bool {
    IS_LANE.get()
}

#[cfg(loom)]
fn pause(_attempt: u64) {
    loom::thread::yield_now();
}

/// Attempts with a spinning pause that doubles, up to one or two microseconds.
#[cfg(not(loom))]
const SPINS: u64 = 7;
/// Attempts after which a thread sleeps instead of yielding.
#[cfg(not(loom))]
const YIELDS: u64 = 32;
#[cfg(not(loom))]
const NAP: std::time::Duration = std::time::Duration::from_micros(50);

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    #[test]
    fn one_thread_at_a_time_holds_it_in_every_order() {
        loom::model(|| {
            let both = Arc::new((AtomicBool::new(false), UnsafeCell::new(0)));
            let raise = |both: &(AtomicBool, UnsafeCell<u32>)| {
                if !take(&both.0) {
                    wait(&both.0);
                }
                // Loom fails if two threads do this at once.
                both.1.with_mut(|_| ());
                release(&both.0);
            };
            let theirs = both.clone();
            let thread = loom::thread::spawn(move || raise(&theirs));
            raise(&both);
            thread.join().expect("it ended");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn one_thread_at_a_time_holds_it() {
        let count = Lock::new((0u64, 0u64));
        let rounds = if cfg!(miri) { 100 } else { 50_000 };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut both = count.lock();
                        both.0 += 1;
                        both.1 += 1;
                        assert_eq!(both.0, both.1);
                    }
                });
            }
        });
        assert_eq!(*count.lock(), (4 * rounds, 4 * rounds));
    }

    #[test]
    fn a_lane_waits_without_sleep_and_other_threads_may_sleep() {
        let lock = Lock::new(0);
        let mut held = lock.lock();
        thread::scope(|scope| {
            for is_lane in [true, false] {
                let lock = &lock;
                scope.spawn(move || {
                    if is_lane {
                        never_sleep();
                    }
                    assert_eq!(never_sleeps(), is_lane);
                    *lock.lock() += 1;
                });
            }
            thread::sleep(NAP * 20);
            *held += 1;
            drop(held);
        });
        assert_eq!(*lock.lock(), 3);
    }

    #[test]
    fn try_lock_fails_on_a_held_lock() {
        let lock = Lock::new(());
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }
}
