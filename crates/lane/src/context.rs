//! The application's view of its lane.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::RecvFlags;
use tidewire_tls::{Client, PeerNames};

use crate::application::CloseReason;
use crate::clock::{monotonic_ns, unix_ns};
use crate::connection::{Closing, Connection, ConnectionId, Peer};
use crate::endpoint::{Listener, begin_connection};
use crate::handshakes::Handshakes;
use crate::leaving::Leaving;
use crate::mailbox::Bell;
use crate::network::{SimulatedNetwork, stream_pair};
use crate::outbox::{Gate, Outbox};
use crate::secure::Secure;
use crate::sender::Sender;
use crate::traffic::TOKEN_LISTENERS;

/// A lane as its application sees it: connections and clock.
#[derive(Debug)]
pub struct Context {
    pub(crate) lane: usize,
    /// The bells of all lanes, by number.
    pub(crate) bells: Arc<[Arc<Bell>]>,
    pub(crate) epoll: OwnedFd,
    pub(crate) connections: Vec<Slot>,
    pub(crate) free: Vec<u32>,
    /// The connection whose input the application is processing.
    pub(crate) serving: ConnectionId,
    /// Outboxes to send at the end of this turn: replies, and output of closing connections.
    pub(crate) dirty: Vec<ConnectionId>,
    /// Outboxes filled by connections other than their own: sent in parts, oldest first.
    pub(crate) deliveries: VecDeque<ConnectionId>,
    /// Number of these outboxes to send per turn, until none is left.
    pub(crate) deliveries_a_turn: usize,
    /// Decides how the outboxes of a turn are sent.
    pub(crate) sender: Sender,
    /// Closing connections.
    pub(crate) closing: Vec<ConnectionId>,
    /// Sockets of ended connections whose peers may not have read the last output.
    pub(crate) leaving: Leaving,
    /// Drained connections whose application must be notified.
    pub(crate) drained: Vec<ConnectionId>,
    /// Connections released from a hold; input received meanwhile is passed on next.
    pub(crate) released: Vec<ConnectionId>,
    /// Connections with held-back output.
    pub(crate) holding: Vec<ConnectionId>,
    /// The number until which all output of this turn is held back.
    pub(crate) holds_turn: Option<u64>,
    pub(crate) spares: Vec<Vec<u8>>,
    /// Ciphertext as it is received, and as it is sent. Unused without connections with TLS.
    pub(crate) cipher: Vec<u8>,
    pub(crate) cipher_out: Vec<u8>,
    /// TLS handshakes under way.
    pub(crate) handshakes: Handshakes,
    /// Why TLS has failed on the outgoing connection that ends now.
    pub(crate) failure: Option<String>,
    pub(crate) now_ns: u64,
    pub(crate) unix_ns: u64,
    pub(crate) counters: Arc<LaneCounters>,
    /// Only the first lane listens; it distributes the connections to all lanes.
    pub(crate) listeners: Vec<Listener>,
    pub(crate) next_lane: usize,
    /// A connection whose descriptor has this number or a higher one is refused.
    pub(crate) descriptors_max: u64,
    /// Closed temporarily to accept and refuse a connection when no descriptor is left. Only the
    /// first lane has it.
    pub(crate) spare: Option<OwnedFd>,
    /// Earliest time to accept again after the descriptor table was full.
    pub(crate) accept_again_ns: Option<u64>,
    /// The connection whose work is completed even if the connection ends before.
    pub(crate) working: Option<ConnectionId>,
    /// Output written after that connection's end; it is discarded.
    pub(crate) scrap: Outbox,
    pub(crate) stopping: bool,
    /// The network for outgoing connections; `None` for the system's network.
    pub(crate) network: Option<Arc<SimulatedNetwork>>,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) generation: u32,
    pub(crate) connection: Option<Connection>,
}

