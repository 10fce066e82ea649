//! What fan-out gets of the hub: topics of live sources, live keys, limits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_fanout::{Kind, OutputLimit, Post, Sources, TopicId};
use tidewire_keyspace::ValueRef;
use tidewire_market::MARKET_PREFIX;

use crate::hub::Hub;
use crate::live::{has_form, write_published};
use crate::parameters::ClientClass;
use crate::topics::AnyTopic;
use tidewire_lane::unix_ms;

/// The subscribers of one lane.
pub(crate) type Fanout = tidewire_fanout::Fanout<Hub>;

impl Sources for Hub {
    type Topic = AnyTopic;

    fn post(&self) -> &Post {
        &self.post
    }

    fn pubsub_limit(&self) -> OutputLimit {
        self.parameters.output_limit(ClientClass::Pubsub)
    }

    fn topic(&self, id: TopicId) -> Option<AnyTopic> {
        match id {
            TopicId::Market(number) => self.market.board.topic(number).map(AnyTopic::Market),
            TopicId::Tag(number) => {
                let plant = self.plant.as_ref()?;
                plant.board.tag(number).map(AnyTopic::Tag)
            }
        }
    }

    fn find_topic(&self, channel: &[u8]) -> Option<AnyTopic> {
        if channel.starts_with(MARKET_PREFIX) {
            return self
                .market
                .board
                .find_channel(channel)
                .map(AnyTopic::Market);
        }
        let plant = self.plant.as_ref()?;
        plant.board.find_channel(channel).map(AnyTopic::Tag)
    }

    fn topics(&self) -> Vec<AnyTopic> {
        let market = self.market.board.topics().into_iter().map(AnyTopic::Market);
        let tags = self.plant.iter().flat_map(|plant| plant.board.tags());
        market.chain(tags.map(AnyTopic::Tag)).collect()
    }

    fn write_topic(&self, topic: &AnyTopic, snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
        match topic {
            AnyTopic::Market(topic) => {
                let value = self.market.board.value(topic.number)?;
                if value.updates == 0 {
                    return None;
                }
                tidewire_market::write_json(out, topic.symbol(), &value, snapshot);
                Some(value.updates)
            }
            AnyTopic::Tag(tag) => {
                let state = tag.state();
                if state.updates == 0 {
                    return None;
                }
                tidewire_plant::write_json(out, tag, &state, snapshot);
                Some(state.updates)
            }
        }
    }

    fn want_topics(&self, name: &[u8], is_prefix: bool) {
        if let Some(plant) = &self.plant {
            match is_prefix {
                true => plant.want_prefix(name),
                false => plant.want_channel(name),
            }
        }
    }

    fn watch_topics_for(&self, kind: Kind, name: &[u8]) {
        Hub::watch_topics_for(self, kind, name);
    }

    fn watches_topics(&self, lane: usize) -> bool {
        Hub::watches_topics(self, lane)
    }

    fn tell_topic_changed(&self, name: &[u8]) -> bool {
        Hub::tell_topic_changed(self, name)
    }

    fn is_live(&self, name: &[u8]) -> bool {
        let is_there = |value: Option<ValueRef<'_>>| value.is_some_and(has_form);
        !self.is_mounted(name) && self.keyspace.live_state(name, unix_ms(), is_there)
    }

    fn write_live_state(&self, name: &[u8], out: &mut Vec<u8>) -> u64 {
        // A master decides when a key of its replica is gone, and may still prolong its life.
        let now_ms = match self.replication.master() {
            Some(_) => 0,
            None => unix_ms(),
        };
        self.keyspace.live_state(name, now_ms, |value| {
            write_published(value, out);
            self.live_version.load(Ordering::Acquire)
        })
    }

    fn live_names(&self, wanted: &dyn Fn(&[u8]) -> bool, names: &mut Vec<Arc<[u8]>>) {
        let mut stored = |key: &[u8]| !self.is_mounted(key) && wanted(key);
        let mut push = |key: &[u8], value: ValueRef<'_>| {
            names.extend(has_form(value).then(|| Arc::from(key)));
        };
        self.keyspace
            .for_each_live(unix_ms(), &mut stored, &mut push);
    }

    fn may_look(&self, lane: usize) -> bool {
        self.scripting.rights.has(lane)
    }

    fn is_filling(&self) -> bool {
        Hub::is_filling(self)
    }
}
