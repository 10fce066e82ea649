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

    /// Waits until what is missing is given up.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_book_is_the_exchange_s_after_each_packet(seed: u64, late_definitions: bool) {
        let mut pair = Pair::new(exchange(seed, 5), true);
        if !late_definitions {
            pair.define();
        }
        for number in 0..400 {
            pair.next(BOTH);
            if number == 150 {
                pair.follow(3);
            }
            if !late_definitions {
                prop_assert_eq!(pair.compare(), 5);
            }
        }
        pair.define();
        if late_definitions {
            // A book of unknown depth needs a snapshot.
            pair.recover(0);
        }
        prop_assert_eq!(pair.compare(), 5);
        let counters = pair.receiver.channel().counters();
        prop_assert_eq!((counters.malformed, counters.unknown, counters.unknown_orders), (0, 0, 0));
        prop_assert_eq!((counters.instrument_gaps, counters.contradictions), (0, 0));
        prop_assert_eq!(counters.old, 0);
        prop_assert!(!pair.values.in_doubt && pair.values.lost == 0);
    }

    #[test]
    fn what_one_line_loses_the_other_brings(
        seed: u64,
        losses in prop::collection::vec(0..4u8, 300),
    ) {
        let mut pair = Pair::new(exchange(seed, 4), true);
        pair.define();
        pair.next(BOTH);
        let mut late: Vec<Vec<u8>> = Vec::new();
        for loss in losses {
            match loss {
                0 => pair.next(&[Side::A]),
                1 => pair.next(&[Side::B]),
                2 => {
                    // Line A loses it, and line B brings it after the next one.
                    pair.next(&[]);
                    late.push(pair.packet.clone());
                    pair.next(&[Side::A]);
                    pair.packet = late.pop().unwrap();
                    pair.send(&[Side::B]);
                }
                _ => pair.next(BOTH),
            }
            if pair.is_caught_up() {
                prop_assert_eq!(pair.compare(), 4);
            }
        }
        prop_assert_eq!(pair.values.lost, 0);
        prop_assert!(pair.receiver.counters().lost == 0 && !pair.values.in_doubt);
    }

    #[test]
    fn after_a_loss_on_both_lines_snapshots_make_every_book_right_again(
        seed: u64,
        steps in prop::collection::vec((0..20u8, 1..5usize), 150),
    ) {
        let mut pair = Pair::new(exchange(seed, 6), true);
        pair.define();
        for (step, count) in steps {
            pair.follow(4);
            match step {
                0 | 1 => (0..count).for_each(|_| pair.next(&[])),
                2 => pair.recover(count + 1),
                3 => pair.recover(0),
                4 => pair.give_up(),
                _ => (0..count).for_each(|_| pair.next(BOTH)),
            }
            if pair.is_caught_up() {
                pair.compare();
            }
            if pair.receiver.next_sequence() > 0 {
                let doubtful = pair.receiver.channel().doubtful_count();
                prop_assert_eq!(pair.values.in_doubt, doubtful > 0);
            }
        }
        // A heartbeat shows what was lost at the end.
        pair.exchange.heartbeat(&mut pair.packet);
        pair.send(BOTH);
        pair.give_up();
        pair.recover(0);
        prop_assert!(pair.is_caught_up());
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (6, false));
    }

    #[test]
    fn a_late_join_waits_for_snapshots_and_queues_what_comes_meanwhile(
        seed: u64,
        missed in 1..200usize,
    ) {
        let mut pair = Pair::new(exchange(seed, 6), true);
        (0..missed).for_each(|_| pair.next(&[]));
        pair.define();
        // The snapshots are of before the first packet that is received: they are too old, unless
        // nothing came between.
        let old = pair.exchange.clone_snapshots();
        (0..20).for_each(|_| pair.next(&[]));
        (0..30).for_each(|_| pair.next(BOTH));
        for packet in &old {
            pair.receiver.receive_snapshot(packet, &mut pair.values).unwrap();
        }
        pair.compare();
        pair.recover(0);
        (0..30).for_each(|_| pair.next(BOTH));
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (6, false));
        prop_assert_eq!(pair.values.lost, 0, "what was before the join is not lost");
    }

    #[test]
    fn resets_and_new_weeks_begin_with_empty_books(seed: u64, week: bool, first in 0..3usize) {
        let mut pair = Pair::new(exchange(seed, 3), true);
        pair.define();
        (0..100).for_each(|_| pair.next(BOTH));
        match week {
            true => pair.exchange.begin_week(),
            false => {
                pair.exchange.reset(&mut pair.packet);
                pair.send(BOTH);
                prop_assert_eq!(pair.compare(), 3);
            }
        }
        // The first packets of a week may be lost, and snapshots replace them.
        if week {
            (0..first).for_each(|_| pair.next(&[]));
        }
        (0..100).for_each(|_| pair.next(&[Side::B]));
        if week && first > 0 {
            prop_assert!(pair.values.in_doubt || pair.receiver.channel().doubtful_count() == 0);
            pair.recover(0);
        }
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (3, false));
        prop_assert_eq!(pair.receiver.counters().restarts, u64::from(week));
    }

    /// A reset ended the doubt about a trade that was lost before it; and entries that waited when
    /// a reset was lost kept every snapshot of after it away.
    #[test]
    fn a_loss_and_a_reset_leave_the_figures_in_doubt_until_a_snapshot(
        seed: u64,
        (lost, then) in (1..20usize, 0..20usize),
        waits: bool,
        is_reset_lost: bool,
    ) {
        let mut pair = Pair::new(exchange(seed, 4), true);
        pair.define();
        (0..60).for_each(|_| pair.next(BOTH));
        (0..lost).for_each(|_| pair.next(&[]));
        if waits {
            (0..5).for_each(|_| pair.next(BOTH));
            pair.give_up();
        }
        pair.exchange.reset(&mut pair.packet);
        pair.send(if is_reset_lost { &[] } else { BOTH });
        for _ in 0..then {
            pair.next(BOTH);
            if pair.is_caught_up() {
                pair.compare();
            }
        }
        pair.exchange.heartbeat(&mut pair.packet);
        pair.send(BOTH);
        pair.give_up();
        prop_assert!(pair.is_caught_up());
        pair.compare();
        pair.recover(0);
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (4, false));
        (0..20).for_each(|_| pair.next(BOTH));
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (4, false));
    }

    #[test]
    fn the_same_seed_makes_the_same_packets(seed: u64) {
        let pair = || Pair::new(exchange(seed, 3), false);
        let (mut one, mut other) = (pair(), pair());
        for _ in 0..50 {
            one.next(BOTH);
            other.next(BOTH);
            prop_assert_eq!(&one.packet, &other.packet);
        }
    }
}

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

