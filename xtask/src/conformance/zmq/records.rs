//! What is kept of the suites: what libzmq and ours pass, and the tests that may fail.

use crate::conformance::records::{named, parse};
use crate::shell::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The last whole run of each suite.
#[derive(Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    /// By its name.
    #[serde(default)]
    pub(super) suite: BTreeMap<String, Suite>,
}

/// Whether each test passed.
#[derive(Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Suite {
    #[serde(default)]
    pub(super) ours: BTreeMap<String, bool>,
    /// With libzmq itself.
    #[serde(default)]
    pub(super) stock: BTreeMap<String, bool>,
}

/// Tests that may fail, each with its reason.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Exceptions {
    #[serde(default)]
    pub(super) exception: Vec<Exception>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Exception {
    pub(super) suite: String,
    pub(super) test: String,
    pub(super) reason: String,
}

impl Kept {
    /// Nothing, if nothing was kept yet.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            return Ok(Self::default());
        }
        parse(path)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let body = toml::to_string(self).map_err(|error| named(path, &error))?;
        let head =
            "# Which tests pass, measured by `cargo xtask conformance libzmq` and `pyzmq`.\n\n";
        fs::write(path, format!("{head}{body}")).map_err(|error| named(path, &error))
    }

    pub(super) fn suite(&mut self, name: &str) -> &mut Suite {
        self.suite.entry(name.to_owned()).or_default()
    }
}

impl Exceptions {
    /// Reads them; a file that names a test twice, or without a reason, is refused.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let exceptions: Self = parse(path)?;
        for (index, one) in exceptions.exception.iter().enumerate() {
            let is_same = |other: &Exception| other.suite == one.suite && other.test == one.test;
            if one.reason.trim().is_empty() {
                return Err(named(path, &format!("'{}': no reason", one.test)));
            }
            if exceptions.exception[..index].iter().any(is_same) {
                return Err(named(path, &format!("'{}': named twice", one.test)));
            }
        }
        Ok(exceptions)
    }

    /// Why a test may fail.
    pub(super) fn reason(&self, suite: &str, test: &str) -> Option<&str> {
        let found = self
            .exception
            .iter()
            .find(|one| one.suite == suite && one.test == test);
        found.map(|one| one.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_back_as_they_were_written() {
        let path = std::env::temp_dir().join(format!("zmq-kept-{}", std::process::id()));
        let mut kept = Kept::default();
        kept.suite("pyzmq")
            .ours
            .insert("a.py::B::c[1-2]".into(), true);
        kept.suite("libzmq").stock.insert("test_a".into(), false);
        kept.write(&path).unwrap();
        assert_eq!(Kept::read(&path).unwrap(), kept);
        fs::remove_file(&path).unwrap();
        assert_eq!(Kept::read(&path).unwrap(), Kept::default());
    }
}
