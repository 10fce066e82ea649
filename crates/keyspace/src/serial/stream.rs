//! Streams: listpacks of entries, and the groups that read them.
//!
//! ```text
//!  listpack │ count │ deleted │ names │ name │ … │ 0 │ entry │ entry │ …
//!  entry    │ flags │ time │ sequence │ value │ … │ elements before this one
//!           │ flags │ time │ sequence │ names │ name │ value │ … │ elements before this one
//! ```
//!
//! An entry's id is relative to the listpack's id, which is the first entry's. If its flags say so,
//! an entry has the names at the beginning of the listpack.

use std::collections::BTreeMap;

use tidewire_resp::number::parse_integer;

use super::listpack::{self, ListpackWriter};
use super::reader::Reader;
use super::writer::Output;
use super::{FileVersion, Result, SerialError, ValueLimits, form, writer};
use crate::commands::{DURATION_S_MAX, ENTRIES_MAX};
use crate::elements::Elements;
use crate::stream::{
    BlockLimits, ConsumerGroup, Entry, EntryLog, LogState, PendingEntry, Producer, ProducerLimits,
    ProducerTotals, Producers, Stream, StreamId,
};
use crate::text::Text;

/// Writes a stream after the number of its form. Returns the form.
pub(super) fn write(out: &mut Output<'_>, stream: &Stream) -> u8 {
    let form = form_of(out.version(), stream);
    out.form(form);
    write_log(out, &stream.log);
    writer::number(out, stream.groups.len() as u64);
    for (name, group) in &stream.groups {
        writer::text(out, name);
        write_group(out, group, form == form::STREAM_2);
    }
    if form == form::STREAM_4 {
        write_producers(out, &stream.producers);
    }
    form
}

/// Returns the form that the oldest version of Redis can read. Files of older versions go without
/// what is known of producers.
fn form_of(version: FileVersion, stream: &Stream) -> u8 {
    let stores_producers = matches!(version, FileVersion::Fitting | FileVersion::Redis86);
    if stores_producers && !stream.producers.is_plain() {
        return form::STREAM_4;
    }
    // Before Redis 7.2, a consumer had one time, which is used for both.
    let mut consumers = stream.groups.values().flat_map(ConsumerGroup::consumers);
    let is_old = version == FileVersion::Redis7
        || consumers.all(|(_, consumer)| consumer.active_ms == Some(consumer.seen_ms));
    if is_old {
        form::STREAM_2
    } else {
        form::STREAM_3
    }
}

/// Decodes a stream of a form.
pub(super) fn read(form: u8, from: &mut Reader<'_>, limits: ValueLimits) -> Result<Stream> {
    let mut stream = Stream::new(limits.producers);
    for _ in 0..from.count(LISTPACK_BYTES_MIN)? {
        let id = from.text()?;
        let first_id = id_of_bytes(<[u8; 16]>::try_from(&*id).map_err(|_| SerialError::Format)?);
        read_entries(&mut stream.log, first_id, &from.text()?, limits.block)?;
    }
    let length = from.number()?;
    let last_id = read_id(from)?;
    let mut state = LogState {
        last_id,
        max_deleted_id: StreamId::MIN,
        added: length,
    };
    if form != form::STREAM {
        // Skips the first id, which follows from the entries.
        read_id(from)?;
        state.max_deleted_id = read_id(from)?;
        state.added = from.number()?;
    }
    let newest_id = stream.log.newest_id().unwrap_or_default();
    if length != stream.log.len() as u64 || last_id < newest_id {
        return Err(SerialError::Format);
    }
    stream.log.set_state(state);
    for _ in 0..from.count(GROUP_BYTES_MIN)? {
        let name = from.text()?;
        let group = read_group(form, from, &stream.log)?;
        if stream.groups.insert((*name).into(), group).is_some() {
            return Err(SerialError::Format);
        }
    }
    if form == form::STREAM_4 {
        stream.producers = read_producers(from)?;
    }
    Ok(stream)
}

