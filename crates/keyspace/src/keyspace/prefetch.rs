//! Prefetches what the commands of a pipeline will read before the first one runs, so that their
//! cache misses overlap. For each key, [`prefetch`](Keyspace::prefetch) comes first. Then
//! [`prefetch_all`](Keyspace::prefetch_all) fetches step by step: the table slots of all keys, then
//! the entries. For commands on an element of a large collection, two more steps fetch the element.
//! such steps for the element.

use super::Keyspace;
use crate::cache_line;
use crate::hash;
use crate::key::shard_of;
use crate::lock::LockGuard;
use crate::shard::Shard;
use crate::table::{Place, Table};
use crate::value::Object;

/// The hash of a key, computed in the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub(super) u64);

/// A key that a command of a pipeline will read.
#[derive(Clone, Copy, Debug)]
pub struct WantedKey {
    /// The hash from [`prefetch`](Keyspace::prefetch).
    pub hash: KeyHash,
    /// The caller's number of the command, if it accesses an element of the key's collection.
    pub element: Option<u8>,
}

/// Returns the key and the element that a command of a pipeline accesses, by the command's number.
pub type ElementOf<'a, 'b> = &'a dyn Fn(u8) -> Option<(&'b [u8], &'b [u8])>;

impl Keyspace {
    /// Prefetches the key's shard and its lock (the first step).
    #[inline]
    pub fn prefetch(&self, key: &[u8]) -> KeyHash {
        let hash = hash::of(key);
        let shard = std::ptr::from_ref(&self.shards[shard_of(hash)]).cast::<u8>();
        cache_line::prefetch(shard);
        cache_line::prefetch(shard.wrapping_add(cache_line::BYTES));
        KeyHash(hash)
    }

    /// Executes the other steps. Holds up to [`BATCH`] shards through all steps of their keys, and
    /// waits for none.
    pub fn prefetch_all(&self, database: usize, keys: &[WantedKey], element_of: ElementOf<'_, '_>) {
        for keys in keys.chunks(BATCH) {
            self.prefetch_batch(database, keys, element_of);
        }
    }

    fn prefetch_batch(&self, database: usize, keys: &[WantedKey], element_of: ElementOf<'_, '_>) {
        let mut held = Held::none();
        let mut holders = [None; BATCH];
        for (holder, key) in holders.iter_mut().zip(keys) {
            *holder = held.hold(self, shard_of(key.hash.0));
        }
        let mut homes = [None; BATCH];
        for ((home, holder), key) in homes.iter_mut().zip(&holders).zip(keys) {
            let table = held.table(*holder, database);
            *home = table.and_then(|table| table.home(key.hash.0));
            if let Some(home) = home {
                home.prefetch();
            }
        }
        // The table slots have arrived by now and give the entries' addresses.
        let mut passed = 0u32;
        let mut has_elements = false;
        for (at, (home, key)) in homes.iter().zip(keys).enumerate() {
            if let Some(home) = home {
                passed |= u32::from(home.prefetch_entry()) << at;
            }
            has_elements |= key.element.is_some();
        }
        while passed != 0 {
            let at = passed.trailing_zeros() as usize;
            passed &= passed - 1;
            if let Some(table) = held.table(holders[at], database) {
                table.prefetch_passed(keys[at].hash.0);
            }
        }
        if has_elements {
            held.prefetch_elements(database, keys, &holders, element_of);
        }
    }
}

/// Shards that stay locked while their contents are fetched.
struct Held<'k> {
    guards: [Option<LockGuard<'k, Shard>>; BATCH],
    shards: [usize; BATCH],
    count: usize,
}

impl<'k> Held<'k> {
    #[inline]
    fn none() -> Self {
        Held {
            guards: [const { None }; BATCH],
            shards: [usize::MAX; BATCH],
            count: 0,
        }
    }

