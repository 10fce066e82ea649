//! A key, its database and its shard.

/// A key with its hash, computed once.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) hash: u64,
}

/// Returns the shard of a key's hash.
#[inline]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 56) as usize
}

/// Number of databases, as in SELECT.
pub const DATABASES: usize = 16;
/// Number of shards: enough that lanes rarely collide, few enough to visit all in microseconds.
pub const SHARDS: usize = 256;
