//! All books of a day: messages in; quotes, trades, statuses and definitions out; in one pass.

mod depth;

use super::message::{MessageError, sized};
use super::{
    AddAttributedOrder, AddOrder, CrossTrade, DayTime, Head, Letters, OperationalHalt, OrderCancel,
    OrderDelete, OrderExecuted, OrderExecutedAtPrice, OrderReplace, Price, StockDirectory,
    SystemEvent, Trade, TradingAction,
};
use crate::sequenced::AHEAD;
use tidewire_book::{BookError, Order, Orders, Sides};
use tidewire_feed::client::Sink;
use tidewire_feed::wire::{self, Definition, Message, Name, Quote, TradingState, UNDEFINED_PRICE};
use tidewire_feed::wire::{AGGRESSOR_BUY, AGGRESSOR_SELL, CROSS, NOT_SHOWN};

/// Settings of the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BooksConfig {
    /// Maximum price levels per side of a security's book, 24 bytes each.
    pub levels_max: usize,
    /// Maximum orders of all books together: 24 bytes each, in a table that is 3/8 to 3/4 full.
    pub orders_max: usize,
    /// Start of the day, nanoseconds since the UNIX epoch: the base of the messages' times.
    pub midnight_unix_ns: u64,
    /// Value of `source` in the output.
    pub source: u16,
    /// Offset from locate codes to symbol numbers.
    pub symbol_first: u32,
}

impl Default for BooksConfig {
    /// Returns 65,536 levels per side, 16 million orders, 1 January 1970, and source 0.
    fn default() -> Self {
        Self {
            levels_max: 65_536,
            orders_max: 16_000_000,
            midnight_unix_ns: 0,
            source: 0,
            symbol_first: 0,
        }
    }
}

/// Counts of messages and output; every field only grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Messages by type byte.
    pub kinds: Box<[u64; 256]>,
    /// Quotes published.
    pub quotes: u64,
    /// Trades published.
    pub trades: u64,
    /// Statuses published.
    pub statuses: u64,
    /// Definitions published.
    pub definitions: u64,
    /// Messages of a known type with a wrong length, and empty messages.
    pub malformed: u64,
    /// Executions, cancels, deletes and replaces of orders that are not in the book, because
    /// earlier messages were lost or not received.
    pub unknown_orders: u64,
    /// Orders left out because a book was full.
    pub refused_orders: u64,
    /// Orders without a side or price.
    pub senseless_orders: u64,
}

impl Counters {
    /// Returns the number of messages of all types, malformed ones included.
    pub fn messages(&self) -> u64 {
        self.kinds.iter().sum::<u64>() + self.malformed
    }
}

/// The books of all securities of one exchange and day.
///
/// The symbol number in the output is the security's locate code plus
/// [`BooksConfig::symbol_first`]. A security is defined by its directory entry or, if that was
/// missed, by the first message with its symbol.
#[derive(Debug)]
pub struct Books {
    config: BooksConfig,
    /// Securities by locate code.
    states: Vec<Option<Box<SecurityState>>>,
    /// Orders of all books; their numbers are unique within a day.
    orders: Orders,
    /// Securities whose price levels are given too.
    followed: depth::Followed,
    counters: Counters,
    ended: bool,
}

/// Aligned to cache lines: one per side, and one for the fields that every message uses.
#[derive(Debug)]
#[repr(align(64))]
struct SecurityState {
    sides: Sides,
    is_defined: bool,
}

impl Books {
    /// Creates an empty set of books.
    pub fn new(config: BooksConfig) -> Self {
        Self {
            config,
            states: Vec::new(),
            orders: Orders::new(config.orders_max),
            followed: depth::Followed::default(),
            counters: Counters {
                kinds: Box::new([0; 256]),
                quotes: 0,
                trades: 0,
                statuses: 0,
                definitions: 0,
                malformed: 0,
                unknown_orders: 0,
                refused_orders: 0,
                senseless_orders: 0,
            },
            ended: false,
        }
    }

