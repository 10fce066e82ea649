//! EVAL and its kin, FCALL, SCRIPT and FUNCTION.
//!
//! A script runs on its client's lane with every shard locked. When it has run for longer than
//! `busy-reply-threshold`, the lane's other Redis clients are answered from within, between two of
//! its instructions; the other lanes see the same state and answer for themselves.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidewire_keyspace::commands::Group;
use tidewire_keyspace::{
    Command, Locked, Outcome, Run, SessionCommand, ShardSet, check_arity, lookup,
};
use tidewire_resp::number::parse_integer;
use tidewire_resp::{ArgumentList, Arguments, Protocol, Writer};
use tidewire_script::{Engine, Failure, Host, Libraries, Purpose, Script, ScriptFlags, Sha1};

use super::observing::{Stopwatch, note_called, show_called};
use super::replication::{MASTER_DOWN, write_refusal};
use super::transaction::OUT_OF_MEMORY;
use super::{Call, Pipeline, ReplyMode, State};
use crate::hub::{Hub, LiveObserver};
use crate::scripting::{Form, Running, has_deprecated};
use crate::sessions::DuringCall;

thread_local! {
    /// The Lua states of this thread, which is one lane.
    static ENGINES: RefCell<Engines> = RefCell::default();
}

#[derive(Debug, Default)]
struct Engines {
    scripts: Option<Engine>,
    functions: Option<Engine>,
    /// How often all scripts had been forgotten when the state was made.
    scripts_version: u64,
    functions_version: u64,
    /// Replies before they go out; kept for its memory.
    reply: Vec<u8>,
}

/// What is to be run.
enum Job {
    Script(Arc<Script>),
    Function(String, ScriptFlags),
}

/// A command that runs a script.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptCommand {
    pub(super) form: Form,
    only_reads: bool,
}

impl ScriptCommand {
    pub(super) fn of(command: SessionCommand) -> Option<Self> {
        use SessionCommand as Name;
        let (form, only_reads) = match command {
            Name::Eval => (Form::Body, false),
            Name::EvalRo => (Form::Body, true),
            Name::EvalSha => (Form::Sha1, false),
            Name::EvalShaRo => (Form::Sha1, true),
            Name::Fcall => (Form::Function, false),
            Name::FcallRo => (Form::Function, true),
            _ => return None,
        };
        Some(ScriptCommand { form, only_reads })
    }

    /// The same of any command.
    pub(super) fn of_command(command: &Command) -> Option<Self> {
        match command.run {
            Run::Session(command) => ScriptCommand::of(command),
            _ => None,
        }
    }
}

/// Lets libraries be loaded into this lane's Lua state for functions.
pub(super) fn with_functions<R>(
    call: &Call<'_>,
    run: impl FnOnce(&Libraries, &mut Engine) -> Result<R, String>,
) -> Result<R, String> {
    ENGINES.with_borrow_mut(|engines| {
        let hub = call.hub;
        let done = run(&hub.scripting.libraries, engines.functions(hub)?);
        engines.note_memory(hub, call.context.lane());
        done
    })
}

/// Drops this lane's Lua state for functions: there are none.
pub(crate) fn forget_functions(hub: &Hub, lane: usize) {
    ENGINES.with(|engines| {
        // While a script runs it is not to be had; it will be seen to be old when it is used next.
        if let Ok(mut engines) = engines.try_borrow_mut() {
            engines.functions = None;
            engines.note_memory(hub, lane);
        }
    });
}

impl State {
    /// Refuses a command because a script has run for too long; false if none has, or the command
    /// is one of the few that are executed meanwhile.
    #[cold]
    pub(super) fn refused_as_busy(&mut self, call: &mut Call<'_>, command: &Command) -> bool {
        // Watching would need a shard, and they are all locked.
        if command.has_flag("allow_busy") && command.name != "watch" {
            return false;
        }
        let Err(text) = call.hub.scripting.wait_for_end() else {
            return false;
        };
        call.note_rejected();
        if command.name == "exec" && self.transaction.is_some() {
            self.drop_transaction(call.hub);
            let text = format!("EXECABORT Transaction discarded because of: {text}");
            self.refuse(call, &text);
        } else {
            self.abort_transaction();
            self.refuse(call, text);
        }
        true
    }

