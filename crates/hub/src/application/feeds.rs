//! Feeds of a lane: the native feeds that it reads, and the clients that follow the journal.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use tidewire_feed::server::Steps;
use tidewire_lane::{ConnectionId, Context};
use tidewire_market::{FeedSession, Source};

use tidewire_redis::earlier;

use super::HubLane;
use crate::session::Session;

impl HubLane {
    /// Sends new messages of the journal to the feed clients. Returns when one of them must be
    /// served again.
    pub(super) fn serve_feed_clients(&mut self, context: &mut Context) -> Option<u64> {
        self.hub.market.feed_seen(self.lane);
        let next = self.hub.market.journal_next.load(Ordering::Acquire);
        let clients = self.feed_clients.len();
        let parts = self.hub.market.databento.parts.load(Ordering::Acquire);
        if next != self.feed_served || parts != self.parts_served {
            debug_assert!(self.feed_served <= next, "the journal only grows");
            (self.feed_served, self.parts_served) = (next, parts);
            self.feed_left = clients;
        }
        if self.hub.market.databento.unfinished.load(Ordering::Relaxed) > 0 {
            self.feed_left = clients;
        }
        let mut deadline_ns = None;
        if self.hub.market.config.faults.is_some() {
            deadline_ns = self.resume_feed_clients(context);
        }
        let mut bytes = 0;
        while self.feed_left > 0 && bytes < FEED_BYTES_A_TURN {
            self.feed_left -= 1;
            debug_assert!(clients > 0, "a turn is a client's");
            self.feed_turn = (self.feed_turn + 1) % clients;
            let id = self.feed_clients[self.feed_turn];
            let before = context.out_bytes(id);
            match self.sessions.get_mut(id.index()) {
                Some(Some(Session::Databento(session))) => {
                    session.produce(&self.hub.market, context);
                    if session.is_unfinished() {
                        bytes += UNFINISHED_COST;
                    }
                }
                Some(Some(Session::Feed(session))) => {
                    session.produce(&self.hub.market, context, &mut Steps::none());
                    list_unfinished(&mut self.unfinished, session);
                    deadline_ns =
                        earlier(deadline_ns, session.resume_ns(&self.hub.market, context));
                }
                _ => {}
            }
            bytes += context.out_bytes(id).saturating_sub(before);
        }
        let unfinished = self.hub.market.databento.unfinished.load(Ordering::Relaxed);
        if self.feed_left > 0 || clients > 0 && unfinished > 0 {
            // The other clients are served after the output has been sent and input has been read.
            deadline_ns = Some(context.now_ns());
        }
        deadline_ns
    }

    /// Continues what feed clients have left unfinished, such as the search for the symbols of
    /// their patterns. Returns when to continue.
    pub(super) fn continue_unfinished(&mut self, context: &mut Context) -> Option<u64> {
        let (mut steps, mut bytes) = (Steps::new(STEPS_A_TURN), 0);
        for _ in 0..self.unfinished.len() {
            if steps.are_used_up() || bytes >= FEED_BYTES_A_TURN {
                break;
            }
            let Some(id) = self.unfinished.pop_front() else {
                break;
            };
            // The place of a connection that has ended may be another one's.
            let session = match self.sessions.get_mut(id.index()) {
                Some(Some(Session::Feed(session))) if session.id() == id => session,
                _ => continue,
            };
            let before = context.out_bytes(id);
            let mut share = steps.take(STEPS_A_TURN / CLIENTS_A_TURN);
            session.produce(&self.hub.market, context, &mut share);
            steps.give(share);
            bytes += context.out_bytes(id).saturating_sub(before);
            if session.stays_unfinished() {
                self.unfinished.push_back(id);
            }
        }
        (!self.unfinished.is_empty()).then_some(context.now_ns())
    }

