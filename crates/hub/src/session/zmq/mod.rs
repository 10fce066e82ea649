//! ZeroMQ sessions: the publisher port (SUB peers), the ingest port (PUSH peers) and the ROUTER
//! port (REQ and DEALER peers that request current values).

mod admission;
mod answers;
mod push;
pub(crate) mod request;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tidewire_lane::{CloseReason, ConnectionId, Context, Peer};
use tidewire_zmtp::{Config, Connection, Event, SocketType};
use tracing::{debug, warn};

use crate::hub::Hub;
use crate::port;
use crate::pushes::Parked;
use answers::Answer;
use push::{Pushed, Taken};
use request::{Gathered, REQUEST_BYTES_MAX};
use tidewire_fanout::{Dialect, Fanout, Kind};
use tidewire_redis::{Identity, LaneWaiting};

/// A peer on one of the ZeroMQ ports.
#[derive(Debug)]
pub(crate) struct ZmqSession {
    id: ConnectionId,
    /// Shared with the fan-out if traffic is encrypted, because both number what they send.
    connection: Arc<Mutex<Connection>>,
    identity: Identity,
    role: Role,
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
    pub(crate) fn new(id: ConnectionId, port: Port, peer: &Peer, hub: &Hub, now_ns: u64) -> Self {
        let is_refused = match peer {
            Peer::Tcp(address) => hub.refuses_stranger(port.tag(), Some(*address)),
            Peer::Local => false,
        };
        let mut config = Config::new(port.socket_type());
        let frame_bytes_max = hub.config.zmq_frame_bytes_max;
        config.limits.frame_bytes_max = match port {
            Port::Router => frame_bytes_max.min(REQUEST_BYTES_MAX as u64),
            _ => frame_bytes_max,
        };
        admission::secure(&mut config, hub, is_refused);
        Self {
            id,
            connection: Arc::new(Mutex::new(Connection::new(config, now_ns))),
            identity: Identity::new(peer.to_string(), is_refused),
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

    /// Sends pending output of the protocol itself.
    pub(crate) fn flush(&mut self, context: &mut Context) {
        flush(&mut self.connection.lock(), self.id, context);
    }

    /// Returns whether a timeout of the protocol (handshake or heartbeat) has expired.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let deadline_ns = self.connection.lock().deadline_ns();
        deadline_ns.is_some_and(|deadline_ns| deadline_ns <= now_ns)
    }

    pub(crate) fn timeout(&mut self, context: &mut Context) {
        if let Err(error) = self.connection.lock().timeout(context.now_ns()) {
            debug!(%error, "a ZeroMQ peer is given up");
            context.close(self.id, CloseReason::Requested);
        }
        self.flush(context);
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
            context.close_after_flush(self.id, CloseReason::Requested);
        }
    }

    /// Returns whether the peer must be told that a script has been running too long.
    fn answers_busy(&self, hub: &Hub) -> bool {
        matches!(self.role, Role::Answers(_)) && hub.server.busy_text().is_some()
    }

