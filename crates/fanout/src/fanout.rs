//! Fan-out on one lane: its subscribers, and the messages each of them gets.
//!
//! A message is encoded once and copied (or shared, if large) to each subscriber. A slow
//! subscriber delays no other client. For last-value topics it gets the newest value when it is
//! ready again. For plain messages it is disconnected (Redis) or misses some (ZeroMQ). All of
//! this is counted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_keyspace::glob;
use tidewire_lane::{CloseReason, ConnectionId, Context};
use tidewire_rows::{RowId, Table};
use tidewire_zmtp::Connection;

use crate::departing::Departing;
use crate::frames::{Dialect, Frames, How};
use crate::limit::{FanoutConfig, Limits};
use crate::listeners::{Change, Listeners, Target};
use crate::outlet::{Outlet, Verdict};
use crate::pending::PendingTopic;
use crate::post::Post;
use crate::publication::{News, Origin, Publication};
use crate::pump::Pumping;
use crate::renewal::Renewing;
use crate::subscriptions::Kind;
use crate::topic::{GONE_CHANNEL, LiveKeys, SNAPSHOT_CHANNEL, TopicId, Topics};

/// The subscribers of one lane.
#[derive(Debug)]
pub struct Fanout {
    pub(crate) post: Arc<Post>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) keys: Arc<dyn LiveKeys>,
    pub(crate) lane: usize,
    pub(crate) listeners: Listeners,
    /// Subscribers by connection index.
    pub(crate) outlets: Vec<Option<Outlet>>,
    pub(crate) frames: Frames,
    pub(crate) targets: Vec<Target>,
    pub(crate) renewing: Renewing,
    pub(crate) json: Vec<u8>,
    /// Connections that recently got a current value.
    pub(crate) current_written: Vec<ConnectionId>,
    pub(crate) pumping: Pumping,
    /// Ended connections whose subscriptions must still be removed.
    pub(crate) departing: VecDeque<Departing>,
    /// The topics that web pages follow.
    pub rows: Table,
    /// The row of the message that is delivered, once a page has it.
    pub(crate) noted: Option<RowId>,
    /// Time of the next look at current values written, in monotonic nanoseconds.
    forget_at_ns: u64,
}

/// How news of a topic stands to what the lane has had of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// It is newer.
    Next,
    /// The lane has had it, or newer news that replace it.
    Overtaken,
    /// It is older, and counts by itself.
    Behind,
}

/// The lane has its maximum number of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionsFull;

/// Counters of fan-out since the start, over all lanes.
#[derive(Debug, Default)]
pub struct FanoutCounters {
    /// Messages written to subscribers.
    pub delivered: AtomicU64,
    /// Updates that a slow subscriber skipped because a newer one replaces them.
    pub conflated: AtomicU64,
    /// Plain messages that a slow ZeroMQ subscriber missed.
    pub dropped: AtomicU64,
    /// Redis subscribers disconnected at their output limit.
    pub cut_off: AtomicU64,
}

impl Fanout {
    /// Creates the fan-out of a lane without subscribers.
    pub fn new(post: Arc<Post>, topics: Arc<Topics>, keys: Arc<dyn LiveKeys>, lane: usize) -> Self {
        Self {
            post,
            topics,
            keys,
            lane,
            listeners: Listeners::new(),
            outlets: Vec::new(),
            frames: Frames::default(),
            targets: Vec::new(),
            renewing: Renewing::default(),
            json: Vec::new(),
            current_written: Vec::new(),
            pumping: Pumping::default(),
            departing: VecDeque::new(),
            rows: Table::new(glob::matches),
            noted: None,
            forget_at_ns: 0,
        }
    }

