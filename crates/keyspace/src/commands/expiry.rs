//! Commands on deadlines.

use super::Call;
use super::options::{AT_MILLISECONDS, AT_SECONDS, MILLISECONDS, SECONDS, TimeForm, is};
use crate::error::CommandError;
use crate::observer::Event;

type Result = std::result::Result<(), CommandError>;

pub(super) fn expire(call: &mut Call<'_, '_, '_>) -> Result {
    set_deadline(call, SECONDS)
}

pub(super) fn pexpire(call: &mut Call<'_, '_, '_>) -> Result {
    set_deadline(call, MILLISECONDS)
}

pub(super) fn expireat(call: &mut Call<'_, '_, '_>) -> Result {
    set_deadline(call, AT_SECONDS)
}

pub(super) fn pexpireat(call: &mut Call<'_, '_, '_>) -> Result {
    set_deadline(call, AT_MILLISECONDS)
}

pub(super) fn ttl(call: &mut Call<'_, '_, '_>) -> Result {
    reply_deadline(call, SECONDS)
}

pub(super) fn pttl(call: &mut Call<'_, '_, '_>) -> Result {
    reply_deadline(call, MILLISECONDS)
}

pub(super) fn expiretime(call: &mut Call<'_, '_, '_>) -> Result {
    reply_deadline(call, AT_SECONDS)
}

pub(super) fn pexpiretime(call: &mut Call<'_, '_, '_>) -> Result {
    reply_deadline(call, AT_MILLISECONDS)
}

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

fn set_deadline(call: &mut Call<'_, '_, '_>, form: TimeForm) -> Result {
    let conditions = Conditions::parse(call)?;
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
        call.tell_expired(key);
    } else if allowed {
        call.view.set_deadline(key, place, Some(deadline_ms));
        call.view.changed(key, place, Event::Expire);
        if call.is_told() && form != AT_MILLISECONDS {
            // The conditions with it: they hold there as they held here.
            let mut digits = itoa::Buffer::new();
            let deadline = digits.format(deadline_ms).as_bytes();
            let words = call.arguments.iter().enumerate();
            let words = words.map(|(at, word)| match at {
                0 => b"PEXPIREAT",
                2 => deadline,
                _ => word,
            });
            call.tell(words);
        }
    }
    call.reply.integer(i64::from(allowed));
    Ok(())
}

#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    fn parse(call: &Call<'_, '_, '_>) -> std::result::Result<Self, CommandError> {
        let mut conditions = Conditions::default();
        for at in call.rest(3) {
            match call.argument(at) {
                option if is(option, "nx") => conditions.if_none = true,
                option if is(option, "xx") => conditions.if_any = true,
                option if is(option, "gt") => conditions.if_later = true,
                option if is(option, "lt") => conditions.if_earlier = true,
                option => return Err(CommandError::unsupported_option(option)),
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

    /// A key without deadline counts as one that never ends.
    fn allow(&self, old_ms: Option<i64>, new_ms: i64) -> bool {
        let refused = self.if_none && old_ms.is_some()
            || self.if_any && old_ms.is_none()
            || self.if_later && old_ms.is_none_or(|old_ms| new_ms <= old_ms)
            || self.if_earlier && old_ms.is_some_and(|old_ms| new_ms >= old_ms);
        !refused
    }
}

fn reply_deadline(call: &mut Call<'_, '_, '_>, form: TimeForm) -> Result {
    call.view.touches = false;
    let key = call.key(1);
    let now_ms = call.view.now_ms;
    let reply = match call.view.deadline_of(key) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline_ms)) => {
            let from_ms = if form.relative { now_ms } else { 0 };
            // Rounded to the nearest.
            let rest_ms = (deadline_ms - from_ms).max(0);
            rest_ms / form.unit_ms + i64::from(rest_ms % form.unit_ms * 2 >= form.unit_ms)
        }
    };
    call.reply.integer(reply);
    Ok(())
}
