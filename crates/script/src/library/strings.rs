//! The functions of `string` that may take much longer than the size of their arguments suggests.

use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};

use super::pattern::{Capture, Matcher, Stop, is_too_complex, quick_length};
use super::{fail, number, text};
use crate::watch::spend;

/// Returns the functions that `sandbox.lua` builds on.
pub(crate) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let find = lua.create_function(|lua, values| search(lua, &values, "find"))?;
    table.raw_set("find", find)?;
    let matched = lua.create_function(|lua, values| search(lua, &values, "match"))?;
    table.raw_set("match", matched)?;
    table.raw_set("gsub", lua.create_function(replace)?)?;
    table.raw_set("patterns", lua.create_function(patterns)?)?;
    table.raw_set("scan", lua.create_function(scan)?)?;
    table.raw_set("rep", lua.create_function(repeated)?)?;
    let quick_length = lua.create_function(|_, pattern: LuaString| {
        let length = quick_length(&pattern.as_bytes());
        Ok(length.map_or(-1.0, |length| length as f64))
    })?;
    table.raw_set("quick_length", quick_length)?;
    table.raw_set("fail", lua.create_function(raise)?)?;
    let spend = lua.create_function(|lua, steps: f64| spend(lua, steps as usize))?;
    table.raw_set("spend", spend)?;
    Ok(table)
}

type Match<'a> = Matcher<'a, &'a dyn Fn(usize) -> Result<()>>;

/// Implements `string.find` and `string.match`.
fn search(lua: &Lua, values: &MultiValue, name: &'static str) -> Result<MultiValue> {
    let subject = text(lua, name, values, 1)?;
    let pattern = checked_pattern(lua, name, values)?;
    let (subject, pattern) = (&*subject.as_bytes(), &*pattern.as_bytes());
    let from = match integer(lua, name, values, 3)?.unwrap_or(1) {
        from @ ..0 => from.saturating_add(subject.len() as i64 + 1),
        from => from,
    };
    let from = (from.max(1) as usize - 1).min(subject.len());
    let finds = name == "find";
    let is_plain = |value: &Value| !matches!(value, Value::Nil | Value::Boolean(false));
    if finds && (values.get(3).is_some_and(is_plain) || !has_specials(pattern)) {
        let Some(at) = position(lua, &subject[from..], pattern)? else {
            return Value::Nil.into_lua_multi(lua);
        };
        let at = from + at;
        return (at + 1, at + pattern.len()).into_lua_multi(lua);
    }
    let spend = |steps| spend(lua, steps);
    let mut matcher: Match<'_> = Matcher::new(subject, pattern, true, &spend);
    let stopped = |stop| error_of(lua, stop);
    let Some(found) = matcher.find(from).map_err(stopped)? else {
        return Value::Nil.into_lua_multi(lua);
    };
    let mut out = MultiValue::new();
    if finds {
        out.push_back(Value::Number((found.0 + 1) as f64));
        out.push_back(Value::Number(found.1 as f64));
    }
    let count = matcher.captured().max(usize::from(!finds));
    push_captures(lua, &matcher, subject, found, count, &mut out)?;
    Ok(out)
}

