//! A symbol's latest value.

use super::bytes::{Field, array_at, i64_at, put, u16_at, u32_at, u64_at};
use super::message::prefix;
use super::{
    Certainty, Message, MessageKind, ReferenceKind, SessionStart, SessionState, Trade,
    TradingState, UNDEFINED_PRICE,
};

/// A symbol's latest value, as a record of a snapshot: 96 bytes, or 176 with its figures.
///
/// A receiver keeps the newer of this and its own value, by `sequence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastValue {
    /// The symbol's id.
    pub symbol: u32,
    /// Source of the last change.
    pub source: u16,
    /// Source time of the last change, nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Stream sequence of the last change; 0 before the first message.
    pub sequence: u64,
    /// Best bid price, 1 unit = 1e-9.
    pub bid: i64,
    /// Best ask price, 1 unit = 1e-9.
    pub ask: i64,
    /// Quantity at the best bid.
    pub bid_size: u32,
    /// Quantity at the best ask.
    pub ask_size: u32,
    /// Orders at the best bid; 0 if unknown.
    pub bid_orders: u32,
    /// Orders at the best ask; 0 if unknown.
    pub ask_orders: u32,
    /// Price of the last trade, 1 unit = 1e-9.
    pub last: i64,
    /// Quantity of the last trade.
    pub last_size: u32,
    /// Trading state.
    pub state: TradingState,
    /// Quantity traded in the session.
    pub volume: u64,
    /// The session's open or reference price, 1 unit = 1e-9.
    pub open: i64,
    /// Messages that changed this value in the session.
    pub updates: u64,
    /// The session's other figures, for receivers that read them.
    pub figures: Option<Figures>,
}

/// The part of a [`LastValue`] that earlier receivers do not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Highest trade of the session, 1 unit = 1e-9.
    pub high: i64,
    /// Lowest trade of the session, 1 unit = 1e-9.
    pub low: i64,
    /// Sum of price times quantity over the session's trades, 1 unit = 1e-9.
    pub turnover: i128,
    /// Price from which the change is measured, 1 unit = 1e-9; none if it is the open.
    pub reference: i64,
    /// Number of trades of the session.
    pub trades: u32,
    /// Condition bits of the last trade.
    pub condition: u32,
    /// Reason of the trading state.
    pub reason: u32,
    /// Trading day as the number `YYYYMMDD`; 0 if unknown.
    pub trading_day: u32,
    /// What `reference` is.
    pub reference_kind: ReferenceKind,
    /// [`Figures::STALE`], [`Figures::IN_DOUBT`], [`Figures::AWAY`].
    pub flags: u8,
    /// First trade of the session, 1 unit = 1e-9; [`UNDEFINED_PRICE`] if there is none or it is
    /// unknown.
    pub first_trade: i64,
    /// Source time of the latest trade of any session, nanoseconds since the UNIX epoch; 0 if
    /// unknown. The last trade may have come late, with an earlier time.
    pub traded_until_ns: u64,
}

impl Figures {
    /// Bit of [`Figures::flags`]: the source is gone or silent.
    pub const STALE: u8 = 1;
    /// Bit of [`Figures::flags`]: messages are missing.
    pub const IN_DOUBT: u8 = 2;
    /// Bit of [`Figures::flags`]: a hub that gives the value, or a part of it, is away. It may have
    /// trades meanwhile. Beside [`Figures::STALE`] or without it, where others give the rest.
    pub const AWAY: u8 = 8;

    fn add(&mut self, trade: &Trade) {
        if self.high == UNDEFINED_PRICE {
            self.first_trade = trade.price;
        }
        if self.high == UNDEFINED_PRICE || trade.price > self.high {
            self.high = trade.price;
        }
        // The undefined price is the largest number, so every trade is below it.
        self.low = self.low.min(trade.price);
        let product = i128::from(trade.price) * i128::from(trade.size);
        self.turnover = self.turnover.saturating_add(product);
        self.trades = self.trades.wrapping_add(1);
        self.condition = trade.condition;
        self.traded_until_ns = self.traded_until_ns.max(trade.source_time_ns);
    }
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            high: UNDEFINED_PRICE,
            low: UNDEFINED_PRICE,
            turnover: 0,
            reference: UNDEFINED_PRICE,
            trades: 0,
            condition: 0,
            reason: 0,
            trading_day: 0,
            reference_kind: ReferenceKind::NONE,
            flags: 0,
            first_trade: UNDEFINED_PRICE,
            traded_until_ns: 0,
        }
    }
}

impl LastValue {
    /// Creates the value of a symbol without any message yet.
    pub fn new(symbol: u32) -> LastValue {
        LastValue {
            symbol,
            source: 0,
            source_time_ns: 0,
            sequence: 0,
            bid: UNDEFINED_PRICE,
            ask: UNDEFINED_PRICE,
            bid_size: 0,
            ask_size: 0,
            bid_orders: 0,
            ask_orders: 0,
            last: UNDEFINED_PRICE,
            last_size: 0,
            state: TradingState::UNKNOWN,
            volume: 0,
            open: UNDEFINED_PRICE,
            updates: 0,
            figures: None,
        }
    }

