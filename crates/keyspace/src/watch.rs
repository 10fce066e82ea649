//! WATCH: detects changes of a key by its version, not by its value.

use std::hash::{Hash, Hasher};

use crate::hash;
use crate::key::shard_of;
use crate::keyspace::Keyspace;
use crate::locks::{Locked, ShardSet};
use crate::observer::Observer;
use crate::view::View;

/// The state of a watched name. A shared mount may claim the name, and give it up, at any time:
/// what the keyspace counts and what the mount counts are told apart, so that no number of the one
/// is taken for a number of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Changes of the key, and of the topic that a shared mount has under the name.
    pub(crate) stored: u64,
    /// The number that a mount gives, if it has the name, and whether that is a shared one.
    pub(crate) topic: Option<(bool, u64)>,
}

/// A watched key of a transaction. Release it with [`Keyspace::unwatch`].
#[derive(Debug)]
pub struct WatchedKey {
    database: usize,
    key: Box<[u8]>,
    hash: u64,
    version: Version,
    was_there: bool,
}

/// Two are equal if they are the same key of the same database.
impl PartialEq for WatchedKey {
    fn eq(&self, other: &Self) -> bool {
        (self.database, &self.key) == (other.database, &other.key)
    }
}

impl Eq for WatchedKey {}

impl Hash for WatchedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash ^ self.database as u64);
    }
}

impl WatchedKey {
    /// Returns the approximate memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.key.len()
    }
}

impl ShardSet {
    /// Adds the shard of a watched key.
    pub fn insert_watched(&mut self, watched: &WatchedKey) {
        self.insert(shard_of(watched.hash));
    }
}

impl Keyspace {
    /// Starts to watch a key of a database below [`DATABASES`](crate::DATABASES).
    pub fn watch(
        &self,
        database: usize,
        key: &[u8],
        now_ms: i64,
        observer: &mut dyn Observer,
    ) -> WatchedKey {
        let hash = hash::of(key);
        let mut locked = Locked::one(self, shard_of(hash));
        let mut view = View::new(self, &mut locked, database, now_ms, observer);
        let (version, was_there) = view.watch(view.key(key));
        self.release(locked, now_ms, observer);
        WatchedKey {
            database,
            key: key.into(),
            hash,
            version,
            was_there,
        }
    }

    /// Returns whether a watched key is unchanged. Its shard must be locked. A key that has expired
    /// is changed.
    pub fn is_unchanged(
        &self,
        locked: &mut Locked<'_>,
        watched: &WatchedKey,
        now_ms: i64,
        observer: &mut dyn Observer,
    ) -> bool {
        let mut view = View::new(self, locked, watched.database, now_ms, observer);
        let key = view.key(&watched.key);
        // A key that was missing and was created already expired was never visible.
        view.version(key) == watched.version && !(watched.was_there && view.is_stale(key))
    }

    /// Stops watching a key.
    pub fn unwatch(&self, watched: WatchedKey) {
        let mut locked = Locked::one(self, shard_of(watched.hash));
        let mut observer = crate::observer::NullObserver;
        let mut view = View::new(self, &mut locked, watched.database, 0, &mut observer);
        view.unwatch(view.key(&watched.key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Options, Outcome};
    use crate::observer::NullObserver;
    use tidewire_resp::{ArgumentList, Protocol, Writer};

    fn run(keyspace: &Keyspace, words: &[&str], now_ms: i64) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let request = ArgumentList::from_slices(&words);
        let command = crate::resolve(request.as_arguments()).expect("a command");
        let mut reply = Vec::new();
        let mut writer = Writer::new(&mut reply, Protocol::Resp2);
        let observer = &mut NullObserver;
        let arguments = request.as_arguments();
        match keyspace.execute(command, arguments, 0, now_ms, &mut writer, observer) {
            Outcome::Waiting(_) => panic!("no command waits here"),
            _ => String::from_utf8(reply).expect("text"),
        }
    }

    fn unchanged_after(words: &[&[&str]], now_ms: i64) -> bool {
        let keyspace = Keyspace::new(Options::default());
        run(&keyspace, &["SET", "k", "1"], 0);
        run(&keyspace, &["PEXPIRE", "k", "5000"], 0);
        run(&keyspace, &["SET", "other", "1"], 0);
        let watched = keyspace.watch(0, b"k", 1, &mut NullObserver);
        for command in words {
            run(&keyspace, command, 2);
        }
        let mut shards = ShardSet::empty();
        shards.insert_watched(&watched);
        let mut locked = keyspace.lock(shards);
        let same = keyspace.is_unchanged(&mut locked, &watched, now_ms, &mut NullObserver);
        drop(locked);
        keyspace.unwatch(watched);
        let left = keyspace.shards.iter().any(|shard| shard.lock().is_observed);
        assert!(!left, "an ended watch leaves nothing behind");
        same
    }

    #[test]
    fn a_write_counts_as_a_change_even_with_the_same_value() {
        assert!(unchanged_after(&[], 3));
        assert!(unchanged_after(&[&["GET", "k"], &["SET", "other", "2"]], 3));
        assert!(!unchanged_after(&[&["SET", "k", "1"]], 3));
        assert!(!unchanged_after(&[&["INCR", "k"], &["DECR", "k"]], 3));
        assert!(!unchanged_after(&[&["PEXPIRE", "k", "9000"]], 3));
        assert!(!unchanged_after(&[&["DEL", "k"], &["SET", "k", "1"]], 3));
    }

    #[test]
    fn commands_on_all_keys_change_existing_keys() {
        assert!(!unchanged_after(&[&["FLUSHALL"]], 3));
        assert!(!unchanged_after(&[&["FLUSHDB"]], 3));
        assert!(!unchanged_after(&[&["SWAPDB", "0", "1"]], 3));
        assert!(unchanged_after(&[&["SWAPDB", "2", "1"]], 3));
    }

    #[test]
    fn an_expired_key_counts_as_changed() {
        assert!(!unchanged_after(&[], 6000));
    }

    #[test]
    fn a_key_created_already_expired_does_not_count() {
        let keyspace = Keyspace::new(Options::default());
        run(&keyspace, &["SET", "k", "1", "PXAT", "10"], 0);
        run(&keyspace, &["SWAPDB", "0", "1"], 0);
        let watched = keyspace.watch(0, b"k", 20, &mut NullObserver);
        run(&keyspace, &["SWAPDB", "0", "1"], 20);
        let mut shards = ShardSet::empty();
        shards.insert_watched(&watched);
        let mut locked = keyspace.lock(shards);
        assert!(keyspace.is_unchanged(&mut locked, &watched, 20, &mut NullObserver));
    }
}
