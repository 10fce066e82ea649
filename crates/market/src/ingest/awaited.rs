//! Symbols whose values another source or session has left, and that a session has defined and
//! given nothing since.
//!
//! Such a session does not own the topic, so it does not mark it when messages are missing. If it
//! ends without a value, the next one must know of the loss: trades of the symbol may be among
//! those messages.
//!
//! Nor does it keep another source from going on with the topic. But a publisher that has only
//! restarted goes on with its own topic: while it is connected, its value is not left to others.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::apply::Work;
use crate::topic::Topic;

/// Sessions of sources that miss messages, or have lost them for good.
#[derive(Debug, Default)]
pub(crate) struct LossySessions(Mutex<BTreeSet<u64>>);

impl LossySessions {
    /// Notes that a session misses messages. Beyond the limit the oldest connection is forgotten.
    pub(super) fn add(&self, session: u64) {
        let mut sessions = self.0.lock();
        sessions.insert(session);
        if sessions.len() > LOSSY_SESSIONS_MAX {
            sessions.pop_first();
        }
    }

    /// Notes that a session has all messages, or values that replace them.
    pub(super) fn remove(&self, session: u64) {
        self.0.lock().remove(&session);
    }

    fn contains(&self, session: u64) -> bool {
        self.0.lock().contains(&session)
    }
}

/// Sessions of connected sources that may go on with a topic that they have left.
#[derive(Debug, Default)]
pub(crate) struct ReturningSessions(Mutex<BTreeSet<u64>>);

impl ReturningSessions {
    /// Notes that a session's source is connected.
    pub(super) fn add(&self, session: u64) {
        self.0.lock().insert(session);
    }

    /// Notes that a session's source has left, or that the session has ended.
    pub(super) fn remove(&self, session: u64) {
        self.0.lock().remove(&session);
    }

    fn contains(&self, session: u64) -> bool {
        self.0.lock().contains(&session)
    }
}

impl Work<'_> {
    /// Notes that the source, `feed`, has defined a symbol whose value a source of this name has
    /// left: it has only restarted.
    pub(super) fn note_return(&self, name: &Topic, feed: &str) {
        let facts = name.facts();
        let is_left = self.slot_owner(name).is_none() && facts.venue.is_some();
        let returning = &self.market.returning_sessions;
        if is_left && *facts.source_name == *feed && !returning.contains(name.returning_session()) {
            returning.add(*self.session);
            name.returns_in(*self.session);
        }
    }

    /// Returns whether another source is connected that may go on with a topic that it has left.
    pub(super) fn is_of_returning(&self, topic: &Topic) -> bool {
        let session = topic.returning_session();
        session != *self.session && self.market.returning_sessions.contains(session)
    }

    /// Notes that the source has defined a symbol: it may have trades of the topics that another
    /// source or session has left.
    pub(super) fn await_value(&self, name: &Arc<Topic>) {
        let note = |topic: &Topic| {
            let is_left = self.slot_owner(topic).is_none() && topic.facts().venue.is_some();
            // What a session has lost stays lost in the next one.
            if is_left && !self.market.lossy_sessions.contains(topic.awaited_session()) {
                topic.awaits(*self.session);
            }
        };
        note(name);
        name.with_members(|venues| venues.iter().for_each(|venue| note(&venue.topic)));
    }

    /// Tells that messages are lost if a session has defined the topic's symbol, has missed
    /// messages, and has left it without a value. The one that this source gives now has
    /// `source_time_ns`.
    pub(super) fn end_wait(&mut self, topic: &Topic, source_time_ns: u64) {
        let session = topic.awaited_session();
        if session == 0 {
            return;
        }
        topic.awaits(0);
        // What this session misses itself is told when its doubt ends.
        let is_own = session == *self.session;
        if !is_own && self.market.lossy_sessions.contains(session) {
            self.tell_lost(topic, source_time_ns);
        }
    }
}

/// Maximum sessions of which a loss is remembered: half a MiB and a few.
const LOSSY_SESSIONS_MAX: usize = 1 << 16;
