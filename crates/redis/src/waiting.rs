//! Clients whose command has not ended: those that wait for a key or for a time, and those that
//! CLIENT PAUSE holds.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidewire_keyspace::{Keyspace, Waiter};
use tidewire_lane::ConnectionId;

/// Waiting clients of all lanes, by number, for CLIENT UNBLOCK.
#[derive(Debug, Default)]
pub(crate) struct WaitingClients {
    by_client: Mutex<HashMap<u64, Wait, RandomState>>,
    /// Number of the next wait.
    next: AtomicU64,
    /// Waiting and postponed clients.
    blocked: AtomicU64,
}

/// The event that a client waits for.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// One of its keys.
    Keys(Arc<Waiter>),
    /// Its time, or a thread.
    Time,
    /// A thread, and CLIENT UNBLOCK does not end the wait.
    Firm,
}

/// One wait of one client. A thread that ends it names it: the client may wait for something else
/// by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitId {
    pub(crate) client: u64,
    number: u64,
}

#[derive(Clone, Debug)]
struct Wait {
    number: u64,
    lane: usize,
    block: Block,
}

impl WaitingClients {
    pub(crate) fn insert(&self, client: u64, lane: usize, block: Block) -> WaitId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let wait = Wait {
            number,
            lane,
            block,
        };
        let other = self.by_client.lock().insert(client, wait);
        debug_assert!(other.is_none(), "a client waits for one thing");
        self.blocked.fetch_add(1, Ordering::Relaxed);
        WaitId { client, number }
    }

    /// A client's wait has ended with a reply from elsewhere.
    pub(crate) fn remove(&self, client: u64) {
        if self.by_client.lock().remove(&client).is_some() {
            let before = self.blocked.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "who waits is counted");
        }
    }

    /// Ends a client's wait. Returns the client's lane, or `None` if it was not waiting or its
    /// reply is on its way. A caller that gets the lane answers the client.
    pub(crate) fn claim(&self, client: u64, keyspace: &Keyspace) -> Option<usize> {
        let wait = self.by_client.lock().get(&client)?.clone();
        self.claim_this(client, wait, keyspace)
    }

    /// The same for CLIENT UNBLOCK.
    pub(crate) fn unblock(&self, client: u64, keyspace: &Keyspace) -> Option<usize> {
        let wait = self.by_client.lock().get(&client)?.clone();
        match wait.block {
            Block::Firm => None,
            Block::Keys(_) | Block::Time => self.claim_this(client, wait, keyspace),
        }
    }

    /// The same for one wait of a client: `None` if it has ended, although the client waits again.
    pub(crate) fn claim_wait(&self, id: WaitId, keyspace: &Keyspace) -> Option<usize> {
        let wait = self.by_client.lock().get(&id.client)?.clone();
        let is_same = wait.number == id.number;
        is_same.then(|| self.claim_this(id.client, wait, keyspace))?
    }

    fn claim_this(&self, client: u64, wait: Wait, keyspace: &Keyspace) -> Option<usize> {
        let (number, lane) = (wait.number, wait.lane);
        // Not under this lock: giving up locks shards, whose holders may come for this one.
        let mine = match wait.block {
            Block::Keys(waiter) => keyspace.give_up(&waiter),
            Block::Time | Block::Firm => true,
        };
        let mut by_client = self.by_client.lock();
        let is_there = by_client
            .get(&client)
            .is_some_and(|wait| wait.number == number);
        let removed = mine && is_there && by_client.remove(&client).is_some();
        drop(by_client);
        if removed {
            let before = self.blocked.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "who waits is counted");
        }
        removed.then_some(lane)
    }

    /// A waiting client has left: it is no longer served, and waits for [`forget`](Self::forget).
    pub(crate) fn abandon(&self, client: u64) {
        if let Some(waiter) = self.waiter(client) {
            waiter.abandon();
        }
    }

    /// A client has left.
    pub(crate) fn forget(&self, client: u64, keyspace: &Keyspace) {
        if self.claim(client, keyspace).is_none() {
            self.remove(client);
        }
    }

    /// The waiter of a client that waits for a key.
    pub(crate) fn waiter(&self, client: u64) -> Option<Arc<Waiter>> {
        match &self.by_client.lock().get(&client)?.block {
            Block::Keys(waiter) => Some(waiter.clone()),
            Block::Time | Block::Firm => None,
        }
    }

    /// The clients that wait for a key.
    pub(crate) fn waiting_for_keys(&self) -> Vec<u64> {
        let by_client = self.by_client.lock();
        let waits = by_client
            .iter()
            .filter(|(_, wait)| matches!(wait.block, Block::Keys(_)));
        waits.map(|(client, _)| *client).collect()
    }

    /// Whether a client waits.
    pub(crate) fn contains(&self, client: u64) -> bool {
        self.by_client.lock().contains_key(&client)
    }

    /// Whether this wait has not ended.
    pub(crate) fn contains_wait(&self, id: WaitId) -> bool {
        let by_client = self.by_client.lock();
        let wait = by_client.get(&id.client);
        wait.is_some_and(|wait| wait.number == id.number)
    }

    /// Clients that wait or are postponed.
    pub(crate) fn count(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }
}

