//! Records computed from levels and trades: `mbp-10` and `ohlcv`.

use std::sync::atomic::Ordering;

use tidewire_dbn::databento::{Event, Schema, error_code};
use tidewire_dbn::flag;
use tidewire_feed::journal::Journal;
use tidewire_feed::wire::{Level, Trade};
use tidewire_lastvalue::PRICE_UNDEFINED;

use super::super::selection::Chosen;
use super::Stream;
use super::values::Stamp;
use crate::bars::Interval;
use crate::market::Market;
use crate::topic::Topic;

impl Stream {
    /// Follows a topic's book from its current state on, or from the replay's start, if `schemas`
    /// has `mbp-10`.
    pub(super) fn follow_book(
        &mut self,
        market: &Market,
        topic: &Topic,
        chosen: Chosen,
        schemas: u16,
    ) {
        if schemas & Schema::Mbp10.bit() == 0 {
            return;
        }
        let is_followed = self.depth.follows(topic.number);
        if self.is_refresh || !is_followed && chosen.replayed & Schema::Mbp10.bit() == 0 {
            let journal = market.journal.lock();
            let until = journal.next_sequence().saturating_sub(1);
            self.depth.follow(&market.books, topic, until);
        } else if !is_followed {
            self.depth.follow_from_start(&market.books, topic);
        }
        self.note_refused();
    }

    /// Follows the book of a topic whose first definition has just been read.
    pub(super) fn follow_new_book(&mut self, market: &Market, topic: &Topic, sequence: u64) {
        let schemas = self.selection.of(topic.number).schemas;
        if schemas & Schema::Mbp10.bit() == 0 || self.depth.follows(topic.number) {
            return;
        }
        match topic.parent() {
            // It has the book that its symbol's topic had before the second venue came.
            Some(_) => self.depth.follow(&market.books, topic, sequence),
            None => self.depth.follow_from_start(&market.books, topic),
        }
        self.note_refused();
    }

    /// Follows the book of a topic that a continuous symbol stands for after `sequence`. Trades
    /// before it are in none of the client's bars.
    pub(super) fn roll_derived(&mut self, market: &Market, topic: &Topic, sequence: u64) {
        let schemas = self.selection.of(topic.number).schemas;
        if schemas & Schema::Mbp10.bit() != 0 {
            self.depth.follow(&market.books, topic, sequence);
            self.note_refused();
        }
        if schemas & BARS != 0 {
            self.note_traded(market, topic.number);
        }
        self.leave_derived();
    }

    /// After a replay, takes the current state of those books whose start it did not have.
    pub(super) fn follow_unknown_books(&mut self, market: &Market) {
        for number in self.depth.unknown() {
            if let Some(topic) = market.board.topic(number) {
                let journal = market.journal.lock();
                let until = journal.next_sequence().saturating_sub(1);
                self.depth.follow(&market.books, &topic, until);
            }
        }
    }

    /// Ends books and bars of topics that are no longer subscribed to.
    pub(super) fn leave_derived(&mut self) {
        let selection = &self.selection;
        let wants = |number: u32, schema: Schema| {
            let chosen = selection.of(number);
            chosen.schemas & schema.bit() != 0
        };
        self.depth.retain(|number| wants(number, Schema::Mbp10));
        self.bars
            .retain(|number, interval| wants(number, Schema::BARS[interval as usize]));
    }

    /// Forgets books and bars, because messages are missing.
    pub(super) fn lose_derived(&mut self) {
        self.depth.forget();
        self.bars.lose();
    }

    fn note_refused(&mut self) {
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
            ..stamp.event(level.source_time_ns, level.source)
        };
        self.writer(out, unix_ns)
            .depth(&event, change.depth, &change.levels);
        1
    }

    /// Adds a trade to the bars of those of these schemas that are of bars.
    pub(super) fn add_to_bars(&mut self, trade: &Trade, reached: u16, stamp: Stamp) {
        debug_assert_eq!(trade.symbol, stamp.number, "a message of the journal");
        for (interval, schema) in Interval::ALL.into_iter().zip(Schema::BARS) {
            if reached & schema.bit() != 0 {
                self.bars.trade(interval, trade, stamp.ts_recv);
            }
        }
    }

    /// Notes which topics have traded so far, while the journal is locked.
    pub(super) fn take_traded(&mut self, market: &Market, _: &Journal) {
        if !self.selection.wants(BARS) {
            return;
        }
        for number in 0..self.selection.look(&market.board) as u32 {
            if self.selection.of(number).schemas & BARS != 0 {
                self.note_traded(market, number);
            }
        }
    }

    fn note_traded(&mut self, market: &Market, number: u32) {
        let value = market.board.value(number);
        if let Some(value) = value.filter(|value| value.last != PRICE_UNDEFINED) {
            self.bars.note_traded(number, value.source_time_ns);
        }
    }

    /// Notes that the replayed bars' trades are known from this time on.
    pub(super) fn replay_bars(&mut self, known_from_ns: u64) {
        let known = self.selection.known() as u32;
        for number in 0..known {
            if self.selection.of(number).replayed & BARS != 0 {
                self.bars
                    .note_traded(number, known_from_ns.saturating_sub(1));
            }
        }
    }

    /// Notes the time of the next message. Returns whether an interval or a bar has ended before
    /// it, which is then sent first.
    pub(super) fn passes(&mut self, publisher: u16, time_ns: u64, now_ns: u64) -> bool {
        if self.selection.wants(BARS) {
            self.bars.pass(publisher, time_ns);
        }
        self.begins_interval(now_ns) || self.bars.has_closed()
    }

    /// Returns whether intervals or bars have ended and are to be sent before anything else.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.intervals.telling().is_some() || self.bars.has_closed()
    }

    /// Sends the intervals and bars that have ended, while there is room.
    pub(super) fn tell_due(
        &mut self,
        market: &Market,
        unix_ns: u64,
        out: &mut Vec<u8>,
        end: usize,
    ) {
        self.tell_intervals(market, unix_ns, out, end);
        let mut records = 0;
        while out.len() < end
            && let Some((rtype, bar)) = self.bars.take_closed()
        {
            self.writer(out, unix_ns).bar(rtype, &bar);
            records += 1;
        }
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
    }
}

/// The schemas of bars.
pub(super) const BARS: u16 =
    Schema::Ohlcv1s.bit() | Schema::Ohlcv1m.bit() | Schema::Ohlcv1h.bit() | Schema::Ohlcv1d.bit();
