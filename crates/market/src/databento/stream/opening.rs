//! The initial values of a client: mappings, definitions and snapshots.

use std::sync::atomic::Ordering;

use tidewire_dbn::databento::{Event, Schema, SymbolType};
use tidewire_dbn::{UNDEFINED_TIME, action, flag, side};
use tidewire_feed::journal::Journal;
use tidewire_feed::server::Board;
use tidewire_feed::wire::{LastValue, TradingState, UNDEFINED_PRICE};

use super::super::selection::{Chosen, instrument_id};
use super::derived::BARS;
use super::settling::SLICE_TOPICS;
use super::values::{last_trade, prices_in};
use super::{REFRESHED, Stream, quote_of};
use crate::market::Market;
use crate::venues::CONSOLIDATED;

impl Stream {
    /// Sends the next topics: each mapping, and its value if that is wanted. The values are those
    /// of one place in the journal.
    pub(super) fn open(&mut self, market: &Market, unix_ns: u64, out: &mut Vec<u8>, end: usize) {
        // No message is applied meanwhile.
        let journal = market.journal.lock();
        let next = journal.next_sequence();
        // The turn began before the newest messages, which these values have.
        let unix_ns = unix_ns.max(tidewire_lane::unix_ns());
        self.tell_skipped(market, next, unix_ns, out);
        let mut is_late = self.is_refresh && next > self.skipped_until;
        let (count, mut left) = (market.board.count(), SLICE_TOPICS);
        while left > 0
            && out.len() < end
            && let Some(number) = self.opening.next(count)
        {
            self.selection.see(&market.board, number);
            let chosen = self.selection.of(number);
            let schemas = chosen.schemas & self.opening_schemas;
            if self.is_refresh && chosen.follows(u16::MAX) {
                self.settle_at(market, number, &journal);
            }
            if schemas & REFRESHED != 0 && std::mem::take(&mut is_late) {
                self.tell_left_out(next, unix_ns, out);
            }
            // A symbol may have been defined within skipped messages, also one of a client that
            // needs no current values.
            if schemas != 0 || (self.is_refresh && chosen.schemas != 0) {
                self.introduce(market, &journal, unix_ns, (number, chosen), out);
            }
            let has_book = schemas & Schema::Mbp10.bit() != 0;
            left = left.saturating_sub(if has_book { BOOK_TOPICS } else { 1 });
        }
        self.is_refresh &= !self.opening.is_over();
    }

    fn introduce(
        &mut self,
        market: &Market,
        journal: &Journal,
        unix_ns: u64,
        (number, chosen): (u32, Chosen),
        out: &mut Vec<u8>,
    ) {
        let Some(topic) = market.board.topic(number) else {
            return;
        };
        let definition = topic.definition();
        let id = instrument_id(number);
        let schemas = chosen.schemas & self.opening_schemas;
        let snapshots = match self.is_refresh {
            true => schemas,
            false => schemas & chosen.snapshots,
        };
        let is_sum = topic.is_consolidated() || topic.venue() == CONSOLIDATED;
        let snapshots = match is_sum || topic.is_repeating() {
            true => snapshots & chosen.named,
            false => snapshots,
        };
        self.follow_book(market, journal, &topic, chosen, schemas);
        let mut writer = self.writer(out, unix_ns);
        // A symbol may have been defined, and a continuous one rolled, within skipped messages.
        let is_mapped = self.selection.note_mapped(number) && self.is_refresh;
        if let Some(asked) = self.selection.asked(&topic)
            && (!is_mapped || asked.0 == SymbolType::Continuous.number())
        {
            let name = definition.name.as_str();
            writer.mapping(id, definition.source, unix_ns, asked, name);
            market.databento.records.fetch_add(1, Ordering::Relaxed);
        }
        if schemas & Schema::Definition.bit() != 0 {
            self.open_definition(market, &topic, chosen, unix_ns, out);
        }
        self.snapshot_records(market, &topic, snapshots, unix_ns, out);
        if snapshots == 0 {
            return;
        }
        if journal.next_sequence() > self.cursor {
            // The stream goes on behind these values. A bar is none of them. What was followed
            // before a client has asked for its value has all records.
            let begun = match self.is_refresh {
                true => snapshots,
                false => self.told_until.begun(number, snapshots),
            };
            let until = journal.next_sequence() - 1;
            self.told_until.note(number, begun & !BARS, until);
        }
        if let Some(value) = Board::last_value(&*market.board, number as usize) {
            let last = last_trade(&topic, &value);
            let status_ns = topic.last_status_ns();
            self.snapshot(market, unix_ns, snapshots, (&value, last, status_ns), out);
        }
    }

    /// Sends the current value with its last trade and the time of its status, marked as a
    /// snapshot, in each schema of `schemas`. A time that the hub does not know is undefined.
    fn snapshot(
        &self,
        market: &Market,
        unix_ns: u64,
        schemas: u16,
        (value, last, status_ns): (&LastValue, Event, Option<u64>),
        out: &mut Vec<u8>,
    ) {
        let number = value.symbol;
        // Not those of the client's position, which may be an earlier one.
        let prices = prices_in(&quote_of(value));
        let flags = flag::SNAPSHOT | flag::TOP_OF_BOOK;
        let last = Event {
            ts_recv: unix_ns,
            action: action::NONE,
            flags,
            ..last
        };
        let now = Event {
            ts_event: value.source_time_ns,
            price: UNDEFINED_PRICE,
            size: 0,
            side: side::NONE,
            ..last
        };
        let mut writer = self.writer(out, unix_ns);
        let wants = |schema: Schema| schemas & schema.bit() != 0;
        let mut records = 0;
        // One record type has both schemas: it is a quote if that is wanted.
        if wants(Schema::Mbp1) || wants(Schema::Tbbo) {
            let event = if wants(Schema::Mbp1) { &now } else { &last };
            writer.best_prices(event, &prices);
            records += 1;
        }
        for (schema, is_minute) in [(Schema::Bbo1s, false), (Schema::Bbo1m, true)] {
            if wants(schema) {
                writer.interval(&last, &prices, is_minute);
                records += 1;
            }
        }
        if wants(Schema::Mbp10)
            && let Some(levels) = self.depth.levels(number)
        {
            let ts_event = self.depth.source_time_ns(number);
            writer.depth(&Event { ts_event, ..now }, 0, &levels);
            records += 1;
        }
        if wants(Schema::Trades) && value.last != UNDEFINED_PRICE {
            let action = action::TRADE;
            writer.trade(&Event { action, ..last });
            records += 1;
        }
        if wants(Schema::Status) && value.state != TradingState::UNKNOWN {
            let ts_event = status_ns.unwrap_or(UNDEFINED_TIME);
            writer.status(&Event { ts_event, ..now }, value.state, 0);
            records += 1;
        }
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
    }
}

/// What the copy of a book costs of a slice, in topics.
pub(super) const BOOK_TOPICS: u32 = 32;
