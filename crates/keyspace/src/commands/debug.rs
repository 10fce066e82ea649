//! MEMORY USAGE, and the data subcommands of DEBUG.

use super::options::{Words, integer, positive};
use super::{Call, Command, Locks, table};
use crate::access;
use crate::digest::Digest;
use crate::error::{CommandError, Result};
use crate::key::{DATABASES, SHARDS};
use crate::list::List;

use crate::observer::Event;
use crate::serial;

use crate::value::{ValueRef, string_value};
use crate::view::Expiry;

/// Executes MEMORY USAGE. The size of a large value is estimated from a few of its parts.
pub(super) fn memory_usage(call: &mut Call<'_, '_, '_>) -> Result {
    let mut samples = SAMPLES;
    let mut words = Words::new(call.arguments, 3);
    while let Some(option) = words.next() {
        let value = words
            .value_of(option, "samples")
            .ok_or(CommandError::Syntax)?;
        samples = match usize::try_from(integer(value)?) {
            Ok(0) => usize::MAX,
            Ok(samples) => samples,
            Err(_) => return Err(CommandError::Syntax),
        };
    }
    call.view.touches = false;
    call.view.counts_reads = false;
    let key = call.key(2);
    match call.view.read(key) {
        Some(value) => {
            let beyond = match value.entry().object() {
                Some(_) => OBJECT_BYTES + value_bytes(value, samples),
                None => 0,
            };
            let bytes = SLOT_BYTES + value.entry().block_bytes() + beyond;
            call.reply.integer(bytes as i64);
        }
        None => call.reply.null(),
    }
    Ok(())
}

/// Returns the data command of a DEBUG request, if there is one. `name` is the second argument in
/// lower case.
pub fn debug_command(name: &str, count: usize) -> Option<&'static Command> {
    let (name, count) = (format!("debug|{name}"), count as i16);
    PARTS.iter().find(|part| {
        let enough = match part.arity {
            least @ ..0 => count >= -least,
            exact => count == exact,
        };
        enough && part.full_name == name
    })
}

/// Not in the command table: COMMAND shows DEBUG as one command.
static PARTS: &[Command] = &[
    table::debug_part("debug|digest", 2, Locks::All, digest),
    table::debug_part("debug|digest-value", -2, Locks::All, digest_value),
    table::debug_part("debug|htstats", -3, Locks::All, htstats),
    table::debug_part("debug|htstats-key", -3, Locks::All, htstats_key),
    table::debug_part("debug|listpack", 3, Locks::All, listpack),
    table::debug_part("debug|object", 3, Locks::All, object),
    table::debug_part("debug|populate", -3, Locks::All, populate),
    table::debug_part("debug|quicklist", -3, Locks::All, quicklist),
];

/// Computes a digest of all keys of all databases.
fn digest(call: &mut Call<'_, '_, '_>) -> Result {
    let mut digest = Digest::default();
    for database in 0..DATABASES {
        let mut of_keys = Vec::new();
        for shard in 0..SHARDS {
            call.view.visit_shard(shard, |shard, _| {
                for entry in shard.databases[database].table.iter() {
                    let mut of_key = Digest::default();
                    of_key.mix(entry.key());
                    of_key.add_value(entry);
                    of_keys.push(of_key);
                }
            });
        }
        if !of_keys.is_empty() {
            digest.mix(&(database as u32).to_be_bytes());
            of_keys
                .into_iter()
                .for_each(|of_key| digest.xor_digest(of_key));
        }
    }
    call.reply.simple(&digest.text());
    Ok(())
}

fn digest_value(call: &mut Call<'_, '_, '_>) -> Result {
    call.reply.array(call.arguments.len() - 2);
    for at in call.rest(2) {
        let key = call.key(at);
        let mut digest = Digest::default();
        if let Some(place) = call.view.find(key) {
            digest.add_value(call.view.entry(key, place));
        }
        call.reply.simple(&digest.text());
    }
    Ok(())
}