    /// Applies a stream's message about this symbol if it is newer. A trade without price changes
    /// nothing. Returns whether the value changed.
    #[inline]
    pub fn apply(&mut self, sequence: u64, message: &Message) -> bool {
        if sequence <= self.sequence || message.symbol() != Some(self.symbol) {
            return false;
        }
        match message {
            Message::Trade(trade) if trade.price == UNDEFINED_PRICE => return false,
            Message::Trade(trade) => {
                self.last = trade.price;
                self.last_size = trade.size;
                if self.open == UNDEFINED_PRICE && self.awaits_trade() {
                    self.open = trade.price;
                }
                self.volume = self.volume.saturating_add(u64::from(trade.size));
                if let Some(figures) = &mut self.figures {
                    figures.add(trade);
                }
                self.stamp(sequence, trade.source, trade.source_time_ns);
            }
            Message::Quote(quote) => {
                self.bid = quote.bid;
                self.ask = quote.ask;
                self.bid_size = quote.bid_size;
                self.ask_size = quote.ask_size;
                self.bid_orders = quote.bid_orders;
                self.ask_orders = quote.ask_orders;
                self.stamp(sequence, quote.source, quote.source_time_ns);
            }
            Message::Status(status) => {
                self.state = status.state;
                if let Some(figures) = &mut self.figures {
                    figures.reason = status.reason;
                }
                self.stamp(sequence, status.source, status.source_time_ns);
            }
            Message::Definition(definition) => {
                // Without an open it says nothing of the session.
                if definition.open != UNDEFINED_PRICE {
                    self.open = definition.open;
                }
                self.stamp(sequence, definition.source, definition.source_time_ns);
            }
            Message::Certainty(certainty) => {
                let figures = self.figures.get_or_insert_default();
                figures.flags = certainty.flags & !(Certainty::LOST | Certainty::OTHER);
                self.sequence = sequence;
            }
            Message::SessionStart(start) => {
                let Some(decided) = start.decide(&self.session_state()) else {
                    return false;
                };
                self.begin_session(&decided);
                if let Some(open) = start.open_beside(&decided) {
                    self.begin_session(&open);
                }
                self.stamp(sequence, start.source, start.source_time_ns);
            }
            _ => return false,
        }
        true
    }

    /// Returns whether the session has no trade. The open of one that has trades may be unknown.
    #[inline]
    fn awaits_trade(&self) -> bool {
        match &self.figures {
            Some(figures) => figures.high == UNDEFINED_PRICE,
            None => self.volume == 0,
        }
    }

    /// Returns what is known of the session; nothing of its day without figures.
    #[cold]
    fn session_state(&self) -> SessionState {
        let figures = self.figures.unwrap_or_default();
        SessionState {
            trading_day: figures.trading_day,
            open: self.open,
            first_trade: figures.first_trade,
            reference: figures.reference,
            kind: figures.reference_kind,
            traded_until_ns: match self.volume {
                0 => 0,
                _ => self.source_time_ns,
            },
        }
    }

    /// Begins a session, or takes the price that a message gives the current one.
    #[cold]
    fn begin_session(&mut self, start: &SessionStart) {
        let is_open = start.kind == ReferenceKind::OPEN;
        let begins = start.rolls != SessionStart::KEEPS;
        if begins {
            (self.volume, self.open) = (0, UNDEFINED_PRICE);
        }
        if is_open {
            self.open = start.reference;
        }
        if let Some(figures) = &mut self.figures {
            if begins {
                *figures = Figures {
                    reason: figures.reason,
                    flags: figures.flags,
                    trading_day: start.trading_day,
                    traded_until_ns: figures.traded_until_ns,
                    ..Figures::default()
                };
            }
            if !is_open {
                (figures.reference, figures.reference_kind) = (start.reference, start.kind);
            }
        }
    }

    /// Returns the price from which the change is measured, 1 unit = 1e-9, or
    /// [`UNDEFINED_PRICE`].
    pub fn change_base(&self) -> i64 {
        match self.figures.map(|figures| figures.reference) {
            None | Some(UNDEFINED_PRICE) => self.open,
            Some(reference) => reference,
        }
    }

    /// Applies a snapshot's record of this symbol unless it is older. Returns whether it was
    /// applied.
    ///
    /// A record with an equal sequence is applied too: it is complete, while our value may have
    /// started after a loss.
    pub fn merge(&mut self, record: &LastValue) -> bool {
        if record.symbol != self.symbol || record.sequence < self.sequence {
            return false;
        }
        *self = *record;
        true
    }

    fn stamp(&mut self, sequence: u64, source: u16, source_time_ns: u64) {
        self.sequence = sequence;
        self.source = source;
        self.source_time_ns = source_time_ns;
        self.updates = self.updates.saturating_add(1);
    }
}

