//! DBN records of version 3 or 2, as a live gateway sends them. `docs/dbn.md` describes the
//! layouts.

use super::class::Form;
use crate::{BidAsk, Kind, UNDEFINED_TIME, flag, side, to_version_2};
use tidewire_feed::wire::{Definition, TradingState, UNDEFINED_PRICE};

/// Maximum bytes of a message's text, without its NUL.
pub const TEXT_LENGTH_MAX: usize = 301;

/// The fields that trades, quotes and intervals share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the instrument.
    pub instrument_id: u32,
    /// Number of the publisher.
    pub publisher_id: u16,
    /// Time of the event at the source, nanoseconds since the UNIX epoch.
    pub ts_event: u64,
    /// Time of receipt, nanoseconds since the UNIX epoch; for an interval its end.
    pub ts_recv: u64,
    /// The stream's sequence number; its lower 32 bits are sent.
    pub sequence: u64,
    /// Price of the trade, or of the side that changed.
    pub price: i64,
    /// Size of the trade, or of the side that changed.
    pub size: u32,
    /// See [`crate::side`].
    pub side: u8,
    /// See [`crate::action`].
    pub action: u8,
    /// See [`crate::flag`]; the writer adds [`flag::LAST`].
    pub flags: u8,
}

/// Codes of system messages.
pub mod system_code {
    /// The connection was idle for one heartbeat interval.
    pub const HEARTBEAT: u8 = 0;
    /// A subscription was accepted.
    pub const SUBSCRIPTION_ACK: u8 = 1;
    /// The client is falling behind.
    pub const SLOW_READER_WARNING: u8 = 2;
    /// A replay has reached the live stream.
    pub const REPLAY_COMPLETED: u8 = 3;
    /// All records of an interval have been sent.
    pub const END_OF_INTERVAL: u8 = 4;
    /// A subscription has ended.
    pub const UNSUBSCRIBE_ACK: u8 = 5;
}

/// Codes of errors.
pub mod error_code {
    /// Unknown symbols.
    pub const SYMBOL_RESOLUTION_FAILED: u8 = 4;
    /// An invalid subscription.
    pub const INVALID_SUBSCRIPTION: u8 = 5;
    /// An error of the gateway, such as its end.
    pub const INTERNAL_ERROR: u8 = 6;
    /// Records were skipped because the client was slow.
    pub const SKIPPED_RECORDS: u8 = 7;
}

/// A writer of metadata and records to the caller's buffer.
#[derive(Debug)]
pub struct RecordWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Send time to append to each record, if the client asked for it.
    ts_out: Option<u64>,
    /// Version of DBN: 2 or 3.
    version: u8,
    /// The publisher of records whose source has no number.
    publisher: u16,
}

impl<'a> RecordWriter<'a> {
    /// Creates a writer at the end of `out`, of DBN version 2 or 3. With `ts_out`, each record
    /// carries that time. A record whose publisher is 0 gets `publisher`.
    pub fn new(out: &'a mut Vec<u8>, ts_out: Option<u64>, version: u8, publisher: u16) -> Self {
        debug_assert!(matches!(version, 2 | 3), "the layouts that are written");
        Self {
            out,
            ts_out,
            version,
            publisher,
        }
    }

    /// Writes the metadata at the start of a session: mixed schemas and symbologies, open end.
    pub fn metadata(&mut self, dataset: &str, start_ns: u64) {
        let out = &mut *self.out;
        let start = out.len();
        out.extend_from_slice(&[b'D', b'B', b'N', self.version]);
        out.extend_from_slice(&(METADATA_LENGTH as u32 - 8).to_le_bytes());
        put_text(out, dataset, 16);
        out.extend_from_slice(&u16::MAX.to_le_bytes());
        out.extend_from_slice(&start_ns.to_le_bytes());
        out.extend_from_slice(&UNDEFINED_TIME.to_le_bytes());
        // No limit; symbols of any symbology, mapped to instrument ids.
        out.extend_from_slice(&0_u64.to_le_bytes());
        out.extend_from_slice(&[u8::MAX, 0, u8::from(self.ts_out.is_some())]);
        out.extend_from_slice(&(SYMBOL_LENGTH as u16).to_le_bytes());
        out.resize(start + METADATA_LENGTH, 0);
    }

