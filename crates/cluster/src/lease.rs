//! Which of several hubs owns a source: an entry of a key-value bucket that expires unless it is
//! renewed.
//!
//! ```text
//!  Standby ── create, or renew an entry of this process's last reign ──▶ Owner { epoch }
//!     ▲                                                                     │
//!     └── not renewed for long enough, or another hub's entry is there ─────┘
//! ```
//!
//! A bucket whose settings were changed lets entries expire too early. So a standby that has seen
//! another hub's entry takes over only once that hub has stopped by its own clock.
//!
//! The owner stops by its own clock before the entry can expire at the server. It counts from when
//! the last renewal that succeeded was *sent*: the server cannot have got it earlier.

use std::collections::VecDeque;
use std::time::Duration;

/// How long an entry lives without being written again, by the clock of NATS.
pub const ENTRY_AGE: Duration = Duration::from_secs(3);

/// Returns the first sequence of a stream that is made at this time: a stream, or a bucket, that is
/// made again goes on above the one before, whose messages were fewer than 10 in a millisecond.
pub fn first_sequence(wall_ms: u64) -> u64 {
    wall_ms.saturating_mul(SEQUENCES_A_MILLISECOND)
}

const SEQUENCES_A_MILLISECOND: u64 = 10;

/// How long a standby reads nothing but what is no lease until it writes over it.
const FOREIGN_NS: u64 = 30_000_000_000;

/// Settings of a lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseConfig {
    /// Time from one renewal to the next.
    pub renew_ns: u64,
    /// Time after the last renewal that succeeded until the owner stops. Less than that after
    /// which the bucket's entries expire.
    pub hold_ns: u64,
    /// Time from one attempt of a standby to the next.
    pub poll_ns: u64,
}

impl Default for LeaseConfig {
    /// For a bucket whose entries expire after [`ENTRY_AGE`].
    fn default() -> Self {
        LeaseConfig {
            renew_ns: 1_000_000_000,
            hold_ns: 2_500_000_000,
            poll_ns: 500_000_000,
        }
    }
}

/// An entry of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its revision.
    pub revision: u64,
    /// Whether its value is that which this process writes.
    pub is_ours: bool,
}

/// Returns whether an entry's value is a lease that a hub has written. Another client can have NATS
/// write its own answers there, or what a stream has stored.
pub fn is_mark(value: &[u8]) -> bool {
    let Some(rest) = value.strip_prefix(b"{\"hub\":\"") else {
        return false;
    };
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let length = rest.iter().take_while(|byte| is_of_name(byte)).count();
    let rest = &rest[length..];
    let process = rest.strip_prefix(b"\",\"process\":\"");
    let process = process.and_then(|rest| rest.strip_suffix(b"\"}"));
    let session = rest.strip_prefix(b"\",\"session\":");
    let session = session.and_then(|rest| rest.strip_suffix(b"}"));
    let number = process.or(session).unwrap_or_default();
    length > 0 && !number.is_empty() && number.iter().all(u8::is_ascii_hexdigit)
}

/// What the caller must do. Answer with the request's number, or report its failure; answers to
/// earlier requests are ignored, because they would seem to be younger than they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// Create the entry, unless there is one: [`Lease::written`], [`Lease::refused`] or
    /// [`Lease::failed`].
    Create {
        /// Number of the request.
        request: u64,
    },
    /// Write the entry again, if its revision is still this: the same answers.
    Renew {
        /// Number of the request.
        request: u64,
        /// The revision.
        revision: u64,
    },
    /// Read the entry: [`Lease::read`], [`Lease::read_deletion`], [`Lease::read_foreign`] or
    /// [`Lease::failed`].
    Read {
        /// Number of the request.
        request: u64,
    },
    /// Delete the entry, if its revision is still this. No answer is needed.
    Delete {
        /// The revision.
        revision: u64,
    },
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEvent {
    /// This hub owns the source. The revision is the epoch of the reign.
    Acquired {
        /// The epoch.
        epoch: u64,
    },
    /// This hub does not own the source any more: stop publishing at once.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// The entry is being written.
    Write,
    Read,
}

