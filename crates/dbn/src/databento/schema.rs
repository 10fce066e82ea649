//! Schemas and symbologies that the gateway serves.

use super::RequestError;

/// Schemas the gateway serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// Each change of the best prices, and each trade.
    Mbp1,
    /// Each trade with the best prices before it.
    Tbbo,
    /// Each trade.
    Trades,
    /// The best prices and the last trade, once a second.
    Bbo1s,
    /// The best prices and the last trade, once a minute.
    Bbo1m,
    /// Instrument definitions.
    Definition,
    /// Trading status of the instruments.
    Status,
    /// Statistics of the venue.
    Statistics,
    /// Imbalances of auctions.
    Imbalance,
    /// Each event of each order.
    Mbo,
    /// Each change of the ten best price levels, and each trade.
    Mbp10,
    /// A bar a second.
    Ohlcv1s,
    /// A bar a minute.
    Ohlcv1m,
    /// A bar an hour.
    Ohlcv1h,
    /// A bar a day, UTC.
    Ohlcv1d,
}

/// Symbology of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolType {
    /// The symbol's own name.
    RawSymbol,
    /// All instruments of a root: `ES.FUT`.
    Parent,
    /// The instrument's number.
    InstrumentId,
    /// The future of a root by rank: `ES.c.0`.
    Continuous,
}

impl Schema {
    /// All schemas, in the order of their bits.
    pub const ALL: [Schema; 15] = [
        Schema::Mbp1,
        Schema::Tbbo,
        Schema::Trades,
        Schema::Bbo1s,
        Schema::Bbo1m,
        Schema::Definition,
        Schema::Status,
        Schema::Statistics,
        Schema::Imbalance,
        Schema::Mbo,
        Schema::Mbp10,
        Schema::Ohlcv1s,
        Schema::Ohlcv1m,
        Schema::Ohlcv1h,
        Schema::Ohlcv1d,
    ];
    /// The schemas of bars, the shortest first.
    pub const BARS: [Schema; 4] = [
        Schema::Ohlcv1s,
        Schema::Ohlcv1m,
        Schema::Ohlcv1h,
        Schema::Ohlcv1d,
    ];

    /// Parses Databento's name of a schema.
    pub fn parse(name: &str) -> Result<Self, RequestError> {
        if let Some(schema) = Self::ALL.into_iter().find(|schema| schema.name() == name) {
            return Ok(schema);
        }
        let known = NOT_SERVED.iter().find(|&&known| known == name);
        Err(known.map_or(RequestError::Bad("schema"), |&name| {
            RequestError::Schema(name)
        }))
    }

    /// Returns Databento's name of the schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mbp1 => "mbp-1",
            Self::Tbbo => "tbbo",
            Self::Trades => "trades",
            Self::Bbo1s => "bbo-1s",
            Self::Bbo1m => "bbo-1m",
            Self::Definition => "definition",
            Self::Status => "status",
            Self::Statistics => "statistics",
            Self::Imbalance => "imbalance",
            Self::Mbo => "mbo",
            Self::Mbp10 => "mbp-10",
            Self::Ohlcv1s => "ohlcv-1s",
            Self::Ohlcv1m => "ohlcv-1m",
            Self::Ohlcv1h => "ohlcv-1h",
            Self::Ohlcv1d => "ohlcv-1d",
        }
    }

    /// Returns the schema's bit in a set of schemas.
    pub const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl SymbolType {
    /// Parses Databento's name of a symbology; the raw symbol if it is empty.
    pub fn parse(name: &str) -> Result<Self, RequestError> {
        Ok(match name {
            "" | "raw_symbol" => Self::RawSymbol,
            "parent" => Self::Parent,
            "instrument_id" => Self::InstrumentId,
            "continuous" => Self::Continuous,
            _ => return Err(RequestError::SymbolType),
        })
    }

    /// Returns Databento's number of the symbology.
    pub fn number(self) -> u8 {
        match self {
            Self::InstrumentId => 0,
            Self::RawSymbol => 1,
            Self::Continuous => 3,
            Self::Parent => 4,
        }
    }
}

/// Databento's schemas that the gateway does not serve.
const NOT_SERVED: [&str; 5] = ["cmbp-1", "cbbo-1s", "cbbo-1m", "tcbbo", "ohlcv-eod"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_schema_has_a_name_and_a_bit_of_its_own() {
        let mut bits = 0;
        for (number, schema) in Schema::ALL.into_iter().enumerate() {
            assert_eq!(schema as usize, number);
            assert_eq!(Schema::parse(schema.name()), Ok(schema));
            assert_eq!(bits & schema.bit(), 0);
            bits |= schema.bit();
        }
    }
}
