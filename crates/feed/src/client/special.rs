//! Packets outside the sequenced stream: controls, heartbeats, snapshots.

use super::*;

impl Client {
    /// Returns whether the server has accepted the login on the present connection of a side.
    pub fn is_accepted(&self, side: Side) -> bool {
        self.sides[side.index()].accepted
    }

    /// Returns why the server ends the present connection of a side, or has ended the last one, if
    /// it has said so.
    pub fn refusal(&self, side: Side) -> Option<&Refused> {
        self.sides[side.index()].refusal.as_ref()
    }

    #[cold]
    pub(super) fn special_packet<S: Sink>(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), ReceiveError> {
        let header = &packet.header;
        if header.flags.contains(Flags::CONTROL) {
            for control in packet.controls() {
                let control = control.map_err(ReceiveError::Malformed)?;
                self.control(side, &control, now_ns, sink)?;
            }
            return Ok(());
        }
        if header.session != self.session {
            self.counters.foreign += 1;
            return Ok(());
        }
        if header.flags.contains(Flags::SNAPSHOT) {
            return self.snapshot_packet(side, packet, now_ns, sink);
        }
        let next = header.first_sequence;
        if self.expected == 0 || next == 0 {
            return Ok(());
        }
        self.latest_side = side;
        self.observe(next, now_ns, sink);
        if header.flags.contains(Flags::END_OF_SESSION) {
            self.end = Some(next);
            let again = self.end_reported;
            self.report_end(side, sink);
            if again {
                let acknowledgement = EndOfSessionAcknowledgement {
                    next_sequence: next,
                    applied_count: self.counters.applied(),
                };
                self.tell(side, &Control::EndOfSessionAcknowledgement(acknowledgement));
            }
        } else {
            sink.heartbeat(next);
        }
        Ok(())
    }

    fn control<S: Sink>(
        &mut self,
        side: Side,
        control: &Control,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), ReceiveError> {
        match control {
            Control::TooOld(too_old) => self.too_old(too_old, now_ns, sink),
            Control::Unknown(_) | Control::Passed(_) => {}
            _ if self.role == ReceiverRole::Listener => return Err(ReceiveError::OutOfOrder),
            Control::LoginAccepted(accepted) => self.accepted(side, accepted, sink),
            Control::Venue(venue) => sink.venue_of_login(venue),
            Control::Refused(refused) => {
                if !refused.reason.leaves_the_rest() {
                    self.sides[side.index()].refusal = Some(*refused);
                }
                sink.refused(side, refused);
            }
            Control::SnapshotNotice(notice) => self.snapshot_notice(side, notice, now_ns, sink),
            _ => return Err(ReceiveError::OutOfOrder),
        }
        Ok(())
    }

    fn accepted<S: Sink>(&mut self, side: Side, accepted: &LoginAccepted, sink: &mut S) {
        let other_is_live = self.sides[side.other().index()].accepted;
        if self.session != accepted.session && !(other_is_live && self.session != 0) {
            self.change_session(accepted.session, sink);
        }
        self.interval_ns = u64::from(accepted.heartbeat_interval_ms)
            .saturating_mul(1_000_000)
            .clamp(HEARTBEAT_INTERVAL_NS_MIN, HEARTBEAT_INTERVAL_NS_MAX);
        let state = &mut self.sides[side.index()];
        state.accepted = true;
        state.partial_snapshots = accepted.partial_snapshots;
        sink.accepted(side, accepted);
        let resumes = self.expected > 0 && accepted.oldest_sequence <= self.expected;
        if resumes && self.values_complete && !self.tells_overdue {
            sink.values_right();
        }
    }

    fn change_session<S: Sink>(&mut self, session: u32, sink: &mut S) {
        let old = std::mem::replace(&mut self.session, session);
        if old == 0 {
            return;
        }
        self.give_up(self.highest, LossReason::SessionChanged, 0, sink);
        self.doubt = None;
        self.values_complete = false;
        self.tells_overdue = false;
        self.holes.clear();
        self.expected = 0;
        self.highest = 0;
        self.end = None;
        self.end_reported = false;
        self.assemblies.clear();
        self.included.clear();
        self.whole = None;
        for state in &mut self.sides {
            state.next_sequence = 0;
        }
        sink.session_changed(old, session);
    }

    fn too_old<S: Sink>(&mut self, too_old: &TooOld, now_ns: u64, sink: &mut S) {
        let jump = too_old.oldest.saturating_sub(self.expected);
        if self.expected == 0 || jump == 0 || jump > JUMP_MAX {
            return;
        }
        let reason = match (too_old.conflated, too_old.dropped) {
            (true, _) => LossReason::Conflated,
            (false, true) => LossReason::Dropped,
            (false, false) => LossReason::TooOld,
        };
        let comes = too_old.conflated || too_old.recovers;
        let ask_ns = match comes {
            true => now_ns.saturating_add(self.config.request_retry_ns),
            false => 0,
        };
        self.give_up(too_old.oldest, reason, ask_ns, sink);
    }

    fn snapshot_notice<S: Sink>(
        &mut self,
        side: Side,
        notice: &SnapshotNotice,
        now_ns: u64,
        sink: &mut S,
    ) {
        // A stream that is ahead, of the other side, may have named symbols that are not in it.
        let is_ahead = self.expected > notice.as_of.saturating_add(1);
        if self.expected == 0 {
            self.expected = notice.as_of.saturating_add(1);
            self.highest = self.expected;
        }
        if self.assemblies.is_empty() && self.doubt.is_none() {
            self.watched.fill(0);
        }
        if self.assemblies.len() == ASSEMBLIES_MAX {
            self.assemblies.remove(0);
        }
        let request_ns = now_ns.saturating_add(self.config.request_retry_ns);
        self.assemblies
            .push(Assembly::new(side, *notice, request_ns));
        self.values_complete = false;
        sink.snapshot_begin(notice.as_of);
        if notice.since == 0 && !is_ahead && self.reads_everything() {
            self.whole = Some((side, notice.number));
            sink.whole_snapshot_begin();
        }
    }

