//! `docs/conformance-redis.md`: the counts file by file, and what is left out.

use super::records::Exceptions;
use super::tally::Tally;
use std::fmt::Write;

/// The page.
pub(crate) fn page(
    version: &str,
    lanes: u16,
    tallies: &[Tally],
    exceptions: &Exceptions,
) -> String {
    let mut text = format!(
        "# Conformance with Redis\n\n\
         Redis {version}'s own test suite, run file by file against Tidewire with {lanes} lanes and,\n\
         measured in the same way, against Redis itself. This page is made by\n\n\
         ```sh\n\
         cargo xtask conformance redis --suite PATH   # the tree of Redis's sources, built\n\
         ```\n\n\
         *Passed*, *failed* and *left out* are tests. Left out are the exceptions named below.\n\
         *Ignored* are tests and groups of tests that the suite itself does not run: they need a\n\
         server that the suite starts, or very much memory.\n\n\
         | file | passed | failed | left out | ignored | Redis passed | Redis failed |\n\
         |---|---:|---:|---:|---:|---:|---:|\n"
    );
    // Writing into a string cannot fail.
    let mut row = |name: &str, tally: &Tally| {
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} |",
            tally.passed,
            tally.failed,
            tally.skipped,
            tally.ignored,
            tally.baseline.passed,
            tally.baseline.failed
        );
    };
    let mut sum = Tally::default();
    for tally in tallies {
        row(tally.unit.trim_start_matches("unit/"), tally);
        sum.add(tally);
    }
    row("**all**", &sum);
    text.push_str("\n## Exceptions\n\n");
    if exceptions.exception.is_empty() {
        text.push_str("None.\n");
        return text;
    }
    text.push_str("| file | test | reason |\n|---|---|---|\n");
    for one in &exceptions.exception {
        let unit = one.unit.trim_start_matches("unit/");
        let (test, reason) = (cell(&one.test), cell(&one.reason));
        let _ = writeln!(text, "| {unit} | {test} | {reason} |");
    }
    text
}

fn cell(text: &str) -> String {
    text.trim().replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::super::records::{Counted, Exception};
    use super::*;

    #[test]
    fn the_page_has_a_line_a_file_their_sum_and_the_exceptions() {
        let tally = |unit: &str, passed| Tally {
            unit: unit.into(),
            passed,
            failed: 1,
            skipped: 2,
            ignored: 3,
            baseline: Counted {
                passed: 9,
                failed: 0,
                ignored: 3,
            },
            ..Tally::default()
        };
        let exceptions = Exceptions {
            exception: vec![Exception {
                unit: "unit/a".into(),
                test: "x | y".into(),
                reason: "it needs\na fork".into(),
                absent: false,
            }],
        };
        let tallies = [tally("unit/a", 5), tally("unit/type/b", 7)];
        let text = page("8.0.6", 2, &tallies, &exceptions);
        assert!(text.contains("\n| a | 5 | 1 | 2 | 3 | 9 | 0 |\n"));
        assert!(text.contains("\n| type/b | 7 | 1 | 2 | 3 | 9 | 0 |\n"));
        assert!(text.contains("\n| **all** | 12 | 2 | 4 | 6 | 18 | 0 |\n"));
        assert!(text.contains("\n| a | x \\| y | it needs a fork |\n"));
    }
}
