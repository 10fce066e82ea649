//! Typed records, copied out of their bytes field by field.
//!
//! Every price is in units of 1e-9, [`UNDEFINED_PRICE`] for none. Every time is in nanoseconds
//! since the UNIX epoch, [`UNDEFINED_TIME`] for none. `action` and `side` are Databento's
//! letters, see [`action`] and [`side`]. Layouts stand in `docs/dbn.md`.

use super::{HEADER_LENGTH, Kind, RecordRef, UNDEFINED_PRICE, UNDEFINED_TIME};

/// What every record begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordHeader {
    /// Type byte, see [`Kind::of`].
    pub rtype: u8,
    /// Databento's number of the venue and dataset.
    pub publisher_id: u16,
    /// Number of the instrument.
    pub instrument_id: u32,
    /// When the venue says it happened.
    pub ts_event: u64,
}

/// One record with its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// Kind [`Trade`](Kind::Trade).
    Trade(TradeRecord),
    /// Kind [`Mbp1`](Kind::Mbp1): one level. Also the `tbbo` schema.
    Mbp1(MbpRecord<'a>),
    /// Kind [`Mbp10`](Kind::Mbp10): ten levels.
    Mbp10(MbpRecord<'a>),
    /// Kinds of bars.
    Ohlcv(OhlcvRecord),
    /// Kind [`Status`](Kind::Status).
    Status(StatusRecord),
    /// Kind [`Definition`](Kind::Definition).
    Definition(DefinitionRecord<'a>),
    /// Kind [`Imbalance`](Kind::Imbalance).
    Imbalance(ImbalanceRecord),
    /// Kind [`Error`](Kind::Error).
    Error(ErrorRecord<'a>),
    /// Kind [`SymbolMapping`](Kind::SymbolMapping).
    SymbolMapping(SymbolMappingRecord<'a>),
    /// Kind [`System`](Kind::System).
    System(SystemRecord<'a>),
    /// Kind [`Statistics`](Kind::Statistics).
    Statistics(StatisticsRecord),
    /// Kind [`Mbo`](Kind::Mbo).
    Mbo(MboRecord),
    /// Kinds [`Cmbp1`](Kind::Cmbp1), [`Tcbbo`](Kind::Tcbbo), [`Cbbo1s`](Kind::Cbbo1s) and
    /// [`Cbbo1m`](Kind::Cbbo1m).
    Consolidated(ConsolidatedRecord),
    /// Kinds [`Bbo1s`](Kind::Bbo1s) and [`Bbo1m`](Kind::Bbo1m).
    Bbo(BboRecord),
    /// A type byte this reader does not know.
    Unknown {
        /// The type byte.
        rtype: u8,
    },
}

/// Letters of the field `action`.
pub mod action {
    /// A new order.
    pub const ADD: u8 = b'A';
    /// An order shrinks or goes.
    pub const CANCEL: u8 = b'C';
    /// An order's price or size changes.
    pub const MODIFY: u8 = b'M';
    /// All orders of the instrument go.
    pub const CLEAR: u8 = b'R';
    /// An aggressor traded. Does not change the book.
    pub const TRADE: u8 = b'T';
    /// A resting order was filled. Does not change the book: a cancel follows.
    pub const FILL: u8 = b'F';
    /// Nothing, but the flags may say something.
    pub const NONE: u8 = b'N';
}

/// Letters of the field `side`.
pub mod side {
    /// A buy order, or a buying aggressor.
    pub const BID: u8 = b'B';
    /// A sell order, or a selling aggressor.
    pub const ASK: u8 = b'A';
    /// No side, or not known.
    pub const NONE: u8 = b'N';
}

/// Bits of the field `flags`.
pub mod flag {
    /// Last record of the event for its instrument: the book is whole again.
    pub const LAST: u8 = 1 << 7;
    /// Top of book of the venue, not an individual order.
    pub const TOP_OF_BOOK: u8 = 1 << 6;
    /// From a snapshot or replay.
    pub const SNAPSHOT: u8 = 1 << 5;
    /// A price level, not an individual order.
    pub const PRICE_LEVEL: u8 = 1 << 4;
    /// The time of receipt is inaccurate.
    pub const BAD_RECEIVE_TIME: u8 = 1 << 3;
    /// A gap was not recovered: the book may be wrong.
    pub const MAYBE_BAD_BOOK: u8 = 1 << 2;
    /// Meaning by publisher.
    pub const PUBLISHER_SPECIFIC: u8 = 1 << 1;
}

/// One event of one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MboRecord {
    /// Common header.
    pub header: RecordHeader,
    /// The venue's number of the order.
    pub order_id: u64,
    /// Price of the order or trade.
    pub price: i64,
    /// Size of the order, or the part cancelled or traded.
    pub size: u32,
    /// See [`flag`].
    pub flags: u8,
    /// The venue's channel.
    pub channel_id: u8,
    /// See [`action`].
    pub action: u8,
    /// See [`side`].
    pub side: u8,
    /// When it was captured.
    pub ts_recv: u64,
    /// Nanoseconds from sending to capture.
    pub ts_in_delta: i32,
    /// The venue's sequence number.
    pub sequence: u32,
}

/// One trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TradeRecord {
    /// Common header.
    pub header: RecordHeader,
    /// Price of the trade.
    pub price: i64,
    /// Size of the trade.
    pub size: u32,
    /// See [`action`]; a trade.
    pub action: u8,
    /// Side of the aggressor, see [`side`].
    pub side: u8,
    /// See [`flag`].
    pub flags: u8,
    /// Level of the book it happened at.
    pub depth: u8,
    /// When it was captured.
    pub ts_recv: u64,
    /// Nanoseconds from sending to capture.
    pub ts_in_delta: i32,
    /// The venue's sequence number.
    pub sequence: u32,
}

/// An event of the book and the levels after it (before it, in the `tbbo` schema).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MbpRecord<'a> {
    /// The event; its layout is that of a trade.
    pub event: TradeRecord,
    /// The best level.
    pub top: BidAsk,
    /// All levels as bytes, 32 each.
    levels: &'a [u8],
}

/// One level of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BidAsk {
    /// Bid price.
    pub bid: i64,
    /// Ask price.
    pub ask: i64,
    /// Size bid.
    pub bid_size: u32,
    /// Size asked.
    pub ask_size: u32,
    /// Orders bid.
    pub bid_orders: u32,
    /// Orders asked.
    pub ask_orders: u32,
}

/// The best level at the end of an interval, and its last trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BboRecord {
    /// Common header; its time is that of the last trade.
    pub header: RecordHeader,
    /// Price of the last trade.
    pub price: i64,
    /// Size of the last trade.
    pub size: u32,
    /// Side of the last trade's aggressor.
    pub side: u8,
    /// See [`flag`].
    pub flags: u8,
    /// End of the interval.
    pub ts_recv: u64,
    /// The venue's sequence number.
    pub sequence: u32,
    /// The best level.
    pub top: BidAsk,
}

