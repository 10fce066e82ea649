//! How messages leave a socket: to a pipe, to the kernel, or into a peer's backlog.

use tidewire_rings::Channel;

use crate::clock::now_ns;
use crate::message::{Last, Message};
use crate::peer::Link;
use crate::slab::Key;
use crate::state::State;
use crate::topic_queue::Kept;

impl State {
    /// Whether a message for this peer would be taken.
    #[inline]
    pub(crate) fn can_write(&mut self, key: Key) -> bool {
        debug_assert!(
            self.options.send_high_water >= 0,
            "a high-water mark is not negative"
        );
        let high_water = self.options.send_high_water as usize;
        if self.options.send_high_water_bytes > 0 && !self.has_room_in_bytes(key) {
            return false;
        }
        let Some(peer) = self.peers.get_mut(key) else {
            return false;
        };
        match &mut peer.link {
            Link::Pipe(pipe) => return pipe.can_write(),
            _ if high_water == 0 || peer.conflates => return true,
            Link::Stream(link) => {
                let waiting = peer.backlog.messages() + link.pending_messages();
                if waiting + peer.held_messages < high_water {
                    return true;
                }
                // Whether its topic waits decides, when the message is handed over.
                if peer.backlog.topics().is_some() {
                    return true;
                }
                // The kernel is full: it will tell.
                if !link.is_ready() || link.interest.write {
                    return false;
                }
            }
            Link::Datagrams(_) | Link::None => {
                let has_room = peer.backlog.messages() < high_water;
                return has_room || peer.backlog.topics().is_some();
            }
        }
        // Perhaps the kernel has room again.
        self.flush(key);
        self.peers
            .get(key)
            .is_some_and(|peer| peer.counted_messages() < high_water)
    }

