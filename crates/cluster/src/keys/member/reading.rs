//! Reading the stream, and what is wrong with it.

use super::{Asked, KeysMember};
use crate::keys::coverage::KeysExtent;
use crate::keys::frame::{KeysEntry, KeysHeader};
use crate::keys::interface::{KeysAction, KeysEvent, KeysRole};
use crate::keys::position::{EPOCH_JUMP_MAX, Effect, KeysFault, KeysPosition};

impl KeysMember {
    pub(super) fn read_again(&mut self, next_ns: u64) {
        self.sent.clear();
        self.must_read = true;
        self.target = None;
        self.asked = Asked::Nothing;
        self.next_ns = next_ns;
    }

    /// Reports what the stream has.
    pub fn ends_at(&mut self, request: u64, extent: KeysExtent, now_ns: u64) {
        if let Some((_, had)) = self.looked.take_if(|(look, _)| *look == request) {
            if extent.last < had || extent.origin > had.saturating_add(1) {
                return self.read_again(now_ns);
            }
            if self.role == KeysRole::Primary {
                self.coverage.stream(extent, self.position.whole);
                let awaits = !self.sent.is_empty() || self.candidacy.is_some();
                if !awaits && extent.last > self.position.sequence {
                    // Another program has written.
                    self.read_again(now_ns);
                }
            }
            return;
        }
        if self.asked != Asked::End(request) {
            return;
        }
        self.asked = Asked::Nothing;
        self.next_ns = now_ns;
        let (KeysExtent { origin, last, .. }, had) = (extent, self.known_message());
        if had > 0 && origin > had.saturating_add(1) {
            return self.lacks(KeysFault::Replaced { had, origin }, now_ns);
        }
        if last < had {
            return self.lacks(KeysFault::Lost { had, found: last }, now_ns);
        }
        if self.position.epoch == 0 {
            // It has read nothing, and has no snapshot.
            self.position.sequence = origin.saturating_sub(1);
        }
        self.target = Some(last);
        self.look(now_ns);
    }

    /// Reports that there is no stream.
    pub fn has_no_stream(&mut self, request: u64, now_ns: u64) {
        if self.looked.take_if(|(look, _)| *look == request).is_some() {
            return self.read_again(now_ns);
        }
        if self.asked == Asked::End(request) {
            self.asked = Asked::Nothing;
            let had = self.known_message();
            return self.lacks(KeysFault::Gone { had }, now_ns);
        }
        self.failed(request, now_ns);
        // Its leader says for sure.
        self.target = None;
    }

