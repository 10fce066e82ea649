//! The listeners of one lane, and the cached routes of topics.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidewire_keyspace::glob;
use tidewire_lane::ConnectionId;
use tidewire_zmtp::prefixes::{Insertion, PrefixTable, Removal};

use crate::frames::How;
use crate::subscriptions::Kind;
use crate::topic::TopicId;

/// The subscriptions of one lane, by name.
#[derive(Debug)]
pub(crate) struct Listeners {
    channels: HashMap<Box<[u8]>, Vec<ConnectionId>, RandomState>,
    shard_channels: HashMap<Box<[u8]>, Vec<ConnectionId>, RandomState>,
    patterns: HashMap<Arc<[u8]>, Vec<ConnectionId>, RandomState>,
    prefixes: PrefixTable<ConnectionId>,
    /// Bytes counted for channels, patterns and distinct prefixes.
    name_bytes: usize,
    /// Routes of topics by number, for each source; `None` until first used.
    routes: [Vec<Option<Vec<Target>>>; TopicId::KINDS],
    /// Sum of the lengths of `routes`.
    routed: usize,
}

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
            routes: Default::default(),
            routed: 0,
        }
    }

    /// Returns whether another subscription to `name` would exceed the limit.
    pub(crate) fn is_full(&self, name: &[u8]) -> bool {
        let pair_bytes = self.prefixes.len() * SUBSCRIPTION_OVERHEAD_BYTES;
        self.name_bytes + pair_bytes + cost_bytes(name) > SUBSCRIPTION_BYTES_MAX
    }

    /// Adds a subscription that matches these topics. Channels and patterns must be new to the
    /// connection. A prefix counts once on the lane, regardless of the number of connections.
    pub(crate) fn add(
        &mut self,
        connection: ConnectionId,
        kind: Kind,
        name: &[u8],
        topics: &[TopicId],
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
        self.forget_routes(kind, topics);
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
        self.forget_routes(kind, topic.as_slice());
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
            self.forget_routes(Kind::Prefix, &[]);
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

    /// Returns whether the channel `name` has a subscriber.
    pub(crate) fn hear(&self, name: &[u8]) -> bool {
        self.channels.contains_key(name)
            || self.prefixes.covers(name)
            || self.patterns.keys().any(|text| glob::matches(text, name))
    }

    /// Takes out the targets of a topic, so that they can be walked. Return them with
    /// [`Listeners::put_route`]. If they are not cached, they are collected into `spare`.
    pub(crate) fn take_route(
        &mut self,
        id: TopicId,
        name: &[u8],
        mut spare: Vec<Target>,
    ) -> Vec<Target> {
        let (source, index) = id.place();
        let route = self.routes[source].get_mut(index);
        if let Some(route) = route.and_then(Option::take) {
            debug_assert!(self.routed >= route.len(), "the sum has every route in it");
            self.routed -= route.len();
            return route;
        }
        spare.clear();
        self.collect(name, &mut spare);
        spare
    }

    /// Caches the targets of a topic if the cache has room. Otherwise they are collected again
    /// with the topic's next news.
    pub(crate) fn put_route(&mut self, id: TopicId, route: Vec<Target>) -> Option<Vec<Target>> {
        if self.routed + route.len() > ROUTED_MAX {
            return Some(route);
        }
        let (source, index) = id.place();
        let routes = &mut self.routes[source];
        if index >= routes.len() {
            routes.resize(index + 1, None);
        }
        debug_assert!(
            routes[index].is_none(),
            "a route is taken out before it is put back"
        );
        self.routed += route.len();
        routes[index] = Some(route);
        None
    }

    fn named(&mut self, kind: Kind) -> &mut HashMap<Box<[u8]>, Vec<ConnectionId>, RandomState> {
        match kind {
            Kind::Shard => &mut self.shard_channels,
            _ => &mut self.channels,
        }
    }

    fn forget_routes(&mut self, kind: Kind, topics: &[TopicId]) {
        if !matches!(kind, Kind::Channel | Kind::Shard) {
            self.routes.iter_mut().for_each(Vec::clear);
            self.routed = 0;
            return;
        }
        for (source, index) in topics.iter().copied().map(TopicId::place) {
            let route = self.routes[source].get_mut(index).and_then(Option::take);
            self.routed -= route.map_or(0, |route| route.len());
        }
    }
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
