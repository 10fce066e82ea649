//! What is kept about the suite: Redis's own counts, and the tests that are left out.

use crate::shell::Failure;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Redis's own counts, as `--baseline` measured them.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    /// The version of Redis.
    pub(crate) version: String,
    pub(crate) unit: BTreeMap<String, Counted>,
}

/// Tests of one file.
#[derive(Debug, Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counted {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Tests and groups that their tags exclude.
    pub(crate) ignored: usize,
}

/// Tests that are left out, each with its reason.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exceptions {
    #[serde(default)]
    pub(crate) exception: Vec<Exception>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exception {
    pub(crate) unit: String,
    /// The test's name, whole.
    pub(crate) test: String,
    pub(crate) reason: String,
    /// The suite itself asks the server whether the test makes sense, and leaves it out.
    #[serde(default)]
    pub(crate) absent: bool,
}

impl Baseline {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        parse(path)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut text = String::from(
            "# Redis's own counts in its own suite, measured by\n\
             # `cargo xtask conformance redis --suite PATH --baseline`.\n\n",
        );
        // Writing into a string cannot fail.
        let _ = writeln!(text, "version = \"{}\"\n\n[unit]", self.version);
        for (unit, counted) in &self.unit {
            let Counted {
                passed,
                failed,
                ignored,
            } = counted;
            let _ = writeln!(
                text,
                "\"{unit}\" = {{ passed = {passed}, failed = {failed}, ignored = {ignored} }}"
            );
        }
        fs::write(path, text).map_err(|error| named(path, &error))
    }

    /// All tests that run.
    pub(crate) fn tests(&self) -> usize {
        self.unit
            .values()
            .map(|counted| counted.passed + counted.failed)
            .sum()
    }
}

impl Exceptions {
    /// Reads them; a file that names a test twice, or without a reason, is refused.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let exceptions: Self = parse(path)?;
        for (index, one) in exceptions.exception.iter().enumerate() {
            let is_same = |other: &Exception| other.unit == one.unit && other.test == one.test;
            let refuse = |why| Err(named(path, &format!("'{}': {why}", one.test)));
            if one.reason.trim().is_empty() {
                return refuse("no reason");
            }
            if one.test.starts_with('/') {
                return refuse("a pattern would leave out tests that nobody has named");
            }
            if exceptions.exception[..index].iter().any(is_same) {
                return refuse("named twice");
            }
        }
        Ok(exceptions)
    }

    /// The names of one file's exceptions.
    pub(crate) fn of(&self, unit: &str) -> Vec<&str> {
        let of_unit = self.exception.iter().filter(|one| one.unit == unit);
        of_unit.map(|one| one.test.as_str()).collect()
    }

    /// Those of one file that the suite itself leaves out.
    pub(crate) fn absent(&self, unit: &str) -> Vec<&str> {
        let of_unit = self.exception.iter().filter(|one| one.unit == unit);
        let absent = of_unit.filter(|one| one.absent);
        absent.map(|one| one.test.as_str()).collect()
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

    fn with_file<T>(name: &str, text: &str, look: impl FnOnce(&Path) -> T) -> T {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::write(&path, text).unwrap();
        let seen = look(&path);
        fs::remove_file(&path).unwrap();
        seen
    }

    #[test]
    fn counts_are_read_back_as_they_were_written() {
        let counted = Counted {
            passed: 79,
            failed: 0,
            ignored: 1,
        };
        let baseline = Baseline {
            version: "8.0.6".into(),
            unit: [("unit/type/string".to_owned(), counted)].into(),
        };
        with_file("baseline", "", |path| {
            baseline.write(path).unwrap();
            assert_eq!(Baseline::read(path).unwrap(), baseline);
        });
        assert_eq!(baseline.tests(), 79);
    }

    #[test]
    fn an_exception_needs_a_reason_and_stands_once() {
        let one =
            |reason| format!("[[exception]]\nunit = 'unit/a'\ntest = 'b'\nreason = '{reason}'\n");
        let read = |text: &str| with_file("exceptions", text, Exceptions::read);
        assert_eq!(read(&one("c")).unwrap().of("unit/a"), ["b"]);
        assert!(read(&one(" ")).is_err());
        assert!(read(&one("c").repeat(2)).is_err());
        assert!(read(&one("c").replace("'b'", "'/b.*'")).is_err());
        assert_eq!(read("").unwrap().of("unit/a"), [""; 0]);
        let absent = format!("{}absent = true\n", one("c"));
        assert_eq!(read(&absent).unwrap().absent("unit/a"), ["b"]);
    }
}
