//! The sending side: what the owner of a source publishes.
//!
//! Every frame reaches the edges through core NATS. As long as the log takes frames, they are
//! published to the log's subject, to which edges subscribe as well, with the log's sequence that
//! must come before. While the log is full or silent, frames go to the subject *live* alone; the
//! log gets them later, read from the journal again.
//!
//! ```text
//!  journal  ──────────┬───────────────────┬──────────▶
//!           already   │ read again for    │ new
//!           in log    │ the log only      │
//!                    log                 live          the two cursors
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use tidewire_feed::journal::Cursor;
use tidewire_feed::server::Board;
use tidewire_retry::BackOff;

use crate::frame::{BODY_LENGTH_MAX, EPOCH_MAX, FrameFlags, FrameHeader, HEADER_LENGTH};
use crate::reader::{Reader, Records, Symbols};

mod log;
mod pages;
#[cfg(test)]
mod tests;
mod types;

pub use pages::{PAGES_IN_FLIGHT_MAX, REWRITE_INTERVAL_NS};
pub use types::{
    Destination, FrameId, OwnerAction, OwnerConfig, OwnerFigures, OwnerState, Publication, Times,
};

use log::Log;
use pages::Pages;
pub(crate) use pages::page_number;

/// Maximum frames of the log that are not acknowledged.
pub const UNACKNOWLEDGED_MAX: usize = 64;
/// Maximum delay of a message that waits for others to share its frame. The first one after a
/// pause waits for none.
pub const FLUSH_NS: u64 = 1_000_000;
/// Delay of the first heartbeat after the last frame. It doubles up to the interval.
pub const HEARTBEAT_DELAY_NS_FIRST: u64 = 10_000_000;
/// Longest silence of an owner.
pub const HEARTBEAT_INTERVAL_NS: u64 = 500_000_000;
/// Maximum frames that one call makes.
pub const FRAMES_A_CALL_MAX: usize = 16;
/// Messages that fill a frame in any case: the shortest has 32 bytes.
const MESSAGES_A_FRAME: u64 = (BODY_LENGTH_MAX / 32) as u64;
/// Sequences that a pending skip may stand for before it is sent without a heartbeat.
const SKIP_MAX: u64 = 1 << 24;

/// The owner of one source and shard, for one reign.
#[derive(Debug)]
pub struct Owner {
    config: OwnerConfig,
    session: u32,
    is_linked: bool,
    ends: bool,
    /// What edges were sent.
    live: Cursor,
    /// Whether the next frame for edges says that messages before it are lost.
    live_gap: bool,
    log: Log,
    pages: Pages,
    next_flush_ns: u64,
    /// Whether messages wait until then.
    is_waiting: bool,
    heartbeat_delay_ns: u64,
    next_heartbeat_ns: u64,
    figures: OwnerFigures,
    buffer: Vec<u8>,
}

impl Owner {
    /// Begins a reign at the end of the stream: what was before is in its snapshot.
    ///
    /// # Panics
    ///
    /// If the epoch is 0 or above [`EPOCH_MAX`], or the session 0.
    pub fn new(config: OwnerConfig, reader: &impl Reader, now_ns: u64) -> Owner {
        assert!(
            (1..=EPOCH_MAX).contains(&config.epoch),
            "an epoch has 48 bits"
        );
        assert!(reader.session() != 0, "a stream has a session");
        let next = reader.next();
        Owner {
            config,
            session: reader.session(),
            is_linked: true,
            ends: false,
            live: Cursor::at(next),
            live_gap: false,
            log: Log::new(config.epoch, next, now_ns),
            pages: Pages::new(config.path, now_ns),
            next_flush_ns: now_ns,
            is_waiting: false,
            heartbeat_delay_ns: HEARTBEAT_DELAY_NS_FIRST,
            next_heartbeat_ns: now_ns,
            figures: OwnerFigures {
                epoch: config.epoch,
                ..OwnerFigures::default()
            },
            buffer: Vec::new(),
        }
    }

