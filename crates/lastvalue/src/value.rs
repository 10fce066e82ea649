//! Plain values that are stored in a slot and read from it, without atomics.

/// The price for "none": no bid, or no trade yet.
pub const PRICE_UNDEFINED: i64 = i64::MAX;

/// Flag of [`MarketValue::flags`]: the source is disconnected or silent; the value may be old.
pub const FLAG_STALE: u32 = 1;
/// Flag of [`MarketValue::flags`]: trading in this symbol is halted.
pub const FLAG_HALTED: u32 = 2;

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
}

/// One trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trade {
    /// Price, 1 unit = 1e-9. A trade without a price ([`PRICE_UNDEFINED`]) counts toward volume and
    /// number of trades, and does not change last, open, high and low.
    pub price: i64,
    /// Quantity traded.
    pub size: u32,
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
    /// [`FLAG_STALE`], [`FLAG_HALTED`].
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
    /// [`FLAG_STALE`], [`FLAG_HALTED`].
    pub flags: u32,
    /// Source time of the newest update: nanoseconds since the UNIX epoch.
    pub source_time_ns: u64,
    /// Sequence of the newest update in its source's stream.
    pub sequence: u64,
    /// Quantity traded this session.
    pub volume: u64,
    /// Price from which the session's change is measured (its first trade, or what the source
    /// declares), 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub session_open: i64,
    /// Receive time of the newest update: nanoseconds since the UNIX epoch.
    pub receive_time_ns: u64,
    /// Highest trade of the session, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub high: i64,
    /// Lowest trade of the session, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    pub low: i64,
    /// Number of trades this session.
    pub trades: u64,
    /// Trading status as the source's stream encodes it; 0 if it sent none.
    pub status: u64,
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
        volume: 0,
        session_open: PRICE_UNDEFINED,
        receive_time_ns: 0,
        high: PRICE_UNDEFINED,
        low: PRICE_UNDEFINED,
        trades: 0,
        status: 0,
    };

    /// Returns the change of the last trade since the session's open in parts per million (10,000 =
    /// 1 %), rounded toward zero; `None` without a trade or if the open is zero.
    pub fn change_ppm(&self) -> Option<i64> {
        let defined = self.last != PRICE_UNDEFINED && self.session_open != PRICE_UNDEFINED;
        if !defined || self.session_open == 0 {
            return None;
        }
        let difference = i128::from(self.last) - i128::from(self.session_open);
        // Relative to the open's magnitude, so that a rise is positive for negative prices too.
        let ppm = difference * 1_000_000 / i128::from(self.session_open).abs();
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
