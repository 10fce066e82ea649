//! Client-side caching: decides which clients get invalidations, and sends them.
//!
//! The key's shard keeps the clients that have read the key ([`Keyspace::set_tracking`]). A change
//! is told while the shard is locked. Other clients are told through the mailbox of their lane,
//! behind every reply that was written before. The client whose command makes the change is told
//! behind the reply to that command. Changes under prefixes (BCAST) are gathered and told once a
//! turn, as Redis does.
//!
//! [`Keyspace::set_tracking`]: tidewire_keyspace::Keyspace::set_tracking

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_keyspace::{Changer, Trackers};
use tidewire_resp::{Protocol, Writer};

use crate::attention::Obstacles;
use crate::clients::Client;
use crate::mail::RedisMail;
use crate::server::Server;
use crate::tracked_clients::BCAST;
use crate::tracked_clients::BROKEN;
use crate::tracked_clients::Invalid;
use crate::tracked_clients::NOLOOP;
use crate::tracked_clients::ON;

/// Changes that clients are told of at the end of a command or a turn: of one lane, or of the
/// thread that receives topics of other hubs.
#[derive(Debug, Default)]
struct LaneChanges {
    /// The client whose command runs.
    current: Option<Arc<Client>>,
    /// The keys that this client is told of behind its reply; `None` is every key.
    own: Vec<Option<Box<[u8]>>>,
    /// The same two of the clients that go on when a waiting client has been served.
    suspended: Vec<Suspended>,
    /// Keys that were changed in this turn, and the client that changed each last.
    changed: BTreeMap<Box<[u8]>, u64>,
    /// There were too many to name.
    all_changed: bool,
}

/// A client, and the messages queued until its own reply is written.
type Suspended = (Option<Arc<Client>>, Vec<Option<Box<[u8]>>>);

thread_local! {
    /// The changes of this thread, which is one lane or receives topics of other hubs.
    static LANE_CHANGES: RefCell<LaneChanges> = RefCell::default();
}

/// While it lives, what happens on this lane is done by one client. It may begin while another one
/// lives: a long script serves the lane's other clients.
pub(crate) struct Acting(Suspended);

impl Acting {
    pub(crate) fn begin(client: &Arc<Client>) -> Self {
        LANE_CHANGES.with_borrow_mut(|changes| {
            debug_assert!(
                changes.own.is_empty() || changes.current.is_some(),
                "only a client whose command runs is told behind its reply"
            );
            let current = changes.current.replace(client.clone());
            Acting((current, std::mem::take(&mut changes.own)))
        })
    }

    /// The client's command has ended. Returns what it is told behind its reply.
    pub(crate) fn end(self) -> Vec<Invalid> {
        let own = LANE_CHANGES.with_borrow_mut(|changes| std::mem::take(&mut changes.own));
        invalid_of(own).collect()
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let (current, own) = &mut self.0;
        LANE_CHANGES.with_borrow_mut(|changes| {
            changes.current = current.take();
            changes.own = std::mem::take(own);
        });
    }
}

impl Server {
    /// CLIENT TRACKING ON.
    pub(crate) fn begin_tracking(
        &self,
        client: &Client,
        options: u32,
        redirect: u64,
        prefixes: &[&[u8]],
    ) {
        let (keyspace, attention) = (&self.keyspace, &self.attention);
        self.tracking
            .enable(keyspace, attention, client, options, redirect, prefixes);
        if options & BCAST != 0 {
            self.watch_topics();
        }
    }

    /// CLIENT TRACKING OFF, or the client leaves.
    pub(crate) fn stop_tracking(&self, client: &Client) {
        self.tracking
            .disable(&self.keyspace, &self.attention, client);
    }

    /// The client that tracks what the command under way on this lane reads.
    pub(crate) fn tracking_reader(&self) -> Option<u64> {
        LANE_CHANGES.with_borrow(|changes| {
            let client = changes.current.as_ref()?;
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
            let is_current = LANE_CHANGES.with_borrow_mut(|changes| {
                let is_current = changes.is_current(id);
                let is_own = by == Changer::Command && client.tracking.has(NOLOOP);
                if is_current && !is_own {
                    changes.own.push(Some(key.into()));
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
        LANE_CHANGES.with_borrow_mut(|changes| {
            debug_assert!(
                changes.changed.len() <= CHANGED_MAX,
                "changes have their bound"
            );
            if changes.changed.len() >= CHANGED_MAX {
                changes.changed.clear();
                changes.all_changed = true;
            }
            if !changes.all_changed {
                let current = changes.current.as_ref();
                let by = current.filter(|_| by == Changer::Command);
                let by = by.map_or(0, |client| client.id);
                changes.changed.insert(key.into(), by);
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
            let is_current = LANE_CHANGES.with_borrow_mut(|changes| {
                let is_current = changes.is_current(client.id);
                if is_current {
                    changes.own.push(None);
                }
                is_current
            });
            if !is_current {
                self.tell_invalid(&client, Invalid::Everything);
            }
        }
    }

    /// Sends an invalidation to a client, or to the one that it redirects to.
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
        debug_assert!(
            target.lane < self.turns.len(),
            "a client is on a lane that there is"
        );
        if self.post.reserve(target.lane, bytes) {
            self.mail.send(target.lane, mail);
        }
    }

    /// Invalidates everything for the clients of a lane that has missed mail.
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

    /// From now on a waiting client acts on this lane. With `None` the client before it acts again,
    /// and the served client, whose reply is on its way, is told of its own changes.
    pub(crate) fn serve_for(&self, client: Option<u64>) {
        let client = client.map(|id| self.clients.find(id));
        let served = LANE_CHANGES.with_borrow_mut(|changes| match client {
            Some(client) => {
                let doing = (
                    std::mem::replace(&mut changes.current, client),
                    std::mem::take(&mut changes.own),
                );
                changes.suspended.push(doing);
                None
            }
            None => {
                debug_assert!(!changes.suspended.is_empty(), "what ends has begun");
                let (current, own) = changes.suspended.pop()?;
                let client = std::mem::replace(&mut changes.current, current);
                Some((client?, std::mem::replace(&mut changes.own, own)))
            }
        });
        if let Some((client, own)) = served {
            invalid_of(own).for_each(|invalid| self.tell_invalid(&client, invalid));
        }
    }

    /// Tells clients that hear of prefixes what was changed on this thread in this turn.
    #[cold]
    pub(crate) fn broadcast_changed(&self) {
        let (changed, all) = LANE_CHANGES.with_borrow_mut(|changes| {
            let all = std::mem::take(&mut changes.all_changed);
            (std::mem::take(&mut changes.changed), all)
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

impl LaneChanges {
    fn is_current(&self, id: u64) -> bool {
        self.current.as_ref().is_some_and(|client| client.id == id)
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

/// Keys that are named in one turn; above it, all keys count as changed.
const CHANGED_MAX: usize = 1 << 20;
