//! A Lua state with compiled scripts, and their execution.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use mlua::chunk::ChunkMode;
use mlua::{Function, LightUserData, Lua, Result, Table, Value};
use tidewire_resp::{Arguments, Protocol, Writer};

use crate::calls::{self, Job};
use crate::convert::Names;
use crate::host::{Failure, Host};
use crate::libraries::{FunctionInfo, LibrarySet};
use crate::register::Registration;
use crate::sandbox::{Sandbox, failure_of};
use crate::scripts::Script;
use crate::sha1::Sha1;
use crate::watch;

/// A Lua state with its scripts. It belongs to one thread.
pub struct Engine {
    sandbox: Sandbox,
    /// Functions of scripts and libraries, by number. A handle to each would need an entry on a Lua
    /// stack that has room for only a few thousand.
    functions: Table,
    next_number: i64,
    compiled: HashMap<Sha1, (Arc<Script>, i64), RandomState>,
    /// The same scripts by their text, for EVAL.
    bodies: HashMap<Body, (), RandomState>,
    /// Number of runs since the last garbage collection.
    runs: u32,
    /// Number of compiled scripts above which forgotten ones are dropped.
    compiled_max: usize,
    /// Numbers of the functions of libraries, by the library's number.
    loaded: HashMap<u64, HashMap<String, i64, RandomState>, RandomState>,
}

/// What an engine's scripts are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// EVAL and EVALSHA.
    Scripts,
    /// FCALL.
    Functions,
}

/// The outcome of a run in Lua: whether it succeeded, and its value or error.
type Ending = Result<(bool, Value)>;

impl Engine {
    /// Creates a Lua state without scripts. `has_deprecated` is the setting
    /// `lua-enable-deprecated-api`: scripts can use `setfenv`, `getfenv` and `newproxy`.
    pub fn new(purpose: Purpose, has_deprecated: bool) -> std::result::Result<Self, Failure> {
        Engine::try_new(purpose, has_deprecated).map_err(|error| failure_of(&error))
    }

    fn try_new(purpose: Purpose, has_deprecated: bool) -> Result<Self> {
        let sandbox = Sandbox::new(purpose, has_deprecated)?;
        let engine = Engine {
            functions: sandbox.lua.create_table()?,
            sandbox,
            next_number: 1,
            compiled: HashMap::default(),
            bodies: HashMap::default(),
            runs: 0,
            compiled_max: COMPILED_MAX,
            loaded: HashMap::default(),
        };
        let sandbox = &engine.sandbox;
        watch::begin(&sandbox.lua, &sandbox.shared)?;
        Ok(engine)
    }

    /// Words errors as Valkey does: the table of functions is `server`, and a function ends by
    /// FUNCTION KILL. Scripts know the table by both names.
    pub fn follow_valkey(&self, purpose: Purpose) {
        let shared = &self.sandbox.shared;
        shared.calls.api.set("server");
        if purpose == Purpose::Functions {
            shared.killed.set(watch::FUNCTION_KILLED);
        }
    }

