//! The application's view of its lane.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::RecvFlags;

use crate::application::CloseReason;
use crate::clock::{monotonic_ns, unix_ns};
use crate::connection::{Closing, Connection, ConnectionId};
use crate::endpoint::{Listener, begin_connection};
use crate::mailbox::Bell;
use crate::network::SimulatedNetwork;
use crate::outbox::{Gate, Outbox};
use crate::sender::Sender;
use crate::traffic::TOKEN_LISTENERS;

/// The lane as its application sees it: connections and clock.
#[derive(Debug)]
pub struct Context {
    pub(crate) lane: usize,
    /// Of all lanes, by number.
    pub(crate) bells: Arc<[Arc<Bell>]>,
    pub(crate) epoll: OwnedFd,
    pub(crate) connections: Vec<Slot>,
    pub(crate) free: Vec<u32>,
    /// The connection whose input the application is looking at.
    pub(crate) serving: ConnectionId,
    /// Outboxes that are sent at the end of this turn: answers, and last words.
    pub(crate) dirty: Vec<ConnectionId>,
    /// Outboxes that others than their own peers have filled: sent in parts, oldest first.
    pub(crate) deliveries: VecDeque<ConnectionId>,
    /// How many of them leave a turn, until none is left.
    pub(crate) deliveries_a_turn: usize,
    /// How the outboxes of a turn leave.
    pub(crate) sender: Sender,
    /// Connections on their way out.
    pub(crate) closing: Vec<ConnectionId>,
    /// Drained connections whose application waits to hear of it.
    pub(crate) drained: Vec<ConnectionId>,
    /// Connections that were held: what they have sent meanwhile waits to be given.
    pub(crate) released: Vec<ConnectionId>,
    /// Connections of whose outboxes a part is held back.
    pub(crate) holding: Vec<ConnectionId>,
    /// All that would leave in this turn is held back until this number.
    pub(crate) holds_turn: Option<u64>,
    pub(crate) spares: Vec<Vec<u8>>,
    pub(crate) now_ns: u64,
    pub(crate) unix_ns: u64,
    pub(crate) counters: Arc<LaneCounters>,
    /// Only the first lane listens; it deals the connections out to all.
    pub(crate) listeners: Vec<Listener>,
    pub(crate) next_lane: usize,
    /// Connections whose descriptor would be this one, or above it, are refused.
    pub(crate) descriptors_max: u64,
    /// Let go to accept and refuse a connection when no descriptor is left; only the first lane
    /// has it.
    pub(crate) spare: Option<OwnedFd>,
    /// The descriptor table was full: accept nothing before this time.
    pub(crate) accept_again_ns: Option<u64>,
    /// The connection whose work is carried out to its end, even if the connection ends before.
    pub(crate) working: Option<ConnectionId>,
    /// Output written after its end; it is discarded.
    pub(crate) scrap: Outbox,
    pub(crate) stopping: bool,
    /// Where outgoing connections arrive; `None`: in the system's network.
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
    /// Turns of the loop.
    pub turns: AtomicU64,
    /// Nanoseconds spent outside the wait for events.
    pub busy_ns: AtomicU64,
    /// The longest turn, without its wait, ns.
    pub busy_ns_max: AtomicU64,
    /// When the turn under way began, or last served others from within, monotonic ns; 0 while the
    /// lane waits for events.
    pub turn_began_ns: AtomicU64,
    /// Receive calls that brought bytes.
    pub reads: AtomicU64,
    /// Bytes received.
    pub read_bytes: AtomicU64,
    /// Send calls.
    pub writes: AtomicU64,
    /// Bytes sent.
    pub written_bytes: AtomicU64,
    /// Sends of a turn leave in one call, by io_uring: that was found to be cheaper.
    pub sends_by_ring: AtomicBool,
    /// What a send took in the last trial as a call of its own, ns; 0 before the first.
    pub send_ns: AtomicU64,
    /// What a send took in the last trial in a batch of io_uring, ns; 0 before the first.
    pub ring_send_ns: AtomicU64,
    /// Connections open now.
    pub connections: AtomicU64,
    /// Connections accepted or adopted since the start.
    pub accepted: AtomicU64,
}

impl Context {
    /// This lane's number, from 0.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Monotonic time of this turn, ns.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Wall-clock time of this turn, ns since the UNIX epoch.
    #[inline]
    pub fn unix_ns(&self) -> u64 {
        self.unix_ns
    }

