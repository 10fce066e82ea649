//! `docs/conformance-*.md`: the counts of each file, what is not run, and what does not pass.

use super::comparison::{Comparison, Difference};
use super::records::Exceptions;
use super::suite::Suite;
use crate::shell::Failure;
use std::fmt::Write;
use std::path::PathBuf;

/// Returns the path of a suite's page.
pub(super) fn place(suite: &Suite) -> PathBuf {
    let name = suite.flavour().page;
    match suite.version().split_once('.') {
        // The version that Tidewire reports has the plain name.
        Some((major, rest)) if !suite.is_home() => {
            let minor = rest.split('.').next().unwrap_or_default();
            format!("docs/{name}-{major}.{minor}.md").into()
        }
        _ => format!("docs/{name}.md").into(),
    }
}

/// Returns the page.
pub(super) fn page(
    suite: &Suite,
    lanes: u16,
    comparisons: &[Comparison],
    (exceptions, missing): (&Exceptions, &[String]),
) -> Result<String, Failure> {
    let mut sum = Comparison::default();
    comparisons.iter().for_each(|one| sum.add(one));
    let mut text = introduction(suite, lanes, &sum, comparisons);
    if !missing.is_empty() {
        let _ = writeln!(
            text,
            "**This page is partial**: {} files of the suite are not measured yet; \
             they are under *Not run*.\n",
            missing.len()
        );
    }
    table(&mut text, suite, comparisons, &sum);
    not_run(&mut text, suite, exceptions, missing)?;
    changed(&mut text, suite);
    open(&mut text, comparisons);
    let names = |one: &str| comparisons.iter().any(|file| file.unit == one);
    let mut rows = String::new();
    for one in exceptions.exception.iter().filter(|one| names(&one.unit)) {
        for test in &one.tests {
            let mark = if one.skip { " (not run)" } else { "" };
            let (test, reason) = (cell(test), cell(&one.reason));
            // Writing into a string cannot fail.
            let _ = writeln!(rows, "| {} | {test}{mark} | {reason} |", one.unit);
        }
    }
    text.push_str("\n## Exceptions\n\n");
    if rows.is_empty() {
        text.push_str("None.\n");
    } else {
        text.push_str("| file | test | reason |\n|---|---|---|\n");
        text.push_str(&rows);
    }
    Ok(text)
}

fn introduction(suite: &Suite, lanes: u16, sum: &Comparison, comparisons: &[Comparison]) -> String {
    let (name, version) = (suite.flavour().name, suite.version());
    let (files, named) = (comparisons.len(), sum.named);
    let open: usize = comparisons.iter().map(|one| one.unnamed.len()).sum();
    format!(
        "# Conformance with {name} {version}\n\n\
         {name} {version}'s own test suite, file by file, with {name} itself and with Tidewire ({lanes} lanes).\n\
         The suite's harness starts every server, from the configuration that it writes; for Tidewire it finds a\n\
         program named `{}` that starts Tidewire with that configuration. This page is made by\n\n\
         ```sh\n\
         cargo xtask conformance redis --suite PATH   # the tree of {name}'s sources, built\n\
         ```\n\n\
         {files} files were run. {name} passes {} of their tests, Tidewire {}. Of those that pass with {name} and not\n\
         here, {named} are exceptions with a reason, and {open} are open.\n\
         *Failed* counts tests, and groups of tests that ended with an error. *Not reached* are tests that pass with\n\
         {name} and did not run here, because the file or its group ended before, or because the test is left out.\n\
         *Ignored* are tests and groups that the suite itself leaves out (too much memory, TLS, other modes).\n\n",
        suite.flavour().server,
        sum.theirs.passed,
        sum.ours.passed,
    )
}

fn table(text: &mut String, suite: &Suite, comparisons: &[Comparison], sum: &Comparison) {
    let name = suite.flavour().name;
    let _ = writeln!(
        text,
        "| file | {name} passed | failed | ignored | Tidewire passed | failed | not reached | ignored |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|"
    );
    let mut row = |file: &str, one: &Comparison| {
        let _ = writeln!(
            text,
            "| {file} | {} | {} | {} | {} | {} | {} | {} |",
            one.theirs.passed,
            one.theirs.failed,
            one.theirs.ignored,
            one.ours.passed,
            one.ours.failed,
            one.not_reached,
            one.ours.ignored
        );
    };
    for one in comparisons {
        row(&one.unit, one);
    }
    row("**all**", sum);
}

/// Lists files that are not run, with the number of tests in their sources.
fn not_run(
    text: &mut String,
    suite: &Suite,
    exceptions: &Exceptions,
    missing: &[String],
) -> Result<(), Failure> {
    text.push_str("\n## Not run\n\n| files | tests in their sources | reason |\n|---|---:|---|\n");
    for one in &exceptions.not_run {
        let tests = suite.tests_in(&one.files)?;
        if tests > 0 {
            let _ = writeln!(text, "| {} | {tests} | {} |", one.files, cell(&one.reason));
        }
    }
    for unit in missing {
        let tests = suite.tests_in(unit)?;
        let _ = writeln!(text, "| {unit} | {tests} | not measured yet |");
    }
    Ok(())
}

/// Lists tests that pass there and not here, without a reason.
fn open(text: &mut String, comparisons: &[Comparison]) {
    text.push_str("\n## Open\n\n");
    if comparisons.iter().all(|one| one.unnamed.is_empty()) {
        text.push_str("Nothing.\n");
        return;
    }
    text.push_str("| file | tests | what the harness says |\n|---|---|---|\n");
    for one in comparisons {
        // Tests with the same reason share a row.
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        for Difference { test, reason } in &one.unnamed {
            let (line, test) = (first_line(reason), cell(test));
            match rows.iter_mut().find(|(known, _)| *known == line) {
                Some((_, tests)) => tests.push(test),
                None => rows.push((line, vec![test])),
            }
        }
        for (line, tests) in rows {
            let tests = tests.join("; ");
            let _ = writeln!(text, "| {} | {tests} | `{line}` |", one.unit);
        }
    }
}

/// Returns the first line of the harness's text, without the machine's folders.
fn first_line(reason: &str) -> String {
    let mut lines = reason.lines().filter(|line| !line.trim().is_empty());
    let words = lines.next().unwrap_or_default().split(' ');
    let words = words.map(|word| match word.find("/suite/") {
        Some(at) => &word[at + "/suite/".len()..],
        None => word,
    });
    let line: String = words.collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|one| !one.is_control()).collect();
    let line: String = line.chars().take(COLUMNS).collect();
    cell(&line).replace('`', "'")
}

const COLUMNS: usize = 120;

fn changed(text: &mut String, suite: &Suite) {
    text.push_str("\n## Changed in the copy that is run\n\n");
    let changes = suite.changes();
    if changes.is_empty() {
        text.push_str("Nothing.\n");
    }
    for change in changes {
        let _ = writeln!(text, "* {change}");
    }
}

pub(super) fn cell(text: &str) -> String {
    text.trim().replace('\n', " ").replace('|', "\\|")
}
