//! Latencies, recorded per lane and merged on request.

use hdrhistogram::Histogram;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest latency that is distinguished: 60 s. Anything above counts as this.
pub const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// The merged latencies of all lanes. Clones share the same tracker.
#[derive(Debug, Clone)]
pub struct LatencyTracker {
    merged: Arc<Mutex<Merged>>,
}

impl LatencyTracker {
    /// Creates a tracker without samples.
    pub fn new() -> Self {
        Self {
            merged: Arc::new(Mutex::new(Merged::new())),
        }
    }

    /// Returns a recorder for one thread.
    pub fn recorder(&self) -> LatencyRecorder {
        LatencyRecorder {
            histogram: new_histogram(),
            sum_ns: 0,
            merged: Arc::clone(&self.merged),
            generation: self.lock().generation,
        }
    }

    /// Returns the figures of all samples published so far. They are computed once per publication,
    /// so repeated calls are cheap.
    pub fn statistics(&self) -> LatencyStatistics {
        self.lock().statistics()
    }

    /// Writes the distribution as CSV: `value_ns,count,percentile`, one row for each value that
    /// occurred. `percentile` is the share of samples up to and including that value (0–100).
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        // A copy, so that a slow disk does not delay publication.
        let histogram = self.lock().histogram.clone();
        writeln!(out, "value_ns,count,percentile")?;
        for step in histogram.iter_recorded() {
            let (value_ns, count) = (step.value_iterated_to(), step.count_since_last_iteration());
            writeln!(out, "{value_ns},{count},{:.6}", step.percentile())?;
        }
        Ok(())
    }

    /// Removes all samples, including those not yet published.
    pub fn reset(&self) {
        let mut merged = self.lock();
        let generation = merged.generation + 1;
        *merged = Merged {
            generation,
            ..Merged::new()
        };
    }

    fn lock(&self) -> MutexGuard<'_, Merged> {
        lock(&self.merged)
    }
}

impl Default for LatencyTracker {
    fn default() -> Self {
        Self::new()
    }
}

/// One thread's side of a [`LatencyTracker`]. Recording a sample takes no lock and touches no
/// shared cache line.
///
/// The tracker sees samples after [`publish`](Self::publish), which is meant to be called a few
/// times per second, or when the recorder is dropped.
#[derive(Debug)]
pub struct LatencyRecorder {
    histogram: Histogram<u64>,
    sum_ns: u64,
    merged: Arc<Mutex<Merged>>,
    /// The tracker's generation at the last publication; a later reset discards the samples.
    generation: u64,
}

impl LatencyRecorder {
    /// Records one latency in nanoseconds. Values above [`LATENCY_MAX_NS`] count as that.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        let latency_ns = latency_ns.min(LATENCY_MAX_NS);
        self.histogram.saturating_record(latency_ns);
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
    }

    /// Returns the number of samples recorded and not yet published.
    pub fn pending(&self) -> u64 {
        self.histogram.len()
    }

    /// Moves the samples to the tracker, unless another thread holds its lock: a lane never waits.
    /// Returns false if the samples stay here until the next call.
    pub fn publish(&mut self) -> bool {
        if self.histogram.is_empty() {
            return true;
        }
        let merged = Arc::clone(&self.merged);
        let Ok(mut merged) = merged.try_lock() else {
            return false;
        };
        self.merge_into(&mut merged);
        true
    }

    fn merge_into(&mut self, merged: &mut Merged) {
        if merged.generation == self.generation {
            merged.add(&self.histogram, self.sum_ns);
        }
        self.generation = merged.generation;
        self.histogram.reset();
        self.sum_ns = 0;
    }
}

impl Drop for LatencyRecorder {
    fn drop(&mut self) {
        if !self.histogram.is_empty() {
            let merged = Arc::clone(&self.merged);
            self.merge_into(&mut lock(&merged));
        }
    }
}

/// Figures of a set of latencies, in nanoseconds; all zero without samples. Percentiles are exact
/// to three significant digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatencyStatistics {
    /// Number of samples.
    pub count: u64,
    /// Smallest sample.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Half of the samples are at most this.
    pub p50_ns: u64,
    /// 99 % of the samples are at most this.
    pub p99_ns: u64,
    /// 99.9 % of the samples are at most this.
    pub p999_ns: u64,
    /// Largest sample.
    pub max_ns: u64,
}

#[derive(Debug)]
struct Merged {
    histogram: Histogram<u64>,
    sum_ns: u64,
    /// The figures of the current `histogram`, once they have been requested.
    statistics: Option<LatencyStatistics>,
    /// Counts resets.
    generation: u64,
}

impl Merged {
    fn new() -> Self {
        Self {
            histogram: new_histogram(),
            sum_ns: 0,
            statistics: None,
            generation: 0,
        }
    }

    fn add(&mut self, histogram: &Histogram<u64>, sum_ns: u64) {
        self.histogram
            .add(histogram)
            .expect("all histograms here have one range");
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
        self.statistics = None;
    }

