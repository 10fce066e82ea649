//! The functions of the table `redis`, and the random numbers of `math`.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Result, Table, Value};
use tidewire_resp::Protocol;

use crate::engine::{MAY_RUN, Purpose, SET_REPLICATION};
use crate::host::Failure;
use crate::library;
use crate::register;
use crate::sandbox::Shared;
use crate::sha1::Sha1;
use crate::watch::spend;

/// Adds the functions to the table that `sandbox.lua` receives.
pub(crate) fn register(
    lua: &Lua,
    native: &Table,
    shared: &Rc<Shared>,
    purpose: Purpose,
) -> Result<()> {
    let redis = lua.create_table()?;
    redis.raw_set("call", shared.calls.function(lua)?)?;
    register_log(lua, &redis, shared)?;
    register_replies(lua, &redis, shared)?;
    let of_protocol = shared.clone();
    let set_protocol = lua.create_function(move |_, values: MultiValue| {
        let chosen = chosen_protocol(of_protocol.calls.api.get(), &values)?;
        of_protocol.calls.protocol.set(chosen);
        Ok(())
    })?;
    redis.raw_set("setresp", set_protocol)?;
    let of_replication = shared.clone();
    native.raw_set(
        "checked_replication",
        lua.create_function(move |_, values: MultiValue| {
            checked_replication(of_replication.calls.api.get(), &values)
        })?,
    )?;
    native.raw_set("set_replication", SET_REPLICATION)?;
    for (name, flags) in REPLICATION {
        redis.raw_set(name, flags)?;
    }
    if purpose == Purpose::Scripts {
        redis.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
        redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
        redis.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    }
    native.raw_set("redis", redis)?;
    let of_kill = shared.clone();
    native.raw_set(
        "is_killed",
        lua.create_function(move |_, ()| Ok(of_kill.is_killed.get()))?,
    )?;
    native.raw_set("acl_check", MAY_RUN)?;
    let loading = lua.create_table()?;
    register_log(lua, &loading, shared)?;
    register::register(lua, &loading, shared)?;
    native.raw_set("loading_redis", loading)?;
    let of_random = shared.clone();
    let random = lua
        .create_function(move |lua, values: MultiValue| random_number(lua, &of_random, &values))?;
    native.raw_set("random", random)?;
    let of_random = shared.clone();
    let seed = lua.create_function(move |lua, values: MultiValue| {
        let seed = library::number(lua, "randomseed", &values, 1)? as i64;
        of_random.random.set(seeded(seed as i32));
        Ok(())
    })?;
    native.raw_set("randomseed", seed)
}

fn register_log(lua: &Lua, table: &Table, shared: &Rc<Shared>) -> Result<()> {
    let of_log = shared.clone();
    let function =
        lua.create_function(move |lua, values| log(lua, of_log.calls.api.get(), &values))?;
    table.raw_set("log", function)?;
    for (level, name) in LOG_LEVELS.iter().enumerate() {
        table.raw_set(*name, level)?;
    }
    table.raw_set("REDIS_VERSION", VERSION)?;
    table.raw_set("REDIS_VERSION_NUM", VERSION_NUMBER)
}

fn register_replies(lua: &Lua, redis: &Table, shared: &Rc<Shared>) -> Result<()> {
    let of_error = shared.clone();
    let error_reply = lua.create_function(move |lua, values: MultiValue| {
        let failure = match only_text(&values) {
            Some(text) => {
                let text = text.as_bytes();
                Failure::of_reply(text.strip_prefix(b"-").unwrap_or(&text))
            }
            None => Failure::new(WRONG_ARGUMENT),
        };
        of_error.names.error_table(lua, &failure)
    })?;
    redis.raw_set("error_reply", error_reply)?;
    let of_status = shared.clone();
    let status_reply = lua.create_function(move |lua, values: MultiValue| {
        let Some(text) = only_text(&values) else {
            let failure = Failure::new(WRONG_ARGUMENT);
            return of_status.names.error_table(lua, &failure);
        };
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(&of_status.names.ok, text)?;
        Ok(table)
    })?;
    redis.raw_set("status_reply", status_reply)?;
    let sha1hex = lua.create_function(|lua, values: MultiValue| {
        if values.len() != 1 {
            return Err(raise("ERR wrong number of arguments"));
        }
        let text = lua.coerce_string(values[0].clone())?;
        let text = text.map(|text| text.as_bytes().to_vec());
        spend(lua, text.as_ref().map_or(0, Vec::len))?;
        Ok(Sha1::of(&text.unwrap_or_default()).hex())
    })?;
    redis.raw_set("sha1hex", sha1hex)
}

