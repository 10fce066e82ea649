//! Network captures: pcap and pcapng files, and their UDP datagrams.
//!
//! [`Decoder`] takes bytes and returns [`Frame`]s; [`udp`] finds the datagram in a frame. Both
//! borrow, allocate nothing per frame, and skip what they do not know.

mod datagram;

#[cfg(test)]
mod tests;

pub use datagram::{Datagram, Link, NotUdp, udp};

use thiserror::Error;

/// Maximum bytes of a block or frame; a longer one is an error.
pub const BLOCK_LENGTH_MAX: usize = 16 << 20;
/// Maximum interfaces of one section of a pcapng file.
pub const INTERFACES_MAX: usize = 4_096;

/// One captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Time of capture, nanoseconds since the UNIX epoch; 0 if the file has no time.
    pub time_ns: u64,
    /// The link type: the format of the frame's first bytes.
    pub link: Link,
    /// The bytes; fewer than the original if the capture cut the frame.
    pub bytes: &'a [u8],
    /// Whether the capture cut the frame.
    pub is_cut: bool,
}

/// The result of [`Decoder::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// More bytes are needed. At the end of the input: the file is cut, unless no bytes are left.
    NeedMore,
    /// This many bytes hold no frame.
    Skip(usize),
    /// A frame, and the number of bytes it took.
    Frame(Frame<'a>, usize),
}

/// Why bytes are not a capture. The reader knows the position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The first bytes match neither format.
    #[error("neither a pcap nor a pcapng file")]
    UnknownFormat,
    /// An impossible length.
    #[error("invalid block or frame length: {0} bytes")]
    BadLength(u64),
    /// A frame of an interface that the file does not describe.
    #[error("a frame of interface {0}, which the file does not define")]
    UnknownInterface(u32),
}

/// A decoder of a capture from its beginning.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    format: Option<Format>,
}

#[derive(Clone, Debug)]
enum Format {
    Classic {
        order: Order,
        link: Link,
        /// Nanoseconds per unit of the fraction.
        unit_ns: u64,
    },
    Blocks {
        order: Order,
        interfaces: Vec<Interface>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Link,
    /// Units per second.
    resolution: u64,
    offset_s: i64,
}

/// Returns whether a file with this beginning is a capture.
pub fn looks_like_file(head: &[u8]) -> bool {
    head.first_chunk()
        .is_some_and(|&magic| magic == SECTION_MAGIC || classic_order(magic).is_some())
}

impl Decoder {
    /// Creates a decoder at the start of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the front of `input`. Call again with the bytes after it, and with more bytes
    /// after [`Step::NeedMore`].
    ///
    /// # Errors
    /// [`CaptureError`]: the rest cannot be decoded.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Step<'a>, CaptureError> {
        match &mut self.format {
            Some(Format::Classic {
                order,
                link,
                unit_ns,
            }) => classic_frame(input, *order, *link, *unit_ns),
            Some(Format::Blocks { order, interfaces }) => block(input, order, interfaces),
            None => self.begin(input),
        }
    }

    fn begin<'a>(&mut self, input: &'a [u8]) -> Result<Step<'a>, CaptureError> {
        let Some(&magic) = input.first_chunk() else {
            return Ok(Step::NeedMore);
        };
        if magic == SECTION_MAGIC {
            self.format = Some(Format::Blocks {
                order: Order::Little,
                interfaces: Vec::new(),
            });
            return Ok(Step::Skip(0));
        }
        let Some((order, unit_ns)) = classic_order(magic) else {
            return Err(CaptureError::UnknownFormat);
        };
        let Some(header) = input.first_chunk::<CLASSIC_HEADER_LENGTH>() else {
            return Ok(Step::NeedMore);
        };
        // The upper half may hold the length of a checksum after each frame.
        let link = Link(order.u32(header, 20) & 0xFFFF);
        self.format = Some(Format::Classic {
            order,
            link,
            unit_ns,
        });
        Ok(Step::Skip(CLASSIC_HEADER_LENGTH))
    }
}

fn classic_order(magic: [u8; 4]) -> Option<(Order, u64)> {
    match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => Some((Order::Little, 1_000)),
        [0xa1, 0xb2, 0xc3, 0xd4] => Some((Order::Big, 1_000)),
        [0x4d, 0x3c, 0xb2, 0xa1] => Some((Order::Little, 1)),
        [0xa1, 0xb2, 0x3c, 0x4d] => Some((Order::Big, 1)),
        _ => None,
    }
}

#[inline]
fn classic_frame(
    input: &[u8],
    order: Order,
    link: Link,
    unit_ns: u64,
) -> Result<Step<'_>, CaptureError> {
    const HEADER: usize = 16;
    let Some((header, rest)) = input.split_first_chunk::<HEADER>() else {
        return Ok(Step::NeedMore);
    };
    let length = order.u32(header, 8) as usize;
    if length > BLOCK_LENGTH_MAX {
        return Err(CaptureError::BadLength(length as u64));
    }
    let Some(bytes) = rest.get(..length) else {
        return Ok(Step::NeedMore);
    };
    let (seconds, fraction) = (order.u32(header, 0), order.u32(header, 4));
    let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit_ns;
    let frame = Frame {
        time_ns,
        link,
        bytes,
        is_cut: order.u32(header, 12) as usize > length,
    };
    Ok(Step::Frame(frame, HEADER + length))
}

