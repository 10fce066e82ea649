//! Where a stream begins. The packets before the first one that arrives may be on their way on the
//! other line: a stream near its beginning waits for them before it is joined.

use std::collections::BTreeMap;

use tidewire_feed::client::Side;

use super::{Arbiter, Early, JUMP_MAX, PacketSink, RESTART_NS, Suspect};
use crate::packet::{Packet, decode_packet};

/// The packets of a stream that is not joined yet are the early ones.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// When the first of them arrived.
    pub(super) since_ns: u64,
    /// Whether another sequence was before.
    is_restart: bool,
}

impl Arbiter {
    /// Returns whether packets wait for those before them, and the stream is not joined yet.
    #[inline]
    pub(super) fn is_opening(&self) -> bool {
        self.expected == 0 && !self.early.is_empty()
    }

    /// Handles a packet before the stream is joined.
    #[cold]
    pub(super) fn open<S: PacketSink>(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        datagram: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) {
        debug_assert_eq!(self.expected, 0, "it is not joined");
        let sequence = u64::from(packet.header.sequence);
        let time_ns = packet.header.sending_time_ns;
        if time_ns.saturating_add(RESTART_NS) <= self.begin_time_ns {
            // The end of the sequence before, on the other line.
            self.counters.foreign += 1;
            return;
        }
        let lowest = self.early.first_key_value().map(|(&lowest, _)| lowest);
        let is_far = lowest.is_some_and(|lowest| sequence > lowest + JUMP_MAX);
        let has_room = self.early_bytes + datagram.len() <= self.config.early_bytes_max;
        if is_far || !has_room && lowest.is_some() {
            self.end_opening(now_ns, sink);
            return match sequence == self.expected {
                true => self.receive_next(packet, now_ns, sink),
                false => self.receive_other(side, packet, datagram, now_ns, sink),
            };
        }
        if self.early.contains_key(&sequence) {
            self.lines[side.index()].counters.duplicate += 1;
            return;
        }
        self.moved_ns = now_ns;
        if lowest.is_none() {
            self.opening.since_ns = now_ns;
        }
        self.hold(sequence, datagram, now_ns);
        let may_be_late = (2..=BEGINNING_MAX).contains(&sequence) && has_room;
        if lowest.is_none() && !may_be_late || sequence == 1 {
            self.end_opening(now_ns, sink);
        }
    }

    fn hold(&mut self, sequence: u64, datagram: &[u8], now_ns: u64) {
        self.early_bytes += datagram.len();
        let early = Early {
            datagram: datagram.into(),
            arrived_ns: now_ns,
        };
        self.early.insert(sequence, early);
    }

    /// Joins the stream at the first of the packets that wait, and delivers them.
    #[cold]
    pub(super) fn end_opening<S: PacketSink>(&mut self, now_ns: u64, sink: &mut S) {
        let opening = std::mem::take(&mut self.opening);
        self.early_bytes = 0;
        let early: BTreeMap<u64, Early> = std::mem::take(&mut self.early);
        self.is_confirmed |= early.len() > 1;
        for (sequence, early) in early {
            let Ok(packet) = decode_packet(&early.datagram) else {
                continue;
            };
            if self.expected == 0 {
                (self.expected, self.highest) = (sequence, sequence);
                self.delivered_ns = now_ns;
                if opening.is_restart {
                    self.begin_time_ns = packet.header.sending_time_ns;
                    sink.restarted(sequence, self.begin_time_ns);
                } else {
                    sink.joined(sequence);
                }
            }
            match sequence == self.expected {
                true => self.deliver(&packet, sink),
                false => self.keep(sequence, &early.datagram, early.arrived_ns, sink),
            }
        }
    }

    /// Begins the sequence that a packet shows: it is below the expected one and newer, or the
    /// stream was joined at a stray.
    #[cold]
    pub(super) fn restart<S: PacketSink>(&mut self, first: &Suspect, sink: &mut S) {
        let Ok(packet) = decode_packet(&first.datagram) else {
            return;
        };
        self.early.clear();
        self.early_bytes = 0;
        (self.expected, self.highest) = (0, 0);
        self.begin_time_ns = packet.header.sending_time_ns;
        self.counters.restarts += 1;
        self.opening = Opening {
            since_ns: first.arrived_ns,
            is_restart: true,
        };
        self.hold(first.sequence, &first.datagram, first.arrived_ns);
        if !(2..=BEGINNING_MAX).contains(&first.sequence) {
            self.end_opening(self.moved_ns, sink);
        }
    }
}

/// A stream that begins with a later packet than this is joined late, also if the lines are not in
/// step: it has more before it than one line is behind the other.
const BEGINNING_MAX: u64 = 100;
