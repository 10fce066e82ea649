//! How threads talk to a lane: many senders, one reader, woken at most once a turn.

use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use crate::connection::Peer;

/// The mailboxes of all lanes, by lane.
pub type Mailboxes<M> = Arc<[Mailbox<M>]>;

/// The mailbox of one lane.
///
/// Senders append under a short lock; the lane takes the whole list at once. The eventfd is
/// written only when the lane has not been told yet, so a burst costs one system call.
#[derive(Debug)]
pub struct Mailbox<M> {
    queue: Mutex<Vec<Envelope<M>>>,
    /// Length of `queue`, readable without the lock: senders use it to hold back.
    pending: AtomicUsize,
    /// Set by the first sender since the lane last looked; only that one writes the eventfd.
    notified: AtomicBool,
    /// The lane listens no more; only the first one does before.
    left: AtomicBool,
    wake: OwnedFd,
}

/// What a mailbox carries.
#[derive(Debug)]
pub(crate) enum Envelope<M> {
    /// A connection that another lane accepted for this one.
    Adopt {
        socket: OwnedFd,
        port: u16,
        peer: Peer,
    },
    /// The application's own.
    Mail(M),
    /// End the loop.
    Stop,
}

impl<M> Mailbox<M> {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            queue: Mutex::new(Vec::new()),
            pending: AtomicUsize::new(0),
            notified: AtomicBool::new(false),
            left: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Gives `mail` to the lane. Never blocks for longer than another sender's append.
    pub fn send(&self, mail: M) {
        self.post(Envelope::Mail(mail));
    }

    /// How many messages wait. A sender of conflatable news holds back above a bound of its own.
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// The lane listens no more.
    pub(crate) fn set_left(&self) {
        self.left.store(true, Ordering::Release);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Asks the lane to end.
    pub fn stop(&self) {
        self.post(Envelope::Stop);
    }

    pub(crate) fn post(&self, envelope: Envelope<M>) {
        {
            let mut queue = self.queue.lock();
            queue.push(envelope);
            self.pending.store(queue.len(), Ordering::Relaxed);
        }
        if !self.notified.swap(true, Ordering::AcqRel) {
            // A full counter (EAGAIN) means that the lane has a wake-up outstanding already.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Takes everything into `into`, which must be empty; the two vectors change places.
    ///
    /// `woken` says that the eventfd is readable. It must be read then even when there is no mail:
    /// a sender may have written it after its mail had been taken along with another's.
    pub(crate) fn take(&self, woken: bool, into: &mut Vec<Envelope<M>>) {
        if !woken && !self.notified.load(Ordering::Relaxed) {
            return;
        }
        let mut counter = [0u8; 8];
        // Reading resets the eventfd; nothing there means that a sender is between its two steps,
        // and its write will wake the next turn.
        let _ = rustix::io::read(&self.wake, &mut counter);
        self.notified.store(false, Ordering::Release);
        std::sync::atomic::fence(Ordering::SeqCst);
        let mut queue = self.queue.lock();
        mem::swap(&mut *queue, into);
        self.pending.store(0, Ordering::Relaxed);
    }

    pub(crate) fn wake_descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_arrives_in_the_order_of_sending_and_is_taken_once() {
        let mailbox = Mailbox::new().unwrap();
        for number in 0..3 {
            mailbox.send(number);
        }
        assert_eq!(mailbox.pending(), 3);
        let mut taken = Vec::new();
        mailbox.take(false, &mut taken);
        let numbers: Vec<i32> = taken
            .drain(..)
            .map(|envelope| match envelope {
                Envelope::Mail(number) => number,
                other => panic!("not mail: {other:?}"),
            })
            .collect();
        assert_eq!(numbers, [0, 1, 2]);
        mailbox.take(false, &mut taken);
        assert!(taken.is_empty());
        assert_eq!(mailbox.pending(), 0);
    }

    #[test]
    fn nothing_is_lost_when_many_threads_send() {
        let mailbox = Mailbox::new().unwrap();
        let mut count = 0;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|number| mailbox.send(number)));
            }
            let mut taken = Vec::new();
            while count < 40_000 {
                mailbox.take(false, &mut taken);
                count += taken.drain(..).count();
            }
        });
        assert_eq!(count, 40_000);
    }
}
