//! An incremental reply skipper, for clients and load generators: it finds the end of a reply.

use memchr::memchr2;

use crate::Progress;
use crate::number::{parse_integer, short_length};

/// Maximum bytes of a bulk in a reply: Redis's own limit.
pub const BULK_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Maximum bytes of a line in a reply, including its type: a simple string, an error, a number, a
/// length.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum nesting depth. Replies of Redis have a small depth; scripts may return deeper ones.
pub const NESTING_MAX: usize = 128;

/// Why a reply is invalid. It is the server's fault, and the connection is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// A length is not a number, negative (except RESP2's -1) or over the limit.
    #[error("invalid length in a reply")]
    InvalidLength,
    /// A carriage return or line feed occurs alone.
    #[error("a line of a reply does not end with CRLF")]
    InvalidLine,
    /// The content of a number, boolean, null or verbatim string is invalid. Only
    /// [`decode`](crate::decode) checks contents.
    #[error("a reply does not match its type")]
    InvalidScalar,
    /// A line is longer than [`LINE_BYTES_MAX`].
    #[error("a line of a reply is too long")]
    LineTooLong,
    /// CR LF is missing after a bulk.
    #[error("expected CRLF after a bulk of a reply")]
    MissingTerminator,
    /// The nesting depth exceeds [`NESTING_MAX`].
    #[error("a reply is nested too deeply")]
    TooDeep,
    /// The first byte is no type of RESP2 or RESP3.
    #[error("unknown reply type: '{}'", std::ascii::escape_default(*.0))]
    UnknownType(u8),
}

/// The kind of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyKind {
    /// An answer to a request.
    #[default]
    Answer,
    /// An error reply to a request (`-` or `!`).
    Error,
    /// A message that answers no request (`>`).
    Push,
}

/// Finds the end of each reply in the bytes of one connection, which may be split anywhere.
///
/// It parses only the framing; [`decode`](crate::decode) checks the contents of numbers and
/// booleans. An attribute (`
/// `) belongs to the reply that it precedes.
#[derive(Debug, Default)]
pub struct ReplyParser {
    /// Whether a reply has begun.
    begun: bool,
    kind: ReplyKind,
    /// Offset of the current element.
    position: usize,
    /// Offset up to which the input has been searched for the end of the element's first line; it
    /// may lie before the element.
    searched: usize,
    /// Offset of the CR LF after the current bulk.
    bulk_end: Option<usize>,
    /// Remaining elements of each open aggregate, the outermost first; none is 0.
    open: Vec<u64>,
    /// Whether the outermost open aggregate is an attribute: the reply itself follows it.
    attribute: bool,
    failed: Option<ReplyError>,
}

impl ReplyParser {
    /// Creates a parser for a new connection.
    pub fn new() -> Self {
        ReplyParser::default()
    }

    /// Continues where it stopped. `input` begins at the first byte of the current reply and
    /// contains all earlier bytes plus the new ones; they may have moved in memory. After an error,
    /// the parser is unusable and keeps returning errors.
    pub fn skip(&mut self, input: &[u8]) -> Result<Progress, ReplyError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if !self.begun {
            if let Some((length, start)) = short_length::<b'$'>(input, 0)
                && length <= BULK_BYTES_MAX
                && let Some(b"\r\n") = input
                    .get(start + length..)
                    .and_then(|rest| rest.first_chunk())
            {
                // Fast path for the usual reply of a load test: one complete bulk.
                self.kind = ReplyKind::Answer;
                return Ok(Progress::Complete {
                    consumed: start + length + 2,
                });
            }
            self.begun = true;
            self.kind = ReplyKind::Answer;
            self.position = 0;
            self.searched = 0;
        }
        let result = self.elements(input);
        match result {
            Ok(Progress::Complete { .. }) => self.begun = false,
            Ok(Progress::Incomplete { .. }) => {}
            Err(error) => self.failed = Some(error),
        }
        result
    }

    /// Returns the kind of the reply that [`skip`](Self::skip) has just completed.
    pub fn kind(&self) -> ReplyKind {
        self.kind
    }

    fn elements(&mut self, input: &[u8]) -> Result<Progress, ReplyError> {
        loop {
            let whole = match self.bulk_end {
                Some(end) => match bulk_terminated(input, end)? {
                    Ok(next) => {
                        self.bulk_end = None;
                        self.position = next;
                        true
                    }
                    Err(needed) => return Ok(Progress::Incomplete { needed }),
                },
                None => match header(input, self.position, &mut self.searched)? {
                    Some(header) => self.begin(&header)?,
                    None => return Ok(Progress::Incomplete { needed: 1 }),
                },
            };
            if whole && self.end_element() {
                return Ok(Progress::Complete {
                    consumed: self.position,
                });
            }
        }
    }

    /// Consumes an element's first line; returns true if it was the whole element.
    fn begin(&mut self, header: &Header<'_>) -> Result<bool, ReplyError> {
        if self.open.is_empty() {
            self.kind = match header.kind {
                b'-' | b'!' => ReplyKind::Error,
                b'>' => ReplyKind::Push,
                _ => ReplyKind::Answer,
            };
        }
        self.position = header.next;
        match header.body {
            Body::Line(_) | Body::Null => Ok(true),
            Body::Bulk(length) => {
                self.bulk_end = Some(header.next + length);
                Ok(false)
            }
            // An attribute is not an element itself, even if it is empty.
            Body::Elements(0) => Ok(header.kind != b'|'),
            Body::Elements(count) => {
                if self.open.len() == NESTING_MAX {
                    return Err(ReplyError::TooDeep);
                }
                if header.kind == b'|' {
                    match self.open.last_mut() {
                        // Its end will count as an element of the surrounding aggregate.
                        Some(remaining) => *remaining += 1,
                        None => self.attribute = true,
                    }
                }
                self.open.push(count);
                Ok(false)
            }
        }
    }

    /// Counts one element as complete, and every aggregate that it completes. Returns true if the
    /// reply is complete.
    fn end_element(&mut self) -> bool {
        while let Some(remaining) = self.open.last_mut() {
            *remaining -= 1;
            if *remaining > 0 {
                return false;
            }
            self.open.pop();
        }
        !std::mem::take(&mut self.attribute)
    }
}

