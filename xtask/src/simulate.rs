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
    let program = ["run", "--quiet", "--package", "tidewire-simulator", "--"];
    let command = Shell::new(root).cargo(program);
    options
        .iter()
        .fold(command, |command, option| command.argument(option))
        .run()
}

/// Simulates for one minute, with the program that the tests of the workspace have built. Alone it
/// has other features, so that nearly all crates would be built again.
pub(crate) fn short(shell: &Shell) -> Result<(), Failure> {
    let program = shell.target().join("debug/tidewire-simulator");
    shell.program(program, ["--seed=1", "--minutes=1"]).run()
}
