//! The effect of missing messages: values that may be wrong until the messages or the values' own
//! records arrive.

use super::*;

/// Lost messages that no snapshot covers yet. A symbol without any message at `since` or later is
/// still correct. The snapshot's records show which symbols had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    /// First lost sequence.
    since: u64,
    /// One past the last lost sequence.
    until: u64,
    /// When to request a snapshot.
    pub(super) next_request_ns: u64,
    attempts: u32,
}

impl Doubt {
    /// Returns whether a snapshot has a record of every symbol that the lost messages may have
    /// changed.
    fn is_settled_by(&self, notice: &SnapshotNotice) -> bool {
        (1..=self.since).contains(&notice.since) && notice.as_of.saturating_add(1) >= self.until
    }
}

impl Client {
    /// Returns whether it has the values of a snapshot of all its subscriptions, and nothing was
    /// lost since.
    pub fn has_all_values(&self) -> bool {
        self.values_complete
    }

    /// Notes a loss and requests the values changed since, at `ask_ns`.
    pub(super) fn doubt<S: Sink>(&mut self, since: u64, until: u64, ask_ns: u64, sink: &mut S) {
        debug_assert_eq!(
            self.role,
            ReceiverRole::Subscriber,
            "only it gets snapshots"
        );
        if self.doubt.is_none() && self.assemblies.is_empty() {
            self.watched.fill(0);
        }
        let (known_since, known_until) = match &self.doubt {
            Some(known) => (known.since, known.until),
            None => (since, until),
        };
        self.doubt = Some(Doubt {
            since: known_since.min(since),
            until: known_until.max(until),
            next_request_ns: ask_ns,
            attempts: 0,
        });
        self.values_complete = false;
        sink.values_doubtful();
    }

    /// Notes that a snapshot is complete, and reports whether all values are.
    pub(super) fn settle<S: Sink>(&mut self, side: Side, notice: &SnapshotNotice, sink: &mut S) {
        let tells_since = self.sides[side.index()].partial_snapshots;
        if let Some(doubt) = &mut self.doubt {
            if !tells_since || doubt.is_settled_by(notice) {
                self.doubt = None;
            } else if self.assemblies.is_empty() {
                doubt.next_request_ns = 0;
            }
        }
        self.values_complete = self.assemblies.is_empty() && self.doubt.is_none();
        if self.values_complete && !self.tells_overdue {
            sink.values_right();
        }
    }

    /// Returns whether no snapshot replaces what is lost: this client chose so, or gets none.
    pub(super) fn is_final(&self, reason: LossReason) -> bool {
        reason == LossReason::Dropped || self.role == ReceiverRole::Listener
    }

    /// Notes a loss after which no snapshot comes.
    pub(super) fn lose_values<S: Sink>(&mut self, sink: &mut S) {
        self.values_complete = false;
        sink.values_lost();
    }

    /// Reports that all values are in doubt if a hole has been open for too long. A hole names no
    /// symbols, so it may concern each of them.
    pub(super) fn check_overdue<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        self.holes.mark_overdue(now_ns, self.config.doubt_delay_ns);
        if !self.tells_overdue && self.holes.is_overdue() {
            self.tells_overdue = true;
            sink.values_doubtful();
        }
    }

    /// Reports that the values are right again if no hole is overdue any more and nothing else
    /// makes them doubtful.
    pub(super) fn settle_overdue<S: Sink>(&mut self, sink: &mut S) {
        if !self.tells_overdue || self.holes.is_overdue() {
            return;
        }
        self.tells_overdue = false;
        match self.values_complete {
            true => sink.values_right(),
            false => sink.values_as_before(),
        }
    }

    /// Requests the values that may be wrong, if it is time and no snapshot is being received.
    pub(super) fn poll_doubt(&mut self, side: Side, now_ns: u64) {
        let Some(doubt) = &mut self.doubt else {
            return;
        };
        if !self.assemblies.is_empty() || now_ns < doubt.next_request_ns {
            return;
        }
        let retry_ns = self.config.request_retry_ns << doubt.attempts.min(ASK_DOUBLINGS_MAX);
        doubt.next_request_ns = now_ns.saturating_add(retry_ns);
        doubt.attempts += 1;
        let since = doubt.since;
        self.counters.requests += 1;
        self.ask_for_values(side, since);
    }

    /// Requests the subscribed values that have changed since `since`; all of them for 0.
    pub(super) fn ask_for_values(&mut self, side: Side, since: u64) {
        let request = SnapshotRequest {
            pattern: PatternText::truncated("*"),
            since,
        };
        self.tell(side, &Control::SnapshotRequest(request));
    }

    /// Returns when [`Client::poll_doubt`] must be called.
    pub(super) fn doubt_deadline_ns(&self) -> Option<u64> {
        let doubt = self.doubt.filter(|_| self.assemblies.is_empty())?;
        Some(doubt.next_request_ns)
    }
}

/// Maximum doublings of the delay between two requests for the same values.
const ASK_DOUBLINGS_MAX: u32 = 4;
