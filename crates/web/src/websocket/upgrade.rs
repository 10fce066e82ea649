//! The HTTP upgrade: request and response.

use super::accept::accept_of;
use crate::http::{Headers, split_head};

/// Returns whether the bytes received so far can be the beginning of an upgrade request.
pub fn may_become_request(head: &[u8]) -> bool {
    may_become(head, b"GET ")
}

/// Returns whether the bytes received so far can be the beginning of an upgrade response.
pub fn may_become_response(head: &[u8]) -> bool {
    may_become(head, SWITCHES.as_bytes())
}

fn may_become(head: &[u8], expected: &[u8]) -> bool {
    let count = head.len().min(expected.len());
    head[..count] == expected[..count]
}

/// Returns a client's request for a subprotocol, with a random key in Base64; `None` if host or
/// path have characters that are not allowed in a request.
pub fn request(host: &str, path: &str, protocol: &str, key: &str) -> Option<String> {
    let is_printable = |text: &str| text.bytes().all(|octet| octet.is_ascii_graphic());
    if !is_printable(host) || !is_printable(path) || !path.starts_with('/') {
        return None;
    }
    Some(format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {protocol}\r\n\
         Sec-WebSocket-Version: 13\r\n\r\n"
    ))
}

/// Returns a server's response to a request for this subprotocol; `None` if the request asks for
/// something else.
pub fn response_to(head: &[u8], protocol: &str) -> Option<String> {
    let (first, headers) = split_head(head)?;
    let (path, version) = first.strip_prefix("GET ")?.rsplit_once(' ')?;
    let version_fits = headers
        .values("Sec-WebSocket-Version")
        .all(|version| version == "13");
    let offers = headers
        .elements("Sec-WebSocket-Protocol")
        .any(|offer| offer == protocol);
    let key = headers.values("Sec-WebSocket-Key").next()?;
    if path.is_empty() || version != "HTTP/1.1" || !version_fits || !offers || key.is_empty() {
        return None;
    }
    if !upgrades(headers) {
        return None;
    }
    let accept = accept_of(key.as_bytes());
    Some(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    ))
}

/// Returns whether a server's response upgrades to this subprotocol, and proves it with `accept`,
/// the [`accept_of`] the request's key.
pub fn is_response(head: &[u8], accept: &str, protocol: &str) -> bool {
    let Some((first, headers)) = split_head(head) else {
        return false;
    };
    let is_only = |name: &str, value: &str| headers.values(name).eq([value]);
    first.starts_with(SWITCHES)
        && upgrades(headers)
        && is_only("Sec-WebSocket-Accept", accept)
        && is_only("Sec-WebSocket-Protocol", protocol)
}

/// Returns whether the headers request or grant an upgrade to WebSocket.
fn upgrades(headers: Headers<'_>) -> bool {
    let mut upgrade = headers.elements("Upgrade");
    let mut connection = headers.elements("Connection");
    upgrade.any(|element| element.eq_ignore_ascii_case("websocket"))
        && connection.any(|element| element.eq_ignore_ascii_case("upgrade"))
}

/// The beginning of every upgrade response.
const SWITCHES: &str = "HTTP/1.1 101";

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    #[test]
    fn a_server_and_a_client_agree() {
        let request = request("host:80", "/path", "chat", KEY).unwrap();
        let response = response_to(request.as_bytes(), "chat").unwrap();
        assert!(is_response(
            response.as_bytes(),
            &accept_of(KEY.as_bytes()),
            "chat"
        ));
        assert!(!is_response(
            response.as_bytes(),
            &accept_of(b"other"),
            "chat"
        ));
        assert!(!is_response(
            response.as_bytes(),
            &accept_of(KEY.as_bytes()),
            "other"
        ));
        assert_eq!(response_to(request.as_bytes(), "other"), None);
        for end in 0..=request.len() {
            assert!(may_become_request(&request.as_bytes()[..end]));
        }
        for end in 0..=response.len() {
            assert!(may_become_response(&response.as_bytes()[..end]));
        }
        assert!(!may_become_request(b"POST") && !may_become_response(b"HTTP/1.1 4"));
    }

    #[test]
    fn a_request_has_no_foreign_characters() {
        for (host, path) in [("a b", "/"), ("a", "/\r\n"), ("a", "path"), ("a", "")] {
            assert_eq!(request(host, path, "chat", KEY), None);
        }
    }

    #[test]
    fn what_is_no_request_for_websocket_is_refused() {
        let whole = request("host", "/", "chat", KEY).unwrap();
        for (now, instead) in [
            ("GET", "POST"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("Upgrade: websocket", "Upgrade: h2c"),
            ("Connection: Upgrade", "Connection: close"),
            ("Version: 13", "Version: 8"),
            ("Sec-WebSocket-Key", "Sec-WebSocket-Kex"),
        ] {
            assert!(whole.contains(now), "{now}");
            let changed = whole.replace(now, instead);
            assert_eq!(response_to(changed.as_bytes(), "chat"), None, "{instead}");
        }
    }
}
