//! The hub on one lane: ports, sessions of every protocol, and the work of each turn.

mod feeds;
mod lent;
mod plants;
mod web;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_fanout::Dispatch;
use tidewire_feed::server::Steps;
use tidewire_lane::{Application, CloseReason, ConnectionId, Context, Endpoint, Peer};
use tidewire_market::{BarClock, DatabentoSession, Exchange, FeedSession, LinesOut, Source};
use tidewire_plant::PlantLink;
use tidewire_redis::{OtherClient, RedisLane, RedisMail, earlier};
use tracing::debug;

use crate::hub::{Hub, Mail};
use crate::port;
use crate::pushes::Parked;
use crate::session::Session;
use crate::session::feed_user::HubUser;
use crate::session::web::{LaneTurn, WebLane};
use crate::session::zmq::{Around, Port, ZmqSession};
use lent::Lent;

/// One lane's part of the hub.
#[derive(Debug)]
pub struct HubLane {
    hub: Arc<Hub>,
    lane: usize,
    redis: RedisLane,
    /// Sessions of all protocols except Redis's, by the index of the connection.
    sessions: Vec<Option<Session>>,
    /// Pushers that wait for the write gate.
    parked: Parked,
    /// Feeds that this lane reads.
    sources: Vec<Source>,
    /// The connection to the plant, on the lane that has it.
    plant: Option<PlantLink>,
    /// This lane's feed clients, which are served when the journal grows.
    feed_clients: Vec<ConnectionId>,
    /// The journal's next sequence when the feed clients were last served.
    feed_served: u64,
    /// Number of recording parts given to replays at that time.
    parts_served: u64,
    /// The feed client that is served next, and how many have not been served since then.
    feed_turn: usize,
    feed_left: usize,
    /// When the timeouts of sessions are checked next, monotonic ns.
    sweep_ns: u64,
    /// Number of sessions with timeouts.
    timed_sessions: usize,
    /// Publishers with missing messages, whose requests are due before the next check.
    recovering: Vec<ConnectionId>,
    /// Feed clients that have more to send or to search, each once. They are served in turn.
    unfinished: VecDeque<ConnectionId>,
    /// Publishers of which an event has not reached all topics yet, each once.
    swept: VecDeque<ConnectionId>,
    /// When the next slice of what events do to topics is due, monotonic ns.
    sweep_on_ns: u64,
    /// What this lane writes to web pages.
    web: WebLane,
    exchange: Option<Exchange>,
    /// Closes bars by the wall clock, on the lane that does so.
    bar_clock: Option<BarClock>,
    /// The hub's own stream in datagrams, if this lane sends it.
    lines_out: Option<LinesOut>,
    /// The journal's next sequence when other lanes were last notified.
    feed_announced: u64,
}

impl HubLane {
    /// Creates the part of lane `lane`.
    pub fn new(hub: Arc<Hub>, lane: usize, resp: Option<&Endpoint>) -> Self {
        assert!(lane < hub.config.redis.lanes, "a lane of the configuration");
        let mine = hub.config.market.sources.iter().enumerate();
        let lanes = hub.config.redis.lanes;
        let sources = mine
            .filter(|(number, _)| number % lanes == lane)
            .map(|(number, source)| {
                Source::new(hub.market.clone(), number, source.clone(), port::SOURCE)
            })
            .collect();
        let plant = hub.plant.clone().filter(|plant| plant.lane() == lane);
        let address = resp.map(ToString::to_string).unwrap_or_default();
        let mut redis = RedisLane::new(hub.server.clone(), lane, address);
        redis.serve_others(Box::new(Lent {
            hub: hub.clone(),
            lane,
            sessions: Vec::new(),
            added: 0,
            watchers: Vec::new(),
        }));
        Self {
            plant: plant.map(|plant| PlantLink::new(plant, port::PLANT)),
            redis,
            sessions: Vec::new(),
            parked: Parked::default(),
            lane,
            sources,
            feed_clients: Vec::new(),
            feed_served: 0,
            parts_served: 0,
            feed_turn: 0,
            feed_left: 0,
            sweep_ns: 0,
            timed_sessions: 0,
            recovering: Vec::new(),
            unfinished: VecDeque::new(),
            swept: VecDeque::new(),
            sweep_on_ns: 0,
            web: WebLane::default(),
            exchange: None,
            bar_clock: (lane == BarClock::LANE).then(BarClock::default),
            lines_out: None,
            feed_announced: 0,
            hub,
        }
    }

