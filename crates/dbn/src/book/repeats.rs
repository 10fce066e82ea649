//! Trades that several schemas of one stream tell: each counts once.
//!
//! A file or a live session may carry `trades`, `mbp-1`, `tbbo` and `mbo` of one instrument side by
//! side: record by record, in blocks, or one whole schema behind another. Each of them tells every
//! trade of its times. What one schema has told, the others only repeat.

use std::collections::HashMap;

use crate::Kind;

/// The trades of a stream by what tells one from another, and how often each schema has told them.
///
/// Two records tell the same trade if instrument, time, price and size are equal and their schemas
/// differ. Two records of one schema are two trades, also if they are equal: an order that meets
/// two others of the same size makes such. So there are as many equal trades as the schema that
/// tells most of them tells.
///
/// The memory is bounded. Among the times of an instrument's trades that it has forgotten, the
/// schema that told a trade of the instrument first alone counts: what another one tells there may
/// have been told.
#[derive(Debug)]
pub(super) struct Repeats {
    /// The trades that were told last; the older ones of them are in `older`.
    newer: HashMap<Trade, Told>,
    older: HashMap<Trade, Told>,
    /// The kind that told a trade first, by place of the instrument.
    mains: HashMap<u32, Kind>,
    /// The earliest and the latest time of the trades that are no longer remembered, by place of
    /// the instrument and by schema, ns since the UNIX epoch.
    forgotten_ns: HashMap<(u32, usize), (u64, u64)>,
    /// Trades that `newer` holds at most, and `older` too.
    remembered_max: usize,
}

/// What tells a trade from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Trade {
    /// Place of the instrument at its publisher.
    pub(super) place: u32,
    pub(super) size: u32,
    /// ns since the UNIX epoch; 0 if unknown.
    pub(super) time_ns: u64,
    pub(super) price: i64,
}

/// What becomes of a trade that a record tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No other record has told it.
    New,
    /// A record of another schema has told it.
    Repeated,
    /// Trades of its time are no longer remembered, and another schema is the one that counts.
    Forgotten,
}

/// How often each schema has told equal trades.
type Told = [u16; SCHEMAS];

impl Repeats {
    pub(super) fn new(remembered_max: usize) -> Self {
        Self {
            newer: HashMap::new(),
            older: HashMap::new(),
            mains: HashMap::new(),
            forgotten_ns: HashMap::new(),
            remembered_max,
        }
    }

    /// Notes that a record of `kind` tells a trade.
    pub(super) fn judge(&mut self, kind: Kind, trade: Trade) -> Verdict {
        let Some(schema) = schema(kind) else {
            debug_assert!(false, "{kind} tells no trades");
            return Verdict::New;
        };
        let found = self.newer.get_mut(&trade);
        if let Some(told) = found.or_else(|| self.older.get_mut(&trade)) {
            let most = told.iter().copied().max().unwrap_or_default();
            if told[schema] < most {
                told[schema] += 1;
                return Verdict::Repeated;
            }
            if let Some(count) = told[schema].checked_add(1) {
                told[schema] = count;
                return Verdict::New;
            }
            // More equal trades than can be counted: as if they were forgotten.
            return match self.main(kind, trade.place) == kind {
                true => Verdict::New,
                false => Verdict::Forgotten,
            };
        }
        let main = self.main(kind, trade.place);
        if main != kind && self.may_be_told(&trade, schema) {
            return Verdict::Forgotten;
        }
        self.remember(trade, schema);
        Verdict::New
    }

    /// Returns the kind that told a trade of an instrument first; that is `kind` if none has.
    fn main(&mut self, kind: Kind, place: u32) -> Kind {
        *self.mains.entry(place).or_insert(kind)
    }

    /// Returns whether another schema may have told a trade that is not remembered.
    fn may_be_told(&self, trade: &Trade, schema: usize) -> bool {
        let mut others = (0..SCHEMAS).filter(|&other| other != schema);
        !self.forgotten_ns.is_empty()
            && others.any(|other| {
                let times_ns = self.forgotten_ns.get(&(trade.place, other));
                times_ns.is_some_and(|&(first_ns, last_ns)| {
                    (first_ns..=last_ns).contains(&trade.time_ns)
                })
            })
    }

