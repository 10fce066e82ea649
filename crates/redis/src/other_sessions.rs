//! Sessions of other protocols that a lane serves during a client's long call.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use tidewire_fanout::Fanout;
use tidewire_lane::{ConnectionId, Context, Peer};

use crate::access::User;
use crate::server::Server;
use crate::session::Relay;
use crate::sessions::Sessions;

/// Sessions of other protocols, in the lane's hands while one client's call takes long. What they
/// do meanwhile may lock no shard.
pub trait OtherSessions: Debug + Send {
    /// Returns whether a connection is one of theirs.
    fn serves(&self, id: ConnectionId) -> bool;

    /// Takes a connection of a port. Returns whether that is one of theirs; the others are
    /// accepted when the call has ended.
    fn accepted(&mut self, context: &mut Context, id: ConnectionId, port: u16, peer: &Peer)
    -> bool;

    /// Takes input. Returns the number of bytes used.
    fn received(
        &mut self,
        lane: LaneParts<'_>,
        context: &mut Context,
        id: ConnectionId,
        input: &[u8],
    ) -> usize;

    /// Returns itself, for the house that knows its type.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// What the sessions of other protocols use of the Redis server on their lane.
#[derive(Debug)]
pub struct LaneParts<'l> {
    /// Subscribers of every protocol.
    pub fanout: &'l mut Fanout,
    pub(crate) server: &'l Server,
    pub(crate) sessions: &'l mut Sessions,
}

impl LaneParts<'_> {
    /// Makes a connection that another session of this lane has opened for its peer a Redis client:
    /// `address` and `local` of the peer, and the user that it is. It speaks RESP3, and its replies
    /// go through `relay`.
    pub fn accept_for(
        &mut self,
        context: &Context,
        (id, relay): (ConnectionId, Relay),
        (address, local): (String, String),
        user: Arc<User>,
    ) {
        self.sessions
            .accept_for(self.server, context, (id, relay), (address, local), user);
    }
}
