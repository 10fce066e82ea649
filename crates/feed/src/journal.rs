//! The recent messages of a stream, for retransmission.
//!
//! Messages are stored encoded, one after the other, in a byte ring. An index holds where each
//! begins. A range of the stream is sent as one copy, and every message type is stored alike.
//!
//! ```text
//!  index (by sequence & mask)   [ 0 | 48 | 80 | 128 | … ]
//!  bytes                        [quote···|trade|quote···|… free …]   a message never wraps
//! ```

use crate::wire::{
    Definition, Flags, HEADER_LENGTH, MESSAGE_LENGTH_MAX, Message, MessageKind, PACKET_LENGTH_MAX,
    PACKET_LIMIT_BYTES_MIN, PREFIX_LENGTH, PacketWriter, Quote,
};

/// Minimum messages a journal keeps.
pub const CAPACITY_MIN: usize = 64;
/// Maximum messages a journal keeps: 3.5 GiB of memory.
pub const CAPACITY_MAX: usize = 1 << 26;
/// Maximum messages one call scans for a selection. Limits the time of a call that finds nothing.
pub const SCAN_MESSAGES_MAX: u64 = 65_536;

/// A stream's session id, next sequence and most recent messages.
pub struct Journal {
    session: u32,
    /// Sequence of the next message, from 1.
    next_sequence: u64,
    /// First sequence still kept; equals `next_sequence` if the journal is empty.
    oldest_sequence: u64,
    ended: bool,
    /// The length is a power of two.
    bytes: Box<[u8]>,
    /// Byte positions that grow without wrapping. The number of positions is a power of two.
    positions: Box<[u64]>,
    /// Byte position after the newest message.
    tail: u64,
    /// Maximum messages kept.
    capacity: u64,
}

/// A selection of the stream by symbol.
pub trait Filter {
    /// Returns whether everything passes; then [`Filter::passes`] is not called.
    fn passes_all(&self) -> bool;
    /// Returns whether messages of this symbol pass. A venue's name has no symbol, and passes in
    /// any case.
    fn passes(&self, symbol: u32) -> bool;
    /// Returns the definition that this symbol has for the receiver; `None` for its own.
    fn definition(&self, _symbol: u32) -> Option<Definition> {
        None
    }
}

/// A filter that passes the whole stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everything;

impl Filter for Everything {
    fn passes_all(&self) -> bool {
        true
    }

    fn passes(&self, _symbol: u32) -> bool {
        true
    }
}

/// A receiver's position in the stream. `sent <= scanned`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Everything before this sequence was sent or skipped.
    pub sent: u64,
    /// Nothing between `sent` and this sequence is in the receiver's selection.
    pub scanned: u64,
}

impl Cursor {
    /// Creates the cursor of a receiver whose next sequence is `sequence`.
    pub fn at(sequence: u64) -> Cursor {
        Cursor {
            sent: sequence,
            scanned: sequence,
        }
    }
}

/// Options for writing packets.
#[derive(Clone, Copy, Debug)]
pub struct PacketOptions {
    /// Largest packet, header included.
    pub packet_limit_bytes: usize,
    /// Maximum bytes to append; the last packet may exceed it by less than its own length.
    pub budget_bytes: usize,
    /// Flags of every packet; [`Flags::FILTERED`] is added for a selection.
    pub flags: Flags,
}

impl Default for PacketOptions {
    fn default() -> Self {
        PacketOptions {
            packet_limit_bytes: PACKET_LENGTH_MAX,
            budget_bytes: usize::MAX,
            flags: Flags::NONE,
        }
    }
}

impl Journal {
    /// Creates an empty stream that begins at sequence 1. Keeps `capacity` messages, rounded up
    /// to a power of two within [`CAPACITY_MIN`]..=[`CAPACITY_MAX`]. The first message allocates
    /// the memory.
    pub fn new(session: u32, capacity: usize) -> Journal {
        Journal::starting_at(session, capacity, 1)
    }

    /// Like [`Journal::new`], but the first message gets `next_sequence` (at least 1).
    pub fn starting_at(session: u32, capacity: usize, next_sequence: u64) -> Journal {
        let capacity = capacity
            .clamp(CAPACITY_MIN, CAPACITY_MAX)
            .next_power_of_two();
        let next_sequence = next_sequence.max(1);
        Journal {
            session,
            next_sequence,
            oldest_sequence: next_sequence,
            ended: false,
            bytes: Box::default(),
            positions: Box::default(),
            tail: 0,
            capacity: capacity as u64,
        }
    }

