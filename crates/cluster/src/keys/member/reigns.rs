//! Reigns: how one begins with the lease and a fence, and how it ends.

use super::{Candidacy, KeysMember};
use crate::keys::frame::{HistoryId, KeysHeader};
use crate::keys::interface::{KeysAction, KeysEvent, KeysRole, Outcome};
use crate::keys::position::KeysPosition;

impl KeysMember {
    /// Begins to become primary, once for each time that the lease is got.
    pub(super) fn follow_lease(&mut self, now_ns: u64) {
        let Some(epoch) = self.lease.epoch(now_ns) else {
            if self.candidacy.is_some_and(|one| one.fence.is_none()) {
                self.candidacy = None;
            }
            if self.role == KeysRole::Primary && !self.must_read && self.sent.is_empty() {
                // Another hub may be primary, and nothing that is appended would show it.
                self.read_again(self.next_ns.max(now_ns));
            }
            return;
        };
        if self.lease_epoch == Some(epoch) {
            return;
        }
        if self.candidacy.is_some_and(|one| one.fence.is_some()) {
            // Its answer comes first.
            return;
        }
        self.lease_epoch = Some(epoch);
        self.reigns += 1;
        let mut history = [0; 20];
        history[..12].copy_from_slice(&self.config.seed);
        history[12..].copy_from_slice(&self.reigns.to_le_bytes());
        self.candidacy = Some(Candidacy {
            history,
            lease_epoch: epoch,
            fence: None,
        });
        self.read_again(now_ns);
    }

    pub(super) fn fence_stored(&mut self, header: KeysHeader, outcome: Outcome, now_ns: u64) {
        match outcome {
            Outcome::Stored(sequence) if sequence == self.position.sequence + 1 => {
                self.position = KeysPosition {
                    sequence,
                    epoch: header.epoch,
                    history: header.history,
                    end: self.position.whole,
                    ..self.position
                };
                self.begin_reign();
            }
            outcome => self.doubt(outcome, now_ns),
        }
    }

    pub(super) fn fence_read(&mut self, address: &[u8]) {
        self.pending.clear();
        let history = self.position.history;
        if self.candidacy.is_some_and(|one| one.history == history) {
            return self.begin_reign();
        }
        if self.own.is_some() && self.is_mine(&history) {
            // It was given up without an answer, and has come late: nothing is lost. Whether
            // another reign has followed is seen behind it.
            self.own = Some(history);
            return;
        }
        if self.own.is_some() {
            return self.depose();
        }
        self.events.push_back(KeysEvent::Reign {
            history,
            address: address.to_vec(),
        });
    }

    pub(super) fn depose(&mut self) {
        self.role = KeysRole::Deposed;
        self.candidacy = None;
        self.sent.clear();
        // What was to be written is of a reign that is over.
        self.actions
            .retain(|action| matches!(action, KeysAction::Lease(_)));
        self.events.push_back(KeysEvent::Deposed);
    }

    /// The stream has bytes in this hub's reign that are not those of its log. Every other hub has
    /// taken them, so this one loads the keys of the stream.
    pub fn diverges(&mut self) {
        if self.role == KeysRole::Primary {
            self.depose();
        }
    }

    /// Whether a reign is one that this hub has tried to begin with the keys that it has.
    pub(super) fn is_mine(&self, history: &HistoryId) -> bool {
        let mut number = [0; 8];
        number.copy_from_slice(&history[12..]);
        history[..12] == self.config.seed && u64::from_le_bytes(number) > self.reigns_before
    }

    /// The fence of this hub is in the stream, and all before it is read.
    pub(super) fn begin_reign(&mut self) {
        let (history, offset) = (self.position.history, self.position.whole);
        let event = match self.own {
            Some(_) => KeysEvent::Resumed,
            None => {
                self.coverage.begin();
                KeysEvent::Serving { history, offset }
            }
        };
        self.look_ns = 0;
        self.pending.clear();
        self.own = Some(history);
        self.candidacy = None;
        self.role = KeysRole::Primary;
        self.must_read = false;
        self.sent.clear();
        (self.sent_end, self.group_end) = (offset, offset);
        self.events.push_back(event);
    }
}
