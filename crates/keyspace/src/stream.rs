//! Streams: packed blocks of entries in the order of their ids, and consumer groups.
//!
//! A [`Stream`] has an [`EntryLog`], [`ConsumerGroups`] and [`Producers`]. They are separate, so
//! that a group can change while entries are read. DUMP and RESTORE use these functions to convert
//! a stream:
//!
//! * Entries: [`EntryLog::range`] from [`StreamId::MIN`] to [`StreamId::MAX`] iterates over all
//!   entries in order, with ids, fields and values, without deleted ones. [`EntryLog::append`] adds
//!   them again in that order. [`EntryLog::len`] and [`EntryLog::first_id`] follow from the
//!   entries. [`EntryLog::state`] and [`EntryLog::set_state`] (after the entries) cover the
//!   remaining state.
//! * Groups: the map's keys are their names, in order. [`ConsumerGroup::new`] creates one. Its
//!   `last_id` and `entries_read` (`None` is Redis's -1) are public.
//! * Consumers: [`ConsumerGroup::consumers`] iterates over them by name, with the slots that
//!   pending entries refer to. [`ConsumerGroup::add_consumer`] adds one. Its `seen_ms` and
//!   `active_ms` (`None` is Redis's -1) can be set through [`ConsumerGroup::consumer_mut`].
//! * Pending entries: [`ConsumerGroup::pending`] iterates over those of the group, and
//!   [`ConsumerGroup::pending_of`] over those of a consumer, both by id.
//!   [`ConsumerGroup::set_pending`] adds them in any order.
//! * Producers: [`Producers::iter`] and [`Producer::iter`], both in order; [`Producer::push`] and
//!   [`Producers::restore`] add them again.

mod block;
pub(crate) use block::BlockLimits;

mod groups;
pub(crate) use groups::{Consumer, ConsumerGroup, ConsumerGroups, ConsumerSlot, PendingEntry};

mod id;
pub(crate) use id::StreamId;

mod log;
pub(crate) use log::{Entry, EntryLog, LogState, Trim, TrimTo};

mod pages;

mod producers;
pub(crate) use producers::{Producer, ProducerLimits, ProducerTotals, Producers};

use crate::entry;
use crate::value::Object;

/// A stream and its consumer groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) log: EntryLog,
    pub(crate) groups: ConsumerGroups,
    pub(crate) producers: Producers,
}

impl Stream {
    /// Returns an empty stream.
    pub(crate) fn new(limits: ProducerLimits) -> Self {
        Stream {
            producers: Producers::new(limits),
            ..Stream::default()
        }
    }

    /// Returns the stream of an entry, if it is one.
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

    /// Returns the approximate number of allocations: blocks, and pending entries of groups.
    pub(crate) fn parts(&self) -> usize {
        let pending = self.groups.values().map(|group| group.pending_len());
        self.log.blocks() + pending.sum::<usize>()
    }

    /// Returns whether a group still needs this entry: it has not received it yet, or has not
    /// acknowledged it.
    pub(crate) fn is_wanted(&self, id: StreamId) -> bool {
        is_wanted(&self.groups, id)
    }

    /// Removes an entry from the pending entries of all groups; returns false if it was in none.
    pub(crate) fn forget(&mut self, id: StreamId) -> bool {
        forget(&mut self.groups, id)
    }

    /// Removes entries from the head. Returns how many.
    pub(crate) fn trim(&mut self, trim: Trim, references: References) -> u64 {
        let groups = &mut self.groups;
        match references {
            References::Keep => self.log.trim(trim),
            References::Delete => self.log.trim_each(trim, |id| {
                forget(groups, id);
                true
            }),
            References::Acknowledged => self.log.trim_each(trim, |id| !is_wanted(groups, id)),
        }
    }

    /// Returns the bytes of memory; those of entries are estimated from `samples` blocks.
    pub(crate) fn memory_bytes(&self, samples: usize) -> usize {
        let groups = self.groups.iter();
        let of_groups: usize = groups
            .map(|(name, group)| name.len() + group.memory_bytes())
            .sum();
        size_of::<Stream>()
            + self.log.memory_bytes(samples)
            + of_groups
            + self.producers.memory_bytes()
    }
}

/// What happens to the references of groups to deleted entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum References {
    /// They stay.
    Keep,
    /// They are deleted with the entry.
    Delete,
    /// An entry that a group still needs is not deleted.
    Acknowledged,
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
