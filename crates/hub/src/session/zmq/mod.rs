//! ZeroMQ sessions: the publisher port (SUB peers), the ingest port (PUSH peers) and the ROUTER
//! port (REQ and DEALER peers that request current values).

mod admission;
mod answers;
mod push;
pub(crate) mod request;
mod transport;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tidewire_lane::{CloseReason, ConnectionId, Context, Peer};
use tidewire_zmtp::websocket::WebSocket;
use tidewire_zmtp::{Config, Connection, Credentials, Error, Event, SocketType};
use tracing::{debug, warn};

use crate::hub::Hub;
use crate::port;
use crate::pushes::Parked;
use answers::Answer;
use push::{Pushed, Taken};
use request::{Gathered, REQUEST_BYTES_MAX};
use tidewire_fanout::{Dialect, Fanout, Kind};
use tidewire_redis::{Identity, LaneWaiting, OtherClient, User};
use transport::{FIRST_OF_REQUEST, Transport, encode};

/// A peer on one of the ZeroMQ ports.
#[derive(Debug)]
pub(crate) struct ZmqSession {
    id: ConnectionId,
    /// Shared with the fan-out if traffic is encrypted, because both number what they send.
    connection: Arc<Mutex<Connection>>,
    transport: Transport,
    identity: Identity,
    role: Role,
}

/// What a session needs of its lane.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) fanout: &'a mut Fanout,
    pub(crate) parked: &'a mut Parked,
    pub(crate) waiting: &'a mut LaneWaiting,
    pub(crate) context: &'a mut Context,
}

/// The result of reading a part of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// More bytes are needed.
    Hungry,
    /// Nothing more may be read now.
    Waits,
    /// The connection ends.
    Ended,
}

/// The purpose of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Publish,
    Pull,
    Router,
}

impl Port {
    fn tag(self) -> u16 {
        match self {
            Port::Publish => port::ZMQ_PUBLISH,
            Port::Pull => port::ZMQ_PULL,
            Port::Router => port::ZMQ_ROUTER,
        }
    }

    fn socket_type(self) -> SocketType {
        match self {
            Port::Publish => SocketType::Xpub,
            Port::Pull => SocketType::Pull,
            Port::Router => SocketType::Router,
        }
    }
}

/// The hub's role towards the peer.
#[derive(Debug)]
enum Role {
    Publishes,
    Pulls(Pushed),
    Answers(Box<Conversation>),
}

/// The incomplete request on the ROUTER port, and the buffer for its reply.
#[derive(Debug, Default)]
struct Conversation {
    request: Gathered,
    answer: Answer,
}

impl ZmqSession {
    pub(crate) fn new(
        (id, client): (ConnectionId, Arc<OtherClient>),
        port: Port,
        peer: &Peer,
        hub: &Hub,
        context: &Context,
    ) -> Self {
        let now_ns = context.now_ns();
        let is_refused = match peer {
            Peer::Tcp(address) => {
                let has_certificate = context.peer_names(id).is_some();
                hub.refuses_stranger(port.tag(), Some(*address), has_certificate)
            }
            Peer::Local => false,
        };
        let config = settings(port, hub, is_refused);
        Self {
            id,
            connection: Arc::new(Mutex::new(Connection::new(config, now_ns))),
            transport: Transport::Unknown {
                accepted_ns: now_ns,
            },
            identity: Identity::new(client, "zeromq", is_refused),
            role: match port {
                Port::Publish => Role::Publishes,
                Port::Pull => Role::Pulls(Pushed::default()),
                Port::Router => Role::Answers(Box::default()),
            },
        }
    }

    /// Returns the address of the peer.
    pub(crate) fn address(&self) -> &str {
        self.identity.address()
    }

    /// Returns the port that the peer connected to.
    pub(crate) fn port(&self) -> Port {
        match self.role {
            Role::Publishes => Port::Publish,
            Role::Pulls(_) => Port::Pull,
            Role::Answers(_) => Port::Router,
        }
    }

