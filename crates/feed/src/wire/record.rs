//! DBN records inside the stream.

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::message::prefix;
use super::{MESSAGE_LENGTH_MAX, MessageError, MessageKind};

/// Maximum bytes of a DBN record in the stream. The longest of DBN version 3 has 520.
pub const RECORD_LENGTH_MAX: usize = 1_020;
/// Maximum bytes of a record in one part.
pub const RECORD_PART_LENGTH_MAX: usize = MESSAGE_LENGTH_MAX - HEAD_LENGTH;

/// A part of a DBN record in the layout of version 3: 32 to 240 bytes.
///
/// It carries what the other messages cannot: definitions with all fields, statistics, imbalances,
/// single orders. The parts of a record have consecutive sequences, in the order of their offsets.
/// Instrument id and publisher in the record are the sender's and mean nothing to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPart {
    /// The symbol's id.
    pub symbol: u32,
    /// Venue or publisher number.
    pub source: u16,
    /// Time of the event at the source, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Bytes of the whole record.
    record_length: u16,
    /// Offset of this part in the record.
    offset: u16,
    bytes: [u8; RECORD_PART_LENGTH_MAX],
}

impl RecordPart {
    /// Returns the parts of `record`, in order; none if it is empty or longer than
    /// [`RECORD_LENGTH_MAX`].
    pub fn split(
        symbol: u32,
        source: u16,
        source_time_ns: u64,
        record: &[u8],
    ) -> impl Iterator<Item = RecordPart> {
        let record = match record.len() {
            1..=RECORD_LENGTH_MAX => record,
            _ => &[],
        };
        let offsets = (0u16..).step_by(RECORD_PART_LENGTH_MAX);
        let parts = record.chunks(RECORD_PART_LENGTH_MAX);
        parts.zip(offsets).map(move |(part, offset)| {
            let mut bytes = [0; RECORD_PART_LENGTH_MAX];
            bytes[..part.len()].copy_from_slice(part);
            RecordPart {
                symbol,
                source,
                source_time_ns,
                record_length: record.len() as u16,
                offset,
                bytes,
            }
        })
    }

    /// Returns whether `kind` is a record's part.
    pub(super) fn is_kind(kind: u8) -> bool {
        kind & 0x0f == MessageKind::RECORD_PART && kind >> 4 >= 2
    }

    /// Returns the type byte, which depends on the length.
    pub fn kind(&self) -> MessageKind {
        let units = (HEAD_LENGTH + self.bytes().len()).div_ceil(16);
        MessageKind((units as u8) << 4 | MessageKind::RECORD_PART)
    }

    /// Returns the bytes of the whole record.
    pub fn record_length(&self) -> usize {
        self.record_length.into()
    }

    /// Returns where this part stands in the record.
    pub fn offset(&self) -> usize {
        self.offset.into()
    }

    /// Returns this part's bytes of the record.
    pub fn bytes(&self) -> &[u8] {
        let rest = self.record_length.saturating_sub(self.offset);
        &self.bytes[..RECORD_PART_LENGTH_MAX.min(rest.into())]
    }

    /// Decodes a part whose type byte has been checked with [`RecordPart::is_kind`].
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<RecordPart, MessageError> {
        let (head, body) = bytes
            .split_first_chunk::<HEAD_LENGTH>()
            .ok_or(MessageError::Truncated)?;
        let mut part = RecordPart {
            symbol: u32_at(head, 4),
            source: u16_at(head, 2),
            source_time_ns: u64_at(head, 8),
            record_length: u16_at(head, 16),
            offset: u16_at(head, 18),
            bytes: [0; RECORD_PART_LENGTH_MAX],
        };
        let is_ordered = part.offset < part.record_length
            && part.offset().is_multiple_of(RECORD_PART_LENGTH_MAX)
            && part.record_length() <= RECORD_LENGTH_MAX;
        if !is_ordered || part.kind() != MessageKind(bytes[0]) {
            return Err(MessageError::BadRecord);
        }
        let length = part.bytes().len();
        part.bytes[..length].copy_from_slice(&body[..length]);
        Ok(part)
    }

    /// Appends the encoded part.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let kind = self.kind();
        let mut head: [u8; HEAD_LENGTH] =
            prefix(kind.0, self.source, self.symbol, self.source_time_ns);
        put(&mut head, 16, self.record_length.to_le_bytes());
        put(&mut head, 18, self.offset.to_le_bytes());
        let end = out.len() + kind.encoded_length();
        out.extend_from_slice(&head);
        out.extend_from_slice(self.bytes());
        debug_assert!(out.len() <= end, "the type byte has the length");
        out.resize(end, 0);
    }
}

/// Joins the parts of the records of one stream.
#[derive(Clone, Debug, Default)]
pub struct RecordJoin {
    symbol: u32,
    source: u16,
    record: Vec<u8>,
}

impl RecordJoin {
    /// Takes the next part. Returns the whole record when it is complete. A part that does not
    /// continue the one before it drops what was kept; the first part of a record always begins
    /// one.
    pub fn push(&mut self, part: &RecordPart) -> Option<&[u8]> {
        if part.offset() == 0 {
            self.record.clear();
            (self.symbol, self.source) = (part.symbol, part.source);
        }
        let continues = part.offset() == self.record.len()
            && (part.symbol, part.source) == (self.symbol, self.source);
        if !continues {
            self.record.clear();
            return None;
        }
        self.record.extend_from_slice(part.bytes());
        debug_assert!(
            self.record.len() <= RECORD_LENGTH_MAX,
            "every part has its place in a record"
        );
        (self.record.len() == part.record_length()).then_some(&self.record[..])
    }

    /// Returns the bytes of the newest record so far.
    pub fn bytes(&self) -> &[u8] {
        &self.record
    }
}

/// Bytes before those of the record: the prefix, both lengths, and 4 reserved.
const HEAD_LENGTH: usize = 24;
