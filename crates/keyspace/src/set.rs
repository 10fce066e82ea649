//! Sets: sorted integers, a few members in one run of bytes, or a table.

use tidewire_resp::number::parse_integer;

use crate::elements::{self, PackedElements};
use crate::encoding::Kind;
use crate::entry::{Entry, NewValue};
use crate::hash;
use crate::integers::{self, Integers};
use crate::sampling::Pool;
use crate::sampling::random_below;
use crate::table::Table;
use crate::text::Text;
use crate::value::Object;

/// Limits of a small set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetLimits {
    /// Maximum number of members while all are integers.
    pub(crate) integers_max: usize,
    /// Maximum number of members of any kind.
    pub(crate) packed_max: usize,
    /// Maximum bytes of a member among [`packed_max`](Self::packed_max).
    pub(crate) packed_bytes_max: usize,
}

/// A read-only view of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Members<'a> {
    Integers(Integers<'a>),
    Packed(PackedElements<'a>),
    Table(&'a Table),
}

impl<'a> Members<'a> {
    /// Returns the members of an entry, if it is a set.
    pub(crate) fn of(entry: &'a Entry) -> Option<Self> {
        match entry.kind() {
            Kind::Integers => Some(Members::Integers(Integers::new(entry.bytes()))),
            Kind::PackedSet => Some(Members::Packed(PackedElements::new(entry.bytes()))),
            Kind::Object => match entry.object()? {
                Object::Set(table) => Some(Members::Table(table)),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Members::Integers(integers) => integers.len(),
            Members::Packed(packed) => packed.len(),
            Members::Table(table) => table.len(),
        }
    }

    pub(crate) fn contains(self, member: &[u8]) -> bool {
        match self {
            Members::Integers(integers) => {
                parse_integer(member).is_some_and(|value| integers.search(value).is_ok())
            }
            Members::Packed(packed) => packed.find(member).is_some(),
            Members::Table(table) => table.find(hash::of(member), member).is_some(),
        }
    }

    pub(crate) fn iter(self) -> MembersIter<'a> {
        match self {
            Members::Integers(integers) => MembersIter::Integers(integers, 0),
            Members::Packed(packed) => MembersIter::Packed(packed.iter()),
            Members::Table(table) => MembersIter::Table(Box::new(table.iter())),
        }
    }

    /// Returns a random member; `None` if the set is empty.
    pub(crate) fn random(self, mut random: impl FnMut() -> u64) -> Option<Text<'a>> {
        match self {
            Members::Table(table) => table.random(random).map(|entry| Text::bytes(entry.key())),
            _ if self.len() == 0 => None,
            Members::Integers(integers) => {
                let position = random_below(random(), integers.len());
                Some(Text::integer(integers.get(position)))
            }
            Members::Packed(packed) => packed.iter().nth(random_below(random(), packed.len())),
        }
    }

    /// Returns the pool from which members are drawn.
    pub(crate) fn pool(self) -> Pool<'a, Text<'a>> {
        match self {
            Members::Table(table) => Pool::Table(table, |entry| Text::bytes(entry.key())),
            _ => Pool::Listed(self.iter().collect()),
        }
    }
}

/// Iterator over [`Members`].
pub(crate) enum MembersIter<'a> {
    Integers(Integers<'a>, usize),
    Packed(elements::Elements<'a>),
    // Boxed: only large sets pay for the dynamic dispatch.
    Table(Box<dyn Iterator<Item = &'a Entry> + 'a>),
}

impl<'a> Iterator for MembersIter<'a> {
    type Item = Text<'a>;

    fn next(&mut self) -> Option<Text<'a>> {
        match self {
            MembersIter::Integers(integers, position) => (*position < integers.len()).then(|| {
                *position += 1;
                Text::integer(integers.get(*position - 1))
            }),
            MembersIter::Packed(elements) => elements.next(),
            MembersIter::Table(entries) => entries.next().map(|entry| Text::bytes(entry.key())),
        }
    }
}

/// Returns an empty set for `count` members; `first` is one of them.
pub(crate) fn empty(first: &[u8], count: usize, limits: SetLimits) -> NewValue<'static> {
    if count <= limits.integers_max && parse_integer(first).is_some() {
        NewValue::Compact(Kind::Integers, integers::EMPTY)
    } else if count <= limits.packed_max {
        NewValue::Compact(Kind::PackedSet, elements::EMPTY)
    } else {
        empty_table()
    }
}

