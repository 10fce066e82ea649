//! How another thread tells a socket that something has come for it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use crate::error::Error;
use crate::mail::Mail;

/// The bell of one socket: an eventfd, and what other threads have left for it.
#[derive(Debug)]
pub(crate) struct Signal {
    descriptor: OwnedFd,
    /// The eventfd is readable.
    raised: AtomicBool,
    /// So many wait for the bell: threads asleep, and programs that poll the descriptor.
    listeners: AtomicU32,
    has_mail: AtomicBool,
    mail: Mutex<Vec<Mail>>,
}

impl Signal {
    pub(crate) fn new() -> Result<Signal, Error> {
        Ok(Signal {
            descriptor: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            raised: AtomicBool::new(false),
            listeners: AtomicU32::new(0),
            has_mail: AtomicBool::new(false),
            mail: Mutex::new(Vec::new()),
        })
    }

    /// Rings for every listener.
    pub(crate) fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            // Only a full counter refuses, and that is readable too.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// Rings if there is a listener. The data for the listener must have been stored before.
    #[inline]
    pub(crate) fn raise_for_listeners(&self) {
        // Against the fence in `listen`: one of the two sees the other's store.
        fence(Ordering::SeqCst);
        if self.listeners.load(Ordering::Relaxed) > 0 {
            self.raise();
        }
    }

    /// From here on `raise_for_listeners` rings. What came before must be looked for afterwards.
    pub(crate) fn listen(&self) {
        self.listeners.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn unlisten(&self) {
        self.listeners.fetch_sub(1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Silences the bell. What rang before is to be looked at next.
    pub(crate) fn lower(&self) {
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(&self.descriptor, &mut count);
        // After the read: whoever rings from now on writes again, and what the ones before have
        // stored is seen. The other way round a bell could be noted that nobody hears.
        self.raised.swap(false, Ordering::SeqCst);
    }

    /// Leaves something for the socket's owner and rings.
    pub(crate) fn send(&self, mail: Mail) {
        self.mail.lock().push(mail);
        self.has_mail.store(true, Ordering::Release);
        self.raise();
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    pub(crate) fn take_mail(&self) -> Vec<Mail> {
        let mut mail = self.mail.lock();
        self.has_mail.store(false, Ordering::Release);
        std::mem::take(&mut mail)
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
