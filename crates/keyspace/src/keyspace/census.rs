//! Counters of all shards, read without waiting for long.

use crate::key::DATABASES;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Keyspace, Totals};

/// The number of keys, and the counters of all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Number of keys by database, without those of mounts.
    pub keys: [usize; DATABASES],
    /// Number of keys with a TTL by database.
    pub expiring: [usize; DATABASES],
    /// Counters of all shards.
    pub totals: Totals,
}

/// The last completed census.
pub(super) type Last = Mutex<Census>;

impl Keyspace {
    /// Counts shard by shard. If a shard stays locked, for example by a script, this returns the
    /// last completed census. May sleep for up to 20 ms per shard: it is for threads other than the
    /// lanes, such as the admin port's.
    pub fn census(&self) -> Census {
        let Some(census) = self.try_census() else {
            return self.last_census.lock().clone();
        };
        self.last_census.lock().clone_from(&census);
        census
    }

    fn try_census(&self) -> Option<Census> {
        #[cfg(not(loom))]
        debug_assert!(
            !crate::lock::never_sleeps(),
            "a lane calls `totals` instead"
        );
        let mut census = Census::default();
        for shard in &self.shards {
            let try_lock = |_| {
                let guard = shard.try_lock();
                if guard.is_none() {
                    std::thread::sleep(NAP);
                }
                guard
            };
            let shard = (0..ATTEMPTS).find_map(try_lock)?;
            census.totals.add(&shard);
            for (database, dictionary) in shard.databases.iter().enumerate() {
                census.keys[database] += dictionary.table.len();
                census.expiring[database] += dictionary.expiring();
            }
        }
        Some(census)
    }
}

/// How often to try a shard, with a sleep in between. A command unlocks it before that.
const ATTEMPTS: u32 = 20;
const NAP: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use crate::locks::ShardSet;
    use crate::{Keyspace, NullObserver, Options};

    #[test]
    fn a_census_does_not_wait_for_locked_shards() {
        let keyspace = Keyspace::new(Options::default());
        let put = |key: &[u8]| {
            let stored = keyspace.publish_value(1, key, b"value", 0, &mut NullObserver);
            stored.expect("it is stored");
        };
        put(b"one");
        assert_eq!(keyspace.census().keys[..3], [0, 1, 0]);
        put(b"two");
        let held = keyspace.lock(ShardSet::all());
        assert_eq!(keyspace.census().keys[1], 1, "the last completed census");
        drop(held);
        assert_eq!(keyspace.census().keys[1], 2);
    }
}
