//! The interface between this crate and a transport of its messages.
//!
//! On the real platform a client calls the NMX service through DCOM: each call, and each
//! callback, carries one message. That transport needs AVEVA's own components on Windows and is
//! not part of this crate. Any transport must do two things:
//!
//! * send whole messages to the peer: [`Transport::send`];
//! * pass whole messages from the peer to `Session::receive_message`.
//!
//! On a byte stream such as TCP, a u32 length precedes each message ([`next_message`]).
//! `Session::receive` and `Session::outgoing` use that form, so a stream needs nothing else.

use core::fmt;

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

#[cfg(feature = "alloc")]
use crate::encode::Encode;
#[cfg(feature = "alloc")]
use crate::envelope::{Envelope, Enveloped};
#[cfg(feature = "alloc")]
use crate::error::EncodeError;

/// Sends whole messages to the peer, for example by a call of the NMX service.
pub trait Transport {
    /// Why a message was not sent.
    type Error;

    /// Sends one message: an envelope and its body.
    ///
    /// # Errors
    /// Errors of the transport.
    fn send(&mut self, message: &[u8]) -> Result<(), Self::Error>;
}

/// Sends the whole output of a state machine, message by message. Removes the sent messages from
/// `outgoing`.
///
/// # Errors
/// Errors of the transport. The message that failed, and those after it, stay.
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

/// Maximum bytes of a message on a stream: an array of 65,535 texts of 128 characters fits.
pub const MESSAGE_BYTES_MAX: usize = 1 << 24;
/// Bytes of the length before a message on a stream.
pub const PREFIX_LENGTH: usize = 4;

/// Why the bytes of a stream are not messages: the peer's fault. The link must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
    /// Longer than [`MESSAGE_BYTES_MAX`].
    MessageTooLong {
        /// The announced length.
        bytes: u32,
    },
    /// Shorter than an envelope.
    MessageTooShort {
        /// The announced length.
        bytes: u32,
    },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MessageTooLong { bytes } => {
                write!(
                    f,
                    "a message of {bytes} bytes is too long: at most {MESSAGE_BYTES_MAX} are allowed"
                )
            }
            Self::MessageTooShort { bytes } => {
                write!(f, "a message of {bytes} bytes is shorter than an envelope")
            }
        }
    }
}

impl core::error::Error for LinkError {}

/// Returns the first message of a stream, and its length including the prefix; `None` if it is
/// incomplete.
///
/// # Errors
/// The length is out of bounds. Nothing is allocated for it.
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

/// Appends a message with its length prefix.
///
/// # Errors
/// The message cannot be encoded or is longer than [`MESSAGE_BYTES_MAX`]; `out` is then
/// unchanged.
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
