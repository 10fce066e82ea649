//! Web pages on one lane.

use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, ConnectionId, Context, Peer};
use tracing::debug;

use super::HubLane;
use crate::session::Session;
use crate::session::web::{Around, WebMail, WebNews, WebSession};

impl HubLane {
    pub(super) fn accept_page(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        peer: &Peer,
    ) -> Session {
        let client = self.register(context, id, peer);
        let counter = &self.hub.web.counters.connections;
        counter.fetch_add(1, Ordering::Relaxed);
        Session::Web(Box::new(WebSession::new((id, client), peer, context)))
    }

    /// Takes input of a page. It is out of the table meanwhile, because it may open connections.
    pub(super) fn page_received(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        input: &[u8],
    ) -> usize {
        let slot = &mut self.sessions[id.index()];
        let Some(Session::Web(mut session)) = slot.take() else {
            return input.len();
        };
        let mut around = Around {
            hub: &self.hub,
            redis: &mut self.redis,
            context,
            opened: Vec::new(),
        };
        let consumed = session.received(&mut around, input);
        let opened = around.opened;
        if session.is_watching() {
            self.web.note_watcher(id);
        }
        self.sessions[id.index()] = Some(Session::Web(session));
        for (near, page) in opened {
            self.insert(near, Session::WebCalls(page));
        }
        consumed
    }

    /// Takes replies of a page's Redis session.
    pub(super) fn calls_received(
        &mut self,
        context: &mut Context,
        page: ConnectionId,
        input: &[u8],
    ) -> usize {
        match self.session(page) {
            Some(Session::Web(session)) if session.id() == page => session.replied(context, input),
            _ => input.len(),
        }
    }

    pub(super) fn end_calls(
        &mut self,
        context: &mut Context,
        page: ConnectionId,
        near: ConnectionId,
    ) {
        if let Some(Session::Web(session)) = self.session(page)
            && session.id() == page
        {
            session.calls_ended(context, near);
        }
    }

    pub(super) fn take_web_mail(&mut self, context: &mut Context, mail: WebMail) {
        match mail.0 {
            WebNews::Metrics(page, metrics) => {
                if let Some(Session::Web(session)) = self.session(page)
                    && session.id() == page
                {
                    session.take_metrics(context, metrics);
                }
            }
            WebNews::LoggedOut(login) => {
                for session in self.sessions.iter_mut().flatten() {
                    if let Session::Web(session) = session {
                        session.logged_out(&self.hub, &mut self.redis, context, login);
                    }
                }
            }
        }
    }

    /// Ends a page for CLIENT KILL. Returns whether the connection is a page's.
    pub(super) fn kill_page(&mut self, context: &mut Context, id: ConnectionId) -> bool {
        match self.sessions.get_mut(id.index()) {
            Some(Some(Session::Web(session))) if session.id() == id => {
                session.kill(&self.hub, &mut self.redis, context);
                true
            }
            _ => false,
        }
    }

    pub(super) fn page_drained(&mut self, context: &mut Context, id: ConnectionId) {
        if let Some(Some(Session::Web(session))) = self.sessions.get_mut(id.index()) {
            session.drained(context, &mut self.redis);
        }
    }

    pub(super) fn end_page(
        &mut self,
        context: &mut Context,
        session: WebSession,
        reason: CloseReason,
    ) {
        debug!(port = "web", address = %session.address(), reason = %reason.text(), "disconnected");
        let before = self
            .hub
            .web
            .counters
            .connections
            .fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a connection that ends was counted");
        session.closed(&self.hub, &mut self.redis, context);
    }
}
