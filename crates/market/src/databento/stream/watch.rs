//! Topics whose values are followed without records: a continuous symbol may come to stand for one,
//! or another topic may continue its trades.
//!
//! What they are is then known as of the client's position. The board has what is newest, which in
//! a replay is the future.

use tidewire_dbn::databento::Schema;
use tidewire_feed::wire::{Message, Quote};

use super::super::intervals::BBO;
use super::derived::BARS;
use super::values::{Stamp, prices_in, trade_event};
use super::{PRICED, Stream, quote_of};
use crate::market::Market;

impl Stream {
    /// Takes a message about a topic that is `watched` for these schemas.
    pub(super) fn watch(&mut self, market: &Market, message: &Message, watched: u16, stamp: Stamp) {
        match message {
            Message::Quote(quote) => self.watch_quote(quote, watched),
            Message::LastValue(value) => self.watch_quote(&quote_of(value), watched),
            Message::Trade(trade) => {
                if watched & BBO != 0 {
                    self.intervals
                        .trade(stamp.number, trade_event(trade, stamp));
                }
                if watched & BARS != 0 {
                    self.add_to_bars(trade, watched, stamp);
                }
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

    fn watch_quote(&mut self, quote: &Quote, watched: u16) {
        if watched & PRICED != 0
            && let Some(prices) = self.prices_of(quote.symbol)
        {
            *prices = prices_in(quote);
        }
    }
}
