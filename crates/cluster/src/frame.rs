//! Frames: packets of the native feed on their way between hubs.
//!
//! ```text
//!  0     2   3   4        8               16           22     24       28       32
//!  ├magic┼ver┼flg┼checksum┼first sequence─┼epoch───────┼origin┼session─┼count───┼ body ...
//! ```

use tidewire_feed::wire::{Packet, PacketError, decode_packet};

/// First two bytes of every frame: `TC` as a little-endian number.
pub const MAGIC: u16 = 0x4354;
/// The only supported version of the layout.
pub const VERSION: u8 = 1;
/// Bytes of a frame's header.
pub const HEADER_LENGTH: usize = 32;
/// Largest body that an owner writes into a frame of the stream, or into a page.
pub const BODY_LENGTH_MAX: usize = 48 * 1024;
/// Maximum bytes of a frame: what a NATS server takes as one message unless it is told otherwise.
/// Only the head of a very large snapshot comes near it.
pub const FRAME_LENGTH_MAX: usize = 1 << 20;
/// Largest epoch: the header has 48 bits for it.
pub const EPOCH_MAX: u64 = (1 << 48) - 1;

/// The properties of a frame: a set of the `FrameFlags::*` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FrameFlags(pub u8);

impl FrameFlags {
    /// Packets of the stream, without other flags.
    pub const NONE: FrameFlags = FrameFlags(0);
    /// What is before the frame's first sequence, and has not come yet, will never come.
    pub const GAP: FrameFlags = FrameFlags(1);
    /// The owner ends its reign in order. No body.
    pub const END: FrameFlags = FrameFlags(2);
    /// No body; the first sequence is the owner's next.
    pub const HEARTBEAT: FrameFlags = FrameFlags(4);
    /// A page of the snapshot; the first sequence is its as-of.
    pub const PAGE: FrameFlags = FrameFlags(8);
    /// The head of the snapshot; the first sequence is its as-of.
    pub const HEAD: FrameFlags = FrameFlags(16);

    /// How often a source may be relayed from site to site.
    pub const RELAYS_MAX: u8 = 7;

    /// Returns the set with the number of relays that the source has passed, in its upper bits.
    pub const fn with_relays(self, count: u8) -> FrameFlags {
        debug_assert!(count <= Self::RELAYS_MAX, "three bits");
        FrameFlags(self.0 & 0x1f | count << 5)
    }

    /// Returns how many relays the source has passed; 0 at the site of its owner.
    pub const fn relays(self) -> u8 {
        self.0 >> 5
    }

    /// Returns whether every bit of `other` is set.
    pub const fn contains(self, other: FrameFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any bit of `other` is set.
    pub const fn intersects(self, other: FrameFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the union of both sets.
    pub const fn with(self, other: FrameFlags) -> FrameFlags {
        FrameFlags(self.0 | other.0)
    }
}

/// A frame's header without the fields that only framing needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameHeader {
    /// The frame's properties.
    pub flags: FrameFlags,
    /// First sequence of the stream that the frame covers, from 1; see the flags for others.
    pub first: u64,
    /// The reign of the owner that wrote it, 1 to [`EPOCH_MAX`].
    pub epoch: u64,
    /// Number of the owner's hub, for the operator's eyes.
    pub origin: u16,
    /// Session of the owner's native stream.
    pub session: u32,
    /// Sequences that the frame covers, skips included; of a page its entries.
    pub count: u32,
}

impl FrameHeader {
    /// Returns one past the last sequence that the frame covers.
    pub fn until(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }

