//! Subscriptions of all lanes: the lanes that a message must reach.
//!
//! Each lane knows its own subscribers in full ([`crate::fanout`]). Lanes share only a count per
//! lane and name, so that a publisher can skip lanes without a subscriber.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tidewire_keyspace::glob;
use tidewire_zmtp::prefixes::{PrefixTable, Removal};

use crate::fence::Generation;
use crate::scan::literal;
use crate::topic::second_literal_min;

/// Subscriptions of all lanes.
#[derive(Debug, Default)]
pub struct Subscriptions {
    tables: RwLock<Tables>,
    /// Incremented by every new subscription, after the topic's interest is set and before its
    /// current value is read.
    generation: Generation,
}

#[derive(Debug, Default)]
struct Tables {
    channels: HashMap<Box<[u8]>, LaneCounts, RandomState>,
    shard_channels: HashMap<Box<[u8]>, LaneCounts, RandomState>,
    patterns: HashMap<Box<[u8]>, LaneCounts, RandomState>,
    prefixes: PrefixTable<u16>,
    /// Number of subscriptions on each prefix, for one lane.
    prefix_counts: HashMap<Box<[u8]>, LaneCounts, RandomState>,
}

/// Subscribers of one name, by lane. Few lanes have any, so a short list is enough.
#[derive(Debug, Default)]
struct LaneCounts(Vec<(u16, u64)>);

/// The destinations of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// One bit per lane.
    pub lanes: u64,
    /// Number of Redis clients, counted once per matching subscription.
    pub receivers: u64,
}

/// The ways to subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// SUBSCRIBE: one name.
    Channel,
    /// SSUBSCRIBE: one name that SPUBLISH publishes under.
    Shard,
    /// PSUBSCRIBE: a glob pattern.
    Pattern,
    /// A ZeroMQ subscription: every name with this prefix.
    Prefix,
}

impl Subscriptions {
    /// Counts one more subscriber of `name` on `lane`.
    pub fn add(&self, lane: usize, kind: Kind, name: &[u8]) {
        debug_assert!(
            lane < u64::BITS as usize,
            "a route has a bit for each of 64 lanes"
        );
        let mut tables = self.tables.write();
        let lane = lane as u16;
        if tables
            .counts(kind)
            .entry(name.into())
            .or_default()
            .add(lane)
            && kind == Kind::Prefix
        {
            tables.prefixes.insert(name, lane);
        }
        drop(tables);
        self.generation.raise();
    }

    /// Counts one subscriber fewer of `name` on `lane`.
    pub fn remove(&self, lane: usize, kind: Kind, name: &[u8]) {
        let mut tables = self.tables.write();
        let lane = lane as u16;
        let Some(counts) = tables.counts(kind).get_mut(name) else {
            return;
        };
        let last_of_lane = counts.remove(lane);
        if counts.0.is_empty() {
            tables.counts(kind).remove(name);
        }
        if last_of_lane && kind == Kind::Prefix {
            let removal = tables.prefixes.remove(name, lane);
            debug_assert_ne!(
                removal,
                Removal::NotFound,
                "what is counted is in the table"
            );
        }
    }

    /// Returns the generation of subscriptions, which a publisher checks after its batch.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Returns the destinations of a message named `name`.
    pub fn route(&self, name: &[u8]) -> Route {
        let tables = self.tables.read();
        let mut route = Route::default();
        if let Some(counts) = tables.channels.get(name) {
            route.add(counts);
        }
        for (pattern, counts) in &tables.patterns {
            if glob::matches(pattern, name) {
                route.add(counts);
            }
        }
        tables
            .prefixes
            .matches(name, &mut |lane| route.lanes |= 1 << lane);
        route
    }

    /// Returns whether any lane has a subscription that asks for this second name of a topic.
    pub fn ask_second(&self, name: &[u8]) -> bool {
        let (tables, length_min) = (self.tables.read(), second_literal_min(name));
        let is_asked =
            |pattern: &[u8]| literal(pattern).len() >= length_min && glob::matches(pattern, name);
        tables.channels.contains_key(name)
            || tables.prefixes.covers_from(name, length_min)
            || tables.patterns.keys().any(|pattern| is_asked(pattern))
    }

    /// Returns the destinations of a message of SPUBLISH.
    pub fn shard_route(&self, name: &[u8]) -> Route {
        let mut route = Route::default();
        if let Some(counts) = self.tables.read().shard_channels.get(name) {
            route.add(counts);
        }
        route
    }

    /// Returns the names of channels, or of shard channels, with subscribers, that match
    /// `pattern` (all without a pattern).
    pub fn channels(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let tables = self.tables.read();
        let wanted = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        tables
            .named(kind)
            .keys()
            .filter(|name| wanted(name))
            .cloned()
            .collect()
    }

    /// Returns the number of subscribers of exactly this channel or shard channel, without
    /// patterns.
    pub fn channel_subscribers(&self, kind: Kind, name: &[u8]) -> u64 {
        self.tables
            .read()
            .named(kind)
            .get(name)
            .map_or(0, LaneCounts::total)
    }

    /// Returns whether no lane has a subscriber to anything but shard channels.
    pub fn is_empty(&self) -> bool {
        let tables = self.tables.read();
        tables.channels.is_empty() && tables.patterns.is_empty() && tables.prefix_counts.is_empty()
    }

    /// Returns the number of distinct patterns.
    pub fn pattern_count(&self) -> usize {
        self.tables.read().patterns.len()
    }

    /// Returns the number of distinct shard channels.
    pub fn shard_channel_count(&self) -> usize {
        self.tables.read().shard_channels.len()
    }

