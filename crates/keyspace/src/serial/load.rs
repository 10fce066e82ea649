//! Decoding of serialized values.

use tidewire_resp::number::{parse_double, parse_integer};

use super::reader::Reader;
use super::{Result, SerialError, ValueLimits, chunk, form, listpack, stream, ziplist};
use crate::entry::{Entry, NewValue};
use crate::key::Key;
use crate::quicklist::ListLimits;
use crate::set::SetLimits;
use crate::sorted_set::Builder;
use crate::text::Text;
use crate::value::{Object, string_value};

use crate::{fields, list, set};

/// Decodes a value of a form.
pub(super) fn read(
    form: u8,
    from: &mut Reader<'_>,
    key: Key<'_>,
    limits: ValueLimits,
) -> Result<Entry> {
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
        form::HASH
        | form::HASH_ZIPMAP
        | form::HASH_ZIPLIST
        | form::HASH_LISTPACK
        | form::HASH_TIMED
        | form::HASH_TIMED_VALKEY
        | form::HASH_LISTPACK_TIMED
        | form::HASH_TIMED_EARLY
        | form::HASH_LISTPACK_TIMED_EARLY => {
            read_hash(form, from, HashMaker::new(key, limits.hash))
        }
        form::SORTED_SET
        | form::SORTED_SET_TEXT
        | form::SORTED_SET_ZIPLIST
        | form::SORTED_SET_LISTPACK => {
            let scores = read_sorted_set(form, from)?;
            Ok(scores.finish(key.hash, key.bytes, limits.sorted_set))
        }
        form::STREAM | form::STREAM_2 | form::STREAM_3 | form::STREAM_4 => {
            let stream = Object::Stream(stream::read(form, from, limits)?);
            let value = NewValue::Object(Box::new(stream));
            Ok(Entry::new(key.hash, key.bytes, value, false))
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
    set.entry.ok_or(SerialError::Empty)
}

fn read_hash(form: u8, from: &mut Reader<'_>, mut hash: HashMaker) -> Result<Entry> {
    match form {
        form::HASH => {
            for _ in 0..from.count(2)? {
                hash.set(&from.text()?, &from.text()?)?;
            }
        }
        form::HASH_ZIPMAP => hash.set_all(ziplist::read_zipmap(&from.text()?)?)?,
        form::HASH_ZIPLIST => hash.set_all(ziplist::read(&from.text()?)?)?,
        form::HASH_TIMED | form::HASH_TIMED_EARLY => {
            // Deadlines are relative to the earliest one, which is encoded as 1; in early forms
            // they are absolute.
            let earliest_ms = match form {
                form::HASH_TIMED => from.time_ms()?,
                _ => 1,
            };
            for _ in 0..from.count(3)? {
                let after_ms = i64::try_from(from.number()?).map_err(|_| SerialError::Format)?;
                let deadline_ms = match after_ms {
                    0 => 0,
                    _ => (after_ms - 1)
                        .checked_add(earliest_ms)
                        .ok_or(SerialError::Format)?,
                };
                hash.set_timed(&from.text()?, &from.text()?, deadline_ms)?;
            }
        }
        form::HASH_TIMED_VALKEY => {
            for _ in 0..from.count(2 + TIME_BYTES)? {
                let (field, value) = (from.text()?, from.text()?);
                let deadline_ms = match from.time_ms()? {
                    -1 => 0,
                    deadline_ms @ 1.. => deadline_ms,
                    _ => return Err(SerialError::Format),
                };
                hash.set_timed(&field, &value, deadline_ms)?;
            }
        }
        form::HASH_LISTPACK_TIMED | form::HASH_LISTPACK_TIMED_EARLY => {
            if form == form::HASH_LISTPACK_TIMED {
                from.time_ms()?;
            }
            hash.set_all_timed(listpack::read(&from.text()?)?.0)?;
        }
        _ => hash.set_all(listpack::read(&from.text()?)?.0)?,
    }
    not_empty(hash.entry, fields::len)
}

fn read_sorted_set(form: u8, from: &mut Reader<'_>) -> Result<Builder> {
    let mut scores = Builder::default();
    match form {
        form::SORTED_SET | form::SORTED_SET_TEXT => {
            for _ in 0..from.count(2)? {
                let member = from.text()?;
                let score = match form {
                    form::SORTED_SET => from.double()?,
                    _ => from.double_text()?,
                };
                add_score(&mut scores, &member, score)?;
            }
        }
        form::SORTED_SET_ZIPLIST => add_scores(&mut scores, ziplist::read(&from.text()?)?)?,
        _ => add_scores(&mut scores, listpack::read(&from.text()?)?.0)?,
    }
    if scores.len() > 0 {
        Ok(scores)
    } else {
        Err(SerialError::Empty)
    }
}

/// Adds members and scores from alternating texts.
fn add_scores<'t>(scores: &mut Builder, texts: impl IntoIterator<Item = Text<'t>>) -> Result<()> {
    let mut texts = texts.into_iter();
    while let Some(member) = texts.next() {
        let score = texts.next().and_then(|text| parse_double(text.as_bytes()));
        add_score(scores, member.as_bytes(), score.ok_or(SerialError::Format)?)?;
    }
    Ok(())
}

