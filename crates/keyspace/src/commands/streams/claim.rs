//! Taking over another consumer's pending entries: XCLAIM, XAUTOCLAIM.

use tidewire_resp::Writer;
use tidewire_resp::number::parse_integer;

use super::propagation::GroupChanges;
use super::{
    Result, find, no_key_or_group, parse_id, parse_start, reply_entry, reply_id, shown, stream_at,
};
use crate::commands::Call;
use crate::commands::options::{Words, is};
use crate::error::CommandError;
use crate::key::Key;
use crate::observer::Event;
use crate::stream::{ConsumerGroup, ConsumerSlot, Entry, EntryLog, PendingEntry, Stream, StreamId};
use crate::table::Place;

pub(in crate::commands) fn xclaim(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let place = find_group(call, key)?;
    let options = ClaimOptions::parse(call)?;
    claim(call, key, place, |claim, reply| {
        let reads_on = options.last_id > claim.group.last_id;
        if reads_on {
            claim.group.last_id = options.last_id;
            claim.changes += 1;
        }
        let mark = reply.array_later();
        let mut count = 0;
        for &id in &options.ids {
            let pending = claim.group.find_pending(id).copied();
            let Some(entry) = claim.log.get(id) else {
                claim.forget(id);
                continue;
            };
            let deliveries = match pending {
                Some(pending) if claim.is_idle(&pending, options.idle_ms_min) => pending.deliveries,
                // FORCE created the pending entry, which counts as one delivery.
                None if options.force => 1,
                _ => continue,
            };
            let more = u64::from(!options.ids_only);
            let deliveries = options
                .deliveries
                .unwrap_or(deliveries.saturating_add(more));
            claim.take(id, options.delivered_ms, deliveries);
            reply_claimed(reply, &entry, options.ids_only);
            count += 1;
        }
        reply.finish(mark, count);
        if reads_on && claim.propagated.is_empty() {
            claim.propagated.last_id(claim.group);
        }
    });
    Ok(())
}

pub(in crate::commands) fn xautoclaim(call: &mut Call<'_, '_, '_>) -> Result {
    let options = AutoOptions::parse(call)?;
    let key = call.key(1);
    let place = find_group(call, key)?;
    claim(call, key, place, |claim, reply| {
        let (mut claimed, mut gone) = (Vec::new(), Vec::new());
        let mut attempts = options.count.saturating_mul(ATTEMPTS_FACTOR);
        let mut next = claim.next_pending(Some(options.start));
        while let Some(pending) = next
            && attempts > 0
            && claimed.len() + gone.len() < options.count
        {
            attempts -= 1;
            match claim.log.get(pending.id) {
                None => {
                    claim.forget(pending.id);
                    gone.push(pending.id);
                }
                Some(entry) if claim.is_idle(&pending, options.idle_ms_min) => {
                    let more = u64::from(!options.ids_only);
                    let deliveries = pending.deliveries.saturating_add(more);
                    claim.take(pending.id, claim.now_ms, deliveries);
                    claimed.push(entry);
                }
                Some(_) => {}
            }
            next = claim.next_pending(pending.id.next());
        }
        reply.array(3);
        reply_id(reply, next.map_or(StreamId::MIN, |pending| pending.id));
        reply.array(claimed.len());
        for entry in &claimed {
            reply_claimed(reply, entry, options.ids_only);
        }
        reply.array(gone.len());
        gone.into_iter().for_each(|id| reply_id(reply, id));
    });
    Ok(())
}

/// Pending entries that move to another consumer of their group.
struct Claim<'a, 'b> {
    log: &'a EntryLog,
    group: &'a mut ConsumerGroup,
    slot: ConsumerSlot,
    now_ms: i64,
    changes: u64,
    propagated: GroupChanges<'b>,
}

impl Claim<'_, '_> {
    fn is_idle(&self, pending: &PendingEntry, idle_ms_min: i64) -> bool {
        idle_ms_min <= 0 || self.now_ms.saturating_sub(pending.delivered_ms) >= idle_ms_min
    }

    fn take(&mut self, id: StreamId, delivered_ms: i64, deliveries: u64) {
        let pending = PendingEntry {
            id,
            delivered_ms,
            deliveries,
            consumer: self.slot,
        };
        self.group.set_pending(pending);
        self.propagated.pending(self.group, &pending);
        self.group.consumer_mut(self.slot).active_ms = Some(self.now_ms);
        self.changes += 1;
    }

    /// Removes a pending entry that the stream no longer contains.
    fn forget(&mut self, id: StreamId) {
        if let Some(pending) = self.group.find_pending(id).copied() {
            self.propagated.pending(self.group, &pending);
        }
        self.changes += u64::from(self.group.acknowledge(id));
    }

    fn next_pending(&self, from: Option<StreamId>) -> Option<PendingEntry> {
        self.group.pending(from?, StreamId::MAX).next().copied()
    }
}

