//! `struct`: numbers and strings in binary form, described by a format.

use mlua::{Lua, MultiValue, Result, Table, Value};

use super::{bad_argument, fail, number, optional_integer, text};
use crate::redis::number_of;
use crate::watch::Meter;

pub(crate) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("size", lua.create_function(size)?)?;
    Ok(table)
}

/// A parser of a format.
struct Format<'a> {
    lua: &'a Lua,
    name: &'static str,
    rest: &'a [u8],
    is_big: bool,
    align: usize,
    meter: Meter<'a>,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, name: &'static str, format: &'a [u8]) -> Self {
        // A format is a C string.
        let end = format.iter().position(|&byte| byte == 0);
        Format {
            lua,
            name,
            rest: &format[..end.unwrap_or(format.len())],
            is_big: false,
            align: 1,
            meter: Meter::new(lua),
        }
    }

    /// Returns the next option and its size.
    fn next(&mut self) -> Result<Option<(u8, usize)>> {
        self.meter.tick()?;
        let Some((&option, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'f' => 4,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text =
                        format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(fail(self.lua, text));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((option, size)))
    }

    fn number(&mut self, default: usize) -> Result<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit());
        let (digits, rest) = self.rest.split_at(digits.count());
        self.rest = rest;
        if digits.is_empty() {
            return Ok(default);
        }
        let number = tidewire_resp::number::parse_integer(trim_zeros(digits));
        let number = number.and_then(|number| i32::try_from(number).ok());
        let number = number.ok_or_else(|| fail(self.lua, "integral size overflow"))?;
        Ok(number as usize)
    }

    /// Returns the number of bytes to skip so that the next element is aligned.
    fn padding(&self, position: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        // The same formula as for a power of two, even if an integer's size is none.
        size.wrapping_sub(position & (size - 1)) & (size - 1)
    }

    fn control(&mut self, option: u8) -> Result<()> {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.number(ALIGN_MAX)?;
                if !align.is_power_of_two() {
                    let text = format!("alignment {align} is not a power of 2");
                    return Err(fail(self.lua, text));
                }
                self.align = align;
            }
            other => {
                let text = format!("invalid format option '{}'", char::from(other));
                return Err(bad_argument(self.lua, self.name, 1, &text));
            }
        }
        Ok(())
    }

    /// Converts bytes from the native order to the selected one.
    fn ordered<const N: usize>(&self, mut bytes: [u8; N]) -> [u8; N] {
        if self.is_big {
            bytes.reverse();
        }
        bytes
    }
}

fn pack(lua: &Lua, values: MultiValue) -> Result<mlua::LuaString> {
    let format = text(lua, "pack", &values, 1)?;
    let format = format.as_bytes();
    let mut format = Format::new(lua, "pack", &format);
    let (mut out, mut argument) = (Vec::new(), 1);
    while let Some((option, size)) = format.next()? {
        let padding = format.padding(out.len(), option, size);
        out.resize(out.len() + padding, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                argument += 1;
                let number = number(lua, "pack", &values, argument)?;
                let number = if number < 0.0 {
                    number as i64 as u64
                } else {
                    number as u64
                };
                put_integer(&mut out, number, size, format.is_big);
            }
            b'x' => out.push(0),
            b'f' => {
                argument += 1;
                let number = number(lua, "pack", &values, argument)? as f32;
                out.extend_from_slice(&format.ordered(number.to_le_bytes()));
            }
            b'd' => {
                argument += 1;
                let number = number(lua, "pack", &values, argument)?;
                out.extend_from_slice(&format.ordered(number.to_le_bytes()));
            }
            b'c' | b's' => {
                argument += 1;
                let given = text(lua, "pack", &values, argument)?;
                let given = given.as_bytes();
                let size = if size == 0 { given.len() } else { size };
                let part = given
                    .get(..size)
                    .ok_or_else(|| bad_argument(lua, "pack", argument + 1, "string too short"))?;
                out.extend_from_slice(part);
                if option == b's' {
                    out.push(0);
                }
            }
            other => format.control(other)?,
        }
    }
    lua.create_string(out)
}

