//! `cargo xtask simulate`: simulates a whole hub on one thread, seed by seed.

use crate::arguments::Arguments;
use crate::shell::{Failure, Shell};
use std::path::Path;

/// Simulates with the options of the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let seed = arguments.number("--seed", 1)?;
    let minutes = arguments.number("--minutes", 1)?;
    let log = arguments.flag("--log");
    arguments.end()?;
    let mut options = vec![format!("--seed={seed}"), format!("--minutes={minutes}")];
    options.extend(log.then(|| "--log".to_owned()));
    simulate(&Shell::new(root), &options)
}

/// Simulates for one minute.
pub(crate) fn short(shell: &Shell) -> Result<(), Failure> {
    simulate(shell, &["--seed=1".to_owned(), "--minutes=1".to_owned()])
}

fn simulate(shell: &Shell, options: &[String]) -> Result<(), Failure> {
    let program = ["run", "--quiet", "--package", "tidewire-simulator", "--"];
    let command = shell.cargo(program);
    options
        .iter()
        .fold(command, |command, option| command.argument(option))
        .run()
}
