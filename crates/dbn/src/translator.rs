//! Records of a stream in, messages of the native feed out.

use std::collections::{HashMap, HashSet};

use tidewire_feed::wire::{Definition, Level, Message, Name, Tick, TradingStatus, Venue};

use crate::book::{Accounting, Books, BooksConfig, Depth, Unused};
use crate::sessions::Sessions;
use crate::{
    DefinitionRecord, Kind, Metadata, NamesFull, Publisher, Record, RecordRef, StatisticsRecord,
    SymbolNames, UNDEFINED_PRICE,
};

#[cfg(test)]
mod tests;

/// Turns the records of a stream into messages of the native feed.
///
/// Before the first message of a publisher it gives its [`Venue`], before the first one of a
/// symbol its [`Definition`] (before its first order or price at the latest), and before the first
/// one of a trading day, for each publisher and symbol, the start of the session. A definition is
/// given again when its name, tick, lot or currency changes.
#[derive(Debug)]
pub struct Translator {
    books: Books,
    sessions: Sessions,
    symbol_first: u32,
    /// Publishers whose venue has been given.
    venues: HashSet<u16>,
    /// What definitions have said, by instrument id; the newest last.
    details: HashMap<u32, Vec<Details>>,
    /// Number of all details.
    details_count: usize,
    /// The definitions given, by symbol number from `symbol_first`; `None` before the first one.
    defined: Vec<Option<Facts>>,
    counts: Counts,
}

/// How many messages of each type were given out, besides [`Accounting::quotes`] and
/// [`Accounting::trades`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Definitions.
    pub definitions: u64,
    /// Trading states.
    pub statuses: u64,
    /// Starts of sessions, and references within them.
    pub sessions: u64,
    /// Venues.
    pub venues: u64,
}

/// What a definition record says of an instrument under one of its symbols.
#[derive(Debug, Clone)]
struct Details {
    /// The venue's symbol.
    raw_symbol: Box<str>,
    facts: Facts,
}

/// What a definition says besides the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    /// Smallest price step, 1 unit = 1e-9; 0 if unknown.
    tick: i64,
    /// Smallest quantity; 0 if unknown.
    lot_size: u32,
    /// ISO 4217 code, zero-padded.
    currency: [u8; 4],
}

/// A quote and a trade at most.
#[derive(Default)]
struct Ticks {
    ticks: [Option<Tick>; 2],
    count: usize,
}

