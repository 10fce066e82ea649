//! The market board: every `md:` topic with its slot.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tidewire_fanout as fanout;
use tidewire_fanout::{Matches, TopicSource};
use tidewire_feed::server;
use tidewire_feed::wire::{
    Definition, Figures, LastValue, ReferenceKind, TradingState, Venue, VenueName,
};
use tidewire_keyspace::Mount;
use tidewire_lastvalue::{FLAG_STALE, FLAGS_DOUBT, FLAGS_STALE, MarketValue, SlotTable};

use crate::asked::AskedVenues;
use crate::fields;
use crate::names::Names;
use crate::topic::Topic;
use crate::venues::{CONSOLIDATED, VenueTable};

/// Prefix of the keys of market topics.
pub const MARKET_PREFIX: &[u8] = b"md:";

/// All market topics. Topics are never removed; their numbers are consecutive from 0.
#[derive(Debug)]
pub struct Board {
    slots: Arc<SlotTable>,
    names: Names,
    /// Held while a topic gets its slot and its place in the list, which have the same number.
    order: Mutex<()>,
    topics: RwLock<Vec<Arc<Topic>>>,
    venues: VenueTable,
    asked: AskedVenues,
    /// One bit for each existing lane.
    lanes: u64,
    /// The feed's next sequence when the rights of its clients changed last; 0 for never.
    pub(crate) rights_changed: AtomicU64,
    /// Whether any topic has ever repeated another one.
    has_repeating: AtomicBool,
}

/// Error: the board already has as many topics as its limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardFull;

impl Board {
    /// Creates an empty board of at most `topics_max` topics, for the lanes of `lanes` (one bit
    /// each).
    pub fn new(topics_max: usize, lanes: u64) -> Self {
        debug_assert_ne!(lanes, 0, "there is at least one lane");
        Self {
            lanes,
            slots: Arc::new(SlotTable::new(topics_max)),
            names: Names::default(),
            order: Mutex::default(),
            topics: RwLock::default(),
            venues: VenueTable::default(),
            rights_changed: AtomicU64::new(0),
            has_repeating: AtomicBool::new(false),
            asked: AskedVenues::default(),
        }
    }

    /// Returns the slots, by topic number.
    pub fn slots(&self) -> &Arc<SlotTable> {
        &self.slots
    }

    /// Returns the venues of all sources.
    pub fn venues(&self) -> &VenueTable {
        &self.venues
    }

    /// Returns the topic with this number.
    pub fn topic(&self, number: u32) -> Option<Arc<Topic>> {
        self.topics.read().get(number as usize).cloned()
    }

    /// Returns the topic of a symbol by its bare name (`RELIANCE`), or of one venue of it
    /// (`RELIANCE@XNSE`). A symbol of one venue is the same topic under both names.
    pub fn find(&self, symbol: &[u8]) -> Option<Arc<Topic>> {
        let symbol = std::str::from_utf8(symbol).ok()?;
        self.named(symbol).or_else(|| {
            let (symbol, venue) = symbol.rsplit_once(VENUE_SEPARATOR)?;
            let topic = self.named(symbol)?;
            let is_of_venue = *topic.facts().venue_name == *venue && !topic.is_consolidated();
            is_of_venue.then_some(topic)
        })
    }

