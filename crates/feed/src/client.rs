//! The receiving side of a native feed: gap detection and recovery.
//!
//! [`Client`] is the state machine of a subscriber, and of a server that receives a publisher's
//! stream. [`Publisher`] is the state machine that sends a stream to a server. [`Connector`]
//! decides when to connect and reconnect.
//!
//! ```text
//!  socket ─▶ receive(side, input, now) ─▶ Sink      in order, exactly once, gaps reported
//!  socket ◀─ drain_outgoing(side)                   login, subscriptions, requests
//!  timer  ◀─ deadline_ns(), then handle_timeout(now)
//! ```

mod assembly;
mod config;
mod connector;
mod counters;
mod doubt;
mod holes;
mod included;
mod publisher;
mod sink;

pub use assembly::MISSING_RANGES_MAX;
pub use config::ClientConfig;
pub use connector::{Connector, Step};
pub use counters::{ClientCounters, SideCounters};
pub use holes::{HOLES_MAX, REQUEST_ATTEMPTS_MAX, REQUEST_RANGES_MAX};
pub use publisher::{Publisher, PublisherConfig, PublisherError, PublisherState};
pub use sink::{Gap, LossReason, NullSink, PublisherLogin, Side, Sink};
pub use tidewire_retry::BackOff;

use crate::server::{HEARTBEAT_INTERVAL_NS_MAX, PATTERNS_MAX, SILENCE_INTERVALS_MAX};
use crate::wire::{
    Control, EndOfSessionAcknowledgement, Flags, Header, Login, LoginAccepted, Message,
    MessageError, Messages, Packet, PacketError, PacketWriter, PatternText, Refused, Request, Role,
    SnapshotNotice, SnapshotRequest, Subscribe, TextError, TooOld, decode_packet, may_be_control,
    snapshot_position,
};

use assembly::Assembly;
use doubt::Doubt;
pub use holes::{EarlyPacket, Hole, Holes};
use included::Included;

/// Maximum snapshots received at once; a further one drops the oldest.
pub const ASSEMBLIES_MAX: usize = 16;
/// Symbol ids from here on are not watched for snapshot records that the stream overtakes. Limits
/// the watch to 8 MiB.
pub const WATCHED_SYMBOLS_MAX: u32 = 1 << 20;
/// Shortest heartbeat interval a server may announce.
pub const HEARTBEAT_INTERVAL_NS_MIN: u64 = 10_000_000;

/// Why a connection cannot continue: always a fault of the peer or the link. Disconnect,
/// reconnect and call [`Client::connected`]: the stream resumes where it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The following bytes cannot be split into packets.
    #[error("framing lost: {0}")]
    FramingLost(PacketError),
    /// A packet's checksum is correct but its messages are invalid.
    #[error("malformed packet: {0}")]
    Malformed(MessageError),
    /// A control that only the other role sends.
    #[error("a control out of the protocol's order")]
    OutOfOrder,
    /// A packet with a wrong checksum that may have been a control: nothing would bring it back.
    #[error("a control was damaged on its way")]
    Damaged,
}

/// Why a subscription cannot be requested: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The pattern does not fit its field.
    #[error("bad pattern: {0}")]
    BadPattern(#[from] TextError),
    /// More than [`PATTERNS_MAX`].
    #[error("more than {PATTERNS_MAX} patterns")]
    TooManyPatterns,
}

#[derive(Debug, Default)]
struct SideState {
    connected: bool,
    accepted: bool,
    /// Whether the server supports snapshots of changed symbols only.
    partial_snapshots: bool,
    outgoing: Vec<u8>,
    last_received_ns: u64,
    next_heartbeat_ns: u64,
    silence_reported: bool,
    /// Why the server ends the connection, or has ended the last one.
    refusal: Option<Refused>,
    /// One past the highest sequence received on this side; 0 before the first.
    next_sequence: u64,
    counters: SideCounters,
}

