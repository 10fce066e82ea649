//! The log as its writer knows it: where it ends, and which frames it has not acknowledged.

use std::sync::Arc;

use tidewire_feed::journal::Cursor;

use crate::frame::{FrameFlags, FrameHeader};

use super::{
    ASK_BACK_OFF, ASK_TIMEOUT_NS, Destination, FrameId, OwnerAction, OwnerState, Pending,
    PendingFrames, Publication, UNACKNOWLEDGED_MAX,
};

/// The writer's side of the log.
#[derive(Debug)]
pub(super) struct Log {
    epoch: u64,
    state: OwnerState,
    /// First sequence of the reign.
    first: u64,
    /// What the log was sent.
    pub(super) cursor: Cursor,
    /// Whether the next frame says that messages before it are lost.
    pub(super) gap: bool,
    /// Sequence of the last message once all pending frames are in.
    tail: u64,
    /// A sequence that the log has reached with frames of this reign only behind it, or the last
    /// one acknowledged; `None` before the log's end was known.
    acknowledged: Option<u64>,
    /// Whether the frame that begins the reign is in the log, or pending.
    is_fenced: bool,
    /// Frames of the reign so far.
    numbered: u64,
    /// Questions for the log's end so far.
    questions: u64,
    pending: PendingFrames,
    /// Whether the pending frames must be sent again.
    repeats: bool,
    ask_ns: u64,
    failures: u32,
    /// Times that the log's end was in doubt since a frame was acknowledged.
    doubts: u32,
}

impl Log {
    pub(super) fn new(epoch: u64, next: u64, now_ns: u64) -> Log {
        Log {
            epoch,
            state: OwnerState::Asking,
            first: next,
            cursor: Cursor::at(next),
            gap: false,
            tail: 0,
            acknowledged: None,
            is_fenced: false,
            numbered: 0,
            questions: 0,
            pending: PendingFrames::new(),
            repeats: false,
            ask_ns: now_ns,
            failures: 0,
            doubts: 0,
        }
    }

    pub(super) fn state(&self) -> OwnerState {
        self.state
    }

    pub(super) fn acknowledged(&self) -> Option<u64> {
        self.acknowledged
    }

    pub(super) fn unacknowledged(&self) -> usize {
        self.pending.len()
    }

    /// Returns whether the log takes another frame now.
    pub(super) fn is_open(&self) -> bool {
        self.state == OwnerState::Ready
            && self.is_fenced
            && !self.repeats
            && self.pending.len() < UNACKNOWLEDGED_MAX
    }

    pub(super) fn fence_due(&self) -> bool {
        self.state == OwnerState::Ready && !self.is_fenced
    }

    /// Returns the first sequence that the log was not sent, or that is pending.
    pub(super) fn next_sequence(&self) -> u64 {
        match self.pending.front() {
            Some(frame) => frame.header.first,
            None => self.cursor.sent,
        }
    }

    /// Puts the frame that begins the reign before all pending ones.
    pub(super) fn fence(&mut self, mut header: FrameHeader) {
        if self.gap && self.pending.is_empty() {
            header.flags = header.flags.with(FrameFlags::GAP);
        }
        let id = self.id();
        self.pending.push_front(Pending {
            id,
            header,
            expected_last: 0,
            bytes: header.bare().into(),
        });
        self.is_fenced = true;
        self.expect();
    }

    /// Keeps a frame until it is acknowledged, and returns its publication.
    pub(super) fn publish(&mut self, header: FrameHeader, bytes: Arc<[u8]>) -> OwnerAction {
        debug_assert!(self.is_open(), "only then the end is known");
        let frame = Pending {
            id: self.id(),
            header,
            expected_last: self.tail,
            bytes,
        };
        self.tail += 1;
        let action = publication(&frame);
        self.pending.push_back(frame);
        action
    }

    fn id(&mut self) -> FrameId {
        self.numbered += 1;
        FrameId {
            epoch: self.epoch,
            number: self.numbered - 1,
        }
    }

    /// Has the pending frames sent again, behind the log's end.
    fn expect(&mut self) {
        self.tail = self.acknowledged.unwrap_or(0);
        for frame in &mut self.pending {
            frame.expected_last = self.tail;
            self.tail += 1;
        }
        self.repeats = !self.pending.is_empty();
    }

    /// Notes that a frame, and so every frame before it, is in the log.
    pub(super) fn acknowledge(&mut self, id: FrameId, log_sequence: u64) {
        let Some(index) = self.pending.iter().position(|frame| frame.id == id) else {
            return;
        };
        let is_expected = log_sequence == self.pending[index].expected_last + 1;
        if self.state == OwnerState::Ready && is_expected {
            self.pending.drain(..=index);
            self.doubts = 0;
            self.acknowledged = self.acknowledged.max(Some(log_sequence));
        } else {
            // It is in the log, but not where this side counts: the log's end tells.
            self.doubt(id);
        }
    }

