//! A Redis client's session: requests in, replies out, in order.

mod acl;
mod authentication;
mod blocking;
pub(crate) use blocking::next_time_ms;
mod book;
mod client;
mod client_filter;
mod connection;
mod cross_protocol;
mod debug;
mod declared;
mod direct;
mod functions;
mod gate;
mod handlers;
mod hot_keys;
mod info;
mod memory;
mod migration;
mod mounted;
mod observing;
mod obstacles;
mod output;
mod parameters;

mod fixed;
mod persistence;
mod pipeline;
mod pubsub;
mod replication;
mod scripting;
mod slow;
mod top;
mod tracking;
mod transaction;

pub(crate) use observing::{Stopwatch, note_slow};
pub use output::Relay;
pub(crate) use parameters::rewrite_redis_conf;
pub(crate) use pipeline::Pipeline;
pub(crate) use replication::StreamStatus;
pub(crate) use scripting::forget_functions;

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::quality::RandomState;
use tidewire_keyspace::{Command, CommandError, Flags, KeyHash, Outcome, Run, WatchedKey, lookup};
use tidewire_lane::{CloseReason, ConnectionId, Context};
use tidewire_resp::{ArgumentList, Arguments, Limits, Protocol, RequestParser};

use crate::attention::Obstacles;
use crate::clients::Client;
use crate::live::LiveObserver;
use crate::parameters::CLIENT_QUERY_BUFFER_LIMIT;
use crate::replication::LastChange;
use crate::server::Server;
use crate::sessions::Sessions;
use crate::waiting::LaneWaiting;
use authentication::{NO_AUTH, Permit, excess_of_stranger};
use blocking::Stop;
use declared::needs_no_keys;
use pipeline::{Gathered, Request};
use replication::{ReplicaSession, ToldCommand};
use tidewire_fanout::Dialect;
use tidewire_fanout::Fanout;
use tidewire_fanout::OverLimit;
use transaction::Transaction;

/// A Redis client.
#[derive(Debug)]
pub(crate) struct RespSession {
    parser: RequestParser,
    /// Bytes of kept input in front of a long argument that is arriving.
    query_skipped: usize,
    /// How long the request is to become that has begun, where it names a long argument.
    announced: usize,
    state: State,
}

/// The state that a client's commands change.
#[derive(Debug)]
struct State {
    id: ConnectionId,
    protocol: Protocol,
    database: usize,
    client: Arc<Client>,
    reply_mode: ReplyMode,
    last_command: Option<&'static Command>,
    /// Conditions of this connection that keep a request from being executed at once.
    own: Obstacles,
    /// Why nothing is executed for now.
    stop: Stop,
    /// The commands queued since MULTI.
    transaction: Option<Box<Transaction>>,
    watched: HashSet<WatchedKey, RandomState>,
    /// EXEC runs, and has shards locked.
    is_executing: bool,
    /// The user that it is, and what that user may do.
    permit: Permit,
    over_limit: OverLimit,
    /// How many bytes it may leave unread, as of the last requests.
    output_bytes_max: usize,
    /// Where its replies go, if another session relays them to its peer.
    relay: Option<Relay>,
    /// Its settings as a replica, or before it becomes one.
    replica: Option<Box<ReplicaSession>>,
    /// Commands of the session that replicas and the append-only file must receive.
    told: Vec<ToldCommand>,
    /// Errors that the session itself has replied.
    refusals: Cell<u64>,
    /// The request that waits and how long it took so far, where slow ones are kept.
    waiting_request: Option<(ArgumentList, u64)>,
    /// Counts commands, to look at one in a few.
    sampled: u32,
    /// Counts writes to plant tags.
    mount_writes: u64,
    /// Where its own changes end, for WAIT and WAITAOF.
    last_change: LastChange,
    /// The refusal of the command under way, because a script has run for too long.
    busy: Option<&'static str>,
    /// Whether a reply to the input under way may tell of keys.
    asks_for_keys: bool,
}

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyMode {
    On,
    Off,
    /// The reply to the next command is left out.
    SkipNext,
    /// The reply to this command is left out.
    Skip,
}

/// The context of one command, beside its client's state.
struct Call<'a> {
    server: &'a Server,
    fanout: &'a mut Fanout,
    waiting: &'a mut LaneWaiting,
    sessions: &'a mut Sessions,
    context: &'a mut Context,
    arguments: Arguments<'a>,
    /// The hash of the first key, where it has been fetched ahead.
    first_key: Option<KeyHash>,
}

