//! One socket of a lane, and its id.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::EventFlags;

use crate::application::CloseReason;
use crate::outbox::{Flush, FlushCount, Outbox};
use crate::secure::Secure;

/// The id of a connection of a lane. Never reused: the id of an ended connection finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// The id of no connection.
    pub const NONE: ConnectionId = ConnectionId {
        index: u32::MAX,
        generation: 0,
    };

    /// Returns the index in a table that an application keeps per connection; reused after a
    /// close.
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
    /// A process on this machine, over a Unix socket.
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
    /// Received and unconsumed bytes.
    pub(crate) input: Vec<u8>,
    /// Number of further bytes the application expects; 0 if unknown.
    pub(crate) expected: usize,
    pub(crate) outbox: Outbox,
    /// Its TLS, if it has any.
    pub(crate) secure: Option<Box<Secure>>,
    /// Whether its TLS handshake is not done: the application does not know it yet.
    pub(crate) handshaking: bool,
    /// The peer of an accepted connection without TLS, until it has sent something.
    pub(crate) fresh: Option<Peer>,
    /// The events that epoll watches now.
    pub(crate) watched: EventFlags,
    /// Whether this is an outgoing connection that is not established yet.
    pub(crate) connecting: bool,
    /// Whether the application takes no input until the outbox has drained.
    pub(crate) paused: bool,
    /// Maximum bytes of input received and kept while the connection is paused.
    pub(crate) ahead_bytes_max: usize,
    /// Whether the application takes no input until it releases the connection.
    pub(crate) held: bool,
    /// Whether a held connection keeps its received input even if the peer leaves.
    pub(crate) set_aside: bool,
    /// Whether epoll does not watch it, because it is set aside and its peer has left.
    pub(crate) unwatched: bool,
    /// Whether the application must be notified when the outbox has drained.
    pub(crate) wants_drained: bool,
    /// Whether the kernel accepted only a part: wait until the socket is writable.
    pub(crate) blocked: bool,
    /// Whether the application knows of output that the kernel did not accept.
    pub(crate) told_blocked: bool,
    /// Whether it is in the lane's list of outboxes to send at the end of the turn.
    pub(crate) dirty: bool,
    /// Whether it is in the lane's queue of outboxes to send in parts.
    pub(crate) queued: bool,
    pub(crate) closing: Closing,
}

/// The closing state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    No,
    /// Closes when the outbox is empty, or at the given time (monotonic nanoseconds).
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
            secure: None,
            handshaking: false,
            fresh: None,
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

    /// Returns the events that epoll must watch in this state.
    pub(crate) fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        if self.connecting || self.blocked {
            wanted |= EventFlags::OUT;
        }
        if self.handshaking {
            // One that waits for its turn would be reported in each turn.
            let is_listed = self.secure.as_ref().is_some_and(|secure| secure.is_listed);
            wanted.set(EventFlags::IN, !is_listed && self.closing == Closing::No);
            return wanted;
        }
        if !self.connecting && self.closing == Closing::No {
            if self.is_reading() || self.is_reading_ahead() {
                wanted |= EventFlags::IN;
            } else if self.held && !self.set_aside {
                // The connection may wait for long: only the end of the peer matters.
                wanted |= EventFlags::RDHUP;
            }
        }
        wanted
    }

    /// Sends as much output as the kernel accepts. `room` keeps its memory for the next one.
    pub(crate) fn flush(&mut self, room: &mut Vec<u8>, counter: &mut FlushCount) -> Flush {
        let (outbox, socket) = (&mut self.outbox, self.socket.as_fd());
        match &mut self.secure {
            None => outbox.flush(socket, counter),
            Some(secure) => secure.flush(outbox, socket, room, counter),
        }
    }

    /// Returns the bytes that wait for the peer.
    pub(crate) fn unsent_bytes(&self) -> usize {
        let ciphertext = self.secure.as_ref().map_or(0, |one| one.outgoing_bytes());
        self.outbox.len() + ciphertext
    }

    /// Returns whether a send is useful.
    pub(crate) fn may_send(&self) -> bool {
        let is_ready = !self.connecting && !self.handshaking;
        let has_ciphertext = || {
            self.secure
                .as_ref()
                .is_some_and(|one| one.outgoing_bytes() > 0)
        };
        is_ready && (self.outbox.may_leave() || has_ciphertext())
    }

    /// Returns whether input is received for the application to take later.
    pub(crate) fn is_reading_ahead(&self) -> bool {
        let is_paused = self.paused && !self.held && self.closing == Closing::No;
        is_paused && self.input.len() < self.ahead_bytes_max
    }

    /// Returns whether the application takes input now.
    pub(crate) fn is_reading(&self) -> bool {
        !self.paused && !self.held && self.closing == Closing::No
    }
}
