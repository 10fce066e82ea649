//! The Redis server on one lane: its clients, and what happens each turn.

mod holding;
mod hub_writes;
mod parking;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidewire_fanout::{Fanout, WriteEnd};
use tidewire_keyspace::{MountWriter, SHARDS, changes_told_here};
use tidewire_lane::{CloseReason, ConnectionId, Context, Peer};
use tracing::debug;

use crate::activity::Part;
use crate::attention::Obstacles;
use crate::lane_waits::{LaneWait, WaitReason, set_in_turn};
use crate::live::LiveObserver;
use crate::mail::RedisMail;
use crate::other_sessions::{LaneParts, OtherSessions};
use crate::parameters::{LATENCY_MONITOR_THRESHOLD, TRACKING_TABLE_MAX_KEYS};
use crate::parts::Room;
use crate::server::Server;
use crate::session::{Pipeline, RespSession, forget_functions, next_time_ms};
use crate::sessions::Sessions;
use crate::waiting::LaneWaiting;

/// The Redis server's part of one lane. The lane drives it, beside what else it serves.
#[derive(Debug)]
pub struct RedisLane {
    /// The state that all lanes share.
    pub server: Arc<Server>,
    /// Subscribers of every protocol.
    pub fanout: Fanout,
    /// Connections whose requests wait.
    pub waiting: LaneWaiting,
    lane: usize,
    sessions: Sessions,
    pipeline: Pipeline,
    /// When clients' own limits are checked next, monotonic ns.
    sweep_ns: u64,
    /// A client may have left something unread.
    has_unread: bool,
    /// Turns taken, to time one in a few.
    turns: u32,
    /// When this turn began, if it is timed.
    started: Option<Instant>,
    /// The shard whose tracked keys are next looked through for clients that have left.
    tracking_sweep: usize,
    /// Bytes of invalidations that were written in this turn, and in the one before.
    invalid_bytes: usize,
    unsent_bytes: usize,
    holding: holding::Holding,
    hub_writes: hub_writes::HubWrites,
    /// Connections that were parked go on in this turn or the next.
    has_resumed: bool,
    /// A Redis client has asked for keys in the input that was taken last.
    has_asked_for_keys: bool,
}

impl RedisLane {
    /// The part of lane `lane`. `address` is where Redis clients connect to, for CLIENT LIST.
    pub fn new(server: Arc<Server>, lane: usize, address: String) -> Self {
        assert!(lane < server.turns.len(), "a lane of the configuration");
        let (post, topics) = (server.post.clone(), server.topics.clone());
        Self {
            fanout: Fanout::new(post, topics, server.clone(), lane),
            pipeline: Pipeline::new(server.renames.clone()),
            waiting: LaneWaiting::default(),
            lane,
            sessions: Sessions::new(address),
            sweep_ns: 0,
            has_unread: false,
            turns: 0,
            started: None,
            tracking_sweep: 0,
            invalid_bytes: 0,
            unsent_bytes: 0,
            holding: holding::Holding::default(),
            hub_writes: hub_writes::HubWrites::default(),
            has_resumed: false,
            has_asked_for_keys: false,
            server,
        }
    }

    /// A Redis client has connected.
    pub fn accepted(&mut self, context: &mut Context, id: ConnectionId, peer: &Peer) {
        self.sessions.accept(&self.server, context, id, peer);
    }

