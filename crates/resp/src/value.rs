//! Owned replies, for tests and for clients without strict performance needs.

use crate::number::{parse_double, parse_integer};
use crate::reply::{Body, Header, NESTING_MAX, ReplyError, bulk_terminated, header};

/// One reply of any type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// `*` Elements in order.
    Array(Vec<Value>),
    /// `(` An integer of any size, in decimal.
    BigNumber(Vec<u8>),
    /// `#` A boolean.
    Boolean(bool),
    /// `$` A byte string.
    Bulk(Vec<u8>),
    /// `!` An error that may contain any bytes; its error code comes first.
    BulkError(Vec<u8>),
    /// `,` A double.
    Double(f64),
    /// `-` An error; its error code comes first.
    Error(Vec<u8>),
    /// `:` An integer.
    Integer(i64),
    /// `%` Keys and values in order.
    Map(Vec<(Value, Value)>),
    /// `_` Null in RESP3.
    Null,
    /// `*-1` Null array in RESP2.
    NullArray,
    /// `$-1` Null bulk string in RESP2.
    NullBulk,
    /// `>` A message that answers no request.
    Push(Vec<Value>),
    /// `~` Elements without order.
    Set(Vec<Value>),
    /// `+` A simple string.
    Simple(Vec<u8>),
    /// `=` A text for people (verbatim string).
    Verbatim {
        /// The format of the text: `txt` or `mkd`.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
}

/// Parses the reply at the beginning of `input`. Returns the value and its length in bytes, or
/// `None` if the reply is incomplete. Attributes (`
/// `) are parsed and dropped.
///
/// Each call starts from the beginning; [`ReplyParser`](crate::ReplyParser) finds the end of a
/// reply incrementally.
///
/// ```
/// use tidewire_resp::{Value, decode};
///
/// let array = Value::Array(vec![Value::Integer(1), Value::Bulk(b"a".to_vec())]);
/// assert_eq!(decode(b"*2\r\n:1\r\n$1\r\na\r\n"), Ok(Some((array, 15))));
/// ```
pub fn decode(input: &[u8]) -> Result<Option<(Value, usize)>, ReplyError> {
    let mut decoder = Decoder { input, position: 0 };
    let value = decoder.value(0)?;
    Ok(value.map(|value| (value, decoder.position)))
}

struct Decoder<'i> {
    input: &'i [u8],
    position: usize,
}

impl Decoder<'_> {
    /// Parses an element inside of `depth` aggregates; returns `None` if it is incomplete.
    fn value(&mut self, depth: usize) -> Result<Option<Value>, ReplyError> {
        loop {
            let Some(Header { kind, body, next }) = header(self.input, self.position, &mut 0)?
            else {
                return Ok(None);
            };
            self.position = next;
            let value = match body {
                Body::Line(line) => scalar(kind, line).map(Some),
                Body::Bulk(length) => self.bulk(kind, length),
                Body::Null if kind == b'$' => Ok(Some(Value::NullBulk)),
                Body::Null => Ok(Some(Value::NullArray)),
                Body::Elements(count) => self.aggregate(kind, count, depth),
            };
            // The actual element follows an attribute.
            if kind != b'|' || !matches!(value, Ok(Some(_))) {
                return value;
            }
        }
    }

    fn bulk(&mut self, kind: u8, length: usize) -> Result<Option<Value>, ReplyError> {
        let end = self.position + length;
        let Ok(next) = bulk_terminated(self.input, end)? else {
            return Ok(None);
        };
        let bytes = &self.input[self.position..end];
        self.position = next;
        Ok(Some(match kind {
            b'!' => Value::BulkError(bytes.to_vec()),
            b'=' => match *bytes {
                [a, b, c, b':', ref text @ ..] => Value::Verbatim {
                    format: [a, b, c],
                    text: text.to_vec(),
                },
                _ => return Err(ReplyError::InvalidScalar),
            },
            _ => Value::Bulk(bytes.to_vec()),
        }))
    }

    fn aggregate(
        &mut self,
        kind: u8,
        count: u64,
        depth: usize,
    ) -> Result<Option<Value>, ReplyError> {
        if count > 0 && depth == NESTING_MAX {
            return Err(ReplyError::TooDeep);
        }
        // Grows as elements arrive: the count is only a claim.
        let mut values = Vec::new();
        for _ in 0..count {
            match self.value(depth + 1)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(match kind {
            b'%' | b'|' => {
                let mut values = values.into_iter();
                Value::Map(std::iter::from_fn(|| values.next().zip(values.next())).collect())
            }
            b'~' => Value::Set(values),
            b'>' => Value::Push(values),
            _ => Value::Array(values),
        }))
    }
}

