//! `docs/conformance-zmq.md`: the outcome of each test, and what may fail.

use super::records::{Interface, Kept, Outcomes};
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
         cargo xtask conformance libzmq --build PATH   # the same, with -DENABLE_DRAFTS=ON\n\
         cargo xtask conformance pyzmq --suite PATH    # the sources of pyzmq, unpacked\n\
         cargo xtask conformance interface --stock PATH  # libzmq.so.5, built with drafts\n\
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
        "\nA test of libzmq's passes if its exit code is 0 and it prints no `:FAIL`, also in a child\n\
         process. What fails is run once more: some tests wait for a time that a busy machine does\n\
         not keep.\n\n\
         | suite | not run | programs |\n|---|---|---:|\n",
    );
    for (name, suite) in &kept.suite {
        for (what, count) in &suite.left_out {
            let _ = writeln!(text, "| {name} | {what} | {count} |");
        }
        if suite.ignored > 0 {
            let _ = writeln!(
                text,
                "| {name} | parts of the others that say that they cannot run | {} |",
                suite.ignored
            );
        }
    }
    interface(&mut text, &kept.interface);
    for (name, suite) in &kept.suite {
        differences(&mut text, name, suite);
    }
    for name in ["libzmq", "libzmq-drafts"] {
        let Some(suite) = kept.suite.get(name) else {
            continue;
        };
        let _ = writeln!(
            text,
            "\n## {name}, test by test\n\n| test | Tidewire | libzmq |\n|---|---|---|"
        );
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

/// Lists what our library answers otherwise.
fn interface(text: &mut String, interface: &Interface) {
    if interface.questions == 0 {
        return;
    }
    let differing: usize = interface.differing.values().sum();
    let _ = write!(
        text,
        "\n## The interface, question by question\n\n\
         Both libraries are asked {} questions: every option number from 0 to 130 for every type of\n\
         socket, before and after it is set to numbers of several sizes and to texts; the options of\n\
         contexts; and some 450 endpoints, bound and connected, with and without IPv6: the error, what\n\
         LAST_ENDPOINT tells, and whether that can be undone. {differing} answers differ:\n\n\
         | questions | reason |\n|---:|---|\n",
        interface.questions
    );
    for (reason, count) in &interface.differing {
        let _ = writeln!(text, "| {count} | {} |", cell(reason));
    }
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
        suite.left_out.insert("fuzzers".into(), 10);
        suite.ignored = 2;
        kept.interface.questions = 5;
        kept.interface.differing.insert("a | b".into(), 2);
        let text = "[[exception]]\nsuite = 'libzmq'\ntest = 'test_b'\nreason = 'no | such'\n";
        let text = page(&kept, &toml::from_str(text).unwrap());
        assert!(text.contains("\n| libzmq | 2 | 1 | 2 |\n"));
        assert!(text.contains("\n| test_a | passed | passed |\n"));
        assert!(text.contains("\n| libzmq | fuzzers | 10 |\n"));
        assert!(text.contains(" that they cannot run | 2 |\n"));
        assert!(text.contains("asked 5 questions") && text.contains("\n| 2 | a \\| b |\n"));
        assert_eq!(text.matches("| test_b | **failed** | passed |").count(), 2);
        assert!(text.contains("| libzmq | test_b | no \\| such |"));
    }
}
