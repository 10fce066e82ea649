//! DUMP and RESTORE.

use super::Call;
use super::options::{Words, integer, is};
use crate::access;
use crate::error::{CommandError, Result};
use crate::key::Key;
use crate::observer::Event;
use crate::serial::{self, SerialError};

pub(super) fn dump(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    match call.view.read(key) {
        Some(value) => call.reply.bulk(&serial::dump(value)),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn restore(call: &mut Call<'_, '_, '_>) -> Result {
    let options = RestoreOptions::parse(call)?;
    let key = call.key(1);
    let old = call.view.find(key);
    if old.is_some() && !options.replace {
        return Err(BUSY_KEY);
    }
    let deadline_ms = deadline_ms(call, options.absolute)?;
    let limits = call.view.keyspace.value_limits();
    let payload = call.argument(3);
    let entry = serial::body(payload, call.view.keyspace.trusts_payloads())
        .and_then(|body| serial::restore(body, key, limits))
        .map_err(|error| refusal(error, key, payload))?;
    let now_ms = call.view.now_ms;
    let is_due = deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms);
    if is_due && !call.view.keyspace.is_loading() {
        if call.view.delete(key, Event::Delete) {
            call.propagate_removed(key);
        }
    } else {
        super::keys::put(call, key, entry, deadline_ms, Event::Restore);
        if let Some(deadline_ms) = deadline_ms.filter(|_| call.is_propagated() && !options.absolute)
        {
            let mut digits = itoa::Buffer::new();
            let deadline = digits.format(deadline_ms).as_bytes();
            let mut words: Vec<&[u8]> = call.arguments.iter().collect();
            words[2] = deadline;
            words.push(b"ABSTTL");
            call.propagate(words);
        }
        call.view.touches = false;
        options.note_use(call, key);
    }
    call.reply.ok();
    Ok(())
}

/// Returns the error for the client. A payload with a valid checksum but damaged content was made
/// on purpose or by a broken server, so it is logged too.
fn refusal(error: SerialError, key: Key<'_>, payload: &[u8]) -> CommandError {
    if error == SerialError::Footer {
        return WRONG_FOOTER;
    }
    let form = serial::form_name(payload);
    let key = String::from_utf8_lossy(key.bytes);
    let size_bytes = payload.len();
    tracing::warn!(%key, size_bytes, "RESTORE refused: {form} integrity check failed");
    BAD_FORMAT
}

/// Returns the deadline of the key, if the second argument is not 0.
fn deadline_ms(call: &Call<'_, '_, '_>, absolute: bool) -> Result<Option<i64>> {
    let amount_ms = call.integer(2)?;
    let from_ms = if absolute { 0 } else { call.view.clock_ms };
    match amount_ms {
        0 => Ok(None),
        1.. => amount_ms.checked_add(from_ms).map(Some).ok_or(INVALID_TTL),
        _ => Err(INVALID_TTL),
    }
}

#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    absolute: bool,
    /// Seconds since the last use.
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

impl RestoreOptions {
    fn parse(call: &Call<'_, '_, '_>) -> Result<Self> {
        let mut options = RestoreOptions::default();
        let mut words = Words::new(call.arguments, 4);
        while let Some(option) = words.next() {
            if is(option, "replace") {
                options.replace = true;
            } else if is(option, "absttl") {
                options.absolute = true;
            } else if options.frequency.is_none()
                && let Some(seconds) = words.value_of(option, "idletime")
            {
                let seconds = u64::try_from(integer(seconds)?);
                options.idle_s = Some(seconds.map_err(|_| INVALID_IDLE_TIME)?);
            } else if options.idle_s.is_none()
                && let Some(count) = words.value_of(option, "freq")
            {
                let count = u8::try_from(integer(count)?);
                options.frequency = Some(count.map_err(|_| INVALID_FREQUENCY)?);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    /// Stores the payload's idle time or frequency, if the current policy uses it.
    fn note_use(&self, call: &mut Call<'_, '_, '_>, key: Key<'_>) {
        let (access, now_ms) = (call.view.access(), call.view.clock_ms);
        let used = match access.counts() {
            true => self
                .frequency
                .map(|count| access.with_frequency(count, now_ms)),
            false => self
                .idle_s
                .map(|idle_s| access::used_before(idle_s, now_ms)),
        };
        if let Some(used) = used
            && let Some(place) = call.view.find(key)
        {
            call.view.entry_mut(key, place).set_access(used);
        }
    }
}

const BUSY_KEY: CommandError = CommandError::Refused("BUSYKEY Target key name already exists.");
const INVALID_TTL: CommandError = CommandError::Refused("ERR Invalid TTL value, must be >= 0");
const INVALID_IDLE_TIME: CommandError =
    CommandError::Refused("ERR Invalid IDLETIME value, must be >= 0");
const INVALID_FREQUENCY: CommandError =
    CommandError::Refused("ERR Invalid FREQ value, must be >= 0 and <= 255");
const WRONG_FOOTER: CommandError =
    CommandError::Refused("ERR DUMP payload version or checksum are wrong");
const BAD_FORMAT: CommandError = CommandError::Refused("ERR Bad data format");