    /// Returns the number of distinct channels.
    pub fn channel_count(&self) -> usize {
        self.tables.read().channels.len()
    }
}

impl Tables {
    fn named(&self, kind: Kind) -> &HashMap<Box<[u8]>, LaneCounts, RandomState> {
        match kind {
            Kind::Shard => &self.shard_channels,
            _ => &self.channels,
        }
    }

    fn counts(&mut self, kind: Kind) -> &mut HashMap<Box<[u8]>, LaneCounts, RandomState> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Shard => &mut self.shard_channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Prefix => &mut self.prefix_counts,
        }
    }
}

impl Route {
    fn add(&mut self, counts: &LaneCounts) {
        for &(lane, count) in &counts.0 {
            debug_assert!(count > 0, "a lane without subscribers is not listed");
            self.lanes |= 1 << lane;
            self.receivers += count;
        }
    }
}

impl LaneCounts {
    /// Counts one more on `lane`. Returns whether it is the lane's first.
    fn add(&mut self, lane: u16) -> bool {
        if let Some((_, count)) = self.0.iter_mut().find(|(other, _)| *other == lane) {
            *count += 1;
            return false;
        }
        if self.0.is_empty() {
            // Most names have subscribers on one lane.
            self.0.reserve_exact(1);
        }
        self.0.push((lane, 1));
        debug_assert!(self.0.len() <= u64::BITS as usize, "a lane is listed once");
        true
    }

    /// Counts one fewer on `lane`. Returns whether it was the lane's last.
    fn remove(&mut self, lane: u16) -> bool {
        let Some(position) = self.0.iter().position(|(other, _)| *other == lane) else {
            return false;
        };
        debug_assert!(
            self.0[position].1 > 0,
            "a lane without subscribers is not listed"
        );
        self.0[position].1 -= 1;
        let last = self.0[position].1 == 0;
        if last {
            self.0.swap_remove(position);
        }
        last
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_names_the_lanes_and_counts_the_redis_clients() {
        let subscriptions = Subscriptions::default();
        subscriptions.add(0, Kind::Channel, b"md:A");
        subscriptions.add(0, Kind::Channel, b"md:A");
        subscriptions.add(2, Kind::Pattern, b"md:*");
        subscriptions.add(5, Kind::Prefix, b"md");
        assert_eq!(
            subscriptions.route(b"md:A"),
            Route {
                lanes: 0b100101,
                receivers: 3
            }
        );
        assert_eq!(
            subscriptions.route(b"md:B"),
            Route {
                lanes: 0b100100,
                receivers: 1
            }
        );
        assert_eq!(subscriptions.route(b"other"), Route::default());
        subscriptions.remove(0, Kind::Channel, b"md:A");
        assert_eq!(subscriptions.channel_subscribers(Kind::Channel, b"md:A"), 1);
        subscriptions.remove(0, Kind::Channel, b"md:A");
        subscriptions.remove(5, Kind::Prefix, b"md");
        subscriptions.remove(2, Kind::Pattern, b"md:*");
        assert_eq!(subscriptions.route(b"md:A"), Route::default());
        assert_eq!(
            subscriptions.channel_count() + subscriptions.pattern_count(),
            0
        );
    }

    #[test]
    fn a_second_name_is_asked_for_by_who_names_the_first_one_and_the_separator() {
        for (kind, name, is_asked) in [
            (Kind::Channel, &b"md:A@V1"[..], true),
            (Kind::Channel, b"md:A", false),
            (Kind::Shard, b"md:A@V1", false),
            (Kind::Prefix, b"md:A@V1", true),
            (Kind::Prefix, b"md:A@", true),
            (Kind::Prefix, b"md:A", false),
            (Kind::Prefix, b"", false),
            (Kind::Prefix, b"md:A@V12", false),
            (Kind::Pattern, b"md:A@*", true),
            (Kind::Pattern, b"md:A@[UV]1", true),
            (Kind::Pattern, b"md:A@?", false),
            (Kind::Pattern, b"md:A*", false),
            (Kind::Pattern, b"md:*@V1", false),
        ] {
            let subscriptions = Subscriptions::default();
            subscriptions.add(1, kind, name);
            let text = String::from_utf8_lossy(name);
            assert_eq!(subscriptions.ask_second(b"md:A@V1"), is_asked, "{text}");
            assert!(!subscriptions.ask_second(b"md:B@V1"), "{text}");
            subscriptions.remove(1, kind, name);
            assert!(!subscriptions.ask_second(b"md:A@V1"), "{text}");
        }
    }

    #[test]
    fn shard_channels_are_names_of_their_own() {
        let subscriptions = Subscriptions::default();
        subscriptions.add(1, Kind::Shard, b"a");
        assert_eq!(subscriptions.route(b"a"), Route::default());
        let expected = Route {
            lanes: 0b10,
            receivers: 1,
        };
        assert_eq!(subscriptions.shard_route(b"a"), expected);
        assert_eq!(subscriptions.channels(Kind::Shard, None), [b"a"[..].into()]);
        assert!(subscriptions.channels(Kind::Channel, None).is_empty());
        subscriptions.remove(1, Kind::Shard, b"a");
        assert_eq!(subscriptions.shard_channel_count(), 0);
    }

    #[test]
    fn removing_what_was_never_added_changes_nothing() {
        let subscriptions = Subscriptions::default();
        subscriptions.add(1, Kind::Prefix, b"a");
        subscriptions.remove(0, Kind::Prefix, b"a");
        subscriptions.remove(1, Kind::Channel, b"a");
        assert_eq!(subscriptions.route(b"abc").lanes, 0b10);
    }
}
