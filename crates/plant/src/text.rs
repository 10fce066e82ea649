//! Tags as clients see them: plain values, hashes, JSON.

use std::io::Write;

use tidewire_lastvalue::TagValue;
use tidewire_mx::status::{Accepted, PackedStatus, Quality};
use tidewire_mx::time::FileTime;
use tidewire_mx::value::{Element, Elements, Text, Value};
use tidewire_resp::Writer;

use crate::tags::{Tag, value_of};
use tidewire_fanout::write_json_text;

/// Bad: the first change has not arrived yet.
pub(crate) const QUALITY_WAITING: u16 = 32;
/// Bad: the link is lost, or the tag was silent for too long.
pub(crate) const QUALITY_LOST: u16 = 24;
/// Uncertain: the tag has been silent; the value is the last usable one.
pub(crate) const QUALITY_LAST_USABLE: u16 = 68;

/// Appends a value as GET returns it; returns false for an array.
pub(crate) fn write_bare(out: &mut Vec<u8>, value: &Value<'_>) -> bool {
    match value {
        Value::None => {}
        Value::Boolean(value) => out.push(b'0' + u8::from(*value)),
        Value::Int32(value) => write_integer(out, *value),
        Value::Float32(value) => write_float(out, f64::from(*value), value),
        Value::Float64(value) => write_float(out, *value, value),
        Value::String(text) => write_text(out, text),
        Value::DateTime(time) => write_time(out, *time),
        Value::Raw { kind, bytes } => write_raw(out, *kind, bytes),
        _ => return false,
    }
    true
}

/// Writes an array's elements as bulk strings; returns false for a value that is no array.
pub(crate) fn reply_elements(reply: &mut Writer<'_>, value: &Value<'_>) -> bool {
    match value {
        Value::BooleanArray(all) => reply_all(reply, all, |out, value| {
            out.push(b'0' + u8::from(value));
        }),
        Value::Int32Array(all) => reply_all(reply, all, write_integer),
        Value::Float32Array(all) => {
            reply_all(reply, all, |out, v| write_float(out, f64::from(v), &v));
        }
        Value::Float64Array(all) => reply_all(reply, all, |out, v| write_float(out, v, &v)),
        Value::DateTimeArray(all) => reply_all(reply, all, write_time),
        Value::StringArray(texts) => {
            reply.array(texts.len());
            let mut bytes = Vec::new();
            for text in texts.iter() {
                bytes.clear();
                write_text(&mut bytes, &text);
                reply.bulk(&bytes);
            }
        }
        _ => return false,
    }
    true
}

/// Appends a value as JSON. Numbers that JSON cannot represent become null.
pub(crate) fn write_json_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::None => out.extend_from_slice(b"null"),
        Value::Boolean(value) => write_json_boolean(out, *value),
        Value::Float32(value) => write_json_float(out, f64::from(*value), value),
        Value::Float64(value) => write_json_float(out, *value, value),
        Value::String(text) => write_json_string(out, text),
        Value::DateTime(time) => write_json_time(out, *time),
        Value::BooleanArray(all) => write_all(out, all.iter(), write_json_boolean),
        Value::Int32Array(all) => write_all(out, all.iter(), write_integer),
        Value::Float32Array(all) => write_all(out, all.iter(), |out, value| {
            write_json_float(out, f64::from(value), &value);
        }),
        Value::Float64Array(all) => write_all(out, all.iter(), |out, value| {
            write_json_float(out, value, &value);
        }),
        Value::DateTimeArray(all) => write_all(out, all.iter(), write_json_time),
        Value::StringArray(texts) => write_all(out, texts.iter(), |out, text| {
            write_json_string(out, &text);
        }),
        Value::Raw { .. } => {
            out.push(b'"');
            write_bare(out, value);
            out.push(b'"');
        }
        scalar => {
            write_bare(out, scalar);
        }
    }
}

/// Passes the fields of a tag to `fields`, as a Redis client sees them.
pub(crate) fn write_fields(tag: &Tag, state: &TagValue, fields: &mut dyn FnMut(&[u8], &[u8])) {
    let mut text = Vec::with_capacity(32);
    let value = value_of(state);
    if !write_bare(&mut text, &value) {
        write_json_value(&mut text, &value);
    }
    fields(b"value", &text);
    let mut next = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
        text.clear();
        write(&mut text);
        fields(name.as_bytes(), &text);
    };
    next("type", &|out| write_type(out, tag));
    next("quality", &|out| write_unsigned(out, state.quality.into()));
    next("quality_text", &|out| {
        out.extend_from_slice(quality_text(state.quality).as_bytes());
    });
    next("ts", &|out| write_source_time(out, state.source_time, b""));
    next("recv_ts", &|out| write_unsigned(out, state.receive_time_ns));
    next("status", &|out| write_status(out, state.status));
    next("seq", &|out| write_unsigned(out, state.sequence));
    next("stale", &|out| write_unsigned(out, state.stale.into()));
}

