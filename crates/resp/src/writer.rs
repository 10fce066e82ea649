//! The reply encoder: appends to the caller's buffer.

use crate::Protocol;
use crate::number::DoubleText;

/// An encoder that appends replies to a buffer, in the negotiated format.
///
/// An aggregate starts with its length; that many further calls then write its elements. If the
/// length is only known afterwards, [`array_later`](Self::array_later) and similar methods return a
/// mark, and [`finish`](Self::finish) fills in the length.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
    /// Maximum size of the buffer for appending another string.
    bytes_max: usize,
}

/// The position of an aggregate's length, which [`Writer::finish`] fills in.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "without `finish` the aggregate stays empty and its elements follow as replies"]
pub struct Mark {
    /// Offset of the header `*0\r\n` in the buffer.
    position: usize,
    /// Number of elements per counted item: 2 for a pair in a flat array.
    elements: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer that appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Writer {
            out,
            protocol,
            bytes_max: usize::MAX,
        }
    }

    /// Sets a maximum buffer size for strings. Once the buffer is longer, strings are dropped, and
    /// the contents are no valid reply: the caller must check the length and discard the reply. The
    /// writer checks only when the buffer must grow.
    #[inline]
    #[must_use]
    pub fn until(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Returns the current format.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Writes `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// Writes a simple string such as `OK` or `QUEUED`; line ends in it become spaces.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error, including its error code: `ERR no such key`. Line ends in it become spaces.
    #[inline]
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    /// Does the same as [`simple`](Self::simple) for bytes that may not be UTF-8.
    pub fn simple_bytes(&mut self, text: &[u8]) {
        self.line(b'+', text);
    }

    /// Does the same as [`error`](Self::error) for bytes that may not be UTF-8.
    pub fn error_bytes(&mut self, text: &[u8]) {
        self.line(b'-', text);
    }

    /// Writes an integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.signed(b':', value);
    }

    /// Writes a byte string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        let needed = bytes.len() + HEADER_BYTES_MAX + 2;
        if self.out.capacity() - self.out.len() < needed && !self.grow(needed) {
            return;
        }
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.raw(b"\r\n");
    }

    /// Makes room for a string; returns false if the buffer is already too long.
    #[cold]
    fn grow(&mut self, needed: usize) -> bool {
        let takes_more = self.out.len() <= self.bytes_max;
        if takes_more {
            self.out.reserve(needed);
        }
        takes_more
    }

    /// Writes an integer as a byte string, as in hashes and strings.
    #[inline]
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes a double as a byte string in either format.
    pub fn bulk_double(&mut self, value: f64) {
        self.bulk(DoubleText::new(value).as_bytes());
    }

    /// Writes a null in place of a value.
    #[inline]
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.raw(b"$-1\r\n"),
            Protocol::Resp3 => self.raw(b"_\r\n"),
        }
    }

    /// Writes a null in place of an array.
    #[inline]
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.raw(b"*-1\r\n"),
            Protocol::Resp3 => self.raw(b"_\r\n"),
        }
    }

    /// Starts an array of `elements` replies, which follow.
    #[inline]
    pub fn array(&mut self, elements: usize) {
        self.header(b'*', elements);
    }

    /// Starts a map of `pairs` alternating keys and values, which follow; a flat array in RESP2.
    #[inline]
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', pairs * 2),
            Protocol::Resp3 => self.header(b'%', pairs),
        }
    }

    /// Starts a set of `elements` replies, which follow; an array in RESP2.
    #[inline]
    pub fn set(&mut self, elements: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', elements),
            Protocol::Resp3 => self.header(b'~', elements),
        }
    }

    /// Starts a push message of `elements` replies, which follow; an array in RESP2.
    #[inline]
    pub fn push(&mut self, elements: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', elements),
            Protocol::Resp3 => self.header(b'>', elements),
        }
    }

    /// Writes a double; a bulk in RESP2.
    pub fn double(&mut self, value: f64) {
        match self.protocol {
            Protocol::Resp2 => self.bulk_double(value),
            Protocol::Resp3 => self.line(b',', DoubleText::new(value).as_bytes()),
        }
    }

    /// Writes a boolean; 1 or 0 in RESP2.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        self.raw(match (self.protocol, value) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// Writes an integer of any size, in decimal; a bulk in RESP2.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits),
        }
    }

    /// Writes a text for people with its three-letter format (`txt`, `mkd`); a bulk in RESP2.
    ///
    /// A format of another length is truncated or padded with spaces to three bytes.
    pub fn verbatim(&mut self, format: &str, bytes: &[u8]) {
        if self.protocol == Protocol::Resp2 {
            return self.bulk(bytes);
        }
        let mut label = *b"   :";
        label
            .iter_mut()
            .take(3)
            .zip(format.bytes())
            .for_each(|(to, from)| *to = from);
        self.header(b'=', label.len() + bytes.len());
        self.raw(&label);
        self.raw(bytes);
        self.raw(b"\r\n");
    }

    /// Writes bytes that are already an encoded reply.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Returns the buffer's current length, for [`cut_back`](Self::cut_back).
    #[inline]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Removes what was written since the buffer was at this position.
    pub fn cut_back(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// Starts an array; [`finish`](Self::finish) sets its length after its elements.
    #[inline]
    pub fn array_later(&mut self) -> Mark {
        self.later(b'*', 1)
    }

    /// Starts a map; [`finish`](Self::finish) sets its number of pairs after its keys and values.
    #[inline]
    pub fn map_later(&mut self) -> Mark {
        match self.protocol {
            Protocol::Resp2 => self.later(b'*', 2),
            Protocol::Resp3 => self.later(b'%', 1),
        }
    }

    /// Starts a set; [`finish`](Self::finish) sets its length after its elements.
    #[inline]
    pub fn set_later(&mut self) -> Mark {
        match self.protocol {
            Protocol::Resp2 => self.later(b'*', 1),
            Protocol::Resp3 => self.later(b'~', 1),
        }
    }

    /// Sets the number of elements (or pairs of a map) written since `mark` was made. Nested
    /// aggregates must be finished from the inside out. With ten or more elements, everything after
    /// the mark moves once, to make room for more digits.
    pub fn finish(&mut self, mark: Mark, count: usize) {
        let elements = count * mark.elements;
        let digit_at = mark.position + 1;
        debug_assert!(
            self.out[digit_at..].starts_with(b"0\r\n"),
            "aggregates must be finished from the inside out"
        );
        if elements < 10 {
            self.out[digit_at] = b'0' + elements as u8;
        } else {
            let mut buffer = itoa::Buffer::new();
            let digits = buffer.format(elements).as_bytes();
            self.out.splice(digit_at..=digit_at, digits.iter().copied());
        }
    }

    #[inline]
    fn later(&mut self, kind: u8, elements: usize) -> Mark {
        let mark = Mark {
            position: self.out.len(),
            elements,
        };
        self.header(kind, 0);
        mark
    }

    /// Writes `kind`, a length and a line end. Nearly all lengths have one or two digits.
    #[inline]
    fn header(&mut self, kind: u8, length: usize) {
        if length < 10 {
            self.raw(&[kind, b'0' + length as u8, b'\r', b'\n']);
        } else if length < 100 {
            let (tens, units) = ((length / 10) as u8, (length % 10) as u8);
            self.raw(&[kind, b'0' + tens, b'0' + units, b'\r', b'\n']);
        } else {
            self.signed(kind, length as i64);
        }
    }

    fn signed(&mut self, kind: u8, value: i64) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(value).as_bytes();
        self.out.reserve(HEADER_BYTES_MAX);
        self.out.push(kind);
        self.raw(digits);
        self.raw(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.reserve(text.len() + 3);
        self.out.push(kind);
        let start = self.out.len();
        self.raw(text);
        for byte in &mut self.out[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.raw(b"\r\n");
    }
}

/// Appends a request as a client sends it: an array of bulks.
pub fn write_request<A: AsRef<[u8]>>(out: &mut Vec<u8>, arguments: &[A]) {
    let mut writer = Writer::new(out, Protocol::Resp2);
    writer.array(arguments.len());
    arguments
        .iter()
        .for_each(|argument| writer.bulk(argument.as_ref()));
}

/// Kind, sign, 19 digits, CR LF; rounded up.
const HEADER_BYTES_MAX: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl Fn(&mut Writer<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Writer::new(&mut out, protocol));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_reply_has_the_expected_bytes_in_both_formats() {
        type Write = fn(&mut Writer<'_>);
        let table: &[(Write, &str, &str)] = &[
            (|to| to.ok(), "+OK\r\n", "+OK\r\n"),
            (|to| to.simple("QUEUED"), "+QUEUED\r\n", "+QUEUED\r\n"),
            (|to| to.error("ERR no"), "-ERR no\r\n", "-ERR no\r\n"),
            (|to| to.integer(-42), ":-42\r\n", ":-42\r\n"),
            (
                |to| to.integer(i64::MIN),
                ":-9223372036854775808\r\n",
                ":-9223372036854775808\r\n",
            ),
            (|to| to.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (
                |to| to.bulk(b"a\r\nb"),
                "$4\r\na\r\nb\r\n",
                "$4\r\na\r\nb\r\n",
            ),
            (
                |to| to.bulk(b"0123456789"),
                "$10\r\n0123456789\r\n",
                "$10\r\n0123456789\r\n",
            ),
            (|to| to.bulk_integer(-7), "$2\r\n-7\r\n", "$2\r\n-7\r\n"),
            (|to| to.bulk_double(0.5), "$3\r\n0.5\r\n", "$3\r\n0.5\r\n"),
            (|to| to.null(), "$-1\r\n", "_\r\n"),
            (|to| to.null_array(), "*-1\r\n", "_\r\n"),
            (|to| to.array(3), "*3\r\n", "*3\r\n"),
            (|to| to.array(1234), "*1234\r\n", "*1234\r\n"),
            (|to| to.map(6), "*12\r\n", "%6\r\n"),
            (|to| to.set(99), "*99\r\n", "~99\r\n"),
            (|to| to.push(3), "*3\r\n", ">3\r\n"),
            (|to| to.double(1e20), "$5\r\n1e+20\r\n", ",1e+20\r\n"),
            (
                |to| to.double(f64::NEG_INFINITY),
                "$4\r\n-inf\r\n",
                ",-inf\r\n",
            ),
            (|to| to.boolean(true), ":1\r\n", "#t\r\n"),
            (|to| to.boolean(false), ":0\r\n", "#f\r\n"),
            (|to| to.big_number(b"-12"), "$3\r\n-12\r\n", "(-12\r\n"),
            (
                |to| to.verbatim("txt", b"hi"),
                "$2\r\nhi\r\n",
                "=6\r\ntxt:hi\r\n",
            ),
            (|to| to.verbatim("m", b""), "$0\r\n\r\n", "=4\r\nm  :\r\n"),
            (|to| to.raw(b"+PONG\r\n"), "+PONG\r\n", "+PONG\r\n"),
        ];
        for (write, resp2, resp3) in table {
            assert_eq!(written(Protocol::Resp2, write), *resp2);
            assert_eq!(written(Protocol::Resp3, write), *resp3);
        }
    }

    #[test]
    fn quoted_text_cannot_break_a_line() {
        let text = written(Protocol::Resp2, |to| to.error("ERR unknown 'a\r\n+OK\r\n'"));
        assert_eq!(text, "-ERR unknown 'a  +OK  '\r\n");
        assert_eq!(written(Protocol::Resp3, |to| to.simple("a\nb")), "+a b\r\n");
        assert_eq!(
            written(Protocol::Resp3, |to| to.big_number(b"1\r\n:2")),
            "(1  :2\r\n"
        );
    }

    #[test]
    fn late_lengths_are_filled_in_from_the_inside_out() {
        let nested = |to: &mut Writer<'_>| {
            to.integer(0);
            let outer = to.map_later();
            for key in 0..5 {
                to.integer(key);
                let inner = to.array_later();
                (0..10).for_each(|_| to.null());
                to.finish(inner, 10);
            }
            to.finish(outer, 5);
            let empty = to.set_later();
            to.finish(empty, 0);
        };
        let pairs = |null: &str| {
            (0..5)
                .map(|key| format!(":{key}\r\n*10\r\n{}", null.repeat(10)))
                .collect::<String>()
        };
        let resp2 = format!(":0\r\n*10\r\n{}*0\r\n", pairs("$-1\r\n"));
        assert_eq!(written(Protocol::Resp2, nested), resp2);
        let resp3 = format!(":0\r\n%5\r\n{}~0\r\n", pairs("_\r\n"));
        assert_eq!(written(Protocol::Resp3, nested), resp3);
    }

    #[test]
    fn a_request_is_an_array_of_bulks() {
        let mut out = Vec::new();
        write_request(&mut out, &["GET", "key"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    }
}
