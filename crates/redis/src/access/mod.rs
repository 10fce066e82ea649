//! Access control as Redis has it: users, what they may do, and what was refused of late.
//!
//! A session keeps its user and the user's rules. A change of any user raises the
//! generation, which each session compares before each command with the one it has seen. The change
//! is mailed to all lanes too, so that idle connections end if they are no longer allowed.

mod databases;
mod denial;
mod file;
mod key_rights;
mod log;
mod numbers;
mod rules;
mod selector;
mod sha256;

pub use key_rights::{KeyRights, Verb};

pub(crate) use file::{check_user, replace_file};
pub(crate) use log::{AclLogEntry, Log};
pub(crate) use rules::Rules;

pub(crate) use denial::{NO_KEY, denial_text, no_command_text};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tidewire_keyspace::Command;
use tidewire_keyspace::commands::sort_patterns;
use tidewire_resp::Arguments;

use crate::attention::Attention;
use selector::has_blanks;

/// All users.
#[derive(Debug)]
pub struct AccessControl {
    /// Its generation is raised by every change of any user.
    attention: Arc<Attention>,
    /// Users are described as Valkey does it.
    follows_valkey: bool,
    /// The generation for which each lane has checked its sessions.
    looked: Vec<AtomicU64>,
    /// Lanes whose clients wait for a reply until all have looked, a bit each.
    waiting: AtomicU64,
    users: RwLock<BTreeMap<Box<[u8]>, Arc<User>>>,
    default: Arc<User>,
    pub(crate) log: Mutex<Log>,
    /// Refusals by [`Reason`].
    refusals: [AtomicU64; 6],
}

/// A user. A session keeps its user even if the rules change.
#[derive(Debug)]
pub struct User {
    pub(crate) name: Box<[u8]>,
    /// None once the user is deleted.
    rules: RwLock<Option<Arc<Rules>>>,
}

/// Why something was refused; what tells more comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Database,
    Command,
    Key,
    Authentication,
    Channel,
    /// A certificate names no user.
    Certificate,
}

/// A refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Denial {
    pub(crate) reason: Reason,
    /// The argument that it is about; 0 is the command.
    pub(crate) at: usize,
}

/// Where a request came from that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Toplevel,
    Multi,
    Script,
}

/// Why a modifier of a user is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModifierError {
    Unknown,
    Syntax,
    KeysAfterAll,
    ChannelsAfterAll,
    NoSuchPassword,
    BadDigest,
    FirstArgumentOfSubcommand,
    DatabaseOutOfRange,
}

impl fmt::Display for ModifierError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ModifierError::Unknown => "Unknown command or category name in ACL",
            ModifierError::Syntax => "Syntax error",
            ModifierError::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and \
                 does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            ModifierError::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid \
                 and does not have any effect. Try 'resetchannels' to start with an empty list of \
                 channels"
            }
            ModifierError::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            ModifierError::BadDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            ModifierError::FirstArgumentOfSubcommand => {
                "Allowing first-arg of a subcommand is not supported"
            }
            ModifierError::DatabaseOutOfRange => "The provided database ID is out of range",
        })
    }
}

impl User {
    fn new(name: &[u8], rules: Rules) -> Arc<Self> {
        Arc::new(User {
            name: name.into(),
            rules: RwLock::new(Some(Arc::new(rules))),
        })
    }

    /// Whether it exists and may come in.
    pub fn is_enabled(&self) -> bool {
        self.rules().is_some_and(|rules| rules.is_enabled)
    }

    /// Whether any password is right.
    pub fn needs_no_password(&self) -> bool {
        self.rules().is_some_and(|rules| rules.needs_no_password)
    }

    /// What it may do; nothing once it is deleted.
    pub(crate) fn rules(&self) -> Option<Arc<Rules>> {
        self.rules.read().clone()
    }

    /// The name.
    pub fn name_bytes(&self) -> &[u8] {
        &self.name
    }

    /// The name as text.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }
}

