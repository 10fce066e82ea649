//! Reading fields from the front of bytes, and writing them into bytes that are long enough.

use crate::error::DecodeError;
use crate::guid::Guid;

/// Bytes that are read from the front.
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

    /// All that is left.
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

    /// Nothing may be left.
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

/// Bytes that are written from the front. Who makes one has counted what is written: what would not
/// fit is left out, which [`Output::is_full`] cannot hide.
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

    /// The next `length` bytes, to be filled.
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
