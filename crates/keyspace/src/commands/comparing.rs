//! Writes that depend on the present value: the conditions of SET, DELEX, DELIFEQ,
//! DIGEST, MSETEX.

use super::Call;
use super::options::{AT_MILLISECONDS, TimeForm, is};
use super::strings::is_other;
use crate::error::{CommandError, Result};
use crate::observer::Event;
use crate::reclaim::Cause;
use crate::value::string_value;
use crate::view::Expiry;

pub(super) fn digest(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    match call.view.read_text(key)? {
        Some(text) => call.reply.bulk(&digest_of(text.as_bytes())),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn delex(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let goes = match call.arguments.len() {
        2 => true,
        4 => {
            call.view.counts_reads = true;
            let Some(value) = call.view.read_stored(key) else {
                call.reply.integer(0);
                return Ok(());
            };
            let value = value.text().ok_or(NOT_A_STRING)?;
            let kind = Matching::parse(call.arguments.get(2).unwrap_or_default());
            let wanted = call.arguments.get(3).unwrap_or_default();
            Comparison::new(kind.ok_or(UNKNOWN_CONDITION)?, wanted).holds(value.as_bytes())?
        }
        _ => return Err(CommandError::WrongArity(call.command.full_name)),
    };
    call.view.counts_reads = false;
    let deleted = goes && call.view.delete_for(key, Event::Delete, Cause::Replacement);
    if deleted {
        call.propagate([&b"DEL"[..], key.bytes]);
    }
    call.reply.integer(i64::from(deleted));
    Ok(())
}

/// Valkey's form of DELEX IFEQ.
pub(super) fn delifeq(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let wanted = call.arguments.get(2).unwrap_or_default();
    let goes = match call.view.read_stored(key) {
        Some(value) => value.text().ok_or(CommandError::WrongType)?.as_bytes() == wanted,
        None => false,
    };
    let deleted = goes && call.view.delete_for(key, Event::Delete, Cause::Replacement);
    if deleted {
        call.propagate([&b"DEL"[..], key.bytes]);
    }
    call.reply.integer(i64::from(deleted));
    Ok(())
}

pub(super) fn msetex(call: &mut Call<'_, '_, '_>) -> Result {
    let options = MultipleOptions::parse(call)?;
    let pairs = 2..2 + options.pairs * 2;
    let is_refused = pairs.clone().step_by(2).any(|at| {
        let key = call.key(at);
        options.presence != Presence::Any
            && !options.presence.accepts(call.view.find(key).is_some())
    });
    if is_refused {
        call.reply.integer(0);
        return Ok(());
    }
    for at in pairs.step_by(2) {
        let key = call.key(at);
        let value = string_value(call.argument(at + 1));
        let place = call.view.set(key, value, options.expiry);
        let expires = matches!(options.expiry, Expiry::At(_));
        // Redis's order is another one than that of SET, Valkey's is the same.
        let is_after = call.view.keyspace.follows_valkey();
        if expires && !is_after {
            call.view.notify(key, Event::Expire);
        }
        call.view.changed(key, place, Event::Set);
        if expires && is_after {
            call.view.notify(key, Event::Expire);
        }
    }
    if let (Some(at), Expiry::At(deadline_ms)) = (options.time_at, options.expiry) {
        propagate_until(call, at, deadline_ms);
    }
    call.reply.integer(1);
    Ok(())
}

/// Propagates the request with PXAT in place of the time whose option is argument `time_at`.
fn propagate_until(call: &mut Call<'_, '_, '_>, time_at: usize, deadline_ms: i64) {
    if !call.is_propagated() {
        return;
    }
    let mut digits = itoa::Buffer::new();
    let deadline = digits.format(deadline_ms).as_bytes();
    let words = call.arguments.iter().enumerate();
    let words: Vec<&[u8]> = words
        .map(|(at, word)| match at {
            _ if at == time_at => b"PXAT",
            _ if at == time_at + 1 => deadline,
            _ => word,
        })
        .collect();
    call.propagate(words);
}

/// NX, XX, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Any,
    Missing,
    Present,
}

impl Presence {
    /// Returns what it is with this option, if that is NX or XX and does not contradict it.
    pub(super) fn with(self, option: &[u8]) -> Option<Self> {
        match option {
            _ if is(option, "nx") && self != Presence::Present => Some(Presence::Missing),
            _ if is(option, "xx") && self != Presence::Missing => Some(Presence::Present),
            _ => None,
        }
    }

    pub(super) fn accepts(self, exists: bool) -> bool {
        match self {
            Presence::Any => true,
            Presence::Missing => !exists,
            Presence::Present => exists,
        }
    }
}

/// What the present value is compared with, and whether they must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matching {
    Value { equal: bool },
    Digest { equal: bool },
}

