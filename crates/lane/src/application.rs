//! The application that runs on a lane.

use crate::connection::{ConnectionId, Peer};
use crate::context::Context;

/// The application of a lane: sessions of any protocol, driven by the lane's events.
///
/// Every method runs on the lane's own thread, and none may block. Replies are written into
/// [`Context::out`]; the lane sends them at the end of the turn.
pub trait Application: Sized {
    /// A message from another lane or from a control thread.
    type Mail: Send + 'static;

    /// A connection was accepted on the listener that carries the tag `port`.
    fn accepted(&mut self, context: &mut Context, connection: ConnectionId, port: u16, peer: &Peer);

    /// A connection on the listener with the tag `port` cannot be accepted, because no descriptor
    /// is left. Returns the bytes to send to its peer before the connection ends.
    fn refused(&mut self, _port: u16) -> Vec<u8> {
        Vec::new()
    }

    /// An outgoing connection made by [`Context::connect`] with the tag `port` is established.
    fn connected(&mut self, context: &mut Context, connection: ConnectionId, port: u16);

    /// Bytes have arrived. `input` holds everything received and not yet consumed.
    ///
    /// Returns how many bytes were consumed. The rest is passed again, with the bytes that
    /// follow. An application that cannot take more now (because its peer does not read its
    /// replies) calls [`Context::pause`] and returns early. It is called again when the outbox
    /// has drained.
    fn received(&mut self, context: &mut Context, connection: ConnectionId, input: &[u8]) -> usize;

    /// A connection whose outbox had been full has drained to its low-water mark.
    fn drained(&mut self, context: &mut Context, connection: ConnectionId);

    /// The buffered bytes of a connection have changed: unconsumed input
    /// ([`Context::input_bytes`]), or output that the kernel did not accept
    /// ([`Context::out_bytes`]). Not called while nothing is buffered.
    fn buffered(&mut self, _: &mut Context, _: ConnectionId) {}

    /// A connection has ended; its id is no longer valid.
    fn closed(&mut self, context: &mut Context, connection: ConnectionId, reason: CloseReason);

    /// The lane is about to stop. What is written now is sent, as far as the kernel accepts it,
    /// before the connections close.
    fn stopping(&mut self, _: &mut Context) {}

    /// A message from another lane or a control thread.
    fn mail(&mut self, context: &mut Context, mail: Self::Mail);

    /// Called once per turn, after all events and before the sends. Returns the latest time for
    /// the next turn, in monotonic nanoseconds ([`Context::now_ns`]).
    fn turn(&mut self, context: &mut Context) -> Option<u64>;
}

/// Why a connection ended.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed its side.
    PeerClosed,
    /// The peer reset the connection, or the network failed.
    Broken,
    /// An outgoing connection could not be made, and the system's reason.
    ConnectFailed(std::io::ErrorKind),
    /// The application requested it.
    Requested,
    /// The lane stops.
    Stopping,
}

impl CloseReason {
    /// Returns the reason in plain words, for the log.
    pub fn text(self) -> String {
        match self {
            CloseReason::PeerClosed => "the peer closed the connection".to_owned(),
            CloseReason::Broken => "connection lost".to_owned(),
            CloseReason::ConnectFailed(kind) => kind.to_string(),
            CloseReason::Requested => "closed on request".to_owned(),
            CloseReason::Stopping => "the server is stopping".to_owned(),
        }
    }
}
