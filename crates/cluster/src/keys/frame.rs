//! The messages of the stream KEYS.
//!
//! ```text
//!  0     2   3   4        8       16       24       28           48
//!  ├magic┼ver┼flg┼checksum┼epoch──┼offset──┼length──┼history─────┼ body ...
//! ```

/// First two bytes of every message: `TK` as a little-endian number.
pub const MAGIC: u16 = 0x4b54;
/// The only supported version of the layout.
pub const VERSION: u8 = 1;
/// Bytes of the header.
pub const HEADER_LENGTH: usize = 48;
/// Maximum bytes of a body: half of what a NATS server takes as one message by default.
pub const BODY_LENGTH_MAX: usize = 512 * 1024;
/// Maximum bytes of a fence's body, the primary's address.
pub const ADDRESS_LENGTH_MAX: usize = 255;

/// Flag: the body ends where a unit of the log ends, and with it the group.
const WHOLE: u8 = 1;
/// Flag: a reign begins.
const FENCE: u8 = 2;

/// The name of a reign: 20 random bytes. It is what tells the messages of one reign from those of
/// another; the epoch orders reigns.
pub type HistoryId = [u8; 20];

/// A message's header without the fields that only framing needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeysHeader {
    /// Whether a reign begins here. The body is the address of its primary.
    pub is_fence: bool,
    /// Whether the body ends where a unit of the log ends.
    pub is_whole: bool,
    /// Number of the reign, from 1.
    pub epoch: u64,
    /// Offset of the first byte of the body in the log; of a fence, where the reign begins.
    pub offset: u64,
    /// The reign.
    pub history: HistoryId,
}

impl KeysHeader {
    /// Writes the header, with length and checksum, at the front of a message whose body is in
    /// place.
    ///
    /// # Panics
    ///
    /// If the message is shorter than a header, or its body longer than [`BODY_LENGTH_MAX`].
    pub fn seal(&self, message: &mut [u8]) {
        assert!(
            message.len() >= HEADER_LENGTH,
            "a message begins with a header"
        );
        let length = message.len() - HEADER_LENGTH;
        assert!(length <= BODY_LENGTH_MAX, "a body has a limit");
        let flags = (u8::from(self.is_whole) * WHOLE) | (u8::from(self.is_fence) * FENCE);
        message[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        message[2..4].copy_from_slice(&[VERSION, flags]);
        message[4..8].fill(0);
        message[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        message[16..24].copy_from_slice(&self.offset.to_le_bytes());
        message[24..28].copy_from_slice(&(length as u32).to_le_bytes());
        message[28..48].copy_from_slice(&self.history);
        let checksum = crc32c::crc32c(message);
        message[4..8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Returns a message with this body.
    pub fn with_body(&self, body: &[u8]) -> Vec<u8> {
        let mut message = vec![0; HEADER_LENGTH];
        message.extend_from_slice(body);
        self.seal(&mut message);
        message
    }
}

/// A message with a correct checksum, borrowed from the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysFrame<'a> {
    /// The header.
    pub header: KeysHeader,
    /// The bytes behind it.
    pub body: &'a [u8],
}

/// A message as the stream has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysEntry<'a> {
    /// Its number in the stream.
    pub sequence: u64,
    /// Whether its sender said what the stream's last sequence must be
    /// (`Nats-Expected-Last-Sequence`), as every hub does.
    pub is_fenced: bool,
    /// Its bytes.
    pub message: &'a [u8],
}

impl KeysEntry<'_> {
    /// Whether no hub has sent it: neither its bytes nor the stream's header say so. It has no
    /// effect for any reader. A hub's message could only look like that if both were damaged.
    pub fn is_foreign(&self) -> bool {
        !self.is_fenced && !self.message.starts_with(&MAGIC.to_le_bytes())
    }
}

/// Why bytes are no message of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysFrameError {
    /// Shorter than a header.
    #[error("{0} bytes are shorter than a header")]
    TooShort(usize),
    /// The first two bytes are not the magic.
    #[error("wrong magic: it is no message of tidewire's keys")]
    BadMagic,
    /// An unsupported version of the layout.
    #[error("unsupported version {0}; do all hubs of the cluster have the same version?")]
    UnsupportedVersion(u8),
    /// The length is not that of the body.
    #[error("a length of {told} bytes with a body of {found}")]
    BadLength {
        /// What the header says.
        told: u32,
        /// What there is.
        found: usize,
    },
    /// The checksum is wrong.
    #[error("wrong checksum")]
    BadChecksum,
    /// A field of the header holds an impossible value.
    #[error("a header with an impossible value")]
    BadField,
}

