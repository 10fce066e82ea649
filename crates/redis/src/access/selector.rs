//! A selector: commands, keys and channels that are allowed together.

use std::fmt::Write;

use tidewire_keyspace::commands::{CATEGORIES, table};
use tidewire_keyspace::{Command, glob, lookup_full};

use super::ModifierError;
use super::databases::Databases;
use super::numbers::CommandSet;

/// Commands, and the keys and channels with which they are allowed. A user has at least one; a
/// request is allowed if one of them allows all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Every command, also those that are unknown to the set.
    all_commands: bool,
    /// It began with `+@all`: so does its description.
    from_all: bool,
    commands: CommandSet,
    /// First arguments with which a command is allowed that is not in the set.
    first_arguments: Vec<(u16, Vec<u8>)>,
    /// The rules that made the set from all or no commands, such as `+get`, in order.
    command_rules: Vec<String>,
    pub(super) all_keys: bool,
    key_patterns: Vec<KeyPattern>,
    pub(super) all_channels: bool,
    pub(super) channels: Vec<Box<[u8]>>,
    pub(super) databases: Databases,
}

/// Keys, and what may be done to them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Box<[u8]>,
    access: KeyAccess,
}

/// Access to a key, wanted or allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyAccess {
    pub(super) reads: bool,
    pub(super) writes: bool,
}

impl KeyAccess {
    pub(super) const READ: KeyAccess = KeyAccess {
        reads: true,
        writes: false,
    };

    pub(super) const WRITE: KeyAccess = KeyAccess {
        reads: false,
        writes: true,
    };

    /// The access that a command wants to a key, by the words of its declaration.
    pub(super) fn of_flags(flags: &str) -> Self {
        let mut access = KeyAccess::default();
        for word in flags.split(' ') {
            access.reads |= word == "access";
            access.writes |= matches!(word, "insert" | "delete" | "update");
        }
        access
    }

    fn includes(self, wanted: KeyAccess) -> bool {
        self.reads >= wanted.reads && self.writes >= wanted.writes
    }
}

impl Selector {
    /// One that allows no command and no key, in every database. It allows all channels where new
    /// users begin so.
    pub(super) fn new(all_channels: bool) -> Self {
        Selector {
            all_channels,
            ..Selector::default()
        }
    }

    /// Whether it allows everything.
    pub(super) fn is_unlimited(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels && self.databases == Databases::All
    }

    pub(super) fn assert_invariants(&self) {
        debug_assert!(
            !self.all_keys || self.key_patterns.is_empty(),
            "all keys need no pattern"
        );
        debug_assert!(
            !self.all_channels || self.channels.is_empty(),
            "all channels need no pattern"
        );
        debug_assert!(
            !self.all_commands || self.from_all && self.commands == CommandSet::all(),
            "all commands are allowed by `+@all` alone, and are in the set"
        );
        debug_assert!(
            self.key_patterns
                .iter()
                .all(|own| own.access.reads || own.access.writes),
            "a key pattern allows something"
        );
    }

    /// Applies one modifier, such as `+get`, `~cache:*` or `resetchannels`.
    pub(super) fn apply(&mut self, modifier: &[u8]) -> Result<(), ModifierError> {
        let is = |word: &str| modifier.eq_ignore_ascii_case(word.as_bytes());
        if is("allkeys") || is("~*") {
            self.all_keys = true;
            self.key_patterns.clear();
        } else if is("resetkeys") {
            self.all_keys = false;
            self.key_patterns.clear();
        } else if is("allchannels") || is("&*") {
            self.all_channels = true;
            self.channels.clear();
        } else if is("resetchannels") {
            self.all_channels = false;
            self.channels.clear();
        } else if is("alldbs") {
            self.databases = Databases::All;
        } else if is("resetdbs") {
            self.databases = Databases::none();
        } else if is("allcommands") || is("+@all") {
            self.start_from(true);
        } else if is("nocommands") || is("-@all") {
            self.start_from(false);
        } else {
            return match modifier {
                [b'~', pattern @ ..] => self.add_keys(pattern, WHOLE),
                [b'%', rest @ ..] => {
                    let (access, pattern) = read_access(rest).ok_or(ModifierError::Syntax)?;
                    self.add_keys(pattern, access)
                }
                [b'&', pattern @ ..] => self.add_channels(pattern),
                [b'+', b'@', category @ ..] => self.set_category(category, true),
                [b'-', b'@', category @ ..] => self.set_category(category, false),
                [b'+', name @ ..] => self.allow(name),
                [b'-', name @ ..] => self.forbid(name),
                [b'd' | b'D', b'b' | b'B', b'=', numbers @ ..] => {
                    self.databases = Databases::parse(numbers)?;
                    Ok(())
                }
                _ => Err(ModifierError::Syntax),
            };
        }
        Ok(())
    }

