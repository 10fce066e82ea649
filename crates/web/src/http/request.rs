//! A request of which only the first line matters, and a response after which the connection
//! closes.

use super::HEAD_BYTES_MAX;
use super::head::may_begin;

/// The result of parsing a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The head is not complete.
    Incomplete,
    /// A GET or HEAD of this path, without its query.
    Request {
        /// Begins with `/`, unless the client sent something else.
        path: String,
        /// Whether it is a HEAD request: the response has no body.
        is_head: bool,
    },
    /// Refused with this status.
    Refused(Status),
}

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 200.
    Ok,
    /// 400.
    BadRequest,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 405: only GET and HEAD are allowed.
    MethodNotAllowed,
    /// 414: the first line is longer than [`LINE_BYTES_MAX`].
    LineTooLong,
    /// 431: the head is longer than [`HEAD_BYTES_MAX`].
    HeadTooLong,
    /// 503.
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::LineTooLong => "414 URI Too Long",
            Status::HeadTooLong => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// Parses a GET or HEAD as far as it has been received. A body is not read.
pub fn parse_request(input: &[u8]) -> Parsed {
    if !may_begin(input) {
        return Parsed::Refused(Status::BadRequest);
    }
    let end = input.iter().position(|&byte| byte == b'\n');
    if end.unwrap_or(input.len()) > LINE_BYTES_MAX {
        return Parsed::Refused(Status::LineTooLong);
    }
    let Some(end) = end else {
        return Parsed::Incomplete;
    };
    // Input that is not HTTP is refused by its first line, without waiting for a second.
    let line = input[..end].trim_ascii_end();
    let request = match read_line(line) {
        Ok(request) => request,
        Err(status) => return Parsed::Refused(status),
    };
    let head = &input[end + 1..];
    let has_ended = head.starts_with(b"\r\n")
        || head.starts_with(b"\n")
        || head.windows(4).any(|part| part == b"\r\n\r\n")
        || head.windows(2).any(|part| part == b"\n\n");
    match has_ended {
        true => request,
        false if input.len() > HEAD_BYTES_MAX => Parsed::Refused(Status::HeadTooLong),
        false => Parsed::Incomplete,
    }
}

fn read_line(line: &[u8]) -> Result<Parsed, Status> {
    let line = std::str::from_utf8(line).map_err(|_| Status::BadRequest)?;
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else {
        return Err(Status::BadRequest);
    };
    if !version.starts_with("HTTP/1.") || method.is_empty() {
        return Err(Status::BadRequest);
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Status::MethodNotAllowed),
    };
    let path = target.split(['?', '#']).next().unwrap_or_default();
    Ok(Parsed::Request {
        path: path.to_owned(),
        is_head,
    })
}

/// Returns a response with this body, or only its head. The connection closes after it.
pub fn response(status: Status, content_type: &str, body: &str, is_head: bool) -> Vec<u8> {
    let allow = match status {
        Status::MethodNotAllowed => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    let mut response = format!(
        "HTTP/1.1 {}\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\nCache-Control: no-store\r\n{allow}Connection: close\r\n\r\n",
        status.line(),
        body.len()
    )
    .into_bytes();
    if !is_head {
        response.extend_from_slice(body.as_bytes());
    }
    response
}

/// Maximum length of the first line, in bytes.
pub const LINE_BYTES_MAX: usize = 2 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, is_head: bool) -> Parsed {
        Parsed::Request {
            path: path.to_owned(),
            is_head,
        }
    }

    #[test]
    fn a_request_is_read_wherever_it_is_cut() {
        let whole = b"GET /ready?verbose HTTP/1.1\r\nHost: x\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse_request(&whole[..end]), Parsed::Incomplete, "{end}");
        }
        assert_eq!(parse_request(whole), request("/ready", false));
        assert_eq!(
            parse_request(b"HEAD /health HTTP/1.0\r\n\r\n"),
            request("/health", true)
        );
        assert_eq!(parse_request(b"GET / HTTP/1.1\n\n"), request("/", false));
    }

    #[test]
    fn what_is_no_request_is_refused_at_its_first_line() {
        for (input, status) in [
            (&b"POST /health HTTP/1.1\r\n"[..], Status::MethodNotAllowed),
            (b"*1\r\n$4\r\nPING\r\n", Status::BadRequest),
            (b"SET a b\r\n", Status::BadRequest),
            (b"\r\n", Status::BadRequest),
            (b"\xff\xfe x HTTP/1.1\r\n", Status::BadRequest),
            (b"\x16\x03\x01", Status::BadRequest),
            (&[b'a'; 100], Status::BadRequest),
            (b"GET /health HTTP/2.0\r\n", Status::BadRequest),
        ] {
            assert_eq!(
                parse_request(input),
                Parsed::Refused(status),
                "{}",
                input.escape_ascii()
            );
        }
    }

    #[test]
    fn neither_line_nor_head_may_grow_without_end() {
        assert_eq!(
            parse_request(&[b"GET /", &[b'a'; 3_000][..]].concat()),
            Parsed::Refused(Status::LineTooLong)
        );
        let endless = [b"GET / HTTP/1.1\r\n", &[b'a'; 9_000][..]].concat();
        assert_eq!(
            parse_request(&endless),
            Parsed::Refused(Status::HeadTooLong)
        );
    }

    #[test]
    fn a_head_says_how_long_the_body_would_be() {
        let whole = String::from_utf8(response(Status::Ok, "text/plain", "ok\n", false)).unwrap();
        let head = String::from_utf8(response(Status::Ok, "text/plain", "ok\n", true)).unwrap();
        assert_eq!(whole, format!("{head}ok\n"));
        assert!(head.contains("Content-Length: 3\r\n"));
        let refused = response(Status::MethodNotAllowed, "text/plain", "", false);
        assert!(
            String::from_utf8(refused)
                .unwrap()
                .contains("Allow: GET, HEAD\r\n")
        );
    }
}
