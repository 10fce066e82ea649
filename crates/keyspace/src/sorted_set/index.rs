//! Records by the hash of their members: extendible hashing over numbers alone.
//!
//! ```text
//!  hash   63                                            16 15             0
//!        ┌──────────────┬────────────────────────────────┬────────────────┐
//!        │ directory    │               …                │ fragment       │
//!        └──────────────┴────────────────────────────────┴────────────────┘
//! ```
//!
//! The directory leads to a segment of 127 slots; a slot holds a record's number and a fragment of
//! its hash, whose value tells where in the segment a search begins. A full segment splits in two,
//! and two that have emptied become one, so nothing ever waits for the whole index. A removal
//! closes the gap it leaves: there are no tombstones.

use crate::cache_line;

/// The records of one sorted set, by hash.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// A segment for each prefix of `depth` bits.
    directory: Vec<u32>,
    segments: Vec<Option<Box<IndexSegment>>>,
    /// Unused places in `segments`.
    free: Vec<u32>,
    depth: u32,
    /// How many segments there are of each depth.
    depths: [u32; DEPTH_MAX + 1],
}

#[derive(Clone, Debug)]
struct IndexSegment {
    /// Of the hashes; 0 where the slot is free.
    fragments: [u16; SLOTS],
    records: [u32; SLOTS],
    count: u8,
    /// How many bits of the hash all of its records share.
    depth: u8,
}

impl Default for Index {
    fn default() -> Self {
        let mut depths = [0; DEPTH_MAX + 1];
        depths[0] = 1;
        Index {
            directory: vec![0],
            segments: vec![Some(IndexSegment::new(0))],
            free: Vec::new(),
            depth: 0,
            depths,
        }
    }
}

