//! Packets far from the sequence: one alone is a stray, until another one follows it.

use super::packet::{Header, Packet};

/// A packet that would move the sequence: far ahead, or back to a new beginning, or of another
/// session.
#[derive(Debug)]
pub(super) struct Suspect {
    sighting: Sighting,
    is_behind: bool,
    body: Box<[u8]>,
}

/// That a packet was there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    header: Header,
    /// One past its last sequence.
    until: u64,
    arrived_ns: u64,
}

impl Suspect {
    pub(super) fn new(packet: &Packet<'_>, is_behind: bool, now_ns: u64) -> Self {
        Self {
            sighting: Sighting::new(&packet.header, now_ns),
            is_behind,
            body: packet.body.into(),
        }
    }

    pub(super) fn header(&self) -> Header {
        self.sighting.header
    }

    pub(super) fn packet(&self) -> Packet<'_> {
        Packet {
            header: self.sighting.header,
            body: &self.body,
        }
    }

    /// Returns whether a packet confirms this one: it follows it closely, or it repeats a heartbeat
    /// or the end of the session after the usual delay.
    pub(super) fn is_confirmed_by(&self, header: &Header, is_behind: bool, now_ns: u64) -> bool {
        let is_before = header.sequence < self.sighting.header.sequence;
        self.is_behind == is_behind && !is_before && self.sighting.goes_with(header, now_ns)
    }

    /// Returns whether this is the same packet, which the other line may bring.
    pub(super) fn is_copied_by(&self, header: &Header) -> bool {
        self.sighting.is_copied_by(header)
    }
}

impl Sighting {
    pub(super) fn new(header: &Header, now_ns: u64) -> Self {
        Self {
            header: *header,
            until: end_of(header),
            arrived_ns: now_ns,
        }
    }

    /// Returns whether a packet is of the same stream: it is near, or it repeats a heartbeat or the
    /// end of the session after the usual delay.
    pub(super) fn goes_with(&self, header: &Header, now_ns: u64) -> bool {
        if self.header.session != header.session {
            return false;
        }
        if self.is_copied_by(header) {
            let is_special = self.until == self.header.sequence;
            return is_special && now_ns.saturating_sub(self.arrived_ns) >= REPEAT_NS_MIN;
        }
        let from = self.header.sequence.saturating_sub(JUMP_MAX);
        (from..=self.until.saturating_add(JUMP_MAX)).contains(&header.sequence)
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
