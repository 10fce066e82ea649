//! The head of a snapshot of the keys: where the stream KEYS goes on behind it, and what its file
//! must be.
//!
//! ```text
//!  0     2   3   4     8       16        24     32      40       60     64      72   76
//!  ├magic┼ver┼───┼sum──┼number─┼sequence─┼epoch─┼offset─┼history─┼parts─┼length─┼file─┼database
//! ```

use super::frame::HistoryId;
use super::position::KeysPosition;

/// First two bytes of every head: `TH` as a little-endian number.
pub const HEAD_MAGIC: u16 = 0x4854;
/// Bytes of a head.
pub const HEAD_LENGTH: usize = 80;
const VERSION: u8 = 1;

/// A snapshot that is completely stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeysHead {
    /// Number of the snapshot; its parts have the same.
    pub number: u64,
    /// The last message of the stream that it includes for sure.
    pub sequence: u64,
    /// The reign at that message.
    pub epoch: u64,
    /// The name of that reign.
    pub history: HistoryId,
    /// Offset of the log up to which it includes everything; at or behind the message's.
    pub offset: u64,
    /// The database that the log has selected there.
    pub database: u32,
    /// Messages that hold the file.
    pub parts: u32,
    /// Bytes of the file.
    pub length: u64,
    /// CRC-32C of the file.
    pub file_checksum: u32,
}

impl KeysHead {
    /// Returns the head as a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_LENGTH);
        bytes.extend_from_slice(&HEAD_MAGIC.to_le_bytes());
        bytes.extend_from_slice(&[VERSION, 0, 0, 0, 0, 0]);
        for field in [self.number, self.sequence, self.epoch, self.offset] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&self.history);
        bytes.extend_from_slice(&self.parts.to_le_bytes());
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(&self.file_checksum.to_le_bytes());
        bytes.extend_from_slice(&self.database.to_le_bytes());
        debug_assert_eq!(bytes.len(), HEAD_LENGTH, "the documented layout");
        let checksum = crc32c::crc32c(&bytes);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a head. `None` if it is damaged, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<KeysHead> {
        let bytes: &[u8; HEAD_LENGTH] = bytes.try_into().ok()?;
        let mut blank = *bytes;
        blank[4..8].fill(0);
        let is_ours = bytes[0..2] == HEAD_MAGIC.to_le_bytes() && bytes[2] == VERSION;
        if !is_ours || crc32c::crc32c(&blank).to_le_bytes() != bytes[4..8] {
            return None;
        }
        let word = |at: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(field)
        };
        let half = |at: usize| word(at) as u32;
        let mut history = [0; 20];
        history.copy_from_slice(&bytes[40..60]);
        Some(KeysHead {
            number: word(8),
            sequence: word(16),
            epoch: word(24),
            offset: word(32),
            history,
            parts: half(60),
            length: word(64),
            file_checksum: half(72),
            database: (word(72) >> 32) as u32,
        })
    }

    /// Returns where the stream is read on behind the snapshot.
    pub fn position(&self) -> KeysPosition {
        KeysPosition {
            sequence: self.sequence,
            epoch: self.epoch,
            history: self.history,
            whole: self.offset,
            end: self.offset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::KeysHeader;
    use super::super::position::Effect;
    use super::*;

    const HEAD: KeysHead = KeysHead {
        number: 1,
        sequence: 2,
        epoch: 3,
        history: [0xab; 20],
        offset: 4,
        database: 5,
        parts: 6,
        length: 7,
        file_checksum: 8,
    };

    /// The snapshot was made in the middle of a message that was on its way.
    #[test]
    fn a_reader_that_begins_behind_a_snapshot_skips_what_that_includes() {
        let mut position = KeysHead {
            offset: 103,
            ..HEAD
        }
        .position();
        let bytes = |offset, body: &[u8]| {
            let header = KeysHeader {
                is_whole: true,
                epoch: HEAD.epoch,
                offset,
                history: HEAD.history,
                ..KeysHeader::default()
            };
            header.with_body(body)
        };
        let (before, amid, behind) = (
            bytes(90, b"0123456789"),
            bytes(100, b"abcdef"),
            bytes(106, b"g"),
        );
        assert_eq!(position.read(3, &before), Ok(Effect::None));
        assert_eq!(position.read(4, &amid), Ok(Effect::Bytes(b"def")));
        assert_eq!(position.read(5, &behind), Ok(Effect::Bytes(b"g")));
        assert_eq!((position.whole, position.sequence), (107, 5));
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_each_flipped_bit_is_seen() {
        let bytes = HEAD.encode();
        assert_eq!(bytes.len(), HEAD_LENGTH);
        assert_eq!(KeysHead::decode(&bytes), Some(HEAD));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(KeysHead::decode(&damaged), None, "bit {bit}");
        }
        assert_eq!(KeysHead::decode(&bytes[1..]), None);
    }
}
