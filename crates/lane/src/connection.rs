//! One socket of a lane, and its id.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;

use crate::application::CloseReason;
use crate::outbox::Outbox;

/// Names a connection of a lane. Never reused: an id whose connection has ended finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// Names no connection.
    pub const NONE: ConnectionId = ConnectionId {
        index: u32::MAX,
        generation: 0,
    };

    /// Position in a table that an application keeps a connection; reused after a close.
    pub fn index(self) -> usize {
        self.index as usize
    }

    pub(crate) fn to_token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_token(token: u64) -> Self {
        Self {
            index: token as u32,
            generation: (token >> 32) as u32,
        }
    }
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP peer.
    Tcp(SocketAddr),
    /// A process of this machine, over a Unix socket.
    Local,
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => address.fmt(formatter),
            Peer::Local => formatter.write_str("local"),
        }
    }
}

/// A connection's state in its lane.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) port: u16,
    /// Received and not yet consumed.
    pub(crate) input: Vec<u8>,
    /// How many more bytes the application knows to come; 0 if it does not know.
    pub(crate) expected: usize,
    pub(crate) outbox: Outbox,
    /// What epoll watches for now.
    pub(crate) watched: EventFlags,
    /// An outgoing connection that does not stand yet.
    pub(crate) connecting: bool,
    /// The application takes no input until the outbox has drained.
    pub(crate) paused: bool,
    /// While it is paused, up to this many bytes of input are received and kept all the same.
    pub(crate) ahead_bytes_max: usize,
    /// The application takes no input until it says so.
    pub(crate) held: bool,
    /// And what it has sent is kept although it leaves.
    pub(crate) set_aside: bool,
    /// Epoll does not watch it: it is set aside, and has left.
    pub(crate) unwatched: bool,
    /// The application wants to hear when the outbox has drained.
    pub(crate) wants_drained: bool,
    /// The kernel took less than all: wait until the socket is writable.
    pub(crate) blocked: bool,
    /// The application knows of output that the kernel did not take.
    pub(crate) told_blocked: bool,
    /// It is in the lane's list of outboxes to send at the end of the turn.
    pub(crate) dirty: bool,
    /// It is in the lane's queue of outboxes to send in parts.
    pub(crate) queued: bool,
    pub(crate) closing: Closing,
}

/// How far a connection is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    No,
    /// Ends when the outbox is empty, or at the time given (monotonic ns).
    Flushing {
        reason: CloseReason,
        deadline_ns: u64,
    },
    Now(CloseReason),
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, port: u16, connecting: bool) -> Self {
        Self {
            socket,
            port,
            input: Vec::new(),
            expected: 0,
            outbox: Outbox::default(),
            watched: EventFlags::empty(),
            connecting,
            paused: false,
            ahead_bytes_max: 0,
            held: false,
            set_aside: false,
            unwatched: false,
            wants_drained: false,
            blocked: false,
            told_blocked: false,
            dirty: false,
            queued: false,
            closing: Closing::No,
        }
    }

    /// What epoll ought to watch for, given the state.
    pub(crate) fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        if self.connecting || self.blocked {
            wanted |= EventFlags::OUT;
        }
        if !self.connecting && self.closing == Closing::No {
            if self.is_reading() || self.is_reading_ahead() {
                wanted |= EventFlags::IN;
            } else if self.held && !self.set_aside {
                // It may wait for long: its peer's leaving is all there is to hear of.
                wanted |= EventFlags::RDHUP;
            }
        }
        wanted
    }

    /// Whether input is received that the application takes later.
    pub(crate) fn is_reading_ahead(&self) -> bool {
        let is_paused = self.paused && !self.held && self.closing == Closing::No;
        is_paused && self.input.len() < self.ahead_bytes_max
    }

    /// Whether the application takes input now.
    pub(crate) fn is_reading(&self) -> bool {
        !self.paused && !self.held && self.closing == Closing::No
    }
}
