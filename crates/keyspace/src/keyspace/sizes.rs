//! Sizes of tables and values, for INFO.

use super::Keyspace;
use crate::entry::Entry;
use crate::value::{ValueRef, ValueType};

impl Keyspace {
    /// Returns the bytes of one database's tables, without their entries. Visits all shards.
    pub fn table_bytes(&self, database: usize) -> usize {
        let bytes = |shard: &super::Padded<crate::lock::Lock<crate::shard::Shard>>| {
            shard.lock().databases[database].table.memory_bytes()
        };
        self.shards.iter().map(bytes).sum()
    }

    /// Returns histograms of the value sizes in one database: how many values have size 0, 1, 2 to
    /// 3, 4 to 7 and so on. The size of a string is in bytes, of a collection in elements. Visits
    /// all keys, a shard at a time.
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

/// Returns the index of the counted type and the value's size.
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

/// Number of classes: by the bits of a size.
const SIZES: usize = usize::BITS as usize + 1;
/// The counted types, with their names in INFO.
const TYPES: [(ValueType, &str); 5] = [
    (ValueType::String, "strings_sizes"),
    (ValueType::List, "lists_items"),
    (ValueType::Set, "sets_items"),
    (ValueType::SortedSet, "zsets_items"),
    (ValueType::Hash, "hashes_items"),
];
