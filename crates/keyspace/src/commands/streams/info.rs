//! XINFO.

use tidewire_resp::Writer;

use super::{Result, no_group, reply_entry, reply_id, wrong_subcommand};
use crate::commands::Call;
use crate::commands::introspection::reply_help;
use crate::commands::options::is;
use crate::error::CommandError;
use crate::stream::{Consumer, ConsumerGroup, ConsumerSlot, Entry, EntryLog, Producers, StreamId};

pub(in crate::commands) fn xinfo_stream(call: &mut Call<'_, '_, '_>) -> Result {
    let (key, now_ms) = (call.key(2), call.view.clock_ms);
    // Redis looks up the key before it parses the options.
    call.view.read_stream(key)?.ok_or(CommandError::NoSuchKey)?;
    call.view.counts_reads = false;
    let most = parse_full(call)?;
    let stream = call.view.read_stream(key)?.ok_or(CommandError::NoSuchKey)?;
    let (log, groups) = (&stream.log, &stream.groups);
    let reply = &mut *call.reply;
    reply.map(if most.is_some() { 15 } else { 16 });
    reply_log(reply, log);
    reply_producers(reply, &stream.producers, now_ms);
    let Some(most) = most else {
        reply.bulk(b"groups");
        reply.integer(groups.len() as i64);
        reply.bulk(b"first-entry");
        let first = log.range(StreamId::MIN, StreamId::MAX).next();
        reply_optional_entry(reply, first);
        reply.bulk(b"last-entry");
        let last = log.newest_id().and_then(|id| log.get(id));
        reply_optional_entry(reply, last);
        return Ok(());
    };
    reply.bulk(b"entries");
    reply.array(log.len().min(most));
    for entry in log.range(StreamId::MIN, StreamId::MAX).take(most) {
        reply_entry(reply, &entry);
    }
    reply.bulk(b"groups");
    reply.array(groups.len());
    for (name, group) in groups {
        reply_group(reply, log, name, group, most);
    }
    Ok(())
}

pub(in crate::commands) fn xinfo_groups(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(2);
    let stream = call.view.read_stream(key)?.ok_or(CommandError::NoSuchKey)?;
    let reply = &mut *call.reply;
    reply.array(stream.groups.len());
    for (name, group) in &stream.groups {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"consumers");
        reply.integer(group.consumers().len() as i64);
        reply.bulk(b"pending");
        reply.integer(group.pending_len() as i64);
        reply_progress(reply, &stream.log, group);
    }
    Ok(())
}

pub(in crate::commands) fn xinfo_consumers(call: &mut Call<'_, '_, '_>) -> Result {
    let (key, name) = (call.key(2), call.argument(3));
    let now_ms = call.view.clock_ms;
    let stream = call.view.read_stream(key)?.ok_or(CommandError::NoSuchKey)?;
    let group = stream.groups.get(name);
    let group = group.ok_or_else(|| no_group(name, key.bytes))?;
    let reply = &mut *call.reply;
    reply.array(group.consumers().len());
    for (_, consumer) in group.consumers() {
        let inactive_ms = consumer.active_ms.map(|at| now_ms.saturating_sub(at));
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(consumer.name());
        reply.bulk(b"pending");
        reply.integer(consumer.pending_len() as i64);
        reply.bulk(b"idle");
        reply.integer(now_ms.saturating_sub(consumer.seen_ms).max(0));
        reply.bulk(b"inactive");
        reply.integer(inactive_ms.unwrap_or(NEVER));
    }
    Ok(())
}

pub(in crate::commands) fn xinfo_help(call: &mut Call<'_, '_, '_>) -> Result {
    reply_help(
        call,
        &[
            "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CONSUMERS <key> <groupname>",
            "    Show consumers of <groupname>.",
            "GROUPS <key>",
            "    Show the stream consumer groups.",
            "STREAM <key> [FULL [COUNT <count>]",
            "    Show information about the stream.",
        ],
    );
    Ok(())
}

/// Parses FULL and its COUNT: the maximum number of entries, groups and consumers to show. Returns
/// `None` if FULL is not given.
fn parse_full(call: &Call<'_, '_, '_>) -> Result<Option<usize>> {
    let options = call.arguments.tail(3);
    let is_full = options.get(0).is_none_or(|option| is(option, "full"));
    let is_count = options.get(1).is_none_or(|option| is(option, "count"));
    match options.len() {
        0 => Ok(None),
        1 if is_full => Ok(Some(FULL_COUNT)),
        3 if is_full && is_count => Ok(Some(match usize::try_from(call.integer(5)?) {
            Ok(0) => usize::MAX,
            Ok(count) => count,
            Err(_) => FULL_COUNT,
        })),
        _ => Err(wrong_subcommand(call)),
    }
}