/// Another hub, as its entry was seen last.
#[derive(Clone, Copy, Debug)]
struct Rival {
    /// The revision of its entry, or of what has taken its place.
    revision: u64,
    /// When this revision was seen first.
    since_ns: u64,
    /// When it has stopped by its own clock; known once its entry is gone.
    stops_ns: Option<u64>,
}

/// One hub's part in the choice of a source's owner.
#[derive(Debug)]
pub struct Lease {
    config: LeaseConfig,
    /// The epoch, while this hub is the owner.
    epoch: Option<u64>,
    /// Revision of the entry, if it is known to be this process's own.
    revision: Option<u64>,
    /// Until when this hub may act as the owner.
    held_until_ns: u64,
    asked: Asked,
    /// Number of the newest request.
    request: u64,
    /// When the newest request was made.
    asked_ns: u64,
    /// When the next request is made.
    next_ns: u64,
    /// Whether the entry must be read before anything else.
    must_read: bool,
    /// Writes that were refused, one after the other.
    refusals: u32,
    /// The hub that may be the owner still.
    rival: Option<Rival>,
    /// Since when only entries that are no leases were read.
    foreign_ns: Option<u64>,
    has_ended: bool,
    actions: VecDeque<LeaseAction>,
    events: VecDeque<LeaseEvent>,
}

