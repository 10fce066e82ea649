//! One topic as a row: its fields, and the change that gave each its value.

use std::sync::Arc;

use crate::places::Places;

/// The names of a row's fields, in order. Rows of the same form share them.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) number: u64,
    /// Each as a JSON string with its quotation marks.
    pub(crate) names: Vec<Box<[u8]>>,
}

/// The state of a topic, as its source counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The source: states of different sources are not compared.
    pub source: u64,
    /// Grows with each state; 0 where states are not counted.
    pub number: u64,
    /// Whether the value was read when it was needed, behind this state: what was published of the
    /// same state may be older.
    pub is_read: bool,
}

impl Version {
    /// Returns whether this state is older than `other`.
    fn is_before(self, other: Version) -> bool {
        let is_read_since = self.number == other.number && other.is_read && !self.is_read;
        let is_older = self.number < other.number || is_read_since;
        self.source == other.source && self.number != 0 && is_older
    }
}

/// A topic.
#[derive(Debug)]
pub struct Row {
    pub(crate) name: Arc<[u8]>,
    pub(crate) shape: Arc<Shape>,
    /// The JSON texts of all values, one after another.
    pub(crate) values: Vec<u8>,
    /// End and last change of each value.
    pub(crate) fields: Vec<(u32, u64)>,
    /// Fields that no longer exist, with the change that removed them.
    pub(crate) removed: Vec<(Box<[u8]>, u64)>,
    /// A page that knows an older state than this change must forget the row first.
    pub(crate) forgotten: u64,
    /// Whether the topic has a value.
    pub(crate) exists: bool,
    /// The last change.
    pub(crate) changed: u64,
    /// Where the value comes from, and the state of the topic as that counts it.
    pub(crate) version: Version,
    /// Number of updates since the row exists.
    pub(crate) updates: u64,
    /// Number of pages that have it.
    pub(crate) followers: u32,
    /// Where they keep it, if several do.
    places: Option<Box<Places>>,
}

