//! Repeating groups.

use std::fmt;
use std::marker::PhantomData;

use crate::DecodeError;

/// The size header of a group: where the entry's length and the number of entries are.
pub trait GroupSize {
    /// Bytes of the header.
    const LENGTH: usize;

    /// Returns the length of an entry in bytes and the number of entries.
    fn read(header: &[u8]) -> Option<(usize, usize)>;

    /// Writes the header.
    fn write(header: &mut [u8], block_length: u16, count: usize);

    /// Maximum number of entries.
    const ENTRIES_MAX: usize;
}

/// An entry of a group.
pub trait Entry<'a>: Sized {
    /// Length of the first version's fields, bytes.
    const LENGTH_MIN: usize;

    /// Views an entry; `None` if it is too short, which a checked group excludes.
    fn view(block: &'a [u8], version: u16) -> Option<Self>;
}

/// A repeating group whose length was checked.
pub struct Group<'a, E> {
    entries: &'a [u8],
    block_length: usize,
    count: usize,
    version: u16,
    entry: PhantomData<E>,
}

impl<'a, E: Entry<'a>> Group<'a, E> {
    /// Reads the group at the front of `bytes`. Returns it and the rest.
    ///
    /// # Errors
    /// The bytes end before the group does, or its entries are shorter than the schema's.
    #[inline(always)]
    pub fn split<S: GroupSize>(
        bytes: &'a [u8],
        version: u16,
    ) -> Result<(Self, &'a [u8]), DecodeError> {
        let truncated = DecodeError::Truncated(bytes.len());
        let (block_length, count) = S::read(bytes).ok_or(truncated)?;
        let rest = bytes.get(S::LENGTH..).ok_or(truncated)?;
        if count > 0 && block_length < E::LENGTH_MIN {
            return Err(DecodeError::BlockTooShort {
                length: block_length,
                minimum: E::LENGTH_MIN,
            });
        }
        // Both are at most 16 bits wide, so that the product fits.
        let (entries, rest) = rest
            .split_at_checked(block_length * count)
            .ok_or(truncated)?;
        let group = Self {
            entries,
            block_length,
            count,
            version,
            entry: PhantomData,
        };
        Ok((group, rest))
    }

    /// Returns a group without entries, for a sender whose schema has no such group.
    pub fn empty(version: u16) -> Self {
        Self {
            entries: &[],
            block_length: 0,
            count: 0,
            version,
            entry: PhantomData,
        }
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is no entry.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns an entry, counted from 0.
    #[inline]
    pub fn entry(&self, index: usize) -> Option<E> {
        if index >= self.count {
            return None;
        }
        let start = index * self.block_length;
        let block = self.entries.get(start..start + self.block_length)?;
        E::view(block, self.version)
    }

    /// Returns an iterator over the entries.
    #[inline(always)]
    pub fn iter(&self) -> Entries<'a, E> {
        Entries {
            rest: self.entries,
            block_length: self.block_length,
            count: self.count,
            version: self.version,
            entry: PhantomData,
        }
    }
}

impl<E> Clone for Group<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Group<'_, E> {}

impl<'a, E: Entry<'a> + fmt::Debug> fmt::Debug for Group<'a, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// The entries of a group.
#[derive(Debug)]
pub struct Entries<'a, E> {
    rest: &'a [u8],
    block_length: usize,
    count: usize,
    version: u16,
    entry: PhantomData<E>,
}

impl<'a, E: Entry<'a>> Iterator for Entries<'a, E> {
    type Item = E;

    #[inline(always)]
    fn next(&mut self) -> Option<E> {
        self.count = self.count.checked_sub(1)?;
        let (block, rest) = self.rest.split_at_checked(self.block_length)?;
        self.rest = rest;
        E::view(block, self.version)
    }
}
