//! `cargo xtask live`: checks live topics with an oracle. It runs random operations over all
//! protocols, with restarts, full syncs, and slow and late subscribers. The last message of each
//! subscriber must be the topic's state.

use crate::arguments::Arguments;
use crate::python;
use crate::server;
use crate::shell::{Failure, Program, Shell};
use std::path::{Path, PathBuf};

/// Runs `live` with the options of the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let mut words = Vec::new();
    for name in ["--operations", "--seconds", "--seed"] {
        if let Some(value) = arguments.value(name)? {
            words.extend([name.to_owned(), value]);
        }
    }
    for lanes in arguments.values("--lanes")? {
        words.extend(["--lanes".to_owned(), lanes]);
    }
    let binary = arguments.value("--binary")?.map(PathBuf::from);
    arguments.end()?;
    judge(&Shell::new(root), binary, &words)
}

/// Runs for the one minute of `cargo xtask test`.
pub(crate) fn short(shell: &Shell) -> Result<(), Failure> {
    let words = ["--seconds", "20", "--operations", "1000000"].map(str::to_owned);
    judge(shell, Some(server::build_checked(shell)?), &words)
}

fn judge(shell: &Shell, binary: Option<PathBuf>, words: &[String]) -> Result<(), Failure> {
    let requirements = shell.root().join("tests/python/requirements.txt");
    let python = python::environment(shell, &requirements)?;
    let binary = match binary {
        Some(binary) => binary,
        None => server::build(shell)?,
    };
    let oracle = shell
        .program(python, ["tests/live/oracle.py", "--binary"])
        .argument(&binary)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let add = |oracle: Program, word: &String| oracle.argument(word);
    words.iter().fold(oracle, add).run()
}