    /// Applies one message (without its length) and gives `sink` the result: first a trade, then
    /// the top of the book if it changed. Both have the sequence `sequence`. An invalid message
    /// is counted and changes nothing.
    #[inline]
    pub fn apply<S: Sink>(&mut self, sequence: u64, message: &[u8], sink: &mut S) {
        if self.try_apply(sequence, message, sink).is_err() {
            self.counters.malformed += 1;
        } else if let Some(&kind) = message.first() {
            self.counters.kinds[usize::from(kind)] += 1;
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns whether the exchange has ended the messages of the day.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Removes all orders and names, as at the start of another session. The counters stay.
    pub fn clear(&mut self) {
        self.states.clear();
        self.orders.clear();
        self.followed = depth::Followed::default();
        self.ended = false;
    }

    /// Returns the book of a security, if there was a message about it.
    pub fn book(&self, locate: u16) -> Option<&Sides> {
        Some(&self.states.get(usize::from(locate))?.as_ref()?.sides)
    }

    /// Returns the number of orders of all books.
    pub fn order_count(&self) -> usize {
        self.orders.len()
    }

    /// Prefetches the data of the next messages, so that their cache misses overlap. `frames` are
    /// messages after their lengths, as in packets and files. Prefetches for the first [`AHEAD`]
    /// of them: first orders and books, then what books and `sink` store about their symbols.
    /// Each step finds the addresses of the next one in the cache.
    #[inline]
    pub fn expect<S: Sink>(&self, frames: &[u8], sink: &S) {
        let mut locates = [0; AHEAD];
        let count = self.expect_orders(frames, &mut locates);
        for &locate in &locates[..count] {
            if let Some(Some(state)) = self.states.get(usize::from(locate)) {
                state.sides.touch();
            }
            sink.expect_symbol(self.config.symbol_first + u32::from(locate));
        }
    }

    /// Prefetches the orders of the messages and the pointers to their books. Returns the number
    /// of locate codes written to `locates`.
    #[inline]
    fn expect_orders(&self, frames: &[u8], locates: &mut [u16; AHEAD]) -> usize {
        let (mut rest, mut count) = (frames, 0);
        for _ in 0..AHEAD {
            let Some((message, used)) = super::frame(rest) else {
                break;
            };
            rest = &rest[used..];
            let (Some(&kind), Some(reference)) = (message.first(), message.get(REFERENCE)) else {
                continue;
            };
            let is_of_an_order = matches!(
                kind,
                AddOrder::KIND
                    | AddAttributedOrder::KIND
                    | OrderExecuted::KIND
                    | OrderExecutedAtPrice::KIND
                    | OrderCancel::KIND
                    | OrderDelete::KIND
                    | OrderReplace::KIND
            );
            if let (true, Ok(reference)) = (is_of_an_order, reference.try_into()) {
                self.orders.touch(u64::from_be_bytes(reference));
                let locate = u16::from_be_bytes([message[1], message[2]]);
                if let Some(Some(state)) = self.states.get(usize::from(locate)) {
                    std::hint::black_box(state.is_defined);
                }
                locates[count] = locate;
                count += 1;
            }
        }
        count
    }

    /// Returns the time of a message, nanoseconds since the UNIX epoch.
    #[inline]
    pub fn unix_ns(&self, time: DayTime) -> u64 {
        self.config.midnight_unix_ns.saturating_add(time.ns())
    }

    #[inline]
    fn try_apply<S: Sink>(
        &mut self,
        sequence: u64,
        message: &[u8],
        sink: &mut S,
    ) -> Result<(), MessageError> {
        let Some(&kind) = message.first() else {
            return Err(MessageError::Empty);
        };
        match kind {
            AddOrder::KIND => {
                let add = AddOrder::from_bytes(sized(message)?);
                self.add(sequence, &add, sink);
            }
            OrderDelete::KIND => {
                let delete = OrderDelete::from_bytes(sized(message)?);
                self.reduce(sequence, &delete.head, delete.reference, u32::MAX, sink);
            }
            OrderReplace::KIND => {
                let replace = OrderReplace::from_bytes(sized(message)?);
                self.replace(sequence, &replace, sink);
            }
            OrderExecuted::KIND => {
                let executed = OrderExecuted::from_bytes(sized(message)?);
                let (reference, shares) = (executed.reference, executed.shares);
                self.execute(sequence, &executed.head, reference, shares, None, sink);
            }
            OrderCancel::KIND => {
                let cancel = OrderCancel::from_bytes(sized(message)?);
                self.reduce(
                    sequence,
                    &cancel.head,
                    cancel.reference,
                    cancel.shares,
                    sink,
                );
            }
            AddAttributedOrder::KIND => {
                let add = AddAttributedOrder::from_bytes(sized(message)?);
                let (head, reference) = (add.head, add.reference);
                let (side, shares, stock, price) = (add.side, add.shares, add.stock, add.price);
                let add = AddOrder {
                    head,
                    reference,
                    side,
                    shares,
                    stock,
                    price,
                };
                self.add(sequence, &add, sink);
            }
            _ => return self.apply_rare(kind, sequence, message, sink),
        }
        Ok(())
    }

    #[inline(never)]
    fn apply_rare<S: Sink>(
        &mut self,
        kind: u8,
        sequence: u64,
        message: &[u8],
        sink: &mut S,
    ) -> Result<(), MessageError> {
        match kind {
            OrderExecutedAtPrice::KIND => {
                let executed = OrderExecutedAtPrice::from_bytes(sized(message)?);
                let (reference, shares) = (executed.reference, executed.shares);
                if executed.printable == b'N' {
                    self.reduce(sequence, &executed.head, reference, shares, sink);
                } else {
                    let price = Some(executed.price);
                    self.execute(sequence, &executed.head, reference, shares, price, sink);
                }
            }
            Trade::KIND => {
                let trade = Trade::from_bytes(sized(message)?);
                self.define(sequence, &trade.head, trade.stock, sink);
                let (price, shares) = (trade.price.nanos(), trade.shares);
                self.trade(sequence, &trade.head, price, shares, NOT_SHOWN, sink);
            }
            CrossTrade::KIND => {
                let cross = CrossTrade::from_bytes(sized(message)?);
                self.define(sequence, &cross.head, cross.stock, sink);
                let shares = u32::try_from(cross.shares).unwrap_or(u32::MAX);
                if shares > 0 {
                    let price = cross.price.nanos();
                    self.trade(sequence, &cross.head, price, shares, CROSS, sink);
                }
            }
            StockDirectory::KIND => {
                let directory = StockDirectory::from_bytes(sized(message)?);
                self.direct(sequence, &directory, sink);
            }
            TradingAction::KIND => {
                let action = TradingAction::from_bytes(sized(message)?);
                self.define(sequence, &action.head, action.stock, sink);
                let state = match action.state {
                    b'H' | b'P' => TradingState::HALTED,
                    b'Q' => TradingState::AUCTION,
                    b'T' => TradingState::OPEN,
                    _ => TradingState::UNKNOWN,
                };
                let reason = u32::from_le_bytes(*action.reason.bytes());
                self.status(sequence, &action.head, state, reason, sink);
            }
            OperationalHalt::KIND => {
                let halt = OperationalHalt::from_bytes(sized(message)?);
                // This book does not show the other markets.
                if halt.market == b'Q' {
                    self.define(sequence, &halt.head, halt.stock, sink);
                    let state = match halt.action {
                        b'H' => TradingState::HALTED,
                        _ => TradingState::OPEN,
                    };
                    self.status(sequence, &halt.head, state, 0, sink);
                }
            }
            SystemEvent::KIND => {
                let event = SystemEvent::from_bytes(sized(message)?);
                self.ended |= event.event == b'C';
            }
            _ => {
                // A valid message without order, trade or status; only its length is checked.
                super::Message::decode(message)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn add<S: Sink>(&mut self, sequence: u64, add: &AddOrder, sink: &mut S) {
        let is_bid = match add.side {
            b'B' => true,
            b'S' => false,
            _ => return self.counters.senseless_orders += 1,
        };
        let order = Order {
            price: add.price.nanos(),
            size: add.shares,
            book: add.head.locate,
            is_bid,
        };
        self.define(sequence, &add.head, add.stock, sink);
        match self.insert(add.reference, order) {
            Ok(()) => {
                self.show(sequence, &add.head, sink);
                self.show_levels(sequence, &add.head, &[(is_bid, order.price)], sink);
            }
            Err(error) => self.refuse(error),
        }
    }

    #[inline]
    fn reduce<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        reference: u64,
        shares: u32,
        sink: &mut S,
    ) {
        match self.take(head.locate, reference, shares) {
            Ok(taken) => {
                self.show(sequence, head, sink);
                self.show_levels(sequence, head, &[(taken.is_bid, taken.price)], sink);
            }
            Err(error) => self.refuse(error),
        }
    }

    #[inline]
    fn execute<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        reference: u64,
        shares: u32,
        price: Option<Price>,
        sink: &mut S,
    ) {
        let taken = match self.take(head.locate, reference, shares) {
            Ok(taken) => taken,
            Err(error) => return self.refuse(error),
        };
        let price = price.map_or(taken.price, Price::nanos);
        let aggressor = if taken.is_bid {
            AGGRESSOR_SELL
        } else {
            AGGRESSOR_BUY
        };
        self.trade(sequence, head, price, shares, aggressor, sink);
        self.show(sequence, head, sink);
        self.show_levels(sequence, head, &[(taken.is_bid, taken.price)], sink);
    }

    #[inline]
    fn replace<S: Sink>(&mut self, sequence: u64, replace: &OrderReplace, sink: &mut S) {
        let locate = replace.head.locate;
        let gone = match self.take(locate, replace.original, u32::MAX) {
            Ok(gone) => gone,
            Err(error) => return self.refuse(error),
        };
        let order = Order {
            price: replace.price.nanos(),
            size: replace.shares,
            book: locate,
            is_bid: gone.is_bid,
        };
        if let Err(error) = self.insert(replace.reference, order) {
            self.refuse(error);
        }
        self.show(sequence, &replace.head, sink);
        // The new order may have the same price.
        let places = [(gone.is_bid, gone.price), (order.is_bid, order.price)];
        let first = usize::from(places[0] == places[1]);
        self.show_levels(sequence, &replace.head, &places[first..], sink);
    }

    #[inline]
    fn insert(&mut self, reference: u64, order: Order) -> Result<(), BookError> {
        if self.orders.is_full() {
            return Err(BookError::OrdersFull);
        }
        self.state(order.book).sides.add(order)?;
        if let Some(replaced) = self.orders.insert(reference, order) {
            self.state(replaced.book).sides.remove(replaced, true);
            self.followed.renew(replaced.book);
        }
        Ok(())
    }

    /// Takes up to `shares` from an order of this security.
    #[inline]
    fn take(&mut self, locate: u16, reference: u64, shares: u32) -> Result<Order, BookError> {
        let order = self.orders.find(reference);
        if order.is_none_or(|order| order.book != locate) {
            return Err(BookError::UnknownOrder);
        }
        let taken = self.orders.reduce(reference, shares);
        let (taken, gone) = taken.ok_or(BookError::UnknownOrder)?;
        self.state(locate).sides.remove(taken, gone);
        Ok(taken)
    }

    /// Publishes the top of the book if it changed.
    #[inline]
    fn show<S: Sink>(&mut self, sequence: u64, head: &Head, sink: &mut S) {
        let sides = &mut self.state(head.locate).sides;
        if !sides.end_event() {
            return;
        }
        let top = sides.top();
        self.counters.quotes += 1;
        let quote = Quote {
            symbol: self.config.symbol_first + u32::from(head.locate),
            source: self.config.source,
            source_time_ns: self.unix_ns(head.time),
            bid: top.bid,
            ask: top.ask,
            bid_size: top.bid_size,
            ask_size: top.ask_size,
            bid_orders: top.bid_orders,
            ask_orders: top.ask_orders,
        };
        sink.message(sequence, &Message::Quote(quote));
    }

    #[inline]
    fn trade<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        price: i64,
        size: u32,
        condition: u32,
        sink: &mut S,
    ) {
        self.counters.trades += 1;
        let trade = wire::Trade {
            symbol: self.config.symbol_first + u32::from(head.locate),
            source: self.config.source,
            source_time_ns: self.unix_ns(head.time),
            price,
            size,
            condition,
        };
        sink.message(sequence, &Message::Trade(trade));
    }

    fn status<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        state: TradingState,
        reason: u32,
        sink: &mut S,
    ) {
        self.counters.statuses += 1;
        let status = wire::TradingStatus {
            symbol: self.config.symbol_first + u32::from(head.locate),
            source: self.config.source,
            source_time_ns: self.unix_ns(head.time),
            state,
            reason,
        };
        sink.message(sequence, &Message::Status(status));
    }

    /// Applies a security's directory entry: its name, and an empty book if the number had
    /// another name.
    fn direct<S: Sink>(&mut self, sequence: u64, directory: &StockDirectory, sink: &mut S) {
        self.state(directory.head.locate).is_defined = true;
        let lot_size = directory.round_lot_size;
        self.name(sequence, &directory.head, directory.stock, lot_size, sink);
    }

    /// Publishes the security's definition unless that was done before.
    #[inline]
    fn define<S: Sink>(&mut self, sequence: u64, head: &Head, stock: Letters<8>, sink: &mut S) {
        let state = self.state(head.locate);
        if !std::mem::replace(&mut state.is_defined, true) {
            self.name(sequence, head, stock, 0, sink);
        }
    }

    #[cold]
    fn name<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        stock: Letters<8>,
        lot_size: u32,
        sink: &mut S,
    ) {
        self.counters.definitions += 1;
        let definition = Definition {
            symbol: self.config.symbol_first + u32::from(head.locate),
            source: self.config.source,
            source_time_ns: self.unix_ns(head.time),
            open: UNDEFINED_PRICE,
            price_tick: PRICE_UNIT_NANOS,
            lot_size,
            currency: *b"USD\0",
            name: Name::truncated(stock.as_str()),
        };
        sink.definition(sequence, &definition);
    }

