//! Commands on strings.

use tidewire_resp::number::parse_integer;
use tidewire_resp::{Arguments, Writer};

use super::Call;
use super::comparing::{Comparison, Matching, Presence};
use super::options::{self, TimeForm, Words, is};
use crate::decimal::Decimal;
use crate::encoding::Kind;
use crate::entry::{Entry, NewValue};
use crate::error::{CommandError, Result};
use crate::key::Key;
use crate::keyspace::Keyspace;
use crate::lcs::{self, CommonSubsequence};
use crate::observer::Event;
use crate::text::Text;
use crate::value::{ValueRef, string_value};
use crate::view::Expiry;

pub(super) fn get(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    match reply_text(call, key) {
        Err(CommandError::WrongType) if call.view.reply_elements(key, call.reply) => Ok(()),
        ended => ended,
    }
}

pub(super) fn get_directly(value: Option<ValueRef<'_>>, reply: &mut Writer<'_>) -> bool {
    match value {
        Some(value) => value.written_to(reply),
        None => {
            reply.null();
            true
        }
    }
}

pub(super) fn set(call: &mut Call<'_, '_, '_>) -> Result {
    if call.arguments.len() == 3 {
        let key = call.key(1);
        store(call, key, call.argument(2), Expiry::Clear);
        call.reply.ok();
        return Ok(());
    }
    let options = SetOptions::parse(call)?;
    let key = call.key(1);
    if options.get {
        call.view.counts_reads = true;
        // An old value of another type is an error, and nothing is stored.
        call.view.read_text(key)?;
        call.view.counts_reads = false;
    }
    let store_it = options.holds(call, key)?;
    match (options.get, store_it) {
        (true, _) => reply_text(call, key)?,
        (false, true) => call.reply.ok(),
        (false, false) => call.reply.null(),
    }
    if store_it {
        store(call, key, call.argument(2), options.expiry);
        if call.is_propagated() {
            propagate_set(call, key, &options);
        }
    }
    Ok(())
}

pub(super) fn set_directly(
    _keyspace: &Keyspace,
    entry: &mut Entry,
    arguments: Arguments<'_>,
    reply: &mut Writer<'_>,
) -> bool {
    if arguments.len() != 3 || !matches!(entry.kind(), Kind::Integer | Kind::Bytes) {
        return false;
    }
    entry.set_value(string_value(&arguments[2]));
    reply.ok();
    true
}

pub(super) fn setnx(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let missing = call.view.find(key).is_none();
    if missing {
        store(call, key, call.argument(2), Expiry::Clear);
    }
    call.reply.integer(i64::from(missing));
    Ok(())
}

pub(super) fn getset(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    call.view.counts_reads = true;
    reply_text(call, key)?;
    store(call, key, call.argument(2), Expiry::Clear);
    call.propagate_with(0, b"SET");
    Ok(())
}

pub(super) fn getdel(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    call.view.counts_reads = true;
    reply_text(call, key)?;
    if call.view.delete(key, Event::Delete) {
        call.propagate([&b"DEL"[..], key.bytes]);
    }
    Ok(())
}

pub(super) fn getex(call: &mut Call<'_, '_, '_>) -> Result {
    let mut time = None;
    let mut persist = false;
    let mut at = 2;
    while at < call.arguments.len() {
        let option = call.argument(at);
        match TimeForm::of_option(option) {
            Some(form) if !persist && !is_other(time, form) && at + 1 < call.arguments.len() => {
                time = Some((form, at + 1));
                at += 1;
            }
            None if is(option, "persist") && time.is_none() => persist = true,
            _ => return Err(CommandError::Syntax),
        }
        at += 1;
    }
    let key = call.key(1);
    call.view.counts_reads = true;
    if call.view.read_text(key)?.is_none() {
        call.reply.null();
        return Ok(());
    }
    call.view.counts_reads = false;
    let deadline_ms = match time {
        Some((form, at)) => {
            let amount = call.integer(at)?;
            Some(form.positive_deadline_ms(amount, call.view.clock_ms, call.command.name)?)
        }
        None => None,
    };
    reply_text(call, key)?;
    let Some(place) = call.view.find(key) else {
        return Ok(());
    };
    match deadline_ms {
        Some(deadline_ms)
            if deadline_ms <= call.view.now_ms && !call.view.keyspace.is_loading() =>
        {
            call.view.remove(key, place, Event::Delete);
            call.propagate_expired(key);
        }
        Some(new_ms) => {
            call.view.set_deadline(key, place, deadline_ms);
            call.view.changed(key, place, Event::Expire);
            call.propagate_deadline(key, new_ms);
        }
        None if persist && call.view.entry(key, place).deadline_ms().is_some() => {
            call.view.set_deadline(key, place, None);
            call.view.changed(key, place, Event::Persist);
            call.propagate([&b"PERSIST"[..], key.bytes]);
        }
        None => {}
    }
    Ok(())
}

