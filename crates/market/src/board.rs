//! The market board: every `md:` topic, with its slot and definition.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tidewire_fanout as fanout;
use tidewire_fanout::{Interest, TopicId, TopicSource};
use tidewire_feed::server;
use tidewire_feed::wire::{Definition, LastValue, TradingState};
use tidewire_keyspace::Mount;
use tidewire_lastvalue::{FLAG_STALE, MarketValue, PRICE_UNDEFINED, SlotTable};

use crate::decimal::{write_per_cent, write_price, write_unsigned};
use tidewire_fanout::write_json_text;

/// Prefix of the keys of market topics.
pub const MARKET_PREFIX: &[u8] = b"md:";

/// All market topics. Topics are never removed; their numbers are consecutive from 0.
#[derive(Debug)]
pub struct Board {
    slots: Arc<SlotTable>,
    numbers: RwLock<HashMap<Box<str>, u32, RandomState>>,
    topics: RwLock<Vec<Arc<Topic>>>,
    /// One bit for each existing lane.
    lanes: u64,
}

/// One market topic.
#[derive(Debug)]
pub struct Topic {
    /// The topic's number: the index of its slot, and its symbol number in the hub's own feed.
    pub number: u32,
    /// The name to subscribe to, such as `md:RELIANCE`.
    pub channel: Box<[u8]>,
    /// One bit per lane: whether that lane has, or may have, subscribers. A lane changes only its
    /// own bit, so lanes need no ordering for it.
    interest: Interest,
    definition: RwLock<Definition>,
    /// Sequence of the newest definition in the hub's own feed; 0 before the first.
    defined_sequence: AtomicU64,
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
            numbers: RwLock::default(),
            topics: RwLock::default(),
        }
    }

    /// Returns the slots, by topic number.
    pub fn slots(&self) -> &Arc<SlotTable> {
        &self.slots
    }

    /// Returns the topic with this number.
    pub fn topic(&self, number: u32) -> Option<Arc<Topic>> {
        self.topics.read().get(number as usize).cloned()
    }

    /// Returns the topic of a symbol by its bare name (`RELIANCE`).
    pub fn find(&self, symbol: &[u8]) -> Option<Arc<Topic>> {
        let symbol = std::str::from_utf8(symbol).ok()?;
        let number = *self.numbers.read().get(symbol)?;
        self.topic(number)
    }

    /// Returns the topic of a channel name (`md:RELIANCE`).
    pub fn find_channel(&self, channel: &[u8]) -> Option<Arc<Topic>> {
        self.find(channel.strip_prefix(MARKET_PREFIX)?)
    }

    /// Returns a copy of the list of topics, in order of their numbers.
    pub fn topics(&self) -> Vec<Arc<Topic>> {
        self.topics.read().clone()
    }

    /// Returns the newest value of a topic.
    pub fn value(&self, number: u32) -> Option<MarketValue> {
        Some(self.slots.slot(number)?.snapshot())
    }

    /// Returns the topic that `definition` names, and adds it if it is new. A known topic keeps its
    /// definition; the source that owns the topic replaces it with [`Topic::redefine`].
    ///
    /// The number in the definition is the source's own and is ignored.
    pub fn define(&self, definition: &Definition) -> Result<Arc<Topic>, BoardFull> {
        if let Some(topic) = self.find(definition.name.as_bytes()) {
            return Ok(topic);
        }
        let mut numbers = self.numbers.write();
        if let Some(&number) = numbers.get(definition.name.as_str()) {
            return self.topic(number).ok_or(BoardFull);
        }
        let number = self.slots.push().map_err(|_| BoardFull)?;
        let topic = Arc::new(Topic {
            number,
            channel: [MARKET_PREFIX, definition.name.as_bytes()].concat().into(),
            // It is not known yet which lanes wait for this name, so every lane checks on an
            // update.
            interest: Interest::of(self.lanes),
            definition: RwLock::new(Definition {
                symbol: number,
                ..*definition
            }),
            defined_sequence: AtomicU64::new(0),
        });
        let mut topics = self.topics.write();
        // The slot was created first, and the lock on the names orders definitions.
        debug_assert_eq!(
            topics.len(),
            number as usize,
            "a topic has the number of its slot"
        );
        topics.push(topic.clone());
        drop(topics);
        numbers.insert(definition.name.as_str().into(), number);
        Ok(topic)
    }
}