impl Matching {
    pub(super) fn parse(option: &[u8]) -> Option<Self> {
        match option {
            _ if is(option, "ifeq") => Some(Matching::Value { equal: true }),
            _ if is(option, "ifne") => Some(Matching::Value { equal: false }),
            _ if is(option, "ifdeq") => Some(Matching::Digest { equal: true }),
            _ if is(option, "ifdne") => Some(Matching::Digest { equal: false }),
            _ => None,
        }
    }
}

/// A comparison with the present value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison<'a> {
    pub(super) kind: Matching,
    wanted: &'a [u8],
}

impl<'a> Comparison<'a> {
    pub(super) fn new(kind: Matching, wanted: &'a [u8]) -> Self {
        Comparison { kind, wanted }
    }

    /// Returns whether it holds for a value; an error if it has an impossible digest.
    pub(super) fn holds(&self, value: &[u8]) -> Result<bool> {
        match self.kind {
            Matching::Value { equal } => Ok((value == self.wanted) == equal),
            Matching::Digest { .. } if self.wanted.len() != DIGEST_DIGITS => Err(DIGEST_LENGTH),
            Matching::Digest { equal } => {
                Ok(digest_of(value).eq_ignore_ascii_case(self.wanted) == equal)
            }
        }
    }

    /// Returns whether it holds for a key that does not exist.
    pub(super) fn holds_without_value(&self) -> bool {
        match self.kind {
            Matching::Value { equal } | Matching::Digest { equal } => !equal,
        }
    }
}

/// Options of MSETEX, after its keys and values.
struct MultipleOptions {
    pairs: usize,
    presence: Presence,
    expiry: Expiry,
    /// Position of the option with the TTL, unless it is PXAT.
    time_at: Option<usize>,
}

impl MultipleOptions {
    fn parse(call: &Call<'_, '_, '_>) -> Result<Self> {
        let follows_valkey = call.view.keyspace.follows_valkey();
        let pairs = tidewire_resp::number::parse_integer(call.argument(1))
            .filter(|pairs| (1..=i64::from(i32::MAX)).contains(pairs))
            .ok_or(match follows_valkey {
                true => PAIR_COUNT_VALKEY,
                false => PAIR_COUNT,
            })? as usize;
        if pairs * 2 + 2 > call.arguments.len() {
            return Err(match follows_valkey {
                true => CommandError::Syntax,
                false => TOO_FEW_PAIRS,
            });
        }
        let (mut presence, mut time, mut keeps) = (Presence::Any, None, false);
        let mut at = pairs * 2 + 2;
        while at < call.arguments.len() {
            let option = call.argument(at);
            if let Some(with_option) = presence.with(option) {
                presence = with_option;
            } else if is(option, "keepttl") && time.is_none() {
                keeps = true;
            } else if let Some(form) = TimeForm::of_option(option)
                && !keeps
                && !is_other(time, form)
                && at + 1 < call.arguments.len()
            {
                at += 1;
                time = Some((form, at));
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        let mut options = MultipleOptions {
            pairs,
            presence,
            expiry: if keeps { Expiry::Keep } else { Expiry::Clear },
            time_at: None,
        };
        if let Some((form, at)) = time {
            let (amount, now_ms) = (call.integer(at)?, call.view.clock_ms);
            let deadline_ms = form.positive_deadline_ms(amount, now_ms, call.command.name)?;
            options.expiry = Expiry::At(deadline_ms);
            options.time_at = (form != AT_MILLISECONDS).then_some(at - 1);
        }
        Ok(options)
    }
}

/// Returns the XXH3 digest of a value in hexadecimal digits.
fn digest_of(value: &[u8]) -> [u8; DIGEST_DIGITS] {
    let digest = xxhash_rust::xxh3::xxh3_64(value);
    std::array::from_fn(|at| {
        let digit = digest >> (60 - 4 * at) & 0xF;
        b"0123456789abcdef"[digit as usize]
    })
}

const DIGEST_DIGITS: usize = 16;

const DIGEST_LENGTH: CommandError =
    CommandError::Refused("ERR must be exactly 16 hexadecimal characters");
const NOT_A_STRING: CommandError =
    CommandError::Refused("ERR Key should be of string type if conditions are specified");
const UNKNOWN_CONDITION: CommandError =
    CommandError::Refused("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
const PAIR_COUNT: CommandError = CommandError::Refused("ERR invalid numkeys value");
const PAIR_COUNT_VALKEY: CommandError =
    CommandError::Refused("ERR invalid numkeys value or out of range");
const TOO_FEW_PAIRS: CommandError = CommandError::Refused("ERR wrong number of key-value pairs");
