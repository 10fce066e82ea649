//! A lane's mailbox: many senders, one reader, at most one wake-up per turn.

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

#[cfg(loom)]
use loom::sync::Mutex;
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
use parking_lot::Mutex;

use crate::connection::Peer;
use crate::helpers::Shaken;
use crate::secure::TlsAcceptor;
use crate::wake::Wake;

/// The mailboxes of all lanes, by lane.
pub type Mailboxes<M> = Arc<[Mailbox<M>]>;

/// The mailbox of one lane.
///
/// Senders append under a short lock; the lane takes the whole list at once. Only the first
/// sender since the lane last looked writes the eventfd, so a burst costs one system call.
#[derive(Debug)]
pub struct Mailbox<M> {
    bell: Arc<Bell>,
    queue: Mutex<Vec<M>>,
    /// Length of `queue`, readable without the lock, so that senders can hold back.
    pending: AtomicUsize,
}

/// Wakes a lane and carries the signals that every lane understands, independent of its
/// application's mail.
#[derive(Debug)]
pub(crate) struct Bell {
    signals: Mutex<Vec<Signal>>,
    /// Whether there are signals, readable without the lock.
    has_signals: AtomicBool,
    /// Set by the first sender since the lane last looked; only that sender writes the eventfd.
    notified: AtomicBool,
    /// Whether the lane has stopped listening; only the first lane listens.
    left: AtomicBool,
    wake: Wake,
}

/// A signal between lanes.
#[derive(Debug)]
pub(crate) enum Signal {
    /// A connection that another lane accepted for this one.
    Adopt {
        socket: OwnedFd,
        port: u16,
        peer: Peer,
        tls: Option<TlsAcceptor>,
    },
    /// A helper has taken a step of a TLS handshake.
    Shaken(Box<Shaken>),
    /// Ends the loop.
    Stop,
}

impl<M> Mailbox<M> {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            bell: Arc::new(Bell::new()?),
            queue: Mutex::new(Vec::new()),
            pending: AtomicUsize::new(0),
        })
    }

    /// Sends `mail` to the lane. Never blocks longer than another sender's append.
    pub fn send(&self, mail: M) {
        {
            let mut queue = lock(&self.queue);
            queue.push(mail);
            self.pending.store(queue.len(), Ordering::Relaxed);
        }
        self.bell.ring();
    }

    /// Makes the lane take a turn, in which it sees everything stored before.
    pub fn wake(&self) {
        // Either the lane sees the stored data after it has answered the bell, or we see that it
        // answered.
        fence(Ordering::SeqCst);
        self.bell.ring();
    }

    /// Returns the number of waiting messages. A sender of conflatable messages holds back above
    /// its own limit.
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Tells the lane to end, after it has processed everything sent before.
    pub fn stop(&self) {
        self.bell.signal(Signal::Stop);
    }

    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Takes everything: swaps the mail into `mail`, which must be empty, and returns the
    /// signals.
    ///
    /// `woken` means that the eventfd is readable. It must then be read even if there is no mail:
    /// a sender may have written it after its mail was taken together with another's.
    pub(crate) fn take(&self, woken: bool, mail: &mut Vec<M>) -> Vec<Signal> {
        debug_assert!(mail.is_empty(), "mail that was taken is lost");
        if !self.bell.answer(woken) {
            return Vec::new();
        }
        // A sender of a stop has sent all its mail before.
        let signals = self.bell.take_signals();
        let mut queue = lock(&self.queue);
        mem::swap(&mut *queue, mail);
        self.pending.store(0, Ordering::Relaxed);
        signals
    }
}

impl Bell {
    fn new() -> rustix::io::Result<Self> {
        Ok(Bell {
            signals: Mutex::new(Vec::new()),
            has_signals: AtomicBool::new(false),
            notified: AtomicBool::new(false),
            left: AtomicBool::new(false),
            wake: Wake::new()?,
        })
    }

    /// Sends the lane a signal, which is not mail of its application.
    pub(crate) fn signal(&self, signal: Signal) {
        {
            let mut signals = lock(&self.signals);
            signals.push(signal);
            self.has_signals.store(true, Ordering::Relaxed);
        }
        // The same as in [`Mailbox::wake`].
        fence(Ordering::SeqCst);
        self.ring();
    }

    /// Takes the signals from other lanes.
    pub(crate) fn take_signals(&self) -> Vec<Signal> {
        if !self.has_signals.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut signals = lock(&self.signals);
        self.has_signals.store(false, Ordering::Relaxed);
        mem::take(&mut *signals)
    }

    fn ring(&self) {
        if !self.notified.swap(true, Ordering::AcqRel) {
            self.wake.set();
        }
    }

