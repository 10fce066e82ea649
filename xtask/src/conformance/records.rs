//! What is kept about a suite: files that are not run, and tests that do not pass.

use super::comparison::plain;
use crate::shell::Failure;
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// What is left out, each with its reason.
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

/// Tests of one file that pass with the server of the suite and not here.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exception {
    pub(crate) unit: String,
    /// Their names, whole.
    pub(crate) tests: Vec<String>,
    pub(crate) reason: String,
    /// They are not run, because they would end the file.
    #[serde(default)]
    pub(crate) skip: bool,
}

impl Exceptions {
    /// Reads them; a file that names a test twice, or without a reason, is refused.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let exceptions: Self = parse(path)?;
        let mut seen = Vec::new();
        for one in &exceptions.not_run {
            if one.reason.trim().is_empty() {
                return Err(named(path, &format!("'{}': no reason", one.files)));
            }
        }
        for one in &exceptions.exception {
            for test in &one.tests {
                let refuse = |why| Err(named(path, &format!("'{test}': {why}")));
                if one.reason.trim().is_empty() {
                    return refuse("no reason");
                }
                if test.starts_with('/') {
                    return refuse("a pattern would leave out tests that nobody has named");
                }
                if seen.contains(&(&one.unit, test)) {
                    return refuse("named twice");
                }
                seen.push((&one.unit, test));
            }
        }
        Ok(exceptions)
    }

    /// Why a file is not run, if it is not.
    pub(crate) fn not_run(&self, unit: &str) -> Option<&str> {
        let is_in = |one: &&NotRun| {
            let rest = unit.strip_prefix(one.files.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = self.not_run.iter().find(is_in);
        found.map(|one| one.reason.as_str())
    }

    /// Whether a test is named; numbers in its name do not matter.
    pub(crate) fn of(&self, unit: &str, test: &str) -> bool {
        let key = plain(test);
        let mut of_unit = self.exception.iter().filter(|one| one.unit == unit);
        of_unit.any(|one| one.tests.iter().any(|name| plain(name) == key))
    }

    /// The names of one file's tests that are not run.
    pub(crate) fn skips(&self, unit: &str) -> Vec<&str> {
        let of_unit = self.exception.iter().filter(|one| one.unit == unit);
        let skipped = of_unit.filter(|one| one.skip);
        skipped
            .flat_map(|one| one.tests.iter().map(String::as_str))
            .collect()
    }
}

pub(super) fn parse<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, Failure> {
    let text = fs::read_to_string(path).map_err(|error| named(path, &error))?;
    toml::from_str(&text).map_err(|error| named(path, &error))
}

pub(super) fn named(path: &Path, error: &impl std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Exceptions, Failure> {
        let name = format!(
            "exceptions-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        let read = Exceptions::read(&path);
        fs::remove_file(&path).unwrap();
        read
    }

    #[test]
    fn an_exception_needs_a_reason_and_stands_once() {
        let one = |reason| {
            format!("[[exception]]\nunit = 'unit/a'\ntests = ['b 1']\nreason = '{reason}'\n")
        };
        let known = read(&format!("{}skip = true\n", one("c"))).unwrap();
        assert!(known.of("unit/a", "b 2") && !known.of("unit/b", "b 1"));
        assert_eq!(known.skips("unit/a"), ["b 1"]);
        assert_eq!(read(&one("c")).unwrap().skips("unit/a"), [""; 0]);
        assert!(read(&one(" ")).is_err());
        assert!(read(&one("c").repeat(2)).is_err());
        assert!(read(&one("c").replace("'b 1'", "'/b.*'")).is_err());
    }

    #[test]
    fn a_folder_stands_for_its_files() {
        let known = read("[[not_run]]\nfiles = 'unit/a'\nreason = 'b'\n").unwrap();
        assert_eq!(known.not_run("unit/a/c"), Some("b"));
        assert_eq!(known.not_run("unit/a"), Some("b"));
        assert_eq!(known.not_run("unit/ab"), None);
    }
}