/// Appends a tag as JSON. `snapshot` marks a current value that replaces the updates before it.
pub(crate) fn write_json(out: &mut Vec<u8>, tag: &Tag, state: &TagValue, snapshot: bool) {
    out.extend_from_slice(b"{\"tag\":");
    write_json_text(out, tag.name().as_bytes());
    out.extend_from_slice(b",\"value\":");
    write_json_value(out, &value_of(state));
    out.extend_from_slice(b",\"type\":\"");
    write_type(out, tag);
    out.extend_from_slice(b"\",\"quality\":");
    write_unsigned(out, state.quality.into());
    out.extend_from_slice(b",\"quality_text\":\"");
    out.extend_from_slice(quality_text(state.quality).as_bytes());
    out.extend_from_slice(b"\",\"ts\":");
    write_source_time(out, state.source_time, b"null");
    out.extend_from_slice(b",\"recv_ts\":");
    write_unsigned(out, state.receive_time_ns);
    out.extend_from_slice(b",\"status\":\"");
    write_status(out, state.status);
    out.extend_from_slice(b"\",\"seq\":");
    write_unsigned(out, state.sequence);
    out.extend_from_slice(b",\"stale\":");
    write_unsigned(out, state.stale.into());
    if snapshot {
        out.extend_from_slice(b",\"snapshot\":true");
    }
    out.push(b'}');
}

/// Returns OPC's text for a quality.
fn quality_text(quality: u16) -> &'static str {
    match quality & 0xFC {
        0 => "bad",
        4 => "bad: configuration error",
        8 => "bad: not connected",
        12 => "bad: device failure",
        16 => "bad: sensor failure",
        20 => "bad: last known value",
        24 => "bad: communication failure",
        28 => "bad: out of service",
        32 => "bad: waiting for the first value",
        64 => "uncertain",
        68 => "uncertain: last usable value",
        80 => "uncertain: sensor not accurate",
        84 => "uncertain: engineering units exceeded",
        88 => "uncertain: sub-normal",
        192 => "good",
        216 => "good: local override",
        _ => Quality(quality).text(),
    }
}

fn write_type(out: &mut Vec<u8>, tag: &Tag) {
    let (data_type, is_array) = tag.data_type();
    out.extend_from_slice(data_type.name().as_bytes());
    if is_array {
        out.extend_from_slice(b"[]");
    }
}

fn write_status(out: &mut Vec<u8>, status: u32) {
    let _ = match PackedStatus(status).unpack().outcome() {
        Ok(Accepted::Plainly) => write!(out, "Ok"),
        Ok(Accepted::WithWarning(detail)) => write!(out, "Warning, detail {detail}"),
        // The plant has not reported a status yet.
        Err(_) if status == 0 => Ok(()),
        Err(error) => write!(out, "{error}"),
    };
}

/// Appends nanoseconds since the UNIX epoch; negative before it.
fn write_source_time(out: &mut Vec<u8>, ticks: i64, none: &[u8]) {
    if FileTime(ticks) == FileTime::NONE {
        return out.extend_from_slice(none);
    }
    let epoch = FileTime::from_unix_ns(0).0;
    let unix_ns = (i128::from(ticks) - i128::from(epoch)) * 100;
    out.extend_from_slice(itoa::Buffer::new().format(unix_ns).as_bytes());
}

fn write_integer(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the shortest digits that parse to the same number. `value` prints them; `wide` is the
/// same number.
fn write_float(
    out: &mut Vec<u8>,
    wide: f64,
    value: &(impl std::fmt::Display + std::fmt::LowerExp),
) {
    let magnitude = wide.abs();
    let _ = if wide.is_nan() {
        write!(out, "nan")
    } else if magnitude == 0.0 || !wide.is_finite() || (1e-5..1e16).contains(&magnitude) {
        write!(out, "{value}")
    } else {
        write!(out, "{value:e}")
    };
}

fn write_json_float(
    out: &mut Vec<u8>,
    wide: f64,
    value: &(impl std::fmt::Display + std::fmt::LowerExp),
) {
    match wide.is_finite() {
        true => write_float(out, wide, value),
        false => out.extend_from_slice(b"null"),
    }
}

fn write_json_boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Appends a time as RFC 3339, with a precision of 100 ns.
fn write_time(out: &mut Vec<u8>, time: FileTime) {
    let start = out.len();
    let _ = write!(out, "{time}");
    if out.ends_with(b" UTC") {
        out.truncate(out.len() - 4);
        out.push(b'Z');
        if let Some(blank) = out.get_mut(start + 10) {
            *blank = b'T';
        }
    }
}

fn write_json_time(out: &mut Vec<u8>, time: FileTime) {
    out.push(b'"');
    write_time(out, time);
    out.push(b'"');
}

fn write_text(out: &mut Vec<u8>, text: &Text<'_>) {
    let mut bytes = [0; 4];
    for character in text.chars() {
        out.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
    }
}

fn write_json_string(out: &mut Vec<u8>, text: &Text<'_>) {
    let mut plain = Vec::new();
    write_text(&mut plain, text);
    write_json_text(out, &plain);
}

/// Appends a value of unknown kind: the kind and the bytes.
fn write_raw(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    let _ = write!(out, "raw {kind:#04x}:");
    for byte in bytes {
        let _ = write!(out, " {byte:02x}");
    }
}

fn write_all<T>(
    out: &mut Vec<u8>,
    elements: impl Iterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (number, element) in elements.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write(out, element);
    }
    out.push(b']');
}