    /// Subscribes `connection`, unless it is already subscribed.
    ///
    /// The current values of the topics it names are owed from now on: call [`Fanout::pump`] once
    /// the confirmation is written.
    pub fn subscribe(
        &mut self,
        connection: ConnectionId,
        dialect: Dialect,
        kind: Kind,
        name: &[u8],
    ) -> Result<(), SubscriptionsFull> {
        let is_full = self.listeners.is_full(name);
        let outlet = self.outlet(connection, dialect);
        if is_full || outlet.pending.is_full() {
            return Err(SubscriptionsFull);
        }
        let is_new = match kind {
            Kind::Channel => outlet.channels.insert(name.into()),
            Kind::Shard => outlet.shard_channels.insert(name.into()),
            Kind::Pattern => outlet.patterns.insert(name.into()),
            Kind::Prefix => true,
        };
        outlet.marks_snapshots |= name == SNAPSHOT_CHANNEL && marks(kind);
        outlet.flags_gone |= name == GONE_CHANNEL && kind == Kind::Prefix;
        outlet.has_prefixes |= kind == Kind::Prefix;
        if !is_new {
            return Ok(());
        }
        match kind {
            Kind::Channel => self.topics.prepare(name, true),
            Kind::Pattern => self.topics.prepare(crate::scan::literal(name), false),
            Kind::Prefix => self.topics.prepare(name, false),
            Kind::Shard => {}
        }
        // The topics of a pattern or a prefix are found turn by turn.
        let topic = match kind {
            Kind::Channel => self.topics.find(name),
            Kind::Shard | Kind::Pattern | Kind::Prefix => None,
        };
        let id = topic.as_ref().map(|topic| topic.id());
        match self.listeners.add(connection, kind, name, id) {
            Change::None => return Ok(()),
            Change::Connection => {}
            Change::Lane => {
                if let Some(topic) = &topic {
                    topic.add_interest(self.lane);
                }
                self.post.subscriptions.add(self.lane, kind, name);
            }
        }
        let second = self.second_of(kind, name);
        self.keys.watch_topics_for(kind, name);
        self.owe_current_values(connection, kind, name, id.or(second));
        match kind {
            Kind::Channel if id.is_none() => self.topics.want(name, false),
            Kind::Prefix if self.topics.find(name).is_none() => self.topics.want(name, true),
            _ => {}
        }
        Ok(())
    }

    /// Returns the second name that a new pattern or prefix asks for, which the lane is interested
    /// in from now on.
    fn second_of(&self, kind: Kind, name: &[u8]) -> Option<TopicId> {
        let second = match kind {
            Kind::Channel | Kind::Shard => None,
            Kind::Pattern => {
                let second = self.topics.second(crate::scan::literal(name));
                second.filter(|second| glob::matches(name, second.channel()))
            }
            Kind::Prefix => self.topics.second(name),
        }?;
        // First the interest, then the generation, then the value: see `fence.rs`.
        second.add_interest(self.lane);
        self.post.subscriptions.generation().raise();
        Some(second.id())
    }

    /// Notes that messages to this subscriber are encrypted by its connection from now on.
    pub fn seal(&mut self, id: ConnectionId, connection: &Arc<Mutex<Connection>>) {
        if let Some(outlet) = self.outlet_of(id) {
            outlet.seal.get_or_insert_with(|| connection.clone());
        }
    }

    /// Ends a subscription, if there is one.
    pub fn unsubscribe(&mut self, connection: ConnectionId, kind: Kind, name: &[u8]) {
        let flags_gone = self.post.config.zmq_flags_gone;
        let Some(outlet) = self.outlet_of(connection) else {
            return;
        };
        let existed = match kind {
            Kind::Channel => outlet.channels.remove(name),
            Kind::Shard => outlet.shard_channels.remove(name),
            Kind::Pattern => outlet.patterns.remove(name),
            Kind::Prefix => true,
        };
        if existed
            && self.remove_subscriber(connection, kind, name) != Change::None
            && let Some(outlet) = self.outlet_of(connection)
        {
            match kind {
                Kind::Pattern => outlet.scans.remove_pattern(name),
                Kind::Prefix => outlet.scans.remove_prefix(name),
                Kind::Channel | Kind::Shard => {}
            }
            outlet.marks_snapshots &= name != SNAPSHOT_CHANNEL || !marks(kind);
            outlet.flags_gone &= flags_gone || name != GONE_CHANNEL || kind != Kind::Prefix;
        }
    }

    /// Returns the number of channels, patterns and shard channels of a connection.
    pub fn counts(&self, connection: ConnectionId) -> [usize; 3] {
        self.existing(connection).map_or([0; 3], |outlet| {
            [
                outlet.channels.len(),
                outlet.patterns.len(),
                outlet.shard_channels.len(),
            ]
        })
    }

