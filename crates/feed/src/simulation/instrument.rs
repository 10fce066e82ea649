//! One symbol of the market: its price and its quote.

use super::random::{Random, Sizes, exponential, normal};
use super::{AGGRESSOR_BUY, AGGRESSOR_SELL, MarketKind, SymbolSpec};
use crate::wire::{PRICE_SCALE, Quote};

/// One symbol in one cache line: a tick touches exactly one.
///
/// Invariants: `TICKS_MIN <= middle_ticks`, `0 < bid_ticks < bid_ticks + spread_ticks`.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Instrument {
    /// The price in ticks, as the random process moves it.
    middle_ticks: f64,
    /// Expected change of the price's logarithm per nanosecond.
    drift_per_ns: f64,
    /// Variance of the price's logarithm per nanosecond.
    variance_per_ns: f64,
    /// Time of the last step; 0 before the first.
    last_ns: u64,
    bid_ticks: i64,
    /// 1 unit = 1e-9.
    tick: i64,
    spread_ticks: u32,
    bid_size: u32,
    ask_size: u32,
    bid_orders: u8,
    ask_orders: u8,
}

impl Instrument {
    pub(super) fn open(
        spec: &SymbolSpec,
        market: MarketKind,
        sizes: &Sizes,
        random: &mut Random,
    ) -> Self {
        let (drift, factor) = match market {
            MarketKind::Bull => (0.4, 0.8),
            MarketKind::Neutral => (0.0, 1.0),
            MarketKind::Bear => (-0.4, 1.4),
        };
        let variance = (spec.volatility * factor) * (spec.volatility * factor);
        let tick = tick_for(spec.price);
        let mut instrument = Self {
            middle_ticks: (spec.price as f64 / tick as f64).max(TICKS_MIN),
            drift_per_ns: (drift - variance / 2.0) / YEAR_NS,
            variance_per_ns: variance / YEAR_NS,
            last_ns: 0,
            bid_ticks: 0,
            tick,
            spread_ticks: 0,
            bid_size: 0,
            ask_size: 0,
            bid_orders: 0,
            ask_orders: 0,
        };
        let detail = random.next();
        instrument.requote(detail as u16, detail >> 16, sizes);
        instrument
    }

    /// Advances the price to `now_ns`. The distribution is exact for any length of the step.
    #[inline]
    pub(super) fn advance(&mut self, now_ns: u64, time_factor: f64, ones: u64, between: u16) {
        if now_ns <= self.last_ns {
            return;
        }
        if self.last_ns != 0 {
            let elapsed_ns = (now_ns - self.last_ns) as f64 * time_factor;
            let deviation = (self.variance_per_ns * elapsed_ns).sqrt();
            let change = self.drift_per_ns * elapsed_ns + deviation * normal(ones, between);
            self.middle_ticks *= exponential(change);
            if !(TICKS_MIN..TICKS_COARSE).contains(&self.middle_ticks) {
                self.change_tick();
            }
        }
        self.last_ns = now_ns;
    }

    /// Sets a new quote around the price: its spread is 0.05 % to 0.2 % of the price, in whole
    /// ticks.
    #[inline]
    pub(super) fn requote(&mut self, spread: u16, detail: u64, sizes: &Sizes) {
        let middle = self.middle_ticks;
        // The quote's middle may differ from the price by a tick: keep the bounds there as well.
        let narrowest = (SPREAD_MIN * (middle + 1.0)) as i64 + 1;
        let widest = (SPREAD_MAX * (middle - 1.0)) as i64;
        let share = SPREAD_MIN + (SPREAD_MAX - SPREAD_MIN) / 65_536.0 * f64::from(spread);
        let spread_ticks = ((share * middle + 0.5) as i64).min(widest).max(narrowest);
        self.spread_ticks = spread_ticks as u32;
        self.bid_ticks = (middle - spread_ticks as f64 / 2.0 + 0.5) as i64;
        self.bid_size = sizes.at(detail as u16);
        self.ask_size = sizes.at((detail >> 16) as u16);
        self.bid_orders = 1 + ((detail >> 32) as u8 >> 3);
        self.ask_orders = 1 + ((detail >> 40) as u8 >> 3);
    }

    /// Returns the price and condition of a trade: 40 % hit the bid, 40 % lift the ask, 20 % are
    /// in between.
    #[inline]
    pub(super) fn trade_price(&self, point: u16) -> (i64, u32) {
        const FIFTH: u32 = 13_107;
        let (offset, condition) = match u32::from(point) {
            point if point < 2 * FIFTH => (0, AGGRESSOR_SELL),
            point if point < 4 * FIFTH => (self.spread_ticks, AGGRESSOR_BUY),
            point => {
                let within = u64::from(point - 4 * FIFTH) * u64::from(self.spread_ticks);
                ((within / u64::from(65_536 - 4 * FIFTH)) as u32, 0)
            }
        };
        ((self.bid_ticks + i64::from(offset)) * self.tick, condition)
    }

    #[inline]
    pub(super) fn quote(&self, symbol: u32, source: u16, source_time_ns: u64) -> Quote {
        Quote {
            symbol,
            source,
            source_time_ns,
            bid: self.bid_ticks * self.tick,
            ask: (self.bid_ticks + i64::from(self.spread_ticks)) * self.tick,
            bid_size: self.bid_size,
            ask_size: self.ask_size,
            bid_orders: u32::from(self.bid_orders),
            ask_orders: u32::from(self.ask_orders),
        }
    }

    /// Changes the tick size if the price has left its range, as exchanges do.
    #[cold]
    fn change_tick(&mut self) {
        let price = self.middle_ticks * self.tick as f64;
        let price = price.clamp(PRICE_MIN as f64, PRICE_MAX as f64);
        self.tick = tick_for(price as i64);
        self.middle_ticks = (price / self.tick as f64).max(TICKS_MIN);
    }
}

/// Returns the coarsest tick that divides `price` into at least 2,000 ticks, at most 0.05. 1 unit
/// = 1e-9.
fn tick_for(price: i64) -> i64 {
    let mut tick = PRICE_SCALE / 20;
    while tick > 1 && price < 2_000 * tick {
        tick = if tick == PRICE_SCALE / 20 {
            tick / 5
        } else {
            tick / 10
        };
    }
    tick
}

/// Lowest and highest price, 1 unit = 1e-9: 0.000002 and 1,000,000,000.
pub(super) const PRICE_MIN: i64 = 2_000;
pub(super) const PRICE_MAX: i64 = 1_000_000_000 * PRICE_SCALE;
/// Below this many ticks the spread's bounds may contain no whole number of ticks.
const TICKS_MIN: f64 = 1_000.0;
/// Above this many ticks the price may exceed [`PRICE_MAX`], or its tick is needlessly fine.
const TICKS_COARSE: f64 = 1e10;
const SPREAD_MIN: f64 = 0.000_5;
const SPREAD_MAX: f64 = 0.002;
/// A year of trading: 252 days of 6.25 hours.
const YEAR_NS: f64 = 252.0 * 6.25 * 3_600.0 * 1e9;

const _: () = assert!(size_of::<Instrument>() == 64);