fn write_producers(out: &mut Output<'_>, producers: &Producers) {
    writer::number(out, producers.limits.duration_s.into());
    writer::number(out, producers.limits.entries_max.into());
    writer::number(out, producers.len() as u64);
    for (name, producer) in producers.iter() {
        writer::text(out, name);
        let entries = producer.iter();
        writer::number(out, entries.len() as u64);
        for (id, entry) in entries {
            writer::text(out, id);
            write_id(out, entry);
        }
    }
    let totals = producers.totals();
    writer::number(out, totals.added);
    writer::number(out, totals.duplicates);
}

/// Reads the limits of producers, their entries, and the counters.
fn read_producers(from: &mut Reader<'_>) -> Result<Producers> {
    let limits = ProducerLimits {
        duration_s: read_limit(from, DURATION_S_MAX)?,
        entries_max: read_limit(from, ENTRIES_MAX)?,
    };
    let mut producers = Producers::new(limits);
    for _ in 0..from.count(2)? {
        let name = from.text()?.into_owned();
        let mut producer = Producer::default();
        for _ in 0..from.count(3)? {
            let id = from.text()?.into_owned();
            let entry = read_id(from)?;
            // Redis leaves out an id that it has read before.
            producer.push(&id, entry);
        }
        if !producers.restore(&name, producer) {
            return Err(SerialError::Format);
        }
    }
    producers.restore_totals(ProducerTotals {
        added: from.number()?,
        duplicates: from.number()?,
    });
    Ok(producers)
}

fn read_limit(from: &mut Reader<'_>, most: u32) -> Result<u32> {
    let limit = u32::try_from(from.number()?).map_err(|_| SerialError::Format)?;
    match (1..=most).contains(&limit) {
        true => Ok(limit),
        false => Err(SerialError::Format),
    }
}

fn write_log(out: &mut Output<'_>, log: &EntryLog) {
    let mut listpacks = Vec::new();
    let mut count = 0;
    let mut entries = log.range(StreamId::MIN, StreamId::MAX).peekable();
    while entries.peek().is_some() {
        let (mut together, mut text_bytes) = (Vec::new(), 0);
        while text_bytes < TOGETHER_BYTES_MAX
            && together.len() < TOGETHER_MAX
            && let Some(entry) = entries.next()
        {
            let texts = entry
                .fields()
                .map(|(name, value)| name.len() + value.as_bytes().len());
            text_bytes += texts.sum::<usize>();
            together.push(entry);
        }
        write_entries(&mut out.apart(&mut listpacks), &together);
        count += 1;
    }
    writer::number(out, count);
    out.extend_from_slice(&listpacks);
    let state = log.state();
    writer::number(out, log.len() as u64);
    write_id(out, state.last_id);
    write_id(out, log.first_id());
    write_id(out, state.max_deleted_id);
    writer::number(out, state.added);
}

fn write_entries(out: &mut Output<'_>, entries: &[Entry<'_>]) {
    let Some(first) = entries.first() else {
        return;
    };
    let mut listpack = ListpackWriter::new();
    listpack.push_integer(entries.len() as i64);
    listpack.push_integer(0);
    listpack.push_integer(first.fields().len() as i64);
    first.fields().for_each(|(name, _)| listpack.push(name));
    listpack.push_integer(0);
    for entry in entries {
        let (id, first_id) = (entry.id(), first.id());
        let count = entry.fields().len() as i64;
        let mut pairs = entry.fields().zip(first.fields());
        let same = first.fields().len() == entry.fields().len()
            && pairs.all(|((name, _), (first_name, _))| name == first_name);
        listpack.push_integer(if same { SAME_NAMES } else { 0 });
        listpack.push_integer(id.time_ms.wrapping_sub(first_id.time_ms) as i64);
        listpack.push_integer(id.sequence.wrapping_sub(first_id.sequence) as i64);
        if same {
            entry
                .fields()
                .for_each(|(_, value)| listpack.push(value.as_bytes()));
            listpack.push_integer(count + ENTRY_HEAD);
        } else {
            listpack.push_integer(count);
            for (name, value) in entry.fields() {
                listpack.push(name);
                listpack.push(value.as_bytes());
            }
            listpack.push_integer(2 * count + ENTRY_HEAD + 1);
        }
    }
    writer::text(out, &bytes_of_id(first.id()));
    writer::text(out, &listpack.finish());
}

