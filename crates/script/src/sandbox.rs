//! The tables and functions that `sandbox.lua` assembles.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use mlua::{Function, Lua, LuaOptions, LuaString, Result, StdLib, Table, Value};

use crate::calls::Calls;
use crate::convert::Names;
use crate::engine::Purpose;
use crate::host::Failure;
use crate::library;
use crate::redis;
use crate::register::Registered;
use crate::watch;

/// State shared by the Rust functions of one Lua state.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) names: Names,
    /// The host of the running script.
    pub(crate) calls: Rc<Calls>,
    /// Whether the running script must end.
    pub(crate) is_killed: Cell<bool>,
    /// The error with which a killed script ends.
    pub(crate) killed: Cell<&'static str>,
    /// The state of `math.random`, 48 bits.
    pub(crate) random: Cell<u64>,
    pub(crate) registered: Registered,
    /// When the library being loaded must have finished.
    pub(crate) load_deadline: Cell<Option<Instant>>,
}

/// A Lua state in which scripts can change nothing that outlives them.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) lua: Lua,
    /// Names of chunks. The compiler stores a name where the collector cannot see it, so this field
    /// must keep it alive.
    _names: [LuaString; 2],
    pub(crate) shared: Rc<Shared>,
    /// The actual table of globals, for KEYS and ARGV.
    pub(crate) globals: Table,
    /// Converts an error to what scripts know, with its place.
    pub(crate) on_error: Function,
    /// Runs the code of a library. Returns whether it succeeded, and its value or error.
    pub(crate) run: Function,
    /// Switches on or off what a library may access while it is loaded.
    pub(crate) set_loading: Function,
}

impl Sandbox {
    pub(crate) fn new(purpose: Purpose, has_deprecated: bool) -> Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let shared = Rc::new(Shared {
            names: Names::new(&lua)?,
            calls: Calls::new(),
            is_killed: Cell::new(false),
            random: Cell::new(redis::INITIAL_RANDOM),
            registered: Registered::default(),
            killed: Cell::new(watch::KILLED),
            load_deadline: Cell::new(None),
        });
        let native = lua.create_table()?;
        redis::register(&lua, &native, &shared, purpose)?;
        let of_error = shared.clone();
        let as_table =
            lua.create_function(move |lua, problem| table_of_error(lua, &of_error, problem))?;
        native.raw_set("as_table", as_table)?;
        let of_error = shared.clone();
        let as_value =
            lua.create_function(move |lua, problem| value_of_error(lua, &of_error, problem))?;
        native.raw_set("as_value", as_value)?;
        // The handler must know the protected tables, which are only known later.
        let protected = lua.create_table()?;
        let (of_error, tables) = (shared.clone(), protected.clone());
        let on_error = lua.create_function(move |lua, problem| {
            let problem = at_own_place(lua, problem)?;
            locate(lua, table_of_error(lua, &of_error, problem)?, &tables)
        })?;
        native.raw_set("on_error", &on_error)?;
        native.raw_set("protected", protected)?;
        native.raw_set("libraries", library::libraries(&lua)?)?;
        native.raw_set("has_deprecated", has_deprecated)?;
        let strings = library::strings::library(&lua)?;
        let chunk = lua.load(LIBRARY).set_name(LIBRARY_NAME);
        native.raw_set("library", chunk.call::<Table>(strings)?)?;
        let chunk = lua.load(SOURCE).set_name("=redis");
        let (seen, globals, run, set_loading) = chunk.call(native)?;
        lua.set_globals(seen)?;
        lua.gc_collect()?;
        let names = [
            lua.create_string("@user_script")?,
            lua.create_string("@user_function")?,
        ];
        Ok(Sandbox {
            _names: names,
            lua,
            shared,
            globals,
            on_error,
            run,
            set_loading,
        })
    }
}

