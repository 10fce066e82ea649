//! What a socket knows of one peer.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::incoming::Incoming;
use crate::link::{Interest, StreamLink};
use crate::message::{Message, Properties};
use crate::options::Options;
use crate::pipe::PipeEnd;
use crate::slab::Key;
use crate::udp::DatagramLink;

/// One peer: how it is reached, and what is kept for it and from it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) link: Link,
    /// The endpoint that it came by.
    pub(crate) origin: Option<Key>,
    /// The options of that endpoint, which last as long as the peer does.
    pub(crate) options: Arc<Options>,
    /// The name under which ROUTER files it.
    pub(crate) routing_id: Vec<u8>,
    /// Whether the socket's pattern knows it: it may be sent to.
    pub(crate) is_attached: bool,
    /// Handed over while the connection could not take it: whole messages, frame by frame.
    pub(crate) backlog: VecDeque<Message>,
    pub(crate) backlog_messages: usize,
    pub(crate) backlog_bytes: usize,
    /// Received, and waiting for the program.
    pub(crate) incoming: Incoming,
    pub(crate) counters: Counters,
    /// It is in the queue of those that may have something to read.
    pub(crate) is_readable: bool,
    /// It has output that waits for more to come, or for the end of the turn.
    pub(crate) is_dirty: bool,
    /// When the timer of its protocol machine comes; `u64::MAX`: there is none.
    pub(crate) machine_timer_ns: u64,
    /// The link is gone; what it had brought is still to be read.
    pub(crate) is_gone: bool,
    /// What ZAP is being asked about it.
    pub(crate) zap: Option<Inquiry>,
    pub(crate) identity: Option<Arc<Properties>>,
    /// When a message to it was last dropped, in nanoseconds; 0: never. Kept only for monitors.
    pub(crate) dropped_ns: u64,
}

/// How a peer is reached.
#[derive(Debug)]
pub(crate) enum Link {
    /// Not at the moment.
    None,
    Stream(Box<StreamLink>),
    Pipe(PipeEnd),
    /// By UDP, which is always there.
    Datagrams(Box<DatagramLink>),
}

impl Link {
    /// What its descriptor is watched for, if it has one.
    pub(crate) fn interest_mut(&mut self) -> Option<&mut Interest> {
        match self {
            Link::Stream(link) => Some(&mut link.interest),
            Link::Datagrams(link) => Some(&mut link.interest),
            Link::Pipe(_) | Link::None => None,
        }
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Link::Stream(link) => Some(link.as_fd()),
            Link::Datagrams(link) => Some(link.as_fd()),
            Link::Pipe(_) | Link::None => None,
        }
    }
}

/// A question about a peer to the ZAP handler, which has not answered yet.
#[derive(Debug)]
pub(crate) struct Inquiry {
    pub(crate) pipe: PipeEnd,
    /// What the handler has said of the peer.
    pub(crate) properties: Vec<(Box<str>, Box<str>)>,
}

/// What has become of a peer's messages; read by `Socket::peers`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) dropped: u64,
    pub(crate) conflated: u64,
    pub(crate) malformed: u64,
}

impl Inquiry {
    pub(crate) fn into_properties(self) -> Vec<(Box<str>, Box<str>)> {
        self.properties
    }
}

impl Peer {
    pub(crate) fn new(link: Link, origin: Option<Key>, options: Arc<Options>) -> Peer {
        Peer {
            link,
            origin,
            options,
            routing_id: Vec::new(),
            is_attached: false,
            backlog: VecDeque::new(),
            backlog_messages: 0,
            backlog_bytes: 0,
            incoming: Incoming::default(),
            counters: Counters::default(),
            is_readable: false,
            is_dirty: false,
            machine_timer_ns: u64::MAX,
            is_gone: false,
            zap: None,
            identity: None,
            dropped_ns: 0,
        }
    }

    /// Messages that have been handed over and are not with the kernel or the other socket.
    pub(crate) fn pending_messages(&self) -> usize {
        debug_assert_eq!(
            self.backlog_messages == 0,
            self.backlog.is_empty(),
            "a backlog ends with a whole message"
        );
        self.backlog_messages
            + match &self.link {
                Link::Stream(link) => link.pending_messages(),
                Link::Pipe(pipe) => pipe.pending(),
                Link::Datagrams(_) | Link::None => 0,
            }
    }

    /// Bytes that have been handed over and are not with the kernel; what is on its way to a
    /// socket of this process is not counted.
    pub(crate) fn pending_bytes(&self) -> usize {
        debug_assert!(
            self.backlog_bytes == 0 || !self.backlog.is_empty(),
            "an empty backlog has no bytes"
        );
        self.backlog_bytes
            + match &self.link {
                Link::Stream(link) => link.pending_bytes(),
                Link::Pipe(_) | Link::Datagrams(_) | Link::None => 0,
            }
    }

    /// Forgets what waits for a connection.
    pub(crate) fn clear_backlog(&mut self) {
        self.backlog.clear();
        self.backlog_messages = 0;
        self.backlog_bytes = 0;
    }

    /// Whether everything handed over has left this process, or reached the other socket.
    pub(crate) fn is_flushed(&self) -> bool {
        match &self.link {
            Link::Stream(link) => {
                self.backlog.is_empty() && link.is_ready() && link.pending_bytes() == 0
            }
            Link::Pipe(pipe) => pipe.is_attached() || pipe.pending() == 0,
            Link::Datagrams(_) | Link::None => self.backlog.is_empty(),
        }
    }
}
