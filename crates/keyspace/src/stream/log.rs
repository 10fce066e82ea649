//! The entries of a stream, and the state that outlives them.

use super::block::{Block, BlockIter, BlockLimits, EntryFields, PackedEntry};
use super::id::StreamId;
use super::pages::{Identified, PagePlace, Pages, PagesIter};

/// The entries of a stream in the order of their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryLog {
    blocks: Pages<Block>,
    len: usize,
    first_id: StreamId,
    /// Id of the last existing entry.
    newest_id: StreamId,
    last_id: StreamId,
    max_deleted_id: StreamId,
    added: u64,
}

/// The state of a log beside its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogState {
    /// The greatest id ever used or set; new ids are greater.
    pub(crate) last_id: StreamId,
    /// The greatest id that was deleted individually, not by a trim.
    pub(crate) max_deleted_id: StreamId,
    /// Number of entries ever added, counted on from the last XSETID.
    pub(crate) added: u64,
}

/// The end of a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrimTo {
    /// Maximum number of entries to keep.
    Length(u64),
    /// Keeps entries from this id on.
    Id(StreamId),
}

/// How the head of a log is trimmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trim {
    pub(crate) to: TrimTo,
    /// Whether only whole blocks are removed.
    pub(crate) approximate: bool,
    /// Maximum number of entries that an approximate trim removes; 0: no limit.
    pub(crate) limit: u64,
}

impl EntryLog {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first entry's id; 0-0 if there is none.
    pub(crate) fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// Returns the last entry's id, if there is one. [`LogState::last_id`] may be greater.
    pub(crate) fn newest_id(&self) -> Option<StreamId> {
        (self.len > 0).then_some(self.newest_id)
    }

    pub(crate) fn state(&self) -> LogState {
        LogState {
            last_id: self.last_id,
            max_deleted_id: self.max_deleted_id,
            added: self.added,
        }
    }

    /// Sets the state; the last id must not be below that of an entry.
    pub(crate) fn set_state(&mut self, state: LogState) {
        self.last_id = state.last_id;
        self.max_deleted_id = state.max_deleted_id;
        self.added = state.added;
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the bytes of memory, estimated from `samples` blocks.
    pub(crate) fn memory_bytes(&self, samples: usize) -> usize {
        let samples = samples.clamp(1, self.blocks.len().max(1));
        let sampled: usize = self
            .blocks
            .iter()
            .take(samples)
            .map(Block::memory_bytes)
            .sum();
        (sampled as f64 / samples as f64 * self.blocks.len() as f64) as usize
    }

    /// Adds an entry; returns false if its id is not greater than the last id.
    pub(crate) fn append<'a>(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        limits: BlockLimits,
    ) -> bool {
        if id <= self.last_id {
            return false;
        }
        let text_bytes = fields
            .clone()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        match self.blocks.last_mut() {
            Some(block) if block.fits(text_bytes, limits) => block.append(id, fields),
            last => {
                if let Some(block) = last {
                    block.close();
                }
                let is_new = self.blocks.insert(Block::new(id, fields));
                debug_assert!(is_new, "the new entry is the last one");
            }
        }
        if self.len == 0 {
            self.first_id = id;
        }
        self.len += 1;
        self.last_id = id;
        self.newest_id = id;
        self.added = self.added.wrapping_add(1);
        debug_assert!(self.first_id <= self.newest_id);
        true
    }

