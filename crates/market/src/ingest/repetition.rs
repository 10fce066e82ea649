//! Trades that come again, as after a restart of the hub that gives them: bars have had them.
//!
//! A trade is compared with those of its own venue, because the clocks of two venues may be far
//! apart, and their sources send again one after the other. A hub that follows another one gets
//! the trades of a symbol of several venues twice: first that of the venue, then that of the
//! symbol. The second one is repeated if the first one was.

use std::sync::Arc;

use tidewire_feed::wire::{REPEATED, Trade};

use super::apply::Work;
use super::venues::numbered;
use crate::board::VENUE_SEPARATOR;
use crate::topic::Topic;
use crate::venues::CONSOLIDATED;

/// The newest trade of a source's stream that was of one venue.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewestTrade {
    /// Number of its topic.
    number: u32,
    source_time_ns: u64,
    price: i64,
    size: u32,
    is_repeated: bool,
}

impl Default for NewestTrade {
    fn default() -> Self {
        Self {
            number: u32::MAX,
            source_time_ns: 0,
            price: 0,
            size: 0,
            is_repeated: false,
        }
    }
}

impl Work<'_> {
    /// Returns whether bars have had a trade of `topic` before. Notes that trades may be missing
    /// where that is not known.
    #[inline]
    pub(super) fn is_repetition(&mut self, topic: &Arc<Topic>, trade: &Trade) -> bool {
        let is_repetition = self.find_repetition(topic, trade);
        self.is_repeated = is_repetition;
        is_repetition
    }

    #[inline]
    fn find_repetition(&mut self, topic: &Arc<Topic>, trade: &Trade) -> bool {
        let is_told = trade.condition & REPEATED != 0;
        if is_told {
            self.note_repeated(topic, trade.source_time_ns);
        }
        if trade.source == CONSOLIDATED {
            return is_told || self.is_sum_repeated(topic, trade);
        }
        let is_repeated = is_told
            || topic.has_repetitions() && self.is_venue_repeated(topic, trade.source_time_ns);
        *self.newest_trade = NewestTrade {
            number: topic.number,
            source_time_ns: trade.source_time_ns,
            price: trade.price,
            size: trade.size,
            is_repeated,
        };
        is_repeated
    }

    /// Notes a trade that the hub before this one has had before. This one may have begun since.
    #[cold]
    fn note_repeated(&mut self, topic: &Topic, source_time_ns: u64) {
        if source_time_ns > topic.newest_trade_ns() {
            self.miss_trades(topic, source_time_ns, 1);
        }
    }

    #[cold]
    fn is_venue_repeated(&mut self, topic: &Arc<Topic>, source_time_ns: u64) -> bool {
        let until_ns = topic.repeated_until_ns();
        if !topic.is_repeated(source_time_ns) {
            return false;
        }
        match self.venue_topic(topic) {
            // The symbol had several venues, and has the newest trade of all.
            Some(venue) if self.knows_repetitions(&venue) => venue.is_repeated(source_time_ns),
            _ => {
                if topic.has_other_clock() {
                    self.doubt_repetition(topic, until_ns);
                }
                true
            }
        }
    }

    /// Returns whether a topic knows which of a venue's trades are repeated. Of two publishers of
    /// one venue, each may be the one with the name `VENUE#2` in a hub's next run.
    fn knows_repetitions(&self, venue: &Topic) -> bool {
        let board = &self.market.board;
        let name = venue.definition().name;
        let has_number = || name.as_str().contains('#');
        let is_same = || !has_number() && !board.has_name(&numbered(name.as_str(), 2));
        venue.knows_repetitions() && is_same()
    }

    /// Returns the topic with the second name of a symbol of one venue: it is left from a time in
    /// which the symbol had several, here or at a hub before this one.
    fn venue_topic(&self, topic: &Topic) -> Option<Arc<Topic>> {
        let symbol = topic.definition().name;
        let venue = &topic.facts().venue_name;
        let name = format!("{}{VENUE_SEPARATOR}{venue}", symbol.as_str());
        self.market.board.named(&name)
    }

    /// Returns whether a trade of the symbol of all venues is repeated: that of its venue came
    /// just before it.
    #[inline]
    fn is_sum_repeated(&mut self, topic: &Arc<Topic>, trade: &Trade) -> bool {
        let newest = &*self.newest_trade;
        let may_repeat = newest.is_repeated || topic.has_repetitions();
        may_repeat && self.may_sum_repeat(topic, trade)
    }

    #[cold]
    fn may_sum_repeat(&mut self, topic: &Arc<Topic>, trade: &Trade) -> bool {
        let newest = *self.newest_trade;
        let is_same = (newest.source_time_ns, newest.price, newest.size)
            == (trade.source_time_ns, trade.price, trade.size);
        let venue = self.market.board.topic(newest.number);
        let venue = venue.filter(|venue| is_same && is_venue_of(venue, topic));
        if venue.is_some() && newest.is_repeated {
            return true;
        }
        let until_ns = topic.repeated_until_ns();
        if !topic.is_repeated(trade.source_time_ns) {
            return false;
        }
        if venue.is_some_and(|venue| self.knows_repetitions(&venue)) {
            return false;
        }
        // Of which venue it is, or until when that had traded, is not known.
        self.doubt_repetition(topic, until_ns);
        true
    }

    /// Tells that a trade may be missing, because it is taken for a repeated one.
    fn doubt_repetition(&mut self, topic: &Topic, until_ns: u64) {
        if topic.take_doubt_of_repetition() {
            self.tell_lost(topic, until_ns);
        }
    }
}

/// Returns whether a topic has the name of a venue of a symbol.
fn is_venue_of(venue: &Topic, symbol: &Topic) -> bool {
    let symbol = symbol.parent().map_or(symbol, |parent| parent);
    let rest = venue.symbol().strip_prefix(symbol.symbol());
    rest.is_some_and(|rest| rest.first() == Some(&(VENUE_SEPARATOR as u8)))
}
