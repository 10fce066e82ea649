//! Records made of the hub's own messages: quotes, trades and intervals.

use std::sync::atomic::Ordering;

use tidewire_dbn::databento::{Event, Schema, system_code};
use tidewire_dbn::{BidAsk, UNDEFINED_TIME, action, flag, side};
use tidewire_feed::server::Board;
use tidewire_feed::wire::{
    AGGRESSOR_BUY, AGGRESSOR_SELL, LastValue, Quote, Trade, UNDEFINED_PRICE,
};

use super::super::intervals::{BBO, Changed};
use super::super::selection::instrument_id;
use super::derived::BARS;
use super::settling::SLICE_TOPICS;
use super::{PRICED, Stream, quote_of};
use crate::market::Market;
use crate::topic::Topic;
use crate::venues::CONSOLIDATED;

impl Stream {
    pub(super) fn tell_quote(
        &mut self,
        quote: &Quote,
        reached: u16,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let now = prices_in(quote);
        let Some(prices) = self.prices_of(stamp.number) else {
            return 0;
        };
        let before = std::mem::replace(prices, now);
        self.intervals.note(reached, stamp.number, quote.source);
        if reached & Schema::Mbp1.bit() == 0 {
            return 0;
        }
        let bid = |prices: &BidAsk| (prices.bid, prices.bid_size, prices.bid_orders);
        let ask = |prices: &BidAsk| (prices.ask, prices.ask_size, prices.ask_orders);
        let is_same = (bid(&before) == bid(&now), ask(&before) == ask(&now));
        let (side, price, size) = match is_same {
            (false, true) => (side::BID, now.bid, now.bid_size),
            (true, false) => (side::ASK, now.ask, now.ask_size),
            _ => (side::NONE, UNDEFINED_PRICE, 0),
        };
        let event = Event {
            price,
            size,
            side,
            action: action::MODIFY,
            flags: flag::TOP_OF_BOOK,
            ..stamp.event(quote.source_time_ns, quote.source)
        };
        self.writer(out, unix_ns).best_prices(&event, &now);
        1
    }

    /// Takes a whole value, which repeats what has happened. It is a quote only if the client has
    /// another one: one that was lost, or that ends with a session.
    pub(super) fn tell_value(
        &mut self,
        value: &LastValue,
        reached: u16,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let quote = quote_of(value);
        // In a replay, a value of before an interval has not changed in it, as where a venue gets
        // a topic of its own. A live interval has the hub's time.
        let reached = match stamp.ts_recv {
            Some(_) => reached,
            None => self.intervals.at(reached, value.source_time_ns),
        };
        let prices = self.prices_of(stamp.number).map(|prices| *prices);
        match prices {
            Some(prices) if prices != prices_in(&quote) => {
                self.tell_quote(&quote, reached, stamp, unix_ns, out)
            }
            _ => 0,
        }
    }

    pub(super) fn tell_trade(
        &mut self,
        market: &Market,
        trade: &Trade,
        reached: u16,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let event = trade_event(trade, stamp);
        self.intervals.note(reached, stamp.number, trade.source);
        if reached & BARS != 0 {
            self.add_to_bars(market, trade, reached, stamp);
        }
        let prices = self.prices_of(stamp.number).map(|prices| *prices);
        let prices = prices.unwrap_or(BidAsk::EMPTY);
        let mut writer = self.writer(out, unix_ns);
        let mut records = 0;
        if reached & Schema::Trades.bit() != 0 {
            writer.trade(&event);
            records += 1;
        }
        if reached & (Schema::Mbp1.bit() | Schema::Tbbo.bit()) != 0 {
            let flags = flag::TOP_OF_BOOK;
            writer.best_prices(&Event { flags, ..event }, &prices);
            records += 1;
        }
        if reached & Schema::Mbp10.bit() != 0
            && let Some(levels) = self.depth.levels_at(stamp.number, stamp.sequence)
        {
            self.writer(out, unix_ns).depth(&event, 0, &levels);
            records += 1;
        }
        records
    }

