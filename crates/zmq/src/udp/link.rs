//! A UDP socket of a RADIO, DISH or DGRAM: one message in each datagram.

use std::fmt::Write;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags};
use tidewire_zmtp::Datagram;

use super::place::of_family;
use crate::address::{port_number, unbracketed};
use crate::digits;
use crate::link::Interest;
use crate::message::Message;
use crate::properties::Properties;

/// A UDP socket, and what its datagrams are.
#[derive(Debug)]
pub(crate) struct DatagramLink {
    descriptor: OwnedFd,
    role: Role,
    ipv6: bool,
    /// What epoll has been told.
    pub(crate) interest: Interest,
    /// Room for the datagram that is being received; made with the first.
    room: Vec<u8>,
    /// The group of the last message, for further ones of the same group.
    group: Option<Arc<Properties>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// RADIO: messages of groups go to this address.
    Radio(SocketAddr),
    /// DISH: messages of groups come from anywhere.
    Dish,
    /// DGRAM: messages carry the address of their peer.
    Dgram,
}

/// What became of a message that was to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Done,
    /// It is too long, its address is none, or the system has no way there.
    Dropped,
    /// The kernel has no room at the moment.
    Full,
}

/// What was received.
#[derive(Debug)]
pub(super) enum Arrival<'l> {
    /// A message of a group, of which the link remembers the properties.
    OfGroup(Datagram<'l>, &'l mut Option<Arc<Properties>>),
    From(SocketAddr, &'l [u8]),
    /// A datagram that is no message.
    Malformed,
    Nothing,
}

impl DatagramLink {
    pub(super) fn new(descriptor: OwnedFd, role: Role, ipv6: bool) -> DatagramLink {
        DatagramLink {
            descriptor,
            role,
            ipv6,
            interest: Interest {
                read: !matches!(role, Role::Radio(_)),
                write: false,
            },
            room: Vec::new(),
            group: None,
        }
    }

    /// The address that everything is sent to, where there is one.
    pub(crate) fn target(&self) -> Option<SocketAddr> {
        match self.role {
            Role::Radio(target) => Some(target),
            Role::Dish | Role::Dgram => None,
        }
    }

    pub(crate) fn raw_descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// Sends a message: the group or the address that is its first frame, and its body.
    pub(crate) fn send(&self, head: &[u8], body: &[u8]) -> Sent {
        let datagram = Datagram { group: head, body };
        let result = match self.role {
            Role::Radio(target) => match datagram.header() {
                Some(header) => self.send_to_group(target, header, &datagram),
                None => return Sent::Dropped,
            },
            Role::Dgram if body.len() <= Datagram::BYTES_MAX => match self.peer_address(head) {
                Some(peer) => {
                    retried(|| net::sendto(&self.descriptor, body, SendFlags::empty(), &peer))
                }
                None => return Sent::Dropped,
            },
            Role::Dgram | Role::Dish => return Sent::Dropped,
        };
        match result {
            Ok(_) => Sent::Done,
            Err(Errno::AGAIN) => Sent::Full,
            Err(errno) => {
                tracing::debug!(%errno, "a datagram cannot be sent");
                Sent::Dropped
            }
        }
    }

    fn send_to_group(
        &self,
        target: SocketAddr,
        header: u8,
        datagram: &Datagram<'_>,
    ) -> Result<usize, Errno> {
        let header = [header];
        let parts = [&header, datagram.group, datagram.body].map(IoSlice::new);
        let flags = SendFlags::empty();
        retried(|| {
            let mut control = SendAncillaryBuffer::default();
            net::sendmsg_addr(&self.descriptor, &target, &parts, &mut control, flags)
        })
    }

    /// Reads the address frame of a message to send.
    fn peer_address(&self, text: &[u8]) -> Option<SocketAddr> {
        let text = text.split(|&octet| octet == 0).next()?;
        let (host, port) = std::str::from_utf8(text).ok()?.rsplit_once(':')?;
        let port = port_number(port).ok().filter(|&port| port > 0)?;
        if host.contains('%') {
            // With the zone of an address within one link.
            let mut address: SocketAddr = format!("{host}:{port}").parse().ok()?;
            address.set_port(port);
            return self.ipv6.then_some(address);
        }
        let ip = digits::ip(unbracketed(host))?;
        Some(SocketAddr::new(of_family(ip, self.ipv6)?, port))
    }

    /// Receives one datagram. Of one that is longer than [`Datagram::BYTES_MAX`] the rest is cut
    /// off, as in libzmq.
    pub(super) fn receive(&mut self) -> Arrival<'_> {
        if self.room.is_empty() {
            self.room.resize(Datagram::BYTES_MAX, 0);
        }
        let room = self.room.as_mut_slice();
        let flags = RecvFlags::empty();
        let received = retried(|| match self.role {
            Role::Dgram => net::recvfrom(&self.descriptor, &mut *room, flags),
            _ => net::recv(&self.descriptor, &mut *room, flags).map(|(got, all)| (got, all, None)),
        });
        let (length, sender) = match received {
            Ok((length, _, sender)) => (length, sender),
            Err(errno) => {
                if errno != Errno::AGAIN {
                    tracing::debug!(%errno, "no datagram can be received");
                }
                return Arrival::Nothing;
            }
        };
        debug_assert!(
            length <= self.room.len(),
            "the kernel fills what it is given"
        );
        let bytes = &self.room[..length];
        if self.role != Role::Dgram {
            return match Datagram::parse(bytes) {
                Some(datagram) => Arrival::OfGroup(datagram, &mut self.group),
                None => Arrival::Malformed,
            };
        }
        match sender.map(SocketAddr::try_from) {
            Some(Ok(sender)) => Arrival::From(sender, bytes),
            _ => Arrival::Malformed,
        }
    }

    /// Takes the error that epoll tells of: it would tell again at once.
    pub(crate) fn take_error(&self) {
        let _ = net::sockopt::socket_error(&self.descriptor);
    }
}

impl AsFd for DatagramLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The first frame of a message of a DGRAM: the address of its sender, with the closing zero that
/// libzmq puts there.
pub(super) fn address_frame(sender: SocketAddr) -> Message {
    let sender = match sender.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, sender.port()),
        IpAddr::V6(_) => sender,
    };
    let mut text = String::with_capacity(ADDRESS_BYTES);
    // Writing into a string cannot fail.
    let _ = write!(text, "{sender}\0");
    let mut frame = Message::from_slice(text.as_bytes());
    frame.set_more(true);
    frame
}

fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Most addresses, with their port and the zero.
const ADDRESS_BYTES: usize = 64;
