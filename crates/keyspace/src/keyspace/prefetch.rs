//! What a pipeline's commands will read, fetched for all of them before the first is executed, so
//! that their cache misses overlap: for each key [`prefetch`](Keyspace::prefetch), then for each
//! [`prefetch_entry`](Keyspace::prefetch_entry); where a command is about an element of a large
//! collection, then the same two steps for the element.

use super::{Keyspace, shard_of};
use crate::hash;
use crate::value::Object;

/// The hash of a key or of an element, from a first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u64);

impl Keyspace {
    /// The first step: where the key's entry is told.
    #[inline]
    pub fn prefetch(&self, database: usize, key: &[u8]) -> KeyHash {
        let hash = hash::of(key);
        // A shard that somebody works on is warm already.
        if let Some(shard) = self.shards[shard_of(hash)].try_lock() {
            shard.databases[database].table.prefetch_group(hash);
        }
        KeyHash(hash)
    }

    /// The second step: by now the table's part is here, and tells where the entry is.
    #[inline]
    pub fn prefetch_entry(&self, database: usize, key: KeyHash) {
        if let Some(shard) = self.shards[shard_of(key.0)].try_lock() {
            shard.databases[database].table.prefetch_entry(key.0);
        }
    }

    /// The third step: where an element of a large collection is told. `None` if the key holds no
    /// such thing.
    #[inline]
    pub fn prefetch_element(
        &self,
        database: usize,
        (hash, key): (KeyHash, &[u8]),
        element: &[u8],
    ) -> Option<KeyHash> {
        let element = KeyHash(hash::of(element));
        self.with_object(database, hash, key, |object| object.prefetch(element.0))?;
        Some(element)
    }

    /// The fourth step: the element itself.
    #[inline]
    pub fn prefetch_element_entry(
        &self,
        database: usize,
        (hash, key): (KeyHash, &[u8]),
        element: KeyHash,
    ) {
        let fetch = |object: &Object| object.prefetch_entry(element.0);
        self.with_object(database, hash, key, fetch);
    }

    fn with_object(
        &self,
        database: usize,
        hash: KeyHash,
        key: &[u8],
        fetch: impl FnOnce(&Object),
    ) -> Option<()> {
        let shard = self.shards[shard_of(hash.0)].try_lock()?;
        let table = &shard.databases[database].table;
        let entry = table.entry(table.find(hash.0, key)?);
        fetch(entry.object()?);
        Some(())
    }
}
