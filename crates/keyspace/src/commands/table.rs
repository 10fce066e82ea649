//! The one table of commands. A record says all that there is to say of a command: its name,
//! number of arguments, flags, group, age and handler, then its keys, categories, tips, what it
//! takes, and what it does.
//!
//! The records of a group stand in a file of their own; those of a container's subcommands follow
//! it. Put together, they are numbered.

use super::{Command, Finder, Flags, Group, Handler, KeySpec, Locks, Run};
use crate::command::is_same;
use crate::keyspace::{Direct, DirectRead, DirectWrite};

mod bits;
use bits::BITS;

mod blocking_lists;
use blocking_lists::BLOCKING_LISTS;

mod cluster;
use cluster::CLUSTER;

mod connection;
use connection::CONNECTION;

mod dump;
use dump::DUMP;

mod generic;
use generic::GENERIC;

mod geo;
use geo::GEO;

mod hash_expiry;
use hash_expiry::HASH_EXPIRY;

mod hashes;
use hashes::HASHES;

mod hyperloglog;
use hyperloglog::HYPERLOGLOG;

mod lists;
use lists::LISTS;

mod pubsub;
use pubsub::PUBSUB;

mod scripting;
use scripting::SCRIPTING;

mod server;
use server::SERVER;

mod sets;
use sets::SETS;

mod sort;
use sort::SORT;

mod sorted_sets;
use sorted_sets::SORTED_SETS;

mod streams;
use streams::STREAMS;

mod strings;
use strings::STRINGS;

mod transactions;
use transactions::TRANSACTIONS;

/// All commands, group by group, without their subcommands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().filter(|command| !command.is_part())
}

/// All commands and subcommands, by their numbers.
pub const fn with_parts() -> &'static [Command] {
    &TABLE
}

/// The number of a command or subcommand, by its full name: for tables that are made when they are
/// compiled.
///
/// # Panics
/// If there is none of this name.
pub const fn number_of(full_name: &str) -> usize {
    let mut number = 0;
    while number < TABLE.len() {
        if is_same(TABLE[number].full_name.as_bytes(), full_name.as_bytes()) {
            return number;
        }
        number += 1;
    }
    panic!("there is no command of this name")
}

/// The command of this name, in any case. A container's subcommands are in it.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    let mut at = slot(name);
    loop {
        let number = SLOTS[at].checked_sub(1)?;
        let command = &TABLE[usize::from(number)];
        if is_named(command, name) {
            return Some(command);
        }
        at = (at + 1) % SLOTS.len();
    }
}

static TABLE: [Command; COUNT] = assemble();

const fn assemble() -> [Command; COUNT] {
    let mut table = [GROUP_LIST[0][0]; COUNT];
    let (mut number, mut group) = (0, 0);
    let mut container = 0;
    while group < GROUP_LIST.len() {
        let mut index = 0;
        while index < GROUP_LIST[group].len() {
            table[number] = GROUP_LIST[group][index];
            table[number].number = number as u16;
            if table[number].is_part() {
                table[container].parts += 1;
            } else {
                container = number;
            }
            (number, index) = (number + 1, index + 1);
        }
        group += 1;
    }
    table
}

/// How many commands and subcommands there are.
pub const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUP_LIST.len() {
        count += GROUP_LIST[group].len();
        group += 1;
    }
    count
};

const GROUP_LIST: [&[Command]; 20] = [
    STRINGS,
    BITS,
    HYPERLOGLOG,
    HASHES,
    HASH_EXPIRY,
    SETS,
    LISTS,
    BLOCKING_LISTS,
    SORTED_SETS,
    GEO,
    STREAMS,
    GENERIC,
    SORT,
    DUMP,
    TRANSACTIONS,
    CLUSTER,
    CONNECTION,
    PUBSUB,
    SCRIPTING,
    SERVER,
];

/// A command with what every one has; the rest is added below.
const fn command(
    full_name: &'static str,
    arity: i16,
    flags: &'static str,
    group: Group,
    since: &'static str,
    run: Run,
) -> Command {
    Command {
        name: own_part(full_name),
        full_name,
        arity,
        number: Command::NO_NUMBER,
        flags: Flags::parse(flags),
        keys: &[],
        categories: "",
        since,
        group,
        summary: "",
        complexity: "",
        tips: "",
        syntax: "",
        parts: 0,
        run,
        locks: Locks::None,
        element: 0,
        direct: None,
    }
}

