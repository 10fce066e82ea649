//! `cargo xtask memory-check`: runs tests of `unsafe` code under Miri, which interprets them and
//! checks each memory access: `docs/checks-of-memory.md`.

use crate::shell::{Failure, Shell};
use std::path::Path;

/// Packages, and the names of the unit tests to run.
const TESTS: [(&str, &[&str]); 2] = [
    (
        "tidewire-keyspace",
        &[
            "entry::tests",
            "table::tests",
            "table::groups",
            "lock::tests",
        ],
    ),
    ("tidewire-memory", &["spans::tests"]),
];

/// Runs them, one package after the other, until Miri finds an error.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let shell = Shell::new(root);
    let nightly = || shell.program("rustup", ["run", "nightly", "cargo", "miri"]);
    if nightly().argument("--version").read().is_err() {
        return Err(Failure::new(
            "Miri is absent: rustup toolchain install nightly --component miri,rust-src",
        ));
    }
    for (package, names) in TESTS {
        let arguments = ["test", "--lib", "--package", package, "--"];
        // `commands::table` also has tests that use no pointers.
        let arguments = arguments
            .iter()
            .chain(names)
            .chain(&["--skip", "commands::"]);
        arguments
            .fold(nightly(), |miri, argument| miri.argument(argument))
            // Tests ask the system for random numbers and for the time.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .run()?;
    }
    Ok(())
}