/// One consolidated level of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsolidatedBidAsk {
    /// Bid price.
    pub bid: i64,
    /// Ask price.
    pub ask: i64,
    /// Size bid.
    pub bid_size: u32,
    /// Size asked.
    pub ask_size: u32,
    /// Publisher of the best bid.
    pub bid_publisher: u16,
    /// Publisher of the best ask.
    pub ask_publisher: u16,
}

/// The consolidated best level, after an event, before a trade, or at the end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsolidatedRecord {
    /// Common header.
    pub header: RecordHeader,
    /// Price of the order or trade.
    pub price: i64,
    /// Size of the order or trade.
    pub size: u32,
    /// See [`action`]; 0 in the interval kinds.
    pub action: u8,
    /// See [`side`].
    pub side: u8,
    /// See [`flag`].
    pub flags: u8,
    /// When it was captured, or the end of the interval.
    pub ts_recv: u64,
    /// Nanoseconds from sending to capture; 0 in the interval kinds.
    pub ts_in_delta: i32,
    /// The best level.
    pub top: ConsolidatedBidAsk,
}

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OhlcvRecord {
    /// Common header; its time is the beginning of the bar.
    pub header: RecordHeader,
    /// First price.
    pub open: i64,
    /// Highest price.
    pub high: i64,
    /// Lowest price.
    pub low: i64,
    /// Last price.
    pub close: i64,
    /// Size traded.
    pub volume: u64,
}

