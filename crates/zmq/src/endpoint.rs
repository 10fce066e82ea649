//! Endpoints: what is bound and what is connected.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::address::{Target, told};
use crate::options::Options;
use crate::secure::Secure;
use crate::slab::Key;
use crate::socket_file::SocketFile;
use crate::socks::Negotiation;

/// Something bound or connected.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// As the program may name it to undo it.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The socket's options as they were when this was bound or connected: what is set later counts
    /// for later endpoints.
    pub(crate) options: Arc<Options>,
    /// What its connections share over TLS.
    pub(crate) secure: Option<Secure>,
    /// The program has undone it. It is there for what its peer is still owed.
    pub(crate) is_leaving: bool,
}

#[derive(Debug)]
pub(crate) enum Role {
    Listener {
        descriptor: OwnedFd,
        /// To be removed at the end.
        file: Option<SocketFile>,
    },
    Connecter(Box<Connecter>),
    InprocListener,
    InprocConnecter {
        peer: Key,
    },
    /// A UDP socket, bound or to send from.
    Datagrams {
        peer: Key,
        /// The endpoint with the address that was really taken.
        bound: String,
    },
}

impl Endpoint {
    /// Whether a program may mean this one when it undoes an endpoint.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        if self.is_leaving {
            return false;
        }
        self.name == name
            || match &self.role {
                Role::Datagrams { bound, .. } => bound == name,
                Role::Connecter(_) => {
                    let is_web = name.starts_with("ws://") || name.starts_with("wss://");
                    is_web && told(&self.name).is_some_and(|told| told == name)
                }
                _ => false,
            }
    }
}

/// An outgoing connection, which is made again when it is lost.
#[derive(Debug)]
pub(crate) struct Connecter {
    pub(crate) remote: Remote,
    pub(crate) phase: Phase,
    /// The peer that this connection leads to. With `IMMEDIATE` only while it is there.
    pub(crate) peer: Option<Key>,
    /// The interval before the next attempt, in milliseconds.
    pub(crate) backoff_ms: i32,
    /// The name under which a ROUTER files the peer.
    pub(crate) routing_id: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) enum Remote {
    Tcp(Target),
    Ipc(String),
    Shm(String),
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// Its next attempt comes by a timer.
    Waiting,
    /// The host's name is being looked up.
    Resolving,
    Connecting(OwnedFd),
    /// Connected to a proxy, which is asked to go on from there.
    Negotiating(OwnedFd, Box<Negotiation>),
    /// Connected to a peer that will hand over the memory to speak through.
    Mapping(OwnedFd),
    Established,
    /// Its peer does not let us in, and would not the next time. The program may end it.
    Stopped,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    ByPeer,
    ByUs,
    /// The peer broke the protocol.
    Protocol,
    /// The peer does not let us in.
    Refused,
    /// Its type of socket does not go with ours.
    Misfit,
}
