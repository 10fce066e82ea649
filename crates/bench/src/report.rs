//! Medians and spreads, tables, and the raw run as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use tidewire::failure::Failure;
use tidewire::units::timestamp;

/// The median of some figures, and how far they spread.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Returns the spread of at least one figure.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => f64::NAN,
            length if length % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Self {
            median,
            min: sorted.first().copied().unwrap_or(f64::NAN),
            max: sorted.last().copied().unwrap_or(f64::NAN),
        }
    }

    /// Formats the spread as `1.23 (1.20–1.31)`.
    pub(crate) fn text(self, decimals: usize) -> String {
        let Self { median, min, max } = self;
        format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
    }
}

/// Machine and time of a measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Setting {
    /// UTC.
    pub(crate) date: String,
    /// A short name, such as `epyc-2vcpu`.
    pub(crate) machine: String,
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) kernel: String,
    /// Of this process and of those it starts: below 0 others had to stand back.
    pub(crate) niceness: i32,
    /// Over 1, 5 and 15 minutes, before the first run.
    pub(crate) load_average: String,
    pub(crate) version: &'static str,
    /// Commit of the checkout that the command runs in; "unknown" elsewhere.
    pub(crate) commit: String,
}

impl Setting {
    pub(crate) fn look() -> Self {
        let processor = processor();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let load = read("/proc/loadavg");
        Self {
            date: timestamp(unix_ns()),
            machine: machine(&processor, processors),
            processors,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            niceness: rustix::process::getpriority_process(None).unwrap_or(0),
            load_average: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            processor,
        }
    }

    /// Returns the line above the tables.
    pub(crate) fn headline(&self) -> String {
        format!(
            "{} · {} ({}, {} processors, Linux {}) · commit {} · load average {} · \
             niceness {}",
            self.date,
            self.machine,
            self.processor,
            self.processors,
            self.kernel,
            self.commit,
            self.load_average,
            self.niceness
        )
    }
}

/// A column of a table: its title, and its text for a row.
pub(crate) type Column<'a, R> = (&'a str, &'a dyn Fn(&R) -> String);

/// Columns of text, the first to the left and the others to the right, as a Markdown table.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(titles: &[&str]) -> Self {
        Self {
            rows: vec![titles.iter().map(|&title| title.to_owned()).collect()],
        }
    }

    /// Creates a table with a row for each of `rows`. A column has a title and the text of a
    /// cell.
    pub(crate) fn of<R>(rows: &[R], columns: &[Column<'_, R>]) -> Self {
        let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
        let mut table = Self::new(&titles);
        for row in rows {
            table.push(columns.iter().map(|(_, cell)| cell(row)).collect());
        }
        table
    }

    /// Creates a table of two columns: names and values.
    pub(crate) fn of_pairs<const N: usize>(title: &str, pairs: [(&str, String); N]) -> Self {
        Self::of(
            &pairs,
            &[
                (title, &|(name, _)| (*name).to_owned()),
                ("", &|(_, value)| value.clone()),
            ],
        )
    }

    pub(crate) fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 => write!(text, "| {cell:<width$} |"),
                    _ => write!(text, " {cell:>width$} |"),
                };
            }
            text.push('\n');
            if number == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(*width);
                    let _ = match column {
                        0 => write!(text, "|-{dashes}-|"),
                        _ => write!(text, "-{dashes}:|"),
                    };
                }
                text.push('\n');
            }
        }
        text
    }
}

/// Writes JSON into a file, or to the standard output where the file is called `-`.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write_json(run: &impl Serialize, path: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::running(format!("cannot write {}: {error}", path.display()))
    };
    let mut json = serde_json::to_string_pretty(run).map_err(|error| failed(&error))?;
    json.push('\n');
    if path == Path::new(STANDARD_OUTPUT) {
        print!("{json}");
        return Ok(());
    }
    fs::write(path, json).map_err(|error| failed(&error))
}

pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn processor() -> String {
    let text = read("/proc/cpuinfo");
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or("unknown processor", |(_, name)| name.trim())
        .to_owned()
}

/// Returns the last alphabetic word of the processor's name, and the number of processors.
fn machine(processor: &str, processors: usize) -> String {
    let words = processor.split(|c: char| !c.is_ascii_alphanumeric());
    let name = words
        .filter(|word| word.len() > 2 && word.chars().all(|c| c.is_ascii_alphabetic()))
        .find(|word| !["AMD", "Intel", "CPU", "Processor"].contains(word));
    let name = name.unwrap_or("machine").to_ascii_lowercase();
    format!("{name}-{processors}vcpu")
}

fn commit() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=10"])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

/// Folder of raw runs, relative to the root of the checkout.
pub(crate) const RUNS: &str = "bench/runs";
/// What a raw run's tables are called in it.
pub(crate) const TABLES: &str = "tables";
/// Stands for the standard output in place of a file.
pub(crate) const STANDARD_OUTPUT: &str = "-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_figures_lies_between_the_two_in_the_middle() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 4.0));
        assert_eq!(Spread::of([7.0]).text(1), "7.0 (7.0–7.0)");
    }

    #[test]
    fn a_machine_is_named_after_its_processor() {
        assert_eq!(machine("AMD EPYC 7B13 Processor", 2), "epyc-2vcpu");
        assert_eq!(machine("Intel(R) Xeon(R) CPU @ 2.20GHz", 8), "xeon-8vcpu");
        assert_eq!(machine("", 4), "machine-4vcpu");
    }
}
