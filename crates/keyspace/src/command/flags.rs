//! Properties of a command that are needed before it runs, as bits.

use std::fmt;
use std::ops::BitOr;

/// Flags of a command: those that COMMAND shows, and some for the server alone.
///
/// The command table writes them as words, which are parsed at compile time. An unknown word does
/// not compile.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u64);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        impl Flags {
            const NAMES: &[&str] = &[$($word),*];
            flags!(@number 0; $($(#[$doc])* $name,)*);
        }
    };
    (@number $at:expr; $(#[$doc:meta])* $name:ident, $($rest:tt)*) => {
        $(#[$doc])*
        pub const $name: Flags = Flags(1 << ($at));
        flags!(@number $at + 1; $($rest)*);
    };
    (@number $at:expr;) => {};
}

// The first ones, up to `ALLOW_BUSY`, in Redis's order: COMMAND shows them in this order.
flags! {
    /// It changes keys.
    WRITE = "write",
    /// It reads keys.
    READONLY = "readonly",
    /// It may need more memory.
    DENYOOM = "denyoom",
    /// It belongs to a module.
    MODULE = "module",
    /// It administers the server.
    ADMIN = "admin",
    /// It publishes or subscribes.
    PUBSUB = "pubsub",
    /// Scripts may not call it.
    NOSCRIPT = "noscript",
    /// It may wait for a key.
    BLOCKING = "blocking",
    /// It runs while keys are loaded.
    LOADING = "loading",
    /// It runs on a replica that has lost its master.
    STALE = "stale",
    /// MONITOR does not show it.
    SKIP_MONITOR = "skip_monitor",
    /// SLOWLOG does not keep it.
    SKIP_SLOWLOG = "skip_slowlog",
    /// It is for a slot that is moving.
    ASKING = "asking",
    /// It takes constant or logarithmic time.
    FAST = "fast",
    /// It needs no authentication.
    NO_AUTH = "no_auth",
    /// It does not run while a replica loads a new data set beside the old one.
    NO_ASYNC_LOADING = "no_async_loading",
    /// MULTI does not queue it.
    NO_MULTI = "no_multi",
    /// It may have no keys.
    NO_MANDATORY_KEYS = "no_mandatory_keys",
    /// Its keys are not at fixed positions.
    MOVABLEKEYS = "movablekeys",
    /// It runs while a script has run for too long.
    ALLOW_BUSY = "allow_busy",

    /// Replicas may receive it although it is no write: CLIENT PAUSE uses this flag.
    MAY_REPLICATE = "may_replicate",
    /// It is EXEC.
    EXECUTES = "executes",
    /// It runs at once even after MULTI.
    AT_ONCE = "at_once",
    /// A RESP2 subscriber may send it.
    FOR_SUBSCRIBERS = "for_subscribers",
    /// It locks no shard itself: EXEC can run it while EXEC holds its own shards.
    LOCKS_NOTHING = "locks_nothing",
    /// It may change keys itself, or wait for another thread. EXEC propagates the effects of
    /// earlier commands first.
    TELLS_ITSELF = "tells_itself",
    /// It empties databases and frees their contents in the background.
    FLUSHES = "flushes",
    /// It runs a script or a function.
    RUNS_SCRIPT = "runs_script",
    /// It changes the libraries of functions: no other lane runs meanwhile, so that replicas, files
    /// and snapshots see such changes in their order.
    CHANGES_LIBRARIES = "changes_libraries",
    /// It names its script by SHA1 digest.
    BY_SHA1 = "by_sha1",
    /// It names a function.
    CALLS_FUNCTION = "calls_function",
    /// It reports which script runs.
    TELLS_SCRIPT = "tells_script",
    /// It is PUBLISH: its channel may be a live key's.
    PUBLISHES = "publishes",
    /// Its channels are patterns.
    PATTERNS = "patterns",
    /// It is DEBUG, which must be enabled.
    DEBUGS = "debugs",
    /// It is CONFIG SET: its locks depend on the parameters it sets.
    SETS_PARAMETERS = "sets_parameters",
    /// It reports whether the server is usable, so it is refused when writes are.
    TELLS_HEALTH = "tells_health",
    /// It accepts a payload of DUMP.
    RESTORES = "restores",
    /// It changes users.
    CHANGES_USERS = "changes_users",
    /// It may find that any key has expired: it propagates removals key by key.
    TOUCHES_ANY_KEY = "touches_any_key",
    /// It changes the keys that it names. For a mounted key, it is refused before it runs.
    WRITES_KEYS = "writes_keys",
}

impl Flags {
    /// Parses flag words separated by a blank.
    ///
    /// # Panics
    ///
    /// Panics if a word is not a flag.
    pub(crate) const fn parse(words: &str) -> Self {
        let mut rest = words.as_bytes();
        let mut flags = 0;
        while !rest.is_empty() {
            let mut length = 0;
            while length < rest.len() && rest[length] != b' ' {
                length += 1;
            }
            let (word, behind) = rest.split_at(length);
            flags |= 1 << number(word);
            rest = match behind {
                [_, behind @ ..] => behind,
                [] => behind,
            };
        }
        Flags(flags)
    }

    /// Returns whether it has any of `others`.
    #[inline]
    pub const fn has(self, others: Flags) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns these flags and `others`.
    pub const fn with(self, others: Flags) -> Self {
        Flags(self.0 | others.0)
    }

    pub(crate) const fn without(self, others: Flags) -> Self {
        Flags(self.0 & !others.0)
    }

    /// Returns the flags that COMMAND shows, in Redis's order.
    pub(crate) fn shown(self) -> impl Iterator<Item = &'static str> {
        let shown = self.0 & (Flags::MAY_REPLICATE.0 - 1);
        let names = Flags::NAMES.iter().enumerate();
        names.filter_map(move |(at, name)| (shown >> at & 1 != 0).then_some(*name))
    }
}

/// Returns the bit number of a word.
const fn number(word: &[u8]) -> usize {
    let mut at = 0;
    while at < Flags::NAMES.len() {
        if is_same(Flags::NAMES[at].as_bytes(), word) {
            return at;
        }
        at += 1;
    }
    panic!("a word in the table of commands is no flag")
}

/// Returns whether two texts are equal; `==` is not yet usable in a `const fn`.
pub(crate) const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        self.with(other)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Flags::NAMES.iter().enumerate();
        let own = names.filter(|(at, _)| self.0 >> at & 1 != 0);
        f.debug_set().entries(own.map(|(_, name)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parsed_and_listed_in_order() {
        let flags = Flags::parse("fast may_replicate write");
        assert!(flags.has(Flags::WRITE) && flags.has(Flags::FAST | Flags::ADMIN));
        assert!(flags.has(Flags::MAY_REPLICATE) && !flags.has(Flags::ADMIN));
        assert_eq!(flags.shown().collect::<Vec<_>>(), ["write", "fast"]);
        assert_eq!(Flags::parse(""), Flags::default());
    }
}
