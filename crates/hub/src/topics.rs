//! Last-value topics that live sources write, whatever the source: market data and plant tags.

use std::sync::Arc;

use tidewire_keyspace::Locked;

use crate::board::{self, MARKET_PREFIX, Topic};
use crate::hub::Hub;
use crate::live::is_reserved_channel;
use crate::plant::tags::Tag;
use crate::plant::{self, PLANT_PREFIX};

/// A topic by its shortest name. Numbers are dense from 0, for each source its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicId {
    /// `md:` and a symbol.
    Market(u32),
    /// `mx:` and a tag.
    Tag(u32),
}

/// A topic.
#[derive(Clone, Debug)]
pub(crate) enum AnyTopic {
    Market(Arc<Topic>),
    Tag(Arc<Tag>),
}

impl AnyTopic {
    pub(crate) fn id(&self) -> TopicId {
        match self {
            Self::Market(topic) => TopicId::Market(topic.number),
            Self::Tag(tag) => TopicId::Tag(tag.number),
        }
    }

    /// The name that clients subscribe to.
    pub(crate) fn channel(&self) -> &[u8] {
        match self {
            Self::Market(topic) => &topic.channel,
            Self::Tag(tag) => &tag.channel,
        }
    }

    /// `lane` has a subscriber now.
    pub(crate) fn add_interest(&self, lane: usize) {
        match self {
            Self::Market(topic) => topic.add_interest(lane),
            Self::Tag(tag) => tag.add_interest(lane),
        }
    }

    /// `lane` has found that it has no subscriber.
    pub(crate) fn clear_interest(&self, lane: usize) {
        match self {
            Self::Market(topic) => topic.clear_interest(lane),
            Self::Tag(tag) => tag.clear_interest(lane),
        }
    }
}

impl Hub {
    /// The topic of this number.
    pub(crate) fn topic(&self, id: TopicId) -> Option<AnyTopic> {
        match id {
            TopicId::Market(number) => self.board.topic(number).map(AnyTopic::Market),
            TopicId::Tag(number) => {
                let plant = self.plant.as_ref()?;
                plant.board.tag(number).map(AnyTopic::Tag)
            }
        }
    }

    /// The topic of a channel name, such as `md:RELIANCE` or `mx:Tank1.Level`.
    pub(crate) fn find_topic(&self, channel: &[u8]) -> Option<AnyTopic> {
        if channel.starts_with(MARKET_PREFIX) {
            return self.board.find_channel(channel).map(AnyTopic::Market);
        }
        let plant = self.plant.as_ref()?;
        plant.board.find_channel(channel).map(AnyTopic::Tag)
    }

    /// All topics.
    pub(crate) fn topics(&self) -> Vec<AnyTopic> {
        let market = self.board.topics().into_iter().map(AnyTopic::Market);
        let tags = self.plant.iter().flat_map(|plant| plant.board.tags());
        market.chain(tags.map(AnyTopic::Tag)).collect()
    }

    /// Appends a topic's current value as it is published; `snapshot` marks it as one that stands
    /// for the updates before it. Returns how many updates it has seen, or `None` if there was
    /// none.
    pub(crate) fn write_topic(
        &self,
        topic: &AnyTopic,
        snapshot: bool,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        match topic {
            AnyTopic::Market(topic) => {
                let value = self.board.value(topic.number)?;
                if value.updates == 0 {
                    return None;
                }
                board::write_json(out, topic.symbol(), &value, snapshot);
                Some(value.updates)
            }
            AnyTopic::Tag(tag) => {
                let state = tag.state();
                if state.updates == 0 {
                    return None;
                }
                plant::text::write_json(out, tag, &state, snapshot);
                Some(state.updates)
            }
        }
    }

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

    /// Somebody subscribes to a name, or to all that begins so: what the plant can tell of it is
    /// asked for.
    pub(crate) fn want_topics(&self, name: &[u8], is_prefix: bool) {
        if let Some(plant) = &self.plant {
            match is_prefix {
                true => plant.want_prefix(name),
                false => plant.want_channel(name),
            }
        }
    }
}
