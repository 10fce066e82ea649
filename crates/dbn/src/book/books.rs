//! The books of all instruments of a stream: DBN records in, ticks out.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::repeats::{self, Repeats, Verdict};
use super::symbols::Symbols;
use super::{Accounting, Book, BookLimits, Unused};
use crate::{
    BidAsk, ConsolidatedRecord, MboRecord, Metadata, NamesFull, Publisher, Record, RecordHeader,
    RecordRef, SymbolNames, TradeRecord, UNDEFINED_PRICE, UNDEFINED_TIME, action, flag, side,
};
use tidewire_feed::wire::{AGGRESSOR_BUY, AGGRESSOR_SELL, Name, Quote, Tick, Trade};

/// Limits of [`Books`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BooksConfig {
    /// Limits of each instrument's book.
    pub book: BookLimits,
    /// Maximum number of instruments. An instrument at two publishers counts twice.
    pub instruments_max: usize,
    /// Number of the first symbol. The others follow in order of appearance.
    pub symbol_first: u32,
}

impl Default for BooksConfig {
    /// Returns the default [`BookLimits`], a million instruments, and symbols from 0.
    fn default() -> Self {
        Self {
            book: BookLimits::default(),
            instruments_max: 1_000_000,
            symbol_first: 0,
        }
    }
}

/// The best prices of all instruments of a stream.
///
/// Each name gets a symbol number when it first appears, from [`BooksConfig::symbol_first`]
/// without gaps; an instrument id without a name gets one too. A tick's `symbol` is this number.
/// [`symbol_name`](Self::symbol_name) returns the name of a number,
/// [`instrument_id`](Self::instrument_id) the id that got this name last. A tick's `source` is the
/// publisher. One instrument at two publishers is one symbol with two books.
#[derive(Debug)]
pub struct Books {
    config: BooksConfig,
    books: HashMap<u64, u32>,
    states: Vec<InstrumentState>,
    symbols: Symbols,
    /// The quote given out last of each symbol at each publisher, from any kind of record;
    /// [`NOT_TOLD`] before the first one.
    quotes: Vec<BidAsk>,
    /// Places in `quotes` by publisher and symbol.
    quote_places: HashMap<(u16, u32), u32>,
    names: SymbolNames,
    /// Changes when `names` does.
    names_version: u32,
    /// The newest time of a record, ns since the UNIX epoch.
    newest_ns: u64,
    /// The time at which the metadata begins, ns since the UNIX epoch; 0 if unknown.
    start_ns: u64,
    /// The stream may tell a trade in several schemas.
    mixes_schemas: bool,
    /// Trades that another schema may tell again.
    repeats: Repeats,
    pub(super) accounting: Accounting,
    /// See [`take_appeared`](Self::take_appeared).
    appeared: Option<(u16, u32)>,
    /// Names that are too long for a symbol, of which there were records.
    long_names: HashSet<Box<str>>,
    /// See [`take_long_name`](Self::take_long_name).
    long_name: Option<Box<str>>,
    /// Key and place of the book used last: most streams stay with one book for many records.
    last: (u64, usize),
}

/// One instrument at one publisher.
#[derive(Debug)]
struct InstrumentState {
    symbol: u32,
    /// When its name is valid, ns since the UNIX epoch.
    named_ns: Range<u64>,
    /// The version of the names when its own was looked up.
    names_version: u32,
    publisher_id: u16,
    /// Orders or prices of the symbol were read.
    has_appeared: bool,
    /// Place of the symbol's quote.
    quote: u32,
    /// The quote given out last may not be that of the book: the next event shows it.
    owes_quote: bool,
    /// The book has had no order record, and no quote of the symbol has been given out: the state
    /// of the book after its first event is shown, also if it is empty.
    awaits_book: bool,
    /// Created by the first order.
    book: Option<Box<Book>>,
}

impl Books {
    /// Creates an empty set of books.
    pub fn new(config: BooksConfig) -> Self {
        Self {
            config,
            books: HashMap::new(),
            states: Vec::new(),
            symbols: Symbols::new(config.symbol_first),
            quotes: Vec::new(),
            quote_places: HashMap::new(),
            names: SymbolNames::new(),
            names_version: 0,
            newest_ns: 0,
            start_ns: 0,
            mixes_schemas: true,
            repeats: Repeats::default(),
            accounting: Accounting::new(),
            appeared: None,
            long_names: HashSet::new(),
            long_name: None,
            last: (u64::MAX, 0),
        }
    }