    /// Runs a script by itself.
    pub(super) fn run_script_alone(&mut self, call: &mut Call<'_>, script: ScriptCommand) {
        let hub = call.hub;
        let _turn = match hub.scripting.begin(&hub.keyspace) {
            Ok(turn) => turn,
            Err(text) => return self.refuse(call, text),
        };
        let locked = hub.keyspace.lock(ShardSet::all());
        let locked = self.run_script(hub, call, script, locked);
        hub.keyspace
            .release(locked, call.now_ms(), &mut LiveObserver(hub));
    }

    /// Runs a script on locked shards, which are all there are.
    pub(super) fn run_script<'h>(
        &mut self,
        hub: &'h Hub,
        call: &mut Call<'_>,
        script: ScriptCommand,
        locked: Locked<'h>,
    ) -> Locked<'h> {
        ENGINES.with_borrow_mut(|engines| {
            let job = match engines.find(call, script) {
                Ok(job) => job,
                Err(text) => {
                    self.refuse(call, &text);
                    return locked;
                }
            };
            let keys = parse_integer(&call.arguments[2]).unwrap_or(0) as usize;
            if let Some(command) = self.last_command {
                self.show_script(call, command);
            }
            match self.check_flags(hub, script, job.flags()) {
                Ok(()) => self.run_job(hub, call, script, engines, &job, keys, locked),
                Err(text) => {
                    self.refuse(call, text);
                    locked
                }
            }
        })
    }

    fn check_flags(
        &self,
        hub: &Hub,
        script: ScriptCommand,
        flags: ScriptFlags,
    ) -> Result<(), &'static str> {
        if flags.has(ScriptFlags::UNDECLARED) {
            return match self.is_stale(hub) {
                true => Err(MASTER_DOWN),
                false => Ok(()),
            };
        }
        if script.only_reads && !flags.has(ScriptFlags::NO_WRITES) {
            return Err("ERR Can not execute a script with write flag using *_ro command.");
        }
        let writes = !flags.has(ScriptFlags::NO_WRITES);
        if writes && hub.parameters.is_guarded() {
            let is_replica = hub.replication.master().is_some();
            if is_replica && hub.parameters.text("replica-read-only") == "yes" {
                let text = "READONLY You can not run script with write flag on readonly replica.";
                return Err(text);
            }
            write_refusal(hub, crate::hub::unix_ms()).map_or(Ok(()), Err)?;
        }
        let frugal = ScriptFlags::ALLOW_OOM.with(ScriptFlags::NO_WRITES);
        if hub.parameters.memory_is_full.load(Ordering::Relaxed) && !flags.has(frugal) {
            return Err(
                "OOM allow-oom flag is not set on the script, can not run it when used \
                        memory > 'maxmemory'",
            );
        }
        Ok(())
    }

    fn run_job<'h>(
        &mut self,
        hub: &'h Hub,
        call: &mut Call<'_>,
        script: ScriptCommand,
        engines: &mut Engines,
        job: &Job,
        keys: usize,
        locked: Locked<'h>,
    ) -> Locked<'h> {
        let flags = job.flags();
        let declared = !flags.has(ScriptFlags::UNDECLARED);
        let protocol = self.protocol;
        let request = call.arguments;
        let mut host = ScriptHost {
            hub,
            database: self.database,
            only_reads: script.only_reads || declared && flags.has(ScriptFlags::NO_WRITES),
            allows_full_memory: declared && flags.has(ScriptFlags::ALLOW_OOM),
            memory_is_full: hub.parameters.memory_is_full.load(Ordering::Relaxed),
            is_dirty: false,
            has_failed: false,
            withholds: (false, false),
            started: Instant::now(),
            pipeline: None,
            form: script.form,
            name: job.name(),
            state: self,
            call,
            locked: Some(locked),
        };
        let mut out = std::mem::take(&mut engines.reply);
        out.clear();
        let mut reply = Writer::new(&mut out, protocol);
        let ended = engines.run(job, request.tail(3), keys, &mut host, &mut reply);
        let (locked, has_failed) = (host.locked.take(), host.has_failed);
        if host.pipeline.is_some() {
            host.call.context.release(host.state.id);
        }
        engines.note_memory(hub, call.context.lane());
        match ended {
            Ok(()) => {
                if has_failed {
                    self.refusals.set(self.refusals.get() + 1);
                }
                self.reply(call.context, |reply| reply.raw(&out));
            }
            Err(failure) => self.refuse_script(call, &failure),
        }
        if out.capacity() <= REPLY_BYTES_KEPT {
            engines.reply = out;
        }
        // A command that gave the locks back and panicked has taken them with it.
        locked.unwrap_or_else(|| hub.keyspace.lock(ShardSet::all()))
    }

    fn refuse_script(&mut self, call: &mut Call<'_>, failure: &Failure) {
        if failure.is_counted {
            self.refusals.set(self.refusals.get() + 1);
            self.reply(call.context, |reply| reply.error(&failure.text));
        } else {
            self.refuse(call, &failure.text);
        }
    }

    pub(super) fn script_load(&mut self, call: &mut Call<'_>) {
        let body = &call.arguments[2];
        let loaded = ENGINES.with_borrow_mut(|engines| {
            let scripts = &call.hub.scripting.scripts;
            let script = Script::new(body)?;
            if let Some(known) = scripts.find(&script.sha1) {
                return Ok(known);
            }
            let engine = engines.scripts(call.hub)?;
            engine.check(&script).map_err(|failure| failure.text)?;
            engines.note_memory(call.hub, call.context.lane());
            Ok(scripts.add(script, true))
        });
        match loaded {
            Ok(script) => {
                let name = script.name.as_bytes();
                self.reply(call.context, |reply| reply.bulk(name));
            }
            Err(text) => {
                let text: String = text;
                self.refuse(call, &text);
            }
        }
    }

    pub(super) fn script_exists(&mut self, call: &mut Call<'_>) {
        let scripts = &call.hub.scripting.scripts;
        let is_known = |name: &[u8]| {
            let sha1 = Sha1::parse(name);
            sha1.is_some_and(|sha1| scripts.find(&sha1).is_some())
        };
        let known: Vec<bool> = call.arguments.tail(2).iter().map(is_known).collect();
        self.reply(call.context, |reply| {
            reply.array(known.len());
            known
                .iter()
                .for_each(|&known| reply.integer(i64::from(known)));
        });
    }

    pub(super) fn script_flush(&mut self, call: &mut Call<'_>) {
        let mode = call.arguments.get(2);
        let is_mode =
            |mode: &[u8]| mode.eq_ignore_ascii_case(b"SYNC") || mode.eq_ignore_ascii_case(b"ASYNC");
        if call.arguments.len() > 3 || mode.is_some_and(|mode| !is_mode(mode)) {
            return self.refuse(call, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        }
        call.hub.scripting.scripts.flush();
        let (hub, lane) = (call.hub, call.context.lane());
        ENGINES.with_borrow_mut(|engines| {
            engines.scripts = None;
            engines.note_memory(hub, lane);
        });
        self.reply(call.context, |reply| reply.ok());
    }

    /// There is no debugger, so that it can only be left off.
    pub(super) fn script_debug(&mut self, call: &mut Call<'_>) {
        match &call.arguments[2] {
            mode if mode.eq_ignore_ascii_case(b"no") => {
                self.reply(call.context, |reply| reply.ok());
            }
            mode if mode.eq_ignore_ascii_case(b"yes") || mode.eq_ignore_ascii_case(b"sync") => {
                self.refuse(call, "ERR scripts cannot be debugged on this server");
            }
            _ => self.refuse(call, "ERR Use SCRIPT DEBUG YES/SYNC/NO"),
        }
    }

    pub(super) fn script_kill(&mut self, call: &mut Call<'_>, function: bool) {
        match call.hub.scripting.kill(function) {
            Ok(()) => self.reply(call.context, |reply| reply.ok()),
            Err(text) => self.refuse(call, text),
        }
    }
}

