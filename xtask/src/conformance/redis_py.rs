//! `cargo xtask conformance redis-py`: runs the test suite of the Python client against a real
//! Redis and against Tidewire, and prints the differences.

use crate::arguments::Arguments;
use crate::server::{self, Kind, Server};
use crate::shell::{Failure, Shell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs with the options of the command line.
pub(super) fn run(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let shell = Shell::new(root);
    let path = |value: Option<String>| value.map(PathBuf::from);
    let source = path(arguments.value("--suite")?);
    let source = source
        .ok_or_else(|| Failure::new("--suite PATH is needed: the sources of redis-py, unpacked"))?;
    let redis = path(arguments.value("--redis")?).unwrap_or_else(|| "redis-server".into());
    let binary = path(arguments.value("--binary")?);
    let lanes = arguments.number("--lanes", super::LANES)?;
    let scratch = path(arguments.value("--scratch")?)
        .unwrap_or_else(|| shell.target().join("conformance/redis-py"));
    arguments.end()?;

    let suite = Suite::copy(&shell, &source, &scratch)?;
    let binary = match binary {
        Some(binary) => binary,
        None => server::build(&shell)?,
    };
    let theirs = suite.run(&shell, "Redis", &Kind::redis(redis))?;
    let ours = suite.run(&shell, "Tidewire", &Kind::tidewire(&binary, lanes))?;
    println!("\nRedis: {}\nTidewire: {}", theirs.summary, ours.summary);
    let differences = ours.differences(&theirs);
    for difference in &differences {
        println!("  {difference}");
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} tests end otherwise than with Redis",
        differences.len()
    )))
}

/// A copy of redis-py's sources, and an interpreter with the dependencies of its tests.
#[derive(Debug)]
struct Suite {
    folder: PathBuf,
    python: PathBuf,
}

impl Suite {
    fn copy(shell: &Shell, source: &Path, scratch: &Path) -> Result<Self, Failure> {
        let folder = scratch.join("source");
        let failed = Failure::at(source);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        for name in ["redis", "tests"] {
            super::suite::copy_folder(&source.join(name), &folder.join(name)).map_err(failed)?;
        }
        fs::copy(source.join("pyproject.toml"), folder.join("pyproject.toml")).map_err(failed)?;
        let environment = scratch.join("venv");
        let python = environment.join("bin/python");
        if !shell.program(&python, ["-c", "import xxhash"]).succeeds() {
            shell
                .program("python3", ["-m", "venv", "--clear"])
                .argument(&environment)
                .run()?;
            let pip = ["-m", "pip", "install", "--quiet", "-r"];
            shell
                .program(&python, pip)
                .argument(shell.root().join(REQUIREMENTS))
                .run()?;
        }
        Ok(Self { folder, python })
    }

    /// Runs the suite against its own server.
    fn run(&self, shell: &Shell, name: &str, kind: &Kind) -> Result<Report, Failure> {
        println!("--- redis-py's tests against {name}");
        let server = Server::start(kind, &self.folder)?;
        let mut program = shell
            .program(&self.python, ["-m", "pytest", "-q", "-rA", "--tb=no"])
            .folder(&self.folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // Reasons are cut at the width of the terminal.
            .env("COLUMNS", "300")
            .argument("--timeout=20")
            .argument(format!("--redis-url=redis://127.0.0.1:{}/0", server.port()))
            .argument("-m")
            .argument(MARKERS);
        for file in FILES {
            program = program.argument(format!("tests/{file}.py"));
        }
        let output = program.capture()?;
        let report = Report::parse(&output.text);
        if report.outcomes.is_empty() {
            return Err(Failure::new("pytest ran nothing"));
        }
        Ok(report)
    }
}

/// The outcome of each test.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    summary: String,
    /// By the test's name: the outcome, and the reason if there is one.
    outcomes: BTreeMap<String, (String, String)>,
}

impl Report {
    /// Parses pytest's short summary: one `PASSED tests/test_a.py::test_b` per line.
    fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            if let Some((word, rest)) = line.split_once(' ')
                && WORDS.contains(&word)
                && rest.starts_with("tests/")
            {
                let (name, reason) = rest.split_once(" - ").unwrap_or((rest, ""));
                let outcome = (word.to_owned(), reason.to_owned());
                report.outcomes.insert(name.to_owned(), outcome);
            } else if line.contains(" passed") && line.contains(" in ") {
                line.trim_matches(['=', ' '])
                    .clone_into(&mut report.summary);
            }
        }
        report
    }

    /// Returns the tests whose outcome differs from `theirs`.
    fn differences(&self, theirs: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for (name, (word, reason)) in &self.outcomes {
            let other = theirs.outcomes.get(name).map(|(word, _)| word.as_str());
            if other != Some(word) {
                let other = other.unwrap_or("not run");
                differences.push(format!("{name}: {word}, with Redis {other}: {reason}"));
            }
        }
        for (name, (word, _)) in &theirs.outcomes {
            if !self.outcomes.contains_key(name) {
                differences.push(format!("{name}: not run, with Redis {word}"));
            }
        }
        differences
    }
}

const REQUIREMENTS: &str = "tests/conformance/redis-py-requirements.txt";
const WORDS: &[&str] = &["PASSED", "FAILED", "ERROR", "XFAIL", "XPASS"];
/// Without clusters, modules and encryption.
const MARKERS: &str = "not onlycluster and not fixed_client and not multidb_integration and \
    not redismod and not ssl and not cp_integration";
const FILES: &[&str] = &[
    "test_commands",
    "test_pubsub",
    "test_pipeline",
    "test_connection",
    "test_connection_pool",
    "test_encoding",
    "test_lock",
    "test_monitor",
    "test_scripting",
    "test_function",
    "test_hash",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_otherwise_is_told() {
        let theirs = "PASSED tests/a.py::b\nPASSED tests/a.py::c[1 - 2]\nFAILED tests/a.py::d - e\n\
            SKIPPED [3] tests/a.py:7: no\n1 failed, 2 passed, 3 skipped in 1.2s\n";
        let ours = "FAILED tests/a.py::b - ResponseError: no\nFAILED tests/a.py::d - other\n\
            2 failed in 1s\n";
        let (theirs, ours) = (Report::parse(theirs), Report::parse(ours));
        assert_eq!(theirs.summary, "1 failed, 2 passed, 3 skipped in 1.2s");
        let differences = ours.differences(&theirs);
        assert_eq!(differences.len(), 2);
        assert!(differences[0].ends_with("FAILED, with Redis PASSED: ResponseError: no"));
        assert!(differences[1].ends_with("not run, with Redis PASSED"));
    }
}