    /// Writes a `trades` record.
    pub fn trade(&mut self, event: &Event) {
        let start = self.begin_event(0x00, event);
        self.event(event);
        self.end(start);
    }

    /// Writes an `mbp-1` or `tbbo` record.
    pub fn best_prices(&mut self, event: &Event, prices: &BidAsk) {
        let start = self.begin_event(0x01, event);
        self.event(event);
        self.level(prices);
        self.end(start);
    }

    /// Writes a `bbo-1s` or, with `is_minute`, a `bbo-1m` record; `event` is the last trade.
    pub fn interval(&mut self, event: &Event, prices: &BidAsk, is_minute: bool) {
        let start = self.begin_event(if is_minute { 0xC4 } else { 0xC3 }, event);
        self.put(&event.price.to_le_bytes());
        self.put(&event.size.to_le_bytes());
        self.put(&[0, event.side, event.flags | flag::LAST, 0]);
        self.put(&event.ts_recv.to_le_bytes());
        self.put(&[0; 4]);
        self.put(&(event.sequence as u32).to_le_bytes());
        self.level(prices);
        self.end(start);
    }

    /// Writes a `status` record.
    pub fn status(&mut self, event: &Event, state: TradingState, reason: u32) {
        let (action, is_trading, is_quoting): (u16, u8, u8) = match state {
            TradingState::PRE_OPEN => (1, b'N', b'Y'),
            TradingState::OPEN => (7, b'Y', b'Y'),
            TradingState::AUCTION => (2, b'N', b'Y'),
            TradingState::HALTED => (8, b'N', b'~'),
            TradingState::PAUSED => (9, b'N', b'~'),
            TradingState::CLOSED => (12, b'N', b'N'),
            _ => (0, b'~', b'~'),
        };
        let start = self.begin_event(0x12, event);
        self.put(&event.ts_recv.to_le_bytes());
        self.put(&action.to_le_bytes());
        self.put(&u16::try_from(reason).unwrap_or(0).to_le_bytes());
        self.put(&0_u16.to_le_bytes());
        self.put(&[is_trading, is_quoting, b'~']);
        self.put(&[0; 7]);
        self.end(start);
    }

    /// Writes a whole record of version 3 for the instrument `instrument_id`. A definition gets the
    /// name `symbol`.
    pub fn record(&mut self, record: &[u8], instrument_id: u32, publisher_id: u16, symbol: &str) {
        let start = self.out.len();
        self.put(record);
        let publisher_id = self.publisher_of(publisher_id);
        let new = &mut self.out[start..];
        debug_assert!(new.len() >= 16, "a record has its header");
        new[2..4].copy_from_slice(&publisher_id.to_le_bytes());
        new[4..8].copy_from_slice(&instrument_id.to_le_bytes());
        if Kind::of(new[1]) == Kind::Definition
            && let Some(place) = new.get_mut(RAW_SYMBOL..RAW_SYMBOL + SYMBOL_LENGTH)
        {
            let mut text = Vec::with_capacity(SYMBOL_LENGTH);
            put_text(&mut text, symbol, SYMBOL_LENGTH);
            place.copy_from_slice(&text);
        }
        self.convert(start);
        self.end(start);
    }

