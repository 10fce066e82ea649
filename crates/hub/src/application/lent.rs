//! The lane's sessions while Redis works: a script that runs for too long serves web pages among
//! them from within.

use std::any::Any;
use std::sync::Arc;

use tidewire_lane::{ConnectionId, Context, Peer};
use tidewire_redis::{LaneParts, OtherSessions};

use super::HubLane;
use super::web::{accept_page, take_calls_input, take_page_input};
use crate::hub::Hub;
use crate::port;
use crate::session::Session;

/// The sessions, lent for the time of a call into the Redis server.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) hub: Arc<Hub>,
    pub(super) lane: usize,
    pub(super) sessions: Vec<Option<Session>>,
    /// Number of sessions with timeouts that were added.
    pub(super) added: usize,
    /// Pages with views or the log that were served.
    pub(super) watchers: Vec<ConnectionId>,
}

impl OtherSessions for Lent {
    fn serves(&self, id: ConnectionId) -> bool {
        match self.sessions.get(id.index()) {
            Some(Some(Session::Web(session))) => session.id() == id,
            Some(Some(Session::WebCalls(_))) => true,
            _ => false,
        }
    }

    fn accepted(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        port: u16,
        peer: &Peer,
    ) -> bool {
        if port != port::WEB {
            return false;
        }
        if !self.hub.turn_away(context, id, port, peer) {
            let session = accept_page(&self.hub, self.lane, context, id, peer);
            self.insert(id, session);
        }
        true
    }

    fn received(
        &mut self,
        lane: LaneParts<'_>,
        context: &mut Context,
        id: ConnectionId,
        input: &[u8],
    ) -> usize {
        if let Some(Some(Session::WebCalls(page))) = self.sessions.get(id.index()) {
            let page = *page;
            return take_calls_input(&mut self.sessions, context, page, input);
        }
        let busy = self.hub.server.busy_text();
        let place = (context, id);
        let taken = take_page_input(&self.hub, &mut self.sessions, lane, place, (input, busy));
        if taken.is_watching && !self.watchers.contains(&id) {
            self.watchers.push(id);
        }
        for (near, page) in taken.opened {
            self.insert(near, Session::WebCalls(page));
        }
        taken.consumed
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Lent {
    fn insert(&mut self, id: ConnectionId, session: Session) {
        self.added += usize::from(session.is_timed());
        let index = id.index();
        if index >= self.sessions.len() {
            self.sessions.resize_with(index + 1, || None);
        }
        debug_assert!(
            self.sessions[index].is_none(),
            "two sessions have one connection"
        );
        self.sessions[index] = Some(session);
    }
}

impl HubLane {
    /// Lends the sessions to the Redis server, which may run a script in what it is asked next.
    #[inline]
    pub(super) fn lend_sessions(&mut self) {
        let lent = self.redis.others().map(OtherSessions::as_any);
        if let Some(lent) = lent.and_then(<dyn Any>::downcast_mut::<Lent>) {
            debug_assert!(lent.sessions.is_empty(), "sessions are lent once");
            std::mem::swap(&mut lent.sessions, &mut self.sessions);
        }
    }

    /// Takes the sessions back.
    #[inline]
    pub(super) fn take_sessions_back(&mut self) {
        let lent = self.redis.others().map(OtherSessions::as_any);
        if let Some(lent) = lent.and_then(<dyn Any>::downcast_mut::<Lent>) {
            debug_assert!(self.sessions.is_empty(), "sessions are taken back once");
            std::mem::swap(&mut lent.sessions, &mut self.sessions);
            if lent.added > 0 || !lent.watchers.is_empty() {
                self.timed_sessions += std::mem::take(&mut lent.added);
                let watchers = std::mem::take(&mut lent.watchers);
                watchers
                    .into_iter()
                    .for_each(|id| self.web.note_watcher(id));
            }
        }
    }
}
