//! Client-side caching: which clients hear of changes of what they have read, and how it is told.
//!
//! Who has read a key is kept by the key's shard ([`Keyspace::set_tracking`]). A change is told
//! while the key's shard is locked: to other clients through the mailbox of their lane, behind
//! every reply that was written before; to the client whose command makes the change behind the
//! reply to that command. What goes to clients that want to hear of prefixes is gathered and told
//! once a turn, as Redis does.
//!
//! [`Keyspace::set_tracking`]: tidewire_keyspace::Keyspace::set_tracking

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_keyspace::{Changer, Keyspace, Trackers};
use tidewire_resp::{Protocol, Writer};

use crate::attention::{Attention, Obstacles};
use crate::clients::Client;
use crate::server::{RedisMail, Server};

/// CLIENT TRACKING, of all clients.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    registry: Mutex<Registry>,
    /// Clients that track keys have left since their names were last looked for.
    pub(crate) has_left: AtomicU32,
}

#[derive(Debug, Default)]
struct Registry {
    clients: u64,
    /// Those that hear of what they have read.
    readers: u64,
    /// Those that hear of all changes under a prefix, by client number.
    prefixes: BTreeMap<Box<[u8]>, Vec<u64>>,
}

/// CLIENT TRACKING of one client.
#[derive(Debug, Default)]
pub struct ClientTracking {
    flags: AtomicU32,
    /// The client that is told instead; 0: itself.
    redirect: AtomicU64,
    /// None is the beginning of another.
    prefixes: Mutex<BTreeSet<Box<[u8]>>>,
    /// What they take.
    prefix_bytes: AtomicU64,
}

/// What a client is told not to use any more.
#[derive(Clone, Debug)]
pub enum Invalid {
    /// These keys, as a RESP array.
    Keys(Arc<[u8]>),
    /// All keys.
    Everything,
    /// Nothing: whom it redirects to is not there any more.
    BrokenRedirect(u64),
}

/// What is gathered on one lane.
#[derive(Debug, Default)]
struct Gathered {
    /// Whose command is executed.
    current: Option<Arc<Client>>,
    /// What that client is told after its reply.
    own: Vec<Option<Box<[u8]>>>,
    /// The same two of whoever goes on when the client that waited has been served.
    suspended: Vec<Doing>,
    /// Keys that were changed in this turn, and by whom at last.
    changed: BTreeMap<Box<[u8]>, u64>,
    /// There were too many to name.
    all_changed: bool,
}

/// Who does something, and what he is told after his reply.
type Doing = (Option<Arc<Client>>, Vec<Option<Box<[u8]>>>);

thread_local! {
    /// Of this thread, which is one lane.
    static GATHERED: RefCell<Gathered> = RefCell::default();
}

/// While it lives, what happens on this lane is done by one client.
pub(crate) struct Acting(Option<Arc<Client>>);

impl Acting {
    pub(crate) fn begin(client: &Arc<Client>) -> Self {
        GATHERED.with_borrow_mut(|gathered| Acting(gathered.current.replace(client.clone())))
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        GATHERED.with_borrow_mut(|gathered| gathered.current = self.0.take());
    }
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

    /// Whom it redirects to, -1 if it does not track.
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

    /// What its prefixes take, bytes.
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
    fn remembers(&self) -> bool {
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
        server: &Server,
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
        registry.tell(&server.keyspace, &server.attention);
        drop(registry);
        if options & BCAST != 0 {
            server.watch_topics();
        }
    }

