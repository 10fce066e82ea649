//! Frames: a flags octet, a length of one or eight octets, a body.

use crate::error::Error;

/// Appends one message frame. `more`: further frames of the same message follow.
#[inline]
pub fn encode_frame(out: &mut Vec<u8>, body: &[u8], more: bool) {
    out.reserve(FrameHeader::BYTES_MAX + body.len());
    let flags = u8::from(more) * MORE;
    // Headers of a length known to the compiler are stores, not calls.
    if let Ok(length) = u8::try_from(body.len()) {
        out.extend_from_slice(&[flags, length]);
    } else {
        out.extend_from_slice(&FrameHeader::new(flags, body.len() as u64).bytes);
    }
    out.extend_from_slice(body);
}

/// Returns the header of a message frame whose body is elsewhere, for a vectored write.
#[inline]
pub fn frame_header(length: usize, more: bool) -> FrameHeader {
    FrameHeader::new(u8::from(more) * MORE, length as u64)
}

/// The two or nine octets before a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    bytes: [u8; FrameHeader::BYTES_MAX],
    length: u8,
}

impl FrameHeader {
    /// The longest header.
    pub const BYTES_MAX: usize = 9;

    /// Returns the octets to send before the body.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    #[inline]
    pub(crate) fn new(flags: u8, length: u64) -> FrameHeader {
        let mut bytes = [0; FrameHeader::BYTES_MAX];
        if length <= SHORT_BYTES_MAX {
            bytes[0] = flags;
            bytes[1] = length as u8;
            FrameHeader { bytes, length: 2 }
        } else {
            bytes[0] = flags | LONG;
            bytes[1..].copy_from_slice(&length.to_be_bytes());
            FrameHeader { bytes, length: 9 }
        }
    }
}

/// Returns the header of a command frame.
pub(crate) fn command_header(length: usize) -> FrameHeader {
    FrameHeader::new(COMMAND, length as u64)
}

/// A decoded frame header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    flags: u8,
    /// Octets of the header itself: 2 or 9.
    pub(crate) size: usize,
    /// Octets of the body, as claimed.
    pub(crate) length: u64,
}

impl Head {
    /// Decodes a header; an `Err` in the `Ok` is the number of octets needed.
    ///
    /// `known`: the flags of the protocol version.
    #[inline]
    pub(crate) fn read(input: &[u8], known: u8) -> Result<Result<Head, usize>, Error> {
        let Some(&flags) = input.first() else {
            return Ok(Err(2));
        };
        if flags & !known != 0 {
            return Err(Error::UnknownFlags { flags });
        }
        if flags & LONG == 0 {
            let Some(&length) = input.get(1) else {
                return Ok(Err(2));
            };
            return Ok(Ok(Head {
                flags,
                size: 2,
                length: u64::from(length),
            }));
        }
        let Some(length) = input.get(1..).and_then(<[u8]>::first_chunk::<8>) else {
            return Ok(Err(9));
        };
        Ok(Ok(Head {
            flags,
            size: 9,
            length: u64::from_be_bytes(*length),
        }))
    }

    #[inline]
    pub(crate) fn more(&self) -> bool {
        self.flags & MORE != 0
    }

    #[inline]
    pub(crate) fn is_command(&self) -> bool {
        self.flags & COMMAND != 0
    }

    /// Returns the octets of header and body together, if the body is within `limit` and the sum
    /// does not overflow.
    #[inline]
    pub(crate) fn total(&self, limit: u64) -> Result<usize, Error> {
        let too_long = Error::FrameTooLong {
            length: self.length,
            limit,
        };
        if self.length > limit.min(LENGTH_MAX) {
            return Err(too_long);
        }
        let length = usize::try_from(self.length).map_err(|_| too_long)?;
        length.checked_add(self.size).ok_or(too_long)
    }
}

/// Further frames of the message follow.
pub(crate) const MORE: u8 = 1;
/// The length has eight octets.
pub(crate) const LONG: u8 = 2;
/// The frame is a command.
pub(crate) const COMMAND: u8 = 4;
/// The flags of ZMTP 3.
pub(crate) const FLAGS_3: u8 = MORE | LONG | COMMAND;
/// The flags of ZMTP 2, which has no commands.
pub(crate) const FLAGS_2: u8 = MORE | LONG;

/// Maximum body of a short frame.
const SHORT_BYTES_MAX: u64 = 255;
/// Maximum body that the RFC allows.
const LENGTH_MAX: u64 = i64::MAX as u64;

#[cfg(test)]
mod tests {
    use super::{FLAGS_3, Head, encode_frame, frame_header};
    use crate::error::Error;

    #[test]
    fn headers_are_short_up_to_255_and_long_above() {
        assert_eq!(frame_header(0, false).as_bytes(), [0, 0]);
        assert_eq!(frame_header(255, true).as_bytes(), [1, 255]);
        assert_eq!(
            frame_header(256, false).as_bytes(),
            [2, 0, 0, 0, 0, 0, 0, 1, 0]
        );
        assert_eq!(
            frame_header(65_536, true).as_bytes(),
            [3, 0, 0, 0, 0, 0, 1, 0, 0]
        );
        let mut out = Vec::new();
        encode_frame(&mut out, b"abc", true);
        encode_frame(&mut out, b"", false);
        assert_eq!(out, b"\x01\x03abc\x00\x00");
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for length in [0, 1, 255, 256, 70_000] {
            for more in [false, true] {
                let header = frame_header(length, more);
                for cut in 0..header.as_bytes().len() {
                    let read = Head::read(&header.as_bytes()[..cut], FLAGS_3).unwrap();
                    let wanted = if cut == 0 { 2 } else { header.as_bytes().len() };
                    assert_eq!(read.unwrap_err(), wanted);
                }
                let head = Head::read(header.as_bytes(), FLAGS_3).unwrap().unwrap();
                assert_eq!((head.length, head.more()), (length as u64, more));
                assert!(!head.is_command());
            }
        }
    }

    /// CVE-2019-6250: a length with the top bit set wrapped libzmq's arithmetic.
    #[test]
    fn a_length_that_would_wrap_is_too_long_under_any_limit() {
        for length in [u64::MAX, u64::MAX - 8, 1 << 63] {
            let mut bytes = vec![2];
            bytes.extend_from_slice(&length.to_be_bytes());
            let head = Head::read(&bytes, FLAGS_3).unwrap().unwrap();
            let error = head.total(u64::MAX).unwrap_err();
            assert_eq!(
                error,
                Error::FrameTooLong {
                    length,
                    limit: u64::MAX
                }
            );
        }
    }
}
