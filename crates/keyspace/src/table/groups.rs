//! The groups of a segment: fourteen slots each, in chunks of eight groups.

// Allocating or freeing a chunk takes several adjacent operations that share one safety argument.
#![allow(clippy::multiple_unsafe_ops_per_block)]

use std::ops::{Index, IndexMut};
use std::ptr::{self, null_mut};
use std::slice;

use crate::cache_line;
use crate::entry::Entry;

/// A list of up to [`GROUPS_MAX`] groups. All chunks have the same size, except in the smallest
/// segments, so that growing and shrinking leaves no odd-sized holes in the allocator. The number
/// of groups per chunk follows from `len`, so that a segment's own data fits two cache lines.
pub(super) struct Groups {
    len: usize,
    /// Boxed slices; null after the last group.
    chunks: [*mut Group; CHUNKS_MAX],
}

// SAFETY: the chunks are owned like boxes, and `Group` is `Send`.
unsafe impl Send for Groups {}
// SAFETY: a shared reference only allows reading groups, and `Group` is `Sync`.
unsafe impl Sync for Groups {}

impl Groups {
    /// Creates empty groups; `len` is one of the sizes of [`more`](Self::more).
    pub(super) fn new(len: usize) -> Self {
        let mut groups = Groups {
            chunks: [null_mut(); CHUNKS_MAX],
            len: 0,
        };
        groups.set_len(len);
        groups
    }

    /// Changes the number of groups, which must be empty. Full chunks are kept.
    pub(super) fn set_len(&mut self, len: usize) {
        assert!(len <= GROUPS_MAX);
        // Until the chunks match `len`, none counts as used, even after a panic.
        let old_len = std::mem::take(&mut self.len);
        for (at, chunk) in self.chunks.iter_mut().enumerate() {
            let (old, new) = (chunk_len(old_len, at), chunk_len(len, at));
            if old == new {
                continue;
            }
            if old > 0 {
                let groups = ptr::slice_from_raw_parts_mut(*chunk, old);
                *chunk = null_mut();
                // SAFETY: the chunk was created below from a box of `CHUNK_GROUPS` groups.
                drop(unsafe { Box::from_raw(groups) });
            }
            if new > 0 {
                let groups: Box<[Group]> = (0..new).map(|_| Group::new()).collect();
                *chunk = Box::into_raw(groups).cast();
            }
        }
        self.len = len;
    }

    /// Removes every entry and passes it, with its tag, to `taker`.
    pub(super) fn take_entries(&mut self, mut taker: impl FnMut(Entry, u8)) {
        for group in self.iter_mut() {
            for (slot, entry) in group.slots.iter_mut().enumerate() {
                if let Some(entry) = entry.take() {
                    taker(entry, group.head[slot]);
                }
            }
            group.head = [EMPTY; 16];
        }
    }

    /// Returns the next larger size: 1, 2, 3, 4, 6, 8, 16, 24 … 64.
    pub(super) fn more(len: usize) -> usize {
        match len {
            0..4 => len + 1,
            4..8 => (len / 2 + 1) * 2,
            _ => (len / CHUNK_GROUPS + 1) * CHUNK_GROUPS,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        let chunks = self.chunks.iter().enumerate();
        chunks.take(self.chunks_used()).flat_map(|(at, &chunk)| {
            // SAFETY: a used chunk has `CHUNK_GROUPS` groups, which live as long as `self`.
            unsafe { slice::from_raw_parts(chunk, chunk_len(self.len, at)) }
        })
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        let len = self.len;
        let used = self.chunks_used();
        let chunks = self.chunks.iter_mut().enumerate();
        chunks.take(used).flat_map(move |(at, chunk)| {
            // SAFETY: as in `iter`; the groups are borrowed exclusively, each chunk once.
            unsafe { slice::from_raw_parts_mut(*chunk, chunk_len(len, at)) }
        })
    }

    fn chunks_used(&self) -> usize {
        self.len.div_ceil(CHUNK_GROUPS)
    }
}

/// Returns the number of groups in chunk `at` if there are `len` in total.
fn chunk_len(len: usize, at: usize) -> usize {
    len.saturating_sub(at * CHUNK_GROUPS).min(CHUNK_GROUPS)
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.set_len(0);
    }
}

impl Index<usize> for Groups {
    type Output = Group;

