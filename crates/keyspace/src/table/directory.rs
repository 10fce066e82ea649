//! The directory: splitting, merging and finding segments.

use super::groups::{GROUPS_MAX, Groups, SLOTS};
use super::segment::{Segment, groups_for};
use super::{DEPTH_KEPT, DEPTH_MAX, Table, prefix};
use crate::entry::Entry;
use crate::hash;

impl Table {
    /// Splits a segment by the next bit of its entries' hashes.
    pub(super) fn split(&mut self, index: usize) {
        let old = &self.segments[index];
        let depth = old.depth + 1;
        let prefix = old.prefix;
        let count = old.len;
        debug_assert!(depth <= DEPTH_MAX, "a hash has bits to split by");
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
        debug_assert_eq!(self.segments[index].len + upper.len, count);
        if self.segments.len() == self.segments.capacity() {
            self.segments.reserve_exact(1 + self.segments.len() / 8);
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
        debug_assert_eq!(self.directory.len(), 1 << self.depth);
    }

    fn point_directory_at(&mut self, index: usize) {
        if self.depth > 0 {
            let segment = &self.segments[index];
            debug_assert!(segment.depth <= self.depth);
            let shift = self.depth - segment.depth;
            let first = (segment.prefix as usize) << shift;
            self.directory[first..first + (1 << shift)].fill(index as u32);
        }
    }

    /// Merges a sparse segment with its neighbour, or shrinks it.
    pub(super) fn shrink(&mut self, index: usize) {
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

    /// Returns the segment whose prefix differs only in the last bit, or a part of it.
    fn neighbour_of(&self, index: usize) -> usize {
        let segment = &self.segments[index];
        let prefix = (segment.prefix ^ 1) << (self.depth - segment.depth);
        debug_assert!(
            !self.directory.is_empty(),
            "a segment with a prefix has a neighbour"
        );
        self.directory[prefix as usize] as usize
    }

    fn merge(&mut self, index: usize, neighbour: usize) {
        let (keep, drop) = (index.min(neighbour), index.max(neighbour));
        let mut taken = self.segments.swap_remove(drop);
        if drop < self.segments.len() {
            self.point_directory_at(drop);
        }
        let kept = &self.segments[keep];
        debug_assert_eq!(kept.depth, taken.depth, "neighbours have the same depth");
        debug_assert_eq!(kept.prefix ^ 1, taken.prefix, "they differ in the last bit");
        let count = kept.len + taken.len;
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
        debug_assert_eq!(merged.len, count);
        self.segments[keep] = merged;
        self.point_directory_at(keep);
        self.halve_directory();
    }

    /// Halves the directory once it is mostly redundant, so that the cost per merge is negligible.
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

/// Returns at least the first `depth` directory bits of an entry's hash. Only tables with over a
/// thousand segments need to read keys.
fn prefix_of(entry: &Entry, depth: u32) -> u32 {
    if depth <= DEPTH_KEPT {
        u32::from(entry.hash_bits() >> 6) << 12
    } else {
        prefix(hash::of(entry.key()))
    }
}

const SEGMENT_ENTRIES_MAX: usize = GROUPS_MAX * SLOTS;
