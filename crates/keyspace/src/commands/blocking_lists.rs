//! Commands that take elements out of lists and wait until there are some.

use super::Call;
use super::lists::{ManyPop, end, find, move_element, pop_name, take_one};
use super::options::timeout_deadline_ms;
use crate::error::CommandError;
use crate::value::ValueType;
use crate::waiting::Wait;

type Result = std::result::Result<(), CommandError>;

pub(super) fn blpop(call: &mut Call<'_, '_, '_>) -> Result {
    pop(call, true)
}

pub(super) fn brpop(call: &mut Call<'_, '_, '_>) -> Result {
    pop(call, false)
}

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
    let request = ManyPop::parse(call, 2)?;
    let deadline_ms = timeout_deadline_ms(call, 1)?;
    if request.run(call)? {
        return Ok(());
    }
    if call.may_wait() {
        return wait(call, request.keys.collect(), deadline_ms);
    }
    call.reply.null_array();
    Ok(())
}

fn pop(call: &mut Call<'_, '_, '_>, front: bool) -> Result {
    let last = call.arguments.len() - 1;
    let deadline_ms = timeout_deadline_ms(call, last)?;
    for at in 1..last {
        let key = call.key(at);
        if let Some(place) = find(call, key)? {
            call.reply.array(2);
            call.reply.bulk(key.bytes);
            take_one(call, key, place, front);
            call.tell([pop_name(front), key.bytes]);
            return Ok(());
        }
    }
    if call.may_wait() {
        return wait(call, (1..last).collect(), deadline_ms);
    }
    call.reply.null_array();
    Ok(())
}

fn wait_or_move(
    call: &mut Call<'_, '_, '_>,
    from_front: bool,
    to_front: bool,
    deadline_ms: Option<i64>,
) -> Result {
    let from = call.key(1);
    if find(call, from)?.is_none() && call.may_wait() {
        return wait(call, vec![1], deadline_ms);
    }
    move_element(call, from_front, to_front)
}

fn wait(call: &mut Call<'_, '_, '_>, keys: Vec<usize>, deadline_ms: Option<i64>) -> Result {
    call.wait(Wait {
        keys,
        deadline_ms,
        value_type: ValueType::List,
        wakes_on_loss: false,
        arguments: None,
    })
}
