//! Mounted topics as commands see them, and random key names.

use tidewire_resp::Writer;

use super::View;
use crate::error::CommandError;
use crate::key::Key;
use crate::key::SHARDS;
use crate::keyspace::Keyspace;

use crate::mount::Bare;
use crate::sampling::random_below;
use crate::text::Text;
use crate::value::{ValueRef, materialise};

impl View<'_, '_> {
    /// Returns the number of positions of mounted topics in this database.
    pub(crate) fn topics(&self) -> usize {
        match self.database {
            0 => self.keyspace.mounts().iter().map(|mount| mount.len()).sum(),
            _ => 0,
        }
    }

    /// Returns the number of mounted topics without positions whose topic was removed.
    pub(crate) fn topic_count(&self) -> usize {
        let mounts = self.keyspace.mounts().iter();
        match self.database {
            0 => mounts.map(|mount| mount.count()).sum(),
            _ => 0,
        }
    }

    /// Appends the name of a mounted topic, by its position among those of all mounts.
    pub(crate) fn topic_name(&self, mut position: usize, out: &mut Vec<u8>) -> bool {
        out.clear();
        for mount in self.keyspace.mounts() {
            let count = mount.len();
            if position < count {
                return mount.name(position, out);
            }
            position -= count;
        }
        false
    }

    /// Returns the name of a random key or topic. All shards must be locked.
    pub(crate) fn random_name(&mut self) -> Option<Vec<u8>> {
        let mut counts = [0usize; SHARDS];
        for (shard, count) in counts.iter_mut().enumerate() {
            *count = self.visit(shard, |dictionary| dictionary.table.len());
        }
        let topics = self.topics();
        let total = counts.iter().sum::<usize>() + topics;
        let mut at = random_from(self.keyspace, total)?;
        if at < topics {
            let mut name = Vec::new();
            return self.topic_name(at, &mut name).then_some(name);
        }
        at -= topics;
        let shard = counts.iter().position(|&count| {
            let here = at < count;
            at = at.saturating_sub(count);
            here
        })?;
        let keyspace = self.keyspace;
        self.visit(shard, |dictionary| {
            dictionary
                .table
                .random(|| keyspace.random())
                .map(|entry| entry.key().to_vec())
        })
    }

    #[cold]
    pub(super) fn read_topic(&mut self, key: &[u8]) -> Option<ValueRef<'_>> {
        let mount = self.keyspace.mount_of(self.database, key)?;
        self.topic = materialise(key, &mut self.scratch, |fields| mount.read(key, fields));
        self.topic.as_ref().map(ValueRef::new)
    }

    #[cold]
    pub(crate) fn read_topic_text(
        &mut self,
        key: Key<'_>,
    ) -> Result<Option<Text<'_>>, CommandError> {
        let Some(mount) = self.keyspace.mount_of(self.database, key.bytes) else {
            return Ok(None);
        };
        self.scratch.clear();
        match mount.bare(key.bytes, &mut self.scratch) {
            Bare::Missing => Ok(None),
            Bare::Text => Ok(Some(Text::bytes(&self.scratch))),
            Bare::Other => Err(CommandError::WrongType),
        }
    }

    /// Replies the elements of a mounted topic with an array value; returns false for other topics.
    #[cold]
    pub(crate) fn reply_elements(&self, key: Key<'_>, reply: &mut Writer<'_>) -> bool {
        let mount = self.keyspace.mount_of(self.database, key.bytes);
        mount.is_some_and(|mount| mount.reply_elements(key.bytes, reply))
    }
}

/// Returns a random number below `count`; `None` if `count` is 0.
fn random_from(keyspace: &Keyspace, count: usize) -> Option<usize> {
    (count > 0).then(|| random_below(keyspace.random(), count))
}