#[test]
fn an_instrument_without_an_entry_has_no_snapshot_and_is_right_after_a_whole_loop() {
    let mut pair = Pair::new(exchange(7, 50), true);
    (0..5).for_each(|_| pair.next(&[]));
    pair.define();
    (0..5).for_each(|_| pair.next(BOTH));
    assert!(pair.values.in_doubt);
    pair.recover(2);
    assert!(pair.values.in_doubt, "half of the loop");
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (50, false));
    (0..300).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (50, false));
    // Books by order of instruments that were not in that loop wait for the next one.
    pair.recover(0);
    let channel = pair.receiver.channel();
    for instrument in pair.exchange.instruments() {
        let book = channel.order_book(instrument.security_id());
        assert!(
            book.is_none_or(OrderBook::is_live),
            "{}",
            instrument.symbol()
        );
    }
    assert_eq!(pair.compare(), 50);
}

#[test]
fn snapshots_of_right_after_the_loss_are_enough_however_late_they_come() {
    let mut pair = Pair::new(exchange(4, 3), true);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    (0..20).for_each(|_| pair.next(&[]));
    pair.exchange.heartbeat(&mut pair.packet);
    pair.send(BOTH);
    pair.give_up();
    let snapshots = pair.exchange.clone_snapshots();
    (0..50).for_each(|_| pair.next(BOTH));
    assert!(pair.values.in_doubt && pair.receiver.channel().counters().instrument_gaps == 3);
    for packet in &snapshots {
        pair.receiver
            .receive_snapshot(packet, &mut pair.values)
            .unwrap();
    }
    assert_eq!((pair.compare(), pair.values.in_doubt), (3, false));
}

#[test]
fn a_loss_that_did_not_touch_an_instrument_leaves_it_right() {
    let mut pair = Pair::new(exchange(4, 2), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    // A heartbeat is lost: no instrument's own sequence has a hole.
    pair.exchange.heartbeat(&mut pair.packet);
    pair.next(BOTH);
    pair.give_up();
    assert_eq!(pair.values.lost, 1);
    (0..50).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, true));
    assert_eq!(pair.receiver.channel().counters().instrument_gaps, 0);
    let states = TradingState::OPEN;
    assert!(pair.values.by_symbol.values().all(|v| v.state == states));
    // What was lost may have been a trading state, which has no number.
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

