//! Hashes: a few fields in one run of bytes, or a table; with or without TTLs of fields.
//!
//! A hash gets room for TTLs from the first command that could set one, and keeps it. Until then,
//! TTLs cost it nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use crate::encoding::Kind;
use crate::entry::{Entry, NewValue};
use crate::hash;
pub(crate) use crate::packed::DEADLINE_MS_MAX;
use crate::packed::{self, PackedFields, PackedFieldsIter, Pair};
use crate::sampling::Pool;
use crate::sampling::random_below;
use crate::table::{Place, Table};
use crate::value::Object;

/// The fields of a hash at one time, without expired fields.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    form: Form<'a>,
    now_ms: i64,
}

#[derive(Clone, Copy)]
enum Form<'a> {
    Packed(PackedFields<'a>),
    Table(&'a Table),
    Timed(&'a TimedTable),
}

/// The result of a field lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundField<'a> {
    Value(&'a [u8]),
    /// The field exists but has expired.
    Due,
    Missing,
}

impl<'a> Fields<'a> {
    /// Returns the fields of an entry, if it is a hash.
    #[inline]
    pub(crate) fn of(entry: &'a Entry, now_ms: i64) -> Option<Self> {
        let form = match (PackedFields::of(entry), entry.kind()) {
            (Some(packed), _) => Form::Packed(packed),
            (_, Kind::Object) => match entry.object()? {
                Object::Hash(table) => Form::Table(table),
                Object::TimedHash(timed) => Form::Timed(timed),
                _ => return None,
            },
            _ => return None,
        };
        Some(Fields { form, now_ms })
    }

    /// Returns the number of fields.
    pub fn len(self) -> usize {
        if self.has_due() {
            self.iter().count()
        } else {
            self.len_with_due()
        }
    }

    /// Returns whether fields may have a TTL: there is room for it.
    pub(crate) fn is_timed(self) -> bool {
        match self.form {
            Form::Packed(packed) => packed.is_timed(),
            Form::Table(_) => false,
            Form::Timed(_) => true,
        }
    }

    /// Returns whether any field has expired.
    #[inline]
    pub(crate) fn has_due(self) -> bool {
        self.earliest_ms()
            .is_some_and(|earliest_ms| earliest_ms <= self.now_ms)
    }

    /// Returns the earliest deadline, which may have passed.
    pub(crate) fn earliest_ms(self) -> Option<i64> {
        match self.form {
            Form::Packed(packed) => packed.earliest_ms(),
            Form::Table(_) => None,
            Form::Timed(timed) => timed.earliest_ms(),
        }
    }

    /// Returns the number of fields, including expired fields that still exist.
    pub(crate) fn len_with_due(self) -> usize {
        match self.form {
            Form::Packed(packed) => packed.len(),
            Form::Table(table) => table.len(),
            Form::Timed(timed) => timed.table.len(),
        }
    }

    /// Returns whether there are no fields. Only a live topic can be empty, or a hash whose fields
    /// have just expired.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a field.
    pub fn get(self, field: &[u8]) -> Option<&'a [u8]> {
        match self.find(field) {
            FoundField::Value(value) => Some(value),
            FoundField::Due | FoundField::Missing => None,
        }
    }

    #[inline]
    pub(crate) fn find(self, field: &[u8]) -> FoundField<'a> {
        let found = match self.form {
            Form::Packed(packed) => packed
                .find(field)
                .map(|(_, pair)| (pair.value, pair.is_due(self.now_ms))),
            Form::Table(table) => table
                .find(hash::of(field), field)
                .map(|place| (table.entry(place).bytes(), false)),
            Form::Timed(timed) => timed.entry(field).map(|entry| {
                let due = is_due(entry, self.now_ms);
                (entry.bytes(), due)
            }),
        };
        match found {
            Some((_, true)) => FoundField::Due,
            Some((value, false)) => FoundField::Value(value),
            None => FoundField::Missing,
        }
    }

    /// Returns the deadline of an existing field.
    pub(crate) fn deadline_of(self, field: &[u8]) -> Option<Option<i64>> {
        let deadline_ms = match self.form {
            Form::Packed(packed) => packed.find(field)?.1.deadline_ms,
            Form::Table(table) => table.find(hash::of(field), field).map(|_| None)?,
            Form::Timed(timed) => timed.entry(field)?.deadline_ms(),
        };
        deadline_ms
            .is_none_or(|deadline_ms| deadline_ms > self.now_ms)
            .then_some(deadline_ms)
    }

    /// Iterates over fields and values. A small hash has fields with a TTL first, then the order in
    /// which they were first set.
    pub fn iter(self) -> FieldsIter<'a> {
        let now_ms = self.now_ms;
        FieldsIter(match (self.form, self.table()) {
            (Form::Packed(packed), _) => FieldsIterKind::Packed(packed.iter(), now_ms),
            (_, Some(table)) => FieldsIterKind::Table(Box::new(
                table
                    .iter()
                    .filter(move |entry| !is_due(entry, now_ms))
                    .map(|entry| (entry.key(), entry.bytes())),
            )),
            (_, None) => FieldsIterKind::Table(Box::new(std::iter::empty())),
        })
    }

    /// Returns a random field with its value; `None` if there is none.
    pub(crate) fn random(self, mut random: impl FnMut() -> u64) -> Option<(&'a [u8], &'a [u8])> {
        match self.table() {
            Some(table) if !self.has_due() => {
                let entry = table.random(random)?;
                Some((entry.key(), entry.bytes()))
            }
            _ => {
                let count = self.len();
                let at = (count > 0).then(|| random_below(random(), count))?;
                self.iter().nth(at)
            }
        }
    }

    /// Returns the pool from which fields are drawn.
    pub(crate) fn pool(self) -> Pool<'a, (&'a [u8], &'a [u8])> {
        match self.table() {
            Some(table) if !self.has_due() => {
                Pool::Table(table, |entry| (entry.key(), entry.bytes()))
            }
            _ => Pool::Listed(self.iter().collect()),
        }
    }

    /// Iterates over fields with values and deadlines, in the same order.
    pub(crate) fn pairs(self) -> impl Iterator<Item = Pair<'a>> {
        let packed = match self.form {
            Form::Packed(packed) => Some(packed.iter()),
            _ => None,
        };
        let entries = self.table().into_iter().flat_map(|table| table.iter());
        let pairs = packed
            .into_iter()
            .flatten()
            .chain(entries.map(|entry| Pair {
                field: entry.key(),
                value: entry.bytes(),
                deadline_ms: entry.deadline_ms(),
            }));
        pairs.filter(move |pair| !pair.is_due(self.now_ms))
    }

    /// Returns the table of a large hash. Its entries are fields; some may have expired.
    pub(crate) fn table(self) -> Option<&'a Table> {
        match self.form {
            Form::Packed(_) => None,
            Form::Table(table) => Some(table),
            Form::Timed(timed) => Some(&timed.table),
        }
    }
}