impl Job {
    fn flags(&self) -> ScriptFlags {
        match self {
            Job::Script(script) => script.flags,
            Job::Function(_, flags) => *flags,
        }
    }

    fn name(&self) -> &str {
        match self {
            Job::Script(script) => &script.name,
            Job::Function(name, _) => name,
        }
    }
}

impl Engines {
    /// The Lua state of scripts; a new one if all have been forgotten.
    fn scripts(&mut self, hub: &Hub) -> Result<&mut Engine, String> {
        let version = hub.scripting.scripts.version();
        if self.scripts_version != version {
            self.scripts_version = version;
            self.scripts = None;
        }
        open(hub, &mut self.scripts, Purpose::Scripts)
    }

    /// The Lua state of functions; a new one if there is no library any more.
    fn functions(&mut self, hub: &Hub) -> Result<&mut Engine, String> {
        let version = hub.scripting.libraries.flushes();
        if self.functions_version != version {
            self.functions_version = version;
            self.functions = None;
        }
        open(hub, &mut self.functions, Purpose::Functions)
    }

    /// What a command is to run, its number of keys checked; or the text of the refusal.
    fn find(&mut self, call: &Call<'_>, script: ScriptCommand) -> Result<Job, Cow<'static, str>> {
        let (hub, name) = (call.hub, &call.arguments[1]);
        if script.form == Form::Function {
            let flags = hub.scripting.libraries.flags(name);
            let flags = flags.ok_or("ERR Function not found")?;
            check_keys(call.arguments, "ERR Bad number of keys provided")?;
            let name = String::from_utf8_lossy(name).into_owned();
            return Ok(Job::Function(name, flags));
        }
        let sha1 = match script.form {
            Form::Sha1 => Some(Sha1::parse(name).ok_or(NO_SCRIPT)?),
            _ => None,
        };
        let not_integer = "ERR value is not an integer or out of range";
        check_keys(call.arguments, not_integer)?;
        let scripts = &hub.scripting.scripts;
        let engine = self.scripts(hub)?;
        let own = match &sha1 {
            Some(sha1) => engine.find_sha1(sha1),
            None => engine.find(name),
        };
        if let Some(script) = own {
            scripts.touch(script);
            return Ok(Job::Script(script.clone()));
        }
        if let Some(sha1) = sha1 {
            let script = scripts.find(&sha1).ok_or(NO_SCRIPT)?;
            scripts.touch(&script);
            return Ok(Job::Script(script));
        }
        let script = Script::new(name)?;
        if let Some(script) = scripts.find(&script.sha1) {
            scripts.touch(&script);
            return Ok(Job::Script(script));
        }
        engine.check(&script).map_err(|failure| failure.text)?;
        Ok(Job::Script(scripts.add(script, false)))
    }

    fn run(
        &mut self,
        job: &Job,
        rest: Arguments<'_>,
        keys: usize,
        host: &mut ScriptHost<'_, '_, '_>,
        reply: &mut Writer<'_>,
    ) -> Result<(), Failure> {
        let hub = host.hub;
        let failure = |text| Failure {
            text,
            is_counted: false,
        };
        match job {
            Job::Script(script) => {
                let engine = self.scripts(hub).map_err(failure)?;
                engine.eval(script, rest, keys, host, reply)
            }
            Job::Function(name, _) => {
                let engine = self.functions(hub).map_err(failure)?;
                let libraries = hub.scripting.libraries.current();
                engine.call(&libraries, name, rest, keys, host, reply)
            }
        }
    }

    fn note_memory(&self, hub: &Hub, lane: usize) {
        let bytes = |engine: &Option<Engine>| engine.as_ref().map_or(0, Engine::memory_bytes);
        let bytes = [bytes(&self.scripts), bytes(&self.functions)];
        hub.scripting.set_bytes(lane, bytes);
    }
}

fn open<'e>(
    hub: &Hub,
    engine: &'e mut Option<Engine>,
    purpose: Purpose,
) -> Result<&'e mut Engine, String> {
    if engine.is_none() {
        let opened = Engine::new(purpose, has_deprecated(hub));
        *engine = Some(opened.map_err(|failure| failure.text)?);
    }
    engine.as_mut().ok_or_else(String::new)
}

