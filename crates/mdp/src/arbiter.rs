//! Lines A and B of the incremental feed: the first copy of a packet wins.

use std::collections::BTreeMap;

use tidewire_feed::client::{Gap, LossReason, Side, SideCounters};

use crate::packet::{Packet, PacketError, decode_packet};
use opening::Opening;

/// Settings of an arbiter.
#[derive(Clone, Copy, Debug)]
pub struct ArbiterConfig {
    /// How long a missing packet may be late on the other line before it is lost.
    pub patience_ns: u64,
    /// Maximum bytes of early packets kept while an earlier packet is missing.
    pub early_bytes_max: usize,
    /// Silence of all lines after which values are stale. The exchange sends a heartbeat each 30 s.
    pub silence_ns_max: u64,
}

impl Default for ArbiterConfig {
    /// Returns 20 ms of patience, 16 MiB of early packets, and 65 s of silence.
    fn default() -> Self {
        Self {
            patience_ns: 20_000_000,
            early_bytes_max: 16 << 20,
            silence_ns_max: 65_000_000_000,
        }
    }
}

/// Counters of an arbiter; every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArbiterCounters {
    /// Packets delivered.
    pub packets: u64,
    /// Holes opened.
    pub gaps: u64,
    /// Missing packets that arrived later.
    pub recovered: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// Packets of a sequence that has ended, packets without a sequence, and packets far from the
    /// sequence that no second one had confirmed.
    pub foreign: u64,
    /// Times at which the sequence started again.
    pub restarts: u64,
}

/// Receives packets in order.
pub trait PacketSink {
    /// The first packet: the stream is known from this sequence on.
    fn joined(&mut self, first: u64);

    /// The sequence started again, at `first`, with a packet sent at `begin_time_ns`.
    fn restarted(&mut self, first: u64, begin_time_ns: u64);

    /// The next packet.
    fn packet(&mut self, packet: &Packet<'_>);

    /// The set of missing packets changed.
    fn gap(&mut self, gap: Gap);
}

/// Orders the packets of two lines.
#[derive(Debug)]
pub struct Arbiter {
    config: ArbiterConfig,
    /// The next sequence; 0 until the stream is joined, and while its beginning is awaited.
    expected: u64,
    /// One past the highest sequence seen; `>= expected`.
    highest: u64,
    /// Sending time of the last delivered packet.
    last_time_ns: u64,
    /// Sending time of the first packet after a restart; 0 before one.
    begin_time_ns: u64,
    /// When a packet last was the next one.
    delivered_ns: u64,
    /// When a packet last was new; 0 before the first.
    moved_ns: u64,
    /// A packet far from the sequence, until a second one confirms it.
    suspect: Option<Suspect>,
    /// Whether a second packet was near the first one, which may be a stray.
    is_confirmed: bool,
    opening: Opening,
    early: BTreeMap<u64, Early>,
    early_bytes: usize,
    lines: [Line; 2],
    counters: ArbiterCounters,
}

#[derive(Debug)]
struct Early {
    datagram: Box<[u8]>,
    arrived_ns: u64,
}

#[derive(Debug)]
struct Suspect {
    sequence: u64,
    /// Whether it was below the expected sequence.
    is_below: bool,
    datagram: Box<[u8]>,
    arrived_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    next: u64,
    counters: SideCounters,
}

impl Arbiter {
    /// Creates an arbiter that joins the stream at its first packet.
    pub fn new(config: ArbiterConfig) -> Self {
        Self {
            config,
            expected: 0,
            highest: 0,
            last_time_ns: 0,
            begin_time_ns: 0,
            delivered_ns: 0,
            moved_ns: 0,
            suspect: None,
            is_confirmed: false,
            opening: Opening::default(),
            early: BTreeMap::new(),
            early_bytes: 0,
            lines: [Line::default(); 2],
            counters: ArbiterCounters::default(),
        }
    }

    /// Handles a datagram of one line.
    ///
    /// # Errors
    /// It has no packet header. Invalid messages are the sink's to find.
    #[inline]
    pub fn receive<S: PacketSink>(
        &mut self,
        side: Side,
        datagram: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let packet = decode_packet(datagram)?;
        let sequence = u64::from(packet.header.sequence);
        self.note(side, sequence);
        match sequence == self.expected && sequence != 0 {
            true => self.receive_next(&packet, now_ns, sink),
            false => self.receive_other(side, &packet, datagram, now_ns, sink),
        }
        Ok(())
    }

    /// Handles the next packet.
    #[inline]
    fn receive_next<S: PacketSink>(&mut self, packet: &Packet<'_>, now_ns: u64, sink: &mut S) {
        let sequence = self.expected;
        (self.delivered_ns, self.moved_ns) = (now_ns, now_ns);
        self.is_confirmed = true;
        self.deliver(packet, sink);
        if !self.early.is_empty() {
            self.counters.recovered += 1;
            let (from, count) = (sequence, 1);
            sink.gap(Gap::Recovered { from, count });
            self.deliver_early(sink);
        }
    }