impl Topic {
    /// Returns the bare name of the symbol.
    pub fn symbol(&self) -> &[u8] {
        debug_assert!(
            self.channel.starts_with(MARKET_PREFIX),
            "a channel is made with it"
        );
        &self.channel[MARKET_PREFIX.len()..]
    }

    /// Returns the lanes that may have subscribers, one bit each.
    #[inline]
    pub fn interest(&self) -> u64 {
        self.interest.lanes()
    }

    /// Returns the source's definition of the symbol.
    pub fn definition(&self) -> Definition {
        *self.definition.read()
    }

    /// Notes the sequence of the topic's definition in the hub's own feed.
    pub fn defined_at(&self, sequence: u64) {
        debug_assert!(sequence > 0, "sequences of the journal begin at 1");
        self.defined_sequence.store(sequence, Ordering::Relaxed);
    }

    /// Replaces the definition with a newer one from the topic's source.
    pub fn redefine(&self, definition: &Definition) {
        *self.definition.write() = Definition {
            symbol: self.number,
            ..*definition
        };
    }
}

impl TopicSource for Board {
    fn topic(&self, number: u32) -> Option<Arc<dyn fanout::Topic>> {
        Some(self.topic(number)?)
    }

    fn find(&self, channel: &[u8]) -> Option<Arc<dyn fanout::Topic>> {
        Some(self.find_channel(channel)?)
    }

    fn matching(&self, wanted: &dyn Fn(&[u8]) -> bool) -> Vec<Arc<dyn fanout::Topic>> {
        let topics = self.topics();
        let wanted = topics.iter().filter(|topic| wanted(&topic.channel));
        wanted.map(|topic| topic.clone() as Arc<_>).collect()
    }

    fn write(&self, number: u32, snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
        let topic = self.topic(number)?;
        debug_assert_eq!(topic.number, number, "a topic is found by its number");
        let value = self.value(number)?;
        if value.updates == 0 {
            return None;
        }
        write_json(out, topic.symbol(), &value, snapshot);
        Some(value.updates)
    }
}

impl fanout::Topic for Topic {
    fn id(&self) -> TopicId {
        TopicId::Market(self.number)
    }

    fn channel(&self) -> &[u8] {
        &self.channel
    }

    fn add_interest(&self, lane: usize) {
        self.interest.add(lane);
    }

    fn clear_interest(&self, lane: usize) {
        self.interest.clear(lane);
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
        write_fields(&value, fields);
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

    fn write_error(&self) -> &'static str {
        "READONLY 'md:' keys are live market data and can't be written"
    }
}

impl server::Board for Board {
    fn len(&self) -> usize {
        Mount::len(self)
    }

    fn definition(&self, index: usize) -> Option<Definition> {
        Some(self.topics.read().get(index)?.definition())
    }

    fn changed(&self, index: usize) -> u64 {
        let defined = |topic: &Arc<Topic>| topic.defined_sequence.load(Ordering::Relaxed);
        let defined = self.topics.read().get(index).map_or(u64::MAX, defined);
        let value = self.slots.slot(index as u32).map(|slot| slot.snapshot());
        defined.max(value.map_or(u64::MAX, |value| value.sequence))
    }

    fn last_value(&self, index: usize) -> Option<LastValue> {
        let number = u32::try_from(index).ok()?;
        let value = self.value(number)?;
        if value.updates == 0 {
            return None;
        }
        Some(LastValue {
            source_time_ns: value.source_time_ns,
            sequence: value.sequence,
            bid: value.bid,
            ask: value.ask,
            bid_size: value.bid_size,
            ask_size: value.ask_size,
            last: value.last,
            last_size: value.last_size,
            state: TradingState(value.status as u8),
            volume: value.volume,
            open: value.session_open,
            updates: value.updates,
            ..LastValue::new(number)
        })
    }
}

