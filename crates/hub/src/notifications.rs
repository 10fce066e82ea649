//! Keyspace notifications: what happens to keys, told on the channels that Redis tells it on.

use std::sync::Arc;

use tidewire_keyspace::{Event, EventClasses};

use crate::hub::Hub;
use tidewire_fanout::{Origin, Publication};

/// Publishes `event` of `key`; whether there is a subscriber. A stored key's shard is locked
/// meanwhile, so that all lanes hear of a key's events in the order in which they happened.
#[cold]
pub(crate) fn publish(hub: &Hub, database: usize, key: &[u8], event: Event) -> bool {
    let classes = hub.keyspace.notifications();
    let event = event.name().as_bytes();
    let mut is_heard = false;
    if classes.contains(EventClasses::KEYSPACE_CHANNELS) {
        is_heard |= publish_one(hub, "__keyspace@", database, key, event);
    }
    if classes.contains(EventClasses::KEYEVENT_CHANNELS) {
        is_heard |= publish_one(hub, "__keyevent@", database, event, key);
    }
    is_heard
}

fn publish_one(hub: &Hub, prefix: &str, database: usize, about: &[u8], payload: &[u8]) -> bool {
    let mut channel = Vec::with_capacity(prefix.len() + about.len() + 5);
    channel.extend_from_slice(prefix.as_bytes());
    channel.extend_from_slice(itoa::Buffer::new().format(database).as_bytes());
    channel.extend_from_slice(b"__:");
    channel.extend_from_slice(about);
    let route = hub.post.subscriptions.route(&channel);
    if route.lanes != 0 {
        let publication = Publication::single(&channel, payload, Origin::Channel);
        // The own lane's share goes through its mailbox too: it must not overtake what is there.
        hub.post.send(route.lanes, &Arc::new(publication));
    }
    route.lanes != 0
}
