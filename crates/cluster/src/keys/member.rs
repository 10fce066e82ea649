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

use std::collections::VecDeque;

use super::coverage::{Coverage, KeysExtent};
use super::frame::{HistoryId, KeysEntry, KeysHeader};
use super::interface::{KeysAction, KeysConfig, KeysEvent, KeysFigures, KeysRole, Outcome};
use super::position::{Effect, KeysFault, KeysPosition};
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

    fn fence_stored(&mut self, header: KeysHeader, outcome: Outcome, now_ns: u64) {
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

    /// A message is perhaps not stored: the stream tells.
    fn doubt(&mut self, outcome: Outcome, now_ns: u64) {
        self.uncertain += 1;
        let is_answer = matches!(outcome, Outcome::Refused);
        let pause_ns = if is_answer { 0 } else { self.config.retry_ns };
        self.read_again(now_ns.saturating_add(pause_ns));
    }

    fn read_again(&mut self, next_ns: u64) {
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
        if self.asked == Asked::End(request) || self.asked == Asked::Entries(request) {
            self.asked = Asked::Nothing;
            self.next_ns = now_ns.saturating_add(self.config.retry_ns);
        }
    }

    /// The log no longer has bytes that are to be appended.
    pub fn log_is_trimmed(&mut self, offset: u64) {
        self.fail(KeysFault::Trimmed(offset));
    }

    /// Whether the primary goes on behind a message that no hub can read. It has all keys in
    /// memory, so it stores a snapshot behind that message, and acknowledges nothing until then.
    ///
    /// It must have had the lease ever since its fence: no other hub can have begun a reign that
    /// this message is of, and no other hub has acknowledged anything.
    fn passes_over(&mut self, fault: &KeysFault, sequence: u64, now_ns: u64) -> bool {
        let is_wrong = matches!(
            fault,
            KeysFault::Damaged { .. } | KeysFault::Contradiction { .. }
        );
        let epoch = self.lease.epoch(now_ns);
        let is_alone = self.role == KeysRole::Primary
            && self.candidacy.is_none()
            && epoch.is_some()
            && epoch == self.lease_epoch;
        if !is_wrong || !is_alone || self.position.pass_over(sequence).is_err() {
            return false;
        }
        self.coverage.wrong(sequence, self.position.whole);
        self.events.push_back(KeysEvent::PassedOver(fault.clone()));
        true
    }

    /// Returns the last message that this hub has passed over as the primary, 0 for none: readers
    /// need a snapshot behind it.
    pub fn wrong_message(&self) -> u64 {
        self.coverage.wrong_message()
    }

    /// Notes that messages seem to be missing, and fails if that lasts.
    fn lacks(&mut self, fault: KeysFault, now_ns: u64) {
        let since_ns = *self.lacks_since_ns.get_or_insert(now_ns);
        self.target = None;
        self.next_ns = now_ns.saturating_add(self.config.retry_ns);
        let patience_ns = match fault {
            KeysFault::Gone { .. } | KeysFault::Replaced { .. } => self.config.gone_ns,
            _ => self.config.doubt_ns,
        };
        if now_ns.saturating_sub(since_ns) >= patience_ns {
            self.fail(fault);
            return;
        }
        // A copy that is only behind has it a moment later.
        let is_lasting = now_ns.saturating_sub(since_ns) >= self.config.look_ns;
        let is_in_snapshots = matches!(
            fault,
            KeysFault::Hole { .. } | KeysFault::Damaged { .. } | KeysFault::Contradiction { .. }
        );
        if is_lasting && is_in_snapshots && self.own.is_none() {
            self.events.push_back(KeysEvent::Lacking);
        }
    }

    fn fail(&mut self, fault: KeysFault) {
        if self.role != KeysRole::Failed {
            self.role = KeysRole::Failed;
            self.sent.clear();
            self.end();
            self.events.push_back(KeysEvent::Failed(fault));
        }
    }

    /// Begins to become primary, once for each time that the lease is got.
    fn follow_lease(&mut self, now_ns: u64) {
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

    /// Whether the stream is read now.
    fn reads(&self) -> bool {
        match self.role {
            KeysRole::Primary => self.must_read,
            KeysRole::Deposed | KeysRole::Failed | KeysRole::Rebuilding => false,
            _ => self.candidacy.is_none_or(|one| one.fence.is_none()),
        }
    }

    /// Whether the stream is looked at, besides what is read.
    fn looks(&self) -> bool {
        let is_at_end = matches!(self.role, KeysRole::Primary | KeysRole::Standby);
        is_at_end && !self.must_read
    }

    /// Asks from time to time whether the stream still has what it had: appends and reads do not
    /// show that.
    fn look_at_all(&mut self, now_ns: u64) {
        if self.looked.is_none() && self.looks() && now_ns >= self.look_ns {
            self.request += 1;
            let request = self.request;
            self.looked = Some((request, self.position.sequence));
            self.look_ns = now_ns.saturating_add(self.config.look_ns);
            self.actions.push_back(KeysAction::AskEnd { request });
        }
    }

    /// Asks for the end of the stream, or for messages, or ends reading.
    fn look(&mut self, now_ns: u64) {
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
    fn end_reading(&mut self, now_ns: u64) {
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
            let header = KeysHeader {
                is_fence: true,
                is_whole: true,
                // A bucket that was made again may count from 1.
                epoch: candidacy
                    .lease_epoch
                    .max(self.position.epoch.saturating_add(1)),
                offset,
                history: candidacy.history,
            };
            // What other readers would not take is not written.
            let mut next = self.position;
            if let Err(fault) = next.read(sequence.saturating_add(1), &header.with_body(b"")) {
                return self.fail(fault);
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

    fn entry(&mut self, entry: KeysEntry<'_>) -> Result<(), KeysFault> {
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

    fn fence_read(&mut self, address: &[u8]) {
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

    fn depose(&mut self) {
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

    /// Limits the bytes of a message's body: the servers take no more.
    pub fn limit_body(&mut self, bytes_max: usize) {
        debug_assert!(bytes_max > 0, "a message has a body");
        self.config.body_bytes_max = self.config.body_bytes_max.min(bytes_max);
    }

    /// Whether a reign is one that this hub has tried to begin with the keys that it has.
    fn is_mine(&self, history: &HistoryId) -> bool {
        let mut number = [0; 8];
        number.copy_from_slice(&history[12..]);
        history[..12] == self.config.seed && u64::from_le_bytes(number) > self.reigns_before
    }

    /// The fence of this hub is in the stream, and all before it is read.
    fn begin_reign(&mut self) {
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

    /// Appends what the log has, as far as messages may be on their way.
    fn append(&mut self, log_end: u64) {
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
