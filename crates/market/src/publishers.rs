//! Sessions of publishers: which are connected, and the state of disconnected ones.

use std::collections::{HashSet, VecDeque};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidewire_feed::client::Client;
use tidewire_retry::Seldom;
use tracing::warn;

use crate::ingest::SourceState;

/// All publishers' sessions, by session id.
#[derive(Debug, Default)]
pub(crate) struct Publishers {
    state: Mutex<Sessions>,
}

/// A publisher's session between two connections: what it has delivered, and its symbols.
#[derive(Debug)]
pub(crate) struct ParkedPublisher {
    pub(crate) receiver: Box<Client>,
    pub(crate) state: SourceState,
    /// The user that has published it.
    pub(crate) user: Box<[u8]>,
}

/// Why a session cannot be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occupied {
    /// Another connection does.
    Connected,
    /// Its last connection was of another user.
    OfAnother,
}

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
    pub(crate) fn connect(
        &self,
        session: u32,
        user: &[u8],
    ) -> Result<Option<ParkedPublisher>, Occupied> {
        let mut state = self.state.lock();
        if state.connected.contains(&session) {
            return Err(Occupied::Connected);
        }
        let mut parked = state.parked.iter();
        let position = parked.position(|(other, _)| *other == session);
        if let Some(position) = position
            && *state.parked[position].1.user != *user
        {
            return Err(Occupied::OfAnother);
        }
        state.connected.insert(session);
        let parked = position.and_then(|position| state.parked.remove(position));
        Ok(parked.map(|(_, publisher)| publisher))
    }

    /// Returns the number of connected publishers.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().connected.len()
    }

    /// Notes that the session's connection has ended. Its state is kept for the next connection,
    /// unless the session is over.
    pub(crate) fn disconnect(&self, session: u32, publisher: Option<ParkedPublisher>) {
        let mut state = self.state.lock();
        let was_connected = state.connected.remove(&session);
        debug_assert!(was_connected, "only who connected disconnects");
        // Who has defined no symbol has delivered nothing.
        let has_symbols =
            |publisher: &ParkedPublisher| publisher.state.symbols.numbered().next().is_some();
        let Some(publisher) = publisher.filter(has_symbols) else {
            return;
        };
        if state.parked.len() >= PARKED_MAX
            && let Some((forgotten, _)) = state.parked.pop_front()
            && let Some(left_out) = FORGOTTEN.note_now()
        {
            let text = "too many disconnected publishers: the position of one is forgotten";
            warn!(session = forgotten, left_out, "{text}");
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
const PARKED_MAX: usize = 1_024;
/// Limits the log lines about forgotten positions.
static FORGOTTEN: Seldom = Seldom::new(3, 10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::SymbolMap;
    use crate::topic::Topic;
    use std::sync::Arc;
    use tidewire_feed::client::ClientConfig;
    use tidewire_feed::wire::{Definition, Name};

    fn parked(session: u32, next: u64, has_symbol: bool) -> ParkedPublisher {
        let mut symbols = SymbolMap::default();
        if has_symbol {
            let definition = Definition::new(0, Name::new("A").unwrap());
            let topic = Arc::new(Topic::new(0, &definition, 1));
            symbols.define(0, Some(topic)).unwrap();
        }
        ParkedPublisher {
            receiver: Box::new(Client::listener(ClientConfig::default(), session, next)),
            state: SourceState {
                symbols,
                ..SourceState::default()
            },
            user: (*b"ann").into(),
        }
    }

    /// Seventeen publishers that lost their connection at once: the position of one was
    /// forgotten, and its trades counted twice.
    #[test]
    fn a_crowd_of_publishers_keeps_its_positions_also_beside_some_that_only_log_in() {
        let publishers = Publishers::default();
        let honest = 1..=PARKED_MAX as u32;
        for session in honest.clone().chain(5_000..7_000) {
            publishers.connect(session, b"ann").unwrap();
            let has_symbol = session < 5_000;
            publishers.disconnect(session, Some(parked(session, 3, has_symbol)));
        }
        for session in honest {
            let parked = publishers.connect(session, b"ann").unwrap();
            assert!(parked.is_some(), "{session}");
        }
    }

    #[test]
    fn a_session_has_one_connection_and_keeps_its_state_between_two() {
        let publishers = Publishers::default();
        let connect = |session: u32, user: &[u8]| publishers.connect(session, user);
        assert!(matches!(connect(7, b"ann"), Ok(None)));
        assert_eq!(connect(7, b"ann").err(), Some(Occupied::Connected));
        assert!(matches!(connect(8, b"ann"), Ok(None)));
        publishers.disconnect(7, Some(parked(7, 41, true)));
        assert_eq!(connect(7, b"bob").err(), Some(Occupied::OfAnother));
        let again = connect(7, b"ann").unwrap().expect("the parked state");
        assert_eq!(again.receiver.next_sequence(), 41);
        publishers.disconnect(7, None);
        assert!(matches!(connect(7, b"bob"), Ok(None)));
    }
}
