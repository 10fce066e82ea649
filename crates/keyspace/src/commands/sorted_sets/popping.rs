//! Commands that pop the lowest or highest members, and their blocking forms.

use tidewire_resp::Protocol;

use super::super::Call;
use super::super::options::{is, positive, timeout_deadline_ms};
use super::super::popping::{self, ManyPop};
use super::{Result, find};
use crate::error::CommandError;
use crate::key::Key;
use crate::observer::Event;
use crate::sorted_set::{self, Scored};
use crate::table::Place;
use crate::value::ValueType;

pub(in crate::commands) fn zmpop(call: &mut Call<'_, '_, '_>) -> Result {
    let request = ManyPop::parse(call, 1, End::parse)?;
    if !pop_many(call, &request)? {
        call.reply.null_array();
    }
    Ok(())
}

pub(in crate::commands) fn bzmpop(call: &mut Call<'_, '_, '_>) -> Result {
    let request = ManyPop::parse(call, 2, End::parse)?;
    let deadline_ms = timeout_deadline_ms(call, 1)?;
    if pop_many(call, &request)? {
        return Ok(());
    }
    popping::wait(call, request.keys, deadline_ms, ValueType::SortedSet)
}

/// Pops from the first sorted set that exists. Returns whether there was one.
fn pop_many(call: &mut Call<'_, '_, '_>, request: &ManyPop<End>) -> Result<bool> {
    let end = request.end;
    let take_some = |call: &mut Call<'_, '_, '_>, key: Key<'_>, place| {
        let length = sorted_set::len(call.view.entry(key, place));
        let count = request.count.min(length);
        call.reply.array(count);
        take(call, key, place, end, count, true);
        count
    };
    request.run(call, find, take_some, end.pop_name())
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum End {
    Lowest,
    Highest,
}

impl End {
    fn parse(word: &[u8]) -> Result<Self> {
        match word {
            word if is(word, "min") => Ok(End::Lowest),
            word if is(word, "max") => Ok(End::Highest),
            _ => Err(CommandError::Syntax),
        }
    }

    /// Returns the name of the command that pops from this end.
    fn pop_name(self) -> &'static [u8] {
        match self {
            End::Lowest => b"ZPOPMIN",
            End::Highest => b"ZPOPMAX",
        }
    }
}

pub(in crate::commands) fn pop_some(call: &mut Call<'_, '_, '_>, end: End) -> Result {
    let wanted = match call.arguments.len() {
        2 => None,
        3 => Some(positive(call.argument(2))?),
        _ => return Err(CommandError::Syntax),
    };
    let key = call.key(1);
    let count = wanted.unwrap_or(1).min(usize::MAX as u64) as usize;
    let Some(place) = find(call, key)?.filter(|_| count > 0) else {
        call.reply.array(0);
        return Ok(());
    };
    let pairs = wanted.is_some() && call.reply.protocol() == Protocol::Resp3;
    let count = count.min(sorted_set::len(call.view.entry(key, place)));
    call.reply.array(if pairs { count } else { 2 * count });
    take(call, key, place, end, count, pairs);
    Ok(())
}

pub(in crate::commands) fn pop_or_wait(call: &mut Call<'_, '_, '_>, end: End) -> Result {
    let take = |call: &mut Call<'_, '_, '_>, key: Key<'_>, place| {
        call.reply.array(3);
        call.reply.bulk(key.bytes);
        take(call, key, place, end, 1, false);
    };
    popping::pop_or_wait(call, ValueType::SortedSet, find, take, end.pop_name())
}

/// Removes `count` members and replies them; `count` is at most the length.
fn take(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    place: Place,
    end: End,
    count: usize,
    pairs: bool,
) {
    let entry = call.view.entry_mut(key, place);
    let scored = Scored::of(entry).expect("the type was checked");
    let ranks = match end {
        End::Lowest => 0..count,
        End::Highest => scored.len() - count..scored.len(),
    };
    let mut members = scored.range(ranks.clone());
    let mut next = || match end {
        End::Lowest => members.next(),
        End::Highest => members.next_back(),
    };
    while let Some((member, score)) = next() {
        if pairs {
            call.reply.array(2);
        }
        call.reply.bulk(member.as_bytes());
        call.reply.double(score);
    }
    sorted_set::remove_ranks(entry, ranks);
    let event = match end {
        End::Lowest => Event::SortedSetPopMin,
        End::Highest => Event::SortedSetPopMax,
    };
    call.after_removal(key, place, event, sorted_set::len);
}
