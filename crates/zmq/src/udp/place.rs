//! Endpoints of UDP: what stands behind `udp://`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::address::{
    interface_index, look_up, of_interface, port_number, unbracketed, zone_index,
};
use crate::digits;
use crate::error::Error;

/// Where datagrams are sent to, or received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The address to send to, or the multicast group to join.
    pub(crate) target: SocketAddr,
    /// The address to bind to; for multicast, that of the interface.
    pub(crate) local: SocketAddr,
    /// The index of the interface for multicast over IPv6; 0: the system chooses.
    pub(crate) interface: u32,
    pub(crate) is_multicast: bool,
}

/// How a host may be written.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// To bind to: `*` stands for every address.
    is_bound: bool,
    /// Names of network interfaces are taken.
    has_interfaces: bool,
    /// Names of hosts are looked up.
    has_names: bool,
}

impl Place {
    /// Reads `HOST:PORT` or `INTERFACE;GROUP:PORT`. A name is looked up, which can take long.
    ///
    /// # Errors
    /// Those of libzmq: [`Error::NoSuchDevice`] for a host or an interface that cannot be bound to,
    /// else [`Error::InvalidArgument`].
    pub(crate) fn resolve(text: &str, is_bound: bool, ipv6: bool) -> Result<Place, Error> {
        let (source, text) = match text.rsplit_once(';') {
            Some((source, text)) => (Some(interface(source, ipv6)?), text),
            None => (None, text),
        };
        let (host, port) = text.rsplit_once(':').ok_or(Error::InvalidArgument)?;
        let port = match port {
            "*" if is_bound => 0,
            port => port_number(port)?,
        };
        let rules = Rules {
            is_bound,
            has_interfaces: is_bound,
            has_names: true,
        };
        let mut target = host_address(host, rules, ipv6)?;
        target.set_port(port);
        let is_multicast = target.ip().is_multicast();
        let (mut local, interface) = match source {
            // An interface says where a group is: for one address it has no meaning.
            Some(_) if !is_multicast => return Err(Error::InvalidArgument),
            // An address does not tell which interface it is, and IPv6 needs the interface.
            Some((_, None)) if ipv6 => return Err(Error::NoSuchDevice),
            Some((local, index)) => (local, index.unwrap_or_default()),
            None if is_multicast || !is_bound => (any(ipv6), zone_of(target)),
            None => (target, 0),
        };
        local.set_port(port);
        debug_assert_eq!(
            local.is_ipv6(),
            target.is_ipv6(),
            "both addresses are of the family of the socket"
        );
        Ok(Place {
            target,
            local,
            interface,
            is_multicast,
        })
    }
}

/// The address of what stands before `;`, and its index if it is the name of an interface.
fn interface(source: &str, ipv6: bool) -> Result<(SocketAddr, Option<u32>), Error> {
    let rules = Rules {
        is_bound: true,
        has_interfaces: true,
        has_names: false,
    };
    let address = host_address(source, rules, ipv6)?;
    if address.ip().is_multicast() {
        return Err(Error::InvalidArgument);
    }
    let index = match source {
        "*" => Some(0),
        name => interface_index(name),
    };
    Ok((address, index))
}

/// The address of a host, with the port 0.
fn host_address(host: &str, rules: Rules, ipv6: bool) -> Result<SocketAddr, Error> {
    let host = unbracketed(host);
    let (host, zone) = match host.rsplit_once('%') {
        Some((host, zone)) => (host, zone_index(zone)?),
        None => (host, 0),
    };
    if rules.is_bound && host == "*" {
        return Ok(any(ipv6));
    }
    if rules.has_interfaces
        && let Some(found) = of_interface(host, 0, ipv6)
    {
        return Ok(found);
    }
    let ip = match digits::ip(host) {
        Some(ip) => of_family(ip, ipv6),
        None if rules.has_names && !host.is_empty() => first_of_family(host, ipv6),
        None => None,
    };
    match ip {
        Some(IpAddr::V6(ip)) => Ok(SocketAddrV6::new(ip, 0, 0, zone).into()),
        Some(ip) => Ok(SocketAddr::new(ip, 0)),
        None if rules.is_bound => Err(Error::NoSuchDevice),
        None => Err(Error::InvalidArgument),
    }
}

