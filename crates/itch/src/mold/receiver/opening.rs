//! Where a session begins. The messages before the first packet that arrives may be on their way on
//! the other line: without a server to ask, a session near its beginning waits for them before it
//! is joined late.

use tidewire_feed::client::{Gap, LossReason};

use super::{Receiver, Trial};
use crate::mold::packet::Header;
use crate::sequenced::SequencedSink;

/// The wait for messages before the first packet of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// The first packet's sequence: those before it are missing, and no hole yet.
    until: u64,
    /// When the wait ends.
    pub(super) due_ns: u64,
}

impl Receiver {
    /// Begins the same session again, at a packet far from the sequence: its sender has restarted,
    /// or the packet with which it began was a stray.
    #[cold]
    pub(super) fn restart<S: SequencedSink>(&mut self, header: &Header, now_ns: u64, sink: &mut S) {
        debug_assert_eq!(self.session, Some(header.session), "it is the same session");
        self.counters.restarts += 1;
        self.begin(header, now_ns, sink);
    }

    /// Begins a session at the packet that shows it.
    pub(super) fn begin<S: SequencedSink>(&mut self, header: &Header, now_ns: u64, sink: &mut S) {
        if self.session.is_some() {
            self.end_opening(sink);
            self.give_up(self.highest, LossReason::SessionChanged, sink);
        }
        self.session = Some(header.session);
        let first = header.sequence.max(1);
        let is_requested = self.config.from_start && self.config.requests;
        let is_awaited = !self.config.requests && (2..=BEGINNING_MAX).contains(&first);
        self.expected = match is_requested || is_awaited {
            true => 1,
            false => first,
        };
        self.highest = if is_awaited { first } else { self.expected };
        self.opening = is_awaited.then(|| Opening {
            until: first,
            due_ns: now_ns.saturating_add(self.config.patience_ns),
        });
        self.holes.clear();
        self.requests.clear();
        self.asked = None;
        self.suspect = None;
        self.trial = Trial::default();
        self.end = None;
        self.end_reported = false;
        self.tells_overdue = false;
        for line in &mut self.lines {
            line.next_sequence = 0;
        }
        sink.session(header.session);
        if self.expected > 1 {
            sink.joined_late(self.expected);
        }
    }

    /// Ends the wait if all before the first packet has come.
    #[cold]
    pub(super) fn settle_opening(&mut self) {
        self.opening = self.opening.filter(|opening| self.expected < opening.until);
    }

    /// Ends the wait: the session is joined at what has come of it.
    #[cold]
    pub(super) fn end_opening<S: SequencedSink>(&mut self, sink: &mut S) {
        let Some(Opening { until, .. }) = self.opening.take() else {
            return;
        };
        debug_assert!(self.expected < until, "the wait ends with the first packet");
        if self.expected == 1 {
            let first = self.holes.first_early().unwrap_or(until);
            self.expected = first.min(until);
            sink.joined_late(self.expected);
            self.apply_early(sink);
        }
        if self.expected < until {
            // Something has come, but not all.
            let (from, count) = (self.expected, until - self.expected);
            self.counters.gaps += 1;
            sink.gap(Gap::Opened { from, count });
            return self.give_up(until, LossReason::NoAnswer, sink);
        }
        self.after_progress(sink);
    }
}

/// A session that begins with a later message than this is joined late, also if the lines are not
/// in step: it has more before it than one line is behind the other.
const BEGINNING_MAX: u64 = 1_000;