    /// Appends a message of the stream and returns its sequence.
    ///
    /// # Panics
    ///
    /// If the message does not belong in a stream: a [`Message::Skip`] or a snapshot's mark.
    #[inline]
    pub fn append(&mut self, message: &Message) -> u64 {
        match message {
            Message::Trade(trade) => self.append_encoded(&trade.to_bytes()),
            Message::Quote(quote) => self.append_encoded(&quote.to_bytes()),
            _ => self.append_rare(message),
        }
    }

    #[inline(never)]
    fn append_rare(&mut self, message: &Message) -> u64 {
        match message {
            Message::Definition(definition) => self.append_encoded(&definition.to_bytes()),
            Message::Status(status) => self.append_encoded(&status.to_bytes()),
            Message::Venue(venue) => self.append_encoded(&venue.to_bytes()),
            Message::Level(level) => self.append_encoded(&level.to_bytes()),
            Message::Certainty(certainty) => self.append_encoded(&certainty.to_bytes()),
            Message::SessionStart(start) => self.append_encoded(&start.to_bytes()),
            Message::LastValue(_)
            | Message::Record(_)
            | Message::Topic(_)
            | Message::Deletion(_) => {
                let mut encoded = Vec::with_capacity(MESSAGE_LENGTH_MAX);
                message.encode(&mut encoded);
                self.append_bytes(&encoded)
            }
            other => panic!("{:?} is no message of a stream", other.kind()),
        }
    }

    /// Allocates the memory. A hub without a feed needs none.
    #[cold]
    fn take_memory(&mut self) {
        self.bytes = vec![0; self.byte_capacity()].into_boxed_slice();
        self.positions = vec![0; self.capacity as usize].into_boxed_slice();
    }

    /// Returns the length of `bytes` once the memory is allocated.
    fn byte_capacity(&self) -> usize {
        (self.capacity as usize * Quote::LENGTH).next_power_of_two()
    }

    #[inline(always)]
    fn append_encoded<const N: usize>(&mut self, encoded: &[u8; N]) -> u64 {
        self.append_bytes(encoded)
    }

    #[inline(always)]
    fn append_bytes(&mut self, encoded: &[u8]) -> u64 {
        let length = encoded.len();
        debug_assert!(
            (PREFIX_LENGTH..=MESSAGE_LENGTH_MAX).contains(&length),
            "a message has its prefix and its bound"
        );
        if self.bytes.is_empty() {
            self.take_memory();
        }
        let byte_capacity = self.bytes.len() as u64;
        let mut position = self.tail;
        if (position & (byte_capacity - 1)) + length as u64 > byte_capacity {
            position = position.next_multiple_of(byte_capacity);
        }
        let end = position + length as u64;
        while self.oldest_sequence < self.next_sequence
            && (self.next_sequence - self.oldest_sequence == self.capacity
                || self.position(self.oldest_sequence) + byte_capacity < end)
        {
            self.oldest_sequence += 1;
        }
        let at = (position & (byte_capacity - 1)) as usize;
        self.bytes[at..at + length].copy_from_slice(encoded);
        let index = (self.next_sequence & (self.capacity - 1)) as usize;
        self.positions[index] = position;
        self.tail = end;
        self.next_sequence += 1;
        self.next_sequence - 1
    }

    /// Returns the stream's session id.
    pub fn session(&self) -> u32 {
        self.session
    }

    /// Returns the sequence of the next message.
    #[inline]
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Returns the oldest sequence still kept, or the next sequence if the journal is empty.
    #[inline]
    pub fn oldest_sequence(&self) -> u64 {
        self.oldest_sequence
    }

    /// Returns the maximum number of messages kept.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of messages kept now.
    pub fn len(&self) -> u64 {
        self.next_sequence - self.oldest_sequence
    }

    /// Returns how many messages of any kind can be appended before the message `first` drops out;
    /// at least as many as this fit. 0 if it is not kept.
    pub fn room(&self, first: u64) -> u64 {
        if first < self.oldest_sequence {
            return 0;
        }
        let unsent = self.next_sequence.saturating_sub(first);
        let places = self.capacity.saturating_sub(unsent);
        // The bytes of long messages run out before the places. A message does not wrap, so up to
        // the length of one is lost at the ring's end.
        let used = match unsent {
            0 => 0,
            _ => self.tail - self.position(first),
        };
        let length_max = MESSAGE_LENGTH_MAX as u64;
        let free = self.byte_capacity() as u64 - used;
        places.min(free.saturating_sub(length_max) / length_max)
    }

