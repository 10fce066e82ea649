//! Who subscribes to what: the index of a publisher.

mod branches;
mod nodes;

use std::hash::Hash;

use foldhash::{HashMap, HashMapExt, HashSet};

use nodes::{Count, NodeId, Nodes};

/// Subscriptions by prefix: a topic matches each prefix that it begins with.
///
/// A radix tree: a match takes time by the length of the topic and the number of subscribers
/// found, for any number of subscriptions, and nothing here recurses, so that no length of
/// topic can exhaust the stack (libzmq's GHSA-qq65-x72m-9wr8). A subscription with a prefix of
/// its own costs some 60 to 100 bytes.
///
/// Each pair of prefix and subscriber is counted, as the RFC wants it. Note that libzmq as a
/// *publisher* keeps a set, and as a *subscriber* says SUBSCRIBE each time but CANCEL only once
/// the last is gone: a publisher that wants to agree with it uses
/// [`remove_pair`](Self::remove_pair) for a CANCEL.
#[derive(Debug, Clone)]
pub struct PrefixTable<T> {
    nodes: Nodes<T>,
    /// The nodes at which a subscriber has a prefix; never an empty set.
    places: HashMap<T, HashSet<NodeId>>,
    /// The pairs in all the sets above.
    pairs: usize,
    /// The nodes that have a subscriber.
    prefixes: usize,
}

/// What [`PrefixTable::insert`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    /// No subscriber had this prefix before.
    FirstOfPrefix,
    /// Others had it, this subscriber had not.
    FirstOfSubscriber,
    /// This subscriber had it: it is counted once more.
    Again,
}

impl Insertion {
    /// No subscriber had the prefix before: a forwarder passes the subscription on.
    pub fn is_first(self) -> bool {
        self == Insertion::FirstOfPrefix
    }
}

/// What [`PrefixTable::remove`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The subscriber did not have the prefix.
    NotFound,
    /// It had it more than once and still has it.
    StillCounted,
    /// It no longer has it, others have.
    LastOfSubscriber,
    /// No subscriber has it any more.
    LastOfPrefix,
}

impl Removal {
    /// No subscriber has the prefix any more: a forwarder passes the cancellation on.
    pub fn is_last(self) -> bool {
        self == Removal::LastOfPrefix
    }
}

impl<T: Copy + Ord + Hash> PrefixTable<T> {
    /// An empty table; allocates with the first insertion.
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

    /// Takes one count of a subscription back.
    pub fn remove(&mut self, prefix: &[u8], subscriber: T) -> Removal {
        match self.nodes.find(prefix) {
            Some(node) if self.nodes.subscribers_mut(node).uncount(subscriber) => {
                Removal::StillCounted
            }
            Some(node) => self.remove_at(node, subscriber),
            None => Removal::NotFound,
        }
    }

    /// Ends a subscription however often it was counted.
    pub fn remove_pair(&mut self, prefix: &[u8], subscriber: T) -> Removal {
        match self.nodes.find(prefix) {
            Some(node) => self.remove_at(node, subscriber),
            None => Removal::NotFound,
        }
    }

    /// Ends all subscriptions of a subscriber, in time by their number alone. `ended` is given
    /// each prefix without a subscriber, in no order.
    pub fn remove_subscriber(&mut self, subscriber: T, ended: &mut impl FnMut(&[u8])) {
        self.remove_some(subscriber, usize::MAX, ended);
    }

    /// Ends some subscriptions of a subscriber, `most` or fewer: a million in one call take
    /// seconds. Returns whether it has more. `ended` is given each prefix without a subscriber.
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

    /// Gives each subscriber that has a prefix of the topic, once, however many of its prefixes
    /// match. Allocates only where more than eight prefixes with subscribers match.
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

    /// Whether [`matches`](Self::matches) would give this subscriber.
    pub fn matches_one(&self, topic: &[u8], subscriber: T) -> bool {
        let mut found = false;
        self.matches(topic, &mut |each| found |= each == subscriber);
        found
    }

    /// Whether [`matches`](Self::matches) would give anybody.
    #[inline]
    pub fn covers(&self, topic: &[u8]) -> bool {
        self.nodes.walk(topic).next().is_some()
    }

    /// Gives each prefix that is subscribed to, with the number of its subscribers, in no order.
    pub fn for_each_prefix(&self, each: &mut impl FnMut(&[u8], usize)) {
        let mut prefix = Vec::new();
        for (node, subscribers) in self.nodes.occupied() {
            self.nodes.spell(node, &mut prefix);
            each(&prefix, subscribers.len());
        }
    }

    /// The pairs of prefix and subscriber.
    pub fn len(&self) -> usize {
        self.pairs
    }

    /// Whether there is no subscription.
    pub fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    /// The distinct prefixes.
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

    /// Many nested prefixes match: gathers and sorts, so that the work stays near the number of
    /// subscribers found.
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

/// Matching prefixes that are merged in place.
const MERGED_MAX: usize = 8;

#[cfg(test)]
mod tests;
