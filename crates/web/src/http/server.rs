//! The requests of a server that keeps connections open: strict, so that no two readers of a
//! request can disagree where it ends (request smuggling, RFC 9112 section 11.2).

use super::head::{is_token, may_begin};
use super::{HEAD_BYTES_MAX, Headers, LINE_BYTES_MAX, split_head};

/// Maximum length of a request's body in bytes.
pub const BODY_BYTES_MAX: usize = 4 << 10;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD: the response has no body.
    Head,
    /// POST.
    Post,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'i> {
    /// The method.
    pub method: Method,
    /// The path without its query.
    pub path: &'i str,
    /// The query without its question mark; empty without one.
    pub query: &'i str,
    /// The value of its `Host`.
    pub host: &'i str,
    /// The head with its first line.
    pub head: &'i [u8],
    /// The headers.
    pub headers: Headers<'i>,
    /// The body.
    pub body: &'i [u8],
    /// Whether the connection stays open after the response.
    pub keeps_alive: bool,
    /// Length of head and body in bytes.
    pub size_bytes: usize,
}

/// Why a request is refused. The connection closes after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 400: malformed, or its end is ambiguous.
    BadRequest,
    /// 405: another method.
    MethodNotAllowed,
    /// 411: a POST without a length.
    LengthRequired,
    /// 413: the body is longer than [`BODY_BYTES_MAX`].
    ContentTooLarge,
    /// 414: the first line is longer than [`LINE_BYTES_MAX`].
    LineTooLong,
    /// 417: an `Expect`.
    ExpectationFailed,
    /// 431: the head is longer than [`HEAD_BYTES_MAX`].
    HeadTooLong,
    /// 505: another version.
    Version,
}

impl Refusal {
    /// Returns the status line's number and words.
    pub fn status(self) -> &'static str {
        match self {
            Refusal::BadRequest => "400 Bad Request",
            Refusal::MethodNotAllowed => "405 Method Not Allowed",
            Refusal::LengthRequired => "411 Length Required",
            Refusal::ContentTooLarge => "413 Content Too Large",
            Refusal::LineTooLong => "414 URI Too Long",
            Refusal::ExpectationFailed => "417 Expectation Failed",
            Refusal::HeadTooLong => "431 Request Header Fields Too Large",
            Refusal::Version => "505 HTTP Version Not Supported",
        }
    }
}

/// The result of reading a request.
#[derive(Clone, Copy, Debug)]
pub enum Read<'i> {
    /// It is not complete.
    Incomplete,
    /// A request.
    Request(Request<'i>),
    /// Refused.
    Refused(Refusal),
}

/// Reads the request at the front of `input`.
pub fn read(input: &[u8]) -> Read<'_> {
    match read_head(input) {
        Ok(None) => Read::Incomplete,
        Ok(Some(request)) if input.len() < request.size_bytes => Read::Incomplete,
        Ok(Some(request)) => Read::Request(request),
        Err(refusal) => Read::Refused(refusal),
    }
}

fn read_head(input: &[u8]) -> Result<Option<Request<'_>>, Refusal> {
    let line_bytes = input.iter().position(|byte| *byte == b'\n');
    if line_bytes.unwrap_or(input.len()) > LINE_BYTES_MAX {
        return Err(Refusal::LineTooLong);
    }
    let Some(line_bytes) = line_bytes else {
        return match may_begin(input) {
            true => Ok(None),
            false => Err(Refusal::BadRequest),
        };
    };
    // What is not HTTP is refused by its first line.
    let line = input[..line_bytes]
        .strip_suffix(b"\r")
        .ok_or(Refusal::BadRequest)?;
    let (method, target, is_old) = read_line(line)?;
    let end = input
        .windows(4)
        .take(HEAD_BYTES_MAX)
        .position(|part| part == b"\r\n\r\n");
    let Some(end) = end else {
        return match input.len() > HEAD_BYTES_MAX {
            true => Err(Refusal::HeadTooLong),
            false => Ok(None),
        };
    };
    let head = &input[..end + 4];
    let (_, headers) = split_head(head).ok_or(Refusal::BadRequest)?;
    check_lines(&input[line_bytes + 1..end + 2])?;
    let mut hosts = headers.values("Host");
    let (host, other) = (hosts.next(), hosts.next());
    let is_nowhere = host.is_none_or(str::is_empty);
    if other.is_some() || is_nowhere && (host.is_some() || !is_old) {
        return Err(Refusal::BadRequest);
    }
    if headers.values("Transfer-Encoding").next().is_some() {
        return Err(Refusal::BadRequest);
    }
    if headers.values("Expect").next().is_some() {
        return Err(Refusal::ExpectationFailed);
    }
    let body_bytes = body_bytes(method, headers)?;
    let mut connection = headers.elements("Connection");
    let closes = connection.any(|element| element.eq_ignore_ascii_case("close"));
    let start = head.len();
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Some(Request {
        method,
        path,
        query,
        host: host.unwrap_or_default(),
        head,
        headers,
        body: input.get(start..start + body_bytes).unwrap_or_default(),
        keeps_alive: !is_old && !closes,
        size_bytes: start + body_bytes,
    }))
}

