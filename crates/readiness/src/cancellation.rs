//! Threads that are not cancelled for a moment.

use std::marker::PhantomData;
use std::ptr::null_mut;

use libc::c_int;

/// Keeps the calling thread from being cancelled (`pthread_cancel`) as long as this value is there.
///
/// The C library cancels a thread inside a call such as `close`, and unwinds its stack. Frames of
/// Rust in which something is to be dropped must not be unwound so: the process would abort.
#[derive(Debug)]
pub struct Uncancelled {
    before: c_int,
    /// The state is the thread's.
    of_thread: PhantomData<*const ()>,
}

impl Uncancelled {
    /// From here on a request to cancel the thread waits.
    #[allow(clippy::new_without_default)]
    #[inline]
    pub fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: it changes the state of this thread alone, and stores the old one.
        let failed = unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        debug_assert_eq!(failed, 0, "the state is one");
        Uncancelled {
            before,
            of_thread: PhantomData,
        }
    }
}

impl Drop for Uncancelled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the state is one that the thread had.
        let failed = unsafe { pthread_setcancelstate(self.before, null_mut()) };
        debug_assert_eq!(failed, 0, "the state was valid");
    }
}

/// `PTHREAD_CANCEL_DISABLE`, the same in each C library of Linux.
const CANCEL_DISABLE: c_int = 1;

// SAFETY: its signature as in `pthread.h`. It does not unwind, unless the program has its threads
// cancelled at any instruction, which no library supports.
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_disabled() -> bool {
        Uncancelled::new().before == CANCEL_DISABLE
    }

    #[test]
    fn a_thread_is_kept_from_being_cancelled_until_the_last_value_goes() {
        assert!(!is_disabled());
        let first = Uncancelled::new();
        let second = Uncancelled::new();
        drop(second);
        assert!(is_disabled());
        drop(first);
        assert!(!is_disabled());
    }
}
