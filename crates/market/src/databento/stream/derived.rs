//! Records computed from levels and trades: `mbp-10` and `ohlcv`.

use std::sync::atomic::Ordering;

use tidewire_dbn::databento::{BAR_TYPES, Event, Schema, error_code};
use tidewire_dbn::flag;
use tidewire_feed::journal::Journal;
use tidewire_feed::wire::{LastValue, Level, Message, Trade, UNDEFINED_PRICE};
use tidewire_lastvalue::PRICE_UNDEFINED;

use super::super::bars::LIVE_NS;
use super::super::intervals::BBO;
use super::super::missed::Missed;
use super::super::selection::Chosen;
use super::Stream;
use super::opening::BOOK_TOPICS;
use super::settling::SLICE_TOPICS;
use super::values::Stamp;
use crate::bars::{Interval, traded_until_ns};
use crate::board::VENUE_SEPARATOR;
use crate::market::Market;
use crate::topic::{Member, Topic};
use crate::venues::CONSOLIDATED;

impl Stream {
    /// Follows a topic's book from its current state on, or from the replay's start, if `schemas`
    /// has `mbp-10`.
    pub(super) fn follow_book(
        &mut self,
        market: &Market,
        journal: &Journal,
        topic: &Topic,
        chosen: Chosen,
        schemas: u16,
    ) {
        if schemas & Schema::Mbp10.bit() == 0 {
            return;
        }
        let is_followed = self.depth.follows(topic.number);
        if self.is_refresh || !is_followed && chosen.replayed & Schema::Mbp10.bit() == 0 {
            let until = journal.next_sequence().saturating_sub(1);
            self.depth.follow(&market.books, topic, until);
        } else if !is_followed {
            self.depth.follow_from_start(&market.books, topic);
        }
        self.note_refused();
    }

    /// Follows the book of a topic whose first definition has just been read. Where it continues
    /// the book of its symbol, all levels follow.
    pub(super) fn follow_new_book(&mut self, market: &Market, topic: &Topic) {
        let schemas = self.selection.of(topic.number).schemas;
        if schemas & Schema::Mbp10.bit() != 0 && !self.depth.follows(topic.number) {
            self.depth.follow_from_start(&market.books, topic);
            self.note_refused();
        }
    }

    /// Follows the book of a topic that a continuous symbol stands for after this message. In a
    /// replay its current book is one of the future. Bars that have ended by `time_ns` are not
    /// sent.
    pub(super) fn roll_derived(
        &mut self,
        market: &Market,
        topic: &Topic,
        stamp: Stamp,
        time_ns: u64,
    ) {
        let schemas = self.selection.of(topic.number).schemas;
        if schemas & Schema::Mbp10.bit() != 0 {
            if stamp.ts_recv.is_some() {
                self.depth.follow(&market.books, topic, stamp.sequence);
            } else if !self.depth.follows(topic.number) {
                self.depth.follow_from_start(&market.books, topic);
            }
            self.note_refused();
        }
        self.bars.show_from(topic.number, time_ns);
    }

    /// Continues the open bars, the last trade and the changes of a symbol under the topic of its
    /// first venue, if this is its definition, at which `venue` gets a topic of its own.
    pub(super) fn split(&mut self, market: &Market, topic: &Topic, venue: u16) {
        if !self.selection.wants(BARS | BBO) {
            return;
        }
        match topic.parent() {
            Some(symbol) => self.split_from(symbol, topic, venue),
            None => {
                if let Some(symbol) = symbol_of_venue(market, topic) {
                    let venues = self.upstream_venues.entry(symbol).or_default();
                    venues.insert(topic.number, venue);
                }
            }
        }
    }

    /// Does the same for the venues that a hub before this one has given topics of their own, at
    /// `message`, which may be the first consolidated one of their symbol.
    pub(super) fn split_upstream(&mut self, market: &Market, message: &Message) {
        if self.upstream_venues.is_empty() || message.source() != CONSOLIDATED {
            return;
        }
        let number = message.symbol().unwrap_or(u32::MAX);
        let Some(venues) = self.upstream_venues.remove(&number) else {
            return;
        };
        for (to, venue) in venues {
            if let (Some(symbol), Some(topic)) =
                (market.board.topic(number), market.board.topic(to))
            {
                self.split_from(&symbol, &topic, venue);
            }
        }
    }

