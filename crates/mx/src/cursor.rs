//! Reads fields from the front of bytes, and writes fields into a slice of the right length.

use crate::error::DecodeError;
use crate::guid::Guid;

/// A cursor that reads bytes from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn chunk<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<&'a [u8; N], DecodeError> {
        match self.bytes.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.bytes = rest;
                Ok(chunk)
            }
            None => Err(self.truncated(field, N)),
        }
    }

    #[inline]
    pub(crate) fn take(
        &mut self,
        length: usize,
        field: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        match self.bytes.split_at_checked(length) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(self.truncated(field, length)),
        }
    }

    /// Takes all remaining bytes.
    #[inline]
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.bytes)
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.chunk::<1>(field).map(|bytes| bytes[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.chunk(field).map(|bytes| u16::from_le_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.chunk(field).map(|bytes| u32::from_le_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.chunk(field).map(|bytes| i32::from_le_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.chunk(field).map(|bytes| i64::from_le_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn guid(&mut self, field: &'static str) -> Result<Guid, DecodeError> {
        self.chunk(field).map(|bytes| Guid::from_bytes(*bytes))
    }

    /// Checks that no bytes remain.
    #[inline]
    pub(crate) fn end(&self, message: &'static str) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { message, bytes }),
        }
    }

    #[cold]
    fn truncated(&self, field: &'static str, needed: usize) -> DecodeError {
        DecodeError::Truncated {
            field,
            needed,
            given: self.bytes.len(),
        }
    }
}

/// A cursor that writes bytes from the front. The caller has computed the exact length. A field
/// that does not fit is left out, and [`Output::is_full`] then returns false.
#[derive(Debug)]
pub struct Output<'a> {
    bytes: &'a mut [u8],
    overrun: bool,
}

impl<'a> Output<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            overrun: false,
        }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.is_empty() && !self.overrun
    }

    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, field: [u8; N]) {
        let bytes = core::mem::take(&mut self.bytes);
        match bytes.split_first_chunk_mut::<N>() {
            Some((target, rest)) => {
                *target = field;
                self.bytes = rest;
            }
            None => self.overrun = true,
        }
    }

    #[inline]
    pub(crate) fn put_slice(&mut self, field: &[u8]) {
        if let Some(target) = self.space(field.len()) {
            target.copy_from_slice(field);
        }
    }

    /// Reserves the next `length` bytes for the caller to fill.
    #[inline]
    pub(crate) fn space(&mut self, length: usize) -> Option<&'a mut [u8]> {
        let bytes = core::mem::take(&mut self.bytes);
        match bytes.split_at_mut_checked(length) {
            Some((target, rest)) => {
                self.bytes = rest;
                Some(target)
            }
            None => {
                self.overrun = true;
                None
            }
        }
    }
}
