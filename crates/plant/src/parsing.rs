//! Converts a client's text to a value of a tag's type.

use std::fmt;

use tidewire_mx::value::{DataType, OwnedValue};

/// Why text is not a value of a type: the client's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParseError {
    /// Attributes of this type cannot be written.
    NotWritable(DataType, bool),
    /// The text, shown up to a limit, is not a value of the type.
    Invalid(DataType, bool, String),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWritable(data_type, is_array) => {
                let array = if *is_array { "[]" } else { "" };
                let name = data_type.name();
                write!(f, "an attribute of type {name}{array} cannot be written")
            }
            Self::Invalid(data_type, is_array, text) => {
                let expected = expected(*data_type);
                match is_array {
                    true => write!(f, "a JSON array is expected, each element {expected}")?,
                    false => write!(f, "{expected} is expected")?,
                }
                write!(f, ", not '{text}'")
            }
        }
    }
}

/// Parses `text` as a value for an attribute of this type.
pub(crate) fn parse(
    data_type: DataType,
    is_array: bool,
    text: &[u8],
) -> Result<OwnedValue, ParseError> {
    if data_type.wire_kind(is_array).is_none() {
        return Err(ParseError::NotWritable(data_type, is_array));
    }
    let invalid = || ParseError::Invalid(data_type, is_array, excerpt(text));
    let text = std::str::from_utf8(text).map_err(|_| invalid())?;
    let value = match is_array {
        true => elements(text).and_then(|all| array(data_type, &all)),
        false => scalar(data_type, text),
    };
    value.ok_or_else(invalid)
}

fn expected(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "true, false, 1 or 0",
        DataType::Integer => "a whole number of 32 bits",
        DataType::ElapsedTime => "a whole number of ms, of 32 bits",
        DataType::Float => "a number of single precision",
        DataType::Double => "a number",
        DataType::Time => "a time such as 2026-11-22T06:30:00Z",
        _ => "a text of UTF-8",
    }
}

fn scalar(data_type: DataType, text: &str) -> Option<OwnedValue> {
    Some(match data_type {
        DataType::Boolean => OwnedValue::Boolean(boolean(text)?),
        DataType::Integer | DataType::ElapsedTime => OwnedValue::Int32(text.parse().ok()?),
        DataType::Float => OwnedValue::Float32(single(text)?),
        DataType::Double => OwnedValue::Float64(double(text)?),
        DataType::String | DataType::InternationalizedString => OwnedValue::String(text.to_owned()),
        DataType::Time => OwnedValue::DateTime(text.parse().ok()?),
        _ => return None,
    })
}

fn array(data_type: DataType, all: &[ArrayItem<'_>]) -> Option<OwnedValue> {
    Some(match data_type {
        DataType::Boolean => OwnedValue::Booleans(each(all, |item| boolean(item.bare()?))?),
        DataType::Integer => OwnedValue::Int32s(each(all, |item| item.bare()?.parse().ok())?),
        DataType::Float => OwnedValue::Float32s(each(all, |item| single(item.bare()?))?),
        DataType::Double => OwnedValue::Float64s(each(all, |item| double(item.bare()?))?),
        DataType::String => {
            OwnedValue::Strings(each(all, |item| item.quoted().map(str::to_owned))?)
        }
        DataType::Time => OwnedValue::DateTimes(each(all, |item| item.quoted()?.parse().ok())?),
        _ => return None,
    })
}

fn each<T>(all: &[ArrayItem<'_>], read: impl Fn(&ArrayItem<'_>) -> Option<T>) -> Option<Vec<T>> {
    all.iter().map(read).collect()
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Parses a finite number: plants do not accept infinity or NaN.
fn double(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

fn single(text: &str) -> Option<f32> {
    text.parse::<f32>().ok().filter(|value| value.is_finite())
}

/// An element of a JSON array.
#[derive(Debug, PartialEq)]
enum ArrayItem<'a> {
    Bare(&'a str),
    Quoted(String),
}

impl<'a> ArrayItem<'a> {
    fn bare(&self) -> Option<&'a str> {
        match self {
            Self::Bare(text) => Some(text),
            Self::Quoted(_) => None,
        }
    }

    fn quoted(&self) -> Option<&str> {
        match self {
            Self::Quoted(text) => Some(text),
            Self::Bare(_) => None,
        }
    }
}

/// Splits a JSON array of strings, numbers and Booleans into its elements.
fn elements(text: &str) -> Option<Vec<ArrayItem<'_>>> {
    let mut rest = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    let mut all = Vec::new();
    if rest.is_empty() {
        return Some(all);
    }
    loop {
        if all.len() > usize::from(u16::MAX) {
            return None;
        }
        let (item, after) = match rest.strip_prefix('"') {
            Some(body) => {
                let (text, after) = quoted(body)?;
                (ArrayItem::Quoted(text), after.trim_start())
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (ArrayItem::Bare(rest[..end].trim()), &rest[end..])
            }
        };
        all.push(item);
        match after.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if after.is_empty() => return Some(all),
            None => return None,
        }
    }
}

