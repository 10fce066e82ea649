//! What a stream remembers of its producers: XCFGSET, XIDMPRECORD.

use super::{Result, find, parse_id, stream_at};
use crate::commands::Call;
use crate::commands::options::{integer, is};
use crate::error::CommandError;

pub(in crate::commands) fn xcfgset(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let place = find(call, key)?.ok_or(CommandError::NoSuchKey)?;
    let (duration_s, entries_max) = parse_limits(call)?;
    let producers = &mut stream_at(call, key, place).producers;
    let mut limits = producers.limits;
    limits.duration_s = duration_s.unwrap_or(limits.duration_s);
    limits.entries_max = entries_max.unwrap_or(limits.entries_max);
    // Producers that all set the same before they begin leave each other's entries alone.
    if limits != producers.limits {
        producers.limits = limits;
        producers.clear();
        call.view.keyspace.note_producers();
        call.view.changed_aside(key, None);
    }
    call.reply.ok();
    Ok(())
}

pub(in crate::commands) fn xidmprecord(call: &mut Call<'_, '_, '_>) -> Result {
    let entry = parse_id(call.argument(4), 0)?;
    let (name, id) = (call.argument(2), call.argument(3));
    if name.is_empty() {
        return Err(NO_NAME);
    }
    if id.is_empty() {
        return Err(NO_ID);
    }
    let key = call.key(1);
    let place = find(call, key)?.ok_or(CommandError::NoSuchKey)?;
    let (now_ms, clock_ms) = (call.view.now_ms, call.view.clock_ms);
    let stream = stream_at(call, key, place);
    if stream.log.get(entry).is_none() {
        return Err(NO_ENTRY);
    }
    match stream.producers.find(name, id, now_ms) {
        Some(before) if before != entry => return Err(OTHER_ENTRY),
        Some(_) => {}
        None => {
            stream.producers.add(name, id, entry, clock_ms);
            call.view.keyspace.note_producers();
            call.view.changed_aside(key, None);
        }
    }
    call.reply.ok();
    Ok(())
}

/// Parses IDMP-DURATION and IDMP-MAXSIZE.
fn parse_limits(call: &Call<'_, '_, '_>) -> Result<(Option<u32>, Option<u32>)> {
    let (mut duration_s, mut entries_max) = (None, None);
    let mut at = 2;
    while at < call.arguments.len() {
        let option = call.argument(at);
        let (limit, most, twice, out_of_range) = match call.arguments.get(at + 1) {
            Some(_) if is(option, "idmp-duration") => {
                (&mut duration_s, DURATION_S_MAX, TWO_DURATIONS, DURATION)
            }
            Some(_) if is(option, "idmp-maxsize") => {
                (&mut entries_max, ENTRIES_MAX, TWO_SIZES, SIZE)
            }
            _ => return Err(CommandError::Syntax),
        };
        if limit.is_some() {
            return Err(twice);
        }
        let number = integer(call.argument(at + 1))?;
        let number = u32::try_from(number).ok();
        let number = number.filter(|number| (1..=most).contains(number));
        *limit = Some(number.ok_or(out_of_range)?);
        at += 2;
    }
    match (duration_s, entries_max) {
        (None, None) => Err(NOTHING_TO_SET),
        limits => Ok(limits),
    }
}

/// Limits of the settings, of a stream and of the server.
pub(crate) const DURATION_S_MAX: u32 = 86_400;
pub(crate) const ENTRIES_MAX: u32 = 10_000;

const NOTHING_TO_SET: CommandError =
    CommandError::Refused("ERR At least one parameter must be specified");
const TWO_DURATIONS: CommandError =
    CommandError::Refused("ERR IDMP-DURATION specified multiple times");
const TWO_SIZES: CommandError = CommandError::Refused("ERR IDMP-MAXSIZE specified multiple times");
const DURATION: CommandError =
    CommandError::Refused("ERR IDMP-DURATION must be between 1 and 86400 seconds");
const SIZE: CommandError =
    CommandError::Refused("ERR IDMP-MAXSIZE must be between 1 and 10000 entries");
const NO_NAME: CommandError = CommandError::Refused("ERR producer ID must be non-empty");
const NO_ID: CommandError = CommandError::Refused("ERR idempotent ID must be non-empty");
const NO_ENTRY: CommandError = CommandError::Refused("ERR No such message in stream");
const OTHER_ENTRY: CommandError =
    CommandError::Refused("ERR IID already exists for this producer with a different stream ID");
