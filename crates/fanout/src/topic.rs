//! Last-value topics, and what fan-out asks of the house that has them.

use std::fmt::Debug;
use std::sync::Arc;

use crate::limit::OutputLimit;
use crate::post::Post;
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
pub trait Topic: Debug {
    /// Its number.
    fn id(&self) -> TopicId;
    /// The name that clients subscribe to.
    fn channel(&self) -> &[u8];
    /// `lane` has a subscriber now.
    fn add_interest(&self, lane: usize);
    /// `lane` has found that it has no subscriber.
    fn clear_interest(&self, lane: usize);
}

/// What fan-out asks of the house: topics of live sources, live keys, and limits. All lanes share
/// it.
pub trait Sources: Debug + Send + Sync + 'static {
    /// A topic that a live source writes.
    type Topic: Topic;

    /// What all lanes share of fan-out itself.
    fn post(&self) -> &Post;
    /// What a Redis subscriber to plain messages may leave unread, just now.
    fn pubsub_limit(&self) -> OutputLimit;

    /// The topic of this number.
    fn topic(&self, id: TopicId) -> Option<Self::Topic>;
    /// The topic of a channel name, such as `md:RELIANCE` or `mx:Tank1.Level`.
    fn find_topic(&self, channel: &[u8]) -> Option<Self::Topic>;
    /// All topics.
    fn topics(&self) -> Vec<Self::Topic>;
    /// Appends a topic's current value as it is published; `snapshot` marks it as one that stands
    /// for the updates before it. Returns how many updates it has seen, or `None` if there was
    /// none.
    fn write_topic(&self, topic: &Self::Topic, snapshot: bool, out: &mut Vec<u8>) -> Option<u64>;
    /// Somebody subscribes to a name, or to all that begins so, of which there is no topic yet.
    fn want_topics(&self, name: &[u8], is_prefix: bool);

    /// Somebody subscribes: to channels that tell of changes of topics, it may be.
    fn watch_topics_for(&self, kind: Kind, name: &[u8]);
    /// Whether a lane tells of each change of a topic.
    fn watches_topics(&self, lane: usize) -> bool;
    /// Tells that a topic has changed. Whether anybody wants to hear of the next change.
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

/// A subscriber to this channel is told which messages are current values.
pub const SNAPSHOT_CHANNEL: &[u8] = b"__snapshot__";
