//! The network of a simulated process: socket pairs.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Receives the outgoing connections of a simulated process's lanes.
#[derive(Debug, Default)]
pub(crate) struct SimulatedNetwork {
    dialed: Mutex<VecDeque<(SocketAddr, OwnedFd)>>,
}

impl SimulatedNetwork {
    /// Creates a connection and returns one end; the other end waits to be taken.
    pub(crate) fn dial(&self, address: SocketAddr) -> rustix::io::Result<OwnedFd> {
        let (ours, theirs) = stream_pair()?;
        self.dialed.lock().push_back((address, theirs));
        Ok(ours)
    }

    /// Takes the oldest waiting connection.
    pub(crate) fn take(&self) -> Option<(SocketAddr, OwnedFd)> {
        self.dialed.lock().pop_front()
    }
}

/// Returns both ends of a connection; neither blocks.
pub(crate) fn stream_pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}