    fn remember(&mut self, trade: Trade, schema: usize) {
        if self.newer.len() >= self.remembered_max {
            self.forget_older();
        }
        let mut told = [0; SCHEMAS];
        told[schema] = 1;
        let before = self.newer.insert(trade, told);
        debug_assert!(before.is_none(), "it was looked for");
    }

    #[cold]
    fn forget_older(&mut self) {
        for (trade, told) in &self.older {
            for schema in (0..SCHEMAS).filter(|&schema| told[schema] > 0) {
                let time_ns = trade.time_ns;
                let times_ns = self.forgotten_ns.entry((trade.place, schema));
                let times_ns = times_ns.or_insert((time_ns, time_ns));
                *times_ns = (times_ns.0.min(time_ns), times_ns.1.max(time_ns));
            }
        }
        // Its memory is used again.
        self.older.clear();
        std::mem::swap(&mut self.older, &mut self.newer);
    }
}

impl Default for Repeats {
    fn default() -> Self {
        Self::new(REMEMBERED)
    }
}

/// Returns the place of the counts of a kind whose records tell trades.
const fn schema(kind: Kind) -> Option<usize> {
    Some(match kind {
        Kind::Trade => 0,
        Kind::Mbp1 => 1,
        Kind::Mbp10 => 2,
        Kind::Mbo => 3,
        Kind::Cmbp1 => 4,
        Kind::Tcbbo => 5,
        _ => return None,
    })
}

