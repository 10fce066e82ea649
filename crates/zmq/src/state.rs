//! What a socket is made of, and how messages leave it. Everything here runs under the socket's
//! lock, in whichever thread drives it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;

use foldhash::{HashMap, HashMapExt};
use rustix::event::epoll;
use tidewire_zmtp::PrefixTable;

use crate::clock::now_ns;
use crate::context::ContextInner;
use crate::endpoint::Endpoint;
use crate::kind::SocketType;
use crate::last_value::LastValues;
use crate::link::Interest;
use crate::message::Message;
use crate::monitor::Monitor;
use crate::options::Options;
use crate::peer::{Link, Peer};
use crate::send::Sending;
use crate::signal::Signal;
use crate::slab::{Key, Slab};

/// A socket's state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) kind: SocketType,
    pub(crate) options: Options,
    /// As they were when something was last bound or connected; see [`State::options_now`].
    pub(crate) options_shared: Arc<Options>,
    pub(crate) context: Arc<ContextInner>,
    pub(crate) signal: Arc<Signal>,
    /// Watches every descriptor of this socket, and its bell.
    pub(crate) epoll: Arc<OwnedFd>,
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
    /// ROUTER and STREAM: who is filed under which name.
    pub(crate) routes: HashMap<Vec<u8>, Key>,
    pub(crate) next_routing_id: u32,
    pub(crate) exchange: Exchange,
    /// SUB and XSUB: what is wanted.
    pub(crate) subscriptions: PrefixTable<u8>,
    /// PUB and XPUB: who wants what.
    pub(crate) subscribers: PrefixTable<Key>,
    pub(crate) manual: crate::publish::Manual,
    pub(crate) matched: Vec<Key>,
    /// PUB and XPUB: the last message of each topic, where they are kept for new subscribers.
    pub(crate) last_values: Option<Box<LastValues>>,
    /// Peers whose handshake is not done, the oldest first, where they are limited.
    pub(crate) handshakes: VecDeque<Key>,

    /// Peers with output that is held back for a larger write.
    pub(crate) dirty: Vec<Key>,
    pub(crate) burst: Burst,
    /// Peers whose connection has failed in the middle of something.
    pub(crate) broken: Vec<Key>,
    pub(crate) is_closing: bool,

    /// The background thread will be told of events.
    pub(crate) is_armed: bool,
    /// The background thread looks in from time to time.
    pub(crate) is_watched: bool,
    /// Calls that have driven the input.
    pub(crate) visits: u64,
    pub(crate) seen_visits: u64,
    /// When a publisher has last looked for subscriptions.
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
    /// Peers for whom the kernel has no room.
    pub(crate) writes_watched: usize,
    /// Peers within the process.
    pub(crate) pipes: Vec<Key>,
    /// Peers that a ZAP handler is asked about.
    pub(crate) inquiries: Vec<Key>,
    /// Tasks that wait for something to receive, or for room to send.
    pub(crate) wakers: Vec<Waker>,
    /// Long messages gather: the kernel does not keep up.
    pub(crate) is_pressed: bool,
    /// Reads that may be made before the next look at everybody.
    pub(crate) reads_left: u32,
    /// All is closed.
    pub(crate) is_finished: bool,
}

/// Where REQ and REP are in their conversation.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// REQ: a reply is awaited. REP: a reply is owed.
    pub(crate) is_open: bool,
    /// With whom.
    pub(crate) peer: Option<Key>,
    /// REP: the frames before the request's body.
    pub(crate) envelope: Vec<Message>,
    /// REQ: the number of the request, where they are told apart.
    pub(crate) request_id: u32,
}

/// What a deadline is about.
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
    Linger,
}

/// Sends that follow one another faster than the kernel takes them are written together.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    pub(crate) is_on: bool,
    /// Direct writes in a row that came right behind one another.
    streak: u32,
    last_write_ns: u64,
    /// Something was held back since the background thread last looked.
    pub(crate) is_fresh: bool,
}

impl State {
    pub(crate) fn new(
        kind: SocketType,
        context: Arc<ContextInner>,
        signal: Arc<Signal>,
        epoll: Arc<OwnedFd>,
    ) -> State {
        let options = Options {
            ipv6: context.ipv6(),
            // Subscriptions are all that a subscriber could linger for.
            linger_ms: match context.is_blocky() && !kind.is_subscriber() {
                true => -1,
                false => 0,
            },
            message_bytes_max: -1,
            ..Options::default()
        };
        State {
            kind,
            options_shared: Arc::new(options.clone()),
            options,
            context,
            signal,
            epoll,
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
            manual: crate::publish::Manual::default(),
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
            pipes: Vec::new(),
            inquiries: Vec::new(),
            wakers: Vec::new(),
            is_pressed: false,
            reads_left: 0,
            is_finished: false,
        }
    }