impl<'a> IntoIterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = FieldsIter<'a>;

    fn into_iter(self) -> FieldsIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let pairs = self.iter().map(|(field, value)| (text(field), text(value)));
        formatter.debug_map().entries(pairs).finish()
    }
}

/// Iterator over [`Fields`].
pub struct FieldsIter<'a>(FieldsIterKind<'a>);

enum FieldsIterKind<'a> {
    Packed(PackedFieldsIter<'a>, i64),
    // Boxed: only large hashes pay for the dynamic dispatch.
    Table(Box<dyn Iterator<Item = (&'a [u8], &'a [u8])> + 'a>),
}

impl<'a> Iterator for FieldsIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            FieldsIterKind::Packed(pairs, now_ms) => pairs
                .find(|pair| !pair.is_due(*now_ms))
                .map(|pair| (pair.field, pair.value)),
            FieldsIterKind::Table(entries) => entries.next(),
        }
    }
}

impl fmt::Debug for FieldsIter<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FieldsIter")
    }
}

/// A table of fields with and without TTLs.
#[derive(Debug)]
pub(crate) struct TimedTable {
    table: Table,
    /// Deadlines with the hashes of their fields. An outdated deadline, because its field was
    /// removed or has a new one, stays until it comes first or until there are too many.
    queue: BinaryHeap<Reverse<(i64, u64)>>,
    /// Number of fields with a deadline.
    count: usize,
    /// The node of the timer for the earliest deadline.
    timer: Option<u32>,
}