    #[inline]
    fn index(&self, at: usize) -> &Group {
        assert!(at < self.len);
        // SAFETY: the group exists, so its chunk exists and is long enough.
        unsafe { &*self.chunks[at / CHUNK_GROUPS].add(at % CHUNK_GROUPS) }
    }
}

impl IndexMut<usize> for Groups {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Group {
        assert!(at < self.len);
        // SAFETY: as in `index`; the groups are borrowed exclusively.
        unsafe { &mut *self.chunks[at / CHUNK_GROUPS].add(at % CHUNK_GROUPS) }
    }
}

/// A group: two cache lines. The first has the tags and six entries, the second eight entries.
#[repr(C, align(64))]
pub(super) struct Group {
    /// Fourteen tags, the overflow count, and one unused byte.
    pub(super) head: [u8; 16],
    pub(super) slots: [Option<Entry>; SLOTS],
}

impl Group {
    fn new() -> Self {
        Group {
            head: [EMPTY; 16],
            slots: [const { None }; SLOTS],
        }
    }

    /// Counts an entry that passed this group because it is full. A count at its maximum stays
    /// there until the segment is next rebuilt.
    pub(super) fn pass(&mut self) {
        self.head[OVERFLOW] = self.head[OVERFLOW].saturating_add(1);
    }

    /// Counts the removal of an entry that had passed this group.
    pub(super) fn unpass(&mut self) {
        let overflow = &mut self.head[OVERFLOW];
        debug_assert!(*overflow > 0, "only passed entries are uncounted");
        *overflow -= u8::from(*overflow != u8::MAX);
    }

    /// Returns how many entries passed this group.
    #[inline]
    pub(super) fn overflow(&self) -> u8 {
        self.head[OVERFLOW]
    }

    /// Prefetches both of the group's cache lines.
    #[inline]
    pub(super) fn prefetch(&self) {
        let line = std::ptr::from_ref(self).cast::<u8>();
        cache_line::prefetch(line);
        cache_line::prefetch(line.wrapping_add(cache_line::BYTES));
    }

    /// Prefetches the first entry with this tag; returns false if there is none.
    #[inline]
    pub(super) fn prefetch_entry(&self, tag: u8) -> bool {
        let candidates = self.matches(tag);
        if candidates != 0
            && let Some(entry) = &self.slots[candidates.trailing_zeros() as usize]
        {
            entry.prefetch();
        }
        candidates != 0
    }

    /// Returns a bit per slot: bit n is set if slot n has this tag.
    #[inline]
    pub(super) fn matches(&self, tag: u8) -> u32 {
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
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: the load reads the sixteen bytes behind the reference, with any alignment. All of
    // these intrinsics need SSE2, which every x86-64 processor has.
    unsafe {
        let tags = _mm_loadu_si128(head.as_ptr().cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn matches16(head: &[u8; 16], tag: u8) -> u32 {
    matches16_portable(head, tag)
}

/// Compares eight tags per word: a byte of the difference is zero if the tag matches.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn matches16_portable(head: &[u8; 16], tag: u8) -> u32 {
    let word = u128::from_le_bytes(*head);
    let half = |word: u64| {
        const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
        let difference = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
        // Exact: no carry crosses a byte.
        let zero = !(((difference & LOW) + LOW) | difference | LOW);
        ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    half(word as u64) | half((word >> 64) as u64) << 8
}

const _: () = assert!(
    size_of::<Group>() == 128,
    "a group is two cache lines, and `Table::memory_bytes` counts on it"
);

/// The tag of an empty slot.
pub(super) const EMPTY: u8 = 0;
/// Number of slots in a group.
pub(super) const SLOTS: usize = 14;
/// Maximum number of groups in a segment.
pub(super) const GROUPS_MAX: usize = CHUNKS_MAX * CHUNK_GROUPS;

const CHUNKS_MAX: usize = 8;
const CHUNK_GROUPS: usize = 8;
const OVERFLOW: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tag_comparisons_agree() {
        let mut head = [0u8; 16];
        let step = if cfg!(miri) { 61 } else { 1 };
        for seed in (0..4096u32).step_by(step) {
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
    fn a_group_is_two_cache_lines_and_a_chunk_is_a_kibibyte() {
        assert_eq!((size_of::<Group>(), align_of::<Group>()), (128, 64));
        assert_eq!(size_of::<[Group; CHUNK_GROUPS]>(), 1024);
    }
}
