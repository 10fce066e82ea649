//! What PUSH peers send: each message becomes a key's value, by way of the write gate.

use std::sync::atomic::Ordering;

use tidewire_keyspace::{Command, CommandError, is_reserved, lookup};
use tidewire_lane::Context;
use tidewire_resp::ArgumentList;

use super::peer::Identity;
use crate::attention::Obstacles;
use crate::gate::{PlainWrite, Refusal, Verdict};
use crate::hub::Hub;
use crate::live::{LiveObserver, is_reserved_channel};
use crate::monitor::Giver;
use crate::session::resp::{Stopwatch, note_slow};

/// The message being gathered on the ingest port.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    /// Its first frame.
    topic: Vec<u8>,
    frames: usize,
    /// The message that waits at the gate.
    waiting: Option<Box<(Vec<u8>, Vec<u8>)>>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Taken {
    /// It was stored, or left out.
    Done,
    /// It waits at the gate: nothing more may be read.
    Waits,
}

impl Pushed {
    /// Gathers `[topic][payload]`; a message of any other form is counted and left out.
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
                // One byte more than allowed is enough to tell that it is too long.
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

    /// Gives the message that waits, if one does, to the gate again.
    pub(super) fn resume(
        &mut self,
        identity: &mut Identity,
        hub: &Hub,
        context: &mut Context,
    ) -> Taken {
        let Some(message) = self.waiting.take() else {
            return Taken::Done;
        };
        let taken = ingest(identity, hub, context, &message.0, &message.1);
        if taken == Taken::Waits {
            self.waiting = Some(message);
        }
        taken
    }

    /// The connection has ended.
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
    let now_ms = (context.unix_ns() / 1_000_000) as i64;
    if let Some(refusal) = refusal_by_name(identity, hub, topic) {
        reject(hub, context, identity, topic, refusal);
        return Taken::Done;
    }
    if hub.is_gated() {
        if hub.write_wait(now_ms).is_some() {
            return Taken::Waits;
        }
        match hub.verdict(context, &PlainWrite) {
            Verdict::Go => {}
            Verdict::Wait(_) => return Taken::Waits,
            Verdict::Refused(refusal) => {
                reject(hub, context, identity, topic, refusal);
                return Taken::Done;
            }
        }
    }
    let set = set_command();
    let stopwatch = set.map(|set| Stopwatch::start(hub, context.lane(), set));
    let published = hub
        .keyspace
        .publish_value(0, topic, payload, now_ms, &mut LiveObserver(hub));
    match published {
        Ok(()) => {}
        // They began to be loaded behind the gate.
        Err(CommandError::Loading) => return Taken::Waits,
        Err(_) => {
            reject(hub, context, identity, topic, Refusal::Mounted);
            return Taken::Done;
        }
    }
    hub.pushes.taken.fetch_add(1, Ordering::Relaxed);
    hub.commands.fetch_add(1, Ordering::Relaxed);
    let ns = stopwatch.and_then(|stopwatch| stopwatch.stop(hub));
    let is_slow = ns.is_some_and(|ns| ns >= hub.parameters.slow_from_ns.load(Ordering::Relaxed));
    let is_shown = hub.attention.has(Obstacles::MONITORED);
    if is_slow || is_shown {
        let words = ArgumentList::from_slices(&[b"SET", topic, payload]);
        let words = words.as_arguments();
        if is_shown {
            hub.show_command(Giver::Client(identity.address()), 0, words, |_| false);
        }
        if let (true, Some(ns), Some(set)) = (is_slow, ns, set) {
            note_slow(hub, set, words, ns, identity.address(), String::new);
        }
    }
    Taken::Done
}

/// Why a topic of this name is refused in every state of the server.
fn refusal_by_name(identity: &mut Identity, hub: &Hub, topic: &[u8]) -> Option<Refusal> {
    if topic.is_empty() || topic.len() > hub.config.topic_bytes_max {
        return Some(Refusal::Topic);
    }
    if topic[0] == b'_' && (is_reserved(topic) || is_reserved_channel(topic)) {
        return Some(Refusal::Reserved);
    }
    if identity.is_free(&hub.access) {
        return None;
    }
    // It writes a value and publishes it.
    let words: [[&[u8]; 3]; 2] = [[b"SET", topic, b""], [b"PUBLISH", topic, b""]];
    let mut words = words.iter();
    let is_denied = words.any(|words| identity.check(hub, words).is_err());
    is_denied.then_some(Refusal::Permission)
}

fn reject(hub: &Hub, context: &Context, identity: &Identity, topic: &[u8], refusal: Refusal) {
    hub.pushes.note_refused(refusal, identity.address(), topic);
    hub.note_error(refusal.text());
    if let Some(set) = set_command() {
        hub.statistics.of(context.lane(), set).rejected();
    }
}

/// What each message counts as.
fn set_command() -> Option<&'static Command> {
    thread_local! {
        static SET: Option<&'static Command> = lookup(b"set");
    }
    SET.with(|set| *set)
}
