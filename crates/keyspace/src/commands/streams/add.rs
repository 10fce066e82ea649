//! Adding to streams and trimming them: XADD, XTRIM, XSETID.

use tidewire_resp::Arguments;

use super::{INVALID_ID, Result, find, parse_id, reply_id, stream_at};
use crate::commands::Call;
use crate::commands::options::{Words, integer, is};
use crate::entry::NewValue;
use crate::error::CommandError;
use crate::observer::Event;
use crate::stream::{EntryLog, References, Stream, StreamId, Trim, TrimTo};
use crate::table::Place;
use crate::value::Object;
use crate::view::Expiry;

pub(in crate::commands) fn xadd(call: &mut Call<'_, '_, '_>) -> Result {
    let options = AddOptions::parse(call, true)?;
    let fields = FieldPairs(call.arguments.tail(options.id_at + 1));
    if fields.0.is_empty() || fields.0.len() % 2 == 1 {
        return Err(CommandError::WrongArity(call.command.full_name));
    }
    if options.id == NewId::Given(StreamId::MIN) {
        return Err(ID_ZERO);
    }
    let text_bytes = call.arguments.tail(options.id_at + 1).iter();
    let text_bytes: usize = text_bytes.map(<[u8]>::len).sum();
    let key = call.key(1);
    let found = find(call, key)?;
    if found.is_none() && options.only_existing {
        call.reply.null();
        return Ok(());
    }
    let producer_id = options.producer.map(|producer| producer.id(fields));
    if let Some(place) = found
        && let (Some(producer), Some(id)) = (options.producer, &producer_id)
    {
        let now_ms = call.view.now_ms;
        let producers = &mut stream_at(call, key, place).producers;
        if let Some(before) = producers.find(producer.name, id, now_ms) {
            producers.note_duplicate();
            reply_id(call.reply, before);
            call.view.changed_aside(key, None);
            if call.is_propagated() {
                call.propagate_with(options.id_at, before.text().as_bytes());
            }
            return Ok(());
        }
    }
    let now_ms = call.view.clock_ms;
    let last_id = match found {
        Some(place) => stream_at(call, key, place).log.state().last_id,
        None => StreamId::MIN,
    };
    let id = options.id.resolve(last_id, now_ms)?;
    if text_bytes > TEXT_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    let place = match found {
        Some(place) => place,
        None => {
            let empty = Stream::new(call.view.producer_limits());
            let empty = NewValue::Object(Box::new(Object::Stream(empty)));
            call.view.insert(key, empty, Expiry::Clear)
        }
    };
    let limits = call.view.keyspace.stream_limits();
    let is_added = stream_at(call, key, place).log.append(id, fields, limits);
    debug_assert!(is_added, "the id is greater than the last one");
    reply_id(call.reply, id);
    if let (Some(producer), Some(own_id)) = (options.producer, &producer_id) {
        let producers = &mut stream_at(call, key, place).producers;
        producers.add(producer.name, own_id, id, now_ms);
        call.view.keyspace.note_producers();
    }
    call.view.changed(key, place, Event::StreamAdd);
    if let Some(trim) = options.trim {
        let removed = stream_at(call, key, place).trim(trim, options.references);
        if removed > 0 {
            call.view.changed(key, place, Event::StreamTrim);
        }
    }
    if call.is_propagated() {
        options.propagate(call, place, Some(id));
    }
    Ok(())
}