/// A part of DEBUG that is run as a data command.
pub(super) const fn debug_part(
    full_name: &'static str,
    arity: i16,
    locks: Locks,
    handler: Handler,
) -> Command {
    let run = Run::Data(handler);
    command(full_name, arity, "admin", Group::Server, "1.0.0", run).locks(locks)
}

const fn key_spec(first: u16, last: i16, step: u16, flags: &'static str) -> KeySpec {
    KeySpec {
        first,
        last,
        step,
        count_at: 0,
        keyword: "",
        half: false,
        untold: false,
        found_by: None,
        flags,
    }
}

/// Keys that an option names: COMMAND tells of a keyword, looked for from argument `from` on.
const fn keyword_keys(
    keyword: &'static str,
    from: u16,
    flags: &'static str,
    find: Finder,
) -> KeySpec {
    KeySpec {
        keyword,
        found_by: Some(find),
        ..key_spec(from, 0, 1, flags)
    }
}

/// Keys that an option names and that COMMAND does not show.
const fn untold_keys(flags: &'static str, find: Finder) -> KeySpec {
    KeySpec {
        untold: true,
        found_by: Some(find),
        ..key_spec(0, 0, 1, flags)
    }
}

/// Keys that only the values of other keys tell.
const fn unknown_keys(flags: &'static str) -> KeySpec {
    KeySpec {
        untold: true,
        ..key_spec(0, 0, 1, flags)
    }
}

/// Keys from `first` on, as many as the argument at `count_at` says.
const fn counted_keys(count_at: u16, first: u16, flags: &'static str) -> KeySpec {
    KeySpec {
        count_at,
        ..key_spec(first, 0, 1, flags)
    }
}

impl Command {
    const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self.locks = Locks::Keys;
        if self.has(Flags::WRITE) {
            self.flags = self.flags.with(Flags::WRITES_KEYS);
        }
        self
    }

    /// It only reads the keys that it names, or looks at mounts itself.
    const fn minds_mounts(mut self) -> Self {
        self.flags = self.flags.without(Flags::WRITES_KEYS);
        self
    }

    /// Flags that COMMAND does not tell.
    const fn marks(mut self, flags: &'static str) -> Self {
        self.flags = self.flags.with(Flags::parse(flags));
        self
    }

    const fn locks(mut self, locks: Locks) -> Self {
        self.locks = locks;
        self
    }

    const fn reads_directly(mut self, read: DirectRead) -> Self {
        self.direct = Some(Direct::Read(read));
        self
    }

    const fn writes_directly(mut self, write: DirectWrite) -> Self {
        self.direct = Some(Direct::Write(write));
        self
    }

    const fn categories(mut self, categories: &'static str) -> Self {
        self.categories = categories;
        self
    }

    const fn docs(mut self, summary: &'static str, complexity: &'static str) -> Self {
        self.summary = summary;
        self.complexity = complexity;
        self
    }

    const fn tips(mut self, tips: &'static str) -> Self {
        self.tips = tips;
        self
    }

    const fn syntax(mut self, syntax: &'static str) -> Self {
        self.syntax = syntax;
        self
    }

    /// The argument that names the first element that it looks up in its first key.
    const fn element(mut self, element: u8) -> Self {
        self.element = element;
        self
    }

    /// Its subcommands, if it is a container.
    pub fn subcommands(&self) -> &'static [Command] {
        let from = usize::from(self.number) + 1;
        match self.parts {
            0 => &[],
            parts => &TABLE[from..from + usize::from(parts)],
        }
    }

    /// Its subcommand of this name, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        let mut parts = self.subcommands().iter();
        parts.find(|part| part.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// `encoding` of `object|encoding`.
const fn own_part(full_name: &'static str) -> &'static str {
    let mut at = 0;
    while at < full_name.len() {
        if full_name.as_bytes()[at] == b'|' {
            return full_name.split_at(at + 1).1;
        }
        at += 1;
    }
    full_name
}

/// Open addressing, laid out when this is compiled: the number of each command plus 1, or 0.
static SLOTS: [u16; 2048] = lay_out();

const fn lay_out() -> [u16; 2048] {
    let table = assemble();
    let mut slots = [0; 2048];
    let mut number = 0;
    while number < table.len() {
        if !table[number].is_part() {
            let mut at = slot(table[number].name.as_bytes());
            while slots[at] != 0 {
                at = (at + 1) % slots.len();
            }
            slots[at] = number as u16 + 1;
        }
        number += 1;
    }
    slots
}

/// Whether this is the command's name, in any case.
#[inline]
pub(super) fn is_named(command: &Command, name: &[u8]) -> bool {
    let own = command.name.as_bytes();
    match own.len() == name.len() {
        true if own.len() <= 8 => packed(own) == lower(packed(name)),
        true => own.eq_ignore_ascii_case(name),
        false => false,
    }
}

/// Up to eight bytes in one word; of two names of the same length it is the same word only if they
/// are the same.
#[inline]
fn packed(name: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    }
    match *name {
        [] => 0,
        [only] => u64::from(only),
        [first, .., last] => {
            let middle = name[name.len() / 2];
            u64::from(u32::from_le_bytes([first, middle, last, 0]))
        }
    }
}

/// Eight bytes, the ASCII letters among them in lower case.
#[inline]
fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low = word & (EACH * 0x7F);
    // No sum reaches the next byte.
    let from_a = low + EACH * (0x80 - b'A' as u64);
    let behind_z = low + EACH * (0x7F - b'Z' as u64);
    let is_upper = (from_a ^ behind_z) & !word & (EACH * 0x80);
    word | is_upper >> 2
}