    /// Handles a packet that is not the next one.
    #[inline(never)]
    fn receive_other<S: PacketSink>(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        datagram: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) {
        let (sequence, time_ns) = (
            u64::from(packet.header.sequence),
            packet.header.sending_time_ns,
        );
        if sequence == 0 {
            self.counters.foreign += 1;
            return;
        }
        if self.expected == 0 {
            return self.open(side, packet, datagram, now_ns, sink);
        }
        if !self.is_confirmed && sequence.abs_diff(self.expected) > JUMP_MAX {
            // One of the two is a stray, and its time says nothing.
            return self.suspect(side, packet, datagram, now_ns, sink);
        }
        // A copy of the first packet confirms nothing.
        self.is_confirmed |= sequence + 1 != self.expected;
        if sequence < self.expected {
            if time_ns > self.last_time_ns.saturating_add(RESTART_NS) {
                return self.suspect(side, packet, datagram, now_ns, sink);
            }
            self.lines[side.index()].counters.duplicate += 1;
            return;
        }
        // After a restart, the other line may still bring the end of the old sequence.
        if time_ns < self.begin_time_ns {
            if now_ns.saturating_sub(self.delivered_ns) >= RESTART_NS {
                // The new sequence does not go on, and the old one does.
                return self.suspect(side, packet, datagram, now_ns, sink);
            }
            self.counters.foreign += 1;
            return;
        }
        if sequence - self.highest.min(sequence) > JUMP_MAX {
            return self.suspect(side, packet, datagram, now_ns, sink);
        }
        self.keep(sequence, datagram, now_ns, sink);
    }

    /// Handles a packet from which on the sequence would have jumped: ahead, or back to a new
    /// beginning. One packet alone may be a stray. It is believed, and delivered, when another one
    /// follows it.
    #[cold]
    fn suspect<S: PacketSink>(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        datagram: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) {
        let sequence = u64::from(packet.header.sequence);
        let is_below = sequence < self.expected;
        // The lines are not in step: the one that is behind may bring the packet before it.
        let is_near = |first: &Suspect| {
            (1..=JUMP_MAX).contains(&sequence.abs_diff(first.sequence))
                && first.is_below == is_below
        };
        // The stream may have come near it meanwhile.
        let is_still_far = |first: &Suspect| match first.is_below {
            true => first.sequence < self.expected,
            false => first.sequence > self.highest,
        };
        let suspect = self.suspect.take();
        let newest = Suspect {
            sequence,
            is_below,
            datagram: datagram.into(),
            arrived_ns: now_ns,
        };
        let (first, second) = match suspect.filter(is_still_far) {
            Some(first) if first.sequence == sequence => {
                // The other line's copy.
                self.suspect = Some(first);
                return;
            }
            Some(other) if is_near(&other) && other.sequence < sequence => (other, newest),
            Some(other) if is_near(&other) => (newest, other),
            _ => {
                self.counters.foreign += 1;
                self.suspect = Some(newest);
                return;
            }
        };
        for line in &mut self.lines {
            line.next = 0;
        }
        self.believe(side, (&first, &second), now_ns, sink);
    }

    /// Goes on with two packets that the sequence jumps to, ahead or back to a new beginning.
    fn believe<S: PacketSink>(
        &mut self,
        side: Side,
        (first, second): (&Suspect, &Suspect),
        now_ns: u64,
        sink: &mut S,
    ) {
        debug_assert!(first.sequence < second.sequence, "in their order");
        let Ok(packet) = decode_packet(&second.datagram) else {
            return;
        };
        // The packet that the stream was joined at was a stray if nothing followed it.
        let was_stray = !std::mem::replace(&mut self.is_confirmed, true);
        if !first.is_below && !was_stray {
            if packet.header.sending_time_ns < self.begin_time_ns {
                self.begin_time_ns = 0;
            }
            self.keep(first.sequence, &first.datagram, first.arrived_ns, sink);
        } else {
            (self.delivered_ns, self.moved_ns) = (now_ns, now_ns);
            self.restart(first, sink);
        }
        match second.sequence == self.expected {
            true => self.deliver(&packet, sink),
            false => self.receive_other(side, &packet, &second.datagram, now_ns, sink),
        }
    }

    /// Handles the passing of time: gives up packets that are too late.
    pub fn handle_timeout<S: PacketSink>(&mut self, now_ns: u64, sink: &mut S) {
        if self.is_opening() && self.deadline_ns() <= now_ns {
            self.end_opening(now_ns, sink);
        }
        while self.deadline_ns() <= now_ns {
            self.give_up(sink);
        }
    }

