//! Encodings of values in an entry, and the interface that small collections need from an entry.

/// The type and encoding of an entry's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Integer = 0,
    Bytes = 1,
    /// A small hash: field/value pairs, see `packed`.
    PackedHash = 2,
    Object = 3,
    /// A small set of integers in ascending order, see `integers`.
    Integers = 4,
    /// A small set of anything, see `elements`.
    PackedSet = 5,
    /// A small list, see `elements`.
    PackedList = 6,
    /// A small sorted set, see `sorted_set`.
    PackedSortedSet = 7,
    /// A small hash with room for TTLs of its fields, see `packed`.
    PackedHashTimed = 8,
}

impl Kind {
    /// The kind with the greatest number.
    pub(crate) const LAST: Kind = Kind::PackedHashTimed;

    /// Returns whether the value is a small collection in one run of bytes.
    #[inline]
    pub(crate) fn is_compact(self) -> bool {
        self.is_bytes() && self != Kind::Bytes
    }

    /// Returns whether the value is a run of bytes of any length.
    #[inline]
    pub(crate) fn is_bytes(self) -> bool {
        !matches!(self, Kind::Integer | Kind::Object)
    }
}

/// The value of an entry that is a small collection: one run of bytes that grows and shrinks in
/// place. The modules of the encodings (`elements`, `integers`, `packed`) know no more of an entry.
pub(crate) trait CompactBytes {
    /// Returns how the bytes are encoded.
    fn kind(&self) -> Kind;

    /// Returns the bytes.
    fn bytes(&self) -> &[u8];

    /// Returns the bytes, to be changed where they are.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Replaces `removed` bytes at `at` by these parts.
    fn splice(&mut self, at: usize, removed: usize, parts: &[&[u8]]);

    /// Replaces all bytes, and the encoding.
    fn replace(&mut self, kind: Kind, bytes: &[u8]);
}
