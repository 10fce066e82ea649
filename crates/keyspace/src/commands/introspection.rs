//! COMMAND and its subcommands, generated from the command table, and TIME.

use tidewire_resp::{Arguments, Writer};

use super::options::is;
use super::syntax::{arguments_of, reply_arguments};
use super::{Call, Command, Flags, KeySpec, Run, lookup, lookup_full, table};
use crate::command::check_arity;
use crate::error::{CommandError, Result};

pub(super) fn time(call: &mut Call<'_, '_, '_>) -> Result {
    let now_ms = call.view.clock_ms;
    call.reply.array(2);
    call.reply.bulk_integer(now_ms.div_euclid(1_000));
    call.reply.bulk_integer(now_ms.rem_euclid(1_000) * 1_000);
    Ok(())
}

pub(super) fn command(call: &mut Call<'_, '_, '_>) -> Result {
    let no_parts = no_parts(call);
    call.reply.array(table::all().count());
    table::all().for_each(|command| describe(call.reply, command, no_parts));
    Ok(())
}

pub(super) fn count(call: &mut Call<'_, '_, '_>) -> Result {
    call.reply.integer(table::all().count() as i64);
    Ok(())
}

pub(super) fn info(call: &mut Call<'_, '_, '_>) -> Result {
    if call.arguments.len() == 2 {
        return command(call);
    }
    let no_parts = no_parts(call);
    call.reply.array(call.arguments.len() - 2);
    for at in call.rest(2) {
        match lookup_full(call.argument(at)) {
            Some(command) => describe(call.reply, command, no_parts),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn docs(call: &mut Call<'_, '_, '_>) -> Result {
    if call.arguments.len() == 2 {
        call.reply.map(table::all().count());
        table::all().for_each(|command| document(call.reply, command));
        return Ok(());
    }
    let mark = call.reply.map_later();
    let mut count = 0;
    for at in call.rest(2) {
        if let Some(command) = lookup_full(call.argument(at)) {
            document(call.reply, command);
            count += 1;
        }
    }
    call.reply.finish(mark, count);
    Ok(())
}

pub(super) fn list(call: &mut Call<'_, '_, '_>) -> Result {
    let accepts: Box<dyn Fn(&Command) -> bool> = match call.arguments.len() {
        2 => Box::new(|_| true),
        5 if is(call.argument(2), "filterby") => {
            let argument = call.argument(4);
            let kind = call.argument(3);
            if is(kind, "pattern") {
                // Names in the table are in lower case.
                let pattern = argument.to_ascii_lowercase();
                Box::new(move |command| {
                    crate::glob::matches(&pattern, command.full_name.as_bytes())
                })
            } else if is(kind, "aclcat") {
                Box::new(move |command| categories(command).any(|name| is(argument, name)))
            } else if is(kind, "module") {
                Box::new(|_| false)
            } else {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    let mark = call.reply.array_later();
    let mut count = 0;
    for command in table::with_parts() {
        if accepts(command) {
            call.reply.bulk(command.full_name.as_bytes());
            count += 1;
        }
    }
    call.reply.finish(mark, count);
    Ok(())
}

pub(super) fn getkeys(call: &mut Call<'_, '_, '_>) -> Result {
    let positions = keys_of(call)?;
    call.reply.array(positions.len());
    for (at, _) in positions {
        call.reply.bulk(call.argument(at));
    }
    Ok(())
}

pub(super) fn getkeysandflags(call: &mut Call<'_, '_, '_>) -> Result {
    let positions = keys_of(call)?;
    call.reply.array(positions.len());
    for (at, flags) in positions {
        call.reply.array(2);
        call.reply.bulk(call.argument(at));
        reply_words(call.reply, flags);
    }
    Ok(())
}

pub(super) fn help(call: &mut Call<'_, '_, '_>) -> Result {
    reply_help(
        call,
        &[
            "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "(no subcommand)",
            "    Return details about all Redis commands.",
            "COUNT",
            "    Return the total number of commands in this Redis server.",
            "LIST",
            "    Return a list of all commands in this Redis server.",
            "INFO [<command-name> ...]",
            "    Return details about multiple Redis commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "DOCS [<command-name> ...]",
            "    Return documentation details about multiple Redis commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "GETKEYS <full-command>",
            "    Return the keys from a full Redis command.",
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys and the access flags from a full Redis command.",
        ],
    );
    Ok(())
}

/// Replies help lines, and the line for HELP itself.
pub(super) fn reply_help(call: &mut Call<'_, '_, '_>, lines: &[&str]) {
    call.reply.array(lines.len() + 2);
    lines.iter().for_each(|line| call.reply.simple(line));
    call.reply.simple("HELP");
    call.reply.simple("    Print this help.");
}

/// Returns the keys of the command in the arguments from the third on.
fn keys_of(call: &Call<'_, '_, '_>) -> Result<Vec<(usize, &'static str)>> {
    let request = call.arguments.tail(2);
    let mut command = lookup(call.argument(2)).ok_or(CommandError::InvalidCommand)?;
    if let Some(name) = request.get(1)
        && command.is_container()
    {
        command = command
            .subcommand(name)
            .ok_or(CommandError::InvalidCommand)?;
    }
    if command.keys.is_empty() {
        return Err(CommandError::NoKeyArguments);
    }
    check_arity(command, request).map_err(|_| CommandError::InvalidArity)?;
    for spec in command.keys.iter().filter(|spec| spec.count_at != 0) {
        let text = request.get(usize::from(spec.count_at));
        if command.has(Flags::NO_MANDATORY_KEYS) && text == Some(b"0") {
            continue;
        }
        let count = spec.key_count(request).unwrap_or(usize::MAX);
        if count > request.len() - usize::from(spec.first) {
            if command.has(Flags::NO_MANDATORY_KEYS) {
                return Ok(Vec::new());
            }
            return Err(CommandError::InvalidKeyCount);
        }
    }
    let positions = command.keys_with_flags(request).into_iter();
    let positions = positions.map(|(at, flags)| (at + 2, flags));
    Ok(positions.collect())
}

/// Returns what a command does to the keys of a specification. For some commands, this depends on
/// the arguments.
pub(super) fn flags_of(command: &Command, spec: &KeySpec, request: Arguments<'_>) -> &'static str {
    let has = |from: usize, words: &[&str]| {
        let mut options = request.tail(from).iter();
        options.any(|option| words.iter().any(|word| is(option, word)))
    };
    match (spec.flags.ends_with("variable_flags"), command.name) {
        (false, "migrate") => "RW access delete",
        (false, _) => spec.flags,
        (true, "set") if has(3, &["get"]) => "RW access update",
        (true, "set") if has(3, COMPARISONS) => "RW update",
        (true, "set") => "OW update",
        (true, "delex") if has(2, COMPARISONS) => "RW delete",
        (true, "delex") => "RM delete",
        (true, "bitfield") if !has(2, &["set", "incrby"]) => "RO access",
        (true, _) => "RW access update",
    }
}

/// Writes one element of COMMAND's reply.
fn describe(reply: &mut Writer<'_>, command: &Command, no_parts: NoParts) {
    reply.array(10);
    reply.bulk(command.full_name.as_bytes());
    reply.integer(i64::from(command.arity));
    reply.set(command.flags.shown().count());
    command.flags.shown().for_each(|flag| reply.simple(flag));
    let (first, last, step) = legacy_range(command);
    reply.integer(first);
    reply.integer(last);
    reply.integer(step);
    let categories: Vec<_> = categories(command).collect();
    reply.set(categories.len());
    categories
        .iter()
        .for_each(|name| reply.simple(&format!("@{name}")));
    let tips = command.tips.split(' ').filter(|tip| !tip.is_empty());
    let tips: Vec<_> = tips.collect();
    reply.set(tips.len());
    tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(command.keys.len());
    command
        .keys
        .iter()
        .for_each(|spec| describe_keys(reply, spec));
    let parts = command.subcommands();
    match parts.len() {
        0 => no_parts(reply),
        count => reply.array(count),
    }
    parts
        .iter()
        .for_each(|part| describe(reply, part, no_parts));
}

/// Writes that a command has no subcommands: Redis as an empty set, Valkey as an empty array.
type NoParts = fn(&mut Writer<'_>);

fn no_parts(call: &Call<'_, '_, '_>) -> NoParts {
    match call.view.keyspace.follows_valkey() {
        true => |reply| reply.array(0),
        false => |reply| reply.set(0),
    }
}

fn describe_keys(reply: &mut Writer<'_>, spec: &KeySpec) {
    reply.map(3);
    reply.bulk(b"flags");
    reply_words(reply, spec.flags);
    if spec.hidden {
        for part in ["begin_search", "find_keys"] {
            reply.bulk(part.as_bytes());
            reply.map(2);
            reply.bulk(b"type");
            reply.bulk(b"unknown");
            reply.bulk(b"spec");
            reply.map(0);
        }
        return;
    }
    reply.bulk(b"begin_search");
    let counted = spec.count_at != 0;
    let begin = if counted { spec.count_at } else { spec.first };
    reply.map(2);
    reply.bulk(b"type");
    if spec.keyword.is_empty() {
        reply.bulk(b"index");
        reply.bulk(b"spec");
        reply.map(1);
        reply.bulk(b"index");
        reply.integer(i64::from(begin));
    } else {
        reply.bulk(b"keyword");
        reply.bulk(b"spec");
        reply.map(2);
        reply.bulk(b"keyword");
        reply.bulk(spec.keyword.as_bytes());
        reply.bulk(b"startfrom");
        reply.integer(i64::from(begin));
    }
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(if counted { b"keynum" } else { b"range" });
    reply.bulk(b"spec");
    let numbers = if counted {
        [
            ("keynumidx", 0),
            ("firstkey", i64::from(spec.first - spec.count_at)),
            ("keystep", i64::from(spec.step)),
        ]
    } else {
        [
            ("lastkey", i64::from(spec.last)),
            ("keystep", i64::from(spec.step)),
            ("limit", if spec.half { 2 } else { 0 }),
        ]
    };
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    }
}

/// Writes one pair of COMMAND DOCS.
fn document(reply: &mut Writer<'_>, command: &Command) {
    reply.bulk(command.full_name.as_bytes());
    let parts = command.subcommands();
    let arguments = arguments_of(command);
    reply.map(4 + usize::from(arguments.is_some()) + usize::from(!parts.is_empty()));
    let texts = [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group.name()),
        ("complexity", command.complexity),
    ];
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if let Some(arguments) = arguments {
        reply.bulk(b"arguments");
        reply_arguments(reply, &arguments);
    }
    if !parts.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(parts.len());
        parts.iter().for_each(|part| document(reply, part));
    }
}

fn reply_words(reply: &mut Writer<'_>, words: &str) {
    let words = words.split(' ').filter(|word| !word.is_empty());
    reply.set(words.clone().count());
    words.for_each(|word| reply.simple(word));
}

/// Returns first, last and step of all keys together, for clients older than key specifications.
fn legacy_range(command: &Command) -> (i64, i64, i64) {
    let [first, others @ ..] = command.keys else {
        return (0, 0, 0);
    };
    if first.count_at != 0 || !first.keyword.is_empty() {
        return (0, 0, 0);
    }
    let others = others
        .iter()
        .filter(|spec| spec.keyword.is_empty() && spec.count_at == 0 && !spec.hidden);
    let end = |spec: &KeySpec| match spec.last {
        last if last < 0 => i64::from(last),
        last => i64::from(spec.first) + i64::from(last),
    };
    // An end counted from the last argument comes after all others.
    let later = |one: i64, other: i64| match one.min(other) {
        from_last if from_last < 0 => from_last,
        _ => one.max(other),
    };
    let last = others.map(end).fold(end(first), later);
    (i64::from(first.first), last, i64::from(first.step))
}

/// Returns the ACL categories in Redis's order; most follow from the flags.
pub(super) fn categories(command: &Command) -> impl Iterator<Item = &'static str> {
    let own = command.categories;
    let has = |flag| command.has(flag);
    let container = matches!(command.run, Run::Container);
    let implied = [
        ("read", has(Flags::READONLY) && own != "scripting"),
        ("write", has(Flags::WRITE)),
        ("pubsub", has(Flags::PUBSUB)),
        ("admin", has(Flags::ADMIN)),
        ("fast", has(Flags::FAST)),
        ("slow", !has(Flags::FAST) || container),
        ("blocking", has(Flags::BLOCKING)),
        ("dangerous", has(Flags::ADMIN)),
    ];
    CATEGORIES.iter().copied().filter(move |name| {
        own.split(' ').any(|category| category == *name)
            || implied
                .iter()
                .any(|(category, holds)| category == name && *holds)
    })
}

/// Options that compare the present value.
const COMPARISONS: &[&str] = &["ifeq", "ifne", "ifdeq", "ifdne"];

/// All ACL categories, without `@`.
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

impl Command {
    /// Returns the positions of the keys among these arguments, and what the command does to each:
    /// words such as `access` and `update`.
    pub fn keys_with_flags(&'static self, arguments: Arguments<'_>) -> Vec<(usize, &'static str)> {
        // The command itself refuses an impossible number of keys.
        let makes_sense = |spec: &&KeySpec| {
            let room = arguments.len().saturating_sub(usize::from(spec.first));
            spec.count_at == 0 || spec.key_count(arguments).is_some_and(|count| count <= room)
        };
        let specs = self.keys.iter().filter(|spec| spec.flags != "not_key");
        specs
            .filter(makes_sense)
            .flat_map(|spec| {
                let flags = flags_of(self, spec, arguments);
                spec.positions(arguments).map(move |at| (at, flags))
            })
            .collect()
    }

    /// Returns the same for a command that always has one key at the same position, without
    /// allocation; `None` for other commands.
    #[inline]
    pub fn only_key_with_flags(
        &'static self,
        arguments: Arguments<'_>,
    ) -> Option<(usize, &'static str)> {
        let (spec, at) = self.only_key(arguments)?;
        let is_key = spec.flags != "not_key";
        is_key.then(|| (at, flags_of(self, spec, arguments)))
    }

    /// Returns the ACL categories without `@`, in Redis's order.
    pub fn acl_categories(&self) -> impl Iterator<Item = &'static str> {
        categories(self)
    }
}
