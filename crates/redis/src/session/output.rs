//! Replies to a Redis client, and the limit on unread output.

use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, ConnectionId, Context, Outbox};
use tidewire_resp::Writer;

use super::{ReplyMode, RespSession, State};
use crate::parameters::ClientClass;
use crate::server::Server;

/// The connections that replies pass on their way to the peer of another protocol's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// The other session's end of the connection to the Redis session.
    pub near: ConnectionId,
    /// Its connection to the peer.
    pub peer: ConnectionId,
}

impl RespSession {
    /// Another session relays the replies. It calls [`Context::resume`] for this connection when
    /// the peer has read.
    pub(crate) fn reply_through(&mut self, relay: Relay) {
        self.state.relay = Some(relay);
    }
}

impl State {
    /// Returns the bytes of unread replies above which no further request is executed. `None` if
    /// none may be executed now: earlier replies are still on their way through a relay.
    #[inline]
    pub(super) fn pause_bytes(&self, context: &mut Context, limit: usize) -> Option<usize> {
        match self.relay {
            None => Some(OUTPUT_PAUSE_BYTES.min(limit)),
            Some(relay) => relay.room(context, self.id).map(|room| room.min(limit)),
        }
    }

    /// How many bytes the client may leave unread.
    pub(super) fn output_limit(&self, server: &Server) -> usize {
        let class = match self.client.is_subscriber() {
            true => ClientClass::Pubsub,
            false => ClientClass::Normal,
        };
        match server.parameters.output_limit(class).hard_bytes {
            0 => usize::MAX,
            bytes => bytes as usize,
        }
    }

    /// Cuts off a client that leaves more unread than it may.
    #[cold]
    pub(super) fn cut_off(&mut self, server: &Server, context: &mut Context) {
        self.tell_cut_off();
        server.post.counters.cut_off.fetch_add(1, Ordering::Relaxed);
        server.clients.disconnect(self.client.id);
        context.cut_off(self.id, CloseReason::Requested);
        self.set_closing();
    }

    /// Logs that it leaves more unread than `client-output-buffer-limit` allows.
    #[cold]
    pub(super) fn tell_cut_off(&self) {
        if let Some(left_out) = CUT_OFF.note_now() {
            let (client, address) = (self.client.id, &self.client.address);
            let text = "cut off: it leaves more unread than it may";
            tracing::info!(client, %address, left_out, "{text}");
        }
    }

    /// Writes one reply, unless CLIENT REPLY says not to.
    pub(super) fn reply(&self, context: &mut Context, write: impl FnOnce(&mut Writer<'_>)) {
        if self.reply_mode == ReplyMode::On {
            self.send(context, write);
        }
    }

    /// Writes regardless of CLIENT REPLY: subscription confirmations are no replies.
    pub(super) fn send(&self, context: &mut Context, write: impl FnOnce(&mut Writer<'_>)) {
        if let Some(out) = context.out(self.id)
            && out.len() <= self.output_bytes_max
        {
            let before = match cfg!(debug_assertions) {
                true => out.buffer().len(),
                false => 0,
            };
            write(&mut self.writer(out));
            debug_assert!(
                out.buffer().len() > before || self.output_bytes_max < usize::MAX,
                "a reply is not empty unless it reaches the limit on unread output"
            );
        }
    }

    /// A writer of replies that stops where the client leaves more unread than it may: it is cut
    /// off after its request.
    #[inline]
    pub(super) fn writer<'o>(&self, out: &'o mut Outbox) -> Writer<'o> {
        Writer::new(out.buffer(), self.protocol).until(self.output_bytes_max)
    }
}

/// Limits the log lines that a peer causes by coming back.
static CUT_OFF: tidewire_retry::Seldom = tidewire_retry::Seldom::new(10, 10);

impl Relay {
    /// Returns how many bytes of replies the session `own` may add. `None` if the replies that are
    /// on their way are not small: the session is paused then.
    ///
    /// The size of a reply is known when it is made. So a request is executed only if all replies
    /// in front of it are with the peer or small, and at most one large reply is in memory.
    fn room(self, context: &mut Context, own: ConnectionId) -> Option<usize> {
        let before = context.input_bytes(self.near) + context.out_bytes(self.peer);
        if before + context.out_bytes(own) <= RELAYED_BYTES_MAX {
            return Some(RELAYED_BYTES_MAX - before);
        }
        context.pause(own);
        context.watch_drain(self.peer);
        None
    }
}

/// With this many bytes of replies unread, a client gets no further command executed.
const OUTPUT_PAUSE_BYTES: usize = 16 << 20;
/// The same for the peer of another session, with the replies that are under way to it.
const RELAYED_BYTES_MAX: usize = 256 << 10;