impl Index {
    /// The record of this hash that `is` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let segment = self.segment(self.directory[prefix(hash, self.depth)]);
        segment.find(hash, is).map(|slot| segment.records[slot])
    }

    /// Asks the processor to fetch what [`find`](Self::find) reads first.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let segment = self.segment(self.directory[prefix(hash, self.depth)]);
        let slot = home(fragment(hash));
        cache_line::prefetch(&segment.fragments[slot]);
        cache_line::prefetch(&segment.records[slot]);
    }

    /// Adds a record; `hash_of` tells the hashes of those that are there.
    pub(super) fn insert(&mut self, hash: u64, record: u32, hash_of: impl Fn(u32) -> u64) {
        loop {
            let at = self.directory[prefix(hash, self.depth)];
            let segment = self.segment_mut(at);
            if usize::from(segment.count) < SLOTS_FULL || usize::from(segment.depth) == DEPTH_MAX {
                return segment.insert(hash, record);
            }
            self.split(hash, at, &hash_of);
        }
    }

    /// Takes a record out, if it is there.
    pub(super) fn remove(&mut self, hash: u64, record: u32) {
        let at = self.directory[prefix(hash, self.depth)];
        let segment = self.segment_mut(at);
        let Some(slot) = segment.find(hash, |other| other == record) else {
            return;
        };
        segment.remove(slot);
        if usize::from(segment.count) < SLOTS_FEW && segment.depth > 0 {
            self.merge(hash, at);
        }
    }

    /// Shows records in the order of their hashes from a cursor on, at least `count` if as many
    /// are left; returns the next cursor, 0 at the end. The first cursor is 0 as well.
    pub(super) fn scan(
        &self,
        mut cursor: u64,
        count: usize,
        hash_of: impl Fn(u32) -> u64,
        mut show: impl FnMut(u32),
    ) -> u64 {
        let mut shown = 0;
        let mut found = Vec::new();
        while cursor < CURSOR_END {
            let hash = cursor << FRAGMENT_BITS;
            let segment = self.segment(self.directory[prefix(hash, self.depth)]);
            found.clear();
            let records = segment.used().map(|slot| segment.records[slot]);
            found.extend(records.map(|record| (hash_of(record) >> FRAGMENT_BITS, record)));
            found.retain(|&(order, _)| order >= cursor);
            found.sort_unstable();
            for (at, &(order, record)) in found.iter().enumerate() {
                // Those of one order are shown together: the cursor cannot tell them apart.
                if shown >= count && at > 0 && found[at - 1].0 < order {
                    return order;
                }
                show(record);
                shown += 1;
            }
            let depth = u32::from(segment.depth);
            cursor = (prefix(hash, depth) as u64 + 1) << (CURSOR_BITS - depth);
            if shown >= count && cursor < CURSOR_END {
                return cursor;
            }
        }
        0
    }

    /// Bytes of the heap that the index takes.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let segments = self.segments.iter().flatten().count() * size_of::<IndexSegment>();
        segments + self.segments.capacity() * 8 + (self.directory.capacity() + self.free.len()) * 4
    }

    #[inline]
    fn segment(&self, at: u32) -> &IndexSegment {
        self.segments[at as usize]
            .as_deref()
            .expect("the directory leads to a segment")
    }

    #[inline]
    fn segment_mut(&mut self, at: u32) -> &mut IndexSegment {
        self.segments[at as usize]
            .as_deref_mut()
            .expect("the directory leads to a segment")
    }

    #[cold]
    fn split(&mut self, hash: u64, at: u32, hash_of: &impl Fn(u32) -> u64) {
        let old = self.segments[at as usize]
            .take()
            .expect("the directory leads to a segment");
        let depth = u32::from(old.depth);
        debug_assert!(depth < DEPTH_MAX as u32);
        if depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&at| [at, at]).collect();
            self.depth += 1;
        }
        self.depths[depth as usize] -= 1;
        self.depths[depth as usize + 1] += 2;
        let mut halves = [IndexSegment::new(depth + 1), IndexSegment::new(depth + 1)];
        for slot in old.used() {
            let hash = hash_of(old.records[slot]);
            halves[(hash >> (63 - depth) & 1) as usize].insert(hash, old.records[slot]);
        }
        let [lower, upper] = halves;
        debug_assert_eq!(lower.count + upper.count, old.count);
        self.segments[at as usize] = Some(lower);
        let other = match self.free.pop() {
            Some(free) => {
                self.segments[free as usize] = Some(upper);
                free
            }
            None => {
                self.segments.push(Some(upper));
                self.segments.len() as u32 - 1
            }
        };
        let upper = prefix(hash, depth) << 1 | 1;
        self.point(upper, depth + 1, other);
    }

    /// Makes one of a segment and of the other half of what it was split from, if they are small.
    #[cold]
    fn merge(&mut self, hash: u64, at: u32) {
        let depth = u32::from(self.segment(at).depth);
        let buddy = prefix(hash, depth) ^ 1;
        let other = self.directory[buddy << (self.depth - depth)];
        let (one, two) = (self.segment(at), self.segment(other));
        let count = usize::from(one.count) + usize::from(two.count);
        if one.depth != two.depth || count > SLOTS_MERGED {
            return;
        }
        debug_assert_ne!(at, other, "a segment's neighbour is another");
        let gone = self.segments[other as usize]
            .take()
            .expect("the directory leads to a segment");
        self.free.push(other);
        let segment = self.segment_mut(at);
        segment.depth -= 1;
        for slot in gone.used() {
            segment.insert(u64::from(gone.fragments[slot]), gone.records[slot]);
        }
        self.depths[depth as usize] -= 2;
        self.depths[depth as usize - 1] += 1;
        self.point(buddy >> 1, depth - 1, at);
        while self.depth > 0 && self.depths[self.depth as usize] == 0 {
            self.directory = self.directory.iter().step_by(2).copied().collect();
            self.depth -= 1;
        }
    }

    /// Leads all hashes that begin with this prefix of `depth` bits to a segment.
    fn point(&mut self, prefix: usize, depth: u32, at: u32) {
        let shift = self.depth - depth;
        debug_assert!((prefix + 1) << shift <= self.directory.len());
        self.directory[prefix << shift..(prefix + 1) << shift].fill(at);
    }
}

impl IndexSegment {
    fn new(depth: u32) -> Box<Self> {
        Box::new(IndexSegment {
            fragments: [0; SLOTS],
            records: [0; SLOTS],
            count: 0,
            depth: depth as u8,
        })
    }

    fn used(&self) -> impl Iterator<Item = usize> {
        (0..SLOTS).filter(|&slot| self.fragments[slot] != 0)
    }

    #[inline]
    fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<usize> {
        let wanted = fragment(hash);
        let mut slot = home(wanted);
        loop {
            let here = self.fragments[slot];
            if here == 0 {
                return None;
            }
            if here == wanted && is(self.records[slot]) {
                return Some(slot);
            }
            slot = next(slot);
        }
    }

    fn insert(&mut self, hash: u64, record: u32) {
        // A free slot must stay, for searches to end at. The hash's seed is drawn by the process,
        // so that no client can fill a segment of the greatest depth.
        assert!(usize::from(self.count) < SLOTS - 1);
        let fragment = fragment(hash);
        let mut slot = home(fragment);
        while self.fragments[slot] != 0 {
            slot = next(slot);
        }
        self.fragments[slot] = fragment;
        self.records[slot] = record;
        self.count += 1;
    }

