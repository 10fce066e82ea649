//! Clients of the other protocols of all lanes, for CLIENT KILL.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidewire_lane::ConnectionId;

use crate::access::User;

/// All connected clients of the native feed, the ZeroMQ ports and the gateway.
#[derive(Debug, Default)]
pub struct OtherClients {
    by_place: Mutex<BTreeMap<Place, Arc<OtherClient>>>,
}

/// A lane, and a connection of it.
type Place = (usize, ConnectionId);

/// One of them. Its lane writes; any thread reads.
#[derive(Debug)]
pub struct OtherClient {
    pub(crate) lane: usize,
    pub(crate) connection: ConnectionId,
    /// `HOST:PORT` of the client.
    pub(crate) address: String,
    /// `HOST:PORT` that it connected to.
    pub(crate) local_address: String,
    /// When it connected, ns since the UNIX epoch.
    pub(crate) connected_unix_ns: u64,
    /// The user that it is, once it has logged in.
    pub(crate) user: Mutex<Option<Arc<User>>>,
}

impl OtherClients {
    /// Registers a client of a lane: where it is, and what it connected to.
    pub fn connect(
        &self,
        (lane, connection): (usize, ConnectionId),
        (address, local_address): (String, String),
        connected_unix_ns: u64,
    ) -> Arc<OtherClient> {
        let client = Arc::new(OtherClient {
            lane,
            connection,
            address,
            local_address,
            connected_unix_ns,
            user: Mutex::default(),
        });
        let place = (lane, connection);
        let other = self.by_place.lock().insert(place, client.clone());
        debug_assert!(other.is_none(), "a connection is one client");
        client
    }

    /// Forgets the client of a connection, if there is one.
    pub fn disconnect(&self, lane: usize, connection: ConnectionId) {
        self.by_place.lock().remove(&(lane, connection));
    }

    /// Returns all of them.
    pub(crate) fn list(&self) -> Vec<Arc<OtherClient>> {
        self.by_place.lock().values().cloned().collect()
    }
}

impl OtherClient {
    /// Where it is.
    pub fn address(&self) -> &str {
        &self.address
    }
}
