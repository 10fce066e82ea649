//! Commands on hashes.

use tidewire_resp::Protocol;
use tidewire_resp::number::parse_integer;

use super::options::is;
use super::{Call, random_from};
use crate::decimal::Decimal;
use crate::entry::{Entry, Kind, NewValue};
use crate::error::CommandError;
use crate::hash;
use crate::observer::Event;
use crate::packed::{self, Packed};
use crate::table::{Place, Table};
use crate::value::{Fields, Object, Text};
use crate::view::{Expiry, Key};

type Result = std::result::Result<(), CommandError>;

pub(super) fn hset(call: &mut Call<'_, '_, '_>) -> Result {
    if !call.arguments.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(call.command.full_name));
    }
    let key = call.key(1);
    let place = find_or_insert(call, key)?;
    let limits = call.view.keyspace.hash_limits();
    let mut added = 0;
    for at in call.rest(2).step_by(2) {
        let (field, value) = (call.argument(at), call.argument(at + 1));
        let entry = call.view.entry_mut(key, place);
        added += i64::from(set_field(entry, field, value, limits));
    }
    call.view.changed(key, place, Event::HashSet);
    if call.command.name == "hmset" {
        call.reply.ok();
    } else {
        call.reply.integer(added);
    }
    Ok(())
}

pub(super) fn hsetnx(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let field = call.argument(2);
    let there = call
        .view
        .read_fields(key)?
        .is_some_and(|fields| fields.get(field).is_some());
    if !there {
        let place = find_or_insert(call, key)?;
        let limits = call.view.keyspace.hash_limits();
        let value = call.argument(3);
        set_field(call.view.entry_mut(key, place), field, value, limits);
        call.view.changed(key, place, Event::HashSet);
    }
    call.reply.integer(i64::from(!there));
    Ok(())
}