    /// Returns the prices of a topic, if a subscription needs them.
    pub(super) fn prices_of(&mut self, number: u32) -> Option<&mut BidAsk> {
        if !self.selection.wants(PRICED) {
            return None;
        }
        Some(self.prices.get_or(number, BidAsk::EMPTY))
    }

    /// Takes the current prices, and the last trade for intervals, of one topic that is followed
    /// from now on, each unless the sequence `before` or a later one may have changed it.
    pub(super) fn take_prices_of(&mut self, market: &Market, number: u32, before: u64) {
        let Some(value) = Board::last_value(&*market.board, number as usize) else {
            return;
        };
        if value.sequence < before
            && let Some(prices) = self.prices_of(number)
        {
            *prices = prices_in(&quote_of(&value));
        }
        let chosen = self.selection.of(number);
        if (chosen.schemas | chosen.watched) & BBO != 0
            && value.last != UNDEFINED_PRICE
            && let Some(topic) = market.board.topic(number)
        {
            let traded = last_trade(&topic, &value);
            // It is of the value above if no other has come meanwhile.
            if topic.last_trade_sequence() < before {
                self.intervals.trade(number, traded);
            }
        }
    }

    /// Returns whether an interval with changes has ended by `now_ns`. It is then sent before
    /// anything else.
    pub(super) fn begins_interval(&mut self, now_ns: u64) -> bool {
        self.selection.wants(BBO) && self.intervals.turn(now_ns)
    }

    /// Sends the intervals that have ended, while there is room.
    pub(super) fn tell_intervals(
        &mut self,
        market: &Market,
        unix_ns: u64,
        out: &mut Vec<u8>,
        end: usize,
    ) {
        let (mut records, mut left) = (0, SLICE_TOPICS);
        while out.len() < end
            && left > 0
            && let Some((schema, ended_ns)) = self.intervals.telling()
        {
            left -= 1;
            let Some(next) = self.intervals.take_next() else {
                let mut writer = self.writer(out, unix_ns);
                let text = format!("End of interval for {}", schema.name());
                writer.system(ended_ns, system_code::END_OF_INTERVAL, &text);
                continue;
            };
            let Some(next) = self.of_one_venue(market, next, schema) else {
                continue;
            };
            let number = next.number;
            // The topic may have been unsubscribed in the meantime.
            if self.selection.of(number).schemas & schema.bit() == 0 {
                continue;
            }
            let prices = self.prices.get(number).copied();
            let trade = self.shown_trade(market, &next, schema);
            let event = Event {
                ts_recv: ended_ns,
                flags: flag::TOP_OF_BOOK,
                publisher_id: next.publisher_id,
                ..trade.unwrap_or_else(|| Stamp::none(number).event(UNDEFINED_TIME, 0))
            };
            let prices = prices.unwrap_or(BidAsk::EMPTY);
            let is_minute = schema == Schema::Bbo1m;
            self.writer(out, unix_ns)
                .interval(&event, &prices, is_minute);
            records += 1;
        }
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
    }
}

impl Stream {
    /// Joins the changes of a venue in an interval, which comes once: those of its own topic in an
    /// earlier run of the hub, and those of its symbol, before this run knew of a second venue.
    /// Returns `None` if the other of both topics shows them.
    fn of_one_venue(
        &mut self,
        market: &Market,
        changed: Changed,
        schema: Schema,
    ) -> Option<Changed> {
        let Some(topic) = market.board.topic(changed.number) else {
            return Some(changed);
        };
        let (from, to) = match topic.parent() {
            Some(symbol) => (symbol.number, changed.number),
            None => match topic.number_of_venue(changed.publisher_id) {
                Some(to) => (changed.number, to),
                None => return Some(changed),
            },
        };
        let is_symbol = from == changed.number;
        let other = self
            .intervals
            .publisher(schema, if is_symbol { to } else { from });
        let venue = if is_symbol {
            Some(changed.publisher_id)
        } else {
            other
        };
        let is_other = other.is_none()
            || venue.is_none_or(|venue| venue == CONSOLIDATED)
            || !is_symbol && venue != Some(topic.venue());
        if is_other {
            return Some(changed);
        }
        if let Some(prices) = self.prices.get(from).copied() {
            *self.prices.get_or(to, BidAsk::EMPTY) = prices;
        }
        let venue_number = venue.unwrap_or_default();
        if self.selection.of(from).named & schema.bit() != 0 {
            // The client gets both.
            self.intervals.continue_trade((from, to), venue_number);
            return Some(Changed {
                trade: self.intervals.last_trade(changed.number),
                ..changed
            });
        }
        self.intervals.join(schema, (from, to), venue_number);
        (!is_symbol).then(|| Changed {
            publisher_id: venue.unwrap_or_default(),
            trade: self.intervals.last_trade(to),
            ..changed
        })
    }

