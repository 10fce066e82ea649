//! The offsets of a record's fields.
//!
//! Offsets are constants, and `first_chunk` checks the length once per record, so each field
//! costs one load.

use tidewire_book::BidAsk;

use super::record::{
    BboRecord, ConsolidatedBidAsk, ConsolidatedRecord, DefinitionRecord, ErrorRecord,
    ImbalanceRecord, MboRecord, MbpRecord, OhlcvRecord, Record, RecordHeader, StatisticsRecord,
    StatusRecord, SymbolMappingRecord, SystemRecord, TradeRecord,
};
use super::{HEADER_LENGTH, Kind, RecordRef};

impl<'a> RecordRef<'a> {
    /// Decodes the fields.
    #[inline]
    pub fn decode(&self) -> Record<'a> {
        // The framing has checked the length against the kind, so the fallback is unreachable.
        self.fields().unwrap_or(Record::Unknown {
            rtype: self.rtype(),
        })
    }

    /// Decodes an order event; `None` for any other record. Fastest for a feed of order events
    /// only.
    #[inline]
    pub fn mbo(&self) -> Option<MboRecord> {
        (self.kind() == Kind::Mbo)
            .then(|| self.bytes().first_chunk().map(MboRecord::read))
            .flatten()
    }

    /// Returns when the venue sent the record, if records carry it: the eight bytes after the
    /// fields.
    pub fn ts_out(&self) -> Option<u64> {
        let bytes = self.bytes();
        let fields = match (self.kind(), bytes.len()) {
            (Kind::Unknown, _) => return None,
            (Kind::Definition, 520..) => 520,
            (Kind::Definition, 400..) => 400,
            (Kind::Statistics, 80..) => 80,
            (Kind::SymbolMapping, 176..) => 176,
            (Kind::Error | Kind::System, 320..) => 320,
            (kind, _) => kind.length_min(),
        };
        Some(u64::from_le_bytes(*bytes.get(fields..)?.first_chunk()?))
    }

    #[inline]
    fn fields(&self) -> Option<Record<'a>> {
        let bytes = self.bytes();
        Some(match self.kind() {
            Kind::Mbo => Record::Mbo(MboRecord::read(bytes.first_chunk()?)),
            Kind::Trade => Record::Trade(TradeRecord::read(bytes.first_chunk()?)),
            Kind::Mbp1 => Record::Mbp1(mbp(bytes.first_chunk()?, bytes.get(48..80)?)),
            Kind::Mbp10 => Record::Mbp10(mbp(bytes.first_chunk()?, bytes.get(48..368)?)),
            Kind::Bbo1s | Kind::Bbo1m => Record::Bbo(bbo(bytes.first_chunk()?)),
            Kind::Cmbp1 | Kind::Tcbbo => Record::Consolidated(cmbp(bytes.first_chunk()?)),
            Kind::Cbbo1s | Kind::Cbbo1m => Record::Consolidated(ConsolidatedRecord {
                action: 0,
                ts_in_delta: 0,
                ..cmbp(bytes.first_chunk()?)
            }),
            Kind::OhlcvDeprecated
            | Kind::Ohlcv1s
            | Kind::Ohlcv1m
            | Kind::Ohlcv1h
            | Kind::Ohlcv1d
            | Kind::OhlcvEod => Record::Ohlcv(OhlcvRecord::read(bytes.first_chunk()?)),
            Kind::Status => Record::Status(StatusRecord::read(bytes.first_chunk()?)),
            Kind::Definition => Record::Definition(definition(bytes)?),
            Kind::Imbalance => Record::Imbalance(ImbalanceRecord::read(bytes.first_chunk()?)),
            Kind::Statistics => Record::Statistics(statistics(bytes)?),
            Kind::Error => {
                let (message, code) = message(bytes, 318)?;
                Record::Error(ErrorRecord {
                    header: self.header(),
                    message,
                    code,
                })
            }
            Kind::System => {
                let (message, code) = message(bytes, 319)?;
                Record::System(SystemRecord {
                    header: self.header(),
                    message,
                    code,
                })
            }
            Kind::SymbolMapping => Record::SymbolMapping(symbol_mapping(bytes)?),
            Kind::Unknown => Record::Unknown {
                rtype: self.rtype(),
            },
        })
    }
}

impl RecordHeader {
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Self {
        let Some(bytes) = bytes.first_chunk::<HEADER_LENGTH>() else {
            return Self::default();
        };
        Self {
            rtype: bytes[1],
            publisher_id: u16::from_le_bytes(array(bytes, 2)),
            instrument_id: u32::from_le_bytes(array(bytes, 4)),
            ts_event: u64::from_le_bytes(array(bytes, 8)),
        }
    }
}