    fn statistics(&mut self) -> LatencyStatistics {
        let (histogram, sum_ns) = (&self.histogram, self.sum_ns);
        *self
            .statistics
            .get_or_insert_with(|| compute(histogram, sum_ns))
    }
}

fn compute(histogram: &Histogram<u64>, sum_ns: u64) -> LatencyStatistics {
    if histogram.is_empty() {
        return LatencyStatistics::default();
    }
    LatencyStatistics {
        count: histogram.len(),
        min_ns: histogram.min(),
        mean_ns: sum_ns / histogram.len(),
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        p999_ns: histogram.value_at_quantile(0.999),
        max_ns: histogram.max(),
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that fit")
}

fn lock(merged: &Mutex<Merged>) -> MutexGuard<'_, Merged> {
    merged.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Three digits distinguish 1.001 ms from 1.002 ms and cost 200 KiB per recorder.
const SIGNIFICANT_DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a tracker with 1..=1,000 µs, recorded by two recorders.
    fn thousand() -> LatencyTracker {
        let tracker = LatencyTracker::new();
        let mut recorders = [tracker.recorder(), tracker.recorder()];
        for n in 1..=1_000_u64 {
            recorders[(n % 2) as usize].record(n * 1_000);
        }
        tracker
    }

    fn near(actual: u64, expected: u64) -> bool {
        actual.abs_diff(expected) <= expected / 500
    }

    #[test]
    fn samples_of_all_recorders_are_merged() {
        let statistics = thousand().statistics();
        assert_eq!(statistics.count, 1_000);
        assert_eq!(statistics.mean_ns, 500_500);
        assert!(near(statistics.min_ns, 1_000), "{statistics:?}");
        assert!(near(statistics.p50_ns, 500_000), "{statistics:?}");
        assert!(near(statistics.p99_ns, 990_000), "{statistics:?}");
        assert!(near(statistics.p999_ns, 999_000), "{statistics:?}");
        assert!(near(statistics.max_ns, 1_000_000), "{statistics:?}");
    }

    #[test]
    fn samples_are_seen_once_published_and_counted_once() {
        let tracker = LatencyTracker::new();
        let mut recorder = tracker.recorder();
        recorder.record(5);
        assert_eq!((recorder.pending(), tracker.statistics().count), (1, 0));
        assert!(recorder.publish());
        assert_eq!((recorder.pending(), tracker.statistics().count), (0, 1));
        assert!(recorder.publish());
        recorder.record(6);
        drop(recorder);
        let statistics = tracker.statistics();
        assert_eq!(
            (statistics.count, statistics.min_ns, statistics.max_ns),
            (2, 5, 6)
        );
    }

    #[test]
    fn a_lane_does_not_wait_for_a_reader() {
        let tracker = LatencyTracker::new();
        let mut recorder = tracker.recorder();
        recorder.record(5);
        let reading = tracker.lock();
        assert!(!recorder.publish());
        drop(reading);
        assert_eq!(recorder.pending(), 1, "kept for the next time");
        assert!(recorder.publish());
    }

    #[test]
    fn any_latency_is_taken() {
        let tracker = LatencyTracker::new();
        let mut recorder = tracker.recorder();
        recorder.record(0);
        recorder.record(u64::MAX);
        assert!(recorder.publish());
        let statistics = tracker.statistics();
        assert_eq!((statistics.count, statistics.min_ns), (2, 0));
        assert!(near(statistics.max_ns, LATENCY_MAX_NS), "{statistics:?}");
    }

    #[test]
    fn reset_forgets_what_is_not_yet_published_too() {
        let tracker = thousand();
        let mut recorder = tracker.recorder();
        recorder.record(1);
        tracker.reset();
        assert!(recorder.publish());
        assert_eq!(tracker.statistics(), LatencyStatistics::default());
        recorder.record(2);
        assert!(recorder.publish());
        assert_eq!(tracker.statistics().count, 1);
    }

    #[test]
    fn csv_has_every_sample() {
        let mut csv = Vec::new();
        thousand().write_csv(&mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        let mut lines = csv.lines();
        assert_eq!(lines.next(), Some("value_ns,count,percentile"));
        let rows: Vec<Vec<f64>> = lines
            .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
            .collect();
        assert_eq!(rows.iter().map(|row| row[1]).sum::<f64>(), 1_000.0);
        assert!(rows.is_sorted_by(|one, next| one[0] < next[0] && one[2] <= next[2]));
        assert_eq!(rows.last().unwrap()[2], 100.0);
    }

    #[test]
    fn an_empty_tracker_has_zeros_and_a_csv_header() {
        let mut csv = Vec::new();
        LatencyTracker::new().write_csv(&mut csv).unwrap();
        assert_eq!(csv, b"value_ns,count,percentile\n");
        assert_eq!(
            LatencyTracker::new().statistics(),
            LatencyStatistics::default()
        );
    }
}
