//! The records about a suite: files that are not run, and tests that do not pass.

use super::comparison::plain;
use crate::shell::Failure;
use serde::{Deserialize, Deserializer};
use std::fs;
use std::path::Path;

/// All exceptions, each with its reason.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exceptions {
    #[serde(default)]
    pub(crate) not_run: Vec<NotRun>,
    #[serde(default)]
    pub(crate) exception: Vec<Exception>,
}

/// A file, or a folder of files, that is not run.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotRun {
    pub(crate) files: String,
    pub(crate) reason: String,
}

/// Tests of one suite, or of one file of a suite, that may fail here.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exception {
    /// The file or the suite.
    #[serde(alias = "suite")]
    pub(crate) unit: String,
    /// The full names of the tests.
    #[serde(alias = "test", deserialize_with = "one_or_more")]
    pub(crate) tests: Vec<String>,
    pub(crate) reason: String,
    /// Whether they are skipped, because they would end the file.
    #[serde(default)]
    pub(crate) skip: bool,
}

/// Reads one string or a list of strings.
fn one_or_more<'a, D: Deserializer<'a>>(input: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        One(String),
        More(Vec<String>),
    }
    Ok(match Names::deserialize(input)? {
        Names::One(name) => vec![name],
        Names::More(names) => names,
    })
}

impl Exceptions {
    /// Reads the records. A test that is named twice or without a reason is an error.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(Failure::at(path))?;
        Self::parse(&text).map_err(Failure::at(path))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let exceptions: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut seen = Vec::new();
        for one in &exceptions.not_run {
            if one.reason.trim().is_empty() {
                return Err(format!("'{}': no reason", one.files));
            }
        }
        for one in &exceptions.exception {
            for test in &one.tests {
                let refuse = |why| Err(format!("'{test}': {why}"));
                if one.reason.trim().is_empty() {
                    return refuse("no reason");
                }
                if test.starts_with('/') {
                    return refuse("a pattern would leave out tests that are not named");
                }
                if seen.contains(&(&one.unit, test)) {
                    return refuse("named twice");
                }
                seen.push((&one.unit, test));
            }
        }
        Ok(exceptions)
    }

    /// Returns the exceptions of a suite, or of one file.
    pub(crate) fn of_unit(&self, unit: &str) -> impl Iterator<Item = &Exception> {
        self.exception.iter().filter(move |one| one.unit == unit)
    }

    /// Returns why a test may fail, by its exact name.
    pub(crate) fn reason(&self, unit: &str, test: &str) -> Option<&str> {
        let mut of_unit = self.of_unit(unit);
        let found = of_unit.find(|one| one.tests.iter().any(|name| name == test))?;
        Some(&found.reason)
    }

    /// Returns why a file is not run, if it is not.
    pub(crate) fn not_run(&self, unit: &str) -> Option<&str> {
        let is_in = |one: &&NotRun| {
            let rest = unit.strip_prefix(one.files.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = self.not_run.iter().find(is_in);
        found.map(|one| one.reason.as_str())
    }

    /// Returns whether a test is listed; numbers in its name are ignored.
    pub(crate) fn of(&self, unit: &str, test: &str) -> bool {
        let key = plain(test);
        self.of_unit(unit)
            .any(|one| one.tests.iter().any(|name| plain(name) == key))
    }

    /// Returns the names of a file's tests that are skipped.
    pub(crate) fn skips(&self, unit: &str) -> Vec<&str> {
        let skipped = self.of_unit(unit).filter(|one| one.skip);
        skipped
            .flat_map(|one| one.tests.iter().map(String::as_str))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_needs_a_reason_and_stands_once() {
        let one = |reason| {
            format!("[[exception]]\nunit = 'unit/a'\ntests = ['b 1']\nreason = '{reason}'\n")
        };
        let known = Exceptions::parse(&format!("{}skip = true\n", one("c"))).unwrap();
        assert!(known.of("unit/a", "b 2") && !known.of("unit/b", "b 1"));
        assert_eq!(known.skips("unit/a"), ["b 1"]);
        assert_eq!(
            Exceptions::parse(&one("c")).unwrap().skips("unit/a"),
            [""; 0]
        );
        assert!(Exceptions::parse(&one(" ")).is_err());
        assert!(Exceptions::parse(&one("c").repeat(2)).is_err());
        assert!(Exceptions::parse(&one("c").replace("'b 1'", "'/b.*'")).is_err());
    }

    #[test]
    fn a_folder_stands_for_its_files() {
        let known = Exceptions::parse("[[not_run]]\nfiles = 'unit/a'\nreason = 'b'\n").unwrap();
        assert_eq!(known.not_run("unit/a/c"), Some("b"));
        assert_eq!(known.not_run("unit/a"), Some("b"));
        assert_eq!(known.not_run("unit/ab"), None);
    }
}
