//! What replaying says at its end: a line a fact.

use std::fmt::Write;
use std::path::Path;

use super::link::Acknowledgement;
use crate::units::{grouped, timestamp};

/// Lines of a name and a value, in columns.
pub(super) struct Report {
    text: String,
}

impl Report {
    /// Begins with the file that was played.
    pub(super) fn of(file: &Path) -> Self {
        let mut report = Self {
            text: String::new(),
        };
        report.line("file", file.display().to_string());
        report
    }

    pub(super) fn line(&mut self, name: &str, value: String) {
        let _ = writeln!(self.text, "{name:<10} {value}");
    }

    /// The first and the last time in the file, ns since the UNIX epoch.
    pub(super) fn times(&mut self, times_ns: Option<(u64, u64)>) {
        if let Some((first_ns, last_ns)) = times_ns {
            self.line("from", timestamp(first_ns));
            self.line("to", timestamp(last_ns));
        }
    }

    /// How often the file was played, and what of the report is of the last time alone.
    pub(super) fn rounds(&mut self, rounds: u64, of_the_last: &str) {
        if rounds > 1 {
            self.line("rounds", format!("{rounds}; {of_the_last}"));
        }
    }

    /// What the hub said at the end.
    pub(super) fn hub(&mut self, end: Acknowledgement) {
        let last_sequence = grouped(end.next_sequence.saturating_sub(1));
        let applied = grouped(end.applied);
        self.line(
            "hub",
            format!("has sequences 1 to {last_sequence}, {applied} messages applied"),
        );
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}