    /// Returns the bytes of the messages kept now.
    pub fn len_bytes(&self) -> u64 {
        match self.is_empty() {
            true => 0,
            false => self.tail - self.position(self.oldest_sequence),
        }
    }

    /// Returns the source times of the oldest and the newest message kept, in nanoseconds since
    /// the UNIX epoch.
    pub fn source_times_ns(&self) -> Option<(u64, u64)> {
        let time = |sequence| {
            let prefix = self.encoded(sequence).first_chunk::<PREFIX_LENGTH>()?;
            let (_, time) = prefix.split_last_chunk::<8>()?;
            Some(u64::from_le_bytes(*time))
        };
        match self.is_empty() {
            true => None,
            false => Some((time(self.oldest_sequence)?, time(self.next_sequence - 1)?)),
        }
    }

    /// Returns whether no message is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the stream: receivers are told once they have everything.
    pub fn end_session(&mut self) {
        self.ended = true;
    }

    /// Returns whether the stream ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns the message of a sequence, if it is still kept.
    pub fn message(&self, sequence: u64) -> Option<Message> {
        if !(self.oldest_sequence..self.next_sequence).contains(&sequence) {
            return None;
        }
        Message::decode(self.encoded(sequence))
            .ok()
            .map(|(message, _)| message)
    }

    /// Packs the messages from `cursor.scanned` up to `until` that pass the filter, within the
    /// budget, and moves the cursor. Skips stand for messages that do not pass. Those at the end
    /// get no skip yet: the cursor keeps them for the next packet (or
    /// [`Journal::write_skipped`]).
    ///
    /// Writes nothing if the cursor is outside the kept range.
    pub fn write_packets(
        &self,
        cursor: &mut Cursor,
        until: u64,
        options: &PacketOptions,
        filter: &impl Filter,
        out: &mut Vec<u8>,
    ) {
        let until = until.min(self.next_sequence);
        if cursor.scanned < self.oldest_sequence || cursor.scanned >= until {
            return;
        }
        if filter.passes_all() && cursor.sent == cursor.scanned {
            self.write_all(cursor, until, options, out);
        } else {
            self.write_selection(cursor, until, options, filter, out);
        }
    }

    /// Writes a skip for the messages that the cursor scanned without a match.
    pub fn write_skipped(&self, cursor: &mut Cursor, flags: Flags, out: &mut Vec<u8>) {
        if cursor.sent < cursor.scanned {
            let flags = flags.with(Flags::FILTERED);
            let mut writer =
                PacketWriter::new(out, self.session, flags, cursor.sent, PACKET_LENGTH_MAX);
            writer.skip(cursor.scanned - cursor.sent);
            cursor.sent = writer.finish();
        }
    }

    fn write_all(
        &self,
        cursor: &mut Cursor,
        until: u64,
        options: &PacketOptions,
        out: &mut Vec<u8>,
    ) {
        let limit_bytes = options
            .packet_limit_bytes
            .clamp(PACKET_LIMIT_BYTES_MIN, PACKET_LENGTH_MAX);
        let end_bytes = out.len().saturating_add(options.budget_bytes);
        let mut writer =
            PacketWriter::new(out, self.session, options.flags, cursor.sent, limit_bytes);
        let mut next = cursor.sent;
        while next < until && writer.buffered_bytes() < end_bytes {
            let mut room = writer.room_bytes();
            if room < crate::wire::MESSAGE_LENGTH_MAX {
                // Almost full: the next message opens the next packet.
                room = limit_bytes - HEADER_LENGTH;
            }
            let (bytes, count) = self.run(next, until, room);
            writer.push_encoded(bytes, count);
            next += u64::from(count);
        }
        *cursor = Cursor::at(writer.finish());
    }

    /// Returns the longest contiguous run of messages from `from` that fits in `room_bytes`, but
    /// at least one message, which always fits.
    fn run(&self, from: u64, until: u64, room_bytes: usize) -> (&[u8], u16) {
        let start = self.position(from);
        let at = self.offset(start);
        let mut length = 0;
        let mut count = 0;
        while from + u64::from(count) < until
            && self.position(from + u64::from(count)) == start + length as u64
        {
            let message_length = MessageKind(self.bytes[at + length]).encoded_length();
            if length + message_length > room_bytes {
                break;
            }
            length += message_length;
            count += 1;
            if at + length == self.bytes.len() {
                break;
            }
        }
        (&self.bytes[at..at + length], count)
    }

