//! Trades that a client did not get, and the bars that lack them.

use crate::bars::Interval;

/// When a topic traded before the client's first record of it, ns since the UNIX epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    /// The latest time of these trades.
    newest_ns: u64,
    /// The time of the one that came last: a file of an older day may have been played.
    last_ns: u64,
}

impl Missed {
    pub(super) fn new(newest_ns: u64, last_ns: u64) -> Self {
        let newest_ns = newest_ns.max(last_ns);
        Self { newest_ns, last_ns }
    }

    /// Returns these trades with those that came before them.
    pub(super) fn with(self, before: Self) -> Self {
        Self::new(self.newest_ns.max(before.newest_ns), self.last_ns)
    }

    /// Returns whether the bar that begins at `start_ns` may lack some of the trades: it is that of
    /// one of both times, or one before it, as trades come late.
    pub(super) fn concerns(self, interval: Interval, start_ns: u64) -> bool {
        let distance_max = interval.length_ns().max(LATE_NS);
        [self.newest_ns, self.last_ns].into_iter().any(|time_ns| {
            let distance = interval.start_of(time_ns).checked_sub(start_ns);
            distance.is_some_and(|distance| distance <= distance_max)
        })
    }
}

/// How late a trade may be. What is older is another day, which may be played after a later one.
const LATE_NS: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_bars_up_to_the_newest_trade_may_lack_some_and_those_of_another_day_do_not() {
        let day = 86_400 * SECOND;
        let missed = Missed::new(10 * day, 9 * day);
        let concerns = |start_ns| missed.concerns(Interval::Second, start_ns);
        assert!(concerns(10 * day) && concerns(10 * day - LATE_NS));
        assert!(!concerns(10 * day + SECOND) && !concerns(10 * day - LATE_NS - SECOND));
        assert!(concerns(9 * day) && !concerns(9 * day + SECOND));
        assert!(missed.concerns(Interval::Day, 9 * day));
    }
}