/// Loses a halt of all instruments, and goes on with entries that follow in their own sequences.
fn lose_a_halt() -> Pair {
    let mut pair = Pair::new(exchange(4, 2), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    let (halt, none) = (
        SecurityTradingStatus::TRADING_HALT,
        SecurityTradingEvent::NO_EVENT,
    );
    pair.exchange.status(None, halt, none, &mut pair.packet);
    pair.next(BOTH);
    pair.give_up();
    (0..50).for_each(|_| pair.next(BOTH));
    assert_eq!(pair.receiver.channel().counters().instrument_gaps, 0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, true));
    pair
}

#[test]
fn after_a_lost_halt_the_state_is_in_doubt_until_the_next_status() {
    let mut pair = lose_a_halt();
    let one = pair.exchange.instruments()[0].security_id();
    let (pre_open, none) = (
        SecurityTradingStatus::PRE_OPEN,
        SecurityTradingEvent::NO_EVENT,
    );
    for (id, in_doubt) in [(Some(one), true), (None, false)] {
        pair.exchange.status(id, pre_open, none, &mut pair.packet);
        pair.send(BOTH);
        assert_eq!(pair.values.in_doubt, in_doubt);
    }
    let states = TradingState::PRE_OPEN;
    assert!(pair.values.by_symbol.values().all(|v| v.state == states));
}

#[test]
fn after_a_lost_halt_definitions_sent_later_give_the_state() {
    let mut pair = lose_a_halt();
    let mut packets = Vec::new();
    pair.exchange
        .definitions(|packet| packets.push(packet.to_vec()));
    for (early, in_doubt) in [(true, true), (false, false)] {
        for packet in &mut packets {
            let time_ns = if early { 1u64 } else { u64::MAX - 1 };
            packet[4..12].copy_from_slice(&time_ns.to_le_bytes());
            let Pair {
                receiver, values, ..
            } = &mut pair;
            receiver.receive_definition(packet, values).unwrap();
        }
        assert_eq!(pair.values.in_doubt, in_doubt);
    }
}