    /// Makes this lane send the hub's own stream in datagrams.
    #[must_use]
    pub fn with_lines(mut self, lines: LinesOut) -> Self {
        debug_assert!(self.lines_out.is_none(), "one lane sends datagrams");
        self.lines_out = Some(lines);
        self.hub.market.set_feed_lane(self.lane, true);
        self
    }

    /// Makes this lane run a simulated exchange.
    #[must_use]
    pub fn with_exchange(mut self, exchange: Exchange) -> Self {
        debug_assert!(self.exchange.is_none(), "a lane has one simulated exchange");
        self.exchange = Some(exchange);
        self
    }

    fn insert(&mut self, id: ConnectionId, session: Session) {
        self.timed_sessions += usize::from(session.is_timed());
        let index = id.index();
        if index >= self.sessions.len() {
            self.sessions.resize_with(index + 1, || None);
        }
        debug_assert!(
            self.sessions[index].is_none() && !self.redis.serves(id),
            "two sessions have one connection"
        );
        self.sessions[index] = Some(session);
    }

    fn session(&mut self, id: ConnectionId) -> Option<&mut Session> {
        self.sessions.get_mut(id.index())?.as_mut()
    }

    /// Delivers a batch's publication to this lane's subscribers, and sends it to the other lanes
    /// that have some.
    fn distribute(&mut self, context: &mut Context, (publication, lanes): Dispatch) {
        if publication.is_empty() {
            return;
        }
        debug_assert_ne!(lanes, 0, "a publication has a lane to go to");
        let own = 1 << self.lane;
        if lanes & !own != 0 {
            let publication = Arc::new(publication);
            self.hub.post.send(lanes & !own, &publication);
            if lanes & own != 0 {
                self.redis.fanout.deliver(context, &publication);
            }
        } else {
            self.redis.fanout.deliver(context, &publication);
        }
    }

    /// Checks the timeouts of sessions. They are 100 ms or longer, so a coarse check is cheaper
    /// than exact timers. Only requests for missing messages are due sooner: [`HubLane::recover`].
    #[inline]
    fn sweep(&mut self, context: &mut Context) {
        if context.now_ns() >= self.sweep_ns {
            self.sweep_now(context);
        }
    }

    #[cold]
    fn sweep_now(&mut self, context: &mut Context) {
        self.sweep_ns = context.now_ns() + SWEEP_INTERVAL_NS;
        for source in &mut self.sources {
            source.publish_latency();
        }
        if self.timed_sessions == 0 {
            return;
        }
        let (now_ns, market) = (context.now_ns(), &self.hub.market);
        let mut news = Vec::new();
        for session in self.sessions.iter_mut().flatten() {
            match session {
                Session::Zmq(session) if session.is_due(now_ns) => session.timeout(context),
                Session::Feed(session) => {
                    news.push(session.timeout(market, context));
                    feeds::list_unfinished(&mut self.unfinished, session);
                    feeds::list_swept(&mut self.swept, session);
                }
                Session::Databento(session) => session.timeout(market, context),
                Session::Web(session) => {
                    session.sweep(&self.hub, &mut self.redis.fanout, context);
                }
                _ => {}
            }
        }
        news.into_iter()
            .for_each(|news| self.distribute(context, news));
    }

