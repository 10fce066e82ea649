//! Stored results of the suites: which tests pass with libzmq, and which with our library.

use crate::shell::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The last complete run of each suite.
#[derive(Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    /// By the name of the suite.
    #[serde(default)]
    pub(super) suite: BTreeMap<String, Outcomes>,
    #[serde(default)]
    pub(super) interface: Interface,
}

/// The comparison of the interface with libzmq's.
#[derive(Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Interface {
    pub(super) questions: usize,
    /// Questions that are answered otherwise, by the reason.
    #[serde(default)]
    pub(super) differing: BTreeMap<String, usize>,
}

/// Whether each test passed.
#[derive(Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Outcomes {
    /// Parts of tests that said that they cannot run on the machine.
    #[serde(default)]
    pub(super) ignored: usize,
    /// The number of programs that are not run, by the reason.
    #[serde(default)]
    pub(super) left_out: BTreeMap<String, usize>,
    #[serde(default)]
    pub(super) ours: BTreeMap<String, bool>,
    /// With libzmq itself.
    #[serde(default)]
    pub(super) stock: BTreeMap<String, bool>,
}

impl Kept {
    /// Reads the results; they are empty if there are none yet.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path).map_err(Failure::at(path))?;
        toml::from_str(&text).map_err(Failure::at(path))
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let body = toml::to_string(self).map_err(Failure::at(path))?;
        let head =
            "# Which tests pass, measured by `cargo xtask conformance libzmq` and `pyzmq`.\n\n";
        fs::write(path, format!("{head}{body}")).map_err(Failure::at(path))
    }

    pub(super) fn suite(&mut self, name: &str) -> &mut Outcomes {
        self.suite.entry(name.to_owned()).or_default()
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
        kept.interface.questions = 3;
        kept.interface.differing.insert("a reason".into(), 1);
        kept.write(&path).unwrap();
        assert_eq!(Kept::read(&path).unwrap(), kept);
        fs::remove_file(&path).unwrap();
        assert_eq!(Kept::read(&path).unwrap(), Kept::default());
    }
}