fn read_line(line: &[u8]) -> Result<(Method, &str, bool), Refusal> {
    let line = std::str::from_utf8(line).map_err(|_| Refusal::BadRequest)?;
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else {
        return Err(Refusal::BadRequest);
    };
    let is_old = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ if version.starts_with("HTTP/") => return Err(Refusal::Version),
        _ => return Err(Refusal::BadRequest),
    };
    let is_graphic = target.bytes().all(|byte| byte.is_ascii_graphic());
    if !target.starts_with('/') || !is_graphic {
        return Err(Refusal::BadRequest);
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "" => return Err(Refusal::BadRequest),
        _ => return Err(Refusal::MethodNotAllowed),
    };
    Ok((method, target, is_old))
}

/// Refuses header lines that readers take differently: a line end without its CR, a folded line,
/// a space in front of the colon, control characters.
fn check_lines(lines: &[u8]) -> Result<(), Refusal> {
    let lines = lines.strip_suffix(b"\r\n").unwrap_or(lines);
    if lines.is_empty() {
        return Ok(());
    }
    for line in lines.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.ok_or(Refusal::BadRequest)?);
        let is_text = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) || !value.iter().all(is_text)
        {
            return Err(Refusal::BadRequest);
        }
    }
    // Each line but the last ends with CR LF, and there is no other LF.
    let feeds = lines.iter().filter(|byte| **byte == b'\n').count();
    let ends = lines.windows(2).filter(|pair| pair == b"\r\n").count();
    match feeds == ends {
        true => Ok(()),
        false => Err(Refusal::BadRequest),
    }
}

fn body_bytes(method: Method, headers: Headers<'_>) -> Result<usize, Refusal> {
    let mut lengths = headers.values("Content-Length");
    let (length, other) = (lengths.next(), lengths.next());
    if other.is_some() {
        return Err(Refusal::BadRequest);
    }
    let Some(length) = length else {
        return match method {
            Method::Post => Err(Refusal::LengthRequired),
            Method::Get | Method::Head => Ok(0),
        };
    };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::BadRequest);
    }
    // Digits that do not fit are a length that is too great.
    let length = length.parse().unwrap_or(usize::MAX);
    match method {
        Method::Get | Method::Head if length > 0 => Err(Refusal::BadRequest),
        _ if length > BODY_BYTES_MAX => Err(Refusal::ContentTooLarge),
        _ => Ok(length),
    }
}

/// A response.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'r> {
    /// Number and words of the status.
    pub status: &'r str,
    /// The type of the body; empty without a body.
    pub content_type: &'r str,
    /// Further header lines, each with its line end.
    pub headers: &'r str,
    /// The body.
    pub body: &'r [u8],
}

