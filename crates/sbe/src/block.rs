//! The fields of a message, or of an entry of a group.

use crate::{DecodeError, Number};

/// A root block or an entry. The first `N` bytes are the fields of its first version, which every
/// sender gives. Fields of later versions are behind them.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a, const N: usize> {
    base: &'a [u8; N],
    /// The whole block, of the length that the sender gives.
    all: &'a [u8],
    version: u16,
}

impl<'a, const N: usize> Block<'a, N> {
    /// Views a block that a sender of schema version `version` has written.
    ///
    /// # Errors
    /// It has fewer than `N` bytes.
    #[inline(always)]
    pub fn new(all: &'a [u8], version: u16) -> Result<Self, DecodeError> {
        match all.first_chunk() {
            Some(base) => Ok(Self { base, all, version }),
            None => Err(DecodeError::BlockTooShort {
                length: all.len(),
                minimum: N,
            }),
        }
    }

    /// Reads a field of the first version.
    #[inline(always)]
    pub fn field<T: Number>(&self, offset: usize) -> T {
        T::read(self.base, offset)
    }

    /// Reads an array of the first version.
    #[inline(always)]
    pub fn array<const L: usize>(&self, offset: usize) -> &'a [u8; L] {
        debug_assert!(offset + L <= N, "the schema's offsets fit its blocks");
        let (_, tail) = self.base.split_at(offset);
        match tail.first_chunk() {
            Some(array) => array,
            None => unreachable!("the generated code compares offsets with lengths"),
        }
    }

    /// Reads a field that was added in version `since`; `None` if the sender's version is lower.
    /// A block may be padded, so that its length alone does not say which fields it has.
    #[inline(always)]
    pub fn added<T: Number>(&self, offset: usize, since: u16) -> Option<T> {
        if self.version < since {
            return None;
        }
        T::read_from(self.all, offset)
    }

    /// Returns the schema version of the sender.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Returns the block's bytes, as long as the sender made it.
    pub fn bytes(&self) -> &'a [u8] {
        self.all
    }
}
