//! Sessions of all protocols except Redis's.

pub(crate) mod feed_user;
pub(crate) mod web;
pub(crate) mod zmq;

use tidewire_lane::ConnectionId;
use tidewire_market::{DatabentoSession, FeedSession};

/// A connection's protocol state.
#[derive(Debug)]
pub(crate) enum Session {
    /// A ZeroMQ peer: a subscriber, a pusher, or a peer that requests values.
    Zmq(Box<zmq::ZmqSession>),
    /// A client of the hub's native feed, or a publisher into it.
    Feed(Box<FeedSession>),
    /// A client of the Databento gateway.
    Databento(Box<DatabentoSession>),
    /// A client of the web port.
    Web(Box<web::WebSession>),
    /// Our end of the connection between a page's session and its Redis session: the page.
    WebCalls(ConnectionId),
    /// A connection to a native feed that the hub reads: the source with this number.
    Source(usize),
    /// The connection to the plant.
    Plant,
}

impl Session {
    /// Returns whether the session has its own timeouts, such as for a handshake or heartbeats.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(
            self,
            Session::Zmq(_) | Session::Feed(_) | Session::Databento(_) | Session::Web(_)
        )
    }
}
