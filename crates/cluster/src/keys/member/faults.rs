//! Messages that are missing or that no hub can read.
//!
//! A reader waits for a snapshot behind them, and tells the primary: that one does not read what it
//! has appended, and NATS does not say that a message of its files is damaged. The primary looks at
//! the message, and stores the snapshot. Until then it answers, so that readers go on waiting.

use super::KeysMember;
use crate::keys::frame::{KeysEntry, KeysFrame};
use crate::keys::interface::KeysAction;
use crate::keys::interface::{KeysEvent, KeysRole};
use crate::keys::position::KeysFault;

impl KeysMember {
    /// Returns the message that this hub needs next. If it [lacks](KeysEvent::Lacking) that one,
    /// other hubs must be told: [`KeysMember::complained`].
    pub fn needed_message(&self) -> u64 {
        self.position.sequence.saturating_add(1)
    }

    /// Another hub cannot read this message. Returns whether this hub is the primary: then it looks
    /// at the message, and the other hub must be told: [`KeysMember::primary_answers`].
    pub fn complained(&mut self, sequence: u64, now_ns: u64) -> bool {
        if !self.is_alone(now_ns) {
            return false;
        }
        let is_stored = (1..=self.position.sequence).contains(&sequence);
        if is_stored && self.checked.is_none() && !self.coverage.knows_of(sequence) {
            self.request += 1;
            self.checked = Some((self.request, sequence));
            self.actions.push_back(KeysAction::Fetch {
                request: self.request,
                after: sequence - 1,
            });
        }
        true
    }

    /// Whether the stream seems to lack messages that this hub needs, or had.
    pub fn has_doubts(&self) -> bool {
        self.lacks_since_ns.is_some()
    }

    /// The primary has heard that this hub lacks messages: it stores a snapshot, however long that
    /// takes.
    pub fn primary_answers(&mut self, now_ns: u64) {
        self.answered_ns = self.answered_ns.max(now_ns);
    }

    /// Looks at a message that another hub cannot read.
    pub(super) fn check(&mut self, sequence: u64, entry: Option<KeysEntry<'_>>, now_ns: u64) {
        if !self.is_alone(now_ns) {
            return;
        }
        let fault = match entry {
            Some(entry) if entry.sequence == sequence => match KeysFrame::decode(entry.message) {
                Err(error) if !entry.is_foreign() => KeysFault::Damaged { sequence, error },
                _ => return,
            },
            // A copy that is only behind costs a snapshot.
            _ => KeysFault::Hole {
                expected: sequence,
                found: sequence + 1,
            },
        };
        self.coverage.wrong(sequence, self.position.whole);
        self.events.push_back(KeysEvent::PassedOver(fault));
    }

    /// Messages that this hub lacks are in a snapshot of this reign. If it is a later one, another
    /// hub has become primary meanwhile: this one is deposed, and loads the keys again.
    pub fn note_reign_of_snapshot(&mut self, epoch: u64, now_ns: u64) {
        let is_over = self.role == KeysRole::Primary
            && self.has_doubts()
            && epoch > self.position.epoch
            && !self.is_alone(now_ns);
        if is_over {
            self.depose();
        }
    }

    /// Whether this hub is the primary, and has had the lease ever since its fence: no other hub
    /// can have begun a reign, or acknowledged anything.
    fn is_alone(&self, now_ns: u64) -> bool {
        let epoch = self.lease.epoch(now_ns);
        self.role == KeysRole::Primary
            && self.candidacy.is_none()
            && epoch.is_some()
            && epoch == self.lease_epoch
    }

    /// Whether the primary goes on behind a message that no hub can read. It has all keys in
    /// memory, so it stores a snapshot behind that message, and acknowledges nothing until then.
    ///
    /// A message that is missing is not passed over: another copy may have it, and it may be the
    /// fence of a hub that had the lease before, and came late.
    pub(super) fn passes_over(&mut self, fault: &KeysFault, sequence: u64, now_ns: u64) -> bool {
        let is_wrong = matches!(
            fault,
            KeysFault::Damaged { .. } | KeysFault::Contradiction { .. }
        );
        if !is_wrong || !self.is_alone(now_ns) || self.position.pass_over(sequence).is_err() {
            return false;
        }
        self.coverage.wrong(sequence, self.position.whole);
        self.events.push_back(KeysEvent::PassedOver(fault.clone()));
        true
    }

    /// Notes that messages seem to be missing, and fails if that lasts. While a primary answers
    /// that it stores a snapshot, a hub without one waits, and serves nothing that is old.
    pub(super) fn lacks(&mut self, fault: KeysFault, now_ns: u64) {
        let since_ns = *self.lacks_since_ns.get_or_insert(now_ns);
        self.target = None;
        self.next_ns = now_ns.saturating_add(self.config.retry_ns);
        let is_in_snapshots = matches!(
            fault,
            KeysFault::Hole { .. } | KeysFault::Damaged { .. } | KeysFault::Contradiction { .. }
        );
        let (patience_ns, heard_ns) = match fault {
            KeysFault::Gone { .. } | KeysFault::Replaced { .. } => (self.config.gone_ns, 0),
            _ if is_in_snapshots => (self.config.doubt_ns, self.answered_ns),
            _ => (self.config.doubt_ns, 0),
        };
        if now_ns.saturating_sub(since_ns.max(heard_ns)) >= patience_ns {
            return self.fail(fault);
        }
        if now_ns.saturating_sub(since_ns) >= patience_ns && self.role == KeysRole::Standby {
            (self.role, self.must_read) = (KeysRole::Loading, true);
        }
        // A copy that is only behind has it a moment later.
        let is_lasting = now_ns.saturating_sub(since_ns) >= self.config.look_ns;
        // The primary stores snapshots itself, unless another hub may have become that.
        let may_load = self.own.is_none() || !self.is_alone(now_ns);
        if is_lasting && is_in_snapshots && may_load {
            self.events.push_back(KeysEvent::Lacking);
        }
    }
}
