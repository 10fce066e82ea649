//! What a pipeline's commands will read, fetched for all of them before the first is executed, so
//! that their cache misses overlap: for each key [`prefetch`](Keyspace::prefetch), then for each
//! [`prefetch_group`](Keyspace::prefetch_group), then for each
//! [`prefetch_entry`](Keyspace::prefetch_entry); where a command is about an element of a large
//! collection, then two more such steps for the element.

use super::{Keyspace, shard_of};
use crate::cache_line;
use crate::hash;
use crate::value::Object;

/// The hash of a key or of an element, from a first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub(super) u64);

impl Keyspace {
    /// The first step: the key's shard, whose lock would be waited for.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) -> KeyHash {
        let hash = hash::of(key);
        let shard = std::ptr::from_ref(&self.shards[shard_of(hash)]).cast::<u8>();
        cache_line::prefetch(shard);
        cache_line::prefetch(shard.wrapping_add(cache_line::BYTES));
        KeyHash(hash)
    }

    /// The second step: where the key's entry is told.
    #[inline]
    pub fn prefetch_group(&self, database: usize, key: KeyHash) {
        // A shard that somebody works on is warm already.
        if let Some(shard) = self.shards[shard_of(key.0)].try_lock() {
            shard.databases[database].table.prefetch_group(key.0);
        }
    }

    /// The third step: by now the table's part is here, and tells where the entry is.
    #[inline]
    pub fn prefetch_entry(&self, database: usize, key: KeyHash) {
        if let Some(shard) = self.shards[shard_of(key.0)].try_lock() {
            shard.databases[database].table.prefetch_entry(key.0);
        }
    }

    /// The fourth step: where an element of a large collection is told. `None` if the key holds no
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

    /// The fifth step: the element itself.
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

#[cfg(test)]
mod tests {
    use tidewire_resp::{ArgumentList, Protocol, Writer};

    use super::*;
    use crate::{NullObserver, Options, resolve};

    #[test]
    fn elements_are_fetched_of_large_collections_alone() {
        let keyspace = Keyspace::new(Options::default());
        let run = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let request = ArgumentList::from_slices(&words);
            let command = resolve(request.as_arguments()).expect("a command");
            let mut reply = Vec::new();
            let mut writer = Writer::new(&mut reply, Protocol::Resp2);
            let arguments = request.as_arguments();
            let _ = keyspace.execute(command, arguments, 0, 1, &mut writer, &mut NullObserver);
            String::from_utf8(reply).expect("text")
        };
        for number in 0..1_000 {
            let element = format!("element:{number}");
            run(&["SADD", "set", &element]);
            run(&["HSET", "hash", &element, "x"]);
            run(&["ZADD", "ranking", "1", &element]);
            run(&["RPUSH", "list", &element]);
        }
        run(&["HSET", "small", "element:1", "x"]);
        run(&["SET", "string", "x"]);
        for (key, has_elements) in [
            ("set", true),
            ("hash", true),
            ("ranking", true),
            ("list", true),
            ("small", false),
            ("string", false),
            ("missing", false),
        ] {
            let hash = keyspace.prefetch(key.as_bytes());
            keyspace.prefetch_group(0, hash);
            keyspace.prefetch_entry(0, hash);
            for element in ["element:7", "none"] {
                let key = (hash, key.as_bytes());
                let found = keyspace.prefetch_element(0, key, element.as_bytes());
                assert_eq!(found.is_some(), has_elements, "{key:?}");
                if let Some(found) = found {
                    keyspace.prefetch_element_entry(0, key, found);
                }
            }
        }
        assert_eq!(run(&["SISMEMBER", "set", "element:7"]), ":1\r\n");
        assert_eq!(run(&["ZSCORE", "ranking", "element:7"]), "$1\r\n1\r\n");
    }
}
