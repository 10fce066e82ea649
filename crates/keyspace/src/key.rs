//! A key, and where it belongs: the database, and the shard of its hash.

/// A key with its hash, computed once.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) hash: u64,
}

/// The shard of a key's hash.
#[inline]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 56) as usize
}

/// Number of databases, as SELECT counts them.
pub const DATABASES: usize = 16;
/// Number of shards: enough that lanes seldom meet, few enough to walk in microseconds.
pub const SHARDS: usize = 256;
