//! A receiver beside the exchange itself: lines that lose, late joins, late snapshots, resets.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidewire_feed::client::{Gap, Side, Sink};
use tidewire_feed::wire::{
    Definition, Figures, LastValue, Level, Message, ReferenceKind, TradingState, UNDEFINED_PRICE,
};
use tidewire_mdp::schema::{SecurityTradingEvent, SecurityTradingStatus};
use tidewire_mdp::{
    ArbiterConfig, ChannelConfig, Exchange, ExchangeConfig, OrderBook, PriceLevel, Receiver, Scale,
    SimulatedInstrument,
};

mod damage;
mod model;
mod random;
mod sessions;
mod snapshots;
mod state;
mod truth;

/// Size and orders by price.
type Totals = BTreeMap<i64, (u32, u32)>;

/// What a subscriber knows of the ticks.
#[derive(Default)]
struct Values {
    by_symbol: BTreeMap<u32, LastValue>,
    definitions: BTreeMap<u32, Definition>,
    /// Whether values may be wrong.
    in_doubt: bool,
    lost: u64,
    trades: u64,
    /// Sizes and orders by price, asks and bids, of the books that are known.
    books: BTreeMap<u32, [Totals; 2]>,
    /// An event's levels have not ended.
    is_open: bool,
}

impl Values {
    fn level(&mut self, level: &Level) {
        self.is_open = level.is_last == 0;
        match level.action {
            Level::CLEAR => drop(self.books.insert(level.symbol, Default::default())),
            Level::END => drop(self.books.remove(&level.symbol)),
            _ => {
                let book = self.books.get_mut(&level.symbol);
                let book = book.expect("a book begins with a clear");
                let side = &mut book[usize::from(level.side == Level::BID)];
                if level.size == 0 {
                    assert!(
                        side.remove(&level.price).is_some(),
                        "a level that was given"
                    );
                } else {
                    side.insert(level.price, (level.size, level.orders));
                }
            }
        }
    }
}

impl Sink for Values {
    fn message(&mut self, sequence: u64, message: &Message) {
        let symbol = message.symbol().expect("every tick has a symbol");
        if let Message::Level(level) = message {
            return self.level(level);
        }
        assert!(
            self.definitions.contains_key(&symbol),
            "a tick before its definition"
        );
        let value = self
            .by_symbol
            .entry(symbol)
            .or_insert(LastValue::new(symbol));
        // One packet has several ticks of a symbol.
        value.sequence = sequence.saturating_sub(1).min(value.sequence);
        assert!(value.apply(sequence.max(1), message));
        self.trades += u64::from(matches!(message, Message::Trade(_)));
    }

    fn definition(&mut self, _sequence: u64, definition: &Definition) {
        self.definitions.insert(definition.symbol, *definition);
    }

    fn snapshot_record(&mut self, _as_of: u64, record: &LastValue) {
        assert!(self.definitions.contains_key(&record.symbol));
        let flags = record.figures.map_or(0, |figures| figures.flags);
        self.in_doubt |= flags & Figures::IN_DOUBT != 0;
        self.by_symbol.insert(record.symbol, *record);
    }

    fn values_doubtful(&mut self) {
        self.in_doubt = true;
    }

    fn values_right(&mut self) {
        assert!(self.in_doubt);
        self.in_doubt = false;
    }

    fn gap(&mut self, gap: Gap) {
        if let Gap::Lost { count, .. } = gap {
            self.lost += count;
            // As the hub does: each book is known again from its next clear on.
            self.books.clear();
        }
    }
}

struct Pair {
    exchange: Exchange,
    receiver: Receiver,
    values: Values,
    now_ns: u64,
    packet: Vec<u8>,
}

impl Pair {
    fn new(config: ExchangeConfig, order_books: bool) -> Self {
        let channel = ChannelConfig {
            order_books,
            ..ChannelConfig::default()
        };
        Self {
            exchange: Exchange::new(config),
            receiver: Receiver::new(ArbiterConfig::default(), channel),
            values: Values::default(),
            now_ns: 1,
            packet: Vec::new(),
        }
    }

    /// Makes the next packet, for the lines that do not lose it.
    fn next(&mut self, lines: &[Side]) {
        self.exchange.next_packet(&mut self.packet);
        self.send(lines);
    }

