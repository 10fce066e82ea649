//! What a session tells its application.

use core::fmt;

use super::{ItemId, WriteId};
use crate::envelope::EngineAddress;
use crate::error::{DecodeError, EncodeError};
use crate::status::{Accepted, StatusError};
use crate::subscription::Record;
use crate::value::DataType;

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The platform has accepted the client; items are added next.
    Registered {
        /// The engine that the client speaks as.
        engine: EngineAddress,
    },
    /// The platform has not accepted the client; it is asked again.
    RegistrationRefused {
        /// Why.
        error: StatusError,
    },
    /// The link is gone; no item is live.
    LinkLost,
    /// An item is there.
    ItemAdded {
        /// The item.
        item: ItemId,
        /// What it is.
        data_type: DataType,
        /// Whether it is an array of that.
        is_array: bool,
    },
    /// There is no such item, or the client may not have it. It is tried again after the next link,
    /// or when it is advised again.
    ItemRefused {
        /// The item.
        item: ItemId,
        /// Why.
        error: StatusError,
    },
    /// A value (OnDataChange). A change of quality or time alone is one, too.
    Update {
        /// The item.
        item: ItemId,
        /// Value, quality, time.
        record: Record<'a>,
        /// Whether it is the first since the item was advised.
        is_first: bool,
        /// The time given with the bytes.
        received_ns: u64,
    },
    /// The platform says that something is wrong with an advised item.
    Trouble {
        /// The item.
        item: ItemId,
        /// What.
        error: StatusError,
        /// What came with it: its quality and time count, its value rarely.
        record: Record<'a>,
    },
    /// A write is over (OnWriteComplete).
    WriteEnded {
        /// The write.
        write: WriteId,
        /// The item that was written to.
        item: ItemId,
        /// How it ended.
        result: Result<Accepted, WriteFailure>,
    },
    /// An answer did not come in time; the question was asked again.
    Overdue {
        /// Which question.
        stage: Stage,
        /// Of which item.
        item: Option<ItemId>,
    },
    /// A message that cannot be read.
    Unreadable {
        /// Why.
        error: DecodeError,
        /// All of it.
        message: &'a [u8],
    },
}

/// A question of which the answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Register.
    Register,
    /// AddItem.
    Add,
    /// Advise: the first change is the answer.
    Advise,
}

/// Why a write did not go well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The plant has not taken the value.
    Refused(StatusError),
    /// Nobody knows whether the plant has taken the value.
    Unknown(Doubt),
}

/// Why nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The completion did not come in time.
    TimedOut,
    /// The link was lost before it came.
    LinkLost,
    /// It came, and is not understood.
    NotUnderstood,
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "refused: {error}"),
            Self::Unknown(Doubt::TimedOut) => f.write_str("unknown: no completion in time"),
            Self::Unknown(Doubt::LinkLost) => f.write_str("unknown: the link was lost"),
            Self::Unknown(Doubt::NotUnderstood) => {
                f.write_str("unknown: the completion is not understood")
            }
        }
    }
}

impl core::error::Error for WriteFailure {}

/// Why an item was not added: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError {
    /// No definition.
    Empty,
    /// A definition over [`super::DEFINITION_BYTES_MAX`].
    TooLong,
    /// More items than the session may have.
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

/// Why a write was not even sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// There is no link, or the platform has not accepted the client yet.
    NoLink,
    /// The item was removed, or refused by the platform.
    NoItem,
    /// The item's type is not known yet: it is still being added.
    TypeUnknown,
    /// The attribute is of a type that cannot be written.
    NotWritable {
        /// Its type.
        data_type: DataType,
    },
    /// The value is of another type than the attribute.
    WrongType {
        /// What the attribute is.
        data_type: DataType,
        /// Whether it is an array of that.
        is_array: bool,
        /// What the value is.
        given: &'static str,
    },
    /// As many writes are under way as may be.
    TooMany,
    /// The value cannot be put into a message.
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

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Links.
    pub links: u64,
    /// Messages from the platform.
    pub messages: u64,
    /// Values.
    pub updates: u64,
    /// Messages and records that could not be read.
    pub unreadable: u64,
    /// Messages that belong to nothing: late from an old link, or of an item that was removed.
    pub strays: u64,
    /// Writes sent.
    pub writes: u64,
    /// Writes that the plant has taken.
    pub writes_accepted: u64,
    /// Writes that it has not taken.
    pub writes_refused: u64,
    /// Writes of which nobody knows.
    pub writes_unknown: u64,
}
