//! The listeners of one lane, and the cached routes of topics.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidewire_keyspace::glob;
use tidewire_lane::ConnectionId;
use tidewire_zmtp::prefixes::{Insertion, PrefixTable, Removal};

use crate::frames::How;
use crate::scan::literal;
use crate::subscriptions::Kind;
use crate::topic::{TopicId, second_literal_min};

/// The subscriptions of one lane, by name.
#[derive(Debug)]
pub(crate) struct Listeners {
    channels: HashMap<Box<[u8]>, Vec<ConnectionId>, RandomState>,
    shard_channels: HashMap<Box<[u8]>, Vec<ConnectionId>, RandomState>,
    patterns: HashMap<Arc<[u8]>, Vec<ConnectionId>, RandomState>,
    prefixes: PrefixTable<ConnectionId>,
    /// Bytes counted for channels, patterns and distinct prefixes.
    name_bytes: usize,
    /// Routes of topics by number, for each source, in pages: a topic with a high number costs one
    /// page.
    routes: [Vec<Option<Box<Page>>>; TopicId::PLACES],
    /// Versions of the last closed bars of each topic that the lane has had, the oldest first.
    closed: HashMap<u32, [u64; CLOSED_KEPT], RandomState>,
    /// Incremented when routes of all topics become invalid. Clearing a million would take tens of
    /// milliseconds.
    epoch: u64,
    /// Sum of the lengths of `routes`, invalid ones included.
    routed: usize,
}

/// The cached targets of a topic.
#[derive(Clone, Debug, Default)]
struct CachedRoute {
    /// The epoch in which it is valid; 0 for none.
    epoch: u64,
    targets: Vec<Target>,
    /// The newest state of the topic that the lane has had news of.
    newest: u64,
}

type Page = [CachedRoute; PAGE_TOPICS];

/// One delivery of one message: a client with two matching subscriptions is two targets.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) connection: ConnectionId,
    pub(crate) how: How,
}

/// The effect of a subscription on the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// None: the connection already had it, or did not have it.
    None,
    /// Only on the connection: other connections of the lane have the same name.
    Connection,
    /// The other lanes must count it too.
    Lane,
}

impl Listeners {
    pub(crate) fn new() -> Self {
        Self {
            channels: HashMap::default(),
            shard_channels: HashMap::default(),
            patterns: HashMap::default(),
            prefixes: PrefixTable::new(),
            name_bytes: 0,
            routes: [const { Vec::new() }; TopicId::PLACES],
            closed: HashMap::default(),
            epoch: 1,
            routed: 0,
        }
    }

    /// Returns whether another subscription to `name` would exceed the limit.
    pub(crate) fn is_full(&self, name: &[u8]) -> bool {
        let pair_bytes = self.prefixes.len() * SUBSCRIPTION_OVERHEAD_BYTES;
        self.name_bytes + pair_bytes + cost_bytes(name) > SUBSCRIPTION_BYTES_MAX
    }

    /// Adds a subscription. Channels and patterns must be new to the connection. A prefix counts
    /// once on the lane, regardless of the number of connections. `topic` is the topic of a
    /// channel.
    pub(crate) fn add(
        &mut self,
        connection: ConnectionId,
        kind: Kind,
        name: &[u8],
        topic: Option<TopicId>,
    ) -> Change {
        let change = match kind {
            Kind::Channel | Kind::Shard => {
                let subscribers = self.named(kind).entry(name.into()).or_default();
                if subscribers.is_empty() {
                    // Most channels have one subscriber.
                    subscribers.reserve_exact(1);
                }
                debug_assert!(!subscribers.contains(&connection), "new to the connection");
                subscribers.push(connection);
                Change::Lane
            }
            Kind::Pattern => {
                match self.patterns.get_mut(name) {
                    Some(subscribers) => subscribers.push(connection),
                    None => {
                        self.patterns.insert(name.into(), vec![connection]);
                    }
                }
                Change::Lane
            }
            Kind::Prefix => match self.prefixes.insert(name, connection) {
                Insertion::Again => return Change::None,
                Insertion::FirstOfSubscriber => Change::Connection,
                Insertion::FirstOfPrefix => Change::Lane,
            },
        };
        if change == Change::Lane {
            self.name_bytes += cost_bytes(name);
        }
        self.forget_routes(kind, topic);
        change
    }

