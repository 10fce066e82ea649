//! The decoder: bytes in, metadata and framed records out.

use thiserror::Error;

use super::kind::WORDS_MIN;
use super::metadata::{self, MetadataFault, PRELUDE_LENGTH};
use super::{HEADER_LENGTH, Kind, METADATA_LENGTH_MAX, Metadata, RecordHeader, VERSION_MAX};

/// A decoder of one DBN stream, without I/O.
///
/// The caller owns the buffer: [`decode`](Self::decode) takes one event from the front of the
/// received bytes and moves the slice past it. [`Event::NeedMore`] takes nothing: keep the rest
/// and call again with more bytes appended. After an error the position stays, so the same call
/// returns the same error again.
#[derive(Debug, Clone)]
pub struct Decoder {
    state: DecoderState,
    /// Bytes of the stream taken so far.
    position: u64,
}

/// The result of [`Decoder::decode`].
#[derive(Debug)]
pub enum Event<'a> {
    /// The stream's metadata, once, before all records.
    Metadata(Box<Metadata>),
    /// One whole record.
    Record(RecordRef<'a>),
    /// At least this many more bytes are needed. The peer chooses this number, up to
    /// [`METADATA_LENGTH_MAX`]: grow a buffer as bytes arrive, not by this number.
    NeedMore(usize),
}

/// Why a stream cannot be decoded further. Positions count bytes from the start of the stream
/// (after decompression) to the faulty record or field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The stream does not begin with `DBN`.
    #[error("not a DBN stream: it begins with {0:02x?}")]
    NotDbn([u8; 3]),
    /// A version other than 1, 2 or 3.
    #[error("DBN version {0} is not supported (1 to {VERSION_MAX} are)")]
    UnsupportedVersion(u8),
    /// The metadata claims a length below its fixed part or above [`METADATA_LENGTH_MAX`].
    #[error("metadata of {0} bytes: 100 to {METADATA_LENGTH_MAX} are allowed")]
    MetadataLength(u32),
    /// The metadata contradicts itself.
    #[error("invalid metadata at byte {position}: {fault}")]
    Metadata {
        /// Byte of the field.
        position: u64,
        /// The fault.
        fault: MetadataFault,
    },
    /// A record claims to be shorter than a header, or than its type's fields.
    #[error(
        "record at byte {position}, type {rtype:#04x}: {length} bytes, at least {minimum} required"
    )]
    RecordLength {
        /// First byte of the record.
        position: u64,
        /// Its type byte.
        rtype: u8,
        /// The length it claims, in bytes.
        length: u16,
        /// The minimum length of that type, in bytes.
        minimum: u16,
    },
    /// Another stream's metadata follows, as in files that were joined.
    #[error("another DBN stream begins at byte {position}: each is a file of its own")]
    SecondStream {
        /// First byte of its metadata.
        position: u64,
    },
    /// The stream ends inside its metadata or a record.
    #[error("truncated: at least {missing} bytes are missing after byte {position}")]
    Truncated {
        /// First byte of the incomplete part.
        position: u64,
        /// Minimum number of missing bytes.
        missing: usize,
    },
}

impl Decoder {
    /// Creates a decoder of a stream that begins with metadata.
    pub const fn new() -> Self {
        Self {
            state: DecoderState::Prelude,
            position: 0,
        }
    }

    /// Creates a decoder of a fragment: records from the first byte, of any version.
    pub const fn fragment() -> Self {
        Self {
            state: DecoderState::Records,
            position: 0,
        }
    }

    /// Returns the number of bytes of the stream taken so far: where the next event begins.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Takes the next event from the front of `input`.
    ///
    /// # Errors
    /// [`DecodeError`] for invalid bytes; the stream cannot be decoded further.
    #[inline]
    pub fn decode<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, DecodeError> {
        if matches!(self.state, DecoderState::Records) {
            self.decode_record(input)
        } else {
            self.decode_metadata(input)
        }
    }