    fn send(&mut self, lines: &[Side]) {
        self.now_ns += 1_000_000;
        let Self {
            receiver,
            values,
            now_ns,
            packet,
            ..
        } = self;
        for &side in lines {
            receiver.receive(side, packet, *now_ns, values).unwrap();
        }
        receiver.handle_timeout(*now_ns, values);
    }

    fn define(&mut self) {
        let Self {
            exchange,
            receiver,
            values,
            ..
        } = self;
        exchange.definitions(|packet| receiver.receive_definition(packet, values).unwrap());
    }

    /// Sends a loop of both recovery feeds; each `lose`-th packet is lost.
    fn recover(&mut self, lose: usize) {
        let Self {
            exchange,
            receiver,
            values,
            ..
        } = self;
        let mut number = 0;
        let mut take = |packet: &[u8]| {
            number += 1;
            if lose == 0 || number % lose != 0 {
                receiver.receive_snapshot(packet, values).unwrap();
            }
        };
        exchange.snapshots(&mut take);
        exchange.order_snapshots(&mut take);
    }

    /// Waits until what is missing is given up, also before the first packet.
    fn give_up(&mut self) {
        self.now_ns += 1_000_000_000;
        let Self {
            receiver,
            values,
            now_ns,
            ..
        } = self;
        receiver.handle_timeout(*now_ns, values);
    }

    fn is_caught_up(&self) -> bool {
        self.receiver.next_sequence() == u64::from(self.exchange.sequence()) + 1
    }

    /// Compares every book that is right with the exchange's orders. Returns how many are right.
    fn compare(&self) -> usize {
        let instruments = self.exchange.instruments().iter();
        instruments
            .filter(|instrument| self.compare_one(instrument))
            .count()
    }

    fn compare_one(&self, instrument: &SimulatedInstrument) -> bool {
        let (channel, id) = (self.receiver.channel(), instrument.security_id());
        let Some(bids) = channel.levels(id, true) else {
            return false;
        };
        for (is_bid, levels) in [(true, bids), (false, channel.levels(id, false).unwrap())] {
            let mut expected = instrument.levels(is_bid);
            expected.truncate(self.exchange.depth());
            assert_eq!(levels, expected, "{} {is_bid}", instrument.symbol());
            let implied = channel.implied_levels(id, is_bid).unwrap();
            assert_eq!(implied, instrument.implied_levels(is_bid));
        }
        self.compare_orders(instrument);
        let symbol = channel.symbol_of(id).unwrap();
        self.compare_given_levels(instrument, symbol);
        let Some(value) = self.values.by_symbol.get(&symbol) else {
            assert_eq!(top(instrument, true).price, UNDEFINED_PRICE);
            return true;
        };
        let scale = Scale::new(instrument.factor());
        let (bid, ask) = (top(instrument, true), top(instrument, false));
        assert_eq!(
            (value.bid, value.ask),
            (scale.nanos(bid.price), scale.nanos(ask.price))
        );
        assert_eq!((value.bid_size, value.ask_size), (bid.size, ask.size));
        assert_eq!(
            (value.bid_orders, value.ask_orders),
            (bid.orders, ask.orders)
        );
        let (last, size) = instrument.last().unwrap_or((UNDEFINED_PRICE, 0));
        assert_eq!((value.last, value.last_size), (scale.nanos(last), size));
        assert_eq!(value.volume, instrument.volume());
        true
    }

    /// Compares the levels that a follower was given with the real and implied ones together.
    fn compare_given_levels(&self, instrument: &SimulatedInstrument, symbol: u32) {
        assert!(!self.values.is_open, "an event has an end");
        let Some(book) = self.values.books.get(&symbol) else {
            let is_followed = self.receiver.channel().followed_count() > symbol as usize;
            return assert!(
                !is_followed,
                "{} is right, and not given",
                instrument.symbol()
            );
        };
        let scale = Scale::new(instrument.factor());
        for (is_bid, given) in [(false, &book[0]), (true, &book[1])] {
            let mut real = instrument.levels(is_bid);
            real.truncate(self.exchange.depth());
            let mut expected = Totals::new();
            for level in real.iter().chain(instrument.implied_levels(is_bid)) {
                let total = expected.entry(scale.nanos(level.price)).or_default();
                *total = (total.0 + level.size, total.1 + level.orders);
            }
            while expected.len() > self.exchange.depth() {
                match is_bid {
                    true => expected.pop_first(),
                    false => expected.pop_last(),
                };
            }
            assert_eq!(given, &expected, "{} {is_bid}", instrument.symbol());
        }
    }

