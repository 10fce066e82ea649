//! What a socket is made of. Everything here runs under the socket's lock, in the thread that
//! drives it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use rustix::event::epoll;
use rustix::io::Errno;
use tidewire_rings::Patience;
use tidewire_zmtp::PrefixTable;

use crate::background::BackgroundThread;
use crate::clock::now_ns;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::SocketEpoll;
use crate::inproc::Inproc;
use crate::kind::SocketType;
use crate::last_value::LastValues;
use crate::link::{Interest, Spares};
use crate::manual::Manual;
use crate::message::Message;
use crate::monitor::Monitor;
use crate::options::Options;
use crate::parting::Partings;
use crate::peer::{Link, Peer};
use crate::shared::Rings;
use crate::signal::Signal;
use crate::slab::{Key, Slab};
use crate::tasks::Tasks;

/// A socket's state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) kind: SocketType,
    pub(crate) options: Options,
    /// As they were when something was last bound or connected; see [`State::options_now`].
    pub(crate) options_shared: Arc<Options>,
    /// The in-process endpoints of the context.
    pub(crate) inproc: Arc<Inproc>,
    pub(crate) signal: Arc<Signal>,
    /// Watches every descriptor of this socket, and its bell.
    /// `None`: the socket is over.
    pub(crate) epoll: Option<Arc<SocketEpoll>>,
    /// Looks names up.
    pub(crate) resolver: Arc<BackgroundThread>,
    pub(crate) peers: Slab<Peer>,
    pub(crate) endpoints: Slab<Endpoint>,
    pub(crate) last_endpoint: String,
    /// What the next bind listens with, instead of a descriptor of its own.
    pub(crate) lent_listener: Option<OwnedFd>,
    pub(crate) monitor: Option<Monitor>,
    pub(crate) timers: BinaryHeap<Reverse<(u64, Timer)>>,
    /// The time of this turn, in nanoseconds of the process's clock.
    pub(crate) now_ns: u64,

    /// Peers that may have something to read, in the order of their turns.
    pub(crate) readable: VecDeque<Key>,
    /// The rest of the message that the program is taking out, or one looked up early.
    pub(crate) receiving: VecDeque<Message>,
    /// A frame with more to come has been handed out.
    pub(crate) is_amid_receiving: bool,
    /// Peers in the order in which they are sent to.
    pub(crate) writable: Vec<Key>,
    pub(crate) turn: usize,
    pub(crate) sending: Sending,
    /// ROUTER and STREAM: the peers by routing id.
    pub(crate) routes: HashMap<Vec<u8>, Key>,
    pub(crate) next_routing_id: u32,
    pub(crate) exchange: Exchange,
    /// SUB and XSUB: the subscriptions.
    pub(crate) subscriptions: PrefixTable<u8>,
    /// PUB and XPUB: the subscribers of each prefix.
    pub(crate) subscribers: PrefixTable<Key>,
    pub(crate) manual: Manual,
    pub(crate) matched: Vec<Key>,
    /// PUB and XPUB: the last message of each topic, where they are kept for new subscribers.
    pub(crate) last_values: Option<Box<LastValues>>,
    /// Peers whose handshake is not done, the oldest first, where they are limited.
    pub(crate) handshakes: VecDeque<Key>,

    /// Peers with output that is held back for a larger write.
    pub(crate) dirty: Vec<Key>,
    pub(crate) burst: Burst,
    /// Peers whose connection has failed in the middle of something, and leaving peers that are
    /// owed nothing more.
    pub(crate) broken: Vec<Key>,
    pub(crate) is_closing: bool,

    /// The background thread will be told of events.
    pub(crate) is_armed: bool,
    /// The background thread looks in from time to time.
    pub(crate) is_watched: bool,
    /// Calls that have driven the input.
    pub(crate) visits: u64,
    pub(crate) seen_visits: u64,
    /// When a publisher last looked for subscriptions, in nanoseconds.
    pub(crate) looked_ns: u64,
    /// Threads that wait for this socket's epoll.
    pub(crate) waiters: u32,
    /// The last call has driven the input, so that the next one probably will.
    pub(crate) has_visited: bool,
    /// The program has been told that it can send, and has not failed to since.
    pub(crate) is_told_writable: bool,
    /// The background thread writes what a burst holds back.
    pub(crate) is_bursting: bool,
    /// The earliest time at which the background thread will look in.
    pub(crate) scheduled_ns: u64,
    /// Descriptors in the epoll, the bell not counted.
    pub(crate) descriptors: usize,
    /// Number of peers whose kernel buffer is full.
    pub(crate) writes_watched: usize,
    /// It receives datagrams. The kernel loses those that it has no room for: the background thread
    /// reads whenever no caller waits.
    pub(crate) has_datagrams: bool,
    /// Peers within the process.
    pub(crate) pipes: Vec<Key>,
    pub(crate) rings: Rings,
    /// Buffers that connections read into.
    pub(crate) spares: Spares,
    /// How long a thread that waits stays awake.
    pub(crate) patience: Patience,
    /// Peers whose connection is not listened to.
    pub(crate) muted: Vec<Key>,
    /// Peers that a ZAP handler is asked about.
    pub(crate) inquiries: Vec<Key>,
    /// Connections that were ended from here, until their peers have what was sent last.
    pub(crate) partings: Partings,
    /// Tasks that wait for something to receive, or for room to send.
    pub(crate) tasks: Tasks,
    /// Long messages gather: the kernel does not keep up.
    pub(crate) is_pressed: bool,
    /// Reads left before all peers are polled again.
    pub(crate) reads_left: u32,
    /// All is closed.
    pub(crate) is_finished: bool,
}