impl TimedTable {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Creates it from a table whose fields have no deadlines.
    fn new(table: Table) -> Self {
        TimedTable {
            table,
            queue: BinaryHeap::new(),
            count: 0,
            timer: None,
        }
    }

    /// Copies the fields with their deadlines, without the timer.
    pub(crate) fn duplicate(&self) -> Self {
        let mut copy = TimedTable::new(Table::new());
        for entry in self.table.iter() {
            let hash = hash::of(entry.key());
            let place = copy.table.insert(hash, entry.duplicate(hash, entry.key()));
            copy.set_deadline(place, hash, entry.deadline_ms());
        }
        copy
    }

    fn entry(&self, field: &[u8]) -> Option<&Entry> {
        let place = self.table.find(hash::of(field), field)?;
        Some(self.table.entry(place))
    }

    fn earliest_ms(&self) -> Option<i64> {
        self.queue
            .peek()
            .map(|Reverse((deadline_ms, _))| *deadline_ms)
    }

    fn set_deadline(&mut self, place: Place, hash: u64, deadline_ms: Option<i64>) {
        let entry = self.table.entry_mut(place);
        let old_ms = entry.deadline_ms();
        if old_ms == deadline_ms {
            return;
        }
        entry.set_deadline(deadline_ms.map(|deadline_ms| (deadline_ms, 0)));
        self.count -= usize::from(old_ms.is_some());
        if let Some(deadline_ms) = deadline_ms {
            self.count += 1;
            self.queue.push(Reverse((deadline_ms, hash)));
        }
        self.tidy();
        debug_assert!(self.count <= self.table.len());
    }

    fn remove(&mut self, place: Place) {
        let entry = self.table.remove(place);
        debug_assert!(self.count > 0 || entry.deadline_ms().is_none());
        if entry.deadline_ms().is_some() {
            self.count -= 1;
            self.tidy();
        }
    }

    fn remove_due(&mut self, now_ms: i64, count_max: usize, gone: &mut dyn FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < count_max
            && let Some(&Reverse((deadline_ms, hash))) = self.queue.peek()
            && deadline_ms <= now_ms
        {
            self.queue.pop();
            if let Some(place) = self.place_of(deadline_ms, hash) {
                gone(self.table.remove(place).key());
                debug_assert!(self.count > 0);
                self.count -= 1;
                count += 1;
            }
        }
        self.tidy();
        count
    }

    /// Removes outdated deadlines from the front of the queue. If most of the queue is outdated,
    /// removes all of them.
    fn tidy(&mut self) {
        while let Some(&Reverse((deadline_ms, hash))) = self.queue.peek()
            && self.place_of(deadline_ms, hash).is_none()
        {
            self.queue.pop();
        }
        if self.queue.len() > 2 * self.count + QUEUE_SLACK {
            let timed = self.table.iter().filter_map(|entry| {
                let deadline_ms = entry.deadline_ms()?;
                Some(Reverse((deadline_ms, hash::of(entry.key()))))
            });
            self.queue = timed.collect();
            debug_assert_eq!(
                self.queue.len(),
                self.count,
                "the queue has each deadline once"
            );
        }
        debug_assert_eq!(self.queue.is_empty(), self.count == 0);
        debug_assert!(
            self.queue.len() >= self.count,
            "the queue has every deadline"
        );
    }

    /// Finds a field with this deadline and hash, as far as the table knows the hash. If there are
    /// two such fields, the queue has both.
    fn place_of(&self, deadline_ms: i64, hash: u64) -> Option<Place> {
        self.table
            .find_by(hash, |entry| entry.deadline_ms() == Some(deadline_ms))
    }
}

/// Limits of a packed hash: number of fields, and bytes of a field or value.
pub(crate) type HashLimits = (usize, usize);

/// Returns a hash without fields.
pub(crate) fn empty() -> NewValue<'static> {
    NewValue::Compact(Kind::PackedHash, packed::EMPTY)
}

