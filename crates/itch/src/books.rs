//! All books of a day: messages in; quotes, trades, statuses and definitions out; in one pass.

mod ahead;
mod depth;
mod orders;
mod securities;
mod trading;

use super::file::date_of_midnight;
use super::message::{MessageError, sized};
use super::{
    AddAttributedOrder, AddOrder, AuctionCollar, CrossTrade, DayTime, Head, IpoQuotation, Letters,
    OperationalHalt, OrderCancel, OrderDelete, OrderExecuted, OrderExecutedAtPrice, OrderReplace,
    Price, ShortSaleRestriction, StockDirectory, SystemEvent, Trade, TradingAction,
};
use ahead::Ahead;
use orders::DayOrders;
use securities::Securities;
use tidewire_book::{Order, Sides};
use tidewire_feed::client::Sink;
use tidewire_feed::wire::{self, Definition, Message, Name, Quote, SessionStart, UNDEFINED_PRICE};
use tidewire_feed::wire::{AGGRESSOR_BUY, AGGRESSOR_SELL, CROSS, NOT_SHOWN};
use trading::TradingStates;

/// Settings of the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BooksConfig {
    /// Maximum price levels per side of a security's book: 512 bytes for those near the best
    /// price, 24 bytes for each of the others.
    pub levels_max: usize,
    /// Maximum orders of all books together: 16 bytes each, in a table that is 1/4 to 1/2 full.
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
    /// Session starts published.
    pub sessions: u64,
    /// Messages of a known type with a wrong length, and empty messages.
    pub malformed: u64,
    /// Executions, cancels, deletes and replaces of orders that are not in the book, because
    /// earlier messages were lost or not received.
    pub unknown_orders: u64,
    /// Orders left out because a book was full.
    pub refused_orders: u64,
    /// Orders without a side, without shares, or with the number of another order in the book;
    /// executions and cancels of no shares, or of more than the order has.
    pub senseless_orders: u64,
}

impl Counters {
    /// Returns the number of messages of all types, malformed ones included.
    pub fn messages(&self) -> u64 {
        self.kinds.iter().sum::<u64>() + self.malformed
    }

    /// Returns the number of messages that could not be applied, so that a book is wrong or shows
    /// to be.
    pub fn faults(&self) -> u64 {
        self.malformed + self.unknown_orders + self.refused_orders + self.senseless_orders
    }
}

/// How much of the books' work stays near the best prices and in one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locality {
    /// Changes of levels outside of the windows around the best prices.
    pub far_changes: u64,
    /// Orders of all books.
    pub orders: usize,
    /// Those that are in the cache line where their search begins.
    pub orders_at_home: usize,
    /// Size of the table of orders.
    pub order_table_bytes: usize,
}

/// The books of all securities of one exchange and day.
///
/// The symbol number in the output is the security's locate code plus
/// [`BooksConfig::symbol_first`]. A security is defined by its directory entry or, if that was
/// missed, by the first message with its symbol.
#[derive(Debug)]
pub struct Books {
    config: BooksConfig,
    securities: Securities,
    /// Orders of all books; their numbers are unique within a day.
    orders: DayOrders,
    trading: TradingStates,
    /// Securities whose price levels are given too.
    followed: depth::Followed,
    counters: Counters,
    ahead: Ahead,
    ended: bool,
}

