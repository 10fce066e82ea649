//! Commands on streams.

mod add;
pub(super) use add::{xadd, xsetid, xtrim};

mod claim;
pub(super) use claim::{xautoclaim, xclaim};

mod delete;
pub(super) use delete::{delete_with_options, xdel};

mod groups;
pub(super) use groups::{
    xgroup_create, xgroup_createconsumer, xgroup_delconsumer, xgroup_destroy, xgroup_help,
    xgroup_setid,
};

mod info;
pub(super) use info::{xinfo_consumers, xinfo_groups, xinfo_help, xinfo_stream};

mod pending;
pub(super) use pending::{xack, xpending};

mod producers;
pub(crate) use producers::{DURATION_S_MAX, ENTRIES_MAX};
pub(super) use producers::{xcfgset, xidmprecord};

mod range;
pub(super) use range::{show_range, xlen};

mod read;
pub(super) use read::{xread, xreadgroup};

mod propagation;

use tidewire_resp::Writer;

use super::Call;
use crate::error::{CommandError, Result, printable};
use crate::key::Key;
use crate::stream::{Entry, Stream, StreamId};
use crate::table::Place;

/// Returns the place of a stream; an error for another type.
fn find(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Option<Place>> {
    call.find_if(key, |entry| Stream::of(entry).is_some())
}

/// Returns the stream at a place that [`find`] returned.
fn stream_at<'a>(call: &'a mut Call<'_, '_, '_>, key: Key<'_>, place: Place) -> &'a mut Stream {
    let stream = Stream::of_mut(call.view.entry_mut(key, place));
    stream.expect("the type was checked")
}

/// Parses an id. If its sequence is missing, `missing_sequence` is used.
fn parse_id(text: &[u8], missing_sequence: u64) -> Result<StreamId> {
    StreamId::parse(text, missing_sequence).ok_or(INVALID_ID)
}

/// Parses ids.
fn parse_ids<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Result<Vec<StreamId>> {
    texts.map(|text| parse_id(text, 0)).collect()
}

/// Parses the first id of an interval: `-`, an id, or `(` and an excluded id.
fn parse_start(text: &[u8]) -> Result<StreamId> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => parse_id(id, 0)?.next().ok_or(INVALID_START),
        _ => StreamId::parse_bound(text, 0).ok_or(INVALID_ID),
    }
}

/// Parses the last id of an interval: `+`, an id, or `(` and an excluded id.
fn parse_end(text: &[u8]) -> Result<StreamId> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => parse_id(id, u64::MAX)?.previous().ok_or(INVALID_END),
        _ => StreamId::parse_bound(text, u64::MAX).ok_or(INVALID_ID),
    }
}

fn reply_id(reply: &mut Writer<'_>, id: StreamId) {
    reply.bulk(id.text().as_bytes());
}

/// Replies an entry: its id, then its fields and values.
fn reply_entry(reply: &mut Writer<'_>, entry: &Entry<'_>) {
    reply_entry_with(reply, entry, 2);
}

/// Does the same in an array of `parts` elements; the caller replies the others.
fn reply_entry_with(reply: &mut Writer<'_>, entry: &Entry<'_>, parts: usize) {
    reply.array(parts);
    reply_id(reply, entry.id());
    let fields = entry.fields();
    reply.array(fields.len() * 2);
    for (name, value) in fields {
        reply.bulk(name);
        reply.bulk(value.as_bytes());
    }
}

/// Returns the error for a group that the stream does not have.
fn no_group(group: &[u8], key: &[u8]) -> CommandError {
    let (group, key) = (shown(group), shown(key));
    let text = format!("NOGROUP No such consumer group '{group}' for key name '{key}'");
    CommandError::RefusedWith(text.into())
}

/// Returns the error for a missing stream or group.
fn no_key_or_group(key: &[u8], group: &[u8]) -> CommandError {
    let (group, key) = (shown(group), shown(key));
    let text = format!("NOGROUP No such key '{key}' or consumer group '{group}'");
    CommandError::RefusedWith(text.into())
}

/// Returns the error for a subcommand with wrong arguments.
fn wrong_subcommand(call: &Call<'_, '_, '_>) -> CommandError {
    let container = call.argument(0).to_ascii_uppercase();
    let text = format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try {} HELP.",
        printable(call.argument(1), ECHOED_BYTES_MAX),
        shown(&container)
    );
    CommandError::RefusedWith(text.into())
}

fn shown(name: &[u8]) -> String {
    printable(name, usize::MAX)
}

const INVALID_ID: CommandError =
    CommandError::Refused("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: CommandError = CommandError::Refused("ERR invalid start ID for the interval");
const INVALID_END: CommandError = CommandError::Refused("ERR invalid end ID for the interval");

const ECHOED_BYTES_MAX: usize = 128;
