//! Keys that clients wait for or watch. In a shard without any, each write only checks a flag.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::waiting::Waiter;

/// The keys of one database of one shard that clients wait for or watch.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    keys: HashMap<Box<[u8]>, Interest, RandomState>,
}

#[derive(Debug, Default)]
struct Interest {
    /// Incremented by each change; not reset while the key is watched.
    version: u64,
    watchers: u32,
    waiters: VecDeque<Arc<Waiter>>,
}

impl Interest {
    fn is_idle(&self) -> bool {
        self.watchers == 0 && self.waiters.is_empty()
    }
}

impl Interests {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Records a change of the key. Returns whether a client waits for it.
    pub(crate) fn touch(&mut self, key: &[u8]) -> bool {
        match self.keys.get_mut(key) {
            Some(interest) => {
                interest.version += 1;
                !interest.waiters.is_empty()
            }
            None => false,
        }
    }

    /// Returns all names, for changes of all keys at once.
    pub(crate) fn names(&self) -> Vec<Box<[u8]>> {
        self.keys.keys().cloned().collect()
    }

    pub(crate) fn park(&mut self, key: &[u8], waiter: &Arc<Waiter>) {
        let waiters = &mut self.interest(key).waiters;
        debug_assert!(
            !waiters.back().is_some_and(|last| Arc::ptr_eq(last, waiter)),
            "a client waits for a key once"
        );
        waiters.push_back(waiter.clone());
    }

    pub(crate) fn unpark(&mut self, key: &[u8], waiter: &Waiter) {
        if let Some(interest) = self.keys.get_mut(key) {
            interest
                .waiters
                .retain(|other| !std::ptr::eq(&**other, waiter));
            self.forget_idle(key);
        }
    }

    /// Returns the clients that wait for the key, in order of arrival.
    pub(crate) fn waiters(&self, key: &[u8]) -> Vec<Arc<Waiter>> {
        let interest = self.keys.get(key);
        interest.map_or(Vec::new(), |interest| {
            interest.waiters.iter().cloned().collect()
        })
    }

    /// Counts the keys that a client accepted by `wanted` waits for.
    pub(crate) fn awaited(&self, wanted: impl Fn(&Waiter) -> bool) -> usize {
        let keys = self.keys.values();
        let is_awaited = |interest: &&Interest| interest.waiters.iter().any(|w| wanted(w));
        keys.filter(is_awaited).count()
    }

    /// Starts to watch a key.
    pub(crate) fn watch(&mut self, key: &[u8]) {
        self.interest(key).watchers += 1;
    }

    pub(crate) fn unwatch(&mut self, key: &[u8]) {
        if let Some(interest) = self.keys.get_mut(key) {
            debug_assert!(interest.watchers > 0, "it was watched before");
            interest.watchers = interest.watchers.saturating_sub(1);
            self.forget_idle(key);
        }
    }

    /// Returns the version of a watched key.
    pub(crate) fn version(&self, key: &[u8]) -> u64 {
        self.keys.get(key).map_or(0, |interest| interest.version)
    }

    fn interest(&mut self, key: &[u8]) -> &mut Interest {
        self.keys.entry(key.into()).or_default()
    }

    fn forget_idle(&mut self, key: &[u8]) {
        if self.keys.get(key).is_some_and(Interest::is_idle) {
            self.keys.remove(key);
        }
    }
}