    /// Continues parked pushers if the gate is open for writes. Returns when to check again.
    fn turn_parked(&mut self, context: &mut Context) -> Option<u64> {
        if self.parked.is_empty() {
            return None;
        }
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        for id in self.parked.take_if_open(&self.hub, now_ms) {
            if let Some(Some(Session::Zmq(session))) = self.sessions.get_mut(id.index())
                && session.id() == id
            {
                session.resume(&self.hub, &mut self.parked, context);
            }
        }
        let again_ns = || context.now_ns() + Parked::look_again_ns(&self.hub);
        (!self.parked.is_empty()).then(again_ns)
    }

    fn turn_exchange(&mut self, context: &mut Context) -> Option<u64> {
        let exchange = self.exchange.as_mut()?;
        let (news, deadline_ns) = exchange.turn(context.now_ns(), context.unix_ns());
        self.distribute(context, news);
        deadline_ns
    }

    fn turn_bars(&mut self, context: &mut Context) -> Option<u64> {
        let clock = self.bar_clock.as_mut()?;
        let bars = &self.hub.market.bars;
        let (news, deadline_ns) = clock.turn(bars, context.now_ns(), context.unix_ns());
        self.distribute(context, news);
        deadline_ns
    }

    fn announce_journal(&mut self) {
        let next = self.hub.market.journal_next.load(Ordering::Acquire);
        debug_assert!(next >= self.feed_announced, "the journal only grows");
        if next != self.feed_announced {
            self.feed_announced = next;
            self.hub.market.tell_feed_lanes(self.lane);
        }
    }

    /// Registers a client for CLIENT KILL.
    fn register(&self, context: &Context, id: ConnectionId, peer: &Peer) -> Arc<OtherClient> {
        web::register(&self.hub, self.lane, context, id, peer)
    }

    fn accept_zmq(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        port: Port,
        peer: &Peer,
    ) -> Session {
        let client = self.register(context, id, peer);
        self.hub.zmq_peers[port as usize].fetch_add(1, Ordering::Relaxed);
        let session = ZmqSession::new((id, client), port, peer, &self.hub, context);
        Session::Zmq(Box::new(session))
    }

    fn feed_session(&self, context: &Context, id: ConnectionId, peer: &Peer) -> FeedSession {
        let (server, address) = (&self.hub.server, peer.to_string());
        let certified = server.user_of_certificate(context, id, &address);
        let has_certificate = context.peer_names(id).is_some();
        let client = self.register(context, id, peer);
        let user = HubUser::new(server.clone(), client, certified, has_certificate);
        let market = self.hub.market.clone();
        FeedSession::new(
            (id, address),
            market,
            Some(Box::new(user)),
            context.now_ns(),
        )
    }

    fn databento_session(
        &self,
        context: &mut Context,
        id: ConnectionId,
        peer: &Peer,
    ) -> Option<DatabentoSession> {
        let (hub, address) = (&self.hub, peer.to_string());
        let client = self.register(context, id, peer);
        let name = hub.config.databento_user.as_deref();
        let user = name.map(|name| HubUser::of_gateway(hub.server.clone(), client, name));
        let user = match user.transpose() {
            Ok(user) => user.map(|(user, readable)| (Box::new(user) as _, readable)),
            Err(refused) => {
                if let Some(out) = context.out(id) {
                    let text = format!("success=0|error={}\n", refused.text.as_str());
                    out.buffer().extend_from_slice(text.as_bytes());
                }
                context.close_after_flush(id, CloseReason::Requested);
                return None;
            }
        };
        DatabentoSession::new(&hub.market, context, (id, address), user)
    }

    /// Adds a client that follows the journal.
    fn accept_follower(&mut self, id: ConnectionId, session: Session) -> Session {
        debug_assert!(
            !self.feed_clients.contains(&id),
            "a client follows the journal once"
        );
        self.feed_clients.push(id);
        self.hub.market.set_feed_lane(self.lane, true);
        session
    }