    /// Frees a slot, and moves up what a search would no longer find behind it.
    fn remove(&mut self, mut gap: usize) {
        debug_assert!(self.fragments[gap] != 0 && self.count > 0);
        self.count -= 1;
        let mut slot = gap;
        loop {
            slot = next(slot);
            let fragment = self.fragments[slot];
            if fragment == 0 {
                self.fragments[gap] = 0;
                return;
            }
            debug_assert_ne!(slot, gap, "a free slot ends the walk");
            let from_home = (slot + SLOTS - home(fragment)) % SLOTS;
            let from_gap = (slot + SLOTS - gap) % SLOTS;
            if from_home >= from_gap {
                self.fragments[gap] = fragment;
                self.records[gap] = self.records[slot];
                gap = slot;
            }
        }
    }
}

/// The first `depth` bits.
#[inline]
fn prefix(hash: u64, depth: u32) -> usize {
    hash.checked_shr(64 - depth).unwrap_or(0) as usize
}

#[inline]
fn fragment(hash: u64) -> u16 {
    (hash as u16).max(1)
}

#[inline]
fn home(fragment: u16) -> usize {
    (usize::from(fragment) * SLOTS) >> FRAGMENT_BITS
}

#[inline]
fn next(slot: usize) -> usize {
    if slot + 1 == SLOTS { 0 } else { slot + 1 }
}

/// A segment is 768 bytes with them.
const SLOTS: usize = 127;
/// Records at which a segment splits.
const SLOTS_FULL: usize = 112;
/// Records below which a segment may merge with its other half,
const SLOTS_FEW: usize = 28;
/// if the two together have at most this many.
const SLOTS_MERGED: usize = 72;
const DEPTH_MAX: usize = 32;
const FRAGMENT_BITS: u32 = 16;
/// Cursors are hashes without their fragments.
const CURSOR_BITS: u32 = 64 - FRAGMENT_BITS;
const CURSOR_END: u64 = 1 << CURSOR_BITS;

const _: () = assert!(
    SLOTS_FEW <= SLOTS_MERGED && SLOTS_MERGED < SLOTS_FULL && SLOTS_FULL < SLOTS,
    "what was merged is not split at once"
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn hash_of(record: u32) -> u64 {
        let mut word = u64::from(record).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word ^ word >> 27
    }

    fn insert(index: &mut Index, record: u32) {
        index.insert(hash_of(record), record, hash_of);
    }

    fn contains(index: &Index, record: u32) -> bool {
        index.find(hash_of(record), |other| other == record) == Some(record)
    }

    #[test]
    fn records_are_found_while_the_index_grows_and_shrinks() {
        assert_eq!(size_of::<IndexSegment>(), 764);
        let mut index = Index::default();
        for record in 0..20_000 {
            insert(&mut index, record);
        }
        assert!((0..20_000).all(|record| contains(&index, record)));
        assert!(!contains(&index, 20_000));
        let most = index.memory_bytes();
        assert!(most < 20_000 * 11, "{most}");
        for record in (0..20_000).filter(|record| record % 100 != 7) {
            index.remove(hash_of(record), record);
            index.remove(hash_of(record), record);
        }
        for record in 0..20_000 {
            assert_eq!(contains(&index, record), record % 100 == 7);
        }
        assert!(index.segments.iter().flatten().count() < 20);
        assert!(index.directory.len() <= 64);
        for record in 0..20_000 {
            index.remove(hash_of(record), record);
        }
        assert_eq!(
            (index.depth, index.segment(index.directory[0]).count),
            (0, 0)
        );
    }

    #[test]
    fn a_scan_shows_all_that_stay_and_no_more_than_it_is_asked_for() {
        let mut index = Index::default();
        (0..5_000).for_each(|record| insert(&mut index, record));
        let (mut cursor, mut seen, mut next) = (0, BTreeSet::new(), 5_000);
        loop {
            let mut shown = 0;
            cursor = index.scan(cursor, 10, hash_of, |record| {
                seen.insert(record);
                shown += 1;
            });
            assert!(shown <= 10);
            if cursor == 0 {
                break;
            }
            // It grows under the scan, and then shrinks.
            for _ in 0..20 {
                if next < 9_000 {
                    insert(&mut index, next);
                } else if next < 12_000 {
                    index.remove(hash_of(next - 7_000), next - 7_000);
                }
                next += 1;
            }
        }
        assert!((0..2_000).all(|record| seen.contains(&record)));
        assert_eq!(index.scan(u64::MAX, 10, hash_of, |_| ()), 0);
    }
}