fn unpack(lua: &Lua, values: MultiValue) -> Result<MultiValue> {
    let format = text(lua, "unpack", &values, 1)?;
    let data = text(lua, "unpack", &values, 2)?;
    let start = optional_integer(lua, "unpack", &values, 3, 1)?;
    if start < 1 {
        return Err(bad_argument(
            lua,
            "unpack",
            3,
            "offset must be 1 or greater",
        ));
    }
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let mut format = Format::new(lua, "unpack", &format);
    let too_short = || bad_argument(lua, "unpack", 2, "data string too short");
    let part = |position: usize, size: usize| {
        let end = position.checked_add(size);
        let bytes = end.and_then(|end| data.get(position..end));
        bytes.ok_or_else(too_short)
    };
    let (mut position, mut found) = (start as usize - 1, Vec::new());
    while let Some((option, mut size)) = format.next()? {
        position = position.saturating_add(format.padding(position, option, size));
        let bytes = part(position, size)?;
        if found.len() >= RESULTS_MAX {
            return Err(fail(lua, "too many results"));
        }
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let is_signed = option.is_ascii_lowercase();
                found.push(Value::Number(integer(bytes, is_signed, format.is_big)));
            }
            b'x' => {}
            b'f' => {
                let bytes = format.ordered(bytes.try_into().unwrap_or([0; 4]));
                found.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            b'd' => {
                let bytes = format.ordered(bytes.try_into().unwrap_or([0; 8]));
                found.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            b'c' => {
                let mut bytes = bytes;
                if size == 0 {
                    let told = found.pop().as_ref().and_then(number_of);
                    let text = "format 'c0' needs a previous size";
                    let told = told.ok_or_else(|| fail(lua, text))?;
                    // A negative number is not a length: in C it becomes nearly 2^64.
                    size = match told {
                        0.0..=LENGTH_MAX => told as usize,
                        -1.0..0.0 if told > -1.0 => 0,
                        _ => usize::MAX,
                    };
                    bytes = part(position, size)?;
                }
                found.push(Value::String(lua.create_string(bytes)?));
            }
            b's' => {
                let rest = data.get(position..).unwrap_or_default();
                let length = rest.iter().position(|&byte| byte == 0);
                let length = length.ok_or_else(|| fail(lua, "unfinished string in data"))?;
                found.push(Value::String(lua.create_string(&rest[..length])?));
                size = length + 1;
            }
            other => format.control(other)?,
        }
        position += size;
    }
    found.push(Value::Integer(position as i64 + 1));
    Ok(MultiValue::from_vec(found))
}

fn size(lua: &Lua, values: MultiValue) -> Result<i64> {
    let format = text(lua, "size", &values, 1)?;
    let format = format.as_bytes();
    let mut format = Format::new(lua, "size", &format);
    let mut position = 0usize;
    while let Some((option, size)) = format.next()? {
        position = position.saturating_add(format.padding(position, option, size));
        match option {
            b's' => {
                let text = "option 's' has no fixed size";
                return Err(bad_argument(lua, "size", 1, text));
            }
            b'c' if size == 0 => {
                let text = "option 'c0' has no fixed size";
                return Err(bad_argument(lua, "size", 1, text));
            }
            option if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
        position = position.saturating_add(size);
    }
    Ok(position as i64)
}

fn put_integer(out: &mut Vec<u8>, number: u64, size: usize, is_big: bool) {
    let start = out.len();
    let byte = |at: usize| {
        if at < 8 {
            (number >> (at * 8)) as u8
        } else {
            0
        }
    };
    out.extend((0..size).map(byte));
    if is_big {
        out[start..].reverse();
    }
}

fn integer(bytes: &[u8], is_signed: bool, is_big: bool) -> f64 {
    let mut number = 0u64;
    let shift_in = |number: &mut u64, byte: &u8| *number = *number << 8 | u64::from(*byte);
    match is_big {
        true => bytes.iter().for_each(|byte| shift_in(&mut number, byte)),
        false => bytes
            .iter()
            .rev()
            .for_each(|byte| shift_in(&mut number, byte)),
    }
    if !is_signed {
        return number as f64;
    }
    let unused = 64 - (bytes.len().clamp(1, 8) as u32) * 8;
    ((number << unused) as i64 >> unused) as f64
}

fn trim_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    &digits[zeros.min(digits.len() - 1)..]
}

/// As in Redis's library; bytes beyond a number's own are zero.
const INTEGER_BYTES_MAX: usize = 32;
const ALIGN_MAX: usize = 8;
/// No data is longer.
const LENGTH_MAX: f64 = (1u64 << 52) as f64;
/// Maximum number of results that fit on Lua's stack.
const RESULTS_MAX: usize = 7_000;
