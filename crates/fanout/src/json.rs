//! JSON strings without loss for any bytes.

/// Appends `text` as a JSON string. Text that is not UTF-8, and text that begins with
/// [`ENCODED`], is written as [`ENCODED`] and its base64 form. So every text has exactly one
/// form, and no two texts have the same one.
pub fn write_json_text(out: &mut Vec<u8>, text: &[u8]) {
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

/// Appends the base64 form (RFC 4648, section 4, padded).
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

/// The prefix of an encoded text.
const ENCODED: &str = "base64:";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &[u8]) -> String {
        let mut out = Vec::new();
        write_json_text(&mut out, text);
        String::from_utf8(out).expect("JSON is UTF-8")
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
            assert_eq!(written(text), expected);
        }
    }
}
