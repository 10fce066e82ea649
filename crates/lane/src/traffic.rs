//! Socket events of a lane: accept, read and deliver, including in a turn within a turn.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::epoll::{Event, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketFlags, sockopt};
use tidewire_readiness as readiness;
use tidewire_tls::is_greeting;
use tracing::{debug, warn};

use crate::application::{Application, CloseReason};
use crate::clock::monotonic_ns;
use crate::connection::{Connection, ConnectionId, Peer};
use crate::context::Context;
use crate::mailbox::Signal;
use crate::secure::TlsAcceptor;

/// A lane's sockets together with the application.
pub(crate) struct Traffic<'a, A: Application> {
    pub(crate) context: &'a mut Context,
    pub(crate) application: &'a mut A,
    pub(crate) scratch: &'a mut [u8],
}

impl<A: Application> Traffic<'_, A> {
    pub(crate) fn dispatch(&mut self, event: &Event) {
        let token = event.data.u64();
        let flags = event.flags;
        if token >= TOKEN_LISTENERS {
            self.accept((token - TOKEN_LISTENERS) as usize);
            return;
        }
        if token == TOKEN_MAILBOX {
            return;
        }
        let id = ConnectionId::from_token(token);
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        if connection.connecting {
            self.finish_connect(id);
            return;
        }
        if connection.handshaking {
            self.context.note_handshake(id, flags);
            return;
        }
        let reading = connection.is_reading();
        let ahead = connection.is_reading_ahead() && flags.contains(EventFlags::IN);
        let left = connection.held && flags.contains(EventFlags::RDHUP);
        let left_aside =
            connection.set_aside && flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if flags.contains(EventFlags::OUT) && connection.blocked {
            connection.blocked = false;
            if !connection.dirty {
                connection.dirty = true;
                self.context.dirty.push(id);
            }
        }
        if reading && flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.read(id);
        } else if ahead && !flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            self.read_ahead(id);
        } else if left_aside {
            // The peer has left, and its earlier input is still to be read.
            self.context.unwatch(id);
        } else if left {
            self.context.close(id, CloseReason::PeerClosed);
        } else if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            // Nothing is read from it now, and the peer will never read the output waiting for
            // it.
            self.context.close(id, CloseReason::Broken);
        }
    }

    fn accept(&mut self, number: usize) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        for _ in 0..ACCEPTS_A_TURN {
            // An event of this turn may belong to a listener that another event has removed.
            let Some(listener) = self.context.listeners.get(number) else {
                return;
            };
            match rustix::net::acceptfrom_with(&listener.socket, flags) {
                Ok((socket, address)) => {
                    let (port, tls) = (listener.port, listener.tls.clone());
                    self.deal(socket, address, port, tls);
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE) if self.refuse_one(number) => {}
                // No connection is waiting, or the listener was stopped and will be removed soon.
                Err(Errno::AGAIN | Errno::INVAL) => return,
                Err(error) => {
                    // Out of descriptors: waiting connections are accepted once others have
                    // ended.
                    warn!(%error, "cannot accept a connection");
                    self.context.watch_listeners(EventFlags::empty());
                    self.context.accept_again_ns = Some(self.context.now_ns + ACCEPT_PAUSE_NS);
                    return;
                }
            }
        }
    }

    /// Closes the spare descriptor to accept and refuse a connection. Returns whether that was
    /// possible.
    #[cold]
    fn refuse_one(&mut self, number: usize) -> bool {
        let Some(listener) = self.context.listeners.get(number) else {
            return false;
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let had_spare = self.context.spare.take().is_some();
        let accepted = rustix::net::acceptfrom_with(&listener.socket, flags);
        let (port, has_tls) = (listener.port, listener.has_tls());
        let is_refused = accepted.is_ok();
        if let Ok((socket, _)) = accepted {
            self.refuse(socket, port, has_tls);
        }
        self.context.spare = rustix::io::fcntl_dupfd_cloexec(&self.context.epoll, 0).ok();
        is_refused && had_spare
    }

    /// Sends the refusal to a peer and ends the connection.
    #[cold]
    fn refuse(&mut self, socket: OwnedFd, port: u16, has_tls: bool) {
        let mut text = self.application.refused(port);
        debug!(port, "refused: no descriptor is left");
        if has_tls {
            // There are no keys yet with which it could be told anything.
            text.clear();
        }
        // A new socket can buffer a line; a peer that has already left needs none.
        let _ = rustix::net::send(&socket, &text, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        let _ = rustix::net::shutdown(&socket, Shutdown::Write);
        // With unread input the kernel would reset the connection, and the text would be lost.
        let mut rest = [0; 1024];
        let _ = rustix::net::recv(&socket, &mut rest[..], RecvFlags::DONTWAIT);
    }

    fn deal(
        &mut self,
        socket: OwnedFd,
        address: Option<SocketAddrAny>,
        port: u16,
        tls: Option<TlsAcceptor>,
    ) {
        if socket.as_raw_fd() as u64 >= self.context.descriptors_max {
            return self.refuse(socket, port, tls.is_some());
        }
        let lanes = self.context.bells.len();
        let peer = match address.and_then(|address| address.try_into().ok()) {
            Some(address) => {
                let _ = set_tcp_options(&socket);
                Peer::Tcp(address)
            }
            None => Peer::Local,
        };
        let lane = self.context.next_lane % lanes;
        self.context.next_lane = lane + 1;
        if lane == self.context.lane {
            self.adopt(socket, port, &peer, tls.as_ref());
        } else {
            let signal = Signal::Adopt {
                socket,
                port,
                peer,
                tls,
            };
            self.context.bells[lane].signal(signal);
        }
    }

    pub(crate) fn adopt(
        &mut self,
        socket: OwnedFd,
        port: u16,
        peer: &Peer,
        tls: Option<&TlsAcceptor>,
    ) {
        if let Some(tls) = tls {
            return self.adopt_secure(socket, port, peer, tls);
        }
        let mut connection = Connection::new(socket, port, false);
        connection.fresh = Some(peer.clone());
        match self.context.insert(connection) {
            Ok(id) => self.application.accepted(self.context, id, port, peer),
            Err(error) => warn!(%peer, %error, "cannot watch a connection"),
        }
    }

    /// Handles the signals from other lanes.
    pub(crate) fn handle_signals(&mut self, signals: Vec<Signal>) {
        for signal in signals {
            match signal {
                Signal::Adopt {
                    socket,
                    port,
                    peer,
                    tls,
                } => self.adopt(socket, port, &peer, tls.as_ref()),
                Signal::Shaken(shaken) => self.take_shaken(*shaken),
                Signal::Stop => self.context.stopping = true,
            }
        }
    }

    fn finish_connect(&mut self, id: ConnectionId) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        let port = connection.port;
        let error = match sockopt::socket_error(&connection.socket) {
            Ok(Ok(())) => {
                connection.connecting = false;
                if connection.secure.is_some() {
                    return self.greet(id);
                }
                self.context.update_watch(id);
                return self.application.connected(self.context, id, port);
            }
            Ok(Err(error)) | Err(error) => error.kind(),
        };
        self.context.close(id, CloseReason::ConnectFailed(error));
    }

    /// Makes one receive call, then calls the application, and keeps unconsumed input.
    fn read(&mut self, id: ConnectionId) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        if connection.secure.is_some() {
            return self.read_secure(id, true);
        }
        let fresh = connection.fresh.take();
        let received = if connection.input.is_empty() {
            let socket = connection.socket.as_fd();
            rustix::net::recv(socket, &mut self.scratch[..], RecvFlags::empty()).map(|read| read.0)
        } else {
            // A big request: read more per call as it grows, so that it is complete after few
            // turns.
            let expected = std::mem::take(&mut connection.expected);
            make_room(&mut connection.input, expected);
            let spare = rustix::buffer::spare_capacity(&mut connection.input);
            let socket = connection.socket.as_fd();
            rustix::net::recv(socket, spare, RecvFlags::empty()).map(|read| read.0)
        };
        match received {
            Ok(0) => self.context.close_after_flush(id, CloseReason::PeerClosed),
            Ok(count) => {
                let counters = &self.context.counters;
                counters.reads.fetch_add(1, Ordering::Relaxed);
                counters
                    .read_bytes
                    .fetch_add(count as u64, Ordering::Relaxed);
                if let Some(peer) = fresh
                    && is_greeting(&self.scratch[..count])
                {
                    return self.refuse_tls(id, &peer);
                }
                self.context.read_clock_of_long_turn();
                self.deliver(id, count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.context.close(id, CloseReason::Broken),
        }
    }

    /// Makes one receive call for a paused connection.
    fn read_ahead(&mut self, id: ConnectionId) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        if connection.secure.is_some() {
            return self.read_secure(id, false);
        }
        make_room(&mut connection.input, 0);
        let spare = rustix::buffer::spare_capacity(&mut connection.input);
        let received = rustix::net::recv(connection.socket.as_fd(), spare, RecvFlags::empty());
        match received.map(|read| read.0) {
            // The peer sends no more. This is detected again once the connection is not paused.
            Ok(0) => connection.ahead_bytes_max = 0,
            Ok(count) => {
                let counters = &self.context.counters;
                counters.reads.fetch_add(1, Ordering::Relaxed);
                let bytes = &counters.read_bytes;
                bytes.fetch_add(count as u64, Ordering::Relaxed);
                self.application.buffered(self.context, id);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return self.context.close(id, CloseReason::Broken),
        }
        self.context.update_watch(id);
    }

    /// Makes one receive call for a connection with TLS, decrypts what has come, and calls the
    /// application or, if it takes nothing now, keeps it.
    #[inline(never)]
    fn read_secure(&mut self, id: ConnectionId, delivers: bool) {
        let Context {
            connections,
            cipher,
            counters,
            ..
        } = &mut *self.context;
        let slot = connections.get_mut(id.index());
        let slot = slot.filter(|slot| slot.generation == id.generation);
        let connection = slot.and_then(|slot| slot.connection.as_mut());
        let Some(connection) = connection else { return };
        let Some(secure) = &mut connection.secure else {
            return;
        };
        if cipher.len() < READ_BYTES {
            cipher.resize(READ_BYTES, 0);
        }
        // What is decrypted has room in the scratch buffer, with the beginning that came before.
        let room = READ_BYTES - secure.incoming_bytes().min(READ_BYTES / 2);
        let socket = connection.socket.as_fd();
        let received = rustix::net::recv(socket, &mut cipher[..room], RecvFlags::empty());
        let count = match received.map(|read| read.0) {
            Ok(0) if !delivers => {
                // It is detected again once the connection is not paused.
                connection.ahead_bytes_max = 0;
                return self.context.update_watch(id);
            }
            Ok(0) if secure.is_ended() => {
                return self.context.close_after_flush(id, CloseReason::PeerClosed);
            }
            // The stream may have been cut off by a third party.
            Ok(0) => return self.context.close(id, CloseReason::Broken),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => return self.context.close(id, CloseReason::Broken),
        };
        counters.reads.fetch_add(1, Ordering::Relaxed);
        let read_bytes = &counters.read_bytes;
        read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        let keeps = !delivers || !connection.input.is_empty();
        if keeps {
            make_room(
                &mut connection.input,
                std::mem::take(&mut connection.expected),
            );
        }
        let (input, scratch) = (&mut connection.input, &mut *self.scratch);
        let mut fresh = 0;
        let mut take = |text: &[u8]| match keeps {
            true => input.extend_from_slice(text),
            false => {
                scratch[fresh..][..text.len()].copy_from_slice(text);
                fresh += text.len();
            }
        };
        let decrypted = secure.receive(&mut cipher[..count], &mut take);
        let has_input = fresh > 0 || keeps && !connection.input.is_empty();
        if secure.outgoing_bytes() > 0 && !connection.dirty {
            connection.dirty = true;
            self.context.dirty.push(id);
        }
        self.context.read_clock_of_long_turn();
        if has_input && delivers {
            self.deliver(id, fresh);
        } else if has_input {
            self.application.buffered(self.context, id);
            self.context.update_watch(id);
        }
        match decrypted {
            Ok(()) => self.end_if_ended(id),
            Err(error) => {
                debug!(%error, "a TLS connection is broken");
                self.context.note_tls_failure(id, &error);
                self.context.close(id, CloseReason::Broken);
            }
        }
    }

    /// Closes a connection whose peer has said that no more comes, once its input is taken.
    fn end_if_ended(&mut self, id: ConnectionId) {
        let has_ended = |connection: &Connection| {
            let secure = connection.secure.as_ref();
            connection.is_reading() && secure.is_some_and(|secure| secure.is_ended())
        };
        if self.context.connection(id).is_some_and(has_ended) {
            self.context.close_after_flush(id, CloseReason::PeerClosed);
        }
    }

    /// Passes kept input to the application, if it takes any.
    pub(crate) fn deliver_input(&mut self, id: ConnectionId) {
        let connection = self.context.connection(id);
        if connection.is_some_and(|c| c.is_reading() && !c.input.is_empty()) {
            self.deliver(id, 0);
        }
        self.end_if_ended(id);
    }

    /// Passes input to the application: `fresh` bytes of the scratch buffer, or the kept input.
    pub(crate) fn deliver(&mut self, id: ConnectionId, fresh: usize) {
        let served = std::mem::replace(&mut self.context.serving, id);
        self.deliver_served(id, fresh);
        self.context.serving = served;
    }

    fn deliver_served(&mut self, id: ConnectionId, fresh: usize) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        let mut keeps = !connection.input.is_empty();
        if connection.input.is_empty() {
            let input = &self.scratch[..fresh];
            let consumed = self
                .application
                .received(self.context, id, input)
                .min(fresh);
            if consumed < fresh {
                keeps = true;
                let mut kept = self.context.spares.pop().unwrap_or_default();
                kept.extend_from_slice(&self.scratch[consumed..fresh]);
                if let Some(connection) = self.context.connection_mut(id) {
                    connection.input = kept;
                }
            }
        } else {
            let mut input = std::mem::take(&mut connection.input);
            let consumed = self.application.received(self.context, id, &input);
            if let Some(connection) = self.context.connection_mut(id) {
                if consumed < input.len() {
                    input.drain(..consumed);
                    if input.capacity() > READ_BYTES_MAX && input.len() < input.capacity() / 4 {
                        // A big request is complete; later input needs less room.
                        input.shrink_to(READ_BYTES);
                    }
                    connection.input = input;
                } else {
                    self.context.recycle(input);
                }
            }
        }
        if keeps {
            self.application.buffered(self.context, id);
        }
        self.context.update_watch(id);
    }
}

