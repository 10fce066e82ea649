//! MessagePack: the same messages in binary form.

use crate::json::{DEPTH_MAX, NotJson, Scanner, text_of, write_text};

/// Appends a JSON text in MessagePack.
///
/// # Errors
/// The text is not JSON.
pub fn encode(json: &[u8], out: &mut Vec<u8>) -> Result<(), NotJson> {
    let mut scanner = Scanner::new(json);
    encode_value(&mut scanner, out)?;
    scanner.end()
}

fn encode_value(scanner: &mut Scanner<'_>, out: &mut Vec<u8>) -> Result<(), NotJson> {
    match scanner.peek().ok_or(NotJson)? {
        b'{' => {
            scanner.expect(b'{')?;
            let (start, mut count) = (begin(out), 0);
            scanner.members(|scanner, name| {
                count += 1;
                encode_text(&text_of(name), out);
                encode_value(scanner, out)
            })?;
            finish(out, start, count, 0x80, 0xde);
        }
        b'[' => {
            scanner.expect(b'[')?;
            let (start, mut count) = (begin(out), 0);
            scanner.elements(|scanner| {
                count += 1;
                encode_value(scanner, out)
            })?;
            finish(out, start, count, 0x90, 0xdc);
        }
        b'"' => encode_text(&text_of(scanner.string()?), out),
        _ => match scanner.value()? {
            b"null" => out.push(0xc0),
            b"false" => out.push(0xc2),
            b"true" => out.push(0xc3),
            number => encode_number(number, out)?,
        },
    }
    Ok(())
}

/// Leaves room for the longest head of a map or an array.
fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; HEAD_BYTES_MAX]);
    out.len()
}

/// Writes the head of a map or an array in front of its elements, and closes the gap.
fn finish(out: &mut Vec<u8>, start: usize, count: usize, short: u8, long: u8) {
    let mut head = Vec::with_capacity(HEAD_BYTES_MAX);
    match count {
        0..16 => head.push(short | count as u8),
        16..0x1_0000 => {
            head.push(long);
            head.extend_from_slice(&(count as u16).to_be_bytes());
        }
        _ => {
            head.push(long + 1);
            head.extend_from_slice(&(count as u32).to_be_bytes());
        }
    }
    out.splice(start - HEAD_BYTES_MAX..start, head);
}

