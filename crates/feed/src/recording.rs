//! Recordings of a stream: blocks of native packets, each with a time and a checksum.
//!
//! ```text
//!  file header   0 "TWRECORD"  8 version  10 –  12 length = 32  16 created  24 –  28 crc
//!  block header  0 "TWBK"  4 kind  8 length  12 session  16 recorded  24 crc of body  28 crc
//!  body          by kind; for stream and snapshot: native packets, one behind the other
//! ```
//!
//! A file only grows, block by block. After a crash it holds valid blocks and at most one torn
//! block at the end, which [`Decoder`] distinguishes from damage. `docs/recording.md` describes
//! every byte.

mod progress;

use std::fmt;

use crate::wire::{Message, PacketError, decode_packet};

pub use progress::{Entry, Progress, Step};

/// Bytes of the file's header.
pub const FILE_HEADER_LENGTH: usize = 32;
/// Bytes of a block's header.
pub const BLOCK_HEADER_LENGTH: usize = 32;
/// Maximum bytes of a block's body.
pub const BLOCK_BODY_LENGTH_MAX: usize = 4 << 20;
/// The only version of the format.
pub const RECORDING_VERSION: u16 = 1;
/// The first bytes of every recording.
pub const MAGIC: &[u8; 8] = b"TWRECORD";

const BLOCK_MAGIC: &[u8; 4] = b"TWBK";

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockKind {
    /// A recorder has started; the body is the first sequence it will write.
    Begin,
    /// Packets of the stream.
    Stream,
    /// Definitions and last values, for a reader that starts at this block.
    Snapshot,
    /// Sequences missing from the recording: the first, and one past the last.
    Gap,
    /// The recorder has ended cleanly: the next sequence, and the total of missing sequences.
    End,
    /// A kind of a later version: skipped.
    Unknown(u32),
}

impl BlockKind {
    fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Begin,
            2 => Self::Stream,
            3 => Self::Snapshot,
            4 => Self::Gap,
            5 => Self::End,
            other => Self::Unknown(other),
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::Begin => 1,
            Self::Stream => 2,
            Self::Snapshot => 3,
            Self::Gap => 4,
            Self::End => 5,
            Self::Unknown(number) => number,
        }
    }
}

/// One block, borrowed from the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The block's kind.
    pub kind: BlockKind,
    /// The stream's session.
    pub session: u32,
    /// Time of writing by the recorder's clock, nanoseconds since the UNIX epoch.
    pub recorded_ns: u64,
    /// The body; its checksum is correct.
    pub body: &'a [u8],
}

impl<'a> Block<'a> {
    /// Returns the messages of a stream or snapshot block with their sequences. In a snapshot the
    /// sequence is the position. Other blocks have no messages.
    pub fn messages(&self) -> Messages<'a> {
        let has_packets = matches!(self.kind, BlockKind::Stream | BlockKind::Snapshot);
        Messages {
            packets: if has_packets { self.body } else { &[] },
            messages: None,
            sequence: 0,
        }
    }

    /// Returns the two numbers of a gap or end block; for a begin block its number and 0.
    pub fn numbers(&self) -> (u64, u64) {
        let number = |at: usize| {
            let bytes = self.body.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        (number(0), number(8))
    }
}

/// Iterator of [`Block::messages`].
#[derive(Debug)]
pub struct Messages<'a> {
    packets: &'a [u8],
    messages: Option<crate::wire::Messages<'a>>,
    sequence: u64,
}

impl Iterator for Messages<'_> {
    type Item = Result<(u64, Message), PacketsBroken>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(messages) = &mut self.messages {
                match messages.next() {
                    Some(Ok(message)) => {
                        let sequence = self.sequence;
                        self.sequence = sequence.saturating_add(message.sequence_count());
                        return Some(Ok((sequence, message)));
                    }
                    Some(Err(_)) => return self.broken(),
                    None => self.messages = None,
                }
            }
            if self.packets.is_empty() {
                return None;
            }
            match decode_packet(self.packets) {
                Ok(Some((packet, length))) => {
                    self.packets = &self.packets[length..];
                    self.sequence = packet.header.first_sequence;
                    self.messages = Some(packet.messages());
                }
                Ok(None) | Err(_) => return self.broken(),
            }
        }
    }
}

