//! Live sources that appear as keys.

use std::fmt;

use tidewire_resp::Writer;

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

    /// Appends the value that GET shows of a topic; without one every topic is of another type.
    fn bare(&self, key: &[u8], _out: &mut Vec<u8>) -> Bare {
        match self.contains(key) {
            true => Bare::Other,
            false => Bare::Missing,
        }
    }

    /// Replies with the elements of a topic whose value is an array; false if it is none.
    fn reply_elements(&self, _key: &[u8], _reply: &mut Writer<'_>) -> bool {
        false
    }

    /// A number that is another one after each change of a topic: what WATCH compares.
    fn version(&self, key: &[u8]) -> u64 {
        u64::from(self.contains(key))
    }

    /// How many topics there are.
    fn len(&self) -> usize;

    /// True without topics.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the name at `position` to `out`; false beyond the last. Positions never change:
    /// topics are only appended.
    fn name(&self, position: usize, out: &mut Vec<u8>) -> bool;

    /// A client asks for a new value of a topic. Nothing if the mount takes no writes, or not this
    /// one: then [`Mount::write_error`] stands. Otherwise the client waits, the mount sends it word
    /// of the end, and what is returned is the error of a client that stops waiting before.
    fn write(&self, _key: &[u8], _value: &[u8], _writer: MountWriter) -> Option<&'static str> {
        None
    }

    /// The error text for a write, such as `READONLY md: topics are live and read-only`.
    fn write_error(&self) -> &'static str;
}

/// Who waits for the end of a write to a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountWriter {
    /// The client's lane.
    pub lane: usize,
    /// The client's number.
    pub client: u64,
    /// Which of the client's writes; an answer to another one is too late.
    pub token: u64,
}

/// What GET shows of a mounted topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// There is no such topic, or it has no value.
    Missing,
    /// The text that was appended.
    Text,
    /// Something else than a text.
    Other,
}
