//! Encoding of values.

use tidewire_resp::number::DoubleText;

use super::listpack::ListpackWriter;
use super::writer::Output;
use super::{FileVersion, chunk, form, listpack, stream, writer};
use crate::elements::Elements;
use crate::fields::Fields;
use crate::integers::Integers;
use crate::list::List;
use crate::set::Members;
use crate::sorted_set::Scored;
use crate::text::Text;
use crate::value::ValueRef;

/// Writes a value after the number of its form. Returns the RDB version of the form.
pub(super) fn write(out: &mut Output<'_>, value: ValueRef<'_>) -> u16 {
    if let Some(text) = value.text() {
        out.form(form::STRING);
        writer::text(out, text.as_bytes());
    } else if let Some(list) = value.list() {
        write_list(out, list);
    } else if let Some(members) = value.members() {
        write_set(out, members);
    } else if let Some(fields) = value.fields() {
        match fields.earliest_ms() {
            None => write_hash(out, fields),
            Some(earliest_ms) => {
                write_timed_hash(out, fields, earliest_ms);
                return VERSION_REDIS_7_4;
            }
        }
    } else if let Some(scored) = value.sorted_set() {
        write_sorted_set(out, scored);
    } else if let Some(stream) = value.stream() {
        return match stream::write(out, stream) {
            form::STREAM_2 => VERSION_REDIS_7_0,
            form::STREAM_3 => VERSION_REDIS_7_2,
            _ => VERSION_REDIS_8_6,
        };
    }
    VERSION_REDIS_7_0
}

fn write_list(out: &mut Output<'_>, list: List<'_>) {
    out.form(form::LIST_CHUNKS);
    match list {
        List::Packed(packed) => {
            writer::number(out, 1);
            write_chunk(out, packed.run());
        }
        List::Quick(list) => {
            writer::number(out, list.chunks() as u64);
            (0..list.chunks()).for_each(|chunk| write_chunk(out, list.run(chunk)));
        }
    }
}

fn write_chunk(out: &mut Output<'_>, run: &[u8]) {
    let mut elements = Elements::new(run);
    let first = elements.next();
    let others = elements.count();
    match first {
        Some(only) if others == 0 && only.as_bytes().len() > ALONE_BYTES_MIN => {
            writer::number(out, chunk::ONE_ELEMENT);
            // Too long for an integer, so this writes it plain or compressed.
            writer::text(out, only.as_bytes());
        }
        _ => {
            writer::number(out, chunk::LISTPACK);
            let count = others + usize::from(!run.is_empty());
            writer::text(out, &listpack::of_run(run, count));
        }
    }
}

fn write_set(out: &mut Output<'_>, members: Members<'_>) {
    if let Members::Integers(integers) = members {
        out.form(form::SET_INTEGERS);
        writer::text(out, &integer_set(integers));
        return;
    }
    // Redis before 7.2 does not know sets in listpacks; later versions pack a small set again.
    out.form(form::SET);
    writer::number(out, members.len() as u64);
    for member in members.iter() {
        writer::text(out, member.as_bytes());
    }
}

fn integer_set(integers: Integers<'_>) -> Vec<u8> {
    let width = integers.width();
    let mut bytes = Vec::with_capacity(8 + integers.len() * width);
    bytes.extend_from_slice(&(width as u32).to_le_bytes());
    bytes.extend_from_slice(&(integers.len() as u32).to_le_bytes());
    for integer in integers.iter() {
        bytes.extend_from_slice(&integer.to_le_bytes()[..width]);
    }
    bytes
}

fn write_hash(out: &mut Output<'_>, fields: Fields<'_>) {
    if fields.table().is_none() {
        out.form(form::HASH_LISTPACK);
        let texts = fields.iter().flat_map(|(field, value)| [field, value]);
        writer::text(out, &listpack::of_texts(texts));
        return;
    }
    out.form(form::HASH);
    writer::number(out, fields.len() as u64);
    for (field, value) in fields {
        writer::text(out, field);
        writer::text(out, value);
    }
}

fn write_timed_hash(out: &mut Output<'_>, fields: Fields<'_>, earliest_ms: i64) {
    debug_assert!(
        !matches!(out.version(), FileVersion::Redis7 | FileVersion::Redis72),
        "a version that cannot hold the value was refused earlier"
    );
    if out.version() == FileVersion::Valkey9 {
        return write_timed_for_valkey(out, fields);
    }
    if fields.table().is_none() {
        out.form(form::HASH_LISTPACK_TIMED);
        writer::time_ms(out, earliest_ms);
        let texts = fields.pairs().flat_map(|pair| {
            let deadline = Text::integer(pair.deadline_ms.unwrap_or(0));
            [Text::bytes(pair.field), Text::bytes(pair.value), deadline]
        });
        writer::text(out, &listpack::of_texts(texts));
        return;
    }
    out.form(form::HASH_TIMED);
    writer::time_ms(out, earliest_ms);
    writer::number(out, fields.len() as u64);
    for pair in fields.pairs() {
        let after_ms = pair.deadline_ms.map_or(0, |ms| ms - earliest_ms + 1);
        writer::number(out, after_ms.cast_unsigned());
        writer::text(out, pair.field);
        writer::text(out, pair.value);
    }
}

/// Writes each field separately with its deadline; -1 means none.
fn write_timed_for_valkey(out: &mut Output<'_>, fields: Fields<'_>) {
    out.form(form::HASH_TIMED_IN_VALKEY);
    writer::number(out, fields.len() as u64);
    for pair in fields.pairs() {
        writer::text(out, pair.field);
        writer::text(out, pair.value);
        writer::time_ms(out, pair.deadline_ms.unwrap_or(NO_DEADLINE));
    }
}

fn write_sorted_set(out: &mut Output<'_>, scored: Scored<'_>) {
    if matches!(scored, Scored::Packed(_)) {
        out.form(form::SORTED_SET_LISTPACK);
        let mut listpack = ListpackWriter::new();
        for (member, score) in scored.iter() {
            listpack.push(member.as_bytes());
            listpack.push(DoubleText::new(score).as_bytes());
        }
        writer::text(out, &listpack.finish());
        return;
    }
    out.form(form::SORTED_SET);
    writer::number(out, scored.len() as u64);
    // From the greatest score on: Redis inserts fastest in this order.
    for (member, score) in scored.iter().rev() {
        writer::text(out, member.as_bytes());
        out.extend_from_slice(&score.to_le_bytes());
    }
}

/// Libraries exist since this version.
pub(super) const VERSION_REDIS_7_0: u16 = 10;
const VERSION_REDIS_7_2: u16 = 11;
const VERSION_REDIS_7_4: u16 = 12;
const VERSION_REDIS_8_6: u16 = 13;
/// A longer list element is a chunk of its own, without a listpack.
const ALONE_BYTES_MIN: usize = 8 << 10;
const NO_DEADLINE: i64 = -1;