pub(in crate::commands) fn xtrim(call: &mut Call<'_, '_, '_>) -> Result {
    let options = AddOptions::parse(call, false)?;
    let key = call.key(1);
    let mut removed = 0;
    if let (Some(place), Some(trim)) = (find(call, key)?, options.trim) {
        removed = stream_at(call, key, place).trim(trim, options.references);
        if removed > 0 {
            call.view.changed(key, place, Event::StreamTrim);
            if call.is_propagated() {
                options.propagate(call, place, None);
            }
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}

pub(in crate::commands) fn xsetid(call: &mut Call<'_, '_, '_>) -> Result {
    let last_id = parse_id(call.argument(2), 0)?;
    let (mut added, mut max_deleted_id) = (None, StreamId::MIN);
    let mut words = Words::new(call.arguments, 3);
    while let Some(option) = words.next() {
        if let Some(count) = words.value_of(option, "entriesadded") {
            let count = u64::try_from(integer(count)?);
            added = Some(count.map_err(|_| ADDED_NEGATIVE)?);
        } else if let Some(id) = words.value_of(option, "maxdeletedid") {
            max_deleted_id = parse_id(id, 0)?;
            if last_id < max_deleted_id {
                return Err(BELOW_GIVEN_DELETED);
            }
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let key = call.key(1);
    let place = find(call, key)?.ok_or(CommandError::NoSuchKey)?;
    let log = &mut stream_at(call, key, place).log;
    set_last_id(log, last_id, added, max_deleted_id)?;
    call.view.changed(key, place, Event::StreamSetId);
    call.reply.ok();
    Ok(())
}

fn set_last_id(
    log: &mut EntryLog,
    last_id: StreamId,
    added: Option<u64>,
    max_deleted_id: StreamId,
) -> Result {
    let mut state = log.state();
    if last_id < state.max_deleted_id {
        return Err(BELOW_DELETED);
    }
    if let Some(newest_id) = log.newest_id() {
        if last_id < newest_id {
            return Err(BELOW_NEWEST);
        }
        if added.is_some_and(|added| added < log.len() as u64) {
            return Err(ADDED_BELOW_LENGTH);
        }
    }
    state.last_id = last_id;
    state.added = added.unwrap_or(state.added);
    if !max_deleted_id.is_zero() {
        state.max_deleted_id = max_deleted_id;
    }
    log.set_state(state);
    Ok(())
}

/// The fields and values of a new entry.
#[derive(Clone, Copy)]
struct FieldPairs<'a>(Arguments<'a>);

impl<'a> Iterator for FieldPairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let pair = (self.0.get(0)?, self.0.get(1)?);
        self.0 = self.0.tail(2);
        Some(pair)
    }
}

/// The id argument of XADD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewId {
    Given(StreamId),
    /// `time-*`.
    Time(u64),
    /// `*`.
    Any,
}

impl NewId {
    /// Returns the id of the new entry; an error if it is not greater than the last one.
    fn resolve(self, last_id: StreamId, now_ms: i64) -> Result<StreamId> {
        if last_id == StreamId::MAX {
            return Err(EXHAUSTED);
        }
        let id = match self {
            NewId::Given(id) => Some(id),
            NewId::Time(time_ms) if time_ms == last_id.time_ms => {
                let sequence = last_id.sequence.checked_add(1);
                sequence.map(|sequence| StreamId::new(time_ms, sequence))
            }
            NewId::Time(time_ms) => Some(StreamId::new(time_ms, 0)),
            NewId::Any => StreamId::generate(last_id, now_ms),
        };
        id.filter(|&id| id > last_id).ok_or(NOT_GREATER)
    }
}

/// Options of XADD and XTRIM, which come before the id.
struct AddOptions<'a> {
    trim: Option<Trim>,
    /// Position of the number or id to trim to.
    trim_at: usize,
    /// Position of the word LIMIT; a number follows it.
    limit_at: Option<usize>,
    references: References,
    /// NOMKSTREAM.
    only_existing: bool,
    /// IDMP or IDMPAUTO.
    producer: Option<ProducerOption<'a>>,
    id: NewId,
    /// Position of the id.
    id_at: usize,
}

