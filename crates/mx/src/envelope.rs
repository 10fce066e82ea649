//! The header of every message.

use crate::cursor::Output;
use crate::encode::Encode;
use crate::error::{DecodeError, EncodeError};
use crate::profile;

/// The kind of a message in its envelope.
///
/// Two exceptions of the platform: UnAdvise is sent as [`MessageKind::Write`], and
/// AdviseSupervisory as [`MessageKind::ItemControl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// References and registration.
    Metadata,
    /// Writes.
    Write,
    /// Item control and its results.
    ItemControl,
    /// An unknown kind; kept.
    Other(i32),
}

impl MessageKind {
    /// Returns the kind of a wire code.
    pub const fn from_code(code: i32) -> Self {
        match code {
            profile::KIND_METADATA => Self::Metadata,
            profile::KIND_WRITE => Self::Write,
            profile::KIND_ITEM_CONTROL => Self::ItemControl,
            code => Self::Other(code),
        }
    }

    /// Returns the wire code.
    pub const fn code(self) -> i32 {
        match self {
            Self::Metadata => profile::KIND_METADATA,
            Self::Write => profile::KIND_WRITE,
            Self::ItemControl => profile::KIND_ITEM_CONTROL,
            Self::Other(code) => code,
        }
    }
}

/// The address of an engine: the sender or the receiver of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineAddress {
    /// The Galaxy.
    pub galaxy_id: i32,
    /// The platform in it.
    pub platform_id: i32,
    /// The engine on the platform.
    pub engine_id: i32,
}

/// The 46-byte header before a message's body.
///
/// ```text
///  0       2            6          10           14                                  46
///  │version│inner_length│reserved  │message_kind│addressing: local and target engine,│
///  │u16    │i32         │4 bytes   │i32         │token, patience: 32 bytes, assumed  │
/// ```
///
/// A captured header is kept byte for byte, so it can serve as a template:
/// [`Envelope::with_kind`], and the `inner_length` set when a body is appended, change nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    bytes: [u8; Envelope::LENGTH],
}

impl Envelope {
    /// Bytes of an envelope.
    pub const LENGTH: usize = 46;

    /// Creates an envelope of the profile's version from one engine to another.
    pub fn new(kind: MessageKind, local: EngineAddress, target: EngineAddress) -> Self {
        let mut envelope = Self {
            bytes: [0; Self::LENGTH],
        };
        envelope.set(0, profile::ENVELOPE_VERSION.to_le_bytes());
        envelope.set(KIND, kind.code().to_le_bytes());
        let fields = [
            (profile::ADDRESS_LOCAL_GALAXY, local.galaxy_id),
            (profile::ADDRESS_LOCAL_PLATFORM, local.platform_id),
            (profile::ADDRESS_LOCAL_ENGINE, local.engine_id),
            (profile::ADDRESS_TARGET_GALAXY, target.galaxy_id),
            (profile::ADDRESS_TARGET_PLATFORM, target.platform_id),
            (profile::ADDRESS_TARGET_ENGINE, target.engine_id),
        ];
        for (offset, value) in fields {
            envelope.set(offset, value.to_le_bytes());
        }
        envelope
    }

