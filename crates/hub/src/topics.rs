//! Last-value topics that live sources write, whatever the source: market data and plant tags.

use std::sync::Arc;

use tidewire_fanout::TopicId;
use tidewire_keyspace::Locked;

use crate::hub::Hub;
use crate::live::is_reserved_channel;
use tidewire_market::{MARKET_PREFIX, Topic};
use tidewire_plant::{PLANT_PREFIX, Tag};

/// A topic.
#[derive(Clone, Debug)]
pub enum AnyTopic {
    /// Of market data.
    Market(Arc<Topic>),
    /// Of a plant.
    Tag(Arc<Tag>),
}

impl tidewire_fanout::Topic for AnyTopic {
    fn id(&self) -> TopicId {
        match self {
            Self::Market(topic) => TopicId::Market(topic.number),
            Self::Tag(tag) => TopicId::Tag(tag.number),
        }
    }

    fn channel(&self) -> &[u8] {
        match self {
            Self::Market(topic) => &topic.channel,
            Self::Tag(tag) => &tag.channel,
        }
    }

    fn add_interest(&self, lane: usize) {
        match self {
            Self::Market(topic) => topic.add_interest(lane),
            Self::Tag(tag) => tag.add_interest(lane),
        }
    }

    fn clear_interest(&self, lane: usize) {
        match self {
            Self::Market(topic) => topic.clear_interest(lane),
            Self::Tag(tag) => tag.clear_interest(lane),
        }
    }
}

impl Hub {
    /// Whether clients may not publish under this name because a live source does.
    pub(crate) fn is_mounted(&self, name: &[u8]) -> bool {
        name.starts_with(MARKET_PREFIX) || self.plant.is_some() && name.starts_with(PLANT_PREFIX)
    }

    /// Why clients may not publish plain messages under this name, if they may not: subscribers
    /// would take one for the last value. `locked` is what the caller holds, if it holds shards.
    pub(crate) fn publish_refusal(
        &self,
        name: &[u8],
        locked: Option<&Locked<'_>>,
    ) -> Option<&'static str> {
        if self.is_mounted(name) {
            return Some("READONLY this channel belongs to a live source");
        }
        if is_reserved_channel(name) {
            return Some("ERR this channel is reserved: the hub alone publishes on it");
        }
        let is_topic = self.keyspace.is_topic(name, locked);
        is_topic.then_some("READONLY this channel carries the values of a live key: write the key")
    }
}
