//! Reading new entries, and waiting for them: XREAD, XREADGROUP.

use std::ops::Range;

use tidewire_resp::number::parse_integer;
use tidewire_resp::{ArgumentList, Arguments, Mark, Protocol, Writer};

use super::propagation::GroupChanges;
use super::{Result, find, parse_id, reply_entry, reply_entry_with, reply_id, shown};
use crate::commands::Call;
use crate::commands::finding;
use crate::commands::options::{is, timeout_ms_deadline_ms};
use crate::error::CommandError;
use crate::observer::Event;
use crate::stream::{ConsumerGroup, ConsumerSlot, EntryLog, PendingEntry, Stream, StreamId};
use crate::value::ValueType;
use crate::waiting::Wait;

pub(in crate::commands) fn xread(call: &mut Call<'_, '_, '_>) -> Result {
    let request = ReadRequest::parse(call, false)?;
    let mut last_ids = Vec::with_capacity(request.keys.len());
    for at in request.keys.clone() {
        last_ids.push(resolve_id(call, at, at + request.keys.len())?);
    }
    let mut reply = StreamsReply::default();
    for (at, last_id) in request.keys.clone().zip(&last_ids) {
        let key = call.key(at);
        let Some(log) = call.view.read_stream(key)?.map(|stream| &stream.log) else {
            continue;
        };
        if let Some(start) = last_id.next()
            && log.newest_id().is_some_and(|newest| newest >= start)
        {
            reply.begin(call.reply, key.bytes);
            let mark = call.reply.array_later();
            let mut count = 0;
            for entry in log.range(start, StreamId::MAX).take(request.count) {
                reply_entry(call.reply, &entry);
                count += 1;
            }
            call.reply.finish(mark, count);
        }
    }
    if reply.finish(call.reply) {
        return Ok(());
    }
    let arguments = with_ids_of_now(call.arguments, request.keys.end, &last_ids);
    request.wait(call, arguments, None)
}

pub(in crate::commands) fn xreadgroup(call: &mut Call<'_, '_, '_>) -> Result {
    let request = ReadRequest::parse(call, true)?;
    let Some((group_name, consumer_name)) = request.group else {
        return Err(MISSING_GROUP);
    };
    let mut reads = Vec::with_capacity(request.keys.len());
    for at in request.keys.clone() {
        let key = call.key(at);
        let stream = call.view.read_stream(key)?;
        if !stream.is_some_and(|stream| stream.groups.contains_key(group_name)) {
            return Err(no_group_to_read(key.bytes, group_name));
        }
        reads.push(GroupRead::parse(call.argument(at + request.keys.len()))?);
    }
    let now_ms = call.view.clock_ms;
    let mut reply = StreamsReply::default();
    let (mut claim_idle_ms, mut oldest_ms) = (request.claim_idle_ms, None);
    call.propagate_no_request();
    for (at, read) in request.keys.clone().zip(reads) {
        let key = call.key(at);
        let Some(place) = find(call, key)? else {
            continue;
        };
        let mut propagated = GroupChanges::new(call, key.bytes, group_name);
        let Call {
            view, reply: to, ..
        } = &mut *call;
        let Some(Stream { log, groups, .. }) = Stream::of_mut(view.entry_mut(key, place)) else {
            continue;
        };
        let Some(group) = groups.get_mut(group_name) else {
            continue;
        };
        let (slot, is_new) = group.add_consumer(consumer_name, now_ms);
        group.consumer_mut(slot).seen_ms = now_ms;
        if is_new && request.acknowledges {
            propagated.consumer(consumer_name);
        }
        if let GroupRead::After(_) = read {
            // Redis ignores CLAIM for the streams that follow, too.
            claim_idle_ms = None;
        }
        let mut delivery = Delivery {
            log,
            group,
            slot,
            now_ms,
            claim_idle_ms,
            propagated: &mut propagated,
        };
        let mut delivered = 0;
        match read {
            GroupRead::New => {
                let claimed = delivery.claimable(request.count, &mut oldest_ms);
                if !claimed.is_empty() || delivery.has_new() {
                    reply.begin(to, key.bytes);
                    delivered = delivery.deliver(to, &claimed, request.count, request.acknowledges);
                }
            }
            GroupRead::After(id) => {
                reply.begin(to, key.bytes);
                delivery.deliver_again(to, id, request.count);
            }
        }
        if is_new {
            view.changed_aside(key, Some(Event::GroupCreateConsumer));
        }
        if delivered > 0 {
            view.changed_aside(key, None);
        }
        propagated.propagate(call);
    }
    if reply.finish(call.reply) {
        return Ok(());
    }
    // Entries that are not acknowledged until then can be claimed.
    let retry_ms = claim_idle_ms.map(|idle_ms| {
        let oldest_ms = oldest_ms.unwrap_or(now_ms);
        oldest_ms.saturating_add(idle_ms).max(now_ms + 1)
    });
    request.wait(call, None, retry_ms)
}