#[inline]
fn mbp<'a>(bytes: &[u8; 80], levels: &'a [u8]) -> MbpRecord<'a> {
    MbpRecord {
        event: TradeRecord::read(&array(bytes, 0)),
        top: bid_ask(&array(bytes, 48)),
        levels,
    }
}

#[inline]
pub(super) fn bid_ask(bytes: &[u8; 32]) -> BidAsk {
    BidAsk {
        bid: i64::from_le_bytes(array(bytes, 0)),
        ask: i64::from_le_bytes(array(bytes, 8)),
        bid_size: u32::from_le_bytes(array(bytes, 16)),
        ask_size: u32::from_le_bytes(array(bytes, 20)),
        bid_orders: u32::from_le_bytes(array(bytes, 24)),
        ask_orders: u32::from_le_bytes(array(bytes, 28)),
    }
}

fn bbo(bytes: &[u8; 80]) -> BboRecord {
    let event = TradeRecord::read(&array(bytes, 0));
    BboRecord {
        header: event.header,
        price: event.price,
        size: event.size,
        side: event.side,
        flags: event.flags,
        ts_recv: event.ts_recv,
        sequence: event.sequence,
        top: bid_ask(&array(bytes, 48)),
    }
}

fn cmbp(bytes: &[u8; 80]) -> ConsolidatedRecord {
    let event = TradeRecord::read(&array(bytes, 0));
    ConsolidatedRecord {
        header: event.header,
        price: event.price,
        size: event.size,
        action: event.action,
        side: event.side,
        flags: event.flags,
        ts_recv: event.ts_recv,
        ts_in_delta: event.ts_in_delta,
        top: ConsolidatedBidAsk {
            bid: i64::from_le_bytes(array(bytes, 48)),
            ask: i64::from_le_bytes(array(bytes, 56)),
            bid_size: u32::from_le_bytes(array(bytes, 64)),
            ask_size: u32::from_le_bytes(array(bytes, 68)),
            bid_publisher: u16::from_le_bytes(array(bytes, 72)),
            ask_publisher: u16::from_le_bytes(array(bytes, 76)),
        },
    }
}

/// Decodes a statistic. The quantity of versions 1 and 2 has four bytes.
fn statistics(bytes: &[u8]) -> Option<StatisticsRecord> {
    let head: &[u8; 64] = bytes.first_chunk()?;
    let (quantity, tail): (i64, [u8; 14]) = match bytes.first_chunk::<80>() {
        Some(bytes) => (i64::from_le_bytes(array(bytes, 40)), array(bytes, 48)),
        None => {
            let quantity = i32::from_le_bytes(array(head, 40));
            let known = quantity != i32::MAX;
            (
                if known { i64::from(quantity) } else { i64::MAX },
                array(head, 44),
            )
        }
    };
    Some(StatisticsRecord {
        header: RecordHeader::read(bytes),
        ts_recv: u64::from_le_bytes(array(head, 16)),
        ts_reference: u64::from_le_bytes(array(head, 24)),
        price: i64::from_le_bytes(array(head, 32)),
        quantity,
        sequence: u32::from_le_bytes(array(&tail, 0)),
        statistic: u16::from_le_bytes(array(&tail, 8)),
        update_action: tail[12],
        flags: tail[13],
    })
}

/// Decodes a gateway message. Version 1 has 64 bytes of text and no code.
fn message(bytes: &[u8], code_offset: usize) -> Option<(&str, u8)> {
    match bytes.get(code_offset) {
        Some(&code) if bytes.len() >= 320 => Some((text(bytes.get(16..code_offset)?), code)),
        _ => Some((text(bytes.get(16..80)?), u8::MAX)),
    }
}

fn symbol_mapping(bytes: &[u8]) -> Option<SymbolMappingRecord<'_>> {
    let (symbol_in, symbol_out, times) = if bytes.len() >= 176 {
        (bytes.get(17..88)?, bytes.get(89..160)?, bytes.get(160..)?)
    } else {
        (bytes.get(16..38)?, bytes.get(38..60)?, bytes.get(64..)?)
    };
    let times: &[u8; 16] = times.first_chunk()?;
    Some(SymbolMappingRecord {
        header: RecordHeader::read(bytes),
        stype_in_symbol: text(symbol_in),
        stype_out_symbol: text(symbol_out),
        start_ts: u64::from_le_bytes(array(times, 0)),
        end_ts: u64::from_le_bytes(array(times, 8)),
    })
}

