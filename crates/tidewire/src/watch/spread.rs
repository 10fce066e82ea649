//! The distribution of latencies: percentiles of an interval and of the whole time, and the
//! history.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

/// Latencies of the current interval and of all intervals, and the percentiles of the latest ones.
#[derive(Debug)]
pub(super) struct Spread {
    interval: Histogram<u64>,
    all: Histogram<u64>,
    /// The latest intervals, oldest first.
    history: VecDeque<Percentiles>,
    /// Messages with a timestamp later than their arrival: one of the two clocks is wrong.
    ahead: u64,
    /// Messages older than a minute: these are replayed history, not latency.
    old: u64,
}

/// Percentiles of a set of latencies, in nanoseconds; all zero without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Percentiles {
    pub(super) count: u64,
    pub(super) min_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) p90_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
}

impl Spread {
    pub(super) fn new() -> Self {
        Self {
            interval: histogram(),
            all: histogram(),
            history: VecDeque::with_capacity(HISTORY_MAX),
            ahead: 0,
            old: 0,
        }
    }

    /// Records a message that its source stamped `source_ns` and that arrived at `received_ns`, by
    /// this machine's clock.
    #[inline]
    pub(super) fn record(&mut self, source_ns: u64, received_ns: u64) {
        match received_ns.checked_sub(source_ns) {
            None => self.ahead += 1,
            Some(latency_ns) if latency_ns >= LATENCY_NS_MAX => self.old += 1,
            Some(latency_ns) => self.interval.saturating_record(latency_ns),
        }
    }

    /// Ends the interval and returns its percentiles.
    pub(super) fn turn(&mut self) -> Percentiles {
        let latest = percentiles(&self.interval);
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(latest);
        self.all
            .add(&self.interval)
            .expect("both histograms have one range");
        self.interval.reset();
        latest
    }

    /// Returns the percentiles of everything up to the end of the last interval.
    pub(super) fn all(&self) -> Percentiles {
        percentiles(&self.all)
    }

    pub(super) fn history(&self) -> impl Iterator<Item = &Percentiles> {
        self.history.iter()
    }

    pub(super) fn ahead(&self) -> u64 {
        self.ahead
    }

    pub(super) fn old(&self) -> u64 {
        self.old
    }
}

fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    if histogram.is_empty() {
        return Percentiles::default();
    }
    Percentiles {
        count: histogram.len(),
        min_ns: histogram.min(),
        p50_ns: histogram.value_at_quantile(0.5),
        p90_ns: histogram.value_at_quantile(0.9),
        p99_ns: histogram.value_at_quantile(0.99),
        p999_ns: histogram.value_at_quantile(0.999),
        max_ns: histogram.max(),
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are constants that fit")
}

const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Number of intervals remembered: more than a terminal has columns.
const HISTORY_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_wrong_clock_or_an_old_recording_brings_is_no_latency() {
        let mut spread = Spread::new();
        spread.record(2_000, 1_000);
        spread.record(0, 61_000_000_000);
        (1..=100).for_each(|n| spread.record(1_000, 1_000 + n * 1_000));
        let latest = spread.turn();
        assert_eq!((latest.count, spread.ahead(), spread.old()), (100, 1, 1));
        assert!(latest.p50_ns.abs_diff(50_000) < 100, "{latest:?}");
        assert_eq!(spread.turn(), Percentiles::default());
        assert_eq!((spread.all().count, spread.history().count()), (100, 2));
    }
}
