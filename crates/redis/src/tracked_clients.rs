//! CLIENT TRACKING: the clients that track, and their modes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_keyspace::Keyspace;
use tidewire_resp::{Protocol, Writer};

use crate::attention::{Attention, Obstacles};
use crate::clients::Client;

/// CLIENT TRACKING, of all clients.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    pub(crate) registry: Mutex<Registry>,
    /// Clients that track keys have left since their names were last looked for.
    pub(crate) has_left: AtomicU32,
}

#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) clients: u64,
    /// Clients that hear of keys they have read.
    pub(crate) readers: u64,
    /// Client numbers by the prefix whose changes they hear of.
    pub(crate) prefixes: BTreeMap<Box<[u8]>, Vec<u64>>,
}

/// CLIENT TRACKING of one client.
#[derive(Debug, Default)]
pub struct ClientTracking {
    pub(crate) flags: AtomicU32,
    /// The client that gets the invalidations instead; 0: itself.
    pub(crate) redirect: AtomicU64,
    /// None is the beginning of another.
    pub(crate) prefixes: Mutex<BTreeSet<Box<[u8]>>>,
    /// Bytes of the prefixes.
    pub(crate) prefix_bytes: AtomicU64,
}

/// What a client must no longer use.
#[derive(Clone, Debug)]
pub enum Invalid {
    /// These keys, as a RESP array.
    Keys(Arc<[u8]>),
    /// All keys.
    Everything,
    /// Nothing: the client that it redirects to has left.
    BrokenRedirect(u64),
}

impl ClientTracking {
    pub(crate) fn has(&self, flags: u32) -> bool {
        self.flags.load(Ordering::Acquire) & flags != 0
    }

    pub(crate) fn set(&self, flags: u32) {
        self.flags.fetch_or(flags, Ordering::AcqRel);
    }

    pub(crate) fn clear(&self, flags: u32) {
        self.flags.fetch_and(!flags, Ordering::AcqRel);
    }

    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let prefixes = self.prefixes.lock();
        debug_assert_eq!(
            self.has(BCAST),
            !prefixes.is_empty(),
            "a client hears of prefixes, or of what it has read"
        );
        let bytes = prefixes.iter().map(|one| one.len() as u64 + PREFIX_BYTES);
        debug_assert_eq!(
            self.prefix_bytes(),
            bytes.sum::<u64>(),
            "each prefix of a client is counted"
        );
    }

    /// The client that it redirects to; -1 if it does not track.
    pub(crate) fn redirect(&self) -> i64 {
        match self.has(ON) {
            true => self.redirect.load(Ordering::Acquire) as i64,
            false => -1,
        }
    }

    /// The prefixes that it hears of.
    pub(crate) fn prefixes(&self) -> Vec<Box<[u8]>> {
        self.prefixes.lock().iter().cloned().collect()
    }

    /// Bytes of its prefixes.
    pub(crate) fn prefix_bytes(&self) -> u64 {
        self.prefix_bytes.load(Ordering::Relaxed)
    }

    /// A prefix of its own under which there are keys that are also under `prefix`.
    pub(crate) fn overlapping(&self, prefix: &[u8]) -> Option<Box<[u8]>> {
        let prefixes = self.prefixes.lock();
        let up_to = (Bound::Unbounded, Bound::Included(prefix));
        let shorter = prefixes.range::<[u8], _>(up_to).next_back();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let longer = prefixes.range::<[u8], _>(from).next();
        let shorter = shorter.filter(|known| prefix.starts_with(known));
        let longer = longer.filter(|known| known.starts_with(prefix));
        shorter.or(longer).cloned()
    }

    /// Whether what it reads with its next command is tracked.
    pub(crate) fn remembers(&self) -> bool {
        let flags = self.flags.load(Ordering::Acquire);
        let is = |flag: u32| flags & flag != 0;
        if is(OPTIN) {
            is(ON) && is(CACHING)
        } else if is(OPTOUT) {
            is(ON) && !is(CACHING)
        } else {
            is(ON) && !is(BCAST)
        }
    }
}