/// Looks a name up. An IPv6 socket gets an address of IPv4 only where there is no other.
fn first_of_family(host: &str, ipv6: bool) -> Option<IpAddr> {
    let found: Vec<IpAddr> = look_up(host, 0, ipv6).map(|found| found.ip()).collect();
    let own = found.iter().find(|ip| ip.is_ipv6() == ipv6).copied();
    own.or_else(|| of_family(*found.first()?, ipv6))
}

/// The address as a socket of that family has it: one of IPv4 is mapped into IPv6, and back.
pub(super) fn of_family(ip: IpAddr, ipv6: bool) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) if ipv6 => Some(ip.to_ipv6_mapped().into()),
        IpAddr::V6(ip) if !ipv6 => ip.to_ipv4_mapped().map(IpAddr::V4),
        ip => Some(ip),
    }
}

fn zone_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

fn any(ipv6: bool) -> SocketAddr {
    match ipv6 {
        true => (Ipv6Addr::UNSPECIFIED, 0).into(),
        false => (Ipv4Addr::UNSPECIFIED, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_DEVICE: Result<[&str; 2], Error> = Err(Error::NoSuchDevice);
    const INVALID: Result<[&str; 2], Error> = Err(Error::InvalidArgument);

    /// Asserts target and local address of an endpoint, or its error.
    fn check(text: &str, is_bound: bool, ipv6: bool, expected: Result<[&str; 2], Error>) {
        let found = Place::resolve(text, is_bound, ipv6);
        if let (Ok(found), Ok(expected)) = (&found, expected) {
            let told = [found.target.to_string(), found.local.to_string()];
            assert_eq!(told, expected, "{text}");
            assert_eq!(found.is_multicast, found.target.ip().is_multicast());
        } else {
            assert_eq!(found.err(), expected.err(), "{text} bound: {is_bound}");
        }
    }

    #[test]
    fn one_address_is_bound_to_or_sent_to() {
        for (text, ipv6, bound, connected) in [
            (
                "127.0.0.1:5555",
                false,
                Ok(["127.0.0.1:5555", "127.0.0.1:5555"]),
                Ok(["127.0.0.1:5555", "0.0.0.0:5555"]),
            ),
            (
                "[::1]:123",
                true,
                Ok(["[::1]:123", "[::1]:123"]),
                Ok(["[::1]:123", "[::]:123"]),
            ),
            (
                "abcd::1234:1:55",
                true,
                Ok(["[abcd::1234:1]:55", "[abcd::1234:1]:55"]),
                Ok(["[abcd::1234:1]:55", "[::]:55"]),
            ),
            // The socket is of IPv6, and reaches IPv4 too.
            (
                "127.0.0.1:5",
                true,
                Ok(["[::ffff:127.0.0.1]:5", "[::ffff:127.0.0.1]:5"]),
                Ok(["[::ffff:127.0.0.1]:5", "[::]:5"]),
            ),
            ("*:*", false, Ok(["0.0.0.0:0", "0.0.0.0:0"]), INVALID),
            ("*:*", true, Ok(["[::]:0", "[::]:0"]), INVALID),
            ("*:5", false, Ok(["0.0.0.0:5", "0.0.0.0:5"]), INVALID),
            (
                "127.0.0.1:*",
                false,
                Ok(["127.0.0.1:0", "127.0.0.1:0"]),
                INVALID,
            ),
            (
                "127.0.0.1:0",
                false,
                Ok(["127.0.0.1:0", "127.0.0.1:0"]),
                Ok(["127.0.0.1:0", "0.0.0.0:0"]),
            ),
            (
                "127.0.0.1:99999",
                false,
                Ok(["127.0.0.1:34463", "127.0.0.1:34463"]),
                Ok(["127.0.0.1:34463", "0.0.0.0:34463"]),
            ),
            ("lo:5", false, Ok(["127.0.0.1:5", "127.0.0.1:5"]), INVALID),
            (
                "localhost:5",
                false,
                Ok(["127.0.0.1:5", "127.0.0.1:5"]),
                Ok(["127.0.0.1:5", "0.0.0.0:5"]),
            ),
            ("[::1]:5", false, NO_DEVICE, INVALID),
            ("256.0.0.1:5", false, NO_DEVICE, INVALID),
            ("no-such-device:5", false, NO_DEVICE, INVALID),
            (":5", false, NO_DEVICE, INVALID),
            ("[]:5", true, NO_DEVICE, INVALID),
            ("127.0.0.1", false, INVALID, INVALID),
            ("127.0.0.1:", false, INVALID, INVALID),
            ("127.0.0.1:x", false, INVALID, INVALID),
            ("127.0.0.1:00", false, INVALID, INVALID),
            ("127.0.0.1:65536", false, INVALID, INVALID),
            ("[fe80::1%]:5", true, INVALID, INVALID),
            ("[fe80::1%0]:5", true, INVALID, INVALID),
            ("[fe80::1%no-such-device]:5", true, INVALID, INVALID),
        ] {
            check(text, true, ipv6, bound);
            check(text, false, ipv6, connected);
        }
    }

    #[test]
    fn a_group_has_an_interface_or_any() {
        for (text, ipv6, expected) in [
            ("239.0.0.1:5", false, Ok(["239.0.0.1:5", "0.0.0.0:5"])),
            ("*;230.2.8.12:5", false, Ok(["230.2.8.12:5", "0.0.0.0:5"])),
            ("lo;239.0.0.1:5", false, Ok(["239.0.0.1:5", "127.0.0.1:5"])),
            (
                "8.9.10.11;230.2.8.12:5",
                false,
                Ok(["230.2.8.12:5", "8.9.10.11:5"]),
            ),
            ("[ff00::1]:1234", true, Ok(["[ff00::1]:1234", "[::]:1234"])),
            ("*;[ffff::]:5555", true, Ok(["[ffff::]:5555", "[::]:5555"])),
            // For a group of IPv6 an interface is told by its name.
            ("[::1];[ffab::4]:5555", true, NO_DEVICE),
            ("[1:2:3::4];[ff01::1]:5555", true, NO_DEVICE),
            // A group of IPv4 is none to a socket of IPv6.
            ("lo;239.0.0.1:5", true, INVALID),
            ("127.0.0.1;1.2.3.4:5555", false, INVALID),
            ("[::1];[fe00::1]:5555", true, INVALID),
            ("239.0.0.2;239.0.0.1:5", false, INVALID),
            ("lo;239.0.0.1", false, INVALID),
            ("lo;", false, INVALID),
            ("no-such-device;239.0.0.1:5", false, NO_DEVICE),
            ("localhost;239.0.0.1:5", false, NO_DEVICE),
            (";239.0.0.1:5", false, NO_DEVICE),
            ("lo;lo;239.0.0.1:5", false, NO_DEVICE),
        ] {
            check(text, true, ipv6, expected);
            check(text, false, ipv6, expected);
        }
        check(
            "*;239.0.0.1:*",
            true,
            false,
            Ok(["239.0.0.1:0", "0.0.0.0:0"]),
        );
        check("*;239.0.0.1:*", false, false, INVALID);
        check("[::1];[fe00:1]:5555", true, true, NO_DEVICE);
        check("[::1];[fe00:1]:5555", false, true, INVALID);
    }

    #[test]
    fn an_interface_of_a_group_of_ipv6_has_its_index() {
        if !std::path::Path::new("/proc/net/if_inet6").exists() {
            return;
        }
        let lo = interface_index("lo").unwrap();
        for text in ["lo;[ff02::1]:5", "[ff02::1%lo]:5"] {
            for is_bound in [true, false] {
                let place = Place::resolve(text, is_bound, true).unwrap();
                assert_eq!(place.interface, lo, "{text}");
            }
        }
    }
}
