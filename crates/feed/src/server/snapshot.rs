//! A snapshot being sent to one client.

use std::sync::Arc;

use crate::wire::{
    Control, Definition, Flags, LastValue, Message, PacketWriter, SnapshotMark, SnapshotNotice,
    Venue, snapshot_position,
};

use super::pattern::{Pattern, PatternSet};
use super::readable::Readable;
use super::steps::{ENTRY_STEPS, NAME_STEPS, Steps};

/// Maximum positions per skip: what a client requests again after one lost packet.
const PASSED_POSITIONS_MAX: u32 = 8_192;

/// The symbols of a server with their latest values. Entries are only added. An entry keeps its
/// index and its name.
pub trait Board {
    /// Returns the number of entries.
    fn len(&self) -> usize;

    /// Returns whether there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the definition of an entry; always `Some` below [`Board::len`].
    fn definition(&self, index: usize) -> Option<Definition>;

    /// Returns the index of the entry with this name. A board of many entries replaces this search
    /// by a look-up.
    fn find(&self, name: &str) -> Option<usize> {
        let is_named = |definition: Definition| definition.name.as_str() == name;
        (0..self.len()).find(|&index| self.definition(index).is_some_and(is_named))
    }

    /// Returns the latest value of an entry with the sequence of its last change. It is at least
    /// as new as the journal's messages about the entry.
    fn last_value(&self, index: usize) -> Option<LastValue>;

    /// Returns the venues that have a name; each new subscriber gets them.
    fn venues(&self) -> Vec<Venue> {
        Vec::new()
    }

    /// Returns a number that grows with each new or changed name of [`Board::venues`].
    fn venues_version(&self) -> u64 {
        self.venues().len() as u64
    }

    /// Returns the stream's next sequence when the rights of clients changed last; 0 for never. A
    /// client that resumes from before may lack the values of what it may read now.
    fn rights_changed(&self) -> u64 {
        0
    }

    /// Returns the sequence of the newest message about an entry, its definition included, or a
    /// later sequence; `u64::MAX` if unknown.
    fn changed(&self, index: usize) -> u64 {
        match self.last_value(index) {
            Some(value) if value.sequence > 0 => value.sequence,
            _ => u64::MAX,
        }
    }
}

/// Tells a subscriber the names of the venues, if it was told those of an earlier version. Returns
/// the version that it knows now.
pub(super) fn tell_venues(board: &impl Board, told: u64, session: u32, out: &mut Vec<u8>) -> u64 {
    let version = board.venues_version();
    debug_assert!(version >= told, "the version only grows");
    if version > told {
        for venue in board.venues() {
            PacketWriter::control(out, session, &Control::Venue(venue));
        }
    }
    version
}

/// A board without entries, for a stream without snapshots.
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

/// The symbols of a snapshot. They do not change once the snapshot has begun, so its positions
/// keep their meaning when they are requested again.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    set: PatternSet,
    restriction: Option<Pattern>,
    /// The entries that `set` matches, in order, if they were found by their names.
    listed: Option<Vec<u32>>,
}

impl Scope {
    pub(crate) fn new(
        (patterns, readable): (&[Pattern], Readable),
        restriction: Option<Pattern>,
        board: &impl Board,
        steps: &mut Steps,
    ) -> Scope {
        let mut set = PatternSet::of(readable);
        patterns.iter().for_each(|pattern| set.insert(pattern));
        // One name is asked for: only it is looked up.
        let one = restriction.as_ref().and_then(Pattern::exact);
        let mut found: Vec<u32> = Vec::new();
        let mut find = |name: &str| {
            steps.spend(NAME_STEPS);
            let index = board.find(name).and_then(|index| u32::try_from(index).ok());
            found.extend(index);
        };
        let is_listed = match one {
            Some(name) => {
                if set.matches(name, &mut Steps::unlimited()) {
                    find(name);
                }
                true
            }
            None if set.has_only_names() => {
                set.names().for_each(find);
                true
            }
            None => false,
        };
        found.sort_unstable();
        Scope {
            set,
            restriction,
            listed: is_listed.then_some(found),
        }
    }

    fn matches(&self, name: &str, steps: &mut Steps) -> bool {
        let restriction = self.restriction.as_ref();
        restriction.is_none_or(|pattern| pattern.matches(name, steps))
            && match self.listed {
                Some(_) => self.set.may_read(name, steps),
                None => self.set.matches(name, steps),
            }
    }

    /// Returns whether every entry of the walk matches, so that positions give entries.
    fn matches_all(&self) -> bool {
        let restriction = self.restriction.as_ref();
        let is_whole = |pattern: &Pattern| pattern.matches_all() || pattern.exact().is_some();
        let is_listed = self.listed.is_some() && self.set.readable().is_none();
        restriction.is_none_or(is_whole) && (is_listed || self.set.matches_all())
    }

    /// Returns the number of entries of the walk on a board of this length.
    fn length(&self, board_length: usize) -> usize {
        self.listed.as_ref().map_or(board_length, Vec::len)
    }