    /// Returns the last trade that an interval shows. A symbol that had several venues before a
    /// restart of the hub may have one now: to a client that does not name it, it is that venue's.
    fn shown_trade(&self, market: &Market, changed: &Changed, schema: Schema) -> Option<Event> {
        let trade = changed.trade?;
        let is_of_others =
            trade.publisher_id == CONSOLIDATED && changed.publisher_id != CONSOLIDATED;
        if !is_of_others || self.selection.of(changed.number).named & schema.bit() != 0 {
            return Some(trade);
        }
        let topic = market.board.topic(changed.number)?;
        let venue = topic.number_of_venue(changed.publisher_id);
        let own = self.intervals.last_trade(venue?)?;
        Some(Event {
            instrument_id: trade.instrument_id,
            ..own
        })
    }
}

/// The position and times of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) number: u32,
    pub(super) sequence: u64,
    /// `None` for a message of a replay, whose time of receipt is not stored.
    pub(super) ts_recv: Option<u64>,
}

impl Stamp {
    fn none(number: u32) -> Self {
        Self {
            number,
            sequence: 0,
            ts_recv: None,
        }
    }

    pub(super) fn event(self, ts_event: u64, publisher_id: u16) -> Event {
        Event {
            instrument_id: instrument_id(self.number),
            publisher_id,
            ts_event,
            ts_recv: self.ts_recv.unwrap_or(ts_event),
            sequence: self.sequence,
            price: UNDEFINED_PRICE,
            size: 0,
            side: side::NONE,
            action: action::NONE,
            flags: 0,
        }
    }
}

/// Returns a trade as an event of DBN.
pub(super) fn trade_event(trade: &Trade, stamp: Stamp) -> Event {
    Event {
        price: trade.price,
        size: trade.size,
        side: side_of(trade.condition),
        action: action::TRADE,
        ..stamp.event(trade.source_time_ns, trade.source)
    }
}

/// Returns the last trade of a topic. Its time is undefined if the hub does not know it.
pub(super) fn last_trade(topic: &Topic, value: &LastValue) -> Event {
    let stamp = Stamp {
        number: topic.number,
        sequence: value.sequence,
        ts_recv: None,
    };
    let ts_event = topic.last_trade_ns().unwrap_or(UNDEFINED_TIME);
    Event {
        price: value.last,
        size: value.last_size,
        side: side_of(value.figures.map_or(0, |figures| figures.condition)),
        action: action::TRADE,
        ..stamp.event(ts_event, value.source)
    }
}

/// Returns the side of a trade with this condition, as DBN files were played into the hub.
fn side_of(condition: u32) -> u8 {
    match condition & (AGGRESSOR_BUY | AGGRESSOR_SELL) {
        AGGRESSOR_BUY => side::BID,
        AGGRESSOR_SELL => side::ASK,
        _ => side::NONE,
    }
}

/// Returns the prices of a quote.
pub(super) fn prices_in(quote: &Quote) -> BidAsk {
    BidAsk {
        bid: quote.bid,
        ask: quote.ask,
        bid_size: quote.bid_size,
        ask_size: quote.ask_size,
        bid_orders: quote.bid_orders,
        ask_orders: quote.ask_orders,
    }
}
