//! The stream that an owner reads, and the records of its snapshot.

use tidewire_feed::journal::{Cursor, Filter};
use tidewire_feed::server::{Board, Relay};
use tidewire_feed::wire::{LastValue, Message, PacketWriter, Venue};

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

/// The entries of a snapshot, by index. An entry keeps its index as long as it exists.
pub trait Records {
    /// Returns the number of entries, those that are empty included.
    fn len(&self) -> usize;

    /// Returns whether there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sequence of the newest message about an entry, or a later one.
    fn changed(&self, index: usize) -> u64;

    /// Writes what a snapshot has of an entry, at most 8 KiB; returns false if it has nothing.
    fn write(&self, index: usize, reader: &impl Reader, writer: &mut PacketWriter<'_>) -> bool;

    /// Returns the venues that have a name.
    fn venues(&self) -> Vec<Venue> {
        Vec::new()
    }
}

/// The symbols of a board, as records.
#[derive(Debug)]
pub(crate) struct Symbols<'a, B>(pub(crate) &'a B);

impl<B: Board> Records for Symbols<'_, B> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn changed(&self, index: usize) -> u64 {
        self.0.changed(index)
    }

    fn write(&self, index: usize, reader: &impl Reader, writer: &mut PacketWriter<'_>) -> bool {
        // Read before what it stands for, which may be newer, but never older.
        let changed = self.0.changed(index);
        let definition = self.0.definition(index);
        let Some(definition) = definition.filter(|found| reader.passes(found.symbol)) else {
            return false;
        };
        let value = record(self.0, index, changed, definition.symbol);
        writer.push(&Message::Definition(definition));
        writer.push(&Message::LastValue(value));
        true
    }

    fn venues(&self) -> Vec<Venue> {
        self.0.venues()
    }
}

/// Returns an entry's value with the sequence up to which it includes the stream.
fn record(board: &impl Board, index: usize, changed: u64, symbol: u32) -> LastValue {
    match board.last_value(index) {
        Some(value) => LastValue {
            sequence: match changed {
                u64::MAX => value.sequence,
                changed => value.sequence.max(changed),
            },
            ..value
        },
        None => LastValue::new(symbol),
    }
}