impl<'a> AddOptions<'a> {
    fn parse(call: &Call<'a, '_, '_>, adds: bool) -> Result<Self> {
        let mut options = AddOptions {
            trim: None,
            trim_at: 0,
            limit_at: None,
            references: References::Keep,
            only_existing: false,
            producer: None,
            id: NewId::Any,
            id_at: call.arguments.len(),
        };
        let (mut limit, mut references) = (None, None);
        let mut at = 2;
        while at < call.arguments.len() {
            let option = call.argument(at);
            let has_value = at + 1 < call.arguments.len();
            if adds && option == b"*" {
                options.id_at = at;
                break;
            } else if has_value && (is(option, "maxlen") || is(option, "minid")) {
                if options.trim.is_some() {
                    return Err(BOTH_TRIMS);
                }
                at = options.parse_trim(call, at)?;
            } else if has_value && is(option, "limit") {
                options.limit_at = Some(at);
                at += 1;
                let count = u64::try_from(call.integer(at)?);
                limit = Some(count.map_err(|_| LIMIT_NEGATIVE)?);
            } else if let Some(named) = parse_references(option).filter(|_| references.is_none()) {
                references = Some(named);
            } else if adds && is(option, "nomkstream") {
                options.only_existing = true;
            } else if adds && let Some((producer, last_at)) = ProducerOption::parse(call, at)? {
                if options.producer.is_some() {
                    return Err(BOTH_PRODUCERS);
                }
                producer.check()?;
                options.producer = Some(producer);
                at = last_at;
            } else if adds {
                options.id = parse_new_id(option)?;
                // What a master or a log says has the id that was made.
                if options.producer.is_some() && !call.view.locked.keeps_due {
                    return Err(ID_WITH_PRODUCER);
                }
                options.id_at = at;
                break;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        options.references = references.unwrap_or(References::Keep);
        options.set_limit(call, limit, adds)?;
        Ok(options)
    }

    /// Parses MAXLEN or MINID and its value. Returns the position of the last word.
    fn parse_trim(&mut self, call: &Call<'_, '_, '_>, at: usize) -> Result<usize> {
        let mut value_at = at + 1;
        let mut approximate = false;
        if at + 2 < call.arguments.len() && matches!(call.argument(value_at), b"~" | b"=") {
            approximate = call.argument(value_at) == b"~";
            value_at += 1;
        }
        let to = if is(call.argument(at), "maxlen") {
            let length = u64::try_from(call.integer(value_at)?);
            TrimTo::Length(length.map_err(|_| LENGTH_NEGATIVE)?)
        } else {
            TrimTo::Id(parse_id(call.argument(value_at), 0)?)
        };
        self.trim = Some(Trim {
            to,
            approximate,
            limit: 0,
        });
        self.trim_at = value_at;
        Ok(value_at)
    }

    /// Propagates the id of the new entry, and the exact result of an approximate trim: entries may
    /// be grouped into other blocks elsewhere.
    fn propagate(&self, call: &mut Call<'_, '_, '_>, place: Place, id: Option<StreamId>) {
        let approximate = self.trim.filter(|trim| trim.approximate);
        let given = id.is_none() || matches!(self.id, NewId::Given(_));
        if approximate.is_none() && given {
            return;
        }
        let key = call.key(1);
        let log = &stream_at(call, key, place).log;
        let length = log.len();
        let oldest_id = if length == 0 {
            StreamId::MAX
        } else {
            log.first_id()
        };
        let (oldest_id, mut digits) = (oldest_id.text(), itoa::Buffer::new());
        let left = match approximate.map(|trim| trim.to) {
            Some(TrimTo::Id(_)) => oldest_id.as_bytes(),
            _ => digits.format(length).as_bytes(),
        };
        let id = id.map(StreamId::text);
        let mut words = Vec::with_capacity(call.arguments.len());
        for (at, word) in call.arguments.iter().enumerate() {
            let is_trim = approximate.is_some();
            let limit_at = self.limit_at.filter(|_| is_trim);
            match &id {
                Some(id) if at == self.id_at => words.push(id.as_bytes()),
                _ if limit_at.is_some_and(|limit| at == limit || at == limit + 1) => {}
                _ if is_trim && at == self.trim_at => words.push(left),
                _ if is_trim && at + 1 == self.trim_at => words.push(b"="),
                _ => words.push(word),
            }
        }
        call.propagate(words);
    }

    fn set_limit(&mut self, call: &Call<'_, '_, '_>, limit: Option<u64>, adds: bool) -> Result {
        let Some(trim) = &mut self.trim else {
            return match limit {
                Some(1..) => Err(LIMIT_WITHOUT_TRIM),
                _ if !adds => Err(NO_TRIM),
                Some(0) => Err(LIMIT_OF_EXACT),
                None => Ok(()),
            };
        };
        match limit {
            // Redis propagates `~ N LIMIT M` as `= N LIMIT M`; N is the result of its own limit.
            _ if call.view.locked.keeps_due => trim.limit = 0,
            Some(_) if !trim.approximate => return Err(LIMIT_OF_EXACT),
            Some(limit) => trim.limit = limit,
            None if trim.approximate => trim.limit = call.view.keyspace.stream_trim_limit(),
            None => {}
        }
        Ok(())
    }
}

/// The option IDMP or IDMPAUTO of XADD.
#[derive(Clone, Copy)]
struct ProducerOption<'a> {
    name: &'a [u8],
    /// The producer's id of the entry; `None` if it is a digest of its fields and values.
    id: Option<&'a [u8]>,
}

impl<'a> ProducerOption<'a> {
    /// Parses the option at a position; returns it with the position of its last word.
    fn parse(call: &Call<'a, '_, '_>, at: usize) -> Result<Option<(Self, usize)>> {
        let values = call.arguments.len() - at - 1;
        let option = call.argument(at);
        let (id, last_at) = if values >= 1 && is(option, "idmpauto") {
            (None, at + 1)
        } else if values >= 2 && is(option, "idmp") {
            (Some(call.argument(at + 2)), at + 2)
        } else {
            return Ok(None);
        };
        let name = call.argument(at + 1);
        Ok(Some((ProducerOption { name, id }, last_at)))
    }