impl<'a> KeysFrame<'a> {
    /// Decodes a message: exactly one in `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<KeysFrame<'a>, KeysFrameError> {
        let Some((head, body)) = bytes.split_first_chunk::<HEADER_LENGTH>() else {
            return Err(KeysFrameError::TooShort(bytes.len()));
        };
        if head[0..2] != MAGIC.to_le_bytes() {
            return Err(KeysFrameError::BadMagic);
        }
        if head[2] != VERSION {
            return Err(KeysFrameError::UnsupportedVersion(head[2]));
        }
        let told = u32::from_le_bytes(part(head, 24));
        if told as usize != body.len() || body.len() > BODY_LENGTH_MAX {
            let found = body.len();
            return Err(KeysFrameError::BadLength { told, found });
        }
        let mut blank = *head;
        blank[4..8].fill(0);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&blank), body);
        if checksum != u32::from_le_bytes(part(head, 4)) {
            return Err(KeysFrameError::BadChecksum);
        }
        let header = KeysHeader {
            is_fence: head[3] & FENCE != 0,
            is_whole: head[3] & WHOLE != 0,
            epoch: u64::from_le_bytes(part(head, 8)),
            offset: u64::from_le_bytes(part(head, 16)),
            history: part(head, 28),
        };
        let is_long = header.is_fence && body.len() > ADDRESS_LENGTH_MAX;
        let is_empty = !header.is_fence && body.is_empty();
        let end = header.offset.checked_add(body.len() as u64);
        if header.epoch == 0 || is_long || is_empty || end.is_none() {
            return Err(KeysFrameError::BadField);
        }
        Ok(KeysFrame { header, body })
    }

    /// Returns the offset behind the body.
    pub fn end(&self) -> u64 {
        match self.header.is_fence {
            true => self.header.offset,
            false => self.header.offset + self.body.len() as u64,
        }
    }
}

/// Reads a field. Every caller's constants lie within the header.
fn part<const N: usize>(head: &[u8; HEADER_LENGTH], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&head[at..at + N]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: KeysHeader = KeysHeader {
        is_fence: false,
        is_whole: true,
        epoch: 7,
        offset: 0x0102_0304,
        history: [0xab; 20],
    };

    #[test]
    fn the_layout_is_the_documented_one() {
        let message = HEADER.with_body(b"*1\r\n");
        let mut expected = vec![0x54, 0x4b, 1, 1];
        expected.extend_from_slice(&GOLDEN_CHECKSUM.to_le_bytes());
        expected.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&[4, 3, 2, 1, 0, 0, 0, 0]);
        expected.extend_from_slice(&[4, 0, 0, 0]);
        expected.extend_from_slice(&[0xab; 20]);
        expected.extend_from_slice(b"*1\r\n");
        assert_eq!(message, expected);
        let frame = KeysFrame::decode(&message).unwrap();
        assert_eq!((frame.header, frame.end()), (HEADER, 0x0102_0308));
    }

    /// Of the message above.
    const GOLDEN_CHECKSUM: u32 = 0x89bc_76bb;

    #[test]
    fn each_flipped_bit_is_an_error() {
        let message = HEADER.with_body(b"abc");
        for bit in 0..message.len() * 8 {
            let mut damaged = message.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(KeysFrame::decode(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..message.len() {
            assert!(
                KeysFrame::decode(&message[..length]).is_err(),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn impossible_headers_are_refused() {
        let no_epoch = KeysHeader { epoch: 0, ..HEADER };
        let overflow = KeysHeader {
            offset: u64::MAX,
            ..HEADER
        };
        let fence = KeysHeader {
            is_fence: true,
            ..HEADER
        };
        for message in [
            no_epoch.with_body(b"a"),
            overflow.with_body(b"a"),
            HEADER.with_body(b""),
            fence.with_body(&[b'x'; ADDRESS_LENGTH_MAX + 1]),
        ] {
            assert_eq!(KeysFrame::decode(&message), Err(KeysFrameError::BadField));
        }
        assert!(KeysFrame::decode(&fence.with_body(b"")).is_ok());
    }
}