    /// Returns the names of one kind that a connection is subscribed to.
    pub fn names(&self, connection: ConnectionId, kind: Kind) -> Vec<Box<[u8]>> {
        let Some(outlet) = self.existing(connection) else {
            return Vec::new();
        };
        match kind {
            Kind::Channel => outlet.channels.iter().cloned().collect(),
            Kind::Shard => outlet.shard_channels.iter().cloned().collect(),
            Kind::Pattern => outlet.patterns.iter().map(|text| text[..].into()).collect(),
            Kind::Prefix => Vec::new(),
        }
    }

    /// Notes that a client has changed its protocol version.
    pub fn set_dialect(&mut self, connection: ConnectionId, dialect: Dialect) {
        if let Some(outlet) = self
            .outlets
            .get_mut(connection.index())
            .and_then(Option::as_mut)
            && outlet.connection == connection
        {
            outlet.dialect = dialect;
        }
    }

    /// Removes all subscriptions of a connection that stays open.
    pub fn remove(&mut self, connection: ConnectionId) {
        let Some(outlet) = self.take_outlet(connection) else {
            return;
        };
        for name in &outlet.channels {
            self.remove_subscriber(connection, Kind::Channel, name);
        }
        for name in &outlet.shard_channels {
            self.remove_subscriber(connection, Kind::Shard, name);
        }
        for text in &outlet.patterns {
            self.remove_subscriber(connection, Kind::Pattern, text);
        }
        self.remove_prefixes(connection, usize::MAX);
    }

    /// Removes a connection's outlet: it gets no messages from now on.
    pub(crate) fn take_outlet(&mut self, connection: ConnectionId) -> Option<Outlet> {
        let slot = self.outlets.get_mut(connection.index())?;
        slot.take_if(|outlet| outlet.connection == connection)
    }

    pub(crate) fn limits(&self) -> Limits {
        let FanoutConfig {
            conflate_bytes,
            zmq_high_water_bytes,
            ..
        } = self.post.config;
        Limits {
            conflate_bytes,
            zmq_high_water_bytes,
            pubsub: self.keys.pubsub_limit(),
        }
    }

    /// Delivers `publication` to this lane's subscribers.
    pub fn deliver(&mut self, context: &mut Context, publication: &Publication) {
        let limits = self.limits();
        let mut delivered = 0;
        for mut news in publication.news() {
            let mut order = Order::Next;
            if let Origin::Topic(id) | Origin::Owed(id) = news.origin {
                order = self.order_of(id, &mut news);
            }
            if order == Order::Overtaken {
                continue;
            }
            let targets = match news.origin {
                Origin::Topic(id) | Origin::Owed(id) => {
                    let is_watched = !id.is_second()
                        && self.keys.watches_topics(self.lane)
                        && self.keys.tell_topic_changed(news.name);
                    self.take_route(id, news.name, is_watched)
                }
                Origin::Shard => {
                    let mut targets = std::mem::take(&mut self.targets);
                    targets.clear();
                    self.listeners.collect_shard(news.name, &mut targets);
                    targets
                }
                Origin::Live | Origin::Channel => {
                    let mut targets = std::mem::take(&mut self.targets);
                    targets.clear();
                    self.listeners.collect(news.name, &mut targets);
                    targets
                }
            };
            self.frames.begin();
            self.noted = None;
            for target in &targets {
                let is_written = self.offer(context, target, &news, &limits);
                delivered += u64::from(is_written);
                if is_written && order == Order::Behind {
                    self.owe_again(target, &news);
                }
            }
            match news.origin {
                Origin::Topic(id) | Origin::Owed(id) => self.put_route(id, targets),
                Origin::Live | Origin::Channel | Origin::Shard => self.targets = targets,
            }
        }
        let counter = &self.post.counters.delivered;
        counter.fetch_add(delivered, Ordering::Relaxed);
    }

    /// Returns how news of a topic stands to what the lane has had of it.
    #[inline]
    fn order_of(&mut self, id: TopicId, news: &mut News<'_>) -> Order {
        let is_overtaken = self.listeners.is_overtaken(id, news.version);
        if let TopicId::Bar(number) = id
            && news.is_final
        {
            return match self.listeners.has_had_closed(number, news.version) {
                true => Order::Overtaken,
                false if is_overtaken => Order::Behind,
                false => Order::Next,
            };
        }
        if is_overtaken && !news.is_final {
            if !matches!(id, TopicId::Book(_)) {
                return Order::Overtaken;
            }
            // Each change of a book counts: who had the newer one is owed the whole book.
            news.origin = Origin::Owed(id);
        }
        match id.is_second() && self.is_succeeded(news) {
            true => Order::Overtaken,
            false => Order::Next,
        }
    }