    /// Writes a `definition` record of the instrument `instrument_id`: what the feed's own message
    /// gives, a class by the form of its name, and "undefined" for the rest.
    pub fn definition(&mut self, definition: &Definition, instrument_id: u32, ts_recv: u64) {
        let source_time_ns = definition.source_time_ns;
        let form = Form::of(definition.name.as_str(), ts_recv);
        let start = self.begin(0x13, instrument_id, definition.source, source_time_ns);
        self.put(&ts_recv.to_le_bytes());
        let tick = match definition.price_tick {
            0 => UNDEFINED_PRICE,
            tick => tick,
        };
        self.put(&tick.to_le_bytes());
        // Display factor 1, then unknown times and prices, up to the strike.
        self.put(&1_000_000_000_i64.to_le_bytes());
        self.put([UNDEFINED_TIME; 2].map(u64::to_le_bytes).as_flattened());
        self.put([UNDEFINED_PRICE; 7].map(i64::to_le_bytes).as_flattened());
        self.put(&u64::from(instrument_id).to_le_bytes());
        self.put([UNDEFINED_PRICE; 2].map(i64::to_le_bytes).as_flattened());
        let lot = match definition.lot_size {
            0 => i32::MAX,
            lot => i32::try_from(lot).unwrap_or(i32::MAX),
        };
        let (none, no_count) = (i32::MAX, u32::MAX as i32);
        // Attributes, underlying, depths, segment, largest trade, lots, smallest trade,
        // multiplier, decay, original size; then no legs.
        let numbers = [
            none, 0, none, none, no_count, no_count, none, none, lot, no_count, none, none, none,
            0, 0, 0, 0, 0, 0,
        ];
        self.put(numbers.map(i32::to_le_bytes).as_flattened());
        self.put(&i16::MAX.to_le_bytes());
        self.put(
            [u16::MAX, u16::MAX, u16::MAX, 0, 0]
                .map(u16::to_le_bytes)
                .as_flattened(),
        );
        self.put(&definition.currency);
        self.put(&[0; 4 + 6]);
        self.text(definition.name.as_str(), SYMBOL_LENGTH);
        self.put(&[0; 21 + 5 + 11 + 7 + 7 + 31 + 21 + 4 + SYMBOL_LENGTH]);
        // Class; undefined matching; no display fields; added; no expiry day; not
        // user-defined; no leg side.
        self.put(&[form.class, b' ', u8::MAX, u8::MAX, u8::MAX, u8::MAX, b'A']);
        self.put(&[
            u8::MAX,
            u8::MAX,
            u8::MAX,
            b'N',
            0x7f,
            0x7f,
            u8::MAX,
            0,
            side::NONE,
        ]);
        self.put(&[0; 17]);
        self.set_form(start, &form);
        self.convert(start);
        self.end(start);
    }

    /// Writes a symbol mapping: which instrument a symbol stands for from now on.
    pub fn mapping(
        &mut self,
        instrument_id: u32,
        publisher_id: u16,
        now_ns: u64,
        (symbol_type, asked): (u8, &str),
        symbol: &str,
    ) {
        let start = self.begin(0x16, instrument_id, publisher_id, now_ns);
        self.put(&[symbol_type]);
        self.text(asked, SYMBOL_LENGTH);
        // The output symbology is the raw symbol.
        self.put(&[1]);
        self.text(symbol, SYMBOL_LENGTH);
        self.put([UNDEFINED_TIME; 2].map(u64::to_le_bytes).as_flattened());
        self.end(start);
    }

    /// Writes a message of the gateway, see [`system_code`].
    pub fn system(&mut self, now_ns: u64, code: u8, text: &str) {
        let start = self.begin(0x17, 0, 0, now_ns);
        self.text(text, TEXT_LENGTH_MAX + 2);
        self.put(&[code]);
        self.end(start);
    }

    /// Writes an error, see [`error_code`].
    pub fn error(&mut self, now_ns: u64, code: u8, text: &str) {
        let start = self.begin(0x15, 0, 0, now_ns);
        self.text(text, TEXT_LENGTH_MAX + 1);
        self.put(&[code, 1]);
        self.end(start);
    }

    /// Returns the publisher that clients look up: Databento's number, or that of the dataset where
    /// the source has none, or one of the hub's own.
    fn publisher_of(&self, number: u16) -> u16 {
        match number {
            1..PUBLISHERS_MAX => number,
            _ => self.publisher,
        }
    }

    pub(super) fn begin_event(&mut self, rtype: u8, event: &Event) -> usize {
        let (instrument_id, publisher_id) = (event.instrument_id, event.publisher_id);
        self.begin(rtype, instrument_id, publisher_id, event.ts_event)
    }