    /// Returns the board's entry that has this place in the walk.
    fn entry(&self, place: usize) -> usize {
        match &self.listed {
            Some(listed) => listed[place] as usize,
            None => place,
        }
    }
}

/// A walk over the board that writes a range of positions.
///
/// Position 0 is the beginning mark. The matching entry number m (from 0) has its definition at
/// `1+2m` and its value at `2+2m`. The end mark comes last. In a snapshot of changes, unchanged
/// entries keep their positions, and skips stand there. If such an entry changes meanwhile, a
/// repeated request for its position returns it.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotJob {
    pub(crate) notice: SnapshotNotice,
    scope: Arc<Scope>,
    /// Number of entries in the walk: those of the board when the snapshot began, or fewer.
    length: usize,
    next_place: usize,
    next_position: u32,
    /// Positions outside `from..until` are counted, not written.
    from: u32,
    until: u32,
    /// Positions before the next one that still need a skip; 0 between calls.
    passed: u32,
    flags: Flags,
    /// Whether the receiver reads the figures of a value.
    pub(super) with_figures: bool,
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
            length: scope.length(board_length),
            scope,
            next_place: 0,
            next_position: 0,
            from: 0,
            until: u32::MAX,
            passed: 0,
            flags: Flags::SNAPSHOT,
            with_figures: false,
            done: false,
        }
    }

    /// Creates the same snapshot for the positions `from..until` only, with current values.
    pub(crate) fn again(&self, from: u32, until: u32) -> SnapshotJob {
        let mut job = SnapshotJob::new(self.notice, Arc::clone(&self.scope), self.length);
        (job.from, job.with_figures) = (from, self.with_figures);
        job.until = until;
        job.flags = Flags::SNAPSHOT.with(Flags::RETRANSMISSION);
        if job.scope.matches_all() && from > 0 {
            // Every entry matches: the position gives the entry.
            let entry = (from as usize - 1) / 2;
            job.next_place = entry.min(job.length);
            job.next_position = 1 + 2 * job.next_place as u32;
        }
        job
    }

    /// Writes within the budgets of bytes and steps. Returns the number of records.
    pub(crate) fn produce(
        &mut self,
        board: &impl Board,
        session: u32,
        packet_limit_bytes: usize,
        out: &mut Vec<u8>,
        end_bytes: usize,
        steps: &mut Steps,
    ) -> u64 {
        let first = snapshot_position(self.notice.number, self.next_position.max(self.from));
        let mut writer = PacketWriter::new(out, session, self.flags, first, packet_limit_bytes);
        let mut records = 0;
        while !self.done && !steps.are_used_up() && writer.buffered_bytes() < end_bytes {
            steps.spend(ENTRY_STEPS);
            records += self.step(board, &mut writer, steps);
        }
        self.write_passed(&mut writer);
        writer.finish();
        records
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Replaces what the client may read. What is left of the snapshot, and what is asked for
    /// again, has only that.
    pub(crate) fn restrict(&mut self, readable: &Readable) {
        let mut scope = Scope::clone(&self.scope);
        scope.set.restrict(readable.clone());
        self.scope = Arc::new(scope);
    }

    /// Advances by one mark or entry. Returns the number of records written.
    fn step(
        &mut self,
        board: &impl Board,
        writer: &mut PacketWriter<'_>,
        steps: &mut Steps,
    ) -> u64 {
        if self.next_position == 0 {
            let records = self.length as u64;
            let mark = SnapshotMark {
                as_of: self.notice.as_of,
                records,
            };
            self.write(&Message::SnapshotBegin(mark), writer);
            return 0;
        }
        if self.next_place >= self.length || self.next_position >= self.until {
            let records = u64::from(self.next_position - 1) / 2;
            let mark = SnapshotMark {
                as_of: self.notice.as_of,
                records,
            };
            self.write(&Message::SnapshotEnd(mark), writer);
            self.done = true;
            return 0;
        }
        let index = self.scope.entry(self.next_place);
        self.next_place += 1;
        let is_unchanged = self.notice.since > 0 && board.changed(index) < self.notice.since;
        if is_unchanged && self.scope.matches_all() {
            self.pass_over(writer);
            return 0;
        }
        let Some(definition) = board.definition(index) else {
            return 0;
        };
        if !self.scope.matches(definition.name.as_str(), steps) {
            return 0;
        }
        if is_unchanged {
            self.pass_over(writer);
            return 0;
        }
        self.write(&Message::Definition(definition), writer);
        let mut value = match board.last_value(index) {
            // It includes what has been said of it since its last change.
            Some(value) => LastValue {
                sequence: match board.changed(index) {
                    u64::MAX => value.sequence,
                    changed => value.sequence.max(changed),
                },
                ..value
            },
            None => LastValue::new(definition.symbol),
        };
        if !self.with_figures {
            value.figures = None;
        }
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

    /// Skips the two positions of an unchanged entry in a snapshot of changes.
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
