//! Many sends in one system call, with io_uring.
//!
//! This module uses `unsafe` because it passes raw pointers to the kernel. The kernel no longer
//! uses them when [`Ring::send`] returns: no send may wait (MSG_DONTWAIT), so the kernel
//! completes each one when it accepts it, and the call returns after each has its result.

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

/// An io_uring of one thread, only for sends.
pub(crate) struct Ring {
    ring: IoUring,
    /// The batch before it is passed to the kernel.
    entries: Vec<squeue::Entry>,
}

/// The result of one send of a batch.
pub(crate) type Sent = rustix::io::Result<usize>;

impl Ring {
    /// Creates a ring for the calling thread, which alone may use it.
    ///
    /// # Errors
    /// The kernel has no io_uring, is older than 6.1, or does not allow it.
    pub(crate) fn new() -> std::io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .setup_submit_all()
            .build(BATCH_MAX as u32)?;
        Ok(Self {
            ring,
            entries: Vec::with_capacity(BATCH_MAX),
        })
    }

    /// Returns whether the kernel allows a ring.
    pub(crate) fn is_possible() -> bool {
        Self::new().is_ok()
    }

    /// Sends to each of the first [`BATCH_MAX`] sockets as many of its bytes as the kernel
    /// accepts now, and puts each result into `outcomes`. `None` keeps its place there and sends
    /// nothing.
    ///
    /// # Errors
    /// The ring has failed and must be dropped. Sends that were not started are `None`.
    pub(crate) fn send<'b>(
        &mut self,
        sends: impl Iterator<Item = Option<(BorrowedFd<'b>, &'b [u8])>>,
        outcomes: &mut Vec<Option<Sent>>,
    ) -> std::io::Result<()> {
        // Nothing of this is in the ring yet, so a panic of the iterator leaves no pointer there.
        self.entries.clear();
        outcomes.clear();
        for (number, send) in sends.take(BATCH_MAX).enumerate() {
            outcomes.push(None);
            let Some((socket, bytes)) = send else {
                continue;
            };
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let send = opcode::Send::new(types::Fd(socket.as_raw_fd()), bytes.as_ptr(), length)
                .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
                .build();
            self.entries.push(send.user_data(number as u64));
        }
        // SAFETY: sockets and bytes are borrowed for 'b, which outlives this call. When
        // `complete` returns Ok, each send has its result, so the kernel no longer uses them; no
        // send waits in the kernel (MSG_DONTWAIT). After an error the ring is dropped, together
        // with the sends it has not passed on.
        let pushed = unsafe { self.ring.submission().push_multiple(&self.entries) };
        pushed.map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        self.complete(outcomes)
    }

    fn complete(&mut self, outcomes: &mut [Option<Sent>]) -> std::io::Result<()> {
        let mut left = self.entries.len();
        while left > 0 {
            let submitted = self.ring.submit_and_wait(left);
            for completion in self.ring.completion() {
                let result = completion.result();
                let sent = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
                if let Some(outcome) = outcomes.get_mut(completion.user_data() as usize) {
                    *outcome = Some(sent);
                    left -= 1;
                }
            }
            match submitted {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").finish_non_exhaustive()
    }
}

/// Maximum sends of one call.
pub(crate) const BATCH_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::Shutdown;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Returns a ring, if the kernel allows one.
    fn ring() -> Option<Ring> {
        Ring::new()
            .inspect_err(|error| eprintln!("not tested: no io_uring here ({error})"))
            .ok()
    }

    #[test]
    fn each_socket_gets_its_own_bytes() {
        let Some(mut ring) = ring() else { return };
        let mut outcomes = Vec::new();
        let pairs: Vec<_> = (0..BATCH_MAX + 5)
            .map(|_| UnixStream::pair().unwrap())
            .collect();
        let texts: Vec<_> = (0..pairs.len())
            .map(|number| format!("to {number}"))
            .collect();
        let sends = pairs.iter().zip(&texts);
        let sends = sends.map(|((ours, _), text)| Some((ours.as_fd(), text.as_bytes())));
        ring.send(sends, &mut outcomes).unwrap();
        for (number, (_, theirs)) in pairs.iter().enumerate().take(BATCH_MAX) {
            assert_eq!(outcomes[number], Some(Ok(texts[number].len())));
            let mut received = vec![0; texts[number].len()];
            (&*theirs).read_exact(&mut received).unwrap();
            assert_eq!(received, texts[number].as_bytes());
        }
        // Sends beyond the maximum are not started.
        assert_eq!(outcomes.len(), BATCH_MAX);
        theirs_is_empty(&pairs[BATCH_MAX].1);
    }

    #[test]
    fn a_full_and_a_closed_socket_harm_no_other() {
        let Some(mut ring) = ring() else { return };
        let mut outcomes = Vec::new();
        let (full, _full_peer) = UnixStream::pair().unwrap();
        let (closed, closed_peer) = UnixStream::pair().unwrap();
        drop(closed_peer);
        let (ended, _ended_peer) = UnixStream::pair().unwrap();
        ended.shutdown(Shutdown::Write).unwrap();
        let (well, mut well_peer) = UnixStream::pair().unwrap();
        let much = vec![b'x'; 8 << 20];
        let sends = [
            (full.as_fd(), much.as_slice()),
            (closed.as_fd(), b"nobody"),
            (ended.as_fd(), b"nothing"),
            (well.as_fd(), b"hello"),
        ];
        ring.send(sends.into_iter().map(Some), &mut outcomes)
            .unwrap();
        let taken = outcomes[0].unwrap().unwrap();
        assert!(taken > 0 && taken < much.len());
        assert_eq!(outcomes[1], Some(Err(Errno::PIPE)));
        assert_eq!(outcomes[2], Some(Err(Errno::PIPE)));
        assert_eq!(outcomes[3], Some(Ok(5)));
        let mut received = [0; 5];
        well_peer.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"hello");
        // A socket full to the last byte returns EAGAIN at once.
        let again = [None, Some((full.as_fd(), much.as_slice()))];
        ring.send(again.into_iter(), &mut outcomes).unwrap();
        assert_eq!(outcomes, [None, Some(Err(Errno::AGAIN))]);
    }

    fn theirs_is_empty(socket: &UnixStream) {
        socket.set_nonblocking(true).unwrap();
        let error = (&*socket).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}
