//! Extendible hashing: a directory of segments, segments of 14-slot groups, a tag a slot.
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
//! A lookup is: directory by the hash's prefix, group by its position, tags compared at once, then
//! the pointer's 16 bits, then the key. A full segment grows by eight groups until it has 64
//! and then splits in two; only these at most 900 entries move, by bits that lie in the table, so
//! that no entry's memory is touched. There is no rehashing and no tombstone: a group counts the
//! entries that passed it because it was full, and a miss ends at the first group that counts none.
//!
//! Entries lie in the order of their position whatever the number of groups, which is what makes
//! scan cursors survive growing, splitting and shrinking.

use std::fmt;

use crate::entry::Entry;
use crate::hash;

mod groups;
use groups::{EMPTY, GROUPS_MAX, Group, Groups, SLOTS};

/// A map from keys to entries. Empty, it owns no memory.
pub(crate) struct Table {
    /// Index of the segment for each prefix of `depth` bits; empty while there is one segment.
    directory: Vec<u32>,
    segments: Vec<Segment>,
    depth: u32,
    len: usize,
}

/// Where an entry lies; good until the table is next changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    segment: u32,
    group: u32,
    slot: u32,
}

/// How far a scan has come: every entry before it in (prefix, position) order was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanPosition {
    /// The directory bits of the hash.
    pub(crate) prefix: u32,
    /// How many bits of it told the segment apart when it was last seen.
    pub(crate) depth: u8,
    /// 0 to 4,095.
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
        self.find_by(hash, |entry| entry.key() == key)
    }

    /// Finds the entry with this hash that `accepts` says is the one.
    #[inline]
    pub(crate) fn find_by(&self, hash: u64, accepts: impl Fn(&Entry) -> bool) -> Option<Place> {
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
                    return Some(Place {
                        segment: index as u32,
                        group: at as u32,
                        slot,
                    });
                }
            }
            if group.overflow() == 0 {
                return None;
            }
            at = next_group(at, groups.len());
        }
        None
    }

    /// Asks the processor to fetch the group that a lookup of this hash reads first.
    #[inline]
    pub(crate) fn prefetch_group(&self, hash: u64) {
        if self.len != 0 {
            self.home_group(hash).prefetch();
        }
    }

    /// Asks the processor to fetch the entry that this hash most likely stands for. Waits for the
    /// group, so [`prefetch_group`](Self::prefetch_group) comes some time before it.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        if self.len == 0 {
            return;
        }
        let group = self.home_group(hash);
        let candidates = group.matches(tag(hash));
        if candidates != 0
            && let Some(entry) = &group.slots[candidates.trailing_zeros() as usize]
        {
            entry.prefetch();
        }
    }

    #[inline]
    fn home_group(&self, hash: u64) -> &Group {
        let groups = &self.segments[self.segment_of(hash)].groups;
        &groups[home(position(hash_bits(hash), tag(hash)), groups.len())]
    }

    #[inline]
    pub(crate) fn entry(&self, place: Place) -> &Entry {
        self.segments[place.segment as usize].groups[place.group as usize].slots
            [place.slot as usize]
            .as_ref()
            .expect("a place holds an entry until the table changes")
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, place: Place) -> &mut Entry {
        self.segments[place.segment as usize].groups[place.group as usize].slots
            [place.slot as usize]
            .as_mut()
            .expect("a place holds an entry until the table changes")
    }

    /// Adds an entry whose key is not in the table.
    pub(crate) fn insert(&mut self, hash: u64, entry: Entry) -> Place {
        debug_assert_eq!(entry.hash_bits(), hash_bits(hash));
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

    /// Takes the entry out and gives memory back where much is unused.
    pub(crate) fn remove(&mut self, place: Place) -> Entry {
        let index = place.segment as usize;
        let segment = &mut self.segments[index];
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

    /// Shows the entries of one group's worth of positions; returns where to go on.
    ///
    /// Whoever starts at the default position and goes on to the end sees every entry that was
    /// there all the time at least once, whatever happens between the steps. It ends unless the
    /// table keeps on splitting and merging a segment in less time than the segment is walked.
    pub(crate) fn scan_step<'t>(
        &'t self,
        at: ScanPosition,
        mut show: impl FnMut(&'t Entry),
    ) -> Option<ScanPosition> {
        if self.len == 0 {
            return None;
        }
        let segment = &self.segments[self.segment_of_prefix(at.prefix)];
        // Segments became one. If the one last seen was the last of them, those before it have been
        // seen whole, and its position holds for all. Else nothing is known of those behind it.
        let merged = segment.depth < u32::from(at.depth);
        // A client may send any cursor: no depth and no prefix is taken for granted.
        let last_of_them = || {
            let width = DEPTH_MAX
                .checked_sub(u32::from(at.depth))
                .map(|bits| 1 << bits);
            width.is_some_and(|width| at.prefix.checked_add(width) == Some(segment.end_prefix()))
        };
        let from = if merged && !last_of_them() {
            0
        } else {
            usize::from(at.position) % POSITIONS
        };
        let count = segment.groups.len();
        let group = home(from, count);
        let end = (POSITIONS * (group + 1)).div_ceil(count);
        segment.each_of(from..end, &mut show);
        if end < POSITIONS {
            let prefix = segment.first_prefix();
            return Some(ScanPosition {
                prefix,
                depth: segment.depth as u8,
                position: end as u16,
            });
        }
        let next = segment.end_prefix();
        (next < 1 << DEPTH_MAX).then_some(ScanPosition {
            prefix: next,
            depth: 0,
            position: 0,
        })
    }

    /// Entries from `from` on in the order of the hash bits that stand in the table, each with its
    /// place in that order, and where the next ones begin: [`ORDER_END`] behind the last. All that
    /// have a place before that are shown, in no order; about a segment of them.
    pub(crate) fn part(&self, from: u32) -> (Vec<(u32, &Entry)>, u32) {
        let mut entries = Vec::new();
        if self.len == 0 {
            return (entries, ORDER_END);
        }
        let first = from >> ORDER_FINE_BITS << (DEPTH_MAX - DEPTH_KEPT);
        let mut prefix = first;
        // Segments that are told apart by bits that the order does not have go together.
        loop {
            let segment = &self.segments[self.segment_of_prefix(prefix)];
            let slots = segment.groups.iter().flat_map(|group| &group.slots);
            let shown = slots.flatten().filter_map(|entry| {
                let order = u32::from(entry.hash_bits());
                (order >= from).then_some((order, entry))
            });
            entries.extend(shown);
            prefix = segment.end_prefix();
            if prefix.is_multiple_of(1 << (DEPTH_MAX - DEPTH_KEPT)) {
                break;
            }
        }
        let end = prefix >> (DEPTH_MAX - DEPTH_KEPT) << ORDER_FINE_BITS;
        (entries, end)
    }

    /// An entry chosen by `random`, or `None` of an empty table. Fair enough for RANDOMKEY.
    pub(crate) fn random(&self, mut random: impl FnMut() -> u64) -> Option<&Entry> {
        if self.len == 0 {
            return None;
        }
        loop {
            let at = random();
            let segment = if self.depth == 0 {
                &self.segments[0]
            } else {
                &self.segments[self.directory[at as usize % self.directory.len()] as usize]
            };
            if segment.len == 0 {
                continue;
            }
            let group = &segment.groups[(at >> 32) as usize % segment.groups.len()];
            if let Some(entry) = &group.slots[(at >> 48) as usize % SLOTS] {
                return Some(entry);
            }
        }
    }

    /// Shows entries, at most `count`: neighbours, from a place that `random` chooses. Of a table
    /// that is not empty it shows one at least.
    pub(crate) fn sample<'t>(&'t self, random: u64, count: usize, mut show: impl FnMut(&'t Entry)) {
        let mut left = count;
        let (first, start, turn) = (random as u32, (random >> 32) as u16, (random >> 48) as u16);
        for number in 0..self.segments.len() {
            let segment = &self.segments[(first as usize + number) % self.segments.len()];
            for group in 0..segment.groups.len() {
                let group = &segment.groups[(usize::from(start) + group) % segment.groups.len()];
                // Entries lie anywhere: their cache misses overlap.
                group.slots.iter().flatten().for_each(Entry::prefetch);
                for slot in 0..SLOTS {
                    if let Some(entry) = &group.slots[(usize::from(turn) + slot) % SLOTS] {
                        show(entry);
                        left -= 1;
                        if left == 0 {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Places for entries.
    pub(crate) fn slots(&self) -> usize {
        let groups = self.segments.iter().map(|segment| segment.groups.len());
        groups.sum::<usize>() * SLOTS
    }

    /// Bytes of the table's own memory, entries not included.
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
        if self.depth == 0 {
            return 0;
        }
        self.directory[(prefix >> (DEPTH_MAX - self.depth)) as usize] as usize
    }

    /// Splits a segment by the next bit of its entries' hashes.
    fn split(&mut self, index: usize) {
        let old = &self.segments[index];
        let depth = old.depth + 1;
        let prefix = old.prefix;
        if depth > self.depth {
            self.double_directory();
        }
        let groups = Groups::more(GROUPS_MAX / 2);
        let mut old = std::mem::replace(
            &mut self.segments[index],
            Segment::new(groups, depth, prefix << 1),
        );
        let mut upper = Segment::new(groups, depth, prefix << 1 | 1);
        old.groups.take_entries(|entry, tag| {
            let half = if prefix_of(&entry, depth) >> (DEPTH_MAX - depth) & 1 == 0 {
                &mut self.segments[index]
            } else {
                &mut upper
            };
            if half.is_full() {
                half.resize(Groups::more(half.groups.len()));
            }
            half.insert(entry, tag);
        });
        self.segments.push(upper);
        self.point_directory_at(index);
        self.point_directory_at(self.segments.len() - 1);
    }

    fn double_directory(&mut self) {
        self.directory = if self.depth == 0 {
            vec![0, 0]
        } else {
            self.directory
                .iter()
                .flat_map(|&index| [index, index])
                .collect()
        };
        self.depth += 1;
    }

    fn point_directory_at(&mut self, index: usize) {
        if self.depth > 0 {
            let segment = &self.segments[index];
            let shift = self.depth - segment.depth;
            let first = (segment.prefix as usize) << shift;
            self.directory[first..first + (1 << shift)].fill(index as u32);
        }
    }

    /// Merges a sparse segment with its neighbour, or makes it smaller.
    fn shrink(&mut self, index: usize) {
        let segment = &self.segments[index];
        if segment.depth > 0 {
            let neighbour = self.neighbour_of(index);
            if self.segments[neighbour].depth == segment.depth
                && self.segments[neighbour].len + segment.len <= SEGMENT_ENTRIES_MAX / 2
            {
                self.merge(index, neighbour);
                return;
            }
        }
        let segment = &mut self.segments[index];
        segment.resize(groups_for(segment.len));
    }

    /// The segment whose prefix differs in the last bit only, or one of its parts.
    fn neighbour_of(&self, index: usize) -> usize {
        let segment = &self.segments[index];
        let prefix = (segment.prefix ^ 1) << (self.depth - segment.depth);
        self.directory[prefix as usize] as usize
    }

    fn merge(&mut self, index: usize, neighbour: usize) {
        let (keep, drop) = (index.min(neighbour), index.max(neighbour));
        let mut taken = self.segments.swap_remove(drop);
        if drop < self.segments.len() {
            self.point_directory_at(drop);
        }
        let kept = &self.segments[keep];
        let mut merged = Segment::new(
            groups_for(kept.len + taken.len),
            kept.depth - 1,
            kept.prefix >> 1,
        );
        for groups in [&mut self.segments[keep].groups, &mut taken.groups] {
            groups.take_entries(|entry, tag| {
                merged.insert(entry, tag);
            });
        }
        self.segments[keep] = merged;
        self.point_directory_at(keep);
        self.halve_directory();
    }

    /// Looks only once the directory is mostly redundant, so that this costs nothing a merge.
    fn halve_directory(&mut self) {
        while self.depth > 0
            && self.segments.len() * 2 <= self.directory.len().max(2)
            && self
                .segments
                .iter()
                .all(|segment| segment.depth < self.depth)
        {
            self.depth -= 1;
            self.directory = if self.depth == 0 {
                Vec::new()
            } else {
                self.directory.iter().step_by(2).copied().collect()
            };
            self.segments.shrink_to_fit();
        }
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

/// The 16 bits of a hash that an entry keeps in its pointer: directory bits, then fine bits.
#[inline]
pub(crate) fn hash_bits(hash: u64) -> u16 {
    (hash >> 40) as u16
}

struct Segment {
    groups: Groups,
    len: usize,
    /// How many bits the prefix has.
    depth: u32,
    /// The upper bits of every entry's hash behind the shard's.
    prefix: u32,
}

impl Segment {
    fn new(groups: usize, depth: u32, prefix: u32) -> Self {
        let groups = Groups::new(groups);
        Segment {
            groups,
            len: 0,
            depth,
            prefix,
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.len >= capacity(self.groups.len())
    }

    /// Under a quarter full, by more than rounding.
    fn is_sparse(&self) -> bool {
        self.groups.len() > 1 && self.len * 4 < capacity(self.groups.len())
            || self.depth > 0 && self.len == 0
    }

    fn first_prefix(&self) -> u32 {
        self.prefix << (DEPTH_MAX - self.depth)
    }

    fn end_prefix(&self) -> u32 {
        (self.prefix + 1) << (DEPTH_MAX - self.depth)
    }

    /// There must be an empty slot.
    fn insert(&mut self, entry: Entry, tag: u8) -> (usize, usize) {
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

    fn remove(&mut self, group: usize, slot: usize) -> Entry {
        let tag = std::mem::replace(&mut self.groups[group].head[slot], EMPTY);
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

    fn resize(&mut self, groups: usize) {
        let mut entries = Vec::with_capacity(self.len);
        self.groups
            .take_entries(|entry, tag| entries.push((entry, tag)));
        self.groups.set_len(groups);
        self.len = 0;
        for (entry, tag) in entries {
            self.insert(entry, tag);
        }
    }

    /// Shows the entries with a position in the range, which lies in one group's.
    fn each_of<'t>(&'t self, range: std::ops::Range<usize>, show: &mut impl FnMut(&'t Entry)) {
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

/// Never `EMPTY`.
#[inline]
fn tag(hash: u64) -> u8 {
    ((hash >> 32) as u8).max(1)
}

/// Where in its segment an entry belongs, 0 to 4,095: six bits of the pointer, six of the tag.
#[inline]
fn position(hash_bits: u16, tag: u8) -> usize {
    usize::from(hash_bits & 63) << 6 | usize::from(tag & 63)
}

#[inline]
fn home(position: usize, groups: usize) -> usize {
    position * groups / POSITIONS
}

#[inline]
fn next_group(at: usize, groups: usize) -> usize {
    if at + 1 == groups { 0 } else { at + 1 }
}

/// The directory bits of a hash: ten that entries keep in their pointers, then twelve others.
#[inline]
fn prefix(hash: u64) -> u32 {
    ((hash >> 46 & 0x3FF) as u32) << 12 | (hash >> 20 & 0xFFF) as u32
}

/// At least the first `depth` directory bits of an entry's hash. Only a table with more than a
/// thousand segments has to read keys.
fn prefix_of(entry: &Entry, depth: u32) -> u32 {
    if depth <= DEPTH_KEPT {
        u32::from(entry.hash_bits() >> 6) << 12
    } else {
        prefix(hash::of(entry.key()))
    }
}

/// A lone group may be full: nothing passes it. More are full at 29/32.
#[inline]
fn capacity(groups: usize) -> usize {
    if groups == 1 {
        SLOTS
    } else {
        groups * SLOTS * 29 / 32
    }
}

/// The least size with room for this many entries and a tenth more.
fn groups_for(len: usize) -> usize {
    let mut groups = 1;
    while capacity(groups) < len * 11 / 10 {
        groups = Groups::more(groups);
    }
    groups
}

const SEGMENT_ENTRIES_MAX: usize = GROUPS_MAX * SLOTS;
const POSITIONS: usize = 4096;
/// Four million segments of 800 entries.
const DEPTH_MAX: u32 = 22;
/// Directory bits in an entry's pointer.
const DEPTH_KEPT: u32 = 10;
/// The other bits there.
const ORDER_FINE_BITS: u32 = 6;
/// Behind every place in the order of the bits in entries' pointers.
pub(crate) const ORDER_END: u32 = 1 << (DEPTH_KEPT + ORDER_FINE_BITS);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::entry::NewValue;

    fn name(index: u64) -> Vec<u8> {
        format!("key:{index}").into_bytes()
    }

    fn add(table: &mut Table, index: u64) {
        let key = name(index);
        let hash = hash::of(&key);
        assert!(table.find(hash, &key).is_none());
        let place = table.insert(hash, Entry::new(hash, &key, NewValue::Integer(0), false));
        assert_eq!(table.entry(place).key(), key);
    }

    fn take(table: &mut Table, index: u64) {
        let key = name(index);
        let place = table.find(hash::of(&key), &key).expect("present");
        assert_eq!(table.remove(place).key(), key);
    }

    #[test]
    fn grows_past_the_kept_bits_and_gives_memory_back() {
        let mut table = Table::new();
        let count = 1_200_000;
        for index in 0..count {
            add(&mut table, index);
        }
        assert!(table.depth > DEPTH_KEPT);
        assert!(
            table.memory_bytes() < count as usize * 13,
            "{}",
            table.memory_bytes()
        );
        for index in 0..count {
            let key = name(index);
            assert!(table.find(hash::of(&key), &key).is_some());
        }
        for index in 0..count - 100 {
            take(&mut table, index);
        }
        assert_eq!((table.len(), table.iter().count()), (100, 100));
        assert!(table.memory_bytes() < 40_000, "{}", table.memory_bytes());
        for index in count - 100..count {
            take(&mut table, index);
        }
        assert_eq!(table.memory_bytes(), 0);
    }

    #[test]
    fn a_scan_sees_all_that_stays_while_the_table_grows_and_shrinks() {
        for seed in 0..40u64 {
            let mut table = Table::new();
            let stays = 700 + seed * 50;
            for index in 0..stays {
                add(&mut table, index);
            }
            let mut others = Vec::new();
            let mut next = 1_000_000;
            let mut seen = HashSet::new();
            let mut at = ScanPosition::default();
            let mut step = 0;
            loop {
                let show = |entry: &Entry| {
                    seen.insert(entry.key().to_vec());
                };
                let Some(position) = table.scan_step(at, show) else {
                    break;
                };
                at = position;
                step += 1;
                assert!(step < 200_000, "seed {seed}: the scan does not end");
                // Waves: grow for a while, then take everything away again. They end some time, as
                // a scan needs it: waves shorter than a segment's walk can hold it up for ever.
                if step > 4_000 {
                    continue;
                }
                if step / 40 % 2 == seed % 2 {
                    for _ in 0..100 {
                        add(&mut table, next);
                        others.push(next);
                        next += 1;
                    }
                } else {
                    for _ in 0..200 {
                        if let Some(index) = others.pop() {
                            take(&mut table, index);
                        }
                    }
                }
            }
            assert!(
                (0..stays).all(|index| seen.contains(&name(index))),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_scan_of_a_table_at_rest_shows_each_entry_once() {
        let mut table = Table::new();
        for index in 0..50_000 {
            add(&mut table, index);
        }
        let mut seen = Vec::new();
        let mut at = Some(ScanPosition::default());
        while let Some(position) = at {
            at = table.scan_step(position, |entry| seen.push(entry.key().to_vec()));
        }
        assert_eq!(seen.len(), 50_000);
        assert_eq!(seen.into_iter().collect::<HashSet<_>>().len(), 50_000);
    }

    #[test]
    fn parts_show_each_entry_once_while_the_table_changes() {
        for (stays, changes) in [(10, 5), (20_000, 30_000), (300, 0)] {
            let mut table = Table::new();
            for index in 0..stays {
                add(&mut table, index);
            }
            let (mut seen, mut at, mut next) = (Vec::new(), 0, 1_000_000);
            while at < ORDER_END {
                let (entries, end) = table.part(at);
                assert!(end > at);
                let own = entries.into_iter().map(|(order, entry)| {
                    assert!((at..end).contains(&order));
                    entry.key().to_vec()
                });
                seen.extend(own.collect::<Vec<_>>());
                at = end;
                for _ in 0..changes.min(500) {
                    add(&mut table, next);
                    next += 1;
                }
            }
            let all: HashSet<_> = seen.iter().collect();
            assert_eq!(all.len(), seen.len());
            assert!((0..stays).all(|index| all.contains(&name(index))));
        }
    }

    #[test]
    fn churn_at_one_size_needs_no_more_memory() {
        let mut table = Table::new();
        for index in 0..10_000 {
            add(&mut table, index);
        }
        let before = table.memory_bytes();
        for index in 0..200_000 {
            take(&mut table, index);
            add(&mut table, index + 10_000);
        }
        assert_eq!(table.len(), 10_000);
        assert!(table.memory_bytes() <= before * 3 / 2);
    }
}
