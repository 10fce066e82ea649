//! DBN records that a source has sent whole, and what continuous symbols stand for.

use std::sync::atomic::Ordering;

use tidewire_dbn::databento::{Schema, SymbolType};
use tidewire_dbn::{Kind, RecordRef, flag};
use tidewire_feed::wire::{Message, RecordPart};

use super::super::selection::instrument_id;
use super::Stream;
use super::definitions::OlderDefinition;
use super::time_ns;
use super::values::Stamp;
use crate::market::Market;
use crate::topic::Topic;

impl Stream {
    /// Takes a part of a record, which has been joined to those before it. Sends the record if it
    /// is complete and wanted. Returns the number of records.
    pub(super) fn tell_record(
        &mut self,
        market: &Market,
        part: &RecordPart,
        reached: u16,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let is_older = reached & Schema::Definition.bit() == 0
            && stamp.ts_recv.is_none()
            && self.definitions.expects(stamp.number);
        if reached & CARRIED == 0 && !is_older {
            return 0;
        }
        let join = std::mem::take(&mut self.join);
        let record = RecordRef::new(join.bytes()).filter(|_| self.is_joined);
        let schema = record.and_then(|record| schema_of(record.kind()));
        let wanted = schema.filter(|schema| {
            let told = self.told_until.includes(stamp.number, stamp.sequence);
            reached & schema.bit() & !told != 0
        });
        let mut records = 0;
        if let (Some(record), Some(_)) = (record, wanted)
            && let Some(topic) = market.board.topic(stamp.number)
        {
            let id = instrument_id(stamp.number);
            let symbol = std::str::from_utf8(topic.symbol()).unwrap_or_default();
            if schema == Some(Schema::Mbo) {
                let place = (stamp.number, part.source_time_ns);
                records = self.clear_orders(place, true, unix_ns, out);
                self.runs.note_orders(stamp.number, part.source);
            }
            let mut writer = self.writer(out, unix_ns);
            writer.record(record.bytes(), id, part.source, symbol);
            records += 1;
        } else if let Some(record) = record
            && is_older
            && schema == Some(Schema::Definition)
        {
            let older = || OlderDefinition::Record(record.bytes().into(), part.source);
            records = self.keep_older(market, stamp.number, older, unix_ns, out);
        }
        self.join = join;
        records
    }

    /// Sends what is kept of a topic's records in those of these schemas that have it: the newest
    /// statistics and imbalances, the open orders.
    pub(super) fn snapshot_records(
        &mut self,
        market: &Market,
        topic: &Topic,
        schemas: u16,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) {
        if schemas & CARRIED == 0 {
            return;
        }
        let id = instrument_id(topic.number);
        let mut writer = self.writer(out, unix_ns);
        let mut records = 0;
        let mut note = |schema: Schema, sequence: u64| {
            self.told_until.note(topic.number, schema.bit(), sequence);
        };
        for kept in topic.records.newest() {
            let schema = RecordRef::new(&kept.bytes).and_then(|record| schema_of(record.kind()));
            if let Some(schema) = schema.filter(|schema| schemas & schema.bit() != 0) {
                writer.record(&kept.bytes, id, kept.source, "");
                note(schema, kept.sequence);
                records += 1;
            }
        }
        if schemas & Schema::Mbo.bit() != 0 {
            let until = topic.records.snapshot_orders(|source, bytes| {
                debug_assert!(bytes[36] & flag::SNAPSHOT != 0, "an order of a snapshot");
                writer.record(bytes, id, source, "");
                records += 1;
            });
            until.into_iter().for_each(|until| note(Schema::Mbo, until));
        }
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
    }

    /// Finds out whether continuous symbols stand for other instruments from this message on, and
    /// sends their mappings. Returns the number of records.
    pub(super) fn roll(
        &mut self,
        market: &Market,
        message: &Message,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let (board, number) = (&market.board, stamp.number);
        let (is_live, time_ns) = (stamp.ts_recv.is_some(), time_ns(message));
        let was_followed = self.selection.of(number).follows(u16::MAX);
        let definition = match message {
            Message::Record(_) if self.is_joined => Some(self.join.bytes()),
            _ => None,
        };
        let (rolled, left) = self.selection.roll(board, number, definition, time_ns);
        if is_live && !was_followed && self.selection.of(number).follows(u16::MAX) {
            self.take_prices_of(market, number, u64::MAX);
            self.note_traded(market, number);
        }
        let mut records = 0;
        for rolled in rolled {
            let Some(topic) = board.topic(rolled.number) else {
                continue;
            };
            if rolled.is_new {
                self.roll_derived(market, &topic, stamp, time_ns);
            }
            let definition = topic.definition();
            let (id, name) = (instrument_id(rolled.number), definition.name.as_str());
            let asked = (SymbolType::Continuous.number(), &*rolled.name);
            let mut writer = self.writer(out, unix_ns);
            writer.mapping(id, definition.source, unix_ns, asked, name);
            records += 1;
        }
        for number in left {
            let chosen = self.selection.of(number);
            self.leave(number, chosen);
        }
        records
    }
}

/// Returns whether the record of this part, its first one, is a definition.
pub(in super::super) fn is_definition(part: &RecordPart) -> bool {
    part.offset() == 0 && part.bytes().get(1) == Some(&DEFINITION)
}

fn schema_of(kind: Kind) -> Option<Schema> {
    Some(match kind {
        Kind::Definition => Schema::Definition,
        Kind::Statistics => Schema::Statistics,
        Kind::Imbalance => Schema::Imbalance,
        Kind::Mbo => Schema::Mbo,
        _ => return None,
    })
}

/// Schemas of records that a source sends whole.
pub(super) const CARRIED: u16 = Schema::Definition.bit()
    | Schema::Statistics.bit()
    | Schema::Imbalance.bit()
    | Schema::Mbo.bit();
/// Type byte of a definition.
const DEFINITION: u8 = 0x13;
