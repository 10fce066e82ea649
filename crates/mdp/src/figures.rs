//! The figures of an instrument's session, and the scale of its prices.

use tidewire_feed::wire::UNDEFINED_PRICE;

/// The session as it is shown: the exchange's statistics where it gives them, and the trades since.
/// Prices are the wire's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) open: Option<i64>,
    pub(crate) high: Option<i64>,
    pub(crate) low: Option<i64>,
    /// Received trades, without those that were cancelled.
    pub(crate) trades: u32,
    /// Their quantity.
    pub(crate) volume: u64,
    /// Sum of their price of the wire times quantity, 1 unit = 1e-9.
    pub(crate) turnover: i128,
    /// Condition of the last trade.
    pub(crate) condition: u32,
}

impl Session {
    /// Adds a trade.
    pub(crate) fn add(&mut self, price: i64, size: u32) {
        self.include(price);
        self.trades = self.trades.saturating_add(1);
        self.volume += u64::from(size);
        self.turnover += i128::from(price) * i128::from(size);
    }

    /// Extends open, high and low by the price of a trade.
    pub(crate) fn include(&mut self, price: i64) {
        self.open.get_or_insert(price);
        self.high = self.high.max(Some(price));
        self.low = Some(self.low.map_or(price, |low| low.min(price)));
    }

    /// Takes the received trades of another count of the session: not its open, high and low.
    pub(crate) fn set_trades(&mut self, other: &Self) {
        (self.trades, self.volume, self.turnover) = (other.trades, other.volume, other.turnover);
    }

    /// Forgets the received trades if they have more quantity than the session: they are of the
    /// session before.
    pub(crate) fn forget_trades_beyond(&mut self, volume: u64) {
        if self.volume > volume {
            self.set_trades(&Self::default());
        }
    }

    /// Removes a trade that the exchange has cancelled. Its statistics say what that changes of
    /// open, high and low.
    pub(crate) fn cancel(&mut self, price: i64, size: u32) {
        if u64::from(size) > self.volume || self.trades == 0 {
            return; // a trade that was not received
        }
        self.trades -= 1;
        self.volume -= u64::from(size);
        self.turnover -= i128::from(price) * i128::from(size);
    }

    /// Returns the turnover in traders' prices of a session of this volume, if these are its
    /// trades.
    pub(crate) fn turnover_of(&self, volume: u64, scale: Scale) -> i128 {
        match volume {
            0 => 0,
            volume if volume == self.volume => scale.turnover(self.turnover),
            _ => TURNOVER_UNKNOWN,
        }
    }
}

/// Statistics of the session, as the exchange gives them. Prices are in units of 1e-9 in the
/// exchange's display format; [`Scale`] converts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Price and quantity of the last trade.
    pub last: Option<(i64, u32)>,
    /// Contracts traded in the session.
    pub volume: u64,
    /// Opening price of the session.
    pub open: Option<i64>,
    /// Indicative opening price, before the opening.
    pub indicative_open: Option<i64>,
    /// Highest traded price.
    pub high: Option<i64>,
    /// Lowest traded price.
    pub low: Option<i64>,
    /// Settlement price of the previous session: the reference of the change.
    pub reference: Option<i64>,
    /// Newest settlement price; it becomes the reference when the session ends.
    pub settlement: Option<i64>,
    /// Contracts cleared in the previous session.
    pub cleared_volume: Option<u64>,
    /// Open contracts at the end of the previous session.
    pub open_interest: Option<u64>,
    /// Highest price at which orders are accepted.
    pub high_limit: Option<i64>,
    /// Lowest price at which orders are accepted.
    pub low_limit: Option<i64>,
}

/// Converts prices of the wire into those that traders use: the product with the definition's
/// display factor. A corn future has 45,025 on the wire, and the factor 0.01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The display factor, 1 unit = 1e-9.
    factor: i64,
    /// `1e9 / factor`, if that is a whole number; otherwise 0.
    divisor: i64,
}

impl Default for Scale {
    fn default() -> Self {
        Self::new(UNIT)
    }
}

impl Scale {
    /// Creates the scale of a display factor, 1 unit = 1e-9. A factor of 0 or less means 1.
    pub fn new(factor: i64) -> Self {
        let factor = if factor > 0 { factor } else { UNIT };
        let divisor = if UNIT % factor == 0 { UNIT / factor } else { 0 };
        Self { factor, divisor }
    }

    /// Returns the price in units of 1e-9, rounded half away from zero. An undefined price stays
    /// undefined, and so does one that does not fit.
    #[inline]
    pub fn nanos(self, price: i64) -> i64 {
        if price == UNDEFINED_PRICE || self.divisor == 1 {
            return price;
        }
        if self.divisor != 0 {
            let half = if price < 0 {
                -(self.divisor / 2)
            } else {
                self.divisor / 2
            };
            return price.saturating_add(half) / self.divisor;
        }
        let product = i128::from(price) * i128::from(self.factor);
        let half = i128::from(if price < 0 { -(UNIT / 2) } else { UNIT / 2 });
        i64::try_from((product + half) / i128::from(UNIT)).unwrap_or(UNDEFINED_PRICE)
    }

    /// Returns a turnover of the wire in traders' prices.
    fn turnover(self, turnover: i128) -> i128 {
        let unit = i128::from(UNIT);
        let product = turnover.checked_mul(self.factor.into());
        let half = if turnover < 0 { -(unit / 2) } else { unit / 2 };
        product.map_or(TURNOVER_UNKNOWN, |product| {
            product.saturating_add(half) / unit
        })
    }

    pub(crate) fn nanos_of(self, price: Option<i64>) -> i64 {
        price.map_or(UNDEFINED_PRICE, |price| self.nanos(price))
    }
}

/// The turnover of a session of which only the volume is known, as receivers of the native feed
/// take it.
const TURNOVER_UNKNOWN: i128 = i128::MIN / 2;

/// One, in units of 1e-9.
const UNIT: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_multiplied_by_the_display_factor() {
        let scale = Scale::new(10_000_000);
        assert_eq!(scale.nanos(475_025_000_000_000), 4_750_250_000_000);
        assert_eq!(scale.nanos(-37_630_000_000_000), -376_300_000_000);
        assert_eq!(scale.nanos(UNDEFINED_PRICE), UNDEFINED_PRICE);
        assert_eq!(scale.nanos(150), 2, "half away from zero");
        assert_eq!(scale.nanos(-150), -2);
        assert_eq!(Scale::new(UNIT).nanos(7), 7);
        assert_eq!(Scale::new(0), Scale::default());
        let odd = Scale::new(3 * UNIT);
        assert_eq!(
            (odd.nanos(5), odd.nanos(i64::MAX - 1)),
            (15, UNDEFINED_PRICE)
        );
    }
}