    fn start_from(&mut self, all: bool) {
        (self.all_commands, self.from_all) = (all, all);
        self.commands = match all {
            true => CommandSet::all(),
            false => CommandSet::default(),
        };
        self.command_rules.clear();
        self.first_arguments.clear();
    }

    fn add_keys(&mut self, pattern: &[u8], access: KeyAccess) -> Result<(), ModifierError> {
        if self.all_keys {
            return Err(ModifierError::KeysAfterAll);
        }
        if has_blanks(pattern) {
            return Err(ModifierError::Syntax);
        }
        let mut known = self.key_patterns.iter_mut();
        match known.find(|known| *known.pattern == *pattern) {
            Some(known) => {
                known.access.reads |= access.reads;
                known.access.writes |= access.writes;
            }
            None => self.key_patterns.push(KeyPattern {
                pattern: pattern.into(),
                access,
            }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), ModifierError> {
        if self.all_channels {
            return Err(ModifierError::ChannelsAfterAll);
        }
        if has_blanks(pattern) {
            return Err(ModifierError::Syntax);
        }
        if self.channels.iter().all(|known| **known != *pattern) {
            self.channels.push(pattern.into());
        }
        Ok(())
    }

    fn set_category(&mut self, category: &[u8], allow: bool) -> Result<(), ModifierError> {
        let mut known = CATEGORIES.iter();
        let category = known
            .find(|known| known.as_bytes().eq_ignore_ascii_case(category))
            .ok_or(ModifierError::Unknown)?;
        debug_assert_eq!(
            category.to_lowercase(),
            *category,
            "a rule is noted in lower case"
        );
        self.note_rule(&format!("@{category}"), allow);
        table::with_parts()
            .iter()
            .filter(|command| command.acl_categories().any(|own| own == *category))
            .for_each(|command| self.set_command(command, allow));
        Ok(())
    }

    fn allow(&mut self, name: &[u8]) -> Result<(), ModifierError> {
        let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
            let command = lookup_full(name).ok_or(ModifierError::Unknown)?;
            self.set_command(command, true);
            self.note_rule(command.full_name, true);
            return Ok(());
        };
        let (container, part) = (&name[..bar], &name[bar + 1..]);
        let command = lookup_full(container).ok_or(ModifierError::Unknown)?;
        if container.contains(&b'|') {
            return Err(ModifierError::FirstArgumentOfSubcommand);
        }
        if part.is_empty() {
            return Err(ModifierError::Syntax);
        }
        if command.is_container() {
            let command = lookup_full(name).ok_or(ModifierError::Unknown)?;
            self.set_command(command, true);
        } else {
            let number = command.number;
            let known =
                |(own, word): &(u16, Vec<u8>)| *own == number && word.eq_ignore_ascii_case(part);
            if !self.first_arguments.iter().any(known) {
                self.first_arguments.push((number, part.to_vec()));
            }
        }
        let rule = String::from_utf8_lossy(name).to_lowercase();
        self.note_rule(&rule, true);
        Ok(())
    }

    fn forbid(&mut self, name: &[u8]) -> Result<(), ModifierError> {
        let command = lookup_full(name).ok_or(ModifierError::Unknown)?;
        self.set_command(command, false);
        self.note_rule(command.full_name, false);
        Ok(())
    }

    fn set_command(&mut self, command: &'static Command, allow: bool) {
        self.commands.set(command, allow);
        self.all_commands &= allow;
        self.first_arguments
            .retain(|(own, _)| *own != command.number);
    }

    /// Keeps a rule as the newest; what it makes void is forgotten, a command's subcommands too.
    fn note_rule(&mut self, rule: &str, allow: bool) {
        self.command_rules.retain(|old| {
            let old = &old[1..];
            let is_part = old
                .strip_prefix(rule)
                .is_some_and(|rest| rest.starts_with('|'));
            old != rule && !is_part
        });
        debug_assert!(!rule.is_empty(), "a rule names a command or a category");
        let sign = if allow { '+' } else { '-' };
        self.command_rules.push(format!("{sign}{rule}"));
    }

    /// Whether a command may be run with this first argument.
    pub(super) fn allows_command(&self, command: &Command, first: Option<&[u8]>) -> bool {
        if self.all_commands || self.commands.contains(command) {
            return true;
        }
        let Some(first) = first else {
            return false;
        };
        let mut own = self.first_arguments.iter();
        own.any(|(of, word)| *of == command.number && word.eq_ignore_ascii_case(first))
    }

    /// Whether this may be done to a key.
    pub(super) fn allows_key(&self, key: &[u8], access: KeyAccess) -> bool {
        let allows =
            |own: &KeyPattern| own.access.includes(access) && glob::matches(&own.pattern, key);
        self.all_keys || self.key_patterns.iter().any(allows)
    }

    /// Whether every key may be read.
    pub(super) fn reads_every_key(&self) -> bool {
        let allows =
            |own: &KeyPattern| own.access.includes(KeyAccess::READ) && *own.pattern == *b"*";
        self.all_keys || self.key_patterns.iter().any(allows)
    }

    /// Whether this may be done to every key whose name begins so.
    pub(super) fn allows_keys_of(&self, prefix: &[u8], access: KeyAccess) -> bool {
        let covers =
            |own: &KeyPattern| own.access.includes(access) && covers_prefix(&own.pattern, prefix);
        self.all_keys || self.key_patterns.iter().any(covers)
    }

    /// The patterns of keys to which this may be done; `*` for all keys.
    pub(super) fn key_patterns(&self, access: KeyAccess) -> impl Iterator<Item = &[u8]> {
        let all: Option<&[u8]> = self.all_keys.then_some(b"*");
        let some = self.key_patterns.iter();
        let some = some.filter(move |own| own.access.includes(access));
        all.into_iter().chain(some.map(|own| &own.pattern[..]))
    }

    /// Whether this may be done to a key whose name begins so.
    pub(super) fn may_allow_key_of(&self, prefix: &[u8], access: KeyAccess) -> bool {
        let mut patterns = self.key_patterns(access);
        patterns.any(|pattern| glob::may_begin_with(pattern, prefix))
    }

    /// Whether a command may be run with a first argument that begins so.
    pub(super) fn may_allow_command(&self, command: &Command, prefix: &[u8]) -> bool {
        let begins = |word: &[u8]| {
            let begin = word.get(..prefix.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
        };
        let mut own = self.first_arguments.iter();
        self.allows_command(command, None)
            || own.any(|(of, word)| *of == command.number && begins(word))
    }

    /// Whether a command is allowed with some first arguments only.
    pub(super) fn limits_arguments(&self) -> bool {
        !self.first_arguments.is_empty()
    }

    /// Whether a channel may be used, or a pattern be subscribed to. A pattern must be allowed as
    /// it stands.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let allows = |own: &[u8]| match is_pattern {
            true => own == channel,
            false => glob::matches(own, channel),
        };
        self.all_channels || self.channels.iter().any(|own| allows(own))
    }

