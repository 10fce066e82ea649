//! Whether the blocks of a recording follow each other. Each block is valid by itself, so a block
//! that is missing, twice in the file or at another place is known from its numbers only.

use std::collections::HashSet;

use super::{Block, BlockKind};

/// The place that a reader of a recording has reached. The sequences of a run of the hub are
/// contiguous over its blocks, and a gap block names those that are missing.
#[derive(Debug, Default)]
pub struct Progress {
    session: Option<u32>,
    /// Sessions of the runs before.
    earlier: HashSet<u32>,
    /// The next sequence of the run.
    next: u64,
    /// Whether the run has ended cleanly.
    has_ended: bool,
    /// Whether only snapshots were read since the beginning or a gap.
    is_at_snapshot: bool,
}

/// What a block is at its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Whether it is the first block of its run.
    pub is_new_run: bool,
    /// Whether it is twice in the file or out of order: to be left out.
    pub is_misplaced: bool,
    /// Sequences that are missing before it without a gap block: the first, and one past the last.
    pub lost: Option<(u64, u64)>,
    /// Sequences that it says are missing: the first, and one past the last.
    pub gap: Option<(u64, u64)>,
}

/// What a message of the stream is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next message.
    Next,
    /// A message behind others that are missing without a gap block: the first of those, and one
    /// past the last.
    Behind(u64, u64),
    /// A message of before: to be left out.
    Again,
}

impl Progress {
    /// Enters a block. The messages of a stream block are then to be given to
    /// [`take`](Self::take).
    pub fn enter(&mut self, block: &Block<'_>) -> Entry {
        let mut entry = Entry::default();
        if matches!(block.kind, BlockKind::Unknown(_)) {
            return entry;
        }
        if self.session != Some(block.session) {
            if self.earlier.contains(&block.session) {
                entry.is_misplaced = true;
                return entry;
            }
            self.earlier.extend(self.session.replace(block.session));
            (self.next, self.has_ended, self.is_at_snapshot) = (1, false, true);
            entry.is_new_run = true;
        }
        let (one, other) = block.numbers();
        match block.kind {
            BlockKind::Begin if entry.is_new_run => self.next = one.max(1),
            BlockKind::Begin => entry.is_misplaced = true,
            BlockKind::Stream => self.is_at_snapshot = false,
            BlockKind::Gap if other <= self.next => entry.is_misplaced = true,
            BlockKind::Gap => {
                let from = one.clamp(self.next, other);
                entry.lost = (self.next < from).then_some((self.next, from));
                entry.gap = (from < other).then_some((from, other));
                (self.next, self.is_at_snapshot) = (other, true);
            }
            BlockKind::End if self.has_ended || one < self.next => entry.is_misplaced = true,
            BlockKind::End => {
                entry.lost = (self.next < one).then_some((self.next, one));
                (self.next, self.has_ended) = (one, true);
            }
            BlockKind::Snapshot | BlockKind::Unknown(_) => {}
        }
        entry
    }

    /// Takes a message of the stream that has `count` sequences from `sequence` on.
    pub fn take(&mut self, sequence: u64, count: u64) -> Step {
        let end = sequence.saturating_add(count);
        let next = self.next;
        self.next = next.max(end);
        if sequence < next {
            Step::Again
        } else if sequence > next {
            Step::Behind(next, sequence)
        } else {
            Step::Next
        }
    }

