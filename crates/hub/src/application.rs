//! The hub on one lane: sessions, their ports, and what happens each turn.

mod feeds;
mod holding;
mod parking;
mod plants;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidewire_keyspace::{SHARDS, changes_told_here};
use tidewire_lane::{Application, CloseReason, ConnectionId, Context, Endpoint, Peer};
use tracing::debug;

use crate::attention::Obstacles;
use crate::eviction::Room;
use crate::fanout::Fanout;
use crate::hub::{Hub, LiveObserver, Mail};
use crate::pushes::Parked;
use crate::session::Session;
use crate::session::resp::{Pipeline, RespSession, forget_functions};
use crate::session::zmq::{Port, ZmqSession};
use crate::sessions::Sessions;
use crate::waiting::LaneWaiting;
use crate::watchdog::Part;
use tidewire_fanout::Publication;
use tidewire_market::{DatabentoSession, Exchange, FeedSession, LinesOut, MarketMail, Source};
use tidewire_plant::PlantLink;

/// Tags of the hub's listeners.
pub mod port {
    /// Redis clients.
    pub const RESP: u16 = 1;
    /// ZeroMQ subscribers.
    pub const ZMQ_PUBLISH: u16 = 2;
    /// ZeroMQ pushers.
    pub const ZMQ_PULL: u16 = 3;
    /// Native feed clients and publishers.
    pub const FEED: u16 = 4;
    /// ZeroMQ peers that ask for values.
    pub const ZMQ_ROUTER: u16 = 6;
    /// Outgoing connections to native feeds.
    pub(crate) const SOURCE: u16 = 5;
    /// The outgoing connection to a plant.
    pub(crate) const PLANT: u16 = 8;
    /// Clients of the Databento gateway.
    pub const DATABENTO: u16 = 7;
    /// Watchers over HTTP, who are served beside the lanes.
    pub const ADMIN: u16 = 9;
}

/// One lane's part of the hub.
#[derive(Debug)]
pub struct HubLane {
    hub: Arc<Hub>,
    lane: usize,
    sessions: Sessions,
    fanout: Fanout,
    pipeline: Pipeline,
    waiting: LaneWaiting,
    /// Pushers that wait at the gate.
    parked: Parked,
    /// Feeds that this lane reads.
    sources: Vec<Source>,
    /// The link to the plant, on the lane that has it.
    plant: Option<PlantLink>,
    /// Feed clients of this lane, to be served when the journal grows.
    feed_clients: Vec<ConnectionId>,
    /// The journal's next sequence when the feed clients were last served.
    feed_served: u64,
    /// Parts of recordings that had been given to replays by then.
    parts_served: u64,
    /// Which of them is served next, and how many wait to be served with what there was then.
    feed_turn: usize,
    feed_left: usize,
    /// When sessions' own deadlines are next looked at, monotonic ns.
    sweep_ns: u64,
    /// Sessions that have deadlines of their own.
    timed_sessions: usize,
    /// A client may have left something unread.
    has_unread: bool,
    exchange: Option<Exchange>,
    /// The hub's own stream in datagrams, if this lane sends it.
    lines_out: Option<LinesOut>,
    /// Turns taken, to time one in a few.
    turns: u32,
    /// The journal's next sequence when other lanes were last told of it.
    feed_announced: u64,
    /// The shard whose tracked keys are next looked through for clients that have left.
    tracking_sweep: usize,
    /// Bytes of invalidations that were written in this turn, and in the one before.
    invalid_bytes: usize,
    unsent_bytes: usize,
    holding: holding::Holding,
    /// Connections that were parked go on in this turn or the next.
    has_resumed: bool,
}

