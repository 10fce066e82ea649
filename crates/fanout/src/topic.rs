//! Last-value topics and live keys: the traits that fan-out requires of their owners.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::limit::OutputLimit;
use crate::subscriptions::Kind;

/// A topic by its shortest name. Each source numbers its topics from 0 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicId {
    /// `md:` and a symbol.
    Market(u32),
    /// `mx:` and a tag.
    Tag(u32),
    /// `book:` and a symbol.
    Book(u32),
    /// `bar:`, an interval and a symbol.
    Bar(u32),
    /// The second name of another topic, such as `md:SYMBOL@VENUE` of `md:SYMBOL`. Number of the
    /// name.
    Second(u32),
}

impl TopicId {
    /// Number of live sources.
    pub(crate) const PLACES: usize = 5;
    /// Place of the source of second names.
    pub(crate) const SECONDS: usize = 4;

    /// Returns the place of the topic's source, and the topic's number.
    #[inline]
    pub(crate) fn place(self) -> (usize, u32) {
        match self {
            TopicId::Market(number) => (0, number),
            TopicId::Tag(number) => (1, number),
            TopicId::Book(number) => (2, number),
            TopicId::Bar(number) => (3, number),
            TopicId::Second(number) => (Self::SECONDS, number),
        }
    }

    /// Returns the topic with this number of the source with this place.
    pub(crate) fn at(place: usize, number: u32) -> TopicId {
        debug_assert!(place < Self::PLACES, "the place of a source");
        match place {
            0 => TopicId::Market(number),
            1 => TopicId::Tag(number),
            2 => TopicId::Book(number),
            3 => TopicId::Bar(number),
            _ => TopicId::Second(number),
        }
    }

    /// Returns whether this is another topic's second name.
    #[inline]
    pub(crate) fn is_second(self) -> bool {
        matches!(self, TopicId::Second(_))
    }
}

/// Returns the least length of a prefix, or of what a pattern begins with, that asks for a second
/// name: it has the last `@`. So a subscription to many names gets each message once, under the
/// first name.
pub(crate) fn second_literal_min(second: &[u8]) -> usize {
    let at = second.iter().rposition(|&byte| byte == b'@');
    at.map_or(usize::MAX, |at| at + 1)
}

/// A topic that a live source writes.
pub trait Topic: Debug + Send + Sync {
    /// Returns the number.
    fn id(&self) -> TopicId;
    /// Returns the name that clients subscribe to, such as `md:RELIANCE` or `mx:Tank1.Level`.
    fn channel(&self) -> &[u8];
    /// Notes that `lane` has a subscriber.
    fn add_interest(&self, lane: usize);
    /// Notes that `lane` has no subscriber.
    fn clear_interest(&self, lane: usize);
}

/// Tells whether a subscription matches a channel name.
pub type Matches<'a> = &'a dyn Fn(&[u8]) -> bool;

/// A live source: its topics, and their current values.
pub trait TopicSource: Debug + Send + Sync {
    /// Returns the topic with this number.
    fn topic(&self, number: u32) -> Option<Arc<dyn Topic>>;
    /// Returns the topic of a channel name.
    fn find(&self, channel: &[u8]) -> Option<Arc<dyn Topic>>;
    /// Returns what all its channel names begin with.
    fn prefix(&self) -> &[u8];
    /// Returns whether only this source may publish under a name, also if it has no such topic yet.
    fn owns(&self, channel: &[u8]) -> bool {
        channel.starts_with(self.prefix())
    }
    /// Returns the number of topics. Topics are never removed.
    fn count(&self) -> u32;
    /// Appends the topics of these numbers whose channel names are wanted. A topic that exists only
    /// on demand is made if its name is one that the client `asks` for.
    fn matching(
        &self,
        numbers: Range<u32>,
        wanted: Matches<'_>,
        asks: Matches<'_>,
        found: &mut Vec<Arc<dyn Topic>>,
    );
    /// Returns whether topics are made on demand.
    fn makes_topics(&self) -> bool {
        false
    }
    /// Appends a topic's current value in its published form. `snapshot` marks it as a value that
    /// replaces the updates before it. Returns the number of updates so far, or `None` if there
    /// is no value.
    fn write(&self, number: u32, snapshot: bool, out: &mut Vec<u8>) -> Option<u64>;
    /// Returns the second name of a topic that begins with `literal`, if that has all of the first
    /// name and an `@`.
    fn second(&self, _literal: &[u8]) -> Option<Arc<dyn Topic>> {
        None
    }
    /// Notes that a client subscribes to a name or a prefix without a topic yet.
    fn want(&self, _name: &[u8], _is_prefix: bool) {}
    /// Called before a subscription's topics are looked up: `literal` is the name of a channel,
    /// whose topic is made if it exists only on demand, or what the names of a pattern or prefix
    /// begin with.
    fn prepare(&self, _literal: &[u8], _is_channel: bool) {}
}

/// Appends the topics of these numbers that are wanted, as [`TopicSource::matching`] does, for a
/// source that has all its topics in one list.
pub fn append_matching<T: Topic + 'static>(
    topics: &[Arc<T>],
    numbers: Range<u32>,
    is_wanted: impl Fn(&T) -> bool,
    found: &mut Vec<Arc<dyn Topic>>,
) {
    let numbers = numbers.start as usize..(numbers.end as usize).min(topics.len());
    let topics = topics.get(numbers).unwrap_or_default().iter();
    let wanted = topics.filter(|topic| is_wanted(topic));
    found.extend(wanted.map(|topic| topic.clone() as Arc<_>));
}