/// Returns the place of the stream, if it has the group in the second argument.
fn find_group(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Place> {
    let name = call.argument(2);
    let place = find(call, key)?;
    call.view.count_read(key, place.is_some());
    place
        .filter(|&place| stream_at(call, key, place).groups.contains_key(name))
        .ok_or_else(|| no_key_or_group(key.bytes, name))
}

/// Starts a claim for the consumer in the third argument.
fn claim<'c>(
    call: &mut Call<'c, '_, '_>,
    key: Key<'_>,
    place: Place,
    act: impl FnOnce(&mut Claim<'_, '_>, &mut Writer<'_>),
) {
    let (name, consumer) = (call.argument(2), call.argument(3));
    let now_ms = call.view.clock_ms;
    let propagated = GroupChanges::new(call, key.bytes, name);
    let Call { view, reply, .. } = &mut *call;
    let Some(Stream { log, groups, .. }) = Stream::of_mut(view.entry_mut(key, place)) else {
        return;
    };
    let Some(group) = groups.get_mut(name) else {
        return;
    };
    let (slot, is_new) = group.add_consumer(consumer, now_ms);
    group.consumer_mut(slot).seen_ms = now_ms;
    let mut claim = Claim {
        log,
        group,
        slot,
        now_ms,
        changes: 0,
        propagated,
    };
    act(&mut claim, reply);
    let (changed, propagated) = (claim.changes > 0, claim.propagated);
    if is_new {
        view.changed_aside(key, Some(Event::GroupCreateConsumer));
    }
    if changed {
        view.changed_aside(key, None);
    }
    propagated.propagate(call);
}

fn reply_claimed(reply: &mut Writer<'_>, entry: &Entry<'_>, id_only: bool) {
    match id_only {
        true => reply_id(reply, entry.id()),
        false => reply_entry(reply, entry),
    }
}

/// Options of XCLAIM.
struct ClaimOptions {
    idle_ms_min: i64,
    ids: Vec<StreamId>,
    delivered_ms: i64,
    deliveries: Option<u64>,
    force: bool,
    ids_only: bool,
    last_id: StreamId,
}

impl ClaimOptions {
    fn parse(call: &Call<'_, '_, '_>) -> Result<Self> {
        let now_ms = call.view.clock_ms;
        let number = |value, error| parse_integer(value).ok_or(error);
        let mut options = ClaimOptions {
            idle_ms_min: number(call.argument(4), IDLE_OF_CLAIM)?,
            ids: Vec::new(),
            delivered_ms: now_ms,
            deliveries: None,
            force: false,
            ids_only: false,
            last_id: StreamId::MIN,
        };
        // The options begin at the first argument that is not an id.
        let ids = call.arguments.tail(5).iter();
        options
            .ids
            .extend(ids.map_while(|id| StreamId::parse(id, 0)));
        let mut words = Words::new(call.arguments, 5 + options.ids.len());
        while let Some(option) = words.next() {
            if is(option, "force") {
                options.force = true;
            } else if is(option, "justid") {
                options.ids_only = true;
            } else if let Some(idle_ms) = words.value_of(option, "idle") {
                options.delivered_ms = now_ms.saturating_sub(number(idle_ms, IDLE_OPTION)?);
            } else if let Some(time_ms) = words.value_of(option, "time") {
                options.delivered_ms = number(time_ms, TIME_OPTION)?;
            } else if let Some(count) = words.value_of(option, "retrycount") {
                options.deliveries = u64::try_from(number(count, RETRY_OPTION)?).ok();
            } else if let Some(id) = words.value_of(option, "lastid") {
                options.last_id = parse_id(id, 0)?;
            } else {
                let text = format!("ERR Unrecognized XCLAIM option '{}'", shown(option));
                return Err(CommandError::RefusedWith(text.into()));
            }
        }
        // A client's clock may be ahead; that must not fail.
        if !(0..=now_ms).contains(&options.delivered_ms) {
            options.delivered_ms = now_ms;
        }
        Ok(options)
    }
}

/// Options of XAUTOCLAIM.
struct AutoOptions {
    idle_ms_min: i64,
    start: StreamId,
    count: usize,
    ids_only: bool,
}

impl AutoOptions {
    fn parse(call: &Call<'_, '_, '_>) -> Result<Self> {
        let mut options = AutoOptions {
            idle_ms_min: parse_integer(call.argument(4)).ok_or(IDLE_OF_AUTOCLAIM)?,
            start: parse_start(call.argument(5))?,
            count: 100,
            ids_only: false,
        };
        let mut words = Words::new(call.arguments, 6);
        while let Some(option) = words.next() {
            if is(option, "justid") {
                options.ids_only = true;
            } else if let Some(count) = words.value_of(option, "count") {
                let count = parse_integer(count);
                let count = count.filter(|count| (1..=COUNT_MAX).contains(count));
                options.count = count.ok_or(COUNT_OUT_OF_RANGE)? as usize;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

/// Pending entries to visit per requested entry.
const ATTEMPTS_FACTOR: usize = 10;
/// Maximum number of ids for which Redis allocates memory.
const COUNT_MAX: i64 = i64::MAX / 16;

const IDLE_OF_CLAIM: CommandError =
    CommandError::Refused("ERR Invalid min-idle-time argument for XCLAIM");
const IDLE_OF_AUTOCLAIM: CommandError =
    CommandError::Refused("ERR Invalid min-idle-time argument for XAUTOCLAIM");
const IDLE_OPTION: CommandError =
    CommandError::Refused("ERR Invalid IDLE option argument for XCLAIM");
const TIME_OPTION: CommandError =
    CommandError::Refused("ERR Invalid TIME option argument for XCLAIM");
const RETRY_OPTION: CommandError =
    CommandError::Refused("ERR Invalid RETRYCOUNT option argument for XCLAIM");
const COUNT_OUT_OF_RANGE: CommandError = CommandError::Refused("ERR COUNT must be > 0");