    /// Whether a message for this peer would be taken.
    #[inline]
    pub(crate) fn can_write(&mut self, key: Key) -> bool {
        let high_water = self.options.send_high_water as usize;
        let conflates = self.options.conflate;
        if self.options.send_high_water_bytes > 0 && !self.has_room_in_bytes(key) {
            return false;
        }
        let Some(peer) = self.peers.get_mut(key) else {
            return false;
        };
        match &mut peer.link {
            Link::Pipe(pipe) => return pipe.can_write(),
            _ if high_water == 0 || conflates => return true,
            Link::Stream(link) => {
                if peer.backlog_messages + link.pending_messages() < high_water {
                    return true;
                }
                if !link.is_ready() {
                    return false;
                }
            }
            Link::None => return peer.backlog_messages < high_water,
        }
        // Perhaps the kernel has room again.
        self.flush(key);
        self.peers
            .get(key)
            .is_some_and(|peer| peer.pending_messages() < high_water)
    }

    /// Whether fewer bytes wait for a peer than may, where they are limited.
    #[cold]
    fn has_room_in_bytes(&mut self, key: Key) -> bool {
        let limit = self.options.send_high_water_bytes as usize;
        let is_within =
            |state: &State| (state.peers.get(key)).is_some_and(|peer| peer.pending_bytes() < limit);
        if self.options.conflate || is_within(self) {
            return true;
        }
        // Perhaps the kernel has room again.
        self.flush(key);
        is_within(self)
    }