    /// CLIENT TRACKING OFF, or the client leaves.
    pub(crate) fn disable(&self, server: &Server, client: &Client) {
        let own = &client.tracking;
        if !own.has(ON) {
            return;
        }
        let mut registry = self.registry.lock();
        registry.clients -= 1;
        if !own.has(BCAST) {
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
        registry.tell(&server.keyspace, &server.attention);
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

    /// Who hears of which prefix.
    fn listeners(&self) -> Vec<(Box<[u8]>, Vec<u64>)> {
        let registry = self.registry.lock();
        let prefixes = registry.prefixes.iter();
        prefixes
            .map(|(prefix, clients)| (prefix.clone(), clients.clone()))
            .collect()
    }
}

impl Registry {
    fn tell(&self, keyspace: &Keyspace, attention: &Attention) {
        keyspace.set_tracking(self.readers > 0, !self.prefixes.is_empty());
        attention.set(Obstacles::TRACKED, self.clients > 0);
    }
}

impl Server {
    /// Who hears of changes of what the command under way on this lane reads.
    pub(crate) fn tracking_reader(&self) -> Option<u64> {
        GATHERED.with_borrow(|gathered| {
            let client = gathered.current.as_ref()?;
            client.tracking.remembers().then_some(client.id)
        })
    }

    /// A key that clients have read has changed. The key's shard is locked.
    pub(crate) fn invalidate(&self, key: &[u8], trackers: &Trackers, by: Changer) {
        let mut body = None;
        for &id in trackers.clients() {
            let Some(client) = self.clients.find(id) else {
                continue;
            };
            if !client.tracking.has(ON) || client.tracking.has(BCAST) {
                continue;
            }
            let is_current = GATHERED.with_borrow_mut(|gathered| {
                let is_current = gathered.is_current(id);
                let is_own = by == Changer::Command && client.tracking.has(NOLOOP);
                if is_current && !is_own {
                    gathered.own.push(Some(key.into()));
                }
                is_current
            });
            if !is_current {
                let body = body.get_or_insert_with(|| array_of(std::iter::once(key)));
                self.tell_invalid(&client, Invalid::Keys(body.clone()));
            }
        }
    }

    /// A key has changed, and there are clients that hear of prefixes.
    pub(crate) fn note_changed(&self, key: &[u8], by: Changer) {
        GATHERED.with_borrow_mut(|gathered| {
            if gathered.changed.len() >= CHANGED_MAX {
                gathered.changed.clear();
                gathered.all_changed = true;
            }
            if !gathered.all_changed {
                let current = gathered.current.as_ref();
                let by = current.filter(|_| by == Changer::Command);
                let by = by.map_or(0, |client| client.id);
                gathered.changed.insert(key.into(), by);
            }
        });
    }

    /// All keys are gone.
    pub(crate) fn invalidate_everything(&self) {
        if !self.attention.has(Obstacles::TRACKED) {
            return;
        }
        for client in self.clients.list() {
            if !client.tracking.has(ON) {
                continue;
            }
            let is_current = GATHERED.with_borrow_mut(|gathered| {
                let is_current = gathered.is_current(client.id);
                if is_current {
                    gathered.own.push(None);
                }
                is_current
            });
            if !is_current {
                self.tell_invalid(&client, Invalid::Everything);
            }
        }
    }

    /// Sends word to a client, or to whom it redirects.
    pub(crate) fn tell_invalid(&self, client: &Client, invalid: Invalid) {
        let redirect = client.tracking.redirect.load(Ordering::Acquire);
        if redirect == 0 {
            return self.send_invalid(client, false, invalid);
        }
        match self.clients.find(redirect) {
            Some(target) => self.send_invalid(&target, true, invalid),
            None => {
                client.tracking.set(BROKEN);
                self.send_invalid(client, false, Invalid::BrokenRedirect(redirect));
            }
        }
    }

    fn send_invalid(&self, target: &Client, is_redirected: bool, invalid: Invalid) {
        let bytes = size_of::<RedisMail>()
            + match &invalid {
                // And its copy on the way out.
                Invalid::Keys(body) => 3 * body.len(),
                _ => 0,
            };
        let mail = RedisMail::Invalid {
            connection: target.connection,
            is_redirected,
            invalid,
            bytes,
        };
        // A lane that is behind its mail tells its clients that nothing holds any more.
        if self.post.reserve(target.lane, bytes) {
            self.mail.send(target.lane, mail);
        }
    }

    /// Tells everybody on a lane that has missed mail that nothing holds any more.
    pub(crate) fn invalidate_lane(&self, lane: usize) {
        if !self.attention.has(Obstacles::TRACKED) {
            return;
        }
        for client in self.clients.list() {
            let redirect = client.tracking.redirect.load(Ordering::Acquire);
            let target_lane = match redirect {
                0 => Some(client.lane),
                id => self.clients.find(id).map(|target| target.lane),
            };
            if client.tracking.has(ON) && target_lane == Some(lane) {
                self.tell_invalid(&client, Invalid::Everything);
            }
        }
    }

    /// What the client whose command has ended is told behind its reply.
    pub(crate) fn take_own_invalid(&self) -> Vec<Invalid> {
        let own = GATHERED.with_borrow_mut(|gathered| std::mem::take(&mut gathered.own));
        invalid_of(own).collect()
    }

    /// From now on what happens on this lane is done by a client that waited; with `None`, by whom
    /// it was done before, and the client is told of its own changes. Its reply is on its way.
    pub(crate) fn serve_for(&self, client: Option<u64>) {
        let client = client.map(|id| self.clients.find(id));
        let served = GATHERED.with_borrow_mut(|gathered| match client {
            Some(client) => {
                let doing = (
                    std::mem::replace(&mut gathered.current, client),
                    std::mem::take(&mut gathered.own),
                );
                gathered.suspended.push(doing);
                None
            }
            None => {
                let (current, own) = gathered.suspended.pop()?;
                let client = std::mem::replace(&mut gathered.current, current);
                Some((client?, std::mem::replace(&mut gathered.own, own)))
            }
        });
        if let Some((client, own)) = served {
            invalid_of(own).for_each(|invalid| self.tell_invalid(&client, invalid));
        }
    }

    /// Tells clients that hear of prefixes what was changed on this lane in this turn.
    #[cold]
    pub(crate) fn broadcast_changed(&self) {
        let (changed, all) = GATHERED.with_borrow_mut(|gathered| {
            let all = std::mem::take(&mut gathered.all_changed);
            (std::mem::take(&mut gathered.changed), all)
        });
        if changed.is_empty() && !all {
            return;
        }
        for (prefix, clients) in self.tracking.listeners() {
            let keys = || {
                let from = changed.range::<[u8], _>((Bound::Included(&*prefix), Bound::Unbounded));
                from.take_while(|(key, _)| key.starts_with(&prefix))
            };
            if keys().next().is_none() && !all {
                continue;
            }
            let everybodys = match all {
                true => Invalid::Everything,
                false => Invalid::Keys(array_of(keys().map(|(key, _)| &**key))),
            };
            for id in clients {
                let Some(client) = self.clients.find(id) else {
                    continue;
                };
                if !client.tracking.has(NOLOOP) || all {
                    self.tell_invalid(&client, everybodys.clone());
                    continue;
                }
                let mut others = keys().filter(|(_, by)| **by != id).map(|(key, _)| &**key);
                if let Some(first) = others.next() {
                    let body = array_of(std::iter::once(first).chain(others));
                    self.tell_invalid(&client, Invalid::Keys(body));
                }
            }
        }
    }
}

impl Gathered {
    fn is_current(&self, id: u64) -> bool {
        self.current.as_ref().is_some_and(|client| client.id == id)
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

fn invalid_of(own: Vec<Option<Box<[u8]>>>) -> impl Iterator<Item = Invalid> {
    own.into_iter().map(|key| match key {
        Some(key) => Invalid::Keys(array_of(std::iter::once(&*key))),
        None => Invalid::Everything,
    })
}

/// Names as a RESP array, which is the same in both protocols.
fn array_of<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Arc<[u8]> {
    let keys: Vec<&[u8]> = keys.collect();
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body, Protocol::Resp2);
    writer.array(keys.len());
    keys.iter().for_each(|key| writer.bulk(key));
    body.into()
}

/// CLIENT TRACKING is on.
pub(crate) const ON: u32 = 1;
/// What one prefix of one client takes beside its bytes.
const PREFIX_BYTES: u64 = 128;
/// It hears of prefixes, not of what it has read.
pub(crate) const BCAST: u32 = 1 << 1;
/// Only what follows CLIENT CACHING YES is tracked.
pub(crate) const OPTIN: u32 = 1 << 2;
/// What follows CLIENT CACHING NO is not tracked.
pub(crate) const OPTOUT: u32 = 1 << 3;
/// It does not hear of its own changes.
pub(crate) const NOLOOP: u32 = 1 << 4;
/// CLIENT CACHING holds for the next command.
pub(crate) const CACHING: u32 = 1 << 5;
/// Whom it redirects to has left.
pub(crate) const BROKEN: u32 = 1 << 6;

/// Where clients of RESP2 hear of it.
const CHANNEL: &[u8] = b"__redis__:invalidate";
/// Keys that are named in one turn; above it, all keys count as changed.
const CHANGED_MAX: usize = 1 << 20;

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
