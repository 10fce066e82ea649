//! Writes of a value to an attribute, with or without a time and users.

use crate::cursor::{Input, Output};
use crate::encode::Encode;
use crate::error::{DecodeError, EncodeError};
use crate::handle::HandleProjection;
use crate::profile;
use crate::time::FileTime;
use crate::value::Value;

/// A write.
///
/// ```text
///  0   1       3                  17        18
///  │cmd│version│handle projection │wire kind│ value … │ suffix, 18 bytes │ (users, 8 bytes)
/// ```
///
/// This is one message for all four writes of MXAccess. Write has no time, Write2 has one. The
/// two secured writes add users at the end and have their own opcode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Write<'a> {
    /// Version: 1.
    pub version: u16,
    /// The attribute.
    pub handle: HandleProjection,
    /// The value to write.
    pub value: Value<'a>,
    /// The bytes after the value.
    pub suffix: WriteSuffix,
    /// The users, if the attribute requires them.
    pub users: Option<SecuredUsers>,
}

/// The 18 bytes after a value.
///
/// ```text
///  0           2              10              14
///  │marker −1  │FILETIME or 0 │client token u32│write index u32│
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteSuffix {
    /// −1 in every capture.
    pub marker: i16,
    /// Time of measurement in Write2; otherwise 0.
    pub time: FileTime,
    /// The client's number for this write.
    pub client_token: u32,
    /// Number of writes the client has made.
    pub write_index: u32,
}

/// The users of a secured write: the writer and the verifier. MXAccess gets these numbers from
/// AuthenticateUser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecuredUsers {
    /// The writing user.
    pub current_id: i32,
    /// The verifying user; 0 if none is required.
    pub verifier_id: i32,
}

impl<'a> Write<'a> {
    /// Bytes before the value.
    pub const HEADER_LENGTH: usize = 18;
    /// Bytes after the value, without users.
    pub const SUFFIX_LENGTH: usize = 18;
    /// Bytes of the users of a secured write.
    pub const USERS_LENGTH: usize = 8;

    /// Creates a plain write.
    #[inline]
    pub const fn new(handle: HandleProjection, value: Value<'a>) -> Self {
        Self {
            version: profile::WRITE_VERSION,
            handle,
            value,
            suffix: WriteSuffix {
                marker: profile::WRITE_SUFFIX_MARKER,
                time: FileTime::NONE,
                client_token: 0,
                write_index: 0,
            },
            users: None,
        }
    }

    /// Adds the time of measurement (Write2).
    #[inline]
    #[must_use]
    pub const fn at(mut self, time: FileTime) -> Self {
        self.suffix.time = time;
        self
    }

    /// Sets the client's numbers for the write.
    #[inline]
    #[must_use]
    pub const fn numbered(mut self, client_token: u32, write_index: u32) -> Self {
        self.suffix.client_token = client_token;
        self.suffix.write_index = write_index;
        self
    }

    /// Adds users (WriteSecured, WriteSecured2).
    #[inline]
    #[must_use]
    pub const fn secured(mut self, users: SecuredUsers) -> Self {
        self.users = Some(users);
        self
    }

    /// Decodes a write that fills `body`.
    ///
    /// # Errors
    /// Another opcode, or less than header and suffix. A value that cannot be decoded is no
    /// error: it is raw.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        let header = input.chunk::<HEADER>("write header")?;
        let [opcode, v0, v1, projection @ .., kind] = header;
        let has_users = match *opcode {
            profile::OPCODE_WRITE => false,
            profile::OPCODE_WRITE_SECURED => true,
            opcode => return Err(DecodeError::Opcode { opcode }),
        };
        let behind = Self::SUFFIX_LENGTH + if has_users { Self::USERS_LENGTH } else { 0 };
        let Some(length) = input.len().checked_sub(behind) else {
            return Err(DecodeError::Truncated {
                field: "write suffix",
                needed: behind,
                given: input.len(),
            });
        };
        let bytes = input.take(length, "value")?;
        let suffix = WriteSuffix::from_bytes(input.chunk("write suffix")?);
        let users = if has_users {
            Some(SecuredUsers {
                current_id: input.i32("current_user_id")?,
                verifier_id: input.i32("verifier_user_id")?,
            })
        } else {
            None
        };
        Ok(Self {
            version: u16::from_le_bytes([*v0, *v1]),
            handle: HandleProjection::from_bytes(projection),
            value: whole_value(*kind, bytes),
            suffix,
            users,
        })
    }

    /// Returns the first byte of the encoded write.
    pub const fn opcode(&self) -> u8 {
        if self.users.is_some() {
            profile::OPCODE_WRITE_SECURED
        } else {
            profile::OPCODE_WRITE
        }
    }
}

impl WriteSuffix {
    #[inline]
    fn from_bytes(b: &[u8; 18]) -> Self {
        const TIME: usize = profile::WRITE_SUFFIX_TIME;
        const TOKEN: usize = profile::WRITE_SUFFIX_TOKEN;
        const INDEX: usize = profile::WRITE_SUFFIX_INDEX;
        let mut time = [0; 8];
        time.copy_from_slice(&b[TIME..TIME + 8]);
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        Self {
            marker: i16::from_le_bytes([b[0], b[1]]),
            time: FileTime(i64::from_le_bytes(time)),
            client_token: word(TOKEN),
            write_index: word(INDEX),
        }
    }

    #[inline]
    fn to_bytes(self) -> [u8; 18] {
        const TIME: usize = profile::WRITE_SUFFIX_TIME;
        const TOKEN: usize = profile::WRITE_SUFFIX_TOKEN;
        const INDEX: usize = profile::WRITE_SUFFIX_INDEX;
        let mut bytes = [0; 18];
        bytes[..2].copy_from_slice(&self.marker.to_le_bytes());
        bytes[TIME..TIME + 8].copy_from_slice(&self.time.0.to_le_bytes());
        bytes[TOKEN..TOKEN + 4].copy_from_slice(&self.client_token.to_le_bytes());
        bytes[INDEX..INDEX + 4].copy_from_slice(&self.write_index.to_le_bytes());
        bytes
    }
}

impl Encode for Write<'_> {
    #[inline]
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        let users = if self.users.is_some() {
            Self::USERS_LENGTH
        } else {
            0
        };
        Ok(Self::HEADER_LENGTH + self.value.encoded_len()? + Self::SUFFIX_LENGTH + users)
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>) {
        let mut header = [0; HEADER];
        header[0] = self.opcode();
        header[1..3].copy_from_slice(&self.version.to_le_bytes());
        header[3..17].copy_from_slice(&self.handle.to_bytes());
        header[17] = self.value.wire_kind();
        out.put(header);
        self.value.put(out);
        out.put(self.suffix.to_bytes());
        if let Some(users) = self.users {
            out.put(users.current_id.to_le_bytes());
            out.put(users.verifier_id.to_le_bytes());
        }
    }
}

/// Decodes a value that fills `bytes`; any other is raw.
#[inline]
fn whole_value(kind: u8, bytes: &[u8]) -> Value<'_> {
    let mut input = Input::new(bytes);
    let value = Value::decode(kind, &mut input);
    if input.len() == 0 {
        value
    } else {
        Value::Raw { kind, bytes }
    }
}

const HEADER: usize = Write::HEADER_LENGTH;
