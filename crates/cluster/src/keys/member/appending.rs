//! What the primary appends, and what comes of it.

use super::{KeysMember, Sent};
use crate::keys::frame::KeysHeader;
use crate::keys::interface::{KeysAction, KeysRole, Outcome};
use crate::keys::position::KeysFault;

impl KeysMember {
    /// Reports what came of an append or a fence.
    pub fn stored(&mut self, request: u64, outcome: Outcome, now_ns: u64) {
        if let Some(candidacy) = &mut self.candidacy
            && let Some((_, header)) = candidacy.fence.take_if(|(fence, _)| *fence == request)
        {
            return self.fence_stored(header, outcome, now_ns);
        }
        let Some(at) = self.sent.iter().position(|sent| sent.request == request) else {
            // Of messages that were given up: the stream was read since, or will be.
            return;
        };
        match outcome {
            Outcome::Stored(sequence) if sequence == self.sent[at].expected + 1 => {
                self.sent[at].is_stored = true;
                while let Some(sent) = self.sent.pop_front_if(|sent| sent.is_stored) {
                    self.position.sequence = sent.expected + 1;
                    self.position.end = self.position.end.max(sent.end);
                    if sent.is_whole {
                        self.position.whole = sent.end;
                    }
                }
            }
            outcome => self.doubt(outcome, now_ns),
        }
    }

    /// A message is perhaps not stored: the stream tells.
    pub(super) fn doubt(&mut self, outcome: Outcome, now_ns: u64) {
        self.uncertain += 1;
        let is_answer = matches!(outcome, Outcome::Refused);
        let pause_ns = if is_answer { 0 } else { self.config.retry_ns };
        self.read_again(now_ns.saturating_add(pause_ns));
    }

    /// The log no longer has bytes that are to be appended.
    pub fn log_is_trimmed(&mut self, offset: u64) {
        self.fail(KeysFault::Trimmed(offset));
    }

    /// Limits the bytes of a message's body: the servers take no more.
    pub fn limit_body(&mut self, bytes_max: usize) {
        debug_assert!(bytes_max > 0, "a message has a body");
        self.config.body_bytes_max = self.config.body_bytes_max.min(bytes_max);
    }

    /// Appends what the log has, as far as messages may be on their way.
    pub(super) fn append(&mut self, log_end: u64) {
        let may = self.role == KeysRole::Primary && !self.must_read && self.candidacy.is_none();
        while may && self.sent.len() < self.config.in_flight_max {
            if self.sent_end == self.group_end {
                self.group_end = self.group_end.max(log_end);
            }
            if self.sent_end == self.group_end {
                return;
            }
            let (offset, bytes_max) = (self.sent_end, self.config.body_bytes_max as u64);
            let end = self.group_end.min(offset + bytes_max);
            let is_whole = end == self.group_end;
            self.request += 1;
            let last = self.sent.back().map(|sent| sent.expected + 1);
            let expected = last.unwrap_or(self.position.sequence);
            self.sent.push_back(Sent {
                request: self.request,
                expected,
                end,
                is_whole,
                is_stored: false,
            });
            self.sent_end = end;
            let header = KeysHeader {
                is_fence: false,
                is_whole,
                epoch: self.position.epoch,
                offset,
                history: self.position.history,
            };
            self.actions.push_back(KeysAction::Append {
                request: self.request,
                expected,
                header,
                end,
            });
        }
    }
}
