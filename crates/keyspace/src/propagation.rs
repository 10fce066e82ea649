//! Propagation of changes to replicas and to the append-only file, as commands that bring another
//! server to the same state.
//!
//! A command that changes something is propagated as received, or as its handler rewrites it: with
//! a deadline in place of the TTL, or with the members that SPOP removed. Commands that belong
//! together (a transaction, a script, several commands of one request) form a [`Unit`]. It is
//! appended to the [`Log`]s as one piece, between MULTI and EXEC if it has more than one command,
//! while the changed shards are still locked. So a log has the changes of each key in order, and a
//! thread that holds every shard sees the state at the log's end.

mod log;
mod unit;

pub use log::{Log, OFFSET_MAX, TooOld};
pub(crate) use unit::PendingUnit;
pub use unit::Unit;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Writes changes to the logs of replicas and of the append-only file.
#[derive(Debug, Default)]
pub struct Propagation {
    /// Whether any log is open.
    wanted: Wanted,
    /// Whether expired keys are propagated as UNLINK.
    unlinks_expired: AtomicBool,
    /// Whether keys that a command removes as a side effect are propagated as UNLINK.
    unlinks_removed: AtomicBool,
    replicas: Log,
    file: Log,
}

/// A flag on its own cache lines: every command reads it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Wanted(AtomicU8);

/// A log of [`Propagation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Replicas.
    Replicas,
    /// The append-only file.
    File,
}

impl Propagation {
    /// Returns whether changes are propagated. One relaxed load.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted.0.load(Ordering::Relaxed) != 0
    }

    /// Returns the log of one audience.
    pub fn log(&self, audience: Audience) -> &Log {
        match audience {
            Audience::Replicas => &self.replicas,
            Audience::File => &self.file,
        }
    }

    /// Opens a log. Running commands may be missing from it. To get the state at the log's start,
    /// lock every shard first.
    pub fn open(&self, audience: Audience) {
        debug_assert_eq!(
            self.wanted.0.load(Ordering::Relaxed) & !0b11,
            0,
            "there are two logs"
        );
        self.log(audience).open(false);
        self.wanted.0.fetch_or(bit(audience), Ordering::SeqCst);
    }

    /// Opens a log for the stream of another server, which [`Log::relay`] appends. Local changes
    /// are not appended to it.
    pub fn relay(&self, audience: Audience) {
        self.wanted.0.fetch_and(!bit(audience), Ordering::SeqCst);
        self.log(audience).open(true);
    }

    /// Closes a log and drops its contents. Its offset stays.
    pub fn close(&self, audience: Audience) {
        self.wanted.0.fetch_and(!bit(audience), Ordering::SeqCst);
        self.log(audience).close();
    }

    /// Sets how removed keys are propagated: the settings `lazyfree-lazy-expire` and
    /// `lazyfree-lazy-server-del`, true for UNLINK.
    pub fn set_unlinks(&self, expired: bool, removed: bool) {
        self.unlinks_expired.store(expired, Ordering::Relaxed);
        self.unlinks_removed.store(removed, Ordering::Relaxed);
    }

    /// Returns the command that is propagated for an expired key.
    pub fn expiry_command(&self) -> &'static [u8] {
        removal(self.unlinks_expired.load(Ordering::Relaxed))
    }

    /// Returns the command that is propagated for a key that a command removes as a side effect.
    pub(crate) fn removal_command(&self) -> &'static [u8] {
        removal(self.unlinks_removed.load(Ordering::Relaxed))
    }

    /// Appends a unit to the open logs. The changed shards are still locked.
    pub fn append(&self, unit: &Unit) {
        if unit.is_empty() {
            return;
        }
        UNITS.set(UNITS.get() + 1);
        if unit.has_change_for_file() {
            CHANGES.set(CHANGES.get() + 1);
        }
        let wanted = self.wanted.0.load(Ordering::Relaxed);
        for audience in [Audience::File, Audience::Replicas] {
            if wanted & bit(audience) != 0 {
                self.log(audience).append(unit, audience);
            }
        }
    }
}

thread_local! {
    /// Number of changes that this thread has propagated, without expirations.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    /// Units that this thread has propagated.
    static UNITS: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many units this thread has propagated to replicas or the append-only file, those of
/// expired keys and of PUBLISH included. A command that leaves it as it was has propagated nothing.
#[inline]
pub fn units_told_here() -> u64 {
    UNITS.get()
}

/// Returns how many changes this thread has propagated to the append-only file. If the number is
/// equal before and after a command, the command has changed nothing. Expirations do not count.
#[inline]
pub fn changes_told_here() -> u64 {
    CHANGES.get()
}

fn removal(unlinks: bool) -> &'static [u8] {
    match unlinks {
        true => b"UNLINK",
        false => b"DEL",
    }
}

fn bit(audience: Audience) -> u8 {
    match audience {
        Audience::Replicas => 1,
        Audience::File => 2,
    }
}
