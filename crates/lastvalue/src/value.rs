//! Plain values that are stored in a slot and read from it, without atomics.

/// The price for "none": no bid, or no trade yet.
pub const PRICE_UNDEFINED: i64 = i64::MAX;

/// The turnover of a session of which only the volume is known. Trades are added to it; it stays
/// far below any true sum.
pub const TURNOVER_UNKNOWN: i128 = i128::MIN / 2;

/// Flag of [`MarketValue::flags`]: the source is disconnected or silent; the value may be old.
pub const FLAG_STALE: u32 = 1;
/// Flag of [`MarketValue::flags`]: trading in this symbol is halted.
pub const FLAG_HALTED: u32 = 2;
/// Flag of [`MarketValue::flags`]: messages of the source are missing and have been requested; the
/// value may be wrong until they arrive.
pub const FLAG_DOUBT: u32 = 1 << 7;
/// Flag of [`MarketValue::flags`]: the source says that the value may be old.
pub const FLAG_UPSTREAM_STALE: u32 = 1 << 8;
/// Flag of [`MarketValue::flags`]: the source says that messages are missing.
pub const FLAG_UPSTREAM_DOUBT: u32 = 1 << 9;
/// Flags of a value that may be old.
pub const FLAGS_STALE: u32 = FLAG_STALE | FLAG_UPSTREAM_STALE;
/// Flags of a value whose messages are known to be incomplete.
pub const FLAGS_DOUBT: u32 = FLAG_DOUBT | FLAG_UPSTREAM_DOUBT;

/// The best bid and offer. A side without orders has [`PRICE_UNDEFINED`] and size 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// Best bid, 1 unit = 1e-9.
    pub bid: i64,
    /// Best offer, 1 unit = 1e-9.
    pub ask: i64,
    /// Quantity at the best bid.
    pub bid_size: u32,
    /// Quantity at the best offer.
    pub ask_size: u32,
    /// Orders at the best bid; 0 if unknown.
    pub bid_orders: u32,
    /// Orders at the best offer; 0 if unknown.
    pub ask_orders: u32,
}

impl Quote {
    /// No price on either side.
    pub const EMPTY: Self = Self {
        bid: PRICE_UNDEFINED,
        ask: PRICE_UNDEFINED,
        bid_size: 0,
        ask_size: 0,
        bid_orders: 0,
        ask_orders: 0,
    };
}

/// One trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trade {
    /// Price, 1 unit = 1e-9. A trade without a price ([`PRICE_UNDEFINED`]) changes no figure.
    pub price: i64,
    /// Quantity traded.
    pub size: u32,
    /// Condition bits, as the source's stream encodes them.
    pub condition: u32,
}

/// Trading status of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// State as the native feed encodes it; 0 if unknown.
    pub state: u8,
    /// Reason code, as the source's stream encodes it; 0 for none.
    pub reason: u32,
}

/// The price from which the session's change is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// Price, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub price: i64,
    /// What it is, as the native feed encodes it; 0 for none. Without one the change is measured
    /// from the session's open.
    pub kind: u8,
}

impl Reference {
    /// There is none.
    pub const NONE: Self = Self {
        price: PRICE_UNDEFINED,
        kind: 0,
    };
}

/// The beginning of a trading session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSession {
    /// The session's open, 1 unit = 1e-9, or [`PRICE_UNDEFINED`]: then its first trade is the
    /// open.
    pub open: i64,
    /// The price from which the change is measured.
    pub reference: Reference,
    /// The trading day as the number `YYYYMMDD`; 0 if unknown.
    pub trading_day: u32,
}

/// Numbers of the venues that a consolidated value comes from; [`Venues::NO_VENUE`] where there is
/// none, and in a value that is not consolidated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Venues {
    /// Venue of the best bid.
    pub bid: u16,
    /// Venue of the best offer.
    pub ask: u16,
    /// Venue of the last trade.
    pub last: u16,
}

impl Venues {
    /// No venue.
    pub const NO_VENUE: u16 = u16::MAX;
    /// None at all.
    pub const NONE: Self = Self {
        bid: Self::NO_VENUE,
        ask: Self::NO_VENUE,
        last: Self::NO_VENUE,
    };

