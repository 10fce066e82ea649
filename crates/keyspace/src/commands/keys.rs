//! Commands on keys of any type, and on whole databases.

use tidewire_resp::number::parse_integer;

use super::Call;
use super::options::{Words, is};
use crate::access::{self, Access};
use crate::entry::Entry;
use crate::error::{CommandError, Result};
use crate::key::{DATABASES, Key, SHARDS};

use crate::observer::{Event, Observer};
use crate::reclaim::Cause;
use crate::shard::{Dictionary, Shard};
use crate::value::ValueRef;

pub(super) fn del(call: &mut Call<'_, '_, '_>) -> Result {
    let mut count = 0;
    for at in call.rest(1) {
        let key = call.key(at);
        count += i64::from(call.view.delete(key, Event::Delete));
    }
    call.reply.integer(count);
    Ok(())
}

/// Executes TOUCH. It counts as a use of the keys even under CLIENT NO-TOUCH.
pub(super) fn touch(call: &mut Call<'_, '_, '_>) -> Result {
    call.view.touches = true;
    count_present(call)
}

pub(super) fn unlink(call: &mut Call<'_, '_, '_>) -> Result {
    let mut count = 0;
    for at in call.rest(1) {
        let key = call.key(at);
        count += i64::from(call.view.delete_for(key, Event::Delete, Cause::Unlink));
    }
    call.reply.integer(count);
    Ok(())
}

pub(super) fn exists(call: &mut Call<'_, '_, '_>) -> Result {
    call.view.touches = false;
    count_present(call)
}

fn count_present(call: &mut Call<'_, '_, '_>) -> Result {
    let mut count = 0;
    for at in call.rest(1) {
        let key = call.key(at);
        count += i64::from(call.view.exists(key));
    }
    call.reply.integer(count);
    Ok(())
}

pub(super) fn type_of(call: &mut Call<'_, '_, '_>) -> Result {
    call.view.touches = false;
    let key = call.key(1);
    let name = call
        .view
        .read(key)
        .map_or("none", |value| value.value_type().name());
    call.reply.simple(name);
    Ok(())
}

pub(super) fn randomkey(call: &mut Call<'_, '_, '_>) -> Result {
    // The client did not ask for the key that is found.
    call.view.counts_reads = false;
    call.view.touches = false;
    // If the drawn key has just expired, it is removed and another one is drawn.
    while let Some(name) = call.view.random_name() {
        let key = call.view.key(&name);
        let stays = call.view.keyspace.is_expiry_paused(call.view.now_ms);
        if stays || call.view.exists(key) {
            call.reply.bulk(&name);
            return Ok(());
        }
    }
    call.reply.null();
    Ok(())
}

