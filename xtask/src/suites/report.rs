//! The outcomes of the tests of one run, by name.

use std::collections::BTreeMap;

/// The outcome of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Passed,
    Failed(String),
    /// The suite itself skipped it.
    Skipped,
}

/// The outcomes of one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    ends: BTreeMap<String, End>,
    /// Why tests are skipped, and how many, as far as the suite says so.
    skips: BTreeMap<String, usize>,
}

impl Report {
    /// Adds a test. A repeated name gets a number.
    pub(super) fn add(&mut self, name: &str, end: End) {
        let mut key = name.to_owned();
        let mut count = 1;
        while self.ends.contains_key(&key) {
            count += 1;
            key = format!("{name} ({count})");
        }
        self.ends.insert(key, end);
    }

    /// Adds skipped tests that have no names of their own.
    pub(super) fn skip(&mut self, place: &str, count: usize, reason: &str) {
        for _ in 0..count {
            self.add(place, End::Skipped);
        }
        *self.skips.entry(reason.to_owned()).or_default() += count;
    }

    pub(super) fn skips(&self) -> &BTreeMap<String, usize> {
        &self.skips
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn end(&self, name: &str) -> Option<&End> {
        self.ends.get(name)
    }

    pub(super) fn passed(&self) -> impl Iterator<Item = &str> {
        let passed = self.ends.iter().filter(|(_, end)| **end == End::Passed);
        passed.map(|(name, _)| name.as_str())
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = (&str, &End)> {
        self.ends.iter().map(|(name, end)| (name.as_str(), end))
    }

    /// Returns failed tests with their messages.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ends.iter().filter_map(|(name, end)| match end {
            End::Failed(said) => Some((name.as_str(), said.as_str())),
            _ => None,
        })
    }

    /// Returns whether a test ran, or should have run, without success.
    pub(super) fn failed(&self, name: &str) -> bool {
        !matches!(self.end(name), Some(End::Passed | End::Skipped))
    }

    /// Returns how many tests passed, failed and were skipped.
    pub(super) fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for end in self.ends.values() {
            counts[match end {
                End::Passed => 0,
                End::Failed(_) => 1,
                End::Skipped => 2,
            }] += 1;
        }
        counts
    }

    /// Takes over the tests that passed in a second run. Returns how many these were.
    pub(super) fn improve(&mut self, second: Self) -> usize {
        let mut improved = 0;
        for (name, end) in second.ends {
            if end == End::Passed && self.failed(&name) {
                self.ends.insert(name, end);
                improved += 1;
            }
        }
        improved
    }
}

type ToEnd = fn(String) -> End;

/// Parses the lines of `go test -v`: `--- PASS: TestName (0.01s)`.
pub(super) fn go_test(text: &str) -> Report {
    let mut report = Report::default();
    let mut said = String::new();
    for line in text.lines() {
        let line = line.trim();
        let ends: [(&str, ToEnd); 3] = [
            ("--- PASS: ", |_| End::Passed),
            ("--- FAIL: ", End::Failed),
            ("--- SKIP: ", |_| End::Skipped),
        ];
        let found = ends.iter().find_map(|(mark, end)| {
            let name = line.strip_prefix(mark)?.split(' ').next()?;
            Some((name, end))
        });
        match found {
            Some((name, end)) => report.add(name, end(std::mem::take(&mut said))),
            None if line.starts_with("=== RUN") => said.clear(),
            None => said = format!("{said} {line}").trim().to_owned(),
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_takes_failures_back_and_nothing_else() {
        let mut first = Report::default();
        first.add("a", End::Passed);
        first.add("b", End::Failed("late".into()));
        first.add("b", End::Failed("wrong".into()));
        let mut second = Report::default();
        second.add("a", End::Failed("late".into()));
        second.add("b", End::Passed);
        second.add("b", End::Failed("wrong".into()));
        assert_eq!(first.improve(second), 1);
        assert_eq!(first.counts(), [2, 1, 0]);
        assert!(first.failed("b (2)") && first.failed("absent") && !first.failed("b"));
    }

    #[test]
    fn lines_of_go_test_are_read() {
        let text = "=== RUN   TestA\n    a_test.go:3: odd\n--- FAIL: TestA (0.00s)\n\
            === RUN   TestB\n--- PASS: TestB (1.00s)\n    --- SKIP: TestB/c (0.00s)\nFAIL\n";
        let report = go_test(text);
        assert_eq!(report.counts(), [1, 1, 1]);
        assert_eq!(
            report.end("TestA"),
            Some(&End::Failed("a_test.go:3: odd".into()))
        );
    }
}
