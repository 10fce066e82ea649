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
//! the pointer's 16 bits, then the key. A full segment grows by an eighth until it has 64 groups
//! and then splits in two; only these at most 900 entries move, by bits that lie in the table, so
//! that no entry's memory is touched. There is no rehashing and no tombstone: a group counts the
//! entries that passed it because it was full, and a miss ends at the first group that counts none.
//!
//! Entries lie in the order of their position whatever the number of groups, which is what makes
//! scan cursors survive growing, splitting and shrinking.

use std::fmt;

use crate::entry::Entry;
use crate::hash;

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
    /// The upper 16 bits of the hash behind the shard's.
    pub(crate) prefix: u16,
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
        let groups = &self.segments[index].groups[..];
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

    /// Asks the processor to fetch what a lookup of this hash reads first.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if self.len == 0 {
            return;
        }
        let groups = &self.segments[self.segment_of(hash)].groups[..];
        let (bits, tag) = (hash_bits(hash), tag(hash));
        let group = &groups[home(position(bits, tag), groups.len())];
        let candidates = group.matches(tag);
        if candidates != 0
            && let Some(entry) = &group.slots[candidates.trailing_zeros() as usize]
        {
            entry.prefetch();
        }
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
            self.segments.push(Segment::new(1, 0, 0));
        }
        let mut index = self.segment_of(hash);
        while self.segments[index].is_full() {
            let segment = &mut self.segments[index];
            if segment.groups.len() < GROUPS_MAX || segment.depth >= DEPTH_MAX {
                segment.resize(more_groups(segment.groups.len()));
            } else {
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
    /// there all the time at least once, whatever happens between the steps.
    pub(crate) fn scan_step<'t>(
        &'t self,
        at: ScanPosition,
        mut show: impl FnMut(&'t Entry),
    ) -> Option<ScanPosition> {
        if self.len == 0 {
            return None;
        }
        let segment = &self.segments[self.segment_of_prefix(at.prefix)];
        // Two segments became one: what was seen of the one says nothing about the other.
        let merged = segment.depth < u32::from(at.depth);
        let from = if merged {
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
        let next = u16::try_from(next).ok()?;
        Some(ScanPosition {
            prefix: next,
            depth: 0,
            position: 0,
        })
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

    /// Bytes of the table's own memory, entries not included.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.directory.capacity() * size_of::<u32>()
            + self.segments.capacity() * size_of::<Segment>()
            + self
                .segments
                .iter()
                .map(|segment| segment.groups.len())
                .sum::<usize>()
                * size_of::<Group>()
    }

    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        self.segment_of_prefix(prefix(hash))
    }

    #[inline]
    fn segment_of_prefix(&self, prefix: u16) -> usize {
        if self.depth == 0 {
            return 0;
        }
        self.directory[usize::from(prefix) >> (DEPTH_MAX - self.depth)] as usize
    }

    /// Splits a segment by the next bit of its entries' hashes.
    fn split(&mut self, index: usize) {
        let old = &self.segments[index];
        let depth = old.depth + 1;
        let prefix = old.prefix;
        if depth > self.depth {
            self.double_directory();
        }
        let groups = more_groups(GROUPS_MAX / 2);
        let old = std::mem::replace(
            &mut self.segments[index],
            Segment::new(groups, depth, prefix << 1),
        );
        let mut upper = Segment::new(groups, depth, prefix << 1 | 1);
        for (entry, tag) in old.into_entries() {
            let half = if prefix_of(&entry, depth) >> (DEPTH_MAX - depth) & 1 == 0 {
                &mut self.segments[index]
            } else {
                &mut upper
            };
            if half.is_full() {
                half.resize(more_groups(half.groups.len()));
            }
            half.insert(entry, tag);
        }
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
        let taken = self.segments.swap_remove(drop);
        if drop < self.segments.len() {
            self.point_directory_at(drop);
        }
        let kept = &self.segments[keep];
        let mut merged = Segment::new(
            groups_for(kept.len + taken.len),
            kept.depth - 1,
            kept.prefix >> 1,
        );
        let kept = std::mem::replace(&mut self.segments[keep], Segment::new(1, 0, 0));
        for (entry, tag) in kept.into_entries().chain(taken.into_entries()) {
            merged.insert(entry, tag);
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
    groups: Box<[Group]>,
    len: usize,
    /// How many bits the prefix has.
    depth: u32,
    /// The upper bits of every entry's hash behind the shard's.
    prefix: u32,
}

impl Segment {
    fn new(groups: usize, depth: u32, prefix: u32) -> Self {
        let groups = (0..groups).map(|_| Group::new()).collect();
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

    fn first_prefix(&self) -> u16 {
        (self.prefix << (DEPTH_MAX - self.depth)) as u16
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
            // A count that reaches its end stays there until the segment is next laid out anew.
            group.head[OVERFLOW] = group.head[OVERFLOW].saturating_add(1);
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
            let overflow = &mut self.groups[at].head[OVERFLOW];
            *overflow -= u8::from(*overflow != u8::MAX);
            at = next_group(at, self.groups.len());
        }
        self.len -= 1;
        entry
    }

    fn resize(&mut self, groups: usize) {
        let new = Segment::new(groups, self.depth, self.prefix);
        let old = std::mem::replace(self, new);
        for (entry, tag) in old.into_entries() {
            self.insert(entry, tag);
        }
    }

    fn into_entries(self) -> impl Iterator<Item = (Entry, u8)> {
        self.groups.into_iter().flat_map(|group| {
            let head = group.head;
            group
                .slots
                .into_iter()
                .enumerate()
                .filter_map(move |(slot, entry)| entry.map(|entry| (entry, head[slot])))
        })
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

/// Two cache lines: tags and the first six entries, then the other eight.
#[repr(C, align(64))]
struct Group {
    /// Fourteen tags, the overflow count, one byte unused.
    head: [u8; 16],
    slots: [Option<Entry>; SLOTS],
}

impl Group {
    fn new() -> Self {
        Group {
            head: [EMPTY; 16],
            slots: [const { None }; SLOTS],
        }
    }

    #[inline]
    fn overflow(&self) -> u8 {
        self.head[OVERFLOW]
    }

    /// Bit n: slot n has this tag.
    #[inline]
    fn matches(&self, tag: u8) -> u32 {
        matches16(&self.head, tag) & ((1 << SLOTS) - 1)
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument holds for all"
)]
#[inline]
fn matches16(head: &[u8; 16], tag: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let word = u128::from_le_bytes(*head);
    // SAFETY: these need SSE2 and nothing else, and every x86-64 processor has it.
    unsafe {
        let tags = _mm_set_epi64x((word >> 64) as i64, word as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn matches16(head: &[u8; 16], tag: u8) -> u32 {
    matches16_portable(head, tag)
}

/// Eight tags a word: a byte is zero where the tag is the one.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn matches16_portable(head: &[u8; 16], tag: u8) -> u32 {
    let word = u128::from_le_bytes(*head);
    let half = |word: u64| {
        const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
        let difference = word ^ u64::from(tag) * 0x0101_0101_0101_0101;
        // Exact: no carry crosses a byte.
        let zero = !(((difference & LOW) + LOW) | difference | LOW);
        ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    half(word as u64) | half((word >> 64) as u64) << 8
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

/// The directory bits of a hash: ten that entries keep in their pointers, then six others.
#[inline]
fn prefix(hash: u64) -> u16 {
    (hash >> 40) as u16 & !63 | (hash >> 26) as u16 & 63
}

/// The first `depth` directory bits of an entry's hash. Only a table with more than a thousand
/// segments has to read keys.
fn prefix_of(entry: &Entry, depth: u32) -> u16 {
    if depth <= DEPTH_KEPT {
        entry.hash_bits()
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

/// The next size up: four sizes a doubling, which are also the allocators' size classes, so that
/// rounding up wastes nothing.
fn more_groups(groups: usize) -> usize {
    let step = (groups.next_power_of_two() / 8).max(1);
    let step = if groups.is_power_of_two() { (groups / 4).max(1) } else { step };
    (groups / step + 1) * step
}

/// The least size with room for this many entries and a tenth more.
fn groups_for(len: usize) -> usize {
    let mut groups = 1;
    while capacity(groups) < len * 11 / 10 {
        groups = more_groups(groups);
    }
    groups
}

const SLOTS: usize = 14;
const OVERFLOW: usize = 14;
const EMPTY: u8 = 0;
const GROUPS_MAX: usize = 64;
const SEGMENT_ENTRIES_MAX: usize = GROUPS_MAX * SLOTS;
const POSITIONS: usize = 4096;
/// 65,536 segments of 800 entries in each of 256 shards: 13 thousand million keys.
const DEPTH_MAX: u32 = 16;
/// Directory bits in an entry's pointer.
const DEPTH_KEPT: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::NewValue;
    use std::collections::HashSet;

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
    fn both_ways_to_compare_tags_agree() {
        let mut head = [0u8; 16];
        for seed in 0..4096u32 {
            for (index, byte) in head.iter_mut().enumerate() {
                *byte = ((seed >> (index % 12)) as u8 & 3).wrapping_mul(0x55);
            }
            for tag in [0, 0x55, 0xAA, 0xFF, 1, 0x54] {
                let plain = (0..16).fold(0, |bits, at| bits | u32::from(head[at] == tag) << at);
                assert_eq!(matches16(&head, tag), plain);
                assert_eq!(matches16_portable(&head, tag), plain);
            }
        }
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
                // Waves: grow for a while, then take everything away again.
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
                assert!(step < 200_000);
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
