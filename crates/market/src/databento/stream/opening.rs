//! The initial values of a client: mappings, definitions and snapshots.

use std::sync::atomic::Ordering;

use tidewire_dbn::databento::{Event, Schema};
use tidewire_dbn::{BidAsk, action, flag, side};
use tidewire_feed::server::Board;
use tidewire_feed::wire::{LastValue, UNDEFINED_PRICE};

use super::super::selection::{Chosen, instrument_id};
use super::Stream;
use crate::market::Market;

impl Stream {
    /// Sends topics from `first` on: each mapping, and its value if that is wanted.
    pub(super) fn open(
        &mut self,
        market: &Market,
        unix_ns: u64,
        first: u32,
        known: u32,
        out: &mut Vec<u8>,
        end: usize,
    ) {
        let mut number = first;
        while number < known && out.len() < end {
            let chosen = self.selection.of(number);
            if chosen.schemas & self.opening_schemas != 0 {
                self.introduce(market, unix_ns, number, chosen, out);
            }
            number += 1;
        }
        self.opening = (number < known).then_some(number);
        self.is_refresh &= self.opening.is_some();
    }

    fn introduce(
        &mut self,
        market: &Market,
        unix_ns: u64,
        number: u32,
        chosen: Chosen,
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
        let snapshots = match topic.is_consolidated() {
            true => snapshots & chosen.named,
            false => snapshots,
        };
        self.follow_book(market, &topic, chosen, schemas);
        let mut writer = self.writer(out, unix_ns);
        if let Some(asked) = self.selection.asked(&topic)
            && !self.is_refresh
        {
            let name = definition.name.as_str();
            writer.mapping(id, definition.source, unix_ns, asked, name);
            market.databento.records.fetch_add(1, Ordering::Relaxed);
        }
        if schemas & Schema::Definition.bit() != 0 && !self.is_refresh {
            match topic.records.definition() {
                Some(kept) => writer.record(&kept.bytes, id, kept.source, definition.name.as_str()),
                None => writer.definition(&definition, id, unix_ns),
            }
            market.databento.records.fetch_add(1, Ordering::Relaxed);
        }
        self.snapshot_records(market, &topic, snapshots, unix_ns, out);
        if snapshots != 0
            && let Some(value) = Board::last_value(&*market.board, number as usize)
        {
            self.snapshot(market, unix_ns, snapshots, &value, out);
        }
    }

    /// Sends the current value, marked as a snapshot, in each schema of `schemas`.
    fn snapshot(
        &self,
        market: &Market,
        unix_ns: u64,
        schemas: u16,
        value: &LastValue,
        out: &mut Vec<u8>,
    ) {
        let number = value.symbol;
        let prices = self.prices.get(number as usize).copied();
        let prices = prices.unwrap_or(BidAsk::EMPTY);
        let event = Event {
            instrument_id: instrument_id(number),
            publisher_id: value.source,
            ts_event: value.source_time_ns,
            ts_recv: unix_ns,
            sequence: value.sequence,
            price: value.last,
            size: value.last_size,
            side: side::NONE,
            action: action::NONE,
            flags: flag::SNAPSHOT | flag::TOP_OF_BOOK,
        };
        let mut writer = self.writer(out, unix_ns);
        let wants = |schema: Schema| schemas & schema.bit() != 0;
        let mut records = 0;
        if wants(Schema::Mbp1) || wants(Schema::Tbbo) {
            writer.best_prices(&event, &prices);
            records += 1;
        }
        for (schema, is_minute) in [(Schema::Bbo1s, false), (Schema::Bbo1m, true)] {
            if wants(schema) {
                writer.interval(&event, &prices, is_minute);
                records += 1;
            }
        }
        if wants(Schema::Mbp10)
            && let Some(levels) = self.depth.levels(number)
        {
            let ts_event = self.depth.source_time_ns(number);
            writer.depth(&Event { ts_event, ..event }, 0, &levels);
            records += 1;
        }
        if wants(Schema::Trades) && value.last != UNDEFINED_PRICE {
            let action = action::TRADE;
            writer.trade(&Event { action, ..event });
            records += 1;
        }
        if wants(Schema::Status) {
            writer.status(&event, value.state, 0);
            records += 1;
        }
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
    }
}