impl HubLane {
    /// The part of lane `lane`.
    pub fn new(hub: Arc<Hub>, lane: usize, resp: Option<&Endpoint>) -> Self {
        let mine = hub.config.market.sources.iter().enumerate();
        let lanes = hub.config.lanes;
        let sources = mine
            .filter(|(number, _)| number % lanes == lane)
            .map(|(number, source)| {
                Source::new(hub.market.clone(), number, source.clone(), port::SOURCE)
            })
            .collect();
        let plant = hub.plant.clone().filter(|plant| plant.lane() == lane);
        Self {
            plant: plant.map(|plant| PlantLink::new(plant, port::PLANT)),
            fanout: Fanout::new(hub.clone(), lane),
            pipeline: Pipeline::new(hub.renames.clone()),
            waiting: LaneWaiting::default(),
            parked: Parked::default(),
            lane,
            sessions: Sessions::new(resp.map(ToString::to_string).unwrap_or_default()),
            sources,
            feed_clients: Vec::new(),
            feed_served: 0,
            parts_served: 0,
            feed_turn: 0,
            feed_left: 0,
            sweep_ns: 0,
            timed_sessions: 0,
            has_unread: false,
            exchange: None,
            lines_out: None,
            turns: 0,
            feed_announced: 0,
            tracking_sweep: 0,
            invalid_bytes: 0,
            unsent_bytes: 0,
            holding: holding::Holding::default(),
            has_resumed: false,
            hub,
        }
    }

    /// Lets this lane send the hub's own stream in datagrams.
    #[must_use]
    pub fn with_lines(mut self, lines: LinesOut) -> Self {
        self.lines_out = Some(lines);
        self.hub.market.set_feed_lane(self.lane, true);
        self
    }

    /// Lets a simulated exchange trade on this lane.
    #[must_use]
    pub fn with_exchange(mut self, exchange: Exchange) -> Self {
        self.exchange = Some(exchange);
        self
    }

    fn insert(&mut self, id: ConnectionId, session: Session) {
        self.timed_sessions += usize::from(session.is_timed());
        self.sessions.insert(id, session);
    }

    /// Delivers the news of a batch here, and sends them to the lanes they also concern.
    fn distribute(&mut self, context: &mut Context, (publication, lanes): (Publication, u64)) {
        if publication.is_empty() {
            return;
        }
        let own = 1 << self.lane;
        if lanes & !own != 0 {
            let publication = Arc::new(publication);
            self.hub.post.send(lanes & !own, &publication);
            if lanes & own != 0 {
                self.fanout.deliver(context, &publication);
            }
        } else {
            self.fanout.deliver(context, &publication);
        }
    }

    /// Looks at the deadlines of sessions; they are of 100 ms and more, so that a coarse look
    /// costs less than exact timers.
    fn sweep(&mut self, context: &mut Context, has_right: bool) {
        if context.now_ns() < self.sweep_ns {
            return;
        }
        self.sweep_ns = context.now_ns() + SWEEP_INTERVAL_NS;
        if self.lane == 0 {
            self.hub.usage.look();
            self.hub.follow_resident();
        }
        if self.lane == 0 && has_right && self.hub.durability.wants_ticks(&self.hub) {
            self.hub.durability.tick(&self.hub);
        }
        self.fanout.sweep(context.now_ns());
        if self.lane == 0 {
            self.hub.rates.note(self.hub.moment());
        }
        if self.lane == 0 && has_right {
            self.sweep_tracking();
        }
        if self.lane == 0 && self.hub.replication.is_swept(&self.hub) {
            let now_ms = (context.unix_ns() / 1_000_000) as i64;
            self.hub.replication.sweep(&self.hub, now_ms);
            self.hub.follow_stop(has_right);
        }
        self.sessions.replicas.sweep(&self.hub, context);
        for source in &mut self.sources {
            source.publish_latency();
        }
        if self.hub.parameters.limits_clients() || self.has_unread {
            self.has_unread = false;
            for session in self.sessions.by_index.iter_mut().flatten() {
                if let Session::Resp(session) = session {
                    session.sweep(&self.hub, context);
                    self.has_unread |= context.out_bytes(session.client().connection) > 0;
                }
            }
        }
        if self.timed_sessions == 0 {
            return;
        }
        let now_ns = context.now_ns();
        let mut news = Vec::new();
        for session in self.sessions.by_index.iter_mut().flatten() {
            match session {
                Session::Zmq(session) if session.is_due(now_ns) => session.timeout(context),
                Session::Feed(session) => news.push(session.timeout(&self.hub.market, context)),
                Session::Databento(session) => session.timeout(&self.hub.market, context),
                _ => {}
            }
        }
        news.into_iter()
            .for_each(|news| self.distribute(context, news));
    }

