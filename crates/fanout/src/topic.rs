//! Last-value topics and live keys: the traits that fan-out requires of their owners.

use std::fmt::Debug;
use std::sync::Arc;

use crate::limit::OutputLimit;
use crate::subscriptions::Kind;

/// A topic by its shortest name. Numbers are dense from 0, for each source its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicId {
    /// `md:` and a symbol.
    Market(u32),
    /// `mx:` and a tag.
    Tag(u32),
}

/// A topic that a live source writes.
pub trait Topic: Debug + Send + Sync {
    /// Its number.
    fn id(&self) -> TopicId;
    /// The name that clients subscribe to, such as `md:RELIANCE` or `mx:Tank1.Level`.
    fn channel(&self) -> &[u8];
    /// `lane` has a subscriber now.
    fn add_interest(&self, lane: usize);
    /// `lane` has found that it has no subscriber.
    fn clear_interest(&self, lane: usize);
}

/// A live source: its topics, and their current values.
pub trait TopicSource: Debug + Send + Sync {
    /// The topic of this number.
    fn topic(&self, number: u32) -> Option<Arc<dyn Topic>>;
    /// The topic of a channel name.
    fn find(&self, channel: &[u8]) -> Option<Arc<dyn Topic>>;
    /// Topics whose channel names are wanted.
    fn matching(&self, wanted: &dyn Fn(&[u8]) -> bool) -> Vec<Arc<dyn Topic>>;
    /// Appends a topic's current value as it is published; `snapshot` marks it as one that stands
    /// for the updates before it. Returns how many updates it has seen, or `None` if there was
    /// none.
    fn write(&self, number: u32, snapshot: bool, out: &mut Vec<u8>) -> Option<u64>;
    /// A client subscribes to a name or a prefix without a topic yet.
    fn want(&self, _name: &[u8], _is_prefix: bool) {}
}

/// The live sources of the house.
#[derive(Debug, Default)]
pub struct Topics {
    /// Market data.
    pub market: Option<Arc<dyn TopicSource>>,
    /// A plant.
    pub plant: Option<Arc<dyn TopicSource>>,
}

impl Topics {
    /// The topic of this number.
    pub fn topic(&self, id: TopicId) -> Option<Arc<dyn Topic>> {
        let (source, number) = self.source(id)?;
        source.topic(number)
    }

    /// The topic of a channel name.
    pub fn find(&self, channel: &[u8]) -> Option<Arc<dyn Topic>> {
        self.sources().find_map(|source| source.find(channel))
    }

    /// Topics whose channel names are wanted.
    pub fn matching(&self, wanted: &dyn Fn(&[u8]) -> bool) -> Vec<Arc<dyn Topic>> {
        let all = self.sources();
        all.flat_map(|source| source.matching(wanted)).collect()
    }

    /// As [`TopicSource::write`].
    pub fn write(&self, id: TopicId, snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
        let (source, number) = self.source(id)?;
        source.write(number, snapshot, out)
    }

    /// As [`TopicSource::want`], of every source.
    pub fn want(&self, name: &[u8], is_prefix: bool) {
        self.sources()
            .for_each(|source| source.want(name, is_prefix));
    }

    fn source(&self, id: TopicId) -> Option<(&dyn TopicSource, u32)> {
        match id {
            TopicId::Market(number) => Some((self.market.as_deref()?, number)),
            TopicId::Tag(number) => Some((self.plant.as_deref()?, number)),
        }
    }

    fn sources(&self) -> impl Iterator<Item = &dyn TopicSource> {
        self.market
            .as_deref()
            .into_iter()
            .chain(self.plant.as_deref())
    }
}

/// What fan-out asks of the keys: which are live, their values, and who wants to hear of topics as
/// of keys. All lanes share it.
pub trait LiveKeys: Debug + Send + Sync {
    /// What a Redis subscriber to plain messages may leave unread, just now.
    fn pubsub_limit(&self) -> OutputLimit;

    /// A client subscribes, possibly to channels that report changes of topics.
    fn watch_topics_for(&self, kind: Kind, name: &[u8]);
    /// Whether a lane tells of each change of a topic.
    fn watches_topics(&self, lane: usize) -> bool;
    /// Reports that a topic has changed. Returns whether a client wants the next change.
    fn tell_topic_changed(&self, name: &[u8]) -> bool;

    /// Whether a name is a live key's, which has a value.
    fn is_live(&self, name: &[u8]) -> bool;
    /// Adds the live keys whose names are wanted.
    fn live_names(&self, wanted: &dyn Fn(&[u8]) -> bool, names: &mut Vec<Arc<[u8]>>);
    /// Appends what is published of a live key just now; returns which state that is.
    fn write_live_state(&self, name: &[u8], out: &mut Vec<u8>) -> u64;
    /// Whether a lane may look at live keys: no script of another lane holds them.
    fn may_look(&self, lane: usize) -> bool;
    /// Whether keys are being loaded: live keys are not looked at.
    fn is_filling(&self) -> bool;
}

/// A subscriber to this channel learns which messages are current values.
pub const SNAPSHOT_CHANNEL: &[u8] = b"__snapshot__";