impl Rules {
    /// Why SORT may not look at further keys, if it wants to.
    pub(crate) fn sort_refusal(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
    ) -> Option<&'static str> {
        let patterns = sort_patterns(arguments);
        let wish = match patterns {
            _ if patterns.by => Some(SORT_BY),
            _ if patterns.get => Some(SORT_GET),
            _ => None,
        };
        wish.filter(|_| !self.check_reading_every_key(command, arguments, database))
    }

    /// Whether these rules forbid a subscription that the `old` rules allowed.
    pub(crate) fn revokes<'a>(
        &self,
        old: &Rules,
        mut channels: impl Iterator<Item = &'a [u8]>,
        mut patterns: impl Iterator<Item = &'a [u8]>,
    ) -> bool {
        !self.allows_channels_of(old)
            && (channels.any(|name| !self.allows_channel(name, false))
                || patterns.any(|name| !self.allows_channel(name, true)))
    }
}

impl AccessControl {
    /// Creates one user, `default`, unrestricted and without a password.
    pub(crate) fn new(lanes: usize, attention: Arc<Attention>, follows_valkey: bool) -> Self {
        let default = User::new(b"default", Rules::unlimited());
        let users = [(default.name.clone(), default.clone())];
        AccessControl {
            attention,
            follows_valkey,
            waiting: AtomicU64::new(0),
            looked: (0..lanes).map(|_| AtomicU64::new(1)).collect(),
            users: RwLock::new(users.into()),
            default,
            log: Mutex::default(),
            refusals: Default::default(),
        }
    }

