//! Numbers of passed and failed tests, from the summaries of cargo and pytest.

use crate::shell::{Failure, Output};
use std::fmt;

/// Total numbers of all kinds of tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    /// Adds the numbers that `cargo test` printed.
    pub(crate) fn cargo(&mut self, output: &Output) -> Result<(), Failure> {
        self.add(parse_cargo(&output.text), output, "cargo test")
    }

    /// Adds the numbers that pytest printed. Exit code 5 means that there was no test.
    pub(crate) fn pytest(&mut self, output: &Output) -> Result<(), Failure> {
        if output.code == Some(5) {
            println!("pytest found no test");
            return Ok(());
        }
        self.add(parse_pytest(&output.text), output, "pytest")
    }

    /// Adds one run, which must have succeeded.
    pub(crate) fn add(&mut self, run: Self, output: &Output, program: &str) -> Result<(), Failure> {
        self.passed += run.passed;
        self.failed += run.failed;
        if output.code == Some(0) && run.failed == 0 {
            return Ok(());
        }
        if run.failed == 0 {
            // It did not compile, or a test ended the whole process.
            self.failed += 1;
        }
        let code = output
            .code
            .map_or("a signal".into(), |code| format!("code {code}"));
        Err(Failure::new(format!(
            "{program} ended with {code}, {} failed",
            run.failed
        )))
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Sums the lines `test result: ok. 31 passed; 0 failed; …`, one per test binary.
fn parse_cargo(text: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text
        .lines()
        .filter(|line| line.starts_with("test result: "))
    {
        counts.passed += number_before(line, " passed").unwrap_or(0);
        counts.failed += number_before(line, " failed").unwrap_or(0);
    }
    counts
}

/// Parses pytest's last line, `1 failed, 40 passed, 2 skipped, 1 error in 3.21s`.
fn parse_pytest(text: &str) -> Counts {
    let is_summary = |line: &&str| {
        let words = [" passed", " failed", " error"];
        line.contains(" in ") && words.iter().any(|word| number_before(line, word).is_some())
    };
    let Some(line) = text.lines().rev().find(is_summary) else {
        return Counts::default();
    };
    let of = |word| number_before(line, word).unwrap_or(0);
    Counts {
        passed: of(" passed"),
        failed: of(" failed") + of(" error"),
    }
}

/// Returns the number before the first `word` in `line`.
pub(crate) fn number_before(line: &str, word: &str) -> Option<u64> {
    let before = &line[..line.find(word)?];
    let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    before[before.len() - digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_lines_are_summed() {
        let text = "\
running 2 tests
test result: ok. 31 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
a test says: 9 passed; 9 failed
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s
";
        assert_eq!(
            parse_cargo(text),
            Counts {
                passed: 32,
                failed: 2
            }
        );
    }

    #[test]
    fn pytest_summary_is_read_with_and_without_rules() {
        let quiet = "..F\nsomething 7 passed in between\n1 failed, 40 passed, 2 skipped in 3.21s\n";
        assert_eq!(
            parse_pytest(quiet),
            Counts {
                passed: 40,
                failed: 1
            }
        );
        let loud = "===== 3 passed, 1 warning, 2 errors in 0.10s =====";
        assert_eq!(
            parse_pytest(loud),
            Counts {
                passed: 3,
                failed: 2
            }
        );
        assert_eq!(parse_pytest("no tests ran in 0.00s"), Counts::default());
    }

    #[test]
    fn a_crash_without_a_count_is_a_failure() {
        let mut counts = Counts::default();
        let output = Output {
            text: String::new(),
            code: None,
        };
        assert!(counts.cargo(&output).is_err());
        assert_eq!(counts.to_string(), "0 passed, 1 failed");
    }

    #[test]
    fn no_python_test_is_no_failure() {
        let mut counts = Counts {
            passed: 4,
            failed: 0,
        };
        let output = Output {
            text: "no tests ran in 0.00s\n".into(),
            code: Some(5),
        };
        assert!(counts.pytest(&output).is_ok());
        assert_eq!(counts.to_string(), "4 passed, 0 failed");
    }
}
