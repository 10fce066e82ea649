//! UDP sockets as the options want them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, SocketFlags, SocketType, ipproto, sockopt};
use socket2::SockRef;

use super::place::Place;
use crate::error::Error;
use crate::options::Options;
use crate::transport;

/// Opens a socket to send to a place. Its own address is the system's choice.
pub(super) fn to_send(place: &Place, options: &Options) -> Result<OwnedFd, Error> {
    let descriptor = new_socket(place, options)?;
    if place.is_multicast {
        set_multicast_output(&descriptor, place, options)?;
    }
    Ok(descriptor)
}

/// Opens a socket that receives at a place, and returns its own address. One that also `sends` does
/// so to any address.
pub(super) fn to_receive(
    place: &Place,
    sends: bool,
    options: &Options,
) -> Result<(OwnedFd, SocketAddr), Error> {
    let descriptor = new_socket(place, options)?;
    sockopt::set_socket_reuseaddr(&descriptor, true)?;
    if options.receive_buffer_bytes < 0 {
        // The kernel gives less where the system's maximum is less.
        let _ = sockopt::set_socket_recv_buffer_size(&descriptor, RECEIVE_BUFFER_BYTES);
    }
    let mut local = place.local;
    if place.is_multicast {
        // Every socket of the group receives the datagrams; the group says at which interface.
        SockRef::from(&descriptor)
            .set_reuse_port(true)
            .map_err(as_error)?;
        local.set_ip(unspecified(local));
    }
    if sends {
        set_multicast_output(&descriptor, place, options)?;
    }
    net::bind(&descriptor, &local)?;
    if place.is_multicast {
        join(&descriptor, place)?;
    }
    let bound = transport::local_address(&descriptor).ok_or(Error::InvalidArgument)?;
    Ok((descriptor, bound))
}

fn new_socket(place: &Place, options: &Options) -> Result<OwnedFd, Error> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = transport::family(place.target);
    let descriptor = net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    if place.target.is_ipv6() {
        let _ = sockopt::set_ipv6_v6only(&descriptor, false);
    }
    transport::set_buffers(&descriptor, options);
    transport::set_service(&descriptor, options, place.target.is_ipv6());
    transport::bind_to_device(&descriptor, options)?;
    Ok(descriptor)
}

/// How far what is sent to groups goes, by which interface, and whether this machine receives it.
fn set_multicast_output(
    descriptor: &OwnedFd,
    place: &Place,
    options: &Options,
) -> Result<(), Errno> {
    let hops = options.multicast_hops as u32;
    debug_assert!(hops > 0, "the option's values begin with 1");
    if place.target.is_ipv6() {
        sockopt::set_ipv6_multicast_loop(descriptor, options.multicast_loop)?;
        sockopt::set_ipv6_multicast_hops(descriptor, hops)?;
        if place.interface > 0 {
            sockopt::set_ipv6_multicast_if(descriptor, place.interface)?;
        }
        return Ok(());
    }
    sockopt::set_ip_multicast_loop(descriptor, options.multicast_loop)?;
    sockopt::set_ip_multicast_ttl(descriptor, hops)?;
    match place.local.ip() {
        IpAddr::V4(interface) if place.is_multicast && !interface.is_unspecified() => {
            sockopt::set_ip_multicast_if(descriptor, &interface)
        }
        _ => Ok(()),
    }
}

/// Joins the group of a place, and receives from no other group. By default Linux hands a
/// socket the datagrams of every group that any program of the machine has joined on its port.
fn join(descriptor: &OwnedFd, place: &Place) -> Result<(), Errno> {
    let socket = SockRef::from(descriptor);
    match (place.target.ip(), place.local.ip()) {
        (IpAddr::V4(group), IpAddr::V4(interface)) => {
            let _ = socket.set_multicast_all_v4(false);
            sockopt::set_ip_add_membership(descriptor, &group, &interface)
        }
        (IpAddr::V6(group), _) => {
            // Known since Linux 4.20.
            let _ = socket.set_multicast_all_v6(false);
            sockopt::set_ipv6_add_membership(descriptor, &group, place.interface)
        }
        (IpAddr::V4(_), IpAddr::V6(_)) => Err(Errno::INVAL),
    }
}

fn unspecified(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn as_error(error: std::io::Error) -> Error {
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL).into()
}

/// What the kernel may keep of datagrams that are not read yet, if the program does not say. Linux
/// doubles it, for what it keeps beside the bytes, and allows 208 KiB by default.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(text: &str, ipv6: bool, options: &Options) -> [OwnedFd; 2] {
        let receiver = Place::resolve(text, true, ipv6).unwrap();
        let sender = Place::resolve(text, false, ipv6).unwrap();
        [
            to_receive(&receiver, true, options).unwrap().0,
            to_send(&sender, options).unwrap(),
        ]
    }

    #[test]
    fn what_is_sent_to_a_group_goes_as_the_options_say() {
        let options = Options {
            multicast_hops: 7,
            multicast_loop: false,
            ..Options::default()
        };
        for socket in opened("lo;239.192.7.1:0", false, &options) {
            assert_eq!(sockopt::ip_multicast_ttl(&socket), Ok(7));
            assert_eq!(sockopt::ip_multicast_loop(&socket), Ok(false));
            let interface = sockopt::ip_multicast_if(&socket);
            assert_eq!(interface, Ok(std::net::Ipv4Addr::LOCALHOST));
        }
        if !std::path::Path::new("/proc/net/if_inet6").exists() {
            return;
        }
        for socket in opened("lo;[ff02::7a65:1]:0", true, &options) {
            assert_eq!(sockopt::ipv6_multicast_hops(&socket), Ok(7));
            assert_eq!(sockopt::ipv6_multicast_loop(&socket), Ok(false));
            let lo = crate::address::interface_index("lo").unwrap();
            assert_eq!(sockopt::ipv6_multicast_if(&socket), Ok(lo));
        }
    }

    #[test]
    fn the_kernels_buffers_are_as_long_as_the_options_say() {
        let options = Options {
            send_buffer_bytes: 20_000,
            receive_buffer_bytes: 30_000,
            ..Options::default()
        };
        for socket in opened("127.0.0.1:0", false, &options) {
            // Linux doubles them.
            assert_eq!(sockopt::socket_send_buffer_size(&socket), Ok(40_000));
            assert_eq!(sockopt::socket_recv_buffer_size(&socket), Ok(60_000));
        }
    }

    #[test]
    fn a_hop_count_that_no_packet_can_have_is_refused() {
        let options = Options {
            multicast_hops: 256,
            ..Options::default()
        };
        let place = Place::resolve("239.192.7.1:5", false, false).unwrap();
        assert_eq!(
            to_send(&place, &options).err(),
            Some(Error::InvalidArgument)
        );
    }
}