    /// Returns whether the bell was rung, and lets it be rung again.
    fn answer(&self, woken: bool) -> bool {
        if !woken && !self.notified.load(Ordering::Relaxed) {
            return false;
        }
        // If there is nothing, a sender is between its two steps, and its write will wake the
        // next turn.
        self.wake.reset();
        self.notified.store(false, Ordering::Release);
        fence(Ordering::SeqCst);
        true
    }

    /// Notes that the lane has stopped listening.
    pub(crate) fn set_left(&self) {
        self.left.store(true, Ordering::Release);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    pub(crate) fn wake(&self) -> &Wake {
        &self.wake
    }
}

#[cfg(not(loom))]
fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(loom)]
fn lock<T>(mutex: &Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread of the model panics")
}

/// Models every order in which senders and the lane can meet: `cargo xtask test` runs it.
#[cfg(all(loom, test))]
mod model {
    use super::*;

    /// Waits for the wake-up as epoll does, and takes everything.
    fn sleep_and_take(mailbox: &Mailbox<u32>, taken: &mut Vec<u32>) -> Vec<Signal> {
        while !mailbox.bell.wake.is_set() {
            loom::thread::yield_now();
        }
        let mut mail = Vec::new();
        let signals = mailbox.take(true, &mut mail);
        taken.append(&mut mail);
        signals
    }

    #[test]
    fn no_mail_waits_for_a_lane_that_sleeps() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::new().unwrap());
            let senders = [1, 2].map(|number| {
                let mailbox = mailbox.clone();
                loom::thread::spawn(move || mailbox.send(number))
            });
            let mut taken = Vec::new();
            // A turn without a wake-up may take what it finds.
            let mut mail = Vec::new();
            mailbox.take(false, &mut mail);
            taken.append(&mut mail);
            while taken.len() < 2 {
                sleep_and_take(&mailbox, &mut taken);
            }
            for sender in senders {
                sender.join().unwrap();
            }
            taken.sort_unstable();
            assert_eq!(taken, [1, 2]);
        });
    }

    #[test]
    fn all_mail_that_was_sent_before_comes_before_the_stop() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::new().unwrap());
            let sender = {
                let mailbox = mailbox.clone();
                loom::thread::spawn(move || {
                    mailbox.send(1);
                    mailbox.stop();
                })
            };
            let mut taken = Vec::new();
            loop {
                let signals = sleep_and_take(&mailbox, &mut taken);
                if !signals.is_empty() {
                    break;
                }
            }
            sender.join().unwrap();
            assert_eq!(taken, [1]);
        });
    }

    #[test]
    fn a_lane_that_is_woken_sees_what_was_stored_before() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::<u32>::new().unwrap());
            let is_marked = Arc::new(AtomicBool::new(false));
            let marker = {
                let (mailbox, is_marked) = (mailbox.clone(), is_marked.clone());
                loom::thread::spawn(move || {
                    is_marked.store(true, Ordering::Relaxed);
                    mailbox.wake();
                })
            };
            // Its own wake-up may also serve for the marker's.
            mailbox.send(1);
            let mut taken = Vec::new();
            mailbox.take(false, &mut taken);
            while !is_marked.load(Ordering::Relaxed) {
                sleep_and_take(&mailbox, &mut taken);
            }
            marker.join().unwrap();
        });
    }

    #[test]
    fn a_turn_within_a_turn_leaves_the_mail_and_its_wake_up() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::new().unwrap());
            let sender = {
                let mailbox = mailbox.clone();
                loom::thread::spawn(move || {
                    mailbox.bell.signal(Signal::Stop);
                    mailbox.send(1);
                })
            };
            let mut signals = mailbox.bell.take_signals().len();
            let mut taken = Vec::new();
            while taken.is_empty() || signals == 0 {
                signals += sleep_and_take(&mailbox, &mut taken).len();
            }
            sender.join().unwrap();
            assert_eq!((taken.as_slice(), signals), (&[1][..], 1));
        });
    }
}

#[cfg(all(test, not(loom)))]
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
        assert_eq!(taken, [0, 1, 2]);
        taken.clear();
        mailbox.take(false, &mut taken);
        assert!(taken.is_empty());
        assert_eq!(mailbox.pending(), 0);
    }

    #[test]
    fn a_lane_that_is_told_to_stop_has_all_mail_that_was_sent_before() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.send(1);
        mailbox.stop();
        let mut taken = Vec::new();
        let signals = mailbox.take(false, &mut taken);
        assert!(matches!(signals.as_slice(), [Signal::Stop]));
        assert_eq!(taken, [1]);
        taken.clear();
        assert!(mailbox.take(true, &mut taken).is_empty() && taken.is_empty());
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
