//! Live sources that appear as keys.

use std::fmt;

/// A live source under a key prefix of database 0. Each of its topics reads as a hash that no
/// command changes.
///
/// It is called while shards are locked: it must not call the keyspace.
pub trait Mount: Send + Sync + fmt::Debug {
    /// What its keys begin with, such as `md:`; not empty.
    fn prefix(&self) -> &[u8];

    /// Whether there is a topic of this name, prefix included.
    fn contains(&self, key: &[u8]) -> bool;

    /// Gives the topic's fields in order; false if there is none of this name.
    fn read(&self, key: &[u8], fields: &mut dyn FnMut(&[u8], &[u8])) -> bool;

    /// How many topics there are.
    fn len(&self) -> usize;

    /// True without topics.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the name at `position` to `out`; false beyond the last. Positions never change:
    /// topics are only appended.
    fn name(&self, position: usize, out: &mut Vec<u8>) -> bool;

    /// The error text for a write, such as `READONLY md: topics are live and read-only`.
    fn write_error(&self) -> &'static str;
}
