//! What goes up from XSUB to XPUB: subscriptions and the program's own messages, in one order.
//!
//! A frame that begins with 1 or 0 subscribes or cancels, also within a message, unless the option
//! `ONLY_FIRST_SUBSCRIBE` is set and the message has begun with another one. The rule is libzmq's.

use crate::link::Frames;
use crate::manual::Upstream;
use crate::message::{Last, Message};
use crate::slab::Key;
use crate::state::State;

/// What a frame on its way up is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Subscribe,
    Cancel,
    /// A part of a message of the program.
    Say,
}

/// Tells what the frames of one message are, one after the other.
#[derive(Debug)]
struct Judge {
    is_first: bool,
    looks_at_later: bool,
}

impl Judge {
    fn new(only_first_subscribe: bool) -> Judge {
        Judge {
            is_first: true,
            looks_at_later: !only_first_subscribe,
        }
    }

    fn next(&mut self, frame: &[u8]) -> Verb {
        let verb = match frame.first() {
            _ if !self.is_first && !self.looks_at_later => Verb::Say,
            Some(1) => Verb::Subscribe,
            Some(0) => Verb::Cancel,
            _ => Verb::Say,
        };
        self.looks_at_later |= self.is_first && verb != Verb::Say;
        self.is_first = false;
        verb
    }
}

impl State {
    /// PUB and XPUB: obeys the subscriptions in a message of a peer. XPUB hands up the rest of it,
    /// each frame with its own word about further ones, as libzmq does.
    pub(crate) fn receive_upstream(&mut self, key: Key, frames: Frames) {
        let mut judge = Judge::new(self.options.only_first_subscribe);
        let mut said = Vec::new();
        for frame in frames.into_vec() {
            let verb = judge.next(frame.as_slice());
            if verb == Verb::Say {
                said.push(frame);
                continue;
            }
            self.keep_said(key, &mut said);
            let topic = &frame.as_slice()[1..];
            match verb {
                Verb::Subscribe => self.peer_subscribes(key, topic),
                _ => self.peer_cancels(key, topic),
            }
        }
        self.keep_said(key, &mut said);
    }

    fn keep_said(&mut self, key: Key, said: &mut Vec<Message>) {
        if said.is_empty() || !self.kind.receives() {
            return said.clear();
        }
        if let Some(peer) = self.peers.get_mut(key) {
            peer.incoming.push(Frames::Many(std::mem::take(said)));
            self.manual.push(Upstream::Message(key));
            self.mark_readable(key);
        }
    }

    /// XPUB: what came up next, subscription or message.
    pub(crate) fn next_upstream(&mut self) -> Option<Frames> {
        loop {
            while let Some(next) = self.manual.pop() {
                match next {
                    Upstream::Notice(peer, frames) => {
                        self.manual.coming = Some(peer);
                        return Some(frames);
                    }
                    Upstream::Message(key) => {
                        if let Some(frames) = self.take_said(key) {
                            return Some(frames);
                        }
                    }
                }
            }
            // A peer may have more than its high-water mark let in.
            let key = *self.readable.front()?;
            self.decode_ahead(key);
            if self.manual.is_empty() && self.readable.front() == Some(&key) {
                self.readable.pop_front();
                self.read_out(key);
            }
        }
    }

    fn take_said(&mut self, key: Key) -> Option<Frames> {
        let peer = self.peers.get_mut(key)?;
        let frames = peer.incoming.pop()?;
        peer.counters.received += 1;
        if peer.incoming.is_empty() {
            self.resume_reading(key);
        }
        Some(frames)
    }

    /// XSUB: notes the subscriptions in a message of several frames. A cancel that ends nothing is
    /// left out of it. Returns the last frame, or nothing where all are left out.
    pub(crate) fn send_upstream(
        &mut self,
        head: &mut Vec<Message>,
        last: Last<'_>,
    ) -> Option<Message> {
        let mut judge = Judge::new(self.options.only_first_subscribe);
        head.push(last.into_message());
        head.retain(|frame| {
            let verb = judge.next(frame.as_slice());
            let topic = frame.as_slice().get(1..).unwrap_or_default();
            match verb {
                Verb::Say => true,
                Verb::Subscribe => {
                    self.subscriptions.insert(topic, 0);
                    true
                }
                Verb::Cancel => {
                    let is_last = self.subscriptions.remove(topic, 0).is_last();
                    is_last || self.options.xsub_verbose_unsubscribe
                }
            }
        });
        let mut last = head.pop()?;
        last.set_more(false);
        Some(last)
    }
}