    /// Writes the header, with the checksum, at the front of a frame whose body is in place.
    ///
    /// # Panics
    ///
    /// If the frame is shorter than a header, or the epoch above [`EPOCH_MAX`].
    pub fn seal(&self, frame: &mut [u8]) {
        assert!(self.epoch <= EPOCH_MAX, "an epoch has 48 bits");
        assert!(frame.len() >= HEADER_LENGTH, "a frame begins with a header");
        frame[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        frame[2..4].copy_from_slice(&[VERSION, self.flags.0]);
        frame[4..8].fill(0);
        frame[8..16].copy_from_slice(&self.first.to_le_bytes());
        let reign = self.epoch | u64::from(self.origin) << 48;
        frame[16..24].copy_from_slice(&reign.to_le_bytes());
        frame[24..28].copy_from_slice(&self.session.to_le_bytes());
        frame[28..32].copy_from_slice(&self.count.to_le_bytes());
        let checksum = crc32c::crc32c(frame);
        frame[4..8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Returns a frame without a body.
    pub fn bare(&self) -> Vec<u8> {
        let mut frame = vec![0; HEADER_LENGTH];
        self.seal(&mut frame);
        frame
    }

    fn check(&self, body: &[u8]) -> Result<(), FrameError> {
        let bare = FrameFlags::HEARTBEAT.with(FrameFlags::END);
        let snapshot = FrameFlags::PAGE.with(FrameFlags::HEAD);
        let is_impossible = self.epoch == 0
            || self.session == 0
            || self.first.checked_add(u64::from(self.count)).is_none()
            || (self.first == 0 && !self.flags.intersects(snapshot))
            || (self.flags.intersects(bare) && (self.count > 0 || !body.is_empty()))
            || self.flags.contains(snapshot)
            || (self.flags.intersects(bare) && self.flags.intersects(snapshot));
        match is_impossible {
            true => Err(FrameError::BadField),
            false => Ok(()),
        }
    }
}

/// A whole frame with a correct checksum, borrowed from the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header.
    pub header: FrameHeader,
    /// The bytes behind it.
    pub body: &'a [u8],
}

/// Why bytes are not a frame. Always a fault of the sender or the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Shorter than a header.
    #[error("a frame of {0} bytes is shorter than its header")]
    TooShort(usize),
    /// Longer than [`FRAME_LENGTH_MAX`].
    #[error("a frame of {0} bytes is longer than {FRAME_LENGTH_MAX}")]
    TooLong(usize),
    /// The first two bytes are not the magic.
    #[error("not a frame: wrong magic")]
    BadMagic,
    /// An unsupported version of the layout.
    #[error("unsupported frame version {0}; do all hubs of the cluster have the same version?")]
    UnsupportedVersion(u8),
    /// The checksum is wrong.
    #[error("wrong checksum in a frame")]
    BadChecksum,
    /// A field of the header holds an impossible value.
    #[error("a frame's header has an impossible value")]
    BadField,
    /// The body is not a list of packets that fits the header.
    #[error("a frame's body does not fit its header")]
    BadBody,
}

impl<'a> Frame<'a> {
    /// Decodes a frame: exactly one in `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        if bytes.len() > FRAME_LENGTH_MAX {
            return Err(FrameError::TooLong(bytes.len()));
        }
        let Some((head, body)) = bytes.split_first_chunk::<HEADER_LENGTH>() else {
            return Err(FrameError::TooShort(bytes.len()));
        };
        if head[0..2] != MAGIC.to_le_bytes() {
            return Err(FrameError::BadMagic);
        }
        if head[2] != VERSION {
            return Err(FrameError::UnsupportedVersion(head[2]));
        }
        if checksum(head, body) != u32_at(head, 4) {
            return Err(FrameError::BadChecksum);
        }
        let reign = u64_at(head, 16);
        let header = FrameHeader {
            flags: FrameFlags(head[3]),
            first: u64_at(head, 8),
            epoch: reign & EPOCH_MAX,
            origin: (reign >> 48) as u16,
            session: u32_at(head, 24),
            count: u32_at(head, 28),
        };
        header.check(body)?;
        Ok(Frame { header, body })
    }

    /// Returns the packets of the body, first to last; ends after the first error.
    pub fn packets(&self) -> Packets<'a> {
        Packets(self.body)
    }

    /// Returns whether the body is packets of the header's session that continue each other from
    /// its first sequence. Looks at no message.
    pub fn is_consistent(&self) -> bool {
        let (mut first, until) = (self.header.first, self.header.until());
        let mut is_first = true;
        for packet in self.packets() {
            let Ok(packet) = packet else {
                return false;
            };
            let header = packet.header;
            let starts = match is_first {
                true => header.first_sequence == first,
                // How many sequences the skips of the last packet took is not known here.
                false => header.first_sequence > first && header.first_sequence < until,
            };
            if header.session != self.header.session || !starts {
                return false;
            }
            (first, is_first) = (header.first_sequence, false);
        }
        is_first == (self.header.count == 0)
    }
}

/// The packets of a body.
#[derive(Clone, Debug)]
pub struct Packets<'a>(&'a [u8]);

impl<'a> Packets<'a> {
    /// Creates the packets of bytes that hold nothing else.
    pub(crate) fn of(bytes: &'a [u8]) -> Packets<'a> {
        Packets(bytes)
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Packet<'a>, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        match decode_packet(self.0) {
            Ok(Some((packet, length))) => {
                self.0 = &self.0[length..];
                Some(Ok(packet))
            }
            Ok(None) => {
                let length = self.0.len();
                self.0 = &[];
                Some(Err(PacketError::BadLength(length as u16)))
            }
            Err(error) => {
                self.0 = &[];
                Some(Err(error))
            }
        }
    }
}

/// Returns the CRC-32C of a header, with its checksum field as zero, and a body.
pub fn checksum(header: &[u8; HEADER_LENGTH], body: &[u8]) -> u32 {
    let mut head = *header;
    head[4..8].fill(0);
    crc32c::crc32c_append(crc32c::crc32c(&head), body)
}

/// Reads a number. Every caller's constants lie within the header.
pub(crate) fn u64_at(bytes: &[u8; HEADER_LENGTH], offset: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(field)
}

/// Reads a number. Every caller's constants lie within the header.
pub(crate) fn u32_at(bytes: &[u8; HEADER_LENGTH], offset: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(field)
}

#[cfg(test)]
mod tests;
