//! Commands on hashes.

use tidewire_resp::number::parse_integer;
use tidewire_resp::{ArgumentList, Protocol, Writer};

use super::Call;
use super::options::is;
use crate::decimal::Decimal;
use crate::error::{CommandError, Result};
use crate::fields::{self, Fields, FoundField};
use crate::key::Key;
use crate::observer::Event;
use crate::sampling;
use crate::table::Place;
use crate::text::Text;
use crate::view::Expiry;

pub(super) fn hset(call: &mut Call<'_, '_, '_>) -> Result {
    let added = set_pairs(call)?;
    call.reply.integer(added);
    Ok(())
}

pub(super) fn hmset(call: &mut Call<'_, '_, '_>) -> Result {
    set_pairs(call)?;
    call.reply.ok();
    Ok(())
}

/// Sets the given fields. Returns how many are new.
#[inline]
fn set_pairs(call: &mut Call<'_, '_, '_>) -> Result<i64> {
    if !call.arguments.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(call.command.full_name));
    }
    let key = call.key(1);
    let place = find_or_insert(call, key)?;
    let limits = call.view.keyspace.hash_limits();
    let pairs = call.rest(2);
    let entry = call.view.entry_mut(key, place);
    fields::expect(entry, pairs.len() / 2, limits);
    if fields::is_timed(entry) {
        tell_due_pairs(call, key, place);
    }
    let mut added = 0;
    for at in pairs.step_by(2) {
        let (field, value) = (call.argument(at), call.argument(at + 1));
        let entry = call.view.entry_mut(key, place);
        added += i64::from(fields::set(entry, field, value, limits, false));
    }
    call.view.settle_fields(key, place);
    call.view.changed(key, place, Event::HashSet);
    Ok(added)
}

pub(super) fn hsetnx(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let field = call.argument(2);
    let there = look_up(call, key, field, |_, value| value.is_some())?;
    if !there {
        let value = call.argument(3);
        store_field(call, key, field, value, Event::HashSet)?;
    }
    call.reply.integer(i64::from(!there));
    Ok(())
}

pub(super) fn hget(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let field = call.argument(2);
    look_up(call, key, field, |reply, value| match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    })
}

