//! Parts shared by the commands that pop from lists and from sorted sets.

use std::ops::Range;

use super::Call;
use super::options::{above_zero, is, timeout_deadline_ms};
use crate::error::{CommandError, Result};
use crate::key::Key;
use crate::table::Place;
use crate::value::ValueType;
use crate::waiting::Wait;

/// A function that finds the collection of a key, or fails if the key has another type.
type FindPlace = fn(&mut Call<'_, '_, '_>, Key<'_>) -> Result<Option<Place>>;

/// Arguments of LMPOP, ZMPOP and their blocking forms.
pub(super) struct ManyPop<E> {
    /// Positions of the keys.
    pub(super) keys: Range<usize>,
    pub(super) end: E,
    pub(super) count: usize,
}

impl<E> ManyPop<E> {
    /// Parses the arguments from the number of keys on, which is at `at`.
    pub(super) fn parse(
        call: &Call<'_, '_, '_>,
        at: usize,
        end: impl FnOnce(&[u8]) -> Result<E>,
    ) -> Result<Self> {
        let keys = above_zero(call.argument(at)).ok_or(CommandError::KeyCountNotPositive)?;
        if keys > call.arguments.len() - at - 2 {
            return Err(CommandError::Syntax);
        }
        let keys = at + 1..at + 1 + keys;
        let end = end(call.argument(keys.end))?;
        let options = call.arguments.len() - keys.end - 1;
        let count = match options {
            0 => 1,
            2.. if is(call.argument(keys.end + 1), "count") => {
                let count = above_zero(call.argument(keys.end + 2));
                count.ok_or(CommandError::CountNotPositive)?
            }
            _ => return Err(CommandError::Syntax),
        };
        if options > 2 {
            return Err(CommandError::Syntax);
        }
        Ok(ManyPop { keys, end, count })
    }

    /// Pops from the first key that exists; returns whether there is one. `take` replies the
    /// elements and returns how many it took. `name` is the command that pops from this end.
    pub(super) fn run(
        &self,
        call: &mut Call<'_, '_, '_>,
        find: FindPlace,
        take: impl FnOnce(&mut Call<'_, '_, '_>, Key<'_>, Place) -> usize,
        name: &[u8],
    ) -> Result<bool> {
        for at in self.keys.clone() {
            let key = call.key(at);
            if let Some(place) = find(call, key)? {
                call.reply.array(2);
                call.reply.bulk(key.bytes);
                let count = take(call, key, place);
                call.propagate([
                    name,
                    key.bytes,
                    itoa::Buffer::new().format(count).as_bytes(),
                ]);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Runs BLPOP and similar commands: pops from the first key that exists, or waits for one. `take`
/// replies the key and its element.
pub(super) fn pop_or_wait(
    call: &mut Call<'_, '_, '_>,
    value_type: ValueType,
    find: FindPlace,
    take: impl FnOnce(&mut Call<'_, '_, '_>, Key<'_>, Place),
    name: &[u8],
) -> Result {
    let last = call.arguments.len() - 1;
    let deadline_ms = timeout_deadline_ms(call, last)?;
    for at in 1..last {
        let key = call.key(at);
        if let Some(place) = find(call, key)? {
            take(call, key, place);
            call.propagate([name, key.bytes]);
            return Ok(());
        }
    }
    wait(call, 1..last, deadline_ms, value_type)
}

/// Waits until one of the keys holds a value of a type. Replies null if the client cannot wait.
pub(super) fn wait(
    call: &mut Call<'_, '_, '_>,
    keys: Range<usize>,
    deadline_ms: Option<i64>,
    value_type: ValueType,
) -> Result {
    if !call.may_wait() {
        call.reply.null_array();
        return Ok(());
    }
    call.wait(Wait {
        keys: keys.collect(),
        deadline_ms,
        retry_ms: None,
        value_type,
        wakes_on_loss: false,
        arguments: None,
    })
}