    fn write_selection(
        &self,
        cursor: &mut Cursor,
        until: u64,
        options: &PacketOptions,
        filter: &impl Filter,
        out: &mut Vec<u8>,
    ) {
        let flags = options.flags.with(Flags::FILTERED);
        let end_bytes = out.len().saturating_add(options.budget_bytes);
        let until = until.min(cursor.scanned + SCAN_MESSAGES_MAX);
        let limit_bytes = options.packet_limit_bytes;
        let mut writer = PacketWriter::new(out, self.session, flags, cursor.sent, limit_bytes);
        let passes_all = filter.passes_all();
        let mut next = cursor.scanned;
        while next < until && writer.buffered_bytes() < end_bytes {
            let encoded = self.encoded(next);
            let passes = passes_all || encoded[0] == MessageKind::VENUE;
            if passes || filter.passes(symbol_of(encoded)) {
                let skipped = next - writer.next_sequence();
                if skipped > 0 {
                    writer.skip(skipped);
                }
                let is_definition = encoded[0] == MessageKind::DEFINITION;
                match is_definition.then(|| filter.definition(symbol_of(encoded))) {
                    Some(Some(definition)) => writer.push(&Message::Definition(definition)),
                    _ => {
                        let length = MessageKind(encoded[0]).encoded_length();
                        writer.push_encoded(&encoded[..length], 1);
                    }
                }
            }
            next += 1;
        }
        cursor.sent = writer.finish();
        cursor.scanned = next;
    }

    /// Returns the bytes from a message's first byte to the end of the ring.
    #[inline(always)]
    fn encoded(&self, sequence: u64) -> &[u8] {
        &self.bytes[self.offset(self.position(sequence))..]
    }

    #[inline(always)]
    fn position(&self, sequence: u64) -> u64 {
        self.positions[(sequence & (self.capacity - 1)) as usize]
    }

    #[inline(always)]
    fn offset(&self, position: u64) -> usize {
        (position & (self.bytes.len() as u64 - 1)) as usize
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Journal")
            .field("session", &self.session)
            .field("oldest_sequence", &self.oldest_sequence)
            .field("next_sequence", &self.next_sequence)
            .field("capacity", &self.capacity)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[inline(always)]
fn symbol_of(encoded: &[u8]) -> u32 {
    match encoded.first_chunk::<PREFIX_LENGTH>() {
        Some(prefix) => u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]),
        None => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Name, Trade, UDP_PACKET_LENGTH_MAX, decode_packet};

    struct Only(u32);

    impl Filter for Only {
        fn passes_all(&self) -> bool {
            false
        }

        fn passes(&self, symbol: u32) -> bool {
            symbol == self.0
        }
    }

    fn trade(symbol: u32, price: i64) -> Message {
        Message::Trade(Trade {
            symbol,
            price,
            ..Trade::default()
        })
    }

    /// A replay of 30,000 symbols lost messages: room was counted in messages, and definitions
    /// run out of bytes first.
    #[test]
    fn room_holds_the_longest_messages_as_well() {
        for capacity in [64, 1_000, 4_096] {
            let mut journal = Journal::new(1, capacity);
            for round in 0..200 {
                let first = journal.next_sequence();
                let room = journal.room(first);
                assert!(room >= journal.capacity() / 5, "{room}");
                for left in (0..room).rev() {
                    let message = match (round + left) % 3 {
                        0 => trade(1, 1),
                        1 => definition(1),
                        _ => Message::LastValue(crate::wire::LastValue::new(1)),
                    };
                    journal.append(&message);
                    assert!(journal.oldest_sequence() <= first);
                    assert!(journal.room(first) >= left);
                }
                assert!(journal.message(first).is_some());
            }
            assert_eq!(journal.room(1), 0, "it is no longer kept");
        }
    }

    fn definition(symbol: u32) -> Message {
        Message::Definition(Definition {
            symbol,
            source: 0,
            source_time_ns: 0,
            open: 0,
            price_tick: 0,
            lot_size: 0,
            currency: [0; 4],
            name: Name::new("X").unwrap(),
            repeats: false,
        })
    }

    /// Reads messages with their sequences from packets and checks that the packets are
    /// contiguous.
    fn read(mut packets: &[u8], first: u64) -> Vec<(u64, Message)> {
        let (mut next, mut read) = (first, Vec::new());
        while let Some((packet, length)) = decode_packet(packets).unwrap() {
            assert!(length <= UDP_PACKET_LENGTH_MAX);
            assert_eq!(packet.header.first_sequence, next);
            for message in packet.messages().map(Result::unwrap) {
                if !matches!(message, Message::Skip(_)) {
                    read.push((next, message));
                }
                next += message.sequence_count();
            }
            packets = &packets[length..];
        }
        read
    }

