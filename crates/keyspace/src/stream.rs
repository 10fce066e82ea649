//! Streams: packed blocks of entries in the order of their ids, and groups that read them.
//!
//! A [`Stream`] has an [`EntryLog`] and [`ConsumerGroups`], apart so that a group can change while
//! entries are read. DUMP and RESTORE convert a stream with these:
//!
//! * Entries: [`EntryLog::range`] from [`StreamId::MIN`] to [`StreamId::MAX`] shows each with its
//!   id and its names and values, in order. [`EntryLog::append`] adds them again in that order.
//!   Deleted entries are not shown. [`EntryLog::len`] and [`EntryLog::first_id`] follow from the
//!   entries; [`EntryLog::state`] and [`EntryLog::set_state`] (after the entries) are the rest.
//! * Groups: the map's keys are their names, in order. [`ConsumerGroup::new`] makes one. Its
//!   `last_id` and `entries_read` (`None` is Redis's -1) can be read and set.
//! * Consumers: [`ConsumerGroup::consumers`] shows them in the order of their names, with the slots
//!   that pending entries refer to. [`ConsumerGroup::add_consumer`] makes one. Its `seen_ms` and
//!   `active_ms` (`None` is Redis's -1) can be set through [`ConsumerGroup::consumer_mut`].
//! * Pending entries: [`ConsumerGroup::pending`] shows those of the group, and
//!   [`ConsumerGroup::pending_of`] those of a consumer, both in the order of their ids.
//!   [`ConsumerGroup::set_pending`] adds them, in any order.

mod block;
pub(crate) use block::BlockLimits;

mod groups;
pub(crate) use groups::{Consumer, ConsumerGroup, ConsumerGroups, ConsumerSlot, PendingEntry};

mod id;
pub(crate) use id::StreamId;

mod log;
pub(crate) use log::{Entry, EntryLog, LogState, Trim, TrimTo};

mod pages;

use crate::entry;
use crate::value::Object;

/// A stream and the groups that read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) log: EntryLog,
    pub(crate) groups: ConsumerGroups,
}

impl Stream {
    /// The stream of an entry of the keyspace that is one.
    pub(crate) fn of(entry: &entry::Entry) -> Option<&Self> {
        match entry.object()? {
            Object::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    pub(crate) fn of_mut(entry: &mut entry::Entry) -> Option<&mut Self> {
        match entry.object_mut()? {
            Object::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// About how many allocations it has: blocks, and what is pending in groups.
    pub(crate) fn parts(&self) -> usize {
        let pending = self.groups.values().map(|group| group.pending_len());
        self.log.blocks() + pending.sum::<usize>()
    }

    /// Whether a group still wants this entry: one that has not come to it, or has not
    /// acknowledged it.
    pub(crate) fn is_wanted(&self, id: StreamId) -> bool {
        is_wanted(&self.groups, id)
    }

    /// Takes an entry out of what is pending in every group; false if it was in none.
    pub(crate) fn forget(&mut self, id: StreamId) -> bool {
        forget(&mut self.groups, id)
    }

    /// Removes entries from the head; returns how many.
    pub(crate) fn trim(&mut self, trim: Trim, references: References) -> u64 {
        let groups = &mut self.groups;
        match references {
            References::Keep => self.log.trim(trim),
            References::Delete => self.log.trim_each(trim, |id| {
                forget(groups, id);
                true
            }),
            References::Heed => self.log.trim_each(trim, |id| !is_wanted(groups, id)),
        }
    }

    /// Returns the bytes of memory; those of entries are estimated from `samples` blocks.
    pub(crate) fn memory_bytes(&self, samples: usize) -> usize {
        let groups = self.groups.iter();
        let of_groups: usize = groups
            .map(|(name, group)| name.len() + group.memory_bytes())
            .sum();
        size_of::<Stream>() + self.log.memory_bytes(samples) + of_groups
    }
}

/// What becomes of the references that groups have to entries that are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum References {
    /// They stay.
    Keep,
    /// They go with the entry.
    Delete,
    /// An entry that a group still wants stays.
    Heed,
}

fn is_wanted(groups: &ConsumerGroups, id: StreamId) -> bool {
    let mut groups = groups.values();
    groups.any(|group| group.last_id < id || group.find_pending(id).is_some())
}

fn forget(groups: &mut ConsumerGroups, id: StreamId) -> bool {
    let mut any = false;
    for group in groups.values_mut() {
        any |= group.acknowledge(id);
    }
    any
}

#[cfg(test)]
mod tests;
