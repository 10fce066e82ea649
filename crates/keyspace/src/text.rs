//! The text of a value, which may be stored as an integer.

use std::fmt;

/// The text of a string value or an element. An integer is formatted into it.
#[derive(Clone)]
pub struct Text<'a>(TextKind<'a>);

#[derive(Clone)]
enum TextKind<'a> {
    Bytes(&'a [u8]),
    Integer { bytes: [u8; 20], length: u8 },
}

impl<'a> Text<'a> {
    pub(crate) fn bytes(bytes: &'a [u8]) -> Self {
        Text(TextKind::Bytes(bytes))
    }

    pub(crate) fn integer(value: i64) -> Text<'static> {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(value).as_bytes();
        let mut bytes = [0; 20];
        bytes[..text.len()].copy_from_slice(text);
        Text(TextKind::Integer {
            bytes,
            length: text.len() as u8,
        })
    }

    /// Returns the bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            TextKind::Bytes(bytes) => bytes,
            TextKind::Integer { bytes, length } => &bytes[..usize::from(*length)],
        }
    }
}

impl AsRef<[u8]> for Text<'_> {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"{}\"", self.as_bytes().escape_ascii())
    }
}
