//! One instrument of the exchange: its orders, and the updates that follow from their changes.

use super::kind;
use super::random::Random;
use crate::levels::PriceLevel;
use crate::schema::*;

/// The group of all instruments.
pub(crate) const GROUP: &[u8; 6] = b"TW\0\0\0\0";

/// An instrument with the orders of both sides.
#[derive(Clone, Debug)]
pub struct SimulatedInstrument {
    number: u32,
    middle: i64,
    tick: i64,
    factor: i64,
    rpt_seq: u32,
    /// Bids, then offers; the best level first.
    sides: [Vec<SimulatedLevel>; 2],
    implied: [Vec<PriceLevel>; 2],
    volume: u64,
    last: Option<(i64, u32)>,
    open: Option<i64>,
    high: Option<i64>,
    low: Option<i64>,
}

#[derive(Clone, Debug)]
struct SimulatedLevel {
    price: i64,
    /// Numbers and quantities, the oldest order first.
    orders: Vec<(u64, u32)>,
}

/// An order in a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SimulatedOrder {
    pub(crate) order_id: u64,
    pub(crate) price: i64,
    pub(crate) size: u32,
    pub(crate) is_bid: bool,
}

/// What one event tells.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) trades: Vec<TradeUpdate>,
    pub(crate) volume: u64,
    pub(crate) volume_rpt_seq: u32,
    pub(crate) levels: Vec<EntryUpdate>,
    /// Orders of the levels above.
    pub(crate) orders: Vec<OrderUpdate>,
    /// Orders beyond the book by price.
    pub(crate) deep_orders: Vec<OrderUpdate>,
    pub(crate) statistics: Vec<(MDEntryTypeStatistics, i64, u32)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TradeUpdate {
    pub(crate) price: i64,
    pub(crate) size: u32,
    pub(crate) aggressor: AggressorSide,
    pub(crate) rpt_seq: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryUpdate {
    pub(crate) kind: MDEntryTypeBook,
    pub(crate) action: MDUpdateAction,
    pub(crate) number: u8,
    pub(crate) level: PriceLevel,
    pub(crate) rpt_seq: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderUpdate {
    pub(crate) order_id: u64,
    pub(crate) price: i64,
    pub(crate) size: u32,
    pub(crate) is_bid: bool,
    pub(crate) action: OrderUpdateAction,
    /// Number of the level's entry, from 1.
    pub(crate) reference: u8,
}

impl Event {
    pub(crate) fn clear(&mut self) {
        self.trades.clear();
        self.levels.clear();
        self.orders.clear();
        self.deep_orders.clear();
        self.statistics.clear();
    }

    /// Numbers the entries in the instrument's own sequence, as they are sent.
    pub(crate) fn number(&mut self, instrument: &mut SimulatedInstrument) {
        for trade in &mut self.trades {
            trade.rpt_seq = instrument.next_rpt_seq();
        }
        if !self.trades.is_empty() {
            self.volume_rpt_seq = instrument.next_rpt_seq();
        }
        for level in &mut self.levels {
            level.rpt_seq = instrument.next_rpt_seq();
        }
        for (_, _, rpt_seq) in &mut self.statistics {
            *rpt_seq = instrument.next_rpt_seq();
        }
    }

    pub(crate) fn entry_count(&self) -> u64 {
        let volume = usize::from(!self.trades.is_empty());
        let book = self.levels.len() + self.orders.len() + self.deep_orders.len();
        (self.trades.len() + volume + book + self.statistics.len()) as u64
    }
}

impl SimulatedLevel {
    fn level(&self) -> PriceLevel {
        PriceLevel {
            price: self.price,
            size: self.orders.iter().map(|(_, size)| size).sum(),
            orders: self.orders.len() as u32,
        }
    }
}

impl SimulatedInstrument {
    pub(crate) fn new(number: u32, random: &mut Random) -> Self {
        let tick = [25_000_000_000, 10_000_000, 500_000_000][number as usize % 3];
        Self {
            number,
            middle: (2_000 + random.below(10_000) as i64) * tick,
            tick,
            factor: [10_000_000, 1_000_000_000, 100_000_000][number as usize % 3],
            rpt_seq: 0,
            sides: Default::default(),
            implied: Default::default(),
            volume: 0,
            last: None,
            open: None,
            high: None,
            low: None,
        }
    }

    /// Returns the exchange's number of the instrument.
    pub fn security_id(&self) -> i32 {
        100_000 + self.number as i32 * 37
    }

    /// Returns its name.
    pub fn symbol(&self) -> String {
        format!("TW{}", self.number)
    }

    /// Returns its display factor, 1 unit = 1e-9.
    pub fn factor(&self) -> i64 {
        self.factor
    }

    /// Returns the last number of its own sequence.
    pub fn rpt_seq(&self) -> u32 {
        self.rpt_seq
    }

    /// Returns all levels of a side, the best first, from the orders.
    pub fn levels(&self, is_bid: bool) -> Vec<PriceLevel> {
        self.side(is_bid)
            .iter()
            .map(SimulatedLevel::level)
            .collect()
    }

    /// Returns the levels of the implied book.
    pub fn implied_levels(&self, is_bid: bool) -> &[PriceLevel] {
        &self.implied[usize::from(!is_bid)]
    }

    /// Returns price and quantity of the last trade.
    pub fn last(&self) -> Option<(i64, u32)> {
        self.last
    }

    /// Returns the session's volume.
    pub fn volume(&self) -> u64 {
        self.volume
    }

    /// Returns open, high and low of the session.
    pub fn open_high_low(&self) -> (Option<i64>, Option<i64>, Option<i64>) {
        (self.open, self.high, self.low)
    }

    /// Returns all orders.
    pub(crate) fn orders(&self) -> Vec<SimulatedOrder> {
        let mut all = Vec::new();
        for is_bid in [true, false] {
            for level in self.side(is_bid) {
                all.extend(level.orders.iter().map(|&(order_id, size)| SimulatedOrder {
                    order_id,
                    price: level.price,
                    size,
                    is_bid,
                }));
            }
        }
        all
    }

    pub(crate) fn next_rpt_seq(&mut self) -> u32 {
        self.rpt_seq += 1;
        self.rpt_seq
    }

    pub(crate) fn reset(&mut self) {
        self.rpt_seq = 0;
        self.sides = Default::default();
        self.implied = Default::default();
    }

    pub(crate) fn end_session(&mut self) {
        self.volume = 0;
        (self.open, self.high, self.low) = (None, None, None);
    }

    fn side(&self, is_bid: bool) -> &[SimulatedLevel] {
        &self.sides[usize::from(!is_bid)]
    }

    /// Makes a random change: a new order, another quantity, a cancellation, or trades.
    pub(crate) fn step(
        &mut self,
        depth: usize,
        random: &mut Random,
        order_id: &mut u64,
        event: &mut Event,
    ) {
        let is_bid = random.below(2) == 0;
        let count = self.side(is_bid).len();
        match random.below(100) {
            _ if count < 3 => self.add(is_bid, depth, random, order_id, event),
            0..45 if count < LEVELS_MAX => self.add(is_bid, depth, random, order_id, event),
            0..65 => self.resize(is_bid, depth, random, event),
            65..88 => self.cancel(is_bid, depth, random, event),
            _ => self.execute(is_bid, depth, random, event),
        }
    }

    fn add(
        &mut self,
        is_bid: bool,
        depth: usize,
        random: &mut Random,
        order_id: &mut u64,
        event: &mut Event,
    ) {
        let sign = if is_bid { 1 } else { -1 };
        let best = self.side(is_bid).first().map(|level| level.price);
        let start = best.unwrap_or(self.middle - sign * self.tick);
        // Mostly near the best price, sometimes better, sometimes deep in the book.
        let ticks = match random.below(10) {
            0 => -1,
            1..=7 => random.below(4) as i64,
            _ => random.below(16) as i64,
        };
        let mut price = start - sign * ticks * self.tick;
        if let Some(other) = self.side(!is_bid).first() {
            let limit = other.price - sign * self.tick;
            price = if is_bid {
                price.min(limit)
            } else {
                price.max(limit)
            };
        }
        *order_id += 1;
        let (id, size) = (*order_id, 1 + random.below(50) as u32);
        let side = &mut self.sides[usize::from(!is_bid)];
        let place = side
            .iter()
            .position(|level| (price - level.price) * sign >= 0);
        let at = place.unwrap_or(side.len());
        let action = match side.get_mut(at).filter(|level| level.price == price) {
            Some(level) => {
                level.orders.push((id, size));
                MDUpdateAction::CHANGE
            }
            None => {
                let orders = vec![(id, size)];
                side.insert(at, SimulatedLevel { price, orders });
                MDUpdateAction::NEW
            }
        };
        let order = (id, price, size, OrderUpdateAction::NEW);
        self.tell(is_bid, at, action, order, depth, event);
    }

    fn resize(&mut self, is_bid: bool, depth: usize, random: &mut Random, event: &mut Event) {
        let side = &mut self.sides[usize::from(!is_bid)];
        let at = random.below(side.len() as u64) as usize;
        let level = &mut side[at];
        let place = random.below(level.orders.len() as u64) as usize;
        let size = 1 + random.below(50) as u32;
        level.orders[place].1 = size;
        let order = (
            level.orders[place].0,
            level.price,
            size,
            OrderUpdateAction::UPDATE,
        );
        self.tell(is_bid, at, MDUpdateAction::CHANGE, order, depth, event);
    }

    fn cancel(&mut self, is_bid: bool, depth: usize, random: &mut Random, event: &mut Event) {
        let count = self.side(is_bid).len() as u64;
        let at = random.below(count) as usize;
        let orders = self.side(is_bid)[at].orders.len() as u64;
        let place = random.below(orders) as usize;
        self.take(is_bid, at, place, u32::MAX, depth, event);
    }

    /// Removes up to `size` of an order. Returns what was taken.
    fn take(
        &mut self,
        is_bid: bool,
        at: usize,
        place: usize,
        size: u32,
        depth: usize,
        event: &mut Event,
    ) -> u32 {
        let side = &mut self.sides[usize::from(!is_bid)];
        let level = &mut side[at];
        let (price, (id, left)) = (level.price, level.orders[place]);
        if left > size {
            level.orders[place].1 = left - size;
            let order = (id, price, left - size, OrderUpdateAction::UPDATE);
            self.tell(is_bid, at, MDUpdateAction::CHANGE, order, depth, event);
            return size;
        }
        level.orders.remove(place);
        let order = (id, price, 0, OrderUpdateAction::DELETE);
        if !level.orders.is_empty() {
            self.tell(is_bid, at, MDUpdateAction::CHANGE, order, depth, event);
            return left;
        }
        let gone = PriceLevel {
            price,
            size: 0,
            orders: 0,
        };
        side.remove(at);
        self.tell_level(is_bid, at, MDUpdateAction::DELETE, gone, depth, event);
        self.tell_order(is_bid, at, order, depth, event);
        // The level that the removal brings into the book by price.
        if at < depth
            && let Some(entering) = self.side(is_bid).get(depth - 1).map(SimulatedLevel::level)
        {
            self.tell_level(
                is_bid,
                depth - 1,
                MDUpdateAction::NEW,
                entering,
                depth,
                event,
            );
        }
        left
    }

    /// Trades against the best orders of a side.
    fn execute(&mut self, is_bid: bool, depth: usize, random: &mut Random, event: &mut Event) {
        let mut left = 1 + random.below(80) as u32;
        let aggressor = match is_bid {
            true => AggressorSide::SELL,
            false => AggressorSide::BUY,
        };
        while left > 0 && self.side(is_bid).len() > 1 && event.levels.len() < 8 {
            let price = self.side(is_bid)[0].price;
            let taken = self.take(is_bid, 0, 0, left, depth, event);
            left -= taken;
            self.volume += u64::from(taken);
            match event.trades.last_mut().filter(|trade| trade.price == price) {
                Some(trade) => trade.size += taken,
                None => event.trades.push(TradeUpdate {
                    price,
                    size: taken,
                    aggressor,
                    rpt_seq: 0,
                }),
            }
            let size = event.trades.last().map_or(0, |trade| trade.size);
            self.last = Some((price, size));
            self.tell_statistics(price, event);
        }
        event.volume = self.volume;
    }

    fn tell_statistics(&mut self, price: i64, event: &mut Event) {
        let statistics = &mut event.statistics;
        if self.open.is_none() {
            self.open = Some(price);
            statistics.push((MDEntryTypeStatistics::OPEN_PRICE, price, 0));
        }
        if self.high.is_none_or(|high| price > high) {
            self.high = Some(price);
            statistics.push((MDEntryTypeStatistics::HIGH_TRADE, price, 0));
        }
        if self.low.is_none_or(|low| price < low) {
            self.low = Some(price);
            statistics.push((MDEntryTypeStatistics::LOW_TRADE, price, 0));
        }
    }

    /// Tells a change of the level at index `at`, and of the order that made it.
    fn tell(
        &self,
        is_bid: bool,
        at: usize,
        action: MDUpdateAction,
        order: (u64, i64, u32, OrderUpdateAction),
        depth: usize,
        event: &mut Event,
    ) {
        let level = self.side(is_bid)[at].level();
        self.tell_level(is_bid, at, action, level, depth, event);
        self.tell_order(is_bid, at, order, depth, event);
    }

    fn tell_level(
        &self,
        is_bid: bool,
        at: usize,
        action: MDUpdateAction,
        level: PriceLevel,
        depth: usize,
        event: &mut Event,
    ) {
        if at < depth {
            event.levels.push(EntryUpdate {
                kind: kind(is_bid),
                action,
                number: at as u8 + 1,
                level,
                rpt_seq: 0,
            });
        }
    }

    fn tell_order(
        &self,
        is_bid: bool,
        at: usize,
        (order_id, price, size, action): (u64, i64, u32, OrderUpdateAction),
        depth: usize,
        event: &mut Event,
    ) {
        let update = OrderUpdate {
            order_id,
            price,
            size,
            is_bid,
            action,
            reference: event.levels.len() as u8,
        };
        match at < depth {
            true => event.orders.push(update),
            false => event.deep_orders.push(update),
        }
    }

    /// Makes a random change of the implied book.
    pub(crate) fn change_implied(&mut self, random: &mut Random, event: &mut Event) {
        let is_bid = random.below(2) == 0;
        let sign = if is_bid { 1 } else { -1 };
        let start = self
            .side(is_bid)
            .first()
            .map_or(self.middle, |level| level.price);
        let side = &mut self.implied[usize::from(!is_bid)];
        let size = 1 + random.below(30) as u32;
        let (action, at) = match (side.len(), random.below(3)) {
            (0, _) | (1, 0) => (MDUpdateAction::NEW, 0),
            (len, 1) => (MDUpdateAction::DELETE, random.below(len as u64) as usize),
            (len, _) => (MDUpdateAction::CHANGE, random.below(len as u64) as usize),
        };
        let price = match (action, side.first()) {
            (MDUpdateAction::NEW, Some(first)) => first.price + sign * self.tick,
            (MDUpdateAction::NEW, None) => start,
            _ => side[at].price,
        };
        let level = PriceLevel {
            price,
            size,
            orders: 0,
        };
        match action {
            MDUpdateAction::NEW => side.insert(at, level),
            MDUpdateAction::DELETE => drop(side.remove(at)),
            _ => side[at] = level,
        }
        let kind = match is_bid {
            true => MDEntryTypeBook::IMPLIED_BID,
            false => MDEntryTypeBook::IMPLIED_OFFER,
        };
        event.levels.push(EntryUpdate {
            kind,
            action,
            number: at as u8 + 1,
            level,
            rpt_seq: 0,
        });
    }

    pub(crate) fn write_snapshot(
        &self,
        depth: usize,
        message: &mut SnapshotFullRefresh52Writer<'_>,
    ) {
        let mut group = message.md_entries();
        let mut write = |kind: u8, level: &PriceLevel, number: usize| {
            let mut entry = group.add();
            entry
                .md_entry_px(level.price)
                .md_entry_size(level.size as i32);
            if level.orders > 0 {
                entry.number_of_orders(level.orders as i32);
            }
            if number > 0 {
                entry.md_price_level(number as i8);
            }
            entry.md_entry_type(MDEntryType(kind));
        };
        for (is_bid, real, implied) in [(true, b'0', b'E'), (false, b'1', b'F')] {
            for (number, level) in (1..).zip(self.levels(is_bid).iter().take(depth)) {
                write(real, level, number);
            }
            for (number, level) in (1..).zip(self.implied_levels(is_bid)) {
                write(implied, level, number);
            }
        }
        let price = |price: i64, size: u32| PriceLevel {
            price,
            size,
            orders: 0,
        };
        if let Some((last, size)) = self.last {
            write(b'2', &price(last, size), 0);
        }
        for (kind, value) in [(b'4', self.open), (b'7', self.high), (b'8', self.low)] {
            if let Some(value) = value {
                write(kind, &price(value, 0), 0);
            }
        }
        write(b'e', &price(i64::MAX, self.volume as u32), 0);
    }

    pub(crate) fn write_definition(&self, total: u32, depths: (u8, u8), out: &mut Vec<u8>) {
        let mut message = MDInstrumentDefinitionFuture54::encode(out);
        message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
        message
            .tot_num_reports(total)
            .security_update_action(SecurityUpdateAction::ADD);
        message.md_security_trading_status(SecurityTradingStatus::READY_TO_TRADE);
        message
            .appl_id(super::Exchange::CHANNEL)
            .security_exchange(*b"XCME");
        message.security_group(*GROUP).asset(*b"TW\0\0\0\0");
        let mut symbol = [0; 20];
        let name = self.symbol();
        symbol[..name.len()].copy_from_slice(name.as_bytes());
        message.symbol(symbol).security_id(self.security_id());
        message
            .security_type(*b"FUT\0\0\0")
            .cfi_code(*b"FFCXSX")
            .currency(*b"USD");
        message.min_trade_vol(1).min_price_increment(self.tick);
        message.display_factor(self.factor);
        message.md_feed_types_after_events(depths);
    }
}

impl MDInstrumentDefinitionFuture54Writer<'_> {
    /// Appends the groups of a definition: the depths of both books, and nothing else.
    fn md_feed_types_after_events(&mut self, (real, implied): (u8, u8)) {
        self.events();
        let mut feeds = self.md_feed_types();
        let mut feed = feeds.add();
        feed.md_feed_type(*b"GBX").market_depth(real as i8);
        if implied > 0 {
            let mut feed = feeds.add();
            feed.md_feed_type(*b"GBI").market_depth(implied as i8);
        }
        self.inst_attrib();
        self.lot_type_rules();
    }
}

/// Levels of a side at most.
const LEVELS_MAX: usize = 16;
