//! `redis.register_function`, which libraries call while they are loaded.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use foldhash::fast::RandomState;
use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use crate::flags::ScriptFlags;
use crate::libraries::{BAD_NAME, FunctionInfo, is_name};
use crate::redis::{number_of, raise};
use crate::sandbox::Shared;

/// Functions registered by the library being loaded; `None` while none is being loaded.
pub(crate) type Registered = RefCell<Option<Registration>>;

/// The functions that a library has registered so far.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) functions: Vec<FunctionInfo>,
    names: HashSet<String, RandomState>,
    /// Their code, numbered from 1: handles of Lua's values are few, and there may be more
    /// functions.
    pub(crate) callbacks: Table,
}

impl Registration {
    pub(crate) fn new(lua: &Lua) -> Result<Self> {
        Ok(Registration {
            functions: Vec::new(),
            names: HashSet::default(),
            callbacks: lua.create_table()?,
        })
    }
}

pub(crate) fn register(lua: &Lua, loading: &Table, shared: &Rc<Shared>) -> Result<()> {
    let shared = shared.clone();
    let function = lua.create_function(move |_, values: MultiValue| {
        let api = shared.calls.api.get();
        let mut registered = shared.registered.borrow_mut();
        let Some(registered) = &mut *registered else {
            return Err(raise(format!(
                "ERR {api}.register_function can only be called on FUNCTION LOAD command"
            )));
        };
        let (info, callback) = match values.len() {
            1 => named(api, &values[0])?,
            2 => positional(api, &values[0], &values[1])?,
            _ => {
                let text = format!("ERR wrong number of arguments to {api}.register_function");
                return Err(raise(text));
            }
        };
        if !is_name(&info.name) {
            // Redis speaks of a library here, too.
            let text = match api {
                "server" => BAD_NAME.replace("Library", "Function"),
                _ => BAD_NAME.to_owned(),
            };
            return Err(raise(text));
        }
        if !registered.names.insert(info.name.clone()) {
            return Err(raise("ERR Function already exists in the library"));
        }
        registered.functions.push(info);
        let number = registered.functions.len();
        registered.callbacks.raw_set(number, callback)
    })?;
    loading.raw_set("register_function", function)
}

fn positional(api: &str, name: &Value, callback: &Value) -> Result<(FunctionInfo, Function)> {
    let Some(name) = text_of(name) else {
        let text = format!("ERR first argument to {api}.register_function must be a string");
        return Err(raise(text));
    };
    let Value::Function(callback) = callback else {
        let text = format!("ERR second argument to {api}.register_function must be a function");
        return Err(raise(text));
    };
    let info = FunctionInfo {
        name,
        description: None,
        flags: ScriptFlags::default(),
    };
    Ok((info, callback.clone()))
}

fn named(api: &str, arguments: &Value) -> Result<(FunctionInfo, Function)> {
    let Value::Table(arguments) = arguments else {
        return Err(raise(format!(
            "ERR calling {api}.register_function with a single argument is only applicable to Lua \
             table (representing named arguments)."
        )));
    };
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = ScriptFlags::default();
    for pair in arguments.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = text_of(&key) else {
            let text =
                format!("ERR named argument key given to {api}.register_function is not a string");
            return Err(raise(text));
        };
        match key.to_ascii_lowercase().as_str() {
            "function_name" => name = Some(text_argument(api, "function_name", &value)?),
            "description" => description = Some(text_argument(api, "description", &value)?),
            "callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => {
                    return Err(raise(format!(
                        "ERR callback argument given to {api}.register_function must be a function"
                    )));
                }
            },
            "flags" => flags = read_flags(api, &value)?,
            _ => {
                return Err(raise(format!(
                    "ERR unknown argument given to {api}.register_function"
                )));
            }
        }
    }
    let Some(name) = name else {
        let text = format!("ERR {api}.register_function must get a function name argument");
        return Err(raise(text));
    };
    let Some(callback) = callback else {
        return Err(raise(format!(
            "ERR {api}.register_function must get a callback argument"
        )));
    };
    let info = FunctionInfo {
        name,
        description,
        flags,
    };
    Ok((info, callback))
}

fn read_flags(api: &str, value: &Value) -> Result<ScriptFlags> {
    let Value::Table(list) = value else {
        return Err(raise(format!(
            "ERR flags argument to {api}.register_function must be a table representing function \
             flags"
        )));
    };
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        let value: Value = list.get(index)?;
        if value.is_nil() {
            break;
        }
        let name = text_of(&value).map(|name| name.to_ascii_lowercase());
        let flag = name.and_then(|name| ScriptFlags::named(name.as_bytes()));
        flags = flags.with(flag.ok_or_else(|| raise("ERR unknown flag given"))?);
    }
    Ok(flags)
}

fn text_argument(api: &str, name: &str, value: &Value) -> Result<String> {
    text_of(value).ok_or_else(|| {
        raise(format!(
            "ERR {name} argument given to {api}.register_function must be a string"
        ))
    })
}

/// Returns a value as text, if it is a string or a number.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string_lossy()),
        other => number_of(other).and_then(|_| other.to_string().ok()),
    }
}