impl Call<'_> {
    /// Wall-clock time of this turn, ms since the UNIX epoch.
    fn now_ms(&self) -> i64 {
        (self.context.unix_ns() / 1_000_000) as i64
    }

    /// Counts a command that was refused before it began.
    #[cold]
    fn note_rejected(&self) {
        let Some(mut command) = self.arguments.get(0).and_then(lookup) else {
            return;
        };
        if let Some(part) = self.arguments.get(1) {
            command = command.subcommand(part).unwrap_or(command);
        }
        self.server
            .statistics
            .of(self.context.lane(), command)
            .rejected();
    }
}

impl RespSession {
    pub(crate) fn new(server: &Server, id: ConnectionId, client: Arc<Client>) -> Self {
        Self {
            parser: RequestParser::new(Limits::default()),
            query_skipped: 0,
            announced: 0,
            state: State {
                id,
                protocol: Protocol::Resp2,
                database: 0,
                client,
                reply_mode: ReplyMode::On,
                last_command: None,
                own: Obstacles::default(),
                stop: Stop::No,
                transaction: None,
                watched: HashSet::default(),
                is_executing: false,
                permit: Permit::new(&server.access),
                over_limit: OverLimit::default(),
                output_bytes_max: usize::MAX,
                relay: None,
                replica: None,
                told: Vec::new(),
                refusals: Cell::new(0),
                waiting_request: None,
                // Clients that connect together sample different commands.
                sampled: id.index() as u32,
                mount_writes: 0,
                last_change: LastChange::default(),
                busy: None,
                asks_for_keys: false,
            },
        }
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.state.client
    }

    /// Input is about to be executed.
    #[inline]
    pub(crate) fn begin_input(&mut self) {
        self.state.last_change.begin_input();
        self.state.asks_for_keys = false;
    }

    /// Input was executed: notes what it has changed.
    #[inline]
    pub(crate) fn end_input(&mut self, server: &Server) {
        self.state.last_change.end_input(server);
    }

    /// Whether a reply to the last input may tell of keys.
    #[inline]
    pub(crate) fn asks_for_keys(&self) -> bool {
        self.state.asks_for_keys
    }

