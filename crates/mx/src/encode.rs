//! Encoding of a message into a slice, a `Vec` or a `BytesMut`.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

pub use crate::cursor::Output;
use crate::error::EncodeError;

/// A type that can be encoded.
///
/// | into | method | allocations |
/// |---|---|---|
/// | the caller's slice | [`Encode::encode_to_slice`] | none |
/// | the end of the caller's `Vec` | `encode_into` | none once it has grown |
/// | the end of the caller's `BytesMut` | `encode_into_bytes_mut` | none once it has grown |
/// | a new `Vec` or `BytesMut` | `encode`, `encode_to_bytes_mut` | one, of the exact size |
pub trait Encode {
    /// Returns the encoded length in bytes.
    ///
    /// # Errors
    /// The message cannot be encoded: too many elements, or too long.
    fn encoded_len(&self) -> Result<usize, EncodeError>;

    /// Writes exactly [`Encode::encoded_len`] bytes.
    #[doc(hidden)]
    fn put(&self, out: &mut Output<'_>);

    /// Writes to the front of `out` and returns the number of bytes.
    ///
    /// # Errors
    /// `out` is too small, or the message cannot be encoded; `out` is then unchanged.
    #[inline]
    fn encode_to_slice(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        let length = self.encoded_len()?;
        let given = out.len();
        let Some(target) = out.get_mut(..length) else {
            return Err(EncodeError::BufferTooSmall {
                needed: length,
                given,
            });
        };
        fill(self, target);
        Ok(length)
    }

    /// Encodes into a new buffer: one allocation.
    ///
    /// # Errors
    /// The message cannot be encoded.
    #[cfg(feature = "alloc")]
    #[inline]
    fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = alloc::vec![0; self.encoded_len()?];
        fill(self, &mut out);
        Ok(out)
    }

    /// Appends to the caller's buffer and returns the number of bytes.
    ///
    /// # Errors
    /// The message cannot be encoded; `out` is then unchanged.
    #[cfg(feature = "alloc")]
    #[inline]
    fn encode_into(&self, out: &mut Vec<u8>) -> Result<usize, EncodeError> {
        let length = self.encoded_len()?;
        let start = out.len();
        out.resize(start + length, 0);
        fill(self, &mut out[start..]);
        Ok(length)
    }

    /// Encodes into a new buffer that can be split and frozen without a copy.
    ///
    /// # Errors
    /// The message cannot be encoded.
    #[cfg(feature = "bytes")]
    #[inline]
    fn encode_to_bytes_mut(&self) -> Result<bytes::BytesMut, EncodeError> {
        let mut out = bytes::BytesMut::zeroed(self.encoded_len()?);
        fill(self, &mut out);
        Ok(out)
    }

    /// Appends to the caller's buffer and returns the number of bytes.
    ///
    /// # Errors
    /// The message cannot be encoded; `out` is then unchanged.
    #[cfg(feature = "bytes")]
    #[inline]
    fn encode_into_bytes_mut(&self, out: &mut bytes::BytesMut) -> Result<usize, EncodeError> {
        let length = self.encoded_len()?;
        let start = out.len();
        out.resize(start + length, 0);
        fill(self, &mut out[start..]);
        Ok(length)
    }
}

#[inline]
fn fill<T: Encode + ?Sized>(message: &T, target: &mut [u8]) {
    let mut out = Output::new(target);
    message.put(&mut out);
    debug_assert!(out.is_full(), "encoded_len and put disagree");
}
