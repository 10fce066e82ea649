//! The sending side of a native feed: one [`Session`] per client.
//!
//! ```text
//!  socket ─▶ receive(input, now) ─▶ Sink            (controls; a publisher's messages)
//!  socket ◀─ produce(journal, board, now, out)      (snapshot, live, retransmission, heartbeat)
//!  timer  ◀─ deadline_ns()
//! ```

mod broadcast;
mod pattern;
mod readable;
mod relay;
mod rights;
mod selection;
mod sending;
mod settings;
mod snapshot;
mod steps;
mod stream;

pub use broadcast::Broadcast;
pub use pattern::{PATTERNS_MAX, Pattern, PatternError, WILDCARDS_MAX};
pub use readable::{Names, Readable};
pub use relay::{RELAY_PACKET_LENGTH_MAX, Relay};
pub use selection::{SELECTABLE_SYMBOLS_MAX, Selection};
pub use settings::{SessionConfig, SessionError};
pub use snapshot::{Board, EmptyBoard};
pub use steps::Steps;
pub use stream::{
    HEARTBEAT_DELAY_NS_FIRST, HEARTBEAT_INTERVAL_NS_MAX, REQUESTS_MAX, SenderCounters,
};

pub(crate) use stream::StreamSender;

use std::collections::VecDeque;

use crate::client::{Client, ClientConfig, PublisherLogin, ReceiveError, Side, Sink};
use crate::journal::{Cursor, Journal};
use crate::wire::{
    Control, Flags, Login, LoginAccepted, MessageError, Packet, PacketError, PacketWriter,
    PatternText, RefusalReason, RefusalText, Refused, Request, Role, SlowPolicy, SnapshotRequest,
    Subscribe, decode_packet, may_be_control,
};

use snapshot::SnapshotJob;

/// Silence after which a client counts as disconnected, in heartbeat intervals.
pub const SILENCE_INTERVALS_MAX: u64 = 3;
/// Maximum snapshots per client whose ranges can be requested again.
pub const SNAPSHOTS_KEPT_MAX: usize = 8;
/// Maximum refusals waiting to be sent; further ones are dropped.
pub const REFUSALS_MAX: usize = 16;
/// Steps of a call of [`Session::produce`].
const STEPS_A_CALL: u64 = 1 << 18;
const MAY_NOT_READ: &str = "NotAllowed: may not read ";
const DAMAGED_TEXT: &str = "a control was damaged on its way; connect again";
const ROLE_TEXT: &str = "this server does not offer this role";
const SESSION_IN_USE_TEXT: &str = "another connection publishes this session; retry later";

/// A server's session with one client.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    state: SessionState,
    login: Login,
    stream: StreamSender,
    selection: Selection,
    /// Subscriptions that the login announced and that have not arrived yet.
    subscriptions_due: u16,
    /// Patterns that need a snapshot in the next [`Session::produce`].
    snapshot_patterns: Vec<Pattern>,
    /// Parts of the selection that need a snapshot, and the sequence since which.
    snapshot_requests: Vec<(Pattern, u64)>,
    /// Whether the whole selection needs a snapshot before the live stream continues.
    snapshot_first: bool,
    snapshot: Option<SnapshotJob>,
    /// Whether the live stream waits for `snapshot`.
    live_waits: bool,
    snapshot_number: u32,
    /// Venues that the client was told by controls.
    venues_told: u64,
    snapshots_kept: VecDeque<SnapshotJob>,
    snapshot_ranges: VecDeque<SnapshotJob>,
    refusals: VecDeque<Refused>,
    receiver: Option<Box<Client>>,
    last_received_ns: u64,
    corrupt_packets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionState {
    LoginAwaited,
    /// The login has arrived, its answer has not been sent.
    LoginUnanswered,
    /// Logged in; the stream has not started.
    Waiting,
    /// The stream continues from the cursor.
    Joined,
    /// Only the refusals remain to be sent.
    Refused,
}

