//! Background freeing. A separate thread frees large values and whole tables. It starts when it is
//! first needed.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

use crate::entry::Entry;
use crate::shard::Dictionary;
use crate::value::Object;

/// Frees values in the background.
pub(crate) struct Reclaimer {
    /// One bit per [`Cause`] with background freeing.
    lazy: AtomicU8,
    sender: OnceLock<Sender<Garbage>>,
    counts: Arc<Counts>,
}

/// The reason for freeing a value; the number is its bit in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cause {
    /// `lazyfree-lazy-eviction`.
    Eviction = 1,
    /// `lazyfree-lazy-expire`.
    Expiry = 2,
    /// `lazyfree-lazy-server-del`: another value replaces it.
    Replacement = 4,
    /// `lazyfree-lazy-user-del`: DEL.
    Deletion = 8,
    /// `lazyfree-lazy-user-flush`: FLUSHALL and FLUSHDB.
    Flush = 16,
    /// `replica-lazy-flush`: a full sync replaces it.
    FullSync = 32,
    /// UNLINK: always.
    Unlink = 128,
}

/// A value to free.
pub(crate) enum Garbage {
    Entry(Entry),
    Object(Box<Object>),
    Dictionary(Dictionary),
    /// An object outside the keyspace, and how many keys it counts as.
    Other(Box<dyn Send>, u64),
    /// A function to call when everything before it has been freed.
    Mark(Box<dyn FnOnce() + Send>),
}

#[derive(Default)]
struct Counts {
    pending: AtomicU64,
    freed: AtomicU64,
}

impl Reclaimer {
    pub(crate) fn new() -> Self {
        Reclaimer {
            lazy: AtomicU8::new(0),
            sender: OnceLock::new(),
            counts: Arc::default(),
        }
    }

    /// Sets which causes free in the background, as a sum of [`Cause`]s.
    pub(crate) fn set_lazy(&self, causes: u8) {
        self.lazy.store(causes, Ordering::Relaxed);
    }

    /// Frees each value where it is given up, without a thread. Has no effect once the thread runs.
    pub(crate) fn free_at_once(&self) {
        // A channel without a receiver: each sender frees values itself.
        let _ = self.sender.set(channel().0);
    }

    pub(crate) fn is_lazy(&self, cause: Cause) -> bool {
        cause == Cause::Unlink || self.lazy.load(Ordering::Relaxed) & cause as u8 != 0
    }

    /// Returns the number of keys whose values wait to be freed.
    pub(crate) fn pending(&self) -> u64 {
        self.counts.pending.load(Ordering::Relaxed)
    }

    /// Returns the number of keys whose values were freed here.
    pub(crate) fn freed(&self) -> u64 {
        self.counts.freed.load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.counts.freed.store(0, Ordering::Relaxed);
    }

    /// Frees a value in the background, or right here if the thread cannot be started.
    pub(crate) fn free(&self, garbage: Garbage) {
        let count = garbage.keys();
        self.counts.pending.fetch_add(count, Ordering::Relaxed);
        let sender = self.sender.get_or_init(|| start(self.counts.clone()));
        if let Err(unsent) = sender.send(garbage) {
            unsent.0.free(&self.counts);
        }
    }
}

/// Starts the thread. It ends when the sender is dropped.
fn start(counts: Arc<Counts>) -> Sender<Garbage> {
    let (sender, receiver) = channel::<Garbage>();
    let run = move || {
        while let Ok(garbage) = receiver.recv() {
            garbage.free(&counts);
        }
    };
    let thread = std::thread::Builder::new().name("tidewire-free".to_owned());
    // If the thread cannot start, the receiver is dropped, and each sender frees values itself.
    drop(thread.spawn(run));
    sender
}

impl Garbage {
    /// Returns how many keys it counts as in INFO.
    fn keys(&self) -> u64 {
        match self {
            Garbage::Entry(_) | Garbage::Object(_) => 1,
            Garbage::Dictionary(dictionary) => dictionary.table.len() as u64,
            Garbage::Other(_, count) => *count,
            Garbage::Mark(_) => 0,
        }
    }

    fn free(self, counts: &Counts) {
        let count = self.keys();
        match self {
            Garbage::Entry(entry) => drop(entry),
            Garbage::Object(object) => drop(object),
            Garbage::Dictionary(dictionary) => drop(dictionary),
            Garbage::Other(other, _) => drop(other),
            Garbage::Mark(done) => done(),
        }
        counts.freed.fetch_add(count, Ordering::Relaxed);
        let before = counts.pending.fetch_sub(count, Ordering::Relaxed);
        debug_assert!(before >= count, "freed values were counted");
    }
}

impl fmt::Debug for Reclaimer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Reclaimer")
            .field("pending", &self.pending())
            .field("freed", &self.freed())
            .finish()
    }
}

/// Values with more elements are freed in the background.
pub(crate) const PARTS_MIN: usize = 64;