fn scalar(kind: u8, line: &[u8]) -> Result<Value, ReplyError> {
    let value = match (kind, line) {
        (b'+', text) => Some(Value::Simple(text.to_vec())),
        (b'-', text) => Some(Value::Error(text.to_vec())),
        (b':', digits) => parse_integer(digits).map(Value::Integer),
        (b'_', b"") => Some(Value::Null),
        (b'#', b"t") => Some(Value::Boolean(true)),
        (b'#', b"f") => Some(Value::Boolean(false)),
        (b',', text) => parse_double(text).map(Value::Double),
        (b'(', digits) if is_big_number(digits) => Some(Value::BigNumber(digits.to_vec())),
        _ => None,
    };
    value.ok_or(ReplyError::InvalidScalar)
}

fn is_big_number(text: &[u8]) -> bool {
    let digits = text
        .strip_prefix(b"-")
        .or(text.strip_prefix(b"+"))
        .unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Value {
        let (value, consumed) = decode(input).unwrap().expect("a whole reply");
        assert_eq!(consumed, input.len());
        value
    }

    #[test]
    fn every_type_is_decoded() {
        let text = |text: &str| text.as_bytes().to_vec();
        for (input, value) in [
            ("+OK\r\n", Value::Simple(text("OK"))),
            ("-ERR no\r\n", Value::Error(text("ERR no"))),
            (":-9223372036854775808\r\n", Value::Integer(i64::MIN)),
            ("$4\r\na\r\nb\r\n", Value::Bulk(text("a\r\nb"))),
            ("$-1\r\n", Value::NullBulk),
            ("*-1\r\n", Value::NullArray),
            ("_\r\n", Value::Null),
            ("#t\r\n", Value::Boolean(true)),
            ("#f\r\n", Value::Boolean(false)),
            (",-1.5e-7\r\n", Value::Double(-1.5e-7)),
            (",-inf\r\n", Value::Double(f64::NEG_INFINITY)),
            ("(-123\r\n", Value::BigNumber(text("-123"))),
            ("!5\r\nERR a\r\n", Value::BulkError(text("ERR a"))),
            (
                "=6\r\nmkd:hi\r\n",
                Value::Verbatim {
                    format: *b"mkd",
                    text: text("hi"),
                },
            ),
            (
                "%1\r\n:1\r\n*0\r\n",
                Value::Map(vec![(Value::Integer(1), Value::Array(vec![]))]),
            ),
            ("~1\r\n_\r\n", Value::Set(vec![Value::Null])),
            (">1\r\n+x\r\n", Value::Push(vec![Value::Simple(text("x"))])),
            (
                "*1\r\n|1\r\n+a\r\n+b\r\n:7\r\n",
                Value::Array(vec![Value::Integer(7)]),
            ),
        ] {
            assert_eq!(decoded(input.as_bytes()), value, "{input:?}");
            for length in 0..input.len() {
                assert_eq!(decode(&input.as_bytes()[..length]), Ok(None), "{input:?}");
            }
        }
        assert!(matches!(decoded(b",nan\r\n"), Value::Double(value) if value.is_nan()));
    }

    #[test]
    fn invalid_scalars_are_refused() {
        for input in [
            ":\r\n",
            ":+1\r\n",
            ":1 \r\n",
            "_x\r\n",
            "#T\r\n",
            "#\r\n",
            ",\r\n",
            ",1 \r\n",
            ",0x1\r\n",
            "(\r\n",
            "(-\r\n",
            "(1a\r\n",
            "=3\r\ntxt\r\n",
            "=4\r\ntext\r\n",
        ] {
            assert_eq!(
                decode(input.as_bytes()),
                Err(ReplyError::InvalidScalar),
                "{input:?}"
            );
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
        assert!(matches!(decode(&nested(NESTING_MAX)), Ok(Some(_))));
        assert_eq!(decode(&nested(NESTING_MAX + 1)), Err(ReplyError::TooDeep));
    }
}