/// Offsets of the definition fields that moved between versions.
struct DefinitionLayout {
    length: usize,
    strike_price: usize,
    raw_instrument_id: usize,
    raw_instrument_id_length: usize,
    min_lot_size: usize,
    min_trade_volume: usize,
    contract_multiplier: usize,
    underlying_id: usize,
    currency: usize,
    raw_symbol: usize,
    group: usize,
    exchange: usize,
    asset: usize,
    cfi: usize,
    security_type: usize,
    underlying: usize,
    instrument_class: usize,
    security_update_action: usize,
}

/// Newest first: a record has the first layout it is long enough for.
const DEFINITION_LAYOUTS: [DefinitionLayout; 3] = [
    DefinitionLayout {
        length: 520,
        strike_price: 104,
        raw_instrument_id: 112,
        raw_instrument_id_length: 8,
        min_lot_size: 160,
        min_trade_volume: 172,
        contract_multiplier: 176,
        underlying_id: 140,
        currency: 224,
        raw_symbol: 238,
        group: 309,
        exchange: 330,
        asset: 335,
        cfi: 346,
        security_type: 353,
        underlying: 391,
        instrument_class: 487,
        security_update_action: 493,
    },
    DefinitionLayout {
        length: 400,
        strike_price: 112,
        raw_instrument_id: 128,
        raw_instrument_id_length: 4,
        min_lot_size: 148,
        min_trade_volume: 160,
        contract_multiplier: 164,
        underlying_id: 124,
        currency: 186,
        raw_symbol: 200,
        group: 271,
        exchange: 292,
        asset: 297,
        cfi: 304,
        security_type: 311,
        underlying: 349,
        instrument_class: 374,
        security_update_action: 382,
    },
    DefinitionLayout {
        length: 360,
        strike_price: 328,
        raw_instrument_id: 120,
        raw_instrument_id_length: 4,
        min_lot_size: 140,
        min_trade_volume: 152,
        contract_multiplier: 160,
        underlying_id: 116,
        currency: 186,
        raw_symbol: 200,
        group: 222,
        exchange: 243,
        asset: 248,
        cfi: 255,
        security_type: 262,
        underlying: 300,
        instrument_class: 325,
        security_update_action: 349,
    },
];

fn definition(bytes: &[u8]) -> Option<DefinitionRecord<'_>> {
    let at = DEFINITION_LAYOUTS
        .iter()
        .find(|layout| bytes.len() >= layout.length)?;
    let head: &[u8; 360] = bytes.first_chunk()?;
    let field = |start: usize, end: usize| bytes.get(start..end).map(text);
    let mut raw_instrument_id = [0; 8];
    let length = at.raw_instrument_id_length;
    raw_instrument_id[..length].copy_from_slice(bytes.get(at.raw_instrument_id..)?.get(..length)?);
    Some(DefinitionRecord {
        header: RecordHeader::read(bytes),
        ts_recv: u64::from_le_bytes(array(head, 16)),
        min_price_increment: i64::from_le_bytes(array(head, 24)),
        display_factor: i64::from_le_bytes(array(head, 32)),
        expiration: u64::from_le_bytes(array(head, 40)),
        activation: u64::from_le_bytes(array(head, 48)),
        high_limit_price: i64::from_le_bytes(array(head, 56)),
        low_limit_price: i64::from_le_bytes(array(head, 64)),
        strike_price: i64::from_le_bytes(array(head, at.strike_price)),
        raw_instrument_id: u64::from_le_bytes(raw_instrument_id),
        min_lot_size: i32::from_le_bytes(array(head, at.min_lot_size)),
        min_trade_volume: u32::from_le_bytes(array(head, at.min_trade_volume)),
        contract_multiplier: i32::from_le_bytes(array(head, at.contract_multiplier)),
        underlying_id: u32::from_le_bytes(array(head, at.underlying_id)),
        currency: field(at.currency, at.currency + 4)?,
        raw_symbol: field(at.raw_symbol, at.group)?,
        group: field(at.group, at.exchange)?,
        exchange: field(at.exchange, at.asset)?,
        asset: field(at.asset, at.cfi)?,
        security_type: field(at.security_type, at.security_type + 7)?,
        underlying: field(at.underlying, at.underlying + 21)?,
        instrument_class: *bytes.get(at.instrument_class)?,
        security_update_action: *bytes.get(at.security_update_action)?,
    })
}

/// Returns the text of a fixed field, up to its first NUL or invalid UTF-8.
fn text(field: &[u8]) -> &str {
    let end = field
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(field.len());
    match str::from_utf8(&field[..end]) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&field[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// Returns `M` bytes at `offset`. Both lengths are constants in every call, so the check happens
/// at compile time. An offset past the end would be our own bug.
#[inline(always)]
pub(super) fn array<const N: usize, const M: usize>(bytes: &[u8; N], offset: usize) -> [u8; M] {
    let mut field = [0; M];
    field.copy_from_slice(&bytes[offset..offset + M]);
    field
}