    /// Owes a subscriber the newest state of a topic again, of which it has just got an older one.
    #[cold]
    fn owe_again(&mut self, target: &Target, news: &News<'_>) {
        if let Origin::Topic(id) = news.origin
            && let Some(outlet) = self.outlet_of(target.connection)
        {
            outlet.owe((PendingTopic::Topic(id), target.how.clone()));
            self.pump_next_turn(target.connection);
        }
    }

    /// Returns whether the lane has had news of the topic that has a second name by now: what is
    /// still on its way under that name is older.
    fn is_succeeded(&mut self, news: &News<'_>) -> bool {
        let topic = self.topics.find(news.name).map(|topic| topic.id());
        let topic = topic.filter(|id| !id.is_second() && self.listeners.has_had_news(*id));
        topic.is_some_and(|id| !news.is_final || matches!(id, TopicId::Book(_)))
    }

    /// Forgets the current values written long ago: news takes milliseconds to arrive, so nothing
    /// older can follow.
    pub fn sweep(&mut self, now_ns: u64) {
        if now_ns < self.forget_at_ns {
            return;
        }
        self.forget_at_ns = now_ns + NEWS_ON_THEIR_WAY_NS / 4;
        let until_ns = now_ns.saturating_sub(NEWS_ON_THEIR_WAY_NS);
        let mut waiting = std::mem::take(&mut self.current_written);
        waiting.sort_unstable();
        waiting.dedup();
        let remembers = |outlet: &mut Outlet| outlet.forget_current(until_ns);
        waiting.retain(|&connection| self.outlet_of(connection).is_some_and(remembers));
        self.current_written = waiting;
    }

