//! `cjson`: JSON encoding and decoding.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Result, Table, Value};

use super::{bad_argument, fail, format_number, number, text, type_name};
use crate::watch::Meter;

/// Settings that scripts can change; they last as long as the Lua state.
#[derive(Clone, Copy, Debug)]
struct Settings {
    converts_sparse: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth_max: i64,
    decode_depth_max: i64,
    precision: i64,
    keeps_buffer: bool,
    encodes_invalid: Invalid,
    decodes_invalid: bool,
}

/// How numbers that JSON cannot represent are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1_000,
            decode_depth_max: 1_000,
            precision: 14,
            keeps_buffer: true,
            encodes_invalid: Invalid::Refused,
            decodes_invalid: true,
        }
    }
}

type Shared = Rc<RefCell<Settings>>;

pub(crate) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let settings = Shared::default();
    let own = settings.clone();
    let encode =
        lua.create_function(move |lua, values: MultiValue| encode(lua, &values, *own.borrow()))?;
    table.raw_set("encode", encode)?;
    let own = settings.clone();
    let decode =
        lua.create_function(move |lua, values: MultiValue| decode(lua, &values, *own.borrow()))?;
    table.raw_set("decode", decode)?;
    add_settings(lua, &table, &settings)?;
    table.raw_set("new", lua.create_function(|lua, ()| library(lua))?)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn add_settings(lua: &Lua, table: &Table, settings: &Shared) -> Result<()> {
    let own = settings.clone();
    let sparse = lua.create_function(move |lua, values: MultiValue| {
        let (name, mut own) = ("encode_sparse_array", own.borrow_mut());
        set_truth(lua, name, &values, &mut own.converts_sparse)?;
        set_integer(lua, name, &values, 2, &mut own.sparse_ratio, 0, INT_MAX)?;
        set_integer(lua, name, &values, 3, &mut own.sparse_safe, 0, INT_MAX)?;
        Ok((own.converts_sparse, own.sparse_ratio, own.sparse_safe))
    })?;
    table.raw_set("encode_sparse_array", sparse)?;
    type Field = fn(&mut Settings) -> &mut i64;
    let integers: [(&'static str, Field, i64, i64); 3] = [
        (
            "encode_max_depth",
            |own| &mut own.encode_depth_max,
            1,
            INT_MAX,
        ),
        (
            "decode_max_depth",
            |own| &mut own.decode_depth_max,
            1,
            INT_MAX,
        ),
        ("encode_number_precision", |own| &mut own.precision, 1, 14),
    ];
    for (name, field, min, max) in integers {
        let own = settings.clone();
        let function = lua.create_function(move |lua, values: MultiValue| {
            let mut own = own.borrow_mut();
            set_integer(lua, name, &values, 1, field(&mut own), min, max)?;
            Ok(*field(&mut own))
        })?;
        table.raw_set(name, function)?;
    }
    type Truth = fn(&mut Settings) -> &mut bool;
    let truths: [(&'static str, Truth); 2] = [
        ("encode_keep_buffer", |own| &mut own.keeps_buffer),
        ("decode_invalid_numbers", |own| &mut own.decodes_invalid),
    ];
    for (name, field) in truths {
        let own = settings.clone();
        let function = lua.create_function(move |lua, values: MultiValue| {
            let mut own = own.borrow_mut();
            set_truth(lua, name, &values, field(&mut own))?;
            Ok(*field(&mut own))
        })?;
        table.raw_set(name, function)?;
    }
    let own = settings.clone();
    let invalid = lua.create_function(move |lua, values: MultiValue| {
        set_invalid(lua, &values, &mut own.borrow_mut().encodes_invalid)
    })?;
    table.raw_set("encode_invalid_numbers", invalid)
}

fn set_integer(
    lua: &Lua,
    name: &str,
    values: &MultiValue,
    position: usize,
    setting: &mut i64,
    min: i64,
    max: i64,
) -> Result<()> {
    if matches!(values.get(position - 1), None | Some(Value::Nil)) {
        return Ok(());
    }
    let value = number(lua, name, values, position)? as i64;
    if !(min..=max).contains(&value) {
        let text = format!("expected integer between {min} and {max}");
        return Err(bad_argument(lua, name, 1, &text));
    }
    *setting = value;
    Ok(())
}

fn set_truth(lua: &Lua, name: &str, values: &MultiValue, setting: &mut bool) -> Result<()> {
    match values.front() {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(truth)) => *setting = *truth,
        Some(_) => {
            let word = text(lua, name, values, 1)?;
            *setting = match &*word.as_bytes() {
                b"on" => true,
                b"off" => false,
                other => return Err(invalid_option(lua, name, other)),
            };
        }
    }
    Ok(())
}

fn set_invalid(lua: &Lua, values: &MultiValue, setting: &mut Invalid) -> Result<Value> {
    let name = "encode_invalid_numbers";
    match values.front() {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(false)) => *setting = Invalid::Refused,
        Some(Value::Boolean(true)) => *setting = Invalid::Written,
        Some(_) => {
            let word = text(lua, name, values, 1)?;
            *setting = match &*word.as_bytes() {
                b"off" => Invalid::Refused,
                b"on" => Invalid::Written,
                b"null" => Invalid::Null,
                other => return Err(invalid_option(lua, name, other)),
            };
        }
    }
    match *setting {
        Invalid::Null => Ok(Value::String(lua.create_string("null")?)),
        other => Ok(Value::Boolean(other == Invalid::Written)),
    }
}

