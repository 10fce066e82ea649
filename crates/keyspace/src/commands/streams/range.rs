//! Reading entries by id: XLEN, XRANGE, XREVRANGE.

use super::{Result, parse_end, parse_start, reply_entry};
use crate::commands::Call;
use crate::commands::options::{Words, integer};
use crate::error::CommandError;

pub(in crate::commands) fn xlen(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let stream = call.view.read_stream(key)?;
    let count = stream.map_or(0, |stream| stream.log.len());
    call.reply.integer(count as i64);
    Ok(())
}

pub(in crate::commands) fn show_range(call: &mut Call<'_, '_, '_>, reversed: bool) -> Result {
    let (start_at, end_at) = if reversed { (3, 2) } else { (2, 3) };
    let start = parse_start(call.argument(start_at))?;
    let end = parse_end(call.argument(end_at))?;
    let wanted = parse_count(call)?;
    let key = call.key(1);
    let Some(stream) = call.view.read_stream(key)? else {
        call.reply.array(0);
        return Ok(());
    };
    if wanted == Some(0) {
        call.reply.null_array();
        return Ok(());
    }
    let most = wanted.unwrap_or(usize::MAX);
    let mark = call.reply.array_later();
    let mut count = 0;
    let mut show = |entry| {
        reply_entry(call.reply, &entry);
        count += 1;
    };
    match reversed {
        true => stream
            .log
            .range_reversed(start, end)
            .take(most)
            .for_each(&mut show),
        false => stream.log.range(start, end).take(most).for_each(&mut show),
    }
    call.reply.finish(mark, count);
    Ok(())
}

/// Parses COUNT; if it is given several times, the last one counts.
fn parse_count(call: &Call<'_, '_, '_>) -> Result<Option<usize>> {
    let mut wanted = None;
    let mut words = Words::new(call.arguments, 4);
    while let Some(option) = words.next() {
        let count = words
            .value_of(option, "count")
            .ok_or(CommandError::Syntax)?;
        wanted = Some(usize::try_from(integer(count)?).unwrap_or(0));
    }
    Ok(wanted)
}
