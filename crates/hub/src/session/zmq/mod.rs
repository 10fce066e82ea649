//! ZeroMQ faces: the publisher port (for SUB peers), the ingest port (for PUSH peers) and the
//! ROUTER port (for REQ and DEALER peers that ask for current values).

mod answers;
mod peer;
pub(crate) mod request;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tidewire_lane::{CloseReason, ConnectionId, Context};
use tidewire_zmtp::{Config, Connection, Event, SocketType};
use tracing::{debug, warn};

use crate::fanout::{Dialect, Fanout};
use crate::hub::{Hub, LiveObserver, Mail};
use crate::subscriptions::Kind;
use answers::Answer;
use peer::Identity;
use request::{Gathered, REQUEST_BYTES_MAX};

/// A peer on one of the ZeroMQ ports.
#[derive(Debug)]
pub(crate) struct ZmqSession {
    id: ConnectionId,
    /// Shared with the fan-out where traffic is encrypted: both number what they send.
    connection: Arc<Mutex<Connection>>,
    identity: Identity,
    role: Role,
}

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Publish,
    Pull,
    Router,
}

impl Port {
    fn socket_type(self) -> SocketType {
        match self {
            Port::Publish => SocketType::Xpub,
            Port::Pull => SocketType::Pull,
            Port::Router => SocketType::Router,
        }
    }
}

/// What the hub is to the peer.
#[derive(Debug)]
enum Role {
    Publishes,
    Pulls(Pushed),
    Answers(Box<Conversation>),
}

/// The message being gathered on the ingest port.
#[derive(Debug, Default)]
struct Pushed {
    /// Its first frame.
    topic: Vec<u8>,
    frames: usize,
}

/// The request being gathered on the ROUTER port, and room for its answer.
#[derive(Debug, Default)]
struct Conversation {
    request: Gathered,
    answer: Answer,
}

impl ZmqSession {
    pub(crate) fn new(
        id: ConnectionId,
        port: Port,
        address: String,
        hub: &Hub,
        now_ns: u64,
    ) -> Self {
        let mut config = Config::new(port.socket_type());
        let frame_bytes_max = hub.config.zmq_frame_bytes_max;
        config.limits.frame_bytes_max = match port {
            Port::Router => frame_bytes_max.min(REQUEST_BYTES_MAX as u64),
            _ => frame_bytes_max,
        };
        peer::secure(&mut config, hub);
        Self {
            id,
            connection: Arc::new(Mutex::new(Connection::new(config, now_ns))),
            identity: Identity::new(address),
            role: match port {
                Port::Publish => Role::Publishes,
                Port::Pull => Role::Pulls(Pushed::default()),
                Port::Router => Role::Answers(Box::default()),
            },
        }
    }

    /// The port that it came by.
    pub(crate) fn port(&self) -> Port {
        match self.role {
            Role::Publishes => Port::Publish,
            Role::Pulls(_) => Port::Pull,
            Role::Answers(_) => Port::Router,
        }
    }

    /// Sends what the protocol itself has to say.
    pub(crate) fn flush(&mut self, context: &mut Context<Mail>) {
        flush(&mut self.connection.lock(), self.id, context);
    }