/// Four bytes, in lower case, and the length tell nearly all names apart.
#[inline]
const fn slot(name: &[u8]) -> usize {
    let length = name.len();
    if length == 0 {
        return 0;
    }
    let (second, last_but_one) = match length {
        1 => (0, name[0]),
        _ => (name[1], name[length - 2]),
    };
    let bytes = [name[0], second, last_but_one, name[length - 1]];
    let word = u32::from_le_bytes(bytes) | 0x2020_2020;
    let mixed = word.wrapping_add(length as u32).wrapping_mul(0x9E37_79B1);
    ((mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA77) >> 21) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case_and_nothing_else_is() {
        let mut probes = 0;
        for command in all() {
            let name = command.name.to_uppercase();
            assert!(
                std::ptr::eq(lookup(name.as_bytes()).unwrap(), command),
                "{name}"
            );
            assert!(std::ptr::eq(
                lookup(command.name.as_bytes()).unwrap(),
                command
            ));
            assert!(lookup(&name.as_bytes()[1..]).is_none_or(|other| other.name != command.name));
            let mut at = slot(name.as_bytes());
            while SLOTS[at] != 0 {
                at = (at + 1) % SLOTS.len();
                probes += 1;
            }
        }
        assert!(probes < all().count() * 3 / 2, "{probes} probes");
        assert!(lookup(b"").is_none() && lookup(b"nonsense").is_none());
    }

    #[test]
    fn a_word_s_letters_become_lower_case_and_nothing_else_does() {
        for byte in 0..=u8::MAX {
            let bytes = [byte, b'Z', byte, b'[', b'@', byte, 0xDA, byte];
            let expected = bytes.map(|byte| byte.to_ascii_lowercase());
            let word = u64::from_le_bytes(bytes);
            assert_eq!(lower(word), u64::from_le_bytes(expected), "{byte:#x}");
        }
    }

    #[test]
    fn declarations_are_complete_and_agree_with_themselves() {
        for (number, command) in TABLE.iter().enumerate() {
            assert_eq!(usize::from(command.number), number);
            let parts = command.subcommands();
            assert!(
                parts
                    .iter()
                    .all(|part| part.full_name.starts_with(command.name))
            );
            let is_container = matches!(command.run, Run::Container);
            assert!(!is_container || !parts.is_empty(), "{}", command.full_name);
            assert!(!command.summary.is_empty() && !command.complexity.is_empty());
            assert_eq!(command.name, command.name.to_lowercase());
            assert!(command.arity != 0);
            for spec in command.keys {
                let is_found = spec.keyword.is_empty() || spec.found_by.is_some();
                assert!(is_found, "{}", command.full_name);
                assert!(spec.step > 0 && spec.first > 0 || spec.untold);
                let promised = i32::from(spec.first) < i32::from(command.arity.abs());
                // Of further keys, or of those that follow a word, none may be there.
                let open = !spec.keyword.is_empty() || spec.last < 0;
                let named = promised || open || spec.flags == "not_key";
                assert!(
                    named || command.has(Flags::NO_MANDATORY_KEYS),
                    "{}",
                    command.full_name
                );
            }
            assert!(!(command.has(Flags::WRITE) && command.has(Flags::READONLY)));
        }
    }
}