    /// Appends what is due: new messages, what the log lacks, heartbeats. Returns whether more is
    /// ready.
    pub fn produce<R: Reader>(
        &mut self,
        reader: &R,
        now_ns: u64,
        actions: &mut Vec<OwnerAction>,
    ) -> bool {
        self.produce_some(reader, now_ns, FRAMES_A_CALL_MAX, actions)
    }

    /// Like [`Owner::produce`], but makes at most so many frames (2 at least): the caller may hold
    /// a lock on the journal for that long. What the log lacks takes half of them, so that edges
    /// do not wait for it.
    pub fn produce_some<R: Reader>(
        &mut self,
        reader: &R,
        now_ns: u64,
        frames_max: usize,
        actions: &mut Vec<OwnerAction>,
    ) -> bool {
        debug_assert!(frames_max > 1, "one for the log, and one for the edges");
        debug_assert_eq!(reader.session(), self.session, "one stream a reign");
        if !self.publishes() {
            return false;
        }
        self.log.ask(now_ns, actions);
        self.note_losses(reader, now_ns);
        self.fence();
        self.figures.repeated += self.log.repeat(actions);
        let before = actions.len();
        let mut for_log = frames_max / 2;
        self.follow(reader, &mut for_log, actions);
        let is_behind = for_log == 0;
        let mut left = frames_max - frames_max / 2 + for_log;
        self.go_on(reader, now_ns, &mut left, actions);
        self.fall_silent(reader, now_ns, actions.len() > before, actions);
        self.figures.sequence = self.live.sent;
        self.figures.lag = reader.next().saturating_sub(self.live.scanned);
        self.figures.log_lag = reader.next().saturating_sub(self.log.cursor.scanned);
        self.publishes() && (left == 0 || is_behind || self.figures.lag > 0 && !self.is_waiting)
    }

    /// Appends what is due of the snapshot, looking at about `budget` entries of the board. Call
    /// it beside [`Owner::produce`]. Returns whether more is ready.
    pub fn produce_snapshot<R: Reader, B: Board>(
        &mut self,
        (reader, board): (&R, &B),
        times: Times,
        budget: usize,
        actions: &mut Vec<OwnerAction>,
    ) -> bool {
        self.produce_records((reader, &Symbols(board)), times, budget, actions)
    }

    /// Like [`Owner::produce_snapshot`], for entries that are no symbols.
    pub fn produce_records<R: Reader, B: Records>(
        &mut self,
        sources: (&R, &B),
        times: Times,
        budget: usize,
        actions: &mut Vec<OwnerAction>,
    ) -> bool {
        let Some(log_sequence) = self.log.acknowledged().filter(|_| self.publishes()) else {
            return false;
        };
        let header = self.header(FrameFlags::NONE, 0, 0);
        let times = (times, self.config.snapshot_interval_ns);
        let pages = &mut self.pages;
        pages.produce(sources, header, log_sequence, times, budget, actions)
    }

    /// Reports that the log has taken a frame, as this message.
    pub fn acknowledged(&mut self, id: FrameId, log_sequence: u64) {
        self.log.acknowledge(id, log_sequence);
    }

    /// Reports that the log has refused a frame: it does not end where the frame expects.
    pub fn refused(&mut self, id: FrameId) {
        self.log.doubt(id);
    }

    /// Reports that the log has not answered for a frame in time, or with another error.
    pub fn timed_out(&mut self, id: FrameId) {
        self.log.doubt(id);
    }

    /// Reports the log's end: the sequence of its last message, 0 for an empty log, and the header
    /// of the frame in that message. An answer to an earlier question is ignored.
    pub fn log_end(&mut self, question: u64, log_sequence: u64, last: Option<FrameHeader>) {
        if self.log.end(question, log_sequence, last) {
            self.figures.log_losses += 1;
            self.pages.hasten();
        }
    }

    /// Reports that the log's end could not be read. It is asked for again with backoff.
    pub fn log_end_failed(&mut self, now_ns: u64) {
        self.log.end_failed(now_ns);
    }

    /// Reports that the stream of snapshots has taken a page.
    pub fn page_stored(&mut self, page: u32) {
        self.pages.page_stored(page);
    }