impl Books {
    /// Creates an empty set of books.
    pub fn new(config: BooksConfig) -> Self {
        Self {
            config,
            securities: Securities::new(config.levels_max),
            orders: DayOrders::new(config.orders_max),
            followed: depth::Followed::default(),
            counters: Counters {
                kinds: Box::new([0; 256]),
                quotes: 0,
                trades: 0,
                statuses: 0,
                definitions: 0,
                sessions: 0,
                malformed: 0,
                unknown_orders: 0,
                refused_orders: 0,
                senseless_orders: 0,
            },
            trading: TradingStates::default(),
            ahead: Ahead::default(),
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

    /// Sets the day: the midnight from which the messages' times count, nanoseconds since the UNIX
    /// epoch.
    pub fn set_midnight(&mut self, midnight_unix_ns: u64) {
        self.config.midnight_unix_ns = midnight_unix_ns;
    }

    /// Removes all orders and names, as at the start of another session. The counters stay. Each
    /// security begins a session with its next definition.
    pub fn clear(&mut self) {
        self.securities.clear();
        self.orders.clear();
        self.followed = depth::Followed::default();
        self.trading.clear();
        self.ended = false;
    }

    /// Returns the book of a security, if there was a message about it.
    pub fn book(&self, locate: u16) -> Option<&Sides> {
        self.securities.book(locate)
    }

    /// Returns how local the work was, in time proportional to the tables.
    pub fn locality(&self) -> Locality {
        let locates = 0..=u16::MAX;
        let books = locates.filter_map(|locate| self.book(locate));
        Locality {
            far_changes: books.map(Sides::far_changes).sum(),
            orders: self.orders.len(),
            orders_at_home: self.orders.len_at_home(),
            order_table_bytes: self.orders.table_bytes(),
        }
    }

    /// Returns the number of orders of all books.
    pub fn order_count(&self) -> usize {
        self.orders.len()
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
                self.reduce(sequence, &delete.head, delete.reference, None, sink);
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
                    Some(cancel.shares),
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
                    self.reduce(sequence, &executed.head, reference, Some(shares), sink);
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
            TradingAction::KIND => self.act(sequence, message, sink)?,
            OperationalHalt::KIND => self.halt(sequence, message, sink)?,
            AuctionCollar::KIND => self.collar(sequence, message, sink)?,
            IpoQuotation::KIND => self.quotation(sequence, message, sink)?,
            ShortSaleRestriction::KIND => self.restrict(sequence, message, sink)?,
            SystemEvent::KIND => self.system_event(sequence, message, sink)?,
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
            _ => return self.refuse(Fault::Senseless),
        };
        if add.shares == 0 {
            return self.refuse(Fault::Senseless);
        }
        let order = Order {
            price: add.price.nanos(),
            size: add.shares,
            book: add.head.locate,
            is_bid,
        };
        self.define(sequence, &add.head, add.stock, sink);
        match self.insert(add.reference, order) {
            Ok(()) => {
                self.show(sequence, &add.head, is_bid, sink);
                self.show_levels(sequence, &add.head, &[(is_bid, order.price)], sink);
            }
            Err(fault) => self.refuse(fault),
        }
    }

    #[inline]
    fn reduce<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        reference: u64,
        shares: Option<u32>,
        sink: &mut S,
    ) {
        match self.take(head.locate, reference, shares) {
            Ok(taken) => {
                self.show(sequence, head, taken.is_bid, sink);
                self.show_levels(sequence, head, &[(taken.is_bid, taken.price)], sink);
            }
            Err(fault) => self.refuse(fault),
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
        let taken = match self.take(head.locate, reference, Some(shares)) {
            Ok(taken) => taken,
            Err(fault) => return self.refuse(fault),
        };
        let price = price.map_or(taken.price, Price::nanos);
        let aggressor = if taken.is_bid {
            AGGRESSOR_SELL
        } else {
            AGGRESSOR_BUY
        };
        self.trade(sequence, head, price, shares, aggressor, sink);
        self.show(sequence, head, taken.is_bid, sink);
        self.show_levels(sequence, head, &[(taken.is_bid, taken.price)], sink);
    }

    #[inline]
    fn replace<S: Sink>(&mut self, sequence: u64, replace: &OrderReplace, sink: &mut S) {
        let locate = replace.head.locate;
        if replace.shares == 0 || replace.reference == replace.original {
            return self.refuse(Fault::Senseless);
        }
        let gone = match self.take(locate, replace.original, None) {
            Ok(gone) => gone,
            Err(fault) => return self.refuse(fault),
        };
        let order = Order {
            price: replace.price.nanos(),
            size: replace.shares,
            book: locate,
            is_bid: gone.is_bid,
        };
        if let Err(fault) = self.insert(replace.reference, order) {
            self.refuse(fault);
            if fault == Fault::Senseless {
                return self.put_back(replace.original, gone);
            }
        }
        self.show(sequence, &replace.head, gone.is_bid, sink);
        // The new order may have the same price.
        let places = [(gone.is_bid, gone.price), (order.is_bid, order.price)];
        let first = usize::from(places[0] == places[1]);
        self.show_levels(sequence, &replace.head, &places[first..], sink);
    }

    #[inline]
    fn insert(&mut self, reference: u64, order: Order) -> Result<(), Fault> {
        if self.orders.is_full() {
            return Err(Fault::Full);
        }
        let added = self.securities.sides_mut(order.book).add(order);
        added.map_err(|_| Fault::Full)?;
        match self.orders.insert(reference, order) {
            None => Ok(()),
            Some(known) => Err(self.take_back(reference, order, known)),
        }
    }

    /// Takes back an order whose number is that of a `known` one.
    #[cold]
    fn take_back(&mut self, reference: u64, order: Order, known: Order) -> Fault {
        let added = self.orders.insert(reference, known);
        debug_assert_eq!(added, Some(order), "it was inserted before");
        self.securities.sides_mut(order.book).remove(order, true);
        self.securities.unsettle(order.book);
        Fault::Senseless
    }

    /// Puts back an order that a replacement has taken, which cannot be applied.
    #[cold]
    fn put_back(&mut self, reference: u64, order: Order) {
        let replaced = self.orders.insert(reference, order);
        debug_assert!(replaced.is_none(), "it was taken before");
        let added = self.securities.sides_mut(order.book).add(order);
        debug_assert!(added.is_ok(), "its level was there before");
        self.securities.unsettle(order.book);
    }

    /// Takes `shares`, or all of them, from an order of this security.
    #[inline]
    fn take(&mut self, locate: u16, reference: u64, shares: Option<u32>) -> Result<Order, Fault> {
        let wanted = shares.unwrap_or(u32::MAX);
        let taken = self.orders.reduce(locate, reference, wanted);
        let (taken, gone) = taken.ok_or(Fault::UnknownOrder)?;
        if shares.is_some() && (taken.size != wanted || wanted == 0) {
            return Err(self.restore(reference, taken, gone));
        }
        self.securities.sides_mut(locate).remove(taken, gone);
        Ok(taken)
    }

    /// Restores an order of which more was to be taken than it has, or nothing.
    #[cold]
    fn restore(&mut self, reference: u64, order: Order, is_gone: bool) -> Fault {
        if is_gone {
            let replaced = self.orders.insert(reference, order);
            debug_assert!(replaced.is_none(), "it was taken before");
        }
        Fault::Senseless
    }

    /// Publishes the top of the book if the change of one side changed it.
    #[inline]
    fn show<S: Sink>(&mut self, sequence: u64, head: &Head, is_bid: bool, sink: &mut S) {
        let is_settled = self.securities.settle(head.locate);
        let sides = self.securities.sides_mut(head.locate);
        let changed = match is_settled {
            true => sides.end_event_of(is_bid),
            false => sides.end_event(),
        };
        if !changed {
            return;
        }
        let top = sides.published();
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

    /// Applies a security's directory entry: its name, and an empty book if the number had
    /// another name.
    fn direct<S: Sink>(&mut self, sequence: u64, directory: &StockDirectory, sink: &mut S) {
        let was_defined = self.securities.define(directory.head.locate);
        let lot_size = directory.round_lot_size;
        self.name(sequence, &directory.head, directory.stock, lot_size, sink);
        if !was_defined {
            self.begin_session(sequence, &directory.head, sink);
            self.publish_state_of_hours(sequence, &directory.head, sink);
        }
    }

    /// Publishes the security's definition, session and state unless that was done before.
    #[inline]
    fn define<S: Sink>(&mut self, sequence: u64, head: &Head, stock: Letters<8>, sink: &mut S) {
        if !self.securities.define(head.locate) {
            self.name(sequence, head, stock, 0, sink);
            self.begin_session(sequence, head, sink);
            self.publish_state_of_hours(sequence, head, sink);
        }
    }

    /// Does the same for a message that gives the state itself.
    fn define_without_state<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        stock: Letters<8>,
        sink: &mut S,
    ) {
        if !self.securities.define(head.locate) {
            self.name(sequence, head, stock, 0, sink);
            self.begin_session(sequence, head, sink);
        }
    }

    /// Begins the session of a security that is new in this day: volume, trades, open, high and
    /// low begin again. ITCH gives no close of the day before.
    #[cold]
    fn begin_session<S: Sink>(&mut self, sequence: u64, head: &Head, sink: &mut S) {
        let start = SessionStart {
            symbol: self.config.symbol_first + u32::from(head.locate),
            source: self.config.source,
            source_time_ns: self.unix_ns(head.time),
            trading_day: trading_day(self.config.midnight_unix_ns),
            rolls: 1,
            ..SessionStart::default()
        };
        self.counters.sessions += 1;
        sink.message(sequence, &Message::SessionStart(start));
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
            repeats: false,
        };
        sink.definition(sequence, &definition);
    }

    #[cold]
    fn refuse(&mut self, fault: Fault) {
        let counter = match fault {
            Fault::UnknownOrder => &mut self.counters.unknown_orders,
            Fault::Full => &mut self.counters.refused_orders,
            Fault::Senseless => &mut self.counters.senseless_orders,
        };
        *counter += 1;
    }
}

/// Why a message cannot be applied. The books are as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    UnknownOrder,
    /// The book has as many orders or levels as it may.
    Full,
    /// No right book can have it.
    Senseless,
}

impl Default for Books {
    fn default() -> Self {
        Self::new(BooksConfig::default())
    }
}

/// Returns the day that begins at a midnight, as `YYYYMMDD`; 0 for the epoch, which is no day.
fn trading_day(midnight_unix_ns: u64) -> u32 {
    match midnight_unix_ns {
        0 => 0,
        midnight => date_of_midnight(midnight),
    }
}

/// The unit of ITCH prices, 1 unit = 1e-9.
const PRICE_UNIT_NANOS: i64 = 100_000;