    /// Returns the topic whose value that of a symbol's only venue is, as long as the venue has no
    /// topic of its own.
    pub(crate) fn standing_for<'a>(&self, symbol: &'a [u8]) -> Option<(&'a [u8], Arc<Topic>)> {
        let topic = self.find(symbol)?;
        (topic.symbol() != symbol).then_some((symbol, topic))
    }

    /// Returns the topic with exactly this channel name.
    fn exact_channel(&self, channel: &[u8]) -> Option<Arc<Topic>> {
        let symbol = channel.strip_prefix(MARKET_PREFIX)?;
        self.named(std::str::from_utf8(symbol).ok()?)
    }

    /// Returns the topic with exactly this name.
    pub(crate) fn named(&self, symbol: &str) -> Option<Arc<Topic>> {
        let number = self.names.number(symbol)?;
        self.topic(number)
    }

    /// Returns whether a topic has exactly this name.
    pub(crate) fn has_name(&self, symbol: &str) -> bool {
        self.names.number(symbol).is_some()
    }

    /// Returns the topic of a channel name (`md:RELIANCE`).
    pub fn find_channel(&self, channel: &[u8]) -> Option<Arc<Topic>> {
        self.find(channel.strip_prefix(MARKET_PREFIX)?)
    }

    /// Notes that a client of the native feed selects a symbol's venue by its name
    /// (`RELIANCE@XNSE`): with the symbol's next update, or once it has that venue, the venue gets
    /// a topic of its own, because the feed has numbers in place of names.
    pub(crate) fn ask_venue(&self, name: &str) {
        if !name.contains(VENUE_SEPARATOR) || self.named(name).is_some() {
            return;
        }
        // Before the look: a venue that comes meanwhile is found here or there.
        self.asked.add(name);
        if let Some(topic) = self.find(name.as_bytes())
            && self.asked.take(name)
        {
            topic.want_venue();
        }
    }

    /// Notes that a symbol has another venue than before.
    pub(crate) fn note_venue(&self, topic: &Topic) {
        if !self.asked.is_any() {
            return;
        }
        let symbol = topic.definition().name;
        let venue = &topic.facts().venue_name;
        let name = format!("{}{VENUE_SEPARATOR}{venue}", symbol.as_str());
        if topic.parent().is_none() && self.asked.take(&name) {
            topic.want_venue();
        }
    }

    /// Notes that a topic repeats another one from the sequence `next` of the hub's own feed on.
    pub(crate) fn begin_repeating(&self, topic: &Topic, next: u64) {
        topic.begin_repeating(next);
        self.has_repeating.store(true, Ordering::Release);
    }

    /// Returns whether the message of the topic `number` with this sequence repeats another
    /// topic's. No topic does so in most hubs.
    #[inline]
    pub(crate) fn repeats_at(&self, number: u32, sequence: u64) -> bool {
        self.has_repeating.load(Ordering::Acquire)
            && self
                .topic(number)
                .is_some_and(|topic| topic.repeats_at(sequence))
    }

    /// Returns a copy of the list of topics, in order of their numbers.
    pub fn topics(&self) -> Vec<Arc<Topic>> {
        self.topics.read().clone()
    }

    /// Returns the number of topics.
    pub fn count(&self) -> u32 {
        self.topics.read().len() as u32
    }

    /// Returns the newest value of a topic.
    pub fn value(&self, number: u32) -> Option<MarketValue> {
        Some(self.slots.slot(number)?.snapshot())
    }

    /// Returns whether a hub that gives a topic, or a venue of it, is away, and may have trades
    /// meanwhile; or whether the hub that gives it says so of one before it.
    pub(crate) fn is_away(&self, topic: &Topic) -> bool {
        let is_away = |topic: &Topic| {
            let slot = self.slots.slot(topic.number);
            let is_stale = || slot.is_some_and(|slot| slot.flags() & FLAG_STALE != 0);
            topic.is_away_upstream() || topic.is_left_by_hub() && is_stale()
        };
        is_away(topic)
            || topic.with_members(|venues| venues.iter().any(|venue| is_away(&venue.topic)))
    }

    /// Returns what the readers of the hub's own feed are told of how certain a topic's value is,
    /// which has these flags.
    pub(crate) fn certainty(&self, topic: &Topic, flags: u32) -> u8 {
        let away = if self.is_away(topic) {
            Figures::AWAY
        } else {
            0
        };
        certainty(flags) | away
    }

    /// Returns the topic that `definition` names, and adds it if it is new. A known topic keeps its
    /// definition; the source that owns the topic replaces it with [`Topic::redefine`].
    ///
    /// The number in the definition is the source's own and is ignored.
    pub fn define(&self, definition: &Definition) -> Result<Arc<Topic>, BoardFull> {
        if let Some(topic) = self.named(definition.name.as_str()) {
            return Ok(topic);
        }
        let mut numbers = self.names.writing(definition.name.as_str());
        if let Some(&number) = numbers.get(definition.name.as_str()) {
            return self.topic(number).ok_or(BoardFull);
        }
        // Names of different parts may be defined at the same time.
        let order = self.order.lock();
        let number = self.slots.push().map_err(|_| BoardFull)?;
        let topic = Arc::new(Topic::new(number, definition, self.lanes));
        let mut topics = self.topics.write();
        // The slot was created first, and the lock orders definitions.
        debug_assert_eq!(
            topics.len(),
            number as usize,
            "a topic has the number of its slot"
        );
        topics.push(topic.clone());
        drop(topics);
        drop(order);
        numbers.insert(definition.name.as_str().into(), number);
        Ok(topic)
    }

    /// Appends the JSON text of a topic's value, under a name of its symbol.
    pub(crate) fn write_json(
        &self,
        out: &mut Vec<u8>,
        symbol: &[u8],
        topic: &Topic,
        value: &MarketValue,
        snapshot: bool,
    ) {
        fields::write_json(out, symbol, topic, value, &self.venues, snapshot);
    }

    /// Does what [`TopicSource::write`] does, under a name of the symbol.
    pub(crate) fn write_as(
        &self,
        topic: &Topic,
        symbol: &[u8],
        snapshot: bool,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let value = self.value(topic.number).filter(|value| value.updates > 0)?;
        self.write_json(out, symbol, topic, &value, snapshot);
        Some(value.updates)
    }
}

