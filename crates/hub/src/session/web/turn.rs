//! What a lane does for its pages in each turn: first values, and batches that are due.

use std::sync::atomic::Ordering;

use tidewire_fanout::Fanout;
use tidewire_lane::{ConnectionId, Context};
use tidewire_redis::earlier;
use tidewire_rows::{Place, Snapshot};

use super::{UNREAD_BYTES_MAX, WebSession};
use crate::hub::Hub;
use crate::session::Session;

/// A lane's room for messages to pages.
#[derive(Debug, Default)]
pub(crate) struct WebLane {
    json: Vec<u8>,
    /// What may still be written in this turn.
    budget: usize,
    /// Pages with views.
    viewers: Vec<ConnectionId>,
    /// Number of topics, as the counter has it.
    topics: u64,
}

impl WebLane {
    /// Notes that a page has views.
    pub(crate) fn note_viewer(&mut self, id: ConnectionId) {
        if !self.viewers.contains(&id) {
            self.viewers.push(id);
        }
    }

    /// Writes what is due, up to the maximum of a turn. Returns when the next turn is wanted.
    #[inline]
    pub(crate) fn turn(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        sessions: &mut [Option<Session>],
        context: &mut Context,
    ) -> Option<u64> {
        match fanout.rows.is_idle() && self.viewers.is_empty() {
            true => None,
            false => self.turn_busy(hub, fanout, sessions, context),
        }
    }

    fn turn_busy(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        sessions: &mut [Option<Session>],
        context: &mut Context,
    ) -> Option<u64> {
        let now_ns = context.now_ns();
        self.budget = BYTES_A_TURN;
        let mut deadline_ns = fanout.rows.sweep().then_some(now_ns);
        let mut has_more = false;
        for place in fanout.rows.snapping().to_vec() {
            has_more |= self.write_snapshot(hub, fanout, sessions, context, place);
        }
        let views_ns = self.turn_views(hub, fanout, sessions, context);
        fanout.rows.collect_due(now_ns);
        while self.budget > 0
            && let Some(place) = fanout.rows.take_ready()
        {
            self.write_batch(hub, fanout, sessions, context, place);
        }
        self.count_topics(hub, fanout.rows.len() as u64);
        let conflated = std::mem::take(&mut fanout.rows.conflated);
        if conflated > 0 {
            let counter = &hub.web.counters.conflated;
            counter.fetch_add(conflated, Ordering::Relaxed);
        }
        if has_more {
            deadline_ns = Some(now_ns);
        }
        deadline_ns = earlier(deadline_ns, views_ns);
        earlier(deadline_ns, fanout.rows.collect_due(now_ns))
    }

    fn turn_views(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        sessions: &mut [Option<Session>],
        context: &mut Context,
    ) -> Option<u64> {
        let mut again_ns = None;
        let mut viewers = std::mem::take(&mut self.viewers);
        viewers.retain(|id| {
            let session = page(sessions, (id.index(), 0));
            let session = session.filter(|one| one.id() == *id && one.has_views());
            let Some(stream) = session.and_then(WebSession::stream) else {
                return false;
            };
            let (at_ns, pages, rows) =
                stream.step_views(*id, &mut fanout.rows, context, &mut self.json);
            again_ns = earlier(again_ns, at_ns);
            let counters = &hub.web.counters;
            counters.batches.fetch_add(pages, Ordering::Relaxed);
            counters.rows.fetch_add(rows, Ordering::Relaxed);
            true
        });
        self.viewers = viewers;
        again_ns
    }

    fn count_topics(&mut self, hub: &Hub, topics: u64) {
        let before = std::mem::replace(&mut self.topics, topics);
        let counter = &hub.web.counters.topics;
        match topics.checked_sub(before) {
            Some(more) => counter.fetch_add(more, Ordering::Relaxed),
            None => counter.fetch_sub(before - topics, Ordering::Relaxed),
        };
    }

    /// Writes first values of a subscription. Returns whether there are more that could be written.
    fn write_snapshot(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        sessions: &mut [Option<Session>],
        context: &mut Context,
        place: Place,
    ) -> bool {
        let Some(session) = page(sessions, place) else {
            return false;
        };
        let id = session.id();
        loop {
            if context.out_bytes(id) > UNREAD_BYTES_MAX {
                context.watch_drain(id);
                return false;
            }
            if self.budget == 0 {
                return true;
            }
            let is_last = !fanout.owes(id);
            self.json.clear();
            let written = fanout.rows.write_snapshot(place, is_last, &mut self.json);
            if written == Snapshot::Nothing {
                return false;
            }
            self.send(hub, session, context);
            if written == Snapshot::Complete {
                return false;
            }
        }
    }

    fn write_batch(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        sessions: &mut [Option<Session>],
        context: &mut Context,
        place: Place,
    ) {
        let Some(session) = page(sessions, place) else {
            return;
        };
        let id = session.id();
        if context.out_bytes(id) > UNREAD_BYTES_MAX {
            if let Some(stream) = session.stream() {
                stream.stall(place.1);
            }
            return context.watch_drain(id);
        }
        self.json.clear();
        let now_ns = context.now_ns();
        let rows = fanout.rows.write_batch(place, now_ns, &mut self.json);
        self.budget = self.budget.saturating_sub(COST);
        if rows > 0 {
            let counter = &hub.web.counters.rows;
            counter.fetch_add(rows as u64, Ordering::Relaxed);
            self.send(hub, session, context);
        }
    }

    fn send(&mut self, hub: &Hub, session: &mut WebSession, context: &mut Context) {
        let id = session.id();
        self.budget = self.budget.saturating_sub(self.json.len() + COST);
        let counter = &hub.web.counters.batches;
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(stream) = session.stream() {
            stream.send(id, context, &self.json);
        }
        if self.json.capacity() > JSON_KEPT_BYTES {
            self.json = Vec::new();
        }
    }
}

fn page(sessions: &mut [Option<Session>], place: Place) -> Option<&mut WebSession> {
    match sessions.get_mut(place.0)? {
        Some(Session::Web(session)) => Some(session),
        _ => None,
    }
}

/// Bytes of messages to pages that a lane writes in a turn: about a millisecond.
const BYTES_A_TURN: usize = 1 << 20;
/// What a message costs beside its bytes.
const COST: usize = 256;
/// Memory that is kept for the next message.
const JSON_KEPT_BYTES: usize = 1 << 20;