/// The live sources of the hub.
#[derive(Debug, Default)]
pub struct Topics {
    /// Market data.
    pub market: Option<Arc<dyn TopicSource>>,
    /// A plant.
    pub plant: Option<Arc<dyn TopicSource>>,
    /// Price levels of market topics.
    pub books: Option<Arc<dyn TopicSource>>,
    /// Bars of market topics.
    pub bars: Option<Arc<dyn TopicSource>>,
    /// Second names of topics of the others. A topic with exactly this name comes before it.
    pub seconds: Option<Arc<dyn TopicSource>>,
}

impl Topics {
    /// Returns the topic with this number.
    pub fn topic(&self, id: TopicId) -> Option<Arc<dyn Topic>> {
        let (source, number) = self.source(id)?;
        source.topic(number)
    }

    /// Returns the topic of a channel name.
    pub fn find(&self, channel: &[u8]) -> Option<Arc<dyn Topic>> {
        self.sources().find_map(|source| source.find(channel))
    }

    /// Returns whether only a live source may publish under a name.
    pub fn own(&self, channel: &[u8]) -> bool {
        self.sources().any(|source| source.owns(channel))
    }

    /// Returns whether a pattern or prefix that begins with `literal` makes the topics it matches.
    pub(crate) fn makes(&self, literal: &[u8]) -> bool {
        let mut makers = self.sources().filter(|source| source.makes_topics());
        makers.any(|source| literal.starts_with(source.prefix()))
    }

    /// Returns the second name that is exactly this channel, also if a topic has the name by now.
    pub(crate) fn find_second(&self, channel: &[u8]) -> Option<Arc<dyn Topic>> {
        self.seconds.as_ref()?.find(channel)
    }

    /// Returns the second name that a subscription asks for that begins with `literal`.
    pub(crate) fn second(&self, literal: &[u8]) -> Option<Arc<dyn Topic>> {
        self.seconds.as_ref()?.second(literal)
    }

    /// Returns all topics, without second names.
    pub fn all(&self) -> Vec<Arc<dyn Topic>> {
        let mut found = Vec::new();
        for place in 0..TopicId::SECONDS {
            let Some(source) = self.at(place) else {
                continue;
            };
            source.matching(0..source.count(), &|_| true, &|_| false, &mut found);
        }
        found
    }

    /// Returns the live source with this place, as in [`TopicId::at`].
    pub(crate) fn at(&self, place: usize) -> Option<&dyn TopicSource> {
        self.places().get(place)?.as_deref()
    }

    /// Does the same as [`TopicSource::write`].
    pub fn write(&self, id: TopicId, snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
        let (source, number) = self.source(id)?;
        source.write(number, snapshot, out)
    }

    /// Does the same as [`TopicSource::want`], for every source.
    pub fn want(&self, name: &[u8], is_prefix: bool) {
        self.sources()
            .for_each(|source| source.want(name, is_prefix));
    }

    /// Does the same as [`TopicSource::prepare`], for every source.
    pub fn prepare(&self, literal: &[u8], is_channel: bool) {
        self.sources()
            .for_each(|source| source.prepare(literal, is_channel));
    }

    fn source(&self, id: TopicId) -> Option<(&dyn TopicSource, u32)> {
        let (place, number) = id.place();
        Some((self.at(place)?, number))
    }

    fn sources(&self) -> impl Iterator<Item = &dyn TopicSource> {
        self.places().into_iter().filter_map(Option::as_deref)
    }

    /// Returns the sources in the order of [`TopicId::place`].
    fn places(&self) -> [&Option<Arc<dyn TopicSource>>; TopicId::PLACES] {
        [
            &self.market,
            &self.plant,
            &self.books,
            &self.bars,
            &self.seconds,
        ]
    }
}

/// Fan-out's interface to the keys: live keys, their values, and clients that want changes of
/// topics as of keys. All lanes share it.
pub trait LiveKeys: Debug + Send + Sync {
    /// Returns the current limit on the unread output of a Redis subscriber to plain messages.
    fn pubsub_limit(&self) -> OutputLimit;

    /// Notes that a client subscribes, possibly to channels that report changes of topics.
    fn watch_topics_for(&self, kind: Kind, name: &[u8]);
    /// Returns whether a lane reports each change of a topic.
    fn watches_topics(&self, lane: usize) -> bool;
    /// Reports that a topic has changed. Returns whether a client wants the next change.
    fn tell_topic_changed(&self, name: &[u8]) -> bool;

    /// Returns whether a name is that of a live key with a value.
    fn is_live(&self, name: &[u8]) -> bool;
    /// Adds the live keys whose names are requested.
    fn live_names(&self, wanted: &dyn Fn(&[u8]) -> bool, names: &mut Vec<Arc<[u8]>>);
    /// Appends the current published form of a live key. Returns the number of its state.
    fn write_live_state(&self, name: &[u8], out: &mut Vec<u8>) -> u64;
    /// Returns whether a lane may read live keys: no script of another lane holds them.
    fn may_look(&self, lane: usize) -> bool;
    /// Returns whether keys are being loaded; live keys are then not read.
    fn is_filling(&self) -> bool;
}

/// The channel whose subscribers learn which messages are current values.
pub const SNAPSHOT_CHANNEL: &[u8] = b"__snapshot__";
/// The prefix with which a ZeroMQ subscriber asks for removals with a frame of their own.
pub const GONE_CHANNEL: &[u8] = b"__gone__";
