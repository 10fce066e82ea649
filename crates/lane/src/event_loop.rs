//! The loop of one lane.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketAddrAny, SocketFlags, sockopt};
use rustix::time::Timespec;
use tracing::{debug, warn};

use crate::application::{Application, CloseReason};
use crate::connection::{Closing, Connection, ConnectionId, Peer};
use crate::context::{Context, LaneCounters, WATCH_READ, monotonic_ns};
use crate::endpoint::Listener;
use crate::mailbox::{Envelope, Mailboxes};
use crate::outbox::{Flush, FlushCount};

/// One lane: an event loop, its connections and its application.
#[derive(Debug)]
pub struct Lane<A: Application> {
    context: Context<A::Mail>,
    application: A,
    /// Only the first lane listens; it deals the connections out to all.
    listeners: Vec<Listener>,
    next_lane: usize,
    connections_max: usize,
    /// The descriptor table was full: accept nothing before this time.
    accept_again_ns: Option<u64>,
    scratch: Vec<u8>,
    mail: Vec<Envelope<A::Mail>>,
    stopping: bool,
}

impl<A: Application> Lane<A> {
    pub(crate) fn new(
        lane: usize,
        mailboxes: Mailboxes<A::Mail>,
        listeners: Vec<Listener>,
        connections_max: usize,
        counters: Arc<LaneCounters>,
        application: A,
    ) -> rustix::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = mailboxes[lane].wake_descriptor();
        epoll::add(&epoll, wake, EventData::new_u64(TOKEN_MAILBOX), WATCH_READ)?;
        for (number, listener) in listeners.iter().enumerate() {
            let token = EventData::new_u64(TOKEN_LISTENERS + number as u64);
            epoll::add(&epoll, &listener.socket, token, WATCH_READ)?;
        }
        let mut context = Context {
            lane,
            mailboxes,
            epoll,
            connections: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            closing: Vec::new(),
            drained: Vec::new(),
            released: Vec::new(),
            spares: Vec::new(),
            now_ns: 0,
            unix_ns: 0,
            counters,
        };
        context.read_clock();
        Ok(Self {
            context,
            application,
            listeners,
            next_lane: 0,
            connections_max,
            accept_again_ns: None,
            scratch: vec![0; READ_BYTES],
            mail: Vec::new(),
            stopping: false,
        })
    }

    /// Runs until the lane's mailbox says stop; then every connection is told and closed.
    pub fn run(mut self) -> A {
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; EVENTS_A_TURN];
        let mut deadline_ns = self.application.turn(&mut self.context);
        self.flush();
        while !self.stopping {
            let ready = self.wait(&mut events, deadline_ns);
            self.context.read_clock();
            let started_ns = self.context.now_ns;
            self.take_mail(
                events[..ready]
                    .iter()
                    .any(|event| event.data.u64() == TOKEN_MAILBOX),
            );
            self.tell_drained();
            self.give_kept();
            for event in &events[..ready] {
                self.dispatch(event);
            }
            deadline_ns = self.application.turn(&mut self.context);
            self.flush();
            if self.finish_closing() {
                // What the application said or planned when it heard of it waits for a turn.
                deadline_ns = Some(0);
            }
            let counters = &self.context.counters;
            counters.turns.fetch_add(1, Ordering::Relaxed);
            counters
                .busy_ns
                .fetch_add(monotonic_ns() - started_ns, Ordering::Relaxed);
        }
        self.close_all();
        self.application
    }

    fn wait(&mut self, events: &mut [Event], deadline_ns: Option<u64>) -> usize {
        let mut deadline_ns = deadline_ns;
        let mut sooner = |time_ns: u64| {
            deadline_ns = Some(deadline_ns.map_or(time_ns, |other: u64| other.min(time_ns)));
        };
        if let Some(time_ns) = self.accept_again_ns {
            sooner(time_ns);
        }
        if !self.context.closing.is_empty() {
            sooner(self.context.now_ns + CLOSE_CHECK_NS);
        }
        if !self.context.drained.is_empty() || !self.context.released.is_empty() {
            sooner(0);
        }
        let timeout = deadline_ns.map(|time_ns| {
            let wait_ns = time_ns.saturating_sub(monotonic_ns());
            Timespec {
                tv_sec: (wait_ns / 1_000_000_000) as i64,
                tv_nsec: (wait_ns % 1_000_000_000) as i64,
            }
        });
        match epoll::wait(&self.context.epoll, events, timeout.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => {
                warn!(lane = self.context.lane, %error, "waiting for events failed");
                0
            }
        }
    }

    fn dispatch(&mut self, event: &Event) {
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
        let reading = connection.is_reading();
        let left = connection.held && flags.contains(EventFlags::RDHUP);
        if flags.contains(EventFlags::OUT) && connection.blocked {
            connection.blocked = false;
            if !connection.dirty {
                connection.dirty = true;
                self.context.dirty.push(id);
            }
        }
        if reading && flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.read(id);
        } else if left {
            self.context.close(id, CloseReason::PeerClosed);
        } else if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            // Nothing is read from it now, and it will never read what waits for it.
            self.context.close(id, CloseReason::Broken);
        }
    }

    fn accept(&mut self, number: usize) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        for _ in 0..ACCEPTS_A_TURN {
            let listener = &self.listeners[number];
            match rustix::net::acceptfrom_with(&listener.socket, flags) {
                Ok((socket, address)) => {
                    let port = listener.port;
                    self.deal(socket, address, port);
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    // Out of descriptors: those who wait are served once others have left.
                    warn!(%error, "cannot accept a connection");
                    self.watch_listeners(EventFlags::empty());
                    self.accept_again_ns = Some(self.context.now_ns + ACCEPT_PAUSE_NS);
                    return;
                }
            }
        }
    }

    fn deal(&mut self, socket: OwnedFd, address: Option<SocketAddrAny>, port: u16) {
        let lanes = self.context.mailboxes.len();
        let peer = match address.and_then(|address| address.try_into().ok()) {
            Some(address) => {
                let _ = set_tcp_options(&socket);
                Peer::Tcp(address)
            }
            None => Peer::Local,
        };
        let lane = self.next_lane % lanes;
        self.next_lane = lane + 1;
        if lane == self.context.lane {
            self.adopt(socket, port, &peer);
        } else {
            self.context.mailboxes[lane].post(Envelope::Adopt { socket, port, peer });
        }
    }

    fn adopt(&mut self, socket: OwnedFd, port: u16, peer: &Peer) {
        let open = self.context.connections.len() - self.context.free.len();
        if open >= self.connections_max {
            debug!(%peer, "refused: the lane has its maximum of connections");
            return;
        }
        match self.context.insert(Connection::new(socket, port, false)) {
            Ok(id) => self.application.accepted(&mut self.context, id, port, peer),
            Err(error) => warn!(%peer, %error, "cannot watch a connection"),
        }
    }

    fn finish_connect(&mut self, id: ConnectionId) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        let port = connection.port;
        match sockopt::socket_error(&connection.socket) {
            Ok(Ok(())) => {
                connection.connecting = false;
                self.context.update_watch(id);
                self.application.connected(&mut self.context, id, port);
            }
            _ => self.context.close(id, CloseReason::ConnectFailed),
        }
    }

    /// One receive call, then the application; what it leaves is kept.
    fn read(&mut self, id: ConnectionId) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        let received = if connection.input.is_empty() {
            let socket = connection.socket.as_fd();
            rustix::net::recv(socket, &mut self.scratch[..], RecvFlags::empty()).map(|read| read.0)
        } else {
            // A big request: read more at a time as it grows, so that its end comes in few turns.
            let room = connection.input.len().clamp(READ_BYTES, READ_BYTES_MAX);
            connection.input.reserve(room);
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
                self.deliver(id, count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.context.close(id, CloseReason::Broken),
        }
    }

    /// Gives the application its input: `fresh` bytes of the scratch buffer, or the kept input.
    fn deliver(&mut self, id: ConnectionId, fresh: usize) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        if connection.input.is_empty() {
            let input = &self.scratch[..fresh];
            let consumed = self
                .application
                .received(&mut self.context, id, input)
                .min(fresh);
            if consumed < fresh {
                let mut kept = self.context.spares.pop().unwrap_or_default();
                kept.extend_from_slice(&self.scratch[consumed..fresh]);
                if let Some(connection) = self.context.connection_mut(id) {
                    connection.input = kept;
                }
            }
        } else {
            let mut input = std::mem::take(&mut connection.input);
            let consumed = self.application.received(&mut self.context, id, &input);
            if let Some(connection) = self.context.connection_mut(id) {
                if consumed < input.len() {
                    input.drain(..consumed);
                    connection.input = input;
                } else {
                    self.context.recycle(input);
                }
            }
        }
        self.context.update_watch(id);
    }

    fn take_mail(&mut self, woken: bool) {
        let mut mail = std::mem::take(&mut self.mail);
        self.context.mailboxes[self.context.lane].take(woken, &mut mail);
        for envelope in mail.drain(..) {
            match envelope {
                Envelope::Adopt { socket, port, peer } => self.adopt(socket, port, &peer),
                Envelope::Mail(mail) => self.application.mail(&mut self.context, mail),
                Envelope::Stop => self.stopping = true,
            }
        }
        self.mail = mail;
        if self
            .accept_again_ns
            .is_some_and(|time_ns| time_ns <= self.context.now_ns)
        {
            self.accept_again_ns = None;
            self.watch_listeners(WATCH_READ);
        }
    }

    fn tell_drained(&mut self) {
        for id in std::mem::take(&mut self.context.drained) {
            let Some(connection) = self.context.connection_mut(id) else {
                continue;
            };
            connection.wants_drained = false;
            let resumed = std::mem::take(&mut connection.paused);
            self.application.drained(&mut self.context, id);
            if resumed {
                self.deliver_kept(id);
            }
            self.context.update_watch(id);
        }
    }

    /// Gives connections that were held what they had sent before.
    fn give_kept(&mut self) {
        for id in std::mem::take(&mut self.context.released) {
            self.deliver_kept(id);
            self.context.update_watch(id);
        }
    }

    fn deliver_kept(&mut self, id: ConnectionId) {
        let connection = self.context.connection(id);
        if connection.is_some_and(|c| c.is_reading() && !c.input.is_empty()) {
            self.deliver(id, 0);
        }
    }

    fn flush(&mut self) {
        let mut count = FlushCount::default();
        let mut dirty = std::mem::take(&mut self.context.dirty);
        for id in dirty.drain(..) {
            let Some(connection) = self.context.connection_mut(id) else {
                continue;
            };
            connection.dirty = false;
            if connection.blocked || connection.connecting {
                continue;
            }
            let flush = connection
                .outbox
                .flush(connection.socket.as_fd(), &mut count);
            connection.blocked = flush == Flush::Blocked;
            let drained = connection.wants_drained && connection.outbox.len() <= DRAINED_BYTES;
            connection.wants_drained &= !drained;
            match flush {
                Flush::Empty => {
                    let spare = connection.outbox.take_spare();
                    self.context.recycle(spare);
                }
                Flush::Broken => self.context.close(id, CloseReason::Broken),
                Flush::Blocked => {}
            }
            if drained {
                self.context.drained.push(id);
            }
            self.context.update_watch(id);
        }
        if self.context.dirty.is_empty() {
            self.context.dirty = dirty;
        }
        let counters = &self.context.counters;
        counters.writes.fetch_add(count.writes, Ordering::Relaxed);
        counters
            .written_bytes
            .fetch_add(count.bytes, Ordering::Relaxed);
    }

    /// Ends the connections whose time has come; whether there were any.
    fn finish_closing(&mut self) -> bool {
        let mut ended = false;
        let mut waiting = std::mem::take(&mut self.context.closing);
        waiting.retain(|&id| {
            let Some(connection) = self.context.connection(id) else {
                return false;
            };
            let reason = match connection.closing {
                Closing::Now(reason) => reason,
                Closing::Flushing {
                    reason,
                    deadline_ns,
                } => {
                    if !connection.outbox.is_empty() && deadline_ns > self.context.now_ns {
                        return true;
                    }
                    reason
                }
                Closing::No => return false,
            };
            self.context.remove(id);
            self.application.closed(&mut self.context, id, reason);
            ended = true;
            false
        });
        // A close inside `closed` may have listed others.
        waiting.append(&mut self.context.closing);
        self.context.closing = waiting;
        ended
    }

    fn close_all(&mut self) {
        self.flush();
        for index in 0..self.context.connections.len() {
            let generation = self.context.connections[index].generation;
            let id = ConnectionId {
                index: index as u32,
                generation,
            };
            if self.context.remove(id).is_some() {
                self.application
                    .closed(&mut self.context, id, CloseReason::Stopping);
            }
        }
    }

    fn watch_listeners(&self, flags: EventFlags) {
        for (number, listener) in self.listeners.iter().enumerate() {
            let token = EventData::new_u64(TOKEN_LISTENERS + number as u64);
            let _ = epoll::modify(&self.context.epoll, &listener.socket, token, flags);
        }
    }
}