    /// Adds the symbols of a stream's metadata.
    ///
    /// # Errors
    /// [`NamesFull`].
    pub fn add_metadata(&mut self, metadata: &Metadata) -> Result<(), NamesFull> {
        self.mixes_schemas = metadata.schema.is_none();
        if metadata.start_ns != UNDEFINED_TIME {
            self.start_ns = metadata.start_ns;
        }
        self.names_version += 1;
        self.names.add_metadata(metadata)
    }

    /// Applies one record and gives `sink` the ticks to publish: at most a quote and a trade. The
    /// quote comes first if it is the state before the trade.
    ///
    /// * Orders: a quote at the end of an event that changed the top; a trade at once.
    /// * `mbp-1`, `mbp-10`, `bbo` and consolidated records: their first level if it changed, and
    ///   a trade if the record is one.
    /// * The first state of a book is given also if it is empty, after a first event of orders with
    ///   records of any kind: the receiver may have an older one.
    /// * Definitions and symbol mappings name instruments. All other records count as unused.
    #[inline]
    pub fn apply(&mut self, record: &RecordRef<'_>, sink: impl FnMut(Tick)) {
        match record.mbo() {
            Some(order) => self.apply_order(record, &order, sink),
            None => self.apply_other(record, sink),
        }
    }

    /// Returns what happened to all records so far.
    pub fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    /// Returns the instrument id that got the name of a symbol number last.
    pub fn instrument_id(&self, symbol: u32) -> Option<u32> {
        self.symbols.instrument_id(symbol)
    }

    /// Returns the name of a symbol number, if the stream has named it.
    pub fn symbol_name(&self, symbol: u32) -> Option<&str> {
        self.symbols.name(symbol)
    }

    /// Returns the names by instrument id.
    pub fn names(&self) -> &SymbolNames {
        &self.names
    }

    /// Returns the number of symbols seen.
    pub fn symbol_count(&self) -> usize {
        self.symbols.len()
    }

    /// Returns the book of an instrument at a publisher, if orders of it were read.
    pub fn book(&self, publisher_id: u16, instrument_id: u32) -> Option<&Book> {
        let place = self.books.get(&key(publisher_id, instrument_id))?;
        self.states.get(*place as usize)?.book.as_deref()
    }

    /// Returns the book of an instrument at a publisher, and its current symbol number.
    pub(super) fn book_to_show(
        &mut self,
        publisher_id: u16,
        instrument_id: u32,
    ) -> Option<(u32, &mut Book)> {
        let place = self.books.get(&key(publisher_id, instrument_id))?;
        let state = self.states.get_mut(*place as usize)?;
        Some((state.symbol, state.book.as_deref_mut()?))
    }

    /// Returns the publisher and the symbol of orders or prices that the last record applied has
    /// given, if the one before it for this instrument had another symbol, or there was none.
    pub(crate) fn take_appeared(&mut self) -> Option<(u16, u32)> {
        self.appeared.take()
    }

    /// Returns the current symbol number of an instrument at a publisher.
    pub fn symbol(&self, publisher_id: u16, instrument_id: u32) -> Option<u32> {
        let place = self.books.get(&key(publisher_id, instrument_id))?;
        Some(self.states.get(*place as usize)?.symbol)
    }

    #[inline]
    fn apply_order(
        &mut self,
        record: &RecordRef<'_>,
        order: &MboRecord,
        mut sink: impl FnMut(Tick),
    ) {
        let place = match self.place(&order.header, order.index_time_ns()) {
            Ok(place) => place,
            Err(reason) => return self.count_unused(record, reason),
        };
        let state = &mut self.states[place];
        if !state.has_appeared {
            self.appeared = state.appear();
        }
        let limits = self.config.book;
        let book = state
            .book
            .get_or_insert_with(|| Box::new(Book::new(limits)));
        if state.awaits_book {
            (state.awaits_book, state.owes_quote) = (false, true);
        }
        let source_time_ns = order.source_time_ns();
        self.accounting.note_time(source_time_ns);
        self.accounting.suspect += u64::from(order.flags & flag::MAYBE_BAD_BOOK != 0);
        let (trade, show) = match book.apply(order) {
            Ok(change) => {
                let unused = match (change.trade, order.price) {
                    (false, _) => None,
                    (true, UNDEFINED_PRICE | i64::MIN) => Some(Unused::NoPrice),
                    (true, price) if self.mixes_schemas => {
                        let trade = repeats::Trade {
                            place: place as u32,
                            size: order.size,
                            time_ns: source_time_ns,
                            price,
                        };
                        unused_by(self.repeats.judge(record.kind(), trade))
                    }
                    (true, _) => None,
                };
                self.accounting.count(record.kind(), record.rtype(), unused);
                (change.trade && unused.is_none(), change.quote)
            }
            Err(error) => {
                // A failed record may still end an event.
                self.accounting
                    .count_unused(record.kind(), record.rtype(), error.into());
                (false, order.flags & flag::LAST != 0 && book.end_event())
            }
        };
        let top = book.top();
        if trade {
            self.accounting.trades += 1;
            let (price, size) = (order.price, order.size);
            sink(state.trade(source_time_ns, price, size, order.side));
        }
        let show = show || state.owes_quote && order.flags & flag::LAST != 0;
        if show {
            state.owes_quote = false;
            let published = &mut self.quotes[state.quote as usize];
            if let Some(quote) = state.changed(published, source_time_ns, top) {
                self.accounting.quotes += 1;
                sink(quote);
            }
        }
    }