/// Replies the seven pairs that all forms of XINFO STREAM begin with.
fn reply_log(reply: &mut Writer<'_>, log: &EntryLog) {
    let state = log.state();
    reply.bulk(b"length");
    reply.integer(log.len() as i64);
    reply.bulk(b"radix-tree-keys");
    reply.integer(log.blocks() as i64);
    // There is no radix tree here. Redis's has a root, and at least one node per key.
    reply.bulk(b"radix-tree-nodes");
    reply.integer(log.blocks() as i64 + 1);
    reply.bulk(b"last-generated-id");
    reply_id(reply, state.last_id);
    reply.bulk(b"max-deleted-entry-id");
    reply_id(reply, state.max_deleted_id);
    reply.bulk(b"entries-added");
    reply.integer(state.added as i64);
    reply.bulk(b"recorded-first-entry-id");
    reply_id(reply, log.first_id());
}

/// Replies the six pairs about the producers of a stream.
fn reply_producers(reply: &mut Writer<'_>, producers: &Producers, now_ms: i64) {
    let ((count, entries), totals) = (producers.count(now_ms), producers.totals());
    reply.bulk(b"idmp-duration");
    reply.integer(producers.limits.duration_s.into());
    reply.bulk(b"idmp-maxsize");
    reply.integer(producers.limits.entries_max.into());
    reply.bulk(b"pids-tracked");
    reply.integer(count as i64);
    reply.bulk(b"iids-tracked");
    reply.integer(entries as i64);
    reply.bulk(b"iids-added");
    reply.integer(totals.added as i64);
    reply.bulk(b"iids-duplicates");
    reply.integer(totals.duplicates as i64);
}

/// Replies the three pairs about a group's progress.
fn reply_progress(reply: &mut Writer<'_>, log: &EntryLog, group: &ConsumerGroup) {
    reply.bulk(b"last-delivered-id");
    reply_id(reply, group.last_id);
    reply.bulk(b"entries-read");
    reply_optional(reply, group.entries_read.map(|read| read as i64));
    reply.bulk(b"lag");
    reply_optional(reply, group.lag(log));
}

fn reply_group(
    reply: &mut Writer<'_>,
    log: &EntryLog,
    name: &[u8],
    group: &ConsumerGroup,
    most: usize,
) {
    reply.map(7);
    reply.bulk(b"name");
    reply.bulk(name);
    reply_progress(reply, log, group);
    reply.bulk(b"pel-count");
    reply.integer(group.pending_len() as i64);
    reply.bulk(b"pending");
    reply.array(group.pending_len().min(most));
    for pending in group.pending(StreamId::MIN, StreamId::MAX).take(most) {
        reply.array(4);
        reply_id(reply, pending.id);
        reply.bulk(group.consumer(pending.consumer).name());
        reply.integer(pending.delivered_ms);
        reply.integer(pending.deliveries as i64);
    }
    reply.bulk(b"consumers");
    reply.array(group.consumers().len());
    for (slot, consumer) in group.consumers() {
        reply_consumer(reply, group, slot, consumer, most);
    }
}

fn reply_consumer(
    reply: &mut Writer<'_>,
    group: &ConsumerGroup,
    slot: ConsumerSlot,
    consumer: &Consumer,
    most: usize,
) {
    reply.map(5);
    reply.bulk(b"name");
    reply.bulk(consumer.name());
    reply.bulk(b"seen-time");
    reply.integer(consumer.seen_ms);
    reply.bulk(b"active-time");
    reply.integer(consumer.active_ms.unwrap_or(NEVER));
    reply.bulk(b"pel-count");
    reply.integer(consumer.pending_len() as i64);
    reply.bulk(b"pending");
    reply.array(consumer.pending_len().min(most));
    let pending = group.pending_of(slot, StreamId::MIN, StreamId::MAX);
    for pending in pending.take(most) {
        reply.array(3);
        reply_id(reply, pending.id);
        reply.integer(pending.delivered_ms);
        reply.integer(pending.deliveries as i64);
    }
}

fn reply_optional(reply: &mut Writer<'_>, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

fn reply_optional_entry(reply: &mut Writer<'_>, entry: Option<Entry<'_>>) {
    match entry {
        Some(entry) => reply_entry(reply, &entry),
        None => reply.null(),
    }
}

/// The default COUNT of FULL.
const FULL_COUNT: usize = 10;
/// Reply for the time of an event that never happened.
const NEVER: i64 = -1;
