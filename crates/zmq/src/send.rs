//! Sending: which peers get a message, by the pattern of the socket.

use tidewire_zmtp::Limits;

use crate::error::Error;
use crate::kind::SocketType;
use crate::message::{Last, Message};
use crate::peer::Link;
use crate::pipe::PipeEnd;
use crate::slab::Key;
use crate::state::{NotSent, Recipient, State};

/// What became of a message's first frame.
enum Begun {
    /// It is a part of the message.
    Body,
    /// It names the recipient and is not sent.
    Address,
}

impl State {
    /// Takes one frame; with the last one the message goes.
    #[inline]
    pub(crate) fn send_frame(&mut self, frame: Last<'_>, more: bool) -> Result<(), NotSent> {
        // A raw message is a name and one frame of bytes; `more` is ignored.
        let more = more && !(self.sending.is_open && self.is_raw());
        if !self.sending.is_open {
            let begun = self.begin_message(&frame, more)?;
            if let Begun::Address = begun {
                if let Last::Message(message) = frame {
                    *message = Message::new();
                }
                self.sending.is_open = more;
                return Ok(());
            }
        }
        if more && self.sending.is_open && self.kind == SocketType::Dgram {
            return Err(NotSent::Failed(Error::InvalidArgument));
        }
        if more {
            let mut message = frame.into_message();
            message.set_more(true);
            self.sending.frames.push(message);
            self.sending.is_open = true;
            return Ok(());
        }
        debug_assert!(!more, "the last frame ends the message");
        self.sending.is_open = false;
        let frame = match frame {
            Last::Message(message) => {
                message.set_more(false);
                message.set_properties(None);
                message.set_routing_id(0);
                Last::Message(message)
            }
            slice @ Last::Slice(_) => slice,
        };
        self.finish_message(frame);
        Ok(())
    }

    /// The short way of a message of one frame to the one peer there is, another socket of the
    /// process. `None`: it goes the long way. The caller writes one message.
    #[inline]
    pub(crate) fn only_pipe(&mut self) -> Option<&mut PipeEnd> {
        if !self.kind.sends_in_turn() || self.sending.is_open {
            return None;
        }
        let &[key] = self.writable.as_slice() else {
            return None;
        };
        let peer = self.peers.get_mut(key)?;
        let Link::Pipe(pipe) = &mut peer.link else {
            return None;
        };
        if !pipe.can_write() {
            return None;
        }
        debug_assert!(peer.backlog.is_empty(), "a pipe has no backlog beside it");
        peer.counters.sent += 1;
        Some(pipe)
    }

    /// The short way of a short message of one frame to the one peer there is, over a connection.
    /// `false`: it goes the long way.
    #[inline]
    pub(crate) fn send_short(&mut self, body: &[u8]) -> bool {
        let options = &self.options;
        let is_limited = options.send_high_water_bytes > 0;
        if is_limited || !self.kind.sends_in_turn() || self.sending.is_open {
            return false;
        }
        let &[key] = self.writable.as_slice() else {
            return false;
        };
        let high_water = options.send_high_water as usize;
        let Some(peer) = self.peers.get_mut(key) else {
            return false;
        };
        let Link::Stream(link) = &mut peer.link else {
            return false;
        };
        let has_room = high_water == 0 || link.pending_messages() + peer.held_messages < high_water;
        if !has_room
            || peer.conflates
            || !peer.backlog.is_empty()
            || link.pending_bytes() >= peer.output_bytes_max
            || !link.push_short(body)
        {
            return false;
        }
        peer.counters.sent += 1;
        self.after_push(key);
        true
    }

    /// Whether bytes are sent as they are: a message of none ends its connection.
    #[inline]
    pub(crate) fn is_raw(&self) -> bool {
        self.kind == SocketType::Stream
            || (self.kind == SocketType::Router && self.options.router_raw)
    }

