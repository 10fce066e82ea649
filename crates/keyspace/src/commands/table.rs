//! The command table. A record contains everything about a command: name, number of arguments,
//! flags, group, version and handler, then keys, categories, tips, syntax, and summary.
//!
//! Each group has its own file. The records of subcommands follow their container. All files are
//! joined and numbered here.

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

/// Returns all commands, group by group, without their subcommands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().filter(|command| !command.is_part())
}

/// Returns all commands and subcommands, by number.
pub const fn with_parts() -> &'static [Command] {
    &TABLE
}

/// Returns the number of a command or subcommand by its full name, for tables built at compile
/// time.
///
/// # Panics
/// Panics if there is no such command.
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

/// Returns the command with this name, in any case. A container includes its subcommands.
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

/// Number of commands and subcommands.
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

/// Creates a command with the properties that all commands have. The methods below add the rest.
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

/// Creates a subcommand of DEBUG that runs as a data command.
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
        hidden: false,
        found_by: None,
        flags,
    }
}

/// Describes keys that an option names. COMMAND shows them as a keyword, searched from argument
/// `from`.
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

/// Describes keys that an option names and that COMMAND does not show.
const fn hidden_keys(flags: &'static str, find: Finder) -> KeySpec {
    KeySpec {
        hidden: true,
        found_by: Some(find),
        ..key_spec(0, 0, 1, flags)
    }
}

/// Describes keys that only the values of other keys name.
const fn unknown_keys(flags: &'static str) -> KeySpec {
    KeySpec {
        hidden: true,
        ..key_spec(0, 0, 1, flags)
    }
}

/// Describes keys from `first` on, as many as the argument at `count_at` says.
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

    /// Marks a command that only reads the keys it names, or checks for mounts itself.
    const fn checks_mounts(mut self) -> Self {
        self.flags = self.flags.without(Flags::WRITES_KEYS);
        self
    }

    /// Adds flags that COMMAND does not show.
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

    /// Sets the argument with the first element that it looks up in its first key.
    const fn element(mut self, element: u8) -> Self {
        self.element = element;
        self
    }

    /// Returns its subcommands, if it is a container.
    pub fn subcommands(&self) -> &'static [Command] {
        let from = usize::from(self.number) + 1;
        match self.parts {
            0 => &[],
            parts => &TABLE[from..from + usize::from(parts)],
        }
    }

    /// Returns its subcommand with this name, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        let mut parts = self.subcommands().iter();
        parts.find(|part| part.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Returns `encoding` for `object
/// encoding`.
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

/// A hash table with open addressing, built at compile time. A slot is a command's number plus 1,
/// or 0.
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

/// Returns whether this is the command's name, in any case.
#[inline]
pub(super) fn is_named(command: &Command, name: &[u8]) -> bool {
    let own = command.name.as_bytes();
    match own.len() == name.len() {
        true if own.len() <= 8 => packed(own) == lower(packed(name)),
        true => own.eq_ignore_ascii_case(name),
        false => false,
    }
}

/// Packs up to eight bytes into one word. Names of the same length have the same word only if they
/// are equal.
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

/// Converts eight bytes, so that the ASCII letters among them are in lower case.
#[inline]
fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low = word & (EACH * 0x7F);
    // No sum carries into the next byte.
    let from_a = low + EACH * (0x80 - b'A' as u64);
    let behind_z = low + EACH * (0x7F - b'Z' as u64);
    let is_upper = (from_a ^ behind_z) & !word & (EACH * 0x80);
    word | is_upper >> 2
}

/// Computes a slot from four bytes in lower case and the length, which distinguish nearly all
/// names.
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
    fn only_letters_become_lower_case() {
        for byte in 0..=u8::MAX {
            let bytes = [byte, b'Z', byte, b'[', b'@', byte, 0xDA, byte];
            let expected = bytes.map(|byte| byte.to_ascii_lowercase());
            let word = u64::from_le_bytes(bytes);
            assert_eq!(lower(word), u64::from_le_bytes(expected), "{byte:#x}");
        }
    }

    #[test]
    fn declarations_are_complete_and_consistent() {
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
                assert!(spec.step > 0 && spec.first > 0 || spec.hidden);
                let promised = i32::from(spec.first) < i32::from(command.arity.abs());
                // Optional keys, and keys after a keyword, may be missing.
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