    /// Executes the requests in `input` and returns how many bytes they took.
    pub(crate) fn received(
        &mut self,
        server: &Server,
        fanout: &mut Fanout,
        waiting: &mut LaneWaiting,
        sessions: &mut Sessions,
        pipeline: &mut Pipeline,
        context: &mut Context,
        input: &[u8],
    ) -> usize {
        let id = self.state.id;
        debug_assert!(
            !self.state.is_executing,
            "a client whose EXEC or script runs is not in the table"
        );
        if input.len() > LONG_INPUT_BYTES && self.is_too_much(server, context, input.len()) {
            return input.len();
        }
        if input.len() as u64 > server.parameters.read(CLIENT_QUERY_BUFFER_LIMIT) {
            self.state.end_for_length(server, context);
            return input.len();
        }
        self.state.note_heard(context);
        let limit = self.state.output_limit(server);
        self.state.output_bytes_max = limit;
        let Some(pause_bytes) = self.state.pause_bytes(context, limit) else {
            return 0;
        };
        let mut consumed = 0;
        let mut commands = 0;
        let mut announced = 0;
        while !self.state.is_stopped() {
            let rest = &input[consumed..];
            let (keyspace, database) = (&server.keyspace, self.state.database);
            let gathered = pipeline.gather(&mut self.parser, keyspace, database, rest);
            let mut whole = true;
            let requests = pipeline.requests();
            let mut at = 0;
            while at < requests.len() {
                let direct = self.state.execute_directly(
                    server,
                    context,
                    &requests[at..],
                    rest,
                    pause_bytes,
                );
                let executed = &requests[at..at + direct];
                debug_assert!(
                    direct == 0 || !self.state.is_stopped(),
                    "a direct command neither waits nor ends the connection"
                );
                consumed += executed.iter().map(Request::length).sum::<usize>();
                commands += direct as u64;
                at += direct;
                let Some(request) = requests.get(at) else {
                    break;
                };
                if context.out_bytes(id) > pause_bytes || self.state.is_stopped() {
                    whole = false;
                    break;
                }
                if let Some(command) = &request.command {
                    let call = Call {
                        server,
                        fanout,
                        waiting,
                        sessions,
                        context,
                        arguments: request.arguments(rest),
                        first_key: request.first_key,
                    };
                    if !self.state.execute(call, command) {
                        whole = false;
                        break;
                    }
                    commands += 1;
                }
                consumed += request.length();
                at += 1;
            }
            if !whole {
                // Requests parsed ahead are parsed again, from their first byte.
                self.parser = RequestParser::new(Limits::default());
                if context.out_bytes(id) > limit {
                    self.state.cut_off(server, context);
                } else if !self.state.is_stopped() {
                    // It does not read its replies: it gets no more of them until it does. It may
                    // be writing still, and read when it has written all.
                    let query_bytes_max = server.parameters.read(CLIENT_QUERY_BUFFER_LIMIT);
                    let ahead_bytes_max = query_bytes_max.min(READ_AHEAD_BYTES_MAX);
                    context.pause_reading_ahead(id, ahead_bytes_max as usize);
                }
                break;
            }
            match gathered {
                Gathered::Full => {}
                Gathered::Partial(length)
                    if self.state.permit.is_stranger
                        && let Some(excess) = excess_of_stranger(&rest[rest.len() - length..]) =>
                {
                    self.state
                        .end(context, &format!("ERR Protocol error: {excess}"));
                }
                Gathered::Partial(length)
                    if length as u64 <= server.parameters.read(CLIENT_QUERY_BUFFER_LIMIT) =>
                {
                    let needed = if length > 0 { pipeline.needed() } else { 0 };
                    if needed > 1 {
                        context.expect(id, needed);
                    }
                    if needed > 1 && length + needed >= LONG_ARGUMENT_BYTES {
                        announced = length + needed;
                    }
                    break;
                }
                Gathered::Partial(_) => {
                    self.state.end_for_length(server, context);
                }
                Gathered::Broken(error) => {
                    self.state
                        .end(context, &format!("ERR Protocol error: {error}"));
                }
            }
        }
        debug_assert!(consumed <= input.len(), "requests lie in what came");
        self.state.assert_between_requests();
        if commands > 0 {
            server.commands.fetch_add(commands, Ordering::Relaxed);
            sessions.turn_commands += commands;
            let client = &self.state.client;
            client
                .active_unix_ns
                .store(context.unix_ns(), Ordering::Relaxed);
            if let Some(command) = self.state.last_command {
                *client.last_command.lock() = command.full_name;
            }
        }
        if context.out_bytes(id) > limit {
            self.state.cut_off(server, context);
        }
        self.query_skipped = match input.len() - consumed {
            ..=LONG_INPUT_BYTES => 0,
            _ => self.parser.partial_argument(&input[consumed..]),
        };
        debug_assert!(
            announced == 0 || consumed < input.len(),
            "an argument that is announced has begun"
        );
        if announced != self.announced {
            self.announced = announced;
            let bytes = &self.state.client.announced_bytes;
            bytes.store(announced as u64, Ordering::Relaxed);
        }
        self.state.account(server, context);
        let peak_ns = server.reply_peak_ns.load(Ordering::Relaxed);
        let client = &self.state.client;
        client.note_replies(context.out_bytes(id) as u64, context.unix_ns(), peak_ns);
        if self.state.own.has(Obstacles::CLOSING) {
            input.len()
        } else {
            consumed
        }
    }
}

impl RespSession {
    /// Input that is kept for the client, or output that it does not read, has changed.
    pub(crate) fn buffered(&mut self, server: &Server, context: &mut Context) {
        let (client, id) = (&self.state.client, self.state.id);
        let query_bytes = context.input_bytes(id).saturating_sub(self.query_skipped);
        client
            .query_bytes
            .store(query_bytes as u64, Ordering::Relaxed);
        client
            .output_bytes
            .store(context.out_bytes(id) as u64, Ordering::Relaxed);
        self.state.account(server, context);
    }

    /// Cuts the client off if, with this request, all clients together hold more than
    /// `maxmemory-clients`. Returns whether it was cut off.
    fn is_too_much(&self, server: &Server, context: &mut Context, bytes: usize) -> bool {
        let client = &self.state.client;
        client.query_bytes.store(bytes as u64, Ordering::Relaxed);
        self.state.account(server, context);
        client.memory_bytes.has_ended()
    }
}

impl State {
    /// Counts what the client holds; if all clients hold too much, some are cut off.
    #[inline]
    fn account(&self, server: &Server, context: &mut Context) {
        let queued = self.transaction.as_ref().map_or(0, |queued| queued.bytes());
        self.client
            .queued_bytes
            .store(queued as u64, Ordering::Relaxed);
        server.clients.account(&self.client);
        server.evict_clients(context);
    }

