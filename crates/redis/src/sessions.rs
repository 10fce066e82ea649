//! The Redis clients of one lane, and how they are served during another client's long call.

use std::sync::Arc;

use tidewire_fanout::Fanout;
use tidewire_lane::{Application, CloseReason, ConnectionId, Context, Peer};

use crate::RESP_PORT;
use crate::access::User;
use crate::mail::RedisMail;
use crate::other_sessions::{LaneParts, OtherSessions};
use crate::parameters::MAXCLIENTS;
use crate::replication::LaneReplicas;
use crate::server::Server;
use crate::session::{Pipeline, Relay, RespSession};
use crate::waiting::LaneWaiting;

/// The Redis clients of one lane.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// By the connection's index; one is taken out while its requests are executed.
    by_index: Vec<Option<Box<RespSession>>>,
    /// The replicas among them.
    pub(crate) replicas: LaneReplicas,
    /// Where Redis clients connect to, for CLIENT LIST.
    pub(crate) resp_address: String,
    /// Commands executed in this turn.
    pub(crate) turn_commands: u64,
    /// How long the rest of this turn takes is asked for.
    pub(crate) times_turn: bool,
    /// Connections of other protocols that were accepted during a long call.
    late: Vec<(ConnectionId, u16, Peer)>,
    /// Sessions of other protocols that are served during a long call.
    pub(crate) others: Option<Box<dyn OtherSessions>>,
    /// Clients that have changed users in this turn.
    pub(crate) users_changers: Vec<ConnectionId>,
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
            others: None,
            users_changers: Vec::new(),
        }
    }

    fn insert(&mut self, id: ConnectionId, session: Box<RespSession>) {
        let index = id.index();
        if index >= self.by_index.len() {
            self.by_index.resize_with(index + 1, || None);
        }
        debug_assert!(
            self.by_index[index].is_none(),
            "two clients have one connection"
        );
        self.by_index[index] = Some(session);
    }

    /// A client's session.
    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut RespSession> {
        self.by_index.get_mut(id.index())?.as_deref_mut()
    }

    /// All of them.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut RespSession> {
        self.by_index
            .iter_mut()
            .flatten()
            .map(|session| &mut **session)
    }

    /// Whether a connection is a Redis client's, whose requests are not being executed.
    pub(crate) fn serves(&self, id: ConnectionId) -> bool {
        matches!(self.by_index.get(id.index()), Some(Some(_)))
    }

    /// Takes a session out, to execute its requests with the others at hand.
    pub(crate) fn take(&mut self, id: ConnectionId) -> Option<Box<RespSession>> {
        let session = self.by_index.get_mut(id.index())?.take();
        debug_assert!(
            session
                .as_ref()
                .is_none_or(|session| session.client().connection == id),
            "a session is taken by its own connection"
        );
        session
    }

    /// Puts it back.
    pub(crate) fn put_back(&mut self, id: ConnectionId, session: Box<RespSession>) {
        debug_assert!(!self.serves(id), "two clients have one connection");
        debug_assert_eq!(
            session.client().connection,
            id,
            "a session goes back to its place"
        );
        self.by_index[id.index()] = Some(session);
    }

    /// A Redis client has connected.
    pub(crate) fn accept(
        &mut self,
        server: &Server,
        context: &mut Context,
        id: ConnectionId,
        peer: &Peer,
    ) {
        let house = server.house();
        if let Some(house) = &house
            && house.turn_away(context, id, RESP_PORT, peer)
        {
            return;
        }
        let most = server.parameters.read(MAXCLIENTS);
        if server.clients.len() as u64 >= most {
            // It gets no session, but an error, and its connection ends.
            if let (Some(house), Some(out)) = (house, context.out(id)) {
                out.buffer().extend_from_slice(&house.refuse(RESP_PORT));
            }
            return context.close_after_flush(id, CloseReason::Requested);
        }
        let local = match context.local_address(id) {
            Some(address) => address.to_string(),
            None => self.resp_address.clone(),
        };
        let (lane, unix_ns) = (context.lane(), context.unix_ns());
        debug_assert!(
            lane < server.config.lanes,
            "a client is on a lane that there is"
        );
        let user = server.access.default_user().clone();
        let client = server
            .clients
            .connect(lane, id, peer.to_string(), local, unix_ns, user);
        let address = &client.address;
        let certified = server.user_of_certificate(context, id, address);
        let mut session = RespSession::new(server, id, client);
        if let Some(user) = certified {
            session.become_user(server, user);
        }
        self.insert(id, Box::new(session));
    }

    /// Another protocol's session has opened a connection for its peer, which is this user already.
    pub(crate) fn accept_for(
        &mut self,
        server: &Server,
        context: &Context,
        (id, relay): (ConnectionId, Relay),
        (address, local): (String, String),
        user: Arc<User>,
    ) {
        let (lane, unix_ns) = (context.lane(), context.unix_ns());
        let clients = &server.clients;
        let default = server.access.default_user().clone();
        let client = clients.connect(lane, id, address, local, unix_ns, default);
        let mut session = RespSession::new(server, id, client);
        session.become_user(server, user);
        session.speak_resp3();
        session.reply_through(relay);
        self.insert(id, Box::new(session));
    }

    /// Takes the connections that have no session yet.
    pub(crate) fn take_late(&mut self) -> Vec<(ConnectionId, u16, Peer)> {
        std::mem::take(&mut self.late)
    }
}