    /// Follows the levels of the first `count` instruments.
    fn follow(&mut self, count: u32) {
        for symbol in 0..count {
            self.receiver.follow(symbol, true, &mut self.values);
        }
    }

    fn compare_orders(&self, instrument: &SimulatedInstrument) {
        let book = self.receiver.channel().order_book(instrument.security_id());
        let Some(book) = book.filter(|book| book.is_live()) else {
            return;
        };
        let levels = |is_bid| instrument.levels(is_bid);
        let (bids, asks) = (levels(true), levels(false));
        assert_eq!(book.sides().level_counts(), (bids.len(), asks.len()));
        let orders = bids
            .iter()
            .chain(&asks)
            .map(|level| level.orders as usize)
            .sum::<usize>();
        assert_eq!(book.order_count(), orders);
        let mut sides = book.sides().clone();
        for (is_bid, all) in [(true, bids), (false, asks)] {
            let best = sides.levels(is_bid).best();
            let expected = all.first().copied().unwrap_or(PriceLevel::NONE);
            assert_eq!((best.price, best.orders), (expected.price, expected.orders));
            assert_eq!(best.size, u64::from(expected.size));
        }
    }
}

/// Returns the best level of a side, of real and implied orders.
fn top(instrument: &SimulatedInstrument, is_bid: bool) -> PriceLevel {
    let mut all = instrument.levels(is_bid);
    all.extend(instrument.implied_levels(is_bid));
    let prices = all.iter().map(|level| level.price);
    let best = if is_bid { prices.max() } else { prices.min() };
    let Some(price) = best else {
        return PriceLevel::NONE;
    };
    let at_best = all.iter().filter(|level| level.price == price);
    PriceLevel {
        price,
        size: at_best.clone().map(|level| level.size).sum(),
        orders: at_best.map(|level| level.orders).sum(),
    }
}

fn exchange(seed: u64, instruments: u32) -> ExchangeConfig {
    ExchangeConfig {
        seed,
        instruments,
        depth: [10, 5, 3, 1][seed as usize % 4],
        ..ExchangeConfig::default()
    }
}

const BOTH: &[Side] = &Side::ALL;

/// Access to feeds of the moment.
trait Snapshots {
    fn clone_snapshots(&self) -> Vec<Vec<u8>>;
}

impl Snapshots for Exchange {
    fn clone_snapshots(&self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        self.snapshots(|packet| packets.push(packet.to_vec()));
        self.order_snapshots(|packet| packets.push(packet.to_vec()));
        packets
    }
}

/// Sets the trade date of a status (template 30), or of a snapshot (52), which begins its packet.
fn set_trade_date(packet: &mut [u8], date: u16) {
    let template_id = u16::from_le_bytes([packet[16], packet[17]]);
    let at = 12 + 10 + if template_id == 30 { 24 } else { 32 };
    packet[at..at + 2].copy_from_slice(&date.to_le_bytes());
}

fn figures(pair: &Pair) -> (u64, u32, i64, u32) {
    let value = pair.values.by_symbol[&0];
    let figures = value.figures.unwrap();
    (
        value.volume,
        figures.trades,
        value.open,
        figures.trading_day,
    )
}

/// Sends a loop of snapshots with this trade date.
fn recover_with_date(pair: &mut Pair, date: u16) {
    for mut packet in pair.exchange.clone_snapshots() {
        set_trade_date(&mut packet, date);
        let taken = pair.receiver.receive_snapshot(&packet, &mut pair.values);
        taken.unwrap();
    }
}

/// Sends a status of all instruments with this trade date.
fn send_status(pair: &mut Pair, event: SecurityTradingEvent, date: u16, lines: &[Side]) {
    let status = SecurityTradingStatus::READY_TO_TRADE;
    pair.exchange.status(None, status, event, &mut pair.packet);
    set_trade_date(&mut pair.packet, date);
    pair.send(lines);
}

fn next_until_a_trade(pair: &mut Pair) {
    let before = pair.values.trades;
    while pair.values.trades == before {
        pair.next(BOTH);
    }
}

const NO_EVENT: SecurityTradingEvent = SecurityTradingEvent::NO_EVENT;

const RESET: SecurityTradingEvent = SecurityTradingEvent::RESET_STATISTICS;
