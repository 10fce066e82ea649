//! Conversion of replies to Lua values and back.

use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};
use tidewire_resp::number::{DoubleText, parse_integer};
use tidewire_resp::{ArgumentList, Protocol, Writer};

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
            counted: lua.create_string("ignore_error_stats_update")?,
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
        let table = lua.create_table_with_capacity(0, 2)?;
        table.raw_set(&self.err, failure.text.as_str())?;
        if failure.is_counted {
            table.raw_set(&self.counted, true)?;
        }
        Ok(table)
    }

    /// Converts a reply to a Lua value. An error reply becomes an `Err`.
    pub(crate) fn to_lua(&self, lua: &Lua, reply: &[u8]) -> Result<Value> {
        if let [b'-', text @ ..] = reply {
            let mut failure = Failure::of_reply(text);
            failure.is_counted = true;
            return Err(mlua::Error::external(failure));
        }
        let mut reader = Reader {
            lua,
            names: self,
            reply,
            at: 0,
        };
        reader.value(0)
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

/// Integers up to this are formatted digit by digit.
const EXACT_MAX: u64 = 1 << 62;

/// Converts the arguments of a command that a script calls. Returns false if one is neither a
/// string nor a number.
pub(crate) fn to_arguments(values: &MultiValue, arguments: &mut ArgumentList) -> bool {
    arguments.clear();
    for value in values {
        match value {
            Value::String(text) => arguments.push(&text.as_bytes()),
            // Every number of Lua 5.1 is a double: Redis formats large ones with the shortest
            // digits.
            Value::Integer(number) if number.unsigned_abs() > EXACT_MAX => {
                arguments.push(DoubleText::new(*number as f64).as_bytes());
            }
            Value::Integer(number) => {
                arguments.push(itoa::Buffer::new().format(*number).as_bytes());
            }
            Value::Number(number) if number.is_nan() && number.is_sign_negative() => {
                arguments.push(b"-nan");
            }
            // Includes -0.
            Value::Number(0.0) => arguments.push(b"0"),
            Value::Number(number) => arguments.push(DoubleText::new(*number).as_bytes()),
            _ => return false,
        }
    }
    true
}

/// Converts texts to an array.
pub(crate) fn to_table<'a>(lua: &Lua, texts: impl Iterator<Item = &'a [u8]>) -> Result<Table> {
    let table = lua.create_table_with_capacity(texts.size_hint().0, 0)?;
    for (index, text) in texts.enumerate() {
        table.raw_set(index + 1, lua.create_string(text)?)?;
    }
    Ok(table)
}

/// A reader of a reply that this server has written.
struct Reader<'a> {
    lua: &'a Lua,
    names: &'a Names,
    reply: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > DEPTH_MAX {
            return Err(mlua::Error::external(Failure::new(TOO_DEEP)));
        }
        let line = self.line();
        let Some((&kind, text)) = line.split_first() else {
            return Ok(Value::Nil);
        };
        match kind {
            b':' => Ok(Value::Number(parse_integer(text).unwrap_or(0) as f64)),
            b'$' => match parse_integer(text) {
                Some(length @ 0..) => self.bulk(length as usize).map(Value::String),
                _ => Ok(Value::Boolean(false)),
            },
            b'+' => self.single(&self.names.ok, text),
            b'-' => {
                let mut failure = Failure::of_reply(text);
                failure.is_counted = true;
                let table = self.names.error_table(self.lua, &failure)?;
                Ok(Value::Table(table))
            }
            b'*' | b'>' => match parse_integer(text) {
                Some(count @ 0..) => self.array(count as usize, depth),
                _ => Ok(Value::Boolean(false)),
            },
            b'%' => self.map(text, depth),
            b'~' => self.set(text, depth),
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(text == b"t")),
            b',' => {
                let number = std::str::from_utf8(text)
                    .ok()
                    .and_then(|text| text.parse().ok());
                let number = Value::Number(number.unwrap_or(f64::NAN));
                let table = self.lua.create_table_with_capacity(0, 1)?;
                table.raw_set(&self.names.double, number)?;
                Ok(Value::Table(table))
            }
            b'(' => self.single(&self.names.big_number, text),
            b'=' => self.verbatim(text),
            b'|' => {
                // Scripts do not see attributes; the reply itself follows them.
                for _ in 0..parse_integer(text).unwrap_or(0).saturating_mul(2) {
                    self.value(depth + 1)?;
                }
                self.value(depth + 1)
            }
            _ => Ok(Value::Nil),
        }
    }

    fn array(&mut self, count: usize, depth: usize) -> Result<Value> {
        // The remaining bytes of the reply limit the initial capacity.
        let room = count.min(self.reply.len() - self.at);
        let table = self.lua.create_table_with_capacity(room, 0)?;
        for index in 0..count {
            let value = self.value(depth + 1)?;
            table.raw_set(index + 1, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, text: &[u8], depth: usize) -> Result<Value> {
        let map = self.lua.create_table()?;
        for _ in 0..parse_integer(text).unwrap_or(0) {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            if !key.is_nil() {
                map.raw_set(key, value)?;
            }
        }
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(&self.names.map, map)?;
        Ok(Value::Table(table))
    }

    fn set(&mut self, text: &[u8], depth: usize) -> Result<Value> {
        let set = self.lua.create_table()?;
        for _ in 0..parse_integer(text).unwrap_or(0) {
            let key = self.value(depth + 1)?;
            if !key.is_nil() {
                set.raw_set(key, true)?;
            }
        }
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(&self.names.set, set)?;
        Ok(Value::Table(table))
    }

    fn verbatim(&mut self, text: &[u8]) -> Result<Value> {
        let length = parse_integer(text).unwrap_or(0).max(0) as usize;
        let all = self.bytes(length);
        let (format, rest) = (all.get(..3).unwrap_or(all), all.get(4..).unwrap_or(b""));
        let inner = self.lua.create_table_with_capacity(0, 2)?;
        inner.raw_set(&self.names.string, self.lua.create_string(rest)?)?;
        inner.raw_set(&self.names.format, self.lua.create_string(format)?)?;
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(&self.names.verbatim, inner)?;
        Ok(Value::Table(table))
    }

    fn single(&self, name: &LuaString, text: &[u8]) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, self.lua.create_string(text)?)?;
        Ok(Value::Table(table))
    }

    fn bulk(&mut self, length: usize) -> Result<LuaString> {
        let bytes = self.bytes(length);
        self.lua.create_string(bytes)
    }

    /// Returns the current line without its end.
    fn line(&mut self) -> &'a [u8] {
        let rest = &self.reply[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\r');
        let line = &rest[..length.unwrap_or(rest.len())];
        self.at = (self.at + line.len() + 2).min(self.reply.len());
        line
    }

    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let end = self.at.saturating_add(length).min(self.reply.len());
        let bytes = &self.reply[self.at..end];
        self.at = (end + 2).min(self.reply.len());
        bytes
    }
}

pub(crate) const TOO_DEEP: &str = "ERR reached lua stack limit";
/// Maximum nesting depth of the tables in a reply.
const DEPTH_MAX: usize = 500;
