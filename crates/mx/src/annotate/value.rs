//! The fields of values.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};

use super::Walk;
use crate::asb::AsbVariant;
use crate::cursor::Input;
use crate::profile::{self, Evidence};
use crate::value::{Text, Value};

pub(super) fn kind(walk: &mut Walk<'_, '_>, name: impl Into<Cow<'static, str>>) -> Option<u8> {
    let [kind] = walk.fixed(name, Evidence::Guessed, |[kind]: [u8; 1]| {
        format!("0x{kind:02X} {}", kind_name(kind))
    })?;
    Some(kind)
}

fn kind_name(kind: u8) -> String {
    let scalar = match kind & !profile::WIRE_ARRAY {
        profile::WIRE_NO_VALUE => "no value",
        profile::WIRE_BOOLEAN => "Boolean",
        profile::WIRE_INT32 => "Int32",
        profile::WIRE_FLOAT32 => "Float32",
        profile::WIRE_FLOAT64 => "Float64",
        profile::WIRE_STRING => "String",
        profile::WIRE_DATE_TIME => "DateTime",
        _ => return "unknown".to_string(),
    };
    let array = if kind & profile::WIRE_ARRAY == 0 {
        ""
    } else {
        "[]"
    };
    format!("{scalar}{array}")
}

/// Adds a value of `kind` in the next `length` bytes at most. A value that cannot be decoded is
/// one field.
pub(super) fn value(walk: &mut Walk<'_, '_>, kind: u8, length: usize, name: &str) -> Option<()> {
    let bytes = walk.peek().get(..length)?;
    let mut input = Input::new(bytes);
    let value = Value::decode(kind, &mut input);
    let taken = length - input.len();
    match value {
        Value::None => Some(()),
        Value::Raw { .. } => {
            if taken > 0 {
                let name = format!("{name}, not understood");
                walk.push(taken, name, Evidence::Guessed, |_| "kept raw".to_string())?;
            }
            Some(())
        }
        Value::String(_) => {
            walk.u32(format!("{name}: outer length"), Evidence::Guessed)?;
            let inner = walk.u32(format!("{name}: inner length"), Evidence::Guessed)?;
            text(walk, inner as usize, name, Evidence::Stated)
        }
        Value::Boolean(_) | Value::Int32(_) | Value::Float32(_) | Value::Float64(_) => {
            // The sizes follow from the published sizes of messages.
            walk.push(taken, name.to_string(), Evidence::Derived, |_| {
                shown(&value)
            })?;
            Some(())
        }
        Value::DateTime(_) => {
            walk.push(taken, name.to_string(), Evidence::Guessed, |_| {
                shown(&value)
            })?;
            Some(())
        }
        _ => {
            walk.u32(format!("{name}: bytes behind"), Evidence::Guessed)?;
            walk.u16(format!("{name}: count"), Evidence::Stated)?;
            walk.u16(format!("{name}: element width"), Evidence::Stated)?;
            let rest = taken.saturating_sub(8);
            if rest > 0 {
                let name = format!("{name}: elements");
                walk.push(rest, name, Evidence::Guessed, |_| shown(&value))?;
            }
            Some(())
        }
    }
}

pub(super) fn text(
    walk: &mut Walk<'_, '_>,
    length: usize,
    name: &str,
    evidence: Evidence,
) -> Option<()> {
    if length > 0 {
        walk.push(
            length,
            name.to_string(),
            evidence,
            |bytes| match Text::from_utf16_le(bytes) {
                Some(text) => cut(format!("{text:?}")),
                None => "an odd number of bytes".to_string(),
            },
        )?;
    }
    Some(())
}

pub(super) fn asb(walk: &mut Walk<'_, '_>) -> Option<()> {
    let variant = AsbVariant::decode(walk.bytes);
    walk.fixed("type", Evidence::Stated, |bytes| {
        match u16::from_le_bytes(bytes) {
            profile::ASB_INT32 => "4 Int32".to_string(),
            kind => format!("{kind}, unknown"),
        }
    })?;
    walk.i32("length", Evidence::Stated)?;
    walk.i32("payload_length", Evidence::Stated)?;
    let variant = variant.ok()?;
    if !variant.payload.is_empty() {
        let number = variant.as_int32();
        let evidence = if number.is_some() {
            Evidence::Confirmed
        } else {
            Evidence::Stated
        };
        walk.push(
            variant.payload.len(),
            "payload",
            evidence,
            |_| match number {
                Some(number) => number.to_string(),
                None => match variant.as_text() {
                    Some(text) => cut(format!("{text:?} if it is a text")),
                    None => "kept as it is".to_string(),
                },
            },
        )?;
    }
    Some(())
}

/// Returns a value as text for people.
fn shown(value: &Value<'_>) -> String {
    cut(match value {
        Value::Boolean(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::Float32(value) => value.to_string(),
        Value::Float64(value) => value.to_string(),
        Value::DateTime(time) => time.to_string(),
        Value::BooleanArray(elements) => format!("{elements:?}"),
        Value::Int32Array(elements) => format!("{elements:?}"),
        Value::Float32Array(elements) => format!("{elements:?}"),
        Value::Float64Array(elements) => format!("{elements:?}"),
        Value::StringArray(texts) => format!("{texts:?}"),
        Value::DateTimeArray(elements) => format!("{elements:?}"),
        Value::None | Value::String(_) | Value::Raw { .. } => String::new(),
    })
}

fn cut(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

const SHOWN_CHARACTERS_MAX: usize = 200;