    /// Returns whether the peer came by WebSocket.
    pub(crate) fn is_websocket(&self) -> bool {
        matches!(self.transport, Transport::WebSocket(_))
    }

    /// Returns whether a timeout of the protocol (handshake or heartbeat) has expired, or the peer
    /// must be greeted.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let deadline_ns = self.connection.lock().deadline_ns();
        let is_over = |deadline_ns: Option<u64>| deadline_ns.is_some_and(|at_ns| at_ns <= now_ns);
        is_over(deadline_ns) || is_over(self.transport.greets_at_ns())
    }

    pub(crate) fn timeout(&mut self, context: &mut Context) {
        if !self.transport.is_known() && context.input_bytes(self.id) == 0 {
            self.transport = Transport::Plain;
        }
        let mut connection = self.connection.lock();
        if let Err(error) = connection.timeout(context.now_ns()) {
            debug!(%error, "a ZeroMQ peer is given up");
            context.close(self.id, CloseReason::Requested);
        }
        self.transport.flush(&mut connection, self.id, context);
    }

    /// Handles a change of users. A peer whose user no longer exists is disconnected, and so is a
    /// subscriber whose permissions have changed: it reconnects and subscribes to what is allowed.
    pub(crate) fn users_changed(&mut self, hub: &Hub, context: &mut Context) {
        if !self.identity.is_somebody() {
            return;
        }
        let has_changed = self.identity.look(&hub.server.access);
        let is_subscriber = matches!(self.role, Role::Publishes);
        if !self.identity.is_somebody() || has_changed && is_subscriber {
            let shared = self.connection.clone();
            self.end(&mut shared.lock(), context);
        }
    }

    /// Sends what is left to say, and ends the connection.
    fn end(&mut self, connection: &mut Connection, context: &mut Context) -> Read {
        self.transport.flush(connection, self.id, context);
        self.transport.close();
        self.transport.flush(connection, self.id, context);
        context.close_after_flush(self.id, CloseReason::Requested);
        Read::Ended
    }

    /// Returns whether the peer must be told that a script has been running too long.
    fn answers_busy(&self, hub: &Hub) -> bool {
        matches!(self.role, Role::Answers(_)) && hub.server.busy_text().is_some()
    }

    pub(crate) fn received(&mut self, around: &mut Around<'_>, input: &[u8]) -> usize {
        let id = self.id;
        let shared = self.connection.clone();
        let mut connection = shared.lock();
        self.recognise(around.hub, &mut connection, input);
        if self.waits_for_handshake(around.hub, around.context) {
            self.transport.flush(&mut connection, id, around.context);
            around.parked.push(around.hub, id);
            around.context.hold(id);
            return 0;
        }
        let mut has_subscribed = false;
        let (consumed, read) = match &self.transport {
            Transport::WebSocket(_) => {
                self.read_websocket(around, &mut connection, input, &mut has_subscribed)
            }
            _ => self.read(around, &mut connection, input, &mut has_subscribed),
        };
        if read == Read::Ended {
            return input.len();
        }
        self.transport.flush(&mut connection, id, around.context);
        drop(connection);
        if has_subscribed {
            // Behind all subscriptions that came together: `__gone__` and `__snapshot__` hold for
            // all values, and a peer sends its subscriptions in any order.
            around.fanout.pump(around.context, id);
        }
        consumed
    }

    /// Notes what the peer speaks, from its first octet.
    fn recognise(&mut self, hub: &Hub, connection: &mut Connection, input: &[u8]) {
        let (&Transport::Unknown { accepted_ns }, Some(&first)) = (&self.transport, input.first())
        else {
            return;
        };
        if first != FIRST_OF_REQUEST {
            self.transport = Transport::Plain;
            return;
        }
        let mut config = settings(self.port(), hub, self.identity.is_refused);
        config.websocket = true;
        let origins = hub.config.zmq_ws_origins.clone();
        self.transport = Transport::websocket(WebSocket::server_for(&config, origins));
        *connection = Connection::new(config, accepted_ns);
        hub.zmq_websocket_peers[self.port() as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Reads messages out of WebSocket frames, one by one: if the connection must wait, the next
    /// frame stays in the input.
    fn read_websocket(
        &mut self,
        around: &mut Around<'_>,
        connection: &mut Connection,
        input: &[u8],
        has_subscribed: &mut bool,
    ) -> (usize, Read) {
        let mut zmtp = self.transport.lend();
        let (mut consumed, mut read) = (0, Read::Hungry);
        while consumed < input.len() && read == Read::Hungry {
            if self.must_wait(around) {
                read = Read::Waits;
                break;
            }
            match self.transport.unframe(&input[consumed..], &mut zmtp) {
                Ok(0) => break,
                Ok(count) => consumed += count,
                Err(error) => {
                    if error == Error::ForbiddenOrigin
                        && let Some(left_out) = FOREIGN_PAGE.note_now()
                    {
                        let peer = self.identity.address();
                        let text = "a web page was refused: its origin is not in --zmq-ws-origins";
                        warn!(left_out, peer, "{text}");
                    }
                    debug!(%error, "a ZeroMQ peer ended its WebSocket");
                    read = self.end(connection, around.context);
                    break;
                }
            }
            let taken;
            (taken, read) = self.read(around, connection, &zmtp, has_subscribed);
            zmtp.drain(..taken);
        }
        debug_assert!(
            read != Read::Waits || zmtp.is_empty(),
            "what waits is in the input"
        );
        self.transport.keep(zmtp);
        (consumed, read)
    }

    /// Returns whether nothing may be read from the peer now. It is read again when it may be.
    fn must_wait(&self, around: &mut Around<'_>) -> bool {
        let (hub, context) = (around.hub, &mut *around.context);
        if !hub.server.may_lock(context.lane()) && !self.answers_busy(hub) {
            // Its messages may need shards.
            let is_pushed = !matches!(self.role, Role::Answers(_));
            around.waiting.park(self.id, is_pushed);
            hub.server.wait_to_lock(context.lane());
            context.hold(self.id);
            return true;
        }
        if matches!(self.role, Role::Answers(_)) && context.out_bytes(self.id) > UNREAD_ANSWERS_MAX
        {
            // The peer sends requests and does not read replies: its input is paused until it
            // does.
            context.pause(self.id);
            return true;
        }
        false
    }

    /// Reads ZMTP. Returns the number of bytes consumed. Through a WebSocket there is at most one
    /// frame, which is taken whole.
    fn read(
        &mut self,
        around: &mut Around<'_>,
        connection: &mut Connection,
        input: &[u8],
        has_subscribed: &mut bool,
    ) -> (usize, Read) {
        let is_framed = self.transport.dialect() == Dialect::Zws;
        let mut consumed = 0;
        loop {
            if !is_framed && self.must_wait(around) {
                return (consumed, Read::Waits);
            }
            let received = connection.receive(&input[consumed..], around.context.now_ns());
            let step = match received {
                Ok(step) => step,
                Err(error) => {
                    debug!(%error, "a ZeroMQ peer broke the protocol");
                    return (input.len(), self.end(connection, around.context));
                }
            };
            let step_consumed = step.consumed;
            consumed += step_consumed;
            debug_assert!(
                consumed <= input.len(),
                "a connection uses part of the input"
            );
            let read = match step.event {
                Some(Event::Authenticate(credentials)) => {
                    let has_certificate = around.context.peer_names(self.id).is_some();
                    let certified = match credentials {
                        Credentials::Null => self.certified(around),
                        _ => None,
                    };
                    let certified = (certified, has_certificate);
                    let user = admission::admit(&self.identity, around.hub, credentials, certified);
                    self.admit(around, connection, user)
                }
                Some(Event::Ready) if !self.identity.is_somebody() => {
                    // The peer had no other way to authenticate.
                    let user = self.certified(around);
                    let access = &around.hub.server.access;
                    let user = user.unwrap_or_else(|| access.default_user().clone());
                    self.identity.become_user(&around.hub.server.access, user);
                    Read::Hungry
                }
                Some(Event::Subscribe(prefix)) => {
                    let read = self.subscribe(around, prefix, has_subscribed);
                    if connection.encrypts() {
                        around.fanout.seal(self.id, &self.connection);
                    }
                    read
                }
                Some(Event::Cancel(prefix)) => {
                    around.fanout.unsubscribe(self.id, Kind::Prefix, prefix);
                    Read::Hungry
                }
                Some(Event::Frame { body, more }) => {
                    // The connection lends the body, and is needed for the answer.
                    match self.take_frame(around, body, more) {
                        Frame::Done => Read::Hungry,
                        Frame::Waits => Read::Waits,
                        Frame::IsRequest => self.answer(around, connection),
                    }
                }
                Some(Event::PeerError(_)) => {
                    around.context.close(self.id, CloseReason::Requested);
                    Read::Ended
                }
                Some(_) => Read::Hungry,
                None if step_consumed == 0 => return (consumed, Read::Hungry),
                None => Read::Hungry,
            };
            if read != Read::Hungry {
                return (consumed, read);
            }
        }
    }

    /// Returns the user that the peer's TLS certificate names, if it has shown one.
    fn certified(&self, around: &Around<'_>) -> Option<Arc<User>> {
        let address = self.identity.address();
        let server = &around.hub.server;
        server.user_of_certificate(around.context, self.id, address)
    }

    /// Lets the peer in as this user, or refuses it.
    fn admit(
        &mut self,
        around: &mut Around<'_>,
        connection: &mut Connection,
        user: Option<Arc<User>>,
    ) -> Read {
        // The connection has just asked, so it takes either answer.
        let Some(user) = user else {
            let _ = connection.refuse("400");
            return self.end(connection, around.context);
        };
        self.identity.become_user(&around.hub.server.access, user);
        let _ = connection.accept();
        Read::Hungry
    }

    fn subscribe(
        &mut self,
        around: &mut Around<'_>,
        prefix: &[u8],
        has_subscribed: &mut bool,
    ) -> Read {
        if !self.identity.may_listen(&around.hub.server, prefix) {
            return Read::Hungry;
        }
        let dialect = self.transport.dialect();
        let subscribed = around
            .fanout
            .subscribe(self.id, dialect, Kind::Prefix, prefix);
        if subscribed.is_err() {
            if let Some(left_out) = TOO_MANY.note_now() {
                let text = "a ZeroMQ peer was disconnected: too many subscriptions";
                warn!(left_out, "{text}");
            }
            around.context.close(self.id, CloseReason::Requested);
            return Read::Ended;
        }
        *has_subscribed = true;
        Read::Hungry
    }

    /// Takes one frame of a message.
    fn take_frame(&mut self, around: &mut Around<'_>, body: &[u8], more: bool) -> Frame {
        match &mut self.role {
            Role::Publishes => Frame::Done,
            Role::Pulls(pushed) => {
                let (hub, identity) = (around.hub, &mut self.identity);
                let taken = pushed.gather(identity, hub, around.context, body, more);
                if taken == Taken::Waits {
                    around.parked.push(hub, self.id);
                    around.context.set_aside(self.id);
                    return Frame::Waits;
                }
                Frame::Done
            }
            Role::Answers(conversation) => {
                conversation.request.push(body);
                match more {
                    true => Frame::Done,
                    false => Frame::IsRequest,
                }
            }
        }
    }

    /// Answers the complete request.
    fn answer(&mut self, around: &mut Around<'_>, connection: &mut Connection) -> Read {
        let Role::Answers(conversation) = &mut self.role else {
            return Read::Hungry;
        };
        let (id, context) = (self.id, &mut *around.context);
        self.transport.flush(connection, id, context);
        let wire = (connection, self.transport.dialect());
        if conversation.answer(around.hub, &mut self.identity, wire, id, context) {
            // Other clients are served before its next request.
            context.pause(id);
            return Read::Waits;
        }
        Read::Hungry
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Done,
    /// It is kept, and nothing more may be read.
    Waits,
    /// It completes a request.
    IsRequest,
}

impl ZmqSession {
    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    /// Continues after the gate has opened: stores the waiting message and reads the connection
    /// again.
    pub(crate) fn resume(&mut self, hub: &Hub, parked: &mut Parked, context: &mut Context) {
        if let Role::Pulls(pushed) = &mut self.role
            && pushed.resume(&mut self.identity, hub, context) == Taken::Waits
        {
            return parked.push(hub, self.id);
        }
        context.release(self.id);
    }

    /// Handles the end of the connection.
    pub(crate) fn closed(&mut self, hub: &Hub, context: &Context) {
        if let Role::Pulls(pushed) = &mut self.role {
            pushed.closed(&self.identity, hub, context);
        }
    }

    /// Returns whether this is a pusher that must not authenticate yet. Until its handshake is
    /// complete it sends nothing, and its own queue holds the messages.
    fn waits_for_handshake(&self, hub: &Hub, context: &Context) -> bool {
        matches!(self.role, Role::Pulls(_))
            && !self.identity.is_somebody()
            && hub.server.is_gated()
            && hub.server.write_wait(unix_ms_of(context)).is_some()
    }
}

impl Conversation {
    /// Answers the complete request. Returns whether that took long.
    fn answer(
        &mut self,
        hub: &Hub,
        identity: &mut Identity,
        (connection, dialect): (&mut Connection, Dialect),
        id: ConnectionId,
        context: &mut Context,
    ) -> bool {
        let (envelope, question) = self.request.parse();
        let is_walk = matches!(&question, Ok(question) if question.is_walk());
        let failed = match &question {
            Ok(question) => {
                let now_ms = unix_ms_of(context);
                answers::answer(hub, identity, now_ms, question, &mut self.answer)
            }
            Err(flaw) => {
                self.answer.fail(&flaw.to_string());
                true
            }
        };
        let counter = &hub.zmq_requests[usize::from(failed)];
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(out) = context.out(id) {
            let out = out.buffer();
            for frame in self.request.frames().take(envelope) {
                encode(connection, dialect, out, frame, true);
            }
            let frames = self.answer.frames();
            debug_assert!(frames.len() > 0, "every request has an answer");
            let last = frames.len().saturating_sub(1);
            for (at, frame) in frames.enumerate() {
                encode(connection, dialect, out, frame, at != last);
            }
        }
        self.request.clear();
        self.answer.clear();
        is_walk
    }
}

/// Returns the settings of a peer's connection, without a WebSocket.
fn settings(port: Port, hub: &Hub, is_refused: bool) -> Config {
    let mut config = Config::new(port.socket_type());
    let frame_bytes_max = hub.config.zmq_frame_bytes_max;
    config.limits.frame_bytes_max = match port {
        Port::Router => frame_bytes_max.min(REQUEST_BYTES_MAX as u64),
        _ => frame_bytes_max,
    };
    admission::secure(&mut config, hub, is_refused);
    config
}

/// Returns the wall-clock time of this turn, ms since the UNIX epoch.
fn unix_ms_of(context: &Context) -> i64 {
    (context.unix_ns() / 1_000_000) as i64
}

/// No more requests are read from a peer with this many unread bytes of replies.
const UNREAD_ANSWERS_MAX: usize = 1 << 20;
/// Limits the log lines that a peer causes by coming back.
static TOO_MANY: tidewire_retry::Seldom = tidewire_retry::Seldom::new(3, 10);
/// Limits the log lines about web pages.
static FOREIGN_PAGE: tidewire_retry::Seldom = tidewire_retry::Seldom::new(3, 10);