    /// Ends the stream with `rest`, the bytes that are left.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the stream ends inside its metadata or a record, or the
    /// error of decoding `rest`.
    pub fn finish(&self, rest: &[u8]) -> Result<(), DecodeError> {
        if rest.is_empty() && matches!(self.state, DecoderState::Records) {
            return Ok(());
        }
        match self.clone().decode(&mut &*rest)? {
            Event::NeedMore(missing) => Err(DecodeError::Truncated {
                position: self.position,
                missing,
            }),
            Event::Metadata(_) | Event::Record(_) => Ok(()),
        }
    }

    #[inline]
    fn decode_record<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, DecodeError> {
        let bytes = *input;
        let &[words, rtype, ..] = bytes else {
            return Ok(Event::NeedMore(HEADER_LENGTH - bytes.len()));
        };
        if [words, rtype] == METADATA_MARK && self.is_second_stream(bytes) {
            return Err(DecodeError::SecondStream {
                position: self.position,
            });
        }
        if words < WORDS_MIN[usize::from(rtype)] {
            return Err(self.record_length(words, rtype));
        }
        let length = usize::from(words) * 4;
        let Some((record, rest)) = bytes.split_at_checked(length) else {
            return Ok(Event::NeedMore(length - bytes.len()));
        };
        *input = rest;
        self.position += length as u64;
        Ok(Event::Record(RecordRef { bytes: record }))
    }

    /// Returns whether metadata begins here. No record of a known type has these bytes, and one of
    /// an unknown type would have a publisher that does not exist.
    #[cold]
    fn is_second_stream(&self, bytes: &[u8]) -> bool {
        self.position > 0
            && matches!(bytes, [b'D', b'B', b'N', version, ..] if (1..=VERSION_MAX).contains(version))
    }

    #[cold]
    fn record_length(&self, words: u8, rtype: u8) -> DecodeError {
        DecodeError::RecordLength {
            position: self.position,
            rtype,
            length: u16::from(words) * 4,
            minimum: u16::from(WORDS_MIN[usize::from(rtype)]) * 4,
        }
    }

    #[cold]
    fn decode_metadata<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, DecodeError> {
        let bytes = *input;
        let known = bytes.len().min(3);
        if bytes[..known] != b"DBN"[..known] {
            let mut found = [0; 3];
            found[..known].copy_from_slice(&bytes[..known]);
            return Err(DecodeError::NotDbn(found));
        }
        if let Some(&version) = bytes.get(3)
            && !(1..=VERSION_MAX).contains(&version)
        {
            return Err(DecodeError::UnsupportedVersion(version));
        }
        let Some((prelude, body)) = bytes.split_first_chunk::<PRELUDE_LENGTH>() else {
            return Ok(Event::NeedMore(PRELUDE_LENGTH - bytes.len()));
        };
        let &[_, _, _, version, a, b, c, d] = prelude;
        let length = u32::from_le_bytes([a, b, c, d]);
        if !(metadata::FIXED_LENGTH..=METADATA_LENGTH_MAX).contains(&length) {
            return Err(DecodeError::MetadataLength(length));
        }
        let Some((body, rest)) = body.split_at_checked(length as usize) else {
            return Ok(Event::NeedMore(length as usize - body.len()));
        };
        let metadata =
            metadata::decode(version, body).map_err(|(offset, fault)| DecodeError::Metadata {
                position: (PRELUDE_LENGTH + offset) as u64,
                fault,
            })?;
        *input = rest;
        self.position = (PRELUDE_LENGTH + body.len()) as u64;
        self.state = DecoderState::Records;
        Ok(Event::Metadata(Box::new(metadata)))
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

/// One framed record, at least as long as the fields of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Invariant: `bytes.len() == bytes[0] * 4 >= WORDS_MIN[bytes[1]] * 4`.
    bytes: &'a [u8],
}

impl<'a> RecordRef<'a> {
    /// Wraps `bytes`; `None` if they are not exactly one whole record.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let &[words, rtype, ..] = bytes else {
            return None;
        };
        let whole = bytes.len() == usize::from(words) * 4;
        (whole && words >= WORDS_MIN[usize::from(rtype)]).then_some(Self { bytes })
    }

    /// Returns all bytes of the record, header included.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the type byte.
    #[inline]
    pub const fn rtype(&self) -> u8 {
        self.bytes[1]
    }

    /// Returns the record's kind.
    #[inline]
    pub const fn kind(&self) -> Kind {
        Kind::of(self.rtype())
    }

    /// Returns the record's header.
    #[inline]
    pub fn header(&self) -> RecordHeader {
        RecordHeader::read(self.bytes)
    }
}

