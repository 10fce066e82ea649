//! pyzmq's own tests. The Python binding is built once against our header and library, and runs
//! with the first `libzmq.so.5` that the loader finds.

use super::ctest::Case;
use crate::libzmq;
use crate::shell::{Failure, Shell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A copy of the tests, and an interpreter with the binding.
#[derive(Debug)]
pub(super) struct Copied {
    folder: PathBuf,
    python: PathBuf,
}

impl Copied {
    pub(super) fn of(shell: &Shell, source: &Path, scratch: &Path) -> Result<Self, Failure> {
        let folder = scratch.join("tests");
        let failed = Failure::at(source);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        crate::conformance::suite::copy_folder(&source.join("tests"), &folder).map_err(failed)?;
        // It declares that coroutines are tests too.
        fs::copy(source.join(SETTINGS), folder.join(SETTINGS)).map_err(failed)?;
        let environment = scratch.join("venv");
        let python = environment.join("bin/python");
        if !shell.program(&python, ["-c", "import zmq"]).succeeds() {
            Self::install(shell, source, scratch, &environment)?;
        }
        Ok(Self { folder, python })
    }

    /// Builds the binding in its own environment.
    fn install(
        shell: &Shell,
        source: &Path,
        scratch: &Path,
        environment: &Path,
    ) -> Result<(), Failure> {
        let prefix = libzmq::absolute(&scratch.join("prefix"))?;
        libzmq::install(shell, &prefix, "release")?;
        shell
            .program("python3", ["-m", "venv", "--clear"])
            .argument(environment)
            .run()?;
        let python = environment.join("bin/python");
        let pip = ["-m", "pip", "install", "--quiet"];
        shell
            .program(&python, pip)
            .argument("-r")
            .argument(shell.root().join(REQUIREMENTS))
            .run()?;
        let path = std::env::var("PATH").unwrap_or_default();
        shell
            .program(&python, pip)
            .argument("--no-build-isolation")
            .argument("--no-deps")
            .argument(source)
            .env("ZMQ_PREFIX", &prefix)
            // CMake in the version of the requirements, not the system's.
            .env(
                "PATH",
                format!("{}:{path}", environment.join("bin").display()),
            )
            .run()
    }

    /// Runs the tests with these names, or all, with the library in the folder. A failed test is
    /// repeated once, because some depend on times that a busy machine does not meet.
    pub(super) fn run(
        &self,
        shell: &Shell,
        library: &Path,
        names: &[String],
    ) -> Result<BTreeMap<String, Case>, Failure> {
        let mut cases = self.run_once(shell, library, names)?;
        let failed = cases.iter().filter(|(_, case)| !case.passed);
        let failed: Vec<String> = failed.map(|(name, _)| name.clone()).collect();
        if !failed.is_empty() {
            cases.extend(self.run_once(shell, library, &failed)?);
        }
        Ok(cases)
    }

    fn run_once(
        &self,
        shell: &Shell,
        library: &Path,
        names: &[String],
    ) -> Result<BTreeMap<String, Case>, Failure> {
        let mut program = shell
            .program(&self.python, ["-m", "pytest", "-q", "-rA", "--tb=short"])
            .folder(&self.folder)
            .argument("-p")
            .argument("no:cacheprovider")
            .argument("--timeout=60")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("COLUMNS", "300")
            .env("LD_LIBRARY_PATH", library);
        for file in NOT_RUN {
            program = program.argument(format!("--ignore={file}"));
        }
        for name in names {
            program = program.argument(name);
        }
        let output = program.capture()?;
        let cases = parse(&output.text);
        if cases.is_empty() {
            return Err(Failure::new("pytest ran nothing"));
        }
        Ok(cases)
    }
}

/// Parses pytest's short summary: one `PASSED test_a.py::test_b` per line. Skipped tests do not
/// count.
fn parse(text: &str) -> BTreeMap<String, Case> {
    let mut cases = BTreeMap::new();
    for line in text.lines() {
        let Some((word, rest)) = line.split_once(' ') else {
            continue;
        };
        let passed = match word {
            "PASSED" | "XFAIL" => true,
            "FAILED" | "ERROR" | "XPASS" => false,
            _ => continue,
        };
        let (name, reason) = rest.split_once(" - ").unwrap_or((rest, ""));
        if name.contains("::") {
            let reason = format!("  {word} {reason}\n");
            let case = Case {
                passed,
                reason,
                ignored: 0,
            };
            cases.insert(name.to_owned(), case);
        }
    }
    cases
}

const SETTINGS: &str = "pytest.ini";
const REQUIREMENTS: &str = "tests/conformance/pyzmq-requirements.txt";
/// Both build their own programs against the sources.
const NOT_RUN: [&str; 2] = ["test_mypy.py", "test_cython.py"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_summary_is_read() {
        let text = "....F [100%]\nPASSED test_a.py::TestA::test_b\n\
            PASSED test_a.py::test_c[1 - 2]\nFAILED test_a.py::test_d - AssertionError: x\n\
            SKIPPED [3] test_a.py:7: no\nERROR test_e.py::test_f - no\n\
            2 passed, 1 failed in 1.2s\n";
        let cases = parse(text);
        assert_eq!(cases.len(), 4);
        assert!(cases["test_a.py::TestA::test_b"].passed);
        assert_eq!(
            cases["test_a.py::test_d"].reason,
            "  FAILED AssertionError: x\n"
        );
        assert!(!cases["test_e.py::test_f"].passed);
    }
}