    /// Notes that it is unknown whether a frame is in the log.
    pub(super) fn doubt(&mut self, id: FrameId) {
        if self.pending.iter().any(|frame| frame.id == id) {
            self.doubt_all();
        }
    }

    /// Notes that the log's end is unknown.
    pub(super) fn doubt_all(&mut self) {
        if self.state == OwnerState::Ready {
            self.state = OwnerState::Asking;
            self.ask_ns = 0;
            self.failures = 0;
            self.doubts = self.doubts.saturating_add(1);
        }
    }

    pub(super) fn connected(&mut self, now_ns: u64) {
        self.ask_ns = now_ns;
        self.failures = 0;
        self.doubts = 0;
    }

    /// Asks for the log's end if that is due.
    pub(super) fn ask(&mut self, now_ns: u64, actions: &mut Vec<OwnerAction>) {
        if self.state != OwnerState::Asking {
            return;
        }
        if self.ask_ns == 0 && self.doubts > 1 {
            // The answer sends all pending frames again. A log that answers and takes none, such as
            // one without a quorum, does not get them in a loop.
            let delay_ns = ASK_BACK_OFF.delay_ns(self.doubts - 2, now_ns);
            self.ask_ns = now_ns.saturating_add(delay_ns);
        }
        if now_ns >= self.ask_ns {
            self.ask_ns = now_ns.saturating_add(ASK_TIMEOUT_NS);
            self.questions += 1;
            let question = self.questions;
            actions.push(OwnerAction::AskLogEnd { question });
        }
    }

    pub(super) fn end_failed(&mut self, now_ns: u64) {
        if self.state == OwnerState::Asking {
            let delay_ns = ASK_BACK_OFF.delay_ns(self.failures, now_ns);
            self.ask_ns = now_ns.saturating_add(delay_ns);
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// Takes the log's end. Returns whether the log has lost frames of this reign.
    pub(super) fn end(
        &mut self,
        question: u64,
        log_sequence: u64,
        last: Option<FrameHeader>,
    ) -> bool {
        if self.state != OwnerState::Asking || question != self.questions {
            return false;
        }
        let is_own = match last {
            Some(last) if last.epoch > self.epoch => {
                self.state = OwnerState::Deposed { by: last.epoch };
                self.pending.clear();
                return false;
            }
            Some(last) => last.epoch == self.epoch,
            None => false,
        };
        let loses = self.is_fenced && self.acknowledged.is_some_and(|known| log_sequence < known);
        if loses {
            self.start_again(last.filter(|_| is_own));
        } else if let Some(last) = last.filter(|_| is_own) {
            self.pass_what_is_in(&last);
        }
        // Behind frames of an earlier reign, which its owner had sent before it noticed, the log
        // is fenced again.
        self.is_fenced = is_own;
        self.state = OwnerState::Ready;
        self.failures = 0;
        self.acknowledged = Some(log_sequence);
        self.expect();
        loses
    }

    /// The log ends with a frame of this reign: those up to it are in, the rest is sent again.
    fn pass_what_is_in(&mut self, last: &FrameHeader) {
        let is_end = last.flags.contains(FrameFlags::END);
        let is_in = |frame: &mut Pending| {
            let ends = frame.header.flags.contains(FrameFlags::END);
            frame.header.until() <= last.until() && (!ends || is_end)
        };
        while self.pending.pop_front_if(is_in).is_some() {}
    }

    /// The log has lost what it had acknowledged: what is behind its last frame, or all of the
    /// reign, is read from the journal again.
    fn start_again(&mut self, last: Option<FrameHeader>) {
        let next = self.next_sequence();
        let from = last.map_or(self.first, |last| last.until()).min(next);
        self.pending.clear();
        self.cursor = Cursor::at(from);
    }

    /// Sends the pending frames again if that is due. Returns their number.
    pub(super) fn repeat(&mut self, actions: &mut Vec<OwnerAction>) -> u64 {
        if self.state != OwnerState::Ready || !std::mem::take(&mut self.repeats) {
            return 0;
        }
        actions.extend(self.pending.iter().map(publication));
        self.pending.len() as u64
    }

    /// Ends the reign in order.
    pub(super) fn finish(&mut self) {
        self.state = OwnerState::Ended;
        self.pending.clear();
    }

    pub(super) fn deadline_ns(&self) -> u64 {
        match self.state {
            OwnerState::Asking => self.ask_ns,
            OwnerState::Ready if self.repeats || !self.is_fenced => 0,
            _ => u64::MAX,
        }
    }
}

fn publication(frame: &Pending) -> OwnerAction {
    OwnerAction::Publish(Publication {
        to: Destination::Log {
            id: frame.id,
            expected_last: frame.expected_last,
        },
        bytes: Arc::clone(&frame.bytes),
    })
}