    fn end_session(&mut self, context: &mut Context, id: ConnectionId, reason: CloseReason) {
        if let Some(source) = self.sources.iter_mut().find(|s| s.has(id)) {
            let news = source.closed(context, id, reason);
            self.distribute(context, news);
        }
        if let Some(link) = self.plant.as_mut().filter(|p| p.connection() == Some(id)) {
            let news = link.closed(context, reason);
            self.distribute(context, news);
        }
        if self.redis.closed(context, id, reason) {
            return;
        }
        self.hub.server.other_clients.disconnect(self.lane, id);
        let session = self.sessions.get_mut(id.index());
        let Some(session) = session.and_then(Option::take) else {
            return;
        };
        debug_assert!(
            self.timed_sessions >= usize::from(session.is_timed()),
            "a session that ends was counted"
        );
        self.timed_sessions -= usize::from(session.is_timed());
        match session {
            Session::Zmq(mut session) => {
                debug!(port = "ZeroMQ", address = %session.address(), reason = %reason.text(), "disconnected");
                session.closed(&self.hub, context);
                self.parked.forget(&self.hub, id);
                let peers = &self.hub.zmq_peers[session.port() as usize];
                let before = peers.fetch_sub(1, Ordering::Relaxed);
                debug_assert!(before > 0, "a peer that ends was counted");
                if session.is_websocket() {
                    let peers = &self.hub.zmq_websocket_peers[session.port() as usize];
                    let before = peers.fetch_sub(1, Ordering::Relaxed);
                    debug_assert!(before > 0, "a peer was counted with its request");
                }
                if reason != CloseReason::Stopping {
                    self.redis.fanout.depart(id);
                }
            }
            Session::Feed(session) => {
                debug!(port = "feed", reason = %reason.text(), "disconnected");
                self.leave_feed(id);
                let news = session.closed(&self.hub.market, context.unix_ns(), reason);
                self.distribute(context, news);
            }
            Session::Databento(session) => {
                debug!(port = "Databento", reason = %reason.text(), "disconnected");
                self.leave_feed(id);
                session.closed(&self.hub.market);
            }
            Session::Web(session) => self.end_page(context, *session, reason),
            Session::WebCalls(page) => self.end_calls(context, page, id),
            Session::Source(_) | Session::Plant => {}
        }
    }

    /// Handles input from a peer of any protocol except Redis's.
    fn take_input(&mut self, context: &mut Context, id: ConnectionId, input: &[u8]) -> usize {
        let (hub, parked, redis) = (&self.hub, &mut self.parked, &mut self.redis);
        let Some(Some(session)) = self.sessions.get_mut(id.index()) else {
            return input.len();
        };
        let (consumed, news) = match session {
            Session::Zmq(session) => {
                let mut around = Around {
                    hub,
                    fanout: &mut redis.fanout,
                    parked,
                    waiting: &mut redis.waiting,
                    context,
                };
                return session.received(&mut around, input);
            }
            Session::Feed(session) => {
                let (consumed, news) = session.received(&hub.market, context, input);
                let has_gap = session.recovery_deadline_ns().is_some();
                if has_gap && !session.set_recovering(true) {
                    self.recovering.push(id);
                }
                feeds::list_unfinished(&mut self.unfinished, session);
                feeds::list_swept(&mut self.swept, session);
                (consumed, news)
            }
            Session::Databento(session) => return session.received(&hub.market, context, input),
            Session::Source(number) => {
                let mut sources = self.sources.iter_mut();
                let Some(source) = sources.find(|source| source.number() == *number) else {
                    return input.len();
                };
                source.received(context, id, input)
            }
            Session::Plant => return self.plant_received(context, id, input),
            Session::Web(_) => return self.page_received(context, id, input),
            Session::WebCalls(page) => {
                let page = *page;
                return web::take_calls_input(&mut self.sessions, context, page, input);
            }
        };
        self.distribute(context, news);
        consumed
    }

