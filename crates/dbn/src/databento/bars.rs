//! Records of the `ohlcv` schemas.

use super::RecordWriter;

/// Record types of `ohlcv-1s`, `ohlcv-1m`, `ohlcv-1h` and `ohlcv-1d`.
pub const BAR_TYPES: [u8; 4] = [0x20, 0x21, 0x22, 0x23];

/// The fields of an `ohlcv` record; prices in units of 1e-9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ohlcv {
    /// Number of the instrument.
    pub instrument_id: u32,
    /// Number of the publisher.
    pub publisher_id: u16,
    /// Start of the interval, nanoseconds since the UNIX epoch.
    pub start_ns: u64,
    /// Price of the first trade.
    pub open: i64,
    /// Highest price.
    pub high: i64,
    /// Lowest price.
    pub low: i64,
    /// Price of the last trade.
    pub close: i64,
    /// Sum of the sizes.
    pub volume: u64,
}

impl RecordWriter<'_> {
    /// Writes an `ohlcv` record of a type of [`BAR_TYPES`].
    pub fn bar(&mut self, rtype: u8, bar: &Ohlcv) {
        debug_assert!(BAR_TYPES.contains(&rtype), "the type of a bar");
        let start = self.begin(rtype, bar.instrument_id, bar.publisher_id, bar.start_ns);
        let prices = [bar.open, bar.high, bar.low, bar.close];
        self.put(prices.map(i64::to_le_bytes).as_flattened());
        self.put(&bar.volume.to_le_bytes());
        self.end(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first record of Databento's `test_data.ohlcv-1s.v3.dbn.zst`.
    #[test]
    fn a_bar_has_the_bytes_of_databentos_own() {
        let bar = Ohlcv {
            instrument_id: 5_482,
            publisher_id: 1,
            start_ns: 1_609_160_400_000_000_000,
            open: 372_025_000_000_000,
            high: 372_050_000_000_000,
            low: 372_025_000_000_000,
            close: 372_050_000_000_000,
            volume: 57,
        };
        let mut out = Vec::new();
        RecordWriter::new(&mut out, None, 3, 1).bar(BAR_TYPES[0], &bar);
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "\
        0e2001006a1500000020a0acdbe2541600faf8d15a52010000b416a46052010000faf8d15a52010000b4\
        16a4605201003900000000000000";
        assert_eq!(hex, expected);
    }
}
