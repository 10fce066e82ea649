//! The HTTP upgrade: request and answer.

use super::accept::answer_to;

/// What ends the head of a request or an answer.
pub(super) const END: &[u8] = b"\r\n\r\n";
/// The longest head: browsers send cookies along.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;
pub(super) const BAD_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Adds input to the head, to its end and no further; how much of it.
pub(super) fn gather(head: &mut Vec<u8>, input: &[u8]) -> usize {
    let known = head.len();
    let room = HEAD_BYTES_MAX.saturating_sub(known);
    head.extend_from_slice(&input[..input.len().min(room)]);
    let from = known.saturating_sub(END.len() - 1);
    let end = head[from..].windows(END.len()).position(|part| part == END);
    if let Some(end) = end {
        head.truncate(from + end + END.len());
    }
    head.len() - known
}

/// Whether what has come so far can be the beginning of an answer or of a request.
pub(super) fn may_become_one(head: &[u8], answer: bool) -> bool {
    let expected: &[u8] = if answer { b"HTTP/1.1 101" } else { b"GET " };
    let count = head.len().min(expected.len());
    head[..count] == expected[..count]
}

/// A client's request.
pub(super) fn request(host: &str, path: &str, mechanism: &str, key: &str) -> Option<String> {
    let is_printable = |text: &str| text.bytes().all(|octet| octet.is_ascii_graphic());
    if !is_printable(host) || !is_printable(path) || !path.starts_with('/') {
        return None;
    }
    Some(format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {PREFIX}{mechanism}\r\n\
         Sec-WebSocket-Version: 13\r\n\r\n"
    ))
}

/// A server's answer to a request, unless it asks for something else.
pub(super) fn answer(head: &[u8], mechanism: &str) -> Option<String> {
    let (first, headers) = lines(head)?;
    let (path, version) = first.strip_prefix("GET ")?.rsplit_once(' ')?;
    let version_fits = headers
        .values("Sec-WebSocket-Version")
        .all(|version| version == "13");
    let wanted = format!("{PREFIX}{mechanism}");
    let offers = headers
        .elements("Sec-WebSocket-Protocol")
        .any(|offer| offer == wanted);
    let key = headers.values("Sec-WebSocket-Key").next()?;
    if path.is_empty() || version != "HTTP/1.1" || !version_fits || !offers || key.is_empty() {
        return None;
    }
    if !headers.upgrades() {
        return None;
    }
    let accept = answer_to(key.as_bytes());
    Some(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {wanted}\r\n\r\n"
    ))
}

/// Whether a server's answer is the one asked for.
pub(super) fn check_answer(head: &[u8], accept: &str, mechanism: &str) -> bool {
    let Some((first, headers)) = lines(head) else {
        return false;
    };
    let wanted = format!("{PREFIX}{mechanism}");
    let is_only = |name: &str, value: &str| headers.values(name).eq([value]);
    first.starts_with("HTTP/1.1 101")
        && headers.upgrades()
        && is_only("Sec-WebSocket-Accept", accept)
        && is_only("Sec-WebSocket-Protocol", &wanted)
}

/// The headers of a head, unfolded as they came.
struct Headers<'h>(&'h str);

impl<'h> Headers<'h> {
    fn values(&self, name: &str) -> impl Iterator<Item = &'h str> {
        self.0
            .split("\r\n")
            .filter_map(|line| line.split_once(':'))
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    /// The elements of a list that may stand in several headers.
    fn elements(&self, name: &str) -> impl Iterator<Item = &'h str> {
        let lists = self.values(name);
        lists.flat_map(|list| list.split(',').map(str::trim))
    }

    fn upgrades(&self) -> bool {
        let mut upgrade = self.elements("Upgrade");
        let mut connection = self.elements("Connection");
        upgrade.any(|element| element.eq_ignore_ascii_case("websocket"))
            && connection.any(|element| element.eq_ignore_ascii_case("upgrade"))
    }
}

/// The first line, and the headers.
fn lines(head: &[u8]) -> Option<(&str, Headers<'_>)> {
    let head = std::str::from_utf8(head).ok()?;
    let (first, headers) = head.split_once("\r\n")?;
    Some((first, Headers(headers)))
}

/// ZWS's name for a mechanism begins so.
const PREFIX: &str = "ZWS2.0/";
