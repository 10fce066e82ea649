//! Commands that pop elements from lists and block while there are none.

use super::Call;
use super::lists::{end, find, move_element, pop_many, pop_name, take_one};
use super::options::timeout_deadline_ms;
use super::popping::{ManyPop, pop_or_wait, wait};
use crate::error::Result;
use crate::key::Key;
use crate::value::ValueType;

pub(super) fn blmove(call: &mut Call<'_, '_, '_>) -> Result {
    let (from_front, to_front) = (end(call.argument(3))?, end(call.argument(4))?);
    let deadline_ms = timeout_deadline_ms(call, 5)?;
    wait_or_move(call, from_front, to_front, deadline_ms)
}

pub(super) fn brpoplpush(call: &mut Call<'_, '_, '_>) -> Result {
    let deadline_ms = timeout_deadline_ms(call, 3)?;
    wait_or_move(call, false, true, deadline_ms)
}

pub(super) fn blmpop(call: &mut Call<'_, '_, '_>) -> Result {
    let request = ManyPop::parse(call, 2, end)?;
    let deadline_ms = timeout_deadline_ms(call, 1)?;
    if pop_many(call, &request)? {
        return Ok(());
    }
    wait(call, request.keys, deadline_ms, ValueType::List)
}

pub(super) fn pop(call: &mut Call<'_, '_, '_>, front: bool) -> Result {
    let take = |call: &mut Call<'_, '_, '_>, key: Key<'_>, place| {
        call.reply.array(2);
        call.reply.bulk(key.bytes);
        take_one(call, key, place, front);
    };
    pop_or_wait(call, ValueType::List, find, take, pop_name(front))
}

fn wait_or_move(
    call: &mut Call<'_, '_, '_>,
    from_front: bool,
    to_front: bool,
    deadline_ms: Option<i64>,
) -> Result {
    let from = call.key(1);
    if find(call, from)?.is_none() && call.may_wait() {
        return wait(call, 1..2, deadline_ms, ValueType::List);
    }
    move_element(call, from_front, to_front)
}
