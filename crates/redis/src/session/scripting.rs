//! EVAL and its kin, FCALL, SCRIPT and FUNCTION.
//!
//! A script runs on its client's lane, and no other lane locks a shard meanwhile. The shards that
//! its commands need stay locked until it ends. When it has run for longer than
//! `busy-reply-threshold`, the lane's other Redis clients are answered from within, between two of
//! its instructions; the other lanes see the same state and answer for themselves.

mod host;

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidewire_keyspace::commands::Group;
use tidewire_keyspace::{Command, Flags, Locked, ShardSet};
use tidewire_resp::number::parse_integer;
use tidewire_resp::{Arguments, Writer};
use tidewire_script::{Engine, Failure, Libraries, Purpose, Script, ScriptFlags, Sha1};

use super::{Call, State};
use crate::attention::Obstacles;
use crate::gate::Refusal;
use crate::live::LiveObserver;
use crate::parameters::REPLICA_READ_ONLY;
use crate::script_turn::{Turn, new_engine};
use crate::scripting::Form;
use crate::server::Server;
use host::ScriptHost;

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

/// A script or a function to run.
enum ScriptJob {
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
    /// How a command runs its script, if it does.
    #[inline]
    pub(super) fn of(command: &Command) -> Option<Self> {
        if !command.has(Flags::RUNS_SCRIPT) {
            return None;
        }
        let form = match command.flags {
            flags if flags.has(Flags::BY_SHA1) => Form::Sha1,
            flags if flags.has(Flags::CALLS_FUNCTION) => Form::Function,
            _ => Form::Body,
        };
        let only_reads = command.has(Flags::READONLY);
        Some(ScriptCommand { form, only_reads })
    }
}

/// Lets libraries be loaded into this lane's Lua state for functions.
pub(super) fn with_functions<R>(
    call: &Call<'_>,
    run: impl FnOnce(&Libraries, &mut Engine) -> Result<R, String>,
) -> Result<R, String> {
    ENGINES.with_borrow_mut(|engines| {
        let server = call.server;
        let done = run(&server.scripting.libraries, engines.functions(server)?);
        engines.note_memory(server, call.context.lane());
        done
    })
}

/// Drops this lane's Lua state for functions, because no function is left.
pub(crate) fn forget_functions(server: &Server, lane: usize) {
    ENGINES.with(|engines| {
        // While a script runs, the state is in use. The next use sees that it is outdated.
        if let Ok(mut engines) = engines.try_borrow_mut() {
            engines.functions = None;
            engines.note_memory(server, lane);
        }
    });
}

impl State {
    /// Executes a command while the lane may not lock shards. Returns false if the command must
    /// wait for that right.
    #[cold]
    pub(super) fn execute_beside_script(
        &mut self,
        mut call: Call<'_>,
        command: &Result<&'static Command, String>,
    ) -> bool {
        if !self.may_go_on(&call, command) {
            self.park(&mut call);
            return false;
        }
        let executed = self.execute_now(call, command);
        self.set_busy(None);
        executed
    }

    /// Whether a command need not wait: it may be executed, or is refused as [`busy`](Self::busy).
    fn may_go_on(&mut self, call: &Call<'_>, command: &Result<&'static Command, String>) -> bool {
        let (scripting, lane) = (&call.server.scripting, call.context.lane());
        let busy = scripting.busy_text();
        let has_right = match busy {
            None => scripting.rights.enter_soon(lane),
            Some(_) => {
                scripting.rights.leave(lane);
                scripting.rights.enter(lane)
            }
        };
        let Ok(command) = command else {
            return true;
        };
        if has_right {
            return true;
        }
        // By the clock it may have run for too long; what it is, its own lane tells soon.
        if command.has(Flags::TELLS_SCRIPT) && scripting.is_unannounced() {
            return false;
        }
        // Whether there is something to kill will be known soon.
        let is_about_scripts = command.group == Group::Scripting;
        if runs_beside_scripts(command, call.arguments)
            && (busy.is_some() || !is_about_scripts || !scripting.is_young())
        {
            return true;
        }
        self.set_busy(busy);
        busy.is_some()
    }