/// Returns whether an entry is a hash.
#[inline]
pub(crate) fn is_hash(entry: &Entry) -> bool {
    match entry.kind() {
        Kind::PackedHash | Kind::PackedHashTimed => true,
        Kind::Object => matches!(entry.object(), Some(Object::Hash(_) | Object::TimedHash(_))),
        _ => false,
    }
}

/// Returns whether an entry is a hash with room for TTLs.
#[inline]
pub(crate) fn is_timed(entry: &Entry) -> bool {
    match entry.kind() {
        Kind::PackedHashTimed => true,
        Kind::Object => matches!(entry.object(), Some(Object::TimedHash(_))),
        _ => false,
    }
}

/// Returns the number of fields, including expired ones.
pub(crate) fn len(entry: &Entry) -> usize {
    Fields::of(entry, i64::MIN).map_or(0, Fields::len_with_due)
}

/// Converts a small hash to a table if it will not hold `count` more fields.
pub(crate) fn expect(entry: &mut Entry, count: usize, limits: HashLimits) {
    if count > limits.0 && PackedFields::of(entry).is_some() {
        unpack(entry);
    }
}

/// Sets a field of a hash, and clears its deadline unless `keeps_deadline`. Returns true if
/// the field is new. A packed hash that outgrows the limits becomes a table and stays one.
pub(crate) fn set(
    entry: &mut Entry,
    field: &[u8],
    value: &[u8],
    limits: HashLimits,
    keeps_deadline: bool,
) -> bool {
    debug_assert!(is_hash(entry));
    if let Some(packed) = PackedFields::of(entry) {
        let found = packed.find(field);
        let new = found.is_none();
        let fits = field.len().max(value.len()) <= limits.1 && (!new || packed.len() < limits.0);
        match found.map(|(span, pair)| (span, pair.deadline_ms)) {
            _ if !fits => {
                unpack(entry);
                return set(entry, field, value, limits, keeps_deadline);
            }
            Some((span, Some(_))) if !keeps_deadline => {
                // It goes after those with a deadline.
                packed::remove(entry, span);
                packed::append(entry, field, value);
            }
            Some((span, _)) => packed::replace(entry, span, value),
            None => packed::append(entry, field, value),
        }
        return new;
    }
    let hash = hash::of(field);
    let table = match entry.object_mut() {
        Some(Object::Hash(table)) => table,
        Some(Object::TimedHash(timed)) => {
            if !keeps_deadline && let Some(place) = timed.table.find(hash, field) {
                timed.set_deadline(place, hash, None);
            }
            &mut timed.table
        }
        _ => return false,
    };
    match table.find(hash, field) {
        Some(place) => {
            table.entry_mut(place).set_value(NewValue::Bytes(value));
            false
        }
        None => {
            table.insert(hash, Entry::new(hash, field, NewValue::Bytes(value), false));
            true
        }
    }
}

/// Removes a field; returns false if it did not exist.
pub(crate) fn remove(entry: &mut Entry, field: &[u8]) -> bool {
    debug_assert!(is_hash(entry));
    if let Some(packed) = PackedFields::of(entry) {
        let found = packed.find(field).map(|(span, _)| span);
        if let Some(span) = found {
            packed::remove(entry, span);
        }
        return found.is_some();
    }
    let hash = hash::of(field);
    match entry.object_mut() {
        Some(Object::Hash(table)) => {
            let place = table.find(hash, field);
            place.map(|place| table.remove(place)).is_some()
        }
        Some(Object::TimedHash(timed)) => {
            let place = timed.table.find(hash, field);
            place.map(|place| timed.remove(place)).is_some()
        }
        _ => false,
    }
}

/// Makes room for deadlines in a hash.
pub(crate) fn make_timed(entry: &mut Entry) {
    packed::make_timed(entry);
    let Some(Object::Hash(table)) = entry.object_mut() else {
        return;
    };
    let timed = TimedTable::new(std::mem::replace(table, Table::new()));
    entry.set_value(NewValue::Object(Box::new(Object::TimedHash(Box::new(
        timed,
    )))));
}

