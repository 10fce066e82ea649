//! `docs/conformance-zmq.md`: the outcome of each test, and what may fail.

use super::records::{Kept, Outcomes};
use crate::conformance::page::cell;
use crate::conformance::records::Exceptions;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Returns the page.
pub(super) fn page(kept: &Kept, exceptions: &Exceptions) -> String {
    let mut text = String::from(
        "# Conformance with ZeroMQ\n\n\
         Test suites that were written for libzmq, run unchanged with Tidewire's `libzmq.so.5` in the\n\
         place of libzmq's own. This page is made by\n\n\
         ```sh\n\
         cargo xtask conformance libzmq --build PATH   # where CMake has built libzmq and its tests\n\
         cargo xtask conformance pyzmq --suite PATH    # the sources of pyzmq, unpacked\n\
         ```\n\n\
         | suite | tests | Tidewire | libzmq |\n|---|---:|---:|---:|\n",
    );
    // Writing into a string cannot fail.
    for (name, suite) in &kept.suite {
        let (tests, ours, stock) = (
            names(suite).len(),
            passed(&suite.ours),
            passed(&suite.stock),
        );
        let _ = writeln!(text, "| {name} | {tests} | {ours} | {stock} |");
    }
    text.push_str(
        "\nNot run of libzmq's tests: fuzzers, which need inputs, unit tests, which link the inside of\n\
         libzmq, and TIPC, which needs a module of the kernel. Tests that a machine cannot run say so\n\
         and count as passed. What fails is run once more: some tests wait for a time that a busy\n\
         machine does not keep.\n",
    );
    for (name, suite) in &kept.suite {
        differences(&mut text, name, suite);
    }
    if let Some(suite) = kept.suite.get("libzmq") {
        text.push_str("\n## libzmq, test by test\n\n| test | Tidewire | libzmq |\n|---|---|---|\n");
        for test in names(suite) {
            let (ours, stock) = (word(suite.ours.get(test)), word(suite.stock.get(test)));
            let _ = writeln!(text, "| {test} | {ours} | {stock} |");
        }
    }
    text.push_str("\n## Exceptions\n\n");
    if exceptions.exception.is_empty() {
        text.push_str("None.\n");
        return text;
    }
    text.push_str("| suite | test | reason |\n|---|---|---|\n");
    for one in &exceptions.exception {
        for test in &one.tests {
            let _ = writeln!(text, "| {} | {test} | {} |", one.unit, cell(&one.reason));
        }
    }
    text
}

/// Lists tests with different outcomes.
fn differences(text: &mut String, name: &str, suite: &Outcomes) {
    let differs = |test: &&&str| suite.ours.get(**test) != suite.stock.get(**test);
    let tests = names(suite);
    let differing: Vec<&&str> = tests.iter().filter(differs).collect();
    if differing.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n## {name}: what ends otherwise\n\n| test | Tidewire | libzmq |\n|---|---|---|"
    );
    for &&test in &differing {
        let (ours, stock) = (word(suite.ours.get(test)), word(suite.stock.get(test)));
        let _ = writeln!(text, "| {test} | {ours} | {stock} |");
    }
}

fn names(suite: &Outcomes) -> BTreeSet<&str> {
    let both = suite.ours.keys().chain(suite.stock.keys());
    both.map(String::as_str).collect()
}

fn passed(outcomes: &BTreeMap<String, bool>) -> usize {
    outcomes.values().filter(|passed| **passed).count()
}

fn word(outcome: Option<&bool>) -> &'static str {
    match outcome {
        Some(true) => "passed",
        Some(false) => "**failed**",
        None => "not run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_sums_differences_and_every_test() {
        let mut kept = Kept::default();
        let suite = kept.suite("libzmq");
        for (test, ours, stock) in [("test_a", true, true), ("test_b", false, true)] {
            suite.ours.insert(test.into(), ours);
            suite.stock.insert(test.into(), stock);
        }
        let text = "[[exception]]\nsuite = 'libzmq'\ntest = 'test_b'\nreason = 'no | such'\n";
        let text = page(&kept, &toml::from_str(text).unwrap());
        assert!(text.contains("\n| libzmq | 2 | 1 | 2 |\n"));
        assert!(text.contains("\n| test_a | passed | passed |\n"));
        assert_eq!(text.matches("| test_b | **failed** | passed |").count(), 2);
        assert!(text.contains("| libzmq | test_b | no \\| such |"));
    }
}