    /// Whether a command runs a script or changes functions, so that it needs the turn to.
    #[inline]
    pub(super) fn needs_turn(&self, command: &Command) -> bool {
        match command.group {
            Group::Scripting => {
                self.transaction.is_none() && self.busy.is_none() && command.has(TAKES_TURN)
            }
            Group::Transactions => self.busy.is_none() && self.executes_alone(command),
            _ => false,
        }
    }

    /// Takes the turn to run a script. `None`: the command waits.
    #[cold]
    pub(super) fn begin_script<'h>(
        &mut self,
        call: &mut Call<'h>,
        command: &Command,
    ) -> Option<Turn<'h>> {
        let (server, lane) = (call.server, call.context.lane());
        let form = ScriptCommand::of(command).map(|script| script.form);
        let turn = server
            .scripting
            .begin(server, lane, form == Some(Form::Function));
        if turn.is_none() {
            self.park(call);
        }
        turn
    }

    /// Runs a script by itself. The lane has the turn to.
    pub(super) fn run_script_alone(&mut self, call: &mut Call<'_>, script: ScriptCommand) {
        let server = call.server;
        debug_assert!(
            server.scripting.is_running() && server.scripting.rights.has(call.context.lane()),
            "a script has the turn before it locks shards"
        );
        // Few scripts need more than a few shards, which are locked with the commands.
        let any_order = server.keyspace.any_order();
        let shards = match any_order {
            Some(_) => ShardSet::empty(),
            None => ShardSet::all(),
        };
        let locked = server.keyspace.lock(shards);
        // Its client may leave while it runs.
        let outer = call.context.work_for(Some(self.id));
        let locked = self.run_script(server, call, script, locked);
        let _ = call.context.work_for(outer);
        server
            .keyspace
            .release(locked, call.now_ms(), &mut LiveObserver(server));
        drop(any_order);
    }

    /// Runs a script on locked shards: all there are, or those that its commands add.
    pub(super) fn run_script<'h>(
        &mut self,
        server: &'h Server,
        call: &mut Call<'_>,
        script: ScriptCommand,
        locked: Locked<'h>,
    ) -> Locked<'h> {
        // Also one that is not found or is no Lua: Redis shows each request that gets this far.
        if let Some(command) = self.last_command {
            self.show_script(call, command);
        }
        ENGINES.with_borrow_mut(|engines| {
            let job = match engines.find(call, script) {
                Ok(job) => job,
                Err(text) => {
                    self.refuse(call, &text);
                    return locked;
                }
            };
            let keys = parse_integer(&call.arguments[2]).unwrap_or(0) as usize;
            match self.check_flags(server, script, job.flags()) {
                Ok(()) => self.run_job(server, call, script, engines, &job, keys, locked),
                Err(text) => {
                    self.refuse(call, text);
                    locked
                }
            }
        })
    }

    fn check_flags(
        &self,
        server: &Server,
        script: ScriptCommand,
        flags: ScriptFlags,
    ) -> Result<(), &'static str> {
        if flags.has(ScriptFlags::UNDECLARED) {
            return match server.is_stale() {
                true => Err(Refusal::Stale.text()),
                false => Ok(()),
            };
        }
        if script.only_reads && !flags.has(ScriptFlags::NO_WRITES) {
            return Err("ERR Can not execute a script with write flag using *_ro command.");
        }
        let writes = !flags.has(ScriptFlags::NO_WRITES);
        if writes
            && server
                .attention
                .has(Obstacles::WANTS_REPLICAS | Obstacles::FOLLOWS)
        {
            let is_replica = server.replication.master().is_some();
            if is_replica && server.parameters.read(REPLICA_READ_ONLY) {
                let text = "READONLY You can not run script with write flag on readonly replica.";
                return Err(text);
            }
            let refusal = server.role_refusal(tidewire_lane::unix_ms());
            refusal.map_or(Ok(()), |refusal| Err(refusal.text()))?;
        }
        let frugal = ScriptFlags::ALLOW_OOM.with(ScriptFlags::NO_WRITES);
        if server.parameters.memory_is_full.load(Ordering::Relaxed) && !flags.has(frugal) {
            return Err(
                "OOM allow-oom flag is not set on the script, can not run it when used \
                        memory > 'maxmemory'",
            );
        }
        Ok(())
    }

    fn run_job<'h>(
        &mut self,
        server: &'h Server,
        call: &mut Call<'_>,
        script: ScriptCommand,
        engines: &mut Engines,
        job: &ScriptJob,
        keys: usize,
        locked: Locked<'h>,
    ) -> Locked<'h> {
        let flags = job.flags();
        let declared = !flags.has(ScriptFlags::UNDECLARED);
        if self.is_executing {
            server
                .scripting
                .begin_one(server, script.form == Form::Function);
        }
        let protocol = self.protocol;
        let request = call.arguments;
        debug_assert!(
            keys + 3 <= request.len(),
            "the number of keys was checked against the arguments"
        );
        let reply_bytes_max = self.output_bytes_max;
        let mut host = ScriptHost {
            server,
            database: self.database,
            only_reads: script.only_reads || declared && flags.has(ScriptFlags::NO_WRITES),
            allows_full_memory: declared && flags.has(ScriptFlags::ALLOW_OOM),
            memory_is_full: server.parameters.memory_is_full.load(Ordering::Relaxed),
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
        let mut reply = Writer::new(&mut out, protocol).until(reply_bytes_max);
        let ended = engines.run(job, request.tail(3), keys, &mut host, &mut reply);
        let (locked, has_failed) = (host.locked.take(), host.has_failed);
        debug_assert!(
            server.scripting.is_running(),
            "no other script begins or ends while one runs"
        );
        if host.pipeline.is_some() {
            host.call.context.release(host.state.id);
        }
        engines.note_memory(server, call.context.lane());
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
        locked.unwrap_or_else(|| server.keyspace.lock(ShardSet::all()))
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
            let scripts = &call.server.scripting.scripts;
            let script = Script::new(body)?;
            if let Some(known) = scripts.find(&script.sha1) {
                return Ok(known);
            }
            let engine = engines.scripts(call.server)?;
            engine.check(&script).map_err(|failure| failure.text)?;
            engines.note_memory(call.server, call.context.lane());
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
        let scripts = &call.server.scripting.scripts;
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
        call.server.scripting.scripts.flush();
        let (server, lane) = (call.server, call.context.lane());
        ENGINES.with_borrow_mut(|engines| {
            engines.scripts = None;
            engines.note_memory(server, lane);
        });
        self.reply(call.context, |reply| reply.ok());
    }

    /// There is no debugger: only NO is accepted.
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
        // Within EXEC no other script runs, and its own have ended.
        let killed = match self.is_executing {
            true => Err(NOT_BUSY),
            false => call.server.scripting.kill(function),
        };
        match killed {
            Ok(()) => self.reply(call.context, |reply| reply.ok()),
            Err(text) => self.refuse(call, text),
        }
    }
}

