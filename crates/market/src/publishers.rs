//! Sessions of publishers: which are connected, and the state of disconnected ones.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidewire_feed::client::Client;
use tidewire_lane::ConnectionId;

use crate::symbols::SymbolMap;
use crate::venues::SourceVenues;

/// All publishers' sessions, by session id.
#[derive(Debug, Default)]
pub(crate) struct Publishers {
    state: Mutex<Sessions>,
}

/// A publisher's session between two connections: what it has delivered, and its symbols.
#[derive(Debug)]
pub(crate) struct ParkedPublisher {
    pub(crate) receiver: Box<Client>,
    pub(crate) symbols: SymbolMap,
    pub(crate) venues: SourceVenues,
}

/// The reason why a connection cannot receive a session now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Another connection, on this lane, receives it.
    Connected(usize, ConnectionId),
    /// Another connection has just stopped receiving it.
    Parked,
}

#[derive(Debug, Default)]
struct Sessions {
    connected: HashMap<u32, (usize, ConnectionId), RandomState>,
    /// Oldest first.
    parked: VecDeque<(u32, ParkedPublisher)>,
}

impl Publishers {
    /// Returns the stored state of a session and removes it.
    pub(crate) fn unpark(&self, session: u32) -> Option<ParkedPublisher> {
        let parked = &mut self.state.lock().parked;
        let position = parked.iter().position(|(other, _)| *other == session)?;
        parked.remove(position).map(|(_, publisher)| publisher)
    }

    /// Notes that a connection receives the session from now on. Only one connection may receive a
    /// session at a time, because two would not know what the other has applied.
    pub(crate) fn connect(
        &self,
        session: u32,
        lane: usize,
        connection: ConnectionId,
    ) -> Result<(), Busy> {
        let mut state = self.state.lock();
        if state.parked.iter().any(|(other, _)| *other == session) {
            return Err(Busy::Parked);
        }
        if let Some(&(lane, connection)) = state.connected.get(&session) {
            return Err(Busy::Connected(lane, connection));
        }
        let other = state.connected.insert(session, (lane, connection));
        debug_assert!(other.is_none(), "a session has one connection");
        Ok(())
    }

    /// Notes that the session's connection has ended. Its state is kept for the next connection,
    /// unless the session is over.
    pub(crate) fn disconnect(&self, session: u32, publisher: Option<ParkedPublisher>) {
        let mut state = self.state.lock();
        let connected = state.connected.remove(&session);
        debug_assert!(connected.is_some(), "only who connected disconnects");
        let Some(publisher) = publisher else { return };
        if state.parked.len() >= PARKED_MAX {
            state.parked.pop_front();
        }
        let is_other = |(other, _): &(u32, ParkedPublisher)| *other != session;
        debug_assert!(
            state.parked.iter().all(is_other),
            "a session is parked once"
        );
        state.parked.push_back((session, publisher));
        debug_assert!(
            state.parked.len() <= PARKED_MAX,
            "parked sessions have their bound"
        );
    }
}

/// Maximum number of disconnected publishers that are remembered.
const PARKED_MAX: usize = 16;
