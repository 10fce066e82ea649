//! What a user may do to keys, for protocols that have no commands.

use std::sync::Arc;

use tidewire_keyspace::{Command, lookup};

use super::Rules;
use super::selector::{KeyAccess, Selector};

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// As GET does.
    Read,
    /// As SET does.
    Write,
}

/// The keys of database 0 with which a user may use GET, or SET. They never change: a user whose
/// rules change gets others.
#[derive(Clone, Debug)]
pub struct KeyRights {
    rules: Arc<Rules>,
    command: &'static Command,
    access: KeyAccess,
}

impl KeyRights {
    pub(crate) fn new(rules: Arc<Rules>, verb: Verb) -> Option<Self> {
        let (name, access) = match verb {
            Verb::Read => (&b"get"[..], KeyAccess::READ),
            Verb::Write => (&b"set"[..], KeyAccess::WRITE),
        };
        Some(Self {
            rules,
            command: lookup(name)?,
            access,
        })
    }

    /// Whether a key is among them.
    pub fn allows(&self, key: &[u8]) -> bool {
        let mut selectors = self.rules.selectors.iter();
        selectors.any(|own| {
            own.databases.allows(DATABASE)
                && own.allows_command(self.command, Some(key))
                && own.allows_key(key, self.access)
        })
    }

    /// Whether all keys are that begin so, as far as patterns of a text and `*` tell.
    pub fn allows_all(&self, prefix: &[u8]) -> bool {
        let mut selectors = self.selectors();
        selectors.any(|own| own.allows_keys_of(prefix, self.access))
    }

    /// Whether no key is that begins so, as far as the patterns tell.
    pub fn allows_none(&self, prefix: &[u8]) -> bool {
        let may = |own: &Selector| {
            own.databases.allows(DATABASE)
                && own.may_allow_command(self.command, prefix)
                && own.may_allow_key_of(prefix, self.access)
        };
        !self.rules.selectors.iter().any(may)
    }

    /// The number of patterns that a name is compared with.
    pub fn pattern_count(&self) -> usize {
        self.patterns().count()
    }

    /// Whether these are the same rights: nothing has changed but passwords and switches.
    pub fn is_as(&self, other: &KeyRights) -> bool {
        self.command.number == other.command.number
            && (Arc::ptr_eq(&self.rules, &other.rules)
                || self.rules.selectors == other.rules.selectors)
    }

    /// Whether all keys of `other` that begin so are among them, as far as the patterns tell.
    pub fn includes(&self, other: &KeyRights, prefix: &[u8]) -> bool {
        let limits = |own: &Selector| own.limits_arguments();
        let has = |wanted: &[u8]| self.patterns().any(|own| own == wanted);
        self.is_as(other)
            || self.allows_all(prefix)
            || !other.rules.selectors.iter().any(limits) && other.patterns().all(has)
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        let selectors = self.rules.selectors.iter();
        selectors
            .filter(|own| own.databases.allows(DATABASE) && own.allows_command(self.command, None))
    }

    fn patterns(&self) -> impl Iterator<Item = &[u8]> {
        self.selectors()
            .flat_map(|own| own.key_patterns(self.access))
    }
}

/// Protocols without SELECT use the first database.
const DATABASE: usize = 0;
