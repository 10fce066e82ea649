//! The stream that an owner reads.

use tidewire_feed::journal::{Cursor, Filter};
use tidewire_feed::server::Relay;

/// A stream of which an owner publishes a selection. Valid for one call: the caller may hold a lock
/// on a journal for that long.
pub trait Reader {
    /// Returns the stream's session id.
    fn session(&self) -> u32;

    /// Returns the sequence of the next message.
    fn next(&self) -> u64;

    /// Returns the oldest sequence that can be read, or the next sequence if there is none.
    fn oldest(&self) -> u64;

    /// Returns whether messages of this symbol are published.
    fn passes(&self, symbol: u32) -> bool;

    /// Appends packets from the cursor up to `until`, at most `budget_bytes`, and moves the
    /// cursor. Skips stand for what is not published; those at the end get none yet.
    fn read(&self, cursor: &mut Cursor, until: u64, budget_bytes: usize, out: &mut Vec<u8>);

    /// Appends a skip for what the cursor scanned and is not published.
    fn write_skipped(&self, cursor: &mut Cursor, out: &mut Vec<u8>);
}

impl<F: Filter> Reader for Relay<'_, F> {
    fn session(&self) -> u32 {
        Relay::session(self)
    }

    fn next(&self) -> u64 {
        self.next_sequence()
    }

    fn oldest(&self) -> u64 {
        self.oldest_sequence()
    }

    fn passes(&self, symbol: u32) -> bool {
        Relay::passes(self, symbol)
    }

    fn read(&self, cursor: &mut Cursor, until: u64, budget_bytes: usize, out: &mut Vec<u8>) {
        Relay::read(self, cursor, until, budget_bytes, out);
    }

    fn write_skipped(&self, cursor: &mut Cursor, out: &mut Vec<u8>) {
        Relay::write_skipped(self, cursor, out);
    }
}