fn check_keys(arguments: Arguments<'_>, no_number: &'static str) -> Result<(), &'static str> {
    match parse_integer(&arguments[2]) {
        None => Err(no_number),
        Some(..0) => Err("ERR Number of keys can't be negative"),
        Some(count) if count > arguments.len() as i64 - 3 => {
            Err("ERR Number of keys can't be greater than number of args")
        }
        Some(_) => Ok(()),
    }
}

/// What a script reaches.
struct ScriptHost<'s, 'c, 'h> {
    hub: &'h Hub,
    state: &'s mut State,
    call: &'s mut Call<'c>,
    /// Nothing only while a command runs that locks for itself.
    locked: Option<Locked<'h>>,
    /// The script's own: SELECT in it does not concern its client.
    database: usize,
    only_reads: bool,
    allows_full_memory: bool,
    memory_is_full: bool,
    is_dirty: bool,
    /// It has replied an error.
    has_failed: bool,
    /// From whom its changes are withheld: replicas, and the append-only file.
    withholds: (bool, bool),
    started: Instant,
    /// There once the script has run for too long and the lane is served from within.
    pipeline: Option<Box<Pipeline>>,
    form: Form,
    name: &'s str,
}

impl Host for ScriptHost<'_, '_, '_> {
    fn call(
        &mut self,
        arguments: Arguments<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) -> Result<(), Cow<'static, str>> {
        let (hub, lane) = (self.hub, self.call.context.lane());
        let command = match find_command(self.hub, arguments) {
            Ok(command) => command,
            Err((command, text)) => {
                if let Some(command) = command {
                    hub.statistics.of(lane, command).rejected();
                }
                hub.note_error(text);
                return Err(text.into());
            }
        };
        if let Err(text) = self.check(command) {
            hub.statistics.of(lane, command).rejected();
            hub.note_error(text);
            return Err(text.into());
        }
        if let Some(text) = self.state.script_refusal(self.call, command, arguments) {
            hub.statistics.of(lane, command).rejected();
            hub.note_error(&text);
            return Err(text.into());
        }
        if command.has_flag("write") && !self.is_dirty {
            self.is_dirty = true;
            hub.scripting.set_dirty();
        }
        let stopwatch = Stopwatch::start(hub, lane, command);
        let database = self.database;
        match command.run {
            Run::Session(session_command) => {
                self.run_session(command, session_command, arguments, protocol, reply);
            }
            _ => self.run_data(command, arguments, protocol, reply),
        }
        if let Some(ns) = stopwatch.stop(hub) {
            note_called(hub, command, arguments, ns);
        }
        show_called(hub, database, command, arguments);
        Ok(())
    }

    fn may_run(&mut self, arguments: Arguments<'_>) -> Option<bool> {
        let command =
            find_command(self.hub, arguments).map_or_else(|(command, _)| command, Some)?;
        Some(self.state.allows(self.hub, command, arguments))
    }

    fn set_replication(&mut self, to_replicas: bool, to_file: bool) {
        self.withholds = (!to_replicas, !to_file);
    }

    fn is_killed(&mut self) -> bool {
        let hub = self.hub;
        let limit_ms = hub.parameters.number("busy-reply-threshold");
        if limit_ms == 0 || self.started.elapsed() < Duration::from_millis(limit_ms) {
            return false;
        }
        if self.pipeline.is_none() {
            self.pipeline = Some(Box::new(Pipeline::new(hub.renames.clone())));
            self.call.context.hold(self.state.id);
            let running = Running {
                name: self.name.to_owned(),
                request: ArgumentList::from(self.call.arguments),
                started: self.started,
            };
            hub.scripting.set_busy(self.form, running);
        }
        let Some(pipeline) = &mut self.pipeline else {
            return false;
        };
        let mut lane = DuringCall {
            hub,
            sessions: &mut *self.call.sessions,
            fanout: &mut *self.call.fanout,
            waiting: &mut *self.call.waiting,
            pipeline,
        };
        let stops = self.call.context.turn_within(&mut lane, DuringCall::serves);
        stops || hub.scripting.is_killed()
    }

    fn note_error(&mut self, text: &str, is_counted: bool) {
        self.has_failed = true;
        if !is_counted {
            self.hub.note_error(text);
        }
    }
}

