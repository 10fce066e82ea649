//! `cargo xtask assertions`: counts the invariants that the code asserts, per 1,000 lines of each
//! crate.
//!
//! Lines of code, comments and empty lines count alike. Tests do not count, neither as lines nor as
//! assertions: items under `#[cfg(test)]`, files that only such a `mod` names, `tests.rs` and
//! `fuzzing.rs`. Tables of declarations do not count either.

use crate::shell::{Failure, Shell};
use crate::tidy::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const CRATES: [&str; 7] = [
    "hub", "fanout", "market", "plant", "redis", "keyspace", "zmq",
];

const MACROS: [&str; 6] = [
    "assert!",
    "assert_eq!",
    "assert_ne!",
    "debug_assert!",
    "debug_assert_eq!",
    "debug_assert_ne!",
];

/// Folders of declarations without invariants: records of commands.
const TABLES: [&str; 2] = [
    "crates/keyspace/src/commands/table/",
    "crates/keyspace/src/commands/syntax/",
];

/// Prints the counts of each crate, or of each file of one crate.
pub(crate) fn run(root: &Path, only: Option<&str>) -> Result<(), Failure> {
    let crates = only.map_or_else(|| CRATES.to_vec(), |name| vec![name]);
    print_row("", "lines", "assertions", "per 1,000");
    let mut total = Count::default();
    for name in crates {
        let folder = format!("crates/{name}/src/");
        let files = files(root, &folder)?;
        if files.is_empty() {
            return Err(Failure::new(format!("no Rust files in {folder}")));
        }
        let counts = count(&files);
        if only.is_some() {
            for (path, count) in &counts {
                count.print(path.strip_prefix(&folder).unwrap_or(path));
            }
        }
        let sum = counts.values().fold(Count::default(), Count::plus);
        sum.print(name);
        total = total.plus(&sum);
    }
    if only.is_none() {
        total.print("all");
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    lines: usize,
    assertions: usize,
}

impl Count {
    fn plus(self, other: &Self) -> Self {
        Self {
            lines: self.lines + other.lines,
            assertions: self.assertions + other.assertions,
        }
    }

    /// Returns assertions per 10,000 lines, rounded: tenths of the printed number.
    fn tenths(self) -> usize {
        (self.assertions * 10_000 + self.lines / 2)
            .checked_div(self.lines)
            .unwrap_or(0)
    }

    fn print(self, name: &str) {
        let tenths = self.tenths();
        let rate = format!("{}.{}", tenths / 10, tenths % 10);
        print_row(
            name,
            &self.lines.to_string(),
            &self.assertions.to_string(),
            &rate,
        );
    }
}

fn print_row(name: &str, lines: &str, assertions: &str, rate: &str) {
    println!("{name:<40} {lines:>8} {assertions:>11} {rate:>10}");
}

/// Returns path and content of each Rust file below `folder`.
fn files(root: &Path, folder: &str) -> Result<BTreeMap<String, String>, Failure> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        folder,
    ];
    let list = Shell::new(root).program("git", arguments).read()?;
    let paths = list.split_terminator('\0').filter(|p| p.ends_with(".rs"));
    // A file deleted and not yet committed is still listed.
    let read = |path: &str| Some((path.to_owned(), fs::read_to_string(root.join(path)).ok()?));
    Ok(paths.filter_map(read).collect())
}

/// Counts each file that is neither a test nor a table.
fn count(files: &BTreeMap<String, String>) -> BTreeMap<String, Count> {
    let sources: BTreeMap<&String, Source> = files
        .iter()
        .map(|(path, content)| (path, Source::new(content)))
        .collect();
    let tests: BTreeSet<String> = sources
        .iter()
        .flat_map(|(path, source)| test_modules(path, source))
        .collect();
    let is_counted = |path: &str| {
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
        let is_test = tests
            .iter()
            .any(|test| module == test || path.starts_with(&format!("{test}/")))
            || ["tests", "fuzzing"].iter().any(|name| is_part(path, name));
        !is_test && !TABLES.iter().any(|folder| path.starts_with(folder))
    };
    sources
        .iter()
        .filter(|(path, _)| is_counted(path))
        .map(|(path, source)| ((*path).clone(), of_source(source)))
        .collect()
}

