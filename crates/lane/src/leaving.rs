//! Sockets of connections that have ended, until their peers have read the last words.
//!
//! A socket that is closed with unread input, or to which input comes after its close, resets the
//! connection: what the peer has not received yet is lost, such as the reason of the close. So the
//! lane ends its own direction only, reads and drops what still comes, and closes the socket when
//! the peer has closed its direction, or a limit is reached.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, Shutdown, sockopt};

/// The sockets of a lane's ended connections, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    sockets: Vec<LeavingSocket>,
}

#[derive(Debug)]
struct LeavingSocket {
    socket: OwnedFd,
    deadline_ns: u64,
    /// Bytes that may still be read.
    left_bytes: usize,
}

impl Leaving {
    /// Takes the socket of a connection whose output was sent. Closes it at once if nothing can be
    /// lost by that.
    pub(crate) fn add(&mut self, socket: OwnedFd, now_ns: u64) {
        // A Unix socket's output is in the peer's queue already.
        let is_tcp = matches!(
            sockopt::socket_domain(&socket),
            Ok(AddressFamily::INET | AddressFamily::INET6)
        );
        if !is_tcp || rustix::net::shutdown(&socket, Shutdown::Write).is_err() {
            return;
        }
        if self.sockets.len() == SOCKETS_MAX {
            self.sockets.remove(0);
        }
        self.sockets.push(LeavingSocket {
            socket,
            deadline_ns: now_ns.saturating_add(LEAVE_NS),
            left_bytes: LEAVE_BYTES_MAX,
        });
        debug_assert!(self.sockets.len() <= SOCKETS_MAX, "the oldest has left");
    }

    /// Returns whether there are any: the lane looks at them from time to time.
    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Drops the input that has come, and closes the sockets that are done with.
    pub(crate) fn look(&mut self, now_ns: u64) {
        self.sockets
            .retain_mut(|one| one.deadline_ns > now_ns && one.drop_input());
    }

    /// Returns the number of sockets.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.sockets.len()
    }
}

impl LeavingSocket {
    /// Reads and drops what has come. Returns whether more may come.
    fn drop_input(&mut self) -> bool {
        let mut chunk = [0; CHUNK_BYTES];
        while self.left_bytes > 0 {
            match rustix::net::recv(&self.socket, &mut chunk, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((count, _)) => self.left_bytes = self.left_bytes.saturating_sub(count),
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        false
    }
}

/// Maximum time for the peer to read the last output and to close its direction.
const LEAVE_NS: u64 = 10_000_000_000;
/// Maximum bytes of a peer that are dropped.
const LEAVE_BYTES_MAX: usize = 16 << 20;
/// Maximum sockets of a lane that wait for their peers.
const SOCKETS_MAX: usize = 256;
const CHUNK_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (peer, listener.accept().unwrap().0)
    }

    #[test]
    fn a_peer_that_goes_on_sending_reads_the_last_words_and_is_let_go_when_it_closes() {
        let (mut peer, mut socket) = pair();
        let mut leaving = Leaving::default();
        socket.write_all(b"too slow").unwrap();
        leaving.add(socket.into(), 0);
        peer.write_all(b"still here").unwrap();
        leaving.look(1);
        assert_eq!(leaving.len(), 1, "it has not closed");
        peer.write_all(b"still here").unwrap();
        let mut said = Vec::new();
        assert_eq!(peer.read_to_end(&mut said).unwrap(), 8);
        assert_eq!(said, b"too slow");
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        while !leaving.is_empty() {
            leaving.look(2);
        }
    }

    #[test]
    fn no_peer_holds_a_socket_for_longer_than_the_limits() {
        let (_silent, socket) = pair();
        let mut leaving = Leaving::default();
        leaving.add(socket.into(), 5);
        leaving.look(LEAVE_NS + 4);
        assert_eq!(leaving.len(), 1);
        leaving.look(LEAVE_NS + 5);
        assert!(leaving.is_empty(), "the time is over");

        let (mut busy, socket) = pair();
        leaving.add(socket.into(), 0);
        let sender = std::thread::spawn(move || {
            let chunk = vec![0; 1 << 20];
            while busy.write_all(&chunk).is_ok() {}
        });
        while !leaving.is_empty() {
            leaving.look(1);
        }
        sender.join().unwrap();

        let mut peers = Vec::new();
        for _ in 0..=SOCKETS_MAX {
            let (peer, socket) = pair();
            leaving.add(socket.into(), 0);
            peers.push(peer);
        }
        assert_eq!(leaving.len(), SOCKETS_MAX, "the oldest is closed");
    }
}