    /// Reports that it is unknown whether a page was taken. The page is written again.
    pub fn page_failed(&mut self, page: u32) {
        self.pages.page_failed(page);
    }

    /// Reports that the stream of snapshots has taken the head.
    pub fn head_stored(&mut self) {
        self.pages.head_stored();
    }

    /// Reports that it is unknown whether the head was taken. Another snapshot is written.
    pub fn head_failed(&mut self) {
        self.pages.head_failed();
    }

    /// Reports a message on this source's snapshot subjects that this hub did not send: a hub that
    /// was the owner may have replaced pages before it noticed that it is none. They are written
    /// again.
    pub fn snapshot_seen(&mut self, bytes: &[u8]) {
        if self.publishes() {
            self.pages.seen(bytes, self.config.epoch);
        }
    }

    /// Returns how many messages the stream of snapshots has at least: the pages and the head.
    /// `None` while one of them is on its way.
    pub fn stored_messages(&self) -> Option<u64> {
        self.pages.stored_messages().filter(|_| self.publishes())
    }

    /// Has nothing of the snapshot written until it is told otherwise, as while its stream is gone.
    pub fn hold_snapshot(&mut self, is_held: bool) {
        self.pages.hold(is_held);
    }

    /// Has the whole snapshot written again, as after a change of what is published.
    pub fn rewrite_snapshot(&mut self) {
        self.pages.rewrite();
    }

    /// Reports that the connection to NATS is lost. Nothing is published until it is back.
    pub fn lost_connection(&mut self) {
        self.is_linked = false;
        self.log.doubt_all();
        self.pages.lost_connection();
    }

    /// Reports that the connection to NATS is back.
    pub fn connected(&mut self, now_ns: u64) {
        self.is_linked = true;
        self.log.connected(now_ns);
        self.next_heartbeat_ns = now_ns;
    }

    /// Ends the reign in order: what is left is published, then that the owner ends.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Returns when [`Owner::produce`] and [`Owner::produce_snapshot`] must be called even if the
    /// stream has nothing new.
    pub fn deadline_ns(&self) -> u64 {
        if !self.publishes() {
            return u64::MAX;
        }
        let mut deadline_ns = self.next_heartbeat_ns.min(self.log.deadline_ns());
        if self.is_waiting {
            deadline_ns = deadline_ns.min(self.next_flush_ns);
        }
        match self.log.acknowledged() {
            Some(_) => deadline_ns.min(self.pages.deadline_ns()),
            None => deadline_ns,
        }
    }

    /// Returns until when new messages wait for others to share their frame.
    pub fn next_flush_ns(&self) -> u64 {
        self.next_flush_ns
    }

    /// Returns what the owner is.
    pub fn state(&self) -> OwnerState {
        self.log.state()
    }

    /// Returns the owner's figures.
    pub fn figures(&self, now_ns: u64) -> OwnerFigures {
        OwnerFigures {
            unacknowledged: self.log.unacknowledged() as u64,
            pages: self.pages.written(),
            snapshots: self.pages.snapshots(),
            snapshot_age_ns: self
                .pages
                .taken_ns()
                .map(|taken| now_ns.saturating_sub(taken)),
            ..self.figures
        }
    }

    fn publishes(&self) -> bool {
        let state = self.log.state();
        self.is_linked && matches!(state, OwnerState::Asking | OwnerState::Ready)
    }

    fn header(&self, flags: FrameFlags, first: u64, count: u64) -> FrameHeader {
        FrameHeader {
            flags: flags.with_relays(self.config.relays),
            first,
            epoch: self.config.epoch,
            origin: self.config.origin,
            session: self.session,
            // A pending skip is sent long before it could be longer.
            count: u32::try_from(count).unwrap_or(u32::MAX),
        }
    }

