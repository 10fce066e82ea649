//! How much long bodies weigh that one socket of the process has sent another, which has not read
//! them.
//!
//! Up to the high-water mark they may fill the memory. As long as they are few, each finds the room
//! of one that was read, which is in the caches. So a sender that may wait leaves no more than
//! three quarters of what the rooms keep, and after that goes on when a quarter is left.

use crate::clock::now_ns;
use crate::message::Message;
use crate::rooms;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, fence};

/// Of one way of a pipe, what both ends know. In cache lines of its own: short messages touch
/// others.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Read {
    /// Bytes that were read of it, in steps.
    bytes: AtomicUsize,
    /// The writer waits until so many were read; 0: it does not.
    wanted: AtomicUsize,
    /// The writer sleeps until it is woken.
    is_asleep: AtomicBool,
}

/// What the writer knows.
#[derive(Debug, Default)]
pub(crate) struct Written {
    bytes: usize,
    /// It is within the limit up to here.
    within: usize,
    /// What was read when its last wait ended without result.
    in_vain: Option<usize>,
    /// When it last went on because the reader had caught up, in nanoseconds; 0: it did not.
    resumed_ns: u64,
}

/// What the reader knows.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    bytes: usize,
}

impl Written {
    #[inline]
    pub(crate) fn count(&mut self, weight: usize) {
        self.bytes += weight;
    }

    /// Whether it is time to wait for the reader.
    #[inline]
    pub(crate) fn is_too_much(&mut self, read: &Read) -> bool {
        self.bytes > self.within && self.exceeds(read)
    }

    #[cold]
    fn exceeds(&mut self, read: &Read) -> bool {
        let told = read.bytes.load(Ordering::Acquire);
        self.within = told.saturating_add(rooms::bytes_max() / 4 * 3);
        self.bytes > self.within && self.in_vain != Some(told)
    }

    /// The writer is about to wait. `false`: it need not.
    pub(crate) fn begin_wait(&self, read: &Read) -> bool {
        if now_ns().saturating_sub(self.resumed_ns) < QUICK_NS {
            rooms::widen();
        }
        let wanted = self.bytes.saturating_sub(rooms::bytes_max() / 4);
        read.wanted.store(wanted, Ordering::Relaxed);
        // Against the fence in `tell`: the reader sees that we wait, or we what it has read.
        fence(Ordering::SeqCst);
        let waits = read.bytes.load(Ordering::Relaxed) < wanted;
        if !waits {
            read.wanted.store(0, Ordering::Relaxed);
        }
        waits
    }

    pub(crate) fn end_wait(&mut self, read: &Read) {
        read.is_asleep.store(false, Ordering::Relaxed);
        self.resumed_ns = 0;
        match read.wanted.swap(0, Ordering::Relaxed) {
            0 => self.resumed_ns = now_ns(),
            // It may read on only when this thread does something else.
            _ => self.in_vain = Some(read.bytes.load(Ordering::Relaxed)),
        }
    }
}

impl Read {
    /// Whether the writer that waits need not any more.
    pub(crate) fn is_enough(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) == 0
    }

    /// The writer is about to sleep. `false`: it need not.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::Relaxed);
        // Against the second fence in `tell`: the reader sees that we sleep, or we see that it is
        // enough.
        fence(Ordering::SeqCst);
        !self.is_enough()
    }
}

impl Untold {
    /// A message was read. Whether the writer is to be told.
    #[inline]
    pub(crate) fn count(&mut self, weight: usize) -> bool {
        self.bytes += weight;
        self.bytes >= STEP_BYTES
    }

    /// Tells the writer. Whether it is to be woken.
    #[inline]
    pub(crate) fn tell(&mut self, read: &Read) -> bool {
        self.bytes > 0 && self.tell_some(read)
    }

    #[cold]
    fn tell_some(&mut self, read: &Read) -> bool {
        let untold = std::mem::take(&mut self.bytes);
        let told = read.bytes.load(Ordering::Relaxed).wrapping_add(untold);
        read.bytes.store(told, Ordering::Release);
        fence(Ordering::SeqCst);
        let wanted = read.wanted.load(Ordering::Relaxed);
        if wanted == 0 || told < wanted || read.wanted.swap(0, Ordering::Relaxed) == 0 {
            return false;
        }
        fence(Ordering::SeqCst);
        read.is_asleep.load(Ordering::Relaxed)
    }
}

/// What others share, or the program has lent, takes no room.
#[inline]
pub(crate) fn weight_of(message: &Message) -> usize {
    let length = message.len();
    if length < rooms::BYTES_MIN || message.is_shared() {
        return 0;
    }
    weight(length)
}

/// Short bodies weigh nothing: an allocator is quick with them.
#[inline]
fn weight(length: usize) -> usize {
    if rooms::is_kept(length) { length } else { 0 }
}

/// A writer that goes on for no longer than this is held up more than it writes.
const QUICK_NS: u64 = 200_000;
/// The reader tells what it has read in steps: both write to what it is told by.
const STEP_BYTES: usize = 2 << 20;

/// Every order in which a writer and a reader can meet.
#[cfg(all(loom, test))]
mod model {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_writer_that_falls_asleep_is_woken_by_a_reader_that_has_read_enough() {
        loom::model(|| {
            let read = Arc::new(Read::default());
            let unread = rooms::bytes_max();
            let reader = {
                let read = Arc::clone(&read);
                loom::thread::spawn(move || {
                    let mut untold = Untold { bytes: unread };
                    untold.tell(&read)
                })
            };
            let written = Written {
                bytes: unread,
                ..Written::default()
            };
            let sleeps = written.begin_wait(&read) && read.fall_asleep();
            let wakes = reader.join().unwrap();
            assert!(wakes || !sleeps, "it sleeps on");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: usize = 1 << 20;

    fn write(written: &mut Written, read: &Read) -> bool {
        written.count(weight(BODY));
        written.is_too_much(read)
    }

    #[test]
    fn a_writer_waits_for_long_bodies_until_few_are_left() {
        let (read, mut written, mut untold) =
            (Read::default(), Written::default(), Untold::default());
        let fits = rooms::bytes_max() / 4 * 3 / BODY;
        assert!((0..fits).all(|_| !write(&mut written, &read)));
        assert!(write(&mut written, &read));
        assert!(written.begin_wait(&read) && read.fall_asleep());
        let woken = (0..=fits).position(|_| untold.count(BODY) && untold.tell(&read));
        let left = fits + 1 - (woken.unwrap() + 1);
        let most = rooms::bytes_max() / 4;
        assert!(
            left * BODY <= most && left * BODY + STEP_BYTES > most,
            "{left}"
        );
        written.end_wait(&read);
        assert!(!write(&mut written, &read));
    }

    #[test]
    fn a_writer_that_waited_in_vain_waits_again_only_after_something_was_read() {
        let (read, mut written, mut untold) =
            (Read::default(), Written::default(), Untold::default());
        while !write(&mut written, &read) {}
        assert!(written.begin_wait(&read));
        written.end_wait(&read);
        assert!((0..1_000).all(|_| !write(&mut written, &read)));
        assert!(!untold.count(BODY) && !untold.tell(&read), "no one waits");
        assert!(write(&mut written, &read));
    }

    #[test]
    fn short_bodies_weigh_nothing() {
        let mut untold = Untold::default();
        assert!((0..100_000).all(|_| !untold.count(weight(100))));
        assert!(!untold.tell(&Read::default()));
    }
}
