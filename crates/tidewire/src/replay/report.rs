//! The report at the end of a replay: one fact per line.

use std::fmt::Write;
use std::path::Path;

use super::link::Acknowledgement;
use crate::units::{grouped, timestamp};

/// Lines of a name and a value, in columns.
pub(super) struct Report {
    text: String,
}

impl Report {
    /// Starts a report on the file that was played.
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

    /// Adds the first and the last time in the file, ns since the UNIX epoch.
    pub(super) fn times(&mut self, times_ns: Option<(u64, u64)>) {
        if let Some((first_ns, last_ns)) = times_ns {
            self.line("from", timestamp(first_ns));
            self.line("to", timestamp(last_ns));
        }
    }

    /// Adds how often the file was played, and which part of the report concerns the last round
    /// only.
    pub(super) fn rounds(&mut self, rounds: u64, of_the_last: &str) {
        if rounds > 1 {
            self.line("rounds", format!("{rounds}; {of_the_last}"));
        }
    }

    /// Adds that a signal ended the replay before the end of the file.
    pub(super) fn interrupted(&mut self) {
        self.line("ends", "interrupted: the rest was not played".to_owned());
    }

    /// Adds what the hub confirmed at the end.
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
