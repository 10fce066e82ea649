//! A segment: groups whose entries are in the order of their position.

use super::groups::{EMPTY, Groups, SLOTS};
use super::{DEPTH_MAX, POSITIONS};
use crate::entry::Entry;

/// The entries whose hashes share a prefix.
pub(super) struct Segment {
    pub(super) groups: Groups,
    pub(super) len: usize,
    /// Number of bits in the prefix.
    pub(super) depth: u32,
    /// The bits of every entry's hash after the shard's bits.
    pub(super) prefix: u32,
}

impl Segment {
    pub(super) fn new(groups: usize, depth: u32, prefix: u32) -> Self {
        let groups = Groups::new(groups);
        Segment {
            groups,
            len: 0,
            depth,
            prefix,
        }
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len >= capacity(self.groups.len())
    }

    /// Returns whether it is clearly under a quarter full.
    pub(super) fn is_sparse(&self) -> bool {
        self.groups.len() > 1 && self.len * 4 < capacity(self.groups.len())
            || self.depth > 0 && self.len == 0
    }

    pub(super) fn first_prefix(&self) -> u32 {
        self.prefix << (DEPTH_MAX - self.depth)
    }

    pub(super) fn end_prefix(&self) -> u32 {
        (self.prefix + 1) << (DEPTH_MAX - self.depth)
    }

    /// Adds an entry. There must be an empty slot.
    pub(super) fn insert(&mut self, entry: Entry, tag: u8) -> (usize, usize) {
        debug_assert_ne!(tag, EMPTY);
        debug_assert!(
            self.len < self.groups.len() * SLOTS,
            "the walk ends at an empty slot"
        );
        let mut at = home(position(entry.hash_bits(), tag), self.groups.len());
        loop {
            let group = &mut self.groups[at];
            let empty = group.matches(EMPTY);
            if empty != 0 {
                let slot = empty.trailing_zeros() as usize;
                group.head[slot] = tag;
                group.slots[slot] = Some(entry);
                self.len += 1;
                return (at, slot);
            }
            group.pass();
            at = next_group(at, self.groups.len());
        }
    }

    pub(super) fn remove(&mut self, group: usize, slot: usize) -> Entry {
        let tag = std::mem::replace(&mut self.groups[group].head[slot], EMPTY);
        debug_assert_ne!(tag, EMPTY, "a place holds an entry");
        let entry = self.groups[group].slots[slot]
            .take()
            .expect("a place holds an entry");
        let mut at = home(position(entry.hash_bits(), tag), self.groups.len());
        while at != group {
            self.groups[at].unpass();
            at = next_group(at, self.groups.len());
        }
        self.len -= 1;
        entry
    }

    pub(super) fn resize(&mut self, groups: usize) {
        debug_assert!(self.len <= groups * SLOTS, "every entry has a slot again");
        let mut entries = Vec::with_capacity(self.len);
        self.groups
            .take_entries(|entry, tag| entries.push((entry, tag)));
        self.groups.set_len(groups);
        self.len = 0;
        for (entry, tag) in entries {
            self.insert(entry, tag);
        }
    }

    /// Passes the entries with a position in the range to `show`. The range belongs to one group.
    pub(super) fn each_of<'t>(
        &'t self,
        range: std::ops::Range<usize>,
        show: &mut impl FnMut(&'t Entry),
    ) {
        let mut at = home(range.start, self.groups.len());
        for _ in 0..self.groups.len() {
            let group = &self.groups[at];
            for (slot, entry) in group.slots.iter().enumerate() {
                if let Some(entry) = entry
                    && range.contains(&position(entry.hash_bits(), group.head[slot]))
                {
                    show(entry);
                }
            }
            if group.overflow() == 0 {
                return;
            }
            at = next_group(at, self.groups.len());
        }
    }
}

/// Returns an entry's position in its segment, 0 to 4,095: six bits of the pointer, six of the tag.
#[inline]
pub(super) fn position(hash_bits: u16, tag: u8) -> usize {
    usize::from(hash_bits & 63) << 6 | usize::from(tag & 63)
}

#[inline]
pub(super) fn home(position: usize, groups: usize) -> usize {
    debug_assert!(position < POSITIONS && groups > 0);
    position * groups / POSITIONS
}

#[inline]
pub(super) fn next_group(at: usize, groups: usize) -> usize {
    debug_assert!(at < groups);
    if at + 1 == groups { 0 } else { at + 1 }
}

/// Returns the number of entries at which a segment is full. A single group may be completely full,
/// because nothing passes it; more groups are full at 30/32.
#[inline]
pub(super) fn capacity(groups: usize) -> usize {
    if groups == 1 {
        SLOTS
    } else {
        groups * SLOTS * 30 / 32
    }
}

/// Returns the smallest size with room for this many entries plus a tenth.
pub(super) fn groups_for(len: usize) -> usize {
    let mut groups = 1;
    while capacity(groups) < len * 11 / 10 {
        groups = Groups::more(groups);
    }
    groups
}
