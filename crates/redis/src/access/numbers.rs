//! Commands as bits of a set: each command and subcommand of the one table has a number.

use tidewire_keyspace::Command;
use tidewire_keyspace::commands::table;

/// A set of commands and subcommands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandSet {
    words: Vec<u64>,
}

impl CommandSet {
    pub(super) fn all() -> Self {
        CommandSet {
            words: vec![u64::MAX; table::COUNT.div_ceil(64)],
        }
    }

    pub(super) fn contains(&self, command: &Command) -> bool {
        let at = usize::from(command.number);
        let word = self.words.get(at / 64).copied().unwrap_or(0);
        word & (1 << (at % 64)) != 0
    }

    /// Puts a command in or takes it out, and with it all of its subcommands.
    pub(super) fn set(&mut self, command: &'static Command, allow: bool) {
        let all = std::iter::once(command).chain(command.subcommands());
        for at in all.map(|command| usize::from(command.number)) {
            if at / 64 >= self.words.len() {
                self.words.resize(at / 64 + 1, 0);
            }
            let bit = 1 << (at % 64);
            match allow {
                true => self.words[at / 64] |= bit,
                false => self.words[at / 64] &= !bit,
            }
        }
        debug_assert!(
            self.words.len() <= table::COUNT.div_ceil(64),
            "only commands of the table are in a set"
        );
        debug_assert!(
            self.contains(command) == allow
                && command
                    .subcommands()
                    .iter()
                    .all(|part| self.contains(part) == allow),
            "a container is set with all of its subcommands"
        );
    }
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
        assert!(
            table::with_parts()
                .iter()
                .all(|command| CommandSet::all().contains(command))
        );
    }
}