pub(super) fn hmget(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let wanted = call.arguments.tail(2);
    let fields = call.view.read_fields(key)?;
    call.reply.array(wanted.len());
    let mut due = false;
    for field in wanted {
        match fields.map_or(FoundField::Missing, |fields| fields.find(field)) {
            FoundField::Value(value) => call.reply.bulk(value),
            found => {
                due |= found == FoundField::Due;
                call.reply.null();
            }
        }
    }
    if due && let Some(place) = find_to_expire(call, key) {
        remove_due_of(call, key, place, 2);
        call.view.changed(key, place, Event::HashExpired);
        settle(call, key, place);
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

pub(super) fn hlen(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let count = call.view.read_fields(key)?.map_or(0, Fields::len_with_due);
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn hexists(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let field = call.argument(2);
    look_up(call, key, field, |reply, value| {
        reply.integer(i64::from(value.is_some()));
    })
}

pub(super) fn hstrlen(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let field = call.argument(2);
    look_up(call, key, field, |reply, value| {
        reply.integer(value.map_or(0, |value| value.len() as i64));
    })
}

pub(super) fn hdel(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let mut removed = 0;
    if call.view.read_fields(key)?.is_some()
        && let Some(place) = call.view.find(key)
    {
        for at in call.rest(2) {
            let field = call.argument(at);
            let entry = call.view.entry_mut(key, place);
            removed += i64::from(fields::remove(entry, field));
            if fields::len(entry) == 0 {
                break;
            }
        }
        if removed > 0 {
            call.view.changed(key, place, Event::HashDelete);
            settle(call, key, place);
        }
    }
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn hincrby(call: &mut Call<'_, '_, '_>) -> Result {
    let amount = call.integer(3)?;
    let key = call.key(1);
    let field = call.argument(2);
    let old = look_up(call, key, field, |_, value| match value {
        Some(value) => parse_integer(value).ok_or(CommandError::HashNotInteger),
        None => Ok(0),
    })??;
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
    let old = look_up(call, key, field, |_, value| match value {
        Some(value) => Decimal::parse(value).ok_or(CommandError::HashNotFloat),
        None => Ok(Decimal::ZERO),
    })??;
    let text = old
        .add(amount)
        .and_then(Decimal::text)
        .ok_or(CommandError::NotFinite)?;
    let fields = call.view.read_fields(key)?;
    let timed = fields.is_some_and(|fields| fields.is_timed());
    store_field(call, key, field, &text, Event::HashIncrByFloat)?;
    match timed {
        true => call.propagate([
            b"HSETEX", key.bytes, b"KEEPTTL", b"FIELDS", b"1", field, &text,
        ]),
        // No field has a TTL to keep, and servers before Redis 8 do not know HSETEX.
        false => call.propagate([b"HSET", key.bytes, field, &text]),
    }
    call.reply.bulk(&text);
    Ok(())
}

pub(super) fn hrandfield(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    if call.arguments.len() == 2 {
        remove_all_due(call, key)?;
        let keyspace = call.view.keyspace;
        let fields = call.view.read_fields(key)?;
        match fields.and_then(|fields| fields.random(|| keyspace.random())) {
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
    // With values, twice as many elements are replied: neither count may overflow.
    if with_values && wanted.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::OutOfRange);
    }
    remove_all_due(call, key)?;
    reply_random(call, key, wanted, with_values)
}

fn reply_random(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    wanted: i64,
    with_values: bool,
) -> Result {
    let keyspace = call.view.keyspace;
    let Some(fields) = call.view.read_fields(key)? else {
        call.reply.array(0);
        return Ok(());
    };
    let is_pair = with_values && call.reply.protocol() == Protocol::Resp3;
    let elements = if with_values && !is_pair { 2 } else { 1 };
    let write = |reply: &mut Writer<'_>, (field, value): &(&[u8], &[u8])| {
        if is_pair {
            reply.array(2);
        }
        reply.bulk(field);
        if with_values {
            reply.bulk(value);
        }
    };
    let (random, pool) = (|| keyspace.random(), fields.pool());
    let reply = &mut *call.reply;
    match usize::try_from(wanted) {
        Ok(wanted) => {
            reply.array(wanted.min(fields.len()) * elements);
            pool.distinct(wanted, random, |pair| write(reply, pair));
            Ok(())
        }
        Err(_) => sampling::reply_repeated(reply, wanted.unsigned_abs(), elements, |reply| {
            pool.one(random, |pair| write(reply, pair));
        }),
    }
}

pub(super) fn reply_list(
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

/// Passes the value of a field to `show`, if it exists. An expired field is removed.
fn look_up<R>(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    field: &[u8],
    show: impl FnOnce(&mut Writer<'_>, Option<&[u8]>) -> R,
) -> Result<R> {
    let fields = call.view.read_fields(key)?;
    match fields.map_or(FoundField::Missing, |fields| fields.find(field)) {
        FoundField::Value(value) => Ok(show(call.reply, Some(value))),
        FoundField::Missing => Ok(show(call.reply, None)),
        FoundField::Due => {
            call.view.expire_field(key, field);
            Ok(show(call.reply, None))
        }
    }
}

/// Returns the place of the hash, if its expired fields may be removed.
fn find_to_expire(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Option<Place> {
    let paused = call.view.keyspace.is_expiry_paused(call.view.now_ms);
    if paused { None } else { call.view.find(key) }
}

/// Removes the expired fields among those named from argument `from` on, without notifying the
/// observer. Returns how many.
fn remove_due_of(call: &mut Call<'_, '_, '_>, key: Key<'_>, place: Place, from: usize) -> usize {
    let now_ms = call.view.now_ms;
    let mut count = 0;
    for at in call.rest(from) {
        let field = call.argument(at);
        let entry = call.view.entry_mut(key, place);
        let found = Fields::of(entry, now_ms).map(|fields| fields.find(field));
        if found == Some(FoundField::Due) {
            fields::remove(entry, field);
            call.view.propagate_field_gone(key, field);
            count += 1;
        }
    }
    call.view.keyspace.note_expired_fields(count);
    count
}

/// Valkey tells that expired fields have expired when they get a new value.
#[cold]
fn tell_due_pairs(call: &mut Call<'_, '_, '_>, key: Key<'_>, place: Place) {
    let now_ms = call.view.now_ms;
    if !call.view.keyspace.follows_valkey() {
        return;
    }
    let pairs = call.rest(2);
    let fields = Fields::of(call.view.entry(key, place), now_ms);
    let is_due = |at| {
        let field = call.arguments.get(at).unwrap_or_default();
        fields.is_some_and(|fields| fields.find(field) == FoundField::Due)
    };
    let count = pairs.step_by(2).filter(|&at| is_due(at)).count();
    if count > 0 {
        call.view.keyspace.note_expired_fields(count);
        call.view.notify(key, Event::HashExpired);
    }
}

/// Removes all expired fields.
fn remove_all_due(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result {
    let has_due = call.view.read_fields(key)?.is_some_and(Fields::has_due);
    // The caller reads the hash again.
    call.view.counts_reads = false;
    if !has_due {
        return Ok(());
    }
    if let Some(place) = find_to_expire(call, key) {
        let now_ms = call.view.now_ms;
        let mut gone = ArgumentList::new();
        let entry = call.view.entry_mut(key, place);
        let count = fields::remove_due(entry, now_ms, usize::MAX, &mut |field| gone.push(field));
        let gone = gone.as_arguments().iter();
        gone.for_each(|field| call.view.propagate_field_gone(key, field));
        call.view.keyspace.note_expired_fields(count);
        call.view.changed(key, place, Event::HashExpired);
        settle(call, key, place);
    }
    Ok(())
}

/// Deletes a hash without fields. Call this when fields may have been removed.
pub(super) fn settle(call: &mut Call<'_, '_, '_>, key: Key<'_>, place: Place) {
    if fields::len(call.view.entry(key, place)) == 0 {
        call.view.remove(key, place, Event::Delete);
    } else {
        call.view.settle_fields(key, place);
    }
}

/// Returns the place of the hash of this key, if it exists.
pub(super) fn find_hash(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Option<Place>> {
    match call.view.find(key) {
        None => Ok(None),
        Some(place) if fields::is_hash(call.view.entry(key, place)) => Ok(Some(place)),
        Some(_) => Err(CommandError::WrongType),
    }
}

pub(super) fn find_or_insert(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Place> {
    match find_hash(call, key)? {
        Some(place) => Ok(place),
        None => Ok(call.view.insert(key, fields::empty(), Expiry::Clear)),
    }
}

/// Sets one field, which keeps its TTL.
fn store_field(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    field: &[u8],
    value: &[u8],
    event: Event,
) -> Result {
    let place = find_or_insert(call, key)?;
    let limits = call.view.keyspace.hash_limits();
    fields::set(call.view.entry_mut(key, place), field, value, limits, true);
    call.view.changed(key, place, event);
    Ok(())
}
