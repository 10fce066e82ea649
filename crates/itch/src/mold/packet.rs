//! The packet: a 20-byte header, then messages after their lengths.

use thiserror::Error;

use crate::sequenced::SessionName;

/// A packet's header; a request has the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The stream's session.
    pub session: SessionName,
    /// Sequence of the first message; in a heartbeat or end of session, the next sequence.
    pub sequence: u64,
    /// Messages in the packet, [`Header::HEARTBEAT`] or [`Header::END_OF_SESSION`].
    pub count: u16,
}

impl Header {
    /// Bytes on the wire.
    pub const LENGTH: usize = 20;
    /// Count of a packet without messages.
    pub const HEARTBEAT: u16 = 0;
    /// Count of a packet that ends the session.
    pub const END_OF_SESSION: u16 = 0xFFFF;

    /// Decodes a header.
    #[inline]
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        let [session @ .., _, _, _, _, _, _, _, _, _, _] = *bytes;
        let [_, _, _, _, _, _, _, _, _, _, rest @ ..] = *bytes;
        let [a, b, c, d, e, f, g, h, i, j] = rest;
        Self {
            session: SessionName::from_bytes(session),
            sequence: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            count: u16::from_be_bytes([i, j]),
        }
    }

    /// Encodes the header.
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..10].copy_from_slice(&self.session.to_bytes());
        bytes[10..18].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[18..].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }
}

/// A decoded datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The header.
    pub header: Header,
    /// The messages after their lengths; not checked yet.
    pub body: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Returns the messages in order.
    #[inline]
    pub fn messages(&self) -> Messages<'a> {
        let count = match self.header.count {
            Header::END_OF_SESSION => 0,
            count => count,
        };
        Messages {
            rest: self.body,
            left: count,
        }
    }
}

/// Why a datagram is not a packet: a fault of the sender or the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Fewer bytes than a header.
    #[error("a datagram of {0} bytes is shorter than a header")]
    NoHeader(usize),
    /// A message reaches past the end.
    #[error("a message extends past the end of its packet")]
    Truncated,
}

/// Decodes a datagram. Bytes after the last message are ignored.
///
/// # Errors
/// [`PacketError::NoHeader`].
#[inline]
pub fn decode_packet(datagram: &[u8]) -> Result<Packet<'_>, PacketError> {
    let Some((header, body)) = datagram.split_first_chunk() else {
        return Err(PacketError::NoHeader(datagram.len()));
    };
    Ok(Packet {
        header: Header::from_bytes(header),
        body,
    })
}

/// Iterator over the messages of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Messages<'a> {
    /// Returns the unread messages, each after its length.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Creates an iterator over `count` messages at the front of `body`.
    pub(super) fn new(body: &'a [u8], count: u16) -> Self {
        Self {
            rest: body,
            left: count,
        }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<&'a [u8], PacketError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        match crate::frame(self.rest) {
            Some((message, used)) => {
                self.left -= 1;
                self.rest = &self.rest[used..];
                Some(Ok(message))
            }
            None => {
                self.left = 0;
                Some(Err(PacketError::Truncated))
            }
        }
    }
}