/// State of trading of an instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusRecord {
    /// Common header.
    pub header: RecordHeader,
    /// When it was captured.
    pub ts_recv: u64,
    /// Databento's number of the change.
    pub action: u16,
    /// Databento's number of the reason.
    pub reason: u16,
    /// Databento's number of the trading event.
    pub trading_event: u16,
    /// `b'Y'`, `b'N'` or `b'~'` for not known.
    pub is_trading: u8,
    /// `b'Y'`, `b'N'` or `b'~'` for not known.
    pub is_quoting: u8,
    /// `b'Y'`, `b'N'` or `b'~'` for not known.
    pub is_short_sell_restricted: u8,
}

/// Definition of an instrument. Texts end at their first NUL or byte that is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefinitionRecord<'a> {
    /// Common header.
    pub header: RecordHeader,
    /// When it was captured.
    pub ts_recv: u64,
    /// Tick: the least difference between two prices.
    pub min_price_increment: i64,
    /// Factor from the venue's display price to the price, in units of 1e-9.
    pub display_factor: i64,
    /// Last time it can be traded.
    pub expiration: u64,
    /// First time it can be traded.
    pub activation: u64,
    /// Highest price allowed on the day.
    pub high_limit_price: i64,
    /// Lowest price allowed on the day.
    pub low_limit_price: i64,
    /// Strike price of an option.
    pub strike_price: i64,
    /// The venue's own number of the instrument.
    pub raw_instrument_id: u64,
    /// Multiplier of the contract.
    pub contract_multiplier: i32,
    /// Number of the underlying instrument.
    pub underlying_id: u32,
    /// Currency of the price.
    pub currency: &'a str,
    /// The venue's symbol.
    pub raw_symbol: &'a str,
    /// Group of the instrument.
    pub group: &'a str,
    /// Exchange.
    pub exchange: &'a str,
    /// Product.
    pub asset: &'a str,
    /// Type of the security.
    pub security_type: &'a str,
    /// Symbol of the underlying instrument.
    pub underlying: &'a str,
    /// Databento's letter of the class: `b'F'` future, `b'K'` stock, `b'C'` call, …
    pub instrument_class: u8,
    /// `b'A'` added, `b'M'` modified, `b'D'` deleted.
    pub security_update_action: u8,
}

/// Imbalance of an auction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImbalanceRecord {
    /// Common header.
    pub header: RecordHeader,
    /// When it was captured.
    pub ts_recv: u64,
    /// Price at which the sizes are calculated.
    pub reference_price: i64,
    /// Indicative price of the auction.
    pub indicative_match_price: i64,
    /// Size that would match.
    pub paired_size: u32,
    /// Size that would not.
    pub imbalance_size: u32,
    /// The venue's letter of the auction.
    pub auction_type: u8,
    /// Side of the imbalance, see [`side`].
    pub side: u8,
}

/// A statistic of the venue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatisticsRecord {
    /// Common header.
    pub header: RecordHeader,
    /// When it was captured.
    pub ts_recv: u64,
    /// Time the statistic refers to.
    pub ts_reference: u64,
    /// Its value if it is a price.
    pub price: i64,
    /// Its value if it is a quantity; `i64::MAX` for none.
    pub quantity: i64,
    /// The venue's sequence number.
    pub sequence: u32,
    /// Databento's number of the statistic.
    pub statistic: u16,
    /// 1 new, 2 deleted.
    pub update_action: u8,
    /// Flags by statistic.
    pub flags: u8,
}

/// Error from a live gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRecord<'a> {
    /// Common header.
    pub header: RecordHeader,
    /// What went wrong.
    pub message: &'a str,
    /// Databento's number of the error; 255 in version 1.
    pub code: u8,
}

/// Message from a live gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemRecord<'a> {
    /// Common header.
    pub header: RecordHeader,
    /// The message.
    pub message: &'a str,
    /// Databento's number of the message, 0 for a heartbeat; 255 in version 1.
    pub code: u8,
}

