//! Topics whose values are followed without records: a continuous symbol may come to stand for one,
//! or another topic may continue its trades.
//!
//! What they are is then known as of the client's position. The board has what is newest, which in
//! a replay is the future.

use tidewire_dbn::UNDEFINED_TIME;
use tidewire_dbn::databento::Schema;
use tidewire_feed::wire::{LastValue, Message, Quote, Trade, UNDEFINED_PRICE};

use super::super::intervals::BBO;
use super::derived::BARS;
use super::values::{Stamp, prices_in, trade_event};
use super::{PRICED, Stream, quote_of};
use crate::market::Market;

impl Stream {
    /// Takes a message about a topic that is `watched` for these schemas.
    pub(super) fn watch(&mut self, market: &Market, message: &Message, watched: u16, stamp: Stamp) {
        self.follow_value(message, watched, stamp);
        match message {
            Message::Trade(trade) if watched & BARS != 0 => {
                self.add_to_bars(market, trade, watched, stamp);
            }
            // Live, the current book is taken when it is wanted.
            Message::Level(level) if watched & Schema::Mbp10.bit() != 0 && self.is_replaying() => {
                if !self.depth.follows(stamp.number)
                    && let Some(topic) = market.board.topic(stamp.number)
                {
                    self.depth.follow_from_start(&market.books, &topic);
                    self.note_refused();
                }
                self.depth.apply(level, stamp.sequence);
            }
            _ => {}
        }
    }

    /// Takes the prices and the last trade from a message about a topic that is followed for these
    /// schemas.
    pub(super) fn follow_value(&mut self, message: &Message, schemas: u16, stamp: Stamp) {
        match message {
            Message::Quote(quote) => self.follow_quote(quote, schemas),
            Message::Trade(trade) => self.follow_trade(trade, schemas, stamp),
            Message::Status(status) => {
                let _ = self.note_state(stamp.number, status.state, schemas);
            }
            Message::LastValue(value) => {
                self.follow_quote(&quote_of(value), schemas);
                self.follow_last(value, schemas, stamp);
                let _ = self.note_state(stamp.number, value.state, schemas);
            }
            _ => {}
        }
    }

    fn follow_quote(&mut self, quote: &Quote, schemas: u16) {
        if schemas & PRICED != 0
            && let Some(prices) = self.prices_of(quote.symbol)
        {
            *prices = prices_in(quote);
        }
    }

    /// Takes the last trade for intervals.
    pub(super) fn follow_trade(&mut self, trade: &Trade, schemas: u16, stamp: Stamp) {
        if schemas & BBO != 0 && trade.price != UNDEFINED_PRICE {
            self.intervals
                .trade(stamp.number, trade_event(trade, stamp));
        }
    }

    /// Takes the last trade of a whole value for intervals. Its time is undefined, unless it is the
    /// trade that is known.
    pub(super) fn follow_last(&mut self, value: &LastValue, schemas: u16, stamp: Stamp) {
        if schemas & BBO == 0 {
            return;
        }
        let event = trade_event(&trade_of(value), stamp);
        self.intervals.last_of_value(stamp.number, event);
    }
}

/// Returns the last trade of a value, whose time it does not give.
fn trade_of(value: &LastValue) -> Trade {
    Trade {
        symbol: value.symbol,
        source: value.source,
        source_time_ns: UNDEFINED_TIME,
        price: value.last,
        size: value.last_size,
        condition: value.figures.map_or(0, |figures| figures.condition),
    }
}