/// An element's first line.
#[derive(Debug)]
pub(crate) struct Header<'i> {
    /// The type byte.
    pub(crate) kind: u8,
    pub(crate) body: Body<'i>,
    /// Offset after the line.
    pub(crate) next: usize,
}

/// The content of an element's first line.
#[derive(Debug)]
pub(crate) enum Body<'i> {
    /// The element is complete.
    Line(&'i [u8]),
    /// This number of bytes and CR LF follow.
    Bulk(usize),
    /// This number of elements follow.
    Elements(u64),
    /// Null: RESP2's length of -1.
    Null,
}

/// Parses an element's first line, once it is complete. The input from `position` to `searched` is
/// known to have no line end.
#[inline]
pub(crate) fn header<'i>(
    input: &'i [u8],
    position: usize,
    searched: &mut usize,
) -> Result<Option<Header<'i>>, ReplyError> {
    if let Some((length, next)) = short_length::<b'$'>(input, position) {
        if length > BULK_BYTES_MAX {
            return Err(ReplyError::InvalidLength);
        }
        return Ok(Some(Header {
            kind: b'$',
            body: Body::Bulk(length),
            next,
        }));
    }
    let Some(&kind) = input.get(position) else {
        return Ok(None);
    };
    if !b"+-:$*_#,(!=%~>|".contains(&kind) {
        return Err(ReplyError::UnknownType(kind));
    }
    let from = (*searched).max(position + 1);
    let found = memchr2(b'\r', b'\n', &input[from..]);
    let end = found.map_or(input.len(), |offset| from + offset);
    if end - position > LINE_BYTES_MAX {
        return Err(ReplyError::LineTooLong);
    }
    *searched = end;
    match input[end..] {
        [] | [b'\r'] => Ok(None),
        [b'\r', b'\n', ..] => {
            let body = body(kind, &input[position + 1..end])?;
            let next = end + 2;
            Ok(Some(Header { kind, body, next }))
        }
        _ => Err(ReplyError::InvalidLine),
    }
}

fn body(kind: u8, line: &[u8]) -> Result<Body<'_>, ReplyError> {
    if matches!(kind, b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(') {
        return Ok(Body::Line(line));
    }
    let number = parse_integer(line).ok_or(ReplyError::InvalidLength)?;
    if number == -1 && matches!(kind, b'$' | b'*') {
        return Ok(Body::Null);
    }
    let length = u64::try_from(number).map_err(|_| ReplyError::InvalidLength)?;
    match kind {
        b'$' | b'!' | b'=' => match usize::try_from(length) {
            Ok(length) if length <= BULK_BYTES_MAX => Ok(Body::Bulk(length)),
            _ => Err(ReplyError::InvalidLength),
        },
        // Twice a positive `i64` fits into a `u64`.
        b'%' | b'|' => Ok(Body::Elements(length * 2)),
        _ => Ok(Body::Elements(length)),
    }
}