    /// Returns whether a last value of a snapshot, changed last by the message `sequence`, is older
    /// than the stream that was read: its snapshot is out of order, or the gap block before it is
    /// missing.
    pub fn is_old_value(&self, sequence: u64) -> bool {
        !self.is_at_snapshot && sequence < self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: BlockKind, session: u32, body: &[u8]) -> Block<'_> {
        Block {
            kind,
            session,
            recorded_ns: 0,
            body,
        }
    }

    fn numbers(one: u64, other: u64) -> Vec<u8> {
        [one.to_le_bytes(), other.to_le_bytes()].concat()
    }

    fn enter(progress: &mut Progress, kind: BlockKind, (one, other): (u64, u64)) -> Entry {
        progress.enter(&block(kind, 7, &numbers(one, other)))
    }

    #[test]
    fn a_recording_with_a_gap_has_nothing_lost_and_nothing_again() {
        let mut progress = Progress::default();
        assert!(enter(&mut progress, BlockKind::Begin, (5, 0)).is_new_run);
        assert!(!progress.is_old_value(4));
        assert_eq!(
            enter(&mut progress, BlockKind::Stream, (0, 0)),
            Entry::default()
        );
        assert_eq!(progress.take(5, 1), Step::Next);
        assert_eq!(progress.take(6, 4), Step::Next);
        let gap = enter(&mut progress, BlockKind::Gap, (10, 20));
        assert_eq!((gap.gap, gap.lost), (Some((10, 20)), None));
        assert!(!progress.is_old_value(19));
        enter(&mut progress, BlockKind::Stream, (0, 0));
        assert!(progress.is_old_value(19) && !progress.is_old_value(20));
        assert_eq!(progress.take(20, 1), Step::Next);
        let end = enter(&mut progress, BlockKind::End, (21, 10));
        assert_eq!(end, Entry::default());
    }

    #[test]
    fn a_block_that_is_missing_is_named_by_what_follows() {
        let mut progress = Progress::default();
        enter(&mut progress, BlockKind::Begin, (1, 0));
        assert_eq!(progress.take(3, 1), Step::Behind(1, 3));
        let gap = enter(&mut progress, BlockKind::Gap, (6, 9));
        assert_eq!((gap.lost, gap.gap), (Some((4, 6)), Some((6, 9))));
        assert_eq!(progress.take(12, 1), Step::Behind(9, 12));
        let end = enter(&mut progress, BlockKind::End, (15, 0));
        assert_eq!(end.lost, Some((13, 15)));
        // Of this run the beginning is missing.
        let entry = progress.enter(&block(BlockKind::Stream, 8, &[]));
        assert!(entry.is_new_run && !entry.is_misplaced);
        assert_eq!(progress.take(4, 1), Step::Behind(1, 4));
    }

    #[test]
    fn a_block_that_is_twice_in_the_file_or_moved_is_misplaced() {
        let mut progress = Progress::default();
        enter(&mut progress, BlockKind::Begin, (1, 0));
        assert_eq!(progress.take(1, 1), Step::Next);
        assert!(enter(&mut progress, BlockKind::Begin, (1, 0)).is_misplaced);
        assert_eq!(progress.take(1, 1), Step::Again);
        assert_eq!(progress.take(0, 1), Step::Again);
        enter(&mut progress, BlockKind::Gap, (2, 5));
        assert!(enter(&mut progress, BlockKind::Gap, (2, 5)).is_misplaced);
        let overlapping = enter(&mut progress, BlockKind::Gap, (3, 7));
        assert_eq!(overlapping.gap, Some((5, 7)));
        assert!(enter(&mut progress, BlockKind::End, (6, 0)).is_misplaced);
        assert!(!enter(&mut progress, BlockKind::End, (7, 0)).is_misplaced);
        assert!(enter(&mut progress, BlockKind::End, (7, 0)).is_misplaced);
        let next = numbers(1, 0);
        assert!(
            progress
                .enter(&block(BlockKind::Begin, 8, &next))
                .is_new_run
        );
        for kind in [BlockKind::Stream, BlockKind::Snapshot, BlockKind::Begin] {
            assert!(progress.enter(&block(kind, 7, &next)).is_misplaced);
        }
        assert_eq!(progress.take(1, 1), Step::Next);
    }

    /// The numbers of a block are a file's, and may be any.
    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut progress = Progress::default();
        enter(&mut progress, BlockKind::Begin, (0, 0));
        assert_eq!(progress.take(u64::MAX, u64::MAX), Step::Behind(1, u64::MAX));
        let gap = enter(&mut progress, BlockKind::Gap, (u64::MAX, 0));
        assert!(gap.is_misplaced);
        let end = enter(&mut progress, BlockKind::End, (u64::MAX, u64::MAX));
        assert_eq!(end, Entry::default());
    }
}
