//! Whether this process is the child of a fork.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the one that called this first: what was made
/// under another number belongs to an ancestor, whose threads are not here and whose descriptors
/// are shared with it. One relaxed load, after the first call.
#[inline]
pub fn forks() -> u32 {
    if !WATCHES.is_completed() {
        watch();
    }
    FORKS.load(Ordering::Relaxed)
}

static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCHES: Once = Once::new();

#[cold]
fn watch() {
    WATCHES.call_once(|| {
        // SAFETY: the function takes nothing, touches an atomic alone, and stays as long as this
        // code does: the C library forgets it when the shared object that it is in goes.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // Only for want of memory: then forks go unnoticed.
        debug_assert_eq!(failed, 0);
    });
}

unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_knows_that_it_is_one() {
        assert_eq!(forks(), 0);
        // SAFETY: the child calls nothing that another thread may hold a lock for.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: it ends the process at once.
            unsafe { libc::_exit(if forks() == 1 { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the place for the status is there.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, status), (child, 0));
        assert_eq!(forks(), 0);
    }
}