    /// Reports messages, in the stream's order; none if there are no more.
    pub fn fetched<'a>(
        &mut self,
        request: u64,
        entries: impl IntoIterator<Item = KeysEntry<'a>>,
        now_ns: u64,
    ) {
        if let Some((_, sequence)) = self.checked.take_if(|(check, _)| *check == request) {
            return self.check(sequence, entries.into_iter().next(), now_ns);
        }
        if self.asked != Asked::Entries(request) {
            return;
        }
        self.asked = Asked::Nothing;
        self.next_ns = now_ns;
        let before = self.position.sequence;
        for entry in entries {
            if let Err(fault) = self.entry(entry) {
                if self.passes_over(&fault, entry.sequence, now_ns) {
                    continue;
                }
                if self.position.sequence > before {
                    self.lacks_since_ns = None;
                }
                // A snapshot may have what is missing, or cannot be read.
                return self.lacks(fault, now_ns);
            }
            if matches!(self.role, KeysRole::Deposed | KeysRole::Failed) || !self.reads() {
                return;
            }
        }
        if self.position.sequence > before {
            self.lacks_since_ns = None;
            return self.look(now_ns);
        }
        match self.target {
            // The copy that has answered is behind, or no copy has these messages any more.
            Some(target) if before < target => {
                let (expected, found) = (before + 1, target + 1);
                self.lacks(KeysFault::Hole { expected, found }, now_ns);
            }
            _ => {
                self.lacks_since_ns = None;
                self.next_ns = now_ns.saturating_add(self.config.poll_ns);
            }
        }
    }

    /// Reports that a question has no answer.
    pub fn failed(&mut self, request: u64, now_ns: u64) {
        self.looked.take_if(|(look, _)| *look == request);
        self.checked.take_if(|(check, _)| *check == request);
        if self.asked == Asked::End(request) || self.asked == Asked::Entries(request) {
            self.asked = Asked::Nothing;
            self.next_ns = now_ns.saturating_add(self.config.retry_ns);
        }
    }

    /// Whether the stream is read now.
    pub(super) fn reads(&self) -> bool {
        match self.role {
            KeysRole::Primary => self.must_read,
            KeysRole::Deposed | KeysRole::Failed | KeysRole::Rebuilding => false,
            _ => self.candidacy.is_none_or(|one| one.fence.is_none()),
        }
    }

    /// Whether the stream is looked at, besides what is read.
    pub(super) fn looks(&self) -> bool {
        let is_at_end = matches!(self.role, KeysRole::Primary | KeysRole::Standby);
        is_at_end && !self.must_read
    }

    /// Asks from time to time whether the stream still has what it had: appends and reads do not
    /// show that.
    pub(super) fn look_at_all(&mut self, now_ns: u64) {
        if self.looked.is_none() && self.looks() && now_ns >= self.look_ns {
            self.request += 1;
            let request = self.request;
            self.looked = Some((request, self.position.sequence));
            self.look_ns = now_ns.saturating_add(self.config.look_ns);
            self.actions.push_back(KeysAction::AskEnd { request });
        }
    }

    /// Asks for the end of the stream, or for messages, or ends reading.
    pub(super) fn look(&mut self, now_ns: u64) {
        if self.asked != Asked::Nothing || !self.reads() || now_ns < self.next_ns {
            return;
        }
        let position = self.position.sequence;
        match self.target {
            None => {
                self.request += 1;
                self.asked = Asked::End(self.request);
                let request = self.request;
                self.actions.push_back(KeysAction::AskEnd { request });
            }
            Some(target) if position >= target && self.must_read => self.end_reading(now_ns),
            Some(_) => {
                self.request += 1;
                self.asked = Asked::Entries(self.request);
                self.actions.push_back(KeysAction::Fetch {
                    request: self.request,
                    after: position,
                });
            }
        }
    }

    /// All that was in the stream is read.
    pub(super) fn end_reading(&mut self, now_ns: u64) {
        self.must_read = false;
        self.lacks_since_ns = None;
        if self.role == KeysRole::Loading {
            self.role = KeysRole::Standby;
        }
        let KeysPosition {
            sequence,
            whole: offset,
            end,
            ..
        } = self.position;
        if let Some(candidacy) = &mut self.candidacy {
            self.request += 1;
            let before = self.position.epoch;
            let epoch = next_epoch(before, candidacy.lease_epoch);
            let header = KeysHeader {
                is_fence: true,
                is_whole: true,
                epoch,
                offset,
                history: candidacy.history,
            };
            // What other readers would not take is not written.
            let (mut next, message) = (self.position, header.with_body(b""));
            if next.read(sequence.saturating_add(1), &message).is_err() {
                return self.fail(KeysFault::NoReign {
                    sequence,
                    before,
                    epoch,
                });
            }
            candidacy.fence = Some((self.request, header));
            self.actions.push_back(KeysAction::Fence {
                request: self.request,
                expected: sequence,
                header,
            });
        } else if self.role == KeysRole::Primary {
            // What counts of a group is not sent again.
            (self.sent_end, self.group_end) = (end, end);
            self.next_ns = now_ns.saturating_add(self.config.retry_ns);
        } else {
            self.look(now_ns);
        }
    }

    pub(super) fn entry(&mut self, entry: KeysEntry<'_>) -> Result<(), KeysFault> {
        if entry.is_foreign() {
            return self.position.pass_over(entry.sequence);
        }
        match self.position.read(entry.sequence, entry.message)? {
            Effect::None => {}
            Effect::Bytes(bytes) if self.own == Some(self.position.history) => {
                let (bytes, end) = (bytes.to_vec(), self.position.end);
                self.events.push_back(KeysEvent::Own { bytes, end });
            }
            Effect::Bytes(bytes) => {
                self.pending.extend_from_slice(bytes);
                if self.position.whole == self.position.end {
                    let bytes = std::mem::take(&mut self.pending);
                    let end = self.position.whole;
                    self.events.push_back(KeysEvent::Apply { bytes, end });
                }
            }
            Effect::Fence { address } => self.fence_read(address),
        }
        Ok(())
    }
}

/// Returns the epoch of the reign behind another one: the lease's revision, if readers take that. A
/// bucket that was made again may count from 1, or from a number that is no revision of a hub's.
fn next_epoch(before: u64, lease_epoch: u64) -> u64 {
    let next = before.saturating_add(1);
    match lease_epoch.saturating_sub(before) <= EPOCH_JUMP_MAX {
        true => lease_epoch.max(next),
        false => next,
    }
}
