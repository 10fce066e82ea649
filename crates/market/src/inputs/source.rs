//! The addresses of a native feed, as users write them.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use tidewire_feed::wire::Credentials;
use tidewire_lane::secure_place;

use super::config::{InputError, address};

/// `HOST:PORT`, or `tls://HOST:PORT` for a server with TLS; then optionally `+HOST:PORT` for input B, another server of the same session; then
/// `+udp://GROUP:PORT` once or twice if the stream comes in datagrams; and at the end `@INTERFACE`,
/// the address of the local interface for multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedSource {
    /// The server, or input A of two.
    pub a: SocketAddr,
    /// Input B.
    pub b: Option<SocketAddr>,
    /// The names that the servers' certificates must have, A and B, where they speak TLS.
    pub tls_hosts: [Option<String>; 2],
    /// Datagram lines A and B; if they are given, the connections are for recovery.
    pub lines: [Option<SocketAddr>; 2],
    /// Address of the local interface for multicast.
    pub interface: Ipv4Addr,
    /// The user there; `None` for the server's default user.
    pub credentials: Option<Credentials>,
}

impl FeedSource {
    /// Returns the source for one server over TCP.
    pub fn of(address: SocketAddr) -> Self {
        Self {
            a: address,
            b: None,
            tls_hosts: [None, None],
            lines: [None; 2],
            interface: Ipv4Addr::UNSPECIFIED,
            credentials: None,
        }
    }

    /// Returns whether a connection of it uses TLS.
    pub fn has_tls(&self) -> bool {
        self.tls_hosts.iter().any(Option::is_some)
    }

    /// Returns whether the stream comes in datagrams.
    pub fn has_lines(&self) -> bool {
        debug_assert!(
            self.lines[0].is_some() || self.lines[1].is_none(),
            "line A comes first"
        );
        self.lines[0].is_some()
    }
}

impl FromStr for FeedSource {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let (places, interface) = split_interface(text)?;
        let (mut servers, mut hosts, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        for place in places.split('+').map(str::trim) {
            if let Some(line) = place.strip_prefix("udp://") {
                lines.push(address(line)?);
                continue;
            }
            let (place, host) = match secure_place(place) {
                Some((place, host)) => (place, Some(host)),
                None => (place, None),
            };
            servers.push(address(place)?);
            hosts.push(host);
        }
        let &[a, ref b @ ..] = servers.as_slice() else {
            return Err(InputError::NoAddress);
        };
        if servers.len() > 2 || lines.len() > 2 {
            return Err(InputError::TooMany);
        }
        let mut hosts = hosts.into_iter();
        let mut host = || hosts.next().flatten();
        Ok(Self {
            a,
            b: b.first().copied(),
            tls_hosts: [host(), host()],
            lines: [lines.first().copied(), lines.get(1).copied()],
            interface,
            credentials: None,
        })
    }
}

impl fmt::Display for FeedSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = |address: SocketAddr, host: &Option<String>| match host {
            Some(host) if host.contains(':') => format!("tls://[{host}]:{}", address.port()),
            Some(host) => format!("tls://{host}:{}", address.port()),
            None => address.to_string(),
        };
        formatter.write_str(&server(self.a, &self.tls_hosts[0]))?;
        if let Some(b) = self.b {
            write!(formatter, "+{}", server(b, &self.tls_hosts[1]))?;
        }
        for line in self.lines.iter().flatten() {
            write!(formatter, "+udp://{line}")?;
        }
        match self.interface {
            Ipv4Addr::UNSPECIFIED => Ok(()),
            interface => write!(formatter, "@{interface}"),
        }
    }
}

/// The destinations of a stream in datagrams: `GROUP:PORT`, optionally `+GROUP:PORT` for line B,
/// and `@INTERFACE`, the address of the local interface for multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedLines {
    /// Line A, and line B if there is one.
    pub lines: Vec<SocketAddr>,
    /// Address of the local interface for multicast.
    pub interface: Ipv4Addr,
}

impl FromStr for FeedLines {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let (places, interface) = split_interface(text)?;
        let lines = places.split('+').map(|place| address(place.trim()));
        let lines: Vec<SocketAddr> = lines.collect::<Result<_, _>>()?;
        match lines.len() {
            0 => Err(InputError::NoAddress),
            1 | 2 => Ok(Self { lines, interface }),
            _ => Err(InputError::TooMany),
        }
    }
}

fn split_interface(text: &str) -> Result<(&str, Ipv4Addr), InputError> {
    let Some((places, interface)) = text.split_once('@') else {
        return Ok((text, Ipv4Addr::UNSPECIFIED));
    };
    let interface = interface.trim().parse().map_err(|_| {
        let reason = "an IPv4 address of this machine is expected".to_owned();
        InputError::BadAddress(interface.to_owned(), reason)
    })?;
    Ok((places, interface))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_users_write_them_and_shown_again() {
        let source = |text: &str| text.parse::<FeedSource>();
        let one = source("127.0.0.1:9870").unwrap();
        assert_eq!(one, FeedSource::of("127.0.0.1:9870".parse().unwrap()));
        let text = "10.0.0.1:1+10.0.0.2:2+udp://239.1.1.1:3+udp://239.1.1.2:4@10.0.0.9";
        let all = source(text).unwrap();
        assert_eq!(
            (all.b.unwrap().port(), all.lines[1].unwrap().port()),
            (2, 4)
        );
        assert!(all.has_lines() && all.to_string() == text);
        for wrong in [
            "",
            "udp://239.1.1.1:3",
            "1.2.3.4",
            "1.2.3.4:5@here",
            "tls://",
            "tls://1.2.3.4",
            "1.2.3.4:5+tls://",
        ] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
        let three = source("1.2.3.4:5+1.2.3.4:6+1.2.3.4:7").unwrap_err();
        assert_eq!(three, InputError::TooMany);
    }

    #[test]
    fn servers_with_tls_keep_the_name_that_their_certificate_must_have() {
        let text = "tls://localhost:1+127.0.0.1:2";
        let source: FeedSource = text.parse().unwrap();
        assert_eq!(source.tls_hosts, [Some("localhost".to_owned()), None]);
        assert!(source.has_tls() && source.a.port() == 1 && source.to_string() == text);
        let text = "127.0.0.1:2+tls://[::1]:7";
        let source: FeedSource = text.parse().unwrap();
        assert_eq!(source.tls_hosts, [None, Some("::1".to_owned())]);
        assert_eq!(source.to_string(), text);
        assert!(!"127.0.0.1:2".parse::<FeedSource>().unwrap().has_tls());
    }

    #[test]
    fn lines_are_one_or_two() {
        let lines: FeedLines = "239.1.1.1:3+239.1.1.2:4@127.0.0.1".parse().unwrap();
        assert_eq!(
            (lines.lines.len(), lines.interface),
            (2, Ipv4Addr::LOCALHOST)
        );
        assert!("".parse::<FeedLines>().is_err());
    }
}
