//! Texts: UTF-8 of the caller or UTF-16LE of a message, behind one interface.

use core::fmt;

use crate::cursor::{Input, Output};
use crate::error::EncodeError;
use crate::profile;

/// A borrowed text: UTF-8 from the caller, or UTF-16LE from a message. It is converted only when
/// it is encoded or read.
#[derive(Clone, Copy)]
pub struct Text<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Utf8(&'a str),
    /// The length is even.
    Utf16(&'a [u8]),
}

impl<'a> Text<'a> {
    /// Creates a text from the caller's UTF-8.
    pub const fn new(text: &'a str) -> Self {
        Self(Repr::Utf8(text))
    }

    /// Creates a text from UTF-16LE; `None` for an odd number of bytes. Lone surrogates are kept.
    pub const fn from_utf16_le(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len().is_multiple_of(2) {
            Some(Self(Repr::Utf16(bytes)))
        } else {
            None
        }
    }

    /// Iterates over the UTF-16 code units.
    pub fn units(&self) -> impl Iterator<Item = u16> + 'a {
        let (text, wire) = match self.0 {
            Repr::Utf8(text) => (text, &[][..]),
            Repr::Utf16(wire) => ("", wire),
        };
        let wire = wire.as_chunks::<2>().0.iter();
        text.encode_utf16()
            .chain(wire.map(|unit| u16::from_le_bytes(*unit)))
    }

    /// Iterates over the characters; a lone surrogate becomes U+FFFD.
    pub fn chars(&self) -> impl Iterator<Item = char> + 'a {
        char::decode_utf16(self.units())
            .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Returns whether the text is empty.
    pub const fn is_empty(&self) -> bool {
        match self.0 {
            Repr::Utf8(text) => text.is_empty(),
            Repr::Utf16(wire) => wire.is_empty(),
        }
    }

    /// Returns the length in bytes as UTF-16LE.
    #[inline]
    pub fn wire_len(&self) -> usize {
        match self.0 {
            // Names and most values are ASCII, which is checked many bytes at a time.
            Repr::Utf8(text) if text.is_ascii() => 2 * text.len(),
            Repr::Utf8(text) => 2 * utf16_units(text),
            Repr::Utf16(wire) => wire.len(),
        }
    }

    /// Encodes the text as UTF-16LE.
    #[inline]
    pub(crate) fn put_units(&self, out: &mut Output<'_>, wire_len: usize) {
        match self.0 {
            Repr::Utf16(wire) => out.put_slice(wire),
            Repr::Utf8(text) => {
                let Some(target) = out.space(wire_len) else {
                    return;
                };
                let target = target.as_chunks_mut::<2>().0;
                if wire_len == 2 * text.len() {
                    // Only ASCII text has as many code units as bytes.
                    for (pair, byte) in target.iter_mut().zip(text.bytes()) {
                        *pair = [byte, 0];
                    }
                } else {
                    for (pair, unit) in target.iter_mut().zip(text.encode_utf16()) {
                        *pair = unit.to_le_bytes();
                    }
                }
            }
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.units().eq(other.units())
    }
}

impl Eq for Text<'_> {}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.units().eq(other.encode_utf16())
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        match self.0 {
            Repr::Utf8(text) => f.write_str(text),
            Repr::Utf16(_) => self
                .chars()
                .try_for_each(|character| f.write_char(character)),
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        f.write_char('"')?;
        for character in self.chars() {
            write!(f, "{}", character.escape_debug())?;
        }
        f.write_char('"')
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::new(text)
    }
}

/// Returns the number of UTF-16 code units. A character has one, or two if its UTF-8 begins with
/// 0xF0 or above.
#[inline]
fn utf16_units(text: &str) -> usize {
    let units = |byte: &u8| usize::from(byte & 0xC0 != 0x80) + usize::from(*byte >= 0xF0);
    text.as_bytes().iter().map(units).sum()
}

/// Returns the encoded length as a value: an outer and an inner length, then the text.
#[inline]
pub(super) fn encoded_len(text: &Text<'_>) -> Result<usize, EncodeError> {
    let bytes = text.wire_len();
    check(bytes)?;
    Ok(2 * profile::STRING_LENGTH_WIDTH + bytes)
}

#[inline]
pub(super) fn put(text: &Text<'_>, out: &mut Output<'_>) {
    let inner = text.wire_len();
    out.put((inner as u32 + LENGTH).to_le_bytes());
    out.put((inner as u32).to_le_bytes());
    text.put_units(out, inner);
}

/// Decodes a text whose two lengths agree.
#[inline]
pub(super) fn decode<'a>(input: &mut Input<'a>) -> Option<Text<'a>> {
    let outer = input.u32("outer length").ok()?;
    let inner = input.u32("inner length").ok()?;
    if outer.checked_sub(LENGTH) != Some(inner) {
        return None;
    }
    Text::from_utf16_le(input.take(inner as usize, "text").ok()?)
}

/// Decodes a text after one length, as in registration and string arrays.
pub(crate) fn decode_counted<'a>(input: &mut Input<'a>) -> Option<Text<'a>> {
    let length = input.u32("length").ok()?;
    Text::from_utf16_le(input.take(length as usize, "text").ok()?)
}

pub(crate) fn put_counted(text: &Text<'_>, out: &mut Output<'_>) {
    let length = text.wire_len();
    out.put((length as u32).to_le_bytes());
    text.put_units(out, length);
}

/// Checks that a length is below 2^31, so that sums of a few lengths fit.
pub(crate) fn check(bytes: usize) -> Result<(), EncodeError> {
    if bytes > i32::MAX as usize - 64 {
        return Err(EncodeError::TooLong {
            field: "text",
            bytes,
        });
    }
    Ok(())
}

const LENGTH: u32 = profile::STRING_LENGTH_WIDTH as u32;
// `put` and `decode` assume u32 lengths.
const _: () = assert!(LENGTH == 4);

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn texts_of_both_forms_are_the_same_text() {
        for text in ["", "Tank", "Füllstand", "水位", "Уровень", "a😀"] {
            let wire: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let read = Text::from_utf16_le(&wire).unwrap();
            assert_eq!(read, Text::new(text));
            assert_eq!(&read, text);
            assert_eq!(read.to_string(), text);
            assert_eq!(Text::new(text).wire_len(), wire.len());
        }
        assert!(Text::from_utf16_le(&[0; 3]).is_none());
    }

    #[test]
    fn a_lone_surrogate_is_shown_and_kept() {
        let wire = [0x00, 0xD8, b'x', 0];
        let text = Text::from_utf16_le(&wire).unwrap();
        assert_eq!(text.to_string(), "\u{FFFD}x");
        assert_eq!(text.units().next(), Some(0xD800));
        assert_eq!(format!("{:?}", Text::new("a\n")), "\"a\\n\"");
    }
}
