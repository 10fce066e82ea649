//! An incremental request parser: one pass over the receive buffer, spans out.

use std::fmt;

use memchr::memchr;

use crate::arguments::{Arguments, Span};
use crate::inline;
use crate::number::{parse_integer, short_length};

/// Limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of arguments of one request.
    pub arguments_max: usize,
    /// Maximum bytes of one argument (Redis's `proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Maximum bytes of an inline request's line, and of a line that contains a length.
    pub inline_bytes_max: usize,
    /// Whether the client has not authenticated yet. Until then, a request has at most
    /// [`UNAUTHENTICATED_ARGUMENTS_MAX`](Self::UNAUTHENTICATED_ARGUMENTS_MAX) arguments of at most
    /// [`UNAUTHENTICATED_BULK_BYTES_MAX`](Self::UNAUTHENTICATED_BULK_BYTES_MAX) bytes.
    pub unauthenticated: bool,
}

impl Limits {
    /// Maximum number of arguments of a request before authentication.
    pub const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;
    /// Maximum bytes of an argument before authentication.
    pub const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;

    /// Returns limits for commands written by a server, such as a master or this one: they may be
    /// longer than a client's.
    pub fn of_server() -> Self {
        Limits {
            bulk_bytes_max: 1 << 40,
            ..Limits::default()
        }
    }

    /// Returns the default limits for a client that has not authenticated yet.
    pub fn unauthenticated() -> Self {
        Limits {
            unauthenticated: true,
            ..Limits::default()
        }
    }

    fn arguments_allowed(&self) -> usize {
        let before = Self::UNAUTHENTICATED_ARGUMENTS_MAX;
        if self.unauthenticated {
            self.arguments_max.min(before)
        } else {
            self.arguments_max
        }
    }

    fn bulk_bytes_allowed(&self) -> usize {
        let before = Self::UNAUTHENTICATED_BULK_BYTES_MAX;
        if self.unauthenticated {
            self.bulk_bytes_max.min(before)
        } else {
            self.bulk_bytes_max
        }
    }
}

impl Default for Limits {
    /// Returns Redis's limits for an authenticated client.
    fn default() -> Self {
        Limits {
            arguments_max: i32::MAX as usize,
            bulk_bytes_max: 512 * 1024 * 1024,
            inline_bytes_max: 64 * 1024,
            unauthenticated: false,
        }
    }
}

/// The progress of a parser with the bytes received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request or reply is incomplete.
    Incomplete {
        /// Minimum number of missing bytes, at least 1. A driver may reserve room for them, since a
        /// bulk's length has been checked against its limit.
        needed: usize,
    },
    /// The first `consumed` bytes of the input were one whole request or reply.
    Complete {
        /// Number of bytes to remove from the input before the next call.
        consumed: usize,
    },
}

/// Why a request is invalid. All are the peer's fault, and the connection is unusable, because the
/// start of the next request is unknown. `Display` gives Redis's text, to be sent as `-ERR Protocol
/// error: ...` before closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A bulk was expected, but another byte came.
    ExpectedBulk(u8),
    /// A bulk's length is not a number, negative or over the limit.
    InvalidBulkLength,
    /// The number of arguments is not a number or over the limit.
    InvalidMultibulkLength,
    /// CR LF is missing after a bulk. (Redis skips the two bytes without checking. If this parser
    /// did too, two servers could see different requests in the same bytes.)
    MissingTerminator,
    /// The line with a bulk's length exceeds the limit.
    TooBigBulkCount,
    /// An inline request exceeds the limit.
    TooBigInline,
    /// The line with the number of arguments exceeds the limit.
    TooBigMultibulkCount,
    /// A bulk is too big for a client that has not authenticated.
    UnauthenticatedBulkLength,
    /// There are too many arguments for a client that has not authenticated.
    UnauthenticatedMultibulkLength,
    /// An inline request has an open quote, or text directly after a closing one.
    UnbalancedQuotes,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ProtocolError::ExpectedBulk(byte) => {
                return write!(formatter, "expected '$', got '{}'", printable(*byte));
            }
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::MissingTerminator => "expected CRLF after bulk",
            ProtocolError::TooBigBulkCount => "too big bulk count string",
            ProtocolError::TooBigInline => "too big inline request",
            ProtocolError::TooBigMultibulkCount => "too big mbulk count string",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
        })
    }
}

impl std::error::Error for ProtocolError {}

/// The head of a request: its number of arguments and the first of them, at most sixteen bytes. In
/// a pipeline, most requests have the same head as the previous one; [`RequestParser::parse_like`]
/// recognizes them with one comparison.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: u128,
    /// The relevant bits: those of the first `length` bytes.
    mask: u128,
    length: usize,
    arguments: usize,
    name: Span,
}