#[derive(Debug, Clone, Copy)]
enum DecoderState {
    Prelude,
    Records,
}

/// The first bytes of metadata, in the place of a record's length and type.
const METADATA_MARK: [u8; 2] = *b"DB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_zero_or_below_the_fields_is_an_error_not_a_loop() {
        let mut bytes = [0u8; 64];
        bytes[1] = 0xA0;
        for words in [0, 3, 13] {
            bytes[0] = words;
            let mut decoder = Decoder::fragment();
            let mut rest = &bytes[..];
            for _ in 0..2 {
                assert_eq!(
                    decoder.decode(&mut rest).unwrap_err(),
                    DecodeError::RecordLength {
                        position: 0,
                        rtype: 0xA0,
                        length: u16::from(words) * 4,
                        minimum: 56
                    }
                );
            }
            assert_eq!(rest.len(), 64);
        }
    }

    #[test]
    fn a_second_stream_behind_the_records_is_named_and_not_taken_for_a_record() {
        let mut bytes = vec![0u8; 56];
        (bytes[0], bytes[1]) = (14, 0xA0);
        bytes.extend_from_slice(b"DBN\x03");
        bytes.resize(400, 0);
        let mut decoder = Decoder::fragment();
        let mut rest = &bytes[..];
        assert!(matches!(decoder.decode(&mut rest), Ok(Event::Record(_))));
        let error = decoder.decode(&mut rest).unwrap_err();
        assert_eq!(error, DecodeError::SecondStream { position: 56 });
    }

    #[test]
    fn an_unknown_type_is_a_record_of_its_own() {
        let mut bytes = [0u8; 20];
        (bytes[0], bytes[1]) = (5, 0x77);
        let mut rest = &bytes[..];
        let Ok(Event::Record(record)) = Decoder::fragment().decode(&mut rest) else {
            panic!("no record");
        };
        assert_eq!((record.kind(), record.rtype()), (Kind::Unknown, 0x77));
    }

    #[test]
    fn the_end_inside_a_record_tells_where_it_began() {
        let mut bytes = [0u8; 56 + 20];
        (bytes[0], bytes[1]) = (14, 0xA0);
        (bytes[56], bytes[57]) = (14, 0xA0);
        let mut decoder = Decoder::fragment();
        let mut rest = &bytes[..];
        assert!(matches!(decoder.decode(&mut rest), Ok(Event::Record(_))));
        assert!(matches!(decoder.decode(&mut rest), Ok(Event::NeedMore(36))));
        assert_eq!(
            decoder.finish(rest),
            Err(DecodeError::Truncated {
                position: 56,
                missing: 36
            })
        );
    }

    #[test]
    fn other_streams_are_refused_by_their_first_bytes() {
        let error = |bytes: &[u8]| Decoder::new().decode(&mut &*bytes).unwrap_err();
        assert_eq!(error(b"HTTP"), DecodeError::NotDbn(*b"HTT"));
        assert_eq!(error(b"DBN\x04"), DecodeError::UnsupportedVersion(4));
        assert_eq!(error(b"DBN\x00"), DecodeError::UnsupportedVersion(0));
        assert_eq!(error(b"DBN\x01\x10\0\0\0"), DecodeError::MetadataLength(16));
        assert_eq!(
            error(b"DBN\x01\xff\xff\xff\xff"),
            DecodeError::MetadataLength(u32::MAX)
        );
        assert_eq!(
            Decoder::new().finish(b"DB"),
            Err(DecodeError::Truncated {
                position: 0,
                missing: 6
            })
        );
        assert_eq!(
            Decoder::new().finish(b""),
            Err(DecodeError::Truncated {
                position: 0,
                missing: 8
            })
        );
    }
}