    /// Whether all channels whose names begin so may be used: a pattern must be a text that they
    /// begin with, and `*`.
    pub(super) fn allows_prefix(&self, prefix: &[u8]) -> bool {
        self.all_channels || self.channels.iter().any(|own| covers_prefix(own, prefix))
    }

    /// Its commands as modifiers.
    pub(super) fn describe_commands(&self) -> String {
        let mut text = String::from(if self.from_all { "+@all" } else { "-@all" });
        for rule in &self.command_rules {
            // Writing into a string cannot fail.
            let _ = write!(text, " {rule}");
        }
        text
    }

    /// Its keys as modifiers.
    pub(super) fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let patterns = self.key_patterns.iter().map(|own| {
            let start: &[u8] = match (own.access.reads, own.access.writes) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                _ => b"~",
            };
            [start, &own.pattern].concat()
        });
        patterns.collect::<Vec<_>>().join(&b' ')
    }

    /// Its channels as modifiers.
    pub(super) fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let channels = self.channels.iter().map(|own| [b"&", &own[..]].concat());
        channels.collect::<Vec<_>>().join(&b' ')
    }

    /// All of it, as the lines of a file have it.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut text = self.describe_keys();
        if !text.is_empty() {
            text.push(b' ');
        }
        if !self.all_channels {
            text.extend_from_slice(b"resetchannels ");
        }
        let channels = self.describe_channels();
        text.extend_from_slice(&channels);
        if !channels.is_empty() {
            text.push(b' ');
        }
        if let Some(modifier) = self.databases.modifier() {
            text.extend_from_slice(modifier.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(self.describe_commands().as_bytes());
        text
    }
}

/// Whether a pattern is a text with which all names of this prefix begin, and `*`.
fn covers_prefix(pattern: &[u8], prefix: &[u8]) -> bool {
    match pattern {
        [text @ .., b'*'] => {
            let is_plain = !text.iter().any(|byte| b"*?[\\".contains(byte));
            is_plain && prefix.starts_with(text)
        }
        _ => false,
    }
}

const WHOLE: KeyAccess = KeyAccess {
    reads: true,
    writes: true,
};

/// Reads `RW~` and the pattern behind it.
fn read_access(text: &[u8]) -> Option<(KeyAccess, &[u8])> {
    let mut access = KeyAccess::default();
    for (at, letter) in text.iter().enumerate() {
        match letter.to_ascii_uppercase() {
            b'R' if !access.reads => access.reads = true,
            b'W' if !access.writes => access.writes = true,
            b'~' if access.reads || access.writes => return Some((access, &text[at + 1..])),
            _ => return None,
        }
    }
    // As Redis has it, a pattern may be missing altogether.
    (access.reads || access.writes).then_some((access, b""))
}

/// Whether a text could not be read back from a file.
pub(super) fn has_blanks(text: &[u8]) -> bool {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0 || *byte == 11;
    text.iter().any(is_blank)
}