pub(super) fn mget(call: &mut Call<'_, '_, '_>) -> Result {
    call.reply.array(call.arguments.len() - 1);
    for at in call.rest(1) {
        let key = call.key(at);
        let is_other = match call.view.read_text(key) {
            Ok(Some(text)) => {
                call.reply.bulk(text.as_bytes());
                continue;
            }
            other => other.is_err(),
        };
        if !is_other || !call.view.reply_elements(key, call.reply) {
            call.reply.null();
        }
    }
    Ok(())
}

pub(super) fn mset(call: &mut Call<'_, '_, '_>) -> Result {
    check_pairs(call)?;
    store_pairs(call);
    call.reply.ok();
    Ok(())
}

pub(super) fn msetnx(call: &mut Call<'_, '_, '_>) -> Result {
    check_pairs(call)?;
    let taken = call.rest(1).step_by(2).any(|at| {
        let key = call.key(at);
        call.view.find(key).is_some()
    });
    if !taken {
        store_pairs(call);
    }
    call.reply.integer(i64::from(!taken));
    Ok(())
}

pub(super) fn append(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let added = call.argument(2);
    let Some(place) = call.view.find(key) else {
        let place = call.view.insert(key, string_value(added), Expiry::Clear);
        call.view.changed(key, place, Event::Append);
        call.reply.integer(added.len() as i64);
        return Ok(());
    };
    let old = text_length(call, key)?.unwrap_or(0);
    check_length(call, old + added.len())?;
    let entry = call.view.entry_mut(key, place);
    make_bytes(entry);
    entry.splice(old, 0, &[added]);
    entry.set_raw();
    call.view.changed(key, place, Event::Append);
    call.reply.integer((old + added.len()) as i64);
    Ok(())
}

