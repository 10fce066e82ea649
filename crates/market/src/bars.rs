//! Bars of market topics: `bar:1s:`, `bar:1m:`, `bar:1h:` and `bar:1d:` topics and keys.
//!
//! Bars are made only of symbols and intervals that a client has asked for, and from then on until
//! the hub ends.

mod apart;
mod bar;
mod clock;
mod mount;
mod state;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tidewire_fanout as fanout;
use tidewire_fanout::{Dispatch, Matches, Origin, Post, Subscriptions, TopicId, TopicSource};
use tidewire_lastvalue::{MarketValue, PRICE_UNDEFINED};

use crate::board::Board;
use crate::derived::DerivedTopic;
use crate::topic::Topic;
use crate::venues::is_consolidated;

pub use bar::{Aggregator, Bar, Interval, Outcome};
pub use clock::BarClock;
pub use mount::BarMount;
pub(crate) use state::{BarState, BarTrade, Shown};

/// Prefix of the channels of bars; the interval follows.
pub const BAR_PREFIX: &[u8] = b"bar:";

/// The bars of one market topic and interval.
pub(crate) type BarTopic = DerivedTopic<BarState>;

/// The bars of one market topic, by interval.
#[derive(Debug, Default)]
pub(crate) struct TopicBars([OnceLock<Arc<BarTopic>>; Interval::ALL.len()]);

impl TopicBars {
    /// Returns the bars that exist.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<BarTopic>> {
        self.0.iter().filter_map(OnceLock::get)
    }

    pub(crate) fn get(&self, interval: Interval) -> Option<&Arc<BarTopic>> {
        self.0[interval as usize].get()
    }
}

/// All `bar:` topics that clients have asked for.
#[derive(Debug)]
pub struct Bars {
    board: Arc<Board>,
    lanes: u64,
    /// By interval, in the order in which clients asked.
    existing: [RwLock<Vec<Arc<BarTopic>>>; Interval::ALL.len()],
    asked: Arc<AtomicU64>,
    /// Whether subscriptions may match topics of symbols that are not defined yet.
    awaits_symbols: AtomicBool,
    /// Whether any topic exists, or is awaited.
    is_on: AtomicBool,
    /// To wake the lane that closes bars.
    post: Arc<Post>,
    /// The wall clock's time until which this hub has everything of the other hubs of the cluster,
    /// nanoseconds since the UNIX epoch; `u64::MAX` if it receives none.
    heard_ns: AtomicU64,
}

