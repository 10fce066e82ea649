//! A receiver of one stream on up to two lines.

mod opening;
mod strays;

use super::packet::{Header, Messages, Packet, PacketError, decode_packet};
use super::suspect::{JUMP_MAX, Suspect, end_of};
use crate::sequenced::{AHEAD, SequencedSink, SessionName};
use opening::Opening;
use strays::Trial;
use tidewire_feed::client::{Gap, Holes, LossReason, Side, SideCounters};

/// Maximum messages per request.
pub const REQUEST_MESSAGES_MAX: u64 = 1_000;

/// Settings of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverConfig {
    /// Whether there is a request server. Without one, messages missing for `patience_ns` are
    /// lost.
    pub requests: bool,
    /// Whether a stream joined late is requested from its first message (if there is a request
    /// server). A book is incomplete without its earlier orders.
    pub from_start: bool,
    /// How long a missing packet may be late before it is requested.
    pub reorder_grace_ns: u64,
    /// How long a missing packet may be late if there is no request server.
    pub patience_ns: u64,
    /// Delay between two requests for the same range; doubles up to 16-fold.
    pub request_retry_ns: u64,
    /// How long after the first request values count as doubtful.
    pub doubt_delay_ns: u64,
    /// Maximum bytes of early packets kept while an earlier packet is missing.
    pub early_bytes_max: usize,
    /// Silence after which a line counts as lost, and another session may take over.
    pub silence_ns_max: u64,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            requests: true,
            from_start: true,
            reorder_grace_ns: 1_000_000,
            patience_ns: 100_000_000,
            request_retry_ns: 20_000_000,
            doubt_delay_ns: 50_000_000,
            early_bytes_max: 16 << 20,
            silence_ns_max: 3_000_000_000,
        }
    }
}

/// Counters of a receiver; every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages delivered.
    pub messages: u64,
    /// Holes opened.
    pub gaps: u64,
    /// Missing sequences that arrived later.
    pub recovered: u64,
    /// Sequences that never arrived.
    pub lost: u64,
    /// Requests sent.
    pub requests: u64,
    /// Answer packets received.
    pub answers: u64,
    /// Early packets that did not fit in the buffer.
    pub early_dropped: u64,
    /// Packets of another session, packets far from the sequence that no second one had confirmed,
    /// and ends of the session before messages that exist. A packet that a second one confirms
    /// later is counted, too.
    pub foreign: u64,
    /// Times at which the sequence started again with the same session.
    pub restarts: u64,
}

/// The receiver of a MoldUDP64 stream.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    session: Option<SessionName>,
    /// Everything before this was delivered or reported lost.
    expected: u64,
    /// One past the highest sequence known to exist; `>= expected`.
    highest: u64,
    holes: Holes,
    lines: [Line; 2],
    end: Option<u64>,
    end_reported: bool,
    /// Whether the sink was told that messages are missing for long.
    tells_overdue: bool,
    /// Ranges to request: first sequence and count.
    requests: Vec<(u64, u16)>,
    /// End of the first requested range, and the number of answers since.
    asked: Option<(u64, u32)>,
    /// Whether the server sends one packet per request: request again after each packet.
    answers_singly: bool,
    /// When a packet last was at the front of the sequence.
    front_ns: u64,
    /// When a line last showed that the stream goes on; 0 before that.
    alive_ns: u64,
    /// A packet far from the sequence, until a second one confirms it.
    suspect: Option<Suspect>,
    trial: Trial,
    /// The beginning of the session that is awaited, if it is.
    opening: Option<Opening>,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// One past the highest sequence received on this line; 0 before the first.
    next_sequence: u64,
    counters: SideCounters,
}

