//! The web pages whose scripts may open a WebSocket.
//!
//! A browser lets the script of any page connect to any address that the browser reaches, such as
//! this machine's loopback address. It names the page in the header `Origin`, which a script cannot
//! change. Programs other than browsers send no such header.

use crate::http::split_head;

/// The origins that a server accepts. The default is none: only requests without an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    accepts_all: bool,
    listed: Vec<String>,
}

/// A text that is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an origin: write https://HOST or http://HOST:PORT without a path, null, or *"
)]
pub struct InvalidOrigin(pub String);

impl Origins {
    /// Accepts these origins: `SCHEME://HOST` with a port that is not the scheme's default, `null`
    /// (pages without an origin, such as local files), or `*` for every page.
    ///
    /// # Errors
    /// [`InvalidOrigin`]: a text that no browser sends.
    pub fn new<T: AsRef<str>>(texts: &[T]) -> Result<Origins, InvalidOrigin> {
        let mut origins = Origins::default();
        for text in texts.iter().map(AsRef::as_ref) {
            match text {
                "*" => origins.accepts_all = true,
                _ if is_origin(text) => origins.listed.push(text.to_owned()),
                _ => return Err(InvalidOrigin(text.to_owned())),
            }
        }
        Ok(origins)
    }

    /// Accepts every page.
    pub fn all() -> Origins {
        Origins {
            accepts_all: true,
            listed: Vec::new(),
        }
    }

    /// Returns whether a request with this head is accepted: every origin that it names is.
    pub fn accept(&self, head: &[u8]) -> bool {
        let Some((_, headers)) = split_head(head) else {
            return false;
        };
        let is_listed = |origin: &str| {
            let mut listed = self.listed.iter();
            listed.any(|known| known.eq_ignore_ascii_case(origin))
        };
        self.accepts_all || headers.values("Origin").all(is_listed)
    }
}

fn is_origin(text: &str) -> bool {
    if text == "null" {
        return true;
    }
    let Some((scheme, host)) = text.split_once("://") else {
        return false;
    };
    let is_host = |octet: u8| octet.is_ascii_alphanumeric() || b".-_:[]".contains(&octet);
    let is_scheme = |octet: u8| octet.is_ascii_alphanumeric() || b"+-.".contains(&octet);
    !scheme.is_empty()
        && !host.is_empty()
        && scheme.bytes().all(is_scheme)
        && host.bytes().all(is_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(headers: &str) -> Vec<u8> {
        format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n").into_bytes()
    }

    #[test]
    fn a_request_without_an_origin_is_accepted_and_a_page_only_if_it_is_listed() {
        let page = head("oRIGIN:  https://a.example \r\n");
        for (listed, is_accepted) in [
            (&[][..], false),
            (&["https://b.example"], false),
            (&["https://a.example:8443"], false),
            (&["http://a.example"], false),
            (&["https://b.example", "https://A.example"], true),
            (&["*"], true),
        ] {
            let origins = Origins::new(listed).unwrap();
            assert_eq!(origins.accept(&page), is_accepted, "{listed:?}");
            assert!(origins.accept(&head("")), "{listed:?}");
        }
        assert!(Origins::all().accept(&page));
    }

    #[test]
    fn no_second_origin_hides_behind_an_accepted_one() {
        let origins = Origins::new(&["https://a.example", "null"]).unwrap();
        assert!(origins.accept(&head("Origin: null\r\n")));
        assert!(!origins.accept(&head("Origin: \r\n")));
        let two = "Origin: https://a.example\r\nOrigin: https://evil.example\r\n";
        assert!(!origins.accept(&head(two)));
        assert!(!origins.accept(&head("Origin: https://a.example https://evil.example\r\n")));
        assert!(!origins.accept(b"GET / HTTP/1.1\r\nOrigin: \xff\r\n\r\n"));
    }

    #[test]
    fn what_no_browser_sends_is_no_origin() {
        for text in [
            "",
            "a.example",
            "https://",
            "https://a/",
            "https://a b",
            "://a",
            "h:/a",
        ] {
            assert_eq!(Origins::new(&[text]), Err(InvalidOrigin(text.to_owned())));
        }
        let texts = [
            "http://[::1]:3000",
            "null",
            "moz-extension://1-2",
            "http://localhost:80",
        ];
        assert!(Origins::new(&texts).is_ok());
    }
}
