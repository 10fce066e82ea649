//! The sessions of one lane, and how they are served while one of them is in a long call.

use std::sync::atomic::Ordering;

use tidewire_lane::{Application, CloseReason, ConnectionId, Context, Peer};

use crate::application::port;
use crate::fanout::Fanout;
use crate::hub::{Hub, Mail};
use crate::refusals::refuse;
use crate::replication::LaneReplicas;
use crate::session::Session;
use crate::session::resp::{Pipeline, RespSession};
use crate::waiting::LaneWaiting;

/// The sessions of one lane.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// By the connection's index; a Redis client's is taken out while its requests are executed.
    pub(crate) by_index: Vec<Option<Session>>,
    /// Those of them that are replicas.
    pub(crate) replicas: LaneReplicas,
    /// Where Redis clients connect to, for CLIENT LIST.
    pub(crate) resp_address: String,
    /// Commands executed in this turn.
    pub(crate) turn_commands: u64,
    /// How long the rest of this turn takes is asked for.
    pub(crate) times_turn: bool,
    /// Connections of other protocols that were accepted during a long call.
    late: Vec<(ConnectionId, u16, Peer)>,
}

impl Sessions {
    pub(crate) fn new(resp_address: String) -> Self {
        Sessions {
            by_index: Vec::new(),
            replicas: LaneReplicas::default(),
            resp_address,
            turn_commands: 0,
            times_turn: false,
            late: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, id: ConnectionId, session: Session) {
        let index = id.index();
        if index >= self.by_index.len() {
            self.by_index.resize_with(index + 1, || None);
        }
        self.by_index[index] = Some(session);
    }

    /// Takes a Redis client's session out, to execute its requests with the others at hand.
    pub(crate) fn take_resp(&mut self, id: ConnectionId) -> Option<Box<RespSession>> {
        let slot = self.by_index.get_mut(id.index())?;
        match slot.take() {
            Some(Session::Resp(session)) => Some(session),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Puts it back.
    pub(crate) fn put_back(&mut self, id: ConnectionId, session: Box<RespSession>) {
        self.by_index[id.index()] = Some(Session::Resp(session));
    }

    /// A Redis client has connected.
    pub(crate) fn accept_resp(
        &mut self,
        hub: &Hub,
        context: &mut Context,
        id: ConnectionId,
        peer: &Peer,
    ) {
        if hub.turn_away(context, id, port::RESP, peer) {
            return;
        }
        let most = hub.parameters.clients_max.load(Ordering::Relaxed);
        if hub.clients.len() as u64 >= most {
            // It gets no session: it is told so, and ends.
            let text = refuse(hub, port::RESP);
            if let Some(out) = context.out(id) {
                out.buffer().extend_from_slice(&text);
            }
            return context.close_after_flush(id, CloseReason::Requested);
        }
        let local = match context.local_address(id) {
            Some(address) => address.to_string(),
            None => self.resp_address.clone(),
        };
        let (lane, unix_ns) = (context.lane(), context.unix_ns());
        let user = hub.access.default_user().clone();
        let client = hub
            .clients
            .connect(lane, id, peer.to_string(), local, unix_ns, user);
        let session = RespSession::new(hub, id, client);
        self.insert(id, Session::Resp(Box::new(session)));
    }

    /// Takes the connections that have no session yet.
    pub(crate) fn take_late(&mut self) -> Vec<(ConnectionId, u16, Peer)> {
        std::mem::take(&mut self.late)
    }
}

/// A lane in the middle of one client's long call: the other Redis clients are answered, everybody
/// else waits until the call has ended.
pub(crate) struct DuringCall<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) fanout: &'a mut Fanout,
    pub(crate) waiting: &'a mut LaneWaiting,
    pub(crate) pipeline: &'a mut Pipeline,
}

impl DuringCall<'_> {
    /// Whether a connection is served.
    pub(crate) fn serves(&self, id: ConnectionId) -> bool {
        let session = self.sessions.by_index.get(id.index());
        matches!(session, Some(Some(Session::Resp(_))))
    }
}

impl Application for DuringCall<'_> {
    type Mail = Mail;

    fn accepted(&mut self, context: &mut Context, id: ConnectionId, port: u16, peer: &Peer) {
        match port {
            port::RESP => self.sessions.accept_resp(self.hub, context, id, peer),
            _ => self.sessions.late.push((id, port, peer.clone())),
        }
    }

    fn refused(&mut self, port: u16) -> Vec<u8> {
        refuse(self.hub, port)
    }

    fn connected(&mut self, _: &mut Context, _: ConnectionId, _: u16) {}

    fn received(&mut self, context: &mut Context, id: ConnectionId, input: &[u8]) -> usize {
        let Some(mut session) = self.sessions.take_resp(id) else {
            return 0;
        };
        let (fanout, waiting) = (&mut *self.fanout, &mut *self.waiting);
        let (sessions, pipeline) = (&mut *self.sessions, &mut *self.pipeline);
        let consumed = session.received(
            self.hub, fanout, waiting, sessions, pipeline, context, input,
        );
        self.sessions.put_back(id, session);
        consumed
    }

    fn drained(&mut self, _: &mut Context, _: ConnectionId) {}

    fn closed(&mut self, _: &mut Context, _: ConnectionId, _: CloseReason) {}

    fn mail(&mut self, _: &mut Context, _: Mail) {}

    fn turn(&mut self, _: &mut Context) -> Option<u64> {
        None
    }
}