    fn apply_other(&mut self, record: &RecordRef<'_>, mut sink: impl FnMut(Tick)) {
        let fields = record.decode();
        let (top, event) = match &fields {
            Record::Mbp1(mbp) | Record::Mbp10(mbp) => (Some(priced(mbp.top)), Some(mbp.event)),
            Record::Trade(trade) => (None, Some(*trade)),
            Record::Bbo(bbo) => (Some(priced(bbo.top)), None),
            Record::Consolidated(consolidated) => {
                let (top, event) = parts(consolidated);
                (Some(priced(top)), Some(event))
            }
            Record::Definition(_) | Record::SymbolMapping(_) => {
                self.names_version = self.names_version.wrapping_add(1);
                return match self.names.add_record(&fields, self.newest_ns) {
                    Ok(_) => self.accounting.count_used(record.kind()),
                    Err(NamesFull) => self.count_unused(record, Unused::TooManyInstruments),
                };
            }
            Record::Unknown { .. } => return self.count_unused(record, Unused::UnknownKind),
            _ => return self.count_unused(record, Unused::NoPrices),
        };
        let mut header = record.header();
        let time_ns = fields.index_time_ns();
        let source_time_ns = fields.source_time_ns();
        if let Some(top) = top {
            if let Record::Consolidated(_) = fields {
                // Its prices are not those of the venue whose event changed them.
                let consolidated = Publisher::consolidated(header.publisher_id);
                header.publisher_id = consolidated.unwrap_or(header.publisher_id);
            }
            let place = match self.place(&header, time_ns) {
                Ok(place) => place,
                Err(reason) => return self.count_unused(record, reason),
            };
            let state = &mut self.states[place];
            if !state.has_appeared {
                self.appeared = state.appear();
            }
            let published = &mut self.quotes[state.quote as usize];
            // The quote is current now, and a book of orders may be incomplete.
            (state.awaits_book, state.owes_quote) = (false, false);
            if let Some(quote) = state.changed(published, source_time_ns, top) {
                self.accounting.quotes += 1;
                sink(quote);
            }
        }
        self.accounting.note_time(source_time_ns);
        let Some(event) = event else {
            return self.accounting.count_used(record.kind());
        };
        self.accounting.suspect += u64::from(event.flags & flag::MAYBE_BAD_BOOK != 0);
        if event.action != action::TRADE {
            return self.accounting.count_used(record.kind());
        }
        self.apply_trade(record, &event, (source_time_ns, time_ns), sink);
    }

    /// Gives the trade of a record that is not one of an order. Its times are ns since the UNIX
    /// epoch: that of the source, and the one by which it has its name.
    fn apply_trade(
        &mut self,
        record: &RecordRef<'_>,
        event: &TradeRecord,
        (source_time_ns, time_ns): (u64, u64),
        mut sink: impl FnMut(Tick),
    ) {
        if matches!(event.price, UNDEFINED_PRICE | i64::MIN) {
            return self.count_unused(record, Unused::NoPrice);
        }
        let place = match self.place(&record.header(), time_ns) {
            Ok(place) => place,
            Err(reason) => return self.count_unused(record, reason),
        };
        if self.mixes_schemas {
            let trade = repeats::Trade {
                place: place as u32,
                size: event.size,
                time_ns: source_time_ns,
                price: event.price,
            };
            if let Some(reason) = unused_by(self.repeats.judge(record.kind(), trade)) {
                return self.count_unused(record, reason);
            }
        }
        self.accounting.count_used(record.kind());
        self.accounting.trades += 1;
        let state = &self.states[place];
        sink(state.trade(source_time_ns, event.price, event.size, event.side));
    }

