//! One descriptor for several sockets and descriptors: for event loops that poll descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::error::Error;
use crate::poll::PollTarget;
use crate::socket::Events;

/// A descriptor that is readable while one of the sockets and descriptors that were added may be
/// ready. Which one it is, and for what, [`poll`](crate::poll) tells, with a timeout of zero.
///
/// ```
/// use tidewire_zmq::{Context, Events, PollTarget, Pull, Push, Watch};
///
/// let context = Context::new();
/// let pull = Pull::bind(&context, "inproc://work")?;
/// let watch = Watch::new()?;
/// let readable = Events { readable: true, writable: false };
/// watch.add(PollTarget::Socket(pull.socket()), readable)?;
/// # Ok::<(), tidewire_zmq::Error>(())
/// ```
#[derive(Debug)]
pub struct Watch {
    epoll: OwnedFd,
}

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> Result<Watch, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Watch { epoll })
    }

    /// Adds something to watch. What is added already is left as it is.
    ///
    /// # Errors
    /// The socket is closed, or the descriptor cannot be watched, such as that of a file.
    pub fn add(&self, target: PollTarget<'_>, events: Events) -> Result<(), Error> {
        let mut flags = EventFlags::empty();
        let epoll;
        let descriptor = match target {
            // It tells of everything.
            PollTarget::Socket(socket) => {
                flags.insert(EventFlags::IN);
                epoll = socket.core().polled_epoll()?;
                epoll.as_fd()
            }
            PollTarget::Descriptor(descriptor) => {
                flags.set(EventFlags::IN, events.readable);
                flags.set(EventFlags::OUT, events.writable);
                descriptor
            }
        };
        match epoll::add(&self.epoll, descriptor, EventData::new_u64(0), flags) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes out what was added. What is closed is taken out by itself.
    pub fn remove(&self, target: PollTarget<'_>) {
        // It fails for what is not in it.
        let _ = match target {
            PollTarget::Socket(socket) => match socket.core().polled_epoll() {
                Ok(epoll) => epoll::delete(&self.epoll, &*epoll),
                Err(_) => Ok(()),
            },
            PollTarget::Descriptor(descriptor) => epoll::delete(&self.epoll, descriptor),
        };
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
