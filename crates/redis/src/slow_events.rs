//! LATENCY: events that took longer than `latency-monitor-threshold`.

use std::collections::BTreeMap;
use std::fmt::Write;

use parking_lot::Mutex;

/// Slow moments by event.
#[derive(Debug, Default)]
pub(crate) struct SlowEvents {
    series: Mutex<BTreeMap<&'static str, Series>>,
}

/// The slow moments of one event, one a second at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Seconds since the UNIX epoch and ms, the oldest first.
    pub(crate) samples: Vec<(u64, u64)>,
    /// The longest since the start.
    pub(crate) longest_ms: u64,
}

impl SlowEvents {
    /// Keeps a moment.
    pub(crate) fn note(&self, event: &'static str, unix_s: u64, ms: u64) {
        let mut series = self.series.lock();
        let series = series.entry(event).or_default();
        series.longest_ms = series.longest_ms.max(ms);
        match series.samples.last_mut() {
            Some((last_s, last_ms)) if *last_s == unix_s => *last_ms = ms.max(*last_ms),
            _ => {
                if series.samples.len() == SAMPLES_MAX {
                    series.samples.remove(0);
                }
                series.samples.push((unix_s, ms));
            }
        }
        debug_assert!(
            series.samples.len() <= SAMPLES_MAX,
            "samples have their bound"
        );
        debug_assert!(
            series
                .samples
                .iter()
                .all(|(_, ms)| *ms <= series.longest_ms),
            "no sample is longer than the longest"
        );
    }

    /// One event's moments; nothing if there were none.
    pub(crate) fn find(&self, event: &[u8]) -> Option<(&'static str, Series)> {
        let series = self.series.lock();
        let found = series
            .iter()
            .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(event));
        found.map(|(name, series)| (*name, series.clone()))
    }

    /// Every event's moments.
    pub(crate) fn all(&self) -> Vec<(&'static str, Series)> {
        let series = self.series.lock();
        series
            .iter()
            .map(|(name, series)| (*name, series.clone()))
            .collect()
    }

    /// Forgets events by name, or all; how many there were.
    pub(crate) fn reset(&self, events: &[&[u8]]) -> usize {
        let mut series = self.series.lock();
        let before = series.len();
        let is_named = |name: &str| {
            let mut events = events.iter();
            events.any(|event| event.eq_ignore_ascii_case(name.as_bytes()))
        };
        series.retain(|name, _| !events.is_empty() && !is_named(name));
        before - series.len()
    }
}

impl Series {
    /// The moments as columns of text, as LATENCY GRAPH shows them.
    pub(crate) fn graph(&self, event: &str, now_s: u64) -> String {
        let lowest = self.samples.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
        let highest = self.samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
        let mut text = format!(
            "{event} - high {highest} ms, low {lowest} ms (all time high {} ms)\n{}\n",
            self.longest_ms,
            "-".repeat(COLUMNS)
        );
        let labels: Vec<String> = self
            .samples
            .iter()
            .map(|(unix_s, _)| ago(now_s.saturating_sub(*unix_s)))
            .collect();
        for (samples, labels) in self.samples.chunks(COLUMNS).zip(labels.chunks(COLUMNS)) {
            for row in (0..ROWS).rev() {
                text.extend(samples.iter().map(|(_, ms)| {
                    let steps = ROWS * STEPS.len() as u64 - 1;
                    let height = (ms - lowest) * steps / (highest - lowest).max(1);
                    match height / STEPS.len() as u64 {
                        full if full > row => '|',
                        full if full == row => STEPS[(height % STEPS.len() as u64) as usize],
                        _ => ' ',
                    }
                }));
                text.push('\n');
            }
            text.push('\n');
            for row in 0..labels.iter().map(String::len).max().unwrap_or(0) {
                text.extend(
                    labels
                        .iter()
                        .map(|label| label.chars().nth(row).unwrap_or(' ')),
                );
                text.push('\n');
            }
        }
        text
    }

    /// Appends the report of an event.
    pub(crate) fn report(&self, event: &str, now_s: u64, out: &mut String) {
        let count = self.samples.len() as u64;
        let mean = self.samples.iter().map(|(_, ms)| ms).sum::<u64>() / count.max(1);
        let apart: u64 = self.samples.iter().map(|(_, ms)| ms.abs_diff(mean)).sum();
        let since_s = self.samples.first().map_or(0, |(unix_s, _)| *unix_s);
        let period_s = now_s.saturating_sub(since_s).max(1) as f64 / count.max(1) as f64;
        let _ = writeln!(
            out,
            "{event}: {count} latency spikes (average {mean}ms, mean deviation {}ms, period \
             {period_s:.2} sec). Worst all time event {}ms.",
            apart / count.max(1),
            self.longest_ms
        );
    }
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Moments of an event that are kept, as Redis has it.
const SAMPLES_MAX: usize = 160;
/// Columns and rows of a graph.
const COLUMNS: usize = 80;
const ROWS: u64 = 4;
/// How a column ends within a row, lowest first.
const STEPS: [char; 3] = ['_', 'o', '#'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_a_second_is_kept_and_old_moments_go() {
        let events = SlowEvents::default();
        for (unix_s, ms) in [(1, 30), (1, 50), (1, 40), (2, 10)] {
            events.note("command", unix_s, ms);
        }
        let (_, series) = events.find(b"COMMAND").unwrap();
        assert_eq!(series.samples, [(1, 50), (2, 10)]);
        assert_eq!(series.longest_ms, 50);
        (3..500).for_each(|unix_s| events.note("command", unix_s, 1));
        let (_, series) = events.find(b"command").unwrap();
        assert_eq!(series.samples.len(), SAMPLES_MAX);
        assert_eq!((series.samples[0].0, series.longest_ms), (340, 50));
        events.note("expire-cycle", 1, 1);
        assert_eq!(events.reset(&[b"nothing", b"command"]), 1);
        assert_eq!(events.reset(&[]), 1);
        assert!(events.all().is_empty());
    }

    #[test]
    fn a_graph_has_a_column_for_each_moment() {
        let series = Series {
            samples: vec![(10, 100), (70, 400), (100, 250)],
            longest_ms: 900,
        };
        let graph = series.graph("command", 101);
        let expected = "command - high 400 ms, low 100 ms (all time high 900 ms)\n";
        let lines: Vec<&str> = graph.strip_prefix(expected).unwrap().lines().collect();
        assert_eq!(lines[1..5], [" # ", " | ", " |#", "_||"]);
        assert_eq!(lines[6..8], ["131", "m1s"].map(|line| line));
    }
}
