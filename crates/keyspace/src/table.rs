//! Extendible hashing: a directory of segments, segments of 14-slot groups, one tag per slot.
//!
//! ```text
//!  hash   63      56 55               40 39      32
//!        ┌──────────┬───────────┬───────┬──────────┬─────┐
//!        │ shard    │ directory │ fine  │ tag      │  …  │     position: fine, then the tag's
//!        └──────────┴───────────┴───────┴──────────┴─────┘               lower six bits
//!                    └ in the entry's pointer ┘
//!
//!  group = 128 bytes: 14 tags, overflow count, 14 entries of one word
//! ```
//!
//! A lookup reads the directory by the hash's prefix and finds the group by the hash's position. It
//! compares all tags at once, then the pointer's 16 bits, then the key. A full segment grows by
//! eight groups until it has 64, and then splits in two. Only its entries (at most 900) move, based
//! on bits stored in the table, so that no entry's memory is touched. There is no rehashing and
//! there are no tombstones: a group counts the entries that passed it because it was full, and a
//! miss ends at the first group with count 0.
//!
//! Entries are in the order of their position for any number of groups. This makes scan cursors
//! survive growing, splitting and shrinking.

use std::fmt;

use crate::entry::Entry;
use crate::hash::hash_bits;

mod directory;
mod groups;
mod segment;
mod walk;

use groups::{GROUPS_MAX, Group, Groups, SLOTS};
use segment::{Segment, home, next_group, position};

/// A map from keys to entries. An empty one owns no memory.
pub(crate) struct Table {
    /// Index of the segment for each prefix of `depth` bits; empty while there is one segment.
    directory: Vec<u32>,
    segments: Vec<Segment>,
    depth: u32,
    len: usize,
}

/// The group that a lookup reads first.
#[derive(Clone, Copy)]
pub(crate) struct Home<'t> {
    table: &'t Table,
    group: &'t Group,
    hash: u64,
}

impl Home<'_> {
    /// Prefetches the group.
    #[inline]
    pub(crate) fn prefetch(self) {
        self.group.prefetch();
    }

    /// Prefetches the entry that the hash most likely refers to. Waits for the group, so call
    /// [`prefetch`](Self::prefetch) some time before. Returns true if the entry may be in the next
    /// group. That group is then being fetched; continue with
    /// [`prefetch_passed`](Table::prefetch_passed).
    #[inline]
    pub(crate) fn prefetch_entry(self) -> bool {
        if self.group.prefetch_entry(tag(self.hash)) || self.group.overflow() == 0 {
            return false;
        }
        self.table.group_behind(self.hash).prefetch();
        true
    }
}

/// The position of an entry; valid until the table changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    segment: u32,
    group: u32,
    slot: u32,
}

/// The progress of a scan: every entry before it in (prefix, position) order was returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanPosition {
    /// Directory bits of the hash.
    pub(crate) prefix: u32,
    /// Number of these bits that identified the last segment.
    pub(crate) depth: u8,
    /// Position in the segment, 0 to 4,095.
    pub(crate) position: u16,
}

