//! Receiving where topics are conflated: what has come is gathered, and stays until it is taken.

use crate::kind::SocketType;
use crate::link::{Frames, Inbound};
use crate::peer::{Link, Peer};
use crate::slab::Key;
use crate::state::State;
use crate::topic_queue::Kept;

impl State {
    /// Does the same as `take_from` for a peer whose topics are conflated.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_topic(&mut self, key: Key) -> Option<Frames> {
        loop {
            let peer = self.peers.get_mut(key)?;
            if let Some(frames) = peer.incoming.pop_topic() {
                peer.counters.received += 1;
                if peer.incoming.is_empty() {
                    self.resume_reading(key);
                }
                return Some(frames);
            }
            match peer.link {
                Link::Stream(_) => {
                    if !self.gather_topics(key) {
                        return None;
                    }
                }
                Link::Pipe(_) => match self.read_pipe(key) {
                    Inbound::Message(frames) => {
                        if let Some(peer) = self.peers.get_mut(key) {
                            peer.counters.received += 1;
                        }
                        return Some(frames);
                    }
                    Inbound::Nothing => {
                        self.input_used_up(key);
                        return None;
                    }
                    other => self.protocol_event(key, other),
                },
                Link::Datagrams(_) | Link::None => {
                    self.input_used_up(key);
                    return None;
                }
            }
        }
    }

    /// Takes in all that has come of a peer whose topics are conflated, so that the newest message
    /// of each is what is taken out. Whether there is any.
    #[cold]
    pub(crate) fn gather_topics(&mut self, key: Key) -> bool {
        loop {
            self.decode_ahead(key);
            let Some(peer) = self.peers.get_mut(key) else {
                return false;
            };
            // One that streams must not keep the others from being looked at.
            if self.reads_left > 0
                && let Link::Stream(link) = &mut peer.link
                && link.interest.read
                && link.read_on(&mut self.spares)
            {
                self.reads_left -= 1;
                continue;
            }
            return !peer.incoming.is_empty();
        }
    }

    /// Whether a peer is gone that has left topics behind.
    pub(crate) fn has_left_topics(&self, key: Key) -> bool {
        let has_left = |peer: &Peer| peer.is_gone && peer.incoming.topics().is_some();
        self.peers.get(key).is_some_and(has_left)
    }

    /// A peer is gone, and the program has not taken all that it brought. That is taken before what
    /// the others say, which may be newer.
    ///
    /// Of many such peers the oldest are put together: else what waits would grow each time that a
    /// publisher comes back.
    pub(crate) fn keep_left_topics(&mut self, key: Key) {
        if !self.has_left_topics(key) || !self.readable.contains(&key) {
            return;
        }
        self.readable.retain(|&known| known != key);
        let mut left: Vec<Key> = self.readable.iter().copied().collect();
        left.retain(|&other| self.has_left_topics(other));
        if let &[oldest, next, ..] = left.as_slice()
            && left.len() >= LEFT_MAX
        {
            self.merge_topics(next, oldest);
            self.readable.retain(|&known| known != next);
            self.peers.remove(next);
            left.pop();
        }
        // The longest gone are the first.
        self.readable
            .insert(left.len().min(self.readable.len()), key);
        debug_assert!(
            self.readable.contains(&key),
            "what it brought is still read"
        );
    }

    /// Moves what one peer has left behind to what another one had before.
    fn merge_topics(&mut self, from: Key, to: Key) {
        debug_assert_ne!(from, to, "what one peer has left is in one place");
        while let Some(frames) =
            (self.peers.get_mut(from)).and_then(|peer| peer.incoming.pop_topic())
            && let Some(peer) = self.peers.get_mut(to)
        {
            match peer.incoming.push(frames) {
                Kept::New => {}
                Kept::Replaced => peer.counters.conflated += 1,
                Kept::Refused => peer.counters.dropped += 1,
            }
        }
    }

    /// A socket of the process is gone: takes in what it has left in the pipe. Returns false where
    /// topics are not conflated here.
    pub(crate) fn take_left_topics(&mut self, key: Key) -> bool {
        let has_topics = |peer: &Peer| peer.incoming.topics().is_some();
        if !self.peers.get(key).is_some_and(has_topics) {
            return false;
        }
        loop {
            match self.read_pipe(key) {
                Inbound::Message(frames) => {
                    if let Some(peer) = self.peers.get_mut(key)
                        && peer.incoming.push(frames) == Kept::Replaced
                    {
                        peer.counters.conflated += 1;
                    }
                    self.mark_readable(key);
                }
                Inbound::Nothing => break,
                other => self.protocol_event(key, other),
            }
        }
        self.input_used_up(key);
        true
    }

    /// Does the same as `can_receive` where topics are conflated. The next message is not looked
    /// up but left where it is: until the program takes it, a newer one may replace it. `None`:
    /// they are not, or not of every peer.
    pub(crate) fn has_topic(&mut self) -> Option<bool> {
        if !self.options.conflate_topics || !self.kind.is_subscriber() {
            return None;
        }
        let is_sub = self.kind == SocketType::Sub;
        while let Some(&key) = self.readable.front() {
            let is_wanted = |topic: &[u8]| {
                !is_sub || self.subscriptions.covers(topic) != self.options.invert_matching
            };
            let peer = self.peers.get_mut(key)?;
            let found = match &mut peer.link {
                Link::Pipe(pipe) if peer.incoming.is_empty() => pipe.has_topic(is_wanted)?,
                _ => peer.incoming.has_topic(is_wanted)?,
            };
            if found {
                return Some(true);
            }
            if matches!(peer.link, Link::Stream(_)) {
                self.resume_reading(key);
                if self.gather_topics(key) {
                    continue;
                }
            } else {
                self.input_used_up(key);
            }
            // Losing a peer may have taken it out already.
            if self.readable.front() == Some(&key) {
                self.readable.pop_front();
                self.read_out(key);
            }
        }
        Some(false)
    }
}

/// Peers that are gone whose topics are kept apart.
const LEFT_MAX: usize = 8;
