//! Commands on TTLs.

use std::ops::Range;

use super::Call;
use super::options::{AT_MILLISECONDS, TimeForm, is};
use crate::error::{CommandError, Result};
use crate::observer::Event;

pub(super) fn persist(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let mut done = false;
    if let Some(place) = call.view.find(key)
        && call.view.entry(key, place).deadline_ms().is_some()
    {
        call.view.set_deadline(key, place, None);
        call.view.changed(key, place, Event::Persist);
        done = true;
    }
    call.reply.integer(i64::from(done));
    Ok(())
}

pub(super) fn set_deadline(call: &mut Call<'_, '_, '_>, form: TimeForm) -> Result {
    let conditions = Conditions::parse(call, call.rest(3))?;
    let amount = call.integer(2)?;
    let now_ms = call.view.now_ms;
    let deadline_ms = form.deadline_ms(amount, call.view.clock_ms, call.command.name)?;
    let key = call.key(1);
    let Some(place) = call.view.find(key) else {
        call.reply.integer(0);
        return Ok(());
    };
    let old_ms = call.view.entry(key, place).deadline_ms();
    let allowed = conditions.allow(old_ms, deadline_ms);
    if allowed && deadline_ms <= now_ms && !call.view.keyspace.is_loading() {
        call.view.remove(key, place, Event::Delete);
        call.propagate_expired(key);
    } else if allowed {
        call.view.set_deadline(key, place, Some(deadline_ms));
        call.view.changed(key, place, Event::Expire);
        if call.is_propagated() && form != AT_MILLISECONDS {
            // The conditions stay out: they were checked here.
            let mut digits = itoa::Buffer::new();
            let deadline = digits.format(deadline_ms).as_bytes();
            let words = call.arguments.iter().enumerate();
            let words = words.map(|(at, word)| match at {
                0 => b"PEXPIREAT",
                2 => deadline,
                _ => word,
            });
            call.propagate(words);
        }
    }
    call.reply.integer(i64::from(allowed));
    Ok(())
}

/// Conditions on the current TTL of a key or a field, under which it may get a new TTL.
#[derive(Default)]
pub(super) struct Conditions {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    /// Parses the options at these positions.
    pub(super) fn parse(call: &Call<'_, '_, '_>, positions: Range<usize>) -> Result<Self> {
        let mut conditions = Conditions::default();
        for at in positions {
            if !conditions.take(call.argument(at)) {
                return Err(CommandError::unsupported_option(call.argument(at)));
            }
        }
        let others = conditions.if_any || conditions.if_later || conditions.if_earlier;
        if conditions.if_none && others {
            return Err(CommandError::NxWithOthers);
        }
        if conditions.if_later && conditions.if_earlier {
            return Err(CommandError::GtWithLt);
        }
        Ok(conditions)
    }

    /// Parses an option; returns whether it is a condition.
    pub(super) fn take(&mut self, option: &[u8]) -> bool {
        match option {
            option if is(option, "nx") => self.if_none = true,
            option if is(option, "xx") => self.if_any = true,
            option if is(option, "gt") => self.if_later = true,
            option if is(option, "lt") => self.if_earlier = true,
            _ => return false,
        }
        true
    }

    /// Returns how many different conditions there are.
    pub(super) fn count(&self) -> usize {
        let all = [self.if_none, self.if_any, self.if_later, self.if_earlier];
        all.into_iter().filter(|&is_set| is_set).count()
    }

    /// Returns whether the conditions allow the new deadline. A missing TTL counts as infinite.
    pub(super) fn allow(&self, old_ms: Option<i64>, new_ms: i64) -> bool {
        let refused = self.if_none && old_ms.is_some()
            || self.if_any && old_ms.is_none()
            || self.if_later && old_ms.is_none_or(|old_ms| new_ms <= old_ms)
            || self.if_earlier && old_ms.is_some_and(|old_ms| new_ms >= old_ms);
        !refused
    }
}

pub(super) fn reply_deadline(call: &mut Call<'_, '_, '_>, form: TimeForm) -> Result {
    call.view.touches = false;
    let key = call.key(1);
    let now_ms = call.view.now_ms;
    let reply = match call.view.deadline_of(key) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline_ms)) => {
            let from_ms = if form.relative { now_ms } else { 0 };
            // Rounded to the nearest unit.
            let rest_ms = (deadline_ms - from_ms).max(0);
            rest_ms / form.unit_ms + i64::from(rest_ms % form.unit_ms * 2 >= form.unit_ms)
        }
    };
    call.reply.integer(reply);
    Ok(())
}
