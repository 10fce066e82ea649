//! A subscriber's output: its subscriptions, its owed values, and its limits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidewire_lane::ConnectionId;
use tidewire_zmtp::Connection;

use crate::frames::{Dialect, How};
use crate::limit::{Limits, OverLimit};
use crate::pending::{Pending, PendingTopic};
use crate::publication::{News, Origin};
use crate::scan::{Scanned, Scans};
use crate::topic::Topics;

/// The state of a subscribed connection beyond its session.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) connection: ConnectionId,
    pub(crate) dialect: Dialect,
    /// The encryption of a ZeroMQ peer, if its connection is encrypted.
    pub(crate) seal: Option<Arc<Mutex<Connection>>>,
    pub(crate) channels: HashSet<Box<[u8]>, RandomState>,
    pub(crate) shard_channels: HashSet<Box<[u8]>, RandomState>,
    pub(crate) patterns: HashSet<Arc<[u8]>, RandomState>,
    /// Topics whose current value is owed.
    pub(crate) pending: Pending,
    /// Subscriptions to many topics, whose current values are owed.
    pub(crate) scans: Scans,
    /// Whether it waits for the next turn to be given more of what it is owed.
    pub(crate) waits_turn: bool,
    /// Whether its messages are marked if they are current values.
    pub(crate) marks_snapshots: bool,
    /// Whether removals of live keys have a frame of their own. Only for ZeroMQ.
    pub(crate) flags_gone: bool,
    /// Whether it was owed more than the maximum, and must be disconnected.
    pub(crate) is_behind: bool,
    /// Whether it subscribes to prefixes, as ZeroMQ peers do.
    pub(crate) has_prefixes: bool,
    /// The state of each topic whose current value was written, and the time (monotonic
    /// nanoseconds). Older news of it may still arrive. Forgotten with the first newer news, or
    /// after a time.
    pub(crate) current: Current,
    over_limit: OverLimit,
}

/// Version and time of current values, by topic and the way they were written.
pub(crate) type Current = HashMap<(PendingTopic, How), (u64, u64), RandomState>;

/// What happens to a message to one subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    /// Skipped: it already has a newer state.
    Outdated,
    /// Replaced: it is owed the newest value instead.
    Conflate,
    /// Missed: the message is dropped.
    Drop,
    /// The subscriber is too slow and must be disconnected.
    CutOff,
}

impl Outlet {
    pub(crate) fn new(connection: ConnectionId, dialect: Dialect) -> Self {
        Self {
            connection,
            dialect,
            seal: None,
            channels: HashSet::default(),
            shard_channels: HashSet::default(),
            patterns: HashSet::default(),
            pending: Pending::default(),
            scans: Scans::default(),
            waits_turn: false,
            marks_snapshots: false,
            flags_gone: false,
            is_behind: false,
            has_prefixes: false,
            current: HashMap::default(),
            over_limit: OverLimit::default(),
        }
    }

    /// Decides on an update of a last-value topic.
    #[inline]
    pub(crate) fn admit_update(
        &mut self,
        topic: impl FnOnce() -> PendingTopic,
        how: &How,
        version: u64,
        waiting_bytes: usize,
        limits: &Limits,
    ) -> Verdict {
        let slow = waiting_bytes > limits.conflate_bytes;
        let owes_nothing = self.pending.is_empty() && self.scans.is_empty();
        if !slow && owes_nothing && self.current.is_empty() {
            return Verdict::Send;
        }
        let key = (topic(), how.clone());
        if self.is_outdated(&key, version) {
            return Verdict::Outdated;
        }
        if slow || self.pending.contains(&key) {
            if self.pending.is_full() {
                return Verdict::CutOff;
            }
            self.pending.push(key);
            return Verdict::Conflate;
        }
        Verdict::Send
    }

    /// Returns whether it is owed the value of the topic of some news under a second name that the
    /// topic has had before.
    #[inline]
    pub(crate) fn owes_second(&self, topics: &Topics, news: &News<'_>, how: &How) -> bool {
        if !self.pending.has_seconds() {
            return false;
        }
        let (Origin::Topic(own) | Origin::Owed(own)) = news.origin else {
            return false;
        };
        let second = topics.find_second(news.name).map(|second| second.id());
        let owes = |id| {
            let owed = (PendingTopic::Topic(id), how.clone());
            self.pending.contains(&owed)
        };
        second.is_some_and(|id| id != own && owes(id))
    }

