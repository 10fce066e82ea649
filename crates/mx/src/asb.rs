//! Variants of the second data plane (ASB).

use crate::cursor::{Input, Output};
use crate::encode::Encode;
use crate::error::{DecodeError, EncodeError};
use crate::profile;
use crate::value::Text;

/// A value of the second data plane.
///
/// ```text
///  0    2      6              10
///  │type│length│payload_length│payload …│
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsbVariant<'a> {
    /// Type; 4 is Int32, the only captured type.
    pub kind: u16,
    /// Unknown meaning; kept.
    pub length: i32,
    /// The value's bytes.
    pub payload: &'a [u8],
}

impl<'a> AsbVariant<'a> {
    /// Creates an Int32 from the value's little-endian bytes.
    pub const fn int32(payload: &'a [u8; 4]) -> Self {
        Self {
            kind: profile::ASB_INT32,
            length: 4,
            payload,
        }
    }

    /// Decodes a variant that fills `bytes`.
    ///
    /// # Errors
    /// The input is too short or too long, or a length does not fit.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(bytes);
        let kind = input.u16("type")?;
        let length = input.i32("length")?;
        let payload_length = input.i32("payload_length")?;
        let count = usize::try_from(payload_length).map_err(|_| DecodeError::Length {
            field: "payload",
            length: i64::from(payload_length),
        })?;
        let payload = input.take(count, "payload")?;
        input.end("ASB variant")?;
        Ok(Self {
            kind,
            length,
            payload,
        })
    }

    /// Returns the value, if it is an Int32.
    pub fn as_int32(&self) -> Option<i32> {
        let payload = self.payload.try_into().ok()?;
        (self.kind == profile::ASB_INT32).then(|| i32::from_le_bytes(payload))
    }

    /// Returns the payload as text: a u32 length in bytes, then UTF-16LE.
    pub fn as_text(&self) -> Option<Text<'a>> {
        let (length, text) = self.payload.split_first_chunk::<4>()?;
        let fits = u32::from_le_bytes(*length) as usize == text.len();
        fits.then(|| Text::from_utf16_le(text))?
    }

    /// Returns the payload as an array: its u32 count and the bytes of its elements.
    pub fn as_array(&self) -> Option<(u32, &'a [u8])> {
        let (count, elements) = self.payload.split_first_chunk::<4>()?;
        Some((u32::from_le_bytes(*count), elements))
    }
}

impl Encode for AsbVariant<'_> {
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        let bytes = self.payload.len();
        i32::try_from(bytes).map_err(|_| EncodeError::TooLong {
            field: "payload",
            bytes,
        })?;
        Ok(10 + bytes)
    }

    fn put(&self, out: &mut Output<'_>) {
        out.put(self.kind.to_le_bytes());
        out.put(self.length.to_le_bytes());
        out.put((self.payload.len() as i32).to_le_bytes());
        out.put_slice(self.payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_captured_payload_is_ninety_nine() {
        let bytes = [4, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0x63, 0, 0, 0];
        let variant = AsbVariant::decode(&bytes).unwrap();
        assert_eq!(variant.as_int32(), Some(99));
        assert_eq!(variant, AsbVariant::int32(&[0x63, 0, 0, 0]));
        let mut buffer = [0; 14];
        assert_eq!(variant.encode_to_slice(&mut buffer), Ok(14));
        assert_eq!(buffer, bytes);
    }

    #[test]
    fn texts_and_arrays_are_behind_their_counts() {
        let variant = |payload| AsbVariant {
            kind: 99,
            length: -5,
            payload,
        };
        let text = variant(&[4, 0, 0, 0, b'o', 0, b'k', 0]);
        assert_eq!(text.as_text(), Some(Text::new("ok")));
        assert_eq!(variant(&[5, 0, 0, 0, b'o', 0]).as_text(), None);
        assert_eq!(
            variant(&[2, 0, 0, 0, 7, 8]).as_array(),
            Some((2, &[7, 8][..]))
        );
        assert_eq!(text.as_int32(), None);
    }

    #[test]
    fn a_payload_that_is_not_there_is_an_error() {
        for payload_length in [-1, 5, 3, i32::MAX] {
            let mut bytes = [4, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0x63, 0, 0, 0];
            bytes[6..10].copy_from_slice(&payload_length.to_le_bytes());
            assert!(AsbVariant::decode(&bytes).is_err(), "{payload_length}");
        }
    }
}