impl Row {
    /// Returns the name of the topic.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns whether the topic has a value.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Returns the number of updates since the row exists.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    pub(crate) fn new(name: &[u8], shape: Arc<Shape>) -> Self {
        Self {
            name: name.into(),
            shape,
            values: Vec::new(),
            fields: Vec::new(),
            removed: Vec::new(),
            forgotten: 0,
            exists: false,
            changed: 0,
            version: Version::default(),
            updates: 0,
            followers: 0,
            places: None,
        }
    }

    /// Begins with the places of the first page.
    #[inline]
    pub(crate) fn rewind_places(&mut self) {
        if let Some(places) = &mut self.places {
            places.rewind();
        }
    }

    /// Returns the slot of a subscription whose mark was expected.
    #[inline]
    pub(crate) fn next_place(&mut self, ticket: u64) -> Option<u32> {
        self.places.as_mut()?.next(ticket)
    }

    /// Notes the slot of a subscription that was marked. Returns the memory that it takes, in
    /// bytes.
    #[inline]
    pub(crate) fn learn_place(&mut self, ticket: u64, slot: u32) -> usize {
        if self.followers < PLACES_LEAST {
            return 0;
        }
        let before = self.places_bytes();
        let most = self.places_max();
        let places = self.places.get_or_insert_default();
        places.learn(ticket, slot, most);
        self.places_bytes() - before
    }

    /// Forgets places, if a page has left. Returns the memory that this frees, in bytes.
    pub(crate) fn shrink_places(&mut self) -> usize {
        let before = self.places_bytes();
        let most = self.places_max();
        match &mut self.places {
            Some(places) if self.followers >= PLACES_LEAST => places.shrink(most),
            places => *places = None,
        }
        before - self.places_bytes()
    }

    /// Returns the maximum of places: two subscriptions of each page. Rows of further ones are
    /// looked up.
    fn places_max(&self) -> usize {
        2 * self.followers as usize
    }

    fn places_bytes(&self) -> usize {
        let places = self.places.as_ref();
        places.map_or(0, |places| places.memory_bytes())
    }

    /// Returns whether a state is older than that of the row.
    pub(crate) fn is_past(&self, version: Version) -> bool {
        version.is_before(self.version)
    }

    /// Returns the text of a value.
    #[inline]
    pub(crate) fn value(&self, field: usize) -> &[u8] {
        let start = match field {
            0 => 0,
            _ => self.fields[field - 1].0 as usize,
        };
        &self.values[start..self.fields[field].0 as usize]
    }

    /// Returns the JSON text of a field by its name, which is a JSON string with quotation marks.
    pub fn find(&self, name: &[u8]) -> Option<&[u8]> {
        let mut names = self.shape.names.iter();
        let field = names.position(|known| **known == *name)?;
        self.exists.then(|| self.value(field))
    }

    /// Takes new values for the same fields: `values` and where each ends. Returns whether any
    /// differs.
    pub(crate) fn replace(&mut self, values: &[u8], ends: &[u32], change: u64) -> bool {
        debug_assert_eq!(ends.len(), self.shape.names.len(), "one value a field");
        let (mut start, mut has_changed) = (0, false);
        for (field, &end) in ends.iter().enumerate() {
            let value = &values[start..end as usize];
            if self.fields.len() <= field {
                self.fields.push((0, 0));
                self.fields[field].1 = change;
                has_changed = true;
            } else if self.value(field) != value {
                self.fields[field].1 = change;
                has_changed = true;
            }
            start = end as usize;
        }
        if has_changed || !self.exists {
            self.values.clear();
            self.values.extend_from_slice(values);
            let marks = self.fields.iter_mut().zip(ends);
            marks.for_each(|(mark, end)| mark.0 = *end);
        }
        has_changed
    }

    /// Takes another form. Fields that both have keep their change if their value is the same.
    pub(crate) fn reshape(&mut self, shape: Arc<Shape>, values: &[u8], ends: &[u32], change: u64) {
        let mut fields = Vec::with_capacity(ends.len());
        let mut start = 0;
        for (name, &end) in shape.names.iter().zip(ends) {
            let value = &values[start..end as usize];
            start = end as usize;
            let known = self.shape.names.iter().position(|other| other == name);
            let known = known.filter(|at| *at < self.fields.len() && self.value(*at) == value);
            fields.push((end, known.map_or(change, |at| self.fields[at].1)));
        }
        self.removed.retain(|(name, _)| !shape.names.contains(name));
        let lost = self
            .shape
            .names
            .iter()
            .filter(|name| !shape.names.contains(name));
        self.removed.extend(lost.map(|name| (name.clone(), change)));
        if self.removed.len() > REMOVED_MAX {
            self.removed.clear();
            self.forgotten = change;
        }
        self.fields = fields;
        self.values = values.to_vec();
        self.shape = shape;
    }

    /// Removes the value. Returns whether there was one.
    pub(crate) fn remove(&mut self, change: u64) -> bool {
        let existed = std::mem::replace(&mut self.exists, false);
        if existed {
            self.values = Vec::new();
            self.fields = Vec::new();
            self.removed = Vec::new();
            self.forgotten = change;
            self.changed = change;
        }
        existed
    }

    /// Approximate memory in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let fields = self.fields.capacity() * size_of::<(u32, u64)>();
        let removed = self.removed.iter().map(|(name, _)| name.len());
        let removed =
            removed.sum::<usize>() + self.removed.capacity() * size_of::<(Box<[u8]>, u64)>();
        let own = size_of::<Row>() + ENTRY_BYTES + self.name.len();
        own + self.values.capacity() + fields + removed + self.places_bytes()
    }
}

/// A row's entry in the table of names, and the head of the name.
const ENTRY_BYTES: usize = 56;
/// Pages of a row whose places are kept: for fewer, its own value costs more than they do.
const PLACES_LEAST: u32 = 4;
/// Removed fields that a row remembers; with more, pages forget the row and get it again.
const REMOVED_MAX: usize = 64;
