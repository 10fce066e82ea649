//! Changes of market topics and plant tags as other keys' changes are told: to clients of CLIENT
//! TRACKING with BCAST, and as keyspace notifications.
//!
//! The first lane takes the news of topics that such a client may want, as if it had a subscriber
//! to them, and tells. A topic that no such client wants loses the lane's interest with its next
//! news, and costs nothing from then on.

use std::sync::atomic::Ordering;

use tidewire_keyspace::{Changer, Event, EventClasses};

use crate::server::Server;
use tidewire_fanout::Kind;

impl Server {
    /// A client may want changes of topics from now on. The first lane takes the news of every
    /// topic, until it finds for each that no client wants it.
    pub(crate) fn watch_topics(&self) {
        self.topic_watch.0.store(true, Ordering::SeqCst);
        let topics = self.topics.all();
        topics.iter().for_each(|topic| topic.add_interest(LANE));
    }

    /// Whether a lane tells of topics: one relaxed load.
    #[inline]
    pub(crate) fn watches_topics(&self, lane: usize) -> bool {
        lane == LANE && self.topic_watch.0.load(Ordering::Relaxed)
    }

    /// Tells that a topic has changed. Returns whether a client wants the next change.
    #[cold]
    pub(crate) fn tell_topic_changed(&self, name: &[u8]) -> bool {
        let is_cached = self.tracking.hears_of(name);
        if is_cached {
            self.note_changed(name, Changer::Server);
        }
        let is_notified = self.notifies_of_hashes()
            && crate::notifications::publish(self, 0, name, Event::HashSet);
        is_cached || is_notified
    }

    /// Notes a subscription, which may be to channels of keyspace notifications.
    pub(crate) fn watch_topics_for(&self, kind: Kind, name: &[u8]) {
        let literal = match kind {
            Kind::Shard => return,
            Kind::Pattern => {
                let special = |byte: &u8| b"*?[\\".contains(byte);
                &name[..name.iter().position(special).unwrap_or(name.len())]
            }
            Kind::Channel | Kind::Prefix => name,
        };
        let is_open = kind != Kind::Channel && NOTIFICATIONS.starts_with(literal);
        if (is_open || literal.starts_with(NOTIFICATIONS)) && self.notifies_of_hashes() {
            self.watch_topics();
        }
    }

    fn notifies_of_hashes(&self) -> bool {
        let classes = self.keyspace.notifications();
        classes.contains(EventClasses::HASH)
    }
}

/// Which lane tells.
const LANE: usize = 0;
/// What the channels of keyspace notifications begin with.
const NOTIFICATIONS: &[u8] = b"__key";
