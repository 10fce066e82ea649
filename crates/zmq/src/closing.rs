//! The end of endpoints and of sockets.

use std::sync::Arc;

use tidewire_readiness::Uncancelled;

use crate::endpoint::{Loss, Phase, Role};
use crate::kind::SocketType;
use crate::monitor::{Ends, Event};
use crate::parting::Partings;
use crate::peer::{Link, Peer};
use crate::slab::{Key, Slab};
use crate::state::{State, Timer};

impl State {
    /// Begins to close: endpoints without unsent messages end now, the rest lingers.
    pub(crate) fn begin_closing(&mut self) {
        debug_assert!(!self.is_closing, "a socket closes once");
        self.is_closing = true;
        self.flush_dirty();
        let linger_ms = self.options.linger_ms;
        for endpoint in self.endpoints.keys() {
            let is_connecting = match self.endpoints.get(endpoint).map(|known| &known.role) {
                Some(Role::Connecter(connecter)) => connecter
                    .peer
                    .and_then(|key| self.peers.get(key))
                    .is_some_and(|peer| !peer.is_flushed()),
                _ => false,
            };
            if !is_connecting || linger_ms == 0 {
                self.remove_endpoint(endpoint);
            }
        }
        self.stop_monitor();
        if linger_ms > 0 {
            let deadline = self.now_ns + linger_ms as u64 * 1_000_000;
            self.set_timer(deadline, Timer::Linger);
        } else if linger_ms == 0 {
            self.drop_everything();
        }
    }

    /// A connection has come in whose handshake begins: where they are limited, the oldest one
    /// makes room.
    pub(crate) fn limit_handshakes(&mut self, key: Key) {
        let most = self.options.handshakes_max as usize;
        self.handshakes.push_back(key);
        if self.handshakes.len() <= most {
            return;
        }
        let peers = &self.peers;
        self.handshakes.retain(|&key| {
            let peer = peers.get(key);
            peer.is_some_and(|peer| !peer.is_gone && peer.identity.is_none())
        });
        while self.handshakes.len() > most
            && let Some(oldest) = self.handshakes.pop_front()
        {
            self.report_peer(oldest, Event::HandshakeFailedNoDetail, ETIMEDOUT);
            self.lose(oldest, Loss::ByUs);
        }
        debug_assert!(self.handshakes.len() <= most, "handshakes have their bound");
    }

    /// Whether nothing is left to be sent, and the peers have what was.
    pub(crate) fn is_over(&mut self) -> bool {
        for key in self.peers.keys() {
            self.flush(key);
        }
        self.peers.values().all(Peer::is_flushed) && self.have_all_parted()
    }

    /// Everything goes, sent or not.
    pub(crate) fn drop_everything(&mut self) {
        debug_assert!(self.is_closing, "an open socket keeps its peers");
        for endpoint in self.endpoints.keys() {
            self.remove_endpoint(endpoint);
        }
        let mut is_any_early = false;
        for key in self.peers.keys() {
            let Some(peer) = self.peers.remove(key) else {
                continue;
            };
            match &peer.link {
                Link::Pipe(pipe) => is_any_early |= !pipe.is_attached(),
                link => {
                    if let Some(descriptor) = link.descriptor() {
                        self.unwatch_descriptor(descriptor);
                    }
                }
            }
            if let Some(muted) = peer.muted {
                self.unwatch_descriptor(&*muted.link);
            }
        }
        if is_any_early {
            self.inproc.forget_given_up();
        }
        self.drop_partings();
        debug_assert!(self.peers.values().next().is_none(), "every peer is gone");
        debug_assert!(
            self.endpoints.values().next().is_none(),
            "and every endpoint"
        );
        self.writes_watched = 0;
        self.timers.clear();
        self.pipes.clear();
        self.readable.clear();
        self.muted.clear();
        self.lent_listener = None;
        self.let_messages_go();
        drop(self.signal.take_mail());
    }

    /// Messages that are with no peer. Bytes that the program has lent are given back before the
    /// context ends.
    fn let_messages_go(&mut self) {
        self.sending.is_open = false;
        self.sending.frames.clear();
        self.receiving.clear();
        self.exchange.envelope.clear();
        self.last_values = None;
    }