    /// Removes a subscription. Channels and patterns must have been added. `topic` is the topic
    /// of a channel.
    pub(crate) fn remove(
        &mut self,
        connection: ConnectionId,
        kind: Kind,
        name: &[u8],
        topic: Option<TopicId>,
    ) -> Change {
        let change = match kind {
            Kind::Channel | Kind::Shard => {
                let named = self.named(kind);
                if let Some(subscribers) = named.get_mut(name)
                    && leave(subscribers, connection)
                {
                    named.remove(name);
                }
                Change::Lane
            }
            Kind::Pattern => {
                if let Some(subscribers) = self.patterns.get_mut(name)
                    && leave(subscribers, connection)
                {
                    self.patterns.remove(name);
                }
                Change::Lane
            }
            // A libzmq subscriber sends SUBSCRIBE each time but CANCEL once, when the last one
            // ends.
            Kind::Prefix => match self.prefixes.remove_pair(name, connection) {
                Removal::NotFound | Removal::StillCounted => return Change::None,
                Removal::LastOfSubscriber => Change::Connection,
                Removal::LastOfPrefix => Change::Lane,
            },
        };
        if change == Change::Lane {
            debug_assert!(
                self.name_bytes >= cost_bytes(name),
                "what was counted is taken out"
            );
            self.name_bytes -= cost_bytes(name);
        }
        self.forget_routes(kind, topic);
        change
    }

    /// Removes some prefixes of a connection. Returns those that no connection of the lane has
    /// any more, and whether the connection has others.
    pub(crate) fn remove_prefixes(
        &mut self,
        connection: ConnectionId,
        most: usize,
    ) -> (Vec<Vec<u8>>, bool) {
        let pairs = self.prefixes.len();
        let mut ended = Vec::new();
        let mut note = |prefix: &[u8]| ended.push(prefix.to_vec());
        let has_more = self.prefixes.remove_some(connection, most, &mut note);
        if self.prefixes.len() < pairs {
            self.forget_routes(Kind::Prefix, None);
        }
        self.name_bytes -= ended.iter().map(|prefix| cost_bytes(prefix)).sum::<usize>();
        (ended, has_more)
    }

    /// Appends all subscribers of the shard channel `name`.
    pub(crate) fn collect_shard(&self, name: &[u8], targets: &mut Vec<Target>) {
        let subscribers = self.shard_channels.get(name).into_iter().flatten();
        targets.extend(subscribers.map(|&connection| Target {
            connection,
            how: How::Shard,
        }));
    }

    /// Appends all subscribers of the channel `name`.
    pub(crate) fn collect(&self, name: &[u8], targets: &mut Vec<Target>) {
        if let Some(subscribers) = self.channels.get(name) {
            let target = |&connection| Target {
                connection,
                how: How::Channel,
            };
            targets.extend(subscribers.iter().map(target));
        }
        for (text, subscribers) in &self.patterns {
            if glob::matches(text, name) {
                let target = |&connection| Target {
                    connection,
                    how: How::Pattern(text.clone()),
                };
                targets.extend(subscribers.iter().map(target));
            }
        }
        self.prefixes.matches(name, &mut |connection| {
            targets.push(Target {
                connection,
                how: How::Prefix,
            })
        });
    }

    /// Appends the subscribers that ask for `name`, the second one of a topic. Those of many names
    /// have the first one.
    fn collect_second(&self, name: &[u8], targets: &mut Vec<Target>) {
        let length_min = second_literal_min(name);
        let channels = self.channels.get(name).into_iter().flatten();
        targets.extend(channels.map(|&connection| Target {
            connection,
            how: How::Channel,
        }));
        for (text, subscribers) in &self.patterns {
            if literal(text).len() >= length_min && glob::matches(text, name) {
                targets.extend(subscribers.iter().map(|&connection| Target {
                    connection,
                    how: How::Pattern(text.clone()),
                }));
            }
        }
        let how = How::Prefix;
        self.prefixes
            .matches_from(name, length_min, &mut |connection| {
                let how = how.clone();
                targets.push(Target { connection, how })
            });
    }

    /// Returns whether the channel `name` has a subscriber.
    pub(crate) fn hear(&self, name: &[u8]) -> bool {
        self.channels.contains_key(name)
            || self.prefixes.covers(name)
            || self.patterns.keys().any(|text| glob::matches(text, name))
    }

    /// Returns whether this lane has had a newer state of a topic that several lanes write. Each
    /// lane sends its news after it has changed the state, so one can overtake another.
    #[inline]
    pub(crate) fn is_overtaken(&mut self, id: TopicId, version: u64) -> bool {
        if matches!(id, TopicId::Tag(_)) {
            return false;
        }
        let newest = &mut cached_at(&mut self.routes, id).newest;
        let is_overtaken = version < *newest;
        *newest = version.max(*newest);
        is_overtaken
    }

    /// Notes a closed bar of a state of its topic. Returns whether this lane has had it: each lane
    /// that goes on behind the bar sends it again, because its own news may come first.
    pub(crate) fn has_had_closed(&mut self, number: u32, version: u64) -> bool {
        let kept = self.closed.entry(number).or_default();
        // One that is older than all of them is not sent any more by others.
        if version <= kept[0] || kept.contains(&version) {
            return true;
        }
        kept[0] = version;
        kept.sort_unstable();
        false
    }