/// Writes the fields of a market topic as a Redis client sees them. An undefined price is empty.
fn write_fields(value: &MarketValue, fields: &mut dyn FnMut(&[u8], &[u8])) {
    let mut text = Vec::with_capacity(24);
    let mut price = |name: &str, price: i64, fields: &mut dyn FnMut(&[u8], &[u8])| {
        text.clear();
        if price != PRICE_UNDEFINED {
            write_price(&mut text, price);
        }
        fields(name.as_bytes(), &text);
    };
    let mut number = itoa::Buffer::new();
    let mut unsigned = |name: &str, value: u64, fields: &mut dyn FnMut(&[u8], &[u8])| {
        fields(name.as_bytes(), number.format(value).as_bytes());
    };
    price("bid", value.bid, fields);
    unsigned("bid_size", value.bid_size.into(), fields);
    price("ask", value.ask, fields);
    unsigned("ask_size", value.ask_size.into(), fields);
    price("last", value.last, fields);
    unsigned("last_size", value.last_size.into(), fields);
    unsigned("volume", value.volume, fields);
    let mut change = Vec::with_capacity(24);
    if let Some(parts_per_million) = value.change_ppm() {
        write_per_cent(&mut change, parts_per_million);
    }
    fields(b"change_pct", &change);
    unsigned("seq", value.sequence, fields);
    unsigned("ts", value.source_time_ns, fields);
    unsigned("recv_ts", value.receive_time_ns, fields);
    unsigned("stale", u64::from(value.flags & FLAG_STALE != 0), fields);
}

/// Appends the JSON text of a market topic. `snapshot` marks a current value that replaces the
/// updates before it: the first of a subscription, or one after conflation.
pub(crate) fn write_json(out: &mut Vec<u8>, symbol: &[u8], value: &MarketValue, snapshot: bool) {
    out.extend_from_slice(b"{\"symbol\":");
    write_json_text(out, symbol);
    let price = |out: &mut Vec<u8>, name: &str, price: i64| {
        out.extend_from_slice(name.as_bytes());
        match price {
            PRICE_UNDEFINED => out.extend_from_slice(b"null"),
            price => write_price(out, price),
        }
    };
    let unsigned = |out: &mut Vec<u8>, name: &str, value: u64| {
        out.extend_from_slice(name.as_bytes());
        write_unsigned(out, value);
    };
    price(out, ",\"bid\":", value.bid);
    unsigned(out, ",\"bid_size\":", value.bid_size.into());
    price(out, ",\"ask\":", value.ask);
    unsigned(out, ",\"ask_size\":", value.ask_size.into());
    price(out, ",\"last\":", value.last);
    unsigned(out, ",\"last_size\":", value.last_size.into());
    unsigned(out, ",\"volume\":", value.volume);
    out.extend_from_slice(b",\"change_pct\":");
    match value.change_ppm() {
        Some(parts_per_million) => write_per_cent(out, parts_per_million),
        None => out.extend_from_slice(b"null"),
    }
    unsigned(out, ",\"seq\":", value.sequence);
    unsigned(out, ",\"ts\":", value.source_time_ns);
    unsigned(out, ",\"recv_ts\":", value.receive_time_ns);
    unsigned(out, ",\"stale\":", u64::from(value.flags & FLAG_STALE != 0));
    if snapshot {
        out.extend_from_slice(b",\"snapshot\":true");
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::Name;

    fn definition(name: &str) -> Definition {
        Definition {
            symbol: 7,
            source: 0,
            source_time_ns: 0,
            open: PRICE_UNDEFINED,
            price_tick: PRICE_UNDEFINED,
            lot_size: 0,
            currency: [0; 4],
            name: Name::new(name).unwrap(),
        }
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
    fn json_says_null_where_there_is_no_price_and_marks_a_snapshot() {
        let mut out = Vec::new();
        let value = MarketValue {
            ask: 1_500_000_000,
            ..MarketValue::EMPTY
        };
        write_json(&mut out, b"A\"B", &value, true);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("{\"symbol\":\"A\\\"B\",\"bid\":null,\"bid_size\":0,\"ask\":1.5,")
        );
        assert!(text.ends_with(",\"stale\":0,\"snapshot\":true}"));
    }
}