    fn check(&self) -> Result {
        match self {
            ProducerOption {
                name: b"",
                id: None,
            } => Err(AUTOMATIC_WITHOUT_NAME),
            ProducerOption { name: b"", .. } => Err(PRODUCER_WITHOUT_NAME),
            ProducerOption { id: Some(b""), .. } => Err(PRODUCER_WITHOUT_ID),
            _ => Ok(()),
        }
    }

    /// Returns the producer's id of an entry with these fields.
    fn id(&self, fields: FieldPairs<'_>) -> Vec<u8> {
        match self.id {
            Some(id) => id.to_vec(),
            None => digest_of_fields(fields).to_vec(),
        }
    }
}

/// Returns a digest of fields and values that does not depend on their order: that of Redis, so
/// that ids in its files and streams are found again here.
fn digest_of_fields(fields: FieldPairs<'_>) -> [u8; 16] {
    let (mut sum_low, mut sum_high) = (0u64, 0u64);
    let (mut xor_low, mut xor_high) = (0, 0);
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.clear();
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value);
        let digest = xxhash_rust::xxh3::xxh3_128(&bytes);
        let (low, high) = (digest as u64, (digest >> 64) as u64);
        (sum_low, sum_high) = (sum_low.wrapping_add(low), sum_high.wrapping_add(high));
        (xor_low, xor_high) = (xor_low ^ low, xor_high ^ high);
    }
    let low = sum_low ^ xor_high.rotate_left(1);
    let high = sum_high ^ xor_low.rotate_left(1);
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

/// Parses KEEPREF, DELREF or ACKED.
pub(super) fn parse_references(option: &[u8]) -> Option<References> {
    match option {
        _ if is(option, "keepref") => Some(References::Keep),
        _ if is(option, "delref") => Some(References::Delete),
        _ if is(option, "acked") => Some(References::Acknowledged),
        _ => None,
    }
}

fn parse_new_id(text: &[u8]) -> Result<NewId> {
    match StreamId::parse_open(text) {
        Some(time_ms) => Ok(NewId::Time(time_ms)),
        None => StreamId::parse(text, 0).map(NewId::Given).ok_or(INVALID_ID),
    }
}

/// Maximum bytes of an entry's fields and values together.
const TEXT_BYTES_MAX: usize = 1 << 30;

const ID_ZERO: CommandError =
    CommandError::Refused("ERR The ID specified in XADD must be greater than 0-0");
const EXHAUSTED: CommandError = CommandError::Refused(
    "ERR The stream has exhausted the last possible ID, unable to add more items",
);
const NOT_GREATER: CommandError = CommandError::Refused(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);
const BOTH_PRODUCERS: CommandError =
    CommandError::Refused("ERR syntax error, IDMP/IDMPAUTO specified multiple times");
const AUTOMATIC_WITHOUT_NAME: CommandError =
    CommandError::Refused("ERR syntax error, IDMPAUTO requires a non-empty producer ID");
const PRODUCER_WITHOUT_NAME: CommandError =
    CommandError::Refused("ERR syntax error, IDMP requires a non-empty producer ID");
const PRODUCER_WITHOUT_ID: CommandError =
    CommandError::Refused("ERR syntax error, IDMP requires a non-empty idempotent ID");
const ID_WITH_PRODUCER: CommandError = CommandError::Refused(
    "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs",
);
const TOO_LARGE: CommandError = CommandError::Refused("ERR Elements are too large to be stored");
const BOTH_TRIMS: CommandError = CommandError::Refused(
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
);
const LENGTH_NEGATIVE: CommandError =
    CommandError::Refused("ERR The MAXLEN argument must be >= 0.");
const LIMIT_NEGATIVE: CommandError = CommandError::Refused("ERR The LIMIT argument must be >= 0.");
const LIMIT_WITHOUT_TRIM: CommandError = CommandError::Refused(
    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
);
const LIMIT_OF_EXACT: CommandError =
    CommandError::Refused("ERR syntax error, LIMIT cannot be used without the special ~ option");
const NO_TRIM: CommandError =
    CommandError::Refused("ERR syntax error, XTRIM must be called with a trimming strategy");
const ADDED_NEGATIVE: CommandError = CommandError::Refused("ERR entries_added must be positive");
const ADDED_BELOW_LENGTH: CommandError = CommandError::Refused(
    "ERR The entries_added specified in XSETID is smaller than the target stream length",
);
const BELOW_GIVEN_DELETED: CommandError = CommandError::Refused(
    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
);
const BELOW_DELETED: CommandError = CommandError::Refused(
    "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
);
const BELOW_NEWEST: CommandError = CommandError::Refused(
    "ERR The ID specified in XSETID is smaller than the target stream top item",
);
