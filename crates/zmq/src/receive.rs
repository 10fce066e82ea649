//! Receiving: which peer is next, and which frames the program sees.

use std::sync::Arc;

use crate::batch::Item;
use crate::core::READS_MAX;
use crate::error::Error;
use crate::kind::SocketType;
use crate::link::{Frames, Inbound};
use crate::message::{Message, Single};
use crate::peer::Link;
use crate::properties::Properties;
use crate::slab::Key;
use crate::state::State;
use crate::topic_queue::Kept;

impl State {
    /// The next frame for the program, if there is one.
    #[inline]
    pub(crate) fn next_frame(&mut self) -> Result<Option<Message>, Error> {
        if self.receiving.is_empty() {
            if !self.kind.receives() {
                return Err(Error::NotSupported);
            }
            if let Some(message) = self.next_single(|single| single.into_message()) {
                return Ok(Some(message));
            }
            self.check_turn()?;
            // The common case: one frame, handed out as it is.
            match self.next_delivery() {
                None => return Ok(None),
                Some(Frames::One(message)) => {
                    self.handed_out(message.more());
                    return Ok(Some(message));
                }
                Some(Frames::Many(frames)) => {
                    debug_assert!(!frames.is_empty(), "a message has a frame");
                    self.receiving.extend(frames);
                }
            }
        }
        let message = self.receiving.pop_front();
        if let Some(message) = &message {
            self.handed_out(message.more());
        }
        Ok(message)
    }

    /// Whether something may be there to be received: it has not been looked for.
    pub(crate) fn may_receive(&self) -> bool {
        !self.receiving.is_empty() || !self.readable.is_empty()
    }

