//! Trades that a snapshot's records include, although the stream brings them afterwards.

use std::collections::HashMap;

use super::WATCHED_SYMBOLS_MAX;
use super::special::JUMP_MAX;
use crate::wire::{LastValue, Message};

/// Up to where records that are newer than their snapshot have their symbols' trades.
///
/// A record may be made after the stream went on. Other messages may be applied twice; a trade
/// would be counted twice in volume and number of trades.
#[derive(Debug, Default)]
pub(super) struct Included {
    symbols: HashMap<u32, u64>,
    /// The newest of the sequences; 0 without any.
    until: u64,
}

impl Included {
    /// Notes a record; `expected` is the stream's next sequence here.
    pub(super) fn note(&mut self, record: &LastValue, expected: u64) {
        let ahead = record.sequence.checked_sub(expected);
        let is_ahead = ahead.is_some_and(|count| count <= JUMP_MAX);
        if is_ahead && record.symbol < WATCHED_SYMBOLS_MAX {
            self.symbols.insert(record.symbol, record.sequence);
            self.until = self.until.max(record.sequence);
        }
    }

    /// Returns whether records may include messages from this sequence on.
    #[inline]
    pub(super) fn reaches(&self, sequence: u64) -> bool {
        sequence <= self.until
    }

    /// Returns whether a record has included this message.
    #[cold]
    pub(super) fn has(&self, sequence: u64, message: &Message) -> bool {
        let Message::Trade(trade) = message else {
            return false;
        };
        let until = self.symbols.get(&trade.symbol);
        until.is_some_and(|&until| sequence <= until)
    }

    /// Forgets everything: the stream has passed it, or is another one.
    #[cold]
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.until = 0;
    }
}