/// Returns an empty set that is a table from the start.
pub(crate) fn empty_table() -> NewValue<'static> {
    NewValue::Object(Box::new(Object::Set(Table::new())))
}

/// Converts a small set to a table if it will not hold `count` more members.
pub(crate) fn expect(entry: &mut Entry, count: usize, limits: SetLimits) {
    let most = match entry.kind() {
        Kind::Integers => limits.integers_max,
        Kind::PackedSet => limits.packed_max,
        _ => return,
    };
    if count > most {
        unpack(entry);
    }
}

/// Adds a member; returns false if it already exists. A small set that outgrows its limits becomes
/// a table and stays one.
pub(crate) fn add(entry: &mut Entry, member: &[u8], limits: SetLimits) -> bool {
    debug_assert!(Members::of(entry).is_some());
    match entry.kind() {
        Kind::Integers => {
            let Some(value) = parse_integer(member) else {
                leave_integers(entry, member, limits);
                return add(entry, member, limits);
            };
            let added = integers::insert(entry, value);
            if added && Integers::new(entry.bytes()).len() > limits.integers_max {
                unpack(entry);
            }
            added
        }
        Kind::PackedSet => {
            let packed = PackedElements::new(entry.bytes());
            if packed.find(member).is_some() {
                return false;
            }
            if packed.len() < limits.packed_max && member.len() <= limits.packed_bytes_max {
                elements::append(entry, member);
                return true;
            }
            unpack(entry);
            add(entry, member, limits)
        }
        _ => {
            let Some(Object::Set(table)) = entry.object_mut() else {
                return false;
            };
            let hash = hash::of(member);
            let new = table.find(hash, member).is_none();
            if new {
                table.insert(hash, new_member(hash, member));
            }
            new
        }
    }
}

/// Removes a member; returns false if it did not exist.
pub(crate) fn remove(entry: &mut Entry, member: &[u8]) -> bool {
    debug_assert!(Members::of(entry).is_some());
    match entry.kind() {
        Kind::Integers => {
            let integers = Integers::new(entry.bytes());
            let found = parse_integer(member).and_then(|value| integers.search(value).ok());
            if let Some(position) = found {
                integers::remove(entry, position);
            }
            found.is_some()
        }
        Kind::PackedSet => {
            let found = PackedElements::new(entry.bytes()).find(member);
            let there = found.is_some();
            if let Some(span) = found {
                elements::splice(entry, span, 1, None);
            }
            there
        }
        _ => {
            let Some(Object::Set(table)) = entry.object_mut() else {
                return false;
            };
            let place = table.find(hash::of(member), member);
            place.map(|place| table.remove(place)).is_some()
        }
    }
}

/// Returns the number of members.
pub(crate) fn len(entry: &Entry) -> usize {
    Members::of(entry).map_or(0, Members::len)
}

/// Converts a set of integers to an encoding that can hold `member` too.
fn leave_integers(entry: &mut Entry, member: &[u8], limits: SetLimits) {
    debug_assert_eq!(entry.kind(), Kind::Integers);
    let integers = Integers::new(entry.bytes());
    let count = integers.len();
    let ends = [0, count.saturating_sub(1)].map(|position| match count {
        0 => 0,
        _ => Text::integer(integers.get(position)).as_bytes().len(),
    });
    let bytes = member.len().max(ends[0]).max(ends[1]);
    if count >= limits.packed_max || bytes > limits.packed_bytes_max {
        unpack(entry);
        return;
    }
    debug_assert!(count < elements::COUNT_MAX, "there is room for one more");
    let mut packed = Vec::from((count as u16).to_le_bytes());
    for value in integers.iter() {
        let text = Text::integer(value);
        let element = elements::Encoded::new(text.as_bytes());
        element
            .parts()
            .iter()
            .for_each(|part| packed.extend_from_slice(part));
    }
    entry.set_value(NewValue::Compact(Kind::PackedSet, &packed));
}

fn unpack(entry: &mut Entry) {
    debug_assert!(entry.kind().is_compact());
    let mut table = Table::new();
    for member in Members::of(entry).into_iter().flat_map(Members::iter) {
        let hash = hash::of(member.as_bytes());
        table.insert(hash, new_member(hash, member.as_bytes()));
    }
    entry.set_value(NewValue::Object(Box::new(Object::Set(table))));
}