    /// Sends a message to a peer: `head`, each with more to follow, then `last`.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        key: Key,
        head: impl Iterator<Item = Message>,
        last: Last<'_>,
    ) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        peer.counters.sent += 1;
        match &mut peer.link {
            Link::Pipe(pipe) => {
                debug_assert!(peer.backlog.is_empty(), "a pipe has no backlog beside it");
                return pipe.write(head, last);
            }
            Link::Stream(link)
                if link.is_ready()
                    && peer.backlog.is_empty()
                    && link.pending_bytes() < OUTPUT_BYTES_MAX =>
            {
                head.for_each(|frame| link.push(frame));
                let result = match last {
                    Last::Message(message) => {
                        link.push(std::mem::take(message));
                        Ok(())
                    }
                    Last::Slice(bytes) => link.push_slice(bytes, false),
                };
                if result.is_err() {
                    return self.write_failed(key);
                }
            }
            Link::Stream(_) | Link::None => {
                if self.options.conflate {
                    peer.counters.conflated += peer.backlog_messages as u64;
                    peer.clear_backlog();
                }
                let Peer {
                    backlog,
                    backlog_bytes,
                    ..
                } = peer;
                backlog.extend(head.inspect(|frame| *backlog_bytes += frame.len()));
                let last = last.into_message();
                peer.backlog_bytes += last.len();
                self.is_pressed = last.len() >= PRESSING_BYTES_MIN;
                peer.backlog.push_back(last);
                peer.backlog_messages += 1;
                debug_assert!(
                    peer.backlog_messages <= peer.backlog.len(),
                    "whole messages"
                );
                return;
            }
        }
        self.after_push(key);
    }

    /// Something was put behind a connection's output: writes it now, or holds it back while
    /// sends follow one another.
    #[inline]
    fn after_push(&mut self, key: Key) {
        if self.burst.is_on {
            let Some(peer) = self.peers.get_mut(key) else {
                return;
            };
            let Link::Stream(link) = &mut peer.link else {
                return;
            };
            if link.interest.write {
                // The kernel is full: it will tell.
                return;
            }
            if link.pending_bytes() < BURST_BYTES {
                self.burst.is_fresh = true;
                if !peer.is_dirty {
                    debug_assert!(!self.dirty.contains(&key), "the mark and the list agree");
                    peer.is_dirty = true;
                    self.dirty.push(key);
                }
                return;
            }
            return self.flush(key);
        }
        // Measured from the end of one write to the beginning of the next: the write itself takes
        // longer than the gaps that matter.
        let begins_ns = now_ns();
        self.flush(key);
        let burst = &mut self.burst;
        if begins_ns.saturating_sub(burst.last_write_ns) < BURST_GAP_NS {
            burst.streak += 1;
            // Without a wait in between: `wait` ends a streak.
            burst.is_on = burst.streak >= BURST_STREAK;
        } else {
            burst.streak = 0;
        }
        burst.last_write_ns = now_ns();
    }

    /// The program waits or receives: it is not sending in a row.
    #[inline]
    pub(crate) fn end_streak(&mut self) {
        self.burst.streak = 0;
    }

    /// Writes all that is held back.
    #[inline]
    pub(crate) fn flush_dirty(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.is_dirty = false;
                self.flush(key);
            }
        }
        debug_assert!(dirty.is_empty(), "all of them were written");
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
    }

    /// Writes what the kernel takes of a peer's output, its backlog too.
    pub(crate) fn flush(&mut self, key: Key) {
        loop {
            let Some(peer) = self.peers.get_mut(key) else {
                return;
            };
            let Link::Stream(link) = &mut peer.link else {
                return;
            };
            let done = match link.flush() {
                Ok(done) => done,
                Err(_) => return self.write_failed(key),
            };
            if !done {
                return self.watch(key, |interest| interest.write = true);
            }
            if peer.backlog.is_empty() || !link.is_ready() {
                if link.interest.write {
                    self.watch(key, |interest| interest.write = false);
                }
                return;
            }
            while link.pending_bytes() < OUTPUT_BYTES_MAX
                && let Some(frame) = peer.backlog.pop_front()
            {
                debug_assert!(peer.backlog_bytes >= frame.len(), "what waited was counted");
                peer.backlog_messages -= usize::from(!frame.more());
                peer.backlog_bytes -= frame.len();
                link.push(frame);
            }
        }
    }

    /// A write has failed: what the peer has still sent is read first, then the end shows.
    fn write_failed(&mut self, key: Key) {
        if !self.broken.contains(&key) {
            self.broken.push(key);
        }
    }

    /// Changes what a peer's descriptor is watched for.
    pub(crate) fn watch(&mut self, key: Key, change: impl FnOnce(&mut Interest)) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Link::Stream(link) = &mut peer.link else {
            return;
        };
        let mut interest = link.interest;
        change(&mut interest);
        if interest == link.interest {
            return;
        }
        if interest.write != link.interest.write {
            match interest.write {
                true => self.writes_watched += 1,
                false => {
                    debug_assert!(self.writes_watched > 0, "a watched write was counted");
                    self.writes_watched -= 1;
                }
            }
        }
        link.interest = interest;
        let flags = interest.flags();
        let data = epoll::EventData::new_u64(Token::Peer(key).to_bits());
        // It fails only for a descriptor that is not there, which is seen elsewhere.
        let _ = epoll::modify(&*self.epoll, &**link, data, flags);
    }

    /// Adds a descriptor to the epoll.
    pub(crate) fn watch_descriptor(
        &mut self,
        descriptor: impl AsFd,
        token: Token,
        flags: epoll::EventFlags,
    ) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(token.to_bits());
        epoll::add(&*self.epoll, descriptor, data, flags)?;
        self.descriptors += 1;
        Ok(())
    }

    /// Takes a descriptor out of the epoll.
    pub(crate) fn unwatch_descriptor(&mut self, descriptor: impl AsFd) {
        if epoll::delete(&*self.epoll, descriptor).is_ok() {
            debug_assert!(self.descriptors > 0, "a watched descriptor was counted");
            self.descriptors -= 1;
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

/// The last frame of a message to be sent.
#[derive(Debug)]
pub(crate) enum Last<'a> {
    /// Taken out, its place left empty.
    Message(&'a mut Message),
    Slice(&'a [u8]),
}

impl Last<'_> {
    pub(crate) fn into_message(self) -> Message {
        match self {
            Last::Message(message) => std::mem::take(message),
            Last::Slice(bytes) => Message::from_slice(bytes),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Last::Message(message) => message.as_slice(),
            Last::Slice(bytes) => bytes,
        }
    }
}

/// What an event of the socket's epoll is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Signal,
    Peer(Key),
    Endpoint(Key),
}

impl Token {
    const PEER: u64 = 1 << 62;
    const ENDPOINT: u64 = 2 << 62;

    pub(crate) fn to_bits(self) -> u64 {
        match self {
            Token::Signal => 0,
            Token::Peer(key) => {
                debug_assert!(
                    key.to_bits() < Token::PEER,
                    "a key leaves two bits for its kind"
                );
                Token::PEER | key.to_bits()
            }
            Token::Endpoint(key) => Token::ENDPOINT | key.to_bits(),
        }
    }

    pub(crate) fn from_bits(bits: u64) -> Token {
        let key = Key::from_bits(bits & (Token::PEER - 1));
        match bits >> 62 {
            0 => Token::Signal,
            1 => Token::Peer(key),
            _ => Token::Endpoint(key),
        }
    }
}

/// Encoded bytes that a connection may hold; what comes on top waits as messages, which a new
/// connection can still send.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Messages of this length that gather fill the machine's memory, and its caches first.
const PRESSING_BYTES_MIN: usize = 8 << 10;
/// What is held back of sends in a row, at most.
const BURST_BYTES: usize = 16 << 10;
/// Sends closer to each other than this are in a row.
const BURST_GAP_NS: u64 = 4_000;
/// So many of them in a row are a burst.
const BURST_STREAK: u32 = 4;
