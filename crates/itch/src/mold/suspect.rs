//! Packets far from the sequence: one alone is a stray, until another one follows it.

use super::packet::{Header, Packet};

/// A packet that would move the sequence: far ahead, or back to a new beginning.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) header: Header,
    /// One past its last sequence.
    until: u64,
    pub(super) is_behind: bool,
    arrived_ns: u64,
    body: Box<[u8]>,
}

impl Suspect {
    pub(super) fn new(packet: &Packet<'_>, is_behind: bool, now_ns: u64) -> Self {
        Self {
            header: packet.header,
            until: end_of(&packet.header),
            is_behind,
            arrived_ns: now_ns,
            body: packet.body.into(),
        }
    }

    pub(super) fn packet(&self) -> Packet<'_> {
        Packet {
            header: self.header,
            body: &self.body,
        }
    }

    /// Returns whether a packet confirms this one: it follows it closely, or it repeats a heartbeat
    /// or the end of the session after the usual delay.
    pub(super) fn is_confirmed_by(&self, header: &Header, is_behind: bool, now_ns: u64) -> bool {
        if self.is_behind != is_behind || self.header.session != header.session {
            return false;
        }
        if self.is_copied_by(header) {
            let is_special = self.until == self.header.sequence;
            return is_special && now_ns.saturating_sub(self.arrived_ns) >= REPEAT_NS_MIN;
        }
        let near = self.header.sequence..=self.until.saturating_add(JUMP_MAX);
        near.contains(&header.sequence)
    }

    /// Returns whether this is the same packet, which the other line may bring.
    pub(super) fn is_copied_by(&self, header: &Header) -> bool {
        self.header == *header
    }
}

/// Returns one past the last sequence of a packet.
#[inline]
pub(super) fn end_of(header: &Header) -> u64 {
    let count = match header.count {
        Header::END_OF_SESSION => 0,
        count => count,
    };
    header.sequence.saturating_add(count.into())
}

/// A packet further ahead than this must be confirmed by a second one.
pub(super) const JUMP_MAX: u64 = 1_000;
/// Heartbeats and ends of a session are sent each second. A copy on the other line comes sooner
/// than this.
const REPEAT_NS_MIN: u64 = 100_000_000;