/// Implements `string.gsub` with a replacement text.
fn replace(lua: &Lua, values: MultiValue) -> Result<MultiValue> {
    let subject = text(lua, "gsub", &values, 1)?;
    let pattern = checked_pattern(lua, "gsub", &values)?;
    let (subject, pattern) = (&*subject.as_bytes(), &*pattern.as_bytes());
    let limit = limit(lua, &values, subject)?;
    let is_text = matches!(
        values.get(2),
        Some(Value::String(_) | Value::Integer(_) | Value::Number(_))
    );
    if !is_text {
        let text = "bad argument #3 to 'gsub' (string/function/table expected)";
        return Err(fail(lua, text));
    }
    let replacement = text(lua, "gsub", &values, 3)?;
    let replacement = &*replacement.as_bytes();
    let spend = |steps| spend(lua, steps);
    let mut matcher: Match<'_> = Matcher::new(subject, pattern, true, &spend);
    let (mut out, mut from, mut count, mut steps) = (Vec::new(), 0, 0, 0);
    while count < limit {
        let found = matcher.find(from).map_err(|stop| error_of(lua, stop))?;
        let Some((start, end)) = found else {
            break;
        };
        count += 1;
        out.extend_from_slice(&subject[from..start]);
        fill_in(lua, &matcher, subject, (start, end), replacement, &mut out)?;
        steps += STEPS_PER_MATCH + replacement.len();
        if steps > STEPS_PER_CHECK {
            spend(std::mem::take(&mut steps))?;
        }
        if out.len() > LENGTH_MAX {
            return Err(fail(lua, TOO_LARGE));
        }
        from = end;
        if end == start {
            let Some(&byte) = subject.get(start) else {
                break;
            };
            out.push(byte);
            from = start + 1;
        }
        if matcher.is_anchored() {
            break;
        }
    }
    out.extend_from_slice(&subject[from.min(subject.len())..]);
    (lua.create_string(out)?, count).into_lua_multi(lua)
}

/// Returns the subject and the pattern as strings, and the replacement limit of `gsub`.
fn patterns(lua: &Lua, values: MultiValue) -> Result<MultiValue> {
    let mut values = values;
    let is_gsub = matches!(values.pop_front(), Some(Value::Boolean(true)));
    let name = if is_gsub { "gsub" } else { "gmatch" };
    let subject = text(lua, name, &values, 1)?;
    let pattern = checked_pattern(lua, name, &values)?;
    let limit = match is_gsub {
        true => limit(lua, &values, &subject.as_bytes())?,
        false => 0,
    };
    let is_anchored = is_gsub && pattern.as_bytes().first() == Some(&b'^');
    (subject, pattern, limit, is_anchored).into_lua_multi(lua)
}

/// Returns the next match from a position on: its start, its end, and its captures, or the whole
/// match. Optionally, only the first capture.
fn scan(
    lua: &Lua,
    (subject, pattern, from, may_anchor, is_first): (LuaString, LuaString, f64, bool, bool),
) -> Result<MultiValue> {
    let (subject, pattern) = (&*subject.as_bytes(), &*pattern.as_bytes());
    let spend = |steps| spend(lua, steps);
    let mut matcher: Match<'_> = Matcher::new(subject, pattern, may_anchor, &spend);
    let found = matcher.find(from as usize);
    let mut out = MultiValue::new();
    let Some(found) = found.map_err(|stop| error_of(lua, stop))? else {
        return Ok(out);
    };
    out.push_back(Value::Number(found.0 as f64));
    out.push_back(Value::Number(found.1 as f64));
    let count = match is_first {
        true => 1,
        false => matcher.captured().max(1),
    };
    push_captures(lua, &matcher, subject, found, count, &mut out)?;
    Ok(out)
}

/// Implements `string.rep`.
fn repeated(lua: &Lua, values: MultiValue) -> Result<LuaString> {
    let part = text(lua, "rep", &values, 1)?;
    let part = part.as_bytes();
    let count = as_integer(number(lua, "rep", &values, 2)?) as i32;
    let count = count.max(0) as usize;
    let length = part.len().checked_mul(count);
    let Some(length) = length.filter(|length| *length <= LENGTH_MAX) else {
        return Err(fail(lua, TOO_LARGE));
    };
    spend(lua, length)?;
    match length {
        0 => lua.create_string(""),
        _ => lua.create_string(part.repeat(count)),
    }
}

/// Raises an error with the script's line before its text.
fn raise(lua: &Lua, text: String) -> Result<()> {
    Err(fail(lua, text))
}

fn checked_pattern(lua: &Lua, name: &str, values: &MultiValue) -> Result<LuaString> {
    let pattern = text(lua, name, values, 2)?;
    match is_too_complex(&pattern.as_bytes()) {
        true => Err(fail(lua, "pattern too complex")),
        false => Ok(pattern),
    }
}

/// Returns the replacement limit of `gsub`: an `int` in the Lua library.
fn limit(lua: &Lua, values: &MultiValue, subject: &[u8]) -> Result<i32> {
    let limit = integer(lua, "gsub", values, 4)?;
    Ok(limit.unwrap_or(subject.len() as i64 + 1) as i32)
}