/// Converts an error to the table that scripts know; a table stays unchanged.
fn table_of_error(lua: &Lua, shared: &Shared, problem: Value) -> Result<Table> {
    let failure = match problem {
        Value::Table(table) => return Ok(table),
        Value::Error(error) => failure_of(&error),
        Value::String(text) => Failure::new(format!("ERR {}", text.to_string_lossy())),
        other => Failure::new(format!("ERR {}", other.to_string()?)),
    };
    shared.names.error_table(lua, &failure)
}

/// Converts an error to the value that a script catches: a string for a library's error, otherwise
/// a table.
fn value_of_error(lua: &Lua, shared: &Shared, problem: Value) -> Result<Value> {
    if let Value::Error(error) = &problem
        && let Some(text) = library_text(error)
    {
        return lua.create_string(text).map(Value::String);
    }
    table_of_error(lua, shared, problem).map(Value::Table)
}

fn library_text(error: &mlua::Error) -> Option<&str> {
    match error {
        mlua::Error::CallbackError { cause, .. } => library_text(cause),
        mlua::Error::RuntimeError(text) => Some(text),
        _ => None,
    }
}

/// Converts an error of a Rust function to a failure.
pub(crate) fn failure_of(error: &mlua::Error) -> Failure {
    match error {
        mlua::Error::CallbackError { cause, .. } => failure_of(cause),
        mlua::Error::ExternalError(inner) => match inner.downcast_ref::<Failure>() {
            Some(failure) => failure.clone(),
            None => Failure::new(format!("ERR {inner}")),
        },
        mlua::Error::RuntimeError(text) => Failure::new(format!("ERR {text}")),
        other => Failure::new(format!("ERR {other}")),
    }
}

/// Adds the location of an error: the innermost line of the script's own code.
fn locate(lua: &Lua, table: Table, protected: &Table) -> Result<Table> {
    let table = match protected.raw_get::<Value>(&table)? {
        Value::Nil => table,
        _ => lua.create_table()?,
    };
    if let Some((source, line)) = own_place(lua) {
        table.raw_set("source", source)?;
        table.raw_set("line", line)?;
    }
    Ok(table)
}

/// Returns the innermost line on the stack that belongs to a script, and the name of its chunk.
fn own_place(lua: &Lua) -> Option<(String, usize)> {
    let mut level = 1;
    loop {
        let place = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let is_own = source.what != "C" && source.source.as_deref().is_some_and(is_script);
            let name = source.source.filter(|_| is_own)?;
            Some((name.into_owned(), frame.current_line()?))
        })?;
        if place.is_some() {
            return place;
        }
        level += 1;
    }
}

/// Replaces a line of our own Lua code in an error text by the script's line that led to it.
fn at_own_place(lua: &Lua, problem: Value) -> Result<Value> {
    let Value::String(text) = &problem else {
        return Ok(problem);
    };
    let text = text.to_string_lossy();
    let names = ["redis:", "redis-library:"];
    let own = names.iter().find_map(|name| text.strip_prefix(name));
    let rest = own.and_then(|rest| {
        let (line, rest) = rest.split_once(": ")?;
        let is_line = line.bytes().all(|byte| byte.is_ascii_digit());
        is_line.then_some(rest)
    });
    let Some(rest) = rest else {
        return Ok(problem);
    };
    let text = match own_place(lua) {
        Some((source, line)) => format!("{}:{line}: {rest}", source.trim_start_matches('@')),
        // The script's last call was a tail call to our code, so its frame is gone.
        None => rest.to_owned(),
    };
    lua.create_string(text).map(Value::String)
}

/// Returns whether a frame is neither our own Lua code nor the remains of a tail call.
pub(crate) fn is_script(source: &str) -> bool {
    !source.starts_with("=redis") && !source.starts_with("=(tail")
}

/// Returns whether a script may be ended there: in its own code, and in functions that it calls.
pub(crate) fn may_end(source: &str) -> bool {
    source == LIBRARY_NAME || is_script(source)
}

const SOURCE: &str = include_str!("sandbox.lua");
const LIBRARY: &str = include_str!("library.lua");
const LIBRARY_NAME: &str = "=redis-library";
