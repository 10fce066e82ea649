//! What scripts reach: the commands that they call, and how their lane serves others meanwhile.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidewire_keyspace::commands::Group;
use tidewire_keyspace::{Command, Flags, Locked, Outcome, Run, ShardSet, check_arity, lookup};
use tidewire_resp::{ArgumentList, Arguments, Protocol, Writer};
use tidewire_script::Host;

use super::super::observing::{Stopwatch, note_called, show_called};
use super::super::transaction;
use super::super::{Call, Pipeline, ReplyMode, State};
use crate::gate::Refusal;
use crate::live::LiveObserver;
use crate::parameters::BUSY_REPLY_THRESHOLD;
use crate::scripting::{Form, LongScript};
use crate::server::Server;
use crate::sessions::DuringCall;

/// The commands and the session that a script can use.
pub(super) struct ScriptHost<'s, 'c, 'h> {
    pub(super) server: &'h Server,
    pub(super) state: &'s mut State,
    pub(super) call: &'s mut Call<'c>,
    /// `None` only while a command runs that locks shards by itself.
    pub(super) locked: Option<Locked<'h>>,
    /// The script's own: SELECT in it does not concern its client.
    pub(super) database: usize,
    pub(super) only_reads: bool,
    pub(super) allows_full_memory: bool,
    pub(super) memory_is_full: bool,
    pub(super) is_dirty: bool,
    /// It has replied an error.
    pub(super) has_failed: bool,
    /// Whether its changes are withheld from replicas, and from the append-only file.
    pub(super) withholds: (bool, bool),
    pub(super) started: Instant,
    /// There once the script has run for too long and the lane is served from within.
    pub(super) pipeline: Option<Box<Pipeline>>,
    pub(super) form: Form,
    pub(super) name: &'s str,
}

impl Host for ScriptHost<'_, '_, '_> {
    fn call(
        &mut self,
        arguments: Arguments<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) -> Result<(), Cow<'static, str>> {
        let (server, lane) = (self.server, self.call.context.lane());
        let command = match find_command(self.server, arguments) {
            Ok(command) => command,
            Err((command, text)) => {
                if let Some(command) = command {
                    server.statistics.of(lane, command).rejected();
                }
                server.note_error(text);
                return Err(text.into());
            }
        };
        if let Err(text) = self.check(command) {
            server.statistics.of(lane, command).rejected();
            server.note_error(text);
            return Err(text.into());
        }
        let database = self.database;
        let refusal = self
            .state
            .script_refusal(self.call, command, arguments, database);
        if let Some(text) = refusal {
            server.statistics.of(lane, command).rejected();
            server.note_error(&text);
            return Err(text.into());
        }
        if command.has(Flags::PUBLISHES) {
            if let Some(locked) = &mut self.locked {
                server.keyspace.cover_name(locked, &arguments[1]);
            }
            if let Some(text) = server.publish_refusal(&arguments[1], self.locked.as_ref()) {
                server.statistics.of(lane, command).rejected();
                server.note_error(text);
                return Err(text.into());
            }
        }
        if command.has(Flags::WRITE) && !self.is_dirty {
            self.is_dirty = true;
            server.scripting.set_dirty();
        }
        let stopwatch = Stopwatch::start(server, lane, command);
        match command.run {
            Run::Session => self.run_session(command, arguments, protocol, reply),
            _ => self.run_data(command, arguments, protocol, reply),
        }
        if let Some(ns) = stopwatch.stop(server) {
            // Valkey names the client that called the script, Redis none.
            match server.follows_valkey() {
                true => self.state.note_time(server, command, arguments, ns),
                false => note_called(server, command, arguments, ns),
            }
        }
        show_called(server, database, command, arguments);
        Ok(())
    }

    fn may_run(&mut self, arguments: Arguments<'_>) -> Option<bool> {
        let command =
            find_command(self.server, arguments).map_or_else(|(command, _)| command, Some)?;
        Some(self.state.allows(command, arguments, self.database))
    }

    fn set_replication(&mut self, to_replicas: bool, to_file: bool) {
        self.withholds = (!to_replicas, !to_file);
    }

    fn is_killed(&mut self) -> bool {
        let server = self.server;
        if server.scripting.is_killed() || server.stop_asked.load(Ordering::Relaxed) {
            return true;
        }
        let limit_ms = server.parameters.read(BUSY_REPLY_THRESHOLD);
        if limit_ms == 0 || self.started.elapsed() < Duration::from_millis(limit_ms) {
            return false;
        }
        if self.pipeline.is_none() {
            self.pipeline = Some(Box::new(Pipeline::new(server.renames.clone())));
            self.call.context.hold(self.state.id);
            let running = LongScript {
                name: self.name.to_owned(),
                request: ArgumentList::from(self.call.arguments),
                started: self.started,
            };
            server.scripting.set_busy(self.form, running);
            server.tell_script_over(server.scripting.rights.waiting());
        }
        let Some(pipeline) = &mut self.pipeline else {
            return false;
        };
        let mut lane = DuringCall {
            server,
            sessions: &mut *self.call.sessions,
            fanout: &mut *self.call.fanout,
            waiting: &mut *self.call.waiting,
            pipeline,
        };
        let own_lane = self.call.context.lane();
        server.scripting.rights.lend(own_lane);
        let stops = self.call.context.turn_within(&mut lane, DuringCall::serves);
        server.scripting.rights.take_back(own_lane);
        stops || server.scripting.is_killed()
    }

    fn note_error(&mut self, text: &str, is_counted: bool) {
        self.has_failed = true;
        if !is_counted {
            self.server.note_error(text);
        }
    }
}

