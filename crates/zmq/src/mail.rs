//! Messages between sockets of a process, and from helper threads; each socket handles its own.

use std::net::SocketAddr;

use crate::pipe::PipeEnd;
use crate::slab::Key;

#[derive(Debug)]
pub(crate) enum Mail {
    /// A peer in this process has connected.
    Attach { end: PipeEnd, endpoint: String },
    /// The endpoint of an early in-process connection is bound now.
    Introduced { peer: Key },
    /// A host's name has been looked up for this connecting endpoint.
    Resolved {
        endpoint: Key,
        addresses: Vec<SocketAddr>,
    },
}