/// The arguments of both commands.
struct ReadRequest<'a> {
    /// Positions of the keys; the ids follow, one per key.
    keys: Range<usize>,
    /// Maximum number of entries per stream.
    count: usize,
    /// `Some` if it waits: the end of the wait, ms since the UNIX epoch, or `None` for no end.
    block: Option<Option<i64>>,
    /// Group and consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    /// NOACK: delivered entries count as acknowledged.
    acknowledges: bool,
    /// CLAIM: entries that were delivered this long ago, or longer, are delivered again.
    claim_idle_ms: Option<i64>,
}

impl<'a> ReadRequest<'a> {
    fn parse(call: &Call<'a, '_, '_>, of_group: bool) -> Result<Self> {
        let mut request = ReadRequest {
            keys: 0..0,
            count: usize::MAX,
            block: None,
            group: None,
            acknowledges: false,
            claim_idle_ms: None,
        };
        let mut at = 1;
        while request.keys.is_empty() {
            let Some(option) = call.arguments.get(at) else {
                return Err(CommandError::Syntax);
            };
            let values = call.arguments.len() - at - 1;
            if values > 0 && is(option, "claim") {
                if !of_group {
                    return Err(CLAIM_OF_XREAD);
                }
                at += 1;
                let idle_ms = parse_integer(call.argument(at)).ok_or(IDLE_NOT_INTEGER)?;
                if idle_ms < 0 {
                    return Err(IDLE_NEGATIVE);
                }
                request.claim_idle_ms = Some(idle_ms);
            } else if values > 0 && is(option, "block") {
                at += 1;
                request.block = Some(timeout_ms_deadline_ms(call, at)?);
            } else if values > 0 && is(option, "count") {
                at += 1;
                let count = usize::try_from(call.integer(at)?).unwrap_or(0);
                request.count = if count == 0 { usize::MAX } else { count };
            } else if values > 0 && is(option, "streams") {
                if values % 2 == 1 {
                    return Err(unbalanced(call.command.full_name, of_group));
                }
                request.keys = finding::streams(call.arguments);
                debug_assert_eq!(
                    request.keys.start,
                    at + 1,
                    "both parsers find the same position"
                );
            } else if values > 1 && is(option, "group") {
                if !of_group {
                    return Err(GROUP_OF_XREAD);
                }
                request.group = Some((call.argument(at + 1), call.argument(at + 2)));
                at += 2;
            } else if is(option, "noack") {
                if !of_group {
                    return Err(NOACK_OF_XREAD);
                }
                request.acknowledges = true;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        Ok(request)
    }

    /// Waits for entries, if the request asks for it and the client can wait. Otherwise replies
    /// that there are none. `arguments` is what runs after the wait, if it differs from the
    /// request; `retry_ms` is when it runs without a change.
    fn wait(
        self,
        call: &mut Call<'_, '_, '_>,
        arguments: Option<ArgumentList>,
        retry_ms: Option<i64>,
    ) -> Result {
        let Some(deadline_ms) = self.block.filter(|_| call.may_wait()) else {
            call.reply.null_array();
            return Ok(());
        };
        call.wait(Wait {
            keys: self.keys.collect(),
            deadline_ms,
            retry_ms,
            value_type: ValueType::Stream,
            wakes_on_loss: self.group.is_some(),
            arguments,
        })
    }
}

/// Returns the request with the current ids in place of `$`, if it has any.
fn with_ids_of_now(
    arguments: Arguments<'_>,
    ids_at: usize,
    last_ids: &[StreamId],
) -> Option<ArgumentList> {
    debug_assert_eq!(
        ids_at + last_ids.len(),
        arguments.len(),
        "an id for each key"
    );
    if arguments.tail(ids_at).iter().all(|id| id != b"$") {
        return None;
    }
    let mut list = ArgumentList::new();
    for (at, argument) in arguments.iter().enumerate() {
        match at.checked_sub(ids_at) {
            Some(stream) if argument == b"$" => list.push(last_ids[stream].text().as_bytes()),
            _ => list.push(argument),
        }
    }
    Some(list)
}

/// Returns the id after which XREAD continues.
fn resolve_id(call: &mut Call<'_, '_, '_>, key_at: usize, id_at: usize) -> Result<StreamId> {
    let key = call.key(key_at);
    let log = call.view.read_stream(key)?.map(|stream| &stream.log);
    match call.arguments.get(id_at).unwrap_or_default() {
        b"$" => Ok(log.map_or(StreamId::MIN, |log| log.state().last_id)),
        b"+" => {
            let newest = log.and_then(EntryLog::newest_id);
            Ok(newest.and_then(StreamId::previous).unwrap_or_default())
        }
        b">" => Err(NEW_OF_XREAD),
        id => parse_id(id, 0),
    }
}

/// The entries that XREADGROUP wants from a stream.
#[derive(Clone, Copy, Debug)]
enum GroupRead {
    /// Entries that the group has not received yet.
    New,
    /// Pending entries of the consumer after an id.
    After(StreamId),
}

impl GroupRead {
    fn parse(id: &[u8]) -> Result<Self> {
        match id {
            b"$" => Err(LAST_OF_GROUP),
            b"+" => Err(NEWEST_OF_GROUP),
            b">" => Ok(GroupRead::New),
            _ => match parse_id(id, 0)? {
                // Redis represents `>` by this id.
                StreamId::MAX => Ok(GroupRead::New),
                id => Ok(GroupRead::After(id)),
            },
        }
    }
}

/// A delivery of entries to a consumer.
struct Delivery<'a, 'b> {
    log: &'a EntryLog,
    group: &'a mut ConsumerGroup,
    slot: ConsumerSlot,
    now_ms: i64,
    claim_idle_ms: Option<i64>,
    propagated: &'a mut GroupChanges<'b>,
}

impl Delivery<'_, '_> {
    fn has_new(&self) -> bool {
        let newest_id = self.log.newest_id();
        newest_id.is_some_and(|newest| newest > self.group.last_id)
    }

    /// Returns the pending entries that CLAIM asks for, at most `most`, the oldest first. Sets
    /// `oldest_ms` to the time of the delivery after which others can be claimed.
    fn claimable(&mut self, most: usize, oldest_ms: &mut Option<i64>) -> Vec<PendingEntry> {
        let Some(idle_ms) = self.claim_idle_ms else {
            return Vec::new();
        };
        let (log, now_ms) = (self.log, self.now_ms);
        // An entry that the stream no longer has stays pending, and is passed over.
        let mut pending = self
            .group
            .oldest_pending()
            .filter(|pending| log.get(pending.id).is_some());
        let mut claimed = Vec::new();
        for entry in &mut pending {
            if now_ms.saturating_sub(entry.delivered_ms).max(0) < idle_ms {
                *oldest_ms = Some(oldest_ms.map_or(entry.delivered_ms, |oldest_ms| {
                    oldest_ms.min(entry.delivered_ms)
                }));
                break;
            }
            claimed.push(*entry);
            if claimed.len() == most {
                break;
            }
        }
        claimed
    }

    /// Delivers a pending entry to this consumer.
    fn claim(&mut self, reply: &mut Writer<'_>, pending: &PendingEntry) {
        let Some(entry) = self.log.get(pending.id) else {
            return;
        };
        reply_entry_with(reply, &entry, 4);
        reply.integer(self.now_ms.saturating_sub(pending.delivered_ms).max(0));
        reply.integer(pending.deliveries as i64);
        let pending = PendingEntry {
            delivered_ms: self.now_ms,
            deliveries: pending.deliveries.saturating_add(1),
            consumer: self.slot,
            ..*pending
        };
        self.group.set_pending(pending);
        self.group.consumer_mut(self.slot).active_ms = Some(self.now_ms);
        self.propagated.pending(self.group, &pending);
    }

    /// Replies pending entries that are claimed, and entries that the group has not received yet,
    /// together at most `most`. Returns how many.
    fn deliver(
        &mut self,
        reply: &mut Writer<'_>,
        claimed: &[PendingEntry],
        most: usize,
        acknowledged: bool,
    ) -> usize {
        let mark = reply.array_later();
        claimed
            .iter()
            .for_each(|pending| self.claim(reply, pending));
        let more = self.deliver_new(reply, most - claimed.len(), acknowledged);
        let count = claimed.len() + more;
        reply.finish(mark, count);
        count
    }

    /// Replies entries that the group has not received yet. Returns how many.
    fn deliver_new(&mut self, reply: &mut Writer<'_>, most: usize, acknowledged: bool) -> usize {
        let mut count = 0;
        let start = self.group.last_id.next().unwrap_or(StreamId::MAX);
        for entry in self.log.range(start, StreamId::MAX).take(most) {
            self.group.advance(entry.id(), self.log);
            match self.claim_idle_ms {
                None => reply_entry(reply, &entry),
                Some(_) => {
                    reply_entry_with(reply, &entry, 4);
                    reply.integer(0);
                    reply.integer(0);
                }
            }
            if !acknowledged {
                let pending = PendingEntry {
                    id: entry.id(),
                    delivered_ms: self.now_ms,
                    deliveries: 1,
                    consumer: self.slot,
                };
                self.group.set_pending(pending);
                self.propagated.pending(self.group, &pending);
            }
            count += 1;
        }
        if !acknowledged && count > 0 {
            self.group.consumer_mut(self.slot).active_ms = Some(self.now_ms);
        }
        if count > 0 {
            self.propagated.last_id(self.group);
        }
        count
    }

    /// Replies the consumer's pending entries. Deleted ones have no fields.
    fn deliver_again(&mut self, reply: &mut Writer<'_>, last_id: StreamId, most: usize) {
        let mut ids = Vec::new();
        if let Some(start) = last_id.next() {
            let pending = self.group.pending_of(self.slot, start, StreamId::MAX);
            ids.extend(pending.take(most).map(|pending| pending.id));
        }
        reply.array(ids.len());
        for id in ids {
            match self.log.get(id) {
                Some(entry) => {
                    reply_entry(reply, &entry);
                    self.group.deliver_again(id, self.now_ms);
                }
                None => {
                    reply.array(2);
                    reply_id(reply, id);
                    reply.null_array();
                }
            }
        }
    }
}

/// A reply with streams and their entries: pairs in RESP2, a map in RESP3.
#[derive(Default)]
struct StreamsReply {
    mark: Option<Mark>,
    count: usize,
}

impl StreamsReply {
    fn begin(&mut self, reply: &mut Writer<'_>, key: &[u8]) {
        let in_pairs = reply.protocol() == Protocol::Resp2;
        if self.mark.is_none() {
            self.mark = Some(match in_pairs {
                true => reply.array_later(),
                false => reply.map_later(),
            });
        }
        self.count += 1;
        if in_pairs {
            reply.array(2);
        }
        reply.bulk(key);
    }

    /// Ends the reply; returns whether it has any entries.
    fn finish(self, reply: &mut Writer<'_>) -> bool {
        let Some(mark) = self.mark else {
            return false;
        };
        reply.finish(mark, self.count);
        true
    }
}

fn no_group_to_read(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (shown(key), shown(group));
    let text = format!(
        "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option"
    );
    CommandError::RefusedWith(text.into())
}

fn unbalanced(command: &str, of_group: bool) -> CommandError {
    let ids = match of_group {
        true => "ID or '>'",
        false => "ID, '+', or '$'",
    };
    let text = format!(
        "ERR Unbalanced '{command}' list of streams: for each stream key an {ids} must be \
         specified."
    );
    CommandError::RefusedWith(text.into())
}

const MISSING_GROUP: CommandError =
    CommandError::Refused("ERR Missing GROUP option for XREADGROUP");
const GROUP_OF_XREAD: CommandError = CommandError::Refused(
    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
);
const NOACK_OF_XREAD: CommandError = CommandError::Refused(
    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
);
const CLAIM_OF_XREAD: CommandError = CommandError::Refused(
    "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.",
);
const IDLE_NOT_INTEGER: CommandError =
    CommandError::Refused("ERR min-idle-time is not an integer or out of range");
const IDLE_NEGATIVE: CommandError =
    CommandError::Refused("ERR min-idle-time must be a positive integer");
const NEW_OF_XREAD: CommandError = CommandError::Refused(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
     <consumer> option.",
);
const LAST_OF_GROUP: CommandError = CommandError::Refused(
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of \
     this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would \
     just return an empty result set.",
);
const NEWEST_OF_GROUP: CommandError = CommandError::Refused(
    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of \
     this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would \
     just return an empty result set.",
);