fn add_score(scores: &mut Builder, member: &[u8], score: f64) -> Result<()> {
    if score.is_nan() || scores.score(member).is_some() {
        return Err(SerialError::Format);
    }
    scores.insert(member, score);
    Ok(())
}

/// Refuses an empty value: no key may hold one.
fn not_empty(entry: Entry, len: impl Fn(&Entry) -> usize) -> Result<Entry> {
    if len(&entry) > 0 {
        Ok(entry)
    } else {
        Err(SerialError::Empty)
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
        list::append(&mut self.entry, text, self.limits);
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

    /// Adds a member; `count` is the number of members in the payload.
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
    limits: fields::HashLimits,
}

impl HashMaker {
    fn new(key: Key<'_>, limits: fields::HashLimits) -> Self {
        HashMaker {
            entry: Entry::new(key.hash, key.bytes, fields::empty(), false),
            limits,
        }
    }

    /// Adds fields and values from alternating texts.
    fn set_all<'t>(&mut self, texts: impl IntoIterator<Item = Text<'t>>) -> Result<()> {
        let mut texts = texts.into_iter();
        while let Some(field) = texts.next() {
            let value = texts.next().ok_or(SerialError::Format)?;
            self.set(field.as_bytes(), value.as_bytes())?;
        }
        Ok(())
    }

    /// Adds fields, values and deadlines from texts: earliest deadline first, fields without one
    /// last.
    fn set_all_timed<'t>(&mut self, texts: impl IntoIterator<Item = Text<'t>>) -> Result<()> {
        let mut texts = texts.into_iter();
        let mut last_ms = 1;
        while let Some(field) = texts.next() {
            let value = texts.next().ok_or(SerialError::Format)?;
            let deadline = texts.next().ok_or(SerialError::Format)?;
            let deadline_ms = parse_integer(deadline.as_bytes()).ok_or(SerialError::Format)?;
            if deadline_ms != 0 && (last_ms == 0 || deadline_ms < last_ms) {
                return Err(SerialError::Format);
            }
            last_ms = deadline_ms;
            self.set_timed(field.as_bytes(), value.as_bytes(), deadline_ms)?;
        }
        Ok(())
    }

    /// Adds a field with its deadline; 0 means none.
    fn set_timed(&mut self, field: &[u8], value: &[u8], deadline_ms: i64) -> Result<()> {
        if !(0..=fields::DEADLINE_MS_MAX).contains(&deadline_ms) {
            return Err(SerialError::Format);
        }
        self.set(field, value)?;
        fields::make_timed(&mut self.entry);
        if deadline_ms != 0 {
            fields::set_deadline(&mut self.entry, field, Some(deadline_ms));
        }
        Ok(())
    }

    fn set(&mut self, field: &[u8], value: &[u8]) -> Result<()> {
        if fields::set(&mut self.entry, field, value, self.limits, false) {
            Ok(())
        } else {
            Err(SerialError::Format)
        }
    }
}

const TIME_BYTES: usize = 8;
