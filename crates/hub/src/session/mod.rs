//! Sessions of the protocols beside Redis's.

pub(crate) mod zmq;

use tidewire_market::{DatabentoSession, FeedSession};

/// A connection's protocol state.
#[derive(Debug)]
pub(crate) enum Session {
    /// A ZeroMQ peer: a subscriber of the publisher port, or a pusher of the ingest port.
    Zmq(Box<zmq::ZmqSession>),
    /// A client of the hub's native feed, or a publisher into it.
    Feed(Box<FeedSession>),
    /// A client of the Databento gateway.
    Databento(Box<DatabentoSession>),
    /// A connection to a native feed that the hub reads: the source with this number.
    Source(usize),
    /// The connection to the plant.
    Plant,
}

impl Session {
    /// Whether the session has deadlines of its own: of a handshake, of heartbeats.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(
            self,
            Session::Zmq(_) | Session::Feed(_) | Session::Databento(_)
        )
    }
}
