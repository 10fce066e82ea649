//! The lock of the master's stream, which a lane can bar without waiting for it.
//!
//! Threads hold it for a moment: to execute a command of the master, or to begin a snapshot. A lane
//! never waits for a thread. It sets the bar first, and then checks whether a thread holds the
//! lock. A thread takes the lock first, and then checks the bar. One of them sees the other.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use parking_lot::{Mutex, MutexGuard};

use crate::lane_waits::before_wait;

/// Held as long as this is there. Empty on a thread that [keeps](StreamLock::keep) the lock.
#[derive(Debug)]
pub(crate) struct StreamGuard<'a>(
    #[allow(dead_code, reason = "its end matters")] Option<MutexGuard<'a, ()>>,
);

/// The stream stands still, over several [holds](StreamLock::hold) of this thread.
#[derive(Debug)]
pub(crate) struct KeptStream<'a> {
    lock: &'a StreamLock,
    _held: MutexGuard<'a, ()>,
}

#[derive(Debug, Default)]
pub(crate) struct StreamLock {
    lock: Mutex<()>,
    /// The thread that keeps it, by number; 0 for none.
    kept_by: AtomicU64,
    /// The thread that lets no other hold it, by number; 0 for none.
    barred_by: AtomicU64,
}

impl StreamLock {
    pub(super) fn hold(&self) -> StreamGuard<'_> {
        before_wait();
        if self.kept_by.load(Ordering::SeqCst) == own_number() {
            return StreamGuard(None);
        }
        loop {
            let held = lock(&self.lock);
            let barred_by = self.barred_by.load(Ordering::SeqCst);
            if barred_by == 0 || barred_by == own_number() {
                return StreamGuard(Some(held));
            }
            drop(held);
            pause();
        }
    }

    /// For a lane, which has its right and so is barred by none.
    pub(super) fn hold_soon(&self, time_max: Duration) -> Option<StreamGuard<'_>> {
        before_wait();
        lock_soon(&self.lock, time_max).map(|held| StreamGuard(Some(held)))
    }

    /// Holds it for a lane as `hold_soon` does, and lets this thread hold it again meanwhile.
    pub(super) fn keep(&self, time_max: Duration) -> Option<KeptStream<'_>> {
        before_wait();
        let held = lock_soon(&self.lock, time_max)?;
        let before = self.kept_by.swap(own_number(), Ordering::SeqCst);
        debug_assert_eq!(before, 0, "one thread keeps it at a time");
        Some(KeptStream {
            lock: self,
            _held: held,
        })
    }

    /// Bars it. Returns false, and bars nothing, if a thread holds it.
    pub(super) fn bar(&self) -> bool {
        debug_assert!(
            self.barred_by.load(Ordering::SeqCst) == 0,
            "one bars it at a time"
        );
        // A thread that takes the lock from now on sees it.
        self.barred_by.store(own_number(), Ordering::SeqCst);
        let is_free = is_free(&self.lock);
        if !is_free {
            self.unbar();
        }
        is_free
    }

    pub(super) fn unbar(&self) {
        debug_assert!(
            self.barred_by.load(Ordering::SeqCst) == 0 || self.is_barred_here(),
            "nobody ends what another thread bars"
        );
        self.barred_by.store(0, Ordering::SeqCst);
    }

    /// Whether some thread holds it.
    pub(super) fn is_held(&self) -> bool {
        !is_free(&self.lock)
    }

    pub(super) fn is_barred_here(&self) -> bool {
        self.barred_by.load(Ordering::SeqCst) == own_number()
    }
}

impl Drop for KeptStream<'_> {
    fn drop(&mut self) {
        // The lock is let go of behind this.
        self.lock.kept_by.store(0, Ordering::SeqCst);
    }
}

#[cfg(not(loom))]
fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock()
}

#[cfg(not(loom))]
fn lock_soon(mutex: &Mutex<()>, time_max: Duration) -> Option<MutexGuard<'_, ()>> {
    mutex.try_lock_for(time_max)
}

#[cfg(not(loom))]
fn is_free(mutex: &Mutex<()>) -> bool {
    mutex.try_lock().is_some()
}

#[cfg(not(loom))]
fn pause() {
    std::thread::sleep(LOOK_EVERY);
}

/// A number of this thread's own, from 1.
#[cfg(not(loom))]
fn own_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// How often it is looked whether the lock is barred still.
#[cfg(not(loom))]
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[cfg(loom)]
fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().expect("no thread of the model panics with it")
}

#[cfg(loom)]
fn lock_soon(mutex: &Mutex<()>, _time_max: Duration) -> Option<MutexGuard<'_, ()>> {
    mutex.lock().ok()
}

#[cfg(loom)]
fn is_free(mutex: &Mutex<()>) -> bool {
    mutex.try_lock().is_ok()
}

#[cfg(loom)]
fn pause() {
    loom::thread::yield_now();
}

#[cfg(loom)]
loom::thread_local! {
    static NUMBER: std::cell::Cell<u64> = std::cell::Cell::new(0);
}

/// In the model the lane alone has a number of its own.
#[cfg(loom)]
fn own_number() -> u64 {
    NUMBER.with(std::cell::Cell::get).max(1)
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    #[test]
    fn nobody_holds_it_while_a_lane_bars_it_in_every_order() {
        loom::model(|| {
            let both = Arc::new((StreamLock::default(), UnsafeCell::new(0)));
            let theirs = both.clone();
            let thread = loom::thread::spawn(move || {
                NUMBER.with(|number| number.set(2));
                let held = theirs.0.hold();
                theirs.1.with_mut(|_| ());
                drop(held);
            });
            // The lane.
            if both.0.bar() {
                assert!(both.0.is_barred_here());
                // Loom says if the other is at it, too.
                both.1.with_mut(|_| ());
                // What the lane itself needs of it, it gets.
                drop(both.0.hold());
                both.0.unbar();
            }
            thread.join().expect("it ended");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn who_is_barred_waits_and_who_bars_does_not() {
        let stream = StreamLock::default();
        assert!(stream.bar());
        thread::scope(|scope| {
            let waits = scope.spawn(|| drop(stream.hold()));
            drop(stream.hold());
            assert!(!waits.is_finished());
            stream.unbar();
            waits.join().unwrap();
        });
        let held = stream.hold();
        assert!(!stream.bar() && !stream.is_barred_here());
        drop(held);
        assert!(stream.bar());
    }
}
