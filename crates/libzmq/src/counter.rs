//! Atomic counters that threads share.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// `zmq_atomic_counter_new`: creates a counter at 0.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zmq_atomic_counter_new() -> *mut c_void {
    Box::into_raw(Box::new(AtomicI32::new(0))).cast()
}

/// `zmq_atomic_counter_set`.
///
/// # Safety
///
/// `counter` is null or was returned by [`zmq_atomic_counter_new`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_atomic_counter_set(counter: *mut c_void, value: c_int) {
    // SAFETY: the caller keeps this function's contract.
    if let Some(counter) = unsafe { get(counter) } {
        counter.store(value, Ordering::SeqCst);
    }
}

/// `zmq_atomic_counter_inc`: returns the value before the increment.
///
/// # Safety
///
/// As for [`zmq_atomic_counter_set`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_atomic_counter_inc(counter: *mut c_void) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { get(counter) }.map_or(0, |counter| counter.fetch_add(1, Ordering::SeqCst))
}

/// `zmq_atomic_counter_dec`: returns 0 when the counter reaches 0.
///
/// # Safety
///
/// As for [`zmq_atomic_counter_set`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_atomic_counter_dec(counter: *mut c_void) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    let before =
        unsafe { get(counter) }.map_or(1, |counter| counter.fetch_sub(1, Ordering::SeqCst));
    c_int::from(before != 1)
}

/// `zmq_atomic_counter_value`.
///
/// # Safety
///
/// As for [`zmq_atomic_counter_set`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_atomic_counter_value(counter: *mut c_void) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { get(counter) }.map_or(0, |counter| counter.load(Ordering::SeqCst))
}

/// `zmq_atomic_counter_destroy`: sets the pointer to null.
///
/// # Safety
///
/// `counter` is null or points to null or a counter that is no longer used.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_atomic_counter_destroy(counter: *mut *mut c_void) {
    if counter.is_null() {
        return;
    }
    // SAFETY: the caller passes a pointer to a pointer.
    let old = unsafe { counter.replace(std::ptr::null_mut()) };
    if !old.is_null() {
        // SAFETY: the caller passes a result of `zmq_atomic_counter_new`.
        drop(unsafe { Box::from_raw(old.cast::<AtomicI32>()) });
    }
}

/// # Safety
///
/// `counter` is null or a counter.
unsafe fn get<'a>(counter: *mut c_void) -> Option<&'a AtomicI32> {
    // SAFETY: the caller keeps this function's contract.
    unsafe { counter.cast::<AtomicI32>().as_ref() }
}

#[cfg(test)]
#[allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_counts() {
        let mut counter = zmq_atomic_counter_new();
        // SAFETY: a counter.
        unsafe {
            assert_eq!(zmq_atomic_counter_inc(counter), 0);
            assert_eq!(zmq_atomic_counter_inc(counter), 1);
            assert_eq!(zmq_atomic_counter_dec(counter), 1);
            assert_eq!(zmq_atomic_counter_dec(counter), 0);
            zmq_atomic_counter_set(counter, 7);
            assert_eq!(zmq_atomic_counter_value(counter), 7);
            zmq_atomic_counter_destroy(&raw mut counter);
            assert!(counter.is_null());
            zmq_atomic_counter_destroy(&raw mut counter);
        }
    }
}
