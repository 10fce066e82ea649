//! libzmq's own tests, as CMake builds and runs them.

use crate::shell::{Failure, Shell};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The outcome of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) passed: bool,
    /// The test's output if it failed.
    pub(super) reason: String,
}

/// Runs the tests with these names, or all, with the library in the folder.
pub(super) fn run(
    shell: &Shell,
    build: &Path,
    library: &Path,
    names: &[String],
) -> Result<BTreeMap<String, Case>, Failure> {
    let mut cases = pass(shell, build, library, names, AT_ONCE)?;
    if cases.is_empty() {
        return Err(Failure::new(format!(
            "no test was run in {}",
            build.display()
        )));
    }
    // Some tests depend on times that a busy machine does not meet.
    let failed: Vec<String> = cases
        .iter()
        .filter(|(_, case)| !case.passed)
        .map(|(name, _)| name.clone())
        .collect();
    if !failed.is_empty() {
        println!("--- once more what failed");
        cases.extend(pass(shell, build, library, &failed, 1)?);
    }
    Ok(cases)
}

/// Runs once, with this many tests in parallel.
fn pass(
    shell: &Shell,
    build: &Path,
    library: &Path,
    names: &[String],
    at_once: usize,
) -> Result<BTreeMap<String, Case>, Failure> {
    let mut program = shell
        .program("ctest", ["-E", NOT_RUN])
        .argument(format!("-j{at_once}"))
        .folder(build)
        // This takes precedence over their own path to the stock library.
        .env("LD_LIBRARY_PATH", library);
    if !names.is_empty() {
        program = program
            .argument("-R")
            .argument(format!("^({})$", names.join("|")));
    }
    let output = program.capture()?;
    let log = build.join("Testing/Temporary/LastTest.log");
    let log = fs::read(&log).map_err(Failure::at(&log))?;
    Ok(parse(&output.text, &String::from_utf8_lossy(&log)))
}

/// Parses the lines of `ctest`, and the reasons from its log.
fn parse(lines: &str, log: &str) -> BTreeMap<String, Case> {
    let mut cases = BTreeMap::new();
    for line in lines.lines() {
        let Some((_, rest)) = line
            .split_once('#')
            .filter(|(head, _)| head.contains(" Test "))
        else {
            continue;
        };
        let Some((name, rest)) = rest
            .split_once(": ")
            .and_then(|(_, rest)| rest.split_once(' '))
        else {
            continue;
        };
        // Tests that cannot run on this machine say so and are not failures.
        let passed = rest.contains("  Passed ") || rest.contains("***Skipped");
        let reason = if passed {
            String::new()
        } else {
            reason(name, rest, log)
        };
        cases.insert(name.to_owned(), Case { passed, reason });
    }
    cases
}

/// Returns `ctest`'s outcome, and the failed cases in the test.
fn reason(name: &str, ended: &str, log: &str) -> String {
    let ended = ended.trim_start_matches(['.', ' ', '*']);
    let mut reason = format!("  {ended}\n");
    let begin = format!(" Testing: {name}\n");
    let output = log.split_once(&begin).map_or("", |(_, rest)| rest);
    let output = output.split("<end of output>").next().unwrap_or_default();
    let telling = |line: &&str| {
        line.contains(":FAIL") || line.contains("panicked") || line.contains("ssertion")
    };
    let passed = output.matches(":PASS").count();
    for line in output.lines().filter(telling) {
        let line = line.rsplit_once('/').map_or(line, |(_, line)| line);
        // Writing into a string cannot fail.
        let _ = writeln!(reason, "  {line}");
    }
    let _ = writeln!(reason, "  ({passed} cases passed)");
    reason
}

/// Number of parallel tests; most of the time they wait.
const AT_ONCE: usize = 4;
/// Fuzzers need inputs, unit tests link libzmq's internals, and TIPC needs a kernel module.
const NOT_RUN: &str = "fuzzer|unittest|tipc";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_from_the_lines_and_reasons_from_the_log() {
        let lines = "      Start  1: test_a\n\
             1/3 Test  #1: test_a ...........   Passed    0.02 sec\n\
             2/3 Test #22: test_b ...........***Failed    0.02 sec\n\
             3/3 Test #23: test_c ...........***Timeout  10.02 sec\n\
             4/4 Test #24: test_d ...........***Skipped   0.02 sec\n\
             67% tests passed, 1 tests failed out of 3\n";
        let log = "2/3 Testing: test_b\n2/3 Test: test_b\n/x/b.cpp:3:t1:PASS\n\
             /x/y/b.cpp:4:t2:FAIL: Expected 1 Was 2\n<end of output>\n";
        let cases = parse(lines, log);
        let passed = |name: &str| cases[name].passed;
        assert_eq!(cases.len(), 4);
        assert!(passed("test_a") && !passed("test_b") && !passed("test_c") && passed("test_d"));
        assert_eq!(
            cases["test_b"].reason,
            "  Failed    0.02 sec\n  b.cpp:4:t2:FAIL: Expected 1 Was 2\n  (1 cases passed)\n"
        );
        assert!(cases["test_c"].reason.starts_with("  Timeout"));
    }
}