    fn options() -> PacketOptions {
        PacketOptions {
            packet_limit_bytes: UDP_PACKET_LENGTH_MAX,
            ..PacketOptions::default()
        }
    }

    #[test]
    fn keeps_exactly_the_newest_messages_of_mixed_lengths() {
        let mut journal = Journal::new(1, 64);
        let mut all = Vec::new();
        for index in 0..1_000_u32 {
            let message = match index % 7 {
                0 => definition(index),
                1 | 2 => trade(index, 5),
                _ => Message::Quote(Quote {
                    symbol: index,
                    ..Quote::default()
                }),
            };
            assert_eq!(journal.append(&message), u64::from(index) + 1);
            all.push(message);
            let oldest = journal.oldest_sequence();
            assert!(journal.len() <= 64 && journal.len() >= 64.min(all.len() as u64) * 3 / 4);
            assert_eq!(journal.message(oldest - 1), None);
            for sequence in oldest..journal.next_sequence() {
                assert_eq!(journal.message(sequence), Some(all[sequence as usize - 1]));
            }
        }
        let oldest = journal.oldest_sequence();
        let (mut cursor, mut out) = (Cursor::at(oldest), Vec::new());
        journal.write_packets(&mut cursor, u64::MAX, &options(), &Everything, &mut out);
        assert_eq!(cursor, Cursor::at(1_001));
        let expected: Vec<_> = (oldest..1_001)
            .map(|sequence| (sequence, all[sequence as usize - 1]))
            .collect();
        assert_eq!(read(&out, oldest), expected);
    }

    #[test]
    fn the_window_is_known_in_bytes_and_time() {
        let mut journal = Journal::new(1, 64);
        assert_eq!((journal.len_bytes(), journal.source_times_ns()), (0, None));
        for source_time_ns in 1..=100 {
            journal.append(&Message::Trade(Trade {
                source_time_ns,
                ..Trade::default()
            }));
        }
        assert_eq!(journal.len_bytes(), 64 * Trade::LENGTH as u64);
        assert_eq!(journal.source_times_ns(), Some((37, 100)));
    }

    #[test]
    fn a_selection_skips_and_stays_contiguous() {
        let mut journal = Journal::new(1, 1_024);
        for index in 0..900 {
            journal.append(&trade(index % 9, i64::from(index)));
        }
        let (mut cursor, mut out) = (Cursor::at(1), Vec::new());
        journal.write_packets(&mut cursor, u64::MAX, &options(), &Only(3), &mut out);
        let messages = read(&out, 1);
        assert_eq!(messages.len(), 100);
        assert!(
            messages.iter().all(|(sequence, message)| sequence % 9 == 4
                && *message == trade(3, *sequence as i64 - 1))
        );
        assert_eq!(
            cursor,
            Cursor {
                sent: 896,
                scanned: 901
            }
        );
        out.clear();
        journal.write_skipped(&mut cursor, Flags::NONE, &mut out);
        assert!(read(&out, 896).is_empty());
        assert_eq!(cursor, Cursor::at(901));
    }

    #[test]
    fn a_budget_stops_and_the_cursor_goes_on() {
        let mut journal = Journal::new(1, 1_024);
        (0..500).for_each(|index| assert!(journal.append(&trade(1, index)) > 0));
        let (mut cursor, mut out, mut turns) = (Cursor::at(1), Vec::new(), 0);
        while cursor.scanned < 501 {
            let options = PacketOptions {
                budget_bytes: 2_000,
                ..options()
            };
            journal.write_packets(&mut cursor, u64::MAX, &options, &Everything, &mut out);
            turns += 1;
        }
        assert_eq!(read(&out, 1).len(), 500);
        assert!(turns > 4);
    }

    #[test]
    fn outside_of_the_window_nothing_is_written() {
        let mut journal = Journal::new(1, 64);
        (0..200).for_each(|index| assert!(journal.append(&trade(1, index)) > 0));
        let (mut cursor, mut out) = (Cursor::at(5), Vec::new());
        journal.write_packets(&mut cursor, u64::MAX, &options(), &Everything, &mut out);
        assert_eq!((cursor, out.len()), (Cursor::at(5), 0));
    }
}
