//! The router: finds the type of a body.

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

/// An envelope and its undecoded body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The header.
    pub envelope: Envelope,
    /// The undecoded body.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Splits a message with or without a 4-byte length prefix: the platform uses both forms.
    ///
    /// # Errors
    /// The bytes have neither form; the error is that of a message without a prefix.
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

/// Returns the message after a length prefix that fits it.
pub(crate) fn without_prefix(bytes: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = bytes.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*prefix) as usize == message.len()).then_some(message)
}

/// A decoded body, of either direction.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body<'a> {
    /// The result of an operation.
    OperationStatus(OperationStatus),
    /// A request for a reference.
    ReferenceRequest(ReferenceRequest<'a>),
    /// The result of a reference request.
    ReferenceResult(ReferenceResult<'a>),
    /// Values of a subscription.
    Subscription(SubscriptionMessage<'a>),
    /// A command for an item.
    ItemControl(ItemControl),
    /// A write.
    Write(Write<'a>),
    /// Registration of a client.
    ClientRegister(ClientRegister<'a>),
    /// The answer to a registration.
    ClientRegistered(ClientRegistered),
    /// The end of a registration.
    ClientUnregister(ClientUnregister),
}

impl<'a> Body<'a> {
    /// Decodes a body: an operation status by its length, any other body by its first byte.
    ///
    /// # Errors
    /// The first byte is unknown, or the rest does not fit it.
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

    /// Returns the kind of its envelope.
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