/// The receiver of one stream.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    role: ReceiverRole,
    /// 0 until known.
    session: u32,
    /// Everything before this was delivered or reported lost; 0 until the stream is joined.
    expected: u64,
    /// One past the highest sequence known to exist; `>= expected`.
    highest: u64,
    holes: Holes,
    sides: [SideState; 2],
    /// Side of the latest packet: requests go there.
    latest_side: Side,
    patterns: Vec<PatternText>,
    assemblies: Vec<Assembly>,
    /// Side and number of the newest snapshot that names each symbol which may be read.
    whole: Option<(Side, u32)>,
    /// Sequence of each symbol's last message, by symbol id; kept while a snapshot or a doubt is
    /// open.
    watched: Vec<u64>,
    included: Included,
    /// Whether a snapshot of all subscriptions is complete and nothing was lost since.
    values_complete: bool,
    /// The loss since, until a snapshot covers it.
    doubt: Option<Doubt>,
    /// Whether the sink was told that values are in doubt because a hole is overdue.
    tells_overdue: bool,
    /// One past the session's last sequence, once the sender has announced it.
    end: Option<u64>,
    end_reported: bool,
    interval_ns: u64,
    counters: ClientCounters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiverRole {
    Subscriber,
    /// Part of a server: no login, no snapshots.
    Listener,
}

impl Client {
    /// Creates a subscriber that is not connected yet.
    pub fn new(config: ClientConfig) -> Client {
        Client {
            config,
            role: ReceiverRole::Subscriber,
            session: 0,
            expected: 0,
            highest: 0,
            holes: Holes::default(),
            sides: Default::default(),
            latest_side: Side::A,
            patterns: Vec::new(),
            assemblies: Vec::new(),
            whole: None,
            watched: Vec::new(),
            included: Included::default(),
            values_complete: false,
            doubt: None,
            tells_overdue: false,
            end: None,
            end_reported: false,
            interval_ns: config
                .heartbeat_interval_ns
                .clamp(1, HEARTBEAT_INTERVAL_NS_MAX),
            counters: ClientCounters::default(),
        }
    }

    /// Creates the receiver of a publisher's stream: no login, no snapshots.
    pub fn listener(config: ClientConfig, session: u32, next_sequence: u64) -> Client {
        let mut client = Client::new(config);
        client.role = ReceiverRole::Listener;
        client.values_complete = true;
        client.session = session;
        client.expected = next_sequence;
        client.highest = next_sequence;
        client
    }

    /// Adds a subscription on every connected side and at every later login.
    pub fn subscribe(&mut self, pattern: &str) -> Result<(), SubscribeError> {
        let pattern = PatternText::new(pattern)?;
        if self.patterns.contains(&pattern) {
            return Ok(());
        }
        if self.patterns.len() == PATTERNS_MAX {
            return Err(SubscribeError::TooManyPatterns);
        }
        self.patterns.push(pattern);
        self.values_complete = false;
        self.tell_all(&Control::Subscribe(Subscribe {
            pattern,
            resume: false,
        }));
        Ok(())
    }

    /// Removes a subscription by its exact pattern. Returns whether it existed.
    pub fn unsubscribe(&mut self, pattern: &str) -> bool {
        let before = self.patterns.len();
        self.patterns.retain(|known| known.as_str() != pattern);
        let was_there = self.patterns.len() != before;
        if was_there {
            self.tell_all(&Control::Unsubscribe(PatternText::truncated(pattern)));
        }
        was_there
    }

    /// Handles a new connection: logs in, and resumes where the stream stopped. Discards output
    /// that the last connection did not send.
    pub fn connected(&mut self, side: Side, now_ns: u64) {
        self.peer_connected(side, now_ns);
        self.sides[side.index()].refusal = None;
        let resumes = self.expected > 0;
        let resume = resumes && self.values_complete;
        if !resume {
            // The subscriptions request all values.
            self.doubt = None;
        }
        let login = Login {
            role: match self.config.datagrams {
                true => Role::Recovery,
                false => Role::Subscriber,
            },
            session: if resumes { self.session } else { 0 },
            next_sequence: self.expected,
            subscription_count: self.patterns.len() as u16,
            slow_policy: self.config.slow_policy,
            partial_snapshots: true,
            reads_figures: true,
            client_name: self.config.name,
            credentials: self.config.credentials,
        };
        let outgoing = &mut self.sides[side.index()].outgoing;
        PacketWriter::control(outgoing, login.session, &Control::Login(login));
        for &pattern in &self.patterns {
            let subscribe = Control::Subscribe(Subscribe { pattern, resume });
            PacketWriter::control(outgoing, login.session, &subscribe);
        }
    }

