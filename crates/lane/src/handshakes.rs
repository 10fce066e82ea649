//! TLS handshakes of a lane: when they go on, and when they are given up.
//!
//! A handshake costs as much as a thousand requests. So each turn spends a limited time on them,
//! after it has sent the replies of other clients; the rest wait for later turns. The application
//! knows a connection only once its handshake is done.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tidewire_tls::{Error, NO_TLS_HERE};
use tracing::warn;

use crate::application::{Application, CloseReason};
use crate::clock::monotonic_ns;
use crate::connection::{Closing, Connection, ConnectionId, Peer};
use crate::context::Context;
use crate::helpers::{Shaken, Step};
use crate::outbox::{Flush, FlushCount};
use crate::secure::{Secure, TlsAcceptor};
use crate::tls_failure::TlsFailure;
use crate::traffic::Traffic;

/// The handshakes of a lane.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    /// Connections whose peer has sent something, in the order in which it came.
    ready: VecDeque<ConnectionId>,
    /// Connections whose handshake is done, to be passed to the application.
    opened: Vec<ConnectionId>,
    /// All that have begun, with the time of it; those that are done stay until they are first.
    begun: VecDeque<(ConnectionId, u64)>,
    /// Number of connections whose handshake is not done.
    pub(crate) unfinished: usize,
}

impl Handshakes {
    /// Returns whether a turn has work without an event.
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.opened.is_empty()
    }

    /// Returns when the oldest handshake is given up.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        let (_, began_ns) = self.begun.front()?;
        Some(began_ns + HANDSHAKE_NS_MAX)
    }
}

