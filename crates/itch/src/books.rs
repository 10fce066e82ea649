//! All books of a day: messages in, quotes, trades, statuses and definitions out, in one pass.

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

/// What books are set up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BooksConfig {
    /// Most price levels of each side of a security's book, 24 bytes each.
    pub levels_max: usize,
    /// Most orders of all books together: 24 bytes each, in a table that is three eighths to three
    /// quarters full.
    pub orders_max: usize,
    /// When the day began, ns since the UNIX epoch: what the times of messages are added to.
    pub midnight_unix_ns: u64,
    /// `source` of what is given out.
    pub source: u16,
    /// What is added to locate codes to make symbol numbers.
    pub symbol_first: u32,
}

impl Default for BooksConfig {
    /// 65,536 levels a side, 16 million orders, the first of January 1970, source 0.
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

/// What became of the messages; every field only grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Messages by type byte.
    pub kinds: Box<[u64; 256]>,
    /// Quotes given out.
    pub quotes: u64,
    /// Trades given out.
    pub trades: u64,
    /// Statuses given out.
    pub statuses: u64,
    /// Definitions given out.
    pub definitions: u64,
    /// Messages of a known type and a wrong length, and empty ones.
    pub malformed: u64,
    /// Executions, cancels, deletes and replaces of orders that are not in the book: what came
    /// before was lost, or not listened to.
    pub unknown_orders: u64,
    /// Orders left out because a book is full.
    pub refused_orders: u64,
    /// Orders without a side or price.
    pub senseless_orders: u64,
}

impl Counters {
    /// Messages of all types, malformed ones included.
    pub fn messages(&self) -> u64 {
        self.kinds.iter().sum::<u64>() + self.malformed
    }
}

/// The books of all securities of one exchange and day.
///
/// The symbol number of what is given out is the security's locate code, moved by
/// [`BooksConfig::symbol_first`]. A security is defined
/// by its directory entry; if that was missed, by the first message that carries its symbol.
#[derive(Debug)]
pub struct Books {
    config: BooksConfig,
    /// By locate code.
    states: Vec<Option<Box<State>>>,
    /// Of all books: their numbers are unique within a day.
    orders: Orders,
    counters: Counters,
    ended: bool,
}

/// On cache lines of its own: one a side, and one of what is asked of each message.
#[derive(Debug)]
#[repr(align(64))]
struct State {
    sides: Sides,
    is_defined: bool,
}

impl Books {
    /// None yet.
    pub fn new(config: BooksConfig) -> Self {
        Self {
            config,
            states: Vec::new(),
            orders: Orders::new(config.orders_max),
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

    /// Applies one message, without its length in front, and gives `sink` what it means:
    /// a trade first, then the top of the book if it is another one now. `sequence` goes with
    /// both. A message that makes no sense is counted and changes nothing.
    #[inline]
    pub fn apply<S: Sink>(&mut self, sequence: u64, message: &[u8], sink: &mut S) {
        if self.try_apply(sequence, message, sink).is_err() {
            self.counters.malformed += 1;
        } else if let Some(&kind) = message.first() {
            self.counters.kinds[usize::from(kind)] += 1;
        }
    }

    /// What became of the messages so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the exchange has said that no more messages follow.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Forgets all orders and names, as at the beginning of another session. The counters stay.
    pub fn clear(&mut self) {
        self.states.clear();
        self.orders.clear();
        self.ended = false;
    }

    /// The book of a security, if anything was said of it.
    pub fn book(&self, locate: u16) -> Option<&Sides> {
        Some(&self.states.get(usize::from(locate))?.as_ref()?.sides)
    }

    /// Orders of all books.
    pub fn order_count(&self) -> usize {
        self.orders.len()
    }

    /// Begins to fetch what the next messages will look for, so that their cache misses overlap:
    /// `frames` are messages behind their lengths, as a packet and a file have them. Of them the
    /// first [`AHEAD`] are looked at, orders and books first, then what books and `sink` keep of
    /// their symbols: each step's addresses have come with the one before.
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

    /// Fetches the orders that messages are about, and where their books are; the books' numbers.
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

    /// When a message was made, ns since the UNIX epoch.
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
                // The other markets are not what this book shows.
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
                // Understood, and neither order nor trade nor status; its length is looked at.
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
            Ok(()) => self.show(sequence, &add.head, sink),
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
            Ok(_) => self.show(sequence, head, sink),
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
    }

    #[inline]
    fn insert(&mut self, reference: u64, order: Order) -> Result<(), BookError> {
        if self.orders.is_full() {
            return Err(BookError::OrdersFull);
        }
        self.state(order.book).sides.add(order)?;
        if let Some(replaced) = self.orders.insert(reference, order) {
            self.state(replaced.book).sides.remove(replaced, true);
        }
        Ok(())
    }

    /// Takes up to so many shares from an order of this security.
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

    /// Gives out the top of the book if it is another one now.
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

    /// A security's entry: its name, and a book that begins anew if the number had another one.
    fn direct<S: Sink>(&mut self, sequence: u64, directory: &StockDirectory, sink: &mut S) {
        self.state(directory.head.locate).is_defined = true;
        let lot_size = directory.round_lot_size;
        self.name(sequence, &directory.head, directory.stock, lot_size, sink);
    }

    /// Gives out the security's name if nothing did so before.
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
    fn state(&mut self, locate: u16) -> &mut State {
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
        self.states[index] = Some(Box::new(State {
            sides: Sides::new(self.config.levels_max),
            is_defined: false,
        }));
    }
}

/// Where the number of an order stands in messages that are about one.
const REFERENCE: std::ops::Range<usize> = 11..19;

impl Default for Books {
    fn default() -> Self {
        Self::new(BooksConfig::default())
    }
}

/// What prices are multiples of, 1 unit = 1e-9.
const PRICE_UNIT_NANOS: i64 = 100_000;
