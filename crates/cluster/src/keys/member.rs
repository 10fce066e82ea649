//! One hub's part in the keys of a cluster: it follows the stream, and one of the hubs appends.
//!
//! ```text
//!  standby ──lease──▶ candidate ──its fence is stored──▶ primary
//!     ▲                                                    │  a later fence is read
//!     └──────────── all keys are loaded again ◀── deposed ◀┘
//! ```
//!
//! A primary that has no answer, or a refusal, reads the stream behind what it knows. If nothing of
//! another reign is there, it sends the rest again. The same if its lease ended and it got the next
//! one: it writes a fence, which shows that no other hub was primary meanwhile.

mod appending;
mod faults;
mod reading;
mod reigns;

use std::collections::VecDeque;

use super::coverage::Coverage;
use super::frame::{HistoryId, KeysHeader};
use super::interface::{KeysAction, KeysConfig, KeysEvent, KeysFigures, KeysRole};
use super::position::{KeysFault, KeysPosition};
use crate::lease::Lease;

/// A message without an answer.
#[derive(Clone, Copy, Debug)]
struct Sent {
    request: u64,
    expected: u64,
    end: u64,
    is_whole: bool,
    is_stored: bool,
}

/// A reign that is to begin.
#[derive(Clone, Copy, Debug)]
struct Candidacy {
    history: HistoryId,
    /// The lease's revision.
    lease_epoch: u64,
    /// The request that stores the fence, while it is on its way.
    fence: Option<(u64, KeysHeader)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    End(u64),
    Entries(u64),
}

/// One hub's part in the keys of a cluster.
#[derive(Debug)]
pub struct KeysMember {
    config: KeysConfig,
    lease: Lease,
    role: KeysRole,
    position: KeysPosition,
    /// The reign that this hub's log belongs to, if that is its own.
    own: Option<HistoryId>,
    candidacy: Option<Candidacy>,
    /// Revision of the lease under which this hub has become primary, or tries to.
    lease_epoch: Option<u64>,
    /// Reigns that this process has tried to begin, and how many of them before its keys were
    /// loaded for the last time.
    reigns: u64,
    reigns_before: u64,
    request: u64,
    asked: Asked,
    /// Where the stream must be read to before anything is appended; `None`: that is to be asked.
    target: Option<u64>,
    /// Whether the stream is read before anything is appended.
    must_read: bool,
    next_ns: u64,
    sent: VecDeque<Sent>,
    sent_end: u64,
    /// Where the group ends of which a part was sent.
    group_end: u64,
    /// Bytes of another hub's group that is not whole yet.
    pending: Vec<u8>,
    /// Since when the stream has seemed to lack messages.
    lacks_since_ns: Option<u64>,
    /// The last message that is known to have been in the stream, by this hub or another one.
    known: u64,
    /// The look at the stream that has no answer yet, and what this hub had read then.
    looked: Option<(u64, u64)>,
    look_ns: u64,
    /// The question for a message that another hub cannot read, and that message.
    checked: Option<(u64, u64)>,
    /// When the primary answered last that it heals what this hub lacks.
    answered_ns: u64,
    coverage: Coverage,
    uncertain: u64,
    actions: VecDeque<KeysAction>,
    events: VecDeque<KeysEvent>,
}

