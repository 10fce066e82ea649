//! Conversion of Lua values to replies.

use mlua::{Lua, LuaString, Result, Table, Value};
use tidewire_resp::{Protocol, Writer};

use crate::host::{Failure, Host};

/// The field names that identify the kind of a reply table.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) err: LuaString,
    pub(crate) ok: LuaString,
    pub(crate) counted: LuaString,
    double: LuaString,
    big_number: LuaString,
    verbatim: LuaString,
    format: LuaString,
    string: LuaString,
    map: LuaString,
    set: LuaString,
}

impl Names {
    pub(crate) fn new(lua: &Lua) -> Result<Self> {
        Ok(Names {
            err: lua.create_string("err")?,
            ok: lua.create_string("ok")?,
            counted: lua.create_string(COUNTED)?,
            double: lua.create_string("double")?,
            big_number: lua.create_string("big_number")?,
            verbatim: lua.create_string("verbatim_string")?,
            format: lua.create_string("format")?,
            string: lua.create_string("string")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
        })
    }

    /// Creates the table that represents an error in scripts.
    pub(crate) fn error_table(&self, lua: &Lua, failure: &Failure) -> Result<Table> {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(&self.err, failure.text.as_str())?;
        Ok(table)
    }

    /// Writes the return value of a script as a reply.
    pub(crate) fn write(
        &self,
        value: &Value,
        protocol: Protocol,
        host: &mut dyn Host,
        reply: &mut Writer<'_>,
        depth: usize,
    ) -> Result<()> {
        match value {
            Value::String(text) => reply.bulk(&text.as_bytes()),
            Value::Integer(number) => reply.integer(*number),
            Value::Number(number) => reply.integer(*number as i64),
            Value::Boolean(truth) if protocol == Protocol::Resp3 => reply.boolean(*truth),
            Value::Boolean(true) => reply.integer(1),
            Value::Table(table) if depth < DEPTH_MAX => {
                return self.write_table(table, protocol, host, reply, depth + 1);
            }
            Value::Table(_) => {
                host.note_error(TOO_DEEP, false);
                reply.error(TOO_DEEP);
            }
            _ => reply.null(),
        }
        Ok(())
    }

    fn write_table(
        &self,
        table: &Table,
        protocol: Protocol,
        host: &mut dyn Host,
        reply: &mut Writer<'_>,
        depth: usize,
    ) -> Result<()> {
        if let Value::String(text) = table.raw_get(&self.err)? {
            let counted: Value = table.raw_get(&self.counted)?;
            let is_counted = counted.as_boolean().unwrap_or(false);
            host.note_error(&text.to_string_lossy(), is_counted);
            reply.error_bytes(&text.as_bytes());
        } else if let Value::String(text) = table.raw_get(&self.ok)? {
            reply.simple_bytes(&text.as_bytes());
        } else if let Some(number) = table.raw_get::<Value>(&self.double)?.as_number_of_any() {
            reply.double(number);
        } else if let Value::String(digits) = table.raw_get(&self.big_number)? {
            let is_end = |byte: u8| matches!(byte, b'\r' | b'\n');
            let digits = digits.as_bytes();
            let digits = digits
                .iter()
                .map(|&byte| if is_end(byte) { b' ' } else { byte });
            reply.big_number(&digits.collect::<Vec<_>>());
        } else if let Some((format, text)) = self.verbatim_parts(table)? {
            reply.verbatim(&format.to_string_lossy(), &text.as_bytes());
        } else if let Value::Table(map) = table.raw_get(&self.map)? {
            let (mark, mut count) = (reply.map_later(), 0);
            for pair in map.pairs::<Value, Value>() {
                let (key, value) = pair?;
                self.write(&key, protocol, host, reply, depth)?;
                self.write(&value, protocol, host, reply, depth)?;
                count += 1;
            }
            reply.finish(mark, count);
        } else if let Value::Table(set) = table.raw_get(&self.set)? {
            let (mark, mut count) = (reply.set_later(), 0);
            for pair in set.pairs::<Value, Value>() {
                self.write(&pair?.0, protocol, host, reply, depth)?;
                count += 1;
            }
            reply.finish(mark, count);
        } else {
            let (mark, mut count) = (reply.array_later(), 0);
            loop {
                let value: Value = table.raw_get(count + 1)?;
                if value.is_nil() {
                    break;
                }
                self.write(&value, protocol, host, reply, depth)?;
                count += 1;
            }
            reply.finish(mark, count);
        }
        Ok(())
    }

    fn verbatim_parts(&self, table: &Table) -> Result<Option<(LuaString, LuaString)>> {
        if let Value::Table(verbatim) = table.raw_get(&self.verbatim)?
            && let Value::String(format) = verbatim.raw_get(&self.format)?
            && let Value::String(text) = verbatim.raw_get(&self.string)?
        {
            return Ok(Some((format, text)));
        }
        Ok(None)
    }
}

trait AsNumber {
    fn as_number_of_any(&self) -> Option<f64>;
}

impl AsNumber for Value {
    fn as_number_of_any(&self) -> Option<f64> {
        match self {
            Value::Integer(number) => Some(*number as f64),
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

pub(crate) const TOO_DEEP: &str = "ERR reached lua stack limit";
/// Maximum nesting depth of the tables in a reply.
pub(crate) const DEPTH_MAX: usize = 500;
/// The field of an error that was counted when a command replied it.
pub(crate) const COUNTED: &str = "ignore_error_stats_update";
