//! The message header, and the message behind it.

use crate::{DecodeError, Number};

/// Bytes of the message header: four numbers of 16 bits.
pub const HEADER_LENGTH: usize = 8;

/// The message header of the standard: block length, template, schema and version, 16 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the root block, bytes.
    pub block_length: u16,
    /// Number of the template: which message it is.
    pub template_id: u16,
    /// Number of the schema.
    pub schema_id: u16,
    /// Version of the schema that the sender uses.
    pub version: u16,
}

impl Header {
    /// Encodes the header.
    pub fn to_bytes(self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        let numbers = [
            self.block_length,
            self.template_id,
            self.schema_id,
            self.version,
        ];
        for (place, number) in bytes.chunks_exact_mut(2).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// A message of any template.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    header: Header,
    /// Root block and groups.
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads the header of a message that begins `bytes` and ends with them, or before.
    ///
    /// # Errors
    /// There are fewer bytes than a header has.
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let truncated = DecodeError::Truncated(bytes.len());
        let (head, body) = bytes
            .split_first_chunk::<HEADER_LENGTH>()
            .ok_or(truncated)?;
        let header = Header {
            block_length: u16::read(head, 0),
            template_id: u16::read(head, 2),
            schema_id: u16::read(head, 4),
            version: u16::read(head, 6),
        };
        Ok(Self { header, body })
    }

    /// Returns the header.
    #[inline(always)]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Returns the template's number.
    #[inline(always)]
    pub fn template_id(&self) -> u16 {
        self.header.template_id
    }

    /// Splits the message into its root block and the groups, if it has this template.
    ///
    /// # Errors
    /// Another template, or the message ends within the root block.
    #[inline(always)]
    pub fn root(&self, template_id: u16) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
        if self.header.template_id != template_id {
            return Err(DecodeError::WrongTemplate(self.header.template_id));
        }
        self.body
            .split_at_checked(self.header.block_length.into())
            .ok_or(DecodeError::Truncated(self.body.len()))
    }
}
