//! Datagram sockets that are read in batches.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Maximum number of datagrams in a batch.
pub const DATAGRAMS_MAX: usize = 64;
/// Maximum size of a datagram: a jumbo frame.
const DATAGRAM_BYTES_MAX: usize = 9_216;
/// Requested size of the kernel's receive buffer per line; the kernel may grant less.
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;

/// Binds a socket to an address, and joins the group if it is a multicast address.
///
/// # Errors
/// Errors of the system.
pub fn listen(address: SocketAddr, interface: Ipv4Addr) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if address.ip().is_multicast() {
        // Several programs on one machine may listen to a group.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    // Bound to the group itself, so that datagrams of other groups on the same port are not
    // received.
    rustix::net::bind(&socket, &address)?;
    // The buffer is smaller than requested if the system's limit is lower.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES);
    let socket = UdpSocket::from(socket);
    match address.ip() {
        IpAddr::V4(group) if group.is_multicast() => {
            socket.join_multicast_v4(&group, &interface)?;
        }
        IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, 0)?,
        _ => {}
    }
    Ok(socket)
}

/// Returns a socket for requests to a server, of the same address family.
///
/// # Errors
/// Errors of the system.
pub fn connect(server: SocketAddr) -> io::Result<UdpSocket> {
    let any = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns a socket that sends to a line; for a multicast group it sends from the interface with
/// that address. The machine itself also receives what is sent.
///
/// # Errors
/// Errors of the system.
pub fn sender(line: SocketAddr, interface: Ipv4Addr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match line.ip() {
        // Multicast leaves through the interface whose address the socket is bound to.
        IpAddr::V4(group) if group.is_multicast() => (interface, 0).into(),
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    if line.ip().is_multicast() && line.is_ipv4() {
        socket.set_multicast_loop_v4(true)?;
        sockopt::set_ip_multicast_if(&socket, &interface)?;
    }
    Ok(socket)
}

/// Received datagrams, with the number of their socket.
#[derive(Debug)]
pub struct Datagrams {
    bytes: Box<[u8]>,
    taken: Vec<(usize, usize)>,
}

impl Default for Datagrams {
    fn default() -> Self {
        Self::new()
    }
}

impl Datagrams {
    /// Creates a buffer for [`DATAGRAMS_MAX`] datagrams.
    pub fn new() -> Self {
        Self {
            bytes: vec![0; DATAGRAMS_MAX * DATAGRAM_BYTES_MAX].into(),
            taken: Vec::with_capacity(DATAGRAMS_MAX),
        }
    }

    /// Removes all datagrams.
    pub fn clear(&mut self) {
        self.taken.clear();
    }

    /// Receives up to `limit` datagrams from a socket. Returns whether there may be more.
    pub fn take(&mut self, number: usize, socket: &UdpSocket, limit: usize) -> bool {
        for _ in 0..limit {
            let start = self.taken.len() * DATAGRAM_BYTES_MAX;
            let Some(room) = self.bytes.get_mut(start..start + DATAGRAM_BYTES_MAX) else {
                return true;
            };
            match socket.recv(room) {
                Ok(length) => self.taken.push((number, length)),
                // A request was refused because no server listens there. It is repeated later.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Returns whether there are no datagrams.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Returns the datagrams.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let starts = (0..).step_by(DATAGRAM_BYTES_MAX);
        let taken = self.taken.iter().zip(starts);
        taken.map(|(&(number, length), start)| (number, &self.bytes[start..start + length]))
    }
}
