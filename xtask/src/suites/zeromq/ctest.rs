//! The outcomes of `ctest`.

use super::Bindings;
use crate::shell::Failure;
use crate::suites::report::{End, Report};
use crate::suites::setting::Side;
use std::path::Path;

/// Runs all tests that CMake has built in a folder, with one side.
pub(super) fn run(
    bindings: &Bindings,
    name: &str,
    build: &Path,
    side: Side,
) -> Result<Report, Failure> {
    let arguments = ["--timeout", TEST_TIME_MAX_S, "--output-on-failure"];
    let program = bindings.shell.program("ctest", arguments).folder(build);
    let said = bindings.logged(name, side, bindings.with(side, program))?;
    let report = parse(&said);
    if report.is_empty() {
        return Err(Failure::new(format!("{name} ran no test:\n{said}")));
    }
    Ok(report)
}

/// Parses `  3/160 Test   #3: a name with blanks ....   Passed    0.00 sec`. What a failed test has
/// written follows its line.
fn parse(text: &str) -> Report {
    let mut report = Report::default();
    let mut failed: Option<(String, String)> = None;
    for line in text.lines() {
        let Some((name, ended)) = outcome(line) else {
            if let Some((_, said)) = &mut failed {
                said.push_str(line);
                said.push('\n');
            }
            continue;
        };
        if let Some((name, said)) = failed.take() {
            report.add(&name, End::Failed(said));
        }
        if ended.starts_with("Passed") {
            report.add(name, End::Passed);
        } else if ended.starts_with("***Skipped") {
            report.add(name, End::Skipped);
        } else {
            failed = Some((name.to_owned(), format!("{ended}\n")));
        }
    }
    if let Some((name, said)) = failed {
        report.add(&name, End::Failed(said));
    }
    report
}

/// Returns a test's name and what became of it.
fn outcome(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(" Test ")?;
    let (number, rest) = rest.trim_start().strip_prefix('#')?.split_once(": ")?;
    number.parse::<u32>().ok()?;
    let (name, ended) = rest.split_once(" ..")?;
    Some((name, ended.trim_start_matches(['.', ' '])))
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
}