impl Tracking {
    /// CLIENT TRACKING ON.
    pub(crate) fn enable(
        &self,
        keyspace: &Keyspace,
        attention: &Attention,
        client: &Client,
        options: u32,
        redirect: u64,
        prefixes: &[&[u8]],
    ) {
        let mut registry = self.registry.lock();
        let own = &client.tracking;
        if !own.has(ON) {
            registry.clients += 1;
            registry.readers += u64::from(options & BCAST == 0);
        }
        own.redirect.store(redirect, Ordering::Release);
        debug_assert!(registry.readers <= registry.clients, "a reader is a client");
        own.clear(BROKEN | BCAST | OPTIN | OPTOUT | NOLOOP);
        own.set(ON | options);
        if options & BCAST != 0 {
            let everything = [&b""[..]];
            let prefixes = match prefixes {
                [] => &everything[..],
                some => some,
            };
            for prefix in prefixes {
                let clients = registry.prefixes.entry(Box::from(*prefix)).or_default();
                if !clients.contains(&client.id) {
                    clients.push(client.id);
                    own.prefixes.lock().insert(Box::from(*prefix));
                    let bytes = prefix.len() as u64 + PREFIX_BYTES;
                    own.prefix_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
            }
        }
        own.assert_invariants();
        registry.tell(keyspace, attention);
    }

    /// CLIENT TRACKING OFF, or the client leaves.
    pub(crate) fn disable(&self, keyspace: &Keyspace, attention: &Attention, client: &Client) {
        let own = &client.tracking;
        if !own.has(ON) {
            return;
        }
        let mut registry = self.registry.lock();
        debug_assert!(registry.clients > 0, "who ends tracking was counted");
        registry.clients -= 1;
        if !own.has(BCAST) {
            debug_assert!(registry.readers > 0, "who ends tracking was counted");
            registry.readers -= 1;
            self.has_left.store(1, Ordering::Release);
        }
        for prefix in std::mem::take(&mut *own.prefixes.lock()) {
            if let Some(clients) = registry.prefixes.get_mut(&prefix) {
                clients.retain(|&id| id != client.id);
                if clients.is_empty() {
                    registry.prefixes.remove(&prefix);
                }
            }
        }
        own.prefix_bytes.store(0, Ordering::Relaxed);
        own.clear(ON | BROKEN | BCAST | OPTIN | OPTOUT | CACHING | NOLOOP);
        own.assert_invariants();
        registry.tell(keyspace, attention);
    }

    /// Clients that track.
    pub(crate) fn clients(&self) -> u64 {
        self.registry.lock().clients
    }

    /// Whether a client hears of all changes of keys that begin as this one.
    pub(crate) fn hears_of(&self, key: &[u8]) -> bool {
        let registry = self.registry.lock();
        let prefixes = &mut registry.prefixes.keys();
        prefixes.any(|prefix| key.starts_with(prefix))
    }

    /// Prefixes that clients hear of.
    pub(crate) fn prefixes(&self) -> usize {
        self.registry.lock().prefixes.len()
    }

    /// The clients of each prefix.
    pub(crate) fn listeners(&self) -> Vec<(Box<[u8]>, Vec<u64>)> {
        let registry = self.registry.lock();
        let prefixes = registry.prefixes.iter();
        prefixes
            .map(|(prefix, clients)| (prefix.clone(), clients.clone()))
            .collect()
    }
}

impl Registry {
    pub(crate) fn tell(&self, keyspace: &Keyspace, attention: &Attention) {
        debug_assert!(
            self.prefixes.values().all(|clients| !clients.is_empty()),
            "a prefix has a client"
        );
        debug_assert!(
            self.clients > 0 || self.prefixes.is_empty(),
            "and the last takes it along"
        );
        debug_assert_eq!(
            self.prefixes.is_empty(),
            self.readers == self.clients,
            "a client that hears of prefixes has one, and no other does"
        );
        keyspace.set_tracking(self.readers > 0, !self.prefixes.is_empty());
        attention.set(Obstacles::TRACKED, self.clients > 0);
    }
}

impl Invalid {
    /// Writes the message; nothing to a client of RESP2 that is no subscriber.
    pub(crate) fn write(&self, out: &mut Vec<u8>, protocol: Protocol, takes_messages: bool) {
        let mut writer = Writer::new(out, protocol);
        if let Invalid::BrokenRedirect(id) = self {
            if protocol == Protocol::Resp3 {
                writer.push(2);
                writer.bulk(b"tracking-redir-broken");
                writer.integer(*id as i64);
            }
            return;
        }
        match protocol {
            Protocol::Resp3 => {
                writer.push(2);
                writer.bulk(b"invalidate");
            }
            Protocol::Resp2 if takes_messages => {
                writer.array(3);
                writer.bulk(b"message");
                writer.bulk(CHANNEL);
            }
            Protocol::Resp2 => return,
        }
        match self {
            Invalid::Keys(body) => writer.raw(body),
            _ => writer.null(),
        }
    }
}

/// CLIENT TRACKING is on.
pub(crate) const ON: u32 = 1;
/// Overhead of one prefix of one client, bytes.
const PREFIX_BYTES: u64 = 128;
/// It hears of prefixes, not of keys it has read.
pub(crate) const BCAST: u32 = 1 << 1;
/// Only what follows CLIENT CACHING YES is tracked.
pub(crate) const OPTIN: u32 = 1 << 2;
/// The command behind CLIENT CACHING NO is not tracked.
pub(crate) const OPTOUT: u32 = 1 << 3;
/// It does not hear of its own changes.
pub(crate) const NOLOOP: u32 = 1 << 4;
/// CLIENT CACHING holds for the next command.
pub(crate) const CACHING: u32 = 1 << 5;
/// The client that it redirects to has left.
pub(crate) const BROKEN: u32 = 1 << 6;

/// The channel on which RESP2 clients get invalidations.
const CHANNEL: &[u8] = b"__redis__:invalidate";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_overlap_if_one_begins_the_other() {
        let own = ClientTracking::default();
        for prefix in ["ab", "b:1", "b:2"] {
            own.prefixes.lock().insert(prefix.as_bytes().into());
        }
        let overlapping = |prefix: &str| own.overlapping(prefix.as_bytes());
        for (prefix, other) in [
            ("ab", "ab"),
            ("abc", "ab"),
            ("a", "ab"),
            ("b", "b:1"),
            ("", "ab"),
        ] {
            assert_eq!(
                overlapping(prefix).as_deref(),
                Some(other.as_bytes()),
                "{prefix}"
            );
        }
        assert!(
            ["aa", "b:3", "c", "ac"]
                .iter()
                .all(|prefix| overlapping(prefix).is_none())
        );
    }
}