pub(super) fn rename(call: &mut Call<'_, '_, '_>) -> Result {
    let (from, to) = (call.key(1), call.key(2));
    let place = call.view.find(from).ok_or(CommandError::NoSuchKey)?;
    if from.bytes != to.bytes {
        let entry = call.view.remove(from, place, Event::RenameFrom);
        settle(call, to, entry, Event::RenameTo);
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn renamenx(call: &mut Call<'_, '_, '_>) -> Result {
    let (from, to) = (call.key(1), call.key(2));
    call.view.find(from).ok_or(CommandError::NoSuchKey)?;
    let free = call.view.find(to).is_none();
    if free && let Some(place) = call.view.find(from) {
        let entry = call.view.remove(from, place, Event::RenameFrom);
        settle(call, to, entry, Event::RenameTo);
    }
    call.reply.integer(i64::from(free));
    Ok(())
}

pub(super) fn copy(call: &mut Call<'_, '_, '_>) -> Result {
    if call.view.is_closed() {
        return Err(CommandError::Loading);
    }
    let home = call.view.database;
    let (mut target, mut replace) = (home, false);
    let mut words = Words::new(call.arguments, 3);
    while let Some(option) = words.next() {
        if is(option, "replace") {
            replace = true;
        } else if let Some(value) = words.value_of(option, "db") {
            target = database(value)?;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let (from, to) = (call.key(1), call.key(2));
    if from.bytes == to.bytes && target == home {
        return Err(CommandError::SameObject);
    }
    call.view.database = target;
    let writable = call.view.check_writable(to.bytes);
    let free = replace || call.view.find(to).is_none();
    call.view.database = home;
    writable?;
    let copy = call.view.exists(from) && free;
    call.view.counts_reads = false;
    if copy && let Some((entry, deadline_ms)) = call.view.duplicate(from, to) {
        call.view.database = target;
        put(call, to, entry, deadline_ms, Event::CopyTo);
        call.view.database = home;
    }
    call.reply.integer(i64::from(copy));
    Ok(())
}

pub(super) fn move_to(call: &mut Call<'_, '_, '_>) -> Result {
    let home = call.view.database;
    let target = database(call.argument(2))?;
    if target == home {
        return Err(CommandError::SameObject);
    }
    let key = call.key(1);
    call.view.database = target;
    let writable = call.view.check_writable(key.bytes);
    let free = call.view.find(key).is_none();
    call.view.database = home;
    writable?;
    let mut moved = false;
    if free && let Some(place) = call.view.find(key) {
        let entry = call.view.remove(key, place, Event::MoveFrom);
        call.view.database = target;
        settle(call, key, entry, Event::MoveTo);
        call.view.database = home;
        moved = true;
    }
    call.reply.integer(i64::from(moved));
    Ok(())
}

pub(super) fn dbsize(call: &mut Call<'_, '_, '_>) -> Result {
    let keys: usize = (0..SHARDS)
        .map(|shard| call.view.visit(shard, |dictionary| dictionary.table.len()))
        .sum();
    call.reply.integer((keys + call.view.topic_count()) as i64);
    Ok(())
}

pub(super) fn flushdb(call: &mut Call<'_, '_, '_>) -> Result {
    check_flush_options(call)?;
    let database = call.view.database;
    flush(call, database..database + 1);
    call.reply.ok();
    Ok(())
}

pub(super) fn flushall(call: &mut Call<'_, '_, '_>) -> Result {
    check_flush_options(call)?;
    flush(call, 0..DATABASES);
    let flushes = &call.view.keyspace.flushes;
    flushes.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
    call.reply.ok();
    Ok(())
}

pub(super) fn swapdb(call: &mut Call<'_, '_, '_>) -> Result {
    let first = number(call.argument(1), CommandError::InvalidFirstDatabase)?;
    let second = number(call.argument(2), CommandError::InvalidSecondDatabase)?;
    let (first, second) = (database_of(first)?, database_of(second)?);
    if call.view.is_closed() {
        return Err(CommandError::Loading);
    }
    if first != second && first.min(second) == 0 {
        keep_mounts_out(call, first + second)?;
    }
    call.view.is_dirty = true;
    if first != second {
        let keyspace = call.view.keyspace;
        let live_names = |key: &[u8]| keyspace.has_live_name(key);
        for shard in 0..SHARDS {
            touch_all(call, shard, &[first, second]);
            call.view.visit_shard(shard, |shard, observer| {
                shard.databases.swap(first, second);
                if let Some(mark) = &mut shard.mark {
                    mark.swap(first, second);
                }
                if first == 0 || second == 0 {
                    relive(shard, first + second, live_names, observer);
                }
            });
        }
        call.view.forget_reads();
    }
    call.reply.ok();
    Ok(())
}

/// Checks that another database can become database 0: no key there may have a name that belongs to
/// a live source. A client's request is refused; a propagated command deletes such keys.
fn keep_mounts_out(call: &mut Call<'_, '_, '_>, other: usize) -> Result {
    let keyspace = call.view.keyspace;
    if keyspace.mounts().is_empty() {
        return Ok(());
    }
    if !call.view.locked.keeps_due {
        let found = keyspace.mounted_names(call.view.locked, other, 1);
        return match found.first() {
            Some(name) => Err(CommandError::RefusedWith(
                format!(
                    "READONLY database {other} holds '{}', a name that belongs to a live source in \
                     database 0: remove such keys first",
                    name.escape_ascii()
                )
                .into(),
            )),
            None => Ok(()),
        };
    }
    let names = keyspace.mounted_names(call.view.locked, other, usize::MAX);
    let home = std::mem::replace(&mut call.view.database, other);
    for name in &names {
        let key = call.view.key(name);
        call.view.delete(key, Event::Delete);
    }
    call.view.database = home;
    keyspace.note_left_out(names.len() as u64);
    Ok(())
}

pub(super) fn object_encoding(call: &mut Call<'_, '_, '_>) -> Result {
    call.view.touches = false;
    call.view.notifies_missing = false;
    let key = call.key(2);
    let follows_valkey = call.view.keyspace.follows_valkey();
    match call.view.read(key).map(ValueRef::encoding) {
        // A hash with TTLs is never small in Valkey.
        Some("listpackex") if follows_valkey => call.reply.bulk(b"hashtable"),
        Some(encoding) => call.reply.bulk(encoding.as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn object_refcount(call: &mut Call<'_, '_, '_>) -> Result {
    call.view.touches = false;
    call.view.notifies_missing = false;
    let key = call.key(2);
    let shared = call.view.keyspace.shares_integers()
        && matches!(
            call.view.read(key).and_then(|value| value.integer()),
            Some(0..10_000)
        );
    // Redis shares small integers between all keys and does not count their references.
    reply_number_of_object(call, if shared { i64::from(i32::MAX) } else { 1 })
}

pub(super) fn object_idletime(call: &mut Call<'_, '_, '_>) -> Result {
    reply_use(call, |used, access, now_ms| match access.counts() {
        true => Err(CommandError::NoIdleTime),
        false => Ok(access::idle_s(used, now_ms)),
    })
}

pub(super) fn object_freq(call: &mut Call<'_, '_, '_>) -> Result {
    reply_use(call, |used, access, now_ms| match access.counts() {
        true => Ok(access.frequency(used, now_ms).into()),
        false => Err(CommandError::NoFrequency),
    })
}

/// Replies what `read` computes from the access bits of a key. A topic counts as used now.
fn reply_use(
    call: &mut Call<'_, '_, '_>,
    read: impl Fn(u32, Access, i64) -> Result<u32>,
) -> Result {
    call.view.touches = false;
    call.view.notifies_missing = false;
    let key = call.key(2);
    let now_ms = call.view.clock_ms;
    if !call.view.exists(key) {
        call.reply.null();
        return Ok(());
    }
    let access = call.view.access();
    let used = match call.view.access_of(key) {
        Some(used) => used,
        None => access.initial(now_ms),
    };
    call.reply.integer(read(used, access, now_ms)?.into());
    Ok(())
}

pub(super) fn object_help(call: &mut Call<'_, '_, '_>) -> Result {
    super::introspection::reply_help(
        call,
        &[
            "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "ENCODING <key>",
            "    Return the kind of internal representation used in order to store the value",
            "    associated with a <key>.",
            "FREQ <key>",
            "    Return the access frequency index of the <key>. The returned integer is",
            "    proportional to the logarithm of the recent access frequency of the key.",
            "IDLETIME <key>",
            "    Return the idle time of the <key>, that is the approximated number of",
            "    seconds elapsed since the last access to the key.",
            "REFCOUNT <key>",
            "    Return the number of references of the value associated with the specified",
            "    <key>.",
        ],
    );
    Ok(())
}

fn reply_number_of_object(call: &mut Call<'_, '_, '_>, number: i64) -> Result {
    let key = call.key(2);
    if call.view.exists(key) {
        call.reply.integer(number);
    } else {
        call.reply.null();
    }
    Ok(())
}

/// Stores a moved entry under a new name, with its TTL.
fn settle(call: &mut Call<'_, '_, '_>, key: Key<'_>, entry: Entry, event: Event) {
    let deadline_ms = entry.deadline_ms();
    let entry = entry.renamed(key.hash, key.bytes);
    put(call, key, entry, deadline_ms, event);
}

/// Stores an entry for a key, and drops the old value without an event.
pub(super) fn put(
    call: &mut Call<'_, '_, '_>,
    key: Key<'_>,
    entry: Entry,
    deadline_ms: Option<i64>,
    event: Event,
) {
    debug_assert!(!entry.is_live(), "a name makes a key live, not its value");
    debug_assert!(entry.deadline_ms().is_none(), "the TTL is set separately");
    let there = call.view.find(key).is_some();
    let place = call.view.replace(key, entry);
    if there {
        // To Redis, it is a new key.
        call.view.notify(key, Event::New);
    }
    call.view.set_deadline(key, place, deadline_ms);
    call.view.changed(key, place, event);
}

fn database(argument: &[u8]) -> Result<usize> {
    number(argument, CommandError::NotInteger).and_then(database_of)
}

fn database_of(number: i32) -> Result<usize> {
    usize::try_from(number)
        .ok()
        .filter(|&number| number < DATABASES)
        .ok_or(CommandError::DatabaseOutOfRange)
}

fn number(argument: &[u8], not_a_number: CommandError) -> Result<i32> {
    let out_of_range = match not_a_number {
        CommandError::NotInteger => CommandError::IntegerOutOfRange,
        ref other => other.clone(),
    };
    let number = parse_integer(argument).ok_or(not_a_number)?;
    i32::try_from(number).map_err(|_| out_of_range)
}

fn check_flush_options(call: &Call<'_, '_, '_>) -> Result {
    if call.view.is_closed() {
        return Err(CommandError::Loading);
    }
    match call.arguments.get(1) {
        None => Ok(()),
        Some(option)
            if call.arguments.len() == 2 && (is(option, "sync") || is(option, "async")) =>
        {
            Ok(())
        }
        Some(_) => Err(CommandError::Syntax),
    }
}

fn flush(call: &mut Call<'_, '_, '_>, databases: std::ops::Range<usize>) {
    // Propagated even if no key existed.
    call.view.is_dirty = true;
    let is_lazy = match call.arguments.get(1) {
        Some(option) => is(option, "async"),
        None => call.view.keyspace.reclaimer.is_lazy(Cause::Flush),
    };
    for (shard, database) in
        (0..SHARDS).flat_map(|shard| databases.clone().map(move |d| (shard, d)))
    {
        touch_all(call, shard, &[database]);
        let emptied = call.view.visit_shard(shard, |shard, observer| {
            shard.changes += shard.databases[database].table.len() as u64;
            if database == 0 {
                observer.renewed(std::mem::take(&mut shard.live));
            }
            let emptied = std::mem::replace(&mut shard.databases[database], Dictionary::new());
            match &mut shard.mark {
                Some(mark) => mark.keep_emptied(database, emptied),
                None => Some(emptied),
            }
        });
        if let Some(emptied) = emptied.filter(|emptied| emptied.table.len() > 0) {
            call.view.dispose_dictionary(emptied, is_lazy);
        }
    }
    call.view.forget_reads();
}

/// Notifies clients that watch or wait for an existing key of these databases. Expired keys do not
/// count.
fn touch_all(call: &mut Call<'_, '_, '_>, shard: usize, databases: &[usize]) {
    let (home, now_ms) = (call.view.database, call.view.now_ms);
    for &database in databases {
        call.view.database = database;
        call.view.touch_all(shard, |shard, key| {
            databases.iter().any(|&other| {
                let table = &shard.databases[other].table;
                let place = table.find(key.hash, key.bytes);
                place.is_some_and(|place| {
                    let deadline_ms = table.entry(place).deadline_ms();
                    deadline_ms.is_none_or(|deadline_ms| deadline_ms > now_ms)
                })
            })
        });
    }
    call.view.database = home;
}

/// Restores the live keys after database 0 was swapped with another one.
fn relive(
    shard: &mut Shard,
    other: usize,
    has_live_name: impl Fn(&[u8]) -> bool,
    observer: &mut dyn Observer,
) {
    let mut renewed = std::mem::take(&mut shard.live);
    shard.databases[other]
        .table
        .iter_mut()
        .for_each(|entry| entry.set_live(false));
    for entry in shard.databases[0].table.iter_mut() {
        if has_live_name(entry.key()) {
            entry.set_live(true);
            shard.live.insert(entry.key().into());
            renewed.insert(entry.key().into());
        }
    }
    observer.renewed(renewed);
}
