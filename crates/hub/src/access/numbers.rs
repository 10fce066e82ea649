//! Commands as bits of a set: each command and subcommand of the one table has a number.

use std::collections::HashMap;
use std::sync::OnceLock;

use tidewire_keyspace::{Command, commands};

/// A set of commands and subcommands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandSet {
    words: Vec<u64>,
}

impl CommandSet {
    pub(super) fn all() -> Self {
        CommandSet {
            words: vec![u64::MAX; numbers().len().div_ceil(64)],
        }
    }

    pub(super) fn contains(&self, command: &Command) -> bool {
        number_of(command).is_some_and(|at| {
            let word = self.words.get(at / 64).copied().unwrap_or(0);
            word & (1 << (at % 64)) != 0
        })
    }

    /// Puts a command in or takes it out, and with it all of its subcommands.
    pub(super) fn set(&mut self, command: &'static Command, allow: bool) {
        let all = std::iter::once(command).chain(command.subcommands);
        for at in all.filter_map(number_of) {
            if at / 64 >= self.words.len() {
                self.words.resize(at / 64 + 1, 0);
            }
            let bit = 1 << (at % 64);
            match allow {
                true => self.words[at / 64] |= bit,
                false => self.words[at / 64] &= !bit,
            }
        }
    }
}

/// Every command and subcommand.
pub(crate) fn every_command() -> impl Iterator<Item = &'static Command> {
    commands::table::all().flat_map(|command| std::iter::once(command).chain(command.subcommands))
}

/// The number of a command, if it is one of the table.
pub(super) fn number_of(command: &Command) -> Option<usize> {
    let address = std::ptr::from_ref(command).addr();
    numbers().get(&address).copied()
}

fn numbers() -> &'static HashMap<usize, usize, foldhash::fast::RandomState> {
    static NUMBERS: OnceLock<HashMap<usize, usize, foldhash::fast::RandomState>> = OnceLock::new();
    NUMBERS.get_or_init(|| {
        let address = |command: &'static Command| std::ptr::from_ref(command).addr();
        every_command()
            .enumerate()
            .map(|(number, command)| (address(command), number))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_keyspace::lookup_full;

    #[test]
    fn a_container_brings_its_subcommands() {
        let mut set = CommandSet::default();
        let (config, get) = (
            lookup_full(b"config").unwrap(),
            lookup_full(b"config|get").unwrap(),
        );
        set.set(config, true);
        assert!(set.contains(config) && set.contains(get));
        set.set(get, false);
        assert!(set.contains(config) && !set.contains(get));
        assert!(!set.contains(lookup_full(b"get").unwrap()));
        assert!(every_command().all(|command| CommandSet::all().contains(command)));
    }
}
