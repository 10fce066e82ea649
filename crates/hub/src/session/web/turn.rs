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
    /// Pages with views, the log, or names to let go.
    watchers: Vec<ConnectionId>,
    /// Number of topics, as the counter has it.
    topics: u64,
}

/// The lane in one turn.
#[derive(Debug)]
pub(crate) struct LaneTurn<'t> {
    pub(crate) hub: &'t Hub,
    pub(crate) fanout: &'t mut Fanout,
    pub(crate) sessions: &'t mut [Option<Session>],
    pub(crate) context: &'t mut Context,
}

impl LaneTurn<'_> {
    fn page(&mut self, place: Place) -> Option<&mut WebSession> {
        match self.sessions.get_mut(place.0)? {
            Some(Session::Web(session)) => Some(session),
            _ => None,
        }
    }

    fn count_written(&self, messages: u64, rows: u64) {
        let counters = &self.hub.web.counters;
        counters.batches.fetch_add(messages, Ordering::Relaxed);
        counters.rows.fetch_add(rows, Ordering::Relaxed);
    }
}

impl WebLane {
    /// Notes that a page has something to do in each turn.
    pub(crate) fn note_watcher(&mut self, id: ConnectionId) {
        if !self.watchers.contains(&id) {
            self.watchers.push(id);
        }
    }

    /// Writes what is due, up to the maximum of a turn. Returns when the next turn is wanted.
    #[inline]
    pub(crate) fn turn(&mut self, lane: &mut LaneTurn<'_>) -> Option<u64> {
        match lane.fanout.rows.is_idle() && self.watchers.is_empty() {
            true => None,
            false => self.turn_busy(lane),
        }
    }

    fn turn_busy(&mut self, lane: &mut LaneTurn<'_>) -> Option<u64> {
        let now_ns = lane.context.now_ns();
        self.budget = BYTES_A_TURN;
        let mut deadline_ns = lane.fanout.rows.sweep().then_some(now_ns);
        if lane.fanout.rows.take_freed(FREED_BYTES) > FREED_BYTES_LEAST {
            // Otherwise the allocator keeps what ended pages have held, for this lane only.
            tidewire_redis::give_memory_back();
        }
        let mut has_more = false;
        for place in lane.fanout.rows.snapping().to_vec() {
            has_more |= self.write_snapshot(lane, place);
        }
        let watchers_ns = self.turn_watchers(lane);
        lane.fanout.rows.collect_due(now_ns);
        while self.budget > 0
            && let Some(place) = lane.fanout.rows.take_ready()
        {
            self.write_batch(lane, place);
        }
        self.count(lane);
        if has_more {
            deadline_ns = Some(now_ns);
        }
        deadline_ns = earlier(deadline_ns, watchers_ns);
        earlier(deadline_ns, lane.fanout.rows.collect_due(now_ns))
    }

    fn turn_watchers(&mut self, lane: &mut LaneTurn<'_>) -> Option<u64> {
        let mut again_ns = None;
        let mut watchers = std::mem::take(&mut self.watchers);
        let lines = &lane.hub.config.web.log_lines;
        watchers.retain(|id| {
            let LaneTurn {
                fanout, context, ..
            } = lane;
            let Some(Some(Session::Web(session))) = lane.sessions.get_mut(id.index()) else {
                return false;
            };
            if session.id() != *id || !session.is_watching() {
                return false;
            }
            let Some(stream) = session.stream() else {
                return false;
            };
            let at_ns = stream.step_ended(*id, fanout, context.now_ns());
            again_ns = earlier(again_ns, at_ns);
            let (at_ns, pages, rows) =
                stream.step_views(*id, &mut fanout.rows, context, &mut self.json);
            again_ns = earlier(again_ns, at_ns);
            let (at_ns, is_written) = stream.step_log(*id, lines, context, &mut self.json);
            again_ns = earlier(again_ns, at_ns);
            lane.count_written(pages + u64::from(is_written), rows);
            true
        });
        self.watchers = watchers;
        again_ns
    }

    fn count(&mut self, lane: &mut LaneTurn<'_>) {
        let counters = &lane.hub.web.counters;
        let topics = lane.fanout.rows.len() as u64;
        let before = std::mem::replace(&mut self.topics, topics);
        match topics.checked_sub(before) {
            Some(more) => counters.topics.fetch_add(more, Ordering::Relaxed),
            None => counters
                .topics
                .fetch_sub(before - topics, Ordering::Relaxed),
        };
        let conflated = std::mem::take(&mut lane.fanout.rows.conflated);
        if conflated > 0 {
            counters.conflated.fetch_add(conflated, Ordering::Relaxed);
        }
    }

    /// Writes first values of a subscription. Returns whether there are more that could be written.
    fn write_snapshot(&mut self, lane: &mut LaneTurn<'_>, place: Place) -> bool {
        let Some(id) = lane.page(place).map(|session| session.id()) else {
            return false;
        };
        loop {
            if lane.context.out_bytes(id) > UNREAD_BYTES_MAX {
                lane.context.watch_drain(id);
                return false;
            }
            if self.budget == 0 {
                return true;
            }
            let is_last = !lane.fanout.owes(id);
            self.json.clear();
            let rows = &mut lane.fanout.rows;
            let written = rows.write_snapshot(place, is_last, &mut self.json);
            if written == Snapshot::Nothing {
                return false;
            }
            self.send(lane, place, 0);
            if written == Snapshot::Complete {
                return false;
            }
        }
    }

    fn write_batch(&mut self, lane: &mut LaneTurn<'_>, place: Place) {
        let Some(id) = lane.page(place).map(|session| session.id()) else {
            return;
        };
        if lane.context.out_bytes(id) > UNREAD_BYTES_MAX {
            if let Some(stream) = lane.page(place).and_then(WebSession::stream) {
                stream.stall(place.1);
            }
            return lane.context.watch_drain(id);
        }
        self.json.clear();
        let now_ns = lane.context.now_ns();
        let rows = lane.fanout.rows.write_batch(place, now_ns, &mut self.json);
        self.budget = self.budget.saturating_sub(COST);
        if rows > 0 {
            self.send(lane, place, rows as u64);
        }
    }

    fn send(&mut self, lane: &mut LaneTurn<'_>, place: Place, rows: u64) {
        self.budget = self.budget.saturating_sub(self.json.len() + COST);
        lane.count_written(1, rows);
        let context = &mut *lane.context;
        if let Some(Some(Session::Web(session))) = lane.sessions.get_mut(place.0) {
            let id = session.id();
            if let Some(stream) = session.stream() {
                stream.send(id, context, &self.json);
            }
        }
        if self.json.capacity() > JSON_KEPT_BYTES {
            self.json = Vec::new();
        }
    }
}

/// Bytes of messages to pages that a lane writes in a turn: about a millisecond.
const BYTES_A_TURN: usize = 1 << 20;
/// Bytes freed by ended pages after which they are given back to the system, which takes about
/// 30 µs per MiB; and the least if no topic is left.
const FREED_BYTES: usize = 32 << 20;
const FREED_BYTES_LEAST: usize = 4 << 20;
/// What a message costs beside its bytes.
const COST: usize = 256;
/// Memory that is kept for the next message.
const JSON_KEPT_BYTES: usize = 1 << 20;