fn new_member(hash: u64, member: &[u8]) -> Entry {
    Entry::new(hash, member, NewValue::Bytes(b""), false)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LIMITS: SetLimits = SetLimits {
        integers_max: 512,
        packed_max: 128,
        packed_bytes_max: 64,
    };

    fn set(members: &[&str]) -> Entry {
        let first = members[0].as_bytes();
        let mut entry = Entry::new(1, b"k", empty(first, members.len(), LIMITS), false);
        for member in members {
            assert!(add(&mut entry, member.as_bytes(), LIMITS));
        }
        entry
    }

    fn numbers(count: usize) -> Vec<String> {
        (0..count).map(|number| number.to_string()).collect()
    }

    fn kind_of(members: &[String], more: &[&str]) -> Kind {
        let mut members: Vec<&str> = members.iter().map(String::as_str).collect();
        members.sort_unstable();
        let mut entry = set(&members);
        for member in more {
            add(&mut entry, member.as_bytes(), LIMITS);
        }
        assert_eq!(len(&entry), members.len() + more.len());
        entry.kind()
    }

    #[test]
    fn a_set_has_the_same_encoding_as_in_redis() {
        assert_eq!(kind_of(&numbers(512), &[]), Kind::Integers);
        assert_eq!(kind_of(&numbers(513), &[]), Kind::Object);
        assert_eq!(kind_of(&numbers(512), &["-1"]), Kind::Object);
        assert_eq!(kind_of(&numbers(127), &["x"]), Kind::PackedSet);
        assert_eq!(kind_of(&numbers(127), &["x", "y"]), Kind::Object);
        assert_eq!(kind_of(&numbers(128), &["x"]), Kind::Object);
        let (fits, too_long) = ("x".repeat(64), "x".repeat(65));
        assert_eq!(kind_of(&numbers(3), &[&fits]), Kind::PackedSet);
        assert_eq!(kind_of(&numbers(3), &[&too_long]), Kind::Object);
        assert_eq!(
            kind_of(&["a".into(), "7".into()], &[&too_long]),
            Kind::Object
        );
    }

    #[test]
    fn every_encoding_adds_removes_and_draws_the_same() {
        for limits in [
            LIMITS,
            SetLimits {
                packed_max: 20,
                ..LIMITS
            },
            SetLimits {
                integers_max: 10,
                packed_max: 0,
                ..LIMITS
            },
        ] {
            let mut entry = Entry::new(1, b"k", empty(b"1", 1, limits), false);
            let mut model = BTreeSet::new();
            let mut word = 7u64;
            let mut random = move || {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                word ^ word >> 29
            };
            for step in 0..3000 {
                let number = random() % 60;
                let member = match step % 3 {
                    0 if step > 1000 => format!("m{number}"),
                    _ => number.to_string(),
                };
                if random() % 3 == 0 {
                    assert_eq!(remove(&mut entry, member.as_bytes()), model.remove(&member));
                } else {
                    assert_eq!(
                        add(&mut entry, member.as_bytes(), limits),
                        model.insert(member)
                    );
                }
                let members = Members::of(&entry).expect("a set");
                assert_eq!(members.len(), model.len());
                if let Some(drawn) = members.random(&mut random) {
                    assert!(members.contains(drawn.as_bytes()));
                }
            }
            let members = Members::of(&entry).expect("a set");
            let text = |text: &[u8]| String::from_utf8(text.to_vec()).expect("text");
            let all: BTreeSet<_> = members
                .iter()
                .map(|member| text(member.as_bytes()))
                .collect();
            assert_eq!(all, model);
            for (wanted, shown, different) in
                [(5, 5, 5), (40, 40, 40), (1000, model.len(), model.len())]
            {
                let mut sample = Vec::new();
                let show = |member: &Text<'_>| sample.push(text(member.as_bytes()));
                members.pool().distinct(wanted, &mut random, show);
                assert_eq!(sample.len(), shown);
                assert_eq!(sample.iter().collect::<BTreeSet<_>>().len(), different);
            }
            let pool = members.pool();
            for _ in 0..500 {
                pool.one(&mut random, |member| {
                    assert!(model.contains(&text(member.as_bytes())))
                });
            }
        }
    }
}
