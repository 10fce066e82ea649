//! Wakes a sleeping lane: an eventfd, or a counter in a loom model.

#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use rustix::event::{EventfdFlags, eventfd};

#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Wake(OwnedFd);

#[cfg(not(loom))]
impl Wake {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Wake(eventfd(0, flags)?))
    }

    /// Wakes the lane, now or as soon as it sleeps.
    pub(crate) fn set(&self) {
        // A full counter (EAGAIN) means that the lane already has a pending wake-up.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn reset(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Wake(AtomicU64);

#[cfg(loom)]
#[allow(
    dead_code,
    reason = "a model has no descriptor, and only its test waits"
)]
impl Wake {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        Ok(Wake(AtomicU64::new(0)))
    }

    pub(crate) fn set(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn reset(&self) {
        self.0.swap(0, Ordering::SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    pub(crate) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        unreachable!("no lane runs in a model")
    }
}