    /// Offers a message to one subscriber. Returns whether it was written.
    fn offer(
        &mut self,
        context: &mut Context,
        target: &Target,
        news: &News<'_>,
        limits: &Limits,
    ) -> bool {
        let counters = &self.post.counters;
        let Some(outlet) = self
            .outlets
            .get_mut(target.connection.index())
            .and_then(Option::as_mut)
            .filter(|outlet| outlet.connection == target.connection)
        else {
            return false;
        };
        let how = &target.how;
        if outlet.dialect == Dialect::Rows {
            return self.note(target, news);
        }
        let waiting_bytes = context.out_bytes(target.connection);
        let verdict = match news.origin {
            // What it is owed under the second name is this topic's value by now.
            Origin::Topic(_) | Origin::Owed(_) if outlet.owes_second(&self.topics, news, how) => {
                Verdict::Conflate
            }
            Origin::Topic(id) => {
                let topic = || PendingTopic::Topic(id);
                outlet.admit_update(topic, how, news.version, waiting_bytes, limits)
            }
            Origin::Owed(id) => {
                let owed = (PendingTopic::Topic(id), how.clone());
                if outlet.owe_version(owed, news.version) {
                    self.pump_next_turn(target.connection);
                }
                return false;
            }
            Origin::Live => {
                let topic = || PendingTopic::Live(news.name.into());
                outlet.admit_update(topic, how, news.version, waiting_bytes, limits)
            }
            Origin::Channel | Origin::Shard => {
                outlet.admit_message(waiting_bytes, limits, context.now_ns())
            }
        };
        match verdict {
            Verdict::Send => {}
            Verdict::Outdated => return false,
            Verdict::Conflate => {
                context.watch_drain(target.connection);
                counters.conflated.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            Verdict::Drop => {
                counters.dropped.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            Verdict::CutOff => {
                // The rest of a turn's news may follow it.
                if !context.is_ending(target.connection) {
                    counters.cut_off.fetch_add(1, Ordering::Relaxed);
                    if let Some(left_out) = CUT_OFF.note_now() {
                        let text =
                            "a subscriber was disconnected: its unread output exceeds the limit";
                        tracing::info!(left_out, "{text}");
                    }
                    context.close(target.connection, CloseReason::Requested);
                }
                return false;
            }
        }
        let Some(out) = context.out(target.connection) else {
            return false;
        };
        self.frames.write_to(out, outlet, how, news);
        true
    }

    fn owe_current_values(
        &mut self,
        connection: ConnectionId,
        kind: Kind,
        name: &[u8],
        topic: Option<TopicId>,
    ) {
        let mut live: Vec<Arc<[u8]>> = Vec::new();
        match kind {
            Kind::Channel if self.keys.is_live(name) => live.push(name.into()),
            Kind::Channel | Kind::Shard => {}
            Kind::Pattern => self
                .keys
                .live_names(&|key| glob::matches(name, key), &mut live),
            Kind::Prefix => self
                .keys
                .live_names(&|key| key.starts_with(name), &mut live),
        }
        let topics = self.topics.clone();
        let Some(outlet) = self.outlet_of(connection) else {
            return;
        };
        let how = match kind {
            Kind::Channel => How::Channel,
            Kind::Shard => return,
            Kind::Pattern => {
                outlet.scans.add_pattern(name, &topics);
                How::Pattern(name.into())
            }
            Kind::Prefix => {
                outlet.scans.add_prefix(name);
                How::Prefix
            }
        };
        if let Some(id) = topic {
            outlet.pending.push((PendingTopic::Topic(id), how.clone()));
        } else if kind == Kind::Channel && topics.own(name) {
            outlet
                .pending
                .push((PendingTopic::Named(name.into()), how.clone()));
        }
        for name in live {
            outlet.pending.push((PendingTopic::Live(name), how.clone()));
        }
    }

    /// Returns the targets of a topic's news. If there are none, the other lanes need not send
    /// more of them.
    pub(crate) fn take_route(&mut self, id: TopicId, name: &[u8], is_watched: bool) -> Vec<Target> {
        let spare = std::mem::take(&mut self.targets);
        let targets = self.listeners.take_route(id, name, spare);
        if targets.is_empty()
            && !is_watched
            && let Some(topic) = self.topics.topic(id)
        {
            topic.clear_interest(self.lane);
        }
        targets
    }

    pub(crate) fn put_route(&mut self, id: TopicId, targets: Vec<Target>) {
        if let Some(spare) = self.listeners.put_route(id, targets) {
            self.targets = spare;
        }
    }

    pub(crate) fn remove_subscriber(
        &mut self,
        connection: ConnectionId,
        kind: Kind,
        name: &[u8],
    ) -> Change {
        let topic = match kind {
            Kind::Channel => self.topics.find(name).map(|topic| topic.id()),
            Kind::Pattern | Kind::Prefix | Kind::Shard => None,
        };
        debug_assert!(
            topic.is_none() || kind == Kind::Channel,
            "only a channel names a topic"
        );
        let change = self.listeners.remove(connection, kind, name, topic);
        if change == Change::Lane {
            self.post.subscriptions.remove(self.lane, kind, name);
        }
        change
    }

    fn outlet(&mut self, connection: ConnectionId, dialect: Dialect) -> &mut Outlet {
        let index = connection.index();
        if index >= self.outlets.len() {
            self.outlets.resize_with(index + 1, || None);
        }
        let flags_gone = self.post.config.zmq_flags_gone && dialect.is_zeromq();
        let outlet = self.outlets[index].get_or_insert_with(|| {
            let mut outlet = Outlet::new(connection, dialect);
            outlet.flags_gone = flags_gone;
            outlet
        });
        debug_assert_eq!(
            outlet.connection, connection,
            "the last one of this index departed"
        );
        outlet
    }

    pub(crate) fn outlet_of(&mut self, connection: ConnectionId) -> Option<&mut Outlet> {
        let outlet = self.outlets.get_mut(connection.index())?.as_mut()?;
        (outlet.connection == connection).then_some(outlet)
    }

    pub(crate) fn existing(&self, connection: ConnectionId) -> Option<&Outlet> {
        let outlet = self.outlets.get(connection.index())?.as_ref()?;
        (outlet.connection == connection).then_some(outlet)
    }
}

/// Returns whether a subscription of this kind to [`SNAPSHOT_CHANNEL`] requests marks.
fn marks(kind: Kind) -> bool {
    matches!(kind, Kind::Channel | Kind::Prefix)
}

/// Generous maximum time from a source's lane to a subscriber's lane.
const NEWS_ON_THEIR_WAY_NS: u64 = 10_000_000_000;
/// Limits the log lines that a peer causes by coming back.
static CUT_OFF: tidewire_retry::Seldom = tidewire_retry::Seldom::new(10, 10);