fn write_group(out: &mut Output<'_>, group: &ConsumerGroup, is_old: bool) {
    write_id(out, group.last_id);
    writer::number(out, group.entries_read.unwrap_or(UNKNOWN));
    writer::number(out, group.pending_len() as u64);
    for pending in group.pending(StreamId::MIN, StreamId::MAX) {
        out.extend_from_slice(&bytes_of_id(pending.id));
        writer::time_ms(out, pending.delivered_ms);
        writer::number(out, pending.deliveries);
    }
    writer::number(out, group.consumers().len() as u64);
    for (slot, consumer) in group.consumers() {
        writer::text(out, consumer.name());
        writer::time_ms(out, consumer.seen_ms);
        if !is_old {
            writer::time_ms(out, consumer.active_ms.unwrap_or(NEVER));
        }
        writer::number(out, consumer.pending_len() as u64);
        for pending in group.pending_of(slot, StreamId::MIN, StreamId::MAX) {
            out.extend_from_slice(&bytes_of_id(pending.id));
        }
    }
}

/// Decodes the entries of a listpack, without deleted ones.
fn read_entries(
    log: &mut EntryLog,
    first_id: StreamId,
    listpack: &[u8],
    limits: BlockLimits,
) -> Result<()> {
    let mut elements = listpack::read(listpack)?.0;
    let count = take_integer(&mut elements)?;
    let count = count.checked_add(take_integer(&mut elements)?);
    let count = count.ok_or(SerialError::Format)?;
    let names = take_integer(&mut elements)?;
    let names = take_texts(&mut elements, names)?;
    if take_integer(&mut elements)? != 0 {
        return Err(SerialError::Format);
    }
    let mut seen = 0;
    while let Some(flags) = elements.next() {
        let flags = parse_integer(flags.as_bytes()).ok_or(SerialError::Format)?;
        let id = StreamId::new(
            first_id
                .time_ms
                .wrapping_add(take_integer(&mut elements)? as u64),
            first_id
                .sequence
                .wrapping_add(take_integer(&mut elements)? as u64),
        );
        let (mut fields, length) = if flags & SAME_NAMES != 0 {
            let values = take_texts(&mut elements, names.len() as i64)?;
            let length = names.len() as i64 + ENTRY_HEAD;
            (names.iter().cloned().zip(values).collect(), length)
        } else {
            let count = take_integer(&mut elements)?;
            (
                take_fields(&mut elements, count)?,
                count.saturating_mul(2) + ENTRY_HEAD + 1,
            )
        };
        if take_integer(&mut elements)? != length {
            return Err(SerialError::Format);
        }
        seen += 1;
        if flags & DELETED != 0 {
            fields.clear();
            continue;
        }
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        if !log.append(id, fields, limits) {
            return Err(SerialError::Format);
        }
    }
    if seen == count {
        Ok(())
    } else {
        Err(SerialError::Format)
    }
}

type FieldTexts<'a> = Vec<(Text<'a>, Text<'a>)>;

/// Takes `count` texts, at least one. A count that is too great ends with the elements.
fn take_texts<'a>(elements: &mut Elements<'a>, count: i64) -> Result<Vec<Text<'a>>> {
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(elements.next().ok_or(SerialError::Format)?);
    }
    if texts.is_empty() {
        Err(SerialError::Format)
    } else {
        Ok(texts)
    }
}