impl Context {
    /// Takes a turn within a turn, for an application that is inside a long call and must serve
    /// other connections meanwhile. `application` stands for the lane's own.
    ///
    /// Reads the input of the connections that `wanted` selects, accepts new connections, and
    /// sends output. Mail, timers and the ends of connections wait for the outer turn. The
    /// connection of the long call must be held. Returns whether the lane was told to stop.
    pub fn turn_within<A: Application>(
        &mut self,
        application: &mut A,
        wanted: impl Fn(&A, ConnectionId) -> bool,
    ) -> bool {
        let began_ns = &self.counters.turn_began_ns;
        began_ns.store(monotonic_ns(), Ordering::Relaxed);
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_A_TURN];
        let events = readiness::look(&self.epoll, &mut space).unwrap_or_default();
        let mut scratch = vec![0; if events.is_empty() { 0 } else { READ_BYTES }];
        let signals = self.bells[self.lane].take_signals();
        let mut traffic = Traffic {
            context: self,
            application,
            scratch: &mut scratch,
        };
        traffic.handle_signals(signals);
        for event in events {
            let token = event.data.u64();
            let other = token >= TOKEN_LISTENERS || token == TOKEN_MAILBOX;
            let id = ConnectionId::from_token(token);
            if other || wanted(traffic.application, id) || traffic.context.is_handshaking(id) {
                traffic.dispatch(event);
            }
        }
        traffic.flush_all();
        traffic.shake_hands();
        traffic.pass_opened();
        self.stopping
    }
}

