//! Calls of a thread that ends.

use super::live;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

static KEY: AtomicI32 = AtomicI32::new(-1);
static ROUNDS: AtomicUsize = AtomicUsize::new(0);
static FAILURES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: its argument is not looked at.
unsafe extern "C" fn at_end(value: *mut c_void) {
    let failed = live(c"tcp://127.0.0.1:*") != 0;
    FAILURES.fetch_add(usize::from(failed), Ordering::SeqCst);
    if ROUNDS.fetch_add(1, Ordering::SeqCst) < 2 {
        let key = KEY.load(Ordering::SeqCst) as libc::pthread_key_t;
        // SAFETY: the key is one; its value is not looked at.
        unsafe { libc::pthread_setspecific(key, value) };
    }
}

/// There is no `std::thread::current` any more, of which the end of a context asked.
#[test]
fn a_context_did_not_end_in_a_thread_whose_own_data_is_gone() {
    let mut key = 0;
    // SAFETY: the function gets what was set.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) };
    assert_eq!(failed, 0);
    KEY.store(key as i32, Ordering::SeqCst);
    let thread = std::thread::spawn(move || {
        let failed = live(c"tcp://127.0.0.1:*");
        // SAFETY: the key is one; its value is not looked at.
        unsafe { libc::pthread_setspecific(key, (&raw const KEY).cast()) };
        failed
    });
    assert_eq!(thread.join().unwrap(), 0);
    assert_eq!(ROUNDS.load(Ordering::SeqCst), 3);
    assert_eq!(FAILURES.load(Ordering::SeqCst), 0);
}