    fn split_from(&mut self, symbol: &Topic, topic: &Topic, venue: u16) {
        let (from, to) = (symbol.number, topic.number);
        let chosen = self.selection.of(from);
        let is_kept = |schema: Schema| chosen.named & schema.bit() != 0;
        if self.selection.wants(BBO) {
            let moves = self.selection.of(to).schemas & !chosen.named;
            let moves = match topic.parent() {
                Some(_) => moves,
                None => self.intervals.of_publisher(moves, from, venue),
            };
            self.intervals.split((from, to), venue, moves);
        }
        if self.selection.wants(BARS) {
            let is_first = |members: &[Member]| {
                let first = members.first();
                first.is_some_and(|first| first.topic.number == to)
            };
            if symbol.with_members(is_first) {
                self.bars.take_missed(from, to);
            }
            let keeps = |interval: Interval| is_kept(Schema::BARS[interval as usize]);
            self.bars.split((from, to), venue, keeps);
        }
    }

    /// Notes the trades of a whole value of a topic that the client has had none of, as where a hub
    /// before this one has given a venue a topic of its own.
    pub(super) fn note_trades_of_value(
        &mut self,
        market: &Market,
        value: &LastValue,
        stamp: Stamp,
    ) {
        let chosen = self.selection.of(stamp.number);
        let has_traded = value.last != UNDEFINED_PRICE || value.volume > 0;
        if (chosen.schemas | chosen.watched) & BARS == 0
            || !has_traded
            || self.bars.knows(stamp.number)
        {
            return;
        }
        if let Some(topic) = market.board.topic(stamp.number)
            && let Some(symbol) = symbol_of_venue(market, &topic)
        {
            // The newest change may be a late trade.
            self.bars.take_missed(symbol, stamp.number);
        }
        let time_ns = value.source_time_ns;
        let missed = Missed::new(time_ns, time_ns);
        self.bars.note_missed(stamp.number, missed);
    }

    /// After a replay, takes the current state of some of those books whose start it did not have.
    pub(super) fn follow_unknown_books(&mut self, market: &Market) {
        let count = (SLICE_TOPICS / BOOK_TOPICS) as usize;
        let rest = self.unknown_books.len().saturating_sub(count);
        for number in self.unknown_books.split_off(rest) {
            if let Some(topic) = market.board.topic(number)
                && self.depth.follows(number)
            {
                let journal = market.journal.lock();
                let until = journal.next_sequence().saturating_sub(1);
                self.depth.follow(&market.books, &topic, until);
            }
        }
    }

    /// Returns whether the book of a topic is followed.
    pub(super) fn wants_book(&self, chosen: Chosen) -> bool {
        let watched = if self.is_replaying() {
            chosen.watched
        } else {
            0
        };
        (chosen.schemas | watched) & Schema::Mbp10.bit() != 0
    }

    /// Ends the books of topics that are no longer subscribed to.
    pub(super) fn leave_books(&mut self) {
        let mut depth = std::mem::take(&mut self.depth);
        depth.retain(|number| self.wants_book(self.selection.of(number)));
        self.depth = depth;
    }

    /// Forgets books and bars, because messages are missing.
    pub(super) fn lose_derived(&mut self) {
        self.depth.forget();
        self.bars.lose();
    }

    pub(super) fn note_refused(&mut self) {
        if self.depth.take_refused() > 0 && !std::mem::replace(&mut self.has_too_many_books, true) {
            let text = "mbp-10 of too many symbols: those above the limit get no records";
            self.note_error(error_code::INVALID_SUBSCRIPTION, text.to_owned());
        }
    }

    /// Applies a level of a followed book. Sends a record at the end of an event that has changed
    /// the best levels.
    pub(super) fn tell_level(
        &mut self,
        level: &Level,
        reached: u16,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let Some(change) = self.depth.apply(level, stamp.sequence) else {
            return 0;
        };
        if reached & Schema::Mbp10.bit() == 0 {
            return 0;
        }
        let event = Event {
            price: change.price,
            size: change.size,
            side: change.side,
            action: change.action,
            flags: flag::LAST,
            ..stamp.event(self.depth.source_time_ns(stamp.number), level.source)
        };
        self.writer(out, unix_ns)
            .depth(&event, change.depth, &change.levels);
        1
    }

    /// Adds a trade to the bars of those of these schemas that are of bars.
    pub(super) fn add_to_bars(
        &mut self,
        market: &Market,
        trade: &Trade,
        reached: u16,
        stamp: Stamp,
    ) {
        debug_assert_eq!(trade.symbol, stamp.number, "a message of the journal");
        let venue = self.venue_of_symbol(market, trade, stamp);
        for (interval, schema) in Interval::ALL.into_iter().zip(Schema::BARS) {
            if reached & schema.bit() == 0 {
                continue;
            }
            let mut trade = *trade;
            if let Some((to, schemas)) = venue
                && schemas & schema.bit() != 0
                && self.bars.continues(interval, &trade, to)
            {
                let own = Trade {
                    symbol: to,
                    ..trade
                };
                self.bars.trade(interval, &own, None);
                if self.selection.of(stamp.number).named & schema.bit() == 0 {
                    continue;
                }
                trade.source = CONSOLIDATED;
            }
            self.bars.trade(interval, &trade, stamp.ts_recv);
        }
    }

