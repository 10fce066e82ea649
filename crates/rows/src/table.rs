//! The topics that the pages of one lane follow.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::hash_map::IntoIter;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::follower::{Follower, Full, Member, SUBSCRIPTIONS_MAX, Selection, Sub};
use crate::json::{NotJson, Scanner, plain_string, write_text};
use crate::places::TICKET_MAX;
use crate::row::{Row, Shape, Version};
use crate::texts::Texts;

/// Returns whether a glob pattern matches a name.
pub type Glob = fn(&[u8], &[u8]) -> bool;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowId(pub(crate) u32);

/// A page (the index of its connection), and the number of one of its subscriptions.
pub type Place = (usize, u64);

/// What became of a part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// There is no such subscription, or nothing to write.
    Nothing,
    /// A part was written, and more follows.
    Part,
    /// The last part was written.
    Complete,
}

/// The topics that the pages of one lane follow.
#[derive(Debug)]
pub struct Table {
    glob: Glob,
    pub(crate) rows: Vec<Option<Row>>,
    free: Vec<u32>,
    by_name: HashMap<Arc<[u8]>, u32, RandomState>,
    shapes: HashMap<Box<[u8]>, Arc<Shape>, RandomState>,
    shapes_made: u64,
    /// Number of the last change.
    pub(crate) clock: u64,
    pub(crate) followers: Vec<Option<Box<Follower>>>,
    /// Subscriptions whose batch may be due.
    woken: Vec<Place>,
    /// Subscriptions whose batch is due at a time, monotonic ns.
    timers: BinaryHeap<Reverse<(u64, usize, u64)>>,
    /// Subscriptions whose batch is due.
    ready: VecDeque<Place>,
    /// Subscriptions whose first values have not all been written.
    snapping: Vec<Place>,
    /// Subscriptions that are compared with what their pages have already.
    adopting: Vec<Place>,
    departing: VecDeque<Departing>,
    /// Number of updates of which a page was told only a later one.
    pub conflated: u64,
    /// Rows that may have no page.
    orphans: Vec<u32>,
    /// Texts of changed rows, for several pages.
    pub(crate) texts: Texts,
    /// Memory of all rows, in bytes.
    row_bytes: usize,
    /// How many topics all pages have together.
    members: usize,
    /// The ticket of the last subscription.
    ticket: u64,
    /// Bytes that were freed, see [`Table::take_freed`].
    freed_bytes: usize,
    names: Vec<u8>,
    values: Vec<u8>,
    ends: Vec<u32>,
    name_ends: Vec<u32>,
}

/// A page or a subscription that has ended. Its topics are freed in parts.
#[derive(Debug)]
struct Departing {
    what: Departed,
    /// The memory that it took, in bytes.
    bytes: usize,
}

#[derive(Debug)]
enum Departed {
    Page(IntoIter<u32, Member>),
    Sub(usize, IntoIter<u32, u32>),
}

impl Table {
    /// Creates an empty table, which compares patterns and names with `glob`.
    pub fn new(glob: Glob) -> Self {
        Self {
            glob,
            rows: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::default(),
            shapes: HashMap::default(),
            shapes_made: 0,
            clock: 0,
            followers: Vec::new(),
            woken: Vec::new(),
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
            snapping: Vec::new(),
            adopting: Vec::new(),
            departing: VecDeque::new(),
            conflated: 0,
            orphans: Vec::new(),
            texts: Texts::default(),
            row_bytes: 0,
            members: 0,
            ticket: 0,
            freed_bytes: 0,
            names: Vec::new(),
            values: Vec::new(),
            ends: Vec::new(),
            name_ends: Vec::new(),
        }
    }

    /// Returns the number of topics.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether there is no topic.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns whether there is nothing to do for any page, now or later.
    pub fn is_idle(&self) -> bool {
        self.by_name.is_empty()
            && self.snapping.is_empty()
            && self.departing.is_empty()
            && self.adopting.is_empty()
            && self.timers.is_empty()
    }

