//! Messages of PUSH peers. Each becomes a key's value, through the write gate.

use std::sync::atomic::Ordering;

use tidewire_keyspace::{MountPush, Pushed as Passed, is_reserved};
use tidewire_lane::Context;

use tidewire_redis::{Identity, Refusal, Written, is_reserved_channel};

use crate::hub::Hub;

/// The incomplete message on the ingest port.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    /// The first frame.
    topic: Vec<u8>,
    frames: usize,
    /// The message that waits for the gate.
    waiting: Option<Box<(Vec<u8>, Vec<u8>)>>,
}

/// The result of handling a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Taken {
    /// It was stored or discarded.
    Done,
    /// It waits for the gate; nothing more may be read.
    Waits,
}

impl Pushed {
    /// Gathers `[topic][payload]`. A message of any other form is counted and discarded.
    pub(super) fn gather(
        &mut self,
        identity: &mut Identity,
        hub: &Hub,
        context: &mut Context,
        body: &[u8],
        more: bool,
    ) -> Taken {
        debug_assert!(self.waiting.is_none(), "a parked connection is read");
        self.frames += 1;
        let mut taken = Taken::Done;
        match (self.frames, more) {
            (1, true) => {
                self.topic.clear();
                // One byte more than allowed is enough to detect a name that is too long.
                let length = body.len().min(hub.config.topic_bytes_max + 1);
                self.topic.extend_from_slice(&body[..length]);
            }
            (2, false) => taken = ingest(identity, hub, context, &self.topic, body),
            (_, false) => reject(hub, context, identity, &self.topic, Refusal::Form),
            (_, true) => {}
        }
        if !more {
            self.frames = 0;
        }
        if taken == Taken::Waits {
            self.waiting = Some(Box::new((self.topic.clone(), body.to_vec())));
        }
        taken
    }

    /// Submits the waiting message, if there is one, to the gate again.
    pub(super) fn resume(
        &mut self,
        identity: &mut Identity,
        hub: &Hub,
        context: &mut Context,
    ) -> Taken {
        let Some(message) = self.waiting.take() else {
            return Taken::Done;
        };
        debug_assert_eq!(self.frames, 0, "only a whole message waits");
        let taken = ingest(identity, hub, context, &message.0, &message.1);
        if taken == Taken::Waits {
            self.waiting = Some(message);
        }
        taken
    }

    /// Handles the end of the connection.
    pub(super) fn closed(&mut self, identity: &Identity, hub: &Hub, context: &Context) {
        if let Some(message) = self.waiting.take() {
            reject(hub, context, identity, &message.0, Refusal::Lost);
        }
    }
}

fn ingest(
    identity: &mut Identity,
    hub: &Hub,
    context: &mut Context,
    topic: &[u8],
    payload: &[u8],
) -> Taken {
    if let Some(refusal) = refusal_by_name(identity, hub, topic) {
        reject(hub, context, identity, topic, refusal);
        return Taken::Done;
    }
    match hub
        .server
        .write_plain(context, identity.address(), topic, payload)
    {
        Written::Done => {
            hub.pushes.taken.fetch_add(1, Ordering::Relaxed);
            Taken::Done
        }
        Written::Waits => Taken::Waits,
        Written::Refused(Refusal::Mounted) => pass_on(identity, hub, context, topic, payload),
        Written::Refused(refusal) => {
            reject(hub, context, identity, topic, refusal);
            Taken::Done
        }
    }
}

/// Passes a message on to the hub that has the topic, if another one has it.
fn pass_on(
    identity: &Identity,
    hub: &Hub,
    context: &Context,
    topic: &[u8],
    payload: &[u8],
) -> Taken {
    let push = MountPush {
        key: topic,
        value: payload,
        user: identity.user_name(),
        address: identity.address(),
    };
    match hub.server.push_to_hub(&push) {
        Passed::Taken => {
            hub.pushes.taken.fetch_add(1, Ordering::Relaxed);
            Taken::Done
        }
        Passed::Full => Taken::Waits,
        Passed::Refused => {
            reject(hub, context, identity, topic, Refusal::Mounted);
            Taken::Done
        }
    }
}

/// Returns why a topic with this name is always refused.
fn refusal_by_name(identity: &mut Identity, hub: &Hub, topic: &[u8]) -> Option<Refusal> {
    if topic.is_empty() || topic.len() > hub.config.topic_bytes_max {
        return Some(Refusal::Topic);
    }
    if topic[0] == b'_' && (is_reserved(topic) || is_reserved_channel(topic)) {
        return Some(Refusal::Reserved);
    }
    if hub.server.is_of_a_source(topic) && !hub.server.is_mounted(topic) {
        return Some(Refusal::Mounted);
    }
    if identity.is_free(&hub.server.access) {
        return None;
    }
    // The message writes a value and publishes it.
    let words: [[&[u8]; 3]; 2] = [[b"SET", topic, b""], [b"PUBLISH", topic, b""]];
    let mut words = words.iter();
    let is_denied = words.any(|words| identity.check(&hub.server, words).is_err());
    is_denied.then_some(Refusal::Permission)
}

fn reject(hub: &Hub, context: &Context, identity: &Identity, topic: &[u8], refusal: Refusal) {
    hub.pushes.note_refused(refusal, identity.address(), topic);
    hub.server.note_plain_refused(context.lane(), refusal);
}