    /// Goes on with what events of sources and publishers do to all their topics. Returns when to
    /// continue.
    pub(super) fn continue_sweeps(&mut self, context: &mut Context) -> Option<u64> {
        let mut sources = self.sources.iter();
        if self.swept.is_empty() && !sources.any(Source::is_sweeping) {
            return None;
        }
        if context.now_ns() < self.sweep_on_ns {
            return Some(self.sweep_on_ns);
        }
        let mut steps = Steps::new(STEPS_A_TURN);
        for index in 0..self.sources.len() {
            if self.sources[index].is_sweeping() && !steps.are_used_up() {
                let news = self.sources[index].sweep(context, &mut steps);
                self.distribute(context, news);
            }
        }
        for _ in 0..self.swept.len() {
            if steps.are_used_up() {
                break;
            }
            let Some(id) = self.swept.pop_front() else {
                break;
            };
            // The place of a connection that has ended may be another one's.
            let session = match self.sessions.get_mut(id.index()) {
                Some(Some(Session::Feed(session))) if session.id() == id => session,
                _ => continue,
            };
            let news = session.sweep(context, &mut steps);
            if session.stays_swept() {
                self.swept.push_back(id);
            }
            self.distribute(context, news);
        }
        let pause_ns = self.hub.market.slice_pause().as_nanos() as u64;
        self.sweep_on_ns = context.now_ns() + pause_ns;
        let mut sources = self.sources.iter();
        let is_left = !self.swept.is_empty() || sources.any(Source::is_sweeping);
        is_left.then_some(self.sweep_on_ns)
    }

    /// Requests what publishers have lost, where it is due. Returns when to look again.
    pub(super) fn recover(&mut self, context: &mut Context) -> Option<u64> {
        let (mut next_ns, now_ns) = (None, context.now_ns());
        for id in std::mem::take(&mut self.recovering) {
            // The place of a connection that has ended may be another one's.
            let session = match self.sessions.get_mut(id.index()) {
                Some(Some(Session::Feed(session))) if session.id() == id => session,
                _ => continue,
            };
            let due_ns = session.recovery_deadline_ns();
            let (deadline_ns, news) = match due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
                true => {
                    let news = session.timeout(&self.hub.market, context);
                    (session.recovery_deadline_ns(), Some(news))
                }
                false => (due_ns, None),
            };
            list_unfinished(&mut self.unfinished, session);
            list_swept(&mut self.swept, session);
            if deadline_ns.is_some() {
                self.recovering.push(id);
            } else {
                session.set_recovering(false);
            }
            next_ns = earlier(next_ns, deadline_ns);
            if let Some(news) = news {
                self.distribute(context, news);
            }
        }
        next_ns
    }

    /// Sends output that faults have delayed, where it is due.
    fn resume_feed_clients(&mut self, context: &mut Context) -> Option<u64> {
        let mut deadline_ns = None;
        for &id in &self.feed_clients {
            let session = self.sessions.get_mut(id.index());
            if let Some(Some(Session::Feed(session))) = session {
                let resume_ns = session.resume_ns(&self.hub.market, context);
                if resume_ns.is_some_and(|time_ns| time_ns <= context.now_ns()) {
                    session.produce(&self.hub.market, context, &mut Steps::none());
                    list_unfinished(&mut self.unfinished, session);
                }
                deadline_ns = earlier(deadline_ns, session.resume_ns(&self.hub.market, context));
            }
        }
        deadline_ns
    }

    /// Removes a client of the journal, and updates whether this lane must be notified of its
    /// growth.
    pub(super) fn leave_feed(&mut self, id: ConnectionId) {
        self.feed_clients.retain(|&other| other != id);
        let serves = !self.feed_clients.is_empty() || self.lines_out.is_some();
        self.hub.market.set_feed_lane(self.lane, serves);
    }

    pub(super) fn turn_sources(&mut self, context: &mut Context) -> Option<u64> {
        let mut deadline_ns = None;
        for index in 0..self.sources.len() {
            let news = self.sources[index].turn(context);
            self.distribute(context, news);
            deadline_ns = earlier(deadline_ns, Some(self.sources[index].deadline_ns()));
        }
        deadline_ns
    }
}

/// Lists a session that has left something unfinished.
pub(super) fn list_unfinished(list: &mut VecDeque<ConnectionId>, session: &mut FeedSession) {
    if session.joins_unfinished() {
        list.push_back(session.id());
    }
}

/// Lists a publisher of which an event has not reached all topics yet.
pub(super) fn list_swept(list: &mut VecDeque<ConnectionId>, session: &mut FeedSession) {
    if session.joins_swept() {
        list.push_back(session.id());
    }
}

/// Steps of a turn for the searches of all feed clients, and as many for what events do to topics:
/// less than a millisecond.
const STEPS_A_TURN: u64 = 1 << 17;
/// How many clients that search share them.
const CLIENTS_A_TURN: u64 = 4;
/// Maximum number of bytes written to feed clients before the lane serves all others, so that many
/// slow clients delay neither heartbeats nor Redis clients.
const FEED_BYTES_A_TURN: usize = 16 << 20;
/// What a client of the gateway that has more to send costs of it, beside its output: the messages
/// it looks at may not be for it.
const UNFINISHED_COST: usize = 8 << 20;
