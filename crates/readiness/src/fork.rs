//! Detection of forks of this process.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the number of forks between the process that called this first and this one. An object
/// created under another number belongs to an ancestor: its threads do not run here, and its
/// descriptors are shared with the ancestor. Costs one relaxed load after the first call.
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
        // SAFETY: the function has no arguments and touches only an atomic. It exists as long as
        // this code: the C library removes it when its shared object is unloaded.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // Fails only without memory: forks are then not noticed.
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
            // SAFETY: the call ends the process at once.
            unsafe { libc::_exit(if forks() == 1 { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `status` is a valid place for the result.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, status), (child, 0));
        assert_eq!(forks(), 0);
    }
}