/// Appends the replacement text of a match.
fn fill_in(
    lua: &Lua,
    matcher: &Match<'_>,
    subject: &[u8],
    found: (usize, usize),
    replacement: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut rest = replacement;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        out.extend_from_slice(&rest[..at]);
        // The Lua library sees the terminating zero of the text here.
        let byte = rest.get(at + 1).copied().unwrap_or(0);
        rest = rest.get(at + 2..).unwrap_or(&[]);
        match byte {
            b'0' => out.extend_from_slice(&subject[found.0..found.1]),
            b'1'..=b'9' => {
                let capture = matcher.capture(usize::from(byte - b'1'), found);
                match capture.map_err(|stop| error_of(lua, stop))? {
                    Capture::Text(from, to) => out.extend_from_slice(&subject[from..to]),
                    Capture::Position(at) => {
                        out.extend_from_slice(itoa::Buffer::new().format(at + 1).as_bytes());
                    }
                }
            }
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn push_captures(
    lua: &Lua,
    matcher: &Match<'_>,
    subject: &[u8],
    found: (usize, usize),
    count: usize,
    out: &mut MultiValue,
) -> Result<()> {
    for index in 0..count {
        let capture = matcher.capture(index, found);
        out.push_back(match capture.map_err(|stop| error_of(lua, stop))? {
            Capture::Text(from, to) => Value::String(lua.create_string(&subject[from..to])?),
            Capture::Position(at) => Value::Number((at + 1) as f64),
        });
    }
    Ok(())
}

fn error_of(lua: &Lua, stop: Stop<mlua::Error>) -> mlua::Error {
    match stop {
        Stop::Pattern(text) => fail(lua, text),
        Stop::Ended(error) => error,
    }
}

/// Finds a text in another one, without patterns.
fn position(lua: &Lua, text: &[u8], wanted: &[u8]) -> Result<Option<usize>> {
    let Some((first, rest)) = wanted.split_first() else {
        return Ok(Some(0));
    };
    let (mut from, mut steps) = (0, text.len() / 16);
    while from + wanted.len() <= text.len() {
        let places = &text[from..text.len() - rest.len()];
        let Some(at) = places.iter().position(|byte| byte == first) else {
            break;
        };
        let at = from + at;
        if text[at + 1..].starts_with(rest) {
            return Ok(Some(at));
        }
        from = at + 1;
        steps += 1 + rest.len() / 16;
        if steps > STEPS_PER_CHECK {
            spend(lua, std::mem::take(&mut steps))?;
        }
    }
    spend(lua, steps)?;
    Ok(None)
}

/// Returns whether a text contains pattern characters; like the Lua library, looks up to the first
/// zero.
fn has_specials(pattern: &[u8]) -> bool {
    let mut bytes = pattern.iter().take_while(|byte| **byte != 0);
    bytes.any(|byte| b"^$*+?.([%-".contains(byte))
}

/// Returns argument `position` as an integer, if it is given.
fn integer(lua: &Lua, name: &str, values: &MultiValue, position: usize) -> Result<Option<i64>> {
    match values.get(position - 1) {
        None | Some(Value::Nil) => Ok(None),
        Some(Value::Integer(number)) => Ok(Some(*number)),
        Some(Value::Number(number)) => Ok(Some(as_integer(*number))),
        Some(_) => number(lua, name, values, position).map(|number| Some(as_integer(number))),
    }
}

/// Converts a number to an integer like the Lua library: a number out of range becomes the smallest
/// integer.
fn as_integer(number: f64) -> i64 {
    let is_in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if is_in_range { number as i64 } else { i64::MIN }
}

/// Maximum length of a text: the default of `proto-max-bulk-len`.
const LENGTH_MAX: usize = 512 << 20;
const TOO_LARGE: &str = "resulting string too large";
/// Number of steps that a replaced match counts as.
const STEPS_PER_MATCH: usize = 20;
const STEPS_PER_CHECK: usize = 100_000;

#[cfg(test)]
mod tests;