fn reply_all<T: Element>(
    reply: &mut Writer<'_>,
    elements: &Elements<'_, T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    reply.array(elements.len());
    let mut bytes = Vec::new();
    for element in elements.iter() {
        bytes.clear();
        write(&mut bytes, element);
        reply.bulk(&bytes);
    }
}

fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tags::TagBoard;
    use tidewire_lastvalue::TagStamp;
    use tidewire_mx::encode::Encode;
    use tidewire_mx::status::MxStatus;
    use tidewire_mx::value::{DataType, Texts};

    fn bare(value: Value<'_>) -> String {
        let mut out = Vec::new();
        assert!(write_bare(&mut out, &value));
        String::from_utf8(out).unwrap()
    }

    fn json(value: Value<'_>) -> String {
        let mut out = Vec::new();
        write_json_value(&mut out, &value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_have_the_fewest_digits_that_read_back() {
        assert_eq!(bare(Value::Float32(12.3)), "12.3");
        assert_eq!(bare(Value::Float64(0.1 + 0.2)), "0.30000000000000004");
        assert_eq!(bare(Value::Float64(5.0)), "5");
        assert_eq!(bare(Value::Float32(f32::MAX)), "3.4028235e38");
        assert_eq!(bare(Value::Float64(-2.5e-9)), "-2.5e-9");
        assert_eq!(bare(Value::Float64(f64::NEG_INFINITY)), "-inf");
        assert_eq!(json(Value::Float64(f64::NAN)), "null");
        assert_eq!(json(Value::Int32(i32::MIN)), "-2147483648");
        assert_eq!(json(Value::Boolean(true)), "true");
        assert_eq!(bare(Value::Boolean(false)), "0");
    }

    #[test]
    fn texts_times_and_arrays_in_both_forms() {
        let time = FileTime(133_479_324_001_234_567);
        assert_eq!(bare(Value::DateTime(time)), "2023-12-24T23:00:00.1234567Z");
        assert_eq!(json(Value::DateTime(FileTime(-1))), "\"FILETIME -1\"");
        assert_eq!(json(Value::text("a\"💧")), "\"a\\\"💧\"");
        assert_eq!(bare(Value::text("")), "");
        let texts = Texts::new(&["x", ""]);
        assert_eq!(json(Value::StringArray(texts)), "[\"x\",\"\"]");
        let floats = [1.5, f64::INFINITY];
        let array = Value::Float64Array(Elements::new(&floats));
        assert_eq!(json(array), "[1.5,null]");
        assert!(!write_bare(&mut Vec::new(), &array));
        let raw = Value::Raw {
            kind: 0x55,
            bytes: &[1, 0xAB],
        };
        assert_eq!(json(raw), "\"raw 0x55: 01 ab\"");
    }

    #[test]
    fn a_tag_is_shown_with_its_quality_times_and_status() {
        let tag = TagBoard::new(1, 1).define("Tank1.Level").unwrap();
        tag.set_data_type(DataType::Float, false);
        let stamp = TagStamp {
            quality: 192,
            status: MxStatus::OK.pack().0,
            source_time: FileTime::from_unix_ns(1_000).0 - 20,
            receive_time_ns: 5,
            sequence: 9,
            ..TagStamp::default()
        };
        let value = Value::Float32(1.5);
        tag.slot
            .store(value.wire_kind(), &value.encode().unwrap(), stamp);
        let mut out = Vec::new();
        write_json(&mut out, &tag, &tag.state(), true);
        let expected = "{\"tag\":\"Tank1.Level\",\"value\":1.5,\"type\":\"Float\",\"quality\":192,\
                        \"quality_text\":\"good\",\"ts\":-1000,\"recv_ts\":5,\"status\":\"Ok\",\
                        \"seq\":9,\"stale\":0,\"snapshot\":true}";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut names = Vec::new();
        write_fields(&tag, &tag.state(), &mut |name, value| {
            names.push(format!(
                "{}={}",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value)
            ));
        });
        let expected = "value=1.5 type=Float quality=192 quality_text=good ts=-1000 recv_ts=5 \
                        status=Ok seq=9 stale=0";
        assert_eq!(names.join(" "), expected);
    }
}
