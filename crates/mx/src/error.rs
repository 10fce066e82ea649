//! Errors of decoding and encoding.

use core::fmt;

/// Why bytes cannot be decoded: a fault of the sender or of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end within a field.
    Truncated {
        /// The field.
        field: &'static str,
        /// Bytes the field needs.
        needed: usize,
        /// Bytes that remained.
        given: usize,
    },
    /// Bytes follow the end of the message.
    Trailing {
        /// The message type.
        message: &'static str,
        /// Number of extra bytes.
        bytes: usize,
    },
    /// The first byte belongs to another message, or to an unknown one.
    Opcode {
        /// The byte.
        opcode: u8,
    },
    /// The announced number of records is negative, or more than the bytes can hold.
    RecordCount {
        /// The announced number.
        count: i32,
        /// Bytes available for the records.
        bytes: usize,
    },
    /// A length is negative, odd for a text, or longer than the bytes.
    Length {
        /// The field.
        field: &'static str,
        /// The length on the wire.
        length: i64,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated {
                field,
                needed,
                given,
            } => write!(f, "{field} needs {needed} bytes, {given} are left"),
            Self::Trailing { message, bytes } => {
                write!(f, "{bytes} bytes after the end of {message}")
            }
            Self::Opcode { opcode } => write!(f, "unexpected opcode 0x{opcode:02X}"),
            Self::RecordCount { count, bytes } => {
                write!(
                    f,
                    "{count} records announced, but only {bytes} bytes follow"
                )
            }
            Self::Length { field, length } => {
                write!(f, "{field} has an invalid length of {length} bytes")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

/// Why a message cannot be encoded: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The buffer is smaller than the message.
    BufferTooSmall {
        /// Bytes of the message.
        needed: usize,
        /// Bytes of the buffer.
        given: usize,
    },
    /// An array has more elements than its count field can hold.
    TooManyElements {
        /// Number of elements; the maximum is 65,535.
        count: usize,
    },
    /// A text or body is longer than its length field can hold.
    TooLong {
        /// The field.
        field: &'static str,
        /// Number of bytes; the maximum is 2,147,483,647.
        bytes: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BufferTooSmall { needed, given } => {
                write!(f, "{needed} bytes do not fit into a buffer of {given}")
            }
            Self::TooManyElements { count } => {
                write!(
                    f,
                    "an array of {count} elements is too long: at most 65535 are allowed"
                )
            }
            Self::TooLong { field, bytes } => write!(f, "{field} of {bytes} bytes is too long"),
        }
    }
}

impl core::error::Error for EncodeError {}