impl Session {
    /// Creates the session of a client that has just connected.
    pub fn new(config: SessionConfig, now_ns: u64) -> Session {
        Session {
            config,
            state: SessionState::LoginAwaited,
            login: Login::default(),
            stream: StreamSender::new(
                config.packet_limit_bytes,
                config.heartbeat_interval_ns,
                now_ns,
            ),
            selection: Selection::default(),
            subscriptions_due: 0,
            snapshot_patterns: Vec::new(),
            snapshot_requests: Vec::new(),
            snapshot_first: false,
            snapshot: None,
            live_waits: false,
            snapshot_number: 0,
            venues_told: 0,
            snapshots_kept: VecDeque::new(),
            snapshot_ranges: VecDeque::new(),
            refusals: VecDeque::new(),
            receiver: None,
            last_received_ns: now_ns,
            corrupt_packets: 0,
        }
    }

    /// Receives bytes from the client and returns how many were used. The rest is the beginning
    /// of a packet: pass it again with more bytes appended.
    pub fn receive<S: Sink>(
        &mut self,
        input: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) -> Result<usize, SessionError> {
        let mut used = 0;
        loop {
            if let Some(receiver) = &mut self.receiver {
                let result = receiver.receive(Side::A, &input[used..], now_ns, sink);
                let received = match result {
                    Ok(received) => received,
                    Err(error) => {
                        let reason = match error {
                            ReceiveError::OutOfOrder => RefusalReason::OUT_OF_ORDER,
                            _ => RefusalReason::PROTOCOL,
                        };
                        self.refuse(reason, &error.to_string());
                        return Err(error.into());
                    }
                };
                if received > 0 {
                    self.last_received_ns = now_ns;
                }
                return Ok(used + received);
            }
            match decode_packet(&input[used..]) {
                Ok(None) => return Ok(used),
                Ok(Some((packet, length))) => {
                    self.last_received_ns = now_ns;
                    self.packet(&packet, now_ns, sink)?;
                    used += length;
                }
                Err(PacketError::BadChecksum { packet_length }) => {
                    self.corrupt_packets += 1;
                    if may_be_control(&input[used..]) {
                        self.refuse(RefusalReason::PROTOCOL, DAMAGED_TEXT);
                        return Err(SessionError::Damaged);
                    }
                    used += packet_length;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reports what a publisher never sent again. Call it at [`Session::deadline_ns`].
    pub fn handle_timeout<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        if let Some(receiver) = &mut self.receiver {
            receiver.handle_timeout(now_ns, sink);
        }
    }

    /// Appends the output that is due to `out`, up to about `budget_bytes` (a packet may exceed
    /// it). Returns whether more is ready.
    pub fn produce<B: Board>(
        &mut self,
        journal: &Journal,
        board: &B,
        now_ns: u64,
        out: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> bool {
        let mut steps = Steps::new(STEPS_A_CALL);
        self.produce_within(journal, board, now_ns, out, budget_bytes, &mut steps)
    }

    /// Like [`Session::produce`], but looks for symbols only as far as `steps` goes: a search
    /// that is not over continues in the next call. What needs no search is sent in any case.
    pub fn produce_within<B: Board>(
        &mut self,
        journal: &Journal,
        board: &B,
        now_ns: u64,
        out: &mut Vec<u8>,
        budget_bytes: usize,
        steps: &mut Steps,
    ) -> bool {
        let start = out.len();
        let end_bytes = start.saturating_add(budget_bytes);
        if self.state == SessionState::LoginUnanswered {
            self.answer_login(journal, board, out);
        }
        for refused in self.refusals.drain(..) {
            PacketWriter::control(out, journal.session(), &Control::Refused(refused));
        }
        match self.state {
            SessionState::LoginAwaited | SessionState::LoginUnanswered | SessionState::Refused => {
                return false;
            }
            SessionState::Waiting | SessionState::Joined => {}
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.poll_requests(now_ns);
            receiver.drain_outgoing(Side::A, out);
            let said = out.len() > start;
            self.stream.produce_idle(journal, false, now_ns, said, out);
            return false;
        }
        self.selection.update(board, steps);
        let mut more = self.produce_stream(journal, board, out, end_bytes, steps);
        more |= self.selection.has_work(board.len());
        let said = out.len() > start;
        let joined = self.state == SessionState::Joined && !self.live_waits;
        self.stream.produce_idle(journal, joined, now_ns, said, out);
        more
    }

    /// Returns when [`Session::produce`] must be called, and [`Session::is_silent`] checked, even
    /// if nothing happens.
    pub fn deadline_ns(&self) -> u64 {
        let silence_ns = self
            .last_received_ns
            .saturating_add(self.silence_limit_ns());
        if !self.is_logged_in() {
            return silence_ns;
        }
        let deadline_ns = silence_ns.min(self.stream.next_heartbeat_ns());
        match &self.receiver {
            Some(receiver) => deadline_ns.min(receiver.deadline_ns()),
            None => deadline_ns,
        }
    }

    /// Returns when a publisher's missing messages must be requested or its values doubted next;
    /// `None` if none are missing.
    pub fn recovery_deadline_ns(&self) -> Option<u64> {
        self.receiver.as_ref()?.recovery_deadline_ns()
    }

    /// Returns for how long nothing has been received.
    pub fn silence_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.last_received_ns)
    }

    /// Returns whether the client was silent for [`SILENCE_INTERVALS_MAX`] heartbeat intervals.
    pub fn is_silent(&self, now_ns: u64) -> bool {
        now_ns
            >= self
                .last_received_ns
                .saturating_add(self.silence_limit_ns())
    }

    /// Returns whether the session ends once the produced output has been sent.
    pub fn is_closing(&self) -> bool {
        self.state == SessionState::Refused
    }

    /// Refuses the client, for example because there are too many, and ends the session.
    pub fn refuse(&mut self, reason: RefusalReason, text: &str) {
        self.queue_refusal(reason, text);
        self.state = SessionState::Refused;
    }

    /// Returns whether the client has logged in.
    pub fn is_logged_in(&self) -> bool {
        matches!(self.state, SessionState::Waiting | SessionState::Joined)
    }

    /// Returns the client's login.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// Returns the client's patterns.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Returns the policy for a slow client: its choice at login, or the server's default.
    pub fn slow_policy(&self) -> SlowPolicy {
        self.login.slow_policy.unwrap_or(self.config.slow_policy)
    }

    /// Returns whether the client must be disconnected as too slow. This also holds while its
    /// output is too full to produce more. [`Session::produce`] then sends the reason.
    pub fn is_too_slow(&self, journal: &Journal) -> bool {
        self.slow_policy() == SlowPolicy::Disconnect && self.is_behind(journal)
    }

    /// Returns the position of the client's stream.
    pub fn cursor(&self) -> Cursor {
        self.stream.cursor
    }

    /// Returns the sender's counters.
    pub fn counters(&self) -> &SenderCounters {
        &self.stream.counters
    }

    /// Returns the number of packets from the client with a wrong checksum.
    pub fn corrupt_packets(&self) -> u64 {
        self.corrupt_packets
    }

    /// Returns whether the client acknowledged the end of the session.
    pub fn end_acknowledged(&self) -> bool {
        self.stream.end_acknowledged()
    }

    /// Returns the receiver of a publisher's stream, if the client is a publisher.
    pub fn receiver(&self) -> Option<&Client> {
        self.receiver.as_deref()
    }

    /// Returns the same receiver, to keep for the publisher's next connection
    /// ([`Sink::publisher_login`]).
    pub fn into_receiver(self) -> Option<Box<Client>> {
        self.receiver
    }

    fn silence_limit_ns(&self) -> u64 {
        self.stream.heartbeat_interval_ns() * SILENCE_INTERVALS_MAX
    }

    fn packet<S: Sink>(
        &mut self,
        packet: &Packet<'_>,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), SessionError> {
        let flags = packet.header.flags;
        if flags.contains(Flags::CONTROL) {
            for control in packet.controls() {
                match control {
                    Ok(control) => self.control(&control, now_ns, sink)?,
                    Err(error) => return self.malformed(error),
                }
            }
            return Ok(());
        }
        if flags.contains(Flags::HEARTBEAT) && self.state != SessionState::LoginAwaited {
            return Ok(());
        }
        self.out_of_order()
    }

    /// Refuses an invalid control before it ends the session.
    fn malformed(&mut self, error: MessageError) -> Result<(), SessionError> {
        match error {
            MessageError::BadRole => self.refuse(RefusalReason::ROLE, ROLE_TEXT),
            _ => self.refuse(RefusalReason::PROTOCOL, "a control has an invalid value"),
        }
        Err(error.into())
    }

    fn control<S: Sink>(
        &mut self,
        control: &Control,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), SessionError> {
        if let Control::Login(login) = control {
            return self.receive_login(login, now_ns, sink);
        }
        if matches!(
            self.state,
            SessionState::LoginAwaited | SessionState::Refused
        ) {
            return self.out_of_order();
        }
        match control {
            Control::Subscribe(subscribe) => self.subscribe(subscribe, sink),
            Control::Unsubscribe(text) => {
                self.selection.remove(text);
            }
            Control::SnapshotRequest(request) => self.request_snapshot(request),
            Control::Request(request) if request.snapshot => self.request_positions(request),
            Control::Request(request) => self.stream.request(request),
            Control::EndOfSessionAcknowledgement(_) => self.stream.acknowledge_end(),
            Control::Unknown(_) => {}
            _ => return self.out_of_order(),
        }
        Ok(())
    }

    fn receive_login<S: Sink>(
        &mut self,
        login: &Login,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<(), SessionError> {
        if self.state != SessionState::LoginAwaited {
            return self.out_of_order();
        }
        let offered = match login.role {
            Role::Subscriber | Role::Recovery => self.config.subscribers,
            Role::Publisher => self.config.publishers && login.session != 0,
        };
        if !offered {
            self.refuse(RefusalReason::ROLE, ROLE_TEXT);
            return Err(SessionError::Refused);
        }
        self.admit(login, sink)?;
        self.stream.recovers = login.partial_snapshots;
        self.subscriptions_due = login.subscription_count;
        self.state = SessionState::LoginUnanswered;
        if login.role == Role::Publisher {
            self.receiver = Some(self.publisher_receiver(login, now_ns, sink)?);
        }
        Ok(())
    }

    /// Returns the receiver of a publisher's stream: the one of its last connection, or a new
    /// one. Refuses a session that has another connection, or is of another user.
    fn publisher_receiver<S: Sink>(
        &mut self,
        login: &Login,
        now_ns: u64,
        sink: &mut S,
    ) -> Result<Box<Client>, SessionError> {
        let mut receiver = match sink.publisher_login(login) {
            PublisherLogin::InUse => {
                self.refuse(RefusalReason::SESSION_IN_USE, SESSION_IN_USE_TEXT);
                return Err(SessionError::SessionInUse);
            }
            PublisherLogin::OfAnother => {
                let text = "this session is of another user; choose another number";
                self.refuse(RefusalReason::NOT_ALLOWED, text);
                return Err(SessionError::Refused);
            }
            PublisherLogin::Resumed(receiver) if receiver.session() == login.session => receiver,
            PublisherLogin::Resumed(_) | PublisherLogin::New => {
                let config = ClientConfig {
                    heartbeat_interval_ns: self.config.heartbeat_interval_ns,
                    ..ClientConfig::default()
                };
                Box::new(Client::listener(
                    config,
                    login.session,
                    login.next_sequence.max(1),
                ))
            }
        };
        receiver.peer_connected(Side::A, now_ns);
        Ok(receiver)
    }

    fn answer_login<B: Board>(&mut self, journal: &Journal, board: &B, out: &mut Vec<u8>) {
        self.state = SessionState::Waiting;
        let mut accepted = LoginAccepted {
            session: journal.session(),
            heartbeat_interval_ms: (self.stream.heartbeat_interval_ns() / 1_000_000).max(1) as u32,
            next_sequence: journal.next_sequence(),
            oldest_sequence: journal.oldest_sequence(),
            partial_snapshots: true,
        };
        if self.resumes(journal) && self.login.next_sequence <= board.rights_changed() {
            // What it knows is right again after the snapshot that follows.
            let wanted = self.login.next_sequence.saturating_add(1);
            accepted.oldest_sequence = accepted.oldest_sequence.max(wanted);
        }
        if let Some(receiver) = &self.receiver {
            accepted.session = receiver.session();
            accepted.next_sequence = receiver.next_sequence();
            accepted.oldest_sequence = receiver.next_sequence();
            accepted.partial_snapshots = false;
        }
        if self.resumes(journal) && self.login.next_sequence > journal.next_sequence() {
            let text = "the sequence asked for does not exist yet";
            return self.refuse(RefusalReason::FUTURE_SEQUENCE, text);
        }
        PacketWriter::control(out, accepted.session, &Control::LoginAccepted(accepted));
        if self.receiver.is_none() {
            self.venues_told = snapshot::tell_venues(board, 0, accepted.session, out);
        }
    }

    /// Returns whether the client resumes this stream where it stopped.
    fn resumes(&self, journal: &Journal) -> bool {
        self.login.role != Role::Publisher
            && self.login.next_sequence > 0
            && (self.login.session == 0 || self.login.session == journal.session())
    }

    fn subscribe<S: Sink>(&mut self, subscribe: &Subscribe, sink: &mut S) {
        self.subscriptions_due = self.subscriptions_due.saturating_sub(1);
        let pattern = match Pattern::new(subscribe.pattern) {
            Ok(pattern) => pattern,
            Err(error) => {
                return self.queue_refusal(RefusalReason::BAD_PATTERN, &error.to_string());
            }
        };
        if let Some(name) = pattern
            .exact()
            .filter(|name| !self.selection.may_read(name))
        {
            sink.read_refused(name);
            let text = format!("{MAY_NOT_READ}{name}");
            return self.queue_refusal(RefusalReason::SYMBOL_NOT_ALLOWED, &text);
        }
        let patterns_max = self.config.patterns_max.min(PATTERNS_MAX);
        if self.selection.patterns().len() >= patterns_max && !self.selection.holds(&pattern) {
            let text = "too many patterns";
            return self.queue_refusal(RefusalReason::TOO_MANY_PATTERNS, text);
        }
        self.selection.insert(pattern, subscribe.resume);
        if !subscribe.resume && !self.snapshot_patterns.contains(&pattern) {
            self.snapshot_patterns.push(pattern);
        }
    }

    fn request_snapshot(&mut self, request: &SnapshotRequest) {
        let pattern = match Pattern::new(request.pattern) {
            Ok(pattern) => pattern,
            Err(error) => {
                return self.queue_refusal(RefusalReason::BAD_PATTERN, &error.to_string());
            }
        };
        let mut known = self.snapshot_requests.iter_mut();
        if let Some((_, since)) = known.find(|(known, _)| *known == pattern) {
            *since = request.since.min(*since);
        } else if self.snapshot_requests.len() < REQUESTS_MAX {
            self.snapshot_requests.push((pattern, request.since));
        }
    }

    /// Requests the values of the whole selection that changed at `since` or later.
    fn request_changes(&mut self, since: u64) {
        self.request_snapshot(&SnapshotRequest {
            pattern: PatternText::truncated("*"),
            since,
        });
    }

    fn request_positions(&mut self, request: &Request) {
        let number = (request.from >> 32) as u32;
        let from = request.from as u32;
        let until = u64::from(from)
            .saturating_add(request.count)
            .min(u64::from(u32::MAX)) as u32;
        let running = self.snapshot.iter().find(|job| job.notice.number == number);
        let kept = self
            .snapshots_kept
            .iter()
            .find(|job| job.notice.number == number);
        if self.snapshot_ranges.len() == REQUESTS_MAX {
            self.stream.counters.requests_dropped += 1;
        } else if let Some(job) = running.or(kept) {
            self.snapshot_ranges.push_back(job.again(from, until));
        } else if number <= self.snapshot_number {
            self.request_changes(0);
        }
    }

    fn out_of_order(&mut self) -> Result<(), SessionError> {
        self.refuse(
            RefusalReason::OUT_OF_ORDER,
            "a packet out of the protocol's order",
        );
        Err(SessionError::OutOfOrder)
    }

    fn queue_refusal(&mut self, reason: RefusalReason, text: &str) {
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push_back(Refused {
                reason,
                text: RefusalText::truncated(text),
            });
        }
    }
}

#[cfg(test)]
mod tests;
