//! The receiving side: what another hub's owner publishes, as the bytes that its feed server would
//! send. A [`Client`](tidewire_feed::client::Client) reads them.
//!
//! ```text
//!   Reading ── a whole snapshot ─▶ Following ── frames in order ─▶ packets
//!      ▲                              │
//!      └── a higher epoch, or what ───┘  (frames that arrive early are kept, and what is before
//!          will never come               them is fetched from the log)
//! ```

use std::collections::VecDeque;

use tidewire_feed::wire::{ClusterText, Control, Flags, PacketWriter, TooOld};
use tidewire_retry::BackOff;

use crate::frame::{Frame, FrameFlags, FrameHeader};
use crate::path::Path;

mod fetch;
mod join;
mod kept;
mod replay;
#[cfg(test)]
mod tests;

pub use join::SNAPSHOT_BYTES_MAX;
pub use kept::{KEPT_BYTES_MAX, KEPT_FRAMES_MAX};

use fetch::Fetch;
use join::Reading;
use kept::Kept;
use replay::Replay;

/// How long a frame may be late before it is fetched from the log.
pub const GRACE_NS: u64 = 20_000_000;
/// How long frames, or the snapshot of a new reign, may be missing after the grace before values
/// count as in doubt.
pub const DOUBT_DELAY_NS: u64 = 50_000_000;
/// Silence after which the owner counts as gone.
pub const SILENCE_NS: u64 = 3_000_000_000;
/// Heartbeat interval that the client is told: the owner's is shorter.
const CLIENT_INTERVAL_MS: u32 = 1_000;

/// Settings of an edge.
#[derive(Clone, Copy, Debug)]
pub struct EdgeConfig {
    /// How long a frame may be late before it is fetched from the log.
    pub grace_ns: u64,
    /// The cluster of this hub; empty for none. Values that have come through it before are its
    /// own echo.
    pub cluster: ClusterText,
}

impl Default for EdgeConfig {
    fn default() -> Self {
        EdgeConfig {
            grace_ns: GRACE_NS,
            cluster: ClusterText::EMPTY,
        }
    }
}

/// What the caller must do. Answer with the request's number; answers to earlier requests of the
/// same kind are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeAction {
    /// Read the snapshot's last messages: [`Edge::snapshot_head`], [`Edge::snapshot_page`], then
    /// [`Edge::snapshot_end`] or [`Edge::snapshot_failed`]. If the head is read first, and
    /// [`Edge::is_reading`] then says no, the pages need not be read.
    ReadSnapshot {
        /// Number of the request.
        request: u64,
    },
    /// Read the log in order: [`Edge::fetched`], then [`Edge::fetch_end`], [`Edge::fetch_failed`]
    /// or [`Edge::log_is_gone`]. Stop when [`Edge::is_fetching`] says so.
    FetchLog {
        /// Number of the request.
        request: u64,
        /// Read behind this message; 0 for the oldest that is kept.
        after: u64,
    },
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeEvent {
    /// The bytes that follow are of another reign: call the client's `disconnected`, then
    /// `connected`, before it receives them.
    Restart {
        /// The reign.
        epoch: u64,
        /// Session of the owner's stream.
        session: u32,
    },
    /// The client has all values of the snapshot, and every message since.
    Joined {
        /// Sequence up to which the newest page was written.
        as_of: u64,
    },
    /// These sequences will never come; a new snapshot replaces them.
    Gap {
        /// First sequence.
        from: u64,
        /// Number of sequences.
        count: u64,
    },
    /// Frames, or the snapshot of a new reign, have been missing for some time: call the sink's
    /// `values_doubtful`.
    Doubtful,
    /// They have come: call the sink's `values_right` if the client is complete, else its
    /// `values_as_before`.
    Certain,
    /// The owner has ended its reign in order.
    OwnerEnded,
    /// Nothing has come from the owner for [`SILENCE_NS`]: its values are stale.
    OwnerSilent,
    /// The owner is heard again.
    OwnerBack,
    /// The values of this reign have come through this hub's own cluster before: none of them is
    /// applied.
    Echo,
    /// A reign was heard of and then nothing more. The owner of an earlier one goes on.
    ReignVanished {
        /// The reign.
        epoch: u64,
    },
}

