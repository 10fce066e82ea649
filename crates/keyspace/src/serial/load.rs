//! Values, read.

use super::reader::Reader;
use super::{Limits, Result, SerialError, chunk, form, listpack, ziplist};
use crate::elements::Encoded;
use crate::entry::{Entry, Kind, NewValue};
use crate::hash;
use crate::packed::{self, Packed};
use crate::quicklist::ListLimits;
use crate::set::SetLimits;
use crate::table::Table;
use crate::value::{Object, Text, string_value};
use crate::view::Key;
use crate::{list, set};

/// Reads a value of a form.
pub(super) fn read(form: u8, from: &mut Reader<'_>, key: Key<'_>, limits: Limits) -> Result<Entry> {
    match form {
        form::STRING => {
            let text = from.text()?;
            Ok(Entry::new(key.hash, key.bytes, string_value(&text), false))
        }
        form::LIST | form::LIST_ZIPLIST | form::LIST_ZIPLISTS | form::LIST_CHUNKS => {
            read_list(form, from, ListMaker::new(key, limits.list))
        }
        form::SET | form::SET_INTEGERS | form::SET_LISTPACK => {
            read_set(form, from, SetMaker::new(key, limits.set))
        }
        form::HASH | form::HASH_ZIPMAP | form::HASH_ZIPLIST | form::HASH_LISTPACK => {
            read_hash(form, from, HashMaker::new(key, limits.hash))
        }
        _ => Err(SerialError::Format),
    }
}

fn read_list(form: u8, from: &mut Reader<'_>, mut list: ListMaker) -> Result<Entry> {
    match form {
        form::LIST => {
            for _ in 0..from.count(1)? {
                list.push(&from.text()?);
            }
        }
        form::LIST_ZIPLIST => push_all(&mut list, ziplist::read(&from.text()?)?),
        _ => {
            for _ in 0..from.count(1)? {
                let kind = match form {
                    form::LIST_CHUNKS => Some(from.number()?),
                    _ => None,
                };
                let bytes = from.text()?;
                if bytes.is_empty() {
                    return Err(SerialError::Format);
                }
                match kind {
                    None => push_all(&mut list, ziplist::read(&bytes)?),
                    Some(chunk::LISTPACK) => push_all(&mut list, listpack::read(&bytes)?.0),
                    Some(chunk::ONE_ELEMENT) => list.push(&bytes),
                    Some(_) => return Err(SerialError::Format),
                }
            }
        }
    }
    not_empty(list.entry, list::len)
}

fn push_all<'t>(list: &mut ListMaker, texts: impl IntoIterator<Item = Text<'t>>) {
    texts
        .into_iter()
        .for_each(|text| list.push(text.as_bytes()));
}

fn read_set(form: u8, from: &mut Reader<'_>, mut set: SetMaker<'_>) -> Result<Entry> {
    match form {
        form::SET => {
            let count = from.count(1)?;
            for _ in 0..count {
                set.add(&from.text()?, count)?;
            }
        }
        form::SET_INTEGERS => {
            let integers = ziplist::read_integers(&from.text()?)?;
            for &integer in &integers {
                set.add(Text::integer(integer).as_bytes(), integers.len())?;
            }
        }
        _ => {
            let bytes = from.text()?;
            let (members, count) = listpack::read(&bytes)?;
            for member in members {
                set.add(member.as_bytes(), count)?;
            }
        }
    }
    set.entry.ok_or(SerialError::Format)
}

fn read_hash(form: u8, from: &mut Reader<'_>, mut fields: HashMaker) -> Result<Entry> {
    match form {
        form::HASH => {
            for _ in 0..from.count(2)? {
                fields.set(&from.text()?, &from.text()?)?;
            }
        }
        form::HASH_ZIPMAP => fields.set_all(ziplist::read_zipmap(&from.text()?)?)?,
        form::HASH_ZIPLIST => fields.set_all(ziplist::read(&from.text()?)?)?,
        _ => fields.set_all(listpack::read(&from.text()?)?.0)?,
    }
    if fields.count == 0 {
        return Err(SerialError::Format);
    }
    Ok(fields.entry)
}

