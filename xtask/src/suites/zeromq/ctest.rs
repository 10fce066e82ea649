//! The outcomes of `ctest`.

use super::Bindings;
use crate::shell::Failure;
use crate::suites::report::{End, Report};
use crate::suites::setting::Side;
use std::collections::BTreeMap;
use std::path::Path;

/// Runs all tests that CMake has built in a folder, with one side.
pub(super) fn run(
    bindings: &Bindings,
    name: &str,
    build: &Path,
    side: Side,
) -> Result<Report, Failure> {
    run_with(bindings, name, build, side, &[])
}

/// Works like [`run`], with additional options of `ctest`.
pub(super) fn run_with(
    bindings: &Bindings,
    name: &str,
    build: &Path,
    side: Side,
    options: &[&str],
) -> Result<Report, Failure> {
    let arguments = ["--timeout", TEST_TIME_MAX_S, "--output-on-failure"];
    let mut program = bindings.shell.program("ctest", arguments).folder(build);
    for option in options {
        program = program.argument(option);
    }
    let said = bindings.logged(name, side, bindings.with(side, program))?;
    let report = parse(&said);
    if report.is_empty() {
        return Err(Failure::new(format!("{name} ran no test:\n{said}")));
    }
    Ok(report)
}

/// Parses `  3/160 Test   #3: a name with blanks ....   Passed    0.00 sec`. What a failed test has
/// written follows its line. Of a repeated test, the last outcome counts.
fn parse(text: &str) -> Report {
    let mut ends: BTreeMap<u32, (&str, End)> = BTreeMap::new();
    let mut failed: Option<u32> = None;
    for line in text.lines() {
        if let Some((number, name, ended)) = outcome(line) {
            let (end, is_failed) = if ended.starts_with("Passed") {
                (End::Passed, false)
            } else if ended.starts_with("***Skipped") {
                (End::Skipped, false)
            } else {
                (End::Failed(format!("{ended}\n")), true)
            };
            ends.insert(number, (name, end));
            failed = is_failed.then_some(number);
        } else if let Some((_, End::Failed(said))) = failed.and_then(|number| ends.get_mut(&number))
        {
            said.push_str(line);
            said.push('\n');
        }
    }
    let mut report = Report::default();
    for (name, end) in ends.into_values() {
        report.add(name, end);
    }
    report
}

/// Returns a test's number, its name and what became of it.
fn outcome(line: &str) -> Option<(u32, &str, &str)> {
    let (_, rest) = line.split_once(" Test ")?;
    let (number, rest) = rest.trim_start().strip_prefix('#')?.split_once(": ")?;
    let number = number.parse().ok()?;
    let (name, ended) = rest.split_once(" ..")?;
    Some((number, name, ended.trim_start_matches(['.', ' '])))
}

const TEST_TIME_MAX_S: &str = "60";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_what_failed_tests_say_are_read() {
        let text = "      Start  1: a socket\n 1/3 Test  #1: a socket ....   Passed    0.00 sec\n\
                    \x20     Start  2: b\n 2/3 Test  #2: b ...........***Failed    0.02 sec\n\
                    b.cpp:3: odd\n\n 3/3 Test #30: c ...........***Skipped   0.02 sec\n\
                    4/4 Test #31: d ...........Subprocess aborted***Exception:   0.10 sec\n";
        let report = parse(text);
        assert_eq!(report.counts(), [1, 2, 1]);
        assert_eq!(report.end("a socket"), Some(&End::Passed));
        let said = "***Failed    0.02 sec\nb.cpp:3: odd\n\n";
        assert_eq!(report.end("b"), Some(&End::Failed(said.into())));
    }

    #[test]
    fn a_repeated_test_ends_as_its_last_run_does() {
        let text = "1/2 Test #1: a ....***Failed    0.01 sec\nhi\n\n    Start 1: a\n\
                    \x20   Test #1: a ....   Passed    0.00 sec\n    Start 2: b\n\
                    2/2 Test #2: b ....***Failed    0.00 sec\n\n    Start 2: b\n\
                    \x20   Test #2: b ....***Failed    0.07 sec\n";
        let report = parse(text);
        assert_eq!(report.counts(), [1, 1, 0]);
        let said = "***Failed    0.07 sec\n";
        assert_eq!(report.end("b"), Some(&End::Failed(said.into())));
    }
}
