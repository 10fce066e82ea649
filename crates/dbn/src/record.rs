//! Typed records, copied from their bytes field by field.
//!
//! Every price is in units of 1e-9, [`UNDEFINED_PRICE`] for none. Every time is in nanoseconds
//! since the UNIX epoch, [`UNDEFINED_TIME`] for none. `action` and `side` are Databento's
//! letters, see [`action`] and [`side`]. `docs/dbn.md` describes the layouts.

use tidewire_book::BidAsk;

use super::fields::{array, bid_ask};
use super::{Kind, UNDEFINED_TIME};

/// The header of every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordHeader {
    /// Type byte, see [`super::Kind::of`].
    pub rtype: u8,
    /// Databento's number of the venue and dataset.
    pub publisher_id: u16,
    /// Number of the instrument.
    pub instrument_id: u32,
    /// Time of the event at the venue.
    pub ts_event: u64,
}

/// One record with its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// Kind [`Trade`](super::Kind::Trade).
    Trade(TradeRecord),
    /// Kind [`Mbp1`](super::Kind::Mbp1): one level. Also the `tbbo` schema.
    Mbp1(MbpRecord<'a>),
    /// Kind [`Mbp10`](super::Kind::Mbp10): ten levels.
    Mbp10(MbpRecord<'a>),
    /// Kinds of bars.
    Ohlcv(OhlcvRecord),
    /// Kind [`Status`](super::Kind::Status).
    Status(StatusRecord),
    /// Kind [`Definition`](super::Kind::Definition).
    Definition(DefinitionRecord<'a>),
    /// Kind [`Imbalance`](super::Kind::Imbalance).
    Imbalance(ImbalanceRecord),
    /// Kind [`Error`](super::Kind::Error).
    Error(ErrorRecord<'a>),
    /// Kind [`SymbolMapping`](super::Kind::SymbolMapping).
    SymbolMapping(SymbolMappingRecord<'a>),
    /// Kind [`System`](super::Kind::System).
    System(SystemRecord<'a>),
    /// Kind [`Statistics`](super::Kind::Statistics).
    Statistics(StatisticsRecord),
    /// Kind [`Mbo`](super::Kind::Mbo).
    Mbo(MboRecord),
    /// Kinds [`Cmbp1`](super::Kind::Cmbp1), [`Tcbbo`](super::Kind::Tcbbo),
    /// [`Cbbo1s`](super::Kind::Cbbo1s) and [`Cbbo1m`](super::Kind::Cbbo1m).
    Consolidated(ConsolidatedRecord),
    /// Kinds [`Bbo1s`](super::Kind::Bbo1s) and [`Bbo1m`](super::Kind::Bbo1m).
    Bbo(BboRecord),
    /// An unknown type byte.
    Unknown {
        /// The type byte.
        rtype: u8,
    },
}

/// Letters of the field `action`.
pub mod action {
    /// A new order.
    pub const ADD: u8 = b'A';
    /// An order shrinks or is removed.
    pub const CANCEL: u8 = b'C';
    /// An order's price or size changes.
    pub const MODIFY: u8 = b'M';
    /// All orders of the instrument are removed.
    pub const CLEAR: u8 = b'R';
    /// An aggressor traded. Does not change the book.
    pub const TRADE: u8 = b'T';
    /// A resting order was filled. Does not change the book: a cancel follows.
    pub const FILL: u8 = b'F';
    /// No action; the flags may still matter.
    pub const NONE: u8 = b'N';
}

/// Letters of the field `side`.
pub mod side {
    /// A buy order, or a buying aggressor.
    pub const BID: u8 = b'B';
    /// A sell order, or a selling aggressor.
    pub const ASK: u8 = b'A';
    /// No side, or unknown.
    pub const NONE: u8 = b'N';
}

/// Bits of the field `flags`.
pub mod flag {
    /// Last record of the event for its instrument: the book is consistent again.
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
    /// Meaning depends on the publisher.
    pub const PUBLISHER_SPECIFIC: u8 = 1 << 1;
}

/// Declares a record: the offset of each field, and its reader.
macro_rules! record {
    (
        $(#[$doc:meta])* $name:ident[$length:literal]:
        $(#[$header_doc:meta])* header,
        $($(#[$field_doc:meta])* $field:ident: $integer:ty = $offset:literal,)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $(#[$header_doc])*
            pub header: RecordHeader,
            $($(#[$field_doc])* pub $field: $integer,)*
        }

        impl $name {
            #[inline]
            pub(super) fn read(bytes: &[u8; $length]) -> Self {
                Self {
                    header: RecordHeader::read(bytes),
                    $($field: <$integer>::from_le_bytes(array(bytes, $offset)),)*
                }
            }
        }
    };
}

record! {
    /// One event of one order.
    MboRecord[56]:
    /// Common header.
    header,
    /// The venue's number of the order.
    order_id: u64 = 16,
    /// Price of the order or trade.
    price: i64 = 24,
    /// Size of the order, or the part cancelled or traded.
    size: u32 = 32,
    /// See [`flag`].
    flags: u8 = 36,
    /// The venue's channel.
    channel_id: u8 = 37,
    /// See [`action`].
    action: u8 = 38,
    /// See [`side`].
    side: u8 = 39,
    /// Time of capture.
    ts_recv: u64 = 40,
    /// Nanoseconds from sending to capture.
    ts_in_delta: i32 = 48,
    /// The venue's sequence number.
    sequence: u32 = 52,
}

record! {
    /// One trade.
    TradeRecord[48]:
    /// Common header.
    header,
    /// Price of the trade.
    price: i64 = 16,
    /// Size of the trade.
    size: u32 = 24,
    /// See [`action`]; always a trade.
    action: u8 = 28,
    /// Side of the aggressor, see [`side`].
    side: u8 = 29,
    /// See [`flag`].
    flags: u8 = 30,
    /// Level of the book the trade happened at.
    depth: u8 = 31,
    /// Time of capture.
    ts_recv: u64 = 32,
    /// Nanoseconds from sending to capture.
    ts_in_delta: i32 = 40,
    /// The venue's sequence number.
    sequence: u32 = 44,
}

/// An event of the book and the levels after it (before it, in the `tbbo` schema).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MbpRecord<'a> {
    /// The event, with the layout of a trade.
    pub event: TradeRecord,
    /// The best level.
    pub top: BidAsk,
    /// All levels as bytes, 32 bytes each.
    pub(super) levels: &'a [u8],
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
    /// Bid size.
    pub bid_size: u32,
    /// Ask size.
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
    /// Time of capture, or end of the interval.
    pub ts_recv: u64,
    /// Nanoseconds from sending to capture; 0 in the interval kinds.
    pub ts_in_delta: i32,
    /// The best level.
    pub top: ConsolidatedBidAsk,
}

record! {
    /// One bar.
    OhlcvRecord[56]:
    /// Common header; its time is the beginning of the bar.
    header,
    /// First price.
    open: i64 = 16,
    /// Highest price.
    high: i64 = 24,
    /// Lowest price.
    low: i64 = 32,
    /// Last price.
    close: i64 = 40,
    /// Size traded.
    volume: u64 = 48,
}

record! {
    /// Trading state of an instrument.
    StatusRecord[40]:
    /// Common header.
    header,
    /// Time of capture.
    ts_recv: u64 = 16,
    /// Databento's number of the change.
    action: u16 = 24,
    /// Databento's number of the reason.
    reason: u16 = 26,
    /// Databento's number of the trading event.
    trading_event: u16 = 28,
    /// `b'Y'`, `b'N'`, or `b'~'` for unknown.
    is_trading: u8 = 30,
    /// `b'Y'`, `b'N'`, or `b'~'` for unknown.
    is_quoting: u8 = 31,
    /// `b'Y'`, `b'N'`, or `b'~'` for unknown.
    is_short_sell_restricted: u8 = 32,
}

/// Definition of an instrument. Texts end at the first NUL or invalid UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefinitionRecord<'a> {
    /// Common header.
    pub header: RecordHeader,
    /// Time of capture.
    pub ts_recv: u64,
    /// Tick size: the smallest difference between two prices.
    pub min_price_increment: i64,
    /// Factor from the venue's display price to the price, in units of 1e-9.
    pub display_factor: i64,
    /// Last time the instrument can be traded.
    pub expiration: u64,
    /// First time the instrument can be traded.
    pub activation: u64,
    /// Highest price allowed on the day.
    pub high_limit_price: i64,
    /// Lowest price allowed on the day.
    pub low_limit_price: i64,
    /// Strike price of an option.
    pub strike_price: i64,
    /// The venue's own number of the instrument.
    pub raw_instrument_id: u64,
    /// Smallest quantity of an order; `i32::MAX` for none.
    pub min_lot_size: i32,
    /// Smallest quantity of a trade; `u32::MAX` for none.
    pub min_trade_volume: u32,
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

record! {
    /// Imbalance of an auction.
    ImbalanceRecord[112]:
    /// Common header.
    header,
    /// Time of capture.
    ts_recv: u64 = 16,
    /// Price used to calculate the sizes.
    reference_price: i64 = 24,
    /// Indicative price of the auction.
    indicative_match_price: i64 = 64,
    /// Size that would match.
    paired_size: u32 = 88,
    /// Size that would not match.
    imbalance_size: u32 = 92,
    /// The venue's letter of the auction.
    auction_type: u8 = 104,
    /// Side of the imbalance, see [`side`].
    side: u8 = 105,
}

/// A statistic of the venue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatisticsRecord {
    /// Common header.
    pub header: RecordHeader,
    /// Time of capture.
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
    /// Flags; the meaning depends on the statistic.
    pub flags: u8,
}

/// Error from a live gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRecord<'a> {
    /// Common header.
    pub header: RecordHeader,
    /// The error text.
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

/// Symbol of an instrument id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolMappingRecord<'a> {
    /// Common header with the instrument id.
    pub header: RecordHeader,
    /// The subscribed symbol.
    pub stype_in_symbol: &'a str,
    /// The symbol of the instrument.
    pub stype_out_symbol: &'a str,
    /// Start of the mapping.
    pub start_ts: u64,
    /// End of the mapping.
    pub end_ts: u64,
}

impl Record<'_> {
    /// Returns the time of the event at the venue, or that of the capture if it is not known. For a
    /// record of a snapshot this is the time of the snapshot. 0 if no time is known, as in a record
    /// of unknown type.
    ///
    /// Within one instrument this time never decreases, so it serves as the clock of a replay.
    /// The headers of a snapshot's orders keep their original, older times.
    pub fn source_time_ns(&self) -> u64 {
        match self {
            Self::Mbo(record) => record.source_time_ns(),
            Self::Trade(record) => record.source_time_ns(),
            Self::Mbp1(record) | Self::Mbp10(record) => record.event.source_time_ns(),
            // The end of the interval: the header has the time of the last trade.
            Self::Consolidated(ConsolidatedRecord {
                ts_recv, header, ..
            }) if matches!(Kind::of(header.rtype), Kind::Cbbo1s | Kind::Cbbo1m) => {
                first_known(*ts_recv, header.ts_event)
            }
            Self::Bbo(record) => first_known(record.ts_recv, record.header.ts_event),
            Self::Consolidated(record) => {
                source_time(record.header.ts_event, record.ts_recv, record.flags)
            }
            Self::Ohlcv(record) => first_known(record.header.ts_event, 0),
            Self::Status(record) => source_time(record.header.ts_event, record.ts_recv, 0),
            Self::Definition(record) => source_time(record.header.ts_event, record.ts_recv, 0),
            Self::Imbalance(record) => source_time(record.header.ts_event, record.ts_recv, 0),
            Self::Statistics(record) => source_time(record.header.ts_event, record.ts_recv, 0),
            Self::Error(record) => first_known(record.header.ts_event, 0),
            Self::System(record) => first_known(record.header.ts_event, 0),
            Self::SymbolMapping(record) => first_known(record.header.ts_event, 0),
            Self::Unknown { .. } => 0,
        }
    }
}

impl Record<'_> {
    /// Returns the time by which Databento orders, stores and names records: that of the capture
    /// where the kind has one, else that of the event; 0 if neither is known.
    pub fn index_time_ns(&self) -> u64 {
        let (captured, event) = match self {
            Self::Mbo(record) => (record.ts_recv, record.header.ts_event),
            Self::Trade(record) => (record.ts_recv, record.header.ts_event),
            Self::Mbp1(record) | Self::Mbp10(record) => {
                (record.event.ts_recv, record.event.header.ts_event)
            }
            Self::Consolidated(record) => (record.ts_recv, record.header.ts_event),
            Self::Bbo(record) => (record.ts_recv, record.header.ts_event),
            Self::Definition(record) => (record.ts_recv, record.header.ts_event),
            Self::Status(record) => (record.ts_recv, record.header.ts_event),
            Self::Statistics(record) => (record.ts_recv, record.header.ts_event),
            Self::Imbalance(record) => (record.ts_recv, record.header.ts_event),
            _ => (UNDEFINED_TIME, self.source_time_ns()),
        };
        index_time(captured, event)
    }
}

impl MboRecord {
    /// See [`Record::index_time_ns`].
    #[inline]
    pub fn index_time_ns(&self) -> u64 {
        index_time(self.ts_recv, self.header.ts_event)
    }

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
    /// Returns all levels, best first: one or ten.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = BidAsk> + '_ {
        self.levels.as_chunks::<32>().0.iter().map(bid_ask)
    }
}

/// Returns the time of the capture, else that of the event; 0 if neither is known.
#[inline]
fn index_time(captured: u64, event: u64) -> u64 {
    first_known(captured, event)
}

/// Returns the time of the event, else that of the capture; in a snapshot the other way round, and
/// where the two are more than a day apart: then the event's is no time of the trading day that the
/// record was captured in. 0 if neither is known.
#[inline]
fn source_time(ts_event: u64, ts_recv: u64, flags: u8) -> u64 {
    // A time that is not known is far from the other one, too.
    let is_apart = ts_event.abs_diff(ts_recv) > DAY_NS;
    match flags & flag::SNAPSHOT != 0 || is_apart {
        false => first_known(ts_event, ts_recv),
        true => first_known(ts_recv, ts_event),
    }
}

#[inline]
fn first_known(one: u64, other: u64) -> u64 {
    match (one, other) {
        (0 | UNDEFINED_TIME, 0 | UNDEFINED_TIME) => 0,
        (0 | UNDEFINED_TIME, other) => other,
        (one, _) => one,
    }
}

const DAY_NS: u64 = 86_400_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: [u64; 2] = [0, UNDEFINED_TIME];

    /// A time that was not known went out as one in the year 2554.
    #[test]
    fn each_time_stands_for_the_other_one_if_that_is_not_known() {
        for flags in [0, flag::LAST, flag::SNAPSHOT] {
            let is_snapshot = flags == flag::SNAPSHOT;
            let times = |ts_event, ts_recv| {
                let trade = TradeRecord {
                    header: RecordHeader {
                        ts_event,
                        ..Default::default()
                    },
                    ts_recv,
                    flags,
                    ..Default::default()
                };
                let record = Record::Trade(trade);
                (record.source_time_ns(), record.index_time_ns())
            };
            assert_eq!(times(5, 7), (if is_snapshot { 7 } else { 5 }, 7));
            for unknown in UNKNOWN {
                assert_eq!(times(5, unknown), (5, 5));
                assert_eq!(times(unknown, 7), (7, 7));
                assert_eq!(times(unknown, UNKNOWN[0]), (0, 0));
                assert_eq!(times(unknown, UNKNOWN[1]), (0, 0));
            }
        }
    }

    /// A session began by the time of the capture, and its trades had that of the event: a file
    /// that was replayed again was taken for the next trades of the day.
    #[test]
    fn a_record_whose_event_is_far_from_its_capture_has_the_time_of_the_capture() {
        let captured = 100 * DAY_NS;
        for (distance, is_far) in [(DAY_NS, false), (DAY_NS + 1, true), (90 * DAY_NS, true)] {
            for event in [captured - distance, captured + distance] {
                let expected = if is_far { captured } else { event };
                assert_eq!(source_time(event, captured, 0), expected);
                assert_eq!(source_time(event, captured, flag::SNAPSHOT), captured);
            }
        }
    }

    #[test]
    fn samples_and_bars_without_a_time_have_none() {
        for (ts_recv, ts_event, time_ns) in [
            (9, 5, 9),
            (UNDEFINED_TIME, 5, 5),
            (0, UNDEFINED_TIME, 0),
            (UNDEFINED_TIME, UNDEFINED_TIME, 0),
        ] {
            let header = |rtype| RecordHeader {
                rtype,
                ts_event,
                ..Default::default()
            };
            let sample = Record::Bbo(BboRecord {
                header: header(0xC3),
                ts_recv,
                ..Default::default()
            });
            let consolidated = Record::Consolidated(ConsolidatedRecord {
                header: header(0xC0),
                ts_recv,
                ..Default::default()
            });
            for record in [sample, consolidated] {
                assert_eq!(record.source_time_ns(), time_ns);
                assert_eq!(record.index_time_ns(), time_ns);
            }
        }
        let bar = Record::Ohlcv(OhlcvRecord {
            header: RecordHeader {
                ts_event: UNDEFINED_TIME,
                ..Default::default()
            },
            ..Default::default()
        });
        assert_eq!((bar.source_time_ns(), bar.index_time_ns()), (0, 0));
    }
}
