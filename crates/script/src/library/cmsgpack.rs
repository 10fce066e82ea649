//! `cmsgpack`: MessagePack encoding and decoding.

use mlua::{Lua, MultiValue, Result, Table, Value};

use super::{fail, number, optional_integer, text};
use crate::watch::Meter;

pub(crate) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    for name in ["unpack", "unpack_one", "unpack_limit"] {
        let function = lua.create_function(move |lua, values| unpack(lua, values, name))?;
        table.raw_set(name, function)?;
    }
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

fn pack(lua: &Lua, values: MultiValue) -> Result<mlua::LuaString> {
    if values.is_empty() {
        let text = "bad argument #0 to 'pack' (MessagePack pack needs input.)";
        return Err(fail(lua, text));
    }
    let (mut out, meter) = (Vec::new(), Meter::new(lua));
    for value in &values {
        put(&mut out, value, 0, &meter)?;
    }
    lua.create_string(out)
}

fn put(out: &mut Vec<u8>, value: &Value, level: usize, meter: &Meter<'_>) -> Result<()> {
    meter.tick()?;
    match value {
        Value::String(text) => put_text(out, &text.as_bytes()),
        Value::Boolean(truth) => out.push(if *truth { 0xC3 } else { 0xC2 }),
        Value::Integer(number) => put_integer(out, *number),
        Value::Number(number) => put_double(out, *number),
        Value::Table(table) if level < NESTING_MAX => put_table(out, table, level, meter)?,
        _ => out.push(0xC0),
    }
    Ok(())
}

fn put_table(out: &mut Vec<u8>, table: &Table, level: usize, meter: &Meter<'_>) -> Result<()> {
    // Two passes: the first one determines the kind of table. Handles to all values at once would
    // be too many.
    let (mut count, mut max, mut is_array) = (0, 0, true);
    table.for_each(|key: Value, _: Value| {
        match key {
            Value::Integer(number @ 1..=0x7FFF_FFFF) => max = max.max(number as usize),
            _ => is_array = false,
        }
        count += 1;
        meter.tick()
    })?;
    if is_array && max == count {
        put_length(out, count, 0x90, 15, [0xDC, 0xDD]);
        return (1..=count)
            .try_for_each(|index| put(out, &table.raw_get(index)?, level + 1, meter));
    }
    put_length(out, count, 0x80, 15, [0xDE, 0xDF]);
    table.for_each(|key: Value, value: Value| {
        put(out, &key, level + 1, meter)?;
        put(out, &value, level + 1, meter)
    })
}

fn put_length(out: &mut Vec<u8>, length: usize, short: u8, short_max: usize, long: [u8; 2]) {
    if length <= short_max {
        out.push(short | length as u8);
    } else if length <= 0xFFFF {
        out.push(long[0]);
        out.extend_from_slice(&(length as u16).to_be_bytes());
    } else {
        out.push(long[1]);
        out.extend_from_slice(&(length as u32).to_be_bytes());
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        length @ 32..=0xFF => out.extend_from_slice(&[0xD9, length as u8]),
        length => put_length(out, length, 0xA0, 31, [0xDA, 0xDB]),
    }
    out.extend_from_slice(text);
}