impl TopicSource for Board {
    fn topic(&self, number: u32) -> Option<Arc<dyn fanout::Topic>> {
        Some(self.topic(number)?)
    }

    fn find(&self, channel: &[u8]) -> Option<Arc<dyn fanout::Topic>> {
        Some(self.exact_channel(channel)?)
    }

    fn prefix(&self) -> &[u8] {
        MARKET_PREFIX
    }

    fn count(&self) -> u32 {
        self.count()
    }

    fn matching(
        &self,
        numbers: Range<u32>,
        wanted: Matches<'_>,
        _asks: Matches<'_>,
        found: &mut Vec<Arc<dyn fanout::Topic>>,
    ) {
        let is_wanted = |topic: &Topic| wanted(&topic.channel);
        fanout::append_matching(&self.topics.read(), numbers, is_wanted, found);
    }

    fn write(&self, number: u32, snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
        let topic = self.topic(number)?;
        debug_assert_eq!(topic.number, number, "a topic is found by its number");
        self.write_as(&topic, topic.symbol(), snapshot, out)
    }
}

impl Mount for Board {
    fn prefix(&self) -> &[u8] {
        MARKET_PREFIX
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.find_channel(key).is_some()
    }

    fn read(&self, key: &[u8], fields: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let Some(topic) = self.find_channel(key) else {
            return false;
        };
        let Some(value) = self.value(topic.number) else {
            return false;
        };
        fields::write_hash(&topic, &value, &self.venues, fields);
        true
    }

    fn version(&self, key: &[u8]) -> u64 {
        let topic = self.find_channel(key);
        let value = topic.and_then(|topic| self.value(topic.number));
        value.map_or(0, |value| value.updates + 1)
    }

    fn len(&self) -> usize {
        self.topics.read().len()
    }

    fn name(&self, position: usize, out: &mut Vec<u8>) -> bool {
        let topics = self.topics.read();
        let Some(topic) = topics.get(position) else {
            return false;
        };
        out.extend_from_slice(&topic.channel);
        true
    }

    fn write_error(&self, _: &[u8]) -> Cow<'static, str> {
        "READONLY 'md:' keys are live market data and can't be written".into()
    }
}

impl server::Board for Board {
    fn len(&self) -> usize {
        Mount::len(self)
    }

    fn venues(&self) -> Vec<Venue> {
        let venues = self.venues.all().into_iter();
        let venue = |(source, name): (u16, Arc<str>)| Venue {
            source,
            source_time_ns: 0,
            name: VenueName::truncated(&name),
        };
        venues.map(venue).collect()
    }

    fn venues_version(&self) -> u64 {
        self.venues.changes()
    }

    fn definition(&self, index: usize) -> Option<Definition> {
        Some(self.topics.read().get(index)?.definition())
    }

    fn find(&self, name: &str) -> Option<usize> {
        let Some(number) = self.names.number(name) else {
            // A client of the feed selects a venue by its name.
            self.ask_venue(name);
            return None;
        };
        Some(number as usize)
    }

    fn rights_changed(&self) -> u64 {
        self.rights_changed.load(Ordering::Acquire)
    }