    /// What this lane has done.
    pub fn counters(&self) -> &Arc<LaneCounters> {
        &self.counters
    }

    /// Where to write to a peer; `None` when the connection has ended or is ending, unless it is
    /// [worked for](Self::work_for).
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

    /// Where the last replies of work go whose connection has ended.
    #[cold]
    fn scrap_of(&mut self, id: ConnectionId) -> Option<&mut Outbox> {
        match self.working == Some(id) {
            true => Some(&mut self.scrap),
            false => None,
        }
    }

    /// Carries out work that must not end halfway: until this is called again, `out` is there for
    /// the connection even if it ends, and what is written to it then is dropped. Returns what was
    /// set before, to be set again when the work is done.
    #[must_use = "what was set before must be set again"]
    pub fn work_for(&mut self, id: Option<ConnectionId>) -> Option<ConnectionId> {
        self.clear_scrap();
        std::mem::replace(&mut self.working, id)
    }

    /// Drops what was written to the connection that is worked for after its end.
    pub fn clear_scrap(&mut self) {
        if !self.scrap.is_empty() {
            self.scrap.clear();
        }
    }

    /// Bytes that wait to be sent to a peer; 0 for a connection that has ended.
    #[inline]
    pub fn out_bytes(&self, id: ConnectionId) -> usize {
        self.connection(id)
            .map_or(0, |connection| connection.outbox.len())
    }

    /// Bytes of memory that what is to be sent to a peer takes; 0 for a connection that has ended.
    pub fn out_memory_bytes(&self, id: ConnectionId) -> usize {
        self.connection(id)
            .map_or(0, |connection| connection.outbox.memory_bytes())
    }

    /// Bytes received from a peer and not consumed yet.
    pub fn input_bytes(&self, id: ConnectionId) -> usize {
        self.connection(id)
            .map_or(0, |connection| connection.input.len())
    }

    /// Whether a peer has sent what was not received yet. For deciding that a peer is silent: a
    /// lane with much to do may only not have come to it. One call of the system.
    pub fn has_unread(&self, id: ConnectionId) -> bool {
        let waiting = |connection: &Connection| {
            !connection.connecting
                && rustix::io::ioctl_fionread(&connection.socket).is_ok_and(|bytes| bytes > 0)
        };
        self.connection(id).is_some_and(waiting)
    }

    /// Says how many more bytes the request that has begun needs, so that the room for it grows
    /// by no more than that; as the bytes come, and not ahead of them.
    pub fn expect(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connection_mut(id) {
            connection.expected = bytes;
        }
    }

    /// Takes no more input from a peer until its outbox has drained.
    pub fn pause(&mut self, id: ConnectionId) {
        self.pause_reading_ahead(id, 0);
    }

    /// As [`pause`](Self::pause), but up to `bytes_max` bytes of input are received meanwhile, for
    /// a peer that writes all its requests before it reads a reply would wait without end.
    pub fn pause_reading_ahead(&mut self, id: ConnectionId, bytes_max: usize) {
        if let Some(connection) = self.connection_mut(id) {
            connection.paused = true;
            connection.ahead_bytes_max = bytes_max;
            connection.wants_drained = true;
        }
    }