/// Finds the requests in one connection's bytes, which may be split anywhere.
///
/// It stores only offsets, no bytes, so the caller's buffer may move between two calls. (Quoted
/// inline arguments are the exception: they are unescaped into its own buffer.)
#[derive(Debug)]
pub struct RequestParser {
    limits: Limits,
    stage: Stage,
    /// Offset of the current line: the request's first, or the length line of the next bulk.
    position: usize,
    /// Offset up to which the input has been searched for that line's end; it may lie before the
    /// line, if the lines before it needed no search.
    searched: usize,
    /// Number of remaining arguments, including the current one.
    remaining: usize,
    /// The arguments found so far.
    spans: Vec<Span>,
    /// All arguments of an inline request with quotes; otherwise empty.
    unquoted: Vec<u8>,
}

impl RequestParser {
    /// Creates a parser for a new connection.
    pub fn new(limits: Limits) -> Self {
        RequestParser {
            limits,
            stage: Stage::Start,
            position: 0,
            searched: 0,
            remaining: 0,
            spans: Vec::new(),
            unquoted: Vec::new(),
        }
    }

    /// Returns the current limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets the limits for every length not parsed yet, for example after `AUTH`.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns whether no request has begun: the next byte is the first one of a request.
    #[inline]
    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Start)
    }

    /// Continues where it stopped. `input` begins at the first byte of the current request and
    /// contains all earlier bytes plus the new ones; they may have moved in memory.
    ///
    /// An empty request (`*0`, `*-1`, an empty inline line) completes with no arguments and gets no
    /// reply. After an error, the parser is unusable and keeps returning errors.
    #[inline]
    pub fn parse(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        match self.stage {
            Stage::Start => self.start(input),
            _ => self.resume(input),
        }
    }

    /// Returns the head of the request that [`parse`](Self::parse) has just completed at the front
    /// of `input`; `None` if the head is too long, and for an inline request.
    pub fn head(&self, input: &[u8]) -> Option<Head> {
        let name = *self.spans.first()?;
        let length = name.start + name.length + 2;
        if input.first() != Some(&b'*') || length > HEAD_BYTES_MAX {
            return None;
        }
        let bytes = u128::from_le_bytes(*input.first_chunk()?);
        let mask = u128::MAX >> (8 * (HEAD_BYTES_MAX - length));
        Some(Head {
            bytes: bytes & mask,
            mask,
            length,
            arguments: self.spans.len(),
            name,
        })
    }

    /// Parses a request that begins with this head, as [`parse`](Self::parse) does. Returns `None`,
    /// without any change, if it does not, or if another request has begun.
    #[inline]
    pub fn parse_like(
        &mut self,
        head: &Head,
        input: &[u8],
    ) -> Option<Result<Progress, ProtocolError>> {
        let bytes = u128::from_le_bytes(*input.first_chunk()?);
        if bytes & head.mask != head.bytes
            || !self.is_idle()
            || head.arguments > self.limits.arguments_allowed()
        {
            return None;
        }
        self.begin();
        self.spans.push(head.name);
        Some(self.take_bulks(input, head.length, head.arguments - 1))
    }

    /// Returns the arguments of the request that [`parse`](Self::parse) has just completed, as
    /// slices of the same `input` (quoted inline arguments: of the parser's unquoted copy).
    ///
    /// Accessing an argument panics if `input` is shorter than that request.
    #[inline]
    pub fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        let bytes = if self.unquoted.is_empty() {
            input
        } else {
            &self.unquoted
        };
        Arguments::new(bytes, &self.spans)
    }

    /// Returns the start of the bytes of a long argument that is incomplete; 0 if there is none.
    pub fn partial_argument(&self, input: &[u8]) -> usize {
        let line = input.get(self.position..).unwrap_or_default();
        let line = &line[..line.len().min(LENGTH_LINE_BYTES_MAX)];
        let Some(end) = memchr(b'\n', line) else {
            return 0;
        };
        let text = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
        let length = text.strip_prefix(b"$").and_then(parse_integer);
        match length {
            Some(LONG_ARGUMENT_BYTES..) if self.remaining > 0 => self.position + end + 1,
            _ => 0,
        }
    }

    /// Returns the parser's allocated memory in bytes, used or not. Small requests after a huge one
    /// free its memory.
    pub fn memory_bytes(&self) -> usize {
        self.unquoted.capacity() + self.spans.capacity() * size_of::<Span>()
    }

    /// Parses a request whose first line is complete (the hot path); most often the rest is
    /// complete too.
    #[inline]
    fn start(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        self.begin();
        match short_length::<b'*'>(input, 0) {
            Some((count, next)) if count <= self.limits.arguments_allowed() => {
                self.take_bulks(input, next, count)
            }
            _ => self.start_carefully(input),
        }
    }

    /// Clears the previous request.
    #[inline]
    fn begin(&mut self) {
        if self.spans.capacity() > SPANS_KEPT || self.unquoted.capacity() > UNQUOTED_BYTES_KEPT {
            self.give_back();
        }
        self.spans.clear();
        self.unquoted.clear();
        self.searched = 0;
    }

    /// Continues with `count` bulks from `position` on.
    #[inline]
    fn take_bulks(
        &mut self,
        input: &[u8],
        position: usize,
        count: usize,
    ) -> Result<Progress, ProtocolError> {
        self.position = position;
        self.remaining = count;
        self.whole_bulks(input);
        match self.remaining {
            0 => Ok(Progress::Complete {
                consumed: self.position,
            }),
            _ => self.bulks(input),
        }
    }

    #[cold]
    fn resume(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        match self.stage {
            Stage::Start => self.start(input),
            Stage::Inline => self.inline(input),
            Stage::Count => self.count(input),
            Stage::Bulks => self.bulks(input),
            Stage::Payload(bulk) => self.payload(input, bulk),
            Stage::Failed(error) => Err(error),
        }
    }

    #[cold]
    fn start_carefully(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        self.position = 0;
        match input.first() {
            Some(b'*') => self.count(input),
            Some(_) => {
                self.stage = Stage::Inline;
                self.inline(input)
            }
            None => Ok(Progress::Incomplete { needed: 1 }),
        }
    }

    /// Parses a number of arguments that is incomplete, negative, too big or invalid.
    fn count(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        let invalid = ProtocolError::InvalidMultibulkLength;
        let line = self.line(input, invalid, ProtocolError::TooBigMultibulkCount);
        let (text, next) = match line {
            Ok(Some(found)) => found,
            Ok(None) => return self.wait(Stage::Count, 1),
            Err(error) => return self.fail(error),
        };
        // `*-1` and other negative counts are empty requests.
        let count = parse_integer(text).and_then(|count| usize::try_from(count.max(0)).ok());
        match count {
            Some(count) if count <= self.limits.arguments_allowed() => {
                self.position = next;
                self.remaining = count;
                self.bulks(input)
            }
            Some(count) if count <= self.limits.arguments_max => {
                self.fail(ProtocolError::UnauthenticatedMultibulkLength)
            }
            _ => self.fail(invalid),
        }
    }

    /// Parses bulks, from the length line at `position` on, until the request or the input ends.
    fn bulks(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        loop {
            self.whole_bulks(input);
            if self.remaining == 0 {
                self.stage = Stage::Start;
                return Ok(Progress::Complete {
                    consumed: self.position,
                });
            }
            if let Some(progress) = self.careful_bulk(input)? {
                return Ok(progress);
            }
        }
    }

    /// Parses bulk after bulk as long as they are valid and complete (the hot loop).
    #[inline(always)]
    fn whole_bulks(&mut self, input: &[u8]) {
        let length_allowed = self.limits.bulk_bytes_allowed();
        // Kept in registers during the loop.
        let (mut position, mut remaining) = (self.position, self.remaining);
        while remaining > 0
            && let Some((length, start)) = short_length::<b'$'>(input, position)
            && length <= length_allowed
            && input
                .get(start + length..)
                .and_then(|rest| rest.first_chunk())
                == Some(b"\r\n")
        {
            self.spans.push(Span { start, length });
            position = start + length + 2;
            remaining -= 1;
        }
        (self.position, self.remaining) = (position, remaining);
    }

    /// Parses one bulk that the hot loop has left. Returns the progress unless the bulk was
    /// complete.
    #[cold]
    fn careful_bulk(&mut self, input: &[u8]) -> Result<Option<Progress>, ProtocolError> {
        let (length, start) = match self.bulk_length(input) {
            Ok(Some(found)) => found,
            Ok(None) => return self.wait(Stage::Bulks, 1).map(Some),
            Err(error) => return self.fail(error).map(Some),
        };
        if length > self.limits.bulk_bytes_allowed() {
            let error = match length > self.limits.bulk_bytes_max {
                true => ProtocolError::InvalidBulkLength,
                false => ProtocolError::UnauthenticatedBulkLength,
            };
            return self.fail(error).map(Some);
        }
        self.take_payload(input, Span { start, length })
    }

    /// Continues with a bulk of known length whose bytes were incomplete.
    fn payload(&mut self, input: &[u8], bulk: Span) -> Result<Progress, ProtocolError> {
        match self.take_payload(input, bulk)? {
            Some(progress) => Ok(progress),
            None => self.bulks(input),
        }
    }

    fn take_payload(
        &mut self,
        input: &[u8],
        bulk: Span,
    ) -> Result<Option<Progress>, ProtocolError> {
        let end = bulk.start + bulk.length;
        match input.get(end..).and_then(|rest| rest.first_chunk()) {
            Some(b"\r\n") => {
                self.spans.push(bulk);
                self.position = end + 2;
                self.remaining -= 1;
                Ok(None)
            }
            Some(_) => self.fail(ProtocolError::MissingTerminator).map(Some),
            None => self
                .wait(Stage::Payload(bulk), end + 2 - input.len())
                .map(Some),
        }
    }

    /// Returns the length of the bulk at `position` and the offset of its bytes, once its line is
    /// complete.
    fn bulk_length(&mut self, input: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
        match input.get(self.position) {
            Some(b'$') => {}
            Some(&other) => return Err(ProtocolError::ExpectedBulk(other)),
            None => return Ok(None),
        }
        let invalid = ProtocolError::InvalidBulkLength;
        let Some((text, next)) = self.line(input, invalid, ProtocolError::TooBigBulkCount)? else {
            return Ok(None);
        };
        let length = parse_integer(text).and_then(|length| usize::try_from(length).ok());
        Ok(Some((length.ok_or(invalid)?, next)))
    }

    fn inline(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        let line_bytes_max = self.limits.inline_bytes_max;
        let found = memchr(b'\n', &input[self.searched..]);
        let end = found.map_or(input.len(), |offset| self.searched + offset);
        if end > line_bytes_max {
            return self.fail(ProtocolError::TooBigInline);
        }
        if found.is_none() {
            self.searched = end;
            return Ok(Progress::Incomplete { needed: 1 });
        }
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        if inline::split(line, &mut self.spans, &mut self.unquoted).is_err() {
            return self.fail(ProtocolError::UnbalancedQuotes);
        }
        self.stage = Stage::Start;
        Ok(Progress::Complete { consumed: end + 1 })
    }

    /// Returns the line at `position` without its marker, and the offset after it, once it is
    /// complete.
    fn line<'i>(
        &mut self,
        input: &'i [u8],
        invalid: ProtocolError,
        too_big: ProtocolError,
    ) -> Result<Option<(&'i [u8], usize)>, ProtocolError> {
        let from = self.searched.max(self.position + 1);
        let found = memchr(b'\r', &input[from..]);
        let end = found.map_or(input.len(), |offset| from + offset);
        if end - self.position > self.limits.inline_bytes_max {
            return Err(too_big);
        }
        self.searched = end;
        match input.get(end + 1) {
            Some(b'\n') => Ok(Some((&input[self.position + 1..end], end + 2))),
            Some(_) => Err(invalid),
            None => Ok(None),
        }
    }

    fn wait(&mut self, stage: Stage, needed: usize) -> Result<Progress, ProtocolError> {
        self.stage = stage;
        Ok(Progress::Incomplete { needed })
    }

    #[cold]
    fn fail(&mut self, error: ProtocolError) -> Result<Progress, ProtocolError> {
        self.stage = Stage::Failed(error);
        Err(error)
    }

    /// Frees the memory of a huge request, unless the last one used a good part of it.
    #[cold]
    fn give_back(&mut self) {
        if self.spans.len() < self.spans.capacity() / 4 {
            self.spans.shrink_to(SPANS_KEPT);
        }
        if self.unquoted.len() < self.unquoted.capacity() / 4 {
            self.unquoted.shrink_to(UNQUOTED_BYTES_KEPT);
        }
    }
}

impl Default for RequestParser {
    fn default() -> Self {
        RequestParser::new(Limits::default())
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Before a request's first byte.
    Start,
    /// In an inline request's line.
    Inline,
    /// In the line with the number of arguments.
    Count,
    /// In the length line of a bulk, or directly before it.
    Bulks,
    /// In the bytes of a bulk or in its CR LF.
    Payload(Span),
    Failed(ProtocolError),
}

/// Formats printable ASCII unchanged and escapes other bytes: the text goes to logs and clients.
fn printable(byte: u8) -> impl fmt::Display {
    std::ascii::escape_default(byte)
}

/// Number of spans whose memory is kept between requests: 16 KiB.
const SPANS_KEPT: usize = 1024;

/// Number of unquoted bytes whose memory is kept between requests.
const UNQUOTED_BYTES_KEPT: usize = 4096;

/// Maximum bytes of a head: it is compared in one word.
const HEAD_BYTES_MAX: usize = 16;

/// An argument of this many bytes counts as long.
const LONG_ARGUMENT_BYTES: i64 = 32 << 10;
/// `$`, twenty digits and the line end.
const LENGTH_LINE_BYTES_MAX: usize = 24;

#[cfg(test)]
mod tests;