    fn changed(&self, index: usize) -> u64 {
        let topics = self.topics.read();
        let topic = topics.get(index);
        let told = topic.map_or(u64::MAX, |topic| topic.told_sequence());
        drop(topics);
        let value = self.slots.slot(index as u32).map(|slot| slot.snapshot());
        told.max(value.map_or(u64::MAX, |value| value.sequence))
    }

    fn last_value(&self, index: usize) -> Option<LastValue> {
        let number = u32::try_from(index).ok()?;
        let value = self.value(number)?;
        if value.updates == 0 {
            return None;
        }
        let topic = self.topic(number)?;
        let source = match topic.is_consolidated() {
            true => CONSOLIDATED,
            false => topic.facts().venue.unwrap_or(0),
        };
        Some(LastValue {
            source,
            source_time_ns: value.source_time_ns,
            sequence: value.sequence,
            bid: value.bid,
            ask: value.ask,
            bid_size: value.bid_size,
            ask_size: value.ask_size,
            bid_orders: value.bid_orders,
            ask_orders: value.ask_orders,
            last: value.last,
            last_size: value.last_size,
            state: TradingState(value.status.state),
            volume: value.volume,
            open: value.session_open,
            updates: value.updates,
            figures: Some(Figures {
                traded_until_ns: topic.newest_trade_ns(),
                flags: self.certainty(&topic, value.flags),
                ..figures(&value)
            }),
            ..LastValue::new(number)
        })
    }
}

/// Returns the field `stale`: 0 current, 1 the source is disconnected or silent, 2 in doubt,
/// because messages are known to be missing.
pub(crate) fn staleness(value: &MarketValue) -> u64 {
    staleness_of(value.flags)
}

/// Returns the same of a value with these flags.
pub(crate) fn staleness_of(flags: u32) -> u64 {
    match flags {
        flags if flags & FLAGS_STALE != 0 => 1,
        flags if flags & FLAGS_DOUBT != 0 => 2,
        _ => 0,
    }
}

/// Returns the flags of [`tidewire_feed::wire::Certainty`] for those of a value.
pub(crate) fn certainty(flags: u32) -> u8 {
    let flag = |own: u32, bit: u8| if flags & own == 0 { 0 } else { bit };
    flag(FLAGS_STALE, Figures::STALE) | flag(FLAGS_DOUBT, Figures::IN_DOUBT)
}

pub(crate) fn figures(value: &MarketValue) -> Figures {
    Figures {
        high: value.high,
        low: value.low,
        turnover: value.turnover,
        reference: value.reference.price,
        trades: value.trades,
        condition: value.condition,
        reason: value.status.reason,
        trading_day: value.trading_day,
        reference_kind: ReferenceKind(value.reference.kind),
        flags: certainty(value.flags),
        first_trade: value.first_trade,
        traded_until_ns: 0,
    }
}

/// Between a symbol and its venue in a topic's name.
pub const VENUE_SEPARATOR: char = '@';

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::Name;

    fn definition(name: &str) -> Definition {
        Definition::new(7, Name::new(name).unwrap())
    }

    #[test]
    fn a_symbol_keeps_its_number_however_often_it_is_defined() {
        let board = Board::new(2, 1);
        let first = board.define(&definition("A")).unwrap();
        let second = board.define(&definition("B")).unwrap();
        assert_eq!((first.number, second.number), (0, 1));
        assert_eq!(board.define(&definition("A")).unwrap().number, 0);
        assert_eq!(board.define(&definition("C")).unwrap_err(), BoardFull);
        assert_eq!(board.find_channel(b"md:B").unwrap().number, 1);
        assert!(board.find_channel(b"B").is_none());
        assert_eq!(first.definition().symbol, 0);
    }

    #[test]
    fn a_symbol_of_one_venue_is_found_under_both_names() {
        let board = Board::new(4, 1);
        let topic = board.define(&definition("A@B")).unwrap();
        assert_eq!(board.find(b"A@B").unwrap().number, 0);
        assert!(board.find(b"A@B@X").is_none(), "no venue yet");
        topic.set_facts(|facts| facts.venue_name = "X".into());
        assert_eq!(board.find(b"A@B@X").unwrap().number, 0);
        assert!(board.find(b"A@B@").is_none());
        assert!(board.find(b"A@X").is_none());
    }
}
