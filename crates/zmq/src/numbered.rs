//! Peers by number: what SERVER and PEER sockets do with one of them.

use crate::address::{Address, Deed};
use crate::endpoint::{Loss, Role};
use crate::error::Error;
use crate::kind::SocketType;
use crate::socket::Socket;
use crate::state::State;

impl Socket {
    /// PEER: connects as [`connect`](Self::connect) does, and tells the number of the peer that
    /// is there, or will be. It stays when the connection is lost and made again.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); [`Error::NotSupported`] for another type of socket;
    /// [`Error::Fault`] with `IMMEDIATE`, which knows no peer before it is connected.
    pub fn connect_peer(&self, endpoint: &str) -> Result<u32, Error> {
        let mut state = self.core().enter_timed()?;
        if self.core().kind != SocketType::Peer {
            return Err(Error::NotSupported);
        }
        if state.options.immediate {
            return Err(Error::Fault);
        }
        let address = Address::parse(endpoint)?;
        address.check_kind(SocketType::Peer, Deed::Connect)?;
        let result = state.connect(endpoint, address);
        // `connect` assigns the next number to the new peer while this call holds the lock.
        let number = state.next_routing_id;
        debug_assert!(
            result.is_err()
                || state.is_closing
                || state.routes.contains_key(&number.to_be_bytes()[..]),
            "the number is that of the new peer"
        );
        self.core().leave(&mut state);
        result.map(|()| number)
    }

    /// SERVER and PEER: ends the connection with a peer by its number, and does not make it again.
    ///
    /// # Errors
    /// [`Error::HostUnreachable`] where there is no such peer; [`Error::NotSupported`] for another
    /// type of socket.
    pub fn disconnect_peer(&self, number: u32) -> Result<(), Error> {
        let mut state = self.core().enter_timed()?;
        if !self.core().kind.numbers_peers() {
            return Err(Error::NotSupported);
        }
        let result = state.disconnect_peer(number);
        self.core().leave(&mut state);
        result
    }
}

impl State {
    fn disconnect_peer(&mut self, number: u32) -> Result<(), Error> {
        // What it is still owed may keep it for a while: to the program it is gone.
        let known = self.routes.remove(&number.to_be_bytes()[..]);
        let key = known.ok_or(Error::HostUnreachable)?;
        let origin = self.peers.get(key).and_then(|peer| peer.origin);
        let role = origin.and_then(|origin| Some(&self.endpoints.get(origin)?.role));
        match (origin, role) {
            (Some(endpoint), Some(Role::Connecter(_) | Role::InprocConnecter { .. })) => {
                self.remove_endpoint(endpoint);
            }
            _ => self.lose(key, Loss::ByUs),
        }
        Ok(())
    }
}