/// A lane in the middle of one client's long call: it answers other Redis clients and web pages.
/// Clients of other protocols wait until the call has ended.
pub(crate) struct DuringCall<'a> {
    pub(crate) server: &'a Server,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) fanout: &'a mut Fanout,
    pub(crate) waiting: &'a mut LaneWaiting,
    pub(crate) pipeline: &'a mut Pipeline,
}

impl DuringCall<'_> {
    /// Whether a connection is served.
    pub(crate) fn serves(&self, id: ConnectionId) -> bool {
        let others = self.sessions.others.as_ref();
        self.sessions.serves(id) || others.is_some_and(|others| others.serves(id))
    }

    fn received_by_others(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        input: &[u8],
    ) -> usize {
        let Some(mut others) = self.sessions.others.take() else {
            return 0;
        };
        let lane = LaneParts {
            fanout: &mut *self.fanout,
            server: self.server,
            sessions: &mut *self.sessions,
        };
        let consumed = match others.serves(id) {
            true => others.received(lane, context, id, input),
            false => 0,
        };
        self.sessions.others = Some(others);
        consumed
    }
}

impl Application for DuringCall<'_> {
    type Mail = RedisMail;

    fn accepted(&mut self, context: &mut Context, id: ConnectionId, port: u16, peer: &Peer) {
        match port {
            RESP_PORT => self.sessions.accept(self.server, context, id, peer),
            _ => {
                let others = self.sessions.others.as_mut();
                if !others.is_some_and(|others| others.accepted(context, id, port, peer)) {
                    self.sessions.late.push((id, port, peer.clone()));
                }
            }
        }
    }

    fn refused(&mut self, port: u16) -> Vec<u8> {
        let house = self.server.house();
        house.map_or_else(Vec::new, |house| house.refuse(port))
    }

    fn connected(&mut self, _: &mut Context, _: ConnectionId, _: u16) {}

    fn received(&mut self, context: &mut Context, id: ConnectionId, input: &[u8]) -> usize {
        let Some(mut session) = self.sessions.take(id) else {
            return self.received_by_others(context, id, input);
        };
        let (fanout, waiting) = (&mut *self.fanout, &mut *self.waiting);
        let (sessions, pipeline) = (&mut *self.sessions, &mut *self.pipeline);
        let consumed = session.received(
            self.server,
            fanout,
            waiting,
            sessions,
            pipeline,
            context,
            input,
        );
        self.sessions.put_back(id, session);
        consumed
    }

    fn drained(&mut self, _: &mut Context, _: ConnectionId) {}

    fn closed(&mut self, _: &mut Context, _: ConnectionId, _: CloseReason) {}

    fn mail(&mut self, _: &mut Context, _: RedisMail) {}

    fn turn(&mut self, _: &mut Context) -> Option<u64> {
        None
    }
}
