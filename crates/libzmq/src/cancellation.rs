//! Waits in which a program may cancel its thread (`pthread_cancel`).
//!
//! The C library cancels a thread inside a call such as `ppoll`, and unwinds its stack. It must not
//! unwind frames of Rust in which something is to be dropped, or a panic caught: the process would
//! abort. So a function that must wait returns first from all of them (see
//! [`tidewire_zmq::outside`]), and [`waits`] sleeps in its place. Its own frames, and those of the
//! C functions that call it, have nothing to drop, and their ABI is `C-unwind`.
//!
//! Everywhere else [`crate::errno::guard`], or the library itself where it closes a descriptor,
//! puts the cancellation off.

use crate::errno::{self, guard};
use std::ffi::{c_int, c_long, c_ulong, c_void};
use tidewire_zmq::outside::{self, Plan};

/// Calls a function that may have to wait, which returns -1 and sets `errno` if it fails, until it
/// has a result.
///
/// `call` has nothing to drop.
#[inline]
pub(crate) fn waits(mut call: impl FnMut() -> c_int) -> c_int {
    const { assert!(!std::mem::needs_drop::<Plan>(), "it is unwound") };
    let result = call();
    if result == -1 && errno::get() == errno::ERESTART {
        return wait_and_call(call);
    }
    result
}

#[cold]
#[inline(never)]
fn wait_and_call<C: FnMut() -> c_int>(mut call: C) -> c_int {
    const { assert!(!std::mem::needs_drop::<C>(), "it is unwound") };
    loop {
        let failed = sleep();
        if failed != 0 {
            errno::set(failed);
            return -1;
        }
        let result = call();
        if result != -1 || errno::get() != errno::ERESTART {
            let number = errno::get();
            guard((), || {
                outside::finish();
                Ok(())
            });
            errno::set(number);
            return result;
        }
    }
}

/// Sleeps as the last call has left it to do. Returns the number of an error, or 0.
fn sleep() -> c_int {
    let plan: Option<Plan> = guard(None, || Ok(outside::plan()));
    let Some(plan) = plan else {
        return errno::ENOTRECOVERABLE;
    };
    let time = plan.time.map(|(seconds, nanoseconds)| Time {
        seconds,
        nanoseconds,
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the plan's pointers are valid until `wake`. Where the thread is cancelled, what they
    // point to is dropped when the thread ends, and no frame up to the program's has anything to
    // drop.
    let found = unsafe { ppoll(plan.descriptors, plan.count as c_ulong, time, plan.signals) };
    let number = if found < 0 { errno::get() } else { 0 };
    guard((), || {
        outside::wake(number == 0);
        Ok(())
    });
    number
}

/// Acts on a request to cancel the thread.
#[inline]
pub(crate) fn test() {
    // SAFETY: it has no conditions. No frame up to the program's has anything to drop.
    unsafe { pthread_testcancel() };
}

/// C's `struct timespec`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Time {
    pub(crate) seconds: c_long,
    pub(crate) nanoseconds: c_long,
}

// SAFETY: their signatures as in `poll.h` and `pthread.h`. They unwind a thread that is cancelled.
unsafe extern "C-unwind" {
    pub(crate) fn ppoll(
        descriptors: *mut c_void,
        count: c_ulong,
        time: *const Time,
        signals: *const c_void,
    ) -> c_int;
    fn pthread_testcancel();
}
