//! Web pages on one lane.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, ConnectionId, Context, Peer};
use tidewire_redis::{LaneParts, OtherClient};
use tracing::debug;

use super::HubLane;
use crate::hub::Hub;
use crate::session::Session;
use crate::session::web::{Around, WebMail, WebNews, WebSession};

/// What became of a page's input.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) consumed: usize,
    /// Whether the page has views or the log.
    pub(super) is_watching: bool,
    /// Connections that it has opened, each with its own.
    pub(super) opened: Vec<(ConnectionId, ConnectionId)>,
}

/// Registers a client for CLIENT KILL.
pub(super) fn register(
    hub: &Hub,
    lane: usize,
    context: &Context,
    id: ConnectionId,
    peer: &Peer,
) -> Arc<OtherClient> {
    let local = context.local_address(id).map_or(Peer::Local, Peer::Tcp);
    let addresses = (peer.to_string(), local.to_string());
    let clients = &hub.server.other_clients;
    clients.connect((lane, id), addresses, context.unix_ns())
}

/// Begins the session of a page.
pub(super) fn accept_page(
    hub: &Hub,
    lane: usize,
    context: &mut Context,
    id: ConnectionId,
    peer: &Peer,
) -> Session {
    let client = register(hub, lane, context, id, peer);
    let counter = &hub.web.counters.connections;
    counter.fetch_add(1, Ordering::Relaxed);
    Session::Web(Box::new(WebSession::new((id, client), peer, context)))
}

/// Takes input of a page. It is out of the table meanwhile, because it may open connections. `busy`
/// is why commands are refused, if a script holds the lane.
pub(super) fn take_page_input(
    hub: &Arc<Hub>,
    sessions: &mut [Option<Session>],
    lane: LaneParts<'_>,
    (context, id): (&mut Context, ConnectionId),
    (input, busy): (&[u8], Option<&'static str>),
) -> Taken {
    let slot = sessions.get_mut(id.index());
    let Some(Session::Web(mut session)) = slot.and_then(Option::take) else {
        return Taken {
            consumed: input.len(),
            is_watching: false,
            opened: Vec::new(),
        };
    };
    let mut around = Around {
        hub,
        lane,
        context,
        opened: Vec::new(),
        busy,
    };
    let taken = Taken {
        consumed: session.received(&mut around, input),
        is_watching: session.is_watching(),
        opened: around.opened,
    };
    sessions[id.index()] = Some(Session::Web(session));
    taken
}

/// Takes replies of a page's Redis session.
pub(super) fn take_calls_input(
    sessions: &mut [Option<Session>],
    context: &mut Context,
    page: ConnectionId,
    input: &[u8],
) -> usize {
    match sessions.get_mut(page.index()) {
        Some(Some(Session::Web(session))) if session.id() == page => {
            session.replied(context, input)
        }
        _ => input.len(),
    }
}

impl HubLane {
    pub(super) fn page_received(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        input: &[u8],
    ) -> usize {
        let lane = self.redis.parts();
        let sessions = &mut self.sessions;
        let taken = take_page_input(&self.hub, sessions, lane, (context, id), (input, None));
        if taken.is_watching {
            self.web.note_watcher(id);
        }
        for (near, page) in taken.opened {
            self.insert(near, Session::WebCalls(page));
        }
        taken.consumed
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
                        session.logged_out(&self.hub, &mut self.redis.fanout, context, login);
                    }
                }
            }
        }
    }

    /// Ends a page for CLIENT KILL. Returns whether the connection is a page's.
    pub(super) fn kill_page(&mut self, context: &mut Context, id: ConnectionId) -> bool {
        match self.sessions.get_mut(id.index()) {
            Some(Some(Session::Web(session))) if session.id() == id => {
                session.kill(&self.hub, &mut self.redis.fanout, context);
                true
            }
            _ => false,
        }
    }

    pub(super) fn page_drained(&mut self, context: &mut Context, id: ConnectionId) {
        if let Some(Some(Session::Web(session))) = self.sessions.get_mut(id.index()) {
            session.drained(context, &mut self.redis.fanout);
        }
    }

    pub(super) fn end_page(
        &mut self,
        context: &mut Context,
        session: WebSession,
        reason: CloseReason,
    ) {
        debug!(port = "web", address = %session.address(), reason = %reason.text(), "disconnected");
        let connections = &self.hub.web.counters.connections;
        let before = connections.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a connection that ends was counted");
        session.closed(&self.hub, &mut self.redis.fanout, context);
    }
}
