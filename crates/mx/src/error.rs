//! Why bytes are no message, and why a message cannot be written.

use core::fmt;

/// Why bytes are not the message they were taken for: the sender's fault, or the profile's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end within a field.
    Truncated {
        /// The field.
        field: &'static str,
        /// Bytes that the field has.
        needed: usize,
        /// Bytes that were left.
        given: usize,
    },
    /// There are bytes behind the end of the message.
    Trailing {
        /// The message.
        message: &'static str,
        /// How many.
        bytes: usize,
    },
    /// The first byte belongs to another message, or to none that is known.
    Opcode {
        /// The byte.
        opcode: u8,
    },
    /// More records are announced than the bytes can hold, or fewer than none.
    RecordCount {
        /// As announced.
        count: i32,
        /// Bytes there are for them.
        bytes: usize,
    },
    /// A length is negative, odd where texts are counted, or longer than the bytes.
    Length {
        /// The field.
        field: &'static str,
        /// As it stands.
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
                write!(f, "{bytes} bytes behind the end of {message}")
            }
            Self::Opcode { opcode } => write!(f, "0x{opcode:02X} is no opcode that fits here"),
            Self::RecordCount { count, bytes } => {
                write!(f, "{count} records are announced in {bytes} bytes")
            }
            Self::Length { field, length } => write!(f, "{field} cannot be {length} bytes long"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Why a message cannot be written: the caller's fault.
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
    /// An array has more elements than its count can say.
    TooManyElements {
        /// Elements there are; 65,535 is the most.
        count: usize,
    },
    /// A text or body is longer than its length field can say.
    TooLong {
        /// The field.
        field: &'static str,
        /// Bytes there are; 2,147,483,647 is the most.
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
                write!(f, "an array of {count} elements: 65535 at most")
            }
            Self::TooLong { field, bytes } => write!(f, "{field} of {bytes} bytes is too long"),
        }
    }
}

impl core::error::Error for EncodeError {}
