//! One page: its subscriptions, and what it has been told of each topic.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::json::write_text;
use crate::places::{Slots, push};
use crate::row::{Row, Shape};
use crate::table::Glob;
use crate::texts::Look;

/// Maximum subscriptions and views of one page.
pub const SUBSCRIPTIONS_MAX: usize = 256;
/// Maximum topics of one page.
pub const TOPICS_MAX: usize = 1_000_000;

/// The page has its maximum of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The topics and fields that a subscription asks for, and how often.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    names: HashSet<Box<[u8]>, RandomState>,
    patterns: Vec<Box<[u8]>>,
    /// Each as a JSON string with quotation marks; `None` for all.
    fields: Option<Vec<Box<[u8]>>>,
    interval_ns: u64,
    is_short: bool,
}

impl Selection {
    /// Selects topics by names and glob patterns. `fields` are names; `None` selects all. `hz` is
    /// the maximum number of batches per second.
    pub fn new<'t>(
        topics: impl IntoIterator<Item = &'t [u8]>,
        fields: Option<&[Vec<u8>]>,
        hz: f64,
    ) -> Self {
        let quoted = |name: &Vec<u8>| {
            let mut text = Vec::with_capacity(name.len() + 2);
            write_text(&mut text, name);
            text.into_boxed_slice()
        };
        let mut selection = Selection {
            fields: fields.map(|fields| fields.iter().map(quoted).collect()),
            interval_ns: (1e9 / hz.clamp(HZ_MIN, HZ_MAX)) as u64,
            ..Selection::default()
        };
        for topic in topics {
            match is_pattern(topic) {
                true => selection.patterns.push(topic.into()),
                false => {
                    selection.names.insert(topic.into());
                }
            }
        }
        selection
    }

    /// Makes the fields have numbers in place of names, if `is_short`.
    #[must_use]
    pub fn short(mut self, is_short: bool) -> Self {
        self.is_short = is_short;
        self
    }

    /// Returns whether the fields have numbers in place of names.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Returns the time between two batches.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Returns how many names and patterns it asks for.
    #[expect(
        clippy::len_without_is_empty,
        reason = "one that asks for nothing is none"
    )]
    pub fn len(&self) -> usize {
        self.names.len() + self.patterns.len()
    }

    /// Returns the names that it asks for.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &**name)
    }

    /// Returns its glob patterns.
    pub fn patterns(&self) -> impl Iterator<Item = &[u8]> {
        self.patterns.iter().map(|pattern| &**pattern)
    }

    pub(crate) fn matches(&self, name: &[u8], glob: Glob) -> bool {
        self.names.contains(name) || self.patterns.iter().any(|pattern| glob(pattern, name))
    }
}

/// Returns whether a text is a glob pattern, not one name.
fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| b"*?[\\".contains(byte))
}

/// A page. What a mark needs comes first.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Follower {
    pub(crate) subs: Vec<Sub>,
    /// Updates of which the page was told only a later one.
    pub(crate) conflated: u64,
    pub(crate) members: HashMap<u32, Member, RandomState>,
    numbers: u32,
}

/// A topic of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Member {
    /// How the page's messages name it; 0 before the first.
    pub(crate) number: u32,
}

/// A subscription of a page. What a mark needs is in the first 64 bytes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Sub {
    /// See [`crate::places`].
    pub(crate) ticket: u64,
    pub(crate) number: u64,
    /// Slots of rows with changes that the page was not told, each once.
    pub(crate) dirty: VecDeque<u32>,
    /// Whether the page has asked for the next batch.
    pub(crate) wants: bool,
    /// Whether its first values have not all been written.
    pub(crate) is_snapping: bool,
    /// Whether rows are written when they are asked for, and not in batches.
    pub(crate) is_view: bool,
    /// Whether a list of the table names it.
    pub(crate) is_queued: bool,
    /// Those in `dirty`.
    pub(crate) is_dirty: Slots,
    /// What the page knows of each row: the row's slot is its place here, and stays.
    pub(crate) told: Vec<Told>,
    /// The slot of each row.
    pub(crate) rows: HashMap<u32, u32, RandomState>,
    pub(crate) selection: Selection,
    /// The rows of a view's last page: of no others the page knows anything.
    pub(crate) shown: Vec<u32>,
    /// Rows of the page that are yet to be compared with the selection.
    pub(crate) adopting: Vec<u32>,
    /// When the last batch was written, monotonic ns.
    pub(crate) written_ns: u64,
    /// How rows of each form are shown, by the form's number; and the form that was shown last.
    looks: HashMap<u64, Look, RandomState>,
    last_look: (u64, Look),
    /// Numbers of fields, if they have numbers.
    numbers: HashMap<Box<[u8]>, u32, RandomState>,
    /// Fields whose numbers the page has not been told, in order.
    fresh: Vec<Box<[u8]>>,
}