/// Returns whether the path contains a file or folder with this name.
fn is_part(path: &str, name: &str) -> bool {
    path.split('/').any(|part| {
        part.strip_prefix(name)
            .is_some_and(|rest| ["", ".rs"].contains(&rest))
    })
}

/// Returns the paths, without ending, of modules declared as `mod name;` under `#[cfg(test)]`.
fn test_modules(path: &str, source: &Source) -> Vec<String> {
    let stem = path.trim_end_matches(".rs");
    let folder = match stem.rsplit_once('/') {
        Some((folder, "mod" | "lib" | "main")) => folder,
        _ => stem,
    };
    let name = |line: &str| {
        let (_, name) = line.trim().strip_suffix(';')?.split_once("mod ")?;
        Some(format!("{folder}/{name}"))
    };
    let lines = source.code.iter().enumerate();
    lines
        .filter(|(number, _)| source.is_test(*number))
        .filter_map(|(_, line)| name(line))
        .collect()
}

fn of_source(source: &Source) -> Count {
    let lines = || {
        let all = source.code.iter().enumerate();
        all.filter(|(number, _)| !source.is_test(*number))
    };
    Count {
        // There is no line after the last line end.
        lines: lines().count().saturating_sub(1),
        assertions: lines().map(|(_, line)| of_line(line)).sum(),
    }
}

fn of_line(line: &str) -> usize {
    let is_start = |at: usize| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    };
    let of_name = |name: &&str| {
        let places = line.match_indices(*name);
        places.filter(|(at, _)| is_start(*at)).count()
    };
    MACROS.iter().map(of_name).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(files: &[(&str, &str)]) -> Vec<(String, usize, usize)> {
        let files = files
            .iter()
            .map(|(path, content)| ((*path).to_owned(), (*content).to_owned()))
            .collect();
        let counts = count(&files).into_iter();
        counts
            .map(|(path, count)| (path, count.lines, count.assertions))
            .collect()
    }

    #[test]
    fn assertions_are_counted_and_tests_are_not() {
        let content = "fn f() {\n    debug_assert!(a);\n    assert_eq!(a, b); // assert!(c)\n}\n\
                       #[cfg(test)]\nmod tests {\n    fn g() { assert!(d); }\n}\n";
        let expected = [("crates/a/src/b.rs".to_owned(), 4, 2)];
        assert_eq!(counts(&[("crates/a/src/b.rs", content)]), expected);
    }

    #[test]
    fn files_of_tests_and_tables_are_left_out() {
        let table = format!("{}lists.rs", TABLES[0]);
        let files = [
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod model;\nmod c;\n"),
            ("crates/a/src/model.rs", "assert!(a);\n"),
            ("crates/a/src/model/deep.rs", "assert!(a);\n"),
            ("crates/a/src/c/tests.rs", "assert!(a);\n"),
            ("crates/a/src/fuzzing.rs", "assert!(a);\n"),
            ("crates/a/src/c.rs", "const { assert!(a) };\n"),
            (&table, "assert!(a);\n"),
        ];
        let expected = [
            ("crates/a/src/c.rs".to_owned(), 1, 1),
            ("crates/a/src/lib.rs".to_owned(), 1, 0),
        ];
        assert_eq!(counts(&files), expected);
    }

    #[test]
    fn the_rate_is_rounded() {
        let rate = |lines, assertions| Count { lines, assertions }.tenths();
        assert_eq!(rate(1_000, 10), 100);
        assert_eq!(rate(3_000, 10), 33);
        assert_eq!(rate(0, 0), 0);
    }
}
