//! What one socket leaves for another, to be taken in whenever that one is next at work.

use std::net::SocketAddr;

use crate::pipe::PipeEnd;
use crate::slab::Key;

#[derive(Debug)]
pub(crate) enum Mail {
    /// A peer in this process has connected.
    Attach { end: PipeEnd, endpoint: String },
    /// The one to whom an early in-process connection was made is there now.
    Introduced { peer: Key },
    /// A host's name has been looked up for this connecting endpoint.
    Resolved {
        endpoint: Key,
        addresses: Vec<SocketAddr>,
    },
}