    /// Returns the approximate memory of the topics and of what pages know of them, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let pages = self.followers.iter().flatten();
        self.row_bytes
            + self.texts.memory_bytes()
            + pages.map(|page| page.memory_bytes()).sum::<usize>()
    }

    /// Returns the approximate memory of a page in bytes: its own, and its part of the topics.
    pub fn page_bytes(&self, page: usize) -> usize {
        let Some(Some(follower)) = self.followers.get(page) else {
            return 0;
        };
        // Pages share the rows. In this way, the sum over all pages is what all of them hold.
        let part = self.row_bytes as u128 * follower.members.len() as u128;
        let rows = part / self.members.max(1) as u128;
        follower.memory_bytes() + rows as usize
    }

    /// Returns how many updates a page was not told, because it was told a later one, and the
    /// number of topics with changes that it has not asked for.
    pub fn behind(&self, page: usize) -> (u64, usize) {
        match self.followers.get(page) {
            Some(Some(follower)) => (follower.conflated, follower.waiting()),
            _ => (0, 0),
        }
    }

    /// Returns the approximate number of bytes that ended pages have freed since the last call, if
    /// there are more than `least`, or if no topic is left.
    pub fn take_freed(&mut self, least: usize) -> usize {
        let is_taken = self.freed_bytes > least || self.by_name.is_empty();
        match is_taken {
            true => std::mem::take(&mut self.freed_bytes),
            false => 0,
        }
    }

    /// Takes the published form of a topic, unless the row has a newer state. Mark the row then for
    /// each page that gets the update.
    pub fn update(&mut self, name: &[u8], version: Version, payload: &[u8]) -> RowId {
        let id = self.row_of(name);
        let known = self.rows[id as usize].as_ref();
        if known.is_some_and(|row| row.is_past(version)) {
            return RowId(id);
        }
        let (names, name_ends) = (
            std::mem::take(&mut self.names),
            std::mem::take(&mut self.name_ends),
        );
        let mut parsed = Parsed {
            names,
            name_ends,
            values: std::mem::take(&mut self.values),
            ends: std::mem::take(&mut self.ends),
        };
        parsed.read(payload);
        let change = self.clock + 1;
        let known = self.rows[id as usize].as_ref();
        let mut is_known = known.is_some_and(|row| parsed.fits(&row.shape));
        // The names of a shape are settled: values that fit one are too. A new topic mostly has the
        // shape of others.
        let is_settled = is_known || self.shapes.contains_key(&parsed.names[..]);
        if !is_settled && let Some(settled) = parsed.settled() {
            is_known = known.is_some_and(|row| settled.fits(&row.shape));
            parsed = settled;
        }
        let shape = (!is_known).then(|| self.shape_of(&parsed));
        if let Some(row) = &mut self.rows[id as usize] {
            self.row_bytes -= row.memory_bytes();
            let has_changed = match shape {
                Some(shape) => {
                    row.reshape(shape, &parsed.values, &parsed.ends, change);
                    true
                }
                None => row.replace(&parsed.values, &parsed.ends, change) || !row.exists,
            };
            row.exists = true;
            row.updates += 1;
            row.version = version;
            if has_changed {
                row.changed = change;
                self.clock = change;
            }
            self.row_bytes += row.memory_bytes();
        }
        Parsed {
            names: self.names,
            name_ends: self.name_ends,
            values: self.values,
            ends: self.ends,
        } = parsed;
        RowId(id)
    }

    /// Notes that a topic has no value any more.
    pub fn remove(&mut self, name: &[u8], version: Version) -> RowId {
        let id = self.row_of(name);
        if let Some(row) = &mut self.rows[id as usize]
            && !row.is_past(version)
        {
            self.row_bytes -= row.memory_bytes();
            row.version = version;
            row.updates += 1;
            if row.remove(self.clock + 1) {
                self.clock += 1;
            }
            self.row_bytes += row.memory_bytes();
        }
        RowId(id)
    }

    /// Notes that a page gets the update of a row.
    #[inline]
    pub fn mark(&mut self, page: usize, row: RowId) {
        let Some(Some(follower)) = self.followers.get_mut(page) else {
            return;
        };
        let Some(Some(known)) = self.rows.get_mut(row.0 as usize) else {
            return;
        };
        let mut is_known = false;
        for sub in &mut follower.subs {
            let slot = match known.next_place(sub.ticket) {
                Some(slot) => slot,
                None => {
                    let Some(slot) = sub.slot(row.0) else {
                        continue;
                    };
                    self.row_bytes += known.learn_place(sub.ticket, slot);
                    slot
                }
            };
            debug_assert_eq!(sub.told[slot as usize].row, row.0, "the slot is the row's");
            is_known = true;
            let is_first = sub.mark(slot);
            self.conflated += u64::from(!is_first);
            follower.conflated += u64::from(!is_first);
            if sub.is_ready() && !std::mem::replace(&mut sub.is_queued, true) {
                self.woken.push((page, sub.number));
            }
        }
        if !is_known {
            self.admit(page, row.0);
        }
    }

    #[cold]
    fn admit(&mut self, page: usize, id: u32) {
        let (Some(Some(follower)), Some(Some(row))) =
            (self.followers.get_mut(page), self.rows.get_mut(id as usize))
        else {
            return;
        };
        if follower.admit(id, row, self.glob) {
            row.followers += 1;
            self.members += 1;
            for sub in &mut follower.subs {
                if sub.is_ready() && !std::mem::replace(&mut sub.is_queued, true) {
                    self.woken.push((page, sub.number));
                }
            }
        }
    }

    /// Begins a subscription of a page, or replaces the one with this number.
    ///
    /// # Errors
    /// The page has its maximum.
    pub fn subscribe(
        &mut self,
        page: usize,
        number: u64,
        selection: Selection,
    ) -> Result<(), Full> {
        self.begin(page, number, selection, false)?;
        self.snapping.push((page, number));
        Ok(())
    }

    /// Begins a view, or replaces the subscription with this number: its rows are written when they
    /// are asked for, with [`Table::write_view`].
    ///
    /// # Errors
    /// The page has its maximum.
    pub fn subscribe_view(
        &mut self,
        page: usize,
        number: u64,
        selection: Selection,
    ) -> Result<(), Full> {
        self.begin(page, number, selection, true)
    }

    fn begin(
        &mut self,
        page: usize,
        number: u64,
        selection: Selection,
        is_view: bool,
    ) -> Result<(), Full> {
        self.unsubscribe((page, number));
        if page >= self.followers.len() {
            self.followers.resize_with(page + 1, || None);
        }
        let follower = self.followers[page].get_or_insert_default();
        if follower.subs.len() >= SUBSCRIPTIONS_MAX {
            return Err(Full);
        }
        // The places of those behind the maximum are looked up.
        self.ticket = (self.ticket + 1).min(TICKET_MAX + 1);
        let mut sub = Sub::new(self.ticket, number, selection, is_view);
        sub.adopting = follower.members.keys().copied().collect();
        if !sub.adopting.is_empty() {
            self.adopting.push((page, number));
        }
        follower.subs.push(sub);
        Ok(())
    }

    /// Ends a subscription. Returns what it has asked for, if there was one.
    pub fn unsubscribe(&mut self, (page, number): Place) -> Option<Selection> {
        let follower = self.followers.get_mut(page)?.as_mut()?;
        let at = follower.subs.iter().position(|sub| sub.number == number)?;
        let sub = follower.subs.remove(at);
        self.snapping.retain(|place| *place != (page, number));
        self.departing.push_back(Departing {
            bytes: sub.memory_bytes(),
            what: Departed::Sub(page, sub.rows.into_iter()),
        });
        Some(sub.selection)
    }

    /// Ends a page.
    pub fn leave(&mut self, page: usize) {
        let Some(follower) = self.followers.get_mut(page).and_then(Option::take) else {
            return;
        };
        self.snapping.retain(|(other, _)| *other != page);
        // The page's own list has the topics of its ended subscriptions too.
        let mut bytes = follower.memory_bytes();
        self.departing.retain(|departing| {
            let is_of_page = matches!(departing.what, Departed::Sub(other, _) if other == page);
            bytes += if is_of_page { departing.bytes } else { 0 };
            !is_of_page
        });
        self.departing.push_back(Departing {
            bytes,
            what: Departed::Page(follower.members.into_iter()),
        });
    }

    /// Notes that a page asks for the next batch. Returns whether there is such a subscription.
    pub fn next(&mut self, (page, number): Place) -> bool {
        let Some(sub) = self.sub((page, number)) else {
            return false;
        };
        sub.wants = true;
        self.wake((page, number));
        true
    }

    /// Looks again at a subscription whose batch was due and could not be written.
    pub fn wake(&mut self, place: Place) {
        let Some(sub) = self.sub(place) else {
            return;
        };
        if sub.is_ready() && !std::mem::replace(&mut sub.is_queued, true) {
            self.woken.push(place);
        }
    }

    /// Returns the subscription whose batch is due next.
    pub fn take_ready(&mut self) -> Option<Place> {
        loop {
            let place = self.ready.pop_front()?;
            if let Some(sub) = self.sub(place) {
                sub.is_queued = false;
                if sub.is_ready() {
                    return Some(place);
                }
            }
        }
    }

    /// Finds the batches that are due. Returns when the next one is.
    pub fn collect_due(&mut self, now_ns: u64) -> Option<u64> {
        for place in std::mem::take(&mut self.woken) {
            let Some(sub) = self.sub(place) else {
                continue;
            };
            let due_ns = sub.due_ns();
            match due_ns <= now_ns {
                true => self.ready.push_back(place),
                false => self.timers.push(Reverse((due_ns, place.0, place.1))),
            }
        }
        while let Some(Reverse((due_ns, page, number))) = self.timers.peek().copied()
            && due_ns <= now_ns
        {
            self.timers.pop();
            self.ready.push_back((page, number));
        }
        match self.ready.is_empty() {
            false => Some(now_ns),
            true => self.timers.peek().map(|timer| timer.0.0),
        }
    }

    /// Returns the subscriptions whose first values have not all been written.
    pub fn snapping(&self) -> &[Place] {
        &self.snapping
    }

    pub(crate) fn end_snapshot(&mut self, place: Place) {
        self.snapping.retain(|other| *other != place);
        if let Some(sub) = self.sub(place) {
            sub.is_snapping = false;
        }
        self.wake(place);
    }

    /// Does a part of the work that is put off. Returns whether some is left.
    pub fn sweep(&mut self) -> bool {
        let mut left = ENTRIES_A_TURN;
        // Before topics are dropped, so that a new subscription keeps those that an ended one had.
        let has_adopting = self.adopt(&mut left);
        while left > 0
            && let Some(mut departing) = self.departing.pop_front()
        {
            let is_done = match &mut departing.what {
                Departed::Page(members) => {
                    let some: Vec<u32> = members.by_ref().take(left).map(|(row, _)| row).collect();
                    left -= some.len();
                    self.members -= some.len();
                    some.iter().for_each(|row| self.release(*row));
                    left > 0
                }
                Departed::Sub(page, rows) => {
                    let some: Vec<u32> = rows.by_ref().take(left).map(|(row, _)| row).collect();
                    left -= some.len();
                    let page = *page;
                    some.iter().for_each(|row| self.drop_member(page, *row));
                    left > 0
                }
            };
            match is_done {
                true => self.freed_bytes += departing.bytes,
                false => self.departing.push_front(departing),
            }
        }
        for id in std::mem::take(&mut self.orphans) {
            self.free_orphan(id);
        }
        has_adopting || !self.departing.is_empty()
    }

    /// Compares known rows with new subscriptions of the same page.
    fn adopt(&mut self, left: &mut usize) -> bool {
        let mut has_more = false;
        for (page, number) in std::mem::take(&mut self.adopting) {
            let Some(Some(follower)) = self.followers.get_mut(page) else {
                continue;
            };
            let Some(position) = follower.subs.iter().position(|sub| sub.number == number) else {
                continue;
            };
            while *left > 0
                && let Some(id) = follower.subs[position].adopting.pop()
            {
                *left -= 1;
                let row = self.rows.get(id as usize).and_then(Option::as_ref);
                let sub = &mut follower.subs[position];
                let is_member = follower.members.contains_key(&id);
                if is_member && row.is_some_and(|row| sub.selection.matches(&row.name, self.glob)) {
                    sub.admit(id);
                }
            }
            if !follower.subs[position].adopting.is_empty() {
                self.adopting.push((page, number));
                has_more = true;
            }
        }
        has_more
    }

    /// Removes a topic from a page if no subscription of the page has it.
    fn drop_member(&mut self, page: usize, id: u32) {
        let Some(Some(follower)) = self.followers.get_mut(page) else {
            return;
        };
        let mut subs = follower.subs.iter();
        if !subs.any(|sub| sub.rows.contains_key(&id)) && follower.members.remove(&id).is_some() {
            self.members -= 1;
            self.release(id);
        }
    }

    fn release(&mut self, id: u32) {
        let Some(Some(row)) = self.rows.get_mut(id as usize) else {
            return;
        };
        debug_assert!(row.followers > 0, "a page that has a row is counted");
        row.followers = row.followers.saturating_sub(1);
        self.row_bytes -= row.shrink_places();
        if row.followers == 0 {
            self.free_orphan(id);
        }
    }

    fn free_orphan(&mut self, id: u32) {
        let slot = self.rows.get_mut(id as usize);
        let row = slot.and_then(|slot| slot.take_if(|row| row.followers == 0));
        if let Some(row) = row {
            self.row_bytes -= row.memory_bytes();
            self.freed_bytes += row.memory_bytes();
            self.by_name.remove(&row.name);
            self.free.push(id);
        }
        if self.by_name.is_empty() && self.rows.capacity() > ROWS_KEPT {
            self.rows = Vec::new();
            self.free = Vec::new();
            self.texts = Texts::default();
            self.by_name = HashMap::default();
        }
    }

    pub(crate) fn sub(&mut self, (page, number): Place) -> Option<&mut Sub> {
        self.followers.get_mut(page)?.as_mut()?.sub(number)
    }

    /// Returns the row of a topic, which is made if there is none.
    fn row_of(&mut self, name: &[u8]) -> u32 {
        if let Some(&id) = self.by_name.get(name) {
            if let Some(Some(row)) = self.rows.get_mut(id as usize) {
                row.rewind_places();
            }
            return id;
        }
        let shape = self.shape_of(&Parsed::default());
        let row = Row::new(name, shape);
        let id = self.free.pop().unwrap_or(self.rows.len() as u32);
        self.by_name.insert(row.name.clone(), id);
        self.row_bytes += row.memory_bytes();
        match self.rows.get_mut(id as usize) {
            Some(slot) => *slot = Some(row),
            None => self.rows.push(Some(row)),
        }
        self.orphans.push(id);
        id
    }

    fn shape_of(&mut self, parsed: &Parsed) -> Arc<Shape> {
        if let Some(shape) = self.shapes.get(&parsed.names[..]) {
            return shape.clone();
        }
        if self.shapes.len() >= SHAPES_MAX {
            self.shapes.retain(|_, shape| Arc::strong_count(shape) > 1);
        }
        self.shapes_made += 1;
        let shape = Arc::new(Shape {
            number: self.shapes_made,
            names: parsed.names().map(Box::from).collect(),
        });
        if self.shapes.len() < SHAPES_MAX {
            self.shapes.insert(parsed.names[..].into(), shape.clone());
        }
        shape
    }
}

