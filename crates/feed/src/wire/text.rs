//! Short text in a message: UTF-8, zero-padded to a fixed length.

use std::fmt;

/// A symbol's name.
pub type Name = Text<72>;
/// A pattern of a subscription: `*`, an exact name, or a glob with `*` and `?`.
pub type PatternText = Text<80>;
/// A client's name for itself at login, for the operator.
pub type ClientName = Text<48>;
/// A venue's name.
pub type VenueName = Text<32>;
/// The name of a cluster of hubs.
pub type ClusterText = Text<48>;
/// The text of a refusal.
pub type RefusalText = Text<72>;

/// UTF-8 text of at most `N` bytes without NUL, kept inline and zero-padded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<const N: usize> {
    /// UTF-8 up to the first zero byte, zeros from there on.
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    /// Empty text.
    pub const EMPTY: Text<N> = Text { bytes: [0; N] };

    /// Creates a text of at most `N` bytes.
    pub fn new(text: &str) -> Result<Text<N>, TextError> {
        if text.len() > N {
            return Err(TextError::TooLong { bytes_max: N });
        }
        if text.as_bytes().contains(&0) {
            return Err(TextError::NotText);
        }
        let mut bytes = [0; N];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Text { bytes })
    }

    /// Returns as much of `text` as fits, cut between characters; for text that only people read.
    pub fn truncated(text: &str) -> Text<N> {
        let text = &text[..text.floor_char_boundary(N)];
        Text::new(text).unwrap_or(Text::EMPTY)
    }

    /// Decodes the padded form.
    pub fn from_padded(bytes: [u8; N]) -> Result<Text<N>, TextError> {
        let length = padded_length(&bytes);
        let (text, padding) = bytes.split_at(length);
        if std::str::from_utf8(text).is_err() || padding.iter().any(|&byte| byte != 0) {
            return Err(TextError::NotText);
        }
        Ok(Text { bytes })
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        // Both constructors checked this.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Returns the text's bytes without the padding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..padded_length(&self.bytes)]
    }

    /// Returns the padded form.
    pub fn to_padded(&self) -> [u8; N] {
        self.bytes
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.first().is_none_or(|&byte| byte == 0)
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text::EMPTY
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), formatter)
    }
}

/// Why text is invalid in a message: the caller's fault when created, the peer's when decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// More bytes than the field holds.
    #[error("text is too long; up to {bytes_max} bytes are allowed")]
    TooLong {
        /// Bytes that the field holds.
        bytes_max: usize,
    },
    /// Not UTF-8, or with a zero byte inside.
    #[error("text is not UTF-8 without zeros")]
    NotText,
}

fn padded_length(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len())
}