/// Counters of a lane since its start. Only the lane writes them; any thread reads them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct LaneCounters {
    /// Turns of the event loop.
    pub turns: AtomicU64,
    /// Nanoseconds spent outside the wait for events.
    pub busy_ns: AtomicU64,
    /// The longest turn without its wait, in nanoseconds.
    pub busy_ns_max: AtomicU64,
    /// When the current turn began or last served other connections from within, in monotonic
    /// nanoseconds; 0 while the lane waits for events.
    pub turn_began_ns: AtomicU64,
    /// Receive calls that returned bytes.
    pub reads: AtomicU64,
    /// Bytes received.
    pub read_bytes: AtomicU64,
    /// Send calls.
    pub writes: AtomicU64,
    /// Bytes sent.
    pub written_bytes: AtomicU64,
    /// Whether the sends of a turn share one io_uring call, because that was measured to be
    /// cheaper.
    pub sends_by_ring: AtomicBool,
    /// Nanoseconds per send in the last trial of single calls; 0 before the first.
    pub send_ns: AtomicU64,
    /// Nanoseconds per send in the last trial of an io_uring batch; 0 before the first.
    pub ring_send_ns: AtomicU64,
    /// Connections open now.
    pub connections: AtomicU64,
    /// Connections accepted or adopted since the start.
    pub accepted: AtomicU64,
    /// TLS handshakes of accepted connections that were completed since the start.
    pub tls_handshakes: AtomicU64,
    /// Those of them that resumed an earlier session.
    pub tls_resumed: AtomicU64,
    /// TLS handshakes that failed, and peers that spoke TLS to a port without it.
    pub tls_failed: AtomicU64,
}

impl Context {
    /// Returns this lane's number, from 0.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Returns the monotonic time of this turn in nanoseconds.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the wall-clock time of this turn, nanoseconds since the UNIX epoch.
    #[inline]
    pub fn unix_ns(&self) -> u64 {
        self.unix_ns
    }

    /// Returns the lane's counters.
    pub fn counters(&self) -> &Arc<LaneCounters> {
        &self.counters
    }

    /// Returns the outbox of a connection; `None` if the connection has ended or is ending,
    /// unless it is the one of [`work_for`](Self::work_for).
    #[inline]
    pub fn out(&mut self, id: ConnectionId) -> Option<&mut Outbox> {
        let is_open = |connection: &Connection| connection.closing == Closing::No;
        if !self.connection(id).is_some_and(is_open) {
            return self.scrap_of(id);
        }
        let connection = self.connections[id.index()].connection.as_mut()?;
        if !connection.dirty {
            if id == self.serving {
                connection.dirty = true;
                self.dirty.push(id);
            } else if !connection.queued {
                connection.queued = true;
                self.deliveries.push_back(id);
            }
        }
        connection.outbox.adopt_spare(&mut self.spares);
        Some(&mut connection.outbox)
    }

    /// Returns the outbox that discards the output of an ended connection with unfinished work.
    #[cold]
    fn scrap_of(&mut self, id: ConnectionId) -> Option<&mut Outbox> {
        match self.working == Some(id) {
            true => Some(&mut self.scrap),
            false => None,
        }
    }

    /// Starts work that must be completed: until the next call, `out` returns an outbox for the
    /// connection even if it ends, and output written after its end is discarded. Returns the
    /// previous connection, which must be set again when the work is done.
    #[must_use = "what was set before must be set again"]
    pub fn work_for(&mut self, id: Option<ConnectionId>) -> Option<ConnectionId> {
        self.clear_scrap();
        std::mem::replace(&mut self.working, id)
    }

    /// Discards the output written to the [`work_for`](Self::work_for) connection after its end.
    pub fn clear_scrap(&mut self) {
        if !self.scrap.is_empty() {
            self.scrap.clear();
        }
    }

    /// Returns the bytes waiting to be sent to a peer; 0 for a connection that has ended.
    #[inline]
    pub fn out_bytes(&self, id: ConnectionId) -> usize {
        self.connection(id).map_or(0, Connection::unsent_bytes)
    }

    /// Returns the memory in bytes of the output waiting for a peer; 0 for a connection that has
    /// ended.
    pub fn out_memory_bytes(&self, id: ConnectionId) -> usize {
        self.connection(id)
            .map_or(0, |connection| connection.outbox.memory_bytes())
    }

    /// Returns the bytes received from a peer and not consumed yet.
    pub fn input_bytes(&self, id: ConnectionId) -> usize {
        self.connection(id)
            .map_or(0, |connection| connection.input.len())
    }

    /// Returns whether the kernel has unread input of a peer, with one system call. A busy lane
    /// uses it before it treats a peer as silent.
    pub fn has_unread(&self, id: ConnectionId) -> bool {
        let waiting = |connection: &Connection| {
            !connection.connecting
                && rustix::io::ioctl_fionread(&connection.socket).is_ok_and(|bytes| bytes > 0)
        };
        self.connection(id).is_some_and(waiting)
    }

