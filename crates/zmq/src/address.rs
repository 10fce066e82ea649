//! Endpoints as programs write them: `tcp://127.0.0.1:5555`, `ipc:///tmp/feed`, `inproc://prices`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use rustix::net::SocketAddrUnix;

use crate::digits;
use crate::error::Error;
use crate::kind::SocketType;

/// An endpoint, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// What follows `tcp://`, not yet looked up.
    Tcp(String),
    /// What follows `ipc://`.
    Ipc(String),
    /// What follows `shm://`: a path or a name as after `ipc://`.
    Shm(String),
    Inproc(String),
    /// What follows `udp://`, not yet looked up.
    Udp(String),
    /// What follows `ws://`, or, encrypted, `wss://`.
    WebSocket(WebPlace),
}

/// An endpoint of WebSocket, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebPlace {
    /// Host and port, not yet looked up.
    pub(crate) place: String,
    /// Begins with `/`.
    pub(crate) path: String,
    /// Over TLS.
    pub(crate) is_secure: bool,
}

impl WebPlace {
    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_secure { "wss" } else { "ws" }
    }
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
            (Address::Tcp(_) | Address::Ipc(_) | Address::Inproc(_), SocketType::Stream) => true,
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
            "shm" if cfg!(target_os = "linux") => Ok(Address::Shm(rest.to_owned())),
            "inproc" => Ok(Address::Inproc(rest.to_owned())),
            "udp" => Ok(Address::Udp(rest.to_owned())),
            "ws" | "wss" => {
                let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let path = if path.is_empty() { "/" } else { path };
                let is_visible = path.bytes().all(|byte| byte.is_ascii_graphic());
                if place.is_empty() || !is_visible || path.len() > WS_PATH_BYTES_MAX {
                    return Err(Error::InvalidArgument);
                }
                Ok(Address::WebSocket(WebPlace {
                    place: place.to_owned(),
                    path: path.to_owned(),
                    is_secure: transport == "wss",
                }))
            }
            _ => Err(Error::UnknownTransport),
        }
    }
}

/// An endpoint to connect to as it is told: over ws and wss with the number of the port and a path,
/// as libzmq tells it, else as it was given.
pub(crate) fn told(endpoint: &str) -> Option<String> {
    let Address::WebSocket(web) = Address::parse(endpoint).ok()? else {
        return Some(endpoint.to_owned());
    };
    let (host, port) = split_port(&web.place).ok()?;
    let port = port_number(port).ok()?;
    Some(format!("{}://{host}:{port}{}", web.scheme(), web.path))
}

/// Where a TCP endpoint listens: an address in digits, that of a network interface (`eth0`), or of
/// a host, whose name is looked up. `*` stands for every address, and for any free port. As with
/// libzmq a source address may stand before it, which means nothing here.
pub(crate) fn listen_address(text: &str, ipv6: bool) -> Result<SocketAddr, Error> {
    let (source, text) = split_source(text);
    if let Some(source) = source {
        source_address(source, ipv6)?;
    }
    let (host, port) = local_place(text)?;
    let found = local_address(host, port, ipv6)?;
    let (host, zone) = split_zone(host)?;
    let found = found.or_else(|| first_named(host, zone, port, ipv6));
    found.ok_or(Error::NoSuchDevice)
}

/// The address that a program means by the name of a TCP endpoint that it bound to: one in digits
/// or of a host. As with libzmq neither `*` nor an interface, whose addresses are several.
pub(crate) fn bound_address(text: &str, ipv6: bool) -> Result<SocketAddr, Error> {
    let (host, port) = split_port(split_source(text).1)?;
    let port = port_number(port)?;
    let (host, zone) = split_zone(unbracketed(host))?;
    let found = numeric(host, zone, port, ipv6);
    let found = found.or_else(|| first_named(host, zone, port, ipv6));
    found.ok_or(Error::InvalidArgument)
}

/// Where a connection comes from: as where one listens, without the names of hosts.
pub(crate) fn source_address(text: &str, ipv6: bool) -> Result<SocketAddr, Error> {
    let (host, port) = local_place(text)?;
    local_address(host, port, ipv6)?.ok_or(Error::NoSuchDevice)
}

fn local_place(text: &str) -> Result<(&str, u16), Error> {
    let (host, port) = split_port(text)?;
    let port = if port == "*" { 0 } else { port_number(port)? };
    Ok((unbracketed(host), port))
}

fn local_address(host: &str, port: u16, ipv6: bool) -> Result<Option<SocketAddr>, Error> {
    let any = match ipv6 {
        true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    let (host, zone) = split_zone(host)?;
    Ok(match host {
        "*" => Some(SocketAddr::new(any, port)),
        _ => numeric(host, zone, port, ipv6).or_else(|| of_interface(host, port, ipv6)),
    })
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
        if !is_target(text) {
            return Err(Error::InvalidArgument);
        }
        let (source, text) = split_source(text);
        let (host, port) = split_port(text)?;
        let port = port_number(port)?;
        let host = unbracketed(host);
        // What can never be connected to is refused at once; libzmq tries it again and again.
        let has_source_host = source.is_none_or(|source| {
            let place = split_port(source);
            place.is_ok_and(|(host, _)| !host.is_empty() && !host.contains(';'))
        });
        if host.is_empty() || !host.bytes().all(is_host_byte) || !has_source_host {
            return Err(Error::InvalidArgument);
        }
        Ok(Target {
            source: source.map(str::to_owned),
            host: host.to_owned(),
            port,
        })
    }

    /// The address, where no name has to be looked up.
    pub(crate) fn numeric(&self, ipv6: bool) -> Option<SocketAddr> {
        let (host, zone) = split_zone(&self.host).ok()?;
        numeric(host, zone, self.port, ipv6)
    }

    /// Looks the name up; this can take long.
    pub(crate) fn look_up(&self, ipv6: bool) -> Vec<SocketAddr> {
        let Ok((host, zone)) = split_zone(&self.host) else {
            return Vec::new();
        };
        let found = look_up(host, self.port, ipv6);
        found.map(|address| within(address, zone)).collect()
    }
}

