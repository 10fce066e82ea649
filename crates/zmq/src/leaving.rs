//! Peers whose endpoint the program has undone while messages to them wait.
//!
//! As in libzmq, what was handed over before is still sent, for as long as `LINGER` says. A
//! connection that is lost, or was never made, is made again for it. To the pattern the peer is
//! gone: no further message goes to it, and what it says is dropped.

use crate::endpoint::{Loss, Role};
use crate::kind::SocketType;
use crate::peer::Peer;
use crate::slab::Key;
use crate::state::{Recipient, State, Timer};

impl State {
    /// The program undoes what it has bound or connected.
    pub(crate) fn undo_endpoint(&mut self, endpoint: Key) {
        if !self.outlasts_its_end(endpoint) {
            self.remove_endpoint(endpoint);
        }
    }

    /// Leaves a connecting endpoint to what is still to be sent by it. `false`: nothing is, or it
    /// must not linger.
    fn outlasts_its_end(&mut self, endpoint: Key) -> bool {
        let Some(key) = self.connecter(endpoint).and_then(|known| known.peer) else {
            return false;
        };
        self.flush(key);
        let is_flushed = self.peers.get(key).is_none_or(Peer::is_flushed);
        if is_flushed || self.options.linger_ms == 0 {
            return false;
        }
        if let Some(known) = self.endpoints.get_mut(endpoint) {
            debug_assert!(!known.is_leaving, "an endpoint is undone once");
            known.is_leaving = true;
        }
        self.begin_leaving(key);
        true
    }

    /// A peer leaves the pattern now, and the socket when its output is written.
    pub(crate) fn begin_leaving(&mut self, key: Key) {
        let freed = self.withdraw(key);
        if self.exchange.peer == Some(key) {
            self.exchange.peer = None;
        }
        self.readable.retain(|&known| known != key);
        let linger_ms = self.options.linger_ms;
        debug_assert!(linger_ms != 0, "without a time to linger it goes at once");
        if let Some(peer) = self.peers.get_mut(key) {
            debug_assert!(!peer.is_leaving, "a peer leaves once");
            peer.is_leaving = true;
            peer.is_attached = false;
            peer.is_readable = false;
            peer.incoming.clear();
        }
        // The program takes no more of what it says, which must not keep its end from being seen.
        self.resume_reading(key);
        if linger_ms > 0 {
            let deadline_ns = self.now_ns + linger_ms as u64 * 1_000_000;
            if let Some(peer) = self.peers.get_mut(key) {
                peer.leave_ns = deadline_ns;
            }
            self.set_timer(deadline_ns, Timer::Leave(key));
        }
        if let Some(name) = freed {
            self.release_name(&name);
        }
    }

    /// Nothing more goes to a peer: it has no turn, no name and no subscriptions. Returns the name
    /// if others wait for it.
    pub(crate) fn withdraw(&mut self, key: Key) -> Option<Vec<u8>> {
        if let Some(place) = self.writable.iter().position(|&known| known == key) {
            self.writable.remove(place);
            if self.turn > place {
                self.turn -= 1;
            }
        }
        debug_assert!(!self.writable.contains(&key), "it had one turn");
        self.forget_subscriber(key);
        if self.sending.is_open() {
            // The message that the program has begun.
            self.matched.retain(|&known| known != key);
            if self.sending.recipient == Recipient::Peer(key) {
                self.sending.recipient = Recipient::None;
                if self.kind == SocketType::Req {
                    self.exchange.peer = None;
                }
            }
        }
        let peer = self.peers.get(key)?;
        if self.routes.get(&peer.routing_id) != Some(&key) {
            return None;
        }
        self.routes.remove(&peer.routing_id);
        (!self.muted.is_empty()).then(|| peer.routing_id.clone())
    }

    /// A socket of the process is gone. What it has sent can still be received, and its reply still
    /// answers a request, but nothing more can be sent to it.
    pub(crate) fn withdraw_closed_pipe(&mut self, key: Key) {
        if self.writable.contains(&key)
            && let Some(name) = self.withdraw(key)
        {
            self.release_name(&name);
        }
    }

    /// Notes a peer that has only lived for what it had to send, once that is gone. It is let go
    /// when nothing is done with it.
    pub(crate) fn note_flushed(&mut self, key: Key) {
        if self.is_done_leaving(key) && !self.broken.contains(&key) {
            self.broken.push(key);
        }
    }

    /// Whether the pattern knows this peer no more.
    pub(crate) fn is_leaving(&self, key: Key) -> bool {
        self.peers.get(key).is_some_and(|peer| peer.is_leaving)
    }

    pub(crate) fn is_done_leaving(&self, key: Key) -> bool {
        let is_done = |peer: &Peer| peer.is_leaving && peer.is_flushed();
        self.peers.get(key).is_some_and(is_done)
    }

    /// Lets a leaving peer go, and the endpoint that was kept for it.
    pub(crate) fn end_leaving(&mut self, key: Key) {
        let Some(peer) = self.peers.get(key).filter(|peer| peer.is_leaving) else {
            return;
        };
        if let Some(endpoint) = peer.origin {
            self.end_leaving_endpoint(endpoint);
        }
        self.lose(key, Loss::ByUs);
        debug_assert!(self.peers.get(key).is_none(), "nothing of it is left");
    }

    /// Removes an endpoint that was kept for a leaving peer. Returns whether it was.
    pub(crate) fn end_leaving_endpoint(&mut self, endpoint: Key) -> bool {
        let Some(known) = self.endpoints.get_mut(endpoint) else {
            return false;
        };
        if !known.is_leaving {
            return false;
        }
        if let Role::Connecter(connecter) = &mut known.role {
            connecter.peer = None;
        }
        self.remove_endpoint(endpoint);
        true
    }
}
