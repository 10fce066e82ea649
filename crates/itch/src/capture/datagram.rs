//! Extraction of the UDP datagram from a captured frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The link type of a frame, a number of the pcap registry (`LINKTYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(pub u32);

impl Link {
    /// BSD loopback: four bytes of protocol family.
    pub const NULL: Link = Link(0);
    /// Ethernet.
    pub const ETHERNET: Link = Link(1);
    /// IP without a link header, with its older numbers.
    pub const RAW: [Link; 3] = [Link(101), Link(12), Link(14)];
    /// Linux's "any" interface.
    pub const LINUX_COOKED: Link = Link(113);
    /// Linux's "any" interface, second version.
    pub const LINUX_COOKED_2: Link = Link(276);
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender's address.
    pub source: SocketAddr,
    /// The receiver's address: for a feed, its group and port.
    pub destination: SocketAddr,
    /// The data.
    pub payload: &'a [u8],
}

/// Why a frame has no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotUdp {
    /// An unsupported link type.
    UnknownLink(Link),
    /// Neither IPv4 nor IPv6, or a protocol other than UDP.
    OtherProtocol,
    /// A fragment of a datagram; fragments are not reassembled.
    Fragment,
    /// The lengths contradict each other, or the capture cut the frame.
    Cut,
}

/// Returns the datagram of a frame. Checksums are ignored, because captures on a sender have
/// none.
///
/// # Errors
/// [`NotUdp`].
pub fn udp(link: Link, frame: &[u8]) -> Result<Datagram<'_>, NotUdp> {
    let ip = match link {
        Link::ETHERNET => ethernet(frame)?,
        Link::NULL => frame.get(4..).ok_or(NotUdp::Cut)?,
        Link::LINUX_COOKED => frame.get(16..).ok_or(NotUdp::Cut)?,
        Link::LINUX_COOKED_2 => frame.get(20..).ok_or(NotUdp::Cut)?,
        link if Link::RAW.contains(&link) => frame,
        link => return Err(NotUdp::UnknownLink(link)),
    };
    match ip.first().ok_or(NotUdp::Cut)? >> 4 {
        4 => ipv4(ip),
        6 => ipv6(ip),
        _ => Err(NotUdp::OtherProtocol),
    }
}

fn ethernet(frame: &[u8]) -> Result<&[u8], NotUdp> {
    let mut at = 12;
    loop {
        let kind = frame.get(at..at + 2).ok_or(NotUdp::Cut)?;
        at += 2;
        match kind {
            [0x08, 0x00] | [0x86, 0xdd] => return Ok(&frame[at..]),
            // VLAN tags, at most two.
            [0x81, 0x00] | [0x88, 0xa8] if at < 22 => at += 2,
            _ => return Err(NotUdp::OtherProtocol),
        }
    }
}

fn ipv4(bytes: &[u8]) -> Result<Datagram<'_>, NotUdp> {
    let header = bytes.first_chunk::<20>().ok_or(NotUdp::Cut)?;
    let header_length = usize::from(header[0] & 0xF) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[9] != UDP {
        return Err(NotUdp::OtherProtocol);
    }
    // More fragments, or not the first one.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3FFF != 0 {
        return Err(NotUdp::Fragment);
    }
    // With segmentation offload a sender's length may be 0.
    let total = if total == 0 { bytes.len() } else { total };
    let body = bytes.get(header_length..total).ok_or(NotUdp::Cut)?;
    if header_length < header.len() {
        return Err(NotUdp::Cut);
    }
    let address = |at: usize| {
        let octets = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        IpAddr::V4(Ipv4Addr::from(octets))
    };
    ports(address(12), address(16), body)
}

fn ipv6(bytes: &[u8]) -> Result<Datagram<'_>, NotUdp> {
    let (header, rest) = bytes.split_first_chunk::<40>().ok_or(NotUdp::Cut)?;
    match header[6] {
        UDP => {}
        IPV6_FRAGMENT => return Err(NotUdp::Fragment),
        _ => return Err(NotUdp::OtherProtocol),
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let body = rest.get(..length).ok_or(NotUdp::Cut)?;
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    ports(address(8), address(24), body)
}

fn ports(source: IpAddr, destination: IpAddr, body: &[u8]) -> Result<Datagram<'_>, NotUdp> {
    let (header, rest) = body.split_first_chunk::<8>().ok_or(NotUdp::Cut)?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let length = usize::from(word(4)).checked_sub(8).ok_or(NotUdp::Cut)?;
    Ok(Datagram {
        source: SocketAddr::new(source, word(0)),
        destination: SocketAddr::new(destination, word(2)),
        payload: rest.get(..length).ok_or(NotUdp::Cut)?,
    })
}

const UDP: u8 = 17;
const IPV6_FRAGMENT: u8 = 44;