fn htstats(call: &mut Call<'_, '_, '_>) -> Result {
    let database = usize::try_from(call.integer(2)?).ok();
    let database = database.filter(|&database| database < DATABASES);
    let database = database.ok_or(CommandError::Refused("ERR Out of range database"))?;
    let (mut slots, mut keys, mut expiring) = (0, 0, 0);
    for shard in 0..SHARDS {
        call.view.visit_shard(shard, |shard, _| {
            let dictionary = &shard.databases[database];
            slots += dictionary.table.slots();
            keys += dictionary.table.len();
            expiring += dictionary.expiring();
        });
    }
    let text = format!(
        "[Dictionary HT]\n{}[Expires HT]\n{}",
        table_text(slots, keys),
        table_text(expiring, expiring)
    );
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn htstats_key(call: &mut Call<'_, '_, '_>) -> Result {
    let value = value_of(call)?;
    let encoding = value.encoding();
    let (slots, keys) = match (value.fields(), value.items(), value.sorted_set()) {
        _ if !["hashtable", "skiplist"].contains(&encoding) => return Err(NOT_A_TABLE),
        (Some(fields), ..) => (
            fields.table().map_or(0, |table| table.slots()),
            fields.len(),
        ),
        (_, Some(items), _) => (items.len(), items.len()),
        (.., Some(scored)) => (scored.len(), scored.len()),
        _ => return Err(NOT_A_TABLE),
    };
    let text = table_text(slots, keys);
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn table_text(slots: usize, keys: usize) -> String {
    match keys {
        0 => "No stats available for empty dictionaries\n".to_owned(),
        _ => format!(
            "Hash table 0 stats (main hash table):\n table size: {slots}\n number of elements: \
             {keys}\n"
        ),
    }
}

fn listpack(call: &mut Call<'_, '_, '_>) -> Result {
    if !value_of(call)?.encoding().starts_with("listpack") {
        return Err(CommandError::Refused("ERR Not a listpack encoded object."));
    }
    call.reply.simple("Listpack structure is one packed block");
    Ok(())
}

fn quicklist(call: &mut Call<'_, '_, '_>) -> Result {
    match value_of(call)?.list() {
        Some(List::Quick(list)) => {
            let text = format!("Quicklist structure of {} chunks", list.chunks());
            call.reply.simple(&text);
            Ok(())
        }
        _ => Err(CommandError::Refused("ERR Not a quicklist encoded object.")),
    }
}

fn object(call: &mut Call<'_, '_, '_>) -> Result {
    let lists = call.view.keyspace.list_limits();
    let compressed = u8::from(call.view.keyspace.claims_compression());
    let now_ms = call.view.now_ms;
    call.view.touches = false;
    let key = call.key(2);
    let just_used = call.view.access().initial(call.view.clock_ms);
    let is_mounted = call.view.check_writable(key.bytes).is_err();
    let (value, used) = if is_mounted {
        // A topic of a live source counts as used now, and its hash is built for this call.
        let value = call.view.read(key).ok_or(CommandError::NoSuchKey)?;
        (value, just_used)
    } else {
        // An expired key is shown too, until it is removed.
        let entry = call.view.peek_stored(key).ok_or(CommandError::NoSuchKey)?;
        (ValueRef::at(entry, now_ms), entry.access())
    };
    let mut text = format!(
        "Value at:{:p} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
        value.entry().key().as_ptr(),
        value.encoding(),
        serial::dump(value)
            .len()
            .saturating_sub(FOOTER_AND_TYPE_BYTES),
        used,
        access::idle_s(used, now_ms),
    );
    if let Some(List::Quick(list)) = value.list() {
        let chunks = list.chunks();
        let average = list.len() as f64 / chunks.max(1) as f64;
        let most = match lists.count_max {
            usize::MAX => 11 - i64::from(lists.bytes_max.max(1).ilog2()),
            count => count as i64,
        };
        let bytes: usize = (0..chunks).map(|chunk| list.run(chunk).len()).sum();
        text += &format!(
            " ql_nodes:{chunks} ql_avg_node:{average:.2} ql_listpack_max:{most} \
             ql_compressed:{compressed} ql_uncompressed_size:{bytes}"
        );
    }
    call.reply.simple(&text);
    Ok(())
}

fn populate(call: &mut Call<'_, '_, '_>) -> Result {
    let count = positive(call.argument(2))?;
    if call.arguments.len() > 5 {
        return Err(CommandError::Syntax);
    }
    let size = call.arguments.get(4).map(positive).transpose()?;
    let size = size.filter(|&size| size > 0).map(|size| size as usize);
    if size.is_some_and(|size| size > call.view.keyspace.string_bytes_max) {
        return Err(CommandError::StringTooLong);
    }
    let prefix = call.arguments.get(3).unwrap_or(b"key");
    for number in 0..count {
        let name = [prefix, b":", number.to_string().as_bytes()].concat();
        let key = call.view.key(&name);
        if call.view.find(key).is_some() {
            continue;
        }
        let mut text = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            text.resize(size, 0);
        }
        let place = call.view.set(key, string_value(&text), Expiry::Clear);
        call.view.changed(key, place, Event::Set);
    }
    call.reply.ok();
    Ok(())
}

fn value_of<'v>(call: &'v mut Call<'_, '_, '_>) -> Result<ValueRef<'v>> {
    call.view.touches = false;
    let key = call.key(2);
    call.view.read(key).ok_or(CommandError::NoSuchKey)
}

/// Returns the approximate size of a value beyond its entry.
fn value_bytes(value: ValueRef<'_>, samples: usize) -> usize {
    if let Some(scored) = value.sorted_set() {
        let bytes = scored
            .iter()
            .map(|(member, _)| member.as_bytes().len() + SCORE_BYTES);
        return scaled(bytes, scored.len(), samples, value.encoding());
    }
    if let Some(text) = value.text() {
        return text.as_bytes().len();
    }
    if let Some(fields) = value.fields() {
        let bytes = fields
            .iter()
            .map(|(field, value)| field.len() + value.len());
        return scaled(bytes, fields.len(), samples, value.encoding());
    }
    if let Some(items) = value.items() {
        let bytes = items.iter().map(|item| item.as_bytes().len());
        return scaled(bytes, items.len(), samples, value.encoding());
    }
    value
        .stream()
        .map_or(0, |stream| stream.memory_bytes(samples))
}

fn scaled(
    parts: impl Iterator<Item = usize>,
    count: usize,
    samples: usize,
    encoding: &str,
) -> usize {
    let samples = samples.min(count).max(1);
    let sampled: usize = parts.take(samples).sum();
    let overhead = match encoding {
        "hashtable" | "skiplist" => ENTRY_BYTES,
        _ => PACKED_BYTES,
    };
    (sampled as f64 / samples as f64 * count as f64) as usize + count * overhead
}

const NOT_A_TABLE: CommandError = CommandError::Refused(
    "ERR The value stored at the specified key is not represented using an hash table",
);

/// A key's share of its table: a tag, a pointer, and a share of the free slots.
const SLOT_BYTES: usize = 12;
/// Overhead of a large value beside its parts.
const OBJECT_BYTES: usize = 64;
/// Bytes that DUMP adds to the value.
const FOOTER_AND_TYPE_BYTES: usize = 11;
const SCORE_BYTES: usize = 8;
/// Default for SAMPLES: the number of parts to measure.
const SAMPLES: usize = 5;
/// An entry's header and its slot in the table.
const ENTRY_BYTES: usize = 32;
/// Overhead of a part of a packed value.
const PACKED_BYTES: usize = 3;