    /// Returns the entry with this id.
    pub(crate) fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// Iterates over the entries between two ids, both included.
    pub(crate) fn range(&self, from: StreamId, to: StreamId) -> Entries<'_> {
        let mut blocks = self.blocks_between(from, to);
        Entries {
            block: blocks.next().map(Block::iter),
            blocks,
            from,
            to,
        }
    }

    /// Does the same from the last to the first.
    pub(crate) fn range_reversed(&self, from: StreamId, to: StreamId) -> EntriesReversed<'_> {
        EntriesReversed {
            blocks: self.blocks_between(from, to),
            block: None,
            found: Vec::new(),
            from,
            to,
        }
    }

    /// Deletes an entry; returns false if it does not exist.
    pub(crate) fn delete(&mut self, id: StreamId) -> bool {
        let place = self.place_of(id);
        let Some(place) = place else {
            return false;
        };
        let Some(block) = self.blocks.at_mut(place) else {
            return false;
        };
        if !block.delete(id) {
            return false;
        }
        if block.live() == 0 {
            self.blocks.remove_at(place);
        } else {
            block.tidy();
        }
        debug_assert!(self.len > 0);
        self.len -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id {
            self.find_first();
        }
        if id == self.newest_id {
            self.find_newest();
        }
        true
    }

    /// Removes entries from the head. Returns how many.
    pub(crate) fn trim(&mut self, trim: Trim) -> u64 {
        let mut removed = 0;
        while let Some(block) = self.blocks.first() {
            let live = block.live() as u64;
            if self.has_trimmed(trim.to) || exceeds(trim.limit, removed + live) {
                break;
            }
            if self.goes_whole(block, trim.to) {
                let first = block.id();
                self.blocks.remove(first);
                debug_assert!(live as usize <= self.len);
                self.len -= live as usize;
                removed += live;
                continue;
            }
            if !trim.approximate {
                removed += self.trim_within(block.id(), trim.to, |_| true);
            }
            break;
        }
        if removed > 0 {
            self.find_first();
        }
        removed
    }

    /// Removes entries that `may_go` accepts from the head, in whole blocks or not. Returns how
    /// many.
    pub(crate) fn trim_each(
        &mut self,
        trim: Trim,
        mut may_go: impl FnMut(StreamId) -> bool,
    ) -> u64 {
        let mut removed = 0;
        let mut next = self.blocks.first().map(Identified::id);
        while let Some(first) = next {
            let place = self.blocks.lower_bound(first);
            let Some(block) = self.blocks.at(place) else {
                break;
            };
            let first = block.id();
            let live = block.live() as u64;
            if self.has_trimmed(trim.to) || exceeds(trim.limit, removed + live) {
                break;
            }
            let whole = self.goes_whole(block, trim.to);
            removed += self.trim_within(first, trim.to, &mut may_go);
            next = first.next().filter(|_| whole);
        }
        if removed > 0 {
            self.find_first();
            // The last remaining entry may be far from the end.
            self.find_newest();
        }
        removed
    }

    /// Returns how many entries were added up to this id, included, if that is known.
    pub(crate) fn added_until(&self, id: StreamId) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last_id {
            return Some(self.added);
        }
        if !id.is_zero() && id < self.max_deleted_id {
            return None;
        }
        if id >= self.last_id {
            return (id == self.last_id).then_some(self.added);
        }
        if self.max_deleted_id.is_zero() || self.max_deleted_id < self.first_id {
            let before = self.added.wrapping_sub(self.len as u64);
            if id < self.first_id {
                return Some(before);
            }
            if id == self.first_id {
                return Some(before.wrapping_add(1));
            }
        }
        None
    }

    /// Returns whether an entry from this id on may have been deleted. Counting entries up to the
    /// end would then be wrong.
    pub(crate) fn has_deleted_from(&self, from: StreamId) -> bool {
        self.len > 0 && !self.max_deleted_id.is_zero() && from <= self.max_deleted_id
    }

    fn blocks_between(&self, from: StreamId, to: StreamId) -> PagesIter<'_, Block> {
        let first = self.place_of(from);
        let start = first.unwrap_or_else(|| self.blocks.lower_bound(from));
        self.blocks.iter_between(start, to)
    }

    /// Returns the block that contains this id, if the entry exists: the last block that begins
    /// with it or before.
    fn place_of(&self, id: StreamId) -> Option<PagePlace> {
        let place = self.blocks.lower_bound(id);
        match self.blocks.at(place) {
            Some(block) if block.id() == id => Some(place),
            _ => self.blocks.before(place),
        }
    }

    fn has_trimmed(&self, to: TrimTo) -> bool {
        matches!(to, TrimTo::Length(length) if self.len as u64 <= length)
    }

    fn goes_whole(&self, block: &Block, to: TrimTo) -> bool {
        match to {
            TrimTo::Length(length) => (self.len - block.live()) as u64 >= length,
            TrimTo::Id(id) => block.last() < id,
        }
    }

    /// Removes the entries of one block that must go. Returns how many.
    fn trim_within(
        &mut self,
        first: StreamId,
        to: TrimTo,
        mut may_go: impl FnMut(StreamId) -> bool,
    ) -> u64 {
        let mut surplus = match to {
            TrimTo::Length(length) => (self.len as u64).saturating_sub(length),
            TrimTo::Id(_) => u64::MAX,
        };
        let Some(block) = self.blocks.get_mut(first) else {
            return 0;
        };
        let removed = block.delete_while(|id| {
            if surplus == 0 || matches!(to, TrimTo::Id(end) if id >= end) {
                return None;
            }
            let goes = may_go(id);
            surplus -= u64::from(goes);
            Some(goes)
        });
        if block.live() == 0 {
            self.blocks.remove(first);
        } else if removed > 0 {
            block.tidy();
        }
        debug_assert!(removed <= self.len);
        self.len -= removed;
        removed as u64
    }

    fn find_first(&mut self) {
        debug_assert_eq!(self.len == 0, self.blocks.len() == 0, "no block is empty");
        let mut entries = self.blocks.first().into_iter().flat_map(Block::iter);
        self.first_id = entries.next().map_or(StreamId::MIN, |entry| entry.id);
        debug_assert_eq!(self.len == 0, self.first_id.is_zero(), "no entry is 0-0");
    }

    fn find_newest(&mut self) {
        let entries = self.blocks.last().into_iter().flat_map(Block::iter);
        self.newest_id = entries.last().map_or(StreamId::MIN, |entry| entry.id);
        debug_assert!(self.newest_id <= self.last_id);
    }
}