    #[cold]
    fn refuse(&mut self, error: BookError) {
        let counter = match error {
            BookError::UnknownOrder => &mut self.counters.unknown_orders,
            BookError::OrdersFull | BookError::LevelsFull => &mut self.counters.refused_orders,
            _ => &mut self.counters.senseless_orders,
        };
        *counter += 1;
    }

    #[inline(always)]
    fn state(&mut self, locate: u16) -> &mut SecurityState {
        let index = usize::from(locate);
        if self.states.get(index).is_none_or(Option::is_none) {
            self.make_state(index);
        }
        match &mut self.states[index] {
            Some(state) => state,
            None => unreachable!("it was made"),
        }
    }

    #[cold]
    fn make_state(&mut self, index: usize) {
        if self.states.len() <= index {
            self.states.resize_with(index + 1, || None);
        }
        self.states[index] = Some(Box::new(SecurityState {
            sides: Sides::new(self.config.levels_max),
            is_defined: false,
        }));
    }
}

/// The bytes of the order's number in messages about an order.
const REFERENCE: std::ops::Range<usize> = 11..19;

impl Default for Books {
    fn default() -> Self {
        Self::new(BooksConfig::default())
    }
}

/// The unit of ITCH prices, 1 unit = 1e-9.
const PRICE_UNIT_NANOS: i64 = 100_000;