fn take_fields<'a>(elements: &mut Elements<'a>, count: i64) -> Result<FieldTexts<'a>> {
    let mut fields = Vec::new();
    for _ in 0..count {
        let name = elements.next().ok_or(SerialError::Format)?;
        fields.push((name, elements.next().ok_or(SerialError::Format)?));
    }
    if fields.is_empty() {
        Err(SerialError::Format)
    } else {
        Ok(fields)
    }
}

fn take_integer(elements: &mut Elements<'_>) -> Result<i64> {
    let text = elements.next().ok_or(SerialError::Format)?;
    parse_integer(text.as_bytes()).ok_or(SerialError::Format)
}

fn read_group(form: u8, from: &mut Reader<'_>, log: &EntryLog) -> Result<ConsumerGroup> {
    let last_id = read_id(from)?;
    let entries_read = match form {
        form::STREAM => log.added_until(last_id),
        _ => Some(from.number()?).filter(|&count| count != UNKNOWN),
    };
    let mut group = ConsumerGroup::new(last_id, entries_read);
    // Pending entries still without a consumer, which follows later: each must be claimed once.
    let mut unclaimed = BTreeMap::new();
    for _ in 0..from.count(PENDING_BYTES_MIN)? {
        let id = id_of_bytes(from.array()?);
        let delivered_ms = from.time_ms()?.max(0);
        if unclaimed
            .insert(id, (delivered_ms, from.number()?))
            .is_some()
        {
            return Err(SerialError::Format);
        }
    }
    for _ in 0..from.count(CONSUMER_BYTES_MIN)? {
        let name = from.text()?;
        let seen_ms = from.time_ms()?.max(0);
        let (slot, is_new) = group.add_consumer(&name, seen_ms);
        if !is_new {
            return Err(SerialError::Format);
        }
        let active_ms = match form {
            form::STREAM_3 | form::STREAM_4 => {
                Some(from.time_ms()?).filter(|&active_ms| active_ms >= 0)
            }
            _ => Some(seen_ms),
        };
        group.consumer_mut(slot).active_ms = active_ms;
        for _ in 0..from.count(ID_BYTES)? {
            let id = id_of_bytes(from.array()?);
            let (delivered_ms, deliveries) = unclaimed.remove(&id).ok_or(SerialError::Format)?;
            group.set_pending(PendingEntry {
                id,
                delivered_ms,
                deliveries,
                consumer: slot,
            });
        }
    }
    if unclaimed.is_empty() {
        Ok(group)
    } else {
        Err(SerialError::Format)
    }
}

fn write_id(out: &mut Output<'_>, id: StreamId) {
    writer::number(out, id.time_ms);
    writer::number(out, id.sequence);
}

fn read_id(from: &mut Reader<'_>) -> Result<StreamId> {
    Ok(StreamId::new(from.number()?, from.number()?))
}

fn bytes_of_id(id: StreamId) -> [u8; ID_BYTES] {
    (u128::from(id.time_ms) << 64 | u128::from(id.sequence)).to_be_bytes()
}

fn id_of_bytes(bytes: [u8; ID_BYTES]) -> StreamId {
    let id = u128::from_be_bytes(bytes);
    StreamId::new((id >> 64) as u64, id as u64)
}

const ID_BYTES: usize = 16;
/// -1 in Redis.
const UNKNOWN: u64 = u64::MAX;
const NEVER: i64 = -1;

const DELETED: i64 = 1;
const SAME_NAMES: i64 = 2;
/// Number of elements for flags, time and sequence.
const ENTRY_HEAD: i64 = 3;

/// Maximum number of entries per listpack, as in Redis.
const TOGETHER_MAX: usize = 100;
const TOGETHER_BYTES_MAX: usize = 4096;

const LISTPACK_BYTES_MIN: usize = 2;
const GROUP_BYTES_MIN: usize = 5;
const PENDING_BYTES_MIN: usize = ID_BYTES + 9;
const CONSUMER_BYTES_MIN: usize = 10;