/// Which symbol an instrument id stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolMappingRecord<'a> {
    /// Common header with the instrument id.
    pub header: RecordHeader,
    /// Symbol that was subscribed.
    pub stype_in_symbol: &'a str,
    /// Symbol the instrument has.
    pub stype_out_symbol: &'a str,
    /// From when.
    pub start_ts: u64,
    /// Until when.
    pub end_ts: u64,
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

impl<'a> RecordRef<'a> {
    /// Its fields.
    #[inline]
    pub fn decode(&self) -> Record<'a> {
        // The framing has checked the length against the kind, so the fallback is never taken.
        self.fields().unwrap_or(Record::Unknown {
            rtype: self.rtype(),
        })
    }

    /// Its fields if it is an order event: the shortest way for a feed of nothing else.
    #[inline]
    pub fn mbo(&self) -> Option<MboRecord> {
        (self.kind() == Kind::Mbo)
            .then(|| self.bytes().first_chunk().map(mbo))
            .flatten()
    }

    /// When the venue sent it, if each record carries that: the eight bytes behind its fields.
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
            Kind::Mbo => Record::Mbo(mbo(bytes.first_chunk()?)),
            Kind::Trade => Record::Trade(trade(bytes.first_chunk()?)),
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
            | Kind::OhlcvEod => Record::Ohlcv(ohlcv(bytes.first_chunk()?)),
            Kind::Status => Record::Status(status(bytes.first_chunk()?)),
            Kind::Definition => Record::Definition(definition(bytes)?),
            Kind::Imbalance => Record::Imbalance(imbalance(bytes.first_chunk()?)),
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

impl Record<'_> {
    /// When the venue says it happened; for a record of a snapshot, when the snapshot was taken.
    /// 0 for a record of unknown type.
    ///
    /// Within one instrument this does not go back, which makes it the clock of a replay: the
    /// orders of a snapshot keep the times of long ago in their headers.
    pub fn source_time_ns(&self) -> u64 {
        match self {
            Self::Mbo(record) => record.source_time_ns(),
            Self::Trade(record) => record.source_time_ns(),
            Self::Mbp1(record) | Self::Mbp10(record) => record.event.source_time_ns(),
            Self::Consolidated(record) => {
                source_time(record.header.ts_event, record.ts_recv, record.flags)
            }
            // Of an interval: it describes its end, the header names its last trade.
            Self::Bbo(record) => record.ts_recv,
            Self::Ohlcv(record) => record.header.ts_event,
            Self::Status(record) => source_time(record.header.ts_event, record.ts_recv, 0),
            Self::Definition(record) => source_time(record.header.ts_event, record.ts_recv, 0),
            Self::Imbalance(record) => source_time(record.header.ts_event, record.ts_recv, 0),
            Self::Statistics(record) => source_time(record.header.ts_event, record.ts_recv, 0),
            Self::Error(record) => record.header.ts_event,
            Self::System(record) => record.header.ts_event,
            Self::SymbolMapping(record) => record.header.ts_event,
            Self::Unknown { .. } => 0,
        }
    }
}

impl MboRecord {
    /// See [`Record::source_time_ns`].
    #[inline]
    pub fn source_time_ns(&self) -> u64 {
        source_time(self.header.ts_event, self.ts_recv, self.flags)
    }
}

impl TradeRecord {
    /// See [`Record::source_time_ns`].
    #[inline]
    pub fn source_time_ns(&self) -> u64 {
        source_time(self.header.ts_event, self.ts_recv, self.flags)
    }
}

impl MbpRecord<'_> {
    /// All its levels, best first: one or ten.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = BidAsk> + '_ {
        self.levels.as_chunks::<32>().0.iter().map(bid_ask)
    }
}

impl BidAsk {
    /// No price on either side.
    pub const EMPTY: Self = Self {
        bid: UNDEFINED_PRICE,
        ask: UNDEFINED_PRICE,
        bid_size: 0,
        ask_size: 0,
        bid_orders: 0,
        ask_orders: 0,
    };
}

#[inline]
fn source_time(ts_event: u64, ts_recv: u64, flags: u8) -> u64 {
    let captured = flags & flag::SNAPSHOT != 0 || ts_event == UNDEFINED_TIME;
    if captured { ts_recv } else { ts_event }
}

