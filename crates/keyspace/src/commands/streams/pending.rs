//! Delivered entries that are not acknowledged: XACK, XPENDING.

use super::{
    Result, find, no_key_or_group, parse_end, parse_ids, parse_start, reply_id, stream_at,
};
use crate::commands::Call;
use crate::commands::options::is;
use crate::error::CommandError;
use crate::stream::{ConsumerGroup, StreamId};

pub(in crate::commands) fn xack(call: &mut Call<'_, '_, '_>) -> Result {
    let (key, group) = (call.key(1), call.argument(2));
    let place = find(call, key)?;
    call.view.count_read(key, place.is_some());
    let there = match place {
        Some(place) => stream_at(call, key, place).groups.contains_key(group),
        None => false,
    };
    let mut acknowledged = 0;
    if let Some(place) = place.filter(|_| there) {
        let ids = parse_ids(call.arguments.tail(3).iter())?;
        if let Some(group) = stream_at(call, key, place).groups.get_mut(group) {
            for id in ids {
                acknowledged += i64::from(group.acknowledge(id));
            }
        }
        if acknowledged > 0 {
            call.view.changed_aside(key, None);
        }
    }
    call.reply.integer(acknowledged);
    Ok(())
}

pub(in crate::commands) fn xpending(call: &mut Call<'_, '_, '_>) -> Result {
    let filter = Filter::parse(call)?;
    let (key, group_name) = (call.key(1), call.argument(2));
    let now_ms = call.view.clock_ms;
    let stream = call.view.read_stream(key)?;
    let group = stream.and_then(|stream| stream.groups.get(group_name));
    let Some(group) = group else {
        return Err(no_key_or_group(key.bytes, group_name));
    };
    let Some(filter) = filter else {
        reply_summary(call.reply, group);
        return Ok(());
    };
    let mark = call.reply.array_later();
    let mut count = 0;
    let mut show = |pending: &crate::stream::PendingEntry| {
        let idle_ms = now_ms.saturating_sub(pending.delivered_ms);
        if count == filter.count || idle_ms < filter.idle_ms {
            return count < filter.count;
        }
        count += 1;
        call.reply.array(4);
        reply_id(call.reply, pending.id);
        call.reply.bulk(group.consumer(pending.consumer).name());
        call.reply.integer(idle_ms.max(0));
        call.reply.integer(pending.deliveries as i64);
        true
    };
    let (start, end) = (filter.start, filter.end);
    match filter.consumer {
        Some(name) => {
            if let Some(slot) = group.find_consumer(name) {
                let _ = group.pending_of(slot, start, end).all(&mut show);
            }
        }
        None => {
            let _ = group.pending(start, end).all(&mut show);
        }
    }
    call.reply.finish(mark, count);
    Ok(())
}

/// Replies the summary: how many entries are pending, their first and last id, and the number per
/// consumer.
fn reply_summary(reply: &mut tidewire_resp::Writer<'_>, group: &ConsumerGroup) {
    reply.array(4);
    reply.integer(group.pending_len() as i64);
    let Some((first, last)) = group.pending_bounds() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    reply_id(reply, first);
    reply_id(reply, last);
    let mark = reply.array_later();
    let mut count = 0;
    for (_, consumer) in group.consumers() {
        if consumer.pending_len() > 0 {
            count += 1;
            reply.array(2);
            reply.bulk(consumer.name());
            reply.bulk_integer(consumer.pending_len() as i64);
        }
    }
    reply.finish(mark, count);
}

/// The entries that XPENDING lists.
struct Filter<'a> {
    idle_ms: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    /// Parses the arguments; `None` if only the summary is wanted.
    fn parse(call: &Call<'a, '_, '_>) -> Result<Option<Self>> {
        let arguments = call.arguments.len();
        match arguments {
            3 => return Ok(None),
            6..=9 => {}
            _ => return Err(CommandError::Syntax),
        }
        let (mut at, mut idle_ms) = (3, i64::MIN);
        if is(call.argument(3), "idle") {
            // 0 is no filter: a delivery time may be in the future.
            idle_ms = match call.integer(4)? {
                0 => i64::MIN,
                idle_ms => idle_ms,
            };
            if arguments < 8 {
                return Err(CommandError::Syntax);
            }
            at = 5;
        }
        let count = usize::try_from(call.integer(at + 2)?).unwrap_or(0);
        Ok(Some(Filter {
            idle_ms,
            start: parse_start(call.argument(at))?,
            end: parse_end(call.argument(at + 1))?,
            count,
            consumer: call.arguments.get(at + 3),
        }))
    }
}
