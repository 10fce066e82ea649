//! What threads meet at: locks, atomics and the event of a bell; in a model, loom's own.

#[cfg(loom)]
pub(crate) use self::ModelDescriptor as EventDescriptor;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};

#[cfg(not(loom))]
pub(crate) use crate::event::EventDescriptor;
#[cfg(loom)]
use {
    crate::{event::SocketEpoll, state::Token},
    std::sync::Arc,
};

/// A number in the event's place.
///
/// Its operations are relaxed: the model must not borrow an order from the kernel.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct ModelDescriptor(AtomicUsize);

#[cfg(loom)]
impl ModelDescriptor {
    pub(crate) fn new(_: &Arc<SocketEpoll>, _: Token) -> rustix::io::Result<Self> {
        Ok(ModelDescriptor(AtomicUsize::new(0)))
    }

    #[cfg(test)]
    pub(crate) fn of_model() -> Self {
        ModelDescriptor(AtomicUsize::new(0))
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