    /// Returns whether this lane has had news of a topic, other than a tag.
    pub(crate) fn has_had_news(&mut self, id: TopicId) -> bool {
        self.cached(id).is_some_and(|route| route.newest > 0)
    }

    /// Takes out the targets of a topic, so that they can be walked. Return them with
    /// [`Listeners::put_route`]. If they are not cached, they are collected into `spare`.
    pub(crate) fn take_route(
        &mut self,
        id: TopicId,
        name: &[u8],
        mut spare: Vec<Target>,
    ) -> Vec<Target> {
        let now = self.epoch;
        if let Some(route) = self.cached(id) {
            let (epoch, targets) = (route.epoch, std::mem::take(&mut route.targets));
            route.epoch = 0;
            debug_assert!(
                self.routed >= targets.len(),
                "the sum has every route in it"
            );
            self.routed -= targets.len();
            if epoch == now {
                return targets;
            }
            if targets.capacity() > 0 {
                spare = targets;
            }
        }
        spare.clear();
        match id {
            TopicId::Second(_) => self.collect_second(name, &mut spare),
            _ => self.collect(name, &mut spare),
        }
        spare
    }

    /// Caches the targets of a topic if the cache has room. Otherwise they are collected again
    /// with the topic's next news.
    pub(crate) fn put_route(&mut self, id: TopicId, route: Vec<Target>) -> Option<Vec<Target>> {
        if self.routed + route.len() > ROUTED_MAX {
            return Some(route);
        }
        let cached = cached_at(&mut self.routes, id);
        debug_assert!(
            cached.epoch == 0 && cached.targets.is_empty(),
            "a route is taken out before it is put back"
        );
        self.routed += route.len();
        (cached.epoch, cached.targets) = (self.epoch, route);
        None
    }

    fn cached(&mut self, id: TopicId) -> Option<&mut CachedRoute> {
        let (source, number) = id.place();
        let page = self.routes[source].get_mut(number as usize / PAGE_TOPICS)?;
        Some(&mut page.as_mut()?[number as usize % PAGE_TOPICS])
    }

    fn named(&mut self, kind: Kind) -> &mut HashMap<Box<[u8]>, Vec<ConnectionId>, RandomState> {
        match kind {
            Kind::Shard => &mut self.shard_channels,
            _ => &mut self.channels,
        }
    }

    fn forget_routes(&mut self, kind: Kind, topic: Option<TopicId>) {
        if !matches!(kind, Kind::Channel | Kind::Shard) {
            self.epoch += 1;
        } else if let Some(route) = topic.and_then(|topic| self.cached(topic)) {
            // Its memory is used again, or freed, when the topic has news.
            route.epoch = 0;
        }
    }
}

/// Returns a topic's place in the cache, which is made if it is not there.
fn cached_at(
    routes: &mut [Vec<Option<Box<Page>>>; TopicId::PLACES],
    id: TopicId,
) -> &mut CachedRoute {
    let (source, number) = id.place();
    let (pages, page) = (&mut routes[source], number as usize / PAGE_TOPICS);
    if page >= pages.len() {
        pages.resize_with(page + 1, || None);
    }
    let page = pages[page]
        .get_or_insert_with(|| Box::new(std::array::from_fn(|_| CachedRoute::default())));
    &mut page[number as usize % PAGE_TOPICS]
}

/// Removes `connection`. Returns whether none is left.
fn leave(subscribers: &mut Vec<ConnectionId>, connection: ConnectionId) -> bool {
    if let Some(position) = subscribers.iter().position(|&other| other == connection) {
        subscribers.swap_remove(position);
    }
    subscribers.is_empty()
}

/// Returns the bytes counted for a subscription: its name in this lane's tables and in the shared
/// ones.
fn cost_bytes(name: &[u8]) -> usize {
    2 * name.len() + SUBSCRIPTION_OVERHEAD_BYTES
}

