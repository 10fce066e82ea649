//! Deleting entries by their ids: XDEL, XDELEX, XACKDEL.

use super::add::parse_references;
use super::{Result, find, parse_ids, stream_at};
use crate::commands::Call;
use crate::commands::options::is;
use crate::error::CommandError;
use crate::key::Key;
use crate::observer::Event;
use crate::stream::{References, Stream, StreamId};
use crate::table::Place;

pub(in crate::commands) fn xdel(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let mut deleted = 0;
    if let Some(place) = find(call, key)? {
        let ids = parse_ids(call.arguments.tail(2).iter())?;
        let log = &mut stream_at(call, key, place).log;
        let newest_id = log.newest_id();
        for id in ids {
            deleted += i64::from(log.delete(id));
        }
        after_deletion(call, key, place, newest_id, deleted > 0);
    }
    call.reply.integer(deleted);
    Ok(())
}

pub(in crate::commands) fn xdelex(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let place = find(call, key)?;
    let options = DeleteOptions::parse(call, 2)?;
    let Some(place) = place else {
        reply_none(call, options.count);
        return Ok(());
    };
    let ids = options.ids(call)?;
    let newest_id = stream_at(call, key, place).log.newest_id();
    call.reply.array(ids.len());
    let (mut changed, mut any_deleted) = (false, false);
    for id in ids {
        let stream = stream_at(call, key, place);
        let goes = may_go(stream, id, options.references, &mut changed);
        let deleted = goes && stream.log.delete(id);
        any_deleted |= deleted;
        call.reply.integer(match (goes, deleted) {
            (false, _) => STILL_WANTED,
            (true, true) => DELETED,
            (true, false) => NOT_THERE,
        });
    }
    after_deletion(call, key, place, newest_id, any_deleted);
    if changed && !any_deleted {
        call.view.changed_aside(key, None);
    }
    Ok(())
}

pub(in crate::commands) fn xackdel(call: &mut Call<'_, '_, '_>) -> Result {
    let (key, group) = (call.key(1), call.argument(2));
    let place = find(call, key)?;
    let options = DeleteOptions::parse(call, 3)?;
    let place = place.filter(|&place| stream_at(call, key, place).groups.contains_key(group));
    let Some(place) = place else {
        reply_none(call, options.count);
        return Ok(());
    };
    let ids = options.ids(call)?;
    let newest_id = stream_at(call, key, place).log.newest_id();
    call.reply.array(ids.len());
    let (mut changed, mut any_deleted) = (false, false);
    for id in ids {
        let stream = stream_at(call, key, place);
        let groups = &mut stream.groups;
        if !groups
            .get_mut(group)
            .is_some_and(|group| group.acknowledge(id))
        {
            call.reply.integer(NOT_THERE);
            continue;
        }
        changed = true;
        // One that was acknowledged and is gone already counts as deleted.
        let goes = may_go(stream, id, options.references, &mut changed);
        any_deleted |= goes && stream.log.delete(id);
        call.reply
            .integer(if goes { DELETED } else { STILL_WANTED });
    }
    after_deletion(call, key, place, newest_id, any_deleted);
    if changed && !any_deleted {
        call.view.changed_aside(key, None);
    }
    Ok(())
}

/// Whether an entry may go, for all that groups have to say. What they have of it goes now, if it
/// is to.
fn may_go(stream: &mut Stream, id: StreamId, references: References, changed: &mut bool) -> bool {
    match references {
        References::Keep => {}
        References::Delete => *changed |= stream.forget(id),
        References::Heed => return !stream.is_wanted(id),
    }
    true
}

fn after_deletion(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    place: Place,
    newest_id: Option<StreamId>,
    deleted: bool,
) {
    if deleted {
        let stays = stream_at(call, key, place).log.newest_id() == newest_id;
        let event = match stays {
            true => Event::StreamDeleteOlder,
            false => Event::StreamDelete,
        };
        call.view.changed(key, place, event);
    }
}

fn reply_none(call: &mut Call<'_, '_, '_>, count: usize) {
    call.reply.array(count);
    (0..count).for_each(|_| call.reply.integer(NOT_THERE));
}

/// What XDELEX and XACKDEL are told.
struct DeleteOptions {
    references: References,
    /// Position of the first id.
    ids_at: usize,
    /// Ids, as many as there are arguments for.
    count: usize,
}

impl DeleteOptions {
    fn parse(call: &Call<'_, '_, '_>, from: usize) -> Result<Self> {
        let (mut references, mut ids) = (None, None);
        let mut at = from;
        while let Some(option) = call.arguments.get(at) {
            if let Some(named) = parse_references(option).filter(|_| references.is_none()) {
                references = Some(named);
                at += 1;
            } else if is(option, "ids") && at + 1 < call.arguments.len() {
                let count = call.integer(at + 1).ok();
                let count = count.and_then(|count| usize::try_from(count).ok());
                let count = count.filter(|&count| count > 0).ok_or(NO_COUNT)?;
                if count > call.arguments.len() - at - 2 {
                    return Err(TOO_FEW_IDS);
                }
                ids = Some((at + 2, count));
                at += 2 + count;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let (ids_at, count) = ids.ok_or(NO_IDS)?;
        Ok(DeleteOptions {
            references: references.unwrap_or(References::Keep),
            ids_at,
            count,
        })
    }

    fn ids(&self, call: &Call<'_, '_, '_>) -> Result<Vec<StreamId>> {
        parse_ids(call.arguments.tail(self.ids_at).iter().take(self.count))
    }
}

const NOT_THERE: i64 = -1;
const DELETED: i64 = 1;
const STILL_WANTED: i64 = 2;

const NO_IDS: CommandError = CommandError::Refused("ERR IDS option is required");
const NO_COUNT: CommandError =
    CommandError::Refused("ERR Number of IDs must be a positive integer");
const TOO_FEW_IDS: CommandError =
    CommandError::Refused("ERR The `numids` parameter must match the number of arguments");
