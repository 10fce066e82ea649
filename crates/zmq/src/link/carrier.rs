//! What carries the bytes of a connection: the kernel, or memory that both processes map.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use tidewire_rings::Channel;

/// A stream of bytes in both directions that never waits.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// TCP or a Unix socket.
    Kernel(OwnedFd),
    Shared(Box<Channel>),
}

impl Carrier {
    pub(crate) fn shared(&self) -> Option<&Channel> {
        match self {
            Carrier::Kernel(_) => None,
            Carrier::Shared(channel) => Some(channel),
        }
    }

    pub(crate) fn shared_mut(&mut self) -> Option<&mut Channel> {
        match self {
            Carrier::Kernel(_) => None,
            Carrier::Shared(channel) => Some(channel),
        }
    }

    /// Reads into `buffer`, which has room for a byte at least. 0: the peer has closed.
    #[inline]
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        assert!(!buffer.is_empty(), "a read into no room looks like the end");
        match self {
            Carrier::Kernel(descriptor) => rustix::io::read(descriptor, buffer),
            Carrier::Shared(channel) => channel.read(buffer),
        }
    }

    /// Reads to the end of `bytes`, as far as that has room without growing: for a byte at least.
    /// 0: the peer has closed.
    #[inline]
    pub(super) fn read_to(&mut self, bytes: &mut Vec<u8>) -> Result<usize, Errno> {
        let has_room = bytes.len() < bytes.capacity();
        assert!(has_room, "a read into no room looks like the end");
        match self {
            Carrier::Kernel(descriptor) => rustix::io::read(descriptor, spare_capacity(bytes)),
            Carrier::Shared(channel) => channel.read_to(bytes),
        }
    }

    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Carrier::Kernel(descriptor) => send(descriptor, bytes, SendFlags::NOSIGNAL),
            Carrier::Shared(channel) => channel.write(&[IoSlice::new(bytes)]),
        }
    }

    /// A vectored write that never raises SIGPIPE.
    #[inline]
    pub(super) fn send_slices(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        match self {
            Carrier::Kernel(descriptor) => {
                let mut nothing = SendAncillaryBuffer::default();
                sendmsg(descriptor, slices, &mut nothing, SendFlags::NOSIGNAL)
            }
            Carrier::Shared(channel) => channel.write(slices),
        }
    }
}

impl AsFd for Carrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Carrier::Kernel(descriptor) => descriptor.as_fd(),
            Carrier::Shared(channel) => channel.as_fd(),
        }
    }
}