impl ScriptJob {
    fn flags(&self) -> ScriptFlags {
        match self {
            ScriptJob::Script(script) => script.flags,
            ScriptJob::Function(_, flags) => *flags,
        }
    }

    fn name(&self) -> &str {
        match self {
            ScriptJob::Script(script) => &script.name,
            ScriptJob::Function(name, _) => name,
        }
    }
}

impl Engines {
    /// The Lua state of scripts; a new one if all have been forgotten.
    fn scripts(&mut self, server: &Server) -> Result<&mut Engine, String> {
        let version = server.scripting.scripts.version();
        if self.scripts_version != version {
            self.scripts_version = version;
            self.scripts = None;
        }
        open(server, &mut self.scripts, Purpose::Scripts)
    }

    /// The Lua state of functions; a new one if there is no library any more.
    fn functions(&mut self, server: &Server) -> Result<&mut Engine, String> {
        let version = server.scripting.libraries.flushes();
        if self.functions_version != version {
            self.functions_version = version;
            self.functions = None;
        }
        open(server, &mut self.functions, Purpose::Functions)
    }

    /// Finds what a command runs, and checks its number of keys. Errors are the refusal's text.
    fn find(
        &mut self,
        call: &Call<'_>,
        script: ScriptCommand,
    ) -> Result<ScriptJob, Cow<'static, str>> {
        let (server, name) = (call.server, &call.arguments[1]);
        if script.form == Form::Function {
            let flags = server.scripting.libraries.flags(name);
            let flags = flags.ok_or("ERR Function not found")?;
            check_keys(call.arguments, "ERR Bad number of keys provided")?;
            let name = String::from_utf8_lossy(name).into_owned();
            return Ok(ScriptJob::Function(name, flags));
        }
        let sha1 = match script.form {
            Form::Sha1 => Some(Sha1::parse(name).ok_or(NO_SCRIPT)?),
            _ => None,
        };
        let not_integer = "ERR value is not an integer or out of range";
        check_keys(call.arguments, not_integer)?;
        let scripts = &server.scripting.scripts;
        let engine = self.scripts(server)?;
        let own = match &sha1 {
            Some(sha1) => engine.find_sha1(sha1),
            None => engine.find(name),
        };
        if let Some(script) = own {
            scripts.touch(script);
            return Ok(ScriptJob::Script(script.clone()));
        }
        if let Some(sha1) = sha1 {
            let script = scripts.find(&sha1).ok_or(NO_SCRIPT)?;
            scripts.touch(&script);
            return Ok(ScriptJob::Script(script));
        }
        let script = Script::new(name)?;
        if let Some(script) = scripts.find(&script.sha1) {
            scripts.touch(&script);
            return Ok(ScriptJob::Script(script));
        }
        engine.check(&script).map_err(|failure| failure.text)?;
        Ok(ScriptJob::Script(scripts.add(script, false)))
    }

    fn run(
        &mut self,
        job: &ScriptJob,
        rest: Arguments<'_>,
        keys: usize,
        host: &mut ScriptHost<'_, '_, '_>,
        reply: &mut Writer<'_>,
    ) -> Result<(), Failure> {
        let server = host.server;
        let failure = |text| Failure {
            text,
            is_counted: false,
        };
        match job {
            ScriptJob::Script(script) => {
                let engine = self.scripts(server).map_err(failure)?;
                engine.eval(script, rest, keys, host, reply)
            }
            ScriptJob::Function(name, _) => {
                let engine = self.functions(server).map_err(failure)?;
                let libraries = server.scripting.libraries.current();
                engine.call(&libraries, name, rest, keys, host, reply)
            }
        }
    }

    fn note_memory(&self, server: &Server, lane: usize) {
        let bytes = |engine: &Option<Engine>| engine.as_ref().map_or(0, Engine::memory_bytes);
        let bytes = [bytes(&self.scripts), bytes(&self.functions)];
        server.scripting.set_bytes(lane, bytes);
    }
}

fn open<'e>(
    server: &Server,
    engine: &'e mut Option<Engine>,
    purpose: Purpose,
) -> Result<&'e mut Engine, String> {
    if engine.is_none() {
        let opened = new_engine(server, purpose);
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

/// Whether a command is executed while a script runs. It locks no shard.
fn runs_beside_scripts(command: &Command, arguments: Arguments<'_>) -> bool {
    match command.name {
        // Watching needs a shard.
        "watch" => false,
        // The partial effects of a script are not saved.
        "shutdown" => {
            let has = |word: &[u8]| arguments.iter().any(|one| one.eq_ignore_ascii_case(word));
            has(b"NOSAVE") || has(b"ABORT")
        }
        _ => command.has(Flags::ALLOW_BUSY),
    }
}

/// Flags of commands that run while no other lane does.
pub(super) const TAKES_TURN: Flags = Flags::RUNS_SCRIPT.with(Flags::CHANGES_LIBRARIES);
const NOT_BUSY: &str = "NOTBUSY No scripts in execution right now.";
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
