//! Deleting entries by their ids: XDEL, XDELEX, XACKDEL.

use super::add::parse_references;
use super::{Result, find, parse_ids, stream_at};
use crate::commands::Call;
use crate::commands::options::{above_zero, is};
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

/// Runs XDELEX, or XACKDEL, which also acknowledges the entries to a group.
pub(in crate::commands) fn delete_with_options(
    call: &mut Call<'_, '_, '_>,
    acknowledges: bool,
) -> Result {
    let key = call.key(1);
    let group = acknowledges.then(|| call.argument(2));
    let place = find(call, key)?;
    let options = DeleteOptions::parse(call, if acknowledges { 3 } else { 2 })?;
    let place = place.filter(|&place| {
        let groups = &stream_at(call, key, place).groups;
        group.is_none_or(|group| groups.contains_key(group))
    });
    let Some(place) = place else {
        call.reply.array(options.count);
        (0..options.count).for_each(|_| call.reply.integer(NOT_THERE));
        return Ok(());
    };
    let ids = options.ids(call)?;
    let newest_id = stream_at(call, key, place).log.newest_id();
    call.reply.array(ids.len());
    let (mut changed, mut any_deleted) = (false, false);
    for id in ids {
        let stream = stream_at(call, key, place);
        if let Some(group) = group {
            let group = stream.groups.get_mut(group);
            if !group.is_some_and(|group| group.acknowledge(id)) {
                call.reply.integer(NOT_THERE);
                continue;
            }
            changed = true;
        }
        let goes = may_go(stream, id, options.references, &mut changed);
        let deleted = goes && stream.log.delete(id);
        any_deleted |= deleted;
        call.reply.integer(match goes {
            false => STILL_WANTED,
            // An acknowledged entry that no longer exists counts as deleted.
            true if deleted || acknowledges => DELETED,
            true => NOT_THERE,
        });
    }
    after_deletion(call, key, place, newest_id, any_deleted);
    if changed && !any_deleted {
        call.view.changed_aside(key, None);
    }
    Ok(())
}

/// Returns whether the groups allow an entry to be deleted. Their references to it are removed
/// first, if requested.
fn may_go(stream: &mut Stream, id: StreamId, references: References, changed: &mut bool) -> bool {
    match references {
        References::Keep => {}
        References::Delete => *changed |= stream.forget(id),
        References::Acknowledged => return !stream.is_wanted(id),
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

/// Options of XDELEX and XACKDEL.
struct DeleteOptions {
    references: References,
    /// Position of the first id.
    ids_at: usize,
    /// Number of ids, as many as there are arguments.
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
                let count = above_zero(call.argument(at + 1)).ok_or(NO_COUNT)?;
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