    /// Moves the cursors past what the journal has lost, marks the gap, and hastens a snapshot.
    fn note_losses(&mut self, reader: &impl Reader, now_ns: u64) {
        let oldest = reader.oldest();
        if self.log.cursor.scanned >= oldest {
            return;
        }
        self.log.cursor = Cursor::at(oldest);
        self.figures.gaps += u64::from(!std::mem::replace(&mut self.log.gap, true));
        if self.live.scanned < oldest {
            self.live = Cursor::at(oldest);
            self.live_gap = true;
            // Edges must hear of it at once.
            self.next_heartbeat_ns = now_ns;
        }
        self.pages.hasten();
    }

    /// Writes the frame that begins the reign in the log: from then on, the log refuses the frames
    /// of the owner before.
    fn fence(&mut self) {
        if self.log.fence_due() {
            let header = self.header(FrameFlags::HEARTBEAT, self.log.next_sequence(), 0);
            self.log.fence(header);
        }
    }

    /// Publishes to the log what edges have got already.
    fn follow<R: Reader>(&mut self, reader: &R, left: &mut usize, actions: &mut Vec<OwnerAction>) {
        while *left > 0 && self.log.is_open() {
            let mut cursor = self.log.cursor;
            if cursor.scanned >= self.live.scanned && cursor.sent >= self.live.sent {
                return;
            }
            let until = self.live.scanned;
            let skips = cursor.scanned >= until;
            if self.read(reader, &mut cursor, until, skips) {
                *left -= 1;
                let gap = std::mem::take(&mut self.log.gap);
                self.publish_to_log(cursor, gap, actions);
            } else if cursor == self.log.cursor {
                return;
            }
            self.log.cursor = cursor;
        }
    }

    /// Publishes what is new.
    fn go_on<R: Reader>(
        &mut self,
        reader: &R,
        now_ns: u64,
        left: &mut usize,
        actions: &mut Vec<OwnerAction>,
    ) {
        self.is_waiting = false;
        while *left > 0 && self.live.scanned < reader.next() {
            let waiting = reader.next() - self.live.scanned;
            if now_ns < self.next_flush_ns && waiting < MESSAGES_A_FRAME && !self.ends {
                self.is_waiting = true;
                return;
            }
            let before = self.live;
            let is_written = self.step(reader, reader.next(), false, actions);
            if self.live == before {
                debug_assert!(false, "the journal has what it says it has");
                return;
            }
            *left -= usize::from(is_written);
            if is_written && self.live.scanned >= reader.next() {
                self.next_flush_ns = now_ns.saturating_add(FLUSH_NS);
            }
            if is_written {
                self.note_frame(now_ns);
            }
        }
    }

    /// Reads the next frame and publishes it: to the log if that has everything before, else to
    /// *live*. Returns whether there was one.
    fn step<R: Reader>(
        &mut self,
        reader: &R,
        until: u64,
        skips: bool,
        actions: &mut Vec<OwnerAction>,
    ) -> bool {
        let is_level = self.log.cursor.scanned == self.live.scanned;
        let in_log = is_level && self.log.is_open();
        let mut cursor = match in_log {
            true => self.log.cursor,
            false => self.live,
        };
        let is_written = self.read(reader, &mut cursor, until, skips);
        if is_written {
            self.figures.frames += 1;
            let gap = std::mem::take(&mut self.live_gap);
            if in_log {
                let gap = std::mem::take(&mut self.log.gap) || gap;
                self.publish_to_log(cursor, gap, actions);
            } else {
                self.figures.live_frames += 1;
                let from = self.live.sent;
                self.publish_live(from, cursor.sent, gap, actions);
            }
        }
        if in_log {
            self.log.cursor = cursor;
        } else if is_level && !is_written {
            // Nothing passes: both have scanned it.
            self.log.cursor.scanned = cursor.scanned;
        }
        self.live = cursor;
        is_written
    }

