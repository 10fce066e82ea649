//! Live sources that appear as keys.

use std::borrow::Cow;
use std::fmt;

use tidewire_resp::{Arguments, Protocol, Writer};

/// A live source under a key prefix of database 0. Each of its topics reads as a hash that no
/// command can change.
///
/// The keyspace calls it while shards are locked, so it must not call the keyspace.
pub trait Mount: Send + Sync + fmt::Debug {
    /// Returns the prefix of its keys, such as `md:`; not empty.
    fn prefix(&self) -> &[u8];

    /// Returns whether it shares its prefix with keys and other mounts: only the names that it
    /// claims are its own. It may claim a name, and give it up, under the lock of the name's shard.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns whether each change of a topic, and of its names, is told with
    /// [`Keyspace::change_shared`] or [`Keyspace::invalidate_shared`], so that clients may cache
    /// what they have read.
    ///
    /// [`Keyspace::change_shared`]: crate::Keyspace::change_shared
    /// [`Keyspace::invalidate_shared`]: crate::Keyspace::invalidate_shared
    fn tells_changes(&self) -> bool {
        false
    }

    /// Returns whether a name with its prefix is its own.
    fn claims(&self, _key: &[u8]) -> bool {
        true
    }

    /// Returns whether no key may be made under a name with its prefix that it does not claim: the
    /// name may be a topic that is not known yet. A key that is there stays a key.
    /// [`Mount::write_error`] is the error then. It is called under the lock of the name's shard.
    fn is_reserved(&self, _key: &[u8]) -> bool {
        false
    }

    /// Appends what subscribers of a topic get, if its changes are published like those of a live
    /// key; returns false otherwise.
    fn publish(&self, _key: &[u8], _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Returns whether there is a topic with this name, prefix included.
    fn contains(&self, key: &[u8]) -> bool;

    /// Passes the topic's fields to `fields` in order; returns false if there is no such topic.
    fn read(&self, key: &[u8], fields: &mut dyn FnMut(&[u8], &[u8])) -> bool;

    /// Appends the value that GET returns for a topic. By default, no topic is a string.
    fn bare(&self, key: &[u8], _out: &mut Vec<u8>) -> Bare {
        match self.contains(key) {
            true => Bare::Other,
            false => Bare::Missing,
        }
    }

    /// Replies the elements of a topic with an array value; returns false for other topics.
    fn reply_elements(&self, _key: &[u8], _reply: &mut Writer<'_>) -> bool {
        false
    }

    /// Returns a number that changes with each change of a topic; WATCH compares it.
    fn version(&self, key: &[u8]) -> u64 {
        u64::from(self.contains(key))
    }

    /// Returns the number of positions, which is that of topics unless some were removed.
    fn len(&self) -> usize;

    /// Returns the number of topics.
    fn count(&self) -> usize {
        self.len()
    }

    /// Returns whether there are no topics.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the name at `position` to `out`; returns false beyond the last, and if the topic was
    /// removed. A topic keeps its position.
    fn name(&self, position: usize, out: &mut Vec<u8>) -> bool;

    /// Starts a client's write to a topic. Returns `None` if the mount refuses it;
    /// [`Mount::write_error`] is the error then. Otherwise the client waits, and the mount sends it
    /// a message when the write ends. The returned text is the error for a client that stops
    /// waiting earlier.
    fn write(&self, _write: &MountWrite<'_>) -> Option<&'static str> {
        None
    }

    /// Takes a value from a protocol without replies: its sender waits for no answer. By default
    /// no topic takes any.
    fn push(&self, _push: &MountPush<'_>) -> Pushed {
        Pushed::Refused
    }

    /// Returns the error text for a write to a topic, such as `READONLY md: topics are live and
    /// read-only`.
    fn write_error(&self, key: &[u8]) -> Cow<'static, str>;
}

/// A client's write to a mount.
#[derive(Clone, Copy, Debug)]
pub struct MountWrite<'a> {
    /// The topic, prefix included.
    pub key: &'a [u8],
    /// What is done to it.
    pub change: MountChange<'a>,
    /// The client that waits.
    pub writer: MountWriter,
    /// Name of the client's user.
    pub user: &'a [u8],
    /// Address of the client.
    pub address: &'a str,
}

/// What a client does to a topic.
#[derive(Clone, Copy, Debug)]
pub enum MountChange<'a> {
    /// A SET with this value and nothing else.
    Value(&'a [u8]),
    /// Another command on this topic alone ([`Command::key_elsewhere`]).
    ///
    /// [`Command::key_elsewhere`]: crate::Command::key_elsewhere
    Command {
        /// The command's words, its name as the table has it.
        words: Arguments<'a>,
        /// What the client's replies look like.
        protocol: Protocol,
    },
}

/// A value for a topic, from a protocol without replies.
#[derive(Clone, Copy, Debug)]
pub struct MountPush<'a> {
    /// The topic, prefix included.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Name of the sender's user.
    pub user: &'a [u8],
    /// Address of the sender.
    pub address: &'a str,
}

/// What a mount has done with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// It has taken the value.
    Taken,
    /// There is no room for it now.
    Full,
    /// It takes no values for this topic.
    Refused,
}

/// The client that waits for the end of a write to a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountWriter {
    /// The client's lane.
    pub lane: usize,
    /// The client's number.
    pub client: u64,
    /// Number of the client's write; an answer to another write is outdated.
    pub token: u64,
}

/// The result of GET for a mounted topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// There is no such topic, or it has no value.
    Missing,
    /// The text that was appended.
    Text,
    /// The value is not a text.
    Other,
}
