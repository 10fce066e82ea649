//! `cargo xtask tidy`: the rules of CONTRIBUTING.md that rustfmt and clippy do not check.

mod fuzz;
mod links;
mod rust;
pub(crate) mod source;
mod text;

use crate::shell::{Failure, Shell};
use std::fmt;
use std::fs;
use std::path::Path;

/// Checks every file of the project and prints each violation.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let paths = files(root)?;
    let mut violations = Vec::new();
    for path in &paths {
        // A file that is deleted and not yet committed is still listed.
        let Ok(bytes) = fs::read(root.join(path)) else {
            continue;
        };
        violations.extend(of_file(root, path, &bytes, &paths));
    }
    for violation in &violations {
        println!("{violation}");
    }
    println!("{} files", paths.len());
    if violations.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} places break a rule",
        violations.len()
    )))
}

fn of_file(root: &Path, path: &str, bytes: &[u8], paths: &[String]) -> Vec<Violation> {
    let mut violations = text::size(path, bytes.len());
    let Ok(content) = std::str::from_utf8(bytes) else {
        return violations;
    };
    if !text::is_written_here(path) {
        return violations;
    }
    violations.extend(text::check(path, content));
    if path.ends_with(".rs") {
        violations.extend(rust::check(path, content));
    }
    if path.ends_with("/src/fuzzing.rs") {
        violations.extend(fuzz::check(path, content, paths));
    }
    if path.ends_with(".md") {
        let exists = |target: &Path| root.join(target).exists();
        violations.extend(links::check(path, content, exists));
    }
    violations
}

/// Returns all files that are committed or would be.
fn files(root: &Path) -> Result<Vec<String>, Failure> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let list = Shell::new(root).program("git", arguments).read()?;
    Ok(list.split_terminator('\0').map(str::to_owned).collect())
}

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    path: String,
    /// From 1; 0 stands for the whole file.
    line: usize,
    rule: String,
}

impl Violation {
    pub(crate) fn new(path: &str, line: usize, rule: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule: rule.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.rule)
    }
}