    /// Handles a change of users or their permissions.
    fn users_changed(&mut self, context: &mut Context) {
        let hub = &self.hub;
        let generation = hub.server.access.generation();
        self.redis.mail(context, RedisMail::UsersChanged);
        hub.market.note_changed_rights();
        for session in self.sessions.iter_mut().flatten() {
            match session {
                Session::Zmq(session) => session.users_changed(hub, context),
                Session::Feed(session) => {
                    session.users_changed(&hub.market, context);
                    feeds::list_unfinished(&mut self.unfinished, session);
                }
                Session::Databento(session) => session.users_changed(context),
                Session::Web(session) => {
                    session.users_changed(hub, &mut self.redis.fanout, context);
                }
                Session::WebCalls(_) | Session::Source(_) | Session::Plant => {}
            }
        }
        hub.server.set_users_looked(self.lane, generation);
    }

    fn turn_parts(&mut self, context: &mut Context) -> Option<u64> {
        for (id, port, peer) in self.redis.take_late() {
            self.accepted(context, id, port, &peer);
        }
        self.lend_sessions();
        let (has_right, mut deadline_ns) = self.redis.begin_turn(context);
        self.take_sessions_back();
        deadline_ns = earlier(deadline_ns, self.turn_exchange(context));
        deadline_ns = earlier(deadline_ns, self.turn_bars(context));
        deadline_ns = earlier(deadline_ns, self.turn_sources(context));
        deadline_ns = earlier(deadline_ns, self.turn_plant(context));
        if has_right {
            deadline_ns = earlier(deadline_ns, self.turn_parked(context));
        }
        self.sweep(context);
        if !self.recovering.is_empty() {
            deadline_ns = earlier(deadline_ns, self.recover(context));
        }
        if !self.swept.is_empty() || !self.sources.is_empty() {
            deadline_ns = earlier(deadline_ns, self.continue_sweeps(context));
        }
        if !self.feed_clients.is_empty() {
            deadline_ns = earlier(deadline_ns, self.serve_feed_clients(context));
        }
        if !self.unfinished.is_empty() {
            deadline_ns = earlier(deadline_ns, self.continue_unfinished(context));
        }
        if let Some(lines) = &mut self.lines_out {
            let again_ns = lines.turn(&self.hub.market, self.lane, context.now_ns());
            deadline_ns = earlier(deadline_ns, Some(again_ns));
        }
        self.announce_journal();
        if self.timed_sessions > 0 || !self.sources.is_empty() {
            deadline_ns = earlier(deadline_ns, Some(self.sweep_ns));
        }
        self.lend_sessions();
        deadline_ns = earlier(deadline_ns, self.redis.turn(context, has_right));
        self.take_sessions_back();
        let mut turn = LaneTurn {
            hub: &self.hub,
            fanout: &mut self.redis.fanout,
            sessions: &mut self.sessions,
            context,
        };
        earlier(deadline_ns, self.web.turn(&mut turn))
    }
}

impl Application for HubLane {
    type Mail = Mail;

    fn accepted(&mut self, context: &mut Context, id: ConnectionId, port: u16, peer: &Peer) {
        debug!(%peer, port, "connected");
        if port == port::RESP {
            return self.redis.accepted(context, id, peer);
        }
        if self.hub.turn_away(context, id, port, peer) {
            return;
        }
        let session = match port {
            port::ZMQ_PUBLISH => self.accept_zmq(context, id, Port::Publish, peer),
            port::ZMQ_PULL => self.accept_zmq(context, id, Port::Pull, peer),
            port::ZMQ_ROUTER => self.accept_zmq(context, id, Port::Router, peer),
            port::FEED => {
                let session = self.feed_session(context, id, peer);
                self.accept_follower(id, Session::Feed(Box::new(session)))
            }
            port::DATABENTO => {
                let Some(session) = self.databento_session(context, id, peer) else {
                    return;
                };
                self.accept_follower(id, Session::Databento(Box::new(session)))
            }
            port::WEB => web::accept_page(&self.hub, self.lane, context, id, peer),
            _ => return context.close(id, CloseReason::Requested),
        };
        self.insert(id, session);
    }