/// A read-only view of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a>(PackedEntry<'a>);

impl<'a> Entry<'a> {
    pub(crate) fn id(&self) -> StreamId {
        self.0.id
    }

    /// Iterates over its fields and values in order.
    pub(crate) fn fields(&self) -> EntryFields<'a> {
        self.0.fields()
    }
}

/// Iterator over entries in the order of their ids.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a> {
    blocks: PagesIter<'a, Block>,
    block: Option<BlockIter<'a>>,
    from: StreamId,
    to: StreamId,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            for entry in self.block.as_mut()? {
                if entry.id > self.to {
                    self.block = None;
                    return None;
                }
                if entry.id >= self.from {
                    return Some(Entry(entry));
                }
            }
            self.block = self.blocks.next().map(Block::iter);
        }
    }
}

/// Iterator over entries in the reverse order of their ids.
#[derive(Clone, Debug)]
pub(crate) struct EntriesReversed<'a> {
    blocks: PagesIter<'a, Block>,
    block: Option<BlockIter<'a>>,
    /// The remaining entries of the current block.
    found: Vec<(StreamId, usize)>,
    from: StreamId,
    to: StreamId,
}

impl<'a> Iterator for EntriesReversed<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            if let (Some((id, at)), Some(block)) = (self.found.pop(), &self.block) {
                return Some(Entry(block.entry(at, id)));
            }
            let block = self.blocks.next_back()?.iter();
            let wanted = block
                .clone()
                .skip_while(|entry| entry.id < self.from)
                .take_while(|entry| entry.id <= self.to);
            self.found.extend(wanted.map(|entry| (entry.id, entry.at)));
            self.block = Some(block);
        }
    }
}

fn exceeds(limit: u64, count: u64) -> bool {
    limit > 0 && count > limit
}