impl<A: Application> Traffic<'_, A> {
    /// Adopts a connection of a listener with TLS.
    pub(crate) fn adopt_secure(
        &mut self,
        socket: OwnedFd,
        port: u16,
        peer: &Peer,
        tls: &TlsAcceptor,
    ) {
        let Some(server) = tls.current() else {
            let failed = &self.context.counters.tls_failed;
            failed.fetch_add(1, Ordering::Relaxed);
            return TlsFailure::NoCertificate.note(peer, &socket);
        };
        let mut connection = Connection::new(socket, port, false);
        connection.handshaking = true;
        connection.secure = Some(Box::new(Secure::accept(server, peer.clone())));
        match self.context.insert(connection) {
            Ok(id) => {
                let handshakes = &mut self.context.handshakes;
                handshakes.unfinished += 1;
                handshakes.begun.push_back((id, self.context.now_ns));
            }
            Err(error) => warn!(%peer, %error, "cannot watch a connection"),
        }
    }

    /// Begins the handshake of an outgoing connection, which is established.
    pub(crate) fn greet(&mut self, id: ConnectionId) {
        let now_ns = self.context.now_ns;
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        let Some(secure) = connection.secure.as_mut() else {
            return;
        };
        debug_assert!(
            secure.is_outgoing,
            "only outgoing connections are established"
        );
        connection.handshaking = true;
        let sent = secure.send_outgoing(connection.socket.as_fd(), &mut FlushCount::default());
        connection.blocked = sent == Err(Flush::Blocked);
        let handshakes = &mut self.context.handshakes;
        handshakes.unfinished += 1;
        handshakes.begun.push_back((id, now_ns));
        match sent {
            Err(Flush::Broken) => self.fail(id, CloseReason::Broken),
            _ => self.context.update_watch(id),
        }
    }

    /// Goes on with handshakes, for a limited time, and gives up those that take too long.
    pub(crate) fn shake_hands(&mut self) {
        if self.context.handshakes.unfinished == 0 {
            self.context.handshakes.begun.clear();
            return;
        }
        self.context.give_up_old();
        self.context.give_up_excess();
        if self.context.handshakes.ready.is_empty() {
            return;
        }
        let began_ns = monotonic_ns();
        while let Some(id) = self.context.handshakes.ready.pop_front() {
            self.shake(id);
            if monotonic_ns() - began_ns >= SHAKING_NS_A_TURN {
                break;
            }
        }
    }

    fn shake(&mut self, id: ConnectionId) {
        let mut cipher = std::mem::take(&mut self.context.cipher);
        if cipher.len() < READ_BYTES {
            cipher.resize(READ_BYTES, 0);
        }
        if let Some(count) = self.receive_shake(id, &mut cipher[..READ_BYTES]) {
            self.take_shake(id, &mut cipher[..count]);
        }
        self.context.cipher = cipher;
    }

    /// Makes one receive call. Returns the number of bytes, if there are any.
    fn receive_shake(&mut self, id: ConnectionId, cipher: &mut [u8]) -> Option<usize> {
        let connection = self.context.connection_mut(id)?;
        let secure = connection.secure.as_mut()?;
        secure.is_listed = false;
        if connection.closing != Closing::No {
            return None;
        }
        let received = rustix::net::recv(connection.socket.as_fd(), cipher, RecvFlags::empty());
        match received.map(|read| read.0) {
            Err(Errno::AGAIN | Errno::INTR) => {
                self.context.update_watch(id);
                None
            }
            Ok(0) | Err(_) => {
                // Port scanners and health checks leave before they begin.
                if secure.is_outgoing {
                    secure.note_failure(LEFT);
                } else if secure.has_begun() {
                    TlsFailure::Left.note(&secure.peer, &connection.socket);
                }
                self.fail(id, CloseReason::PeerClosed);
                None
            }
            Ok(count) => Some(count),
        }
    }

    /// Goes on with the bytes that were received, here or by a helper.
    fn take_shake(&mut self, id: ConnectionId, cipher: &mut [u8]) {
        let lane = self.context.lane;
        let bell = self.context.bells[lane].clone();
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        let Some(secure) = connection.secure.as_mut() else {
            return;
        };
        if let Err(error) = secure.begin(cipher) {
            return self.settle_shake(id, &Err(error));
        }
        if let Some(session) = secure.lend() {
            // Until it is back, nothing is read.
            secure.is_listed = true;
            let step = Step {
                bell,
                id,
                session,
                ciphertext: cipher.to_vec(),
            };
            step.post();
            return self.context.update_watch(id);
        }
        let input = &mut connection.input;
        let shaken = secure.receive(cipher, &mut |text| input.extend_from_slice(text));
        self.settle_shake(id, &shaken);
    }

    /// Takes back what a helper has done.
    pub(crate) fn take_shaken(&mut self, shaken: Shaken) {
        let Some(connection) = self.context.connection_mut(shaken.id) else {
            return;
        };
        let Some(secure) = connection.secure.as_mut() else {
            return;
        };
        secure.is_listed = false;
        secure.put_back(shaken.session);
        connection.input.extend_from_slice(&shaken.text);
        if connection.closing == Closing::No {
            self.settle_shake(shaken.id, &shaken.result);
        }
    }

    /// Sends what a step of a handshake has to say, and ends the handshake if it is done or has
    /// failed.
    fn settle_shake(&mut self, id: ConnectionId, shaken: &Result<(), Error>) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        let Some(secure) = connection.secure.as_mut() else {
            return;
        };
        let socket = connection.socket.as_fd();
        let sent = secure.send_outgoing(socket, &mut FlushCount::default());
        connection.blocked = sent == Err(Flush::Blocked);
        if let Err(error) = shaken {
            match secure.is_outgoing {
                true => secure.note_failure(&error.to_string()),
                false => {
                    TlsFailure::from(error.clone()).note(&secure.peer, &connection.socket);
                }
            }
            return self.fail(id, CloseReason::Broken);
        }
        if sent == Err(Flush::Broken) {
            return self.fail(id, CloseReason::Broken);
        }
        if secure.is_open() {
            secure.is_listed = true;
            self.context.handshakes.opened.push(id);
        }
        self.context.update_watch(id);
    }

    fn fail(&mut self, id: ConnectionId, reason: CloseReason) {
        let failed = &self.context.counters.tls_failed;
        failed.fetch_add(1, Ordering::Relaxed);
        self.context.close(id, reason);
    }

    /// Passes connections whose handshake is done to the application.
    pub(crate) fn pass_opened(&mut self) {
        for id in std::mem::take(&mut self.context.handshakes.opened) {
            self.pass(id);
        }
    }

    fn pass(&mut self, id: ConnectionId) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        let (port, closing) = (connection.port, connection.closing);
        let Some(secure) = connection.secure.as_mut() else {
            return;
        };
        secure.is_listed = false;
        if closing != Closing::No {
            return;
        }
        connection.handshaking = false;
        let (peer, is_resumed) = (secure.peer.clone(), secure.is_resumed());
        let is_outgoing = secure.is_outgoing;
        self.context.handshakes.unfinished -= 1;
        let counters = &self.context.counters;
        counters.tls_handshakes.fetch_add(1, Ordering::Relaxed);
        let resumed = &counters.tls_resumed;
        resumed.fetch_add(is_resumed.into(), Ordering::Relaxed);
        match is_outgoing {
            true => self.application.connected(self.context, id, port),
            false => self.application.accepted(self.context, id, port, &peer),
        }
        self.deliver_input(id);
        self.context.update_watch(id);
    }

    /// Refuses a peer that speaks TLS to a port without it: in words that a client of TLS
    /// understands, and in the log. The peer may be gone already.
    #[cold]
    pub(crate) fn refuse_tls(&mut self, id: ConnectionId, peer: &Peer) {
        let Some(connection) = self.context.connection(id) else {
            return;
        };
        TlsFailure::PortWithout.note(peer, &connection.socket);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(&connection.socket, &NO_TLS_HERE, flags);
        self.fail(id, CloseReason::Broken);
    }
}

