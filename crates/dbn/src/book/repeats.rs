//! Trades that several schemas of one stream tell: each counts once.
//!
//! A file or a live session may carry `trades`, `mbp-1`, `tbbo` and `mbo` of one instrument side by
//! side. Each of them tells every trade. What one schema has told, the others only repeat.

use crate::Kind;

/// The trades of one instrument at one publisher that were given out last.
///
/// Two records tell the same trade if time, price and size are equal and their schemas differ. Two
/// records of one schema are two trades, also if they are equal: an order that meets two others of
/// the same size makes such.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// The newest ones, the oldest at `next` once it is full.
    recent: Vec<Told>,
    next: usize,
    /// Kinds that have told a trade, one bit each.
    kinds: u32,
    /// Newest time of what no longer is in `recent`, ns since the UNIX epoch.
    forgotten_until_ns: u64,
}

/// A trade, and the kinds that have told it.
#[derive(Debug, Clone, Copy)]
struct Told {
    time_ns: u64,
    price: i64,
    size: u32,
    kinds: u32,
}

impl Repeats {
    /// Notes that a record of `kind` tells a trade. Returns whether another kind has told it
    /// before.
    pub(super) fn is_repeat(&mut self, kind: Kind, time_ns: u64, price: i64, size: u32) -> bool {
        let bit = 1 << kind as u32;
        debug_assert!((kind as u32) < u32::BITS, "a bit for each kind");
        let has_others = self.kinds & !bit != 0;
        self.kinds |= bit;
        if has_others {
            let same = |told: &&mut Told| {
                told.kinds & bit == 0
                    && (told.time_ns, told.price, told.size) == (time_ns, price, size)
            };
            if let Some(told) = self.recent.iter_mut().find(same) {
                told.kinds |= bit;
                return true;
            }
            // The others were here before, and this kind begins late or lags far behind.
            if time_ns <= self.forgotten_until_ns {
                return true;
            }
        }
        self.remember(Told {
            time_ns,
            price,
            size,
            kinds: bit,
        });
        false
    }

    fn remember(&mut self, told: Told) {
        if self.recent.len() < REMEMBERED {
            return self.recent.push(told);
        }
        let oldest = std::mem::replace(&mut self.recent[self.next], told);
        self.next = (self.next + 1) % REMEMBERED;
        self.forgotten_until_ns = self.forgotten_until_ns.max(oldest.time_ns);
    }
}

/// Trades remembered for each instrument. Records of one trade stand close to each other: a stream
/// is in the order of its times.
const REMEMBERED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trade_that_two_schemas_tell_counts_once() {
        let mut repeats = Repeats::default();
        assert!(!repeats.is_repeat(Kind::Trade, 5, 100, 2));
        assert!(repeats.is_repeat(Kind::Mbp1, 5, 100, 2));
        assert!(!repeats.is_repeat(Kind::Mbp1, 5, 100, 1));
        assert!(repeats.is_repeat(Kind::Trade, 5, 100, 1));
    }

    #[test]
    fn equal_trades_of_one_schema_are_as_many_trades() {
        let mut repeats = Repeats::default();
        for kind in [Kind::Trade, Kind::Mbo] {
            let told = [(); 3].map(|()| repeats.is_repeat(kind, 5, 100, 2));
            assert_eq!(told, [kind == Kind::Mbo; 3]);
        }
        assert!(!repeats.is_repeat(Kind::Mbo, 5, 100, 2), "a fourth one");
        assert!(repeats.is_repeat(Kind::Trade, 5, 100, 2));
    }

    #[test]
    fn a_schema_that_comes_behind_all_of_another_repeats_it() {
        let mut repeats = Repeats::default();
        let count = 3 * REMEMBERED as u64;
        for time_ns in 0..count {
            assert!(!repeats.is_repeat(Kind::Trade, time_ns, 100, 1));
        }
        for time_ns in 0..count {
            assert!(repeats.is_repeat(Kind::Mbp1, time_ns, 100, 1), "{time_ns}");
        }
        assert!(!repeats.is_repeat(Kind::Mbp1, count, 100, 1));
    }

    #[test]
    fn one_schema_alone_may_go_back_in_time() {
        let mut repeats = Repeats::default();
        for time_ns in (0..3 * REMEMBERED as u64).rev() {
            assert!(!repeats.is_repeat(Kind::Mbo, time_ns, 100, 1));
        }
    }
}
