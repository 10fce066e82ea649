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

    /// Adds lines that are in columns already.
    pub(super) fn lines(&mut self, lines: &[String]) {
        for line in lines {
            let _ = writeln!(self.text, "{line}");
        }
    }

    /// Adds the first and the last time in the file, ns since the UNIX epoch.
    pub(super) fn times(&mut self, times_ns: Option<(u64, u64)>) {
        if let Some((first_ns, last_ns)) = times_ns {
            self.line("from", timestamp(first_ns));
            self.line("to", timestamp(last_ns));
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

/// The rounds in which a file is played again and again, and what the report says of them: one
/// round, the last that was whole.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The lines on that round. If the first one was not whole, those on it.
    lines: String,
    whole: u64,
    /// Whether the last round was not whole.
    has_part: bool,
    /// Messages published in all rounds so far.
    published: u64,
}

impl Rounds {
    /// Begins a round. `published` is the number of all messages: those since the last round have
    /// ended that, and belong to none.
    pub(super) fn begin(&mut self, published: u64) {
        debug_assert!(self.published <= published, "messages are only added");
        self.published = published;
    }

    /// Returns the number of messages of the round that has ended. `published` is that of all.
    pub(super) fn published(&self, published: u64) -> u64 {
        debug_assert!(self.published <= published, "messages are only added");
        published - self.published
    }

    /// Adds the lines on a round, and the number of messages published in all.
    pub(super) fn add(&mut self, round: Report, is_whole: bool, published: u64) {
        debug_assert!(!self.has_part, "a round that is not whole is the last");
        if is_whole || self.whole == 0 {
            self.lines = round.into_text();
        }
        self.published = published;
        self.whole += u64::from(is_whole);
        self.has_part = !is_whole;
    }

    /// Returns the report on all rounds.
    pub(super) fn report(self, end: Acknowledgement) -> Report {
        let mut report = Report { text: self.lines };
        let (whole, published) = (grouped(self.whole), grouped(self.published));
        let rounds = match (self.whole, self.has_part) {
            (0, _) | (1, false) => None,
            (_, false) => Some(whole),
            (_, true) => Some(format!("{whole}, and a part of one more")),
        };
        if let Some(rounds) = rounds {
            let text = "the lines above are of the last whole one";
            report.line(
                "rounds",
                format!("{rounds}; {text}; {published} messages in all"),
            );
        }
        report.hub(end);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(records: u64) -> Report {
        let mut report = Report::of(Path::new("f"));
        report.line("records", records.to_string());
        report
    }

    fn said(rounds: Rounds) -> Vec<String> {
        let text = rounds.report(Acknowledgement::default()).into_text();
        let lines = text.lines().skip(1).map(str::to_owned);
        lines.filter(|line| !line.starts_with("hub")).collect()
    }

    /// The records were those of an interrupted last round, and the messages those of all.
    #[test]
    fn a_report_on_rounds_does_not_mix_them() {
        let mut rounds = Rounds::default();
        for all in [10, 20] {
            assert_eq!(rounds.published(all), 10);
            rounds.add(round(7), true, all);
        }
        assert_eq!(rounds.published(23), 3);
        rounds.add(round(2), false, 23);
        let last = "rounds     2, and a part of one more; the lines above are of the last whole \
                    one; 23 messages in all";
        assert_eq!(said(rounds), ["records    7", last]);
    }

    #[test]
    fn a_report_on_one_round_has_no_line_on_rounds() {
        for is_whole in [true, false] {
            let mut rounds = Rounds::default();
            rounds.add(round(7), is_whole, 10);
            assert_eq!(said(rounds), ["records    7"]);
        }
    }
}