    /// Creates an envelope from a captured header.
    #[inline]
    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self { bytes }
    }

    /// Returns the header's bytes, with the `inner_length` it was decoded with.
    #[inline]
    pub const fn to_bytes(&self) -> [u8; Self::LENGTH] {
        self.bytes
    }

    /// Returns the envelope with another kind.
    #[inline]
    #[must_use]
    pub fn with_kind(mut self, kind: MessageKind) -> Self {
        self.set(KIND, kind.code().to_le_bytes());
        self
    }

    /// Returns the envelope with a write's token, by which the write's completion identifies it.
    #[inline]
    #[must_use]
    pub fn with_token(mut self, token: u32) -> Self {
        self.set(profile::ADDRESS_TOKEN, token.to_le_bytes());
        self
    }

    /// Returns the envelope for a body of `bytes` bytes.
    ///
    /// # Errors
    /// `bytes` is more than 2,147,483,647.
    #[inline]
    pub fn with_inner_length(mut self, bytes: usize) -> Result<Self, EncodeError> {
        let length = i32::try_from(bytes).map_err(|_| EncodeError::TooLong {
            field: "inner body",
            bytes,
        })?;
        self.set(INNER_LENGTH, length.to_le_bytes());
        Ok(self)
    }

    /// Returns the version of the envelope.
    pub const fn version(&self) -> u16 {
        u16::from_le_bytes([self.bytes[0], self.bytes[1]])
    }

    /// Returns the header's length of the body in bytes.
    #[inline]
    pub fn inner_length(&self) -> i32 {
        self.i32_at(INNER_LENGTH)
    }

    /// Returns the four bytes of unknown meaning.
    pub fn reserved(&self) -> [u8; 4] {
        self.i32_at(6).to_le_bytes()
    }

    /// Returns the kind of the message.
    #[inline]
    pub fn kind(&self) -> MessageKind {
        MessageKind::from_code(self.i32_at(KIND))
    }

    /// Returns the sender (assumed layout).
    pub fn local(&self) -> EngineAddress {
        EngineAddress {
            galaxy_id: self.i32_at(profile::ADDRESS_LOCAL_GALAXY),
            platform_id: self.i32_at(profile::ADDRESS_LOCAL_PLATFORM),
            engine_id: self.i32_at(profile::ADDRESS_LOCAL_ENGINE),
        }
    }

    /// Returns the receiver (assumed layout).
    pub fn target(&self) -> EngineAddress {
        EngineAddress {
            galaxy_id: self.i32_at(profile::ADDRESS_TARGET_GALAXY),
            platform_id: self.i32_at(profile::ADDRESS_TARGET_PLATFORM),
            engine_id: self.i32_at(profile::ADDRESS_TARGET_ENGINE),
        }
    }

    /// Returns the token by which a completion identifies its write (assumed layout); 0 is none.
    #[inline]
    pub fn token(&self) -> u32 {
        self.i32_at(profile::ADDRESS_TOKEN) as u32
    }

    /// Splits a message into its header and a body of the header's length.
    ///
    /// # Errors
    /// The bytes end too early, more bytes follow, or the length is negative.
    #[inline]
    pub fn split(message: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let Some((header, body)) = message.split_first_chunk::<{ Self::LENGTH }>() else {
            return Err(DecodeError::Truncated {
                field: "envelope",
                needed: Self::LENGTH,
                given: message.len(),
            });
        };
        let envelope = Self::from_bytes(*header);
        let length = envelope.inner_length();
        match usize::try_from(length) {
            Err(_) => Err(DecodeError::Length {
                field: "inner body",
                length: i64::from(length),
            }),
            Ok(length) if length > body.len() => Err(DecodeError::Truncated {
                field: "inner body",
                needed: length,
                given: body.len(),
            }),
            Ok(length) if length < body.len() => Err(DecodeError::Trailing {
                message: "the inner body",
                bytes: body.len() - length,
            }),
            Ok(_) => Ok((envelope, body)),
        }
    }

    #[inline]
    fn i32_at(&self, offset: usize) -> i32 {
        let bytes = self.bytes[offset..].first_chunk::<4>();
        bytes.map_or(0, |bytes| i32::from_le_bytes(*bytes))
    }

    #[inline]
    fn set<const N: usize>(&mut self, offset: usize, value: [u8; N]) {
        self.bytes[offset..offset + N].copy_from_slice(&value);
    }
}

/// A body with its envelope.
#[derive(Clone, Copy, Debug)]
pub struct Enveloped<'a, T> {
    /// The template; its `inner_length` is set when it is encoded.
    pub envelope: &'a Envelope,
    /// The body.
    pub body: &'a T,
}

impl<T: Encode> Encode for Enveloped<'_, T> {
    #[inline]
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        let body = self.body.encoded_len()?;
        self.envelope.with_inner_length(body)?;
        Ok(Envelope::LENGTH + body)
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>) {
        let length = self.body.encoded_len().unwrap_or(0) as i32;
        let mut header = self.envelope.bytes;
        header[INNER_LENGTH..KIND - 4].copy_from_slice(&length.to_le_bytes());
        out.put(header);
        self.body.put(out);
    }
}

const INNER_LENGTH: usize = 2;
const KIND: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::OperationStatus;

    const SENDER: EngineAddress = EngineAddress {
        galaxy_id: 1,
        platform_id: 2,
        engine_id: 3,
    };

    #[test]
    fn a_captured_header_is_a_template_of_which_only_length_and_kind_change() {
        let mut captured = [0; 46];
        (0..46).for_each(|index| captured[index] = 0xC0 | index as u8);
        let template = Envelope::from_bytes(captured).with_kind(MessageKind::Write);
        let body = OperationStatus::WRITE_COMPLETE;
        let message = Enveloped {
            envelope: &template,
            body: &body,
        };
        let mut buffer = [0; 51];
        assert_eq!(message.encode_to_slice(&mut buffer), Ok(51));
        captured[2..6].copy_from_slice(&5_i32.to_le_bytes());
        captured[10..14].copy_from_slice(&profile::KIND_WRITE.to_le_bytes());
        assert_eq!(buffer[..46], captured);
        let (envelope, body) = Envelope::split(&buffer).unwrap();
        assert_eq!(envelope.reserved(), [0xC6, 0xC7, 0xC8, 0xC9]);
        assert_eq!((envelope.kind(), body.len()), (MessageKind::Write, 5));
    }

    #[test]
    fn addresses_and_tokens_are_read_as_they_were_written() {
        let target = EngineAddress::default();
        let envelope = Envelope::new(MessageKind::Other(-7), SENDER, target).with_token(9);
        assert_eq!(envelope.local(), SENDER);
        assert_eq!(envelope.target(), target);
        assert_eq!((envelope.token(), envelope.version()), (9, 1));
        assert_eq!(envelope.kind(), MessageKind::Other(-7));
    }

    #[test]
    fn a_length_that_does_not_fit_is_an_error() {
        let header = |length: i32| {
            let mut bytes = [0; 50];
            bytes[2..6].copy_from_slice(&length.to_le_bytes());
            bytes
        };
        assert!(Envelope::split(&header(4)).is_ok());
        for (length, given) in [(3, 50), (5, 50), (-1, 50), (4, 45), (i32::MAX, 50)] {
            assert!(Envelope::split(&header(length)[..given]).is_err());
        }
    }
}
