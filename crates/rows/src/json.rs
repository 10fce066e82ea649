//! A strict parser of JSON (RFC 8259) that finds the parts of a text without building them.

use std::borrow::Cow;

/// A text that is not JSON, or nests deeper than [`DEPTH_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson;

/// The bytes that stand for themselves in a string: ASCII without `"`, `\` and control characters.
const IS_PLAIN: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0x20);
    while byte < 0x80 {
        table[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    table
};
/// Maximum depth of nested arrays and objects.
pub const DEPTH_MAX: usize = 64;

/// Reads one JSON text from its beginning.
#[derive(Clone, Debug)]
pub struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Scanner<'t> {
    /// Begins with the first byte of a text.
    pub fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Skips white space and returns the next byte.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Skips white space and takes this byte.
    ///
    /// # Errors
    /// Another byte follows, or none.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.at += 1;
        Ok(())
    }

    /// Takes this byte if it is the next one.
    #[inline]
    pub fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Ends the text.
    ///
    /// # Errors
    /// Something but white space follows.
    pub fn end(&mut self) -> Result<(), NotJson> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(NotJson),
        }
    }

    /// Takes a value. Returns its text.
    ///
    /// # Errors
    /// What follows is not a value.
    #[inline]
    pub fn value(&mut self) -> Result<&'t [u8], NotJson> {
        self.peek();
        let start = self.at;
        self.skip_value(0)?;
        Ok(&self.text[start..self.at])
    }

    /// Takes a string. Returns its text with the quotation marks.
    ///
    /// # Errors
    /// What follows is not a string.
    #[inline]
    pub fn string(&mut self) -> Result<&'t [u8], NotJson> {
        self.expect(b'"')?;
        let start = self.at - 1;
        let mut is_ascii = true;
        loop {
            let rest = self.text.get(self.at..).ok_or(NotJson)?;
            let plain = rest.iter().take_while(|byte| IS_PLAIN[usize::from(**byte)]);
            self.at += plain.count();
            let byte = *self.text.get(self.at).ok_or(NotJson)?;
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => self.escape()?,
                0..0x20 => return Err(NotJson),
                0x80.. => is_ascii = false,
                _ => {}
            }
        }
        let text = &self.text[start..self.at];
        match is_ascii || std::str::from_utf8(text).is_ok() {
            true => Ok(text),
            false => Err(NotJson),
        }
    }

    /// Takes the rest of an escape sequence. A surrogate must have its other half.
    fn escape(&mut self) -> Result<(), NotJson> {
        let byte = *self.text.get(self.at).ok_or(NotJson)?;
        self.at += 1;
        if byte != b'u' {
            return match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
                _ => Err(NotJson),
            };
        }
        match self.hexadecimal()? {
            0xd800..0xdc00 => {
                let has_low = self.text[self.at..].starts_with(b"\\u");
                self.at += 2;
                match has_low && (0xdc00..0xe000).contains(&self.hexadecimal()?) {
                    true => Ok(()),
                    false => Err(NotJson),
                }
            }
            0xdc00..0xe000 => Err(NotJson),
            _ => Ok(()),
        }
    }

    fn hexadecimal(&mut self) -> Result<u32, NotJson> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(NotJson)?;
        self.at += 4;
        digits.iter().try_fold(0, |value, &digit| {
            let digit = char::from(digit).to_digit(16).ok_or(NotJson)?;
            Ok(value << 4 | digit)
        })
    }

    fn skip_value(&mut self, depth: usize) -> Result<(), NotJson> {
        match self.peek().ok_or(NotJson)? {
            b'"' => self.string().map(drop),
            b'{' if depth < DEPTH_MAX => {
                self.at += 1;
                self.members(|scanner, _| scanner.skip_value(depth + 1))
            }
            b'[' if depth < DEPTH_MAX => {
                self.at += 1;
                self.elements(|scanner| scanner.skip_value(depth + 1))
            }
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(NotJson),
        }
    }

    /// Takes the members of an object behind its `{`, up to its `}`. `value` takes each value; it
    /// gets the text of the name.
    ///
    /// # Errors
    /// What follows is not the rest of an object, or `value` fails.
    pub fn members(
        &mut self,
        mut value: impl FnMut(&mut Self, &'t [u8]) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        if self.takes(b'}') {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            value(self, name)?;
            if self.takes(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Takes the elements of an array behind its `[`, up to its `]`. `element` takes each.
    ///
    /// # Errors
    /// What follows is not the rest of an array, or `element` fails.
    pub fn elements(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if self.takes(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), NotJson> {
        match self.text[self.at..].starts_with(word) {
            true => {
                self.at += word.len();
                Ok(())
            }
            false => Err(NotJson),
        }
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let rest = &self.text[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        match count {
            0 => Err(NotJson),
            _ => Ok(()),
        }
    }

    fn number(&mut self) -> Result<(), NotJson> {
        let next = |scanner: &Self| scanner.text.get(scanner.at).copied();
        self.at += usize::from(next(self) == Some(b'-'));
        match next(self) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if next(self) == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(next(self), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(next(self), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }
}

/// Returns whether a text is one JSON value.
pub fn is_json(text: &[u8]) -> bool {
    let mut scanner = Scanner::new(text);
    scanner.value().is_ok() && scanner.end().is_ok()
}

/// Returns the text of a JSON string, from its form with quotation marks, which must be valid.
pub fn text_of(quoted: &[u8]) -> Vec<u8> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1));
    let inner = inner.unwrap_or_default();
    if !inner.contains(&b'\\') {
        return inner.to_vec();
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while let Some(&byte) = inner.get(at) {
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let escaped = inner.get(at).copied().unwrap_or(b'\\');
        at += 1;
        match escaped {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let unit = unit_at(inner, at);
                at += 4;
                let mut code = unit;
                if (0xd800..0xdc00).contains(&unit) {
                    let low = unit_at(inner, at + 2);
                    at += 6;
                    code = 0x10000 + ((unit - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff);
                }
                let one = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(one.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => out.push(other),
        }
    }
    out
}

fn unit_at(text: &[u8], at: usize) -> u32 {
    let digits = text.get(at..at + 4).unwrap_or_default();
    let digits = digits
        .iter()
        .filter_map(|digit| char::from(*digit).to_digit(16));
    digits.fold(0, |value, digit| value << 4 | digit)
}

/// Appends a text as a JSON string. A text that is not UTF-8, and one that begins with `base64:`,
/// is written as `base64:` and its Base64 form, as in docs/live-topics.md. So every text has
/// exactly one form, and no two texts have the same one.
pub fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    match std::str::from_utf8(text) {
        Ok(text) if !text.starts_with(ENCODED) => write_escaped(out, text),
        _ => {
            out.extend_from_slice(ENCODED.as_bytes());
            write_base64(out, text);
        }
    }
    out.push(b'"');
}

/// Returns a JSON string, with quotation marks, in the one form of its text: with no escape that it
/// does not need.
pub(crate) fn plain_string(quoted: &[u8]) -> Cow<'_, [u8]> {
    if !quoted.contains(&b'\\') {
        return Cow::Borrowed(quoted);
    }
    let mut out = vec![b'"'];
    write_escaped(&mut out, &String::from_utf8_lossy(&text_of(quoted)));
    out.push(b'"');
    match out == quoted {
        true => Cow::Borrowed(quoted),
        false => Cow::Owned(out),
    }
}

fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[written..at]);
        written = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&bytes[written..]);
}

fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = |at: usize| DIGITS[(word >> (18 - 6 * at)) as usize & 63];
        for at in 0..4 {
            out.push(if at <= group.len() { digit(at) } else { b'=' });
        }
    }
}

/// Returns the bytes of a text that a page has sent: what follows `base64:` is decoded.
///
/// # Errors
/// The text begins with `base64:`, and the rest is not padded Base64.
pub fn decode_text(text: Vec<u8>) -> Result<Vec<u8>, NotJson> {
    match text.strip_prefix(ENCODED.as_bytes()) {
        None => Ok(text),
        Some(encoded) => decode_base64(encoded).ok_or(NotJson),
    }
}

/// Decodes padded Base64.
pub fn decode_base64(encoded: &[u8]) -> Option<Vec<u8>> {
    if !encoded.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(encoded.len() / 4 * 3);
    let groups = encoded.len() / 4;
    for (number, group) in encoded.chunks(4).enumerate() {
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || padding > 0 && number + 1 < groups {
            return None;
        }
        let mut word = 0;
        for &digit in &group[..4 - padding] {
            let value = DIGITS.iter().position(|known| *known == digit)?;
            word = word << 6 | value as u32;
        }
        word <<= 6 * padding as u32;
        out.extend_from_slice(&word.to_be_bytes()[1..4 - padding]);
    }
    Some(out)
}