impl ScriptHost<'_, '_, '_> {
    /// Why a script may not call a command.
    fn check(&self, command: &Command) -> Result<(), &'static str> {
        // Scripts within scripts are beyond what even a test may ask for.
        let never = command.group == Group::Scripting;
        let allows_all = self.hub.scripting.allows_all.load(Ordering::Relaxed);
        if command.has_flag("noscript") && (never || !allows_all) {
            return Err("ERR This Redis command is not allowed from script");
        }
        let writes = command.has_flag("write");
        if !command.has_flag("stale") && self.state.is_stale(self.hub) {
            return Err("ERR Can not execute the command on a stale replica");
        }
        if self.only_reads && (writes || command.has_flag("may_replicate")) {
            return Err("ERR Write commands are not allowed from read-only scripts.");
        }
        if writes && !self.is_dirty && self.hub.parameters.is_guarded() {
            let now_ms = self.call.now_ms();
            write_refusal(self.hub, now_ms).map_or(Ok(()), Err)?;
        }
        let full = self.memory_is_full && !self.allows_full_memory && !self.is_dirty;
        if full && command.has_flag("denyoom") {
            return Err(OUT_OF_MEMORY);
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
        let (hub, now_ms) = (self.hub, self.call.now_ms());
        let (context, database) = (&*self.call.context, self.database);
        self.state
            .sample_key(hub, context, database, command, arguments);
        let Some(locked) = &mut self.locked else {
            return;
        };
        let (from_replicas, from_file) = self.withholds;
        let withholds = from_replicas || from_file;
        if withholds {
            locked.unit().withhold(from_replicas, from_file);
        }
        let outcome = hub.keyspace.run_locked(
            locked,
            command,
            arguments,
            self.database,
            now_ms,
            &mut Writer::new(reply, protocol),
            &mut LiveObserver(hub),
        );
        if withholds {
            locked.unit().withhold(false, false);
        }
        if let Outcome::Failed(error) = outcome {
            let lane = self.call.context.lane();
            hub.note_failure(lane, command, &error.to_string());
        }
    }

    /// Runs a command of the session as the script's own, and takes its reply out of what the
    /// client would get.
    fn run_session(
        &mut self,
        command: &'static Command,
        session_command: SessionCommand,
        arguments: Arguments<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) {
        let (hub, id) = (self.hub, self.state.id);
        let Some(start) = self.call.context.out(id).map(|out| out.buffer().len()) else {
            return reply.extend_from_slice(b"-ERR the client has left\r\n");
        };
        let apart = super::transaction::locks_shards(session_command, arguments);
        let mut suspended = None;
        if apart {
            // It looks into shards by itself, and must not find them locked by us. Those who wait
            // are served when the script has ended.
            suspended = self.locked.take().map(Locked::suspend);
        }
        let state = &mut *self.state;
        let own = (
            state.protocol,
            state.database,
            state.reply_mode,
            state.is_executing,
        );
        (state.protocol, state.database) = (protocol, self.database);
        (state.reply_mode, state.is_executing) = (ReplyMode::On, true);
        let refusals = state.refusals.get();
        let mut call = Call {
            hub,
            fanout: &mut *self.call.fanout,
            waiting: &mut *self.call.waiting,
            sessions: &mut *self.call.sessions,
            context: &mut *self.call.context,
            arguments,
            first_key: None,
        };
        state.run_session(&mut call, session_command);
        if state.refusals.replace(refusals) != refusals {
            hub.statistics.of(call.context.lane(), command).failed();
        }
        self.database = state.database;
        (
            state.protocol,
            state.database,
            state.reply_mode,
            state.is_executing,
        ) = own;
        let database = state.database as u32;
        state.client.database.store(database, Ordering::Relaxed);
        if let Some(out) = self.call.context.out(id) {
            let written = out.buffer();
            reply.extend_from_slice(&written[start..]);
            written.truncate(start);
        }
        if let Some(suspended) = suspended {
            self.locked = Some(hub.keyspace.resume(ShardSet::all(), suspended));
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

/// A refusal, and the command that it is about if there is one.
type Refusal = (Option<&'static Command>, &'static str);

fn find_command(hub: &Hub, arguments: Arguments<'_>) -> Result<&'static Command, Refusal> {
    let unknown = "ERR Unknown Redis command called from script";
    let named = |name: &[u8]| match &hub.renames {
        None => lookup(name),
        Some(renames) => renames.lookup(name),
    };
    let mut command = arguments.get(0).and_then(named).ok_or((None, unknown))?;
    if !command.subcommands.is_empty()
        && let Some(name) = arguments.get(1)
    {
        let mut parts = command.subcommands.iter();
        command = parts
            .find(|part| part.name.as_bytes().eq_ignore_ascii_case(name))
            .ok_or((None, unknown))?;
    }
    let wrong = "ERR Wrong number of args calling Redis command from script";
    check_arity(command, arguments).map_err(|_| (Some(command), wrong))?;
    Ok(command)
}

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
/// A longer buffer of replies is freed after its use.
const REPLY_BYTES_KEPT: usize = 64 << 10;

pub(super) const HELP: &[&str] = &[
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
    "HELP",
    "    Print this help.",
];