    /// Returns the symbol number of a record's instrument, under its name at that time (ns since
    /// the UNIX epoch), and creates it if it is new.
    ///
    /// # Errors
    /// Why it has none.
    pub(crate) fn symbol_of(&mut self, header: &RecordHeader, time_ns: u64) -> Result<u32, Unused> {
        let place = self.place(header, time_ns)?;
        Ok(self.states[place].symbol)
    }

    /// Returns a name that is too long for a symbol and that a record has used for the first time.
    pub(crate) fn take_long_name(&mut self) -> Option<Box<str>> {
        self.long_name.take()
    }

    /// Returns the symbol number that an instrument has by its name at a time (ns since the UNIX
    /// epoch), if a record has used it.
    pub(crate) fn known_symbol(&self, instrument_id: u32, time_ns: u64) -> Option<u32> {
        let (name, _) = self.names.name_at(instrument_id, self.named_at(time_ns));
        self.symbols.find(instrument_id, name)
    }

    /// Returns the newest time of a record, ns since the UNIX epoch.
    pub(crate) fn newest_ns(&self) -> u64 {
        self.newest_ns
    }

    /// Counts a record that was used outside the books.
    pub(crate) fn note_used(&mut self, record: &RecordRef<'_>, source_time_ns: u64) {
        self.accounting.note_time(source_time_ns);
        self.accounting.count_used(record.kind());
    }

    pub(crate) fn count_unused(&mut self, record: &RecordRef<'_>, reason: Unused) {
        self.accounting
            .count_unused(record.kind(), record.rtype(), reason);
    }

    /// Returns the place of a record's instrument, under its name at that time (ns since the UNIX
    /// epoch), and creates it if it is new.
    ///
    /// # Errors
    /// Over a limit.
    #[inline]
    fn place(&mut self, header: &RecordHeader, time_ns: u64) -> Result<usize, Unused> {
        let key = key(header.publisher_id, header.instrument_id);
        if self.last.0 != key {
            let place = self.find_or_make(header);
            self.last = (key, place.ok_or(Unused::TooManyInstruments)?);
        }
        let place = self.last.1;
        self.newest_ns = self.newest_ns.max(time_ns);
        let time_ns = self.named_at(time_ns);
        let state = &self.states[place];
        if state.names_version != self.names_version || !state.named_ns.contains(&time_ns) {
            self.name(place, header.instrument_id, time_ns)?;
        }
        Ok(place)
    }

    /// Returns the time by which a record of this time has its name: a record without one has that
    /// of the stream at its place. All are ns since the UNIX epoch.
    #[inline]
    fn named_at(&self, time_ns: u64) -> u64 {
        match time_ns {
            0 => self.newest_ns.max(self.start_ns),
            time_ns => time_ns,
        }
    }

    #[inline(never)]
    fn find_or_make(&mut self, header: &RecordHeader) -> Option<usize> {
        let key = key(header.publisher_id, header.instrument_id);
        if let Some(&place) = self.books.get(&key) {
            return Some(place as usize);
        }
        let place = self.states.len();
        if place >= self.config.instruments_max.min(INSTRUMENTS_MAX) {
            return None;
        }
        self.books.insert(key, place as u32);
        self.states.push(InstrumentState {
            symbol: u32::MAX,
            // No time at all: it is named at its first record.
            named_ns: 0..0,
            names_version: self.names_version,
            publisher_id: header.publisher_id,
            has_appeared: false,
            quote: u32::MAX,
            owes_quote: false,
            awaits_book: false,
            book: None,
        });
        Some(place)
    }