/// The fields of a published value.
#[derive(Debug, Default)]
struct Parsed {
    names: Vec<u8>,
    name_ends: Vec<u32>,
    values: Vec<u8>,
    ends: Vec<u32>,
}

impl Parsed {
    fn clear(&mut self) {
        self.names.clear();
        self.name_ends.clear();
        self.values.clear();
        self.ends.clear();
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        self.names.extend_from_slice(name);
        self.name_ends.push(self.names.len() as u32);
        self.values.extend_from_slice(value);
        self.ends.push(self.values.len() as u32);
    }

    /// Reads an object's members. Another value is the one field `value`; a text that is not JSON
    /// is a string.
    fn read(&mut self, payload: &[u8]) {
        self.clear();
        if self.read_object(payload).is_ok() {
            return;
        }
        self.clear();
        if crate::json::is_json(payload) {
            return self.push(VALUE, payload.trim_ascii());
        }
        self.names.extend_from_slice(VALUE);
        self.name_ends.push(self.names.len() as u32);
        write_text(&mut self.values, payload);
        self.ends.push(self.values.len() as u32);
    }

    fn read_object(&mut self, payload: &[u8]) -> Result<(), NotJson> {
        let mut scanner = Scanner::new(payload);
        scanner.expect(b'{')?;
        scanner.members(|scanner, name| {
            let value = scanner.value()?;
            match self.names.len() + name.len() > u32::MAX as usize {
                true => Err(NotJson),
                false => {
                    self.push(name, value);
                    Ok(())
                }
            }
        })?;
        scanner.end()
    }