impl Messages<'_> {
    /// Reports the error once, and ends.
    fn broken(&mut self) -> Option<Result<(u64, Message), PacketsBroken>> {
        (self.packets, self.messages) = (&[], None);
        Some(Err(PacketsBroken))
    }
}

/// A block with a correct checksum holds something other than packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block contains bytes that are not packets of the native feed")]
pub struct PacketsBroken;

/// Appends a file header.
pub fn write_file_header(created_ns: u64, out: &mut Vec<u8>) {
    let mut header = [0; FILE_HEADER_LENGTH];
    header[..8].copy_from_slice(MAGIC);
    header[8..10].copy_from_slice(&RECORDING_VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(FILE_HEADER_LENGTH as u32).to_le_bytes());
    header[16..24].copy_from_slice(&created_ns.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..28]);
    header[28..].copy_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&header);
}

/// Reserves room for a block's header and returns the block's start. Append the body, then call
/// [`end_block`] with the start.
pub fn begin_block(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + BLOCK_HEADER_LENGTH, 0);
    start
}

/// Writes the header of the block that began at `start`.
///
/// # Panics
///
/// If the body is longer than [`BLOCK_BODY_LENGTH_MAX`].
pub fn end_block(kind: BlockKind, session: u32, recorded_ns: u64, start: usize, out: &mut [u8]) {
    let (head, body) = out[start..].split_at_mut(BLOCK_HEADER_LENGTH);
    assert!(body.len() <= BLOCK_BODY_LENGTH_MAX, "a block is too long");
    head[..4].copy_from_slice(BLOCK_MAGIC);
    head[4..8].copy_from_slice(&kind.number().to_le_bytes());
    head[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[12..16].copy_from_slice(&session.to_le_bytes());
    head[16..24].copy_from_slice(&recorded_ns.to_le_bytes());
    head[24..28].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    let checksum = crc32c::crc32c(&head[..28]);
    head[28..].copy_from_slice(&checksum.to_le_bytes());
}

/// Appends a block that holds one or two numbers.
pub fn write_numbers(
    kind: BlockKind,
    session: u32,
    recorded_ns: u64,
    numbers: &[u64],
    out: &mut Vec<u8>,
) {
    let start = begin_block(out);
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
    end_block(kind, session, recorded_ns, start, out);
}

/// Returns the offset of the first whole and valid block header in `bytes`. Its body may be damaged
/// or incomplete.
pub fn find_block_header(bytes: &[u8]) -> Option<usize> {
    let mut headers = bytes.windows(BLOCK_HEADER_LENGTH);
    headers.position(|head| head.first_chunk().is_some_and(is_block_header))
}

fn is_block_header(head: &[u8; BLOCK_HEADER_LENGTH]) -> bool {
    head[..4] == *BLOCK_MAGIC && crc32c::crc32c(&head[..28]) == u32_at(head, 28)
}

/// The result of [`Decoder::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The file's header.
    File {
        /// Time of creation, nanoseconds since the UNIX epoch.
        created_ns: u64,
    },
    /// A block.
    Block(Block<'a>),
    /// At least this many more bytes are needed.
    NeedMore(usize),
}

/// A decoder of recordings: bytes in, blocks out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    position: u64,
}