    /// Handles a new connection of a publisher (for a listener, which does not log in).
    pub fn peer_connected(&mut self, side: Side, now_ns: u64) {
        self.disconnected(side);
        self.holes
            .postpone(now_ns.saturating_add(self.config.request_retry_ns));
        let state = &mut self.sides[side.index()];
        state.connected = true;
        state.last_received_ns = now_ns;
        state.next_heartbeat_ns = now_ns.saturating_add(self.interval_ns);
        state.silence_reported = false;
        state.next_sequence = 0;
        self.latest_side = side;
    }

    /// Handles the end of a connection.
    pub fn disconnected(&mut self, side: Side) {
        let state = &mut self.sides[side.index()];
        state.connected = false;
        state.accepted = false;
        state.outgoing.clear();
        let before = self.assemblies.len();
        self.assemblies.retain(|assembly| assembly.side != side);
        self.whole = self.whole.filter(|(of, _)| *of != side);
        if self.assemblies.len() != before {
            self.values_complete = false;
        }
    }

    /// Receives bytes of one side and returns how many were used. The rest is the beginning of a
    /// packet: pass it again with more bytes appended. Pass a datagram whole.
    pub fn receive<S: Sink>(
        &mut self,
        side: Side,
        input: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) -> Result<usize, ReceiveError> {
        let mut used = 0;
        loop {
            match decode_packet(&input[used..]) {
                Ok(Some((packet, length))) => {
                    used += length;
                    self.packet(side, &packet, now_ns, sink)?;
                }
                Ok(None) => break,
                Err(PacketError::BadChecksum { packet_length }) => {
                    self.sides[side.index()].counters.corrupt += 1;
                    // A publisher repeats its controls when they are asked for again.
                    let is_subscriber = self.role == ReceiverRole::Subscriber;
                    if is_subscriber && may_be_control(&input[used..]) {
                        return Err(ReceiveError::Damaged);
                    }
                    used += packet_length;
                }
                Err(error) => return Err(ReceiveError::FramingLost(error)),
            }
        }
        if used > 0 {
            let state = &mut self.sides[side.index()];
            state.last_received_ns = now_ns;
            state.silence_reported = false;
            if !self.holes.is_empty() || self.doubt.is_some() {
                self.poll_requests(now_ns);
                self.give_up_unanswered(sink);
                self.check_overdue(now_ns, sink);
            }
        }
        Ok(used)
    }

    /// Receives a datagram of one line. Datagrams carry only the stream and heartbeats; missing
    /// packets are requested on a connection.
    pub fn receive_datagram<S: Sink>(
        &mut self,
        side: Side,
        datagram: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), ReceiveError> {
        let asked_side = self.latest_side;
        let mut rest = datagram;
        let mut result = Ok(());
        while result.is_ok() && !rest.is_empty() {
            match decode_packet(rest) {
                Ok(Some((packet, length))) => {
                    rest = &rest[length..];
                    let flags = packet.header.flags;
                    if flags.intersects(Flags::CONTROL.with(Flags::SNAPSHOT)) {
                        self.counters.foreign += 1;
                    } else {
                        result = self.packet(side, &packet, now_ns, sink);
                    }
                }
                Ok(None) => break,
                Err(PacketError::BadChecksum { packet_length }) => {
                    self.sides[side.index()].counters.corrupt += 1;
                    rest = &rest[packet_length..];
                }
                Err(error) => result = Err(ReceiveError::FramingLost(error)),
            }
        }
        self.latest_side = asked_side;
        if !self.holes.is_empty() {
            self.poll_requests(now_ns);
            self.give_up_unanswered(sink);
            self.check_overdue(now_ns, sink);
        }
        result
    }