    /// What the sessions of other protocols use of this lane.
    #[inline]
    pub fn parts(&mut self) -> LaneParts<'_> {
        LaneParts {
            fanout: &mut self.fanout,
            server: &self.server,
            sessions: &mut self.sessions,
        }
    }

    /// Gives the lane the sessions that it serves during a client's long call.
    pub fn serve_others(&mut self, others: Box<dyn OtherSessions>) {
        self.sessions.others = Some(others);
    }

    /// Returns them.
    #[inline]
    pub fn others(&mut self) -> Option<&mut (dyn OtherSessions + 'static)> {
        self.sessions.others.as_deref_mut()
    }

    /// Takes the connections of other protocols that came during a client's long call: they are
    /// yet to be accepted.
    pub fn take_late(&mut self) -> Vec<(ConnectionId, u16, Peer)> {
        self.sessions.take_late()
    }

    /// Whether a connection is a Redis client's.
    pub fn serves(&self, id: ConnectionId) -> bool {
        self.sessions.serves(id)
    }

    /// Input of any protocol has come. What is returned is given to [`RedisLane::end_input`].
    #[inline]
    pub fn begin_input(&self) -> u64 {
        set_in_turn(true);
        self.server.turns[self.lane].doing.part(Part::Input);
        let _ = self.server.scripting.rights.enter(self.lane);
        // The end of the log does not tell who changed something: other lanes write there too.
        changes_told_here()
    }

    /// The input was taken. If it changed keys, replies may have to wait for the append-only file;
    /// in a quorum also if it only read them.
    #[inline]
    pub fn end_input(&mut self, id: ConnectionId, told: u64) {
        let has_asked = std::mem::take(&mut self.has_asked_for_keys);
        let is_reader = has_asked && self.server.quorum.is_on();
        if changes_told_here() != told || is_reader {
            self.holding.writers.push(id);
        }
    }

    /// A peer of another protocol has asked for keys, or a client's wait for them has ended.
    pub fn note_reader(&mut self, id: ConnectionId) {
        if self.server.quorum.is_on() {
            self.holding.writers.push(id);
        }
    }

    /// Takes what a Redis client has sent; returns the bytes used, or nothing of a connection that
    /// is no Redis client's.
    pub fn received(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        input: &[u8],
    ) -> Option<usize> {
        self.sessions.replicas.note_awake(&self.server, self.lane);
        let mut session = self.sessions.take(id)?;
        let (fanout, waiting) = (&mut self.fanout, &mut self.waiting);
        let (sessions, pipeline) = (&mut self.sessions, &mut self.pipeline);
        let server = &self.server;
        session.begin_input();
        let consumed =
            session.received(server, fanout, waiting, sessions, pipeline, context, input);
        session.end_input(server);
        self.has_asked_for_keys = session.asks_for_keys();
        debug_assert!(consumed <= input.len(), "a session takes from what came");
        self.sessions.put_back(id, session);
        Some(consumed)
    }

    /// A subscriber's outbox has drained.
    pub fn drained(&mut self, context: &mut Context, id: ConnectionId) {
        self.fanout.pump(context, id);
        self.sessions.replicas.drained(&self.server, context, id);
    }

    /// Input of a connection waits to be executed, or output to be read.
    pub fn buffered(&mut self, context: &mut Context, id: ConnectionId) {
        self.has_unread |= context.out_bytes(id) > 0;
        if let Some(session) = self.sessions.get_mut(id) {
            session.buffered(&self.server, context);
        }
    }

    /// A connection is about to be ended.
    pub fn begin_closing(&self) {
        set_in_turn(true);
        self.server.turns[self.lane].doing.part(Part::Closing);
    }

    /// A connection has ended; whether it was a Redis client's.
    pub fn closed(&mut self, context: &Context, id: ConnectionId, reason: CloseReason) -> bool {
        let Some(mut session) = self.sessions.take(id) else {
            return false;
        };
        let client = session.client();
        debug!(client = client.id, address = %client.address, reason = %reason.text(), "disconnected");
        session.closed(&self.server, &mut self.waiting);
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        let replicas = &mut self.sessions.replicas;
        replicas.remove(&self.server, self.lane, id, now_ms);
        if reason != CloseReason::Stopping {
            self.fanout.depart(id);
        }
        self.server.clients.disconnect(session.client().id);
        session.assert_gone(&self.server, &self.waiting);
        true
    }

    /// The lane ends, and there will be no turn that gives back what it may lock.
    pub fn stop(&self) {
        set_in_turn(false);
        self.server.scripting.rights.leave(self.lane);
    }

    /// Mail of any kind is about to be taken.
    pub fn begin_mail(&self) {
        set_in_turn(true);
        self.server.turns[self.lane].doing.part(Part::Mail);
    }

    /// Takes mail of another lane. What users may do has changed: the house tells its own peers
    /// too, and calls [`Server::set_users_looked`] then.
    pub fn mail(&mut self, context: &mut Context, mail: RedisMail) {
        let server = &self.server.clone();
        match mail {
            RedisMail::Listen { made, addresses } => {
                context.change_listeners(crate::RESP_PORT, &addresses, made);
            }
            RedisMail::CutOff(id) => context.cut_off(id, CloseReason::Requested),
            RedisMail::Kill(id) => context.close_after_flush(id, CloseReason::Requested),
            RedisMail::Served {
                client,
                reply,
                failed,
            } => {
                server.waiting.remove(client);
                // The reply may tell of a change: the element that the client waited for is gone.
                self.holding.writers.extend(self.waiting.connection(client));
                if let Some(session) = self.end_wait(client) {
                    session.served(server, context, &reply, failed);
                }
            }
            RedisMail::Unblocked { client, error } => {
                if let Some(session) = self.end_wait(client) {
                    match error {
                        true => session.unblocked_with_error(server, context),
                        false => session.timed_out(server, context),
                    }
                }
            }
            RedisMail::Denied { client, text } => {
                if let Some(session) = self.end_wait(client) {
                    session.denied(server, context, &text);
                }
            }
            RedisMail::WriteOwn(write) => self.hub_writes.push(*write),
            RedisMail::MountWritten(writer, result) => self.mount_written(context, writer, &result),
            RedisMail::Unpaused => self.resume_postponed(context),
            RedisMail::ScriptOver => {
                if !self.enter(context) {
                    self.resume_impatient(context);
                }
            }
            RedisMail::FunctionsForgotten => forget_functions(server, self.lane),
            RedisMail::Invalid {
                connection,
                is_redirected,
                invalid,
                bytes,
            } => {
                self.invalid_bytes += bytes;
                if let Some(session) = self.sessions.get_mut(connection) {
                    session.invalid(server, context, connection, is_redirected, &invalid);
                }
            }
            RedisMail::Shown(line) => {
                debug_assert!(line.ends_with(b"\r\n"), "a shown command is a whole reply");
                server.post.taken(self.lane, line.len());
                for connection in server.monitors.on(self.lane) {
                    if let Some(session) = self.sessions.get_mut(connection) {
                        session.show(server, context, connection, &line);
                    }
                }
            }
            RedisMail::UsersChanged => {
                for session in self.sessions.all_mut() {
                    session.users_changed(server, &self.fanout, context);
                }
            }
        }
    }

    /// A client's write to a live source has ended, unless its wait has ended before.
    pub fn mount_written(&mut self, context: &mut Context, writer: MountWriter, result: &WriteEnd) {
        let MountWriter { client, token, .. } = writer;
        let server = self.server.clone();
        let waits = |session: &mut RespSession| session.awaits_mount(token);
        let connection = self.waiting.connection(client);
        let session = connection.and_then(|id| self.sessions.get_mut(id));
        if session.is_some_and(waits)
            && server.waiting.claim(client, &server.keyspace).is_some()
            && let Some(session) = self.end_wait(client)
        {
            session.mount_written(&server, context, result);
        }
    }

    /// The first part of a turn. Whether the lane may lock shards in it, and when it wants the next
    /// one.
    #[inline]
    pub fn begin_turn(&mut self, context: &mut Context) -> (bool, Option<u64>) {
        set_in_turn(true);
        debug_assert!(self.started.is_none(), "the last turn was timed to its end");
        let is_timed = self.turns.is_multiple_of(TURNS_A_TIMING) || self.sessions.times_turn;
        if self.turns == 0 {
            tidewire_keyspace::never_sleep();
        }
        self.turns = self.turns.wrapping_add(1);
        self.started = is_timed.then(Instant::now);
        self.server.turns[self.lane].doing.part(Part::Upkeep);
        let has_right = self.enter(context);
        if has_right && self.server.post.take_lagging(self.lane) {
            self.fanout.owe_everything(context);
            self.server.invalidate_lane(self.lane);
        }
        let mut deadline_ns = None;
        if self.fanout.renew(context) {
            deadline_ns = Some(self.renew_again_ns(context));
        }
        if self.fanout.pump_waiting(context) {
            deadline_ns = Some(context.now_ns());
        }
        if self.invalid_bytes + self.unsent_bytes > 0 {
            // Output of this turn is sent at its end.
            self.server.post.taken(self.lane, self.unsent_bytes);
            self.unsent_bytes = std::mem::take(&mut self.invalid_bytes);
            deadline_ns = Some(context.now_ns());
        }
        (has_right, deadline_ns)
    }

    /// Does the work that is due in a turn. Returns when the next one is wanted.
    #[inline]
    pub fn turn(&mut self, context: &mut Context, has_right: bool) -> Option<u64> {
        self.sweep(context, has_right);
        let mut deadline_ns = None;
        if self.fanout.take_departing_out() || self.fanout.is_waited_for() {
            deadline_ns = Some(context.now_ns());
        }
        if !self.sessions.replicas.is_empty() {
            self.sessions.replicas.serve(&self.server, context);
        }
        if self.is_swept() {
            deadline_ns = earlier(deadline_ns, Some(self.sweep_ns));
        }
        if self.server.attention.has(Obstacles::TRACKED) {
            self.server.broadcast_changed();
        }
        if !has_right {
            // A script of another lane holds the shards that all this needs.
            self.resume_impatient(context);
            let again_ns = context.now_ns() + SCRIPT_WAIT_NS;
            return earlier(deadline_ns, Some(again_ns));
        }
        if self.server.make_room(context) == Room::Clearing {
            deadline_ns = Some(context.now_ns());
        }
        deadline_ns = earlier(deadline_ns, self.write_for_hubs(context));
        deadline_ns = earlier(deadline_ns, self.end_waits(context));
        deadline_ns = earlier(deadline_ns, self.expire_keys(context));
        if self.server.attention.has(Obstacles::TRACKED) {
            self.turn_tracking();
        }
        deadline_ns
    }

    /// The end of a turn: what was told in it is written, and replies may leave. Returns when the
    /// next turn is wanted, `deadline_ns` or before.
    #[inline]
    pub fn end_turn(&mut self, context: &mut Context, deadline_ns: Option<u64>) -> Option<u64> {
        let server = &self.server;
        let permit = LaneWait::permit(WaitReason::Flush);
        server.durability.before_replies(server, self.lane);
        drop(permit);
        self.settle_log(context);
        let deadline_ns = earlier(deadline_ns, self.settle_hub_writes(context));
        let deadline_ns = earlier(deadline_ns, self.settle_users(context));
        let commands = std::mem::take(&mut self.sessions.turn_commands);
        let turns = &self.server.turns[self.lane];
        turns.note_commands(commands);
        if let Some(started) = self.started.take() {
            self.sessions.times_turn = false;
            turns.note_upkeep(started.elapsed());
        }
        let deadline_ns = earlier(deadline_ns, self.note_turn(context));
        self.server.scripting.rights.leave(self.lane);
        debug_assert!(
            !self.server.scripting.rights.holds(self.lane),
            "between two turns a lane has no right to lock shards"
        );
        debug_assert!(
            self.sessions.users_changers.is_empty(),
            "each turn settles its own changes of users"
        );
        self.server.sleep_along();
        set_in_turn(false);
        deadline_ns
    }

    /// Whether there is something to look at although nothing comes.
    fn is_swept(&self) -> bool {
        let server = &self.server;
        self.has_unread
            || server.parameters.limits_clients()
            || !self.sessions.replicas.is_empty()
            || self.lane == 0
                && (server.replication.is_swept(server)
                    || server.durability.wants_ticks(server)
                    || server.parameters.limits_memory())
    }

    /// Looks at the deadlines of sessions; they are of 100 ms and more, so that a coarse look
    /// costs less than exact timers.
    #[inline]
    fn sweep(&mut self, context: &mut Context, has_right: bool) {
        if context.now_ns() >= self.sweep_ns {
            self.sweep_now(context, has_right);
        }
    }

    #[cold]
    fn sweep_now(&mut self, context: &mut Context, has_right: bool) {
        self.sweep_ns = context.now_ns() + SWEEP_INTERVAL_NS;
        self.fanout.sweep(context.now_ns());
        if self.lane == 0 {
            self.sweep_server(context, has_right);
        }
        self.sessions.replicas.sweep(&self.server, context);
        if self.server.parameters.limits_clients() || self.has_unread {
            self.has_unread = false;
            for session in self.sessions.all_mut() {
                session.sweep(&self.server, context);
                self.has_unread |= context.out_bytes(session.client().connection) > 0;
            }
        }
    }

    /// Does the first lane's work for the whole server.
    fn sweep_server(&mut self, context: &Context, has_right: bool) {
        let server = self.server.clone();
        server.usage.look();
        server.follow_resident();
        if has_right && server.durability.wants_ticks(&server) {
            server.durability.tick(&server);
        }
        server.rates.note(server.moment());
        if has_right {
            self.sweep_tracking();
        }
        if server.replication.is_swept(&server) {
            let now_ms = (context.unix_ns() / 1_000_000) as i64;
            server.replication.sweep(&server, now_ms);
            let _permit = LaneWait::permit(WaitReason::Shutdown);
            server.follow_stop(has_right);
        }
    }

    /// The session of a client that waits no more. Each reply that does not come at once passes
    /// here, and may tell of keys: that an element came, or that there was none until now.
    fn end_wait(&mut self, client: u64) -> Option<&mut RespSession> {
        let connection = self.waiting.remove(client)?;
        self.note_reader(connection);
        let session = self.sessions.get_mut(connection)?;
        debug_assert!(
            session.client().id == client && session.is_waiting(),
            "a client in the lane's list of waiting clients waits"
        );
        Some(session)
    }

    /// Answers clients whose time has come. Returns when to look again.
    fn end_waits(&mut self, context: &mut Context) -> Option<u64> {
        if !self.waiting.waits_for_time() {
            return None;
        }
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        let server = self.server.clone();
        while let Some((client, _)) = self.waiting.pop_due(now_ms) {
            if let Some(later_ms) = retry(&server, client, now_ms) {
                self.waiting.set_deadline(client, later_ms);
                continue;
            }
            // If the wait has ended otherwise, the reply is on its way.
            if server.waiting.claim(client, &server.keyspace).is_some()
                && let Some(session) = self.end_wait(client)
            {
                session.timed_out(&server, context);
            }
        }
        let mut deadline_ms = self.waiting.deadline_ms();
        debug_assert!(
            deadline_ms.is_none_or(|deadline_ms| deadline_ms > now_ms),
            "every wait whose time has come has ended"
        );
        if self.waiting.has_postponed() {
            let end_ms = server.pause.next_end_ms(now_ms);
            if end_ms.is_none() || end_ms != self.waiting.pause_end_ms {
                // A pause has ended, begun or become longer: some commands may go on.
                self.waiting.pause_end_ms = end_ms;
                self.resume_postponed(context);
            }
            if let Some(end_ms) = end_ms {
                deadline_ms = Some(deadline_ms.map_or(end_ms, |other| other.min(end_ms)));
            }
        }
        let wait_ms = deadline_ms?
            .saturating_sub(now_ms)
            .clamp(0, DEADLINE_MS_MAX) as u64;
        Some(context.now_ns() + wait_ms * 1_000_000)
    }

    fn resume_postponed(&mut self, context: &mut Context) {
        for (_, connection) in self.waiting.take_postponed(&self.server.waiting) {
            if let Some(session) = self.sessions.get_mut(connection) {
                session.resume(context);
            }
        }
    }

    /// Keeps the table of tracked keys within its bound, and tells what has expired.
    #[cold]
    fn turn_tracking(&self) {
        let server = &*self.server;
        let keys_max = match server.parameters.read(TRACKING_TABLE_MAX_KEYS) {
            0 => u64::MAX,
            keys_max => keys_max,
        };
        if server.keyspace.tracked_keys() > keys_max {
            server
                .keyspace
                .limit_tracking(keys_max, &mut LiveObserver(server));
        }
        server.broadcast_changed();
    }

    /// Forgets clients that tracked keys and have left, shard by shard.
    fn sweep_tracking(&mut self) {
        let left = &self.server.tracking.has_left;
        if left.load(Ordering::Relaxed) == 0 && self.tracking_sweep == 0 {
            return;
        }
        if self.tracking_sweep == 0 {
            left.store(0, Ordering::Relaxed);
        }
        let clients = &self.server.clients;
        let is_there = |id: u64| clients.find(id).is_some();
        debug_assert!(self.tracking_sweep < SHARDS, "a sweep begins at a shard");
        for shard in self.tracking_sweep..self.tracking_sweep + SHARDS_A_SWEEP {
            self.server.keyspace.sweep_tracking(shard, &is_there);
        }
        self.tracking_sweep = (self.tracking_sweep + SHARDS_A_SWEEP) % SHARDS;
    }

    fn expire_keys(&mut self, context: &Context) -> Option<u64> {
        let keyspace = &self.server.keyspace;
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        let latency_ms = self.server.parameters.read(LATENCY_MONITOR_THRESHOLD);
        let started = (latency_ms != 0).then(Instant::now);
        keyspace.expire_due(now_ms, EXPIRIES_A_TURN, &mut LiveObserver(&self.server));
        if let Some(ms) = started.map(|started| started.elapsed().as_millis() as u64)
            && ms >= latency_ms
        {
            let unix_s = context.unix_ns() / 1_000_000_000;
            self.server.slow_events.note("expire-cycle", unix_s, ms);
        }
        let deadline_ms = keyspace.next_deadline_ms()?;
        let wait_ms = deadline_ms.saturating_sub(now_ms).clamp(0, DEADLINE_MS_MAX) as u64;
        Some(context.now_ns() + wait_ms * 1_000_000)
    }

    /// When to go on with topics that changed all at once.
    fn renew_again_ns(&self, context: &Context) -> u64 {
        let wait_ns = match self.server.is_filling() {
            true => FILLING_WAIT_NS,
            false => 0,
        };
        context.now_ns() + wait_ns
    }
}