fn encode_text(text: &[u8], out: &mut Vec<u8>) {
    match text.len() {
        0..32 => out.push(0xa0 | text.len() as u8),
        32..0x100 => out.extend_from_slice(&[0xd9, text.len() as u8]),
        0x100..0x1_0000 => {
            out.push(0xda);
            out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        }
        _ => {
            out.push(0xdb);
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(text);
}

fn encode_number(number: &[u8], out: &mut Vec<u8>) -> Result<(), NotJson> {
    let text = std::str::from_utf8(number).map_err(|_| NotJson)?;
    if let Ok(value) = text.parse::<u64>() {
        match value {
            0..0x80 => out.push(value as u8),
            0x80..0x100 => out.extend_from_slice(&[0xcc, value as u8]),
            0x100..0x1_0000 => {
                out.push(0xcd);
                out.extend_from_slice(&(value as u16).to_be_bytes());
            }
            0x1_0000..0x1_0000_0000 => {
                out.push(0xce);
                out.extend_from_slice(&(value as u32).to_be_bytes());
            }
            _ => {
                out.push(0xcf);
                out.extend_from_slice(&value.to_be_bytes());
            }
        }
    } else if let Ok(value) = text.parse::<i64>() {
        match value {
            -32..0 => out.push(value as u8),
            _ => {
                out.push(0xd3);
                out.extend_from_slice(&value.to_be_bytes());
            }
        }
    } else if text
        .bytes()
        .all(|byte| byte == b'-' || byte.is_ascii_digit())
    {
        // A whole number beyond 64 bits keeps its digits as a text.
        encode_text(number, out);
    } else {
        let value: f64 = text.parse().map_err(|_| NotJson)?;
        out.push(0xcb);
        out.extend_from_slice(&value.to_be_bytes());
    }
    Ok(())
}

/// Appends a MessagePack message as JSON. Bytes become a text, encoded where they are not UTF-8.
///
/// # Errors
/// It is not one MessagePack value, has a type that JSON lacks, or nests too deeply.
pub fn decode(packed: &[u8], out: &mut Vec<u8>) -> Result<(), NotJson> {
    let mut reader = Reader { packed, at: 0 };
    reader.value(out, 0)?;
    match reader.at == packed.len() {
        true => Ok(()),
        false => Err(NotJson),
    }
}

struct Reader<'p> {
    packed: &'p [u8],
    at: usize,
}

impl<'p> Reader<'p> {
    fn take(&mut self, count: usize) -> Result<&'p [u8], NotJson> {
        let end = self.at.checked_add(count).ok_or(NotJson)?;
        let bytes = self.packed.get(self.at..end).ok_or(NotJson)?;
        self.at = end;
        Ok(bytes)
    }

    fn unsigned(&mut self, bytes: usize) -> Result<u64, NotJson> {
        let bytes = self.take(bytes)?.iter();
        Ok(bytes.fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<(), NotJson> {
        if depth > DEPTH_MAX {
            return Err(NotJson);
        }
        let kind = self.take(1)?[0];
        let length = |bytes: u64| usize::try_from(bytes).map_err(|_| NotJson);
        match kind {
            0x00..0x80 => write_unsigned(out, kind.into()),
            0x80..0x90 => self.map(out, usize::from(kind & 15), depth)?,
            0x90..0xa0 => self.array(out, usize::from(kind & 15), depth)?,
            0xa0..0xc0 => self.text(out, usize::from(kind & 31))?,
            0xc0 => out.extend_from_slice(b"null"),
            0xc2 => out.extend_from_slice(b"false"),
            0xc3 => out.extend_from_slice(b"true"),
            0xc4 | 0xd9 => self.text_of(1, out)?,
            0xc5 | 0xda => self.text_of(2, out)?,
            0xc6 | 0xdb => self.text_of(4, out)?,
            0xca => {
                let value = f32::from_bits(self.unsigned(4)? as u32);
                write_float(out, value.into())?;
            }
            0xcb => write_float(out, f64::from_bits(self.unsigned(8)?))?,
            0xcc..=0xcf => {
                let value = self.unsigned(1 << (kind - 0xcc))?;
                write_unsigned(out, value);
            }
            0xd0..=0xd3 => {
                let bytes = 1 << (kind - 0xd0);
                let shift = 64 - 8 * bytes as u32;
                let value = (self.unsigned(bytes)? << shift) as i64 >> shift;
                out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            }
            0xdc | 0xdd => {
                let count = length(self.unsigned(2 << (kind - 0xdc))?)?;
                self.array(out, count, depth)?;
            }
            0xde | 0xdf => {
                let count = length(self.unsigned(2 << (kind - 0xde))?)?;
                self.map(out, count, depth)?;
            }
            0xe0.. => {
                let value = kind as i8;
                out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            }
            _ => return Err(NotJson),
        }
        Ok(())
    }

    fn text_of(&mut self, bytes: usize, out: &mut Vec<u8>) -> Result<(), NotJson> {
        let length = usize::try_from(self.unsigned(bytes)?).map_err(|_| NotJson)?;
        self.text(out, length)
    }

    fn text(&mut self, out: &mut Vec<u8>, length: usize) -> Result<(), NotJson> {
        let text = self.take(length)?;
        // A text that says that it is encoded stays as it is.
        match text.starts_with(b"base64:") && text.is_ascii() {
            true => {
                let start = out.len();
                write_text(out, &text[1..]);
                out.insert(start + 1, b'b');
            }
            false => write_text(out, text),
        }
        Ok(())
    }

    fn array(&mut self, out: &mut Vec<u8>, count: usize, depth: usize) -> Result<(), NotJson> {
        out.push(b'[');
        for number in 0..count {
            if number > 0 {
                out.push(b',');
            }
            self.value(out, depth + 1)?;
        }
        out.push(b']');
        Ok(())
    }

    fn map(&mut self, out: &mut Vec<u8>, count: usize, depth: usize) -> Result<(), NotJson> {
        out.push(b'{');
        for number in 0..count {
            if number > 0 {
                out.push(b',');
            }
            let start = out.len();
            self.value(out, depth + 1)?;
            match out.get(start) {
                Some(b'"') => {}
                // A number as a key is its text, as in JavaScript.
                Some(b'-' | b'0'..=b'9') => {
                    out.insert(start, b'"');
                    out.push(b'"');
                }
                _ => return Err(NotJson),
            }
            out.push(b':');
            self.value(out, depth + 1)?;
        }
        out.push(b'}');
        Ok(())
    }
}

fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn write_float(out: &mut Vec<u8>, value: f64) -> Result<(), NotJson> {
    match value.is_finite() {
        true => {
            out.extend_from_slice(format!("{value}").as_bytes());
            Ok(())
        }
        false => Err(NotJson),
    }
}

const HEAD_BYTES_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn back(json: &str) -> String {
        let (mut packed, mut text) = (Vec::new(), Vec::new());
        encode(json.as_bytes(), &mut packed).unwrap();
        decode(&packed, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn messages_keep_their_meaning() {
        let long = format!("[{}0]", "1,".repeat(70_000));
        for json in [
            "null",
            "[true,false]",
            "{\"a\":{},\"b\":[]}",
            "[0,127,128,255,256,65536,4294967296]",
            "[-1,-32,-33,-9223372036854775808,18446744073709551615,1.5,-0.25]",
            "\"\\\"\\u0001\"",
            "{\"snap\":1,\"rows\":[[17,\"md:A\",{\"bid\":2990.5}]],\"more\":true}",
            "\"base64:/w==\"",
            &long,
        ] {
            assert_eq!(back(json), json);
        }
    }

    #[test]
    fn the_form_is_that_of_the_specification() {
        let mut packed = Vec::new();
        encode(br#"{"compact":true,"schema":0}"#, &mut packed).unwrap();
        assert_eq!(packed, b"\x82\xa7compact\xc3\xa6schema\x00");
    }

    #[test]
    fn a_number_is_a_key_as_its_text() {
        let mut text = Vec::new();
        decode(b"\x82\x01\x02\xe0\xa1a", &mut text).unwrap();
        assert_eq!(text, br#"{"1":2,"-32":"a"}"#);
    }

    #[test]
    fn a_whole_number_beyond_64_bits_keeps_its_digits_as_a_text() {
        for digits in ["18446744073709551616", "-9223372036854775809"] {
            assert_eq!(back(digits), format!("\"{digits}\""));
        }
        assert_eq!(back("1e30"), "1000000000000000000000000000000");
    }

    #[test]
    fn what_json_lacks_is_refused() {
        let deep = vec![0x91; 1000];
        for packed in [
            &b""[..],
            b"\xc1",
            b"\x81\xc0\x02",
            b"\xdb\xff\xff\xff\xff",
            b"\x01\x01",
            b"\xd4\x00\x00",
            b"\xcb\x7f\xf0\0\0\0\0\0\0",
            b"\xdd\xff\xff\xff\xff",
            &deep,
        ] {
            assert_eq!(decode(packed, &mut Vec::new()), Err(NotJson), "{packed:x?}");
        }
    }
}