    /// Lets pushers go on when the gate is open for writes. Returns when to look again.
    fn turn_parked(&mut self, context: &mut Context) -> Option<u64> {
        if self.parked.is_empty() {
            return None;
        }
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        for id in self.parked.take_if_open(&self.hub, now_ms) {
            if let Some(Some(Session::Zmq(session))) = self.sessions.by_index.get_mut(id.index())
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

    fn announce_journal(&mut self) {
        let next = self.hub.market.journal_next.load(Ordering::Acquire);
        if next != self.feed_announced {
            self.feed_announced = next;
            self.hub.market.tell_feed_lanes(self.lane);
        }
    }

    /// The session of a client that waits no more.
    fn end_wait(&mut self, client: u64) -> Option<&mut RespSession> {
        let connection = self.waiting.remove(client)?;
        self.resp_session(connection)
    }

    fn resp_session(&mut self, id: ConnectionId) -> Option<&mut RespSession> {
        match self.sessions.by_index.get_mut(id.index())? {
            Some(Session::Resp(session)) => Some(session),
            _ => None,
        }
    }

    /// Answers clients whose time has come. Returns when to look again.
    fn end_waits(&mut self, context: &mut Context) -> Option<u64> {
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        let hub = self.hub.clone();
        while let Some((client, _)) = self.waiting.pop_due(now_ms) {
            // If somebody else has ended the wait, the reply is on its way.
            if self.hub.waiting.claim(client, &self.hub.keyspace).is_some()
                && let Some(session) = self.end_wait(client)
            {
                session.timed_out(&hub, context);
            }
        }
        let mut deadline_ms = self.waiting.deadline_ms();
        if self.waiting.has_postponed() {
            match self.hub.pause.until_ms(now_ms) {
                Some(until_ms) => {
                    deadline_ms = Some(deadline_ms.map_or(until_ms, |other| other.min(until_ms)));
                }
                None => self.resume_postponed(context),
            }
        }
        let wait_ms = deadline_ms?
            .saturating_sub(now_ms)
            .clamp(0, DEADLINE_MS_MAX) as u64;
        Some(context.now_ns() + wait_ms * 1_000_000)
    }

    fn resume_postponed(&mut self, context: &mut Context) {
        for (_, connection) in self.waiting.take_postponed(&self.hub.waiting) {
            if let Some(session) = self.resp_session(connection) {
                session.resume(context);
            }
        }
    }

    /// Keeps the table of tracked keys within its bound, and tells what has expired.
    #[cold]
    fn turn_tracking(&self) {
        let hub = &*self.hub;
        let keys_max = hub.parameters.tracked_keys_max.load(Ordering::Relaxed);
        if hub.keyspace.tracked_keys() > keys_max {
            hub.keyspace
                .limit_tracking(keys_max, &mut LiveObserver(hub));
        }
        hub.broadcast_changed();
    }

    /// Forgets clients that tracked keys and have left, shard by shard.
    fn sweep_tracking(&mut self) {
        let left = &self.hub.tracking.has_left;
        if left.load(Ordering::Relaxed) == 0 && self.tracking_sweep == 0 {
            return;
        }
        if self.tracking_sweep == 0 {
            left.store(0, Ordering::Relaxed);
        }
        let clients = &self.hub.clients;
        let is_there = |id: u64| clients.find(id).is_some();
        for shard in self.tracking_sweep..self.tracking_sweep + SHARDS_A_SWEEP {
            self.hub.keyspace.sweep_tracking(shard, &is_there);
        }
        self.tracking_sweep = (self.tracking_sweep + SHARDS_A_SWEEP) % SHARDS;
    }

    fn expire_keys(&mut self, context: &Context) -> Option<u64> {
        let keyspace = &self.hub.keyspace;
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        let latency_ms = &self.hub.parameters.latency_threshold_ms;
        let latency_ms = latency_ms.load(Ordering::Relaxed);
        let started = (latency_ms != 0).then(Instant::now);
        keyspace.expire_due(now_ms, EXPIRIES_A_TURN, &mut LiveObserver(&self.hub));
        if let Some(ms) = started.map(|started| started.elapsed().as_millis() as u64)
            && ms >= latency_ms
        {
            let unix_s = context.unix_ns() / 1_000_000_000;
            self.hub.slow_events.note("expire-cycle", unix_s, ms);
        }
        let deadline_ms = keyspace.next_deadline_ms()?;
        let wait_ms = deadline_ms.saturating_sub(now_ms).clamp(0, DEADLINE_MS_MAX) as u64;
        Some(context.now_ns() + wait_ms * 1_000_000)
    }
}

impl Application for HubLane {
    type Mail = Mail;

    fn accepted(&mut self, context: &mut Context, id: ConnectionId, port: u16, peer: &Peer) {
        debug!(%peer, port, "connected");
        let now_ns = context.now_ns();
        if port != port::RESP && self.hub.turn_away(context, id, port, peer) {
            return;
        }
        let session = match port {
            port::RESP => return self.sessions.accept_resp(&self.hub, context, id, peer),
            port::ZMQ_PUBLISH | port::ZMQ_PULL | port::ZMQ_ROUTER => {
                let port = match port {
                    port::ZMQ_PUBLISH => Port::Publish,
                    port::ZMQ_PULL => Port::Pull,
                    _ => Port::Router,
                };
                self.hub.zmq_peers[port as usize].fetch_add(1, Ordering::Relaxed);
                let mut session = ZmqSession::new(id, port, peer, &self.hub, now_ns);
                session.flush(context);
                Session::Zmq(Box::new(session))
            }
            port::FEED => {
                self.feed_clients.push(id);
                self.hub.market.set_feed_lane(self.lane, true);
                Session::Feed(Box::new(FeedSession::new(
                    id,
                    self.hub.market.clone(),
                    now_ns,
                )))
            }
            port::DATABENTO => {
                let Some(session) =
                    DatabentoSession::new(&self.hub.market, context, id, peer.to_string())
                else {
                    return;
                };
                self.feed_clients.push(id);
                self.hub.market.set_feed_lane(self.lane, true);
                Session::Databento(Box::new(session))
            }
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
        if self.puts_off(context, id) {
            return 0;
        }
        self.hub.turns[self.lane].doing.part(Part::Input);
        let _ = self.hub.scripting.rights.enter(self.lane);
        // Where the log ends would not show who has changed something: other lanes write there too.
        let told = changes_told_here();
        let consumed = self.take_input(context, id, input);
        if changes_told_here() != told {
            self.holding.writers.push(id);
        }
        consumed
    }

    fn drained(&mut self, context: &mut Context, id: ConnectionId) {
        match self.sessions.by_index.get_mut(id.index()) {
            Some(Some(Session::Feed(session))) => session.produce(&self.hub.market, context),
            Some(Some(Session::Databento(session))) => session.drained(&self.hub.market, context),
            Some(Some(Session::Resp(_) | Session::Zmq(_))) => {
                self.fanout.pump(context, id);
                self.sessions.replicas.drained(&self.hub, context, id);
            }
            _ => {}
        }
    }

    fn buffered(&mut self, context: &mut Context, id: ConnectionId) {
        self.has_unread |= context.out_bytes(id) > 0;
        let hub = self.hub.clone();
        if let Some(session) = self.resp_session(id) {
            session.buffered(&hub, context);
        }
    }

    fn closed(&mut self, context: &mut Context, id: ConnectionId, reason: CloseReason) {
        self.hub.turns[self.lane].doing.part(Part::Closing);
        self.end_session(context, id, reason);
        if reason == CloseReason::Stopping {
            // There will be no turn that would do it.
            self.hub.scripting.rights.leave(self.lane);
        }
    }

    fn mail(&mut self, context: &mut Context, mail: Mail) {
        self.hub.turns[self.lane].doing.part(Part::Mail);
        self.take_mail(context, mail);
    }

    fn turn(&mut self, context: &mut Context) -> Option<u64> {
        let is_timed = self.turns.is_multiple_of(TURNS_A_TIMING) || self.sessions.times_turn;
        self.turns = self.turns.wrapping_add(1);
        let started = is_timed.then(Instant::now);
        self.hub.turns[self.lane].doing.part(Part::Upkeep);
        let deadline_ns = self.turn_parts(context);
        self.hub.durability.before_replies(&self.hub, self.lane);
        self.settle_log(context);
        let commands = std::mem::take(&mut self.sessions.turn_commands);
        let turns = &self.hub.turns[self.lane];
        turns.note_commands(commands);
        if let Some(started) = started {
            self.sessions.times_turn = false;
            turns.note_upkeep(started.elapsed());
        }
        let deadline_ns = earlier(deadline_ns, self.note_turn(context));
        self.hub.scripting.rights.leave(self.lane);
        self.hub.sleep_along();
        deadline_ns
    }
}

impl HubLane {
    fn end_session(&mut self, context: &mut Context, id: ConnectionId, reason: CloseReason) {
        if let Some(source) = self.sources.iter_mut().find(|s| s.has(id)) {
            let news = source.closed(context, id, reason);
            self.distribute(context, news);
        }
        if let Some(link) = self.plant.as_mut().filter(|p| p.connection() == Some(id)) {
            let news = link.closed(context, reason);
            self.distribute(context, news);
        }
        let Some(session) = self
            .sessions
            .by_index
            .get_mut(id.index())
            .and_then(Option::take)
        else {
            return;
        };
        self.timed_sessions -= usize::from(session.is_timed());
        match session {
            Session::Resp(mut session) => {
                let client = session.client();
                debug!(client = client.id, address = %client.address, ?reason, "disconnected");
                session.closed(&self.hub, &mut self.waiting);
                let now_ms = (context.unix_ns() / 1_000_000) as i64;
                let replicas = &mut self.sessions.replicas;
                replicas.remove(&self.hub, self.lane, id, now_ms);
                if reason != CloseReason::Stopping {
                    self.fanout.depart(id);
                }
                self.hub.clients.disconnect(session.client().id);
            }
            Session::Zmq(mut session) => {
                debug!(port = "ZeroMQ", address = %session.address(), ?reason, "disconnected");
                session.closed(&self.hub, context);
                self.parked.forget(&self.hub, id);
                self.hub.zmq_peers[session.port() as usize].fetch_sub(1, Ordering::Relaxed);
                if reason != CloseReason::Stopping {
                    self.fanout.depart(id);
                }
            }
            Session::Feed(session) => {
                debug!(port = "feed", ?reason, "disconnected");
                self.leave_feed(id);
                let news = session.closed(&self.hub.market, context.unix_ns());
                self.distribute(context, news);
            }
            Session::Databento(session) => {
                debug!(port = "Databento", ?reason, "disconnected");
                self.leave_feed(id);
                session.closed(&self.hub.market);
            }
            Session::Source(_) | Session::Plant => {}
        }
    }

    fn take_mail(&mut self, context: &mut Context, mail: Mail) {
        let hub = &self.hub.clone();
        match mail {
            Mail::News(publication) => {
                self.hub.post.taken(self.lane, publication.memory_bytes());
                self.fanout.deliver(context, &publication);
            }
            Mail::Listen { made, addresses } => {
                context.change_listeners(port::RESP, &addresses, made);
            }
            Mail::CutOff(id) => context.cut_off(id, CloseReason::Requested),
            Mail::Kill(id) | Mail::Market(MarketMail::End(id)) => {
                context.close_after_flush(id, CloseReason::Requested)
            }
            Mail::Served {
                client,
                reply,
                failed,
            } => {
                self.hub.waiting.remove(client);
                // It may tell of a change: an element that a client waited for is taken.
                self.holding.writers.extend(self.waiting.connection(client));
                if let Some(session) = self.end_wait(client) {
                    session.served(hub, context, &reply, failed);
                }
            }
            Mail::Unblocked { client, error } => {
                if let Some(session) = self.end_wait(client) {
                    match error {
                        true => session.unblocked_with_error(hub, context),
                        false => session.timed_out(hub, context),
                    }
                }
            }
            Mail::Denied { client, text } => {
                if let Some(session) = self.end_wait(client) {
                    session.denied(hub, context, &text);
                }
            }
            Mail::Plant(mail) => self.take_plant_mail(context, mail),
            Mail::Unpaused => self.resume_postponed(context),
            Mail::ScriptOver => {
                if !self.enter(context) {
                    self.resume_impatient(context);
                }
            }
            Mail::FunctionsForgotten => forget_functions(hub, self.lane),
            Mail::Invalid {
                connection,
                is_redirected,
                invalid,
                bytes,
            } => {
                self.invalid_bytes += bytes;
                if let Some(session) = self.resp_session(connection) {
                    session.invalid(hub, context, connection, is_redirected, &invalid);
                }
            }
            Mail::Shown(line) => {
                self.hub.post.taken(self.lane, line.len());
                for connection in hub.monitors.on(self.lane) {
                    if let Some(session) = self.resp_session(connection) {
                        session.show(hub, context, connection, &line);
                    }
                }
            }
            Mail::UsersChanged => {
                let generation = hub.access.generation();
                for session in self.sessions.by_index.iter_mut().flatten() {
                    match session {
                        Session::Resp(session) => {
                            session.users_changed(hub, &self.fanout, context);
                        }
                        Session::Zmq(session) => session.users_changed(hub, context),
                        _ => {}
                    }
                }
                hub.access.set_looked(self.lane, generation);
            }
        }
    }

    /// When to go on with topics that changed all at once.
    fn renew_again_ns(&self, context: &Context) -> u64 {
        let wait_ns = match self.hub.is_filling() {
            true => FILLING_WAIT_NS,
            false => 0,
        };
        context.now_ns() + wait_ns
    }

    fn take_input(&mut self, context: &mut Context, id: ConnectionId, input: &[u8]) -> usize {
        self.sessions.replicas.note_awake(&self.hub, self.lane);
        if let Some(mut session) = self.sessions.take_resp(id) {
            let (fanout, waiting) = (&mut self.fanout, &mut self.waiting);
            let (sessions, pipeline) = (&mut self.sessions, &mut self.pipeline);
            let consumed = session.received(
                &self.hub, fanout, waiting, sessions, pipeline, context, input,
            );
            self.sessions.put_back(id, session);
            return consumed;
        }
        let Some(Some(session)) = self.sessions.by_index.get_mut(id.index()) else {
            return input.len();
        };
        match session {
            Session::Resp(_) => 0,
            Session::Zmq(session) => {
                let (fanout, parked) = (&mut self.fanout, &mut self.parked);
                let waiting = &mut self.waiting;
                session.received(&self.hub, fanout, parked, waiting, context, input)
            }
            Session::Feed(session) => {
                let (consumed, news) = session.received(&self.hub.market, context, input);
                self.distribute(context, news);
                consumed
            }
            Session::Databento(session) => session.received(&self.hub.market, context, input),
            Session::Source(number) => {
                let number = *number;
                self.source_received(context, id, number, input)
            }
            Session::Plant => self.plant_received(context, id, input),
        }
    }

    fn turn_parts(&mut self, context: &mut Context) -> Option<u64> {
        for (id, port, peer) in self.sessions.take_late() {
            self.accepted(context, id, port, &peer);
        }
        let has_right = self.enter(context);
        if has_right && self.hub.post.take_lagging(self.lane) {
            self.fanout.owe_everything(context);
            self.hub.invalidate_lane(self.lane);
        }
        let mut deadline_ns = self.turn_exchange(context);
        if self.fanout.renew(context) {
            deadline_ns = earlier(deadline_ns, Some(self.renew_again_ns(context)));
        }
        if self.invalid_bytes + self.unsent_bytes > 0 {
            // What was written in this turn leaves at its end.
            self.hub.post.taken(self.lane, self.unsent_bytes);
            self.unsent_bytes = std::mem::take(&mut self.invalid_bytes);
            deadline_ns = Some(context.now_ns());
        }
        deadline_ns = earlier(deadline_ns, self.turn_sources(context));
        deadline_ns = earlier(deadline_ns, self.turn_plant(context));
        if has_right {
            deadline_ns = earlier(deadline_ns, self.turn_parked(context));
        }
        self.sweep(context, has_right);
        if !self.feed_clients.is_empty() {
            deadline_ns = earlier(deadline_ns, self.serve_feed_clients(context));
        }
        if let Some(lines) = &mut self.lines_out {
            let again_ns = lines.turn(&self.hub.market, self.lane, context.now_ns());
            deadline_ns = earlier(deadline_ns, Some(again_ns));
        }
        if self.fanout.take_departing_out() {
            deadline_ns = Some(context.now_ns());
        }
        self.announce_journal();
        if !self.sessions.replicas.is_empty() {
            self.sessions.replicas.serve(&self.hub, context);
        }
        let is_swept = self.timed_sessions > 0
            || !self.sources.is_empty()
            || self.has_unread
            || self.hub.parameters.limits_clients()
            || !self.sessions.replicas.is_empty()
            || self.lane == 0 && self.hub.replication.is_swept(&self.hub)
            || self.lane == 0 && self.hub.durability.wants_ticks(&self.hub)
            || self.lane == 0 && self.hub.parameters.limits_memory();
        if is_swept {
            deadline_ns = earlier(deadline_ns, Some(self.sweep_ns));
        }
        if self.hub.attention.has(Obstacles::TRACKED) {
            self.hub.broadcast_changed();
        }
        if !has_right {
            // A script of another lane holds the shards that all this needs.
            self.resume_impatient(context);
            let again_ns = context.now_ns() + SCRIPT_WAIT_NS;
            return earlier(deadline_ns, Some(again_ns));
        }
        if self.hub.make_room(context) == Room::Clearing {
            deadline_ns = Some(context.now_ns());
        }
        deadline_ns = earlier(deadline_ns, self.end_waits(context));
        deadline_ns = earlier(deadline_ns, self.expire_keys(context));
        if self.hub.attention.has(Obstacles::TRACKED) {
            self.turn_tracking();
        }
        deadline_ns
    }
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Of so many turns the upkeep of one is timed.
const TURNS_A_TIMING: u32 = 64;
/// How often sessions' deadlines are looked at.
const SWEEP_INTERVAL_NS: u64 = 100_000_000;
/// Shards looked through at a time for clients that have left.
const SHARDS_A_SWEEP: usize = 8;
/// How soon to look again whether keys are loaded.
const FILLING_WAIT_NS: u64 = 10_000_000;
/// How soon to look again whether another lane's script has ended.
const SCRIPT_WAIT_NS: u64 = 5_000_000;
/// Keys expired a turn, so that a million of them at once do not hold the lane up.
const EXPIRIES_A_TURN: usize = 1_000;
/// The longest wait for a deadline, ms: a day.
const DEADLINE_MS_MAX: i64 = 86_400_000;
