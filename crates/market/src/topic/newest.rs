//! Until when a topic has traded, and which trades are those that it has had before.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// The latest source time of a topic's trades, and until when they may come again.
#[derive(Debug, Default)]
pub(super) struct NewestTrades {
    /// Of the session, ns since the UNIX epoch; 0 if unknown.
    session_ns: AtomicU64,
    /// Of all sessions before, and of those that whole values tell of; 0 if unknown.
    older_ns: AtomicU64,
    /// Source time until which trades may come that its bars have had; 0 if none do.
    repeated_until_ns: AtomicU64,
    /// Whether it had traded when its trades began to come again: then it knows which of them are
    /// repeated.
    knows_repetitions: AtomicBool,
    /// Whether the time is that of another venue or publisher than the topic is of now.
    is_of_another: AtomicBool,
    /// Source time of the newest trade when its trades began to come again for the last time; 0 if
    /// they never have. Each publisher that takes the topic over may send its own again.
    had_until_ns: AtomicU64,
    /// The venues that the symbol was of before, and until when it had traded when it left them.
    /// Boxed, because few topics have any.
    left: OnceLock<Box<Mutex<Vec<LeftVenue>>>>,
    /// Until when the symbol had traded before its venue got this topic, ns since the UNIX epoch; 0
    /// if it had not. The venue's trades are among those.
    before_ns: AtomicU64,
    /// Whether clients know that some of the trades that come again may be new.
    is_doubt_told: AtomicBool,
}

/// A venue that a symbol is not of any more.
#[derive(Debug)]
struct LeftVenue {
    /// Its name; empty for several of them.
    name: Box<str>,
    /// Source time until which the symbol had traded, ns since the UNIX epoch.
    until_ns: u64,
}

impl NewestTrades {
    pub(super) fn newest_ns(&self) -> u64 {
        self.session_ns().max(self.older_ns.load(Ordering::Relaxed))
    }

    /// Returns the latest time of the session's trades that have come one by one, ns since the UNIX
    /// epoch; 0 if none has.
    pub(super) fn session_ns(&self) -> u64 {
        self.session_ns.load(Ordering::Relaxed)
    }

    /// Notes that a session begins.
    pub(super) fn begin_session(&self) {
        self.note_older(self.session_ns.swap(0, Ordering::Relaxed));
    }

    /// Notes a time until which there were trades that may be of an earlier session.
    pub(super) fn note_older(&self, time_ns: u64) {
        self.older_ns.fetch_max(time_ns, Ordering::Relaxed);
    }

    pub(super) fn repeated_until_ns(&self) -> u64 {
        self.repeated_until_ns.load(Ordering::Relaxed)
    }

    /// Notes a trade's time.
    #[inline]
    pub(super) fn note(&self, time_ns: u64) {
        if time_ns > self.session_ns() {
            self.session_ns.store(time_ns, Ordering::Relaxed);
        }
    }

    /// Notes that the trades so far may come again.
    pub(super) fn may_repeat(&self) {
        let until_ns = self.newest_ns();
        self.repeated_until_ns
            .fetch_max(until_ns, Ordering::Relaxed);
        self.had_until_ns.fetch_max(until_ns, Ordering::Relaxed);
        self.is_doubt_told.store(false, Ordering::Relaxed);
        if until_ns != 0 {
            self.knows_repetitions.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that another publisher gives the trades from now on: it may send its own of before the
    /// last restart of the hub, although those of others have ended the repetition. Their clocks
    /// may be apart.
    pub(super) fn may_repeat_again(&self) {
        let until_ns = self.had_until_ns();
        // One that has not ended goes on as it is.
        if until_ns == 0 || self.repeated_until_ns() != 0 {
            return;
        }
        self.repeated_until_ns.store(until_ns, Ordering::Relaxed);
        self.is_of_another.store(true, Ordering::Relaxed);
        self.is_doubt_told.store(false, Ordering::Relaxed);
    }

    pub(super) fn had_until_ns(&self) -> u64 {
        self.had_until_ns.load(Ordering::Relaxed)
    }

    pub(super) fn knows_repetitions(&self) -> bool {
        self.knows_repetitions.load(Ordering::Relaxed)
    }

    /// Returns whether a trade of this time has come before. The first later one ends the
    /// repetition; one without a time belongs to it.
    #[inline]
    pub(super) fn is_repeated(&self, time_ns: u64) -> bool {
        let until_ns = self.repeated_until_ns();
        if until_ns != 0 && time_ns > until_ns {
            self.repeated_until_ns.store(0, Ordering::Relaxed);
            self.is_of_another.store(false, Ordering::Relaxed);
        }
        until_ns != 0 && time_ns <= until_ns
    }

    /// Notes that the topic is not of the venue `left` any more. The clock of another one, or of
    /// several, may be another one.
    pub(super) fn leave_venue(&self, left: &str) {
        let until_ns = self.newest_ns();
        if until_ns == 0 {
            return;
        }
        self.is_of_another.store(true, Ordering::Relaxed);
        let mut all = self.left.get_or_init(Box::default).lock();
        let name = if all.len() < LEFT_MAX { left } else { "" };
        match all.iter_mut().find(|known| *known.name == *name) {
            Some(known) => known.until_ns = until_ns,
            None => all.push(LeftVenue {
                name: name.into(),
                until_ns,
            }),
        }
    }

    /// Returns the source time until which the symbol may have traded at a venue before it was of
    /// another one, ns since the UNIX epoch; 0 if it has not.
    pub(super) fn left_until_ns(&self, venue: &str) -> u64 {
        let Some(left) = self.left.get() else {
            return 0;
        };
        let left = left.lock();
        let is_meant = |left: &&LeftVenue| left.name.is_empty() || *left.name == *venue;
        let times = left.iter().filter(is_meant).map(|left| left.until_ns);
        times.max().unwrap_or(0)
    }

    /// Notes until when the symbol had traded before its venue got this topic.
    pub(super) fn begin_behind(&self, time_ns: u64) {
        self.before_ns.fetch_max(time_ns, Ordering::Relaxed);
    }

    pub(super) fn before_ns(&self) -> u64 {
        self.before_ns.load(Ordering::Relaxed)
    }

    pub(super) fn is_of_another(&self) -> bool {
        self.is_of_another.load(Ordering::Relaxed)
    }

    /// Returns whether clients do not know yet that some of the trades that come again may be new,
    /// and notes that they do.
    pub(super) fn take_doubt(&self) -> bool {
        !self.is_doubt_told.swap(true, Ordering::Relaxed)
    }

    /// Takes the times of a topic whose value this one continues.
    pub(super) fn take(&self, other: &Self) {
        self.note_older(other.older_ns.load(Ordering::Relaxed));
        self.note(other.session_ns());
        let until_ns = other.repeated_until_ns();
        self.repeated_until_ns.store(until_ns, Ordering::Relaxed);
        let knows = other.knows_repetitions();
        self.knows_repetitions.store(knows, Ordering::Relaxed);
        // Which of those that come again are new is as uncertain as it was.
        let is_of_another = other.is_of_another();
        self.is_of_another.store(is_of_another, Ordering::Relaxed);
        self.had_until_ns
            .fetch_max(other.had_until_ns(), Ordering::Relaxed);
        self.begin_behind(other.before_ns());
    }
}

/// Maximum venues that are told apart.
const LEFT_MAX: usize = 8;
