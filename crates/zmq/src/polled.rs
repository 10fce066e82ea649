//! What a program polls by itself: libzmq's `ZMQ_FD`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::error::Error;

/// A descriptor that is readable while the socket's own epoll has something, and while what the
/// background thread has done for the program was not looked at.
///
/// The flag is not in the socket's epoll: the background thread waits for that one, and would wake
/// itself.
#[derive(Debug)]
pub(crate) struct Polled {
    epoll: OwnedFd,
    flag: OwnedFd,
    /// Changed under the socket's lock alone.
    is_raised: AtomicBool,
}

impl Polled {
    pub(crate) fn new(inner: BorrowedFd<'_>) -> Result<Polled, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flag = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        for descriptor in [inner, flag.as_fd()] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&epoll, descriptor, data, epoll::EventFlags::IN)?;
        }
        Ok(Polled {
            epoll,
            flag,
            is_raised: AtomicBool::new(false),
        })
    }

    pub(crate) fn raise(&self) {
        if !self.is_raised.swap(true, Ordering::Relaxed) {
            // Only a full counter refuses, and that is readable too.
            let _ = rustix::io::write(&self.flag, &1_u64.to_ne_bytes());
        }
    }

    /// The program looks.
    pub(crate) fn lower(&self) {
        if self.is_raised.swap(false, Ordering::Relaxed) {
            let mut count = [0_u8; 8];
            let _ = rustix::io::read(&self.flag, &mut count);
        }
    }
}

impl AsFd for Polled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
