//! The atomics of the slots: those of `std`, or loom's model of them under `--cfg loom`.

#[cfg(loom)]
pub(crate) use loom::sync::Mutex;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

/// Number of attempts after which a reader yields to another thread. An update takes a few
/// nanoseconds, so more attempts mean that the writer lost its core during one.
#[cfg(not(loom))]
const SPINS_BEFORE_YIELD: u32 = 64;

/// Waits briefly before attempt number `attempt` (from 1) to read.
#[cold]
pub(crate) fn pause(attempt: u32) {
    #[cfg(loom)]
    {
        let _ = attempt;
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    if attempt.is_multiple_of(SPINS_BEFORE_YIELD) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}
