//! What a program can know of its peers.

use crate::core::{Purpose, Wait};
use crate::error::Error;
use crate::kind::SocketType;
use crate::monitor::Event;
use crate::peer::Link;
use crate::slab::Key;
use crate::socket::Socket;
use crate::state::State;
use crate::udp::DatagramLink;

/// One peer, as [`Socket::peers`] found it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerStatus {
    /// The name under which a ROUTER files it; empty if it has none.
    pub routing_id: Vec<u8>,
    /// The endpoint it came by, or was connected to.
    pub endpoint: String,
    /// Its address, where it has one: without the port. Over ipc and shm the user, the group and
    /// the number of its process: `localhost:1000:1000:4711`.
    pub address: String,
    /// The connection is there and its handshake done.
    pub is_connected: bool,
    /// Messages handed over that are not yet with the kernel or the other socket.
    pub queued: u64,
    /// Bytes of them, where they wait for a connection.
    pub queued_bytes: u64,
    /// Messages handed over for it since it is known.
    pub sent: u64,
    /// Messages taken from it.
    pub received: u64,
    /// Messages it was to get and did not, because its queue was full, or because no datagram could
    /// carry them there.
    pub dropped: u64,
    /// Messages that newer ones have replaced, on the way to it or from it (`CONFLATE`,
    /// `CONFLATE_TOPICS`). Two sockets of one process count those between them both.
    pub conflated: u64,
    /// Datagrams received that are no messages. They were dropped.
    pub malformed: u64,
}

/// Where a UDP socket sends to, if that is one place.
fn address_of(link: &DatagramLink) -> String {
    let target = link.target();
    target.map_or(String::new(), |target| {
        target.ip().to_canonical().to_string()
    })
}

impl Socket {
    /// Every peer of this moment, with what has become of its messages.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Pull, Push};
    ///
    /// let context = Context::new();
    /// let mut push = Push::bind(&context, "inproc://work")?;
    /// let pull = Pull::connect(&context, "inproc://work")?;
    /// push.send("task")?;
    /// let peers = push.socket().peers()?;
    /// assert_eq!((peers.len(), peers[0].sent, peers[0].queued), (1, 1, 1));
    /// # drop(pull);
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn peers(&self) -> Result<Vec<PeerStatus>, Error> {
        let state = self.core().enter()?;
        let peers = state.peers.values().filter(|peer| !peer.is_gone);
        Ok(peers
            .map(|peer| PeerStatus {
                routing_id: peer.routing_id.clone(),
                endpoint: peer
                    .origin
                    .and_then(|origin| state.endpoints.get(origin))
                    .map(|endpoint| endpoint.name.clone())
                    .unwrap_or_default(),
                address: match &peer.link {
                    Link::Stream(link) => link.peer_address(),
                    Link::Datagrams(link) => address_of(link),
                    Link::Pipe(_) | Link::None => String::new(),
                },
                is_connected: match &peer.link {
                    Link::Stream(_) => peer.identity.is_some(),
                    Link::Pipe(pipe) => pipe.is_attached(),
                    Link::Datagrams(_) => true,
                    Link::None => false,
                },
                queued: peer.pending_messages() as u64,
                queued_bytes: peer.pending_bytes() as u64,
                sent: peer.counters.sent,
                received: peer.counters.received,
                dropped: peer.counters.dropped,
                conflated: peer.conflated(),
                malformed: peer.counters.malformed,
            })
            .collect())
    }

    /// ROUTER: whether the peer with this name can take a message now.
    ///
    /// # Errors
    /// [`Error::HostUnreachable`] if no peer has this name, [`Error::NotSupported`] for sockets
    /// of other types.
    pub fn can_send_to(&self, routing_id: &[u8]) -> Result<bool, Error> {
        let mut state = self.core().enter_timed()?;
        if self.kind() != SocketType::Router {
            return Err(Error::NotSupported);
        }
        let known = state.routes.get(routing_id).copied();
        let key = known.ok_or(Error::HostUnreachable)?;
        let mut looked = Ok(0);
        if !state.can_write(key) {
            // It may have read since the network was looked at.
            looked = self.core().drive(&mut state, Wait::Not, Purpose::Send);
        }
        let can_send = state.can_write(key);
        self.core().leave(&mut state);
        looked.map(|_| can_send)
    }

    /// Has the monitor told, for each peer, how many messages wait for it and how many from it:
    /// libzmq's draft event `PIPES_STATS`. What was taken out is counted in steps of half the
    /// high-water mark, as libzmq counts it; [`peers`](Self::peers) is exact.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] without a monitor that asked for the event, [`Error::Again`]
    /// without a peer.
    pub fn report_queues(&self) -> Result<(), Error> {
        let mut state = self.core().enter_timed()?;
        let result = state.report_queues();
        self.core().leave(&mut state);
        result
    }
}

impl State {
    /// Tells that messages to a peer are being dropped: once for a row of drops that lie close
    /// together.
    #[cold]
    pub(crate) fn report_drop(&mut self, key: Key) {
        let now_ns = crate::clock::now_ns();
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let before_ns = std::mem::replace(&mut peer.dropped_ns, now_ns.max(1));
        if before_ns != 0 && now_ns.saturating_sub(before_ns) < DROPS_APART_NS {
            return;
        }
        let descriptor = match &peer.link {
            Link::Stream(link) => link.raw_descriptor() as u64,
            Link::Datagrams(link) => link.raw_descriptor() as u64,
            Link::Pipe(_) | Link::None => 0,
        };
        self.report_peer(key, Event::DropsBegin, descriptor);
    }
}

/// Drops further apart than this are no row.
const DROPS_APART_NS: u64 = 1_000_000_000;