    /// Executes a command; false if it must wait until a pause or a script is over.
    #[inline]
    fn execute(&mut self, call: Call<'_>, command: &Result<&'static Command, String>) -> bool {
        match call.server.scripting.rights.has(call.context.lane()) {
            true => self.execute_now(call, command),
            false => self.execute_beside_script(call, command),
        }
    }

    #[inline]
    fn execute_now(
        &mut self,
        mut call: Call<'_>,
        command: &Result<&'static Command, String>,
    ) -> bool {
        debug_assert!(
            !self.is_stopped(),
            "a client that is stopped executes nothing"
        );
        let mut obstacles = self.obstacles(call.server);
        if obstacles.has(Obstacles::REPLICA | Obstacles::PAUSED | Obstacles::MUTED)
            && let Some(is_over) = self.begin_past(&mut call, command)
        {
            return is_over;
        }
        match command {
            Ok(command) => {
                let turn = match self.needs_turn(command) {
                    false => None,
                    true => match self.begin_script(&mut call, command) {
                        Some(turn) => {
                            // Other lanes went on until it came.
                            obstacles = self.obstacles(call.server);
                            Some(turn)
                        }
                        None => return false,
                    },
                };
                self.last_command = Some(command);
                self.asks_for_keys |= !needs_no_keys(command);
                call.server.turns[call.context.lane()]
                    .doing
                    .command(command);
                match obstacles.is_none() {
                    true => self.run(&mut call, command),
                    false => self.run_past(&mut call, command, obstacles),
                }
                drop(turn);
            }
            Err(_) if Self::is_cross_protocol(&call.arguments[0]) => {
                self.end_cross_protocol(&mut call);
            }
            Err(text) if text == EXEC_ARITY => {
                call.note_rejected();
                self.refuse_exec(&mut call, text);
            }
            Err(_) if self.permit.is_stranger && call.server.follows_valkey() => {
                call.note_rejected();
                self.refuse(&mut call, NO_AUTH);
            }
            Err(text) => {
                self.abort_transaction();
                call.note_rejected();
                self.refuse(&mut call, text);
            }
        }
        if matches!(self.stop, Stop::No) {
            self.after_reply();
        }
        true
    }

    /// The reply to a command is written, or was left out.
    #[inline]
    fn after_reply(&mut self) {
        if self.reply_mode == ReplyMode::Skip {
            self.set_reply_mode(ReplyMode::On);
        }
    }

    /// Whether CLIENT REPLY lets replies through.
    #[inline]
    fn replies(&self) -> bool {
        self.reply_mode == ReplyMode::On
    }

    /// Executes a command that no condition keeps back.
    #[inline]
    fn run(&mut self, call: &mut Call<'_>, command: &'static Command) {
        let stopwatch = Stopwatch::start(call.server, call.context.lane(), command);
        let written = match stopwatch.is_running() {
            true => call.context.out_bytes(self.id),
            false => 0,
        };
        match command.run {
            Run::Data(_) if command.has(Flags::BLOCKING) => self.run_waiting(call, command),
            Run::Data(_) if self.own.has(Obstacles::NO_TOUCH) || command.has(Flags::FLUSHES) => {
                self.run_otherwise(call, command);
            }
            Run::Data(_) => self.run_data(call, command),
            Run::Session => {
                let refusals = self.refusals.get();
                self.run_session(call, command);
                if self.refusals.get() != refusals {
                    stopwatch.failed();
                }
            }
            _ => {
                // The commands that have subcommands, without one.
                let name = command.name;
                let text = format!("ERR wrong number of arguments for '{name}' command");
                self.refuse(call, &text);
            }
        }
        if matches!(self.stop, Stop::Waiting(_)) {
            self.keep_request(call, &stopwatch);
        } else if let Some(ns) = stopwatch.stop(call.server) {
            self.note_time(call.server, command, call.arguments, ns);
            let replied = call.context.out_bytes(self.id).saturating_sub(written);
            self.note_hot(call.server, command, call.arguments, ns, replied);
        }
    }