impl Decoder {
    /// Creates a decoder at the start of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the length of the valid prefix: the bytes of the header and of whole blocks so
    /// far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Takes the next block from the front of `input`. Nothing can be read after an error.
    pub fn decode<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, RecordingError> {
        let at = self.position;
        if at == 0 {
            return self.file_header(input);
        }
        let Some(head) = input.first_chunk::<BLOCK_HEADER_LENGTH>() else {
            return Ok(Event::NeedMore(BLOCK_HEADER_LENGTH - input.len()));
        };
        if !is_block_header(head) {
            return Err(RecordingError::BadHeader { at });
        }
        let length = u32_at(head, 8) as usize;
        if length > BLOCK_BODY_LENGTH_MAX {
            return Err(RecordingError::TooLong { at });
        }
        let whole = BLOCK_HEADER_LENGTH + length;
        let Some((block, rest)) = input.split_at_checked(whole) else {
            return Ok(Event::NeedMore(whole - input.len()));
        };
        let body = &block[BLOCK_HEADER_LENGTH..];
        if crc32c::crc32c(body) != u32_at(head, 24) {
            return Err(RecordingError::BadChecksum { at });
        }
        *input = rest;
        self.position += whole as u64;
        Ok(Event::Block(Block {
            kind: BlockKind::from_number(u32_at(head, 4)),
            session: u32_at(head, 12),
            recorded_ns: u64_at(head, 16),
            body,
        }))
    }

    /// Ends the input with `rest`, the bytes that are left.
    pub fn finish(&self, rest: &[u8]) -> Result<(), RecordingError> {
        match (self.position, rest.len()) {
            (0, 0) => Err(RecordingError::Empty),
            (_, 0) => Ok(()),
            (at, _) => Err(RecordingError::Truncated { at }),
        }
    }

    fn file_header<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, RecordingError> {
        let known = input.len().min(MAGIC.len());
        if input[..known] != MAGIC[..known] {
            return Err(RecordingError::NotARecording);
        }
        let Some(head) = input.first_chunk::<FILE_HEADER_LENGTH>() else {
            return Ok(Event::NeedMore(FILE_HEADER_LENGTH - input.len()));
        };
        let version = u16::from_le_bytes([head[8], head[9]]);
        if version != RECORDING_VERSION {
            return Err(RecordingError::Version(version));
        }
        if crc32c::crc32c(&head[..28]) != u32_at(head, 28)
            || u32_at(head, 12) as usize != FILE_HEADER_LENGTH
        {
            return Err(RecordingError::BadHeader { at: 0 });
        }
        *input = &input[FILE_HEADER_LENGTH..];
        self.position = FILE_HEADER_LENGTH as u64;
        Ok(Event::File {
            created_ns: u64_at(head, 16),
        })
    }
}

/// A fault in a recording. `at` is the offset of the block and the length of the valid prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file is empty.
    Empty,
    /// The file does not begin with [`MAGIC`].
    NotARecording,
    /// An unknown version.
    Version(u16),
    /// Not a block header.
    BadHeader {
        /// Offset of the block.
        at: u64,
    },
    /// A block longer than [`BLOCK_BODY_LENGTH_MAX`].
    TooLong {
        /// Offset of the block.
        at: u64,
    },
    /// A block whose checksum is wrong.
    BadChecksum {
        /// Offset of the block.
        at: u64,
    },
    /// The last block is incomplete.
    Truncated {
        /// Offset of the block.
        at: u64,
    },
}

impl fmt::Display for RecordingError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("the recording is empty"),
            Self::NotARecording => formatter.write_str("the file is no recording"),
            Self::Version(version) => write!(
                formatter,
                "recording version {version} is not supported, only 1 is"
            ),
            Self::BadHeader { at } => write!(formatter, "damaged: no block begins at byte {at}"),
            Self::TooLong { at } => {
                write!(formatter, "damaged: the block at byte {at} is too long")
            }
            Self::BadChecksum { at } => write!(
                formatter,
                "damaged: the block at byte {at} has a wrong checksum"
            ),
            Self::Truncated { at } => {
                write!(formatter, "truncated: the block at byte {at} is incomplete")
            }
        }
    }
}

impl std::error::Error for RecordingError {}

impl From<PacketError> for PacketsBroken {
    fn from(_: PacketError) -> Self {
        Self
    }
}

