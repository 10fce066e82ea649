//! The live keys' side of fan-out, and the channels to which clients may publish.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_fanout::{Kind, LiveKeys, OutputLimit};
use tidewire_keyspace::{Locked, ValueRef};
use tidewire_lane::unix_ms;

use crate::live::{has_form, is_reserved_channel, write_published};
use crate::parameters::ClientClass;
use crate::server::Server;

impl LiveKeys for Server {
    fn pubsub_limit(&self) -> OutputLimit {
        self.parameters.output_limit(ClientClass::Pubsub)
    }

    fn watch_topics_for(&self, kind: Kind, name: &[u8]) {
        Server::watch_topics_for(self, kind, name);
    }

    fn watches_topics(&self, lane: usize) -> bool {
        Server::watches_topics(self, lane)
    }

    fn tell_topic_changed(&self, name: &[u8]) -> bool {
        Server::tell_topic_changed(self, name)
    }

    fn is_live(&self, name: &[u8]) -> bool {
        let is_there = |value: Option<ValueRef<'_>>| value.is_some_and(has_form);
        if let Some(mount) = self.keyspace.mount_of(0, name) {
            return mount.publish(name, &mut Vec::new());
        }
        !self.is_mounted(name) && self.keyspace.live_state(name, unix_ms(), is_there)
    }

    fn live_names(&self, wanted: &dyn Fn(&[u8]) -> bool, names: &mut Vec<Arc<[u8]>>) {
        let mut stored = |key: &[u8]| !self.is_mounted(key) && wanted(key);
        let mut push = |key: &[u8], value: ValueRef<'_>| {
            names.extend(has_form(value).then(|| Arc::from(key)));
        };
        self.keyspace
            .for_each_live(unix_ms(), &mut stored, &mut push);
        self.shared_names(wanted, names);
    }

    fn write_live_state(&self, name: &[u8], out: &mut Vec<u8>) -> u64 {
        // A master decides when a key of its replica is gone, and may still prolong its life.
        let now_ms = match self.replication.master() {
            Some(_) => 0,
            None => unix_ms(),
        };
        self.keyspace.live_state(name, now_ms, |value| {
            match self.keyspace.mount_of(0, name) {
                Some(mount) if mount.publish(name, out) => {}
                _ => write_published(value, out),
            }
            self.live_version.load(Ordering::Acquire)
        })
    }

    fn may_look(&self, lane: usize) -> bool {
        self.scripting.rights.has(lane)
    }

    fn is_filling(&self) -> bool {
        Server::is_filling(self)
    }
}

impl Server {
    /// Whether clients may not publish under this name because a live source does.
    pub fn is_mounted(&self, name: &[u8]) -> bool {
        self.keyspace.mount_of(0, name).is_some()
    }

    /// Whether only a live source may publish under this name.
    pub fn is_of_a_source(&self, name: &[u8]) -> bool {
        self.is_mounted(name) || self.topics.own(name)
    }

    /// Why clients may not publish plain messages under this name, if they may not: subscribers
    /// would take one for the last value. `locked` is what the caller holds, if it holds shards.
    pub(crate) fn publish_refusal(
        &self,
        name: &[u8],
        locked: Option<&Locked<'_>>,
    ) -> Option<&'static str> {
        if self.is_of_a_source(name) {
            return Some("READONLY this channel belongs to a live source");
        }
        if is_reserved_channel(name) {
            return Some("ERR this channel is reserved: the hub alone publishes on it");
        }
        let is_topic = self.keyspace.is_topic(name, locked);
        is_topic.then_some("READONLY this channel carries the values of a live key: write the key")
    }
}