/// The waiting clients of one lane.
#[derive(Debug, Default)]
pub struct LaneWaiting {
    by_client: HashMap<u64, (ConnectionId, Option<i64>), RandomState>,
    /// Ms since the UNIX epoch, and the client.
    deadlines: BTreeSet<(i64, u64)>,
    /// Clients whose next command waits for the end of a pause.
    postponed: Vec<(u64, ConnectionId)>,
    /// When the next pause ends, as of the last look, ms since the UNIX epoch.
    pub(crate) pause_end_ms: Option<i64>,
    /// Connections whose input waits until the lane may lock shards, and whether they wait also
    /// once a script has run for too long.
    parked: Vec<(ConnectionId, bool)>,
}

impl LaneWaiting {
    pub(crate) fn insert(
        &mut self,
        client: u64,
        connection: ConnectionId,
        deadline_ms: Option<i64>,
    ) {
        debug_assert!(!self.has(client), "a client waits for one thing");
        self.by_client.insert(client, (connection, deadline_ms));
        self.deadlines
            .extend(deadline_ms.map(|deadline_ms| (deadline_ms, client)));
        debug_assert!(
            self.deadlines.len() <= self.by_client.len(),
            "a client has one deadline at most"
        );
    }

    /// Whether a client waits or is postponed.
    pub(crate) fn has(&self, client: u64) -> bool {
        self.by_client.contains_key(&client)
            || self.postponed.iter().any(|(other, _)| *other == client)
    }

    pub(crate) fn remove(&mut self, client: u64) -> Option<ConnectionId> {
        let (connection, deadline_ms) = self.by_client.remove(&client)?;
        if let Some(deadline_ms) = deadline_ms {
            let was_listed = self.deadlines.remove(&(deadline_ms, client));
            debug_assert!(
                was_listed,
                "the clients and the list have the same deadlines"
            );
        }
        Some(connection)
    }

    /// The connection of a client that waits.
    pub(crate) fn connection(&self, client: u64) -> Option<ConnectionId> {
        self.by_client
            .get(&client)
            .map(|(connection, _)| *connection)
    }