impl Context {
    fn is_handshaking(&self, id: ConnectionId) -> bool {
        self.connection(id)
            .is_some_and(|connection| connection.handshaking)
    }
}

/// Makes room for the next receive call after the beginning of a request. `expected` is the
/// number of further bytes of the request, if known.
///
/// The room is a few times the size received so far, and ends where the request ends. Unwritten
/// room is address space, not memory, so a claimed length costs nothing. Each move leaves a
/// buffer that the allocator may keep for a while, so there are few moves.
fn make_room(input: &mut Vec<u8>, expected: usize) {
    let length = input.len();
    let wanted = length.clamp(READ_BYTES, READ_BYTES_MAX);
    let spare = input.capacity() - length;
    if expected == 0 {
        input.reserve(wanted);
    } else if spare < wanted.min(expected) {
        let room = if expected <= 2 * wanted {
            expected
        } else {
            expected.min(AHEAD * length.max(wanted))
        };
        input.reserve_exact(room);
    }
}

/// Sets options: small replies are sent at once, and a dead peer is detected without output.
fn set_tcp_options(socket: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_IDLE / KEEPALIVE_PROBES)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)
}

/// Connection tokens have a generation from 1 in the upper half. So 0 is free for the mailbox,
/// and generations near the maximum are never reached.
pub(crate) const TOKEN_MAILBOX: u64 = 0;
pub(crate) const TOKEN_LISTENERS: u64 = u64::MAX - 0xFFFF;
/// Maximum events per turn.
pub(crate) const EVENTS_A_TURN: usize = 256;
/// Maximum connections accepted per turn, so that a burst does not starve existing ones.
const ACCEPTS_A_TURN: usize = 64;
/// Bytes of one receive call.
pub(crate) const READ_BYTES: usize = 64 * 1024;
/// Bytes of one receive call within a big request.
const READ_BYTES_MAX: usize = 1024 * 1024;
/// Room for the rest of a request, as a multiple of the size received so far.
const AHEAD: usize = 31;
/// Pause after the descriptor table was full.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
/// Idle time after which the kernel probes a peer, as in Redis's `tcp-keepalive`.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
/// Unanswered probes that end a connection, spread over the same time again.
const KEEPALIVE_PROBES: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_follows_what_has_come_and_ends_with_the_request() {
        let total = 64 << 20;
        let mut input = vec![0; 100];
        let mut grown = 0;
        while input.len() < total {
            let before = input.capacity();
            let expected = total - input.len();
            make_room(&mut input, expected);
            grown += usize::from(input.capacity() != before);
            assert!(input.capacity() <= total.min((AHEAD + 1) * input.len().max(2 * READ_BYTES)));
            let received = (input.capacity() - input.len()).min(300_000);
            assert!(received > 0);
            input.resize(input.len() + received, 0);
        }
        assert!(grown < 5, "it was moved {grown} times");
    }
}
