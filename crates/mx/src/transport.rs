//! The one small interface between this crate and what carries its messages.
//!
//! On the real platform a client calls the NMX service through DCOM: each call, and each callback,
//! carries one message. That transport needs AVEVA's own components on Windows and is not here.
//! Tidewire speaks to whatever offers two things:
//!
//! * it takes a whole message to the peer: [`Transport::send`];
//! * it hands over whole messages from the peer: to `Session::receive_message`.
//!
//! On a byte stream, such as TCP, a message stands behind a u32 that says how long it is
//! ([`next_message`]); `Session::receive` and `Session::outgoing` speak that form, so that a stream
//! needs nothing else.

use core::fmt;

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

#[cfg(feature = "alloc")]
use crate::encode::Encode;
#[cfg(feature = "alloc")]
use crate::envelope::{Envelope, Enveloped};
#[cfg(feature = "alloc")]
use crate::error::EncodeError;

/// Takes whole messages to the peer: a call of the NMX service, or whatever stands in for it.
pub trait Transport {
    /// Why a message was not taken.
    type Error;

    /// Takes one message: an envelope and its body.
    ///
    /// # Errors
    /// The transport's own.
    fn send(&mut self, message: &[u8]) -> Result<(), Self::Error>;
}

/// Hands everything that a machine has to send, in the form of a stream, to a transport, message by
/// message. What was taken is removed.
///
/// # Errors
/// The transport's own; the message that it did not take, and those behind it, stay.
#[cfg(feature = "alloc")]
pub fn send_all<T: Transport>(outgoing: &mut Vec<u8>, transport: &mut T) -> Result<(), T::Error> {
    let mut sent = 0;
    let mut result = Ok(());
    while let Ok(Some((message, length))) = next_message(&outgoing[sent..]) {
        result = transport.send(message);
        if result.is_err() {
            break;
        }
        sent += length;
    }
    outgoing.drain(..sent);
    result
}

/// Longest message on a stream: an array of 65,535 texts of 128 characters fits.
pub const MESSAGE_BYTES_MAX: usize = 1 << 24;
/// Bytes in front of a message on a stream.
pub const PREFIX_LENGTH: usize = 4;

/// Why bytes of a stream are not messages: the peer's fault, and the link is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
    /// Longer than [`MESSAGE_BYTES_MAX`].
    MessageTooLong {
        /// As announced.
        bytes: u32,
    },
    /// Shorter than an envelope.
    MessageTooShort {
        /// As announced.
        bytes: u32,
    },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MessageTooLong { bytes } => {
                write!(f, "a message of {bytes} bytes: {MESSAGE_BYTES_MAX} at most")
            }
            Self::MessageTooShort { bytes } => {
                write!(f, "a message of {bytes} bytes: not even an envelope")
            }
        }
    }
}

impl core::error::Error for LinkError {}

/// The first message of a stream's bytes, and how many bytes it takes with its prefix; `None` if it
/// is not all there yet.
///
/// # Errors
/// The prefix is out of bounds; nothing is reserved for it.
#[inline]
pub fn next_message(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, LinkError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_LENGTH>() else {
        return Ok(None);
    };
    let bytes = u32::from_le_bytes(*prefix);
    let length = bytes as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(LinkError::MessageTooLong { bytes });
    }
    if length < crate::envelope::Envelope::LENGTH {
        return Err(LinkError::MessageTooShort { bytes });
    }
    Ok(rest
        .get(..length)
        .map(|message| (message, PREFIX_LENGTH + length)))
}

/// Appends a message in the form of a stream.
///
/// # Errors
/// It cannot be written, or is longer than [`MESSAGE_BYTES_MAX`]; `out` is then unchanged.
#[cfg(feature = "alloc")]
pub fn push_message<T: Encode>(
    out: &mut Vec<u8>,
    envelope: &Envelope,
    body: &T,
) -> Result<(), EncodeError> {
    let message = Enveloped { envelope, body };
    let bytes = message.encoded_len()?;
    if bytes > MESSAGE_BYTES_MAX {
        return Err(EncodeError::TooLong {
            field: "message",
            bytes,
        });
    }
    out.extend_from_slice(&(bytes as u32).to_le_bytes());
    message.encode_into(out)?;
    Ok(())
}