/// A selected field of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its position.
    pub(crate) at: u32,
    /// Its number; `None` if it is told by its name.
    pub(crate) number: Option<u32>,
}

/// What a page knows of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The last change that it knows; 0 if it has no value.
    pub(crate) seen: u64,
    /// How the page's messages name it; 0 before the first.
    pub(crate) number: u32,
    pub(crate) row: u32,
}

impl Sub {
    pub(crate) fn new(ticket: u64, number: u64, selection: Selection, is_view: bool) -> Self {
        Self {
            ticket,
            number,
            dirty: VecDeque::new(),
            wants: false,
            is_snapping: !is_view,
            is_view,
            is_queued: false,
            is_dirty: Slots::default(),
            told: Vec::new(),
            rows: HashMap::default(),
            selection,
            shown: Vec::new(),
            adopting: Vec::new(),
            written_ns: 0,
            looks: HashMap::default(),
            last_look: (NO_SHAPE, Look::default()),
            numbers: HashMap::default(),
            fresh: Vec::new(),
        }
    }

    /// Returns the approximate memory of what the page knows of these topics, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let told = self.told.capacity() * size_of::<Told>();
        let dirty = self.dirty.capacity() * size_of::<u32>() + self.is_dirty.memory_bytes();
        SUB_BYTES + map_bytes(&self.rows) + told + dirty
    }

    /// Returns when the next batch may be written.
    pub(crate) fn due_ns(&self) -> u64 {
        self.written_ns.saturating_add(self.selection.interval_ns)
    }

    /// Returns whether a batch can be written, apart from its time.
    pub(crate) fn is_ready(&self) -> bool {
        self.wants && !self.is_view && !self.is_snapping && !self.dirty.is_empty()
    }

    /// Returns the slot of a row.
    #[inline]
    pub(crate) fn slot(&self, row: u32) -> Option<u32> {
        self.rows.get(&row).copied()
    }

    /// Notes a change of a row that it has, and returns whether the page knows of all earlier ones.
    #[inline]
    pub(crate) fn mark(&mut self, slot: u32) -> bool {
        let is_first = self.is_dirty.set(slot);
        if is_first {
            self.dirty.push_back(slot);
        }
        is_first
    }

    /// Takes the slot of the next row with a change that the page was not told.
    #[inline]
    pub(crate) fn take_dirty(&mut self) -> Option<u32> {
        let slot = self.dirty.pop_front()?;
        self.is_dirty.clear(slot);
        Some(slot)
    }

    /// Adds a row, all of which is news.
    pub(crate) fn admit(&mut self, row: u32) {
        let slot = self.told.len() as u32;
        if let Entry::Vacant(entry) = self.rows.entry(row) {
            entry.insert(slot);
            let told = Told {
                seen: 0,
                number: 0,
                row,
            };
            push(&mut self.told, told);
            self.mark(slot);
        }
        debug_assert_eq!(self.told.len(), self.rows.len(), "one slot a row");
    }

    /// Notes the rows of a view's page. What was told of others is forgotten, here as in the page.
    pub(crate) fn show(&mut self, rows: Vec<u32>) {
        debug_assert!(self.is_view, "a page of a view");
        let kept: HashSet<u32, RandomState> = rows.iter().copied().collect();
        for row in std::mem::replace(&mut self.shown, rows) {
            if !kept.contains(&row)
                && let Some(slot) = self.slot(row)
            {
                self.told[slot as usize].seen = 0;
            }
        }
    }

    /// Returns how rows of this form are shown.
    #[inline]
    pub(crate) fn look(&mut self, shape: &Arc<Shape>) -> &mut Look {
        if self.last_look.0 != shape.number {
            let look = self.look_of(shape);
            self.last_look = (shape.number, look);
        }
        &mut self.last_look.1
    }

    fn look_of(&mut self, shape: &Arc<Shape>) -> Look {
        let is_short = self.selection.is_short;
        if self.selection.fields.is_none() && !is_short {
            return Look::default();
        }
        if let Some(look) = self.looks.get(&shape.number) {
            return look.clone();
        }
        if self.looks.len() > SHAPES_MAX {
            self.looks.clear();
        }
        let mut columns = Vec::with_capacity(shape.names.len());
        for (at, name) in shape.names.iter().enumerate() {
            if self.selects(name) {
                let number = self.number_of(name);
                let at = at as u32;
                columns.push(Column { at, number });
            }
        }
        let look = Look {
            is_short,
            columns: Some(columns.into()),
        };
        self.looks.insert(shape.number, look.clone());
        look
    }

    /// Returns the number of a field, if fields have numbers and there is one left.
    pub(crate) fn number_of(&mut self, name: &[u8]) -> Option<u32> {
        if !self.selection.is_short {
            return None;
        }
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number = self.numbers.len();
        if number >= FIELDS_MAX {
            return None;
        }
        self.numbers.insert(name.into(), number as u32);
        self.fresh.push(name.into());
        Some(number as u32)
    }

    /// Appends the member `fields` of a message, with the names of the numbers that the page has
    /// not been told.
    pub(crate) fn write_fresh(&mut self, out: &mut Vec<u8>) {
        if self.fresh.is_empty() {
            return;
        }
        out.extend_from_slice(b",\"fields\":{");
        let first = self.numbers.len() - self.fresh.len();
        for (at, name) in self.fresh.drain(..).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.push(b'"');
            crate::writing::write_number(out, (first + at) as u64);
            out.extend_from_slice(b"\":");
            out.extend_from_slice(&name);
        }
        out.push(b'}');
    }

    /// Returns whether a field is selected.
    pub(crate) fn selects(&self, name: &[u8]) -> bool {
        let fields = self.selection.fields.as_ref();
        fields.is_none_or(|fields| fields.iter().any(|field| **field == *name))
    }
}