#[test]
fn a_packet_that_cannot_be_decoded_is_a_lost_packet() {
    let mut pair = Pair::new(exchange(4, 2), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
    pair.next(&[]);
    let length = pair.packet.len();
    pair.packet.truncate(length - 8);
    pair.send(BOTH);
    assert!(pair.values.in_doubt);
    assert_eq!(pair.receiver.channel().counters().malformed, 1);
    (0..20).for_each(|_| pair.next(BOTH));
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

#[test]
fn an_instrument_that_is_defined_after_a_late_join_is_in_doubt_until_its_snapshot() {
    let mut pair = Pair::new(exchange(4, 2), false);
    (0..100).for_each(|_| pair.next(&[]));
    (0..5).for_each(|_| pair.next(BOTH));
    pair.values.in_doubt = false;
    pair.define();
    assert!(pair.values.in_doubt, "each definition says so");
    let records = || pair.values.by_symbol.values().map(|value| value.figures);
    assert_eq!(records().count(), 2);
    assert!(records().all(|figures| figures.unwrap().flags == Figures::IN_DOUBT));
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

#[test]
fn states_of_a_group_and_of_one_instrument_are_told() {
    let mut pair = Pair::new(exchange(1, 3), false);
    pair.define();
    pair.next(BOTH);
    let states = |pair: &Pair| {
        let values = pair.values.by_symbol.values();
        values.map(|value| value.state).collect::<Vec<_>>()
    };
    assert_eq!(states(&pair), [TradingState::OPEN; 3]);
    let (halt, none) = (
        SecurityTradingStatus::TRADING_HALT,
        SecurityTradingEvent::NO_EVENT,
    );
    pair.exchange.status(None, halt, none, &mut pair.packet);
    pair.send(BOTH);
    assert_eq!(states(&pair), [TradingState::HALTED; 3]);
    let one = pair.exchange.instruments()[1].security_id();
    let pre_open = SecurityTradingStatus::PRE_OPEN;
    pair.exchange
        .status(Some(one), pre_open, none, &mut pair.packet);
    pair.send(BOTH);
    let symbol = pair.receiver.channel().symbol_of(one).unwrap();
    assert_eq!(pair.values.by_symbol[&symbol].state, TradingState::PRE_OPEN);
    let halted = states(&pair)
        .iter()
        .filter(|&&state| state == TradingState::HALTED)
        .count();
    assert_eq!(halted, 2);
}

#[test]
fn trades_open_high_low_and_turnover_outlive_a_record() {
    let mut pair = Pair::new(exchange(2, 1), false);
    pair.define();
    while pair.values.trades < 20 {
        pair.next(BOTH);
    }
    // A snapshot after a loss that took no trade gives a record.
    // The first heartbeat is lost.
    pair.exchange.heartbeat(&mut pair.packet);
    pair.exchange.heartbeat(&mut pair.packet);
    pair.send(BOTH);
    pair.give_up();
    pair.recover(0);
    assert!(!pair.values.in_doubt);
    let figures = pair.values.by_symbol[&0].figures.unwrap();
    assert_eq!(u64::from(figures.trades), pair.values.trades);
    assert!(figures.turnover > 0, "the volume is that of the trades");
    let (open, high, low) = pair.exchange.instruments()[0].open_high_low();
    let scale = Scale::new(pair.exchange.instruments()[0].factor());
    assert_eq!(pair.values.by_symbol[&0].open, scale.nanos(open.unwrap()));
    let expected = (scale.nanos(high.unwrap()), scale.nanos(low.unwrap()));
    assert_eq!((figures.high, figures.low), expected);
}

#[test]
fn a_session_s_end_makes_the_settlement_the_reference_and_clears_the_volume() {
    let mut pair = Pair::new(exchange(2, 1), false);
    pair.define();
    (0..300).for_each(|_| pair.next(BOTH));
    assert!(pair.values.trades > 0 && pair.values.by_symbol[&0].volume > 0);
    let id = pair.exchange.instruments()[0].security_id();
    let (statistics, scale) = pair.receiver.channel().statistics(id).unwrap();
    let (open, high, low) = pair.exchange.instruments()[0].open_high_low();
    assert_eq!(
        (statistics.open, statistics.high, statistics.low),
        (open, high, low)
    );
    assert_eq!(statistics.reference, None);
    let settlement = 7_777 * 25_000_000_000;
    pair.exchange.settle(0, settlement, &mut pair.packet);
    pair.send(BOTH);
    let last = pair.values.by_symbol[&0].last;
    let (closed, roll) = (
        SecurityTradingStatus::CLOSE,
        SecurityTradingEvent::RESET_STATISTICS,
    );
    pair.exchange.status(None, closed, roll, &mut pair.packet);
    pair.send(BOTH);
    let value = pair.values.by_symbol[&0];
    assert_eq!(
        (value.volume, value.last, value.state),
        (0, last, TradingState::CLOSED)
    );
    let figures = value.figures.unwrap();
    assert_eq!(
        (figures.reference, figures.reference_kind),
        (scale.nanos(settlement), ReferenceKind::PREVIOUS_SETTLEMENT)
    );
    assert_eq!(
        (value.open, figures.high),
        (UNDEFINED_PRICE, UNDEFINED_PRICE)
    );
    (0..100).for_each(|_| pair.next(BOTH));
    assert_eq!(pair.compare(), 1);
}

#[test]
fn a_definition_gives_name_tick_currency_and_is_told_once() {
    let mut pair = Pair::new(exchange(3, 3), false);
    pair.define();
    pair.define();
    let counters = pair.receiver.channel().counters();
    assert_eq!(
        (counters.definitions, pair.values.definitions.len()),
        (3, 3)
    );
    let definition = pair.values.definitions[&0];
    assert_eq!(definition.name.as_str(), "TW0");
    assert_eq!(
        (definition.price_tick, definition.lot_size),
        (250_000_000, 1)
    );
    assert_eq!(&definition.currency, b"USD\0");
    assert_eq!(pair.receiver.channel().number(), Some(Exchange::CHANNEL));
}

#[test]
fn a_late_snapshot_of_the_old_week_is_not_taken_for_one_of_the_new_week() {
    let mut pair = Pair::new(exchange(4, 2), true);
    pair.define();
    (0..300).for_each(|_| pair.next(BOTH));
    let mut old = pair.exchange.clone_snapshots();
    pair.exchange.begin_week();
    pair.next(&[]);
    (0..5).for_each(|_| pair.next(BOTH));
    assert!(pair.values.in_doubt);
    for is_sent_later in [false, true] {
        for packet in &mut old {
            if is_sent_later {
                let time_ns = pair.packet[4..12].to_vec();
                packet[4..12].copy_from_slice(&time_ns);
            }
            let taken = pair.receiver.receive_snapshot(packet, &mut pair.values);
            taken.unwrap();
        }
        assert!(pair.values.in_doubt, "300 is ahead of the stream");
        (0..5).for_each(|_| pair.next(BOTH));
        pair.compare();
    }
    pair.recover(0);
    (0..30).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

#[test]
fn a_snapshot_that_overtakes_the_stream_is_left_to_the_next_loop() {
    let mut pair = Pair::new(exchange(4, 2), false);
    (0..50).for_each(|_| pair.next(&[]));
    pair.define();
    (0..5).for_each(|_| pair.next(BOTH));
    let mut delayed = Vec::new();
    for _ in 0..10 {
        pair.next(&[]);
        delayed.push(pair.packet.clone());
    }
    pair.recover(0);
    assert!(pair.values.in_doubt);
    for packet in delayed {
        pair.packet = packet;
        pair.send(BOTH);
    }
    assert!(pair.values.in_doubt);
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

#[test]
fn an_instrument_whose_entries_go_on_below_its_snapshot_is_in_doubt() {
    let mut pair = Pair::new(exchange(4, 1), false);
    (0..50).for_each(|_| pair.next(&[]));
    pair.define();
    (0..5).for_each(|_| pair.next(BOTH));
    // A forged one: the number of the instrument's sequence is too high.
    let number_at = 12 + 10 + 12;
    for mut packet in pair.exchange.clone_snapshots() {
        let rpt_seq = u32::from_le_bytes(packet[number_at..number_at + 4].try_into().unwrap());
        assert!((1..10_000).contains(&rpt_seq));
        packet[number_at..number_at + 4].copy_from_slice(&(rpt_seq + 9_000).to_le_bytes());
        let taken = pair.receiver.receive_snapshot(&packet, &mut pair.values);
        taken.unwrap();
    }
    assert!(!pair.values.in_doubt);
    pair.next(BOTH);
    assert!(
        pair.values.in_doubt,
        "its entries are older than the snapshot"
    );
    pair.recover(0);
    (0..30).for_each(|_| pair.next(BOTH));
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
}

#[test]
fn a_torn_event_is_not_published_as_certain() {
    let mut pair = Pair::new(exchange(4, 1), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    let mut is_torn = false;
    for _ in 0..200 {
        pair.exchange.next_packet(&mut pair.packet);
        // Without the end flags, and of one time, the event is open at the end of the packet.
        let (before, mut at) = (pair.values.by_symbol[&0], 12);
        let time = pair.packet[at + 10..at + 18].to_vec();
        while at < pair.packet.len() {
            let message = &mut pair.packet[at..];
            let size = u16::from_le_bytes([message[0], message[1]]);
            message[10..18].copy_from_slice(&time);
            message[18] &= 0x7f;
            at += usize::from(size);
        }
        pair.send(BOTH);
        pair.next(&[]);
        pair.exchange.heartbeat(&mut pair.packet);
        pair.send(BOTH);
        pair.give_up();
        let after = pair.values.by_symbol[&0];
        assert_eq!((before.bid, before.ask), (after.bid, after.ask));
        assert!(pair.values.in_doubt);
        let channel = pair.receiver.channel();
        is_torn |= channel.doubtful_count() == 1;
        pair.recover(0);
        pair.next(BOTH);
        assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    }
    assert!(is_torn);
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

/// Trades a session, loses the status that ends it, and goes on until the book is proven.
fn lose_a_reset(date: u16) -> Pair {
    let mut pair = Pair::new(exchange(2, 1), false);
    pair.define();
    send_status(&mut pair, NO_EVENT, 20_000, BOTH);
    next_until_a_trade(&mut pair);
    next_until_a_trade(&mut pair);
    assert!(figures(&pair).0 > 0);
    send_status(&mut pair, RESET, date, &[]);
    pair.exchange.heartbeat(&mut pair.packet);
    pair.send(BOTH);
    pair.give_up();
    assert!(pair.values.in_doubt);
    pair
}

#[test]
fn after_a_lost_reset_of_statistics_the_snapshot_begins_the_session_once() {
    for date in [20_001, 20_000] {
        let mut pair = lose_a_reset(date);
        recover_with_date(&mut pair, date);
        let (volume, trades, open, day) = figures(&pair);
        assert_eq!((volume, trades, open), (0, 0, UNDEFINED_PRICE), "{date}");
        let expected = if date == 20_001 {
            20_241_005
        } else {
            20_241_004
        };
        assert_eq!((day, pair.values.in_doubt), (expected, false));
        next_until_a_trade(&mut pair);
        let before = figures(&pair);
        assert!(before.0 > 0 && before.1 > 0);
        send_status(&mut pair, NO_EVENT, date, BOTH);
        assert_eq!(figures(&pair), before);
        assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    }
}

#[test]
fn a_proven_book_takes_the_session_s_figures_from_the_snapshot() {
    let mut pair = lose_a_reset(20_001);
    // The next entry proves the book; its session is unknown.
    pair.next(BOTH);
    assert!(pair.values.in_doubt);
    assert_eq!(pair.receiver.channel().counters().instrument_gaps, 0);
    recover_with_date(&mut pair, 20_001);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    assert_eq!(figures(&pair).3, 20_241_005);
}

#[test]
fn a_status_of_the_next_day_does_not_wipe_trades_that_came_before_it() {
    let mut pair = lose_a_reset(20_001);
    let before = pair.values.trades;
    while pair.values.trades == before {
        pair.next(BOTH);
    }
    send_status(&mut pair, NO_EVENT, 20_001, BOTH);
    assert!(pair.values.in_doubt, "the volume is of either session");
    recover_with_date(&mut pair, 20_001);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    assert!(figures(&pair).0 > 0);
}

#[test]
fn statuses_of_a_group_hold_for_an_instrument_that_is_defined_later() {
    let mut pair = Pair::new(exchange(2, 1), false);
    send_status(&mut pair, NO_EVENT, 20_000, BOTH);
    (0..200).for_each(|_| pair.next(BOTH));
    let (halt, id) = (
        SecurityTradingStatus::TRADING_HALT,
        pair.exchange.instruments()[0].security_id(),
    );
    let ready = SecurityTradingStatus::READY_TO_TRADE;
    pair.exchange
        .status(Some(id), ready, NO_EVENT, &mut pair.packet);
    pair.send(BOTH);
    assert!(pair.receiver.channel().statistics(id).unwrap().0.volume > 0);
    pair.exchange.status(None, halt, RESET, &mut pair.packet);
    set_trade_date(&mut pair.packet, 20_001);
    pair.send(BOTH);
    pair.define();
    let value = pair.values.by_symbol[&0];
    assert_eq!((value.volume, value.state), (0, TradingState::HALTED));
    assert_eq!(figures(&pair), (0, 0, UNDEFINED_PRICE, 20_241_005));
}

#[test]
fn trades_on_both_sides_of_a_reset_before_the_definition_need_a_snapshot() {
    let mut pair = Pair::new(exchange(2, 1), false);
    send_status(&mut pair, NO_EVENT, 20_000, BOTH);
    (0..200).for_each(|_| pair.next(BOTH));
    send_status(&mut pair, RESET, 20_001, BOTH);
    (0..200).for_each(|_| pair.next(BOTH));
    pair.define();
    assert!(pair.values.in_doubt);
    recover_with_date(&mut pair, 20_001);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    assert_eq!(pair.values.by_symbol[&0].state, TradingState::OPEN);
}

#[test]
fn the_turnover_of_trades_before_the_definition_is_in_traders_prices() {
    let mut pair = Pair::new(exchange(2, 1), false);
    (0..300).for_each(|_| pair.next(BOTH));
    pair.define();
    // A book of unknown depth may need a snapshot.
    pair.recover(0);
    let value = pair.values.by_symbol[&0];
    let figures = value.figures.unwrap();
    assert!(value.volume > 0 && figures.trades > 0);
    let average = (figures.turnover / i128::from(value.volume)) as i64;
    assert!((figures.low..=figures.high).contains(&average), "{average}");
}

#[test]
fn a_snapshot_that_no_book_can_have_is_not_taken() {
    let mut pair = Pair::new(exchange(4, 1), false);
    (0..300).for_each(|_| pair.next(&[]));
    pair.define();
    (0..5).for_each(|_| pair.next(BOTH));
    let snapshot = pair.exchange.clone_snapshots().swap_remove(0);
    // The entries of 22 bytes: price, size, orders, level at byte 16, and kind at byte 21.
    let entries = 12 + 10 + 59 + 3;
    let is_second = |entry: &[u8]| (entry[16], entry[21]) == (2, b'0');
    let at = snapshot[entries..].chunks(22).position(is_second).unwrap() * 22 + entries;
    let [mut gap, mut disorder] = [snapshot.clone(), snapshot.clone()];
    gap[at + 21] = b'w';
    disorder[at..at + 8].copy_from_slice(&(i64::MAX - 1).to_le_bytes());
    for (number, packet) in (1..).zip([gap, disorder]) {
        let taken = pair.receiver.receive_snapshot(&packet, &mut pair.values);
        taken.unwrap();
        assert!(pair.values.in_doubt);
        let counters = pair.receiver.channel().counters();
        assert_eq!(counters.contradictions, number);
    }
    pair.recover(0);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
}

#[test]
fn a_book_is_certain_again_at_the_end_of_the_event_that_proves_it() {
    let mut pair = Pair::new(exchange(4, 1), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    let template_id = |packet: &[u8]| u16::from_le_bytes([packet[16], packet[17]]);
    pair.exchange.next_packet(&mut pair.packet);
    while template_id(&pair.packet) != 46 {
        pair.send(BOTH);
        pair.exchange.next_packet(&mut pair.packet);
    }
    // A heartbeat is lost before it.
    let sequence = u32::from_le_bytes(pair.packet[..4].try_into().unwrap()) + 1;
    pair.packet[..4].copy_from_slice(&sequence.to_le_bytes());
    let before = pair.values.by_symbol[&0];
    let size = usize::from(u16::from_le_bytes([pair.packet[12], pair.packet[13]]));
    // Only its first message, without the end of the event.
    pair.packet.truncate(12 + size);
    pair.packet[12 + 10 + 8] &= 0x7f;
    pair.send(BOTH);
    pair.give_up();
    assert!(pair.values.in_doubt);
    let after = pair.values.by_symbol[&0];
    assert_eq!((before.bid, before.ask), (after.bid, after.ask));
    assert_eq!(pair.receiver.channel().doubtful_count(), 1);
}

#[test]
fn two_forged_packets_of_the_past_do_not_end_the_channel() {
    let mut pair = Pair::new(exchange(4, 2), false);
    pair.define();
    (0..100).for_each(|_| pair.next(BOTH));
    let genuine = pair.packet.clone();
    for sequence in [5u32, 6] {
        // A heartbeat of next century.
        let mut forged = sequence.to_le_bytes().to_vec();
        forged.extend(4_000_000_000_000_000_000u64.to_le_bytes());
        forged.extend([10, 0, 0, 0, 12, 0, 1, 0, 9, 0]);
        pair.packet = forged;
        pair.send(&[Side::A]);
    }
    pair.packet = genuine;
    assert!(pair.values.in_doubt);
    for _ in 0..30 {
        pair.now_ns += 100_000_000;
        pair.next(BOTH);
        pair.recover(0);
        pair.compare();
    }
    assert!(pair.is_caught_up());
    assert_eq!((pair.compare(), pair.values.in_doubt), (2, false));
}

#[test]
fn figures_of_before_a_lost_channel_reset_do_not_outlive_the_snapshot() {
    let mut pair = Pair::new(exchange(2, 1), false);
    pair.define();
    send_status(&mut pair, NO_EVENT, 20_000, BOTH);
    (0..100).for_each(|_| pair.next(BOTH));
    assert!(pair.values.trades > 0);
    // The reset is lost, and the end of the session.
    pair.exchange.reset(&mut pair.packet);
    send_status(&mut pair, RESET, 20_001, &[]);
    (0..3).for_each(|_| pair.next(&[]));
    pair.exchange.heartbeat(&mut pair.packet);
    pair.send(BOTH);
    pair.give_up();
    recover_with_date(&mut pair, 20_001);
    assert_eq!((pair.compare(), pair.values.in_doubt), (1, false));
    let (open, high, low) = pair.exchange.instruments()[0].open_high_low();
    let scale = Scale::new(pair.exchange.instruments()[0].factor());
    let value = pair.values.by_symbol[&0];
    let figures = value.figures.unwrap();
    let expected = [open, high, low].map(|price| price.map_or(UNDEFINED_PRICE, |p| scale.nanos(p)));
    assert_eq!([value.open, figures.high, figures.low], expected);
}
