//! One file of the suite: compares what passes with its own server and what passes with Tidewire.

use super::output::Outcome;
use super::records::Exceptions;
use std::collections::BTreeMap;
use std::fmt;

/// Two runs of one file, test by test.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) unit: String,
    pub(crate) theirs: Counted,
    pub(crate) ours: Counted,
    /// Tests that pass there and did not run here, because the file ended early or the test was
    /// skipped.
    pub(crate) not_reached: usize,
    /// Tests that pass there and not here, each with a recorded reason.
    pub(crate) named: usize,
    /// Tests that pass there and not here, without a reason.
    pub(crate) unnamed: Vec<Difference>,
    /// Exceptions that pass.
    pub(crate) unneeded: Vec<String>,
}

/// The test counts of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Tests, and groups of tests, that the suite itself skips.
    pub(crate) ignored: usize,
}

/// A test that passes there and not here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) test: String,
    pub(crate) reason: String,
}

impl Comparison {
    pub(crate) fn new(unit: &str, theirs: &Outcome, ours: &Outcome, known: &Exceptions) -> Self {
        let expected = counts(&theirs.passed);
        let passed = counts(&ours.passed);
        let mut comparison = Self {
            unit: unit.to_owned(),
            theirs: Counted::of(theirs),
            ours: Counted::of(ours),
            ..Self::default()
        };
        for (key, &(test, count)) in &expected {
            let missing = count.saturating_sub(passed.get(key).map_or(0, |&(_, count)| count));
            let exception = known.of(unit, test);
            if missing == 0 {
                if exception {
                    comparison.unneeded.push(test.to_owned());
                }
                continue;
            }
            let failures = ours.failed.iter().filter(|one| plain(&one.name) == *key);
            let failed = failures.clone().count();
            comparison.not_reached += missing.saturating_sub(failed);
            if exception {
                comparison.named += missing;
                continue;
            }
            let reasons = failures.map(|one| one.reason.clone());
            let mut reasons = reasons.chain(std::iter::repeat_with(|| not_reached(ours)));
            comparison.unnamed.extend((0..missing).map(|_| Difference {
                test: test.to_owned(),
                reason: reasons.next().unwrap_or_default(),
            }));
        }
        comparison
    }

    /// Adds the numbers of another file.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, one) in [
            (&mut self.theirs, other.theirs),
            (&mut self.ours, other.ours),
        ] {
            sum.passed += one.passed;
            sum.failed += one.failed;
            sum.ignored += one.ignored;
        }
        self.not_reached += other.not_reached;
        self.named += other.named;
    }
}

impl Counted {
    fn of(outcome: &Outcome) -> Self {
        Self {
            passed: outcome.passed.len(),
            failed: outcome.failed.len() + outcome.broken_groups.len(),
            ignored: outcome.ignored,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} passed, {} failed, {} not reached ({} named); there {} passed, {} failed",
            self.unit,
            self.ours.passed,
            self.ours.failed,
            self.not_reached,
            self.named,
            self.theirs.passed,
            self.theirs.failed
        )
    }
}

/// Returns why a test did not run, if the harness says so.
fn not_reached(ours: &Outcome) -> String {
    let hung = ours.hung.as_ref().map(|name| format!("hung: {name}"));
    let early = ours.ended_early.clone();
    let broken = ours.broken_groups.first().cloned();
    let why = hung.or(broken).or(early).unwrap_or_default();
    format!("not reached: {why}")
}

/// Counts the tests of each name, and keeps one of its spellings.
fn counts(names: &[String]) -> BTreeMap<String, (&str, usize)> {
    let mut counts = BTreeMap::new();
    for name in names {
        counts.entry(plain(name)).or_insert((name.as_str(), 0)).1 += 1;
    }
    counts
}

/// Returns a name without its numbers, which are random or counters in some names.
pub(crate) fn plain(name: &str) -> String {
    let mut plain = String::new();
    for letter in name.chars() {
        if !letter.is_ascii_digit() {
            plain.push(letter);
        } else if !plain.ends_with('#') {
            plain.push('#');
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::super::output::TestFailure;
    use super::super::records::Exception;
    use super::*;

    fn outcome(passed: &[&str], failed: &[&str]) -> Outcome {
        Outcome {
            passed: passed.iter().map(|&name| name.to_owned()).collect(),
            failed: failed
                .iter()
                .map(|&name| TestFailure {
                    name: name.to_owned(),
                    reason: "wrong".into(),
                })
                .collect(),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_test_that_passes_there_alone_is_found() {
        let known = Exceptions {
            exception: vec![Exception {
                unit: "unit/a".into(),
                tests: vec!["named 7".into(), "passes".into()],
                reason: "because".into(),
                skip: false,
            }],
            ..Exceptions::default()
        };
        let theirs = outcome(
            &["a", "a", "b", "c 1", "named 1", "passes"],
            &["fails there"],
        );
        let ours = outcome(&["a", "passes", "c 2"], &["b", "named 2", "fails there"]);
        let comparison = Comparison::new("unit/a", &theirs, &ours, &known);
        let tests: Vec<&str> = comparison
            .unnamed
            .iter()
            .map(|one| one.test.as_str())
            .collect();
        assert_eq!(tests, ["a", "b"]);
        assert_eq!(comparison.unnamed[1].reason, "wrong");
        assert_eq!((comparison.named, comparison.not_reached), (1, 1));
        assert_eq!(comparison.unneeded, ["passes"]);
        assert_eq!((comparison.ours.passed, comparison.ours.failed), (3, 3));
    }
}