pub(super) fn strlen(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let length = call
        .view
        .read_text(key)?
        .map_or(0, |text| text.as_bytes().len());
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn getrange(call: &mut Call<'_, '_, '_>) -> Result {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let key = call.key(1);
    match call.view.read_text(key)? {
        Some(text) => call.reply.bulk(slice(text.as_bytes(), start, end)),
        None => call.reply.bulk(b""),
    }
    Ok(())
}

pub(super) fn setrange(call: &mut Call<'_, '_, '_>) -> Result {
    let offset = call.integer(2)?;
    let offset = usize::try_from(offset).map_err(|_| CommandError::OffsetOutOfRange)?;
    let key = call.key(1);
    let bytes = call.argument(3);
    let old = text_length(call, key)?;
    if bytes.is_empty() {
        call.reply.integer(old.unwrap_or(0) as i64);
        return Ok(());
    }
    let end = offset.saturating_add(bytes.len());
    check_length(call, end)?;
    let place = match call.view.find(key) {
        Some(place) => place,
        None => call.view.insert(key, NewValue::Bytes(b""), Expiry::Clear),
    };
    let entry = call.view.entry_mut(key, place);
    make_bytes(entry);
    let length = end.max(old.unwrap_or(0));
    if length > entry.bytes().len() {
        entry.resize(length);
    }
    entry.bytes_mut()[offset..end].copy_from_slice(bytes);
    entry.set_raw();
    call.view.changed(key, place, Event::SetRange);
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn incr(call: &mut Call<'_, '_, '_>) -> Result {
    add(call, 1)
}

pub(super) fn incr_directly(
    _keyspace: &Keyspace,
    entry: &mut Entry,
    _arguments: Arguments<'_>,
    reply: &mut Writer<'_>,
) -> bool {
    add_directly(entry, 1, reply)
}

pub(super) fn decr(call: &mut Call<'_, '_, '_>) -> Result {
    add(call, -1)
}

pub(super) fn decr_directly(
    _keyspace: &Keyspace,
    entry: &mut Entry,
    _arguments: Arguments<'_>,
    reply: &mut Writer<'_>,
) -> bool {
    add_directly(entry, -1, reply)
}

pub(super) fn incrby(call: &mut Call<'_, '_, '_>) -> Result {
    let amount = call.integer(2)?;
    add(call, amount)
}

pub(super) fn incrby_directly(
    _keyspace: &Keyspace,
    entry: &mut Entry,
    arguments: Arguments<'_>,
    reply: &mut Writer<'_>,
) -> bool {
    parse_integer(&arguments[2]).is_some_and(|amount| add_directly(entry, amount, reply))
}

pub(super) fn decrby(call: &mut Call<'_, '_, '_>) -> Result {
    let amount = call
        .integer(2)?
        .checked_neg()
        .ok_or(CommandError::DecrementOverflow)?;
    add(call, amount)
}

pub(super) fn incrbyfloat(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let old = match call.view.read_text(key)? {
        Some(text) => Decimal::parse(text.as_bytes()).ok_or(CommandError::NotFloat)?,
        None => Decimal::ZERO,
    };
    let amount = Decimal::parse(call.argument(2)).ok_or(CommandError::NotFloat)?;
    let text = old
        .add(amount)
        .and_then(Decimal::text)
        .ok_or(CommandError::NotFinite)?;
    // Stored as text even if the sum is an integer: only SET detects integers.
    let place = call.view.set(key, NewValue::Bytes(&text), Expiry::Keep);
    call.view.changed(key, place, Event::IncrByFloat);
    call.propagate([&b"SET"[..], key.bytes, &text, b"KEEPTTL"]);
    call.reply.bulk(&text);
    Ok(())
}

pub(super) fn lcs(call: &mut Call<'_, '_, '_>) -> Result {
    let mut read = |at| {
        let key = call.key(at);
        match call.view.read_text(key) {
            Ok(text) => Ok(text.map_or(Vec::new(), |text| text.as_bytes().to_vec())),
            Err(_) => Err(CommandError::LcsNotString),
        }
    };
    let (first, second) = (read(1)?, read(2)?);
    let options = LcsOptions::parse(call)?;
    if options.length && options.index {
        return Err(CommandError::LcsLengthAndIndex);
    }
    // Redis allocates 4 bytes per pair of prefixes and limits that. Ours needs one bit per pair,
    // but has the same limit.
    let pairs = (first.len() + 1).saturating_mul(second.len() + 1);
    if pairs.saturating_mul(4) > call.view.keyspace.string_bytes_max {
        return Err(CommandError::Refused(LCS_TOO_LONG));
    }
    if options.length {
        call.reply.integer(lcs::length(&first, &second) as i64);
        return Ok(());
    }
    let common = CommonSubsequence::new(&first, &second);
    if options.index {
        reply_lcs_ranges(call, &options, &common);
    } else {
        let mut bytes = Vec::with_capacity(common.len());
        common.walk(|i, _| bytes.push(first[i]));
        bytes.reverse();
        call.reply.bulk(&bytes);
    }
    Ok(())
}

struct SetOptions<'a> {
    presence: Presence,
    comparison: Option<Comparison<'a>>,
    get: bool,
    expiry: Expiry,
    /// The TTL was given as PXAT, the form that is propagated.
    is_absolute: bool,
}

impl<'a> SetOptions<'a> {
    fn parse(call: &Call<'a, '_, '_>) -> Result<Self> {
        let mut options = SetOptions {
            presence: Presence::Any,
            comparison: None,
            get: false,
            expiry: Expiry::Clear,
            is_absolute: false,
        };
        // Valkey takes one condition, Redis also NX or XX after IFEQ, and IFEQ again.
        let only_one = call.view.keyspace.follows_valkey();
        let mut time = None;
        let mut keep = false;
        let mut at = 3;
        while at < call.arguments.len() {
            let option = call.argument(at);
            if let Some(form) = TimeForm::of_option(option) {
                if keep || is_other(time, form) || at + 1 == call.arguments.len() {
                    return Err(CommandError::Syntax);
                }
                at += 1;
                time = Some((form, at));
            } else if let Some(presence) = options.presence.with(option)
                && !(only_one && options.comparison.is_some())
            {
                options.presence = presence;
            } else if let Some(kind) = Matching::parse(option)
                && at + 1 < call.arguments.len()
                && options.presence == Presence::Any
                && options
                    .comparison
                    .is_none_or(|one| one.kind == kind && !only_one)
            {
                at += 1;
                options.comparison = Some(Comparison::new(kind, call.argument(at)));
            } else if is(option, "keepttl") && time.is_none() {
                keep = true;
                options.expiry = Expiry::Keep;
            } else if is(option, "get") {
                options.get = true;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        if let Some((form, at)) = time {
            let amount = call.integer(at)?;
            let now_ms = call.view.clock_ms;
            let deadline_ms = form.positive_deadline_ms(amount, now_ms, call.command.name)?;
            options.expiry = Expiry::At(deadline_ms);
            options.is_absolute = form == options::AT_MILLISECONDS;
        }
        Ok(options)
    }

    /// Returns whether its conditions hold.
    fn holds(&self, call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<bool> {
        if self.presence == Presence::Any && self.comparison.is_none() {
            return Ok(true);
        }
        let exists = call.view.find(key).is_some();
        match self.comparison {
            _ if !self.presence.accepts(exists) => Ok(false),
            None => Ok(true),
            Some(comparison) if !exists => Ok(comparison.holds_without_value()),
            Some(comparison) => {
                call.view.counts_reads = true;
                let value = call.view.read_text(key)?;
                let holds = value.map_or(Ok(true), |value| comparison.holds(value.as_bytes()));
                call.view.counts_reads = false;
                holds
            }
        }
    }
}

/// Returns whether a TTL was already given in another form. In the same form, the last one counts.
pub(super) fn is_other(time: Option<(TimeForm, usize)>, form: TimeForm) -> bool {
    time.is_some_and(|(before, _)| before != form)
}

fn reply_text(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result {
    if let Some(value) = call.view.read_stored(key) {
        // Written directly from the entry.
        return match value.written_to(call.reply) {
            true => Ok(()),
            false => Err(CommandError::WrongType),
        };
    }
    match call.view.read_topic_text(key)? {
        Some(text) => call.reply.bulk(text.as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

fn store(call: &mut Call<'_, '_, '_>, key: Key<'_>, value: &[u8], expiry: Expiry) {
    let place = call.view.set(key, string_value(value), expiry);
    call.view.changed(key, place, Event::Set);
    if let Expiry::At(_) = expiry {
        // Notifies again, for clients that only listen to TTL events.
        call.view.notify(key, Event::Expire);
    }
}

pub(super) fn set_with_time(call: &mut Call<'_, '_, '_>, form: options::TimeForm) -> Result {
    let amount = call.integer(2)?;
    let deadline_ms = form.positive_deadline_ms(amount, call.view.clock_ms, call.command.name)?;
    let key = call.key(1);
    store(call, key, call.argument(3), Expiry::At(deadline_ms));
    propagate_set_until(call, key, call.argument(3), deadline_ms);
    call.reply.ok();
    Ok(())
}

/// Propagates a SET with options: with PXAT in place of a relative time, and without GET and
/// comparisons.
fn propagate_set(call: &mut Call<'_, '_, '_>, key: Key<'_>, options: &SetOptions<'_>) {
    if let Expiry::At(deadline_ms) = options.expiry {
        if !options.is_absolute || options.comparison.is_some() {
            propagate_set_until(call, key, call.argument(2), deadline_ms);
        }
    } else if options.comparison.is_some() {
        // The condition held here, where the value is: a replica does not compare again.
        let keeps = (options.expiry == Expiry::Keep).then_some(&b"KEEPTTL"[..]);
        let mut words = vec![&b"SET"[..], key.bytes, call.argument(2)];
        words.extend(keeps);
        call.propagate(words);
    } else if options.get {
        let words = call.arguments.iter().enumerate();
        let words: Vec<&[u8]> = words
            .filter_map(|(at, word)| (at < 3 || !is(word, "get")).then_some(word))
            .collect();
        call.propagate(words);
    }
}

fn propagate_set_until(call: &mut Call<'_, '_, '_>, key: Key<'_>, value: &[u8], deadline_ms: i64) {
    let mut digits = itoa::Buffer::new();
    let deadline = digits.format(deadline_ms).as_bytes();
    call.propagate([&b"SET"[..], key.bytes, value, b"PXAT", deadline]);
}

fn check_pairs(call: &Call<'_, '_, '_>) -> Result {
    if call.arguments.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(call.command.full_name));
    }
    Ok(())
}

fn store_pairs(call: &mut Call<'_, '_, '_>) {
    for at in call.rest(1).step_by(2) {
        let key = call.key(at);
        store(call, key, call.argument(at + 1), Expiry::Clear);
    }
}

fn text_length(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Option<usize>> {
    Ok(call.view.read_text(key)?.map(|text| text.as_bytes().len()))
}

fn check_length(call: &Call<'_, '_, '_>, length: usize) -> Result {
    if length > call.view.keyspace.string_bytes_max {
        return Err(CommandError::StringTooLong);
    }
    Ok(())
}

/// Converts an integer to its text, so that it can be changed in place.
pub(super) fn make_bytes(entry: &mut crate::entry::Entry) {
    if let Some(integer) = entry.integer() {
        entry.set_value(NewValue::Bytes(Text::integer(integer).as_bytes()));
    }
}

fn add(call: &mut Call<'_, '_, '_>, amount: i64) -> Result {
    let key = call.key(1);
    let sum_of = |old: i64| old.checked_add(amount).ok_or(CommandError::Overflow);
    let (sum, place) = match call.view.find(key) {
        None => {
            let place = call
                .view
                .insert(key, NewValue::Integer(amount), Expiry::Clear);
            (amount, place)
        }
        Some(place) => {
            let entry = call.view.entry_mut(key, place);
            let sum = match entry.kind() {
                Kind::Integer => {
                    let sum = sum_of(entry.integer().unwrap_or(0))?;
                    entry.set_integer(sum);
                    sum
                }
                Kind::Bytes => {
                    let number = parse_integer(entry.bytes());
                    let sum = sum_of(number.ok_or(CommandError::NotInteger)?)?;
                    let value = NewValue::Integer(sum);
                    call.view.overwrite(key, place, value, Expiry::Keep);
                    sum
                }
                _ => return Err(CommandError::WrongType),
            };
            (sum, place)
        }
    };
    call.view.changed(key, place, Event::IncrBy);
    call.reply.integer(sum);
    Ok(())
}

/// Does the same for an integer entry whose sum is an integer.
#[inline]
fn add_directly(entry: &mut Entry, amount: i64, reply: &mut Writer<'_>) -> bool {
    let Some(sum) = entry.integer().and_then(|old| old.checked_add(amount)) else {
        return false;
    };
    entry.set_integer(sum);
    reply.integer(sum);
    true
}

/// Returns bytes `start` to `end`, both included. Negative ones count from the end.
fn slice(text: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    &text[options::text_positions(start, end, text.len())]
}

#[derive(Default)]
struct LcsOptions {
    length: bool,
    index: bool,
    match_length: bool,
    match_length_min: i64,
}

impl LcsOptions {
    fn parse(call: &Call<'_, '_, '_>) -> Result<Self> {
        let mut options = LcsOptions::default();
        let mut words = Words::new(call.arguments, 3);
        while let Some(option) = words.next() {
            if is(option, "idx") {
                options.index = true;
            } else if is(option, "len") {
                options.length = true;
            } else if is(option, "withmatchlen") {
                options.match_length = true;
            } else if let Some(length) = words.value_of(option, "minmatchlen") {
                options.match_length_min = options::integer(length)?.max(0);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

fn reply_lcs_ranges(
    call: &mut Call<'_, '_, '_>,
    options: &LcsOptions,
    common: &CommonSubsequence<'_>,
) {
    // Runs of common bytes that are adjacent in both texts, last run first: start in a, start in b,
    // length.
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    common.walk(|i, j| match runs.last_mut() {
        Some(run) if run.0 == i + 1 && run.1 == j + 1 => *run = (i, j, run.2 + 1),
        _ => runs.push((i, j, 1)),
    });
    runs.retain(|run| run.2 as i64 >= options.match_length_min);
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(runs.len());
    for (i, j, length) in runs {
        reply.array(2 + usize::from(options.match_length));
        for start in [i, j] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + length - 1) as i64);
        }
        if options.match_length {
            reply.integer(length as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(common.len() as i64);
}

const LCS_TOO_LONG: &str =
    "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
