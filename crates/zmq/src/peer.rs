//! What a socket knows of one peer.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::backlog::Backlog;
use crate::incoming::Incoming;
use crate::kind::SocketType;
use crate::link::{Interest, StreamLink};
use crate::muted::Muted;
use crate::options::Options;
use crate::pipe::PipeEnd;
use crate::properties::{Properties, PropertyList};
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
    /// Whether only the newest message waits, either way: the option as it was when the program
    /// bound or connected the endpoint.
    pub(crate) conflates: bool,
    /// The name under which ROUTER files it.
    pub(crate) routing_id: Vec<u8>,
    /// Whether the socket's pattern knows it: it may be sent to.
    pub(crate) is_attached: bool,
    /// Handed over while the connection could not take it.
    pub(crate) backlog: Backlog,
    /// Encoded bytes of its connection up to which messages are encoded at once. Further ones
    /// wait in the backlog, which a new connection can still send.
    pub(crate) output_bytes_max: usize,
    /// Messages that the kernel took and that still count against the high-water mark: see
    /// [`Peer::kernel_is_full`].
    pub(crate) held_messages: usize,
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
    /// Its endpoint is undone; what it is owed is still to be sent.
    pub(crate) is_leaving: bool,
    /// Until when it may be owed something then; `u64::MAX`: indefinitely.
    pub(crate) leave_ns: u64,
    /// Its connection, while it is not listened to.
    pub(crate) muted: Option<Box<Muted>>,
    /// What ZAP is being asked about it.
    pub(crate) zap: Option<Box<Inquiry>>,
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
    pub(crate) properties: PropertyList,
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

impl Peer {
    pub(crate) fn new(
        kind: SocketType,
        link: Link,
        origin: Option<Key>,
        options: Arc<Options>,
    ) -> Peer {
        let topics_out = options.topics_out(kind);
        let topics_in = options.topics_in(kind);
        Peer {
            link,
            origin,
            conflates: options.conflate && kind.conflates(),
            options,
            routing_id: Vec::new(),
            is_attached: false,
            backlog: topics_out.map_or_else(Backlog::default, Backlog::of_topics),
            output_bytes_max: match topics_out {
                None => OUTPUT_BYTES_MAX,
                Some(_) => CONFLATED_OUTPUT_BYTES_MAX,
            },
            incoming: topics_in.map_or_else(Incoming::default, Incoming::of_topics),
            held_messages: 0,
            counters: Counters::default(),
            is_readable: false,
            is_dirty: false,
            machine_timer_ns: u64::MAX,
            is_gone: false,
            is_leaving: false,
            leave_ns: u64::MAX,
            muted: None,
            zap: None,
            identity: None,
            dropped_ns: 0,
        }
    }

    /// Messages that have been handed over and are not with the kernel or the other socket.
    pub(crate) fn pending_messages(&self) -> usize {
        self.backlog.messages()
            + match &self.link {
                Link::Stream(link) => link.pending_messages(),
                Link::Pipe(pipe) => pipe.pending(),
                Link::Datagrams(_) | Link::None => 0,
            }
    }

    /// Messages that count against the high-water mark.
    pub(crate) fn counted_messages(&self) -> usize {
        self.pending_messages() + self.held_messages
    }

    /// The kernel takes no more at the moment. As with libzmq, messages that it took make room in
    /// steps of half the mark, so that what fits is the same with a peer that does not read: the
    /// mark and what the peer takes, whole steps of it.
    pub(crate) fn kernel_is_full(&mut self, high_water: usize) {
        let pending = self.pending_messages() as u64;
        let taken = self.counters.sent.saturating_sub(pending);
        self.held_messages = (taken % (high_water as u64).div_ceil(2).max(1)) as usize;
    }

    /// The kernel has taken everything.
    #[inline]
    pub(crate) fn kernel_has_room(&mut self) {
        self.held_messages = 0;
    }

    /// Bytes that have been handed over and are not with the kernel; what is on its way to a
    /// socket of this process is not counted.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.backlog.bytes()
            + match &self.link {
                Link::Stream(link) => link.pending_bytes(),
                Link::Pipe(_) | Link::Datagrams(_) | Link::None => 0,
            }
    }

    /// Messages that newer ones have replaced, on the way to it and from it.
    pub(crate) fn conflated(&self) -> u64 {
        self.counters.conflated
            + match &self.link {
                Link::Pipe(pipe) => pipe.conflated() as u64,
                Link::Stream(_) | Link::Datagrams(_) | Link::None => 0,
            }
    }

    /// Whether everything handed over has left this process, or reached the other socket.
    pub(crate) fn is_flushed(&self) -> bool {
        match &self.link {
            Link::Stream(link) => {
                self.backlog.is_empty() && link.is_ready() && link.pending_bytes() == 0
            }
            // What is in a pipe is the other socket's, also of one that is still to be bound.
            Link::Pipe(_) => true,
            Link::Datagrams(_) | Link::None => self.backlog.is_empty(),
        }
    }
}

/// Limit of encoded bytes per connection.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// The same where topics are conflated: what is encoded is replaced no more. As long as a burst of
/// sends, so that these still leave in one write.
const CONFLATED_OUTPUT_BYTES_MAX: usize = 16 << 10;