    /// Locks a shard and returns its index here. Returns `None` if another thread holds it: it is
    /// probably in a cache already.
    #[inline]
    fn hold(&mut self, keyspace: &'k Keyspace, shard: usize) -> Option<u8> {
        let count = self.count;
        if count > 0 && self.shards[count - 1] == shard {
            return Some(count as u8 - 1);
        }
        match keyspace.shards[shard].try_lock() {
            Some(guard) => {
                (self.guards[count], self.shards[count]) = (Some(guard), shard);
                self.count += 1;
                Some(count as u8)
            }
            None => {
                let held = self.shards.iter().position(|&held| held == shard);
                held.map(|held| held as u8)
            }
        }
    }

    #[inline]
    fn table(&self, holder: Option<u8>, database: usize) -> Option<&Table> {
        let shard = self.guards[usize::from(holder?)].as_ref()?;
        Some(&shard.databases[database].table)
    }

    fn object(&self, holder: Option<u8>, database: usize, place: Place) -> Option<&Object> {
        self.table(holder, database)?.entry(place).object()
    }

    /// Executes the steps for elements of collections: first the index, then the elements.
    #[inline(never)]
    fn prefetch_elements(
        &self,
        database: usize,
        keys: &[WantedKey],
        holders: &[Option<u8>; BATCH],
        element_of: ElementOf<'_, '_>,
    ) {
        let mut found = [None; BATCH];
        for ((found, key), holder) in found.iter_mut().zip(keys).zip(holders) {
            if let Some(table) = self.table(*holder, database)
                && let Some((name, element)) = key.element.and_then(element_of)
                && let Some(place) = table.find(key.hash.0, name)
                && let Some(object) = table.entry(place).object()
            {
                let element = hash::of(element);
                object.prefetch(element);
                *found = Some((place, element));
            }
        }
        let mut passed = 0u32;
        for (at, (found, holder)) in found.iter().zip(holders).enumerate() {
            if let Some((place, element)) = *found
                && let Some(object) = self.object(*holder, database, place)
            {
                passed |= u32::from(object.prefetch_entry(element)) << at;
            }
        }
        while passed != 0 {
            let at = passed.trailing_zeros() as usize;
            passed &= passed - 1;
            if let Some((place, element)) = found[at]
                && let Some(object) = self.object(holders[at], database, place)
            {
                object.prefetch_passed(element);
            }
        }
    }
}

/// Number of keys whose steps run together: enough for their misses to overlap.
const BATCH: usize = 16;

#[cfg(test)]
mod tests {
    use tidewire_resp::{ArgumentList, Protocol, Writer};

    use super::*;
    use crate::{NullObserver, Options, resolve};

    #[test]
    fn a_pipeline_s_keys_are_fetched_and_unlocked() {
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
        // One key several times, keys in sequence, an existing element and a missing one.
        let keys = [
            "set", "hash", "ranking", "list", "small", "string", "missing",
        ];
        for (names, element) in [
            (keys.repeat(7), "element:7"),
            (keys.repeat(3), "none"),
            (vec!["set"; 40], "element:999"),
        ] {
            let hashes = names.iter().map(|name| keyspace.prefetch(name.as_bytes()));
            let wanted: Vec<WantedKey> = hashes
                .enumerate()
                .map(|(at, hash)| WantedKey {
                    hash,
                    element: (at % 5 != 0).then_some(at as u8),
                })
                .collect();
            let element_of = |at: u8| {
                let name = names.get(usize::from(at))?;
                Some((name.as_bytes(), element.as_bytes()))
            };
            keyspace.prefetch_all(0, &wanted, &element_of);
        }
        // No shard is locked any more.
        assert_eq!(run(&["SISMEMBER", "set", "element:7"]), ":1\r\n");
        assert_eq!(run(&["ZSCORE", "ranking", "element:7"]), "$1\r\n1\r\n");
    }

    #[test]
    fn a_locked_shard_is_skipped() {
        let keyspace = Keyspace::new(Options::default());
        let hash = keyspace.prefetch(b"key");
        let locked = keyspace.lock(crate::ShardSet::all());
        let element = Some(0);
        let wanted = [WantedKey { hash, element }; 3];
        keyspace.prefetch_all(0, &wanted, &|_| Some((b"key", b"element")));
        drop(locked);
    }
}
