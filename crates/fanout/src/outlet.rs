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
use crate::topic::Topics;

/// What a subscribed connection needs beyond its session.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) connection: ConnectionId,
    pub(crate) dialect: Dialect,
    /// Of a ZeroMQ peer whose connection encrypts: what does it.
    pub(crate) seal: Option<Arc<Mutex<Connection>>>,
    pub(crate) channels: HashSet<Box<[u8]>, RandomState>,
    pub(crate) shard_channels: HashSet<Box<[u8]>, RandomState>,
    pub(crate) patterns: HashSet<Arc<[u8]>, RandomState>,
    /// Topics whose current value is owed.
    pub(crate) pending: Pending,
    /// Its messages say which of them are current values.
    pub(crate) marks_snapshots: bool,
    /// It was owed more than is kept, and is to be cut off.
    pub(crate) is_behind: bool,
    /// It subscribes to prefixes, as ZeroMQ peers do.
    pub(crate) has_prefixes: bool,
    /// The state of each topic whose current value was written, and when (monotonic ns): older
    /// news of it may still be on their way. Forgotten with the first newer news, or after a time.
    current: HashMap<(PendingTopic, How), (u64, u64), RandomState>,
    over_limit: OverLimit,
}

/// What becomes of a message to one subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    /// It has got a newer state already.
    Outdated,
    /// It is owed the newest value in its place.
    Conflate,
    /// It misses it.
    Drop,
    /// It is too slow to stay.
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
            marks_snapshots: false,
            is_behind: false,
            has_prefixes: false,
            current: HashMap::default(),
            over_limit: OverLimit::default(),
        }
    }

    /// Judges an update of a last-value topic.
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
        if !slow && self.pending.is_empty() && self.current.is_empty() {
            return Verdict::Send;
        }
        let key = (topic(), how.clone());
        match self.current.get(&key) {
            Some((written, _)) if version <= *written => return Verdict::Outdated,
            Some(_) => {
                self.current.remove(&key);
            }
            None => {}
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

    /// Judges a plain message, which no later one replaces.
    pub(crate) fn admit_message(
        &mut self,
        waiting_bytes: usize,
        limits: &Limits,
        now_ns: u64,
    ) -> Verdict {
        if self.dialect != Dialect::Zmtp {
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

    /// A topic's current value was written.
    pub(crate) fn note_current(&mut self, owed: (PendingTopic, How), version: u64, now_ns: u64) {
        debug_assert!(!self.pending.contains(&owed), "it is owed no longer");
        self.current.insert(owed, (version, now_ns));
    }

    /// Forgets what was noted before `until_ns`; whether anything is left.
    pub(crate) fn forget_current(&mut self, until_ns: u64) -> bool {
        self.current
            .retain(|_, (_, written_ns)| *written_ns > until_ns);
        !self.current.is_empty()
    }

    /// Whether what a pending value was owed to is still subscribed. A ZeroMQ prefix that has
    /// ended may still get one value: its peer drops what it did not ask for.
    pub(crate) fn is_subscribed(&self, how: &How, topic: &PendingTopic, topics: &Topics) -> bool {
        match how {
            How::Channel => match topic {
                PendingTopic::Live(name) => self.channels.contains(&**name),
                PendingTopic::Topic(id) => {
                    let topic = topics.topic(*id);
                    topic.is_some_and(|topic| self.channels.contains(topic.channel()))
                }
            },
            How::Pattern(text) => self.patterns.contains(text),
            // A shard channel is no topic: nothing is ever owed.
            How::Shard => false,
            How::Prefix => true,
        }
    }

    /// Owes a topic's current value, unless it is owed too much already.
    pub(crate) fn owe(&mut self, owed: (PendingTopic, How)) {
        match self.pending.is_full() && !self.pending.contains(&owed) {
            true => self.is_behind = true,
            false => self.pending.push(owed),
        }
    }

    /// Whether news of live keys may concern it.
    pub(crate) fn hears_live_keys(&self) -> bool {
        self.has_prefixes || !self.channels.is_empty() || !self.patterns.is_empty()
    }
}
