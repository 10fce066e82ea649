//! The router: which message a body is.

use crate::cursor::Output;
use crate::encode::Encode;
use crate::envelope::{Envelope, MessageKind};
use crate::error::{DecodeError, EncodeError};
use crate::item_control::ItemControl;
use crate::operation::OperationStatus;
use crate::profile;
use crate::registration::{
    ClientRegister, ClientRegistered, ClientUnregister, ReferenceRequest, ReferenceResult,
};
use crate::subscription::SubscriptionMessage;
use crate::write::Write;

/// An envelope, and the body behind it, not yet looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The header.
    pub envelope: Envelope,
    /// What is behind it.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads a message, with or without four bytes in front that say how long it is: the platform
    /// hands out both.
    ///
    /// # Errors
    /// It is neither; the error is that of a message without a length in front.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let plain = Envelope::split(bytes);
        let (envelope, body) = match (plain, without_prefix(bytes).map(Envelope::split)) {
            (Ok(parts), _) | (Err(_), Some(Ok(parts))) => parts,
            (Err(error), _) => return Err(error),
        };
        Ok(Self { envelope, body })
    }
}

/// The message behind a length that fits it.
pub(crate) fn without_prefix(bytes: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = bytes.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*prefix) as usize == message.len()).then_some(message)
}

/// A body, of either direction.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body<'a> {
    /// How an operation ended.
    OperationStatus(OperationStatus),
    /// Asks for a reference.
    ReferenceRequest(ReferenceRequest<'a>),
    /// What became of it.
    ReferenceResult(ReferenceResult<'a>),
    /// Values.
    Subscription(SubscriptionMessage<'a>),
    /// An order about an item.
    ItemControl(ItemControl),
    /// A write.
    Write(Write<'a>),
    /// Registers a client.
    ClientRegister(ClientRegister<'a>),
    /// The answer to it.
    ClientRegistered(ClientRegistered),
    /// The end of it.
    ClientUnregister(ClientUnregister),
}

impl<'a> Body<'a> {
    /// Reads a body: by its length where it is an operation status, otherwise by its first byte.
    ///
    /// # Errors
    /// The first byte is of no message that is known, or what follows does not fit it.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        if OperationStatus::has_length(body.len()) {
            return OperationStatus::decode(body).map(Self::OperationStatus);
        }
        let Some(&opcode) = body.first() else {
            return Err(DecodeError::Truncated {
                field: "opcode",
                needed: 1,
                given: 0,
            });
        };
        match opcode {
            profile::OPCODE_DATA_UPDATE | profile::OPCODE_SUBSCRIPTION_STATUS => {
                SubscriptionMessage::decode(body).map(Self::Subscription)
            }
            profile::OPCODE_WRITE | profile::OPCODE_WRITE_SECURED => {
                Write::decode(body).map(Self::Write)
            }
            profile::OPCODE_ADVISE
            | profile::OPCODE_UN_ADVISE
            | profile::OPCODE_SUSPEND
            | profile::OPCODE_ACTIVATE => ItemControl::decode(body).map(Self::ItemControl),
            profile::OPCODE_REFERENCE_REQUEST => {
                ReferenceRequest::decode(body).map(Self::ReferenceRequest)
            }
            profile::OPCODE_REFERENCE_RESULT => {
                ReferenceResult::decode(body).map(Self::ReferenceResult)
            }
            profile::OPCODE_CLIENT_REGISTER => {
                ClientRegister::decode(body).map(Self::ClientRegister)
            }
            profile::OPCODE_CLIENT_REGISTERED => {
                ClientRegistered::decode(body).map(Self::ClientRegistered)
            }
            profile::OPCODE_CLIENT_UNREGISTER => {
                ClientUnregister::decode(body).map(Self::ClientUnregister)
            }
            opcode => Err(DecodeError::Opcode { opcode }),
        }
    }

    /// The kind of envelope that it travels in.
    pub const fn message_kind(&self) -> MessageKind {
        match self {
            Self::Write(_) | Self::OperationStatus(_) => MessageKind::Write,
            Self::ItemControl(control) => control.command.message_kind(),
            Self::Subscription(_) => MessageKind::ItemControl,
            _ => MessageKind::Metadata,
        }
    }

    fn inner(&self) -> &dyn Encode {
        match self {
            Self::OperationStatus(body) => body,
            Self::ReferenceRequest(body) => body,
            Self::ReferenceResult(body) => body,
            Self::Subscription(body) => body,
            Self::ItemControl(body) => body,
            Self::Write(body) => body,
            Self::ClientRegister(body) => body,
            Self::ClientRegistered(body) => body,
            Self::ClientUnregister(body) => body,
        }
    }
}

impl Encode for Body<'_> {
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        self.inner().encoded_len()
    }

    fn put(&self, out: &mut Output<'_>) {
        self.inner().put(out);
    }
}