/// Returns the text up to the closing quotation mark, and the rest.
fn quoted(body: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut rest = body;
    loop {
        let special = rest.find(['"', '\\'])?;
        text.push_str(&rest[..special]);
        let is_end = rest.as_bytes()[special] == b'"';
        rest = &rest[special + 1..];
        if is_end {
            return Some((text, rest));
        }
        let (character, after) = escaped(rest)?;
        text.push(character);
        rest = after;
    }
}

fn escaped(rest: &str) -> Option<(char, &str)> {
    let character = match rest.chars().next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => return unicode(rest),
        other @ ('"' | '\\' | '/') => other,
        _ => return None,
    };
    Some((character, &rest[1..]))
}

/// Parses `u` and four hexadecimal digits, or two of them for a surrogate pair.
fn unicode(rest: &str) -> Option<(char, &str)> {
    let unit = |text: &str| u16::from_str_radix(text.get(1..5)?, 16).ok();
    let first = unit(rest)?;
    let after = rest.get(5..)?;
    let second = after
        .strip_prefix('\\')
        .filter(|next| next.starts_with('u'));
    if let (0xD800..0xDC00, Some(next)) = (first, second) {
        let character = char::decode_utf16([first, unit(next)?]).next()?.ok()?;
        return Some((character, next.get(5..)?));
    }
    Some((char::from_u32(first.into())?, after))
}

fn excerpt(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(EXCERPT_BYTES)]);
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// Maximum bytes of an invalid text shown in an error.
const EXCERPT_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Boolean, Double, Enum, Float, Integer, String as Str, Time};

    fn read(data_type: DataType, is_array: bool, text: &str) -> Option<OwnedValue> {
        parse(data_type, is_array, text.as_bytes()).ok()
    }

    #[test]
    fn scalars_are_read_as_their_type_or_not_at_all() {
        assert_eq!(
            read(Boolean, false, "TRUE"),
            Some(OwnedValue::Boolean(true))
        );
        assert_eq!(read(Boolean, false, "0"), Some(OwnedValue::Boolean(false)));
        assert_eq!(read(Boolean, false, "2"), None);
        assert_eq!(read(Integer, false, "-7"), Some(OwnedValue::Int32(-7)));
        assert_eq!(read(Integer, false, "2147483648"), None);
        assert_eq!(read(Integer, false, "5.0"), None);
        assert_eq!(read(Float, false, "1e3"), Some(OwnedValue::Float32(1e3)));
        assert_eq!(read(Float, false, "1e39"), None);
        assert_eq!(read(Double, false, "1e39"), Some(OwnedValue::Float64(1e39)));
        for text in ["nan", "inf", "", " 5", "5 "] {
            assert_eq!(read(Double, false, text), None, "{text}");
        }
        assert_eq!(
            read(Str, false, " x"),
            Some(OwnedValue::String(" x".into()))
        );
        assert!(read(Time, false, "2026-11-22T06:30:00Z").is_some());
        assert_eq!(read(Time, false, "yesterday"), None);
        let error = parse(Enum, false, b"1").unwrap_err();
        assert!(error.to_string().contains("type Enum cannot be written"));
        let error = parse(Double, true, b"[1,\xFF]").unwrap_err();
        assert!(error.to_string().contains("a JSON array is expected"));
    }

    #[test]
    fn arrays_are_read_as_json() {
        let numbers = OwnedValue::Float64s(vec![1.0, -2.5]);
        assert_eq!(read(Double, true, " [ 1 , -2.5 ] "), Some(numbers));
        assert_eq!(read(Integer, true, "[]"), Some(OwnedValue::Int32s(vec![])));
        let texts = ["a,\"]", "\u{1F4A7}\n", ""].map(str::to_owned).to_vec();
        let json = r#"["a,\"]", "\ud83d\udca7\n" ,""]"#;
        assert_eq!(read(Str, true, json), Some(OwnedValue::Strings(texts)));
        for json in [
            "1",
            "[1",
            "[1,]",
            "[,1]",
            "[\"1\"]",
            "[1]]",
            "[[1]]",
            "[1 2]",
            "[\"\\ud83d\"]",
            "[\"\\x\"]",
            "[\"a\" \"b\"]",
            "[\"\\u12",
            "[\"\\ud83d\\u00\"]",
        ] {
            assert_eq!(read(Integer, true, json), None, "{json}");
            assert_eq!(
                read(Str, true, json).filter(|_| json != "[\"1\"]"),
                None,
                "{json}"
            );
        }
        let many = format!("[{}1]", "1,".repeat(70_000));
        assert_eq!(read(Integer, true, &many), None);
    }
}
