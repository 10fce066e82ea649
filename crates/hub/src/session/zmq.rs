//! ZeroMQ faces: the publisher port (for SUB peers) and the ingest port (for PUSH peers).

use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, ConnectionId, Context};
use tidewire_zmtp::{Config, Connection, Event, SocketType};
use tracing::{debug, warn};

use crate::fanout::{Dialect, Fanout};
use crate::hub::{Hub, LiveObserver, Mail};
use crate::subscriptions::Kind;

/// A peer on one of the ZeroMQ ports.
#[derive(Debug)]
pub(crate) struct ZmqSession {
    id: ConnectionId,
    connection: Connection,
    /// The message being gathered on the ingest port: its first frame, the topic.
    topic: Vec<u8>,
    frames: usize,
    /// It pushes to us.
    pulls: bool,
}

impl ZmqSession {
    pub(crate) fn new(id: ConnectionId, socket_type: SocketType, hub: &Hub, now_ns: u64) -> Self {
        let mut config = Config::new(socket_type);
        config.limits.frame_bytes_max = hub.config.zmq_frame_bytes_max;
        Self {
            id,
            connection: Connection::new(config, now_ns),
            topic: Vec::new(),
            frames: 0,
            pulls: socket_type == SocketType::Pull,
        }
    }

    /// Whether it is a peer of the ingest port.
    pub(crate) fn pulls(&self) -> bool {
        self.pulls
    }

    /// Sends what the protocol itself has to say.
    pub(crate) fn flush(&mut self, context: &mut Context<Mail>) {
        let outgoing = self.connection.outgoing();
        if context.out_bytes(self.id) > UNREAD_BYTES_MAX {
            // It asks and does not read: answers must not pile up.
            outgoing.clear();
        }
        if !outgoing.is_empty()
            && let Some(out) = context.out(self.id)
        {
            out.buffer().append(outgoing);
        }
    }

    /// Whether the protocol's own deadline (of the handshake, of a heartbeat) has come.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.connection
            .deadline_ns()
            .is_some_and(|deadline_ns| deadline_ns <= now_ns)
    }

    pub(crate) fn timeout(&mut self, context: &mut Context<Mail>) {
        if let Err(error) = self.connection.timeout(context.now_ns()) {
            debug!(%error, "a ZeroMQ peer is given up");
            context.close(self.id, CloseReason::Requested);
        }
        self.flush(context);
    }

    pub(crate) fn received(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        context: &mut Context<Mail>,
        input: &[u8],
    ) -> usize {
        let id = self.id;
        let mut consumed = 0;
        loop {
            let step = match self
                .connection
                .receive(&input[consumed..], context.now_ns())
            {
                Ok(step) => step,
                Err(error) => {
                    debug!(%error, "a ZeroMQ peer broke the protocol");
                    self.flush(context);
                    context.close_after_flush(id, CloseReason::Requested);
                    return input.len();
                }
            };
            consumed += step.consumed;
            match step.event {
                Some(Event::Subscribe(prefix)) => {
                    if fanout
                        .subscribe(id, Dialect::Zmtp, Kind::Prefix, prefix)
                        .is_err()
                    {
                        warn!("a ZeroMQ peer is sent away: too many subscriptions");
                        context.close(id, CloseReason::Requested);
                        return input.len();
                    }
                    self.flush(context);
                    fanout.pump(context, id);
                }
                Some(Event::Cancel(prefix)) => {
                    fanout.unsubscribe(id, Kind::Prefix, prefix);
                }
                Some(Event::Frame { body, more }) => {
                    let now_ms = (context.unix_ns() / 1_000_000) as i64;
                    gather(&mut self.topic, &mut self.frames, hub, now_ms, body, more);
                }
                Some(Event::PeerError(_)) => {
                    context.close(id, CloseReason::Requested);
                    return input.len();
                }
                Some(_) => {}
                None if step.consumed == 0 => break,
                None => {}
            }
        }
        self.flush(context);
        consumed
    }
}

/// Gathers `[topic][payload]`; a message of any other form is counted and left out.
fn gather(
    topic: &mut Vec<u8>,
    frames: &mut usize,
    hub: &Hub,
    now_ms: i64,
    body: &[u8],
    more: bool,
) {
    *frames += 1;
    match (*frames, more) {
        (1, true) => {
            topic.clear();
            // One byte more than allowed is enough to tell that it is too long.
            topic.extend_from_slice(&body[..body.len().min(hub.config.topic_bytes_max + 1)]);
        }
        (2, false) => ingest(hub, now_ms, topic, body),
        (_, false) => reject(hub, "a message must be [topic][payload]"),
        (_, true) => {}
    }
    if !more {
        *frames = 0;
    }
}

fn ingest(hub: &Hub, now_ms: i64, topic: &[u8], payload: &[u8]) {
    if topic.is_empty() || topic.len() > hub.config.topic_bytes_max {
        return reject(hub, "the topic is empty or too long");
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
