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

/// Returns a server's response to a request for any path: it chooses the first of `protocols` that
/// the client offers, or none if the client offers none at all; `None` if this is no request for
/// WebSocket, or offers only others. Returns the position of the protocol too.
pub fn accept_upgrade(head: &[u8], protocols: &[&str]) -> Option<(String, Option<usize>)> {
    let (first, headers) = split_head(head)?;
    let is_get = first.starts_with("GET ") && first.ends_with(" HTTP/1.1");
    let mut keys = headers.values("Sec-WebSocket-Key");
    let (key, other) = (keys.next()?, keys.next());
    let is_key = key.len() == KEY_CHARACTERS && key.ends_with("==");
    let version_fits = headers.values("Sec-WebSocket-Version").eq(["13"]);
    if !is_get || !is_key || other.is_some() || !version_fits || !upgrades(headers) {
        return None;
    }
    let mut offers = headers.elements("Sec-WebSocket-Protocol").peekable();
    let chosen = match offers.peek() {
        None => None,
        Some(_) => Some(offers.find_map(|offer| protocols.iter().position(|one| *one == offer))?),
    };
    let accept = accept_of(key.as_bytes());
    let mut response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n"
    );
    if let Some(chosen) = chosen {
        response.push_str("Sec-WebSocket-Protocol: ");
        response.push_str(protocols[chosen]);
        response.push_str("\r\n");
    }
    response.push_str("\r\n");
    Some((response, chosen))
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

/// Length of a key: 16 octets in Base64.
const KEY_CHARACTERS: usize = 24;
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
    fn a_server_chooses_a_protocol_it_knows() {
        let known = ["a.1", "b.1"];
        let of = |protocol: &str| request("host", "/stream", protocol, KEY).unwrap();
        let chosen = |text: &str| accept_upgrade(text.as_bytes(), &known).map(|(_, one)| one);
        assert_eq!(chosen(&of("b.1")), Some(Some(1)));
        assert_eq!(chosen(&of("c, b.1, a.1")), Some(Some(1)));
        assert_eq!(chosen(&of("c")), None);
        let none = of("c").replace("Sec-WebSocket-Protocol: c\r\n", "");
        assert_eq!(chosen(&none), Some(None));
        for (now, instead) in [
            ("GET", "POST"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("Upgrade: websocket", "Upgrade: h2c"),
            ("Connection: Upgrade", "Connection: close"),
            ("Version: 13", "Version: 8"),
            (KEY, "c2hvcnQ="),
        ] {
            assert_eq!(chosen(&none.replace(now, instead)), None, "{instead}");
        }
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