    /// Owes a topic's current value, unless one of `version` or later was written. Returns whether
    /// it is owed.
    pub(crate) fn owe_version(&mut self, owed: (PendingTopic, How), version: u64) -> bool {
        if self.is_outdated(&owed, version) {
            return false;
        }
        self.owe(owed);
        true
    }

    /// Returns whether the subscriber has a newer state of a topic, or gets one with a scan.
    fn is_outdated(&mut self, key: &(PendingTopic, How), version: u64) -> bool {
        match self.scanned(key) {
            // Its value comes with the scan.
            Scanned::Ahead => return true,
            Scanned::Written(written) if version <= written => return true,
            Scanned::Written(_) | Scanned::Unknown => {}
        }
        match self.current.get(key) {
            Some((written, _)) if version <= *written => return true,
            Some(_) => {
                self.current.remove(key);
            }
            None => {}
        }
        false
    }

    /// Decides on a plain message, which no later one replaces.
    pub(crate) fn admit_message(
        &mut self,
        waiting_bytes: usize,
        limits: &Limits,
        now_ns: u64,
    ) -> Verdict {
        if !self.dialect.is_zeromq() {
            return match self
                .over_limit
                .is_exceeded(limits.pubsub, waiting_bytes, now_ns)
            {
                true => Verdict::CutOff,
                false => Verdict::Send,
            };
        }
        match waiting_bytes > limits.zmq_high_water_bytes {
            true => Verdict::Drop,
            false => Verdict::Send,
        }
    }

    /// Notes that a topic's current value was written.
    pub(crate) fn note_current(&mut self, owed: (PendingTopic, How), version: u64, now_ns: u64) {
        debug_assert!(!self.pending.contains(&owed), "it is owed no longer");
        self.current.insert(owed, (version, now_ns));
    }

    fn scanned(&self, (topic, how): &(PendingTopic, How)) -> Scanned {
        match topic {
            PendingTopic::Topic(id) => self.scans.look(*id, how),
            PendingTopic::Live(_) | PendingTopic::Named(_) => Scanned::Unknown,
        }
    }

    /// Forgets entries older than `until_ns`. Returns whether any are left.
    pub(crate) fn forget_current(&mut self, until_ns: u64) -> bool {
        self.current
            .retain(|_, (_, written_ns)| *written_ns > until_ns);
        let has_scans = self.scans.forget(until_ns);
        has_scans || !self.current.is_empty()
    }

    /// Returns whether the subscription that a pending value is owed to still exists. After the
    /// end of a ZeroMQ prefix one value may still be sent: the peer drops values it did not
    /// request.
    pub(crate) fn is_subscribed(&self, how: &How, topic: &PendingTopic, topics: &Topics) -> bool {
        match how {
            How::Channel => match topic {
                PendingTopic::Live(name) | PendingTopic::Named(name) => {
                    self.channels.contains(&**name)
                }
                PendingTopic::Topic(id) => {
                    let topic = topics.topic(*id);
                    topic.is_some_and(|topic| self.channels.contains(topic.channel()))
                }
            },
            How::Pattern(text) => self.patterns.contains(text),
            // A shard channel is not a topic: it never owes values.
            How::Shard => false,
            How::Prefix => true,
        }
    }

    /// Owes a topic's current value, unless a scan will write it or too much is owed already.
    pub(crate) fn owe(&mut self, owed: (PendingTopic, How)) {
        if self.scanned(&owed) == Scanned::Ahead {
            return;
        }
        match self.pending.is_full() && !self.pending.contains(&owed) {
            true => self.is_behind = true,
            false => self.pending.push(owed),
        }
    }

    /// Returns whether news of live keys may concern it.
    pub(crate) fn hears_live_keys(&self) -> bool {
        self.has_prefixes || !self.channels.is_empty() || !self.patterns.is_empty()
    }
}
