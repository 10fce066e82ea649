//! The page of a group of suites, such as `docs/conformance-clients.md`.

use super::comparison::SuiteComparison;
use std::fmt::Write;

/// Returns the beginning of the page of Redis's clients.
pub(super) fn of_redis(lanes: u16) -> String {
    format!(
        "# Conformance with clients\n\n\
         Test suites of Redis clients, unchanged: first with Redis, then with Tidewire ({lanes} lanes). Those of\n\
         ZeroMQ's bindings are on [another page](conformance-bindings.md). This page is made by\n\n\
         ```sh\n\
         cargo xtask clients --suites\n\
         ```\n\n"
    )
}

/// Returns the page of all suites. Each comes with the tests that are not run.
pub(super) fn page(heading: String, kept: &[(&str, SuiteComparison)], missing: &[&str]) -> String {
    let mut text = heading
        + "A test that fails with Tidewire gets a second run; *second run* counts those that passed in it alone.\n\
         *Skipped* are tests that the suite itself leaves out, such as those of a newer Redis. *Named* are tests that\n\
         pass with the rival alone, each listed below with its reason.\n\n\
         | suite | rival | passed there | failed there | skipped there | Tidewire passed | failed | skipped | \
         second run | named | not named |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
    for (_, one) in kept {
        let ([passed, failed, skipped], there) = (one.ours, one.theirs);
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "| {} {} | {} | {} | {} | {} | {passed} | {failed} | {skipped} | {} | {} | {} |",
            one.suite,
            one.version,
            one.rival,
            there[0],
            there[1],
            there[2],
            one.repeated,
            one.named.len(),
            one.unnamed.len()
        );
    }
    if !missing.is_empty() {
        let _ = writeln!(text, "\nNot measured yet: {}.", missing.join(", "));
    }
    text.push_str("\n## Tests that are not run\n\n");
    for (not_run, one) in kept {
        let _ = writeln!(text, "* {}: {not_run}", one.suite);
    }
    skipped(&mut text, kept);
    text.push_str("\n## Passed there and not here\n\n");
    let without = kept.iter().flat_map(|(_, one)| {
        let unnamed = one.unnamed.iter();
        unnamed.map(move |(test, said)| (one.suite.as_str(), test.as_str(), said.as_str()))
    });
    table(&mut text, "what it says", without);
    text.push_str("\n## Named tests\n\n");
    let named = kept.iter().flat_map(|(_, one)| {
        let named = one.named.iter();
        named.map(move |(test, why)| (one.suite.as_str(), test.as_str(), why.as_str()))
    });
    table(&mut text, "reason", named);
    text.push_str("\n## Failed there\n\nThese say nothing about Tidewire.\n\n");
    for (_, one) in kept.iter().filter(|(_, one)| !one.failed_there.is_empty()) {
        let mut reasons: Vec<(String, usize)> = Vec::new();
        for (_, said) in &one.failed_there {
            let reason = reason(said);
            match reasons.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let _ = writeln!(text, "* {}: {} tests", one.suite, one.failed_there.len());
        for (reason, count) in reasons {
            let _ = writeln!(text, "  * {count}: {reason}");
        }
    }
    text
}

/// Lists why suites leave tests out themselves, as far as they say so.
fn skipped(text: &mut String, kept: &[(&str, SuiteComparison)]) {
    if kept.iter().all(|(_, one)| one.skips.is_empty()) {
        return;
    }
    text.push_str("\n## Skipped by the suites themselves, with Tidewire\n\n");
    text.push_str("| suite | tests | reason |\n|---|--:|---|\n");
    for (_, one) in kept {
        for (reason, count) in &one.skips {
            let _ = writeln!(text, "| {} | {count} | {} |", one.suite, cell(reason));
        }
    }
}

fn table<'a>(
    text: &mut String,
    third: &str,
    rows: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        text.push_str("None.\n");
        return;
    }
    let _ = writeln!(text, "| suite | test | {third} |\n|---|---|---|");
    for (suite, test, said) in rows {
        let _ = writeln!(text, "| {suite} | {} | {} |", cell(test), cell(said));
    }
}

/// Returns why a test failed with the rival; for an unknown command, the command's family.
fn reason(said: &str) -> String {
    if let Some((_, rest)) = said.split_once("unknown command '") {
        let command = rest.split('\'').next().unwrap_or_default();
        let family = command.split('.').next().unwrap_or_default();
        return format!("no such command, `{family}…`");
    }
    cell(said)
}

/// Returns one line that fits a cell.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(CELL_LETTERS_MAX).collect();
    let short = short.trim_end();
    short.replace('|', "\\|").replace('<', "\\<")
}

const CELL_LETTERS_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_would_know_is_told_by_its_family() {
        let said = "Unexpected error:\n ERR unknown command 'JSON.SET', with args beginning with";
        assert_eq!(reason(said), "no such command, `JSON…`");
        assert_eq!(cell("a |\n  <b>"), "a \\| \\<b>");
    }
}