impl Follower {
    /// Returns the approximate memory of what the page knows of its topics, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let subs: usize = self.subs.iter().map(Sub::memory_bytes).sum();
        map_bytes(&self.members) + subs
    }

    /// Returns the number of changes that the page has not asked for, each topic once per
    /// subscription.
    pub(crate) fn waiting(&self) -> usize {
        self.subs.iter().map(|sub| sub.dirty.len()).sum()
    }

    pub(crate) fn sub(&mut self, number: u64) -> Option<&mut Sub> {
        self.subs.iter_mut().find(|sub| sub.number == number)
    }

    /// Returns the number of a topic in this page's messages, and whether its name has not been
    /// sent.
    pub(crate) fn number_of(&mut self, row: u32) -> (u32, bool) {
        let member = self.members.entry(row).or_default();
        let is_new = member.number == 0;
        if is_new {
            self.numbers += 1;
            member.number = self.numbers;
        }
        (member.number, is_new)
    }

    /// Adds a row to each subscription that selects it. Returns whether any does.
    pub(crate) fn admit(&mut self, id: u32, row: &Row, glob: Glob) -> bool {
        if self.members.len() >= TOPICS_MAX || self.members.contains_key(&id) {
            return false;
        }
        let mut is_member = false;
        for sub in &mut self.subs {
            if sub.selection.matches(&row.name, glob) {
                sub.admit(id);
                is_member = true;
            }
        }
        if is_member {
            self.members.insert(id, Member::default());
        }
        is_member
    }
}

/// Returns the memory of a table in bytes: it has a power of two of places, of which up to seven
/// in eight are taken, and a byte more for each.
fn map_bytes<V>(map: &HashMap<u32, V, RandomState>) -> usize {
    let places = (map.capacity() * 8).div_ceil(7);
    places * (size_of::<(u32, V)>() + 1)
}

/// About what a subscription takes without its topics.
const SUB_BYTES: usize = 512;
const _: () = assert!(size_of::<Sub>() <= SUB_BYTES);
const HZ_MIN: f64 = 0.01;
const HZ_MAX: f64 = 1000.0;
/// The number of no form.
const NO_SHAPE: u64 = 0;
/// Forms of rows whose selected fields a subscription remembers.
const SHAPES_MAX: usize = 256;
/// Fields of a subscription that have numbers; further ones are told by their names.
const FIELDS_MAX: usize = 4_096;
