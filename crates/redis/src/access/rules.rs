//! What a user may do, and the modifiers that say so, such as `on`, `>password` and `~key:*`.

use tidewire_keyspace::{Command, Flags, lookup};
use tidewire_resp::Arguments;

use super::databases::Databases;
use super::selector::{KeyAccess, Selector};
use super::sha256::sha256;
use super::{Denial, ModifierError, Reason};

/// What a user may do. Never changed: a user gets new rules.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) is_enabled: bool,
    /// Any password will do, and the default user needs none at all.
    pub(crate) needs_no_password: bool,
    skips_sanitizing: bool,
    passwords: Vec<[u8; 32]>,
    /// The first is the user's own, without parentheses.
    pub(super) selectors: Vec<Selector>,
}

impl Rules {
    /// Returns the rules of a new user, who may do nothing.
    pub(super) fn new(all_channels: bool) -> Self {
        Rules {
            is_enabled: false,
            needs_no_password: false,
            skips_sanitizing: false,
            passwords: Vec::new(),
            selectors: vec![Selector::new(all_channels)],
        }
    }

    /// Returns the first rules of the default user: unrestricted, without a password.
    pub(super) fn unlimited() -> Self {
        let mut rules = Rules::new(true);
        rules.is_enabled = true;
        rules.needs_no_password = true;
        let root = &mut rules.selectors[0];
        // These three are no errors.
        let _ = [&b"+@all"[..], b"~*", b"&*"].map(|modifier| root.apply(modifier));
        debug_assert!(
            rules.is_unlimited(),
            "the default user may do everything at first"
        );
        rules
    }

    /// Whether one of its selectors does not allow every database.
    pub(crate) fn limits_databases(&self) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.any(|own| own.databases != Databases::All)
    }

    /// Whether every request is allowed.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.selectors.iter().any(Selector::is_unlimited)
    }

    /// Applies one modifier. `all_channels` is how new selectors begin.
    pub(super) fn apply(
        &mut self,
        modifier: &[u8],
        all_channels: bool,
    ) -> Result<(), ModifierError> {
        let is = |word: &str| modifier.eq_ignore_ascii_case(word.as_bytes());
        if modifier.is_empty() {
            // As Redis has it.
        } else if is("on") || is("off") {
            self.is_enabled = is("on");
        } else if is("skip-sanitize-payload") || is("sanitize-payload") {
            self.skips_sanitizing = is("skip-sanitize-payload");
        } else if is("nopass") || is("resetpass") {
            self.needs_no_password = is("nopass");
            self.passwords.clear();
        } else if is("clearselectors") {
            self.selectors.truncate(1);
        } else if is("reset") {
            *self = Rules::new(all_channels);
        } else {
            match modifier {
                [b'>', password @ ..] => self.add_password(sha256(password)),
                [b'#', digest @ ..] => self.add_password(read_digest(digest)?),
                [b'<', password @ ..] => self.remove_password(sha256(password))?,
                [b'!', digest @ ..] => self.remove_password(read_digest(digest)?)?,
                [b'(', inner @ .., b')'] => {
                    let mut selector = Selector::new(all_channels);
                    for word in words(inner) {
                        selector.apply(word)?;
                    }
                    self.selectors.push(selector);
                }
                _ => self.selectors[0].apply(modifier)?,
            }
        }
        self.assert_invariants();
        Ok(())
    }

    fn assert_invariants(&self) {
        debug_assert!(
            !self.selectors.is_empty(),
            "a user has a selector of its own"
        );
        debug_assert!(
            !self.needs_no_password || self.passwords.is_empty(),
            "a user whom any password admits has none"
        );
        self.selectors.iter().for_each(Selector::assert_invariants);
    }

    fn add_password(&mut self, digest: [u8; 32]) {
        self.needs_no_password = false;
        if !self.passwords.contains(&digest) {
            self.passwords.push(digest);
        }
    }

    fn remove_password(&mut self, digest: [u8; 32]) -> Result<(), ModifierError> {
        let at = self.passwords.iter().position(|own| *own == digest);
        self.passwords
            .remove(at.ok_or(ModifierError::NoSuchPassword)?);
        Ok(())
    }

    /// Whether the password is right and the user enabled. Takes the same time wherever a wrong
    /// password differs.
    pub(super) fn admits(&self, password: &[u8]) -> bool {
        if !self.is_enabled || self.needs_no_password {
            return self.is_enabled;
        }
        let given = sha256(password);
        let difference = |own: &[u8; 32]| {
            let pairs = own.iter().zip(&given);
            pairs.fold(0, |all, (one, other)| all | (one ^ other))
        };
        let matches = self.passwords.iter().map(difference);
        matches.fold(false, |found, difference| found | (difference == 0))
    }

    /// Whether a request is allowed in a database; if not, the reason that tells most.
    pub(crate) fn check(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
    ) -> Result<(), Denial> {
        let mut denial = Denial {
            reason: Reason::Database,
            at: 0,
        };
        let mut keys = None;
        for selector in &self.selectors {
            match check_selector(selector, command, (arguments, database), &mut keys) {
                Ok(()) => return Ok(()),
                Err(other) => denial = denial.max(other),
            }
        }
        debug_assert!(
            !self.is_unlimited(),
            "a user who may do everything is denied nothing"
        );
        debug_assert!(
            denial.at < arguments.len().max(1),
            "a denial is about an argument of the request"
        );
        Err(denial)
    }

    /// Whether a command may read a key of a database that its arguments only stand for.
    pub(crate) fn may_read_with(
        &self,
        command: &'static Command,
        key: &[u8],
        database: usize,
    ) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.any(|own| {
            own.allows_command(command, None)
                && own.allows_key(key, KeyAccess::READ)
                && own.databases.allows(database)
        })
    }

    /// Whether a request is allowed that may read every key besides.
    pub(super) fn check_reading_every_key(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
    ) -> bool {
        let mut keys = None;
        self.selectors.iter().any(|selector| {
            selector.reads_every_key()
                && check_selector(selector, command, (arguments, database), &mut keys).is_ok()
        })
    }

    /// Whether a channel may be used, or a pattern be subscribed to.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// Whether all channels may be listened to whose names begin so.
    pub(crate) fn allows_prefix(&self, prefix: &[u8]) -> bool {
        let command = lookup(b"psubscribe");
        let mut selectors = self.selectors.iter();
        selectors.any(|selector| {
            let may_listen = command.is_some_and(|command| selector.allows_command(command, None));
            may_listen && selector.allows_prefix(prefix)
        })
    }

    /// Whether every channel is still allowed that `other` allows, as far as the patterns tell.
    pub(super) fn allows_channels_of(&self, other: &Rules) -> bool {
        let all = |rules: &Rules| rules.selectors.iter().any(|selector| selector.all_channels);
        let own = || self.selectors.iter().flat_map(|own| &own.channels);
        let mut others = other.selectors.iter().flat_map(|other| &other.channels);
        all(self) || !all(other) && others.all(|pattern| own().any(|own| own == pattern))
    }

    /// The words of its switches, in Redis's order. Valkey has no switches of payloads.
    pub(crate) fn flags(&self, of_valkey: bool) -> Vec<&'static str> {
        let mut flags = vec![if self.is_enabled { "on" } else { "off" }];
        if self.needs_no_password {
            flags.push("nopass");
        }
        match self.skips_sanitizing {
            _ if of_valkey => {}
            true => flags.push("skip-sanitize-payload"),
            false => flags.push("sanitize-payload"),
        }
        flags
    }

    /// The digests of its passwords, in hexadecimal digits.
    pub(crate) fn password_digests(&self) -> impl Iterator<Item = String> {
        let hex = |digest: &[u8; 32]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.passwords.iter().map(hex)
    }

    /// The modifiers that make these rules of a new user's.
    pub(crate) fn describe(&self, for_valkey: bool) -> Vec<u8> {
        let mut text = self.flags(for_valkey).join(" ").into_bytes();
        text.push(b' ');
        for digest in self.password_digests() {
            text.extend_from_slice(format!("#{digest} ").as_bytes());
        }
        for (at, selector) in self.selectors.iter().enumerate() {
            match at {
                0 => text.extend(selector.describe()),
                _ => text.extend([b" (", &selector.describe()[..], b")"].concat()),
            }
        }
        text
    }

    /// The fields of ACL GETUSER that tell of a selector, the user's own or one of the others:
    /// commands, keys, channels, databases.
    pub(crate) fn selector_fields(&self) -> impl ExactSizeIterator<Item = [Vec<u8>; 4]> {
        self.selectors.iter().map(|selector| {
            [
                selector.describe_commands().into_bytes(),
                selector.describe_keys(),
                selector.describe_channels(),
                selector.databases.describe().into_bytes(),
            ]
        })
    }
}

