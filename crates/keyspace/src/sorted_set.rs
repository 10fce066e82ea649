//! Sorted sets: a few members in one run of bytes, or a table beside an ordered structure.

/// A sorted set that outgrew its limits.
#[derive(Clone, Debug)]
pub(crate) struct SortedSet {}