/// What an edge gives, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeOutput {
    /// Bytes for the client: whole packets.
    Bytes(Vec<u8>),
    /// What has happened before the bytes that follow.
    Event(EdgeEvent),
}

/// Figures of an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeFigures {
    /// The newest reign that was seen; 0 before the first frame.
    pub epoch: u64,
    /// Relays that the source has passed in this reign.
    pub relays: u8,
    /// The clusters that the source has come through; `None` before a snapshot of this reign was
    /// read.
    pub path: Option<Path>,
    /// Whether this hub's cluster is one of them. Nothing of the reign is applied.
    pub is_echo: bool,
    /// Next sequence; 0 before the first snapshot.
    pub sequence: u64,
    /// Sequences that are known to exist, and were not applied.
    pub lag: u64,
    /// Early frames that are kept.
    pub kept: u64,
    /// Frames applied.
    pub frames: u64,
    /// Frames without anything new.
    pub duplicates: u64,
    /// Frames of a former owner, dropped.
    pub deposed: u64,
    /// Messages that are no frame, or have a wrong checksum.
    pub corrupt: u64,
    /// Early frames dropped because too many were kept.
    pub overflows: u64,
    /// Times that the log was read.
    pub fetches: u64,
    /// Times that frames were lost for good.
    pub gaps: u64,
    /// Sequences in them.
    pub lost: u64,
    /// Snapshots read that could not be used: incomplete, or of several reigns.
    pub snapshots_refused: u64,
    /// Joins completed.
    pub joins: u64,
    /// Symbols of the newest snapshot.
    pub symbols: u64,
    /// When the newest snapshot was taken, in milliseconds since the UNIX epoch by the owner's
    /// clock; 0 if unknown.
    pub snapshot_taken_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A snapshot is needed.
    Reading,
    /// Frames are applied in order.
    Following,
}

/// What the client was told.
#[derive(Clone, Copy, Debug, Default)]
struct ClientView {
    /// The reign of its stream; 0 before the first.
    epoch: u64,
    session: u32,
    /// Its next sequence.
    next: u64,
    snapshots: u32,
}

/// The edge of one source and shard.
#[derive(Debug)]
pub struct Edge {
    config: EdgeConfig,
    phase: Phase,
    /// The newest reign that was seen.
    epoch: u64,
    /// Everything before this was applied; 0 before the first snapshot.
    expected: u64,
    /// One past the highest sequence of this reign that is known to exist.
    highest: u64,
    /// A message of the log up to which everything was applied.
    position: u64,
    /// A snapshot must continue with this sequence or a later one.
    continues_at: u64,
    /// What is before this sequence, and has not come yet, will never come.
    gap_until: u64,
    kept: Kept,
    replay: Option<Replay>,
    reading: Reading,
    fetch: Fetch,
    client: ClientView,
    is_linked: bool,
    last_frame_ns: u64,
    is_silent: bool,
    /// When the values count as in doubt; `None` while everything known has been applied.
    doubt_ns: Option<u64>,
    /// Whether the client's sink was told that values are in doubt.
    tells_doubt: bool,
    figures: EdgeFigures,
    actions: VecDeque<EdgeAction>,
    outputs: VecDeque<EdgeOutput>,
    /// Bytes behind the outputs.
    bytes: Vec<u8>,
}

impl Edge {
    /// Creates an edge on a connection to NATS whose subscriptions have been made.
    pub fn new(config: EdgeConfig, now_ns: u64) -> Edge {
        Edge {
            config,
            phase: Phase::Reading,
            epoch: 0,
            expected: 0,
            highest: 0,
            position: 0,
            continues_at: 0,
            gap_until: 0,
            kept: Kept::default(),
            replay: None,
            reading: Reading::new(now_ns),
            fetch: Fetch::default(),
            client: ClientView::default(),
            is_linked: true,
            last_frame_ns: now_ns,
            is_silent: false,
            doubt_ns: None,
            tells_doubt: false,
            figures: EdgeFigures::default(),
            actions: VecDeque::new(),
            outputs: VecDeque::new(),
            bytes: Vec::new(),
        }
    }

