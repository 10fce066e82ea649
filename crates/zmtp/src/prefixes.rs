//! The subscriptions of a publisher: an index by prefix.

mod branches;
mod nodes;

use std::hash::Hash;

use foldhash::{HashMap, HashMapExt, HashSet};

use nodes::{Count, NodeId, Nodes};

/// Subscriptions by prefix: a topic matches each prefix that it begins with.
///
/// A radix tree: a match takes time by the length of the topic and the number of subscribers
/// found, for any number of subscriptions. Nothing here recurses, so no length of topic can
/// exhaust the stack (libzmq's GHSA-qq65-x72m-9wr8). A subscription with its own prefix takes
/// about 60 to 100 bytes.
///
/// Each pair of prefix and subscriber is counted, as the RFC requires. Note that libzmq as a
/// *publisher* keeps a set, and as a *subscriber* sends SUBSCRIBE each time but CANCEL only when
/// the last one ends. A publisher that must agree with it uses [`remove_pair`](Self::remove_pair)
/// for a CANCEL.
#[derive(Debug, Clone)]
pub struct PrefixTable<T> {
    nodes: Nodes<T>,
    /// The nodes where a subscriber has a prefix; never an empty set.
    places: HashMap<T, HashSet<NodeId>>,
    /// Number of pairs in all sets above.
    pairs: usize,
    /// Number of nodes that have a subscriber.
    prefixes: usize,
}

/// The result of [`PrefixTable::insert`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    /// No subscriber had this prefix before.
    FirstOfPrefix,
    /// Others had the prefix, this subscriber did not.
    FirstOfSubscriber,
    /// This subscriber had the prefix: it is counted once more.
    Again,
}

impl Insertion {
    /// Returns whether no subscriber had the prefix before: a forwarder passes the subscription
    /// on.
    pub fn is_first(self) -> bool {
        self == Insertion::FirstOfPrefix
    }
}

/// The result of [`PrefixTable::remove`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The subscriber did not have the prefix.
    NotFound,
    /// The subscriber had it more than once and still has it.
    StillCounted,
    /// The subscriber no longer has it, others do.
    LastOfSubscriber,
    /// No subscriber has it any more.
    LastOfPrefix,
}

impl Removal {
    /// Returns whether no subscriber has the prefix any more: a forwarder passes the cancellation
    /// on.
    pub fn is_last(self) -> bool {
        self == Removal::LastOfPrefix
    }
}

impl<T: Copy + Ord + Hash> PrefixTable<T> {
    /// Creates an empty table; the first insertion allocates.
    pub fn new() -> PrefixTable<T> {
        PrefixTable {
            nodes: Nodes::new(),
            places: HashMap::new(),
            pairs: 0,
            prefixes: 0,
        }
    }

    /// Adds a subscription, or counts it once more.
    pub fn insert(&mut self, prefix: &[u8], subscriber: T) -> Insertion {
        let node = self.nodes.make(prefix);
        let subscribers = self.nodes.subscribers_mut(node);
        let insertion = match subscribers.add(subscriber) {
            Count::Again => return Insertion::Again,
            Count::New if subscribers.as_slice().len() == 1 => Insertion::FirstOfPrefix,
            Count::New => Insertion::FirstOfSubscriber,
        };
        self.pairs += 1;
        self.prefixes += usize::from(insertion.is_first());
        self.places.entry(subscriber).or_default().insert(node);
        insertion
    }

    /// Removes one count of a subscription.
    pub fn remove(&mut self, prefix: &[u8], subscriber: T) -> Removal {
        match self.nodes.find(prefix) {
            Some(node) if self.nodes.subscribers_mut(node).uncount(subscriber) => {
                Removal::StillCounted
            }
            Some(node) => self.remove_at(node, subscriber),
            None => Removal::NotFound,
        }
    }

    /// Ends a subscription regardless of its count.
    pub fn remove_pair(&mut self, prefix: &[u8], subscriber: T) -> Removal {
        match self.nodes.find(prefix) {
            Some(node) => self.remove_at(node, subscriber),
            None => Removal::NotFound,
        }
    }

    /// Ends all subscriptions of a subscriber, in time proportional to their number. Passes each
    /// prefix without a subscriber to `ended`, in no order.
    pub fn remove_subscriber(&mut self, subscriber: T, ended: &mut impl FnMut(&[u8])) {
        self.remove_some(subscriber, usize::MAX, ended);
    }

    /// Ends at most `most` subscriptions of a subscriber, because a million in one call take
    /// seconds. Returns whether it has more. Passes each prefix without a subscriber to `ended`,
    /// in no order.
    pub fn remove_some(
        &mut self,
        subscriber: T,
        most: usize,
        ended: &mut impl FnMut(&[u8]),
    ) -> bool {
        let Some(places) = self.places.get_mut(&subscriber) else {
            return false;
        };
        let has_more = places.len() > most;
        let some: Vec<NodeId> = match has_more {
            true => places.iter().copied().take(most).collect(),
            false => places.drain().collect(),
        };
        for node in &some {
            places.remove(node);
        }
        if !has_more {
            self.places.remove(&subscriber);
        }
        let mut prefix = Vec::new();
        for node in some {
            self.pairs -= 1;
            self.nodes.subscribers_mut(node).take(subscriber);
            if self.nodes.subscribers(node).is_empty() {
                self.prefixes -= 1;
                self.nodes.spell(node, &mut prefix);
                self.nodes.prune(node);
                ended(&prefix);
            }
        }
        has_more
    }