/// No key holds nothing.
fn not_empty(entry: Entry, len: impl Fn(&Entry) -> usize) -> Result<Entry> {
    if len(&entry) > 0 {
        Ok(entry)
    } else {
        Err(SerialError::Format)
    }
}

struct ListMaker {
    entry: Entry,
    limits: ListLimits,
}

impl ListMaker {
    fn new(key: Key<'_>, limits: ListLimits) -> Self {
        ListMaker {
            entry: Entry::new(key.hash, key.bytes, list::empty(), false),
            limits,
        }
    }

    fn push(&mut self, text: &[u8]) {
        let bytes = Encoded::new(text).len();
        list::expect(&mut self.entry, bytes, 1, self.limits);
        list::push(&mut self.entry, false, text, self.limits);
    }
}

struct SetMaker<'k> {
    key: Key<'k>,
    entry: Option<Entry>,
    limits: SetLimits,
}

impl<'k> SetMaker<'k> {
    fn new(key: Key<'k>, limits: SetLimits) -> Self {
        SetMaker {
            key,
            entry: None,
            limits,
        }
    }

    /// Adds a member of those that are told to be so many.
    fn add(&mut self, member: &[u8], count: usize) -> Result<()> {
        let (key, limits) = (self.key, self.limits);
        let entry = self.entry.get_or_insert_with(|| {
            let empty = set::empty(member, count, limits);
            Entry::new(key.hash, key.bytes, empty, false)
        });
        if set::add(entry, member, limits) {
            Ok(())
        } else {
            Err(SerialError::Format)
        }
    }
}

struct HashMaker {
    entry: Entry,
    limits: (usize, usize),
    count: usize,
}

impl HashMaker {
    fn new(key: Key<'_>, limits: (usize, usize)) -> Self {
        let empty = NewValue::Compact(Kind::PackedHash, packed::EMPTY);
        HashMaker {
            entry: Entry::new(key.hash, key.bytes, empty, false),
            limits,
            count: 0,
        }
    }

    /// Takes fields and values, one after the other.
    fn set_all<'t>(&mut self, texts: impl IntoIterator<Item = Text<'t>>) -> Result<()> {
        let mut texts = texts.into_iter();
        while let Some(field) = texts.next() {
            let value = texts.next().ok_or(SerialError::Format)?;
            self.set(field.as_bytes(), value.as_bytes())?;
        }
        Ok(())
    }

    fn set(&mut self, field: &[u8], value: &[u8]) -> Result<()> {
        self.count += 1;
        let longest = field.len().max(value.len());
        if self.entry.kind() == Kind::PackedHash {
            if Packed::new(self.entry.bytes()).find(field).is_some() {
                return Err(SerialError::Format);
            }
            if self.count <= self.limits.0 && longest <= self.limits.1 {
                packed::append(&mut self.entry, field, value);
                return Ok(());
            }
            self.unpack();
        }
        let Some(Object::Hash(table)) = self.entry.object_mut() else {
            return Err(SerialError::Format);
        };
        insert(table, field, value)
    }

    fn unpack(&mut self) {
        let mut table = Table::new();
        for (field, value) in Packed::new(self.entry.bytes()).iter() {
            let _ = insert(&mut table, field, value);
        }
        self.entry
            .set_value(NewValue::Object(Box::new(Object::Hash(table))));
    }
}

fn insert(table: &mut Table, field: &[u8], value: &[u8]) -> Result<()> {
    let hash = hash::of(field);
    if table.find(hash, field).is_some() {
        return Err(SerialError::Format);
    }
    table.insert(hash, Entry::new(hash, field, NewValue::Bytes(value), false));
    Ok(())
}