    /// Receives a message of the log's subject or of *live* from core NATS. `log_sequence` is that
    /// of a frame of the log: one more than its expected last sequence.
    pub fn message(&mut self, bytes: &[u8], log_sequence: Option<u64>, now_ns: u64) {
        let Some(frame) = self.stream_frame(bytes) else {
            return;
        };
        if frame.header.epoch < self.epoch {
            if !self.has_vanished(&frame.header) {
                self.figures.deposed += 1;
                return;
            }
            let epoch = self.epoch;
            self.event(EdgeEvent::ReignVanished { epoch });
            self.begin_reign(&frame.header, now_ns);
        }
        self.hear(&frame.header, now_ns);
        self.admit(&frame.header, now_ns);
        self.frame(&frame, log_sequence, now_ns);
    }

    /// Does what is due. Call it at [`Edge::deadline_ns`].
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if !self.is_silent && now_ns >= self.last_frame_ns.saturating_add(SILENCE_NS) {
            self.is_silent = true;
            // The log has them, or the snapshot that a later reign begins with.
            self.kept.clear();
            self.event(EdgeEvent::OwnerSilent);
        }
        self.poll_reading(now_ns);
        self.poll_doubt(now_ns);
        self.poll_fetch(now_ns);
    }

    /// Reports that the connection to NATS is lost.
    pub fn disconnected(&mut self) {
        self.is_linked = false;
        self.actions.clear();
    }

    /// Reports that the connection to NATS and its subscriptions are back. What was lost between
    /// is fetched from the log.
    pub fn connected(&mut self, now_ns: u64) {
        self.is_linked = true;
        match self.phase {
            Phase::Reading => self.reading.begin(now_ns),
            Phase::Following => self.fetch.begin(now_ns),
        }
        self.handle_timeout(now_ns);
    }

    /// Returns when [`Edge::handle_timeout`] must be called.
    pub fn deadline_ns(&self) -> u64 {
        let silence_ns = match self.is_silent {
            true => u64::MAX,
            false => self.last_frame_ns.saturating_add(SILENCE_NS),
        };
        let doubt_ns = self.doubt_deadline_ns();
        let work_ns = match (self.is_linked, self.phase) {
            (false, _) => u64::MAX,
            (true, Phase::Reading) => self.reading.deadline_ns(),
            (true, Phase::Following) => self.fetch.deadline_ns(),
        };
        silence_ns.min(work_ns).min(doubt_ns)
    }

    /// Returns the next thing to do.
    pub fn next_action(&mut self) -> Option<EdgeAction> {
        self.actions.pop_front()
    }

    /// Returns the next bytes for the client, or the next event.
    pub fn next_output(&mut self) -> Option<EdgeOutput> {
        if self.outputs.is_empty() && !self.bytes.is_empty() {
            return Some(EdgeOutput::Bytes(std::mem::take(&mut self.bytes)));
        }
        self.outputs.pop_front()
    }

    /// Limits the bytes of early frames from now on, at most [`KEPT_BYTES_MAX`]. A caller with many
    /// edges shares its memory among them.
    pub fn limit_kept_bytes(&mut self, bytes_max: usize) {
        self.kept.limit(bytes_max);
    }

    /// Returns the bytes of the early frames that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept.bytes()
    }

    /// Returns whether a snapshot of the source has been read, of any reign.
    pub fn has_joined(&self) -> bool {
        self.client.epoch != 0
    }

    /// Returns when the owner was heard last.
    pub fn heard_ns(&self) -> u64 {
        self.last_frame_ns
    }

    /// Returns whether everything that is known to exist has been applied.
    pub fn is_current(&self) -> bool {
        self.phase == Phase::Following && self.expected >= self.highest && self.replay.is_none()
    }

    /// Returns the edge's figures.
    pub fn figures(&self) -> EdgeFigures {
        EdgeFigures {
            epoch: self.epoch,
            sequence: self.client.next,
            lag: self.highest.saturating_sub(self.expected),
            kept: self.kept.len() as u64,
            ..self.figures
        }
    }

    /// Decodes a frame of the stream.
    fn stream_frame<'a>(&mut self, bytes: &'a [u8]) -> Option<Frame<'a>> {
        let snapshot = FrameFlags::PAGE.with(FrameFlags::HEAD);
        let frame = Frame::decode(bytes).ok();
        let frame =
            frame.filter(|frame| !frame.header.flags.intersects(snapshot) && frame.is_consistent());
        self.figures.corrupt += u64::from(frame.is_none());
        frame
    }

    fn hear(&mut self, header: &FrameHeader, now_ns: u64) {
        self.last_frame_ns = now_ns;
        if std::mem::take(&mut self.is_silent) {
            if self.client.epoch != 0 && header.epoch > self.client.epoch {
                // The values are those of the owner that fell silent.
                self.doubt_ns.get_or_insert(now_ns);
                self.tell_doubt();
            }
            // An echo of this reign leaves the values stale.
            if !self.figures.is_echo || header.epoch > self.epoch {
                self.event(EdgeEvent::OwnerBack);
            }
        }
    }

    /// Begins to join a new reign.
    fn admit(&mut self, header: &FrameHeader, now_ns: u64) {
        if header.epoch > self.epoch {
            self.begin_reign(header, now_ns);
        }
    }

    /// Returns whether the newest reign has vanished: it has said nothing for [`SILENCE_NS`], no
    /// snapshot of it was read, and an earlier owner goes on. That one holds the lease, since an
    /// owner whose lease another hub has got stops before that by its own clock.
    fn has_vanished(&self, header: &FrameHeader) -> bool {
        self.is_silent && self.client.epoch < self.epoch && header.epoch >= self.client.epoch
    }

    fn begin_reign(&mut self, header: &FrameHeader, now_ns: u64) {
        self.epoch = header.epoch;
        self.figures.relays = header.flags.relays();
        self.figures.path = None;
        self.figures.is_echo = false;
        self.highest = 0;
        self.position = 0;
        self.continues_at = 0;
        self.gap_until = 0;
        self.kept.clear();
        self.read_again(now_ns);
    }

    /// Handles a frame of the present reign.
    fn frame(&mut self, frame: &Frame<'_>, log_sequence: Option<u64>, now_ns: u64) {
        if self.figures.is_echo {
            return;
        }
        let header = &frame.header;
        let bare = FrameFlags::HEARTBEAT.with(FrameFlags::END);
        self.highest = self.highest.max(header.until());
        if header.flags.contains(FrameFlags::GAP) {
            self.gap_until = self.gap_until.max(header.first);
        }
        if header.flags.intersects(bare) {
            self.bare_frame(header, log_sequence);
        } else if self.phase == Phase::Reading || header.first > self.expected {
            self.keep(frame, log_sequence);
        } else {
            self.apply(header, frame.body, log_sequence);
        }
        self.settle(now_ns);
    }

    /// Handles a heartbeat or the end of a reign.
    fn bare_frame(&mut self, header: &FrameHeader, log_sequence: Option<u64>) {
        if self.phase == Phase::Following && header.first <= self.expected {
            self.position = self.position.max(log_sequence.unwrap_or(0));
        }
        if self.client.epoch == self.epoch {
            // The client hears that the owner lives; what is missing is not its affair.
            let (session, next) = (self.client.session, self.client.next);
            PacketWriter::bare(&mut self.bytes, session, Flags::HEARTBEAT, next);
        }
        if header.flags.contains(FrameFlags::END) {
            self.event(EdgeEvent::OwnerEnded);
        }
    }

    fn keep(&mut self, frame: &Frame<'_>, log_sequence: Option<u64>) {
        if !self.kept.insert(&frame.header, frame.body, log_sequence) {
            self.figures.overflows += 1;
        }
    }

    /// Applies a frame that is due, or is a duplicate.
    fn apply(&mut self, header: &FrameHeader, body: &[u8], log_sequence: Option<u64>) {
        debug_assert!(header.first <= self.expected && self.phase == Phase::Following);
        self.position = self.position.max(log_sequence.unwrap_or(0));
        if header.until() <= self.expected {
            self.figures.duplicates += 1;
            return;
        }
        if header.session != self.client.session {
            // One reign has one stream.
            self.figures.corrupt += 1;
            return;
        }
        self.figures.frames += 1;
        match &mut self.replay {
            Some(replay) => replay.write(header, body, &mut self.bytes),
            None => self.bytes.extend_from_slice(body),
        }
        self.expected = header.until();
        self.client.next = self.expected;
        self.end_replay();
    }

    /// Reports the join as complete once everything is applied that the pages may hold.
    fn end_replay(&mut self) {
        if let Some(replay) = self.replay.take_if(|replay| replay.limit() < self.expected) {
            self.figures.joins += 1;
            let as_of = replay.limit();
            self.event(EdgeEvent::Joined { as_of });
        }
    }

    /// Applies what is kept and due, and looks for a gap.
    fn settle(&mut self, now_ns: u64) {
        while self.phase == Phase::Following
            && let Some(frame) = self.kept.take_due(self.expected)
        {
            self.apply(&frame.header, &frame.body, frame.log_sequence);
        }
        if self.phase == Phase::Following && self.expected < self.gap_until {
            self.lose_before(self.gap_until, now_ns);
        }
        self.check_gap(now_ns);
    }

    /// Gives up what is missing before `next`, at least up to the first frame that is kept.
    fn lose_before(&mut self, next: u64, now_ns: u64) {
        let first = self.kept.first().unwrap_or(next);
        self.lose(next.min(first), now_ns);
    }

    /// Gives up what is before `next`: a new snapshot replaces it.
    fn lose(&mut self, next: u64, now_ns: u64) {
        debug_assert!(next > self.expected && self.phase == Phase::Following);
        let (from, count) = (self.expected, next - self.expected);
        self.figures.gaps += 1;
        self.figures.lost = self.figures.lost.saturating_add(count);
        self.event(EdgeEvent::Gap { from, count });
        self.pass(next);
        self.continues_at = self.continues_at.max(next);
        self.read_again(now_ns);
    }

    /// Tells the client that nothing before `next` will come.
    fn pass(&mut self, next: u64) {
        if self.client.next < next {
            let too_old = TooOld {
                wanted: self.client.next,
                oldest: next,
                conflated: true,
                ..TooOld::default()
            };
            let session = self.client.session;
            PacketWriter::control(&mut self.bytes, session, &Control::TooOld(too_old));
            self.client.next = next;
        }
    }

    fn read_again(&mut self, now_ns: u64) {
        self.phase = Phase::Reading;
        self.replay = None;
        self.fetch = self.fetch.idle();
        self.reading.begin(now_ns);
        self.poll_reading(now_ns);
        self.check_gap(now_ns);
    }

    fn event(&mut self, event: EdgeEvent) {
        if !self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            self.outputs.push_back(EdgeOutput::Bytes(bytes));
        }
        self.outputs.push_back(EdgeOutput::Event(event));
    }
}

/// Delays between two readings of a snapshot that cannot be used.
const JOIN_BACK_OFF: BackOff = BackOff {
    delay_ns_first: 50_000_000,
    delay_ns_max: 2_000_000_000,
    connect_ns_max: 0,
};
/// Delays between two readings of a log that does not have what is missing yet.
const FETCH_BACK_OFF: BackOff = BackOff {
    delay_ns_first: 20_000_000,
    delay_ns_max: 1_000_000_000,
    connect_ns_max: 0,
};
/// How long an answer may take, from the request or its last message.
const ANSWER_TIMEOUT_NS: u64 = 5_000_000_000;
