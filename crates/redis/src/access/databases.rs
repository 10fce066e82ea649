//! The databases that a selector allows, and those that a request uses.

use std::collections::BTreeSet;

use tidewire_keyspace::{Command, DATABASES};
use tidewire_resp::Arguments;
use tidewire_resp::number::parse_integer;

use super::ModifierError;

/// The databases in which the commands of a selector are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Databases {
    #[default]
    All,
    /// These numbers. Some may be of databases that do not exist: they allow nothing.
    Only(BTreeSet<u32>),
}

impl Databases {
    /// Returns no database.
    pub(super) fn none() -> Self {
        Databases::Only(BTreeSet::new())
    }

    /// Parses the numbers behind `db=`.
    pub(super) fn parse(text: &[u8]) -> Result<Self, ModifierError> {
        let numbers = text.split(|&byte| byte == b',').map(parse_number);
        Ok(Databases::Only(numbers.collect::<Result<_, _>>()?))
    }

    /// Returns whether a database is allowed.
    pub(super) fn allows(&self, database: usize) -> bool {
        match self {
            Databases::All => true,
            Databases::Only(numbers) => {
                database < DATABASES
                    && u32::try_from(database).is_ok_and(|number| numbers.contains(&number))
            }
        }
    }

    /// Returns the modifier that makes these databases of all of them, or none for all.
    pub(super) fn modifier(&self) -> Option<String> {
        match self {
            Databases::All => None,
            Databases::Only(numbers) if numbers.is_empty() => Some("resetdbs".to_owned()),
            Databases::Only(_) => Some(self.describe()),
        }
    }

    /// Returns the field `databases` of ACL GETUSER.
    pub(super) fn describe(&self) -> String {
        match self {
            Databases::All => "alldbs".to_owned(),
            Databases::Only(numbers) if numbers.is_empty() => String::new(),
            Databases::Only(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                format!("db={}", numbers.join(","))
            }
        }
    }

    /// Returns the argument of a request that names a database outside of these. It is 0, the
    /// command itself, if that is the database `current`, or if the command uses all of them.
    pub(super) fn refused(
        &self,
        command: &Command,
        arguments: Arguments<'_>,
        current: usize,
    ) -> Option<usize> {
        if *self == Databases::All {
            return None;
        }
        let mut named = databases_named(command, arguments);
        if let Some((at, _)) = named.find(|&(_, database)| !self.allows(database)) {
            return Some(at);
        }
        let is_refused = match command.full_name {
            // They use no key of the current database.
            "select" | "swapdb" => false,
            "flushall" => !(0..DATABASES).all(|database| self.allows(database)),
            _ => uses_current(command) && !self.allows(current),
        };
        is_refused.then_some(0)
    }
}

/// Returns whether a command uses keys of the current database.
fn uses_current(command: &Command) -> bool {
    let of_keys = ["keyspace", "read", "write"];
    !command.keys.is_empty() || command.acl_categories().any(|own| of_keys.contains(&own))
}

/// Returns the arguments that name databases that exist, and these databases. The command refuses
/// other numbers by itself.
///
/// COPY uses the last of its databases. All of them must be allowed, so that it does not matter
/// which one counts.
fn databases_named(
    command: &Command,
    arguments: Arguments<'_>,
) -> impl Iterator<Item = (usize, usize)> {
    let (first, last) = match command.full_name {
        "select" => (1, 1),
        "swapdb" => (1, 2),
        "move" => (2, 2),
        "copy" => (4, arguments.len().saturating_sub(1)),
        _ => (1, 0),
    };
    let is_copy = command.full_name == "copy";
    (first..=last).filter_map(move |at| {
        if is_copy && !arguments[at - 1].eq_ignore_ascii_case(b"db") {
            return None;
        }
        let number = parse_integer(arguments.get(at)?)?;
        let database = usize::try_from(number).ok()?;
        (database < DATABASES).then_some((at, database))
    })
}

/// Parses a number as C's `strtoll` does. Numbers above 2^31 - 1, or below 0, are out of range.
fn parse_number(text: &[u8]) -> Result<u32, ModifierError> {
    let (digits, is_negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        [b'+', digits @ ..] => (digits, false),
        digits => (digits, false),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ModifierError::Syntax);
    }
    let number = digits.iter().try_fold(0_u32, |number, digit| {
        number.checked_mul(10)?.checked_add(u32::from(digit - b'0'))
    });
    match number {
        Some(number) if number <= DATABASE_MAX && (!is_negative || number == 0) => Ok(number),
        _ => Err(ModifierError::DatabaseOutOfRange),
    }
}

/// The largest number that a rule may have, whether that database exists or not.
const DATABASE_MAX: u32 = i32::MAX as u32;
