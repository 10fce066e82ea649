//! The stream for another hub, from any position.

use crate::journal::{Cursor, Filter, Journal, PacketOptions};
use crate::wire::{Flags, MESSAGE_LENGTH_MAX};

/// Largest packet of a relay, header included: 48 KiB.
pub const RELAY_PACKET_LENGTH_MAX: usize = 48 * 1024;

/// Reads a journal for a hub that packs the packets into frames of its own. It keeps no state: the
/// caller keeps a [`Cursor`] for each position from which it reads, and sends heartbeats itself.
#[derive(Debug)]
pub struct Relay<'a, F> {
    journal: &'a Journal,
    filter: &'a F,
}

impl<'a, F: Filter> Relay<'a, F> {
    /// Creates a relay of the messages that pass the filter.
    pub fn new(journal: &'a Journal, filter: &'a F) -> Relay<'a, F> {
        Relay { journal, filter }
    }

    /// Returns the stream's session id.
    pub fn session(&self) -> u32 {
        self.journal.session()
    }

    /// Returns the sequence of the stream's next message.
    pub fn next_sequence(&self) -> u64 {
        self.journal.next_sequence()
    }

    /// Returns the oldest sequence that can be read, or the next sequence if there is none.
    pub fn oldest_sequence(&self) -> u64 {
        self.journal.oldest_sequence()
    }

    /// Returns whether messages of this symbol pass.
    pub fn passes(&self, symbol: u32) -> bool {
        self.filter.passes_all() || self.filter.passes(symbol)
    }

    /// Appends packets from the cursor up to `until`, at most `budget_bytes` and never more than
    /// [`RELAY_PACKET_LENGTH_MAX`], and moves the cursor. Skips stand for messages that do not
    /// pass; those at the end get none yet ([`Relay::write_skipped`]). One call scans at most
    /// [`SCAN_MESSAGES_MAX`](crate::journal::SCAN_MESSAGES_MAX) messages for a selection.
    ///
    /// Writes nothing if the cursor is outside the kept range.
    pub fn read(&self, cursor: &mut Cursor, until: u64, budget_bytes: usize, out: &mut Vec<u8>) {
        let options = PacketOptions {
            packet_limit_bytes: RELAY_PACKET_LENGTH_MAX,
            // The last message may exceed the budget.
            budget_bytes: budget_bytes
                .min(RELAY_PACKET_LENGTH_MAX)
                .saturating_sub(MESSAGE_LENGTH_MAX),
            flags: Flags::NONE,
        };
        let (journal, filter) = (self.journal, self.filter);
        journal.write_packets(cursor, until, &options, filter, out);
    }

    /// Appends a skip for the messages that the cursor scanned without a match.
    pub fn write_skipped(&self, cursor: &mut Cursor, out: &mut Vec<u8>) {
        self.journal.write_skipped(cursor, Flags::NONE, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Message, Quote, Venue, VenueName, decode_packet};

    struct Odd;

    impl Filter for Odd {
        fn passes_all(&self) -> bool {
            false
        }

        fn passes(&self, symbol: u32) -> bool {
            symbol % 2 == 1
        }
    }

    fn journal() -> Journal {
        let mut journal = Journal::new(7, 4_096);
        for symbol in 0..3_000 {
            journal.append(&Message::Quote(Quote {
                symbol,
                ..Quote::default()
            }));
        }
        journal
    }

    /// Reads the whole journal in calls of the largest budget, and returns the sequences of its
    /// messages.
    fn read(relay: &Relay<'_, impl Filter>) -> Vec<u64> {
        let (mut cursor, mut sequences) = (Cursor::at(1), Vec::new());
        while cursor.sent < relay.next_sequence() {
            let (mut out, mut next) = (Vec::new(), cursor.sent);
            relay.read(&mut cursor, u64::MAX, RELAY_PACKET_LENGTH_MAX, &mut out);
            if cursor.scanned == relay.next_sequence() {
                relay.write_skipped(&mut cursor, &mut out);
            }
            assert!(out.len() <= RELAY_PACKET_LENGTH_MAX + 48, "{}", out.len());
            let mut rest = out.as_slice();
            while let Some((packet, length)) = decode_packet(rest).unwrap() {
                assert_eq!(
                    (packet.header.first_sequence, packet.header.session),
                    (next, 7)
                );
                for message in packet.messages().map(Result::unwrap) {
                    if !matches!(message, Message::Skip(_)) {
                        sequences.push(next);
                    }
                    next += message.sequence_count();
                }
                rest = &rest[length..];
            }
            assert_eq!(next, cursor.sent);
        }
        sequences
    }

    #[test]
    fn packets_are_contiguous_and_within_the_budget() {
        let journal = journal();
        let all = read(&Relay::new(&journal, &crate::journal::Everything));
        assert_eq!(all, (1..=3_000).collect::<Vec<_>>());
        let odd = read(&Relay::new(&journal, &Odd));
        assert_eq!(odd, (1..=1_500).map(|n| 2 * n).collect::<Vec<_>>());
    }

    /// A venue named in mid-stream was skipped for each selection without the symbol 0.
    #[test]
    fn the_name_of_a_venue_passes_every_selection() {
        let mut journal = Journal::new(7, 64);
        journal.append(&Message::Quote(Quote::default()));
        journal.append(&Message::Venue(Venue {
            source: 3,
            source_time_ns: 0,
            name: VenueName::new("XNAS").unwrap(),
        }));
        assert_eq!(read(&Relay::new(&journal, &Odd)), [2]);
    }
}
