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
    /// The parts that said that they cannot run on this machine.
    pub(super) ignored: usize,
}

/// Returns whether CMake was told to build libzmq with its draft functions.
pub(super) fn has_drafts(build: &Path) -> Result<bool, Failure> {
    let cache = build.join("CMakeCache.txt");
    let text = fs::read_to_string(&cache).map_err(Failure::at(&cache))?;
    let setting = text
        .lines()
        .find_map(|line| line.strip_prefix("ENABLE_DRAFTS:BOOL="));
    Ok(setting.is_some_and(|value| matches!(value, "ON" | "1" | "TRUE" | "YES")))
}

/// Counts the programs that are not run, by the reason.
pub(super) fn not_run(shell: &Shell, build: &Path) -> Result<BTreeMap<String, usize>, Failure> {
    let list = shell.program("ctest", ["-N"]).folder(build).capture()?;
    Ok(left_out(&list.text))
}

fn left_out(list: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let names = list
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("Test ")?.split_once(": "));
    for (_, name) in names {
        let group = NOT_RUN.iter().find(|(part, _)| name.contains(part));
        if let Some((_, group)) = group {
            *counts.entry((*group).to_owned()).or_default() += 1;
        }
    }
    counts
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
    // Verbose: each line of a test's output has its number before it.
    let mut program = shell
        .program("ctest", ["-V", "-E"])
        .argument(NOT_RUN.map(|(part, _)| part).join("|"))
        .argument(format!("-j{at_once}"))
        // test_radio_dish takes 9.8 s of its 10 s.
        .argument("--repeat")
        .argument("after-timeout:3")
        .folder(build)
        // This takes precedence over their own path to the stock library.
        .env("LD_LIBRARY_PATH", library);
    if !names.is_empty() {
        program = program
            .argument("-R")
            .argument(format!("^({})$", names.join("|")));
    }
    Ok(parse(&program.capture()?.text))
}

/// Parses the lines of `ctest`.
fn parse(text: &str) -> BTreeMap<String, Case> {
    let mut outputs: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.lines() {
        if let Some((number, line)) = line.split_once(": ")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            let output = outputs.entry(number).or_default();
            output.push_str(line);
            output.push('\n');
        }
    }
    let mut cases = BTreeMap::new();
    for line in text.lines() {
        let Some((_, rest)) = line
            .split_once('#')
            .filter(|(head, _)| head.contains(" Test "))
        else {
            continue;
        };
        let Some((number, rest)) = rest.split_once(": ") else {
            continue;
        };
        let Some((name, rest)) = rest.split_once(' ') else {
            continue;
        };
        let output = outputs.get(number).map_or("", String::as_str);
        cases.insert(name.to_owned(), Case::of(rest, output));
    }
    cases
}

impl Case {
    /// Judges a test by what `ctest` says of it, and by what it has written.
    fn of(ended: &str, output: &str) -> Self {
        // Tests that cannot run on this machine say so and are not failures. A failed case in a
        // child process does not show in the exit code.
        let is_good = ended.contains("  Passed ") || ended.contains("***Skipped");
        let passed = is_good && !output.contains(":FAIL");
        let reason = if passed {
            String::new()
        } else {
            reason(ended, output)
        };
        Self {
            passed,
            reason,
            ignored: output.matches(":IGNORE").count(),
        }
    }
}

/// Returns `ctest`'s outcome, and the failed cases in the test.
fn reason(ended: &str, output: &str) -> String {
    let ended = ended.trim_start_matches(['.', ' ', '*']);
    let mut reason = format!("  {ended}\n");
    let telling = |line: &&str| {
        line.contains(":FAIL") || line.contains("panicked") || line.contains("ssertion")
    };
    let passed = output.matches(":PASS").count();
    for line in output.lines().filter(telling) {
        // Without the folder of the source file.
        let file = line.find(".cpp:").map_or(line, |end| &line[..end]);
        let line = &line[file.rfind('/').map_or(0, |slash| slash + 1)..];
        // Writing into a string cannot fail.
        let _ = writeln!(reason, "  {line}");
    }
    let _ = writeln!(reason, "  ({passed} cases passed)");
    reason
}

/// Number of parallel tests; most of the time they wait.
const AT_ONCE: usize = 4;
/// A part of the names of programs that are not run, and why.
const NOT_RUN: [(&str, &str); 3] = [
    ("fuzzer", "fuzzers, which need inputs"),
    ("unittest", "unit tests, which link the inside of libzmq"),
    ("tipc", "tests of TIPC, which needs a module of the kernel"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_from_the_lines_of_all_tests() {
        let lines = "test 1\n      Start  1: test_a\n\
             1: Test command: /x/test_a\n\
             25: /x/e.cpp:3:t1:FAIL: in a child\n\
             1/3 Test  #1: test_a ...........   Passed    0.02 sec\n\
             22: /x/b.cpp:3:t1:PASS\n\
             25: /x/e.cpp:3:t1:PASS\n\
             22: /x/y/b.cpp:4:t2:FAIL: Expected 1 Was 2\n\
             2/3 Test #22: test_b ...........***Failed    0.02 sec\n\
             3/3 Test #23: test_c ...........***Timeout  10.02 sec\n\
             4/4 Test #24: test_d ...........***Skipped   0.02 sec\n\
             25: /x/e.cpp:5:t2:IGNORE: tipc is not available\n\
             5/5 Test #25: test_e ...........   Passed    0.02 sec\n\
             67% tests passed, 1 tests failed out of 3\n";
        let cases = parse(lines);
        let passed = |name: &str| cases[name].passed;
        assert_eq!(cases.len(), 5);
        assert!(passed("test_a") && !passed("test_b") && !passed("test_c") && passed("test_d"));
        assert!(!passed("test_e"), "its exit code says that all is well");
        assert_eq!(cases["test_e"].ignored, 1);
        assert_eq!(
            cases["test_b"].reason,
            "  Failed    0.02 sec\n  b.cpp:4:t2:FAIL: Expected 1 Was 2\n  (1 cases passed)\n"
        );
        assert!(cases["test_c"].reason.starts_with("  Timeout"));
    }

    #[test]
    fn programs_that_are_not_run_are_counted() {
        let list = "Test project /x\n  Test   #1: test_a\n  Test  #12: test_bind_fuzzer\n\
             Test #13: test_pair_tipc\n  Test #14: unittest_mtrie\n  Test #15: test_tipc\n\n\
             Total Tests: 5\n";
        let counts = left_out(list);
        assert_eq!(counts.values().copied().collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(counts["fuzzers, which need inputs"], 1);
    }
}