    /// A client whose time has come. It stays until it is removed, but has no deadline any more.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<(u64, ConnectionId)> {
        let &(deadline_ms, client) = self.deadlines.first()?;
        if deadline_ms > now_ms {
            return None;
        }
        self.deadlines.pop_first();
        debug_assert!(
            self.by_client.get(&client).map(|(_, own_ms)| *own_ms) == Some(Some(deadline_ms)),
            "the clients and the list have the same deadlines"
        );
        let (connection, deadline_ms) = self.by_client.get_mut(&client)?;
        *deadline_ms = None;
        Some((client, *connection))
    }

    /// Sets another time for a client whose time has come.
    pub(crate) fn set_deadline(&mut self, client: u64, deadline_ms: i64) {
        if let Some((_, own_ms)) = self.by_client.get_mut(&client) {
            debug_assert!(own_ms.is_none(), "its last time has come");
            *own_ms = Some(deadline_ms);
            self.deadlines.insert((deadline_ms, client));
        }
    }

    /// Whether some client waits for a time, or for the end of a pause.
    #[inline]
    pub(crate) fn waits_for_time(&self) -> bool {
        !self.deadlines.is_empty() || !self.postponed.is_empty()
    }

    /// The earliest deadline, ms since the UNIX epoch.
    pub(crate) fn deadline_ms(&self) -> Option<i64> {
        self.deadlines.first().map(|&(deadline_ms, _)| deadline_ms)
    }

    pub(crate) fn postpone(&mut self, client: u64, connection: ConnectionId, all: &WaitingClients) {
        debug_assert!(!self.has(client), "a client waits for one thing");
        self.postponed.push((client, connection));
        all.blocked.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection's input waits until the lane may lock shards. One that is not `patient` goes
    /// on to be told when a script has run for too long.
    pub fn park(&mut self, connection: ConnectionId, is_patient: bool) {
        debug_assert!(
            self.parked.iter().all(|(other, _)| *other != connection),
            "a connection that is parked is not read"
        );
        self.parked.push((connection, is_patient));
    }

    #[inline]
    pub(crate) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Takes connections that were parked, in the order in which they came; some may have ended.
    pub(crate) fn take_parked(&mut self) -> Vec<ConnectionId> {
        let parked = std::mem::take(&mut self.parked);
        parked
            .into_iter()
            .map(|(connection, _)| connection)
            .collect()
    }

    /// Takes those that are not patient.
    pub(crate) fn take_impatient(&mut self) -> Vec<ConnectionId> {
        let parked = &mut self.parked;
        let taken = parked.extract_if(.., |(_, is_patient)| !*is_patient);
        taken.map(|(connection, _)| connection).collect()
    }

    pub(crate) fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// Takes those that were postponed, in the order in which they came.
    pub(crate) fn take_postponed(&mut self, all: &WaitingClients) -> Vec<(u64, ConnectionId)> {
        let count = self.postponed.len() as u64;
        let before = all.blocked.fetch_sub(count, Ordering::Relaxed);
        debug_assert!(before >= count, "who waits is counted");
        std::mem::take(&mut self.postponed)
    }

    /// A client has gone.
    pub(crate) fn forget_postponed(&mut self, client: u64, all: &WaitingClients) {
        let before = self.postponed.len();
        self.postponed.retain(|&(other, _)| other != client);
        let gone = (before - self.postponed.len()) as u64;
        debug_assert!(gone <= 1, "a client is postponed once");
        let blocked = all.blocked.fetch_sub(gone, Ordering::Relaxed);
        debug_assert!(blocked >= gone, "a postponed client is counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_keyspace::Options;

    #[test]
    fn the_end_of_one_wait_does_not_end_the_next_one_of_the_same_client() {
        let (waiting, keyspace) = (WaitingClients::default(), Keyspace::new(Options::default()));
        let first = waiting.insert(7, 1, Block::Time);
        assert_eq!(waiting.unblock(7, &keyspace), Some(1));
        let second = waiting.insert(7, 1, Block::Firm);
        assert_eq!(waiting.claim_wait(first, &keyspace), None);
        assert_eq!(waiting.unblock(7, &keyspace), None, "CLIENT UNBLOCK");
        assert!(waiting.contains_wait(second) && !waiting.contains_wait(first));
        assert_eq!(waiting.claim_wait(second, &keyspace), Some(1));
        assert_eq!((waiting.claim(7, &keyspace), waiting.count()), (None, 0));
    }
}
