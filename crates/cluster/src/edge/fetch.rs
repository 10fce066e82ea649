//! Reading the log where frames are missing.

use crate::frame::FrameFlags;

use super::{
    ANSWER_TIMEOUT_NS, DOUBT_DELAY_NS, Edge, EdgeAction, EdgeEvent, FETCH_BACK_OFF, Phase,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// Nothing is missing.
    #[default]
    Idle,
    /// The log is read then.
    Due(u64),
    /// The log is being read; it counts as unanswered then.
    Waiting(u64),
}

/// What is being done about missing frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fetch {
    step: Step,
    /// Number of the newest request.
    request: u64,
    /// Whether the log is read from its oldest message.
    from_oldest: bool,
    failures: u32,
}

impl Fetch {
    /// Returns the same with nothing to do.
    pub(super) fn idle(self) -> Fetch {
        Fetch {
            request: self.request,
            ..Fetch::default()
        }
    }

    /// Has the log read now, whether or not anything is known to be missing.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.step = Step::Due(now_ns);
    }

    pub(super) fn deadline_ns(&self) -> u64 {
        match self.step {
            Step::Idle => u64::MAX,
            Step::Due(at_ns) | Step::Waiting(at_ns) => at_ns,
        }
    }
}

impl Edge {
    /// Returns whether a request for the log is still wanted.
    pub fn is_fetching(&self, request: u64) -> bool {
        let is_waiting = matches!(self.fetch.step, Step::Waiting(_));
        is_waiting && self.fetch.request == request && self.phase == Phase::Following
    }

    /// Receives a message of the log, in order.
    pub fn fetched(&mut self, request: u64, bytes: &[u8], log_sequence: u64, now_ns: u64) {
        if !self.is_fetching(request) {
            return;
        }
        self.fetch.step = Step::Waiting(now_ns.saturating_add(ANSWER_TIMEOUT_NS));
        let Some(frame) = self.stream_frame(bytes) else {
            return;
        };
        let header = frame.header;
        if header.epoch < self.epoch {
            return;
        }
        self.admit(&header, now_ns);
        if self.phase == Phase::Reading {
            return self.frame(&frame, Some(log_sequence), now_ns);
        }
        let bare = FrameFlags::HEARTBEAT.with(FrameFlags::END);
        let is_hole = header.first > self.expected && !header.flags.intersects(bare);
        if is_hole && !header.flags.contains(FrameFlags::GAP) {
            return self.hole(header.first, now_ns);
        }
        let before = self.expected;
        self.frame(&frame, Some(log_sequence), now_ns);
        if self.phase == Phase::Following && self.expected > before {
            self.fetch.failures = 0;
            self.fetch.from_oldest = false;
        }
    }

    /// Reports that everything was read that the log has, and the sequence of its last message.
    pub fn fetch_end(&mut self, request: u64, log_last: u64, now_ns: u64) {
        if !self.is_fetching(request) {
            return;
        }
        self.fetch.step = Step::Idle;
        self.fetch.from_oldest = false;
        if log_last < self.position {
            // The log has lost its end, and goes on with others.
            self.position = 0;
            self.fetch.begin(now_ns);
            self.poll_fetch(now_ns);
        } else if self.expected < self.highest {
            // The owner has not written it yet, or edges were told first.
            self.fetch_later(now_ns);
        }
    }

    /// Reports that the log cannot be read now.
    pub fn fetch_failed(&mut self, request: u64, now_ns: u64) {
        if self.is_fetching(request) {
            self.fetch_later(now_ns);
        }
    }

    /// Reports that the log no longer has the message behind the one that was asked for.
    pub fn log_is_gone(&mut self, request: u64, now_ns: u64) {
        if !self.is_fetching(request) {
            return;
        }
        self.fetch.step = Step::Idle;
        if self.expected < self.highest {
            self.lose_before(self.highest, now_ns);
        }
        self.check_gap(now_ns);
    }

    /// The log goes on behind what is missing. The position was perhaps a wrong guess: what a
    /// frame expects of the log is not always what happens.
    fn hole(&mut self, first: u64, now_ns: u64) {
        if self.fetch.from_oldest || self.position == 0 {
            self.lose_before(first, now_ns);
        } else {
            self.fetch.from_oldest = true;
            self.fetch.step = Step::Due(now_ns);
            self.poll_fetch(now_ns);
        }
    }

    fn fetch_later(&mut self, now_ns: u64) {
        let delay_ns = FETCH_BACK_OFF.delay_ns(self.fetch.failures, now_ns);
        self.fetch.failures = self.fetch.failures.saturating_add(1);
        self.fetch.step = Step::Due(now_ns.saturating_add(delay_ns));
    }

    /// Begins or ends the search for missing frames, and the time until values are in doubt.
    pub(super) fn check_gap(&mut self, now_ns: u64) {
        let grace_ns = now_ns.saturating_add(self.config.grace_ns);
        // A client without values has none that could be in doubt.
        let is_behind = match self.phase {
            Phase::Reading => self.client.epoch != 0,
            Phase::Following => self.expected < self.highest,
        };
        if is_behind {
            let doubt_ns = grace_ns.saturating_add(DOUBT_DELAY_NS);
            self.doubt_ns.get_or_insert(doubt_ns);
            if self.phase == Phase::Following && self.fetch.step == Step::Idle {
                self.fetch.step = Step::Due(grace_ns);
            }
        } else if self.doubt_ns.take().is_some() {
            self.fetch = self.fetch.idle();
        }
        if self.doubt_ns.is_none() && std::mem::take(&mut self.tells_doubt) {
            self.event(EdgeEvent::Certain);
        }
    }

    /// Reports values in doubt if that is due.
    pub(super) fn poll_doubt(&mut self, now_ns: u64) {
        if self.doubt_ns.is_some_and(|doubt| now_ns >= doubt) {
            self.tell_doubt();
        }
    }

    pub(super) fn tell_doubt(&mut self) {
        if !std::mem::replace(&mut self.tells_doubt, true) {
            self.event(EdgeEvent::Doubtful);
        }
    }

    /// Reads the log if that is due.
    pub(super) fn poll_fetch(&mut self, now_ns: u64) {
        if self.phase == Phase::Reading {
            return;
        }
        match self.fetch.step {
            Step::Waiting(until_ns) if now_ns >= until_ns => self.fetch_later(now_ns),
            _ => {}
        }
        if !matches!(self.fetch.step, Step::Due(at_ns) if now_ns >= at_ns) || !self.is_linked {
            return;
        }
        self.fetch.step = Step::Waiting(now_ns.saturating_add(ANSWER_TIMEOUT_NS));
        self.fetch.request += 1;
        self.figures.fetches += 1;
        self.actions.push_back(EdgeAction::FetchLog {
            request: self.fetch.request,
            after: match self.fetch.from_oldest {
                true => 0,
                false => self.position,
            },
        });
    }

    /// Returns when values come to be in doubt.
    pub(super) fn doubt_deadline_ns(&self) -> u64 {
        let doubt_ns = self.doubt_ns.filter(|_| !self.tells_doubt);
        doubt_ns.unwrap_or(u64::MAX)
    }
}