    pub(crate) fn received(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        parked: &mut Parked,
        waiting: &mut LaneWaiting,
        context: &mut Context,
        input: &[u8],
    ) -> usize {
        let id = self.id;
        if self.waits_for_handshake(hub, context) {
            parked.push(hub, id);
            context.hold(id);
            return 0;
        }
        let shared = self.connection.clone();
        let mut connection = shared.lock();
        let (mut consumed, mut has_subscribed) = (0, false);
        loop {
            if !hub.server.may_lock(context.lane()) && !self.answers_busy(hub) {
                // Its messages may need shards.
                waiting.park(id, !matches!(self.role, Role::Answers(_)));
                hub.server.wait_to_lock(context.lane());
                context.hold(id);
                break;
            }
            if matches!(self.role, Role::Answers(_)) && context.out_bytes(id) > UNREAD_ANSWERS_MAX {
                // The peer sends requests and does not read replies: its input is paused until it
                // does.
                context.pause(id);
                break;
            }
            let received = connection.receive(&input[consumed..], context.now_ns());
            let step = match received {
                Ok(step) => step,
                Err(error) => {
                    debug!(%error, "a ZeroMQ peer broke the protocol");
                    flush(&mut connection, id, context);
                    context.close_after_flush(id, CloseReason::Requested);
                    return input.len();
                }
            };
            let step_consumed = step.consumed;
            consumed += step_consumed;
            debug_assert!(
                consumed <= input.len(),
                "a connection uses part of the input"
            );
            match step.event {
                Some(Event::Authenticate(credentials)) => {
                    let user = admission::admit(&self.identity, hub, credentials);
                    // Both events come immediately after this one.
                    let Some(user) = user else {
                        let _ = connection.refuse("400");
                        flush(&mut connection, id, context);
                        context.close_after_flush(id, CloseReason::Requested);
                        return input.len();
                    };
                    self.identity.become_user(&hub.server.access, user);
                    let _ = connection.accept();
                }
                Some(Event::Ready) if !self.identity.is_somebody() => {
                    // The peer had no way to authenticate.
                    let user = hub.server.access.default_user().clone();
                    self.identity.become_user(&hub.server.access, user);
                }
                Some(Event::Subscribe(prefix)) => {
                    if !self.identity.may_listen(&hub.server, prefix) {
                        continue;
                    }
                    let kind = Kind::Prefix;
                    let subscribed = fanout.subscribe(id, Dialect::Zmtp, kind, prefix);
                    if subscribed.is_err() {
                        if let Some(left_out) = TOO_MANY.note_now() {
                            let text = "a ZeroMQ peer was disconnected: too many subscriptions";
                            warn!(left_out, "{text}");
                        }
                        context.close(id, CloseReason::Requested);
                        return input.len();
                    }
                    if connection.encrypts() {
                        fanout.seal(id, &shared);
                    }
                    has_subscribed = true;
                }
                Some(Event::Cancel(prefix)) => {
                    fanout.unsubscribe(id, Kind::Prefix, prefix);
                }
                Some(Event::Frame { body, more }) => match &mut self.role {
                    Role::Publishes => {}
                    Role::Pulls(pushed) => {
                        let identity = &mut self.identity;
                        if pushed.gather(identity, hub, context, body, more) == Taken::Waits {
                            parked.push(hub, id);
                            context.set_aside(id);
                            break;
                        }
                    }
                    Role::Answers(conversation) => {
                        conversation.request.push(body);
                        if !more {
                            let identity = &mut self.identity;
                            flush(&mut connection, id, context);
                            let connection = &mut connection;
                            if conversation.answer(hub, identity, connection, id, context) {
                                // Other clients are served before its next request.
                                context.pause(id);
                                break;
                            }
                        }
                    }
                },
                Some(Event::PeerError(_)) => {
                    context.close(id, CloseReason::Requested);
                    return input.len();
                }
                Some(_) => {}
                None if step_consumed == 0 => break,
                None => {}
            }
        }
        flush(&mut connection, id, context);
        drop(connection);
        if has_subscribed {
            // Behind all subscriptions that came together: `__gone__` and `__snapshot__` hold for
            // all values, and a peer sends its subscriptions in any order.
            fanout.pump(context, id);
        }
        consumed
    }
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
        connection: &mut Connection,
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
                connection.encode_message_frame(out, frame, true);
            }
            let frames = self.answer.frames();
            debug_assert!(frames.len() > 0, "every request has an answer");
            let last = frames.len().saturating_sub(1);
            for (at, frame) in frames.enumerate() {
                connection.encode_message_frame(out, frame, at != last);
            }
        }
        self.request.clear();
        self.answer.clear();
        is_walk
    }
}

fn flush(connection: &mut Connection, id: ConnectionId, context: &mut Context) {
    let outgoing = connection.outgoing();
    if context.out_bytes(id) > UNREAD_BYTES_MAX {
        // The peer sends requests and does not read: replies must not accumulate.
        outgoing.clear();
    }
    if !outgoing.is_empty()
        && let Some(out) = context.out(id)
    {
        out.buffer().append(outgoing);
    }
}

/// Returns the wall-clock time of this turn, ms since the UNIX epoch.
fn unix_ms_of(context: &Context) -> i64 {
    (context.unix_ns() / 1_000_000) as i64
}

/// A peer with this many unread bytes gets no more PONGs.
const UNREAD_BYTES_MAX: usize = 32 << 20;
/// No more requests are read from a peer with this many unread bytes of replies.
const UNREAD_ANSWERS_MAX: usize = 1 << 20;
/// Limits the log lines that a peer causes by coming back.
static TOO_MANY: tidewire_retry::Seldom = tidewire_retry::Seldom::new(3, 10);