impl Receiver {
    /// Creates a receiver that has received nothing.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            session: None,
            expected: 0,
            highest: 0,
            holes: Holes::default(),
            lines: Default::default(),
            end: None,
            end_reported: false,
            tells_overdue: false,
            requests: Vec::new(),
            asked: None,
            answers_singly: false,
            front_ns: 0,
            alive_ns: 0,
            suspect: None,
            trial: Trial::default(),
            opening: None,
            counters: Counters::default(),
        }
    }

    /// Receives a datagram of a line.
    ///
    /// # Errors
    /// [`PacketError`]; messages before the fault are delivered, those after it are missing.
    pub fn receive<S: SequencedSink>(
        &mut self,
        side: Side,
        datagram: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let line = &mut self.lines[side.index()];
        let packet = decode_packet(datagram).inspect_err(|_| line.counters.corrupt += 1)?;
        line.counters.packets += 1;
        line.counters.bytes += datagram.len() as u64;
        let before = (self.counters.messages, self.highest);
        let result = self.packet(Some(side), &packet, now_ns, sink);
        if before != (self.counters.messages, self.highest) || self.is_heartbeat(&packet.header) {
            self.alive_ns = now_ns;
        }
        if result.is_err() {
            self.lines[side.index()].counters.corrupt += 1;
        }
        result
    }

    /// Receives a datagram that answers a request.
    ///
    /// # Errors
    /// Like [`receive`](Self::receive).
    pub fn receive_answer<S: SequencedSink>(
        &mut self,
        datagram: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let packet = decode_packet(datagram)?;
        if self.session != Some(packet.header.session) {
            self.counters.foreign += 1;
            return Ok(());
        }
        self.counters.answers += 1;
        let before = self.expected;
        let result = self.packet(None, &packet, now_ns, sink);
        if let Some((until, answers)) = &mut self.asked {
            *answers += 1;
            self.answers_singly &= *answers < 2;
            if self.expected > before && (self.expected >= *until || self.answers_singly) {
                self.asked = None;
                self.holes.hasten(now_ns);
            }
        }
        self.ask(now_ns);
        result
    }

    /// Requests what is due. Gives up messages that were missing too long or requested too often.
    pub fn handle_timeout<S: SequencedSink>(&mut self, now_ns: u64, sink: &mut S) {
        if self.opening.is_some_and(|opening| opening.due_ns <= now_ns) {
            self.end_opening(sink);
        }
        self.ask(now_ns);
        let attempts_max = if self.config.requests {
            tidewire_feed::client::REQUEST_ATTEMPTS_MAX
        } else {
            0
        };
        while let Some(until) = self.holes.given_up_after(attempts_max) {
            self.give_up(until, LossReason::NoAnswer, sink);
        }
        self.check_overdue(now_ns, sink);
    }

    /// Reports all missing messages as lost, because no more will arrive: the end of a capture.
    pub fn finish<S: SequencedSink>(&mut self, sink: &mut S) {
        self.end_opening(sink);
        self.give_up(self.highest, LossReason::NoAnswer, sink);
    }

    /// Gives up the first hole, because there is no room to wait longer.
    pub fn give_up_first<S: SequencedSink>(&mut self, sink: &mut S) {
        if self.opening.is_some() {
            return self.end_opening(sink);
        }
        if let Some(first) = self.holes.first_early() {
            self.give_up(first, LossReason::NoAnswer, sink);
        }
    }

    /// Returns the number of packets kept behind a hole.
    pub fn early_packets(&self) -> usize {
        self.holes.early_packets()
    }

    /// Returns the next request to send by unicast, if one is due.
    pub fn take_request(&mut self) -> Option<[u8; Header::LENGTH]> {
        let (sequence, count) = self.requests.pop()?;
        Some(
            Header {
                session: self.session?,
                sequence,
                count,
            }
            .to_bytes(),
        )
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) must be called even if nothing
    /// arrives; `u64::MAX` for never.
    pub fn deadline_ns(&self) -> u64 {
        let overdue_ns = self.holes.overdue_ns(self.config.doubt_delay_ns);
        let overdue_ns = overdue_ns.filter(|_| !self.tells_overdue);
        let due_ns = self.holes.deadline_ns().into_iter().chain(overdue_ns);
        let opening_ns = self.opening.map(|opening| opening.due_ns);
        due_ns.chain(opening_ns).min().unwrap_or(u64::MAX)
    }

    /// Returns whether nothing has shown for [`ReceiverConfig::silence_ns_max`] that the stream
    /// goes on. Only what moves the sequence shows it, and a heartbeat with the next sequence: a
    /// line that repeats its last packet does not, nor one that is behind the other.
    pub fn is_silent(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.alive_ns) >= self.config.silence_ns_max
    }

    /// Returns whether it is a heartbeat, or end, of the session that has the next sequence.
    fn is_heartbeat(&self, header: &Header) -> bool {
        let has_no_messages = [Header::HEARTBEAT, Header::END_OF_SESSION].contains(&header.count);
        has_no_messages && self.session == Some(header.session) && header.sequence == self.highest
    }

    /// Returns the stream's session, once known.
    pub fn session(&self) -> Option<SessionName> {
        self.session
    }

    /// Returns the next sequence: everything before it was delivered or reported lost; 0 until
    /// joined.
    pub fn next_sequence(&self) -> u64 {
        self.expected
    }

    /// Returns one past the highest sequence known to exist.
    pub fn highest_sequence(&self) -> u64 {
        self.highest
    }

    /// Returns whether the session ended and everything was delivered or reported lost.
    pub fn is_ended(&self) -> bool {
        self.end_reported
    }

    /// Returns the receiver's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the counters of one line.
    pub fn side_counters(&self, side: Side) -> &SideCounters {
        &self.lines[side.index()].counters
    }

    #[inline]
    fn packet<S: SequencedSink>(
        &mut self,
        side: Option<Side>,
        packet: &Packet<'_>,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let header = &packet.header;
        if self.session != Some(header.session) {
            return self.packet_of_another(side, packet, now_ns, sink);
        }
        let is_ahead = header.sequence > self.highest.saturating_add(JUMP_MAX);
        if side.is_none() {
            if is_ahead {
                self.counters.foreign += 1;
                return Ok(());
            }
            return self.process(side, packet, now_ns, sink);
        }
        let is_behind = end_of(header) < self.expected;
        if is_ahead || (is_behind && self.may_restart(header, now_ns)) {
            return self.suspect(side, packet, now_ns, sink);
        }
        if !is_behind {
            self.front_ns = now_ns;
            // It speaks against a jump.
            if self.suspect.is_some() {
                self.suspect = None;
            }
        }
        if !self.trial.is_confirmed {
            self.note_on_trial(header, now_ns);
        } else if self.trial.rival.is_some() && !is_behind {
            self.trial.rival = None;
        }
        self.process(side, packet, now_ns, sink)
    }

    /// Handles a packet of the sequence.
    #[inline]
    fn process<S: SequencedSink>(
        &mut self,
        side: Option<Side>,
        packet: &Packet<'_>,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let header = &packet.header;
        let until = end_of(header);
        if self.end.is_some_and(|end| until > end) {
            // The stream goes on, so the end was wrong.
            (self.end, self.end_reported) = (None, false);
        }
        if header.count == Header::HEARTBEAT || header.count == Header::END_OF_SESSION {
            let is_end = header.count == Header::END_OF_SESSION;
            if is_end && header.sequence < self.highest {
                self.counters.foreign += 1;
                return Ok(());
            }
            self.observe(header.sequence, now_ns, sink);
            if is_end && self.end.is_none() {
                self.end = Some(header.sequence);
            }
            self.report_end(sink);
            return Ok(());
        }
        if let Some(side) = side {
            self.lines[side.index()].note(header.sequence, until);
        }
        if header.sequence > self.expected {
            return self.keep(packet, until, now_ns, sink);
        }
        if until <= self.expected {
            if let Some(side) = side {
                self.lines[side.index()].counters.duplicate += 1;
            }
            return Ok(());
        }
        let result = self.apply(header.sequence, packet.messages(), sink);
        self.after_progress(sink);
        result
    }

    /// Returns whether nothing was at the front of the sequence for
    /// [`ReceiverConfig::silence_ns_max`].
    fn is_silent_at_front(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.front_ns) >= self.config.silence_ns_max
    }

    /// Returns whether a datagram of a line shows that the delivered values are current. A packet
    /// of another session does not, nor one that only a second one can confirm, nor one that
    /// repeats what was received.
    pub fn is_current(&self, datagram: &[u8], now_ns: u64) -> bool {
        let Ok(Packet { header, .. }) = decode_packet(datagram) else {
            return false;
        };
        if self.session != Some(header.session) {
            return self.session.is_none();
        }
        if header.sequence > self.highest.saturating_add(JUMP_MAX) {
            let suspect = self.suspect.as_ref();
            return suspect.is_some_and(|first| first.is_confirmed_by(&header, false, now_ns));
        }
        self.is_heartbeat(&header) || end_of(&header) > self.expected
    }

    /// Delivers the due messages.
    #[inline]
    fn apply<S: SequencedSink>(
        &mut self,
        first: u64,
        mut messages: Messages<'_>,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        let expected = self.expected;
        let mut sequence = first;
        let mut result = Ok(());
        loop {
            if sequence.wrapping_sub(first).is_multiple_of(AHEAD as u64) {
                sink.expect(messages.rest());
            }
            let Some(message) = messages.next() else {
                break;
            };
            match message {
                Ok(message) if sequence >= expected => sink.message(sequence, message),
                Ok(_) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            sequence = sequence.saturating_add(1);
        }
        self.expected = expected.max(sequence);
        self.counters.messages += self.expected - expected;
        self.highest = self.highest.max(self.expected);
        result
    }

    /// Keeps an early packet.
    #[cold]
    fn keep<S: SequencedSink>(
        &mut self,
        packet: &Packet<'_>,
        until: u64,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), PacketError> {
        for message in packet.messages() {
            message?;
        }
        let (first, count) = (packet.header.sequence, packet.header.count);
        let limit_bytes = self.config.early_bytes_max;
        if self
            .holes
            .keep(first, until, count, packet.body, limit_bytes)
        {
            self.observe(first, now_ns, sink);
            self.highest = self.highest.max(until);
        } else {
            self.counters.early_dropped += 1;
            self.observe(until, now_ns, sink);
        }
        Ok(())
    }

    /// Notes that the sender has sequences up to `next`: those from `highest` on are missing.
    fn observe<S: SequencedSink>(&mut self, next: u64, now_ns: u64, sink: &mut S) {
        if next <= self.highest {
            return;
        }
        let (from, count) = (self.highest, next - self.highest);
        self.highest = next;
        self.counters.gaps += 1;
        let grace_ns = match self.config.requests {
            true => self.config.reorder_grace_ns,
            false => self.config.patience_ns,
        };
        self.holes.open(from, next, now_ns.saturating_add(grace_ns));
        sink.gap(Gap::Opened { from, count });
    }

    #[inline]
    fn after_progress<S: SequencedSink>(&mut self, sink: &mut S) {
        if !self.holes.is_empty() {
            self.apply_early(sink);
        }
        if self.opening.is_some() {
            self.settle_opening();
        }
        if self.tells_overdue {
            self.settle_overdue(sink);
        }
        if self.end.is_some() {
            self.report_end(sink);
        }
    }

    /// Reports that values are in doubt if a hole is open for too long.
    fn check_overdue<S: SequencedSink>(&mut self, now_ns: u64, sink: &mut S) {
        self.holes.mark_overdue(now_ns, self.config.doubt_delay_ns);
        if !self.tells_overdue && self.holes.is_overdue() {
            self.tells_overdue = true;
            sink.values_doubtful();
        }
    }

    /// Reports that values are right again if no hole is overdue any more.
    #[cold]
    fn settle_overdue<S: SequencedSink>(&mut self, sink: &mut S) {
        if self.tells_overdue && !self.holes.is_overdue() {
            self.tells_overdue = false;
            sink.values_right();
        }
    }

    fn apply_early<S: SequencedSink>(&mut self, sink: &mut S) {
        while let Some((first, early)) = self.holes.take_due(self.expected) {
            if early.until > self.expected {
                // The packet was checked when it arrived.
                let messages = Messages::new(&early.body, early.message_count);
                let _ = self.apply(first, messages, sink);
            }
        }
        while let Some((from, until)) = self.holes.take_closed(self.expected) {
            self.recovered(from, until, sink);
        }
    }

    fn recovered<S: SequencedSink>(&mut self, from: u64, until: u64, sink: &mut S) {
        if until > from {
            let count = until - from;
            self.counters.recovered = self.counters.recovered.saturating_add(count);
            sink.gap(Gap::Recovered { from, count });
        }
    }

    fn ask(&mut self, now_ns: u64) {
        if self.holes.is_empty() || self.holes.deadline_ns().is_none_or(|due| due > now_ns) {
            return;
        }
        let Self {
            config,
            holes,
            requests,
            asked,
            counters,
            ..
        } = self;
        if let Some((_, 1)) = asked.take() {
            self.answers_singly = true;
        }
        holes.request_due(
            self.expected,
            now_ns,
            config.request_retry_ns,
            |from, until| {
                if !config.requests || requests.len() >= tidewire_feed::client::REQUEST_RANGES_MAX {
                    return;
                }
                let count = (until - from).min(REQUEST_MESSAGES_MAX);
                if asked.is_none() {
                    *asked = Some((from + count, 0));
                }
                counters.requests += 1;
                requests.push((from, count as u16));
            },
        );
    }

    /// Gives up what is missing before `until` and delivers the early packets in between.
    fn give_up<S: SequencedSink>(&mut self, until: u64, reason: LossReason, sink: &mut S) {
        while self.expected < until {
            self.apply_early(sink);
            if self.expected >= until {
                break;
            }
            let next_early = self.holes.first_early().unwrap_or(until).min(until);
            let from = self.expected;
            for (from, until) in self.holes.lose(from, next_early) {
                if until > from {
                    let count = until - from;
                    self.counters.recovered = self.counters.recovered.saturating_add(count);
                    sink.gap(Gap::Recovered { from, count });
                }
            }
            let count = next_early - from;
            self.counters.lost = self.counters.lost.saturating_add(count);
            self.expected = next_early;
            sink.gap(Gap::Lost {
                from,
                count,
                reason,
            });
        }
        self.apply_early(sink);
        self.highest = self.highest.max(self.expected);
        self.settle_overdue(sink);
        self.report_end(sink);
    }

    fn report_end<S: SequencedSink>(&mut self, sink: &mut S) {
        if let Some(end) = self.end
            && end <= self.expected
            && !self.end_reported
        {
            self.end_reported = true;
            sink.end_of_session(end);
        }
    }
}

impl Line {
    #[inline]
    fn note(&mut self, first: u64, until: u64) {
        if first >= self.next_sequence {
            if self.next_sequence != 0 {
                let passed_over = first - self.next_sequence;
                self.counters.lost = self.counters.lost.saturating_add(passed_over);
            }
            self.next_sequence = until;
        } else {
            self.counters.late += 1;
        }
    }
}