    /// Sends due requests, gives up unanswered ones, and reports silence.
    pub fn handle_timeout<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        self.poll_requests(now_ns);
        self.give_up_unanswered(sink);
        self.check_overdue(now_ns, sink);
        for side in Side::ALL {
            if self.is_silent(side, now_ns) && !self.sides[side.index()].silence_reported {
                self.sides[side.index()].silence_reported = true;
                sink.silent(side);
            }
        }
    }

    /// Does the part of [`Client::handle_timeout`] that needs no sink: requests and heartbeats.
    pub fn poll_requests(&mut self, now_ns: u64) {
        if self.role == ReceiverRole::Subscriber {
            self.send_heartbeats(now_ns);
        }
        if !self.sides.iter().any(|state| state.connected) {
            return;
        }
        let side = match self.sides[self.latest_side.index()].connected {
            true => self.latest_side,
            false => self.latest_side.other(),
        };
        let (session, retry_ns) = (self.session, self.config.request_retry_ns);
        let outgoing = &mut self.sides[side.index()].outgoing;
        let counters = &mut self.counters;
        self.holes
            .request_due(self.expected, now_ns, retry_ns, |from, until| {
                counters.requests += 1;
                let request = Request {
                    from,
                    count: until - from,
                    snapshot: false,
                };
                PacketWriter::control(outgoing, session, &Control::Request(request));
            });
        self.poll_snapshots(now_ns);
        self.poll_doubt(side, now_ns);
    }

    /// Moves the output of one side to the end of `out`.
    pub fn drain_outgoing(&mut self, side: Side, out: &mut Vec<u8>) {
        out.append(&mut self.sides[side.index()].outgoing);
    }

    /// Returns whether one side has output.
    pub fn has_outgoing(&self, side: Side) -> bool {
        !self.sides[side.index()].outgoing.is_empty()
    }

    /// Returns when [`Client::handle_timeout`] must be called even if nothing arrives; `u64::MAX`
    /// for never.
    pub fn deadline_ns(&self) -> u64 {
        let sides = self
            .sides
            .iter()
            .filter(|state| state.connected)
            .flat_map(|state| {
                let silence_ns = match state.silence_reported {
                    true => u64::MAX,
                    false => state
                        .last_received_ns
                        .saturating_add(self.silence_limit_ns()),
                };
                let heartbeat_ns = match self.role {
                    ReceiverRole::Subscriber => state.next_heartbeat_ns,
                    ReceiverRole::Listener => u64::MAX,
                };
                [silence_ns, heartbeat_ns]
            });
        let recovery = self.recovery_deadline_ns();
        sides.chain(recovery).min().unwrap_or(u64::MAX)
    }

    /// Returns when a request or a doubt is due next; `None` if nothing is missing or no side is
    /// connected.
    pub fn recovery_deadline_ns(&self) -> Option<u64> {
        let is_connected = self.sides.iter().any(|state| state.connected);
        let holes = self.holes.deadline_ns().into_iter();
        let records = self
            .assemblies
            .iter()
            .map(|assembly| assembly.next_request_ns);
        let all = holes
            .chain(self.doubt_deadline_ns())
            .chain(self.holes.overdue_ns(self.config.doubt_delay_ns))
            .chain(records);
        all.min().filter(|_| is_connected)
    }

    /// Returns whether a connected side was silent for [`SILENCE_INTERVALS_MAX`] heartbeat
    /// intervals.
    pub fn is_silent(&self, side: Side, now_ns: u64) -> bool {
        let state = &self.sides[side.index()];
        state.connected
            && now_ns
                >= state
                    .last_received_ns
                    .saturating_add(self.silence_limit_ns())
    }

    /// Returns the stream's session; 0 until known.
    pub fn session(&self) -> u32 {
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

    /// Returns whether the stream is joined, no hole is open and the values are complete.
    pub fn is_complete(&self) -> bool {
        let values = self.values_complete || self.role == ReceiverRole::Listener;
        self.expected > 0 && self.expected == self.highest && values
    }

    /// Returns whether the session ended and everything in it was delivered or reported lost.
    pub fn is_ended(&self) -> bool {
        self.end_reported
    }

    /// Returns the client's counters.
    pub fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    /// Returns the counters of one side.
    pub fn side_counters(&self, side: Side) -> &SideCounters {
        &self.sides[side.index()].counters
    }

    fn silence_limit_ns(&self) -> u64 {
        self.interval_ns * SILENCE_INTERVALS_MAX
    }

    #[inline]
    fn packet<S: Sink>(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), ReceiveError> {
        let header = &packet.header;
        let state = &mut self.sides[side.index()];
        state.counters.packets += 1;
        state.counters.bytes += header.packet_length() as u64;
        let special = Flags::CONTROL
            .with(Flags::SNAPSHOT)
            .with(Flags::HEARTBEAT)
            .with(Flags::END_OF_SESSION);
        if header.flags.intersects(special) {
            return self.special_packet(side, packet, now_ns, sink);
        }
        if header.session != self.session || self.expected == 0 {
            self.counters.foreign += 1;
            return Ok(());
        }
        self.latest_side = side;
        if header.first_sequence != self.expected {
            return self.packet_out_of_turn(side, packet, now_ns, sink);
        }
        let result = self.apply(header.first_sequence, packet.messages(), sink);
        if !header.flags.contains(Flags::RETRANSMISSION) {
            self.note_side(side, header, self.expected);
        }
        self.after_progress(side, sink)?;
        result
    }

    /// Delivers the due messages and moves `expected` past them.
    #[inline]
    fn apply<S: Sink>(
        &mut self,
        first: u64,
        mut messages: Messages<'_>,
        sink: &mut S,
    ) -> Result<(), ReceiveError> {
        let watching = !self.assemblies.is_empty() || self.doubt.is_some();
        let has_included = self.included.reaches(first);
        let expected = self.expected;
        let mut sequence = first;
        let (mut delivered, mut skipped) = (0_u64, 0_u64);
        let mut result = Ok(());
        loop {
            let visited = messages.visit_next(|message| {
                if sequence >= expected {
                    match message {
                        Message::Skip(skip) => skipped = skipped.saturating_add(skip.count),
                        Message::Definition(definition) => sink.definition(sequence, definition),
                        Message::Venue(venue) => sink.venue(venue),
                        other if has_included && self.included.has(sequence, other) => {}
                        other => sink.message(sequence, other),
                    }
                    delivered += u64::from(!matches!(message, Message::Skip(_)));
                    if watching {
                        self.watch(sequence, message);
                    }
                }
                sequence = sequence.saturating_add(message.sequence_count());
            });
            match visited {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    result = Err(ReceiveError::Malformed(error));
                    break;
                }
                None => break,
            }
        }
        self.counters.messages += delivered;
        self.counters.refused += sink.take_refused();
        self.counters.skipped = self.counters.skipped.saturating_add(skipped);
        self.expected = expected.max(sequence);
        self.highest = self.highest.max(self.expected);
        if has_included && !self.included.reaches(self.expected) {
            self.included.clear();
        }
        result
    }

    /// Delivers early packets that are now due, closes holes, and reports the session's end.
    #[inline]
    fn after_progress<S: Sink>(&mut self, side: Side, sink: &mut S) -> Result<(), ReceiveError> {
        let mut result = Ok(());
        if !self.holes.is_empty() {
            result = self.apply_early(sink);
            self.close_holes(sink);
            self.settle_overdue(sink);
        }
        if self.end.is_some() {
            self.report_end(side, sink);
        }
        result
    }

    #[cold]
    fn packet_out_of_turn<S: Sink>(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), ReceiveError> {
        let header = &packet.header;
        let first = header.first_sequence;
        let mut until = first;
        for message in packet.messages() {
            let count = message.map_err(ReceiveError::Malformed)?.sequence_count();
            until = until.saturating_add(count);
        }
        if !header.flags.contains(Flags::RETRANSMISSION) {
            self.note_side(side, header, until);
        }
        if until <= self.expected {
            self.sides[side.index()].counters.duplicate += 1;
            return Ok(());
        }
        if first < self.expected {
            self.apply(first, packet.messages(), sink)?;
            return self.after_progress(side, sink);
        }
        let limit_bytes = self.config.early_bytes_max;
        let kept = self
            .holes
            .keep(first, until, header.message_count, packet.body, limit_bytes);
        if kept {
            self.observe(first, now_ns, sink);
            self.highest = self.highest.max(until);
        } else {
            self.counters.early_dropped += 1;
            self.observe(until, now_ns, sink);
        }
        Ok(())
    }

    /// Updates the counters of one side for a live packet.
    #[inline]
    fn note_side(&mut self, side: Side, header: &Header, until: u64) {
        let state = &mut self.sides[side.index()];
        let first = header.first_sequence;
        if first >= state.next_sequence {
            if state.next_sequence != 0 {
                let passed_over = first - state.next_sequence;
                state.counters.lost = state.counters.lost.saturating_add(passed_over);
            }
            state.next_sequence = until;
        } else {
            state.counters.late += 1;
        }
    }

    /// Notes that the sender has sequences up to `next`: those from `highest` on are missing.
    fn observe<S: Sink>(&mut self, next: u64, now_ns: u64, sink: &mut S) {
        if next <= self.highest {
            return;
        }
        let (from, count) = (self.highest, next - self.highest);
        self.highest = next;
        self.counters.gaps += 1;
        self.holes.open(
            from,
            next,
            now_ns.saturating_add(self.config.reorder_grace_ns),
        );
        sink.gap(Gap::Opened { from, count });
    }

    fn apply_early<S: Sink>(&mut self, sink: &mut S) -> Result<(), ReceiveError> {
        while let Some((first, early)) = self.holes.take_due(self.expected) {
            if early.until <= self.expected {
                continue;
            }
            let header = Header {
                flags: Flags::NONE,
                message_count: early.message_count,
                body_length: early.body.len() as u16,
                session: self.session,
                checksum: 0,
                first_sequence: first,
            };
            let packet = Packet {
                header,
                body: &early.body,
            };
            self.apply(first, packet.messages(), sink)?;
        }
        Ok(())
    }

    fn close_holes<S: Sink>(&mut self, sink: &mut S) {
        while let Some((from, until)) = self.holes.take_closed(self.expected) {
            self.recovered(from, until - from, sink);
        }
    }

    fn recovered<S: Sink>(&mut self, from: u64, count: u64, sink: &mut S) {
        if count > 0 {
            self.counters.recovered = self.counters.recovered.saturating_add(count);
            sink.gap(Gap::Recovered { from, count });
        }
    }

    /// Gives up holes after too many unanswered requests.
    fn give_up_unanswered<S: Sink>(&mut self, sink: &mut S) {
        while let Some(until) = self.holes.given_up() {
            self.give_up(until, LossReason::NoAnswer, 0, sink);
        }
    }

    /// Gives up what is missing before `until` and delivers the early packets in between. The
    /// values this affects are requested at `ask_ns`.
    fn give_up<S: Sink>(&mut self, until: u64, reason: LossReason, ask_ns: u64, sink: &mut S) {
        let since = self.expected;
        let mut loses = false;
        while self.expected < until {
            // An early packet was checked when it arrived.
            let _ = self.apply_early(sink);
            self.close_holes(sink);
            if self.expected >= until {
                break;
            }
            let next_early = self.holes.first_early().unwrap_or(until);
            self.lose(next_early.min(until), reason, sink);
            loses = true;
            if self.is_final(reason) {
                // Before what has waited behind the loss, which ends the doubt about its values.
                self.lose_values(sink);
            }
        }
        let _ = self.apply_early(sink);
        self.close_holes(sink);
        self.highest = self.highest.max(self.expected);
        if loses && !self.is_final(reason) {
            self.doubt(since, until, ask_ns, sink);
        }
        self.settle_overdue(sink);
        if self.end.is_some() {
            self.report_end(self.latest_side, sink);
        }
    }

    /// Reports everything from `expected` up to `until` as lost.
    fn lose<S: Sink>(&mut self, until: u64, reason: LossReason, sink: &mut S) {
        let from = self.expected;
        for (from, until) in self.holes.lose(from, until) {
            self.recovered(from, until.saturating_sub(from), sink);
        }
        let count = until - from;
        self.counters.lost = self.counters.lost.saturating_add(count);
        self.expected = until;
        sink.gap(Gap::Lost {
            from,
            count,
            reason,
        });
    }

    fn report_end<S: Sink>(&mut self, side: Side, sink: &mut S) {
        let Some(end) = self.end.filter(|&end| end <= self.expected) else {
            return;
        };
        let acknowledgement = EndOfSessionAcknowledgement {
            next_sequence: end,
            applied_count: self.counters.applied(),
        };
        if !self.end_reported {
            self.end_reported = true;
            let control = Control::EndOfSessionAcknowledgement(acknowledgement);
            self.tell(side, &control);
            sink.end_of_session(&acknowledgement);
        }
    }
}

mod special;

#[cfg(test)]
mod tests;