/// Creates an error that a script receives as a table.
pub(crate) fn raise(text: impl Into<String>) -> mlua::Error {
    mlua::Error::external(Failure::new(text))
}

/// Returns the text, if it is the only argument.
fn only_text(values: &MultiValue) -> Option<&mlua::LuaString> {
    match (values.len(), values.front()) {
        (1, Some(Value::String(text))) => Some(text),
        _ => None,
    }
}

fn chosen_protocol(api: &str, values: &MultiValue) -> Result<Protocol> {
    if values.len() != 1 {
        return Err(raise(format!("ERR {api}.setresp() requires one argument.")));
    }
    match number_of(&values[0]).map(|number| number as i64) {
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        _ => Err(raise("ERR RESP version must be 2 or 3.")),
    }
}

/// Returns the valid flags of a `redis.set_repl` call.
fn checked_replication(api: &str, values: &MultiValue) -> Result<i32> {
    if values.len() != 1 {
        return Err(raise(format!(
            "ERR {api}.set_repl() requires one argument."
        )));
    }
    let flags = number_of(&values[0]).unwrap_or(0.0) as i32;
    if flags & !3 != 0 {
        return Err(raise(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ));
    }
    Ok(flags)
}

fn log(lua: &Lua, api: &str, values: &MultiValue) -> Result<()> {
    if values.len() < 2 {
        return Err(raise(format!(
            "ERR {api}.log() requires two arguments or more."
        )));
    }
    let Some(level) = number_of(&values[0]) else {
        return Err(raise("ERR First argument must be a number (log level)."));
    };
    let level = level as i64;
    if !(0..LOG_LEVELS.len() as i64).contains(&level) {
        return Err(raise("ERR Invalid log level."));
    }
    let mut text = String::new();
    for value in values.iter().skip(1) {
        if let Some(part) = lua.coerce_string(value.clone())? {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&part.to_string_lossy());
        }
    }
    match level {
        0 => tracing::trace!(target: "script", "{text}"),
        1 => tracing::debug!(target: "script", "{text}"),
        2 => tracing::info!(target: "script", "{text}"),
        _ => tracing::warn!(target: "script", "{text}"),
    }
    Ok(())
}

/// Implements `math.random`, which depends only on the seed.
fn random_number(lua: &Lua, shared: &Shared, values: &MultiValue) -> Result<f64> {
    let next = (shared.random.get().wrapping_mul(0x5_DEEC_E66D) + 0xB) & MASK_48;
    shared.random.set(next);
    let range = f64::from(i32::MAX);
    let fraction = ((next >> 17) as f64 % range) / range;
    let bound = |at: usize| library::number(lua, "random", values, at).map(f64::trunc);
    let (lower, upper) = match values.len() {
        0 => return Ok(fraction),
        1 => (1.0, bound(1)?),
        2 => (bound(1)?, bound(2)?),
        _ => return Err(library::fail(lua, "wrong number of arguments")),
    };
    if lower > upper {
        let text = "interval is empty";
        return Err(library::bad_argument(lua, "random", values.len(), text));
    }
    Ok((fraction * (upper - lower + 1.0)).floor() + lower)
}

/// Converts a value to a number; numeric strings are accepted.
pub(crate) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => text.to_str().ok()?.trim().parse().ok(),
        _ => None,
    }
}

fn seeded(seed: i32) -> u64 {
    (u64::from(seed as u32) << 16 | 0x330E) & MASK_48
}

const MASK_48: u64 = (1 << 48) - 1;
/// The initial random state of a run.
pub(crate) const INITIAL_RANDOM: u64 = 0x1234_ABCD_330E;
const WRONG_ARGUMENT: &str = "ERR wrong number or type of arguments";
const LOG_LEVELS: [&str; 4] = ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"];
/// Flags of `redis.set_repl`: the append-only file, and replicas.
pub(crate) const TO_FILE: i64 = 1;
pub(crate) const TO_REPLICAS: i64 = 2;
const REPLICATION: [(&str, i32); 5] = [
    ("REPL_NONE", 0),
    ("REPL_AOF", TO_FILE as i32),
    ("REPL_SLAVE", TO_REPLICAS as i32),
    ("REPL_REPLICA", TO_REPLICAS as i32),
    ("REPL_ALL", 3),
];
const VERSION: &str = "8.6.3";
const VERSION_NUMBER: i32 = 0x0008_0603;