    /// Gives an instrument the symbol number of its name at a time.
    ///
    /// # Errors
    /// There are too many symbols, or the name is too long for one.
    #[inline(never)]
    fn name(&mut self, place: usize, instrument_id: u32, time_ns: u64) -> Result<(), Unused> {
        let (name, named_ns) = self.names.name_at(instrument_id, time_ns);
        if let Some(name) = name.filter(|name| name.len() > NAME_LENGTH_MAX) {
            // Its next record comes here again.
            self.states[place].named_ns = 0..0;
            if !self.long_names.contains(name) {
                self.long_names.insert(name.into());
                self.long_name = Some(name.into());
            }
            return Err(Unused::NameTooLong);
        }
        let symbols_max = self.config.instruments_max;
        let symbol = self
            .symbols
            .find_or_make(instrument_id, name, symbols_max)
            .ok_or(Unused::TooManyInstruments)?;
        let state = &mut self.states[place];
        if state.symbol != symbol {
            let key = (state.publisher_id, symbol);
            let (quote, is_first) = match self.quote_places.get(&key) {
                Some(&quote) => (quote, false),
                None if self.quotes.len() >= symbols_max => {
                    return Err(Unused::TooManyInstruments);
                }
                None => {
                    let quote = self.quotes.len() as u32;
                    self.quotes.push(NOT_TOLD);
                    self.quote_places.insert(key, quote);
                    (quote, true)
                }
            };
            // The book has lived under another name, or the name under another book.
            state.owes_quote = state.book.is_some() || !is_first;
            state.awaits_book = !state.owes_quote;
            (state.symbol, state.quote) = (symbol, quote);
            state.has_appeared = false;
        }
        state.named_ns = named_ns;
        state.names_version = self.names_version;
        Ok(())
    }
}

/// Returns why a trade is left out, if it is.
fn unused_by(verdict: Verdict) -> Option<Unused> {
    match verdict {
        Verdict::New => None,
        Verdict::Repeated => Some(Unused::Repeated),
        Verdict::Forgotten => Some(Unused::Forgotten),
    }
}

/// Returns a top whose sides without a price have no size and no orders.
fn priced(mut top: BidAsk) -> BidAsk {
    if matches!(top.bid, UNDEFINED_PRICE | i64::MIN) {
        (top.bid, top.bid_size, top.bid_orders) = (UNDEFINED_PRICE, 0, 0);
    }
    if matches!(top.ask, UNDEFINED_PRICE | i64::MIN) {
        (top.ask, top.ask_size, top.ask_orders) = (UNDEFINED_PRICE, 0, 0);
    }
    top
}

/// Returns the prices of a consolidated record, and its event.
fn parts(record: &ConsolidatedRecord) -> (BidAsk, TradeRecord) {
    let top = BidAsk {
        bid: record.top.bid,
        ask: record.top.ask,
        bid_size: record.top.bid_size,
        ask_size: record.top.ask_size,
        bid_orders: 0,
        ask_orders: 0,
    };
    let event = TradeRecord {
        price: record.price,
        size: record.size,
        action: record.action,
        side: record.side,
        flags: record.flags,
        ..Default::default()
    };
    (top, event)
}

impl Default for Books {
    fn default() -> Self {
        Self::new(BooksConfig::default())
    }
}

impl InstrumentState {
    #[cold]
    fn appear(&mut self) -> Option<(u16, u32)> {
        self.has_appeared = true;
        Some((self.publisher_id, self.symbol))
    }

    /// Returns the quote to publish if the top differs from `published`, the quote published last.
    #[inline]
    fn changed(&self, published: &mut BidAsk, source_time_ns: u64, top: BidAsk) -> Option<Tick> {
        if top == *published {
            return None;
        }
        *published = top;
        Some(Tick::Quote(Quote {
            symbol: self.symbol,
            source: self.publisher_id,
            source_time_ns,
            bid: top.bid,
            ask: top.ask,
            bid_size: top.bid_size,
            ask_size: top.ask_size,
            bid_orders: top.bid_orders,
            ask_orders: top.ask_orders,
        }))
    }

    #[inline]
    fn trade(&self, source_time_ns: u64, price: i64, size: u32, aggressor: u8) -> Tick {
        Tick::Trade(Trade {
            symbol: self.symbol,
            source: self.publisher_id,
            source_time_ns,
            price,
            size,
            condition: match aggressor {
                side::BID => AGGRESSOR_BUY,
                side::ASK => AGGRESSOR_SELL,
                _ => 0,
            },
        })
    }
}

/// Returns the key of an instrument at a publisher.
#[inline]
fn key(publisher_id: u16, instrument_id: u32) -> u64 {
    u64::from(publisher_id) << 32 | u64::from(instrument_id)
}

/// Differs from every quote: a side without a price has no size.
const NOT_TOLD: BidAsk = BidAsk {
    bid_size: 1,
    ask_size: 1,
    ..BidAsk::EMPTY
};
/// Bytes of a symbol's name, as in the native feed.
const NAME_LENGTH_MAX: usize = size_of::<Name>();
/// Places are kept in 32 bits.
const INSTRUMENTS_MAX: usize = u32::MAX as usize;