    /// Whether fewer bytes wait for a peer than may, where they are limited.
    #[cold]
    fn has_room_in_bytes(&mut self, key: Key) -> bool {
        let limit = self.options.send_high_water_bytes as usize;
        let is_within = |state: &State| {
            let peer = state.peers.get(key);
            peer.is_some_and(|peer| {
                let is_bounded = peer.conflates || peer.backlog.topics().is_some();
                is_bounded || peer.pending_bytes() < limit
            })
        };
        if is_within(self) {
            return true;
        }
        let interest = self
            .peers
            .get_mut(key)
            .and_then(|peer| peer.link.interest_mut());
        if interest.is_some_and(|interest| interest.write) {
            return false;
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
                if pipe.write(head, last) == Kept::Refused {
                    return self.refuse(key);
                }
                self.is_pressed |= pipe.is_pressed();
                return;
            }
            Link::Stream(link)
                if link.is_ready()
                    && peer.backlog.is_empty()
                    && link.pending_bytes() < peer.output_bytes_max =>
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
            Link::Datagrams(_) if peer.backlog.is_empty() => {
                return self.send_datagram(key, head, last);
            }
            Link::Stream(_) | Link::Datagrams(_) | Link::None => {
                return self.hold_back(key, head, last);
            }
        }
        self.after_push(key);
    }

    /// Keeps a message until the peer's link takes it.
    pub(crate) fn hold_back(
        &mut self,
        key: Key,
        head: impl Iterator<Item = Message>,
        last: Last<'_>,
    ) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        if peer.conflates && peer.backlog.topics().is_none() {
            peer.counters.conflated += peer.backlog.messages() as u64;
            peer.backlog.clear();
        }
        self.is_pressed = last.bytes().len() >= PRESSING_BYTES_MIN;
        match peer.backlog.push(head, last) {
            Kept::New => {}
            Kept::Replaced => peer.counters.conflated += 1,
            Kept::Refused => self.refuse(key),
        }
    }

    /// A message was not taken after all: there is no room for a topic that does not wait yet.
    #[cold]
    fn refuse(&mut self, key: Key) {
        if let Some(peer) = self.peers.get_mut(key) {
            debug_assert!(peer.counters.sent > 0, "it was counted as sent");
            peer.counters.sent -= 1;
        }
        self.count_drop(key);
    }

    /// Whether a message of this topic would be taken for a peer.
    pub(crate) fn can_write_topic(&mut self, key: Key, topic: &[u8]) -> bool {
        for round in 0..2 {
            let Some(peer) = self.peers.get_mut(key) else {
                return false;
            };
            if let Link::Pipe(pipe) = &mut peer.link {
                return pipe.takes_topic(topic);
            }
            let Some(topics) = peer.backlog.topics() else {
                return self.can_write(key);
            };
            if topics.takes(topic) {
                return true;
            }
            // The kernel is full: it will tell.
            let is_full = matches!(&peer.link, Link::Stream(link) if link.interest.write);
            if is_full || round > 0 {
                return false;
            }
            self.flush(key);
        }
        false
    }

    /// Something was put behind a connection's output: writes it now, or holds it back while
    /// sends follow one another.
    #[inline]
    pub(crate) fn after_push(&mut self, key: Key) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Link::Stream(link) = &mut peer.link else {
            return;
        };
        if link.carrier.shared().is_some() {
            return self.after_push_to_ring(key);
        }
        if self.burst.is_on {
            if link.interest.write {
                // The kernel is full: it will tell.
                return;
            }
            if link.pending_bytes() < BURST_BYTES {
                return self.hold_for_burst(key);
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

    /// The output of a peer waits for more to come, or for the background thread.
    fn hold_for_burst(&mut self, key: Key) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        self.burst.is_on = true;
        self.burst.is_fresh = true;
        if !std::mem::replace(&mut peer.is_dirty, true) {
            debug_assert!(!self.dirty.contains(&key), "the mark and the list agree");
            self.dirty.push(key);
        }
    }

    /// The same for a connection through shared memory: no call is saved by holding messages back,
    /// but two processors exchange cache lines for each write. So they are gathered only while the
    /// peer does not keep up, when it would not read them sooner.
    fn after_push_to_ring(&mut self, key: Key) {
        let Some(Link::Stream(link)) = self.peers.get_mut(key).map(|peer| &mut peer.link) else {
            return;
        };
        let is_read = link.carrier.shared().is_some_and(Channel::is_read);
        link.sends_behind = match is_read {
            true => 0,
            false => link.sends_behind.saturating_add(1),
        };
        if link.sends_behind >= BEHIND_STREAK && link.pending_bytes() < BEHIND_BYTES {
            return self.hold_for_burst(key);
        }
        self.flush(key);
        if let Some(Link::Stream(link)) = self.peers.get(key).map(|peer| &peer.link)
            && link.pending_bytes() >= PRESSING_BYTES_MIN
        {
            // The ring is full, and the reader is awake or is being woken.
            self.is_pressed = true;
        }
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
                debug_assert!(peer.is_dirty, "the mark and the list agree");
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
            let link = match &mut peer.link {
                Link::Stream(link) => link,
                Link::Datagrams(_) => return self.flush_datagrams(key),
                Link::Pipe(_) | Link::None => return,
            };
            let done = match link.flush() {
                Ok(done) => done,
                Err(_) => return self.write_failed(key),
            };
            if !done {
                peer.kernel_is_full(self.options.send_high_water.max(0) as usize);
                return self.watch(key, |interest| interest.write = true);
            }
            if peer.backlog.is_empty() || !link.is_ready() {
                if link.interest.write {
                    self.watch(key, |interest| interest.write = false);
                }
                if let Some(peer) = self.peers.get_mut(key) {
                    peer.kernel_has_room();
                    if peer.is_leaving {
                        self.note_flushed(key);
                    }
                }
                return;
            }
            while link.pending_bytes() < peer.output_bytes_max
                && peer.backlog.pass(|frame| link.push(frame))
            {}
        }
    }

    /// A write has failed: what the peer has still sent is read first, then the end shows.
    fn write_failed(&mut self, key: Key) {
        if !self.broken.contains(&key) {
            self.broken.push(key);
        }
    }
}

/// A backlog of messages of this length or longer soon exceeds the CPU caches.
const PRESSING_BYTES_MIN: usize = 8 << 10;
/// Sends in a row to a peer that has something left to read, after which they are gathered.
const BEHIND_STREAK: u8 = 16;
/// Limit of bytes that are gathered for it.
const BEHIND_BYTES: usize = 8 << 10;
/// Limit of bytes that a burst holds back.
const BURST_BYTES: usize = 16 << 10;
/// Two sends are in a row if less time than this lies between them.
const BURST_GAP_NS: u64 = 4_000;
/// Sends in a row that make a burst.
const BURST_STREAK: u32 = 4;
