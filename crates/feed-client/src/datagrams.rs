//! Datagram sockets, many datagrams a look.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Datagrams taken at once: what one look at the sockets brings is one batch.
pub const DATAGRAMS_MAX: usize = 64;
/// Room for a datagram: jumbo frames.
const DATAGRAM_BYTES_MAX: usize = 9_216;
/// What the kernel is asked to keep of a line; it gives what it allows.
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;

/// Listens on an address; joins it if it is a multicast group.
///
/// # Errors
/// Those of the system.
pub fn listen(address: SocketAddr, interface: Ipv4Addr) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if address.ip().is_multicast() {
        // Several programs of a machine may listen to a group.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    // Bound to the group itself: other groups of the same port are not ours.
    rustix::net::bind(&socket, &address)?;
    // It gives less than asked for where the system's limit is lower.
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

/// A socket to ask a server with, of the same family as its address.
///
/// # Errors
/// Those of the system.
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

/// A socket that sends to a line, from the interface of that address where it is a multicast group.
/// The machine itself hears what is sent.
///
/// # Errors
/// Those of the system.
pub fn sender(line: SocketAddr, interface: Ipv4Addr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match line.ip() {
        // Multicast leaves by the interface whose address the socket has.
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

/// Datagrams as they were received, with the number of their socket.
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
    /// Room for [`DATAGRAMS_MAX`] of them.
    pub fn new() -> Self {
        Self {
            bytes: vec![0; DATAGRAMS_MAX * DATAGRAM_BYTES_MAX].into(),
            taken: Vec::with_capacity(DATAGRAMS_MAX),
        }
    }

    /// Forgets what was taken.
    pub fn clear(&mut self) {
        self.taken.clear();
    }

    /// Takes what a socket has, up to `limit` datagrams; whether there may be more.
    pub fn take(&mut self, number: usize, socket: &UdpSocket, limit: usize) -> bool {
        for _ in 0..limit {
            let start = self.taken.len() * DATAGRAM_BYTES_MAX;
            let Some(room) = self.bytes.get_mut(start..start + DATAGRAM_BYTES_MAX) else {
                return true;
            };
            match socket.recv(room) {
                Ok(length) => self.taken.push((number, length)),
                // Refused: nobody listens where a request went. It is asked again.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// What was taken.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let starts = (0..).step_by(DATAGRAM_BYTES_MAX);
        let taken = self.taken.iter().zip(starts);
        taken.map(|(&(number, length), start)| (number, &self.bytes[start..start + length]))
    }
}