    /// The short way, for patterns that hand messages out as they came: the next message, if it is
    /// one of a single frame. Every move of a message that is left out counts.
    #[inline]
    pub(crate) fn next_single<T>(&mut self, take: impl FnOnce(Single<'_>) -> T) -> Option<T> {
        if !self.receiving.is_empty() {
            return None;
        }
        if !matches!(
            self.kind,
            SocketType::Pull | SocketType::Dealer | SocketType::Pair | SocketType::Sub
        ) {
            return None;
        }
        let taken = match self.peers.get_mut(*self.readable.front()?)?.link {
            Link::Pipe(_) if self.kind == SocketType::Sub => return None,
            Link::Pipe(_) => self.take_from_pipe(take)?,
            Link::Stream(_) | Link::Datagrams(_) | Link::None => self.take_short(take)?,
        };
        self.is_amid_receiving = false;
        Some(taken)
    }

    /// A short message over a connection, by its bytes.
    #[inline]
    fn take_short<T>(&mut self, take: impl FnOnce(Single<'_>) -> T) -> Option<T> {
        let key = *self.readable.front()?;
        let peer = self.peers.get_mut(key)?;
        if peer.incoming.topics().is_some() {
            return None;
        }
        let take = |body: &[u8], properties: Option<&Arc<Properties>>| {
            let is_wanted = self.kind != SocketType::Sub
                || self.subscriptions.covers(body) != self.options.invert_matching;
            is_wanted.then(|| take(Single::Bytes(body, properties)))
        };
        let was_decoded = !peer.incoming.is_empty();
        let taken = match &mut peer.link {
            _ if was_decoded => peer.incoming.take_short(take)?,
            Link::Stream(link) => link.take_short(take)?,
            Link::Pipe(_) | Link::Datagrams(_) | Link::None => return None,
        };
        debug_assert!(peer.is_readable, "it was in the list of those to read from");
        peer.counters.received += 1;
        if was_decoded && peer.incoming.is_empty() {
            self.resume_reading(key);
        }
        if self.readable.len() > 1 {
            self.readable.rotate_left(1);
        }
        taken
    }

    #[inline]
    fn take_from_pipe<T>(&mut self, take: impl FnOnce(Single<'_>) -> T) -> Option<T> {
        let peer = self.peers.get_mut(*self.readable.front()?)?;
        let Link::Pipe(pipe) = &mut peer.link else {
            return None;
        };
        if !peer.incoming.is_empty() {
            return None;
        }
        let taken = pipe.read_single(take)?;
        debug_assert!(peer.is_readable, "it was in the list of those to read from");
        peer.counters.received += 1;
        if self.readable.len() > 1 {
            self.readable.rotate_left(1);
        }
        Some(taken)
    }

    /// Whether the program may receive at this point.
    fn check_turn(&self) -> Result<(), Error> {
        let is_wrong = match self.kind {
            SocketType::Req => !self.exchange.is_open,
            SocketType::Rep => self.exchange.is_open,
            _ => false,
        };
        if is_wrong {
            Err(Error::WrongState)
        } else {
            Ok(())
        }
    }

    /// Whether a frame could be received now; looks the next message up.
    pub(crate) fn can_receive(&mut self) -> bool {
        if !self.receiving.is_empty() {
            return true;
        }
        if !self.kind.receives() || self.check_turn().is_err() {
            return false;
        }
        if let Some(has_topic) = self.has_topic() {
            return has_topic;
        }
        match self.next_delivery() {
            None => false,
            Some(Frames::One(message)) => {
                // A ROUTER has put what follows the name there already.
                self.receiving.push_front(message);
                true
            }
            Some(Frames::Many(frames)) => {
                self.receiving.extend(frames);
                true
            }
        }
    }

    #[inline]
    fn handed_out(&mut self, more: bool) {
        self.is_amid_receiving = more;
        if more {
            return;
        }
        match self.kind {
            SocketType::Req => {
                debug_assert!(self.exchange.is_open, "a reply is to a request");
                self.exchange.is_open = false;
                self.exchange.peer = None;
            }
            SocketType::Rep => {
                debug_assert!(!self.exchange.is_open, "one request at a time");
                self.exchange.is_open = true;
            }
            SocketType::Xpub => self.manual.handed_out(),
            _ => {}
        }
    }

    /// REQ: drops every reply that is here when a request begins: it is to an earlier one. Where
    /// requests may be given up it may still be with the kernel.
    pub(crate) fn drop_old_replies(&mut self) {
        debug_assert!(self.kind == SocketType::Req, "others have no replies");
        self.receiving.clear();
        if self.options.request_relaxed {
            self.reads_left = READS_MAX;
            for key in self.writable.clone() {
                self.read_peer(key, false);
            }
        }
        self.scan_pipes();
        while self.next_message().is_some() {}
    }

    /// The next message that the pattern lets through, as the program sees it.
    #[inline]
    fn next_delivery(&mut self) -> Option<Frames> {
        if self.kind == SocketType::Xpub {
            return self.next_upstream();
        }
        loop {
            let (key, frames) = self.next_message()?;
            if let Some(frames) = self.receive_by_pattern(key, frames) {
                return Some(frames);
            }
        }
    }

    /// The next message of the peer whose turn it is.
    #[inline]
    fn next_message(&mut self) -> Option<(Key, Frames)> {
        while let Some(&key) = self.readable.front() {
            match self.take_from(key) {
                Some(frames) => {
                    let stays = self.options.conflate_topics && self.has_left_topics(key);
                    if self.readable.len() > 1 && !stays {
                        self.readable.rotate_left(1);
                    }
                    return Some((key, frames));
                }
                None => {
                    // Losing a peer may have taken it out already.
                    if self.readable.front() == Some(&key) {
                        self.readable.pop_front();
                        self.read_out(key);
                    }
                }
            }
        }
        None
    }

    /// There is nothing more of a peer; one that is gone was kept for what it had brought.
    pub(crate) fn read_out(&mut self, key: Key) {
        if let Some(peer) = self.peers.get_mut(key) {
            debug_assert!(peer.is_readable, "it was in the list of those to read from");
            peer.is_readable = false;
            if peer.is_gone && peer.incoming.is_empty() {
                self.peers.remove(key);
            }
        }
    }

    /// The next message of one peer; on the way to it, what the protocol itself has to say.
    #[inline]
    pub(crate) fn take_from(&mut self, key: Key) -> Option<Frames> {
        loop {
            let peer = self.peers.get_mut(key)?;
            if peer.incoming.topics().is_some() {
                return self.take_topic(key);
            }
            if let Some(frames) = peer.incoming.pop() {
                peer.counters.received += 1;
                if peer.incoming.is_empty() {
                    self.resume_reading(key);
                }
                return Some(frames);
            }
            let inbound = match &mut peer.link {
                Link::Stream(link) => link.decode(self.now_ns),
                Link::Pipe(_) => self.read_pipe(key),
                Link::Datagrams(_) => self.read_datagram(key),
                Link::None => Inbound::Nothing,
            };
            match inbound {
                Inbound::Message(frames) => {
                    if let Some(peer) = self.peers.get_mut(key) {
                        peer.counters.received += 1;
                    }
                    return Some(frames);
                }
                Inbound::Nothing => {
                    // One that streams must not keep the others from being looked at.
                    if self.reads_left > 0
                        && let Some(Link::Stream(link)) =
                            self.peers.get_mut(key).map(|peer| &mut peer.link)
                        && link.read_on(&mut self.spares)
                    {
                        self.reads_left -= 1;
                        continue;
                    }
                    self.input_used_up(key);
                    // The end of a connection may be a message itself.
                    if self.peers.get(key)?.incoming.is_empty() {
                        return None;
                    }
                }
                other => self.protocol_event(key, other),
            }
        }
    }

    /// How much of one peer may wait for the program: messages, and bytes.
    fn receive_limits(&self, key: Key) -> (usize, usize) {
        let peer = self.peers.get(key);
        let conflates = peer.is_some_and(|peer| peer.conflates);
        if let Some(topics) = peer.and_then(|peer| peer.incoming.topics()) {
            let limits = topics.limits();
            return (limits.topics_max, limits.bytes_max);
        }
        let limit = |mark: i32| match mark {
            mark if mark > 0 && !conflates => mark as usize,
            _ => usize::MAX,
        };
        let options = &self.options;
        (
            limit(options.receive_high_water),
            limit(options.receive_high_water_bytes),
        )
    }

    /// Looks at what has come for control messages, and keeps the others for the program, as
    /// far as its high-water mark lets it.
    pub(crate) fn decode_ahead(&mut self, key: Key) {
        let limits = self.receive_limits(key);
        self.decode_within(key, limits);
    }

    /// The same without a limit: the connection will bring nothing more.
    pub(crate) fn decode_all(&mut self, key: Key) {
        self.decode_within(key, (usize::MAX, usize::MAX));
    }

    fn decode_within(&mut self, key: Key, (high_water, bytes_max): (usize, usize)) {
        loop {
            let Some(peer) = self.peers.get_mut(key) else {
                return;
            };
            if peer.incoming.len() >= high_water || peer.incoming.bytes() >= bytes_max {
                return self.watch(key, |interest| interest.read = false);
            }
            let has_topics = peer.incoming.topics().is_some();
            let is_leaving = peer.is_leaving;
            if self.kind.receives()
                && !is_leaving
                && !peer.conflates
                && !has_topics
                && let Link::Stream(link) = &mut peer.link
                && link
                    .take_short(|body, properties| peer.incoming.push_short(body, properties))
                    .is_some()
            {
                self.mark_readable(key);
                continue;
            }
            let inbound = match &mut peer.link {
                Link::Stream(link) => link.decode(self.now_ns),
                // What lies in a pipe is bounded there.
                Link::Pipe(_) if self.kind.receives() && !self.kind.is_publisher() => return,
                Link::Pipe(_) => self.read_pipe(key),
                Link::Datagrams(_) => return self.keep_datagrams(key),
                Link::None => return,
            };
            match inbound {
                Inbound::Message(_) if is_leaving => {}
                Inbound::Message(frames) if self.kind.hears_subscriptions() => {
                    self.receive_upstream(key, frames);
                }
                Inbound::Message(_) if !self.kind.receives() => {}
                Inbound::Message(frames) => {
                    let Some(peer) = self.peers.get_mut(key) else {
                        return;
                    };
                    let conflates = peer.conflates && !has_topics;
                    if conflates {
                        peer.counters.conflated += peer.incoming.len() as u64;
                        peer.incoming.clear();
                    }
                    if peer.incoming.push(frames) == Kept::Replaced {
                        peer.counters.conflated += 1;
                    }
                    debug_assert!(!conflates || peer.incoming.len() == 1, "the last one alone");
                    self.mark_readable(key);
                }
                Inbound::Nothing => {
                    return self.input_used_up(key);
                }
                other => self.protocol_event(key, other),
            }
        }
    }

    /// All that was received of a peer is decoded.
    #[inline]
    pub(crate) fn input_used_up(&mut self, key: Key) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let mut owes_answer = false;
        let is_over = match &mut peer.link {
            Link::Stream(link) => {
                link.rest(&mut self.spares);
                // A program that waits in here may not come to write for long.
                owes_answer = link.owes_answer();
                link.is_at_end
            }
            Link::Pipe(pipe) => pipe.is_closed() && !pipe.has_items(),
            Link::Datagrams(_) => false,
            Link::None => peer.is_gone && peer.incoming.is_empty(),
        };
        if is_over {
            return self.lose(key, crate::endpoint::Loss::ByPeer);
        }
        if owes_answer {
            self.flush(key);
        }
        // A PING may have named a time to live.
        self.time_machine(key);
    }

    /// The program has taken all: the kernel may be read again.
    pub(crate) fn resume_reading(&mut self, key: Key) {
        let is_open = match self.peers.get(key).map(|peer| &peer.link) {
            Some(Link::Stream(link)) => !link.is_at_end,
            Some(Link::Datagrams(_)) => true,
            _ => false,
        };
        if is_open {
            self.watch(key, |interest| interest.read = true);
        }
    }

    /// Returns the next item of a pipe.
    pub(crate) fn read_pipe(&mut self, key: Key) -> Inbound {
        let Some(peer) = self.peers.get_mut(key) else {
            return Inbound::Nothing;
        };
        let Link::Pipe(pipe) = &mut peer.link else {
            return Inbound::Nothing;
        };
        match pipe.read() {
            None => Inbound::Nothing,
            Some(Item::Subscribe(topic)) => Inbound::Subscribe(topic),
            Some(Item::Cancel(topic)) => Inbound::Cancel(topic),
            Some(Item::Frame(message)) if !message.more() => Inbound::Message(Frames::One(message)),
            Some(Item::Frame(message)) => {
                let mut frames = vec![message];
                // A message is written as a whole: its other frames are here.
                while let Some(Item::Frame(message)) = pipe.read() {
                    let more = message.more();
                    frames.push(message);
                    if !more {
                        break;
                    }
                }
                Inbound::Message(Frames::Many(frames))
            }
        }
    }

    /// A peer may have something to read.
    #[inline]
    pub(crate) fn mark_readable(&mut self, key: Key) {
        if let Some(peer) = self.peers.get_mut(key)
            && !peer.is_readable
            && !peer.is_leaving
        {
            debug_assert!(!self.readable.contains(&key), "the mark and the list agree");
            peer.is_readable = true;
            self.readable.push_back(key);
        }
    }

    /// What a pattern makes of a message; `None`: the program does not see it.
    #[inline]
    fn receive_by_pattern(&mut self, key: Key, frames: Frames) -> Option<Frames> {
        match self.kind {
            SocketType::Pull | SocketType::Dealer | SocketType::Pair | SocketType::Dgram => {
                Some(frames)
            }
            // A publisher in manual mode sends what was not asked for.
            SocketType::Xpub | SocketType::Xsub => Some(frames),
            SocketType::Sub => {
                let topic = frames.first().as_slice();
                let matches = self.subscriptions.covers(topic);
                (matches != self.options.invert_matching).then_some(frames)
            }
            SocketType::Router | SocketType::Stream => {
                let peer = self.peers.get(key)?;
                let mut name = Message::from_slice(&peer.routing_id);
                name.set_more(true);
                name.set_properties(peer.identity.as_ref());
                match frames {
                    Frames::One(message) => self.receiving.push_back(message),
                    Frames::Many(frames) => self.receiving.extend(frames),
                }
                Some(Frames::One(name))
            }
            SocketType::Client | SocketType::Gather | SocketType::Channel => {
                matches!(frames, Frames::One(_)).then_some(frames)
            }
            SocketType::Server | SocketType::Peer => {
                match (frames, self.peers.get(key)?.routing_id.as_slice()) {
                    (Frames::One(mut message), &[a, b, c, d]) => {
                        message.set_routing_id(u32::from_be_bytes([a, b, c, d]));
                        Some(Frames::One(message))
                    }
                    _ => None,
                }
            }
            SocketType::Dish => self.receive_of_group(key, frames),
            SocketType::Req => self.receive_reply(key, frames),
            SocketType::Rep => self.receive_request(key, frames),
            SocketType::Pub | SocketType::Push | SocketType::Scatter | SocketType::Radio => None,
        }
    }

    /// REQ: an empty frame, and what follows; from the peer that was asked alone.
    fn receive_reply(&mut self, key: Key, frames: Frames) -> Option<Frames> {
        if self.exchange.peer != Some(key) {
            return None;
        }
        let mut frames = frames.into_vec();
        let mut at = 0;
        if self.options.request_correlate {
            let expected = self.exchange.request_id.to_ne_bytes();
            if frames[0].as_slice() != expected {
                return None;
            }
            at = 1;
        }
        let delimiter = frames.get(at)?;
        if !delimiter.is_empty() || !delimiter.more() {
            return None;
        }
        frames.drain(..=at);
        Some(one_or_many(frames))
    }

    /// REP: the frames up to the first empty one are the address of the reply.
    fn receive_request(&mut self, key: Key, frames: Frames) -> Option<Frames> {
        let mut frames = frames.into_vec();
        let delimiter = frames.iter().position(|frame| frame.is_empty())?;
        if delimiter + 1 == frames.len() {
            return None;
        }
        let body = frames.split_off(delimiter + 1);
        debug_assert!(!body.is_empty(), "a body follows the delimiter");
        for frame in &mut frames {
            frame.set_properties(None);
        }
        self.exchange.envelope = frames;
        self.exchange.peer = Some(key);
        Some(one_or_many(body))
    }
}

fn one_or_many(mut frames: Vec<Message>) -> Frames {
    debug_assert!(!frames.is_empty(), "a message has a frame");
    match frames.len() {
        1 => Frames::One(frames.remove(0)),
        _ => Frames::Many(frames),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::{Context, Error, SendFlags, SocketType};

    /// A socket that receives kept everyone who had ever been connected, 480 bytes each.
    #[test]
    fn who_is_gone_and_read_out_is_forgotten() {
        let context = Context::new();
        for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "shm://*", "inproc://here"] {
            let pull = context.socket(SocketType::Pull).unwrap();
            pull.bind(endpoint).unwrap();
            let place = pull.core().lock().last_endpoint.clone();
            for _ in 0..20 {
                let push = context.socket(SocketType::Push).unwrap();
                push.connect(&place).unwrap();
                push.send_bytes(b"hello", SendFlags::default()).unwrap();
                assert_eq!(pull.receive(false).unwrap().as_slice(), b"hello");
            }
            let begin = Instant::now();
            while pull.core().lock().peers.values().count() > 0 {
                assert_eq!(pull.receive(true).err(), Some(Error::Again));
                assert!(begin.elapsed() < Duration::from_secs(5), "{endpoint}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn who_is_gone_is_forgotten_by_one_that_only_sends() {
        let context = Context::new();
        let sender = context.socket(SocketType::Dealer).unwrap();
        sender.bind("ipc://*").unwrap();
        let place = sender.core().lock().last_endpoint.clone();
        for _ in 0..20 {
            let receiver = context.socket(SocketType::Dealer).unwrap();
            receiver.connect(&place).unwrap();
            sender.send_bytes(b"hello", SendFlags::default()).unwrap();
            drop(receiver);
        }
        let begin = Instant::now();
        while sender.core().lock().peers.values().count() > 0 {
            assert!(begin.elapsed() < Duration::from_secs(5));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
