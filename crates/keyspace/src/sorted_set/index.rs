//! An index of records by the hashes of their members: extendible hashing of numbers.
//!
//! ```text
//!  hash   63                                            16 15             0
//!        ┌──────────────┬────────────────────────────────┬────────────────┐
//!        │ directory    │               …                │ fragment       │
//!        └──────────────┴────────────────────────────────┴────────────────┘
//! ```
//!
//! The directory points to segments of 127 slots. A slot contains a record's number and a fragment
//! of its hash. The fragment determines where in the segment a search begins. A full segment splits
//! in two, and two nearly empty ones merge, so no operation waits for the whole index. A removal
//! closes its gap: there are no tombstones.

use crate::cache_line;

/// An index of the records of one sorted set, by hash.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The segment for each prefix of `depth` bits.
    directory: Vec<u32>,
    segments: Vec<Option<Box<IndexSegment>>>,
    /// Unused positions in `segments`.
    free: Vec<u32>,
    depth: u32,
    /// Number of segments of each depth.
    depths: [u32; DEPTH_MAX + 1],
}

#[derive(Clone, Debug)]
struct IndexSegment {
    /// Fragments of the hashes; 0 for a free slot.
    fragments: [u16; SLOTS],
    records: [u32; SLOTS],
    count: u8,
    /// Number of hash bits shared by all of its records.
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
    /// Returns the record with this hash that `is` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let segment = self.segment(self.directory[prefix(hash, self.depth)]);
        segment.find(hash, is).map(|slot| segment.records[slot])
    }

    /// Prefetches what [`find`](Self::find) reads first.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let segment = self.segment(self.directory[prefix(hash, self.depth)]);
        let slot = home(fragment(hash));
        cache_line::prefetch(&segment.fragments[slot]);
        cache_line::prefetch(&segment.records[slot]);
    }

    /// Adds a record; `hash_of` returns the hashes of existing records.
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

    /// Removes a record, if it exists.
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

    /// Passes at least `count` records from a cursor on to `show`, in the order of their hashes, or
    /// all that are left. Returns the next cursor, 0 at the end. The first cursor is 0 too.
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
                // Records of equal order are shown together: the cursor cannot distinguish them.
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

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let segments = self.segments.iter().flatten().count() * size_of::<IndexSegment>();
        segments + self.segments.capacity() * 8 + (self.directory.capacity() + self.free.len()) * 4
    }

    #[inline]
    fn segment(&self, at: u32) -> &IndexSegment {
        self.segments[at as usize]
            .as_deref()
            .expect("the directory points to a segment")
    }

    #[inline]
    fn segment_mut(&mut self, at: u32) -> &mut IndexSegment {
        self.segments[at as usize]
            .as_deref_mut()
            .expect("the directory points to a segment")
    }

    #[cold]
    fn split(&mut self, hash: u64, at: u32, hash_of: &impl Fn(u32) -> u64) {
        let old = self.segments[at as usize]
            .take()
            .expect("the directory points to a segment");
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

    /// Merges a segment with the other half of the segment it was split from, if both are small.
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
            .expect("the directory points to a segment");
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

    /// Points all hashes with this prefix of `depth` bits to a segment.
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
        // One slot must stay free to end searches. The process draws the hash's seed, so no client
        // can fill a segment of the greatest depth.
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

    /// Frees a slot, and moves later records back that a search would no longer find.
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

/// Returns the first `depth` bits.
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

/// Number of slots; a segment with them has 768 bytes.
const SLOTS: usize = 127;
/// Number of records at which a segment splits.
const SLOTS_FULL: usize = 112;
/// Number of records below which a segment may merge with its other half,
const SLOTS_FEW: usize = 28;
/// if both together have at most this many.
const SLOTS_MERGED: usize = 72;
const DEPTH_MAX: usize = 32;
const FRAGMENT_BITS: u32 = 16;
/// A cursor is a hash without its fragment.
const CURSOR_BITS: u32 = 64 - FRAGMENT_BITS;
const CURSOR_END: u64 = 1 << CURSOR_BITS;

const _: () = assert!(
    SLOTS_FEW <= SLOTS_MERGED && SLOTS_MERGED < SLOTS_FULL && SLOTS_FULL < SLOTS,
    "a merged segment does not split at once"
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
    fn a_scan_returns_all_permanent_records_and_respects_its_count() {
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
            // The index grows during the scan, and then shrinks.
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
