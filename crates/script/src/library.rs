//! Redis's Lua libraries beside Lua's own, and their shared functions.

pub(crate) mod bit;
pub(crate) mod cjson;
pub(crate) mod cmsgpack;
pub(crate) mod pattern;
pub(crate) mod strings;
pub(crate) mod structs;

use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};

use crate::redis::number_of;
use crate::sandbox::is_script;

/// Returns all libraries by name.
pub(crate) fn libraries(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("bit", bit::library(lua)?)?;
    table.raw_set("cjson", cjson::library(lua)?)?;
    table.raw_set("cmsgpack", cmsgpack::library(lua)?)?;
    table.raw_set("struct", structs::library(lua)?)?;
    Ok(table)
}

/// Creates an error with the position of the caller, like the Lua library's own errors. Frames of
/// our own Lua code are skipped.
pub(crate) fn fail(lua: &Lua, text: impl AsRef<str>) -> mlua::Error {
    let is_ours = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source().source;
            source.is_some_and(|source| !is_script(&source))
        })
    };
    let mut level = 1;
    while is_ours(level) == Some(true) {
        level += 1;
    }
    let place = lua.inspect_stack(level, |frame| {
        let source = frame.source();
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", source.short_src?))
    });
    let place = place.flatten().unwrap_or_default();
    mlua::Error::runtime(format!("{place}{}", text.as_ref()))
}

/// Creates an error about an argument.
pub(crate) fn bad_argument(lua: &Lua, name: &str, number: usize, text: &str) -> mlua::Error {
    fail(lua, format!("bad argument #{number} to '{name}' ({text})"))
}

fn wrong_type(
    lua: &Lua,
    name: &str,
    number: usize,
    wanted: &str,
    value: Option<&Value>,
) -> mlua::Error {
    let got = value.map_or("no value", type_name);
    bad_argument(lua, name, number, &format!("{wanted} expected, got {got}"))
}

/// Returns argument `number`, from 1, as a string; numbers are accepted too.
pub(crate) fn text(lua: &Lua, name: &str, values: &MultiValue, number: usize) -> Result<LuaString> {
    let value = values.get(number - 1);
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Integer(_) | Value::Number(_)) => {
            let text = lua.coerce_string(values[number - 1].clone())?;
            text.ok_or_else(|| wrong_type(lua, name, number, "string", value))
        }
        _ => Err(wrong_type(lua, name, number, "string", value)),
    }
}

/// Returns argument `number`, from 1, as a number; numeric strings are accepted too.
pub(crate) fn number(lua: &Lua, name: &str, values: &MultiValue, number: usize) -> Result<f64> {
    let value = values.get(number - 1);
    let found = value.and_then(number_of);
    found.ok_or_else(|| wrong_type(lua, name, number, "number", value))
}

/// Returns argument `number` as an integer, or the default if it is missing.
pub(crate) fn optional_integer(
    lua: &Lua,
    name: &str,
    values: &MultiValue,
    position: usize,
    default: i64,
) -> Result<i64> {
    match values.get(position - 1) {
        None | Some(Value::Nil) => Ok(default),
        Some(_) => Ok(number(lua, name, values, position)? as i64),
    }
}

/// Returns Lua's name of a value's type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// Formats a number with `precision` significant digits, like `%.14g`.
pub(crate) fn format_number(number: f64, precision: usize) -> String {
    if number.is_nan() {
        return "nan".into();
    } else if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let precision = precision.max(1);
    let scientific = format!("{number:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.decimals$}")).to_owned()
}

/// Removes trailing zeros from a decimal.
fn trimmed(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_by_printf() {
        let table = [
            (0.0, "0"),
            (-5e3, "-5000"),
            (0.3e-3, "0.0003"),
            (1023.2, "1023.2"),
            (1e14, "1e+14"),
            (1e13, "10000000000000"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.33333333333333"),
            (1e-5, "1e-05"),
            (-1.5e300, "-1.5e+300"),
            (123_456_789_012_345.0, "1.2345678901234e+14"),
            (-0.0, "-0"),
        ];
        for (number, text) in table {
            assert_eq!(format_number(number, 14), text, "{number}");
        }
        assert_eq!(format_number(2.34567, 3), "2.35");
    }
}