fn u32_at(bytes: &[u8; 32], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8; 32], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Flags, PacketWriter, Trade};

    /// Each block is decoded with its last byte, and the decoder never requests more bytes than
    /// the block has. The longest block is last.
    #[test]
    fn the_last_and_longest_block_asks_for_no_byte_behind_it() {
        let mut file = file();
        let start = begin_block(&mut file);
        let mut writer = PacketWriter::new(&mut file, 9, Flags::NONE, 20, 65_544);
        for price in 0..1_500 {
            writer.push(&Message::Trade(Trade {
                price,
                ..Trade::default()
            }));
        }
        writer.finish();
        end_block(BlockKind::Stream, 9, 14, start, &mut file);
        let (mut decoder, mut from) = (Decoder::new(), 0);
        for to in 0..=file.len() {
            let mut rest = &file[from..to];
            while let Ok(event) = decoder.decode(&mut rest) {
                if let Event::NeedMore(count) = event {
                    assert!(to == file.len() || count <= file.len() - to);
                    break;
                }
            }
            from = to - rest.len();
        }
        assert_eq!(from, file.len());
        assert_eq!(decoder.finish(&[]), Ok(()));
    }

    /// Returns a file with a begin block, two trades from sequence 7 on, a gap and an end.
    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        write_file_header(5, &mut file);
        write_numbers(BlockKind::Begin, 9, 10, &[7], &mut file);
        let start = begin_block(&mut file);
        let mut writer = PacketWriter::new(&mut file, 9, Flags::NONE, 7, 65_544);
        for price in [1, 2] {
            writer.push(&Message::Trade(Trade {
                price,
                ..Trade::default()
            }));
        }
        assert_eq!(writer.finish(), 9);
        end_block(BlockKind::Stream, 9, 11, start, &mut file);
        write_numbers(BlockKind::Gap, 9, 12, &[9, 20], &mut file);
        write_numbers(BlockKind::End, 9, 13, &[20, 11], &mut file);
        file
    }

    /// Returns the blocks' kinds and numbers, the messages' sequences, and the result of
    /// `finish`.
    fn read(bytes: &[u8]) -> (Vec<BlockKind>, Vec<u64>, u64, Result<(), RecordingError>) {
        let mut decoder = Decoder::new();
        let (mut rest, mut kinds, mut sequences) = (bytes, Vec::new(), Vec::new());
        loop {
            match decoder.decode(&mut rest) {
                Ok(Event::File { created_ns }) => assert_eq!(created_ns, 5),
                Ok(Event::Block(block)) => {
                    kinds.push(block.kind);
                    sequences.extend(block.messages().map(|message| message.unwrap().0));
                }
                Ok(Event::NeedMore(_)) => {
                    let ended = decoder.finish(rest);
                    return (kinds, sequences, decoder.position(), ended);
                }
                Err(error) => return (kinds, sequences, decoder.position(), Err(error)),
            }
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let file = file();
        let (kinds, sequences, position, ended) = read(&file);
        use BlockKind::{Begin, End, Gap, Stream};
        assert_eq!(kinds, [Begin, Stream, Gap, End]);
        assert_eq!((sequences, ended), (vec![7, 8], Ok(())));
        assert_eq!(position, file.len() as u64);
    }

    #[test]
    fn every_truncation_keeps_the_blocks_before_it() {
        let file = file();
        let mut before = 0;
        for length in 0..file.len() {
            let (kinds, _, position, ended) = read(&file[..length]);
            assert!(kinds.len() >= before && position as usize <= length);
            before = kinds.len();
            // A file that ends between two blocks cannot be told from a whole one.
            assert_eq!(ended.is_ok(), length > 0 && position as usize == length);
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let file = file();
        for bit in 0..file.len() * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (_, _, position, ended) = read(&damaged);
            assert!(ended.is_err(), "bit {bit}");
            assert!(position as usize <= bit / 8, "bit {bit}");
        }
    }
}