    pub(crate) const fn word(self) -> u64 {
        self.bid as u64 | (self.ask as u64) << 16 | (self.last as u64) << 32
    }
}

/// The time and the sequence of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Time of the event by the source's clock: nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Time of receipt: nanoseconds since the UNIX epoch.
    pub receive_time_ns: u64,
    /// Sequence in the source's stream, from 1; 0 if the source has none.
    pub sequence: u64,
}

/// A consistent copy of a slot's first cache line: quote and last trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopOfBook {
    /// Number of updates of the slot; 0 if it was never written.
    pub updates: u64,
    /// Best bid, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub bid: i64,
    /// Best offer, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub ask: i64,
    /// Quantity at the best bid.
    pub bid_size: u32,
    /// Quantity at the best offer.
    pub ask_size: u32,
    /// Price of the last trade, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub last: i64,
    /// Quantity of the last trade.
    pub last_size: u32,
    /// [`FLAG_STALE`], [`FLAG_HALTED`], [`FLAG_DOUBT`].
    pub flags: u32,
    /// Source time of the newest update: nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Sequence of the newest update in its source's stream.
    pub sequence: u64,
}

/// A consistent copy of a whole slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketValue {
    /// Number of updates of the slot; 0 if it was never written.
    pub updates: u64,
    /// Best bid, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub bid: i64,
    /// Best offer, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub ask: i64,
    /// Quantity at the best bid.
    pub bid_size: u32,
    /// Quantity at the best offer.
    pub ask_size: u32,
    /// Price of the last trade, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub last: i64,
    /// Quantity of the last trade.
    pub last_size: u32,
    /// [`FLAG_STALE`], [`FLAG_HALTED`], [`FLAG_DOUBT`].
    pub flags: u32,
    /// Source time of the newest update: nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Sequence of the newest update in its source's stream.
    pub sequence: u64,
    /// Orders at the best bid; 0 if unknown.
    pub bid_orders: u32,
    /// Orders at the best offer; 0 if unknown.
    pub ask_orders: u32,
    /// Receive time of the newest update: nanoseconds since the UNIX epoch.
    pub receive_time_ns: u64,
    /// Quantity traded this session.
    pub volume: u64,
    /// Sum of price times quantity over the session's trades, 1 unit = 1e-9, or about
    /// [`TURNOVER_UNKNOWN`].
    pub turnover: i128,
    /// Number of trades this session.
    pub trades: u32,
    /// Condition bits of the last trade.
    pub condition: u32,
    /// The session's open: its first trade, or what the source declares, 1 unit = 1e-9, or
    /// [`PRICE_UNDEFINED`].
    pub session_open: i64,
    /// The session's first trade, 1 unit = 1e-9, or [`PRICE_UNDEFINED`] if there is none or it is
    /// unknown. It is the open again if the source takes back the one that it declared.
    pub first_trade: i64,
    /// Highest trade of the session, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub high: i64,
    /// Lowest trade of the session, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub low: i64,
    /// The price from which the change is measured, if it is not the session's open.
    pub reference: Reference,
    /// Trading status.
    pub status: Status,
    /// Venues of a consolidated value.
    pub venues: Venues,
    /// The session's trading day as the number `YYYYMMDD`; 0 if unknown.
    pub trading_day: u32,
}

impl MarketValue {
    /// The content of a slot before its first update.
    pub const EMPTY: Self = Self {
        updates: 0,
        bid: PRICE_UNDEFINED,
        ask: PRICE_UNDEFINED,
        bid_size: 0,
        ask_size: 0,
        last: PRICE_UNDEFINED,
        last_size: 0,
        flags: 0,
        source_time_ns: 0,
        sequence: 0,
        bid_orders: 0,
        ask_orders: 0,
        receive_time_ns: 0,
        volume: 0,
        turnover: 0,
        trades: 0,
        condition: 0,
        session_open: PRICE_UNDEFINED,
        first_trade: PRICE_UNDEFINED,
        high: PRICE_UNDEFINED,
        low: PRICE_UNDEFINED,
        reference: Reference::NONE,
        status: Status {
            state: 0,
            reason: 0,
        },
        venues: Venues::NONE,
        trading_day: 0,
    };

