//! How the memory comes from one side to the other: in one message over their Unix socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::channel::{Channel, Sizes};
use crate::memory::Memory;

/// The memory that the other side has created.
#[derive(Debug)]
pub struct Offer {
    memory: Memory,
    sizes: Sizes,
}

impl Channel {
    /// Creates the memory of a connection and hands it over. The socket is connected, and nothing
    /// was sent over it.
    ///
    /// # Errors
    /// No memory or no descriptor is left, or the peer is gone.
    pub fn offer(socket: OwnedFd, sizes: Sizes) -> Result<Channel, Errno> {
        let (memory, descriptor) = Memory::create(sizes.memory_bytes())?;
        let mut message = [0; MESSAGE_BYTES];
        message[..8].copy_from_slice(MAGIC);
        message[8..12].copy_from_slice(&(sizes.from_offerer as u32).to_le_bytes());
        message[12..].copy_from_slice(&(sizes.to_offerer as u32).to_le_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor.as_fd()];
        let has_room = rights.push(SendAncillaryMessage::ScmRights(&descriptors));
        debug_assert!(has_room, "the space is for one descriptor");
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let slices = [IoSlice::new(&message)];
        let sent = rustix::net::sendmsg(&socket, &slices, &mut rights, flags)?;
        if sent != MESSAGE_BYTES {
            return Err(Errno::AGAIN);
        }
        Ok(Channel::new(socket, memory, sizes, true))
    }
}

impl Offer {
    /// Takes the offer from the socket. `None`: it is not there yet.
    ///
    /// # Errors
    /// [`Errno::PROTO`]: it is none, or its memory is not as it must be. [`Errno::CONNRESET`]: the
    /// peer is gone.
    pub fn receive(socket: &OwnedFd) -> Result<Option<Offer>, Errno> {
        let mut message = [0; MESSAGE_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut slices = [IoSliceMut::new(&mut message)];
        let count = match rustix::net::recvmsg(socket, &mut slices, &mut rights, flags) {
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut descriptors = rights.drain().flat_map(|right| match right {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptor = descriptors.next().and_then(|mut list| list.next());
        if count == 0 {
            return Err(Errno::CONNRESET);
        }
        let sizes = sizes(&message[..count]).ok_or(Errno::PROTO)?;
        let memory = Memory::open(&descriptor.ok_or(Errno::PROTO)?, sizes.memory_bytes())?;
        Ok(Some(Offer { memory, sizes }))
    }

    /// The channel over the socket that the offer came by.
    pub fn accept(self, socket: OwnedFd) -> Channel {
        Channel::new(socket, self.memory, self.sizes, false)
    }
}

/// The sizes in a message; `None`: it is no offer.
pub(crate) fn sizes(message: &[u8]) -> Option<Sizes> {
    let sizes = message.strip_prefix(MAGIC)?;
    let (from, to) = sizes.split_first_chunk()?;
    let sizes = Sizes {
        from_offerer: u32::from_le_bytes(*from) as usize,
        to_offerer: u32::from_le_bytes(to.try_into().ok()?) as usize,
    };
    sizes.are_valid().then_some(sizes)
}

/// The name of what is offered, and its version.
const MAGIC: &[u8; 8] = b"TWRINGS1";
const MESSAGE_BYTES: usize = 16;
