//! The target of a `void *` that C has for a context or a socket.
//!
//! A closed handle may still be used by mistake, so its memory is never returned to the allocator.
//! It waits in a [`Pool`] behind many others before it is reused, and until then its tag says that
//! it is closed. A handle's value is dropped when the memory is reused and not when it is closed,
//! so that a thread that is still inside a call on it does no harm either.

use parking_lot::Mutex;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// A tagged value that C refers to by pointer.
#[repr(C)]
pub(crate) struct Handle<T> {
    // First, so that it is at the same place in handles of every kind.
    tag: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: only `Pool::open` changes the value, while the tag says that it is closed and only the
// pool refers to the handle. Otherwise it is shared.
unsafe impl<T: Send + Sync> Sync for Handle<T> {}

/// The closed handles of one kind.
pub(crate) struct Pool<T: 'static> {
    tag: u32,
    closed: Mutex<VecDeque<&'static Handle<T>>>,
}

impl<T: Send + Sync> Pool<T> {
    pub(crate) const fn new(tag: u32) -> Self {
        Self {
            tag,
            closed: Mutex::new(VecDeque::new()),
        }
    }

    /// Returns a handle for `value`, to be given to C.
    pub(crate) fn open(&self, value: T) -> *mut c_void {
        let oldest = {
            let mut closed = self.closed.lock();
            if closed.len() > CLOSED_MIN {
                closed.pop_front()
            } else {
                None
            }
        };
        let handle: &'static Handle<T> = match oldest {
            Some(handle) => {
                // SAFETY: it is closed, and so many others were closed after it that no call is
                // inside any more. No other thread has it, since the pool has released it to this
                // one.
                unsafe { *handle.value.get() = value };
                handle
            }
            None => Box::leak(Box::new(Handle {
                tag: AtomicU32::new(CLOSED),
                value: UnsafeCell::new(value),
            })),
        };
        handle.tag.store(self.tag, Ordering::Release);
        std::ptr::from_ref(handle).cast_mut().cast()
    }

    /// Returns the value of `handle`, if it is an open handle of this kind.
    ///
    /// # Safety
    ///
    /// `handle` is null, or was returned by the `open` of some pool.
    #[inline]
    pub(crate) unsafe fn get(&self, handle: *mut c_void) -> Option<&'static T> {
        // SAFETY: the caller keeps this function's contract.
        let handle = unsafe { self.handle(handle) }?;
        // SAFETY: it is open, so no thread changes the value. If it is closed during the call, its
        // memory is used again only after `CLOSED_MIN` others.
        Some(unsafe { &*handle.value.get() })
    }

    /// Closes `handle`. Returns false if it is not open.
    ///
    /// # Safety
    ///
    /// As for [`get`](Self::get).
    pub(crate) unsafe fn close(&self, handle: *mut c_void) -> bool {
        // SAFETY: the caller keeps this function's contract.
        let Some(handle) = (unsafe { self.handle(handle) }) else {
            return false;
        };
        let change =
            handle
                .tag
                .compare_exchange(self.tag, CLOSED, Ordering::AcqRel, Ordering::Relaxed);
        if change.is_ok() {
            self.closed.lock().push_back(handle);
        }
        change.is_ok()
    }

    /// # Safety
    ///
    /// As for [`get`](Self::get).
    #[inline]
    unsafe fn handle(&self, handle: *mut c_void) -> Option<&'static Handle<T>> {
        if handle.is_null() {
            return None;
        }
        // SAFETY: memory of handles is never freed, and all begin with a tag.
        let tag = unsafe { &*handle.cast::<AtomicU32>() };
        if tag.load(Ordering::Acquire) != self.tag {
            return None;
        }
        // SAFETY: the tag is that of this pool's handles.
        Some(unsafe { &*handle.cast::<Handle<T>>() })
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

const CLOSED: u32 = 0xdead_0000;
/// Number of handles that must be closed later before the memory of a closed one is reused.
const CLOSED_MIN: usize = 64;

#[cfg(test)]
#[allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_is_known_and_serves_again_late() {
        static A: Pool<u32> = Pool::new(1);
        static B: Pool<u32> = Pool::new(2);
        let first = A.open(7);
        // SAFETY: handles of pools, and null.
        unsafe {
            assert_eq!(A.get(first), Some(&7));
            assert_eq!(B.get(first), None);
            assert_eq!(A.get(std::ptr::null_mut()), None);
            assert!(!B.close(first));
            assert!(A.close(first));
            assert!(!A.close(first));
            assert_eq!(A.get(first), None);
        }
        let mut served = 0;
        for round in 0..CLOSED_MIN + 10 {
            let next = A.open(round as u32);
            served += usize::from(next == first);
            // SAFETY: a handle of the pool.
            unsafe { A.close(next) };
        }
        assert_eq!(served, 1);
    }
}