/// Runs the command of a client again whose wait has such a time, and that time has come. Returns
/// when to look at the client next, unless that is now: its timeout is over.
fn retry(server: &Server, client: u64, now_ms: i64) -> Option<i64> {
    let waiter = server.waiting.waiter(client)?;
    waiter.retry_ms()?;
    if waiter
        .deadline_ms
        .is_some_and(|deadline_ms| deadline_ms <= now_ms)
    {
        return None;
    }
    let keyspace = &server.keyspace;
    if keyspace.is_loading() || server.pause.next_end_ms(now_ms).is_some() {
        return Some(now_ms + RETRY_WAIT_MS);
    }
    keyspace.retry(&waiter, now_ms, &mut LiveObserver(server));
    // Its reply, if there is one now, comes as mail and ends the wait.
    let time_ms = next_time_ms(&waiter).unwrap_or(i64::MAX);
    Some(time_ms.max(now_ms + 1))
}

/// The earlier of two deadlines, where there are any.
pub fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The upkeep of one in this many turns is timed.
const TURNS_A_TIMING: u32 = 64;
/// How often sessions' deadlines are checked.
const SWEEP_INTERVAL_NS: u64 = 100_000_000;
/// Shards looked through at a time for clients that have left.
const SHARDS_A_SWEEP: usize = 8;
const _: () = assert!(
    SHARDS.is_multiple_of(SHARDS_A_SWEEP),
    "a sweep ends with the last shard"
);
/// How soon to run a waiting command again that cannot run now, ms.
const RETRY_WAIT_MS: i64 = 50;
/// How soon to look again whether keys are loaded.
const FILLING_WAIT_NS: u64 = 10_000_000;
/// How soon to look again whether another lane's script has ended.
const SCRIPT_WAIT_NS: u64 = 5_000_000;
/// Keys expired a turn, so that a million of them at once do not hold the lane up.
const EXPIRIES_A_TURN: usize = 1_000;
/// The longest wait for a deadline, ms: a day.
const DEADLINE_MS_MAX: i64 = 86_400_000;