    /// Decides where a message goes.
    #[inline]
    fn begin_message(&mut self, frame: &Last<'_>, more: bool) -> Result<Begun, NotSent> {
        debug_assert!(!self.sending.is_open, "a message has one beginning");
        debug_assert!(
            self.sending.is_empty(),
            "no frame is left of the message before"
        );
        let recipient = match self.kind {
            SocketType::Push | SocketType::Dealer => Recipient::Peer(self.next_writable()?),
            SocketType::Sub | SocketType::Pull | SocketType::Gather | SocketType::Dish => {
                return Err(NotSent::Failed(Error::NotSupported));
            }
            kind if more && kind.is_single_framed() => {
                return Err(NotSent::Failed(Error::InvalidArgument));
            }
            SocketType::Client | SocketType::Scatter => Recipient::Peer(self.next_writable()?),
            SocketType::Server | SocketType::Peer => self.number(frame)?,
            SocketType::Dgram if !more => {
                return Err(NotSent::Failed(Error::InvalidArgument));
            }
            SocketType::Pair | SocketType::Channel | SocketType::Dgram => {
                match self.writable.first().copied() {
                    Some(key) if self.can_write(key) => Recipient::Peer(key),
                    _ => return Err(NotSent::Full),
                }
            }
            SocketType::Pub | SocketType::Xpub => {
                self.match_subscribers(frame.bytes())?;
                Recipient::Matched
            }
            SocketType::Radio => {
                self.begin_for_group(frame)?;
                Recipient::Matched
            }
            SocketType::Req => self.begin_request()?,
            SocketType::Rep => self.begin_reply()?,
            SocketType::Router | SocketType::Stream => {
                self.sending.recipient = self.route(frame.bytes(), more)?;
                return Ok(Begun::Address);
            }
            SocketType::Xsub => match frame.bytes().first() {
                // A publisher would end the connection at it, and each one after that.
                Some(0 | 1) if !more && frame.bytes().len() as u64 > LONGEST => {
                    return Err(NotSent::Failed(Error::InvalidArgument));
                }
                Some(0 | 1) if !more => Recipient::Subscription,
                _ => Recipient::All,
            },
        };
        self.sending.recipient = recipient;
        Ok(Begun::Body)
    }

    #[inline]
    fn finish_message(&mut self, last: Last<'_>) {
        let mut head = std::mem::take(&mut self.sending.frames);
        debug_assert!(
            head.iter().all(Message::more),
            "each frame says that another follows"
        );
        debug_assert!(
            self.kind != SocketType::Req
                || self
                    .exchange
                    .peer
                    .is_none_or(|peer| self.sending.recipient == Recipient::Peer(peer)),
            "the reply is awaited from the peer that is asked"
        );
        match self.sending.recipient {
            Recipient::None => {}
            Recipient::Peer(key) if self.is_raw() && last.bytes().is_empty() => {
                self.lose(key, crate::endpoint::Loss::ByUs);
            }
            Recipient::Peer(key) if head.is_empty() => self.transmit(key, std::iter::empty(), last),
            Recipient::Peer(key) => self.transmit(key, head.drain(..), last),
            Recipient::Matched => self.publish(&mut head, last),
            Recipient::All if !head.is_empty() => {
                if let Some(mut last) = self.send_upstream(&mut head, last) {
                    self.publish_to_all(&mut head, Last::Message(&mut last));
                }
            }
            Recipient::All => self.publish_to_all(&mut head, last),
            Recipient::Subscription => self.send_subscription(last.bytes()),
        }
        head.clear();
        self.sending.frames = head;
        match self.kind {
            // A request whose peer has gone between its frames is dropped: there will be no reply.
            SocketType::Req => {
                self.exchange.is_open = self.sending.recipient != Recipient::None;
            }
            SocketType::Rep => self.exchange.is_open = false,
            _ => {}
        }
    }

    /// The next peer in turn that can take a message.
    #[inline]
    fn next_writable(&mut self) -> Result<Key, NotSent> {
        for _ in 0..self.writable.len() {
            if self.turn >= self.writable.len() {
                self.turn = 0;
            }
            debug_assert!(
                self.turn < self.writable.len(),
                "the turn is within the list"
            );
            let key = self.writable[self.turn];
            self.turn += 1;
            if self.can_write(key) {
                return Ok(key);
            }
        }
        Err(NotSent::Full)
    }

    fn begin_request(&mut self) -> Result<Recipient, NotSent> {
        if self.exchange.is_open {
            if !self.options.request_relaxed {
                return Err(NotSent::Failed(Error::WrongState));
            }
            self.exchange.is_open = false;
        }
        debug_assert!(!self.exchange.is_open, "one request at a time");
        self.drop_old_replies();
        let key = self.next_writable()?;
        self.exchange.peer = Some(key);
        self.sending.frames.clear();
        if self.options.request_correlate {
            self.exchange.request_id = self.exchange.request_id.wrapping_add(1);
            let id = self.exchange.request_id.to_ne_bytes();
            let mut frame = Message::from_slice(&id);
            frame.set_more(true);
            self.sending.frames.push(frame);
        }
        let mut delimiter = Message::new();
        delimiter.set_more(true);
        self.sending.frames.push(delimiter);
        Ok(Recipient::Peer(key))
    }

