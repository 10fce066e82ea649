//! Replies of Redis commands as messages of the stream.

use tidewire_resp::Value;
use tidewire_rows::json::write_text;

/// Appends the answer to a request.
pub(super) fn write_answer(number: u64, reply: &Value, out: &mut Vec<u8>) {
    match reply {
        Value::Error(text) | Value::BulkError(text) => {
            let (code, message) = split_error(text);
            write_error(number, code, message, out);
        }
        reply => {
            out.extend_from_slice(b"{\"done\":");
            out.extend_from_slice(number.to_string().as_bytes());
            out.extend_from_slice(b",\"reply\":");
            write_value(reply, out);
            out.push(b'}');
        }
    }
}

/// Appends an error. `number` is 0 if the request has none.
pub(super) fn write_error(number: u64, code: &[u8], message: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":");
    out.extend_from_slice(number.to_string().as_bytes());
    out.extend_from_slice(b",\"code\":");
    write_text(out, code);
    out.extend_from_slice(b",\"message\":");
    write_text(out, message);
    out.push(b'}');
}

/// Splits the text of an error into its code and the rest. Without a code it is `ERR`.
pub(super) fn split_error(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|byte| *byte == b' ')
        .unwrap_or(text.len());
    let is_code = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    match end > 0 && text[..end].iter().all(is_code) {
        true => (&text[..end], text.get(end + 1..).unwrap_or_default()),
        false => (b"ERR", text),
    }
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text) | Value::Bulk(text) | Value::BigNumber(text) => write_text(out, text),
        Value::Verbatim { text, .. } => write_text(out, text),
        Value::Integer(number) if number.unsigned_abs() <= EXACT_MAX => {
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Value::Integer(number) => write_text(out, number.to_string().as_bytes()),
        Value::Double(number) if number.is_finite() => {
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Value::Double(number) => write_text(out, number.to_string().to_lowercase().as_bytes()),
        Value::Boolean(is) => out.extend_from_slice(if *is { b"true" } else { b"false" }),
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
            out.push(b'[');
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(element, out);
            }
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            for (at, (key, value)) in pairs.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_key(key, out);
                out.push(b':');
                write_value(value, out);
            }
            out.push(b'}');
        }
        Value::Error(text) | Value::BulkError(text) => {
            let (code, message) = split_error(text);
            out.extend_from_slice(b"{\"error\":{\"code\":");
            write_text(out, code);
            out.extend_from_slice(b",\"message\":");
            write_text(out, message);
            out.extend_from_slice(b"}}");
        }
        // The nulls; there is no other type.
        _ => out.extend_from_slice(b"null"),
    }
}

/// A key of an object is a text; that of another value is the text of its JSON.
fn write_key(key: &Value, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    write_value(key, &mut text);
    match text.first() {
        Some(b'"') => out.extend_from_slice(&text),
        _ => write_text(out, &text),
    }
}

/// Whole numbers up to this one are exact in a script.
const EXACT_MAX: u64 = 1 << 53;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_resp::decode;

    fn answer(reply: &[u8]) -> String {
        let (value, _) = decode(reply).expect("a reply").expect("the whole of it");
        let mut out = Vec::new();
        write_answer(7, &value, &mut out);
        assert!(tidewire_rows::json::is_json(&out));
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn replies_keep_their_types() {
        for (reply, expected) in [
            (&b"+OK\r\n"[..], r#"{"done":7,"reply":"OK"}"#),
            (b"$2\r\n\xff\xfe\r\n", r#"{"done":7,"reply":"base64://4="}"#),
            (b":-5\r\n", r#"{"done":7,"reply":-5}"#),
            (
                b":9007199254740993\r\n",
                r#"{"done":7,"reply":"9007199254740993"}"#,
            ),
            (b",2.5\r\n", r#"{"done":7,"reply":2.5}"#),
            (b",-inf\r\n", r#"{"done":7,"reply":"-inf"}"#),
            (b"_\r\n", r#"{"done":7,"reply":null}"#),
            (b"#t\r\n", r#"{"done":7,"reply":true}"#),
            (b"=5\r\ntxt:a\r\n", r#"{"done":7,"reply":"a"}"#),
            (b"~1\r\n+a\r\n", r#"{"done":7,"reply":["a"]}"#),
            (
                b"%2\r\n+a\r\n:1\r\n:2\r\n*0\r\n",
                r#"{"done":7,"reply":{"a":1,"2":[]}}"#,
            ),
            (
                b"*1\r\n-WRONGTYPE no\r\n",
                r#"{"done":7,"reply":[{"error":{"code":"WRONGTYPE","message":"no"}}]}"#,
            ),
            (
                b"-NOPERM not you\r\n",
                r#"{"error":7,"code":"NOPERM","message":"not you"}"#,
            ),
            (
                b"-no code\r\n",
                r#"{"error":7,"code":"ERR","message":"no code"}"#,
            ),
        ] {
            assert_eq!(answer(reply), expected);
        }
    }
}