/// Sets or clears the deadline of a field, if it exists. The hash has room for TTLs.
pub(crate) fn set_deadline(entry: &mut Entry, field: &[u8], deadline_ms: Option<i64>) {
    debug_assert!(is_timed(entry) || deadline_ms.is_none());
    if let Some(packed) = PackedFields::of(entry) {
        if let Some((span, _)) = packed.find(field) {
            packed::set_deadline(entry, span, deadline_ms);
        }
    } else if let Some(Object::TimedHash(timed)) = entry.object_mut() {
        let hash = hash::of(field);
        if let Some(place) = timed.table.find(hash, field) {
            timed.set_deadline(place, hash, deadline_ms);
        }
    }
}

/// Removes up to `count_max` expired fields and reports each. Returns how many.
pub(crate) fn remove_due(
    entry: &mut Entry,
    now_ms: i64,
    count_max: usize,
    gone: &mut dyn FnMut(&[u8]),
) -> usize {
    match entry.kind() {
        Kind::Object => match entry.object_mut() {
            Some(Object::TimedHash(timed)) => timed.remove_due(now_ms, count_max, gone),
            _ => 0,
        },
        _ => packed::remove_due(entry, now_ms, count_max, gone),
    }
}

/// Returns the earliest deadline of any field.
pub(crate) fn earliest_ms(entry: &Entry) -> Option<i64> {
    Fields::of(entry, i64::MIN)?.earliest_ms()
}

/// Returns the node of the timer for the earliest deadline.
pub(crate) fn timer(entry: &Entry) -> Option<u32> {
    match entry.kind() {
        Kind::PackedHashTimed => PackedFields::of(entry)?.timer(),
        Kind::Object => match entry.object()? {
            Object::TimedHash(timed) => timed.timer,
            _ => None,
        },
        _ => None,
    }
}

/// Stores the timer's node in a hash with room for TTLs.
pub(crate) fn set_timer(entry: &mut Entry, timer: Option<u32>) {
    debug_assert!(is_timed(entry) || timer.is_none());
    match entry.kind() {
        Kind::PackedHashTimed => packed::set_timer(entry, timer),
        _ => {
            if let Some(Object::TimedHash(timed)) = entry.object_mut() {
                timed.timer = timer;
            }
        }
    }
}

fn unpack(entry: &mut Entry) {
    let Some(packed) = PackedFields::of(entry) else {
        return;
    };
    let mut table = Table::new();
    let mut timed = (entry.kind() == Kind::PackedHashTimed).then(|| {
        let mut timed = TimedTable::new(Table::new());
        timed.timer = packed.timer();
        timed
    });
    for pair in packed.iter() {
        let hash = hash::of(pair.field);
        let field = Entry::new(
            hash,
            pair.field,
            NewValue::Bytes(pair.value),
            pair.deadline_ms.is_some(),
        );
        match &mut timed {
            None => {
                table.insert(hash, field);
            }
            Some(timed) => {
                let place = timed.table.insert(hash, field);
                timed.set_deadline(place, hash, pair.deadline_ms);
            }
        }
    }
    debug_assert_eq!(
        packed.len(),
        timed.as_ref().map_or(table.len(), TimedTable::len),
        "a field is there once"
    );
    let object = match timed {
        None => Object::Hash(table),
        Some(timed) => Object::TimedHash(Box::new(timed)),
    };
    entry.set_value(NewValue::Object(Box::new(object)));
}

#[inline]
fn is_due(entry: &Entry, now_ms: i64) -> bool {
    entry
        .deadline_ms()
        .is_some_and(|deadline_ms| deadline_ms <= now_ms)
}