    fn begin_reply(&mut self) -> Result<Recipient, NotSent> {
        if !self.exchange.is_open {
            return Err(NotSent::Failed(Error::WrongState));
        }
        debug_assert!(
            self.sending.frames.is_empty(),
            "a reply begins with its envelope"
        );
        self.sending.frames = std::mem::take(&mut self.exchange.envelope);
        // A reply never waits: where its requester is gone or takes no more, it is dropped.
        let key = self.exchange.peer.take();
        Ok(match key {
            Some(key) if self.can_write(key) => Recipient::Peer(key),
            Some(key) => {
                self.count_drop(key);
                Recipient::None
            }
            None => Recipient::None,
        })
    }

    /// The peer whose number a message of a SERVER or PEER carries.
    fn number(&mut self, frame: &Last<'_>) -> Result<Recipient, NotSent> {
        let number = match frame {
            Last::Message(message) => message.routing_id(),
            Last::Slice(_) => 0,
        };
        let known = self.routes.get(&number.to_be_bytes()[..]).copied();
        let key = known.ok_or(NotSent::Failed(Error::HostUnreachable))?;
        match self.can_write(key) {
            true => Ok(Recipient::Peer(key)),
            false => Err(NotSent::Full),
        }
    }

    /// The peer that a ROUTER's first frame names.
    fn route(&mut self, name: &[u8], more: bool) -> Result<Recipient, NotSent> {
        if !more {
            // A name and nothing behind it is no message.
            return Ok(Recipient::None);
        }
        let mandatory = self.options.router_mandatory || self.kind == SocketType::Stream;
        let Some(&key) = self.routes.get(name) else {
            return match mandatory {
                true => Err(NotSent::Failed(Error::HostUnreachable)),
                false => Ok(Recipient::None),
            };
        };
        debug_assert!(
            self.is_closing || self.peers.get(key).is_some(),
            "a route leads to a peer"
        );
        if self.can_write(key) {
            return Ok(Recipient::Peer(key));
        }
        match self.options.router_mandatory {
            true => Err(NotSent::Full),
            false => {
                self.count_drop(key);
                Ok(Recipient::None)
            }
        }
    }

    fn publish_to_all(&mut self, head: &mut Vec<Message>, last: Last<'_>) {
        self.matched.clear();
        self.matched.extend_from_slice(&self.writable);
        self.publish(head, last);
    }

    /// Sends one message to all peers in `matched`.
    fn publish(&mut self, head: &mut Vec<Message>, mut last: Last<'_>) {
        if let Some(values) = &mut self.last_values {
            values.remember(head, &mut last);
        }
        let matched = std::mem::take(&mut self.matched);
        let count = matched.len();
        for (index, &key) in matched.iter().enumerate() {
            if !self.can_write(key) {
                self.count_drop(key);
                continue;
            }
            if index + 1 == count {
                self.transmit(key, head.drain(..), last);
                break;
            }
            let frames = head.iter_mut().map(Message::share);
            match &mut last {
                Last::Slice(bytes) => {
                    let bytes: &[u8] = bytes;
                    self.transmit(key, frames, Last::Slice(bytes));
                }
                Last::Message(message) => {
                    let mut copy = message.share();
                    self.transmit(key, frames, Last::Message(&mut copy));
                }
            }
        }
        self.matched = matched;
    }

    pub(crate) fn count_drop(&mut self, key: Key) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.counters.dropped += 1;
            if self.monitor.is_some() {
                self.report_drop(key);
            }
        }
    }

    /// Whether a message could be sent now.
    pub(crate) fn can_send(&mut self) -> bool {
        match self.kind {
            SocketType::Sub | SocketType::Pull | SocketType::Gather => false,
            SocketType::Push
            | SocketType::Dealer
            | SocketType::Pair
            | SocketType::Client
            | SocketType::Scatter
            | SocketType::Channel
            | SocketType::Dgram => self.any_writable(),
            SocketType::Req => {
                (!self.exchange.is_open || self.options.request_relaxed) && self.any_writable()
            }
            SocketType::Rep => self.exchange.is_open,
            SocketType::Router if self.options.router_mandatory => {
                let mut keys: Vec<Key> = self.routes.values().copied().collect();
                keys.drain(..).any(|key| self.can_write(key))
            }
            SocketType::Pub
            | SocketType::Xpub
            | SocketType::Xsub
            | SocketType::Router
            | SocketType::Server
            | SocketType::Peer
            | SocketType::Radio
            // It can always join and leave, as libzmq says.
            | SocketType::Dish
            | SocketType::Stream => true,
        }
    }

    fn any_writable(&mut self) -> bool {
        (0..self.writable.len()).any(|index| self.can_write(self.writable[index]))
    }
}

/// Bytes of the longest message that subscribes or cancels.
const LONGEST: u64 = 1 + Limits::SUBSCRIPTION_BYTES_MAX;