    /// Returns when [`Arbiter::handle_timeout`] has something to do.
    #[inline]
    pub fn deadline_ns(&self) -> u64 {
        if self.is_opening() {
            return self
                .opening
                .since_ns
                .saturating_add(self.config.patience_ns);
        }
        match self.early.first_key_value() {
            Some((_, early)) => early.arrived_ns.saturating_add(self.config.patience_ns),
            None => u64::MAX,
        }
    }

    /// Returns the next sequence; 0 before the first packet, and for [`ArbiterConfig::patience_ns`]
    /// after it if the beginning of the sequence may still come.
    pub fn next_sequence(&self) -> u64 {
        self.expected
    }

    /// Returns whether no new packet has come for too long, on any line. A packet that was received
    /// before is not new, on the other line or again on the same.
    pub fn is_silent(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.moved_ns) >= self.config.silence_ns_max
    }

    /// Returns when a packet last was new; 0 before the first.
    pub fn moved_ns(&self) -> u64 {
        self.moved_ns
    }

    /// Returns the counters.
    pub fn counters(&self) -> &ArbiterCounters {
        &self.counters
    }

    /// Returns the counters of a line.
    pub fn side_counters(&self, side: Side) -> &SideCounters {
        &self.lines[side.index()].counters
    }

    #[inline]
    fn note(&mut self, side: Side, sequence: u64) {
        let line = &mut self.lines[side.index()];
        line.counters.packets += 1;
        if sequence >= line.next {
            let is_first = line.next == 0;
            // A stray packet says nothing about the line.
            if !is_first && sequence - line.next > JUMP_MAX {
                return;
            }
            if !is_first {
                line.counters.lost += sequence - line.next;
            }
            line.next = sequence + 1;
        } else {
            line.counters.late += 1;
        }
    }

    #[inline]
    fn deliver<S: PacketSink>(&mut self, packet: &Packet<'_>, sink: &mut S) {
        debug_assert_eq!(
            u64::from(packet.header.sequence),
            self.expected,
            "packets are delivered in order"
        );
        self.last_time_ns = packet.header.sending_time_ns;
        self.expected += 1;
        self.highest = self.highest.max(self.expected);
        self.counters.packets += 1;
        sink.packet(packet);
    }

    /// Delivers the early packets that are due.
    fn deliver_early<S: PacketSink>(&mut self, sink: &mut S) {
        while let Some(entry) = self.early.first_entry() {
            if *entry.key() > self.expected {
                return;
            }
            let early = entry.remove();
            self.early_bytes -= early.datagram.len();
            if let Ok(packet) = decode_packet(&early.datagram)
                && u64::from(packet.header.sequence) == self.expected
            {
                self.deliver(&packet, sink);
            }
        }
    }

    #[cold]
    fn keep<S: PacketSink>(&mut self, sequence: u64, datagram: &[u8], now_ns: u64, sink: &mut S) {
        if self.early.contains_key(&sequence) {
            return;
        }
        if sequence > self.highest {
            let (from, count) = (self.highest, sequence - self.highest);
            self.counters.gaps += 1;
            sink.gap(Gap::Opened { from, count });
        } else if sequence < self.highest {
            let (from, count) = (sequence, 1);
            self.counters.recovered += 1;
            sink.gap(Gap::Recovered { from, count });
        }
        self.highest = self.highest.max(sequence + 1);
        self.moved_ns = self.moved_ns.max(now_ns);
        self.early_bytes += datagram.len();
        let early = Early {
            datagram: datagram.into(),
            arrived_ns: now_ns,
        };
        self.early.insert(sequence, early);
        while self.early_bytes > self.config.early_bytes_max && !self.early.is_empty() {
            self.give_up(sink);
        }
    }

    /// Gives up what is missing before the first early packet, and delivers from there.
    #[cold]
    fn give_up<S: PacketSink>(&mut self, sink: &mut S) {
        let Some((&first, _)) = self.early.first_key_value() else {
            return;
        };
        assert!(first > self.expected, "an early packet is not due");
        let (from, count) = (self.expected, first - self.expected);
        self.counters.lost += count;
        self.expected = first;
        let reason = LossReason::NoAnswer;
        sink.gap(Gap::Lost {
            from,
            count,
            reason,
        });
        self.deliver_early(sink);
    }
}

/// A packet of a lower sequence that was sent this much later belongs to a new sequence: two copies
/// of a packet have the same sending time.
const RESTART_NS: u64 = 1_000_000_000;
/// A packet further ahead than this must be confirmed by a second one. A tenth of a second of a
/// busy channel.
const JUMP_MAX: u64 = 1_000;

mod opening;
#[cfg(test)]
mod tests;