    /// Calls the visitor for each subscriber with a prefix of the topic, once per subscriber.
    /// Allocates only if more than eight prefixes with subscribers match.
    #[inline]
    pub fn matches(&self, topic: &[u8], each: &mut impl FnMut(T)) {
        let mut found: [&[(T, u32)]; MERGED_MAX] = [&[]; MERGED_MAX];
        let mut count = 0;
        let mut walk = self.nodes.walk(topic);
        for subscribers in &mut walk {
            if count == MERGED_MAX {
                return self.match_many(topic, each);
            }
            found[count] = subscribers;
            count += 1;
        }
        for (index, subscribers) in found[..count].iter().enumerate() {
            for &(subscriber, _) in *subscribers {
                let is_known = |earlier: &&[(T, u32)]| {
                    earlier
                        .binary_search_by_key(&subscriber, |&(known, _)| known)
                        .is_ok()
                };
                if index == 0 || !found[..index].iter().any(is_known) {
                    each(subscriber);
                }
            }
        }
    }

    /// Returns whether [`matches`](Self::matches) would find this subscriber.
    pub fn matches_one(&self, topic: &[u8], subscriber: T) -> bool {
        let mut found = false;
        self.matches(topic, &mut |each| found |= each == subscriber);
        found
    }

    /// Returns whether [`matches`](Self::matches) would find any subscriber.
    #[inline]
    pub fn covers(&self, topic: &[u8]) -> bool {
        self.nodes.walk(topic).next().is_some()
    }

    /// Does the same as [`matches`](Self::matches), with the prefixes of at least `length_min`
    /// bytes.
    pub fn matches_from(&self, topic: &[u8], length_min: usize, each: &mut impl FnMut(T)) {
        let Some(rest_max) = topic.len().checked_sub(length_min) else {
            return;
        };
        let (mut all, mut walk) = (Vec::new(), self.nodes.walk(topic));
        while let Some(subscribers) = walk.next_within(rest_max) {
            all.extend(subscribers.iter().map(|&(subscriber, _)| subscriber));
        }
        all.sort_unstable();
        all.dedup();
        all.into_iter().for_each(each);
    }

    /// Returns whether [`matches_from`](Self::matches_from) would find any subscriber.
    pub fn covers_from(&self, topic: &[u8], length_min: usize) -> bool {
        let rest_max = topic.len().checked_sub(length_min);
        rest_max.is_some_and(|rest_max| self.nodes.walk(topic).next_within(rest_max).is_some())
    }

    /// Calls the visitor for each prefix with the number of its subscribers, in no order.
    pub fn for_each_prefix(&self, each: &mut impl FnMut(&[u8], usize)) {
        let mut prefix = Vec::new();
        for (node, subscribers) in self.nodes.occupied() {
            self.nodes.spell(node, &mut prefix);
            each(&prefix, subscribers.len());
        }
    }

    /// Returns the number of pairs of prefix and subscriber.
    pub fn len(&self) -> usize {
        self.pairs
    }

    /// Returns whether there is no subscription.
    pub fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    /// Returns the number of distinct prefixes.
    pub fn prefix_count(&self) -> usize {
        self.prefixes
    }

    fn remove_at(&mut self, node: NodeId, subscriber: T) -> Removal {
        let subscribers = self.nodes.subscribers_mut(node);
        if !subscribers.take(subscriber) {
            return Removal::NotFound;
        }
        let is_last = subscribers.as_slice().is_empty();
        self.pairs -= 1;
        if let Some(places) = self.places.get_mut(&subscriber) {
            places.remove(&node);
            if places.is_empty() {
                self.places.remove(&subscriber);
            }
        }
        if !is_last {
            return Removal::LastOfSubscriber;
        }
        self.prefixes -= 1;
        self.nodes.prune(node);
        Removal::LastOfPrefix
    }

    /// Many nested prefixes match: collect and sort, so that the work stays close to the number
    /// of subscribers found.
    #[cold]
    fn match_many(&self, topic: &[u8], each: &mut impl FnMut(T)) {
        let mut all: Vec<T> = Vec::new();
        for subscribers in self.nodes.walk(topic) {
            all.extend(subscribers.iter().map(|&(subscriber, _)| subscriber));
        }
        all.sort_unstable();
        all.dedup();
        all.into_iter().for_each(each);
    }
}

impl<T: Copy + Ord + Hash> Default for PrefixTable<T> {
    fn default() -> PrefixTable<T> {
        PrefixTable::new()
    }
}

/// Maximum matching prefixes merged in place.
const MERGED_MAX: usize = 8;

#[cfg(test)]
mod tests;