    /// Takes no more input from a peer until [`release`](Self::release); if the peer leaves
    /// meanwhile, the connection ends.
    pub fn hold(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.held = true;
            self.update_watch(id);
        }
    }

    /// As [`hold`](Self::hold), but the connection stays although the peer leaves: what it had
    /// sent is read after [`release`](Self::release).
    pub fn set_aside(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.held = true;
            connection.set_aside = true;
            self.update_watch(id);
        }
    }

    /// Takes a connection out of epoll's sight, which would tell of its end again and again.
    pub(crate) fn unwatch(&mut self, id: ConnectionId) {
        let Self {
            connections, epoll, ..
        } = self;
        let slot = connections.get_mut(id.index());
        if let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) {
            connection.unwatched = epoll::delete(epoll.as_fd(), &connection.socket).is_ok();
        }
    }

    /// Ends [`hold`](Self::hold) and [`set_aside`](Self::set_aside). What was left of the input is
    /// given again in this turn or the next.
    pub fn release(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id)
            && std::mem::take(&mut connection.held)
        {
            connection.set_aside = false;
            self.released.push(id);
            self.update_watch(id);
        }
    }

    /// Holds back what is written to a peer until now, until [`let_leave`](Self::let_leave) of that
    /// gate with this number or a greater one. What is written later does not overtake it.
    pub fn hold_back(&mut self, id: ConnectionId, gate: Gate, until: u64) {
        self.hold_with(id, |outbox| outbox.hold(gate, until));
    }

    /// The same as a part of [`hold_turn`](Self::hold_turn).
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

    /// Holds back all that would leave at the end of this turn at the log's gate, until
    /// [`let_leave`](Self::let_leave) with this number, or
    /// [`let_turns_leave`](Self::let_turns_leave).
    pub fn hold_turn(&mut self, until: u64) {
        self.holds_turn = Some(until);
    }

    /// Whether anything is held back.
    pub fn is_holding(&self) -> bool {
        !self.holding.is_empty()
    }

    /// Whether a part of what is written to a peer is held back.
    pub fn holds_back(&self, id: ConnectionId) -> bool {
        self.connection(id)
            .is_some_and(|connection| connection.outbox.is_holding())
    }

    /// Lets leave what was held back at a gate until a number, or less.
    pub fn let_leave(&mut self, gate: Gate, until: u64) {
        self.release_held(|outbox| outbox.release(gate, until));
    }

    /// Lets leave what is held back only because its whole turn is: of a connection that
    /// [`hold_back`](Self::hold_back) named, what it was named for stays, and what came behind it.
    pub fn let_turns_leave(&mut self) {
        self.release_held(Outbox::release_turns);
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

    /// Asks for [`crate::Application::drained`] when the outbox has drained.
    pub fn watch_drain(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.wants_drained = true;
        }
    }

    /// Ends a connection at the end of this turn, after one attempt to send what is written.
    pub fn close(&mut self, id: ConnectionId, reason: CloseReason) {
        let now = Closing::Now(reason);
        self.begin_close(id, now);
    }

    /// Ends a connection at the end of this turn; what was written and has not left is dropped.
    pub fn cut_off(&mut self, id: ConnectionId, reason: CloseReason) {
        if let Some(connection) = self.connection_mut(id) {
            connection.outbox.clear();
            self.close(id, reason);
        }
    }

    /// Whether a connection ends with this turn, or has ended.
    pub fn is_ending(&self, id: ConnectionId) -> bool {
        let connection = self.connection(id);
        connection.is_none_or(|connection| matches!(connection.closing, Closing::Now(_)))
    }

    /// Ends a connection when everything written has left, or after a few seconds.
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

    /// Our own address of a TCP connection.
    pub fn local_address(&self, id: ConnectionId) -> Option<SocketAddr> {
        let socket = &self.connection(id)?.socket;
        rustix::net::getsockname(socket).ok()?.try_into().ok()
    }

    /// Takes out the TCP listeners with a tag that listen at none of these addresses, and adds
    /// others. Of the first lane alone: it is the one that listens.
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

    /// Discards input that will not be read: otherwise the kernel would reset the connection, and
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
        // Generation 0 is never used, so that a token of 0 names no connection.
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

    /// Tells epoll what the connection's state asks for, if that has changed.
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

    /// Frees the buffers that are kept for connections to come: memory is short.
    pub fn free_spares(&mut self) {
        self.spares.clear();
    }

    pub(crate) fn read_clock(&mut self) {
        self.now_ns = monotonic_ns();
        self.unix_ns = unix_ns();
    }

    /// A connection that is to end at once ends when everything written has left, or in a few
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
            // Its earlier output leaves in the flush of this turn.
            if !connection.dirty {
                connection.dirty = true;
                self.dirty.push(id);
            }
            self.closing.push(id);
            // From now on it is not read from: input that stays must not wake the lane.
            self.update_watch(id);
        }
    }
}

/// How long a closing connection may take to read what was written to it.
const CLOSE_LINGER_NS: u64 = 5_000_000_000;

/// Input of a closing connection to discard: bytes per read, and most reads.
const DISCARD_BYTES: usize = 4096;
const DISCARDS_MAX: usize = 64;

/// Buffers larger than this are freed when they empty, so that one big reply does not stay.
const SPARE_BYTES_MAX: usize = 64 * 1024;
/// Emptied buffers that a lane keeps for its other connections.
const SPARES_MAX: usize = 128;

pub(crate) const WATCH_READ: EventFlags = EventFlags::IN;
