//! What threads meet at: locks, atomics and the eventfd of a bell; in a model, loom's own.

#[cfg(loom)]
pub(crate) use self::ModelDescriptor as EventDescriptor;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};

use std::os::fd::{AsFd, BorrowedFd};

/// Readable from `write` to `read`, whichever threads call them.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct EventDescriptor(std::os::fd::OwnedFd);

#[cfg(not(loom))]
impl EventDescriptor {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(EventDescriptor(eventfd(0, flags)?))
    }

    pub(crate) fn write(&self) {
        // Only a full counter refuses, and that is readable too.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(crate) fn read(&self) {
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

#[cfg(not(loom))]
impl AsFd for EventDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A number in the eventfd's place.
///
/// Its operations are relaxed: the model must not borrow an order from the kernel.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct ModelDescriptor(AtomicUsize);

#[cfg(loom)]
impl ModelDescriptor {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        Ok(ModelDescriptor(AtomicUsize::new(0)))
    }

    pub(crate) fn write(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) {
        self.0.swap(0, Ordering::Relaxed);
    }

    /// As `epoll_wait` finds it.
    #[cfg(test)]
    pub(crate) fn is_readable(&self) -> bool {
        // A read-modify-write, because the kernel looks at the newest count.
        self.0.fetch_add(0, Ordering::Relaxed) != 0
    }
}

#[cfg(loom)]
impl AsFd for ModelDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        unreachable!("no socket runs in a model")
    }
}

/// Loom's lock, with the interface of `parking_lot`.
#[cfg(loom)]
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("no thread of the model panics")
    }
}
