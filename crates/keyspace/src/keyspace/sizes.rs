//! How large things are, for those who ask.

use super::Keyspace;
use crate::entry::Entry;
use crate::value::{ValueRef, ValueType};

impl Keyspace {
    /// Bytes of the tables of one database, without the entries in them; walks the shards.
    pub fn table_bytes(&self, database: usize) -> usize {
        let bytes = |shard: &super::Padded<crate::lock::Lock<crate::shard::Shard>>| {
            shard.lock().databases[database].table.memory_bytes()
        };
        self.shards.iter().map(bytes).sum()
    }

    /// How many values of one database have a size of 0, of 1, of 2 or 3, of 4 to 7 and so on: a
    /// string's in bytes, a collection's in parts. Walks all keys, a shard at a time.
    pub fn value_sizes(&self, database: usize) -> [(&'static str, [u64; SIZES]); TYPES.len()] {
        let mut sizes = TYPES.map(|(_, name)| (name, [0; SIZES]));
        for shard in &self.shards {
            for entry in shard.lock().databases[database].table.iter() {
                if let Some((kind, size)) = size_of(entry) {
                    let power = (usize::BITS - size.leading_zeros()) as usize;
                    sizes[kind].1[power] += 1;
                }
            }
        }
        sizes
    }
}

/// The number of the type among those that are counted, and the value's size.
fn size_of(entry: &Entry) -> Option<(usize, usize)> {
    let value = ValueRef::new(entry);
    let value_type = value.value_type();
    let kind = TYPES.iter().position(|(known, _)| *known == value_type)?;
    let size = match value_type {
        ValueType::String => value.text()?.as_bytes().len(),
        ValueType::List => value.list()?.len(),
        ValueType::Set => value.members()?.len(),
        ValueType::SortedSet => value.sorted_set()?.len(),
        ValueType::Hash => value.fields()?.len_with_due(),
        _ => return None,
    };
    Some((kind, size))
}

/// By the bits of a size.
const SIZES: usize = usize::BITS as usize + 1;
/// The types that are counted, as INFO names them.
const TYPES: [(ValueType, &str); 5] = [
    (ValueType::String, "strings_sizes"),
    (ValueType::List, "lists_items"),
    (ValueType::Set, "sets_items"),
    (ValueType::SortedSet, "zsets_items"),
    (ValueType::Hash, "hashes_items"),
];