impl Lease {
    /// Creates a standby that tries to become the owner at once.
    pub fn new(config: LeaseConfig, now_ns: u64) -> Lease {
        debug_assert!(
            config.renew_ns < config.hold_ns,
            "several renewals must fit"
        );
        Lease {
            config,
            epoch: None,
            revision: None,
            held_until_ns: 0,
            asked: Asked::Nothing,
            request: 0,
            asked_ns: now_ns,
            next_ns: now_ns,
            must_read: false,
            refusals: 0,
            rival: None,
            foreign_ns: None,
            has_ended: false,
            actions: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Ends a reign whose time is over. An owner whose bucket cannot be reached calls this alone.
    pub fn expire(&mut self, now_ns: u64) {
        if self.epoch.is_some() && now_ns >= self.held_until_ns {
            self.lose();
            self.next_ns = now_ns;
        }
    }

    /// Does what is due. Call it before each action of an owner, and at [`Lease::deadline_ns`].
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.expire(now_ns);
        if self.asked != Asked::Nothing && now_ns >= self.asked_ns + self.config.hold_ns {
            // No answer counts as a failure.
            self.failed(self.request, now_ns);
        }
        if self.has_ended || self.asked != Asked::Nothing || now_ns < self.next_ns {
            return;
        }
        self.request += 1;
        let request = self.request;
        let (action, asked) = match (self.must_read, self.revision) {
            (true, _) => (LeaseAction::Read { request }, Asked::Read),
            (false, Some(revision)) => (LeaseAction::Renew { request, revision }, Asked::Write),
            (false, None) => (LeaseAction::Create { request }, Asked::Write),
        };
        self.asked = asked;
        self.asked_ns = now_ns;
        self.actions.push_back(action);
    }

    /// Reports that the entry was written, with this revision.
    pub fn written(&mut self, request: u64, revision: u64, now_ns: u64) {
        if self.asked != Asked::Write || request != self.request {
            return;
        }
        self.asked = Asked::Nothing;
        self.refusals = 0;
        self.revision = Some(revision);
        let held_until_ns = self.asked_ns.saturating_add(self.config.hold_ns);
        self.next_ns = self.asked_ns.saturating_add(self.config.renew_ns);
        if self.has_ended {
            self.actions.push_back(LeaseAction::Delete { revision });
        } else if self.epoch.is_some() {
            self.held_until_ns = self.held_until_ns.max(held_until_ns);
        } else if let Some(stops_ns) = self.rival_stops_ns(now_ns).filter(|&at| now_ns < at) {
            self.next_ns = self.next_ns.min(stops_ns).max(now_ns);
        } else if now_ns < held_until_ns {
            self.held_until_ns = held_until_ns;
            self.epoch = Some(revision);
            self.rival = None;
            self.foreign_ns = None;
            self.events
                .push_back(LeaseEvent::Acquired { epoch: revision });
        } else {
            // The answer was on its way for too long: the entry may expire at any time.
            self.next_ns = now_ns;
        }
    }

    /// Returns when the hub whose entry was there before has stopped. An entry that was seen for
    /// nearly as long as it lives was not renewed. Any other one was taken away, perhaps right
    /// after it was renewed.
    fn rival_stops_ns(&mut self, now_ns: u64) -> Option<u64> {
        let LeaseConfig {
            hold_ns, poll_ns, ..
        } = self.config;
        let rival = self.rival.as_mut()?;
        let seen_ns = now_ns.saturating_sub(rival.since_ns);
        let last_ns = match seen_ns >= hold_ns - poll_ns {
            true => rival.since_ns,
            false => now_ns,
        };
        Some(
            *rival
                .stops_ns
                .get_or_insert(last_ns.saturating_add(hold_ns)),
        )
    }

    /// Reports that the entry was not written: there is one, or it has another revision.
    pub fn refused(&mut self, request: u64, now_ns: u64) {
        if self.asked == Asked::Write && request == self.request {
            // A write whose answer was lost is perhaps what is in the way.
            self.asked = Asked::Nothing;
            self.must_read = true;
            self.refusals += 1;
            self.next_ns = match self.refusals {
                1 => now_ns,
                // What is read does not explain it. The server is not asked in a loop.
                _ => now_ns.saturating_add(self.config.renew_ns / 4),
            };
        }
    }

    /// Reports the entry as it was read; `None` if there is none.
    pub fn read(&mut self, request: u64, entry: Option<Entry>, now_ns: u64) {
        if self.asked != Asked::Read || request != self.request {
            return;
        }
        self.asked = Asked::Nothing;
        self.must_read = false;
        self.foreign_ns = None;
        match entry {
            Some(entry) if entry.is_ours => {
                self.revision = Some(entry.revision);
                self.next_ns = now_ns;
            }
            Some(entry) => {
                self.lose();
                self.note_rival(entry.revision, now_ns);
                self.refusals = 0;
                self.next_ns = now_ns.saturating_add(self.config.poll_ns);
            }
            None => {
                // It has expired: another hub may have had it in between.
                self.lose();
                self.next_ns = now_ns;
            }
        }
    }

    /// Reports that the entry was deleted: what is left of it has this revision, and is written
    /// over.
    pub fn read_deletion(&mut self, request: u64, revision: u64, now_ns: u64) {
        if self.asked == Asked::Read && request == self.request {
            self.read(request, None, now_ns);
            self.revision = Some(revision);
            self.rival = None;
        }
    }

    /// Reports that the entry is no lease ([`is_mark`]): it has taken the place of one. The owner
    /// writes over it at once. A standby waits: the owner's lease may be there between two reads.
    pub fn read_foreign(&mut self, request: u64, revision: u64, now_ns: u64) {
        if self.asked != Asked::Read || request != self.request {
            return;
        }
        self.asked = Asked::Nothing;
        self.must_read = false;
        if self.epoch.is_none() {
            self.note_rival(revision, now_ns);
            let since_ns = *self.foreign_ns.get_or_insert(now_ns);
            if now_ns < since_ns.saturating_add(FOREIGN_NS) {
                self.revision = None;
                self.refusals = 0;
                self.next_ns = now_ns.saturating_add(self.config.poll_ns);
                return;
            }
        }
        self.revision = Some(revision);
        self.next_ns = now_ns;
    }

    /// Notes the revision of an entry that this hub has not written.
    fn note_rival(&mut self, revision: u64, now_ns: u64) {
        if self.rival.is_none_or(|rival| rival.revision != revision) {
            self.rival = Some(Rival {
                revision,
                since_ns: now_ns,
                stops_ns: None,
            });
        }
    }

    /// Reports that the bucket has not answered.
    pub fn failed(&mut self, request: u64, now_ns: u64) {
        if self.asked == Asked::Nothing || request != self.request {
            return;
        }
        if self.asked == Asked::Write {
            self.must_read = true;
        }
        self.asked = Asked::Nothing;
        self.next_ns = now_ns.saturating_add(self.config.renew_ns / 4);
    }

    /// Reports, from a watch of the bucket, that the entry was deleted or has expired.
    pub fn entry_is_gone(&mut self, now_ns: u64) {
        if self.epoch.is_none() {
            self.revision = None;
            self.next_ns = self.next_ns.min(now_ns);
        } else {
            self.must_read = true;
            self.next_ns = now_ns;
        }
    }

    /// Gives the source up in order.
    pub fn end(&mut self) {
        if self.has_ended {
            return;
        }
        self.has_ended = true;
        if let Some(revision) = self.revision.filter(|_| self.asked == Asked::Nothing) {
            self.actions.push_back(LeaseAction::Delete { revision });
        }
        self.lose();
    }

    /// Returns the epoch if this hub is the owner at this time.
    pub fn epoch(&self, now_ns: u64) -> Option<u64> {
        self.epoch.filter(|_| now_ns < self.held_until_ns)
    }

    /// Returns until when this hub may act as the owner, if [`Lease::epoch`] says that it is.
    pub fn held_until_ns(&self) -> u64 {
        self.held_until_ns
    }

    /// Returns the next thing to do.
    pub fn next_action(&mut self) -> Option<LeaseAction> {
        self.actions.pop_front()
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<LeaseEvent> {
        self.events.pop_front()
    }

    /// Returns when [`Lease::handle_timeout`] must be called.
    pub fn deadline_ns(&self) -> u64 {
        let held_ns = self.epoch.map_or(u64::MAX, |_| self.held_until_ns);
        let work_ns = match (self.has_ended, self.asked) {
            (true, _) => u64::MAX,
            (false, Asked::Nothing) => self.next_ns,
            (false, _) => self.asked_ns.saturating_add(self.config.hold_ns),
        };
        held_ns.min(work_ns)
    }

    fn lose(&mut self) {
        self.revision = None;
        if self.epoch.take().is_some() {
            self.events.push_back(LeaseEvent::Lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn lease() -> Lease {
        Lease::new(LeaseConfig::default(), 0)
    }

    /// An action without its number.
    #[derive(Debug, PartialEq, Eq)]
    enum Did {
        Create,
        Renew { revision: u64 },
        Read,
    }

    fn act(lease: &mut Lease, now_ns: u64) -> Option<Did> {
        lease.handle_timeout(now_ns);
        let action = lease.next_action();
        assert_eq!(lease.next_action(), None, "one at a time");
        match action? {
            LeaseAction::Create { .. } => Some(Did::Create),
            LeaseAction::Renew { revision, .. } => Some(Did::Renew { revision }),
            LeaseAction::Read { .. } => Some(Did::Read),
            LeaseAction::Delete { .. } => None,
        }
    }

    fn owner() -> Lease {
        let mut lease = lease();
        assert_eq!(act(&mut lease, 0), Some(Did::Create));
        lease.written(lease.request, 7, 1);
        assert_eq!(lease.next_event(), Some(LeaseEvent::Acquired { epoch: 7 }));
        lease
    }

    #[test]
    fn the_revision_of_the_first_write_is_the_epoch() {
        let mut lease = owner();
        assert_eq!(act(&mut lease, SECOND / 2), None);
        assert_eq!(act(&mut lease, SECOND), Some(Did::Renew { revision: 7 }));
        lease.written(lease.request, 9, SECOND + 5);
        assert_eq!(lease.epoch(3 * SECOND), Some(7));
        assert_eq!(
            act(&mut lease, 2 * SECOND),
            Some(Did::Renew { revision: 9 })
        );
        assert_eq!(lease.next_event(), None);
    }

    #[test]
    fn an_owner_stops_before_its_entry_can_expire() {
        let mut lease = owner();
        assert_eq!(act(&mut lease, SECOND), Some(Did::Renew { revision: 7 }));
        // The answer does not come.
        assert_eq!(lease.epoch(5 * SECOND / 2 - 1), Some(7));
        assert_eq!(lease.epoch(5 * SECOND / 2), None);
        assert_eq!(lease.deadline_ns(), 5 * SECOND / 2);
        lease.handle_timeout(5 * SECOND / 2);
        assert_eq!(lease.next_event(), Some(LeaseEvent::Lost));
    }

    /// An owner that was cut off said that it was one until its link was back.
    #[test]
    fn a_reign_without_a_link_ends_by_the_clock_and_asks_for_nothing() {
        let mut lease = owner();
        lease.expire(5 * SECOND / 2 - 1);
        assert_eq!(lease.next_event(), None);
        lease.expire(5 * SECOND / 2);
        assert_eq!(lease.next_event(), Some(LeaseEvent::Lost));
        assert_eq!((lease.next_action(), lease.epoch(0)), (None, None));
    }

    /// The process was stopped (SIGSTOP), and another hub has taken over.
    #[test]
    fn an_owner_that_was_stopped_knows_that_it_is_none() {
        let mut lease = owner();
        let now_ns = 60 * SECOND;
        assert_eq!(act(&mut lease, now_ns), Some(Did::Create));
        assert_eq!(lease.next_event(), Some(LeaseEvent::Lost));
        lease.refused(lease.request, now_ns);
        assert_eq!(act(&mut lease, now_ns), Some(Did::Read));
        let is_ours = false;
        lease.read(
            lease.request,
            Some(Entry {
                revision: 20,
                is_ours,
            }),
            now_ns,
        );
        assert_eq!(act(&mut lease, now_ns), None);
        let now_ns = now_ns + 3 * SECOND;
        lease.entry_is_gone(now_ns);
        assert_eq!(act(&mut lease, now_ns), Some(Did::Create));
        lease.written(lease.request, 31, now_ns + 2);
        assert_eq!(lease.next_event(), Some(LeaseEvent::Acquired { epoch: 31 }));
    }

    #[test]
    fn a_renewal_whose_answer_is_lost_does_not_end_the_reign() {
        let mut lease = owner();
        assert_eq!(act(&mut lease, SECOND), Some(Did::Renew { revision: 7 }));
        lease.failed(lease.request, 3 * SECOND / 2);
        let now_ns = 7 * SECOND / 4;
        assert_eq!(act(&mut lease, now_ns), Some(Did::Read));
        let is_ours = true;
        lease.read(
            lease.request,
            Some(Entry {
                revision: 8,
                is_ours,
            }),
            now_ns,
        );
        assert_eq!(act(&mut lease, now_ns), Some(Did::Renew { revision: 8 }));
        lease.written(lease.request, 9, now_ns + 1);
        assert_eq!(lease.epoch(4 * SECOND), Some(7));
        assert_eq!(lease.next_event(), None);
    }

    /// Its time is that of the answer's request, not that of the answer.
    #[test]
    fn an_answer_that_comes_too_late_acquires_nothing() {
        let mut lease = lease();
        assert_eq!(act(&mut lease, 0), Some(Did::Create));
        lease.written(lease.request, 7, 5 * SECOND / 2);
        assert_eq!(
            (lease.next_event(), lease.epoch(5 * SECOND / 2)),
            (None, None)
        );
        let renew = Some(Did::Renew { revision: 7 });
        assert_eq!(act(&mut lease, 5 * SECOND / 2), renew);
        lease.written(lease.request, 8, 5 * SECOND / 2 + 1);
        assert_eq!(lease.next_event(), Some(LeaseEvent::Acquired { epoch: 8 }));
    }

    /// The first renewal's answer would count from when the second was sent.
    #[test]
    fn the_answer_to_an_earlier_request_is_ignored() {
        let mut lease = owner();
        act(&mut lease, SECOND);
        let first = lease.request;
        lease.failed(first, 3 * SECOND / 2);
        let now_ns = 7 * SECOND / 4;
        act(&mut lease, now_ns);
        let is_ours = true;
        lease.read(
            lease.request,
            Some(Entry {
                revision: 8,
                is_ours,
            }),
            now_ns,
        );
        act(&mut lease, 2 * SECOND);
        lease.written(first, 8, 2 * SECOND + 1);
        assert_eq!(lease.epoch(5 * SECOND / 2), None);
    }

    /// A standby asked the bucket thousands of times a second until what a deletion leaves had
    /// expired.
    #[test]
    fn an_entry_that_was_deleted_is_written_over() {
        let mut lease = lease();
        assert_eq!(act(&mut lease, 0), Some(Did::Create));
        lease.refused(lease.request, 1);
        assert_eq!(act(&mut lease, 1), Some(Did::Read));
        lease.read_deletion(lease.request, 9, 2);
        assert_eq!(act(&mut lease, 2), Some(Did::Renew { revision: 9 }));
        lease.written(lease.request, 10, 3);
        assert_eq!(lease.next_event(), Some(LeaseEvent::Acquired { epoch: 10 }));
    }

    #[test]
    fn a_bucket_that_refuses_without_a_reason_is_not_asked_in_a_loop() {
        let mut lease = lease();
        let (mut now_ns, mut count) = (0, 0);
        while now_ns < 10 * SECOND {
            match act(&mut lease, now_ns) {
                Some(Did::Create) => lease.refused(lease.request, now_ns),
                Some(Did::Read) => lease.read(lease.request, None, now_ns),
                _ => {}
            }
            count += 1;
            now_ns = lease.deadline_ns().max(now_ns + 1);
        }
        assert!(count < 100, "{count} requests in 10 s");
    }

    fn reads(lease: &mut Lease, revision: u64, now_ns: u64) {
        assert_eq!(act(lease, now_ns), Some(Did::Create));
        lease.refused(lease.request, now_ns);
        assert_eq!(act(lease, now_ns), Some(Did::Read));
        let is_ours = false;
        lease.read(lease.request, Some(Entry { revision, is_ours }), now_ns);
    }

    /// Entries lived for 100 ms, and two hubs said at once that they were the primary.
    #[test]
    fn an_entry_that_vanishes_early_may_be_of_an_owner_that_goes_on() {
        let mut lease = lease();
        for half in 0..4 {
            // It is renewed each second.
            reads(&mut lease, 7 + half / 2, half * SECOND / 2);
        }
        let gone_ns = 2 * SECOND;
        assert_eq!(act(&mut lease, gone_ns), Some(Did::Create));
        lease.written(lease.request, 9, gone_ns);
        assert_eq!((lease.next_event(), lease.epoch(gone_ns)), (None, None));
        let (mut now_ns, mut revision) = (gone_ns, 9);
        while lease.epoch(now_ns).is_none() {
            now_ns = lease.deadline_ns();
            assert_eq!(act(&mut lease, now_ns), Some(Did::Renew { revision }));
            revision += 1;
            lease.written(lease.request, revision, now_ns);
        }
        assert_eq!(
            now_ns,
            gone_ns + 5 * SECOND / 2,
            "it has stopped by its own clock"
        );
        assert_eq!(
            lease.next_event(),
            Some(LeaseEvent::Acquired { epoch: revision })
        );
    }

    #[test]
    fn an_entry_that_has_expired_is_replaced_without_delay() {
        let mut lease = lease();
        for half in 0..6 {
            reads(&mut lease, 7, half * SECOND / 2);
        }
        let now_ns = 3 * SECOND;
        assert_eq!(act(&mut lease, now_ns), Some(Did::Create));
        lease.written(lease.request, 9, now_ns);
        assert_eq!(lease.next_event(), Some(LeaseEvent::Acquired { epoch: 9 }));
    }

    /// An answer of NATS about a stream, in place of the lease, suspended the primary.
    #[test]
    fn what_is_no_lease_is_written_over_by_the_owner_at_once_and_by_others_later() {
        let mut lease = owner();
        assert_eq!(act(&mut lease, SECOND), Some(Did::Renew { revision: 7 }));
        lease.refused(lease.request, SECOND);
        assert_eq!(act(&mut lease, SECOND), Some(Did::Read));
        lease.read_foreign(lease.request, 8, SECOND);
        assert_eq!(act(&mut lease, SECOND), Some(Did::Renew { revision: 8 }));
        lease.written(lease.request, 9, SECOND);
        assert_eq!(
            (lease.next_event(), lease.epoch(3 * SECOND)),
            (None, Some(7))
        );

        // A standby sees nothing else, because it is put there again and again.
        let mut other = self::lease();
        reads(&mut other, 7, 0);
        let (mut now_ns, mut revision) = (SECOND / 2, 8);
        let written_ns = loop {
            match act(&mut other, now_ns) {
                Some(Did::Create) => other.refused(other.request, now_ns),
                Some(Did::Read) => {
                    revision += 2;
                    other.read_foreign(other.request, revision, now_ns);
                }
                Some(Did::Renew { revision: found }) if found == revision => break now_ns,
                _ => now_ns = other.deadline_ns(),
            }
        };
        assert_eq!(written_ns, SECOND / 2 + FOREIGN_NS);
        // The owner learns of it meanwhile, or has stopped.
        other.written(other.request, 99, written_ns);
        assert_eq!(other.epoch(written_ns), None);
        while other.epoch(now_ns).is_none() {
            now_ns = other.deadline_ns();
            act(&mut other, now_ns);
            other.written(other.request, 100, now_ns);
        }
        assert_eq!(now_ns, written_ns + 5 * SECOND / 2);
    }

    #[test]
    fn leases_are_told_from_what_nats_answers() {
        for mark in [
            &br#"{"hub":"hub-1","session":4294967295}"#[..],
            br#"{"hub":"a_B","process":"00ff00ff00ff00ff00ff00ff"}"#,
        ] {
            assert!(is_mark(mark), "{}", mark.escape_ascii());
        }
        for other in [
            &b""[..],
            br#"{"type":"io.nats.jetstream.api.v1.stream_info_response","total":0}"#,
            br#"{"stream":"TW_desk_LOG_a","seq":7}"#,
            br#"{"hub":"","session":1}"#,
            br#"{"hub":"a","session":}"#,
            br#"{"hub":"a","session":1"#,
            br#"{"hub":"a","process":"x"}"#,
            br#"{"hub":"a","process":"0}"#,
        ] {
            assert!(!is_mark(other), "{}", other.escape_ascii());
        }
    }

    #[test]
    fn an_orderly_end_deletes_the_entry() {
        let mut lease = owner();
        lease.end();
        assert_eq!(
            lease.next_action(),
            Some(LeaseAction::Delete { revision: 7 })
        );
        assert_eq!(lease.next_event(), Some(LeaseEvent::Lost));
        assert_eq!(
            (act(&mut lease, 9 * SECOND), lease.deadline_ns()),
            (None, u64::MAX)
        );
    }
}