/// Returns the offset after the CR LF of a bulk that ends at `end`, or the number of missing bytes.
#[inline]
pub(crate) fn bulk_terminated(
    input: &[u8],
    end: usize,
) -> Result<Result<usize, usize>, ReplyError> {
    match input.get(end..).and_then(|rest| rest.first_chunk()) {
        Some(b"\r\n") => Ok(Ok(end + 2)),
        Some(_) => Err(ReplyError::MissingTerminator),
        None => Ok(Err(end + 2 - input.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One reply of each type, with its kind.
    const REPLIES: &[(&[u8], ReplyKind)] = &[
        (b"+OK\r\n", ReplyKind::Answer),
        (b"+\r\n", ReplyKind::Answer),
        (b"-ERR no\r\n", ReplyKind::Error),
        (b"!8\r\nERR a\r\nb\r\n", ReplyKind::Error),
        (b":-12\r\n", ReplyKind::Answer),
        (b"$3\r\na\r\n\r\n", ReplyKind::Answer),
        (b"$12\r\n0123456789ab\r\n", ReplyKind::Answer),
        (b"$0\r\n\r\n", ReplyKind::Answer),
        (b"$-1\r\n", ReplyKind::Answer),
        (b"*-1\r\n", ReplyKind::Answer),
        (b"*0\r\n", ReplyKind::Answer),
        (b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", ReplyKind::Answer),
        (b"*1\r\n-ERR inside\r\n", ReplyKind::Answer),
        (b"_\r\n", ReplyKind::Answer),
        (b"#t\r\n", ReplyKind::Answer),
        (b",1.5\r\n", ReplyKind::Answer),
        (b"(123456789012345678901234567890\r\n", ReplyKind::Answer),
        (b"=6\r\ntxt:hi\r\n", ReplyKind::Answer),
        (b"%1\r\n+a\r\n%0\r\n", ReplyKind::Answer),
        (b"~2\r\n:1\r\n:2\r\n", ReplyKind::Answer),
        (b">2\r\n+pubsub\r\n*0\r\n", ReplyKind::Push),
        (
            b"|1\r\n+ttl\r\n:3\r\n-ERR behind an attribute\r\n",
            ReplyKind::Error,
        ),
        (
            b"|0\r\n|1\r\n+a\r\n*1\r\n_\r\n>1\r\n+x\r\n",
            ReplyKind::Push,
        ),
        (b"*2\r\n|1\r\n+a\r\n:1\r\n:2\r\n:3\r\n", ReplyKind::Answer),
    ];

    #[test]
    fn the_end_of_every_type_is_found_for_any_split() {
        let mut parser = ReplyParser::new();
        for &(reply, kind) in REPLIES {
            let mut input = reply.to_vec();
            input.extend_from_slice(b"+next\r\n");
            for length in 0..reply.len() {
                let progress = parser.skip(&input[..length]).unwrap();
                let Progress::Incomplete { needed } = progress else {
                    panic!("{} ended after {length}", reply.escape_ascii());
                };
                assert!((1..=reply.len() - length).contains(&needed));
            }
            let complete = Ok(Progress::Complete {
                consumed: reply.len(),
            });
            assert_eq!(parser.skip(&input), complete, "{}", reply.escape_ascii());
            assert_eq!(parser.kind(), kind, "{}", reply.escape_ascii());
        }
    }

    #[test]
    fn a_big_bulk_reports_how_many_bytes_are_missing() {
        let mut parser = ReplyParser::new();
        assert_eq!(
            parser.skip(b"$1000\r\nabc"),
            Ok(Progress::Incomplete { needed: 999 })
        );
    }

    #[test]
    fn hostile_replies_are_refused_repeatedly() {
        let deep = b"*1\r\n".repeat(NESTING_MAX + 1);
        let long = [b"+".as_slice(), &[b'a'; LINE_BYTES_MAX + 1]].concat();
        for (input, error) in [
            (b"?\r\n".as_slice(), ReplyError::UnknownType(b'?')),
            (b"$\r\n", ReplyError::InvalidLength),
            (b"$-2\r\n", ReplyError::InvalidLength),
            (b"$+1\r\n", ReplyError::InvalidLength),
            (b"$01\r\n", ReplyError::InvalidLength),
            (b"$536870913\r\n", ReplyError::InvalidLength),
            (b"$9223372036854775807\r\n", ReplyError::InvalidLength),
            (b"*9223372036854775808\r\n", ReplyError::InvalidLength),
            (b"%-1\r\n", ReplyError::InvalidLength),
            (b"!-1\r\n", ReplyError::InvalidLength),
            (b"*?\r\n", ReplyError::InvalidLength),
            (b"+a\n", ReplyError::InvalidLine),
            (b"+a\rb\r\n", ReplyError::InvalidLine),
            (b"$1\r\nabc", ReplyError::MissingTerminator),
            (&deep, ReplyError::TooDeep),
            (&long, ReplyError::LineTooLong),
        ] {
            let mut parser = ReplyParser::new();
            let shown = input[..input.len().min(40)].escape_ascii();
            assert_eq!(parser.skip(input), Err(error), "{shown}");
            assert_eq!(parser.skip(b"+OK\r\n"), Err(error));
        }
    }

    #[test]
    fn a_claimed_count_allocates_nothing() {
        let mut parser = ReplyParser::new();
        let input = b"%9223372036854775807\r\n+a\r\n";
        assert_eq!(parser.skip(input), Ok(Progress::Incomplete { needed: 1 }));
        assert!(parser.open.capacity() <= NESTING_MAX);
    }
}