/// Where REQ and REP are in their conversation.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// REQ: a reply is awaited. REP: a reply is owed.
    pub(crate) is_open: bool,
    /// The peer of the exchange.
    pub(crate) peer: Option<Key>,
    /// REP: the frames before the request's body.
    pub(crate) envelope: Vec<Message>,
    /// REQ: the number of the request, where they are told apart.
    pub(crate) request_id: u32,
}

/// A message of which some frames have been handed over.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// Its first frame is here, its last is not.
    pub(crate) is_open: bool,
    pub(crate) recipient: Recipient,
    /// What goes before the frame that comes next.
    pub(crate) frames: Vec<Message>,
}

impl Sending {
    /// Puts a frame before the one that comes next.
    pub(crate) fn push(&mut self, frame: Message) {
        self.frames.push(frame);
    }

    /// Whether the rest of a message is awaited.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether no frame waits for the last one.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The message is dropped: the peer is gone.
    #[default]
    None,
    Peer(Key),
    /// PUB: all peers in `State::matched`.
    Matched,
    /// XSUB: a message to all publishers.
    All,
    /// XSUB: a subscription.
    Subscription,
}

/// Why a frame was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// No peer can take it now.
    Full,
    Failed(Error),
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Of the protocol machine: handshake, heartbeat.
    Machine(Key),
    /// To connect again.
    Reconnect(Key),
    /// To accept again after a failure.
    Accept(Key),
    /// To give up connecting.
    Connect(Key),
    /// To give up what a leaving peer is still owed.
    Leave(Key),
    /// To close a connection whose peer does not end it.
    Part(Key),
    /// To ask whether peers have what was sent last. The kernel does not tell.
    Acknowledge,
    Linger,
}

/// Sends that follow one another faster than the kernel takes them are written together.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    pub(crate) is_on: bool,
    /// Direct writes in a row that came right behind one another.
    pub(crate) streak: u32,
    pub(crate) last_write_ns: u64,
    /// Something was held back since the background thread last looked.
    pub(crate) is_fresh: bool,
}

impl State {
    pub(crate) fn new(
        kind: SocketType,
        options: Options,
        inproc: Arc<Inproc>,
        signal: Arc<Signal>,
        epoll: Arc<SocketEpoll>,
        resolver: Arc<BackgroundThread>,
    ) -> State {
        let patience = options.patience();
        State {
            kind,
            options_shared: Arc::new(options.clone()),
            options,
            inproc,
            signal,
            epoll: Some(epoll),
            resolver,
            peers: Slab::new(),
            endpoints: Slab::new(),
            last_endpoint: String::new(),
            lent_listener: None,
            monitor: None,
            timers: BinaryHeap::new(),
            now_ns: now_ns(),
            readable: VecDeque::new(),
            receiving: VecDeque::new(),
            is_amid_receiving: false,
            writable: Vec::new(),
            turn: 0,
            sending: Sending::default(),
            routes: HashMap::new(),
            next_routing_id: crate::clock::random() as u32,
            exchange: Exchange {
                request_id: crate::clock::random() as u32,
                ..Exchange::default()
            },
            subscriptions: PrefixTable::new(),
            subscribers: PrefixTable::new(),
            manual: Manual::default(),
            matched: Vec::new(),
            last_values: None,
            handshakes: VecDeque::new(),
            dirty: Vec::new(),
            burst: Burst::default(),
            broken: Vec::new(),
            is_closing: false,
            is_armed: false,
            is_watched: false,
            visits: 0,
            seen_visits: 0,
            looked_ns: 0,
            waiters: 0,
            has_visited: false,
            is_told_writable: false,
            is_bursting: false,
            scheduled_ns: u64::MAX,
            descriptors: 0,
            writes_watched: 0,
            has_datagrams: false,
            pipes: Vec::new(),
            rings: Rings::default(),
            spares: Spares::new(),
            patience,
            muted: Vec::new(),
            inquiries: Vec::new(),
            partings: Partings::default(),
            tasks: Tasks::default(),
            is_pressed: false,
            reads_left: 0,
            is_finished: false,
        }
    }