    /// Whether the protocol's own deadline (of the handshake, of a heartbeat) has come.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let deadline_ns = self.connection.lock().deadline_ns();
        deadline_ns.is_some_and(|deadline_ns| deadline_ns <= now_ns)
    }

    pub(crate) fn timeout(&mut self, context: &mut Context<Mail>) {
        if let Err(error) = self.connection.lock().timeout(context.now_ns()) {
            debug!(%error, "a ZeroMQ peer is given up");
            context.close(self.id, CloseReason::Requested);
        }
        self.flush(context);
    }

    /// Users have changed. Who is nobody any more is let go; so is a subscriber whose rights are
    /// others than before: it comes back, and subscribes to what it may.
    pub(crate) fn users_changed(&mut self, hub: &Hub, context: &mut Context<Mail>) {
        if !self.identity.is_somebody() {
            return;
        }
        let has_changed = self.identity.look(&hub.access);
        let is_subscriber = matches!(self.role, Role::Publishes);
        if !self.identity.is_somebody() || has_changed && is_subscriber {
            context.close_after_flush(self.id, CloseReason::Requested);
        }
    }

    pub(crate) fn received(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        context: &mut Context<Mail>,
        input: &[u8],
    ) -> usize {
        let id = self.id;
        let shared = self.connection.clone();
        let mut connection = shared.lock();
        let mut consumed = 0;
        loop {
            if matches!(self.role, Role::Answers(_)) && context.out_bytes(id) > UNREAD_ANSWERS_MAX {
                // It asks and does not read: it is not heard until it does.
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
            match step.event {
                Some(Event::Authenticate(credentials)) => {
                    let user = self.identity.admit(hub, credentials);
                    // Both are right behind this event.
                    let Some(user) = user else {
                        let _ = connection.refuse("400");
                        flush(&mut connection, id, context);
                        context.close_after_flush(id, CloseReason::Requested);
                        return input.len();
                    };
                    self.identity.become_user(&hub.access, user);
                    let _ = connection.accept();
                }
                Some(Event::Ready) if !self.identity.is_somebody() => {
                    // It could not say who it is.
                    let user = hub.access.default_user().clone();
                    self.identity.become_user(&hub.access, user);
                }
                Some(Event::Subscribe(prefix)) => {
                    if !self.identity.may_listen(hub, prefix) {
                        continue;
                    }
                    let kind = Kind::Prefix;
                    let subscribed = fanout.subscribe(id, Dialect::Zmtp, kind, prefix);
                    if subscribed.is_err() {
                        warn!("a ZeroMQ peer is sent away: too many subscriptions");
                        context.close(id, CloseReason::Requested);
                        return input.len();
                    }
                    if connection.encrypts() {
                        fanout.seal(id, &shared);
                    }
                    flush(&mut connection, id, context);
                    drop(connection);
                    fanout.pump(context, id);
                    connection = shared.lock();
                }
                Some(Event::Cancel(prefix)) => {
                    fanout.unsubscribe(id, Kind::Prefix, prefix);
                }
                Some(Event::Frame { body, more }) => match &mut self.role {
                    Role::Publishes => {}
                    Role::Pulls(pushed) => {
                        let now_ms = unix_ms_of(context);
                        gather(pushed, &mut self.identity, hub, now_ms, body, more);
                    }
                    Role::Answers(conversation) => {
                        conversation.request.push(body);
                        if !more {
                            let identity = &mut self.identity;
                            flush(&mut connection, id, context);
                            let connection = &mut connection;
                            if conversation.answer(hub, identity, connection, id, context) {
                                // Other clients have their turn before its next request.
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
        consumed
    }
}

impl Conversation {
    /// Answers the request that is complete; whether that took long.
    fn answer(
        &mut self,
        hub: &Hub,
        identity: &mut Identity,
        connection: &mut Connection,
        id: ConnectionId,
        context: &mut Context<Mail>,
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

fn flush(connection: &mut Connection, id: ConnectionId, context: &mut Context<Mail>) {
    let outgoing = connection.outgoing();
    if context.out_bytes(id) > UNREAD_BYTES_MAX {
        // It asks and does not read: answers must not pile up.
        outgoing.clear();
    }
    if !outgoing.is_empty()
        && let Some(out) = context.out(id)
    {
        out.buffer().append(outgoing);
    }
}

/// Wall-clock time of this turn, ms since the UNIX epoch.
fn unix_ms_of(context: &Context<Mail>) -> i64 {
    (context.unix_ns() / 1_000_000) as i64
}

/// Gathers `[topic][payload]`; a message of any other form is counted and left out.
fn gather(
    pushed: &mut Pushed,
    identity: &mut Identity,
    hub: &Hub,
    now_ms: i64,
    body: &[u8],
    more: bool,
) {
    pushed.frames += 1;
    let topic = &mut pushed.topic;
    match (pushed.frames, more) {
        (1, true) => {
            topic.clear();
            // One byte more than allowed is enough to tell that it is too long.
            topic.extend_from_slice(&body[..body.len().min(hub.config.topic_bytes_max + 1)]);
        }
        (2, false) => ingest(identity, hub, now_ms, topic, body),
        (_, false) => reject(hub, "a message must be [topic][payload]"),
        (_, true) => {}
    }
    if !more {
        pushed.frames = 0;
    }
}

fn ingest(identity: &mut Identity, hub: &Hub, now_ms: i64, topic: &[u8], payload: &[u8]) {
    if topic.is_empty() || topic.len() > hub.config.topic_bytes_max {
        return reject(hub, "the topic is empty or too long");
    }
    if !identity.is_free(&hub.access) {
        // It writes a value and publishes it.
        let words: [[&[u8]; 3]; 2] = [[b"SET", topic, b""], [b"PUBLISH", topic, b""]];
        if words
            .iter()
            .any(|words| identity.check(hub, words).is_err())
        {
            return reject(hub, "the peer's user may not set and publish this topic");
        }
    }
    let published = hub
        .keyspace
        .publish_value(0, topic, payload, now_ms, &mut LiveObserver(hub));
    match published {
        Ok(()) => {
            hub.ingest.pushed.fetch_add(1, Ordering::Relaxed);
        }
        Err(_) => reject(hub, "the topic belongs to a live source"),
    }
}

fn reject(hub: &Hub, reason: &str) {
    hub.ingest.push_rejected.fetch_add(1, Ordering::Relaxed);
    debug!(reason, "a ZeroMQ message was left out");
}

/// A peer that leaves so many bytes unread gets no more PONGs.
const UNREAD_BYTES_MAX: usize = 32 << 20;
/// A peer that leaves so many bytes of answers unread is asked for no more requests.
const UNREAD_ANSWERS_MAX: usize = 1 << 20;
