//! The end of a connection over a Unix socket, in the peer's queue.
//!
//! A peer that reads slowly must find the hang-up behind everything that was sent, also when this
//! process has ended by then. So the last byte carries our end of the connection itself: the kernel
//! keeps that open until the peer reads the byte or closes, and no descriptor or process waits for
//! it. The peer asks for no descriptors, so that the kernel closes ours when the byte is read.
//!
//! The byte is the beginning of a frame that never comes. Every version of ZMTP and every security
//! mechanism drops it at the end of the connection.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Puts our end of a connection into the peer's queue. Close the descriptor then.
///
/// # Errors
/// [`Errno::AGAIN`]: the queue is full. Others: the peer is gone, or the kernel keeps no more
/// descriptors for this user.
pub(crate) fn leave(descriptor: &OwnedFd) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let itself = [descriptor.as_fd()];
    let has_room = rights.push(SendAncillaryMessage::ScmRights(&itself));
    debug_assert!(has_room, "the space is for one descriptor");
    let slices = [IoSlice::new(&BEGINNING)];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = sendmsg(descriptor, &slices, &mut rights, flags)?;
    debug_assert_eq!(sent, BEGINNING.len(), "a byte is sent as a whole");
    Ok(())
}

/// The flags of a frame.
const BEGINNING: [u8; 1] = [0];

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn state_of(stream: &UnixStream) -> PollFlags {
        let mut polled = [PollFd::new(stream, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).unwrap();
        polled[0].revents()
    }

    #[test]
    fn the_hang_up_comes_behind_the_last_byte() {
        let (mut stream, mut peer) = UnixStream::pair().unwrap();
        stream.write_all(b"hello").unwrap();
        let descriptor = OwnedFd::from(stream);
        leave(&descriptor).unwrap();
        drop(descriptor);
        assert_eq!(state_of(&peer), PollFlags::IN);
        let mut read = [0; 6];
        peer.read_exact(&mut read[..5]).unwrap();
        assert_eq!(state_of(&peer), PollFlags::IN);
        peer.read_exact(&mut read[5..]).unwrap();
        assert_eq!(&read, b"hello\0");
        assert!(state_of(&peer).contains(PollFlags::HUP));
        assert_eq!(peer.read(&mut read).unwrap(), 0);
    }

    #[test]
    fn a_full_queue_and_a_peer_that_is_gone_are_told_apart() {
        let (mut stream, mut peer) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = stream.write(&[1; 1_000]) {
            sent += count;
        }
        let descriptor = OwnedFd::from(stream);
        assert_eq!(leave(&descriptor), Err(Errno::AGAIN));
        peer.read_exact(&mut vec![0; sent]).unwrap();
        assert_eq!(leave(&descriptor), Ok(()));
        drop(peer);
        assert_eq!(leave(&descriptor), Err(Errno::PIPE));
    }
}