    /// How often users have changed, from 1.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.attention.generation()
    }

    /// Notes that a lane has checked all of its sessions. Returns the lanes that wait for that, one
    /// bit each.
    pub(crate) fn set_looked(&self, lane: usize, generation: u64) -> u64 {
        debug_assert!(
            self.looked[lane].load(Ordering::SeqCst) <= generation,
            "a lane looks at newer users each time"
        );
        debug_assert!(
            generation <= self.generation(),
            "a lane has looked at a generation that there was"
        );
        self.looked[lane].store(generation, Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst)
    }

    /// The generation for which every lane has checked its sessions.
    pub(crate) fn looked_by_all(&self) -> u64 {
        let looked = self.looked.iter();
        let looked = looked.map(|looked| looked.load(Ordering::SeqCst));
        looked.min().unwrap_or(u64::MAX)
    }

    /// A lane is to be woken when others have looked, or no more. It says so before it compares.
    pub(crate) fn set_waiting(&self, lane: usize, on: bool) {
        match on {
            true => self.waiting.fetch_or(1 << lane, Ordering::SeqCst),
            false => self.waiting.fetch_and(!(1 << lane), Ordering::SeqCst),
        };
    }

    fn raise_generation(&self) {
        self.attention.raise_generation();
    }

    /// The user of connections that have not authenticated.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// Whether a new connection must give a password first.
    pub fn requires_password(&self) -> bool {
        let rules = self.default.rules();
        rules.is_none_or(|rules| !rules.needs_no_password || !rules.is_enabled)
    }

    /// Whether the default user comes in with any password.
    pub fn default_needs_no_password(&self) -> bool {
        let rules = self.default.rules();
        rules.is_some_and(|rules| rules.needs_no_password)
    }

    /// The user of this name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().get(name).cloned()
    }

    /// All users by name, and what they may do.
    pub(crate) fn all(&self) -> Vec<(Arc<User>, Arc<Rules>)> {
        let users = self.users.read();
        let known = users
            .values()
            .filter_map(|user| Some((user.clone(), user.rules()?)));
        known.collect()
    }

    /// The user with this name and password, if there is one and may come in.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let user = self.find(name)?;
        user.rules()?.admits(password).then_some(user)
    }

    /// Makes or changes a user: by all modifiers or, with the text of the refusal, by none.
    pub(crate) fn set_user(
        &self,
        name: &[u8],
        modifiers: &[&[u8]],
        all_channels: bool,
    ) -> Result<(), String> {
        if has_blanks(name) {
            return Err("Usernames can't contain spaces or null characters".to_owned());
        }
        let modifiers = join_selectors(modifiers).map_err(|start| {
            let start = String::from_utf8_lossy(start);
            format!("Unmatched parenthesis in acl selector starting at '{start}'.")
        })?;
        let mut users = self.users.write();
        let current = users.get(name).and_then(|user| user.rules());
        let mut rules = match current {
            Some(rules) => Rules::clone(&rules),
            None => Rules::new(all_channels),
        };
        for modifier in &modifiers {
            rules.apply(modifier, all_channels).map_err(|error| {
                let modifier = String::from_utf8_lossy(modifier);
                format!("Error in ACL SETUSER modifier '{modifier}': {error}")
            })?;
        }
        match users.get(name) {
            Some(user) => *user.rules.write() = Some(Arc::new(rules)),
            None => {
                users.insert(name.into(), User::new(name, rules));
            }
        }
        self.assert_has_default(&users);
        drop(users);
        self.raise_generation();
        Ok(())
    }

    /// Deletes users; how many there were.
    pub(crate) fn delete(&self, names: impl Iterator<Item = impl AsRef<[u8]>>) -> usize {
        let mut users = self.users.write();
        let mut count = 0;
        for name in names {
            if let Some(user) = users.remove(name.as_ref()) {
                *user.rules.write() = None;
                count += 1;
            }
        }
        self.assert_has_default(&users);
        drop(users);
        self.raise_generation();
        count
    }

    /// Applies `requirepass`: the only password of the default user, or none if it is empty.
    pub(crate) fn set_default_password(&self, password: &[u8]) {
        let mut rules = self.default.rules.write();
        if let Some(current) = &*rules {
            let mut changed = Rules::clone(current);
            // Neither of these modifiers is refused.
            let _ = changed.apply(b"resetpass", false);
            let _ = match password {
                b"" => changed.apply(b"nopass", false),
                _ => changed.apply(&[b">", password].concat(), false),
            };
            *rules = Some(Arc::new(changed));
        }
        drop(rules);
        self.raise_generation();
    }

    /// Replaces all users. A user whose name remains keeps its sessions.
    fn replace(&self, mut fresh: BTreeMap<Box<[u8]>, Rules>) {
        let mut users = self.users.write();
        if !fresh.contains_key(&self.default.name) {
            fresh.insert(self.default.name.clone(), Rules::unlimited());
        }
        users.retain(|name, user| {
            let stays = fresh.contains_key(name);
            if !stays {
                *user.rules.write() = None;
            }
            stays
        });
        for (name, rules) in fresh {
            match users.get(&name) {
                Some(user) => *user.rules.write() = Some(Arc::new(rules)),
                None => {
                    let user = User::new(&name, rules);
                    users.insert(name, user);
                }
            }
        }
        debug_assert!(
            users.iter().all(|(name, user)| *name == user.name),
            "each user stands under its name"
        );
        self.assert_has_default(&users);
        drop(users);
        self.raise_generation();
    }

    fn assert_has_default(&self, users: &BTreeMap<Box<[u8]>, Arc<User>>) {
        if !cfg!(debug_assertions) {
            return;
        }
        let default = users.get(&self.default.name);
        debug_assert!(
            default.is_some_and(|user| Arc::ptr_eq(user, &self.default)),
            "the default user is never replaced by another of its name"
        );
        debug_assert!(
            self.default.rules.read().is_some(),
            "the default user is never deleted"
        );
    }

    /// Counts a refusal, and keeps it for ACL LOG where `entries_max` lets it.
    pub(crate) fn note(&self, entry: AclLogEntry, entries_max: usize) {
        self.refusals[entry.reason as usize].fetch_add(1, Ordering::Relaxed);
        self.log.lock().add(entry, entries_max);
    }

    /// Refusals for one reason.
    pub(crate) fn refusals(&self, reason: Reason) -> u64 {
        self.refusals[reason as usize].load(Ordering::Relaxed)
    }

    /// Sets the counters of refusals to zero.
    pub(crate) fn reset_refusals(&self) {
        for count in &self.refusals {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// Puts selectors together that blanks have torn apart. The first part of one that never ends is
/// the error.
fn join_selectors<'a>(modifiers: &[&'a [u8]]) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let mut joined: Vec<Vec<u8>> = Vec::new();
    let mut open = None;
    for modifier in modifiers {
        match (open, joined.last_mut()) {
            (Some(_), Some(selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(modifier);
            }
            _ => joined.push(modifier.to_vec()),
        }
        let ends = modifier.ends_with(b")");
        if open.is_none() && modifier.starts_with(b"(") && !ends {
            open = Some(*modifier);
        } else if ends {
            open = None;
        }
    }
    open.map_or(Ok(joined), Err)
}

const SORT_BY: &str = "ERR BY option of SORT denied due to insufficient ACL permissions.";
const SORT_GET: &str = "ERR GET option of SORT denied due to insufficient ACL permissions.";

#[cfg(test)]
mod tests;