impl Translator {
    /// Creates a translator that has seen nothing.
    pub fn new(config: BooksConfig) -> Self {
        Self {
            books: Books::new(config),
            sessions: Sessions::new(),
            symbol_first: config.symbol_first,
            venues: HashSet::new(),
            details: HashMap::new(),
            details_count: 0,
            defined: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Adds the symbols of a stream's metadata.
    ///
    /// # Errors
    /// [`NamesFull`].
    pub fn add_metadata(&mut self, metadata: &Metadata) -> Result<(), NamesFull> {
        self.books.add_metadata(metadata)
    }

    /// Applies one record and gives `sink` the messages to publish.
    ///
    /// * What [`Books::apply`] gives: quotes and trades.
    /// * `status`: the trading state.
    /// * `statistics` with a settlement, close or opening price: a reference of a session.
    /// * `ohlcv-1d` and `ohlcv-eod`: their close may be the reference of a session.
    pub fn apply(&mut self, record: &RecordRef<'_>, mut sink: impl FnMut(&Message)) {
        match record.kind() {
            Kind::Status | Kind::Statistics | Kind::Ohlcv1d | Kind::OhlcvEod => {
                self.apply_reference(record, &mut sink);
            }
            // It is passed on whole, and is no message of the feed itself.
            Kind::Imbalance => {
                let fields = record.decode();
                match self
                    .books
                    .symbol_of(&record.header(), fields.index_time_ns())
                {
                    Ok(_) => self.books.note_used(record, fields.source_time_ns()),
                    Err(reason) => self.books.count_unused(record, reason),
                }
            }
            kind => {
                let mut ticks = Ticks::default();
                self.books.apply(record, |tick| ticks.push(tick));
                if let Some((source, symbol)) = self.books.take_appeared() {
                    self.define(source, symbol, &mut sink);
                }
                for tick in ticks.ticks.into_iter().flatten() {
                    self.publish_tick(tick, &mut sink);
                }
                if kind == Kind::Definition {
                    self.note_definition(record, &mut sink);
                }
            }
        }
    }

    /// Returns a name that is too long for a symbol and that the last record has used for the first
    /// time. Its records are left out.
    pub fn take_long_name(&mut self) -> Option<Box<str>> {
        self.books.take_long_name()
    }

    /// Returns the symbol of a record that is passed on whole, after it was applied. Gives `sink`
    /// what must precede it: also the start of the session, if the record is an order. `None` if
    /// the record was left out.
    pub fn carry(&mut self, record: &RecordRef<'_>, mut sink: impl FnMut(&Message)) -> Option<u32> {
        let (header, fields) = (record.header(), record.decode());
        let index_ns = fields.index_time_ns();
        let symbol = self.books.symbol_of(&header, index_ns).ok()?;
        self.define(header.publisher_id, symbol, &mut sink);
        if let Record::Mbo(order) = &fields {
            // The receiver begins the symbol with it. Only before that does it know until when the
            // day has traded in another file.
            let (source, time_ns) = (header.publisher_id, order.source_time_ns());
            if self.sessions.is_due(source, symbol, time_ns, false) {
                self.introduce(source, symbol, time_ns, false, &mut sink);
            }
        }
        Some(symbol)
    }

    /// Returns what a record has changed among the best levels that `depth` shows, after it was
    /// applied. The definition of their symbol precedes them: it was given at the latest when the
    /// record was applied.
    pub fn levels<'a>(&mut self, record: &RecordRef<'_>, depth: &'a mut Depth) -> &'a [Level] {
        depth.after(record, &mut self.books)
    }

    /// Returns what happened to all records so far.
    pub fn accounting(&self) -> &Accounting {
        self.books.accounting()
    }

    /// Returns how many messages were given out, besides quotes and trades.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the books.
    pub fn books(&self) -> &Books {
        &self.books
    }

    #[inline]
    fn publish_tick(&mut self, tick: Tick, sink: &mut impl FnMut(&Message)) {
        let is_trade = matches!(tick, Tick::Trade(_));
        let (source, symbol, time_ns, message) = match tick {
            Tick::Quote(quote) => (
                quote.source,
                quote.symbol,
                quote.source_time_ns,
                Message::Quote(quote),
            ),
            Tick::Trade(trade) => (
                trade.source,
                trade.symbol,
                trade.source_time_ns,
                Message::Trade(trade),
            ),
        };
        if self.sessions.is_due(source, symbol, time_ns, is_trade) {
            self.introduce(source, symbol, time_ns, is_trade, sink);
        }
        sink(&message);
    }

    /// Gives what must precede a message: venue, definition, start of the session.
    #[cold]
    fn introduce(
        &mut self,
        source: u16,
        symbol: u32,
        time_ns: u64,
        is_trade: bool,
        sink: &mut impl FnMut(&Message),
    ) {
        if let Some(start) = self.sessions.enter(source, symbol, time_ns, is_trade) {
            self.define(source, symbol, sink);
            self.counts.sessions += 1;
            sink(&Message::SessionStart(start));
            // A statistic of the day before may have given the open.
            self.tell_changed(source, symbol, time_ns, sink);
        }
    }

    /// Gives what has changed of a session's reference and open.
    #[cold]
    fn tell_changed(
        &mut self,
        source: u16,
        symbol: u32,
        time_ns: u64,
        sink: &mut impl FnMut(&Message),
    ) {
        for start in self.sessions.changed(source, symbol, time_ns) {
            self.counts.sessions += 1;
            sink(&Message::SessionStart(start));
        }
    }

    /// Gives the venue of a publisher and the definition of a symbol, if the receiver does not have
    /// them.
    fn define(&mut self, source: u16, symbol: u32, sink: &mut impl FnMut(&Message)) {
        if self.venues.insert(source) {
            self.counts.venues += 1;
            sink(&Message::Venue(Venue {
                source,
                source_time_ns: 0,
                name: Publisher::venue_name(source),
            }));
        }
        let place = symbol.wrapping_sub(self.symbol_first) as usize;
        if self.defined.len() <= place {
            self.defined.resize(place + 1, None);
        }
        let instrument_id = self.books.instrument_id(symbol).unwrap_or_default();
        let symbol_name = self.books.symbol_name(symbol);
        // Another id of the same name may have no definition.
        let facts = self.facts_of(instrument_id, symbol_name);
        let facts = facts.or(self.defined[place]).unwrap_or(Facts::NONE);
        if self.defined[place] == Some(facts) {
            return;
        }
        let name = match symbol_name {
            Some(name) => Name::truncated(name),
            None => Name::truncated(&format!("ID{instrument_id}")),
        };
        self.counts.definitions += 1;
        sink(&Message::Definition(Definition {
            source,
            price_tick: facts.tick,
            lot_size: facts.lot_size,
            currency: facts.currency,
            ..Definition::new(symbol, name)
        }));
        self.defined[place] = Some(facts);
    }

    /// Returns what is known of an instrument: what its symbol's own definition says, else what the
    /// newest one does.
    fn facts_of(&self, instrument_id: u32, name: Option<&str>) -> Option<Facts> {
        let known = self
            .details
            .get(&instrument_id)
            .map_or(&[][..], |known| known);
        let of_name = known
            .iter()
            .find(|details| Some(&*details.raw_symbol) == name);
        let details = of_name.or_else(|| known.last());
        details.map(|details| details.facts)
    }

    fn note_definition(&mut self, record: &RecordRef<'_>, sink: &mut impl FnMut(&Message)) {
        let fields = record.decode();
        let Record::Definition(definition) = &fields else {
            return;
        };
        let id = definition.header.instrument_id;
        let details = Details::of(definition);
        let known = self.details.entry(id).or_default();
        let before = known.len();
        known.retain(|known| known.raw_symbol != details.raw_symbol);
        if self.details_count - before + known.len() >= SymbolNames::NAMES_MAX {
            self.details_count -= before - known.len();
            return;
        }
        known.push(details);
        if known.len() > SYMBOLS_MAX {
            known.remove(0);
        }
        self.details_count = self.details_count + known.len() - before;
        let symbol = self.books.known_symbol(id, fields.index_time_ns());
        let place = symbol.map(|symbol| symbol.wrapping_sub(self.symbol_first) as usize);
        if let (Some(symbol), Some(Some(_))) =
            (symbol, place.and_then(|place| self.defined.get(place)))
        {
            self.define(definition.header.publisher_id, symbol, sink);
        }
    }

    /// Applies a record that is neither quote nor trade, but says something of a session.
    fn apply_reference(&mut self, record: &RecordRef<'_>, sink: &mut impl FnMut(&Message)) {
        let fields = record.decode();
        let header = record.header();
        let time_ns = fields.source_time_ns();
        let state = match &fields {
            Record::Status(status) => match status.trading_state() {
                None => return self.books.count_unused(record, Unused::NoChange),
                state => state,
            },
            _ => None,
        };
        let symbol = match self.books.symbol_of(&header, fields.index_time_ns()) {
            Ok(symbol) => symbol,
            Err(reason) => return self.books.count_unused(record, reason),
        };
        self.books.note_used(record, time_ns);
        match &fields {
            // It is passed on whole.
            Record::Statistics(statistic) if !Sessions::uses(statistic, time_ns) => {}
            Record::Status(status) => {
                self.introduce(header.publisher_id, symbol, time_ns, false, sink);
                self.counts.statuses += 1;
                sink(&Message::Status(TradingStatus {
                    symbol,
                    source: header.publisher_id,
                    source_time_ns: time_ns,
                    state: state.unwrap_or_default(),
                    reason: status.reason.into(),
                }));
            }
            Record::Statistics(statistic) => {
                self.apply_statistic(statistic, symbol, time_ns, sink);
            }
            Record::Ohlcv(bar) => {
                self.sessions.note_bar(symbol, bar);
                // The bar has the time of its begin, but is known only now.
                let now_ns = self.books.newest_ns();
                self.tell_changed(header.publisher_id, symbol, now_ns, sink);
            }
            _ => {}
        }
    }

    fn apply_statistic(
        &mut self,
        statistic: &StatisticsRecord,
        symbol: u32,
        time_ns: u64,
        sink: &mut impl FnMut(&Message),
    ) {
        let source = statistic.header.publisher_id;
        self.sessions.note_statistic(symbol, statistic, time_ns);
        self.introduce(source, symbol, time_ns, false, sink);
        self.tell_changed(source, symbol, time_ns, sink);
    }
}

impl Default for Translator {
    fn default() -> Self {
        Self::new(BooksConfig::default())
    }
}

impl Facts {
    const NONE: Facts = Facts {
        tick: 0,
        lot_size: 0,
        currency: [0; 4],
    };
}

impl Details {
    fn of(definition: &DefinitionRecord<'_>) -> Self {
        let currency = definition.currency.as_bytes();
        let mut code = [0; 4];
        // The field has four bytes.
        let length = currency.len().min(code.len());
        code[..length].copy_from_slice(&currency[..length]);
        let lot_size = match (definition.min_lot_size, definition.min_trade_volume) {
            (size, _) if size > 0 && size < i32::MAX => size as u32,
            (_, u32::MAX) => 0,
            (_, volume) => volume,
        };
        Self {
            raw_symbol: definition.raw_symbol.into(),
            facts: Facts {
                tick: match definition.min_price_increment {
                    UNDEFINED_PRICE => 0,
                    tick => tick,
                },
                lot_size,
                currency: code,
            },
        }
    }
}

impl Ticks {
    #[inline]
    fn push(&mut self, tick: Tick) {
        debug_assert!(self.count < 2, "a record gives a quote and a trade at most");
        if let Some(place) = self.ticks.get_mut(self.count) {
            *place = Some(tick);
            self.count += 1;
        }
    }
}

/// Symbols of one instrument whose definitions are kept; the oldest goes first.
const SYMBOLS_MAX: usize = 16;