impl Reply<'_> {
    /// Appends the response. `has_body` is false for HEAD.
    pub fn write(&self, has_body: bool, keeps_alive: bool, out: &mut Vec<u8>) {
        let connection = if keeps_alive { "keep-alive" } else { "close" };
        let kind = match self.content_type {
            "" => String::new(),
            kind => format!("Content-Type: {kind}\r\n"),
        };
        // A response without content has no length either (RFC 9110, section 8.6).
        let length = match self.status.starts_with("204") || self.status.starts_with("304") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", self.body.len()),
        };
        let head = format!(
            "HTTP/1.1 {}\r\n{kind}{length}{}Connection: {connection}\r\n\r\n",
            self.status, self.headers
        );
        out.extend_from_slice(head.as_bytes());
        if has_body {
            out.extend_from_slice(self.body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: &str) -> Option<Refusal> {
        match read(input.as_bytes()) {
            Read::Refused(refusal) => Some(refusal),
            Read::Incomplete | Read::Request(_) => None,
        }
    }

    #[test]
    fn requests_follow_each_other() {
        let first = "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody";
        let both = format!("{first}GET /a?b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        for end in 0..first.len() {
            assert!(
                matches!(read(&first.as_bytes()[..end]), Read::Incomplete),
                "{end}"
            );
        }
        let Read::Request(request) = read(both.as_bytes()) else {
            panic!("a request");
        };
        assert_eq!((request.method, request.body), (Method::Post, &b"body"[..]));
        assert!(request.keeps_alive && request.size_bytes == first.len());
        let Read::Request(request) = read(&both.as_bytes()[first.len()..]) else {
            panic!("a request");
        };
        assert_eq!(
            (request.method, request.path, request.host),
            (Method::Get, "/a", "x")
        );
        assert_eq!(request.query, "b");
        assert!(!request.keeps_alive);
    }

    #[test]
    fn a_request_whose_end_is_ambiguous_is_refused() {
        let of = |headers: &str| format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        for headers in [
            "Transfer-Encoding: chunked\r\n",
            "transfer-encoding: identity\r\n",
            "Content-Length: 1\r\n",
            "Content-Length: 0\r\nContent-Length: 0\r\n",
            "Content-Length: +0\r\n",
            "Content-Length: 0, 0\r\n",
            "Content-Length : 0\r\n",
            "Content-Length:\r\n",
            "A: b\r\n folded\r\n",
            "A: b\nB: c\r\n",
            "A: b\rB: c\r\n",
            "A: \0\r\n",
            ": b\r\n",
            "no header\r\n",
            "Host: y\r\n",
        ] {
            assert_eq!(
                refused(&of(headers)),
                Some(Refusal::BadRequest),
                "{headers:?}"
            );
        }
        assert_eq!(refused(&of("")), None);
        assert_eq!(refused(&of("A: b\r\nC:d\r\n")), None);
    }

    #[test]
    fn what_the_server_does_not_serve_has_its_status() {
        for (input, refusal) in [
            ("GET / HTTP/1.1\r\n\r\n", Refusal::BadRequest),
            ("GET / HTTP/1.1\r\nHost: \r\n\r\n", Refusal::BadRequest),
            ("GET / HTTP/1.0\r\nHost:\r\n\r\n", Refusal::BadRequest),
            ("\x16\x03\x01", Refusal::BadRequest),
            ("GET\t/", Refusal::BadRequest),
            ("GET / HTTP/1.1\n\n", Refusal::BadRequest),
            ("GET http://x/ HTTP/1.1\r\n", Refusal::BadRequest),
            ("*1\r\n$4\r\nPING\r\n", Refusal::BadRequest),
            ("PRI * HTTP/2.0\r\n", Refusal::Version),
            ("GET / HTTP/2.0\r\n", Refusal::Version),
            ("PUT / HTTP/1.1\r\n", Refusal::MethodNotAllowed),
            (
                "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
                Refusal::LengthRequired,
            ),
            (
                "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4097\r\n\r\n",
                Refusal::ContentTooLarge,
            ),
            (
                "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
                Refusal::ContentTooLarge,
            ),
            (
                "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
                Refusal::ExpectationFailed,
            ),
        ] {
            assert_eq!(refused(input), Some(refusal), "{input:?}");
        }
        let long = "a".repeat(3_000);
        assert_eq!(refused(&long), Some(Refusal::LineTooLong));
        let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(9_000));
        assert_eq!(refused(&long), Some(Refusal::HeadTooLong));
        assert_eq!(refused("GET / HTTP/1.0\r\n\r\n"), None);
    }

    #[test]
    fn a_response_says_how_long_it_is() {
        let reply = Reply {
            status: "200 OK",
            content_type: "text/plain",
            headers: "A: b\r\n",
            body: b"ok",
        };
        let (mut whole, mut head) = (Vec::new(), Vec::new());
        reply.write(true, true, &mut whole);
        reply.write(false, true, &mut head);
        assert_eq!(whole, [&head[..], b"ok"].concat());
        let expected = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\
                        A: b\r\nConnection: keep-alive\r\n\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), expected);
    }
}