pub(super) fn hget(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let field = call.argument(2);
    match call
        .view
        .read_fields(key)?
        .and_then(|fields| fields.get(field))
    {
        Some(value) => call.reply.bulk(value),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn hmget(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let wanted = call.arguments.tail(2);
    let fields = call.view.read_fields(key)?;
    call.reply.array(wanted.len());
    for field in wanted {
        match fields.and_then(|fields| fields.get(field)) {
            Some(value) => call.reply.bulk(value),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn hgetall(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let fields = call.view.read_fields(key)?;
    call.reply.map(fields.map_or(0, Fields::len));
    for (field, value) in fields.into_iter().flatten() {
        call.reply.bulk(field);
        call.reply.bulk(value);
    }
    Ok(())
}

pub(super) fn hkeys(call: &mut Call<'_, '_, '_>) -> Result {
    reply_list(call, |field, _| field)
}

pub(super) fn hvals(call: &mut Call<'_, '_, '_>) -> Result {
    reply_list(call, |_, value| value)
}

pub(super) fn hlen(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let count = call.view.read_fields(key)?.map_or(0, Fields::len);
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn hexists(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let field = call.argument(2);
    let there = call
        .view
        .read_fields(key)?
        .is_some_and(|fields| fields.get(field).is_some());
    call.reply.integer(i64::from(there));
    Ok(())
}

pub(super) fn hstrlen(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let field = call.argument(2);
    let value = call
        .view
        .read_fields(key)?
        .and_then(|fields| fields.get(field));
    call.reply
        .integer(value.map_or(0, |value| value.len() as i64));
    Ok(())
}

pub(super) fn hdel(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let mut removed = 0;
    if call.view.read_fields(key)?.is_some()
        && let Some(place) = call.view.find(key)
    {
        let mut left = 0;
        for at in call.rest(2) {
            let entry = call.view.entry_mut(key, place);
            removed += i64::from(remove_field(
                entry,
                call.arguments.get(at).unwrap_or_default(),
            ));
            left = count(entry);
            if left == 0 {
                break;
            }
        }
        if removed > 0 {
            call.view.changed(key, place, Event::HashDelete);
        }
        if left == 0 {
            call.view.remove(key, place, Event::Delete);
        }
    }
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn hincrby(call: &mut Call<'_, '_, '_>) -> Result {
    let amount = call.integer(3)?;
    let key = call.key(1);
    let field = call.argument(2);
    let old = match call
        .view
        .read_fields(key)?
        .and_then(|fields| fields.get(field))
    {
        Some(value) => parse_integer(value).ok_or(CommandError::HashNotInteger)?,
        None => 0,
    };
    let sum = old.checked_add(amount).ok_or(CommandError::Overflow)?;
    let text = Text::integer(sum);
    store_field(call, key, field, text.as_bytes(), Event::HashIncrBy)?;
    call.reply.integer(sum);
    Ok(())
}

pub(super) fn hincrbyfloat(call: &mut Call<'_, '_, '_>) -> Result {
    let amount = Decimal::parse(call.argument(3)).ok_or(CommandError::NotFloat)?;
    if !amount.is_finite() {
        return Err(CommandError::AmountNotFinite);
    }
    let key = call.key(1);
    let field = call.argument(2);
    let old = match call
        .view
        .read_fields(key)?
        .and_then(|fields| fields.get(field))
    {
        Some(value) => Decimal::parse(value).ok_or(CommandError::HashNotFloat)?,
        None => Decimal::ZERO,
    };
    let text = old
        .add(amount)
        .and_then(Decimal::text)
        .ok_or(CommandError::NotFinite)?;
    store_field(call, key, field, &text, Event::HashIncrByFloat)?;
    call.reply.bulk(&text);
    Ok(())
}

pub(super) fn hrandfield(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let keyspace = call.view.keyspace;
    if call.arguments.len() == 2 {
        let fields = call.view.read_fields(key)?;
        let at = fields.and_then(|fields| random_from(keyspace, fields.len()));
        match fields
            .zip(at)
            .and_then(|(fields, at)| fields.iter().nth(at))
        {
            Some((field, _)) => call.reply.bulk(field),
            None => call.reply.null(),
        }
        return Ok(());
    }
    let wanted = call.integer(2)?;
    if wanted == i64::MIN {
        return Err(CommandError::CountOutOfRange);
    }
    let with_values = match call.arguments.len() {
        3 => false,
        4 if is(call.argument(3), "withvalues") => true,
        _ => return Err(CommandError::Syntax),
    };
    // With values twice as many replies are written: neither count may overflow.
    if with_values && wanted.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::OutOfRange);
    }
    let Some(fields) = call.view.read_fields(key)? else {
        call.reply.array(0);
        return Ok(());
    };
    let pairs: Vec<_> = fields.iter().collect();
    let chosen = choose(pairs.len(), wanted, |count| {
        random_from(keyspace, count).unwrap_or(0)
    });
    let resp3 = call.reply.protocol() == Protocol::Resp3;
    call.reply
        .array(chosen.len() * if with_values && !resp3 { 2 } else { 1 });
    for at in chosen {
        if with_values && resp3 {
            call.reply.array(2);
        }
        call.reply.bulk(pairs[at].0);
        if with_values {
            call.reply.bulk(pairs[at].1);
        }
    }
    Ok(())
}

/// Positions below `count`: at most `wanted` different ones, or exactly `-wanted` of any.
pub(crate) fn choose(
    count: usize,
    wanted: i64,
    mut random: impl FnMut(usize) -> usize,
) -> Vec<usize> {
    if wanted < 0 {
        let wanted = wanted.unsigned_abs().min(RANDOM_COUNT_MAX) as usize;
        return (0..wanted).map(|_| random(count)).collect();
    }
    let wanted = usize::try_from(wanted).unwrap_or(count).min(count);
    let mut positions: Vec<usize> = (0..count).collect();
    if wanted < count {
        for at in 0..wanted {
            let other = at + random(count - at);
            positions.swap(at, other);
        }
        positions.truncate(wanted);
    }
    positions
}

fn reply_list(
    call: &mut Call<'_, '_, '_>,
    part: for<'a> fn(&'a [u8], &'a [u8]) -> &'a [u8],
) -> Result {
    let key = call.key(1);
    let fields = call.view.read_fields(key)?;
    call.reply.array(fields.map_or(0, Fields::len));
    for (field, value) in fields.into_iter().flatten() {
        call.reply.bulk(part(field, value));
    }
    Ok(())
}

fn find_or_insert(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
) -> std::result::Result<Place, CommandError> {
    match call.view.find(key) {
        None => Ok(call.view.insert(
            key,
            NewValue::Compact(Kind::PackedHash, packed::EMPTY),
            Expiry::Clear,
        )),
        Some(place) => match call.view.entry(key, place).kind() {
            Kind::PackedHash => Ok(place),
            Kind::Object
                if matches!(call.view.entry(key, place).object(), Some(Object::Hash(_))) =>
            {
                Ok(place)
            }
            _ => Err(CommandError::WrongType),
        },
    }
}

fn store_field(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    field: &[u8],
    value: &[u8],
    event: Event,
) -> Result {
    let place = find_or_insert(call, key)?;
    let limits = call.view.keyspace.hash_limits();
    set_field(call.view.entry_mut(key, place), field, value, limits);
    call.view.changed(key, place, event);
    Ok(())
}

/// Sets a field of a hash entry; true if it is new. A packed hash that outgrows the limits
/// (fields, bytes of one) becomes a table and stays one.
fn set_field(entry: &mut Entry, field: &[u8], value: &[u8], limits: (usize, usize)) -> bool {
    if entry.kind() == Kind::PackedHash {
        let packed = Packed::new(entry.bytes());
        let span = packed.find(field);
        let fits =
            field.len().max(value.len()) <= limits.1 && (span.is_some() || packed.len() < limits.0);
        match span {
            Some(span) if fits => packed::replace(entry, span, value),
            None if fits => packed::append(entry, field, value),
            _ => {
                unpack(entry);
                return set_field(entry, field, value, limits);
            }
        }
        return span.is_none();
    }
    let Some(Object::Hash(table)) = entry.object_mut() else {
        return false;
    };
    let hash = hash::of(field);
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

fn unpack(entry: &mut Entry) {
    let mut table = Table::new();
    for (field, value) in Packed::new(entry.bytes()).iter() {
        let hash = hash::of(field);
        table.insert(hash, Entry::new(hash, field, NewValue::Bytes(value), false));
    }
    entry.set_value(NewValue::Object(Box::new(Object::Hash(table))));
}

fn remove_field(entry: &mut Entry, field: &[u8]) -> bool {
    if entry.kind() == Kind::PackedHash {
        let span = Packed::new(entry.bytes()).find(field);
        if let Some(span) = span {
            packed::remove(entry, span);
        }
        return span.is_some();
    }
    let Some(Object::Hash(table)) = entry.object_mut() else {
        return false;
    };
    let place = table.find(hash::of(field), field);
    place.map(|place| table.remove(place)).is_some()
}

fn count(entry: &Entry) -> usize {
    match (entry.kind(), entry.object()) {
        (Kind::PackedHash, _) => Packed::new(entry.bytes()).len(),
        (_, Some(Object::Hash(table))) => table.len(),
        _ => 0,
    }
}

/// More repeated fields or members than this in one reply would be an attack on memory.
pub(super) const RANDOM_COUNT_MAX: u64 = 1 << 24;