impl ScriptHost<'_, '_, '_> {
    /// Why a script may not call a command.
    fn check(&self, command: &Command) -> Result<(), &'static str> {
        // Scripts within scripts are beyond what even a test may ask for.
        let never = command.group == Group::Scripting;
        let allows_all = self.server.scripting.allows_all.load(Ordering::Relaxed);
        if command.has(Flags::NOSCRIPT) && (never || !allows_all) {
            return Err(match self.server.follows_valkey() {
                true => "ERR This Valkey command is not allowed from script",
                false => "ERR This Redis command is not allowed from script",
            });
        }
        let writes = command.has(Flags::WRITE);
        if !command.has(Flags::STALE) && self.server.is_stale() {
            return Err("ERR Can not execute the command on a stale replica");
        }
        if self.only_reads && (writes || command.has(Flags::MAY_REPLICATE)) {
            return Err("ERR Write commands are not allowed from read-only scripts.");
        }
        if writes && !self.is_dirty && self.server.is_gated() {
            let refusal = self.server.write_refusal(self.call.now_ms());
            refusal.map_or(Ok(()), |refusal| Err(refusal.text()))?;
        }
        let full = self.memory_is_full && !self.allows_full_memory && !self.is_dirty;
        if full && command.has(Flags::DENYOOM) {
            return Err(Refusal::Memory.text());
        }
        Ok(())
    }

    fn run_data(
        &mut self,
        command: &'static Command,
        arguments: Arguments<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) {
        let server = self.server;
        // No key expires while a script runs; the clock that TIME tells goes on.
        let now_ms = match command.name {
            "time" => tidewire_lane::unix_ms(),
            _ => self.call.now_ms(),
        };
        let (context, database) = (&*self.call.context, self.database);
        self.state
            .sample_key(server, context, database, command, arguments);
        debug_assert!(
            self.locked.is_some(),
            "a script holds its shards between calls"
        );
        let Some(locked) = &mut self.locked else {
            return;
        };
        server.keyspace.cover(locked, command, arguments);
        let (from_replicas, from_file) = self.withholds;
        let withholds = from_replicas || from_file;
        if withholds {
            locked.unit().withhold(from_replicas, from_file);
        }
        let outcome = server.keyspace.run_locked(
            locked,
            command,
            arguments,
            self.database,
            now_ms,
            &mut Writer::new(reply, protocol),
            &mut LiveObserver(server),
        );
        if withholds {
            locked.unit().withhold(false, false);
        }
        if let Outcome::Failed(error) = outcome {
            let lane = self.call.context.lane();
            server.note_failure(lane, command, &error.to_string());
        }
    }

    /// Runs a command of the session as the script's own, and takes its reply out of what the
    /// client would get.
    fn run_session(
        &mut self,
        command: &'static Command,
        arguments: Arguments<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) {
        let (server, id) = (self.server, self.state.id);
        let Some(start) = self.call.context.out(id).map(|out| out.buffer().len()) else {
            return reply.extend_from_slice(b"-ERR the client has left\r\n");
        };
        let apart = transaction::locks_shards(command, arguments);
        let mut suspended = None;
        if apart {
            // It locks shards by itself, so they must not be locked here. Waiting clients are
            // served when the script has ended.
            let locked = self.locked.take();
            suspended =
                locked.map(|locked| transaction::suspend(server, locked, command, arguments));
        }
        let state = &mut *self.state;
        let own = (
            state.protocol,
            state.database,
            state.is_executing,
            state.output_bytes_max,
        );
        (state.protocol, state.database) = (protocol, self.database);
        // What a script is answered is no reply to the client yet.
        state.output_bytes_max = usize::MAX;
        state.is_executing = true;
        let reply_mode = state.reply_mode;
        state.set_reply_mode(ReplyMode::On);
        let refusals = state.refusals.get();
        let mut call = Call {
            server,
            fanout: &mut *self.call.fanout,
            waiting: &mut *self.call.waiting,
            sessions: &mut *self.call.sessions,
            context: &mut *self.call.context,
            arguments,
            first_key: None,
        };
        state.run_session(&mut call, command);
        if state.refusals.replace(refusals) != refusals {
            server.statistics.of(call.context.lane(), command).failed();
        }
        self.database = state.database;
        (
            state.protocol,
            state.database,
            state.is_executing,
            state.output_bytes_max,
        ) = own;
        state.set_reply_mode(reply_mode);
        let database = state.database as u32;
        state.client.database.store(database, Ordering::Relaxed);
        if let Some(out) = self.call.context.out(id) {
            let written = out.buffer();
            debug_assert!(
                written.len() >= start,
                "a command of a script leaves what the client was sent before"
            );
            reply.extend_from_slice(&written[start..]);
            written.truncate(start);
        }
        if let Some(suspended) = suspended {
            self.locked = Some(server.keyspace.resume(ShardSet::all(), suspended));
        }
        if self.state.has_told()
            && let Some(locked) = &mut self.locked
        {
            let (from_replicas, from_file) = self.withholds;
            locked.unit().withhold(from_replicas, from_file);
            self.state.tell_into(locked.unit());
            locked.unit().withhold(false, false);
        }
    }
}

/// The text of a refusal, and the refused command if it is known.
type CallRefusal = (Option<&'static Command>, &'static str);

fn find_command(
    server: &Server,
    arguments: Arguments<'_>,
) -> Result<&'static Command, CallRefusal> {
    let unknown = match server.follows_valkey() {
        true => "ERR Unknown command called from script",
        false => "ERR Unknown Redis command called from script",
    };
    let named = |name: &[u8]| match &server.renames {
        None => lookup(name),
        Some(renames) => renames.lookup(name),
    };
    let mut command = arguments.get(0).and_then(named).ok_or((None, unknown))?;
    if command.is_container()
        && let Some(name) = arguments.get(1)
    {
        command = command.subcommand(name).ok_or((None, unknown))?;
    }
    let wrong = match server.follows_valkey() {
        true => "ERR Wrong number of args calling command from script",
        false => "ERR Wrong number of args calling Redis command from script",
    };
    check_arity(command, arguments).map_err(|_| (Some(command), wrong))?;
    Ok(command)
}
