//! `cargo xtask bench`: builds the program and the benches in release mode, and measures.

use crate::shell::{Failure, Shell};
use std::path::Path;

/// Runs the benchmark that the command line names.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let shell = Shell::new(root);
    build(&shell)?;
    let binary = shell.target().join("release/tidewire-bench");
    let mut bench = shell.program(binary, []);
    for argument in arguments {
        bench = bench.argument(argument);
    }
    bench.run()
}

/// Builds both: the benches start the program in the same folder.
pub(crate) fn build(shell: &Shell) -> Result<(), Failure> {
    shell
        .cargo([
            "build",
            "--release",
            "-p",
            "tidewire",
            "-p",
            "tidewire-bench",
        ])
        .run()
}
