//! Endpoints as programs write them: `tcp://127.0.0.1:5555`, `ipc:///tmp/feed`, `inproc://prices`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use rustix::net::SocketAddrUnix;

use crate::error::Error;
use crate::kind::SocketType;

/// An endpoint, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// What follows `tcp://`, not yet looked up.
    Tcp(String),
    /// What follows `ipc://`.
    Ipc(String),
    Inproc(String),
    /// What follows `udp://`, not yet looked up.
    Udp(String),
    /// What follows `ws://`: host and port, and the path, which begins with `/`.
    WebSocket(String, String),
}

/// What is done with an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Bind,
    Connect,
    /// It is unbound or disconnected.
    Undo,
}

impl Address {
    /// Whether sockets of this type have the transport, for binding or for connecting.
    pub(crate) fn check_kind(&self, kind: SocketType, deed: Deed) -> Result<(), Error> {
        let fits = match (self, kind) {
            (Address::Udp(_), SocketType::Dish | SocketType::Dgram) => deed != Deed::Connect,
            (Address::Udp(_), SocketType::Radio) => deed != Deed::Bind,
            (Address::Udp(_), _) => false,
            (Address::Tcp(_), SocketType::Stream) => true,
            (_, SocketType::Dgram | SocketType::Stream) => deed == Deed::Undo,
            _ => true,
        };
        fits.then_some(()).ok_or(Error::IncompatibleTransport)
    }

    pub(crate) fn parse(endpoint: &str) -> Result<Address, Error> {
        let (transport, rest) = endpoint.split_once("://").ok_or(Error::InvalidArgument)?;
        if transport.is_empty() || rest.is_empty() {
            return Err(Error::InvalidArgument);
        }
        match transport {
            "tcp" => Ok(Address::Tcp(rest.to_owned())),
            "ipc" => Ok(Address::Ipc(rest.to_owned())),
            "inproc" => Ok(Address::Inproc(rest.to_owned())),
            "udp" => Ok(Address::Udp(rest.to_owned())),
            "ws" => {
                let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let path = if path.is_empty() { "/" } else { path };
                let is_visible = path.bytes().all(|byte| byte.is_ascii_graphic());
                match !host.is_empty() && is_visible && path.len() <= WS_PATH_BYTES_MAX {
                    true => Ok(Address::WebSocket(host.to_owned(), path.to_owned())),
                    false => Err(Error::InvalidArgument),
                }
            }
            _ => Err(Error::UnknownTransport),
        }
    }
}

/// Where a TCP endpoint listens: an address in digits, that of a network interface (`eth0`), or of
/// a host, whose name is looked up. `*` stands for every address, and for any free port.
pub(crate) fn listen_address(text: &str, ipv6: bool) -> Result<SocketAddr, Error> {
    let (host, port) = local_place(text)?;
    let found = local_address(host, port, ipv6).or_else(|| look_up(host, port, ipv6).next());
    found.ok_or(Error::NoSuchDevice)
}

/// Where a connection comes from: as above, without the names of hosts.
pub(crate) fn source_address(text: &str, ipv6: bool) -> Result<SocketAddr, Error> {
    let (host, port) = local_place(text)?;
    local_address(host, port, ipv6).ok_or(Error::NoSuchDevice)
}

fn local_place(text: &str) -> Result<(&str, u16), Error> {
    let (host, port) = split_port(text)?;
    let port = if port == "*" { 0 } else { port_number(port)? };
    Ok((unbracketed(host), port))
}

fn local_address(host: &str, port: u16, ipv6: bool) -> Option<SocketAddr> {
    let any = match ipv6 {
        true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    match host {
        "*" => Some(SocketAddr::new(any, port)),
        _ => numeric(host, port, ipv6).or_else(|| of_interface(host, port, ipv6)),
    }
}

/// A TCP endpoint to connect to: where from, if that is said, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Looked up when it is connected: it may be the name of a device.
    pub(crate) source: Option<String>,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Target, Error> {
        let (source, text) = match text.split_once(';') {
            Some((source, text)) => {
                split_port(source)?;
                (Some(source.to_owned()), text)
            }
            None => (None, text),
        };
        let (host, port) = split_port(text)?;
        let port = port_number(port)?;
        let host = unbracketed(host);
        if host.is_empty() || host == "*" || !host.bytes().all(is_host_byte) {
            return Err(Error::InvalidArgument);
        }
        Ok(Target {
            source,
            host: host.to_owned(),
            port,
        })
    }

    /// The address, where no name has to be looked up.
    pub(crate) fn numeric(&self, ipv6: bool) -> Option<SocketAddr> {
        numeric(&self.host, self.port, ipv6)
    }

    /// Looks the name up; this can take long.
    pub(crate) fn look_up(&self, ipv6: bool) -> Vec<SocketAddr> {
        look_up(&self.host, self.port, ipv6).collect()
    }
}

/// The path or the abstract name (`@name`) of an ipc endpoint.
pub(crate) fn unix_address(path: &str) -> Result<SocketAddrUnix, Error> {
    if path.len() > UNIX_PATH_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    let address = match path.strip_prefix('@') {
        Some("") => return Err(Error::InvalidArgument),
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        None => SocketAddrUnix::new(path),
    };
    Ok(address?)
}

fn split_port(text: &str) -> Result<(&str, &str), Error> {
    let (host, port) = text.rsplit_once(':').ok_or(Error::InvalidArgument)?;
    if host.is_empty() || port.is_empty() {
        return Err(Error::InvalidArgument);
    }
    Ok((host, port))
}