    /// Returns the memory of the Lua state in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.sandbox.lua.used_memory()
    }

    /// Returns the script with this text, if it is compiled here and has not been forgotten.
    pub fn find(&self, body: &[u8]) -> Option<&Arc<Script>> {
        let (body, ()) = self.bodies.get_key_value(body)?;
        Some(&body.0).filter(|script| script.is_known())
    }

    /// Returns the script with this digest, under the same conditions.
    pub fn find_sha1(&self, sha1: &Sha1) -> Option<&Arc<Script>> {
        let (script, _) = self.compiled.get(sha1)?;
        Some(script).filter(|script| script.is_known())
    }

    /// Compiles a script to check it.
    pub fn check(&mut self, script: &Script) -> std::result::Result<(), Failure> {
        self.collect_some(STEPS_PER_LOAD);
        self.compile(script).map(drop)
    }

    /// Runs a script and writes its reply. A failed run writes nothing.
    pub fn eval(
        &mut self,
        script: &Arc<Script>,
        arguments: Arguments<'_>,
        keys: usize,
        host: &mut dyn Host,
        reply: &mut Writer<'_>,
    ) -> std::result::Result<(), Failure> {
        let job = Job::Script(self.number_of(script)?);
        self.run(&script.name, job, arguments, keys, host, reply)
    }

    /// Runs a function of a library. Loads the library first if needed.
    pub fn call(
        &mut self,
        libraries: &LibrarySet,
        name: &str,
        arguments: Arguments<'_>,
        keys: usize,
        host: &mut dyn Host,
        reply: &mut Writer<'_>,
    ) -> std::result::Result<(), Failure> {
        let Some((library, info)) = libraries.function(name) else {
            return Err(Failure::new("ERR Function not found"));
        };
        if !self.loaded.contains_key(&library.number) {
            if self.loaded.len() > libraries.libraries().len() + LOADED_SPARE {
                self.forget_others(libraries);
            }
            let body = &library.code[library.body_at..];
            self.load(library.number, body, None)?;
        }
        let functions = self.loaded.get(&library.number);
        let number = functions.and_then(|functions| functions.get(&info.name));
        let Some(number) = number else {
            return Err(Failure::new("ERR Function not found"));
        };
        let job = Job::Function(*number);
        self.run(&info.name, job, arguments, keys, host, reply)
    }

    /// Forgets libraries that were deleted or replaced.
    pub(crate) fn forget_others(&mut self, libraries: &LibrarySet) {
        let known = libraries.libraries().map(|library| library.number);
        let mut known: Vec<u64> = known.collect();
        known.sort_unstable();
        let gone: Vec<u64> = self.loaded.keys().copied().collect();
        gone.into_iter()
            .filter(|number| known.binary_search(number).is_err())
            .for_each(|number| self.forget(number));
    }

    /// Forgets the library with this number.
    pub(crate) fn forget(&mut self, number: u64) {
        let functions = self.loaded.remove(&number).unwrap_or_default();
        functions.values().for_each(|number| self.free(*number));
    }

    /// Runs a library's code, which registers its functions, and stores them under its number.
    pub(crate) fn load(
        &mut self,
        number: u64,
        body: &[u8],
        time_max: Option<Duration>,
    ) -> std::result::Result<Vec<FunctionInfo>, Failure> {
        let chunk = self.sandbox.lua.load(body).set_name("@user_function");
        let chunk = chunk.set_mode(ChunkMode::Text).into_function();
        let chunk = chunk.map_err(|error| {
            let text = error_text(&error);
            Failure::new(format!("ERR Error compiling function: {text}"))
        })?;
        let shared = self.sandbox.shared.clone();
        let registration = Registration::new(&self.sandbox.lua);
        let registration = registration.map_err(|error| failure_of(&error))?;
        shared.registered.replace(Some(registration));
        shared
            .load_deadline
            .set(time_max.map(|time| Instant::now() + time));
        let ending = self.run_loading(&chunk);
        self.collect_some(STEPS_PER_LOAD);
        shared.load_deadline.set(None);
        let registered = shared.registered.take();
        if shared.is_killed.take() {
            watch::resume(&self.sandbox.lua).map_err(|error| failure_of(&error))?;
        }
        let text = match ending {
            Ok((true, _)) => String::new(),
            Ok((false, Value::Table(table))) => message_of(&table),
            Ok((false, _)) => "ERR unknown error".into(),
            Err(error) => error_text(&error),
        };
        if !text.is_empty() {
            return Err(Failure::new(format!(
                "ERR Error registering functions: {text}"
            )));
        }
        let registered = registered.expect("it was put there above");
        let mut callbacks = HashMap::default();
        for (at, info) in registered.functions.iter().enumerate() {
            let callback = registered.callbacks.raw_get(at + 1);
            let kept = callback.and_then(|callback| self.keep(&callback));
            let kept = kept.map_err(|error| failure_of(&error))?;
            callbacks.insert(info.name.clone(), kept);
        }
        self.loaded.insert(number, callbacks);
        Ok(registered.functions)
    }

    fn run_loading(&self, chunk: &Function) -> Ending {
        self.sandbox.set_loading.call::<()>(true)?;
        let ending = self.sandbox.run.call(chunk);
        self.sandbox.set_loading.call::<()>(false)?;
        ending
    }

    /// Returns the number of a script's function, which is compiled if needed.
    fn number_of(&mut self, script: &Arc<Script>) -> std::result::Result<i64, Failure> {
        if let Some((own, number)) = self.compiled.get(&script.sha1)
            && Arc::ptr_eq(own, script)
        {
            return Ok(*number);
        }
        let function = self.compile(script)?;
        if self.compiled.len() >= self.compiled_max {
            self.forget_unknown();
        }
        let number = self.keep(&function).map_err(|error| failure_of(&error))?;
        let entry = (script.clone(), number);
        if let Some((_, before)) = self.compiled.insert(script.sha1, entry) {
            self.free(before);
        }
        self.bodies.remove(&*script.body);
        self.bodies.insert(Body(script.clone()), ());
        Ok(number)
    }

    /// Drops the code of forgotten scripts.
    fn forget_unknown(&mut self) {
        let is_gone = |(_, (script, _)): &(&Sha1, &(Arc<Script>, i64))| !script.is_known();
        let gone = self.compiled.iter().filter(is_gone);
        let gone: Vec<Sha1> = gone.map(|(sha1, _)| *sha1).collect();
        for sha1 in gone {
            if let Some((script, number)) = self.compiled.remove(&sha1) {
                self.bodies.remove(&*script.body);
                self.free(number);
            }
        }
        self.compiled_max = COMPILED_MAX.max(self.compiled.len() * 2);
    }

    /// Stores a function under a new number.
    fn keep(&mut self, function: &Function) -> Result<i64> {
        let number = self.next_number;
        self.functions.raw_set(number, function)?;
        self.next_number += 1;
        Ok(number)
    }

    fn free(&self, number: i64) {
        // Setting an existing entry to nil needs no memory, so it cannot fail.
        let _ = self.functions.raw_set(number, Value::Nil);
    }

    fn compile(&self, script: &Script) -> std::result::Result<Function, Failure> {
        let code = &script.body[script.code_at..];
        let chunk = self.sandbox.lua.load(code).set_name("@user_script");
        let chunk = chunk.set_mode(ChunkMode::Text);
        chunk.into_function().map_err(|error| {
            let text = error_text(&error);
            Failure::new(format!("ERR Error compiling script (new function): {text}"))
        })
    }

    /// Runs a function of a script or library and writes its reply.
    fn run(
        &mut self,
        name: &str,
        job: Job,
        arguments: Arguments<'_>,
        keys: usize,
        host: &mut dyn Host,
        reply: &mut Writer<'_>,
    ) -> std::result::Result<(), Failure> {
        let shared = self.sandbox.shared.clone();
        shared.calls.protocol.set(Protocol::Resp2);
        let (sandbox, functions) = (&self.sandbox, &self.functions);
        let ending = shared.calls.lend(host, || {
            calls::run(sandbox, functions, job, arguments, keys, reply)
        });
        if shared.is_killed.take() {
            watch::resume(&self.sandbox.lua).map_err(|error| failure_of(&error))?;
        }
        self.collect_some(STEPS_PER_RUN);
        let written = match ending {
            Ok(mut ending) => match (ending.pop_front(), ending.pop_front()) {
                (None, _) => Ok(()),
                (Some(Value::Boolean(true)), Some(value)) => {
                    let protocol = shared.calls.protocol.get();
                    shared.names.write(&value, protocol, host, reply, 0)
                }
                (_, Some(Value::Table(table))) => {
                    return Err(located(&shared.names, &table, name));
                }
                _ => {
                    let text = format!("ERR Error running script {name}, execution failure");
                    return Err(Failure::new(text));
                }
            },
            Err(error) => Err(error),
        };
        written.map_err(|error| {
            let text = error_text(&error);
            Failure::new(format!("ERR Error running script {name}, {text:.100}"))
        })
    }

    /// Collects garbage incrementally, so that no run pays for earlier ones.
    fn collect_some(&mut self, steps: u32) {
        self.runs += 1;
        if self.runs < RUNS_PER_COLLECTION {
            return;
        }
        self.runs = 0;
        for _ in 0..steps {
            if self.sandbox.lua.gc_step().unwrap_or(true) {
                break;
            }
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("scripts", &self.compiled.len())
            .finish_non_exhaustive()
    }
}

