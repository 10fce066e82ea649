//! Iteration over a table: step by step between changes, in parts, and at random.

use super::groups::SLOTS;
use super::segment::home;
use super::{DEPTH_KEPT, DEPTH_MAX, ORDER_END, ORDER_FINE_BITS, POSITIONS, ScanPosition, Table};
use crate::entry::Entry;

impl Table {
    /// Shows the entries of one group's worth of positions. Returns where to continue.
    ///
    /// A walk from the default position to the end shows every permanent entry at least once, even
    /// if the table changes between the steps. It ends unless the table repeatedly splits and
    /// merges a segment faster than the segment is walked.
    pub(crate) fn scan_step<'t>(
        &'t self,
        at: ScanPosition,
        mut show: impl FnMut(&'t Entry),
    ) -> Option<ScanPosition> {
        if self.len == 0 {
            return None;
        }
        let segment = &self.segments[self.segment_of_prefix(at.prefix)];
        // Segments were merged. If the last visited one was the last of them, the earlier ones were
        // visited completely, and the position is valid for the merged segment. Otherwise, the walk
        // restarts in the merged segment.
        let merged = segment.depth < u32::from(at.depth);
        // A client may send any cursor: depth and prefix can have any value.
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
        debug_assert!(end > from, "each step goes on");
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

    /// Returns entries from `from` on, each with its place in the order of the hash bits stored in
    /// the table, and the start of the next part: [`ORDER_END`] after the last. A part contains all
    /// entries up to that start, unordered; about one segment.
    pub(crate) fn part(&self, from: u32) -> (Vec<(u32, &Entry)>, u32) {
        let mut entries = Vec::new();
        if self.len == 0 {
            return (entries, ORDER_END);
        }
        let first = from >> ORDER_FINE_BITS << (DEPTH_MAX - DEPTH_KEPT);
        let mut prefix = first;
        // Segments that differ only in bits outside the order are returned together.
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
        debug_assert!(from < end && end <= ORDER_END, "each part goes on");
        (entries, end)
    }

    /// Returns an entry chosen by `random`; `None` if the table is empty. Fair enough for
    /// RANDOMKEY.
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

    /// Passes up to `count` neighbouring entries, from a place chosen by `random`, to `show`. A
    /// table that is not empty yields at least one.
    pub(crate) fn sample<'t>(&'t self, random: u64, count: usize, mut show: impl FnMut(&'t Entry)) {
        debug_assert!(count > 0);
        let mut left = count;
        let (first, start, turn) = (random as u32, (random >> 32) as u16, (random >> 48) as u16);
        for number in 0..self.segments.len() {
            let segment = &self.segments[(first as usize + number) % self.segments.len()];
            for group in 0..segment.groups.len() {
                let group = &segment.groups[(usize::from(start) + group) % segment.groups.len()];
                // Prefetches all entries of the group, so that their cache misses overlap.
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
}