/// Small replies leave at once, and a peer whose machine is gone is noticed although nothing is
/// sent to it.
fn set_tcp_options(socket: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_IDLE / KEEPALIVE_PROBES)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)
}

/// Connection tokens have a generation from 1 in the upper half, so 0 is free for the mailbox, and
/// generations near the top are never reached.
const TOKEN_MAILBOX: u64 = 0;
const TOKEN_LISTENERS: u64 = u64::MAX - 0xFFFF;
/// Events taken from the kernel a turn.
const EVENTS_A_TURN: usize = 256;
/// Connections accepted a turn, so that a storm of them does not starve those who are in.
const ACCEPTS_A_TURN: usize = 64;
/// Bytes of one receive call.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of one receive call in the middle of a big request.
const READ_BYTES_MAX: usize = 1024 * 1024;
/// An outbox counts as drained at this length.
const DRAINED_BYTES: usize = 32 * 1024;
/// Pause after the descriptor table was found full.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
/// Silence after which the kernel asks whether a peer is still there, as Redis's `tcp-keepalive`.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
/// Questions without an answer that end a connection, over the same time once more.
const KEEPALIVE_PROBES: u32 = 3;
/// How often connections that close with bytes to send are looked at.
const CLOSE_CHECK_NS: u64 = 200_000_000;