impl Bars {
    /// Creates the bars of the board's topics, for the lanes of `lanes` (one bit each).
    pub(crate) fn new(board: Arc<Board>, lanes: u64, post: Arc<Post>) -> Self {
        Self {
            board,
            lanes,
            existing: Default::default(),
            asked: Arc::default(),
            awaits_symbols: AtomicBool::new(false),
            is_on: AtomicBool::new(false),
            post,
            heard_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// Notes until when this hub has everything of the other hubs of the cluster.
    pub(crate) fn heard_until(&self, unix_ns: u64) {
        self.heard_ns.store(unix_ns, Ordering::Release);
    }

    /// Returns the number of topics that exist.
    pub fn len(&self) -> usize {
        self.existing.iter().map(|topics| topics.read().len()).sum()
    }

    /// Returns whether no topic exists or is awaited. A trade may make the topic that it is counted
    /// in.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.is_on.load(Ordering::Relaxed)
    }

    /// Returns the bars of a topic, and makes them if there are none.
    pub(crate) fn bars_of<'a>(&self, topic: &'a Topic, interval: Interval) -> &'a Arc<BarTopic> {
        let place = interval as usize;
        topic.derived.bars_or_new().0[place].get_or_init(|| {
            debug_assert!(topic.number < 1 << 30, "a number of topic and interval");
            let id = TopicId::Bar(topic.number * KINDS + place as u32);
            let prefix = prefix(interval);
            let value = self.board.value(topic.number);
            let state = BarState::new(interval, traded_until_ns(topic, value.as_ref()));
            let (symbol, asked) = (topic.symbol(), self.asked.clone());
            let bars = BarTopic::new(id, prefix, symbol, self.lanes, asked, state);
            let bars = Arc::new(bars);
            self.existing[place].write().push(bars.clone());
            self.is_on.store(true, Ordering::Release);
            self.post.wake(CLOCK_LANE);
            bars
        })
    }

    /// Makes the bars of a topic that has just been defined, if subscriptions match them.
    pub(crate) fn defined(&self, topic: &Topic, subscriptions: &Subscriptions) {
        if !self.awaits_symbols.load(Ordering::Acquire) {
            return;
        }
        for interval in Interval::ALL {
            let channel = [prefix(interval), topic.symbol()].concat();
            if subscriptions.route(&channel).lanes != 0 {
                self.bars_of(topic, interval);
            }
        }
    }

    /// Goes on with the bars of a symbol as those of the venue that all of its trades are of, where
    /// both have bars, or a client has read the symbol's under the venue's name. Returns those that
    /// have got one, or whose own is partial from now on.
    pub(crate) fn continue_at(&self, symbol: &Topic, venue: &Topic) -> Vec<Arc<BarTopic>> {
        let mut continued = Vec::new();
        for interval in Interval::ALL {
            let of = |topic: &Topic| topic.derived.bars()?.get(interval).cloned();
            let old = of(symbol);
            let is_read = |old: &Arc<BarTopic>| old.state.lock().is_read_as_venue();
            let new = match of(venue) {
                None if old.as_ref().is_some_and(is_read) => self.bars_of(venue, interval).clone(),
                Some(new) => new,
                None => continue,
            };
            if let Some(old) = old {
                let mut old = old.state.lock();
                if new.state.lock().continue_from(&mut old) {
                    continued.push(new);
                }
            } else {
                // The symbol's trades of this interval have not been counted.
                let value = self.board.value(symbol.number);
                let until_ns = traded_until_ns(symbol, value.as_ref());
                if new.state.lock().miss(until_ns, 0) {
                    continued.push(new);
                }
            }
        }
        continued
    }

    /// Notes that a symbol that was of one venue, or of all of a hub, is of `venue` from now on.
    pub(crate) fn change_venue(&self, topic: &Topic, venue: &str) {
        let bars = topic.derived.bars().into_iter().flat_map(TopicBars::iter);
        for bars in bars {
            let is_one = !is_consolidated(venue);
            let until_ns = is_one.then(|| topic.left_until_ns(venue));
            bars.state.lock().change_venue(until_ns);
        }
    }

    /// Returns the bars of the venues of a symbol, and of its namesake. The symbol's own bars of
    /// the same interval have this number.
    pub(crate) fn linked(&self, number: u32) -> Vec<(Arc<Topic>, Arc<BarTopic>)> {
        let interval = self.interval_of(number);
        let Some(symbol) = self.topic_of(number) else {
            return Vec::new();
        };
        let mut linked: Vec<Arc<Topic>> = symbol.with_members(|venues| {
            let topics = venues.iter().map(|venue| venue.topic.clone());
            topics.collect()
        });
        linked.extend(symbol.namesake());
        let of = |topic: Arc<Topic>| {
            let bars = topic.derived.bars()?.get(interval)?.clone();
            Some((topic, bars))
        };
        linked.into_iter().filter_map(of).collect()
    }

    /// Returns the topic whose bars have this number.
    pub(crate) fn topic_of(&self, number: u32) -> Option<Arc<Topic>> {
        self.board.topic(number / KINDS)
    }

    /// Returns the interval of the bars with this number.
    pub(crate) fn interval_of(&self, number: u32) -> Interval {
        Interval::ALL[(number % KINDS) as usize]
    }

    /// Does what [`TopicSource::write`] does, under a name of the symbol.
    pub(crate) fn write_as(
        &self,
        topic: &Topic,
        interval: Interval,
        symbol: &[u8],
        snapshot: bool,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let bars = topic.derived.bars()?.get(interval)?;
        write_as(bars, symbol, snapshot, out)
    }

    /// Returns the existing topic with this number.
    pub(crate) fn existing(&self, number: u32) -> Option<Arc<BarTopic>> {
        let topic = self.board.topic(number / KINDS)?;
        let interval = Interval::ALL[(number % KINDS) as usize];
        topic.derived.bars()?.get(interval).cloned()
    }

    /// Returns whether these are the bars of a symbol of several venues.
    pub(crate) fn has_venues(&self, number: u32) -> bool {
        let topic = self.board.topic(number / KINDS);
        topic.is_some_and(|topic| topic.is_consolidated())
    }

    /// Returns whether a hub that gives the symbol of these bars is away, and may have trades
    /// meanwhile.
    fn awaits_hub(&self, number: u32) -> bool {
        let topic = self.board.topic(number / KINDS);
        topic.is_some_and(|topic| self.board.is_away(&topic))
    }
}

/// Returns the symbol and the interval of a channel name.
fn parse(channel: &[u8]) -> Option<(&[u8], Interval)> {
    let of = |interval| Some((channel.strip_prefix(prefix(interval))?, interval));
    Interval::ALL.into_iter().find_map(of)
}

/// Returns the source time until which a topic may have traded; 0 if it has not.
pub(crate) fn traded_until_ns(topic: &Topic, value: Option<&MarketValue>) -> u64 {
    let has_traded = |value: &&MarketValue| value.last != PRICE_UNDEFINED || value.volume > 0;
    let last_ns = match value.filter(has_traded) {
        // The time of the last trade of a snapshot is not known.
        Some(value) => topic.last_trade_ns().unwrap_or(value.source_time_ns),
        None => 0,
    };
    // Trades may have come out of order, or before a restart of the hub that gave them.
    let newest_ns = topic.newest_trade_ns().max(topic.traded_before_ns());
    last_ns.max(newest_ns)
}

