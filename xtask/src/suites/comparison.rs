//! The result of a suite: its tests with the rival and with Tidewire.

use super::report::{End, Report};
use super::setting::read;
use crate::conformance::records::Exceptions;
use crate::shell::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Two runs of one suite. It is stored next to the logs of the runs, so that the page can be made
/// from suites that were run separately.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SuiteComparison {
    pub(super) suite: String,
    pub(super) version: String,
    /// Including its version.
    pub(super) rival: String,
    /// Passed, failed and skipped.
    pub(super) theirs: [usize; 3],
    pub(super) ours: [usize; 3],
    /// Tests that passed here when they were repeated alone.
    pub(super) repeated: usize,
    /// Tests that pass only with the rival, each with its reason.
    pub(super) named: Vec<(String, String)>,
    /// The same without a reason, each with its message.
    pub(super) unnamed: Vec<(String, String)>,
    /// Tests that have a reason and pass here.
    pub(super) unneeded: Vec<String>,
    /// Tests that fail with the rival, each with its message.
    pub(super) failed_there: Vec<(String, String)>,
    /// Why the suite itself skips tests here, and how many.
    #[serde(default)]
    pub(super) skips: BTreeMap<String, usize>,
}

impl SuiteComparison {
    pub(super) fn new(suite: &str, theirs: &Report, ours: &Report, known: &Exceptions) -> Self {
        let mut comparison = Self {
            suite: suite.to_owned(),
            theirs: theirs.counts(),
            ours: ours.counts(),
            skips: ours.skips().clone(),
            ..Self::default()
        };
        for test in theirs.passed() {
            let said = match ours.end(test) {
                Some(End::Passed) => continue,
                Some(End::Failed(said)) => said.clone(),
                Some(End::Skipped) => "skipped".to_owned(),
                None => "not run".to_owned(),
            };
            match known.reason(suite, test) {
                Some(reason) => comparison.named.push((test.to_owned(), reason.to_owned())),
                None => comparison.unnamed.push((test.to_owned(), said)),
            }
        }
        let passes = |test: &&str| ours.end(test) == Some(&End::Passed);
        let named = known.of_unit(suite).flat_map(|one| &one.tests);
        let unneeded = named.map(String::as_str).filter(passes);
        comparison.unneeded = unneeded.map(str::to_owned).collect();
        let failed = theirs.failures();
        comparison.failed_there = failed
            .map(|(test, said)| (test.into(), said.into()))
            .collect();
        comparison
    }

    /// Returns the faults that make the command fail.
    pub(super) fn faults(&self) -> impl Iterator<Item = String> {
        let unnamed = self.unnamed.iter();
        let unnamed = unnamed.map(|(test, said)| format!("{}: {test}: {said}", self.suite));
        let unneeded = self.unneeded.iter();
        unnamed
            .chain(unneeded.map(|test| format!("{}: {test}: an exception that passes", self.suite)))
    }

    pub(super) fn keep(&self, folder: &Path) -> Result<(), Failure> {
        let place = place(folder, &self.suite);
        let text = serde_json::to_string_pretty(self).map_err(Failure::at(&place))?;
        fs::write(&place, text).map_err(Failure::at(&place))
    }

    /// Returns the comparison of an earlier run.
    pub(super) fn kept(folder: &Path, suite: &str) -> Result<Option<Self>, Failure> {
        let place = place(folder, suite);
        if !place.exists() {
            return Ok(None);
        }
        let kept = serde_json::from_str(&read(&place)?);
        kept.map(Some).map_err(Failure::at(&place))
    }
}

impl fmt::Display for SuiteComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([passed, failed, skipped], theirs) = (self.ours, self.theirs);
        write!(
            f,
            "{}: {passed} passed, {failed} failed, {skipped} skipped; with {} {} passed, {} failed, \
             {} skipped; {} named, {} not named",
            self.suite,
            self.rival,
            theirs[0],
            theirs[1],
            theirs[2],
            self.named.len(),
            self.unnamed.len()
        )
    }
}

fn place(folder: &Path, suite: &str) -> PathBuf {
    folder.join(format!("{suite}-compared.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_passes_with_the_rival_alone_is_found_unless_it_is_named() {
        let text = "[[exception]]\nsuite = \"s\"\nreason = \"r\"\ntests = [\"named\", \"fine\"]\n";
        let known = Exceptions::parse(text).unwrap();
        let (mut theirs, mut ours) = (Report::default(), Report::default());
        for test in ["named", "fine", "wrong", "absent", "skipped"] {
            theirs.add(test, End::Passed);
        }
        theirs.add("never", End::Failed("no".into()));
        ours.add("named", End::Failed("unknown command".into()));
        ours.add("fine", End::Passed);
        ours.add("wrong", End::Failed("0 is not 1".into()));
        ours.add("skipped", End::Skipped);
        let comparison = SuiteComparison::new("s", &theirs, &ours, &known);
        let faults: Vec<String> = comparison.faults().collect();
        assert_eq!(
            faults,
            [
                "s: absent: not run",
                "s: skipped: skipped",
                "s: wrong: 0 is not 1",
                "s: fine: an exception that passes"
            ]
        );
        assert_eq!(comparison.named, [("named".to_owned(), "r".to_owned())]);
        assert_eq!(comparison.failed_there.len(), 1);
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_name_of_its_own() {
        let of = |reason: &str, tests: &str| {
            let text =
                format!("[[exception]]\nsuite = \"s\"\nreason = \"{reason}\"\ntests = [{tests}]\n");
            Exceptions::parse(&text)
        };
        assert!(of("r", "\"a\"").is_ok());
        assert!(of(" ", "\"a\"").is_err());
        assert!(of("r", "\"a\", \"a\"").is_err());
    }
}
