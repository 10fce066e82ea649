//! Reads the parts of serialized values.

use std::borrow::Cow;

use super::{Result, SerialError, lzf};

/// Untrusted bytes: every length is checked against the remaining bytes.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(SerialError::Format)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(SerialError::Format)?;
        self.rest = rest;
        Ok(*bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a number with a variable length.
    pub(super) fn number(&mut self) -> Result<u64> {
        match self.head()? {
            Head::Number(number) => Ok(number),
            Head::Special(_) => Err(SerialError::Format),
        }
    }

    /// Reads a count of items of at least `bytes_min` bytes; never more than fit into the remaining
    /// bytes.
    pub(super) fn count(&mut self, bytes_min: usize) -> Result<usize> {
        let count = usize::try_from(self.number()?).map_err(|_| SerialError::Format)?;
        if count > self.rest.len() / bytes_min {
            return Err(SerialError::Format);
        }
        Ok(count)
    }

    /// Reads a string: plain, an integer's text, or compressed.
    pub(super) fn text(&mut self) -> Result<Cow<'a, [u8]>> {
        let integer = |integer: i32| {
            let mut buffer = itoa::Buffer::new();
            Ok(Cow::Owned(buffer.format(integer).as_bytes().to_vec()))
        };
        match self.head()? {
            Head::Number(length) => {
                let length = text_length(length)?;
                self.bytes(length).map(Cow::Borrowed)
            }
            Head::Special(BYTE) => integer(i32::from(i8::from_le_bytes(self.array()?))),
            Head::Special(WORD) => integer(i32::from(i16::from_le_bytes(self.array()?))),
            Head::Special(LONG) => integer(i32::from_le_bytes(self.array()?)),
            Head::Special(COMPRESSED) => {
                let packed_length = self.number()?;
                let packed_length = text_length(packed_length)?;
                let length = self.number()?;
                let length = text_length(length)?;
                let packed = self.bytes(packed_length)?;
                let text = lzf::decompress(packed, length).ok_or(SerialError::Format)?;
                Ok(Cow::Owned(text))
            }
            Head::Special(_) => Err(SerialError::Format),
        }
    }

    /// Reads a double of 8 bytes.
    pub(super) fn double(&mut self) -> Result<f64> {
        self.array().map(f64::from_le_bytes)
    }

    /// Reads a double as text, as written before Redis 4.
    pub(super) fn double_text(&mut self) -> Result<f64> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Ok(f64::NAN),
            length => {
                let text = self.bytes(usize::from(length))?;
                tidewire_resp::number::parse_double(text).ok_or(SerialError::Format)
            }
        }
    }

    /// Reads a time, ms since the UNIX epoch.
    pub(super) fn time_ms(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn head(&mut self) -> Result<Head> {
        let first = self.byte()?;
        let low = first & 0x3F;
        match first {
            0..0x40 => Ok(Head::Number(u64::from(low))),
            0x40..0x80 => Ok(Head::Number(u64::from(low) << 8 | u64::from(self.byte()?))),
            0x80 => Ok(Head::Number(u64::from(u32::from_be_bytes(self.array()?)))),
            0x81 => Ok(Head::Number(u64::from_be_bytes(self.array()?))),
            0xC0.. => Ok(Head::Special(low)),
            _ => Err(SerialError::Format),
        }
    }
}

fn text_length(length: u64) -> Result<usize> {
    usize::try_from(length)
        .ok()
        .filter(|&length| length <= TEXT_BYTES_MAX)
        .ok_or(SerialError::Format)
}

enum Head {
    Number(u64),
    /// A string in one of the special forms below follows.
    Special(u8),
}

/// Maximum length of a string: an entry stores lengths in 32 bits.
pub(super) const TEXT_BYTES_MAX: usize = 2 << 30;

pub(super) const BYTE: u8 = 0;
pub(super) const WORD: u8 = 1;
pub(super) const LONG: u8 = 2;
pub(super) const COMPRESSED: u8 = 3;
