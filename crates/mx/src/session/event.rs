//! The events and errors of a session.

use core::fmt;

use super::{ItemId, WriteId};
use crate::envelope::EngineAddress;
use crate::error::{DecodeError, EncodeError};
use crate::status::{Accepted, StatusError};
use crate::subscription::Record;
use crate::value::DataType;

/// An event of a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The platform accepted the client; items are added next.
    Registered {
        /// The client's own engine address.
        engine: EngineAddress,
    },
    /// The platform refused the client; the session tries again.
    RegistrationRefused {
        /// Reason.
        error: StatusError,
    },
    /// The link is lost; no item is live.
    LinkLost,
    /// An item was added.
    ItemAdded {
        /// The item.
        item: ItemId,
        /// The item's type.
        data_type: DataType,
        /// Whether it is an array of that type.
        is_array: bool,
    },
    /// The item does not exist, or the client may not access it. The session tries again after
    /// the next link, or when the item is advised again.
    ItemRefused {
        /// The item.
        item: ItemId,
        /// Reason.
        error: StatusError,
    },
    /// A value (OnDataChange). A change of only the quality or the time counts too.
    Update {
        /// The item.
        item: ItemId,
        /// Value, quality, time.
        record: Record<'a>,
        /// Whether it is the first update since the item was advised.
        is_first: bool,
        /// The time passed with the bytes.
        received_ns: u64,
    },
    /// The platform reports an error of an advised item.
    Trouble {
        /// The item.
        item: ItemId,
        /// The error.
        error: StatusError,
        /// The record with the error: its quality and time are valid, its value rarely.
        record: Record<'a>,
    },
    /// A write ended (OnWriteComplete).
    WriteEnded {
        /// The write.
        write: WriteId,
        /// The written item.
        item: ItemId,
        /// The result.
        result: Result<Accepted, WriteFailure>,
    },
    /// An answer did not arrive in time; the request was sent again.
    Overdue {
        /// The request.
        stage: Stage,
        /// The item of the request.
        item: Option<ItemId>,
    },
    /// A message that cannot be decoded.
    Unreadable {
        /// Reason.
        error: DecodeError,
        /// The whole message.
        message: &'a [u8],
    },
}

/// A request that awaits an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Register.
    Register,
    /// AddItem.
    Add,
    /// Advise; the first change is its answer.
    Advise,
}

/// Why a write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The plant did not accept the value.
    Refused(StatusError),
    /// It is unknown whether the plant accepted the value.
    Unknown(Doubt),
}

/// Why the result of a write is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The completion did not arrive in time.
    TimedOut,
    /// The link was lost before the completion arrived.
    LinkLost,
    /// The completion arrived but its meaning is unknown.
    NotUnderstood,
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "refused: {error}"),
            Self::Unknown(Doubt::TimedOut) => f.write_str("unknown: no completion in time"),
            Self::Unknown(Doubt::LinkLost) => f.write_str("unknown: the link was lost"),
            Self::Unknown(Doubt::NotUnderstood) => {
                f.write_str("unknown: the completion has an unknown meaning")
            }
        }
    }
}

impl core::error::Error for WriteFailure {}

/// Why an item was not added: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError {
    /// The definition is empty.
    Empty,
    /// The definition is longer than [`super::DEFINITION_BYTES_MAX`].
    TooLong,
    /// The session has the maximum number of items.
    TooMany,
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "an item needs a definition",
            Self::TooLong => "the definition is too long",
            Self::TooMany => "too many items",
        })
    }
}

impl core::error::Error for AddError {}

/// Why a write was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// There is no link, or the platform has not accepted the client yet.
    NoLink,
    /// The item was removed, or the platform refused it.
    NoItem,
    /// The item's type is unknown until it has been added.
    TypeUnknown,
    /// The attribute has a type that cannot be written.
    NotWritable {
        /// The attribute's type.
        data_type: DataType,
    },
    /// The value and the attribute have different types.
    WrongType {
        /// The attribute's type.
        data_type: DataType,
        /// Whether the attribute is an array of that type.
        is_array: bool,
        /// The value's type.
        given: &'static str,
    },
    /// The maximum number of writes is pending.
    TooMany,
    /// The value cannot be encoded.
    Encode(EncodeError),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLink => f.write_str("there is no link to the platform"),
            Self::NoItem => f.write_str("there is no such item"),
            Self::TypeUnknown => f.write_str("the item's type is not known yet"),
            Self::NotWritable { data_type } => {
                write!(
                    f,
                    "an attribute of type {} cannot be written",
                    data_type.name()
                )
            }
            Self::WrongType {
                data_type,
                is_array,
                given,
            } => {
                let array = if *is_array { "[]" } else { "" };
                write!(
                    f,
                    "{given} given, the attribute is {}{array}",
                    data_type.name()
                )
            }
            Self::TooMany => f.write_str("too many writes are under way"),
            Self::Encode(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for WriteError {}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Links established.
    pub links: u64,
    /// Messages from the platform.
    pub messages: u64,
    /// Values received.
    pub updates: u64,
    /// Messages and records that could not be decoded.
    pub unreadable: u64,
    /// Messages that match nothing: late ones from an old link, or of a removed item.
    pub strays: u64,
    /// Writes sent.
    pub writes: u64,
    /// Writes that the plant accepted.
    pub writes_accepted: u64,
    /// Writes that the plant refused.
    pub writes_refused: u64,
    /// Writes with an unknown result.
    pub writes_unknown: u64,
}
