//! An exchange simulator: a seeded market.
//!
//! Each symbol's price is a geometric Brownian motion over the time between two of its quotes, so
//! a second of market looks the same at any message rate. The market has no clock: the caller
//! passes the time, and [`Schedule`] computes when the next message is due. The same seed,
//! symbols and times give the same ticks on every machine, because the market uses only
//! additions, multiplications, divisions and square roots, which IEEE 754 defines exactly.
//!
//! ```
//! use tidewire_feed::simulation::{Market, SimulationConfig, Tick};
//!
//! let mut market = Market::new(SimulationConfig::default());
//! match market.next(1_700_000_000_000_000_000) {
//!     Tick::Quote(quote) => assert!(quote.bid < quote.ask),
//!     Tick::Trade(trade) => assert!(trade.size > 0),
//! }
//! assert_eq!(market.symbols().name(0), Some("RELIANCE"));
//! ```

mod instrument;
mod random;
mod schedule;
mod symbols;

#[cfg(test)]
mod tests;

pub use crate::wire::{AGGRESSOR_BUY, AGGRESSOR_SELL, Tick};
pub use schedule::Schedule;
pub use symbols::{SymbolSpec, Symbols, SymbolsError, SymbolsFault};

use crate::wire::{Quote, Trade};
use instrument::Instrument;
use random::{Random, Sizes};

/// Settings of a market.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationConfig {
    /// The symbols; a symbol's number in the ticks is its index here, from 0.
    pub symbols: Symbols,
    /// Seed; the same seed gives the same ticks.
    pub seed: u64,
    /// Trend of the prices.
    pub market: MarketKind,
    /// The field `source` of every tick.
    pub source: u16,
    /// Seconds of market per second: 1 is realistic, 100 makes a busy screen.
    pub time_factor: u32,
}

impl Default for SimulationConfig {
    /// Returns the hundred built-in symbols, seed 1, a neutral market in real time, and source 0.
    fn default() -> Self {
        Self {
            symbols: Symbols::default(),
            seed: 1,
            market: MarketKind::Neutral,
            source: 0,
            time_factor: 1,
        }
    }
}

/// Trend of the prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MarketKind {
    /// Up by 40 % a year (continuously compounded), volatility 20 % lower.
    Bull,
    /// No trend.
    #[default]
    Neutral,
    /// Down by 40 % a year, volatility 1.4 times as high.
    Bear,
}

/// A market of many symbols.
#[derive(Debug, Clone)]
pub struct Market {
    instruments: Vec<Instrument>,
    symbols: Symbols,
    random: Random,
    sizes: Sizes,
    time_factor: f64,
    source: u16,
}

impl Market {
    /// Creates a market at its opening prices. Takes 64 bytes per symbol, plus the names.
    pub fn new(config: SimulationConfig) -> Self {
        let SimulationConfig {
            symbols,
            seed,
            market,
            source,
            time_factor,
        } = config;
        let mut random = Random::new(seed);
        let sizes = Sizes::new();
        let instruments = symbols
            .iter()
            .map(|spec| Instrument::open(spec, market, &sizes, &mut random))
            .collect();
        Self {
            instruments,
            symbols,
            random,
            sizes,
            time_factor: f64::from(time_factor),
            source,
        }
    }

    /// Returns the next tick, of a random symbol; 70 % of the ticks are quotes.
    ///
    /// The tick is stamped with `source_time_ns`, nanoseconds since the UNIX epoch. The symbol's
    /// price advances by the time since its last quote. A time before that changes nothing.
    #[inline]
    pub fn next(&mut self, source_time_ns: u64) -> Tick {
        let pick = self.random.next();
        let symbol = ((pick >> 32) * self.instruments.len() as u64) >> 32;
        let instrument = &mut self.instruments[symbol as usize];
        let symbol = symbol as u32;
        if pick as u16 >= QUOTE_SHARE {
            let (price, condition) = instrument.trade_price((pick >> 16) as u16);
            return Tick::Trade(Trade {
                symbol,
                source: self.source,
                source_time_ns,
                price,
                size: self.sizes.at(self.random.next() as u16),
                condition,
            });
        }
        let normal = self.random.next();
        let detail = self.random.next();
        instrument.advance(source_time_ns, self.time_factor, normal, detail as u16);
        instrument.requote((pick >> 16) as u16, detail >> 16, &self.sizes);
        Tick::Quote(instrument.quote(symbol, self.source, source_time_ns))
    }

    /// Returns the current quote of a symbol: that of its last quote tick, or the opening one.
    pub fn quote(&self, symbol: u32, source_time_ns: u64) -> Option<Quote> {
        let instrument = self.instruments.get(symbol as usize)?;
        Some(instrument.quote(symbol, self.source, source_time_ns))
    }

    /// Returns the symbols by number.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }
}

/// 70 % of the 16-bit values.
const QUOTE_SHARE: u16 = (65_536 * 7 / 10) as u16;