/// Kinds that tell trades.
const SCHEMAS: usize = 6;
/// Trades after which those before them become the older ones: as many as a table of 2^20 places
/// holds. Both tables have 84 MiB then.
const REMEMBERED: usize = (1 << 20) / 8 * 7;

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Forgotten, New, Repeated};

    const SMALL: usize = 64;

    fn trade(time_ns: u64, size: u32) -> Trade {
        Trade {
            place: 0,
            size,
            time_ns,
            price: 100,
        }
    }

    #[test]
    fn a_trade_that_two_schemas_tell_counts_once() {
        let mut repeats = Repeats::default();
        assert_eq!(repeats.judge(Kind::Trade, trade(5, 2)), New);
        assert_eq!(repeats.judge(Kind::Mbp1, trade(5, 2)), Repeated);
        assert_eq!(repeats.judge(Kind::Mbp1, trade(5, 1)), New);
        assert_eq!(repeats.judge(Kind::Trade, trade(5, 1)), Repeated);
        let elsewhere = Trade {
            place: 1,
            ..trade(5, 1)
        };
        assert_eq!(repeats.judge(Kind::Mbp10, elsewhere), New);
    }

    #[test]
    fn equal_trades_of_one_schema_are_as_many_trades() {
        let mut repeats = Repeats::default();
        for (kind, verdict) in [(Kind::Trade, New), (Kind::Mbo, Repeated)] {
            let told = [(); 3].map(|()| repeats.judge(kind, trade(5, 2)));
            assert_eq!(told, [verdict; 3]);
        }
        assert_eq!(repeats.judge(Kind::Mbo, trade(5, 2)), New, "a fourth one");
        assert_eq!(repeats.judge(Kind::Mbp1, trade(5, 2)), Repeated, "a third");
        assert_eq!(repeats.judge(Kind::Trade, trade(5, 2)), Repeated);
    }

    #[test]
    fn a_schema_that_comes_behind_all_of_another_repeats_it() {
        // Also one of which the beginning is forgotten.
        for (count, is_forgotten) in [(SMALL as u64, false), (9 * SMALL as u64, true)] {
            let mut repeats = Repeats::new(SMALL);
            for time_ns in 0..count {
                assert_eq!(repeats.judge(Kind::Trade, trade(time_ns, 1)), New);
            }
            for time_ns in 0..count {
                let verdict = repeats.judge(Kind::Mbp1, trade(time_ns, 1));
                let expected = match is_forgotten && time_ns < count - 2 * SMALL as u64 {
                    true => Forgotten,
                    false => Repeated,
                };
                assert_eq!(verdict, expected, "{time_ns} of {count}");
            }
            assert_eq!(repeats.judge(Kind::Mbp1, trade(count, 1)), New);
        }
    }

    #[test]
    fn one_schema_alone_may_go_back_in_time() {
        let mut repeats = Repeats::new(SMALL);
        for time_ns in (0..9 * SMALL as u64).rev() {
            assert_eq!(repeats.judge(Kind::Mbo, trade(time_ns, 1)), New);
        }
    }

    /// An older trade counted as told once some newer ones were known.
    #[test]
    fn an_old_trade_that_no_other_record_tells_is_new() {
        let mut repeats = Repeats::default();
        for time_ns in 100..300 {
            assert_eq!(repeats.judge(Kind::Trade, trade(time_ns, 1)), New);
            assert_eq!(repeats.judge(Kind::Mbp1, trade(time_ns, 1)), Repeated);
        }
        // In both, in either alone, and without a time.
        assert_eq!(repeats.judge(Kind::Trade, trade(150, 1_000)), New);
        assert_eq!(repeats.judge(Kind::Mbp1, trade(150, 1_000)), Repeated);
        assert_eq!(repeats.judge(Kind::Mbp1, trade(151, 1_001)), New);
        assert_eq!(repeats.judge(Kind::Trade, trade(152, 1_002)), New);
        assert_eq!(repeats.judge(Kind::Mbp1, trade(0, 1_003)), New);
        assert_eq!(repeats.judge(Kind::Trade, trade(0, 1_003)), Repeated);
    }

    /// Of a sweep of 100 trades at one time, told by one schema and then by another, 165 came.
    #[test]
    fn many_trades_of_one_time_in_blocks_count_once() {
        let mut repeats = Repeats::default();
        for (kind, verdict) in [(Kind::Mbp1, New), (Kind::Trade, Repeated)] {
            for size in 1..=500 {
                assert_eq!(repeats.judge(kind, trade(7, size)), verdict, "{size}");
            }
        }
    }

    /// Two schemas with times of their own were taken for the same one.
    #[test]
    fn a_schema_of_other_times_is_new_also_when_the_trades_are_forgotten() {
        let count = 9 * SMALL as u64;
        let mut repeats = Repeats::new(SMALL);
        for time_ns in 0..count {
            assert_eq!(repeats.judge(Kind::Mbp1, trade(1_000 + time_ns, 1)), New);
        }
        // Before them, and behind them.
        for time_ns in (0..1_000).chain(1_000 + count..3_000) {
            assert_eq!(repeats.judge(Kind::Trade, trade(time_ns, 1)), New);
        }
        assert_eq!(repeats.judge(Kind::Mbo, trade(5, 1)), Forgotten, "a third");
    }

    /// The schema that comes first counts where the memory ends, so a late trade counts once.
    #[test]
    fn a_late_trade_of_a_forgotten_time_counts_once() {
        let mut repeats = Repeats::new(SMALL);
        for time_ns in 0..9 * SMALL as u64 {
            assert_eq!(repeats.judge(Kind::Trade, trade(time_ns, 1)), New);
            assert_eq!(repeats.judge(Kind::Mbp1, trade(time_ns, 1)), Repeated);
        }
        assert_eq!(repeats.judge(Kind::Trade, trade(3, 1_000)), New);
        assert_eq!(repeats.judge(Kind::Mbp1, trade(3, 1_000)), Repeated);
        assert_eq!(repeats.judge(Kind::Mbp1, trade(4, 1_000)), Forgotten);
        assert_eq!(repeats.judge(Kind::Trade, trade(4, 1_000)), New);
    }

    #[test]
    fn more_equal_trades_than_can_be_counted_count_once() {
        let mut repeats = Repeats::default();
        let count = u32::from(u16::MAX) + 9;
        let mut new = 0;
        for kind in [Kind::Trade, Kind::Mbo] {
            for _ in 0..count {
                new += u32::from(repeats.judge(kind, trade(0, 1)) == New);
            }
        }
        assert_eq!(new, count);
    }
}
