//! What a program polls by itself: libzmq's `ZMQ_FD`.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::EventDescriptor;

/// An event in the socket's epoll that is there while the program has not looked at what the
/// background thread has done for it. Programs poll that epoll.
#[derive(Debug)]
pub(crate) struct Polled {
    flag: EventDescriptor,
    /// Changed under the socket's lock alone.
    is_raised: AtomicBool,
}

impl Polled {
    pub(crate) fn new(flag: EventDescriptor) -> Polled {
        Polled {
            flag,
            is_raised: AtomicBool::new(false),
        }
    }

    pub(crate) fn raise(&self) {
        if !self.is_raised.swap(true, Ordering::Relaxed) {
            self.flag.write();
        }
    }

    /// The program looks.
    pub(crate) fn lower(&self) {
        if self.is_raised.swap(false, Ordering::Relaxed) {
            self.flag.read();
        }
    }
}