    /// Changes what a peer's descriptor is watched for.
    pub(crate) fn watch(&mut self, key: Key, change: impl FnOnce(&mut Interest)) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Some(known) = peer.link.interest_mut() else {
            return;
        };
        let mut interest = *known;
        change(&mut interest);
        let before = std::mem::replace(known, interest);
        if interest == before {
            return;
        }
        if interest.write != before.write {
            match interest.write {
                true => self.writes_watched += 1,
                false => {
                    debug_assert!(self.writes_watched > 0, "a watched write was counted");
                    self.writes_watched -= 1;
                }
            }
        }
        if let Link::Stream(link) = &peer.link
            && link.carrier.shared().is_some()
        {
            return self.activate(key);
        }
        let flags = interest.flags();
        let data = epoll::EventData::new_u64(Token::Peer(key).to_bits());
        if let Some(descriptor) = peer.link.descriptor()
            && let Some(epoll) = &self.epoll
        {
            // It fails only for a descriptor that is not there, which is seen elsewhere.
            let _ = epoll::modify(&**epoll, descriptor, data, flags);
        }
    }

    /// Adds a descriptor to the epoll.
    pub(crate) fn watch_descriptor(
        &mut self,
        descriptor: impl AsFd,
        token: Token,
        flags: epoll::EventFlags,
    ) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(token.to_bits());
        let epoll = self.epoll.as_ref().ok_or(Errno::BADF)?;
        epoll::add(&**epoll, descriptor, data, flags)?;
        self.descriptors += 1;
        Ok(())
    }

    /// Takes a descriptor out of the epoll.
    pub(crate) fn unwatch_descriptor(&mut self, descriptor: impl AsFd) {
        if let Some(epoll) = &self.epoll
            && epoll::delete(&**epoll, descriptor).is_ok()
        {
            debug_assert!(self.descriptors > 0, "a watched descriptor was counted");
            self.descriptors -= 1;
        }
    }

    /// Ends the monitor with a last event.
    pub(crate) fn stop_monitor(&mut self) {
        if let Some(monitor) = self.monitor.take() {
            monitor.stop();
        }
    }

    pub(crate) fn set_timer(&mut self, deadline_ns: u64, timer: Timer) {
        self.timers.push(Reverse((deadline_ns, timer)));
    }

    /// The next time something is to be done without an event.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((deadline, _))| *deadline)
    }
}

impl Interest {
    pub(crate) fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, self.read);
        flags.set(epoll::EventFlags::OUT, self.write);
        flags
    }
}

/// What an event of the socket's epoll is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// The bell.
    Signal,
    /// What [`crate::polled`] tells programs.
    Flag,
    Peer(Key),
    Endpoint(Key),
    /// A connection that was ended from here.
    Parting(Key),
}

impl Token {
    const PEER: u64 = 1 << 62;
    const ENDPOINT: u64 = 2 << 62;
    const PARTING: u64 = 3 << 62;
    const FLAG: u64 = 1;

    pub(crate) fn to_bits(self) -> u64 {
        let (kind, key) = match self {
            Token::Signal => return 0,
            Token::Flag => return Token::FLAG,
            Token::Peer(key) => (Token::PEER, key),
            Token::Endpoint(key) => (Token::ENDPOINT, key),
            Token::Parting(key) => (Token::PARTING, key),
        };
        let bits = key.to_bits();
        debug_assert!(bits < Token::PEER, "a key leaves two bits for its kind");
        kind | bits
    }

    pub(crate) fn from_bits(bits: u64) -> Token {
        let key = Key::from_bits(bits & (Token::PEER - 1));
        match bits >> 62 {
            0 if bits == Token::FLAG => Token::Flag,
            0 => Token::Signal,
            1 => Token::Peer(key),
            2 => Token::Endpoint(key),
            _ => Token::Parting(key),
        }
    }
}
