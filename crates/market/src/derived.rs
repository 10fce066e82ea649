//! What a market topic has beside its last value, once a client has asked for it: price levels
//! and bars.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tidewire_fanout as fanout;
use tidewire_fanout::{Interest, TopicId};

use crate::bars::TopicBars;
use crate::board::Board;
use crate::depth::BookTopic;
use crate::seconds::{Second, SecondSlot};

/// The derived topics of a market topic. Empty for almost every topic.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    all: OnceLock<Box<All>>,
}

#[derive(Debug, Default)]
struct All {
    book: OnceLock<Arc<BookTopic>>,
    bars: OnceLock<TopicBars>,
    second: OnceLock<SecondSlot>,
}

impl Derived {
    /// Returns the topic of the price levels, if there is one.
    #[inline]
    pub(crate) fn book(&self) -> Option<&Arc<BookTopic>> {
        self.all.get()?.book.get()
    }

    /// Returns the topic of the price levels, and makes it with `make` if there is none.
    pub(crate) fn book_or(&self, make: impl FnOnce() -> Arc<BookTopic>) -> &Arc<BookTopic> {
        self.all.get_or_init(Box::default).book.get_or_init(make)
    }

    /// Returns the place of the market topic's second name, if there has been one.
    pub(crate) fn second(&self) -> Option<&SecondSlot> {
        self.all.get()?.second.get()
    }

    /// Returns the place of the market topic's second name.
    pub(crate) fn second_or_new(&self) -> &SecondSlot {
        let all = self.all.get_or_init(Box::default);
        all.second.get_or_init(SecondSlot::default)
    }

    /// Returns the bars, if any have been asked for.
    #[inline]
    pub(crate) fn bars(&self) -> Option<&TopicBars> {
        self.all.get()?.bars.get()
    }

    /// Returns the bars.
    pub(crate) fn bars_or_new(&self) -> &TopicBars {
        let all = self.all.get_or_init(Box::default);
        all.bars.get_or_init(TopicBars::default)
    }
}

/// A topic whose values are computed from those of a market topic.
///
/// Its state has a lock. A publisher changes the state and reads the interest while it holds the
/// lock; a subscriber sets its interest before it reads the state. So no change falls between a
/// subscription's first value and its first update.
#[derive(Debug)]
pub(crate) struct DerivedTopic<T> {
    id: TopicId,
    channel: Box<[u8]>,
    /// Length of the channel name before the symbol.
    prefix_length: usize,
    interest: Interest,
    /// Number of calls of [`fanout::Topic::add_interest`] for all topics of this kind.
    asked: Arc<AtomicU64>,
    /// A client that reads once wants the topic until then, nanoseconds since the UNIX epoch.
    wanted_until_ns: AtomicU64,
    /// Number of clients that want the topic without a subscription.
    holders: AtomicU64,
    /// Boxed, because few topics have one.
    second: OnceLock<Box<SecondSlot>>,
    pub(crate) state: Mutex<T>,
}

impl<T> DerivedTopic<T> {
    /// Creates the topic `prefix` + `symbol`. Any of `lanes` may have subscribers.
    pub(crate) fn new(
        id: TopicId,
        prefix: &[u8],
        symbol: &[u8],
        lanes: u64,
        asked: Arc<AtomicU64>,
        state: T,
    ) -> Self {
        debug_assert!(prefix.ends_with(b":"), "a symbol follows a colon");
        Self {
            id,
            channel: [prefix, symbol].concat().into(),
            prefix_length: prefix.len(),
            interest: Interest::of(lanes),
            asked,
            wanted_until_ns: AtomicU64::new(0),
            holders: AtomicU64::new(0),
            second: OnceLock::new(),
            state: Mutex::new(state),
        }
    }

    /// Returns the bare name of the symbol.
    pub(crate) fn symbol(&self) -> &[u8] {
        &self.channel[self.prefix_length..]
    }

    /// Returns the name to subscribe to.
    pub(crate) fn name(&self) -> &[u8] {
        &self.channel
    }

    /// Returns the topic's number among those of its kind.
    pub(crate) fn number(&self) -> u32 {
        match self.id {
            TopicId::Market(number)
            | TopicId::Tag(number)
            | TopicId::Book(number)
            | TopicId::Bar(number)
            | TopicId::Second(number) => number,
        }
    }

    /// Returns the topic's kind and number.
    pub(crate) fn topic_id(&self) -> TopicId {
        self.id
    }

    /// Returns the lanes that may have subscribers, one bit each.
    pub(crate) fn interest(&self) -> u64 {
        self.interest.lanes()
    }

    /// Returns the place of the topic's second name, if there has been one.
    #[inline]
    pub(crate) fn second(&self) -> Option<&SecondSlot> {
        self.second.get().map(|slot| &**slot)
    }

    /// Returns the place of the topic's second name.
    pub(crate) fn second_or_new(&self) -> &SecondSlot {
        self.second.get_or_init(Box::default)
    }

    /// Returns the topic's second name and the lanes that may have subscribers to it, one bit each.
    /// There is none where a topic has exactly this name.
    #[inline]
    pub(crate) fn heard_second(&self, board: &Board) -> Option<(Arc<Second>, u64)> {
        self.second()?.heard(board)
    }

    /// Notes that a client reads the topic, and may do so again until `until_ns`.
    pub(crate) fn want_until(&self, until_ns: u64) {
        if self.wanted_until_ns.fetch_max(until_ns, Ordering::Relaxed) < until_ns {
            self.asked.fetch_add(1, Ordering::Release);
        }
    }

    /// Wants the topic as long as clients that have read another one want that.
    pub(crate) fn want_as(&self, other: &Self) {
        self.want_until(other.wanted_until_ns.load(Ordering::Relaxed));
    }

    /// Wants the topic until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold<T> {
        self.holders.fetch_add(1, Ordering::Relaxed);
        self.asked.fetch_add(1, Ordering::Release);
        Hold(self.clone())
    }

    /// Returns whether any client wants the topic at `unix_ns`.
    pub(crate) fn is_wanted(&self, unix_ns: u64) -> bool {
        self.interest() != 0
            || self.second().is_some_and(SecondSlot::is_heard)
            || self.holders.load(Ordering::Relaxed) != 0
            || self.wanted_until_ns.load(Ordering::Relaxed) > unix_ns
    }
}

/// A client's wish for a derived topic.
#[derive(Debug)]
pub(crate) struct Hold<T>(Arc<DerivedTopic<T>>);

impl<T> Drop for Hold<T> {
    fn drop(&mut self) {
        let before = self.0.holders.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a topic is held before it is let go");
    }
}

impl<T: std::fmt::Debug + Send> fanout::Topic for DerivedTopic<T> {
    fn id(&self) -> TopicId {
        self.id
    }

    fn channel(&self) -> &[u8] {
        &self.channel
    }

    fn add_interest(&self, lane: usize) {
        self.interest.add(lane);
        self.asked.fetch_add(1, Ordering::Release);
    }

    fn clear_interest(&self, lane: usize) {
        self.interest.clear(lane);
    }
}
