//! XPUB: the subscriptions of peers as messages to the program, and manual mode.

use std::collections::VecDeque;

use tidewire_zmtp::PrefixTable;

use crate::link::Frames;
use crate::message::Message;
use crate::slab::Key;

/// XPUB: what peers have sent up, for the program to see.
#[derive(Debug, Default)]
pub(crate) struct Manual {
    events: VecDeque<(Option<Key>, Frames)>,
    /// The peer whose subscription the program saw last; `SUBSCRIBE` applies to it.
    pub(crate) last: Option<Key>,
    /// In manual mode: the prefixes that peers asked for, not those that they were given.
    pub(crate) asked: PrefixTable<Key>,
}

impl Manual {
    #[inline]
    pub(crate) fn take_event(&mut self) -> Option<Frames> {
        let (peer, frames) = self.events.pop_front()?;
        self.last = peer;
        Some(frames)
    }

    pub(crate) fn push(&mut self, peer: Option<Key>, octet: u8, topic: &[u8]) {
        debug_assert!(octet <= 1, "1 subscribes, 0 cancels");
        let mut bytes = Vec::with_capacity(1 + topic.len());
        bytes.push(octet);
        bytes.extend_from_slice(topic);
        self.events
            .push_back((peer, Frames::One(Message::from_vec(bytes))));
    }
}
