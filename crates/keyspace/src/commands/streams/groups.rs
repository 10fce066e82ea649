//! Groups and their consumers: XGROUP.

use super::{Result, find, no_group, parse_id, stream_at, wrong_subcommand};
use crate::commands::Call;
use crate::commands::introspection::reply_help;
use crate::commands::options::{Words, integer, is};
use crate::entry::NewValue;
use crate::error::CommandError;
use crate::key::Key;
use crate::observer::Event;
use crate::stream::{ConsumerGroup, Stream, StreamId};
use crate::table::Place;
use crate::value::Object;
use crate::view::Expiry;

pub(in crate::commands) fn xgroup_create(call: &mut Call<'_, '_, '_>) -> Result {
    let options = GroupOptions::parse(call, true)?;
    let (key, name) = (call.key(2), call.argument(3));
    let place = find(call, key)?;
    if place.is_none() && !options.makes_stream {
        return Err(NO_STREAM);
    }
    let last_id = match (call.argument(4), place) {
        (b"$", Some(place)) => stream_at(call, key, place).log.state().last_id,
        (b"$", None) => StreamId::MIN,
        (id, _) => parse_id(id, 0)?,
    };
    let added = match place {
        Some(place) => stream_at(call, key, place).log.state().added,
        None => 0,
    };
    let group = ConsumerGroup::new(last_id, options.entries_read_of(added));
    match place {
        Some(place) => {
            let groups = &mut stream_at(call, key, place).groups;
            if groups.contains_key(name) {
                return Err(BUSY);
            }
            groups.insert(name.into(), group);
            call.view.changed_aside(key, Some(Event::GroupCreate));
        }
        None => {
            let mut stream = Stream::new(call.view.producer_limits());
            stream.groups.insert(name.into(), group);
            let value = NewValue::Object(Box::new(Object::Stream(stream)));
            let place = call.view.insert(key, value, Expiry::Clear);
            call.view.changed(key, place, Event::GroupCreate);
        }
    }
    call.reply.ok();
    Ok(())
}

pub(in crate::commands) fn xgroup_setid(call: &mut Call<'_, '_, '_>) -> Result {
    let options = GroupOptions::parse(call, false)?;
    let (key, place) = find_group(call)?;
    let last_id = match call.argument(4) {
        b"$" => stream_at(call, key, place).log.state().last_id,
        id => StreamId::parse_bound(id, 0).ok_or(super::INVALID_ID)?,
    };
    let added = stream_at(call, key, place).log.state().added;
    if let Some(group) = group_at(call, key, place) {
        group.last_id = last_id;
        group.entries_read = options.entries_read_of(added);
    }
    call.view.changed_aside(key, Some(Event::GroupSetId));
    call.reply.ok();
    Ok(())
}

pub(in crate::commands) fn xgroup_destroy(call: &mut Call<'_, '_, '_>) -> Result {
    let (key, name) = (call.key(2), call.argument(3));
    let place = find(call, key)?.ok_or(NO_STREAM)?;
    let there = stream_at(call, key, place).groups.remove(name).is_some();
    if there {
        // Wakes clients that wait for entries of the group.
        call.view.changed(key, place, Event::GroupDestroy);
    }
    call.reply.integer(i64::from(there));
    Ok(())
}

pub(in crate::commands) fn xgroup_createconsumer(call: &mut Call<'_, '_, '_>) -> Result {
    let (key, place) = find_group(call)?;
    let (name, now_ms) = (call.argument(4), call.view.clock_ms);
    let group = group_at(call, key, place);
    let is_new = group.is_some_and(|group| group.add_consumer(name, now_ms).1);
    if is_new {
        call.view
            .changed_aside(key, Some(Event::GroupCreateConsumer));
    }
    call.reply.integer(i64::from(is_new));
    Ok(())
}

pub(in crate::commands) fn xgroup_delconsumer(call: &mut Call<'_, '_, '_>) -> Result {
    let (key, place) = find_group(call)?;
    let name = call.argument(4);
    let group = group_at(call, key, place);
    let pending = group.and_then(|group| group.remove_consumer(name));
    if pending.is_some() {
        call.view
            .changed_aside(key, Some(Event::GroupDeleteConsumer));
    }
    call.reply.integer(pending.unwrap_or(0) as i64);
    Ok(())
}

pub(in crate::commands) fn xgroup_help(call: &mut Call<'_, '_, '_>) -> Result {
    reply_help(
        call,
        &[
            "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Create a new consumer in the specified group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove the specified consumer.",
            "DESTROY <key> <groupname>",
            "    Remove the specified group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID and entries_read counter.",
        ],
    );
    Ok(())
}

/// Returns the place of the stream, if it has the group in the third argument.
fn find_group<'c>(call: &mut Call<'c, '_, '_>) -> Result<(Key<'c>, Place)> {
    let (key, name) = (call.key(2), call.argument(3));
    let place = find(call, key)?.ok_or(NO_STREAM)?;
    match stream_at(call, key, place).groups.contains_key(name) {
        true => Ok((key, place)),
        false => Err(no_group(name, key.bytes)),
    }
}

fn group_at<'a>(
    call: &'a mut Call<'_, '_, '_>,
    key: Key<'_>,
    place: Place,
) -> Option<&'a mut ConsumerGroup> {
    let name = call.argument(3);
    stream_at(call, key, place).groups.get_mut(name)
}

/// Options of CREATE and SETID, after the id.
#[derive(Default)]
struct GroupOptions {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl GroupOptions {
    /// Returns ENTRIESREAD, at most the number of entries ever added.
    fn entries_read_of(&self, added: u64) -> Option<u64> {
        self.entries_read.map(|read| read.min(added))
    }

    fn parse(call: &Call<'_, '_, '_>, creates: bool) -> Result<Self> {
        let mut options = GroupOptions::default();
        let mut words = Words::new(call.arguments, 5);
        while let Some(option) = words.next() {
            if creates && is(option, "mkstream") {
                options.makes_stream = true;
            } else if let Some(count) = words.value_of(option, "entriesread") {
                options.entries_read = match integer(count)? {
                    -1 => None,
                    count => Some(u64::try_from(count).map_err(|_| READ_NEGATIVE)?),
                };
            } else {
                return Err(wrong_subcommand(call));
            }
        }
        // Options may be repeated, up to a number of arguments.
        let most = if creates { 8 } else { 7 };
        match call.arguments.len() <= most {
            true => Ok(options),
            false => Err(wrong_subcommand(call)),
        }
    }
}

const NO_STREAM: CommandError = CommandError::Refused(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
     the MKSTREAM option to create an empty stream automatically.",
);
const BUSY: CommandError = CommandError::Refused("BUSYGROUP Consumer Group name already exists");
const READ_NEGATIVE: CommandError =
    CommandError::Refused("ERR value for ENTRIESREAD must be positive or -1");