    #[inline]
    fn run_data(&mut self, call: &mut Call<'_>, command: &'static Command) {
        let now_ms = (call.context.unix_ns() / 1_000_000) as i64;
        let database = self.database;
        self.sample_key(call.server, call.context, database, command, call.arguments);
        let Some(out) = call.context.out(self.id) else {
            return;
        };
        let start = out.buffer().len();
        let mut reply = self.writer(out);
        let mut observer = LiveObserver(call.server);
        let outcome = call.server.keyspace.execute_found(
            call.first_key,
            command,
            call.arguments,
            self.database,
            now_ms,
            &mut reply,
            &mut observer,
        );
        if self.reply_mode != ReplyMode::On {
            out.buffer().truncate(start);
        }
        if let Outcome::Failed(error) = outcome {
            if matches!(*error, CommandError::Mounted(_))
                && self.write_to_mount(call, command, start)
            {
                return;
            }
            let lane = call.context.lane();
            call.server.note_failure(lane, command, &error.to_string());
        }
    }

    /// Runs a data command that sets options on its locks.
    #[cold]
    fn run_otherwise(&mut self, call: &mut Call<'_>, command: &'static Command) {
        let (server, now_ms) = (call.server, call.now_ms());
        let is_flush = command.has(Flags::FLUSHES);
        let Some(out) = call.context.out(self.id) else {
            return;
        };
        let start = out.buffer().len();
        let mut reply = self.writer(out);
        let mut observer = LiveObserver(server);
        let keyspace = &server.keyspace;
        let mut locked = keyspace.lock(keyspace.shards_of(command, call.arguments));
        if self.own.has(Obstacles::NO_TOUCH) {
            locked.leave_untouched();
        }
        if is_flush {
            locked.free_behind();
        }
        let outcome = keyspace.run_locked(
            &mut locked,
            command,
            call.arguments,
            self.database,
            now_ms,
            &mut reply,
            &mut observer,
        );
        keyspace.release(locked, now_ms, &mut observer);
        let frees = is_flush && keyspace.lazily_freed().0 > 0;
        if frees {
            // The freeing thread's own cache would keep memory in use.
            keyspace.when_freed(Box::new(tidewire_memory::purge));
        }
        let waits = frees
            && matches!(outcome, Outcome::Done)
            && !call
                .arguments
                .get(1)
                .is_some_and(|option| option.eq_ignore_ascii_case(b"async"));
        if waits || !self.replies() {
            out.buffer().truncate(start);
        }
        if waits {
            self.wait_until_freed(call);
        }
        if let Outcome::Failed(error) = outcome {
            if matches!(*error, CommandError::Mounted(_))
                && self.write_to_mount(call, command, start)
            {
                return;
            }
            let lane = call.context.lane();
            server.note_failure(lane, command, &error.to_string());
        }
    }

    /// Ends the connection because its request is longer than `client-query-buffer-limit`. As in
    /// Redis there is no error: the client is still writing, and would take it for a reply.
    #[cold]
    fn end_for_length(&mut self, server: &Server, context: &mut Context) {
        server.query_cut_off.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            client = self.client.id,
            "its request is too long: it is cut off"
        );
        context.close(self.id, CloseReason::Requested);
        self.set_closing();
    }

    /// Ends the connection with an error.
    fn end(&mut self, context: &mut Context, text: &str) {
        let (client, address) = (self.client.id, &self.client.address);
        tracing::debug!(client, %address, text, "its connection is ended");
        self.send(context, |reply| reply.error(text));
        context.close_after_flush(self.id, CloseReason::Requested);
        self.set_closing();
    }

    /// Writes an error reply, and counts it.
    fn refuse(&self, call: &mut Call<'_>, text: &str) {
        self.refusals.set(self.refusals.get() + 1);
        call.server.note_error(text);
        self.reply(call.context, |reply| reply.error(text));
    }

    fn dialect(&self) -> Dialect {
        match self.protocol {
            Protocol::Resp2 => Dialect::Resp2,
            Protocol::Resp3 => Dialect::Resp3,
        }
    }

    fn help(&self, call: &mut Call<'_>, lines: &[&str]) {
        self.reply(call.context, |reply| {
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        });
    }
}

const EXEC_ARITY: &str = "ERR wrong number of arguments for 'exec' command";
/// Bytes that such a client may send meanwhile. Each time it goes on, the rest of them is moved.
const READ_AHEAD_BYTES_MAX: u64 = 64 << 20;
/// Input of more bytes at once is counted before it is executed.
const LONG_INPUT_BYTES: usize = 64 << 10;
/// An argument of at least this many bytes counts before it has arrived.
const LONG_ARGUMENT_BYTES: usize = 32 << 10;