fn put_double(out: &mut Vec<u8>, number: f64) {
    if number == 0.0 {
        return put_integer(out, 0);
    }
    let short = number as f32;
    if f64::from(short) == number {
        out.push(0xCA);
        out.extend_from_slice(&short.to_be_bytes());
    } else {
        out.push(0xCB);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn put_integer(out: &mut Vec<u8>, number: i64) {
    let bytes = number.to_be_bytes();
    let (kind, length) = match number {
        -32..=127 => return out.push(number as u8),
        128..=0xFF => (0xCC, 1),
        0x100..=0xFFFF => (0xCD, 2),
        0x1_0000..=0xFFFF_FFFF => (0xCE, 4),
        0x1_0000_0000.. => (0xCF, 8),
        -128..-32 => (0xD0, 1),
        -32_768..-128 => (0xD1, 2),
        -2_147_483_648..-32_768 => (0xD2, 4),
        ..-2_147_483_648 => (0xD3, 8),
    };
    out.push(kind);
    out.extend_from_slice(&bytes[8 - length..]);
}

fn unpack(lua: &Lua, values: MultiValue, name: &'static str) -> Result<MultiValue> {
    let input = text(lua, name, &values, 1)?;
    let input = input.as_bytes();
    let (limit, offset) = match name {
        "unpack" => (0, 0),
        "unpack_one" => (1, optional_integer(lua, name, &values, 2, 0)?),
        _ => {
            let limit = number(lua, name, &values, 2)? as i64;
            (limit, optional_integer(lua, name, &values, 3, 0)?)
        }
    };
    let length = input.len();
    if offset < 0 || limit < 0 {
        let text =
            format!("Invalid request to unpack with offset of {offset} and limit of {length}.");
        return Err(fail(lua, text));
    } else if offset as usize > length {
        let text = format!("Start offset {offset} greater than input length {length}.");
        return Err(fail(lua, text));
    }
    let decode_all = limit == 0 && offset == 0;
    let limit = if decode_all {
        usize::MAX
    } else {
        limit as usize
    };
    let mut reader = Reader {
        lua,
        input: &input,
        at: offset as usize,
        meter: Meter::new(lua),
    };
    let mut found = Vec::new();
    while reader.at < length && found.len() < limit {
        if found.len() >= RESULTS_MAX {
            let text = "too many return values at once; use unpack_one or unpack_limit instead.";
            return Err(fail(lua, format!("stack overflow ({text})")));
        }
        let value = reader.value(0)?;
        found.push(value);
    }
    if !decode_all {
        let next = if reader.at == length {
            -1
        } else {
            reader.at as i64
        };
        found.insert(0, Value::Integer(next));
    }
    Ok(MultiValue::from_vec(found))
}

struct Reader<'a> {
    lua: &'a Lua,
    input: &'a [u8],
    at: usize,
    meter: Meter<'a>,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value> {
        self.meter.tick()?;
        if depth > DEPTH_MAX {
            return Err(fail(self.lua, "stack overflow"));
        }
        let kind = self.bytes(1)?[0];
        Ok(match kind {
            0x00..=0x7F => Value::Integer(i64::from(kind)),
            0x80..=0x8F => self.map(usize::from(kind & 15), depth)?,
            0x90..=0x9F => self.array(usize::from(kind & 15), depth)?,
            0xA0..=0xBF => self.text(usize::from(kind & 31))?,
            0xC0 => Value::Nil,
            0xC2 => Value::Boolean(false),
            0xC3 => Value::Boolean(true),
            0xCA => Value::Number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xCB => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xCC => Value::Integer(self.unsigned(1)? as i64),
            0xCD => Value::Integer(self.unsigned(2)? as i64),
            0xCE => Value::Integer(self.unsigned(4)? as i64),
            // Redis's library interprets the bits as a signed number.
            0xCF => Value::Number(self.unsigned(8)? as i64 as f64),
            0xD0 => Value::Integer(i64::from(self.unsigned(1)? as i8)),
            0xD1 => Value::Integer(i64::from(self.unsigned(2)? as i16)),
            0xD2 => Value::Integer(i64::from(self.unsigned(4)? as i32)),
            0xD3 => Value::Number(self.unsigned(8)? as i64 as f64),
            0xD9 => self.text_of(1)?,
            0xDA => self.text_of(2)?,
            0xDB => self.text_of(4)?,
            0xDC | 0xDD => {
                let length = self.unsigned(if kind == 0xDC { 2 } else { 4 })?;
                self.array(length as usize, depth)?
            }
            0xDE | 0xDF => {
                let length = self.unsigned(if kind == 0xDE { 2 } else { 4 })?;
                self.map(length as usize, depth)?
            }
            0xE0..=0xFF => Value::Integer(i64::from(kind as i8)),
            _ => return Err(fail(self.lua, "Bad data format in input.")),
        })
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Value> {
        // Each element has at least one byte.
        let room = length.min(self.input.len() - self.at);
        let table = self.lua.create_table_with_capacity(room, 0)?;
        for index in 1..=length {
            let value = self.value(depth + 1)?;
            table.raw_set(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..length {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            match key {
                Value::Nil => return Err(fail(self.lua, "table index is nil")),
                Value::Number(number) if number.is_nan() => {
                    return Err(fail(self.lua, "table index is NaN"));
                }
                key => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }

    fn text_of(&mut self, length_bytes: usize) -> Result<Value> {
        let length = self.unsigned(length_bytes)? as usize;
        self.text(length)
    }

    fn text(&mut self, length: usize) -> Result<Value> {
        let bytes = self.bytes(length)?;
        self.lua.create_string(bytes).map(Value::String)
    }

    fn unsigned(&mut self, length: usize) -> Result<u64> {
        let bytes = self.bytes(length)?.iter();
        Ok(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let rest = &self.input[self.at..];
        let bytes = rest.get(..length);
        let bytes = bytes.ok_or_else(|| fail(self.lua, "Missing bytes in input."))?;
        self.at += length;
        Ok(bytes)
    }
}

/// Maximum nesting depth when packing. Deeper tables become nil, so that a table may contain
/// itself.
const NESTING_MAX: usize = 16;
/// Maximum nesting depth when unpacking.
const DEPTH_MAX: usize = 1_000;
/// Maximum number of results that fit on Lua's stack.
const RESULTS_MAX: usize = 7_000;
