//! Item control: advise, un-advise, suspend and activate an item.

use crate::cursor::{Input, Output};
use crate::encode::Encode;
use crate::envelope::MessageKind;
use crate::error::{DecodeError, EncodeError};
use crate::guid::Guid;
use crate::handle::HandleProjection;
use crate::profile;

/// A command for one item.
///
/// ```text
///  0   1       3                    19       [+2 or +4]            +14
///  │cmd│version│item_correlation_id │ *      │ handle projection   │tail u32│
/// ```
///
/// `*` is two bytes in Advise (39 bytes in all), platform and engine in Suspend and Activate (41),
/// and nothing in UnAdvise (37).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemControl {
    /// The command.
    pub command: ItemCommand,
    /// 1 in every capture.
    pub version: u16,
    /// The client's id of the item.
    pub item_correlation_id: Guid,
    /// The item's attribute.
    pub handle: HandleProjection,
    /// 3 in every capture.
    pub tail: u32,
}

/// A command for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemCommand {
    /// Start data changes, for a user (Advise) or for the host (AdviseSupervisory).
    Advise {
        /// Two bytes of unknown meaning.
        extra: u16,
    },
    /// Stop data changes.
    UnAdvise,
    /// Pause data changes until Activate; the item stays.
    Suspend {
        /// The platform of the item.
        platform_id: u16,
        /// The engine of the item.
        engine_id: u16,
    },
    /// Resume data changes.
    Activate {
        /// The platform of the item.
        platform_id: u16,
        /// The engine of the item.
        engine_id: u16,
    },
}

impl ItemCommand {
    /// Advise by a user.
    pub const ADVISE: Self = Self::Advise {
        extra: profile::ADVISE_EXTRA,
    };
    /// Advise by the host.
    pub const ADVISE_SUPERVISORY: Self = Self::Advise {
        extra: profile::ADVISE_EXTRA_SUPERVISORY,
    };

    /// Returns the first byte of the encoded command.
    pub const fn opcode(self) -> u8 {
        match self {
            Self::Advise { .. } => profile::OPCODE_ADVISE,
            Self::UnAdvise => profile::OPCODE_UN_ADVISE,
            Self::Suspend { .. } => profile::OPCODE_SUSPEND,
            Self::Activate { .. } => profile::OPCODE_ACTIVATE,
        }
    }

    /// Returns the kind of its envelope; UnAdvise uses that of a write.
    pub const fn message_kind(self) -> MessageKind {
        match self {
            Self::UnAdvise => MessageKind::Write,
            _ => MessageKind::ItemControl,
        }
    }
}

impl ItemControl {
    /// Creates a command with the profile's version and tail.
    #[inline]
    pub const fn new(
        command: ItemCommand,
        item_correlation_id: Guid,
        handle: HandleProjection,
    ) -> Self {
        Self {
            command,
            version: profile::ITEM_CONTROL_VERSION,
            item_correlation_id,
            handle,
            tail: profile::ITEM_CONTROL_TAIL,
        }
    }

    /// Decodes a command that fills `body`.
    ///
    /// # Errors
    /// Another opcode, or a length that does not fit the opcode.
    #[inline]
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        let opcode = input.u8("opcode")?;
        let version = input.u16("version")?;
        let item_correlation_id = input.guid("item_correlation_id")?;
        let command = match opcode {
            profile::OPCODE_ADVISE => ItemCommand::Advise {
                extra: input.u16("advise_extra")?,
            },
            profile::OPCODE_UN_ADVISE => ItemCommand::UnAdvise,
            profile::OPCODE_SUSPEND => ItemCommand::Suspend {
                platform_id: input.u16("platform_id")?,
                engine_id: input.u16("engine_id")?,
            },
            profile::OPCODE_ACTIVATE => ItemCommand::Activate {
                platform_id: input.u16("platform_id")?,
                engine_id: input.u16("engine_id")?,
            },
            opcode => return Err(DecodeError::Opcode { opcode }),
        };
        let handle = HandleProjection::from_bytes(input.chunk("handle projection")?);
        let tail = input.u32("tail")?;
        input.end("item control")?;
        Ok(Self {
            command,
            version,
            item_correlation_id,
            handle,
            tail,
        })
    }
}

impl Encode for ItemControl {
    #[inline]
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        Ok(match self.command {
            ItemCommand::Advise { .. } => 39,
            ItemCommand::UnAdvise => 37,
            ItemCommand::Suspend { .. } | ItemCommand::Activate { .. } => 41,
        })
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>) {
        out.put([self.command.opcode()]);
        out.put(self.version.to_le_bytes());
        out.put(self.item_correlation_id.to_bytes());
        match self.command {
            ItemCommand::Advise { extra } => out.put(extra.to_le_bytes()),
            ItemCommand::UnAdvise => {}
            ItemCommand::Suspend {
                platform_id,
                engine_id,
            }
            | ItemCommand::Activate {
                platform_id,
                engine_id,
            } => {
                out.put(platform_id.to_le_bytes());
                out.put(engine_id.to_le_bytes());
            }
        }
        out.put(self.handle.to_bytes());
        out.put(self.tail.to_le_bytes());
    }
}
