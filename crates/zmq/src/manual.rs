//! XPUB: the subscriptions of peers as messages to the program, and manual mode.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tidewire_zmtp::PrefixTable;

use crate::link::Frames;
use crate::message::Message;
use crate::properties::Properties;
use crate::slab::Key;

/// XPUB: what peers have sent up, for the program to see, in the order in which it came.
#[derive(Debug, Default)]
pub(crate) struct Manual {
    queue: VecDeque<Upstream>,
    /// How many have been taken from the queue.
    taken: u64,
    /// The peers that are gone, and how much had come when they went: what is among it is of no
    /// peer, also where a peer that has come back has the same key.
    gone: HashMap<Key, u64>,
    /// The peer whose subscription the program saw last; `SUBSCRIBE` applies to it.
    pub(crate) last: Option<Key>,
    /// Whose subscription was looked up for the program, which has not received it yet.
    pub(crate) coming: Option<Option<Key>>,
    /// In manual mode: the prefixes that peers asked for, not those that they were given.
    pub(crate) asked: PrefixTable<Key>,
}

/// One thing that a peer has sent up.
#[derive(Debug)]
pub(crate) enum Upstream {
    /// A subscription or its end, and whose; `None`: the peer is gone.
    Notice(Option<Key>, Frames),
    /// A message, which waits in what has come in from the peer.
    Message(Key),
}

impl Manual {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes what came first. A notice of a peer that has gone since is of no peer.
    pub(crate) fn pop(&mut self) -> Option<Upstream> {
        let mut next = self.queue.pop_front()?;
        self.taken += 1;
        if let Upstream::Notice(peer, _) = &mut next {
            let is_gone = |key: &Key| self.gone.get(key).is_some_and(|&came| self.taken <= came);
            *peer = peer.filter(|key| !is_gone(key));
        }
        if self.queue.is_empty() {
            self.gone.clear();
        }
        Some(next)
    }

    pub(crate) fn push(&mut self, next: Upstream) {
        self.queue.push_back(next);
    }

    /// The program has received what was looked up.
    pub(crate) fn handed_out(&mut self) {
        if let Some(peer) = self.coming.take() {
            self.last = peer;
        }
    }

    /// `SUBSCRIBE` applies to this peer no more: it is gone.
    pub(crate) fn forget(&mut self, key: Key) {
        if self.last == Some(key) {
            self.last = None;
        }
        if self.coming == Some(Some(key)) {
            self.coming = Some(None);
        }
        // The queue is walked where it is short: what is kept of gone peers is never longer.
        if self.queue.len() > self.gone.len() {
            self.gone.insert(key, self.taken + self.queue.len() as u64);
            return;
        }
        for next in &mut self.queue {
            if let Upstream::Notice(peer, _) = next {
                *peer = peer.filter(|peer| *peer != key);
            }
        }
    }

    /// What waits of a peer has another key.
    pub(crate) fn moved(&mut self, from: Key, to: Key) {
        for next in &mut self.queue {
            if let Upstream::Message(key) = next
                && *key == from
            {
                *key = to;
            }
        }
    }

    /// Adds a subscription or its end, with what is known of the peer.
    pub(crate) fn notice(
        &mut self,
        peer: Option<Key>,
        octet: u8,
        topic: &[u8],
        properties: Option<&Arc<Properties>>,
    ) {
        debug_assert!(octet <= 1, "1 subscribes, 0 cancels");
        let mut bytes = Vec::with_capacity(1 + topic.len());
        bytes.push(octet);
        bytes.extend_from_slice(topic);
        let mut message = Message::from_vec(bytes);
        message.set_properties(properties);
        self.push(Upstream::Notice(peer, Frames::One(message)));
    }
}