impl Context {
    /// Notes why an outgoing connection fails, for the application.
    pub(crate) fn note_tls_failure(&mut self, id: ConnectionId, error: &Error) {
        let connection = self.connection_mut(id);
        if let Some(secure) = connection.and_then(|one| one.secure.as_mut()) {
            secure.note_failure(&error.to_string());
        }
    }

    /// Notes an event of a connection whose handshake is not done.
    pub(crate) fn note_handshake(&mut self, id: ConnectionId, flags: EventFlags) {
        let waiting = self.handshakes.ready.len();
        let Some(connection) = self.connection_mut(id) else {
            return;
        };
        let Some(secure) = connection.secure.as_mut() else {
            return;
        };
        if flags.contains(EventFlags::OUT) && connection.blocked {
            let sent = secure.send_outgoing(connection.socket.as_fd(), &mut FlushCount::default());
            connection.blocked = sent == Err(Flush::Blocked);
            if sent == Err(Flush::Broken) {
                return self.close(id, CloseReason::Broken);
            }
        }
        let has_input = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        if has_input && !secure.is_listed {
            secure.is_listed = true;
            self.handshakes.ready.push_back(id);
        }
        if waiting >= WATCHED_MAX || !has_input {
            // It has to wait for a later turn, and would be reported in each of them.
            self.update_watch(id);
        }
    }

    /// Closes connections whose handshake takes too long.
    fn give_up_old(&mut self) {
        if self.handshakes.begun.len() > 2 * self.handshakes.unfinished + UNFINISHED_MAX {
            // Many are done, behind one that is not.
            let mut begun = std::mem::take(&mut self.handshakes.begun);
            begun.retain(|&(id, _)| self.connection(id).is_some_and(|one| one.handshaking));
            self.handshakes.begun = begun;
        }
        while let Some(&(id, began_ns)) = self.handshakes.begun.front() {
            let is_late = began_ns + HANDSHAKE_NS_MAX <= self.now_ns;
            let connection = self.connection(id);
            match connection.filter(|connection| connection.handshaking) {
                Some(connection) if is_late => {
                    let has_begun = connection
                        .secure
                        .as_ref()
                        .is_some_and(|one| one.has_begun());
                    let failure = match has_begun {
                        true => TlsFailure::TooSlow,
                        false => TlsFailure::Silent,
                    };
                    self.give_up(id, &failure);
                }
                Some(_) => return,
                None => {}
            }
            self.handshakes.begun.pop_front();
        }
    }

    /// Closes the oldest of those that wait for their peer, if there are too many.
    fn give_up_excess(&mut self) {
        let mut excess = self.handshakes.unfinished.saturating_sub(UNFINISHED_MAX);
        let mut at = 0;
        while excess > 0 && at < LOOKED_AT {
            let Some(&(id, _)) = self.handshakes.begun.get(at) else {
                return;
            };
            at += 1;
            let connection = self.connection(id);
            let Some(connection) = connection.filter(|connection| connection.handshaking) else {
                continue;
            };
            let secure = connection.secure.as_ref();
            let is_ready = secure.is_some_and(|one| one.is_listed || one.is_outgoing);
            if connection.closing != Closing::No {
                excess -= 1;
            } else if !is_ready {
                excess -= 1;
                self.give_up(id, &TlsFailure::TooMany);
            }
        }
    }

    fn give_up(&mut self, id: ConnectionId, failure: &TlsFailure) {
        if let Some(connection) = self.connection_mut(id)
            && let Some(secure) = &mut connection.secure
        {
            match secure.is_outgoing {
                true => secure.note_failure(&failure.to_string()),
                false => failure.note(&secure.peer, &connection.socket),
            }
        }
        self.counters.tls_failed.fetch_add(1, Ordering::Relaxed);
        self.close(id, CloseReason::Broken);
    }
}

/// Why a server ends a handshake without a word.
const LEFT: &str = "the server closed the connection during the handshake; its port may be one \
                    without TLS";
/// Bytes of one receive call of a handshake.
const READ_BYTES: usize = 16 * 1024;
/// Time of a turn for handshakes. The last one may take longer.
const SHAKING_NS_A_TURN: u64 = 500_000;
/// Time for a handshake.
const HANDSHAKE_NS_MAX: u64 = 10_000_000_000;
/// Unfinished handshakes per lane. Above it the oldest ones that wait for their peers are given up.
const UNFINISHED_MAX: usize = 1_024;
/// How many of the oldest are looked at in a turn to find such.
const LOOKED_AT: usize = 512;
/// Waiting handshakes that are watched on: a turn has time for a few.
const WATCHED_MAX: usize = 4;