    /// Returns whether its only subscription is that to all symbols.
    fn reads_everything(&self) -> bool {
        matches!(self.patterns.as_slice(), [all] if all.as_str() == "*")
    }

    fn snapshot_packet<S: Sink>(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), ReceiveError> {
        let number = (packet.header.first_sequence >> 32) as u32;
        let mut position = packet.header.first_sequence as u32;
        let Some(index) = self
            .assemblies
            .iter()
            .position(|assembly| assembly.side == side && assembly.notice.number == number)
        else {
            // A late duplicate of a completed snapshot.
            self.sides[side.index()].counters.duplicate += 1;
            return Ok(());
        };
        let as_of = self.assemblies[index].notice.as_of;
        for message in packet.messages() {
            let message = message.map_err(ReceiveError::Malformed)?;
            let assembly = &mut self.assemblies[index];
            if let Message::Skip(skip) = &message {
                let until = u64::from(position).saturating_add(skip.count);
                let until = until.min(u64::from(u32::MAX)) as u32;
                if assembly.passed(position, until) {
                    assembly.progressed(now_ns.saturating_add(self.config.request_retry_ns));
                }
                position = until;
                continue;
            }
            if assembly.arrived(position) {
                assembly.progressed(now_ns.saturating_add(self.config.request_retry_ns));
                match &message {
                    Message::Definition(definition) => sink.definition(0, definition),
                    Message::LastValue(record) if self.is_overtaken(record) => {
                        self.counters.overtaken += 1;
                        self.assemblies[index].reject(position);
                    }
                    Message::LastValue(record) => {
                        self.counters.snapshot_records += 1;
                        self.included.note(record, self.expected);
                        sink.snapshot_record(as_of, record);
                    }
                    Message::SnapshotEnd(mark) => self.assemblies[index].ended(mark.records),
                    _ => {}
                }
            }
            position = position.wrapping_add(1);
        }
        if let Some(records) = self.assemblies[index].complete() {
            let notice = self.assemblies.remove(index).notice;
            self.counters.snapshots += 1;
            sink.snapshot_complete(as_of, records);
            if self.whole == Some((side, notice.number)) {
                self.whole = None;
                sink.whole_snapshot_complete();
            }
            self.settle(side, &notice, sink);
        }
        Ok(())
    }

    /// Returns whether the live stream already delivered a newer message, which the record would
    /// overwrite.
    fn is_overtaken(&self, record: &crate::wire::LastValue) -> bool {
        self.watched
            .get(record.symbol as usize)
            .is_some_and(|&sequence| sequence > record.sequence)
    }

    /// Notes a symbol's message while a snapshot is being received.
    #[cold]
    pub(super) fn watch(&mut self, sequence: u64, message: &Message) {
        let Some(symbol) = message
            .symbol()
            .filter(|&symbol| symbol < WATCHED_SYMBOLS_MAX)
        else {
            return;
        };
        let index = symbol as usize;
        if self.watched.len() <= index {
            self.watched.resize(index + 1, 0);
        }
        self.watched[index] = sequence;
    }

    /// Requests missing positions of snapshots that are due.
    pub(super) fn poll_snapshots(&mut self, now_ns: u64) {
        let (session, retry_ns) = (self.session, self.config.request_retry_ns);
        let mut index = 0;
        let mut given_up = None;
        while let Some(assembly) = self.assemblies.get_mut(index) {
            index += 1;
            if assembly.next_request_ns > now_ns {
                continue;
            }
            let outgoing = &mut self.sides[assembly.side.index()].outgoing;
            let counters = &mut self.counters;
            let number = assembly.notice.number;
            let goes_on = assembly.request(now_ns.saturating_add(retry_ns), |position, count| {
                counters.requests += 1;
                let from = snapshot_position(number, position);
                let request = Request {
                    from,
                    count,
                    snapshot: true,
                };
                PacketWriter::control(outgoing, session, &Control::Request(request));
            });
            if !goes_on {
                index -= 1;
                let Assembly { side, notice, .. } = self.assemblies.remove(index);
                // A snapshot of changes is requested again as long as the doubt lasts.
                given_up = given_up.or((notice.since == 0).then_some(side));
            }
        }
        if let Some(side) = given_up {
            self.ask_for_values(side, 0);
        }
    }

    pub(super) fn send_heartbeats(&mut self, now_ns: u64) {
        for state in self.sides.iter_mut().filter(|state| state.connected) {
            if now_ns >= state.next_heartbeat_ns {
                state.next_heartbeat_ns = now_ns.saturating_add(self.interval_ns);
                PacketWriter::bare(&mut state.outgoing, self.session, Flags::HEARTBEAT, 0);
            }
        }
    }

    pub(super) fn tell(&mut self, side: Side, control: &Control) {
        let state = &mut self.sides[side.index()];
        if state.connected {
            PacketWriter::control(&mut state.outgoing, self.session, control);
        }
    }

    pub(super) fn tell_all(&mut self, control: &Control) {
        for side in Side::ALL {
            self.tell(side, control);
        }
    }
}

/// Maximum messages that a peer may call too old at once: what it counts as lost is added up.
pub(super) const JUMP_MAX: u64 = 1 << 40;