    /// Ends what an endpoint has begun.
    pub(crate) fn remove_endpoint(&mut self, endpoint: Key) {
        let _uncancelled = Uncancelled::new();
        let Some(removed) = self.endpoints.remove(endpoint) else {
            return;
        };
        let mut lost: Vec<Key> = Vec::new();
        let is_inproc = matches!(removed.role, Role::InprocConnecter { .. });
        // As in libzmq, what has come by a name that is unbound can still be received, and what has
        // come over a connection that the program ends cannot, but with IMMEDIATE and what goes up
        // to an XPUB.
        let keeps = !self.is_closing
            && match removed.role {
                Role::Listener { .. } => true,
                Role::Connecter(_) if removed.options.immediate => true,
                _ => self.kind == SocketType::Xpub,
            };
        match removed.role {
            Role::Listener { descriptor, file } => {
                self.unwatch_descriptor(&descriptor);
                let number = crate::transport::raw(&descriptor) as u64;
                if let Some(file) = file {
                    file.remove();
                }
                drop(descriptor);
                self.report(Event::Closed, number, &Ends::bound(&removed.name));
                // As in libzmq, the peers that it accepted go with it.
                let came = |key: &Key| {
                    self.peers
                        .get(*key)
                        .is_some_and(|peer| peer.origin == Some(endpoint))
                };
                lost.extend(self.peers.keys().into_iter().filter(came));
            }
            Role::Connecter(connecter) => {
                let mut number = 0;
                if let Phase::Connecting(descriptor)
                | Phase::Negotiating(descriptor, _)
                | Phase::Mapping(descriptor) = &connecter.phase
                {
                    self.unwatch_descriptor(descriptor);
                    number = crate::transport::raw(descriptor) as u64;
                }
                let is_established = matches!(connecter.phase, Phase::Established);
                let is_told = removed.options.reconnect_stop & STOP_AFTER_DISCONNECT != 0;
                if number != 0 || is_told && !is_established {
                    self.report(Event::Closed, number, &Ends::connecting(&removed.name));
                }
                lost.extend(connecter.peer);
            }
            Role::InprocConnecter { peer } => lost.push(peer),
            Role::Datagrams { peer, .. } => {
                lost.push(peer);
            }
            Role::InprocListener => {
                self.inproc.unbind(&removed.name, &self.signal);
            }
        }
        for key in lost {
            if keeps {
                self.take_in(key);
            }
            self.finish_peer(key, keeps);
        }
        if is_inproc {
            self.inproc.forget_given_up();
        }
    }

    /// Sends what a peer is still owed, as far as it goes without waiting, and lets it go. What it
    /// sent and the program did not receive stays, or goes with the endpoint.
    fn finish_peer(&mut self, key: Key, keeps: bool) {
        self.flush(key);
        if let Some(peer) = self.peers.get_mut(key)
            && !keeps
        {
            peer.incoming.clear();
        }
        // Without its endpoint it is not connected to again.
        let lingers = |peer: &Peer| !peer.is_flushed() && !matches!(peer.link, Link::None);
        let is_owed = self.peers.get(key).is_some_and(lingers);
        if !is_owed || self.options.linger_ms == 0 {
            return self.lose(key, Loss::ByUs);
        }
        if let Some(peer) = self.peers.get_mut(key) {
            peer.origin = None;
            if !peer.is_leaving {
                if keeps {
                    self.leave_received(key);
                }
                self.begin_leaving(key);
            }
        }
    }

    /// Hands what was received from a peer that leaves to one in its place, which is gone already.
    fn leave_received(&mut self, key: Key) {
        let Some(peer) = self.peers.get_mut(key).filter(|peer| peer.is_readable) else {
            return;
        };
        let mut left = Peer::new(self.kind, Link::None, None, Arc::clone(&peer.options));
        left.incoming = std::mem::take(&mut peer.incoming);
        left.routing_id.clone_from(&peer.routing_id);
        left.is_gone = true;
        left.is_readable = std::mem::take(&mut peer.is_readable);
        let left = self.peers.insert(left);
        let place = self.readable.iter_mut().find(|known| **known == key);
        debug_assert!(place.is_some(), "the mark and the list agree");
        if let Some(place) = place {
            *place = left;
        }
        self.manual.moved(key, left);
        self.keep_left_topics(left);
    }

    /// Drops everything in a forked process without telling peers or epolls: the parent shares the
    /// descriptors, and its epolls must not change.
    pub(crate) fn abandon(&mut self) {
        self.monitor = None;
        self.epoll = None;
        self.peers = Slab::new();
        self.endpoints = Slab::new();
        self.partings = Partings::default();
        self.timers.clear();
        self.pipes.clear();
        self.readable.clear();
        self.muted.clear();
    }
}

/// `ZMQ_RECONNECT_STOP_AFTER_DISCONNECT`: that no further attempt comes is told. None ever does.
const STOP_AFTER_DISCONNECT: i32 = 4;
/// What is told of a handshake that took too long.
const ETIMEDOUT: u64 = 110;