#[inline]
fn block<'a>(
    input: &'a [u8],
    order: &mut Order,
    interfaces: &mut Vec<Interface>,
) -> Result<Step<'a>, CaptureError> {
    let Some(head) = input.first_chunk::<12>() else {
        return Ok(Step::NeedMore);
    };
    if head.starts_with(&SECTION_MAGIC) {
        // Each section has its own byte order and interfaces.
        *order = match head.last_chunk() {
            Some([0x4d, 0x3c, 0x2b, 0x1a]) => Order::Little,
            Some([0x1a, 0x2b, 0x3c, 0x4d]) => Order::Big,
            _ => return Err(CaptureError::UnknownFormat),
        };
        interfaces.clear();
    }
    let (kind, length) = (order.u32(head, 0), order.u32(head, 4) as usize);
    if !(12..=BLOCK_LENGTH_MAX).contains(&length) || length % 4 != 0 {
        return Err(CaptureError::BadLength(length as u64));
    }
    let Some(whole) = input.get(..length) else {
        return Ok(Step::NeedMore);
    };
    let body = &whole[8..length - 4];
    match kind {
        INTERFACE_DESCRIPTION => {
            if interfaces.len() >= INTERFACES_MAX {
                return Err(CaptureError::UnknownInterface(interfaces.len() as u32));
            }
            let short = CaptureError::BadLength(length as u64);
            interfaces.push(Interface::read(body, *order).ok_or(short)?);
            Ok(Step::Skip(length))
        }
        ENHANCED_PACKET | SIMPLE_PACKET | OLD_PACKET => {
            match packet(kind, body, *order, interfaces)? {
                Some(frame) => Ok(Step::Frame(frame, length)),
                None => Err(CaptureError::BadLength(length as u64)),
            }
        }
        _ => Ok(Step::Skip(length)),
    }
}

/// Returns the frame of a block; `None` if the block is too short.
#[inline]
fn packet<'a>(
    kind: u32,
    body: &'a [u8],
    order: Order,
    interfaces: &[Interface],
) -> Result<Option<Frame<'a>>, CaptureError> {
    let header_length = if kind == SIMPLE_PACKET { 4 } else { 20 };
    let Some((header, data)) = body.split_at_checked(header_length) else {
        return Ok(None);
    };
    let number = match kind {
        SIMPLE_PACKET => 0,
        OLD_PACKET => u32::from(order.u16(header, 0)),
        _ => order.u32(header, 0),
    };
    let interface = interfaces
        .get(number as usize)
        .ok_or(CaptureError::UnknownInterface(number))?;
    let (time_ns, length, original) = if kind == SIMPLE_PACKET {
        let original = order.u32(header, 0) as usize;
        (0, original.min(data.len()), original)
    } else {
        let units = u64::from(order.u32(header, 4)) << 32 | u64::from(order.u32(header, 8));
        let (length, original) = (order.u32(header, 12), order.u32(header, 16));
        (interface.time_ns(units), length as usize, original as usize)
    };
    Ok(data.get(..length).map(|bytes| Frame {
        time_ns,
        link: interface.link,
        bytes,
        is_cut: original > length,
    }))
}

impl Interface {
    fn read(body: &[u8], order: Order) -> Option<Self> {
        let (header, mut options) = body.split_at_checked(8)?;
        let mut interface = Self {
            link: Link(u32::from(order.u16(header, 0))),
            resolution: 1_000_000,
            offset_s: 0,
        };
        while let Some((head, rest)) = options.split_at_checked(4) {
            let (code, length) = (order.u16(head, 0), usize::from(order.u16(head, 2)));
            let Some(value) = rest.get(..length).filter(|_| code != 0) else {
                break;
            };
            match (code, value) {
                (OPTION_RESOLUTION, &[exponent]) => {
                    interface.resolution = resolution(exponent);
                }
                (OPTION_OFFSET, value) if value.len() == 8 => {
                    let words = (order.u32(value, 0), order.u32(value, 4));
                    let (low, high) = match order {
                        Order::Little => words,
                        Order::Big => (words.1, words.0),
                    };
                    interface.offset_s = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
            options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(interface)
    }

    #[inline]
    fn time_ns(&self, units: u64) -> u64 {
        let ns = u128::from(units) * 1_000_000_000 / u128::from(self.resolution);
        let offset_ns = i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(ns as i128 + offset_ns).unwrap_or(0)
    }
}

/// Returns the units per second: a power of ten, or of two if the highest bit is set. An
/// impossible resolution counts as the default.
fn resolution(exponent: u8) -> u64 {
    let power = match exponent & 0x80 {
        0 => 10_u64.checked_pow(exponent.into()),
        _ => 2_u64.checked_pow(u32::from(exponent & 0x7F)),
    };
    power.unwrap_or(1_000_000)
}

impl Order {
    #[inline]
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let word = [bytes[at], bytes[at + 1]];
        match self {
            Order::Little => u16::from_le_bytes(word),
            Order::Big => u16::from_be_bytes(word),
        }
    }

    #[inline]
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Order::Little => u32::from_le_bytes(word),
            Order::Big => u32::from_be_bytes(word),
        }
    }
}

const SECTION_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const CLASSIC_HEADER_LENGTH: usize = 24;
const INTERFACE_DESCRIPTION: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