impl Table {
    pub(crate) const fn new() -> Self {
        Table {
            directory: Vec::new(),
            segments: Vec::new(),
            depth: 0,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<Place> {
        self.locate(hash, key).map(|(place, _)| place)
    }

    /// Returns the key's entry and its place.
    #[inline]
    pub(crate) fn locate(&self, hash: u64, key: &[u8]) -> Option<(Place, &Entry)> {
        self.locate_by(hash, |entry| is_same(entry.key(), key))
    }

    /// Finds the entry with this hash that `accepts` returns true for.
    #[inline]
    pub(crate) fn find_by(&self, hash: u64, accepts: impl Fn(&Entry) -> bool) -> Option<Place> {
        self.locate_by(hash, accepts).map(|(place, _)| place)
    }

    #[inline]
    fn locate_by(&self, hash: u64, accepts: impl Fn(&Entry) -> bool) -> Option<(Place, &Entry)> {
        if self.len == 0 {
            return None;
        }
        let index = self.segment_of(hash);
        let groups = &self.segments[index].groups;
        let (bits, tag) = (hash_bits(hash), tag(hash));
        let mut at = home(position(bits, tag), groups.len());
        for _ in 0..groups.len() {
            let group = &groups[at];
            let mut candidates = group.matches(tag);
            while candidates != 0 {
                let slot = candidates.trailing_zeros();
                candidates &= candidates - 1;
                if let Some(entry) = &group.slots[slot as usize]
                    && entry.hash_bits() == bits
                    && accepts(entry)
                {
                    let place = Place {
                        segment: index as u32,
                        group: at as u32,
                        slot,
                    };
                    return Some((place, entry));
                }
            }
            if group.overflow() == 0 {
                return None;
            }
            at = next_group(at, groups.len());
        }
        None
    }

    /// Returns the group where a lookup of this hash begins, for prefetching.
    #[inline]
    pub(crate) fn home(&self, hash: u64) -> Option<Home<'_>> {
        (self.len != 0).then(|| Home {
            table: self,
            group: self.home_group(hash),
            hash,
        })
    }

    /// Prefetches the entry of this hash if it is in the next group.
    #[cold]
    pub(crate) fn prefetch_passed(&self, hash: u64) {
        if self.len != 0 {
            self.group_behind(hash).prefetch_entry(tag(hash));
        }
    }

    #[inline]
    fn home_group(&self, hash: u64) -> &Group {
        let groups = &self.segments[self.segment_of(hash)].groups;
        &groups[home(position(hash_bits(hash), tag(hash)), groups.len())]
    }

    #[cold]
    fn group_behind(&self, hash: u64) -> &Group {
        let groups = &self.segments[self.segment_of(hash)].groups;
        let home = home(position(hash_bits(hash), tag(hash)), groups.len());
        &groups[next_group(home, groups.len())]
    }

    #[inline]
    pub(crate) fn entry(&self, place: Place) -> &Entry {
        self.segments[place.segment as usize].groups[place.group as usize].slots
            [place.slot as usize]
            .as_ref()
            .expect("a place has an entry until the table changes")
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, place: Place) -> &mut Entry {
        self.segments[place.segment as usize].groups[place.group as usize].slots
            [place.slot as usize]
            .as_mut()
            .expect("a place has an entry until the table changes")
    }

    /// Adds an entry whose key is not in the table.
    pub(crate) fn insert(&mut self, hash: u64, entry: Entry) -> Place {
        debug_assert_eq!(entry.hash_bits(), hash_bits(hash));
        debug_assert!(
            self.find(hash, entry.key()).is_none(),
            "a key is in the table only once"
        );
        if self.segments.is_empty() {
            self.segments.reserve_exact(1);
            self.segments.push(Segment::new(1, 0, 0));
        }
        let mut index = self.segment_of(hash);
        while self.segments[index].is_full() {
            let segment = &mut self.segments[index];
            if segment.groups.len() < GROUPS_MAX {
                segment.resize(Groups::more(segment.groups.len()));
            } else {
                assert!(
                    segment.depth < DEPTH_MAX,
                    "a table of more than 3e9 entries"
                );
                self.split(index);
                index = self.segment_of(hash);
            }
        }
        self.len += 1;
        let (group, slot) = self.segments[index].insert(entry, tag(hash));
        Place {
            segment: index as u32,
            group: group as u32,
            slot: slot as u32,
        }
    }

    /// Removes and returns an entry, and frees memory if much is unused.
    pub(crate) fn remove(&mut self, place: Place) -> Entry {
        let index = place.segment as usize;
        let segment = &mut self.segments[index];
        debug_assert!(segment.len <= self.len);
        let entry = segment.remove(place.group as usize, place.slot as usize);
        self.len -= 1;
        if self.len == 0 {
            *self = Table::new();
        } else if segment.is_sparse() {
            self.shrink(index);
        }
        entry
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.segments
            .iter()
            .flat_map(|segment| segment.groups.iter())
            .flat_map(|group| group.slots.iter().flatten())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.segments
            .iter_mut()
            .flat_map(|segment| segment.groups.iter_mut())
            .flat_map(|group| group.slots.iter_mut().flatten())
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> usize {
        let groups = self.segments.iter().map(|segment| segment.groups.len());
        groups.sum::<usize>() * SLOTS
    }

    /// Returns the table's own memory in bytes, without entries.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.directory.capacity() * size_of::<u32>()
            + self.segments.capacity() * size_of::<Segment>()
            + self
                .segments
                .iter()
                .map(|segment| segment.groups.len())
                .sum::<usize>()
                * 128
    }

    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        self.segment_of_prefix(prefix(hash))
    }

    #[inline]
    fn segment_of_prefix(&self, prefix: u32) -> usize {
        debug_assert!(prefix < 1 << DEPTH_MAX);
        if self.depth == 0 {
            return 0;
        }
        self.directory[(prefix >> (DEPTH_MAX - self.depth)) as usize] as usize
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Table")
            .field("len", &self.len)
            .field("segments", &self.segments.len())
            .field("depth", &self.depth)
            .finish()
    }
}

/// Returns whether two keys are equal. Short keys, the usual case, are compared without a call.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        16..=32 => ends::<16>(one) == ends(other),
        8..16 => ends::<8>(one) == ends(other),
        4..8 => ends::<4>(one) == ends(other),
        1..4 => ends::<1>(one) == ends(other) && one[one.len() / 2] == other[other.len() / 2],
        _ => one == other,
    }
}

/// Returns the first and the last `COUNT` bytes; they overlap if the key is shorter than both.
#[inline]
fn ends<const COUNT: usize>(key: &[u8]) -> (Option<&[u8; COUNT]>, Option<&[u8; COUNT]>) {
    (key.first_chunk(), key.last_chunk())
}

/// Returns the tag of a hash; never `EMPTY`.
#[inline]
fn tag(hash: u64) -> u8 {
    ((hash >> 32) as u8).max(1)
}

/// Returns the directory bits of a hash: ten that entries store in their pointers, then twelve
/// others.
#[inline]
fn prefix(hash: u64) -> u32 {
    ((hash >> 46 & 0x3FF) as u32) << 12 | (hash >> 20 & 0xFFF) as u32
}

const _: () = assert!(
    POSITIONS == 1 << (ORDER_FINE_BITS + 6),
    "a position is the fine bits and six of the tag"
);
const _: () = assert!(
    DEPTH_KEPT + ORDER_FINE_BITS == u16::BITS,
    "an entry's pointer keeps 16 bits of the hash"
);

const POSITIONS: usize = 4096;
/// Maximum depth: four million segments of 800 entries.
const DEPTH_MAX: u32 = 22;
/// Number of directory bits in an entry's pointer.
const DEPTH_KEPT: u32 = 10;
/// Number of the other bits there.
const ORDER_FINE_BITS: u32 = 6;
/// The end of the order given by the bits in entries' pointers.
pub(crate) const ORDER_END: u32 = 1 << (DEPTH_KEPT + ORDER_FINE_BITS);

#[cfg(test)]
mod tests;