#[inline]
fn mbo(bytes: &[u8; 56]) -> MboRecord {
    MboRecord {
        header: RecordHeader::read(bytes),
        order_id: u64::from_le_bytes(array(bytes, 16)),
        price: i64::from_le_bytes(array(bytes, 24)),
        size: u32::from_le_bytes(array(bytes, 32)),
        flags: bytes[36],
        channel_id: bytes[37],
        action: bytes[38],
        side: bytes[39],
        ts_recv: u64::from_le_bytes(array(bytes, 40)),
        ts_in_delta: i32::from_le_bytes(array(bytes, 48)),
        sequence: u32::from_le_bytes(array(bytes, 52)),
    }
}

#[inline]
fn trade(bytes: &[u8; 48]) -> TradeRecord {
    TradeRecord {
        header: RecordHeader::read(bytes),
        price: i64::from_le_bytes(array(bytes, 16)),
        size: u32::from_le_bytes(array(bytes, 24)),
        action: bytes[28],
        side: bytes[29],
        flags: bytes[30],
        depth: bytes[31],
        ts_recv: u64::from_le_bytes(array(bytes, 32)),
        ts_in_delta: i32::from_le_bytes(array(bytes, 40)),
        sequence: u32::from_le_bytes(array(bytes, 44)),
    }
}

#[inline]
fn mbp<'a>(bytes: &[u8; 80], levels: &'a [u8]) -> MbpRecord<'a> {
    MbpRecord {
        event: trade(&array(bytes, 0)),
        top: bid_ask(&array(bytes, 48)),
        levels,
    }
}

#[inline]
fn bid_ask(bytes: &[u8; 32]) -> BidAsk {
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
    let event = trade(&array(bytes, 0));
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
    let event = trade(&array(bytes, 0));
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

fn ohlcv(bytes: &[u8; 56]) -> OhlcvRecord {
    OhlcvRecord {
        header: RecordHeader::read(bytes),
        open: i64::from_le_bytes(array(bytes, 16)),
        high: i64::from_le_bytes(array(bytes, 24)),
        low: i64::from_le_bytes(array(bytes, 32)),
        close: i64::from_le_bytes(array(bytes, 40)),
        volume: u64::from_le_bytes(array(bytes, 48)),
    }
}

fn status(bytes: &[u8; 40]) -> StatusRecord {
    StatusRecord {
        header: RecordHeader::read(bytes),
        ts_recv: u64::from_le_bytes(array(bytes, 16)),
        action: u16::from_le_bytes(array(bytes, 24)),
        reason: u16::from_le_bytes(array(bytes, 26)),
        trading_event: u16::from_le_bytes(array(bytes, 28)),
        is_trading: bytes[30],
        is_quoting: bytes[31],
        is_short_sell_restricted: bytes[32],
    }
}

fn imbalance(bytes: &[u8; 112]) -> ImbalanceRecord {
    ImbalanceRecord {
        header: RecordHeader::read(bytes),
        ts_recv: u64::from_le_bytes(array(bytes, 16)),
        reference_price: i64::from_le_bytes(array(bytes, 24)),
        indicative_match_price: i64::from_le_bytes(array(bytes, 64)),
        paired_size: u32::from_le_bytes(array(bytes, 88)),
        imbalance_size: u32::from_le_bytes(array(bytes, 92)),
        auction_type: bytes[104],
        side: bytes[105],
    }
}

/// Versions 1 and 2 have a quantity of four bytes.
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

/// Version 1 has 64 bytes of text and no code.
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

/// Where the fields of a definition stand that moved between versions.
struct DefinitionLayout {
    length: usize,
    strike_price: usize,
    raw_instrument_id: usize,
    raw_instrument_id_length: usize,
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

/// The text of a fixed field: up to its first NUL or byte that is not UTF-8.
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

/// `M` bytes at `offset`. Both lengths are constants wherever this is called, so that the check
/// is made when compiling; an offset over the end would be our own bug.
#[inline(always)]
fn array<const N: usize, const M: usize>(bytes: &[u8; N], offset: usize) -> [u8; M] {
    let mut field = [0; M];
    field.copy_from_slice(&bytes[offset..offset + M]);
    field
}
