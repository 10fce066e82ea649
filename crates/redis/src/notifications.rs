//! Keyspace notifications, on Redis's channels.

use std::sync::Arc;

use tidewire_keyspace::{Event, EventClasses};

use crate::server::Server;
use tidewire_fanout::{Origin, Publication};

/// Publishes `event` of `key`; whether there is a subscriber. A stored key's shard is locked
/// meanwhile, so that all lanes hear of a key's events in the order in which they happened.
#[cold]
pub(crate) fn publish(server: &Server, database: usize, key: &[u8], event: Event) -> bool {
    let classes = server.keyspace.notifications();
    let event = event.name().as_bytes();
    let mut is_heard = false;
    if classes.contains(EventClasses::KEYSPACE_CHANNELS) {
        is_heard |= publish_one(server, "__keyspace@", database, key, event);
    }
    if classes.contains(EventClasses::KEYEVENT_CHANNELS) {
        is_heard |= publish_one(server, "__keyevent@", database, event, key);
    }
    is_heard
}

fn publish_one(
    server: &Server,
    prefix: &str,
    database: usize,
    about: &[u8],
    payload: &[u8],
) -> bool {
    let mut channel = Vec::with_capacity(prefix.len() + about.len() + 5);
    channel.extend_from_slice(prefix.as_bytes());
    channel.extend_from_slice(itoa::Buffer::new().format(database).as_bytes());
    channel.extend_from_slice(b"__:");
    channel.extend_from_slice(about);
    let route = server.post.subscriptions.route(&channel);
    if route.lanes != 0 {
        let publication = Publication::single(&channel, payload, Origin::Channel);
        // The own lane's share goes through its mailbox too: it must not overtake what is there.
        server.post.send(route.lanes, &Arc::new(publication));
    }
    route.lanes != 0
}