fn invalid_option(lua: &Lua, name: &str, option: &[u8]) -> mlua::Error {
    let text = format!("invalid option '{}'", String::from_utf8_lossy(option));
    bad_argument(lua, name, 1, &text)
}

fn encode(lua: &Lua, values: &MultiValue, settings: Settings) -> Result<mlua::LuaString> {
    if values.len() != 1 {
        return Err(bad_argument(lua, "encode", 1, "expected 1 argument"));
    }
    let mut encoder = Encoder {
        lua,
        settings,
        out: Vec::new(),
        meter: Meter::new(lua),
    };
    encoder.value(&values[0], 0)?;
    lua.create_string(encoder.out)
}

struct Encoder<'a> {
    lua: &'a Lua,
    settings: Settings,
    out: Vec<u8>,
    meter: Meter<'a>,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, depth: i64) -> Result<()> {
        self.meter.tick()?;
        match value {
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(token) if token.0.is_null() => {
                self.out.extend_from_slice(b"null");
            }
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(self.refusal(other, "type not supported")),
        }
        Ok(())
    }

    fn refusal(&self, value: &Value, reason: &str) -> mlua::Error {
        let text = format!("Cannot serialise {}: {reason}", type_name(value));
        fail(self.lua, text)
    }

    fn table(&mut self, table: &Table, depth: i64) -> Result<()> {
        if depth > self.settings.encode_depth_max.min(DEPTH_MAX) {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(fail(self.lua, text));
        }
        // Two passes: the first one determines the kind of table. Handles to all values at once
        // would be too many.
        let (mut items, mut max, mut is_array) = (0i64, 0, true);
        let meter = &mut self.meter;
        for_each(table, depth, |key, _| {
            match key {
                Value::Integer(number @ 1..=INT_MAX) => max = max.max(number),
                _ => is_array = false,
            }
            items += 1;
            meter.tick()
        })?;
        let settings = self.settings;
        let ratio = settings.sparse_ratio;
        let sparse = ratio > 0 && max > items.saturating_mul(ratio) && max > settings.sparse_safe;
        if is_array && sparse && !settings.converts_sparse {
            let table = Value::Table(table.clone());
            return Err(self.refusal(&table, "excessively sparse array"));
        }
        match is_array && max > 0 && !sparse {
            true => self.array(table, max, depth),
            false => self.object(table, depth),
        }
    }

    fn array(&mut self, table: &Table, max: i64, depth: i64) -> Result<()> {
        self.out.push(b'[');
        for index in 1..=max {
            if index > 1 {
                self.out.push(b',');
            }
            let value: Value = table.raw_get(index)?;
            self.value(&value, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i64) -> Result<()> {
        self.out.push(b'{');
        let mut is_first = true;
        for_each(table, depth, |key, value| {
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => self.text(&text.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.value(&key, depth)?;
                    self.out.push(b'"');
                }
                other => {
                    let reason = "table key must be a number or string";
                    return Err(self.refusal(other, reason));
                }
            }
            self.out.push(b':');
            self.value(&value, depth)
        })?;
        self.out.push(b'}');
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<()> {
        if !number.is_finite() {
            match self.settings.encodes_invalid {
                Invalid::Refused => {
                    let reason = "must not be NaN or Inf";
                    return Err(self.refusal(&Value::Number(number), reason));
                }
                Invalid::Null => {
                    self.out.extend_from_slice(b"null");
                    return Ok(());
                }
                Invalid::Written => {}
            }
        }
        let text = format_number(number, self.settings.precision as usize);
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn text(&mut self, text: &[u8]) {
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        for &byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend_from_slice(&[b'\\', byte]),
                8 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0..32 | 127 => {
                    let escape = format!("\\u{byte:04x}");
                    self.out.extend_from_slice(escape.as_bytes());
                }
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'"');
    }
}

/// Passes each pair of a table to a function. The fast path is a single Lua call for all pairs. The
/// function runs within that call, and Lua refuses more than about 200 nested calls.
fn for_each(
    table: &Table,
    depth: i64,
    mut each: impl FnMut(Value, Value) -> Result<()>,
) -> Result<()> {
    if depth <= QUICK_DEPTH_MAX {
        return table.for_each(each);
    }
    for pair in table.pairs() {
        let (key, value) = pair?;
        each(key, value)?;
    }
    Ok(())
}

fn decode(lua: &Lua, values: &MultiValue, settings: Settings) -> Result<Value> {
    if values.len() != 1 {
        return Err(bad_argument(lua, "decode", 1, "expected 1 argument"));
    }
    let input = text(lua, "decode", values, 1)?;
    let input = input.as_bytes();
    if input.len() >= 2 && (input[0] == 0 || input[1] == 0) {
        return Err(fail(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder {
        lua,
        settings,
        input: &input,
        at: 0,
        token_at: 0,
        depth: 0,
        meter: Meter::new(lua),
    };
    let token = decoder.next()?;
    let value = decoder.value(token)?;
    match decoder.next()? {
        Token::End => Ok(value),
        other => Err(decoder.unexpected("the end", &other)),
    }
}

/// A token of a JSON text.
#[derive(Debug)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Broken(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Broken(text) => text,
        }
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    settings: Settings,
    input: &'a [u8],
    at: usize,
    token_at: usize,
    depth: i64,
    meter: Meter<'a>,
}

impl Decoder<'_> {
    fn value(&mut self, token: Token) -> Result<Value> {
        self.meter.tick()?;
        match token {
            Token::Text(text) => self.lua.create_string(text).map(Value::String),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Boolean(truth) => Ok(Value::Boolean(truth)),
            Token::Null => Ok(Value::NULL),
            Token::ObjectBegin => self.object(),
            Token::ArrayBegin => self.array(),
            other => Err(self.unexpected("value", &other)),
        }
    }

    fn unexpected(&self, wanted: &str, token: &Token) -> mlua::Error {
        let text = format!(
            "Expected {wanted} but found {} at character {}",
            token.name(),
            self.token_at + 1
        );
        fail(self.lua, text)
    }

    fn descend(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > self.settings.decode_depth_max.min(DEPTH_MAX) {
            let text = format!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at
            );
            return Err(fail(self.lua, text));
        }
        Ok(())
    }

    fn object(&mut self) -> Result<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if !matches!(token, Token::ObjectEnd) {
            loop {
                let Token::Text(key) = token else {
                    return Err(self.unexpected("object key string", &token));
                };
                match self.next()? {
                    Token::Colon => {}
                    other => return Err(self.unexpected("colon", &other)),
                }
                let first = self.next()?;
                let value = self.value(first)?;
                table.raw_set(self.lua.create_string(key)?, value)?;
                match self.next()? {
                    Token::ObjectEnd => break,
                    Token::Comma => token = self.next()?,
                    other => return Err(self.unexpected("comma or object end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> Result<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if !matches!(token, Token::ArrayEnd) {
            for index in 1.. {
                let value = self.value(token)?;
                table.raw_set(index, value)?;
                match self.next()? {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.next()?,
                    other => return Err(self.unexpected("comma or array end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.input.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn next(&mut self) -> Result<Token> {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        let single = match self.peek(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return Ok(Token::End),
            _ => return Ok(self.long_token()),
        };
        self.at += 1;
        Ok(single)
    }

    fn long_token(&mut self) -> Token {
        let rest = &self.input[self.at..];
        let words = [
            ("true", Token::Boolean(true)),
            ("false", Token::Boolean(false)),
            ("null", Token::Null),
        ];
        match rest[0] {
            b'"' => return self.text(),
            b'-' | b'0'..=b'9' if self.settings.decodes_invalid || !self.is_invalid() => {
                return self.number();
            }
            b'-' | b'0'..=b'9' => return Token::Broken("invalid number"),
            _ => {}
        }
        for (word, token) in words {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        if self.settings.decodes_invalid && self.is_invalid() {
            return self.number();
        }
        Token::Broken("invalid token")
    }

    /// Returns whether a number is not valid JSON, even if other parsers accept it.
    fn is_invalid(&self) -> bool {
        let rest = &self.input[self.at..];
        if rest[0] == b'+' {
            return true;
        }
        let rest = rest.strip_prefix(b"-").unwrap_or(rest);
        match (rest.first(), rest.get(1)) {
            (Some(b'0'), Some(b'x' | b'X' | b'0'..=b'9')) => true,
            (Some(..=b'9'), _) => false,
            _ => {
                let word = rest.get(..3).unwrap_or_default();
                word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
            }
        }
    }

    fn number(&mut self) -> Token {
        let (number, length) = read_number(&self.input[self.at..]);
        if length == 0 {
            return Token::Broken("invalid number");
        }
        self.at += length;
        Token::Number(number)
    }

    fn text(&mut self) -> Token {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let plain = self.input[self.at..]
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0));
            let end = plain.map_or(self.input.len(), |length| self.at + length);
            text.extend_from_slice(&self.input[self.at..end]);
            self.at = end;
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return Token::Text(text);
                }
                b'\\' => {}
                _ => return Token::Broken("unexpected end of string"),
            }
            let byte = match self.peek(1) {
                byte @ (b'"' | b'\\' | b'/') => byte,
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'u' => {
                    let Some((character, length)) = self.escape() else {
                        return Token::Broken("invalid unicode escape code");
                    };
                    let mut buffer = [0; 4];
                    text.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                    self.at += length;
                    continue;
                }
                _ => return Token::Broken("invalid escape code"),
            };
            text.push(byte);
            self.at += 2;
        }
    }

    /// Parses the character of a `\u` escape, or of a pair of them. Returns it and its length.
    fn escape(&self) -> Option<(char, usize)> {
        let unit = |from: usize| {
            let digits = self.input.get(self.at + from..self.at + from + 6)?;
            let digits = digits.strip_prefix(b"\\u")?;
            digits.iter().try_fold(0, |number: u32, digit| {
                Some(number << 4 | char::from(*digit).to_digit(16)?)
            })
        };
        match unit(0)? {
            high @ 0xD800..0xDC00 => match unit(6)? {
                low @ 0xDC00..0xE000 => {
                    let code = 0x1_0000 + ((high & 0x3FF) << 10 | low & 0x3FF);
                    Some((char::from_u32(code)?, 12))
                }
                _ => None,
            },
            code => Some((char::from_u32(code)?, 6)),
        }
    }
}

/// Parses the number at the start of a text, in any form that C accepts. Returns it and its length;
/// 0 if there is none.
fn read_number(text: &[u8]) -> (f64, usize) {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let factor = if text.first() == Some(&b'-') {
        -1.0
    } else {
        1.0
    };
    let rest = &text[sign..];
    let starts = |word: &[u8]| {
        rest.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if starts(b"infinity") || starts(b"inf") {
        let length = if starts(b"infinity") { 8 } else { 3 };
        return (factor * f64::INFINITY, sign + length);
    } else if starts(b"nan") {
        return (f64::NAN, sign + 3);
    } else if starts(b"0x") {
        let digits = rest[2..].iter().take_while(|byte| byte.is_ascii_hexdigit());
        let number = digits.clone().fold(0.0, |number, digit| {
            number * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0))
        });
        return match digits.count() {
            0 => (0.0 * factor, sign + 1),
            count => (factor * number, sign + 2 + count),
        };
    }
    let digits = |from: usize| {
        let rest = rest.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut length = digits(0);
    let mut count = length;
    if rest.get(length) == Some(&b'.') {
        let decimals = digits(length + 1);
        count += decimals;
        length += 1 + decimals;
    }
    if count == 0 {
        return (0.0, 0);
    }
    if let Some(b'e' | b'E') = rest.get(length) {
        let sign = usize::from(matches!(rest.get(length + 1), Some(b'-' | b'+')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    let number = std::str::from_utf8(&rest[..length]).ok();
    let number = number.and_then(|number| number.parse::<f64>().ok());
    (factor * number.unwrap_or(0.0), sign + length)
}

const INT_MAX: i64 = i32::MAX as i64;
/// Maximum nesting depth of tables under any setting: each level uses some of the thread's stack.
const DEPTH_MAX: i64 = 1_000;
/// Maximum nesting depth for the fast path.
const QUICK_DEPTH_MAX: i64 = 50;