/// Returns the failure in an error table, with its location.
fn located(names: &Names, table: &Table, name: &str) -> Failure {
    let mut message = message_of(table);
    if let (Some(source), Some(line)) = (text_field(table, "source"), text_field(table, "line")) {
        message.push_str(&format!(" script: {name}, on {source}:{line}."));
    }
    let counted = table.raw_get::<Value>(&names.counted);
    Failure {
        text: message,
        is_counted: matches!(counted, Ok(Value::Boolean(true))),
    }
}

fn message_of(table: &Table) -> String {
    text_field(table, "err").unwrap_or_else(|| "ERR unknown error".into())
}

fn text_field(table: &Table, field: &str) -> Option<String> {
    match table.raw_get::<Value>(field) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        Ok(value @ (Value::Integer(_) | Value::Number(_))) => value.to_string().ok(),
        _ => None,
    }
}

fn error_text(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::RuntimeError(message) => message.clone(),
        mlua::Error::MemoryError(message) => message.clone(),
        other => failure_of(other).text,
    }
}

/// A script that is looked up by its text.
#[derive(Debug)]
struct Body(Arc<Script>);

impl Borrow<[u8]> for Body {
    fn borrow(&self) -> &[u8] {
        &self.0.body
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.0.body == other.0.body
    }
}

impl Eq for Body {}

impl Hash for Body {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.body.hash(state);
    }
}

/// A first argument that scripts cannot create.
#[derive(Clone, Copy)]
pub(crate) struct Token(pub(crate) LightUserData);

impl mlua::IntoLua for Token {
    fn into_lua(self, _: &Lua) -> Result<Value> {
        Ok(Value::LightUserData(self.0))
    }
}

/// A first argument of `redis.call` that requests something other than a command.
pub(crate) const MAY_RUN: Token = Token(LightUserData(std::ptr::without_provenance_mut(2)));
pub(crate) const SET_REPLICATION: Token = Token(LightUserData(std::ptr::without_provenance_mut(3)));

/// Number of loaded libraries beyond the existing ones before others are forgotten.
const LOADED_SPARE: usize = 16;
const RUNS_PER_COLLECTION: u32 = 50;
/// Steps of the collector per run; each visits about two thousand bytes. Loaded code mostly stays,
/// so a load needs more steps.
const STEPS_PER_RUN: u32 = 32;
const STEPS_PER_LOAD: u32 = 96;
/// Minimum of `compiled_max`.
const COMPILED_MAX: usize = 1_000;
