//! Packets: a header, then messages, each behind its size.

use thiserror::Error;
use tidewire_sbe::{DecodeError, HEADER_LENGTH, Message};

/// Bytes of a packet's header: sequence (4) and sending time (8).
pub const PACKET_HEADER_LENGTH: usize = 12;

/// Bytes of the size in front of each message; the size counts them too.
const SIZE_LENGTH: usize = 2;

/// Why a datagram is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Shorter than a header.
    #[error("a datagram of {0} bytes has no packet header")]
    NoHeader(usize),
    /// A message's size is less than its headers, or more than the packet has.
    #[error("a message of {size} bytes where {left} bytes are left")]
    BadSize {
        /// The size that the packet gives, bytes.
        size: usize,
        /// Bytes left in the packet.
        left: usize,
    },
    /// A message's lengths contradict its template.
    #[error("invalid message: {0}")]
    Message(#[from] DecodeError),
}

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Sequence of the packet: from 1 at the beginning of the week, or of a loop of a recovery
    /// feed.
    pub sequence: u32,
    /// When the exchange sent it, nanoseconds since the UNIX epoch.
    pub sending_time_ns: u64,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its header.
    pub header: PacketHeader,
    /// Its messages with their sizes.
    body: &'a [u8],
}

/// Reads a packet's header.
///
/// # Errors
/// The datagram is shorter than a header.
#[inline]
pub fn decode_packet(datagram: &[u8]) -> Result<Packet<'_>, PacketError> {
    let no_header = PacketError::NoHeader(datagram.len());
    let (sequence, rest) = datagram.split_first_chunk().ok_or(no_header)?;
    let (time, body) = rest.split_first_chunk().ok_or(no_header)?;
    Ok(Packet {
        header: PacketHeader {
            sequence: u32::from_le_bytes(*sequence),
            sending_time_ns: u64::from_le_bytes(*time),
        },
        body,
    })
}

impl<'a> Packet<'a> {
    /// Returns an iterator over the messages. It ends after the first error.
    #[inline]
    pub fn messages(&self) -> Messages<'a> {
        Messages { rest: self.body }
    }
}

/// The messages of a packet.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, PacketError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let left = self.rest.len();
        let size = match self.rest.first_chunk() {
            Some(size) => usize::from(u16::from_le_bytes(*size)),
            None => 0,
        };
        if size < SIZE_LENGTH + HEADER_LENGTH || size > left {
            self.rest = &[];
            return Some(Err(PacketError::BadSize { size, left }));
        }
        let (message, rest) = self.rest.split_at(size);
        self.rest = rest;
        Some(Message::new(&message[SIZE_LENGTH..]).map_err(PacketError::Message))
    }
}

/// Writes a packet's header to an empty buffer.
pub fn begin_packet(out: &mut Vec<u8>, header: PacketHeader) {
    out.clear();
    out.extend_from_slice(&header.sequence.to_le_bytes());
    out.extend_from_slice(&header.sending_time_ns.to_le_bytes());
}

/// Appends the message that `encode` writes, behind its size.
pub fn add_message(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; SIZE_LENGTH]);
    encode(out);
    let size = out.len() - start;
    assert!(
        size >= SIZE_LENGTH + HEADER_LENGTH && size <= usize::from(u16::MAX),
        "a message has a header and fits its size field"
    );
    out[start..start + SIZE_LENGTH].copy_from_slice(&(size as u16).to_le_bytes());
}
