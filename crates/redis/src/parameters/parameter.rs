//! One parameter: its names, its values, and what CONFIG SET may do to it.

use super::kinds::Kind;
use super::table::TABLE;

/// One parameter, as CONFIG knows it.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// An older name, which CONFIG GET lists as well.
    pub(super) alias: Option<&'static str>,
    /// Valkey's name. CONFIG GET lists it if this server follows Valkey.
    pub(super) of_valkey: Option<&'static str>,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    pub(super) access: Mutability,
    pub(super) start: Start,
    /// Found by its exact name only.
    pub(super) hidden: bool,
    /// Its value is not shown in SLOWLOG and MONITOR.
    pub(super) secret: bool,
    pub(super) effects: &'static [Effect],
    pub(super) does: Does,
}

/// Whether CONFIG SET may change a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutability {
    Free,
    /// Only at the start.
    Fixed,
    /// If `enable-protected-configs` allows it.
    Protected,
    /// What it would ask for is not there: every change is refused with this text.
    Unavailable(&'static str),
}

/// Values with which the server cannot start: they ask for something that is not there, and to go
/// on without would be worse than to stop.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    Any,
    /// All but the default are refused with this text.
    Default(&'static str),
    /// Numbers above this one are refused with this text.
    UpTo(usize, &'static str),
}

/// What happens beside when CONFIG SET names a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Redis clients connect elsewhere.
    Listening,
    /// TLS certificates and settings are read again.
    Certificates,
    /// The process's `oom_score_adj` changes.
    Score,
    /// The default user gets another password.
    Password,
    /// Changes of topics are watched, or no more.
    Topics,
    /// The next command is timed.
    Times,
    /// Files are somewhere else.
    Directory,
    /// Refused while keys are loaded.
    NotWhileLoading,
    /// It may change what is written to files and to replicas.
    Files,
    /// It limits memory, and concerns no file.
    MemoryLimit,
}

/// What a parameter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// A sentence.
    This(&'static str),
    /// Checked, kept and shown, and nothing else: what it does in Redis, and why not here.
    Nothing(&'static str, &'static str),
}

/// The parameter of this name, in any case.
pub(super) fn number_of(name: &[u8]) -> Option<usize> {
    let is = |own: &str| own.as_bytes().eq_ignore_ascii_case(name);
    TABLE
        .iter()
        .position(|one| is(one.name) || one.alias.is_some_and(is) || one.of_valkey.is_some_and(is))
}

/// Whether CONFIG SET of the parameter of this name has this effect.
pub(crate) fn has_effect(name: &[u8], effect: Effect) -> bool {
    number_of(name).is_some_and(|number| TABLE[number].effects.contains(&effect))
}

/// Whether SLOWLOG and MONITOR hide a parameter's value.
pub(crate) fn is_secret(name: &[u8]) -> bool {
    number_of(name).is_some_and(|number| TABLE[number].secret)
}

const fn parameter(name: &'static str, kind: Kind, default: &'static str) -> Parameter {
    Parameter {
        name,
        alias: None,
        of_valkey: None,
        kind,
        default,
        access: Mutability::Free,
        start: Start::Any,
        hidden: false,
        secret: false,
        effects: &[],
        does: Does::This(""),
    }
}

pub(super) const fn switch(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, Kind::Switch, default)
}

pub(super) const fn text(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, Kind::Text, default)
}

pub(super) const fn words(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, Kind::Words, default)
}

type Words = &'static [&'static str];

pub(super) const fn choice(name: &'static str, words: Words, default: &'static str) -> Parameter {
    parameter(name, Kind::Choice(words), default)
}

pub(super) const fn choices(name: &'static str, words: Words, default: &'static str) -> Parameter {
    parameter(name, Kind::Choices(words), default)
}

macro_rules! in_a_range {
    ($($name:ident $kind:ident),*) => {
        $(pub(super) const fn $name(
            name: &'static str,
            least: i128,
            most: i128,
            default: &'static str,
        ) -> Parameter {
            parameter(name, Kind::$kind(least, most), default)
        })*
    };
}

in_a_range! {
    number Number, signed Number, octal Octal, memory Memory, memory_or_percent MemoryOrPercent
}

pub(super) const fn special(name: &'static str, kind: Kind, default: &'static str) -> Parameter {
    parameter(name, kind, default)
}

impl Parameter {
    pub(super) const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(super) const fn of_valkey(mut self, name: &'static str) -> Self {
        self.of_valkey = Some(name);
        self
    }

    pub(super) const fn fixed(mut self) -> Self {
        self.access = Mutability::Fixed;
        self
    }

    pub(super) const fn protected(mut self) -> Self {
        self.access = Mutability::Protected;
        self
    }

    pub(super) const fn only_default(mut self, text: &'static str) -> Self {
        self.access = Mutability::Unavailable(text);
        self.start = Start::Default(text);
        self
    }

    pub(super) const fn only_starts(mut self, text: &'static str) -> Self {
        self.start = Start::Default(text);
        self
    }

    pub(super) const fn at_most(mut self, most: usize, text: &'static str) -> Self {
        self.start = Start::UpTo(most, text);
        self
    }

    pub(super) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    pub(super) const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    pub(super) const fn then(mut self, effects: &'static [Effect]) -> Self {
        self.effects = effects;
        self
    }

    pub(super) const fn does(mut self, does: Does) -> Self {
        self.does = does;
        self
    }

    /// Why the server cannot start with a value.
    pub(super) fn refusal(&self, value: &[u8]) -> Option<&'static str> {
        match self.start {
            Start::Default(text) if value != self.default.as_bytes() => Some(text),
            Start::UpTo(most, text) => {
                let number = std::str::from_utf8(value).ok()?.parse::<usize>().ok()?;
                (number > most).then_some(text)
            }
            _ => None,
        }
    }
}
