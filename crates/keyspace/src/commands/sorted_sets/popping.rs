//! Commands that take the lowest or the highest members out, and those that wait for them.

use tidewire_resp::Protocol;
use tidewire_resp::number::parse_integer;

use super::super::Call;
use super::super::options::{is, positive, timeout_deadline_ms};
use super::{Result, after_removal, find};
use crate::error::CommandError;
use crate::key::Key;
use crate::observer::Event;
use crate::sorted_set::{self, Scored};
use crate::table::Place;
use crate::value::ValueType;

use crate::waiting::Wait;

pub(in crate::commands) fn zpopmin(call: &mut Call<'_, '_, '_>) -> Result {
    pop_some(call, End::Lowest)
}

pub(in crate::commands) fn zpopmax(call: &mut Call<'_, '_, '_>) -> Result {
    pop_some(call, End::Highest)
}

pub(in crate::commands) fn bzpopmin(call: &mut Call<'_, '_, '_>) -> Result {
    wait_for_one(call, End::Lowest)
}

pub(in crate::commands) fn bzpopmax(call: &mut Call<'_, '_, '_>) -> Result {
    wait_for_one(call, End::Highest)
}

pub(in crate::commands) fn zmpop(call: &mut Call<'_, '_, '_>) -> Result {
    let request = Request::parse(call, 1)?;
    if !request.pop(call)? {
        call.reply.null_array();
    }
    Ok(())
}

pub(in crate::commands) fn bzmpop(call: &mut Call<'_, '_, '_>) -> Result {
    let request = Request::parse(call, 2)?;
    let deadline_ms = timeout_deadline_ms(call, 1)?;
    if request.pop(call)? {
        return Ok(());
    }
    let keys = 3..3 + request.keys;
    wait(call, keys.collect(), deadline_ms)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Lowest,
    Highest,
}

impl End {
    /// The command that takes members out of this end.
    fn pop_name(self) -> &'static [u8] {
        match self {
            End::Lowest => b"ZPOPMIN",
            End::Highest => b"ZPOPMAX",
        }
    }
}

fn pop_some(call: &mut Call<'_, '_, '_>, end: End) -> Result {
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

fn wait_for_one(call: &mut Call<'_, '_, '_>, end: End) -> Result {
    let timeout_at = call.arguments.len() - 1;
    let deadline_ms = timeout_deadline_ms(call, timeout_at)?;
    for at in 1..timeout_at {
        let key = call.key(at);
        if let Some(place) = find(call, key)? {
            call.reply.array(3);
            call.reply.bulk(key.bytes);
            take(call, key, place, end, 1, false);
            call.tell([end.pop_name(), key.bytes]);
            return Ok(());
        }
    }
    wait(call, (1..timeout_at).collect(), deadline_ms)
}

fn wait(call: &mut Call<'_, '_, '_>, keys: Vec<usize>, deadline_ms: Option<i64>) -> Result {
    if !call.may_wait() {
        call.reply.null_array();
        return Ok(());
    }
    call.wait(Wait {
        keys,
        deadline_ms,
        value_type: ValueType::SortedSet,
        wakes_on_loss: false,
        arguments: None,
    })
}

/// What ZMPOP and BZMPOP ask for.
struct Request {
    first_key: usize,
    keys: usize,
    end: End,
    count: usize,
}

impl Request {
    /// Reads the arguments from the number of keys on.
    fn parse(call: &Call<'_, '_, '_>, from: usize) -> Result<Self> {
        let positive = |at: usize| {
            parse_integer(call.argument(at))
                .and_then(|count| usize::try_from(count).ok())
                .filter(|&count| count > 0)
        };
        let keys = positive(from).ok_or(CommandError::KeyCountNotPositive)?;
        if keys >= call.arguments.len() - from - 1 {
            return Err(CommandError::Syntax);
        }
        let end_at = from + 1 + keys;
        let end = match call.argument(end_at) {
            word if is(word, "min") => End::Lowest,
            word if is(word, "max") => End::Highest,
            _ => return Err(CommandError::Syntax),
        };
        let mut count = None;
        let mut at = end_at + 1;
        while at < call.arguments.len() {
            let more = at + 1 < call.arguments.len();
            if count.is_some() || !is(call.argument(at), "count") || !more {
                return Err(CommandError::Syntax);
            }
            count = Some(positive(at + 1).ok_or(CommandError::CountNotPositive)?);
            at += 2;
        }
        Ok(Request {
            first_key: from + 1,
            keys,
            end,
            count: count.unwrap_or(1),
        })
    }

    /// Takes members out of the first set that exists; false if none does.
    fn pop(&self, call: &mut Call<'_, '_, '_>) -> Result<bool> {
        for at in self.first_key..self.first_key + self.keys {
            let key = call.key(at);
            if let Some(place) = find(call, key)? {
                let length = sorted_set::len(call.view.entry(key, place));
                let count = self.count.min(length);
                call.reply.array(2);
                call.reply.bulk(key.bytes);
                call.reply.array(count);
                take(call, key, place, self.end, count, true);
                let mut digits = itoa::Buffer::new();
                let count = digits.format(count).as_bytes();
                call.tell([self.end.pop_name(), key.bytes, count]);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Takes members out and replies them; `count` is not beyond the length.
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
    after_removal(call, key, place, event);
}
