//! Packets that may be strays: of another session, or far from the sequence.

use tidewire_feed::client::Side;

use super::Receiver;
use crate::mold::packet::{Header, Packet, PacketError};
use crate::mold::suspect::{JUMP_MAX, Sighting, Suspect, end_of};
use crate::sequenced::SequencedSink;

/// What is known of a session that began with one packet, which may be a stray.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Whether a second packet has followed one of the session.
    pub(super) is_confirmed: bool,
    /// The newest packet of a session that is not confirmed, if any was processed.
    pub(super) newest: Option<Sighting>,
    /// A packet of another session, which may be the one that goes on.
    pub(super) rival: Option<Suspect>,
}

impl Receiver {
    /// Handles a packet of another session than the present one. It begins that session at once if
    /// there is none, or if the present one has ended. If the present one is silent, or has shown
    /// one packet only, the other one begins with its second packet.
    #[cold]
    pub(super) fn packet_of_another<S: SequencedSink>(
        &mut self,
        side: Option<Side>,
        packet: &Packet<'_>,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let header = &packet.header;
        if self.session.is_none() || self.end_reported {
            self.begin(header, now_ns, sink);
            return self.packet(side, packet, now_ns, sink);
        }
        if self.trial.is_confirmed && !self.is_silent_at_front(now_ns) {
            self.counters.foreign += 1;
            return Ok(());
        }
        for message in packet.messages() {
            message?;
        }
        match self.trial.rival.take() {
            Some(first) if first.is_confirmed_by(header, false, now_ns) => {
                self.begin(&first.header(), now_ns, sink);
                self.confirm();
                self.front_ns = now_ns;
                self.process(side, &first.packet(), now_ns, sink)?;
                self.process(side, packet, now_ns, sink)
            }
            Some(first) if first.is_copied_by(header) => {
                self.trial.rival = Some(first);
                Ok(())
            }
            _ => {
                self.counters.foreign += 1;
                self.trial.rival = Some(Suspect::new(packet, false, now_ns));
                Ok(())
            }
        }
    }

    /// Notes a packet of a session that may have begun with a stray one. The session is confirmed
    /// when the packet goes on from the one before.
    #[cold]
    pub(super) fn note_on_trial(&mut self, header: &Header, now_ns: u64) {
        let newest = Sighting::new(header, now_ns);
        match self.trial.newest {
            Some(before) if before.goes_with(header, now_ns) => self.confirm(),
            Some(before) if before.is_copied_by(header) => {}
            _ => self.trial.newest = Some(newest),
        }
    }

    /// Believes in the present session.
    pub(super) fn confirm(&mut self) {
        debug_assert!(self.session.is_some(), "a session has begun");
        self.trial = Trial {
            is_confirmed: true,
            ..Trial::default()
        };
    }

    /// Returns whether a packet behind the sequence may show that its sender has started again: the
    /// front is silent, or the sequence is that of one packet, far from this one.
    pub(super) fn may_restart(&self, header: &Header, now_ns: u64) -> bool {
        let is_far = end_of(header).saturating_add(JUMP_MAX) < self.expected;
        self.is_silent_at_front(now_ns) || !self.trial.is_confirmed && is_far
    }

    /// Handles a packet far ahead of the sequence, or behind it while the front is silent: the
    /// sender may have started again. It is believed, and processed, when another one confirms it.
    #[cold]
    pub(super) fn suspect<S: SequencedSink>(
        &mut self,
        side: Option<Side>,
        packet: &Packet<'_>,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        for message in packet.messages() {
            message?;
        }
        let header = &packet.header;
        let is_behind = end_of(header) < self.expected;
        match self.suspect.take() {
            Some(first) if first.is_confirmed_by(header, is_behind, now_ns) => {
                // What a session on trial has processed before was a stray.
                if is_behind || self.trial.newest.is_some() {
                    self.restart(&first.header(), now_ns, sink);
                }
                self.confirm();
                self.front_ns = now_ns;
                for line in &mut self.lines {
                    line.next_sequence = 0;
                }
                self.process(side, &first.packet(), now_ns, sink)?;
                self.process(side, packet, now_ns, sink)
            }
            Some(first) if first.is_copied_by(header) => {
                self.suspect = Some(first);
                Ok(())
            }
            _ => {
                self.counters.foreign += 1;
                self.suspect = Some(Suspect::new(packet, is_behind, now_ns));
                Ok(())
            }
        }
    }
}