impl TopicSource for Bars {
    fn topic(&self, number: u32) -> Option<Arc<dyn fanout::Topic>> {
        Some(self.existing(number)?)
    }

    fn find(&self, channel: &[u8]) -> Option<Arc<dyn fanout::Topic>> {
        let (symbol, interval) = parse(channel)?;
        // The second name of a symbol's bars is no topic.
        let topic = self.board.named(std::str::from_utf8(symbol).ok()?)?;
        Some(topic.derived.bars()?.get(interval)?.clone())
    }

    fn prefix(&self) -> &[u8] {
        BAR_PREFIX
    }

    fn owns(&self, channel: &[u8]) -> bool {
        let mut intervals = Interval::ALL.into_iter();
        intervals.any(|interval| channel.starts_with(prefix(interval)))
    }

    fn count(&self) -> u32 {
        match self.is_empty() {
            true => 0,
            false => self.board.count() * KINDS,
        }
    }

    fn matching(
        &self,
        numbers: Range<u32>,
        wanted: Matches<'_>,
        asks: Matches<'_>,
        found: &mut Vec<Arc<dyn fanout::Topic>>,
    ) {
        let mut channel = Vec::new();
        for number in numbers {
            let interval = Interval::ALL[(number % KINDS) as usize];
            let Some(topic) = self.board.topic(number / KINDS) else {
                continue;
            };
            channel.clear();
            channel.extend_from_slice(prefix(interval));
            channel.extend_from_slice(topic.symbol());
            let existing = topic.derived.bars().and_then(|bars| bars.get(interval));
            let bars = match existing {
                Some(bars) if wanted(&channel) => bars,
                None if asks(&channel) => self.bars_of(&topic, interval),
                _ => continue,
            };
            debug_assert_eq!(bars.name(), channel, "bars have their symbol's name");
            found.push(bars.clone());
        }
    }

    fn makes_topics(&self) -> bool {
        true
    }

    fn write(&self, number: u32, snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
        let bars = self.existing(number)?;
        write_as(&bars, bars.symbol(), snapshot, out)
    }

    fn want(&self, name: &[u8], is_prefix: bool) {
        // The symbol may have been defined before the subscription was counted.
        if !is_prefix {
            self.prepare(name, true);
        }
    }

    fn prepare(&self, literal: &[u8], is_channel: bool) {
        if !literal.starts_with(BAR_PREFIX) {
            return;
        }
        // Before the look: a symbol that is defined meanwhile is found here or there.
        self.awaits_symbols.store(true, Ordering::SeqCst);
        self.is_on.store(true, Ordering::Release);
        if is_channel
            && let Some((symbol, interval)) = parse(literal)
            && let Some(topic) = self.board.find(symbol)
        {
            self.bars_of(&topic, interval);
        }
    }
}

/// Publishes a bar under the names that a lane may have subscribers to. It is of the state that
/// `version` is the number of.
pub(crate) fn publish(
    board: &Board,
    bars: &BarTopic,
    (state, shown): (&BarState, &Shown),
    version: u64,
    (publication, lanes): &mut Dispatch,
) {
    let mut push =
        |(channel, symbol): (&[u8], &[u8]), (id, interest): (TopicId, u64), shown: &Shown| {
            *lanes |= interest;
            publication.push_with(channel, Origin::Topic(id), version, |out| {
                state.write_json(out, symbol, shown, false);
            });
            if shown.is_final {
                publication.finalize();
            }
        };
    if bars.interest() != 0 {
        let names = (bars.name(), bars.symbol());
        push(names, (bars.topic_id(), bars.interest()), shown);
    }
    if let Some((second, interest)) = bars.heard_second(board)
        && let Some(shown) = state.shown_as_venue(shown)
    {
        let names = (second.name(), second.symbol());
        push(names, (second.topic_id(), interest), &shown);
    }
}

/// Appends the JSON text of the newest bar, under a name of its symbol. Returns the version.
fn write_as(bars: &BarTopic, symbol: &[u8], snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
    let state = bars.state.lock();
    let shown = match bars.symbol() == symbol {
        true => state.shown()?,
        false => state.shown_as_venue(&state.shown()?)?,
    };
    state.write_json(out, symbol, &shown, snapshot);
    Some(state.version())
}

/// Returns the prefix of an interval's channels and keys.
pub(crate) fn prefix(interval: Interval) -> &'static [u8] {
    match interval {
        Interval::Second => b"bar:1s:",
        Interval::Minute => b"bar:1m:",
        Interval::Hour => b"bar:1h:",
        Interval::Day => b"bar:1d:",
    }
}

/// Number of intervals.
const KINDS: u32 = Interval::ALL.len() as u32;
/// The lane that closes bars by the wall clock.
pub(crate) const CLOCK_LANE: usize = 0;
