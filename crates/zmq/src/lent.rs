//! Bytes that a program has lent, and gets back while none of its sockets is locked.
//!
//! A message may go anywhere under a socket's lock: it was sent, replaced, dropped, or its socket
//! closes. What then gives the bytes back is the program's code, which may call the same socket.
//! So the thread keeps it until it has left the last lock.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::MutexGuard;
use tidewire_readiness::Uncancelled;

use crate::state::State;

/// The owner of lent bytes, which is dropped without a lock.
#[derive(Debug)]
pub(crate) struct Lent<O: Send + 'static>(Option<O>);

impl<O: AsRef<[u8]> + Send + 'static> Lent<O> {
    pub(crate) fn new(owner: O) -> Lent<O> {
        // Every thread that can come upon the message has taken a lock after this.
        HAS_LENT.store(true, Ordering::Relaxed);
        Lent(Some(owner))
    }
}

impl<O: AsRef<[u8]> + Send + 'static> AsRef<[u8]> for Lent<O> {
    fn as_ref(&self) -> &[u8] {
        debug_assert!(self.0.is_some(), "the owner is there until it is dropped");
        self.0.as_ref().map_or(&[], AsRef::as_ref)
    }
}

impl<O: Send + 'static> Drop for Lent<O> {
    fn drop(&mut self) {
        let owner = &mut self.0;
        // A thread that ends holds no lock.
        let _ = OWN.try_with(|own| {
            if own.is_locked() {
                own.kept.borrow_mut().push(Box::new(owner.take()));
            }
        });
    }
}

/// A socket's state, locked by this thread.
#[derive(Debug)]
pub(crate) struct Held<'s> {
    // In this order: the lock is released before what was lent is given back.
    state: MutexGuard<'s, State>,
    stay: Stay,
}

impl<'s> Held<'s> {
    /// The thread has locked it. Where no program lends anything this costs a look at a constant.
    #[inline]
    pub(crate) fn new(state: MutexGuard<'s, State>) -> Held<'s> {
        let mut stay = Stay { is_counted: false };
        if HAS_LENT.load(Ordering::Relaxed) {
            stay.count();
        }
        Held { state, stay }
    }

    /// From here on messages may go that other threads lend only now.
    pub(crate) fn count(&mut self) {
        self.stay.count();
    }

    /// Does something while the state is not locked.
    pub(crate) fn unlocked<T>(held: &mut Held<'_>, work: impl FnOnce() -> T) -> T {
        let stay = &mut held.stay;
        let done = MutexGuard::unlocked(&mut held.state, || {
            stay.end();
            work()
        });
        stay.count();
        done
    }

    /// Lets other threads have it for a moment.
    pub(crate) fn pass(held: &mut Held<'_>) {
        let stay = &mut held.stay;
        MutexGuard::unlocked_fair(&mut held.state, || {
            stay.end();
            std::thread::yield_now();
        });
        stay.count();
    }
}

impl Deref for Held<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// The time for which a thread holds a lock.
#[derive(Debug)]
struct Stay {
    is_counted: bool,
}

impl Stay {
    #[inline]
    fn count(&mut self) {
        if !self.is_counted {
            self.is_counted = OWN.try_with(Own::enter).is_ok();
        }
    }

    #[inline]
    fn end(&mut self) {
        let was_counted = std::mem::take(&mut self.is_counted);
        if was_counted || HAS_LENT.load(Ordering::Relaxed) {
            leave(was_counted);
        }
    }
}

impl Drop for Stay {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

#[cold]
fn leave(was_counted: bool) {
    let _ = OWN.try_with(|own| own.leave(was_counted));
}

/// Messages of another thread have come. If none had been lent when this thread took its lock, it
/// was not counted.
pub(crate) fn others_have_come() {
    if HAS_LENT.load(Ordering::Relaxed) {
        let _ = OWN.try_with(|own| own.is_late.set(true));
    }
}

const _: () = assert!(!std::mem::needs_drop::<Own>(), "it is there to the end");

/// What a thread knows of itself.
struct Own {
    /// Sockets that it has locked, and counted.
    locks: Cell<u32>,
    /// It holds a lock that may not be counted.
    is_late: Cell<bool>,
    is_giving_back: Cell<bool>,
    /// Empty, and without room, when the thread ends. So nothing is to be dropped then, and a
    /// thread has this as long as it runs.
    kept: ManuallyDrop<RefCell<Vec<Box<dyn Send>>>>,
}

impl Own {
    fn is_locked(&self) -> bool {
        self.locks.get() > 0 || self.is_late.get()
    }

    fn enter(&self) {
        self.locks.set(self.locks.get() + 1);
    }

    fn leave(&self, was_counted: bool) {
        if was_counted {
            debug_assert!(self.locks.get() > 0, "it was counted");
            self.locks.set(self.locks.get() - 1);
        }
        if self.locks.get() == 0 {
            self.is_late.set(false);
            self.give_back();
        }
    }

    /// The program's code runs here. What it lets go by a call on a socket comes next.
    fn give_back(&self) {
        if self.kept.borrow().is_empty() || self.is_giving_back.replace(true) {
            return;
        }
        // Their code must not be unwound into this library's.
        let _uncancelled = Uncancelled::new();
        let _giving = Giving(&self.is_giving_back);
        loop {
            let kept = self.kept.take();
            if kept.is_empty() {
                return;
            }
            drop(kept);
        }
    }
}

/// The end of giving back, also where the program's code panics.
struct Giving<'o>(&'o Cell<bool>);

impl Drop for Giving<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

thread_local! {
    static OWN: Own = const {
        Own {
            locks: Cell::new(0),
            is_late: Cell::new(false),
            is_giving_back: Cell::new(false),
            kept: ManuallyDrop::new(RefCell::new(Vec::new())),
        }
    };
}

/// A program of this process has lent something once.
static HAS_LENT: AtomicBool = AtomicBool::new(false);