/// Number of outdated deadlines that may stay in the queue.
const QUEUE_SLACK: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

    fn check(entry: &Entry, model: &Model, now_ms: i64) {
        let fields = Fields::of(entry, now_ms).expect("a hash");
        let live = |deadline_ms: Option<i64>| deadline_ms.is_none_or(|ms| ms > now_ms);
        let shown: BTreeMap<_, _> = fields.iter().collect();
        let expected: BTreeMap<_, _> = model
            .iter()
            .filter(|(_, (_, deadline_ms))| live(*deadline_ms))
            .map(|(field, (value, _))| (&field[..], &value[..]))
            .collect();
        assert_eq!(shown, expected);
        assert_eq!(fields.len(), expected.len());
        assert_eq!(fields.len_with_due(), model.len());
        let earliest_ms = model.values().filter_map(|(_, ms)| *ms).min();
        assert_eq!(earliest_ms_of(entry), earliest_ms);
        for (field, (value, deadline_ms)) in model {
            let found = match live(*deadline_ms) {
                true => FoundField::Value(value),
                false => FoundField::Due,
            };
            assert_eq!(fields.find(field), found);
            let shown = live(*deadline_ms).then_some(*deadline_ms);
            assert_eq!(fields.deadline_of(field), shown);
        }
    }

    fn earliest_ms_of(entry: &Entry) -> Option<i64> {
        earliest_ms(entry)
    }

    #[test]
    fn every_encoding_keeps_the_same_values_and_deadlines() {
        for (limits, timed_from, tables_from) in
            [((512, 64), 0, 9999), ((6, 64), 200, 400), ((0, 64), 300, 0)]
        {
            let mut entry = Entry::new(1, b"k", empty(), false);
            let mut model = Model::new();
            let mut word = 11u64;
            let mut random = move |count: u64| {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (word >> 33) % count
            };
            for step in 0..3000 {
                if step == timed_from {
                    make_timed(&mut entry);
                    set_timer(&mut entry, Some(5));
                }
                let limits = if step < tables_from && tables_from < 9999 {
                    (512, 64)
                } else {
                    limits
                };
                let field = format!("field {}", random(12)).into_bytes();
                let value = vec![b'v'; random(20) as usize];
                let now_ms = step / 4;
                match random(if step < timed_from { 4 } else { 8 }) {
                    0 => assert_eq!(remove(&mut entry, &field), model.remove(&field).is_some()),
                    1..4 => {
                        let keeps = random(2) == 0;
                        let new = set(&mut entry, &field, &value, limits, keeps);
                        let old = model.get(&field).map(|(_, deadline_ms)| *deadline_ms);
                        assert_eq!(new, old.is_none());
                        model.insert(field, (value, old.flatten().filter(|_| keeps)));
                    }
                    4..7 => {
                        let ms = Some(now_ms + 1 + random(50) as i64).filter(|_| random(5) > 0);
                        set_deadline(&mut entry, &field, ms);
                        if let Some((_, deadline_ms)) = model.get_mut(&field) {
                            *deadline_ms = ms;
                        }
                    }
                    _ => {
                        let before = model.len();
                        model.retain(|_, (_, ms)| ms.is_none_or(|ms| ms > now_ms));
                        let removed = remove_due(&mut entry, now_ms, usize::MAX, &mut |_| ());
                        assert_eq!(removed, before - model.len());
                    }
                }
                check(&entry, &model, now_ms);
                if step > timed_from {
                    assert_eq!(timer(&entry), Some(5));
                }
            }
            assert!(is_timed(&entry) && is_hash(&entry));
            assert_eq!(entry.kind() == Kind::Object, limits.0 < 512);
            let copy = entry.duplicate(2, b"copy");
            check(&copy, &model, 0);
        }
    }

    #[test]
    fn the_queue_does_not_grow_beyond_its_deadlines() {
        let mut entry = Entry::new(1, b"k", empty(), false);
        for field in 0..100 {
            set(
                &mut entry,
                format!("{field}").as_bytes(),
                b"v",
                (0, 64),
                false,
            );
        }
        make_timed(&mut entry);
        for round in 0..1000 {
            for field in 0..5 {
                set_deadline(
                    &mut entry,
                    format!("{field}").as_bytes(),
                    Some(10_000 - round + field),
                );
            }
        }
        let Some(Object::TimedHash(timed)) = entry.object() else {
            panic!("a table");
        };
        assert!(timed.queue.len() <= 2 * 5 + QUEUE_SLACK);
        assert_eq!((timed.count, timed.earliest_ms()), (5, Some(9_001)));
        assert_eq!(remove_due(&mut entry, 9_003, 2, &mut |_| ()), 2);
        assert_eq!(remove_due(&mut entry, 9_003, 2, &mut |_| ()), 1);
        assert_eq!((len(&entry), earliest_ms(&entry)), (97, Some(9_004)));
    }
}