/// Maximum memory of one lane's subscriptions: five million with short names.
const SUBSCRIPTION_BYTES_MAX: usize = 1 << 30;
/// Memory of a subscription in the tables, without its name.
const SUBSCRIPTION_OVERHEAD_BYTES: usize = 192;
/// Maximum cached targets of topics: 32 MiB. A thousand subscribers to all of a hundred thousand
/// topics would take gigabytes.
const ROUTED_MAX: usize = 1 << 20;
const PAGE_TOPICS: usize = 256;
/// How many closed bars of a topic a lane remembers. Those of two lanes may cross.
const CLOSED_KEPT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many targets the topic's route has, and whether it was cached.
    fn route(listeners: &mut Listeners, number: u32) -> (usize, bool) {
        let id = TopicId::Market(number);
        let now = listeners.epoch;
        let is_cached = listeners.cached(id).is_some_and(|route| route.epoch == now);
        let targets = listeners.take_route(id, b"md:A", Vec::new());
        let count = targets.len();
        assert!(listeners.put_route(id, targets).is_none());
        (count, is_cached)
    }

    #[test]
    fn news_that_a_newer_state_has_overtaken_is_known() {
        let mut listeners = Listeners::new();
        for (version, is_overtaken) in [(1, false), (3, false), (2, true), (3, false), (4, false)] {
            for id in [TopicId::Market(700_000), TopicId::Bar(0)] {
                assert_eq!(
                    listeners.is_overtaken(id, version),
                    is_overtaken,
                    "{version}"
                );
            }
            // A route that is cached meanwhile keeps the newest state.
            assert_eq!(route(&mut listeners, 700_000).0, 0);
        }
        for version in [5, 1] {
            // One source at a time writes these, and a tag's count begins again with its plant.
            assert!(!listeners.is_overtaken(TopicId::Tag(0), version));
        }
    }

    #[test]
    fn a_closed_bar_is_known_however_its_copies_arrive() {
        let mut listeners = Listeners::new();
        let is_known = |version| listeners.has_had_closed(7, version);
        let versions = [10, 10, 30, 20, 30, 20];
        let known = versions.map(is_known);
        assert_eq!(known, [false, true, false, false, true, true]);
        // One that is older than all that are kept is not sent any more.
        for version in 40..50 {
            assert!(!listeners.has_had_closed(7, version));
        }
        assert!(listeners.has_had_closed(7, 20) && listeners.has_had_closed(7, 15));
        assert!(!listeners.has_had_closed(8, 10), "another topic");
    }

    #[test]
    fn the_second_name_of_a_topic_goes_to_who_asks_for_it() {
        let (mut listeners, one) = (Listeners::new(), ConnectionId::NONE);
        let id = TopicId::Second(3);
        let hear = |listeners: &mut Listeners| {
            let targets = listeners.take_route(id, b"md:A@V", Vec::new());
            let count = targets.len();
            assert!(listeners.put_route(id, targets).is_none());
            count
        };
        listeners.add(one, Kind::Pattern, b"md:*", None);
        listeners.add(one, Kind::Prefix, b"md:A", None);
        assert_eq!(hear(&mut listeners), 0);
        listeners.add(one, Kind::Channel, b"md:A@V", Some(id));
        assert_eq!(hear(&mut listeners), 1);
        listeners.add(one, Kind::Prefix, b"md:A@", None);
        listeners.add(one, Kind::Prefix, b"md:A@V", None);
        listeners.add(one, Kind::Pattern, b"md:A@*", None);
        // A ZeroMQ peer gets a message once.
        assert_eq!(hear(&mut listeners), 3);
        listeners.remove(one, Kind::Channel, b"md:A@V", Some(id));
        assert_eq!(hear(&mut listeners), 2);
    }

    #[test]
    fn news_of_a_topic_are_noted_so_that_late_ones_under_a_second_name_are_known() {
        let mut listeners = Listeners::new();
        for id in [TopicId::Market(7), TopicId::Book(7), TopicId::Bar(7)] {
            assert!(!listeners.has_had_news(id));
            assert!(!listeners.is_overtaken(id, 2));
            assert!(listeners.has_had_news(id));
        }
        assert!(listeners.is_overtaken(TopicId::Market(7), 1));
        assert!(listeners.is_overtaken(TopicId::Book(7), 1));
    }

    #[test]
    fn a_pattern_makes_every_route_invalid_and_a_channel_only_its_own() {
        let (mut listeners, one) = (Listeners::new(), ConnectionId::NONE);
        for number in [0, 700_000] {
            assert_eq!(route(&mut listeners, number), (0, false));
            assert_eq!(route(&mut listeners, number), (0, true));
        }
        listeners.add(one, Kind::Channel, b"md:A", Some(TopicId::Market(0)));
        assert_eq!(route(&mut listeners, 0), (1, false));
        assert_eq!(
            route(&mut listeners, 700_000),
            (0, true),
            "a name of another topic"
        );
        listeners.add(one, Kind::Pattern, b"md:*", None);
        assert_eq!(route(&mut listeners, 0), (2, false));
        assert_eq!(route(&mut listeners, 700_000), (2, false));
        assert_eq!(listeners.routed, 4);
        listeners.remove(one, Kind::Pattern, b"md:*", None);
        assert_eq!(route(&mut listeners, 0), (1, false));
        // The invalid route is counted until its topic has news.
        assert_eq!(listeners.routed, 3);
    }
}
