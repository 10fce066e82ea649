//! The outcome of a file in numbers, beside what Redis itself has.

use super::output::Outcome;
use super::records::Counted;
use std::fmt;

/// One file's numbers, or the sum of several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) unit: String,
    pub(crate) passed: usize,
    /// Tests that failed, and tests that were never reached.
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    pub(crate) ignored: usize,
    /// Of those that failed: were never reached.
    pub(crate) missing: usize,
    pub(crate) baseline: Counted,
}

impl Tally {
    /// Counts an outcome, with so many exceptions. A test that Redis runs and this run never came
    /// to has failed.
    pub(crate) fn new(unit: &str, outcome: &Outcome, exceptions: usize, baseline: Counted) -> Self {
        let expected = baseline.passed + baseline.failed;
        // A name can stand for several tests, and the suite itself leaves some out.
        let skipped = outcome.skipped.len().max(exceptions);
        let seen = outcome.passed.len() + outcome.failed.len() + skipped;
        let mut missing = expected.saturating_sub(seen);
        if outcome.ended_early.is_some() || !outcome.broken_groups.is_empty() {
            missing = missing.max(1);
        }
        Self {
            unit: unit.to_owned(),
            passed: outcome.passed.len(),
            failed: outcome.failed.len() + missing,
            skipped,
            ignored: outcome.ignored,
            missing,
            baseline,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.ignored += other.ignored;
        self.missing += other.missing;
        self.baseline.passed += other.baseline.passed;
        self.baseline.failed += other.baseline.failed;
        self.baseline.ignored += other.baseline.ignored;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            unit,
            passed,
            failed,
            skipped,
            ignored,
            missing,
            baseline,
        } = self;
        write!(
            f,
            "{unit}: {passed} passed, {failed} failed ({missing} never reached), \
             {skipped} left out, {ignored} ignored; Redis {} passed, {} failed",
            baseline.passed, baseline.failed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::output::TestFailure;
    use super::*;

    #[test]
    fn tests_that_were_never_reached_have_failed() {
        let baseline = Counted {
            passed: 10,
            failed: 0,
            ignored: 0,
        };
        let failure = TestFailure {
            name: "c".into(),
            reason: String::new(),
        };
        let mut outcome = Outcome {
            passed: vec!["a".into(), "b".into()],
            failed: vec![failure],
            skipped: vec!["d".into()],
            ..Outcome::default()
        };
        let tally = Tally::new("unit/x", &outcome, 1, baseline);
        assert_eq!((tally.passed, tally.failed, tally.missing), (2, 7, 6));
        let tally = Tally::new("unit/x", &outcome, 3, baseline);
        assert_eq!((tally.skipped, tally.missing), (3, 4));

        let small = Counted {
            passed: 4,
            ..baseline
        };
        assert_eq!(Tally::new("unit/x", &outcome, 1, small).failed, 1);
        outcome.ended_early = Some("crash".into());
        assert_eq!(Tally::new("unit/x", &outcome, 1, small).failed, 2);
    }
}
