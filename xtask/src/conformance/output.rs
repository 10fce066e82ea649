//! Parses the output of Redis's test harness into outcomes of tests.

/// The outcome of one file of the suite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Names of tests that passed. Some names occur several times.
    pub(crate) passed: Vec<String>,
    pub(crate) failed: Vec<TestFailure>,
    /// Tests that were not run because they are listed as skipped.
    pub(crate) skipped: Vec<String>,
    /// Tests, and groups of tests, that their tags exclude (external servers, large memory).
    pub(crate) ignored: usize,
    /// Errors outside of tests; the rest of their group was not run.
    pub(crate) broken_groups: Vec<String>,
    /// Why the file did not finish.
    pub(crate) ended_early: Option<String>,
    /// The test that was running when the harness timed out.
    pub(crate) hung: Option<String>,
}

/// A failed test, and the harness's text about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestFailure {
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl Outcome {
    /// Parses the whole output of a run of one file.
    pub(crate) fn parse(output: &str) -> Self {
        let mut outcome = Self::default();
        let mut is_done = false;
        for (word, text) in entries(output) {
            match word {
                "ok" => outcome.passed.push(without_duration(&text)),
                "err" => outcome.add_error(&text),
                "skip" => outcome.skipped.push(text.trim_end().to_owned()),
                "ignore" => outcome.ignored += 1,
                "exception" => outcome.ended_early = Some(text.trim_end().to_owned()),
                "TIMEOUT" => {
                    outcome.hung = in_progress(&text);
                    outcome.ended_early = Some("no test ended for too long".into());
                }
                _ => is_done |= word.ends_with(" done"),
            }
        }
        if !is_done && outcome.ended_early.is_none() {
            outcome.ended_early = Some("the harness ended before the file did".into());
        }
        outcome
    }

    fn add_error(&mut self, text: &str) {
        let place = text.find(" in tests/").filter(|at| {
            let line = text[*at..].lines().next().unwrap_or_default();
            line.ends_with(".tcl")
        });
        let Some(at) = place else {
            self.broken_groups.push(text.trim_end().to_owned());
            return;
        };
        let reason = text[at..].split_once('\n').map_or("", |(_, reason)| reason);
        self.failed.push(TestFailure {
            name: text[..at].to_owned(),
            reason: reason.trim_end().to_owned(),
        });
    }
}

/// Splits the output into entries `[word]: text`; a text continues until the next entry.
fn entries(output: &str) -> Vec<(&str, String)> {
    let mut entries: Vec<(&str, String)> = Vec::new();
    for line in output.lines().take_while(|line| line.trim() != "The End") {
        if let Some((word, text)) = begin(line) {
            entries.push((word, text.to_owned()));
        } else if let Some((_, text)) = entries.last_mut() {
            text.push('\n');
            text.push_str(line);
        }
    }
    entries
}

fn begin(line: &str) -> Option<(&str, &str)> {
    let (word, text) = line.strip_prefix('[')?.split_once("]: ")?;
    (WORDS.contains(&word) || word.ends_with(" done")).then_some((word, text))
}

/// Parses `name (12 ms)`, followed by the test's own output.
fn without_duration(text: &str) -> String {
    let mut name = String::new();
    for line in text.lines() {
        let is_duration = |rest: &str| {
            rest.strip_suffix(" ms)")
                .is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
        };
        if let Some((head, rest)) = line.rsplit_once(" (")
            && is_duration(rest)
        {
            name.push_str(head);
            return name;
        }
        name.push_str(line);
        name.push('\n');
    }
    text.trim_end().to_owned()
}

/// Returns the running test in the harness's report on a timeout.
fn in_progress(text: &str) -> Option<String> {
    let (_, name) = text.split_once("(IN PROGRESS) ")?;
    let name = name.lines().next().unwrap_or_default();
    Some(name.to_owned())
}

const WORDS: &[&str] = &[
    "ok",
    "err",
    "skip",
    "ignore",
    "exception",
    "TIMEOUT",
    "ready",
    "testing",
];

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: &str = "\
Cleanup: may take some time... OK
Starting test server at port 27079
[ready]: 4711
Testing unit/type/string
[ok]: SET and GET an item (1 ms)
[ok]: name (with brackets) and
a second line (12 ms)
a test prints this
[ignore]: big values: large memory flag not provided
[skip]: left out on purpose
[err]: SETNX target key missing in tests/unit/type/string.tcl
Expected '1' to be equal to '0' (context: type eval)
a second line of it
[err]: fast (3 ms) in tests/unit/type/string.tcl

[err]: read: connection is gone
    while executing
[1/1 done]: unit/type/string (17 seconds)

                   The End

Execution time of different units:
*** [err]: SETNX target key missing in tests/unit/type/string.tcl
";

    #[test]
    fn every_outcome_is_read() {
        let outcome = Outcome::parse(COMPLETE);
        let names = [
            "SET and GET an item",
            "name (with brackets) and\na second line",
        ];
        assert_eq!(outcome.passed, names);
        assert_eq!(outcome.failed.len(), 2);
        assert_eq!(outcome.failed[0].name, "SETNX target key missing");
        assert!(outcome.failed[0].reason.ends_with("\na second line of it"));
        assert_eq!(outcome.failed[1].name, "fast (3 ms)");
        assert_eq!(outcome.skipped, ["left out on purpose"]);
        assert_eq!(outcome.ignored, 1);
        assert_eq!(outcome.broken_groups.len(), 1);
        assert_eq!(outcome.ended_early, None);
    }

    #[test]
    fn a_file_that_ends_early_is_noticed() {
        let text = "[ok]: a (1 ms)\n[exception]: Executing test client: refused.\nmore\n";
        let outcome = Outcome::parse(text);
        let reason = "Executing test client: refused.\nmore";
        assert_eq!(outcome.ended_early.as_deref(), Some(reason));
        assert!(Outcome::parse("[ok]: a (1 ms)\n").ended_early.is_some());
    }

    #[test]
    fn the_test_that_hung_is_known() {
        let text = "[ok]: a (1 ms)\n[TIMEOUT]: clients state report follows.\n\
            sock55 => (IN PROGRESS) BLPOP for ever\nKilling still running Redis server 1\n";
        let outcome = Outcome::parse(text);
        assert_eq!(outcome.hung.as_deref(), Some("BLPOP for ever"));
        assert!(outcome.ended_early.is_some());
    }
}