    /// Sends a skip, a heartbeat or the reign's end after enough silence.
    fn fall_silent<R: Reader>(
        &mut self,
        reader: &R,
        now_ns: u64,
        said: bool,
        actions: &mut Vec<OwnerAction>,
    ) {
        let is_complete = self.live.scanned >= reader.next();
        let ends = self.ends && is_complete;
        let skipped = self.live.scanned - self.live.sent;
        if skipped < SKIP_MAX && !ends && (said || now_ns < self.next_heartbeat_ns) {
            return;
        }
        if skipped > 0 && self.step(reader, self.live.scanned, true, actions) {
            self.note_frame(now_ns);
        } else if !ends {
            let gap = std::mem::take(&mut self.live_gap);
            let flags = match gap {
                true => FrameFlags::HEARTBEAT.with(FrameFlags::GAP),
                false => FrameFlags::HEARTBEAT,
            };
            let header = self.header(flags, self.live.sent, 0);
            push_live(header.bare().into(), actions);
            self.figures.heartbeats += 1;
            self.heartbeat_delay_ns = (self.heartbeat_delay_ns * 2).min(HEARTBEAT_INTERVAL_NS);
            self.next_heartbeat_ns = now_ns.saturating_add(self.heartbeat_delay_ns);
        }
        if ends {
            let header = self.header(FrameFlags::END, self.live.sent, 0);
            let bytes: Arc<[u8]> = header.bare().into();
            let is_in_log = self.log.cursor == self.live && self.log.is_open();
            match is_in_log {
                true => actions.push(self.log.publish(header, bytes)),
                false => push_live(bytes, actions),
            }
            self.log.finish();
        }
    }

    fn note_frame(&mut self, now_ns: u64) {
        self.heartbeat_delay_ns = HEARTBEAT_DELAY_NS_FIRST;
        self.next_heartbeat_ns = now_ns.saturating_add(self.heartbeat_delay_ns);
    }

    /// Reads the body of a frame, behind the room for its header, and moves the cursor. Returns
    /// whether there is any.
    fn read<R: Reader>(
        &mut self,
        reader: &R,
        cursor: &mut Cursor,
        until: u64,
        skips: bool,
    ) -> bool {
        self.buffer.clear();
        self.buffer.resize(HEADER_LENGTH, 0);
        let before = cursor.sent;
        if cursor.scanned < until {
            reader.read(cursor, until, BODY_LENGTH_MAX, &mut self.buffer);
        }
        if skips && cursor.sent == before {
            reader.write_skipped(cursor, &mut self.buffer);
        }
        debug_assert_eq!(self.buffer.len() > HEADER_LENGTH, cursor.sent > before);
        cursor.sent > before
    }

    /// Publishes the buffer to the log; the frame's range is that from the log's cursor.
    fn publish_to_log(&mut self, to: Cursor, gap: bool, actions: &mut Vec<OwnerAction>) {
        let first = self.log.cursor.sent;
        let (header, bytes) = self.seal(first, to.sent, gap);
        actions.push(self.log.publish(header, bytes));
    }

    fn publish_live(&mut self, first: u64, until: u64, gap: bool, actions: &mut Vec<OwnerAction>) {
        let (_, bytes) = self.seal(first, until, gap);
        push_live(bytes, actions);
    }

    fn seal(&mut self, first: u64, until: u64, gap: bool) -> (FrameHeader, Arc<[u8]>) {
        let flags = match gap {
            true => FrameFlags::GAP,
            false => FrameFlags::NONE,
        };
        let header = self.header(flags, first, until - first);
        header.seal(&mut self.buffer);
        (header, Arc::from(self.buffer.as_slice()))
    }
}

fn push_live(bytes: Arc<[u8]>, actions: &mut Vec<OwnerAction>) {
    actions.push(OwnerAction::Publish(Publication {
        to: Destination::Live,
        bytes,
    }));
}

/// Delays between two questions for the log's end.
const ASK_BACK_OFF: BackOff = BackOff {
    delay_ns_first: 20_000_000,
    delay_ns_max: 1_000_000_000,
    connect_ns_max: 0,
};
/// How long the answer to a question for the log's end is waited for.
const ASK_TIMEOUT_NS: u64 = 2_000_000_000;

/// A frame of the log that is not acknowledged.
#[derive(Debug)]
struct Pending {
    id: FrameId,
    header: FrameHeader,
    expected_last: u64,
    bytes: Arc<[u8]>,
}

/// Frames of the log in order, oldest first.
type PendingFrames = VecDeque<Pending>;
