//! A snapshot on its way to one client.

use std::sync::Arc;

use crate::wire::{
    Definition, Flags, LastValue, Message, PacketWriter, SnapshotMark, SnapshotNotice,
    snapshot_position,
};

use super::pattern::Pattern;

/// Board entries that one call looks at: bounds the time of a call that finds nothing.
pub const SCAN_ENTRIES_MAX: usize = 65_536;
/// Positions that one skip stands for at most: what a lost packet makes a client ask for again.
const PASSED_POSITIONS_MAX: u32 = 8_192;

/// The symbols that a server knows, with their latest values. Entries are only ever added, and
/// an entry keeps its index and its name.
pub trait Board {
    /// Number of entries.
    fn len(&self) -> usize;

    /// Whether there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The definition of an entry; always there below [`Board::len`].
    fn definition(&self, index: usize) -> Option<Definition>;

    /// The latest value of an entry, stamped with the sequence of its last change; not older than
    /// what the journal holds of it.
    fn last_value(&self, index: usize) -> Option<LastValue>;

    /// Sequence of the newest message of the stream that is about an entry, its definition
    /// included, or a later one; `u64::MAX` where that is not known.
    fn changed(&self, index: usize) -> u64 {
        match self.last_value(index) {
            Some(value) if value.sequence > 0 => value.sequence,
            _ => u64::MAX,
        }
    }
}

/// Nothing to show: a stream without snapshots.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyBoard;

impl Board for EmptyBoard {
    fn len(&self) -> usize {
        0
    }

    fn definition(&self, _index: usize) -> Option<Definition> {
        None
    }

    fn last_value(&self, _index: usize) -> Option<LastValue> {
        None
    }
}

/// Which symbols a snapshot holds; does not change once the snapshot has begun, so that its
/// positions mean the same when they are asked for again.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) restriction: Option<Pattern>,
}

impl Scope {
    fn matches(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
            && self.restriction.is_none_or(|pattern| pattern.matches(name))
    }

    fn matches_all(&self) -> bool {
        self.patterns.iter().any(Pattern::matches_all)
            && self.restriction.is_none_or(|pattern| pattern.matches_all())
    }
}

/// A walk over the board that writes the positions of a range.
///
/// Positions: 0 is the beginning mark; the matching entry number m (from 0) has its definition
/// at 1 + 2m and its value at 2 + 2m; the end mark comes last. Where the snapshot is of what has
/// changed since some sequence, other entries keep their positions, and skips stand there: an
/// entry that changes meanwhile is there when its position is asked for again.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotJob {
    pub(crate) notice: SnapshotNotice,
    scope: Arc<Scope>,
    /// The board's length when the snapshot began.
    board_length: usize,
    next_index: usize,
    next_position: u32,
    /// Positions outside of `from..until` are walked over, not written.
    from: u32,
    until: u32,
    /// Positions before the next one that a skip is still to be written for; 0 between calls.
    passed: u32,
    flags: Flags,
    done: bool,
}

impl SnapshotJob {
    pub(crate) fn new(
        notice: SnapshotNotice,
        scope: Arc<Scope>,
        board_length: usize,
    ) -> SnapshotJob {
        SnapshotJob {
            notice,
            scope,
            board_length,
            next_index: 0,
            next_position: 0,
            from: 0,
            until: u32::MAX,
            passed: 0,
            flags: Flags::SNAPSHOT,
            done: false,
        }
    }

    /// The same snapshot again, only the positions `from..until`, with the values of now.
    pub(crate) fn again(&self, from: u32, until: u32) -> SnapshotJob {
        let mut job = SnapshotJob::new(self.notice, Arc::clone(&self.scope), self.board_length);
        job.from = from;
        job.until = until;
        job.flags = Flags::SNAPSHOT.with(Flags::RETRANSMISSION);
        if job.scope.matches_all() && from > 0 {
            // Every entry matches: the position says the entry.
            let entry = (from as usize - 1) / 2;
            job.next_index = entry.min(job.board_length);
            job.next_position = 1 + 2 * job.next_index as u32;
        }
        job
    }

    /// Writes as far as the budget goes; how many records.
    pub(crate) fn produce(
        &mut self,
        board: &impl Board,
        session: u32,
        packet_limit_bytes: usize,
        out: &mut Vec<u8>,
        end_bytes: usize,
    ) -> u64 {
        let first = snapshot_position(self.notice.number, self.next_position.max(self.from));
        let mut writer = PacketWriter::new(out, session, self.flags, first, packet_limit_bytes);
        let mut records = 0;
        let mut scanned = 0;
        while !self.done && scanned < SCAN_ENTRIES_MAX && writer.buffered_bytes() < end_bytes {
            scanned += 1;
            records += self.step(board, &mut writer);
        }
        self.write_passed(&mut writer);
        writer.finish();
        records
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Walks over one mark or one entry; how many records were written.
    fn step(&mut self, board: &impl Board, writer: &mut PacketWriter<'_>) -> u64 {
        if self.next_position == 0 {
            let records = self.board_length as u64;
            let mark = SnapshotMark {
                as_of: self.notice.as_of,
                records,
            };
            self.write(&Message::SnapshotBegin(mark), writer);
            return 0;
        }
        if self.next_index >= self.board_length || self.next_position >= self.until {
            let records = u64::from(self.next_position - 1) / 2;
            let mark = SnapshotMark {
                as_of: self.notice.as_of,
                records,
            };
            self.write(&Message::SnapshotEnd(mark), writer);
            self.done = true;
            return 0;
        }
        let index = self.next_index;
        self.next_index += 1;
        let is_unchanged = self.notice.since > 0 && board.changed(index) < self.notice.since;
        if is_unchanged && self.scope.matches_all() {
            self.pass_over(writer);
            return 0;
        }
        let Some(definition) = board.definition(index) else {
            return 0;
        };
        if !self.scope.matches(definition.name.as_str()) {
            return 0;
        }
        if is_unchanged {
            self.pass_over(writer);
            return 0;
        }
        self.write(&Message::Definition(definition), writer);
        let value = board
            .last_value(index)
            .unwrap_or(LastValue::new(definition.symbol));
        u64::from(self.write(&Message::LastValue(value), writer))
    }

    fn write(&mut self, message: &Message, writer: &mut PacketWriter<'_>) -> bool {
        let wanted = (self.from..self.until).contains(&self.next_position);
        if wanted {
            self.write_passed(writer);
            writer.push(message);
        }
        self.next_position += 1;
        wanted
    }

    /// The two positions of an entry that is not in a snapshot of changes.
    fn pass_over(&mut self, writer: &mut PacketWriter<'_>) {
        let from = self.next_position.max(self.from);
        self.next_position += 2;
        self.passed += self.next_position.min(self.until).saturating_sub(from);
        if self.passed >= PASSED_POSITIONS_MAX {
            self.write_passed(writer);
        }
    }

    fn write_passed(&mut self, writer: &mut PacketWriter<'_>) {
        if self.passed > 0 {
            writer.skip(u64::from(std::mem::take(&mut self.passed)));
        }
    }
}