/// The address in digits of an option's value, which has no port.
pub(crate) fn address_in_digits(text: &str, ipv6: bool) -> Result<IpAddr, Error> {
    let (host, zone) = split_zone(unbracketed(text))?;
    let found = numeric(host, zone, 0, ipv6).ok_or(Error::InvalidArgument)?;
    Ok(found.ip())
}

/// The path or the abstract name (`@name`) of an ipc or shm endpoint.
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

/// The source address, if there is one, and what follows it.
fn split_source(text: &str) -> (Option<&str>, &str) {
    match text.rsplit_once(';') {
        Some((source, text)) => (Some(source), text),
        None => (None, text),
    }
}

fn split_port(text: &str) -> Result<(&str, &str), Error> {
    let (host, port) = text.rsplit_once(':').ok_or(Error::InvalidArgument)?;
    if port.is_empty() {
        return Err(Error::InvalidArgument);
    }
    Ok((host, port))
}

/// Takes the zone off a host (`fe80::1%eth0`, `%2`); without one it is 0.
fn split_zone(host: &str) -> Result<(&str, u32), Error> {
    match host.rsplit_once('%') {
        Some((host, zone)) => Ok((host, zone_index(zone)?)),
        None => Ok((host, 0)),
    }
}

/// The zone behind `%`: the name of an interface, or a number that is not 0, read with `atoi`.
pub(crate) fn zone_index(zone: &str) -> Result<u32, Error> {
    let index = match zone.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        true => interface_index(zone),
        false => Some(digits::leading_number(zone) as u32).filter(|&index| index > 0),
    };
    index.ok_or(Error::InvalidArgument)
}

/// What libzmq checks before it connects over TCP: the letters, and that a port begins with a
/// digit.
fn is_target(text: &str) -> bool {
    let is_allowed = |byte: u8| is_host_byte(byte) || b";[]*".contains(&byte);
    let begins = |byte: u8| byte.is_ascii_alphanumeric() || b"[:".contains(&byte);
    let port = text.rsplit_once(':').map(|(_, port)| port);
    text.bytes().next().is_some_and(begins)
        && text.bytes().all(is_allowed)
        && port.is_some_and(|port| port.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// Reads a port as libzmq does, with `atoi` into 16 bits: `99999` is 34463, `-1` is 65535, and what
/// begins with no digit is refused, as is a 0 written in another way.
pub(crate) fn port_number(text: &str) -> Result<u16, Error> {
    if text == "0" {
        return Ok(0);
    }
    match digits::leading_number(text) as u16 {
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

/// The first address of a name.
fn first_named(host: &str, zone: u32, port: u16, ipv6: bool) -> Option<SocketAddr> {
    if host.is_empty() {
        return None;
    }
    let found = look_up(host, port, ipv6).next();
    found.map(|address| within(address, zone))
}

/// The address within the zone that its name was written with, if there is one.
fn within(mut address: SocketAddr, zone: u32) -> SocketAddr {
    if let SocketAddr::V6(address) = &mut address
        && zone > 0
    {
        address.set_scope_id(zone);
    }
    address
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

/// An address in digits. One of IPv4 that is written as one of IPv6 is taken for what it is where
/// there is no IPv6.
fn numeric(host: &str, zone: u32, port: u16, ipv6: bool) -> Option<SocketAddr> {
    match digits::ip(host)? {
        IpAddr::V6(ip) if ipv6 => Some(SocketAddrV6::new(ip, port, 0, zone).into()),
        IpAddr::V6(ip) => Some(SocketAddr::new(ip.to_ipv4_mapped()?.into(), port)),
        ip @ IpAddr::V4(_) => Some(SocketAddr::new(ip, port)),
    }
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
                Some(SocketAddrV6::new(ip, port, 0, scope).into())
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
    use super::{Address, Target, WebPlace, listen_address, source_address};
    use crate::error::Error;

    #[test]
    fn endpoints_are_taken_apart_or_refused() {
        assert_eq!(
            Address::parse("inproc://a"),
            Ok(Address::Inproc("a".to_owned()))
        );
        let web = |place: &str, path: &str, is_secure| {
            Ok(Address::WebSocket(WebPlace {
                place: place.into(),
                path: path.into(),
                is_secure,
            }))
        };
        let ws = |place, path| web(place, path, false);
        assert_eq!(Address::parse("ws://a:1"), ws("a:1", "/"));
        assert_eq!(Address::parse("ws://a:1/b/c?d"), ws("a:1", "/b/c?d"));
        let secure = Address::parse("wss://a:1/b");
        assert_eq!(secure, web("a:1", "/b", true));
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