    fn refused(&mut self, port: u16) -> Vec<u8> {
        crate::refusals::refuse(&self.hub, port)
    }

    fn connected(&mut self, context: &mut Context, id: ConnectionId, _: u16) {
        if let Some(source) = self.sources.iter_mut().find(|s| s.has(id)) {
            source.connected(context, id);
            let session = Session::Source(source.number());
            self.insert(id, session);
        }
        if let Some(link) = self.plant.as_mut().filter(|p| p.connection() == Some(id)) {
            link.connected(context, id);
            self.insert(id, Session::Plant);
        }
    }

    fn received(&mut self, context: &mut Context, id: ConnectionId, input: &[u8]) -> usize {
        let sessions = &self.sessions;
        let is_pusher = || {
            let session = sessions.get(id.index());
            matches!(session, Some(Some(Session::Zmq(zmq))) if zmq.port() == Port::Pull)
        };
        if self.redis.puts_off(context, id, is_pusher) {
            return 0;
        }
        let told = self.redis.begin_input();
        self.lend_sessions();
        let taken = self.redis.received(context, id, input);
        self.take_sessions_back();
        let consumed = match taken {
            Some(consumed) => consumed,
            None => self.take_input(context, id, input),
        };
        self.redis.end_input(id, told);
        if let Some(Some(Session::Zmq(zmq))) = self.sessions.get(id.index())
            && zmq.port() == Port::Router
        {
            self.redis.note_reader(id);
        }
        consumed
    }

    fn drained(&mut self, context: &mut Context, id: ConnectionId) {
        if self.redis.serves(id) {
            return self.redis.drained(context, id);
        }
        let hub = self.hub.clone();
        match self.session(id) {
            Some(Session::Feed(session)) => {
                session.produce(&hub.market, context, &mut Steps::none());
                if session.joins_unfinished() {
                    self.unfinished.push_back(id);
                }
            }
            Some(Session::Databento(session)) => session.drained(&hub.market),
            Some(Session::Zmq(_)) => self.redis.drained(context, id),
            Some(Session::Web(_)) => self.page_drained(context, id),
            _ => {}
        }
    }

    fn stopping(&mut self, context: &mut Context) {
        for session in self.sessions.iter_mut().flatten() {
            match session {
                Session::Databento(session) => session.stopping(context),
                Session::Web(session) => session.stopping(context),
                _ => {}
            }
        }
    }

    fn buffered(&mut self, context: &mut Context, id: ConnectionId) {
        self.redis.buffered(context, id);
    }

    fn closed(&mut self, context: &mut Context, id: ConnectionId, reason: CloseReason) {
        self.redis.begin_closing();
        self.end_session(context, id, reason);
        if reason == CloseReason::Stopping {
            self.redis.stop();
        }
    }

    fn mail(&mut self, context: &mut Context, mail: Mail) {
        self.redis.begin_mail();
        match mail {
            Mail::News(publication) => {
                self.hub.post.taken(self.lane, publication.memory_bytes());
                self.redis.fanout.deliver(context, &publication);
            }
            Mail::Plant(mail) => self.take_plant_mail(context, mail),
            Mail::Redis(RedisMail::UsersChanged) => self.users_changed(context),
            Mail::Redis(RedisMail::Kill(id)) if self.kill_page(context, id) => {}
            Mail::Redis(mail) => {
                self.lend_sessions();
                self.redis.mail(context, mail);
                self.take_sessions_back();
            }
            Mail::Web(mail) => self.take_web_mail(context, mail),
        }
    }

    fn turn(&mut self, context: &mut Context) -> Option<u64> {
        let deadline_ns = self.turn_parts(context);
        self.redis.end_turn(context, deadline_ns)
    }
}

/// Interval at which timeouts of sessions are checked.
const SWEEP_INTERVAL_NS: u64 = 100_000_000;