    /// Returns the topic of the venue that a trade of a replay is of, and its schemas, if the trade
    /// came before this run of the hub knew of a second venue.
    fn venue_of_symbol(
        &mut self,
        market: &Market,
        trade: &Trade,
        stamp: Stamp,
    ) -> Option<(u32, u16)> {
        if stamp.ts_recv.is_some() || trade.source == CONSOLIDATED {
            return None;
        }
        let topic = market.board.topic(stamp.number)?;
        let to = topic.number_of_venue(trade.source)?;
        self.selection.see(&market.board, to);
        let chosen = self.selection.of(to);
        Some((to, chosen.schemas | chosen.watched))
    }

    /// Checks which bars that a replay has left open the wall clock closes, too. Returns whether
    /// there are more to be checked.
    pub(super) fn check_replayed_bars(&mut self, market: &Market) -> bool {
        self.bars.check_replayed(|number| {
            let value = market.board.value(number)?;
            let delay_ns = value.receive_time_ns.saturating_sub(value.source_time_ns);
            (value.source_time_ns != 0 && delay_ns < LIVE_NS).then_some(delay_ns)
        })
    }

    /// Notes when a topic has traded so far. Where the hub does not know it, its newest change
    /// of any kind counts.
    pub(super) fn note_traded(&mut self, market: &Market, number: u32) {
        let value = market.board.value(number);
        let value = value.filter(|value| value.last != PRICE_UNDEFINED);
        if let (Some(value), Some(topic)) = (value, market.board.topic(number)) {
            // The last trade by arrival may be a late one.
            let last_ns = topic.last_trade_ns().unwrap_or(value.source_time_ns);
            let mut newest_ns = traded_until_ns(&topic, Some(&value));
            let delay_ns = value.receive_time_ns.saturating_sub(value.source_time_ns);
            if topic.last_trade_ns().is_none() && delay_ns < LIVE_NS {
                // The newest trade of a snapshot is of before its receipt.
                newest_ns = newest_ns.max(value.receive_time_ns);
            }
            self.bars
                .note_missed(number, Missed::new(newest_ns, last_ns));
        }
    }

    /// Notes the time of the next message. Returns whether an interval or a bar has ended before
    /// it, or a definition holds before it, which is then sent first.
    pub(super) fn passes(&mut self, publisher: u16, time_ns: u64, now_ns: u64) -> bool {
        let has_more = self.selection.wants(BARS) && self.bars.pass(publisher, time_ns);
        let has_older = self.definitions.pass(time_ns);
        self.begins_interval(now_ns) || self.bars.has_closed() || has_more || has_older
    }

    /// Returns whether intervals or bars have ended, or definitions are due, and are to be sent
    /// before anything else.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.intervals.telling().is_some() || self.bars.has_closed() || self.definitions.is_due()
    }

    /// Sends the definitions that are due, and the intervals and bars that have ended, while there
    /// is room.
    pub(super) fn tell_due(
        &mut self,
        market: &Market,
        unix_ns: u64,
        out: &mut Vec<u8>,
        end: usize,
    ) {
        self.tell_due_definitions(market, unix_ns, out, end);
        self.tell_intervals(market, unix_ns, out, end);
        let (mut records, mut left) = (0, SLICE_TOPICS);
        while out.len() < end
            && left > 0
            && let Some((rtype, bar)) = self.bars.take_closed()
        {
            left -= 1;
            // The topic may be followed without records.
            let schemas = self.selection.of(bar.instrument_id - 1).schemas;
            if schemas & schema_of_bar(rtype) == 0 {
                continue;
            }
            self.writer(out, unix_ns).bar(rtype, &bar);
            records += 1;
        }
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
    }
}

/// Returns the number of the symbol whose venue `topic` may be in a hub before this one. That hub
/// gives the symbol consolidated values, once it has found a second venue.
fn symbol_of_venue(market: &Market, topic: &Topic) -> Option<u32> {
    let name = std::str::from_utf8(topic.symbol()).ok()?;
    let (symbol, _) = name.rsplit_once(VENUE_SEPARATOR)?;
    let symbol = market.board.named(symbol)?;
    (!symbol.is_consolidated()).then_some(symbol.number)
}

/// Returns the bit of the schema of bars with this record type.
fn schema_of_bar(rtype: u8) -> u16 {
    let all = BAR_TYPES.into_iter().zip(Schema::BARS);
    all.fold(0, |bits, (other, schema)| {
        bits | if other == rtype { schema.bit() } else { 0 }
    })
}

/// The schemas of bars.
pub(super) const BARS: u16 =
    Schema::Ohlcv1s.bit() | Schema::Ohlcv1m.bit() | Schema::Ohlcv1h.bit() | Schema::Ohlcv1d.bit();
