//! Simple Binary Encoding (SBE 1.0, as exchanges use it): views of received messages and repeating
//! groups without a copy, and writers.
//!
//! The layout comes from a schema: a build script gives it to `tidewire-sbe-schema`, which writes
//! a type for each message, group, enum, set and composite. That code calls this crate:
//!
//! * [`Message`]: a message header with its body; [`Message::root`] splits off the root block.
//! * [`Block`]: the fields of a message or of a group's entry. A sender of another version may
//!   send a shorter or longer block. A longer one has fields that this schema does not know; they
//!   are skipped. A field of a later version than the sender's is `None`.
//! * [`Group`]: a repeating group, checked once when the message is decoded.
//!
//! A length from the peer is compared with the bytes that are there, and never allocated.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

use thiserror::Error;

mod block;
pub use block::Block;

mod bytes;
pub use bytes::{Number, put};

mod group;
pub use group::{Entries, Entry, Group, GroupSize};

mod message;
pub use message::{HEADER_LENGTH, Header, Message};

mod writer;
pub use writer::{GroupWriter, begin_message};

/// Why bytes are not a message of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Fewer bytes than the header or a length says.
    #[error("the message ends after {0} bytes")]
    Truncated(usize),
    /// The root block, or a group's entry, is shorter than the schema's first version of it.
    #[error("a block of {length} bytes; at least {minimum} are expected")]
    BlockTooShort {
        /// Length that the sender gives, bytes.
        length: usize,
        /// Length of the first version's fields, bytes.
        minimum: usize,
    },
    /// Another template than the one that is decoded.
    #[error("template {0} is not the expected one")]
    WrongTemplate(u16),
}
