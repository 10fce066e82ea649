//! Sessions of publishers: which are connected, and the state of disconnected ones.

use std::collections::{HashSet, VecDeque};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidewire_feed::client::Client;

use crate::ingest::Doubt;
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
    /// What its topics in doubt wait for.
    pub(crate) doubt: Doubt,
}

/// Error: another connection receives the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionInUse;

#[derive(Debug, Default)]
struct Sessions {
    connected: HashSet<u32, RandomState>,
    /// Oldest first.
    parked: VecDeque<(u32, ParkedPublisher)>,
}

impl Publishers {
    /// Notes that a connection receives the session from now on. Returns the state that its last
    /// connection left, if any.
    ///
    /// Only one connection may receive a session at a time, because two would not know what the
    /// other has applied. The first one keeps it until it ends or is found silent.
    pub(crate) fn connect(&self, session: u32) -> Result<Option<ParkedPublisher>, SessionInUse> {
        let mut state = self.state.lock();
        if !state.connected.insert(session) {
            return Err(SessionInUse);
        }
        let mut parked = state.parked.iter();
        let position = parked.position(|(other, _)| *other == session);
        let parked = position.and_then(|position| state.parked.remove(position));
        Ok(parked.map(|(_, publisher)| publisher))
    }

    /// Notes that the session's connection has ended. Its state is kept for the next connection,
    /// unless the session is over.
    pub(crate) fn disconnect(&self, session: u32, publisher: Option<ParkedPublisher>) {
        let mut state = self.state.lock();
        let was_connected = state.connected.remove(&session);
        debug_assert!(was_connected, "only who connected disconnects");
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

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::client::ClientConfig;

    #[test]
    fn a_session_has_one_connection_and_keeps_its_state_between_two() {
        let publishers = Publishers::default();
        assert!(matches!(publishers.connect(7), Ok(None)));
        assert!(matches!(publishers.connect(7), Err(SessionInUse)));
        assert!(matches!(publishers.connect(8), Ok(None)));
        let parked = ParkedPublisher {
            receiver: Box::new(Client::listener(ClientConfig::default(), 7, 41)),
            symbols: SymbolMap::default(),
            venues: SourceVenues::default(),
            doubt: Doubt::None,
        };
        publishers.disconnect(7, Some(parked));
        let again = publishers.connect(7).unwrap().expect("the parked state");
        assert_eq!(again.receiver.next_sequence(), 41);
        publishers.disconnect(7, None);
        assert!(matches!(publishers.connect(7), Ok(None)));
    }
}