    pub(super) fn begin(
        &mut self,
        rtype: u8,
        instrument_id: u32,
        publisher_id: u16,
        ts_event: u64,
    ) -> usize {
        let start = self.out.len();
        // The gateway's own messages are about no instrument.
        let publisher_id = match instrument_id {
            0 => publisher_id,
            _ => self.publisher_of(publisher_id),
        };
        self.put(&[0, rtype]);
        self.put(&publisher_id.to_le_bytes());
        self.put(&instrument_id.to_le_bytes());
        self.put(&ts_event.to_le_bytes());
        start
    }

    /// Writes the fields of a trade's record after the header.
    pub(super) fn event(&mut self, event: &Event) {
        self.put(&event.price.to_le_bytes());
        self.put(&event.size.to_le_bytes());
        // The best level is level 0.
        self.put(&[event.action, event.side, event.flags | flag::LAST, 0]);
        self.put(&event.ts_recv.to_le_bytes());
        let delta_ns = event.ts_recv.saturating_sub(event.ts_event);
        self.put(&i32::try_from(delta_ns).unwrap_or(i32::MAX).to_le_bytes());
        self.put(&(event.sequence as u32).to_le_bytes());
    }

    pub(super) fn level(&mut self, prices: &BidAsk) {
        self.put(
            [prices.bid, prices.ask]
                .map(i64::to_le_bytes)
                .as_flattened(),
        );
        let sizes = [
            prices.bid_size,
            prices.ask_size,
            prices.bid_orders,
            prices.ask_orders,
        ];
        self.put(sizes.map(u32::to_le_bytes).as_flattened());
    }

    fn text(&mut self, text: &str, length: usize) {
        put_text(self.out, text, length);
    }

    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Sets those fields of the definition at `start` that the form of its name gives. Clients
    /// refuse a future or an option without expiration, exchange and underlying.
    fn set_form(&mut self, start: usize, form: &Form<'_>) {
        if form.root.is_empty() {
            return;
        }
        let record = &mut self.out[start..];
        let mut set = |offset: usize, bytes: &[u8]| {
            record[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        let root = &form.root.as_bytes()[..form.root.len().min(10)];
        let (year, month) = form.maturity;
        // ISO 10962: a future, a call or a put; the other attributes are unknown.
        let (category, group) = match form.class {
            b'C' => (b'O', b'C'),
            b'P' => (b'O', b'P'),
            _ => (b'F', UNKNOWN),
        };
        let cfi = [category, group, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN];
        if form.class == b'S' {
            // CME's type of a strategy: generic.
            set(232, b"GN");
        }
        set(40, &form.expiration.to_le_bytes());
        set(104, &form.strike.to_le_bytes());
        set(214, &year.to_le_bytes());
        // ISO 10383: no market.
        set(330, &[UNKNOWN; 4]);
        set(335, root);
        set(346, &cfi);
        set(391, root);
        set(494, &[month]);
    }

    /// Converts the record at `start` to the client's version.
    fn convert(&mut self, start: usize) {
        if self.version < 3 {
            let record = self.out.split_off(start);
            to_version_2(&record, self.out);
        }
    }

    /// Writes the record's length into its first byte.
    pub(super) fn end(&mut self, start: usize) {
        if let Some(ts_out) = self.ts_out {
            self.out.extend_from_slice(&ts_out.to_le_bytes());
        }
        let length = self.out.len() - start;
        debug_assert!(length.is_multiple_of(4) && length / 4 <= 255);
        self.out[start] = (length / 4) as u8;
    }
}

/// Appends `text`, cut to `length - 1` bytes, and pads it with zeros to `length`.
fn put_text(out: &mut Vec<u8>, text: &str, length: usize) {
    let mut end = text.len().min(length - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let start = out.len();
    out.extend_from_slice(&text.as_bytes()[..end]);
    out.resize(start + length, 0);
}

/// Bytes of a symbol in version 3, including its NUL.
const SYMBOL_LENGTH: usize = 71;
const METADATA_LENGTH: usize = 128;
/// Offset of the symbol in a definition of version 3.
const RAW_SYMBOL: usize = 238;

/// An attribute that is unknown or does not apply, in ISO 10962 and ISO 10383.
const UNKNOWN: u8 = b'X';
/// Numbers from here on are the hub's own. Databento numbers its publishers from 1 in order.
const PUBLISHERS_MAX: u16 = 32_768;