const ENCODED: &str = "base64:";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_from_what_is_not() {
        for text in [
            "0",
            "-0",
            "1.5e-3",
            "\"a\\u00e9\\ud83d\\ude00\"",
            "[]",
            "[1, {\"a\":null}]",
            " true ",
            "{\"a\":{\"b\":[false]}}",
            "\"é\"",
        ] {
            assert!(is_json(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "01",
            "1.",
            ".5",
            "1e",
            "-",
            "+1",
            "nul",
            "[1,]",
            "{\"a\"}",
            "{a:1}",
            "\"\n\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\ude00\"",
            "\"",
            "[",
            "1 2",
            "NaN",
            "\"\\ud83d\\u0041\"",
        ] {
            assert!(!is_json(text.as_bytes()), "{text}");
        }
        assert!(!is_json(b"\"\xff\""));
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(is_json(&nested(DEPTH_MAX)));
        assert!(!is_json(&nested(DEPTH_MAX + 1)));
        assert!(!is_json(&vec![b'['; 1 << 20]));
    }

    #[test]
    fn a_text_comes_back_as_it_was_written() {
        for text in [
            &b"plain"[..],
            "é\u{1f600}".as_bytes(),
            b"\"\\\n\x01",
            b"\xff\xfe",
            b"base64:",
        ] {
            let mut written = Vec::new();
            write_text(&mut written, text);
            assert!(is_json(&written));
            assert_eq!(decode_text(text_of(&written)).unwrap(), text);
        }
        assert_eq!(
            text_of(b"\"\\u00e9\\ud83d\\ude00\\/\""),
            "é\u{1f600}/".as_bytes()
        );
        for wrong in [
            &b"base64:a"[..],
            b"base64:a===",
            b"base64:aa==aaaa",
            b"base64:????",
        ] {
            assert_eq!(decode_text(wrong.to_vec()), Err(NotJson));
        }
    }

    #[test]
    fn different_bytes_never_look_equal() {
        for (text, expected) in [
            (&b"plain \xc3\xa9"[..], "\"plain \u{e9}\""),
            (b"\"\\\n\r\t\x01\x1f", r#""\"\\\n\r\t\u0001\u001f""#),
            (b"", "\"\""),
            (b"\xff", "\"base64:/w==\""),
            (b"\xfe", "\"base64:/g==\""),
            (b"\xff\xfe", "\"base64://4=\""),
            (b"a\xffb", "\"base64:Yf9i\""),
            (b"base64:/w==", "\"base64:YmFzZTY0Oi93PT0=\""),
            (b"base64", "\"base64\""),
        ] {
            let mut out = Vec::new();
            write_text(&mut out, text);
            assert_eq!(String::from_utf8(out).expect("JSON is UTF-8"), expected);
        }
    }
}