    /// Sets the number of further bytes that the current request needs. Its buffer then grows up
    /// to that size, as the bytes arrive and not ahead of them.
    pub fn expect(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connection_mut(id) {
            connection.expected = bytes;
        }
    }

    /// Takes no more input from a peer until its outbox has drained.
    pub fn pause(&mut self, id: ConnectionId) {
        self.pause_reading_ahead(id, 0);
    }

    /// Like [`pause`](Self::pause), but receives up to `bytes_max` bytes of input meanwhile. A
    /// peer that writes all its requests before it reads a reply would otherwise block forever.
    pub fn pause_reading_ahead(&mut self, id: ConnectionId, bytes_max: usize) {
        if let Some(connection) = self.connection_mut(id) {
            connection.paused = true;
            connection.ahead_bytes_max = bytes_max;
            connection.wants_drained = true;
        }
    }

    /// Ends [`pause`](Self::pause) before the outbox has drained. The unconsumed input is passed
    /// again in this turn or the next.
    pub fn resume(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id)
            && std::mem::take(&mut connection.paused)
        {
            self.released.push(id);
            self.update_watch(id);
        }
    }

    /// Takes no more input from a peer until [`release`](Self::release). If the peer leaves
    /// meanwhile, the connection ends.
    pub fn hold(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.held = true;
            self.update_watch(id);
        }
    }

    /// Like [`hold`](Self::hold), but the connection stays even if the peer leaves. The input it
    /// sent is read after [`release`](Self::release).
    pub fn set_aside(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.held = true;
            connection.set_aside = true;
            self.update_watch(id);
        }
    }

    /// Removes a connection from epoll, which would report its end again and again.
    pub(crate) fn unwatch(&mut self, id: ConnectionId) {
        let Self {
            connections, epoll, ..
        } = self;
        let slot = connections.get_mut(id.index());
        if let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) {
            connection.unwatched = epoll::delete(epoll.as_fd(), &connection.socket).is_ok();
        }
    }

    /// Ends [`hold`](Self::hold) and [`set_aside`](Self::set_aside). The unconsumed input is
    /// passed again in this turn or the next.
    pub fn release(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id)
            && std::mem::take(&mut connection.held)
        {
            connection.set_aside = false;
            self.released.push(id);
            self.update_watch(id);
        }
    }

    /// Holds back the output written to a peer so far, until [`let_leave`](Self::let_leave) of
    /// that gate with this number or a greater one. Later output does not overtake it.
    pub fn hold_back(&mut self, id: ConnectionId, gate: Gate, until: u64) {
        self.hold_with(id, |outbox| outbox.hold(gate, until));
    }

    /// Does the same as a part of [`hold_turn`](Self::hold_turn).
    pub(crate) fn hold_back_with_turn(&mut self, id: ConnectionId, until: u64) {
        self.hold_with(id, |outbox| outbox.hold_of_turn(until));
    }

    fn hold_with(&mut self, id: ConnectionId, hold: impl FnOnce(&mut Outbox)) {
        let connection = self.connections.get_mut(id.index());
        let connection = connection.filter(|slot| slot.generation == id.generation);
        let Some(connection) = connection.and_then(|slot| slot.connection.as_mut()) else {
            return;
        };
        let was_holding = connection.outbox.is_holding();
        hold(&mut connection.outbox);
        if !was_holding && connection.outbox.is_holding() {
            self.holding.push(id);
        }
    }

    /// Holds back all output of this turn at the log's gate, until [`let_leave`](Self::let_leave)
    /// with this number, or [`let_turns_leave`](Self::let_turns_leave).
    pub fn hold_turn(&mut self, until: u64) {
        self.holds_turn = Some(until);
    }

    /// Returns whether any output is held back.
    pub fn is_holding(&self) -> bool {
        !self.holding.is_empty()
    }

    /// Returns whether a part of a peer's output is held back.
    pub fn holds_back(&self, id: ConnectionId) -> bool {
        self.connection(id)
            .is_some_and(|connection| connection.outbox.is_holding())
    }

    /// Releases the output held back at a gate until `until` or a lower number.
    pub fn let_leave(&mut self, gate: Gate, until: u64) {
        self.release_held(|outbox| outbox.release(gate, until));
    }

    /// Releases output that is held back only as a part of its turn. Output held back by
    /// [`hold_back`](Self::hold_back), and everything after it on the same connection, stays.
    pub fn let_turns_leave(&mut self) {
        self.release_held(Outbox::release_turns);
    }

    /// Discards all output that is held back at a gate until `least` or a greater number, and
    /// everything after it on the same connections. Each of them gets `last_words` in its place,
    /// and is closed.
    pub fn cut_held(&mut self, gate: Gate, least: u64, last_words: &[u8]) {
        let mut holding = std::mem::take(&mut self.holding);
        holding.retain(|&id| {
            let Some(connection) = self.connection_mut(id) else {
                return false;
            };
            if !connection.outbox.discard_held(gate, least) {
                return true;
            }
            connection.outbox.buffer().extend_from_slice(last_words);
            let still_holds = connection.outbox.is_holding();
            if !std::mem::replace(&mut connection.dirty, true) {
                self.dirty.push(id);
            }
            self.close_after_flush(id, CloseReason::Requested);
            still_holds
        });
        self.holding.extend(holding);
    }

    fn release_held(&mut self, release: impl Fn(&mut Outbox)) {
        let mut holding = std::mem::take(&mut self.holding);
        holding.retain(|&id| {
            let Some(connection) = self.connection_mut(id) else {
                return false;
            };
            release(&mut connection.outbox);
            let is_dirty = connection.dirty || !connection.outbox.may_leave();
            connection.dirty |= !is_dirty;
            let still_holds = connection.outbox.is_holding();
            if !is_dirty {
                self.dirty.push(id);
            }
            still_holds
        });
        self.holding = holding;
    }

    /// Requests [`crate::Application::drained`] when the outbox has drained.
    pub fn watch_drain(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.wants_drained = true;
        }
    }

    /// Closes a connection at the end of this turn, after one attempt to send its output.
    pub fn close(&mut self, id: ConnectionId, reason: CloseReason) {
        let now = Closing::Now(reason);
        self.begin_close(id, now);
    }

    /// Closes a connection at the end of this turn and discards its unsent output.
    pub fn cut_off(&mut self, id: ConnectionId, reason: CloseReason) {
        if let Some(connection) = self.connection_mut(id) {
            connection.outbox.clear();
            if let Some(secure) = &mut connection.secure {
                secure.discard_outgoing();
            }
            self.close(id, reason);
        }
    }

    /// Returns whether a connection has ended or ends with this turn.
    pub fn is_ending(&self, id: ConnectionId) -> bool {
        let connection = self.connection(id);
        connection.is_none_or(|connection| matches!(connection.closing, Closing::Now(_)))
    }

    /// Closes a connection when all output has been sent, or after 5 seconds. What the peer sends
    /// meanwhile, and for up to 10 seconds after that, is dropped: it does not reset the connection
    /// before the peer has received the output.
    pub fn close_after_flush(&mut self, id: ConnectionId, reason: CloseReason) {
        let deadline_ns = self.now_ns + CLOSE_LINGER_NS;
        self.begin_close(
            id,
            Closing::Flushing {
                reason,
                deadline_ns,
            },
        );
    }

    /// Begins an outgoing TCP connection. [`crate::Application::connected`] or `closed` follows.
    pub fn connect(&mut self, address: SocketAddr, port: u16) -> std::io::Result<ConnectionId> {
        let socket = match &self.network {
            None => begin_connection(&address)?,
            Some(network) => network.dial(address)?,
        };
        Ok(self.insert(Connection::new(socket, port, true))?)
    }

    /// Begins an outgoing connection with TLS to the server `host`, whose certificate must be for
    /// that name. [`crate::Application::connected`] follows once its certificate is accepted, or
    /// `closed`.
    ///
    /// # Errors
    /// The system's, or `host` is neither a DNS name nor an IP address.
    pub fn connect_secure(
        &mut self,
        address: SocketAddr,
        port: u16,
        client: &Client,
        host: &str,
    ) -> std::io::Result<ConnectionId> {
        let peer = Peer::Tcp(address);
        let secure = Secure::connect(client, host, peer).map_err(std::io::Error::other)?;
        let socket = match &self.network {
            None => begin_connection(&address)?,
            Some(network) => network.dial(address)?,
        };
        let mut connection = Connection::new(socket, port, true);
        connection.secure = Some(Box::new(secure));
        Ok(self.insert(connection)?)
    }

    /// Makes two connections of this lane that are joined: what is written to one is received on
    /// the other. Both are open at once; neither [`crate::Application::accepted`] nor `connected`
    /// is called.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn pair(&mut self, ports: [u16; 2]) -> std::io::Result<[ConnectionId; 2]> {
        let (one, other) = stream_pair()?;
        let most = one.as_raw_fd().max(other.as_raw_fd()) as u64;
        if most >= self.descriptors_max {
            return Err(rustix::io::Errno::MFILE.into());
        }
        let one = self.insert(Connection::new(one, ports[0], false))?;
        match self.insert(Connection::new(other, ports[1], false)) {
            Ok(other) => Ok([one, other]),
            Err(error) => {
                self.remove(one);
                Err(error.into())
            }
        }
    }

    /// Returns why TLS has failed on the outgoing connection of which
    /// [`crate::Application::closed`] is told now.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the local address of a TCP connection.
    pub fn local_address(&self, id: ConnectionId) -> Option<SocketAddr> {
        let socket = &self.connection(id)?.socket;
        rustix::net::getsockname(socket).ok()?.try_into().ok()
    }

    /// Returns the names in the certificate of a connection's peer; `None` if the connection does
    /// not use TLS, or the peer has shown none.
    pub fn peer_names(&self, id: ConnectionId) -> Option<PeerNames> {
        self.connection(id)?.secure.as_ref()?.peer_names()
    }

    /// Returns whether a connection uses TLS.
    pub fn is_secure(&self, id: ConnectionId) -> bool {
        self.connection(id).is_some_and(|one| one.secure.is_some())
    }

    /// Removes the TCP listeners with this tag whose address is not in `kept`, and adds `added`.
    /// Only for the first lane, which listens.
    pub fn change_listeners(&mut self, tag: u16, kept: &[SocketAddr], added: Vec<Listener>) {
        for listener in &self.listeners {
            let _ = epoll::delete(&self.epoll, &listener.socket);
        }
        self.listeners.retain(|listener| {
            let address = listener.endpoint().tcp();
            listener.tag() != tag || address.is_none_or(|address| kept.contains(&address))
        });
        self.listeners.extend(added);
        for (number, listener) in self.listeners.iter().enumerate() {
            let token = EventData::new_u64(TOKEN_LISTENERS + number as u64);
            if let Err(error) = epoll::add(&self.epoll, &listener.socket, token, WATCH_READ) {
                tracing::warn!(%error, "cannot watch a listener");
            }
        }
    }

    pub(crate) fn watch_listeners(&self, flags: EventFlags) {
        for (number, listener) in self.listeners.iter().enumerate() {
            let token = EventData::new_u64(TOKEN_LISTENERS + number as u64);
            let _ = epoll::modify(&self.epoll, &listener.socket, token, flags);
        }
    }

    pub(crate) fn insert(
        &mut self,
        mut connection: Connection,
    ) -> rustix::io::Result<ConnectionId> {
        let index = match self.free.last() {
            Some(&index) => index,
            None => self.connections.len() as u32,
        };
        let generation = self
            .connections
            .get(index as usize)
            .map_or(1, |slot| slot.generation);
        let id = ConnectionId { index, generation };
        connection.watched = connection.wanted();
        let data = EventData::new_u64(id.to_token());
        epoll::add(&self.epoll, &connection.socket, data, connection.watched)?;
        if self.free.pop().is_some() {
            self.connections[index as usize].connection = Some(connection);
        } else {
            self.connections.push(Slot {
                generation,
                connection: Some(connection),
            });
        }
        self.counters.accepted.fetch_add(1, Ordering::Relaxed);
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        Ok(id)
    }

    /// Discards input that will not be read. Otherwise the kernel would reset the connection, and
    /// the last output would be lost.
    pub(crate) fn discard_input(&self, id: ConnectionId) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let mut chunk = [0; DISCARD_BYTES];
        for _ in 0..DISCARDS_MAX {
            let received = rustix::net::recv(&connection.socket, &mut chunk, RecvFlags::DONTWAIT);
            if received.map_or(0, |(count, _)| count) < chunk.len() {
                return;
            }
        }
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let slot = self.connections.get_mut(id.index())?;
        if slot.generation != id.generation {
            return None;
        }
        let connection = slot.connection.take()?;
        if connection.handshaking {
            self.handshakes.unfinished -= 1;
        }
        // Generation 0 is never used, so a token of 0 matches no connection.
        slot.generation = slot.generation.wrapping_add(1).max(1);
        self.free.push(id.index);
        let _ = epoll::delete(&self.epoll, &connection.socket);
        self.counters.connections.fetch_sub(1, Ordering::Relaxed);
        Some(connection)
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.connections.get(id.index())?;
        if slot.generation == id.generation {
            slot.connection.as_ref()
        } else {
            None
        }
    }

    pub(crate) fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = self.connections.get_mut(id.index())?;
        if slot.generation == id.generation {
            slot.connection.as_mut()
        } else {
            None
        }
    }

    /// Updates epoll's events if the connection's state requires others.
    pub(crate) fn update_watch(&mut self, id: ConnectionId) {
        let Self {
            connections, epoll, ..
        } = self;
        let Some(connection) = connections
            .get_mut(id.index())
            .filter(|slot| slot.generation == id.generation)
            .and_then(|slot| slot.connection.as_mut())
        else {
            return;
        };
        let wanted = connection.wanted();
        let data = EventData::new_u64(id.to_token());
        if connection.unwatched {
            if !connection.set_aside
                && epoll::add(epoll.as_fd(), &connection.socket, data, wanted).is_ok()
            {
                (connection.unwatched, connection.watched) = (false, wanted);
            }
        } else if wanted != connection.watched
            && epoll::modify(epoll.as_fd(), &connection.socket, data, wanted).is_ok()
        {
            connection.watched = wanted;
        }
    }

    /// Keeps an emptied buffer for the next connection that needs one.
    pub(crate) fn recycle(&mut self, mut spare: Vec<u8>) {
        let keep = spare.capacity() > 0 && spare.capacity() <= SPARE_BYTES_MAX;
        if keep && self.spares.len() < SPARES_MAX {
            spare.clear();
            self.spares.push(spare);
        }
    }

    /// Frees the buffers kept for future connections, because memory is short.
    pub fn free_spares(&mut self) {
        self.spares.clear();
    }

    pub(crate) fn read_clock(&mut self) {
        self.now_ns = monotonic_ns();
        self.unix_ns = unix_ns();
    }

    /// Reads the clock again if the turn has become long. Input that came during it must not seem
    /// as old as its beginning: the sender would count as silent in the next turn.
    pub(crate) fn read_clock_of_long_turn(&mut self) {
        if monotonic_ns() >= self.now_ns.saturating_add(LONG_TURN_NS) {
            self.read_clock();
        }
    }

    /// Lets a connection that must close now close when all output has been sent, or after 5
    /// seconds.
    pub(crate) fn linger(&mut self, id: ConnectionId, reason: CloseReason) {
        let deadline_ns = self.now_ns + CLOSE_LINGER_NS;
        if let Some(connection) = self.connection_mut(id) {
            connection.closing = Closing::Flushing {
                reason,
                deadline_ns,
            };
        }
    }

    fn begin_close(&mut self, id: ConnectionId, closing: Closing) {
        let Some(connection) = self.connection_mut(id) else {
            return;
        };
        let listed = connection.closing != Closing::No;
        if !matches!(connection.closing, Closing::Now(_)) {
            connection.closing = closing;
        }
        if !listed {
            // Its earlier output is sent at the end of this turn.
            if !connection.dirty {
                connection.dirty = true;
                self.dirty.push(id);
            }
            self.closing.push(id);
            // From now on it is not read: remaining input must not wake the lane.
            self.update_watch(id);
        }
    }
}

/// Length of a turn from which on the clock is read again for each input.
const LONG_TURN_NS: u64 = 100_000_000;
/// Maximum time for a peer to read the output of a closing connection.
const CLOSE_LINGER_NS: u64 = 5_000_000_000;

/// Limits for discarding the input of a closing connection: bytes per read, and reads.
const DISCARD_BYTES: usize = 4096;
const DISCARDS_MAX: usize = 64;

/// Larger buffers are freed when they become empty, so a big reply does not keep its memory.
const SPARE_BYTES_MAX: usize = 64 * 1024;
/// Maximum emptied buffers that a lane keeps for other connections.
const SPARES_MAX: usize = 128;

pub(crate) const WATCH_READ: EventFlags = EventFlags::IN;