    /// Returns the fields with each name once, in the one form of its text and with its last value,
    /// as `JSON.parse` reads an object; `None` if they are so already.
    fn settled(&self) -> Option<Parsed> {
        let count = self.name_ends.len();
        let mut places = HashMap::with_capacity_and_hasher(count, RandomState::default());
        let mut fields: Vec<(Cow<'_, [u8]>, usize)> = Vec::with_capacity(count);
        let mut is_settled = true;
        for (at, name) in self.names().enumerate() {
            let name = plain_string(name);
            is_settled &= matches!(name, Cow::Borrowed(_));
            let place = *places.entry(name.clone()).or_insert(fields.len());
            match fields.get_mut(place) {
                Some(field) => {
                    field.1 = at;
                    is_settled = false;
                }
                None => fields.push((name, at)),
            }
        }
        if is_settled {
            return None;
        }
        let mut settled = Parsed::default();
        for (name, at) in fields {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            settled.push(&name, &self.values[start as usize..self.ends[at] as usize]);
        }
        Some(settled)
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.name_ends.iter().map(move |&end| {
            let name = &self.names[start..end as usize];
            start = end as usize;
            name
        })
    }

    fn fits(&self, shape: &Shape) -> bool {
        shape.names.len() == self.name_ends.len()
            && self
                .names()
                .zip(&shape.names)
                .all(|(name, known)| *name == **known)
    }
}

/// The field of a topic whose published form is not an object.
const VALUE: &[u8] = b"\"value\"";
/// Topics of ended pages freed, and known rows compared, in one turn.
const ENTRIES_A_TURN: usize = 4_096;
/// Forms of rows that are shared.
const SHAPES_MAX: usize = 4_096;
/// Rows whose memory an empty table keeps.
const ROWS_KEPT: usize = 4_096;

#[cfg(test)]
mod tests;
