//! The part of HTTP/1 that the admin port needs: a request line, and an answer that ends with the
//! connection.

/// What has come of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// Its head has not ended.
    Incomplete,
    /// A GET or HEAD of this path, without its query.
    Request {
        path: String,
        /// HEAD: the answer has no body.
        is_head: bool,
    },
    /// What is answered instead.
    Refused(Status),
}

/// A status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    LineTooLong,
    HeadTooLong,
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

    /// What the body says where a request is refused.
    pub(super) fn text(self) -> &'static str {
        match self {
            Status::Ok => "ok\n",
            Status::BadRequest => "this is no request of HTTP/1\n",
            Status::Forbidden => "protected mode refuses other machines\n",
            Status::NotFound => "there are /metrics, /health and /ready\n",
            Status::MethodNotAllowed => "only GET and HEAD are answered\n",
            Status::LineTooLong => "the first line is longer than 2048 bytes\n",
            Status::HeadTooLong => "the request is longer than 8192 bytes\n",
            Status::Unavailable => "not ready\n",
        }
    }
}

/// Reads a request as far as it has come. Its body, which nothing here takes, is left unread.
pub(super) fn parse(input: &[u8]) -> Parsed {
    let end = input.iter().position(|&byte| byte == b'\n');
    if end.unwrap_or(input.len()) > LINE_BYTES_MAX {
        return Parsed::Refused(Status::LineTooLong);
    }
    let Some(end) = end else {
        return Parsed::Incomplete;
    };
    // Refused by its first line already: what is no HTTP never gets to its second.
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

/// An answer with this body, or only its head.
pub(super) fn answer(status: Status, body: &str, is_head: bool) -> Vec<u8> {
    let allow = match status {
        Status::MethodNotAllowed => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    let mut answer = format!(
        "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nCache-Control: no-store\r\n{allow}Connection: close\r\n\r\n",
        status.line(),
        body.len()
    )
    .into_bytes();
    if !is_head {
        answer.extend_from_slice(body.as_bytes());
    }
    answer
}

/// The longest first line.
const LINE_BYTES_MAX: usize = 2 << 10;
/// The longest head.
const HEAD_BYTES_MAX: usize = 8 << 10;

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
            assert_eq!(parse(&whole[..end]), Parsed::Incomplete, "{end}");
        }
        assert_eq!(parse(whole), request("/ready", false));
        assert_eq!(
            parse(b"HEAD /health HTTP/1.0\r\n\r\n"),
            request("/health", true)
        );
        assert_eq!(parse(b"GET / HTTP/1.1\n\n"), request("/", false));
    }

    #[test]
    fn what_is_no_request_is_refused_at_its_first_line() {
        for (input, status) in [
            (&b"POST /health HTTP/1.1\r\n"[..], Status::MethodNotAllowed),
            (b"*1\r\n$4\r\nPING\r\n", Status::BadRequest),
            (b"SET a b\r\n", Status::BadRequest),
            (b"\r\n", Status::BadRequest),
            (b"\xff\xfe x HTTP/1.1\r\n", Status::BadRequest),
            (b"GET /health HTTP/2.0\r\n", Status::BadRequest),
        ] {
            assert_eq!(
                parse(input),
                Parsed::Refused(status),
                "{}",
                input.escape_ascii()
            );
        }
    }

    #[test]
    fn neither_line_nor_head_may_grow_without_end() {
        assert_eq!(parse(&[b'a'; 3_000]), Parsed::Refused(Status::LineTooLong));
        let endless = [b"GET / HTTP/1.1\r\n", &[b'a'; 9_000][..]].concat();
        assert_eq!(parse(&endless), Parsed::Refused(Status::HeadTooLong));
    }

    #[test]
    fn a_head_says_how_long_the_body_would_be() {
        let whole = String::from_utf8(answer(Status::Ok, "ok\n", false)).unwrap();
        let head = String::from_utf8(answer(Status::Ok, "ok\n", true)).unwrap();
        assert_eq!(whole, format!("{head}ok\n"));
        assert!(head.contains("Content-Length: 3\r\n"));
        let refused = answer(Status::MethodNotAllowed, "", false);
        assert!(
            String::from_utf8(refused)
                .unwrap()
                .contains("Allow: GET, HEAD\r\n")
        );
    }
}