impl LastValue {
    /// Bytes on the wire without figures.
    pub const LENGTH: usize = 96;
    /// Bytes on the wire with figures.
    pub const LONG_LENGTH: usize = 176;

    #[inline(always)]
    pub(super) fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        Self {
            symbol: u32_at(bytes, 4),
            source: u16_at(bytes, 2),
            source_time_ns: u64_at(bytes, 8),
            sequence: u64_at(bytes, 16),
            bid: i64_at(bytes, 24),
            ask: i64_at(bytes, 32),
            bid_size: u32_at(bytes, 40),
            ask_size: u32_at(bytes, 44),
            bid_orders: u32_at(bytes, 48),
            ask_orders: u32_at(bytes, 52),
            last: i64_at(bytes, 56),
            last_size: u32_at(bytes, 64),
            state: Field::read(bytes, 68),
            volume: u64_at(bytes, 72),
            open: i64_at(bytes, 80),
            updates: u64_at(bytes, 88),
            figures: None,
        }
    }

    pub(super) fn from_long_bytes(bytes: &[u8; Self::LONG_LENGTH]) -> Self {
        let turnover = u128::from(u64_at(bytes, 120)) << 64 | u128::from(u64_at(bytes, 112));
        Self {
            figures: Some(Figures {
                high: i64_at(bytes, 96),
                low: i64_at(bytes, 104),
                turnover: turnover as i128,
                reference: i64_at(bytes, 128),
                trades: u32_at(bytes, 136),
                condition: u32_at(bytes, 140),
                reason: u32_at(bytes, 144),
                trading_day: u32_at(bytes, 148),
                reference_kind: Field::read(bytes, 152),
                flags: bytes[153],
                first_trade: match bytes[154] {
                    FIRST_TRADE_GIVEN => i64_at(bytes, 160),
                    _ => UNDEFINED_PRICE,
                },
                traded_until_ns: u64_at(bytes, 168),
            }),
            ..Self::from_bytes(&array_at(bytes, 0))
        }
    }

    /// Appends the encoded value, with its figures if it has them.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match &self.figures {
            None => out.extend_from_slice(&self.to_bytes()),
            Some(figures) => out.extend_from_slice(&self.to_long_bytes(figures)),
        }
    }

    /// Encodes the value without its figures.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(
            MessageKind::LAST_VALUE,
            self.source,
            self.symbol,
            self.source_time_ns,
        );
        self.write(&mut bytes);
        bytes
    }

    /// Encodes the value with its figures.
    fn to_long_bytes(self, figures: &Figures) -> [u8; Self::LONG_LENGTH] {
        let mut bytes = prefix(
            MessageKind::LAST_VALUE_LONG,
            self.source,
            self.symbol,
            self.source_time_ns,
        );
        self.write(&mut bytes);
        put(&mut bytes, 96, figures.high.to_le_bytes());
        put(&mut bytes, 104, figures.low.to_le_bytes());
        put(&mut bytes, 112, figures.turnover.to_le_bytes());
        put(&mut bytes, 128, figures.reference.to_le_bytes());
        put(&mut bytes, 136, figures.trades.to_le_bytes());
        put(&mut bytes, 140, figures.condition.to_le_bytes());
        put(&mut bytes, 144, figures.reason.to_le_bytes());
        put(&mut bytes, 148, figures.trading_day.to_le_bytes());
        put(&mut bytes, 152, [figures.reference_kind.0, figures.flags]);
        if figures.first_trade != UNDEFINED_PRICE {
            bytes[154] = FIRST_TRADE_GIVEN;
            put(&mut bytes, 160, figures.first_trade.to_le_bytes());
        }
        put(&mut bytes, 168, figures.traded_until_ns.to_le_bytes());
        bytes
    }

    /// Writes what both forms have, behind the prefix.
    fn write<const N: usize>(&self, bytes: &mut [u8; N]) {
        put(bytes, 16, self.sequence.to_le_bytes());
        put(bytes, 24, self.bid.to_le_bytes());
        put(bytes, 32, self.ask.to_le_bytes());
        put(bytes, 40, self.bid_size.to_le_bytes());
        put(bytes, 44, self.ask_size.to_le_bytes());
        put(bytes, 48, self.bid_orders.to_le_bytes());
        put(bytes, 52, self.ask_orders.to_le_bytes());
        put(bytes, 56, self.last.to_le_bytes());
        put(bytes, 64, self.last_size.to_le_bytes());
        bytes[68] = self.state.0;
        put(bytes, 72, self.volume.to_le_bytes());
        put(bytes, 80, self.open.to_le_bytes());
        put(bytes, 88, self.updates.to_le_bytes());
    }
}

/// Byte 154 of a value with figures whose first trade is at byte 160.
const FIRST_TRADE_GIVEN: u8 = 1;