/// Reads a port as libzmq does, with `atoi` into 16 bits: `99999` is 34463, and what begins with
/// no digit is refused, as is a 0 written in another way.
pub(crate) fn port_number(text: &str) -> Result<u16, Error> {
    let text = text.trim_start();
    if text == "0" {
        return Ok(0);
    }
    let digits = text.strip_prefix('+').unwrap_or(text).bytes();
    let digits = digits.take_while(u8::is_ascii_digit);
    let port = digits.fold(0u16, |port, digit| {
        port.wrapping_mul(10).wrapping_add(u16::from(digit - b'0'))
    });
    match port {
        0 => Err(Error::InvalidArgument),
        port => Ok(port),
    }
}

/// Looks a name up; this can take long.
pub(crate) fn look_up(host: &str, port: u16, ipv6: bool) -> impl Iterator<Item = SocketAddr> {
    let found = (host, port).to_socket_addrs();
    let found = found.into_iter().flatten();
    found.filter(move |address| ipv6 || address.is_ipv4())
}

pub(crate) fn unbracketed(host: &str) -> &str {
    let inner = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(host)
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'%')
}

/// An address in digits; IPv6 with a zone (`fe80::1%eth0`, `%2`) too.
fn numeric(host: &str, port: u16, ipv6: bool) -> Option<SocketAddr> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return (ipv6 || ip.is_ipv4()).then(|| SocketAddr::new(ip, port));
    }
    let (ip, zone) = host.split_once('%')?;
    let ip: Ipv6Addr = ip.parse().ok()?;
    let scope = match zone.parse() {
        Ok(scope) => scope,
        Err(_) => interface_index(zone)?,
    };
    ipv6.then(|| std::net::SocketAddrV6::new(ip, port, 0, scope).into())
}

/// The first address of a network interface, of the family that the socket has.
pub(crate) fn of_interface(name: &str, port: u16, ipv6: bool) -> Option<SocketAddr> {
    let mut interfaces = nix::ifaddrs::getifaddrs().ok()?;
    interfaces.find_map(|interface| {
        let address = interface
            .address
            .filter(|_| interface.interface_name == name)?;
        match ipv6 {
            true => {
                let v6 = address.as_sockaddr_in6()?;
                let (ip, scope) = (v6.ip(), v6.scope_id());
                Some(std::net::SocketAddrV6::new(ip, port, 0, scope).into())
            }
            false => Some((address.as_sockaddr_in()?.ip(), port).into()),
        }
    })
}

pub(crate) fn interface_index(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}

/// Far above what servers take in a request's first line.
const WS_PATH_BYTES_MAX: usize = 2_048;
/// What `sockaddr_un` holds, its closing zero left out.
const UNIX_PATH_BYTES_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::{Address, Target, listen_address, source_address};
    use crate::error::Error;

    #[test]
    fn endpoints_are_taken_apart_or_refused() {
        assert_eq!(
            Address::parse("inproc://a"),
            Ok(Address::Inproc("a".to_owned()))
        );
        let ws = |host: &str, path: &str| Ok(Address::WebSocket(host.into(), path.into()));
        assert_eq!(Address::parse("ws://a:1"), ws("a:1", "/"));
        assert_eq!(Address::parse("ws://a:1/b/c?d"), ws("a:1", "/b/c?d"));
        assert_eq!(Address::parse("ws:///b"), Err(Error::InvalidArgument));
        assert_eq!(Address::parse("ws://a:1/b c"), Err(Error::InvalidArgument));
        assert_eq!(Address::parse("tcp"), Err(Error::InvalidArgument));
        assert_eq!(Address::parse("tcp://"), Err(Error::InvalidArgument));
        assert_eq!(Address::parse("pigeon://a"), Err(Error::UnknownTransport));
        assert_eq!(listen_address("*:*", false).unwrap().port(), 0);
        assert!(listen_address("[::1]:5", true).unwrap().is_ipv6());
        assert_eq!(listen_address("::1:5", false), Err(Error::NoSuchDevice));
        // As libzmq, which reads a port into 16 bits.
        assert_eq!(
            listen_address("127.0.0.1:99999", false).unwrap().port(),
            34_463
        );
        assert_eq!(Target::parse("127.0.0.1:0").unwrap().port, 0);
        let target = Target::parse("127.0.0.1:0;127.0.0.1:5").unwrap();
        assert_eq!(target.source.as_deref(), Some("127.0.0.1:0"));
        assert_eq!(target.port, 5);
        for wrong in [
            "a", "a:", ":1", "a:00", "a:65536", "a:*", "a:x", "*:1", "a b:1",
        ] {
            assert_eq!(Target::parse(wrong), Err(Error::InvalidArgument));
        }
    }

    #[test]
    fn an_interface_has_its_first_address_and_a_host_may_be_bound_to() {
        let at = |text: &str, ipv6| listen_address(text, ipv6).map(|found| found.to_string());
        assert_eq!(at("lo:5", false).unwrap(), "127.0.0.1:5");
        assert_eq!(at("lo:*", false).unwrap(), "127.0.0.1:0");
        if std::path::Path::new("/proc/net/if_inet6").exists() {
            assert_eq!(at("lo:5", true).unwrap(), "[::1]:5");
        }
        assert_eq!(at("localhost:5", false).unwrap(), "127.0.0.1:5");
        assert_eq!(
            source_address("lo:0", false).unwrap().to_string(),
            "127.0.0.1:0"
        );
        for unknown in ["no-such-device:5", "localhost:5"] {
            assert_eq!(source_address(unknown, false), Err(Error::NoSuchDevice));
        }
    }
}