    /// Adds a trade to the session's figures, as a slot does.
    pub fn add_to_session(&mut self, trade: Trade) {
        if trade.price == PRICE_UNDEFINED {
            return;
        }
        self.volume = self.volume.wrapping_add(u64::from(trade.size));
        self.trades = self.trades.wrapping_add(1);
        let product = i128::from(trade.price) * i128::from(trade.size);
        self.turnover = self.turnover.wrapping_add(product);
        if self.high == PRICE_UNDEFINED {
            if self.session_open == PRICE_UNDEFINED {
                self.session_open = trade.price;
            }
            self.first_trade = trade.price;
            self.high = trade.price;
        }
        self.high = self.high.max(trade.price);
        self.low = self.low.min(trade.price);
    }

    /// Returns the best bid and offer.
    pub fn quote(&self) -> Quote {
        Quote {
            bid: self.bid,
            ask: self.ask,
            bid_size: self.bid_size,
            ask_size: self.ask_size,
            bid_orders: self.bid_orders,
            ask_orders: self.ask_orders,
        }
    }

    /// Returns the volume-weighted average price of the session's trades, 1 unit = 1e-9, rounded
    /// toward zero; `None` without volume, or if the turnover is unknown.
    pub fn average_price(&self) -> Option<i64> {
        if self.turnover < TURNOVER_UNKNOWN / 2 {
            return None;
        }
        let average = self.turnover.checked_div(i128::from(self.volume))?;
        i64::try_from(average).ok()
    }

    /// Returns the price from which the change is measured: the reference, else the session's
    /// open.
    pub fn change_base(&self) -> i64 {
        match self.reference.price {
            PRICE_UNDEFINED => self.session_open,
            price => price,
        }
    }

    /// Returns the change of the last trade since [`MarketValue::change_base`] in parts per million
    /// (10,000 = 1 %), rounded toward zero; `None` without a trade or if the base is zero.
    pub fn change_ppm(&self) -> Option<i64> {
        let base = self.change_base();
        let defined = self.last != PRICE_UNDEFINED && base != PRICE_UNDEFINED;
        if !defined || base == 0 {
            return None;
        }
        let difference = i128::from(self.last) - i128::from(base);
        // Relative to the base's magnitude, so that a rise is positive for negative prices too.
        let ppm = difference * 1_000_000 / i128::from(base).abs();
        i64::try_from(ppm).ok()
    }
}

impl Default for MarketValue {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_measured_from_the_session_open() {
        let value = MarketValue {
            session_open: 200,
            last: 203,
            ..MarketValue::EMPTY
        };
        assert_eq!(value.change_ppm(), Some(15_000));
        let value = MarketValue {
            session_open: -200,
            last: -203,
            ..MarketValue::EMPTY
        };
        assert_eq!(value.change_ppm(), Some(-15_000));
    }

    #[test]
    fn change_is_measured_from_the_reference_where_there_is_one() {
        let value = MarketValue {
            session_open: 200,
            last: 203,
            reference: Reference {
                price: 203,
                kind: 2,
            },
            ..MarketValue::EMPTY
        };
        assert_eq!(value.change_ppm(), Some(0));
    }

    #[test]
    fn the_average_price_weighs_by_size() {
        let value = MarketValue {
            turnover: 10 * 3 - 20,
            volume: 4,
            ..MarketValue::EMPTY
        };
        assert_eq!(value.average_price(), Some(2));
        assert_eq!(MarketValue::EMPTY.average_price(), None);
        let value = MarketValue {
            turnover: TURNOVER_UNKNOWN + 10,
            ..value
        };
        assert_eq!(value.average_price(), None);
    }

    #[test]
    fn change_is_none_where_it_has_no_meaning() {
        assert_eq!(MarketValue::EMPTY.change_ppm(), None);
        let value = MarketValue {
            session_open: 0,
            last: 5,
            ..MarketValue::EMPTY
        };
        assert_eq!(value.change_ppm(), None);
        let value = MarketValue {
            session_open: 1,
            last: i64::MAX - 1,
            ..MarketValue::EMPTY
        };
        assert_eq!(
            value.change_ppm(),
            None,
            "a result beyond i64 gives None and no overflow"
        );
    }
}