impl KeysMember {
    /// Creates a member whose keys are those of `position`: none, or a snapshot's.
    pub fn new(config: KeysConfig, position: KeysPosition, now_ns: u64) -> KeysMember {
        let lease = Lease::new(config.lease, now_ns);
        KeysMember {
            config,
            lease,
            role: KeysRole::Loading,
            position,
            own: None,
            candidacy: None,
            lease_epoch: None,
            reigns: 0,
            reigns_before: 0,
            request: 0,
            asked: Asked::Nothing,
            target: None,
            must_read: true,
            next_ns: now_ns,
            sent: VecDeque::new(),
            sent_end: 0,
            group_end: 0,
            pending: Vec::new(),
            lacks_since_ns: None,
            known: 0,
            looked: None,
            look_ns: now_ns,
            checked: None,
            answered_ns: 0,
            coverage: Coverage::default(),
            uncertain: 0,
            actions: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Creates a member that stores the keys of its memory again, because the stream cannot be gone
    /// on with. It tries to get the lease, and does nothing else until [`KeysMember::rebuilt`].
    /// `position` is that of the member before.
    pub fn rebuild(config: KeysConfig, position: KeysPosition, now_ns: u64) -> KeysMember {
        KeysMember {
            role: KeysRole::Rebuilding,
            ..KeysMember::new(config, position, now_ns)
        }
    }

    /// Returns the lease's revision if the keys may be stored again now: no other hub is primary.
    pub fn may_rebuild(&self, now_ns: u64) -> Option<u64> {
        let is_rebuilding = self.role == KeysRole::Rebuilding;
        self.lease.epoch(now_ns).filter(|_| is_rebuilding)
    }

    /// The keys are stored again: a snapshot has them, and the stream goes on behind it. The hub
    /// becomes primary there.
    pub fn rebuilt(&mut self, position: KeysPosition, now_ns: u64) {
        debug_assert_eq!(
            self.role,
            KeysRole::Rebuilding,
            "others keep what they have"
        );
        self.position = position;
        self.role = KeysRole::Standby;
        self.read_again(now_ns);
    }

    /// A deposed hub begins again with these keys.
    pub fn restart(&mut self, position: KeysPosition, now_ns: u64) {
        debug_assert_eq!(self.role, KeysRole::Deposed, "others keep what they have");
        self.know(self.known_message());
        self.coverage.begin();
        self.role = KeysRole::Loading;
        self.position = position;
        self.own = None;
        self.candidacy = None;
        self.lease_epoch = None;
        self.reigns_before = self.reigns;
        self.lacks_since_ns = None;
        self.pending.clear();
        self.read_again(now_ns);
    }

    /// Does what is due. `log_end` is where this hub's log ends now, at the end of a unit.
    pub fn handle_timeout(&mut self, log_end: u64, now_ns: u64) {
        if matches!(self.role, KeysRole::Deposed | KeysRole::Failed) {
            return;
        }
        // A hub that has all keys sooner goes before one that still loads.
        if self.role != KeysRole::Loading {
            self.lease.handle_timeout(now_ns);
            while self.lease.next_event().is_some() {}
            while let Some(action) = self.lease.next_action() {
                self.actions.push_back(KeysAction::Lease(action));
            }
        }
        if self.role == KeysRole::Rebuilding {
            return;
        }
        if self.role != KeysRole::Loading {
            self.follow_lease(now_ns);
        }
        self.look(now_ns);
        self.look_at_all(now_ns);
        self.append(log_end);
    }

    /// The stream had this message: one that has less, or is another one, is none to go on with.
    pub fn know(&mut self, sequence: u64) {
        self.known = self.known.max(sequence);
    }

    /// Returns the last message that is known to have been in the stream, 0 for none.
    pub fn known_message(&self) -> u64 {
        match self.position.epoch {
            // Where a stream without a message begins.
            0 => self.known,
            _ => self.known.max(self.position.sequence),
        }
    }

    /// Returns how far the hub has read.
    pub fn position(&self) -> KeysPosition {
        self.position
    }

    /// Reports the newest snapshot that is stored: the message behind which the stream is read on,
    /// 0 if there is none.
    pub fn has_snapshot(&mut self, sequence: u64) {
        if self.role == KeysRole::Primary {
            self.coverage.snapshot(sequence, self.position.whole);
        }
    }

    /// Whether messages are lost that no snapshot has, so that a snapshot must be stored now.
    pub fn needs_snapshot(&self) -> bool {
        self.role == KeysRole::Primary && self.coverage.is_healed_behind(self.position.sequence)
    }

    /// Gives the lease, to report an answer.
    pub fn lease(&mut self) -> &mut Lease {
        &mut self.lease
    }

    /// Ends the hub's part in order: another one may take over at once.
    pub fn end(&mut self) {
        self.lease.end();
        while let Some(action) = self.lease.next_action() {
            self.actions.push_back(KeysAction::Lease(action));
        }
    }

    /// Returns until when this hub may answer as the primary, 0 if it may not. Writes are safe
    /// without this, because the stream fences them; reads are not.
    pub fn serves_until_ns(&self, now_ns: u64) -> u64 {
        let is_primary = self.role == KeysRole::Primary && self.candidacy.is_none();
        match self.lease.epoch(now_ns) {
            Some(epoch) if is_primary && self.lease_epoch == Some(epoch) => {
                self.lease.held_until_ns()
            }
            _ => 0,
        }
    }

    /// Returns the offset before which everything is acknowledged.
    pub fn durable(&self) -> u64 {
        match self.coverage.frozen() {
            Some(frozen) => frozen.min(self.position.whole),
            None => self.position.whole,
        }
    }

    /// Returns the hub's figures.
    pub fn figures(&self) -> KeysFigures {
        KeysFigures {
            role: match self.candidacy {
                Some(_) if self.role != KeysRole::Primary => KeysRole::Candidate,
                _ => self.role,
            },
            position: self.position,
            in_flight: self.sent.len(),
            uncertain: self.uncertain,
            losses: self.coverage.losses(),
        }
    }

    /// Returns the next thing to do.
    pub fn next_action(&mut self) -> Option<KeysAction> {
        self.actions.pop_front()
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<KeysEvent> {
        self.events.pop_front()
    }

    /// Returns when [`KeysMember::handle_timeout`] must be called.
    pub fn deadline_ns(&self) -> u64 {
        let read_ns = match self.asked {
            Asked::Nothing if self.reads() => self.next_ns,
            _ => u64::MAX,
        };
        let look_ns = match self.looked {
            None if self.looks() => self.look_ns,
            _ => u64::MAX,
        };
        let read_ns = read_ns.min(look_ns);
        match self.role {
            KeysRole::Deposed | KeysRole::Failed => u64::MAX,
            KeysRole::Loading => read_ns,
            _ => read_ns.min(self.lease.deadline_ns()),
        }
    }

    /// Returns the last message that this hub has passed over as the primary, 0 for none: readers
    /// need a snapshot behind it.
    pub fn wrong_message(&self) -> u64 {
        self.coverage.wrong_message()
    }

    fn fail(&mut self, fault: KeysFault) {
        if self.role != KeysRole::Failed {
            self.role = KeysRole::Failed;
            self.sent.clear();
            self.end();
            self.events.push_back(KeysEvent::Failed(fault));
        }
    }
}