/// The keys of a request, found once for all selectors.
type Keys = Option<Vec<(usize, &'static str)>>;

fn check_selector(
    selector: &Selector,
    command: &'static Command,
    (arguments, database): (Arguments<'_>, usize),
    keys: &mut Keys,
) -> Result<(), Denial> {
    if let Some(at) = selector.databases.refused(command, arguments, database) {
        return Err(Denial {
            reason: Reason::Database,
            at,
        });
    }
    if !command.has(Flags::NO_AUTH) && !selector.allows_command(command, arguments.get(1)) {
        return Err(Denial {
            reason: Reason::Command,
            at: 0,
        });
    }
    if !selector.all_keys && !command.keys.is_empty() {
        let allows = |&(at, flags): &(usize, &'static str)| {
            selector.allows_key(&arguments[at], KeyAccess::of_flags(flags))
        };
        let only = command.only_key_with_flags(arguments);
        let refused = match &only {
            Some(only) => (!allows(only)).then_some(only),
            None => {
                let keys = keys.get_or_insert_with(|| command.keys_with_flags(arguments));
                keys.iter().find(|key| !allows(key))
            }
        };
        if let Some(&(at, _)) = refused {
            return Err(Denial {
                reason: Reason::Key,
                at,
            });
        }
    }
    if !selector.all_channels
        && let Some(last) = last_channel(command, arguments)
    {
        let is_pattern = command.has(Flags::PATTERNS);
        for at in 1..=last.min(arguments.len() - 1) {
            if !selector.allows_channel(&arguments[at], is_pattern) {
                return Err(Denial {
                    reason: Reason::Channel,
                    at,
                });
            }
        }
    }
    Ok(())
}

/// Where a command's channels end, which begin at its first argument.
fn last_channel(command: &Command, arguments: Arguments<'_>) -> Option<usize> {
    match command.full_name {
        "subscribe" | "psubscribe" | "ssubscribe" => Some(arguments.len() - 1),
        "publish" | "spublish" => Some(1),
        _ => None,
    }
}

fn read_digest(text: &[u8]) -> Result<[u8; 32], ModifierError> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut digest = [0; 32];
    if text.len() != 64 {
        return Err(ModifierError::BadDigest);
    }
    for (to, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        let high = digit(pair[0]).ok_or(ModifierError::BadDigest)?;
        let low = digit(pair[1]).ok_or(ModifierError::BadDigest)?;
        *to = high << 4 | low;
    }
    Ok(digest)
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}
