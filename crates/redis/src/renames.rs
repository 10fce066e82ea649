//! `rename-command` of a redis.conf: commands under other names.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_keyspace::{Command, lookup, resolve, resolve_part, unknown_command_text};
use tidewire_resp::Arguments;

/// What requests name a command otherwise than the table does.
#[derive(Debug)]
pub(crate) struct Renames {
    /// By the name in lower case; none where a name means nothing any more.
    by_name: HashMap<String, Option<&'static Command>>,
}

impl Renames {
    /// Pairs of an old name and a new one, which may be empty; nothing if there are none.
    pub(crate) fn new(pairs: &[(String, String)]) -> Option<Arc<Self>> {
        let mut by_name = HashMap::new();
        for (old, _) in pairs {
            by_name.insert(old.clone(), None);
        }
        for (old, new) in pairs.iter().filter(|(_, new)| !new.is_empty()) {
            by_name.insert(new.clone(), lookup(old.as_bytes()));
        }
        debug_assert!(
            by_name
                .keys()
                .all(|name: &String| *name == name.to_lowercase()),
            "names are found in lower case"
        );
        (!by_name.is_empty()).then(|| Arc::new(Renames { by_name }))
    }

    /// As [`resolve`], by these names.
    pub(crate) fn resolve(&self, arguments: Arguments<'_>) -> Result<&'static Command, String> {
        match self.find(arguments.get(0).unwrap_or_default()) {
            None => resolve(arguments),
            Some(Some(command)) => resolve_part(command, arguments),
            Some(None) => Err(unknown_command_text(arguments)),
        }
    }

    /// As [`lookup`], by these names.
    pub(crate) fn lookup(&self, name: &[u8]) -> Option<&'static Command> {
        self.find(name).unwrap_or_else(|| lookup(name))
    }

    /// Whether a command has any name.
    pub(crate) fn offers(&self, command: &Command) -> bool {
        let own = command.full_name.split('|').next().unwrap_or_default();
        let mut named = self.by_name.values().flatten();
        !self.by_name.contains_key(own) || named.any(|named| named.name == own)
    }

    fn find(&self, name: &[u8]) -> Option<Option<&'static Command>> {
        let name = std::str::from_utf8(name).ok()?.to_lowercase();
        self.by_name.get(&name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_resp::ArgumentList;

    #[test]
    fn a_command_is_found_by_its_new_name_alone() {
        let own = |old: &str, new: &str| (old.to_owned(), new.to_owned());
        let pairs = [own("config", "settings"), own("flushall", "")];
        let renames = Renames::new(&pairs).unwrap();
        let resolve = |words: &[&str]| {
            let mut arguments = ArgumentList::new();
            words
                .iter()
                .for_each(|word| arguments.push(word.as_bytes()));
            renames
                .resolve(arguments.as_arguments())
                .map(|command| command.full_name)
        };
        assert_eq!(resolve(&["SETTINGS", "get", "x"]), Ok("config|get"));
        assert_eq!(resolve(&["get", "x"]), Ok("get"));
        assert!(resolve(&["config", "get", "x"]).is_err());
        assert!(
            resolve(&["FLUSHALL"])
                .unwrap_err()
                .starts_with("ERR unknown command 'FLUSHALL'")
        );
        let offers = |name: &str| renames.offers(lookup(name.as_bytes()).unwrap());
        assert!(offers("config") && offers("get") && !offers("flushall"));
        assert!(Renames::new(&[]).is_none());
    }
}
